//! The kernels: one row of data each.

use super::products::Reach;

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
    /// From `inline_weights` alone, [by columns](super::columns::from_rows).
    Columns,
    /// From device memory at `weights` alone.
    Device,
    /// From `inline_weights`, and from device memory at `weights` the
    /// [matrices](super::matrix::table) of the first kernel.
    Matrices,
    /// From device memory at `weights` alone, the [matrices](super::halves::Matrices::table) of the only
    /// kernel.
    Halves,
    /// From device memory at `weights`, the [matrices](super::split::Split::table) of the only kernel, and behind them the
    /// weights as they are.
    Split,
    /// From device memory at `weights`, and behind them the [matrices](super::band::table) of the first
    /// kernel.
    Bands,
    /// From device memory at `weights` alone, the [spectrum](super::fourier::table) of the only kernel.
    Spectrum,
}

/// How many weights a kernel takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Form {
    /// Any number, full or separable, within its limits.
    Any,
    /// Full, so many across and down.
    Full(usize),
    /// Separable, so many across and down, [scaled](super::slabs).
    Scaled(usize),
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
    Direct3SmoothU8 = "direct3_smooth_u8",
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
    SeparableWideU8 = "separable_wide_u8",
    SeparableWideU16 = "separable_wide_u16",
    SeparableU8R4 = "separable_u8_r4",
    SeparableU8R7 = "separable_u8_r7",
    SeparableU8R8 = "separable_u8_r8",
    SeparableU8R16 = "separable_u8_r16",
    SeparableMagnitudeU8 = "separable_magnitude_u8",
    SeparableU16R4 = "separable_u16_r4",
    SeparableU16R8 = "separable_u16_r8",
    SeparableU16R16 = "separable_u16_r16",
    SeparablePacked422R4 = "separable_422_r4",
    SeparablePacked422R8 = "separable_422_r8",
    SeparablePacked422R16 = "separable_422_r16",
    SeparableMatrixU8 = "separable_matrix_u8",
    SeparableMatrixDividedU8 = "separable_matrix_divided_u8",
    BoxU8 = "box_u8",
    BoxU16 = "box_u16",
    SeparableHalfU8 = "separable_half_u8",
    SeparableHalfWideU8 = "separable_half_wide_u8",
    SeparablePixelsU8 = "separable_pixels_u8",
    SeparablePixelsWideU8 = "separable_pixels_wide_u8",
    SeparableSplitPixelsU8 = "separable_split_pixels_u8",
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
            | Module::SeparableHalfWideU8
            | Module::SeparablePixelsU8
            | Module::SeparablePixelsWideU8
            | Module::SeparableSplitPixelsU8 => (8, 0),
            _ => (7, 5),
        }
    }
}

