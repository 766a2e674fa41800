// The bilateral filter of 8-bit samples by tables, a faster way than bilateral.cu's.
//
// Channels with a weight of their own, radius up to 16. The colour weight of a difference is
// looked up: 256 differences, each 32 times in shared memory, one copy a lane, so that lookups never
// share a bank whatever the picture. Bytes: as bilateral.cu. Operations per tap: an absolute difference
// that is the address, a lookup, 2.25 multiplications and additions; and 44 reads of samples per two
// columns of 8 outputs. Lookups take 4 cycles of a scheduler each, against 8 for an exponential: with
// radius 7 (149 taps, 41 reads) 760 cycles for 32 outputs, 48 µs for 1080p GRAY8 at 1.98 GHz on
// 132 multiprocessors; issue 5.2 a tap, 50 µs. A block of 256 threads computes 32 columns by 64 rows, a thread
// 8 rows of one column: the samples of a column of the window are read once for all 8, and the four taps at
// the same distance, on either side, above and below, are summed before their spatial weight is multiplied.
// Measured with radius 7, a fifth of the time are the launch, the table and the tile (radius 0), and 0.8 instructions are
// issued a cycle. 64 registers and four blocks a multiprocessor (two taps at a time, or the registers spilled) take 6 to
// 17 % more; 4, 5, 6 or 10 rows a thread 2 to 9 %; spans of columns, looked up once for all rows of them, 2 to 4 %. A row of taps by
// exponentials, which keep another unit busy, gained 4 % where two taps were taken at a time. With radius 15 five blocks of
// 128 threads, which fit beside each other, are 3 % faster than three of 256.
//
// Samples are multiplied as what their bits are as floats, denormals, so none is converted;
// weights are larger by 2^100 to make up for it.
#include "bilateral.cuh"

// Added to exponents.
constexpr float LARGER = 100.0f;

// The code value at (x, y). The host sees to it that what the border says of samples beyond the
// edge is one.
DEVICE u32 tile_code(const CudaconvFrame& frame, const CudaconvJob& job, const CudaconvChannel& channel, bool inside,
                     int x, int y) {
    if (!inside) {
        x = border_position(frame.border, x, job.width);
        y = border_position(frame.border, y, job.height);
        if (x == BEYOND || y == BEYOND) return static_cast<u32>(channel.beyond + channel.zero);
    }
    return read_sample<u8>(input_at(channel, x, y));
}

// One axis of the picture and what the border says of samples beyond it, as far as an axis is long.
struct Axis {
    int length, sign, below, above;

    __device__ __forceinline__ Axis(u32 border, int length) : length(length), sign(-1), below(0), above(0) {
        switch (border) {
            case CUDACONV_REFLECT: below = -1; above = 2 * length - 1; break;
            case CUDACONV_REFLECT101: above = 2 * length - 2; break;
            case CUDACONV_WRAP: sign = 1; below = length; above = -length; break;
            // By clamping.
            default: sign = 1; below = 0; above = 0;
        }
    }

    __device__ __forceinline__ bool has(int position) const {
        return static_cast<u32>(position) < static_cast<u32>(length);
    }

    // Of a position at most a halo away on an axis longer than that. Further away, where no output
    // looks, any sample will do.
    __device__ __forceinline__ int place_of(int position) const {
        const int other = sign * position + (position < 0 ? below : above);
        return min(max(has(position) ? position : other, 0), length - 1);
    }
};

// Writes the mean of code values `sum` / `weights`, where sums are of bits shifted by `shift`.
DEVICE void write_mean(const CudaconvFrame& frame, const CudaconvChannel& channel, int x, int y, float sum, float weights,
                       int shift) {
    // The sums are about 2^(100 - 149 + shift) times code values: out of the denormals first.
    const float mean = __fdiv_rn(sum * 0x1p100f, weights) * (0x1p49f / static_cast<float>(1 << shift));
    write_result<u8>(frame, channel, x, y, mean - channel.zero);
}

// Samples are kept as offsets into the table: by as many bits as a row of 32 floats has.
constexpr int SHIFT = 7;
constexpr int WORD = 4;

// The largest radius, which is the halo of every tile; rows of a thread and warps of a block, one below
// the other; rows of the window on either side of the centre for which the code is there once.
template <int LARGEST, int OF_THREAD, int COUNT, int OF_WINDOW>
struct Table {
    static constexpr int RADIUS = LARGEST, ROWS = OF_THREAD, BAND = OF_WINDOW;
    static constexpr int HEIGHT = ROWS * COUNT, THREADS = COUNT * WARP;
    // Samples across a tile with its halo: whole words of bytes.
    static constexpr int PITCH = WIDTH + 2 * RADIUS;
    // Rows that the last band reads and does not use.
    static constexpr int SPARE = (BAND - RADIUS % BAND) % BAND;

