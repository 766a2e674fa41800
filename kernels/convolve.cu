// Correlation with any kernel, separable or not, and the magnitude of two.
//
// Bytes: each sample read once and written once, 2 bytes per u8 sample; at 4.3 TB/s that is 1 µs
// for 1080p grey. Operations: width * height FMAs per sample (width + height for the tile of a
// separable kernel); at 132 multiprocessors * 128 FMAs * 1.98 GHz 3x3 takes 0.6 µs, 15x15 14 µs for
// 1080p grey. So 3x3 is bound by what is around the FMAs (loads, conversion, rounding, stores) and by
// latency, from 7x7 on the FMAs are the bound.
//
// naive: a block of 32 x 8 threads, one sample each; every tap is read from global memory.
// tile: a block of 128 threads computes 64 columns by 64, 32, 16 or 8 rows, the most whose tile with
// its halo fits into 48 KiB: (64 + line) * (rows + height - 1) floats (line: width
// rounded up to a multiple of 8), weights and positions, and 64 * rows floats more for
// the means of alpha if a job is premultiplied. A thread computes 8 columns
// by 4 rows in registers: for four taps of one row of samples it reads four of them and four weights for
// each of its rows, 5 reads of 16 bytes for 128 FMAs. The rows above and below the kernel that this
// multiplies by zeros are 3 of 18 for 15 x 15, and a test for each would cost more. Where samples lie is found
// beforehand; of bytes without others in between four are read at once. Measured, 15 x 15 taps take about three times as long
// as their FMAs.
//
// What the driver has to compile decides how long a start takes, so code is there once where that costs little:
// unrolled three times, so that no sample moves to another register, taps take 4 % less and the module a quarter
// longer to load.
#include "common.cuh"

// Eight rows of a warp: enough warps to hide latency, and no more halo rows than needed.
constexpr int NAIVE_WIDTH = 32, NAIVE_HEIGHT = 8;

// Columns of a tile: 8 threads of 8 columns.
constexpr int TILE_WIDTH = 64;
constexpr int TILE_THREADS = 128;
// Of the highest.
constexpr int TILE_HEIGHT = 64;
// Outputs of a thread: 32 sums, as many of another kernel, and 12 samples and 16 weights beside them.
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
            result = unpremultiplied(result_at(launch, product, x, y), alpha_mean, alpha_mean);
        } else {
            result = result_at(launch, [&](int u, int v) { return value_at<Sample>(frame, job, channel, u, v); }, x, y);
        }
        write_result<Sample>(frame, channel, x, y, result);
    }
}

#ifdef CONVOLVE_NAIVE_U8
KERNEL(convolve_naive_u8, CudaconvConvolveLaunch, (NAIVE_WIDTH * NAIVE_HEIGHT), naive<u8>(launch))
#endif

#ifdef CONVOLVE_NAIVE_U16
KERNEL(convolve_naive_u16, CudaconvConvolveLaunch, (NAIVE_WIDTH * NAIVE_HEIGHT), naive<u16>(launch))
#endif

// --- tile ----------------------------------------------------------------------------------------

// Of some rows of outputs of a thread.
template <int COUNT>
using Sums = float[COUNT][COLUMNS];
constexpr int FOUR = 4;

// Where the columns and rows of a tile are found in the picture.
struct alignas(16) Positions {
    short of_column[TILE_WIDTH + 2 * CUDACONV_MAX_RADIUS + FOUR];
    short of_row[TILE_HEIGHT + 2 * CUDACONV_MAX_RADIUS];
};

DEVICE void find_positions(short* positions, int count, u32 border, int first, int length) {
#pragma unroll 1
    for (int i = threadIdx.x; i < count; i += TILE_THREADS) positions[i] = border_position(border, first + i, length);
}

struct Four {
    float values[FOUR];
};

DEVICE Four load_four(const float* from) {
    const float4 four = *reinterpret_cast<const float4*>(from);
    return {four.x, four.y, four.z, four.w};
}

DEVICE void store_four(float* to, const Four& four) {
    *reinterpret_cast<float4*>(to) = make_float4(four.values[0], four.values[1], four.values[2], four.values[3]);
}

// in' of the samples in `columns` of the row `y` of the picture, positions in it or BEYOND.
template <typename Sample>
DEVICE Four read_four(const CudaconvFrame& frame, const CudaconvChannel& channel, const int (&columns)[FOUR], int y) {
    Four four;
#pragma unroll
    for (int k = 0; k < FOUR; ++k) {
        // All are loaded, so that none waits for another.
        const float value = value_inside<Sample>(frame, channel, max(columns[k], 0), max(y, 0));
        four.values[k] = columns[k] == BEYOND || y == BEYOND ? channel.beyond : value;
    }
    return four;
}

