//! The kernels: one row of data each, and the geometry of a launch.

use super::halves::{self, Reach};
use super::{
    Frame, Job, MAX_JOBS, MAX_RADIUS, action, band, boxes, fourier, line_length, packed, slabs,
};

/// The structure that a kernel takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Parameter {
    /// [`super::ConvolveLaunch`]
    Convolve,
    /// [`super::BilateralLaunch`]
    Bilateral,
    /// [`super::Direct3Launch`]
    Direct3,
    /// [`super::FastLaunch`]
    Fast,
}

/// Where a kernel reads its weights.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Weights {
    /// From `inline_weights` alone; `weights` may be 0.
    Inline,
    /// From device memory at `weights` alone.
    Device,
    /// From `inline_weights`, and from device memory at `weights` the
    /// [matrices](super::matrix::table) of the first kernel.
    Matrices,
    /// From device memory at `weights` alone, the [matrices](super::halves::Matrices::table) of the only
    /// kernel.
    Halves,
    /// From device memory at `weights`, and behind them the [matrices](super::band::table) of the first
    /// kernel.
    Bands,
    /// From device memory at `weights`, and behind them the [spectrum](super::fourier::table) of the first
    /// kernel.
    Spectrum,
}

/// How many weights a kernel takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Form {
    /// Any number, full or separable, within its limits.
    Any,
    /// Full, so many across and down.
    Full(usize),
    /// Separable, so many across and down.
    Separable(usize),
    /// The same, [scaled](super::slabs).
    Scaled(usize),
}

/// Samples across a tile.
#[derive(Debug, Clone, Copy)]
enum Across {
    Samples(u32),
    /// As many as make 128 samples with the interleaved channels of a packed job, 96 for three.
    PackedSamples,
    /// This many samples of a row of a packed job, all its channels counted, or of one channel.
    OfRow(u32),
    /// What is right of a transformed rectangle.
    Right,
    /// What [a strip](boxes::columns) has sums of.
    Strip,
}

struct Description {
    name: &'static str,
    module: Module,
    parameter: Parameter,
    weights: Weights,
    /// Threads of a block.
    threads: u32,
    across: Across,
    /// Rows of a tile, of which the first for which there is room is taken.
    heights: &'static [u32],
}

macro_rules! modules {
    ($($module:ident = $name:literal,)*) => {
        /// What the driver compiles and loads at once: a PTX file. As small as can be, so that a
        /// start waits for no more than it uses.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        pub enum Module {
            $($module,)*
        }

        impl Module {
            pub const ALL: [Module; [$(Module::$module),*].len()] = [$(Module::$module),*];

            /// The name of its file, `kernels/ptx/NAME.ptx`.
            pub fn name(self) -> &'static str {
                match self {
                    $(Module::$module => $name,)*
                }
            }
        }
    };
}

modules! {
    Direct3U8 = "direct3_u8",
    Direct3DividedU8 = "direct3_divided_u8",
    Direct3MagnitudeU8 = "direct3_magnitude_u8",
    Direct3U16 = "direct3_u16",
    Direct3MagnitudeU16 = "direct3_magnitude_u16",
    Direct3Packed422 = "direct3_422",
    Direct3MagnitudePacked422 = "direct3_magnitude_422",
    ConvolveNaiveU8 = "convolve_naive_u8",
    ConvolveNaiveU16 = "convolve_naive_u16",
    ConvolveMatrixU8 = "convolve_matrix_u8",
    ConvolveMatrixNearU8 = "convolve_matrix_near_u8",
    ConvolveMatrixU16 = "convolve_matrix_u16",
    ConvolveFft = "convolve_fft",
    ConvolveTileU8 = "convolve_tile_u8",
    ConvolveTileU16 = "convolve_tile_u16",
    SeparableU8 = "separable_u8",
    SeparableU16 = "separable_u16",
    SeparableU8R4 = "separable_u8_r4",
    SeparableU8R7 = "separable_u8_r7",
    SeparableU8R8 = "separable_u8_r8",
    SeparableU8R16 = "separable_u8_r16",
    SeparableMagnitudeU8 = "separable_magnitude_u8",
    SeparableU16R4 = "separable_u16_r4",
    SeparableU16R8 = "separable_u16_r8",
    SeparableU16R16 = "separable_u16_r16",
    SeparablePacked422R3 = "separable_422_r3",
    SeparablePacked422R4 = "separable_422_r4",
    SeparableMatrixU8 = "separable_matrix_u8",
    SeparableMatrixDividedU8 = "separable_matrix_divided_u8",
    BoxU8 = "box_u8",
    SeparableHalfU8 = "separable_half_u8",
    SeparableHalfWideU8 = "separable_half_wide_u8",
    BilateralNaiveU8 = "bilateral_naive_u8",
    BilateralNaiveU16 = "bilateral_naive_u16",
    BilateralTileU8 = "bilateral_tile_u8",
    BilateralTileU16 = "bilateral_tile_u16",
    BilateralPremultipliedU8 = "bilateral_premultiplied_u8",
    BilateralPremultipliedU16 = "bilateral_premultiplied_u16",
    BilateralTableU8 = "bilateral_table_u8",
    BilateralTableSmallU8 = "bilateral_table_small_u8",
    BilateralWideTableU8 = "bilateral_wide_table_u8",
    BilateralWideTableSmallU8 = "bilateral_wide_table_small_u8",
    BilateralJointU8 = "bilateral_joint_u8",
    BilateralJointWideU8 = "bilateral_joint_wide_u8",
    BilateralSingleU16 = "bilateral_single_u16",
    BilateralFast = "bilateral_fast",
}

