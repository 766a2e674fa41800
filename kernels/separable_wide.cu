// Correlation with kernels of rank 1 of 35 + 35 to 65 + 65 taps: horizontal sums, then vertical sums of those, fused in
// one kernel through shared memory, in the canonical order.
//
// Bytes: each sample read once and written once; at 4.3 TB/s 1 µs for 1080p GRAY8, 4 µs for RGBA.
// Operations: width + height FMAs per sample, the 2 * radius rows around a tile summed horizontally again, and about 80
// other instructions (conversion, rounding, shared memory, addresses). Bound by issue, 132 * 4 instructions for 32
// samples each per cycle: with 65 + 65 taps at 1.98 GHz 20 µs for 1080p GRAY8 and 250 for 4K RGBA. Measured, it takes about
// twice as long, as a tile waits for its samples and at barriers. Twice the sums a thread are slower, and so is asking for
// the next samples before they are needed.
//
// A block of 256 threads goes down a strip of 64 columns of one channel after the other, 32 rows (a slab) at a time:
// 1. samples are loaded as floats, four of a row at once where they lie so;
// 2. a thread sums 8 neighbours horizontally, into a ring of as many slabs as a slab of results needs;
// 3. a thread sums 8 rows of a column vertically, and writes them.
// Both sums are one loop over eight taps at a time, with weights from shared memory, filled up with zeros on either
// side: those add nothing to sums of numbers.
#include "common.cuh"

// Columns of a tile, and rows of a slab.
constexpr int WIDTH = 64, ROWS = 32;
// Outputs of a thread: neighbours of a row in the horizontal sums, of a column in the vertical ones.
constexpr int OWN = 8;
constexpr int THREADS = WIDTH * ROWS / OWN, WARPS = THREADS / WARP;
// Blocks of a multiprocessor: leaves 64 registers.
constexpr int BLOCKS = 4;
// Taps that are taken at once, behind the first.
constexpr int TAPS = 8;
// Samples that a thread loads at once; a warp loads a row.
constexpr int RUN = 4;
// Floats of a row of horizontal sums: rows begin in different banks.
constexpr int PITCH = WIDTH + 4;
// Rows that a warp asks for at once.
constexpr int AHEAD = 4;
static_assert(WIDTH + 2 * CUDACONV_MAX_RADIUS <= WARP * RUN && OWN == TAPS, "as the loops below have it");

// --- The filter ----------------------------------------------------------------------------------

// What a block knows. In shared memory, so that it takes no registers where it is not needed.
struct Tile {
    int x, y, rows;           // the first column and row, and how many rows
    int radius_x, radius_y;
    int steps_x, steps_y;     // of TAPS taps behind the first
    int halo;                 // columns on either side that are loaded
    int pitch;                // floats of a row of samples
    int slabs;                // of horizontal sums that a slab of results needs
    int ring, weights;        // where horizontal sums and weights begin in dynamic shared memory, behind the samples
    int weights_x, weights_y; // floats of weights

    __device__ __forceinline__ void describe(const CudaconvConvolveLaunch& launch, const CudaconvJob& job) {
        const CudaconvTaps& taps = launch.kernels[0];
        x = blockIdx.x * WIDTH, y = (blockIdx.y - job.first_tile_row) * launch.frame.tile_height;
        rows = min(static_cast<int>(launch.frame.tile_height), static_cast<int>(job.height) - y);
        radius_x = taps.width / 2, radius_y = taps.height / 2;
        steps_x = (2 * radius_x + TAPS - 1) / TAPS, steps_y = (2 * radius_y + TAPS - 1) / TAPS;
        halo = steps_x * TAPS / 2, pitch = WIDTH + 2 * halo + 4;
        slabs = 1 + (2 * radius_y + ROWS - 1) / ROWS;
        weights_x = 4 + steps_x * TAPS, weights_y = 4 + steps_y * TAPS;
        ring = ROWS * pitch, weights = ring + slabs * ROWS * PITCH;
    }
};

