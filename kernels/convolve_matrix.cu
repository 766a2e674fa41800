// Correlation with kernels that are not separable, on the matrix units.
//
// Weights are whole numbers times one scale, and each of these is one to three digits from -128 to 127
// to the base 256; samples of 16 bits are two digits as well, their bytes. Products of digits are summed up exactly in
// 32 bits, those that are worth most first, then times 256 those that are worth less, and so on.
// - Whole weights are their own digits: all sums are whole numbers below 2^24 and the bytes those of every other order
//   of additions.
// - Other weights differ a little from their digits, and additions in float32 round, but by no more than the host can
//   tell (`tolerance`): results that lie so near to the middle between two codes that this could decide, a few of a
//   hundred in pictures with noise, are computed once more, in the canonical order (doubts.cuh). So the bytes
//   are the canonical ones here, too. With samples of 16 bits all sums would not go into 32: what is worth least comes
//   first, and is rounded when it meets what is worth 256 times as much.
//
// Bytes: each sample read once and written once, 1 µs for 1080p GRAY8. Operations of a warp for 16
// columns of 8 rows: one matrix product for each row of the kernel, up to 17 taps wide, and each pair of digits, and 40
// to divide, round and pack; for 15 x 15 taps of one digit 60, where vector arithmetic takes 900 multiply-adds.
//
// A product is of a band matrix of weights, 16 outputs by 32 samples of a row, and a matrix of 32
// samples of 8 rows; kernels wider than 17 taps take two or three of them. Rows of the second may begin
// anywhere, so the products of one row of the kernel differ from those of the next in the rows alone.
// Its fragments lie in shared memory as they are needed: each is read once and multiplied with the weights
// of as many rows of the kernel as are 8 rows apart, for outputs that are as far apart. The matrices of weights come
// from the host (`src/engine/cuda/abi/band.rs`).
//
// A block of 128 threads computes 128 columns by 32 rows, a warp 64 by 16. A picture of 1080p is one wave of blocks, which
// do the same at the same time: for 15 x 15 taps of GRAY8 a quarter of the time on an H200 is the launch, a quarter are
// the products, a quarter passes until all samples are there, of which most to ask for them, and a tenth to write codes.
// The last block to end counts. Those at the edge took a tenth longer, as each loop over rows or columns shows, also one
// that finds nothing to do. Asking for weights before samples, or for the lines of the parameter at once, changes nothing;
// higher tiles, or more or fewer warps, are slower; a place of their own for codes, of which no warp waits for others, gains
// nothing. Two digits take a third longer. To decide what is in doubt takes about half as long as the rest. Three digits,
// of which fewer are in doubt, are no faster for bytes but where one weight is much larger than all others.
// At worst, in a level picture whose results all lie in the middle, all are computed twice, which is two to three times
// what `convolve_tile_u8` takes.
//
// Needs compute_80.
#include "bands.cuh"
#include "doubts.cuh"

// The weights of up to 16 rows of the kernel for one product each, in shared memory.
struct Matrices {
    uint4 words[APART * GROUP][WARP];
};
static_assert(sizeof(Matrices) >= 2 * PLANE, "codes take their place");

// The matrices of `rows` rows of the kernel, of which the first and the ninth come first.
DEVICE void load_matrices(Matrices& matrices, const uint4* from, int rows) {
    const int row = threadIdx.x / WARP;
#pragma unroll 1
    for (int i = 0; i < APART * GROUP; i += WARPS)
        if ((i + row) / APART + (i + row) % APART * GROUP < rows)
            copy_later<sizeof(uint4)>(&matrices.words[i + row][lane()],
                                      reinterpret_cast<cudaconv_u64>(from + (i + row) * WARP + lane()));
}

// --- Sums ----------------------------------------------------------------------------------------

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

