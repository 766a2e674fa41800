// What the kernels of the ladder share: where a thread's pixel is, and reading what lies beyond the edge.
#pragma once

#include "half2.cuh"
#include "ladder.h"

using Launch = CudaconvLadderLaunch;

// The largest block that the ladder launches.
constexpr int LARGEST_BLOCK = 1024;

DEVICE int column() { return blockIdx.x * blockDim.x + threadIdx.x; }
DEVICE int row() { return blockIdx.y * blockDim.y + threadIdx.y; }

DEVICE bool is_inside(const Launch& launch, int x, int y) {
    return x < static_cast<int>(launch.width) && y < static_cast<int>(launch.height);
}

// The position in 0..length nearest to `position`.
DEVICE int nearest(int position, u32 length) { return min(max(position, 0), static_cast<int>(length) - 1); }

// The sample at (x, y), which may lie beyond the edge.
template <typename Sample>
DEVICE Sample read_at(const Launch& launch, int x, int y) {
    const u32 at = nearest(y, launch.height) * launch.input_stride + nearest(x, launch.width);
    return __ldg(reinterpret_cast<const Sample*>(launch.input) + at);
}

template <typename Sample>
DEVICE void write_at(const Launch& launch, int x, int y, Sample sample) {
    reinterpret_cast<Sample*>(launch.output)[y * launch.output_stride + x] = sample;
}

template <typename Word>
DEVICE Word table(const Launch& launch, int index) {
    return __ldg(reinterpret_cast<const Word*>(launch.table) + index);
}

// The block's pixels and `HALO` around them, `convert`ed, in rows of blockDim.x + 2 * HALO.
template <int HALO, typename Sample, typename Value, typename Convert>
DEVICE void load_tile(const Launch& launch, Value* tile, Convert convert) {
    const int width = blockDim.x + 2 * HALO, height = blockDim.y + 2 * HALO;
    const int left = blockIdx.x * blockDim.x - HALO, top = blockIdx.y * blockDim.y - HALO;
#pragma unroll 1
    for (int y = threadIdx.y; y < height; y += blockDim.y) {
#pragma unroll 1
        for (int x = threadIdx.x; x < width; x += blockDim.x) {
            tile[y * width + x] = convert(read_at<Sample>(launch, left + x, top + y));
        }
    }
    __syncthreads();
}

// Four products of unsigned bytes, added to `sum`.
DEVICE u32 dot_bytes(u32 a, u32 b, u32 sum) {
    asm("dp4a.u32.u32 %0, %1, %2, %0;" : "+r"(sum) : "r"(a), "r"(b));
    return sum;
}
