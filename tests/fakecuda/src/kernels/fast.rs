//! The bilateral by weighted levels: the whole window, with the weight of two samples that the levels
//! make.

use half::f16;

use super::image::Picture;
use crate::abi::{FastLaunch, MAX_RADIUS};
use crate::violation;

/// Levels beyond which none is ever asked for.
const MOST_LEVELS: u32 = 65;

/// The value of a weight, a float16 in the lower half.
fn value_of(word: u32) -> f32 {
    f16::from_bits(word as u16).to_f32()
}

pub fn margin(launch: &FastLaunch) -> (usize, usize) {
    (launch.radius_x as usize, launch.radius_y as usize)
}

/// Ends the process when the launch contradicts itself.
pub fn check(launch: &FastLaunch) {
    let (rx, ry) = margin(launch);
    if rx.max(ry) > MAX_RADIUS {
        violation!("radii {rx} and {ry}");
    }
    let positive = [launch.spacing, launch.reach, launch.scale];
    if !(1..=MOST_LEVELS).contains(&launch.count)
        || !launch.first.is_finite()
        || !positive.iter().all(|x| x.is_finite() && *x > 0.0)
    {
        violation!(
            "{} levels from {} by {}, reach {}, scale {}",
            launch.count,
            launch.first,
            launch.spacing,
            launch.reach,
            launch.scale
        );
    }
    for (weights, radius) in launch.weights.iter().zip([rx, ry]) {
        let taps = 2 * radius + 1;
        if weights.iter().any(|word| word >> 15 != 0) {
            violation!("weights that are no float16, or negative");
        }
        let sum: f32 = weights[..taps].iter().map(|word| value_of(*word)).sum();
        if (sum - 1.0).abs() > 0.01 || weights[taps..].iter().any(|&word| word != 0) {
            violation!("weights of sum {sum}, or some beyond");
        }
    }
}

/// The result of every sample before its offset, row by row; `zero` is what was subtracted from code
/// values.
pub fn filter(
    launch: &FastLaunch,
    own: &Picture,
    zero: f32,
    width: usize,
    height: usize,
) -> Vec<f32> {
    let levels: Vec<f32> = (0..launch.count)
        .map(|k| launch.first + k as f32 * launch.spacing - zero)
        .collect();
    let distance = |value: f32, level: f32| (value - level) * launch.scale;
    let (rx, ry) = (launch.radius_x as isize, launch.radius_y as isize);
    // Of the picture with its margin, the weight at each level.
    let columns = width + 2 * rx as usize;
    let mut at_levels = Vec::with_capacity(levels.len() * columns * (height + 2 * ry as usize));
    for y in -ry..height as isize + ry {
        for value in own.row(y, -rx, columns) {
            at_levels.extend(
                levels
                    .iter()
                    .map(|&level| (-distance(*value, level).powi(2)).exp2()),
            );
        }
    }
    let mut results = Vec::with_capacity(width * height);
    for y in 0..height as isize {
        for x in 0..width as isize {
            let value = own.at(x, y);
            let near: Vec<(usize, f32)> = (levels.iter().enumerate())
                .map(|(k, &level)| (k, distance(value, level)))
                .filter(|(_, t)| t.abs() <= launch.reach)
                .map(|(k, t)| (k, (-t * t).exp2()))
                .collect();
            let (mut sum, mut total) = (0.0f32, 0.0f32);
            for dy in -ry..=ry {
                let row = ((y + dy + ry) as usize * columns + x as usize) * levels.len();
                let down = value_of(launch.weights[1][(dy + ry) as usize]);
                for dx in -rx..=rx {
                    let place = row + (dx + rx) as usize * levels.len();
                    let colour: f32 = near
                        .iter()
                        .map(|&(k, share)| share * at_levels[place + k])
                        .sum();
                    let across = value_of(launch.weights[0][(dx + rx) as usize]);
                    let weight = down * across * colour;
                    sum = weight.mul_add(own.at(x + dx, y + dy) - value, sum);
                    total += weight;
                }
            }
            results.push(value + sum / total);
        }
    }
    results
}
