// Correlation of 8-bit samples with kernels that are not separable, on the matrix units.
//
// Weights are whole numbers times one scale, and each of these is one to three digits from -128 to 127
// to the base 256: products with the first digit of all weights, times 256, then products with the second on
// top, and so on. All that is exact modulo 2^32, and the host sees to it that the last sum is below 2^31.
// Whole weights are their own digits: all sums are then whole numbers below 2^24 and the bytes those
// of every other order of additions. Other weights differ a little from their digits, and additions in
// float32 round, but by no more than the host can tell (`tolerance`): results that lie so near to the middle
// between two codes that this could decide, a few of a hundred in pictures with noise, are computed once more, in the
// canonical order. So the bytes are the canonical ones here, too.
//
// Bytes: each sample read once and written once, 1 µs for 1080p GRAY8. Operations of a warp for 16
// columns of 8 rows: one matrix product for each row of the kernel, up to 17 taps wide, and each digit, and 45 to
// divide, round and pack; for 15 x 15 taps of one digit 60, where vector arithmetic takes 900 multiply-adds.
//
// A product is of a band matrix of weights, 16 outputs by 32 samples of a row, and a matrix of 32
// samples of 8 rows; kernels wider than 17 taps take two or three of them. Rows of the second may begin
// anywhere, so the products of one row of the kernel differ from those of the next in the rows alone.
// Its fragments lie in shared memory as they are needed: each is read once and multiplied with the weights
// of as many rows of the kernel as are 8 rows apart, for outputs that are as far apart. The channels of
// packed jobs are taken apart before and put together afterwards. The matrices of weights come from the host
// (`src/engine/cuda/abi/band.rs`).
//
// A block of 128 threads computes 128 columns by 32 rows, a warp 64 by 16. On an H200 15 x 15 taps of 1080p GRAY8 take
// 10 µs by one digit, of which the products are 1.7, and 13 by two; RGBA takes 26 and 33. To decide what is in doubt
// costs 4 µs for weights that sum to 1 and 8 for ones of which the positive sum to 2.6: a result takes its products one
// by one, so the time is that of one, whatever there are up to 128. Three digits, of which fewer are in doubt, are no
// faster but where one weight is much larger than all others. At worst, in a level picture whose results all lie in the
// middle, all are computed twice, which is two to three times what `convolve_tile_u8` takes.
//
// Needs compute_80.
#include "common.cuh"

constexpr int WARPS = 4;
constexpr int THREADS = WARPS * WARP;
// Of a multiprocessor: with more, registers do not suffice.
constexpr int BLOCKS = 5;
// Of the products: outputs of a row, rows.
constexpr int OUTPUTS = 16;
constexpr int GROUP = 8;
// Of a warp: products beside and below each other.
constexpr int PRODUCTS = 4;
constexpr int GROUPS = 2;
// Of a thread, of a group.
constexpr int RESULTS = PRODUCTS * 4;
static_assert(GROUPS * RESULTS <= 32, "bits");
// Results of a block that are computed once more at a time.
constexpr u32 MOST_DOUBTS = 254;
// Warps beside each other.
constexpr int ACROSS = 2;
constexpr int WIDTH = ACROSS * PRODUCTS * OUTPUTS;
constexpr int HEIGHT = WARPS / ACROSS * GROUPS * GROUP;
// Rows of the kernel whose weights a thread has at a time, 8 apart.
constexpr int APART = 2;
// Digits for which all matrices are in shared memory, if they are few enough.
constexpr int RESIDENT = 2;
// Samples of a channel that are loaded and stored at a time.
constexpr int UNIT = 8;
constexpr int WORD = 4;
// Of the tile with its halo.
constexpr int MOST_COLUMNS = WIDTH + 2 * CUDACONV_MAX_RADIUS;
constexpr int MOST_ROWS = HEIGHT + 2 * CUDACONV_MAX_RADIUS;

// The weights of up to 16 rows of the kernel for one product each, in shared memory.
struct Matrices {
    uint4 words[APART * GROUP][WARP];
};

// What all blocks have in common.
struct Window {
    int left, above;  // samples of the tile before the outputs, whole units across
    int columns, rows, pitch;
    int slices;       // products for each row of the kernel
    int digits;
    bool single;

    __device__ __forceinline__ explicit Window(const CudaconvConvolveLaunch& launch) : digits(launch.digits) {
        const CudaconvTaps& taps = launch.kernels[0];
        const int radius = taps.width / 2;
        left = (radius + UNIT - 1) / UNIT * UNIT;
        above = taps.height / 2;
        columns = WIDTH + 2 * left;
        rows = HEIGHT + 2 * above;
        slices = (left + radius + OUTPUTS + 31) / 32;
        // An odd number of 16 bytes: eight rows of them meet all banks.
        pitch = WIDTH + 32 * slices - OUTPUTS;
        single = slices == 1 && taps.height <= APART * GROUP && digits <= RESIDENT;
    }