    float weights[256][WARP];
    // By |dx| and |dy|.
    float space[RADIUS + 1][RADIUS + 1];
    alignas(8) u16 samples[HEIGHT + 2 * RADIUS + SPARE][PITCH];
};

// Exponents of windows up to this radius are in the launch.
constexpr int LARGEST_INLINE = 8;

template <typename Shared>
DEVICE void load_weights(Shared& table, const CudaconvBilateralLaunch& launch) {
    constexpr int THREADS = Shared::THREADS, SIDE = Shared::RADIUS + 1;
    // A thread a row, eight neighbours never at the same banks.
#pragma unroll
    for (int i = 0; i < 256; i += THREADS) {
        const int row = i + static_cast<int>(threadIdx.x);
        const float difference = float_of(row);
        const float weight = exp2_approximate(fmaf(launch.color, difference * difference, LARGER));
        const float4 four = make_float4(weight, weight, weight, weight);
        float4* to = reinterpret_cast<float4*>(table.weights[row]);
#pragma unroll
        for (int k = 0; k < 8; ++k) to[k ^ (threadIdx.x % 8)] = four;
    }
    // Of the whole square, nothing outside the window.
    const int radius_x = launch.radius_x, radius_y = launch.radius_y;
    const float* exponents = Shared::RADIUS > LARGEST_INLINE ? reinterpret_cast<const float*>(launch.weights)
                                                             : launch.inline_weights;
#pragma unroll 1
    for (int i = threadIdx.x; i < SIDE * SIDE; i += THREADS) {
        const int dx = i % SIDE, dy = i / SIDE;
        const bool taken = dy <= radius_y && dx <= radius_x;
        const float exponent = taken ? exponents[dy * (radius_x + 1) + dx] : -__int_as_float(0x7f800000);
        table.space[dx][dy] = exp2_approximate(exponent);
    }
}

// The tile of a channel with RADIUS rows and columns of halo.
template <typename Shared>
DEVICE void load_samples(Shared& table, const CudaconvFrame& frame, const CudaconvJob& job,
                         const CudaconvChannel& channel, int x0, int y0) {
    constexpr int THREADS = Shared::THREADS, RADIUS = Shared::RADIUS, PITCH = Shared::PITCH;
    constexpr int columns = PITCH, rows = Shared::HEIGHT + 2 * RADIUS;
    x0 -= RADIUS;
    y0 -= RADIUS;
    const Axis across(frame.border, job.width), down(frame.border, job.height);
    if (min(across.length, down.length) <= RADIUS) {
        for_each_element(columns, rows, false, threadIdx.x, THREADS, [&](int row, int column, bool inside) {
            table.samples[row][column] = tile_code(frame, job, channel, inside, x0 + column, y0 + row) << SHIFT;
        });
        return;
    }
    constexpr int words = columns / WORD, count = words * rows;
    constexpr int rows_apart = THREADS / words, words_apart = THREADS % words;
    const bool constant = frame.border == CUDACONV_CONSTANT;
    const bool whole_words = channel.step == 1 && (channel.input | channel.input_stride) % WORD == 0;
    // A word of the tile that is one of the picture, or of the row that stands for it.
    const auto is_word = [&](const Walk& walk) {
        const int x = x0 + walk.column * WORD;
        return whole_words && x >= 0 && x + WORD <= across.length && !(constant && !down.has(y0 + walk.row));
    };
    const auto store = [&](int place, u32 four) {
        *reinterpret_cast<uint2*>(&table.samples[0][0] + place) =
            make_uint2(__byte_perm(four, 0, 0x4140) << SHIFT, __byte_perm(four, 0, 0x4342) << SHIFT);
    };
    Walk walk(words, threadIdx.x);
    if (whole_words) {
        // All at once; what is none of the words is read from somewhere else and not stored.
        constexpr int MOST = (count + THREADS - 1) / THREADS;
        u32 read[MOST];
        int places[MOST];
        const int last = (across.length - WORD) / WORD * WORD;
#pragma unroll
        for (int i = 0; i < MOST; ++i) {
            const int x = min(max(x0 + walk.column * WORD, 0), last);
            read[i] = read_sample<u32>(input_at(channel, x, down.place_of(y0 + walk.row)));
            places[i] = walk.index < count && is_word(walk) ? walk.row * PITCH + walk.column * WORD : -1;
            walk.step(words, THREADS, rows_apart, words_apart);
        }
#pragma unroll
        for (int i = 0; i < MOST; ++i)
            if (places[i] >= 0) store(places[i], read[i]);
        if (is_inside(job, x0, y0, columns, rows)) return;
    }
    const u32 beyond = static_cast<u32>(channel.beyond + channel.zero);
    walk = Walk(words, threadIdx.x);
#pragma unroll 2
    for (; walk.index < count; walk.step(words, THREADS, rows_apart, words_apart)) {
        if (is_word(walk)) continue;
        const cudaconv_u64 row = input_at(channel, 0, down.place_of(y0 + walk.row));
        const bool beyond_row = constant && !down.has(y0 + walk.row);
        u32 codes = 0;
#pragma unroll
        for (int k = 0; k < WORD; ++k) {
            const int x = x0 + walk.column * WORD + k;
            const u32 code = read_sample<u8>(row + static_cast<u32>(across.place_of(x)) * channel.step);
            codes |= (beyond_row || (constant && !across.has(x)) ? beyond : code) << 8 * k;
        }
        store(walk.row * PITCH + walk.column * WORD, codes);
    }
}

