//! Rows of the bilateral by levels: the weights of a level, and the mean of all of them.
//!
//! Beside these a sample takes four multiply-adds a tap of one axis and level, in
//! [`window`](super::window): 660 for 12 levels and a radius of 7, 1420 for one of 15.

use crate::engine::cpu::isa::for_each_isa;
use crate::engine::cpu::simd::{Simd, exp2_of};

/// One level.
#[derive(Debug, Clone, Copy)]
pub struct Level {
    /// Less the zero level of the samples, as these are.
    pub value: f32,
    /// Exponent per squared difference.
    pub exponent: f32,
    /// Samples further away have no part in it.
    pub reach: f32,
}

for_each_isa! {
    /// `weights[i] = g(values[i] - level)`, `products[i]` the same times that difference.
    pub fn weigh_row(values: &[f32], level: Level, weights: &mut [f32], products: &mut [f32])
        = weigh_row_body;
    /// Adds what a level contributes to the mean of the samples around each of `values`:
    /// `c·(product + level·weight)` to `numerators` and `c·weight` to `denominators`, with
    /// `c = g(values[i] - level)`, or 0 out of reach.
    pub fn add_level_row(
        values: &[f32],
        level: Level,
        weights: &[f32],
        products: &[f32],
        numerators: &mut [f32],
        denominators: &mut [f32],
    ) = add_level_row_body;
    /// `numerators[i] /= denominators[i]`.
    pub fn divide_row(numerators: &mut [f32], denominators: &[f32]) = divide_row_body;
    /// The least and the largest of `values`.
    pub fn range_row(values: &[f32]) -> (f32, f32) = range_row_body;
}

/// Weights below the least are as good as 0, and products of it are no denormals, which are slow.
const LEAST_EXPONENT: f32 = -60.0;

#[inline(always)]
fn weight_of(difference: f32, exponent: f32) -> f32 {
    let exponent = exponent * (difference * difference);
    exp2_of(if exponent > LEAST_EXPONENT {
        exponent
    } else {
        LEAST_EXPONENT
    })
}

#[inline(always)]
fn weigh_row_body<S: Simd>(
    _: S,
    values: &[f32],
    level: Level,
    weights: &mut [f32],
    products: &mut [f32],
) {
    let results = weights.iter_mut().zip(products);
    for (value, (weight, product)) in values.iter().zip(results) {
        let difference = value - level.value;
        let power = weight_of(difference, level.exponent);
        *weight = power;
        *product = power * difference;
    }
}

#[inline(always)]
fn add_level_row_body<S: Simd>(
    _: S,
    values: &[f32],
    level: Level,
    weights: &[f32],
    products: &[f32],
    numerators: &mut [f32],
    denominators: &mut [f32],
) {
    let len = values.len();
    let (weights, products) = (&weights[..len], &products[..len]);
    let (numerators, denominators) = (&mut numerators[..len], &mut denominators[..len]);
    for i in 0..len {
        let difference = values[i] - level.value;
        let power = weight_of(difference, level.exponent);
        let share = if difference.abs() <= level.reach {
            power
        } else {
            0.0
        };
        let sum = level.value.mul_add(weights[i], products[i]);
        numerators[i] = share.mul_add(sum, numerators[i]);
        denominators[i] = share.mul_add(weights[i], denominators[i]);
    }
}

#[inline(always)]
fn divide_row_body<S: Simd>(_: S, numerators: &mut [f32], denominators: &[f32]) {
    for (numerator, denominator) in numerators.iter_mut().zip(denominators) {
        *numerator /= denominator;
    }
}

#[inline(always)]
fn range_row_body<S: Simd>(_: S, values: &[f32]) -> (f32, f32) {
    const LANES: usize = 16;
    let (mut least, mut most) = ([f32::INFINITY; LANES], [f32::NEG_INFINITY; LANES]);
    let (whole, rest) = values.as_chunks::<LANES>();
    for values in whole {
        for i in 0..LANES {
            least[i] = if values[i] < least[i] {
                values[i]
            } else {
                least[i]
            };
            most[i] = if values[i] > most[i] {
                values[i]
            } else {
                most[i]
            };
        }
    }
    let least = least
        .iter()
        .chain(rest)
        .copied()
        .fold(f32::INFINITY, f32::min);
    let most = most
        .iter()
        .chain(rest)
        .copied()
        .fold(f32::NEG_INFINITY, f32::max);
    (least, most)
}
