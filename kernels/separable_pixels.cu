// Correlation of pixels of four bytes with separable kernels of any weights, rounded to float16, on the matrix
// units: up to 17 + 17 or 33 + 33 taps. Three of the channels are filtered, or fewer: red, green and blue beside alpha.
//
// Error: sums across are rounded to 11 bits, once for every 16 pixels that they are made of, weights to 11 bits
// each with their sum kept right; sums down are float32. At most one code off, of random bytes 0.3 to 2.5 % of the
// samples.
//
// The tile goes through a ring in shared memory: see staged.cuh. In each step a warp computes 16 pixels of 16 rows.
//
// Across, a product of a band matrix of weights and a matrix of 16 pixels of one channel, of 8 rows, gives the sums of
// 16 pixels, so a band is no wider than the kernel. `ldmatrix` hands a thread pixels that stand four apart. A byte in the low half
// of a float16 is a denormal number, its value times 2^-24; two pixels of a channel are picked out of two words at
// once. How rows and columns of products stand for pixels is free as long as all agree; the matrices come from
// the host (`src/engine/cuda/abi/halves.rs`), which numbers them in the same way.
// The result's registers hold sums of two rows of one pixel each, which is what a register of the second operand of
// the products down holds. Each of these adds what 8 rows give to the sums of 16: those of the step are the last for
// the outputs above them, and the first for those that are still to come. These start from 1024 and the offset: rounded to float16,
// halves to even, the low byte is the code. The divisor is in the weights.
// In the end a thread has four pixels of each of two rows that stand one behind the other, and writes them.
//
// Measured, 4K RGBA takes 1.4 times as long as a copy with 7 + 7 taps and 1.9 times with 33 + 33. Of a step's 230
// instructions 36 are matrix products. Sums across of float32 take as long, and so do sums down by products of 16 rows, as
// registers of an operand must stand side by side; two steps ahead are better than one or three, and 4 warps than 2 or 8.
//
// Needs compute_80.
#include "halves.cuh"

// Channels that are computed.
constexpr int COLOURS = 3;

// BLOCKS: of 16 pixels or rows, that 16 sums are computed from. What is copied stands in the ring above what is computed.
template <int BLOCKS_>
struct Filter : Shape<4, 2 * (BLOCKS_ - 1), GROUP * (BLOCKS_ - 1), 2, 1> {
    static constexpr int BLOCKS = BLOCKS_;
    static constexpr int BYTES = 4 * PIECE;  // of a row, that a warp computes
};

template <typename Own>
struct Shared {
    typename Ring<Own>::Shared staged;
    // What a thread's four sums of each colour begin with.
    alignas(16) float first[COLOURS][4];
};

