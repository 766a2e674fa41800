//! Correlations and gradient magnitudes by the Fourier transform, `method=fft`, as
//! [`crate::filter::fourier`] defines it.
//!
//! A band is worked through in rectangles of a size that is chosen for the picture and the kernel, two of
//! them at a time: neighbours of a channel, or channels of one place. Of premultiplied colours all
//! channels of a place go together, alpha first. Samples of few bits are computed in float32, all
//! others in float64.

use std::ops::Range;
use std::sync::Arc;

use rustfft::num_complex::Complex;
use rustfft::{Fft, FftNum, FftPlanner};

use super::band::{Band, Reader, Tile};
use super::isa::Isa;
use super::rows::samples::{
    Divisor, Finish, divide_by_alpha_row, divide_row, magnitude_row, multiply_row, round_row,
};
use super::scratch::{Number, Scratch, whole_lines};
use super::streams::{Stream, Streams};
use crate::filter::Layout;
use crate::filter::fourier;
use crate::filter::plan::{Correlation, Job, Operation};

/// A job that is computed by transforms.
pub struct FourierJob {
    streams: Streams,
    radius: (usize, usize),
    /// Output samples of a rectangle.
    columns: usize,
    rows: usize,
    transforms: Transforms,
    /// Whether sums are whole numbers.
    whole: bool,
    magnitude: bool,
    divisor: Divisor,
    max: f32,
    premultiply: bool,
}

enum Transforms {
    Single(Square<f32>),
    Double(Square<f64>),
}

/// The transforms of rectangles of one size, and the spectrum that they are multiplied by.
struct Square<T> {
    columns: usize,
    rows: usize,
    across: There<T>,
    down: There<T>,
    /// Columns as lines.
    spectrum: Vec<Complex<T>>,
    /// Numbers that a transform needs beside its own.
    scratch: usize,
}

/// Transforms of one length.
struct There<T> {
    forth: Arc<dyn Fft<T>>,
    back: Arc<dyn Fft<T>>,
}

/// What is transformed.
trait Real: FftNum + Number {
    fn from_value(value: f32) -> Self;
    fn from_double(value: f64) -> Self;
    fn to_sum(self) -> f32;
}

impl Real for f32 {
    fn from_value(value: f32) -> f32 {
        value
    }

    fn from_double(value: f64) -> f32 {
        value as f32
    }

    fn to_sum(self) -> f32 {
        self
    }
}

impl Real for f64 {
    fn from_value(value: f32) -> f64 {
        f64::from(value)
    }

    fn from_double(value: f64) -> f64 {
        value
    }

    fn to_sum(self) -> f32 {
        self as f32
    }
}

impl<T: Real> There<T> {
    fn new(planner: &mut FftPlanner<T>, len: usize) -> There<T> {
        There {
            forth: planner.plan_fft_forward(len),
            back: planner.plan_fft_inverse(len),
        }
    }

    fn scratch(&self) -> usize {
        let forth = self.forth.get_inplace_scratch_len();
        forth.max(self.back.get_inplace_scratch_len())
    }
}

impl<T: Real> Square<T> {
    fn new(operation: &Operation, (columns, rows): (usize, usize)) -> Square<T> {
        let mut planner = FftPlanner::new();
        let (across, down) = (
            There::new(&mut planner, columns),
            There::new(&mut planner, rows),
        );
        let by_rows = fourier::spectrum(operation, columns, rows);
        let value = |z: &Complex<f64>| Complex::new(T::from_double(z.re), T::from_double(z.im));
        let mut spectrum = vec![Complex::new(T::zero(), T::zero()); columns * rows];
        let by_rows: Vec<Complex<T>> = by_rows.iter().map(value).collect();
        turn(&by_rows, columns, rows, &mut spectrum, rows);
        Square {
            columns,
            rows,
            scratch: across.scratch().max(down.scratch()),
            across,
            down,
            spectrum,
        }
    }

    /// Correlates the first `filled` lines of `square` with the kernel; of the result the first `wanted`
    /// lines are left in `square`.
    fn filter(
        &self,
        (filled, wanted): (usize, usize),
        square: &mut [Complex<T>],
        turned: &mut [Complex<T>],
        scratch: &mut [Complex<T>],
    ) {
        let (columns, rows) = (self.columns, self.rows);
        (self.across.forth).process_with_scratch(&mut square[..filled * columns], scratch);
        turn(square, columns, filled, turned, rows);
        if filled < rows {
            let zero = Complex::new(T::zero(), T::zero());
            turned
                .chunks_exact_mut(rows)
                .for_each(|line| line[filled..].fill(zero));
        }
        self.down.forth.process_with_scratch(turned, scratch);
        for (value, by) in turned.iter_mut().zip(&self.spectrum) {
            *value = *value * by;
        }
        self.down.back.process_with_scratch(turned, scratch);
        turn_back(turned, rows, wanted, square, columns);
        (self.across.back).process_with_scratch(&mut square[..wanted * columns], scratch);
    }
}

