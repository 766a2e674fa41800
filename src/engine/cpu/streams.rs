//! The channels of a job as streams: rows of samples that one pass of vector code filters.
//!
//! Packed pixels whose channels are treated alike are one stream as they lie in memory, in which
//! the neighbour of a sample is a pixel's samples away. Any other channel is a stream of its own.

use std::ops::Range;

use super::planes::{Field, InputPlanes, OutputPlanes, border_position};
use super::samples::{copy_samples, fill_samples};
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

/// Bytes of packed pixels that are overwritten after the filter ran over all of them.
#[derive(Debug, Clone, PartialEq)]
struct Patch {
    /// By byte of a pixel: all ones where the filtered value stays.
    keep: Vec<u8>,
    /// By byte of a pixel: all ones where the input's value goes.
    copy: Vec<u8>,
    /// By byte of a pixel: the value that goes, where neither.
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
        let mut streams = Streams {
            sample: layout.sample,
            border: job.border,
            width: job.group.width,
            filtered: Vec::new(),
            copied: Vec::new(),
            filled: Vec::new(),
        };
        if let Some(stream) = packed(layout.sample, job) {
            streams.filtered.push(stream);
            return streams;
        }
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
    pub unsafe fn write_unfiltered(&self, input: &InputPlanes, output: &OutputPlanes, row: usize) {
        for channel in &self.copied {
            // SAFETY: passed on to the caller; one slice lives at a time.
            let to = unsafe { output.row(channel.plane, row) };
            let from = &input.row(channel.plane, row)[channel.offset..];
            let (bytes, to) = (self.sample.bytes(), &mut to[channel.offset..]);
            copy_samples(from, to, bytes, channel.step, self.width);
        }
        for &(channel, code) in &self.filled {
            // SAFETY: as above.
            let to = unsafe { output.row(channel.plane, row) };
            let to = &mut to[channel.offset..];
            fill_samples(to, self.sample, channel.step, self.width, code);
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
        patch: (filtered < channels.len()).then_some(patch),
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

impl Stream {
    /// Puts right the bytes of pixels `from` to `to` of a filtered row that are not to be filtered.
    pub fn patch_row(&self, input: &[u8], output: &mut [u8], pixels: Range<usize>) {
        let Some(patch) = &self.patch else {
            return;
        };
        let size = patch.keep.len();
        let bytes = self.offset + pixels.start * size..self.offset + pixels.end * size;
        let (input, output) = (&input[bytes.clone()], &mut output[bytes]);
        match size {
            2 => patch_pixels::<2>(patch, input, output),
            3 => patch_pixels::<3>(patch, input, output),
            4 => patch_pixels::<4>(patch, input, output),
            6 => patch_pixels::<6>(patch, input, output),
            8 => patch_pixels::<8>(patch, input, output),
            _ => {
                for (output, input) in output.chunks_mut(size).zip(input.chunks(size)) {
                    for i in 0..size {
                        output[i] =
                            output[i] & patch.keep[i] | input[i] & patch.copy[i] | patch.fill[i];
                    }
                }
            }
        }
    }
}

/// Sixteen pixels at a time, for the compiler to make vectors of.
fn patch_pixels<const SIZE: usize>(patch: &Patch, input: &[u8], output: &mut [u8]) {
    let (keep, copy, fill): (&[u8; SIZE], &[u8; SIZE], &[u8; SIZE]) = (
        patch.keep.as_slice().try_into().expect("bytes of a pixel"),
        patch.copy.as_slice().try_into().expect("bytes of a pixel"),
        patch.fill.as_slice().try_into().expect("bytes of a pixel"),
    );
    for (output, input) in (output.as_chunks_mut::<SIZE>().0.iter_mut()).zip(input.as_chunks().0) {
        *output = std::array::from_fn(|i| {
            let input: &[u8; SIZE] = input;
            output[i] & keep[i] | input[i] & copy[i] | fill[i]
        });
    }
}
