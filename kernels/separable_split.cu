// Correlation of pixels of four bytes with separable kernels of any weights, of up to 17 + 17 taps, on the matrix units:
// canonical bytes. Three of the channels are filtered, or fewer: red, green and blue beside alpha. See split.cuh.
//
// Needs compute_80.
#include "split.cuh"

#ifndef V_AHEAD
#define V_AHEAD 2
#endif
#ifndef V_KEPT
#define V_KEPT 1
#endif
#ifndef V_BLOCKS
#define V_BLOCKS 3
#endif
#ifndef V_ABL
#define V_ABL 0
#endif
#ifndef V_LDS
#define V_LDS 0
#endif

// Channels that are computed.
constexpr int COLOURS = 3;

// BLOCKS: of 16 pixels or rows, that 16 sums are computed from. What is copied stands in the ring above what is computed.
template <int BLOCKS_>
struct Filter : Shape<4, 2 * (BLOCKS_ - 1), GROUP * (BLOCKS_ - 1), V_AHEAD, V_KEPT> {
    static constexpr int BLOCKS = BLOCKS_;
    static constexpr int BYTES = 4 * PIECE;  // of a row, that a warp computes
};

template <typename Own>
struct Shared {
    typename Ring<Own>::Shared staged;
    Canonical<4 * COLOURS> canonical;
    alignas(16) u32 held[WARPS][8];
    float levels[COLOURS];
#if V_LDS
    alignas(16) uint4 weights[4 * Own::BLOCKS][WARP];
    alignas(16) float start[4];
#endif
};

