//! What the host hands to every kernel, and how kernels are launched: the mirror of
//! `kernels/abi.h`, whose comments say what the members mean. Knows nothing of plans:
//! [`super::choose`] picks the kernel of one.
//!
//! To launch: jobs that share an operation and a border go together, at most [`MAX_JOBS`] a
//! launch; jobs without a filter join any launch, or make one of their own. [`Kernel::place`] puts
//! the jobs' tiles into the grid and says how large everything is.

/// Most channels of a job.
pub const MAX_CHANNELS: usize = 4;
/// Most jobs of a launch.
pub const MAX_JOBS: usize = 8;
/// Weights of a bilateral that travel in a launch.
pub const INLINE_WEIGHTS: usize = 144;
/// Weights of linear kernels that travel in a launch.
pub const LINEAR_WEIGHTS: usize = 272;
/// Largest distance of a tap from the centre, per axis, in samples.
pub const MAX_RADIUS: usize = 32;
/// Means of alpha below one part of this many count as none.
pub const TRANSPARENT: usize = 1 << 20;
/// Most that the magnitudes of the weights of a direct3 kernel sum to.
pub const DIRECT3_SUM: usize = 16;
/// Most taps per axis of a bilateral by levels.
pub const FAST_TAPS: usize = 2 * MAX_RADIUS + 1;
/// Rows of device planes that begin at multiples of this many bytes are read and written fastest.
pub const ROW_ALIGNMENT: usize = 16;

/// Values of [`Channel::action`].
pub mod action {
    pub const COPY: u32 = 0;
    pub const FILL: u32 = 1;
    pub const FILTER: u32 = 2;
}

/// Values of [`Frame::border`].
pub mod border {
    pub const REPLICATE: u32 = 0;
    pub const REFLECT: u32 = 1;
    pub const REFLECT101: u32 = 2;
    pub const WRAP: u32 = 3;
    pub const CONSTANT: u32 = 4;
}

/// Values of [`Frame::sample`].
pub mod sample {
    pub const U8: u32 = 0;
    pub const U16_LE: u32 = 1;
    pub const U16_BE: u32 = 2;
}

/// Values of [`Job::packed`].
pub mod packed {
    pub const APART: u32 = 0;
    pub const PACKED: u32 = 1;
    pub const LUMA_FIRST: u32 = 2;
    pub const LUMA_SECOND: u32 = 3;
}

/// Values of [`BilateralLaunch::distance`].
pub mod distance {
    pub const L1: u32 = 0;
    pub const L2: u32 = 1;
}

/// One channel of a job.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Channel {
    pub input: u64,
    pub output: u64,
    pub input_stride: u32,
    pub output_stride: u32,
    pub step: u32,
    pub action: u32,
    pub zero: f32,
    pub offset: f32,
    pub beyond: f32,
    pub fill: u32,
}

/// One group of channels on one grid, or one field of it.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Job {
    pub channels: [Channel; MAX_CHANNELS],
    pub channel_count: u32,
    pub width: u32,
    pub height: u32,
    pub packed: u32,
    pub joint_or_filter: u32,
    pub alpha: i32,
    pub first_tile_row: u32,
    pub tiles_across: u32,
}

/// What all jobs of a launch have in common.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Frame {
    pub jobs: [Job; MAX_JOBS],
    pub job_count: u32,
    pub border: u32,
    pub sample: u32,
    pub shift: u32,
    pub max_code: f32,
    pub tile_height: u32,
}

/// One linear kernel.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Taps {
    pub width: u32,
    pub height: u32,
    pub separable: u32,
    pub first: u32,
}

/// Parameter of the linear kernels.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ConvolveLaunch {
    pub frame: Frame,
    pub weights: u64,
    pub kernels: [Taps; 2],
    pub kernel_count: u32,
    pub divisor: f32,
    pub reciprocal: f32,
    pub sum: f32,
    pub inline_weights: [f32; LINEAR_WEIGHTS],
    pub digits: u32,
    pub sum_of_digits: i32,
    pub factor: f32,
    pub tolerance: f32,
}

/// Parameter of the bilateral kernels.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct BilateralLaunch {
    pub frame: Frame,
    pub weights: u64,
    pub radius_x: u32,
    pub radius_y: u32,
    pub distance: u32,
    pub color: f32,
    pub color_premultiplied: f32,
    pub color_root: f32,
    pub spans: [u8; 40],
    pub columns: [u8; 40],
    pub inline_weights: [f32; INLINE_WEIGHTS],
}

/// Parameter of the kernel of the bilateral by levels.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct FastLaunch {
    pub frame: Frame,
    pub radius_x: u32,
    pub radius_y: u32,
    pub count: u32,
    pub first: f32,
    pub spacing: f32,
    pub reach: f32,
    pub scale: f32,
    pub reserved: u32,
    pub weights: [[u32; FAST_TAPS]; 2],
}

