// The bilateral filter by exponentials, column by column of the window: a thread computes 4 or 8 rows of one
// column of a tile, and what it reads of a column of samples serves all of them.
//
// Of 8: a column of the window of 2 s + 1 rows takes 2 s + 8 rows of samples. The 7 at either end are in the windows of
// 1 to 7 outputs; the others are taken in pairs, as far above the middle as below. Both of a pair need the same 8
// spatial exponents, of the distances i - 4 to i + 3, and the 7 at either end need those of the outermost pair. So
// a pair takes two reads of samples and two of exponents for 16 taps, and an end seven for 28.
//
// joint: three channels of 8 bits with one weight, by the sum of absolute differences, all three differences one
// instruction on packed bytes. Operations per tap: that one, 6 multiplications and additions, and an exponential, which takes
// a scheduler 8 cycles; with reads and loops 8.7 to issue, so that the exponentials (149 of radius 7) and issue bound
// it alike: 74 and 81 µs for 1080p RGBA at 1.98 GHz on 132 multiprocessors. Measured on an H200: 118 µs, of which 19 are the
// launch, tiles and results (radius 0); 0.78 instructions a cycle. Without reading the samples of a pair before
// they are needed: 122; 4 rows a thread: 121; 6: 119; packed samples in the tile: 5 more. RGB, of three bytes a pixel, takes 1 more
// than RGBA; read and written byte by byte it took 20 more.
// single: channels of words with a weight of their own; the exponentials bound it. Measured: 114 µs for 1080p of 16 bits
// with radius 7, 18 of them with radius 0; 8 rows a thread: 107 to 111.
//
// A block of 128 threads computes 32 columns by 16 or 32 rows.
#include "bilateral.cuh"

// Rows of a thread, and warps of a block, one below the other.
#if defined(BILATERAL_JOINT_U8)
constexpr int ROWS = 8, WARPS = 4, BLOCKS = 5;
#elif defined(BILATERAL_JOINT_WIDE_U8)
constexpr int ROWS = 4, WARPS = 4, BLOCKS = 7;
#else
constexpr int ROWS = 4, WARPS = 4, BLOCKS = 8;
#endif
constexpr int HALF = ROWS / 2, THREADS = WARPS * WARP;
constexpr int HEIGHT = WARPS * ROWS;

extern __shared__ float4 shared[];

// --- Columns of the window -----------------------------------------------------------------------

// Spatial exponents of one column of the window: of every distance from -HALF on, and of the three behind it.
DEVICE int exponent_rows(int radius_y) { return radius_y + HALF + 1; }

// Of all columns at distances 0 to radius_x, `added` to each: a warp a column.
DEVICE void load_exponents(float4* exponents, const CudaconvBilateralLaunch& launch, float added) {
    const int radius_x = launch.radius_x, radius_y = launch.radius_y, rows = exponent_rows(radius_y);
    const float* weights = reinterpret_cast<const float*>(launch.weights);
#pragma unroll 1
    for (int dx = threadIdx.x / WARP; dx <= radius_x; dx += WARPS) {
#pragma unroll 1
        for (int i = lane(); i < rows; i += WARP) {
            const auto exponent = [&](int dy) { return __ldg(weights + min(abs(dy), radius_y) * (radius_x + 1) + dx) + added; };
            const int dy = i - HALF;
            exponents[dx * rows + i] = make_float4(exponent(dy), exponent(dy + 1), exponent(dy + 2), exponent(dy + 3));
        }
    }
}

// Rows of the window on either side of the centre, by column: a lane knows those of column lane + 1.
struct Spans {
    int middle, other;

    __device__ __forceinline__ explicit Spans(const CudaconvBilateralLaunch& launch) : middle(launch.radius_y), other(0) {
#pragma unroll 1
        for (int dy = 1; dy <= middle; ++dy) other += launch.spans[dy] > lane();
    }

    // `dx` is the same in all lanes.
    __device__ __forceinline__ int of(int dx) const {
        const int span = __shfl_sync(0xffffffff, other, dx - 1);
        return dx == 0 ? middle : span;
    }
};

