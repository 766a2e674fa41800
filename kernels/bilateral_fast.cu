// The bilateral by weighted levels, as src/filter/levels.rs defines it: at each level k two separable
// Gaussians, of the weights g(in - L_k) and of their products with in - L_k, and from these, weighted
// by g(c - L_k), the mean around every sample c.
//
// Bytes: as bilateral.cu. Operations per sample and level: 2 taps an axis, of which those across are
// computed for the rows of the halo, too; weights and products are the two halves of a word of
// float16, so a tap is one instruction for both: with radius 15, 1.5 * 32 + 32. Beside it 2.25 exponentials
// with 9 instructions each, and 20 for the mean. Issue bounds it: counted on sm_90 138 instructions for 32
// samples with radius 15 and 78 with radius 7, so that the 12 levels of the default sigma-color take
// 1080p GRAY8 at least 103 and 58 µs at 1.98 GHz on 132 multiprocessors, if all tiles have all code values.
//
// float16 rounds each sum to 2^-11 of itself, and the mean to about a thousandth of sigma-color: from the
// same in float64 it is 80 dB away, when the levels are 60 to 80 from the full window.
//
// A block of 256 threads computes 64 columns by up to 64 rows. Level by level: each warp computes the
// words of four rows of the tile with its halo in a strip of its own and from them the sums across, a
// thread 8 of one row, for all rows; behind a barrier each thread computes the sums down of two runs of 8 rows
// of one column, and adds what the level gives to their means. What a run of 8 sums has in common, 8 taps
// by 8 taps, is read once. Levels that no sample of the tile is near are left out.
#include "half2.cuh"

constexpr int WIDTH = 64;
constexpr int THREADS = 256;
constexpr int WARPS = THREADS / WARP;
// Sums of a thread side by side, and taps at a time.
constexpr int RUN = 8;
// Rows of a strip.
constexpr int STRIP = WARP * RUN / WIDTH;
constexpr int COLUMNS_OF_THREADS = THREADS / WIDTH;
// Of a thread, with the highest tile.
constexpr int RUNS = 64 / RUN / COLUMNS_OF_THREADS;
static_assert(RUNS == 2);
// Words of an access.
constexpr int FOUR = 4;
// The largest weight is two to this: small ones are far from the denormals of float16.
constexpr float LARGER = 10.0f;

DEVICE float exp2_approximate(float exponent) {
    float power;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(power) : "f"(exponent));
    return power;
}

// Two floats as float16, the first in the lower half.
DEVICE u32 pair_of(float first, float second) {
    u32 pair;
    asm("{.reg .f16 low, high; cvt.rn.f16.f32 low, %1; cvt.rn.f16.f32 high, %2; mov.b32 %0, {low, high};}"
        : "=r"(pair)
        : "f"(first), "f"(second));
    return pair;
}

// Fours of words eight apart, as the threads of an access read them, meet all banks with every second
// run of eight fours having neighbours exchanged.
DEVICE int swizzled_four(int four) { return four ^ (four >> 3 & 1); }

// sums[i] += weight * values[i], eight pairs in one statement, which takes less room in the PTX than eight.
DEVICE void add_tap(u32 (&sums)[RUN], u32 weight, const u32* values) {
    asm("fma.rn.f16x2 %0,%16,%8,%0;fma.rn.f16x2 %1,%16,%9,%1;fma.rn.f16x2 %2,%16,%10,%2;fma.rn.f16x2 %3,%16,%11,%3;"
        "fma.rn.f16x2 %4,%16,%12,%4;fma.rn.f16x2 %5,%16,%13,%5;fma.rn.f16x2 %6,%16,%14,%6;fma.rn.f16x2 %7,%16,%15,%7;"
        : "+r"(sums[0]), "+r"(sums[1]), "+r"(sums[2]), "+r"(sums[3]), "+r"(sums[4]), "+r"(sums[5]), "+r"(sums[6]), "+r"(sums[7])
        : "r"(values[0]), "r"(values[1]), "r"(values[2]), "r"(values[3]), "r"(values[4]), "r"(values[5]), "r"(values[6]),
          "r"(values[7]), "r"(weight));
}

// What all threads of a block know and none has a register left for.
struct Block {
    // Least and largest code value, then the last level.
    int least, most, last_level;
    // Whether the tile has elements that the border's constant stands for.
    int has_beyond;
    u32 next_channel;
};