impl Module {
    /// The compute capability that it needs, major and minor.
    pub fn needed_capability(self) -> (u32, u32) {
        match self {
            Module::ConvolveMatrixU8
            | Module::ConvolveMatrixNearU8
            | Module::ConvolveMatrixU16
            | Module::SeparableMatrixU8
            | Module::SeparableMatrixDividedU8
            | Module::SeparableHalfU8
            | Module::SeparableHalfWideU8 => (8, 0),
            _ => (7, 5),
        }
    }
}

macro_rules! kernels {
    ($($(#[$doc:meta])* $kernel:ident = $name:literal, $module:ident, $parameter:ident,
       $weights:ident, $threads:literal, $across:expr, $heights:expr;)*) => {
        /// A kernel, as a function of a module.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        pub enum Kernel {
            $($(#[$doc])* $kernel,)*
        }

        impl Kernel {
            pub const ALL: [Kernel; [$(Kernel::$kernel),*].len()] = [$(Kernel::$kernel),*];

            fn describe(self) -> Description {
                match self {
                    $(Kernel::$kernel => Description {
                        name: $name,
                        module: Module::$module,
                        parameter: Parameter::$parameter,
                        weights: Weights::$weights,
                        threads: $threads,
                        across: $across,
                        heights: &$heights,
                    },)*
                }
            }
        }
    };
}

use Across::{OfRow, PackedSamples, Right, Samples, Strip};

// Name, module, parameter, weights, threads, samples across a tile, rows of a tile.
#[rustfmt::skip]
kernels! {
    /// Up to 3 x 3 whole weights whose magnitudes sum to 16 at most, two samples an instruction:
    /// packed jobs alone, whose addresses and strides are multiples of 16, without
    /// premultiplication; what lies beyond the edge is a code value. Divided by a power of two,
    /// with whole numbers added.
    Direct3U8 = "direct3_u8", Direct3U8, Direct3, Inline, 128, OfRow(512), [8];
    /// The same with any divisor and offset.
    Direct3DividedU8 = "direct3_divided_u8", Direct3DividedU8, Direct3, Inline, 128, OfRow(512), [8];
    /// The magnitude of differences across and down by -1 0 1, each smoothed the other way by the same three
    /// [whole numbers](super::direct3::is_gradient), not divided, and whole numbers of up to 256 added.
    Direct3MagnitudeU8 = "direct3_magnitude_u8", Direct3MagnitudeU8, Direct3, Inline, 128, OfRow(512), [8];
    /// 3 x 3 weights: packed jobs of one, two or four channels alone, whose addresses and strides are
    /// multiples of 16, without premultiplication; what lies beyond the edge is a code value.
    Direct3U16 = "direct3_u16", Direct3U16, Convolve, Inline, 128, OfRow(128), [32];
    /// The magnitude of two such.
    Direct3MagnitudeU16 = "direct3_magnitude_u16", Direct3MagnitudeU16, Convolve, Inline, 128, OfRow(128), [32];
    /// 3 x 3 weights: jobs of packed 4:2:2 alone, otherwise as [`Kernel::Direct3U16`].
    Direct3Packed422 = "direct3_422", Direct3Packed422, Convolve, Inline, 128, OfRow(256), [32];
    /// The magnitude of two such.
    Direct3MagnitudePacked422 = "direct3_magnitude_422", Direct3MagnitudePacked422, Convolve, Inline, 128, OfRow(256), [32];
    /// One thread a sample, every tap from global memory: any linear kernel.
    ConvolveNaiveU8 = "convolve_naive_u8", ConvolveNaiveU8, Convolve, Device, 256, Samples(32), [8];
    ConvolveNaiveU16 = "convolve_naive_u16", ConvolveNaiveU16, Convolve, Device, 256, Samples(32), [8];
    /// Whole numbers, one kernel that is not separable, with sums below 2^24, on the matrix units, without
    /// premultiplication; what lies beyond the edge is a code value, zero levels are whole, jobs lie in rows of bytes
    /// without gaps, whose addresses and strides are multiples of 16. The divisor is a whole number and so is twice what
    /// is added, both so small that no [rounding](super::band::quotients_decide) can matter.
    ConvolveMatrixU8 = "convolve_matrix_u8", ConvolveMatrixU8, Convolve, Bands, 128, Samples(128), [32];
    /// Other weights, divisors and offsets. It needs weights as they are, too, for what they decide.
    ConvolveMatrixNearU8 = "convolve_matrix_near_u8", ConvolveMatrixNearU8, Convolve, Bands, 128, Samples(128), [32];
    /// The same function with weights rounded to two digits.
    ConvolveMatrixRoughU8 = "convolve_matrix_near_u8", ConvolveMatrixNearU8, Convolve, Bands, 128, Samples(128), [32];
    /// As the first, of up to two channels that are packed.
    ConvolveMatrixU16 = "convolve_matrix_u16", ConvolveMatrixU16, Convolve, Bands, 128, Samples(128), [32];
    /// The same function with other weights, divisors and offsets.
    ConvolveMatrixNearU16 = "convolve_matrix_u16", ConvolveMatrixU16, Convolve, Bands, 128, Samples(128), [32];
    /// By Fourier transforms, not canonical: one kernel of a radius up to 24, without premultiplication; a tile is
    /// what is right of a rectangle.
    ConvolveFft = "convolve_fft", ConvolveFft, Convolve, Spectrum, 256, Right, [64];
    /// Shared-memory tile with halo: any linear kernel.
    ConvolveTileU8 = "convolve_tile_u8", ConvolveTileU8, Convolve, Device, 128, Samples(64), [64, 32, 16, 8];
    ConvolveTileU16 = "convolve_tile_u16", ConvolveTileU16, Convolve, Device, 128, Samples(64), [64, 32, 16, 8];
    /// Both passes fused: separable kernels up to 65 + 65 taps, and sums of them.
    SeparableU8 = "separable_u8", SeparableU8, Convolve, Inline, 128, Samples(64), [32];
    SeparableU16 = "separable_u16", SeparableU16, Convolve, Inline, 128, Samples(64), [32];
    /// One kernel of 5 + 5 taps that can be [scaled](super::slabs), without premultiplication; what lies beyond the
    /// edge is a code value, zero levels are whole.
    SeparableU8R2 = "separable_u8_r4", SeparableU8R4, Convolve, Inline, 128, PackedSamples, [32];
    /// The same function with 7 + 7 taps.
    SeparableU8R3 = "separable_u8_r4", SeparableU8R4, Convolve, Inline, 128, PackedSamples, [32];
    /// The same function with 9 + 9 taps.
    SeparableU8R4 = "separable_u8_r4", SeparableU8R4, Convolve, Inline, 128, PackedSamples, [32];
    /// 15 + 15 taps.
    SeparableU8R7 = "separable_u8_r7", SeparableU8R7, Convolve, Inline, 128, PackedSamples, [32];
    /// 17 + 17 taps.
    SeparableU8R8 = "separable_u8_r8", SeparableU8R8, Convolve, Inline, 128, PackedSamples, [32];
    /// 33 + 33 taps.
    SeparableU8R16 = "separable_u8_r16", SeparableU8R16, Convolve, Inline, 128, PackedSamples, [32];
    /// The magnitude of two of 3 + 3 taps.
    SeparableMagnitudeU8 = "separable_magnitude_u8", SeparableMagnitudeU8, Convolve, Inline, 128, PackedSamples, [32];
    /// One kernel of 9 + 9 taps.
    SeparableU16R4 = "separable_u16_r4", SeparableU16R4, Convolve, Inline, 128, PackedSamples, [32];
    /// 17 + 17 taps.
    SeparableU16R8 = "separable_u16_r8", SeparableU16R8, Convolve, Inline, 128, PackedSamples, [32];
    /// 33 + 33 taps.
    SeparableU16R16 = "separable_u16_r16", SeparableU16R16, Convolve, Inline, 128, PackedSamples, [32];
    /// 7 + 7 taps, one kernel, of jobs of packed 4:2:2 alone.
    SeparablePacked422R3 = "separable_422_r3", SeparablePacked422R3, Convolve, Inline, 128, OfRow(256), [32];
    /// 9 + 9 taps.
    SeparablePacked422R4 = "separable_422_r4", SeparablePacked422R4, Convolve, Inline, 128, OfRow(256), [32];
    /// Up to 17 + 17 whole numbers of 0 to 255, those across of 257 in all and no further than 16 bytes, with sums
    /// below 2^24, a power of two up to 2^16 for the divisor, nothing to add and results in range, on the matrix units.
    /// As the ones above otherwise, but jobs are packed, their addresses and strides are multiples of 16, and three
    /// channels are all treated alike.
    SeparableMatrixU8 = "separable_matrix_u8", SeparableMatrixU8, Convolve, Matrices, 128, OfRow(256), [64];
    /// The same with any divisor and anything to add.
    SeparableMatrixDividedU8 = "separable_matrix_divided_u8", SeparableMatrixDividedU8, Convolve, Matrices, 128, OfRow(256), [64];
    /// Means of rectangles of up to 65 x 65 samples, without anything added: packed jobs alone, as
    /// [`Kernel::SeparableMatrixU8`] takes them, and no border that repeats the picture.
    BoxU8 = "box_u8", BoxU8, Convolve, Inline, 128, Strip, [16];
    /// Any separable kernel of up to 17 + 17 taps, across no further than 32 bytes, with weights rounded
    /// to float16, on the matrix units; jobs as [`Kernel::SeparableMatrixU8`] takes them.
    SeparableHalfU8 = "separable_half_u8", SeparableHalfU8, Convolve, Halves, 128, OfRow(256), [64];
    /// Of up to 33 + 33 taps, across no further than 64 bytes.
    SeparableHalfWideU8 = "separable_half_wide_u8", SeparableHalfWideU8, Convolve, Halves, 128, OfRow(128), [64];
    /// One thread a sample, every tap from global memory: any bilateral.
    BilateralNaiveU8 = "bilateral_naive_u8", BilateralNaiveU8, Bilateral, Device, 256, Samples(32), [8];
    BilateralNaiveU16 = "bilateral_naive_u16", BilateralNaiveU16, Bilateral, Device, 256, Samples(32), [8];
    /// Shared-memory tile with halo: any bilateral for whose tile there is room, without
    /// premultiplication; what lies beyond the edge of joint channels is a code value.
    BilateralTileU8 = "bilateral_tile_u8", BilateralTileU8, Bilateral, Device, 256, Samples(32), [32, 16];
    BilateralTileU16 = "bilateral_tile_u16", BilateralTileU16, Bilateral, Device, 256, Samples(32), [32, 16];
    /// The same of jobs with premultiplication; what lies beyond the edge is a code value.
    BilateralPremultipliedU8 = "bilateral_premultiplied_u8", BilateralPremultipliedU8, Bilateral, Device, 256, Samples(32), [32, 16];
    BilateralPremultipliedU16 = "bilateral_premultiplied_u16", BilateralPremultipliedU16, Bilateral, Device, 256, Samples(32), [32, 16];
    /// Weights by a table: radius up to 8, channels with a weight of their own, without
    /// premultiplication; what lies beyond the edge is a code value.
    BilateralTableU8 = "bilateral_table_u8", BilateralTableU8, Bilateral, Inline, 256, Samples(32), [64];
    /// The same in smaller blocks, for pictures that have few of the others.
    BilateralTableSmallU8 = "bilateral_table_small_u8", BilateralTableSmallU8, Bilateral, Inline, 128, Samples(32), [16];
    /// The same as both, radius up to 16.
    BilateralWideTableU8 = "bilateral_wide_table_u8", BilateralWideTableU8, Bilateral, Device, 128, Samples(32), [32];
    BilateralWideTableSmallU8 = "bilateral_wide_table_small_u8", BilateralWideTableSmallU8, Bilateral, Device, 128, Samples(32), [16];
    /// Three packed differences at once: radius up to 8, joint channels alone, by the L1 distance, without
    /// premultiplication; what lies beyond the edge is a code value.
    BilateralJointU8 = "bilateral_joint_u8", BilateralJointU8, Bilateral, Device, 128, Samples(32), [32];
    /// The same of any radius for whose tile there is room.
    BilateralJointWideU8 = "bilateral_joint_wide_u8", BilateralJointWideU8, Bilateral, Device, 128, Samples(32), [16];
    /// Channels with a weight of their own, without premultiplication, of any radius for whose tile there is room.
    BilateralSingleU16 = "bilateral_single_u16", BilateralSingleU16, Bilateral, Device, 128, Samples(32), [16];
    /// By weighted levels: channels with a weight of their own, without premultiplication, whole
    /// rectangles for which there is room.
    BilateralFastU8 = "bilateral_fast", BilateralFast, Fast, Inline, 256, Samples(64), [64, 32, 16];
    /// The same function in lower tiles, for pictures that have few of the others.
    BilateralFastLowU8 = "bilateral_fast", BilateralFast, Fast, Inline, 256, Samples(64), [32, 16];
    BilateralFastLowestU8 = "bilateral_fast", BilateralFast, Fast, Inline, 256, Samples(64), [16];
    /// The same three with twice the bytes for a sample in shared memory.
    BilateralFastU16 = "bilateral_fast", BilateralFast, Fast, Inline, 256, Samples(64), [64, 32, 16];
    BilateralFastLowU16 = "bilateral_fast", BilateralFast, Fast, Inline, 256, Samples(64), [32, 16];
    BilateralFastLowestU16 = "bilateral_fast", BilateralFast, Fast, Inline, 256, Samples(64), [16];
}

/// A grid or a block, in blocks or threads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Extent {
    pub x: u32,
    pub y: u32,
}

/// How a kernel is launched.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Geometry {
    pub grid: Extent,
    pub block: Extent,
    /// Dynamic shared memory of a block; at most the 48 KiB that every device grants without
    /// being asked.
    pub shared_bytes: u32,
}

