//! Correlation with weights rounded to float16 on the matrix units. Their sums are taken to be exact here:
//! how they round is theirs, and is less than what is rounded to code values after them.

use half::f16;

use super::image::Picture;
use crate::abi::halves::Matrices;
use crate::abi::{ConvolveLaunch, line_length};

/// A byte as what its eight bits are as a float16.
const BYTE: f64 = 1.0 / 16_777_216.0;

/// The weights of the only kernel of `launch`, rounded.
pub fn matrices(launch: &ConvolveLaunch) -> Matrices {
    let taps = &launch.kernels[0];
    let weights = &launch.inline_weights[taps.first as usize..];
    let across = &weights[..taps.width as usize];
    let down = &weights[line_length(across.len())..][..taps.height as usize];
    Matrices::new(across, down, launch.divisor)
}

/// Divided sums of in' of every sample, row by row, for a channel whose zero level is `zero`.
pub fn filter(
    launch: &ConvolveLaunch,
    picture: &Picture,
    zero: f32,
    width: usize,
    height: usize,
) -> Vec<f32> {
    let matrices = matrices(launch);
    let (across, down) = (matrices.across(), matrices.down());
    let (left, above) = (-(across.len() as isize / 2), -(down.len() as isize / 2));
    let sum = |weights: &[f16]| -> f64 { weights.iter().map(|weight| weight.to_f64()).sum() };
    let all = sum(across) * BYTE * sum(down);
    let rows = (above..).take(height + down.len() - 1).map(|y| {
        let mut sums = vec![0.0f64; width];
        for (x, weight) in (left..).zip(across) {
            for (sum, value) in sums.iter_mut().zip(picture.row(y, x, width)) {
                let code = f64::from(value + zero);
                *sum += weight.to_f64() * BYTE * code;
            }
        }
        sums.into_iter().map(f16::from_f64).collect::<Vec<_>>()
    });
    let passed: Vec<Vec<f16>> = rows.collect();
    let of_row = |y: usize| {
        let passed = &passed[y..];
        (0..width).map(move |x| {
            let terms = passed.iter().zip(down);
            let sum: f64 = terms
                .map(|(row, weight)| row[x].to_f64() * weight.to_f64())
                .sum();
            (sum - all * f64::from(zero)) as f32
        })
    };
    (0..height).flat_map(of_row).collect()
}
