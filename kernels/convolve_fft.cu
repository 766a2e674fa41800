// Correlation with one kernel of any weights by the Fourier transform.
//
// A block transforms a rectangle of 2 * SIDE x SIDE samples, multiplies by the kernel's spectrum, and transforms back; of the
// result the columns and rows are right for which no tap reaches out of the rectangle (overlap-save): all but
// width - 1 and height - 1. Two neighbours of a row are the real and imaginary part of one complex point, so that the
// transforms are of SIDE x SIDE points. With Z their spectrum, Ke and Ko those of the kernel's even and odd columns, and t
// that of a shift by one point, the spectrum of the result is in the same form (T its conjugate at the opposite frequency)
//     (Ke + i/2 (t - 1) Ko) Z + i/2 (t + 1) Ko T,
// of which a table has both factors.
//
// Bytes: as the other linear kernels, with the halo read again by each rectangle from the caches. Operations do not depend
// on the kernel but by the size of its halo: about 2100 instructions for the 32 samples of a thread, half of them
// arithmetic of the transforms, which is 12 µs for 1080p grey and 31 x 31 at 132 multiprocessors * 128 lanes * 1.9 GHz.
//
// A position across or down is three digits of base 4. Each of six visits transforms along one digit across and one
// down: a thread has the 4 x 4 points of all values of the two. On the way there it reads them at their first
// digits and writes them as the last, so that all digits have had their turn after three visits, the frequency's digits
// stand in reverse order, and addresses are the same each time; on the way back it reads the last and writes the first.
#include "common.cuh"

constexpr int SIDE = CUDACONV_FOURIER_SIDE;
// Values of a digit, and of the two others together.
constexpr int DIGIT = 4, OTHERS = 16;
constexpr int THREADS = OTHERS * OTHERS;
// Up to 64 registers; of shared memory there is room for as many where there is most.
constexpr int BLOCKS = 4;

#ifdef CONVOLVE_FFT

// Where column x of a row is: of the sixteen points of one access by half a warp, whatever the digit that
// a visit is about, no two are in one bank.
DEVICE int placed(int x) { return x ^ (x >> 4) * 5; }

DEVICE float2 operator+(float2 a, float2 b) { return make_float2(a.x + b.x, a.y + b.y); }
DEVICE float2 operator-(float2 a, float2 b) { return make_float2(a.x - b.x, a.y - b.y); }

DEVICE float2 operator*(float2 a, float2 b) {
    return make_float2(fmaf(-a.y, b.y, a.x * b.x), fmaf(a.x, b.y, a.y * b.x));
}

// The transform of four points.
DEVICE void transform(float2& a, float2& b, float2& c, float2& d) {
    const float2 even = a + c, odd = a - c, sum = b + d, difference = b - d;
    const float2 turned = make_float2(difference.y, -difference.x);
    a = even + sum, b = odd + turned, c = even - sum, d = odd - turned;
}

// Of a thread: one for each value of a digit across and of one down.
struct Points {
    float2 at[DIGIT][DIGIT];
};

DEVICE void transform(Points& p) {
#pragma unroll
    for (int i = 0; i < DIGIT; ++i) transform(p.at[i][0], p.at[i][1], p.at[i][2], p.at[i][3]);
#pragma unroll
    for (int i = 0; i < DIGIT; ++i) transform(p.at[0][i], p.at[1][i], p.at[2][i], p.at[3][i]);
}

// Times the factors between the digit that was transformed and those that are to be, which are `across` and
// `down`: powers of the roots of unity exp(-2 pi i n / SIDE).
DEVICE void twiddle(Points& p, const float2* roots, int across, int down) {
#pragma unroll
    for (int k = 1; k < DIGIT; ++k) {
        const float2 w = __ldg(roots + k * across), v = __ldg(roots + k * down);
#pragma unroll
        for (int i = 0; i < DIGIT; ++i) p.at[i][k] = p.at[i][k] * w;
#pragma unroll
        for (int i = 0; i < DIGIT; ++i) p.at[k][i] = p.at[k][i] * v;
    }
}

// Without a shortcut to it through the bits of `point`: else there are as many addresses as points, instead of constants
// added to few.
DEVICE float2* hidden(const float2* point) {
    return static_cast<float2*>(__cvta_shared_to_generic(again(shared_address(point))));
}

