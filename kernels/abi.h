/* What the host hands to every kernel: one structure by value, the same in C and in Rust.
 *
 * `src/engine/cuda/abi.rs` mirrors this file and its tests compare the two: every `#define` and
 * every `CUDACONV_LAYOUT` line below is read by them.
 *
 * A launch does several jobs (planes, fields) with one filter. Jobs are stacked in the grid:
 * blockIdx.y counts rows of tiles over all jobs, job k owning the rows from its `first_tile_row`
 * up to that of job k + 1; blockIdx.x counts tiles across, and blocks beyond the `tiles_across` of
 * their job do nothing. So one launch covers all planes of a frame, and no kernel divides.
 * A launch of one job may cover a band of it: its `first_tile_row` is then minus the number of rows
 * of tiles above the band, modulo 2^32, and the grid has as many as the band.
 *
 * Everything a filter is made of travels in the launch or is reached by a pointer in it: there is
 * no `__constant__` or other module-wide state, so instances cannot disturb each other.
 */
#ifndef CUDACONV_ABI_H
#define CUDACONV_ABI_H

#if defined(__CUDACC_RTC__)
#define CUDACONV_OFFSET(type, member) __INTADDR__(&((type*)0)->member)
#else
#define CUDACONV_OFFSET(type, member) __builtin_offsetof(type, member)
#endif
#if defined(__cplusplus)
#define CUDACONV_ASSERT(condition) static_assert(condition, #condition)
#else
#define CUDACONV_ASSERT(condition) _Static_assert(condition, #condition)
#endif
/* Type, its size in bytes, its last member and where that begins. */
#define CUDACONV_LAYOUT(type, size, member, at)       \
    CUDACONV_ASSERT(sizeof(type) == (size));          \
    CUDACONV_ASSERT(CUDACONV_OFFSET(type, member) == (at))

typedef unsigned char cudaconv_u8;
typedef int cudaconv_i32;
typedef unsigned int cudaconv_u32;
typedef unsigned long long cudaconv_u64;

/* Most channels of a job. */
#define CUDACONV_CHANNELS 4
/* Most jobs of a launch: four planes (A420) of two fields. */
#define CUDACONV_JOBS 8
/* Weights of a bilateral that travel in the launch itself: windows up to radius 11. */
#define CUDACONV_INLINE_WEIGHTS 144
/* The same of linear kernels, where FMAs take them as constant operands: all separable ones and their
 * magnitudes (65 + 65 taps twice), sums of two as large or of four of 31 + 31 taps. */
#define CUDACONV_LINEAR_WEIGHTS 272
/* Where those of chroma begin that are not luma's: see CudaconvConvolveLaunch. */
#define CUDACONV_CHROMA_WEIGHTS 80
/* Largest distance of a tap from the centre, per axis. */
#define CUDACONV_MAX_RADIUS 32
/* Means of alpha below one part of this many count as none. */
#define CUDACONV_TRANSPARENT 1048576

/* Channel.action */
#define CUDACONV_COPY 0   /* the sample as it is stored, all its bits */
#define CUDACONV_FILL 1   /* the code value `fill` */
#define CUDACONV_FILTER 2 /* the launch's filter */

/* Frame.border */
#define CUDACONV_REPLICATE 0
#define CUDACONV_REFLECT 1
#define CUDACONV_REFLECT101 2
#define CUDACONV_WRAP 3
#define CUDACONV_CONSTANT 4

/* Frame.sample */
#define CUDACONV_U8 0
#define CUDACONV_U16_LE 1 /* code value = word >> shift, but for bits above it; written as code value << shift */
#define CUDACONV_U16_BE 2

/* CudaconvJob.packed */
#define CUDACONV_APART 0
#define CUDACONV_PACKED 1
#define CUDACONV_LUMA_FIRST 2
#define CUDACONV_LUMA_SECOND 3

/* BilateralLaunch.distance */
#define CUDACONV_L1 0
#define CUDACONV_L2 1

