// Tiles of bytes that go through a ring of rows in shared memory, of which products of the matrix units read pieces.
//
// A block computes 16 rows of its tile in each step, from its first to its last. Pieces of 16 bytes go to the ring
// some steps ahead, asynchronously, whole rows of the tile at a time: that keeps enough of them under way, and
// what lies beyond the edge is put there as well, so that nothing after that knows of edges.
#pragma once

#include "common.cuh"

constexpr int WARPS = 4;
constexpr int THREADS = WARPS * WARP;
constexpr int WORD = 4;
// Bytes of a row that are loaded at once; rows of a matrix of pieces, and of a step.
constexpr int PIECE = 16;
constexpr int GROUP = 8;
constexpr int STEP = 16;
// Most rows of a tile and around it.
constexpr int MOST_ROWS = 256;

// --- Shared memory, by its own addresses, in registers of 32 bits -------------------------------

DEVICE void store_word(u32 to, u32 word) { asm volatile("st.shared.u32 [%0], %1;" ::"r"(to), "r"(word) : "memory"); }

DEVICE void store_piece(u32 to, uint4 four) {
    asm volatile("st.shared.v4.u32 [%0], {%1, %2, %3, %4};" ::"r"(to), "r"(four.x), "r"(four.y), "r"(four.z), "r"(four.w)
                 : "memory");
}

// Four matrices, of a piece of each of eight rows: lane l says where that of row l % 8 of matrix l / 8 is, and gets bytes
// 4 (l % 4) to 4 (l % 4) + 3 of the pieces of row l / 4 of each.
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

// --- A tile --------------------------------------------------------------------------------------

// TILES: pieces of a row that a warp computes. BESIDE: pieces that are read on either side of a tile's. ABOVE: rows
// above an output's own. AHEAD: steps that are loaded ahead. KEPT: steps before the one that is worked on whose bytes are
// still read.
template <int TILES_, int BESIDE_, int ABOVE_, int AHEAD_, int KEPT>
struct Shape {
    static constexpr int TILES = TILES_, BESIDE = BESIDE_, ABOVE = ABOVE_, AHEAD = AHEAD_;
    static constexpr int OUT_PIECES = WARPS * TILES;
    // Of a row of the tile: its pieces with those beside it, and what lies between rows of it: an odd number of
    // pieces, so that those of eight rows are in different banks.
    static constexpr int PIECES = OUT_PIECES + 2 * BESIDE;
    static constexpr int ROW = PIECES * PIECE;
    static constexpr int PITCH = (PIECES | 1) * PIECE;
    static constexpr int SLOT = STEP * PITCH;
    static constexpr int RING = (AHEAD + 1 + KEPT) * SLOT;
    // Threads that copy a row.
    static constexpr int COPIERS = THREADS / STEP;
    static constexpr int COPIES = (PIECES + COPIERS - 1) / COPIERS;

    // The slot of the ring behind `slot`.
    static __device__ __forceinline__ u32 next(u32 slot) { return slot == RING - SLOT ? 0 : slot + SLOT; }
};

// A block's tile in its job.
template <typename Shape>
struct Tile {
    const CudaconvFrame& frame;
    const CudaconvJob& job;
    const CudaconvChannel& first;
    int channels, height, row_bytes;
    int inside;               // bytes of a row before the first place beyond the edge
    int x0, y0;               // its first byte of a row, its first row
    int steps;
    int reach_x, reach_y;     // bytes and rows beyond an output's own that it needs
    int beside;               // pieces that these are in
    int first_row, end_row;   // that are needed, counted from `ABOVE` rows above the tile
    bool in_rows, in_picture; // with all that it needs

    __device__ __forceinline__ Tile(const CudaconvConvolveLaunch& launch, u32 job_index, u32 block_x, u32 block_y)
        : frame(launch.frame), job(frame.jobs[job_index]), first(job.channels[0]) {
        channels = job.channel_count, height = job.height, row_bytes = inside = job.width * channels;
        // At odd width the byte behind the last sample of luma is no pixel.
        if (is_422()) row_bytes = (job.width + 1) / 2 * WORD, inside = job.width * 2;
        x0 = block_x * (Shape::OUT_PIECES * PIECE), y0 = (block_y - job.first_tile_row) * frame.tile_height;
        reach_x = launch.kernels[0].width / 2 * channels, reach_y = launch.kernels[0].height / 2;
        beside = (reach_x + PIECE - 1) / PIECE;
        const int rows = min(static_cast<int>(frame.tile_height), height - y0);
        steps = (rows + STEP - 1) / STEP;
        first_row = Shape::ABOVE - reach_y, end_row = rows + Shape::ABOVE + reach_y;
        in_rows = x0 > 0 && x0 + (Shape::OUT_PIECES + Shape::BESIDE) * PIECE <= row_bytes;
        in_picture = y0 >= reach_y && y0 + rows + reach_y <= height;
    }

