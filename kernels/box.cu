// Means of rectangles of up to 65 x 65 8-bit samples, in a time that hardly depends on their size.
//
// Sums are whole numbers below 2^21, so the order of additions is free. The mean of an odd number n of samples is never
// halfway between two codes but at least 1 / 2n from there, which is more than the rounding errors of a product
// with the reciprocal, and of the canonical quotient with a zero level subtracted and added again.
//
// Bytes: each sample is written once and read once from memory; at 4.3 TB/s 1 µs for 1080p GRAY8, 15 for 4K RGBA. From
// the cache it is read twice more: when it leaves the window, and by the strips below for their first sums.
// Operations of a thread for 32 samples: 48 instructions for sums down, 72 and 20 exchanges for prefix sums across,
// 24 accesses of 16 bytes to shared memory, 32 differences, 32 multiply-adds that divide and round, 24
// permutations that pack: 12 a sample with loads and addresses. Both issue and shared memory take 17 µs for 4K RGBA.
// Measured on an H200: 7.5 to 12.3 µs for 1080p GRAY8 from 5 x 5 to 65 x 65 samples, 47 to 79 for 4K RGBA: far from
// all bounds, as 20 warps do not hide all latency. Sums of 16 bits, which windows of up to 256 samples allow, take 42 to 49
// there; half as many pixels a thread 10 % more; sums of a thread's windows from one to the next, with half the
// accesses to shared memory, the same.
//
// A warp walks down a strip of 256 pixels. Each thread has the sums down of 8 of them: with every step a row
// enters the window and one leaves it, both read from memory, which is known one step ahead. Sums of two samples
// of 16 bits lie in a word. Four sums are what a pixel is from then on: of its channels, or of two rows of two
// channels, or of four rows of one. Prefix sums of the strip's pixels go to shared memory, and the sum of a window is
// the difference of two of them. Columns beyond the edges take sums down of those that the border names.
#include "common.cuh"

constexpr int WARPS = 4;
constexpr int THREADS = WARPS * WARP;
// Of a multiprocessor: leaves 96 registers.
constexpr int BLOCKS = 5;
constexpr int WORD = 4;
// Neighbouring pixels of a thread; a strip is what a warp reads of a row.
constexpr int PIXELS = 8;
constexpr int STRIP = WARP * PIXELS;
// One more after each thread's, so that threads meet all banks.
constexpr int PITCH = PIXELS + 1;

DEVICE u32 address_of(const void* shared) { return static_cast<u32>(__cvta_generic_to_shared(shared)); }

// --- Sums ----------------------------------------------------------------------------------------

// Four sums of one pixel, two in a word.
struct Pair {
    u32 first, second;
};

// Sums of such words as they are, modulo 2^32, and of their upper halves: so no word is taken apart before the end.
struct Sum {
    u32 first, first_upper, second, second_upper;

    static __device__ __forceinline__ Sum zero() { return {0, 0, 0, 0}; }
    __device__ __forceinline__ void add(const Pair& pair) {
        first += pair.first, first_upper += pair.first >> 16, second += pair.second, second_upper += pair.second >> 16;
    }
    __device__ __forceinline__ void add(const Sum& other) {
        first += other.first, first_upper += other.first_upper;
        second += other.second, second_upper += other.second_upper;
    }
    __device__ __forceinline__ Sum up(int lanes) const {
        return {__shfl_up_sync(~0u, first, lanes), __shfl_up_sync(~0u, first_upper, lanes),
                __shfl_up_sync(~0u, second, lanes), __shfl_up_sync(~0u, second_upper, lanes)};
    }
    __device__ __forceinline__ Sum less(const Sum& other) const {
        return {first - other.first, first_upper - other.first_upper, second - other.second,
                second_upper - other.second_upper};
    }
    __device__ __forceinline__ uint4 stored() const { return make_uint4(first, first_upper, second, second_upper); }
    // What is stored at `address` of shared memory.
    static __device__ __forceinline__ Sum at(u32 address) {
        Sum sum;
        asm volatile("ld.shared.v4.u32 {%0, %1, %2, %3}, [%4];"
            : "=r"(sum.first), "=r"(sum.first_upper), "=r"(sum.second), "=r"(sum.second_upper)
            : "r"(address)
            : "memory");
        return sum;
    }
    __device__ __forceinline__ void split(u32 (&sums)[4]) const {
        sums[0] = first - (first_upper << 16), sums[1] = first_upper;
        sums[2] = second - (second_upper << 16), sums[3] = second_upper;
    }
};

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
    u32 beyond;  // the first four bytes of a row of the border's constant

    __device__ __forceinline__ const CudaconvChannel& first() const { return job.channels[0]; }
    __device__ __forceinline__ cudaconv_u64 input(u32 row) const {
        return first().input + static_cast<cudaconv_u64>(row) * first().input_stride;
    }
    __device__ __forceinline__ cudaconv_u64 output(u32 row) const {
        return first().output + static_cast<cudaconv_u64>(row) * first().output_stride;
    }
};

