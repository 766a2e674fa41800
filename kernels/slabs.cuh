// Slabs of 16 rows of a strip of samples in shared memory, for separable_slabs.cu: what a block computes, and how results
// are put together and written.
#pragma once

#include "common.cuh"

constexpr int THREADS = 128;
// Rows of a slab, and samples of a row that a thread sums.
constexpr int ROWS = 16, OWN = 16;
// Pixels that are read at once, and bytes that are written at once.
constexpr int RUN = 8, PIECE = 16;
// The bits of the float that stands for the code value 1.
constexpr u32 UNIT = 1u << 8;

// The host's rule: pixels of a tile by the number of interleaved channels, in whole runs of OWN.
constexpr int pixels_of(int channels) { return channels == 3 ? 32 : THREADS / channels; }

template <int SIZE>
struct RunOf {
    using Type = uint2;
};
template <>
struct RunOf<2> {
    using Type = uint4;
};

// For samples of a type, radii up to a largest, one kernel or the magnitude of two, and interleaved channels or packed
// 4:2:2.
template <typename SAMPLE, int LARGEST, int COUNT, bool PACKED_422>
struct Shape {
    using Sample = SAMPLE;
    static constexpr bool IS_422 = PACKED_422;
    static constexpr int KERNELS = COUNT;
    static constexpr int SIZE = sizeof(Sample);
    // Of a run of one channel, and what is read at once of interleaved ones.
    using Run = typename RunOf<SIZE>::Type;
    // Pixels beside a tile that are loaded.
    static constexpr int HALO = rounded_up(LARGEST, RUN);
    // Slabs of sums behind the first that a slab of results needs.
    static constexpr int BEHIND = rounded_up(2 * LARGEST, ROWS) / ROWS;
    static constexpr int SLABS = 1 + BEHIND;
    // Samples of a row, or rows, that are summed at once: all of a thread, or half of them to keep programs small.
    static constexpr int AT_ONCE = LARGEST <= 8 ? OWN : OWN / 2;
    // Bytes of a row of samples: an odd number of 16, for the rows of a slab to begin in different banks.
    static constexpr int PITCH = (THREADS + 2 * HALO * CUDACONV_CHANNELS) * SIZE / 32 * 32 + 16;
    // Floats of a row of sums, for the same reason.
    static constexpr int SUMS = THREADS + 4;
    // Bytes of a row of results.
    static constexpr int RESULTS = THREADS * SIZE;
};

template <typename S>
struct Shared {
    float sums[S::KERNELS][S::SLABS * ROWS][S::SUMS];
    uint4 samples[ROWS][S::PITCH / 16];
    uint4 nothing[S::PITCH / 16];  // where runs are put that there are not
    uint4 results[ROWS][S::RESULTS / PIECE];
    float reciprocal;  // of the divisor

    static constexpr u32 SAMPLES = sizeof(sums), NOTHING = SAMPLES + sizeof(samples);
    static constexpr u32 RESULTS = NOTHING + sizeof(nothing);

    // What is so many bytes from the beginning.
    template <typename Value>
    __device__ __forceinline__ Value* at(u32 offset) {
        return reinterpret_cast<Value*>(reinterpret_cast<char*>(this) + offset);
    }
    template <typename Value>
    __device__ __forceinline__ Value* row_of_samples(int row) {
        return at<Value>(SAMPLES + row * S::PITCH);
    }
};

// Keeps a value in a register that the assembler would compute anew each time, as it cannot know what it reads here.
template <typename S, typename Value>
DEVICE void keep(Shared<S>& shared, Value& value) {
    volatile Value* own = reinterpret_cast<Value*>(shared.results[0]) + threadIdx.x;
    *own = value;
    value = *own;
}

// Of packed 4:2:2, samples of luma behind the place that others have for the first: windows then begin at multiples of
// 16 bytes, with the halo of two samples for one of chroma.
constexpr int LUMA_BEHIND = 8;

