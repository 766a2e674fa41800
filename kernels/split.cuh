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

DEVICE float load_float(u32 from) {
    float value;
    asm volatile("ld.shared.f32 %0, [%1];" : "=f"(value) : "r"(from) : "memory");
    return value;
}

DEVICE u32 load_byte(u32 from) {
    u32 byte;
    asm volatile("ld.shared.u8 %0, [%1];" : "=r"(byte) : "r"(from) : "memory");
    return byte;
}

DEVICE void load_two(float& first, float& second, u32 from) {
    asm volatile("ld.shared.v2.f32 {%0, %1}, [%2];" : "=f"(first), "=f"(second) : "r"(from) : "memory");
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

// One takes a warp some 1000 cycles, whatever its threads do, and others wait for it at the next barrier. So threads note what they are
// in doubt about, and after some steps all warps of the block decide that together, two results a warp at a time.

// Taps of a line, and with zeros to whole fours.
constexpr int TAPS = 17, MOST_TAPS = 20;
// Steps after which it is decided, and the most notes of that time.
constexpr int PERIOD = 4;
constexpr u32 MOST_NOTES = 40;

// WORDS: of fractions of a thread's results, two in each.
template <int WORDS>
struct Doubts {
    // The weights, and behind them zeros.
    alignas(16) float across[MOST_TAPS];
    float down[MOST_TAPS];
    // By channel: 2^23 and the zero level, and the offset.
    float2 levels[CUDACONV_CHANNELS];
    // Of two periods in turn: how many notes there are, which may be more than there is room for. A note is a step << 8, the thread, and
    // its fractions.
    u32 counts[2];
    u32 notes[2][MOST_NOTES];
    alignas(16) u32 fractions[2][MOST_NOTES][WORDS];

    // `from`: the weights as CudaconvTaps has them.
    __device__ __forceinline__ void begin(const CudaconvConvolveLaunch& launch, const CudaconvJob& job, const float* from) {
        const int width = launch.kernels[0].width, height = launch.kernels[0].height, i = threadIdx.x;
        if (i < MOST_TAPS) {
            across[i] = i < width ? __ldg(from + i) : 0.0f;
            down[i] = i < height ? __ldg(from + line_of(width) + i) : 0.0f;
        }
        if (i < CUDACONV_CHANNELS) levels[i] = make_float2(WHOLE + job.channels[i].zero, job.channels[i].offset);
        if (i < 2) counts[i] = 0;
    }

    static __device__ __forceinline__ u32 is_odd(int step) { return static_cast<u32>(step) / PERIOD & 1; }

    // Notes that a thread is in doubt about one or more of its results in `step`.
    __device__ __forceinline__ void note(int step, const u32 (&own)[WORDS]) {
        const u32 odd = is_odd(step), at = atomicAdd(counts + odd, 1);
        if (at >= MOST_NOTES) return;
        notes[odd][at] = step << 8 | threadIdx.x;
        const u32 to = shared_address(fractions[odd][at]);
#pragma unroll
        for (int k = 0; k < WORDS; k += 4) store_piece(to + k * WORD, make_uint4(own[k], own[k + 1], own[k + 2], own[k + 3]));
    }

    // Makes room for notes of the next period, when those of the last one have been decided for at least a step.
    __device__ __forceinline__ void clear_other(int step) {
        if (threadIdx.x == 0) counts[is_odd(step) ^ 1] = 0;
    }

    // The canonical result of the window whose rows the lanes from `origin` on have, from `at` on: that of a sample of channel `channel`,
    // before it is rounded. All lanes take part.
    __device__ __forceinline__ float canonical(const CudaconvConvolveLaunch& launch, u32 at, u32 channel, int origin) const {
        constexpr int PART = 4;
        float weights[4], zero, offset, sum = 0.0f, result = 0.0f;
        load_two(zero, offset, shared_address(levels + channel));
        // Raised codes and zero levels are whole numbers: their difference is exact. Weights behind the last are zero.
#pragma unroll
        for (int part = 0; part < TAPS; part += PART) {
            u32 codes[PART];
#pragma unroll
            for (int k = 0; k < PART; ++k) codes[k] = part + k < TAPS ? load_byte(at + (part + k) * WORD) : 0;
#pragma unroll
            for (int k = 0; k < PART; ++k) {
                if (k % 4 == 0) load_floats(weights, shared_address(across + part + k));
                if (part + k < TAPS) sum = fmaf(weights[k % 4], __uint_as_float(0x4b000000u | codes[k]) - zero, sum);
            }
        }
#pragma unroll
        for (int k = 0; k < TAPS; ++k) {
            if (k % 4 == 0) load_floats(weights, shared_address(down + k));
            result = fmaf(weights[k % 4], __shfl_sync(~0u, sum, origin + k), result);
        }
        return divided(launch, result) + offset;
    }

    // Decides what is noted of the steps from `begin` to `end`, or, where there was no room for it, all results of these, and
    // writes them over those that were written. Rows of the tile are in the ring at `bytes`; 16 or 32 lanes take those of a window, or all
    // 32 those of all windows of a column in a step. `place_of(thread, i)` is row << 8 | byte of a thread's fraction i.
    template <typename Own, typename PlaceOf>
    __device__ __forceinline__ void decide(const CudaconvConvolveLaunch& launch, const Tile<Own>& tile, int begin, int end, u32 window,
                                           u32 bytes, PlaceOf place_of) {
        const u32 odd = is_odd(end - 1), count = counts[odd];
        if (count == 0) return;
        const bool is_all = count > MOST_NOTES;
        const int rows = launch.kernels[0].height, above = Own::ABOVE - rows / 2, warp = threadIdx.x / WARP;
        const int span = is_all || rows > 16 ? WARP : 16, in_span = lane() & (span - 1), of_span = lane() - in_span;
        const int all = is_all ? (end - begin) * Own::BYTES : count, apart = is_all ? 1 : WARPS * WARP / span;
        bytes += Own::BESIDE * PIECE - tile.reach_x;
#pragma unroll 1
        for (int first = is_all ? 0 : warp * WARP / span; first < all; first += apart) {
            int step = begin + first / Own::BYTES;
            u32 place = warp * Own::BYTES + first % Own::BYTES, thread = 0;
            // Of the first and the second fractions in words, those in doubt.
            u32 low = 1, high = 0;
            if (!is_all) {
                const int index = min(first + lane() / span, all - 1);
                const u32 note = notes[odd][index], two = in_span < WORDS ? fractions[odd][index][in_span] : ~0u;
                const u32 words = first + lane() / span < all ? (1u << WORDS) - 1 : 0;
                step = note >> 8, thread = note & 255;
                low = __ballot_sync(~0u, (two & 0xffff) < window) >> of_span & words;
                high = __ballot_sync(~0u, two >> 16 < window) >> of_span & words;
            }
#pragma unroll 1
            do {
                const bool is_one = (low | high) != 0;
                if (!is_all) place = place_of(thread, low != 0 ? 2 * __ffs(low) - 2 : high != 0 ? 2 * __ffs(high) - 1 : 0);
                if (low != 0) low &= low - 1;
                else high &= high - 1;
                const int row = (step - 1) * STEP + static_cast<int>(place >> 8), byte = place & 255;
                const int in_ring = row + (is_all ? lane() : above + min(in_span, rows - 1));
                const u32 at = bytes + in_ring / STEP % (Own::RING / Own::SLOT) * Own::SLOT + in_ring % STEP * Own::PITCH + byte;
                const float result = canonical(launch, at, byte % WORD, is_all ? lane() + above : of_span);
                const int y = tile.y0 + row + (is_all ? lane() : 0);
                if ((is_all ? lane() < STEP : in_span == 0 && is_one) && y < tile.height && tile.x0 + byte < tile.row_bytes &&
                    tile.job.channels[byte % WORD].action == CUDACONV_FILTER) {
                    const cudaconv_u64 to = tile.first.output + static_cast<cudaconv_u64>(y) * tile.first.output_stride;
                    write_sample<u8>(to + tile.x0 + byte, round_to_code(result, launch.frame.max_code));
                }
            } while (__any_sync(~0u, (low | high) != 0));
        }
    }
};
