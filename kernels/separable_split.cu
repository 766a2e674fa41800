// Correlation of pixels of four bytes with separable kernels of any weights, of up to 17 + 17 taps, on the matrix units:
// canonical bytes. Three of the channels are filtered, or fewer: red, green and blue beside alpha. See split.cuh.
//
// The tile goes through a ring in shared memory: see staged.cuh. In each step a warp computes 16 pixels of 16 rows,
// with the operands and places of separable_pixels.cu, of which it has twice as many products across and three times as many down.
// The matrices come from the host (`src/engine/cuda/abi/split.rs`).
//
// Results are looked at all together after their pixels are written. What is in doubt is decided some steps later, from rows that are kept in
// the ring until then.
//
// Needs compute_80.
#include "split.cuh"

// --- 1. a tile -----------------------------------------------------------------------------------

// Channels that are computed.
constexpr int COLOURS = 3;

// BLOCKS: of 16 pixels or rows, that 16 sums are computed from. What is copied stands in the ring above what is computed. Of results in
// doubt of a period, rows of the step before it are read in the step behind it.
template <int BLOCKS_>
struct Filter : Shape<4, 2 * (BLOCKS_ - 1), GROUP * (BLOCKS_ - 1), 1, PERIOD + 1> {
    static constexpr int BLOCKS = BLOCKS_;
    static constexpr int BYTES = 4 * PIECE;        // of a row, that a warp computes
    static constexpr int FRACTIONS = 4 * COLOURS;  // words of a thread
};

// Where matrices are in the table.
enum { ACROSS, ACROSS_LEFT, DOWN, DOWN_LEFT, PARTS };

template <typename Own>
struct Shared {
    typename Ring<Own>::Shared staged;
    alignas(16) uint4 weights[PARTS][Own::BLOCKS][WARP];
    Doubts<Own::FRACTIONS> doubts;
    alignas(16) float start[4];
    alignas(16) u32 raised[4];
    // Of channels that are filtered, and copied, the bytes of those that are filled; fractions below are in doubt.
    uint4 masks;
    // What is added to the sums of a colour.
    float levels[COLOURS];
};

// --- 2. the kernel -------------------------------------------------------------------------------

