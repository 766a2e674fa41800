//! What the host hands to every kernel, and how kernels are launched: the mirror of
//! `kernels/abi.h`, whose comments say what the members mean.
//!
//! To launch: jobs that share an operation go together, at most [`MAX_JOBS`] a launch; jobs
//! without a filter join any launch, or make one of their own with [`Kernel::COPY`].
//! [`Kernel::choose`] names the kernel, [`Kernel::place`] puts the jobs' tiles into the grid, and
//! the structure of the kernel's [`Module`] is its only parameter.

use crate::filter::layout::Sample;
use crate::filter::plan::{Algorithm, Operation, Taps as Coefficients};

/// Most channels of a job.
pub const MAX_CHANNELS: usize = 4;
/// Most jobs of a launch.
pub const MAX_JOBS: usize = 8;
/// Weights that travel in a launch.
pub const INLINE_WEIGHTS: usize = 144;
/// Largest distance of a tap from the centre, per axis, in samples.
pub const MAX_RADIUS: usize = 32;
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
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Job {
    pub channels: [Channel; MAX_CHANNELS],
    pub channel_count: u32,
    pub width: u32,
    pub height: u32,
    pub packed: u32,
    pub joint: u32,
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
    pub reserved: u32,
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

/// Parameter of the kernels of [`Module::Convolve`] and [`Module::Separable`].
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ConvolveLaunch {
    pub frame: Frame,
    pub weights: u64,
    pub kernels: [Taps; 2],
    pub kernel_count: u32,
    pub divisor: f32,
    pub reciprocal: f32,
    pub reserved: u32,
    pub inline_weights: [f32; INLINE_WEIGHTS],
}

/// Parameter of the kernels of [`Module::Bilateral`].
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
    pub reserved: u32,
    pub spans: [u8; 40],
    pub inline_weights: [f32; INLINE_WEIGHTS],
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
            reserved: 0,
            inline_weights: [0.0; INLINE_WEIGHTS],
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
            reserved: 0,
            spans: [0; 40],
            inline_weights: [0.0; INLINE_WEIGHTS],
        }
    }
}

/// `1 / divisor` if multiplying by it gives the same float32 as dividing by `divisor`, else 0.
pub fn exact_reciprocal(divisor: f32) -> f32 {
    let power_of_two = divisor.is_normal() && divisor.to_bits() << 9 == 0;
    let reciprocal = 1.0 / divisor;
    if power_of_two && reciprocal.is_normal() {
        reciprocal
    } else {
        0.0
    }
}

/// The family that a kernel belongs to: one PTX module each, loaded when needed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Module {
    Convolve,
    Separable,
    Bilateral,
}

impl Module {
    pub const ALL: [Module; 3] = [Module::Convolve, Module::Separable, Module::Bilateral];

    /// The name of its files: `kernels/NAME.cu` and `kernels/ptx/NAME.ptx`.
    pub fn name(self) -> &'static str {
        match self {
            Module::Convolve => "convolve",
            Module::Separable => "separable",
            Module::Bilateral => "bilateral",
        }
    }
}

/// Where a kernel reads its weights.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Weights {
    /// From `inline_weights` alone; `weights` may be 0.
    Inline,
    /// From device memory at `weights` alone.
    Device,
}

/// A kernel, as a function of a module.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Kernel {
    /// One thread a sample, every tap from global memory: any linear kernel.
    ConvolveNaiveU8,
    ConvolveNaiveU16,
    /// Shared-memory tile with halo: any linear kernel.
    ConvolveTileU8,
    ConvolveTileU16,
    /// Both passes fused: separable kernels up to 65 + 65 taps.
    SeparableU8,
    SeparableU16,
    /// One thread a sample, every tap from global memory: any bilateral.
    BilateralNaiveU8,
    BilateralNaiveU16,
    /// Shared-memory tile with halo: any bilateral.
    BilateralTileU8,
    BilateralTileU16,
}

/// A grid or a block, in blocks or threads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Extent {
    pub x: u32,
    pub y: u32,
}

