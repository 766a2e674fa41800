// How the kernels of whole rows share rows out, and what the samples of a row are: 16-bit ones of one, two or
// four channels, and packed 4:2:2.
#pragma once

#include "common.cuh"

constexpr int THREADS = 128;
constexpr int WORD = 4;
// Bytes that are copied to shared memory at once.
constexpr int PIECE = 16;
// Pieces that a thread reads before it stores the first.
constexpr int MOST_AT_ONCE = 8;
// Samples after which channels repeat, in every format.
constexpr int PERIOD = 4;

// What the host's rules say of a kernel: a thread computes BYTES of ROWS rows, LANES threads stand side by side.
template <typename FORMAT, int COUNT, int OWN, int DOWN, int ACROSS>
struct Shape {
    using Format = FORMAT;
    static constexpr int RADIUS = 1, KERNELS = COUNT;
    static constexpr int BYTES = OWN, WORDS = BYTES / WORD, SAMPLES = WORDS * Format::SAMPLES;
    static constexpr int ROWS = DOWN, LANES = ACROSS, GROUPS = THREADS / LANES;
    static constexpr int TILE_BYTES = LANES * BYTES, TILE_ROWS = GROUPS * ROWS;
    static constexpr int ROWS_READ = TILE_ROWS + 2 * RADIUS;
    // Bytes beside a tile that are loaded.
    static constexpr int HALO = rounded_up(RADIUS * Format::LONGEST_STEP, PIECE);
    static constexpr int PITCH = TILE_BYTES + 2 * HALO, PIECES = PITCH / PIECE;
};

template <typename S>
struct Shared {
    uint4 rows[S::ROWS_READ][S::PIECES];
    int positions[S::ROWS_READ];  // of the rows in the picture, or BEYOND
};

// What a block computes: bytes of rows from x0 on, rows from y0 on.
struct Tile {
    const CudaconvFrame& frame;
    const CudaconvJob& job;
    int x0, y0;
    int row_bytes;
    int channels;

    __device__ __forceinline__ cudaconv_u64 input(u32 y) const {
        return job.channels[0].input + static_cast<cudaconv_u64>(y) * job.channels[0].input_stride;
    }

    __device__ __forceinline__ cudaconv_u64 output(u32 y) const {
        return job.channels[0].output + static_cast<cudaconv_u64>(y) * job.channels[0].output_stride;
    }
};

// --- Formats -------------------------------------------------------------------------------------

// One, two or four interleaved channels of 16 bits.
struct Words {
    using Sample = u16;
    static constexpr int SAMPLES = 2;  // of a word
    static constexpr int LONGEST_STEP = CUDACONV_CHANNELS * sizeof(Sample);

    u32 mask, select[SAMPLES], pack, shift;
    float scale;

    __device__ __forceinline__ explicit Words(const Tile& tile) : shift(tile.frame.shift) {
        const bool big = tile.frame.sample == CUDACONV_U16_BE;
        const u32 code = static_cast<u32>(tile.frame.max_code) << shift;
        mask = code | code << 16;
        select[0] = big ? 0x7401 : 0x7410;
        select[1] = big ? 0x7423 : 0x7432;
        pack = big ? 0x4501 : 0x5410;
        scale = __uint_as_float((127 - shift) << 23);
    }

    // What is added to samples as they are converted. Those whose code value is shifted are brought down
    // together with 2^23.
    __device__ __forceinline__ float base(float zero) const { return -(WHOLE * scale + zero); }

    // in' of sample `index` of a word.
    __device__ __forceinline__ float value(u32 word, int index, float base) const {
        return fmaf(__uint_as_float(__byte_perm(word & mask, 0x4b000000, select[index])), scale, base);
    }

    // A word of codes with anything above their 16 bits.
    __device__ __forceinline__ u32 packed(const u32* codes) const { return __byte_perm(codes[0], codes[1], pack) << shift; }

    // Bytes of a row, and those of them before the first place beyond the edge.
    static __device__ __forceinline__ int row_bytes(const CudaconvJob& job) { return job.width * job.channel_count * 2; }
    static __device__ __forceinline__ int inside(const Tile& tile) { return tile.row_bytes; }

    // Samples from one of a channel to its next.
    static __device__ __forceinline__ int step(const Tile& tile) { return tile.channels; }

    // The index of the channel of which sample `index` of a row is one, in the order of addresses.
    static __device__ __forceinline__ int channel(const Tile& tile, int index) { return index & (tile.channels - 1); }
    // The same of what is computed as sample `index`.
    __device__ __forceinline__ int computed_channel(const Tile& tile, int index) const { return channel(tile, index); }

    // The sample that stands for sample `index` of a row, or BEYOND.
    static __device__ __forceinline__ int position(const Tile& tile, int index) {
        const int own = channel(tile, index);
        const int pixel = border_position(tile.frame.border, (index - own) / tile.channels, tile.job.width);
        return pixel == BEYOND ? BEYOND : pixel * tile.channels + own;
    }
};

// Packed 4:2:2: luma is every second byte, chroma alternates in between. Computed in the order Y U Y V.
struct Packed422 {
    using Sample = u8;
    static constexpr int SAMPLES = 4;
    static constexpr int LONGEST_STEP = 4;

    u32 select[SAMPLES], pack, second;

    __device__ __forceinline__ explicit Packed422(const Tile& tile) : second(tile.job.packed == CUDACONV_LUMA_SECOND) {
#pragma unroll
        for (u32 k = 0; k < SAMPLES; ++k) select[k] = 0x7440 + (k ^ second);
        pack = second ? 0x0004 : 0x0040;
    }

    __device__ __forceinline__ float base(float zero) const { return -(WHOLE + zero); }

    __device__ __forceinline__ float value(u32 word, int index, float base) const {
        return __uint_as_float(__byte_perm(word, 0x4b000000, select[index])) + base;
    }

    __device__ __forceinline__ u32 packed(const u32* codes) const {
        return __byte_perm(__byte_perm(codes[0], codes[1], pack), __byte_perm(codes[2], codes[3], pack), 0x5410);
    }

    static __device__ __forceinline__ int row_bytes(const CudaconvJob& job) { return (job.width + 1) / 2 * 4; }
    // At odd width the last luma byte is no pixel.
    static __device__ __forceinline__ int inside(const Tile& tile) { return tile.job.width * 2; }
    static __device__ __forceinline__ int step(const Tile&) { return 4; }
    static __device__ __forceinline__ int channel(const Tile&, int index) { return index & 3; }
    __device__ __forceinline__ int computed_channel(const Tile&, int index) const { return (index & 3) ^ second; }

    static __device__ __forceinline__ int position(const Tile& tile, int index) {
        const int luma = tile.job.packed == CUDACONV_LUMA_SECOND, width = tile.job.width;
        const bool is_luma = (index & 1) == luma;
        const int unit = is_luma ? 2 : 4, own = index & (unit - 1);
        const int pixel = border_position(tile.frame.border, (index - own) / unit, is_luma ? width : (width + 1) / 2);
        return pixel == BEYOND ? BEYOND : pixel * unit + own;
    }
};
