//! A band of rows, as a job computes it: where it is read and written, and the tiles of columns and
//! the order of rows in which filters with a window work through it.

use std::ops::Range;

use super::isa::Isa;
use super::planes::{Field, InputPlanes, OutputPlanes, border_position};
use super::rows::samples::read_row;
use super::rows::strided::gather;
use super::simd::MAX_BYTES;
use super::streams::{Stream, Streams};

/// Rows of one field that one thread computes.
pub struct Band<'a> {
    input: &'a InputPlanes<'a>,
    output: &'a OutputPlanes<'a>,
    field: Field,
    rows: Range<usize>,
}

impl<'a> Band<'a> {
    /// # Safety
    /// While the band lives, nothing else refers to these rows of `field` in the planes of
    /// `output` that are written through it.
    pub unsafe fn new(
        input: &'a InputPlanes<'a>,
        output: &'a OutputPlanes<'a>,
        field: Field,
        rows: Range<usize>,
    ) -> Self {
        assert!(rows.end <= field.height);
        Band {
            input,
            output,
            field,
            rows,
        }
    }

    pub fn input(&self) -> &'a InputPlanes<'a> {
        self.input
    }

    pub fn field(&self) -> Field {
        self.field
    }

    /// In rows of the field.
    pub fn rows(&self) -> Range<usize> {
        self.rows.clone()
    }

    /// The active bytes of row `y` of the field, which is of this band, in the input and the
    /// output.
    pub fn row(&mut self, plane: usize, y: usize) -> (&'a [u8], &mut [u8]) {
        assert!(self.rows.contains(&y), "row {y} is another band's");
        let row = self.field.row(y);
        // SAFETY: the promise of `new`, and the slice borrows this band exclusively.
        let output = unsafe { self.output.row(plane, row) };
        (self.input.row(plane, row), output)
    }

    /// The active bytes of `count` rows of the output from row `y` of the field on, all of this band,
    /// and nothing for the rest of the N.
    pub fn rows_mut<const N: usize>(
        &mut self,
        plane: usize,
        y: usize,
        count: usize,
    ) -> [&mut [u8]; N] {
        assert!(count <= N && self.rows.start <= y && y + count <= self.rows.end);
        std::array::from_fn(|r| -> &mut [u8] {
            if r >= count {
                return &mut [];
            }
            // SAFETY: the promise of `new`, and the slices borrow this band exclusively; rows of a
            // plane share no bytes, as no stride is shorter than a row.
            unsafe { self.output.row(plane, self.field.row(y + r)) }
        })
    }

    pub fn reader(&self, streams: &'a Streams) -> Reader<'a> {
        Reader {
            input: self.input,
            field: self.field,
            streams,
        }
    }

    /// As [`steps`](Self::steps), each with the block of at most `most` output rows whose windows it
    /// completes.
    pub fn blocks(
        &self,
        radius: usize,
        most: usize,
    ) -> impl Iterator<Item = (Step, Option<Block>)> + use<> {
        let rows = self.rows();
        self.steps(radius).map(move |step| {
            let block = step.complete.and_then(|last| {
                let before = (last.y - rows.start) % most;
                (before + 1 == most || last.y + 1 == rows.end).then(|| Block {
                    first: Complete {
                        y: last.y - before,
                        count: last.count - before,
                    },
                    rows: before + 1,
                })
            });
            (step, block)
        })
    }

    /// The rows that a window of `radius` rows above and below needs, from top to bottom.
    pub fn steps(&self, radius: usize) -> impl Iterator<Item = Step> + use<> {
        let rows = self.rows();
        (0..rows.len() + 2 * radius).map(move |count| Step {
            count,
            y: (rows.start + count) as isize - radius as isize,
            complete: (count.checked_sub(2 * radius)).map(|middle| Complete {
                y: rows.start + middle,
                count: middle + radius,
            }),
        })
    }
}

/// Output rows that are computed together.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Block {
    pub first: Complete,
    pub rows: usize,
}

