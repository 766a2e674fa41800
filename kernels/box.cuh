// Means of rectangles by sliding sums: what is the same for samples of 8 and 16 bits. How it is done stands in box.cu.
//
// A Kind says how samples are summed: its Sample; Pixel, four sums down, and Sum, the same of many pixels, of which
// 16 bytes are stored; CODES, how many words a thread's codes are; and the functions that are called below.
#pragma once

#include "common.cuh"

constexpr int WARPS = 4;
constexpr int THREADS = WARPS * WARP;
constexpr int WORD = 4;
// Neighbouring pixels of a thread; a strip is what a warp reads of a row.
constexpr int PIXELS = 8;
constexpr int STRIP = WARP * PIXELS;
// One more after each thread's, so that threads meet all banks.
constexpr int PITCH = PIXELS + 1;

struct Shared {
    uint4 sums[WARP * PITCH + 1];
    alignas(16) short columns[STRIP];  // of the strip: that which stands for each, or BEYOND
};

// --- Strips --------------------------------------------------------------------------------------

// What a warp computes: pixels of a strip, some rows.
struct Strip {
    const CudaconvFrame& frame;
    const CudaconvJob& job;
    int radius_x, radius_y;
    int x;       // this thread's first pixel
    int y, end;  // rows
    int row_bytes;
    int before;  // steps that add up the window above the first row
    u32 beyond;  // the first word of a row of the border's constant

    __device__ __forceinline__ const CudaconvChannel& first() const { return job.channels[0]; }
    __device__ __forceinline__ cudaconv_u64 input(u32 row) const {
        return first().input + static_cast<cudaconv_u64>(row) * first().input_stride;
    }
    __device__ __forceinline__ cudaconv_u64 output(u32 row) const {
        return first().output + static_cast<cudaconv_u64>(row) * first().output_stride;
    }
};

// How pixels of CHANNELS samples lie in rows.
template <typename Sample, int CHANNELS>
struct Layout {
    static constexpr int WORDS = PIXELS * CHANNELS * static_cast<int>(sizeof(Sample)) / WORD;
    // Bytes that are read and written at once.
    static constexpr int PIECE = WORDS % 4 == 0 ? 16 : 8, PIECES = WORDS * WORD / PIECE;
    // Rows that make the four sums of a pixel.
    static constexpr int ROWS = CHANNELS == 1 ? 4 : CHANNELS == 2 ? 2 : 1;
    // Rows that are read at once: those that enter the sums and those that leave them, or at first all that enter.
    static constexpr int READ = 2 * ROWS;
};
// What is read at once of rows of samples.
template <typename Sample>
using Words = u32[2 * PIXELS * sizeof(Sample)];

// Threads of a strip on either side that compute nothing: others need their pixels.
DEVICE int lanes_beside(int radius) { return (radius + PIXELS - 1) / PIXELS; }

DEVICE int rows_of(int channels) { return channels == 1 ? 4 : channels == 2 ? 2 : 1; }

// --- Rows ----------------------------------------------------------------------------------------

