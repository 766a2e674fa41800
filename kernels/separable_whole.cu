// Correlation of 8-bit samples with separable kernels of up to 9 + 9 whole numbers, of which those
// across are not negative and sum to 257 at most: then the sums across are whole numbers of 16 bits, two
// of which an integer multiplication-and-addition takes at once, and where all sums are below 2^24 no
// order of additions changes the bytes.
//
// Bytes: each sample read once and written once; at 4.3 TB/s 1 µs for 1080p GRAY8, 15 µs for 4K RGBA.
// Operations per sample with 7 + 7 taps: 3.5 multiplications across and 1 to 2 to unpack and align, 1 to
// make a float of the sum, all of them 22 times for 16 rows; 7 multiply-adds down, also 22 times;
// 7 for division, rounding and packing: 26, and 4 to load the tile. Bound by issue, at 1.98 GHz 1.9 µs for 1080p
// GRAY8 and 30 for 4K RGBA.
//
// A block of four warps, one below the other, computes 256 bytes of 4 * ROWS rows. The bytes with
// their halo are copied to shared memory; then each thread goes down 8 bytes of its rows with the sums
// of the outputs that the row takes part in (a transposed filter: every sum moves up by one as
// a row is added). Sums across are floats without conversion: denormals, with the weights down
// larger by 2^100 to make up for it.
#include "common.cuh"

constexpr int THREADS = 128;
constexpr int WORD = 4;
// Bytes of a row that a thread computes, and a block.
constexpr int BYTES = 8;
constexpr int TILE_BYTES = WARP * BYTES;
// What the tile is loaded by, which is also its halo on either side: up to 4 pixels of 4 bytes.
constexpr int PIECE = 16;
constexpr int PITCH = TILE_BYTES + 2 * PIECE;
constexpr int PIECES = PITCH / PIECE;
constexpr int ROWS = 8;
constexpr int HEIGHT = THREADS / WARP * ROWS;

template <int RADIUS>
struct alignas(16) Shared {
    u32 words[HEIGHT + 2 * RADIUS][PITCH / WORD];
};

// What a block computes: a tile of the bytes of one channel, or of all of a packed job.
struct Tile {
    const CudaconvFrame& frame;
    const CudaconvJob& job;
    int channel;   // the first
    int channels;  // interleaved
    int x0, y0;    // first byte of a row, first row
    int row_bytes;

    __device__ __forceinline__ const CudaconvChannel& first() const { return job.channels[channel]; }
};

// --- 1. bytes ------------------------------------------------------------------------------------

// The byte at position `byte` of row `y` or BEYOND, by channel and border. The host sees to it that
// what the border says of bytes beyond the edge is a byte.
DEVICE u32 gathered_byte(const Tile& tile, int byte, int y) {
    // Floor division: positions begin at most 32 pixels before the row.
    const int pixel = (byte + tile.channels * CUDACONV_MAX_RADIUS) / tile.channels - CUDACONV_MAX_RADIUS;
    const int x = border_position(tile.frame.border, pixel, tile.job.width);
    const CudaconvChannel& channel = tile.job.channels[tile.channel + byte - pixel * tile.channels];
    if (x == BEYOND || y == BEYOND) return static_cast<u32>(channel.beyond + channel.zero);
    return read_sample<u8>(input_at(channel, x, y));
}

