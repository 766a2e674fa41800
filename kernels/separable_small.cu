// Correlation of 8-bit samples with kernels of rank 1 up to 17 + 17 taps, and the magnitude of two
// of 3 + 3: as separable.cu, with everything known at compile time but the weights.
//
// Bytes: each sample read once and written once; at 4.3 TB/s 1 µs for 1080p GRAY8, 4 µs for RGBA.
// Operations: width + height FMAs per sample, 3 to 5 instructions for the conversion of it and of
// its share of the halo, 6 for rounding and packing: about 20 for 3 + 3 taps, 27 for 7 + 7. Bound by
// issue, 132 * 4 instructions for 32 samples each per cycle: at 1.98 GHz 1.2 and 1.7 µs for 1080p
// GRAY8, so launch and latency weigh as much; 5 and 7 µs for RGBA.
//
// A block of 128 threads computes 128 bytes (96 for three interleaved channels) by up to 32 rows:
// 1. the bytes with their halo are copied to shared memory, a word at a time where they lie in the
//    picture at aligned addresses, else gathered as the border says;
// 2. horizontal sums: a thread turns 16 to 32 bytes and their halo into floats in registers and
//    sums each channel, 4 to 16 pixels a time;
// 3. vertical sums: a thread sums 4 bytes of up to 8 rows, each row of sums being read once.
// The sums are floats in shared memory, row by row in the order of the bytes, so step 3 does not
// see the number of interleaved channels. Channels that are not packed are done one by one.
#include "common.cuh"

constexpr int THREADS = 256;
// Blocks of a multiprocessor: leaves 102 registers.
constexpr int BLOCKS = 3;
constexpr int WORD = 4;
// Groups of rows in the vertical sums, one for each warp.
constexpr int GROUPS = THREADS / WARP;

// How samples of `CHANNELS` interleaved channels are shared out.
template <int CHANNELS>
struct Shape {
    // Of a thread in the horizontal sums. More of them share the conversion of the halo, up to
    // what registers hold.
    static constexpr int PIXELS = CHANNELS == 1 ? 16 : CHANNELS == 4 ? 4 : 8;
    static constexpr int BYTES = PIXELS * CHANNELS;
    // Of a tile: 128 bytes, 96 of three channels.
    static constexpr int THREADS_ACROSS = BYTES == 16 ? 8 : 4;
    static constexpr int TILE_BYTES = THREADS_ACROSS * BYTES;
};

template <int RADIUS>
struct Rows {
    // Rows of samples are a multiple of the 16 that threads do at a time, 8 + 8 halo rows want
    // more of them.
    static constexpr int SAMPLES = RADIUS <= 4 ? 32 : 48;
    static constexpr int OUTPUTS = SAMPLES - 2 * RADIUS;
    // Of a thread in the vertical sums.
    static constexpr int PER_THREAD = (OUTPUTS + GROUPS - 1) / GROUPS;
};

constexpr int LARGEST_TILE_BYTES = 128;

// Bytes beside a tile that are loaded: whole words.
constexpr int halo_bytes(int radius, int channels) { return (radius * channels + WORD - 1) / WORD * WORD; }

template <int RADIUS>
struct Shared {
    static constexpr int PITCH = LARGEST_TILE_BYTES + 2 * halo_bytes(RADIUS, CUDACONV_CHANNELS);
    // The sums of the rows; those of the last group that has fewer outputs read rows beyond.
    static constexpr int SUM_ROWS = GROUPS * Rows<RADIUS>::PER_THREAD + 2 * RADIUS;

    float4 sums[SUM_ROWS][LARGEST_TILE_BYTES / WORD];
    u32 bytes[Rows<RADIUS>::SAMPLES][PITCH / WORD];
};

// What a block computes: a tile of the bytes of one channel, or of all of a packed job.
struct Tile {
    const CudaconvFrame& frame;
    const CudaconvJob& job;
    int channel;   // the first
    int channels;  // interleaved
    int x0, y0;    // first byte of a row as if all of them were packed, first row
    int row_bytes;
};

// --- 1. bytes ------------------------------------------------------------------------------------

