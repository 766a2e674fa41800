// Correlation with any kernel, separable or not, and the magnitude of two.
//
// Bytes: each sample read once and written once, 2 bytes per u8 sample; at 4.3 TB/s that is 1 µs
// for 1080p grey. Operations: width * height FMAs per sample (width + height for the tile of a
// separable kernel); at 132 multiprocessors * 128 FMAs * 1.98 GHz 3x3 takes 0.6 µs, 15x15 14 µs for
// 1080p grey. So 3x3 is bound by what is around the FMAs (loads, conversion, rounding, stores) and by
// latency, from 7x7 on the FMAs are the bound.
//
// naive: a block of 32 x 8 threads, one sample each; every tap is read from global memory.
// tile: a block of 128 threads computes 64 columns by 64, 32 or 16 rows, the most whose tile with
// its halo fits into 48 KiB: (64 + line) * (rows + height - 1) floats (line: width
// rounded up to a multiple of 8), and 64 * rows floats more for
// the means of alpha if a job is premultiplied. A thread computes 8 columns
// by 4 rows in registers, so that a float read from shared memory serves 4 FMAs per tap and a
// weight 32.
#include "common.cuh"

// Eight rows of a warp: enough warps to hide latency, and no more halo rows than needed.
constexpr int NAIVE_WIDTH = 32, NAIVE_HEIGHT = 8;

// Columns of a tile: 8 threads of 8 columns.
constexpr int TILE_WIDTH = 64;
constexpr int TILE_THREADS = 128;
// Outputs of a thread: 32 sums, and 12 samples and 4 weights beside them, in about 100 registers.
constexpr int COLUMNS = 8, ROWS = 4;
// Up to 128 registers on every device.
constexpr int TILE_BLOCKS = 4;

// --- naive ---------------------------------------------------------------------------------------

// The sum of one kernel around (x, y) of the picture that `at` reads.
template <typename At>
DEVICE float sum_at(const CudaconvTaps& taps, const float* all_weights, At at, int x, int y) {
    const float* weights = all_weights + taps.first;
    const int width = taps.width, height = taps.height;
    const int line = line_of(width);
    x -= width / 2;
    y -= height / 2;
    float sum = 0.0f;
#pragma unroll 1
    for (int j = 0; j < height; ++j) {
        if (taps.separable) {
            float horizontal = 0.0f;
#pragma unroll 1
            for (int i = 0; i < width; ++i) horizontal = fmaf(__ldg(weights + i), at(x + i, y + j), horizontal);
            sum = fmaf(__ldg(weights + line + j), horizontal, sum);
        } else {
#pragma unroll 1
            for (int i = 0; i < width; ++i) sum = fmaf(__ldg(weights + j * line + i), at(x + i, y + j), sum);
        }
    }
    return sum;
}

template <typename At>
DEVICE float result_at(const CudaconvConvolveLaunch& launch, At at, int x, int y) {
    const float* weights = reinterpret_cast<const float*>(launch.weights);
    float sum = 0.0f;
#pragma unroll 1
    for (u32 k = 0; k < launch.kernel_count; ++k) {
        const float next = sum_at(launch.kernels[k], weights, at, x, y);
        sum = k == 0 ? next : magnitude(sum, next);
    }
    return divided(launch, sum);
}

template <typename Sample>
DEVICE void naive(const CudaconvConvolveLaunch& launch) {
    const CudaconvFrame& frame = launch.frame;
    const CudaconvJob& job = frame.jobs[job_of(frame, blockIdx.y)];
    const int x = blockIdx.x * NAIVE_WIDTH + threadIdx.x % NAIVE_WIDTH;
    const int y = (blockIdx.y - job.first_tile_row) * NAIVE_HEIGHT + threadIdx.x / NAIVE_WIDTH;
    if (x >= static_cast<int>(job.width) || y >= static_cast<int>(job.height)) return;

    float alpha_mean = 0.0f;
    if (job.alpha >= 0) {
        const CudaconvChannel& alpha = job.channels[job.alpha];
        alpha_mean = result_at(launch, [&](int u, int v) { return value_at<Sample>(frame, job, alpha, u, v); }, x, y);
    }
    for (u32 c = 0; c < job.channel_count; ++c) {
        const CudaconvChannel& channel = job.channels[c];
        if (channel.action != CUDACONV_FILTER) {
            copy_or_fill<Sample>(frame, channel, x, y);
            continue;
        }
        float result;
        if (static_cast<int>(c) == job.alpha) {
            result = alpha_mean;
        } else if (job.alpha >= 0) {
            const CudaconvChannel& alpha = job.channels[job.alpha];
            const auto product = [&](int u, int v) {
                return __fmul_rn(value_at<Sample>(frame, job, channel, u, v), value_at<Sample>(frame, job, alpha, u, v));
            };
            result = unpremultiplied(result_at(launch, product, x, y), alpha_mean);
        } else {
            result = result_at(launch, [&](int u, int v) { return value_at<Sample>(frame, job, channel, u, v); }, x, y);
        }
        write_result<Sample>(frame, channel, x, y, result);
    }
}