template <int RADIUS>
DEVICE void load_bytes(Shared<RADIUS>& shared, const Tile& tile) {
    constexpr int SAMPLES = HEIGHT + 2 * RADIUS, COUNT = SAMPLES * PIECES;
    constexpr int ROWS_APART = THREADS / PIECES, PIECES_APART = THREADS % PIECES;
    const CudaconvChannel& first = tile.first();
    const int height = tile.job.height, x0 = tile.x0 - PIECE, y0 = tile.y0 - RADIUS;
    const bool aligned = (first.input | first.input_stride) % PIECE == 0;
    // Rows and pieces that are in the picture, or rows that the edge stands for.
    const auto is_piece = [&](const Walk& walk) {
        const int byte = x0 + walk.column * PIECE;
        const bool row = tile.frame.border == CUDACONV_REPLICATE || static_cast<u32>(y0 + walk.row) < tile.job.height;
        return aligned && byte >= 0 && byte + PIECE <= tile.row_bytes && row;
    };
    Walk walk(PIECES, threadIdx.x);
#pragma unroll 4
    for (; walk.index < COUNT; walk.step(PIECES, THREADS, ROWS_APART, PIECES_APART)) {
        const int y = min(max(y0 + walk.row, 0), height - 1);
        const int byte = x0 + walk.column * PIECE;
        if (is_piece(walk))
            *reinterpret_cast<uint4*>(&shared.words[walk.row][walk.column * (PIECE / WORD)]) =
                read_sample<uint4>(first.input + static_cast<cudaconv_u64>(y) * first.input_stride + byte);
    }
    const bool inside = tile.x0 >= PIECE && tile.x0 + TILE_BYTES + PIECE <= tile.row_bytes;
    const bool rows_inside = y0 >= 0 && y0 + SAMPLES <= height;
    if (aligned && inside && (rows_inside || tile.frame.border == CUDACONV_REPLICATE)) return;
    walk = Walk(PIECES, threadIdx.x);
#pragma unroll 1
    for (; walk.index < COUNT; walk.step(PIECES, THREADS, ROWS_APART, PIECES_APART)) {
        if (is_piece(walk)) continue;
        const int y = border_position(tile.frame.border, y0 + walk.row, height);
        // Where no output looks nothing is needed.
        const int end = tile.row_bytes + RADIUS * tile.channels;
        if (y0 + walk.row >= height + RADIUS) continue;
#pragma unroll 1
        for (int w = 0; w < PIECE / WORD; ++w) {
            const int byte = x0 + walk.column * PIECE + w * WORD;
            if (byte >= end) break;
            u32 word = 0;
#pragma unroll 1
            for (int k = 0; k < WORD; ++k) word |= gathered_byte(tile, byte + k, y) << 8 * k;
            shared.words[walk.row][walk.column * (PIECE / WORD) + w] = word;
        }
    }
}

// --- 2. sums -------------------------------------------------------------------------------------

// Taps of one axis, in the middle of as many as the radius has; the others are 0.
template <int RADIUS>
DEVICE float tap(const float* weights, int count, int i) {
    const int index = i - RADIUS + count / 2;
    return index >= 0 && index < count ? weights[index] : 0.0f;
}

// Bytes `byte` and `byte` + 2 of a window of pairs of even and odd bytes of words, with `byte` known at
// compile time.
template <int WORDS>
DEVICE u32 pair_at(const u32 (&even)[WORDS], const u32 (&odd)[WORDS], int byte) {
    const int word = byte / WORD;
    const u32* pairs = byte % 2 == 0 ? even : odd;
    if (byte % WORD < 2) return pairs[word];
    // The second of a pair and the first of the next.
    return __byte_perm(pairs[word], pairs[word + 1], 0x5432);
}

// What becomes of the bytes of a word.
template <int CHANNELS>
struct Bytes {
    float levels[WORD], offsets[WORD];
    u32 filtered, copied, filled;

    __device__ __forceinline__ Bytes(const Tile& tile, float sum) : filtered(0), copied(0), filled(0) {
#pragma unroll
        for (int k = 0; k < WORD; ++k) {
            // The host sees to it that three channels are alike.
            const CudaconvChannel& channel = tile.job.channels[tile.channel + k % CHANNELS];
            levels[k] = channel.zero * sum;
            offsets[k] = channel.offset;
            const u32 mask = 0xffu << 8 * k;
            if (channel.action == CUDACONV_FILTER) filtered |= mask;
            if (channel.action == CUDACONV_COPY) copied |= mask;
            if (channel.action == CUDACONV_FILL) filled |= channel.fill << 8 * k;
        }
    }
};

