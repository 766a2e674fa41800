// Correlation with 3 x 3 taps, and the magnitude of two, of rows that hold several channels: samples of
// 16 bits, and packed 4:2:2, where luma and chroma of one row are of different widths.
//
// Bytes: each sample read once and written once; at 4.3 TB/s 3 µs for 1080p P010, 8 for RGBA64.
// Operations for a sample: its conversion and its share of those beside it, 3 or 4 instructions for each; the
// taps; 7 for rounding and packing. About 20 in all, of which the rows above and below a tile cost some twice. Issue takes
// 2 to 4 µs for 1080p P010.
//
// A block of 128 threads copies the bytes of a tile and of what is around it to shared memory, 16 at a
// time, and makes up what the border says of the places beyond the edges. Then each thread goes down the
// rows of its few columns. The sums of the outputs that a row belongs to are in registers: every row adds its product to
// each of them, in the step from the sum of one output to that of the next, so nothing is moved or read twice.
// Products are added in ascending order, which is the canonical one.
//
// There are 3 x 3 taps, filled up with zeros by the host; weights are in the constant bank of the launch, where
// multiply-adds take them as operands.
#include "rows.cuh"

// --- Loading -------------------------------------------------------------------------------------

// As a channel stores what lies beyond the edge.
template <typename Sample>
DEVICE Sample beyond_of(const Tile& tile, int channel) {
    const CudaconvChannel& own = tile.job.channels[channel];
    return sample_of<Sample>(tile.frame, static_cast<u32>(own.beyond + own.zero));
}

// The rows of a tile and those around it.
template <typename S>
struct Rows {
    int above, last;
    bool simple;  // all of them are in the picture, or the nearest that is stands for them
    const int* positions;

    __device__ __forceinline__ Rows(Shared<S>& shared, const Tile& tile)
        : above(tile.y0 - S::RADIUS), last(tile.job.height - 1), positions(shared.positions) {
        simple = tile.frame.border == CUDACONV_REPLICATE || (above >= 0 && above + S::ROWS_READ <= last + 1);
        if (simple) return;
#pragma unroll 1
        for (int row = threadIdx.x; row < S::ROWS_READ; row += THREADS)
            shared.positions[row] = border_position(tile.frame.border, above + row, last + 1);
        __syncthreads();
    }

    // The row of the picture that is read for row `row`, also where the border's constant stands for it.
    __device__ __forceinline__ u32 operator[](int row) const {
        return simple ? min(max(above + row, 0), last) : max(positions[row], 0);
    }
};

// Gives the columns beyond the edges, and those of a piece that holds some of them, what the border says.
template <typename S>
DEVICE void complete_columns(Shared<S>& shared, const Tile& tile, const Rows<S>& rows) {
    using Format = typename S::Format;
    using Sample = typename Format::Sample;
    constexpr int SIZE = sizeof(Sample), ACROSS = S::PITCH / SIZE;
    const int inside = Format::inside(tile);
    if (tile.x0 >= S::HALO && tile.x0 + S::TILE_BYTES + S::HALO <= inside) return;
    // Counted in samples of a loaded row: a run on the left and one on the right.
    const int reach = S::RADIUS * Format::step(tile), lead = (tile.x0 - S::HALO) / SIZE;
    const int left = max(-lead, 0), right = min(inside / PIECE * (PIECE / SIZE) - lead, ACROSS);
    const int begin = max(left - reach, 0), end = min(tile.row_bytes / SIZE - lead + reach, ACROSS);
    const int beyond = left - begin + end - right;
#pragma unroll 1
    for (int i = threadIdx.x; i < beyond * S::ROWS_READ; i += THREADS) {
        const int row = i / beyond, n = i % beyond;
        const int place = n < left - begin ? begin + n : right + n - (left - begin);
        const int from = Format::position(tile, place + lead);
        const cudaconv_u64 address = tile.input(rows[row]) + max(from, 0) * SIZE;
        reinterpret_cast<Sample*>(shared.rows[row])[place] =
            from == BEYOND ? beyond_of<Sample>(tile, Format::channel(tile, place + lead)) : read_sample<Sample>(address);
    }
}