    // Whether all matrices are in shared memory at once.
    __device__ __forceinline__ bool are_there() const { return single; }
    // How many `Matrices` there is room for.
    __device__ __forceinline__ int room() const { return single ? digits : 1; }
};

// --- Packed samples ------------------------------------------------------------------------------

// Four samples of each of so many interleaved channels, and the same channel by channel.
template <int CHANNELS>
DEVICE void split(u32 (&w)[CHANNELS]) {
    if constexpr (CHANNELS == 2) {
        const u32 first = __byte_perm(w[0], w[1], 0x6420);
        w[1] = __byte_perm(w[0], w[1], 0x7531);
        w[0] = first;
    } else if constexpr (CHANNELS == 3) {
        const u32 first = __byte_perm(__byte_perm(w[0], w[1], 0x0630), w[2], 0x5210);
        const u32 second = __byte_perm(__byte_perm(w[0], w[1], 0x0741), w[2], 0x6210);
        w[2] = __byte_perm(__byte_perm(w[0], w[1], 0x0052), w[2], 0x7410);
        w[0] = first, w[1] = second;
    } else if constexpr (CHANNELS == 4) {
        const u32 a = __byte_perm(w[0], w[1], 0x5140), b = __byte_perm(w[2], w[3], 0x5140);
        const u32 c = __byte_perm(w[0], w[1], 0x7362), d = __byte_perm(w[2], w[3], 0x7362);
        w[0] = __byte_perm(a, b, 0x5410), w[1] = __byte_perm(a, b, 0x7632);
        w[2] = __byte_perm(c, d, 0x5410), w[3] = __byte_perm(c, d, 0x7632);
    }
}

template <int CHANNELS>
DEVICE void join(u32 (&w)[CHANNELS]) {
    if constexpr (CHANNELS == 2) {
        const u32 first = __byte_perm(w[0], w[1], 0x5140);
        w[1] = __byte_perm(w[0], w[1], 0x7362);
        w[0] = first;
    } else if constexpr (CHANNELS == 3) {
        const u32 first = __byte_perm(__byte_perm(w[0], w[1], 0x1040), w[2], 0x3410);
        const u32 second = __byte_perm(__byte_perm(w[1], w[2], 0x2051), w[0], 0x3610);
        w[2] = __byte_perm(__byte_perm(w[2], w[0], 0x3072), w[1], 0x3710);
        w[0] = first, w[1] = second;
    } else if constexpr (CHANNELS == 4) {
        // Four by four bytes are transposed.
        split(w);
    }
}

// One unit.
template <int CHANNELS>
struct Unit {
    u32 words[2][CHANNELS] = {};

    __device__ __forceinline__ void read(cudaconv_u64 address) {
        u32 all[2 * CHANNELS];
#pragma unroll
        for (int i = 0; i < CHANNELS; ++i) {
            const uint2 two = read_sample<uint2>(address + i * sizeof(uint2));
            all[2 * i] = two.x, all[2 * i + 1] = two.y;
        }
#pragma unroll
        for (int i = 0; i < 2 * CHANNELS; ++i) words[i / CHANNELS][i % CHANNELS] = all[i];
    }

    __device__ __forceinline__ void write(cudaconv_u64 address) const {
#pragma unroll
        for (int i = 0; i < CHANNELS; ++i) {
            const int a = 2 * i, b = 2 * i + 1;
            write_sample(address + i * sizeof(uint2),
                         make_uint2(words[a / CHANNELS][a % CHANNELS], words[b / CHANNELS][b % CHANNELS]));
        }
    }
};

// Channels of a job that lie together, with the planes of those that are filtered.
struct Channels {
    const CudaconvFrame& frame;
    const CudaconvJob& job;
    int first;
    // Of the tile in shared memory.
    u8* tile;
    int plane_bytes;

    __device__ __forceinline__ const CudaconvChannel& at(int c) const { return job.channels[first + c]; }
    __device__ __forceinline__ bool is_filtered(int c) const { return at(c).action == CUDACONV_FILTER; }
};

// Copies of bytes to shared memory that a thread does not wait for.
template <int BYTES>
DEVICE void copy_later(void* to, cudaconv_u64 from) {
    asm volatile("cp.async.ca.shared.global [%0], [%1], %2;"
                 :: "r"(static_cast<u32>(__cvta_generic_to_shared(to))), "l"(from), "n"(BYTES) : "memory");
}

