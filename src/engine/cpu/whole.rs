//! Which kernels can be computed on bytes in whole numbers, and how: the taps of both passes in
//! few bits, and constants that make the results the canonical bytes.

use super::isa::Isa;
use super::rows::samples::Divisor;
use super::rows::sums::{Narrow, Scale, multiplication_is_exact};
use crate::filter::plan::{Correlation, Taps};

/// Sums whose every value is tried for a way to divide by multiplying, at most.
const MAX_TRIED: i64 = 1 << 20;

/// In how many bits the sums of the second pass are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Width {
    Narrow,
    Wide,
}

/// A kernel as the two passes compute it.
#[derive(Debug, Clone, PartialEq)]
pub struct WholeKernel {
    /// Of the first pass: row offset, pixel offset and weight. The rows of a separable kernel are
    /// all 0.
    pub across: Vec<(isize, isize, i8)>,
    /// Added to the sums of the first pass.
    pub start: i16,
    /// Of the second pass: two row offsets and the weight of both.
    pub folded: Vec<(isize, isize, i16)>,
    /// Of the second pass: row offset and weight.
    pub lone: Vec<(isize, i16)>,
    pub separable: bool,
    /// The sum of all weights.
    pub total: i64,
    /// Of the sums without `start`.
    bounds: Bounds,
    /// What `start` adds to the sums of the second pass.
    excess: i64,
}

/// The least and the largest value of sums.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Bounds {
    least: i64,
    most: i64,
}

impl Bounds {
    /// Of `Σ weight·value` with values of these bounds.
    fn weighted(self, weights: &[i64]) -> Bounds {
        let of = |a: i64, b: i64| -> i64 {
            weights
                .iter()
                .map(|&w| if w > 0 { w * a } else { w * b })
                .sum()
        };
        Bounds {
            least: of(self.least, self.most),
            most: of(self.most, self.least),
        }
    }

    fn plus(self, constant: i64) -> Bounds {
        Bounds {
            least: self.least + constant,
            most: self.most + constant,
        }
    }

    fn within(self, least: i64, most: i64) -> bool {
        least <= self.least && self.most <= most
    }

    fn signed(self) -> bool {
        self.within(i16::MIN.into(), i16::MAX.into())
    }
}

const BYTES: Bounds = Bounds {
    least: 0,
    most: 255,
};

fn whole(weights: &[f32]) -> Vec<i64> {
    weights.iter().map(|&w| w as i64).collect()
}

/// Weights of at most 127 that add up to `weight`.
fn parts(weight: i64) -> impl Iterator<Item = i8> {
    let (sign, most) = (weight.signum(), i64::from(i8::MAX));
    let count = (weight.abs() + most - 1) / most;
    (0..count).map(move |n| (sign * (weight.abs() - n * most).min(most)) as i8)
}

impl WholeKernel {
    /// The passes for sums of `width`; `None` where the sums of the first do not fit into 16 bits
    /// or a weight into its, and for sums of outer products. The coefficients are whole numbers.
    pub fn new(correlation: &Correlation, width: Width) -> Option<WholeKernel> {
        let (rows, columns, down) = match &correlation.taps {
            Taps::Separable {
                horizontal,
                vertical,
            } => (1, horizontal.len(), whole(vertical)),
            Taps::Full { width, height, .. } => (*height, *width, vec![1]),
            Taps::Sum(_) => return None,
        };
        let (across, separable) = match &correlation.taps {
            Taps::Separable { horizontal, .. } => (whole(horizontal), true),
            Taps::Full { weights, .. } => (whole(weights), false),
            Taps::Sum(_) => return None,
        };
        let first = BYTES.weighted(&across);
        // Unsigned sums are brought into the signed range.
        let middle = -(first.most + 1) / 2;
        let start = match width {
            Width::Narrow => 0,
            Width::Wide if first.signed() => 0,
            Width::Wide if first.plus(middle).signed() => middle,
            Width::Wide => return None,
        };
        if across
            .iter()
            .chain(&down)
            .any(|w| w.abs() > i64::from(i16::MAX))
        {
            return None;
        }
        let stored = first.plus(start);
        let may_fold = width == Width::Narrow || stored.weighted(&[2]).signed();
        let (folded, lone) = fold(&down, may_fold);
        let offsets = |index: usize| {
            let (j, i) = (index / columns, index % columns);
            (
                j as isize - rows as isize / 2,
                i as isize - columns as isize / 2,
            )
        };
        Some(WholeKernel {
            total: across.iter().sum::<i64>() * down.iter().sum::<i64>(),
            bounds: first.weighted(&down),
            excess: start * down.iter().sum::<i64>(),
            start: start as i16,
            across: (across.iter().enumerate())
                .flat_map(|(index, &weight)| {
                    let (j, i) = offsets(index);
                    parts(weight).map(move |part| (j, i, part))
                })
                .collect(),
            folded,
            lone,
            separable,
        })
    }

