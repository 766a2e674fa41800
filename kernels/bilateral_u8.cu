// The bilateral filter of 8-bit samples, faster ways than bilateral.cu's.
//
// table: channels with a weight of their own, radius up to 8. The colour weight of a difference is
// looked up: 256 differences, each 32 times in shared memory, one copy a lane, so that lookups never
// share a bank whatever the picture. Bytes: as bilateral.cu. Operations per tap: an absolute difference
// that is the address, a lookup, 2.5 multiplications and additions; and 22 reads of samples per
// column of 8 outputs. Lookups bound it, 4 cycles of a scheduler each against 8 for an exponential:
// with radius 7 (149 taps, 41 reads) 760 cycles for 32 outputs, 48 µs for 1080p GRAY8 at 1.98 GHz on
// 132 multiprocessors. A block of 256 threads computes 32 columns by 64 rows, a thread 8 rows of one
// column: the samples of a column of the window are read once for all 8, and taps at the same
// distance from the centre row are summed before their spatial weight is multiplied.
//
// joint: three channels with one weight, by the sum of absolute differences. All three
// differences are one instruction on packed bytes. Operations per tap: that one, 6 multiplications and
// additions, an exponential (8 cycles), and a tenth of the reads and extractions of a row of 4
// taps: 10 issued, so issue bounds it: with radius 7 1450 cycles for 32 outputs, 92 µs for 1080p RGBA.
// A block of 256 threads computes 32 columns by 32 rows, a thread 4 rows of one column.
//
// Both: samples are multiplied as what their bits are as floats, denormals, so none is converted;
// weights are larger by 2^100 to make up for it.
#include "common.cuh"

constexpr int WIDTH = 32;
constexpr int THREADS = 256;
constexpr int WARPS = THREADS / WARP;
// Added to exponents.
constexpr float LARGER = 100.0f;

DEVICE float exp2_approximate(float exponent) {
    float power;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(power) : "f"(exponent));
    return power;
}

// The code value at (x, y). The host sees to it that what the border says of samples beyond the
// edge is one.
DEVICE u32 tile_code(const CudaconvFrame& frame, const CudaconvJob& job, const CudaconvChannel& channel, bool inside,
                     int x, int y) {
    if (!inside) {
        x = border_position(frame.border, x, job.width);
        y = border_position(frame.border, y, job.height);
        if (x == BEYOND || y == BEYOND) return static_cast<u32>(channel.beyond + channel.zero);
    }
    return read_sample<u8>(input_at(channel, x, y));
}

// Writes the mean of code values `sum` / `weights`, where sums are of bits shifted by `shift`.
DEVICE void write_mean(const CudaconvFrame& frame, const CudaconvChannel& channel, int x, int y, float sum, float weights,
                       int shift) {
    // The sums are about 2^(100 - 149 + shift) times code values: out of the denormals first.
    const float mean = __fdiv_rn(sum * 0x1p100f, weights) * (0x1p49f / static_cast<float>(1 << shift));
    write_result<u8>(frame, channel, x, y, mean - channel.zero);
}

// --- table ---------------------------------------------------------------------------------------

#ifdef BILATERAL_TABLE_U8

// Largest radius, and rows of halo of every tile.
constexpr int RADIUS = 8;
constexpr int ROWS = 8;
constexpr int HEIGHT = WARPS * ROWS;
// Samples that a thread holds of a column of the window.
constexpr int COLUMN = ROWS + 2 * RADIUS;
// Samples are kept as offsets into the table: by as many bits as a row of 32 floats has.
constexpr int SHIFT = 7;

struct Shared {
    float weights[256][WARP];
    float space[RADIUS + 1][RADIUS + 1];
    u32 samples[HEIGHT + 2 * RADIUS][WIDTH + 2 * RADIUS];
};