// The exponents of ROWS distances, the first of which is that of `from`.
DEVICE void read_exponents(float (&exponents)[ROWS], const float4* from) {
#pragma unroll
    for (int j = 0; j < ROWS; j += 4) {
        const float4 four = from[j];
        exponents[j] = four.x;
        exponents[j + 1] = four.y;
        exponents[j + 2] = four.z;
        exponents[j + 3] = four.w;
    }
}

// Adds the taps of one column of the window to the sums of the outputs of a thread. `own` is the sample of the
// first output in that column. A Way says what samples are and how a tap is added.
template <typename Way>
DEVICE void add_column(const Way& way, typename Way::Sums (&sums)[ROWS], const typename Way::Centre (&centres)[ROWS],
                       const typename Way::Pixel* own, const float4* exponents, int span, int pitch) {
    using Pixel = typename Way::Pixel;
    if (span < HALF - 1) {
#pragma unroll 1
        for (int dy = -span; dy <= span; ++dy) {
            const float exponent = exponents[dy + HALF].x;
#pragma unroll
            for (int h = 0; h < ROWS; ++h) way.add(sums[h], own[(h + dy) * pitch], centres[h], exponent);
        }
        return;
    }
    // The next rows above and below the middle, outermost first.
    const Pixel *above = own - span * pitch, *below = own + (span + ROWS - 1) * pitch;
    int pair = span - HALF + 1;
    float near[ROWS];
    read_exponents(near, exponents + pair);
#pragma unroll
    for (int j = 0; j < ROWS - 1; ++j) {
        const Pixel first = *above, second = *below;
#pragma unroll
        for (int h = 0; h <= j; ++h) {
            way.add(sums[h], first, centres[h], near[ROWS - 1 - j + h]);
            way.add(sums[ROWS - 1 - h], second, centres[ROWS - 1 - h], near[ROWS - 1 - j + h]);
        }
        above += pitch;
        below -= pitch;
    }
    // Read before they are needed, the last in vain.
    Pixel first = *above, second = *below;
#pragma unroll 2
    for (; pair > 0; --pair) {
        above += pitch;
        below -= pitch;
        const Pixel next_first = *above, next_second = *below;
#pragma unroll
        for (int h = 0; h < ROWS; ++h) {
            way.add(sums[h], first, centres[h], near[h]);
            way.add(sums[ROWS - 1 - h], second, centres[ROWS - 1 - h], near[h]);
        }
        first = next_first;
        second = next_second;
        read_exponents(near, exponents + pair - 1);
    }
}

// Adds all taps of the windows of the outputs of a thread, of which `own` is the first sample.
template <typename Way>
DEVICE void add_window(const Way& way, typename Way::Sums (&sums)[ROWS], typename Way::Centre (&centres)[ROWS],
                       const typename Way::Pixel* own, int pitch, const float4* exponents, const Spans& spans,
                       int radius_x, int radius_y) {
#pragma unroll
    for (int h = 0; h < ROWS; ++h) {
        centres[h] = Way::centre(own[h * pitch]);
        sums[h] = {};
    }
    int span = spans.of(radius_x);
#pragma unroll 1
    for (int dx = -radius_x; dx <= radius_x; ++dx) {
        const int next_span = spans.of(abs(dx + 1));
        add_column(way, sums, centres, own + dx, exponents + abs(dx) * exponent_rows(radius_y), span, pitch);
        span = next_span;
    }
}

// Tiles of radii up to this all have the same halo, so that a block reads them whole at once.
constexpr int NEAR = 8, PITCH = WIDTH + 2 * NEAR;

// Such a tile that lies in the picture, on its way into shared memory: a warp reads 32 samples of a row, and of the
// 16 behind them those of two rows at once.
template <typename Sample>
struct Reading {
    static constexpr int RUNS = (HEIGHT + 2 * NEAR) / WARPS, HALVES = RUNS / 2;
    u32 runs[RUNS], halves[HALVES];

    static __device__ __forceinline__ int row() { return threadIdx.x / WARP; }
    static __device__ __forceinline__ int half_row() { return threadIdx.x / (WARP / 2); }
    static __device__ __forceinline__ int half_column() { return WIDTH + threadIdx.x % (WARP / 2); }

