// How slabs of samples are read, the channels of each taken apart and its edges completed.
#pragma once

#include "slabs.cuh"

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
            if (n == 0 && S::IS_422) to[1] = place + tile.begin(2) + (there ? pixel : 0);
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

// The same of packed 4:2:2, a run of which is 16 samples of luma and 8 of U and of V.
template <typename S>
DEVICE void stage_422(Shared<S>& shared, const Held<S>& held, const Tile<S>& tile, const Runs<S>& runs) {
    const u32 select = tile.luma() ? 0x7531 : 0x6420;
    u32 luma[CUDACONV_CHANNELS], chroma[CUDACONV_CHANNELS];
#pragma unroll
    for (int n = 0; n < CUDACONV_CHANNELS; ++n) {
        luma[n] = __byte_perm(held[n].x, held[n].y, select);
        chroma[n] = __byte_perm(held[n].x, held[n].y, select ^ 0x1111);
    }
    uint2* to = shared.template at<uint2>(runs.to[0]);
    to[0] = make_uint2(__byte_perm(chroma[0], chroma[1], 0x6420), __byte_perm(chroma[2], chroma[3], 0x6420));
    to[Runs<S>::across(CUDACONV_CHANNELS)] =
        make_uint2(__byte_perm(chroma[0], chroma[1], 0x7531), __byte_perm(chroma[2], chroma[3], 0x7531));
    uint2* to_luma = shared.template at<uint2>(runs.to[1]);
    to_luma[0] = make_uint2(luma[0], luma[1]);
    to_luma[1] = make_uint2(luma[2], luma[3]);
}

// The code value of a channel at (x, y), either of which may be BEYOND.
template <typename S>
DEVICE u32 code_at(const Tile<S>& tile, int c, int x, int y) {
    const CudaconvChannel& channel = tile.of(c);
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

// The same of channel c of packed 4:2:2: of loaded samples `begin` to `end` - 1.
template <typename S>
DEVICE void gather_422(Shared<S>& shared, const Tile<S>& tile, int slab, int c, int begin, int end) {
    const int row = threadIdx.x % ROWS, y = tile.position(slab * ROWS + row);
    const int lead = (tile.x0 - S::HALO) * tile.times(c), all = tile.loaded() * tile.times(c);
    u8* const to = shared.template row_of_samples<u8>(row) + tile.begin(c);
#pragma unroll 1
    for (int at = begin + threadIdx.x / ROWS; at < end; at += THREADS / ROWS) {
        const int x = border_position(tile.frame.border, lead + at, tile.samples(c)), known = x - lead;
        const bool is_known = tile.aligned_input && x != BEYOND && known >= 0 && known < all;
        to[at] = is_known ? to[known] : code_at(tile, c, x, y);
    }
}

// As complete.
template <typename S>
DEVICE void complete_422(Shared<S>& shared, const Tile<S>& tile, int slab) {
    const int top = tile.y0 - tile.radius + slab * ROWS;
    const bool constant = tile.frame.border == CUDACONV_CONSTANT && (top < 0 || top + ROWS > tile.height());
    const bool inside = tile.x0 >= S::HALO && tile.x0 + tile.pixels + S::HALO <= tile.width();
    if (inside && tile.aligned_input && !constant) return;
    __syncthreads();
    const int row = threadIdx.x % ROWS;
    const bool beyond = constant && tile.position(slab * ROWS + row) == BEYOND;
#pragma unroll 1
    for (int c = 0; c < tile.lines(); ++c) {
        const int times = tile.times(c), halo = S::HALO * times, all = tile.loaded() * times;
        const int end = min(tile.samples(c) - tile.x0 * times + halo, all);
#pragma unroll 1
        for (int side = 0; side < 2; ++side) {
            const int left_end = !tile.aligned_input ? end : tile.x0 == 0 ? halo : 0;
            const int begin = side == 1 ? end : tile.aligned_input ? halo - tile.radius : 0;
            gather_422(shared, tile, slab, c, begin, side == 1 ? min(end + tile.radius, all) : left_end);
        }
    }
    if (!constant) return;
    __syncthreads();
    if (!beyond) return;
#pragma unroll 1
    for (int c = 0; c < tile.lines(); ++c) {
        u8* const to = shared.template row_of_samples<u8>(row) + tile.begin(c);
#pragma unroll 1
        for (int at = threadIdx.x / ROWS; at < tile.loaded() * tile.times(c); at += THREADS / ROWS)
            to[at] = code_at(tile, c, BEYOND, BEYOND);
    }
}

template <typename S>
DEVICE void stage(Shared<S>& shared, const Held<S>& held, const Tile<S>& tile, const Runs<S>& runs, int slab) {
    if (tile.aligned_input) {
        if constexpr (S::IS_422)
            stage_422(shared, held, tile, runs);
        else if (tile.channels == 1)
            stage<S, 1>(shared, held, tile, runs);
        else if (tile.channels == 4)
            stage<S, 4>(shared, held, tile, runs);
        else if (tile.channels == 2)
            stage<S, 2>(shared, held, tile, runs);
        else if constexpr (S::SIZE == 1)
            stage<S, 3>(shared, held, tile, runs);
    }
    if (!tile.edge) return;
    if constexpr (S::IS_422)
        complete_422(shared, tile, slab);
    else
        complete(shared, tile, slab);
}