// Gives rows the border's constant where it stands for them.
template <typename S>
DEVICE void complete_rows(Shared<S>& shared, const Tile& tile) {
    using Sample = typename S::Format::Sample;
#pragma unroll 1
    for (int row = threadIdx.x / WARP; row < S::ROWS_READ; row += THREADS / WARP) {
        if (shared.positions[row] != BEYOND) continue;
#pragma unroll 1
        for (int place = lane(); place < S::PITCH / static_cast<int>(sizeof(Sample)); place += WARP) {
            const int channel = S::Format::channel(tile, place);
            reinterpret_cast<Sample*>(shared.rows[row])[place] = beyond_of<Sample>(tile, channel);
        }
    }
}

// Fills the tile. A thread reads several pieces, and while they are under way what is at the edges, before it
// stores the first.
template <typename S>
DEVICE void load(Shared<S>& shared, const Tile& tile) {
    constexpr int COUNT = S::PIECES * S::ROWS_READ, TURNS = (COUNT + THREADS - 1) / THREADS;
    constexpr int PASSES = (TURNS + MOST_AT_ONCE - 1) / MOST_AT_ONCE, AT_ONCE = (TURNS + PASSES - 1) / PASSES;
    const int inside = S::Format::inside(tile);
    const Rows<S> rows(shared, tile);
    const cudaconv_u64 input = tile.input(0) + (tile.x0 - S::HALO);
    const u32 stride = tile.job.channels[0].input_stride;
    uint4* pieces = shared.rows[0];
#pragma unroll 1
    for (int turn = 0; turn < TURNS; turn += AT_ONCE) {
        uint4 held[AT_ONCE];
        bool there[AT_ONCE];
#pragma unroll
        for (int n = 0; n < AT_ONCE; ++n) {
            const u32 index = (turn + n) * THREADS + threadIdx.x;
            const u32 row = index / S::PIECES, byte = index % S::PIECES * PIECE;
            const int at = tile.x0 - S::HALO + static_cast<int>(byte);
            there[n] = index < COUNT && at >= 0 && at + PIECE <= inside;
            if (there[n]) held[n] = read_sample<uint4>(input + byte + static_cast<cudaconv_u64>(rows[row]) * stride);
        }
        if (turn == 0) complete_columns(shared, tile, rows);
#pragma unroll
        for (int n = 0; n < AT_ONCE; ++n)
            if (there[n]) pieces[(turn + n) * THREADS + threadIdx.x] = held[n];
    }
    __syncthreads();
    if (rows.simple || tile.frame.border != CUDACONV_CONSTANT) return;
    complete_rows(shared, tile);
    __syncthreads();
}

// --- Sums ----------------------------------------------------------------------------------------

// Words FIRST to LAST - 1, counted from a thread's first own one, by loads as wide as they are aligned.
template <int FIRST, int LAST, int WIDEST, int COUNT>
DEVICE void read_words(u32 (&words)[COUNT], const u32* own) {
    if constexpr (FIRST < LAST) {
        constexpr int BESIDE = (COUNT - WIDEST) / 2, LEFT = LAST - FIRST;
        constexpr int TAKEN = WIDEST == 4 && FIRST % 4 == 0 && LEFT >= 3 ? 4 : FIRST % 2 == 0 && LEFT >= 2 ? 2 : 1;
        constexpr int TO = FIRST + BESIDE;
        if constexpr (TAKEN == 4) {
            const uint4 four = *reinterpret_cast<const uint4*>(own + FIRST);
            words[TO] = four.x, words[TO + 1] = four.y, words[TO + 2] = four.z;
            if constexpr (LEFT > 3) words[TO + 3] = four.w;
        } else if constexpr (TAKEN == 2) {
            const uint2 two = *reinterpret_cast<const uint2*>(own + FIRST);
            words[TO] = two.x, words[TO + 1] = two.y;
        } else {
            words[TO] = own[FIRST];
        }
        read_words<FIRST + TAKEN, LAST, WIDEST>(words, own);
    }
}

// Of the outputs that the last 2 * RADIUS rows belong to.
template <typename S>
using Chain = float[S::KERNELS][2 * S::RADIUS][S::SAMPLES];
template <typename S>
using Sums = float[S::SAMPLES];