// Adds the products of a row of the kernel, or of it and the one 8 rows below, with 32 columns of samples.
template <bool BOTH>
DEVICE void add_rows(Sums& sums, const uint4 (*matrices)[WARP], u32 address, int pitch) {
    static_assert(GROUPS == 2 && APART == 2);
    const uint4 upper = matrices[0][lane()], lower = matrices[1][lane()];
    u32 first[PRODUCTS + 1], second[PRODUCTS + 1], third[PRODUCTS + 1];
    load_fragments(first, address);
    load_fragments(second, address + GROUP * pitch);
    if constexpr (BOTH) load_fragments(third, address + 2 * GROUP * pitch);
#pragma unroll
    for (int j = 0; j < PRODUCTS; ++j) multiply(sums[0][j], upper, first[j], first[j + 1]);
#pragma unroll
    for (int j = 0; j < PRODUCTS; ++j) multiply(sums[1][j], upper, second[j], second[j + 1]);
    if constexpr (BOTH) {
#pragma unroll
        for (int j = 0; j < PRODUCTS; ++j) multiply(sums[0][j], lower, second[j], second[j + 1]);
#pragma unroll
        for (int j = 0; j < PRODUCTS; ++j) multiply(sums[1][j], lower, third[j], third[j + 1]);
    }
}

// The digits of weights: in device memory, and in shared memory those that there is room for.
struct Digits {
    const CudaconvTaps& taps;
    const Window& window;
    const uint4* all;
    Matrices* matrices;
    // Which are in shared memory.
    int there[PLACES];

    // The first are worth most.
    __device__ __forceinline__ const uint4* find(int digit) const {
        const int bands = (taps.height + APART * GROUP - 1) / (APART * GROUP) * window.slices;
        return all + (window.digits - 1 - digit) * bands * (APART * GROUP * WARP);
    }

    // Its place in shared memory, where all matrices of a digit are there at once.
    __device__ __forceinline__ int place_of(int digit) const {
        return window.single ? (window.digits - 1 - digit) % PLACES : 0;
    }

    // Begins to copy those that are needed first.
    __device__ __forceinline__ void begin(int first, int next) {
        if (!window.single) return;
        load(first);
        if (window.digits > 1) load(next);
    }

    __device__ __forceinline__ void load(int digit) {
        const int place = place_of(digit);
        load_matrices(matrices[place], find(digit), taps.height);
#pragma unroll
        for (int i = 0; i < PLACES; ++i)
            if (place == i) there[i] = digit;
    }

    // What was at the first place is no more.
    __device__ __forceinline__ void forget() { there[0] = -1; }

    // Adds the products of a warp with one. `from` is the address of its first samples for this thread. All threads
    // of the block take part.
    __device__ __forceinline__ void add_products(Sums& sums, int digit, u32 from) {
        const int height = taps.height, place = place_of(digit);
        const uint4* next = find(digit);
        const bool is_there = window.single && (place == 0 ? there[0] : there[1]) == digit;
#pragma unroll 1
        for (int row = 0; row < height; row += APART * GROUP) {
#pragma unroll 1
            for (int slice = 0; slice < window.slices; ++slice) {
                const int left = height - row;
                if (!is_there) {
                    __syncthreads();
                    load_matrices(matrices[place], next, left);
                    next += APART * GROUP * WARP;
                    wait_for_copies();
                    __syncthreads();
                }
                // First the rows that have one 8 rows below.
                const int pairs = min(left - GROUP, GROUP), phases = min(left, GROUP);
                u32 address = from + row * window.pitch + slice * 32;
                int phase = 0;
#pragma unroll 1
                for (; phase < pairs; ++phase, address += window.pitch)
                    add_rows<true>(sums, matrices[place].words + phase * APART, address, window.pitch);
#pragma unroll 1
                for (; phase < phases; ++phase, address += window.pitch)
                    add_rows<false>(sums, matrices[place].words + phase * APART, address, window.pitch);
            }
        }
        if (place == 0) there[0] = digit;
        else there[1] = digit;
    }
};

// Digits of which sums with samples of 16 bits are rounded.
constexpr int ROUNDED = 3;

