// What the kernels share: jobs and tiles, borders, samples as code values, rounding, and tiles of
// `in' = code - zero` in shared memory. The arithmetic is the canonical float32 evaluation that
// src/filter/plan.rs defines.
//
// Built without fast-math: products and sums are contracted nowhere but where fmaf says so,
// divisions and roots are the IEEE ones, denormals count.
//
// Sources say what bounds their kernels, by calculation for an H200, and what else was tried with what effect; what they take
// there stands in tests/gpu/record.toml.
//
// Each source makes several modules, one for each `#ifdef NAME` around its kernels: the driver
// compiles a module whole when it is first loaded, so a start pays for what it uses.
#pragma once

#include "abi.h"

#define DEVICE static __device__ __forceinline__

using u8 = unsigned char;
using u16 = unsigned short;
using u32 = unsigned int;

constexpr int WARP = 32;

constexpr int rounded_up(int value, int unit) { return (value + unit - 1) / unit * unit; }

// A kernel that does what stands last with its `launch`, with launch bounds in brackets: threads of a block, and how many
// blocks are to fit on a multiprocessor.
#define KERNEL(name, type, bounds, ...)                  \
    extern "C" __global__ void __launch_bounds__ bounds  \
        name(const __grid_constant__ type launch) {      \
        __VA_ARGS__;                                     \
    }

// --- Registers and shared memory -----------------------------------------------------------------

// Keeps a value in a register, where the compiler would compute it again wherever it is used.
template <typename Value>
DEVICE void keep(Value& value) {
    asm volatile("" : "+r"(value));
}

// The same value, of which the compiler does not know that.
template <typename Value>
DEVICE Value again(Value value) {
    keep(value);
    return value;
}

// Addresses of shared memory alone take a register of 32 bits.
DEVICE u32 shared_address(const void* at) { return static_cast<u32>(__cvta_generic_to_shared(at)); }

DEVICE uint4 load_piece(u32 from) {
    uint4 four;
    asm volatile("ld.shared.v4.u32 {%0, %1, %2, %3}, [%4];"
                 : "=r"(four.x), "=r"(four.y), "=r"(four.z), "=r"(four.w)
                 : "r"(from)
                 : "memory");
    return four;
}

// --- Jobs and tiles ------------------------------------------------------------------------------

// The job whose tiles the row `tile_row` of the grid belongs to.
DEVICE u32 job_of(const CudaconvFrame& frame, u32 tile_row) {
    u32 job = 0;
    while (job + 1 < frame.job_count && tile_row >= frame.jobs[job + 1].first_tile_row) ++job;
    return job;
}

DEVICE int lane() { return threadIdx.x % WARP; }

// --- Borders -------------------------------------------------------------------------------------

constexpr int BEYOND = -1;

// The position in 0..length that stands for `position`, or BEYOND where the border's constant does.
DEVICE int border_position(u32 border, int position, int length) {
    if (static_cast<u32>(position) < static_cast<u32>(length)) return position;
    const int last = length - 1;
    if (border == CUDACONV_REPLICATE) return position < 0 ? 0 : last;
    if (border == CUDACONV_CONSTANT) return BEYOND;
    // The picture repeats with this period, mirrored ones back and forth.
    int period = length;
    if (border == CUDACONV_REFLECT) period = 2 * length;
    if (border == CUDACONV_REFLECT101) period = last == 0 ? 1 : 2 * last;
    int phase = position % period;
    if (phase < 0) phase += period;
    // Only mirrored borders have phases beyond the last sample.
    return phase <= last ? phase : (border == CUDACONV_REFLECT ? period - 1 : period) - phase;
}

// --- Samples -------------------------------------------------------------------------------------

DEVICE u32 swap_bytes(u32 word) { return __byte_perm(word, 0, 0x4401); }

// Addresses are known to be global, the input is known not to change: `ld.global.nc`, `st.global`.
template <typename Sample>
DEVICE Sample read_sample(cudaconv_u64 address) {
    return __ldg(reinterpret_cast<const Sample*>(address));
}

template <typename Sample>
DEVICE void write_sample(cudaconv_u64 address, Sample sample) {
    __stwb(reinterpret_cast<Sample*>(address), sample);
}

// Bits of a word above the code value are none of it.
template <typename Sample>
DEVICE u32 code_of(const CudaconvFrame& frame, Sample sample) {
    if (sizeof(Sample) == 1) return sample;
    const u32 mask = static_cast<u32>(frame.max_code);
    return frame.sample == CUDACONV_U16_BE ? swap_bytes(sample) : sample >> frame.shift & mask;
}

template <typename Sample>
DEVICE Sample sample_of(const CudaconvFrame& frame, u32 code) {
    if (sizeof(Sample) == 1) return code;
    return frame.sample == CUDACONV_U16_BE ? swap_bytes(code) : code << frame.shift;
}