    // `from` is the address of the first of samples that are `step` apart, in rows `stride` apart. Of samples that do not
    // begin with words, the words in which they begin are read.
    __device__ __forceinline__ Reading(cudaconv_u64 from, u32 step, u32 stride) {
        constexpr cudaconv_u64 ALIGNED = sizeof(Sample) == 4 ? ~3ull : ~0ull;
        const cudaconv_u64 run = (from + row() * stride + step * lane()) & ALIGNED;
        const cudaconv_u64 half = (from + half_row() * stride + step * half_column()) & ALIGNED;
#pragma unroll
        for (int i = 0; i < RUNS; ++i) runs[i] = read_sample<Sample>(run + i * WARPS * stride);
#pragma unroll
        for (int i = 0; i < HALVES; ++i) halves[i] = read_sample<Sample>(half + 2 * i * WARPS * stride);
    }

    // Makes words of which samples of three bytes are the lower ones: reads the words in which these end, too. Rows begin with
    // words.
    __device__ __forceinline__ void take_triples(cudaconv_u64 from, u32 stride) {
        const cudaconv_u64 run = from + row() * stride + 3 * lane(), half = from + half_row() * stride + 3 * half_column();
        const cudaconv_u64 run_end = (run + 2) & ~3ull, half_end = (half + 2) & ~3ull;
        const u32 run_bits = run % 4 * 8, half_bits = half % 4 * 8;
#pragma unroll
        for (int i = 0; i < RUNS; ++i)
            runs[i] = __funnelshift_r(runs[i], read_sample<u32>(run_end + i * WARPS * stride), run_bits);
#pragma unroll
        for (int i = 0; i < HALVES; ++i)
            halves[i] = __funnelshift_r(halves[i], read_sample<u32>(half_end + 2 * i * WARPS * stride), half_bits);
    }

    // Stores what `make` makes of each sample.
    template <typename Pixel, typename Make>
    __device__ __forceinline__ void store(Pixel* tile, Make make) const {
        Pixel *run = tile + row() * PITCH + lane(), *half = tile + half_row() * PITCH + half_column();
#pragma unroll
        for (int i = 0; i < RUNS; ++i) run[i * WARPS * PITCH] = make(runs[i]);
#pragma unroll
        for (int i = 0; i < HALVES; ++i) half[2 * i * WARPS * PITCH] = make(halves[i]);
    }
};

#if defined(BILATERAL_JOINT_U8) || defined(BILATERAL_JOINT_WIDE_U8)

// --- joint ---------------------------------------------------------------------------------------

// Added to exponents: samples are multiplied as what their bits are as floats, denormals, so that none is
// converted. Weights are larger to make up for it.
constexpr float LARGER = 100.0f;
constexpr int CHANNELS = 3;

// The three channels with the joint weight, which are packed into the lower bytes of a word.
struct Joint {
    int channels[CHANNELS];

    __device__ __forceinline__ explicit Joint(u32 mask) {
#pragma unroll
        for (int c = 0; c < CHANNELS; ++c) {
            channels[c] = __ffs(mask) - 1;
            mask &= mask - 1;
        }
    }

    // For __byte_perm: of a word the bytes of the three, and a zero.
    __device__ __forceinline__ u32 three() const { return 0x4000 | channels[2] << 8 | channels[1] << 4 | channels[0]; }
};

// Sums of weights, and of weighted samples: of the first channel, of the first two packed, and of all three,
// which an addition less takes apart than three would have to be for every sample.
struct JointSums {
    float one, two, three, weights;
};

DEVICE void add_joint(JointSums& sums, u32 one, u32 two, u32 three, u32 centre, float scale, float exponent) {
    // 2^23 and the distance, scaled and the scaled 2^23 subtracted in one step without error. One statement, which
    // takes half the room in the PTX.
    asm("{.reg .b32 p,q;vabsdiff4.u32.u32.u32.add p,%6,%7,%10;fma.rn.f32 p,p,%8,%9;neg.f32 q,p;fma.rn.f32 p,p,q,%11;"
        "ex2.approx.ftz.f32 p,p;fma.rn.f32 %0,p,%4,%0;fma.rn.f32 %1,p,%5,%1;fma.rn.f32 %2,p,%6,%2;add.f32 %3,p,%3;}"
        : "+f"(sums.one), "+f"(sums.two), "+f"(sums.three), "+f"(sums.weights)
        : "r"(one), "r"(two), "r"(three), "r"(centre), "f"(scale), "f"(-WHOLE * scale), "r"(0x4b000000), "f"(exponent));
}

