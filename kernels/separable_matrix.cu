// Correlation of 8-bit samples with separable kernels of up to 17 + 17 whole numbers of 0 to 255, those
// across of 257 in all and no further than 16 bytes, on the matrix units. All products and sums are whole
// numbers below 2^24, so the bytes are those of every other order of additions.
//
// A block computes 16 rows of its tile in each step, from its first to its last. Pieces of 16 bytes go to a
// ring in shared memory some steps ahead, asynchronously, whole rows of the tile at a time; what lies beyond the
// edge is put there as well, so that nothing after that knows of edges.
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
// Measured on an H200: 4K RGBA 29 µs, with any divisor 36, where a copy takes 19; 1080p RGBA 12 and 14 of 7, GRAY8 7 and
// 8 of 4, YUY2 9 of 5. Of a step's 310 instructions 32 are matrix products, which keep their units busy for a third of the time; every
// fifth cycle of a multiprocessor is lost at the ends of the launch. Five blocks a multiprocessor with fewer
// registers, blocks of 2 or 8 warps, rounds of 32 rows and three steps ahead take as long or longer.
//
// Needs compute_80.
#include "common.cuh"

constexpr int WARPS = 4;
constexpr int THREADS = WARPS * WARP;
constexpr int WORD = 4;
// Bytes of a row that are loaded at once, and that a product across gives the sums of; pieces of a row that a warp
// computes, and a block.
constexpr int PIECE = 16;
constexpr int TILES = 4;
constexpr int OUT_PIECES = WARPS * TILES;
// Rows of a product across, of a step, and above an output's own that products down begin with.
constexpr int GROUP = 8;
constexpr int STEP = 16;
constexpr int ABOVE = 8;
// Steps that are loaded ahead; in the ring one more is being worked on.
constexpr int AHEAD = 2;
// Of a row of the tile: its pieces with one on either side, and what lies between rows of it or of its codes: odd
// numbers of pieces, so that those of eight rows are in different banks.
constexpr int PIECES = OUT_PIECES + 2;
constexpr int ROW = PIECES * PIECE;
constexpr int PITCH = (PIECES | 1) * PIECE;
constexpr int CODES_PITCH = (OUT_PIECES | 1) * PIECE;
constexpr int SLOT = STEP * PITCH;
constexpr int RING = (AHEAD + 1) * SLOT;
constexpr int CODES = STEP * CODES_PITCH;
// Bytes beside a row that are needed, and the last two of one whose last sample of luma has no other beside it.
constexpr int BESIDE = PIECE + 2;
// Threads that copy a row; rows that a block writes at once.
constexpr int COPIERS = THREADS / STEP;
constexpr int COPIES = (PIECES + COPIERS - 1) / COPIERS;
constexpr int LINES = THREADS / OUT_PIECES;
constexpr int PASSES = STEP / LINES;
static_assert(TILES % 2 == 0 && THREADS % OUT_PIECES == 0, "pieces are loaded for two, and written by as many threads");
// Matrices across, and tables of them: for one to four channels, and for packed 4:2:2 with luma first or second.
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

// Four pieces, one behind the other, of eight rows: lane l says where piece l / 8 of row l % 8 is, and gets bytes
// 4 (l % 4) to 4 (l % 4) + 3 of each in row l / 4.
DEVICE void load_pieces(u32 (&words)[4], u32 from) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(words[0]), "=r"(words[1]), "=r"(words[2]), "=r"(words[3])
                 : "r"(from)
                 : "memory");
}

// Asks for all of the line, which others copy at the same time.
DEVICE void copy_piece(u32 to, cudaconv_u64 from) {
    asm volatile("cp.async.cg.shared.global.L2::128B [%0], [%1], 16;" ::"r"(to), "l"(from) : "memory");
}

DEVICE void end_of_copies() { asm volatile("cp.async.commit_group;" ::: "memory"); }

// For all but the last `LEFT` groups of them.
template <int LEFT>
DEVICE void wait_for_copies() {
    asm volatile("cp.async.wait_group %0;" ::"n"(LEFT) : "memory");
}

// Keeps a value in a register, where the compiler would compute it again in every step.
template <typename Value>
DEVICE void keep(Value& value) {
    asm volatile("" : "+r"(value));
}

