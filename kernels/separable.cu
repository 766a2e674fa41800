// Correlation with kernels of rank 1, or with sums of a few such, and the magnitude of two: horizontal sums,
// then vertical sums of those, fused in one kernel through shared memory.
//
// Bytes: each sample read once and written once; at 4.3 TB/s 1 µs for 1080p GRAY8, 4 µs for RGBA.
// Operations, for each outer product: width + height FMAs per sample and about 20 other instructions (conversion, rounding,
// shared memory), so up to 7 taps the kernel is bound by issue, 132 * 4 instructions for 32 samples
// each per cycle: at 1.98 GHz 2 µs for 1080p GRAY8, 8 µs for RGBA.
//
// separable: any size up to 65 + 65 taps, any layout. A block of 128 threads computes 64 columns by
// 32 rows of one channel after the other, in two steps:
// - 16 rows of samples at a time are loaded as floats and summed horizontally, 8 columns a thread;
// - 32 + height - 1 rows of those sums are summed vertically, 2 columns by 8 rows a thread.
// A sum of outer products does both steps for each, one behind the other, and adds to the same vertical sums.
#include "common.cuh"

constexpr int THREADS = 128;
// Blocks of a multiprocessor: leaves 80 registers, enough for all sums without spilling.
constexpr int BLOCKS = 6;
constexpr int WIDTH = 64, HEIGHT = 32;
// Rows loaded at a time: one for each 8 threads.
constexpr int BAND = 16;
// Outputs of a thread in the horizontal and in the vertical sums.
constexpr int COLUMNS = 8;
constexpr int PAIR = 2, ROWS = 8;

DEVICE void load_four(float* to, const float* row, int x) {
    const float4 four = *reinterpret_cast<const float4*>(row + swizzled(x));
    to[0] = four.x, to[1] = four.y, to[2] = four.z, to[3] = four.w;
}

// Horizontal sums of COLUMNS samples, the first tap of the first at column `x` of `row`.
DEVICE void sum_row(float (&sums)[COLUMNS], const float* weights, int width, const float* row, int x) {
    float window[COLUMNS + 4];
    load_four(window, row, x);
    load_four(window + 4, row, x + 4);
#pragma unroll
    for (int o = 0; o < COLUMNS; ++o) sums[o] = 0.0f;
#pragma unroll 1
    for (int i = 0; i < width; i += 4) {
        load_four(window + COLUMNS, row, x + COLUMNS + i);
#pragma unroll
        for (int tap = 0; tap < 4; ++tap) {
            const float weight = weights[i + tap];
#pragma unroll
            for (int o = 0; o < COLUMNS; ++o) sums[o] = fmaf(weight, window[o + tap], sums[o]);
        }
#pragma unroll
        for (int o = 0; o < COLUMNS; ++o) window[o] = window[o + 4];
    }
}

// Rows of horizontal sums that the vertical sums read, eight at a time, rows without weight among
// them.
DEVICE int rows_read(int height) { return HEIGHT - ROWS + (height + 2 * ROWS - 2) / ROWS * ROWS; }

// Adds the vertical sums of PAIR columns and ROWS rows, the first tap of the first at row 0 of `sums_row`.
DEVICE void sum_columns(float (&sums)[ROWS][PAIR], const float* weights, int height, const float* sums_row) {
    float before[ROWS], now[ROWS];
#pragma unroll
    for (int h = 0; h < ROWS; ++h) now[h] = 0.0f;
#pragma unroll 1
    for (int y = 0; y < height + ROWS - 1; y += ROWS) {
#pragma unroll
        for (int u = 0; u < ROWS; ++u) {
            before[u] = now[u];
            now[u] = y + u < height ? weights[y + u] : 0.0f;
        }
#pragma unroll
        for (int u = 0; u < ROWS; ++u) {
            const float2 pair = *reinterpret_cast<const float2*>(sums_row + (y + u) * WIDTH);
#pragma unroll
            for (int h = 0; h < ROWS; ++h) {
                // Row y + u of the samples is the row y + u - h of the kernel for output row h.
                const float weight = u >= h ? now[u - h] : before[ROWS + u - h];
                sums[h][0] = fmaf(weight, pair.x, sums[h][0]);
                sums[h][1] = fmaf(weight, pair.y, sums[h][1]);
            }
        }
    }
}