// What a block computes: pixels from x0 on of `channels` interleaved channels, the first of them `channel`, of
// `rows` rows from y0 on.
//
// Of packed 4:2:2 a pixel is the four bytes that have a sample of U and V each, and two of luma; these are one channel
// with twice as many samples. Here U, V and luma are channels 0, 1 and 2.
template <typename S>
struct Tile {
    const CudaconvFrame& frame;
    const CudaconvJob& job;
    const float* weights;
    int radius;
    int channel, channels;
    int x0, y0;
    int rows, pixels;
    int pairs;            // of samples of luma, of packed 4:2:2
    bool filters;         // any channel at all
    bool passes;          // some are copied or filled
    bool aligned_input;   // runs are read at once
    bool aligned_output;  // pieces are written at once
    bool edge;            // some of what is loaded may lie beyond an edge, or is not read in runs
    bool ragged;          // some results do not fill pieces, or are not written in pieces

    __device__ __forceinline__ const CudaconvChannel& first() const { return job.channels[channel]; }
    // In pixels.
    __device__ __forceinline__ int width() const { return S::IS_422 ? pairs : job.width; }
    __device__ __forceinline__ int height() const { return job.height; }
    __device__ __forceinline__ int row_bytes() const { return width() * channels * S::SIZE; }
    // Pixels of a row that are loaded.
    __device__ __forceinline__ int loaded() const { return pixels + 2 * S::HALO; }
    // Whether the first byte of packed 4:2:2 is luma, or else the second.
    __device__ __forceinline__ int luma() const { return job.packed == CUDACONV_LUMA_SECOND; }
    __device__ __forceinline__ int lines() const { return S::IS_422 ? 3 : channels; }
    // Of channel c: its place among the interleaved ones, its samples for each pixel, how many of them there are in a row
    // of the picture, and where the loaded ones begin in a row of samples.
    __device__ __forceinline__ int place(int c) const { return !S::IS_422 ? c : c == 2 ? luma() : 2 * c + 1 - luma(); }
    __device__ __forceinline__ int times(int c) const { return S::IS_422 && c == 2 ? 2 : 1; }
    __device__ __forceinline__ int samples(int c) const { return times(c) == 2 ? job.width : width(); }
    __device__ __forceinline__ int begin(int c) const { return c * loaded() + (times(c) == 2 ? LUMA_BEHIND : 0); }
    __device__ __forceinline__ const CudaconvChannel& of(int c) const { return job.channels[channel + place(c)]; }
    __device__ __forceinline__ bool is_filtered(int c) const {
        return c < lines() && of(c).action == CUDACONV_FILTER;
    }
    // Of which channel the tile's sample `column` is, those of a channel standing side by side, and which one.
    __device__ __forceinline__ int channel_of(int column) const {
        const int c = column >> (31 - __clz(pixels));
        return S::IS_422 ? min(c, 2) : c;
    }
    __device__ __forceinline__ int sample_of(int column) const { return column - channel_of(column) * pixels; }
    // Whether sample x of a channel is the byte behind an odd last sample of luma, which is copied.
    __device__ __forceinline__ bool is_spare(int c, int x) const { return times(c) == 2 && x == samples(c); }
    // The row of the picture that is row `row` of those that are read, or BEYOND.
    __device__ __forceinline__ int position(int row) const {
        return border_position(frame.border, y0 - radius + row, height());
    }
    // The same, or another row where that is BEYOND.
    __device__ __forceinline__ u32 readable(int row) const {
        const int y = y0 - radius + row, nearest = min(max(y, 0), height() - 1);
        return y == nearest || frame.border == CUDACONV_REPLICATE ? nearest : max(position(row), 0);
    }

    // Sets what is known of `channels` channels from `channel` on.
    __device__ __forceinline__ void look() {
        filters = false, passes = S::IS_422 && job.width % 2 == 1;
#pragma unroll
        for (int c = 0; c < CUDACONV_CHANNELS; ++c) {
            if (c >= channels) break;
            const bool filtered = job.channels[channel + c].action == CUDACONV_FILTER;
            filters |= filtered, passes |= !filtered;
        }
        const CudaconvChannel& one = first();
        // There are no formats of three words.
        const bool dense = (one.step == static_cast<u32>(channels) * S::SIZE || S::IS_422) && !(S::SIZE == 2 && channels == 3);
        aligned_input = dense && (one.input | one.input_stride) % (RUN * S::SIZE) == 0;
        aligned_output = dense && (one.output | one.output_stride) % PIECE == 0;
        const bool inside = x0 >= S::HALO && x0 + pixels + S::HALO <= width();
        edge = !aligned_input || !inside || frame.border == CUDACONV_CONSTANT;
        ragged = !aligned_output || x0 + pixels > width();
    }
};

