// Correlation with kernels of rank 1 up to 33 + 33 taps, of samples of 8 and 16 bits, in float32.
//
// Bytes: each sample read once and written once; at 4.3 TB/s 1 µs for 1080p GRAY8, 4 for RGBA, 15 for 4K RGBA.
// Operations: width + height FMAs per sample, and about 20 other instructions for its conversion, for what goes to
// shared memory and comes back, for rounding and for addresses; across, that is done for the rows around a tile as
// well. Bound by issue, 132 * 4 instructions for 32 samples each per cycle, of which 85 in 100 are used: with 15 + 15
// taps, at 1.98 GHz, 54 instructions and 53 µs for 4K RGBA. Pictures that do not fill the device wait instead: for
// the launch, for the first slab, and at each barrier.
//
// A block goes down a strip of 128 samples (pixels times interleaved channels), 16 rows (a slab) at a time:
// 1. what was read of a slab is put into shared memory, channels apart, and the next one is asked for;
// 2. across: a thread sums 16 samples of a row of one channel from a window in registers;
// 3. down: a thread sums 16 rows of one column, of whose sums each is read once and belongs to all results
//    that are under way; sums of the slab before are still there;
// 4. results, channels together again, are written in whole pieces while the next slab is summed across.
// Weights are in the constant bank of the launch, those of a job behind the others', from where they go to uniform
// registers, which multiply-adds take as operands.
//
// Of packed 4:2:2 the strip is 64 samples of luma and 32 of U and of V. What a filter says in distances takes half as
// many taps of chroma across: these have code and weights of their own, of which whole warps take one or the other.
//
// Code values are taken as the floats whose bits they are, denormal numbers: no conversion. Weights across are 2^117
// times, those down 2^24 times as large as they are, so all but the unit of a code value, 2^-141, is as in the
// canonical evaluation, bit by bit; the host sees to it that nothing under- or overflows. A divisor that is a
// power of two is in the weights down.
#include "slabs_reading.cuh"

// --- Across --------------------------------------------------------------------------------------

// Floats of a line of weights.
constexpr int line(int radius) { return rounded_up(2 * radius + 1, 4); }

// The code value `index` of a word, UNIT times as large.
DEVICE float value_of(u8, u32 word, int index) { return __uint_as_float(__byte_perm(word, 0, 0x4404 | index << 4)); }
DEVICE float value_of(u16, u32 word, int index) {
    return __uint_as_float(__byte_perm(word, 0, index == 0 ? 0x4104 : 0x4324));
}

// What a thread sums: OWN samples of a row of every slab.
template <typename S>
struct Across {
    u32 from, to;  // in Shared: the window's samples; the sums in the first slab
    float base;    // the zero level, as values are
    u32 slabs;     // how many

    __device__ __forceinline__ Across(Shared<S>& shared, const Tile<S>& tile, u32 inputs) {
        const u32 row = threadIdx.x % ROWS, column = threadIdx.x / ROWS * OWN, c = tile.channel_of(column);
        const u32 window = tile.begin(c) + (tile.times(c) - 1) * S::HALO + tile.sample_of(column);
        from = Shared<S>::SAMPLES + row * S::PITCH + window * S::SIZE;
        to = (row * S::SUMS + column) * sizeof(float);
        base = 0.0f;
        slabs = 0;
        if (tile.is_filtered(c)) {
            base = __fmul_rn(tile.of(c).zero, __uint_as_float(UNIT));
            slabs = inputs;
        }
        keep(shared, from), keep(shared, to), keep(shared, base), keep(shared, slabs);
    }
};

template <typename S>
using Totals = float[S::KERNELS][S::AT_ONCE];

// Adds what the samples of words `words`, the first of them sample `first` of the window, are to sums.
template <typename S, int RADIUS, int COUNT>
DEVICE void add_across(Totals<S>& totals, const u32 (&words)[COUNT], int first, float base, const float* weights) {
    constexpr int PER_WORD = 4 / S::SIZE;
#pragma unroll
    for (int m = 0; m < COUNT * PER_WORD; ++m) {
        const int k = first + m;
        if (k < 0 || k >= S::AT_ONCE + 2 * RADIUS) continue;
        const float value = value_of(typename S::Sample(), words[m / PER_WORD], m % PER_WORD) - base;
#pragma unroll
        for (int count = 0; count < S::KERNELS; ++count)
#pragma unroll
            for (int p = 0; p < S::AT_ONCE; ++p) {
                const int i = k - p;
                float& total = totals[count][p];
                if (i >= 0 && i <= 2 * RADIUS)
                    total = fmaf(weights[count * 2 * line(RADIUS) + i], value, i == 0 ? 0.0f : total);
            }
    }
}

