// What threads of the kernels of 3 x 3 taps of bytes (direct3.cu) read and write: a piece of a few rows, with the border's
// pixels around the picture.
#pragma once

#include "common.cuh"

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

// What a thread computes: bytes from `byte` of a row on, rows from `y` on.
struct Part {
    const Plane& plane;
    int byte, y;
    bool inside;                   // whether the rows of the window are the picture's own
    cudaconv_u64 from[ROWS_READ];  // where these bytes are in the rows that the window is read from

    __device__ __forceinline__ Part(const Plane& plane, int byte, int y) : plane(plane), byte(byte), y(y) {
        const u32 stride = plane.input_stride;
        const cudaconv_u64 column = plane.input + static_cast<u32>(byte);
        inside = static_cast<u32>(y - 1) < static_cast<u32>(max(static_cast<int>(plane.height) - ROWS - 1, 0));
        if (inside) {
            from[0] = column + static_cast<cudaconv_u64>(static_cast<u32>(y - 1)) * stride;
#pragma unroll
            for (int r = 1; r < ROWS_READ; ++r) from[r] = from[r - 1] + stride;
        } else {
#pragma unroll
            for (int r = 0; r < ROWS_READ; ++r)
                from[r] = column + static_cast<cudaconv_u64>(static_cast<u32>(max(row(r), 0))) * stride;
        }
    }

    // The row that stands for row `r` of the window, or BEYOND.
    __device__ __forceinline__ int row(int r) const {
        const int height = plane.height, at = y - 1 + r;
        if (r == 0) return y == 0 ? static_cast<int>(plane.above) : at;
        // Further below are outputs that there are none of: any row will do.
        return r == 1 || at < height ? at : at == height ? static_cast<int>(plane.below) : 0;
    }

    // Bytes of the row from `byte` on.
    __device__ __forceinline__ int left() const { return plane.row_bytes - byte; }
};

// --- Reading -------------------------------------------------------------------------------------

// Reads what is there; bytes beyond the edges are not those of the border yet.
DEVICE void read_window(Window& window, const Part& part) {
    const bool before = part.byte > 0, behind = part.left() > BYTES;
#pragma unroll
    for (int r = 0; r < ROWS_READ; ++r) {
        const cudaconv_u64 at = part.from[r];
        const uint4 four = read_sample<uint4>(at);
        window[r][0] = before ? read_sample<u32>(at - WORD) : 0;
        window[r][1] = four.x;
        window[r][2] = four.y;
        window[r][3] = four.z;
        window[r][4] = four.w;
        window[r][5] = behind ? read_sample<u32>(at + BYTES) : 0;
    }
}

// The pixel at byte `at` of rows, or that of the border where this is BEYOND: the lower bytes of a word, with anything
// above.
struct Pixel {
    const Part& part;
    int at;
    int first, last;  // the words that it begins and ends in, from those on that the part computes

    __device__ __forceinline__ Pixel(const Part& part, int at) : part(part), at(at) {
        const int channels = part.plane.channels, begin = max(at, 0);
        first = begin / WORD * WORD - part.byte;
        last = (begin + channels - 1) / WORD * WORD - part.byte;
    }

    // Of row `r` of the window.
    __device__ __forceinline__ u32 of(int r) const {
        const u32 one = read_sample<u32>(part.from[r] + first), other = read_sample<u32>(part.from[r] + last);
        return at == BEYOND ? part.plane.beyond : __funnelshift_r(one, other, at % WORD * 8);
    }
};

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
    const int channels = plane.channels, left = part.left();
    if (part.byte == 0) {
        const Pixel pixel(part, plane.left);
#pragma unroll
        for (int r = 0; r < ROWS_READ; ++r) window[r][0] = pixel.of(r) << (32 - 8 * channels);
    }
    if (left < BYTES + channels) {
        // The pixel behind the last one begins in this word of the window and ends in the next.
        const Pixel pixel(part, plane.right);
        const int place = 1 + left / WORD;
        const u32 bits = left % WORD * 8, kept = (1u << bits) - 1;
        if (place == WINDOW - 1) {
#pragma unroll
            for (int r = 0; r < ROWS_READ; ++r)
                window[r][WINDOW - 1] = (window[r][WINDOW - 1] & kept) | pixel.of(r) << bits;
        } else {
#pragma unroll
            for (int r = 0; r < ROWS_READ; ++r) {
                const u32 behind = pixel.of(r), next = __funnelshift_l(behind, 0, bits);
#pragma unroll
                for (int k = 1; k < WINDOW; ++k) {
                    const u32 own = window[r][k], mixed = (own & kept) | behind << bits;
                    window[r][k] = k == place ? mixed : k == place + 1 ? next : own;
                }
            }
        }
    }
    if (!part.inside && plane.above == BEYOND) {
#pragma unroll
        for (int r = 0; r < ROWS_READ; ++r) {
            const bool beyond = part.row(r) == BEYOND;
#pragma unroll
            for (int k = 0; k < WINDOW; ++k) {
                const u32 constant = beyond_at(plane, part.byte + (k - 1) * WORD);
                window[r][k] = beyond ? constant : window[r][k];
            }
        }
    }
}

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