// The byte at position `byte` of row `y` or BEYOND, gathered by channel and border. The host sees to
// it that what the border says of bytes beyond the edge is a byte.
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
    const int halo = halo_bytes(RADIUS, tile.channels);
    const int tile_bytes = tile.channels == 3 ? Shape<3>::TILE_BYTES : LARGEST_TILE_BYTES;
    const int words = (tile_bytes + 2 * halo) / WORD, count = words * Rows<RADIUS>::SAMPLES;
    const int rows_apart = THREADS / words, words_apart = THREADS % words;
    const CudaconvChannel& first = tile.job.channels[tile.channel];
    const bool aligned = static_cast<int>(first.step) == tile.channels && (first.input | first.input_stride) % WORD == 0;
    Walk walk(words, threadIdx.x);
#pragma unroll 4
    for (; walk.index < count; walk.step(words, THREADS, rows_apart, words_apart)) {
        const int byte = tile.x0 - halo + walk.column * WORD;
        const int y = min(max(tile.y0 - RADIUS + walk.row, 0), static_cast<int>(tile.job.height) - 1);
        if (aligned && byte >= 0 && byte + WORD <= tile.row_bytes)
            shared.bytes[walk.row][walk.column] =
                read_sample<u32>(first.input + static_cast<cudaconv_u64>(y) * first.input_stride + byte);
    }
    // What the loop above could not read, or not as the border says.
    const bool rows_inside = tile.y0 >= RADIUS && tile.y0 - RADIUS + Rows<RADIUS>::SAMPLES <= static_cast<int>(tile.job.height);
    if (aligned && tile.x0 >= halo && tile.x0 + tile_bytes + halo <= tile.row_bytes &&
        (rows_inside || tile.frame.border == CUDACONV_REPLICATE))
        return;
    walk = Walk(words, threadIdx.x);
#pragma unroll 1
    for (; walk.index < count; walk.step(words, THREADS, rows_apart, words_apart)) {
        const int byte = tile.x0 - halo + walk.column * WORD;
        const int row = tile.y0 - RADIUS + walk.row;
        const bool inside = static_cast<u32>(row) < tile.job.height || tile.frame.border == CUDACONV_REPLICATE;
        if (aligned && byte >= 0 && byte + WORD <= tile.row_bytes && inside) continue;
        const int y = border_position(tile.frame.border, row, tile.job.height);
        u32 value = 0;
#pragma unroll 1
        for (int k = 0; k < WORD; ++k) value |= gathered_byte(tile, byte + k, y) << 8 * k;
        shared.bytes[walk.row][walk.column] = value;
    }
}

// --- 2. horizontal sums --------------------------------------------------------------------------

// Where the four sums of the bytes of word `word` of a row are kept: so that the eight threads of
// an access, who write every PIXELS * CHANNELS / 4-th of them and read one after the other, meet all
// banks.
template <int CHANNELS>
DEVICE int place_of(int row, int word) {
    return CHANNELS == 3 ? word ^ (row & 1) : word ^ (word >> 3 & 3) ^ (row & 1) << 2;
}

// Taps of one axis, in the middle of as many as the radius has; the others are 0.
template <int RADIUS>
DEVICE void load_taps(float (&taps)[2 * RADIUS + 1], const float* weights, int count) {
    const int before = RADIUS - count / 2;
#pragma unroll
    for (int i = 0; i < 2 * RADIUS + 1; ++i) {
        const int index = i - before;
        taps[i] = index >= 0 && index < count ? weights[index] : 0.0f;
    }
}