// Sums AT_ONCE samples across, from sample `half` * AT_ONCE of the thread's on.
template <typename S, int RADIUS>
DEVICE void sum_across(Totals<S>& totals, Shared<S>& shared, const Across<S>& across, int half,
                       const float* weights) {
    constexpr int PER_WORD = 4 / S::SIZE, WORDS = (S::AT_ONCE + 2 * S::HALO) / PER_WORD;
    const u32 from = across.from + half * S::AT_ONCE * S::SIZE;
    if constexpr (S::AT_ONCE * S::SIZE % 16 == 0) {
#pragma unroll
        for (int n = 0; n < WORDS; n += 4) {
            const uint4 four = shared.template at<uint4>(from)[n / 4];
            const u32 words[4] = {four.x, four.y, four.z, four.w};
            add_across<S, RADIUS>(totals, words, n * PER_WORD - S::HALO + RADIUS, across.base, weights);
        }
    } else {
#pragma unroll
        for (int n = 0; n < WORDS; n += 2) {
            const uint2 two = shared.template at<uint2>(from)[n / 2];
            const u32 words[2] = {two.x, two.y};
            add_across<S, RADIUS>(totals, words, n * PER_WORD - S::HALO + RADIUS, across.base, weights);
        }
    }
}

// Puts sums of a slab to place `place` among the slabs of sums.
template <typename S>
DEVICE void put(Shared<S>& shared, const Totals<S>& totals, const Across<S>& across, int half, int place) {
    constexpr u32 SLAB = sizeof(float) * ROWS * S::SUMS;
#pragma unroll
    for (int count = 0; count < S::KERNELS; ++count) {
        const u32 begin = across.to + half * S::AT_ONCE * static_cast<u32>(sizeof(float));
        float4* to = shared.template at<float4>(begin + place * SLAB + count * S::SLABS * SLAB);
        const float* total = totals[count];
#pragma unroll
        for (int p = 0; p < S::AT_ONCE; p += 4)
            to[p / 4] = make_float4(total[p], total[p + 1], total[p + 2], total[p + 3]);
    }
}

// --- Down ----------------------------------------------------------------------------------------

// What a thread sums: a column of every slab.
template <typename S>
struct Down {
    u32 to;  // in Shared: the column's first result
    float offset;
    u32 slabs;  // how many

    __device__ __forceinline__ Down(Shared<S>& shared, const Tile<S>& tile, u32 outputs) {
        const int column = threadIdx.x, c = tile.channel_of(column), sample = tile.sample_of(column);
        to = Shared<S>::RESULTS + (sample * tile.channels / tile.times(c) + tile.place(c)) * S::SIZE;
        offset = 0.0f;
        slabs = 0;
        if (tile.is_filtered(c) && !tile.is_spare(c, tile.x0 * tile.times(c) + sample)) {
            offset = tile.of(c).offset;
            slabs = outputs;
        }
        keep(shared, to), keep(shared, offset), keep(shared, slabs);
    }
};

// The code value nearest to `value`, halves to even.
DEVICE u32 rounded(u8, float value, float) {
    u32 code;
    asm("cvt.rni.sat.u8.f32 %0, %1;" : "=r"(code) : "f"(value));
    return code;
}
DEVICE u32 rounded(u16, float value, float max_code) {
    u16 code;
    asm("cvt.rni.sat.u16.f32 %0, %1;" : "=h"(code) : "f"(fminf(value, max_code)));
    return code;
}

// As sample_of, without a choice.
template <typename Sample>
DEVICE Sample encoded(const CudaconvFrame& frame, u32 code) {
    if (sizeof(Sample) == 1) return code;
    return __byte_perm(code << frame.shift, 0, frame.sample == CUDACONV_U16_BE ? 0x4401 : 0x4410);
}