    /// The constant and the step that make bytes of 16-bit sums: of
    /// `round(sum / divisor + offset)`, where `zero` was not yet subtracted from the bytes.
    pub fn narrow(&self, zero: f32, divisor: f32, offset: f32) -> Option<(i16, Narrow)> {
        /// All whole numbers up to here are float32.
        const LARGEST: f32 = 16_777_216.0;
        let inside = |value: f32| value.fract() == 0.0 && value.abs() <= LARGEST;
        if !inside(offset) || !inside(divisor) || divisor < 1.0 {
            return None;
        }
        let (whole_divisor, unsigned) = (divisor as i64, (0, u16::MAX.into()));
        let constant = offset as i64 * whole_divisor - zero as i64 * self.total;
        if whole_divisor == 1 {
            return (self.bounds.plus(constant).signed())
                .then_some((constant as i16, Narrow::Saturate));
        }
        let constant = constant + whole_divisor / 2;
        let sums = self.bounds.plus(constant);
        if !sums.within(unsigned.0, unsigned.1) {
            return None;
        }
        if divisor.to_bits().trailing_zeros() >= 23 {
            let bits = whole_divisor.trailing_zeros();
            return (bits < 16).then_some((constant as i16, Narrow::Shift { bits }));
        }
        let canonical = Canonical::new(self, zero, divisor, offset);
        let narrow = (0..16).find_map(|bits| {
            let factor = ((1 << (16 + bits)) + whole_divisor - 1) / whole_divisor;
            let factor = u16::try_from(factor).ok()?;
            let exact = (self.bounds.least..=self.bounds.most).all(|sum| {
                let code = (((sum + constant) * i64::from(factor)) >> 16) >> bits;
                code.min(255) == canonical.code(sum)
            });
            exact.then_some(Narrow::Reciprocal { factor, bits })
        })?;
        Some((constant as i16, narrow))
    }

    /// As [`narrow`](Self::narrow) of 32-bit sums.
    pub fn wide(&self, isa: Isa, zero: f32, divisor: f32, offset: f32) -> Option<(i32, Scale)> {
        let start = -(zero as i64) * self.total;
        let sums = self.bounds.plus(start);
        let largest = sums.least.abs().max(sums.most);
        rounds_to_i32(largest as f32, divisor, offset).then(|| {
            let scale = scale(divisor).unwrap_or_else(|| {
                let (least, most) = (sums.least as i32, sums.most as i32);
                let few = sums.most - sums.least < MAX_TRIED;
                if few && multiplication_is_exact(isa, least, most, divisor, offset) {
                    Scale::Multiply(1.0 / divisor)
                } else {
                    Scale::Divide(divisor)
                }
            });
            ((start - self.excess) as i32, scale)
        })
    }

    /// The constant that subtracts the zero level from signed 16-bit sums.
    pub fn signed(&self, zero: f32) -> Option<i16> {
        let start = -(zero as i64) * self.total;
        (self.bounds.plus(start).signed()).then_some(start as i16)
    }

    /// The largest magnitude of a sum less its zero level.
    pub fn largest(&self, zero: f32) -> f32 {
        let sums = self.bounds.plus(-(zero as i64) * self.total);
        sums.least.abs().max(sums.most) as f32
    }
}

/// Whether `sum / divisor + offset` of sums up to `largest` stays far from what 32 bits can hold.
pub fn rounds_to_i32(largest: f32, divisor: f32, offset: f32) -> bool {
    (largest / divisor).abs() + offset.abs() < (1 << 30) as f32
}

/// Division by a power of two as the multiplication that it is.
pub fn scale(divisor: f32) -> Option<Scale> {
    match Divisor::new(divisor) {
        Divisor::One => Some(Scale::Multiply(1.0)),
        Divisor::Inverse(inverse) => Some(Scale::Multiply(inverse)),
        Divisor::Any(_) => None,
    }
}

/// Row offsets and weights, those of equal weight at equal distance together.
#[allow(clippy::type_complexity, reason = "two lists")]
fn fold(down: &[i64], may_fold: bool) -> (Vec<(isize, isize, i16)>, Vec<(isize, i16)>) {
    let radius = down.len() as isize / 2;
    let weight = |j: isize| down[(radius + j) as usize] as i16;
    let (mut folded, mut lone) = (Vec::new(), Vec::new());
    for j in (1..=radius).rev() {
        if may_fold && weight(-j) == weight(j) {
            folded.push((-j, j, weight(j)));
        } else {
            lone.extend([(-j, weight(-j)), (j, weight(j))]);
        }
    }
    lone.push((0, weight(0)));
    folded.retain(|&(_, _, weight)| weight != 0);
    lone.retain(|&(_, weight)| weight != 0);
    if lone.is_empty() && folded.is_empty() {
        lone.push((0, 0));
    }
    (folded, lone)
}

/// The canonical evaluation from a sum of bytes on.
struct Canonical {
    excess: i64,
    divisor: f32,
    offset: f32,
}

impl Canonical {
    fn new(kernel: &WholeKernel, zero: f32, divisor: f32, offset: f32) -> Canonical {
        Canonical {
            excess: zero as i64 * kernel.total,
            divisor,
            offset,
        }
    }

    fn code(&self, sum: i64) -> i64 {
        let value = (sum - self.excess) as f32 / self.divisor + self.offset;
        value.round_ties_even().clamp(0.0, 255.0) as i64
    }
}