template <int RADIUS, int CHANNELS>
DEVICE void sum_rows(Shared<RADIUS>& shared, const Tile& tile, const CudaconvConvolveLaunch& launch,
                     const CudaconvTaps& kernel) {
    using S = Shape<CHANNELS>;
    constexpr int HALO = halo_bytes(RADIUS, CHANNELS);
    constexpr int LEAD = HALO - RADIUS * CHANNELS;  // bytes loaded before the first that is needed
    constexpr int WORDS = (S::BYTES + 2 * HALO) / WORD;
    constexpr int WINDOW = S::PIXELS + 2 * RADIUS;
    float taps[2 * RADIUS + 1];
    load_taps<RADIUS>(taps, launch.inline_weights + kernel.first, kernel.width);
    const int across = threadIdx.x % S::THREADS_ACROSS;

#pragma unroll 1
    for (int row = threadIdx.x / S::THREADS_ACROSS; row < Rows<RADIUS>::SAMPLES; row += THREADS / S::THREADS_ACROSS) {
        u32 words[WORDS];
#pragma unroll
        for (int w = 0; w < WORDS; ++w) words[w] = shared.bytes[row][across * (S::BYTES / WORD) + w];
        float sums[S::BYTES];
#pragma unroll
        for (int c = 0; c < CHANNELS; ++c) {
            const CudaconvChannel& channel = tile.job.channels[tile.channel + c];
            if (CHANNELS > 1 && channel.action != CUDACONV_FILTER) {
#pragma unroll
                for (int p = 0; p < S::PIXELS; ++p) sums[p * CHANNELS + c] = 0.0f;
                continue;
            }
            float samples[WINDOW];
#pragma unroll
            for (int k = 0; k < WINDOW; ++k) {
                const int byte = LEAD + k * CHANNELS + c;
                const u32 whole = __byte_perm(words[byte / WORD], 0x4b000000, 0x7440 + byte % WORD);
                samples[k] = __uint_as_float(whole) - (WHOLE + channel.zero);
            }
#pragma unroll
            for (int p = 0; p < S::PIXELS; ++p) {
                float sum = 0.0f;
#pragma unroll
                for (int i = 0; i < 2 * RADIUS + 1; ++i) sum = fmaf(taps[i], samples[p + i], sum);
                sums[p * CHANNELS + c] = sum;
            }
        }
#pragma unroll
        for (int w = 0; w < S::BYTES / WORD; ++w)
            shared.sums[row][place_of<CHANNELS>(row, across * (S::BYTES / WORD) + w)] =
                make_float4(sums[w * WORD], sums[w * WORD + 1], sums[w * WORD + 2], sums[w * WORD + 3]);
    }
}

// --- 3. vertical sums ----------------------------------------------------------------------------

template <int RADIUS>
using Sums = float[Rows<RADIUS>::PER_THREAD][WORD];

// Sums of the four bytes `word` of PER_THREAD rows from row `row` of the tile on.
template <int RADIUS>
DEVICE void sum_columns(Sums<RADIUS>& sums, const Shared<RADIUS>& shared, const CudaconvConvolveLaunch& launch,
                        const CudaconvTaps& kernel, int row, int place_in_even_rows, int place_in_odd_rows) {
    constexpr int ROWS = Rows<RADIUS>::PER_THREAD;
    float taps[2 * RADIUS + 1];
    load_taps<RADIUS>(taps, launch.inline_weights + kernel.first + line_of(kernel.width), kernel.height);
    const float4* even = &shared.sums[row][row & 1 ? place_in_odd_rows : place_in_even_rows];
    const float4* odd = &shared.sums[row][row & 1 ? place_in_even_rows : place_in_odd_rows];
#pragma unroll
    for (int y = 0; y < ROWS + 2 * RADIUS; ++y) {
        const float4 four = (y & 1 ? odd : even)[y * (LARGEST_TILE_BYTES / WORD)];
#pragma unroll
        for (int h = 0; h < ROWS; ++h) {
            const int j = y - h;
            if (j < 0 || j > 2 * RADIUS) continue;
            sums[h][0] = fmaf(taps[j], four.x, j == 0 ? 0.0f : sums[h][0]);
            sums[h][1] = fmaf(taps[j], four.y, j == 0 ? 0.0f : sums[h][1]);
            sums[h][2] = fmaf(taps[j], four.z, j == 0 ? 0.0f : sums[h][2]);
            sums[h][3] = fmaf(taps[j], four.w, j == 0 ? 0.0f : sums[h][3]);
        }
    }
}

// What becomes of four neighbouring bytes of a row.
struct Bytes {
    float offsets[WORD];
    u32 filtered, copied;  // masks of the bytes
    u32 filled;            // the bytes that are filled, 0 elsewhere

