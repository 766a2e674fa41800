// Correlation of 8-bit samples with separable kernels of any weights, rounded to float16, on the matrix
// units: up to 17 + 17 or 33 + 33 taps, across no further than 32 or 64 bytes.
//
// Error: sums across are rounded to 11 bits, weights to 11 bits each with their sum kept right; products and
// sums are float32. At most one code off, of random bytes 0.3 to 2.5 % of the samples.
//
// The tile goes through a ring in shared memory: see staged.cuh.
//
// Across, a product of a band matrix of weights and a matrix of bytes gives the sums of 16 bytes of 8 rows.
// `ldmatrix` hands a thread four bytes of a row that stand one behind the other. A byte in the low half of
// a float16 is a denormal number, its value times 2^-24, so two operations make four float16 of four bytes.
// The band is the same for every 16 bytes of a row, whatever the number of channels: weights stand as many
// columns apart. How rows and columns of products stand for bytes is free as long as all agree; the
// matrices come from the host (`src/engine/cuda/abi/halves.rs`), which numbers them in the same way.
// The result's registers hold sums of two rows of one column each; rounded to two float16 they are
// what a register of the second operand of the product down holds. That starts from 1024 and the offset: once more
// rounded to float16, halves to even, the low byte is the code. The divisor is in the weights.
//
// Codes go through shared memory, so that a thread writes 16 bytes of a row.
//
// Needs compute_80.
#include "halves.cuh"

// PIECES: that are read on either side of a warp's. BLOCKS: of 16 rows, that 16 rows of sums are computed from. TILES:
// pieces that a warp computes. Of the step before the one that is summed across bytes may be copied yet.
template <int PIECES, int BLOCKS_, int TILES>
struct Filter : Shape<TILES, PIECES, GROUP * (BLOCKS_ - 1), 2, 1> {
    static constexpr int BLOCKS = BLOCKS_;
    static constexpr int PRODUCTS = 2 * PIECES + 1;
    static constexpr int READS = (TILES + 2 * PIECES + 3) / 4;  // of four pieces
    static constexpr int BYTES = TILES * PIECE;
    // Rows that a warp writes at once.
    static constexpr int LINES = WARP / TILES;
    static constexpr int PASSES = STEP / LINES;
};

template <typename Own>
struct Shared {
    typename Ring<Own>::Shared staged;
    alignas(128) u8 codes[WARPS][STEP][Own::BYTES];
    alignas(16) u32 across[Own::PRODUCTS][WARP][4];
    alignas(16) u32 down[Own::BLOCKS][WARP][4];
    // What a thread's four sums begin with, of the first and the second half of 16 bytes.
    alignas(16) float first[2][4];
};

