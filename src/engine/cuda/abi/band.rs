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
/// Of weights whose sums with samples of 16 bits are rounded.
const ROUNDED_DIGITS: usize = 3;
/// Largest relative error of one rounding of float32.
const ROUNDING: f64 = 1.0 / (1 << 24) as f64;
/// Tolerances for which another digit is not worth its products, and the largest: twice as many of the results
/// that are not clamped are computed once more.
const SMALL_TOLERANCE: f32 = 0.005;
const LARGEST_TOLERANCE: f32 = 0.04;
/// Scales that are tried, and numbers that are rounded for that.
const MOST_SCALES: usize = 1024;
const MOST_ROUNDINGS: usize = 1 << 18;
/// What errors of errors may come to, to the first.
const SECOND_ORDER: f64 = 1.001;

/// What is summed up.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Samples {
    /// The largest code value.
    pub max_code: u32,
    /// Of how many bytes they are.
    pub bytes: usize,
    /// Whether all are measured from the middle of the code range; else each from any code value.
    pub centred: bool,
}

impl Samples {
    pub const BYTES: Samples = Samples {
        max_code: 255,
        bytes: 1,
        centred: false,
    };

    /// Whether what holds for sums of these holds for sums of `others`, too.
    pub fn include(&self, others: Samples) -> bool {
        let alike = (self.max_code, self.bytes) == (others.max_code, others.bytes);
        alike && (others.centred || !self.centred)
    }

    /// Bits by which codes are raised to the upper end of a sample.
    fn spare_bits(&self) -> i32 {
        8 * self.bytes as i32 - self.max_code.count_ones() as i32
    }

    /// What a sum of products with numbers of `digits` digits counts: that of bytes the products, the rounded one of samples of 16
    /// bits so many of them, with codes that are raised.
    fn unit(&self, digits: usize) -> f64 {
        match self.bytes {
            1 => 1.0,
            _ => 2.0f64.powi(8 * digits as i32 - self.spare_bits()),
        }
    }

    /// Largest magnitude that may be added to results, in code values.
    pub fn most_offset(&self) -> f32 {
        2.0 * (self.max_code as f32 + 1.0)
    }

    /// The largest magnitude of sums with weights that sum to `positive` and, those below zero, to `-negative`.
    fn largest_sum(&self, positive: f64, negative: f64) -> f64 {
        let middle = self.max_code.div_ceil(2);
        let (above, below) = match self.centred {
            true => (f64::from(self.max_code - middle), f64::from(middle)),
            // The differences of one sign, or those of the other, times the whole range are the most.
            false => return positive.max(negative) * f64::from(self.max_code),
        };
        (positive * above + negative * below).max(positive * below + negative * above)
    }
}

/// Whether a product with the reciprocal of `divisor`, nearly twice as exact as float32, decides the code of each whole sum
/// of `samples` when `offset` is added: results lie in the middle between two codes, and are then exact, or farther
/// from it than any rounding, here as in the canonical evaluation.
pub fn quotients_decide(divisor: f32, offset: f32, samples: Samples) -> bool {
    let whole = divisor.fract() == 0.0 && (2.0 * offset).fract() == 0.0;
    // Farther by half of one by the divisor. Quotients that become codes are not larger than the codes and the offset; both
    // they and the codes are rounded by no more than one bit of 2^24.
    let codes = f64::from(samples.max_code) + 1.0;
    let rounded = ROUNDING * (2.0 * codes + f64::from(offset.abs()));
    whole && SECOND_ORDER * rounded < 0.5 / f64::from(divisor.abs())
}

/// Half of what the last bit of numbers of such a magnitude is worth in float32.
pub(super) fn half_a_bit(magnitude: f64) -> f64 {
    // All but the exponent.
    f64::from_bits(magnitude.to_bits() & 0x7ff0_0000_0000_0000) * ROUNDING
}