DEVICE void wait_for_copies() { asm volatile("cp.async.wait_all;" ::: "memory"); }

// The matrices of `rows` rows of the kernel, of which the first and the ninth come first.
DEVICE void load_matrices(Matrices& matrices, const uint4* from, int rows) {
    const int row = threadIdx.x / WARP;
#pragma unroll
    for (int i = 0; i < APART * GROUP; i += WARPS)
        if ((i + row) / APART + (i + row) % APART * GROUP < rows)
            copy_later<sizeof(uint4)>(&matrices.words[i + row][lane()],
                                      reinterpret_cast<cudaconv_u64>(from + (i + row) * WARP + lane()));
}

// --- 1. The tile ---------------------------------------------------------------------------------

// What no output needs.
constexpr int UNNEEDED = -2;

// Where the columns and rows of a tile at the edge are found in the picture.
struct alignas(16) Positions {
    short of_column[MOST_COLUMNS];
    short of_row[MOST_ROWS];

    __device__ __forceinline__ void find(const Channels& channels, const Window& window, int x0, int y0) {
        const auto find = [&](short* positions, int count, int first, int length, int beyond) {
#pragma unroll 1
            for (int i = threadIdx.x; i < count; i += THREADS)
                positions[i] = first + i < length + beyond ? border_position(channels.frame.border, first + i, length)
                                                           : UNNEEDED;
        };
        find(of_column, window.columns, x0, channels.job.width, window.left);
        find(of_row, window.rows, y0, channels.job.height, window.above);
    }
};

// The code beyond the edge, four times. The host sees to it that it is a byte.
DEVICE u32 codes_beyond(const CudaconvChannel& channel) {
    return static_cast<u32>(channel.beyond + channel.zero) * 0x01010101u;
}

template <int CHANNELS>
DEVICE void store_unit(const Channels& channels, Unit<CHANNELS>& unit, int place) {
    split(unit.words[0]);
    split(unit.words[1]);
    u8* plane = channels.tile + place;
#pragma unroll
    for (int c = 0; c < CHANNELS; ++c) {
        if (!channels.is_filtered(c)) continue;
        *reinterpret_cast<uint2*>(plane) = make_uint2(unit.words[0][c], unit.words[1][c]);
        plane += channels.plane_bytes;
    }
}

// Units that lie in the picture, or in the row that stands for theirs.
template <int CHANNELS>
DEVICE void load_units(const Channels& channels, const Window& window, const Positions& positions, int x0, int y0,
                       bool inside) {
    const CudaconvChannel& first = channels.at(0);
    const int width = channels.job.width;
    const int across = window.columns / UNIT, count = across * window.rows;
    const int rows_apart = THREADS / across, units_apart = THREADS % across;
    constexpr int BATCH = CHANNELS == 2 ? 4 : 2;
    Walk walk(across, threadIdx.x);
    const auto is_taken = [&](int x, int& y) {
        if (inside) return true;
        y = positions.of_row[walk.row];
        return x >= 0 && x + UNIT <= width && y >= 0;
    };
    if constexpr (CHANNELS == 1) {
        // Nothing is to be taken apart.
#pragma unroll 2
        for (; walk.index < count; walk.step(across, THREADS, rows_apart, units_apart)) {
            const int x = x0 + walk.column * UNIT;
            int y = y0 + walk.row;
            if (is_taken(x, y))
                copy_later<UNIT>(channels.tile + walk.row * window.pitch + walk.column * UNIT,
                                 first.input + (static_cast<u32>(y) * first.input_stride + x));
        }
    } else {
#pragma unroll 1
        while (walk.index < count) {
            Unit<CHANNELS> units[BATCH];
            int places[BATCH];
#pragma unroll
            for (int i = 0; i < BATCH; ++i) {
                const int x = x0 + walk.column * UNIT;
                int y = y0 + walk.row;
                const bool taken = walk.index < count && is_taken(x, y);
                places[i] = taken ? walk.row * window.pitch + walk.column * UNIT : -1;
                if (taken) units[i].read(first.input + (static_cast<u32>(y) * first.input_stride + x * CHANNELS));
                walk.step(across, THREADS, rows_apart, units_apart);
            }
#pragma unroll
            for (int i = 0; i < BATCH; ++i)
                if (places[i] >= 0) store_unit(channels, units[i], places[i]);
        }
    }
}

