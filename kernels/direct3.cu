// Correlation of 8-bit samples with kernels of up to 3 x 3 small whole numbers, and the magnitude of two,
// two samples an instruction.
//
// Bytes are the smallest float16 there are, multiples of 2^-24. Their products with whole weights and sums of these are
// whole numbers of such units, which float16 holds exactly up to 2048; then the order of additions is free and the sums
// are those of the canonical evaluation. Sums start from -128 times the sum of all weights, so that each weight adds
// 128 times its magnitude at most, whether its product is there yet or not: weights whose magnitudes sum to 16 keep to
// 2048. Weights come times 2^11, so that sums are normal float16, in units of 2^-13, and so is what they are multiplied by for
// a result, 2^13 / divisor; what is between 128 and a channel's zero level is made up for there.
//
// Bytes: each sample read once and written once. A plain copy by such threads takes three quarters of the time for 1080p, and
// two thirds when it is the same frame again and again; half of that is the launch alone for GRAY8.
// Operations for 4 bytes of 2 rows: 4 rows to be unpacked (5 instructions with one channel, 3 with four, whose neighbours
// are whole words), 36 multiply-adds, 3 a row to round and pack: 8 a sample, and half as much again for addresses and
// loads.
//
// Outer products of lines like 1 2 1 need fewer: first 8 for what is down, then 12 across: 5 a sample with unpacking,
// rounding and packing, and 4 % less time.
//
// So does the magnitude of a gradient: differences across and sums across of three rows are shared by the rows
// of outputs. For 4 bytes of 2 rows, 40 instructions to unpack those beside them, 16 sums and differences across, 28
// down; and 10 a sample for the root, rounding and packing: 20 a sample. Sums beyond 2048 are rounded, which does not
// matter, as results beyond 255 are 255. Squares of the others are whole numbers whose roots are at least 1 / 4096 from
// what is halfway between two codes: the device's approximate root, off by 2^-23 of itself, is rounded as the exact one.
// That takes half the time of exact roots and quotients of sums of 18 products.
//
// No shared memory, no barrier: a thread reads 16 bytes of each of ROWS + 2 rows and the words beside
// them, all at once, and writes 16 bytes of ROWS rows. A block of four warps, one below the other,
// computes 512 bytes of 4 * ROWS rows; neighbours' rows come from the cache.
#include "direct3.cuh"
#include "half2.cuh"

// --- Sums ----------------------------------------------------------------------------------------

// Of a row, in pairs: sums of the even and of the odd bytes of words.
using Sums = u32[2][WORDS];

DEVICE u32 even_bytes(u32 word) { return __byte_perm(word, 0, 0x4240); }
DEVICE u32 odd_bytes(u32 word) { return __byte_perm(word, 0, 0x4341); }

// The second of a pair and the first of the next.
DEVICE u32 across(u32 pair, u32 next) { return __byte_perm(pair, next, 0x5432); }

// The even or odd bytes of word `k` of a row and of the pixels to the left and right of them.
struct Taps {
    u32 left, own, right;
};

template <int CHANNELS>
DEVICE Taps taps_of_even(const u32 (&even)[WINDOW], const u32 (&odd)[WINDOW], int k) {
    if (CHANNELS == 1) return {across(odd[k - 1], odd[k]), even[k], odd[k]};
    if (CHANNELS == 2) return {across(even[k - 1], even[k]), even[k], across(even[k], even[k + 1])};
    if (CHANNELS == 3) return {odd[k - 1], even[k], across(odd[k], odd[k + 1])};
    return {even[k - 1], even[k], even[k + 1]};
}

template <int CHANNELS>
DEVICE Taps taps_of_odd(const u32 (&even)[WINDOW], const u32 (&odd)[WINDOW], int k) {
    if (CHANNELS == 1) return {even[k], odd[k], across(even[k], even[k + 1])};
    if (CHANNELS == 2) return {across(odd[k - 1], odd[k]), odd[k], across(odd[k], odd[k + 1])};
    if (CHANNELS == 3) return {across(even[k - 1], even[k]), odd[k], even[k + 1]};
    return {odd[k - 1], odd[k], odd[k + 1]};
}

// Adds row `row` of a kernel to the sums.
DEVICE u32 add_row(const u32 (&weights)[9], int row, const Taps& taps, u32 sum) {
    sum = fma_pairs(weights[row * 3], taps.left, sum);
    sum = fma_pairs(weights[row * 3 + 1], taps.own, sum);
    return fma_pairs(weights[row * 3 + 2], taps.right, sum);
}

// The even and the odd bytes of a row's words.
struct Bytes {
    u32 even[WINDOW], odd[WINDOW];