impl Kernel {
    pub const ALL: [Kernel; 10] = [
        Kernel::ConvolveNaiveU8,
        Kernel::ConvolveNaiveU16,
        Kernel::ConvolveTileU8,
        Kernel::ConvolveTileU16,
        Kernel::SeparableU8,
        Kernel::SeparableU16,
        Kernel::BilateralNaiveU8,
        Kernel::BilateralNaiveU16,
        Kernel::BilateralTileU8,
        Kernel::BilateralTileU16,
    ];

    /// The kernel that computes `operation` by `algorithm`, or `None` where there is none. Any
    /// kernel of the right `sample` copies and fills, so for [`Operation::None`] this is the
    /// smallest.
    pub fn choose(algorithm: Algorithm, sample: Sample, operation: &Operation) -> Option<Kernel> {
        use Kernel::*;
        let (for_u8, for_u16) = match (operation, algorithm) {
            (Operation::None, _) => (ConvolveNaiveU8, ConvolveNaiveU16),
            (Operation::Bilateral(_), Algorithm::Naive) => (BilateralNaiveU8, BilateralNaiveU16),
            (Operation::Bilateral(_), Algorithm::Tile | Algorithm::Direct) => {
                (BilateralTileU8, BilateralTileU16)
            }
            (_, Algorithm::Naive) => (ConvolveNaiveU8, ConvolveNaiveU16),
            (_, Algorithm::Tile | Algorithm::Direct) => (ConvolveTileU8, ConvolveTileU16),
            (_, Algorithm::Separable) if is_separable(operation) => (SeparableU8, SeparableU16),
            _ => return None,
        };
        Some(match sample {
            Sample::U8 => for_u8,
            Sample::U16Le { .. } | Sample::U16Be => for_u16,
        })
    }

    /// The module that holds it, and so the structure that it takes.
    pub fn module(self) -> Module {
        use Kernel::*;
        match self {
            ConvolveNaiveU8 | ConvolveNaiveU16 | ConvolveTileU8 | ConvolveTileU16 => {
                Module::Convolve
            }
            SeparableU8 | SeparableU16 => Module::Separable,
            BilateralNaiveU8 | BilateralNaiveU16 | BilateralTileU8 | BilateralTileU16 => {
                Module::Bilateral
            }
        }
    }

    /// The name of the function in its module.
    pub fn name(self) -> &'static str {
        use Kernel::*;
        match self {
            ConvolveNaiveU8 => "convolve_naive_u8",
            ConvolveNaiveU16 => "convolve_naive_u16",
            ConvolveTileU8 => "convolve_tile_u8",
            ConvolveTileU16 => "convolve_tile_u16",
            SeparableU8 => "separable_u8",
            SeparableU16 => "separable_u16",
            BilateralNaiveU8 => "bilateral_naive_u8",
            BilateralNaiveU16 => "bilateral_naive_u16",
            BilateralTileU8 => "bilateral_tile_u8",
            BilateralTileU16 => "bilateral_tile_u16",
        }
    }

    /// Where it reads its weights.
    pub fn weights(self) -> Weights {
        use Kernel::*;
        match self {
            SeparableU8 | SeparableU16 => Weights::Inline,
            _ => Weights::Device,
        }
    }

    /// Threads of a block.
    pub fn block(self) -> Extent {
        Extent { x: 32, y: 8 }
    }

    /// Samples of `job` that one block computes, all channels of each.
    pub fn tile(self, _job: &Job) -> Extent {
        Extent { x: 32, y: 8 }
    }

    /// Dynamic shared memory of a block, in bytes, for a filter that reaches `radius` samples
    /// beyond the centre, horizontally and vertically. Never above the 48 KiB that every device
    /// grants without being asked.
    pub fn shared_bytes(self, _radius: (usize, usize)) -> u32 {
        0
    }

    /// Stacks the tiles of `jobs` in the grid that is returned: sets `first_tile_row` and
    /// `tiles_across` of each.
    ///
    /// # Panics
    /// When there are no jobs or more than [`MAX_JOBS`], or one is empty.
    pub fn place(self, jobs: &mut [Job]) -> Extent {
        assert!((1..=MAX_JOBS).contains(&jobs.len()), "1 to 8 jobs a launch");
        let mut grid = Extent { x: 0, y: 0 };
        for job in jobs {
            assert!(job.width > 0 && job.height > 0, "a job without samples");
            let tile = self.tile(job);
            job.first_tile_row = grid.y;
            job.tiles_across = job.width.div_ceil(tile.x);
            grid.x = grid.x.max(job.tiles_across);
            grid.y += job.height.div_ceil(tile.y);
        }
        grid
    }
}

