// The bilateral filter: means weighted by distance and by difference from the centre,
// out = c + sum of w * (in - c) / sum of w, w = exp2(space + color * difference^2).
//
// Bytes: each sample read once and written once, 1 µs for 1080p GRAY8 at 4.3 TB/s: nothing beside
// the operations, one weight per tap and sample. An exponential takes a scheduler 8 cycles per
// warp: the 149 taps of the circle of radius 7 take 1080p GRAY8 at least 74 µs at 1.98 GHz on 132
// multiprocessors; the 8 instructions around it can be issued in the same time.
//
// naive: a block of 32 x 8 threads, one sample each; every tap is read from global memory.
// tile: a block of 32 x 8 threads computes 32 columns by 32 rows (16 where 32 do not fit into
// 48 KiB), a thread 4 rows of one column, whose chains of sums are independent and share the
// spatial exponents. The tile with its halo holds floats; where several channels share a weight
// or are premultiplied, four code values side by side. Jobs with and without premultiplication have
// modules of their own.
#include "bilateral.cuh"

constexpr int THREADS = 256;
constexpr int NAIVE_HEIGHT = THREADS / WIDTH;
constexpr int ROWS = 4;
// Blocks of a multiprocessor: leaves 80 registers.
constexpr int BLOCKS = 3;

// Channels that have one weight together: one, or the three joint ones. Values are in' or, of
// premultiplied channels, its products with alpha.
template <typename Sample, int CHANNELS, bool PREMULTIPLIED>
struct Set {
    const CudaconvBilateralLaunch& launch;
    const CudaconvJob& job;
    int channels[CHANNELS];
    float color;

    struct Pixel {
        float values[CHANNELS];
        float alpha;
    };

    // Alpha itself is a channel by which nothing is multiplied.
    bool by_alpha;

    __device__ __forceinline__ Set(const CudaconvBilateralLaunch& launch, const CudaconvJob& job, u32 mask)
        : launch(launch), job(job), by_alpha(PREMULTIPLIED && mask != 1u << job.alpha) {
        color = by_alpha ? launch.color_premultiplied : launch.color;
#pragma unroll
        for (int c = 0; c < CHANNELS; ++c) {
            channels[c] = __ffs(mask) - 1;
            mask &= mask - 1;
        }
    }

    __device__ __forceinline__ const CudaconvChannel& channel(int c) const { return job.channels[channels[c]]; }
    __device__ __forceinline__ const CudaconvChannel& alpha() const { return job.channels[job.alpha]; }

    // Anywhere, also beyond the edge.
    __device__ __forceinline__ Pixel at(int x, int y) const {
        Pixel pixel;
        x = border_position(launch.frame.border, x, job.width);
        y = border_position(launch.frame.border, y, job.height);
        pixel.alpha = by_alpha ? value_in<Sample>(launch.frame, alpha(), x, y) : 1.0f;
#pragma unroll
        for (int c = 0; c < CHANNELS; ++c) {
            pixel.values[c] = value_in<Sample>(launch.frame, channel(c), x, y);
            if (PREMULTIPLIED) pixel.values[c] *= pixel.alpha;
        }
        return pixel;
    }

    // The weighted sums of differences from the centre; of premultiplied values themselves, as differences cancel out where
    // alpha is small.
    struct Sums {
        float values[CHANNELS] = {};
        float alpha = 0.0f;
        float weights = 0.0f;
    };

    __device__ __forceinline__ void add(Sums& sums, const Pixel& centre, const Pixel& pixel, float space) const {
        float differences[CHANNELS], squared;
#pragma unroll
        for (int c = 0; c < CHANNELS; ++c) differences[c] = pixel.values[c] - centre.values[c];
        if (CHANNELS > 1 && launch.distance == CUDACONV_L1) {
            float distance = 0.0f;
#pragma unroll
            for (int c = 0; c < CHANNELS; ++c) distance += fabsf(differences[c]);
            squared = distance * distance;
        } else {
            squared = 0.0f;
#pragma unroll
            for (int c = 0; c < CHANNELS; ++c) squared = fmaf(differences[c], differences[c], squared);
        }
        const float weight = exp2_approximate(fmaf(color, squared, space));
#pragma unroll
        for (int c = 0; c < CHANNELS; ++c)
            sums.values[c] = fmaf(weight, PREMULTIPLIED ? pixel.values[c] : differences[c], sums.values[c]);
        if (PREMULTIPLIED) sums.alpha = fmaf(weight, pixel.alpha, sums.alpha);
        sums.weights += weight;
    }

