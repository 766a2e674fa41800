// The bilateral by weighted levels, as src/filter/levels.rs defines it: at each level k two separable
// Gaussians, of the weights g(in - L_k) and of their products with in - L_k, and from these, weighted
// by g(c - L_k), the mean around every sample c.
//
// Bytes: as bilateral.cu. Both Gaussians are products with band matrices, of float16 with sums in
// float32, on the matrix units, 16 x 8 x 8 at a time. Operations for 32 samples and level with radius 15: 7.5 products of
// 4 cycles; 2.25 weights, each an exponential (8 cycles) and 5 more instructions; 9 instructions to load
// weights and to pack, store and load sums; for the mean 16 and an exponential. Issue bounds it: counted on sm_90
// 70 instructions for 32 samples and level, so that the 12 levels of the default sigma-color take 1080p GRAY8 at least
// 52 µs at 1.98 GHz on 132 multiprocessors, if all tiles have all code values.
// Measured, it is about half of that bound: a sixth of the time warps wait at the two barriers of a level. Pairs of float16
// on the vector units take 1.5 times as long with radius 7 and 1.9 times with 15; 80 registers and three blocks a
// multiprocessor a tenth more, and so do weights in registers, from which each product needs two next to each other, moved
// there.
//
// float16 rounds each sum to 2^-11 of itself, and the mean to about a thousandth of sigma-color: from the
// same in float64 it is 80 dB away, when the levels are 60 to 80 from the full window.
//
// A block of 256 threads computes 64 columns by up to 64 rows, level by level. Across, a warp
// multiplies the transposed rows: weights (16 outputs by 16 columns at a time) times samples (16 columns by 8
// rows), which the threads compute from code values where the product wants them. Its result, packed,
// is what a thread needs in the product down, weights (16 outputs by 8 rows at a time) times sums (8 rows by
// 8 columns): 16 bytes of a thread in shared memory that the same lane of another warp reads. Levels
// that no sample of the tile is near are left out.
#include "half2.cuh"

constexpr int WIDTH = 64;
constexpr int THREADS = 256;
constexpr int WARPS = THREADS / WARP;
constexpr int COLUMNS_OF_THREADS = THREADS / WIDTH;
// Outputs of a product along its axis; rows of a group.
constexpr int LINE = 16;
constexpr int GROUP = 8;
constexpr int ACROSS = WIDTH / LINE;
// Steps of 16 columns in the window of 16 outputs, at most.
constexpr int MOST_STEPS = 5;
// Units of 16 by 16 outputs of a warp, with the highest tile.
constexpr int UNITS = 64 / LINE * ACROSS / WARPS;
static_assert(UNITS == 2);
constexpr int FOUR = 4;
// The largest weight is two to this: small ones are far from the denormals of float16.
constexpr float LARGER = 10.0f;
// In a float of this size the second byte is a whole number of 0 to 255.
constexpr float BYTES_FROM = 32768.0f;

// threadIdx.x, read again: what follows from it is then not kept in registers from one level to the next.
DEVICE u32 thread_again() {
    u32 thread;
    asm volatile("mov.u32 %0, %%tid.x;" : "=r"(thread));
    return thread;
}

// d + a b, with a of 16 x 8, b of 8 x 8 and d of 16 x 8.
DEVICE void multiply(float (&d)[4], u32 a0, u32 a1, u32 b) {
    asm("mma.sync.aligned.m16n8k8.row.col.f32.f16.f16.f32 {%0,%1,%2,%3},{%4,%5},{%6},{%0,%1,%2,%3};"
        : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
        : "r"(a0), "r"(a1), "r"(b));
}

// Columns beside the outputs on either side that a tile has, and steps across.
DEVICE int beside_of(int radius_x, bool bytes) { return bytes && radius_x <= 8 ? 8 : radius_x <= 16 ? 16 : 32; }
DEVICE int steps_of(int beside) { return 1 + beside / 8; }
// Groups of rows in the window of 16 outputs.
DEVICE int groups_of(int radius_y) { return 2 + (radius_y + 3) / 4; }