    __device__ __forceinline__ Bytes(const Tile& tile, int first) : filtered(0), copied(0), filled(0) {
#pragma unroll
        for (int k = 0; k < WORD; ++k) {
            const CudaconvChannel& channel = tile.job.channels[tile.channel + (first + k) % tile.channels];
            offsets[k] = channel.offset;
            const u32 mask = 0xffu << 8 * k;
            if (channel.action == CUDACONV_FILTER) filtered |= mask;
            if (channel.action == CUDACONV_COPY) copied |= mask;
            if (channel.action == CUDACONV_FILL) filled |= channel.fill << 8 * k;
        }
    }
};

// s / divisor of all.
template <int RADIUS>
DEVICE void divide(Sums<RADIUS>& sums, const CudaconvConvolveLaunch& launch) {
    // A power of two divides exactly by its reciprocal.
    const bool exact = (__float_as_uint(launch.divisor) & 0x7fffff) == 0;
#pragma unroll
    for (int h = 0; h < Rows<RADIUS>::PER_THREAD; ++h)
#pragma unroll
        for (int k = 0; k < WORD; ++k)
            sums[h][k] = exact ? __fmul_rn(sums[h][k], launch.reciprocal) : divided(launch, sums[h][k]);
}

template <int RADIUS>
DEVICE void write_rows(Shared<RADIUS>& shared, const Tile& tile, const Sums<RADIUS>& sums, int row, int word) {
    const int byte = tile.x0 + word * WORD;
    if (byte >= tile.row_bytes) return;
    const Bytes bytes(tile, byte);
    const CudaconvChannel& first = tile.job.channels[tile.channel];
    const bool whole = static_cast<int>(first.step) == tile.channels && byte + WORD <= tile.row_bytes &&
                       (first.output | first.output_stride) % WORD == 0;
    // This thread's own bytes of the tile, which nobody reads any more.
    u32* own = &shared.bytes[row + RADIUS][halo_bytes(RADIUS, tile.channels) / WORD + word];
    constexpr int PITCH = Shared<RADIUS>::PITCH / WORD;
    const int rows = min(min(Rows<RADIUS>::PER_THREAD, Rows<RADIUS>::OUTPUTS - row),
                         static_cast<int>(tile.job.height) - tile.y0 - row);
#pragma unroll
    for (int h = 0; h < Rows<RADIUS>::PER_THREAD; ++h) {
        if (h >= rows) break;
        u32 codes = 0;
#pragma unroll
        for (int k = 0; k < WORD; ++k)
            codes |= round_to_code(sums[h][k] + bytes.offsets[k], tile.frame.max_code) << 8 * k;
        u32 value = (codes & bytes.filtered) | bytes.filled;
        if (bytes.copied) value |= own[h * PITCH] & bytes.copied;
        if (whole) {
            const cudaconv_u64 y = tile.y0 + row + h;
            write_sample(first.output + y * first.output_stride + byte, value);
        } else {
            own[h * PITCH] = value;
        }
    }
    if (whole) return;
#pragma unroll 1
    for (int h = 0; h < rows; ++h) {
#pragma unroll 1
        for (int k = 0; k < WORD && byte + k < tile.row_bytes; ++k) {
            const int pixel = (byte + k) / tile.channels;
            const CudaconvChannel& channel = tile.job.channels[tile.channel + byte + k - pixel * tile.channels];
            write_sample<u8>(output_at(channel, pixel, tile.y0 + row + h), own[h * PITCH] >> 8 * k);
        }
    }
}

// --- A tile --------------------------------------------------------------------------------------

template <int RADIUS>
DEVICE void sum_rows(Shared<RADIUS>& shared, const Tile& tile, const CudaconvConvolveLaunch& launch,
                     const CudaconvTaps& kernel) {
    switch (tile.channels) {
        case 1: return sum_rows<RADIUS, 1>(shared, tile, launch, kernel);
        case 2: return sum_rows<RADIUS, 2>(shared, tile, launch, kernel);
        case 3: return sum_rows<RADIUS, 3>(shared, tile, launch, kernel);
        default: return sum_rows<RADIUS, 4>(shared, tile, launch, kernel);
    }
}