// The sums of a warp.
template <typename Sample>
DEVICE void sum_up(Sums& sums, Digits& digits, u32 from, int plane_bytes) {
    constexpr int BYTES = sizeof(Sample);
    const int count = digits.window.digits;
    const bool rounded = BYTES == 2 && count == ROUNDED;
    // Products are worth 256 to the power of the sum of the places of both digits. Those that are worth least are
    // left out where others are rounded.
    const int steps = rounded ? count : count + BYTES - 1;
    int worth = rounded ? 1 : steps - 1, byte = BYTES - 1, step = 1;
    const auto change_each = [&](auto change) {
#pragma unroll
        for (int r = 0; r < GROUPS; ++r)
#pragma unroll
            for (int j = 0; j < PRODUCTS; ++j)
#pragma unroll
                for (int k = 0; k < 4; ++k) sums[r][j][k] = change(sums[r][j][k]);
    };
    change_each([](int) { return 0; });
#pragma unroll 1
    while (true) {
        if (BYTES == 1 || static_cast<u32>(worth - byte) < static_cast<u32>(count))
            digits.add_products(sums, worth - byte, from + byte * plane_bytes);
        if (--byte >= 0) continue;
        if (step++ == steps) break;
        byte = BYTES - 1;
        worth += rounded ? 1 : -1;
        const u32 by = rounded ? 1 : 256, half = rounded ? 128 : 0, shift = rounded ? 8 : 0;
        if (BYTES == 1) change_each([&](int sum) { return static_cast<int>(sum * 256u); });
        else change_each([&](int sum) { return static_cast<int>(sum * by + half) >> shift; });
    }
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

// --- Codes ---------------------------------------------------------------------------------------

// Stores two neighbouring codes, a plane for each byte of their samples.
template <typename Sample>
DEVICE void store_two(u8* to, int plane_bytes, const CudaconvFrame& frame, u32 first, u32 second) {
    if constexpr (sizeof(Sample) == 1) {
        *reinterpret_cast<u16*>(to) = __byte_perm(first, second, 0x0040);
    } else {
        const u32 two = lowered(frame, __byte_perm(first, second, 0x5410));
        *reinterpret_cast<u16*>(to) = __byte_perm(two, 0, 0x4420);
        *reinterpret_cast<u16*>(to + plane_bytes) = __byte_perm(two, 0, 0x4431);
    }
}

// What 1 / divisor is more than its nearest float32.
DEVICE float rest_of_reciprocal(const CudaconvConvolveLaunch& launch) {
    return fmaf(-launch.reciprocal, launch.divisor, 1.0f) * launch.reciprocal;
}

// Replaces the samples of a warp's tile of a plane by the codes of sums, `start` added, that are those of the products
// with the weights themselves. The divisor and what is added are whole numbers: results lie in the middle between two codes or
// so far from it that no rounding matters, and those in the middle are exact, as twice the quotient is then.
DEVICE void store_whole(Sums& sums, int start, const CudaconvConvolveLaunch& launch, const CudaconvChannel& channel,
                        u8* plane, int pitch) {
    u8* to = plane + row_of(0) * pitch + column_of(0);
    const float rest = rest_of_reciprocal(launch);
    const auto code = [&](int whole) {
        const float sum = __int2float_rn(whole + start), value = fmaf(sum, launch.reciprocal, sum * rest) + channel.offset;
        return __float_as_uint(fminf(fmaxf(value, 0.0f), 255.0f) + WHOLE);
    };
#pragma unroll
    for (int r = 0; r < GROUPS; ++r, to += GROUP * pitch) {
#pragma unroll
        for (int j = 0; j < PRODUCTS; ++j) {
            const int (&sum)[4] = sums[r][j];
            store_two<u8>(to + j * OUTPUTS, 0, launch.frame, code(sum[0]), code(sum[2]));
            store_two<u8>(to + pitch + j * OUTPUTS, 0, launch.frame, code(sum[1]), code(sum[3]));
        }
    }
}

// Stores the codes nearest to what becomes of sums with `start` added. Also tells which could be others in the canonical
// order: a bit for each, group by group.
template <typename Sample>
DEVICE u32 store_nearest(Sums& sums, int start, const CudaconvConvolveLaunch& launch, float offset, u8* codes) {
    const CudaconvFrame& frame = launch.frame;
    const float largest = sizeof(Sample) == 1 ? 255.0f : frame.max_code;
    u32 doubtful = 0;
    // Of digits that are the weights themselves all sums are exact, as in `store_whole`.
    const bool exact = sizeof(Sample) == 2 && launch.digits != ROUNDED;
    const float rest = exact ? rest_of_reciprocal(launch) * power_of_two(-spare_bits(frame)) : 0.0f;
    const bool decisive = launch.tolerance != 0.0f;
    const float most = 0.5f - launch.tolerance;
    // Of 16 bits it is half as much again to compile, and no faster.
#pragma unroll (sizeof(Sample) == 1 ? GROUPS : 1)
    for (int r = 0; r < GROUPS; ++r) {
        u32 codes_of_four[PRODUCTS][4];
        u32 bits = 0;
#pragma unroll
        for (int j = 0; j < PRODUCTS; ++j)
#pragma unroll
            for (int i = 0; i < 4; ++i) {
                const float sum = __int2float_rn(sums[0][j][i] + start);
                float value;
                if (sizeof(Sample) == 2) value = fmaf(sum, launch.factor, sum * rest) + offset;
                else value = fmaf(sum, launch.factor, offset);
                value = fminf(fmaxf(value, 0.0f), largest);
                const float code = value + WHOLE;
                if (fabsf(value - (code - WHOLE)) > most) bits |= 1u << 4 * j + i;
                codes_of_four[j][i] = __float_as_uint(code);
            }
        if (decisive) doubtful |= bits << r * RESULTS;
        move_up(sums);
        const int row = row_of(r * RESULTS);
#pragma unroll
        for (int j = 0; j < PRODUCTS; ++j) {
            const u32 (&four)[4] = codes_of_four[j];
            const int column = column_of(4 * j);
            store_two<Sample>(codes + code_place(row, column), PLANE, frame, four[0], four[2]);
            store_two<Sample>(codes + code_place(row + 1, column), PLANE, frame, four[1], four[3]);
        }
    }
    return doubtful;
}

// --- A tile --------------------------------------------------------------------------------------

template <typename Sample, bool NEAR>
DEVICE void filter(const Channels<Sample>& channels, int count, const CudaconvConvolveLaunch& launch, Digits& digits,
                   Doubts& doubts, u8* codes) {
    const Window& window = digits.window;
    const int warp = threadIdx.x / WARP;
    const int column = warp % ACROSS * PRODUCTS * OUTPUTS, row = warp / ACROSS * GROUPS * GROUP;
    const int before = window.left - static_cast<int>(digits.taps.width / 2);
    const int plane_bytes = channels.plane_bytes, pitch = window.pitch;
    u8* plane = channels.tile;
#pragma unroll 1
    for (int c = 0; c < count; ++c) {
        if (!channels.is_filtered(c)) continue;
        const CudaconvChannel& channel = channels.at(c);
        const u8* from = plane + (row + lane() % GROUP) * pitch + column + lane() / GROUP * OUTPUTS;
        int start = 0;
        float offset = channel.offset;
        if (sizeof(Sample) == 2 && window.digits == ROUNDED) {
            const float sum = static_cast<float>(launch.sum_of_digits) * launch.factor;
            offset = fmaf(-channel.zero, sum * power_of_two(spare_bits(launch.frame) - 8 * ROUNDED), offset);
        } else {
            start = -static_cast<int>(channel.zero) * launch.sum_of_digits;
            if (sizeof(Sample) == 2) start <<= spare_bits(launch.frame);
        }
        Sums sums;
        sum_up<Sample>(sums, digits, static_cast<u32>(__cvta_generic_to_shared(from)), plane_bytes);
        // All have read the samples, or the matrices that the codes replace.
        __syncthreads();
        if constexpr (NEAR) {
            digits.forget();
            const u32 doubtful = store_nearest<Sample>(sums, start, launch, offset, codes);
            if (launch.tolerance != 0.0f)
                decide<Sample>(doubtful, doubts, launch, channel, plane + before, pitch, plane_bytes, codes);
            else __syncthreads();
#pragma unroll
            for (int byte = 0; byte < static_cast<int>(sizeof(Sample)); ++byte)
                copy_codes(plane + byte * plane_bytes, codes + byte * PLANE, pitch);
        } else {
            store_whole(sums, start, launch, channel, plane, pitch);
        }
        plane += channels.bytes();
    }
    __syncthreads();
}

// The tile of a block, with `shared` of what the host grants.
template <typename Sample, bool NEAR>
DEVICE void convolve(const CudaconvConvolveLaunch& launch, uint4* shared) {
    const CudaconvFrame& frame = launch.frame;
    const CudaconvJob& job = frame.jobs[job_of(frame, blockIdx.y)];
    if (blockIdx.x >= job.tiles_across) return;
    const int x0 = blockIdx.x * WIDTH, y0 = (blockIdx.y - job.first_tile_row) * HEIGHT;
    const Window window(launch);
    const CudaconvTaps& taps = launch.kernels[0];
    Matrices* matrices = reinterpret_cast<Matrices*>(shared);
    Positions& positions = *reinterpret_cast<Positions*>(matrices + window.room());
    u8* tile = reinterpret_cast<u8*>(&positions + 1);
    // Codes take the first place of matrices, which are not needed any more then.
    u8* codes = reinterpret_cast<u8*>(matrices);
    Doubts& doubts = *reinterpret_cast<Doubts*>(tile);
    const int fours = line_of(taps.width) / 4 * taps.height;
    if (NEAR && launch.tolerance != 0.0f) {
        doubts.begin(launch);
        tile = reinterpret_cast<u8*>(doubts.weights() + fours);
    }
    Channels<Sample> channels = {frame, job, 0, tile, window.pitch * window.rows};
    // The matrices lie behind the weights.
    Digits digits = {taps, window, reinterpret_cast<const uint4*>(launch.weights) + fours, matrices, {-1, -1}};
    const int x = x0 - window.left, y = y0 - window.above;
    const bool inside = is_inside(job, x, y, window.columns, window.rows);
    if (!inside) positions.find(frame, job, window, x, y);
    // All channels of a packed job at once, else one after the other.
    const int count = job.packed ? job.channel_count : 1;
    const int bytes = count * sizeof(Sample), unit = bytes == 1 ? UNIT : places_at_once(bytes);
#pragma unroll 1
    for (; channels.first < static_cast<int>(job.channel_count); channels.first += count) {
        // The positions are there, or the channels before are written.
        if (!inside || channels.first > 0) __syncthreads();
        load(channels, window, positions, bytes, x, y, inside);
        // Matrices come from nearer, so that samples are asked for first.
        if (channels.first == 0) {
            if (sizeof(Sample) == 2 && window.digits == ROUNDED) digits.begin(0, 1);
            else digits.begin(window.digits - 1, window.digits - 2);
        }
        if (!inside) gather_words(channels, window, positions, count, unit, x);
        wait_for_copies();
        __syncthreads();
        filter<Sample, NEAR>(channels, count, launch, digits, doubts, codes);
        write(channels, window.pitch, bytes, x0, y0);
        write_ends(channels, window.pitch, count, unit, x0, y0);
    }
}

extern __shared__ uint4 shared[];

// Blocks of a multiprocessor: with more, registers do not suffice.
#ifdef CONVOLVE_MATRIX_U8
KERNEL(convolve_matrix_u8, CudaconvConvolveLaunch, (THREADS, 5), convolve<u8, false>(launch, shared))
#endif
#ifdef CONVOLVE_MATRIX_NEAR_U8
KERNEL(convolve_matrix_near_u8, CudaconvConvolveLaunch, (THREADS, 5), convolve<u8, true>(launch, shared))
#endif
#ifdef CONVOLVE_MATRIX_U16
KERNEL(convolve_matrix_u16, CudaconvConvolveLaunch, (THREADS, 5), convolve<u16, true>(launch, shared))
#endif