// What all threads of a block know and none has a register left for.
struct Block {
    // Least and largest code value, then the last level.
    int least, most, last_level;
    // Whether the tile has elements that the border's constant stands for.
    int has_beyond;
    u32 next_channel;
};

// Where a thread has its outputs in a unit.
struct Outputs {
    u32 column, row;

    __device__ __forceinline__ Outputs(u32 unit, u32 thread)
        : column(unit % ACROSS * LINE + thread % 4 * 2), row(unit / ACROSS * LINE + thread % WARP / 4) {}
};

struct Tile {
    const CudaconvFastLaunch& launch;
    const CudaconvJob& job;
    const CudaconvChannel& channel;
    int beside, pitch, groups;
    // Sums across: of a group of rows and 16 columns, four words of each lane.
    uint4* sums;
    // Of eight columns and a lane the weights across, of eight rows and a lane those down.
    uint2 *across, *down;
    // Code values, of bytes or of 16 bits: one kernel for both, since all that differs is this.
    void* codes;
    bool bytes;

    __device__ __forceinline__ Tile(const CudaconvFastLaunch& launch, const CudaconvJob& job,
                                    const CudaconvChannel& channel, uint4* shared)
        : launch(launch), job(job), channel(channel) {
        bytes = launch.frame.sample == CUDACONV_U8;
        beside = beside_of(launch.radius_x, bytes);
        // Eight rows of 16 bytes then lie in banks of their own.
        pitch = bytes ? (WIDTH + 2 * beside) | 16 : WIDTH + 2 * beside;
        groups = launch.frame.tile_height / GROUP + groups_of(launch.radius_y) - 2;
        sums = shared;
        codes = sums + groups * ACROSS * WARP;
        across = static_cast<uint2*>(codes) + groups * GROUP * pitch / (bytes ? 8 : 4);
        down = across + 2 * MOST_STEPS * WARP;
    }

    // Of the first output: computed again where it is needed, which is rarely, and no register kept.
    __device__ __forceinline__ int x0() const { return blockIdx.x * WIDTH; }
    __device__ __forceinline__ int y0() const { return (blockIdx.y - job.first_tile_row) * launch.frame.tile_height; }

    // The band matrices, two elements next to each other a word, of the upper and of the lower half of the outputs.
    __device__ __forceinline__ void load_weights() const {
        const int line = lane() / 4, column = lane() % 4 * 2;
#pragma unroll 1
        for (int i = threadIdx.x / WARP; i < 2 * (2 * MOST_STEPS + groups_of(launch.radius_y)); i += WARPS) {
            const int step = i / 2, axis = step < 2 * MOST_STEPS ? 0 : 1;
            const u32 radius = axis == 0 ? launch.radius_x : launch.radius_y;
            const int before = axis == 0 ? beside - static_cast<int>(radius) : 2 * MOST_STEPS * GROUP;
            const auto element = [&](int tap) {
                return static_cast<u32>(tap) <= 2 * radius ? launch.weights[axis][tap] : 0;
            };
            const int tap = step * GROUP + column - line - i % 2 * 8 - before;
            reinterpret_cast<u32*>(across + step * WARP + lane())[i % 2] = element(tap) | element(tap + 1) << 16;
        }
    }

    __device__ __forceinline__ u32 code_at(int x, int y) const {
        // What lies beyond under CUDACONV_CONSTANT is told apart later.
        x = max(border_position(launch.frame.border, x, job.width), 0);
        const cudaconv_u64 from = input_at(channel, x, y);
        return bytes ? read_sample<u8>(from) : code_of(launch.frame, read_sample<u16>(from));
    }