// The codes of four neighbouring bytes.
DEVICE u32 read_codes(cudaconv_u64 address) {
    const cudaconv_u64 word = address & ~cudaconv_u64(3);
    const u32 beside = address & 3;
    // The word that holds the first, and the one that holds the last.
    return __funnelshift_r(read_sample<u32>(word), read_sample<u32>(word + (beside ? 4 : 0)), 8 * beside);
}

// Fills `rows` rows of `columns` floats, `pitch` apart and swizzled, with in' of what `positions` say, or with its
// product with the alpha channel.
template <typename Sample>
DEVICE void fill_tile(float* tile, int pitch, int columns, int rows, const CudaconvFrame& frame, const CudaconvJob& job,
                      const CudaconvChannel& channel, bool premultiply, const Positions& positions) {
    constexpr int WARPS = TILE_THREADS / WARP, BATCH = 5;
    const int warp = threadIdx.x / WARP;
#pragma unroll 1
    for (int column = lane() * FOUR; column < columns; column += WARP * FOUR) {
        int of[FOUR];
#pragma unroll
        for (int k = 0; k < FOUR; ++k) of[k] = positions.of_column[column + k];
        const bool neighbours = of[0] >= 0 && of[1] == of[0] + 1 && of[2] == of[0] + 2 && of[3] == of[0] + 3;
        float* to = tile + swizzled(column);
        if (sizeof(Sample) == 1 && channel.step == 1 && neighbours && !premultiply) {
            const cudaconv_u64 from = channel.input + of[0];
#pragma unroll 1
            for (int first = warp; first < rows; first += BATCH * WARPS) {
                u32 codes[BATCH];
#pragma unroll
                for (int i = 0; i < BATCH; ++i) {
                    // The last again, where there are no more.
                    const int y = max(positions.of_row[min(first + i * WARPS, rows - 1)], 0);
                    codes[i] = read_codes(from + static_cast<u32>(y) * channel.input_stride);
                }
#pragma unroll 1
                for (int row = first; row < min(first + BATCH * WARPS, rows); row += WARPS) {
                    const bool beyond = positions.of_row[row] == BEYOND;
                    Four four;
#pragma unroll
                    for (int k = 0; k < FOUR; ++k)
                        four.values[k] = beyond ? channel.beyond : float_of(codes[0] >> 8 * k & 0xff) - channel.zero;
                    store_four(to + row * pitch, four);
                    // The next moves up, so that the code for a row is there once.
#pragma unroll
                    for (int i = 0; i + 1 < BATCH; ++i) codes[i] = codes[i + 1];
                }
            }
            continue;
        }
#pragma unroll 1
        for (int row = warp; row < rows; row += WARPS) {
            const int y = positions.of_row[row];
            Four four = read_four<Sample>(frame, channel, of, y);
            if (premultiply) {
                const Four by = read_four<Sample>(frame, job.channels[job.alpha], of, y);
#pragma unroll
                for (int k = 0; k < FOUR; ++k) four.values[k] = __fmul_rn(four.values[k], by.values[k]);
            }
            store_four(to + row * pitch, four);
        }
    }
}

// Adds TAPS taps of one row of samples: of the line `weights` to the first row of outputs, of the one
// before to the next.
template <int TAPS, int COUNT>
DEVICE void add_taps(Sums<COUNT>& sums, const float* weights, int line, const Four& a, const Four& b, const Four& c) {
    Four taps[COUNT];
#pragma unroll
    for (int h = 0; h < COUNT; ++h) taps[h] = load_four(weights - h * line);
#pragma unroll
    for (int h = 0; h < COUNT; ++h) {
#pragma unroll
        for (int t = 0; t < TAPS; ++t)
#pragma unroll
            for (int o = 0; o < COLUMNS; ++o) {
                const int at = o + t;
                const float value = at < 4 ? a.values[at] : at < 8 ? b.values[at - 4] : c.values[at - 8];
                sums[h][o] = fmaf(taps[h].values[t], value, sums[h][o]);
            }
    }
}

// Adds one row of samples, `row` from the first tap's column on, swizzled there as `x` is. Lines of weights end with
// zeros, which change no sum.
template <int COUNT>
DEVICE void add_row(Sums<COUNT>& sums, int width, const float* weights, int line, const float* row, int x) {
    Four a = load_four(row + swizzled(x)), b = load_four(row + swizzled(x + FOUR)), c;
    // Three taps are left of most kernels, as sides are odd. For one row of outputs they are not worth the code.
    constexpr int LEFT = COUNT == 1 ? 0 : FOUR - 1;
#pragma unroll 1
    for (const float* end = weights + width; weights + LEFT < end; weights += FOUR) {
        x += FOUR;
        c = load_four(row + swizzled(x + FOUR));
        add_taps<FOUR>(sums, weights, line, a, b, c);
        a = b, b = c;
    }
    if (LEFT) {
        c = load_four(row + swizzled(x + 2 * FOUR));
        add_taps<FOUR - 1>(sums, weights, line, a, b, c);
    }
}

