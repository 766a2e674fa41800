// Correlation of 8-bit samples with separable kernels of up to 9 + 9 whole numbers of 0 to 255, those
// across of 257 in all, on the matrix units. All products and sums are whole numbers below 2^24, so
// the bytes are those of every other order of additions.
//
// Bytes: each sample read once and written once; at 4.3 TB/s 1 µs for 1080p GRAY8, 15 µs for 4K RGBA.
// Operations of a warp for 32 bytes of 16 rows, 512 samples: 16 matrix products, 16 permutations to
// split the sums across into bytes, 16 multiply-adds to join the sums down, 16 to divide and round, 12
// permutations to pack, 4 to 6 loads and stores: 6 an output of a thread, where vector arithmetic
// takes 26. The products take 2048 multiply-adds each of the 1024 that a multiprocessor does in a
// cycle: 4.5 µs for 4K RGBA.
// Measured on an H200, 4K RGBA: 42 µs, bound by latency: 1.1 instructions a cycle with 20 warps on a
// multiprocessor. Tiles of 64 to 128 rows, with the weights loaded once for all of them, take 43 to 48,
// rows loaded ahead of the products 43 to 66, 4 or 6 blocks a multiprocessor 44 to 47.
//
// Across, a product of a band matrix of weights and a matrix of bytes gives the sums of 16 columns of
// 8 rows. The second operand's registers hold four bytes of one row each, as they lie in memory; how
// positions in the row are numbered within a product is free, so a thread loads 16 bytes at once.
// The result's registers hold two sums of one column each. Two of them from each of two groups of 8 rows,
// split into low and high bytes, are what a register of the second operand holds in the product
// down, if that numbers the rows accordingly: no thread needs a sum of another's. Columns are
// numbered so that a thread gets eight bytes of a row in the end. The matrices of weights come
// from the host (`src/engine/cuda/abi/matrix.rs`), which numbers all that in the same way.
//
// Needs compute_80.
#include "common.cuh"

constexpr int WARPS = 4;
constexpr int THREADS = WARPS * WARP;
constexpr int WORD = 4;
// Bytes of a row that a warp computes, and what it reads of one: as many again, half on either side,
// which is up to 4 pixels of 4 bytes.
constexpr int BYTES = 32;
constexpr int BESIDE = 16;
constexpr int PIECE = 16;
// Rows of a product across, of a product down, and of a tile.
constexpr int GROUP = 8;
constexpr int STEP = 16;
constexpr int HEIGHT = 32;
constexpr int STEPS = HEIGHT / STEP;
// Rows above an output that a tile begins with.
constexpr int ABOVE = 4;
// Groups of rows that a tile needs.
constexpr int GROUPS = HEIGHT / GROUP + 1;
// Words of a thread in the table of weights: across, of one number of channels, and down.
constexpr int ACROSS = 16;
constexpr int DOWN = 4;

