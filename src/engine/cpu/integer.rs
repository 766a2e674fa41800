//! Correlations and gradient magnitudes of bytes in whole numbers: for kernels whose sums float32
//! would hold exactly in any order, so that the bytes are the canonical ones.
//!
//! As [`linear`](super::linear), but with four to eight times the samples in a vector. A separable
//! kernel goes across in a first pass over each row, and down in a second over the sums of several
//! rows; any other does all in the first pass.

use std::ops::Range;

use super::byte_rows::{
    BytePair, Narrow, Scale, SumTap, SumTaps, magnitude_bytes_row, narrow_row, sum_bytes_row,
    sums_row_bytes, wide_row,
};
use super::isa::Isa;
use super::planes::{Field, InputPlanes, OutputPlanes};
use super::scratch::{Scratch, whole_lines};
use super::simd::MAX_BYTES;
use super::streams::{Reader, Stream, Streams, beside, border_is_a_byte, tile_width};
use super::strided::scatter;
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

/// A tile of columns: sizes of its buffers, in bytes.
struct Tile {
    pixels: Range<usize>,
    samples: usize,
    /// From one row of input bytes to the next.
    lifted_stride: usize,
    /// From one row of sums to the next.
    row_stride: usize,
}

impl IntegerJob {
    fn ring(&self) -> usize {
        2 * self.radius_y + 1
    }

    /// Rows of input bytes kept.
    fn lifted_rows(&self) -> usize {
        if self.kernels.iter().all(|k| k.separable) {
            1
        } else {
            self.ring()
        }
    }

    /// Filters `rows` of `field`.
    ///
    /// # Safety
    /// No other reference to these rows of the output may exist.
    pub unsafe fn band(
        &self,
        isa: Isa,
        input: &InputPlanes,
        output: &OutputPlanes,
        field: Field,
        rows: Range<usize>,
        scratch: &mut Scratch,
    ) {
        let reader = Reader {
            input,
            streams: &self.streams,
            field,
        };
        for (stream, finish) in self.streams.filtered.iter().zip(&self.finishes) {
            let per_pixel = self.ring() * stream.channels * 2 * self.kernels.len();
            let width = tile_width(self.streams.width, per_pixel);
            for start in (0..self.streams.width).step_by(width) {
                let pixels = start..(start + width).min(self.streams.width);
                let samples = pixels.len() * stream.channels;
                let beside = 2 * self.radius_x * stream.channels;
                let tile = Tile {
                    pixels,
                    samples,
                    lifted_stride: whole_lines::<u8>(samples + beside + MAX_BYTES),
                    row_stride: sums_row_bytes(samples),
                };
                // SAFETY: passed on to the caller.
                unsafe {
                    self.tile_rows(isa, &reader, output, stream, *finish, &tile, &rows, scratch);
                }
            }
        }
        for y in rows {
            // SAFETY: passed on to the caller.
            unsafe { (self.streams).write_unfiltered(isa, input, output, field.row(y)) };
        }
    }

    /// # Safety
    /// As [`band`](Self::band).
    #[allow(clippy::too_many_arguments)]
    unsafe fn tile_rows(
        &self,
        isa: Isa,
        reader: &Reader,
        output: &OutputPlanes,
        stream: &Stream,
        finish: Finish,
        tile: &Tile,
        rows: &Range<usize>,
        scratch: &mut Scratch,
    ) {
        let (ring, lifted_rows) = (self.ring(), self.lifted_rows());
        let lifted = scratch.lifted.get::<u8>(lifted_rows * tile.lifted_stride);
        let sums = scratch
            .rows
            .get::<u8>(self.kernels.len() * ring * tile.row_stride);
        let codes = scratch.codes.get::<u8>(tile.samples);
        let (pairs, taps) = (&mut scratch.pairs, &mut scratch.sum_taps);
        let radius = self.radius_y as isize;
        for (count, y) in (rows.start as isize - radius..rows.end as isize + radius).enumerate() {
            let at = count % lifted_rows * tile.lifted_stride;
            let wanted = beside(&tile.pixels, self.radius_x);
            reader.read_bytes(
                isa,
                stream,
                y,
                wanted,
                &mut lifted[at..][..tile.lifted_stride],
            );
            let middle = count.checked_sub(2 * self.radius_y);
            for (k, kernel) in self.kernels.iter().enumerate() {
                // A kernel in one pass waits for the last of its rows.
                let base = match (kernel.separable, middle) {
                    (true, _) => count,
                    (false, Some(middle)) => middle + self.radius_y,
                    (false, None) => continue,
                };
                let place = |(j, i, _): (isize, isize, i8)| {
                    base.wrapping_add_signed(j) % lifted_rows * tile.lifted_stride
                        + self.radius_x.wrapping_add_signed(i) * stream.channels
                };
                pair_up(&kernel.across, place, pairs);
                let to = (k * ring + base % ring) * tile.row_stride;
                let to = &mut sums[to..][..tile.row_stride];
                sum_bytes_row(isa, pairs, kernel.start, lifted, to, tile.samples);
            }
            let Some(middle) = middle else {
                continue;
            };
            for (k, (kernel, taps)) in self.kernels.iter().zip(taps.iter_mut()).enumerate() {
                let row = |j: isize| {
                    let slot = (middle + self.radius_y).wrapping_add_signed(j) % ring;
                    (k * ring + slot) * tile.row_stride
                };
                second_taps(kernel, row, taps);
            }
            let out_row = reader.field.row(rows.start + middle);
            // SAFETY: the caller keeps the row for this call; one slice lives at a time.
            let out = unsafe { output.row(stream.plane, out_row) };
            let place =
                &mut out[stream.offset + tile.pixels.start * stream.channels * stream.step..];
            if stream.step == 1 {
                let place = &mut place[..tile.samples];
                finish_row(isa, taps, sums, finish, stream.out_offset, place);
            } else {
                finish_row(isa, taps, sums, finish, stream.out_offset, codes);
                scatter(isa, codes, place, 1, stream.step);
            }
            stream.patch_row(
                isa,
                reader.input.row(stream.plane, out_row),
                out,
                tile.pixels.clone(),
            );
        }
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

fn finish_row(
    isa: Isa,
    taps: &[SumTaps; 2],
    sums: &[u8],
    finish: Finish,
    offset: f32,
    out: &mut [u8],
) {
    let [x, y] = taps;
    match finish {
        Finish::Narrow { start, narrow } => narrow_row(isa, x, start, sums, narrow, out),
        Finish::Wide { start, scale } => wide_row(isa, x, start, sums, scale, offset, out),
        Finish::Magnitude { start, scale } => {
            magnitude_bytes_row(isa, x, y, start, sums, scale, offset, out);
        }
    }
}
