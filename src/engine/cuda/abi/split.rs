//! The weights of separable kernels as sums of two float16 each, for the [matrices](super::products) of
//! `kernels/separable_split.cu`, which finds the canonical bytes with them, and how far its results before rounding may
//! be off.
//!
//! # What the kernel computes
//! Weights `h` across and `v` down, on scales `S` and `R`, are taken apart: `S h = H + L` and `R v = V + M / 512`, where `H` and
//! `V` are whole numbers of up to 2^11 whose magnitudes sum to at most 2^13, and `L` and `M` are float16 of what is left.
//! Of bytes `b`, as float16 of 1024 + b:
//! - across, sums of products `A = Σ H (1024 + b) - (1152 Σ H + K)`, where `K` is the whole number nearest to 1152 Σ L;
//! - `p` is the whole number nearest to A / 512, `r = A - 512 p`, and `q = r + Σ L (1024 + b)`, rounded to float16. So
//!   512 p + q is `Σ (H + L) (b - 128)`, but for what K leaves of 1152 Σ L, which is known: the shift;
//! - down, sums of products `B = Σ V p` and `C = Σ M p + Σ V q`, and `x = (B + C / 512) s + c`, with `s = 512 / (S R d)` for a divisor of d, and
//!   `c = first + (128 - zero) (Σ h Σ v / d) + offset + shift`.
//!
//! So x is 1024.5 more than the result before rounding, and a little, which is in `first`: its whole part is the code
//! unless its fraction is less than the window. These few, which are in doubt, are computed once more in the canonical order.
//!
//! # Why that is exact
//! PTX says of products and sums of float16 in float32 that they have at least single precision, and nothing of their order or
//! rounding. Whole numbers below 2^24 are exact in any: all that A and B are made of is such, and their parts in any order
//! are. The products of others are exact, as float16 have 11 bits; each addition is taken to lose up to the last bit of the largest
//! sum that there may be. The rounding of q and of x, the canonical evaluation's own, and all else that is
//! left out is bounded in [`Split::error`], term by term.

use half::f16;

use super::band::{half_a_bit, sums_by_sign};
use super::halves::{self, MOST_GAIN};
use super::products::Reach;

/// Words behind the matrices: see [`Split::table`].
pub const CONSTANTS: usize = 8;
/// The largest magnitude of offsets, and of what they are together with levels of 128.
const MOST_LEVEL: f32 = 255.0;
/// The whole part of x for a code of 0, and the unit of x, which is a float32 between that and twice as much.
pub const BASE: f64 = 1024.0;
pub const UNIT: f64 = BASE / 8_388_608.0;
/// The largest window, in units: one in 1024 results is in doubt. With more, other kernels are as fast.
const MOST_WINDOW: f64 = 8.0;

/// The largest magnitude of H and V, and of the sum of those of one line.
const MOST: f64 = 2048.0;
const MOST_SUM: f64 = 8192.0;
/// Where whole numbers end to be exact in float32.
const WHOLE: f64 = 16_777_216.0;
/// What p is worth, and how many M make a V.
const HIGH: f64 = 512.0;
/// Code values of a difference from 128 at most, and between any two.
const FROM_THE_MIDDLE: f64 = 128.0;
const RANGE: f64 = 255.0;
/// Operands across: of a byte of 128, and at most.
const MIDDLE_OPERAND: f64 = 1152.0;
const LARGEST_OPERAND: f64 = 1279.0;
/// The least normal float16: numbers below may be taken for 0.
const LEAST: f64 = 1.0 / 16384.0;
/// Products on the matrix units that make a sum, at most, and what each adds besides its terms: the sum so far and its own rounding.
const PRODUCTS: f64 = 6.0;
const BESIDES: f64 = 2.0;
/// Scales that are looked at, and of which the best are tried.
const SCALES: u32 = 2048;
const TRIED: usize = 32;
/// What errors of errors may come to, to the first.
const SECOND_ORDER: f64 = 1.001;

