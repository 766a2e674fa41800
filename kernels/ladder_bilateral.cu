// The ladder's bilateral of 15 x 15 pixels over bytes: out = c + sum w * (v - c) / sum w, with
// w = exp2(distance + color * (v - c)^2). 225 exponentials a pixel, at a quarter of the rate of
// multiply-adds or less, are what bounds it, by far: memory is 2 bytes a pixel.
#include "ladder.cuh"

constexpr int RADIUS = CUDACONV_LADDER_RADIUS, SIDE = 2 * RADIUS + 1;

// The weighted sum of differences from the centre.
struct Sums {
    float differences = 0.0f, weights = 0.0f;

    __device__ __forceinline__ void add(const Launch& launch, float value, float centre, float distance) {
        const float difference = value - centre;
        const float weight = exp2_approximate(fmaf(launch.color, difference * difference, distance));
        differences = fmaf(weight, difference, differences);
        weights += weight;
    }

    __device__ __forceinline__ float mean(float centre) const { return centre + __fdiv_rn(differences, weights); }
};

// Out of `value(dx, dy)` around a pixel, by the exponents that stand for distance.
template <typename Distance, typename Value>
DEVICE void window(const Launch& launch, int x, int y, Distance distance, Value value) {
    const float centre = value(0, 0);
    Sums sums;
#pragma unroll 1
    for (int dy = -RADIUS; dy <= RADIUS; ++dy) {
#pragma unroll 5
        for (int dx = -RADIUS; dx <= RADIUS; ++dx) {
            sums.add(launch, value(dx, dy), centre, distance((dy + RADIUS) * SIDE + dx + RADIUS));
        }
    }
    write_at<u8>(launch, x, y, round_to_code(sums.mean(centre), 255.0f));
}

// A pixel from the tile in shared memory, which holds floats.
template <typename Distance>
DEVICE void from_tile(const Launch& launch, Distance distance) {
    extern __shared__ float tile[];
    load_tile<RADIUS, u8>(launch, tile, [](u8 code) { return float_of(code); });
    if (!is_inside(launch, column(), row())) return;
    const int stride = blockDim.x + 2 * RADIUS;
    const float* centre = tile + (threadIdx.y + RADIUS) * stride + threadIdx.x + RADIUS;
    window(launch, column(), row(), distance, [&](int dx, int dy) { return centre[dy * stride + dx]; });
}

#ifdef LADDER_BILATERAL
// Every value and every exponent from global memory.
extern "C" __global__ void __launch_bounds__(LARGEST_BLOCK)
    ladder_bilateral_naive(const __grid_constant__ Launch launch) {
    const int x = column(), y = row();
    if (!is_inside(launch, x, y)) return;
    const auto value = [&](int dx, int dy) { return float_of(read_at<u8>(launch, x + dx, y + dy)); };
    window(launch, x, y, [&](int at) { return table<float>(launch, at); }, value);
}

// The block's pixels and seven around them in shared memory.
extern "C" __global__ void __launch_bounds__(LARGEST_BLOCK)
    ladder_bilateral_tile(const __grid_constant__ Launch launch) {
    from_tile(launch, [&](int at) { return table<float>(launch, at); });
}

// Values through the texture units, which also do the border.
extern "C" __global__ void __launch_bounds__(LARGEST_BLOCK)
    ladder_bilateral_texture(const __grid_constant__ Launch launch) {
    const int x = column(), y = row();
    if (!is_inside(launch, x, y)) return;
    const auto value = [&](int dx, int dy) {
        u32 texel;
        asm("{.reg .u32 g, b, a; tex.2d.v4.u32.f32 {%0, g, b, a}, [%1, {%2, %3}];}"
            : "=r"(texel)
            : "l"(launch.input), "f"(x + dx + 0.5f), "f"(y + dy + 0.5f));
        return float_of(texel);
    };
    window(launch, x, y, [&](int at) { return table<float>(launch, at); }, value);
}

// A bilateral of one row or one column, as if the window were a product of the two: it is not, so the
// result is another, near it.
template <int ACROSS, typename Sample>
DEVICE float line(const Launch& launch, int x, int y) {
    const auto value = [&](int i) {
        return static_cast<float>(read_at<Sample>(launch, x + ACROSS * i, y + (1 - ACROSS) * i));
    };
    const float centre = value(0);
    Sums sums;
#pragma unroll 5
    for (int i = -RADIUS; i <= RADIUS; ++i) {
        sums.add(launch, value(i), centre, table<float>(launch, SIDE * SIDE + RADIUS + i));
    }
    return sums.mean(centre);
}

extern "C" __global__ void __launch_bounds__(LARGEST_BLOCK)
    ladder_bilateral_across(const __grid_constant__ Launch launch) {
    if (!is_inside(launch, column(), row())) return;
    write_at<float>(launch, column(), row(), line<1, u8>(launch, column(), row()));
}

extern "C" __global__ void __launch_bounds__(LARGEST_BLOCK)
    ladder_bilateral_down(const __grid_constant__ Launch launch) {
    if (!is_inside(launch, column(), row())) return;
    write_at<u8>(launch, column(), row(), round_to_code(line<0, float>(launch, column(), row()), 255.0f));
}

DEVICE u32 exp2_pairs(u32 exponents) {
    u32 powers;
    asm("ex2.approx.f16x2 %0, %1;" : "=r"(powers) : "r"(exponents));
    return powers;
}

