//! The bilateral by weighted levels, `method=fast`, as [`crate::filter::levels`] defines it.
//!
//! A band is worked through in tiles of columns and blocks of rows that stay in the second-level
//! cache. Level by level, but for those that no sample of the block is near, the weights of all samples
//! of the block and around it are computed and summed down, then across, in a few rows at a time.

use std::ops::Range;

use super::band::{Band, Reader, Tile};
use super::isa::Isa;
use super::rows::chain::{Tap, chain_row};
use super::rows::levels::{Level, add_level_row, divide_row, range_row, weigh_row};
use super::rows::samples::{Divisor, Finish};
use super::rows::window::{ROWS, RUN, Window, window_sums};
use super::scratch::{Scratch, whole_lines};
use super::streams::{Stream, Streams};
use crate::filter::Layout;
use crate::filter::levels::Levels;
use crate::filter::plan::{Bilateral, Job};

/// Output rows of a block, a multiple of [`ROWS`].
const BLOCK: usize = 32;

/// A job that is a bilateral by levels.
pub struct LevelsJob {
    streams: Streams,
    levels: Levels,
    max: f32,
}

impl LevelsJob {
    pub fn new(layout: &Layout, job: &Job, window: &Bilateral) -> LevelsJob {
        LevelsJob {
            streams: Streams::new(layout, job),
            levels: Levels::new(window, layout.max_code()),
            max: layout.max_code() as f32,
        }
    }

    fn radius(&self) -> (usize, usize) {
        (
            self.levels.horizontal.len() / 2,
            self.levels.vertical.len() / 2,
        )
    }

    /// Filters a band.
    pub fn filter(&self, isa: Isa, band: &mut Band, scratch: &mut Scratch) {
        let rows = band.rows();
        for stream in &self.streams.filtered {
            // Values, weights and products of the samples that a block needs.
            let kept = 3 * (BLOCK + 2 * self.radius().1);
            let bytes = kept * stream.channels * size_of::<f32>();
            for tile in Tile::all(self.streams.width, stream.channels, bytes) {
                for first in rows.clone().step_by(BLOCK) {
                    let block = first..(first + BLOCK).min(rows.end);
                    Work::new(self, isa, band, stream, &tile, block, scratch).filter(band);
                }
            }
        }
        self.streams.write_unfiltered(isa, band);
    }
}

/// One tile of a block of rows.
struct Work<'a> {
    job: &'a LevelsJob,
    isa: Isa,
    reader: Reader<'a>,
    stream: &'a Stream,
    tile: &'a Tile,
    /// Output rows.
    rows: Range<usize>,
    /// From one row to the next: of samples with those beside the tile, and of those of the tile.
    wide: usize,
    narrow: usize,
    /// Wide rows: the samples, and of a level their weights and the products.
    values: &'a mut [f32],
    weights: &'a mut [f32],
    products: &'a mut [f32],
    /// [`ROWS`] wide rows of sums down, then as many narrow ones of sums across for the weights, and
    /// for the products.
    down: &'a mut [f32],
    across: [&'a mut [f32]; 2],
    /// Narrow rows.
    numerators: &'a mut [f32],
    denominators: &'a mut [f32],
    codes: &'a mut [u8],
    /// Where the rows of a window begin.
    starts: &'a mut Vec<usize>,
    /// Of a row of sums down.
    taps: &'a [Tap],
}

impl<'a> Work<'a> {
    fn new(
        job: &'a LevelsJob,
        isa: Isa,
        band: &Band<'a>,
        stream: &'a Stream,
        tile: &'a Tile,
        rows: Range<usize>,
        scratch: &'a mut Scratch,
    ) -> Self {
        let (rx, ry) = job.radius();
        let wide = whole_lines::<f32>(tile.samples_beside(rx) + RUN);
        let narrow = whole_lines::<f32>(tile.samples() + RUN);
        let input = scratch.input.get(3 * (rows.len() + 2 * ry) * wide);
        let (values, rest) = input.split_at_mut(input.len() / 3);
        let (weights, products) = rest.split_at_mut(rest.len() / 2);
        let (down, across) =
            (scratch.sums.get(ROWS * (wide + 2 * narrow))).split_at_mut(ROWS * wide);
        let (of_weights, of_products) = across.split_at_mut(ROWS * narrow);
        let (numerators, denominators) =
            (scratch.results.get(2 * rows.len() * narrow)).split_at_mut(rows.len() * narrow);
        scratch.taps.clear();
        let horizontal = job.levels.horizontal.iter().enumerate();
        (scratch.taps).extend(horizontal.map(|(i, &weight)| Tap {
            weight,
            start: i * tile.channels,
        }));
        Work {
            job,
            isa,
            reader: band.reader(&job.streams),
            stream,
            rows,
            wide,
            narrow,
            values,
            weights,
            products,
            down,
            across: [of_weights, of_products],
            numerators,
            denominators,
            codes: scratch.codes.get(2 * tile.samples()),
            starts: &mut scratch.rows,
            taps: &scratch.taps,
            tile,
        }
    }

