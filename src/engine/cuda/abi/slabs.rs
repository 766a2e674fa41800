//! The weights of the kernels of `kernels/separable_slabs.cu`, and the height of their tiles.
//!
//! # Scale
//! Code values are taken as floats without a conversion: the bits of a float that is [`UNIT`] for 1. Weights across
//! are [`ACROSS`] times, those down [`DOWN`] times as large as they are, which makes up for it. All are powers of
//! two, so each product and each sum is what it is without them, in other units, and is rounded alike as long
//! as nothing over- or underflows; [`takes`] says where that is. A divisor that is a power of two is in the
//! weights down.

use super::geometry::MULTIPROCESSORS;
use super::halves::best_height_of;

/// Rows of a slab.
pub const ROWS: usize = 16;
/// What stands for a code value of 1.
const UNIT: i32 = -141;
/// Weights across are times, as a power of two.
const ACROSS: i32 = 117;
/// Weights down are times, as a power of two.
const DOWN: i32 = -(UNIT + ACROSS);
/// Exponents of the least normal number, and beyond the largest.
const LEAST: i32 = -126;
const BEYOND: i32 = 128;
/// Bits behind the first of a number.
const FRACTION: i32 = 23;
/// Bits of a difference of two code values, and of the number of products of a sum.
const DIFFERENCE: i32 = 17;
const PRODUCTS: i32 = 6;

fn power_of_two(exponent: i32) -> f32 {
    f32::from_bits(((exponent + 127) as u32) << FRACTION)
}

/// The exponents of the least and of the largest of `weights` but for 0; `None` if one of them is not normal.
fn exponents(weights: &[f32]) -> Option<(i32, i32)> {
    let mut range = (0, 0);
    for (index, weight) in (weights.iter().filter(|weight| **weight != 0.0)).enumerate() {
        if !weight.is_normal() {
            return None;
        }
        let exponent = (weight.to_bits() >> FRACTION & 0xff) as i32 - 127;
        range = match index {
            0 => (exponent, exponent),
            _ => (range.0.min(exponent), range.1.max(exponent)),
        };
    }
    Some(range)
}

/// The divisor where it is in the weights down of one kernel, else 1.
pub fn folded(divisor: f32) -> f32 {
    match divisor.to_bits() & 0x7f_ffff {
        0 => divisor,
        _ => 1.0,
    }
}

/// Whether sums of whole numbers of 17 bits with these weights, divided by `divisor`, are the canonical ones in these
/// units: all that such sums can be is a multiple of a product of the last bits of the weights.
pub fn takes(across: &[f32], down: &[f32], divisor: f32) -> bool {
    let divided = folded(divisor);
    let (Some(across), Some(down), Some((divided, _))) =
        (exponents(across), exponents(down), exponents(&[divided]))
    else {
        return false;
    };
    // Sums across, of which the least are the last bits of the least weight.
    let sums = (
        across.0 - FRACTION - DOWN,
        across.1 + 1 + DIFFERENCE + PRODUCTS - DOWN,
    );
    // Sums down are in the units of the canonical ones, if nothing is divided.
    let least = match divided {
        0 => LEAST,
        _ => across.0 + down.0 - 2 * FRACTION - divided.max(0),
    };
    let most = across.1 + down.1 + 2 + DIFFERENCE + 2 * PRODUCTS - divided.min(0);
    across.1 + ACROSS < BEYOND - 1
        && sums.0 >= LEAST
        && sums.1 < BEYOND
        && (LEAST..BEYOND - 1).contains(&(down.0 + DOWN - divided))
        && down.1 + DOWN - divided < BEYOND - 1
        && DOWN - divided < BEYOND - 1
        && least >= LEAST
        && most < BEYOND
}

/// The weights of one kernel as the GPU takes them, across and down. `divisor` is what the weights down are divided by.
pub fn scaled(across: &[f32], down: &[f32], divisor: f32) -> (Vec<f32>, Vec<f32>) {
    let times = |weights: &[f32], factor: f32| weights.iter().map(|w| w * factor).collect();
    let (by, down_by) = (power_of_two(ACROSS), power_of_two(DOWN) / divisor);
    (times(across, by), times(down, down_by))
}

/// The weights that [`scaled`] was given.
pub fn unscaled(across: &[f32], down: &[f32], divisor: f32) -> (Vec<f32>, Vec<f32>) {
    let times = |weights: &[f32], factor: f32| weights.iter().map(|w| w * factor).collect();
    let (by, down_by) = (power_of_two(-ACROSS), power_of_two(-DOWN) * divisor);
    (times(across, by), times(down, down_by))
}

/// Where in a launch the weights of chroma stand that are not those of luma, of packed 4:2:2.
pub const CHROMA_WEIGHTS: usize = 80;