// Puts a line of weights to shared memory, the first of them at 3, with `before` zeros before them and others behind.
DEVICE void put_line(float* to, int length, const float* weights, int count, int before) {
    for (int i = threadIdx.x; i < length; i += THREADS) {
        const int tap = i - 3 - before;
        to[i] = tap >= 0 && tap < count ? weights[tap] : 0.0f;
    }
}

DEVICE void put_weights(float* shared, const Tile& tile, const CudaconvConvolveLaunch& launch) {
    const int width = 2 * tile.radius_x + 1, height = 2 * tile.radius_y + 1;
    const float* own = launch.inline_weights + launch.kernels[0].first;
    float* to = shared + tile.weights;
    put_line(to, tile.weights_x, own, width, tile.halo - tile.radius_x);
    put_line(to + tile.weights_x, tile.weights_y, own + line_of(width), height, 0);
}

// --- Samples -------------------------------------------------------------------------------------

// A channel as it is read and written. In shared memory, so that it takes no registers where it is not needed.
struct Source {
    cudaconv_u64 input, output;
    cudaconv_u64 pixels;  // of its first pixel, of which `step` bytes are one
    u32 input_stride, output_stride, step;
    u32 words;            // that RUN pixels are, which are read at once: 2, 3, 4 or 8; 0 if samples are read one by one
    u32 select[3];        // which bytes of these words are the samples
    float base;           // what is subtracted of code values and WHOLE: the zero level, if that is a whole number
    float zero, offset, beyond;

    template <typename Sample>
    __device__ __forceinline__ void describe(const CudaconvJob& job, const CudaconvChannel& channel) {
        input = channel.input, output = channel.output;
        input_stride = channel.input_stride, output_stride = channel.output_stride, step = channel.step;
        zero = channel.zero, offset = channel.offset, beyond = channel.beyond;
        const bool three = sizeof(Sample) == 1 && step == 3 && job.packed == 1;
        const bool known = three || step == 2 || step == 4 || step == (sizeof(Sample) == 1 ? 1 : 8);
        const u32 address = static_cast<u32>(input);
        const u32 within = three ? address - static_cast<u32>(job.channels[0].input) : address & (step - 1);
        pixels = input - within;
        const u32 unit = three ? 4 : min(4 * step, 16u);
        const bool aligned = ((static_cast<u32>(pixels) | input_stride) & (unit - 1)) == 0;
        words = known && aligned && zero == truncf(zero) ? step : 0;
        base = WHOLE + zero;
        select[0] = select[1] = select[2] = 0x3210;
        if (sizeof(Sample) == 2) {
            if (step > 2) select[0] = select[1] = within % 4 == 0 ? 0x5410 : 0x7632;
            // Of four words of eight, those that have the sample.
            if (step == 8) pixels += within / 4 * 4;
        } else if (step == 2) {
            select[0] = 0x6420 + within * 0x1111;
        } else if (step == 3) {
            select[0] = within == 0 ? 0x0630 : within == 1 ? 0x0741 : 0x0052;
            select[2] = within == 0 ? 0x5210 : within == 1 ? 0x6210 : 0x7410;
        } else if (step == 4) {
            select[0] = select[1] = 0x0040 + within * 0x0011, select[2] = 0x5410;
        }
    }
};

// Reads RUN pixels; of two words of samples of 16 bits the second becomes the third.
template <typename Sample>
DEVICE void read_words(u32 (&words)[4], cudaconv_u64 from, u32 count) {
    if (count == 4) {
        const uint4 four = read_sample<uint4>(from);
        words[0] = four.x, words[1] = four.y, words[2] = four.z, words[3] = four.w;
    } else if (count == 2) {
        const uint2 two = read_sample<uint2>(from);
        words[0] = two.x, words[sizeof(Sample)] = two.y;
    } else if (sizeof(Sample) == 1) {
        words[0] = read_sample<u32>(from);
        if (count == 3) words[1] = read_sample<u32>(from + 4), words[2] = read_sample<u32>(from + 8);
    } else {
#pragma unroll
        for (int k = 0; k < RUN; ++k) words[k] = read_sample<u32>(from + 8 * k);
    }
}