    __device__ __forceinline__ void take(const u32 (&words)[WINDOW]) {
#pragma unroll
        for (int k = 0; k < WINDOW; ++k) {
            even[k] = even_bytes(words[k]);
            odd[k] = odd_bytes(words[k]);
        }
    }
};

// All products, one after the other.
template <int CHANNELS>
struct Products {
    static __device__ __forceinline__ void add_up(Sums (&sums)[ROWS], const Launch& launch, const Window& window) {
#pragma unroll
        for (int r = 0; r < ROWS_READ; ++r) {
            Bytes row;
            row.take(window[r]);
#pragma unroll
            for (int k = 0; k < WORDS; ++k) {
                const Taps of_even = taps_of_even<CHANNELS>(row.even, row.odd, k + 1);
                const Taps of_odd = taps_of_odd<CHANNELS>(row.even, row.odd, k + 1);
#pragma unroll
                for (int h = 0; h < ROWS; ++h) {
                    if (r - h < 0 || r - h > 2) continue;
                    u32 &even = sums[h][0][k], &odd = sums[h][1][k];
                    if (r == h) even = odd = launch.start;
                    even = add_row(launch.weights[0], r - h, of_even, even);
                    odd = add_row(launch.weights[0], r - h, of_odd, odd);
                }
            }
        }
    }
};

// Weights that are the outer product of 1 a 1 across and 1 b 1 down. First down, where no sum is beyond 2048, as b is 6 at
// most.
template <int CHANNELS>
struct Smoothing {
    static __device__ __forceinline__ void add_up(Sums (&sums)[ROWS], const Launch& launch, const Window& window) {
        const u32 of_row = launch.weights[0][1], of_column = multiply_pairs(launch.weights[0][3], 0x10001000);  // 2^-11
        Bytes rows[ROWS_READ];
#pragma unroll
        for (int r = 0; r < ROWS_READ; ++r) {
            rows[r].take(window[r]);
            if (r < 2) continue;
            const Bytes &above = rows[r - 2], &own = rows[r - 1], &below = rows[r];
            Bytes smooth;
#pragma unroll
            for (int k = 0; k < WINDOW; ++k) {
                smooth.even[k] = fma_pairs(of_column, own.even[k], add_pairs(above.even[k], below.even[k]));
                smooth.odd[k] = fma_pairs(of_column, own.odd[k], add_pairs(above.odd[k], below.odd[k]));
            }
#pragma unroll
            for (int k = 0; k < WORDS; ++k) {
                sums[r - 2][0][k] = add(taps_of_even<CHANNELS>(smooth.even, smooth.odd, k + 1), of_row, launch.start);
                sums[r - 2][1][k] = add(taps_of_odd<CHANNELS>(smooth.even, smooth.odd, k + 1), of_row, launch.start);
            }
        }
    }

private:
    static __device__ __forceinline__ u32 add(const Taps& taps, u32 inner, u32 sum) {
        constexpr u32 ONE = 0x68006800;  // 2^11, as weights come
        sum = fma_pairs(inner, taps.own, sum);
        sum = fma_pairs(ONE, taps.left, sum);
        return fma_pairs(ONE, taps.right, sum);
    }
};

template <template <int> class Method>
DEVICE void add_up(Sums (&sums)[ROWS], const Launch& launch, u32 channels, const Window& window) {
    switch (channels) {
        case 1: Method<1>::add_up(sums, launch, window); break;
        case 2: Method<2>::add_up(sums, launch, window); break;
        case 3: Method<3>::add_up(sums, launch, window); break;
        default: Method<4>::add_up(sums, launch, window);
    }
}

// --- Gradients -----------------------------------------------------------------------------------

DEVICE u32 subtract_pairs(u32 a, u32 b) { return fma_pairs(b, 0xbc00bc00, a); }

// Of a row, in pairs of the even and the odd bytes of its words, as multiples of the least float16:
// differences and sums of what is right and left of a byte, and the bytes themselves.
struct Row {
    u32 across[2][WORDS], sides[2][WORDS], own[2][WORDS];
};

// By the bytes of the pixels to the left and right, which `channels` say.
DEVICE void take_row(Row& row, const u32 (&words)[WINDOW], int channels) {
    const u32 to_left = 0x7654 - 0x1111 * channels, to_right = 0x3210 + 0x1111 * channels;
#pragma unroll
    for (int k = 0; k < WORDS; ++k) {
        const u32 left = __byte_perm(words[k], words[k + 1], to_left), own = words[k + 1];
        const u32 right = __byte_perm(words[k + 1], words[k + 2], to_right);
        row.across[0][k] = subtract_pairs(even_bytes(right), even_bytes(left));
        row.across[1][k] = subtract_pairs(odd_bytes(right), odd_bytes(left));
        row.sides[0][k] = add_pairs(even_bytes(right), even_bytes(left));
        row.sides[1][k] = add_pairs(odd_bytes(right), odd_bytes(left));
        row.own[0][k] = even_bytes(own);
        row.own[1][k] = odd_bytes(own);
    }
}