    __device__ __forceinline__ void write(int x, int y, const Pixel& centre, const Sums& sums) const {
        if (x >= static_cast<int>(job.width) || y >= static_cast<int>(job.height)) return;
        const float opacity = PREMULTIPLIED ? __fdiv_rn(sums.alpha, sums.weights) : 0.0f;
#pragma unroll
        for (int c = 0; c < CHANNELS; ++c) {
            const float mean = PREMULTIPLIED ? unpremultiplied(sums.values[c], sums.alpha, opacity)
                                             : centre.values[c] + __fdiv_rn(sums.values[c], sums.weights);
            write_result<Sample>(launch.frame, channel(c), x, y, mean);
        }
    }
};

// Calls `visit(dx, dy, exponent)` for every tap of the window, the centre among them.
template <typename Visit>
DEVICE void for_each_tap(const CudaconvBilateralLaunch& launch, Visit visit) {
    const int radius_y = launch.radius_y, line = launch.radius_x + 1;
    const float* weights = reinterpret_cast<const float*>(launch.weights);
#pragma unroll 1
    for (int dy = -radius_y; dy <= radius_y; ++dy) {
        const int span = launch.spans[abs(dy)];
        const float* exponents = weights + abs(dy) * line;
#pragma unroll 1
        for (int dx = -span; dx <= span; ++dx) visit(dx, dy, __ldg(exponents + abs(dx)));
    }
}

// Calls `filter` with every set of channels of a job that has a weight of its own; channels of a job with
// an alpha channel are PREMULTIPLIED.
template <typename Sample, bool PREMULTIPLIED, typename Filter>
DEVICE void for_each_set(const CudaconvBilateralLaunch& launch, const CudaconvJob& job, Filter filter) {
    if (job.joint_or_filter) filter(Set<Sample, 3, PREMULTIPLIED>(launch, job, job.joint_or_filter));
#pragma unroll 1
    for (u32 c = 0; c < job.channel_count; ++c) {
        if (job.channels[c].action != CUDACONV_FILTER || job.joint_or_filter >> c & 1) continue;
        filter(Set<Sample, 1, PREMULTIPLIED>(launch, job, 1u << c));
    }
}

// --- naive ---------------------------------------------------------------------------------------

template <typename Sample, int CHANNELS, bool PREMULTIPLIED>
DEVICE void naive_set(const Set<Sample, CHANNELS, PREMULTIPLIED>& set, int x, int y) {
    const auto centre = set.at(x, y);
    typename Set<Sample, CHANNELS, PREMULTIPLIED>::Sums sums;
    for_each_tap(set.launch, [&](int dx, int dy, float space) { set.add(sums, centre, set.at(x + dx, y + dy), space); });
    set.write(x, y, centre, sums);
}

template <typename Sample>
DEVICE void naive(const CudaconvBilateralLaunch& launch) {
    const CudaconvFrame& frame = launch.frame;
    const CudaconvJob& job = frame.jobs[job_of(frame, blockIdx.y)];
    if (blockIdx.x >= job.tiles_across) return;
    const int x0 = blockIdx.x * WIDTH, y0 = (blockIdx.y - job.first_tile_row) * NAIVE_HEIGHT;
    copy_or_fill_tile<Sample>(frame, job, x0, y0, WIDTH, NAIVE_HEIGHT, threadIdx.x, THREADS);
    const int x = x0 + threadIdx.x % WIDTH, y = y0 + threadIdx.x / WIDTH;
    if (x >= static_cast<int>(job.width) || y >= static_cast<int>(job.height)) return;
    const auto filter = [&](const auto& set) { naive_set(set, x, y); };
    if (job.alpha >= 0) for_each_set<Sample, true>(launch, job, filter);
    else for_each_set<Sample, false>(launch, job, filter);
}