/* One channel of a job. Sample x of row y is at `input + y * input_stride + x * step`; all
 * addresses are of device memory. Any alignment is right for u8, even addresses and strides for
 * u16; channels that are `packed` with addresses and strides in multiples of 16 bytes are fast.
 * Input and output do not overlap. */
typedef struct CudaconvChannel {
    cudaconv_u64 input;
    cudaconv_u64 output;
    cudaconv_u32 input_stride;
    cudaconv_u32 output_stride;
    cudaconv_u32 step; /* the same in input and output */
    cudaconv_u32 action;
    float zero;   /* subtracted from code values */
    float offset; /* added to results: zero + bias */
    float beyond; /* code value - zero beyond the edge under CUDACONV_CONSTANT */
    cudaconv_u32 fill;
} CudaconvChannel;
CUDACONV_LAYOUT(CudaconvChannel, 48, fill, 44);

/* One group of channels on one grid, or one field of it: the addresses are then those of the
 * field's first row, the strides twice the frame's, the height that of the field. A job has at
 * least one sample. */
typedef struct CudaconvJob {
    CudaconvChannel channels[CUDACONV_CHANNELS];
    cudaconv_u32 channel_count;
    cudaconv_u32 width;
    cudaconv_u32 height;
    /* PACKED: the channels fill one plane without gaps. Then they are in the order of their addresses:
     * channel c begins c samples after channel 0, `step` is channel_count samples, the strides
     * are equal. A plane of one channel without gaps is packed as well.
     * LUMA_FIRST, LUMA_SECOND: four channels of bytes, luma and chroma in turn, begin at four bytes one
     * behind the other. Two are luma of step 2, treated alike, which together have `width` samples a
     * row; those between them are U and V, of step 4 and half as many, rounded up. The byte behind an odd last
     * luma sample is copied.
     * Else APART. */
    cudaconv_u32 packed;
    /* Of a bilateral the joint channels: bit c = channel c is one of the three that have one joint weight; filtered
     * channels without their bit have a weight of their own. 0 where there are none.
     * Of linear kernels the filter: which of the launch's two is the job's, where jobs have filters of their own
     * (Kernel::takes_filters_of_jobs). Else 0. */
    cudaconv_u32 joint_or_filter;
    /* The channel that premultiplies the other filtered channels, or -1. It is itself filtered. */
    cudaconv_i32 alpha;
    cudaconv_u32 first_tile_row;
    cudaconv_u32 tiles_across;
} CudaconvJob;
CUDACONV_LAYOUT(CudaconvJob, 224, tiles_across, 220);

/* What all jobs of a launch have in common. */
typedef struct CudaconvFrame {
    CudaconvJob jobs[CUDACONV_JOBS];
    cudaconv_u32 job_count;
    cudaconv_u32 border;
    cudaconv_u32 sample;
    cudaconv_u32 shift; /* 0 but for CUDACONV_U16_LE */
    float max_code;     /* largest code value, 2^depth - 1 */
    cudaconv_u32 tile_height; /* rows of a tile, by the rule of the kernel in abi.rs */
} CudaconvFrame;
CUDACONV_LAYOUT(CudaconvFrame, 1816, tile_height, 1812);

/* One linear kernel; both sides odd, at most 65. Its weights are lines of four, eight, … floats:
 * every line is filled up with zeros to a multiple of four. Separable: a line of `width` weights
 * from left to right, then one of `height` from top to bottom, and so for each of the outer products
 * that the kernel is the sum of. Else `height` lines of `width`. */
typedef struct CudaconvTaps {
    cudaconv_u32 width;
    cudaconv_u32 height;
    cudaconv_u32 separable; /* how many outer products, 1 for kernels of rank 1; 0: not separable */
    cudaconv_u32 first; /* index of its first weight, a multiple of four */
} CudaconvTaps;
CUDACONV_LAYOUT(CudaconvTaps, 16, first, 12);

/* Parameter of every kernel of the modules convolve and separable. Weights of separable_slabs.cu are in other units:
 * see abi/slabs.rs. */
