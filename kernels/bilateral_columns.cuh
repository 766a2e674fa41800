// What the kernels of the bilateral share that weigh by exponentials and go down the columns of the window: a thread
// computes some rows of one column of a tile, and what it reads of a column of samples serves all of them.
//
// Of 8 rows: a column of the window of 2 s + 1 rows takes 2 s + 8 rows of samples. The 7 at either end are in the windows
// of 1 to 7 outputs; the others are taken in pairs, as far above the middle as below, as both of a pair need the same 8
// spatial exponents. So a pair takes two reads of samples for 16 taps, and an end seven for 28. Of an odd number of rows,
// one sample in the middle is left over.
#pragma once

#include "bilateral.cuh"

extern __shared__ float4 shared[];

// Tiles of radii up to this all have the same halo, so that a block reads them whole at once.
constexpr int NEAR = 8, PITCH = WIDTH + 2 * NEAR;

// Rows of a thread, and warps of a block, one below the other.
template <int OF_THREAD, int OF_BLOCK>
struct Shape {
    static constexpr int ROWS = OF_THREAD, WARPS = OF_BLOCK, HALF = ROWS / 2;
    static constexpr int THREADS = WARPS * WARP, HEIGHT = WARPS * ROWS;
};

// --- Spatial exponents ---------------------------------------------------------------------------

// Of each column of the window there are those of the distances from -HALF on.
DEVICE int exponents_of_column(int radius_y, int half) { return half + radius_y + 1; }

// In the launch, where they cost neither room in shared memory nor registers of each thread.
struct InLaunch {
    const float* exponents;

    __device__ __forceinline__ InLaunch column(int index) const { return {exponents + index}; }
    __device__ __forceinline__ float at(int index) const { return exponents[index]; }

    template <int ROWS>
    __device__ __forceinline__ void read(float (&to)[ROWS], int from) const {
#pragma unroll
        for (int j = 0; j < ROWS; ++j) to[j] = exponents[from + j];
    }
};

// In shared memory, each with the three behind it.
struct InShared {
    const float4* exponents;

    __device__ __forceinline__ InShared column(int index) const { return {exponents + index}; }
    __device__ __forceinline__ float at(int index) const { return exponents[index].x; }

    template <int ROWS>
    __device__ __forceinline__ void read(float (&to)[ROWS], int from) const {
        static_assert(ROWS % 4 == 0, "whole fours");
#pragma unroll
        for (int j = 0; j < ROWS; j += 4) {
            const float4 four = exponents[from + j];
            to[j] = four.x;
            to[j + 1] = four.y;
            to[j + 2] = four.z;
            to[j + 3] = four.w;
        }
    }
};

// Puts them there, `added` to each: a warp a column.
template <typename Shape>
DEVICE void put_exponents(const CudaconvBilateralLaunch& launch, float added) {
    const int radius_x = launch.radius_x, radius_y = launch.radius_y, rows = exponents_of_column(radius_y, Shape::HALF);
    const float* weights = reinterpret_cast<const float*>(launch.weights);
#pragma unroll 1
    for (int dx = threadIdx.x / WARP; dx <= radius_x; dx += Shape::WARPS) {
#pragma unroll 1
        for (int i = lane(); i < rows; i += WARP) {
            const auto exponent = [&](int dy) { return __ldg(weights + min(abs(dy), radius_y) * (radius_x + 1) + dx) + added; };
            const int dy = i - Shape::HALF;
            shared[dx * rows + i] = make_float4(exponent(dy), exponent(dy + 1), exponent(dy + 2), exponent(dy + 3));
        }
    }
}

// What lies behind them.
template <typename Shape, typename Pixel>
DEVICE Pixel* behind_exponents(const CudaconvBilateralLaunch& launch) {
    return reinterpret_cast<Pixel*>(shared + (launch.radius_x + 1) * exponents_of_column(launch.radius_y, Shape::HALF));
}

// --- Columns of the window -----------------------------------------------------------------------

// Adds the taps of two samples of a column, as far above the middle of the outputs as below it.
template <typename Way>
DEVICE void add_pair(const Way& way, typename Way::Sums (&sums)[Way::ROWS], const typename Way::Centre (&centres)[Way::ROWS],
                     const typename Way::Pixel& above, const typename Way::Pixel& below, const float (&exponents)[Way::ROWS]) {
#pragma unroll
    for (int h = 0; h < Way::ROWS; ++h) {
        way.add(sums[h], above, centres[h], exponents[h]);
        way.add(sums[Way::ROWS - 1 - h], below, centres[Way::ROWS - 1 - h], exponents[h]);
    }
}