// Of a row: what is across, smoothed down, and what is down, smoothed across.
struct Gradient {
    Sums across, down;
};

DEVICE void gradients(Gradient (&sums)[ROWS], const Launch& launch, const Window& window, int channels) {
    const u32 outer = launch.weights[0][2], inner = launch.weights[0][5];
    Row rows[ROWS_READ];
#pragma unroll
    for (int r = 0; r < ROWS_READ; ++r) {
        take_row(rows[r], window[r], channels);
        if (r < 2) continue;
        const int h = r - 2;
        const Row &above = rows[h], &middle = rows[h + 1], &below = rows[r];
        // In this order of loops registers suffice.
#pragma unroll
        for (int k = 0; k < WORDS; ++k)
#pragma unroll
            for (int half = 0; half < 2; ++half) {
                const u32 ends = add_pairs(above.across[half][k], below.across[half][k]);
                const u32 sides = subtract_pairs(below.sides[half][k], above.sides[half][k]);
                const u32 own = subtract_pairs(below.own[half][k], above.own[half][k]);
                sums[h].across[half][k] = fma_pairs(inner, middle.across[half][k], multiply_pairs(outer, ends));
                sums[h].down[half][k] = fma_pairs(inner, own, multiply_pairs(outer, sides));
            }
    }
}

// --- Codes ---------------------------------------------------------------------------------------

// 1024 + code in 1024..1279. 255 times 1 / 255 is within 2^-11 of 1, so that the way to 0..1 and back rounds to the
// same whole number.
DEVICE u32 clamped_pairs(u32 whole) {
    const u32 unit = fma_pairs_saturated(whole, 0x1c041c04, 0xc404c404);  // whole / 255 - 1024 / 255
    return fma_pairs(unit, 0x5bf85bf8, 0x64006400);                       // * 255 + 1024
}

// Sums times a power of two and plus whole numbers: by the step of float16 beyond 1024, which is 1,
// rounded halves to even, as 1024 + code.
template <template <int> class Method>
struct Rounded {
    using Results = Sums[ROWS];
    static constexpr int ROWS_AT_ONCE = ROWS;
    const Launch& launch;
    const Plane& plane;

    __device__ __forceinline__ Rounded(const Launch& launch, const Plane& plane) : launch(launch), plane(plane) {}

    static __device__ __forceinline__ void compute(Results& sums, const Launch& launch, u32 channels, const Window& window) {
        add_up<Method>(sums, launch, channels, window);
    }

    __device__ __forceinline__ void take_codes(u32 (&codes)[WORDS], const Sums& sums) const {
        Sums whole;
#pragma unroll
        for (int half = 0; half < 2; ++half)
#pragma unroll
            for (int k = 0; k < WORDS; ++k) whole[half][k] = fma_pairs(sums[half][k], launch.scale, plane.bias[half]);
        if (plane.clamped) {
#pragma unroll
            for (int half = 0; half < 2; ++half)
#pragma unroll
                for (int k = 0; k < WORDS; ++k) whole[half][k] = clamped_pairs(whole[half][k]);
        }
#pragma unroll
        for (int k = 0; k < WORDS; ++k) codes[k] = __byte_perm(whole[0][k], whole[1][k], 0x6240);
    }
};

// The byte of a word in a pair of the even and one of the odd bytes, as float32.
DEVICE float value_of_byte(const Sums& sums, int k, int byte) {
    const u32 pair = sums[byte % 2][k];
    return byte < 2 ? first_of(pair) : second_of(pair);
}

// A word of the lowest bytes of four.
DEVICE u32 packed(const u32 (&codes)[WORD]) {
    return __byte_perm(__byte_perm(codes[0], codes[1], 0x0040), __byte_perm(codes[2], codes[3], 0x0040), 0x5410);
}

// As float32, by any divisor.
struct Divided {
    using Results = Sums[ROWS];
    // The code for one is there once.
    static constexpr int ROWS_AT_ONCE = 1;
    static constexpr float UNITS = 8192.0f;
    const Launch& launch;
    const Plane& plane;

    __device__ __forceinline__ Divided(const Launch& launch, const Plane& plane) : launch(launch), plane(plane) {}

    static __device__ __forceinline__ void compute(Results& sums, const Launch& launch, u32 channels, const Window& window) {
        add_up<Products>(sums, launch, channels, window);
    }