DEVICE cudaconv_u64 input_at(const CudaconvChannel& channel, int x, int y) {
    return channel.input + static_cast<cudaconv_u64>(y) * channel.input_stride + static_cast<u32>(x) * channel.step;
}

DEVICE cudaconv_u64 output_at(const CudaconvChannel& channel, int x, int y) {
    return channel.output + static_cast<cudaconv_u64>(y) * channel.output_stride + static_cast<u32>(x) * channel.step;
}

// 2^23: in a float of this size the low 16 bits of the word are a whole number.
constexpr float WHOLE = 8388608.0f;

// A whole number below 2^16 as float. An addition is cheaper than a conversion, a quarter-rate
// instruction, and as exact.
DEVICE float float_of(u32 whole) { return __uint_as_float(0x4b000000u | whole) - WHOLE; }

// The code value nearest to `value`, halves to even. Clamping first changes nothing, the ends of
// the range being whole numbers, and lets an addition do the rounding.
DEVICE u32 round_to_code(float value, float max_code) {
    return __float_as_uint(fminf(fmaxf(value, 0.0f), max_code) + WHOLE) & 0xffffu;
}

// in' at (x, y) of the picture.
template <typename Sample>
DEVICE float value_inside(const CudaconvFrame& frame, const CudaconvChannel& channel, int x, int y) {
    return float_of(code_of(frame, read_sample<Sample>(input_at(channel, x, y)))) - channel.zero;
}

// in' at (x, y), a position in the picture or BEYOND.
template <typename Sample>
DEVICE float value_in(const CudaconvFrame& frame, const CudaconvChannel& channel, int x, int y) {
    return x == BEYOND || y == BEYOND ? channel.beyond : value_inside<Sample>(frame, channel, x, y);
}

// in' at (x, y), which may lie beyond the edge.
template <typename Sample>
DEVICE float value_at(const CudaconvFrame& frame, const CudaconvJob& job, const CudaconvChannel& channel, int x, int y) {
    x = border_position(frame.border, x, job.width);
    y = border_position(frame.border, y, job.height);
    return value_in<Sample>(frame, channel, x, y);
}

// Writes what the filter gave, before its offset.
template <typename Sample>
DEVICE void write_result(const CudaconvFrame& frame, const CudaconvChannel& channel, int x, int y, float result) {
    const u32 code = round_to_code(result + channel.offset, frame.max_code);
    write_sample(output_at(channel, x, y), sample_of<Sample>(frame, code));
}

template <typename Sample>
DEVICE void copy_or_fill(const CudaconvFrame& frame, const CudaconvChannel& channel, int x, int y) {
    const Sample sample = channel.action == CUDACONV_COPY ? read_sample<Sample>(input_at(channel, x, y))
                                                          : sample_of<Sample>(frame, channel.fill);
    write_sample(output_at(channel, x, y), sample);
}

// Whether the channels of a packed job are copied, all of them, from and to addresses of whole words.
DEVICE bool is_copy_of_words(const CudaconvJob& job) {
    const CudaconvChannel& first = job.channels[0];
    bool copied = job.packed;
    for (u32 c = 0; c < job.channel_count; ++c) copied = copied && job.channels[c].action == CUDACONV_COPY;
    return copied && (first.input | first.output | first.input_stride | first.output_stride) % 4 == 0;
}

// The channels of a tile that are not filtered, by a block of `threads` threads.
template <typename Sample>
DEVICE void copy_or_fill_tile(const CudaconvFrame& frame, const CudaconvJob& job, int x0, int y0, int width, int height,
                              int thread, int threads) {
    const int x1 = min(x0 + width, static_cast<int>(job.width));
    const int y1 = min(y0 + height, static_cast<int>(job.height));
    const bool words = is_copy_of_words(job);
#pragma unroll 1
    for (u32 c = 0; c < job.channel_count; ++c) {
        const CudaconvChannel& channel = job.channels[c];
        if (channel.action == CUDACONV_FILTER) continue;
        // Bytes of all channels, up to the last word that is whole; the samples behind it one by one.
        const int step = channel.step, whole = words ? x1 * step / 4 * 4 : x0 * step;
#pragma unroll 1
        for (int y = y0 + thread / WARP; y < y1; y += threads / WARP) {
            const cudaconv_u64 from = input_at(job.channels[0], 0, y), to = output_at(job.channels[0], 0, y);
            if (c == 0) {
#pragma unroll 4
                for (int byte = x0 * step + thread % WARP * 4; byte < whole; byte += WARP * 4)
                    write_sample(to + byte, read_sample<u32>(from + byte));
            }
            const int left = (whole - static_cast<int>(c * sizeof(Sample)) + step - 1) / step;
#pragma unroll 1
            for (int x = (words ? left : x0) + thread % WARP; x < x1; x += WARP) copy_or_fill<Sample>(frame, channel, x, y);
        }
    }
}