// Floats of a line of taps.
template <typename S>
constexpr int LINE = rounded_up(2 * S::RADIUS + 1, 4);

// Samples from a tap of what is computed as sample `index` to the next tap; `STEP` is that of all channels, 0
// of packed 4:2:2.
template <int STEP>
constexpr int step_of(int index) { return STEP > 0 ? STEP : index % 2 == 0 ? 2 : 4; }

// Adds the row at `own` to the sums that it belongs to, and gives those that are complete.
template <typename S, int STEP>
DEVICE void take_row(Sums<S>& sums, Chain<S>& chain, const u32* own, const CudaconvConvolveLaunch& launch,
                     const typename S::Format& format, const float (&base)[PERIOD]) {
    constexpr int PER_WORD = S::Format::SAMPLES, REACH = S::RADIUS * (STEP > 0 ? STEP : 4);
    constexpr int BESIDE = (REACH + PER_WORD - 1) / PER_WORD, LEAD = BESIDE * PER_WORD;
    u32 words[S::WORDS + 2 * BESIDE];
    read_words<-BESIDE, S::WORDS + BESIDE, S::WORDS>(words, own);
    float window[LEAD + S::SAMPLES + REACH];
#pragma unroll
    for (int s = LEAD - REACH; s < LEAD + S::SAMPLES + REACH; ++s)
        window[s] = format.value(words[s / PER_WORD], s % PER_WORD, base[(s + LEAD * (PERIOD - 1)) % PERIOD]);
#pragma unroll
    for (int p = 0; p < S::SAMPLES; ++p) {
        const int step = step_of<STEP>(p);
        float complete[S::KERNELS];
#pragma unroll
        for (int n = 0; n < S::KERNELS; ++n) {
            const float* taps = launch.inline_weights + n * 3 * LINE<S>;
            float third = chain[n][1][p], second = chain[n][0][p], first = 0.0f;
#pragma unroll
            for (int i = 0; i < 3; ++i) {
                const float value = window[LEAD + p + (i - 1) * step];
                third = fmaf(taps[2 * LINE<S> + i], value, third);
                second = fmaf(taps[LINE<S> + i], value, second);
                first = fmaf(taps[i], value, first);
            }
            complete[n] = third;
            chain[n][1][p] = second, chain[n][0][p] = first;
        }
        sums[p] = S::KERNELS == 2 ? magnitude(complete[0], complete[S::KERNELS - 1]) : complete[0];
    }
}

// --- Writing -------------------------------------------------------------------------------------

// What is done with the bytes of two words, in the order of memory.
struct Masks {
    u32 filtered[2], copied[2];  // masks
    u32 filled[2];               // the bytes that are filled, 0 elsewhere

    template <typename Format>
    static __device__ __forceinline__ Masks of(const Tile& tile) {
        using Sample = typename Format::Sample;
        Masks masks;
#pragma unroll
        for (int w = 0; w < 2; ++w) {
            masks.filtered[w] = masks.copied[w] = masks.filled[w] = 0;
#pragma unroll
            for (int s = 0; s < Format::SAMPLES; ++s) {
                const CudaconvChannel& channel = tile.job.channels[Format::channel(tile, w * Format::SAMPLES + s)];
                const int bits = 8 * sizeof(Sample), at = s * bits;
                const u32 mask = ((1u << bits) - 1) << at;
                masks.filtered[w] |= channel.action == CUDACONV_FILTER ? mask : 0;
                masks.copied[w] |= channel.action == CUDACONV_COPY ? mask : 0;
                masks.filled[w] |= channel.action == CUDACONV_FILL ? u32(sample_of<Sample>(tile.frame, channel.fill)) << at : 0;
            }
        }
        return masks;
    }

    __device__ __forceinline__ bool all_filtered() const { return (filtered[0] & filtered[1]) == 0xffffffff; }
};