    // Four code values a time, as bytes or as words.
    __device__ __forceinline__ void load() const {
        const CudaconvFrame& frame = launch.frame;
        const int size = bytes ? 1 : 2;
        const int left = x0() - beside, top = y0() - static_cast<int>(launch.radius_y);
        const int last = frame.tile_height + 2 * launch.radius_y - 1;
        const bool whole = static_cast<int>(channel.step) == size && (channel.input | channel.input_stride) % (FOUR * size) == 0;
        const int fours = (WIDTH + 2 * beside) / FOUR, rows_apart = THREADS / fours, fours_apart = THREADS % fours;
        Walk walk(fours, threadIdx.x);
#pragma unroll 2
        for (; walk.row < groups * GROUP; walk.step(fours, THREADS, rows_apart, fours_apart)) {
            const int x = left + walk.column * FOUR;
            // The rows that fill up the groups need not be there yet.
            const int y = max(border_position(frame.border, top + min(walk.row, last), job.height), 0);
            const int place = walk.row * pitch + walk.column * FOUR;
            const bool inside = whole && x >= 0 && x + FOUR <= static_cast<int>(job.width);
            if (bytes) {
                u32 word = 0;
                if (inside) word = read_sample<u32>(input_at(channel, x, y));
                else
#pragma unroll 1
                    for (int i = FOUR - 1; i >= 0; --i) word = word << 8 | code_at(x + i, y);
                *reinterpret_cast<u32*>(static_cast<u8*>(codes) + place) = word;
            } else {
#pragma unroll 1
                for (int i = 0; i < FOUR; ++i) static_cast<u16*>(codes)[place + i] = code_at(x + i, y);
            }
        }
    }

    __device__ __forceinline__ float level(int k) const { return fmaf(static_cast<float>(k), launch.spacing, launch.first); }

    // t = (code - level) * scale of two bytes, with -(BYTES_FROM + level) * scale as `offset`; g = exp2(-t^2).
    __device__ __forceinline__ void distances_of_bytes(float (&t)[2], u32 two, float offset) const {
#pragma unroll
        for (int i = 0; i < 2; ++i)
            t[i] = fmaf(__uint_as_float(__byte_perm(two, 0x47000000, 0x7404 + i * 16)), launch.scale, offset);
    }

    // The same of two words.
    __device__ __forceinline__ void distances(float (&t)[2], u32 two, float offset) const {
#pragma unroll
        for (int i = 0; i < 2; ++i)
            t[i] = fmaf(__uint_as_float(__byte_perm(two, 0x4b000000, i ? 0x7432 : 0x7410)) - WHOLE, launch.scale, offset);
    }

    // The border's constant, which need not be a code value, for that of two elements that it is.
    __device__ __forceinline__ void set_beyond(float (&t)[2], int row, int column, float offset) const {
        const int y = y0() - static_cast<int>(launch.radius_y) + row, x = x0() - beside + column;
        const u32 width = static_cast<u32>(y) < job.height ? job.width : 0;
        const float beyond = fmaf(channel.beyond + channel.zero, launch.scale, offset);
#pragma unroll
        for (int i = 0; i < 2; ++i) t[i] = static_cast<u32>(x + i) < width ? t[i] : beyond;
    }

    // Weights and products of two columns in a row of the group, from their t.
    static __device__ __forceinline__ void weigh(u32 (&pairs)[2], const float (&t)[2]) {
        const float first = exp2_approximate(fmaf(-t[0], t[0], LARGER)), second = exp2_approximate(fmaf(-t[1], t[1], LARGER));
        pairs[0] = pair_of(first, second);
        pairs[1] = pair_of(first * t[0], second * t[1]);
    }

    // Sums of weights or products of 16 columns of a group of rows.
    struct Sums {
        float values[4] = {};
    };

    // Two rows to a word.
    __device__ __forceinline__ void store(int lane, int group, int unit_across, const Sums (&sum)[2]) const {
        const auto &weights = sum[0].values, &products = sum[1].values;
        sums[(group * ACROSS + unit_across) * WARP + lane] =
            make_uint4(pair_of(weights[0], weights[1]), pair_of(products[0], products[1]),
                       pair_of(weights[2], weights[3]), pair_of(products[2], products[3]));
    }