/// A line of weights on a scale, taken apart.
#[derive(Debug, Clone, PartialEq)]
struct Parts {
    scale: f64,
    /// Whole numbers.
    high: Vec<f16>,
    low: Vec<f16>,
    /// What 1 in a low part is worth.
    unit: f64,
}

fn sum_of(parts: &[f16]) -> f64 {
    parts.iter().map(|part| part.to_f64()).sum()
}

fn magnitudes(parts: &[f16]) -> f64 {
    parts.iter().map(|part| part.to_f64().abs()).sum()
}

impl Parts {
    /// `weights` with the whole numbers `high` next to them on `scale`.
    fn new(weights: &[f32], scale: f64, high: &[f64], unit: f64) -> Parts {
        let low = |(weight, high): (&f32, &f64)| {
            let left = (f64::from(*weight) * scale - high) / unit;
            match left.abs() < LEAST {
                true => f16::ZERO,
                false => f16::from_f64(left),
            }
        };
        Parts {
            scale,
            low: weights.iter().zip(high).map(low).collect(),
            high: high.iter().copied().map(f16::from_f64).collect(),
            unit,
        }
    }

    /// Weights across, whose high parts sum to what all weights do, nearly: what low ones sum to is times 1152 in `q`.
    fn across(weights: &[f32], scale: f64) -> Parts {
        let exact: Vec<f64> = (weights.iter())
            .map(|&weight| f64::from(weight) * scale)
            .collect();
        let mut high: Vec<f64> = exact.iter().map(|weight| weight.round()).collect();
        let left = (exact.iter().sum::<f64>() - high.iter().sum::<f64>()).round();
        let mut order: Vec<usize> = (0..high.len()).collect();
        // Those first that are rounded farthest the other way.
        let gained = |&at: &usize| (high[at] - exact[at]) * left.signum();
        order.sort_by(|a, b| gained(a).total_cmp(&gained(b)));
        for at in order.into_iter().take(left.abs() as usize) {
            high[at] += left.signum();
        }
        Parts::new(weights, scale, &high, 1.0)
    }

    fn down(weights: &[f32], scale: f64) -> Parts {
        let high = weights
            .iter()
            .map(|&weight| (f64::from(weight) * scale).round());
        let high: Vec<f64> = high.collect();
        Parts::new(weights, scale, &high, 1.0 / HIGH)
    }

    /// Of a weight.
    fn value(&self, at: usize) -> f64 {
        self.high[at].to_f64() + self.low[at].to_f64() * self.unit
    }

    fn values(&self) -> impl Iterator<Item = f64> + '_ {
        (0..self.high.len()).map(|at| self.value(at))
    }

    /// Whether the high parts are as small as they must be.
    fn are_small(&self) -> bool {
        let all_small = (self.high.iter()).all(|high| high.to_f64().abs() <= MOST);
        all_small && magnitudes(&self.high) <= MOST_SUM
    }

    /// How far the weights are from what they were, all together.
    fn misfit(&self, weights: &[f32]) -> f64 {
        let differences = weights.iter().zip(self.values());
        differences
            .map(|(&weight, value)| (f64::from(weight) - value / self.scale).abs())
            .sum()
    }
}

/// Scales, each made fit by `fit`, on which the parts of `weights` may be small enough, of which least is left of them.
fn scales(weights: &[f32], fit: impl Fn(f64) -> f64) -> Vec<f64> {
    let magnitudes = || weights.iter().map(|weight| f64::from(weight.abs()));
    let most = magnitudes().fold(0.0, f64::max);
    let largest = (MOST / most).min(MOST_SUM / magnitudes().sum::<f64>());
    let left = |scale: f64| -> f64 {
        let scaled = magnitudes().map(|weight| weight * scale);
        scaled.map(|weight| (weight - weight.round()).abs()).sum()
    };
    let scale = |number| largest * (1.0 - 0.5 * f64::from(number) / f64::from(SCALES));
    let scales = (0..SCALES).map(|number| fit(scale(number)));
    let mut scales: Vec<(f64, f64)> = scales.map(|scale| (left(scale) / scale, scale)).collect();
    scales.sort_by(|a, b| a.0.total_cmp(&b.0));
    scales.truncate(TRIED);
    scales.into_iter().map(|(_, scale)| scale).collect()
}