// As BAND, in the column of the centres.
constexpr int FEW = 4;

// Sums of one output: of weighted samples, and of weights.
struct Weighted {
    float sum, weight;
};

// Adds two taps at the same distance from the centre: `a` and `b` are samples, `offset` is that of the lane's copies in
// shared memory. Lookups of four or two taps are one statement, which takes a third of the room in the PTX.
DEVICE void add_two(Weighted& sums, u32 offset, u32 centre, float space, u32 a, u32 b) {
    asm("{.reg .b32 p,q,t;sad.u32 p,%2,%4,%5;sad.u32 q,%3,%4,%5;ld.shared.f32 p,[p];ld.shared.f32 q,[q];"
        "mul.f32 t,p,%2;fma.rn.f32 t,q,%3,t;add.f32 p,p,q;fma.rn.f32 %0,t,%6,%0;fma.rn.f32 %1,p,%6,%1;}"
        : "+f"(sums.sum), "+f"(sums.weight)
        : "r"(a), "r"(b), "r"(centre), "r"(offset), "f"(space));
}

// The same of four.
DEVICE void add_four(Weighted& sums, u32 offset, u32 centre, float space, u32 a, u32 b, u32 c, u32 d) {
    asm("{.reg .b32 p,q,r,s,t;sad.u32 p,%2,%6,%7;sad.u32 q,%3,%6,%7;sad.u32 r,%4,%6,%7;sad.u32 s,%5,%6,%7;"
        "ld.shared.f32 p,[p];ld.shared.f32 q,[q];ld.shared.f32 r,[r];ld.shared.f32 s,[s];"
        "mul.f32 t,p,%2;fma.rn.f32 t,q,%3,t;add.f32 p,p,q;fma.rn.f32 t,r,%4,t;add.f32 p,p,r;"
        "fma.rn.f32 t,s,%5,t;add.f32 p,p,s;fma.rn.f32 %0,t,%8,%0;fma.rn.f32 %1,p,%8,%1;}"
        : "+f"(sums.sum), "+f"(sums.weight)
        : "r"(a), "r"(b), "r"(c), "r"(d), "r"(centre), "r"(offset), "f"(space));
}