    // The sums across of a group of rows, with STEPS steps, of samples of which two are `Two`.
    template <int STEPS, typename Two>
    __device__ __forceinline__ void sum_across(int lane, int group, int k) const {
        constexpr bool BYTES = sizeof(Two) == sizeof(u16);
        const float offset = BYTES ? -((BYTES_FROM + level(k)) * launch.scale) : -(level(k) * launch.scale);
        const uint2* weights = across + lane;
        const Two* from = static_cast<const Two*>(codes) + (group * GROUP + lane / 4) * pitch / 2 + lane % 4;
        u32 window[2 * (STEPS + ACROSS - 1)][2];
#pragma unroll
        for (int step = 0; step < STEPS + ACROSS - 1; ++step) {
#pragma unroll
            for (int half = 0; half < 2; ++half) {
                float t[2];
                const u32 two = from[(step * LINE + half * GROUP) / 2];
                if (BYTES) distances_of_bytes(t, two, offset);
                else distances(t, two, offset);
                weigh(window[2 * step + half], t);
            }
            if (step < STEPS - 1) continue;
            Sums sum[2];
#pragma unroll
            for (int s = 0; s < 2 * STEPS; ++s) {
                const uint2 w = weights[s * WARP];
#pragma unroll
                for (int i = 0; i < 2; ++i) multiply(sum[i].values, w.x, w.y, window[2 * (step - STEPS + 1) + s][i]);
            }
            store(lane, group, step - STEPS + 1, sum);
        }
    }

    // The same of any samples with any number of steps, beyond the edge of the picture, too.
    __device__ __forceinline__ void sum_any_across(int lane, int group, int k, bool has_beyond) const {
        const float offset = -(level(k) * launch.scale);
        const int steps = 2 * steps_of(beside), first = 2 * MOST_STEPS - steps;
        const int row = group * GROUP + lane / 4, place = row * pitch + lane % 4 * 2;
        u32 window[2 * MOST_STEPS][2] = {};
#pragma unroll 1
        for (int step = 0; step < steps + 2 * (ACROSS - 1); ++step) {
            u32 two;
            if (bytes) {
                two = *reinterpret_cast<const u16*>(static_cast<const u8*>(codes) + place + step * GROUP);
                two = __byte_perm(two, 0, 0x4140);
            } else {
                two = *reinterpret_cast<const u32*>(static_cast<const u16*>(codes) + place + step * GROUP);
            }
            float t[2];
            distances(t, two, offset);
            if (has_beyond) set_beyond(t, row, step * GROUP + lane % 4 * 2, offset);
#pragma unroll
            for (int s = 0; s + 1 < 2 * MOST_STEPS; ++s)
#pragma unroll
                for (int i = 0; i < 2; ++i) window[s][i] = window[s + 1][i];
            weigh(window[2 * MOST_STEPS - 1], t);
            if (step < steps - 1 || step % 2 == 0) continue;
            Sums sum[2];
#pragma unroll
            for (int s = 0; s < 2 * MOST_STEPS; ++s) {
                if (s < first) continue;
                const uint2 w = across[(s - first) * WARP + lane];
#pragma unroll
                for (int i = 0; i < 2; ++i) multiply(sum[i].values, w.x, w.y, window[s][i]);
            }
            store(lane, group, (step - steps + 1) / 2, sum);
        }
    }

    // The sums down of a unit, from where those across of its first rows are: of eight columns, and of the eight beside
    // them, weights and products.
    __device__ __forceinline__ void sum_down(float (&sum)[2][2][4], const uint4* from, const uint2* weights) const {
#pragma unroll
        for (int i = 0; i < 4; ++i) sum[0][0][i] = sum[0][1][i] = sum[1][0][i] = sum[1][1][i] = 0.0f;
        const int count = groups_of(launch.radius_y);
#pragma unroll 1
        for (int group = 0; group < count; ++group) {
            const uint4 four = *from;
            const uint2 w = *weights;
            multiply(sum[0][0], w.x, w.y, four.x);
            multiply(sum[0][1], w.x, w.y, four.y);
            multiply(sum[1][0], w.x, w.y, four.z);
            multiply(sum[1][1], w.x, w.y, four.w);
            from += ACROSS * WARP;
            weights += WARP;
        }
    }

    __device__ __forceinline__ u32 own_code(int column, int row) const {
        const int place = (row + launch.radius_y) * pitch + column + beside;
        return bytes ? static_cast<const u8*>(codes)[place] : static_cast<const u16*>(codes)[place];
    }

