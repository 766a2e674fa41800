//! Correlation by the Fourier transform, `method=fft`: what both engines compute, and how exactly.
//!
//! A rectangle of samples is transformed, multiplied by the spectrum of the kernel and transformed back.
//! The product is a correlation on a rectangle whose opposite edges meet, and right wherever no tap
//! crosses them: in all but `width - 1` columns and `height - 1` rows. Rectangles that overlap by so
//! many cover a picture (overlap-save; Stockham, "High-speed convolution and correlation", 1966), at a
//! cost a sample that hardly grows with the kernel.
//!
//! The kernel is real, so real and imaginary part of a complex signal are filtered apart from each
//! other: two rectangles are transformed at once. Two kernels on one rectangle, the second times i, give
//! the two sums of a gradient magnitude.
//!
//! # Exactness
//! Every result has an error of about 1e-7 in float32, or 2e-16 in float64, of what the magnitudes of the weights
//! sum to times the largest sample. Sums that are [whole](super::plan::Job::sums_are_whole) are rounded
//! to whole numbers, which makes them exact where that error is below a half.

use rustfft::FftPlanner;
use rustfft::num_complex::Complex64;

use super::plan::{Correlation, Job, Operation, Taps};

/// The most that the magnitudes of weights sum to times the largest sample, for whole sums that an error
/// of float32 leaves nearest to the right ones.
const WHOLE: f64 = 1_048_576.0;
/// The same divided by the divisor for any sums, that not one sample of a thousand may round otherwise, if results
/// are as likely between two codes as anywhere.
const PARTS: f64 = 16_384.0;
/// The same for samples of 16 bits, of which it may be one of a hundred.
const PARTS_OF_16_BITS: f64 = 131_072.0;

/// The kernels of an operation: two of a gradient magnitude, none of others than correlations.
fn kernels(operation: &Operation) -> Vec<&Correlation> {
    match operation {
        Operation::Correlate(kernel) => vec![kernel],
        Operation::Magnitude { x, y } => vec![x, y],
        Operation::None | Operation::Bilateral(_) => Vec::new(),
    }
}

/// How far the kernels of `operation` reach beyond the centre, horizontally and vertically.
pub fn radius(operation: &Operation) -> (usize, usize) {
    let radii = kernels(operation).into_iter().map(|k| k.taps.radius());
    radii.fold((0, 0), |most, (x, y)| (x.max(most.0), y.max(most.1)))
}

/// Whether float32 computes `job`, with code values up to `max_code`, to within one code value of the
/// canonical result, and to the same on 99.9 % of the samples, or 99 % of those of 16 bits.
pub fn float32_suffices(job: &Job, max_code: u32) -> bool {
    // A mean of alpha that is next to nothing has the error of all the alpha around.
    if job.premultiply {
        return false;
    }
    let largest = job.largest_input(max_code).unwrap_or(max_code as f32);
    let largest = f64::from(largest) + 1.0;
    let parts = match max_code {
        65535 => PARTS_OF_16_BITS,
        _ => PARTS,
    };
    let whole = job.sums_are_whole(max_code);
    kernels(&job.operation).into_iter().all(|kernel| {
        let sum = kernel.taps.sum_of_magnitudes() * largest;
        sum <= parts * f64::from(kernel.divisor).abs() || (whole && sum <= WHOLE)
    })
}

