// Results of sums with rounded weights that are decided by the canonical sum, for convolve_matrix.cu.
//
// The codes of a tile are put into shared memory beside its samples, and those that could be others are replaced by
// the codes of the canonical order: a thread takes the products of one result one by one. So the time is that of
// one, whatever there are up to 128.
#pragma once

#include "bands.cuh"

// Results of a block that are computed once more at a time.
constexpr u32 MOST_DOUBTS = 254;
// Results of a thread, of a group of rows: two columns of two rows of each product.
constexpr int RESULTS = PRODUCTS * 4;
static_assert(GROUPS * RESULTS <= 32, "bits");

// The codes of a tile as bytes of samples, a plane for each.
constexpr int PLANE = WIDTH * HEIGHT;

// Where the byte of a code is in its plane: pairs of rows begin in banks of their own.
DEVICE int code_place(int row, int column) { return row * WIDTH + (column ^ (row & 6) << 4); }

// Codes become the ones of the tile's samples, in their planes.
DEVICE void copy_codes(u8* tile, const u8* codes, int pitch) {
    constexpr int PIECE = sizeof(uint4), PIECES = WIDTH / PIECE;
    static_assert(WIDTH == 128, "the places of a row are its own");
#pragma unroll 1
    for (int i = threadIdx.x; i < PIECES * HEIGHT; i += THREADS) {
        const int row = i / PIECES, column = i % PIECES * PIECE;
        *reinterpret_cast<uint4*>(tile + row * pitch + column) =
            *reinterpret_cast<const uint4*>(codes + code_place(row, column));
    }
}

// The weights in the order of the canonical evaluation and where results are that are computed by them, as many as
// there is room for at a time.
struct alignas(16) Doubts {
    u32 count;
    // Rows and columns of the tile.
    u16 places[MOST_DOUBTS];

    // They lie behind, lines of whole fours.
    __device__ __forceinline__ float4* weights() { return reinterpret_cast<float4*>(this + 1); }
    __device__ __forceinline__ const float4* weights() const { return reinterpret_cast<const float4*>(this + 1); }

    // Begins to copy the weights. There is nothing in doubt.
    __device__ __forceinline__ void begin(const CudaconvConvolveLaunch& launch) {
        const CudaconvTaps& taps = launch.kernels[0];
        const int fours = line_of(taps.width) / 4 * taps.height;
        if (threadIdx.x == 0) count = 0;
#pragma unroll 1
        for (int i = threadIdx.x; i < fours; i += THREADS)
            copy_later<sizeof(float4)>(weights() + i, launch.weights + i * sizeof(float4));
    }
};

// Where a result of a thread lies.
DEVICE int row_of(int result) {
    return (threadIdx.x / WARP / ACROSS * GROUPS + result / RESULTS) * GROUP + lane() % 4 * 2 + result % 2;
}

DEVICE int column_of(int result) {
    return (threadIdx.x / WARP % ACROSS * PRODUCTS + result / 4 % PRODUCTS) * OUTPUTS + lane() / 4 * 2 + result / 2 % 2;
}

// Four neighbouring samples, raised, in floats of the size of WHOLE.
template <typename Sample>
struct Four {
    u32 codes[sizeof(Sample)];

    __device__ __forceinline__ float at(int i) const {
        const u32 which = sizeof(Sample) == 1 ? 0x7650 + i : i % 2 ? 0x7632 : 0x7610;
        return __uint_as_float(__byte_perm(codes[sizeof(Sample) == 1 ? 0 : i / 2], 0x4b000000u, which));
    }
};

// A row of samples from one that need not lie in a word of its own.
template <typename Sample>
struct Row {
    const u32* words;
    u32 shift;
    int plane_words;
    u32 last[sizeof(Sample)];

    __device__ __forceinline__ void begin() {
#pragma unroll
        for (int byte = 0; byte < static_cast<int>(sizeof(Sample)); ++byte) last[byte] = words[byte * plane_words];
    }

