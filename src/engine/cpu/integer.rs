//! Correlations and gradient magnitudes of bytes in whole numbers: for kernels whose sums float32
//! would hold exactly in any order, so that the bytes are the canonical ones.
//!
//! As [`linear`](super::linear), but with four to eight times the samples in a vector. A separable
//! kernel goes across in a first pass over each row, and down in a second over the sums of several
//! rows; any other does all in the first pass.

use super::band::{Band, Complete, Reader, Ring, Step, Tile};
use super::isa::Isa;
use super::rows::sums::{
    BytePair, Narrow, Scale, SumTap, SumTaps, magnitude_bytes_row, narrow_row, sum_bytes_row,
    sums_row_bytes, wide_row,
};
use super::scratch::{Scratch, whole_lines};
use super::simd::MAX_BYTES;
use super::streams::{Stream, Streams, border_is_a_byte};
use super::whole::{WholeKernel, Width, rounds_to_i32, scale};
use crate::filter::Layout;
use crate::filter::layout::Sample;
use crate::filter::plan::{Correlation, Job, Operation};

/// How the sums of one stream become bytes.
#[derive(Debug, Clone, Copy)]
enum Finish {
    Narrow { start: i16, narrow: Narrow },
    Wide { start: i32, scale: Scale },
    Magnitude { start: (i16, i16), scale: Scale },
}

/// A job that is computed in whole numbers.
pub struct IntegerJob {
    streams: Streams,
    kernels: Vec<WholeKernel>,
    /// One a stream.
    finishes: Vec<Finish>,
    radius_x: usize,
    radius_y: usize,
}

impl IntegerJob {
    /// `None` where bytes in whole numbers cannot give the canonical result.
    pub fn new(layout: &Layout, job: &Job, isa: Isa) -> Option<IntegerJob> {
        let bytes = layout.sample == Sample::U8 && border_is_a_byte(job);
        if !bytes || job.premultiply || !job.sums_are_whole(layout.max_code()) {
            return None;
        }
        let streams = Streams::new(layout, job);
        let (kernels, finishes) = match &job.operation {
            Operation::Correlate(kernel) => correlate(kernel, &streams, isa)?,
            Operation::Magnitude { x, y } => magnitude(x, y, &streams)?,
            Operation::None | Operation::Bilateral(_) => return None,
        };
        let radii = match &job.operation {
            Operation::Correlate(kernel) => vec![kernel.taps.radius()],
            Operation::Magnitude { x, y } => vec![x.taps.radius(), y.taps.radius()],
            Operation::None | Operation::Bilateral(_) => return None,
        };
        Some(IntegerJob {
            streams,
            kernels,
            finishes,
            radius_x: radii.iter().map(|r| r.0).max()?,
            radius_y: radii.iter().map(|r| r.1).max()?,
        })
    }
}

fn correlate(
    kernel: &Correlation,
    streams: &Streams,
    isa: Isa,
) -> Option<(Vec<WholeKernel>, Vec<Finish>)> {
    let narrow = WholeKernel::new(kernel, Width::Narrow).and_then(|whole| {
        let finish = |stream: &Stream| {
            let (start, narrow) = whole.narrow(stream.zero, kernel.divisor, stream.out_offset)?;
            Some(Finish::Narrow { start, narrow })
        };
        let finishes = streams.filtered.iter().map(finish).collect::<Option<_>>()?;
        Some((vec![whole], finishes))
    });
    narrow.or_else(|| {
        let whole = WholeKernel::new(kernel, Width::Wide)?;
        let finish = |stream: &Stream| {
            let (start, scale) = whole.wide(isa, stream.zero, kernel.divisor, stream.out_offset)?;
            Some(Finish::Wide { start, scale })
        };
        let finishes = streams.filtered.iter().map(finish).collect::<Option<_>>()?;
        Some((vec![whole], finishes))
    })
}

fn magnitude(
    x: &Correlation,
    y: &Correlation,
    streams: &Streams,
) -> Option<(Vec<WholeKernel>, Vec<Finish>)> {
    let kernels = [x, y].map(|kernel| WholeKernel::new(kernel, Width::Narrow));
    let [Some(whole_x), Some(whole_y)] = kernels else {
        return None;
    };
    let finish = |stream: &Stream| {
        let start = (whole_x.signed(stream.zero)?, whole_y.signed(stream.zero)?);
        let largest = whole_x.largest(stream.zero) + whole_y.largest(stream.zero);
        rounds_to_i32(largest, x.divisor, stream.out_offset).then(|| Finish::Magnitude {
            start,
            scale: scale(x.divisor).unwrap_or(Scale::Divide(x.divisor)),
        })
    };
    let finishes = streams.filtered.iter().map(finish).collect::<Option<_>>()?;
    Some((vec![whole_x, whole_y], finishes))
}

impl IntegerJob {
    /// Filters a band.
    pub fn filter(&self, isa: Isa, band: &mut Band, scratch: &mut Scratch) {
        let rows = Ring::new(self.radius_y).rows;
        for (stream, finish) in self.streams.filtered.iter().zip(&self.finishes) {
            let bytes = rows * stream.channels * 2 * self.kernels.len();
            for tile in Tile::all(self.streams.width, stream.channels, bytes) {
                let mut work = Work::new(self, isa, band, stream, tile, scratch);
                for step in band.steps(self.radius_y) {
                    work.read(step);
                    if let Some(complete) = step.complete {
                        work.write(complete, *finish, band);
                    }
                }
            }
        }
        self.streams.write_unfiltered(isa, band);
    }
}