template <typename Own>
DEVICE void separable_split(const CudaconvConvolveLaunch& launch) {
    constexpr int BLOCKS = Own::BLOCKS;
    static_assert(BLOCKS == 2, "sums down");
    __shared__ Shared<Own> shared;
    const u32 job_index = job_of(launch.frame, blockIdx.y);
    if (blockIdx.x >= launch.frame.jobs[job_index].tiles_across) return;
    const Tile<Own> tile(launch, job_index, blockIdx.x, blockIdx.y);
    const int warp = threadIdx.x / WARP;
    Ring<Own> ring(launch, shared.staged, job_index, tile);
#pragma unroll 1
    for (int step = 0; step < Own::AHEAD; ++step) ring.copy_step();
#ifdef V_SLACK
    ring.begin();
    ring.template first<Own::AHEAD - 1>();
#endif

    // --- Weights, and what becomes of sums
    const uint4* table = reinterpret_cast<const uint4*>(launch.weights);
#if V_LDS
    for (int i = threadIdx.x; i < 4 * BLOCKS * WARP; i += THREADS) shared.weights[i / WARP][i % WARP] = __ldg(table + i);
    u32 weights_at = shared_address(shared.weights) + lane() * PIECE;
    keep(weights_at);
#else
    u32 held[4 * BLOCKS][4];
#pragma unroll
    for (int b = 0; b < 4 * BLOCKS; ++b) load_matrix(held[b], table + b * WARP + lane());
#endif
    auto weights_of = [&](u32 (&words)[4], int matrix) {
#if V_LDS
        const uint4 four = load_piece(weights_at + matrix * WARP * PIECE);
        words[0] = four.x, words[1] = four.y, words[2] = four.z, words[3] = four.w;
#else
        words[0] = held[matrix][0], words[1] = held[matrix][1], words[2] = held[matrix][2], words[3] = held[matrix][3];
#endif
    };
    enum { ACROSS = 0, ACROSS_LEFT = BLOCKS, DOWN = 2 * BLOCKS, DOWN_LEFT = 3 * BLOCKS };
    const SplitConstants& constants = *reinterpret_cast<const SplitConstants*>(table + 4 * BLOCKS * WARP);
#if V_LDS == 1
    if (threadIdx.x < 4) shared.start[threadIdx.x] = __ldg(&constants.start);
    if (lane() < 4) shared.held[warp][4 + lane()] = 0x64646464;
    __syncwarp();
    const u32 raised = load_piece(shared_address(shared.held[warp]) + PIECE).x;
#else
    if (lane() < 4) shared.held[warp][lane()] = __float_as_uint(__ldg(&constants.start)), shared.held[warp][4 + lane()] = 0x64646464;
    __syncwarp();
    float start[4];
    load_floats(start, shared_address(shared.held[warp]));
    const u32 raised = load_piece(shared_address(shared.held[warp]) + PIECE).x;
#endif
    const float scale = __ldg(&constants.scale);
    u32 doubt = __ldg(&constants.window);
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
#if V_KEEP
    keep(filtered);
#endif
    shared.canonical.load(launch, tile.job, reinterpret_cast<const float*>(&constants + 1));
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
#if V_KEEP
    keep(left);
#endif
    // The bytes above them, if they were in the first rows of a slot.
    const u32 bytes = shared_address(shared.staged.bytes) + warp * Own::BYTES;
    u32 own_at = bytes + out_row * Own::PITCH + (Own::BESIDE + lane() % 4) * PIECE;
    u32 read_at = bytes + lane() % GROUP * Own::PITCH + lane() / GROUP * PIECE, slot = 0, before = 0;
    int rounds = tile.steps + BLOCKS - 1;
#ifdef V_PENDING
    u32 pending = ~0u, before_that = 0;
#endif
#if V_KEEP
    keep(read_at);
#endif
#ifdef V_CLOCK
#define CLK(i) if (blockIdx.x == 7 && blockIdx.y == 0 && threadIdx.x == 0) reinterpret_cast<u32*>(launch.weights + 32768)[(round * 8 + i) & 1023] = clock();
#else
#define CLK(i)
#endif

    // --- Steps
    // Sums down that are not complete: whole ones, and what is left.
    float sums[COLOURS][2][4], sums_left[COLOURS][2][4];
#pragma unroll
    for (int k = 0; k < COLOURS * 8; ++k) sums[k / 8][k / 4 % 2][k % 4] = sums_left[k / 8][k / 4 % 2][k % 4] = 0.0f;
#pragma unroll 1
    for (int round = 0; round < rounds; ++round) {
        CLK(0)
        ring.template wait<Own::AHEAD - 1>(round, slot);
        CLK(1)
#if V_ABL != 4
        ring.copy_step();
#endif
        CLK(2)
#ifdef V_PENDING
        const u32 waited = pending;
        const int waited_above = Own::ABOVE - static_cast<int>(launch.kernels[0].height) / 2 + static_cast<int>(waited >> 8 & 15) + lane();
        const u32 waited_at = own_at - lane() / 4 * Own::PITCH - lane() % 4 * PIECE + waited_above % STEP * Own::PITCH + (waited_above & STEP ? before : before_that) +
                              (waited & 63) - launch.kernels[0].width / 2 * WORD;
        const u32 waited_code = canonical_code<Own::ABOVE>(launch, shared.canonical, waited_at, WORD, waited & 3, false);
        before_that = before;
#endif
        // Pieces of two groups of rows.
        u32 words[2][BLOCKS][4];
#pragma unroll
        for (int k = 0; k < 2 * BLOCKS; ++k)
            load_pieces(words[k / BLOCKS][k % BLOCKS], read_at + slot + k / BLOCKS * GROUP * Own::PITCH + k % BLOCKS * 4 * PIECE);
        u32 firsts[2][2 * BLOCKS];
#pragma unroll
        for (int k = 0; k < 4 * BLOCKS; ++k) {
            const u32* const two = words[k / (2 * BLOCKS)][k / 2 % BLOCKS] + k % 2 * 2;
            firsts[k / (2 * BLOCKS)][k % (2 * BLOCKS)] = __byte_perm(two[0], two[1], first_two);
        }
        const u32 own_slot = slot, slot_before = before;
        before = slot, slot = Own::next(slot);
        // 1024 and a code, two in a register: of two rows and four pixels the first two colours, and the third of two pixels.
        u32 twos[2][4], thirds[2][2];
        float first_results[8];
#ifdef V_PACKED
        u32 fractions[4 * COLOURS], least_two = 0x1fff1fff;
#endif
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
#if V_LDS == 1
                float start[4];
                load_floats(start, weights_at - lane() * PIECE + 4 * BLOCKS * WARP * PIECE);
#endif
#pragma unroll
                for (int b = 0; b < BLOCKS; ++b) weights_of(weights, ACROSS + b), multiply(own, weights, operands[2 * b], operands[2 * b + 1], b == 0 ? start : own);
#pragma unroll
                for (int half = 0; half < 2; ++half) quotients[half][group] = split_sums(own[2 * half], own[2 * half + 1]);
#pragma unroll
                for (int b = 0; b < BLOCKS; ++b) weights_of(weights, ACROSS_LEFT + b), multiply(own, weights, operands[2 * b], operands[2 * b + 1], own);
#pragma unroll
                for (int half = 0; half < 2; ++half) remainders[half][group] = halves_of(own[2 * half], own[2 * half + 1]);
            }
            float results[8];
#ifndef V_PACKED
            u32 least = ~0u;
#endif
            u32 weights[4];
#pragma unroll
            for (int half = 0; half < 2; ++half) {
                const u32(&p)[2] = quotients[half], (&q)[2] = remainders[half];
                float(&whole)[4] = sums[c][half], (&rest)[4] = sums_left[c][half];
                weights_of(weights, DOWN + 1), multiply(whole, weights, p[0], p[1], whole);
#if V_ORDER
                u32 more[4];
                weights_of(more, DOWN_LEFT + 1), multiply(rest, more, p[0], p[1], rest);
                multiply(rest, weights, q[0], q[1], rest);
#else
#if V_ABL != 1
                multiply(rest, weights, q[0], q[1], rest);
                weights_of(weights, DOWN_LEFT + 1), multiply(rest, weights, p[0], p[1], rest);
#endif
#endif
#pragma unroll
                for (int k = 0; k < 4; ++k) {
                    const float result = result_of(whole[k], rest[k], scale, levels[c]);
                    // Of two rows, four pixels.
                    results[k / 2 * 4 + half * 2 + k % 2] = result;
#if !defined(V_NODOUBT) && !defined(V_PACKED)
                    least = min(least, fraction_of(result));
#endif
                }
                weights_of(weights, DOWN), multiply(whole, weights, p[0], p[1]);
#if V_ABL != 1
                multiply(rest, weights, q[0], q[1]);
                weights_of(weights, DOWN_LEFT), multiply(rest, weights, p[0], p[1], rest);
#endif
            }
#ifdef V_PACKED
#pragma unroll
            for (int k = 0; k < 4; ++k) {
                fractions[4 * c + k] = fractions_of(results[2 * k], results[2 * k + 1]);
                least_two = least_of(least_two, fractions[4 * c + k]);
            }
#elif !defined(V_NODOUBT)
            if (least < doubt) {
#pragma unroll
                for (int k = 0; k < 8; ++k)
                    if (fraction_of(results[k]) < doubt) doubtful |= 1u << (8 * c + k);
            }
#endif
#pragma unroll
            for (int k = 0; k < 8; ++k) {
                if (c == 0) first_results[k] = results[k];
                if (c == 1) twos[k / 4][k % 4] = truncated_halves_of(first_results[k], results[k]);
                if (c == 2 && k % 2 == 0) thirds[k / 4][k / 2 % 2] = truncated_halves_of(results[k], results[k + 1]);
            }
        }
        CLK(3)
        if (round < BLOCKS - 1) continue;
        CLK(4)
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
                const uint4 own = load_piece(own_at + row % STEP * Own::PITCH + (row < STEP ? slot_before : own_slot));
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
                if (rows_left > k * GROUP + (V_ABL == 3 ? 100000 : 0))
                    write_sample(out + k * out_lines, make_uint4(pixels[k][0], pixels[k][1], pixels[k][2], pixels[k][3]));
        } else {
#pragma unroll
            for (int k = 0; k < 6; ++k)
                if (left > k % 3 * WORD && rows_left > k / 3 * GROUP) write_sample(out + k / 3 * out_lines + k % 3 * WORD, pixels[k / 3][k % 3]);
        }
        CLK(5)
