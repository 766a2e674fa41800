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
fn half_a_bit(magnitude: f64) -> f64 {
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
        let (factor, scale) = (0..count)
            .map(|number| {
                let scale = largest * (1.0 - 0.5 * number as f64 / count as f64);
                let factor = (unit / scale) as f32;
                // What the factor, a float32, makes of them, not what it should.
                (factor, unit / f64::from(factor))
            })
            .min_by(|a, b| misfit(weights, a.1).total_cmp(&misfit(weights, b.1)))?;
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
        let digits =
            |weights: &[f32]| Bands::whole(weights, 1.0, Samples::BYTES).map(|bands| bands.digits);
        assert_eq!(digits(&[-128.0, 127.0, 0.0]), Some(1));
        assert_eq!(digits(&[128.0, 0.0, 0.0]), Some(2));
        assert_eq!(digits(&[-32639.0, 32639.0, 0.0]), Some(2));
        assert_eq!(digits(&[-32640.0, 0.0, 0.0]), Some(3));
        // 255 times as much is 2^24 or more.
        assert_eq!(digits(&[65793.0, 0.0, 0.0]), Some(3));
        assert_eq!(digits(&[65794.0, 0.0, 0.0]), None);
        assert_eq!(digits(&[0.5, 1.0, 1.0]), None);
    }

    #[test]
    fn quotients_decide_where_they_are_far_from_the_middle_or_in_it() {
        let words = Samples {
            max_code: 1023,
            bytes: 2,
            centred: false,
        };
        for (samples, divisor, offset, decide) in [
            (Samples::BYTES, 214.0, 0.0, true),
            (Samples::BYTES, -9.0, 16.5, true),
            (Samples::BYTES, 2.5, 0.0, false),
            (Samples::BYTES, 9.0, 0.3, false),
            (Samples::BYTES, 16_000.0, 0.0, true),
            (Samples::BYTES, 17_000.0, 0.0, false),
            (Samples::BYTES, 9.0, 1e9, false),
            (words, 3000.0, 512.0, true),
            (words, 5000.0, 0.0, false),
        ] {
            let found = quotients_decide(divisor, offset, samples);
            assert_eq!(found, decide, "{divisor} {offset} {samples:?}");
        }
        // As the kernel computes them, near all middles.
        for (samples, divisor, offset) in [
            (Samples::BYTES, 214.0f32, 0.0f32),
            (Samples::BYTES, 15_998.0, 0.0),
            (Samples::BYTES, 98.0, -7.5),
            (words, 3002.0, 512.0),
            (words, 1000.0, 0.0),
        ] {
            assert!(quotients_decide(divisor, offset, samples));
            let reciprocal = 1.0 / divisor;
            let rest = (-reciprocal).mul_add(divisor, 1.0) * reciprocal;
            for code in 0..=samples.max_code {
                let middle = (f64::from(code) + 0.5 - f64::from(offset)) * f64::from(divisor);
                for beside in -2..=2 {
                    let sum = (middle.round() + f64::from(beside)) as f32;
                    let quotient = sum.mul_add(reciprocal, sum * rest);
                    let codes = [quotient, sum / divisor]
                        .map(|quotient| (quotient + offset).round_ties_even());
                    assert_eq!(codes[0], codes[1], "{sum} by {divisor}");
                }
            }
        }
    }

    /// What the kernel sums up of samples of 16 bits, whose codes are raised by `spare` bits, with three digits.
    fn rounded_sum(values: &[i32], codes: &[u32], spare: i32) -> i32 {
        let mut sum = 0i32;
        for worth in 1..=3usize {
            sum = (sum + 128) >> 8;
            for (&value, &code) in values.iter().zip(codes) {
                let raised = code << spare;
                for (place, byte) in [raised & 0xff, raised >> 8].into_iter().enumerate() {
                    if (place..place + 3).contains(&worth) {
                        sum += i32::from(digit_of(value, worth - place)) * byte as i32;
                    }
                }
            }
        }
        sum
    }

    #[test]
    fn results_of_words_are_within_the_tolerance() {
        for (depth, count, centred, sign) in [
            (10, 225, true, 1.0),
            (10, 225, false, 1.0),
            (10, 225, false, -1.0),
            (12, 9, true, 1.0),
            (12, 9, true, -1.0),
        ] {
            let samples = Samples {
                max_code: (1 << depth) - 1,
                bytes: 2,
                centred,
            };
            let number = |at: usize| (at * 2_654_435_761 % 1009) as f32 / 1009.0 - 0.3;
            let weights: Vec<f32> = (0..count).map(number).collect();
            let divisor = sign * weights.iter().sum::<f32>();
            let bands = Bands::near(&weights, divisor, samples).expect("it is possible");
            assert_eq!(bands.digits, 3);
            let spare = 16 - depth;
            let zero = if centred { 1u32 << (depth - 1) } else { 64 };
            let mut largest = 0.0f64;
            for seed in 0..400u32 {
                let code = |at: usize| match seed % 3 {
                    0 => (at as u32 + 1) * (seed + 7) % (samples.max_code + 1),
                    1 => ((weights[at] > 0.0) == (seed % 2 == 0)) as u32 * samples.max_code,
                    _ => seed % (samples.max_code + 1),
                };
                let codes: Vec<u32> = (0..count).map(code).collect();
                let sum = rounded_sum(&bands.values, &codes, spare);
                let by_digits = f64::from(sum) * f64::from(bands.factor);
                let level = f64::from(zero) * f64::from(bands.sum()) * f64::from(bands.factor)
                    / samples.unit(3);
                let canonical = (weights.iter().zip(&codes))
                    .fold(0.0f32, |sum, (weight, &code)| {
                        weight.mul_add(code as f32 - zero as f32, sum)
                    });
                let difference = by_digits - level - f64::from(canonical) / f64::from(divisor);
                largest = largest.max(difference.abs());
            }
            let most = f64::from(bands.tolerance);
            assert!(
                largest <= most && largest > most / 200.0,
                "{largest} {most}"
            );
        }
    }

    #[test]
    fn whole_numbers_of_words_are_their_own_digits() {
        let samples = Samples {
            max_code: 1023,
            bytes: 2,
            centred: false,
        };
        let bands = Bands::whole(&[-128.0, 3.0, 127.0], 2.0, samples).expect("whole numbers");
        assert_eq!((bands.digits, bands.factor), (1, 0.5 / 64.0));
        let two = Bands::whole(&[128.0, 3.0, 127.0], 2.0, samples);
        assert_eq!(two.map(|bands| bands.digits), Some(2));
        // Sums beyond 2^24, which float32 rounds.
        assert_eq!(Bands::whole(&[16_401.0, 0.0, 0.0], 2.0, samples), None);
        // Exact sums, of which a fraction is found.
        let near = Bands::near(&[1.0, 2.0, 3.0], 2.5, samples).expect("it is possible");
        assert_eq!(near.values(), [1, 2, 3]);
        assert!(near.tolerance > 0.0 && near.tolerance < 0.003);
        // At 16 bits float32 itself leaves most open.
        let deep = Samples {
            max_code: 65_535,
            centred: true,
            ..samples
        };
        let weights: Vec<f32> = (0..225).map(|at| (at % 7) as f32 / 9.0).collect();
        assert_eq!(Bands::near(&weights, 75.0, deep), None);
        assert!(
            Bands::near(
                &weights,
                75.0,
                Samples {
                    max_code: 1023,
                    ..deep
                }
            )
            .is_some()
        );
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
            let bands = Bands::near(&weights, divisor, Samples::BYTES).expect("it is possible");
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
        assert_eq!(Bands::near(&[0.001; 9], 1e-40, Samples::BYTES), None);
        assert_eq!(Bands::near(&[f32::MAX; 9], 1.0, Samples::BYTES), None);
        // Results of a thousand times as much contrast.
        let weights: Vec<f32> = (0..225).map(|at| (at % 7) as f32 / 9.0).collect();
        assert!(Bands::near(&weights, 75.0, Samples::BYTES).is_some());
        assert_eq!(Bands::near(&weights, 0.05, Samples::BYTES), None);
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
