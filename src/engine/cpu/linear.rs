//! Correlations and gradient magnitudes in float32, of any kernel and sample, in exactly the
//! canonical order of operations.
//!
//! A band is worked through from top to bottom in tiles of columns. Each input row becomes
//! float32 once, with its border; a separable kernel makes its horizontal sums of it at once; a
//! ring keeps as many rows as the kernel is high, small enough to stay in the second-level cache.

use std::ops::Range;

use super::chain::{SLACK, Tap, chain_row};
use super::isa::Isa;
use super::planes::{Field, InputPlanes, OutputPlanes};
use super::samples::{
    Divisor, Finish, divide_by_alpha_row, divide_row, magnitude_row, multiply_row,
};
use super::scratch::{Scratch, whole_lines};
use super::streams::{Reader, Stream, Streams, beside, tile_width};
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

/// Sizes of the buffers of one tile, in values, and the tile itself.
struct Tile {
    pixels: Range<usize>,
    /// Samples of a row of the tile, for one stream.
    samples: usize,
    /// From one row of input values to the next.
    lifted_stride: usize,
    /// From one row of sums to the next.
    row_stride: usize,
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

    /// Rows of the ring.
    fn ring(&self) -> usize {
        2 * self.radius_y + 1
    }

    fn lifted_rows(&self) -> usize {
        if self.keeps_rows { self.ring() } else { 1 }
    }

    fn tile(&self, pixels: Range<usize>, channels: usize) -> Tile {
        let samples = pixels.len() * channels;
        Tile {
            pixels,
            samples,
            lifted_stride: whole_lines::<f32>(samples + 2 * self.radius_x * channels + SLACK),
            row_stride: whole_lines::<f32>(samples + SLACK),
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
        // Premultiplied colours need their alpha at hand, all others are worked on in turn.
        let together = if self.premultiply {
            self.streams.filtered.len()
        } else {
            1
        };
        for streams in self.streams.filtered.chunks(together) {
            let rows_kept = self.ring() * (self.kernels.len() + usize::from(self.keeps_rows));
            let per_pixel: usize = streams.iter().map(|s| s.channels).sum();
            let bytes = rows_kept * per_pixel * size_of::<f32>();
            let width = tile_width(self.streams.width, bytes);
            for start in (0..self.streams.width).step_by(width) {
                let pixels = start..(start + width).min(self.streams.width);
                let tile = self.tile(pixels, streams[0].channels);
                // SAFETY: passed on to the caller.
                unsafe { self.tile_rows(isa, &reader, output, streams, &tile, &rows, scratch) };
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
        streams: &[Stream],
        tile: &Tile,
        rows: &Range<usize>,
        scratch: &mut Scratch,
    ) {
        let (ring, kernels) = (self.ring(), self.kernels.len());
        let lifted_rows = self.lifted_rows();
        let lifted = scratch
            .lifted
            .get::<f32>(streams.len() * lifted_rows * tile.lifted_stride);
        let sums = scratch
            .rows
            .get::<f32>(streams.len() * kernels * ring * tile.row_stride);
        let results = scratch.sums.get::<f32>(3 * tile.row_stride);
        let codes = scratch.codes.get::<u8>(2 * tile.samples);
        let mut taps = std::mem::take(&mut scratch.taps);

        let radius = self.radius_y as isize;
        for (count, y) in (rows.start as isize - radius..rows.end as isize + radius).enumerate() {
            let slot = count % ring;
            let mut alpha = 0..0;
            for (index, stream) in streams.iter().enumerate() {
                let start = (index * lifted_rows + slot % lifted_rows) * tile.lifted_stride;
                let row = start..start + tile.lifted_stride;
                let wanted = beside(&tile.pixels, self.radius_x);
                reader.read_values(isa, stream, y, wanted, &mut lifted[row.clone()]);
                if index == 0 {
                    alpha = row;
                } else {
                    let (alphas, colours) = lifted.split_at_mut(row.start);
                    multiply_row(isa, &mut colours[..row.len()], &alphas[alpha.clone()]);
                }
                for (k, kernel) in self.kernels.iter().enumerate() {
                    let Some(horizontal) = &kernel.horizontal else {
                        continue;
                    };
                    let to = ((index * kernels + k) * ring + slot) * tile.row_stride;
                    taps.clear();
                    taps.extend(horizontal.iter().map(|&(i, weight)| Tap {
                        weight,
                        start: start + self.across(i, stream),
                    }));
                    chain_row(
                        isa,
                        &taps,
                        lifted,
                        &mut sums[to..][..tile.row_stride],
                        tile.samples,
                    );
                }
            }
            let Some(middle) = count.checked_sub(2 * self.radius_y) else {
                continue;
            };
            let out_row = reader.field.row(rows.start + middle);
            for (index, stream) in streams.iter().enumerate() {
                let (alphas, results) = results.split_at_mut(tile.row_stride);
                for (k, kernel) in self.kernels.iter().enumerate() {
                    let slot = |j: isize| (middle + self.radius_y).wrapping_add_signed(j) % ring;
                    taps.clear();
                    let (samples, out) = if kernel.horizontal.is_some() {
                        let base = (index * kernels + k) * ring;
                        taps.extend(kernel.last.iter().map(|&(j, _, weight)| Tap {
                            weight,
                            start: (base + slot(j)) * tile.row_stride,
                        }));
                        (
                            &*sums,
                            &mut results[k * tile.row_stride..][..tile.row_stride],
                        )
                    } else {
                        let base = index * ring;
                        taps.extend(kernel.last.iter().map(|&(j, i, weight)| Tap {
                            weight,
                            start: (base + slot(j)) * tile.lifted_stride + self.across(i, stream),
                        }));
                        (
                            &*lifted,
                            &mut results[k * tile.row_stride..][..tile.row_stride],
                        )
                    };
                    chain_row(isa, &taps, samples, out, tile.samples);
                }
                let (values, other) = results.split_at_mut(tile.row_stride);
                let values = &mut values[..tile.samples];
                if kernels == 2 {
                    magnitude_row(isa, values, &other[..tile.samples]);
                }
                let mut divisor = self.divisor;
                if self.premultiply {
                    divide_row(isa, values, std::mem::replace(&mut divisor, Divisor::One));
                    if index == 0 {
                        alphas[..tile.samples].copy_from_slice(values);
                    } else {
                        divide_by_alpha_row(isa, values, &alphas[..tile.samples]);
                    }
                }
                let finish = Finish {
                    divisor,
                    offset: stream.out_offset,
                    max: self.max,
                    sample: reader.streams.sample,
                };
                // SAFETY: the caller keeps the row for this call; one slice lives at a time.
                let out = unsafe { output.row(stream.plane, out_row) };
                let rows = (reader.input.row(stream.plane, out_row), out);
                stream.write_row(isa, values, &finish, codes, rows, tile.pixels.clone());
            }
        }
        scratch.taps = taps;
    }

    /// Samples from the start of a row of input values to the one that offset `i` takes first.
    fn across(&self, i: isize, stream: &Stream) -> usize {
        self.radius_x.wrapping_add_signed(i) * stream.channels
    }
}