// Pixels of a tile as they are in shared memory: packed, or as what is multiplied and the word of the picture, which
// takes fewer operations and four times the room. Tiles have `halo` columns or rows beside the outputs.
struct Packed {
    using Pixel = u32;
    using Centre = u32;
    using Sums = JointSums;
    float scale;

    // Whether what is read of the picture is kept whole.
    static constexpr bool WHOLE_WORDS = false;

    static __device__ __forceinline__ int halo(int radius) { return radius; }
    static __device__ __forceinline__ u32 whole(Pixel) { return 0; }
    static __device__ __forceinline__ Pixel pixel(u32 three, u32) { return three; }
    static __device__ __forceinline__ Centre centre(Pixel pixel) { return pixel; }
    __device__ __forceinline__ void add(Sums& sums, Pixel pixel, Centre centre, float exponent) const {
        add_joint(sums, pixel & 0xff, pixel & 0xffff, pixel, centre, scale, exponent);
    }
};

struct Apart {
    using Pixel = uint4;
    using Centre = u32;
    using Sums = JointSums;
    float scale;
    static constexpr bool WHOLE_WORDS = true;

    static __device__ __forceinline__ int halo(int) { return NEAR; }
    static __device__ __forceinline__ u32 whole(const Pixel& pixel) { return pixel.w; }
    static __device__ __forceinline__ Pixel pixel(u32 three, u32 word) { return make_uint4(three & 0xff, three & 0xffff, three, word); }
    static __device__ __forceinline__ Centre centre(const Pixel& pixel) { return pixel.z; }
    __device__ __forceinline__ void add(Sums& sums, const Pixel& pixel, Centre centre, float exponent) const {
        add_joint(sums, pixel.x, pixel.y, pixel.z, centre, scale, exponent);
    }
};

// Whether the pixels of a job are aligned words.
DEVICE bool has_words(const CudaconvJob& job) {
    const CudaconvChannel& first = job.channels[0];
    return job.packed && job.channel_count == 4 &&
           (first.input | first.input_stride | first.output | first.output_stride) % 4 == 0;
}

// Whether pixels are three bytes with the joint weight, and rows begin with words.
DEVICE bool has_triples(const CudaconvJob& job) {
    const CudaconvChannel& first = job.channels[0];
    return job.packed && job.channel_count == CHANNELS && job.joint == (1u << CHANNELS) - 1 &&
           (first.input | first.input_stride | first.output | first.output_stride) % 4 == 0;
}

// Any tile of any job.
template <typename Way>
DEVICE void load_pixels(typename Way::Pixel* tile, int pitch, int rows, const Positions& positions, const CudaconvJob& job,
                        const Joint& joint, bool words) {
    u32 beyond = 0;
#pragma unroll
    for (int c = 0; c < CHANNELS; ++c) {
        const CudaconvChannel& channel = job.channels[joint.channels[c]];
        beyond |= static_cast<u32>(channel.beyond + channel.zero) << 8 * c;
    }
    const int rows_apart = THREADS / pitch, columns_apart = THREADS % pitch;
    Walk walk(pitch, threadIdx.x);
#pragma unroll 2
    for (; walk.index < pitch * rows; walk.step(pitch, THREADS, rows_apart, columns_apart)) {
        const int x = positions.columns[walk.column], y = positions.rows[walk.row];
        u32 word = 0, pixel = beyond;
        if ((x | y) >= 0) {
            if (words) {
                word = read_sample<u32>(input_at(job.channels[0], x, y));
                pixel = __byte_perm(word, 0, joint.three());
            } else {
                pixel = 0;
#pragma unroll
                for (int c = 0; c < CHANNELS; ++c)
                    pixel |= read_sample<u8>(input_at(job.channels[joint.channels[c]], x, y)) << 8 * c;
            }
        }
        tile[walk.index] = Way::pixel(pixel, word);
    }
}

// What makes code values of sums: by channel what is added to means.
struct Means {
    float added[CHANNELS];

