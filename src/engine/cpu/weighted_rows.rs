//! Rows of the bilateral in float32: weights from differences, and the sums that they weight.
//!
//! A tap of one channel takes 16 operations a vector, most of them for the exponential, so that
//! a window of radius 7 costs about 75 cycles a pixel with AVX-512 and the loads come free.

use super::chain::{SLACK, Tap};
use super::isa::for_each_isa;
use super::simd::Simd;
use crate::filter::kernels::TRANSPARENT;

/// What a row of the bilateral is computed from. All rows start at the same places of their
/// arenas: a tap's `start` is that of the value which output 0 takes, `centre` that of its own.
pub struct WeightedRow<'a> {
    /// The window without its centre; the weight is the exponent of two that stands for distance.
    pub taps: &'a [Tap],
    pub centre: usize,
    /// Exponent per squared difference.
    pub color: f32,
    /// Whether the difference is the root of the sum of squares rather than the sum of magnitudes.
    pub euclidean: bool,
    /// The channels that share a weight, 1 to 3.
    pub values: &'a [&'a [f32]],
    /// Alpha of premultiplied values.
    pub alpha: Option<&'a [f32]>,
}

/// Where the sums of a row go.
pub struct WeightedSums<'a> {
    /// Of each channel `Σ w·(value - centre)`, or with alpha `Σ w·value` and the centre.
    pub values: [&'a mut [f32]; 3],
    /// With alpha: `Σ w·alpha` and the centre.
    pub alpha: &'a mut [f32],
    /// `Σ w` and 1 for the centre.
    pub weights: &'a mut [f32],
}

for_each_isa! {
    /// The sums of `len` samples. Whole vectors are worked on: up to [`SLACK`] values beyond are
    /// read and written.
    pub fn weighted_row(row: &WeightedRow, sums: &mut WeightedSums, len: usize) = weighted_row_body;
    /// `values[i] = centres[i] + values[i] / weights[i]`.
    pub fn mean_row(values: &mut [f32], weights: &[f32], centres: &[f32]) = mean_row_body;
    /// `values[i] = values[i] / alphas[i]`, or 0 where `alphas[i] / weights[i]` counts as 0.
    pub fn opaque_mean_row(values: &mut [f32], weights: &[f32], alphas: &[f32])
        = opaque_mean_row_body;
}

#[inline(always)]
fn mean_row_body<S: Simd>(_: S, values: &mut [f32], weights: &[f32], centres: &[f32]) {
    for ((value, weight), centre) in values.iter_mut().zip(weights).zip(centres) {
        *value = centre + *value / weight;
    }
}

#[inline(always)]
fn opaque_mean_row_body<S: Simd>(_: S, values: &mut [f32], weights: &[f32], alphas: &[f32]) {
    for ((value, weight), alpha) in values.iter_mut().zip(weights).zip(alphas) {
        let quotient = *value / alpha;
        *value = if alpha / weight >= TRANSPARENT as f32 {
            quotient
        } else {
            0.0
        };
    }
}

#[inline(always)]
fn weighted_row_body<S: Simd>(simd: S, row: &WeightedRow, sums: &mut WeightedSums, len: usize) {
    const { assert!(S::LANES <= SLACK) };
    let reach = len.next_multiple_of(S::LANES);
    for values in row.values.iter().chain(&row.alpha) {
        let starts = values.len().checked_sub(reach).expect("a row of values");
        assert!(row.centre <= starts && row.taps.iter().all(|tap| tap.start <= starts));
    }
    let outputs = (sums.values.iter().take(row.values.len()))
        .chain(row.alpha.is_some().then_some(&sums.alpha));
    assert!(outputs.chain([&sums.weights]).all(|out| out.len() >= reach));
    // SAFETY: all that is read and written lies below `reach`, as just checked.
    unsafe {
        match (row.values.len(), row.alpha, row.euclidean) {
            // Of one channel both distances are the same.
            (1, None, _) => weighted::<S, 1, false, false>(simd, row, sums, reach),
            (1, Some(_), _) => weighted::<S, 1, true, false>(simd, row, sums, reach),
            (2, None, false) => weighted::<S, 2, false, false>(simd, row, sums, reach),
            (2, None, true) => weighted::<S, 2, false, true>(simd, row, sums, reach),
            (2, Some(_), false) => weighted::<S, 2, true, false>(simd, row, sums, reach),
            (2, Some(_), true) => weighted::<S, 2, true, true>(simd, row, sums, reach),
            (3, None, false) => weighted::<S, 3, false, false>(simd, row, sums, reach),
            (3, None, true) => weighted::<S, 3, false, true>(simd, row, sums, reach),
            (3, Some(_), false) => weighted::<S, 3, true, false>(simd, row, sums, reach),
            (3, Some(_), true) => weighted::<S, 3, true, true>(simd, row, sums, reach),
            (channels, ..) => panic!("{channels} channels share no weight"),
        }
    }
}