/// A separable kernel taken apart.
#[derive(Debug, Clone, PartialEq)]
pub struct Split {
    across: Parts,
    down: Parts,
    /// Codes that 1 in sums down is worth.
    factor: f32,
    /// The sum of all weights as they were, divided.
    sum: f32,
    /// Of the weights as they were, divided: of those below 0, and of those above.
    ends: (f64, f64),
    /// By which results before rounding may differ from the canonical ones, but for the rounding of x and of c, in units.
    error: f64,
}

impl Split {
    /// Takes the kernel `down` by `across`, divided by `divisor`, apart; `None` where too many results would be in doubt.
    pub fn new(across: &[f32], down: &[f32], divisor: f32) -> Option<Split> {
        let has_weights = |weights: &[f32]| weights.iter().any(|weight| *weight != 0.0);
        let can = has_weights(across) && has_weights(down);
        if !can || halves::gain(across, down, divisor) > MOST_GAIN {
            return None;
        }
        let sum: f64 = across.iter().map(|&weight| f64::from(weight)).sum();
        // Where the sum of those across is a whole number their low parts sum to 0.
        let to_whole = |scale: f64| match (scale * sum).round() {
            0.0 => scale,
            whole => whole / sum,
        };
        let of_scales = |of_across, of_down| {
            let split = Split::of_scales((across, down, divisor), of_across, of_down);
            split.filter(|split| split.window() <= MOST_WINDOW)
        };
        let least =
            |all: &mut dyn Iterator<Item = Split>| all.min_by(|a, b| a.error.total_cmp(&b.error));
        let (of_across, of_down) = (scales(across, to_whole), scales(down, |scale| scale));
        let any = of_down.iter().find_map(|&down| {
            least(
                &mut of_across
                    .iter()
                    .filter_map(|&across| of_scales(across, down)),
            )
        })?;
        let across = any.across.scale;
        least(&mut of_down.iter().filter_map(|&down| of_scales(across, down)))
    }

    /// The kernel with its weights on these scales, the second one such that the factor is a float32.
    fn of_scales(
        (across, down, divisor): (&[f32], &[f32], f32),
        of_across: f64,
        of_down: f64,
    ) -> Option<Split> {
        let exact = f64::from(divisor);
        let factor = (HIGH / (of_across * of_down * exact)) as f32;
        let of_down = HIGH / (of_across * exact * f64::from(factor));
        let sum = |weights: &[f32]| weights.iter().map(|&w| f64::from(w)).sum::<f64>();
        let mut split = Split {
            across: Parts::across(across, of_across),
            down: Parts::down(down, of_down),
            factor,
            sum: (sum(across) * sum(down) / exact) as f32,
            ends: halves::ends(across, down, divisor),
            error: 0.0,
        };
        let can = factor.is_normal() && split.across.are_small() && split.down.are_small();
        split.error = split.error(across, down, exact) / UNIT;
        (can && split.sums_are_exact()).then_some(split)
    }

    /// What is left of 1152 Σ L by K, which is the difference.
    fn low_sum(&self) -> (f64, f64) {
        let all = MIDDLE_OPERAND * sum_of(&self.across.low);
        (all.round(), all - all.round())
    }