// Eight bytes, of which `left` are the row's.
DEVICE void write_words(cudaconv_u64 address, int left, u32 low, u32 high) {
    if (left >= BYTES && address % BYTES == 0) {
        write_sample(address, make_uint2(low, high));
        return;
    }
#pragma unroll
    for (int b = 0; b < BYTES; ++b)
        if (b < left) write_sample<u8>(address + b, (b < WORD ? low : high) >> 8 * (b % WORD));
}

template <int RADIUS, int CHANNELS>
DEVICE void sum_tile(const Shared<RADIUS>& shared, const Tile& tile, const CudaconvConvolveLaunch& launch) {
    constexpr int TAPS = 2 * RADIUS + 1, WORDS = BYTES / WORD;
    // Words beside the thread's own, whole pairs of them.
    constexpr int BESIDE = (RADIUS * CHANNELS + 2 * WORD - 1) / (2 * WORD) * 2;
    constexpr int WINDOW = WORDS + 2 * BESIDE;
    const int byte = tile.x0 + lane() * BYTES, row0 = threadIdx.x / WARP * ROWS, y0 = tile.y0 + row0;
    const int rows = min(ROWS, static_cast<int>(tile.job.height) - y0);
    if (byte >= tile.row_bytes || rows <= 0) return;

    const CudaconvTaps& kernel = launch.kernels[0];
    const float* across = launch.inline_weights + kernel.first;
    const float* down = across + line_of(kernel.width);
    u32 weights_across[TAPS];
    float weights_down[TAPS];
    float sum_across = 0.0f, sum_down = 0.0f;
#pragma unroll
    for (int i = 0; i < TAPS; ++i) {
        const float weight = tap<RADIUS>(across, kernel.width, i), other = tap<RADIUS>(down, kernel.height, i);
        sum_across += weight;
        sum_down += other;
        weights_across[i] = static_cast<u32>(weight);
        weights_down[i] = other * 0x1p100f;
    }
    const Bytes<CHANNELS> bytes(tile, sum_across * sum_down);

    // Of outputs of the rows below the next one: what the rows so far add to them.
    float sums[BYTES][2 * RADIUS];
#pragma unroll
    for (int b = 0; b < BYTES; ++b)
#pragma unroll
        for (int j = 0; j < 2 * RADIUS; ++j) sums[b][j] = 0.0f;
    const u32* own = &shared.words[row0][PIECE / WORD + lane() * WORDS];

    // Adds a row; `results` are the sums of the output that it is the last row of.
    const auto add_row = [&](float (&results)[BYTES]) {
        u32 even[WINDOW], odd[WINDOW];
#pragma unroll
        for (int k = 0; k < WINDOW; k += 2) {
            const uint2 two = *reinterpret_cast<const uint2*>(own + k - BESIDE);
            even[k] = __byte_perm(two.x, 0, 0x4240);
            odd[k] = __byte_perm(two.x, 0, 0x4341);
            even[k + 1] = __byte_perm(two.y, 0, 0x4240);
            odd[k + 1] = __byte_perm(two.y, 0, 0x4341);
        }
        own += PITCH / WORD;
#pragma unroll
        for (int k = 0; k < WORDS; ++k)
#pragma unroll
            for (int parity = 0; parity < 2; ++parity) {
                u32 pair = 0;
#pragma unroll
                for (int i = 0; i < TAPS; ++i)
                    pair += weights_across[i] *
                            pair_at<WINDOW>(even, odd, (BESIDE + k) * WORD + parity + (i - RADIUS) * CHANNELS);
#pragma unroll
                for (int half = 0; half < 2; ++half) {
                    const int b = k * WORD + parity + 2 * half;
                    const float value = __uint_as_float(half == 0 ? pair & 0xffff : pair >> 16);
                    results[b] = fmaf(weights_down[TAPS - 1], value, sums[b][0]);
#pragma unroll
                    for (int j = 1; j < 2 * RADIUS; ++j)
                        sums[b][j - 1] = fmaf(weights_down[TAPS - 1 - j], value, sums[b][j]);
                    sums[b][2 * RADIUS - 1] = weights_down[0] * value;
                }
            }
    };
#pragma unroll 1
    for (int r = 0; r < 2 * RADIUS; ++r) {
        float none[BYTES];
        add_row(none);
    }
    const CudaconvChannel& first = tile.first();
    cudaconv_u64 address = first.output + static_cast<cudaconv_u64>(y0) * first.output_stride + byte;
#pragma unroll 1
    for (int r = 0; r < rows; ++r, address += first.output_stride) {
        float results[BYTES];
        add_row(results);
        u32 words[WORDS];
#pragma unroll
        for (int k = 0; k < WORDS; ++k) {
            u32 codes[WORD];
#pragma unroll
            for (int b = 0; b < WORD; ++b) {
                // The divisor is a power of two: the quotient is exact, as if it were rounded by itself.
                const float sum = fmaf(results[k * WORD + b], 0x1p49f, -bytes.levels[b]);
                const float value = fmaf(sum, launch.reciprocal, bytes.offsets[b]);
                codes[b] = __float_as_uint(fminf(fmaxf(value, 0.0f), 255.0f) + WHOLE);
            }
            const u32 low = __byte_perm(codes[0], codes[1], 0x0040), high = __byte_perm(codes[2], codes[3], 0x0040);
            words[k] = (__byte_perm(low, high, 0x5410) & bytes.filtered) | bytes.filled;
            if (bytes.copied) words[k] |= own[k - (RADIUS + 1) * (PITCH / WORD)] & bytes.copied;
        }
        write_words(address, tile.row_bytes - byte, words[0], words[1]);
    }
}

