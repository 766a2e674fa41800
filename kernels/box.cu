// Means of rectangles of up to 65 x 65 samples, in a time that hardly depends on their size.
//
// Sums are whole numbers below 2^24, so the order of additions is free. The mean of an odd number n of samples is never
// halfway between two codes but at least 1 / 2n from there, which is more than the rounding errors of a product
// with the reciprocal, and of the canonical quotient with a zero level subtracted and added again: for codes of d bits
// each of the two is at most 2^(d - 24), so n is at most 2^(23 - d).
//
// Bytes: each sample is written once and read once from memory; at 4.3 TB/s 1 µs for 1080p GRAY8, 15 for 4K RGBA. From
// the cache it is read twice more: when it leaves the window, and by the strips below for their first sums.
// Operations of a thread for 32 samples: 48 instructions for sums down, 72 and 20 exchanges for prefix sums across,
// 24 accesses of 16 bytes to shared memory, 32 differences, 32 multiply-adds that divide and round, 24
// permutations that pack: 12 a sample with loads and addresses. Both issue and shared memory take 17 µs for 4K RGBA.
// Measured, it takes three to five times that: far from all bounds, as 20 warps do not hide all latency. Sums of 16 bits, which
// windows of up to 256 samples allow, take about a tenth less; half as many pixels a thread a tenth more; sums of a thread's
// windows from one to the next, with half the accesses to shared memory, as long. Samples of 16 bits have each sum in a word
// of its own: 12 warps that need not spill are faster than 16 or 20, and half as many pixels a thread as fast.
//
// A warp walks down a strip of 256 pixels. Each thread has the sums down of 8 of them: with every step a row
// enters the window and one leaves it, both read from memory, which is known one step ahead. Sums of two samples
// of 16 bits lie in a word. Four sums are what a pixel is from then on: of its channels, or of two rows of two
// channels, or of four rows of one. Prefix sums of the strip's pixels go to shared memory, and the sum of a window is
// the difference of two of them. Columns beyond the edges take sums down of those that the border names.
#include "box.cuh"

// --- Bytes ---------------------------------------------------------------------------------------

// Four sums of one pixel, two in a word.
struct Pair {
    u32 first, second;

    using Stored = uint2;
    Pair() = default;
    __device__ __forceinline__ Pair(u32 a, u32 b) : first(a), second(b) {}
    __device__ __forceinline__ explicit Pair(const Stored& two) : first(two.x), second(two.y) {}
    __device__ __forceinline__ Stored stored() const { return make_uint2(first, second); }
};

// Sums of such words as they are, modulo 2^32, and of their upper halves: so no word is taken apart before the end.
struct SumOfPairs {
    u32 first, first_upper, second, second_upper;

    static __device__ __forceinline__ SumOfPairs zero() { return {0, 0, 0, 0}; }
    __device__ __forceinline__ void add(const Pair& pair) {
        first += pair.first, first_upper += pair.first >> 16, second += pair.second, second_upper += pair.second >> 16;
    }
    __device__ __forceinline__ void add(const SumOfPairs& other) {
        first += other.first, first_upper += other.first_upper;
        second += other.second, second_upper += other.second_upper;
    }
    __device__ __forceinline__ SumOfPairs up(int lanes) const {
        return {__shfl_up_sync(~0u, first, lanes), __shfl_up_sync(~0u, first_upper, lanes),
                __shfl_up_sync(~0u, second, lanes), __shfl_up_sync(~0u, second_upper, lanes)};
    }
    __device__ __forceinline__ SumOfPairs less(const SumOfPairs& other) const {
        return {first - other.first, first_upper - other.first_upper, second - other.second,
                second_upper - other.second_upper};
    }
    __device__ __forceinline__ uint4 stored() const { return make_uint4(first, first_upper, second, second_upper); }
    // What is stored at `address` of shared memory.
    static __device__ __forceinline__ SumOfPairs at(u32 address) {
        const uint4 four = load_piece(address);
        return {four.x, four.y, four.z, four.w};
    }
    __device__ __forceinline__ void split(u32 (&sums)[4]) const {
        sums[0] = first - (first_upper << 16), sums[1] = first_upper;
        sums[2] = second - (second_upper << 16), sums[3] = second_upper;
    }
};

