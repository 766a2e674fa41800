//! The channels of a job as streams: rows of samples that one pass of vector code filters.
//!
//! Packed pixels whose channels are treated alike are one stream as they lie in memory, in which
//! the neighbour of a sample is a pixel's samples away. Any other channel is a stream of its own.

use super::band::{Band, Block, Tile};
use super::isa::Isa;
use super::rows::samples::{Finish, finish_row};
use super::rows::strided::{Merge, copy_samples, fill_samples, merge_row, patch_row, scatter};
use super::simd::MAX_BYTES;
use crate::filter::Layout;
use crate::filter::layout::{Channel, Role, Sample};
use crate::filter::plan::{Action, Job};
use crate::filter::spec::Border;

/// Samples that are filtered alike.
#[derive(Debug, Clone, PartialEq)]
pub struct Stream {
    pub plane: usize,
    /// Bytes from the start of the row to the first sample.
    pub offset: usize,
    /// Bytes from one sample to the next.
    pub step: usize,
    /// Samples of a pixel.
    pub channels: usize,
    pub role: Role,
    /// As in [`Action::Filter`], of all its samples.
    pub zero: f32,
    pub out_offset: f32,
    pub beyond: f32,
    /// Which bytes of a pixel are not filtered after all, if any.
    patch: Option<Patch>,
}

/// Pixels of a [`Patch`]: a whole number of vectors, whatever the size of a pixel.
const PATCH_PIXELS: usize = MAX_BYTES;

/// What overwrites packed pixels after the filter ran over all of their bytes, for
/// [`PATCH_PIXELS`].
#[derive(Debug, Clone, PartialEq)]
struct Patch {
    /// All ones where the filtered value stays.
    keep: Vec<u8>,
    /// All ones where the input's value goes.
    copy: Vec<u8>,
    /// The value that goes, where neither.
    fill: Vec<u8>,
}

/// A job taken apart.
#[derive(Debug)]
pub struct Streams {
    pub sample: Sample,
    pub border: Border,
    /// Pixels of a row.
    pub width: usize,
    /// Of premultiplied colours the first is the alpha channel.
    pub filtered: Vec<Stream>,
    copied: Vec<Channel>,
    filled: Vec<(Channel, u32)>,
}

impl Streams {
    pub fn new(layout: &Layout, job: &Job) -> Streams {
        match packed(layout.sample, job) {
            Some(stream) => Streams {
                sample: layout.sample,
                border: job.border,
                width: job.group.width,
                filtered: vec![stream],
                copied: Vec::new(),
                filled: Vec::new(),
            },
            None => Streams::apart(layout, job),
        }
    }

    /// With a stream for every filtered channel.
    pub fn apart(layout: &Layout, job: &Job) -> Streams {
        let mut streams = Streams {
            sample: layout.sample,
            border: job.border,
            width: job.group.width,
            filtered: Vec::new(),
            copied: Vec::new(),
            filled: Vec::new(),
        };
        for (&channel, &action) in job.group.channels.iter().zip(&job.actions) {
            match action {
                Action::Copy => streams.copied.push(channel),
                Action::Fill(code) => streams.filled.push((channel, code)),
                Action::Filter {
                    zero,
                    offset,
                    beyond,
                } => streams.filtered.push(Stream {
                    plane: channel.plane,
                    offset: channel.offset,
                    step: channel.step,
                    channels: 1,
                    role: channel.role,
                    zero,
                    out_offset: offset,
                    beyond,
                    patch: None,
                }),
            }
        }
        if job.premultiply {
            let alpha = streams.filtered.iter().position(|s| s.role == Role::Alpha);
            streams
                .filtered
                .swap(0, alpha.expect("checked when the plan was prepared"));
        }
        streams
    }