// The words of sums, rounded.
template <typename S>
DEVICE void round_row(u32 (&words)[S::WORDS], const Sums<S>& sums, const CudaconvConvolveLaunch& launch,
                      const typename S::Format& format, const float (&offset)[PERIOD]) {
    float quotients[S::SAMPLES];
#pragma unroll
    for (int p = 0; p < S::SAMPLES; ++p) quotients[p] = __fmul_rn(sums[p], launch.reciprocal);
    // A power of two divides exactly by its reciprocal.
    if ((__float_as_uint(launch.divisor) & 0x7fffff) != 0) {
#pragma unroll
        for (int p = 0; p < S::SAMPLES; ++p) quotients[p] = divided(launch, sums[p]);
    }
    u32 codes[S::SAMPLES];
#pragma unroll
    for (int p = 0; p < S::SAMPLES; ++p) {
        const float value = quotients[p] + offset[p % PERIOD];
        codes[p] = __float_as_uint(fminf(fmaxf(value, 0.0f), launch.frame.max_code) + WHOLE);
    }
#pragma unroll
    for (int k = 0; k < S::WORDS; ++k) words[k] = format.packed(codes + k * S::Format::SAMPLES);
}

// Writes the first `left` bytes of the words.
template <typename S>
DEVICE void write_words(cudaconv_u64 address, int left, const u32 (&words)[S::WORDS]) {
    if (left >= S::BYTES) {
        if constexpr (S::WORDS == 4)
            write_sample(address, make_uint4(words[0], words[1], words[2], words[3]));
        else
            write_sample(address, make_uint2(words[0], words[1]));
        return;
    }
#pragma unroll
    for (int k = 0; k < S::WORDS; ++k) {
        if (left >= (k + 1) * WORD)
            write_sample(address + k * WORD, words[k]);
        else if (left > k * WORD)
            write_sample<u16>(address + k * WORD, words[k]);
    }
}

// --- A tile --------------------------------------------------------------------------------------

// What a thread does: its first byte of a row of the tile, its first row there.
template <typename S>
struct Part {
    int byte, row;
    int left;  // bytes of the row from there on
    int rows;  // that there are

    __device__ __forceinline__ explicit Part(const Tile& tile)
        : byte(threadIdx.x % S::LANES * S::BYTES),
          row(threadIdx.x / S::LANES * S::ROWS),
          left(tile.row_bytes - tile.x0 - byte),
          rows(min(S::ROWS, static_cast<int>(tile.job.height) - tile.y0 - row)) {}
};

template <typename S>
DEVICE void filter(const Shared<S>& shared, const Tile& tile, const CudaconvConvolveLaunch& launch) {
    using Format = typename S::Format;
    const Part<S> part(tile);
    if (part.left <= 0) return;
    const Format format(tile);
    const Masks masks = Masks::of<Format>(tile);
    float base[PERIOD], offset[PERIOD];
#pragma unroll
    for (int c = 0; c < PERIOD; ++c) {
        const CudaconvChannel& channel = tile.job.channels[format.computed_channel(tile, c)];
        base[c] = format.base(channel.zero), offset[c] = channel.offset;
    }
    Chain<S> chain;
#pragma unroll
    for (int n = 0; n < S::KERNELS; ++n)
#pragma unroll
        for (int j = 0; j < 2 * S::RADIUS; ++j)
#pragma unroll
            for (int p = 0; p < S::SAMPLES; ++p) chain[n][j][p] = 0.0f;
    constexpr int PITCH = S::PITCH / WORD;
    const u32* own = reinterpret_cast<const u32*>(shared.rows[part.row]) + (S::HALO + part.byte) / WORD;
    cudaconv_u64 to = tile.output(tile.y0 + part.row) + tile.x0 + part.byte;
#pragma unroll 1
    for (int r = 0; r < part.rows + 2 * S::RADIUS; ++r) {
        Sums<S> sums;
        const u32* row = own + r * PITCH;
        if constexpr (Format::SAMPLES == 4) {
            take_row<S, 0>(sums, chain, row, launch, format, base);
        } else {
            switch (tile.channels) {
                case 1: take_row<S, 1>(sums, chain, row, launch, format, base); break;
                case 2: take_row<S, 2>(sums, chain, row, launch, format, base); break;
                default: take_row<S, 4>(sums, chain, row, launch, format, base);
            }
        }
        if (r < 2 * S::RADIUS) continue;
        u32 words[S::WORDS];
        round_row<S>(words, sums, launch, format, offset);
        if (!masks.all_filtered()) {
            const u32* centre = row - S::RADIUS * PITCH;
#pragma unroll
            for (int k = 0; k < S::WORDS; ++k)
                words[k] = (words[k] & masks.filtered[k % 2]) | masks.filled[k % 2] | (centre[k] & masks.copied[k % 2]);
        }
        if constexpr (Format::SAMPLES == 4) {
            // The byte that is no pixel.
            if (tile.job.width % 2 == 1 && part.left <= S::BYTES) {
                const u32 last = part.left / WORD - 1, mask = format.second ? 0xff000000 : 0x00ff0000;
                const u32 there = read_sample<u32>(tile.input(tile.y0 + part.row + r - 2 * S::RADIUS) + tile.row_bytes - WORD);
#pragma unroll
                for (u32 k = 0; k < S::WORDS; ++k) words[k] = k == last ? (words[k] & ~mask) | (there & mask) : words[k];
            }
        }
        write_words<S>(to, part.left, words);
        to += tile.job.channels[0].output_stride;
    }
}

