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
// Weights are in the constant bank of the launch, where multiply-adds take them as operands.
//
// Code values are taken as the floats whose bits they are, denormal numbers: no conversion. Weights across are 2^117
// times, those down 2^24 times as large as they are, so all but the unit of a code value, 2^-141, is as in the
// canonical evaluation, bit by bit; the host sees to it that nothing under- or overflows. A divisor that is a
// power of two is in the weights down.
#include "common.cuh"

constexpr int THREADS = 128;
// Rows of a slab, and samples of a row that a thread sums.
constexpr int ROWS = 16, OWN = 16;
// Pixels that are read at once, and bytes that are written at once.
constexpr int RUN = 8, PIECE = 16;
// The bits of the float that stands for the code value 1.
constexpr u32 UNIT = 1u << 8;

constexpr int rounded_up(int value, int unit) { return (value + unit - 1) / unit * unit; }

// The host's rule: pixels of a tile by the number of interleaved channels, in whole runs of OWN.
constexpr int pixels_of(int channels) { return channels == 3 ? 32 : THREADS / channels; }

template <int SIZE>
struct RunOf {
    using Type = uint2;
};
template <>
struct RunOf<2> {
    using Type = uint4;
};

// For samples of a type, radii up to a largest, and one kernel or the magnitude of two.
template <typename SAMPLE, int LARGEST, int COUNT>
struct Shape {
    using Sample = SAMPLE;
    static constexpr int KERNELS = COUNT;
    static constexpr int SIZE = sizeof(Sample);
    // Of a run of one channel, and what is read at once of interleaved ones.
    using Run = typename RunOf<SIZE>::Type;
    // Pixels beside a tile that are loaded.
    static constexpr int HALO = rounded_up(LARGEST, RUN);
    // Slabs of sums behind the first that a slab of results needs.
    static constexpr int BEHIND = rounded_up(2 * LARGEST, ROWS) / ROWS;
    static constexpr int SLABS = 1 + BEHIND;
    // Samples of a row, or rows, that are summed at once: all of a thread, or half of them to keep programs small.
    static constexpr int AT_ONCE = LARGEST <= 8 ? OWN : OWN / 2;
    // Bytes of a row of samples: an odd number of 16, for the rows of a slab to begin in different banks.
    static constexpr int PITCH = (THREADS + 2 * HALO * CUDACONV_CHANNELS) * SIZE / 32 * 32 + 16;
    // Floats of a row of sums, for the same reason.
    static constexpr int SUMS = THREADS + 4;
    // Bytes of a row of results.
    static constexpr int RESULTS = THREADS * SIZE;
};

template <typename S>
struct Shared {
    float sums[S::KERNELS][S::SLABS * ROWS][S::SUMS];
    uint4 samples[ROWS][S::PITCH / 16];
    uint4 nothing[S::PITCH / 16];  // where runs are put that there are not
    uint4 results[ROWS][S::RESULTS / PIECE];
    float reciprocal;  // of the divisor

    static constexpr u32 SAMPLES = sizeof(sums), NOTHING = SAMPLES + sizeof(samples);
    static constexpr u32 RESULTS = NOTHING + sizeof(nothing);

    // What is so many bytes from the beginning.
    template <typename Value>
    __device__ __forceinline__ Value* at(u32 offset) {
        return reinterpret_cast<Value*>(reinterpret_cast<char*>(this) + offset);
    }
    template <typename Value>
    __device__ __forceinline__ Value* row_of_samples(int row) {
        return at<Value>(SAMPLES + row * S::PITCH);
    }
};

// Keeps a value in a register that the assembler would compute anew each time, as it cannot know what it reads here.
template <typename S, typename Value>
DEVICE void keep(Shared<S>& shared, Value& value) {
    volatile Value* own = reinterpret_cast<Value*>(shared.results[0]) + threadIdx.x;
    *own = value;
    value = *own;
}