    /// Writes the channels that are not filtered.
    pub fn write_unfiltered(&self, isa: Isa, band: &mut Band) {
        let bytes = self.sample.bytes();
        for y in band.rows() {
            for channel in &self.copied {
                let (from, to) = band.row(channel.plane, y);
                let (from, to) = (&from[channel.offset..], &mut to[channel.offset..]);
                copy_samples(isa, from, to, bytes, channel.step, self.width);
            }
            for &(channel, code) in &self.filled {
                let (_, to) = band.row(channel.plane, y);
                let to = &mut to[channel.offset..];
                fill_samples(isa, to, self.sample, channel.step, self.width, code);
            }
        }
    }
}

/// The stream of all channels together, if they are packed side by side and those which are
/// filtered are filtered alike and at least half of all.
fn packed(sample: Sample, job: &Job) -> Option<Stream> {
    let channels = &job.group.channels;
    let bytes = sample.bytes();
    let step = channels.len() * bytes;
    let plane = channels[0].plane;
    let offset = channels.iter().map(|c| c.offset).min()?;
    if job.premultiply || channels.iter().any(|c| c.plane != plane || c.step != step) {
        return None;
    }
    let mut patch = Patch {
        keep: vec![0; step],
        copy: vec![0; step],
        fill: vec![0; step],
    };
    let mut alike = None;
    let mut filtered = 0;
    let mut seen = vec![false; channels.len()];
    for (channel, action) in channels.iter().zip(&job.actions) {
        let at = channel.offset - offset;
        let place = seen.get_mut(at / bytes).filter(|_| at % bytes == 0)?;
        if std::mem::replace(place, true) {
            return None;
        }
        let at = at..at + bytes;
        match *action {
            Action::Copy => patch.copy[at].fill(0xFF),
            Action::Fill(code) => sample.write(&mut patch.fill[at], code),
            Action::Filter { .. } => {
                if *alike.get_or_insert(*action) != *action {
                    return None;
                }
                filtered += 1;
                patch.keep[at].fill(0xFF);
            }
        }
    }
    let Action::Filter {
        zero,
        offset: out_offset,
        beyond,
    } = alike?
    else {
        return None;
    };
    (2 * filtered >= channels.len()).then(|| Stream {
        plane,
        offset,
        step: bytes,
        channels: channels.len(),
        role: channels[0].role,
        zero,
        out_offset,
        beyond,
        patch: (filtered < channels.len()).then(|| Patch {
            keep: patch.keep.repeat(PATCH_PIXELS),
            copy: patch.copy.repeat(PATCH_PIXELS),
            fill: patch.fill.repeat(PATCH_PIXELS),
        }),
    })
}

/// Pixels of four bytes, each of a channel, of which at least two are streams of their own: their
/// codes are put together pixel by pixel.
#[derive(Debug, Clone, PartialEq)]
pub struct Pixels {
    plane: usize,
    /// Bytes from the start of the row to the first pixel.
    offset: usize,
    merge: Merge,
}

impl Pixels {
    /// The pixels of the streams that [`Streams::apart`] makes of `job`.
    pub fn new(layout: &Layout, job: &Job) -> Option<Pixels> {
        let channels = &job.group.channels;
        let (first, streams) = (channels.first()?, Streams::apart(layout, job));
        let offset = channels.iter().map(|c| c.offset).min()?;
        let mut places: Vec<usize> = channels.iter().map(|c| c.offset - offset).collect();
        places.sort_unstable();
        let whole = |c: &Channel| c.plane == first.plane && c.step == 4;
        let several = (2..=4).contains(&streams.filtered.len());
        if layout.sample != Sample::U8 || places != [0, 1, 2, 3] || !several {
            return None;
        }
        let shift = |at: usize| 8 * (at - offset) as u32;
        channels.iter().all(whole).then(|| Pixels {
            plane: first.plane,
            offset,
            merge: Merge {
                shifts: (streams.filtered.iter()).map(|s| shift(s.offset)).collect(),
                copy: (streams.copied.iter()).fold(0, |mask, c| mask | 0xFF << shift(c.offset)),
                fill: (streams.filled.iter())
                    .fold(0, |fill, &(c, code)| fill | code << shift(c.offset)),
            },
        })
    }