// A row's bytes as pairs of 16 bits: of one channel two words for four pixels, of two a word for each pixel, of
// three and four two words for each.
template <int CHANNELS>
struct Columns {
    static constexpr int COUNT = CHANNELS == 1 ? PIXELS / 2 : CHANNELS == 2 ? PIXELS : 2 * PIXELS;
    u32 pairs[COUNT];

    __device__ __forceinline__ explicit Columns(const u32* words) {
        if constexpr (CHANNELS == 3) {
#pragma unroll
            for (int p = 0; p < PIXELS; ++p) {
                const int word = 3 * p / 4, next = word + 1 < Layout<u8, 3>::WORDS ? word + 1 : word;
                const u32 pixel = __funnelshift_r(words[word], words[next], 8 * (3 * p % 4));
                pairs[2 * p] = __byte_perm(pixel, 0, 0x4140);
                pairs[2 * p + 1] = __byte_perm(pixel, 0, 0x4442);
            }
        } else {
#pragma unroll
            for (int w = 0; w < Layout<u8, CHANNELS>::WORDS; ++w) {
                pairs[2 * w] = __byte_perm(words[w], 0, CHANNELS == 1 ? 0x4240 : 0x4140);
                pairs[2 * w + 1] = __byte_perm(words[w], 0, CHANNELS == 1 ? 0x4341 : 0x4342);
            }
        }
    }
};

DEVICE u32 packed(u32 a, u32 b, u32 c, u32 d) {
    return __byte_perm(__byte_perm(a, b, 0x0040), __byte_perm(c, d, 0x0040), 0x5410);
}

// Sums of bytes.
struct OfBytes {
    using Sample = u8;
    using Pixel = Pair;
    using Sum = SumOfPairs;
    // Words of a thread's codes.
    static constexpr int CODES = PIXELS;

    // Does a step of the walk, whose rows are in `words`. Gives the sums down of ROWS rows by pixel, if it is not one
    // of the first, in which all rows enter the window.
    template <int CHANNELS>
    static __device__ __forceinline__ void take_step(Pixel (&pixels)[PIXELS], u32 (&columns)[2 * PIXELS],
                                                     const Words<Sample>& words, const Strip& strip, int step) {
        using L = Layout<Sample, CHANNELS>;
        using C = Columns<CHANNELS>;
        const u32 sign = step < strip.before ? 1 : -1;
        u32 rows[4][C::COUNT];
#pragma unroll
        for (int r = 0; r < L::ROWS; ++r) {
            const C entering(words + r * L::WORDS), others(words + (L::ROWS + r) * L::WORDS);
#pragma unroll
            for (int i = 0; i < C::COUNT; ++i) {
                columns[i] += entering.pairs[i] + sign * others.pairs[i];
                rows[r][i] = columns[i];
            }
        }
#pragma unroll
        for (int p = 0; p < PIXELS; ++p) {
            if constexpr (CHANNELS == 1) {
                const int at = p / 4 * 2 + p % 2;
                const u32 select = p % 4 < 2 ? 0x5410 : 0x7632;
                pixels[p] = {__byte_perm(rows[0][at], rows[1][at], select),
                             __byte_perm(rows[2][at], rows[3][at], select)};
            } else if constexpr (CHANNELS == 2) {
                pixels[p] = {rows[0][p], rows[1][p]};
            } else {
                pixels[p] = {rows[0][2 * p], rows[0][2 * p + 1]};
            }
        }
    }

    // The sums down of the border's constant.
    static __device__ __forceinline__ Pixel constant(const Strip& strip) {
        const u32 rows = 2 * strip.radius_y + 1, others = strip.job.channel_count == 3 ? 0x4442 : 0x4342;
        return {__byte_perm(strip.beyond, 0, 0x4140) * rows, __byte_perm(strip.beyond, 0, others) * rows};
    }