// The words of a tile at the edge that `load_units` leaves out, beside the picture and of rows beyond it.
DEVICE void gather_words(const Channels& channels, const Window& window, const Positions& positions, int count, int x0) {
    const int width = channels.job.width;
    // Words to the left of the units in the picture, and from there on.
    const int left = x0 < 0 ? min(-x0, window.columns) / WORD : 0;
    const int all = window.columns / WORD;
    const int right = min(max(left, (width - x0) / UNIT * (UNIT / WORD)), all);
    u8* plane = channels.tile;
#pragma unroll 1
    for (int c = 0; c < count; ++c) {
        if (!channels.is_filtered(c)) continue;
        const CudaconvChannel& channel = channels.at(c);
        const u32 beyond = codes_beyond(channel);
        // All words of rows beyond the picture.
#pragma unroll 1
        for (int row = threadIdx.x / WARP; row < window.rows; row += WARPS) {
            if (positions.of_row[row] != BEYOND) continue;
#pragma unroll 1
            for (int i = lane(); i < all; i += WARP) reinterpret_cast<u32*>(plane + row * window.pitch)[i] = beyond;
        }
        const int words = left + all - right;
#pragma unroll 1
        for (int i = threadIdx.x; i < words * window.rows; i += THREADS) {
            const int row = i / words, y = positions.of_row[row];
            if (y < 0) continue;
            const int word = i % words < left ? i % words : i % words - left + right;
            const short4 at = *reinterpret_cast<const short4*>(positions.of_column + word * WORD);
            const int places[WORD] = {at.x, at.y, at.z, at.w};
            u32 codes = 0;
#pragma unroll
            for (int k = 0; k < WORD; ++k) {
                // All are loaded, so that none waits for another.
                const u32 code = read_sample<u8>(input_at(channel, max(places[k], 0), y));
                codes |= (places[k] == BEYOND ? beyond & 0xff : code) << 8 * k;
            }
            reinterpret_cast<u32*>(plane + row * window.pitch)[word] = codes;
        }
        plane += channels.plane_bytes;
    }
}

// --- 2. Sums -------------------------------------------------------------------------------------

// d + a b, with a of 16 x 32 weights, b of 32 x 8 samples and d of 16 x 8 sums.
DEVICE void multiply(int (&d)[4], const uint4& a, u32 b0, u32 b1) {
    asm("mma.sync.aligned.m16n8k32.row.col.s32.s8.u8.s32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
        : "+r"(d[0]), "+r"(d[1]), "+r"(d[2]), "+r"(d[3])
        : "r"(a.x), "r"(a.y), "r"(a.z), "r"(a.w), "r"(b0), "r"(b1));
}

// 16 bytes of 8 rows each, five times.
DEVICE void load_fragments(u32 (&fragments)[PRODUCTS + 1], u32 address) {
    static_assert(PRODUCTS == 4);
    // The memory is said to be changed so that reads stay behind the stores before them.
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(fragments[0]), "=r"(fragments[1]), "=r"(fragments[2]), "=r"(fragments[3])
                 : "r"(address) : "memory");
    asm volatile("ldmatrix.sync.aligned.m8n8.x1.shared.b16 {%0}, [%1];"
                 : "=r"(fragments[4]) : "r"(address + PRODUCTS * OUTPUTS) : "memory");
}

using Sums = int[GROUPS][PRODUCTS][4];

// Adds the products of TOGETHER rows of the kernel, 8 apart, with 32 columns of samples.
template <int TOGETHER>
DEVICE void add_rows(Sums& sums, const uint4 (*matrices)[WARP], u32 address, int pitch) {
    uint4 weights[TOGETHER];
#pragma unroll
    for (int k = 0; k < TOGETHER; ++k) weights[k] = matrices[k][lane()];
#pragma unroll
    for (int step = 0; step < GROUPS + TOGETHER - 1; ++step) {
        u32 samples[PRODUCTS + 1];
        load_fragments(samples, address + step * GROUP * pitch);
#pragma unroll
        for (int k = 0; k < TOGETHER; ++k) {
            if (step < k || step - k >= GROUPS) continue;
#pragma unroll
            for (int j = 0; j < PRODUCTS; ++j) multiply(sums[step - k][j], weights[k], samples[j], samples[j + 1]);
        }
    }
}

// Adds the products of a warp with one digit of the weights. `from` is the address of its first samples for this
// thread. Matrices that are not there yet are taken from `all_matrices`, which moves on.
DEVICE void add_products(Sums& sums, const CudaconvTaps& taps, const Window& window, const uint4*& all_matrices,
                         Matrices& matrices, u32 from) {
    const int height = taps.height;
#pragma unroll 1
    for (int row = 0; row < height; row += APART * GROUP) {
#pragma unroll 1
        for (int slice = 0; slice < window.slices; ++slice) {
            if (!window.are_there()) {
                __syncthreads();
                load_matrices(matrices, all_matrices, height - row);
                all_matrices += APART * GROUP * WARP;
                wait_for_copies();
                __syncthreads();
            }
            u32 address = from + row * window.pitch + slice * 32;
#pragma unroll 1
            for (int phase = 0; phase < GROUP; ++phase, address += window.pitch) {
                const int left = height - row - phase;
                if (left > GROUP) add_rows<APART>(sums, matrices.words + phase * APART, address, window.pitch);
                else if (left > 0) add_rows<1>(sums, matrices.words + phase * APART, address, window.pitch);
            }
        }
    }
}