/// Weights as whole numbers of digits from -128 to 127 to the base 256, times a factor.
#[derive(Debug, Clone, PartialEq)]
pub struct Bands {
    values: Vec<i32>,
    pub digits: usize,
    /// Times which sums of products with the values are nearly those with the weights by their divisor; 0 where these are
    /// whole numbers, summed up with bytes.
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

    /// Those of `weights` that are whole numbers, for sums that are divided by `divisor`, if no sum of their products
    /// with code values reaches 2^24.
    pub fn whole(weights: &[f32], divisor: f32, samples: Samples) -> Option<Bands> {
        let largest = magnitudes(weights).sum::<f64>() * f64::from(samples.max_code);
        let small = largest < f64::from(1 << 24);
        if !small || weights.iter().any(|weight| weight.fract() != 0.0) {
            return None;
        }
        let values: Vec<i32> = weights.iter().map(|&weight| weight as i32).collect();
        let holds = |digits| values.iter().all(|value| value.abs() <= largest_of(digits));
        // The least of one digit is one less.
        let one = values.iter().all(|value| (-128..=127).contains(value));
        let most = match samples.bytes {
            1 => MOST_DIGITS,
            _ => ROUNDED_DIGITS - 1,
        };
        let digits = (2..=most).find(|&digits| holds(digits))?;
        Some(Bands {
            values,
            digits: if one { 1 } else { digits },
            factor: match samples.bytes {
                1 => 0.0,
                _ => 1.0 / divisor * 2.0f32.powi(-samples.spare_bits()),
            },
            tolerance: 0.0,
        })
    }

    /// Those nearest to `weights`, of as few digits as serve to find the canonical results of sums that are divided
    /// by `divisor` and to which up to [`Samples::most_offset`] is added; `None` where too many would be computed once
    /// more.
    pub fn near(weights: &[f32], divisor: f32, samples: Samples) -> Option<Bands> {
        let bands = match Bands::whole(weights, divisor, samples) {
            Some(whole) => whole.dividing(weights, divisor, samples)?,
            None => Bands::fewest(weights, divisor, samples)?,
        };
        (0.0..=LARGEST_TOLERANCE)
            .contains(&bands.tolerance)
            .then_some(bands)
    }

    /// Whole numbers whose quotients may be rounded otherwise than the canonical ones.
    fn dividing(self, weights: &[f32], divisor: f32, samples: Samples) -> Option<Bands> {
        let factor = 1.0 / divisor * 2.0f32.powi(-samples.spare_bits());
        let error = error_of_codes(weights, f64::from(divisor), samples);
        factor.is_normal().then_some(Bands {
            factor,
            tolerance: (error as f32).next_up(),
            ..self
        })
    }

    /// Of as few digits as serve.
    fn fewest(weights: &[f32], divisor: f32, samples: Samples) -> Option<Bands> {
        let three = Bands::of_digits(3, weights, divisor, samples)?;
        if samples.bytes > 1 {
            return Some(three);
        }
        let two = Bands::of_digits(2, weights, divisor, samples)?;
        let serve = two.tolerance <= SMALL_TOLERANCE.max(2.0 * three.tolerance);
        Some(if serve { two } else { three })
    }

    /// Those nearest to `weights` of two digits, for sums of bytes that are divided by `divisor`: errors of 15 bits of the
    /// largest weight or less, which float16 would be of the 11 of each. `None` where results could be more than a code off.
    pub fn rough(weights: &[f32], divisor: f32) -> Option<Bands> {
        let bands = Bands::of_digits(2, weights, divisor, Samples::BYTES)?;
        let at_most_one_off = bands.tolerance <= 0.5;
        at_most_one_off.then_some(Bands {
            tolerance: 0.0,
            ..bands
        })
    }