typedef struct CudaconvConvolveLaunch {
    CudaconvFrame frame;
    /* Device address of the weights of all kernels, float32, a multiple of 16; 0 where the
     * kernel's description in abi.rs says that it takes the inline ones. Matrices of weights or their
     * spectrum, where it says so, are there as well or instead. */
    cudaconv_u64 weights;
    /* Of one size, the weights of the second behind those of the first. But kernels of packed 4:2:2 that go down slabs
     * take one alone; if the second's width is not 0, its weights, which are at CUDACONV_CHROMA_WEIGHTS, are those of
     * chroma: of half the radius across, and the same down. */
    CudaconvTaps kernels[2];
    cudaconv_u32 kernel_count; /* 2: gradient magnitude of both; 1: the first, or of each job the one that it says */
    float divisor;
    float reciprocal; /* the float32 nearest to 1 / divisor */
    float sum;        /* of the weights of the first kernel */
    float inline_weights[CUDACONV_LINEAR_WEIGHTS];
    /* convolve_matrix: how many digits weights have, and the sum of the numbers that these make. */
    cudaconv_u32 digits;
    cudaconv_i32 sum_of_digits;
    /* Of sums of products with those numbers, which makes results of them; 0 where they are the weights
     * themselves. */
    float factor;
    /* By how much a result before rounding may differ from the canonical one; where that cannot be or does
     * not matter, 0. */
    float tolerance;
} CudaconvConvolveLaunch;
CUDACONV_LAYOUT(CudaconvConvolveLaunch, 2976, tolerance, 2972);

/* Rows of a thread of bilateral_joint_u8, and what is added to its exponents. */
#define CUDACONV_JOINT_ROWS 7
#define CUDACONV_LARGER 100

/* Parameter of every kernel of the module bilateral. The window is symmetric in both axes and
 * each of its rows is one run of samples, so a quarter of it says all: the exponent of offset
 * (dx, dy) is weight |dy| * (radius_x + 1) + |dx|, minus infinity outside the window.
 *
 * bilateral_joint_u8 takes them from `inline_weights` by columns instead: of each dx from 0 to radius_x those of the
 * distances dy from -(CUDACONV_JOINT_ROWS / 2) to radius_y, CUDACONV_LARGER added to each. */
typedef struct CudaconvBilateralLaunch {
    CudaconvFrame frame;
    cudaconv_u64 weights; /* as in CudaconvConvolveLaunch */
    cudaconv_u32 radius_x;
    cudaconv_u32 radius_y;
    cudaconv_u32 distance;
    float color;               /* factor of the squared distance in the exponent of 2 */
    float color_premultiplied; /* the same for products of code value and alpha */
    float color_root;          /* root of -color */
    /* Largest |dx| of the window in the rows at distance dy = 0, 1, … radius_y. */
    cudaconv_u8 spans[40];
    /* Largest |dy| of it in the columns at distance dx = 0, 1, … radius_x. */
    cudaconv_u8 columns[40];
    float inline_weights[CUDACONV_INLINE_WEIGHTS];
} CudaconvBilateralLaunch;
CUDACONV_LAYOUT(CudaconvBilateralLaunch, 2504, inline_weights, 1928);

/* Most taps per axis of a bilateral by levels. */
#define CUDACONV_FAST_TAPS 65

/* Parameter of every kernel of the modules bilateral_fast. Level k is the code value first + k * spacing;
 * a difference d from it weighs exp2(-(d * scale)^2), and levels for which |d * scale| is beyond
 * `reach` have no part in the sample. */
typedef struct CudaconvFastLaunch {
    CudaconvFrame frame;
    cudaconv_u32 radius_x;
    cudaconv_u32 radius_y;
    cudaconv_u32 count;
    float first;
    float spacing;
    float reach;
    float scale;
    cudaconv_u32 reserved;
    /* Across and down, 2 * radius + 1 each: a float16 in the lower half. The weights of an axis sum to 1.
     * Behind them are zeros. */
    cudaconv_u32 weights[2][CUDACONV_FAST_TAPS];
} CudaconvFastLaunch;
CUDACONV_LAYOUT(CudaconvFastLaunch, 2368, weights, 1848);

