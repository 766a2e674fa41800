//! The weights of a kernel as the band matrices that `kernels/convolve_matrix.cu` multiplies by, in
//! the order in which its threads hold them.
//!
//! Matrix products are those of PTX's `mma.m16n8k32` of bytes; where a thread's words lie in the first
//! operand says [`super::matrix`]. Row by row of the kernel, one such operand makes 16 neighbouring
//! outputs of 32 neighbouring samples: its diagonals are digits of the weights. Wide kernels take several, each
//! of the next 32 samples.

use super::matrix::{LANES, place};

/// Outputs of a product.
const OUTPUTS: usize = 16;
/// Samples of a product.
const SAMPLES: usize = 32;
/// The samples before the outputs are whole units of so many.
const UNIT: usize = 8;
/// Rows of the kernel that are multiplied together, eight apart.
const APART: usize = 2;
const GROUP: usize = 8;

/// Digits of a weight at most.
pub const MOST_DIGITS: usize = 3;
/// Largest code value.
const LARGEST_CODE: f64 = 255.0;
/// Largest relative error of one rounding of float32.
const ROUNDING: f64 = 1.0 / (1 << 24) as f64;
/// Tolerances for which another digit is not worth its products, and the largest: twice as many of the results
/// that are not clamped are computed once more.
const SMALL_TOLERANCE: f32 = 0.005;
const LARGEST_TOLERANCE: f32 = 0.04;

/// Weights as whole numbers of digits from -128 to 127 to the base 256, times a factor.
#[derive(Debug, Clone, PartialEq)]
pub struct Bands {
    values: Vec<i32>,
    pub digits: usize,
    /// Times which the values are nearly the weights by their divisor; 0 where they are the weights themselves.
    pub factor: f32,
    /// By how much results before rounding may differ from the canonical ones, in code values; 0 where
    /// both are of whole numbers.
    pub tolerance: f32,
}

impl Bands {
    /// Numbers in the order of the weights.
    pub fn values(&self) -> &[i32] {
        &self.values
    }

    /// Those of `weights` that are whole numbers, if no sum of their products with code values reaches 2^24.
    pub fn whole(weights: &[f32]) -> Option<Bands> {
        let small = magnitudes(weights).sum::<f64>() * LARGEST_CODE < f64::from(1 << 24);
        if !small || weights.iter().any(|weight| weight.fract() != 0.0) {
            return None;
        }
        let values: Vec<i32> = weights.iter().map(|&weight| weight as i32).collect();
        let holds = |digits| values.iter().all(|value| value.abs() <= largest(digits));
        // The least of one digit is one less.
        let one = values.iter().all(|value| (-128..=127).contains(value));
        let digits = (2..=MOST_DIGITS).find(|&digits| holds(digits))?;
        Some(Bands {
            values,
            digits: if one { 1 } else { digits },
            factor: 0.0,
            tolerance: 0.0,
        })
    }

    /// Those nearest to `weights`, of as few digits as serve to find the canonical results of sums that are divided
    /// by `divisor` and to which up to `offset` is added; `None` where too many would be computed once more.
    pub fn near(weights: &[f32], divisor: f32, offset: f32) -> Option<Bands> {
        let two = Bands::of_digits(2, weights, divisor, offset)?;
        let three = Bands::of_digits(3, weights, divisor, offset)?;
        let bands = match two.tolerance <= SMALL_TOLERANCE.max(2.0 * three.tolerance) {
            true => two,
            false => three,
        };
        (bands.tolerance <= LARGEST_TOLERANCE).then_some(bands)
    }

    /// Those nearest to `weights` of two digits, for sums that are divided by `divisor`: errors of 16 bits of the largest
    /// weight, which float16 would be of the 11 of each. `None` where results could be more than a code off.
    pub fn rough(weights: &[f32], divisor: f32) -> Option<Bands> {
        let bands = Bands::of_digits(2, weights, divisor, 0.0)?;
        let at_most_one_off = bands.tolerance <= 0.5;
        at_most_one_off.then_some(Bands {
            tolerance: 0.0,
            ..bands
        })
    }

