// Exact separable filters of bytes on the float16 matrix units: every number is split in two that these take, and the few
// results that could be rounded otherwise than the canonical ones are computed once more, in the canonical order.
//
// Weights are a whole number of at most 2^11 and what is left of them, both float16. Bytes are float16 of 1024 more.
// Across, products with the whole numbers sum to a whole number below 2^24, whatever the order: so it is exact. It is
// divided by 512: the quotient p, to nearest, is at most 2048, a float16; to the remainder, exact as well, the products with what is left of
// the weights are added, and it is rounded to float16: q. Down, the products of p with whole numbers are again exact; those of p with
// what is left and of q with whole numbers are summed apart. Products of what is left of both are left out.
// So a result is off by some 2^-12 of a code value; the host knows by how much at most, the canonical sum's own rounding with
// it (`src/engine/cuda/abi/split.rs`). Products and sums of float32 of the matrix units are taken to be at least of single precision, in
// any order, as PTX says, and no more.
//
// Needs compute_80.
#pragma once

#include "staged.cuh"

DEVICE void keep_float(float& value) { asm volatile("" : "+f"(value)); }

// --- Products -----------------------------------------------------------------------------------

// a b + c, with a of 16 x 16 float16, b of 16 x 8 and c of 16 x 8 sums.
DEVICE void multiply(float (&d)[4], const u32 (&a)[4], u32 b0, u32 b1, const float (&c)[4]) {
    asm("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%10, %11, %12, %13};"
        : "=f"(d[0]), "=f"(d[1]), "=f"(d[2]), "=f"(d[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1), "f"(c[0]), "f"(c[1]), "f"(c[2]), "f"(c[3]));
}

// The same without sums to begin with.
DEVICE void multiply(float (&d)[4], const u32 (&a)[4], u32 b0, u32 b1) {
    const float none[4] = {0.0f, 0.0f, 0.0f, 0.0f};
    multiply(d, a, b0, b1, none);
}

// To nearest.
DEVICE u32 halves_of(float low, float high) {
    u32 two;
    asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(two) : "f"(high), "f"(low));
    return two;
}

// Towards zero.
DEVICE u32 truncated_halves_of(float low, float high) {
    u32 two;
    asm("cvt.rz.f16x2.f32 %0, %1, %2;" : "=r"(two) : "f"(high), "f"(low));
    return two;
}

DEVICE void load_floats(float (&floats)[4], u32 from) {
    const uint4 four = load_piece(from);
    floats[0] = __uint_as_float(four.x), floats[1] = __uint_as_float(four.y);
    floats[2] = __uint_as_float(four.z), floats[3] = __uint_as_float(four.w);
}

DEVICE u32 load_byte(u32 from) {
    u32 byte;
    asm volatile("ld.shared.u8 %0, [%1];" : "=r"(byte) : "r"(from) : "memory");
    return byte;
}

DEVICE void load_two(float& first, float& second, u32 from) {
    asm volatile("ld.shared.v2.f32 {%0, %1}, [%2];" : "=f"(first), "=f"(second) : "r"(from) : "memory");
}

DEVICE u32 load_half(u32 from) {
    u32 half;
    asm volatile("{.reg .u16 half; ld.shared.u16 half, [%1]; cvt.u32.u16 %0, half;}" : "=r"(half) : "r"(from) : "memory");
    return half;
}

DEVICE void load_matrix(u32 (&words)[4], const uint4* from) {
    const uint4 four = __ldg(from);
    words[0] = four.x, words[1] = four.y, words[2] = four.z, words[3] = four.w;
}

// --- Sums across, split -------------------------------------------------------------------------

// Whole multiples of 512 are taken from sums of at most 2^20: what is left is at most 256.
constexpr float UNIT = 512.0f;

// p of two sums; `sums` become the remainders.
DEVICE u32 split_sums(float& first, float& second) {
    // Adding and subtracting 1.5 2^23 rounds to a whole number.
    constexpr float ROUND = 1.5f * WHOLE;
    const float p0 = fmaf(first, 1.0f / UNIT, ROUND) - ROUND, p1 = fmaf(second, 1.0f / UNIT, ROUND) - ROUND;
    first = fmaf(p0, -UNIT, first), second = fmaf(p1, -UNIT, second);
    return halves_of(p0, p1);
}

// --- Results ------------------------------------------------------------------------------------

// What stands behind the matrices.
struct SplitConstants {
    float start;         // of sums across: takes 1152 times the sum of the weights off, as 1024 + 128 is in every operand
    float scale;         // of sums down
    float gain;          // sum of the weights by the divisor
    float shift;         // what `start` could not take off, in code values
    float below, above;  // least and most that the negative and the positive weights give of 1
    float first;         // 1024.5, and a little more than a result may be less than the canonical one
    u32 window;          // in units of 2^-13: fractions below are in doubt
};

// What is added to the sums down of a channel.
DEVICE float level_of(const SplitConstants& constants, const CudaconvChannel& channel) {
    return constants.first + fmaf(128.0f - channel.zero, constants.gain, channel.offset + constants.shift);
}

// A result, from 1024 on: of whole sums down, and what is left of them. The whole part is the code, the last 13 bits are the fraction, up
// to 2047.
DEVICE float result_of(float whole, float left, float scale, float level) {
    return fmaf(fmaf(left, 1.0f / UNIT, whole), scale, level);
}

// Whether results may be beyond 0..255.
DEVICE bool is_clamped(const SplitConstants& constants, const CudaconvChannel& channel) {
    const float level = channel.offset - channel.zero * constants.gain;
    return level + 255.0f * constants.below < -0.25f || level + 255.0f * constants.above > 255.25f;
}