// Sums AT_ONCE rows down, from row `half` * AT_ONCE of the slab on whose sums across begin in place `place`.
template <typename S, int RADIUS>
DEVICE void sum_down(Totals<S>& totals, Shared<S>& shared, int place, int half, const float* weights) {
    // Rows of sums are in order for as many as a place begins with, in units of AT_ONCE.
    constexpr int UNITS = ROWS / S::AT_ONCE, COUNT = 1 + (2 * RADIUS + S::AT_ONCE - 1) / S::AT_ONCE;
    const float* from[COUNT];
    int unit = place * UNITS + half;
#pragma unroll
    for (int n = 0; n < COUNT; ++n) {
        from[n] = shared.sums[0][unit * S::AT_ONCE] + threadIdx.x;
        unit = unit + 1 == S::SLABS * UNITS ? 0 : unit + 1;
    }
#pragma unroll
    for (int count = 0; count < S::KERNELS; ++count)
#pragma unroll
        for (int y = 0; y < S::AT_ONCE + 2 * RADIUS; ++y) {
            const float sum = from[y / S::AT_ONCE][(count * S::SLABS * ROWS + y % S::AT_ONCE) * S::SUMS];
#pragma unroll
            for (int o = 0; o < S::AT_ONCE; ++o) {
                const int j = y - o;
                float& total = totals[count][o];
                if (j >= 0 && j <= 2 * RADIUS)
                    total = fmaf(weights[(2 * count + 1) * line(RADIUS) + j], sum, j == 0 ? 0.0f : total);
            }
        }
}

// Makes sums results.
template <typename S>
DEVICE void finish(Shared<S>& shared, Totals<S>& totals, const Down<S>& down, int half, const Tile<S>& tile,
                   const CudaconvConvolveLaunch& launch) {
    using Sample = typename S::Sample;
    const bool power_of_two = (__float_as_uint(launch.divisor) & 0x7fffff) == 0;
    if (S::KERNELS == 2) {
#pragma unroll
        for (int o = 0; o < S::AT_ONCE; ++o) totals[0][o] = magnitude(totals[0][o], totals[S::KERNELS - 1][o]);
    }
    if (!power_of_two || S::KERNELS == 2) {
        // From where no product can be formed of it before it is known that it is needed.
        const float reciprocal = *static_cast<const volatile float*>(&shared.reciprocal);
#pragma unroll
        for (int o = 0; o < S::AT_ONCE; ++o) totals[0][o] = divided(launch.divisor, reciprocal, totals[0][o]);
    }
    Sample* to = shared.template at<Sample>(down.to) + half * S::AT_ONCE * THREADS;
#pragma unroll
    for (int o = 0; o < S::AT_ONCE; ++o)
        to[o * THREADS] =
            encoded<Sample>(tile.frame, rounded(Sample(), totals[0][o] + down.offset, tile.frame.max_code));
}

// Copies or fills a column of a slab.
template <typename S>
DEVICE void pass_down(Shared<S>& shared, u32 to, const Tile<S>& tile, int slab) {
    using Sample = typename S::Sample;
    const int column = threadIdx.x, c = tile.channel_of(column), x = tile.x0 * tile.times(c) + tile.sample_of(column);
    const int y = tile.y0 + slab * ROWS, last = tile.height() - 1 - y;
    const bool spare = tile.is_spare(c, x);
    if (c >= tile.lines() || (tile.is_filtered(c) && !spare) || x >= tile.width() * tile.times(c) || last < 0) return;
    const CudaconvChannel& channel = tile.of(c);
    const cudaconv_u64 from = input_at(channel, x, y);
#pragma unroll
    for (int half = 0; half < ROWS; half += ROWS / 2) {
        Sample samples[ROWS / 2];
#pragma unroll
        for (int o = 0; o < ROWS / 2; ++o) {
            samples[o] = sample_of<Sample>(tile.frame, channel.fill);
            if (channel.action == CUDACONV_COPY || spare)
                samples[o] = read_sample<Sample>(from + static_cast<u32>(min(half + o, last)) * channel.input_stride);
        }
#pragma unroll
        for (int o = 0; o < ROWS / 2; ++o) shared.template at<Sample>(to)[(half + o) * THREADS] = samples[o];
    }
}