// Where the points of a thread are in the square: those of its first digits, and those of its last.
struct Places {
    float2 *first[DIGIT], *last[DIGIT];

    __device__ __forceinline__ Places(float2* square, int i, int j) {
#pragma unroll
        for (int k = 0; k < DIGIT; ++k) {
            first[k] = hidden(square + j * SIDE + placed(i + k * OTHERS));
            last[k] = hidden(square + j * DIGIT * SIDE + placed(i * DIGIT + k));
        }
    }
};

// Calls `visit(point, place)` for all.
template <bool LAST, typename Visit>
DEVICE void for_each_point(Points& p, const Places& places, Visit visit) {
#pragma unroll
    for (int m = 0; m < DIGIT; ++m)
#pragma unroll
        for (int k = 0; k < DIGIT; ++k)
            visit(p.at[m][k], (LAST ? places.last[k] : places.first[k])[m * SIDE * (LAST ? 1 : OTHERS)]);
}

struct Shared {
    float2 square[SIDE * SIDE];
    // Where the columns and rows of the rectangle are found in the picture.
    short columns[2 * SIDE];
    short rows[SIDE];
};

// in' of the two samples of a point, which may lie beyond the edge.
template <typename Sample>
DEVICE float2 point_of(const CudaconvFrame& frame, const CudaconvChannel& channel, short2 x, int y) {
    const cudaconv_u64 row = channel.input + static_cast<cudaconv_u64>(max(y, 0)) * channel.input_stride;
    const auto value = [&](int x) {
        const Sample sample = read_sample<Sample>(row + static_cast<u32>(max(x, 0)) * channel.step);
        const float value = float_of(code_of(frame, sample)) - channel.zero;
        return x == BEYOND || y == BEYOND ? channel.beyond : value;
    };
    return make_float2(value(x.x), value(x.y));
}

// Fills the square.
template <typename Sample>
DEVICE void load_square(Shared& shared, const CudaconvFrame& frame, const CudaconvChannel& channel) {
    const int x = threadIdx.x % SIDE;
    const short2 columns = reinterpret_cast<const short2*>(shared.columns)[x];
#pragma unroll 1
    for (int n = 0; n < SIDE * SIDE / THREADS; ++n) {
        const int y = threadIdx.x / SIDE + n * (THREADS / SIDE);
        shared.square[y * SIDE + placed(x)] = point_of<Sample>(frame, channel, columns, shared.rows[y]);
    }
}

// The bytes that are a thread's points; none is beyond the edge, and the zero level is a whole number.
DEVICE void load_points(Points& p, const Shared& shared, const CudaconvChannel& channel, int i, int j) {
    // As in float_of.
    const float bias = WHOLE + channel.zero;
    u32 columns[2 * DIGIT];
#pragma unroll
    for (int k = 0; k < DIGIT; ++k) {
        const short2 x = reinterpret_cast<const short2*>(shared.columns)[i + OTHERS * k];
        columns[2 * k] = static_cast<u32>(x.x) * channel.step;
        columns[2 * k + 1] = static_cast<u32>(x.y) * channel.step;
    }
#pragma unroll
    for (int m = 0; m < DIGIT; ++m) {
        const u32 y = shared.rows[j + OTHERS * m];
        const cudaconv_u64 row = channel.input + static_cast<cudaconv_u64>(y) * channel.input_stride;
#pragma unroll
        for (int k = 0; k < DIGIT; ++k) {
            p.at[m][k].x = __uint_as_float(0x4b000000u | read_sample<u8>(row + columns[2 * k])) - bias;
            p.at[m][k].y = __uint_as_float(0x4b000000u | read_sample<u8>(row + columns[2 * k + 1])) - bias;
        }
    }
}

DEVICE float2 read_shared(u32 address) {
    float2 point;
    asm volatile("ld.shared.v2.f32 {%0, %1}, [%2];" : "=f"(point.x), "=f"(point.y) : "r"(address));
    return point;
}

