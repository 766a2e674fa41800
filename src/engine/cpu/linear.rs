//! Correlations and gradient magnitudes in float32, of any kernel and sample, in exactly the
//! canonical order of operations.
//!
//! A band is worked through from top to bottom in tiles of columns. Each input row becomes
//! float32 once, with its border; a separable kernel makes its horizontal sums of it at once; a
//! ring keeps as many rows as the kernel is high, small enough to stay in the second-level cache.

use super::band::{Band, Complete, Reader, Ring, Step, Tile};
use super::isa::Isa;
use super::rows::chain::{SLACK, Tap, chain_row};
use super::rows::samples::{
    Divisor, Finish, divide_by_alpha_row, divide_row, magnitude_row, multiply_row,
};
use super::scratch::{Scratch, whole_lines};
use super::streams::{Stream, Streams};
use crate::filter::Layout;
use crate::filter::plan::{Correlation, Job, Operation, Taps};

/// One kernel as chains of taps, relative to the middle.
struct Kernel {
    /// Of the horizontal pass of a separable kernel: pixel offset and weight.
    horizontal: Option<Vec<(isize, f32)>>,
    /// Of the last pass: row offset, pixel offset and weight.
    last: Vec<(isize, isize, f32)>,
}

/// A job of one or two kernels.
pub struct LinearJob {
    streams: Streams,
    kernels: Vec<Kernel>,
    radius_x: usize,
    radius_y: usize,
    divisor: Divisor,
    max: f32,
    premultiply: bool,
    /// Whether a kernel needs the rows themselves, not horizontal sums alone.
    keeps_rows: bool,
}

impl Kernel {
    fn new(correlation: &Correlation) -> Kernel {
        // A weight of 0 adds nothing to a sum of finite values, so it can be left out.
        let finite_sums = |weights: &[f32]| {
            (weights.iter().map(|w| w.abs()).sum::<f32>() * u32::MAX as f32).is_finite()
        };
        let centred = |weights: &[f32], skip: bool| -> Vec<(isize, f32)> {
            let radius = weights.len() as isize / 2;
            (-radius..)
                .zip(weights.iter().copied())
                .filter(|&(_, weight)| !skip || weight != 0.0)
                .collect()
        };
        match &correlation.taps {
            Taps::Separable {
                horizontal,
                vertical,
            } => Kernel {
                last: centred(vertical, finite_sums(horizontal))
                    .into_iter()
                    .map(|(j, weight)| (j, 0, weight))
                    .collect(),
                horizontal: Some(centred(horizontal, true)),
            },
            Taps::Full {
                width,
                height,
                weights,
            } => Kernel {
                horizontal: None,
                last: (-(*height as isize / 2)..)
                    .zip(weights.chunks_exact(*width))
                    .flat_map(|(j, row)| {
                        centred(row, true)
                            .into_iter()
                            .map(move |(i, weight)| (j, i, weight))
                    })
                    .collect(),
            },
        }
    }
}

impl LinearJob {
    /// # Panics
    /// When the operation is none of correlation and magnitude.
    pub fn new(layout: &Layout, job: &Job) -> LinearJob {
        let correlations = match &job.operation {
            Operation::Correlate(kernel) => vec![kernel],
            Operation::Magnitude { x, y } => vec![x, y],
            Operation::None | Operation::Bilateral(_) => panic!("not a linear operation"),
        };
        let kernels: Vec<Kernel> = correlations.iter().map(|c| Kernel::new(c)).collect();
        let radii = correlations.iter().map(|c| c.taps.radius());
        let radius = radii.fold((0, 0), |most, (x, y)| (x.max(most.0), y.max(most.1)));
        LinearJob {
            streams: Streams::new(layout, job),
            radius_x: radius.0,
            radius_y: radius.1,
            divisor: Divisor::new(correlations[0].divisor),
            max: layout.max_code() as f32,
            premultiply: job.premultiply,
            keeps_rows: kernels.iter().any(|k| k.horizontal.is_none()),
            kernels,
        }
    }

    /// Filters a band.
    pub fn filter(&self, isa: Isa, band: &mut Band, scratch: &mut Scratch) {
        // Premultiplied colours need their alpha at hand, all others are worked on in turn.
        let together = if self.premultiply {
            self.streams.filtered.len()
        } else {
            1
        };
        let rows = Ring::new(self.radius_y).rows;
        let kept = rows * (self.kernels.len() + usize::from(self.keeps_rows));
        for streams in self.streams.filtered.chunks(together) {
            let channels = streams[0].channels;
            let bytes = kept * streams.len() * channels * size_of::<f32>();
            for tile in Tile::all(self.streams.width, channels, bytes) {
                let mut work = Work::new(self, isa, band, streams, tile, scratch);
                for step in band.steps(self.radius_y) {
                    work.read(step);
                    if let Some(complete) = step.complete {
                        work.write(complete, band);
                    }
                }
            }
        }
        self.streams.write_unfiltered(isa, band);
    }
}

/// Streams of a job in one tile of a band.
struct Work<'a> {
    job: &'a LinearJob,
    isa: Isa,
    reader: Reader<'a>,
    streams: &'a [Stream],
    tile: Tile,
    ring: Ring,
    /// Rows of input values kept of each stream.
    input_rows: usize,
    input_stride: usize,
    input: &'a mut [f32],
    /// Horizontal sums, by stream, kernel and row of the ring.
    sums_stride: usize,
    sums: &'a mut [f32],
    /// The mean of alpha, and the sums of one or two kernels.
    results: &'a mut [f32],
    codes: &'a mut [u8],
    taps: &'a mut Vec<Tap>,
}

