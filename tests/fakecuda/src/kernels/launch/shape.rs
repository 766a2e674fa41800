//! The shape of a launch, against what the host side of the interface says of it.

use super::{Filter, Launch, jobs};
use crate::abi::{Extent, Job, Kernel, Needs, sample};
use crate::violation;

impl Launch {
    /// Ends the process unless grid, block and shared memory are what the host side of the
    /// interface says of this launch, which computes all rows of its jobs or a band of the only one.
    pub fn check_shape(&mut self, kernel: Kernel, grid: Extent, block: Extent, shared: u32) {
        let kernel = variant(kernel, &self.filter);
        let frame = self.filter.frame();
        let mut placed = *frame;
        let mut expected = kernel.place(&mut placed, self.filter.margin());
        if let [job] = jobs(frame)
            && (job.first_tile_row != 0 || grid.y < expected.grid.y)
        {
            let first = job.first_tile_row.wrapping_neg();
            if grid.y == 0 || first.saturating_add(grid.y) > expected.grid.y {
                violation!(
                    "a band of {} tiles from {first}, of {}",
                    grid.y,
                    expected.grid.y
                );
            }
            let row = |tile: u32| (tile * placed.tile_height).min(job.height) as usize;
            for plane in self.planes.iter_mut().flatten() {
                plane.band = row(first)..row(first + grid.y);
            }
            placed.jobs[0].first_tile_row = job.first_tile_row;
            expected.grid.y = grid.y;
        }
        for (job, placed) in jobs(frame).iter().zip(jobs(&placed)) {
            let tiles = |job: &Job| (job.first_tile_row, job.tiles_across);
            if tiles(job) != tiles(placed) {
                violation!("tiles are {:?}, expected {:?}", tiles(job), tiles(placed));
            }
        }
        if frame.tile_height != placed.tile_height {
            violation!(
                "a tile of {} rows, expected {}",
                frame.tile_height,
                placed.tile_height
            );
        }
        if grid != expected.grid || block != expected.block {
            violation!(
                "{grid:?} of {block:?}, expected {:?} of {:?}",
                expected.grid,
                expected.block
            );
        }
        if shared != expected.shared_bytes {
            violation!(
                "{shared} bytes of dynamic shared memory, expected {}",
                expected.shared_bytes
            );
        }
    }
}

/// Which of the kernels of one function it is: those of the bilateral by levels differ in the samples
/// for which there is room in shared memory, and in the height of their tiles, those of bands in what they are
/// given to decide by, those of few taps in how many these are.
pub(super) fn variant(kernel: Kernel, filter: &Filter) -> Kernel {
    use Kernel::*;
    match (kernel, filter) {
        (ConvolveMatrixNearU8, Filter::Linear(launch)) if launch.tolerance == 0.0 => {
            ConvolveMatrixRoughU8
        }
        (ConvolveMatrixU16, Filter::Linear(launch)) if launch.tolerance != 0.0 => {
            ConvolveMatrixNearU16
        }
        (SeparableU8R2, Filter::Linear(launch)) => match launch.kernels[0].width {
            0..=5 => SeparableU8R2,
            6..=7 => SeparableU8R3,
            _ => SeparableU8R4,
        },
        (BilateralFastU8, _) => by_levels(filter),
        _ => kernel,
    }
}

fn by_levels(filter: &Filter) -> Kernel {
    use Kernel::*;
    let frame = filter.frame();
    let variants = match frame.sample {
        sample::U8 => [BilateralFastU8, BilateralFastLowU8, BilateralFastLowestU8],
        _ => [
            BilateralFastU16,
            BilateralFastLowU16,
            BilateralFastLowestU16,
        ],
    };
    let margin = filter.margin();
    let height = |kernel: Kernel| kernel.tile_height(&frame.jobs[0], margin);
    let fits = |kernel: &Kernel| kernel.fits(margin, Needs::default());
    let found = variants.into_iter().filter(fits);
    let found = found
        .into_iter()
        .find(|&kernel| height(kernel) == frame.tile_height);
    found.unwrap_or_else(|| violation!("no kernel has tiles of {} rows", frame.tile_height))
}