template <typename Sample>
DEVICE void separable(const CudaconvConvolveLaunch& launch, float* shared) {
    const CudaconvFrame& frame = launch.frame;
    const CudaconvJob& job = frame.jobs[job_of(frame, blockIdx.y)];
    if (blockIdx.x >= job.tiles_across) return;
    const int thread = threadIdx.x;
    const int x0 = blockIdx.x * WIDTH;
    const int y0 = (blockIdx.y - job.first_tile_row) * HEIGHT;
    copy_or_fill_tile<Sample>(frame, job, x0, y0, WIDTH, HEIGHT, thread, THREADS);

    const int width = launch.kernels[0].width, height = launch.kernels[0].height;
    const int columns = WIDTH + line_of(width);
    const int pitch = (columns + 7) / 8 * 8;
    float* band = shared;
    float* rows_of_sums = shared + BAND * pitch;
    const int rows = HEIGHT + height - 1;
    // Both kernels of a gradient, or all outer products of one.
    const bool gradient = launch.kernel_count == 2;
    const int passes = gradient ? 2 : launch.kernels[0].separable;
    // Their weights are 0, but 0 times what is not a number is not 0.
    for (int i = rows * WIDTH + thread; i < rows_read(height) * WIDTH; i += THREADS) rows_of_sums[i] = 0.0f;
    const int x = x0 + thread % WARP * PAIR, y = y0 + thread / WARP * ROWS;
    const float* own_sums = rows_of_sums + thread / WARP * ROWS * WIDTH + swizzled(thread % WARP * PAIR);

    float means[ROWS][PAIR];  // of the alpha channel, which is computed first where there is one
    for (int n = job.alpha >= 0 ? -1 : 0; n < static_cast<int>(job.channel_count); ++n) {
        if (n >= 0 && (job.channels[n].action != CUDACONV_FILTER || n == job.alpha)) continue;
        const CudaconvChannel& channel = job.channels[n < 0 ? job.alpha : n];
        const bool premultiply = n >= 0 && job.alpha >= 0;
        float sums[ROWS][PAIR], before[ROWS][PAIR] = {};
#pragma unroll 1
        for (int pass = 0; pass < passes; ++pass) {
            // The next weights stand behind the last.
            const float* weights =
                launch.inline_weights + launch.kernels[0].first + pass * (line_of(width) + line_of(height));
#pragma unroll 1
            for (int row = 0; row < rows; row += BAND) {
                const int count = min(BAND, rows - row);
                __syncthreads();
                load_tile<Sample>(band, pitch, columns, count, frame, job, channel, premultiply, x0 - width / 2,
                                  y0 - height / 2 + row, thread, THREADS);
                __syncthreads();
                const int own = thread / (WIDTH / COLUMNS), column = thread % (WIDTH / COLUMNS) * COLUMNS;
                if (own >= count) continue;
                float horizontal[COLUMNS];
                sum_row(horizontal, weights, width, band + own * pitch, column);
                float* to = rows_of_sums + (row + own) * WIDTH;
#pragma unroll
                for (int o = 0; o < COLUMNS; o += 4)
                    *reinterpret_cast<float4*>(to + swizzled(column + o)) =
                        make_float4(horizontal[o], horizontal[o + 1], horizontal[o + 2], horizontal[o + 3]);
            }
            __syncthreads();
#pragma unroll
            for (int h = 0; h < ROWS; ++h)
#pragma unroll
                for (int p = 0; p < PAIR; ++p) sums[h][p] = gradient ? 0.0f : before[h][p];
            sum_columns(sums, weights + line_of(width), height, own_sums);
#pragma unroll
            for (int h = 0; h < ROWS; ++h)
#pragma unroll
                for (int p = 0; p < PAIR; ++p) {
                    if (pass == 1 && gradient) sums[h][p] = magnitude(before[h][p], sums[h][p]);
                    before[h][p] = sums[h][p];
                }
        }
#pragma unroll
        for (int h = 0; h < ROWS; ++h)
#pragma unroll
            for (int p = 0; p < PAIR; ++p) {
                float result = divided(launch, sums[h][p]);
                if (n < 0) means[h][p] = result;
                if (premultiply) result = unpremultiplied(result, means[h][p], means[h][p]);
                if (x + p < static_cast<int>(job.width) && y + h < static_cast<int>(job.height))
                    write_result<Sample>(frame, channel, x + p, y + h, result);
            }
    }
}

extern __shared__ float4 shared[];

#ifdef SEPARABLE_U8
KERNEL(separable_u8, CudaconvConvolveLaunch, (THREADS, BLOCKS), separable<u8>(launch, reinterpret_cast<float*>(shared)))
#endif

#ifdef SEPARABLE_U16
KERNEL(separable_u16, CudaconvConvolveLaunch, (THREADS, BLOCKS), separable<u16>(launch, reinterpret_cast<float*>(shared)))
#endif