// --- Linear kernels ------------------------------------------------------------------------------

// Floats of a line of `count` weights.
DEVICE u32 line_of(u32 count) { return (count + 3) / 4 * 4; }

// s / divisor, rounded as IEEE division rounds it: two steps of refinement after a product with the
// nearest reciprocal (Markstein, Computation of elementary functions on the IBM RISC System/6000
// processor, 1990, theorem 8). Below 2^-101 the remainders are not exact any more, which is far
// below what can change a code value.
DEVICE float divided(float divisor, float reciprocal, float sum) {
    float quotient = __fmul_rn(sum, reciprocal);
    quotient = fmaf(fmaf(-quotient, divisor, sum), reciprocal, quotient);
    return fmaf(fmaf(-quotient, divisor, sum), reciprocal, quotient);
}

DEVICE float divided(const CudaconvConvolveLaunch& launch, float sum) {
    return divided(launch.divisor, launch.reciprocal, sum);
}

// Of a gradient, with the sums of both kernels.
DEVICE float magnitude(float x, float y) { return __fsqrt_rn(fmaf(y, y, __fmul_rn(x, x))); }

// A colour from sums of it, premultiplied, and of alpha, whose mean is `opacity`.
DEVICE float unpremultiplied(float colour, float alpha, float opacity) {
    return opacity * CUDACONV_TRANSPARENT >= 1.0f ? __fdiv_rn(colour, alpha) : 0.0f;
}

// --- Bilaterals ----------------------------------------------------------------------------------

DEVICE float exp2_approximate(float exponent) {
    float power;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(power) : "f"(exponent));
    return power;
}

// --- Tiles in shared memory ----------------------------------------------------------------------

// A walk of the threads of a block over the elements of a tile, neighbours over neighbouring columns.
struct Walk {
    int row, column, index;

    __device__ __forceinline__ Walk(int columns, int thread)
        : row(thread / columns), column(thread % columns), index(thread) {}

    __device__ __forceinline__ void step(int columns, int threads, int rows_apart, int columns_apart) {
        index += threads;
        row += rows_apart;
        column += columns_apart;
        if (column >= columns) {
            column -= columns;
            ++row;
        }
    }
};

// Calls `visit(row, column, inside)` for every element of a tile. What is `inside` the picture is
// loaded four elements at a time; the few tiles that are not keep the code small instead.
template <typename Visit>
DEVICE void for_each_element(int columns, int rows, bool inside, int thread, int threads, Visit visit) {
    const int rows_apart = threads / columns, columns_apart = threads % columns;
    Walk walk(columns, thread);
    if (inside) {
#pragma unroll 4
        for (; walk.index < columns * rows; walk.step(columns, threads, rows_apart, columns_apart))
            visit(walk.row, walk.column, true);
    } else {
#pragma unroll 1
        for (; walk.index < columns * rows; walk.step(columns, threads, rows_apart, columns_apart))
            visit(walk.row, walk.column, false);
    }
}

DEVICE bool is_inside(const CudaconvJob& job, int x0, int y0, int columns, int rows) {
    return x0 >= 0 && y0 >= 0 && x0 + columns <= static_cast<int>(job.width) && y0 + rows <= static_cast<int>(job.height);
}

// in' at (x, y), which is `inside` the picture or may lie beyond the edge.
template <typename Sample>
DEVICE float tile_value(const CudaconvFrame& frame, const CudaconvJob& job, const CudaconvChannel& channel, bool inside,
                        int x, int y) {
    if (inside) return value_inside<Sample>(frame, channel, x, y);
    return value_at<Sample>(frame, job, channel, x, y);
}

// Rows of floats are read four at a time by threads eight floats apart: with every second run of
// 32 floats having its neighbouring fours exchanged, the eight threads of one access meet all banks.
// The pitch is a multiple of eight.
DEVICE int swizzled(int x) { return x ^ (x >> 3 & 4); }

// Fills `rows` rows of `columns` floats, `pitch` apart and swizzled, with in' of the rectangle
// whose first sample is (x0, y0), or with its product with the alpha channel. All threads of the
// block take part.
template <typename Sample>
DEVICE void load_tile(float* tile, int pitch, int columns, int rows, const CudaconvFrame& frame, const CudaconvJob& job,
                      const CudaconvChannel& channel, bool premultiply, int x0, int y0, int thread, int threads) {
    const bool is_in = is_inside(job, x0, y0, columns, rows);
    for_each_element(columns, rows, is_in, thread, threads, [&](int row, int column, bool inside) {
        float value = tile_value<Sample>(frame, job, channel, inside, x0 + column, y0 + row);
        if (premultiply)
            value = __fmul_rn(value, tile_value<Sample>(frame, job, job.channels[job.alpha], inside, x0 + column, y0 + row));
        tile[row * pitch + swizzled(column)] = value;
    });
}