// What a block computes: pixels from x0 on of `channels` interleaved channels, the first of them `channel`, of
// `rows` rows from y0 on.
template <typename S>
struct Tile {
    const CudaconvFrame& frame;
    const CudaconvJob& job;
    int radius;
    int channel, channels;
    int x0, y0;
    int rows, pixels;
    bool filters;         // any channel at all
    bool passes;          // some are copied or filled
    bool aligned_input;   // runs are read at once
    bool aligned_output;  // pieces are written at once
    bool edge;            // some of what is loaded may lie beyond an edge, or is not read in runs
    bool ragged;          // some results do not fill pieces, or are not written in pieces

    __device__ __forceinline__ const CudaconvChannel& first() const { return job.channels[channel]; }
    __device__ __forceinline__ int width() const { return job.width; }
    __device__ __forceinline__ int height() const { return job.height; }
    __device__ __forceinline__ int row_bytes() const { return width() * channels * S::SIZE; }
    // Samples of a row of a channel that are loaded.
    __device__ __forceinline__ int loaded() const { return pixels + 2 * S::HALO; }
    __device__ __forceinline__ bool is_filtered(int c) const {
        return c < channels && job.channels[channel + c].action == CUDACONV_FILTER;
    }
    // Of which channel the tile's sample `column` is, those of a channel standing side by side.
    __device__ __forceinline__ int channel_of(int column) const { return column >> (31 - __clz(pixels)); }
    // The row of the picture that is row `row` of those that are read, or BEYOND.
    __device__ __forceinline__ int position(int row) const {
        return border_position(frame.border, y0 - radius + row, height());
    }
    // The same, or another row where that is BEYOND.
    __device__ __forceinline__ u32 readable(int row) const {
        const int y = y0 - radius + row, nearest = min(max(y, 0), height() - 1);
        return y == nearest || frame.border == CUDACONV_REPLICATE ? nearest : max(position(row), 0);
    }

    // Sets what is known of `channels` channels from `channel` on.
    __device__ __forceinline__ void look() {
        filters = passes = false;
#pragma unroll
        for (int c = 0; c < CUDACONV_CHANNELS; ++c) {
            if (c >= channels) break;
            filters |= is_filtered(c), passes |= !is_filtered(c);
        }
        const CudaconvChannel& one = first();
        // There are no formats of three words.
        const bool dense = one.step == static_cast<u32>(channels) * S::SIZE && !(S::SIZE == 2 && channels == 3);
        aligned_input = dense && (one.input | one.input_stride) % (RUN * S::SIZE) == 0;
        aligned_output = dense && (one.output | one.output_stride) % PIECE == 0;
        const bool inside = x0 >= S::HALO && x0 + pixels + S::HALO <= width();
        edge = !aligned_input || !inside || frame.border == CUDACONV_CONSTANT;
        ragged = !aligned_output || x0 + pixels > width();
    }
};

// Slabs that hold so many rows.
DEVICE u32 slabs_of(int rows) { return rows <= 0 ? 0u : static_cast<u32>(rows + ROWS - 1) / ROWS; }

// --- Reading -------------------------------------------------------------------------------------

// What a thread reads of every slab: of one channel three runs, of two channels two, of three or four channels one.
// A run has as many parts as there are channels.
template <typename S>
struct Runs {
    u32 offset[CUDACONV_CHANNELS];  // of the parts from the first sample of the slab's first row; 0: there is none
    u32 to[3];                      // where in Shared the runs begin

    static constexpr int across(int channels) { return (pixels_of(channels) + 2 * S::HALO) / RUN; }
    static constexpr int turns(int channels) { return (across(channels) * ROWS + THREADS - 1) / THREADS; }
    // 2^16 / across, rounded up: exact divisions of the few numbers of runs.
    static constexpr u32 inverse(int channels) { return (65535 + across(channels)) / across(channels); }

