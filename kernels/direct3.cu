// Correlation of 8-bit samples with kernels of up to 3 x 3 small whole numbers, and the magnitude of two,
// two samples an instruction.
//
// Samples less 128 are whole numbers of at most 128, weights whole numbers whose magnitudes sum to 16
// at most: every sum and every part of it is a whole number of at most 2048, which float16 holds
// exactly, so the order of additions is free and the sums are those of the canonical evaluation. What
// is between 128 and a channel's zero level is made up for afterwards.
//
// Bytes: each sample read once and written once; at 4.3 TB/s 1 µs for 1080p GRAY8, 4 µs for RGBA.
// Operations for 4 bytes of 2 rows: 4 rows to be unpacked (4 * 6 instructions with one channel, 4 * 4
// with four, whose neighbours are whole words), 36 multiply-adds, 7 a row for rounding and packing: 9 a
// sample, and as much again for addresses and loads of a thread of 32 samples. Issue takes 0.8 µs
// for 1080p GRAY8, 2.6 for RGBA: less than memory.
//
// The magnitude of a gradient needs fewer: differences across and sums across of three rows are shared by the rows
// of outputs. For 4 bytes of 2 rows, 40 instructions to unpack those beside them, 16 sums and differences across, 28
// down; and 10 a sample for the root, rounding and packing: 20 a sample. Bytes are the smallest float16 there are,
// multiples of 2^-24, so that sums of up to 2048 are exact, and what is beyond is 255 anyway. Squares of these sums
// are whole numbers whose roots up to 512 are at least 1 / 4096 from what is halfway between two codes: the
// device's approximate root, off by 2^-23 of itself, is rounded as the exact one. On an H200 6.1 µs for 1080p GRAY8, 31
// for 4K RGBA, where exact roots and quotients of sums of 18 products took 10 and 72.
//
// No shared memory, no barrier: a thread reads 16 bytes of each of ROWS + 2 rows and the words beside
// them, all at once, and writes 16 bytes of ROWS rows. A block of four warps, one below the other,
// computes 512 bytes of 4 * ROWS rows; neighbours' rows come from the cache.
#include "half2.cuh"

constexpr int THREADS = 128;
// Blocks of a multiprocessor: leaves 64 registers.
constexpr int BLOCKS = 8;
constexpr int ROWS = 2;
constexpr int WORD = 4;
// Bytes of a row that a thread computes.
constexpr int BYTES = 16;
constexpr int WORDS = BYTES / WORD;
// With a word on either side.
constexpr int WINDOW = WORDS + 2;
constexpr int ROWS_READ = ROWS + 2;

using Plane = CudaconvDirect3Plane;
using Launch = CudaconvDirect3Launch;
using Window = u32[ROWS_READ][WINDOW];
// Sums of the even and the odd bytes of words, in pairs.
using Sums = u32[2][ROWS][WORDS];

// What a thread computes: bytes from `byte` of a row on, rows from `y` on.
struct Part {
    const Plane& plane;
    int byte, y;
    int rows[ROWS_READ];  // that the rows of the window stand for, or BEYOND

    __device__ __forceinline__ Part(const Plane& plane, int byte, int y) : plane(plane), byte(byte), y(y) {
        const int height = plane.height, above = plane.above, below = plane.below;
        rows[0] = y == 0 ? above : y - 1;
#pragma unroll
        for (int r = 1; r < ROWS_READ; ++r) {
            const int at = y - 1 + r;
            // Further below are outputs that there are none of: any row will do.
            rows[r] = r == 1 || at < height ? at : at == height ? below : 0;
        }
    }

    // Bytes of the row from `byte` on.
    __device__ __forceinline__ int left() const { return plane.row_bytes - byte; }

    // The address of byte `at` of row `r` of the window.
    __device__ __forceinline__ cudaconv_u64 input(int r, int at) const {
        const u32 row = r == 1 ? rows[r] : max(rows[r], 0);
        return plane.input + static_cast<u32>(at) + static_cast<cudaconv_u64>(row) * plane.input_stride;
    }
};

// --- Reading -------------------------------------------------------------------------------------

// Reads what is there; bytes beyond the edges are not those of the border yet.
DEVICE void read_window(Window& window, const Part& part) {
    const bool before = part.byte > 0, behind = part.left() > BYTES;
#pragma unroll
    for (int r = 0; r < ROWS_READ; ++r) {
        const cudaconv_u64 at = part.input(r, part.byte);
        const uint4 four = read_sample<uint4>(at);
        window[r][0] = before ? read_sample<u32>(at - WORD) : 0;
        window[r][1] = four.x;
        window[r][2] = four.y;
        window[r][3] = four.z;
        window[r][4] = four.w;
        window[r][5] = behind ? read_sample<u32>(at + BYTES) : 0;
    }
}