/// What the jobs of a launch ask of shared memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Needs {
    /// One of them has an alpha channel that premultiplies.
    pub premultiplied: bool,
    /// One of them has channels with one joint weight.
    pub joint: bool,
    /// The most filtered channels of one that is packed, but for the first.
    pub others: usize,
}

impl Needs {
    /// What `jobs` ask.
    pub fn of(jobs: &[Job]) -> Needs {
        Needs {
            premultiplied: jobs.iter().any(|job| job.alpha >= 0),
            joint: jobs.iter().any(|job| job.joint != 0),
            others: (jobs.iter().map(others)).max().unwrap_or(0),
        }
    }
}

/// The filtered channels of a packed job, but for the first.
fn others(job: &Job) -> usize {
    let channels = &job.channels[..job.channel_count as usize];
    let filtered = (channels.iter()).filter(|channel| channel.action == action::FILTER);
    match job.packed {
        1 => filtered.count().saturating_sub(1),
        _ => 0,
    }
}

/// Of an H200: the heights of tiles are for it.
const MULTIPROCESSORS: u32 = 132;
/// Dynamic shared memory that every device grants a block without being asked.
const SHARED_BYTES: usize = 48 * 1024;

/// Tiles that cover a row of `job`.
pub(super) fn tiles_across(kernel: Kernel, job: &Job, radius: (usize, usize)) -> u32 {
    match (kernel.describe().across, job.packed, job.channel_count) {
        (OfRow(bytes), packed::LUMA_FIRST | packed::LUMA_SECOND, _) => {
            (job.width.next_multiple_of(2) * 2).div_ceil(bytes)
        }
        (Samples(samples), ..) => job.width.div_ceil(samples),
        (Strip, ..) => job.width.div_ceil(boxes::columns(radius.0)),
        (Right, ..) => (job.width).div_ceil((fourier::COLUMNS - 2 * radius.0) as u32),
        (PackedSamples, 1, 3) => job.width.div_ceil(32),
        (PackedSamples, 1, channels) => job.width.div_ceil(128 / channels),
        (PackedSamples, ..) => job.width.div_ceil(128),
        (OfRow(samples), 1, channels) => (job.width * channels).div_ceil(samples),
        (OfRow(samples), ..) => job.width.div_ceil(samples),
    }
}