// Multiplies the spectrum, of which a thread has points and all are in the square as their last digits say, by that
// of the kernel, and exchanges real and imaginary part.
DEVICE void multiply(Points& p, const float2* square, const float4* factors, int i, int j) {
    // The frequency less that of the first digit, which is the third now, and where in the square the opposite of it is.
    const int u = i / DIGIT + i % DIGIT * DIGIT, v = j / DIGIT + j % DIGIT * DIGIT;
    const int across = OTHERS - u & OTHERS - 1, down = OTHERS - v & OTHERS - 1;
    // Without a rest the digit is 4 - k, modulo 4, else 3 - k.
    const int k0 = u == 0 ? DIGIT : DIGIT - 1, m0 = v == 0 ? DIGIT : DIGIT - 1;
    const int x = (across % DIGIT * DIGIT + across / DIGIT) * DIGIT, y = (down % DIGIT * DIGIT + down / DIGIT) * DIGIT;
    const u32 first = shared_address(square + y * SIDE + placed(x));
    u32 columns[DIGIT];
    // As `placed` has it, the digit's bits are those of the first changed.
#pragma unroll
    for (int k = 0; k < DIGIT; ++k) columns[k] = first ^ (k0 - k & DIGIT - 1) * static_cast<u32>(sizeof(float2));
#pragma unroll
    for (int m = 0; m < DIGIT; ++m)
#pragma unroll
        for (int k = 0; k < DIGIT; ++k) {
            const float2 opposite = read_shared(columns[k] + (m0 - m & DIGIT - 1) * static_cast<u32>(SIDE * sizeof(float2)));
            const float4 by = __ldg(factors + (m * DIGIT + k) * THREADS + threadIdx.x);
            float2& point = p.at[m][k];
            const float2 product = point * make_float2(by.x, by.y);
            // Plus the other factor times the conjugate.
            const float re = fmaf(by.w, opposite.y, fmaf(by.z, opposite.x, product.x));
            const float im = fmaf(-by.z, opposite.y, fmaf(by.w, opposite.x, product.y));
            point = make_float2(im, re);
        }
}

// Writes the samples that the points of the square are, of which real and imaginary part are exchanged. A thread has
// some of a column of points.
template <typename Sample>
DEVICE void store_square(const CudaconvConvolveLaunch& launch, const CudaconvJob& job, const CudaconvChannel& channel,
                         const Shared& shared, bool whole, int x0, int y0, int width, int height) {
    const CudaconvFrame& frame = launch.frame;
    const int column = threadIdx.x % SIDE, row = threadIdx.x / SIDE, x1 = min(width, static_cast<int>(job.width) - x0);
    if (2 * column >= x1) return;
    const bool second = 2 * column + 1 < x1;
    const float divisor = launch.divisor, reciprocal = launch.reciprocal, offset = channel.offset, most = frame.max_code;
    const auto code = [&](float sum) {
        if (whole) sum = rintf(sum);
        // One step of refinement leaves quotients exact that can be.
        const float quotient = __fmul_rn(sum, reciprocal);
        return round_to_code(fmaf(fmaf(-quotient, divisor, sum), reciprocal, quotient) + offset, most);
    };
    const float2* point = shared.square + row * SIDE + placed(column);
    cudaconv_u64 to = output_at(channel, x0 + 2 * column, y0 + row), beside = to + channel.step;
    const u32 stride = channel.output_stride * (THREADS / SIDE);
#pragma unroll 1
    for (int rows = min(height, static_cast<int>(job.height) - y0) - row; rows > 0; rows -= THREADS / SIDE) {
        const float2 sums = *point;
        write_sample<Sample>(to, sample_of<Sample>(frame, code(sums.y)));
        if (second) write_sample<Sample>(beside, sample_of<Sample>(frame, code(sums.x)));
        point += THREADS, to += stride, beside += stride;
    }
}

// The channels of a tile that are not filtered.
DEVICE void copy_or_fill(const CudaconvFrame& frame, const CudaconvJob& job, const CudaconvChannel& channel, int x0, int y0,
                         int width, int height) {
    const int x1 = min(x0 + width, static_cast<int>(job.width)), y1 = min(y0 + height, static_cast<int>(job.height));
#pragma unroll 1
    for (int y = y0 + threadIdx.x / WARP; y < y1; y += THREADS / WARP)
#pragma unroll 1
        for (int x = x0 + lane(); x < x1; x += WARP) {
            if (frame.sample == CUDACONV_U8) copy_or_fill<u8>(frame, channel, x, y);
            else copy_or_fill<u16>(frame, channel, x, y);
        }
}