    __device__ __forceinline__ void take_codes(u32 (&codes)[WORDS], const Sums& sums) const {
#pragma unroll
        for (int k = 0; k < WORDS; ++k) {
            u32 of_word[WORD];
#pragma unroll
            for (int byte = 0; byte < WORD; ++byte) {
                const float from_zero = (128.0f - plane.zero[byte]) * launch.sums[0];
                const float sum = fmaf(value_of_byte(sums, k, byte), UNITS, from_zero);
                const float result = divided(launch.divisor, launch.reciprocal, sum) + plane.offset[byte];
                of_word[byte] = round_to_code(result, 255.0f);
            }
            codes[k] = packed(of_word);
        }
    }
};

// Off by up to 2^-23 of itself. Denormals would be zero, and there are none.
DEVICE float approximate_root(float value) {
    float root;
    asm("sqrt.approx.ftz.f32 %0, %1;" : "=f"(root) : "f"(value));
    return root;
}

// Of gradients that are not divided, in units of the least float16; a whole number is added.
struct Magnitude {
    using Results = Gradient[ROWS];
    static constexpr int ROWS_AT_ONCE = ROWS;
    static constexpr float UNITS = 16777216.0f;
    float offset[WORD];  // by byte, divided by 255

    __device__ __forceinline__ Magnitude(const Launch&, const Plane& plane) {
#pragma unroll
        for (int byte = 0; byte < WORD; ++byte) offset[byte] = plane.offset[byte] * (1.0f / 255.0f);
    }

    static __device__ __forceinline__ void compute(Results& sums, const Launch& launch, u32 channels, const Window& window) {
        gradients(sums, launch, window, channels);
    }

    __device__ __forceinline__ void take_codes(u32 (&codes)[WORDS], const Gradient& sums) const {
#pragma unroll
        for (int k = 0; k < WORDS; ++k) {
            u32 of_word[WORD];
#pragma unroll
            for (int byte = 0; byte < WORD; ++byte) {
                const float x = value_of_byte(sums.across, k, byte), y = value_of_byte(sums.down, k, byte);
                const float root = approximate_root(fmaf(y, y, __fmul_rn(x, x)));
                const float unit = __saturatef(fmaf(root, UNITS / 255.0f, offset[byte]));
                of_word[byte] = __float_as_uint(fmaf(unit, 255.0f, WHOLE));
            }
            codes[k] = packed(of_word);
        }
    }
};

// --- A part --------------------------------------------------------------------------------------

// The next row moves up.
template <typename Row>
DEVICE void move_up(Row (&rows)[ROWS]) {
#pragma unroll
    for (int h = 0; h + 1 < ROWS; ++h) memcpy(&rows[h], &rows[h + 1], sizeof(Row));
}

template <typename Filter>
DEVICE void direct3(const Launch& launch) {
    u32 index = 0;
    if (launch.plane_count > 1)
        while (index + 1 < launch.plane_count && blockIdx.y >= launch.planes[index + 1].first_tile_row) ++index;
    const Plane& plane = launch.planes[index];
    const int byte = (blockIdx.x * WARP + lane()) * BYTES;
    const int y = ((blockIdx.y - plane.first_tile_row) * (THREADS / WARP) + threadIdx.x / WARP) * ROWS;
    if (byte >= static_cast<int>(plane.row_bytes) || y >= static_cast<int>(plane.height)) return;
    const Part part(plane, byte, y);
    Window window;
    read_window(window, part);
    complete_window(window, part);
    typename Filter::Results results;
    Filter::compute(results, launch, plane.channels, window);
    const Filter filter(launch, plane);
    const bool all = plane.filtered == ~0u;
#pragma unroll Filter::ROWS_AT_ONCE
    for (int h = 0; h < ROWS && y + h < static_cast<int>(plane.height); ++h) {
        u32 words[WORDS];
        filter.take_codes(words, results[0]);
        if (!all) {
#pragma unroll
            for (int k = 0; k < WORDS; ++k)
                words[k] = (words[k] & plane.filtered) | plane.filled | (window[1][k + 1] & plane.copied);
        }
        write_row(part, h, words);
        move_up(results);
        memcpy(window[1], window[2], sizeof(window[1]));
    }
}

#ifdef DIRECT3_U8
KERNEL(direct3_u8, CudaconvDirect3Launch, (THREADS, BLOCKS), direct3<Rounded<Products>>(launch))
#endif
#ifdef DIRECT3_SMOOTH_U8
KERNEL(direct3_smooth_u8, CudaconvDirect3Launch, (THREADS, BLOCKS), direct3<Rounded<Smoothing>>(launch))
#endif
#ifdef DIRECT3_DIVIDED_U8
KERNEL(direct3_divided_u8, CudaconvDirect3Launch, (THREADS, BLOCKS), direct3<Divided>(launch))
#endif
#ifdef DIRECT3_MAGNITUDE_U8
KERNEL(direct3_magnitude_u8, CudaconvDirect3Launch, (THREADS, BLOCKS), direct3<Magnitude>(launch))
#endif
