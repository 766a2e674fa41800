//! The bilateral of bytes, with weights from tables: of channels by themselves, and of RGB with the
//! sum of the magnitudes of the differences.
//!
//! The weights are 16-bit fixed-point numbers, one table for the taps of each distance from the
//! centre. What rounding takes from the weights of one distance the next gets, so that the error
//! of a whole ring of equal differences stays below 2^-16 of the centre's weight.

use super::band::{Band, Complete, Reader, Ring, Step, Tile};
use super::isa::Isa;
use super::scratch::{Scratch, whole_lines};
use super::simd::{ByteRow, MAX_BYTES, Segment, TapGroup, Vbmi, bilateral_bytes_row};
use super::streams::{Stream, Streams, border_is_a_byte};
use super::whole::rounds_to_i32;
use crate::filter::Layout;
use crate::filter::layout::{Role, Sample};
use crate::filter::plan::{Bilateral, Job};
use crate::filter::spec::Distance;

/// The weight of the centre.
const ONE: f64 = 65536.0;
/// Differences of bytes.
const DIFFERENCES: usize = 256;
/// Entries of a segment.
const SEGMENT: usize = 64;

/// Offsets whose taps share a table, in fours; `None` stands for the centre.
struct Group {
    taps: [Option<(i32, i32)>; 4],
    table: usize,
}

/// A job that is a bilateral of bytes.
pub struct ByteBilateralJob {
    vbmi: Vbmi,
    streams: Streams,
    /// The first streams share their weights: 3, or 1 for none.
    shared: usize,
    groups: Vec<Group>,
    tables: Vec<Segment>,
    segments: usize,
    centre_weight: i32,
    radius_x: usize,
    radius_y: usize,
}

impl ByteBilateralJob {
    /// `None` where the job is not of bytes, a table cannot tell the weights, or the machine has not
    /// the instructions.
    pub fn new(
        layout: &Layout,
        job: &Job,
        window: &Bilateral,
        isa: Isa,
    ) -> Option<ByteBilateralJob> {
        let vbmi = isa.vbmi()?;
        if layout.sample != Sample::U8 || job.premultiply || !border_is_a_byte(job) {
            return None;
        }
        let colours = job.group.channels.iter().any(|c| c.role == Role::Colour);
        let (streams, shared) = if colours {
            let mut streams = Streams::apart(layout, job);
            streams
                .filtered
                .sort_by_key(|stream| stream.role == Role::Alpha);
            (streams, 3)
        } else {
            (Streams::new(layout, job), 1)
        };
        let is_shared = |stream: &Stream| stream.role == Role::Colour;
        let together = streams.filtered.iter().filter(|s| is_shared(s)).count();
        if colours && (together != shared || window.distance != Distance::L1) {
            return None;
        }
        if !(streams.filtered.iter()).all(|s| rounds_to_i32(255.0, 1.0, s.out_offset - s.zero)) {
            return None;
        }
        let classes = classes(window);
        let weights = weights(&classes, window.color);
        let used = (weights.iter())
            .filter_map(|weights| weights.iter().rposition(|&weight| weight != 0))
            .max()?;
        // The last entry of a table stands for all differences beyond: it has to be 0. (Of one
        // channel none is beyond 255, of three the sum is.)
        let segments = ((used + 1) / SEGMENT + 1).min(DIFFERENCES / SEGMENT);
        if shared > 1 && used + 1 == DIFFERENCES {
            return None;
        }
        let (mut groups, mut tables, mut spare) = (Vec::new(), Vec::new(), 0);
        for ((_, offsets), weights) in classes.iter().zip(&weights) {
            for offsets in offsets.chunks(4) {
                groups.push(Group {
                    taps: std::array::from_fn(|n| offsets.get(n).copied()),
                    table: tables.len(),
                });
                spare += i64::from(weights[0]) * (4 - offsets.len() as i64);
            }
            for shift in [8, 0] {
                tables.extend((0..segments).map(|segment| {
                    let byte = |n: usize| (weights[segment * SEGMENT + n] >> shift) as u8;
                    Segment(std::array::from_fn(byte))
                }));
            }
        }
        Some(ByteBilateralJob {
            vbmi,
            streams,
            shared,
            groups,
            tables,
            segments,
            centre_weight: i32::try_from(ONE as i64 - spare).ok()?,
            radius_x: window.radius_x,
            radius_y: window.radius_y,
        })
    }
}

/// The taps of the window by exponent.
fn classes(window: &Bilateral) -> Vec<(f32, Vec<(i32, i32)>)> {
    let mut taps = window.taps.clone();
    taps.sort_by(|a, b| b.2.total_cmp(&a.2));
    (taps.chunk_by(|a, b| a.2 == b.2))
        .map(|class| {
            (
                class[0].2,
                class.iter().map(|&(dx, dy, _)| (dx, dy)).collect(),
            )
        })
        .collect()
}