// --- A tile --------------------------------------------------------------------------------------

// Some radii, of which the launch says which one.
template <int... RADII>
struct Radii {
    static constexpr int LARGEST = 0;
};
template <int RADIUS, int... OTHERS>
struct Radii<RADIUS, OTHERS...> {
    using Next = Radii<OTHERS...>;
    static constexpr int LARGEST = RADIUS > Next::LARGEST ? RADIUS : Next::LARGEST;

    template <typename S>
    static __device__ __forceinline__ void across(Totals<S>& totals, Shared<S>& shared, const Across<S>& own, int half,
                                                  int radius, const float* weights) {
        if (sizeof...(OTHERS) > 0 && radius != RADIUS) {
            if constexpr (sizeof...(OTHERS) > 0) Next::across(totals, shared, own, half, radius, weights);
        } else {
            sum_across<S, RADIUS>(totals, shared, own, half, weights);
        }
    }

    template <typename S>
    static __device__ __forceinline__ void down(Totals<S>& totals, Shared<S>& shared, int place, int half, int radius,
                                                const float* weights) {
        if (sizeof...(OTHERS) > 0 && radius != RADIUS) {
            if constexpr (sizeof...(OTHERS) > 0) Next::down(totals, shared, place, half, radius, weights);
        } else {
            sum_down<S, RADIUS>(totals, shared, place, half, weights);
        }
    }
};

template <int... RADII>
DEVICE constexpr int count_of(Radii<RADII...>) { return sizeof...(RADII); }

template <typename R, typename S>
DEVICE void filter(Shared<S>& shared, const Tile<S>& tile, const CudaconvConvolveLaunch& launch) {
    int outputs = slabs_of(tile.rows), inputs = tile.filters ? slabs_of(tile.rows + 2 * tile.radius) : 0;
    keep(shared, outputs), keep(shared, inputs);
    const Runs<S> runs(shared, tile);
    const Across<S> across(shared, tile, inputs);
    const Down<S> down(shared, tile, outputs);
    const Pieces<S> pieces(shared, tile);
    if (threadIdx.x == 0) shared.reciprocal = launch.reciprocal;
    // Whether the thread sums chroma across, whose weights are others than luma's.
    const bool chroma = S::IS_422 && launch.kernels[1].width != 0 && tile.channel_of(threadIdx.x / ROWS * OWN) != 2;
    Held<S> held;
    int place = -1;  // of the sums of this slab
#pragma unroll 1
    for (int slab = -1; slab <= outputs + S::BEHIND; ++slab) {
        if (slab >= 0 && slab < inputs) stage(shared, held, tile, runs, slab);
        if (slab + 1 < inputs && tile.aligned_input) fetch(held, tile, runs, slab + 1);
        if (slab < 0) continue;
        __syncthreads();
        place = place + 1 == S::SLABS ? 0 : place + 1;
        if (slab > S::BEHIND) write(shared, tile, pieces, slab - S::BEHIND - 1);
        if (static_cast<u32>(slab) < across.slabs) {
#pragma unroll 1
            for (int half = 0; half < OWN / S::AT_ONCE; ++half) {
                Totals<S> totals;
                if (chroma)
                    sum_across<S, (R::LARGEST + 1) / 2>(totals, shared, across, half,
                                                        launch.inline_weights + CUDACONV_CHROMA_WEIGHTS);
                else
                    R::across(totals, shared, across, half, tile.radius, tile.weights);
                put(shared, totals, across, half, place);
            }
        }
        __syncthreads();
        const u32 complete = slab - S::BEHIND;
        if (complete < down.slabs) {
#pragma unroll 1
            for (int half = 0; half < ROWS / S::AT_ONCE; ++half) {
                Totals<S> totals;
                R::down(totals, shared, place + 1 == S::SLABS ? 0 : place + 1, half, tile.radius, tile.weights);
                finish(shared, totals, down, half, tile, launch);
            }
        } else if (tile.passes && complete < static_cast<u32>(outputs))
            pass_down(shared, down.to, tile, complete);
    }
}