    // The four codes of each of a thread's pixels.
    static __device__ __forceinline__ void take_codes(u32 (&codes)[CODES], const Places& places, float scale,
                                                      const CudaconvFrame&) {
#pragma unroll
        for (int p = 0; p < PIXELS; ++p) {
            const Sum last = Sum::at(places.upper[p]), first = Sum::at(places.lower[p]);
            u32 sums[4], own[4];
            last.less(first).split(sums);
#pragma unroll
            for (int i = 0; i < 4; ++i) own[i] = code_of_sum(sums[i], scale);
            codes[p] = packed(own[0], own[1], own[2], own[3]);
        }
    }

    // Words of rows from the codes of pixels.
    template <int CHANNELS>
    static __device__ __forceinline__ void arrange(u32 (&words)[CODES], const u32 (&codes)[CODES],
                                                       const CudaconvFrame&) {
#pragma unroll
        for (int p = 0; p < PIXELS; p += 4) {
            const u32 a = codes[p], b = codes[p + 1], c = codes[p + 2], d = codes[p + 3];
            if constexpr (CHANNELS == 1) {
                const u32 ab = __byte_perm(a, b, 0x5140), cd = __byte_perm(c, d, 0x5140);
                const u32 ab2 = __byte_perm(a, b, 0x7362), cd2 = __byte_perm(c, d, 0x7362);
                u32* to = words + p / 4;
                to[0] = __byte_perm(ab, cd, 0x5410), to[PIXELS / 4] = __byte_perm(ab, cd, 0x7632);
                to[PIXELS / 2] = __byte_perm(ab2, cd2, 0x5410), to[PIXELS / 4 * 3] = __byte_perm(ab2, cd2, 0x7632);
            } else if constexpr (CHANNELS == 2) {
                u32* to = words + p / 2;
                to[0] = __byte_perm(a, b, 0x5410), to[1] = __byte_perm(c, d, 0x5410);
                to[PIXELS / 2] = __byte_perm(a, b, 0x7632), to[PIXELS / 2 + 1] = __byte_perm(c, d, 0x7632);
            } else if constexpr (CHANNELS == 3) {
                u32* to = words + p / 4 * 3;
                to[0] = __byte_perm(a, b, 0x4210), to[1] = __byte_perm(b, c, 0x5421), to[2] = __byte_perm(c, d, 0x6542);
            } else {
                words[p] = a, words[p + 1] = b, words[p + 2] = c, words[p + 3] = d;
            }
        }
    }
};

// --- Words ---------------------------------------------------------------------------------------

// Four sums of one pixel, and of many.
struct Four {
    u32 of[4];

    using Stored = uint4;
    Four() = default;
    __device__ __forceinline__ explicit Four(const Stored& four) : of{four.x, four.y, four.z, four.w} {}
    __device__ __forceinline__ Stored stored() const { return make_uint4(of[0], of[1], of[2], of[3]); }
    static __device__ __forceinline__ Four zero() { return Four(make_uint4(0, 0, 0, 0)); }
    __device__ __forceinline__ void add(const Four& other) {
#pragma unroll
        for (int i = 0; i < 4; ++i) of[i] += other.of[i];
    }
    __device__ __forceinline__ Four up(int lanes) const {
        Four four;
#pragma unroll
        for (int i = 0; i < 4; ++i) four.of[i] = __shfl_up_sync(~0u, of[i], lanes);
        return four;
    }
    __device__ __forceinline__ Four less(const Four& other) const {
        Four four;
#pragma unroll
        for (int i = 0; i < 4; ++i) four.of[i] = of[i] - other.of[i];
        return four;
    }
    // What is stored at `address` of shared memory.
    static __device__ __forceinline__ Four at(u32 address) { return Four(load_piece(address)); }
};

// Two words of samples, their bytes exchanged where the format has them so.
DEVICE u32 swapped(u32 word) { return __byte_perm(word, 0, 0x2301); }

// Sums of words, of samples as they are stored: code values times 2^shift.
struct OfWords {
    using Sample = u16;
    using Pixel = Four;
    using Sum = Four;
    static constexpr int CODES = 2 * PIXELS;

