// The bilateral filter of three channels of 8 bits with one weight, by the sum of absolute differences: by exponentials,
// down the columns of the window.
//
// All three differences are one instruction on packed bytes. Operations per tap: that one, 6 multiplications and
// additions, and an exponential, which takes a scheduler 8 cycles; with reads and loops 8.6 to issue, so that the
// exponentials (149 of radius 7) and issue bound it alike: 74 and 80 µs for 1080p RGBA at 1.98 GHz on 132 multiprocessors.
// Measured, a fifth of the time are the launch, tiles and results (radius 0), and 0.82 instructions are issued a cycle. An
// instruction that reads three registers is often issued a cycle late: exponents and the root of the colour's factor
// in registers of each thread cost 4 %, and up to 15 % where the compiler puts three into one bank of registers. 6 or 8 rows
// a thread take 3 % more, 8 as they come to 2.6 rounds of all multiprocessors instead of 2.95; 5 blocks a multiprocessor 5 %.
//
// RGB, of three bytes a pixel, is read and written in words too: byte by byte it took a sixth more than RGBA.
#include "bilateral_columns.cuh"

#if defined(BILATERAL_JOINT_U8)
using Block = Shape<CUDACONV_JOINT_ROWS, 4>;
#else
using Block = Shape<4, 4>;
#endif

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
// which an addition less takes apart than three would have to be for every sample. Samples are multiplied as what
// their bits are as floats, denormals, so that none is converted; weights are larger by 2^CUDACONV_LARGER to make up
// for it.
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

// --- Two ways ------------------------------------------------------------------------------------

// Pixels of a tile as they are in shared memory: as what is multiplied and the word of the picture, or packed, which
// takes more operations and a quarter of the room. Tiles have `halo` columns or rows beside the outputs.
struct Apart : Block {
    using Pixel = uint4;
    using Centre = u32;
    using Sums = JointSums;
    float scale;

    // Whether what is read of the picture is kept whole.
    static constexpr bool WHOLE_WORDS = true;

    static __device__ __forceinline__ int halo(int) { return NEAR; }
    static __device__ __forceinline__ u32 whole(const Pixel& pixel) { return pixel.w; }
    static __device__ __forceinline__ Pixel pixel(u32 three, u32 word) { return make_uint4(three & 0xff, three & 0xffff, three, word); }
    static __device__ __forceinline__ Centre centre(const Pixel& pixel) { return pixel.z; }
    __device__ __forceinline__ void add(Sums& sums, const Pixel& pixel, Centre centre, float exponent) const {
        add_joint(sums, pixel.x, pixel.y, pixel.z, centre, scale, exponent);
    }

    static __device__ __forceinline__ Pixel* tile(const CudaconvBilateralLaunch&) { return reinterpret_cast<Pixel*>(shared); }
    static __device__ __forceinline__ void load_exponents(const CudaconvBilateralLaunch&) {}
    static __device__ __forceinline__ InLaunch exponents(const CudaconvBilateralLaunch& launch) { return {launch.inline_weights}; }
};

struct Packed : Block {
    using Pixel = u32;
    using Centre = u32;
    using Sums = JointSums;
    float scale;
    static constexpr bool WHOLE_WORDS = false;

    static __device__ __forceinline__ int halo(int radius) { return radius; }
    static __device__ __forceinline__ u32 whole(Pixel) { return 0; }
    static __device__ __forceinline__ Pixel pixel(u32 three, u32) { return three; }
    static __device__ __forceinline__ Centre centre(Pixel pixel) { return pixel; }
    __device__ __forceinline__ void add(Sums& sums, Pixel pixel, Centre centre, float exponent) const {
        add_joint(sums, pixel & 0xff, pixel & 0xffff, pixel, centre, scale, exponent);
    }

    static __device__ __forceinline__ Pixel* tile(const CudaconvBilateralLaunch& launch) { return behind_exponents<Block, Pixel>(launch); }
    static __device__ __forceinline__ void load_exponents(const CudaconvBilateralLaunch& launch) {
        put_exponents<Block>(launch, CUDACONV_LARGER);
    }
    static __device__ __forceinline__ InShared exponents(const CudaconvBilateralLaunch&) { return {shared}; }
};

// --- Tiles ---------------------------------------------------------------------------------------

// Whether the pixels of a job are aligned words.
DEVICE bool has_words(const CudaconvJob& job) {
    const CudaconvChannel& first = job.channels[0];
    return job.packed && job.channel_count == 4 &&
           (first.input | first.input_stride | first.output | first.output_stride) % 4 == 0;
}