    __device__ __forceinline__ Means(const CudaconvJob& job, const Joint& joint) {
#pragma unroll
        for (int c = 0; c < CHANNELS; ++c) {
            const CudaconvChannel& channel = job.channels[joint.channels[c]];
            added[c] = channel.offset - channel.zero;
        }
    }

    // The three code values, packed.
    __device__ __forceinline__ u32 of(const JointSums& sums) const {
        // The sums are about 2^(100 - 149) times packed code values: one factor for all.
        float by;
        asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(by) : "f"(sums.weights * 0x1p-126f));
        const float apart[CHANNELS] = {sums.one, sums.two - sums.one, sums.three - sums.two};
        u32 codes[CHANNELS];
#pragma unroll
        for (int c = 0; c < CHANNELS; ++c)
            codes[c] = __float_as_uint(fminf(fmaxf(fmaf(apart[c] * by, 0x1p23f / static_cast<float>(1 << 8 * c), added[c]), 0.0f), 255.0f) + WHOLE);
        return __byte_perm(__byte_perm(codes[0], codes[1], 0x0040), codes[2], 0x3410);
    }
};

// Loads the tile and the exponents where that can be done at once, or returns false.
DEVICE bool load_at_once(u32*, const CudaconvBilateralLaunch&, const CudaconvJob&, const Joint&, bool, int, int) { return false; }

DEVICE bool load_at_once(uint4* tile, const CudaconvBilateralLaunch& launch, const CudaconvJob& job, const Joint& joint, bool words,
                         int first_x, int first_y) {
    const CudaconvChannel& first = job.channels[0];
    const bool triples = has_triples(job);
    if (!(words || triples) || !is_inside(job, first_x, first_y, PITCH, HEIGHT + 2 * NEAR)) return false;
    const cudaconv_u64 from = input_at(first, first_x, first_y);
    Reading<u32> reading(from, first.step, first.input_stride);
    if (triples) reading.take_triples(from, first.input_stride);
    load_exponents(shared, launch, LARGER);
    const u32 three = joint.three();
    reading.store(tile, [&](u32 word) { return Apart::pixel(__byte_perm(word, 0, three), word); });
    return true;
}

// Writes pixels of three bytes, one below the other, of each lane: `rows` rows of 32 from `to` on, word by word.
DEVICE void write_triples(cudaconv_u64 to, u32 stride, int rows, const u32 (&pixels)[ROWS]) {
    // The bytes of a lane's word begin in the pixel of lane `own`.
    const int byte = lane() * 4, own = byte / CHANNELS;
#pragma unroll
    for (int h = 0; h < ROWS; ++h) {
        const u32 low = __shfl_sync(0xffffffff, pixels[h], own), high = __shfl_sync(0xffffffff, pixels[h], own + 1);
        const u32 word = __funnelshift_r(low & 0xffffff | high << 24, high << 8 >> 16, byte % CHANNELS * 8);
        if (h < rows && byte < WIDTH * CHANNELS) write_sample(to + byte + h * stride, word);
    }
}

