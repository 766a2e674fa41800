//! Rows of samples to rows of float32 and back.

use crate::engine::cpu::isa::for_each_isa;
use crate::engine::cpu::simd::Simd;
use crate::filter::kernels::TRANSPARENT;
use crate::filter::layout::{Sample, code_bits};

for_each_isa! {
    /// `out[i]` = the code value of the sample at `bytes[i * step]`, less `zero`.
    pub fn read_row(bytes: &[u8], sample: Sample, step: usize, zero: f32, out: &mut [f32])
        = read_row_body;
}

#[inline(always)]
fn read_row_body<S: Simd>(
    _: S,
    bytes: &[u8],
    sample: Sample,
    step: usize,
    zero: f32,
    out: &mut [f32],
) {
    match sample {
        Sample::U8 => {
            let value = |[byte]: [u8; 1]| f32::from(byte) - zero;
            match step {
                1 => read_steps::<1, 1>(bytes, 1, out, value),
                2 => read_steps::<1, 2>(bytes, 2, out, value),
                3 => read_steps::<1, 3>(bytes, 3, out, value),
                4 => read_pixels(bytes, out, value),
                _ => read_steps::<1, 0>(bytes, step, out, value),
            }
        }
        Sample::U16Le { shift, depth } => {
            let mask = code_bits(depth);
            let value = |bytes| f32::from(u16::from_le_bytes(bytes) >> shift & mask) - zero;
            match step {
                2 => read_steps::<2, 2>(bytes, 2, out, value),
                4 => read_steps::<2, 4>(bytes, 4, out, value),
                _ => read_steps::<2, 0>(bytes, step, out, value),
            }
        }
        Sample::U16Be => {
            let value = |bytes| f32::from(u16::from_be_bytes(bytes)) - zero;
            match step {
                2 => read_steps::<2, 2>(bytes, 2, out, value),
                _ => read_steps::<2, 0>(bytes, step, out, value),
            }
        }
    }
}

/// A `STEP` that the compiler knows lets it load whole vectors; 0 stands for any.
#[inline(always)]
fn read_steps<const BYTES: usize, const STEP: usize>(
    bytes: &[u8],
    step: usize,
    out: &mut [f32],
    value: impl Fn([u8; BYTES]) -> f32,
) {
    let step = if STEP == 0 { step } else { STEP };
    let Some(last) = out.len().checked_sub(1) else {
        return;
    };
    assert!(last * step + BYTES <= bytes.len());
    for (i, out) in out.iter_mut().enumerate() {
        // SAFETY: i is at most `last`, whose sample ends within `bytes`.
        let sample = unsafe { bytes.as_ptr().add(i * step).cast::<[u8; BYTES]>().read() };
        *out = value(sample);
    }
}

/// Bytes four apart, as the low bytes of 32-bit numbers: vectors of those need no shuffle.
#[inline(always)]
fn read_pixels(bytes: &[u8], out: &mut [f32], value: impl Fn([u8; 1]) -> f32) {
    // The last may lack the bytes that follow the others.
    let whole = bytes.as_chunks().0;
    assert!(out.len() <= bytes.len().div_ceil(4));
    for (out, pixel) in out.iter_mut().zip(whole) {
        *out = value([(u32::from_le_bytes(*pixel) & 0xFF) as u8]);
    }
    if let Some(last) = out.get_mut(whole.len()) {
        *last = value([bytes[4 * whole.len()]]);
    }
}

/// Division by a constant, exactly as IEEE division rounds it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Divisor {
    One,
    /// By a power of two: this is its inverse, and the product is the very quotient.
    Inverse(f32),
    Any(f32),
}

impl Divisor {
    pub fn new(divisor: f32) -> Divisor {
        let inverse = 1.0 / divisor;
        // A power of two has no bits of the significand but the implied one.
        let power_of_two = divisor.is_normal() && divisor.to_bits().trailing_zeros() >= 23;
        if divisor == 1.0 {
            Divisor::One
        } else if power_of_two && inverse.is_normal() {
            Divisor::Inverse(inverse)
        } else {
            Divisor::Any(divisor)
        }
    }
}

/// How sums become samples.
#[derive(Debug, Clone, Copy)]
pub struct Finish {
    pub divisor: Divisor,
    /// Added after the division.
    pub offset: f32,
    /// The largest code value.
    pub max: f32,
    pub sample: Sample,
}

for_each_isa! {
    /// Samples side by side from sums: `clamp(round_half_even(sum / divisor + offset))`.
    pub fn finish_row(sums: &[f32], finish: &Finish, out: &mut [u8]) = finish_row_body;
    /// `values[i]` = the whole number next to it, halves to even.
    pub fn round_row(values: &mut [f32]) = round_row_body;
    /// `values[i] = values[i] / divisor`.
    pub fn divide_row(values: &mut [f32], divisor: Divisor) = divide_row_body;
    /// `colours[i] = colours[i] / alphas[i]`, 0 where alpha is not above 0.
    pub fn divide_by_alpha_row(colours: &mut [f32], alphas: &[f32]) = divide_by_alpha_row_body;
}

for_each_isa! {
    /// `x[i] = sqrt(fma(y[i], y[i], x[i]·x[i]))`.
    pub fn magnitude_row(x: &mut [f32], y: &[f32]) = magnitude_row_body;
    /// `x[i] = x[i]·y[i]`.
    pub fn multiply_row(x: &mut [f32], y: &[f32]) = multiply_row_body;
}