/// Values that a cache line has at least, and that are turned together.
const BLOCK: usize = 8;

/// Column x of `rows` lines of `columns` values becomes the first values of line x of `pitch` values.
fn turn<T: Copy>(from: &[T], columns: usize, rows: usize, to: &mut [T], pitch: usize) {
    assert!(from.len() >= columns * rows && to.len() >= columns * pitch && rows <= pitch);
    for y0 in (0..rows).step_by(BLOCK) {
        let below = y0..(y0 + BLOCK).min(rows);
        for x0 in (0..columns).step_by(BLOCK) {
            for x in x0..(x0 + BLOCK).min(columns) {
                let line = &mut to[x * pitch..][below.clone()];
                for (value, y) in line.iter_mut().zip(below.clone()) {
                    *value = from[y * columns + x];
                }
            }
        }
    }
}

/// The first `wanted` values of each of `columns` lines of `rows` values become lines of `columns`.
fn turn_back<T: Copy>(from: &[T], rows: usize, wanted: usize, to: &mut [T], columns: usize) {
    assert!(from.len() >= columns * rows && to.len() >= columns * wanted && wanted <= rows);
    for x0 in (0..columns).step_by(BLOCK) {
        let beside = x0..(x0 + BLOCK).min(columns);
        for y0 in (0..wanted).step_by(BLOCK) {
            for y in y0..(y0 + BLOCK).min(wanted) {
                let line = &mut to[y * columns..][beside.clone()];
                for (value, x) in line.iter_mut().zip(beside.clone()) {
                    *value = from[x * rows + y];
                }
            }
        }
    }
}

/// The columns and rows of the rectangles that a picture of `size`, of `channels` channels, is filtered in
/// soonest by `threads` threads, with values of `bytes`.
fn best_size(
    size: (usize, usize),
    radius: (usize, usize),
    channels: usize,
    threads: usize,
    bytes: usize,
) -> (usize, usize) {
    /// Lengths of fast transforms: 2^a·3^b.
    const LENGTHS: [usize; 17] = [
        4, 6, 8, 12, 16, 24, 32, 48, 64, 72, 96, 128, 144, 192, 256, 384, 512,
    ];
    /// What is done with a point beside its transforms, in steps of one.
    const BESIDE: f64 = 10.0;
    /// Of a rectangle and its turned twin, in a second-level cache.
    const CACHE: usize = 768 << 10;
    let lengths = |radius: usize| {
        LENGTHS
            .into_iter()
            .filter(move |&length| length > 2 * radius)
    };
    let cost = |&(columns, rows): &(usize, usize)| {
        let beside = size.0.div_ceil(columns - 2 * radius.0) * channels;
        let bands = size.1.div_ceil(rows - 2 * radius.1).div_ceil(threads);
        let points = (columns * rows) as f64;
        let slow = if 2 * columns * rows * bytes > CACHE {
            1.5
        } else {
            1.0
        };
        (bands * beside.div_ceil(2)) as f64 * points * (points.log2() + BESIDE) * slow
    };
    let sizes =
        lengths(radius.0).flat_map(|columns| lengths(radius.1).map(move |rows| (columns, rows)));
    sizes
        .min_by(|a, b| cost(a).total_cmp(&cost(b)))
        .expect("512 is beyond every kernel")
}