// --- 2. where ------------------------------------------------------------------------------------

// A block's tile in its job.
struct Tile {
    const CudaconvFrame& frame;
    const CudaconvJob& job;
    const CudaconvChannel& first;
    int channels, height, row_bytes;
    int inside;              // bytes of a row before the first place beyond the edge
    int x0, y0;              // its first byte of a row, its first row
    int steps;
    int reach_x, reach_y;    // bytes and rows beyond an output's own that it needs
    int first_row, end_row;  // that are needed, counted from `ABOVE` rows above the tile
    bool in_rows, in_picture; // with all that it needs

    __device__ __forceinline__ Tile(const CudaconvConvolveLaunch& launch, u32 job_index, u32 block_x, u32 block_y)
        : frame(launch.frame), job(frame.jobs[job_index]), first(job.channels[0]) {
        channels = job.channel_count, height = job.height, row_bytes = inside = job.width * channels;
        // At odd width the byte behind the last sample of luma is no pixel.
        if (is_422()) row_bytes = (job.width + 1) / 2 * WORD, inside = job.width * 2;
        x0 = block_x * (OUT_PIECES * PIECE), y0 = (block_y - job.first_tile_row) * frame.tile_height;
        reach_x = launch.kernels[0].width / 2 * channels, reach_y = launch.kernels[0].height / 2;
        const int rows = min(static_cast<int>(frame.tile_height), height - y0);
        steps = (rows + STEP - 1) / STEP;
        first_row = ABOVE - reach_y, end_row = rows + ABOVE + reach_y;
        in_rows = x0 > 0 && x0 + (OUT_PIECES + 1) * PIECE <= row_bytes;
        in_picture = y0 >= reach_y && y0 + rows + reach_y <= height;
    }

    // Whether it is packed 4:2:2.
    __device__ __forceinline__ bool is_422() const { return job.packed >= CUDACONV_LUMA_FIRST; }

    // The place of the byte of a row that is no pixel, or one that no row has.
    __device__ __forceinline__ int spare() const {
        return inside == row_bytes ? -1 : inside + (job.packed == CUDACONV_LUMA_SECOND);
    }

    // Which of the host's tables are the matrices across.
    __device__ __forceinline__ int table() const {
        return is_422() ? CUDACONV_CHANNELS + (job.packed == CUDACONV_LUMA_SECOND) : channels - 1;
    }

    // The channel of byte `k` of a word. Three channels are alike, others a power of two.
    __device__ __forceinline__ const CudaconvChannel& of_byte(int k) const {
        return job.channels[channels == 3 ? 0 : k & (channels - 1)];
    }

    // The codes of four bytes of a row beyond the edge, where the border's constant is.
    __device__ __forceinline__ u32 codes_beyond() const {
        u32 codes = 0;
#pragma unroll
        // The host sees to it that these are bytes.
        for (int k = 0; k < WORD; ++k) codes |= static_cast<u32>(of_byte(k).beyond + of_byte(k).zero) << 8 * k;
        return codes;
    }

    // The byte of a row that stands for byte `byte`, or BEYOND.
    __device__ __forceinline__ int byte_position(int byte) const {
        if (is_422()) {
            const bool is_luma = (byte & 1) == (job.packed == CUDACONV_LUMA_SECOND);
            const int step = is_luma ? 2 : WORD, own = byte & (step - 1);
            const int position = border_position(frame.border, (byte - own) / step, is_luma ? job.width : row_bytes / WORD);
            return position == BEYOND ? BEYOND : position * step + own;
        }
        // Floor division: there are at most 16 pixels before the row.
        const int from_0 = byte + channels * PIECE, pixel = (channels == 3 ? from_0 / 3 : from_0 >> channels / 2) - PIECE;
        const int position = border_position(frame.border, pixel, job.width);
        return position == BEYOND ? BEYOND : position * channels + byte - pixel * channels;
    }
};

// --- 3. bytes again ------------------------------------------------------------------------------

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

    __device__ __forceinline__ Ending(const Tile& tile, const CudaconvConvolveLaunch& launch)
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

// --- 4. a tile -----------------------------------------------------------------------------------