macro_rules! kernels {
    ($($(#[$doc:meta])* $kernel:ident = $name:literal, $module:ident, $parameter:ident,
       $weights:ident, $threads:literal, $across:expr, $rows:expr $(, $particular:expr)*;)*) => {
        /// A kernel, as a function of a module.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        pub enum Kernel {
            $($(#[$doc])* $kernel,)*
        }

        impl Kernel {
            pub const ALL: [Kernel; [$(Kernel::$kernel),*].len()] = [$(Kernel::$kernel),*];

            pub(super) fn describe(self) -> Description {
                match self {
                    $(Kernel::$kernel => Description {
                        name: $name,
                        module: Module::$module,
                        parameter: Parameter::$parameter,
                        weights: Weights::$weights,
                        threads: $threads,
                        across: $across,
                        rows: $rows,
                        particulars: &[$($particular),*],
                    },)*
                }
            }
        }
    };
}

#[path = "description.rs"]
pub(super) mod description;

use description::Across::{OfRow, PackedSamples, Right, Samples, Strip};
use description::Description;
use description::Particular::{self, Channels, Halo};
use description::Rows::{Below, First, Rings, Slabs, Staged, Strips};

// Name, module, parameter, weights, threads, samples across a tile, rows of a tile, and what holds for few alone.
#[rustfmt::skip]
kernels! {
    /// Up to 3 x 3 whole weights whose magnitudes sum to 16 at most, two samples an instruction:
    /// packed jobs alone, whose addresses and strides are multiples of 16, without
    /// premultiplication; what lies beyond the edge is a code value. Divided by a power of two,
    /// with whole numbers added.
    Direct3U8 = "direct3_u8", Direct3U8, Direct3, Inline, 128, OfRow(512), First(&[8]), Halo(1);
    /// The same of weights that are an [outer product of such lines](super::direct3::is_smooth) as those of `gauss3`.
    Direct3SmoothU8 = "direct3_smooth_u8", Direct3SmoothU8, Direct3, Inline, 128, OfRow(512), First(&[8]), Halo(1);
    /// As the first, with any divisor and offset.
    Direct3DividedU8 = "direct3_divided_u8", Direct3DividedU8, Direct3, Inline, 128, OfRow(512), First(&[8]), Halo(1);
    /// The magnitude of differences across and down by -1 0 1, each smoothed the other way by the same three
    /// [whole numbers](super::direct3::is_gradient), not divided, and whole numbers of up to 256 added.
    Direct3MagnitudeU8 = "direct3_magnitude_u8", Direct3MagnitudeU8, Direct3, Inline, 128, OfRow(512), First(&[8]), Halo(1);
    /// 3 x 3 weights: packed jobs of one, two or four channels alone, whose addresses and strides are
    /// multiples of 16, without premultiplication; what lies beyond the edge is a code value.
    Direct3U16 = "direct3_u16", Direct3U16, Convolve, Inline, 128, OfRow(128), First(&[32]);
    /// The magnitude of two such.
    Direct3MagnitudeU16 = "direct3_magnitude_u16", Direct3MagnitudeU16, Convolve, Inline, 128, OfRow(128), First(&[32]);
    /// 3 x 3 weights: jobs of packed 4:2:2 alone, otherwise as [`Kernel::Direct3U16`].
    Direct3Packed422 = "direct3_422", Direct3Packed422, Convolve, Inline, 128, OfRow(256), First(&[32]);
    /// The magnitude of two such.
    Direct3MagnitudePacked422 = "direct3_magnitude_422", Direct3MagnitudePacked422, Convolve, Inline, 128, OfRow(256), First(&[32]);
    /// One thread a sample, every tap from global memory: any linear kernel.
    ConvolveNaiveU8 = "convolve_naive_u8", ConvolveNaiveU8, Convolve, Device, 256, Samples(32), First(&[8]);
    ConvolveNaiveU16 = "convolve_naive_u16", ConvolveNaiveU16, Convolve, Device, 256, Samples(32), First(&[8]);
    /// Whole numbers, one kernel that is not separable, with sums below 2^24, on the matrix units, without
    /// premultiplication; what lies beyond the edge is a code value, zero levels are whole, jobs lie in rows of bytes
    /// without gaps, whose addresses and strides are multiples of 16. The divisor is a whole number and so is twice what
    /// is added, both so small that no [rounding](super::band::quotients_decide) can matter.
    ConvolveMatrixU8 = "convolve_matrix_u8", ConvolveMatrixU8, Convolve, Bands, 128, Samples(128), First(&[32]);
    /// Other weights, divisors and offsets. It needs weights as they are, too, for what they decide.
    ConvolveMatrixNearU8 = "convolve_matrix_near_u8", ConvolveMatrixNearU8, Convolve, Bands, 128, Samples(128), First(&[32]);
    /// The same function with weights rounded to two digits.
    ConvolveMatrixRoughU8 = "convolve_matrix_near_u8", ConvolveMatrixNearU8, Convolve, Bands, 128, Samples(128), First(&[32]);
    /// As the first, of samples of 16 bits.
    ConvolveMatrixU16 = "convolve_matrix_u16", ConvolveMatrixU16, Convolve, Bands, 128, Samples(128), First(&[32]), Channels(2);
    /// The same function with other weights, divisors and offsets.
    ConvolveMatrixNearU16 = "convolve_matrix_u16", ConvolveMatrixU16, Convolve, Bands, 128, Samples(128), First(&[32]), Channels(2);
    /// By Fourier transforms, not canonical: one kernel of a radius up to 24, without premultiplication; a tile is
    /// what is right of a rectangle.
    ConvolveFft = "convolve_fft", ConvolveFft, Convolve, Spectrum, 256, Right, Below;
    /// Shared-memory tile with halo: any linear kernel.
    ConvolveTileU8 = "convolve_tile_u8", ConvolveTileU8, Convolve, Device, 128, Samples(64), First(&[64, 32, 16, 8]);
    ConvolveTileU16 = "convolve_tile_u16", ConvolveTileU16, Convolve, Device, 128, Samples(64), First(&[64, 32, 16, 8]);
    /// Both passes fused: separable kernels up to 65 + 65 taps, and sums of them.
    SeparableU8 = "separable_u8", SeparableU8, Convolve, Inline, 128, Samples(64), First(&[32]);
    SeparableU16 = "separable_u16", SeparableU16, Convolve, Inline, 128, Samples(64), First(&[32]);
    /// One kernel of rank 1 of up to 65 + 65 taps, without premultiplication.
    SeparableWideU8 = "separable_wide_u8", SeparableWideU8, Convolve, Inline, 256, Samples(64), Rings(4);
    SeparableWideU16 = "separable_wide_u16", SeparableWideU16, Convolve, Inline, 256, Samples(64), Rings(4);
    /// One kernel of 5 + 5 taps that can be [scaled](super::slabs), without premultiplication; what lies beyond the
    /// edge is a code value, zero levels are whole.
    SeparableU8R2 = "separable_u8_r4", SeparableU8R4, Convolve, Inline, 128, PackedSamples, Slabs(6);
    /// The same function with 7 + 7 taps.
    SeparableU8R3 = "separable_u8_r4", SeparableU8R4, Convolve, Inline, 128, PackedSamples, Slabs(6);
    /// The same function with 9 + 9 taps.
    SeparableU8R4 = "separable_u8_r4", SeparableU8R4, Convolve, Inline, 128, PackedSamples, Slabs(6);
    /// 15 + 15 taps.
    SeparableU8R7 = "separable_u8_r7", SeparableU8R7, Convolve, Inline, 128, PackedSamples, Slabs(8);
    /// 17 + 17 taps.
    SeparableU8R8 = "separable_u8_r8", SeparableU8R8, Convolve, Inline, 128, PackedSamples, Slabs(7);
    /// 33 + 33 taps.
    SeparableU8R16 = "separable_u8_r16", SeparableU8R16, Convolve, Inline, 128, PackedSamples, Slabs(5);
    /// The magnitude of two of 3 + 3 taps.
    SeparableMagnitudeU8 = "separable_magnitude_u8", SeparableMagnitudeU8, Convolve, Inline, 128, PackedSamples, Slabs(5);
    /// One kernel of 9 + 9 taps.
    SeparableU16R4 = "separable_u16_r4", SeparableU16R4, Convolve, Inline, 128, PackedSamples, Slabs(6);
    /// 17 + 17 taps.
    SeparableU16R8 = "separable_u16_r8", SeparableU16R8, Convolve, Inline, 128, PackedSamples, Slabs(6);
    /// 33 + 33 taps.
    SeparableU16R16 = "separable_u16_r16", SeparableU16R16, Convolve, Inline, 128, PackedSamples, Slabs(4);
    /// 9 + 9 taps, one kernel, of jobs of packed 4:2:2 alone, or of these luma's, and [other weights](super::slabs::chroma_taps)
    /// across for chroma.
    SeparablePacked422R4 = "separable_422_r4", SeparablePacked422R4, Convolve, Inline, 128, PackedSamples, Slabs(6);
    /// 17 + 17 taps.
    SeparablePacked422R8 = "separable_422_r8", SeparablePacked422R8, Convolve, Inline, 128, PackedSamples, Slabs(7);
    /// 33 + 33 taps.
    SeparablePacked422R16 = "separable_422_r16", SeparablePacked422R16, Convolve, Inline, 128, PackedSamples, Slabs(5);
    /// Up to 17 + 17 whole numbers of 0 to 255, those across of 257 in all and no further than 16 bytes, with sums
    /// below 2^24, a power of two up to 2^16 for the divisor, nothing to add and results in range, on the matrix units.
    /// As the ones above otherwise, but jobs are packed or packed 4:2:2, their addresses and strides are multiples of 16, and
    /// three channels are all treated alike.
    SeparableMatrixU8 = "separable_matrix_u8", SeparableMatrixU8, Convolve, Matrices, 128, OfRow(256), Staged(4, 208);
    /// The same with any divisor and anything to add.
    SeparableMatrixDividedU8 = "separable_matrix_divided_u8", SeparableMatrixDividedU8, Convolve, Matrices, 128, OfRow(256), Staged(4, 208);
    /// Means of rectangles of up to 65 x 65 samples, without anything added: packed jobs alone, as
    /// [`Kernel::SeparableMatrixU8`] takes them, and no border that repeats the picture.
    BoxU8 = "box_u8", BoxU8, Convolve, Inline, 128, Strip, Strips(5);
    /// The same of no more samples than [rounding](super::boxes::MOST_OF_ALL_SUMS) leaves alone.
    BoxU16 = "box_u16", BoxU16, Convolve, Inline, 128, Strip, Strips(3), Channels(2);
    /// Any separable kernel of up to 17 + 17 taps, across no further than 32 bytes, with weights rounded
    /// to float16, on the matrix units; jobs as [`Kernel::SeparableMatrixU8`] takes them.
    SeparableHalfU8 = "separable_half_u8", SeparableHalfU8, Convolve, Halves, 128, OfRow(256), Staged(4, 208);
    /// Of up to 33 + 33 taps, across no further than 64 bytes.
    SeparableHalfWideU8 = "separable_half_wide_u8", SeparableHalfWideU8, Convolve, Halves, 128, OfRow(128), Staged(4, 208);
    /// Of up to 17 + 17 taps, of jobs of four channels alone, of which at most three are filtered.
    SeparablePixelsU8 = "separable_pixels_u8", SeparablePixelsU8, Convolve, Halves, 128, OfRow(256), Staged(4, 208);
    /// Of up to 33 + 33 taps.
    SeparablePixelsWideU8 = "separable_pixels_wide_u8", SeparablePixelsWideU8, Convolve, Halves, 128, OfRow(256), Staged(4, 208);
    /// Any separable kernel of up to 17 + 17 taps that can be [taken apart](super::split), without rounding its weights, of
    /// jobs as [`Kernel::SeparablePixelsU8`] takes them, with whole zero levels and small offsets.
    SeparableSplitPixelsU8 = "separable_split_pixels_u8", SeparableSplitPixelsU8, Convolve, Split, 128, OfRow(256), Staged(3, 128);
    /// One thread a sample, every tap from global memory: any bilateral.
    BilateralNaiveU8 = "bilateral_naive_u8", BilateralNaiveU8, Bilateral, Device, 256, Samples(32), First(&[8]);
    BilateralNaiveU16 = "bilateral_naive_u16", BilateralNaiveU16, Bilateral, Device, 256, Samples(32), First(&[8]);
    /// Shared-memory tile with halo: any bilateral for whose tile there is room, without
    /// premultiplication; what lies beyond the edge of joint channels is a code value.
    BilateralTileU8 = "bilateral_tile_u8", BilateralTileU8, Bilateral, Device, 256, Samples(32), First(&[32, 16]);
    BilateralTileU16 = "bilateral_tile_u16", BilateralTileU16, Bilateral, Device, 256, Samples(32), First(&[32, 16]);
    /// The same of jobs with premultiplication; what lies beyond the edge is a code value.
    BilateralPremultipliedU8 = "bilateral_premultiplied_u8", BilateralPremultipliedU8, Bilateral, Device, 256, Samples(32), First(&[32, 16]);
    BilateralPremultipliedU16 = "bilateral_premultiplied_u16", BilateralPremultipliedU16, Bilateral, Device, 256, Samples(32), First(&[32, 16]);
    /// Weights by a table: radius up to 8, channels with a weight of their own, without
    /// premultiplication; what lies beyond the edge is a code value. Its threads read as many samples each, which are
    /// six rows more than there are to a tile.
    BilateralTableU8 = "bilateral_table_u8", BilateralTableU8, Bilateral, Inline, 256, Samples(32), First(&[64]), Halo(14);
    /// The same in smaller blocks, for pictures that have few of the others.
    BilateralTableSmallU8 = "bilateral_table_small_u8", BilateralTableSmallU8, Bilateral, Inline, 128, Samples(32), First(&[16]), Halo(8);
    /// The same as both, radius up to 16.
    BilateralWideTableU8 = "bilateral_wide_table_u8", BilateralWideTableU8, Bilateral, Device, 128, Samples(32), First(&[32]), Halo(16);
    BilateralWideTableSmallU8 = "bilateral_wide_table_small_u8", BilateralWideTableSmallU8, Bilateral, Device, 128, Samples(32), First(&[16]), Halo(16);
    /// Three packed differences at once: radius up to 8, joint channels alone, by the L1 distance, without
    /// premultiplication; what lies beyond the edge is a code value.
    BilateralJointU8 = "bilateral_joint_u8", BilateralJointU8, Bilateral, Columns, 128, Samples(32), First(&[28]), Halo(8);
    /// The same of any radius for whose tile there is room.
    BilateralJointWideU8 = "bilateral_joint_wide_u8", BilateralJointWideU8, Bilateral, Device, 128, Samples(32), First(&[16]);
    /// Channels with a weight of their own, without premultiplication, of any radius for whose tile there is room.
    BilateralSingleU16 = "bilateral_single_u16", BilateralSingleU16, Bilateral, Device, 128, Samples(32), First(&[16]), Halo(8);
    /// By weighted levels: channels with a weight of their own, without premultiplication, whole
    /// rectangles for which there is room.
    BilateralFastU8 = "bilateral_fast", BilateralFast, Fast, Inline, 256, Samples(64), First(&[64, 32, 16]);
    /// The same function in lower tiles, for pictures that have few of the others.
    BilateralFastLowU8 = "bilateral_fast", BilateralFast, Fast, Inline, 256, Samples(64), First(&[32, 16]);
    BilateralFastLowestU8 = "bilateral_fast", BilateralFast, Fast, Inline, 256, Samples(64), First(&[16]);
    /// The same three with twice the bytes for a sample in shared memory.
    BilateralFastU16 = "bilateral_fast", BilateralFast, Fast, Inline, 256, Samples(64), First(&[64, 32, 16]);
    BilateralFastLowU16 = "bilateral_fast", BilateralFast, Fast, Inline, 256, Samples(64), First(&[32, 16]);
    BilateralFastLowestU16 = "bilateral_fast", BilateralFast, Fast, Inline, 256, Samples(64), First(&[16]);
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

    /// Most channels of a packed job.
    pub fn most_channels(self) -> usize {
        let most = |particular: &Particular| match *particular {
            Channels(most) => Some(most),
            Halo(_) => None,
        };
        let mut particulars = self.describe().particulars.iter();
        particulars.find_map(most).unwrap_or(super::MAX_CHANNELS)
    }

    /// Rows above and below a tile that may be read, however few the filter needs.
    pub(super) fn least_halo(self) -> usize {
        let rows = |particular: &Particular| match *particular {
            Halo(rows) => Some(rows),
            Channels(_) => None,
        };
        let mut particulars = self.describe().particulars.iter();
        particulars.find_map(rows).unwrap_or(0)
    }

    /// How many weights it takes; filters of fewer are filled up with zeros.
    pub fn form(self) -> Form {
        match self {
            Kernel::Direct3U16
            | Kernel::Direct3MagnitudeU16
            | Kernel::Direct3Packed422
            | Kernel::Direct3MagnitudePacked422 => Form::Full(3),
            Kernel::SeparableMagnitudeU8 => Form::Scaled(3),
            Kernel::SeparableU8R2 => Form::Scaled(5),
            Kernel::SeparableU8R3 => Form::Scaled(7),
            Kernel::SeparableU8R4 | Kernel::SeparableU16R4 | Kernel::SeparablePacked422R4 => {
                Form::Scaled(9)
            }
            Kernel::SeparableU8R7 => Form::Scaled(15),
            Kernel::SeparableU8R8 | Kernel::SeparableU16R8 | Kernel::SeparablePacked422R8 => {
                Form::Scaled(17)
            }
            Kernel::SeparableU8R16 | Kernel::SeparableU16R16 | Kernel::SeparablePacked422R16 => {
                Form::Scaled(33)
            }
            _ => Form::Any,
        }
    }

    /// Whether jobs of a launch may have different filters, two at most.
    pub fn takes_filters_of_jobs(self) -> bool {
        use Kernel::*;
        matches!(
            self,
            SeparableU8R7 | SeparableU8R8 | SeparableU16R4 | SeparableU16R8
        )
    }

    /// The kernel that computes in one launch what this one and `other` do with different filters, of those that
    /// go down slabs the one of fewest taps that suffice. Both are for the same samples.
    pub fn together(self, other: Kernel) -> Option<Kernel> {
        use Kernel::*;
        let of_samples = match self {
            SeparableU8R2 | SeparableU8R3 | SeparableU8R4 | SeparableU8R7 | SeparableU8R8 => {
                [SeparableU8R7, SeparableU8R8]
            }
            SeparableU16R4 | SeparableU16R8 => [SeparableU16R4, SeparableU16R8],
            _ => return None,
        };
        let taps = |kernel: Kernel| match kernel.form() {
            Form::Scaled(taps) if kernel != SeparableMagnitudeU8 => Some(taps),
            _ => None,
        };
        let most = taps(self).max(Some(taps(other)?));
        of_samples.into_iter().find(|kernel| taps(*kernel) >= most)
    }

    /// Whether it takes frames of packed 4:2:2 alone, luma and chroma as one job.
    pub fn needs_packed_422(self) -> bool {
        use Kernel::*;
        matches!(
            self,
            Direct3Packed422
                | Direct3MagnitudePacked422
                | SeparablePacked422R4
                | SeparablePacked422R8
                | SeparablePacked422R16
        )
    }

    /// Whether it takes frames of packed 4:2:2 as one job.
    pub fn takes_packed_422(self) -> bool {
        self.needs_packed_422() || self.weights() == Weights::Matrices
    }

    /// Whether it takes packed jobs alone, whose rows begin at multiples of
    /// [`ROW_ALIGNMENT`](super::ROW_ALIGNMENT).
    pub fn takes_whole_rows(self) -> bool {
        use Kernel::*;
        matches!(self, Direct3U16 | Direct3MagnitudeU16 | BoxU8 | BoxU16)
            || self.needs_packed_422()
            || self.parameter() == Parameter::Direct3
            || matches!(
                self.weights(),
                Weights::Bands | Weights::Halves | Weights::Matrices | Weights::Split
            )
    }

    /// Whether it rounds weights to fewer bits than those of float32.
    pub fn rounds_weights(self) -> bool {
        self.weights() == Weights::Halves || self == Kernel::ConvolveMatrixRoughU8
    }

    /// How far it reaches, of those whose weights are [`Weights::Halves`] or [`Weights::Split`].
    pub fn reach(self) -> Option<Reach> {
        let (pieces, blocks, pixels) = match self {
            Kernel::SeparableHalfU8 => (2, 2, false),
            Kernel::SeparableHalfWideU8 => (4, 3, false),
            Kernel::SeparablePixelsU8 | Kernel::SeparableSplitPixelsU8 => (2, 2, true),
            Kernel::SeparablePixelsWideU8 => (4, 3, true),
            _ => return None,
        };
        Some(Reach {
            pieces,
            blocks,
            pixels,
        })
    }

    /// Whether it takes jobs of pixels of four channels alone, of which at most three are filtered.
    pub fn takes_three_of_four(self) -> bool {
        self.reach().is_some_and(|reach| reach.pixels)
    }
}
