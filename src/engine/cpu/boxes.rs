//! Large boxes of bytes, by sums that slide: the cost hardly depends on the size.

use super::band::{Band, Complete, Reader, Ring, Step, Tile};
use super::isa::Isa;
use super::rows::boxes::{scale_row, slide_row, window_row};
use super::rows::sums::Scale;
use super::scratch::{Scratch, whole_lines};
use super::streams::{Stream, Streams, border_is_a_byte};
use super::whole::{WholeKernel, Width};
use crate::filter::Layout;
use crate::filter::layout::Sample;
use crate::filter::plan::{Job, Operation, Taps};

/// Taps across and down together from which sliding sums are faster than [`super::integer`]:
/// between 7x7 and 9x9, with AVX-512 and with AVX2.
const LEAST_TAPS: usize = 16;

/// A job that is a box.
pub struct BoxJob {
    streams: Streams,
    /// Of each stream: what its sums start from, and how they become bytes.
    finishes: Vec<(i32, Scale)>,
    radius_x: usize,
    radius_y: usize,
}

impl BoxJob {
    /// `None` where the job is no large box of bytes.
    pub fn new(layout: &Layout, job: &Job, isa: Isa) -> Option<BoxJob> {
        let Operation::Correlate(kernel) = &job.operation else {
            return None;
        };
        let Taps::Separable {
            horizontal,
            vertical,
        } = &kernel.taps
        else {
            return None;
        };
        let large = horizontal.len() + vertical.len() >= LEAST_TAPS;
        if !large
            || horizontal
                .iter()
                .chain(vertical)
                .any(|&weight| weight != 1.0)
        {
            return None;
        }
        let bytes = layout.sample == Sample::U8 && border_is_a_byte(job);
        if !bytes || job.premultiply || !job.sums_are_whole(layout.max_code()) {
            return None;
        }
        let streams = Streams::new(layout, job);
        let whole = WholeKernel::new(kernel, Width::Wide).filter(|whole| whole.start == 0)?;
        let finish = |s: &Stream| whole.wide(isa, s.zero, kernel.divisor, s.out_offset);
        let (radius_x, radius_y) = kernel.taps.radius();
        Some(BoxJob {
            finishes: streams.filtered.iter().map(finish).collect::<Option<_>>()?,
            streams,
            radius_x,
            radius_y,
        })
    }

    /// Filters a band.
    pub fn filter(&self, isa: Isa, band: &mut Band, scratch: &mut Scratch) {
        let rows = Ring::new(self.radius_y).rows;
        for (stream, finish) in self.streams.filtered.iter().zip(&self.finishes) {
            let bytes = rows * stream.channels * 2;
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

/// One stream in one tile of a band.
struct Work<'a> {
    job: &'a BoxJob,
    isa: Isa,
    reader: Reader<'a>,
    stream: &'a Stream,
    tile: Tile,
    ring: Ring,
    input: &'a mut [u8],
    /// Two rows for sums in the making, one of the sums across, and the ring of those.
    across: &'a mut [u16],
    /// Values of a row of `across`.
    stride: usize,
    /// The sums over the box around the middle row of the ring.
    sums: &'a mut [i32],
    codes: &'a mut [u8],
}

impl<'a> Work<'a> {
    fn new(
        job: &'a BoxJob,
        isa: Isa,
        band: &Band<'a>,
        stream: &'a Stream,
        tile: Tile,
        scratch: &'a mut Scratch,
    ) -> Self {
        let ring = Ring::new(job.radius_y);
        let beside = tile.samples_beside(job.radius_x);
        let stride = whole_lines::<u16>(beside);
        let across = scratch.sums.get::<u16>((3 + ring.rows) * stride);
        let sums = scratch.results.get::<i32>(tile.samples());
        // Before the first rows come nothing has to leave.
        across.fill(0);
        sums.fill(0);
        Work {
            job,
            isa,
            reader: band.reader(&job.streams),
            stream,
            ring,
            input: scratch.input.get(beside),
            across,
            stride,
            sums,
            codes: scratch.codes.get(tile.samples()),
            tile,
        }
    }

    /// Takes in an input row: it enters the sums, and the oldest leaves them.
    fn read(&mut self, step: Step) {
        let (isa, samples) = (self.isa, self.tile.samples());
        let wanted = self.tile.beside(self.job.radius_x);
        (self.reader).read_bytes(isa, self.stream, step.y, wanted, self.input);
        let (making, ring) = self.across.split_at_mut(3 * self.stride);
        let (first, rest) = making.split_at_mut(self.stride);
        let (second, entering) = rest.split_at_mut(self.stride);
        let entering = &mut entering[..samples];
        let window = 2 * self.job.radius_x + 1;
        let distance = self.stream.channels;
        window_row(isa, self.input, window, distance, [first, second], entering);
        let row = &mut ring[self.ring.slot(step.count, 0) * self.stride..][..samples];
        slide_row(isa, self.sums, row, entering);
    }

    /// Writes an output row.
    fn write(&mut self, complete: Complete, (start, scale): (i32, Scale), band: &mut Band) {
        let (isa, sums, offset) = (self.isa, &*self.sums, self.stream.out_offset);
        let to = (band, complete.y);
        (self.stream).write(isa, to, &self.tile, 1, self.codes, |out| {
            scale_row(isa, sums, start, scale, offset, out);
        });
    }
}