// The bytes of the pixel at byte `at` of row `r` of the window, or those of the border where that is BEYOND.
DEVICE u32 pixel_at(const Part& part, int r, int at) {
    const u32 channels = part.plane.channels;
    const cudaconv_u64 address = part.input(r, max(at, 0));
    u32 pixel = 0;
#pragma unroll
    for (u32 c = 0; c < CUDACONV_CHANNELS; ++c)
        if (c < channels) pixel |= static_cast<u32>(read_sample<u8>(address + c)) << 8 * c;
    return at == BEYOND ? part.plane.beyond : pixel;
}

// Four bytes of a row of the border's constant, from byte `byte` on, which may be one before the row.
DEVICE u32 beyond_at(const Plane& plane, int byte) {
    // The bytes of three channels come in turn: c0 c1 c2 c0, c1 c2 c0 c1.
    const u32 next = __byte_perm(plane.beyond, 0, 0x1021);
    const u32 bits = plane.channels == 3 ? (byte + 6) % 3 * 8 : 0;
    return __funnelshift_r(plane.beyond, next, bits);
}

// Gives the window what the border says of the pixel on either side of the row, and of the rows above
// and below.
DEVICE void complete_window(Window& window, const Part& part) {
    const Plane& plane = part.plane;
    const int channels = plane.channels;
    if (part.byte == 0) {
#pragma unroll
        for (int r = 0; r < ROWS_READ; ++r)
            window[r][0] = pixel_at(part, r, plane.left) << (32 - 8 * channels);
    }
    if (part.left() < BYTES + channels) {
        // The pixel behind the last one begins in this word of the window and ends in the next.
        const int place = 1 + part.left() / WORD;
        const u32 bits = part.left() % WORD * 8, kept = (1u << bits) - 1;
#pragma unroll
        for (int r = 0; r < ROWS_READ; ++r) {
            const u32 pixel = pixel_at(part, r, plane.right);
            const u32 next = __funnelshift_l(pixel, 0, bits);
#pragma unroll
            for (int k = 1; k < WINDOW; ++k) {
                const u32 own = window[r][k], mixed = (own & kept) | pixel << bits;
                window[r][k] = k == place ? mixed : k == place + 1 ? next : own;
            }
        }
    }
    const bool outermost = part.y == 0 || part.y + ROWS >= static_cast<int>(plane.height);
    if (outermost && plane.above == BEYOND) {
#pragma unroll
        for (int r = 0; r < ROWS_READ; ++r) {
            const bool beyond = part.rows[r] == BEYOND;
#pragma unroll
            for (int k = 0; k < WINDOW; ++k) {
                const u32 constant = beyond_at(plane, part.byte + (k - 1) * WORD);
                window[r][k] = beyond ? constant : window[r][k];
            }
        }
    }
}

// --- Sums ----------------------------------------------------------------------------------------

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

// Adds row `row` of a kernel to the sums; the first begins them.
DEVICE u32 add_row(const u32 (&weights)[9], int row, const Taps& taps, u32 sum) {
    const u32 first = weights[row * 3];
    sum = row == 0 ? multiply_pairs(first, taps.left) : fma_pairs(first, taps.left, sum);
    sum = fma_pairs(weights[row * 3 + 1], taps.own, sum);
    return fma_pairs(weights[row * 3 + 2], taps.right, sum);
}

template <int CHANNELS>
DEVICE void add_up(Sums& sums, const Launch& launch, const Window& window) {
#pragma unroll
    for (int r = 0; r < ROWS_READ; ++r) {
        u32 even[WINDOW], odd[WINDOW];
#pragma unroll
        for (int k = 0; k < WINDOW; ++k) {
            // 1024 + byte, less 1152.
            even[k] = add_pairs(__byte_perm(window[r][k], 0x64646464, 0x4240), 0xe480e480);
            odd[k] = add_pairs(__byte_perm(window[r][k], 0x64646464, 0x4341), 0xe480e480);
        }
#pragma unroll
        for (int k = 0; k < WORDS; ++k) {
            const Taps of_even = taps_of_even<CHANNELS>(even, odd, k + 1);
            const Taps of_odd = taps_of_odd<CHANNELS>(even, odd, k + 1);
#pragma unroll
            for (int h = 0; h < ROWS; ++h) {
                if (r - h < 0 || r - h > 2) continue;
                sums[0][h][k] = add_row(launch.weights[0], r - h, of_even, sums[0][h][k]);
                sums[1][h][k] = add_row(launch.weights[0], r - h, of_odd, sums[1][h][k]);
            }
        }
    }
}

