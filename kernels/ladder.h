/* The steps of `cudaconv bench ladder`: what the host hands to each of its kernels. Mirrored by
 * `src/engine/cuda/abi/ladder.rs`, whose tests compare the two.
 *
 * Two jobs, of one picture of one channel each, whose border is the nearest pixel of the edge: 3 x 3
 * weights over float32, and a bilateral of 15 x 15 pixels over bytes. Every step computes the same;
 * what differs is how, which is what the ladder shows.
 */
#ifndef CUDACONV_LADDER_H
#define CUDACONV_LADDER_H

#include "abi.h"

#define CUDACONV_LADDER_RADIUS 7
/* 32-bit words of the tables below. */
#define CUDACONV_LADDER_CONVOLVE_WORDS 18
#define CUDACONV_LADDER_BILATERAL_WORDS 364

/* Parameter of every kernel of the ladder. `table` is the device address of words that all kernels of
 * a job share, and of which each reads its part.
 * 3 x 3: nine float32 weights, row by row; three float32 for the pass across and three for the one
 * down, whose products are the nine; three words of the bytes weight * 256, one for each row.
 * Bilateral: 225 float32 exponents of two that stand for distance, row by row; 15 of the middle row;
 * 60 words of the bytes weight * 255 of distance, 16 for each row, of which the last is 0; 256 bytes
 * weight * 255 of a difference. */
typedef struct CudaconvLadderLaunch {
    cudaconv_u64 input; /* address of the first sample; of the texture kernels, the texture object */
    cudaconv_u64 output;
    cudaconv_u64 table; /* a multiple of 16; 0 where the kernel has it in constant memory */
    cudaconv_u32 width;
    cudaconv_u32 height;
    cudaconv_u32 input_stride; /* samples from one row to the next, a multiple of 64 as are addresses */
    cudaconv_u32 output_stride;
    float color; /* bilateral: factor of the squared difference in the exponent of two */
    cudaconv_u32 reserved;
} CudaconvLadderLaunch;
CUDACONV_LAYOUT(CudaconvLadderLaunch, 48, reserved, 44);

#endif
