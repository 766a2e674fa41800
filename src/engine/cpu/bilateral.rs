//! The bilateral in float32, of any window, sample and distance.
//!
//! A band is worked through from top to bottom in tiles of columns: a ring keeps the input rows of
//! the window as float32, and each output row takes one pass over all taps.

use std::ops::Range;

use super::chain::{SLACK, Tap};
use super::isa::Isa;
use super::planes::{Field, InputPlanes, OutputPlanes};
use super::samples::{Divisor, Finish, multiply_row};
use super::scratch::{Scratch, whole_lines};
use super::streams::{Reader, Stream, Streams, beside, tile_width};
use super::weighted_rows::{WeightedRow, WeightedSums, mean_row, opaque_mean_row, weighted_row};
use crate::filter::Layout;
use crate::filter::layout::Role;
use crate::filter::plan::{Bilateral, Job};
use crate::filter::spec::Distance;

/// Streams that share their weights.
struct Share {
    /// Of the streams of the job, 1 to 3.
    streams: Range<usize>,
    /// The stream of the alpha channel by which they are multiplied.
    alpha: Option<usize>,
}

/// A job that is a bilateral.
pub struct BilateralJob {
    streams: Streams,
    shares: Vec<Share>,
    window: Bilateral,
    max: f32,
}

/// A tile of columns: sizes in values.
struct Tile {
    pixels: Range<usize>,
    samples: usize,
    /// From one row of input values to the next.
    stride: usize,
    /// Of a row of sums.
    row: usize,
}

impl BilateralJob {
    pub fn new(layout: &Layout, job: &Job, window: &Bilateral) -> BilateralJob {
        let colours = job.group.channels.iter().any(|c| c.role == Role::Colour);
        let mut streams = if colours || job.premultiply {
            Streams::apart(layout, job)
        } else {
            Streams::new(layout, job)
        };
        // Alpha last, the colours side by side.
        streams
            .filtered
            .sort_by_key(|stream| stream.role == Role::Alpha);
        let is = |role| move |stream: &Stream| stream.role == role;
        let alpha = streams.filtered.iter().position(is(Role::Alpha));
        let others = alpha.unwrap_or(streams.filtered.len());
        let premultiplied = alpha.filter(|_| job.premultiply);
        let mut shares = Vec::new();
        if colours && others > 0 {
            shares.push(Share {
                streams: 0..others,
                alpha: premultiplied,
            });
        } else {
            shares.extend((0..others).map(|index| Share {
                streams: index..index + 1,
                alpha: premultiplied,
            }));
        }
        shares.extend(alpha.map(|index| Share {
            streams: index..index + 1,
            alpha: None,
        }));
        BilateralJob {
            streams,
            shares,
            window: window.clone(),
            max: layout.max_code() as f32,
        }
    }

