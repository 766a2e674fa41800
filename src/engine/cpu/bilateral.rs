//! The bilateral in float32, of any window, sample and distance.
//!
//! A band is worked through from top to bottom in tiles of columns: a ring keeps the input rows of
//! the window as float32, and each output row takes one pass over all taps.

use std::ops::Range;

use super::band::{Band, Complete, Reader, Ring, Step, Tile};
use super::isa::Isa;
use super::rows::chain::{SLACK, Tap};
use super::rows::samples::{Divisor, Finish, multiply_row};
use super::rows::weighted::{WeightedRow, WeightedSums, mean_row, opaque_mean_row, weighted_row};
use super::scratch::{Scratch, whole_lines};
use super::streams::{Stream, Streams};
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

    /// Filters a band.
    pub fn filter(&self, isa: Isa, band: &mut Band, scratch: &mut Scratch) {
        let radius = self.window.radius_y;
        for share in &self.shares {
            let channels = self.streams.filtered[share.streams.start].channels;
            let kept = share.streams.len() + usize::from(share.alpha.is_some());
            let bytes = kept * channels * Ring::new(radius).rows * size_of::<f32>();
            for tile in Tile::all(self.streams.width, channels, bytes) {
                let mut work = Work::new(self, isa, band, share, tile, scratch);
                for step in band.steps(radius) {
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

/// Streams that share their weights, in one tile of a band.
struct Work<'a> {
    job: &'a BilateralJob,
    isa: Isa,
    reader: Reader<'a>,
    share: &'a Share,
    streams: &'a [Stream],
    tile: Tile,
    ring: Ring,
    /// From one row of input values to the next.
    stride: usize,
    /// Values of one ring.
    arena: usize,
    /// The ring of each stream, then that of alpha.
    input: &'a mut [f32],
    /// Of three streams, of alpha, and of the weights.
    results: &'a mut [f32],
    codes: &'a mut [u8],
    taps: &'a mut Vec<Tap>,
}

impl<'a> Work<'a> {
    fn new(
        job: &'a BilateralJob,
        isa: Isa,
        band: &Band<'a>,
        share: &'a Share,
        tile: Tile,
        scratch: &'a mut Scratch,
    ) -> Self {
        let ring = Ring::new(job.window.radius_y);
        let stride = whole_lines::<f32>(tile.samples_beside(job.window.radius_x) + SLACK);
        let arena = ring.rows * stride;
        let rings = share.streams.len() + usize::from(share.alpha.is_some());
        Work {
            job,
            isa,
            reader: band.reader(&job.streams),
            share,
            streams: &job.streams.filtered[share.streams.clone()],
            ring,
            stride,
            arena,
            input: scratch.input.get(rings * arena),
            results: (scratch.results).get(5 * whole_lines::<f32>(tile.samples() + SLACK)),
            codes: scratch.codes.get(2 * tile.samples()),
            taps: &mut scratch.taps,
            tile,
        }
    }

    /// Takes in an input row of every stream.
    fn read(&mut self, step: Step) {
        let (isa, stride) = (self.isa, self.stride);
        let start = self.ring.slot(step.count, 0) * stride;
        let wanted = self.tile.beside(self.job.window.radius_x);
        let (values, alpha) = self.input.split_at_mut(self.streams.len() * self.arena);
        let alpha = self.share.alpha.map(|index| {
            let row = &mut alpha[start..][..stride];
            let stream = &self.job.streams.filtered[index];
            self.reader
                .read_values(isa, stream, step.y, wanted.clone(), row);
            &*row
        });
        for (stream, values) in self.streams.iter().zip(values.chunks_mut(self.arena)) {
            let row = &mut values[start..][..stride];
            self.reader
                .read_values(isa, stream, step.y, wanted.clone(), row);
            if let Some(alpha) = alpha {
                multiply_row(isa, row, alpha);
            }
        }
    }

    /// Computes and writes an output row of every stream.
    fn write(&mut self, complete: Complete, band: &mut Band) {
        self.place_taps(complete.count);
        let (isa, window, samples) = (self.isa, &self.job.window, self.tile.samples());
        let (values, alpha) = self.input.split_at(self.streams.len() * self.arena);
        let mut rings = [&values[..0]; 3];
        for (ring, values) in rings.iter_mut().zip(values.chunks(self.arena)) {
            *ring = values;
        }
        let row = WeightedRow {
            taps: self.taps,
            centre: self.ring.slot(complete.count, 0) * self.stride
                + self.tile.place(window.radius_x, 0),
            color: match self.share.alpha {
                None => window.color,
                Some(_) => window.color_premultiplied,
            },
            euclidean: window.distance == Distance::L2,
            values: &rings[..self.streams.len()],
            alpha: self.share.alpha.map(|_| alpha),
        };
        let part = self.results.len() / 5;
        let mut parts = self.results.chunks_exact_mut(part);
        let mut part = || parts.next().expect("five parts");
        let mut sums = WeightedSums {
            values: [part(), part(), part()],
            alpha: part(),
            weights: part(),
        };
        weighted_row(isa, &row, &mut sums, samples);
        for (index, stream) in self.streams.iter().enumerate() {
            let means = &mut sums.values[index][..samples];
            match row.alpha {
                Some(_) => opaque_mean_row(isa, means, sums.weights, sums.alpha),
                None => mean_row(isa, means, sums.weights, &rings[index][row.centre..]),
            }
            let finish = Finish {
                divisor: Divisor::One,
                offset: stream.out_offset,
                max: self.job.max,
                sample: self.job.streams.sample,
            };
            let to = (&mut *band, complete.y);
            stream.write_sums(isa, means, &finish, self.codes, to, &self.tile);
        }
    }

    /// The window around the row of step `count`.
    fn place_taps(&mut self, count: usize) {
        let window = &self.job.window;
        self.taps.clear();
        (self.taps).extend(window.taps.iter().map(|&(dx, dy, exponent)| Tap {
            weight: exponent,
            start: self.ring.slot(count, dy as isize) * self.stride
                + self.tile.place(window.radius_x, dx as isize),
        }));
    }
}
