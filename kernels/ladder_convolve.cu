// The ladder's 3 x 3 weights over float32: nine fused multiply-adds a pixel, and 8 bytes to and from
// memory (half2: 4, bytes: 2), so every step but the worst is bound by memory. Blocks are those that the host
// asks for, one thread a pixel where nothing else is said.
#include "ladder.cuh"

// Out of `value(dx, dy)` around a pixel, by nine weights.
template <typename Weight, typename Value>
DEVICE float nine(Weight weight, Value value) {
    float sum = 0.0f;
#pragma unroll
    for (int dy = -1; dy <= 1; ++dy) {
#pragma unroll
        for (int dx = -1; dx <= 1; ++dx) sum = fmaf(weight(3 * dy + dx + 4), value(dx, dy), sum);
    }
    return sum;
}

// A pixel from the tile in shared memory.
template <typename Weight>
DEVICE void from_tile(const Launch& launch, Weight weight) {
    extern __shared__ float tile[];
    load_tile<1, float>(launch, tile, [](float value) { return value; });
    if (!is_inside(launch, column(), row())) return;
    const int stride = blockDim.x + 2;
    const float* centre = tile + (threadIdx.y + 1) * stride + threadIdx.x + 1;
    write_at(launch, column(), row(), nine(weight, [&](int dx, int dy) { return centre[dy * stride + dx]; }));
}

#ifdef LADDER_CONVOLVE
// Every value and every weight from global memory.
extern "C" __global__ void __launch_bounds__(LARGEST_BLOCK)
    ladder_convolve_naive(const __grid_constant__ Launch launch) {
    const int x = column(), y = row();
    if (!is_inside(launch, x, y)) return;
    const auto value = [&](int dx, int dy) { return read_at<float>(launch, x + dx, y + dy); };
    write_at(launch, x, y, nine([&](int at) { return table<float>(launch, at); }, value));
}

// The block's pixels and one around them in shared memory.
extern "C" __global__ void __launch_bounds__(LARGEST_BLOCK)
    ladder_convolve_tile(const __grid_constant__ Launch launch) {
    from_tile(launch, [&](int at) { return table<float>(launch, at); });
}

// Values through the texture units, which also do the border.
extern "C" __global__ void __launch_bounds__(LARGEST_BLOCK)
    ladder_convolve_texture(const __grid_constant__ Launch launch) {
    const int x = column(), y = row();
    if (!is_inside(launch, x, y)) return;
    const auto value = [&](int dx, int dy) {
        float texel;
        asm("{.reg .f32 g, b, a; tex.2d.v4.f32.f32 {%0, g, b, a}, [%1, {%2, %3}];}"
            : "=f"(texel)
            : "l"(launch.input), "f"(x + dx + 0.5f), "f"(y + dy + 0.5f));
        return texel;
    };
    write_at(launch, x, y, nine([&](int at) { return table<float>(launch, at); }, value));
}

// One pass of three weights, across or down, from global memory to global memory.
template <int ACROSS>
DEVICE void pass_of_three(const Launch& launch) {
    const int x = column(), y = row();
    if (!is_inside(launch, x, y)) return;
    float sum = 0.0f;
#pragma unroll
    for (int i = -1; i <= 1; ++i) {
        const float weight = table<float>(launch, (ACROSS ? 10 : 13) + i);
        sum = fmaf(weight, read_at<float>(launch, x + ACROSS * i, y + (1 - ACROSS) * i), sum);
    }
    write_at(launch, x, y, sum);
}

extern "C" __global__ void __launch_bounds__(LARGEST_BLOCK)
    ladder_convolve_across(const __grid_constant__ Launch launch) {
    pass_of_three<1>(launch);
}

extern "C" __global__ void __launch_bounds__(LARGEST_BLOCK)
    ladder_convolve_down(const __grid_constant__ Launch launch) {
    pass_of_three<0>(launch);
}