#ifndef V_NODOUBT
#ifdef V_PENDING
        if (threadIdx.x % WARP == 0 && waited != ~0u) write_sample<u8>(out - out_step + (waited >> 8 & 15) * (out_step / STEP) + (waited & 63), waited_code);
        pending = ~0u;
#endif
        const u32 doubtful = __ballot_sync(~0u, min(least_two & 0xffff, least_two >> 16) < doubt);
        if (doubtful != 0) {
            // The bytes that were written are replaced.
            __syncwarp();
            const int own_row = lane() / 4, own_byte = lane() % 4 * PIECE;
            const u32 stride = out_step / STEP, bytes_at = own_at - own_row * Own::PITCH - own_byte;
            const u32 skipped = (31 - __clz(~filtered)) / 8;
            const u32 channels = (filtered & 1) | (filtered >> 7 & 2) | (filtered >> 14 & 4) | (filtered >> 21 & 8);
            const Samples samples = {out - own_row * stride - own_byte, stride, rows_left + own_row, left + own_byte, channels};
#ifdef V_PENDING
            // One of one thread waits for the next step.
            if ((doubtful & (doubtful - 1)) == 0 && round + 1 < rounds) {
                const int from = __ffs(doubtful) - 1;
                u32* const of_warp = shared.canonical.fractions[again(threadIdx.x) / WARP];
                if (lane() == from) {
#pragma unroll
                    for (int k = 0; k < 12; k += 4)
                        store_piece(shared_address(of_warp + k), make_uint4(fractions[k], fractions[k + 1], fractions[k + 2], fractions[k + 3]));
                }
                __syncwarp();
                const u32 fraction = lane() < 24 ? load_half(shared_address(of_warp) + lane() * 2) : doubt;
                const u32 mask = __ballot_sync(~0u, fraction < doubt);
                if ((mask & (mask - 1)) == 0) {
                    const int i = __ffs(mask) - 1;
                    const u32 colour = i / 8, channel = colour + (colour >= skipped);
                    const int row = from / 4 + i / 4 % 2 * GROUP, byte = from % 4 * PIECE + i % 4 * WORD + static_cast<int>(channel);
                    if (row < samples.rows && byte < samples.bytes && (channels >> channel & 1)) pending = row << 8 | byte;
                }
            }
            if (pending == ~0u)
#endif
            decide_doubts<Own::ABOVE>(
                launch, shared.canonical, samples, doubtful, fractions, doubt,
                [&](int row) { return bytes_at + row % STEP * Own::PITCH + (row < STEP ? slot_before : own_slot); },
                [&](int of_lane, int i) -> Place {
                    const u32 colour = i / 8, channel = colour + (colour >= skipped);
                    return {of_lane / 4 + i / 4 % 2 * GROUP, of_lane % 4 * PIECE + i % 4 * WORD + static_cast<int>(channel), channel};
                },
                Own::BYTES, [&](int i) { return static_cast<u32>(i % WORD); }, [](u32) { return WORD; });
        }
#endif
        CLK(6)
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
SEPARABLE_SPLIT(separable_split_pixels_u8, 2, V_BLOCKS)
#endif
