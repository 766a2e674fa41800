//! 3 x 3 weights over a picture of float32, by the engine's vectors and threads. No format of the
//! element is made of float32: this is a step of the ladder.

use std::cell::RefCell;
use std::sync::{Mutex, PoisonError};

use super::isa::Isa;
use super::pool;
use super::rows::chain::{SLACK, Tap, chain_row};
use crate::engine::EngineError;

/// Rows that a thread takes at a time.
const BAND: usize = 32;

thread_local! {
    /// Rows of a band with what lies beside them.
    static LINES: RefCell<Vec<f32>> = const { RefCell::new(Vec::new()) };
}

/// Samples from one row of results to the next.
pub fn stride(width: usize) -> usize {
    width.next_multiple_of(SLACK)
}

/// Filters `width` x `height` values by nine weights, row by row, to `results` in rows of
/// [`stride`] values, of which those behind the picture's are of no meaning. Beyond the edge lies the
/// nearest pixel; sums are chains of fused multiply-adds in the order of the weights.
///
/// # Errors
/// When the system refuses to start threads.
///
/// # Panics
/// When a slice is shorter than that.
pub fn correlate3(
    values: &[f32],
    (width, height): (usize, usize),
    weights: &[f32; 9],
    results: &mut [f32],
) -> Result<(), EngineError> {
    assert!(values.len() >= width * height && results.len() >= stride(width) * height);
    let pool = pool::shared().map_err(|error| EngineError {
        call: "starting threads".into(),
        reason: error.to_string(),
        device: "CPU".into(),
    })?;
    let isa = Isa::detect();
    let bands: Vec<Mutex<&mut [f32]>> = (results[..stride(width) * height])
        .chunks_mut(stride(width) * BAND)
        .map(Mutex::new)
        .collect();
    let work = |band: usize| {
        let mut rows = bands[band].lock().unwrap_or_else(PoisonError::into_inner);
        let picture = Picture {
            values,
            width,
            height,
        };
        LINES.with_borrow_mut(|lines| picture.filter(isa, weights, band * BAND, lines, &mut rows));
    };
    pool::share_out(pool, usize::MAX, bands.len(), &work);
    Ok(())
}

struct Picture<'a> {
    values: &'a [f32],
    width: usize,
    height: usize,
}

impl Picture<'_> {
    /// The rows of `results`, the first of which is row `top`.
    fn filter(
        &self,
        isa: Isa,
        weights: &[f32; 9],
        top: usize,
        lines: &mut Vec<f32>,
        results: &mut [f32],
    ) {
        let rows = results.len() / stride(self.width);
        // One value beside each end, and what vectors read beyond.
        let line = stride(self.width + 2) + SLACK;
        lines.resize((rows + 2) * line, 0.0);
        for (row, line) in lines.chunks_exact_mut(line).enumerate() {
            let y = (top + row).saturating_sub(1).min(self.height - 1);
            let values = &self.values[y * self.width..][..self.width];
            line[0] = values[0];
            line[1..=self.width].copy_from_slice(values);
            line[self.width + 1] = values[self.width - 1];
        }
        let taps: [Tap; 9] = std::array::from_fn(|at| Tap {
            weight: weights[at],
            start: at / 3 * line + at % 3,
        });
        for (row, out) in results.chunks_exact_mut(stride(self.width)).enumerate() {
            let samples = &lines[row * line..][..3 * line];
            chain_row(isa, &taps, samples, out, self.width);
        }
    }
}

/// Copies `from` to `to`, which is as long, by all threads: what no filter can beat.
///
/// # Errors
/// When the system refuses to start threads.
pub fn copy(from: &[u8], to: &mut [u8]) -> Result<(), EngineError> {
    const PART: usize = 256 * 1024;
    let pool = pool::shared().map_err(|error| EngineError {
        call: "starting threads".into(),
        reason: error.to_string(),
        device: "CPU".into(),
    })?;
    let parts: Vec<_> = to.chunks_mut(PART).map(Mutex::new).collect();
    let work = |part: usize| {
        let mut to = parts[part].lock().unwrap_or_else(PoisonError::into_inner);
        let len = to.len();
        to.copy_from_slice(&from[part * PART..][..len]);
    };
    pool::share_out(pool, usize::MAX, parts.len(), &work);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sums_are_those_of_single_multiply_adds_at_every_edge() {
        for (width, height) in [(1, 1), (2, 3), (16, 33), (37, 70), (130, 65)] {
            let values: Vec<f32> = (0..width * height).map(|i| (i * i % 251) as f32).collect();
            let weights: [f32; 9] = std::array::from_fn(|i| 0.1 + i as f32 / 7.0);
            let mut results = vec![f32::NAN; stride(width) * height];
            correlate3(&values, (width, height), &weights, &mut results).unwrap();
            let at = |x: isize, y: isize| {
                let x = x.clamp(0, width as isize - 1) as usize;
                values[y.clamp(0, height as isize - 1) as usize * width + x]
            };
            for y in 0..height {
                for x in 0..width {
                    let expected = (0..9).fold(0.0f32, |sum, i| {
                        let (dx, dy) = (i as isize % 3 - 1, i as isize / 3 - 1);
                        weights[i].mul_add(at(x as isize + dx, y as isize + dy), sum)
                    });
                    assert_eq!(results[y * stride(width) + x], expected, "{width} {x} {y}");
                }
            }
        }
    }

    #[test]
    fn all_of_it_is_copied() {
        let from: Vec<u8> = (0..600_001usize).map(|i| (i * 7 % 251) as u8).collect();
        let mut to = vec![0; from.len()];
        copy(&from, &mut to).unwrap();
        assert!(from == to);
    }
}