    // The samples of the word `i`, one after the other.
    __device__ __forceinline__ Four<Sample> next(int i) {
        u32 four[sizeof(Sample)];
#pragma unroll
        for (int byte = 0; byte < static_cast<int>(sizeof(Sample)); ++byte) {
            const u32 word = words[byte * plane_words + i + 1];
            four[byte] = __funnelshift_r(last[byte], word, shift);
            last[byte] = word;
        }
        if constexpr (sizeof(Sample) == 1) return {{four[0]}};
        else return {{__byte_perm(four[0], four[1], 0x5140), __byte_perm(four[0], four[1], 0x7362)}};
    }
};

// The code at the centre of a window of samples of which the first is at `samples`, computed in the canonical order.
template <typename Sample>
DEVICE u32 canonical_code(const Doubts& doubts, const CudaconvConvolveLaunch& launch, const CudaconvChannel& channel,
                          const u8* samples, int pitch, int plane_bytes) {
    const CudaconvTaps& taps = launch.kernels[0];
    const int fours = line_of(taps.width) / 4, rows = taps.height;
    const u32 beside = reinterpret_cast<size_t>(samples) % WORD;
    Row<Sample> row = {reinterpret_cast<const u32*>(samples - beside), beside * 8, plane_bytes / WORD};
    // Differences of raised codes are those of codes times a power of two, and so are all sums.
    const int spare = sizeof(Sample) == 1 ? 0 : spare_bits(launch.frame);
    // A whole number, so all differences are.
    const float zero = fmaf(channel.zero, power_of_two(spare), WHOLE);
    const float4* weights = doubts.weights();
    float sum = 0.0f;
#pragma unroll 1
    for (int y = 0; y < rows; ++y, row.words += pitch / WORD, weights += fours) {
        row.begin();
#pragma unroll (4 / sizeof(Sample))
        for (int i = 0; i < fours; ++i) {
            // Weights behind the last are zero, and samples are finite numbers.
            const Four<Sample> four = row.next(i);
            const float4 by = weights[i];
            sum = fmaf(by.x, four.at(0) - zero, sum);
            sum = fmaf(by.y, four.at(1) - zero, sum);
            sum = fmaf(by.z, four.at(2) - zero, sum);
            sum = fmaf(by.w, four.at(3) - zero, sum);
        }
    }
    if (sizeof(Sample) == 2) sum *= power_of_two(-spare);
    return round_to_code(divided(launch, sum) + channel.offset, launch.frame.max_code);
}

// Replaces the codes of `doubtful` results, a bit for each of a thread, by those of the canonical order. `samples` is the
// first sample that the first output of the block needs. All threads of the block take part.
template <typename Sample>
DEVICE void decide(u32 doubtful, Doubts& doubts, const CudaconvConvolveLaunch& launch, const CudaconvChannel& channel,
                   const u8* samples, int pitch, int plane_bytes, u8* codes) {
    while (true) {
        u32 at = doubtful != 0 ? atomicAdd(&doubts.count, __popc(doubtful)) : 0;
#pragma unroll 1
        for (; doubtful != 0 && at < MOST_DOUBTS; ++at, doubtful &= doubtful - 1) {
            const int result = __ffs(doubtful) - 1;
            doubts.places[at] = row_of(result) * WIDTH + column_of(result);
        }
        __syncthreads();
        const u32 count = doubts.count;
#pragma unroll 1
        for (u32 i = threadIdx.x; i < min(count, MOST_DOUBTS); i += THREADS) {
            const int row = doubts.places[i] / WIDTH, column = doubts.places[i] % WIDTH;
            const u8* from = samples + row * pitch + column;
            const u32 code = canonical_code<Sample>(doubts, launch, channel, from, pitch, plane_bytes);
            const u32 sample = sizeof(Sample) == 1 ? code : lowered(launch.frame, code);
            codes[code_place(row, column)] = sample;
            if (sizeof(Sample) == 2) codes[PLANE + code_place(row, column)] = sample >> 8;
        }
        __syncthreads();
        if (threadIdx.x == 0) doubts.count = 0;
        if (count <= MOST_DOUBTS) return;
        __syncthreads();
    }
}