impl FourierJob {
    /// For a pool of `threads`.
    ///
    /// # Panics
    /// When the operation is none of correlation and magnitude.
    pub fn new(layout: &Layout, job: &Job, threads: usize) -> FourierJob {
        let magnitude = matches!(job.operation, Operation::Magnitude { .. });
        let (Operation::Correlate(Correlation { divisor, .. })
        | Operation::Magnitude {
            x: Correlation { divisor, .. },
            ..
        }) = job.operation
        else {
            panic!("not a linear operation");
        };
        let streams = Streams::apart(layout, job);
        let radius = fourier::radius(&job.operation);
        let group = &job.group;
        let single = layout.max_code() == 255 && fourier::float32_suffices(job, layout.max_code());
        let bytes = if single {
            size_of::<Complex<f32>>()
        } else {
            size_of::<Complex<f64>>()
        };
        let channels = streams.filtered.len() * if magnitude { 2 } else { 1 };
        let size = best_size(
            (group.width, group.height),
            radius,
            channels,
            threads,
            bytes,
        );
        FourierJob {
            streams,
            radius,
            columns: size.0 - 2 * radius.0,
            rows: size.1 - 2 * radius.1,
            transforms: if single {
                Transforms::Single(Square::new(&job.operation, size))
            } else {
                Transforms::Double(Square::new(&job.operation, size))
            },
            whole: job.sums_are_whole(layout.max_code()),
            magnitude,
            divisor: Divisor::new(divisor),
            max: layout.max_code() as f32,
            premultiply: job.premultiply,
        }
    }

    /// Output rows that it computes together.
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// Filters a band.
    pub fn filter(&self, isa: Isa, band: &mut Band, scratch: &mut Scratch) {
        match &self.transforms {
            Transforms::Single(square) => self.filter_by(square, isa, band, scratch),
            Transforms::Double(square) => self.filter_by(square, isa, band, scratch),
        }
        self.streams.write_unfiltered(isa, band);
    }

    /// The channel of a unit, and its place in the picture: channels of a place follow each other.
    fn place(&self, unit: usize) -> (usize, Tile) {
        let channels = self.streams.filtered.len();
        let start = unit / channels * self.columns;
        let tile = Tile {
            pixels: start..(start + self.columns).min(self.streams.width),
            channels: 1,
        };
        (unit % channels, tile)
    }

    fn filter_by<T: Real>(
        &self,
        square: &Square<T>,
        isa: Isa,
        band: &mut Band,
        scratch: &mut Scratch,
    ) {
        let channels = self.streams.filtered.len();
        let units = self.streams.width.div_ceil(self.columns) * channels;
        // Premultiplied colours need their alpha at hand.
        let together = if self.premultiply { channels } else { 2 };
        let rows = band.rows();
        for first in rows.clone().step_by(self.rows) {
            let block = first..(first + self.rows).min(rows.end);
            let mut work = Work::new(self, square, isa, band, block, together, scratch);
            for unit in (0..units).step_by(together) {
                work.filter(unit..(unit + together).min(units), band);
            }
        }
    }
}

/// A block of rows.
struct Work<'a, T> {
    job: &'a FourierJob,
    by: &'a Square<T>,
    isa: Isa,
    reader: Reader<'a>,
    /// Output rows.
    rows: Range<usize>,
    square: &'a mut [Complex<T>],
    turned: &'a mut [Complex<T>],
    scratch: &'a mut [Complex<T>],
    /// Rows of samples: of two units, and of alpha.
    values: &'a mut [f32],
    stride: usize,
    /// Sums by unit and row.
    sums: &'a mut [f32],
    codes: &'a mut [u8],
}

impl<'a, T: Real> Work<'a, T> {
    fn new(
        job: &'a FourierJob,
        by: &'a Square<T>,
        isa: Isa,
        band: &Band<'a>,
        rows: Range<usize>,
        together: usize,
        scratch: &'a mut Scratch,
    ) -> Self {
        let stride = whole_lines::<f32>(by.columns);
        let points = by.columns * by.rows;
        let [square, turned, beside] = &mut scratch.transforms;
        Work {
            job,
            by,
            isa,
            reader: band.reader(&job.streams),
            square: complexes(square.get(2 * points)),
            turned: complexes(turned.get(2 * points)),
            scratch: complexes(beside.get(2 * by.scratch)),
            values: scratch.input.get(3 * stride),
            stride,
            // One more for the second sums of magnitudes.
            sums: (scratch.sums).get((together + 1) * rows.len() * stride),
            codes: scratch.codes.get(2 * by.columns),
            rows,
        }
    }

    /// Computes and writes `units`.
    fn filter(&mut self, units: Range<usize>, band: &mut Band) {
        let mut first = units.start;
        while first < units.end {
            // Alpha too: beside the much larger products with it, what is next to nothing would be lost.
            let alone = self.job.magnitude || (self.job.premultiply && first == units.start);
            let pair = first..(first + if alone { 1 } else { 2 }).min(units.end);
            let filled = self.rows.len() + 2 * self.job.radius.1;
            for row in 0..filled {
                self.read(pair.clone(), row);
            }
            let lines = (filled, self.rows.len());
            (self.by).filter(lines, self.square, self.turned, self.scratch);
            let index = first - units.start;
            self.take_sums(index, |z| z.re);
            if self.job.magnitude {
                self.take_magnitudes(index);
            } else if pair.len() == 2 {
                self.take_sums(index + 1, |z| z.im);
            }
            first = pair.end;
        }
        for unit in units.clone() {
            self.write(unit, unit - units.start, band);
        }
    }