    /// Writes the pixels of `tile` in row `y` of the field: `codes` gives those of each stream.
    pub fn write<'a>(
        &self,
        isa: Isa,
        (band, y): (&mut Band, usize),
        tile: &Tile,
        codes: impl Fn(usize) -> &'a [u8],
    ) {
        let bytes = self.offset + 4 * tile.pixels.start..self.offset + 4 * tile.pixels.end;
        let (input, output) = band.row(self.plane, y);
        let (input, output) = (&input[bytes.clone()], &mut output[bytes]);
        let mut rows = [codes(0); 4];
        for (index, row) in rows.iter_mut().enumerate().take(self.merge.shifts.len()) {
            *row = codes(index);
        }
        merge_row(isa, &rows, &self.merge, input, output);
    }
}

/// Whether the border's constant, if that is the border, is a byte of every filtered channel.
pub fn border_is_a_byte(job: &Job) -> bool {
    job.actions.iter().all(|action| match *action {
        Action::Filter { zero, beyond, .. } => {
            let byte = zero + beyond;
            job.border != Border::Constant || (byte.fract() == 0.0 && (0.0..=255.0).contains(&byte))
        }
        Action::Copy | Action::Fill(_) => true,
    })
}

impl Stream {
    /// Room for the samples of `tile` in the rows of `block`, where they are side by side.
    pub fn lend<'b, const N: usize>(
        &self,
        sample: Sample,
        band: &'b mut Band,
        tile: &Tile,
        block: Block,
    ) -> Option<[&'b mut [u8]; N]> {
        let place = self.offset + tile.pixels.start * self.channels * self.step;
        let place = place..place + tile.samples() * self.step;
        (self.step == sample.bytes()).then(|| {
            let rows = band.rows_mut(self.plane, block.first.y, block.rows);
            rows.map(|row| row.get_mut(place.clone()).unwrap_or_default())
        })
    }

    /// Completes the samples of `tile` in row `y` of the field: those that were not written through
    /// [`lend`](Self::lend) are `codes`.
    pub fn put_in_place(&self, isa: Isa, (band, y): (&mut Band, usize), tile: &Tile, codes: &[u8]) {
        let bytes = codes.len() / tile.samples();
        let start = self.offset + tile.pixels.start * self.channels * self.step;
        let (input, output) = band.row(self.plane, y);
        if self.step != bytes {
            scatter(isa, codes, &mut output[start..], bytes, self.step);
        } else if let Some(Patch { keep, copy, fill }) = &self.patch {
            let (input, output) = (&input[start..], &mut output[start..][..codes.len()]);
            patch_row(isa, keep, copy, fill, &input[..codes.len()], output);
        }
    }

    /// Writes the samples of `tile` in row `y` of the field from their sums; `codes` has room for
    /// the bytes of all.
    pub fn write_sums(
        &self,
        isa: Isa,
        sums: &[f32],
        finish: &Finish,
        codes: &mut [u8],
        (band, y): (&mut Band, usize),
        tile: &Tile,
    ) {
        let bytes = finish.sample.bytes();
        self.write(isa, (band, y), tile, bytes, codes, |out| {
            finish_row(isa, sums, finish, out);
        });
    }

    /// Writes the samples of `tile`, of `bytes` each, in row `y` of the field: `fill` is given room
    /// for them side by side, which is in `codes` where they are not side by side in the frame.
    pub fn write(
        &self,
        isa: Isa,
        (band, y): (&mut Band, usize),
        tile: &Tile,
        bytes: usize,
        codes: &mut [u8],
        fill: impl FnOnce(&mut [u8]),
    ) {
        let (input, output) = band.row(self.plane, y);
        let pixel = self.channels * self.step;
        let len = tile.samples() * bytes;
        let start = self.offset + tile.pixels.start * pixel;
        if self.step != bytes {
            fill(&mut codes[..len]);
            scatter(isa, &codes[..len], &mut output[start..], bytes, self.step);
            return;
        }
        let output = &mut output[start..][..len];
        fill(output);
        if let Some(Patch { keep, copy, fill }) = &self.patch {
            patch_row(isa, keep, copy, fill, &input[start..][..len], output);
        }
    }
}