#ifdef BILATERAL_NAIVE_U8
KERNEL(bilateral_naive_u8, CudaconvBilateralLaunch, (THREADS), naive<u8>(launch))
#endif

#ifdef BILATERAL_NAIVE_U16
KERNEL(bilateral_naive_u16, CudaconvBilateralLaunch, (THREADS), naive<u16>(launch))
#endif

// --- tile ----------------------------------------------------------------------------------------

// Four code values side by side: of up to three channels, and of alpha the last.
template <typename Sample>
struct Packed;

template <>
struct Packed<u8> {
    u32 word;

    __device__ __forceinline__ void set(int slot, u32 code) { word |= code << 8 * slot; }
    // The code value as float, plus 2^23.
    __device__ __forceinline__ float whole(int slot) const {
        return __uint_as_float(__byte_perm(word, 0x4b000000, 0x7440 + slot));
    }
};

template <>
struct Packed<u16> {
    uint2 words;

    __device__ __forceinline__ void set(int slot, u32 code) { (slot < 2 ? words.x : words.y) |= code << 16 * (slot % 2); }
    __device__ __forceinline__ float whole(int slot) const {
        return __uint_as_float(__byte_perm(slot < 2 ? words.x : words.y, 0x4b000000, slot % 2 ? 0x7432 : 0x7410));
    }
};

constexpr int ALPHA_SLOT = 3;

// The code value at (x, y), a position in the picture or BEYOND. The host sees to it that what the
// border says of samples beyond the edge is a code value.
template <typename Sample>
DEVICE u32 tile_code(const CudaconvFrame& frame, const CudaconvChannel& channel, int x, int y) {
    if (x == BEYOND || y == BEYOND) return static_cast<u32>(channel.beyond + channel.zero);
    return code_of(frame, read_sample<Sample>(input_at(channel, x, y)));
}

// What a set reads from its tile: floats of one channel, packed code values else. `load` takes
// positions in the picture, or BEYOND.
template <typename Sample, int CHANNELS, bool PREMULTIPLIED>
struct TileOf {
    using Element = Packed<Sample>;
    using SetOf = Set<Sample, CHANNELS, PREMULTIPLIED>;

    static __device__ __forceinline__ Element load(const SetOf& set, int x, int y) {
        const CudaconvFrame& frame = set.launch.frame;
        Element element = {};
#pragma unroll
        for (int c = 0; c < CHANNELS; ++c) element.set(c, tile_code<Sample>(frame, set.channel(c), x, y));
        if (set.by_alpha) element.set(ALPHA_SLOT, tile_code<Sample>(frame, set.alpha(), x, y));
        return element;
    }

    static __device__ __forceinline__ typename SetOf::Pixel pixel(const SetOf& set, const Element& element) {
        typename SetOf::Pixel pixel;
        pixel.alpha = set.by_alpha ? element.whole(ALPHA_SLOT) - (WHOLE + set.alpha().zero) : 1.0f;
#pragma unroll
        for (int c = 0; c < CHANNELS; ++c) {
            pixel.values[c] = element.whole(c) - (WHOLE + set.channel(c).zero);
            if (PREMULTIPLIED) pixel.values[c] *= pixel.alpha;
        }
        return pixel;
    }
};

template <typename Sample>
struct TileOf<Sample, 1, false> {
    using Element = float;
    using SetOf = Set<Sample, 1, false>;

    static __device__ __forceinline__ float load(const SetOf& set, int x, int y) {
        return value_in<Sample>(set.launch.frame, set.channel(0), x, y);
    }

    static __device__ __forceinline__ typename SetOf::Pixel pixel(const SetOf&, float value) { return {{value}, 1.0f}; }
};