// Each sum becomes what `change` makes of it.
template <typename Change>
DEVICE void change_each(Sums& sums, Change change) {
#pragma unroll
    for (int r = 0; r < GROUPS; ++r)
#pragma unroll
        for (int j = 0; j < PRODUCTS; ++j)
#pragma unroll
            for (int k = 0; k < 4; ++k) sums[r][j][k] = change(sums[r][j][k]);
}

// The sums of a warp, to which `start` is added.
DEVICE void sum_up(Sums& sums, const CudaconvTaps& taps, const Window& window, const uint4* all_matrices,
                   Matrices* matrices, u32 from, int start) {
    const int first = window.digits == 1 ? start : 0;
    change_each(sums, [&](int) { return first; });
#pragma unroll 1
    for (int digit = 0; digit < window.digits; ++digit) {
        const int added = digit + 1 == window.digits ? start : 0;
        if (digit > 0) change_each(sums, [&](int sum) { return static_cast<int>(sum * 256u + added); });
        add_products(sums, taps, window, all_matrices, matrices[window.are_there() ? digit : 0], from);
    }
}

// --- 3. Codes ------------------------------------------------------------------------------------

// The weights in the order of the canonical evaluation and results that are computed by them, as many as there is room
// for at a time.
struct alignas(16) Doubts {
    u32 count;
    // Where results are, row by row; then their codes.
    u16 places[MOST_DOUBTS];

    // They lie behind, lines of whole fours.
    __device__ __forceinline__ float4* weights() { return reinterpret_cast<float4*>(this + 1); }
    __device__ __forceinline__ const float4* weights() const { return reinterpret_cast<const float4*>(this + 1); }

    __device__ __forceinline__ void load_weights(const CudaconvConvolveLaunch& launch) {
        const CudaconvTaps& taps = launch.kernels[0];
        const int fours = line_of(taps.width) / 4 * taps.height;
#pragma unroll 1
        for (int i = threadIdx.x; i < fours; i += THREADS)
            copy_later<sizeof(float4)>(weights() + i, launch.weights + i * sizeof(float4));
    }
};

// The code at the centre of a window of samples of which the first is at `samples`, computed in the canonical order.
DEVICE u32 canonical_code(const Doubts& doubts, const CudaconvConvolveLaunch& launch, const CudaconvChannel& channel,
                          const u8* samples, int pitch) {
    const CudaconvTaps& taps = launch.kernels[0];
    const int fours = line_of(taps.width) / 4, rows = taps.height;
    const u32 shift = reinterpret_cast<size_t>(samples) % WORD * 8;
    const u32* words = reinterpret_cast<const u32*>(samples - shift / 8);
    // A whole number, so all differences are.
    const float zero = WHOLE + channel.zero;
    const float4* weights = doubts.weights();
    float sum = 0.0f;
#pragma unroll 1
    for (int row = 0; row < rows; ++row, words += pitch / WORD, weights += fours) {
        u32 word = words[0];
#pragma unroll 4
        for (int i = 0; i < fours; ++i) {
            // Weights behind the last are zero, and samples are finite numbers.
            const u32 next = words[i + 1], codes = __funnelshift_r(word, next, shift);
            const float4 four = weights[i];
            const auto value = [&](u32 which) { return __uint_as_float(__byte_perm(codes, 0x4b000000u, which)) - zero; };
            sum = fmaf(four.x, value(0x7650), sum);
            sum = fmaf(four.y, value(0x7651), sum);
            sum = fmaf(four.z, value(0x7652), sum);
            sum = fmaf(four.w, value(0x7653), sum);
            word = next;
        }
    }
    return round_to_code(divided(launch, sum) + channel.offset, 255.0f);
}

// The next group of sums moves up, so that the code for one is there once.
DEVICE void move_up(Sums& sums) {
#pragma unroll
    for (int k = 0; k + 1 < GROUPS; ++k)
#pragma unroll
        for (int j = 0; j < PRODUCTS; ++j)
#pragma unroll
            for (int i = 0; i < 4; ++i) sums[k][j][i] = sums[k + 1][j][i];
}