/// One input row on the way through a band.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Step {
    /// Rows before.
    pub count: usize,
    /// The row to read, in rows of the field; it may lie beyond.
    pub y: isize,
    /// The output row whose window the row completes.
    pub complete: Option<Complete>,
}

#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Complete {
    /// The output row, in rows of the field.
    pub y: usize,
    /// The count of the step that read this row.
    pub count: usize,
}

/// The places of the last rows read.
#[derive(Debug, Clone, Copy)]
pub struct Ring {
    pub rows: usize,
}

impl Ring {
    /// For a window of `radius` rows above and below.
    pub fn new(radius: usize) -> Ring {
        Ring {
            rows: 2 * radius + 1,
        }
    }

    /// For the windows of a block of `rows` rows.
    pub fn of_blocks(radius: usize, rows: usize) -> Ring {
        Ring {
            rows: 2 * radius + rows,
        }
    }

    /// The place of the row `j` rows after that of step `count`.
    pub fn slot(self, count: usize, j: isize) -> usize {
        // A whole turn more, so that nothing is below 0.
        (count + self.rows).wrapping_add_signed(j) % self.rows
    }
}

/// Columns that are worked on together.
#[derive(Debug, Clone, PartialEq)]
pub struct Tile {
    pub pixels: Range<usize>,
    /// Samples of a pixel.
    pub channels: usize,
}

impl Tile {
    /// Parts rows of `width` pixels of `channels` samples into tiles, for a filter that keeps
    /// `bytes` per pixel of a row.
    pub fn all(width: usize, channels: usize, bytes: usize) -> impl Iterator<Item = Tile> {
        /// Half of a small second-level cache.
        const TILE_BYTES: usize = 256 << 10;
        /// Below, the columns computed twice at the seams of a large kernel cost too much.
        const MIN_PIXELS: usize = 256;
        let most = (TILE_BYTES / bytes / MAX_BYTES * MAX_BYTES).max(MIN_PIXELS);
        // Tiles of about the same width, and of whole vectors.
        let tiles = width.div_ceil(most);
        let each = width.div_ceil(tiles).next_multiple_of(MAX_BYTES);
        (0..width).step_by(each).map(move |start| Tile {
            pixels: start..(start + each).min(width),
            channels,
        })
    }

    /// Samples of a row of the tile.
    pub fn samples(&self) -> usize {
        self.pixels.len() * self.channels
    }

    /// Samples of a row with `radius` more pixels on either side.
    pub fn samples_beside(&self, radius: usize) -> usize {
        (self.pixels.len() + 2 * radius) * self.channels
    }

    /// The pixels with `radius` more on either side.
    pub fn beside(&self, radius: usize) -> Range<isize> {
        let radius = radius as isize;
        self.pixels.start as isize - radius..self.pixels.end as isize + radius
    }

    /// Of a row that starts `radius` pixels before the tile, the place of the sample that a tap at
    /// `offset` pixels takes for the first sample of the tile.
    pub fn place(&self, radius: usize, offset: isize) -> usize {
        radius.wrapping_add_signed(offset) * self.channels
    }
}

/// Where streams are read: a field of a frame.
#[derive(Clone, Copy)]
pub struct Reader<'a> {
    input: &'a InputPlanes<'a>,
    field: Field,
    streams: &'a Streams,
}

