// Correlation of 8-bit samples with separable kernels of up to 17 + 17 whole numbers of 0 to 255, those
// across of 257 in all and no further than 16 bytes, on the matrix units. All products and sums are whole
// numbers below 2^24, so the bytes are those of every other order of additions.
//
// The tile goes through a ring in shared memory: see staged.cuh.
//
// Across, products of band matrices of weights and a matrix of bytes give the sums of 16 bytes of 8 rows: of the
// piece before them, of their own and of the one behind. `ldmatrix` hands a thread four bytes of a row that
// stand one behind the other, which is what a register of the second operand holds. The band is the same for every
// 16 bytes of a row, whatever the number of channels: weights stand as many columns apart. Of packed 4:2:2 they stand two
// apart in rows of the band that give luma, four apart in those of chroma.
// The result's registers hold sums of two rows of one column each. Two of them from each of two groups of 8 rows,
// split into low and high bytes, are what a register of the second operand holds in the products down, if these
// number the rows accordingly: no thread needs a sum of another's. In the end a thread has four bytes of a row that
// stand one behind the other. The matrices come from the host (`src/engine/cuda/abi/matrix.rs`), which numbers
// rows and columns in the same way.
//
// Codes go through shared memory, so that a block writes whole lines, in the step after; what is copied is in the
// registers that the products across read. Registers of an operand must stand side by side: so weights come in
// every pair that is needed.
//
// Measured, it takes 1.5 times as long as a copy for 4K RGBA, 1.9 times with any divisor. Of a step's 310 instructions 32 are
// matrix products, which keep their units busy for a third of the time; every fifth cycle of a multiprocessor is lost at
// the ends of the launch. Five blocks a multiprocessor with fewer registers, blocks of 2 or 8 warps, rounds of 32 rows and
// three steps ahead take as long or longer.
//
// Needs compute_80.
#include "staged.cuh"

// Pieces of a row that a warp computes, and a block.
constexpr int TILES = 4;
// One piece on either side holds what is read across, 8 rows above an output's own what is read down. Two steps are
// loaded ahead; nothing is read of those before the one that is worked on.
using Own = Shape<TILES, 1, 8, 2, 0>;
constexpr int OUT_PIECES = Own::OUT_PIECES;
// What lies between rows of codes: an odd number of pieces, for the same reason as between those of the ring.
constexpr int CODES_PITCH = (OUT_PIECES | 1) * PIECE;
constexpr int CODES = STEP * CODES_PITCH;
// Rows that a block writes at once.
constexpr int LINES = THREADS / OUT_PIECES;
constexpr int PASSES = STEP / LINES;
static_assert(TILES % 2 == 0 && THREADS % OUT_PIECES == 0, "pieces are loaded for two, and written by as many threads");
// Matrices across, and the host's tables of them: for one to four channels, and for packed 4:2:2 with luma first or second.
constexpr int ACROSS = 3;
constexpr int TABLES = CUDACONV_CHANNELS + 2;

// --- 1. instructions -----------------------------------------------------------------------------

// d + a b, with a of 16 x 16 weights, b of 16 x 8 bytes and d of 16 x 8 sums.
DEVICE void multiply(int (&d)[4], u32 a0, u32 a1, u32 b) {
    asm("mma.sync.aligned.m16n8k16.row.col.s32.u8.u8.s32 {%0, %1, %2, %3}, {%4, %5}, {%6}, {%0, %1, %2, %3};"
        : "+r"(d[0]), "+r"(d[1]), "+r"(d[2]), "+r"(d[3])
        : "r"(a0), "r"(a1), "r"(b));
}

// The same of 32 columns of a and rows of b.
DEVICE void multiply(int (&d)[4], uint4 a, u32 b0, u32 b1) {
    asm("mma.sync.aligned.m16n8k32.row.col.s32.u8.u8.s32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
        : "+r"(d[0]), "+r"(d[1]), "+r"(d[2]), "+r"(d[3])
        : "r"(a.x), "r"(a.y), "r"(a.z), "r"(a.w), "r"(b0), "r"(b1));
}

// The byte nearest to `value`, halves to even.
DEVICE u32 saturated(float value) {
    u32 code;
    asm("cvt.rni.sat.u8.f32 %0, %1;" : "=r"(code) : "f"(value));
    return code;
}

// --- 2. bytes again ------------------------------------------------------------------------------

// How sums become bytes.
enum Kind {
    // Divided by a power of two, results that are in range and nothing to add.
    SHIFTED,
    // Anything else.
    DIVIDED,
};

template <Kind KIND>
struct Ending {
    float scale;  // 1 / divisor
    float divisor, levels[WORD], offsets[WORD];  // DIVIDED: `levels` are the zero level times the sum of the weights
    u32 filtered, copied, filled;

