// What the kernels of the bilateral share that read a tile of any picture, and weigh by exponentials.
#pragma once

#include "common.cuh"

// Columns of a tile, a thread each.
constexpr int WIDTH = 32;

// Most columns and rows of a tile with its halo: no tile is higher than it is wide.
constexpr int MOST = WIDTH + 2 * CUDACONV_MAX_RADIUS;

// Where those of a tile are in the picture, or BEYOND. Found once for all samples of a tile.
struct Positions {
    short columns[MOST], rows[MOST];

    // (x0, y0) is the first sample. At least MOST threads take part.
    __device__ __forceinline__ void find(const CudaconvFrame& frame, const CudaconvJob& job, int x0, int y0) {
        const int i = threadIdx.x;
        if (i >= MOST) return;
        columns[i] = border_position(frame.border, x0 + i, job.width);
        rows[i] = border_position(frame.border, y0 + i, job.height);
    }
};