/* Of the kernel of the module convolve_fft: side of the square of points, two samples of a row each, that is
 * transformed at once, and most that a filter reaches from the centre. */
#define CUDACONV_FOURIER_SIDE 64
#define CUDACONV_FOURIER_RADIUS 24

/* Most that the magnitudes of the weights of direct3_u8 and its like sum to: float16 then holds the sum of any part of the
 * products with bytes, less 128 times the sum of all weights. */
#define CUDACONV_DIRECT3_SUM 16

/* Bytes of rows of `channels` interleaved channels without gaps, 1 to 4. What is by byte holds for the
 * bytes of every aligned word of a row; three channels are all treated alike. Aligned pieces of 16
 * bytes are read that hold at least one byte of a row: up to 15 bytes beside it, too. */
typedef struct CudaconvDirect3Plane {
    cudaconv_u64 input;
    cudaconv_u64 output;
    cudaconv_u32 input_stride;
    cudaconv_u32 output_stride;
    cudaconv_u32 row_bytes; /* width * channels */
    cudaconv_u32 height;
    cudaconv_u32 channels;
    cudaconv_u32 first_tile_row;
    cudaconv_u32 tiles_across;
    /* First byte in its row of the pixel that stands for the one before the first, and for the
     * one behind the last; -1 where `beyond` does. */
    cudaconv_i32 left;
    cudaconv_i32 right;
    /* The rows that stand for the ones above and below, or -1. */
    cudaconv_i32 above;
    cudaconv_i32 below;
    cudaconv_u32 beyond; /* code values by byte; of three channels c0 c1 c2 c0 */
    /* Masks of the bytes, and what is to be in bytes that are neither. */
    cudaconv_u32 filtered;
    cudaconv_u32 copied;
    cudaconv_u32 filled;
    /* direct3_u8, direct3_smooth_u8: two float16 for the even and for the odd bytes of a word, 1024 + offset +
     * (128 - zero) * sum of the weights / divisor, a whole number. */
    cudaconv_u32 bias[2];
    cudaconv_u32 clamped; /* the same kernels: 0 where no picture has results beyond 0..255 */
    float zero[4];   /* by byte */
    float offset[4]; /* by byte */
} CudaconvDirect3Plane;
CUDACONV_LAYOUT(CudaconvDirect3Plane, 120, offset, 104);

/* Parameter of every kernel of the modules direct3: whatever is known of a launch beforehand is
 * computed beforehand, as a thread computes no more than 32 bytes. */
typedef struct CudaconvDirect3Launch {
    cudaconv_u32 plane_count;
    cudaconv_u32 border;
    cudaconv_u32 tile_height;
    cudaconv_u32 kernel_count; /* 2: gradient magnitude of both */
    float divisor; /* direct3_u8, direct3_smooth_u8: a power of two from 1 to 1024 */
    float reciprocal;
    float sums[2]; /* of the weights of each kernel */
    /* Two float16 each. Of one kernel, products of its weights and bytes are in units of 2^-13, as bytes are taken for
     * float16, multiples of 2^-24, and weights are times 2^11. `scale` is 2^13 / divisor where that is a float16, sums
     * start from -128 times that of the weights. */
    cudaconv_u32 scale;
    cudaconv_u32 start;
    cudaconv_u32 weights[2][9]; /* three rows of three; those of a magnitude are whole numbers, not times 2^11 */
    CudaconvDirect3Plane planes[CUDACONV_JOBS];
} CudaconvDirect3Launch;
CUDACONV_LAYOUT(CudaconvDirect3Launch, 1072, planes, 112);

/* Of the kernel of the module copy_on_device: bytes of a piece, and pieces of a thread. */
#define CUDACONV_COPY_PIECE 16
#define CUDACONV_COPY_PIECES 2

/* Parameter of that kernel: bytes that are copied as they are, from and to multiples of a piece. */
typedef struct CudaconvCopyLaunch {
    cudaconv_u64 input;
    cudaconv_u64 output;
    cudaconv_u64 bytes;
} CudaconvCopyLaunch;
CUDACONV_LAYOUT(CudaconvCopyLaunch, 24, bytes, 16);

#endif