struct Tile {
    const CudaconvFastLaunch& launch;
    const CudaconvJob& job;
    const CudaconvChannel& channel;
    // Words of a row of the tile and of a strip, and rows of the tile and of the sums across: what
    // outputs and taps, filled up to whole runs, may reach.
    int pitch, rows;
    // Sums across, strips of all warps.
    u32 *sums, *strips;
    // Code values, of bytes or of 16 bits: one kernel for both, since all that differs is this.
    void* codes;
    bool bytes;

    __device__ __forceinline__ Tile(const CudaconvFastLaunch& launch, const CudaconvJob& job,
                                    const CudaconvChannel& channel, u32* shared)
        : launch(launch), job(job), channel(channel) {
        pitch = WIDTH + launch.taps_x;
        rows = launch.frame.tile_height + launch.taps_y;
        sums = shared;
        strips = sums + rows * WIDTH;
        codes = strips + WARPS * STRIP * pitch;
        bytes = launch.frame.sample == CUDACONV_U8;
    }

    // Of the first output: computed again where it is needed, which is rarely, and no register kept.
    __device__ __forceinline__ int x0() const { return blockIdx.x * WIDTH; }
    __device__ __forceinline__ int y0() const { return (blockIdx.y - job.first_tile_row) * launch.frame.tile_height; }

    __device__ __forceinline__ void load(volatile Block& block) const {
        const CudaconvFrame& frame = launch.frame;
        const int left = x0() - static_cast<int>(launch.radius_x), top = y0() - static_cast<int>(launch.radius_y);
        const int width = min(static_cast<int>(job.width) - x0(), WIDTH);
        const int height = min(static_cast<int>(job.height) - y0(), static_cast<int>(frame.tile_height));
        const int last = frame.tile_height + 2 * launch.radius_y - 1;
        int least = 0xffff, most = 0;
        for_each_element(pitch, rows, is_inside(job, left, top, pitch, rows), threadIdx.x, THREADS,
                         [&](int row, int column, bool inside) {
            // The rows that fill up the taps need not be there yet.
            int x = left + column, y = top + min(row, last);
            if (!inside) {
                // What lies beyond under CUDACONV_CONSTANT is told apart later.
                x = max(border_position(frame.border, x, job.width), 0);
                y = max(border_position(frame.border, y, job.height), 0);
            }
            const cudaconv_u64 from = input_at(channel, x, y);
            const int place = row * pitch + column;
            int code;
            if (bytes) {
                code = read_sample<u8>(from);
                static_cast<u8*>(codes)[place] = code;
            } else {
                code = code_of(frame, read_sample<u16>(from));
                static_cast<u16*>(codes)[place] = code;
            }
            const u32 own_x = column - launch.radius_x, own_y = row - launch.radius_y;
            if (own_x < static_cast<u32>(width) && own_y < static_cast<u32>(height)) {
                least = min(least, code);
                most = max(most, code);
            }
        });
#pragma unroll
        for (int distance = WARP / 2; distance > 0; distance /= 2) {
            least = min(least, __shfl_xor_sync(~0u, least, distance));
            most = max(most, __shfl_xor_sync(~0u, most, distance));
        }
        if (lane() == 0) {
            atomicMin(const_cast<int*>(&block.least), least);
            atomicMax(const_cast<int*>(&block.most), most);
        }
    }

    // Four code values from element `4 * four` on, as floats.
    __device__ __forceinline__ void read_codes(int four, float (&values)[FOUR]) const {
        if (bytes) {
            const u32 word = static_cast<const u32*>(codes)[four];
#pragma unroll
            for (int i = 0; i < FOUR; ++i) values[i] = __uint_as_float(__byte_perm(word, 0x4b000000, 0x7440 + i)) - WHOLE;
        } else {
            const uint2 words = static_cast<const uint2*>(codes)[four];
#pragma unroll
            for (int i = 0; i < FOUR; ++i)
                values[i] = __uint_as_float(__byte_perm(i < 2 ? words.x : words.y, 0x4b000000, i % 2 ? 0x7432 : 0x7410)) - WHOLE;
        }
    }

