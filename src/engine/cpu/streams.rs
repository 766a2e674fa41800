//! The channels of a job as streams: rows of samples that one pass of vector code filters.
//!
//! Packed pixels whose channels are treated alike are one stream as they lie in memory, in which
//! the neighbour of a sample is a pixel's samples away. Any other channel is a stream of its own.

use std::ops::Range;

use super::isa::Isa;
use super::planes::{Field, InputPlanes, OutputPlanes, border_position};
use super::samples::{Finish, finish_row, read_row};
use super::simd::MAX_BYTES;
use super::strided::{copy_samples, fill_samples, gather, patch_row, scatter};
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

    /// Writes a row of the channels that are not filtered.
    ///
    /// # Safety
    /// No other reference to the row of the output may exist.
    pub unsafe fn write_unfiltered(
        &self,
        isa: Isa,
        input: &InputPlanes,
        output: &OutputPlanes,
        row: usize,
    ) {
        for channel in &self.copied {
            // SAFETY: passed on to the caller; one slice lives at a time.
            let to = unsafe { output.row(channel.plane, row) };
            let from = &input.row(channel.plane, row)[channel.offset..];
            let (bytes, to) = (self.sample.bytes(), &mut to[channel.offset..]);
            copy_samples(isa, from, to, bytes, channel.step, self.width);
        }
        for &(channel, code) in &self.filled {
            // SAFETY: as above.
            let to = unsafe { output.row(channel.plane, row) };
            let to = &mut to[channel.offset..];
            fill_samples(isa, to, self.sample, channel.step, self.width, code);
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

/// Pixels of a tile of columns for a band that keeps `bytes` per pixel of its width.
pub fn tile_width(width: usize, bytes: usize) -> usize {
    /// Half of a small second-level cache.
    const TILE_BYTES: usize = 128 << 10;
    /// Below, the columns computed twice at the seams of a large kernel cost too much.
    const MIN_PIXELS: usize = 256;
    let most = (TILE_BYTES / bytes / MAX_BYTES * MAX_BYTES).max(MIN_PIXELS);
    // Tiles of about the same width, and of whole vectors.
    let tiles = width.div_ceil(most);
    width.div_ceil(tiles).next_multiple_of(MAX_BYTES)
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

/// Where a stream is read: a field of a frame.
pub struct Reader<'a> {
    pub input: &'a InputPlanes<'a>,
    pub streams: &'a Streams,
    pub field: Field,
}

impl<'a> Reader<'a> {
    /// The frame's row that stands for row `y` of the field, which may lie beyond its edge;
    /// `None` where the border's constant does.
    pub fn frame_row(&self, y: isize) -> Option<usize> {
        let inside = border_position(self.streams.border, y, self.field.height)?;
        Some(self.field.row(inside))
    }

    /// The bytes of `stream` in row `y` of the field, from its first sample on; as
    /// [`frame_row`](Self::frame_row).
    pub fn bytes(&self, stream: &Stream, y: isize) -> Option<&'a [u8]> {
        let row = self.frame_row(y)?;
        Some(&self.input.row(stream.plane, row)[stream.offset..])
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
        let out_inside = &mut out[at * channels..][..inside.len() * channels];
        gather(
            isa,
            &bytes[inside.start * channels * step..],
            step,
            out_inside,
        );
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

    /// Calls `put(i, samples)` for every pixel of `pixels` beyond the left or right edge: its
    /// samples are those of the pixel `samples` of the row, or of none for the border's constant;
    /// i counts from the start of `pixels`.
    pub fn beyond_edges(&self, pixels: Range<isize>, mut put: impl FnMut(usize, Option<usize>)) {
        let width = self.streams.width as isize;
        let left = pixels.start..pixels.end.min(0);
        let right = pixels.start.max(width)..pixels.end;
        for x in left.chain(right) {
            let from = border_position(self.streams.border, x, self.streams.width);
            put((x - pixels.start) as usize, from);
        }
    }
}

/// `pixels` with `radius` more on either side.
pub fn beside(pixels: &Range<usize>, radius: usize) -> Range<isize> {
    let radius = radius as isize;
    pixels.start as isize - radius..pixels.end as isize + radius
}

impl Stream {
    /// Writes the samples of `pixels` into a row of the output from their sums, and puts right
    /// those that are not to be filtered. `codes` has room for the bytes of all.
    pub fn write_row(
        &self,
        isa: Isa,
        sums: &[f32],
        finish: &Finish,
        codes: &mut [u8],
        (input, output): (&[u8], &mut [u8]),
        pixels: Range<usize>,
    ) {
        let bytes = finish.sample.bytes();
        let len = sums.len() * bytes;
        let out = &mut output[self.offset + pixels.start * self.channels * self.step..];
        if self.step == bytes {
            finish_row(isa, sums, finish, &mut out[..len]);
        } else {
            finish_row(isa, sums, finish, &mut codes[..len]);
            scatter(isa, &codes[..len], out, bytes, self.step);
        }
        self.patch_row(isa, input, output, pixels);
    }

    /// Puts right the bytes of `pixels` of a filtered row that are not to be filtered.
    pub fn patch_row(&self, isa: Isa, input: &[u8], output: &mut [u8], pixels: Range<usize>) {
        let Some(patch) = &self.patch else {
            return;
        };
        let size = patch.keep.len() / PATCH_PIXELS;
        let bytes = self.offset + pixels.start * size..self.offset + pixels.end * size;
        let (input, output) = (&input[bytes.clone()], &mut output[bytes]);
        patch_row(isa, &patch.keep, &patch.copy, &patch.fill, input, output);
    }
}
