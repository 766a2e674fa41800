// Tiles of bytes in shared memory for the kernels that multiply with band matrices of weights
// (convolve_matrix.cu): how they are loaded and written.
//
// Each filtered channel has a plane of bytes, so those of packed jobs are taken apart before and put together
// afterwards. Samples of 16 bits have two, of their lower and of their upper bytes; their codes are raised to the
// upper end of the 16 bits, so that the upper byte says most whatever the depth.
#pragma once

#include "common.cuh"

constexpr int WARPS = 4;
constexpr int THREADS = WARPS * WARP;
// Of the products: outputs of a row, rows.
constexpr int OUTPUTS = 16;
constexpr int GROUP = 8;
// Of a warp: products beside and below each other.
constexpr int PRODUCTS = 4;
constexpr int GROUPS = 2;
// Warps beside each other.
constexpr int ACROSS = 2;
constexpr int WIDTH = ACROSS * PRODUCTS * OUTPUTS;
constexpr int HEIGHT = WARPS / ACROSS * GROUPS * GROUP;
// Bytes of a channel that is alone that are loaded and stored at a time.
constexpr int UNIT = 8;
constexpr int WORD = 4;
// Of the tile with its halo.
constexpr int MOST_COLUMNS = WIDTH + 2 * CUDACONV_MAX_RADIUS;
constexpr int MOST_ROWS = HEIGHT + 2 * CUDACONV_MAX_RADIUS;
// Rows of the kernel whose weights a thread has at a time, 8 apart.
constexpr int APART = 2;
// Digits whose matrices are in shared memory, if they are few enough.
constexpr int PLACES = 2;

// What all blocks have in common.
struct Window {
    int left, above;  // samples of the tile before the outputs, whole units across
    int columns, rows, pitch;
    int slices;       // products for each row of the kernel
    int digits;
    bool single;      // the matrices of a digit are there at once

    __device__ __forceinline__ explicit Window(const CudaconvConvolveLaunch& launch) : digits(launch.digits) {
        const CudaconvTaps& taps = launch.kernels[0];
        const int radius = taps.width / 2;
        left = (radius + UNIT - 1) / UNIT * UNIT;
        above = taps.height / 2;
        columns = WIDTH + 2 * left;
        rows = HEIGHT + 2 * above;
        slices = (left + radius + OUTPUTS + 31) / 32;
        // An odd number of 16 bytes: eight rows of them meet all banks.
        pitch = WIDTH + 32 * slices - OUTPUTS;
        single = slices == 1 && taps.height <= APART * GROUP;
    }

    // For how many digits there is room.
    __device__ __forceinline__ int room() const { return single ? min(digits, PLACES) : 1; }
};

// --- Packed samples ------------------------------------------------------------------------------

// Picks four bytes of four words: the same of the first two and of the others, then of both.
struct Pick {
    u32 of_two, of_all;

    __device__ __forceinline__ u32 from(const u32 (&w)[4]) const {
        return __byte_perm(__byte_perm(w[0], w[1], of_two), __byte_perm(w[2], w[3], of_two), of_all);
    }
};

// Sixteen bytes, or twelve, of places of two to four interleaved bytes become words of one byte of four places each:
// all of the first four places, then those of the next.
struct Picks {
    Pick of[4];

    template <int BYTES>
    __device__ __forceinline__ void take_apart() {
#pragma unroll
        for (int word = 0; word < 4; ++word)
            pick(word, [&](int i) { return BYTES * (word / BYTES * 4 + i) + word % BYTES; });
    }

    template <int BYTES>
    __device__ __forceinline__ void put_together() {
#pragma unroll
        for (int word = 0; word < 4; ++word)
            pick(word, [&](int i) {
                const int at = 4 * word + i, place = at / BYTES;
                return 4 * (place / 4 * BYTES + at % BYTES) + place % 4;
            });
    }

private:
    // The bytes of a word are those of sixteen that `at` says.
    template <typename At>
    __device__ __forceinline__ void pick(int word, At at) {
        of[word] = {0, 0};
#pragma unroll
        for (int i = 0; i < 4; ++i) {
            of[word].of_two |= static_cast<u32>(at(i) & 7) << 4 * i;
            of[word].of_all |= static_cast<u32>(at(i) / 8 * 4 + i) << 4 * i;
        }
    }
};

template <typename Sample>
DEVICE Picks apart(int bytes) {
    Picks picks;
    if (bytes == 2) picks.take_apart<2>();
    else if (sizeof(Sample) == 1 && bytes == 3) picks.take_apart<3>();
    else picks.take_apart<4>();
    return picks;
}

