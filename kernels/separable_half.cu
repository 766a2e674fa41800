// Correlation of 8-bit samples with separable kernels of any weights, rounded to float16, on the matrix
// units: up to 17 + 17 or 33 + 33 taps, across no further than 32 or 64 bytes.
//
// Error: sums across are rounded to 11 bits, weights to 11 bits each with their sum kept right; products and
// sums are float32. At most one code off, of random bytes 0.3 to 2.5 % of the samples.
//
// A block computes 16 rows of its tile in each step, from its first to its last. Pieces of 16 bytes go to a
// ring in shared memory some steps ahead, asynchronously, whole rows of the tile at a time: that keeps enough of
// them under way, and what lies beyond the edge is put there as well, so that nothing after that knows
// of edges.
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
#include "common.cuh"

constexpr int WARPS = 4;
constexpr int THREADS = WARPS * WARP;
constexpr int WORD = 4;
// Bytes of a row that are loaded at once, and that a product across gives the sums of.
constexpr int PIECE = 16;
// Rows of a product across, and of a step.
constexpr int GROUP = 8;
constexpr int STEP = 16;
// Steps in the ring, and how many of them are loaded ahead: one is being worked on, and of the one before that
// bytes may be copied yet.
constexpr int SLOTS = 4;
constexpr int AHEAD = SLOTS - 2;
// Most rows of a tile and around it.
constexpr int MOST_ROWS = 256;

// --- 1. instructions -----------------------------------------------------------------------------

// a b + c, with a of 16 x 16 float16, b of 16 x 8 and c of 16 x 8 sums.
DEVICE void multiply(float (&d)[4], const u32 (&a)[4], u32 b0, u32 b1, const float (&c)[4]) {
    asm("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%10, %11, %12, %13};"
        : "=f"(d[0]), "=f"(d[1]), "=f"(d[2]), "=f"(d[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1), "f"(c[0]), "f"(c[1]), "f"(c[2]), "f"(c[3]));
}

DEVICE u32 halves_of(float low, float high) {
    u32 two;
    asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(two) : "f"(high), "f"(low));
    return two;
}

// Two float16, each from 1024 to 1279.
DEVICE u32 clamped_codes(u32 two) {
    asm("max.f16x2 %0, %0, %1;" : "+r"(two) : "r"(0x64006400));
    asm("min.f16x2 %0, %0, %1;" : "+r"(two) : "r"(0x64ff64ff));
    return two;
}

// Shared memory by its own addresses, in registers of 32 bits.
DEVICE u32 shared_address(const void* at) { return static_cast<u32>(__cvta_generic_to_shared(at)); }

DEVICE void store_word(u32 to, u32 word) { asm volatile("st.shared.u32 [%0], %1;" ::"r"(to), "r"(word) : "memory"); }

DEVICE void store_piece(u32 to, uint4 four) {
    asm volatile("st.shared.v4.u32 [%0], {%1, %2, %3, %4};" ::"r"(to), "r"(four.x), "r"(four.y), "r"(four.z), "r"(four.w)
                 : "memory");
}

DEVICE uint4 load_piece(u32 from) {
    uint4 four;
    asm volatile("ld.shared.v4.u32 {%0, %1, %2, %3}, [%4];"
                 : "=r"(four.x), "=r"(four.y), "=r"(four.z), "=r"(four.w)
                 : "r"(from)
                 : "memory");
    return four;
}

DEVICE void load_matrix(u32 (&words)[4], u32 from) {
    const uint4 four = load_piece(from);
    words[0] = four.x, words[1] = four.y, words[2] = four.z, words[3] = four.w;
}

// Four pieces, one behind the other, of eight rows: lane l says where piece l / 8 of row l % 8 is, and gets bytes
// 4 (l % 4) to 4 (l % 4) + 3 of each in row l / 4.
DEVICE void load_pieces(u32 (&words)[4], u32 from) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(words[0]), "=r"(words[1]), "=r"(words[2]), "=r"(words[3])
                 : "r"(from)
                 : "memory");
}

DEVICE void copy_piece(u32 to, cudaconv_u64 from) {
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(to), "l"(from) : "memory");
}

DEVICE void end_of_copies() { asm volatile("cp.async.commit_group;" ::: "memory"); }

template <int LEFT>
DEVICE void wait_for_copies() {
    asm volatile("cp.async.wait_group %0;" ::"n"(LEFT) : "memory");
}

// Keeps a value in a register, where the compiler would compute it again in every step.
template <typename Value>
DEVICE void keep(Value& value) {
    asm volatile("" : "+r"(value));
}

