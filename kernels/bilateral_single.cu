// The bilateral filter of channels of words with a weight of their own: by exponentials, down the columns of the
// window. The exponentials bound it: 74 µs for 1080p of 16 bits with radius 7 at 1.98 GHz on 132 multiprocessors.
// Measured, a fifth of the time are the launch, tiles and results (radius 0).
#include "bilateral_columns.cuh"

#ifdef BILATERAL_SINGLE_U16

using Block = Shape<4, 4>;

// One channel, in' as float.
struct Single : Block {
    struct Sums {
        float values, weights;
    };
    using Pixel = float;
    using Centre = float;
    float color;

    static __device__ __forceinline__ float centre(float value) { return value; }
    __device__ __forceinline__ void add(Sums& sums, float value, float centre, float exponent) const {
        // In one statement, which takes half the room in the PTX.
        asm("{.reg .f32 p,q;sub.f32 p,%2,%3;mul.f32 q,p,p;fma.rn.f32 q,q,%4,%5;ex2.approx.ftz.f32 q,q;"
            "fma.rn.f32 %0,q,p,%0;add.f32 %1,q,%1;}"
            : "+f"(sums.values), "+f"(sums.weights)
            : "f"(value), "f"(centre), "f"(color), "f"(exponent));
    }
};

template <typename Sample>
DEVICE void filter_channel(const CudaconvBilateralLaunch& launch, const CudaconvJob& job, const CudaconvChannel& channel,
                           Positions& positions, bool first, int x0, int y0) {
    using Tile = Reading<Sample, Block>;
    constexpr int ROWS = Block::ROWS;
    const CudaconvFrame& frame = launch.frame;
    const int radius_x = launch.radius_x, radius_y = launch.radius_y;
    const bool near = max(radius_x, radius_y) <= NEAR;
    const int left = near ? NEAR : radius_x, above = near ? NEAR : radius_y;
    const int pitch = WIDTH + 2 * left, rows = Block::HEIGHT + 2 * above;
    const int first_x = x0 - left, first_y = y0 - above;
    float* tile = behind_exponents<Block, float>(launch);
    __syncthreads();
    if (near && is_inside(job, first_x, first_y, PITCH, rows)) {
        const Tile reading(input_at(channel, first_x, first_y), channel.step, channel.input_stride);
        if (first) put_exponents<Block>(launch, 0.0f);
        const float zero = WHOLE + channel.zero;
        reading.store(tile, [&](u32 sample) {
            return __uint_as_float(0x4b000000u | code_of(frame, static_cast<Sample>(sample))) - zero;
        });
    } else {
        positions.find(frame, job, first_x, first_y);
        if (first) put_exponents<Block>(launch, 0.0f);
        __syncthreads();
        fill_tile<Block>(tile, pitch, rows, positions, [&](int x, int y) { return value_in<Sample>(frame, channel, x, y); });
    }
    __syncthreads();
    Single::Sums sums[ROWS];
    float centres[ROWS];
    Single single;
    single.color = launch.color;
    const int row = threadIdx.x / WARP * ROWS;
    add_window(single, sums, centres, tile + (row + above) * pitch + lane() + left, pitch, launch, InShared{shared});
    const int x = x0 + lane(), count = x < static_cast<int>(job.width) ? static_cast<int>(job.height) - y0 - row : 0;
#pragma unroll
    for (int h = 0; h < ROWS; ++h) {
        const float mean = centres[h] + __fdiv_rn(sums[h].values, sums[h].weights);
        if (h < count) write_result<Sample>(frame, channel, x, y0 + row + h, mean);
    }
}

template <typename Sample>
DEVICE void single(const CudaconvBilateralLaunch& launch) {
    __shared__ Positions positions;
    const CudaconvFrame& frame = launch.frame;
    const CudaconvJob& job = frame.jobs[job_of(frame, blockIdx.y)];
    if (blockIdx.x >= job.tiles_across) return;
    const int x0 = blockIdx.x * WIDTH, y0 = (blockIdx.y - job.first_tile_row) * Block::HEIGHT;
    bool first = true;
#pragma unroll 1
    for (u32 c = 0; c < job.channel_count; ++c) {
        const CudaconvChannel& channel = job.channels[c];
        if (channel.action == CUDACONV_FILTER) {
            filter_channel<Sample>(launch, job, channel, positions, first, x0, y0);
            first = false;
            continue;
        }
        const int x = x0 + lane(), y1 = min(y0 + Block::HEIGHT, static_cast<int>(job.height));
#pragma unroll 1
        for (int y = y0 + threadIdx.x / WARP; y < y1 && x < static_cast<int>(job.width); y += Block::WARPS)
            copy_or_fill<Sample>(frame, channel, x, y);
    }
}

// Blocks of a multiprocessor: as many as have room in its registers.
KERNEL(bilateral_single_u16, CudaconvBilateralLaunch, (Block::THREADS, 8), single<u16>(launch))
#endif