template <typename Sample>
DEVICE Picks together(int bytes) {
    Picks picks;
    if (bytes == 2) picks.put_together<2>();
    else if (sizeof(Sample) == 1 && bytes == 3) picks.put_together<3>();
    else picks.put_together<4>();
    return picks;
}

// Places of so many bytes that are read and written at once.
DEVICE int places_at_once(int bytes) { return bytes <= 2 ? 8 : 4; }

template <typename Sample>
DEVICE void read_words(u32 (&w)[4], int bytes, cudaconv_u64 address) {
    if (sizeof(Sample) == 1 && bytes == 3) {
#pragma unroll
        for (int i = 0; i < 3; ++i) w[i] = read_sample<u32>(address + i * sizeof(u32));
        w[3] = 0;
    } else {
        const uint4 four = read_sample<uint4>(address);
        w[0] = four.x, w[1] = four.y, w[2] = four.z, w[3] = four.w;
    }
}

template <typename Sample>
DEVICE void write_words(const u32 (&w)[4], int bytes, cudaconv_u64 address) {
    if (sizeof(Sample) == 1 && bytes == 3) {
#pragma unroll
        for (int i = 0; i < 3; ++i) write_sample(address + i * sizeof(u32), w[i]);
    } else {
        write_sample(address, make_uint4(w[0], w[1], w[2], w[3]));
    }
}

// --- Samples of 16 bits --------------------------------------------------------------------------

// Bits that codes are raised by.
DEVICE int spare_bits(const CudaconvFrame& frame) { return __clz(static_cast<int>(frame.max_code)) - 16; }

DEVICE float power_of_two(int exponent) { return __uint_as_float(static_cast<u32>(127 + exponent) << 23); }

// Two samples with their codes at the upper ends.
DEVICE u32 raised(const CudaconvFrame& frame, u32 two) {
    if (frame.sample == CUDACONV_U16_BE) two = __byte_perm(two, 0, 0x2301);
    const int spare = spare_bits(frame);
    const u32 mask = (0xffffu << spare & 0xffffu) * 0x10001u;
    return two << (spare - frame.shift) & mask;
}

// Two samples, of codes of 16 bits.
DEVICE u32 lowered(const CudaconvFrame& frame, u32 two) {
    return frame.sample == CUDACONV_U16_BE ? __byte_perm(two, 0, 0x2301) : two << frame.shift;
}

// --- The tile ------------------------------------------------------------------------------------

// Channels of a job that lie together, with the planes of those that are filtered.
template <typename Sample>
struct Channels {
    const CudaconvFrame& frame;
    const CudaconvJob& job;
    int first;
    // Of the tile in shared memory.
    u8* tile;
    int plane_bytes;

    __device__ __forceinline__ const CudaconvChannel& at(int c) const { return job.channels[first + c]; }
    __device__ __forceinline__ bool is_filtered(int c) const { return at(c).action == CUDACONV_FILTER; }
    // Of all planes of a channel.
    __device__ __forceinline__ int bytes() const { return sizeof(Sample) * plane_bytes; }
};

// Copies of bytes to shared memory that a thread does not wait for.
template <int BYTES>
DEVICE void copy_later(void* to, cudaconv_u64 from) {
    asm volatile("cp.async.ca.shared.global [%0], [%1], %2;"
                 :: "r"(static_cast<u32>(__cvta_generic_to_shared(to))), "l"(from), "n"(BYTES) : "memory");
}

DEVICE void wait_for_copies() { asm volatile("cp.async.wait_all;" ::: "memory"); }

// What no output needs.
constexpr int UNNEEDED = -2;

// Where the columns and rows of a tile at the edge are found in the picture.
struct alignas(16) Positions {
    short of_column[MOST_COLUMNS];
    short of_row[MOST_ROWS];

    __device__ __forceinline__ void find(const CudaconvFrame& frame, const CudaconvJob& job, const Window& window, int x0,
                                         int y0) {
#pragma unroll 1
        for (int i = threadIdx.x; i < window.columns + window.rows; i += THREADS) {
            const bool across = i < window.columns;
            const int row = i - window.columns, at = across ? x0 + i : y0 + row;
            const int length = across ? job.width : job.height, beyond = across ? window.left : window.above;
            const short position = at < length + beyond ? border_position(frame.border, at, length) : UNNEEDED;
            if (across) of_column[i] = position;
            else of_row[row] = position;
        }
    }
};