    // The border's constant, which need not be a code value, for those of four elements that it is.
    __device__ __forceinline__ void set_beyond(int four, float (&values)[FOUR]) const {
        const int element = four * FOUR, row = element / pitch, column = element - row * pitch;
        const int y = y0() - static_cast<int>(launch.radius_y) + row;
        const int x = x0() - static_cast<int>(launch.radius_x) + column;
        const u32 width = static_cast<u32>(y) < job.height ? job.width : 0;
        const float beyond = channel.beyond + channel.zero;
#pragma unroll
        for (int i = 0; i < FOUR; ++i) values[i] = static_cast<u32>(x + i) < width ? values[i] : beyond;
    }

    // t = (code - level) * scale for a level whose `offset` is -level * scale; g = exp2(-t^2).
    __device__ __forceinline__ float distance(float code, float offset) const { return fmaf(code, launch.scale, offset); }

    // Weights and products of the rows from `first` on, into the strip of the warp.
    __device__ __forceinline__ void weigh(u32* strip, int first, float offset, bool has_beyond) const {
#pragma unroll 1
        for (int four = lane(); four < STRIP * pitch / FOUR; four += WARP) {
            const int from = first * pitch / FOUR + four;
            float values[FOUR];
            read_codes(from, values);
            if (has_beyond) set_beyond(from, values);
            u32 pairs[FOUR];
#pragma unroll
            for (int i = 0; i < FOUR; ++i) {
                const float t = distance(values[i], offset);
                const float weight = exp2_approximate(fmaf(-t, t, LARGER));
                pairs[i] = pair_of(weight, weight * t);
            }
            reinterpret_cast<uint4*>(strip)[swizzled_four(four)] = make_uint4(pairs[0], pairs[1], pairs[2], pairs[3]);
        }
    }

    // The sums across of the rows of a strip.
    __device__ __forceinline__ void sum_across(const u32* strip, int first) const {
        const int row = lane() / (WIDTH / RUN), run = lane() % (WIDTH / RUN);
        int four = (row * pitch + run * RUN) / FOUR;
        const auto load_run = [&](u32 (&to)[RUN]) {
            const int place = swizzled_four(four);
            const uint4 low = reinterpret_cast<const uint4*>(strip)[place];
            const uint4 high = reinterpret_cast<const uint4*>(strip)[place ^ 1];
            to[0] = low.x, to[1] = low.y, to[2] = low.z, to[3] = low.w;
            to[4] = high.x, to[5] = high.y, to[6] = high.z, to[7] = high.w;
            four += RUN / FOUR;
        };
        u32 sum[RUN];
        add_taps(sum, launch.weights[0], launch.taps_x, load_run);
        const int place = (first + row) * WIDTH / FOUR + run * RUN / FOUR;
        reinterpret_cast<uint4*>(sums)[swizzled_four(place)] = make_uint4(sum[0], sum[1], sum[2], sum[3]);
        reinterpret_cast<uint4*>(sums)[swizzled_four(place + 1)] = make_uint4(sum[4], sum[5], sum[6], sum[7]);
    }

    // Adds eight taps of the values in `first` and, behind them, `second` to eight sums.
    static __device__ __forceinline__ void add_run(u32 (&sum)[RUN], const u32 (&first)[RUN], const u32 (&second)[RUN],
                                                   const u32* weights) {
        u32 values[2 * RUN];
#pragma unroll
        for (int i = 0; i < RUN; ++i) values[i] = first[i], values[RUN + i] = second[i];
#pragma unroll
        for (int tap = 0; tap < RUN; ++tap) add_tap(sum, weights[tap], values + tap);
    }

    // Eight sums of `taps` weighted values each. `load_run` gives eight values after the other; even and
    // odd runs of them take turns, so that none is moved.
    template <typename Load>
    static __device__ __forceinline__ void add_taps(u32 (&sum)[RUN], const u32 (&weights)[CUDACONV_FAST_TAPS], int taps,
                                                    Load load_run) {
#pragma unroll
        for (int i = 0; i < RUN; ++i) sum[i] = 0;
        // Of the radii 4 to 7 and 12 to 15: with the addresses of the weights known, these are operands.
        if (taps == 2 * RUN) return add_known_taps<2>(sum, weights, load_run);
        if (taps == 4 * RUN) return add_known_taps<4>(sum, weights, load_run);
        u32 even[RUN], odd[RUN];
        load_run(even);
#pragma unroll 1
        for (int tap = 0; tap < taps; tap += RUN) {
            load_run(odd);
            add_run(sum, even, odd, weights + tap);
#pragma unroll
            for (int i = 0; i < RUN; ++i) even[i] = odd[i];
        }
    }