struct Shared {
    alignas(128) u8 ring[RING];
    // Of two steps.
    alignas(128) u8 codes[2 * CODES];
    // The bytes of the picture's row that stand for the 16 before it and for those behind it, or BEYOND. Of tiles
    // at an edge alone.
    int positions[2][BESIDE];
};

template <Kind KIND>
DEVICE void separable_matrix(const CudaconvConvolveLaunch& launch) {
    __shared__ Shared shared;
    const u32 job_index = job_of(launch.frame, blockIdx.y);
    if (blockIdx.x >= launch.frame.jobs[job_index].tiles_across) return;
    const Tile tile(launch, job_index, blockIdx.x, blockIdx.y);
    const int warp = threadIdx.x / WARP;
    // Whether what the tile needs is beyond an end of the rows, or beyond the first or the last row.
    enum { BESIDE_ROWS = 1, BESIDE_PICTURE = 2 };
    u32 edges = (tile.in_rows ? 0 : BESIDE_ROWS) | (tile.in_picture ? 0 : BESIDE_PICTURE);
    keep(edges);
    // The tile once more, of values that the compiler does not know to be the same: so that those inside the picture
    // need no registers for what is done at its edges.
    auto tile_again = [&] {
        u32 block_x = blockIdx.x, block_y = blockIdx.y, index = job_index;
        keep(block_x), keep(block_y), keep(index);
        return Tile(launch, index, block_x, block_y);
    };
    auto thread_again = [&] {
        int thread = threadIdx.x;
        keep(thread);
        return thread;
    };

    // --- Copies into the ring
    const u32 ring = shared_address(shared.ring);
    const int copy_piece_0 = threadIdx.x % COPIERS, copy_byte = copy_piece_0 * PIECE + tile.x0 - PIECE;
    u32 copies = 0;
#pragma unroll
    for (int k = 0; k < COPIES; ++k) {
        const int byte = copy_byte + k * COPIERS * PIECE;
        if (copy_piece_0 + k * COPIERS < PIECES && byte >= 0 && byte < tile.row_bytes) copies |= 1u << k;
    }
    // Rows are counted from the first that is needed.
    u32 row = threadIdx.x / COPIERS - tile.first_row, row_count = tile.end_row - tile.first_row;
    u32 copy_to = ring + threadIdx.x / COPIERS * PITCH + copy_piece_0 * PIECE, copy_slot = 0;
    const int copy_y = tile.y0 - ABOVE + static_cast<int>(threadIdx.x / COPIERS);
    cudaconv_u64 from = tile.first.input + static_cast<cudaconv_u64>(static_cast<long long>(copy_y) * tile.first.input_stride + copy_byte);
    u32 in_step = STEP * tile.first.input_stride;
    keep(copies), keep(row_count), keep(copy_to), keep(in_step);
    auto copy_step = [&] {
        if (row < row_count) {
            const u32 to = copy_to + copy_slot;
            cudaconv_u64 at = from;
            int y = 0;
            if (edges & BESIDE_PICTURE) {
                const Tile at_edge = tile_again();
                const int own = at_edge.y0 - at_edge.reach_y + static_cast<int>(row);
                y = border_position(at_edge.frame.border, own, at_edge.height);
                at += static_cast<cudaconv_u64>(static_cast<long long>(y - own) * at_edge.first.input_stride);
            }
            if (y != BEYOND) {
#pragma unroll
                for (int k = 0; k < COPIES; ++k)
                    if (copies & 1u << k) copy_piece(to + k * COPIERS * PIECE, at + k * COPIERS * PIECE);
            } else {
                const u32 codes = tile_again().codes_beyond();
#pragma unroll 1
                for (int piece = thread_again() % COPIERS; piece < PIECES; piece += COPIERS)
                    store_piece(to + piece / COPIERS * (COPIERS * PIECE), make_uint4(codes, codes, codes, codes));
            }
        }
        end_of_copies();
        row += STEP;
        from += in_step;
        copy_slot = copy_slot == RING - SLOT ? 0 : copy_slot + SLOT;
    };
#pragma unroll 1
    for (int step = 0; step <= AHEAD; ++step) copy_step();

    // --- Edges of rows
    if (edges & BESIDE_ROWS && threadIdx.x < 2 * BESIDE) {
        const Tile at_edge = tile_again();
        const int thread = thread_again(), at = thread % BESIDE;
        shared.positions[thread / BESIDE][at] = at_edge.byte_position(thread < BESIDE ? at - PIECE : at_edge.inside + at);
    }
    // Bytes beside the picture's rows, of step `step` in the ring.
    auto fill_beside = [&](int step, u32 slot) {
        const Tile at_edge = tile_again();
        const int thread = thread_again(), step_row = thread / COPIERS, tile_row = step * STEP + step_row;
        const int y = border_position(at_edge.frame.border, at_edge.y0 - ABOVE + tile_row, at_edge.height);
        if (y == BEYOND || tile_row < at_edge.first_row || tile_row >= at_edge.end_row) return;
        // Where the picture's byte 0 is in a row of the tile.
        const int begin = PIECE - at_edge.x0, behind = begin + at_edge.inside;
        u8* const bytes = shared.ring + slot + step_row * PITCH;
#pragma unroll 1
        for (int side = 0; side < 2; ++side) {
            const int first = side == 0 ? begin - PIECE : behind;
            int at = side == 0 ? begin - at_edge.reach_x : behind;
            const int end = side == 0 ? begin : min(begin + at_edge.row_bytes + at_edge.reach_x, ROW);
#pragma unroll 1
            for (at += thread % COPIERS; at < end; at += COPIERS) {
                if (at < 0) continue;
                const int position = shared.positions[side][at - first], source = begin + position;
                u8 code;
                if (position == BEYOND) code = at_edge.codes_beyond() >> 8 * ((at - begin) & 3);
                else if (source >= 0 && source < ROW) code = bytes[source];
                else code = read_sample<u8>(at_edge.first.input + static_cast<cudaconv_u64>(y) * at_edge.first.input_stride + position);
                bytes[at] = code;
            }
        }
    };

    // --- Weights, and what becomes of sums
    const uint4* table = reinterpret_cast<const uint4*>(launch.weights) + lane();
    uint4 across[ACROSS];
#pragma unroll
    for (int i = 0; i < ACROSS; ++i) across[i] = __ldg(table + (tile.table() * ACROSS + i) * WARP);
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
    // Of a piece that is not written at once.
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
                const Tile at_edge = tile_again();
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
    u32 read_at = ring + lane() % GROUP * PITCH + warp * TILES * PIECE + lane() / GROUP * PIECE, read_slot = 0;
    int last = tile.steps;
    keep(read_at), keep(last);
    // Of the 16 rows above, sums across as bytes: low and high ones of each half of a piece. And bytes of the last 8.
    u32 above[TILES][2][2], own[TILES];
    // Codes of a step are those of rows 8 above it, and are written in the next one: of the first there are none.
    auto compute_step = [&](int step, auto first) {
        constexpr bool FIRST = decltype(first)::value;
        wait_for_copies<FIRST ? AHEAD : AHEAD - 1>();
        __syncthreads();
        if (edges & BESIDE_ROWS) {
            fill_beside(step, read_slot);
            __syncthreads();
        }
        if (!FIRST) copy_step();
        if (!FIRST && step > 1) write_step(take_at + step % 2 * CODES);
        const u32 read = read_at + read_slot, put = put_at + (step + 1) % 2 * CODES;
        read_slot = read_slot == RING - SLOT ? 0 : read_slot + SLOT;
        u32 words[2][4];
#pragma unroll
        for (int i = 0; i < TILES; ++i) {
            const int word = i % 2;
            if (word == 0) {
#pragma unroll
                for (int group = 0; group < 2; ++group) load_pieces(words[group], read + i * PIECE + group * GROUP * PITCH);
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
#define SEPARABLE_MATRIX(name, kind, blocks)                          \
    extern "C" __global__ void __launch_bounds__(THREADS, blocks)     \
        name(const __grid_constant__ CudaconvConvolveLaunch launch) { \
        separable_matrix<kind>(launch);                               \
    }

#ifdef SEPARABLE_MATRIX_U8
SEPARABLE_MATRIX(separable_matrix_u8, SHIFTED, 4)
#endif
#ifdef SEPARABLE_MATRIX_DIVIDED_U8
SEPARABLE_MATRIX(separable_matrix_divided_u8, DIVIDED, 4)
#endif