template <typename Own>
DEVICE void separable_pixels(const CudaconvConvolveLaunch& launch) {
    constexpr int BLOCKS = Own::BLOCKS;
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
    u32 across[BLOCKS][4], down[BLOCKS][4];
#pragma unroll
    for (int b = 0; b < BLOCKS; ++b) {
        load_matrix(across[b], table + b * WARP + lane());
        load_matrix(down[b], table + (BLOCKS + b) * WARP + lane());
    }
    const WeightSums sums_of_weights(table + 2 * BLOCKS * WARP);
    // Of the channels, the one that is not computed.
    u32 filtered = 0, copied = 0, filled = 0, left_out = 0;
    bool clamped = false;
#pragma unroll
    for (int k = 0; k < WORD; ++k) {
        const CudaconvChannel& channel = tile.job.channels[k];
        const u32 mask = 0xffu << 8 * k;
        if (channel.action == CUDACONV_FILTER) {
            const float level = sums_of_weights.level(channel);
            filtered |= mask;
            clamped = clamped || sums_of_weights.least(level) < LEAST_RESULT || sums_of_weights.most(level) > MOST_RESULT;
        } else {
            left_out = k;
        }
        if (channel.action == CUDACONV_COPY) copied |= mask;
        if (channel.action == CUDACONV_FILL) filled |= channel.fill << 8 * k;
    }
    if (threadIdx.x < COLOURS * 4) {
        const u32 colour = threadIdx.x / 4;
        const CudaconvChannel& channel = tile.job.channels[colour + (colour >= left_out)];
        shared.first[colour][threadIdx.x % 4] = 1024.0f + sums_of_weights.level(channel);
    }
    u32 first_at = shared_address(shared.first);
    keep(first_at), keep(filtered);
    // Of more sums there is no room for them.
    if (BLOCKS == 2) keep(copied), keep(filled);
    // Selectors of `__byte_perm`: of two pixels, bytes of the first two colours, and of the third; and of codes, those of a pixel in
    // their places. The third ones of two pixels are in one register.
    const u32 c0 = left_out == 0, c1 = 1 + (left_out <= 1), c2 = 2 + (left_out <= 2);
    const u32 first_two = c0 | c1 << 4 | (c0 + 4) << 8 | (c1 + 4) << 12, third = c2 | (c2 + 4) << 8;
    const u32 even = 2 << 4 * c1 | 4 << 4 * c2, odd = 2 << 4 * c1 | 6 << 4 * c2;

    // --- Where pixels are written: four of two rows, 8 rows apart
    const int out_row = lane() / 4, out_byte = tile.x0 + warp * Own::BYTES + lane() % 4 * PIECE;
    int left = tile.row_bytes - out_byte, rows_left = tile.height - tile.y0 - out_row;
    u32 out_step = STEP * tile.first.output_stride, out_lines = GROUP * tile.first.output_stride;
    cudaconv_u64 out = tile.first.output + static_cast<cudaconv_u64>(tile.y0 + out_row) * tile.first.output_stride + out_byte;
    keep(out_step), keep(left);
    // The bytes above them, if they were in the first rows of a slot.
    const u32 bytes = shared_address(shared.staged.bytes) + warp * Own::BYTES;
    u32 own_at = bytes + out_row * Own::PITCH + (Own::BESIDE + lane() % 4) * PIECE;
    u32 read_at = bytes + lane() % GROUP * Own::PITCH + lane() / GROUP * PIECE, slot = 0, before = 0;
    int rounds = tile.steps + BLOCKS - 1;
    keep(read_at), keep(rounds), keep(own_at);

    // --- Steps
    // Sums down that are not complete, the next ones first: of 16 rows, and the first and the second half of 16 pixels.
    float sums[BLOCKS - 1][COLOURS][2][4];
#pragma unroll
    for (int b = 0; b < BLOCKS - 1; ++b)
#pragma unroll
        for (int k = 0; k < COLOURS * 8; ++k) sums[b][k / 8][k / 4 % 2][k % 4] = 0.0f;
#pragma unroll 1
    for (int round = 0; round < rounds; ++round) {
        ring.template wait<Own::AHEAD - 1>(round, slot);
        ring.copy_step();
        // Sums across: of two groups of rows, a colour, and the two halves.
        u32 passed[2][COLOURS][2];
#pragma unroll
        for (int group = 0; group < 2; ++group) {
            u32 operands[COLOURS][2 * BLOCKS];
#pragma unroll
            for (int b = 0; b < BLOCKS; ++b) {
                u32 words[4];
                load_pieces(words, read_at + slot + group * GROUP * Own::PITCH + b * 4 * PIECE);
#pragma unroll
                for (int k = 0; k < 2; ++k) {
                    const u32 two = __byte_perm(words[2 * k], words[2 * k + 1], first_two);
                    operands[0][2 * b + k] = two & 0x00ff00ff;
                    operands[1][2 * b + k] = __byte_perm(two, 0, 0x4341);
                    operands[2][2 * b + k] = __byte_perm(words[2 * k], words[2 * k + 1], third) & 0x00ff00ff;
                }
            }
#pragma unroll
            for (int c = 0; c < COLOURS; ++c) {
                u32(&own)[2] = passed[group][c];
                own[0] = own[1] = 0;
#pragma unroll
                for (int b = BLOCKS - 1; b >= 0; --b) multiply(own, across[b], operands[c][2 * b], operands[c][2 * b + 1], own);
            }
        }
        const u32 own_slot = slot, slot_before = before;
        before = slot, slot = Own::next(slot);
        // Adds what the rows of a step give to `c`.
        auto add = [&](float (&d)[4], int colour, int half, const u32 (&weights)[4], const float (&c)[4]) {
            multiply(d, weights[0], weights[1], passed[0][colour][half], c);
            multiply(d, weights[2], weights[3], passed[1][colour][half], d);
        };
#pragma unroll
        for (int k = 0; k < COLOURS * 2; ++k) add(sums[0][k / 2][k % 2], k / 2, k % 2, down[BLOCKS - 1], sums[0][k / 2][k % 2]);
        // 1024 and a code, two in a register: of two rows and four pixels the first two colours, and the third of two pixels.
        u32 twos[2][4], thirds[2][2];
#pragma unroll
        for (int k = 0; k < 8; ++k) {
            const int row = k / 4, half = k / 2 % 2, at = k % 2 + 2 * row;
            twos[row][k % 4] = halves_of(sums[0][0][half][at], sums[0][1][half][at]);
            if (k % 2 == 0) thirds[row][half] = halves_of(sums[0][2][half][at], sums[0][2][half][at + 1]);
        }
#pragma unroll
        for (int b = 0; b < BLOCKS - 1; ++b)
#pragma unroll
            for (int c = 0; c < COLOURS; ++c) {
                float first[4];
                if (b == BLOCKS - 2) load_sums(first, first_at + c * PIECE);
#pragma unroll
                for (int half = 0; half < 2; ++half)
                    add(sums[b][c][half], c, half, down[BLOCKS - 2 - b], b == BLOCKS - 2 ? first : sums[(b + 1) % (BLOCKS - 1)][c][half]);
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
                if (rows_left > k * GROUP)
                    write_sample(out + k * out_lines, make_uint4(pixels[k][0], pixels[k][1], pixels[k][2], pixels[k][3]));
        } else {
#pragma unroll
            for (int k = 0; k < 6; ++k)
                if (left > k % 3 * WORD && rows_left > k / 3 * GROUP) write_sample(out + k / 3 * out_lines + k % 3 * WORD, pixels[k / 3][k % 3]);
        }
        out += out_step;
        rows_left -= STEP;
    }
}

// With so many blocks of a multiprocessor that registers suffice.
#ifdef SEPARABLE_PIXELS_U8
KERNEL(separable_pixels_u8, CudaconvConvolveLaunch, (THREADS, 4), separable_pixels<Filter<2>>(launch))
#endif
#ifdef SEPARABLE_PIXELS_WIDE_U8
KERNEL(separable_pixels_wide_u8, CudaconvConvolveLaunch, (THREADS, 4), separable_pixels<Filter<3>>(launch))
#endif