    /// Takes in a row of one or two units.
    fn read(&mut self, units: Range<usize>, row: usize) {
        let (rx, ry) = self.job.radius;
        let y = (self.rows.start + row) as isize - ry as isize;
        let (values, alpha) = self.values.split_at_mut(2 * self.stride);
        let mut taken = [0, 0];
        for (index, unit) in units.enumerate() {
            let streams = &self.job.streams;
            let (channel, tile) = self.job.place(unit);
            let count = tile.samples_beside(rx);
            let values = &mut values[index * self.stride..][..count];
            let stream = &streams.filtered[channel];
            (self.reader).read_values(self.isa, stream, y, tile.beside(rx), values);
            if self.job.premultiply && channel > 0 {
                // Of premultiplied streams the first is alpha.
                let alpha = &mut alpha[..count];
                let stream = &streams.filtered[0];
                (self.reader).read_values(self.isa, stream, y, tile.beside(rx), alpha);
                multiply_row(self.isa, values, alpha);
            }
            taken[index] = count;
        }
        let (first, second) = values.split_at_mut(self.stride);
        first[taken[0]..].fill(0.0);
        second[taken[1]..].fill(0.0);
        let line = &mut self.square[row * self.by.columns..][..self.by.columns];
        for ((to, &re), &im) in line.iter_mut().zip(&*first).zip(&*second) {
            *to = Complex::new(T::from_value(re), T::from_value(im));
        }
    }

    /// Keeps one part of the results as the sums of `index`.
    fn take_sums(&mut self, index: usize, part: impl Fn(&Complex<T>) -> T) {
        let sums = &mut self.sums[index * self.rows.len() * self.stride..];
        let lines = self
            .square
            .chunks_exact(self.by.columns)
            .take(self.rows.len());
        for (line, sums) in lines.zip(sums.chunks_exact_mut(self.stride)) {
            for (sum, point) in sums.iter_mut().zip(&line[..self.job.columns]) {
                *sum = part(point).to_sum();
            }
            if self.job.whole {
                round_row(self.isa, sums);
            }
        }
    }

    /// Makes magnitudes of the sums of `index`, which are those of the first kernel.
    fn take_magnitudes(&mut self, index: usize) {
        let of_unit = self.rows.len() * self.stride;
        let spare = self.sums.len() / of_unit - 1;
        self.take_sums(spare, |z| z.im);
        let (sums, other) = self.sums.split_at_mut(spare * of_unit);
        magnitude_row(self.isa, &mut sums[index * of_unit..][..of_unit], other);
    }

    /// Writes the samples of `unit` from the sums of `index`.
    fn write(&mut self, unit: usize, index: usize, band: &mut Band) {
        let (isa, job) = (self.isa, self.job);
        let (channel, tile) = job.place(unit);
        let stream: &Stream = &job.streams.filtered[channel];
        let mut finish = Finish {
            divisor: job.divisor,
            offset: stream.out_offset,
            max: job.max,
            sample: job.streams.sample,
        };
        let of_unit = self.rows.len() * self.stride;
        let (first, others) = self.sums.split_at_mut(of_unit);
        for (row, y) in self.rows.clone().enumerate() {
            let samples = row * self.stride..row * self.stride + tile.samples();
            let (values, alpha) = match index {
                0 => (&mut first[samples], None),
                _ => {
                    let own = &mut others[(index - 1) * of_unit..];
                    (&mut own[samples.clone()], Some(&first[samples]))
                }
            };
            if job.premultiply {
                divide_row(isa, values, job.divisor);
                finish.divisor = Divisor::One;
                if let Some(alpha) = alpha {
                    divide_by_alpha_row(isa, values, alpha);
                }
            }
            stream.write_sums(isa, values, &finish, self.codes, (&mut *band, y), &tile);
        }
    }
}

/// Pairs of numbers as complex ones.
fn complexes<T: Number>(numbers: &mut [T]) -> &mut [Complex<T>] {
    let len = numbers.len() / 2;
    // SAFETY: a complex number is two numbers one behind the other, of the same alignment, and the
    // memory is that of `numbers`, borrowed as long.
    unsafe { std::slice::from_raw_parts_mut(numbers.as_mut_ptr().cast(), len) }
}
