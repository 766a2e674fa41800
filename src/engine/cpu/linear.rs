//! Correlations and gradient magnitudes in float32, of any kernel and sample, in exactly the
//! canonical order of operations.
//!
//! A band is worked through from top to bottom in tiles of columns. Each input row becomes
//! float32 once, with its border; a separable kernel makes its horizontal sums of it at once, one for each
//! outer product that it is the sum of, which are then the columns of its window; a
//! ring keeps the rows that the windows of a block of output rows have, small enough to stay in the
//! second-level cache.

use std::mem::take;

use super::band::{Band, Block, Reader, Ring, Step, Tile};
use super::isa::Isa;
use super::rows::chain::{SLACK, Tap, chain_row};
use super::rows::samples::{
    Divisor, Finish, divide_by_alpha_row, divide_row, finish_row, magnitude_row, multiply_row,
};
use super::rows::window::{ROWS, RUN, Window, window_samples, window_sums};
use super::scratch::{Scratch, whole_lines};
use super::streams::{Pixels, Stream, Streams};
use crate::filter::Layout;
use crate::filter::plan::{Correlation, Job, Operation, Taps, Term};

/// One kernel as chains of taps, relative to the middle.
struct Kernel {
    /// Of the horizontal passes of a separable kernel: pixel offset and weight.
    horizontal: Vec<Vec<(isize, f32)>>,
    last: Last,
}

/// The last pass.
enum Last {
    /// All taps of a window.
    Window {
        /// Row by row.
        weights: Vec<f32>,
        /// Row offset of the first row.
        top: isize,
        /// Pixel offsets of the columns; of a separable kernel the indices of its horizontal sums.
        columns: Vec<isize>,
    },
    /// Few taps: row offset, pixel offset and weight.
    Sparse(Vec<(isize, isize, f32)>),
}

/// A job of one or two kernels.
pub struct LinearJob {
    streams: Streams,
    /// How the streams make up pixels, if they do.
    pixels: Option<Pixels>,
    kernels: Vec<Kernel>,
    radius_x: usize,
    radius_y: usize,
    divisor: Divisor,
    max: f32,
    premultiply: bool,
    /// Whether a kernel needs the rows themselves, not horizontal sums alone.
    keeps_rows: bool,
    /// Horizontal sums of all kernels.
    sums: usize,
}

impl Kernel {
    fn new(correlation: &Correlation) -> Kernel {
        match &correlation.taps {
            Taps::Separable {
                horizontal,
                vertical,
            } => Kernel {
                horizontal: vec![taps(horizontal).collect()],
                last: Last::Window {
                    weights: vertical.clone(),
                    top: -(vertical.len() as isize / 2),
                    columns: vec![0],
                },
            },
            Taps::Full {
                width,
                height,
                weights,
            } => Kernel {
                horizontal: Vec::new(),
                last: Last::full(*width, *height, weights),
            },
            Taps::Sum(terms) => Kernel::sum(terms),
        }
    }

    fn sum(terms: &[Term]) -> Kernel {
        let height = terms[0].vertical.len();
        let rows = (0..height).flat_map(|row| terms.iter().map(move |term| term.vertical[row]));
        Kernel {
            horizontal: (terms.iter())
                .map(|term| taps(&term.horizontal).collect())
                .collect(),
            last: Last::Window {
                weights: rows.collect(),
                top: -(height as isize / 2),
                columns: (0..).take(terms.len()).collect(),
            },
        }
    }

    /// What the last pass works on, of the input and the horizontal sums.
    fn samples<'a>(&self, input: &'a [f32], sums: &'a [f32]) -> &'a [f32] {
        match self.horizontal.is_empty() {
            false => sums,
            true => input,
        }
    }
}

/// Offsets from the middle and weights, without those of 0: they add nothing to a sum of finite
/// values.
fn taps(weights: &[f32]) -> impl Iterator<Item = (isize, f32)> {
    let radius = weights.len() as isize / 2;
    (-radius..)
        .zip(weights.iter().copied())
        .filter(|&(_, weight)| weight != 0.0)
}