template <int RADIUS>
DEVICE void filter_tile(Shared<RADIUS>& shared, const Tile& tile, const CudaconvConvolveLaunch& launch) {
    load_bytes<RADIUS>(shared, tile);
    __syncthreads();
    const int row = threadIdx.x / WARP * Rows<RADIUS>::PER_THREAD;
    const int word = threadIdx.x % WARP;
    const bool three = tile.channels == 3;
    const int even = three ? place_of<3>(0, word) : place_of<1>(0, word);
    const int odd = three ? place_of<3>(1, word) : place_of<1>(1, word);
    const bool idle = three && word >= Shape<3>::TILE_BYTES / WORD;
    Sums<RADIUS> sums;
    [[maybe_unused]] Sums<RADIUS> of_first;
#pragma unroll 1
    for (u32 k = 0; k < (RADIUS == 1 ? launch.kernel_count : 1); ++k) {
        if (k > 0) __syncthreads();
        sum_rows<RADIUS>(shared, tile, launch, launch.kernels[k]);
        __syncthreads();
        if (idle) continue;
        sum_columns<RADIUS>(sums, shared, launch, launch.kernels[k], row, even, odd);
        if constexpr (RADIUS == 1) {
#pragma unroll
            for (int h = 0; h < Rows<RADIUS>::PER_THREAD; ++h)
#pragma unroll
                for (int b = 0; b < WORD; ++b) {
                    if (k == 1) sums[h][b] = magnitude(of_first[h][b], sums[h][b]);
                    of_first[h][b] = sums[h][b];
                }
        }
    }
    if (idle) return;
    divide<RADIUS>(sums, launch);
    write_rows<RADIUS>(shared, tile, sums, row, word);
}

template <int RADIUS>
DEVICE void separable(const CudaconvConvolveLaunch& launch) {
    __shared__ Shared<RADIUS> shared;
    const CudaconvFrame& frame = launch.frame;
    const CudaconvJob& job = frame.jobs[job_of(frame, blockIdx.y)];
    if (blockIdx.x >= job.tiles_across) return;
    const int channels = job.packed ? job.channel_count : 1;
    // The host's rule: as many pixels as 128 bytes hold, 32 where three channels are interleaved.
    const int pixels = channels == 3 ? 32 : 128 / channels;
    const int x0 = blockIdx.x * pixels;
    const int y0 = (blockIdx.y - job.first_tile_row) * Rows<RADIUS>::OUTPUTS;
    bool any = false;
    for (u32 c = 0; c < job.channel_count; ++c) any |= job.channels[c].action == CUDACONV_FILTER;
    if (!any || channels == 1)
        copy_or_fill_tile<u8>(frame, job, x0, y0, pixels, Rows<RADIUS>::OUTPUTS, threadIdx.x, THREADS);
    if (!any) return;
    // All channels of a packed job at once, else one after the other.
    Tile tile = {frame, job, 0, channels, x0 * channels, y0, static_cast<int>(job.width) * channels};
#pragma unroll 1
    for (; tile.channel < static_cast<int>(job.channel_count); tile.channel += channels) {
        if (channels == 1 && job.channels[tile.channel].action != CUDACONV_FILTER) continue;
        __syncthreads();
        filter_tile<RADIUS>(shared, tile, launch);
    }
}

#define SEPARABLE(radius)                                                             \
    extern "C" __global__ void __launch_bounds__(THREADS, BLOCKS)                     \
        separable_u8_r##radius(const __grid_constant__ CudaconvConvolveLaunch launch) { \
        separable<radius>(launch);                                                    \
    }

#ifdef SEPARABLE_U8_R1
SEPARABLE(1)
#endif
#ifdef SEPARABLE_U8_R2
SEPARABLE(2)
#endif
#ifdef SEPARABLE_U8_R3
SEPARABLE(3)
#endif
#ifdef SEPARABLE_U8_R4
SEPARABLE(4)
#endif
#ifdef SEPARABLE_U8_R8
SEPARABLE(8)
#endif
