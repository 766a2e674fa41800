//! Frames that are computed in bands.

use std::ops::Range;

use super::{Extent, Launches, Placed};
use crate::engine::cuda::abi;
use crate::engine::cuda::api::CUdeviceptr;
use crate::engine::cuda::context::{Current, Stream};
use crate::engine::cuda::error::CudaError;
use crate::engine::cuda::module::Function;
use crate::filter::spec::Border;

/// A job of a frame that can be computed in bands, from its first row to its last.
pub struct Part {
    step: usize,
    job: abi::Job,
    /// The planes of its channels.
    planes: Vec<usize>,
    tile_height: usize,
    /// Rows above and below a tile that may be read.
    reach: usize,
}

impl Part {
    /// The planes of its channels, ascending.
    pub fn planes(&self) -> &[usize] {
        &self.planes
    }

    /// The tiles that can be computed from the first rows of each plane that `there` counts.
    pub fn tiles_ready(&self, there: &[usize]) -> u32 {
        let height = self.job.height as usize;
        let rows = self.planes.iter().map(|&plane| there[plane]).min();
        match rows.unwrap_or(height) {
            rows if rows >= height => height.div_ceil(self.tile_height) as u32,
            rows => (rows.saturating_sub(self.reach) / self.tile_height) as u32,
        }
    }

    /// The rows that `tiles` tiles cover.
    pub fn rows_of(&self, tiles: u32) -> usize {
        (tiles as usize * self.tile_height).min(self.job.height as usize)
    }
}

impl Launches {
    /// Whether frames can be computed in bands: not where the first rows need the last.
    pub fn suit_bands(&self) -> bool {
        (self.plan.jobs.iter()).all(|job| job.border != Border::Wrap)
    }

    /// The frame's jobs, each of which can be computed in bands where the launches
    /// [suit](Self::suit_bands) them.
    pub fn parts(&self, input: Placed, output: Placed) -> Vec<Part> {
        let mut parts = Vec::new();
        for (index, step) in self.steps.iter().enumerate() {
            for &job in step.described_jobs() {
                let job = &self.plan.jobs[job];
                let channels = job.group.channels.iter();
                let mut planes: Vec<usize> = channels.map(|channel| channel.plane).collect();
                planes.sort_unstable();
                planes.dedup();
                for job in step.cut(self.job(step, job, input, output, (0, 1))) {
                    parts.push(Part {
                        step: index,
                        tile_height: step.kernel.tile_height(&job, step.radius) as usize,
                        job,
                        planes: planes.clone(),
                        reach: step.kernel.rows_beside(step.radius.1),
                    });
                }
            }
        }
        parts
    }

    /// Launches `tiles` of `part`.
    ///
    /// # Safety
    /// As [`Launches::enqueue`], where of the input only the rows need be there that the tiles are
    /// computed from, and only the rows of the tiles are written.
    ///
    /// # Errors
    /// As the driver's, also those of earlier work.
    pub unsafe fn enqueue_tiles(
        &self,
        current: &Current,
        stream: &Stream,
        functions: &[Function],
        (part, tiles): (&Part, Range<u32>),
        weights: CUdeviceptr,
    ) -> Result<(), CudaError> {
        let step = &self.steps[part.step];
        let at = weights + (step.first_weight * size_of::<u32>()) as u64;
        let extent = Extent::Tiles(&part.job, tiles);
        // SAFETY: passed on to the caller.
        unsafe { step.launch(current, stream, functions[part.step], extent, at) }
    }
}