// Both passes in one kernel: what lies between them stays in shared memory.
extern "C" __global__ void __launch_bounds__(LARGEST_BLOCK)
    ladder_convolve_fused(const __grid_constant__ Launch launch) {
    extern __shared__ float values_and_sums[];
    float* tile = values_and_sums;
    load_tile<1, float>(launch, tile, [](float value) { return value; });
    const int stride = blockDim.x + 2, height = blockDim.y + 2;
    float* sums = tile + stride * height;
#pragma unroll 1
    for (int y = threadIdx.y; y < height; y += blockDim.y) {
        const float* values = tile + y * stride + threadIdx.x;
        float sum = 0.0f;
#pragma unroll
        for (int i = 0; i < 3; ++i) sum = fmaf(table<float>(launch, 9 + i), values[i], sum);
        sums[y * blockDim.x + threadIdx.x] = sum;
    }
    __syncthreads();
    if (!is_inside(launch, column(), row())) return;
    float sum = 0.0f;
#pragma unroll
    for (int i = 0; i < 3; ++i) {
        sum = fmaf(table<float>(launch, 12 + i), sums[(threadIdx.y + i) * blockDim.x + threadIdx.x], sum);
    }
    write_at(launch, column(), row(), sum);
}

// Two neighbouring pixels a thread, both in one float16 instruction; memory holds float16 too.
extern "C" __global__ void __launch_bounds__(LARGEST_BLOCK)
    ladder_convolve_half2(const __grid_constant__ Launch launch) {
    const int x = 2 * column(), y = row(), width = launch.width;
    if (!is_inside(launch, x, y)) return;
    u32 sums = 0;
#pragma unroll 1
    for (int dy = -1; dy <= 1; ++dy) {
        // Values x - 2 and x - 1, x and x + 1, x + 2 and x + 3.
        u32 left, centre, right;
        if (x >= 2 && x + 3 < width) {
            const u32 at = nearest(y + dy, launch.height) * launch.input_stride + x;
            const u32* values = reinterpret_cast<const u32*>(launch.input + 2 * static_cast<cudaconv_u64>(at));
            left = __ldg(values - 1), centre = __ldg(values), right = __ldg(values + 1);
        } else {
            const auto two = [&](int first) {
                const u32 low = read_at<u16>(launch, first, y + dy);
                return low | static_cast<u32>(read_at<u16>(launch, first + 1, y + dy)) << 16;
            };
            left = two(x - 2), centre = two(x), right = two(x + 2);
        }
        const u32 values[3] = {__funnelshift_l(left, centre, 16), centre, __funnelshift_r(centre, right, 16)};
#pragma unroll
        for (int i = 0; i < 3; ++i) {
            const float weight = table<float>(launch, 3 * dy + i + 3);
            sums = fma_pairs(pair_of(weight, weight), values[i], sums);
        }
    }
    if (x + 1 < width) {
        *reinterpret_cast<u32*>(launch.output + 2 * static_cast<cudaconv_u64>(y * launch.output_stride + x)) = sums;
    } else {
        write_at<u16>(launch, x, y, sums);
    }
}

// Four neighbouring pixels a thread in bytes; a row of three weights, in 256ths, is one dot product.
extern "C" __global__ void __launch_bounds__(LARGEST_BLOCK)
    ladder_convolve_int8(const __grid_constant__ Launch launch) {
    const int x = 4 * column(), y = row(), width = launch.width;
    if (!is_inside(launch, x, y)) return;
    u32 sums[4] = {128, 128, 128, 128};
#pragma unroll 1
    for (int dy = -1; dy <= 1; ++dy) {
        u32 words[3];
        if (x >= 4 && x + 7 < width) {
            const cudaconv_u64 line = launch.input + nearest(y + dy, launch.height) * launch.input_stride;
            const u32* values = reinterpret_cast<const u32*>(line + x);
#pragma unroll
            for (int i = 0; i < 3; ++i) words[i] = __ldg(values + i - 1);
        } else {
#pragma unroll
            for (int i = 0; i < 3; ++i) {
                words[i] = 0;
#pragma unroll 1
                for (int byte = 0; byte < 4; ++byte) {
                    words[i] |= static_cast<u32>(read_at<u8>(launch, x + 4 * i - 4 + byte, y + dy)) << 8 * byte;
                }
            }
        }
        const u32 weights = table<u32>(launch, 16 + dy);
        // Bytes x - 1 to x + 2, whose fourth has no weight, and so on.
        sums[0] = dot_bytes(__funnelshift_r(words[0], words[1], 24), weights, sums[0]);
        sums[1] = dot_bytes(words[1], weights, sums[1]);
        sums[2] = dot_bytes(__funnelshift_r(words[1], words[2], 8), weights, sums[2]);
        sums[3] = dot_bytes(__funnelshift_r(words[1], words[2], 16), weights, sums[3]);
    }
    u32 packed = 0;
#pragma unroll
    for (int i = 0; i < 4; ++i) packed |= min(sums[i] >> 8, 255u) << 8 * i;
    if (x + 3 < width) {
        *reinterpret_cast<u32*>(launch.output + y * launch.output_stride + x) = packed;
    } else {
        for (int i = 0; x + i < width; ++i) write_at<u8>(launch, x + i, y, packed >> 8 * i);
    }
}
#endif