    fn of_digits(digits: usize, weights: &[f32], divisor: f32, samples: Samples) -> Option<Bands> {
        let most = magnitudes(weights).fold(0.0, f64::max);
        let (positive, negative) = sums_by_sign(weights).last()?;
        // Sums of products are 32 bits wide, of samples of 16 bits their sum alone, with some room for the rounding of
        // each.
        let largest_sample = if samples.bytes == 1 { 255.0 } else { 1.0 };
        let room = f64::from(1u32 << 31) / largest_sample - weights.len() as f64;
        let largest = (f64::from(largest_of(digits)) / most).min(room / positive.max(negative));
        // Where two digits are all, other scales than the largest may fit the weights much better.
        let count = match digits {
            2 => (MOST_ROUNDINGS / weights.len()).clamp(1, MOST_SCALES),
            _ => 1,
        };
        let unit = samples.unit(digits) / f64::from(divisor);
        let scales = (0..count).map(|number| {
            let scale = largest * (1.0 - 0.5 * number as f64 / count as f64);
            let factor = (unit / scale) as f32;
            // What the factor, a float32, makes of them, not what it should.
            let scale = unit / f64::from(factor);
            (misfit(weights, scale), factor, scale)
        });
        let (_, factor, scale) = scales.min_by(|a, b| a.0.total_cmp(&b.0))?;
        if !factor.is_normal() {
            return None;
        }
        let value = |&weight: &f32| (f64::from(weight) * scale).round() as i32;
        let mut bands = Bands {
            values: weights.iter().map(value).collect(),
            digits,
            factor,
            tolerance: 0.0,
        };
        let error = bands.error(weights, f64::from(divisor), samples);
        bands.tolerance = (error as f32).next_up();
        Some(bands)
    }

    /// Largest difference of results before rounding, of these and of float32 in the canonical order.
    fn error(&self, weights: &[f32], divisor: f64, samples: Samples) -> f64 {
        let (mut above, mut below) = (0.0, 0.0);
        let value_by = f64::from(self.factor) / samples.unit(self.digits);
        for (&value, &weight) in self.values.iter().zip(weights) {
            let difference = f64::from(value) * value_by - f64::from(weight) / divisor;
            above += difference.max(0.0);
            below += (-difference).max(0.0);
        }
        // The fused multiply-adds round sums.
        let roundings: f64 = sums_by_sign(weights)
            .map(|(positive, negative)| {
                half_a_bit(SECOND_ORDER * samples.largest_sum(positive, negative))
            })
            .sum();
        let of_sums = samples.largest_sum(above, below) + roundings / divisor.abs();
        // Sums of samples of 16 bits are rounded twice, and lack the products of lower bytes with the last digits.
        let of_digits = match samples.bytes {
            1 => 0.0,
            _ => {
                let left_out = 255.0 * 128.0 * weights.len() as f64;
                f64::from(self.factor.abs()) * (0.5 + 0.5 / 256.0 + left_out / f64::from(1 << 24))
            }
        };
        SECOND_ORDER * (of_sums + of_digits) + error_of_codes(weights, divisor, samples)
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

/// By how much results before rounding may differ where sums do not: those as float32, quotients, what is added to
/// them and what becomes of that are rounded, here and in the canonical evaluation.
fn error_of_codes(weights: &[f32], divisor: f64, samples: Samples) -> f64 {
    let (positive, negative) = sums_by_sign(weights).last().unwrap_or_default();
    let largest = positive.max(negative) * f64::from(samples.max_code) / divisor.abs()
        + f64::from(samples.most_offset());
    SECOND_ORDER * 8.0 * ROUNDING * largest + ROUNDING
}

/// The sums of the positive and of the negative of the first weights, of the first two, …
pub(super) fn sums_by_sign(weights: &[f32]) -> impl Iterator<Item = (f64, f64)> + '_ {
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

/// The sum of the differences of `weights` from whole numbers by `scale`, of those above or of those below.
fn misfit(weights: &[f32], scale: f64) -> f64 {
    let (mut above, mut below) = (0.0, 0.0);
    for &weight in weights {
        let exact = f64::from(weight) * scale;
        let difference = exact.round() - exact;
        above += difference.max(0.0);
        below += (-difference).max(0.0);
    }
    f64::max(above, below) / scale
}

/// The largest number of so many digits, each up to 127.
fn largest_of(digits: usize) -> i32 {
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
#[path = "band/tests.rs"]
mod tests;