    static __device__ __forceinline__ int turn_of(int channels, int n) {
        return channels == 1 ? n : channels == 2 ? n / 2 : 0;
    }
    // The row of a slab in which a thread's run of a turn lies.
    static __device__ __forceinline__ int row_of(int channels, int turn) {
        const u32 factor = channels == 1 ? inverse(1)
                         : channels == 2 ? inverse(2)
                         : channels == 3 ? inverse(3)
                                         : inverse(4);
        return (turn * THREADS + threadIdx.x) * factor >> 16;
    }

    __device__ __forceinline__ Runs(Shared<S>& shared, const Tile<S>& tile) {
        static_assert(turns(1) <= 3 && turns(2) <= 2 && turns(3) == 1 && turns(4) == 1, "as many as there is room for");
        const int channels = tile.channels, across = tile.loaded() / RUN;
#pragma unroll
        for (int n = 0; n < CUDACONV_CHANNELS; ++n) {
            const int turn = turn_of(channels, n), part = n - turn * channels, row = row_of(channels, turn);
            const int pixel = (turn * THREADS + static_cast<int>(threadIdx.x) - row * across) * RUN;
            const int byte = ((tile.x0 - S::HALO + pixel) * channels + part * RUN) * S::SIZE;
            const bool there = row < ROWS && part < channels;
            const bool inside = there && byte >= 0 && byte < tile.row_bytes();
            offset[n] = inside ? row * tile.first().input_stride + byte : 0;
            const u32 place = there ? Shared<S>::SAMPLES + row * S::PITCH + pixel * S::SIZE : Shared<S>::NOTHING;
            if (n == 0 || (n < 3 && channels == 1)) to[n] = place;
            if (n == 2 && channels == 2) to[1] = place;
            keep(shared, offset[n]);
        }
#pragma unroll
        for (int n = 0; n < 3; ++n) keep(shared, to[n]);
    }
};

template <typename S>
using Held = typename S::Run[CUDACONV_CHANNELS];

// Asks for a slab. Parts that there are not are read from where something is.
template <typename S>
DEVICE void fetch(Held<S>& held, const Tile<S>& tile, const Runs<S>& runs, int slab) {
    const cudaconv_u64 input = tile.first().input;
    const u32 stride = tile.first().input_stride;
    const int top = tile.y0 - tile.radius + slab * ROWS;
    if (top >= 0 && top + ROWS <= tile.height()) {
        const cudaconv_u64 from = input + static_cast<cudaconv_u64>(top) * stride;
#pragma unroll
        for (int n = 0; n < CUDACONV_CHANNELS; ++n) held[n] = read_sample<typename S::Run>(from + runs.offset[n]);
        return;
    }
#pragma unroll
    for (int n = 0; n < CUDACONV_CHANNELS; ++n) {
        const int turn = Runs<S>::turn_of(tile.channels, n);
        const int row = runs.offset[n] == 0 ? 0 : Runs<S>::row_of(tile.channels, turn);
        const cudaconv_u64 from = input + static_cast<cudaconv_u64>(tile.readable(slab * ROWS + row)) * stride;
        held[n] = read_sample<typename S::Run>(from + (runs.offset[n] - row * stride));
    }
}

// A run of interleaved channels as one run of each.
DEVICE void take_apart(uint2 (&to)[1], const uint2* from) { to[0] = from[0]; }

DEVICE void take_apart(uint2 (&to)[2], const uint2* from) {
    to[0] = make_uint2(__byte_perm(from[0].x, from[0].y, 0x6420), __byte_perm(from[1].x, from[1].y, 0x6420));
    to[1] = make_uint2(__byte_perm(from[0].x, from[0].y, 0x7531), __byte_perm(from[1].x, from[1].y, 0x7531));
}