// in' of the samples in such words.
template <typename Sample>
DEVICE float4 values_of(const CudaconvFrame& frame, const u32 (&words)[4], const Source& source) {
    const u32 a = __byte_perm(words[0], words[1], source.select[0]);
    const u32 b = __byte_perm(words[2], words[3], source.select[1]);
    const float base = source.base;
    const auto value = [&](u32 word, u32 select) {
        return __uint_as_float(__byte_perm(word, 0x4b000000, select)) - base;
    };
    if constexpr (sizeof(Sample) == 1) {
        const u32 all = __byte_perm(a, b, source.select[2]);
        return make_float4(value(all, 0x7440), value(all, 0x7441), value(all, 0x7442), value(all, 0x7443));
    } else {
        const u32 mask = static_cast<u32>(frame.max_code) * 0x10001u;
        const u32 order = frame.sample == CUDACONV_U16_BE ? 0x2301 : 0x3210;
        const auto decoded = [&](u32 word) { return __byte_perm(word, 0, order) >> frame.shift & mask; };
        const u32 first = decoded(a), second = decoded(b);
        return make_float4(value(first, 0x7410), value(first, 0x7432), value(second, 0x7410), value(second, 0x7432));
    }
}

// What is loaded of a slab: in' of a channel.
template <typename Sample>
struct Slab {
    const CudaconvFrame& frame;
    const CudaconvJob& job;
    const Source& source;
    const Tile& tile;
    float* samples;
    int y;  // of the first row

    // The first column of the thread's run, and whether there is such a run.
    __device__ __forceinline__ int x() const { return tile.x - tile.halo + lane() * RUN; }
    __device__ __forceinline__ bool loads() const { return lane() * RUN < WIDTH + 2 * tile.halo; }

    __device__ __forceinline__ float* run(int row) const { return samples + row * tile.pitch + lane() * RUN; }
    // in' at (column, row) of the picture.
    __device__ __forceinline__ float value_at(int column, int row) const {
        const cudaconv_u64 from = source.input + static_cast<cudaconv_u64>(row) * source.input_stride;
        const Sample sample = read_sample<Sample>(from + static_cast<u32>(column) * source.step);
        return float_of(code_of(frame, sample)) - source.zero;
    }
    // Runs that are wholly in the picture, where there are such; `position` is that of row lane().
    __device__ __forceinline__ void load_runs(bool reads, int position) const {
        const u32 count = source.words, stride = source.input_stride;
        const cudaconv_u64 from = source.pixels + static_cast<cudaconv_u64>(static_cast<long long>(x()) * source.step);
#pragma unroll 1
        for (int row = threadIdx.x / WARP; row < ROWS; row += AHEAD * WARPS) {
            u32 words[AHEAD][4] = {};
            bool there[AHEAD];
#pragma unroll
            for (int n = 0; n < AHEAD; ++n) {
                const int at = __shfl_sync(~0u, position, row + n * WARPS);
                there[n] = reads && at != BEYOND;
                if (there[n]) read_words<Sample>(words[n], from + static_cast<cudaconv_u64>(at) * stride, count);
            }
#pragma unroll
            for (int n = 0; n < AHEAD; ++n)
                if (there[n])
                    *reinterpret_cast<float4*>(run(row + n * WARPS)) = values_of<Sample>(frame, words[n], source);
        }
    }
    // Others.
    __device__ __forceinline__ void load_samples(bool reads, int position) const {
#pragma unroll 1
        for (int row = threadIdx.x / WARP; row < ROWS; row += WARPS) {
            const int at = __shfl_sync(~0u, position, row);
            if (!loads() || (reads && at != BEYOND)) continue;
#pragma unroll 1
            for (int n = 0; n < RUN; ++n) {
                const int column = border_position(frame.border, x() + n, job.width);
                run(row)[n] = column == BEYOND || at == BEYOND ? source.beyond : value_at(column, at);
            }
        }
    }
    __device__ __forceinline__ void load() const {
        const bool whole = source.words != 0 && x() >= 0 && x() + RUN <= static_cast<int>(job.width);
        const bool reads = loads() && whole;
        // Rows below all that results are made of are the last of these again.
        int position = min(y + lane(), tile.y + tile.rows - 1 + tile.radius_y);
        if (y < 0 || y + ROWS > static_cast<int>(job.height))
            position = border_position(frame.border, position, job.height);
        load_runs(reads, position);
        if (__any_sync(~0u, loads() && !whole) || frame.border == CUDACONV_CONSTANT) load_samples(reads, position);
    }
};