/// Words of 16 bits for each column and row of the largest tile of the bilaterals, which are not dynamic.
const POSITIONS: usize = 32 + 2 * MAX_RADIUS;

/// Words of shared memory of a block of the bilateral by levels, with samples of `bytes`.
fn by_levels(height: usize, radius: (usize, usize), bytes: usize) -> usize {
    let beside = match radius.0 {
        0..=8 if bytes == 1 => 8,
        0..=16 => 16,
        _ => 32,
    };
    let pitch = match bytes {
        // So that rows begin in banks of their own.
        1 => (64 + 2 * beside) | 16,
        _ => 64 + 2 * beside,
    };
    // Of eight rows, in the window of 16 outputs and in the tile.
    let groups_down = 2 + radius.1.div_ceil(4);
    let groups = height / 8 + groups_down - 2;
    // The sums across, the samples, the weights across and down; and what is not dynamic.
    512 * groups + 8 * groups * pitch * bytes / 4 + 64 * (10 + groups_down) + 16
}

/// Dynamic shared memory of a block, in bytes, for tiles of `height` rows.
fn shared_bytes(kernel: Kernel, height: usize, radius: (usize, usize), needs: Needs) -> usize {
    use Kernel::*;
    let (width, rows) = (2 * radius.0 + 1, height + 2 * radius.1);
    let words = match kernel {
        ConvolveTileU8 | ConvolveTileU16 => {
            let tile = (64 + width.next_multiple_of(8)) * rows;
            let means = if needs.premultiplied { 64 * height } else { 0 };
            // Weights, and positions of 16 bits of columns and rows of the largest tile.
            let positions = (64 + 2 * MAX_RADIUS + 4) + (64 + 2 * MAX_RADIUS);
            1024 + (positions / 2).next_multiple_of(4) + tile + means
        }
        ConvolveMatrixU8
        | ConvolveMatrixNearU8
        | ConvolveMatrixRoughU8
        | ConvolveMatrixU16
        | ConvolveMatrixNearU16 => {
            // Matrices, of two digits where they are few, positions of columns and rows, and planes of bytes for
            // each channel.
            let few = band::slices(width) == 1 && 2 * radius.1 < 16;
            let matrices = 16 * 32 * 4 * if few { 2 } else { 1 };
            let positions = (128 + 2 * MAX_RADIUS) + (32 + 2 * MAX_RADIUS);
            let pitch = 128 + 32 * band::slices(width) - 16;
            let bytes = match kernel {
                ConvolveMatrixU16 | ConvolveMatrixNearU16 => 2,
                _ => 1,
            };
            let planes = (1 + needs.others) * bytes * pitch * rows / 4;
            let in_doubt = match kernel {
                // What is in doubt, the weights, and words that are read behind the last sample.
                ConvolveMatrixNearU8 | ConvolveMatrixNearU16 => {
                    128 + line_length(width) * (2 * radius.1 + 1) + 8
                }
                _ => 0,
            };
            matrices + (positions / 2).next_multiple_of(4) + planes + in_doubt
        }
        // Points, and positions of 16 bits of columns and rows.
        ConvolveFft => 2 * fourier::SIDE * fourier::SIDE + (fourier::COLUMNS + fourier::SIDE) / 2,
        SeparableU8 | SeparableU16 => {
            let band = 16 * (64 + width.next_multiple_of(8));
            let rows_read = 24 + (2 * radius.1 + 8).next_multiple_of(8);
            band + 64 * rows_read
        }
        BilateralTileU8 | BilateralPremultipliedU8 => POSITIONS + (32 + 2 * radius.0) * rows,
        BilateralTileU16 | BilateralPremultipliedU16 => {
            let several = needs.joint || needs.premultiplied;
            POSITIONS + (32 + 2 * radius.0) * rows * if several { 2 } else { 1 }
        }
        BilateralJointU8 | BilateralJointWideU8 | BilateralSingleU16 => {
            // Rows of a thread.
            let of_thread = height / 4;
            let exponents = 4 * (radius.0 + 1) * (radius.1 + of_thread / 2 + 1);
            let near = radius.0.max(radius.1) <= 8;
            let tile = match kernel {
                // Channels apart.
                BilateralJointU8 => 4 * (32 + 2 * 8) * (height + 2 * 8),
                BilateralSingleU16 if near => (32 + 2 * 8) * (height + 2 * 8),
                _ => (32 + 2 * radius.0) * rows,
            };
            POSITIONS + exponents + tile
        }
        BilateralFastU8 | BilateralFastLowU8 | BilateralFastLowestU8 => {
            by_levels(height, radius, size_of::<u8>())
        }
        BilateralFastU16 | BilateralFastLowU16 | BilateralFastLowestU16 => {
            by_levels(height, radius, size_of::<u16>())
        }
        _ => 0,
    };
    4 * words
}