impl Last {
    fn full(width: usize, height: usize, weights: &[f32]) -> Last {
        /// A tap of a window costs about a third of one by itself.
        const LEAST: usize = 3;
        let (left, top) = (-(width as isize / 2), -(height as isize / 2));
        let sparse: Vec<(isize, isize, f32)> = (top..)
            .zip(weights.chunks_exact(width))
            .flat_map(|(j, row)| taps(row).map(move |(i, weight)| (j, i, weight)))
            .collect();
        if sparse.len() * LEAST < weights.len() {
            return Last::Sparse(sparse);
        }
        Last::Window {
            weights: weights.to_vec(),
            top,
            columns: (left..).take(width).collect(),
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
        let (streams, pixels) = match Pixels::new(layout, job) {
            Some(pixels) => (Streams::apart(layout, job), Some(pixels)),
            None => (Streams::new(layout, job), None),
        };
        LinearJob {
            streams,
            pixels,
            radius_x: radius.0,
            radius_y: radius.1,
            divisor: Divisor::new(correlations[0].divisor),
            max: layout.max_code() as f32,
            premultiply: job.premultiply,
            keeps_rows: kernels.iter().any(|k| k.horizontal.is_empty()),
            sums: kernels.iter().map(|k| k.horizontal.len()).sum(),
            kernels,
        }
    }

    /// Filters a band.
    pub fn filter(&self, isa: Isa, band: &mut Band, scratch: &mut Scratch) {
        // Premultiplied colours need their alpha at hand, pixels all of theirs; any others are
        // worked on in turn.
        let together = if self.premultiply || self.pixels.is_some() {
            self.streams.filtered.len()
        } else {
            1
        };
        let rows = Ring::of_blocks(self.radius_y, ROWS).rows;
        let kept = rows * (self.sums + usize::from(self.keeps_rows));
        for streams in self.streams.filtered.chunks(together) {
            let channels = streams[0].channels;
            let bytes = kept * streams.len() * channels * size_of::<f32>();
            for tile in Tile::all(self.streams.width, channels, bytes) {
                let mut work = Work::new(self, isa, band, streams, tile, scratch);
                for (step, block) in band.blocks(self.radius_y, ROWS) {
                    work.read(step);
                    if let Some(block) = block {
                        work.write(block, band);
                    }
                }
            }
        }
        if self.pixels.is_none() {
            self.streams.write_unfiltered(isa, band);
        }
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
    /// Horizontal sums, by stream, kernel, outer product and row of the ring.
    sums_stride: usize,
    sums: &'a mut [f32],
    /// Of the rows of a block the mean of alpha, and the sums of one or two kernels.
    results: &'a mut [f32],
    /// Bytes from one row of codes to the next.
    codes_stride: usize,
    /// Samples side by side, by stream and row of a block, of streams that are not so in the frame.
    codes: &'a mut [u8],
    taps: &'a mut Vec<Tap>,
    /// Of a window.
    rows: &'a mut Vec<usize>,
    columns: &'a mut Vec<usize>,
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
        let ring = Ring::of_blocks(job.radius_y, ROWS);
        let input_rows = if job.keeps_rows { ring.rows } else { 1 };
        let input_stride = whole_lines::<f32>(tile.samples_beside(job.radius_x) + RUN.max(SLACK));
        let sums_stride = whole_lines::<f32>(tile.samples() + RUN.max(SLACK));
        let sums = streams.len() * job.sums * ring.rows * sums_stride;
        let codes_stride = (tile.samples() + RUN) * job.streams.sample.bytes();
        let codes_stride = whole_lines::<u8>(codes_stride);
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
            results: scratch.results.get(3 * ROWS * sums_stride),
            codes_stride,
            codes: (scratch.codes).get(streams.len() * ROWS * codes_stride),
            taps: &mut scratch.taps,
            rows: &mut scratch.rows,
            columns: &mut scratch.columns,
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
            if self.job.premultiply && index > 0 {
                // Of premultiplied streams the first is alpha.
                let alpha = &before[start - index * self.input_rows * self.input_stride..];
                multiply_row(self.isa, row, &alpha[..self.input_stride]);
            }
            let kernels = self.job.kernels.iter();
            for (k, horizontal) in kernels.flat_map(|kernel| &kernel.horizontal).enumerate() {
                self.sum_across((index, k), horizontal, start, step.count);
            }
        }
    }