// What step `step` of the walk takes. What is beside the rows of the picture is left as it is.
template <typename Sample, int CHANNELS>
DEVICE void read_rows(Words<Sample>& words, const Strip& strip, int step) {
    using L = Layout<Sample, CHANNELS>;
    const u32 height = strip.job.height, stride = strip.first().input_stride;
    const int next = strip.y + (step - strip.before) * L::ROWS, count = 2 * strip.radius_y + 1;
    const int taken = step * L::READ;
    int entering = next + strip.radius_y, others = next - 1 - strip.radius_y;
    if (step < strip.before) entering = strip.y - 1 - strip.radius_y + taken, others = entering + L::ROWS;
    const bool plain = min(entering, others) >= 0 && max(entering, others) + L::ROWS <= static_cast<int>(height) &&
                       (step >= strip.before || taken + L::READ <= count);
    u32 offsets[L::READ], constant = 0, nothing = 0;
    if (plain) {
#pragma unroll
        for (int r = 0; r < L::READ; ++r) offsets[r] = (r < L::ROWS ? entering + r : others + r - L::ROWS) * stride;
    } else {
        // A thread finds a row for all.
        const int n = lane();
        const int at = border_position(strip.frame.border, n < L::ROWS ? entering + n : others + n - L::ROWS, height);
        constant = __ballot_sync(~0u, at == BEYOND);
        nothing = __ballot_sync(~0u, step < strip.before && taken + n >= count);
#pragma unroll
        for (int r = 0; r < L::READ; ++r) offsets[r] = __shfl_sync(~0u, static_cast<u32>(max(at, 0)) * stride, r);
    }
    const int byte = strip.x * CHANNELS * static_cast<int>(sizeof(Sample));
    const cudaconv_u64 input = strip.first().input + byte;
#pragma unroll
    for (int p = 0; p < L::PIECES; ++p) {
        const int begin = byte + p * L::PIECE;
        if (static_cast<u32>(begin) >= static_cast<u32>(strip.row_bytes)) continue;
#pragma unroll
        for (int r = 0; r < L::READ; ++r) {
            if constexpr (L::PIECE == 16) {
                const uint4 piece = read_sample<uint4>(input + offsets[r] + p * 16);
                u32* to = words + r * L::WORDS + 4 * p;
                to[0] = piece.x, to[1] = piece.y, to[2] = piece.z, to[3] = piece.w;
            } else {
                const uint2 piece = read_sample<uint2>(input + offsets[r] + p * 8);
                u32* to = words + r * L::WORDS + 2 * p;
                to[0] = piece.x, to[1] = piece.y;
            }
        }
    }
    if ((constant | nothing) == 0) return;
#pragma unroll
    for (int r = 0; r < L::READ; ++r) {
        if (((constant | nothing) >> r & 1) == 0) continue;
#pragma unroll
        for (int w = 0; w < L::WORDS; ++w) {
            // Three channels of bytes come in turn: c0 c1 c2 c0, c1 c2 c0 c1, c2 c0 c1 c2.
            const u32 turn = CHANNELS != 3 || w % 3 == 0 ? 0x3210 : w % 3 == 1 ? 0x1021 : 0x2102;
            words[r * L::WORDS + w] = nothing >> r & 1 ? 0 : __byte_perm(strip.beyond, 0, turn);
        }
    }
}

// --- Sums across ---------------------------------------------------------------------------------

// Gives the columns beyond the edges the sums down that the border says.
template <typename Kind>
DEVICE void complete(typename Kind::Pixel (&pixels)[PIXELS], const Strip& strip, Shared& shared) {
    using Pixel = typename Kind::Pixel;
    auto* sums = reinterpret_cast<typename Pixel::Stored*>(shared.sums);
#pragma unroll
    for (int p = 0; p < PIXELS; ++p) sums[lane() * PITCH + p] = pixels[p].stored();
    __syncwarp();
    const Pixel constant = Kind::constant(strip);
#pragma unroll
    for (int p = 0; p < PIXELS; ++p) {
        const int column = shared.columns[lane() * PIXELS + p];
        const int at = max(column, 0);
        const Pixel stands_for(sums[at + at / PIXELS]);
        pixels[p] = column == BEYOND ? constant : stands_for;
    }
    __syncwarp();
}

// Leaves the sum of all pixels before each of the strip in shared memory.
template <typename Kind>
DEVICE void add_up(const typename Kind::Pixel (&pixels)[PIXELS], Shared& shared) {
    using Sum = typename Kind::Sum;
    Sum own = Sum::zero();
#pragma unroll
    for (int p = 0; p < PIXELS; ++p) own.add(pixels[p]);
    Sum all = own;
#pragma unroll
    for (int lanes = 1; lanes < WARP; lanes *= 2) {
        const Sum before = all.up(lanes);
        if (lane() >= lanes) all.add(before);
    }
    Sum before = all.less(own);
#pragma unroll
    for (int p = 0; p < PIXELS; ++p) {
        shared.sums[lane() * PITCH + p] = before.stored();
        before.add(pixels[p]);
    }
    if (lane() == WARP - 1) shared.sums[WARP * PITCH] = all.stored();
}