template <typename S>
DEVICE void copy_or_fill(const Tile& tile) {
    const Part<S> part(tile);
    const Masks masks = Masks::of<typename S::Format>(tile);
    if (part.left <= 0) return;
    const bool copied = (masks.copied[0] | masks.copied[1]) != 0;
#pragma unroll 1
    for (int r = 0; r < part.rows; ++r) {
        const int y = tile.y0 + part.row + r;
        u32 words[S::WORDS];
#pragma unroll
        for (int k = 0; k < S::WORDS; ++k) {
            const int byte = tile.x0 + part.byte + k * WORD;
            words[k] = masks.filled[k % 2];
            if (copied && byte < tile.row_bytes) words[k] |= read_sample<u32>(tile.input(y) + byte) & masks.copied[k % 2];
        }
        write_words<S>(tile.output(y) + tile.x0 + part.byte, part.left, words);
    }
}

template <typename S>
DEVICE void small_kernel(const CudaconvConvolveLaunch& launch) {
    __shared__ Shared<S> shared;
    const CudaconvFrame& frame = launch.frame;
    const CudaconvJob& job = frame.jobs[job_of(frame, blockIdx.y)];
    if (blockIdx.x >= job.tiles_across) return;
    const int x0 = blockIdx.x * S::TILE_BYTES, y0 = (blockIdx.y - job.first_tile_row) * S::TILE_ROWS;
    const Tile tile = {frame, job, x0, y0, S::Format::row_bytes(job), static_cast<int>(job.channel_count)};
    bool filtered = false;
#pragma unroll
    for (int c = 0; c < CUDACONV_CHANNELS; ++c)
        filtered |= c < tile.channels && job.channels[c].action == CUDACONV_FILTER;
    if (!filtered) return copy_or_fill<S>(tile);
    load(shared, tile);
    filter(shared, tile, launch);
}

// Blocks of a multiprocessor: leaves all the registers that are needed.

// Shapes as they were fastest for 1080p on an H200.
#ifdef DIRECT3_U16
KERNEL(direct3_u16, CudaconvConvolveLaunch, (THREADS, 8), small_kernel<Shape<Words, 1, 16, 4, 16>>(launch))
#endif
#ifdef DIRECT3_MAGNITUDE_U16
KERNEL(direct3_magnitude_u16, CudaconvConvolveLaunch, (THREADS, 8), small_kernel<Shape<Words, 2, 8, 8, 32>>(launch))
#endif
#ifdef DIRECT3_422
KERNEL(direct3_422, CudaconvConvolveLaunch, (THREADS, 4), small_kernel<Shape<Packed422, 1, 16, 4, 16>>(launch))
#endif
#ifdef DIRECT3_MAGNITUDE_422
KERNEL(direct3_magnitude_422, CudaconvConvolveLaunch, (THREADS, 6), small_kernel<Shape<Packed422, 2, 8, 8, 32>>(launch))
#endif