extern "C" __global__ void __launch_bounds__(THREADS, BLOCKS) convolve_fft(const __grid_constant__ CudaconvConvolveLaunch launch) {
    extern __shared__ __align__(128) float4 dynamic[];
    Shared& shared = reinterpret_cast<Shared&>(dynamic);
    const CudaconvFrame& frame = launch.frame;
    const CudaconvJob& job = frame.jobs[job_of(frame, blockIdx.y)];
    if (blockIdx.x >= job.tiles_across) return;
    const bool bytes = frame.sample == CUDACONV_U8;
    const CudaconvTaps& taps = launch.kernels[0];
    const int width = 2 * SIDE + 1 - taps.width, height = SIDE + 1 - taps.height;
    const int x0 = blockIdx.x * width, y0 = (blockIdx.y - job.first_tile_row) * height;
    const int left = x0 - static_cast<int>(taps.width / 2), above = y0 - static_cast<int>(taps.height / 2);
    if (threadIdx.x < 3 * SIDE) {
        // The rows are behind the columns.
        const int n = threadIdx.x, row = n - 2 * SIDE;
        shared.columns[n] = border_position(frame.border, row < 0 ? left + n : above + row, row < 0 ? job.width : job.height);
    }
    // Read once: the compiler would do so wherever it is used, and run out of registers.
    cudaconv_u64 spectrum = launch.weights;
    asm volatile("" : "+l"(spectrum));
    // Behind them are the roots of unity and what tells whether sums are whole numbers.
    const float4* factors = reinterpret_cast<const float4*>(spectrum);
    const float2* roots = reinterpret_cast<const float2*>(factors + SIDE * SIDE);
    const int i = threadIdx.x % OTHERS, j = threadIdx.x / OTHERS;
    const bool inside = bytes && (frame.border != CUDACONV_CONSTANT || is_inside(job, left, above, 2 * SIDE, SIDE));
    const Places places(shared.square, i, j);
#pragma unroll 1
    for (u32 c = 0; c < job.channel_count; ++c) {
        const CudaconvChannel& channel = job.channels[c];
        if (channel.action != CUDACONV_FILTER) {
            copy_or_fill(frame, job, channel, x0, y0, width, height);
            continue;
        }
        __syncthreads();
        Points p;
        const bool direct = inside && channel.zero == rintf(channel.zero);
        if (direct) {
            load_points(p, shared, channel, i, j);
        } else {
            if (bytes) load_square<u8>(shared, frame, channel);
            else load_square<u16>(shared, frame, channel);
            __syncthreads();
        }
#pragma unroll 1
        for (int visit = 0; visit < 6; ++visit) {
            const bool back = visit >= 3;
            if (visit > 3) for_each_point<true>(p, places, [](float2& point, float2 at) { point = at; });
            else if (visit != 3 && !(visit == 0 && direct)) for_each_point<false>(p, places, [](float2& point, float2 at) { point = at; });
            transform(p);
            if (visit % 3 != 2) {
                // What the two other digits are by now.
                const bool inner = visit == 1 || visit == 4;
                const auto rest = [&](int i) {
                    if (inner) return (back ? i % DIGIT : i / DIGIT) * DIGIT;
                    return back ? i / DIGIT + i % DIGIT * DIGIT : i;
                };
                twiddle(p, roots, rest(i), rest(j));
            }
            // All have read what is written over.
            __syncthreads();
            if (back) for_each_point<false>(p, places, [](float2 point, float2& at) { at = point; });
            else for_each_point<true>(p, places, [](float2 point, float2& at) { at = point; });
            __syncthreads();
            if (visit == 2) multiply(p, shared.square, factors, i, j);
        }
        // Not kept meanwhile.
        const bool whole = __ldg(roots + again(static_cast<u32>(SIDE))).x != 0.0f;
        if (bytes) store_square<u8>(launch, job, channel, shared, whole, x0, y0, width, height);
        else store_square<u16>(launch, job, channel, shared, whole, x0, y0, width, height);
    }
}
#endif