#ifdef CONVOLVE_NAIVE
extern "C" __global__ void __launch_bounds__(NAIVE_WIDTH* NAIVE_HEIGHT)
    convolve_naive_u8(const __grid_constant__ CudaconvConvolveLaunch launch) {
    naive<u8>(launch);
}

extern "C" __global__ void __launch_bounds__(NAIVE_WIDTH* NAIVE_HEIGHT)
    convolve_naive_u16(const __grid_constant__ CudaconvConvolveLaunch launch) {
    naive<u16>(launch);
}
#endif

// --- tile ----------------------------------------------------------------------------------------

using Sums = float[ROWS][COLUMNS];

DEVICE void load_four(float* to, const float* row, int x) {
    const float4 four = *reinterpret_cast<const float4*>(row + swizzled(x));
    to[0] = four.x, to[1] = four.y, to[2] = four.z, to[3] = four.w;
}

// Adds the taps of one line of weights, four at a time: `window` holds the samples from the
// first tap of the first column on.
DEVICE void add_four_taps(float (&sums)[COLUMNS], const float* weights, const float (&window)[COLUMNS + 4]) {
    const float4 four = __ldg(reinterpret_cast<const float4*>(weights));
#pragma unroll
    for (int o = 0; o < COLUMNS; ++o) {
        sums[o] = fmaf(four.x, window[o], sums[o]);
        sums[o] = fmaf(four.y, window[o + 1], sums[o]);
        sums[o] = fmaf(four.z, window[o + 2], sums[o]);
        sums[o] = fmaf(four.w, window[o + 3], sums[o]);
    }
}

// Sums of one kernel for the outputs of one thread, whose first tap is at column `x` of `tile`.
// Rows of samples outside, rows of outputs inside: a row of samples is the row j = y - h of the
// kernel for the output row h.
DEVICE void sum_tile(Sums& sums, const CudaconvTaps& taps, const float* all_weights, const float* tile, int pitch, int x) {
    const float* weights = all_weights + taps.first;
    const int width = taps.width, height = taps.height;
    const int line = line_of(width);
#pragma unroll
    for (int h = 0; h < ROWS; ++h)
#pragma unroll
        for (int o = 0; o < COLUMNS; ++o) sums[h][o] = 0.0f;

#pragma unroll 1
    for (int y = 0; y < height + ROWS - 1; ++y) {
        const float* row = tile + y * pitch;
        float window[COLUMNS + 4];
        float horizontal[COLUMNS] = {};
        load_four(window, row, x);
        load_four(window + 4, row, x + 4);
#pragma unroll 1
        for (int i = 0; i < width; i += 4) {
            load_four(window + COLUMNS, row, x + COLUMNS + i);
            if (taps.separable) {
                add_four_taps(horizontal, weights + i, window);
            } else {
#pragma unroll
                for (int h = 0; h < ROWS; ++h)
                    if (static_cast<u32>(y - h) < static_cast<u32>(height))
                        add_four_taps(sums[h], weights + (y - h) * line + i, window);
            }
#pragma unroll
            for (int o = 0; o < COLUMNS; ++o) window[o] = window[o + 4];
        }
        if (taps.separable) {
#pragma unroll
            for (int h = 0; h < ROWS; ++h) {
                if (static_cast<u32>(y - h) >= static_cast<u32>(height)) continue;
                const float weight = __ldg(weights + line + y - h);
#pragma unroll
                for (int o = 0; o < COLUMNS; ++o) sums[h][o] = fmaf(weight, horizontal[o], sums[h][o]);
            }
        }
    }
}