// Weights in shared memory.
constexpr int MOST_WEIGHTS = 1024;

// All threads of a block load `count` weights from the one at `first` of `all` on, zeros where there are
// none, when all of them have read those before.
DEVICE void load_weights(float* weights, const float* from, int first, int count, int all) {
    __syncthreads();
#pragma unroll 2
    for (int i = threadIdx.x; i < count; i += TILE_THREADS)
        weights[i] = static_cast<u32>(first + i) < static_cast<u32>(all) ? __ldg(from + first + i) : 0.0f;
    __syncthreads();
}

// Adds the products of one kernel for the outputs of one thread, unless it is `idle`, whose first tap is at
// column `x` of `tile`. A row of samples is the row y - h of the kernel for the output row h.
DEVICE void add_full(Sums<ROWS>& sums, const CudaconvTaps& taps, const float* all_weights, float* weights,
                     const float* tile, int pitch, int x, bool idle) {
    const int height = taps.height, line = line_of(taps.width);
    // Rows of samples whose weights are there at a time, with the lines before that they need.
    constexpr int BEFORE = ROWS - 1;
    const int rows = MOST_WEIGHTS / line - BEFORE;
#pragma unroll 1
    for (int first = 0; first < height + BEFORE; first += rows) {
        const int last = min(first + rows, height + BEFORE);
        // Lines above and below the kernel are zeros, which change no sum.
        load_weights(weights, all_weights + taps.first, (first - BEFORE) * line, (last - first + BEFORE) * line,
                     height * line);
        if (idle) continue;
        const float* own = weights + BEFORE * line;
#pragma unroll 1
        for (int y = first; y < last; ++y, own += line, tile += pitch) add_row(sums, taps.width, own, line, tile, x);
    }
}

// The same of a separable kernel.
DEVICE void add_separable(Sums<ROWS>& sums, const CudaconvTaps& taps, const float* all_weights, float* weights,
                          const float* tile, int pitch, int x, bool idle) {
    const int width = taps.width, height = taps.height, line = line_of(width);
    load_weights(weights, all_weights + taps.first, 0, line + line_of(height), line + line_of(height));
    if (idle) return;
#pragma unroll 1
    for (int y = 0; y < height + ROWS - 1; ++y, tile += pitch) {
        Sums<1> across = {};
        add_row(across, width, weights, line, tile, x);
#pragma unroll
        for (int h = 0; h < ROWS; ++h) {
            if (static_cast<u32>(y - h) >= static_cast<u32>(height)) continue;
            const float weight = weights[line + y - h];
#pragma unroll
            for (int o = 0; o < COLUMNS; ++o) sums[h][o] = fmaf(weight, across[0][o], sums[h][o]);
        }
    }
}

DEVICE void add_kernel(Sums<ROWS>& sums, const CudaconvTaps& taps, const float* all_weights, float* weights,
                       const float* tile, int pitch, int x, bool idle) {
    if (taps.separable) add_separable(sums, taps, all_weights, weights, tile, pitch, x, idle);
    else add_full(sums, taps, all_weights, weights, tile, pitch, x, idle);
}

// What a block has in shared memory before its tile.
struct Shared {
    alignas(16) float weights[MOST_WEIGHTS];
    Positions positions;
};

template <typename Sample>
DEVICE void write_row(const CudaconvConvolveLaunch& launch, const CudaconvJob& job, const CudaconvChannel& channel,
                      const float (&results)[COLUMNS], int x, int y) {
    const CudaconvFrame& frame = launch.frame;
    const cudaconv_u64 to = output_at(channel, x, y);
    const bool whole = x + COLUMNS <= static_cast<int>(job.width) && sizeof(Sample) == channel.step &&
                       (channel.output | channel.output_stride) % (COLUMNS * sizeof(Sample)) == 0;
    union {
        Sample samples[COLUMNS];
        uint2 words[sizeof(Sample)];
    } row;
#pragma unroll
    for (int o = 0; o < COLUMNS; ++o)
        row.samples[o] = sample_of<Sample>(frame, round_to_code(results[o] + channel.offset, frame.max_code));
    if (whole) {
#pragma unroll
        for (int w = 0; w < static_cast<int>(sizeof(Sample)); ++w) __stwb(reinterpret_cast<uint2*>(to) + w, row.words[w]);
    } else {
#pragma unroll
        for (int o = 0; o < COLUMNS; ++o)
            if (x + o < static_cast<int>(job.width)) write_sample(to + o * channel.step, row.samples[o]);
    }
}