/// # Safety
/// `reach` values can be read from the centre and every tap, and written to the sums; it is a
/// multiple of `LANES`.
#[inline(always)]
unsafe fn weighted<S: Simd, const N: usize, const ALPHA: bool, const EUCLIDEAN: bool>(
    simd: S,
    row: &WeightedRow,
    sums: &mut WeightedSums,
    reach: usize,
) {
    let values: &[&[f32]; N] = row.values.try_into().expect("as many channels");
    let mut x = 0;
    // Several vectors at a time hide the latency of the exponential, as far as there are registers.
    if N == 1 && !ALPHA && S::LANES == 16 {
        while x + 4 * S::LANES <= reach {
            // SAFETY: the caller's promise.
            unsafe { block::<S, N, 4, ALPHA, EUCLIDEAN>(simd, row, values, sums, x) };
            x += 4 * S::LANES;
        }
    }
    while x + 2 * S::LANES <= reach {
        // SAFETY: the caller's promise.
        unsafe { block::<S, N, 2, ALPHA, EUCLIDEAN>(simd, row, values, sums, x) };
        x += 2 * S::LANES;
    }
    if x < reach {
        // SAFETY: the caller's promise.
        unsafe { block::<S, N, 1, ALPHA, EUCLIDEAN>(simd, row, values, sums, x) };
    }
}

/// `V` vectors from `x` on.
///
/// # Safety
/// As [`weighted`], and `x + V·LANES` is at most `reach`.
#[inline(always)]
unsafe fn block<
    S: Simd,
    const N: usize,
    const V: usize,
    const ALPHA: bool,
    const EUCLIDEAN: bool,
>(
    simd: S,
    row: &WeightedRow,
    values: &[&[f32]; N],
    sums: &mut WeightedSums,
    x: usize,
) {
    macro_rules! load {
        ($values:expr, $at:expr, $v:expr) => {
            // SAFETY: the caller's promise.
            unsafe { simd.load($values.as_ptr().add($at + x + $v * S::LANES)) }
        };
    }
    let color = simd.splat(row.color);
    let mut centres = [[simd.splat(0.0); V]; N];
    for (centres, values) in centres.iter_mut().zip(values) {
        for (v, centre) in centres.iter_mut().enumerate() {
            *centre = load!(values, row.centre, v);
        }
    }
    let mut weighted = if ALPHA {
        centres
    } else {
        [[simd.splat(0.0); V]; N]
    };
    let mut weights = [simd.splat(1.0); V];
    let mut alphas = [simd.splat(0.0); V];
    if let (true, Some(alpha)) = (ALPHA, row.alpha) {
        for (v, sum) in alphas.iter_mut().enumerate() {
            *sum = load!(alpha, row.centre, v);
        }
    }
    for tap in row.taps {
        let space = simd.splat(tap.weight);
        for v in 0..V {
            let mut differences = [simd.splat(0.0); N];
            for n in 0..N {
                differences[n] = simd.sub(load!(values[n], tap.start, v), centres[n][v]);
            }
            let squared = squared_distance::<S, N, EUCLIDEAN>(simd, &differences);
            let weight = simd.exp2(simd.mul_add(squared, color, space));
            weights[v] = simd.add(weights[v], weight);
            for n in 0..N {
                let value = if ALPHA {
                    load!(values[n], tap.start, v)
                } else {
                    differences[n]
                };
                weighted[n][v] = simd.mul_add(weight, value, weighted[n][v]);
            }
            if let (true, Some(alpha)) = (ALPHA, row.alpha) {
                alphas[v] = simd.mul_add(weight, load!(alpha, tap.start, v), alphas[v]);
            }
        }
    }
    for v in 0..V {
        let at = x + v * S::LANES;
        // SAFETY: the caller's promise.
        unsafe {
            for (out, weighted) in sums.values.iter_mut().zip(&weighted) {
                simd.store(out.as_mut_ptr().add(at), weighted[v]);
            }
            simd.store(sums.weights.as_mut_ptr().add(at), weights[v]);
            if ALPHA {
                simd.store(sums.alpha.as_mut_ptr().add(at), alphas[v]);
            }
        }
    }
}

#[inline(always)]
fn squared_distance<S: Simd, const N: usize, const EUCLIDEAN: bool>(
    simd: S,
    differences: &[S::F32; N],
) -> S::F32 {
    if EUCLIDEAN || N == 1 {
        let mut sum = simd.mul(differences[0], differences[0]);
        for difference in &differences[1..] {
            sum = simd.mul_add(*difference, *difference, sum);
        }
        sum
    } else {
        let mut sum = simd.abs(differences[0]);
        for difference in &differences[1..] {
            sum = simd.add(sum, simd.abs(*difference));
        }
        simd.mul(sum, sum)
    }
}