// --- Codes ---------------------------------------------------------------------------------------

// The code of the mean in the lowest bits. As bits of a float, which is not normalised, a sum is worth 2^-149 of
// itself; `scale` makes that the mean times 2^-24, which is what the last bit of a float from 0.5 on is worth.
DEVICE u32 code_of_sum(u32 sum, float scale) { return __float_as_uint(fmaf(__uint_as_float(sum), scale, 0.5f)); }

// 2^125
constexpr float SCALE = 4.2535295865117308e37f;

// Where the sums are that a thread's pixels are the differences of.
struct Places {
    u32 upper[PIXELS], lower[PIXELS];

    // Threads at the ends of a strip take no sums: any places will do.
    __device__ __forceinline__ Places(const Shared& shared, int radius) {
        const int beside = lanes_beside(radius), own = min(max(lane(), beside), WARP - 1 - beside) * PIXELS;
        const int behind = own + radius + 1, before = own - radius;
        const u32 begin = shared_address(shared.sums);
        const u32 first_upper = begin + (behind + behind / PIXELS) * sizeof(uint4);
        const u32 first_lower = begin + (before + before / PIXELS) * sizeof(uint4);
#pragma unroll
        for (int p = 0; p < PIXELS; ++p) {
            upper[p] = first_upper + (p + (behind % PIXELS + p >= PIXELS)) * sizeof(uint4);
            lower[p] = first_lower + (p + (before % PIXELS + p >= PIXELS)) * sizeof(uint4);
            keep(upper[p]), keep(lower[p]);
        }
    }
};

// --- Writing -------------------------------------------------------------------------------------

// What is done with the samples of every word of a row.
struct Masks {
    u32 filtered, copied, filled;

    template <typename Sample>
    __device__ __forceinline__ Masks(const CudaconvFrame& frame, const CudaconvJob& job, Sample)
        : filtered(0), copied(0), filled(0) {
        constexpr int BITS = 8 * sizeof(Sample);
#pragma unroll
        for (int k = 0; k < 32 / BITS; ++k) {
            const CudaconvChannel& channel = job.channels[job.channel_count == 3 ? 0 : k & (job.channel_count - 1)];
            const u32 mask = (~0u >> (32 - BITS)) << BITS * k;
            if (channel.action == CUDACONV_FILTER) filtered |= mask;
            if (channel.action == CUDACONV_COPY) copied |= mask;
            if (channel.action == CUDACONV_FILL) filled |= sample_of<Sample>(frame, channel.fill) << BITS * k & mask;
        }
    }

    __device__ __forceinline__ u32 mixed(u32 codes, u32 centre) const {
        return (codes & filtered) | filled | (centre & copied);
    }
};