// --- Sums ----------------------------------------------------------------------------------------

// Adds OWN neighbouring sums of 1 + TAPS * `steps` products; `next` gives TAPS values behind those before.
template <typename Next>
DEVICE void correlate(float (&totals)[OWN], const float* weights, int steps, Next next) {
    constexpr int WINDOW = OWN + TAPS, PHASES = WINDOW / TAPS;
    float window[WINDOW];
    next(window);
    const float first = weights[3];
#pragma unroll
    for (int o = 0; o < OWN; ++o) totals[o] = fmaf(first, window[o], totals[o]);
    const float4* of_step = reinterpret_cast<const float4*>(weights + 4);
#pragma unroll 1
    for (int step = 0; step < steps; step += PHASES) {
#pragma unroll
        for (int phase = 0; phase < PHASES; ++phase) {
            if (phase > 0 && step + phase >= steps) break;
            next(window + (phase * TAPS + OWN) % WINDOW);
#pragma unroll
            for (int begin = 0; begin < TAPS; begin += 4) {
                const float4 four = *of_step++;
                const float taps[4] = {four.x, four.y, four.z, four.w};
#pragma unroll
                for (int tap = 0; tap < 4; ++tap)
#pragma unroll
                    for (int o = 0; o < OWN; ++o)
                        totals[o] = fmaf(taps[tap], window[(phase * TAPS + 1 + begin + tap + o) % WINDOW], totals[o]);
            }
        }
    }
}

// Horizontal sums of a slab: a thread's are of row `threadIdx.x` % ROWS.
DEVICE void sum_rows(float* sums, const float* samples, const float* weights, const Tile& tile) {
    const int row = threadIdx.x % ROWS, column = threadIdx.x / ROWS * OWN;
    const float4* from = reinterpret_cast<const float4*>(samples + row * tile.pitch + column);
    float totals[OWN] = {};
    correlate(totals, weights, tile.steps_x, [&](float* values) {
#pragma unroll
        for (int k = 0; k < TAPS; k += 4) {
            const float4 a = *from++;
            values[k] = a.x, values[k + 1] = a.y, values[k + 2] = a.z, values[k + 3] = a.w;
        }
    });
    float4* to = reinterpret_cast<float4*>(sums + row * PITCH + column);
#pragma unroll
    for (int o = 0; o < OWN; o += 4) to[o / 4] = make_float4(totals[o], totals[o + 1], totals[o + 2], totals[o + 3]);
}

// Vertical sums: a thread's are of column `threadIdx.x` % WIDTH. `place` is that of the first slab in the ring.
DEVICE void sum_columns(float (&totals)[OWN], const float* ring, int place, const float* weights, const Tile& tile) {
    const float* begin = ring + threadIdx.x % WIDTH;
    const float* end = begin + tile.slabs * ROWS * PITCH;
    const float* from = begin + (place * ROWS + threadIdx.x / WIDTH * OWN) * PITCH;
    correlate(totals, weights, tile.steps_y, [&](float* values) {
        if (from == end) from = begin;
#pragma unroll
        for (int n = 0; n < TAPS; ++n) values[n] = from[n * PITCH];
        from += TAPS * PITCH;
    });
}

// --- A tile --------------------------------------------------------------------------------------