// Whether pixels are three bytes with the joint weight, and rows begin with words.
DEVICE bool has_triples(const CudaconvJob& job) {
    const CudaconvChannel& first = job.channels[0];
    return job.packed && job.channel_count == CHANNELS && job.joint_or_filter == (1u << CHANNELS) - 1 &&
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
    fill_tile<Block>(tile, pitch, rows, positions, [&](int x, int y) {
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
        return Way::pixel(pixel, word);
    });
}

// Loads the tile where that can be done at once, or returns false.
DEVICE bool load_at_once(u32*, const CudaconvJob&, const Joint&, bool, int, int) { return false; }

DEVICE bool load_at_once(uint4* tile, const CudaconvJob& job, const Joint& joint, bool words, int first_x, int first_y) {
    using Whole = Reading<u32, Block>;
    const bool triples = has_triples(job);
    if (!(words || triples) || !is_inside(job, first_x, first_y, PITCH, Whole::ROWS)) return false;
    const CudaconvChannel& first = job.channels[0];
    const cudaconv_u64 from = input_at(first, first_x, first_y);
    Whole reading(from, first.step, first.input_stride);
    if (triples) reading.take_triples(from, first.input_stride);
    const u32 three = joint.three();
    reading.store(tile, [&](u32 word) { return Apart::pixel(__byte_perm(word, 0, three), word); });
    return true;
}

// --- Results -------------------------------------------------------------------------------------

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

// Writes `count` pixels that are words, one below the other: the bytes of joint channels are those of `means`, the
// others what was read, `wholes`, or a fill value.
template <int ROWS>
DEVICE void write_words(const CudaconvJob& job, int x, int y, int count, const u32 (&means)[ROWS], const u32 (&wholes)[ROWS]) {
    // Where each byte of a word comes from: the lower four are the means.
    u32 from = 0x7654, fill = 0, filled = 0;
#pragma unroll
    for (int c = 0; c < CUDACONV_CHANNELS; ++c) {
        const CudaconvChannel& channel = job.channels[c];
        if (channel.action == CUDACONV_FILL) {
            fill |= channel.fill << 8 * c;
            filled |= 0xffu << 8 * c;
        }
        if (job.joint_or_filter >> c & 1) from = from & ~(0xfu << 4 * c) | __popc(job.joint_or_filter & ((1 << c) - 1)) << 4 * c;
    }
    const CudaconvChannel& first = job.channels[0];
    const cudaconv_u64 to = output_at(first, x, y);
#pragma unroll
    for (int h = 0; h < ROWS; ++h)
        if (h < count) write_sample(to + h * first.output_stride, __byte_perm(means[h], wholes[h] & ~filled | fill, from));
}

// Writes pixels of three bytes of each lane, one below the other: `count` rows of 32 from `to` on, word by word.
template <int ROWS>
DEVICE void write_triples(cudaconv_u64 to, u32 stride, int count, const u32 (&means)[ROWS]) {
    // The bytes of a lane's word begin in the pixel of lane `own`.
    const int byte = lane() * 4, own = byte / CHANNELS;
#pragma unroll
    for (int h = 0; h < ROWS; ++h) {
        const u32 low = __shfl_sync(0xffffffff, means[h], own), high = __shfl_sync(0xffffffff, means[h], own + 1);
        const u32 word = __funnelshift_r(low & 0xffffff | high << 24, high << 8 >> 16, byte % CHANNELS * 8);
        if (h < count && byte < WIDTH * CHANNELS) write_sample(to + byte + h * stride, word);
    }
}