// Two pixels a thread, both in one float16 instruction: of a block of twice its height the lower half goes
// with the upper one, so that the tile holds both side by side. A row of the window is summed in float16,
// the rows in float32: float16 has not the bits for 225.
extern "C" __global__ void __launch_bounds__(LARGEST_BLOCK)
    ladder_bilateral_half2(const __grid_constant__ Launch launch) {
    extern __shared__ u32 pairs[];
    const int stride = blockDim.x + 2 * RADIUS, height = blockDim.y + 2 * RADIUS;
    const int left = blockIdx.x * blockDim.x - RADIUS, top = 2 * blockIdx.y * blockDim.y - RADIUS;
#pragma unroll 1
    for (int y = threadIdx.y; y < height; y += blockDim.y) {
#pragma unroll 1
        for (int x = threadIdx.x; x < stride; x += blockDim.x) {
            const float upper = read_at<u8>(launch, left + x, top + y);
            const float lower = read_at<u8>(launch, left + x, top + y + static_cast<int>(blockDim.y));
            pairs[y * stride + x] = pair_of(upper, lower);
        }
    }
    __syncthreads();
    const u32 color = pair_of(launch.color, launch.color), minus_one = pair_of(-1.0f, -1.0f);
    const u32 centre = pairs[(threadIdx.y + RADIUS) * stride + threadIdx.x + RADIUS];
    float differences[2] = {}, weights[2] = {};
#pragma unroll 1
    for (int dy = 0; dy < SIDE; ++dy) {
        const u32* values = pairs + (threadIdx.y + dy) * stride + threadIdx.x;
        u32 row_differences = 0, row_weights = 0;
#pragma unroll 3
        for (int dx = 0; dx < SIDE; ++dx) {
            const float distance = table<float>(launch, dy * SIDE + dx);
            const u32 difference = fma_pairs(centre, minus_one, values[dx]);
            const u32 exponent = fma_pairs(multiply_pairs(difference, color), difference, pair_of(distance, distance));
            const u32 weight = exp2_pairs(exponent);
            row_differences = fma_pairs(weight, difference, row_differences);
            row_weights = add_pairs(row_weights, weight);
        }
        differences[0] += first_of(row_differences), differences[1] += second_of(row_differences);
        weights[0] += first_of(row_weights), weights[1] += second_of(row_weights);
    }
    const float centres[2] = {first_of(centre), second_of(centre)};
#pragma unroll
    for (int i = 0; i < 2; ++i) {
        const int x = column(), y = (2 * blockIdx.y + i) * blockDim.y + threadIdx.y;
        const float mean = centres[i] + __fdiv_rn(differences[i], weights[i]);
        if (is_inside(launch, x, y)) write_at<u8>(launch, x, y, round_to_code(mean, 255.0f));
    }
}

// Bytes: weights are products of two bytes by tables, of which the upper byte is kept, and four taps are
// one dot product. What is left of the exponential is a look-up in shared memory.
extern "C" __global__ void __launch_bounds__(LARGEST_BLOCK)
    ladder_bilateral_int8(const __grid_constant__ Launch launch) {
    // The table of differences, then rows of bytes that begin at whole words.
    extern __shared__ u32 shared[];
    u8* differences = reinterpret_cast<u8*>(shared);
    const int threads = blockDim.x * blockDim.y, thread = threadIdx.y * blockDim.x + threadIdx.x;
#pragma unroll 1
    for (int at = thread; at < 64; at += threads) shared[at] = table<u32>(launch, 300 + at);
    u8* tile = differences + 256;
    // Room for the 16th tap, which has no weight.
    const int stride = (blockDim.x + 2 * RADIUS + 7) / 4 * 4, height = blockDim.y + 2 * RADIUS;
    const int left = blockIdx.x * blockDim.x - RADIUS, top = blockIdx.y * blockDim.y - RADIUS;
#pragma unroll 1
    for (int y = threadIdx.y; y < height; y += blockDim.y) {
#pragma unroll 1
        for (int x = threadIdx.x; x < stride; x += blockDim.x) {
            tile[y * stride + x] = read_at<u8>(launch, left + x, top + y);
        }
    }
    __syncthreads();
    if (!is_inside(launch, column(), row())) return;
    const int centre = tile[(threadIdx.y + RADIUS) * stride + threadIdx.x + RADIUS];
    u32 sum = 0, weights = 0;
#pragma unroll 1
    for (int dy = 0; dy < SIDE; ++dy) {
        const u32* words = reinterpret_cast<const u32*>(tile + (threadIdx.y + dy) * stride) + threadIdx.x / 4;
        const u32 shift = 8 * (threadIdx.x % 4);
#pragma unroll 2
        for (int four = 0; four < 4; ++four) {
            const u32 values = __funnelshift_r(words[four], words[four + 1], shift);
            const u32 distances = table<u32>(launch, 240 + 4 * dy + four);
            u32 packed = 0;
#pragma unroll
            for (int i = 0; i < 4; ++i) {
                const int value = values >> 8 * i & 255;
                const u32 weight = differences[abs(value - centre)] * (distances >> 8 * i & 255) + 128;
                packed |= (weight >> 8) << 8 * i;
            }
            sum = dot_bytes(packed, values, sum);
            weights = dot_bytes(packed, 0x01010101u, weights);
        }
    }
    write_at<u8>(launch, column(), row(), (sum + weights / 2) / weights);
}
#endif

#ifdef LADDER_BILATERAL_CONSTANT
// Of one loaded module: whoever loads another has other exponents.
__constant__ float ladder_table[CUDACONV_LADDER_BILATERAL_WORDS];

// As the one with a tile, with its exponents from constant memory.
extern "C" __global__ void __launch_bounds__(LARGEST_BLOCK)
    ladder_bilateral_constant(const __grid_constant__ Launch launch) {
    from_tile(launch, [](int at) { return ladder_table[at]; });
}
#endif