    __device__ __forceinline__ Ending(const Tile<Own>& tile, const CudaconvConvolveLaunch& launch)
        : scale(launch.reciprocal), divisor(launch.divisor), filtered(0), copied(0), filled(0) {
#pragma unroll
        for (int k = 0; k < WORD; ++k) {
            const CudaconvChannel& channel = tile.of_byte(k);
            levels[k] = channel.zero * launch.sum, offsets[k] = channel.offset;
            const u32 mask = 0xffu << 8 * k;
            if (channel.action == CUDACONV_FILTER) filtered |= mask;
            if (channel.action == CUDACONV_COPY) copied |= mask;
            if (channel.action == CUDACONV_FILL) filled |= channel.fill << 8 * k;
        }
        keep(filtered), keep(copied), keep(filled);
    }

    // The code of byte `k` of a word in the low byte, of a sum. Bytes beyond the second may be anything.
    __device__ __forceinline__ u32 code(int sum, int k) const {
        const float whole = __int2float_rn(sum);
        if (KIND == SHIFTED) return __float_as_uint(fmaf(whole, scale, WHOLE));
        return saturated(divided(divisor, scale, whole - levels[k]) + offsets[k]);
    }
};

template <bool VALUE>
struct Is {
    static constexpr bool value = VALUE;
};

// --- 3. a tile -----------------------------------------------------------------------------------

struct Shared {
    Ring<Own>::Shared staged;
    // Of two steps.
    alignas(128) u8 codes[2 * CODES];
};

DEVICE int table_of(const Tile<Own>& tile) {
    return tile.is_422() ? CUDACONV_CHANNELS + tile.is_luma_second() : tile.channels - 1;
}