    // Whether it is packed 4:2:2, and whether luma is the second byte of that.
    __device__ __forceinline__ bool is_422() const { return job.packed >= CUDACONV_LUMA_FIRST; }
    __device__ __forceinline__ bool is_luma_second() const { return job.packed == CUDACONV_LUMA_SECOND; }

    // The place of the byte of a row that is no pixel, or one that no row has.
    __device__ __forceinline__ int spare() const { return inside == row_bytes ? -1 : inside + is_luma_second(); }

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
};

// --- The ring ------------------------------------------------------------------------------------

template <typename Shape>
struct Ring {
    // Bytes on either side of a tile's, and with the last two of a row whose last sample of luma has no other beside it.
    static constexpr int BESIDE = Shape::BESIDE * PIECE, BOTH_SIDES = 2 * BESIDE + 2;

    // A byte of a row of the tile, or -1; and the one of it that stands for it, or, where that is not in the tile, -2 less its
    // place in the picture's row, or BEYOND.
    struct Beside {
        int at, source;
    };
    struct Shared {
        alignas(128) u8 bytes[Shape::RING];
        // Of tiles at an edge alone. The rows that stand for those of the tile, counted from `ABOVE` rows above it, or BEYOND: also
        // where none is needed.
        short rows[MOST_ROWS];
        // Bytes beside the picture's rows, first those before them, `reach_x`, then those behind; and which of them are read here.
        Beside beside[BOTH_SIDES];
        int first, end;
    };
    enum { BESIDE_ROWS = 1, BESIDE_PICTURE = 2 };

    const CudaconvConvolveLaunch& launch;
    Shared& shared;
    u32 job_index;
    // Whether what the tile needs is beyond an end of the rows, or beyond the first or the last row.
    u32 edges;
    // Of the next step, for this thread: its row, counted from the first that is needed, of `row_count`, and where it is. Bit
    // k of `copies`: whether it copies its piece k.
    u32 row, row_count, copies, to, slot, step_bytes;
    cudaconv_u64 from;

    // Copies the first `AHEAD` steps.
    __device__ __forceinline__ Ring(const CudaconvConvolveLaunch& launch, Shared& shared, u32 job_index, const Tile<Shape>& tile)
        : launch(launch), shared(shared), job_index(job_index), copies(0), slot(0) {
        edges = (tile.in_rows ? 0 : BESIDE_ROWS) | (tile.in_picture ? 0 : BESIDE_PICTURE);
        const int first_piece = threadIdx.x % Shape::COPIERS, byte = first_piece * PIECE + tile.x0 - BESIDE;
#pragma unroll
        for (int k = 0; k < Shape::COPIES; ++k) {
            const int piece = first_piece + k * Shape::COPIERS, own = byte + k * Shape::COPIERS * PIECE;
            const bool is_needed = piece >= Shape::BESIDE - tile.beside && piece < Shape::PIECES - Shape::BESIDE + tile.beside;
            if (is_needed && own >= 0 && own < tile.row_bytes) copies |= 1u << k;
        }
        const int tile_row = threadIdx.x / Shape::COPIERS;
        row = tile_row - tile.first_row, row_count = tile.end_row - tile.first_row;
        to = shared_address(shared.bytes) + tile_row * Shape::PITCH + first_piece * PIECE;
        const long long y = tile.y0 - Shape::ABOVE + tile_row;
        from = tile.first.input + static_cast<cudaconv_u64>(y * tile.first.input_stride + byte);
        step_bytes = STEP * tile.first.input_stride;
        keep(edges), keep(copies), keep(row_count);
        if (edges) find_positions(tile);
    }