/// Rows of interleaved bytes, for the kernels of 3 x 3 taps.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Direct3Plane {
    pub input: u64,
    pub output: u64,
    pub input_stride: u32,
    pub output_stride: u32,
    pub row_bytes: u32,
    pub height: u32,
    pub channels: u32,
    pub first_tile_row: u32,
    pub tiles_across: u32,
    pub left: i32,
    pub right: i32,
    pub above: i32,
    pub below: i32,
    pub beyond: u32,
    pub filtered: u32,
    pub copied: u32,
    pub filled: u32,
    pub bias: [u32; 2],
    pub clamped: u32,
    pub zero: [f32; 4],
    pub offset: [f32; 4],
}

/// Parameter of the kernels of 3 x 3 taps.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Direct3Launch {
    pub plane_count: u32,
    pub border: u32,
    pub tile_height: u32,
    pub kernel_count: u32,
    pub divisor: f32,
    pub reciprocal: f32,
    pub sums: [f32; 2],
    pub scale: u32,
    pub start: u32,
    pub weights: [[u32; 9]; 2],
    pub planes: [Direct3Plane; MAX_JOBS],
}

impl Default for Job {
    fn default() -> Self {
        Job {
            channels: [Channel::default(); MAX_CHANNELS],
            channel_count: 0,
            width: 0,
            height: 0,
            packed: 0,
            joint_or_filter: 0,
            alpha: -1,
            first_tile_row: 0,
            tiles_across: 0,
        }
    }
}

impl Frame {
    /// The jobs that there are.
    pub fn jobs(&self) -> &[Job] {
        &self.jobs[..self.job_count as usize]
    }
}

impl Default for ConvolveLaunch {
    fn default() -> Self {
        ConvolveLaunch {
            frame: Frame::default(),
            weights: 0,
            kernels: [Taps::default(); 2],
            kernel_count: 0,
            divisor: 1.0,
            reciprocal: 1.0,
            sum: 0.0,
            inline_weights: [0.0; LINEAR_WEIGHTS],
            digits: 0,
            sum_of_digits: 0,
            factor: 0.0,
            tolerance: 0.0,
        }
    }
}

impl Default for BilateralLaunch {
    fn default() -> Self {
        BilateralLaunch {
            frame: Frame::default(),
            weights: 0,
            radius_x: 0,
            radius_y: 0,
            distance: 0,
            color: 0.0,
            color_premultiplied: 0.0,
            color_root: 0.0,
            spans: [0; 40],
            columns: [0; 40],
            inline_weights: [0.0; INLINE_WEIGHTS],
        }
    }
}

impl Default for FastLaunch {
    fn default() -> Self {
        FastLaunch {
            frame: Frame::default(),
            radius_x: 0,
            radius_y: 0,
            count: 0,
            first: 0.0,
            spacing: 1.0,
            reach: 0.0,
            scale: 1.0,
            reserved: 0,
            weights: [[0; FAST_TAPS]; 2],
        }
    }
}

/// Floats that a line of `count` weights takes.
pub fn line_length(count: usize) -> usize {
    count.next_multiple_of(4)
}

/// Appends a line of weights, filled up with zeros.
pub fn push_line(weights: &mut Vec<f32>, line: &[f32]) {
    let end = weights.len() + line_length(line.len());
    weights.extend_from_slice(line);
    weights.resize(end, 0.0);
}

#[path = "abi/band.rs"]
pub mod band;
#[path = "abi/boxes.rs"]
pub mod boxes;
#[path = "abi/columns.rs"]
pub mod columns;
#[path = "abi/copy.rs"]
pub mod copy;
#[path = "abi/direct3.rs"]
pub mod direct3;
#[path = "abi/fast.rs"]
pub mod fast;
#[path = "abi/fourier.rs"]
pub mod fourier;
#[path = "abi/geometry.rs"]
mod geometry;
#[path = "abi/halves.rs"]
pub mod halves;
#[path = "abi/kernels.rs"]
mod kernels;
#[path = "abi/ladder.rs"]
pub mod ladder;
#[path = "abi/matrix.rs"]
pub mod matrix;
#[path = "abi/products.rs"]
pub mod products;
#[path = "abi/slabs.rs"]
pub mod slabs;
#[path = "abi/split.rs"]
pub mod split;
#[path = "abi/wide.rs"]
pub mod wide;

#[cfg(test)]
#[path = "abi/tests.rs"]
mod tests;

pub use geometry::{Extent, Geometry, Needs};
pub use kernels::{Form, Kernel, Module, Parameter, Weights};
