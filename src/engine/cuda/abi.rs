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
#[derive(Debug, Clone, Copy, PartialEq)]
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
    pub reserved: u32,
    pub inline_weights: [f32; INLINE_WEIGHTS],
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
    pub reserved: u32,
    pub spans: [u8; 40],
    pub inline_weights: [f32; INLINE_WEIGHTS],
}

impl Default for Job {
    fn default() -> Self {
        Job {
            channels: [Channel::default(); MAX_CHANNELS],
            channel_count: 0,
            width: 0,
            height: 0,
            packed: 0,
            joint: 0,
            alpha: -1,
            first_tile_row: 0,
            tiles_across: 0,
        }
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

/// What the driver compiles and loads at once: a PTX file. As small as can be, so that a start
/// waits for no more than it uses.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Module {
    ConvolveNaive,
    ConvolveTileU8,
    ConvolveTileU16,
    SeparableU8,
    SeparableU16,
    SeparableU8R1,
    SeparableU8R2,
    SeparableU8R3,
    SeparableU8R4,
    SeparableU8R8,
    BilateralNaive,
    BilateralTileU8,
    BilateralTileU16,
}

impl Module {
    pub const ALL: [Module; 13] = [
        Module::ConvolveNaive,
        Module::ConvolveTileU8,
        Module::ConvolveTileU16,
        Module::SeparableU8,
        Module::SeparableU16,
        Module::SeparableU8R1,
        Module::SeparableU8R2,
        Module::SeparableU8R3,
        Module::SeparableU8R4,
        Module::SeparableU8R8,
        Module::BilateralNaive,
        Module::BilateralTileU8,
        Module::BilateralTileU16,
    ];

    /// The name of its file, `kernels/ptx/NAME.ptx`.
    pub fn name(self) -> &'static str {
        match self {
            Module::ConvolveNaive => "convolve_naive",
            Module::ConvolveTileU8 => "convolve_tile_u8",
            Module::ConvolveTileU16 => "convolve_tile_u16",
            Module::SeparableU8 => "separable_u8",
            Module::SeparableU16 => "separable_u16",
            Module::SeparableU8R1 => "separable_u8_r1",
            Module::SeparableU8R2 => "separable_u8_r2",
            Module::SeparableU8R3 => "separable_u8_r3",
            Module::SeparableU8R4 => "separable_u8_r4",
            Module::SeparableU8R8 => "separable_u8_r8",
            Module::BilateralNaive => "bilateral_naive",
            Module::BilateralTileU8 => "bilateral_tile_u8",
            Module::BilateralTileU16 => "bilateral_tile_u16",
        }
    }
}

/// The structure that a kernel takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Parameter {
    /// [`ConvolveLaunch`]
    Convolve,
    /// [`BilateralLaunch`]
    Bilateral,
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
    /// The same up to 3 + 3 taps, and the magnitude of two such, without premultiplication; what
    /// lies beyond the edge is a code value.
    SeparableU8R1,
    /// Up to 5 + 5 taps, one kernel.
    SeparableU8R2,
    SeparableU8R3,
    SeparableU8R4,
    /// Up to 17 + 17 taps.
    SeparableU8R8,
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

/// How a kernel is launched.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Geometry {
    pub grid: Extent,
    pub block: Extent,
    /// Dynamic shared memory of a block; at most the 48 KiB that every device grants without
    /// being asked.
    pub shared_bytes: u32,
}

impl Kernel {
    pub const ALL: [Kernel; 15] = [
        Kernel::ConvolveNaiveU8,
        Kernel::ConvolveNaiveU16,
        Kernel::ConvolveTileU8,
        Kernel::ConvolveTileU16,
        Kernel::SeparableU8,
        Kernel::SeparableU16,
        Kernel::SeparableU8R1,
        Kernel::SeparableU8R2,
        Kernel::SeparableU8R3,
        Kernel::SeparableU8R4,
        Kernel::SeparableU8R8,
        Kernel::BilateralNaiveU8,
        Kernel::BilateralNaiveU16,
        Kernel::BilateralTileU8,
        Kernel::BilateralTileU16,
    ];

    /// The module that holds it.
    pub fn module(self) -> Module {
        use Kernel::*;
        match self {
            ConvolveNaiveU8 | ConvolveNaiveU16 => Module::ConvolveNaive,
            ConvolveTileU8 => Module::ConvolveTileU8,
            ConvolveTileU16 => Module::ConvolveTileU16,
            SeparableU8 => Module::SeparableU8,
            SeparableU16 => Module::SeparableU16,
            SeparableU8R1 => Module::SeparableU8R1,
            SeparableU8R2 => Module::SeparableU8R2,
            SeparableU8R3 => Module::SeparableU8R3,
            SeparableU8R4 => Module::SeparableU8R4,
            SeparableU8R8 => Module::SeparableU8R8,
            BilateralNaiveU8 | BilateralNaiveU16 => Module::BilateralNaive,
            BilateralTileU8 => Module::BilateralTileU8,
            BilateralTileU16 => Module::BilateralTileU16,
        }
    }