// Writes a thread's pixels of the rows from `y` on; `own` is memory that no other thread uses.
template <typename Kind, int CHANNELS>
DEVICE void write_rows(const Strip& strip, const Masks& masks, const u32 (&codes)[Kind::CODES], int y, u32* own) {
    using Sample = typename Kind::Sample;
    using L = Layout<Sample, CHANNELS>;
    constexpr int SIZE = sizeof(Sample);
    const int byte = strip.x * CHANNELS * SIZE, left = strip.row_bytes - byte;
    u32 words[Kind::CODES];
    Kind::template arrange<CHANNELS>(words, codes, strip.frame);
    if constexpr (CHANNELS % 2 == 0) {
        if (~masks.filtered) {
#pragma unroll
            for (int p = 0; p < L::PIECES * L::ROWS; ++p) {
                const int row = y + p / L::PIECES, at = byte + p % L::PIECES * 16;
                uint4 centre = make_uint4(0, 0, 0, 0);
                if (masks.copied && at < strip.row_bytes && row < strip.end)
                    centre = read_sample<uint4>(strip.input(row) + at);
                u32* four = words + 4 * p;
                four[0] = masks.mixed(four[0], centre.x), four[1] = masks.mixed(four[1], centre.y);
                four[2] = masks.mixed(four[2], centre.z), four[3] = masks.mixed(four[3], centre.w);
            }
        }
    }
    cudaconv_u64 to = strip.output(y) + byte;
    if (left >= L::WORDS * WORD) {
#pragma unroll
        for (int r = 0; r < L::ROWS; ++r) {
            if (y + r >= strip.end) break;
            const u32* row = words + r * L::WORDS;
#pragma unroll
            for (int p = 0; p < L::PIECES; ++p) {
                if constexpr (L::PIECE == 16)
                    write_sample(to + 16 * p, make_uint4(row[4 * p], row[4 * p + 1], row[4 * p + 2], row[4 * p + 3]));
                else
                    write_sample(to + 8 * p, make_uint2(row[2 * p], row[2 * p + 1]));
            }
            to += strip.first().output_stride;
        }
    } else {
#pragma unroll
        for (int w = 0; w < L::WORDS * L::ROWS; ++w) own[w] = words[w];
#pragma unroll 1
        for (int r = 0; r < L::ROWS && y + r < strip.end; ++r, to += strip.first().output_stride, own += L::WORDS)
#pragma unroll 1
            for (int b = 0; b < left; b += SIZE) write_sample(to + b, reinterpret_cast<const Sample*>(own)[b / SIZE]);
    }
}

// The same of a job of which nothing is filtered: `count` pixels from `first` on.
template <typename Sample>
DEVICE void copy_or_fill(const Strip& strip, const Masks& masks, int first, int count) {
    constexpr int SIZE = sizeof(Sample);
    const int size = strip.job.channel_count * SIZE, end = min((first + count) * size, strip.row_bytes);
#pragma unroll 1
    for (int y = strip.y; y < strip.end; ++y) {
        const cudaconv_u64 from = strip.input(y), to = strip.output(y);
#pragma unroll 1
        for (int byte = first * size + lane() * WORD; byte < end; byte += WARP * WORD) {
            u32 word = masks.mixed(0, masks.copied ? read_sample<u32>(from + byte) : 0);
            if (byte + WORD <= end) {
                write_sample(to + byte, word);
            } else {
#pragma unroll 1
                for (int at = byte; at < end; at += SIZE, word >>= 8 * SIZE % 32) write_sample<Sample>(to + at, word);
            }
        }
    }
}

// --- A strip -------------------------------------------------------------------------------------

template <int VALUE_>
struct Number {
    static constexpr int VALUE = VALUE_;
};

// Calls `call` with the number of channels, of which samples of 16 bits have at most two.
template <typename Sample, typename Call>
DEVICE void by_channels(int channels, Call call) {
    if (channels == 1) {
        call(Number<1>());
    } else if (sizeof(Sample) == 2 || channels == 2) {
        call(Number<2>());
    } else if constexpr (sizeof(Sample) == 1) {
        if (channels == 3)
            call(Number<3>());
        else
            call(Number<4>());
    }
}

// The first word of a row of the border's constant.
template <typename Sample>
DEVICE u32 constant_of(const CudaconvFrame& frame, const CudaconvJob& job) {
    constexpr int BITS = 8 * sizeof(Sample);
    u32 word = 0;
#pragma unroll
    for (int k = 0; k < 32 / BITS; ++k) {
        const CudaconvChannel& channel = job.channels[job.channel_count == 3 ? k % 3 : k & (job.channel_count - 1)];
        const Sample sample = sample_of<Sample>(frame, static_cast<u32>(channel.beyond + channel.zero));
        word |= static_cast<u32>(sample) << BITS * k;
    }
    return word;
}