    fn of_digits(digits: usize, weights: &[f32], divisor: f32, offset: f32) -> Option<Bands> {
        let most = magnitudes(weights).fold(0.0, f64::max);
        let (positive, negative) = sums_by_sign(weights).last()?;
        // Sums of products are 32 bits wide, with some room for the rounding of each.
        let room = f64::from(1u32 << 31) / LARGEST_CODE - weights.len() as f64;
        let scale = (f64::from(largest(digits)) / most).min(room / positive.max(negative));
        let factor = (1.0 / (scale * f64::from(divisor))) as f32;
        if !factor.is_normal() {
            return None;
        }
        // What the factor, a float32, makes of them, not what it should.
        let scale = 1.0 / (f64::from(factor) * f64::from(divisor));
        let value = |&weight: &f32| (f64::from(weight) * scale).round() as i32;
        let mut bands = Bands {
            values: weights.iter().map(value).collect(),
            digits,
            factor,
            tolerance: 0.0,
        };
        let error = bands.error(weights, f64::from(divisor), f64::from(offset));
        bands.tolerance = (error as f32).next_up();
        Some(bands)
    }

    /// Largest difference of results before rounding, of these and of float32 in the canonical order.
    fn error(&self, weights: &[f32], divisor: f64, offset: f64) -> f64 {
        // Samples less a zero level that is a code value lie within 255 codes on both sides of it, so
        // the differences of one sign, or those of the other, times 255 are the most.
        let (mut above, mut below) = (0.0, 0.0);
        for (&value, &weight) in self.values.iter().zip(weights) {
            let difference =
                f64::from(value) * f64::from(self.factor) - f64::from(weight) / divisor;
            above += difference.max(0.0);
            below += (-difference).max(0.0);
        }
        // So are the sums that the fused multiply-adds round.
        let (mut largest, mut sums) = (0.0, 0.0);
        for (positive, negative) in sums_by_sign(weights) {
            largest = positive.max(negative);
            sums += largest;
        }
        let of_sums = LARGEST_CODE * (above.max(below) + ROUNDING * sums / divisor.abs());
        // The sum as float32, the quotient, what is added to it and what becomes of that are rounded.
        let largest = LARGEST_CODE * largest / divisor.abs() + offset.abs();
        // Errors of sums that have errors are of the second order.
        1.001 * (of_sums + 8.0 * ROUNDING * largest) + ROUNDING
    }

    /// Of all values.
    pub fn sum(&self) -> i32 {
        self.values.iter().sum()
    }

    /// The matrices of a kernel of `width` weights a row: for each digit, the most significant first, for every
    /// 16 rows of it, for every product of a row, for every eighth row from the first, the second, … on those of
    /// both, as four words of each thread.
    pub fn table(&self, width: usize) -> Vec<u32> {
        let height = self.values.len() / width;
        let mut words = Vec::new();
        for digit in (0..self.digits).rev() {
            let digits: Vec<i8> = (self.values.iter())
                .map(|&value| digit_of(value, digit))
                .collect();
            for first in (0..height).step_by(APART * GROUP) {
                for slice in 0..slices(width) {
                    for row in (0..GROUP).flat_map(|phase| [first + phase, first + phase + GROUP]) {
                        let row = digits.get(row * width..(row + 1) * width);
                        for lane in 0..LANES {
                            let word = |register| word(row, width, slice, lane, register);
                            words.extend((0..4).map(word));
                        }
                    }
                }
            }
        }
        words
    }
}

/// The sums of the positive and of the negative of the first weights, of the first two, …
fn sums_by_sign(weights: &[f32]) -> impl Iterator<Item = (f64, f64)> + '_ {
    weights
        .iter()
        .scan((0.0, 0.0), |(positive, negative), &weight| {
            *positive += f64::from(weight.max(0.0));
            *negative += f64::from((-weight).max(0.0));
            Some((*positive, *negative))
        })
}

fn magnitudes(weights: &[f32]) -> impl Iterator<Item = f64> + '_ {
    weights.iter().map(|&weight| f64::from(weight.abs()))
}

/// The largest number of so many digits, each up to 127.
fn largest(digits: usize) -> i32 {
    (0..digits).fold(0, |number, _| number * 256 + 127)
}

/// The digit of `value` that is worth 256 to the power of `place`.
fn digit_of(value: i32, place: usize) -> i8 {
    let mut rest = value;
    for _ in 0..place {
        rest = (rest - i32::from(rest as i8)) / 256;
    }
    rest as i8
}

/// Products that a row of a kernel of `width` weights takes.
pub fn slices(width: usize) -> usize {
    (left(width) + width / 2 + OUTPUTS).div_ceil(SAMPLES)
}

/// Samples of a tile before its first output.
pub fn left(width: usize) -> usize {
    (width / 2).next_multiple_of(UNIT)
}