    // Of a thread's outputs in a unit the code values, two as they lie.
    __device__ __forceinline__ void own_codes(u32 (&own)[4], const Outputs& outputs) const {
        // In words of two.
        const u32 place = ((outputs.row + launch.radius_y) * pitch + outputs.column + beside) / 2;
#pragma unroll
        for (int i = 0; i < 4; ++i) {
            const u32 at = place + i % 2 * 4 * pitch + i / 2 * 4;
            own[i] = bytes ? static_cast<const u16*>(codes)[at] : static_cast<const u32*>(codes)[at];
        }
    }

    // 2^23 and one of two code values as they lie.
    __device__ __forceinline__ float whole(u32 two, int k) const {
        return __uint_as_float(__byte_perm(two, 0x4b000000, bytes ? 0x7440 + k : 0x7410 + 0x22 * k));
    }
};

// Of a thread's eight outputs in a unit, two by two, sums over the levels of the differences of means from the
// sample, in units of t, and of the weights.
struct Unit {
    u32 differences[4], weights[4];
};

DEVICE void add_level(Unit& unit, const Tile& tile, const u32 (&own)[4], const float (&sum)[2][2][4], float offset) {
    const CudaconvFastLaunch& launch = tile.launch;
#pragma unroll
    for (int i = 0; i < 4; ++i) {
        float share[2], weight[2], difference[2];
#pragma unroll
        for (int k = 0; k < 2; ++k) {
            const float t = fmaf(tile.whole(own[i], k) - WHOLE, launch.scale, offset);
            share[k] = fabsf(t) <= launch.reach ? exp2_approximate(-t * t) : 0.0f;
            weight[k] = sum[i / 2][0][i % 2 * 2 + k];
            difference[k] = fmaf(-t, weight[k], sum[i / 2][1][i % 2 * 2 + k]);
        }
        const u32 shares = pair_of(share[0], share[1]);
        unit.weights[i] = fma_pairs(shares, pair_of(weight[0], weight[1]), unit.weights[i]);
        unit.differences[i] = fma_pairs(shares, pair_of(difference[0], difference[1]), unit.differences[i]);
    }
}