// How pixels of CHANNELS bytes lie in rows.
template <int CHANNELS>
struct Layout {
    static constexpr int WORDS = PIXELS * CHANNELS / WORD;
    // Bytes that are read and written at once.
    static constexpr int PIECE = WORDS % 4 == 0 ? 16 : 8, PIECES = WORDS * WORD / PIECE;
    // Rows that make the four sums of a pixel.
    static constexpr int ROWS = CHANNELS == 1 ? 4 : CHANNELS == 2 ? 2 : 1;
    // Rows that are read at once: those that enter the sums and those that leave them, or at first all that enter.
    static constexpr int READ = 2 * ROWS;
};
constexpr int MOST_WORDS = 2 * PIXELS;
using Bytes = u32[MOST_WORDS];

// Threads of a strip on either side that compute nothing: others need their pixels.
DEVICE int lanes_beside(int radius) { return (radius + PIXELS - 1) / PIXELS; }

DEVICE int rows_of(int channels) { return channels == 1 ? 4 : channels == 2 ? 2 : 1; }

// --- Rows ----------------------------------------------------------------------------------------

// What step `step` of the walk takes. What is beside the rows of the picture is left as it is.
template <int CHANNELS>
DEVICE void read_rows(Bytes& bytes, const Strip& strip, int step) {
    using L = Layout<CHANNELS>;
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
    const int byte = strip.x * CHANNELS;
    const cudaconv_u64 input = strip.first().input + byte;
#pragma unroll
    for (int p = 0; p < L::PIECES; ++p) {
        const int begin = byte + p * L::PIECE;
        if (static_cast<u32>(begin) >= static_cast<u32>(strip.row_bytes)) continue;
#pragma unroll
        for (int r = 0; r < L::READ; ++r) {
            if constexpr (L::PIECE == 16) {
                const uint4 piece = read_sample<uint4>(input + offsets[r] + p * 16);
                u32* to = bytes + r * L::WORDS + 4 * p;
                to[0] = piece.x, to[1] = piece.y, to[2] = piece.z, to[3] = piece.w;
            } else {
                const uint2 piece = read_sample<uint2>(input + offsets[r] + p * 8);
                u32* to = bytes + r * L::WORDS + 2 * p;
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
            // Three channels come in turn: c0 c1 c2 c0, c1 c2 c0 c1, c2 c0 c1 c2.
            const u32 turn = CHANNELS != 3 || w % 3 == 0 ? 0x3210 : w % 3 == 1 ? 0x1021 : 0x2102;
            bytes[r * L::WORDS + w] = nothing >> r & 1 ? 0 : __byte_perm(strip.beyond, 0, turn);
        }
    }
}

// --- Sums down -----------------------------------------------------------------------------------

// A row's bytes as pairs of 16 bits: of one channel two words for four pixels, of two a word for each pixel, of
// three and four two words for each.
template <int CHANNELS>
struct Columns {
    static constexpr int COUNT = CHANNELS == 1 ? PIXELS / 2 : CHANNELS == 2 ? PIXELS : 2 * PIXELS;
    u32 pairs[COUNT];

    __device__ __forceinline__ explicit Columns(const u32* words) {
        if constexpr (CHANNELS == 3) {
#pragma unroll
            for (int p = 0; p < PIXELS; ++p) {
                const int word = 3 * p / 4, next = word + 1 < Layout<3>::WORDS ? word + 1 : word;
                const u32 pixel = __funnelshift_r(words[word], words[next], 8 * (3 * p % 4));
                pairs[2 * p] = __byte_perm(pixel, 0, 0x4140);
                pairs[2 * p + 1] = __byte_perm(pixel, 0, 0x4442);
            }
        } else {
#pragma unroll
            for (int w = 0; w < Layout<CHANNELS>::WORDS; ++w) {
                pairs[2 * w] = __byte_perm(words[w], 0, CHANNELS == 1 ? 0x4240 : 0x4140);
                pairs[2 * w + 1] = __byte_perm(words[w], 0, CHANNELS == 1 ? 0x4341 : 0x4342);
            }
        }
    }
};

// Does step `step`, whose bytes are there, and reads what the next of `steps` takes. Gives the sums down of ROWS rows
// by pixel, if it is not one of the first, in which all rows enter the window.
template <int CHANNELS>
DEVICE void take_step(Pair (&pixels)[PIXELS], u32 (&columns)[MOST_WORDS], Bytes& bytes, const Strip& strip, int step,
                      int steps) {
    using L = Layout<CHANNELS>;
    using C = Columns<CHANNELS>;
    const u32 sign = step < strip.before ? 1 : -1;
    u32 rows[4][C::COUNT];
#pragma unroll
    for (int r = 0; r < L::ROWS; ++r) {
        const C entering(bytes + r * L::WORDS), others(bytes + (L::ROWS + r) * L::WORDS);
#pragma unroll
        for (int i = 0; i < C::COUNT; ++i) {
            columns[i] += entering.pairs[i] + sign * others.pairs[i];
            rows[r][i] = columns[i];
        }
    }
#pragma unroll
    for (int p = 0; p < PIXELS; ++p) {
        if constexpr (CHANNELS == 1) {
            const int at = p / 4 * 2 + p % 2;
            const u32 select = p % 4 < 2 ? 0x5410 : 0x7632;
            pixels[p] = {__byte_perm(rows[0][at], rows[1][at], select), __byte_perm(rows[2][at], rows[3][at], select)};
        } else if constexpr (CHANNELS == 2) {
            pixels[p] = {rows[0][p], rows[1][p]};
        } else {
            pixels[p] = {rows[0][2 * p], rows[0][2 * p + 1]};
        }
    }
    if (step + 1 < steps) read_rows<CHANNELS>(bytes, strip, step + 1);
}

// Gives the columns beyond the edges the sums that the border says.
DEVICE void complete(Pair (&pixels)[PIXELS], const Strip& strip, Shared& shared) {
    uint2* sums = reinterpret_cast<uint2*>(shared.sums);
#pragma unroll
    for (int p = 0; p < PIXELS; ++p) sums[lane() * PITCH + p] = make_uint2(pixels[p].first, pixels[p].second);
    __syncwarp();
    const u32 rows = 2 * strip.radius_y + 1, others = strip.job.channel_count == 3 ? 0x4442 : 0x4342;
    const Pair constant = {__byte_perm(strip.beyond, 0, 0x4140) * rows, __byte_perm(strip.beyond, 0, others) * rows};
#pragma unroll
    for (int p = 0; p < PIXELS; ++p) {
        const int column = shared.columns[lane() * PIXELS + p];
        const int at = max(column, 0);
        const uint2 two = sums[at + at / PIXELS];
        pixels[p].first = column == BEYOND ? constant.first : two.x;
        pixels[p].second = column == BEYOND ? constant.second : two.y;
    }
    __syncwarp();
}

// --- Sums across ---------------------------------------------------------------------------------

// Leaves the sum of all pixels before each of the strip in shared memory.
DEVICE void add_up(const Pair (&pixels)[PIXELS], Shared& shared) {
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

// The code of the mean in the lowest byte. As bits of a float, which is not normalised, a sum is worth 2^-149 of
// itself; `scale` makes that the mean times 2^-24, which is what the last bit of a float from 0.5 on is worth.
DEVICE u32 code_of_sum(u32 sum, float scale) { return __float_as_uint(fmaf(__uint_as_float(sum), scale, 0.5f)); }

// 2^125
constexpr float SCALE = 4.2535295865117308e37f;

DEVICE u32 packed(u32 a, u32 b, u32 c, u32 d) {
    return __byte_perm(__byte_perm(a, b, 0x0040), __byte_perm(c, d, 0x0040), 0x5410);
}

// Where the sums are that a thread's pixels are the differences of.
struct Places {
    u32 upper[PIXELS], lower[PIXELS];

    // Threads at the ends of a strip take no sums: any places will do.
    __device__ __forceinline__ Places(const Shared& shared, int radius) {
        const int beside = lanes_beside(radius), own = min(max(lane(), beside), WARP - 1 - beside) * PIXELS;
        const int behind = own + radius + 1, before = own - radius;
        const u32 begin = address_of(shared.sums);
        const u32 first_upper = begin + (behind + behind / PIXELS) * sizeof(uint4);
        const u32 first_lower = begin + (before + before / PIXELS) * sizeof(uint4);
#pragma unroll
        for (int p = 0; p < PIXELS; ++p) {
            upper[p] = first_upper + (p + (behind % PIXELS + p >= PIXELS)) * sizeof(uint4);
            lower[p] = first_lower + (p + (before % PIXELS + p >= PIXELS)) * sizeof(uint4);
            // So that they are not computed again and again.
            asm volatile("" : "+r"(upper[p]), "+r"(lower[p]));
        }
    }
};

// The four codes of each of a thread's pixels.
DEVICE void take_codes(u32 (&codes)[PIXELS], const Places& places, float scale) {
#pragma unroll
    for (int p = 0; p < PIXELS; ++p) {
        const Sum last = Sum::at(places.upper[p]), first = Sum::at(places.lower[p]);
        u32 sums[4], own[4];
        last.less(first).split(sums);
#pragma unroll
        for (int i = 0; i < 4; ++i) own[i] = code_of_sum(sums[i], scale);
        codes[p] = packed(own[0], own[1], own[2], own[3]);
    }
}

// Words of rows from the codes of pixels.
template <int CHANNELS>
DEVICE void arrange(u32 (&words)[PIXELS], const u32 (&codes)[PIXELS]) {
#pragma unroll
    for (int p = 0; p < PIXELS; p += 4) {
        const u32 a = codes[p], b = codes[p + 1], c = codes[p + 2], d = codes[p + 3];
        if constexpr (CHANNELS == 1) {
            const u32 ab = __byte_perm(a, b, 0x5140), cd = __byte_perm(c, d, 0x5140);
            const u32 ab2 = __byte_perm(a, b, 0x7362), cd2 = __byte_perm(c, d, 0x7362);
            u32* to = words + p / 4;
            to[0] = __byte_perm(ab, cd, 0x5410), to[PIXELS / 4] = __byte_perm(ab, cd, 0x7632);
            to[PIXELS / 2] = __byte_perm(ab2, cd2, 0x5410), to[PIXELS / 4 * 3] = __byte_perm(ab2, cd2, 0x7632);
        } else if constexpr (CHANNELS == 2) {
            u32* to = words + p / 2;
            to[0] = __byte_perm(a, b, 0x5410), to[1] = __byte_perm(c, d, 0x5410);
            to[PIXELS / 2] = __byte_perm(a, b, 0x7632), to[PIXELS / 2 + 1] = __byte_perm(c, d, 0x7632);
        } else if constexpr (CHANNELS == 3) {
            u32* to = words + p / 4 * 3;
            to[0] = __byte_perm(a, b, 0x4210), to[1] = __byte_perm(b, c, 0x5421), to[2] = __byte_perm(c, d, 0x6542);
        } else {
            words[p] = a, words[p + 1] = b, words[p + 2] = c, words[p + 3] = d;
        }
    }
}

struct Masks {
    u32 filtered, copied, filled;

    __device__ __forceinline__ explicit Masks(const CudaconvJob& job) : filtered(0), copied(0), filled(0) {
#pragma unroll
        for (int k = 0; k < WORD; ++k) {
            const CudaconvChannel& channel = job.channels[job.channel_count == 3 ? 0 : k & (job.channel_count - 1)];
            const u32 mask = 0xffu << 8 * k;
            if (channel.action == CUDACONV_FILTER) filtered |= mask;
            if (channel.action == CUDACONV_COPY) copied |= mask;
            if (channel.action == CUDACONV_FILL) filled |= channel.fill << 8 * k & mask;
        }
    }

    __device__ __forceinline__ u32 mixed(u32 codes, u32 centre) const {
        return (codes & filtered) | filled | (centre & copied);
    }
};

// Writes a thread's pixels of the rows from `y` on; `own` is memory that no other thread uses.
template <int CHANNELS>
DEVICE void write_rows(const Strip& strip, const Masks& masks, const u32 (&codes)[PIXELS], int y, u32* own) {
    using L = Layout<CHANNELS>;
    const int byte = strip.x * CHANNELS, left = strip.row_bytes - byte;
    u32 words[PIXELS];
    arrange<CHANNELS>(words, codes);
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
            for (int b = 0; b < left; ++b) write_sample<u8>(to + b, reinterpret_cast<const u8*>(own)[b]);
    }
}

// The same of a job of which nothing is filtered: `count` pixels from `first` on.
DEVICE void copy_or_fill(const Strip& strip, const Masks& masks, int first, int count) {
    const int channels = strip.job.channel_count, end = min((first + count) * channels, strip.row_bytes);
#pragma unroll 1
    for (int y = strip.y; y < strip.end; ++y) {
        const cudaconv_u64 from = strip.input(y), to = strip.output(y);
#pragma unroll 1
        for (int byte = first * channels + lane() * WORD; byte < end; byte += WARP * WORD) {
            u32 word = masks.mixed(0, masks.copied ? read_sample<u32>(from + byte) : 0);
            if (byte + WORD <= end) {
                write_sample(to + byte, word);
            } else {
#pragma unroll 1
                for (int at = byte; at < end; ++at, word >>= 8) write_sample<u8>(to + at, word);
            }
        }
    }
}

// --- A strip -------------------------------------------------------------------------------------

#define BY_CHANNELS(channels, call)   \
    switch (channels) {               \
        case 1: call(1); break;       \
        case 2: call(2); break;       \
        case 3: call(3); break;       \
        default: call(4);             \
    }

DEVICE u32 constant_of(const CudaconvJob& job) {
    u32 codes = 0;
#pragma unroll
    for (int k = 0; k < WORD; ++k) {
        const CudaconvChannel& channel = job.channels[job.channel_count == 3 ? k % 3 : k & (job.channel_count - 1)];
        codes |= (static_cast<u32>(channel.beyond + channel.zero) & 0xff) << 8 * k;
    }
    return codes;
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

DEVICE void walk(const CudaconvConvolveLaunch& launch, const CudaconvJob& job, Shared& shared) {
    const CudaconvFrame& frame = launch.frame;
    const int channels = job.channel_count, step_rows = rows_of(channels);
    const int radius_x = launch.kernels[0].width / 2, radius_y = launch.kernels[0].height / 2;
    const int beside = lanes_beside(radius_x);
    const int rows = frame.tile_height / WARPS, width = job.width;
    const int left = blockIdx.x * (STRIP - 2 * beside * PIXELS) - beside * PIXELS;
    const int y = (blockIdx.y - job.first_tile_row) * frame.tile_height + threadIdx.x / WARP * rows;
    const int end = min(y + rows, static_cast<int>(job.height));
    if (y >= end) return;
    Strip strip = {frame, job, radius_x, radius_y, left + lane() * PIXELS, y, end, width * channels, 0, 0};
    const Masks masks(job);
    if (masks.filtered == 0) {
        copy_or_fill(strip, masks, left + beside * PIXELS, STRIP - 2 * beside * PIXELS);
        return;
    }
    strip.before = (2 * radius_y + 2 * step_rows) / (2 * step_rows);
    if (frame.border == CUDACONV_CONSTANT) strip.beyond = constant_of(job);
    const bool at_edge = left < 0 || left + STRIP > width;
    if (at_edge) find_columns(shared, strip, left);
    const bool writes = lane() >= beside && lane() < WARP - beside && strip.x < width;
    const float scale = launch.reciprocal * SCALE;
    const int steps = strip.before + (strip.end - y + step_rows - 1) / step_rows;
    const Places places(shared, radius_x);
    Bytes bytes;
    u32 columns[MOST_WORDS];
#pragma unroll
    for (int i = 0; i < MOST_WORDS; ++i) columns[i] = bytes[i] = 0;
#pragma unroll 1
    for (int step = -1; step < steps; ++step) {
        Pair pixels[PIXELS];
#define TAKE_STEP(channels) take_step<channels>(pixels, columns, bytes, strip, step, steps)
        BY_CHANNELS(channels, TAKE_STEP)
        if (step < strip.before) continue;
        if (at_edge) complete(pixels, strip, shared);
        add_up(pixels, shared);
        __syncwarp();
        u32 codes[PIXELS];
        take_codes(codes, places, scale);
        __syncwarp();
        if (writes) {
            u32* own = reinterpret_cast<u32*>(shared.sums + lane() * PITCH);
#define WRITE_ROWS(channels) write_rows<channels>(strip, masks, codes, y + (step - strip.before) * step_rows, own)
            BY_CHANNELS(channels, WRITE_ROWS)
        }
        __syncwarp();
    }
}

DEVICE void box(const CudaconvConvolveLaunch& launch) {
    __shared__ Shared shared[WARPS];
    const CudaconvFrame& frame = launch.frame;
    const CudaconvJob& job = frame.jobs[job_of(frame, blockIdx.y)];
    if (blockIdx.x < job.tiles_across) walk(launch, job, shared[threadIdx.x / WARP]);
}

#ifdef BOX_U8
extern "C" __global__ void __launch_bounds__(THREADS, BLOCKS)
    box_u8(const __grid_constant__ CudaconvConvolveLaunch launch) {
    box(launch);
}
#endif