// Replaces the samples of a warp's tile of a plane, whose first result of a thread is at `to`, by the codes of sums that
// are the sums of the products with the weights themselves.
DEVICE void store_whole(Sums& sums, const CudaconvConvolveLaunch& launch, const CudaconvChannel& channel, u8* to,
                        int pitch) {
    const auto code = [&](int sum) {
        return round_to_code(divided(launch, __int2float_rn(sum)) + channel.offset, 255.0f);
    };
#pragma unroll 1
    for (int r = 0; r < GROUPS; ++r, to += GROUP * pitch) {
#pragma unroll
        for (int j = 0; j < PRODUCTS; ++j) {
            const int (&sum)[4] = sums[0][j];
            *reinterpret_cast<u16*>(to + j * OUTPUTS) = code(sum[0]) | code(sum[2]) << 8;
            *reinterpret_cast<u16*>(to + pitch + j * OUTPUTS) = code(sum[1]) | code(sum[3]) << 8;
        }
        move_up(sums);
    }
}

// Codes of a thread: two columns of a row, of the next row, for each product.
using Codes = u32[GROUPS][PRODUCTS];

// The codes nearest to what becomes of sums. Also tells which could be others in the canonical order: a bit for each,
// group by group.
DEVICE u32 find_codes(Codes& codes, Sums& sums, const CudaconvConvolveLaunch& launch, const CudaconvChannel& channel) {
    u32 doubtful = 0;
    const bool decisive = launch.tolerance != 0.0f;
    const float most = 0.5f - launch.tolerance;
#pragma unroll 1
    for (int r = 0; r < GROUPS; ++r) {
        float values[PRODUCTS][4];
#pragma unroll
        for (int j = 0; j < PRODUCTS; ++j)
#pragma unroll
            for (int i = 0; i < 4; ++i) {
                const float value = fmaf(__int2float_rn(sums[0][j][i]), launch.factor, channel.offset);
                values[j][i] = fminf(fmaxf(value, 0.0f), 255.0f);
            }
        if (decisive) {
#pragma unroll
            for (int j = 0; j < PRODUCTS; ++j)
#pragma unroll
                for (int i = 0; i < 4; ++i) {
                    const float nearest = (values[j][i] + WHOLE) - WHOLE;
                    if (fabsf(values[j][i] - nearest) > most) doubtful |= 1u << (4 * j + i) << r * RESULTS;
                }
        }
        move_up(sums);
#pragma unroll
        for (int j = 0; j < PRODUCTS; ++j) {
            const auto code = [&](int i) { return __float_as_uint(values[j][i] + WHOLE); };
            const u32 first = __byte_perm(code(0), code(2), 0x0040), second = __byte_perm(code(1), code(3), 0x0040);
#pragma unroll
            for (int k = 0; k + 1 < GROUPS; ++k) codes[k][j] = codes[k + 1][j];
            codes[GROUPS - 1][j] = __byte_perm(first, second, 0x5410);
        }
    }
    return doubtful;
}

// Where a result of a thread lies among those of its block, row by row. It has two columns of two rows of each product.
DEVICE int place_of(int result) {
    const int warp = threadIdx.x / WARP;
    const int row = (warp / ACROSS * GROUPS + result / RESULTS) * GROUP + lane() % 4 * 2 + result % 2;
    const int column = (warp % ACROSS * PRODUCTS + result / 4 % PRODUCTS) * OUTPUTS + lane() / 4 * 2 + result / 2 % 2;
    return row * WIDTH + column;
}

// The last two bits of codes, a bit for each result of a thread.
struct Endings {
    u32 low = 0, high = 0;
};

// The codes of `doubtful` results in the canonical order. `samples` is the first sample that the first output of the
// block needs. All threads of the block take part.
DEVICE Endings decide(u32 doubtful, Doubts& doubts, const CudaconvConvolveLaunch& launch,
                      const CudaconvChannel& channel, const u8* samples, int pitch) {
    Endings endings;
    while (__syncthreads_or(doubtful != 0)) {
        if (threadIdx.x == 0) doubts.count = 0;
        __syncthreads();
        const u32 first = doubtful != 0 ? atomicAdd(&doubts.count, __popc(doubtful)) : 0;
        u32 left = doubtful;
#pragma unroll 1
        for (u32 i = first; left != 0 && i < MOST_DOUBTS; ++i, left &= left - 1) doubts.places[i] = place_of(__ffs(left) - 1);
        __syncthreads();
        const int count = min(doubts.count, MOST_DOUBTS);
#pragma unroll 1
        for (int i = threadIdx.x; i < count; i += THREADS) {
            const int place = doubts.places[i];
            const u8* from = samples + place / WIDTH * pitch + place % WIDTH;
            doubts.places[i] = canonical_code(doubts, launch, channel, from, pitch);
        }
        __syncthreads();
#pragma unroll 1
        for (u32 i = first; doubtful != left; ++i, doubtful &= doubtful - 1) {
            const u32 code = doubts.places[i], bit = doubtful & -doubtful;
            if (code & 1) endings.low |= bit;
            if (code & 2) endings.high |= bit;
        }
    }
    return endings;
}