    /// The horizontal sums `k` of stream `index` of the input row at `start`.
    fn sum_across(
        &mut self,
        (index, k): (usize, usize),
        horizontal: &[(isize, f32)],
        start: usize,
        count: usize,
    ) {
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

    /// Computes and writes the output rows of a block.
    fn write(&mut self, block: Block, band: &mut Band) {
        let codes = take(&mut self.codes);
        let bytes = self.tile.samples() * self.job.streams.sample.bytes();
        for (index, stream) in self.streams.iter().enumerate() {
            let lent = match self.job.pixels {
                Some(_) => None,
                None => stream.lend(self.job.streams.sample, band, &self.tile, block),
            };
            let mut outs = lent.unwrap_or_else(|| {
                let mut rows = codes[index * ROWS * self.codes_stride..]
                    .chunks_mut(self.codes_stride)
                    .take(block.rows);
                std::array::from_fn(|_| match rows.next() {
                    Some(row) => &mut row[..bytes],
                    None => &mut [],
                })
            });
            self.compute(index, block, &mut outs);
        }
        for r in 0..block.rows {
            let row = |index: usize| &codes[(index * ROWS + r) * self.codes_stride..][..bytes];
            let to = (&mut *band, block.first.y + r);
            match &self.job.pixels {
                Some(pixels) => pixels.write(self.isa, to, &self.tile, row),
                None => {
                    for (index, stream) in self.streams.iter().enumerate() {
                        let to = (&mut *to.0, to.1);
                        stream.put_in_place(self.isa, to, &self.tile, row(index));
                    }
                }
            }
        }
        self.codes = codes;
    }

    /// Computes the samples of stream `index` in the rows of a block.
    fn compute(&mut self, index: usize, block: Block, outs: &mut [&mut [u8]; ROWS]) {
        let (isa, job) = (self.isa, self.job);
        let mut finish = Finish {
            divisor: job.divisor,
            offset: self.streams[index].out_offset,
            max: job.max,
            sample: job.streams.sample,
        };
        let sums_stride = self.sums_stride;
        if let ([kernel], false) = (&job.kernels[..], job.premultiply)
            && let Last::Window { weights, .. } = &kernel.last
        {
            self.place_window(index, 0, block);
            let window = Window {
                weights,
                rows: self.rows,
                columns: self.columns,
                samples: kernel.samples(self.input, self.sums),
            };
            window_samples(isa, &window, &finish, outs);
            return;
        }
        for k in 0..job.kernels.len() {
            self.sum_down(index, k, block);
        }
        let (alpha, values) = self.results.split_at_mut(ROWS * sums_stride);
        let (values, other) = values.split_at_mut(ROWS * sums_stride);
        if job.kernels.len() == 2 {
            magnitude_row(isa, values, other);
        }
        if job.premultiply {
            divide_row(isa, values, finish.divisor);
            finish.divisor = Divisor::One;
            if index == 0 {
                alpha.copy_from_slice(values);
            } else {
                divide_by_alpha_row(isa, values, alpha);
            }
        }
        let samples = self.tile.samples();
        for (values, out) in values.chunks(sums_stride).zip(outs) {
            finish_row(isa, &values[..samples], &finish, out);
        }
    }

    /// The sums of kernel `k` in the rows of a block.
    fn sum_down(&mut self, index: usize, k: usize, block: Block) {
        let kernel = &self.job.kernels[k];
        let stride = self.sums_stride;
        let start = (1 + k) * ROWS * stride;
        match &kernel.last {
            Last::Window { weights, .. } => {
                self.place_window(index, k, block);
                let window = Window {
                    weights,
                    rows: self.rows,
                    columns: self.columns,
                    samples: kernel.samples(self.input, self.sums),
                };
                let to = &mut self.results[start..][..ROWS * stride];
                window_sums(self.isa, &window, to, stride, self.tile.samples());
            }
            Last::Sparse(taps) => {
                for r in 0..block.rows {
                    let place = |&(j, i, weight)| Tap {
                        weight,
                        start: self.input_start(index, self.ring.slot(block.first.count + r, j))
                            + self.tile.place(self.job.radius_x, i),
                    };
                    let taps: Vec<Tap> = taps.iter().map(place).collect();
                    let to = &mut self.results[start + r * stride..][..stride];
                    chain_row(self.isa, &taps, self.input, to, self.tile.samples());
                }
            }
        }
    }

    /// Finds where kernel `k` takes the windows of a block from.
    fn place_window(&mut self, index: usize, k: usize, block: Block) {
        let kernel = &self.job.kernels[k];
        let Last::Window {
            weights,
            top,
            columns: offsets,
        } = &kernel.last
        else {
            return;
        };
        let height = weights.len() / offsets.len();
        let before = self.job.kernels[..k].iter();
        let first: usize = before.map(|kernel| kernel.horizontal.len()).sum();
        let (mut rows, mut columns) = (take(self.rows), take(self.columns));
        rows.clear();
        rows.extend((0..height + ROWS - 1).map(|row| {
            // Rows that a short block has not been read for serve none of its outputs.
            let below = (row as isize + top).min((self.job.radius_y + block.rows) as isize - 1);
            let slot = self.ring.slot(block.first.count, below);
            if kernel.horizontal.is_empty() {
                self.input_start(index, slot)
            } else {
                self.sums_start(index, first, slot)
            }
        }));
        columns.clear();
        columns.extend(offsets.iter().map(|&i| match kernel.horizontal.is_empty() {
            true => self.tile.place(self.job.radius_x, i),
            false => i as usize * self.ring.rows * self.sums_stride,
        }));
        (*self.rows, *self.columns) = (rows, columns);
    }

    fn input_start(&self, index: usize, slot: usize) -> usize {
        (index * self.input_rows + slot % self.input_rows) * self.input_stride
    }

    fn sums_start(&self, index: usize, k: usize, slot: usize) -> usize {
        ((index * self.job.sums + k) * self.ring.rows + slot) * self.sums_stride
    }
}