// --- Gradients -----------------------------------------------------------------------------------

DEVICE u32 subtract_pairs(u32 a, u32 b) { return fma_pairs(b, 0xbc00bc00, a); }

// Of a row, in pairs of the even and the odd bytes of its words, as multiples of the least float16:
// differences and sums of what is right and left of a byte, and the bytes themselves.
struct Row {
    u32 across[2][WORDS], sides[2][WORDS], own[2][WORDS];
};

DEVICE u32 even_bytes(u32 word) { return __byte_perm(word, 0, 0x4240); }
DEVICE u32 odd_bytes(u32 word) { return __byte_perm(word, 0, 0x4341); }

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

// What is across, smoothed down, and what is down, smoothed across.
DEVICE void gradients(Sums (&sums)[2], const Launch& launch, const Window& window, int channels) {
    const u32 outer = launch.weights[0][2], inner = launch.weights[0][5];
    Row rows[ROWS_READ];
#pragma unroll
    for (int r = 0; r < ROWS_READ; ++r) {
        take_row(rows[r], window[r], channels);
        if (r < 2) continue;
        const int h = r - 2;
        const Row &above = rows[h], &middle = rows[h + 1], &below = rows[r];
#pragma unroll
        for (int half = 0; half < 2; ++half)
#pragma unroll
            for (int k = 0; k < WORDS; ++k) {
                const u32 ends = add_pairs(above.across[half][k], below.across[half][k]);
                const u32 sides = subtract_pairs(below.sides[half][k], above.sides[half][k]);
                const u32 own = subtract_pairs(below.own[half][k], above.own[half][k]);
                sums[0][half][h][k] = fma_pairs(inner, middle.across[half][k], multiply_pairs(outer, ends));
                sums[1][half][h][k] = fma_pairs(inner, own, multiply_pairs(outer, sides));
            }
    }
}

// --- Codes ---------------------------------------------------------------------------------------

// Sums times a power of two and plus whole numbers: by the step of float16 beyond 1024, which is 1,
// rounded halves to even, as 1024 + code; and clamped to 1024..1279. 255 times 1 / 255 is within 2^-11 of 1,
// so that the way to 0..1 and back rounds to the same whole number.
DEVICE u32 rounded_pairs(u32 sums, u32 scale, u32 bias) {
    const u32 whole = fma_pairs(sums, scale, bias);
    const u32 unit = fma_pairs_saturated(whole, 0x1c041c04, 0xc404c404);  // whole / 255 - 1024 / 255
    return fma_pairs(unit, 0x5bf85bf8, 0x64006400);                       // * 255 + 1024
}

struct Rounded {
    using Results = Sums;
    const Launch& launch;
    const Plane& plane;

    __device__ __forceinline__ Rounded(const Launch& launch, const Plane& plane) : launch(launch), plane(plane) {}

    static __device__ __forceinline__ void compute(Sums& sums, const Launch& launch, u32 channels, const Window& window) {
        switch (channels) {
            case 1: add_up<1>(sums, launch, window); break;
            case 2: add_up<2>(sums, launch, window); break;
            case 3: add_up<3>(sums, launch, window); break;
            default: add_up<4>(sums, launch, window);
        }
    }

    __device__ __forceinline__ u32 codes(const Sums& sums, int h, int k) const {
        const u32 even = rounded_pairs(sums[0][h][k], launch.scale, plane.bias[0]);
        const u32 odd = rounded_pairs(sums[1][h][k], launch.scale, plane.bias[1]);
        return __byte_perm(even, odd, 0x6240);
    }
};

// The byte of a word in a pair of the even and one of the odd bytes, as float32.
DEVICE float value_of_byte(u32 even, u32 odd, int byte) {
    const u32 pair = byte % 2 == 0 ? even : odd;
    return byte < 2 ? first_of(pair) : second_of(pair);
}

// A word of the lowest bytes of four.
DEVICE u32 packed(const u32 (&codes)[WORD]) {
    return __byte_perm(__byte_perm(codes[0], codes[1], 0x0040), __byte_perm(codes[2], codes[3], 0x0040), 0x5410);
}