// --- 2. a tile -----------------------------------------------------------------------------------

// BESIDE: pieces read on either side of a warp's. BLOCKS: of 16 rows, that 16 rows of sums are computed from.
// TILES: pieces that a warp computes.
template <int BESIDE, int BLOCKS, int TILES>
struct Filter {
    static constexpr int PRODUCTS = 2 * BESIDE + 1;
    static constexpr int READS = (TILES + 2 * BESIDE + 3) / 4;  // of four pieces
    static constexpr int ABOVE = GROUP * (BLOCKS - 1);          // rows above an output's own
    static constexpr int BYTES = TILES * PIECE;
    // Of a row of the tile: pieces that are read, and what lies between rows, an odd number of pieces, so that
    // those of eight rows are in different banks.
    static constexpr int PIECES = WARPS * TILES + 2 * BESIDE;
    static constexpr int PITCH = (PIECES | 1) * PIECE;
    static constexpr int SLOT = STEP * PITCH;
    // Threads that copy a row, and rows that a warp writes at once.
    static constexpr int COPIERS = THREADS / STEP;
    static constexpr int COPIES = (PIECES + COPIERS - 1) / COPIERS;
    static constexpr int LINES = WARP / TILES;
    static constexpr int PASSES = STEP / LINES;

    struct Shared {
        alignas(128) u8 ring[SLOTS * SLOT];
        alignas(128) u8 codes[WARPS][STEP][BYTES];
        alignas(16) u32 across[PRODUCTS][WARP][4];
        alignas(16) u32 down[BLOCKS][WARP][4];
        // What a thread's four sums begin with, of the first and the second half of 16 bytes.
        alignas(16) float first[2][4];
        // For each byte of a tile's row, and then for each row, the one in the picture that stands for it, or
        // BEYOND. Of tiles at an edge alone.
        int positions[PIECES * PIECE + MOST_ROWS];
    };
};