impl<'a> Work<'a> {
    fn new(
        job: &'a LinearJob,
        isa: Isa,
        band: &Band<'a>,
        streams: &'a [Stream],
        tile: Tile,
        scratch: &'a mut Scratch,
    ) -> Self {
        let ring = Ring::new(job.radius_y);
        let input_rows = if job.keeps_rows { ring.rows } else { 1 };
        let input_stride = whole_lines::<f32>(tile.samples_beside(job.radius_x) + SLACK);
        let sums_stride = whole_lines::<f32>(tile.samples() + SLACK);
        let sums = streams.len() * job.kernels.len() * ring.rows * sums_stride;
        Work {
            job,
            isa,
            reader: band.reader(&job.streams),
            streams,
            ring,
            input_rows,
            input_stride,
            input: (scratch.input).get(streams.len() * input_rows * input_stride),
            sums_stride,
            sums: scratch.sums.get(sums),
            results: scratch.results.get(3 * sums_stride),
            codes: scratch.codes.get(2 * tile.samples()),
            taps: &mut scratch.taps,
            tile,
        }
    }

    /// Takes in an input row of every stream: its values, and its horizontal sums.
    fn read(&mut self, step: Step) {
        for (index, stream) in self.streams.iter().enumerate() {
            let start = self.input_start(index, self.ring.slot(step.count, 0));
            let (before, row) = self.input.split_at_mut(start);
            let row = &mut row[..self.input_stride];
            let wanted = self.tile.beside(self.job.radius_x);
            self.reader
                .read_values(self.isa, stream, step.y, wanted, row);
            if index > 0 {
                // Of premultiplied streams the first is alpha.
                let alpha = &before[start - index * self.input_rows * self.input_stride..];
                multiply_row(self.isa, row, &alpha[..self.input_stride]);
            }
            for k in 0..self.job.kernels.len() {
                self.sum_across(index, k, start, step.count);
            }
        }
    }

    /// The horizontal sums of kernel `k` of the input row at `start`.
    fn sum_across(&mut self, index: usize, k: usize, start: usize, count: usize) {
        let Some(horizontal) = &self.job.kernels[k].horizontal else {
            return;
        };
        let place = |i| start + self.tile.place(self.job.radius_x, i);
        self.taps.clear();
        (self.taps).extend(horizontal.iter().map(|&(i, weight)| Tap {
            weight,
            start: place(i),
        }));
        let to = self.sums_start(index, k, self.ring.slot(count, 0));
        let to = &mut self.sums[to..][..self.sums_stride];
        chain_row(self.isa, self.taps, self.input, to, self.tile.samples());
    }

    /// Computes and writes an output row of every stream.
    fn write(&mut self, complete: Complete, band: &mut Band) {
        let samples = self.tile.samples();
        for (index, stream) in self.streams.iter().enumerate() {
            for k in 0..self.job.kernels.len() {
                self.sum_down(index, k, complete.count);
            }
            let (alpha, values) = self.results.split_at_mut(self.sums_stride);
            let (values, other) = values.split_at_mut(self.sums_stride);
            let (alpha, values) = (&mut alpha[..samples], &mut values[..samples]);
            if self.job.kernels.len() == 2 {
                magnitude_row(self.isa, values, &other[..samples]);
            }
            let mut divisor = self.job.divisor;
            if self.job.premultiply {
                divide_row(self.isa, values, divisor);
                divisor = Divisor::One;
                if index == 0 {
                    alpha.copy_from_slice(values);
                } else {
                    divide_by_alpha_row(self.isa, values, alpha);
                }
            }
            let finish = Finish {
                divisor,
                offset: stream.out_offset,
                max: self.job.max,
                sample: self.job.streams.sample,
            };
            let to = (&mut *band, complete.y);
            stream.write_sums(self.isa, values, &finish, self.codes, to, &self.tile);
        }
    }

    /// The sums of kernel `k` around the row of step `count`.
    fn sum_down(&mut self, index: usize, k: usize, count: usize) {
        let kernel = &self.job.kernels[k];
        let mut taps = std::mem::take(self.taps);
        let start = |j, i| {
            let slot = self.ring.slot(count, j);
            if kernel.horizontal.is_some() {
                self.sums_start(index, k, slot)
            } else {
                self.input_start(index, slot) + self.tile.place(self.job.radius_x, i)
            }
        };
        taps.clear();
        taps.extend(kernel.last.iter().map(|&(j, i, weight)| Tap {
            weight,
            start: start(j, i),
        }));
        let from = if kernel.horizontal.is_some() {
            &*self.sums
        } else {
            &*self.input
        };
        let to = &mut self.results[(1 + k) * self.sums_stride..][..self.sums_stride];
        chain_row(self.isa, &taps, from, to, self.tile.samples());
        *self.taps = taps;
    }

    fn input_start(&self, index: usize, slot: usize) -> usize {
        (index * self.input_rows + slot % self.input_rows) * self.input_stride
    }

    fn sums_start(&self, index: usize, k: usize, slot: usize) -> usize {
        ((index * self.job.kernels.len() + k) * self.ring.rows + slot) * self.sums_stride
    }
}