// Adds those of all samples of a column that are in the windows of all outputs: so many pairs, and of an odd number of
// rows the sample in the middle.
template <typename Way>
DEVICE void add_middle(const Way& way, typename Way::Sums (&sums)[Way::ROWS], const typename Way::Centre (&centres)[Way::ROWS],
                       const typename Way::Pixel* own, InShared exponents, int pairs, int pitch) {
    using Pixel = typename Way::Pixel;
    static_assert(Way::ROWS % 2 == 0, "nothing in the middle");
    const Pixel *above = own + (Way::HALF - pairs) * pitch, *below = own + (Way::HALF - 1 + pairs) * pitch;
    float near[Way::ROWS];
    exponents.read(near, pairs);
    // Read before they are needed, the last in vain.
    Pixel first = *above, second = *below;
#pragma unroll 2
    for (int pair = pairs; pair > 0; --pair) {
        above += pitch;
        below -= pitch;
        const Pixel next_first = *above, next_second = *below;
        add_pair(way, sums, centres, first, second, near);
        first = next_first;
        second = next_second;
        exponents.read(near, pair - 1);
    }
}

// The same of radii up to NEAR, from the middle on: as every pair has code of its own, addresses and exponents are constants.
template <typename Way>
DEVICE void add_middle(const Way& way, typename Way::Sums (&sums)[Way::ROWS], const typename Way::Centre (&centres)[Way::ROWS],
                       const typename Way::Pixel* own, InLaunch exponents, int pairs, int pitch) {
    using Pixel = typename Way::Pixel;
    constexpr int ROWS = Way::ROWS, HALF = Way::HALF, MOST = NEAR - ROWS + 1 + HALF;
    float near[NEAR + 1];
#pragma unroll
    for (int i = 0; i <= NEAR; ++i) near[i] = exponents.at(HALF + i);
    if (ROWS % 2 != 0) {
        const Pixel middle = own[HALF * pitch];
#pragma unroll
        for (int h = 0; h < ROWS; ++h) way.add(sums[h], middle, centres[h], near[abs(h - HALF)]);
    }
    const auto above = [&](int pair) { return own[(HALF - pair) * pitch]; };
    const auto below = [&](int pair) { return own[(ROWS - 1 - HALF + pair) * pitch]; };
    // Read before they are needed, the last in vain.
    Pixel first = above(1), second = below(1);
#pragma unroll
    for (int pair = 1; pair <= MOST; ++pair) {
        if (pair > pairs) break;
        const Pixel next_first = above(pair + 1), next_second = below(pair + 1);
        float of_pair[ROWS];
#pragma unroll
        for (int h = 0; h < ROWS; ++h) of_pair[h] = near[abs(pair - HALF + h)];
        add_pair(way, sums, centres, first, second, of_pair);
        first = next_first;
        second = next_second;
    }
}

// Adds the taps of one column of the window, of `span` rows on either side of the middle, to the sums of the outputs of
// a thread. `own` is the sample of the first output in that column. A Way says what samples are, how many rows a thread
// has and how a tap is added.
template <typename Way, typename Exponents>
DEVICE void add_column(const Way& way, typename Way::Sums (&sums)[Way::ROWS], const typename Way::Centre (&centres)[Way::ROWS],
                       const typename Way::Pixel* own, Exponents exponents, int span, int pitch) {
    using Pixel = typename Way::Pixel;
    constexpr int ROWS = Way::ROWS, HALF = Way::HALF;
    if (span < (ROWS - 1) / 2) {
#pragma unroll 1
        for (int dy = -span; dy <= span; ++dy) {
            const float exponent = exponents.at(abs(dy) + HALF);
#pragma unroll
            for (int h = 0; h < ROWS; ++h) way.add(sums[h], own[(h + dy) * pitch], centres[h], exponent);
        }
        return;
    }
    const int pairs = span + 1 + HALF - ROWS;
    add_middle(way, sums, centres, own, exponents, pairs, pitch);
    // The others, from the ends inwards.
    const Pixel *above = own - span * pitch, *below = own + (span + ROWS - 1) * pitch;
    float far[ROWS];
    exponents.read(far, pairs);
#pragma unroll
    for (int j = 0; j < ROWS - 1; ++j) {
        const Pixel first = above[j * pitch], second = below[-j * pitch];
#pragma unroll
        for (int h = 0; h <= j; ++h) {
            way.add(sums[h], first, centres[h], far[ROWS - 1 - j + h]);
            way.add(sums[ROWS - 1 - h], second, centres[ROWS - 1 - h], far[ROWS - 1 - j + h]);
        }
    }
}

// Adds all taps of the windows of the outputs of a thread, of which `own` is the first sample.
template <typename Way, typename Exponents>
DEVICE void add_window(const Way& way, typename Way::Sums (&sums)[Way::ROWS], typename Way::Centre (&centres)[Way::ROWS],
                       const typename Way::Pixel* own, int pitch, const CudaconvBilateralLaunch& launch, Exponents exponents) {
#pragma unroll
    for (int h = 0; h < Way::ROWS; ++h) {
        centres[h] = Way::centre(own[h * pitch]);
        sums[h] = {};
    }
    const int radius_x = launch.radius_x, rows = exponents_of_column(launch.radius_y, Way::HALF);
    // From the outermost to the middle and out again.
    int dx = radius_x, step = -1;
    own -= radius_x;
#pragma unroll 1
    for (int left = 2 * radius_x; left >= 0; --left) {
        add_column(way, sums, centres, own, exponents.column(dx * rows), launch.columns[dx], pitch);
        if (dx == 0) step = 1;
        dx += step;
        ++own;
    }
}