DEVICE void take_apart(uint2 (&to)[3], const uint2* from) {
    const u32 words[6] = {from[0].x, from[0].y, from[1].x, from[1].y, from[2].x, from[2].y};
    u32 halves[3][2];
#pragma unroll
    for (int n = 0; n < 2; ++n) {
        const u32 a = words[3 * n], b = words[3 * n + 1], c = words[3 * n + 2];
        halves[0][n] = __byte_perm(__byte_perm(a, b, 0x0630), c, 0x5210);
        halves[1][n] = __byte_perm(__byte_perm(a, b, 0x0741), c, 0x6210);
        halves[2][n] = __byte_perm(__byte_perm(a, b, 0x0052), c, 0x7410);
    }
#pragma unroll
    for (int c = 0; c < 3; ++c) to[c] = make_uint2(halves[c][0], halves[c][1]);
}

DEVICE void take_apart(uint2 (&to)[4], const uint2* from) {
    u32 halves[4][2];
#pragma unroll
    for (int n = 0; n < 2; ++n) {
        const uint2 a = from[2 * n], b = from[2 * n + 1];
        const u32 low0 = __byte_perm(a.x, a.y, 0x5140), high0 = __byte_perm(a.x, a.y, 0x7362);
        const u32 low1 = __byte_perm(b.x, b.y, 0x5140), high1 = __byte_perm(b.x, b.y, 0x7362);
        halves[0][n] = __byte_perm(low0, low1, 0x5410);
        halves[1][n] = __byte_perm(low0, low1, 0x7632);
        halves[2][n] = __byte_perm(high0, high1, 0x5410);
        halves[3][n] = __byte_perm(high0, high1, 0x7632);
    }
#pragma unroll
    for (int c = 0; c < 4; ++c) to[c] = make_uint2(halves[c][0], halves[c][1]);
}

DEVICE void take_apart(uint4 (&to)[1], const uint4* from) { to[0] = from[0]; }

DEVICE u32 first_of(u32 a, u32 b) { return __byte_perm(a, b, 0x5410); }
DEVICE u32 second_of(u32 a, u32 b) { return __byte_perm(a, b, 0x7632); }

DEVICE void take_apart(uint4 (&to)[2], const uint4* from) {
    const uint4 a = from[0], b = from[1];
    to[0] = make_uint4(first_of(a.x, a.y), first_of(a.z, a.w), first_of(b.x, b.y), first_of(b.z, b.w));
    to[1] = make_uint4(second_of(a.x, a.y), second_of(a.z, a.w), second_of(b.x, b.y), second_of(b.z, b.w));
}

DEVICE void take_apart(uint4 (&to)[4], const uint4* from) {
    const uint4 a = from[0], b = from[1], c = from[2], d = from[3];
    to[0] = make_uint4(first_of(a.x, a.z), first_of(b.x, b.z), first_of(c.x, c.z), first_of(d.x, d.z));
    to[1] = make_uint4(second_of(a.x, a.z), second_of(b.x, b.z), second_of(c.x, c.z), second_of(d.x, d.z));
    to[2] = make_uint4(first_of(a.y, a.w), first_of(b.y, b.w), first_of(c.y, c.w), first_of(d.y, d.w));
    to[3] = make_uint4(second_of(a.y, a.w), second_of(b.y, b.w), second_of(c.y, c.w), second_of(d.y, d.w));
}

// Samples become code values.
DEVICE void decode(const CudaconvFrame&, uint2&) {}

DEVICE void decode(const CudaconvFrame& frame, uint4& run) {
    const u32 mask = static_cast<u32>(frame.max_code) * 0x10001u, select = frame.sample == CUDACONV_U16_BE ? 0x2301 : 0x3210;
    const auto decoded = [&](u32 word) { return __byte_perm(word, 0, select) >> frame.shift & mask; };
    run = make_uint4(decoded(run.x), decoded(run.y), decoded(run.z), decoded(run.w));
}