// Replaces the samples of a tile of a plane by the codes of `sums`. All threads of the block take part.
DEVICE void replace(Sums& sums, Doubts& doubts, const CudaconvConvolveLaunch& launch, const CudaconvChannel& channel,
                    u8* plane, int before, int pitch) {
    const int first = place_of(0);
    u8* to = plane + first / WIDTH * pitch + first % WIDTH;
    if (launch.factor == 0.0f) {
        __syncthreads();
        store_whole(sums, launch, channel, to, pitch);
        return;
    }
    Codes codes;
    u32 doubtful = find_codes(codes, sums, launch, channel);
    const Endings endings = decide(doubtful, doubts, launch, channel, plane + before, pitch);
#pragma unroll
    for (int r = 0; r < GROUPS; ++r, to += GROUP * pitch)
#pragma unroll
        for (int j = 0; j < PRODUCTS; ++j) {
            *reinterpret_cast<u16*>(to + j * OUTPUTS) = static_cast<u16>(codes[r][j]);
            *reinterpret_cast<u16*>(to + pitch + j * OUTPUTS) = static_cast<u16>(codes[r][j] >> 16);
        }
    // They are right or neighbours of what is right.
#pragma unroll 1
    for (; doubtful != 0; doubtful &= doubtful - 1) {
        const int result = __ffs(doubtful) - 1, place = place_of(result);
        u8& code = plane[place / WIDTH * pitch + place % WIDTH];
        const u32 apart = (endings.low >> result & 1 | (endings.high >> result & 1) << 1) - code & 3;
        code = static_cast<u8>(apart == 3 ? code - 1 : code + apart);
    }
}

// --- 4. Rows -------------------------------------------------------------------------------------

// Units that lie in the picture.
template <int CHANNELS>
DEVICE void write_units(const Channels& channels, int pitch, int x0, int y0) {
    const CudaconvJob& job = channels.job;
    const CudaconvChannel& first = channels.at(0);
    constexpr int ACROSS_TILE = WIDTH / UNIT;
    bool copied = false;
#pragma unroll
    for (int c = 0; c < CHANNELS; ++c) copied = copied || channels.at(c).action == CUDACONV_COPY;
#pragma unroll 1
    for (int i = threadIdx.x; i < ACROSS_TILE * HEIGHT; i += THREADS) {
        const int row = i / ACROSS_TILE, column = i % ACROSS_TILE * UNIT;
        const int x = x0 + column, y = y0 + row;
        if (x + UNIT > static_cast<int>(job.width) || y >= static_cast<int>(job.height)) continue;
        Unit<CHANNELS> unit;
        if (copied) {
            unit.read(first.input + (static_cast<u32>(y) * first.input_stride + x * CHANNELS));
            split(unit.words[0]);
            split(unit.words[1]);
        }
        const u8* plane = channels.tile + row * pitch + column;
#pragma unroll
        for (int c = 0; c < CHANNELS; ++c) {
            if (channels.is_filtered(c)) {
                const uint2 two = *reinterpret_cast<const uint2*>(plane);
                unit.words[0][c] = two.x, unit.words[1][c] = two.y;
                plane += channels.plane_bytes;
            } else if (channels.at(c).action == CUDACONV_FILL) {
                unit.words[0][c] = unit.words[1][c] = channels.at(c).fill * 0x01010101u;
            }
        }
        join(unit.words[0]);
        join(unit.words[1]);
        unit.write(first.output + (static_cast<u32>(y) * first.output_stride + x * CHANNELS));
    }
}

// The ends of rows that are no whole units.
DEVICE void write_ends(const Channels& channels, int pitch, int count, int x0, int y0) {
    const int width = channels.job.width, height = channels.job.height;
    const int begin = width / UNIT * UNIT;
    if (begin < x0 || begin >= x0 + WIDTH) return;
    const u8* plane = channels.tile + begin - x0;
#pragma unroll 1
    for (int c = 0; c < count; ++c) {
        const CudaconvChannel& channel = channels.at(c);
#pragma unroll 1
        for (int i = threadIdx.x; i < HEIGHT * UNIT; i += THREADS) {
            const int x = begin + i % UNIT, row = i / UNIT;
            if (x >= width || y0 + row >= height) continue;
            if (channels.is_filtered(c)) write_sample(output_at(channel, x, y0 + row), plane[row * pitch + i % UNIT]);
            else copy_or_fill<u8>(channels.frame, channel, x, y0 + row);
        }
        if (channels.is_filtered(c)) plane += channels.plane_bytes;
    }
}