// Whether samples of a row from `x` on are in the picture or in the row that stands for theirs, which `y` becomes.
DEVICE bool is_taken(const Positions& positions, bool inside, int row, int x, int samples, int width, int& y) {
    if (inside) return true;
    y = positions.of_row[row];
    return x >= 0 && x + samples <= width && y >= 0;
}

// Units of one byte a place that lie in the picture, or in the row that stands for theirs: nothing is to be taken apart.
// First those of the columns of outputs, whose threads are found without a division, then those behind.
template <typename Sample>
DEVICE void load_bytes(const Channels<Sample>& channels, const Window& window, const Positions& positions, int x0, int y0,
                       bool inside) {
    constexpr int UNITS = WIDTH / UNIT;
    const CudaconvChannel& first = channels.at(0);
    const auto load_unit = [&](int row, int column) {
        const int x = x0 + column;
        int y = y0 + row;
        if (is_taken(positions, inside, row, x, UNIT, channels.job.width, y))
            copy_later<UNIT>(channels.tile + row * window.pitch + column,
                             first.input + (static_cast<u32>(y) * first.input_stride + x));
    };
#pragma unroll 1
    for (int row = threadIdx.x / UNITS; row < window.rows; row += THREADS / UNITS)
        load_unit(row, threadIdx.x % UNITS * UNIT);
    // Of two, four, six or eight units a row.
    const int shift = min(window.left / UNIT, 3), unit = threadIdx.x & (1 << shift) - 1;
    if (unit * UNIT >= 2 * window.left) return;
#pragma unroll 1
    for (int row = threadIdx.x >> shift; row < window.rows; row += THREADS >> shift) load_unit(row, WIDTH + unit * UNIT);
}

// Where the words of `Picks` are in the planes of filtered channels, from the first of their places on; -1 for those of
// other channels.
struct Targets {
    int of[4];

    template <typename Sample>
    __device__ __forceinline__ Targets(const Channels<Sample>& channels, int bytes) {
        int plane = 0;
#pragma unroll
        for (int word = 0; word < 4; ++word) {
            of[word] = -1;
            if (word >= bytes) {
                // Of the next four places.
                if (bytes == 2 && of[word - 2] >= 0) of[word] = of[word - 2] + WORD;
            } else if (channels.is_filtered(word / sizeof(Sample))) {
                of[word] = plane;
                plane += channels.plane_bytes;
            }
        }
    }
};

// The same of places of `bytes` bytes, which are taken apart.
template <typename Sample>
DEVICE void load_packed(const Channels<Sample>& channels, const Window& window, const Positions& positions, int bytes,
                        int x0, int y0, bool inside) {
    const CudaconvChannel& first = channels.at(0);
    const int unit = places_at_once(bytes), across = window.columns / unit, count = across * window.rows;
    const int rows_apart = THREADS / across, units_apart = THREADS % across;
    constexpr int BATCH = 4;
    const Picks picks = apart<Sample>(bytes);
    const Targets targets(channels, bytes);
    Walk walk(across, threadIdx.x);
#pragma unroll 1
    while (walk.index < count) {
        u32 words[BATCH][4];
        int places[BATCH];
#pragma unroll
        for (int i = 0; i < BATCH; ++i) {
            const int x = x0 + walk.column * unit;
            int y = y0 + walk.row;
            const bool taken =
                walk.index < count && is_taken(positions, inside, walk.row, x, unit, channels.job.width, y);
            places[i] = taken ? walk.row * window.pitch + walk.column * unit : -1;
            if (taken)
                read_words<Sample>(words[i], bytes,
                                   first.input + (static_cast<u32>(y) * first.input_stride + x * bytes));
            walk.step(across, THREADS, rows_apart, units_apart);
        }
#pragma unroll
        for (int i = 0; i < BATCH; ++i) {
            if (places[i] < 0) continue;
            if constexpr (sizeof(Sample) == 2) {
#pragma unroll
                for (u32& two : words[i]) two = raised(channels.frame, two);
            }
            u8* place = channels.tile + places[i];
#pragma unroll
            for (int word = 0; word < 4; ++word)
                if (targets.of[word] >= 0)
                    *reinterpret_cast<u32*>(place + targets.of[word]) = picks.of[word].from(words[i]);
        }
    }
}