DEVICE void load_weights(Shared& shared, const CudaconvBilateralLaunch& launch) {
    const int warp = threadIdx.x / WARP;
    const float difference = threadIdx.x;
    const float weight = exp2_approximate(fmaf(launch.color, difference * difference, LARGER));
#pragma unroll
    for (int i = 0; i < WARP; i += 4) {
        const int row = i + lane() / 8;
        const float copied = __shfl_sync(0xffffffff, weight, row);
        reinterpret_cast<float4*>(shared.weights[warp * WARP + row])[lane() % 8] = make_float4(copied, copied, copied, copied);
    }
    // Of the whole square, 0 outside the window.
    const int dx = threadIdx.x % (RADIUS + 1), dy = threadIdx.x / (RADIUS + 1);
    const int radius_x = launch.radius_x, radius_y = launch.radius_y;
    if (dy <= RADIUS) {
        const bool taken = dy <= radius_y && dx <= radius_x;
        shared.space[dx][dy] = taken ? exp2_approximate(launch.inline_weights[dy * (radius_x + 1) + dx]) : 0.0f;
    }
}

DEVICE void load_samples(Shared& shared, const CudaconvFrame& frame, const CudaconvJob& job, const CudaconvChannel& channel,
                         int x0, int y0, int radius_x) {
    const int columns = WIDTH + 2 * radius_x, rows = HEIGHT + 2 * RADIUS;
    x0 -= radius_x;
    y0 -= RADIUS;
    const bool is_in = is_inside(job, x0, y0, columns, rows);
    for_each_element(columns, rows, is_in, threadIdx.x, THREADS, [&](int row, int column, bool inside) {
        shared.samples[row][column] = tile_code(frame, job, channel, inside, x0 + column, y0 + row) << SHIFT;
    });
}

// The weight of a difference; `own` is the offset of the lane's copies.
DEVICE float weight_of(const Shared& shared, u32 sample, u32 centre, u32 own) {
    const char* table = reinterpret_cast<const char*>(shared.weights);
    return *reinterpret_cast<const float*>(table + __usad(sample, centre, own));
}

DEVICE void filter_channel(const Shared& shared, const CudaconvBilateralLaunch& launch, const CudaconvJob& job,
                           const CudaconvChannel& channel, int x, int y) {
    const int radius_x = launch.radius_x, radius_y = launch.radius_y;
    const int row = threadIdx.x / WARP * ROWS;
    const u32 own = lane() * sizeof(float);
    u32 centres[ROWS];
    float sums[ROWS], weights[ROWS];
#pragma unroll
    for (int h = 0; h < ROWS; ++h) {
        centres[h] = shared.samples[row + RADIUS + h][lane() + radius_x];
        sums[h] = weights[h] = 0.0f;
    }
#pragma unroll 1
    for (int dx = -radius_x; dx <= radius_x; ++dx) {
        const float* space = shared.space[abs(dx)];
        u32 column[COLUMN];
#pragma unroll
        for (int k = 0; k < COLUMN; ++k) column[k] = shared.samples[row + k][lane() + radius_x + dx];
#pragma unroll
        for (int dy = 0; dy <= RADIUS; ++dy) {
            // Rows of the window are shorter the further they are from the centre.
            if (dy > radius_y || launch.spans[dy] < abs(dx)) break;
            const float factor = space[dy];
#pragma unroll
            for (int h = 0; h < ROWS; ++h) {
                const u32 below = column[RADIUS + h + dy], above = column[RADIUS + h - dy];
                float weight = weight_of(shared, below, centres[h], own);
                float sum = weight * __uint_as_float(below);
                if (dy > 0) {
                    const float other = weight_of(shared, above, centres[h], own);
                    sum = fmaf(other, __uint_as_float(above), sum);
                    weight += other;
                }
                sums[h] = fmaf(factor, sum, sums[h]);
                weights[h] = fmaf(factor, weight, weights[h]);
            }
        }
    }
#pragma unroll
    for (int h = 0; h < ROWS; ++h)
        if (x < static_cast<int>(job.width) && y + h < static_cast<int>(job.height))
            write_mean(launch.frame, channel, x, y + h, sums[h], weights[h], SHIFT);
}