/// The output that row `row` of a first operand makes: a thread has two neighbours.
fn output(row: usize) -> usize {
    row % 8 * 2 + row / 8
}

fn word(digits: Option<&[i8]>, width: usize, slice: usize, lane: usize, register: usize) -> u32 {
    let (row, first) = place(lane, register);
    u32::from_le_bytes(std::array::from_fn(|byte| {
        let sample = slice * SAMPLES + first + byte;
        // The tile begins `left` samples before the first output, its first tap half the width before.
        let tap = (sample + width / 2).checked_sub(left(width) + output(row));
        let digit = digits.zip(tap).and_then(|(row, tap)| row.get(tap));
        digit.map_or(0, |&digit| digit as u8)
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The sums of a kernel over `samples`, rows of `pitch`, for 16 outputs of its middle row, by the
    /// products of all its matrices.
    fn products(
        bands: &Bands,
        width: usize,
        height: usize,
        samples: &[u8],
        pitch: usize,
    ) -> [i32; 16] {
        let words = bands.table(width);
        let of_digit = height.div_ceil(16) * slices(width) * 16 * LANES * 4;
        assert_eq!(words.len(), bands.digits * of_digit);
        let mut sums = [0i32; 16];
        for words in words.chunks(of_digit) {
            sums = sums.map(|sum| sum.wrapping_mul(256));
            for row in 0..height {
                for slice in 0..slices(width) {
                    let (block, phase, second) = (row / 16, row % GROUP, row / GROUP % 2);
                    let matrix = ((block * slices(width) + slice) * GROUP + phase) * APART + second;
                    for lane in 0..LANES {
                        for register in 0..4 {
                            let word = words[(matrix * LANES + lane) * 4 + register];
                            let (of, first) = place(lane, register);
                            for (byte, digit) in word.to_le_bytes().into_iter().enumerate() {
                                let at = slice * SAMPLES + first + byte;
                                let sample = samples.get(row * pitch + at).filter(|_| at < pitch);
                                // Beyond the tile anything may be read.
                                let sample = i32::from(sample.copied().unwrap_or(0xa5));
                                let sum = &mut sums[output(of)];
                                *sum = sum.wrapping_add(i32::from(digit as i8) * sample);
                            }
                        }
                    }
                }
            }
        }
        sums
    }

    fn bytes(count: usize) -> Vec<u8> {
        (0..count).map(|at| (at * 37 % 251) as u8).collect()
    }

    #[test]
    fn products_with_the_matrices_are_the_sums() {
        for (width, height) in [
            (1, 1),
            (3, 5),
            (15, 15),
            (17, 33),
            (19, 3),
            (49, 7),
            (51, 9),
            (65, 65),
        ] {
            let pitch = left(width) * 2 + OUTPUTS;
            let samples = bytes(pitch * height);
            for (digits, modulus) in [(1, 256), (2, 65_279), (3, 16_711_423)] {
                let half = modulus as i32 / 2;
                let number = |at| (at * 2_654_435_761_usize % modulus) as i32 - half;
                let bands = Bands {
                    values: (0..width * height).map(number).collect(),
                    digits,
                    factor: 0.0,
                    tolerance: 0.0,
                };
                let sums = products(&bands, width, height, &samples, pitch);
                for (output, sum) in sums.into_iter().enumerate() {
                    let first = left(width) - width / 2 + output;
                    let rows = bands.values.chunks(width).zip(samples.chunks(pitch));
                    let expected = rows
                        .flat_map(|(values, row)| values.iter().zip(&row[first..]))
                        .map(|(value, &sample)| value.wrapping_mul(i32::from(sample)))
                        .fold(0, i32::wrapping_add);
                    assert_eq!(sum, expected, "{width}x{height}, output {output}");
                }
            }
        }
    }

    #[test]
    fn whole_numbers_take_as_few_digits_as_hold_them() {
        let digits = |weights: &[f32]| Bands::whole(weights).map(|bands| bands.digits);
        assert_eq!(digits(&[-128.0, 127.0, 0.0]), Some(1));
        assert_eq!(digits(&[128.0, 0.0, 0.0]), Some(2));
        assert_eq!(digits(&[-32639.0, 32639.0, 0.0]), Some(2));
        assert_eq!(digits(&[-32640.0, 0.0, 0.0]), Some(3));
        // 255 times as much is 2^24 or more.
        assert_eq!(digits(&[65793.0, 0.0, 0.0]), Some(3));
        assert_eq!(digits(&[65794.0, 0.0, 0.0]), None);
        assert_eq!(digits(&[0.5, 1.0, 1.0]), None);
    }

    /// What the kernel computes before it rounds, for an offset of 0.
    fn value(bands: &Bands, samples: &[f32]) -> f32 {
        let products = bands.values.iter().zip(samples);
        let sum = products.fold(0, |sum: i32, (value, &sample)| sum + value * sample as i32);
        sum as f32 * bands.factor
    }

    #[test]
    fn results_are_within_the_tolerance() {
        let fractions = |count: usize, gain: f32| -> Vec<f32> {
            let number = |at: usize| (at * 2_654_435_761 % 1009) as f32 / 1009.0 - 0.3;
            (0..count).map(|at| gain * number(at)).collect()
        };
        let mut peak = fractions(225, 0.001);
        peak[112] = 1.7;
        for (weights, digits) in [
            (fractions(9, 0.1), 2),
            (fractions(225, 0.01), 2),
            (fractions(961, 0.003), 2),
            (peak, 3),
        ] {
            let divisor: f32 = 0.9;
            let bands = Bands::near(&weights, divisor, 0.0).expect("it is possible");
            assert_eq!(bands.digits, digits);
            assert!(bands.tolerance > 1e-5 && bands.tolerance < 0.04);
            let mut largest = 0.0f32;
            for seed in 0..400 {
                // Noise, all black and white where it adds most to the error, and flat.
                let sample = |at: usize| match seed % 3 {
                    0 => ((at + 1) * (seed + 7) * 2_654_435_761 % 256) as f32 - 16.0,
                    1 => {
                        let exact = weights[at] / divisor / bands.factor;
                        let is_above = bands.values[at] as f32 > exact;
                        if is_above == (seed % 2 == 0) {
                            255.0
                        } else {
                            0.0
                        }
                    }
                    _ => (seed % 256) as f32 - 16.0,
                };
                let samples: Vec<f32> = (0..weights.len()).map(sample).collect();
                let canonical = (weights.iter().zip(&samples))
                    .fold(0.0, |sum, (weight, &sample)| weight.mul_add(sample, sum));
                let difference = value(&bands, &samples) - canonical / divisor;
                largest = largest.max(difference.abs());
            }
            assert!(largest <= bands.tolerance, "{largest} {}", bands.tolerance);
            // It is no more than the worst, which is what black and white come near to.
            assert!(
                largest >= bands.tolerance / 20.0,
                "{largest} {}",
                bands.tolerance
            );
        }
    }

    #[test]
    fn rough_weights_are_as_near_as_sixteen_bits_of_the_largest() {
        let weights: Vec<f32> = (0..225)
            .map(|at| (at * 29 % 17) as f32 / 3.0 - 2.0)
            .collect();
        let bands = Bands::rough(&weights, 75.0).expect("it is possible");
        assert_eq!((bands.digits, bands.tolerance), (2, 0.0));
        let largest = weights
            .iter()
            .fold(0.0, |largest: f32, weight| largest.max(weight.abs()));
        for (&value, weight) in bands.values().iter().zip(&weights) {
            let difference = value as f32 * bands.factor * 75.0 - weight;
            assert!(difference.abs() <= largest / 65_000.0, "{weight}");
        }
        // A picture of one level stays within a hundredth of a code of what it should be.
        let sum: f32 = weights.iter().sum();
        assert!((bands.sum() as f32 * bands.factor - sum / 75.0).abs() * 255.0 < 0.01);
    }

    #[test]
    fn weights_of_which_too_much_is_doubtful_are_refused() {
        assert_eq!(Bands::near(&[0.0; 9], 1.0, 0.0), None);
        assert_eq!(Bands::near(&[f32::MAX; 9], 1.0, 0.0), None);
        // Results of a thousand times as much contrast.
        let weights: Vec<f32> = (0..225).map(|at| (at % 7) as f32 / 9.0).collect();
        assert!(Bands::near(&weights, 75.0, 0.0).is_some());
        assert_eq!(Bands::near(&weights, 0.05, 0.0), None);
    }

    #[test]
    fn tiles_hold_what_their_products_read() {
        for width in (1..=65).step_by(2) {
            // Of an output, its own samples and those of the row that the last product begins.
            assert!(
                2 * left(width) <= SAMPLES * slices(width) - OUTPUTS,
                "{width}"
            );
        }
    }
}