template <typename S, int CHANNELS>
DEVICE void stage(Shared<S>& shared, const Held<S>& held, const Tile<S>& tile, const Runs<S>& runs) {
#pragma unroll
    for (int turn = 0; turn < Runs<S>::turns(CHANNELS); ++turn) {
        typename S::Run of_channels[CHANNELS];
        take_apart(of_channels, held + turn * CHANNELS);
#pragma unroll
        for (int c = 0; c < CHANNELS; ++c) {
            decode(tile.frame, of_channels[c]);
            const int plane = c * Runs<S>::across(CHANNELS) * static_cast<int>(sizeof(typename S::Run));
            *shared.template at<typename S::Run>(runs.to[turn] + plane) = of_channels[c];
        }
    }
}

// The code value of a channel at (x, y), either of which may be BEYOND.
template <typename S>
DEVICE u32 code_at(const Tile<S>& tile, int c, int x, int y) {
    const CudaconvChannel& channel = tile.job.channels[tile.channel + c];
    if (x == BEYOND || y == BEYOND) return static_cast<u32>(channel.beyond + channel.zero);
    return code_of(tile.frame, read_sample<typename S::Sample>(input_at(channel, x, y)));
}

// Gives columns `begin` to `end` - 1 of the loaded ones what the border says.
template <typename S>
DEVICE void gather(Shared<S>& shared, const Tile<S>& tile, int slab, int begin, int end) {
    using Sample = typename S::Sample;
    const int row = threadIdx.x % ROWS, y = tile.position(slab * ROWS + row);
#pragma unroll 1
    for (int column = begin + threadIdx.x / ROWS; column < end; column += THREADS / ROWS) {
        const int x = border_position(tile.frame.border, tile.x0 - S::HALO + column, tile.width());
        // What is in the tile need not be read again.
        const int known = x - tile.x0 + S::HALO;
        const bool is_known = tile.aligned_input && x != BEYOND && known >= 0 && known < tile.loaded();
        Sample* to = shared.template row_of_samples<Sample>(row);
#pragma unroll 1
        for (int c = 0; c < tile.channels; ++c, to += tile.loaded())
            to[column] = is_known ? to[known] : code_at(tile, c, x, y);
    }
}

// Gives what lies beyond the edges, or all where runs were not read, the values that the border says.
template <typename S>
DEVICE void complete(Shared<S>& shared, const Tile<S>& tile, int slab) {
    const int all = tile.loaded(), end = min(tile.width() - tile.x0 + S::HALO, all);
    const int top = tile.y0 - tile.radius + slab * ROWS;
    const bool constant = tile.frame.border == CUDACONV_CONSTANT && (top < 0 || top + ROWS > tile.height());
    if (tile.x0 >= S::HALO && end == all && tile.aligned_input && !constant) return;
    __syncthreads();
#pragma unroll 1
    for (int side = 0; side < 2; ++side) {
        const int left_end = !tile.aligned_input ? end : tile.x0 == 0 ? S::HALO : 0;
        const int begin = side == 1 ? end : tile.aligned_input ? S::HALO - tile.radius : 0;
        const int until = side == 1 ? min(end + tile.radius, all) : left_end;
        gather(shared, tile, slab, begin, until);
    }
    if (!constant) return;
    __syncthreads();
    const int row = threadIdx.x % ROWS;
    if (tile.position(slab * ROWS + row) != BEYOND) return;
    auto* to = shared.template row_of_samples<typename S::Sample>(row);
#pragma unroll 1
    for (int i = threadIdx.x / ROWS; i < all * tile.channels; i += THREADS / ROWS)
        to[i] = code_at(tile, i / all, BEYOND, BEYOND);
}