template <typename Sample>
DEVICE void load(const Channels<Sample>& channels, const Window& window, const Positions& positions, int bytes, int x0,
                 int y0, bool inside) {
    if (sizeof(Sample) == 1 && bytes == 1) load_bytes(channels, window, positions, x0, y0, inside);
    else load_packed(channels, window, positions, bytes, x0, y0, inside);
}

// The words of a tile at the edge that are not loaded `unit` samples at a time, beside the picture and of rows beyond it.
template <typename Sample>
DEVICE void gather_words(const Channels<Sample>& channels, const Window& window, const Positions& positions, int count,
                         int unit, int x0) {
    const CudaconvFrame& frame = channels.frame;
    const int width = channels.job.width;
    // Words to the left of the units in the picture, and from there on.
    const int left = x0 < 0 ? min(-x0, window.columns) / WORD : 0;
    // No output needs more than `window.left` samples to the right of the picture.
    const int all = min(window.columns, width + window.left - x0 + WORD - 1) / WORD;
    const int right = min(max(left, (width - x0) / unit * unit / WORD), all);
    const int spare = sizeof(Sample) == 2 ? spare_bits(frame) : 0;
    u8* plane = channels.tile;
#pragma unroll 1
    for (int c = 0; c < count; ++c) {
        if (!channels.is_filtered(c)) continue;
        const CudaconvChannel& channel = channels.at(c);
        // The host sees to it that it is one.
        const u32 beyond = static_cast<u32>(channel.beyond + channel.zero) << spare;
        // All words of rows beyond the picture.
        const int rows = frame.border == CUDACONV_CONSTANT ? window.rows : 0;
#pragma unroll 1
        for (int row = threadIdx.x / WARP; row < rows; row += WARPS) {
            if (positions.of_row[row] != BEYOND) continue;
#pragma unroll 1
            for (int i = lane(); i < all; i += WARP) {
#pragma unroll
                for (int byte = 0; byte < static_cast<int>(sizeof(Sample)); ++byte)
                    reinterpret_cast<u32*>(plane + byte * channels.plane_bytes + row * window.pitch)[i] =
                        (beyond >> 8 * byte & 0xff) * 0x01010101u;
            }
        }
        const int words = left + all - right;
#pragma unroll 1
        for (int i = threadIdx.x; i < words * window.rows; i += THREADS) {
            const int row = i / words, y = positions.of_row[row];
            if (y < 0) continue;
            const int word = i % words < left ? i % words : i % words - left + right;
            const short4 at = *reinterpret_cast<const short4*>(positions.of_column + word * WORD);
            const int places[WORD] = {at.x, at.y, at.z, at.w};
            u32 bytes[sizeof(Sample)] = {};
#pragma unroll
            for (int k = 0; k < WORD; ++k) {
                // All are loaded, so that none waits for another.
                const u32 sample = read_sample<Sample>(input_at(channel, max(places[k], 0), y));
                const u32 code = places[k] == BEYOND ? beyond : code_of<Sample>(frame, sample) << spare;
#pragma unroll
                for (int byte = 0; byte < static_cast<int>(sizeof(Sample)); ++byte)
                    bytes[byte] |= (code >> 8 * byte & 0xff) << 8 * k;
            }
#pragma unroll
            for (int byte = 0; byte < static_cast<int>(sizeof(Sample)); ++byte)
                reinterpret_cast<u32*>(plane + byte * channels.plane_bytes + row * window.pitch)[word] = bytes[byte];
        }
        plane += channels.bytes();
    }
}

// --- Rows ----------------------------------------------------------------------------------------

// The bytes of samples of channels that are not filtered.
template <typename Sample>
DEVICE u32 filled(const CudaconvFrame& frame, const CudaconvChannel& channel, int byte) {
    const u32 sample = sample_of<Sample>(frame, channel.fill);
    return (sample >> 8 * byte & 0xff) * 0x01010101u;
}