template <typename Sample>
DEVICE void write_tile(const CudaconvConvolveLaunch& launch, const CudaconvJob& job, const CudaconvChannel& channel,
                       const Sums& results, int x0, int y0) {
    const CudaconvFrame& frame = launch.frame;
    const bool whole = x0 + COLUMNS <= static_cast<int>(job.width) && sizeof(Sample) == channel.step &&
                       (channel.output | channel.output_stride) % (COLUMNS * sizeof(Sample)) == 0;
#pragma unroll
    for (int h = 0; h < ROWS; ++h) {
        if (y0 + h >= static_cast<int>(job.height)) return;
        union {
            Sample samples[COLUMNS];
            uint2 words[sizeof(Sample)];
        } row;
#pragma unroll
        for (int o = 0; o < COLUMNS; ++o)
            row.samples[o] = sample_of<Sample>(frame, round_to_code(results[h][o] + channel.offset, frame.max_code));
        if (whole) {
#pragma unroll
            for (int w = 0; w < static_cast<int>(sizeof(Sample)); ++w)
                __stwb(reinterpret_cast<uint2*>(output_at(channel, x0, y0 + h)) + w, row.words[w]);
        } else {
#pragma unroll
            for (int o = 0; o < COLUMNS; ++o)
                if (x0 + o < static_cast<int>(job.width)) write_sample(output_at(channel, x0 + o, y0 + h), row.samples[o]);
        }
    }
}

template <typename Sample>
DEVICE void tile_job(const CudaconvConvolveLaunch& launch, float* tile) {
    const CudaconvFrame& frame = launch.frame;
    const CudaconvJob& job = frame.jobs[job_of(frame, blockIdx.y)];
    if (blockIdx.x >= job.tiles_across) return;
    const int tile_height = frame.tile_height;
    const int x0 = blockIdx.x * TILE_WIDTH;
    const int y0 = (blockIdx.y - job.first_tile_row) * tile_height;
    copy_or_fill_tile<Sample>(frame, job, x0, y0, TILE_WIDTH, tile_height, threadIdx.x, TILE_THREADS);

    const float* weights = reinterpret_cast<const float*>(launch.weights);
    const int width = launch.kernels[0].width, height = launch.kernels[0].height;
    const int columns = TILE_WIDTH + line_of(width);
    const int pitch = (columns + 7) / 8 * 8;
    const int x = threadIdx.x % (TILE_WIDTH / COLUMNS) * COLUMNS;
    const int y = threadIdx.x / (TILE_WIDTH / COLUMNS) * ROWS;
    const bool idle = y >= tile_height;
    // Of the alpha channel, each thread's own. That channel is computed first where there is one.
    float* means = tile + pitch * (tile_height + height - 1) + y * TILE_WIDTH + x;
    for (int n = job.alpha >= 0 ? -1 : 0; n < static_cast<int>(job.channel_count); ++n) {
        if (n >= 0 && (job.channels[n].action != CUDACONV_FILTER || n == job.alpha)) continue;
        const CudaconvChannel& channel = job.channels[n < 0 ? job.alpha : n];
        const bool premultiply = n >= 0 && job.alpha >= 0;
        __syncthreads();
        load_tile<Sample>(tile, pitch, columns, tile_height + height - 1, frame, job, channel, premultiply,
                          x0 - width / 2, y0 - height / 2, threadIdx.x, TILE_THREADS);
        __syncthreads();
        if (idle) continue;

        Sums sums, first;
#pragma unroll 1
        for (u32 k = 0; k < launch.kernel_count; ++k) {
            sum_tile(sums, launch.kernels[k], weights, tile + y * pitch, pitch, x);
#pragma unroll
            for (int h = 0; h < ROWS; ++h)
#pragma unroll
                for (int o = 0; o < COLUMNS; ++o) {
                    if (k == 1) sums[h][o] = magnitude(first[h][o], sums[h][o]);
                    first[h][o] = sums[h][o];
                }
        }
#pragma unroll
        for (int h = 0; h < ROWS; ++h)
#pragma unroll
            for (int o = 0; o < COLUMNS; ++o) {
                sums[h][o] = divided(launch, sums[h][o]);
                if (n < 0) means[h * TILE_WIDTH + o] = sums[h][o];
                if (premultiply) sums[h][o] = unpremultiplied(sums[h][o], means[h * TILE_WIDTH + o]);
            }
        write_tile<Sample>(launch, job, channel, sums, x0 + x, y0 + y);
    }
}

extern __shared__ float4 shared[];

#ifdef CONVOLVE_TILE_U8
extern "C" __global__ void __launch_bounds__(TILE_THREADS, TILE_BLOCKS)
    convolve_tile_u8(const __grid_constant__ CudaconvConvolveLaunch launch) {
    tile_job<u8>(launch, reinterpret_cast<float*>(shared));
}
#endif

#ifdef CONVOLVE_TILE_U16
extern "C" __global__ void __launch_bounds__(TILE_THREADS, TILE_BLOCKS)
    convolve_tile_u16(const __grid_constant__ CudaconvConvolveLaunch launch) {
    tile_job<u16>(launch, reinterpret_cast<float*>(shared));
}
#endif