// Blocks of a multiprocessor: as many as have room in shared memory.
extern "C" __global__ void __launch_bounds__(THREADS, 4)
    bilateral_table_u8(const __grid_constant__ CudaconvBilateralLaunch launch) {
    __shared__ Shared shared;
    const CudaconvFrame& frame = launch.frame;
    const CudaconvJob& job = frame.jobs[job_of(frame, blockIdx.y)];
    if (blockIdx.x >= job.tiles_across) return;
    const int x0 = blockIdx.x * WIDTH, y0 = (blockIdx.y - job.first_tile_row) * HEIGHT;
    copy_or_fill_tile<u8>(frame, job, x0, y0, WIDTH, HEIGHT, threadIdx.x, THREADS);
    load_weights(shared, launch);
#pragma unroll 1
    for (u32 c = 0; c < job.channel_count; ++c) {
        if (job.channels[c].action != CUDACONV_FILTER) continue;
        __syncthreads();
        load_samples(shared, frame, job, job.channels[c], x0, y0, launch.radius_x);
        __syncthreads();
        filter_channel(shared, launch, job, job.channels[c], x0 + lane(), y0 + threadIdx.x / WARP * ROWS);
    }
}
#endif

// --- joint ---------------------------------------------------------------------------------------

#ifdef BILATERAL_JOINT_U8

constexpr int CHANNELS = 3;
constexpr int ROWS = 4;
constexpr int HEIGHT = WARPS * ROWS;

// Spatial exponents of column dx for the taps of ROWS rows of outputs at one row of samples: four
// floats from the exponent of its distance dy to the first row of outputs on, backwards.
// Distances from -radius_y to radius_y + ROWS - 1, minus infinity outside the window.
DEVICE int exponent_rows(int radius_y) { return 2 * radius_y + ROWS; }

DEVICE void load_exponents(float4* exponents, const CudaconvBilateralLaunch& launch) {
    const int radius_x = launch.radius_x, radius_y = launch.radius_y;
    const float* weights = reinterpret_cast<const float*>(launch.weights);
    const int rows = exponent_rows(radius_y);
    const auto exponent = [&](int dx, int dy) {
        return abs(dy) <= radius_y ? __ldg(weights + abs(dy) * (radius_x + 1) + dx) + LARGER : -__int_as_float(0x7f800000);
    };
    for (int i = threadIdx.x; i < (radius_x + 1) * rows; i += THREADS) {
        const int dx = i / rows, dy = i % rows - radius_y;
        exponents[i] = make_float4(exponent(dx, dy), exponent(dx, dy - 1), exponent(dx, dy - 2), exponent(dx, dy - 3));
    }
}

// The three channels with the joint weight, which are packed into the lower bytes of a word.
struct Joint {
    int channels[CHANNELS];

    __device__ __forceinline__ explicit Joint(u32 mask) {
#pragma unroll
        for (int c = 0; c < CHANNELS; ++c) {
            channels[c] = __ffs(mask) - 1;
            mask &= mask - 1;
        }
    }
};

DEVICE void load_pixels(u32* pixels, int pitch, int rows, const CudaconvFrame& frame, const CudaconvJob& job,
                        const Joint& joint, int x0, int y0) {
    const bool is_in = is_inside(job, x0, y0, pitch, rows);
    for_each_element(pitch, rows, is_in, threadIdx.x, THREADS, [&](int row, int column, bool inside) {
        u32 pixel = 0;
#pragma unroll
        for (int c = 0; c < CHANNELS; ++c)
            pixel |= tile_code(frame, job, job.channels[joint.channels[c]], inside, x0 + column, y0 + row) << 8 * c;
        pixels[row * pitch + column] = pixel;
    });
}

struct Sums {
    float values[CHANNELS];
    float weights;
};

// `start` and the sum of absolute differences of four bytes each.
DEVICE u32 add_differences(u32 a, u32 b, u32 start) {
    u32 sum;
    asm("vabsdiff4.u32.u32.u32.add %0, %1, %2, %3;" : "=r"(sum) : "r"(a), "r"(b), "r"(start));
    return sum;
}

// One tap: `pixel` with its channels apart, as floats.
DEVICE void add_tap(Sums& sums, u32 pixel, const float (&values)[CHANNELS], u32 centre, float scale, float exponent) {
    // 2^23 and the distance, scaled and the scaled 2^23 subtracted in one step without error.
    const float whole = __uint_as_float(add_differences(pixel, centre, 0x4b000000));
    const float distance = fmaf(whole, scale, -WHOLE * scale);
    const float weight = exp2_approximate(fmaf(-distance, distance, exponent));
#pragma unroll
    for (int c = 0; c < CHANNELS; ++c) sums.values[c] = fmaf(weight, values[c], sums.values[c]);
    sums.weights += weight;
}