template <typename S>
DEVICE void stage(Shared<S>& shared, const Held<S>& held, const Tile<S>& tile, const Runs<S>& runs, int slab) {
    if (tile.aligned_input) {
        if (tile.channels == 1)
            stage<S, 1>(shared, held, tile, runs);
        else if (tile.channels == 4)
            stage<S, 4>(shared, held, tile, runs);
        else if (tile.channels == 2)
            stage<S, 2>(shared, held, tile, runs);
        else if constexpr (S::SIZE == 1)
            stage<S, 3>(shared, held, tile, runs);
    }
    if (tile.edge) complete(shared, tile, slab);
}

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
        from = Shared<S>::SAMPLES + row * S::PITCH + (c * tile.loaded() + column - c * tile.pixels) * S::SIZE;
        to = (row * S::SUMS + column) * sizeof(float);
        base = 0.0f;
        slabs = 0;
        if (tile.is_filtered(c)) {
            base = __fmul_rn(tile.job.channels[tile.channel + c].zero, __uint_as_float(UNIT));
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
                       const CudaconvConvolveLaunch& launch) {
    constexpr int PER_WORD = 4 / S::SIZE, WORDS = (S::AT_ONCE + 2 * S::HALO) / PER_WORD;
    const u32 from = across.from + half * S::AT_ONCE * S::SIZE;
    if constexpr (S::AT_ONCE * S::SIZE % 16 == 0) {
#pragma unroll
        for (int n = 0; n < WORDS; n += 4) {
            const uint4 four = shared.template at<uint4>(from)[n / 4];
            const u32 words[4] = {four.x, four.y, four.z, four.w};
            add_across<S, RADIUS>(totals, words, n * PER_WORD - S::HALO + RADIUS, across.base, launch.inline_weights);
        }
    } else {
#pragma unroll
        for (int n = 0; n < WORDS; n += 2) {
            const uint2 two = shared.template at<uint2>(from)[n / 2];
            const u32 words[2] = {two.x, two.y};
            add_across<S, RADIUS>(totals, words, n * PER_WORD - S::HALO + RADIUS, across.base, launch.inline_weights);
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
        const u32 column = threadIdx.x, c = tile.channel_of(column), pixel = column - c * tile.pixels;
        to = Shared<S>::RESULTS + (pixel * tile.channels + c) * S::SIZE;
        offset = 0.0f;
        slabs = 0;
        if (tile.is_filtered(c)) {
            offset = tile.job.channels[tile.channel + c].offset;
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
DEVICE void sum_down(Totals<S>& totals, Shared<S>& shared, int place, int half, const CudaconvConvolveLaunch& launch) {
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
                const float* weights = launch.inline_weights + (2 * count + 1) * line(RADIUS);
                float& total = totals[count][o];
                if (j >= 0 && j <= 2 * RADIUS) total = fmaf(weights[j], sum, j == 0 ? 0.0f : total);
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
    const int column = threadIdx.x, c = tile.channel_of(column), x = tile.x0 + column - c * tile.pixels;
    const int y = tile.y0 + slab * ROWS, last = tile.height() - 1 - y;
    if (c >= tile.channels || tile.is_filtered(c) || x >= tile.width() || last < 0) return;
    const CudaconvChannel& channel = tile.job.channels[tile.channel + c];
    const cudaconv_u64 from = input_at(channel, x, y);
#pragma unroll
    for (int half = 0; half < ROWS; half += ROWS / 2) {
        Sample samples[ROWS / 2];
#pragma unroll
        for (int o = 0; o < ROWS / 2; ++o) {
            samples[o] = sample_of<Sample>(tile.frame, channel.fill);
            if (channel.action == CUDACONV_COPY)
                samples[o] = read_sample<Sample>(from + static_cast<u32>(min(half + o, last)) * channel.input_stride);
        }
#pragma unroll
        for (int o = 0; o < ROWS / 2; ++o) shared.template at<Sample>(to)[(half + o) * THREADS] = samples[o];
    }
}

// --- Writing -------------------------------------------------------------------------------------

// What a thread writes of every slab: in each turn a piece, or the samples that there are of it.
template <typename S>
struct Pieces {
    static constexpr int ACROSS = S::RESULTS / PIECE, SAMPLES = PIECE / S::SIZE;
    static constexpr int TURNS = ACROSS * ROWS / THREADS, ROWS_APART = THREADS / ACROSS;

    u32 offset;  // of the first piece from the first sample of the slab's first row
    u32 slabs;   // how many have it whole

    // Samples that there are from the first of the piece on.
    static __device__ __forceinline__ int left(const Tile<S>& tile) {
        const int pixels = min(tile.pixels, tile.width() - tile.x0);
        return pixels * tile.channels - static_cast<int>(threadIdx.x % ACROSS) * SAMPLES;
    }
    static __device__ __forceinline__ bool is_whole(const Tile<S>& tile) {
        return tile.aligned_output && left(tile) >= SAMPLES;
    }

    __device__ __forceinline__ Pieces(Shared<S>& shared, const Tile<S>& tile) {
        const u32 row = threadIdx.x / ACROSS;
        const u32 sample = tile.x0 * tile.channels + threadIdx.x % ACROSS * SAMPLES;
        offset = row * tile.first().output_stride + sample * S::SIZE;
        slabs = is_whole(tile) ? slabs_of(tile.rows - static_cast<int>(row)) : 0;
        keep(shared, offset), keep(shared, slabs);
    }
};

template <typename S>
DEVICE void write(const Shared<S>& shared, const Tile<S>& tile, const Pieces<S>& own, u32 slab) {
    using Sample = typename S::Sample;
    using P = Pieces<S>;
    const int rows = tile.rows - static_cast<int>(slab) * ROWS;
    if (slab < own.slabs) {
        const u32 stride = tile.first().output_stride;
        const cudaconv_u64 row = static_cast<cudaconv_u64>(tile.y0 + slab * ROWS);
        const cudaconv_u64 to = tile.first().output + row * stride + own.offset;
#pragma unroll
        for (int turn = 0; turn < P::TURNS; ++turn)
            if (turn == 0 || static_cast<int>(threadIdx.x) / P::ACROSS + turn * P::ROWS_APART < rows)
                write_sample(to + turn * P::ROWS_APART * stride, shared.results[0][turn * THREADS + threadIdx.x]);
    } else if (tile.ragged && !P::is_whole(tile)) {
        const int first = threadIdx.x % P::ACROSS * P::SAMPLES, left = min(P::left(tile), P::SAMPLES);
#pragma unroll 1
        for (int row = threadIdx.x / P::ACROSS; row < min(rows, ROWS); row += P::ROWS_APART) {
            const Sample* samples = reinterpret_cast<const Sample*>(shared.results[row]) + first;
#pragma unroll 1
            for (int n = 0; n < left; ++n) {
                const u32 pixel = static_cast<u32>(first + n) / tile.channels, c = first + n - pixel * tile.channels;
                const CudaconvChannel& channel = tile.job.channels[tile.channel + c];
                write_sample<Sample>(output_at(channel, tile.x0 + pixel, tile.y0 + slab * ROWS + row), samples[n]);
            }
        }
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
                                                  int radius, const CudaconvConvolveLaunch& launch) {
        if (sizeof...(OTHERS) > 0 && radius != RADIUS) {
            if constexpr (sizeof...(OTHERS) > 0) Next::across(totals, shared, own, half, radius, launch);
        } else {
            sum_across<S, RADIUS>(totals, shared, own, half, launch);
        }
    }

    template <typename S>
    static __device__ __forceinline__ void down(Totals<S>& totals, Shared<S>& shared, int place, int half, int radius,
                                                const CudaconvConvolveLaunch& launch) {
        if (sizeof...(OTHERS) > 0 && radius != RADIUS) {
            if constexpr (sizeof...(OTHERS) > 0) Next::down(totals, shared, place, half, radius, launch);
        } else {
            sum_down<S, RADIUS>(totals, shared, place, half, launch);
        }
    }
};

template <typename R, typename S>
DEVICE void filter(Shared<S>& shared, const Tile<S>& tile, const CudaconvConvolveLaunch& launch) {
    int outputs = slabs_of(tile.rows), inputs = tile.filters ? slabs_of(tile.rows + 2 * tile.radius) : 0;
    keep(shared, outputs), keep(shared, inputs);
    const Runs<S> runs(shared, tile);
    const Across<S> across(shared, tile, inputs);
    const Down<S> down(shared, tile, outputs);
    const Pieces<S> pieces(shared, tile);
    if (threadIdx.x == 0) shared.reciprocal = launch.reciprocal;
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
                R::across(totals, shared, across, half, tile.radius, launch);
                put(shared, totals, across, half, place);
            }
        }
        __syncthreads();
        const u32 complete = slab - S::BEHIND;
        if (complete < down.slabs) {
#pragma unroll 1
            for (int half = 0; half < ROWS / S::AT_ONCE; ++half) {
                Totals<S> totals;
                R::down(totals, shared, place + 1 == S::SLABS ? 0 : place + 1, half, tile.radius, launch);
                finish(shared, totals, down, half, tile, launch);
            }
        } else if (tile.passes && complete < static_cast<u32>(outputs))
            pass_down(shared, down.to, tile, complete);
    }
}

template <typename Sample, int COUNT, typename R>
DEVICE void separable(const CudaconvConvolveLaunch& launch) {
    using S = Shape<Sample, R::LARGEST, COUNT>;
    __shared__ Shared<S> shared;
    const CudaconvFrame& frame = launch.frame;
    const CudaconvJob& job = frame.jobs[job_of(frame, blockIdx.y)];
    if (blockIdx.x >= job.tiles_across) return;
    // All channels of a packed job at once, else one after the other.
    const int channels = job.packed ? job.channel_count : 1, pixels = channels == 3 ? pixels_of(3) : THREADS / channels;
    const int y0 = (blockIdx.y - job.first_tile_row) * frame.tile_height;
    const int rows = min(static_cast<int>(frame.tile_height), static_cast<int>(job.height) - y0);
    Tile<S> tile = {frame, job, static_cast<int>(launch.kernels[0].width / 2), 0, channels,
                    static_cast<int>(blockIdx.x) * pixels, y0, rows, pixels};
#pragma unroll 1
    for (; tile.channel < static_cast<int>(job.channel_count); tile.channel += channels) {
        tile.look();
        filter<R>(shared, tile, launch);
        __syncthreads();
    }
}

#define SEPARABLE(name, sample, count, blocks, ...)                   \
    extern "C" __global__ void __launch_bounds__(THREADS, blocks)     \
        name(const __grid_constant__ CudaconvConvolveLaunch launch) { \
        separable<sample, count, Radii<__VA_ARGS__>>(launch);         \
    }

// Blocks of a multiprocessor as they were fastest on an H200, where 15 + 15 taps take 11 µs for 1080p GRAY8, 25 for
// RGBA, 73 for 4K RGBA and 15 for P010; 33 + 33 taps 18, 45, 142 and 24.
#ifdef SEPARABLE_U8_R4
SEPARABLE(separable_u8_r4, u8, 1, 6, 2, 3, 4)
#endif
#ifdef SEPARABLE_U8_R7
SEPARABLE(separable_u8_r7, u8, 1, 7, 7)
#endif
#ifdef SEPARABLE_U8_R8
SEPARABLE(separable_u8_r8, u8, 1, 7, 8)
#endif
#ifdef SEPARABLE_U8_R16
SEPARABLE(separable_u8_r16, u8, 1, 5, 16)
#endif
#ifdef SEPARABLE_MAGNITUDE_U8
SEPARABLE(separable_magnitude_u8, u8, 2, 5, 1)
#endif
#ifdef SEPARABLE_U16_R4
SEPARABLE(separable_u16_r4, u16, 1, 6, 4)
#endif
#ifdef SEPARABLE_U16_R8
SEPARABLE(separable_u16_r8, u16, 1, 6, 8)
#endif
#ifdef SEPARABLE_U16_R16
SEPARABLE(separable_u16_r16, u16, 1, 4, 16)
#endif
