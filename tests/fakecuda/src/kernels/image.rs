//! Channels of device memory as float32 pictures with their border, and back.

use std::ops::Range;

use crate::abi::{Channel, Frame, Job, border, sample};
use crate::memory::{Device, Rows};

/// How samples are stored.
#[derive(Debug, Clone, Copy)]
pub struct Samples {
    kind: u32,
    shift: u32,
    max_code: f32,
}

impl Samples {
    pub fn of(frame: &Frame) -> Samples {
        Samples {
            kind: frame.sample,
            shift: frame.shift,
            max_code: frame.max_code,
        }
    }

    pub fn bytes(self) -> usize {
        if self.kind == sample::U8 { 1 } else { 2 }
    }

    fn read(self, bytes: &[u8]) -> u32 {
        match self.kind {
            sample::U8 => u32::from(bytes[0]),
            sample::U16_LE => {
                u32::from(u16::from_le_bytes([bytes[0], bytes[1]])) >> self.shift
                    & self.max_code as u32
            }
            _ => u32::from(u16::from_be_bytes([bytes[0], bytes[1]])),
        }
    }

    fn write(self, bytes: &mut [u8], code: u32) {
        match self.kind {
            sample::U8 => bytes[0] = code as u8,
            sample::U16_LE => bytes.copy_from_slice(&((code << self.shift) as u16).to_le_bytes()),
            _ => bytes.copy_from_slice(&(code as u16).to_be_bytes()),
        }
    }
}

/// One channel: where its rows are read and written.
pub struct Plane {
    pub channel: Channel,
    pub input: (Device, Rows),
    pub output: (Device, Rows),
    /// The rows that are computed.
    pub band: Range<usize>,
}

impl Plane {
    /// Copies every sample as it is stored.
    pub fn copy(&self, samples: Samples, width: usize) {
        let bytes = self.input.0.read(&self.input.1);
        let row_bytes = self.input.1.width as usize;
        self.store(samples, width, |x, y, out| {
            let start = (self.band.start + y) * row_bytes + x * self.channel.step as usize;
            out.copy_from_slice(&bytes[start..][..out.len()]);
        });
    }

    /// Gives every sample the code value `fill`.
    pub fn fill(&self, samples: Samples, width: usize) {
        self.store(samples, width, |_, _, out| {
            samples.write(out, self.channel.fill);
        });
    }

    /// Stores the band's results, row by row: plus the offset, rounded half to even, clamped.
    pub fn finish(&self, samples: Samples, width: usize, results: &[f32]) {
        self.store(samples, width, |x, y, out| {
            let value = results[y * width + x] + self.channel.offset;
            let code = value.round_ties_even().clamp(0.0, samples.max_code);
            samples.write(out, code as u32);
        });
    }

    /// Calls `write` with column, row in the band and place of every sample.
    fn store(&self, samples: Samples, width: usize, write: impl Fn(usize, usize, &mut [u8])) {
        let (device, rows) = &self.output;
        let mut memory = device.bytes.write().unwrap();
        for (y, line) in self.band.clone().enumerate() {
            let row = device.offset + line * rows.pitch as usize;
            for x in 0..width {
                let start = row + x * self.channel.step as usize;
                write(x, y, &mut memory[start..start + samples.bytes()]);
            }
        }
    }
}

/// `in'` of a channel with as much around it as the filter reaches for.
pub struct Picture {
    values: Vec<f32>,
    stride: usize,
    margin: (usize, usize),
}

impl Picture {
    /// Reads the band of `plane` of `job` with `margin` samples on each side, across and down.
    pub fn load(
        samples: Samples,
        rule: u32,
        job: &Job,
        plane: &Plane,
        margin: (usize, usize),
    ) -> Picture {
        let (width, height) = (job.width as usize, job.height as usize);
        let bytes = plane.input.0.read(&plane.input.1);
        let row_bytes = plane.input.1.width as usize;
        let channel = &plane.channel;
        let positions = |part: Range<usize>, length: usize, margin: usize| -> Vec<Option<usize>> {
            let from = part.start as i64 - margin as i64;
            let to = (part.end + margin) as i64;
            (from..to)
                .map(|at| position(rule, at, length as i64))
                .collect()
        };
        let columns = positions(0..width, width, margin.0);
        let rows = positions(plane.band.clone(), height, margin.1);
        let mut values = Vec::with_capacity(columns.len() * rows.len());
        for y in rows {
            values.extend(columns.iter().map(|x| match (x, y) {
                (Some(x), Some(y)) => {
                    let start = y * row_bytes + x * channel.step as usize;
                    samples.read(&bytes[start..]) as f32 - channel.zero
                }
                _ => channel.beyond,
            }));
        }
        Picture {
            values,
            stride: columns.len(),
            margin,
        }
    }

    /// The value at column `x` and row `y`, counted from the first sample of the band.
    pub fn at(&self, x: isize, y: isize) -> f32 {
        let column = self.margin.0.wrapping_add_signed(x);
        let row = self.margin.1.wrapping_add_signed(y);
        self.values[row * self.stride + column]
    }

    /// `width` values of row `y` from column `x` on.
    pub fn row(&self, y: isize, x: isize, width: usize) -> &[f32] {
        let column = self.margin.0.wrapping_add_signed(x);
        let row = self.margin.1.wrapping_add_signed(y);
        &self.values[row * self.stride + column..][..width]
    }

    /// Multiplies every value by that of `other` at the same place.
    pub fn multiply(&mut self, other: &Picture) {
        for (value, factor) in self.values.iter_mut().zip(&other.values) {
            *value *= factor;
        }
    }
}

/// The sample that stands for position `at` of `length`, by the border rule; none where that is a
/// constant.
pub fn position(rule: u32, at: i64, length: i64) -> Option<usize> {
    if (0..length).contains(&at) {
        return Some(at as usize);
    }
    let inside = match rule {
        border::REPLICATE => at.clamp(0, length - 1),
        border::WRAP => at.rem_euclid(length),
        border::REFLECT => {
            let phase = at.rem_euclid(2 * length);
            phase.min(2 * length - 1 - phase)
        }
        border::REFLECT101 => {
            let period = (2 * length - 2).max(1);
            let phase = at.rem_euclid(period);
            phase.min(period - phase)
        }
        _ => return None,
    };
    Some(inside as usize)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn positions_beyond_the_edge_follow_the_rule_again_and_again() {
        let row = |rule, length| -> Vec<Option<usize>> {
            (-5..length + 5)
                .map(|at| position(rule, at, length))
                .collect()
        };
        let some = |at: &[usize]| at.iter().map(|at| Some(*at)).collect::<Vec<_>>();
        assert_eq!(
            row(border::REPLICATE, 3),
            some(&[0, 0, 0, 0, 0, 0, 1, 2, 2, 2, 2, 2, 2])
        );
        assert_eq!(
            row(border::REFLECT, 3),
            some(&[1, 2, 2, 1, 0, 0, 1, 2, 2, 1, 0, 0, 1])
        );
        assert_eq!(
            row(border::REFLECT101, 3),
            some(&[1, 0, 1, 2, 1, 0, 1, 2, 1, 0, 1, 2, 1])
        );
        assert_eq!(
            row(border::WRAP, 3),
            some(&[1, 2, 0, 1, 2, 0, 1, 2, 0, 1, 2, 0, 1])
        );
        assert_eq!(row(border::REFLECT101, 1), vec![Some(0); 11]);
        assert_eq!(row(border::REFLECT, 1), vec![Some(0); 11]);
        assert_eq!(position(border::CONSTANT, -1, 3), None);
    }
}