template <typename Sample, int CHANNELS, bool PREMULTIPLIED>
DEVICE void tile_set(const Set<Sample, CHANNELS, PREMULTIPLIED>& set, void* shared, const Positions& positions, int x0,
                     int y0, int tile_height) {
    using Tile = TileOf<Sample, CHANNELS, PREMULTIPLIED>;
    using Element = typename Tile::Element;
    const CudaconvBilateralLaunch& launch = set.launch;
    const int radius_x = launch.radius_x, radius_y = launch.radius_y;
    const int pitch = WIDTH + 2 * radius_x, rows = tile_height + 2 * radius_y;
    Element* tile = static_cast<Element*>(shared);

    __syncthreads();
    constexpr int AT_ONCE = CHANNELS == 1 && !PREMULTIPLIED ? 4 : 2;
    const int rows_apart = THREADS / pitch, columns_apart = THREADS % pitch;
    Walk walk(pitch, threadIdx.x);
#pragma unroll AT_ONCE
    for (; walk.index < pitch * rows; walk.step(pitch, THREADS, rows_apart, columns_apart))
        tile[walk.index] = Tile::load(set, positions.columns[walk.column], positions.rows[walk.row]);
    __syncthreads();
    const int x = threadIdx.x % WIDTH, y = threadIdx.x / WIDTH * ROWS;
    if (y >= tile_height) return;

    const Element* own = tile + (y + radius_y) * pitch + x + radius_x;
    typename Set<Sample, CHANNELS, PREMULTIPLIED>::Pixel centres[ROWS];
    typename Set<Sample, CHANNELS, PREMULTIPLIED>::Sums sums[ROWS];
#pragma unroll
    for (int h = 0; h < ROWS; ++h) centres[h] = Tile::pixel(set, own[h * pitch]);
    for_each_tap(launch, [&](int dx, int dy, float space) {
        const Element* row = own + dy * pitch + dx;
#pragma unroll
        for (int h = 0; h < ROWS; ++h) set.add(sums[h], centres[h], Tile::pixel(set, row[h * pitch]), space);
    });
#pragma unroll 1
    for (int h = 0; h < ROWS; ++h) {
        set.write(x0 + x, y0 + y + h, centres[0], sums[0]);
        // The next moves up, so that the code for one is there once.
#pragma unroll
        for (int k = 0; k + 1 < ROWS; ++k) {
            centres[k] = centres[k + 1];
            sums[k] = sums[k + 1];
        }
    }
}

template <typename Sample, bool PREMULTIPLIED>
DEVICE void tile_job(const CudaconvBilateralLaunch& launch, void* shared) {
    const CudaconvFrame& frame = launch.frame;
    const CudaconvJob& job = frame.jobs[job_of(frame, blockIdx.y)];
    if (blockIdx.x >= job.tiles_across) return;
    const int tile_height = frame.tile_height;
    const int x0 = blockIdx.x * WIDTH, y0 = (blockIdx.y - job.first_tile_row) * tile_height;
    copy_or_fill_tile<Sample>(frame, job, x0, y0, WIDTH, tile_height, threadIdx.x, THREADS);
    __shared__ Positions positions;
    positions.find(frame, job, x0 - static_cast<int>(launch.radius_x), y0 - static_cast<int>(launch.radius_y));
    for_each_set<Sample, PREMULTIPLIED>(
        launch, job, [&](const auto& set) { tile_set(set, shared, positions, x0, y0, tile_height); });
}

extern __shared__ float4 shared[];

#ifdef BILATERAL_TILE_U8
KERNEL(bilateral_tile_u8, CudaconvBilateralLaunch, (THREADS, BLOCKS), tile_job<u8, false>(launch, shared))
#endif
#ifdef BILATERAL_TILE_U16
KERNEL(bilateral_tile_u16, CudaconvBilateralLaunch, (THREADS, BLOCKS), tile_job<u16, false>(launch, shared))
#endif
#ifdef BILATERAL_PREMULTIPLIED_U8
KERNEL(bilateral_premultiplied_u8, CudaconvBilateralLaunch, (THREADS, BLOCKS), tile_job<u8, true>(launch, shared))
#endif
#ifdef BILATERAL_PREMULTIPLIED_U16
KERNEL(bilateral_premultiplied_u16, CudaconvBilateralLaunch, (THREADS, BLOCKS), tile_job<u16, true>(launch, shared))
#endif