fn is_separable(operation: &Operation) -> bool {
    let separable = |taps: &Coefficients| matches!(taps, Coefficients::Separable { .. });
    match operation {
        Operation::Correlate(kernel) => separable(&kernel.taps),
        Operation::Magnitude { x, y } => separable(&x.taps) && separable(&y.taps),
        Operation::None | Operation::Bilateral(_) => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::mem::{offset_of, size_of};

    const HEADER: &str = include_str!("../../../kernels/abi.h");

    /// The value of `#define CUDACONV_name value` in the header.
    fn defined(name: &str) -> usize {
        let line = (HEADER.lines())
            .find_map(|line| line.strip_prefix("#define CUDACONV_")?.strip_prefix(name))
            .filter(|rest| rest.starts_with(' '))
            .unwrap_or_else(|| panic!("the header defines no {name}"));
        let value = line.split_whitespace().next().expect("a value");
        value.parse().expect("a whole number")
    }

    /// Size, name of the last member and its offset as the header asserts them.
    fn asserted(name: &str) -> (usize, &'static str, usize) {
        let start = format!("CUDACONV_LAYOUT(Cudaconv{name}, ");
        let line = HEADER.lines().find_map(|line| line.strip_prefix(&start));
        let line = line.unwrap_or_else(|| panic!("the header asserts nothing of {name}"));
        let parts: Vec<&str> = line.trim_end_matches(");").split(", ").collect();
        (
            parts[0].parse().unwrap(),
            parts[1],
            parts[2].parse().unwrap(),
        )
    }

    #[test]
    fn structures_are_laid_out_as_the_header_asserts() {
        macro_rules! same {
            ($name:ident, $last:ident) => {
                assert_eq!(
                    asserted(stringify!($name)),
                    (
                        size_of::<$name>(),
                        stringify!($last),
                        offset_of!($name, $last)
                    )
                );
            };
        }
        same!(Channel, fill);
        same!(Job, tiles_across);
        same!(Frame, reserved);
        same!(Taps, first);
        same!(ConvolveLaunch, inline_weights);
        same!(BilateralLaunch, inline_weights);
        // All parameters of a kernel together.
        assert!(size_of::<BilateralLaunch>().max(size_of::<ConvolveLaunch>()) <= 4096);
    }

    #[test]
    fn members_stand_in_the_order_of_the_header() {
        let members = |name: &str| -> Vec<String> {
            let body = HEADER
                .split_once(&format!("typedef struct Cudaconv{name} {{"))
                .unwrap()
                .1;
            let body = body.split_once(&format!("}} Cudaconv{name};")).unwrap().0;
            let mut code = String::new();
            let mut rest = body;
            while let Some((before, after)) = rest.split_once("/*") {
                code.push_str(before);
                rest = after.split_once("*/").expect("a comment that ends").1;
            }
            code.push_str(rest);
            let names = code.split(';').filter_map(|member| {
                let member = member.split('[').next()?;
                member.split_whitespace().last().map(str::to_owned)
            });
            names.collect()
        };
        macro_rules! same {
            ($name:ident { $($member:ident),* }) => {
                assert_eq!(members(stringify!($name)), [$(stringify!($member)),*]);
                let offsets = [$(offset_of!($name, $member)),*];
                assert!(offsets.is_sorted(), "{offsets:?}");
                // Nothing in Rust that the header lacks.
                #[allow(unused_variables)]
                let all = |value: $name| { let $name { $($member),* } = value; };
            };
        }
        same!(Channel {
            input,
            output,
            input_stride,
            output_stride,
            step,
            action,
            zero,
            offset,
            beyond,
            fill
        });
        same!(Job {
            channels,
            channel_count,
            width,
            height,
            packed,
            joint,
            alpha,
            first_tile_row,
            tiles_across
        });
        same!(Frame {
            jobs,
            job_count,
            border,
            sample,
            shift,
            max_code,
            reserved
        });
        same!(Taps {
            width,
            height,
            separable,
            first
        });
        same!(ConvolveLaunch {
            frame,
            weights,
            kernels,
            kernel_count,
            divisor,
            reciprocal,
            reserved,
            inline_weights
        });
        same!(BilateralLaunch {
            frame,
            weights,
            radius_x,
            radius_y,
            distance,
            color,
            color_premultiplied,
            reserved,
            spans,
            inline_weights
        });
    }

    #[test]
    fn constants_are_those_of_the_header() {
        assert_eq!(defined("CHANNELS"), MAX_CHANNELS);
        assert_eq!(defined("JOBS"), MAX_JOBS);
        assert_eq!(defined("INLINE_WEIGHTS"), INLINE_WEIGHTS);
        assert_eq!(defined("MAX_RADIUS"), MAX_RADIUS);
        for (name, value) in [
            ("COPY", action::COPY),
            ("FILL", action::FILL),
            ("FILTER", action::FILTER),
            ("REPLICATE", border::REPLICATE),
            ("REFLECT", border::REFLECT),
            ("REFLECT101", border::REFLECT101),
            ("WRAP", border::WRAP),
            ("CONSTANT", border::CONSTANT),
            ("U8", sample::U8),
            ("U16_LE", sample::U16_LE),
            ("U16_BE", sample::U16_BE),
            ("L1", distance::L1),
            ("L2", distance::L2),
        ] {
            assert_eq!(defined(name), value as usize, "{name}");
        }
    }

    #[test]
    fn only_powers_of_two_have_exact_reciprocals() {
        assert_eq!(exact_reciprocal(16.0), 0.0625);
        assert_eq!(exact_reciprocal(-0.5), -2.0);
        assert_eq!(exact_reciprocal(1.0), 1.0);
        for divisor in [9.0, 3.0, -273.0, 1.5, f32::MIN_POSITIVE / 2.0] {
            assert_eq!(exact_reciprocal(divisor), 0.0, "{divisor}");
        }
    }

    #[test]
    fn tiles_cover_every_job_once() {
        let size = |width, height| Job {
            width,
            height,
            channel_count: 1,
            ..Job::default()
        };
        for kernel in Kernel::ALL {
            for sizes in [
                vec![(1, 1)],
                vec![(1920, 1080), (960, 540)],
                vec![(33, 17); 8],
            ] {
                let mut jobs: Vec<Job> = sizes.iter().map(|&(w, h)| size(w, h)).collect();
                let grid = kernel.place(&mut jobs);
                let mut rows = 0;
                for job in &jobs {
                    let tile = kernel.tile(job);
                    assert_eq!(job.first_tile_row, rows);
                    assert!(job.tiles_across * tile.x >= job.width);
                    assert!((job.tiles_across - 1) * tile.x < job.width);
                    assert!(job.tiles_across <= grid.x);
                    rows += job.height.div_ceil(tile.y);
                }
                assert_eq!(grid.y, rows);
            }
        }
    }

    #[test]
    fn grids_and_blocks_are_within_what_every_device_grants() {
        for kernel in Kernel::ALL {
            let block = kernel.block();
            assert!(block.x * block.y <= 1024);
            let largest = Job {
                width: 16384,
                height: 16384,
                channel_count: 1,
                ..Job::default()
            };
            let grid = kernel.place(&mut [largest; MAX_JOBS]);
            assert!(grid.y <= 65535, "{kernel:?}: {grid:?}");
            for radius in 0..=MAX_RADIUS {
                assert!(
                    kernel.shared_bytes((radius, radius)) <= 48 * 1024,
                    "{kernel:?} {radius}"
                );
            }
        }
    }
}