/// Of a kernel that takes `taps` of luma of packed 4:2:2, how many of chroma across, where these have weights of
/// their own: as far in the picture.
pub fn chroma_taps(taps: usize) -> usize {
    (taps / 2).div_ceil(2) * 2 + 1
}

/// Rows of a tile: with `columns` tiles across planes of such `heights`, where a multiprocessor has room for so many
/// `blocks` at once. The time is that of the multiprocessor that has most of them: the rows around a tile, and a block's
/// beginning, take about as long as 28 of its own; with fewer blocks than there is room for it is faster, down to 30 % of
/// the time. On an H200 the heights that this gives are at most 4 % slower than the best of eight from 16 to 144 rows,
/// and 0.5 % on average: of 58 kernels and pictures, up to 9 + 9, 15 + 15, 17 + 17 and 33 + 33 taps of 8 and 16 bits, from
/// 640 x 480 to 3840 x 2160.
pub fn tile_height(columns: &[u32], heights: &[u32], blocks: u32) -> u32 {
    const HEIGHTS: [u32; 6] = [16, 32, 48, 64, 96, 128];
    const AROUND: u32 = 28;
    const LEAST: f64 = 0.3;
    best_height_of(
        &HEIGHTS,
        columns,
        heights,
        MULTIPROCESSORS,
        |height, of_each| {
            let most = of_each.ceil() as u32;
            let left = match most % blocks {
                0 => 0.0,
                left => LEAST + (1.0 - LEAST) * f64::from(left) / f64::from(blocks),
            };
            (f64::from(most / blocks) + left) * f64::from(height + AROUND)
        },
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    const GAUSS: [f32; 5] = [0.1, 0.2, 0.4, 0.2, 0.1];

    #[test]
    fn weights_come_back_as_they_were() {
        for divisor in [1.0, 0.25, -1024.0, 3.0] {
            let by = folded(divisor);
            let (across, down) = scaled(&GAUSS, &[1e-9, -7.0, 0.0], by);
            assert!(across.iter().chain(&down).all(|w| w.is_finite()));
            let back = unscaled(&across, &down, by);
            assert_eq!(back, (GAUSS.to_vec(), vec![1e-9, -7.0, 0.0]));
        }
    }

    #[test]
    fn sums_are_the_canonical_ones_wherever_weights_are_taken() {
        let weights = |seed: u32, range: i32| -> Vec<f32> {
            let numbers = (0..33u32).map(|i| (i * 7919 + seed).wrapping_mul(2_654_435_761));
            let number = |bits: u32| {
                let exponent = bits as i32 % (range + 1);
                f32::from_bits(0x3f80_0000 | bits >> 9 | bits & 0x8000_0000)
                    * 2f32.powi(exponent - range)
            };
            numbers.map(number).collect()
        };
        let sum = |weights: &[f32], values: &[f32]| {
            let products = weights.iter().zip(values);
            products.fold(0.0f32, |sum, (weight, value)| weight.mul_add(*value, sum))
        };
        let mut taken = 0;
        for (seed, range) in (0..400).map(|n| (n * 31, n as i32 / 4)) {
            let (across, down) = (weights(seed, range), weights(seed + 7, range));
            for divisor in [1.0, 64.0, 1.0 / 64.0, 0.7] {
                if !takes(&across, &down, divisor) {
                    continue;
                }
                taken += 1;
                let by = folded(divisor);
                let (scaled_across, scaled_down) = scaled(&across, &down, by);
                let unit = 2f32.powi(-120) * 2f32.powi(-21);
                let rows = (0..33u32).map(|row| -> Vec<f32> {
                    let code = |i: u32| (seed + row * 977 + i * 131) % 0x1ffff;
                    (0..33).map(|i| code(i) as f32 - 65535.0).collect()
                });
                let (plain, scaled): (Vec<f32>, Vec<f32>) = rows
                    .map(|row| {
                        let in_units: Vec<f32> = row.iter().map(|code| code * unit).collect();
                        (sum(&across, &row), sum(&scaled_across, &in_units))
                    })
                    .unzip();
                let canonical = sum(&down, &plain) / divisor;
                let found = sum(&scaled_down, &scaled);
                let found = if by == divisor {
                    found
                } else {
                    found / divisor
                };
                assert_eq!(found.to_bits(), canonical.to_bits(), "{seed} by {divisor}");
            }
        }
        assert!(taken > 300, "{taken}");
    }

    #[test]
    fn weights_too_far_apart_are_not_taken() {
        assert!(takes(&GAUSS, &GAUSS, 1.0));
        assert!(takes(&[0.0], &[0.0], 16.0));
        assert!(takes(&[1e-20, 1.0, 1e-20], &GAUSS, 1.0));
        for far in [[1e-30, 1.0, 1e-30], [1.0, 1e4, 1.0], [1e-40, 1.0, 1.0]] {
            assert!(!takes(&far, &GAUSS, 1.0), "{far:?}");
        }
        assert!(!takes(&GAUSS, &[1e31, 1.0, 1.0], 1.0));
        // The units of those down over the divisor are no number.
        let small = 2f32.powi(-30);
        assert!(!takes(&[1.5], &[1.5 * small], 2f32.powi(-125)));
        // What is divided would lose its last bits.
        let near = [1e-20, 1.0, 1e-20];
        assert!(takes(&near, &near, 1.0) && takes(&near, &near, 3.0));
        assert!(!takes(&near, &near, 2.0));
    }

    /// What weights of one sign sum up of the largest differences, in canonical units and scaled, divided by `divisor`.
    fn largest_sums(across: &[f32], down: &[f32], divisor: f32) -> [f32; 2] {
        let by = folded(divisor);
        let (scaled_across, scaled_down) = scaled(across, down, by);
        let sum = |weights: &[f32], value: f32| {
            let add = |sum, weight: &f32| weight.mul_add(value, sum);
            weights.iter().fold(0.0f32, add)
        };
        let unit = 2f32.powi(-120) * 2f32.powi(UNIT + 120);
        let canonical = sum(down, sum(across, 65535.0)) / divisor;
        let found = sum(&scaled_down, sum(&scaled_across, 65535.0 * unit));
        [
            canonical,
            if by == divisor {
                found
            } else {
                found / divisor
            },
        ]
    }

    #[test]
    fn the_largest_weights_that_are_taken_overflow_nowhere() {
        let times = |factor: i32| GAUSS.map(|weight| weight * 7.9 * 2f32.powi(factor));
        let all = |factor: i32| times(factor).repeat(6);
        for divisor in [1.0, 3.0, 0.125, 1024.0] {
            for across in (-60..=9).step_by(3) {
                let takes = |down: &i32| takes(&all(across), &all(*down), divisor);
                let most = (-60..=125).rfind(takes);
                let Some(down) = most else { continue };
                let [canonical, found] = largest_sums(&all(across), &all(down), divisor);
                assert!(found.is_finite(), "{across} {down} {divisor}");
                assert_eq!(found.to_bits(), canonical.to_bits(), "{across} {down}");
            }
        }
    }

    #[test]
    fn weights_that_are_too_large_are_not_taken() {
        let power = |exponent: i32| 2f64.powi(exponent) as f32;
        // Scaled, those across would be beyond the largest number.
        assert!(takes(&[power(9)], &[1.0], 1.0) && !takes(&[power(10)], &[1.0], 1.0));
        // Those down would.
        assert!(takes(&[power(-20)], &[power(102)], 1.0));
        assert!(!takes(&[power(-20)], &[power(103)], 1.0));
        assert!(takes(&[power(-20)], &[power(98)], power(-4)));
        assert!(!takes(&[power(-20)], &[power(99)], power(-4)));
        // The canonical sums would, or what becomes of them by a divisor.
        assert!(takes(&[1.0], &[power(96)], 1.0) && !takes(&[1.0], &[power(97)], 1.0));
        assert!(takes(&[1.0], &[power(92)], power(-4)));
        assert!(!takes(&[1.0], &[power(93)], power(-4)));
        // The factor that brings weights down to their units would.
        assert!(takes(&[1.0], &[power(-30)], power(-102)));
        assert!(!takes(&[1.0], &[power(-30)], power(-103)));
    }

    /// Those that were fastest on an H200, or within 3 % of it.
    #[test]
    fn tiles_are_as_high_as_was_fastest() {
        let of = |blocks: u32, planes: &[(u32, u32)]| {
            let columns: Vec<u32> = planes.iter().map(|plane| plane.0.div_ceil(128)).collect();
            let heights: Vec<u32> = planes.iter().map(|plane| plane.1).collect();
            tile_height(&columns, &heights, blocks)
        };
        let (grey, small, chroma) = ((1920, 1080), (640, 480), (1920, 540));
        // Of bytes 33 + 33 taps, 17 + 17 and 15 + 15; of 16 bits 17 + 17.
        for (blocks, expected) in [
            (5, [16, 32, 32, 48, 128, 128, 128]),
            (7, [16, 32, 32, 48, 96, 128, 96]),
            (8, [16, 32, 32, 48, 64, 64, 128]),
            (6, [16, 32, 32, 48, 96, 128, 128]),
        ] {
            let found = [
                of(blocks, &[small]),
                of(blocks, &[grey]),
                of(blocks, &[chroma]),
                of(blocks, &[grey, chroma]),
                of(blocks, &[(4 * 1920, 1080)]),
                of(blocks, &[(3840, 2160)]),
                of(blocks, &[(4 * 3840, 2160)]),
            ];
            assert_eq!(found, expected, "{blocks}");
        }
        assert_eq!(of(5, &[(1, 1)]), 16);
    }
}