// Slabs that hold so many rows.
DEVICE u32 slabs_of(int rows) { return rows <= 0 ? 0u : static_cast<u32>(rows + ROWS - 1) / ROWS; }

// --- Writing -------------------------------------------------------------------------------------

// What a thread writes of every slab: in each turn a piece, or the samples that there are of it.
template <typename S>
struct Pieces {
    static constexpr int ACROSS = S::RESULTS / PIECE, SAMPLES = PIECE / S::SIZE;
    static constexpr int TURNS = ACROSS * ROWS / THREADS, ROWS_APART = THREADS / ACROSS;

    u32 offset;  // of the first piece from the first sample of the slab's first row
    u32 slabs;   // how many have it whole

    // Samples that there are from the first of the piece on.
    static __device__ __forceinline__ int left(const Tile<S>& tile) {
        const int pixels = min(tile.pixels, tile.width() - tile.x0);
        return pixels * tile.channels - static_cast<int>(threadIdx.x % ACROSS) * SAMPLES;
    }
    static __device__ __forceinline__ bool is_whole(const Tile<S>& tile) {
        return tile.aligned_output && left(tile) >= SAMPLES;
    }

    __device__ __forceinline__ Pieces(Shared<S>& shared, const Tile<S>& tile) {
        const u32 row = threadIdx.x / ACROSS;
        const u32 sample = tile.x0 * tile.channels + threadIdx.x % ACROSS * SAMPLES;
        offset = row * tile.first().output_stride + sample * S::SIZE;
        slabs = is_whole(tile) ? slabs_of(tile.rows - static_cast<int>(row)) : 0;
        keep(shared, offset), keep(shared, slabs);
    }
};

template <typename S>
DEVICE void write(const Shared<S>& shared, const Tile<S>& tile, const Pieces<S>& own, u32 slab) {
    using Sample = typename S::Sample;
    using P = Pieces<S>;
    const int rows = tile.rows - static_cast<int>(slab) * ROWS;
    if (slab < own.slabs) {
        const u32 stride = tile.first().output_stride;
        const cudaconv_u64 row = static_cast<cudaconv_u64>(tile.y0 + slab * ROWS);
        const cudaconv_u64 to = tile.first().output + row * stride + own.offset;
#pragma unroll
        for (int turn = 0; turn < P::TURNS; ++turn)
            if (turn == 0 || static_cast<int>(threadIdx.x) / P::ACROSS + turn * P::ROWS_APART < rows)
                write_sample(to + turn * P::ROWS_APART * stride, shared.results[0][turn * THREADS + threadIdx.x]);
    } else if (tile.ragged && !P::is_whole(tile)) {
        const int first = threadIdx.x % P::ACROSS * P::SAMPLES, left = min(P::left(tile), P::SAMPLES);
#pragma unroll 1
        for (int row = threadIdx.x / P::ACROSS; row < min(rows, ROWS); row += P::ROWS_APART) {
            const Sample* samples = reinterpret_cast<const Sample*>(shared.results[row]) + first;
#pragma unroll 1
            for (int n = 0; n < left; ++n) {
                const u32 pixel = static_cast<u32>(first + n) / tile.channels, c = first + n - pixel * tile.channels;
                const CudaconvChannel& channel = tile.job.channels[tile.channel + c];
                // Of packed 4:2:2 the second sample of luma has a channel of its own.
                const u32 x = (tile.x0 + pixel) * (S::IS_422 ? CUDACONV_CHANNELS / channel.step : 1);
                write_sample<Sample>(output_at(channel, x, tile.y0 + slab * ROWS + row), samples[n]);
            }
        }
    }
}