/// For each class the weights by difference, in 65536ths.
fn weights(classes: &[(f32, Vec<(i32, i32)>)], color: f32) -> Vec<[u16; DIFFERENCES]> {
    let mut owed = [0.0f64; DIFFERENCES];
    let mut of_class = |exponent: f32, count: f64| {
        std::array::from_fn(|difference| {
            let squared = (difference * difference) as f64;
            let exact = ONE * (f64::from(exponent) + squared * f64::from(color)).exp2();
            let weight = (exact + owed[difference] / count)
                .round()
                .clamp(0.0, 65535.0);
            owed[difference] += (exact - weight) * count;
            weight as u16
        })
    };
    (classes.iter())
        .map(|(exponent, offsets)| of_class(*exponent, offsets.len() as f64))
        .collect()
}

impl ByteBilateralJob {
    /// Filters a band.
    pub fn filter(&self, isa: Isa, band: &mut Band, scratch: &mut Scratch) {
        let (together, alone) = self.streams.filtered.split_at(self.shared);
        for streams in [together].into_iter().chain(alone.chunks(1)) {
            let channels = streams[0].channels;
            let bytes = Ring::new(self.radius_y).rows * channels * streams.len();
            for tile in Tile::all(self.streams.width, channels, bytes) {
                let mut work = Work::new(self, isa, band, streams, tile, scratch);
                for step in band.steps(self.radius_y) {
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
    job: &'a ByteBilateralJob,
    isa: Isa,
    reader: Reader<'a>,
    streams: &'a [Stream],
    tile: Tile,
    ring: Ring,
    /// From one row of input bytes to the next.
    stride: usize,
    /// The ring of each stream.
    input: &'a mut [u8],
    /// A row of results of each stream, and one to put in order.
    codes: &'a mut [u8],
    groups: &'a mut Vec<TapGroup>,
}

impl<'a> Work<'a> {
    fn new(
        job: &'a ByteBilateralJob,
        isa: Isa,
        band: &Band<'a>,
        streams: &'a [Stream],
        tile: Tile,
        scratch: &'a mut Scratch,
    ) -> Self {
        let ring = Ring::new(job.radius_y);
        let stride = whole_lines::<u8>(tile.samples_beside(job.radius_x) + MAX_BYTES);
        Work {
            job,
            isa,
            reader: band.reader(&job.streams),
            streams,
            ring,
            stride,
            input: (scratch.input).get(streams.len() * ring.rows * stride),
            codes: (scratch.codes).get((streams.len() + 1) * tile.samples()),
            groups: &mut scratch.groups,
            tile,
        }
    }

    /// Takes in an input row of every stream.
    fn read(&mut self, step: Step) {
        for (n, stream) in self.streams.iter().enumerate() {
            let slot = n * self.ring.rows + self.ring.slot(step.count, 0);
            let row = &mut self.input[slot * self.stride..][..self.stride];
            let wanted = self.tile.beside(self.job.radius_x);
            (self.reader).read_bytes(self.isa, stream, step.y, wanted, row);
            row.iter_mut().for_each(|byte| *byte ^= 0x80);
        }
    }

    /// Computes and writes an output row of every stream.
    fn write(&mut self, complete: Complete, band: &mut Band) {
        let (job, samples) = (self.job, self.tile.samples());
        let place = |(dx, dy): (i32, i32)| {
            self.ring.slot(complete.count, dy as isize) * self.stride
                + self.tile.place(job.radius_x, dx as isize)
        };
        self.groups.clear();
        (self.groups).extend(job.groups.iter().map(|group| TapGroup {
            taps: group.taps.map(|tap| place(tap.unwrap_or((0, 0)))),
            table: group.table,
        }));
        let mut row = ByteRow {
            samples: self.input,
            centre: place((0, 0)),
            channel: self.ring.rows * self.stride,
            groups: self.groups,
            tables: &job.tables,
            segments: job.segments,
            centre_weight: job.centre_weight,
            offsets: [0.0; 3],
        };
        for (offset, stream) in row.offsets.iter_mut().zip(self.streams) {
            *offset = 128.0 - stream.zero + stream.out_offset;
        }
        if let [stream] = self.streams {
            let to = (band, complete.y);
            return stream.write(self.isa, to, &self.tile, 1, self.codes, |out| {
                bilateral_bytes_row(job.vbmi, &row, &mut [out]);
            });
        }
        let (results, codes) = self.codes.split_at_mut(self.streams.len() * samples);
        let mut results = results.chunks_exact_mut(samples);
        let mut result = || results.next().expect("as many as streams");
        let mut results = [result(), result(), result()];
        bilateral_bytes_row(job.vbmi, &row, &mut results);
        for (stream, result) in self.streams.iter().zip(results) {
            let to = (&mut *band, complete.y);
            stream.write(self.isa, to, &self.tile, 1, codes, |out| {
                out.copy_from_slice(result);
            });
        }
    }
}