// The same of any pixels, of which what is not filtered is read again.
template <int ROWS>
DEVICE void write_samples(const CudaconvFrame& frame, const CudaconvJob& job, int x, int y, int count, u32 (&means)[ROWS]) {
#pragma unroll 1
    for (int h = 0; h < count; ++h) {
        u32 left = means[0];
#pragma unroll 1
        for (u32 c = 0; c < job.channel_count; ++c) {
            const CudaconvChannel& channel = job.channels[c];
            if (!(job.joint_or_filter >> c & 1)) {
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

// --- A block -------------------------------------------------------------------------------------

// The tile of a block, in the row `tile_row` of the grid.
struct Tile {
    const CudaconvJob& job;
    int x0, y0;

    __device__ __forceinline__ Tile(const CudaconvFrame& frame, u32 tile_row)
        : job(frame.jobs[job_of(frame, tile_row)]), x0(blockIdx.x * WIDTH), y0((tile_row - job.first_tile_row) * Block::HEIGHT) {}

    // Of the column of pixels of a thread.
    __device__ __forceinline__ int x() const { return x0 + lane(); }
    __device__ __forceinline__ int y() const { return y0 + threadIdx.x / WARP * Block::ROWS; }
    __device__ __forceinline__ int count() const {
        return x() < static_cast<int>(job.width) ? min(static_cast<int>(job.height) - y(), Block::ROWS) : 0;
    }
};

// Sums of the outputs of a thread, and all that was read of their pixels where it is kept. False where there is nothing
// to write.
template <typename Way>
DEVICE bool filter_tile(const CudaconvBilateralLaunch& launch, JointSums (&sums)[Way::ROWS], u32 (&wholes)[Way::ROWS]) {
    __shared__ Positions positions;
    const CudaconvFrame& frame = launch.frame;
    const Tile place(frame, blockIdx.y);
    const CudaconvJob& job = place.job;
    if (blockIdx.x >= job.tiles_across) return false;
    if (!job.joint_or_filter) return true;
    const bool words = has_words(job);
    const Joint joint(job.joint_or_filter);
    auto* tile = Way::tile(launch);
    const int left = Way::halo(launch.radius_x), above = Way::halo(launch.radius_y), pitch = WIDTH + 2 * left;
    const int first_x = place.x0 - left, first_y = place.y0 - above;
    if (!load_at_once(tile, job, joint, words, first_x, first_y)) {
        positions.find(frame, job, first_x, first_y);
        Way::load_exponents(launch);
        __syncthreads();
        load_pixels<Way>(tile, pitch, Way::HEIGHT + 2 * above, positions, job, joint, words);
    }
    __syncthreads();
    if (place.count() <= 0) return false;
    const auto* own = tile + (threadIdx.x / WARP * Way::ROWS + above) * pitch + lane() + left;
    u32 centres[Way::ROWS];
    Way way;
    way.scale = launch.color_root;
    add_window(way, sums, centres, own, pitch, launch, Way::exponents(launch));
#pragma unroll
    for (int h = 0; h < Way::ROWS; ++h) wholes[h] = Way::whole(own[h * pitch]);
    return true;
}

template <typename Way>
DEVICE void write_tile(const CudaconvBilateralLaunch& launch, const JointSums (&sums)[Way::ROWS], u32 (&wholes)[Way::ROWS]) {
    // Asked for, and the tile found once more, so that no register holds any of it across the window.
    u32 tile_row;
    asm volatile("mov.u32 %0, %%ctaid.y;" : "=r"(tile_row));
    const Tile place(launch.frame, tile_row);
    const CudaconvJob& job = place.job;
    const int x = place.x(), y = place.y(), count = place.count();
    // Code values of the three, packed.
    u32 means[Way::ROWS];
    if (job.joint_or_filter) {
        const Means of(job, Joint(job.joint_or_filter));
#pragma unroll
        for (int h = 0; h < Way::ROWS; ++h) means[h] = of.of(sums[h]);
    }
    if (has_triples(job) && place.x0 + WIDTH <= static_cast<int>(job.width)) {
        const CudaconvChannel& first = job.channels[0];
        write_triples(output_at(first, place.x0, y), first.output_stride, count, means);
        return;
    }
    if (!has_words(job)) {
        write_samples(launch.frame, job, x, y, count, means);
        return;
    }
    if (!job.joint_or_filter || !Way::WHOLE_WORDS) {
        const CudaconvChannel& first = job.channels[0];
#pragma unroll
        for (int h = 0; h < Way::ROWS; ++h)
            if (h < count) wholes[h] = read_sample<u32>(input_at(first, x, y) + h * first.input_stride);
    }
    write_words(job, x, y, count, means, wholes);
}

template <typename Way>
DEVICE void joint(const CudaconvBilateralLaunch& launch) {
    JointSums sums[Way::ROWS];
    u32 wholes[Way::ROWS];
    if (filter_tile<Way>(launch, sums, wholes)) write_tile<Way>(launch, sums, wholes);
}

// Blocks of a multiprocessor: as many as have room in its registers.
#ifdef BILATERAL_JOINT_U8
KERNEL(bilateral_joint_u8, CudaconvBilateralLaunch, (Block::THREADS, 6), joint<Apart>(launch))
#endif
#ifdef BILATERAL_JOINT_WIDE_U8
KERNEL(bilateral_joint_wide_u8, CudaconvBilateralLaunch, (Block::THREADS, 8), joint<Packed>(launch))
#endif
