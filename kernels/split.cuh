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

// What is in doubt: a sample, or the samples of a step's rows one below the other.
struct Place {
    const CudaconvChannel& channel;
    int samples;  // of the channel's rows
    int x, y;     // of the first of them
};

// Computes what is at `count` places in the canonical order and writes it: `place_of(i)` says where. `above` is 0 where these are
// samples, else how many rows above the first of a step the first lane takes. `weights` are those of the launch's kernel
// as CudaconvTaps has them. All lanes of the warp take part, each with a row of the input of one place.
template <typename PlaceOf>
DEVICE void decide(const CudaconvConvolveLaunch& launch, const float* weights, int height, int count, int above, PlaceOf place_of) {
    const int width = launch.kernels[0].width, rows = launch.kernels[0].height, radius = rows / 2;
    const float* const down = weights + line_of(width);
    // Lanes of a place.
    const int span = above || rows > 16 ? WARP : rows > 8 ? 16 : 8;
    const int own = lane() % span;
    // The lane whose row is the first for this one's result.
    const int first_lane = above ? lane() + above - radius : lane() - own;
#pragma unroll 1
    for (int first = 0; first < count; first += WARP / span) {
        const int index = first + lane() / span;
        const Place place = place_of(min(index, count - 1));
        const CudaconvChannel& channel = place.channel;
        const int x = place.x - width / 2, y = border_position(launch.frame.border, place.y - (above ? above : radius) + own, height);
        float sum = 0.0f;
        if (x >= 0 && x + width <= place.samples && y != BEYOND) {
            cudaconv_u64 at = input_at(channel, x, y);
            const u32 step = channel.step;
            // Raised codes and zero levels are whole numbers: their difference is exact.
            const float zero = WHOLE + channel.zero;
#pragma unroll 4
            for (int i = 0; i < width; ++i, at += step)
                sum = fmaf(__ldg(weights + i), __uint_as_float(0x4b000000u | read_sample<u8>(at)) - zero, sum);
        } else {
#pragma unroll 1
            for (int i = 0; i < width; ++i) {
                const int from = border_position(launch.frame.border, x + i, place.samples);
                sum = fmaf(__ldg(weights + i), value_in<u8>(launch.frame, channel, from, y), sum);
            }
        }
        float result = 0.0f;
#pragma unroll 4
        for (int j = 0; j < rows; ++j) result = fmaf(__ldg(down + j), __shfl_sync(~0u, sum, first_lane + j), result);
        const bool is_result = above ? own < STEP && place.y + own < height : own == 0 && index < count;
        if (is_result && channel.action == CUDACONV_FILTER) {
            const u32 code = round_to_code(divided(launch, result) + channel.offset, launch.frame.max_code);
            write_sample<u8>(output_at(channel, place.x, place.y + (above ? own : 0)), code);
        }
    }
}

// The samples of a warp that are in doubt, in shared memory.
constexpr u32 MOST_DOUBTS = 32;
struct Doubts {
    u32 count;
    u16 places[MOST_DOUBTS];
};

// Notes what is in doubt, a bit for each of the results of a thread: `note(bit)` is 16 bits that say which. Where there is no
// room, and in the end, the `count` samples that are noted are decided: `decide(count, false)`. Where there are more than there ever
// is room for, all samples of the step are: `decide(…, true)`. All lanes of the warp take part.
template <typename Note, typename Decide>
DEVICE void note_doubts(Doubts& doubts, u32 doubtful, bool is_last, Note note, Decide decide) {
    u32 count = __reduce_add_sync(~0u, __popc(doubtful));
    while (true) {
        const bool is_step = count > MOST_DOUBTS;
        if (!is_step && doubts.count + count <= MOST_DOUBTS) {
            __syncwarp();
            if (doubtful != 0) {
                u32 at = atomicAdd(&doubts.count, __popc(doubtful));
#pragma unroll 1
                for (; doubtful != 0; ++at, doubtful &= doubtful - 1) doubts.places[at] = note(__ffs(doubtful) - 1);
            }
            count = 0;
            __syncwarp();
            if (!is_last || doubts.count == 0) return;
        }
        decide(static_cast<int>(doubts.count), is_step);
        __syncwarp();
        if (is_step) count = doubtful = 0;
        else if (lane() == 0) doubts.count = 0;
        __syncwarp();
    }
}