// Units that lie in the picture, two at a time, from the planes, which hold bytes of samples as they are to be.
template <typename Sample>
DEVICE void write_bytes(const Channels<Sample>& channels, int pitch, int x0, int y0) {
    constexpr int PAIR = 2 * UNIT, PAIRS = WIDTH / PAIR;
    const CudaconvChannel& channel = channels.at(0);
#pragma unroll 1
    for (int i = threadIdx.x; i < PAIRS * HEIGHT; i += THREADS) {
        const int row = i / PAIRS, column = i % PAIRS * PAIR;
        const int x = x0 + column, y = y0 + row, left = static_cast<int>(channels.job.width) - x;
        if (left < UNIT || y >= static_cast<int>(channels.job.height)) continue;
        const bool both = left >= PAIR;
        uint4 pair;
        if (channel.action == CUDACONV_FILTER) {
            pair = *reinterpret_cast<const uint4*>(channels.tile + row * pitch + column);
        } else if (channel.action == CUDACONV_COPY) {
            const cudaconv_u64 from = channel.input + (static_cast<u32>(y) * channel.input_stride + x);
            const uint2 first = read_sample<uint2>(from), second = both ? read_sample<uint2>(from + UNIT) : first;
            pair = make_uint4(first.x, first.y, second.x, second.y);
        } else {
            pair.x = pair.y = pair.z = pair.w = filled<Sample>(channels.frame, channel, 0);
        }
        const cudaconv_u64 to = channel.output + (static_cast<u32>(y) * channel.output_stride + x);
        if (both) write_sample(to, pair);
        else write_sample(to, make_uint2(pair.x, pair.y));
    }
}

template <typename Sample>
DEVICE void write_packed(const Channels<Sample>& channels, int pitch, int bytes, int x0, int y0) {
    const int unit = places_at_once(bytes), units = WIDTH / unit;
    const CudaconvJob& job = channels.job;
    const CudaconvChannel& first = channels.at(0);
    const Picks taken_apart = apart<Sample>(bytes), picks = together<Sample>(bytes);
    const Targets targets(channels, bytes);
    bool copied[4], any = false;
    u32 fills[4];
#pragma unroll
    for (int word = 0; word < 4; ++word) {
        const int byte = word < bytes ? word : word % 2;
        const CudaconvChannel& channel = channels.at(byte / sizeof(Sample));
        copied[word] = channel.action == CUDACONV_COPY;
        any = any || copied[word];
        fills[word] = filled<Sample>(channels.frame, channel, byte % sizeof(Sample));
    }
#pragma unroll 1
    for (int i = threadIdx.x; i < units * HEIGHT; i += THREADS) {
        const int row = i / units, column = i % units * unit;
        const int x = x0 + column, y = y0 + row;
        if (x + unit > static_cast<int>(job.width) || y >= static_cast<int>(job.height)) continue;
        u32 in[4], planes[4], out[4];
        if (any) read_words<Sample>(in, bytes, first.input + (static_cast<u32>(y) * first.input_stride + x * bytes));
        const u8* place = channels.tile + row * pitch + column;
#pragma unroll
        for (int word = 0; word < 4; ++word) {
            planes[word] = copied[word] ? taken_apart.of[word].from(in) : fills[word];
            if (targets.of[word] >= 0) planes[word] = *reinterpret_cast<const u32*>(place + targets.of[word]);
        }
#pragma unroll
        for (int word = 0; word < 4; ++word) out[word] = picks.of[word].from(planes);
        write_words<Sample>(out, bytes, first.output + (static_cast<u32>(y) * first.output_stride + x * bytes));
    }
}

template <typename Sample>
DEVICE void write(const Channels<Sample>& channels, int pitch, int bytes, int x0, int y0) {
    if (sizeof(Sample) == 1 && bytes == 1) write_bytes(channels, pitch, x0, y0);
    else write_packed(channels, pitch, bytes, x0, y0);
}

// The ends of rows that are no whole units.
template <typename Sample>
DEVICE void write_ends(const Channels<Sample>& channels, int pitch, int count, int unit, int x0, int y0) {
    const int width = channels.job.width, height = channels.job.height;
    const int begin = width / unit * unit;
    if (begin < x0 || begin >= x0 + WIDTH) return;
    const u8* plane = channels.tile + begin - x0;
#pragma unroll 1
    for (int c = 0; c < count; ++c) {
        const CudaconvChannel& channel = channels.at(c);
#pragma unroll 1
        for (int i = threadIdx.x; i < HEIGHT * unit; i += THREADS) {
            const int x = begin + i % unit, row = i / unit;
            if (x >= width || y0 + row >= height) continue;
            if (!channels.is_filtered(c)) {
                copy_or_fill<Sample>(channels.frame, channel, x, y0 + row);
                continue;
            }
            const u8* from = plane + row * pitch + i % unit;
            u32 sample = from[0];
            if (sizeof(Sample) == 2) sample |= from[channels.plane_bytes] << 8;
            write_sample<Sample>(output_at(channel, x, y0 + row), sample);
        }
        if (channels.is_filtered(c)) plane += channels.bytes();
    }
}