#[inline(always)]
fn magnitude_row_body<S: Simd>(_: S, x: &mut [f32], y: &[f32]) {
    for (x, y) in x.iter_mut().zip(y) {
        *x = y.mul_add(*y, *x * *x).sqrt();
    }
}

#[inline(always)]
fn multiply_row_body<S: Simd>(_: S, x: &mut [f32], y: &[f32]) {
    for (x, y) in x.iter_mut().zip(y) {
        *x *= y;
    }
}

#[inline(always)]
fn finish_row_body<S: Simd>(_: S, sums: &[f32], finish: &Finish, out: &mut [u8]) {
    match finish.divisor {
        Divisor::One => finish_samples(sums, finish, out, |sum| sum),
        Divisor::Inverse(inverse) => finish_samples(sums, finish, out, |sum| sum * inverse),
        Divisor::Any(divisor) => finish_samples(sums, finish, out, |sum| sum / divisor),
    }
}

#[inline(always)]
fn finish_samples(sums: &[f32], finish: &Finish, out: &mut [u8], divided: impl Fn(f32) -> f32) {
    let (offset, max) = (finish.offset, finish.max);
    assert!((0.0..=65535.0).contains(&max));
    let code = |sum: f32| {
        let value = (divided(sum) + offset).round_ties_even();
        // Comparisons rather than `clamp`: one instruction each, and NaN becomes 0.
        let value = if value > 0.0 { value } else { 0.0 };
        let value = if value < max { value } else { max };
        // SAFETY: between 0 and `max`, which is at most 65535.
        unsafe { value.to_int_unchecked::<i32>() as u16 }
    };
    match finish.sample {
        Sample::U8 => {
            for (out, &sum) in out.iter_mut().zip(sums) {
                *out = code(sum) as u8;
            }
        }
        Sample::U16Le { shift, .. } => {
            for (out, &sum) in out.as_chunks_mut().0.iter_mut().zip(sums) {
                *out = (code(sum) << shift).to_le_bytes();
            }
        }
        Sample::U16Be => {
            for (out, &sum) in out.as_chunks_mut().0.iter_mut().zip(sums) {
                *out = code(sum).to_be_bytes();
            }
        }
    }
}

#[inline(always)]
fn round_row_body<S: Simd>(_: S, values: &mut [f32]) {
    for value in values {
        *value = value.round_ties_even();
    }
}

#[inline(always)]
fn divide_row_body<S: Simd>(_: S, values: &mut [f32], divisor: Divisor) {
    match divisor {
        Divisor::One => {}
        Divisor::Inverse(inverse) => values.iter_mut().for_each(|value| *value *= inverse),
        Divisor::Any(divisor) => values.iter_mut().for_each(|value| *value /= divisor),
    }
}

#[inline(always)]
fn divide_by_alpha_row_body<S: Simd>(_: S, colours: &mut [f32], alphas: &[f32]) {
    for (colour, &alpha) in colours.iter_mut().zip(alphas) {
        let quotient = *colour / alpha;
        *colour = if alpha >= TRANSPARENT as f32 {
            quotient
        } else {
            0.0
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::cpu::isa::Isa;

    #[test]
    fn powers_of_two_divide_by_their_inverse() {
        assert_eq!(Divisor::new(1.0), Divisor::One);
        assert_eq!(Divisor::new(16.0), Divisor::Inverse(0.0625));
        assert_eq!(Divisor::new(-0.5), Divisor::Inverse(-2.0));
        assert_eq!(Divisor::new(9.0), Divisor::Any(9.0));
        assert_eq!(
            Divisor::new(f32::MIN_POSITIVE / 2.0),
            Divisor::Any(f32::MIN_POSITIVE / 2.0)
        );
        // 2^127, whose inverse is subnormal.
        assert_eq!(Divisor::new(2f32.powi(127)), Divisor::Any(2f32.powi(127)));
    }

    #[test]
    fn samples_of_every_kind_and_step_read_as_their_codes() {
        for isa in Isa::all() {
            for sample in [
                Sample::U8,
                Sample::U16Le {
                    shift: 0,
                    depth: 16,
                },
                Sample::U16Le {
                    shift: 0,
                    depth: 10,
                },
                Sample::U16Le {
                    shift: 6,
                    depth: 10,
                },
                Sample::U16Be,
            ] {
                for step in sample.bytes()..9 {
                    for len in [0, 1, 7, 33, 100] {
                        let bytes: Vec<u8> =
                            (0..(len * step)).map(|i| (i * 73 + 5) as u8).collect();
                        let mut values = vec![0.0; len];
                        read_row(isa, &bytes, sample, step, 3.0, &mut values);
                        for (i, value) in values.iter().enumerate() {
                            assert_eq!(*value, sample.read(&bytes[i * step..]) as f32 - 3.0);
                        }
                    }
                }
            }
        }
    }

    #[test]
    fn sums_round_half_to_even_and_clamp() {
        for isa in Isa::all() {
            let finish = Finish {
                divisor: Divisor::new(2.0),
                offset: 1.0,
                max: 255.0,
                sample: Sample::U8,
            };
            let sums = [
                -7.0,
                -1.0,
                0.0,
                1.0,
                2.0,
                3.0,
                507.0,
                509.0,
                1e9,
                f32::NAN,
                f32::INFINITY,
            ];
            let mut out = [9; 11];
            finish_row(isa, &sums, &finish, &mut out);
            assert_eq!(out, [0, 0, 1, 2, 2, 2, 254, 255, 255, 0, 255]);
        }
    }
}