// As float32, by any divisor.
struct Divided {
    using Results = Sums;
    const Launch& launch;
    const Plane& plane;

    __device__ __forceinline__ Divided(const Launch& launch, const Plane& plane) : launch(launch), plane(plane) {}

    static __device__ __forceinline__ void compute(Sums& sums, const Launch& launch, u32 channels, const Window& window) {
        switch (channels) {
            case 1: add_up<1>(sums, launch, window); break;
            case 2: add_up<2>(sums, launch, window); break;
            case 3: add_up<3>(sums, launch, window); break;
            default: add_up<4>(sums, launch, window);
        }
    }

    __device__ __forceinline__ u32 codes(const Sums& sums, int h, int k) const {
        u32 codes[WORD];
#pragma unroll
        for (int byte = 0; byte < WORD; ++byte) {
            const float sum = value_of_byte(sums[0][h][k], sums[1][h][k], byte);
            const float whole = sum + (128.0f - plane.zero[byte]) * launch.sums[0];
            codes[byte] = round_to_code(divided(launch.divisor, launch.reciprocal, whole) + plane.offset[byte], 255.0f);
        }
        return packed(codes);
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
    using Results = Sums[2];
    static constexpr float UNITS = 16777216.0f;
    float offset[WORD];  // by byte, divided by 255

    __device__ __forceinline__ Magnitude(const Launch&, const Plane& plane) {
#pragma unroll
        for (int byte = 0; byte < WORD; ++byte) offset[byte] = plane.offset[byte] * (1.0f / 255.0f);
    }

    static __device__ __forceinline__ void compute(Results& sums, const Launch& launch, u32 channels, const Window& window) {
        gradients(sums, launch, window, channels);
    }

    __device__ __forceinline__ u32 codes(const Results& sums, int h, int k) const {
        u32 codes[WORD];
#pragma unroll
        for (int byte = 0; byte < WORD; ++byte) {
            const float x = value_of_byte(sums[0][0][h][k], sums[0][1][h][k], byte);
            const float y = value_of_byte(sums[1][0][h][k], sums[1][1][h][k], byte);
            const float root = approximate_root(fmaf(y, y, __fmul_rn(x, x)));
            const float unit = __saturatef(fmaf(root, UNITS / 255.0f, offset[byte]));
            codes[byte] = __float_as_uint(fmaf(unit, 255.0f, WHOLE));
        }
        return packed(codes);
    }
};

// --- Writing -------------------------------------------------------------------------------------

DEVICE void write_row(const Part& part, int h, const u32 (&words)[WORDS]) {
    const Plane& plane = part.plane;
    const cudaconv_u64 address =
        plane.output + static_cast<cudaconv_u64>(part.y + h) * plane.output_stride + part.byte;
    const int left = part.left();
    if (left >= BYTES) {
        write_sample(address, make_uint4(words[0], words[1], words[2], words[3]));
        return;
    }
#pragma unroll
    for (int k = 0; k < WORDS; ++k) {
        if (left >= (k + 1) * WORD) {
            write_sample(address + k * WORD, words[k]);
            continue;
        }
#pragma unroll
        for (int b = 0; b < WORD; ++b)
            if (left > k * WORD + b) write_sample<u8>(address + k * WORD + b, words[k] >> 8 * b);
    }
}

// --- A part --------------------------------------------------------------------------------------

template <typename Filter>
DEVICE void direct3(const Launch& launch) {
    u32 index = 0;
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
#pragma unroll
    for (int h = 0; h < ROWS; ++h) {
        if (part.y + h >= static_cast<int>(plane.height)) break;
        u32 words[WORDS];
#pragma unroll
        for (int k = 0; k < WORDS; ++k)
            words[k] = (filter.codes(results, h, k) & plane.filtered) | plane.filled | (window[h + 1][k + 1] & plane.copied);
        write_row(part, h, words);
    }
}

#define DIRECT3(name, filter)                                        \
    extern "C" __global__ void __launch_bounds__(THREADS, BLOCKS)    \
        name(const __grid_constant__ CudaconvDirect3Launch launch) { \
        direct3<filter>(launch);                                     \
    }

#ifdef DIRECT3_U8
DIRECT3(direct3_u8, Rounded)
#endif
#ifdef DIRECT3_DIVIDED_U8
DIRECT3(direct3_divided_u8, Divided)
#endif
#ifdef DIRECT3_MAGNITUDE_U8
DIRECT3(direct3_magnitude_u8, Magnitude)
#endif