template <typename Own>
DEVICE void separable_half(const CudaconvConvolveLaunch& launch) {
    constexpr int BESIDE = Own::BESIDE, BLOCKS = Own::BLOCKS, TILES = Own::TILES;
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
    const uint4* own_across = table + (tile.channels - 1) * Own::PRODUCTS * WARP + lane();
    const uint4* own_down = table + CUDACONV_CHANNELS * Own::PRODUCTS * WARP + lane();
    // Those of the three pieces in the middle stay in registers.
    u32 across[3][4];
#pragma unroll
    for (int i = 0; i < 3; ++i) load_matrix(across[i], own_across + (BESIDE - 1 + i) * WARP);
    u32 across_at = shared_address(shared.across) + lane() * PIECE, down_at = shared_address(shared.down) + lane() * PIECE;
    keep(across_at), keep(down_at);
#pragma unroll 1
    for (int i = warp; i < Own::PRODUCTS; i += WARPS) store_piece(across_at + i * WARP * PIECE, __ldg(own_across + i * WARP));
    if (warp < BLOCKS) store_piece(down_at + warp * WARP * PIECE, __ldg(own_down + warp * WARP));
    const WeightSums sums_of_weights(table + (CUDACONV_CHANNELS * Own::PRODUCTS + BLOCKS) * WARP);
    u32 filtered = 0, copied = 0, filled = 0;
    bool clamped = false;
#pragma unroll
    for (int k = 0; k < WORD; ++k) {
        const CudaconvChannel& channel = tile.of_byte(k);
        const float level = sums_of_weights.level(channel);
        if (threadIdx.x == 0) shared.first[k / 2][k % 2] = shared.first[k / 2][k % 2 + 2] = 1024.0f + level;
        const u32 mask = 0xffu << 8 * k;
        if (channel.action == CUDACONV_FILTER) {
            filtered |= mask;
            clamped = clamped || sums_of_weights.least(level) < LEAST_RESULT || sums_of_weights.most(level) > MOST_RESULT;
        }
        if (channel.action == CUDACONV_COPY) copied |= mask;
        if (channel.action == CUDACONV_FILL) filled |= channel.fill << 8 * k;
    }
    u32 first_at = shared_address(shared.first);
    keep(first_at), keep(filtered), keep(copied), keep(filled);

    // --- Codes from products to pieces of rows. They change places so that no two are in one bank.
    const int code_row = lane() / 4, out_row = lane() / TILES, out_part = lane() % TILES;
    const u32 codes = shared_address(shared.codes[warp]);
    u32 put_at = codes + code_row * Own::BYTES + code_row * TILES / 8 % TILES * PIECE + lane() % 4 * WORD;
    u32 take_at = codes + out_row * Own::BYTES + (out_part ^ out_row * TILES / 8 % TILES) * PIECE;
    const int out_byte = tile.x0 + warp * Own::BYTES + out_part * PIECE;
    int left = tile.row_bytes - out_byte, rows_left = tile.height - tile.y0 - out_row;
    u32 out_step = STEP * tile.first.output_stride, out_lines = Own::LINES * tile.first.output_stride;
    cudaconv_u64 out = tile.first.output + static_cast<cudaconv_u64>(tile.y0 + out_row) * tile.first.output_stride + out_byte;
    keep(put_at), keep(take_at), keep(out_step), keep(left);
    // The bytes above the codes that a thread writes, and the slot of the first step that has some.
    const u32 bytes = shared_address(shared.staged.bytes);
    u32 own_at = bytes + (warp * TILES + BESIDE + out_part) * PIECE + out_row * Own::PITCH;
    keep(own_at);
    // Writes 16 rows, of a step in slot `slot` of the ring and the one before it in slot `before`.
    auto write_step = [&](u32 before, u32 slot) {
        uint4 fours[Own::PASSES];
#pragma unroll
        for (int k = 0; k < Own::PASSES; ++k) {
            uint4& four = fours[k];
            four = load_piece(take_at + k * Own::LINES * Own::BYTES);
            four.x = (four.x & filtered) | filled, four.y = (four.y & filtered) | filled;
            four.z = (four.z & filtered) | filled, four.w = (four.w & filtered) | filled;
        }
        if (copied) {
#pragma unroll
            for (int k = 0; k < Own::PASSES; ++k) {
                const int row = STEP - Own::ABOVE + k * Own::LINES;
                const uint4 own = load_piece(own_at + row % STEP * Own::PITCH + (row < STEP ? before : slot));
                fours[k].x |= own.x & copied, fours[k].y |= own.y & copied;
                fours[k].z |= own.z & copied, fours[k].w |= own.w & copied;
            }
        }
        if (left >= PIECE) {
#pragma unroll
            for (int k = 0; k < Own::PASSES; ++k)
                if (rows_left > k * Own::LINES) write_sample(out + k * out_lines, fours[k]);
        } else if (left > 0) {
#pragma unroll 1
            for (int k = 0; k < Own::PASSES && rows_left > k * Own::LINES; ++k) {
                uint4 four = k == 0 ? fours[0] : fours[Own::PASSES - 1];
#pragma unroll 1
                for (int b = 0; b < left; ++b) {
                    write_sample<u8>(out + k * out_lines + b, four.x >> 8 * (b % WORD));
                    if (b % WORD == WORD - 1) four.x = four.y, four.y = four.z, four.z = four.w;
                }
            }
        }
        out += out_step;
        rows_left -= STEP;
    };

    // --- Steps
    u32 read_at = bytes + lane() % GROUP * Own::PITCH + warp * Own::BYTES + lane() / GROUP * PIECE, slot = 0, before = 0;
    const int beside = tile.beside;
    int rounds = tile.steps + BLOCKS - 1;
    keep(read_at), keep(rounds);
    // Of the last four pieces that a warp reads, those that it does not need are others that it does: behind a row
    // others may be writing.
    constexpr int NEEDED = TILES + 2 * BESIDE, LAST = (Own::READS - 1) * 4;
    const u32 back = max(LAST + lane() / GROUP - (NEEDED - 1), 0) * PIECE;
    // Sums across, of blocks of 16 rows: of a piece, its halves, and two groups of rows.
    u32 sums[BLOCKS][TILES][2][2];
#pragma unroll
    for (int b = 0; b < BLOCKS; ++b)
#pragma unroll
        for (int k = 0; k < TILES * 4; ++k) sums[b][k / 4][k / 2 % 2][k % 2] = 0;
#pragma unroll 1
    for (int round = 0; round < rounds; ++round) {
        ring.template wait<Own::AHEAD - 1>(round, slot);
        ring.copy_step();
#pragma unroll
        for (int b = 0; b + 1 < BLOCKS; ++b)
#pragma unroll
            for (int k = 0; k < TILES * 4; ++k) sums[b][k / 4][k / 2 % 2][k % 2] = sums[b + 1][k / 4][k / 2 % 2][k % 2];
#pragma unroll
        for (int group = 0; group < 2; ++group) {
            u32 even[Own::READS * 4], odd[Own::READS * 4];
#pragma unroll
            for (int i = 0; i < Own::READS; ++i) {
                u32 words[4];
                const u32 at = read_at + slot + group * GROUP * Own::PITCH + i * 4 * PIECE;
                load_pieces(words, i * 4 == LAST && LAST + 4 > NEEDED ? at - back : at);
#pragma unroll
                for (int k = 0; k < 4; ++k) {
                    even[4 * i + k] = words[k] & 0x00ff00ff;
                    odd[4 * i + k] = __byte_perm(words[k], 0, 0x4341);
                }
            }
            const float none[4] = {0.0f, 0.0f, 0.0f, 0.0f};
            float two[TILES][4];
#pragma unroll
            for (int tile = 0; tile < TILES; ++tile) multiply(two[tile], across[1], even[tile + BESIDE], odd[tile + BESIDE], none);
#pragma unroll
            for (int away = 1; away <= BESIDE; ++away) {
                if (away > 1 && away > beside) break;
#pragma unroll
                for (int product = BESIDE - away; product <= BESIDE + away; product += 2 * away) {
                    u32 weights[4];
                    if (away == 1) {
#pragma unroll
                        for (int k = 0; k < 4; ++k) weights[k] = across[product - BESIDE + 1][k];
                    } else {
                        load_matrix(weights, across_at + product * WARP * PIECE);
                    }
#pragma unroll
                    for (int tile = 0; tile < TILES; ++tile)
                        multiply(two[tile], weights, even[tile + product], odd[tile + product], two[tile]);
                }
            }
#pragma unroll
            for (int tile = 0; tile < TILES; ++tile) {
                sums[BLOCKS - 1][tile][0][group] = halves_of(two[tile][0], two[tile][1]);
                sums[BLOCKS - 1][tile][1][group] = halves_of(two[tile][2], two[tile][3]);
            }
        }
        const u32 own_slot = slot;
        slot = Own::next(slot);
        if (round < BLOCKS - 1) {
            before = own_slot;
            continue;
        }
        float d[TILES * 2][4];
#pragma unroll
        for (int b = 0; b < BLOCKS; ++b) {
            u32 down[4];
            load_matrix(down, down_at + b * WARP * PIECE);
#pragma unroll
            for (int half = 0; half < 2; ++half) {
                float start[4];
                load_sums(start, first_at + half * PIECE);
#pragma unroll
                for (int tile = 0; tile < TILES; ++tile) {
                    float(&own)[4] = d[tile * 2 + half];
                    if (b == 0) multiply(own, down, sums[b][tile][half][0], sums[b][tile][half][1], start);
                    else multiply(own, down, sums[b][tile][half][0], sums[b][tile][half][1], own);
                }
            }
        }
        // 1024 and a code, two of them for each of two rows.
        u32 pairs[TILES * 2][2];
#pragma unroll
        for (int k = 0; k < TILES * 2; ++k) pairs[k][0] = halves_of(d[k][0], d[k][1]), pairs[k][1] = halves_of(d[k][2], d[k][3]);
        if (clamped) {
#pragma unroll
            for (int k = 0; k < TILES * 4; ++k) pairs[k / 2][k % 2] = clamped_codes(pairs[k / 2][k % 2]);
        }
#pragma unroll
        for (int tile = 0; tile < TILES; ++tile)
#pragma unroll
            for (int k = 0; k < 2; ++k)
                store_word((put_at ^ tile * PIECE) + k * GROUP * Own::BYTES, __byte_perm(pairs[tile * 2][k], pairs[tile * 2 + 1][k], 0x6420));
        __syncwarp();
        write_step(before, own_slot);
        before = own_slot;
        __syncwarp();
    }
}

// With so many blocks of a multiprocessor that registers suffice.
#ifdef SEPARABLE_HALF_U8
KERNEL(separable_half_u8, CudaconvConvolveLaunch, (THREADS, 4), separable_half<Filter<2, 2, 4>>(launch))
#endif
#ifdef SEPARABLE_HALF_WIDE_U8
KERNEL(separable_half_wide_u8, CudaconvConvolveLaunch, (THREADS, 4), separable_half<Filter<4, 3, 2>>(launch))
#endif