    fn filter(mut self, band: &mut Band) {
        self.read();
        self.numerators.fill(0.0);
        self.denominators.fill(0.0);
        let levels = &self.job.levels;
        let (least, most) = self.range();
        for k in levels.within_reach(least + self.stream.zero, most + self.stream.zero) {
            self.add_level(Level {
                value: levels.level(k) - self.stream.zero,
                exponent: levels.exponent,
                reach: levels.reach,
            });
        }
        self.write(band);
    }

    /// Takes in the rows of the block and those above and below.
    fn read(&mut self) {
        let (rx, ry) = self.job.radius();
        let wanted = self.tile.beside(rx);
        for (index, row) in self.values.chunks_exact_mut(self.wide).enumerate() {
            let y = (self.rows.start + index) as isize - ry as isize;
            (self.reader).read_values(self.isa, self.stream, y, wanted.clone(), row);
        }
    }

    /// The samples of output row `index` of the block.
    fn own(&self, index: usize) -> &[f32] {
        let (rx, ry) = self.job.radius();
        let start = (index + ry) * self.wide + self.tile.place(rx, 0);
        &self.values[start..][..self.tile.samples()]
    }

    /// The least and the largest sample of the output rows.
    fn range(&self) -> (f32, f32) {
        let rows = (0..self.rows.len()).map(|index| range_row(self.isa, self.own(index)));
        let whole = (f32::INFINITY, f32::NEG_INFINITY);
        rows.fold(whole, |a, b| (a.0.min(b.0), a.1.max(b.1)))
    }

    /// Adds what `level` contributes to all outputs.
    fn add_level(&mut self, level: Level) {
        let samples = self.tile.samples_beside(self.job.radius().0);
        let rows = (self.weights.chunks_exact_mut(self.wide))
            .zip(self.products.chunks_exact_mut(self.wide));
        for ((weights, products), values) in rows.zip(self.values.chunks_exact(self.wide)) {
            let (weights, products) = (&mut weights[..samples], &mut products[..samples]);
            weigh_row(self.isa, &values[..samples], level, weights, products);
        }
        for first in (0..self.rows.len()).step_by(ROWS) {
            self.sum(first);
            for index in first..(first + ROWS).min(self.rows.len()) {
                let at = (index - first) * self.narrow..;
                let of_row = index * self.narrow..(index + 1) * self.narrow;
                let (rx, ry) = self.job.radius();
                let own = (index + ry) * self.wide + self.tile.place(rx, 0);
                add_level_row(
                    self.isa,
                    &self.values[own..][..self.tile.samples()],
                    level,
                    &self.across[0][at.clone()],
                    &self.across[1][at],
                    &mut self.numerators[of_row.clone()],
                    &mut self.denominators[of_row],
                );
            }
        }
    }

    /// Sums weights and products over the windows of [`ROWS`] output rows from `first` on. What lies
    /// beyond the block is of no use.
    fn sum(&mut self, first: usize) {
        let vertical = &self.job.levels.vertical;
        let last = self.weights.len() / self.wide - 1;
        let beside = self.tile.samples_beside(self.job.radius().0);
        for (from, to) in [&*self.weights, &*self.products]
            .into_iter()
            .zip(&mut self.across)
        {
            self.starts.clear();
            let rows = first..first + vertical.len() + ROWS - 1;
            (self.starts).extend(rows.map(|row| row.min(last) * self.wide));
            let window = Window {
                weights: vertical,
                rows: self.starts,
                columns: &[0],
                samples: from,
            };
            window_sums(self.isa, &window, self.down, self.wide, beside);
            let rows = self.down.chunks_exact(self.wide);
            for (down, across) in rows.zip(to.chunks_exact_mut(self.narrow)) {
                chain_row(self.isa, self.taps, down, across, self.tile.samples());
            }
        }
    }

    fn write(&mut self, band: &mut Band) {
        let samples = self.tile.samples();
        let rows = (self.numerators.chunks_exact_mut(self.narrow))
            .zip(self.denominators.chunks_exact(self.narrow));
        for ((numerators, denominators), y) in rows.zip(self.rows.clone()) {
            let means = &mut numerators[..samples];
            divide_row(self.isa, means, denominators);
            let finish = Finish {
                divisor: Divisor::One,
                offset: self.stream.out_offset,
                max: self.job.max,
                sample: self.job.streams.sample,
            };
            let to = (&mut *band, y);
            (self.stream).write_sums(self.isa, means, &finish, self.codes, to, self.tile);
        }
    }
}
