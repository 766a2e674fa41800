// Correlation of pixels of four bytes with separable kernels of any weights, of up to 17 + 17 taps, on the matrix units:
// canonical bytes. Three of the channels are filtered, or fewer: red, green and blue beside alpha. See split.cuh.
//
// The tile goes through a ring in shared memory: see staged.cuh. In each step a warp computes 16 pixels of 16 rows,
// with the operands and places of separable_pixels.cu, of which it has twice as many products across and three times as many down.
// The matrices come from the host (`src/engine/cuda/abi/split.rs`).
//
// Results are looked at all together after their pixels are written. Of two threads one in doubt each is decided in the next
// step, among its products: the 32 rows that the results of a step are made of are in the ring until then, and half a
// warp, or all of it where there are 17 rows, has a lane for each row of a window. What more there is is decided by itself.
//
// Needs compute_80.
#include "split.cuh"

#ifndef V_AHEAD
#define V_AHEAD 2
#endif
#ifndef V_BLOCKS
#define V_BLOCKS 3
#endif

// --- 1. a tile -----------------------------------------------------------------------------------

// Channels that are computed.
constexpr int COLOURS = 3;

// BLOCKS: of 16 pixels or rows, that 16 sums are computed from. What is copied stands in the ring above what is computed.
template <int BLOCKS_>
struct Filter : Shape<4, 2 * (BLOCKS_ - 1), GROUP * (BLOCKS_ - 1), V_AHEAD, 2> {
    static constexpr int BLOCKS = BLOCKS_;
    static constexpr int BYTES = 4 * PIECE;  // of a row, that a warp computes
    static constexpr int FRACTIONS = COLOURS * 4;  // words of a thread
};

// Where matrices are in the table.
enum { ACROSS, ACROSS_LEFT, DOWN, DOWN_LEFT, PARTS };

template <typename Own>
struct Shared {
    typename Ring<Own>::Shared staged;
    alignas(16) uint4 weights[PARTS][Own::BLOCKS][WARP];
    alignas(16) u32 held[8];
    Canonical<Own::FRACTIONS> canonical;
};

// --- 2. the kernel -------------------------------------------------------------------------------