    template <int RUNS_OF_TAPS, typename Load>
    static __device__ __forceinline__ void add_known_taps(u32 (&sum)[RUN], const u32 (&weights)[CUDACONV_FAST_TAPS],
                                                          Load load_run) {
        u32 even[RUN], odd[RUN];
        load_run(even);
#pragma unroll
        for (int run = 0; run < RUNS_OF_TAPS; run += 2) {
            load_run(odd);
            add_run(sum, even, odd, weights + run * RUN);
            load_run(even);
            add_run(sum, odd, even, weights + (run + 1) * RUN);
        }
    }

    // The sums down of the rows from `first` on.
    __device__ __forceinline__ void sum_down(u32 (&sum)[RUN], int column, int first) const {
        const u32* from = sums + first * WIDTH + (column ^ (column >> 3 & 4));
        add_taps(sum, launch.weights[1], launch.taps_y, [&](u32 (&to)[RUN]) {
#pragma unroll
            for (int i = 0; i < RUN; ++i) to[i] = from[i * WIDTH];
            from += RUN * WIDTH;
        });
    }

    // The code value of `count` outputs of a column from row `first` on.
    template <int COUNT>
    __device__ __forceinline__ void read_own(float (&own)[COUNT], int column, int first) const {
        const int place = (first + launch.radius_y) * pitch + column + launch.radius_x;
        u32 read[COUNT];
        if (bytes) {
            const u8* from = static_cast<const u8*>(codes) + place;
#pragma unroll
            for (int i = 0; i < COUNT; ++i, from += pitch) read[i] = *from;
        } else {
            const u16* from = static_cast<const u16*>(codes) + place;
#pragma unroll
            for (int i = 0; i < COUNT; ++i, from += pitch) read[i] = *from;
        }
#pragma unroll
        for (int i = 0; i < COUNT; ++i) own[i] = float_of(read[i]);
    }
};

// Sums over the levels, of the differences of means from the sample, in units of t, and of the weights,
// in the upper and the lower half.
DEVICE u32 add_level(u32 total, u32 sum, float t, float reach) {
    const float share = fabsf(t) <= reach ? exp2_approximate(-t * t) : 0.0f;
    // The product as the difference from the sample: less t times the weight.
    const u32 difference = fma_pairs(pair_of(-t, -t), sum << 16, sum);
    return fma_pairs(pair_of(share, share), difference, total);
}