    /// Its only parameter.
    pub fn parameter(self) -> Parameter {
        use Kernel::*;
        match self {
            BilateralNaiveU8 | BilateralNaiveU16 | BilateralTileU8 | BilateralTileU16 => {
                Parameter::Bilateral
            }
            _ => Parameter::Convolve,
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
            SeparableU8R1 => "separable_u8_r1",
            SeparableU8R2 => "separable_u8_r2",
            SeparableU8R3 => "separable_u8_r3",
            SeparableU8R4 => "separable_u8_r4",
            SeparableU8R8 => "separable_u8_r8",
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
            SeparableU8 | SeparableU16 | SeparableU8R1 | SeparableU8R2 | SeparableU8R3
            | SeparableU8R4 | SeparableU8R8 => Weights::Inline,
            _ => Weights::Device,
        }
    }

    /// Threads of a block.
    fn threads(self) -> u32 {
        use Kernel::*;
        match self {
            ConvolveTileU8 | ConvolveTileU16 | SeparableU8 | SeparableU16 => 128,
            _ => 256,
        }
    }

    /// Samples across a tile of `job`, all channels of each.
    fn tile_width(self, job: &Job) -> u32 {
        use Kernel::*;
        match self {
            ConvolveTileU8 | ConvolveTileU16 | SeparableU8 | SeparableU16 => 64,
            SeparableU8R1 | SeparableU8R2 | SeparableU8R3 | SeparableU8R4 | SeparableU8R8 => {
                match (job.packed, job.channel_count) {
                    (1, 3) => 32,
                    (1, channels) => 128 / channels,
                    _ => 128,
                }
            }
            _ => 32,
        }
    }

    /// Rows of a tile, the first that fits being taken.
    fn tile_heights(self) -> &'static [u32] {
        use Kernel::*;
        match self {
            ConvolveNaiveU8 | ConvolveNaiveU16 | BilateralNaiveU8 | BilateralNaiveU16 => &[8],
            ConvolveTileU8 | ConvolveTileU16 => &[64, 32, 16],
            SeparableU8 | SeparableU16 | SeparableU8R8 => &[32],
            SeparableU8R1 => &[30],
            SeparableU8R2 => &[28],
            SeparableU8R3 => &[26],
            SeparableU8R4 => &[24],
            BilateralTileU8 | BilateralTileU16 => &[32, 16],
        }
    }

    /// Dynamic shared memory of a block, in bytes, for tiles of `height` rows.
    fn shared_bytes(self, height: usize, radius: (usize, usize), needs: Needs) -> usize {
        use Kernel::*;
        let (width, rows) = (2 * radius.0 + 1, height + 2 * radius.1);
        match self {
            ConvolveNaiveU8 | ConvolveNaiveU16 | BilateralNaiveU8 | BilateralNaiveU16 => 0,
            SeparableU8R1 | SeparableU8R2 | SeparableU8R3 | SeparableU8R4 | SeparableU8R8 => 0,
            ConvolveTileU8 | ConvolveTileU16 => {
                let tile = (64 + width.next_multiple_of(8)) * rows;
                let means = if needs.premultiplied { 64 * height } else { 0 };
                4 * (tile + means)
            }
            SeparableU8 | SeparableU16 => {
                let band = 16 * (64 + width.next_multiple_of(8));
                let rows_read = 24 + (2 * radius.1 + 8).next_multiple_of(8);
                4 * (band + 64 * rows_read)
            }
            BilateralTileU8 | BilateralTileU16 => {
                let several = needs.joint || needs.premultiplied;
                let element = if several && self == BilateralTileU16 {
                    8
                } else {
                    4
                };
                element * (32 + 2 * radius.0) * rows
            }
        }
    }

    /// Rows of a tile and shared memory of a block for a filter that reaches `radius` samples
    /// beyond the centre, or `None` where no tile fits into what every device grants.
    fn tile(self, radius: (usize, usize), needs: Needs) -> Option<(u32, u32)> {
        self.tile_heights().iter().find_map(|&height| {
            let bytes = self.shared_bytes(height as usize, radius, needs);
            (bytes <= SHARED_BYTES).then_some((height, bytes as u32))
        })
    }

    /// Whether it can compute jobs that need `needs` with a filter that reaches `radius` samples
    /// beyond the centre, horizontally and vertically.
    pub fn fits(self, radius: (usize, usize), needs: Needs) -> bool {
        self.tile(radius, needs).is_some()
    }

    /// Stacks the tiles of the jobs of `frame` in a grid: sets `first_tile_row` and
    /// `tiles_across` of each, and `tile_height`. `radius` is how far the filter reaches beyond
    /// the centre, horizontally and vertically.
    ///
    /// # Panics
    /// When there are no jobs or more than [`MAX_JOBS`], one is empty, or the kernel does not
    /// [fit](Self::fits).
    pub fn place(self, frame: &mut Frame, radius: (usize, usize)) -> Geometry {
        let jobs = &mut frame.jobs[..frame.job_count as usize];
        assert!(!jobs.is_empty(), "a launch without jobs");
        let needs = Needs::of(jobs);
        let (tile_height, shared_bytes) = self.tile(radius, needs).expect("a kernel that fits");
        let mut grid = Extent { x: 0, y: 0 };
        for job in jobs.iter_mut() {
            assert!(job.width > 0 && job.height > 0, "a job without samples");
            job.first_tile_row = grid.y;
            job.tiles_across = job.width.div_ceil(self.tile_width(job));
            grid.x = grid.x.max(job.tiles_across);
            grid.y += job.height.div_ceil(tile_height);
        }
        frame.tile_height = tile_height;
        Geometry {
            grid,
            block: Extent {
                x: self.threads(),
                y: 1,
            },
            shared_bytes,
        }
    }
}