template <typename Own>
DEVICE void separable_split(const CudaconvConvolveLaunch& launch) {
    constexpr int BLOCKS = Own::BLOCKS;
    static_assert(BLOCKS == 2, "sums down, and rows of what is decided");
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
    const SplitConstants& constants = *reinterpret_cast<const SplitConstants*>(table + MATRICES);
    shared.canonical.load(launch, tile.job, reinterpret_cast<const float*>(&constants + 1));
    // From shared memory these come as four and as one that the assembler does not take apart.
    if (threadIdx.x < 4) shared.held[threadIdx.x] = __float_as_uint(__ldg(&constants.start)), shared.held[4 + threadIdx.x] = 0x64646464;
    __syncthreads();
    float start[4];
    load_floats(start, shared_address(shared.held));
    const u32 raised = load_piece(shared_address(shared.held) + PIECE).x;
    u32 weights_at = shared_address(shared.weights) + lane() * PIECE;
    keep(weights_at);
    auto weights_of = [&](u32 (&words)[4], int part, int block) {
        const uint4 four = load_piece(weights_at + (part * BLOCKS + block) * WARP * PIECE);
        words[0] = four.x, words[1] = four.y, words[2] = four.z, words[3] = four.w;
    };
    const float scale = __ldg(&constants.scale);
    u32 window = __ldg(&constants.window);
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
    float levels[COLOURS];
#pragma unroll
    for (int c = 0; c < COLOURS; ++c) levels[c] = level_of(constants, tile.job.channels[c + (c >= static_cast<int>(left_out))]);
    keep(filtered), keep(copied), keep(filled), keep(window);
    // Selectors of `__byte_perm`: of two pixels, bytes of the first two colours, and of the third; and of codes, those of a pixel in
    // their places. The third ones of two pixels are in one register.
    const u32 c0 = left_out == 0, c1 = 1 + (left_out <= 1), c2 = 2 + (left_out <= 2);
    const u32 first_two = c0 | c1 << 4 | (c0 + 4) << 8 | (c1 + 4) << 12, third = c2 | (c2 + 4) << 4;
    const u32 even = 2 << 4 * c1 | 4 << 4 * c2, odd = 2 << 4 * c1 | 6 << 4 * c2;

    // --- Where pixels are written: four of two rows, 8 rows apart
    const int out_row = lane() / 4, out_byte = tile.x0 + warp * Own::BYTES + lane() % 4 * PIECE;
    int left = tile.row_bytes - out_byte, rows_left = tile.height - tile.y0 - out_row;
    u32 stride = tile.first.output_stride;
    cudaconv_u64 out = tile.first.output + static_cast<cudaconv_u64>(tile.y0 + out_row) * stride + out_byte;
    keep(stride), keep(left);
    // In the first slot: what is read for products; the warp's own bytes; and those above what is written, if they were in it.
    const u32 bytes = shared_address(shared.staged.bytes) + warp * Own::BYTES;
    u32 read_at = bytes + lane() % GROUP * Own::PITCH + lane() / GROUP * PIECE, warp_at = bytes + Own::BESIDE * PIECE;
    u32 own_at = warp_at + out_row * Own::PITCH + lane() % 4 * PIECE;
    u32 slot = 0, before = 0, before_that = 0;
    int rounds = tile.steps + BLOCKS - 1;
    keep(read_at), keep(rounds), keep(own_at), keep(warp_at);
    // What a lane reads of the window of a result in the first row of a step: its row, its first column.
    const int height = launch.kernels[0].height, above = Own::ABOVE - height / 2, span = height > WARP / 2 ? WARP : WARP / 2;
    const int own_row = above + lane() % span;
    const u32 window_at = warp_at - launch.kernels[0].width / 2 * WORD;
    auto address_of = [&](int row, int byte, u32 upper, u32 lower) {
        return window_at + byte + row % STEP * Own::PITCH + (row & STEP ? lower : upper);
    };
    // Where result `bit` of a lane is among those of the warp's step.
    const u32 skipped = left_out;
    auto row_of = [&](int of_lane, int bit) { return of_lane / 4 + bit / 4 % 2 * GROUP; };
    auto byte_of = [&](int of_lane, int bit) {
        const u32 colour = bit / 8;
        return static_cast<int>(of_lane % 4 * PIECE + bit % 4 * WORD + colour + (colour >= skipped));
    };
    const u32 fractions_at = shared_address(shared.canonical.fractions[warp]);
    constexpr int FRACTIONS_BYTES = Own::FRACTIONS * WORD;
    // Lanes whose fractions have been put down, at most two.
    u32 waiting = 0;

    // --- Steps
    // Sums down that are not complete: whole ones, and what is left.
    float sums[COLOURS][2][4], sums_left[COLOURS][2][4];
#pragma unroll
    for (int k = 0; k < COLOURS * 8; ++k) sums[k / 8][k / 4 % 2][k % 4] = sums_left[k / 8][k / 4 % 2][k % 4] = 0.0f;
#pragma unroll 1
    for (int round = 0; round < rounds; ++round) {
        ring.template wait<Own::AHEAD - 1>(round, slot);
        ring.copy_step();
        // The results that wait, or any.
        const u32 of_first = doubts_of<Own::FRACTIONS>(fractions_at, window);
        const u32 of_second = doubts_of<Own::FRACTIONS>(fractions_at + FRACTIONS_BYTES, window);
        const u32 first_of_them = waiting & (0u - waiting), second_of_them = waiting ^ first_of_them;
        const bool is_first = lane() < span;
        const int of_lane = 31 - __clz(is_first ? first_of_them : second_of_them), bit = 31 - __clz(is_first ? of_first : of_second);
        const int decided_row = row_of(of_lane & 31, bit & 31), decided_byte = byte_of(of_lane & 31, bit & 31) % Own::BYTES;
        const u32 decided_at = address_of(own_row + decided_row % STEP, decided_byte, before_that, before);
        const u32 decided = canonical_code(launch, shared.canonical, decided_at, WORD, decided_byte % WORD);
        // Pieces of two groups of rows.
        u32 words[2][BLOCKS][4];
#pragma unroll
        for (int k = 0; k < 2 * BLOCKS; ++k)
            load_pieces(words[k / BLOCKS][k % BLOCKS], read_at + slot + k / BLOCKS * GROUP * Own::PITCH + k % BLOCKS * 4 * PIECE);
        // The first two colours of two pixels.
        u32 firsts[2][2 * BLOCKS];
#pragma unroll
        for (int k = 0; k < 4 * BLOCKS; ++k) {
            const u32* const two = words[k / (2 * BLOCKS)][k / 2 % BLOCKS] + k % 2 * 2;
            firsts[k / (2 * BLOCKS)][k % (2 * BLOCKS)] = __byte_perm(two[0], two[1], first_two);
        }
        const u32 own_slot = slot, before_that_one = before_that;
        before_that = before, before = slot, slot = Own::next(slot);
        // 1024 and a code, two in a register: of two rows and four pixels the first two colours, and the third of two pixels.
        u32 twos[2][4], thirds[2][2];
        float first_results[8];
        u32 fractions[Own::FRACTIONS], least = 0x1fff1fff;
#pragma unroll
        for (int c = 0; c < COLOURS; ++c) {
            // Of two groups of rows, and of the first and the second half of 16 pixels.
            u32 quotients[2][2], remainders[2][2];
#pragma unroll
            for (int group = 0; group < 2; ++group) {
                u32 operands[2 * BLOCKS];
#pragma unroll
                for (int k = 0; k < 2 * BLOCKS; ++k) {
                    if (c == 2) {
                        const u32* const two = words[group][k / 2] + k % 2 * 2;
                        operands[k] = __byte_perm(__byte_perm(two[0], two[1], third), raised, 0x4140);
                    } else {
                        operands[k] = __byte_perm(firsts[group][k], raised, c == 0 ? 0x4240 : 0x4341);
                    }
                }
                float own[4];
                u32 weights[4];
#pragma unroll
                for (int b = 0; b < BLOCKS; ++b)
                    weights_of(weights, ACROSS, b), multiply(own, weights, operands[2 * b], operands[2 * b + 1], b == 0 ? start : own);
#pragma unroll
                for (int half = 0; half < 2; ++half) quotients[half][group] = split_sums(own[2 * half], own[2 * half + 1]);
#pragma unroll
                for (int b = 0; b < BLOCKS; ++b)
                    weights_of(weights, ACROSS_LEFT, b), multiply(own, weights, operands[2 * b], operands[2 * b + 1], own);
#pragma unroll
                for (int half = 0; half < 2; ++half) remainders[half][group] = halves_of(own[2 * half], own[2 * half + 1]);
            }
            float results[8];
            u32 weights[4];
#pragma unroll
            for (int half = 0; half < 2; ++half) {
                const u32(&p)[2] = quotients[half], (&q)[2] = remainders[half];
                float(&whole)[4] = sums[c][half], (&rest)[4] = sums_left[c][half];
                weights_of(weights, DOWN, 1), multiply(whole, weights, p[0], p[1], whole);
                multiply(rest, weights, q[0], q[1], rest);
                weights_of(weights, DOWN_LEFT, 1), multiply(rest, weights, p[0], p[1], rest);
                // Of two rows, four pixels.
#pragma unroll
                for (int k = 0; k < 4; ++k) results[k / 2 * 4 + half * 2 + k % 2] = result_of(whole[k], rest[k], scale, levels[c]);
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
        if (clamped) {
#pragma unroll
            for (int k = 0; k < 8; ++k) twos[k / 4][k % 4] = clamped_codes(twos[k / 4][k % 4]);
#pragma unroll
            for (int k = 0; k < 4; ++k) thirds[k / 2][k % 2] = clamped_codes(thirds[k / 2][k % 2]);
        }
        // Bytes of channels that are not filtered.
        u32 beside[2][4];
        if (copied) {
#pragma unroll
            for (int k = 0; k < 2; ++k) {
                const int row = STEP - Own::ABOVE + k * GROUP;
                const uint4 own = load_piece(own_at + row % STEP * Own::PITCH + (row < STEP ? before_that : own_slot));
                beside[k][0] = own.x, beside[k][1] = own.y, beside[k][2] = own.z, beside[k][3] = own.w;
                if ((filtered | copied) != ~0u) {
#pragma unroll
                    for (int p = 0; p < 4; ++p) beside[k][p] = (beside[k][p] & copied) | filled;
                }
            }
        } else {
#pragma unroll
            for (int k = 0; k < 8; ++k) beside[k / 4][k % 4] = filled;
        }
        u32 pixels[2][4];
#pragma unroll
        for (int k = 0; k < 8; ++k) {
            const u32 code = __byte_perm(twos[k / 4][k % 4], thirds[k / 4][k / 2 % 2], k % 2 ? odd : even);
            pixels[k / 4][k % 4] = (code & filtered) | (beside[k / 4][k % 4] & ~filtered);
        }
        // Rows may end within a thread's four pixels.
        if (left >= PIECE) {
#pragma unroll
            for (int k = 0; k < 2; ++k)
                if (rows_left > k * GROUP)
                    write_sample(out + k * GROUP * stride, make_uint4(pixels[k][0], pixels[k][1], pixels[k][2], pixels[k][3]));
        } else {
#pragma unroll
            for (int k = 0; k < 6; ++k)
                if (left > k % 3 * WORD && rows_left > k / 3 * GROUP)
                    write_sample(out + k / 3 * GROUP * stride + k % 3 * WORD, pixels[k / 3][k % 3]);
        }
        const int first_row = lane() / 4, first_byte = lane() % 4 * PIECE;
        auto is_inside = [&](int row, int byte, int last_rows) {
            return row < last_rows + first_row && byte < left + first_byte && filtered >> 8 * (byte % WORD) & 1;
        };
        auto write_code = [&](cudaconv_u64 first, int row, int byte, u32 code) {
            write_sample<u8>(first + static_cast<u32>(row) * stride + byte, code);
        };
        const cudaconv_u64 first = out - first_row * stride - first_byte;
        // All that the bits of `doubts` say, of lane `from` and a step of which the output begins at `at`.
        auto decide = [&](u32 doubts, int from, cudaconv_u64 at, int rows, u32 upper, u32 lower) {
#pragma unroll 1
            for (; doubts != 0; doubts &= doubts - 1) {
                const int row = row_of(from, __ffs(doubts) - 1), byte = byte_of(from, __ffs(doubts) - 1);
                const u32 code = canonical_code_by_taps(launch, shared.canonical, address_of(above + lane() + row, byte, upper, lower), WORD, byte % WORD, 0);
                if (lane() == 0 && is_inside(row, byte, rows)) write_code(at, row, byte, code);
            }
        };
        if (waiting != 0) {
            if (lane() % span == 0 && (is_first ? of_first : second_of_them ? of_second : 0) && is_inside(decided_row, decided_byte, rows_left + STEP))
                write_code(first - STEP * stride, decided_row, decided_byte, decided);
            // The others of those threads.
            const u32 more_of_first = of_first & ~(0x80000000u >> __clz(of_first)), more_of_second = second_of_them ? of_second & ~(0x80000000u >> __clz(of_second)) : 0;
            const u32 second = span == WARP && second_of_them ? of_second : more_of_second;
            if (more_of_first | second) {
#pragma unroll 1
                for (u32 lanes = waiting, doubts = more_of_first; lanes != 0; lanes &= lanes - 1, doubts = second)
                    decide(doubts, __ffs(lanes) - 1, first - STEP * stride, rows_left + STEP, before_that_one, before_that);
            }
            waiting = 0;
        }
        u32 doubtful = __ballot_sync(~0u, min(least & 0xffff, least >> 16) < window);
        if (doubtful != 0) {
            // Bytes that other lanes have written are replaced.
            __syncwarp();
            if (__popc(doubtful) > MOST_DOUBTFUL) {
                // All rows of a column at once: lanes have the rows around the step.
                doubtful = 0;
#pragma unroll 1
                for (int column = 0; column < Own::BYTES; ++column) {
                    const u32 at = address_of(lane(), column, before_that, own_slot);
                    const u32 code = canonical_code_by_taps(launch, shared.canonical, at, WORD, column % WORD, above);
                    if (lane() < STEP && is_inside(lane(), column, rows_left)) write_code(first, lane(), column, code);
                }
            } else if (round + 1 < rounds) {
                waiting = doubtful & (0u - doubtful), doubtful ^= waiting;
                if (waiting >> lane() & 1) put_fractions(fractions_at, fractions);
                const u32 next = doubtful & (0u - doubtful);
                if (next >> lane() & 1) put_fractions(fractions_at + FRACTIONS_BYTES, fractions);
                waiting |= next, doubtful ^= next;
            }
#pragma unroll 1
            for (; doubtful != 0; doubtful &= doubtful - 1) {
                const int from = __ffs(doubtful) - 1;
                u32 own = 0;
#pragma unroll
                for (int k = 0; k < 2 * Own::FRACTIONS; ++k) own |= (fractions[k / 2] >> 16 * (k % 2) & 0xffff) < window ? 1u << k : 0;
                decide(__shfl_sync(~0u, own, from), from, first, rows_left, before_that, own_slot);
            }
        }
        out += STEP * stride;
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
SEPARABLE_SPLIT(separable_split_pixels_u8, 2, V_BLOCKS)
#endif