// --- A tile --------------------------------------------------------------------------------------

DEVICE void filter(const Channels& channels, int count, const CudaconvConvolveLaunch& launch, const Window& window,
                   const uint4* all_matrices, Matrices* matrices, Doubts& doubts) {
    const CudaconvTaps& taps = launch.kernels[0];
    const int warp = threadIdx.x / WARP;
    const int column = warp % ACROSS * PRODUCTS * OUTPUTS, row = warp / ACROSS * GROUPS * GROUP;
    const int before = window.left - static_cast<int>(taps.width / 2);
    u8* plane = channels.tile;
#pragma unroll 1
    for (int c = 0; c < count; ++c) {
        if (!channels.is_filtered(c)) continue;
        const CudaconvChannel& channel = channels.at(c);
        const int start = -static_cast<int>(channel.zero) * launch.sum_of_digits;
        const u8* from = plane + (row + lane() % GROUP) * window.pitch + column + lane() / GROUP * OUTPUTS;
        Sums sums;
        sum_up(sums, taps, window, all_matrices, matrices, static_cast<u32>(__cvta_generic_to_shared(from)), start);
        replace(sums, doubts, launch, channel, plane, before, window.pitch);
        plane += channels.plane_bytes;
    }
    __syncthreads();
}

extern __shared__ uint4 shared[];

#ifdef CONVOLVE_MATRIX_U8
extern "C" __global__ void __launch_bounds__(THREADS, BLOCKS)
    convolve_matrix_u8(const __grid_constant__ CudaconvConvolveLaunch launch) {
    const CudaconvFrame& frame = launch.frame;
    const CudaconvJob& job = frame.jobs[job_of(frame, blockIdx.y)];
    if (blockIdx.x >= job.tiles_across) return;
    const int x0 = blockIdx.x * WIDTH, y0 = (blockIdx.y - job.first_tile_row) * HEIGHT;
    const Window window(launch);
    Matrices* matrices = reinterpret_cast<Matrices*>(shared);
    Positions& positions = *reinterpret_cast<Positions*>(matrices + window.room());
    u8* tile = reinterpret_cast<u8*>(&positions + 1);
    // They are there if there can be any.
    Doubts& doubts = *reinterpret_cast<Doubts*>(tile);
    if (launch.tolerance != 0.0f) {
        doubts.load_weights(launch);
        tile = reinterpret_cast<u8*>(doubts.weights() + line_of(launch.kernels[0].width) / 4 * launch.kernels[0].height);
    }
    Channels channels = {frame, job, 0, tile, window.pitch * window.rows};
    // The matrices lie behind the weights.
    const CudaconvTaps& taps = launch.kernels[0];
    const uint4* all_matrices = reinterpret_cast<const uint4*>(launch.weights) + line_of(taps.width) / 4 * taps.height;
    if (window.are_there())
        for (int digit = 0; digit < window.digits; ++digit)
            load_matrices(matrices[digit], all_matrices + digit * (APART * GROUP * WARP), taps.height);
    const bool inside = is_inside(job, x0 - window.left, y0 - window.above, window.columns, window.rows);
    if (!inside) positions.find(channels, window, x0 - window.left, y0 - window.above);
    // All channels of a packed job at once, else one after the other.
    const int count = job.packed ? job.channel_count : 1;
#pragma unroll 1
    for (; channels.first < static_cast<int>(job.channel_count); channels.first += count) {
        __syncthreads();
        const int x = x0 - window.left, y = y0 - window.above;
        switch (count) {
            case 1: load_units<1>(channels, window, positions, x, y, inside); break;
            case 2: load_units<2>(channels, window, positions, x, y, inside); break;
            case 3: load_units<3>(channels, window, positions, x, y, inside); break;
            default: load_units<4>(channels, window, positions, x, y, inside);
        }
        if (!inside) gather_words(channels, window, positions, count, x);
        wait_for_copies();
        __syncthreads();
        filter(channels, count, launch, window, all_matrices, matrices, doubts);
        switch (count) {
            case 1: write_units<1>(channels, window.pitch, x0, y0); break;
            case 2: write_units<2>(channels, window.pitch, x0, y0); break;
            case 3: write_units<3>(channels, window.pitch, x0, y0); break;
            default: write_units<4>(channels, window.pitch, x0, y0);
        }
        write_ends(channels, window.pitch, count, x0, y0);
    }
}
#endif