template <typename Way>
DEVICE void joint(const CudaconvBilateralLaunch& launch) {
    __shared__ Positions positions;
    const CudaconvFrame& frame = launch.frame;
    const CudaconvJob& job = frame.jobs[job_of(frame, blockIdx.y)];
    if (blockIdx.x >= job.tiles_across) return;
    const int x0 = blockIdx.x * WIDTH, y0 = (blockIdx.y - job.first_tile_row) * HEIGHT;
    const int radius_x = launch.radius_x, radius_y = launch.radius_y;
    const bool words = has_words(job);
    const CudaconvChannel& first = job.channels[0];
    const Joint joint(job.joint);
    const int x = x0 + lane(), y = y0 + threadIdx.x / WARP * ROWS;
    const int last_row = x < static_cast<int>(job.width) ? min(static_cast<int>(job.height) - y, ROWS) : 0;
    // Code values of the three, packed, and all that was read of the pixels where they are words.
    u32 means[ROWS], wholes[ROWS];
    if (job.joint) {
        float4* exponents = shared;
        auto* tile = reinterpret_cast<typename Way::Pixel*>(exponents + (radius_x + 1) * exponent_rows(radius_y));
        const int left = Way::halo(radius_x), above = Way::halo(radius_y), pitch = WIDTH + 2 * left;
        const int first_x = x0 - left, first_y = y0 - above;
        if (!load_at_once(tile, launch, job, joint, words, first_x, first_y)) {
            positions.find(frame, job, first_x, first_y);
            load_exponents(exponents, launch, LARGER);
            __syncthreads();
            load_pixels<Way>(tile, pitch, HEIGHT + 2 * above, positions, job, joint, words);
        }
        const Spans spans(launch);
        const Way way = {__fsqrt_rn(-launch.color)};
        __syncthreads();
        const typename Way::Pixel* own = tile + (threadIdx.x / WARP * ROWS + above) * pitch + lane() + left;
        JointSums sums[ROWS];
        u32 centres[ROWS];
        add_window(way, sums, centres, own, pitch, exponents, spans, radius_x, radius_y);
#pragma unroll
        for (int h = 0; h < ROWS; ++h) wholes[h] = Way::whole(own[h * pitch]);
        const Means of(job, joint);
#pragma unroll
        for (int h = 0; h < ROWS; ++h) means[h] = of.of(sums[h]);
    }
    if (has_triples(job) && x0 + WIDTH <= static_cast<int>(job.width)) {
        write_triples(output_at(first, x0, y), first.output_stride, last_row, means);
        return;
    }
    if (words) {
        // Where each byte of a word comes from: the lower four are the means, the others what was read or a fill value.
        u32 from = 0x7654, fill = 0, filled = 0;
#pragma unroll
        for (int c = 0; c < CUDACONV_CHANNELS; ++c) {
            const CudaconvChannel& channel = job.channels[c];
            if (channel.action == CUDACONV_FILL) {
                fill |= channel.fill << 8 * c;
                filled |= 0xffu << 8 * c;
            }
            if (job.joint >> c & 1) from = from & ~(0xfu << 4 * c) | __popc(job.joint & ((1 << c) - 1)) << 4 * c;
        }
        const cudaconv_u64 to = output_at(first, x, y), again = input_at(first, x, y);
        if (!job.joint || !Way::WHOLE_WORDS) {
#pragma unroll
            for (int h = 0; h < ROWS; ++h)
                if (h < last_row) wholes[h] = read_sample<u32>(again + h * first.input_stride);
        }
#pragma unroll
        for (int h = 0; h < ROWS; ++h)
            if (h < last_row) write_sample(to + h * first.output_stride, __byte_perm(means[h], wholes[h] & ~filled | fill, from));
        return;
    }
#pragma unroll 1
    for (int h = 0; h < last_row; ++h) {
        u32 left = means[0];
#pragma unroll 1
        for (u32 c = 0; c < job.channel_count; ++c) {
            const CudaconvChannel& channel = job.channels[c];
            if (!(job.joint >> c & 1)) {
                copy_or_fill<u8>(frame, channel, x, y + h);
                continue;
            }
            write_sample<u8>(output_at(channel, x, y + h), left);
            left >>= 8;
        }
        // The next moves up, so that the code for one is there once.
#pragma unroll
        for (int k = 0; k + 1 < ROWS; ++k) means[k] = means[k + 1];
    }
}

#ifdef BILATERAL_JOINT_U8
extern "C" __global__ void __launch_bounds__(THREADS, BLOCKS)
    bilateral_joint_u8(const __grid_constant__ CudaconvBilateralLaunch launch) {
    joint<Apart>(launch);
}
#endif
#ifdef BILATERAL_JOINT_WIDE_U8
extern "C" __global__ void __launch_bounds__(THREADS, BLOCKS)
    bilateral_joint_wide_u8(const __grid_constant__ CudaconvBilateralLaunch launch) {
    joint<Packed>(launch);
}
#endif
#endif

#ifdef BILATERAL_SINGLE_U16

// --- single --------------------------------------------------------------------------------------

// One channel, in' as float.
struct Single {
    struct Sums {
        float values, weights;
    };
    using Pixel = float;
    using Centre = float;
    float color;

    static __device__ __forceinline__ float centre(float value) { return value; }
    __device__ __forceinline__ void add(Sums& sums, float value, float centre, float exponent) const {
        // In one statement, which takes half the room in the PTX.
        asm("{.reg .f32 p,q;sub.f32 p,%2,%3;mul.f32 q,p,p;fma.rn.f32 q,q,%4,%5;ex2.approx.ftz.f32 q,q;"
            "fma.rn.f32 %0,q,p,%0;add.f32 %1,q,%1;}"
            : "+f"(sums.values), "+f"(sums.weights)
            : "f"(value), "f"(centre), "f"(color), "f"(exponent));
    }
};