    fn ring(&self) -> usize {
        2 * self.window.radius_y + 1
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
        for share in &self.shares {
            let channels = self.streams.filtered[share.streams.start].channels;
            let kept = share.streams.len() + usize::from(share.alpha.is_some());
            let bytes = kept * channels * self.ring() * size_of::<f32>();
            let width = tile_width(self.streams.width, bytes);
            for start in (0..self.streams.width).step_by(width) {
                let pixels = start..(start + width).min(self.streams.width);
                let samples = pixels.len() * channels;
                let beside = 2 * self.window.radius_x * channels;
                let tile = Tile {
                    pixels,
                    samples,
                    stride: whole_lines::<f32>(samples + beside + SLACK),
                    row: whole_lines::<f32>(samples + SLACK),
                };
                // SAFETY: passed on to the caller.
                unsafe { self.tile_rows(isa, &reader, output, share, &tile, &rows, scratch) };
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
        share: &Share,
        tile: &Tile,
        rows: &Range<usize>,
        scratch: &mut Scratch,
    ) {
        let streams = &self.streams.filtered[share.streams.clone()];
        let arena = self.ring() * tile.stride;
        let lifted = scratch.lifted.get::<f32>(4 * arena);
        let sums = scratch.sums.get::<f32>(5 * tile.row);
        let codes = scratch.codes.get::<u8>(2 * tile.samples);
        let radius = self.window.radius_y;
        let first = rows.start as isize - radius as isize;
        for count in 0..rows.len() + 2 * radius {
            let slot = count % self.ring();
            self.read_rows(
                isa,
                reader,
                share,
                tile,
                first + count as isize,
                slot,
                lifted,
            );
            let Some(middle) = count.checked_sub(2 * radius) else {
                continue;
            };
            let base = middle + radius;
            self.place_taps(base, tile, streams[0].channels, &mut scratch.taps);
            let (alpha, values) = lifted.split_at(arena);
            let values: [&[f32]; 3] = std::array::from_fn(|n| &values[n * arena..][..arena]);
            let row = WeightedRow {
                taps: &scratch.taps,
                centre: base % self.ring() * tile.stride
                    + self.window.radius_x * streams[0].channels,
                color: match share.alpha {
                    None => self.window.color,
                    Some(_) => self.window.color_premultiplied,
                },
                euclidean: self.window.distance == Distance::L2,
                values: &values[..streams.len()],
                alpha: share.alpha.map(|_| alpha),
            };
            let mut parts = sums.chunks_exact_mut(tile.row);
            let mut part = || parts.next().expect("five rows");
            let mut to = WeightedSums {
                values: [part(), part(), part()],
                alpha: part(),
                weights: part(),
            };
            weighted_row(isa, &row, &mut to, tile.samples);
            let out_row = reader.field.row(rows.start + middle);
            for (index, stream) in streams.iter().enumerate() {
                let means = &mut to.values[index][..tile.samples];
                if share.alpha.is_some() {
                    opaque_mean_row(isa, means, to.weights, to.alpha);
                } else {
                    mean_row(isa, means, to.weights, &values[index][row.centre..]);
                }
                let finish = Finish {
                    divisor: Divisor::One,
                    offset: stream.out_offset,
                    max: self.max,
                    sample: reader.streams.sample,
                };
                // SAFETY: the caller keeps the row for this call; one slice lives at a time.
                let out = unsafe { output.row(stream.plane, out_row) };
                let rows = (reader.input.row(stream.plane, out_row), out);
                stream.write_row(isa, means, &finish, codes, rows, tile.pixels.clone());
            }
        }
    }

    /// Row `y` of the field into `slot` of the rings of alpha and the streams of `share`.
    #[allow(clippy::too_many_arguments)]
    fn read_rows(
        &self,
        isa: Isa,
        reader: &Reader,
        share: &Share,
        tile: &Tile,
        y: isize,
        slot: usize,
        lifted: &mut [f32],
    ) {
        let wanted = beside(&tile.pixels, self.window.radius_x);
        let (alphas, values) = lifted.split_at_mut(self.ring() * tile.stride);
        let alphas = &mut alphas[slot * tile.stride..][..tile.stride];
        if let Some(index) = share.alpha {
            reader.read_values(
                isa,
                &self.streams.filtered[index],
                y,
                wanted.clone(),
                alphas,
            );
        }
        for (n, index) in share.streams.clone().enumerate() {
            let row = &mut values[(n * self.ring() + slot) * tile.stride..][..tile.stride];
            reader.read_values(isa, &self.streams.filtered[index], y, wanted.clone(), row);
            if share.alpha.is_some() {
                multiply_row(isa, row, alphas);
            }
        }
    }

    /// The window around the row in slot `base` of the ring.
    fn place_taps(&self, base: usize, tile: &Tile, channels: usize, taps: &mut Vec<Tap>) {
        taps.clear();
        taps.extend(self.window.taps.iter().map(|&(dx, dy, exponent)| {
            let slot = (base + self.ring()).wrapping_add_signed(dy as isize) % self.ring();
            let pixel = self.window.radius_x.wrapping_add_signed(dx as isize);
            Tap {
                weight: exponent,
                start: slot * tile.stride + pixel * channels,
            }
        }));
    }
}