/// Dynamic shared memory that every device grants a block without being asked.
const SHARED_BYTES: usize = 48 * 1024;

/// What the jobs of a launch ask of shared memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Needs {
    /// One of them has an alpha channel that premultiplies.
    pub premultiplied: bool,
    /// One of them has channels with one joint weight.
    pub joint: bool,
}

impl Needs {
    fn of(jobs: &[Job]) -> Needs {
        Needs {
            premultiplied: jobs.iter().any(|job| job.alpha >= 0),
            joint: jobs.iter().any(|job| job.joint != 0),
        }
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
        same!(Frame, tile_height);
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
            tile_height
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
    fn lines_of_weights_are_filled_up_with_zeros() {
        let mut weights = Vec::new();
        push_line(&mut weights, &[1.0, 2.0, 1.0]);
        push_line(&mut weights, &[3.0; 5]);
        push_line(&mut weights, &[4.0; 4]);
        let (a, b) = (
            [1.0, 2.0, 1.0, 0.0],
            [3.0, 3.0, 3.0, 3.0, 3.0, 0.0, 0.0, 0.0],
        );
        assert_eq!(weights, [&a[..], &b[..], &[4.0; 4]].concat());
        let longest = 2 * line_length(2 * MAX_RADIUS + 1);
        assert!(
            longest <= INLINE_WEIGHTS,
            "every separable kernel is inline"
        );
    }

    fn frame(sizes: &[(u32, u32)]) -> Frame {
        let mut frame = Frame {
            job_count: sizes.len() as u32,
            ..Frame::default()
        };
        for (job, &(width, height)) in frame.jobs.iter_mut().zip(sizes) {
            (job.width, job.height, job.channel_count) = (width, height, 1);
        }
        frame
    }

    #[test]
    fn tiles_cover_every_job_once() {
        for kernel in Kernel::ALL {
            for sizes in [
                vec![(1, 1)],
                vec![(1920, 1080), (960, 540)],
                vec![(33, 17); 8],
            ] {
                let mut frame = frame(&sizes);
                let grid = kernel.place(&mut frame, (3, 3)).grid;
                let mut rows = 0;
                for job in &frame.jobs[..sizes.len()] {
                    let width = kernel.tile_width(job);
                    assert_eq!(job.first_tile_row, rows);
                    assert!(job.tiles_across * width >= job.width);
                    assert!((job.tiles_across - 1) * width < job.width);
                    assert!(job.tiles_across <= grid.x);
                    rows += job.height.div_ceil(frame.tile_height);
                }
                assert_eq!(grid.y, rows);
            }
        }
    }

    #[test]
    fn launches_are_within_what_every_device_grants() {
        for kernel in Kernel::ALL {
            let mut frame = frame(&[(16384, 16384); MAX_JOBS]);
            for radius in 0..=MAX_RADIUS {
                if !kernel.fits((radius, radius), Needs::default()) {
                    continue;
                }
                let geometry = kernel.place(&mut frame, (radius, radius));
                assert!(geometry.grid.y <= 65535, "{kernel:?}: {geometry:?}");
                assert!(geometry.block.x * geometry.block.y <= 1024);
                assert!(geometry.shared_bytes <= 48 * 1024, "{kernel:?} {radius}");
            }
        }
    }

    #[test]
    fn every_radius_has_a_tile_but_for_several_wide_samples() {
        let all = (MAX_RADIUS, MAX_RADIUS);
        let (one, several) = (
            Needs::default(),
            Needs {
                premultiplied: true,
                joint: true,
            },
        );
        for kernel in [
            Kernel::ConvolveTileU16,
            Kernel::SeparableU16,
            Kernel::BilateralTileU8,
        ] {
            assert!(
                kernel.fits(all, one) && kernel.fits(all, several),
                "{kernel:?}"
            );
        }
        assert!(Kernel::BilateralTileU16.fits(all, one));
        assert!(Kernel::BilateralTileU16.fits((27, 27), several));
        assert!(!Kernel::BilateralTileU16.fits((28, 28), several));
    }
}