    // What stands for the rows and bytes beyond the edge.
    __device__ __forceinline__ void find_positions(const Tile<Shape>& tile) {
        const int reach = tile.reach_x, sides = 2 * reach + tile.row_bytes - tile.inside;
        // Where the picture's byte 0 is in a row of the tile.
        const int begin = BESIDE - tile.x0;
        // Bytes of a row of the tile that are copied.
        const int first = (Shape::BESIDE - tile.beside) * PIECE, end = Shape::ROW - first;
#pragma unroll 1
        for (int at = threadIdx.x; at < sides + tile.steps * STEP + 2 * Shape::ABOVE; at += THREADS) {
            const int row = at - sides, byte = at < reach ? at - reach : tile.inside + at - reach;
            // Samples of a row, and bytes from one to the next.
            int samples = tile.job.width, step = tile.channels;
            if (tile.is_422()) {
                if ((byte & 1) == tile.is_luma_second()) step = 2;
                else samples = (samples + 1) / 2;
            }
            // Floor division: there are at most `BESIDE` pixels before the row.
            const int from_0 = byte + step * BESIDE, pixel = (step == 3 ? from_0 / 3 : from_0 >> step / 2) - BESIDE;
            const bool is_row = row >= 0;
            const int position = border_position(tile.frame.border, is_row ? tile.y0 - Shape::ABOVE + row : pixel,
                                                 is_row ? tile.height : samples);
            if (is_row) {
                shared.rows[row] = row >= tile.first_row && row < tile.end_row ? position : BEYOND;
                continue;
            }
            // Chroma of the last pixel of packed 4:2:2 of odd width is behind luma, and there.
            const bool is_there = pixel >= 0 && pixel < samples;
            const int own = position * step + byte - pixel * step, in_tile = begin + own;
            const bool is_near = in_tile >= first && in_tile < end;
            shared.beside[at] = {is_there ? -1 : begin + byte, position == BEYOND ? BEYOND : is_near ? in_tile : -2 - own};
        }
        if (threadIdx.x == 0) {
            shared.first = begin > 0 ? 0 : reach;
            shared.end = begin + tile.inside < Shape::ROW ? sides : reach;
        }
        // What else there is is first read behind a barrier.
        if (edges & BESIDE_PICTURE) __syncthreads();
    }

    // The tile once more, of values that the compiler does not know to be the same: so that tiles inside the picture need no
    // registers for what is done at its edges.
    __device__ __forceinline__ Tile<Shape> tile_again() const {
        return Tile<Shape>(launch, again(job_index), again(blockIdx.x), again(blockIdx.y));
    }

    // Begins to copy the next step.
    __device__ __forceinline__ void copy_step() {
        if (row < row_count) {
            cudaconv_u64 at = from;
            int y = 0;
            if (edges & BESIDE_PICTURE) {
                const Tile<Shape> tile = tile_again();
                const int tile_row = static_cast<int>(row) + tile.first_row;
                y = shared.rows[tile_row];
                at += static_cast<cudaconv_u64>(static_cast<long long>(y - (tile.y0 - Shape::ABOVE + tile_row)) * tile.first.input_stride);
            }
            if (y != BEYOND) {
#pragma unroll
                for (int k = 0; k < Shape::COPIES; ++k)
                    if (copies & 1u << k) copy_piece(to + slot + k * Shape::COPIERS * PIECE, at + k * Shape::COPIERS * PIECE);
            } else {
                const u32 codes = tile_again().codes_beyond();
#pragma unroll 1
                for (int piece = again(threadIdx.x) % Shape::COPIERS; piece < Shape::PIECES; piece += Shape::COPIERS)
                    store_piece(to + slot + piece / Shape::COPIERS * (Shape::COPIERS * PIECE), make_uint4(codes, codes, codes, codes));
            }
        }
        end_of_copies();
        row += STEP;
        from += step_bytes;
        slot = Shape::next(slot);
    }

    // Waits for step `step`, of which `LEFT` later ones may be under way, in slot `in` of the ring, and completes it.
    template <int LEFT>
    __device__ __forceinline__ void wait(int step, u32 in) {
        wait_for_copies<LEFT>();
        __syncthreads();
        if (edges & BESIDE_ROWS) {
            fill_beside(step, in);
            __syncthreads();
        }
    }

    // Bytes beside the picture's rows.
    __device__ __forceinline__ void fill_beside(int step, u32 in) {
        const int thread = again(threadIdx.x), step_row = thread / Shape::COPIERS, y = shared.rows[step * STEP + step_row];
        if (y == BEYOND) return;
        u8* const bytes = shared.bytes + in + step_row * Shape::PITCH;
        const int end = shared.end;
#pragma unroll 1
        for (int index = shared.first + thread % Shape::COPIERS; index < end; index += Shape::COPIERS) {
            const Beside beside = shared.beside[index];
            if (static_cast<u32>(beside.at) < Shape::ROW) bytes[beside.at] = beside.source >= 0 ? bytes[beside.source] : code_of(beside, y);
        }
    }

    // The code of a byte that is not in the tile.
    __device__ __forceinline__ u8 code_of(Beside beside, int y) {
        const Tile<Shape> tile = tile_again();
        const int byte = beside.at + tile.x0 - BESIDE;
        if (beside.source == BEYOND) return tile.codes_beyond() >> 8 * (byte & 3);
        return read_sample<u8>(tile.first.input + static_cast<cudaconv_u64>(y) * tile.first.input_stride + (-2 - beside.source));
    }
};
