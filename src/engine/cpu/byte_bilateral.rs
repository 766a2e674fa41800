//! The bilateral of bytes, channel by channel, with weights from tables.
//!
//! The weights are 16-bit fixed-point numbers, one table for the taps of each distance from the
//! centre. What rounding takes from the weights of one distance the next gets, so that the error
//! of a whole ring of equal differences stays below 2^-16 of the centre's weight.

use std::ops::Range;

use super::isa::Isa;
use super::planes::{Field, InputPlanes, OutputPlanes};
use super::scratch::{Scratch, whole_lines};
use super::simd::{ByteRow, MAX_BYTES, Segment, TapGroup, Vbmi, bilateral_bytes_row};
use super::streams::{Reader, Stream, Streams, beside, border_is_a_byte, tile_width};
use super::strided::scatter;
use super::whole::rounds_to_i32;
use crate::filter::Layout;
use crate::filter::layout::{Role, Sample};
use crate::filter::plan::{Bilateral, Job};

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

/// A job that is a bilateral of bytes whose channels have weights of their own.
pub struct ByteBilateralJob {
    vbmi: Vbmi,
    streams: Streams,
    groups: Vec<Group>,
    tables: Vec<Segment>,
    segments: usize,
    centre_weight: i32,
    radius_x: usize,
    radius_y: usize,
}

impl ByteBilateralJob {
    /// `None` where the job is not of bytes, its channels share weights, or the machine has not the
    /// instructions.
    pub fn new(
        layout: &Layout,
        job: &Job,
        window: &Bilateral,
        isa: Isa,
    ) -> Option<ByteBilateralJob> {
        let vbmi = isa.vbmi()?;
        let shared = job.premultiply || job.group.channels.iter().any(|c| c.role == Role::Colour);
        if layout.sample != Sample::U8 || shared || !border_is_a_byte(job) {
            return None;
        }
        let streams = Streams::new(layout, job);
        if !(streams.filtered.iter()).all(|s| rounds_to_i32(255.0, 1.0, s.out_offset - s.zero)) {
            return None;
        }
        let classes = classes(window);
        let weights = weights(&classes, window.color);
        let used = (weights.iter())
            .filter_map(|weights| weights.iter().rposition(|&weight| weight != 0))
            .max()?;
        // The last entry of a table stands for all differences beyond: it has to be 0.
        let segments = ((used + 1) / SEGMENT + 1).min(DIFFERENCES / SEGMENT);
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

/// A tile of columns.
struct Tile {
    pixels: Range<usize>,
    samples: usize,
    /// From one row of input bytes to the next.
    stride: usize,
}

impl ByteBilateralJob {
    fn ring(&self) -> usize {
        2 * self.radius_y + 1
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
        for stream in &self.streams.filtered {
            let width = tile_width(self.streams.width, self.ring() * stream.channels);
            for start in (0..self.streams.width).step_by(width) {
                let pixels = start..(start + width).min(self.streams.width);
                let samples = pixels.len() * stream.channels;
                let beside = 2 * self.radius_x * stream.channels;
                let tile = Tile {
                    pixels,
                    samples,
                    stride: whole_lines::<u8>(samples + beside + MAX_BYTES),
                };
                // SAFETY: passed on to the caller.
                unsafe { self.tile_rows(isa, &reader, output, stream, &tile, &rows, scratch) };
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
        tile: &Tile,
        rows: &Range<usize>,
        scratch: &mut Scratch,
    ) {
        let samples = scratch.lifted.get::<u8>(self.ring() * tile.stride);
        let codes = scratch.codes.get::<u8>(tile.samples);
        let first = rows.start as isize - self.radius_y as isize;
        for count in 0..rows.len() + 2 * self.radius_y {
            let row = &mut samples[count % self.ring() * tile.stride..][..tile.stride];
            let wanted = beside(&tile.pixels, self.radius_x);
            reader.read_bytes(isa, stream, first + count as isize, wanted, row);
            row.iter_mut().for_each(|byte| *byte ^= 0x80);
            let Some(middle) = count.checked_sub(2 * self.radius_y) else {
                continue;
            };
            let base = middle + self.radius_y;
            self.place_groups(base, tile, stream, &mut scratch.groups);
            let row = ByteRow {
                samples,
                centre: self.place((0, 0), base, tile, stream),
                groups: &scratch.groups,
                tables: &self.tables,
                segments: self.segments,
                centre_weight: self.centre_weight,
                offset: 128.0 - stream.zero + stream.out_offset,
            };
            let out_row = reader.field.row(rows.start + middle);
            // SAFETY: the caller keeps the row for this call; one slice lives at a time.
            let out = unsafe { output.row(stream.plane, out_row) };
            let start = stream.offset + tile.pixels.start * stream.channels * stream.step;
            if stream.step == 1 {
                bilateral_bytes_row(self.vbmi, &row, &mut out[start..][..tile.samples]);
            } else {
                bilateral_bytes_row(self.vbmi, &row, codes);
                scatter(isa, codes, &mut out[start..], 1, stream.step);
            }
            stream.patch_row(
                isa,
                reader.input.row(stream.plane, out_row),
                out,
                tile.pixels.clone(),
            );
        }
    }

    /// Where the bytes of the tap at an offset from the row in slot `base` are.
    fn place(&self, (dx, dy): (i32, i32), base: usize, tile: &Tile, stream: &Stream) -> usize {
        let slot = (base + self.ring()).wrapping_add_signed(dy as isize) % self.ring();
        let pixel = self.radius_x.wrapping_add_signed(dx as isize);
        slot * tile.stride + pixel * stream.channels
    }

    fn place_groups(&self, base: usize, tile: &Tile, stream: &Stream, groups: &mut Vec<TapGroup>) {
        groups.clear();
        groups.extend(self.groups.iter().map(|group| {
            TapGroup {
                taps: group
                    .taps
                    .map(|tap| self.place(tap.unwrap_or((0, 0)), base, tile, stream)),
                table: group.table,
            }
        }));
    }
}