// --- A tile --------------------------------------------------------------------------------------

template <int RADIUS>
DEVICE void separable_whole(const CudaconvConvolveLaunch& launch) {
    __shared__ Shared<RADIUS> shared;
    const CudaconvFrame& frame = launch.frame;
    const CudaconvJob& job = frame.jobs[job_of(frame, blockIdx.y)];
    if (blockIdx.x >= job.tiles_across) return;
    const int channels = job.packed ? job.channel_count : 1;
    // All channels of a packed job at once, else one after the other.
    Tile tile = {frame, job, 0, channels, 0, 0, static_cast<int>(job.width) * channels};
    tile.x0 = blockIdx.x * TILE_BYTES;
    tile.y0 = (blockIdx.y - job.first_tile_row) * HEIGHT;
#pragma unroll 1
    for (; tile.channel < static_cast<int>(job.channel_count); tile.channel += channels) {
        __syncthreads();
        load_bytes<RADIUS>(shared, tile);
        __syncthreads();
        switch (channels) {
            case 1: sum_tile<RADIUS, 1>(shared, tile, launch); break;
            case 2: sum_tile<RADIUS, 2>(shared, tile, launch); break;
            case 3: sum_tile<RADIUS, 3>(shared, tile, launch); break;
            default: sum_tile<RADIUS, 4>(shared, tile, launch);
        }
    }
}

// With so many blocks of a multiprocessor that registers suffice.
#define SEPARABLE_WHOLE(radius, blocks)                                                     \
    extern "C" __global__ void __launch_bounds__(THREADS, blocks)                           \
        separable_whole_u8_r##radius(const __grid_constant__ CudaconvConvolveLaunch launch) { \
        separable_whole<radius>(launch);                                                    \
    }

#ifdef SEPARABLE_WHOLE_U8_R2
SEPARABLE_WHOLE(2, 5)
#endif
#ifdef SEPARABLE_WHOLE_U8_R3
SEPARABLE_WHOLE(3, 5)
#endif
#ifdef SEPARABLE_WHOLE_U8_R4
SEPARABLE_WHOLE(4, 3)
#endif