template <Kind KIND>
DEVICE void separable_matrix(const CudaconvConvolveLaunch& launch) {
    __shared__ Shared shared;
    const u32 job_index = job_of(launch.frame, blockIdx.y);
    if (blockIdx.x >= launch.frame.jobs[job_index].tiles_across) return;
    const Tile<Own> tile(launch, job_index, blockIdx.x, blockIdx.y);
    const int warp = threadIdx.x / WARP;
    Ring<Own> ring(launch, shared.staged, job_index, tile);
#pragma unroll 1
    for (int step = 0; step <= Own::AHEAD; ++step) ring.copy_step();

    // --- Weights, and what becomes of sums
    const uint4* table = reinterpret_cast<const uint4*>(launch.weights) + lane();
    uint4 across[ACROSS];
#pragma unroll
    for (int i = 0; i < ACROSS; ++i) across[i] = __ldg(table + (table_of(tile) * ACROSS + i) * WARP);
    const uint4 down = __ldg(table + TABLES * ACROSS * WARP);
    const Ending<KIND> ending(tile, launch);

    // --- Codes from products to rows
    const u32 codes = shared_address(shared.codes);
    const int out_row = threadIdx.x / OUT_PIECES, out_piece = threadIdx.x % OUT_PIECES;
    u32 put_at = codes + lane() / 4 * CODES_PITCH + warp * TILES * PIECE + lane() % 4 * WORD;
    u32 take_at = codes + out_row * CODES_PITCH + out_piece * PIECE;
    u32 out_step = STEP * tile.first.output_stride;
    const u32 out_lines = LINES * tile.first.output_stride;
    const int out_byte = tile.x0 + out_piece * PIECE;
    int left = tile.row_bytes - out_byte, rows_left = tile.height - tile.y0 - out_row;
    // What is left where a piece is written at once: not that of a byte that is no pixel.
    const int least = tile.inside == tile.row_bytes ? PIECE : PIECE + 1;
    cudaconv_u64 out = tile.first.output + static_cast<cudaconv_u64>(tile.y0 + out_row) * tile.first.output_stride + out_byte;
    keep(put_at), keep(take_at), keep(out_step), keep(left);
    // Writes 16 rows.
    auto write_step = [&](u32 from_codes) {
        if (left >= least) {
            uint4 fours[PASSES];
#pragma unroll
            for (int k = 0; k < PASSES; ++k) fours[k] = load_piece(from_codes + k * LINES * CODES_PITCH);
#pragma unroll
            for (int k = 0; k < PASSES; ++k)
                if (rows_left > k * LINES) write_sample(out + k * out_lines, fours[k]);
        } else if (left > 0) {
#pragma unroll 1
            for (int k = 0; k < PASSES && rows_left > k * LINES; ++k) {
                uint4 four = load_piece(from_codes + k * LINES * CODES_PITCH);
                const Tile<Own> at_edge = ring.tile_again();
                const u32 y = at_edge.height - rows_left + k * LINES;
                const cudaconv_u64 input = at_edge.first.input + static_cast<cudaconv_u64>(y) * at_edge.first.input_stride;
#pragma unroll 1
                for (int b = 0; b < left; ++b) {
                    const int byte = at_edge.row_bytes - left + b;
                    const u8 code = byte == at_edge.spare() ? read_sample<u8>(input + byte) : four.x >> 8 * (b % WORD);
                    write_sample<u8>(out + k * out_lines + b, code);
                    if (b % WORD == WORD - 1) four.x = four.y, four.y = four.z, four.z = four.w;
                }
            }
        }
        out += out_step;
        rows_left -= STEP;
    };

    // --- Steps
    u32 read_at = shared_address(shared.staged.bytes) + lane() % GROUP * Own::PITCH + warp * TILES * PIECE + lane() / GROUP * PIECE, read_slot = 0;
    int last = tile.steps;
    keep(read_at), keep(last);
    // Of the 16 rows above, sums across as bytes: low and high ones of each half of a piece. And bytes of the last 8.
    u32 above[TILES][2][2], own[TILES];
    // Codes of a step are those of rows 8 above it, and are written in the next one: of the first there are none.
    auto compute_step = [&](int step, auto first) {
        constexpr bool FIRST = decltype(first)::value;
        ring.wait<FIRST ? Own::AHEAD : Own::AHEAD - 1>(step, read_slot);
        if (!FIRST) ring.copy_step();
        if (!FIRST && step > 1) write_step(take_at + step % 2 * CODES);
        const u32 read = read_at + read_slot, put = put_at + (step + 1) % 2 * CODES;
        read_slot = Own::next(read_slot);
        u32 words[2][4];
#pragma unroll
        for (int i = 0; i < TILES; ++i) {
            const int word = i % 2;
            if (word == 0) {
#pragma unroll
                for (int group = 0; group < 2; ++group) load_pieces(words[group], read + i * PIECE + group * GROUP * Own::PITCH);
            }
            int sums[2][4];
#pragma unroll
            for (int group = 0; group < 2; ++group) {
#pragma unroll
                for (int k = 0; k < 4; ++k) sums[group][k] = 0;
                if (word == 0) {
                    multiply(sums[group], across[0], words[group][0], words[group][1]);
                    multiply(sums[group], across[2].x, across[2].y, words[group][2]);
                } else {
                    multiply(sums[group], across[1], words[group][2], words[group][3]);
                    multiply(sums[group], across[2].z, across[2].w, words[group][1]);
                }
            }
            u32 below[2][2], values[2][WORD];
#pragma unroll
            for (int half = 0; half < 2; ++half) {
                const u32 upper = (sums[0][2 * half + 1] << 16) + sums[0][2 * half];
                const u32 lower = (sums[1][2 * half + 1] << 16) + sums[1][2 * half];
                below[half][0] = __byte_perm(upper, lower, 0x6420), below[half][1] = __byte_perm(upper, lower, 0x7531);
                if (!FIRST) {
                    int sum[4] = {0, 0, 0, 0};
                    multiply(sum, down, above[i][half][1], below[half][1]);
#pragma unroll
                    for (int k = 0; k < 4; ++k) sum[k] *= 256;
                    multiply(sum, down, above[i][half][0], below[half][0]);
#pragma unroll
                    for (int k = 0; k < 4; ++k) values[k / 2][2 * half + k % 2] = ending.code(sum[k], 2 * half + k % 2);
                }
                above[i][half][0] = below[half][0], above[i][half][1] = below[half][1];
            }
#pragma unroll
            for (int k = 0; k < (FIRST ? 0 : 2); ++k) {
                const u32(&four)[WORD] = values[k];
                // Bytes beyond the second are those of other codes.
                const u32 code = __byte_perm((four[1] << 8) + four[0], (four[3] << 8) + four[2], 0x5410);
                const u32 input = k == 0 ? own[i] : words[0][word + 1];
                store_word(put + i * PIECE + k * GROUP * CODES_PITCH,
                           (code & ending.filtered) | ending.filled | (input & ending.copied));
            }
            own[i] = words[1][word + 1];
        }
    };
    compute_step(0, Is<true>{});
#pragma unroll 1
    for (int step = 1; step <= last; ++step) compute_step(step, Is<false>{});
    __syncthreads();
    write_step(take_at + (last + 1) % 2 * CODES);
}

// With so many blocks of a multiprocessor that registers suffice.
#ifdef SEPARABLE_MATRIX_U8
KERNEL(separable_matrix_u8, CudaconvConvolveLaunch, (THREADS, 4), separable_matrix<SHIFTED>(launch))
#endif
#ifdef SEPARABLE_MATRIX_DIVIDED_U8
KERNEL(separable_matrix_divided_u8, CudaconvConvolveLaunch, (THREADS, 4), separable_matrix<DIVIDED>(launch))
#endif