/// The spectrum of `operation` for rectangles of `columns` by `rows` samples, which its kernels fit into, row by
/// row, with the factor that is left of a transform there and back. In the product's back transform
/// the result of the sample (x, y) is at (x, y) less the [`radius`].
pub fn spectrum(operation: &Operation, columns: usize, rows: usize) -> Vec<Complex64> {
    let (rx, ry) = radius(operation);
    assert!(
        2 * rx < columns && 2 * ry < rows,
        "a kernel beyond {columns} by {rows}"
    );
    let mut spectrum = vec![Complex64::ZERO; columns * rows];
    for (kernel, factor) in (kernels(operation).into_iter()).zip([Complex64::ONE, Complex64::I]) {
        let (x0, y0) = kernel.taps.radius();
        let (x0, y0) = (rx - x0, ry - y0);
        let mut add = |i: usize, j: usize, weight: f64| {
            spectrum[(y0 + j) * columns + x0 + i] += factor * weight;
        };
        match &kernel.taps {
            Taps::Separable {
                horizontal,
                vertical,
            } => {
                for (j, &v) in vertical.iter().enumerate() {
                    for (i, &h) in horizontal.iter().enumerate() {
                        add(i, j, f64::from(h) * f64::from(v));
                    }
                }
            }
            Taps::Sum(terms) => {
                for term in terms {
                    for (j, &v) in term.vertical.iter().enumerate() {
                        for (i, &h) in term.horizontal.iter().enumerate() {
                            add(i, j, f64::from(h) * f64::from(v));
                        }
                    }
                }
            }
            Taps::Full { width, weights, .. } => {
                for (at, &weight) in weights.iter().enumerate() {
                    add(at % width, at / width, f64::from(weight));
                }
            }
        }
    }
    transform(&mut spectrum, columns);
    let mut turned = turn(&spectrum, columns);
    transform(&mut turned, rows);
    let factor = 1.0 / (columns * rows) as f64;
    turned.iter_mut().for_each(|value| *value *= factor);
    turn(&turned, rows)
}

/// The transforms of lines of `len` values, with the exponents' sign that a correlation takes.
fn transform(values: &mut [Complex64], len: usize) {
    FftPlanner::new().plan_fft_inverse(len).process(values);
}

/// The columns of rows of `columns` values as rows.
fn turn(values: &[Complex64], columns: usize) -> Vec<Complex64> {
    let column = |x: usize| values[x..].iter().step_by(columns).copied();
    (0..columns).flat_map(column).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The definition, at frequency (u, v) of a kernel whose first weight is at the origin.
    fn at(weights: &[(usize, usize, Complex64)], u: f64, v: f64) -> Complex64 {
        let turn = |x: usize, y: usize| {
            Complex64::cis(std::f64::consts::TAU * (u * x as f64 + v * y as f64))
        };
        weights
            .iter()
            .map(|&(x, y, weight)| weight * turn(x, y))
            .sum()
    }

    #[test]
    fn spectra_are_those_of_the_definition() {
        let full = Correlation {
            taps: Taps::Full {
                width: 3,
                height: 1,
                weights: vec![1.0, -2.0, 0.5],
            },
            divisor: 1.0,
        };
        let separable = Correlation {
            taps: Taps::Separable {
                horizontal: vec![3.0],
                vertical: vec![1.0, 0.0, -1.0],
            },
            divisor: 1.0,
        };
        let of = |x: usize, y: usize, re: f64, im: f64| (x, y, Complex64::new(re, im));
        let both = Operation::Magnitude {
            x: full.clone(),
            y: separable,
        };
        let cases = [
            (
                Operation::Correlate(full),
                vec![of(0, 0, 1.0, 0.0), of(1, 0, -2.0, 0.0), of(2, 0, 0.5, 0.0)],
            ),
            (
                both,
                vec![
                    of(0, 1, 1.0, 0.0),
                    of(1, 1, -2.0, 0.0),
                    of(2, 1, 0.5, 0.0),
                    of(1, 0, 0.0, 3.0),
                    of(1, 2, 0.0, -3.0),
                ],
            ),
        ];
        for (operation, weights) in cases {
            let (columns, rows) = (6, 4);
            let spectrum = spectrum(&operation, columns, rows);
            for (index, value) in spectrum.iter().enumerate() {
                let (u, v) = (index % columns, index / columns);
                let wanted = at(&weights, u as f64 / columns as f64, v as f64 / rows as f64);
                let wanted = wanted / (columns * rows) as f64;
                assert!((value - wanted).norm() < 1e-15, "{operation:?} at {u}, {v}");
            }
        }
    }
}