DEVICE void filter_joint(const float4* exponents, const u32* pixels, int pitch, const CudaconvBilateralLaunch& launch,
                         const CudaconvJob& job, const Joint& joint, int x, int y) {
    const int radius_x = launch.radius_x, radius_y = launch.radius_y;
    const u32* own = pixels + (threadIdx.x / WARP * ROWS + radius_y) * pitch + lane() + radius_x;
    const float scale = __fsqrt_rn(-launch.color);
    u32 centres[ROWS];
    Sums sums[ROWS] = {};
#pragma unroll
    for (int h = 0; h < ROWS; ++h) centres[h] = own[h * pitch];

    // A row of samples at `dy` below the first row of outputs is in the windows of outputs
    // `first` to `last`.
    const auto add_row = [&](int dx, int dy, int first, int last) {
        const u32 pixel = own[dy * pitch + dx];
        const float values[CHANNELS] = {__uint_as_float(pixel & 0xff), __uint_as_float(pixel & 0xff00),
                                        __uint_as_float(pixel & 0xff0000)};
        const float4 four = exponents[abs(dx) * exponent_rows(radius_y) + dy + radius_y];
        const float space[ROWS] = {four.x, four.y, four.z, four.w};
#pragma unroll
        for (int h = 0; h < ROWS; ++h)
            if (first <= h && h <= last) add_tap(sums[h], pixel, values, centres[h], scale, space[h]);
    };
    int span = radius_y;  // of the column: rows of its window on either side of the centre
#pragma unroll 1
    for (int dx = -radius_x; dx <= radius_x; ++dx) {
        while (span > 0 && launch.spans[span] < abs(dx)) --span;
        while (span < radius_y && launch.spans[span + 1] >= abs(dx)) ++span;
        if (span == 0) {
#pragma unroll
            for (int h = 0; h < ROWS; ++h) add_row(dx, h, h, h);
            continue;
        }
        add_row(dx, -span, 0, 0);
        add_row(dx, 1 - span, 0, 1);
        add_row(dx, 2 - span, 0, 2);
#pragma unroll 2
        for (int dy = 3 - span; dy <= span; ++dy) add_row(dx, dy, 0, ROWS - 1);
        add_row(dx, span + 1, 1, ROWS - 1);
        add_row(dx, span + 2, 2, ROWS - 1);
        add_row(dx, span + 3, 3, ROWS - 1);
    }
#pragma unroll
    for (int h = 0; h < ROWS; ++h)
        if (x < static_cast<int>(job.width) && y + h < static_cast<int>(job.height)) {
#pragma unroll
            for (int c = 0; c < CHANNELS; ++c)
                write_mean(launch.frame, job.channels[joint.channels[c]], x, y + h, sums[h].values[c], sums[h].weights, 8 * c);
        }
}

extern __shared__ float4 shared[];

extern "C" __global__ void __launch_bounds__(THREADS, 4)
    bilateral_joint_u8(const __grid_constant__ CudaconvBilateralLaunch launch) {
    const CudaconvFrame& frame = launch.frame;
    const CudaconvJob& job = frame.jobs[job_of(frame, blockIdx.y)];
    if (blockIdx.x >= job.tiles_across) return;
    const int x0 = blockIdx.x * WIDTH, y0 = (blockIdx.y - job.first_tile_row) * HEIGHT;
    copy_or_fill_tile<u8>(frame, job, x0, y0, WIDTH, HEIGHT, threadIdx.x, THREADS);
    if (!job.joint) return;

    const int radius_x = launch.radius_x, radius_y = launch.radius_y;
    float4* exponents = shared;
    u32* pixels = reinterpret_cast<u32*>(exponents + (radius_x + 1) * exponent_rows(radius_y));
    const int pitch = WIDTH + 2 * radius_x;
    const Joint joint(job.joint);
    load_exponents(exponents, launch);
    load_pixels(pixels, pitch, HEIGHT + 2 * radius_y, frame, job, joint, x0 - radius_x, y0 - radius_y);
    __syncthreads();
    filter_joint(exponents, pixels, pitch, launch, job, joint, x0 + lane(), y0 + threadIdx.x / WARP * ROWS);
}
#endif