#ifdef LADDER_CONVOLVE_CONSTANT
// Of one loaded module: whoever loads another has other weights.
__constant__ float ladder_table[CUDACONV_LADDER_CONVOLVE_WORDS];

// As the one with a tile, with its weights from constant memory.
extern "C" __global__ void __launch_bounds__(LARGEST_BLOCK)
    ladder_convolve_constant(const __grid_constant__ Launch launch) {
    from_tile(launch, [](int at) { return ladder_table[at]; });
}
#endif

#ifdef LADDER_CONVOLVE_MATRIX
constexpr int MATRIX_WARPS = 4, MATRIX_WIDTH = 16 * MATRIX_WARPS, MATRIX_HEIGHT = 16;
// Columns that the products read, and 36 words a row: the 32 lanes of a load fall into 32 banks.
constexpr int MATRIX_STRIDE = MATRIX_WIDTH + 8;

// Every row of weights as a banded matrix of 16 x 8, by which 16 rows of 16 values each become 16 rows of 8
// sums. A warp does two of those, a block 64 x 16 pixels; float16 products, float32 sums. Of 16 x 8
// weights 24 are not 0, so four fifths of the products are for nothing, at sixteen times the rate.
extern "C" __global__ void __launch_bounds__(32 * MATRIX_WARPS)
    ladder_convolve_matrix(const __grid_constant__ Launch launch) {
    __shared__ u32 words[(MATRIX_HEIGHT + 2) * MATRIX_STRIDE / 2];
    u16* tile = reinterpret_cast<u16*>(words);
    const int left = blockIdx.x * MATRIX_WIDTH - 1, top = blockIdx.y * MATRIX_HEIGHT - 1;
#pragma unroll 1
    for (int at = threadIdx.x; at < (MATRIX_HEIGHT + 2) * MATRIX_STRIDE; at += 32 * MATRIX_WARPS) {
        tile[at] = read_at<u16>(launch, left + at % MATRIX_STRIDE, top + at / MATRIX_STRIDE);
    }
    const int group = lane() / 4, within = lane() % 4;
    // Of the matrix the lane holds rows 2 * within and the next, and 8 below them, of column `group`.
    u32 bands[3][2];
#pragma unroll
    for (int dy = 0; dy < 3; ++dy) {
#pragma unroll
        for (int step = 0; step < 2; ++step) {
            float weights[2];
#pragma unroll
            for (int i = 0; i < 2; ++i) {
                const int tap = 8 * step + 2 * within + i - group, in_band = nearest(tap, 3);
                weights[i] = tap == in_band ? table<float>(launch, 3 * dy + in_band) : 0.0f;
            }
            bands[dy][step] = pair_of(weights[0], weights[1]);
        }
    }
    __syncthreads();
#pragma unroll 1
    for (int half = 0; half < 2; ++half) {
        const int first = threadIdx.x / 32 * 16 + half * 8;
        float sums[4] = {};
#pragma unroll
        for (int dy = 0; dy < 3; ++dy) {
#pragma unroll
            for (int step = 0; step < 2; ++step) {
                const u32* from = words + ((group + dy) * MATRIX_STRIDE + first + 8 * step) / 2 + within;
                asm("mma.sync.aligned.m16n8k8.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5}, {%6}, {%0, %1, %2, %3};"
                    : "+f"(sums[0]), "+f"(sums[1]), "+f"(sums[2]), "+f"(sums[3])
                    : "r"(from[0]), "r"(from[8 * MATRIX_STRIDE / 2]), "r"(bands[dy][step]));
            }
        }
        // The lane has two neighbours of row `group` and two of the row 8 below.
        const int x = blockIdx.x * MATRIX_WIDTH + first + 2 * within;
#pragma unroll
        for (int below = 0; below < 2; ++below) {
            const int y = blockIdx.y * MATRIX_HEIGHT + group + 8 * below;
            if (!is_inside(launch, x, y)) continue;
            const u32 pair = pair_of(sums[2 * below], sums[2 * below + 1]);
            if (x + 1 < static_cast<int>(launch.width)) {
                const cudaconv_u64 at = y * launch.output_stride + x;
                *reinterpret_cast<u32*>(launch.output + 2 * at) = pair;
            } else {
                write_at<u16>(launch, x, y, pair);
            }
        }
    }
}
#endif