/// One stream of a job in one tile of a band.
struct Work<'a> {
    job: &'a IntegerJob,
    isa: Isa,
    reader: Reader<'a>,
    stream: &'a Stream,
    tile: Tile,
    ring: Ring,
    /// Rows of input bytes kept.
    input_rows: usize,
    input_stride: usize,
    input: &'a mut [u8],
    /// Sums of the first pass, by kernel and row of the ring.
    sums_stride: usize,
    sums: &'a mut [u8],
    codes: &'a mut [u8],
    pairs: &'a mut Vec<BytePair>,
    taps: &'a mut [SumTaps; 2],
}

impl<'a> Work<'a> {
    fn new(
        job: &'a IntegerJob,
        isa: Isa,
        band: &Band<'a>,
        stream: &'a Stream,
        tile: Tile,
        scratch: &'a mut Scratch,
    ) -> Self {
        let ring = Ring::new(job.radius_y);
        let one_pass = job.kernels.iter().any(|kernel| !kernel.separable);
        let input_rows = if one_pass { ring.rows } else { 1 };
        let input_stride = whole_lines::<u8>(tile.samples_beside(job.radius_x) + MAX_BYTES);
        let sums_stride = sums_row_bytes(tile.samples());
        Work {
            job,
            isa,
            reader: band.reader(&job.streams),
            stream,
            ring,
            input_rows,
            input_stride,
            input: scratch.input.get(input_rows * input_stride),
            sums_stride,
            sums: (scratch.sums).get(job.kernels.len() * ring.rows * sums_stride),
            codes: scratch.codes.get(tile.samples()),
            pairs: &mut scratch.pairs,
            taps: &mut scratch.sum_taps,
            tile,
        }
    }

    /// Takes in an input row, and does the first pass of every kernel as far as it can.
    fn read(&mut self, step: Step) {
        let row = self.ring.slot(step.count, 0) % self.input_rows * self.input_stride;
        let row = &mut self.input[row..][..self.input_stride];
        let wanted = self.tile.beside(self.job.radius_x);
        (self.reader).read_bytes(self.isa, self.stream, step.y, wanted, row);
        for (k, kernel) in self.job.kernels.iter().enumerate() {
            // A kernel in one pass needs all rows of its window.
            match step.complete {
                _ if kernel.separable => self.sum_across(k, kernel, step.count),
                Some(complete) => self.sum_across(k, kernel, complete.count),
                None => {}
            }
        }
    }

    /// The first pass of kernel `k` around the row of step `count`.
    fn sum_across(&mut self, k: usize, kernel: &WholeKernel, count: usize) {
        let place = |(j, i, _): (isize, isize, i8)| {
            self.ring.slot(count, j) % self.input_rows * self.input_stride
                + self.tile.place(self.job.radius_x, i)
        };
        pair_up(&kernel.across, place, self.pairs);
        let to = self.sums_start(k, self.ring.slot(count, 0));
        let to = &mut self.sums[to..][..self.sums_stride];
        sum_bytes_row(
            self.isa,
            self.pairs,
            kernel.start,
            self.input,
            to,
            self.tile.samples(),
        );
    }

    /// Does the second pass of an output row and writes it.
    fn write(&mut self, complete: Complete, finish: Finish, band: &mut Band) {
        for (k, kernel) in self.job.kernels.iter().enumerate() {
            let mut taps = std::mem::take(&mut self.taps[k]);
            let row = |j| self.sums_start(k, self.ring.slot(complete.count, j));
            second_taps(kernel, row, &mut taps);
            self.taps[k] = taps;
        }
        let (isa, [x, y], sums) = (self.isa, &*self.taps, &*self.sums);
        let offset = self.stream.out_offset;
        let to = (band, complete.y);
        (self.stream).write(isa, to, &self.tile, 1, self.codes, |out| match finish {
            Finish::Narrow { start, narrow } => narrow_row(isa, x, start, sums, narrow, out),
            Finish::Wide { start, scale } => wide_row(isa, x, start, sums, scale, offset, out),
            Finish::Magnitude { start, scale } => {
                let (x, y) = ((x, start.0), (y, start.1));
                magnitude_bytes_row(isa, x, y, sums, scale, offset, out);
            }
        });
    }

    fn sums_start(&self, k: usize, slot: usize) -> usize {
        (k * self.ring.rows + slot) * self.sums_stride
    }
}

/// Taps of the first pass two by two, so that no pair of products leaves 16 bits.
fn pair_up(
    across: &[(isize, isize, i8)],
    place: impl Fn((isize, isize, i8)) -> usize,
    pairs: &mut Vec<BytePair>,
) {
    /// 255 times this is a 16-bit number.
    const MOST: i32 = 128;
    pairs.clear();
    let mut rest = across.iter().peekable();
    while let Some(&first) = rest.next() {
        let second = rest.next_if(|second| {
            let (a, b) = (i32::from(first.2), i32::from(second.2));
            a.max(0) + b.max(0) <= MOST && a.min(0) + b.min(0) >= -MOST
        });
        pairs.push(BytePair {
            first: place(first),
            second: place(*second.unwrap_or(&first)),
            weights: (first.2, second.map_or(0, |second| second.2)),
        });
    }
}

/// Taps of the second pass on the rows that `row` names.
fn second_taps(kernel: &WholeKernel, row: impl Fn(isize) -> usize, taps: &mut SumTaps) {
    taps.folded.clear();
    taps.lone.clear();
    if !kernel.separable {
        taps.lone.push(SumTap {
            weight: 1,
            row: row(0),
            mirror: row(0),
        });
        return;
    }
    (taps.folded).extend(kernel.folded.iter().map(|&(a, b, weight)| SumTap {
        weight,
        row: row(a),
        mirror: row(b),
    }));
    (taps.lone).extend(kernel.lone.iter().map(|&(j, weight)| SumTap {
        weight,
        row: row(j),
        mirror: row(j),
    }));
}