template <typename Sample, int COUNT, bool IS_422, typename R>
DEVICE void separable(const CudaconvConvolveLaunch& launch) {
    using S = Shape<Sample, R::LARGEST, COUNT, IS_422>;
    __shared__ Shared<S> shared;
    const CudaconvFrame& frame = launch.frame;
    const CudaconvJob& job = frame.jobs[job_of(frame, blockIdx.y)];
    if (blockIdx.x >= job.tiles_across) return;
    // All channels of a packed job at once, else one after the other.
    const int channels = IS_422 ? CUDACONV_CHANNELS : job.packed ? job.channel_count : 1;
    const int pixels = channels == 3 ? pixels_of(3) : THREADS / channels;
    const int y0 = (blockIdx.y - job.first_tile_row) * frame.tile_height;
    const int rows = min(static_cast<int>(frame.tile_height), static_cast<int>(job.height) - y0);
    // Where the job's weights begin, with a line of fours, in kernels that `Kernel::takes_filters_of_jobs` names. Those of
    // many taps or of several radii have no registers for addresses that are not known beforehand.
    constexpr bool OF_JOBS = count_of(R()) == 1 && R::LARGEST <= 8 && COUNT == 1 && !IS_422;
    const u32 first = OF_JOBS ? launch.kernels[job.joint_or_filter].first / 4 * 4 : 0;
    const float* weights = launch.inline_weights + first;
    Tile<S> tile = {frame, job, weights, static_cast<int>(launch.kernels[0].width / 2), 0, channels,
                    static_cast<int>(blockIdx.x) * pixels, y0, rows, pixels, (static_cast<int>(job.width) + 1) / 2};
#pragma unroll 1
    for (; tile.channel < static_cast<int>(job.channel_count); tile.channel += channels) {
        tile.look();
        filter<R>(shared, tile, launch);
        __syncthreads();
    }
}

// Blocks of a multiprocessor as they were fastest on an H200.
#ifdef SEPARABLE_U8_R4
KERNEL(separable_u8_r4, CudaconvConvolveLaunch, (THREADS, 6), separable<u8, 1, false, Radii<2, 3, 4>>(launch))
#endif
#ifdef SEPARABLE_U8_R7
KERNEL(separable_u8_r7, CudaconvConvolveLaunch, (THREADS, 8), separable<u8, 1, false, Radii<7>>(launch))
#endif
#ifdef SEPARABLE_U8_R8
KERNEL(separable_u8_r8, CudaconvConvolveLaunch, (THREADS, 7), separable<u8, 1, false, Radii<8>>(launch))
#endif
#ifdef SEPARABLE_U8_R16
KERNEL(separable_u8_r16, CudaconvConvolveLaunch, (THREADS, 5), separable<u8, 1, false, Radii<16>>(launch))
#endif
#ifdef SEPARABLE_MAGNITUDE_U8
KERNEL(separable_magnitude_u8, CudaconvConvolveLaunch, (THREADS, 5), separable<u8, 2, false, Radii<1>>(launch))
#endif
#ifdef SEPARABLE_U16_R4
KERNEL(separable_u16_r4, CudaconvConvolveLaunch, (THREADS, 6), separable<u16, 1, false, Radii<4>>(launch))
#endif
#ifdef SEPARABLE_U16_R8
KERNEL(separable_u16_r8, CudaconvConvolveLaunch, (THREADS, 6), separable<u16, 1, false, Radii<8>>(launch))
#endif
#ifdef SEPARABLE_U16_R16
KERNEL(separable_u16_r16, CudaconvConvolveLaunch, (THREADS, 4), separable<u16, 1, false, Radii<16>>(launch))
#endif
#ifdef SEPARABLE_422_R4
KERNEL(separable_422_r4, CudaconvConvolveLaunch, (THREADS, 6), separable<u8, 1, true, Radii<4>>(launch))
#endif
#ifdef SEPARABLE_422_R8
KERNEL(separable_422_r8, CudaconvConvolveLaunch, (THREADS, 7), separable<u8, 1, true, Radii<8>>(launch))
#endif
#ifdef SEPARABLE_422_R16
KERNEL(separable_422_r16, CudaconvConvolveLaunch, (THREADS, 5), separable<u8, 1, true, Radii<16>>(launch))
#endif