template <typename Own>
DEVICE void separable_split(const CudaconvConvolveLaunch& launch) {
    constexpr int BLOCKS = Own::BLOCKS;
    static_assert(BLOCKS == 2, "products across, and sums down");
    __shared__ Shared<Own> shared;
    const u32 job_index = job_of(launch.frame, blockIdx.y);
    if (blockIdx.x >= launch.frame.jobs[job_index].tiles_across) return;
    const Tile<Own> tile(launch, job_index, blockIdx.x, blockIdx.y);
    const int warp = threadIdx.x / WARP;
    Ring<Own> ring(launch, shared.staged, job_index, tile);
#pragma unroll 1
    for (int step = 0; step < Own::AHEAD; ++step) ring.copy_step();

    // --- Weights, and what becomes of sums
    const uint4* table = reinterpret_cast<const uint4*>(launch.weights);
    constexpr int MATRICES = PARTS * BLOCKS * WARP;
#pragma unroll 1
    for (int i = threadIdx.x; i < MATRICES; i += THREADS) shared.weights[0][0][i] = __ldg(table + i);
    u32 weights_at = shared_address(shared.weights) + lane() * PIECE;
    keep(weights_at);
    auto weights_of = [&](u32 (&words)[4], int part, int block) {
        const uint4 four = load_piece(weights_at + (part * BLOCKS + block) * WARP * PIECE);
        words[0] = four.x, words[1] = four.y, words[2] = four.z, words[3] = four.w;
    };
    const SplitConstants& constants = *reinterpret_cast<const SplitConstants*>(table + MATRICES);
    shared.doubts.begin(launch, tile.job, reinterpret_cast<const float*>(&constants + 1));
    // Of the channels, the one that is not computed.
    u32 filtered = 0, copied = 0, filled = 0, left_out = 0;
    bool clamped = false;
#pragma unroll
    for (int k = 0; k < WORD; ++k) {
        const CudaconvChannel& channel = tile.job.channels[k];
        const u32 mask = 0xffu << 8 * k;
        if (channel.action == CUDACONV_FILTER) filtered |= mask, clamped = clamped || is_clamped(constants, channel);
        else left_out = k;
        if (channel.action == CUDACONV_COPY) copied |= mask;
        if (channel.action == CUDACONV_FILL) filled |= channel.fill << 8 * k;
    }
    if (threadIdx.x < 4) shared.start[threadIdx.x] = __ldg(&constants.start), shared.raised[threadIdx.x] = 0x64646464;
    if (threadIdx.x == 0) shared.masks = make_uint4(filtered, copied, filled, __ldg(&constants.window));
    if (threadIdx.x < COLOURS) shared.levels[threadIdx.x] = level_of(constants, tile.job.channels[threadIdx.x + (threadIdx.x >= left_out)]);
    __syncthreads();
    // From shared memory these come as four and as one that the assembler does not take apart.
    float start[4];
    load_floats(start, shared_address(shared.start));
    const u32 raised = load_piece(shared_address(shared.raised)).x;
    const float scale = __ldg(&constants.scale);
    // Selectors of `__byte_perm`: of two pixels, bytes of the first two colours, and of the third; and of codes, those of a pixel in
    // their places. The third ones of two pixels are in one register.
    const u32 c0 = left_out == 0, c1 = 1 + (left_out <= 1), c2 = 2 + (left_out <= 2);
    const u32 first_two = c0 | c1 << 4 | (c0 + 4) << 8 | (c1 + 4) << 12, third = c2 | (c2 + 4) << 4;
    const u32 even = 2 << 4 * c1 | 4 << 4 * c2, odd = 2 << 4 * c1 | 6 << 4 * c2;

    // --- Where pixels are written: four of two rows, 8 rows apart
    const int out_row = lane() / 4, out_byte = tile.x0 + warp * Own::BYTES + lane() % 4 * PIECE;
    int left = tile.row_bytes - out_byte, rows_left = tile.height - tile.y0 - out_row;
    u32 out_step = STEP * tile.first.output_stride, out_lines = GROUP * tile.first.output_stride;
    cudaconv_u64 out = tile.first.output + static_cast<cudaconv_u64>(tile.y0 + out_row) * tile.first.output_stride + out_byte;
    // The bytes above them, if they were in the first rows of a slot.
    const u32 bytes = shared_address(shared.staged.bytes) + warp * Own::BYTES;
    u32 own_at = bytes + out_row * Own::PITCH + (Own::BESIDE + lane() % 4) * PIECE;
    u32 read_at = bytes + lane() % GROUP * Own::PITCH + lane() / GROUP * PIECE, slot = 0, before = 0;
    int rounds = tile.steps + BLOCKS - 1;

    // Where fraction i of a thread is: row << 8 | byte.
    auto place_of = [&](u32 thread, int i) {
        const u32 of_lane = thread % WARP, colour = i / 8, channel = colour + (colour >= left_out);
        return (of_lane / 4 + i / 4 % 2 * GROUP) << 8 | (thread / WARP * Own::BYTES + of_lane % 4 * PIECE + i % 4 * WORD + channel);
    };

    // --- Steps
    // Sums down that are not complete: whole ones, and what is left.
    float sums[COLOURS][2][4], sums_left[COLOURS][2][4];
#pragma unroll
    for (int k = 0; k < COLOURS * 8; ++k) sums[k / 8][k / 4 % 2][k % 4] = sums_left[k / 8][k / 4 % 2][k % 4] = 0.0f;
#pragma unroll 1
    for (int round = 0;; ++round) {
        if (round < rounds) {
            ring.template wait<Own::AHEAD - 1>(round, slot);
            ring.copy_step();
        } else {
            __syncthreads();
        }
        if ((round % PERIOD == 0 || round == rounds) && round >= BLOCKS) {
            const int begin = max((round - 1) / PERIOD * PERIOD, BLOCKS - 1);
            shared.doubts.template decide<Own>(launch, ring.tile_again(), begin, round, shared.masks.w, bytes - warp * Own::BYTES, place_of);
        }
        if (round % PERIOD == PERIOD / 2) shared.doubts.clear_other(round);
        if (round == rounds) break;
        // Pieces of two groups of rows.
        u32 words[2][BLOCKS][4];
#pragma unroll
        for (int k = 0; k < 2 * BLOCKS; ++k)
            load_pieces(words[k / BLOCKS][k % BLOCKS], read_at + slot + k / BLOCKS * GROUP * Own::PITCH + k % BLOCKS * 4 * PIECE);
        // The first two colours of two of their pixels, and the third of four.
        u32 firsts[2][2 * BLOCKS], third_ones[2][BLOCKS];
#pragma unroll
        for (int k = 0; k < 4 * BLOCKS; ++k) {
            const u32* const two = words[k / (2 * BLOCKS)][k / 2 % BLOCKS] + k % 2 * 2;
            firsts[k / (2 * BLOCKS)][k % (2 * BLOCKS)] = __byte_perm(two[0], two[1], first_two);
        }
#pragma unroll
        for (int k = 0; k < 2 * BLOCKS; ++k) {
            const u32* const four = words[k / BLOCKS][k % BLOCKS];
            third_ones[k / BLOCKS][k % BLOCKS] = __byte_perm(__byte_perm(four[0], four[1], third), __byte_perm(four[2], four[3], third), 0x5410);
        }
        const u32 own_slot = slot, slot_before = before;
        before = slot, slot = Own::next(slot);
        // 1024 and a code, two in a register: of two rows and four pixels the first two colours, and the third of two pixels.
        u32 twos[2][4], thirds[2][2];
        float first_results[8];
        u32 fractions[Own::FRACTIONS], least = 0x1fff1fff;
#pragma unroll
        for (int c = 0; c < COLOURS; ++c) {
            // Of two groups of rows, whose products take turns.
            u32 operands[2][2 * BLOCKS];
#pragma unroll
            for (int k = 0; k < 4 * BLOCKS; ++k) {
                u32& own = operands[k / (2 * BLOCKS)][k % (2 * BLOCKS)];
                if (c == 2) own = __byte_perm(third_ones[k / (2 * BLOCKS)][k / 2 % BLOCKS], raised, k % 2 ? 0x4342 : 0x4140);
                else own = __byte_perm(firsts[k / (2 * BLOCKS)][k % (2 * BLOCKS)], raised, c == 0 ? 0x4240 : 0x4341);
            }
            float across[2][4], results[8];
            u32 weights[4];
            auto add_products = [&](int part, int block, const float (&first)[4], const float (&second)[4]) {
                weights_of(weights, part, block);
                multiply(across[0], weights, operands[0][2 * block], operands[0][2 * block + 1], first);
                multiply(across[1], weights, operands[1][2 * block], operands[1][2 * block + 1], second);
            };
            // And of the first and the second half of 16 pixels.
            u32 quotients[2][2], remainders[2][2];
            add_products(ACROSS, 0, start, start);
            add_products(ACROSS, 1, across[0], across[1]);
#pragma unroll
            for (int k = 0; k < 4; ++k) quotients[k % 2][k / 2] = split_sums(across[k / 2][k % 2 * 2], across[k / 2][k % 2 * 2 + 1]);
            add_products(ACROSS_LEFT, 0, across[0], across[1]);
            add_products(ACROSS_LEFT, 1, across[0], across[1]);
#pragma unroll
            for (int k = 0; k < 4; ++k) remainders[k % 2][k / 2] = halves_of(across[k / 2][k % 2 * 2], across[k / 2][k % 2 * 2 + 1]);
            const float level = load_float(shared_address(shared.levels + c));
#pragma unroll
            for (int half = 0; half < 2; ++half) {
                const u32(&p)[2] = quotients[half], (&q)[2] = remainders[half];
                float(&whole)[4] = sums[c][half], (&rest)[4] = sums_left[c][half];
                weights_of(weights, DOWN, 1), multiply(whole, weights, p[0], p[1], whole);
                multiply(rest, weights, q[0], q[1], rest);
                weights_of(weights, DOWN_LEFT, 1), multiply(rest, weights, p[0], p[1], rest);
                // Of two rows, four pixels.
#pragma unroll
                for (int k = 0; k < 4; ++k) results[k / 2 * 4 + half * 2 + k % 2] = result_of(whole[k], rest[k], scale, level);
                weights_of(weights, DOWN, 0), multiply(whole, weights, p[0], p[1]);
                multiply(rest, weights, q[0], q[1]);
                weights_of(weights, DOWN_LEFT, 0), multiply(rest, weights, p[0], p[1], rest);
            }
#pragma unroll
            for (int k = 0; k < 4; ++k) {
                fractions[4 * c + k] = fractions_of(results[2 * k], results[2 * k + 1]);
                least = least_of(least, fractions[4 * c + k]);
            }
#pragma unroll
            for (int k = 0; k < 8; ++k) {
                if (c == 0) first_results[k] = results[k];
                if (c == 1) twos[k / 4][k % 4] = truncated_halves_of(first_results[k], results[k]);
                if (c == 2 && k % 2 == 0) thirds[k / 4][k / 2 % 2] = truncated_halves_of(results[k], results[k + 1]);
            }
        }
        if (round < BLOCKS - 1) continue;
        const uint4 masks = load_piece(shared_address(&shared.masks));
        if (clamped) {
#pragma unroll
            for (int k = 0; k < 8; ++k) twos[k / 4][k % 4] = clamped_codes(twos[k / 4][k % 4]);
#pragma unroll
            for (int k = 0; k < 4; ++k) thirds[k / 2][k % 2] = clamped_codes(thirds[k / 2][k % 2]);
        }
        // Bytes of channels that are not filtered.
        u32 beside[2][4];
        if (masks.y) {
#pragma unroll
            for (int k = 0; k < 2; ++k) {
                const int row = STEP - Own::ABOVE + k * GROUP;
                const uint4 own = load_piece(own_at + row % STEP * Own::PITCH + (row < STEP ? slot_before : own_slot));
                beside[k][0] = own.x, beside[k][1] = own.y, beside[k][2] = own.z, beside[k][3] = own.w;
                if ((masks.x | masks.y) != ~0u) {
#pragma unroll
                    for (int p = 0; p < 4; ++p) beside[k][p] = (beside[k][p] & masks.y) | masks.z;
                }
            }
        } else {
#pragma unroll
            for (int k = 0; k < 8; ++k) beside[k / 4][k % 4] = masks.z;
        }
        u32 pixels[2][4];
#pragma unroll
        for (int k = 0; k < 8; ++k) {
            const u32 code = __byte_perm(twos[k / 4][k % 4], thirds[k / 4][k / 2 % 2], k % 2 ? odd : even);
            pixels[k / 4][k % 4] = (code & masks.x) | (beside[k / 4][k % 4] & ~masks.x);
        }
        // Rows may end within a thread's four pixels.
        if (left >= PIECE) {
#pragma unroll
            for (int k = 0; k < 2; ++k)
                if (rows_left > k * GROUP)
                    write_sample(out + k * out_lines, make_uint4(pixels[k][0], pixels[k][1], pixels[k][2], pixels[k][3]));
        } else {
#pragma unroll
            for (int k = 0; k < 6; ++k)
                if (left > k % 3 * WORD && rows_left > k / 3 * GROUP) write_sample(out + k / 3 * out_lines + k % 3 * WORD, pixels[k / 3][k % 3]);
        }
        if (min(least & 0xffff, least >> 16) < masks.w) shared.doubts.note(round, fractions);
        out += out_step;
        rows_left -= STEP;
    }
}

// With so many blocks of a multiprocessor that registers suffice.
#define SEPARABLE_SPLIT(name, rows, blocks)                           \
    extern "C" __global__ void __launch_bounds__(THREADS, blocks)     \
        name(const __grid_constant__ CudaconvConvolveLaunch launch) { \
        separable_split<Filter<rows>>(launch);                        \
    }

#ifdef SEPARABLE_SPLIT_PIXELS_U8
SEPARABLE_SPLIT(separable_split_pixels_u8, 2, 3)
#endif