// Two float16, each from 1024 to 1279. What is beyond them may be taken to be in doubt, no less than other results.
DEVICE u32 clamped_codes(u32 two) {
    asm("max.f16x2 %0, %0, %1;" : "+r"(two) : "r"(0x64006400));
    asm("min.f16x2 %0, %0, %1;" : "+r"(two) : "r"(0x64ff64ff));
    return two;
}

DEVICE u32 fraction_of(float result) { return __float_as_uint(result) & 0x1fff; }

// Those of two results, as 16 bits each, and the least of such.
DEVICE u32 fractions_of(float first, float second) {
    return __byte_perm(__float_as_uint(first), __float_as_uint(second), 0x5410) & 0x1fff1fff;
}

// They are taken for float16: all are positive ones, in the same order.
DEVICE u32 least_of(u32 a, u32 b) {
    asm("min.f16x2 %0, %0, %1;" : "+r"(a) : "r"(b));
    return a;
}

// --- Doubts -------------------------------------------------------------------------------------

// Most taps of a line, and weights of one in shared memory.
constexpr int TAPS = 17, WEIGHTS = 20;
// Where more threads of a warp are in doubt about a step, all of it is decided.
constexpr int MOST_DOUBTFUL = 8;

// What results in doubt are decided with. WORDS: a thread's, of fractions.
template <int WORDS>
struct Canonical {
    // The weights, and behind them zeros.
    alignas(16) float across[WEIGHTS];
    float down[WEIGHTS];
    // By channel: 2^23 and the zero level, and the offset.
    float2 levels[CUDACONV_CHANNELS];
    // Of each warp, the fractions of two threads.
    alignas(16) u32 fractions[WARPS][2][WORDS];

    // `from`: the weights as CudaconvTaps has them.
    __device__ __forceinline__ void load(const CudaconvConvolveLaunch& launch, const CudaconvJob& job, const float* from) {
        const int width = launch.kernels[0].width, height = launch.kernels[0].height, i = threadIdx.x;
        if (i < WEIGHTS) {
            across[i] = i < width ? __ldg(from + i) : 0.0f;
            down[i] = i < height ? __ldg(from + line_of(width) + i) : 0.0f;
        }
        if (i < CUDACONV_CHANNELS) levels[i] = make_float2(WHOLE + job.channels[i].zero, job.channels[i].offset);
    }
};

// The code of a sample in the canonical order: of lane 0's, lane l having row l of its window, from `at` on, with `step` bytes from a
// sample to the next; and so of that of any other lane. Without branches, so that it is done among other things: all taps that there may be.
template <int WORDS>
DEVICE u32 canonical_code(const CudaconvConvolveLaunch& launch, const Canonical<WORDS>& canonical, u32 at, int step, u32 channel) {
    u32 codes[TAPS];
    float across[WEIGHTS], down[WEIGHTS], zero, offset;
#pragma unroll
    for (int k = 0; k < TAPS; ++k) codes[k] = load_byte(at + k * step);
#pragma unroll
    for (int k = 0; k < WEIGHTS; k += 4) load_floats(*reinterpret_cast<float(*)[4]>(across + k), shared_address(canonical.across + k));
    load_two(zero, offset, shared_address(canonical.levels + channel));
#pragma unroll
    for (int k = 0; k < WEIGHTS; k += 4) load_floats(*reinterpret_cast<float(*)[4]>(down + k), shared_address(canonical.down + k));
    float sum = 0.0f, result = 0.0f;
    // Raised codes and zero levels are whole numbers: their difference is exact. Weights behind the last are zero.
#pragma unroll
    for (int k = 0; k < TAPS; ++k) sum = fmaf(across[k], __uint_as_float(0x4b000000u | codes[k]) - zero, sum);
#pragma unroll
    for (int k = 0; k < TAPS; ++k) result = fmaf(down[k], __shfl_down_sync(~0u, sum, k), result);
    return round_to_code(divided(launch, result) + offset, launch.frame.max_code);
}

// The same, tap by tap; each lane's result begins with the row `first` lanes further.
template <int WORDS>
DEVICE u32 canonical_code_by_taps(const CudaconvConvolveLaunch& launch, const Canonical<WORDS>& canonical, u32 at, int step,
                                  u32 channel, int first) {
    const int width = launch.kernels[0].width, height = launch.kernels[0].height;
    const float2 levels = canonical.levels[channel];
    float sum = 0.0f, result = 0.0f;
#pragma unroll 1
    for (int k = 0; k < width; ++k, at += step)
        sum = fmaf(canonical.across[k], __uint_as_float(0x4b000000u | load_byte(at)) - levels.x, sum);
#pragma unroll 1
    for (int k = 0; k < height; ++k) result = fmaf(canonical.down[k], __shfl_down_sync(~0u, sum, first + k), result);
    return round_to_code(divided(launch, result) + levels.y, launch.frame.max_code);
}

// Puts down the fractions of a thread.
template <int WORDS>
DEVICE void put_fractions(u32 at, const u32 (&fractions)[WORDS]) {
#pragma unroll
    for (int k = 0; k < WORDS; k += 4)
        store_piece(at + k * WORD, make_uint4(fractions[k], fractions[k + 1], fractions[k + 2], fractions[k + 3]));
}

// Which of those are in doubt: bit i is fraction i, of two in a word.
template <int WORDS>
DEVICE u32 doubts_of(u32 at, u32 window) {
    const u32 fraction = lane() < 2 * WORDS ? load_half(at + lane() * 2) : window;
    return __ballot_sync(~0u, fraction < window);
}