// --- Tiles ---------------------------------------------------------------------------------------

// Such a tile that lies in the picture, on its way into shared memory: a warp reads 32 samples of a row, and of the
// 16 behind them those of two rows at once.
template <typename Sample, typename Shape>
struct Reading {
    static constexpr int WARPS = Shape::WARPS, ROWS = Shape::HEIGHT + 2 * NEAR;
    static constexpr int RUNS = (ROWS + WARPS - 1) / WARPS, HALVES = (ROWS + 2 * WARPS - 1) / (2 * WARPS);
    u32 runs[RUNS], halves[HALVES];

    static __device__ __forceinline__ int row() { return threadIdx.x / WARP; }
    static __device__ __forceinline__ int half_row() { return threadIdx.x / (WARP / 2); }
    static __device__ __forceinline__ int half_column() { return WIDTH + threadIdx.x % (WARP / 2); }
    // Whether there is the row `row` of the `apart` that are read at once, for the time `i`.
    static __device__ __forceinline__ bool has(int i, int apart, int row) { return (i + 1) * apart <= ROWS || row + i * apart < ROWS; }

    // `from` is the address of the first of samples that are `step` apart, in rows `stride` apart. Of samples that do not
    // begin with words, the words in which they begin are read.
    __device__ __forceinline__ Reading(cudaconv_u64 from, u32 step, u32 stride) {
        constexpr cudaconv_u64 ALIGNED = sizeof(Sample) == 4 ? ~3ull : ~0ull;
        const cudaconv_u64 run = (from + row() * stride + step * lane()) & ALIGNED;
        const cudaconv_u64 half = (from + half_row() * stride + step * half_column()) & ALIGNED;
#pragma unroll
        for (int i = 0; i < RUNS; ++i)
            if (has(i, WARPS, row())) runs[i] = read_sample<Sample>(run + i * WARPS * stride);
#pragma unroll
        for (int i = 0; i < HALVES; ++i)
            if (has(i, 2 * WARPS, half_row())) halves[i] = read_sample<Sample>(half + 2 * i * WARPS * stride);
    }

    // Makes words of which samples of three bytes are the lower ones: reads the words in which these end, too. Rows begin
    // with words.
    __device__ __forceinline__ void take_triples(cudaconv_u64 from, u32 stride) {
        const cudaconv_u64 run = from + row() * stride + 3 * lane(), half = from + half_row() * stride + 3 * half_column();
        const cudaconv_u64 run_end = (run + 2) & ~3ull, half_end = (half + 2) & ~3ull;
        const u32 run_bits = run % 4 * 8, half_bits = half % 4 * 8;
#pragma unroll
        for (int i = 0; i < RUNS; ++i)
            if (has(i, WARPS, row()))
                runs[i] = __funnelshift_r(runs[i], read_sample<u32>(run_end + i * WARPS * stride), run_bits);
#pragma unroll
        for (int i = 0; i < HALVES; ++i)
            if (has(i, 2 * WARPS, half_row()))
                halves[i] = __funnelshift_r(halves[i], read_sample<u32>(half_end + 2 * i * WARPS * stride), half_bits);
    }

    // Stores what `make` makes of each sample.
    template <typename Pixel, typename Make>
    __device__ __forceinline__ void store(Pixel* tile, Make make) const {
        Pixel *run = tile + row() * PITCH + lane(), *half = tile + half_row() * PITCH + half_column();
#pragma unroll
        for (int i = 0; i < RUNS; ++i)
            if (has(i, WARPS, row())) run[i * WARPS * PITCH] = make(runs[i]);
#pragma unroll
        for (int i = 0; i < HALVES; ++i)
            if (has(i, 2 * WARPS, half_row())) half[2 * i * WARPS * PITCH] = make(halves[i]);
    }
};

// Any tile: stores what `make` makes of each of the `positions`.
template <typename Shape, typename Pixel, typename Make>
DEVICE void fill_tile(Pixel* tile, int pitch, int rows, const Positions& positions, Make make) {
    const int rows_apart = Shape::THREADS / pitch, columns_apart = Shape::THREADS % pitch;
    Walk walk(pitch, threadIdx.x);
#pragma unroll 2
    for (; walk.index < pitch * rows; walk.step(pitch, Shape::THREADS, rows_apart, columns_apart))
        tile[walk.index] = make(positions.columns[walk.column], positions.rows[walk.row]);
}