template <typename Shared>
DEVICE void filter_channel(const Shared& table, const CudaconvBilateralLaunch& launch, const CudaconvJob& job,
                           const CudaconvChannel& channel, int x, int y) {
    const int radius_x = launch.radius_x, radius_y = launch.radius_y;
    constexpr int ROWS = Shared::ROWS, RADIUS = Shared::RADIUS, PITCH = Shared::PITCH, BAND = Shared::BAND;
    const u16* own = &table.samples[threadIdx.x / WARP * ROWS + RADIUS][lane() + RADIUS];
    const u32 offset = shared_address(table.weights) + lane() * static_cast<u32>(sizeof(float));
    u32 centres[ROWS];
    Weighted sums[ROWS];
#pragma unroll
    for (int h = 0; h < ROWS; ++h) {
        centres[h] = own[h * PITCH];
        sums[h].weight = table.weights[0][lane()];
        sums[h].sum = sums[h].weight * __uint_as_float(centres[h]);
    }
    // Of the column of the centres two taps each are at the same distance, of those on either side four.
#pragma unroll 1
    for (int from = 1; from <= radius_y; from += FEW) {
        const u16 *below = own + from * PITCH, *above = own - from * PITCH;
        u32 samples[2][ROWS + FEW - 1];
#pragma unroll
        for (int k = 0; k < ROWS + FEW - 1; ++k) {
            samples[0][k] = below[k * PITCH];
            samples[1][k] = above[(ROWS - 1 - k) * PITCH];
        }
#pragma unroll
        for (int dy = 0; dy < FEW; ++dy) {
            if (from + dy > radius_y) break;
#pragma unroll
            for (int h = 0; h < ROWS; ++h)
                add_two(sums[h], offset, centres[h], table.space[0][from + dy], samples[0][h + dy], samples[1][ROWS - 1 - h + dy]);
        }
    }
#pragma unroll 1
    for (int dx = 1; dx <= radius_x; ++dx) {
        const float* space = table.space[dx];
#pragma unroll
        for (int h = 0; h < ROWS; ++h)
            add_two(sums[h], offset, centres[h], space[0], own[h * PITCH - dx], own[h * PITCH + dx]);
#pragma unroll 1
        for (int from = 0; from < RADIUS; from += BAND) {
            const u16 *below = own + from * PITCH, *above = own - from * PITCH;
            u32 samples[4][ROWS + BAND];
#pragma unroll
            for (int k = 1; k < ROWS + BAND; ++k) {
                samples[0][k] = below[k * PITCH - dx];
                samples[1][k] = below[k * PITCH + dx];
                samples[2][k] = above[(ROWS - 1 - k) * PITCH - dx];
                samples[3][k] = above[(ROWS - 1 - k) * PITCH + dx];
            }
#pragma unroll
            for (int dy = 1; dy <= BAND; ++dy) {
                // Rows of the window are shorter the further they are from the centre.
                if (from + dy > radius_y || launch.spans[from + dy] < dx) break;
#pragma unroll
                for (int h = 0; h < ROWS; ++h)
                    add_four(sums[h], offset, centres[h], space[from + dy], samples[0][h + dy], samples[1][h + dy],
                             samples[2][ROWS - 1 - h + dy], samples[3][ROWS - 1 - h + dy]);
            }
        }
    }
#pragma unroll
    for (int h = 0; h < ROWS; ++h)
        if (x < static_cast<int>(job.width) && y + h < static_cast<int>(job.height))
            write_mean(launch.frame, channel, x, y + h, sums[h].sum, sums[h].weight, SHIFT);
}

template <typename Shared>
DEVICE void by_table(const CudaconvBilateralLaunch& launch) {
    __shared__ Shared table;
    const CudaconvFrame& frame = launch.frame;
    const CudaconvJob& job = frame.jobs[job_of(frame, blockIdx.y)];
    if (blockIdx.x >= job.tiles_across) return;
    const int x0 = blockIdx.x * WIDTH, y0 = (blockIdx.y - job.first_tile_row) * Shared::HEIGHT;
    copy_or_fill_tile<u8>(frame, job, x0, y0, WIDTH, Shared::HEIGHT, threadIdx.x, Shared::THREADS);
    load_weights(table, launch);
#pragma unroll 1
    for (u32 c = 0; c < job.channel_count; ++c) {
        if (job.channels[c].action != CUDACONV_FILTER) continue;
        __syncthreads();
        load_samples(table, frame, job, job.channels[c], x0, y0);
        __syncthreads();
        filter_channel(table, launch, job, job.channels[c], x0 + lane(), y0 + threadIdx.x / WARP * Shared::ROWS);
    }
}

// Blocks of a multiprocessor: as many as have room in shared memory.
#ifdef BILATERAL_TABLE_U8
KERNEL(bilateral_table_u8, CudaconvBilateralLaunch, (8 * WARP, 3), by_table<Table<8, 8, 8, 8>>(launch))
#endif
#ifdef BILATERAL_WIDE_TABLE_U8
KERNEL(bilateral_wide_table_u8, CudaconvBilateralLaunch, (4 * WARP, 5), by_table<Table<16, 8, 4, 5>>(launch))
#endif
// For pictures of which the blocks of the others would not fill a device.
#ifdef BILATERAL_TABLE_SMALL_U8
KERNEL(bilateral_table_small_u8, CudaconvBilateralLaunch, (4 * WARP, 5), by_table<Table<8, 4, 4, 8>>(launch))
#endif
#ifdef BILATERAL_WIDE_TABLE_SMALL_U8
KERNEL(bilateral_wide_table_small_u8, CudaconvBilateralLaunch, (4 * WARP, 5), by_table<Table<16, 4, 4, 8>>(launch))
#endif