    /// The largest magnitudes of p and of q.
    fn largest(&self) -> (f64, f64) {
        let (whole, rest) = self.low_sum();
        let high = FROM_THE_MIDDLE * magnitudes(&self.across.high) + whole.abs();
        let low = whole + rest;
        let of_low = low.abs() + FROM_THE_MIDDLE * magnitudes(&self.across.low);
        ((high / HIGH).round(), HIGH / 2.0 + of_low)
    }

    /// Whether all that A and B are made of is below 2^24, and p is a float16.
    fn sums_are_exact(&self) -> bool {
        let of_across = LARGEST_OPERAND * magnitudes(&self.across.high) + self.low_sum().0.abs();
        let (p, _) = self.largest();
        of_across < WHOLE && p <= MOST && p * magnitudes(&self.down.high) < WHOLE
    }

    /// How far results before rounding may be from the canonical ones, in codes, but for the last rounding of c and of x.
    fn error(&self, across: &[f32], down: &[f32], divisor: f64) -> f64 {
        let of_weights = |weights: &[f32]| -> f64 {
            (weights.iter()).map(|weight| f64::from(weight.abs())).sum()
        };
        let code = f64::from(self.factor.abs());
        let (p, q) = self.largest();
        let (low_across, low_down) = (magnitudes(&self.across.low), magnitudes(&self.down.low));
        let high_down = magnitudes(&self.down.high);
        // Products with weights that are not quite what they were.
        let all_across = self.across.values().map(f64::abs).sum::<f64>() / self.across.scale;
        let of_misfit =
            self.across.misfit(across) * of_weights(down) + self.down.misfit(down) * all_across;
        // An addition may lose the last bit of the largest sum; the first number is a sum's terms.
        let lost = |terms: usize, operands: f64, largest: f64| {
            let additions = operands * (terms as f64 + BESIDES * PRODUCTS);
            additions * 2.0 * half_a_bit(largest)
        };
        let of_q = lost(across.len(), 1.0, HIGH / 2.0 + LARGEST_OPERAND * low_across);
        let rounding_of_q = half_of_float16(q);
        let of_low = low_down * p + high_down * (q + rounding_of_q);
        let of_sums_down = lost(down.len(), 2.0, of_low);
        // What q is off, and products of low parts that are left out, as part of a 512th.
        let in_low = high_down * (of_q + rounding_of_q) + low_down * q / HIGH + of_sums_down;
        let of_both = half_a_bit(high_down * p + of_low / HIGH);
        let of_level = self.error_of_level();
        let of_canonical = canonical_error(across, down, divisor);
        SECOND_ORDER
            * (FROM_THE_MIDDLE * of_misfit / divisor.abs()
                + code * (in_low / HIGH + of_both)
                + of_level
                + of_canonical)
    }

    /// That of c but for its last rounding: of the sum of weights, and of two additions.
    fn error_of_level(&self) -> f64 {
        let of_sum = FROM_THE_MIDDLE * half_a_bit(f64::from(self.sum.abs()));
        of_sum + 2.0 * half_a_bit(f64::from(MOST_LEVEL) + 0.5)
    }

    /// Whether channels may have such a zero level and such an offset: a byte, and what makes levels that have as many
    /// bits behind the point as results. Of no picture of one code all results may be in doubt, which would take far longer.
    pub fn takes(&self, zero: f32, offset: f32) -> bool {
        let level = (128.0 - zero).mul_add(self.sum, offset);
        let can = zero.fract() == 0.0
            && (0.0..=255.0).contains(&zero)
            && offset.abs() <= MOST_LEVEL
            && level.abs() <= MOST_LEVEL;
        can && !(0..=255).any(|code| self.is_in_doubt(code, zero, offset))
    }