impl Kernel {
    /// The name of the function in its module.
    pub fn name(self) -> &'static str {
        self.describe().name
    }

    /// The module that holds it.
    pub fn module(self) -> Module {
        self.describe().module
    }

    /// Its only parameter.
    pub fn parameter(self) -> Parameter {
        self.describe().parameter
    }

    /// Where it reads its weights.
    pub fn weights(self) -> Weights {
        self.describe().weights
    }

    /// How many weights it takes; filters of fewer are filled up with zeros.
    pub fn form(self) -> Form {
        match self {
            Kernel::Direct3U16
            | Kernel::Direct3MagnitudeU16
            | Kernel::Direct3Packed422
            | Kernel::Direct3MagnitudePacked422 => Form::Full(3),
            Kernel::SeparablePacked422R3 => Form::Separable(7),
            Kernel::SeparablePacked422R4 => Form::Separable(9),
            Kernel::SeparableMagnitudeU8 => Form::Scaled(3),
            Kernel::SeparableU8R2 => Form::Scaled(5),
            Kernel::SeparableU8R3 => Form::Scaled(7),
            Kernel::SeparableU8R4 | Kernel::SeparableU16R4 => Form::Scaled(9),
            Kernel::SeparableU8R7 => Form::Scaled(15),
            Kernel::SeparableU8R8 | Kernel::SeparableU16R8 => Form::Scaled(17),
            Kernel::SeparableU8R16 | Kernel::SeparableU16R16 => Form::Scaled(33),
            _ => Form::Any,
        }
    }

    /// Whether it takes frames of packed 4:2:2 alone, luma and chroma as one job.
    pub fn takes_packed_422(self) -> bool {
        use Kernel::*;
        matches!(
            self,
            Direct3Packed422
                | Direct3MagnitudePacked422
                | SeparablePacked422R3
                | SeparablePacked422R4
        )
    }

    /// Whether it takes packed jobs alone, whose rows begin at multiples of
    /// [`ROW_ALIGNMENT`](super::ROW_ALIGNMENT).
    pub fn takes_whole_rows(self) -> bool {
        use Kernel::*;
        matches!(self, Direct3U16 | Direct3MagnitudeU16)
            || self == BoxU8
            || self.takes_packed_422()
            || self.parameter() == Parameter::Direct3
            || matches!(
                self.weights(),
                Weights::Bands | Weights::Halves | Weights::Matrices
            )
    }

    /// Whether it rounds weights to fewer bits than those of float32.
    pub fn rounds_weights(self) -> bool {
        self.weights() == Weights::Halves || self == Kernel::ConvolveMatrixRoughU8
    }

    /// How far it reaches, of those whose weights are [`Weights::Halves`].
    pub fn halves(self) -> Option<Reach> {
        let (pieces, blocks) = match self {
            Kernel::SeparableHalfU8 => (2, 2),
            Kernel::SeparableHalfWideU8 => (4, 3),
            _ => return None,
        };
        Some(Reach { pieces, blocks })
    }

    /// How many of its blocks a multiprocessor has room for, of those that go down slabs.
    fn blocks_of_slabs(self) -> Option<u32> {
        use Kernel::*;
        match self {
            SeparableU8R7 | SeparableU8R8 => Some(7),
            SeparableU8R2 | SeparableU8R3 | SeparableU8R4 | SeparableU16R4 | SeparableU16R8 => {
                Some(6)
            }
            SeparableU8R16 | SeparableMagnitudeU8 => Some(5),
            SeparableU16R16 => Some(4),
            _ => None,
        }
    }

    /// Rows of a tile of `jobs`: `rows`, but for kernels that walk down tiles of any height.
    fn rows_for(self, jobs: &[Job], rows: u32, radius: (usize, usize)) -> u32 {
        let columns = jobs.iter().map(|job| tiles_across(self, job, radius));
        let columns: Vec<u32> = columns.collect();
        let heights: Vec<u32> = jobs.iter().map(|job| job.height).collect();
        if self == Kernel::BoxU8 {
            boxes::tile_height(&columns, &heights, 5 * MULTIPROCESSORS, radius.1)
        } else if matches!(self.weights(), Weights::Halves | Weights::Matrices) {
            // Registers leave room for four blocks.
            halves::tile_height(&columns, &heights, 4 * MULTIPROCESSORS)
        } else if let Some(blocks) = self.blocks_of_slabs() {
            slabs::tile_height(&columns, &heights, blocks * MULTIPROCESSORS)
        } else {
            rows
        }
    }

    /// Rows of a tile and shared memory of a block for a filter that reaches `radius` samples
    /// beyond the centre, or `None` where no tile fits into what every device grants.
    fn tile(self, radius: (usize, usize), needs: Needs) -> Option<(u32, u32)> {
        if self.weights() == Weights::Spectrum {
            let bytes = shared_bytes(self, fourier::SIDE, radius, needs) as u32;
            let fits = radius.0.max(radius.1) <= fourier::MOST_RADIUS;
            return fits.then(|| ((fourier::SIDE - 2 * radius.1) as u32, bytes));
        }
        self.describe().heights.iter().find_map(|&height| {
            let bytes = shared_bytes(self, height as usize, radius, needs);
            (bytes <= SHARED_BYTES).then_some((height, bytes as u32))
        })
    }

    /// Whether there is room for jobs that need `needs` with a filter that reaches `radius` samples
    /// beyond the centre, horizontally and vertically.
    pub fn fits(self, radius: (usize, usize), needs: Needs) -> bool {
        self.tile(radius, needs).is_some()
    }

    /// Rows of a tile in a launch of `job` alone.
    ///
    /// # Panics
    /// When the kernel does not [fit](Self::fits).
    pub fn tile_height(self, job: &Job, radius: (usize, usize)) -> u32 {
        let needs = Needs::of(std::slice::from_ref(job));
        let rows = self.tile(radius, needs).expect("it fits").0;
        self.rows_for(std::slice::from_ref(job), rows, radius)
    }

    /// Stacks the tiles of the jobs of `frame` in a grid: sets `first_tile_row` and
    /// `tiles_across` of each, and `tile_height`. `radius` is how far the filter reaches beyond
    /// the centre, horizontally and vertically.
    ///
    /// # Panics
    /// When there are no jobs or more than [`MAX_JOBS`], one is empty, or the kernel does not
    /// [fit](Self::fits).
    pub fn place(self, frame: &mut Frame, radius: (usize, usize)) -> Geometry {
        let count = frame.job_count as usize;
        assert!((1..=MAX_JOBS).contains(&count), "1 to 8 jobs a launch");
        let jobs = &mut frame.jobs[..count];
        let (rows, shared_bytes) = (self.tile(radius, Needs::of(jobs))).expect("it fits");
        let tile_height = self.rows_for(jobs, rows, radius);
        let mut grid = Extent { x: 0, y: 0 };
        for job in jobs {
            assert!(job.width > 0 && job.height > 0, "a job without samples");
            job.first_tile_row = grid.y;
            job.tiles_across = tiles_across(self, job, radius);
            grid.x = grid.x.max(job.tiles_across);
            grid.y += job.height.div_ceil(tile_height);
        }
        frame.tile_height = tile_height;
        Geometry {
            grid,
            block: Extent {
                x: self.describe().threads,
                y: 1,
            },
            shared_bytes,
        }
    }
}