template <typename Sample>
DEVICE void filter_channel(const CudaconvBilateralLaunch& launch, const CudaconvJob& job, const CudaconvChannel& channel,
                           Positions& positions, const Spans& spans, bool first, int x0, int y0) {
    const CudaconvFrame& frame = launch.frame;
    const int radius_x = launch.radius_x, radius_y = launch.radius_y;
    const bool near = max(radius_x, radius_y) <= NEAR;
    const int left = near ? NEAR : radius_x, above = near ? NEAR : radius_y;
    const int pitch = WIDTH + 2 * left, rows = HEIGHT + 2 * above;
    const int first_x = x0 - left, first_y = y0 - above;
    float4* exponents = shared;
    float* tile = reinterpret_cast<float*>(shared + (radius_x + 1) * exponent_rows(radius_y));
    __syncthreads();
    if (near && is_inside(job, first_x, first_y, PITCH, rows)) {
        const Reading<Sample> reading(input_at(channel, first_x, first_y), channel.step, channel.input_stride);
        if (first) load_exponents(exponents, launch, 0.0f);
        const float zero = WHOLE + channel.zero;
        reading.store(tile, [&](u32 sample) {
            return __uint_as_float(0x4b000000u | code_of(frame, static_cast<Sample>(sample))) - zero;
        });
    } else {
        positions.find(frame, job, first_x, first_y);
        if (first) load_exponents(exponents, launch, 0.0f);
        __syncthreads();
        const int rows_apart = THREADS / pitch, columns_apart = THREADS % pitch;
        Walk walk(pitch, threadIdx.x);
#pragma unroll 2
        for (; walk.index < pitch * rows; walk.step(pitch, THREADS, rows_apart, columns_apart))
            tile[walk.index] = value_in<Sample>(frame, channel, positions.columns[walk.column], positions.rows[walk.row]);
    }
    __syncthreads();
    Single::Sums sums[ROWS];
    float centres[ROWS];
    const int row = threadIdx.x / WARP * ROWS;
    add_window(Single{launch.color}, sums, centres, tile + (row + above) * pitch + lane() + left, pitch, exponents, spans,
               radius_x, radius_y);
    const int x = x0 + lane(), count = x < static_cast<int>(job.width) ? static_cast<int>(job.height) - y0 - row : 0;
#pragma unroll
    for (int h = 0; h < ROWS; ++h) {
        const float mean = centres[h] + __fdiv_rn(sums[h].values, sums[h].weights);
        if (h < count) write_result<Sample>(frame, channel, x, y0 + row + h, mean);
    }
}

template <typename Sample>
DEVICE void single(const CudaconvBilateralLaunch& launch) {
    __shared__ Positions positions;
    const CudaconvFrame& frame = launch.frame;
    const CudaconvJob& job = frame.jobs[job_of(frame, blockIdx.y)];
    if (blockIdx.x >= job.tiles_across) return;
    const int x0 = blockIdx.x * WIDTH, y0 = (blockIdx.y - job.first_tile_row) * HEIGHT;
    const Spans spans(launch);
    bool first = true;
#pragma unroll 1
    for (u32 c = 0; c < job.channel_count; ++c) {
        const CudaconvChannel& channel = job.channels[c];
        if (channel.action == CUDACONV_FILTER) {
            filter_channel<Sample>(launch, job, channel, positions, spans, first, x0, y0);
            first = false;
            continue;
        }
        const int x = x0 + lane(), y1 = min(y0 + HEIGHT, static_cast<int>(job.height));
#pragma unroll 1
        for (int y = y0 + threadIdx.x / WARP; y < y1 && x < static_cast<int>(job.width); y += WARPS)
            copy_or_fill<Sample>(frame, channel, x, y);
    }
}

extern "C" __global__ void __launch_bounds__(THREADS, BLOCKS)
    bilateral_single_u16(const __grid_constant__ CudaconvBilateralLaunch launch) {
    single<u16>(launch);
}
#endif
