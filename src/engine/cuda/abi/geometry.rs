//! The geometry of launches: tiles, shared memory, grids.

use super::kernels::description::Across::{OfRow, PackedSamples, Right, Samples, Strip};
use super::kernels::description::Rows::{Below, First, Rings, Slabs, Staged, Strips};
use super::{
    Frame, Job, Kernel, MAX_JOBS, MAX_RADIUS, action, band, boxes, fourier, halves, line_length,
    packed, slabs, wide,
};

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
            joint: jobs.iter().any(|job| job.joint_or_filter != 0),
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
pub(super) const MULTIPROCESSORS: u32 = 132;
/// Shared memory that every device grants a block without being asked, static and dynamic.
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
        (PackedSamples, packed::LUMA_FIRST | packed::LUMA_SECOND, _) => job.width.div_ceil(64),
        (PackedSamples, 1, 3) => job.width.div_ceil(32),
        (PackedSamples, 1, channels) => job.width.div_ceil(128 / channels),
        (PackedSamples, ..) => job.width.div_ceil(128),
        (OfRow(samples), 1, channels) => (job.width * channels).div_ceil(samples),
        (OfRow(samples), ..) => job.width.div_ceil(samples),
    }
}

/// Static shared memory of a block, in bytes, of a kernel that has dynamic memory as well.
pub(super) fn static_bytes(kernel: Kernel) -> usize {
    use Kernel::*;
    match kernel {
        // Words of 16 bits for each column and row of the largest tile.
        BilateralTileU8
        | BilateralTileU16
        | BilateralPremultipliedU8
        | BilateralPremultipliedU16
        | BilateralJointU8
        | BilateralJointWideU8
        | BilateralSingleU16 => 2 * 2 * (32 + 2 * MAX_RADIUS),
        BilateralFastU8
        | BilateralFastLowU8
        | BilateralFastLowestU8
        | BilateralFastU16
        | BilateralFastLowU16
        | BilateralFastLowestU16 => 32,
        SeparableWideU8 | SeparableWideU16 => 144,
        _ => 0,
    }
}

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
    // The sums across, the samples, the weights across and down.
    512 * groups + 8 * groups * pitch * bytes / 4 + 64 * (10 + groups_down)
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
        SeparableWideU8 | SeparableWideU16 => wide::shared_floats(radius),
        BilateralTileU8 | BilateralPremultipliedU8 => (32 + 2 * radius.0) * rows,
        BilateralTileU16 | BilateralPremultipliedU16 => {
            let several = needs.joint || needs.premultiplied;
            (32 + 2 * radius.0) * rows * if several { 2 } else { 1 }
        }
        // Channels apart.
        BilateralJointU8 => 4 * (32 + 2 * 8) * (height + 2 * 8),
        BilateralJointWideU8 | BilateralSingleU16 => {
            // Rows of a thread.
            let of_thread = height / 4;
            let exponents = 4 * (radius.0 + 1) * (radius.1 + of_thread / 2 + 1);
            let near = radius.0.max(radius.1) <= 8;
            let tile = match kernel {
                BilateralSingleU16 if near => (32 + 2 * 8) * (height + 2 * 8),
                _ => (32 + 2 * radius.0) * rows,
            };
            exponents + tile
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
    /// Rows of a tile of `jobs`, which need `needs`, for a filter that reaches `radius` samples beyond the centre;
    /// `None` where there is no room for one.
    fn rows(self, jobs: &[Job], radius: (usize, usize), needs: Needs) -> Option<u32> {
        let columns = || -> Vec<u32> {
            let columns = jobs.iter().map(|job| tiles_across(self, job, radius));
            columns.collect()
        };
        let heights = || -> Vec<u32> { jobs.iter().map(|job| job.height).collect() };
        let slots = |blocks: u32| blocks * MULTIPROCESSORS;
        match self.describe().rows {
            First(heights) => (heights.iter().copied()).find(|&height| {
                let dynamic = shared_bytes(self, height as usize, radius, needs);
                dynamic + static_bytes(self) <= SHARED_BYTES
            }),
            Below => (radius.0.max(radius.1) <= fourier::MOST_RADIUS)
                .then(|| (fourier::SIDE - 2 * radius.1) as u32),
            Strips(blocks) => {
                let (columns, heights) = (columns(), heights());
                Some(boxes::tile_height(
                    &columns,
                    &heights,
                    slots(blocks),
                    radius.1,
                ))
            }
            Staged(blocks, most) => {
                let (columns, heights) = (columns(), heights());
                Some(halves::tile_height(&columns, &heights, slots(blocks), most))
            }
            Slabs(blocks) => Some(slabs::tile_height(&columns(), &heights(), blocks)),
            Rings(blocks) => {
                let filtered = |job: &Job| {
                    let channels = &job.channels[..job.channel_count as usize];
                    let filtered = (channels.iter()).filter(|c| c.action == action::FILTER);
                    filtered.count() as u32
                };
                let columns = columns().into_iter().zip(jobs);
                let columns: Vec<u32> = columns.map(|(c, job)| c * filtered(job)).collect();
                Some(wide::tile_height(&columns, &heights(), slots(blocks)))
            }
        }
    }

    /// Whether there is room for jobs that need `needs` with a filter that reaches `radius` samples
    /// beyond the centre, horizontally and vertically.
    pub fn fits(self, radius: (usize, usize), needs: Needs) -> bool {
        self.rows(&[], radius, needs).is_some()
    }

    /// Rows of the input above and below a tile that may be read for a filter that reaches `radius` rows: more than these,
    /// for what is thrown away, by kernels that go by groups of rows or by the largest filter that they take. They are
    /// there, or are none of the picture.
    pub fn rows_beside(self, radius: usize) -> usize {
        match self.describe().rows {
            // Those of a tile and above and below it are whole slabs.
            Slabs(_) => (2 * radius).next_multiple_of(slabs::ROWS) - radius,
            Strips(_) => radius + boxes::SPARE_ROWS,
            First(_) | Below | Staged(..) | Rings(_) => radius.max(self.least_halo()),
        }
    }

    /// Rows of a tile in a launch of `job` alone.
    ///
    /// # Panics
    /// When the kernel does not [fit](Self::fits).
    pub fn tile_height(self, job: &Job, radius: (usize, usize)) -> u32 {
        let jobs = std::slice::from_ref(job);
        self.rows(jobs, radius, Needs::of(jobs)).expect("it fits")
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
        let needs = Needs::of(jobs);
        let tile_height = self.rows(jobs, radius, needs).expect("it fits");
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
            shared_bytes: shared_bytes(self, tile_height as usize, radius, needs) as u32,
        }
    }
}