DEVICE void filter_channel(const Tile& tile, volatile Block& block) {
    const CudaconvFastLaunch& launch = tile.launch;
    const CudaconvFrame& frame = launch.frame;
    if (threadIdx.x == 0) block.least = 0xffff, block.most = 0;
    tile.load();
    __syncthreads();
    const int height = frame.tile_height;
    const u32 warp = threadIdx.x / WARP;
    const u32 count = height / LINE * ACROSS, of_warp = count > WARPS ? UNITS : 1;
    Unit units[UNITS];
    u32 least = 0xffff, most = 0;
#pragma unroll
    for (int n = 0; n < UNITS; ++n) {
        const Outputs outputs(warp * of_warp + n, threadIdx.x);
        u32 own[4] = {};
        if (n < of_warp && warp * of_warp + n < count) tile.own_codes(own, outputs);
#pragma unroll
        for (int i = 0; i < 4; ++i) {
            units[n].differences[i] = units[n].weights[i] = 0;
            if (n >= of_warp || warp * of_warp + n >= count) continue;
#pragma unroll
            for (int k = 0; k < 2; ++k) {
                const u32 code = __float_as_uint(tile.whole(own[i], k)) & 0xffff;
                least = min(least, code);
                most = max(most, code);
            }
        }
    }
#pragma unroll
    for (int distance = WARP / 2; distance > 0; distance /= 2) {
        least = min(least, __shfl_xor_sync(~0u, least, distance));
        most = max(most, __shfl_xor_sync(~0u, most, distance));
    }
    if (lane() == 0) {
        atomicMin(const_cast<int*>(&block.least), static_cast<int>(least));
        atomicMax(const_cast<int*>(&block.most), static_cast<int>(most));
    }
    __syncthreads();
    const float spacing = launch.spacing, reach = launch.reach / launch.scale;
    const int from = max(static_cast<int>(floorf((block.least - reach - launch.first) / spacing)), 0);
    const int to = min(static_cast<int>(ceilf((block.most + reach - launch.first) / spacing)), static_cast<int>(launch.count) - 1);
    if (threadIdx.x == 0) {
        block.last_level = to;
        block.has_beyond = launch.frame.border == CUDACONV_CONSTANT &&
                   !is_inside(tile.job, tile.x0() - tile.beside, tile.y0() - static_cast<int>(launch.radius_y),
                              WIDTH + 2 * tile.beside, tile.groups * GROUP);
    }
    __syncthreads();

#pragma unroll 1
    for (int k = from; k <= block.last_level; ++k) {
        const bool plain = !block.has_beyond;
        u32 thread = thread_again();
        // Taking turns, where there are more groups for some.
#pragma unroll 1
        for (int group = (thread / WARP + 2 * k) % WARPS; group < tile.groups; group += WARPS) {
            if (plain && tile.bytes && tile.beside == 8) tile.sum_across<2, u16>(thread % WARP, group, k);
            else if (plain && tile.bytes && tile.beside == 16) tile.sum_across<3, u16>(thread % WARP, group, k);
            else if (plain && tile.beside == 16) tile.sum_across<3, u32>(thread % WARP, group, k);
            else tile.sum_any_across(thread % WARP, group, k, block.has_beyond);
        }
        __syncthreads();
        thread = thread_again();
        const u32 unit = thread / WARP * of_warp;
        Outputs outputs(unit, thread);
        const uint4* from = tile.sums + (unit / ACROSS * 2 * ACROSS + unit % ACROSS) * WARP + thread % WARP;
#pragma unroll
        for (int n = 0; n < UNITS; ++n) {
            if (n >= of_warp || unit >= count) continue;
            float sum[2][2][4];
            tile.sum_down(sum, from, tile.down + thread % WARP);
            u32 own[4];
            tile.own_codes(own, outputs);
            add_level(units[n], tile, own, sum, -(tile.level(k) * launch.scale));
            from += WARP;
            outputs.column += LINE;
        }
        __syncthreads();
    }
    // Through shared memory, so that rows are written in a loop.
    u32* totals = reinterpret_cast<u32*>(tile.sums);
    const u32 thread = thread_again();
#pragma unroll
    for (int n = 0; n < UNITS; ++n) {
        const u32 unit = thread / WARP * of_warp + n;
        if (n >= of_warp || unit >= count) continue;
        const Outputs outputs(unit, thread);
#pragma unroll
        for (int i = 0; i < 4; ++i) {
            const u32 weights = units[n].weights[i], differences = units[n].differences[i];
            *reinterpret_cast<uint2*>(totals + (outputs.row + i % 2 * 8) * WIDTH + outputs.column + i / 2 * 8) =
                make_uint2(__byte_perm(weights, differences, 0x5410), __byte_perm(weights, differences, 0x7632));
        }
    }
    __syncthreads();
    const int column = thread % WIDTH, x = tile.x0() + column;
    const int end = min(height, static_cast<int>(tile.job.height) - tile.y0());
    if (x >= static_cast<int>(tile.job.width)) return;
#pragma unroll 1
    for (int row = thread / WIDTH; row < end; row += COLUMNS_OF_THREADS) {
        const u32 total = totals[row * WIDTH + column];
        const float difference = __fdiv_rn(second_of(total), first_of(total) * launch.scale);
        const float result = float_of(tile.own_code(column, row)) - tile.channel.zero + difference;
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
    Tile(launch, job, job.channels[0], shared).load_weights();
    u32 c = 0;
#pragma unroll 1
    while (c < job.channel_count) {
        const CudaconvChannel& channel = job.channels[c];
        __syncthreads();
        if (threadIdx.x == 0) block.next_channel = c + 1;
        __syncthreads();
        if (channel.action == CUDACONV_FILTER) {
            filter_channel(Tile(launch, job, channel, shared), block);
        } else {
            copy_or_fill_channel(frame, job, channel);
        }
        c = block.next_channel;
    }
}
#endif