template <int BESIDE, int BLOCKS, int TILES>
DEVICE void separable_half(const CudaconvConvolveLaunch& launch) {
    using Own = Filter<BESIDE, BLOCKS, TILES>;
    constexpr int ROW = Own::PIECES * PIECE, OUT_ROW = WARPS * Own::BYTES, RING = SLOTS * Own::SLOT;
    __shared__ typename Own::Shared shared;
    const CudaconvFrame& frame = launch.frame;
    const CudaconvJob& job = frame.jobs[job_of(frame, blockIdx.y)];
    if (blockIdx.x >= job.tiles_across) return;
    const CudaconvChannel& first = job.channels[0];
    const int channels = job.channel_count, height = job.height, row_bytes = job.width * channels;
    const int x0 = blockIdx.x * OUT_ROW, y0 = (blockIdx.y - job.first_tile_row) * frame.tile_height;
    const int steps = (min(static_cast<int>(frame.tile_height), height - y0) + STEP - 1) / STEP;
    const int warp = threadIdx.x / WARP;
    const int reach_x = launch.kernels[0].width / 2 * channels, reach_y = launch.kernels[0].height / 2;
    const int beside = (reach_x + PIECE - 1) / PIECE;
    // Where byte 0 of the picture's row is in the tile's.
    const int begin = BESIDE * PIECE - x0;

    // --- Edges
    const bool in_rows = x0 > 0 && x0 + OUT_ROW + BESIDE * PIECE <= row_bytes;
    const bool in_picture = y0 >= reach_y && y0 + steps * STEP + reach_y <= height;
    if (!in_rows || !in_picture) {
#pragma unroll 1
        for (int at = threadIdx.x; at < ROW + MOST_ROWS; at += THREADS) {
            const bool is_row = at >= ROW;
            // Floor division: positions begin at most 64 pixels before the row.
            const int byte = at - begin, pixel = (byte + channels * 64) / channels - 64;
            const int own = is_row ? y0 - Own::ABOVE + at - ROW : pixel;
            const int position = border_position(frame.border, own, is_row ? height : static_cast<int>(job.width));
            shared.positions[at] = is_row || position == BEYOND ? position : position * channels + byte - pixel * channels;
        }
        __syncthreads();
    }
    // Channels of a word: three are alike, others a power of two.
    auto of_byte = [&](int k) -> const CudaconvChannel& { return job.channels[channels == 3 ? 0 : k & (channels - 1)]; };
    u32 beyond = 0;
    if (frame.border == CUDACONV_CONSTANT) {
#pragma unroll
        // The host sees to it that these are bytes.
        for (int k = 0; k < WORD; ++k) beyond |= static_cast<u32>(of_byte(k).beyond + of_byte(k).zero) << 8 * k;
    }

    // --- Copies into the ring
    const u32 ring = shared_address(shared.ring);
    const int copy_row = threadIdx.x / Own::COPIERS, copy_piece_0 = threadIdx.x % Own::COPIERS, copy_byte = copy_piece_0 * PIECE;
    bool copies[Own::COPIES];
#pragma unroll
    for (int k = 0; k < Own::COPIES; ++k) {
        const int piece = copy_piece_0 + k * Own::COPIERS, byte = piece * PIECE - begin;
        const bool needed = piece >= BESIDE - beside && piece < Own::PIECES - BESIDE + beside;
        copies[k] = needed && byte >= 0 && byte < row_bytes;
    }
    const u32 input_stride = first.input_stride;
    const cudaconv_u64 input = first.input + copy_byte - begin;
    // Rows of the tile, counted from the first that products read.
    int row = copy_row, first_row = Own::ABOVE - reach_y;
    int end_row = min(steps * STEP, height - y0) + Own::ABOVE + reach_y;
    u32 in_step = STEP * input_stride, to = ring + copy_row * Own::PITCH + copy_byte, to_end = to + RING;
    cudaconv_u64 from = input + static_cast<cudaconv_u64>(static_cast<long long>(y0 - Own::ABOVE + copy_row) * input_stride);
    keep(first_row), keep(end_row);
    auto copy_step = [&] {
        if (row >= first_row && row < end_row) {
            cudaconv_u64 at = from;
            int position = 0;
            if (!in_picture) {
                position = shared.positions[ROW + row];
                at = input + static_cast<cudaconv_u64>(position) * input_stride;
            }
            if (position != BEYOND) {
#pragma unroll
                for (int k = 0; k < Own::COPIES; ++k)
                    if (copies[k]) copy_piece(to + k * Own::COPIERS * PIECE, at + k * Own::COPIERS * PIECE);
            } else {
#pragma unroll 1
                for (int byte = copy_byte; byte < ROW; byte += Own::COPIERS * PIECE)
                    store_piece(to + byte - copy_byte, make_uint4(beyond, beyond, beyond, beyond));
            }
        }
        end_of_copies();
        row += STEP;
        from += in_step;
        to += Own::SLOT;
        if (to == to_end) to -= RING;
    };
#pragma unroll 1
    for (int step = 0; step < AHEAD; ++step) copy_step();

    // --- Weights, and what becomes of sums
    const uint4* table = reinterpret_cast<const uint4*>(launch.weights);
    const uint4* own_across = table + (channels - 1) * Own::PRODUCTS * WARP + lane();
    const uint4* own_down = table + CUDACONV_CHANNELS * Own::PRODUCTS * WARP + lane();
    // Those of the three pieces in the middle stay in registers.
    u32 across[3][4];
#pragma unroll
    for (int i = 0; i < 3; ++i) {
        const uint4 four = __ldg(own_across + (BESIDE - 1 + i) * WARP);
        across[i][0] = four.x, across[i][1] = four.y, across[i][2] = four.z, across[i][3] = four.w;
    }
    u32 across_at = shared_address(shared.across) + lane() * PIECE, down_at = shared_address(shared.down) + lane() * PIECE;
    keep(across_at), keep(down_at);
#pragma unroll 1
    for (int i = warp; i < Own::PRODUCTS; i += WARPS) store_piece(across_at + i * WARP * PIECE, __ldg(own_across + i * WARP));
    if (warp < BLOCKS) store_piece(down_at + warp * WARP * PIECE, __ldg(own_down + warp * WARP));
    const uint4 constants = __ldg(table + (CUDACONV_CHANNELS * Own::PRODUCTS + BLOCKS) * WARP);
    const float sum = __uint_as_float(constants.x), below = __uint_as_float(constants.y), above = __uint_as_float(constants.z);
    u32 filtered = 0, copied = 0, filled = 0;
    bool clamped = false;
#pragma unroll
    for (int k = 0; k < WORD; ++k) {
        const CudaconvChannel& channel = of_byte(k);
        const float level = channel.offset - channel.zero * sum;
        if (threadIdx.x == 0) shared.first[k / 2][k % 2] = shared.first[k / 2][k % 2 + 2] = 1024.0f + level;
        const u32 mask = 0xffu << 8 * k;
        if (channel.action == CUDACONV_FILTER) {
            filtered |= mask;
            clamped = clamped || level + 255.0f * below < -0.25f || level + 255.0f * above > 255.25f;
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
    const int out_byte = x0 + warp * Own::BYTES + out_part * PIECE;
    int left = row_bytes - out_byte, rows_left = height - y0 - out_row;
    u32 out_step = STEP * first.output_stride, out_lines = Own::LINES * first.output_stride;
    cudaconv_u64 out = first.output + static_cast<cudaconv_u64>(y0 + out_row) * first.output_stride + out_byte;
    keep(put_at), keep(take_at), keep(out_step);
    // The bytes above the codes that a thread writes.
    u32 own_at[Own::PASSES];
#pragma unroll
    for (int k = 0; k < Own::PASSES; ++k) {
        const int above_it = Own::ABOVE + out_row + k * Own::LINES;
        own_at[k] = ring + above_it / STEP * Own::SLOT + above_it % STEP * Own::PITCH + out_byte + begin;
    }
    // Writes 16 rows.
    auto write_step = [&] {
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
                const uint4 own = load_piece(own_at[k]);
                fours[k].x |= own.x & copied, fours[k].y |= own.y & copied;
                fours[k].z |= own.z & copied, fours[k].w |= own.w & copied;
                own_at[k] += Own::SLOT;
                if (own_at[k] >= ring + RING) own_at[k] -= RING;
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
    u32 read_at = ring + lane() % GROUP * Own::PITCH + warp * Own::BYTES + lane() / GROUP * PIECE, read_end = read_at + RING;
    int rounds = steps + BLOCKS - 1;
    keep(read_end), keep(rounds);
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
        wait_for_copies<AHEAD - 1>();
        __syncthreads();
        if (!in_rows) {
            // Bytes beside the picture's rows.
            const int tile_row = round * STEP + copy_row;
            const int y = in_picture ? y0 - Own::ABOVE + tile_row : shared.positions[ROW + tile_row];
            const u32 slot = (round % SLOTS * STEP + copy_row) * Own::PITCH;
            if (y != BEYOND && tile_row >= first_row && tile_row < end_row) {
#pragma unroll 1
                for (int side = 0; side < 2; ++side) {
                    int at = side == 0 ? BESIDE * PIECE - reach_x : max(begin + row_bytes, 0);
                    const int end = min(side == 0 ? begin : begin + row_bytes + reach_x, ROW);
#pragma unroll 1
                    for (at += copy_piece_0; at < end; at += Own::COPIERS) {
                        const int position = shared.positions[at], source = begin + position;
                        u8 code;
                        if (position == BEYOND) code = beyond >> 8 * ((at - begin) & 3);
                        else if (source >= 0 && source < ROW - (BESIDE - beside) * PIECE) code = shared.ring[slot + source];
                        else code = read_sample<u8>(first.input + static_cast<cudaconv_u64>(y) * input_stride + position);
                        shared.ring[slot + at] = code;
                    }
                }
            }
            __syncthreads();
        }
        copy_step();
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
                const u32 at = read_at + group * GROUP * Own::PITCH + i * 4 * PIECE;
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
        read_at += Own::SLOT;
        if (read_at == read_end) read_at -= RING;
        if (round < BLOCKS - 1) continue;
        float d[TILES * 2][4];
#pragma unroll
        for (int b = 0; b < BLOCKS; ++b) {
            u32 down[4];
            load_matrix(down, down_at + b * WARP * PIECE);
#pragma unroll
            for (int half = 0; half < 2; ++half) {
                const uint4 four = load_piece(first_at + half * PIECE);
                const float start[4] = {__uint_as_float(four.x), __uint_as_float(four.y), __uint_as_float(four.z), __uint_as_float(four.w)};
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
        write_step();
        __syncwarp();
    }
}

// With so many blocks of a multiprocessor that registers suffice.
#define SEPARABLE_HALF(name, beside, rows, tiles, blocks)             \
    extern "C" __global__ void __launch_bounds__(THREADS, blocks)     \
        name(const __grid_constant__ CudaconvConvolveLaunch launch) { \
        separable_half<beside, rows, tiles>(launch);                  \
    }

#ifdef SEPARABLE_HALF_U8
SEPARABLE_HALF(separable_half_u8, 2, 2, 4, 4)
#endif
#ifdef SEPARABLE_HALF_WIDE_U8
SEPARABLE_HALF(separable_half_wide_u8, 4, 3, 2, 4)
#endif