    /// Whether what becomes of level areas of `code` may be in doubt.
    fn is_in_doubt(&self, code: u8, zero: f32, offset: f32) -> bool {
        const FRACTIONS: f64 = 1.0 / UNIT;
        let difference = f64::from(code) - f64::from(zero);
        let result = difference * f64::from(self.sum) + f64::from(offset) + 0.5;
        let x = (BASE + result + self.raised() * UNIT).abs();
        // Below `BASE`, where results are clamped, float32 has smaller units, which are compared all the same.
        let unit = 2.0_f64.powf(x.max(1.0).log2().floor() - 23.0);
        let off = (self.error + 1.0) * UNIT / unit;
        (x / unit + off).rem_euclid(FRACTIONS) < self.window() + 2.0 * off
    }

    /// What is added to c so that the whole part of x is that of the canonical result, in units: more than x may be below
    /// it but for its rounding and that of c, which is a unit together, and cancels where the fraction is the largest.
    fn raised(&self) -> f64 {
        self.error.floor() + 1.0
    }

    /// Fractions of x below that, in units, are in doubt: x may be as far above what it should be.
    fn window(&self) -> f64 {
        (self.raised() + self.error + 1.0).floor() + 1.0
    }

    /// Words of a [table](Self::table).
    pub fn words(reach: Reach) -> usize {
        2 * (reach.words_across() + reach.words_down()) + CONSTANTS
    }

    /// The [matrices](Reach::push_across) across, of the high and of the low parts, and those down. Behind them:
    /// what sums across begin with, the factor, the sum of all weights, the shift, the sum of the negative and that of the
    /// positive weights, and the first number of c, all as float32, and the window as a whole number of units.
    pub fn table(&self, reach: Reach) -> Vec<u32> {
        let mut words = Vec::with_capacity(Split::words(reach));
        for part in [&self.across.high, &self.across.low] {
            reach.push_across(&mut words, part);
        }
        for part in [&self.down.high, &self.down.low] {
            reach.push_down(&mut words, part);
        }
        let (whole, rest) = self.low_sum();
        let start = -(MIDDLE_OPERAND * sum_of(&self.across.high) + whole);
        let shift = -rest * self.down.values().sum::<f64>() * f64::from(self.factor) / HIGH;
        let first = BASE + 0.5 + self.raised() * UNIT;
        let constants = [
            start as f32,
            self.factor,
            self.sum,
            shift as f32,
            self.ends.0 as f32,
            self.ends.1 as f32,
            first as f32,
        ];
        words.extend(constants.map(f32::to_bits));
        words.push(self.window() as u32);
        words
    }
}

/// Half of what the last bit of a float16 of such a magnitude is worth.
fn half_of_float16(magnitude: f64) -> f64 {
    half_a_bit(magnitude) * f64::from(1 << (24 - 11))
}

/// How far the canonical results before rounding may be from exact ones, in codes: every fused multiply-add rounds a sum, and so do the
/// division and the addition of an offset. Inputs are codes less any zero level: from one to another end of a range of
/// 255 that has 0 in it, so sums are within such ranges, too.
fn canonical_error(across: &[f32], down: &[f32], divisor: f64) -> f64 {
    let of_chain = |weights: &[f32], range: f64| -> f64 {
        let sums = sums_by_sign(weights);
        sums.map(|(positive, negative)| half_a_bit(SECOND_ORDER * range * positive.max(negative)))
            .sum()
    };
    let magnitudes = |weights: &[f32]| {
        let (positive, negative) = sums_by_sign(weights).last().unwrap_or_default();
        (positive + negative, positive.max(negative))
    };
    let range = RANGE * magnitudes(across).0;
    let (all_down, most_down) = magnitudes(down);
    let of_sums = of_chain(across, RANGE) * all_down + of_chain(down, range);
    let is_power_of_two = (divisor as f32).to_bits() & 0x7f_ffff == 0;
    let of_quotient = match is_power_of_two {
        true => 0.0,
        false => half_a_bit(SECOND_ORDER * range * most_down / divisor.abs()),
    };
    of_sums / divisor.abs() + of_quotient + half_a_bit(RANGE)
}

#[cfg(test)]
#[path = "split/tests.rs"]
mod tests;
