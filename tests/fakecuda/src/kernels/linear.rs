//! Correlation and gradient magnitude.

use super::image::Picture;
use crate::abi::{ConvolveLaunch, Taps, line_length};

/// A linear filter, with its weights where the kernel reads them.
pub struct Linear<'a> {
    launch: &'a ConvolveLaunch,
    weights: &'a [f32],
}

impl<'a> Linear<'a> {
    pub fn new(launch: &'a ConvolveLaunch, weights: &'a [f32]) -> Self {
        Linear { launch, weights }
    }

    /// Samples that the filter reaches beyond the centre, across and down.
    pub fn margin(&self) -> (usize, usize) {
        let largest = |side: fn(&Taps) -> u32| {
            let sides = kernels(self.launch).iter().map(side);
            sides.max().map_or(0, |side| side as usize / 2)
        };
        (largest(|taps| taps.width), largest(|taps| taps.height))
    }

    /// Sum (or magnitude of two sums) by divisor of every sample, row by row.
    pub fn filter(&self, picture: &Picture, width: usize, height: usize) -> Vec<f32> {
        let divisor = self.launch.divisor;
        let sums = |taps: &Taps| self.sums(taps, picture, width, height);
        match kernels(self.launch) {
            [x, y] => (sums(x).iter().zip(sums(y)))
                .map(|(sx, sy)| sy.mul_add(sy, sx * sx).sqrt() / divisor)
                .collect(),
            all => sums(&all[0]).iter().map(|sum| sum / divisor).collect(),
        }
    }

    fn sums(&self, taps: &Taps, picture: &Picture, width: usize, height: usize) -> Vec<f32> {
        let (columns, rows) = (taps.width as usize, taps.height as usize);
        let (rx, ry) = (columns as isize / 2, rows as isize / 2);
        let weights = &self.weights[taps.first as usize..];
        let samples = |rows: std::ops::Range<isize>| {
            rows.flat_map(move |y| (0..width as isize).map(move |x| (x, y)))
        };
        let line = line_length(columns);
        if taps.separable == 0 {
            let sum = |(x, y)| {
                (weights.chunks(line).zip(y - ry..).take(rows)).fold(0.0, |sum, (weights, y)| {
                    (weights[..columns].iter().zip(x - rx..)).fold(sum, |sum, (weight, x)| {
                        weight.mul_add(picture.at(x, y), sum)
                    })
                })
            };
            return samples(0..height as isize).map(sum).collect();
        }
        let (horizontal, vertical) = (&weights[..columns], &weights[line..]);
        let across = |(x, y)| {
            (horizontal.iter().zip(x - rx..)).fold(0.0, |sum, (weight, x)| {
                weight.mul_add(picture.at(x, y), sum)
            })
        };
        let passed: Vec<f32> = samples(-ry..height as isize + ry).map(across).collect();
        let down = |(x, y): (isize, isize)| {
            (vertical[..rows].iter().zip(y..)).fold(0.0, |sum: f32, (weight, y)| {
                weight.mul_add(passed[y as usize * width + x as usize], sum)
            })
        };
        samples(0..height as isize).map(down).collect()
    }
}

/// The kernels of a launch that are used.
pub fn kernels(launch: &ConvolveLaunch) -> &[Taps] {
    &launch.kernels[..launch.kernel_count as usize]
}

/// Weights of one kernel, with the zeros that fill up their lines.
pub fn weight_count(taps: &Taps) -> usize {
    let (width, height) = (taps.width as usize, taps.height as usize);
    if taps.separable == 0 {
        line_length(width) * height
    } else {
        line_length(width) + line_length(height)
    }
}