    // As that of bytes.
    template <int CHANNELS>
    static __device__ __forceinline__ void take_step(Pixel (&pixels)[PIXELS], u32 (&columns)[2 * PIXELS],
                                                     Words<Sample>& words, const Strip& strip, int step) {
        using L = Layout<Sample, CHANNELS>;
        const u32 sign = step < strip.before ? 1 : -1, shift = strip.frame.shift;
        if (strip.frame.sample == CUDACONV_U16_BE) {
#pragma unroll
            for (int i = 0; i < L::READ * L::WORDS; ++i) words[i] = swapped(words[i]);
        } else {
            // What is no part of code values.
            const u32 mask = (static_cast<u32>(strip.frame.max_code) << shift) * 0x10001u;
#pragma unroll
            for (int i = 0; i < L::READ * L::WORDS; ++i) words[i] &= mask;
        }
#pragma unroll
        for (int r = 0; r < L::ROWS; ++r)
#pragma unroll
            for (int w = 0; w < L::WORDS; ++w) {
                const u32 entering = words[r * L::WORDS + w], other = words[(L::ROWS + r) * L::WORDS + w];
                u32 &first = columns[2 * w], &second = columns[2 * w + 1];
                first += (entering & 0xffff) + sign * (other & 0xffff);
                second += (entering >> 16) + sign * (other >> 16);
                if constexpr (CHANNELS == 1)
                    pixels[2 * w].of[r] = first, pixels[2 * w + 1].of[r] = second;
                else
                    pixels[w].of[2 * r] = first, pixels[w].of[2 * r + 1] = second;
            }
    }

    static __device__ __forceinline__ Pixel constant(const Strip& strip) {
        const u32 rows = 2 * strip.radius_y + 1;
        const u32 word = strip.frame.sample == CUDACONV_U16_BE ? swapped(strip.beyond) : strip.beyond;
        const u32 first = (word & 0xffff) * rows, second = (word >> 16) * rows;
        return Pixel(make_uint4(first, second, first, second));
    }

    // The codes of each of a thread's pixels, in pairs.
    static __device__ __forceinline__ void take_codes(u32 (&codes)[CODES], const Places& places, float scale,
                                                      const CudaconvFrame& frame) {
#pragma unroll
        for (int p = 0; p < PIXELS; ++p) {
            const Sum sums = Sum::at(places.upper[p]).less(Sum::at(places.lower[p]));
            u32 own[4];
#pragma unroll
            for (int i = 0; i < 4; ++i) own[i] = code_of_sum(sums.of[i] >> frame.shift, scale);
            codes[2 * p] = __byte_perm(own[0], own[1], 0x5410), codes[2 * p + 1] = __byte_perm(own[2], own[3], 0x5410);
        }
    }

    // Words of rows from the codes of pixels.
    template <int CHANNELS>
    static __device__ __forceinline__ void arrange(u32 (&words)[CODES], const u32 (&codes)[CODES],
                                                   const CudaconvFrame& frame) {
#pragma unroll
        for (int p = 0; p < PIXELS; ++p) {
            if constexpr (CHANNELS == 1) {
                // Of neighbours a and b and all four rows.
                const u32 *a = codes + p / 2 * 4, *b = a + 2;
                const u32 select = p % 2 == 0 ? 0x5410 : 0x7632;
                words[p % 2 * PIXELS / 2 + p / 2] = __byte_perm(a[0], b[0], select);
                words[PIXELS + p % 2 * PIXELS / 2 + p / 2] = __byte_perm(a[1], b[1], select);
            } else {
                words[p] = codes[2 * p], words[PIXELS + p] = codes[2 * p + 1];
            }
        }
        const bool swap = frame.sample == CUDACONV_U16_BE;
#pragma unroll
        for (u32& word : words) word = swap ? swapped(word) : word << frame.shift;
    }
};

// --- Kernels -------------------------------------------------------------------------------------

// Blocks of a multiprocessor leave 96 registers,
#ifdef BOX_U8
KERNEL(box_u8, CudaconvConvolveLaunch, (THREADS, 5), box<OfBytes>(launch))
#endif

// or 168.
#ifdef BOX_U16
KERNEL(box_u16, CudaconvConvolveLaunch, (THREADS, 3), box<OfWords>(launch))
#endif