impl<'a> Reader<'a> {
    /// The bytes of `stream` in row `y` of the field, which may lie beyond its edge, from its first
    /// sample on; `None` where the border's constant stands for the row.
    fn bytes(&self, stream: &Stream, y: isize) -> Option<&'a [u8]> {
        let inside = border_position(self.streams.border, y, self.field.height)?;
        let row = self.input.row(stream.plane, self.field.row(inside));
        Some(&row[stream.offset..])
    }

    /// Row `y` of `stream` as float32 less its zero level: the samples of the pixels `wanted`.
    pub fn read_values(
        &self,
        isa: Isa,
        stream: &Stream,
        y: isize,
        wanted: Range<isize>,
        out: &mut [f32],
    ) {
        let (channels, step) = (stream.channels, stream.step);
        let Some(bytes) = self.bytes(stream, y) else {
            out[..wanted.len() * channels].fill(stream.beyond);
            return;
        };
        let sample = self.streams.sample;
        let (inside, at) = self.inside(&wanted);
        let bytes_inside = &bytes[inside.start * channels * step..];
        let out_inside = &mut out[at * channels..][..inside.len() * channels];
        read_row(isa, bytes_inside, sample, step, stream.zero, out_inside);
        self.beyond_edges(wanted, |pixel, from| {
            for channel in 0..channels {
                out[pixel * channels + channel] = match from {
                    None => stream.beyond,
                    Some(from) => {
                        let bytes = &bytes[(from * channels + channel) * step..];
                        sample.read(bytes) as f32 - stream.zero
                    }
                };
            }
        });
    }

    /// Row `y` of `stream`, of bytes: the samples of the pixels `wanted`.
    pub fn read_bytes(
        &self,
        isa: Isa,
        stream: &Stream,
        y: isize,
        wanted: Range<isize>,
        out: &mut [u8],
    ) {
        let (channels, step) = (stream.channels, stream.step);
        let beyond = || (stream.zero + stream.beyond) as u8;
        let Some(bytes) = self.bytes(stream, y) else {
            out[..wanted.len() * channels].fill(beyond());
            return;
        };
        let (inside, at) = self.inside(&wanted);
        let bytes_inside = &bytes[inside.start * channels * step..];
        let out_inside = &mut out[at * channels..][..inside.len() * channels];
        gather(isa, bytes_inside, step, out_inside);
        self.beyond_edges(wanted, |pixel, from| {
            for channel in 0..channels {
                out[pixel * channels + channel] = match from {
                    None => beyond(),
                    Some(from) => bytes[(from * channels + channel) * step],
                };
            }
        });
    }

    /// The pixels of `wanted` that the row has, and how many of `wanted` come before them.
    fn inside(&self, wanted: &Range<isize>) -> (Range<usize>, usize) {
        let width = self.streams.width as isize;
        let inside = wanted.start.max(0)..wanted.end.min(width);
        let before = (inside.start - wanted.start) as usize;
        (inside.start as usize..inside.end as usize, before)
    }

    /// Calls `put(i, from)` for every pixel of `wanted` beyond the left or right edge, i counting
    /// from the start of `wanted`: its samples are those of pixel `from`, or the border's constant
    /// for `None`.
    fn beyond_edges(&self, wanted: Range<isize>, mut put: impl FnMut(usize, Option<usize>)) {
        let width = self.streams.width as isize;
        let left = wanted.start..wanted.end.min(0);
        let right = wanted.start.max(width)..wanted.end;
        for x in left.chain(right) {
            let from = border_position(self.streams.border, x, self.streams.width);
            put((x - wanted.start) as usize, from);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tiles_cover_a_row_once_in_whole_vectors() {
        for (width, bytes) in [(1, 4), (64, 1 << 20), (1920, 132), (1501, 264), (16384, 9)] {
            let mut next = 0;
            for tile in Tile::all(width, 3, bytes) {
                assert_eq!(tile.pixels.start, next);
                assert_eq!(next % MAX_BYTES, 0);
                assert_eq!(tile.samples(), 3 * tile.pixels.len());
                next = tile.pixels.end;
            }
            assert_eq!(next, width);
        }
    }

    #[test]
    fn a_ring_keeps_the_rows_of_a_window_apart() {
        let ring = Ring::new(2);
        for count in 2..20 {
            let mut slots: Vec<usize> = (-2..=2).map(|j| ring.slot(count, j)).collect();
            assert_eq!(slots[0], ring.slot(count - 1, -1));
            slots.sort();
            assert_eq!(slots, [0, 1, 2, 3, 4]);
        }
    }
}