// The first row of `sums`, in place of which the others move up.
DEVICE void take_row(float (&row)[COLUMNS], Sums<ROWS>& sums) {
#pragma unroll
    for (int o = 0; o < COLUMNS; ++o) {
        row[o] = sums[0][o];
#pragma unroll
        for (int h = 0; h + 1 < ROWS; ++h) sums[h][o] = sums[h + 1][o];
    }
}

template <typename Sample>
DEVICE void tile_job(const CudaconvConvolveLaunch& launch, Shared& shared) {
    const CudaconvFrame& frame = launch.frame;
    const CudaconvJob& job = frame.jobs[job_of(frame, blockIdx.y)];
    if (blockIdx.x >= job.tiles_across) return;
    const int tile_height = frame.tile_height;
    const int x0 = blockIdx.x * TILE_WIDTH;
    const int y0 = (blockIdx.y - job.first_tile_row) * tile_height;
    copy_or_fill_tile<Sample>(frame, job, x0, y0, TILE_WIDTH, tile_height, threadIdx.x, TILE_THREADS);

    float* tile = reinterpret_cast<float*>(&shared + 1);
    const float* all_weights = reinterpret_cast<const float*>(launch.weights);
    const int width = launch.kernels[0].width, height = launch.kernels[0].height;
    const int columns = TILE_WIDTH + line_of(width), rows = tile_height + height - 1;
    const int pitch = (columns + 7) / 8 * 8;
    const int x = threadIdx.x % (TILE_WIDTH / COLUMNS) * COLUMNS;
    const int y = threadIdx.x / (TILE_WIDTH / COLUMNS) * ROWS;
    const bool idle = y >= tile_height;
    // Of the alpha channel, each thread's own. That channel is computed first where there is one.
    float* means = tile + pitch * rows + y * TILE_WIDTH + x;
    find_positions(shared.positions.of_column, columns, frame.border, x0 - width / 2, job.width);
    find_positions(shared.positions.of_row, rows, frame.border, y0 - height / 2, job.height);
#pragma unroll 1
    for (int n = job.alpha >= 0 ? -1 : 0; n < static_cast<int>(job.channel_count); ++n) {
        if (n >= 0 && (job.channels[n].action != CUDACONV_FILTER || n == job.alpha)) continue;
        const CudaconvChannel& channel = job.channels[n < 0 ? job.alpha : n];
        const bool premultiply = n >= 0 && job.alpha >= 0;
        __syncthreads();
        fill_tile<Sample>(tile, pitch, columns, rows, frame, job, channel, premultiply, shared.positions);

        // Of the last kernel, and of the one before.
        Sums<ROWS> sums = {}, before;
#pragma unroll 1
        for (u32 k = 0; k < launch.kernel_count; ++k) {
#pragma unroll
            for (int h = 0; h < ROWS; ++h)
#pragma unroll
                for (int o = 0; o < COLUMNS; ++o) before[h][o] = sums[h][o], sums[h][o] = 0.0f;
            add_kernel(sums, launch.kernels[k], all_weights, shared.weights, tile + y * pitch, pitch, x, idle);
        }
#pragma unroll 1
        for (int h = 0; h < ROWS; ++h) {
            float results[COLUMNS], others[COLUMNS];
            // The code for a row is there once.
            take_row(results, sums);
            take_row(others, before);
            if (idle || y0 + y + h >= static_cast<int>(job.height)) continue;
#pragma unroll
            for (int o = 0; o < COLUMNS; ++o) {
                if (launch.kernel_count > 1) results[o] = magnitude(others[o], results[o]);
                results[o] = divided(launch, results[o]);
                float& mean = means[h * TILE_WIDTH + o];
                if (n < 0) mean = results[o];
                if (premultiply) results[o] = unpremultiplied(results[o], mean, mean);
            }
            write_row<Sample>(launch, job, channel, results, x0 + x, y0 + y + h);
        }
    }
}

extern __shared__ float4 shared[];

#ifdef CONVOLVE_TILE_U8
KERNEL(convolve_tile_u8, CudaconvConvolveLaunch, (TILE_THREADS, TILE_BLOCKS), tile_job<u8>(launch, reinterpret_cast<Shared&>(shared)))
#endif

#ifdef CONVOLVE_TILE_U16
KERNEL(convolve_tile_u16, CudaconvConvolveLaunch, (TILE_THREADS, TILE_BLOCKS), tile_job<u16>(launch, reinterpret_cast<Shared&>(shared)))
#endif