// d + a b, with a of 16 x 32 weights, b of 32 x 8 bytes and d of 16 x 8 sums.
DEVICE void multiply(int (&d)[4], const u32* a, u32 b0, u32 b1) {
    asm("mma.sync.aligned.m16n8k32.row.col.s32.u8.u8.s32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
        : "+r"(d[0]), "+r"(d[1]), "+r"(d[2]), "+r"(d[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

// What a warp computes: bytes of the rows of one channel, or of all of a packed job.
struct Tile {
    const CudaconvFrame& frame;
    const CudaconvJob& job;
    int channel;   // the first
    int channels;  // interleaved
    int x0, y0;    // first byte of a row, first row
    int row_bytes;

    __device__ __forceinline__ const CudaconvChannel& first() const { return job.channels[channel]; }
    // The channel of byte `k` of a word. Three channels are alike, others a power of two.
    __device__ __forceinline__ const CudaconvChannel& of_byte(int k) const {
        return job.channels[channel + (channels == 3 ? 0 : k & (channels - 1))];
    }
};

// --- 1. bytes ------------------------------------------------------------------------------------

// What a warp has of tiles at an edge of the picture.
struct Edge {
    // For each of the bytes that a warp reads of a row: the one in the row that stands for it, or BEYOND.
    alignas(16) int position[2 * BYTES];
    // Of each thread, because there the tile's rows are not loaded by code that is unrolled.
    uint4 rows[GROUPS][WARP];

    __device__ __forceinline__ void find_positions(const Tile& tile) {
        __syncwarp();
#pragma unroll 1
        for (int at = lane(); at < 2 * BYTES; at += WARP) {
            const int byte = tile.x0 - BESIDE + at, channels = tile.channels;
            // Floor division: positions begin at most 16 pixels before the row.
            const int pixel = (byte + channels * BESIDE) / channels - BESIDE;
            const int x = border_position(tile.frame.border, pixel, tile.job.width);
            position[at] = x == BEYOND ? BEYOND : x * channels + byte - pixel * channels;
        }
        __syncwarp();
    }
};

// The codes beyond the edge of four bytes of a row, where the border's constant is.
DEVICE u32 codes_beyond(const Tile& tile) {
    u32 codes = 0;
#pragma unroll
    for (int k = 0; k < WORD; ++k) {
        const CudaconvChannel& channel = tile.of_byte(k);
        // The host sees to it that this is a byte.
        codes |= static_cast<u32>(channel.beyond + channel.zero) << 8 * k;
    }
    return codes;
}

// 16 bytes of row `y`, a position in the picture or BEYOND, each found by its position.
DEVICE uint4 gather_piece(const Tile& tile, const int* position, int y, u32 beyond) {
    const CudaconvChannel& first = tile.first();
    const cudaconv_u64 row = first.input + static_cast<cudaconv_u64>(max(y, 0)) * first.input_stride;
    u32 words[4];
#pragma unroll
    for (int w = 0; w < 4; ++w) {
        const int4 at = reinterpret_cast<const int4*>(position)[w];
        const int places[WORD] = {at.x, at.y, at.z, at.w};
        u32 word = 0;
#pragma unroll
        for (int k = 0; k < WORD; ++k) {
            // All are loaded, so that none waits for another.
            const u32 code = read_sample<u8>(row + max(places[k], 0));
            word |= (places[k] == BEYOND || y == BEYOND ? beyond >> 8 * k & 0xff : code) << 8 * k;
        }
        words[w] = word;
    }
    return make_uint4(words[0], words[1], words[2], words[3]);
}

// A thread's bytes of a tile that, with all that it needs, lies in the picture, or does not.
DEVICE void load_rows(uint4 (&rows)[GROUPS], const Tile& tile, Edge& edge) {
    const CudaconvChannel& first = tile.first();
    const int byte = tile.x0 - BESIDE + lane() % 4 * PIECE, y = tile.y0 - ABOVE + lane() / 4;
    const int height = tile.job.height;
    const bool in_rows = tile.x0 >= BESIDE && tile.x0 + BYTES + BESIDE <= tile.row_bytes;
    if (in_rows && tile.y0 >= ABOVE && tile.y0 + HEIGHT + ABOVE <= height) {
        cudaconv_u64 address = first.input + static_cast<cudaconv_u64>(y) * first.input_stride + byte;
#pragma unroll
        for (int group = 0; group < GROUPS; ++group, address += GROUP * first.input_stride)
            rows[group] = read_sample<uint4>(address);
        return;
    }
    edge.find_positions(tile);
    const u32 beyond = tile.frame.border == CUDACONV_CONSTANT ? codes_beyond(tile) : 0;
#pragma unroll 1
    for (int group = 0; group < GROUPS; ++group) {
        uint4 piece = make_uint4(0, 0, 0, 0);
        // Rows below are needed by no output.
        if (y + group * GROUP < height + ABOVE) {
            const int at = border_position(tile.frame.border, y + group * GROUP, height);
            if (byte >= 0 && byte + PIECE <= tile.row_bytes && at != BEYOND)
                piece = read_sample<uint4>(first.input + static_cast<cudaconv_u64>(at) * first.input_stride + byte);
            else
                piece = gather_piece(tile, edge.position + lane() % 4 * PIECE, at, beyond);
        }
        edge.rows[group][lane()] = piece;
    }
#pragma unroll
    for (int group = 0; group < GROUPS; ++group) rows[group] = edge.rows[group][lane()];
}

// --- 2. sums -------------------------------------------------------------------------------------

// Sums across of two groups of rows, as the second operand of a product down: for the low and the high
// bytes, four times 8 columns.
struct Pair {
    u32 low[4], high[4];
};

// The sums of 32 columns of 8 rows: of the first 8 columns of each half of them and of the last.
DEVICE void sum_across(int (&sums)[2][4], const u32 (&weights)[ACROSS], const uint4& bytes) {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
#pragma unroll
        for (int i = 0; i < 4; ++i) sums[half][i] = 0;
        multiply(sums[half], weights + 8 * half, bytes.x, bytes.y);
        multiply(sums[half], weights + 8 * half + 4, bytes.z, bytes.w);
    }
}

DEVICE Pair sum_pair(const u32 (&weights)[ACROSS], const uint4& above, const uint4& below) {
    int first[2][4], second[2][4];
    sum_across(first, weights, above);
    sum_across(second, weights, below);
    Pair pair;
#pragma unroll
    for (int i = 0; i < 4; ++i) {
        const int (&a)[4] = first[i / 2];
        const int (&b)[4] = second[i / 2];
        const int at = i % 2 * 2;
        // Low and high bytes of two sums each.
        const u32 upper = __byte_perm(a[at], a[at + 1], 0x5140), lower = __byte_perm(b[at], b[at + 1], 0x5140);
        pair.low[i] = __byte_perm(upper, lower, 0x5410);
        pair.high[i] = __byte_perm(upper, lower, 0x7632);
    }
    return pair;
}

// --- 3. bytes again ------------------------------------------------------------------------------

// How sums become bytes.
enum Kind {
    // Sums below 2^23, a divisor that is a power of two, whole numbers to add.
    SMALL,
    // The same with sums below 2^24.
    LARGE,
    // Sums below 2^24, anything else.
    DIVIDED,
};

// What becomes of the sums of a thread's bytes; the same for both its words but for three channels,
// which the host sees to it are alike.
template <Kind KIND>
struct Ending {
    float scale;  // the divisor of DIVIDED, of others its reciprocal
    bool clamped; // results may be out of range
    // What is added, SMALL and LARGE: to sums that are divided, so that the code is in the last bits.
    float added[WORD];
    float levels[WORD];  // DIVIDED: the zero level times the sum of the weights
    u32 filtered, copied, filled;

    __device__ __forceinline__ Ending(const Tile& tile, const CudaconvConvolveLaunch& launch)
        : scale(KIND == DIVIDED ? launch.divisor : launch.reciprocal), filtered(0), copied(0), filled(0) {
        const float sum = launch.sum;
        clamped = KIND == DIVIDED || sum > launch.divisor;
#pragma unroll
        for (int k = 0; k < WORD; ++k) {
            const CudaconvChannel& channel = tile.of_byte(k);
            levels[k] = channel.zero * sum;
            added[k] = channel.offset;
            if (KIND != DIVIDED) {
                const float whole = channel.offset - levels[k] * launch.reciprocal;
                clamped = clamped || whole != 0.0f;
                added[k] = WHOLE + whole - (KIND == SMALL ? WHOLE * launch.reciprocal : 0.0f);
            }
            const u32 mask = 0xffu << 8 * k;
            if (channel.action == CUDACONV_FILTER) filtered |= mask;
            if (channel.action == CUDACONV_COPY) copied |= mask;
            if (channel.action == CUDACONV_FILL) filled |= channel.fill << 8 * k;
        }
    }

    // The code of byte `k` of a word in the low byte, from what 2^23 and the sums of the low and of the
    // high bytes are as floats; SMALL: of both together, as the low one.
    template <bool CLAMPED>
    __device__ __forceinline__ u32 code(float low, float high, int k) const {
        float value;
        if (KIND == SMALL) {
            value = fmaf(low, scale, added[k]);
        } else {
            const float sum = fmaf(high - WHOLE, 256.0f, low - WHOLE);
            if (KIND == LARGE) value = fmaf(sum, scale, added[k]);
            else value = fminf(fmaxf(__fdiv_rn(sum - levels[k], scale) + added[k], 0.0f), 255.0f) + WHOLE;
        }
        if (CLAMPED && KIND != DIVIDED) value = fminf(fmaxf(value, WHOLE), WHOLE + 255.0f);
        return __float_as_uint(value);
    }
};

// Eight bytes of a row, of which `left` are the row's.
DEVICE void write_words(cudaconv_u64 address, int left, u32 low, u32 high) {
    if (left >= 2 * WORD) {
        write_sample(address, make_uint2(low, high));
        return;
    }
#pragma unroll 1
    for (int b = 0; b < left; ++b) write_sample<u8>(address + b, (b < WORD ? low : high) >> 8 * (b % WORD));
}

// Writes the sums of 16 rows from row `y` on.
template <bool CLAMPED, Kind KIND>
DEVICE void write_rows(const Tile& tile, const Ending<KIND>& ending, const u32 (&weights)[DOWN], const Pair& above,
                       const Pair& below, int y) {
    u32 words[2][2];
#pragma unroll
    for (int word = 0; word < 2; ++word) {
        u32 codes[2][WORD];
#pragma unroll
        for (int half = 0; half < 2; ++half) {
            const int i = 2 * word + half;
            // 2^23 as float, in whose last bits a sum is added.
            constexpr int NONE = 0x4b000000;
            constexpr int FIRST = KIND == SMALL ? 0 : NONE;
            int low[4], high[4] = {FIRST, FIRST, FIRST, FIRST};
            multiply(high, weights, above.high[i], below.high[i]);
#pragma unroll
            for (int k = 0; k < 4; ++k) low[k] = KIND == SMALL ? high[k] * 256 + NONE : NONE;
            multiply(low, weights, above.low[i], below.low[i]);
#pragma unroll
            for (int k = 0; k < 4; ++k) {
                const int b = 2 * half + k % 2;
                codes[k / 2][b] = ending.template code<CLAMPED>(__int_as_float(low[k]), __int_as_float(high[k]), b);
            }
        }
#pragma unroll
        for (int row = 0; row < 2; ++row) {
            const u32 low = __byte_perm(codes[row][0], codes[row][1], 0x0040);
            const u32 high = __byte_perm(codes[row][2], codes[row][3], 0x0040);
            words[row][word] = (__byte_perm(low, high, 0x5410) & ending.filtered) | ending.filled;
        }
    }
    const CudaconvChannel& first = tile.first();
    const int byte = tile.x0 + lane() % 4 * 2 * WORD;
#pragma unroll
    for (int row = 0; row < 2; ++row) {
        const int at = y + lane() / 4 + row * GROUP;
        if (at >= static_cast<int>(tile.job.height) || byte >= tile.row_bytes) continue;
        if (ending.copied) {
            // Rows of the picture end at multiples of 16 bytes or later.
            const cudaconv_u64 own = first.input + static_cast<cudaconv_u64>(at) * first.input_stride + byte;
            const uint2 two = read_sample<uint2>(own);
            words[row][0] |= two.x & ending.copied;
            words[row][1] |= two.y & ending.copied;
        }
        write_words(first.output + static_cast<cudaconv_u64>(at) * first.output_stride + byte, tile.row_bytes - byte,
                    words[row][0], words[row][1]);
    }
}

// --- A tile --------------------------------------------------------------------------------------

template <bool CLAMPED, Kind KIND>
DEVICE void filter_rows(const Tile& tile, const Ending<KIND>& ending, const u32 (&across)[ACROSS],
                        const u32 (&down)[DOWN], const uint4 (&rows)[GROUPS]) {
    Pair above = sum_pair(across, rows[0], rows[1]);
#pragma unroll
    for (int step = 0; step < STEPS; ++step) {
        const int next = 2 * step + 2;
        const uint4 none = make_uint4(0, 0, 0, 0);
        const Pair below = sum_pair(across, rows[next], next + 1 < GROUPS ? rows[next + 1] : none);
        write_rows<CLAMPED>(tile, ending, down, above, below, tile.y0 + step * STEP);
        above = below;
    }
}

template <Kind KIND>
DEVICE void filter_tile(const Tile& tile, const CudaconvConvolveLaunch& launch, Edge& edge) {
    const uint4* table = reinterpret_cast<const uint4*>(launch.weights) + lane();
    u32 across[ACROSS], down[DOWN];
#pragma unroll
    for (int i = 0; i < ACROSS / 4; ++i) {
        const uint4 four = __ldg(table + ((tile.channels - 1) * (ACROSS / 4) + i) * WARP);
        across[4 * i] = four.x, across[4 * i + 1] = four.y, across[4 * i + 2] = four.z, across[4 * i + 3] = four.w;
    }
    const uint4 four = __ldg(table + CUDACONV_CHANNELS * (ACROSS / 4) * WARP);
    down[0] = four.x, down[1] = four.y, down[2] = four.z, down[3] = four.w;
    uint4 rows[GROUPS];
    load_rows(rows, tile, edge);
    const Ending<KIND> ending(tile, launch);
    if (ending.clamped) filter_rows<true>(tile, ending, across, down, rows);
    else filter_rows<false>(tile, ending, across, down, rows);
}

template <Kind KIND>
DEVICE void separable_matrix(const CudaconvConvolveLaunch& launch) {
    __shared__ Edge edges[WARPS];
    const CudaconvFrame& frame = launch.frame;
    const CudaconvJob& job = frame.jobs[job_of(frame, blockIdx.y)];
    if (blockIdx.x >= job.tiles_across) return;
    const int channels = job.packed ? job.channel_count : 1, warp = threadIdx.x / WARP;
    // All channels of a packed job at once, else one after the other.
    Tile tile = {frame, job, 0, channels, 0, 0, static_cast<int>(job.width) * channels};
    tile.x0 = (blockIdx.x * WARPS + warp) * BYTES;
    tile.y0 = (blockIdx.y - job.first_tile_row) * HEIGHT;
    if (tile.x0 >= tile.row_bytes) return;
#pragma unroll 1
    for (; tile.channel < static_cast<int>(job.channel_count); tile.channel += channels)
        filter_tile<KIND>(tile, launch, edges[warp]);
}

// With so many blocks of a multiprocessor that registers suffice.
#define SEPARABLE_MATRIX(name, kind, blocks)                          \
    extern "C" __global__ void __launch_bounds__(THREADS, blocks)     \
        name(const __grid_constant__ CudaconvConvolveLaunch launch) { \
        separable_matrix<kind>(launch);                               \
    }

#ifdef SEPARABLE_MATRIX_U8
SEPARABLE_MATRIX(separable_matrix_u8, SMALL, 5)
#endif
#ifdef SEPARABLE_MATRIX_LARGE_U8
SEPARABLE_MATRIX(separable_matrix_large_u8, LARGE, 4)
#endif
#ifdef SEPARABLE_MATRIX_DIVIDED_U8
SEPARABLE_MATRIX(separable_matrix_divided_u8, DIVIDED, 4)
#endif