DEVICE void filter_channel(const Tile& tile, volatile Block& block) {
    const CudaconvFastLaunch& launch = tile.launch;
    if (threadIdx.x == 0) block.least = 0xffff, block.most = 0;
    __syncthreads();
    tile.load(block);
    __syncthreads();
    const float spacing = launch.spacing, reach = launch.reach / launch.scale;
    const int from = max(static_cast<int>(floorf((block.least - reach - launch.first) / spacing)), 0);
    const int to = min(static_cast<int>(ceilf((block.most + reach - launch.first) / spacing)), static_cast<int>(launch.count) - 1);
    if (threadIdx.x == 0) {
        block.last_level = to;
        block.has_beyond = launch.frame.border == CUDACONV_CONSTANT &&
                   !is_inside(tile.job, tile.x0() - static_cast<int>(launch.radius_x),
                              tile.y0() - static_cast<int>(launch.radius_y), tile.pitch, tile.rows);
    }
    __syncthreads();

    const CudaconvFrame& frame = launch.frame;
    const int height = frame.tile_height, warp = threadIdx.x / WARP;
    const int column = threadIdx.x % WIDTH, first_run = threadIdx.x / WIDTH;
    u32* strip = tile.strips + warp * STRIP * tile.pitch;
    u32 totals[RUNS][RUN] = {};
#pragma unroll 1
    for (int k = from; k <= block.last_level; ++k) {
        const float offset = -fmaf(static_cast<float>(k), launch.spacing, launch.first) * launch.scale;
#pragma unroll 1
        for (int row = warp * STRIP; row < tile.rows; row += WARPS * STRIP) {
            tile.weigh(strip, row, offset, block.has_beyond);
            __syncwarp();
            tile.sum_across(strip, row);
            __syncwarp();
        }
        __syncthreads();
        // The runs change places instead of being unrolled: half the code.
#pragma unroll 1
        for (int n = 0; n < RUNS; ++n) {
            const int first = (first_run + n * COLUMNS_OF_THREADS) * RUN;
            if (first < height) {
                u32 sum[RUN];
                tile.sum_down(sum, column, first);
float own[RUN];
                tile.read_own(own, column, first);
#pragma unroll
                for (int i = 0; i < RUN; ++i)
                    totals[0][i] = add_level(totals[0][i], sum[i], tile.distance(own[i], offset), launch.reach);
            }
#pragma unroll
            for (int i = 0; i < RUN; ++i) {
                const u32 total = totals[0][i];
                totals[0][i] = totals[1][i];
                totals[1][i] = total;
            }
        }
        __syncthreads();
    }
    // Through shared memory, so that rows are written in a loop.
#pragma unroll
    for (int n = 0; n < RUNS; ++n) {
        const int first = (first_run + n * COLUMNS_OF_THREADS) * RUN;
        if (first >= height) break;
#pragma unroll
        for (int i = 0; i < RUN; ++i) tile.sums[(first + i) * WIDTH + column] = totals[n][i];
    }
    __syncthreads();
    const int x = tile.x0() + column, end = min(height, static_cast<int>(tile.job.height) - tile.y0());
    if (x >= static_cast<int>(tile.job.width)) return;
#pragma unroll 1
    for (int row = first_run; row < end; row += COLUMNS_OF_THREADS) {
        const u32 total = tile.sums[row * WIDTH + column];
        const float difference = __fdiv_rn(second_of(total), first_of(total) * launch.scale);
        float own[1];
        tile.read_own(own, column, row);
        const float result = own[0] - tile.channel.zero + difference;
        if (tile.bytes) write_result<u8>(frame, tile.channel, x, tile.y0() + row, result);
        else write_result<u16>(frame, tile.channel, x, tile.y0() + row, result);
    }
}

extern __shared__ uint4 shared[];

// A channel that is not filtered, sample by sample.
DEVICE void copy_or_fill_channel(const CudaconvFrame& frame, const CudaconvJob& job, const CudaconvChannel& channel) {
    const int x = blockIdx.x * WIDTH + threadIdx.x % WIDTH;
    const int y0 = (blockIdx.y - job.first_tile_row) * frame.tile_height;
    const int end = min(y0 + static_cast<int>(frame.tile_height), static_cast<int>(job.height));
    if (x >= static_cast<int>(job.width)) return;
#pragma unroll 1
    for (int y = y0 + threadIdx.x / WIDTH; y < end; y += COLUMNS_OF_THREADS) {
        if (frame.sample == CUDACONV_U8) copy_or_fill<u8>(frame, channel, x, y);
        else copy_or_fill<u16>(frame, channel, x, y);
    }
}

// Blocks of a multiprocessor: as many as have room in shared memory with radius 15.
constexpr int BLOCKS = 4;

#ifdef BILATERAL_FAST
extern "C" __global__ void __launch_bounds__(THREADS, BLOCKS)
    bilateral_fast(const __grid_constant__ CudaconvFastLaunch launch) {
    __shared__ volatile Block block;
    const CudaconvFrame& frame = launch.frame;
    // One number from which all addresses of the job come: by way of a shuffle, or the assembler keeps
    // the job's index beside it, in a register that is not there.
    const u32 offset = __shfl_sync(~0u, job_of(frame, blockIdx.y) * static_cast<u32>(sizeof(CudaconvJob)), 0);
    const CudaconvJob& job = *reinterpret_cast<const CudaconvJob*>(reinterpret_cast<const char*>(frame.jobs) + offset);
    if (blockIdx.x >= job.tiles_across) return;
    u32 c = 0;
#pragma unroll 1
    while (c < job.channel_count) {
        const CudaconvChannel& channel = job.channels[c];
        __syncthreads();
        if (threadIdx.x == 0) block.next_channel = c + 1;
        __syncthreads();
        if (channel.action == CUDACONV_FILTER) {
            filter_channel(Tile(launch, job, channel, reinterpret_cast<u32*>(shared)), block);
        } else {
            copy_or_fill_channel(frame, job, channel);
        }
        c = block.next_channel;
    }
}
#endif