// Vertical sums become results.
DEVICE void divide(float (&sums)[OWN], const CudaconvConvolveLaunch& launch) {
    const bool power_of_two = (__float_as_uint(launch.divisor) & 0x7fffff) == 0;
    if (power_of_two) {
#pragma unroll
        for (int o = 0; o < OWN; ++o) sums[o] = __fmul_rn(sums[o], launch.reciprocal);
    } else {
#pragma unroll
        for (int o = 0; o < OWN; ++o) sums[o] = divided(launch, sums[o]);
    }
}

// Writes results of the slab whose first row is `y`.
template <typename Sample>
DEVICE void write_column(const float (&results)[OWN], const CudaconvFrame& frame, const CudaconvJob& job,
                         const Source& source, int x, int y) {
    x += threadIdx.x % WIDTH, y += threadIdx.x / WIDTH * OWN;
    if (x >= static_cast<int>(job.width)) return;
    const float offset = source.offset;
    const u32 stride = source.output_stride;
    cudaconv_u64 to = source.output + static_cast<cudaconv_u64>(y) * stride + static_cast<u32>(x) * source.step;
#pragma unroll
    for (int o = 0; o < OWN; ++o, to += stride) {
        if (y + o >= static_cast<int>(job.height)) break;
        write_sample(to, sample_of<Sample>(frame, round_to_code(results[o] + offset, frame.max_code)));
    }
}

template <typename Sample>
DEVICE void separable(const CudaconvConvolveLaunch& launch, float* shared) {
    __shared__ Tile tile;
    __shared__ Source source;
    const CudaconvFrame& frame = launch.frame;
    const CudaconvJob& job = frame.jobs[job_of(frame, blockIdx.y)];
    if (blockIdx.x >= job.tiles_across) return;
    if (threadIdx.x == 0) tile.describe(launch, job);
    __syncthreads();
    copy_or_fill_tile<Sample>(frame, job, tile.x, tile.y, WIDTH, tile.rows, threadIdx.x, THREADS);
    put_weights(shared, tile, launch);
#pragma unroll 1
    for (int c = 0; c < static_cast<int>(job.channel_count); ++c) {
        if (job.channels[c].action != CUDACONV_FILTER) continue;
        __syncthreads();
        if (threadIdx.x == 0) source.describe<Sample>(job, job.channels[c]);
        __syncthreads();
        int place = 0;  // in the ring, of the first slab that results need
#pragma unroll 1
        for (int row = 0; row < tile.rows; row += ROWS) {
            // All but the last are there from the slab above.
#pragma unroll 1
            for (int slab = row == 0 ? 0 : tile.slabs - 1; slab < tile.slabs; ++slab) {
                const int y = tile.y - tile.radius_y + row + slab * ROWS;
                const Slab<Sample> loaded = {frame, job, source, tile, shared, y};
                loaded.load();
                __syncthreads();
                const int at = place + slab < tile.slabs ? place + slab : place + slab - tile.slabs;
                sum_rows(shared + tile.ring + at * ROWS * PITCH, shared, shared + tile.weights, tile);
                __syncthreads();
            }
            float sums[OWN] = {};
            sum_columns(sums, shared + tile.ring, place, shared + tile.weights + tile.weights_x, tile);
            place = place + 1 == tile.slabs ? 0 : place + 1;
            divide(sums, launch);
            write_column<Sample>(sums, frame, job, source, tile.x, tile.y + row);
        }
    }
}

extern __shared__ float4 shared[];

#ifdef SEPARABLE_WIDE_U8
KERNEL(separable_wide_u8, CudaconvConvolveLaunch, (THREADS, BLOCKS), separable<u8>(launch, reinterpret_cast<float*>(shared)))
#endif

#ifdef SEPARABLE_WIDE_U16
KERNEL(separable_wide_u16, CudaconvConvolveLaunch, (THREADS, BLOCKS), separable<u16>(launch, reinterpret_cast<float*>(shared)))
#endif