// Those that stand for columns beyond the edges are in the strip, as no border that repeats the picture is taken.
DEVICE void find_columns(Shared& shared, const Strip& strip, int left) {
#pragma unroll 1
    for (int column = lane(); column < STRIP; column += WARP) {
        const int x = border_position(strip.frame.border, left + column, strip.job.width);
        shared.columns[column] = x == BEYOND ? BEYOND : min(max(x - left, 0), STRIP - 1);
    }
    __syncwarp();
}

template <typename Kind>
DEVICE void walk(const CudaconvConvolveLaunch& launch, const CudaconvJob& job, Shared& shared) {
    using Sample = typename Kind::Sample;
    constexpr int SIZE = sizeof(Sample);
    const CudaconvFrame& frame = launch.frame;
    const int channels = job.channel_count, step_rows = rows_of(channels);
    const int radius_x = launch.kernels[0].width / 2, radius_y = launch.kernels[0].height / 2;
    const int beside = lanes_beside(radius_x);
    const int rows = frame.tile_height / WARPS, width = job.width;
    const int left = blockIdx.x * (STRIP - 2 * beside * PIXELS) - beside * PIXELS;
    const int y = (blockIdx.y - job.first_tile_row) * frame.tile_height + threadIdx.x / WARP * rows;
    const int end = min(y + rows, static_cast<int>(job.height));
    if (y >= end) return;
    Strip strip = {frame, job, radius_x, radius_y, left + lane() * PIXELS, y, end, width * channels * SIZE, 0, 0};
    const Masks masks(frame, job, Sample());
    if (masks.filtered == 0) {
        copy_or_fill<Sample>(strip, masks, left + beside * PIXELS, STRIP - 2 * beside * PIXELS);
        return;
    }
    strip.before = (2 * radius_y + 2 * step_rows) / (2 * step_rows);
    if (frame.border == CUDACONV_CONSTANT) strip.beyond = constant_of<Sample>(frame, job);
    const bool at_edge = left < 0 || left + STRIP > width;
    if (at_edge) find_columns(shared, strip, left);
    const bool writes = lane() >= beside && lane() < WARP - beside && strip.x < width;
    const float scale = launch.reciprocal * SCALE;
    const int steps = strip.before + (strip.end - y + step_rows - 1) / step_rows;
    const Places places(shared, radius_x);
    Words<Sample> words;
    u32 columns[2 * PIXELS];
#pragma unroll
    for (u32& word : words) word = 0;
#pragma unroll
    for (u32& column : columns) column = 0;
#pragma unroll 1
    for (int step = -1; step < steps; ++step) {
        typename Kind::Pixel pixels[PIXELS];
        by_channels<Sample>(channels, [&](auto number) {
            constexpr int CHANNELS = decltype(number)::VALUE;
            Kind::template take_step<CHANNELS>(pixels, columns, words, strip, step);
            if (step + 1 < steps) read_rows<Sample, CHANNELS>(words, strip, step + 1);
        });
        if (step < strip.before) continue;
        if (at_edge) complete<Kind>(pixels, strip, shared);
        add_up<Kind>(pixels, shared);
        __syncwarp();
        u32 codes[Kind::CODES];
        Kind::take_codes(codes, places, scale, frame);
        __syncwarp();
        if (writes) {
            u32* own = reinterpret_cast<u32*>(shared.sums + lane() * PITCH);
            by_channels<Sample>(channels, [&](auto number) {
                constexpr int CHANNELS = decltype(number)::VALUE;
                write_rows<Kind, CHANNELS>(strip, masks, codes, y + (step - strip.before) * step_rows, own);
            });
        }
        __syncwarp();
    }
}

template <typename Kind>
DEVICE void box(const CudaconvConvolveLaunch& launch) {
    __shared__ Shared shared[WARPS];
    const CudaconvFrame& frame = launch.frame;
    const CudaconvJob& job = frame.jobs[job_of(frame, blockIdx.y)];
    if (blockIdx.x < job.tiles_across) walk<Kind>(launch, job, shared[threadIdx.x / WARP]);
}
