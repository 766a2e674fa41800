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

// Most taps of a line, in whole fours.
constexpr int MOST_TAPS = 20;
// Of more results of a step that are in doubt all of it is decided.
constexpr u32 MOST_DOUBTS = 64;

// The weights of the canonical order, and behind them zeros.
struct CanonicalWeights {
    float across[MOST_TAPS], down[MOST_TAPS];

    // `from`: as CudaconvTaps has them.
    __device__ __forceinline__ void load(const CudaconvConvolveLaunch& launch, const float* from) {
        const int width = launch.kernels[0].width, height = launch.kernels[0].height;
        for (int i = threadIdx.x; i < MOST_TAPS; i += THREADS) {
            across[i] = i < width ? __ldg(from + i) : 0.0f;
            down[i] = i < height ? __ldg(from + line_of(width) + i) : 0.0f;
        }
    }
};

// A sample: its row of the step, its byte of the tile's rows, its channel.
struct Place {
    int row, byte;
    u32 channel;
};

// Decides results of a warp that are in doubt, a bit for each of a thread's, in the canonical order: `place_of(lane, bit)` says
// where they are. `column(i)` is the first of the samples that a warp computes one below the other in a step, of `columns`. `row_at(i)` is the
// address in shared memory of the tile's bytes in row i of the 32 rows around the step, which begin `ABOVE` rows above it.
// `y` is the picture's row of the step. All lanes of the warp take part, each with a row of the input.
template <int ABOVE, typename Tile, typename RowAt, typename PlaceOf, typename Column>
DEVICE void decide(const CudaconvConvolveLaunch& launch, const Tile& tile, const CanonicalWeights& weights, u32 doubtful, int y,
                   RowAt row_at, PlaceOf place_of, int columns, Column column) {
    const int width = launch.kernels[0].width, rows = launch.kernels[0].height;
    const bool is_all = __reduce_add_sync(~0u, __popc(doubtful)) > MOST_DOUBTS;
    // Lanes of a place.
    const int span = is_all || rows > 16 ? WARP : 16, own = lane() % span;
#pragma unroll 1
    for (int i = 0;; ++i) {
        Place place = {};
        bool is_place = true;
        if (is_all) {
            if (i == columns) break;
            place = column(i);
            if (tile.job.channels[place.channel].action != CUDACONV_FILTER) continue;
        } else {
            // Those of the first lanes that have one.
            const u32 all = __ballot_sync(~0u, doubtful != 0);
            if (all == 0) break;
            const u32 others = all & (all - 1), of_own = lane() < span ? all : others;
            is_place = of_own != 0;
            const int from = is_place ? __ffs(of_own) - 1 : 0;
            place = place_of(from, __ffs(__shfl_sync(~0u, doubtful, from)) - 1);
            const u32 taken = (all ^ others) | (span == WARP ? 0 : others & ~(others - 1));
            if (taken >> lane() & 1) doubtful &= doubtful - 1;
        }
        const CudaconvChannel& channel = tile.job.channels[place.channel];
        const u32 step = channel.step;
        const int row = place.row + own + (is_all ? 0 : ABOVE - rows / 2);
        u32 at = row_at(row % WARP) + place.byte - width / 2 * step;
        // Raised codes and zero levels are whole numbers: their difference is exact. Weights behind the last are zero.
        const float zero = WHOLE + channel.zero;
        float sum = 0.0f;
#pragma unroll 1
        for (int k = 0; k < width; k += 4) {
            float four[4];
            load_floats(four, shared_address(weights.across + k));
#pragma unroll
            for (int n = 0; n < 4; ++n, at += step) sum = fmaf(four[n], __uint_as_float(0x4b000000u | load_byte(at)) - zero, sum);
        }
        float result = 0.0f;
        // Of all rows: the first that this lane's result is made of.
        if (is_all) sum = __shfl_down_sync(~0u, sum, ABOVE - rows / 2);
#pragma unroll 1
        for (int k = 0; k < rows; k += 4) {
            float four[4];
            load_floats(four, shared_address(weights.down + k));
            result = fmaf(four[0], sum, result);
#pragma unroll
            for (int n = 1; n < 4; ++n) result = fmaf(four[n], __shfl_down_sync(~0u, sum, n), result);
            sum = __shfl_down_sync(~0u, sum, 4);
        }
        const int out_y = y + (is_all ? own : place.row), out_byte = tile.x0 + place.byte;
        const bool is_result = is_all ? own < STEP : own == 0 && is_place;
        if (is_result && out_y < tile.height && out_byte < tile.row_bytes && channel.action == CUDACONV_FILTER) {
            const u32 code = round_to_code(divided(launch, result) + channel.offset, launch.frame.max_code);
            write_sample<u8>(tile.first.output + static_cast<cudaconv_u64>(out_y) * tile.first.output_stride + out_byte, code);
        }
    }
}
