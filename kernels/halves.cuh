// Products of float16 on the matrix units with weights that the host rounded, and codes of their sums.
//
// A byte in the low half of a float16 is a denormal number, its value times 2^-24. Matrices of weights and the
// constants behind them are those of `src/engine/cuda/abi/halves.rs`. Sums that results are made of start from 1024 and what a
// channel begins with: rounded to float16, halves to even, their low byte is the code.
#pragma once

#include "staged.cuh"

// --- Products ------------------------------------------------------------------------------------

// a b + c, with a of 16 x 16 float16, b of 16 x 8 and c of 16 x 8 sums of float32.
DEVICE void multiply(float (&d)[4], const u32 (&a)[4], u32 b0, u32 b1, const float (&c)[4]) {
    asm("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%10, %11, %12, %13};"
        : "=f"(d[0]), "=f"(d[1]), "=f"(d[2]), "=f"(d[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1), "f"(c[0]), "f"(c[1]), "f"(c[2]), "f"(c[3]));
}

// The same with sums of float16.
DEVICE void multiply(u32 (&d)[2], const u32 (&a)[4], u32 b0, u32 b1, const u32 (&c)[2]) {
    asm("mma.sync.aligned.m16n8k16.row.col.f16.f16.f16.f16 {%0, %1}, {%2, %3, %4, %5}, {%6, %7}, {%8, %9};"
        : "=r"(d[0]), "=r"(d[1])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1), "r"(c[0]), "r"(c[1]));
}

// The same with a of 16 x 8, b of 8 x 8, and sums of float32.
DEVICE void multiply(float (&d)[4], u32 a0, u32 a1, u32 b, const float (&c)[4]) {
    asm("mma.sync.aligned.m16n8k8.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5}, {%6}, {%7, %8, %9, %10};"
        : "=f"(d[0]), "=f"(d[1]), "=f"(d[2]), "=f"(d[3])
        : "r"(a0), "r"(a1), "r"(b), "f"(c[0]), "f"(c[1]), "f"(c[2]), "f"(c[3]));
}

// A thread's words of a matrix, from global or from shared memory.
DEVICE void load_matrix(u32 (&words)[4], const uint4* from) {
    const uint4 four = __ldg(from);
    words[0] = four.x, words[1] = four.y, words[2] = four.z, words[3] = four.w;
}

DEVICE void load_matrix(u32 (&words)[4], u32 from) {
    const uint4 four = load_piece(from);
    words[0] = four.x, words[1] = four.y, words[2] = four.z, words[3] = four.w;
}

// A thread's sums to begin with.
DEVICE void load_sums(float (&sums)[4], u32 from) {
    const uint4 four = load_piece(from);
    sums[0] = __uint_as_float(four.x), sums[1] = __uint_as_float(four.y);
    sums[2] = __uint_as_float(four.z), sums[3] = __uint_as_float(four.w);
}

// --- Codes ---------------------------------------------------------------------------------------

// Two floats rounded to float16, the first in the low half.
DEVICE u32 halves_of(float low, float high) {
    u32 two;
    asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(two) : "f"(high), "f"(low));
    return two;
}

// Two float16, each from 1024 to 1279.
DEVICE u32 clamped_codes(u32 two) {
    asm("max.f16x2 %0, %0, %1;" : "+r"(two) : "r"(0x64006400));
    asm("min.f16x2 %0, %0, %1;" : "+r"(two) : "r"(0x64ff64ff));
    return two;
}

// What rounds to 0 and to 255 for certain, with the errors of rounded weights and sums.
constexpr float LEAST_RESULT = -0.25f, MOST_RESULT = 255.25f;

// Sums of the weights, divided: of all of them as they are rounded, of the negative and of the positive ones.
struct WeightSums {
    float all, below, above;

    // From the constants behind the matrices.
    __device__ __forceinline__ explicit WeightSums(const uint4* from) {
        const uint4 constants = __ldg(from);
        all = __uint_as_float(constants.x), below = __uint_as_float(constants.y), above = __uint_as_float(constants.z);
    }

    // What is added to the products with samples of a channel, and the least and the most that results from there can be.
    __device__ __forceinline__ float level(const CudaconvChannel& channel) const { return channel.offset - channel.zero * all; }
    __device__ __forceinline__ float least(float level) const { return level + 255.0f * below; }
    __device__ __forceinline__ float most(float level) const { return level + 255.0f * above; }
};
