//! Presets, derived sizes and coefficients, in float64. Their rank, and the error of kernels of lower rank, is
//! found by [`super::terms`].

use super::spec::{FilterSpec, Kernel, Matrix, Window};

/// The largest window radius, in luma pixels.
pub const MAX_RADIUS: u32 = 32;

/// Below this a sigma counts as 0: the nearest neighbour's weight underflows long before, and
/// `x² / sigma²` stays finite in float32 above.
pub const MIN_SIGMA: f64 = 1e-6;

/// A filtered alpha below this, in code values, counts as 0, so that a premultiplied colour is
/// not divided by what is left of weights which float32 rounds to 0.
pub const TRANSPARENT: f64 = 1.0 / 1_048_576.0;

/// Coefficients of a correlation, row by row; both sides odd.
#[derive(Debug, Clone, PartialEq)]
pub enum Coefficients {
    /// The outer product `vertical[j] * horizontal[i]`.
    Separable {
        horizontal: Vec<f64>,
        vertical: Vec<f64>,
    },
    /// Row-major.
    Full {
        width: usize,
        height: usize,
        weights: Vec<f64>,
    },
}

impl Coefficients {
    fn separable(horizontal: &[f64], vertical: &[f64]) -> Self {
        Coefficients::Separable {
            horizontal: horizontal.to_vec(),
            vertical: vertical.to_vec(),
        }
    }

    fn square(weights: &[f64]) -> Self {
        let side = weights.len().isqrt();
        Coefficients::Full {
            width: side,
            height: side,
            weights: weights.to_vec(),
        }
    }

    pub fn width(&self) -> usize {
        match self {
            Coefficients::Separable { horizontal, .. } => horizontal.len(),
            Coefficients::Full { width, .. } => *width,
        }
    }

    pub fn height(&self) -> usize {
        match self {
            Coefficients::Separable { vertical, .. } => vertical.len(),
            Coefficients::Full { height, .. } => *height,
        }
    }

    /// The coefficient of column `i` and row `j`.
    pub fn at(&self, i: usize, j: usize) -> f64 {
        match self {
            Coefficients::Separable {
                horizontal,
                vertical,
            } => vertical[j] * horizontal[i],
            Coefficients::Full { width, weights, .. } => weights[j * width + i],
        }
    }

    /// All coefficients, row by row.
    pub fn iter(&self) -> impl Iterator<Item = f64> + '_ {
        (0..self.height()).flat_map(move |j| (0..self.width()).map(move |i| self.at(i, j)))
    }

    pub fn sum(&self) -> f64 {
        self.iter().sum()
    }

    pub fn sum_of_magnitudes(&self) -> f64 {
        self.iter().map(f64::abs).sum()
    }

    /// Whether the coefficients cancel out: a sum below 1e-6 of the sum of magnitudes.
    pub fn sums_to_zero(&self) -> bool {
        self.sum().abs() <= 1e-6 * self.sum_of_magnitudes()
    }

    /// The coefficient in the middle, if every other one is 0.
    pub fn lone_centre(&self) -> Option<f64> {
        let (x, y) = (self.width() / 2, self.height() / 2);
        let beside = (0..self.height())
            .flat_map(|j| (0..self.width()).map(move |i| (i, j)))
            .any(|(i, j)| (i, j) != (x, y) && self.at(i, j) != 0.0);
        (!beside).then(|| self.at(x, y))
    }
}

/// The bilateral's window on one sampling grid.
#[derive(Debug, Clone, PartialEq)]
pub struct BilateralWindow {
    /// `(dx, dy, exponent)` of every offset but (0,0), row by row; offsets in samples of the
    /// grid, exponent = `-d² / (2·sigma_space²)`, the natural logarithm of the spatial weight.
    pub offsets: Vec<(i32, i32, f64)>,
    /// In 8-bit code values.
    pub sigma_color: f64,
}

/// What a spec computes on one sampling grid.
#[derive(Debug, Clone, PartialEq)]
pub enum Filter {
    /// `Σ K·in' / divisor`; the divisor is not 0.
    Linear {
        coefficients: Coefficients,
        divisor: f64,
    },
    /// `sqrt((Σ X·in')² + (Σ Y·in')²) / divisor`.
    Magnitude {
        x: Coefficients,
        y: Coefficients,
        divisor: f64,
    },
    Bilateral(BilateralWindow),
}

impl Filter {
    /// The filter of `spec` on a grid with a sample every `subsampling` luma pixels per axis, or
    /// `None` for `custom` without a matrix.
    pub fn new(spec: &FilterSpec, subsampling: (u32, u32)) -> Option<Filter> {
        let gradient = |smooth: &[f64; 3]| {
            let difference = [-1.0, 0.0, 1.0];
            (
                Coefficients::separable(&difference, smooth),
                Coefficients::separable(smooth, &difference),
            )
        };
        let magnitude = |(x, y)| Filter::Magnitude {
            x,
            y,
            divisor: given_or(spec.divisor, 1.0),
        };
        let whole = |coefficients| Filter::whole(coefficients, spec.divisor);
        let same = |axis: &[f64]| whole(Coefficients::separable(axis, axis));
        let of_sum_one = |coefficients| Filter::Linear {
            coefficients,
            divisor: given_or(spec.divisor, 1.0),
        };
        Some(match spec.kernel {
            Kernel::Identity => same(&[1.0]),
            Kernel::Box3 => same(&[1.0; 3]),
            Kernel::Box5 => same(&[1.0; 5]),
            Kernel::Box7 => same(&[1.0; 7]),
            Kernel::Box => {
                let axis = |s| vec![1.0; taps(box_radius(spec), s)];
                whole(Coefficients::Separable {
                    horizontal: axis(subsampling.0),
                    vertical: axis(subsampling.1),
                })
            }
            Kernel::Gauss3 => same(&[1.0, 2.0, 1.0]),
            Kernel::Gauss5 => same(&[1.0, 4.0, 6.0, 4.0, 1.0]),
            // The fixed tables of OpenCV's getGaussianKernel for 7 and 9 taps.
            Kernel::Gauss7 => same(&[2.0, 7.0, 14.0, 18.0, 14.0, 7.0, 2.0]),
            Kernel::Gauss9 => same(&[4.0, 13.0, 30.0, 51.0, 60.0, 51.0, 30.0, 13.0, 4.0]),
            Kernel::Gauss => {
                let (horizontal, vertical) = gauss_axes(spec, subsampling);
                of_sum_one(Coefficients::Separable {
                    horizontal,
                    vertical,
                })
            }
            Kernel::Sharpen => sharpen(spec),
            Kernel::Unsharp => of_sum_one(unsharp(spec, subsampling)),
            Kernel::Emboss => whole(Coefficients::square(&[
                -2.0, -1.0, 0.0, -1.0, 1.0, 1.0, 0.0, 1.0, 2.0,
            ])),
            Kernel::Laplacian => whole(Coefficients::square(&[
                0.0, 1.0, 0.0, 1.0, -4.0, 1.0, 0.0, 1.0, 0.0,
            ])),
            Kernel::SobelX => whole(gradient(&SOBEL).0),
            Kernel::SobelY => whole(gradient(&SOBEL).1),
            Kernel::Sobel => magnitude(gradient(&SOBEL)),
            Kernel::ScharrX => whole(gradient(&SCHARR).0),
            Kernel::ScharrY => whole(gradient(&SCHARR).1),
            Kernel::Scharr => magnitude(gradient(&SCHARR)),
            Kernel::PrewittX => whole(gradient(&PREWITT).0),
            Kernel::PrewittY => whole(gradient(&PREWITT).1),
            Kernel::Prewitt => magnitude(gradient(&PREWITT)),
            Kernel::Custom => custom(spec.matrix.as_ref()?, spec.divisor),
            Kernel::Bilateral => bilateral(spec, subsampling),
        })
    }

    /// Coefficients divided by `divisor`, or, where that is 0, by their sum, or by 1 if they
    /// cancel out.
    fn whole(coefficients: Coefficients, divisor: f64) -> Filter {
        let derived = if coefficients.sums_to_zero() {
            1.0
        } else {
            coefficients.sum()
        };
        Filter::Linear {
            divisor: given_or(divisor, derived),
            coefficients,
        }
    }

    fn copy() -> Filter {
        Filter::Linear {
            coefficients: Coefficients::separable(&[1.0], &[1.0]),
            divisor: 1.0,
        }
    }

    /// Whether a constant picture gives black: `planes=auto` then filters luma alone.
    pub fn sums_to_zero(&self) -> bool {
        match self {
            Filter::Linear { coefficients, .. } => coefficients.sums_to_zero(),
            Filter::Magnitude { x, y, .. } => x.sums_to_zero() && y.sums_to_zero(),
            Filter::Bilateral(_) => false,
        }
    }

    /// Whether a constant picture stays as it is: coefficients whose sum is the divisor.
    pub fn keeps_constants(&self) -> bool {
        match self {
            Filter::Linear {
                coefficients,
                divisor,
            } => (coefficients.sum() / divisor - 1.0).abs() <= 1e-6,
            Filter::Magnitude { .. } | Filter::Bilateral(_) => false,
        }
    }

    /// Whether the result is the input: one coefficient, equal to the divisor.
    pub fn is_copy(&self) -> bool {
        match self {
            Filter::Linear {
                coefficients,
                divisor,
            } => coefficients.lone_centre() == Some(*divisor),
            Filter::Magnitude { .. } | Filter::Bilateral(_) => false,
        }
    }
}

const SOBEL: [f64; 3] = [1.0, 2.0, 1.0];
const SCHARR: [f64; 3] = [3.0, 10.0, 3.0];
const PREWITT: [f64; 3] = [1.0, 1.0, 1.0];

/// The value of a property in which 0 stands for `derived`.
fn given_or(value: f64, derived: f64) -> f64 {
    if value == 0.0 { derived } else { value }
}

/// Coefficients per axis for a radius in luma pixels and a subsampling.
fn taps(radius: u32, subsampling: u32) -> usize {
    2 * radius.div_ceil(subsampling) as usize + 1
}

/// Numbers as they were written: the smallest power of ten that makes all of them whole, and the
/// whole numbers. `reads_as(x, i)` says whether `x` is read as the number `i`.
///
/// 0.3 is no binary fraction. Taken as 3 by 10, its products are exact, and halves are rounded as
/// halves on every engine; taken as a float32 they would fall to either side by chance.
fn as_written(numbers: &[f64], reads_as: impl Fn(f64, usize) -> bool) -> Option<(Vec<f64>, f64)> {
    /// Digits that every float32 keeps.
    const DIGITS: i32 = 6;
    /// Whole numbers below are exact in float32.
    const LARGEST: f64 = 16_777_216.0;
    (0..=DIGITS).map(|n| 10f64.powi(n)).find_map(|power| {
        let whole: Vec<f64> = numbers.iter().map(|x| (x * power).round()).collect();
        let same = whole
            .iter()
            .enumerate()
            .all(|(i, x)| x.abs() < LARGEST && reads_as(x / power, i));
        same.then_some((whole, power))
    })
}

/// `value * power` for a value in decimal notation.
fn times_power_of_ten(value: f64, power: f64) -> f64 {
    let whole = (value * power).round();
    if whole / power == value {
        whole
    } else {
        value * power
    }
}

fn custom(matrix: &Matrix, divisor: f64) -> Filter {
    let numbers: Vec<f64> = matrix.coefficients.iter().map(|&k| f64::from(k)).collect();
    let reads_as = |x: f64, i: usize| x as f32 == matrix.coefficients[i];
    let (weights, power) = as_written(&numbers, reads_as).unwrap_or((numbers, 1.0));
    let coefficients = Coefficients::Full {
        width: matrix.width,
        height: matrix.height,
        weights,
    };
    if divisor == 0.0 && coefficients.sums_to_zero() {
        return Filter::Linear {
            coefficients,
            divisor: power,
        };
    }
    Filter::whole(coefficients, times_power_of_ten(divisor, power))
}

/// `identity - amount · laplacian`.
fn sharpen(spec: &FilterSpec) -> Filter {
    let (whole, power) =
        as_written(&[spec.amount], |x, _| x == spec.amount).unwrap_or((vec![spec.amount], 1.0));
    let (a, centre) = (whole[0], power + 4.0 * whole[0]);
    Filter::Linear {
        coefficients: Coefficients::square(&[0.0, -a, 0.0, -a, centre, -a, 0.0, -a, 0.0]),
        divisor: times_power_of_ten(given_or(spec.divisor, 1.0), power),
    }
}

/// Radius of `box`, in luma pixels.
pub fn box_radius(spec: &FilterSpec) -> u32 {
    if spec.radius == 0 { 1 } else { spec.radius }
}

/// Radius and sigma of `gauss` and `unsharp`, in luma pixels. A radius of 0 is derived from sigma
/// (three sigmas, rounded up), a sigma of 0 from the radius by OpenCV's rule, both 0 give radius 2.
pub fn gauss_size(spec: &FilterSpec) -> (u32, f64) {
    let radius = match (spec.radius, spec.sigma) {
        (0, 0.0) => 2,
        (0, sigma) => ((3.0 * sigma).ceil() as u32).clamp(1, MAX_RADIUS),
        (radius, _) => radius,
    };
    let sigma = given_or(spec.sigma, 0.3 * (f64::from(radius) - 1.0) + 0.8);
    (radius, sigma)
}

/// Window radius of `bilateral`, in luma pixels; derived as OpenCV does.
pub fn bilateral_radius(spec: &FilterSpec) -> u32 {
    if spec.radius != 0 {
        return spec.radius;
    }
    ((1.5 * spec.sigma_space).round_ties_even() as u32).clamp(1, MAX_RADIUS)
}

/// A sampled Gaussian of sum 1.
fn gauss_axis(radius: u32, sigma: f64, subsampling: u32) -> Vec<f64> {
    let length = taps(radius, subsampling);
    let sigma = (sigma / f64::from(subsampling)).max(MIN_SIGMA);
    let centre = (length / 2) as f64;
    let weights: Vec<f64> = (0..length)
        .map(|i| (-(i as f64 - centre).powi(2) / (2.0 * sigma * sigma)).exp())
        .collect();
    let sum: f64 = weights.iter().sum();
    weights.iter().map(|weight| weight / sum).collect()
}

fn gauss_axes(spec: &FilterSpec, subsampling: (u32, u32)) -> (Vec<f64>, Vec<f64>) {
    let (radius, sigma) = gauss_size(spec);
    (
        gauss_axis(radius, sigma, subsampling.0),
        gauss_axis(radius, sigma, subsampling.1),
    )
}

/// `in + amount · (in - gauss)` as one kernel.
fn unsharp(spec: &FilterSpec, subsampling: (u32, u32)) -> Coefficients {
    let (horizontal, vertical) = gauss_axes(spec, subsampling);
    let (width, height) = (horizontal.len(), vertical.len());
    let mut weights: Vec<f64> = vertical
        .iter()
        .flat_map(|v| horizontal.iter().map(move |h| -spec.amount * v * h))
        .collect();
    weights[(height / 2) * width + width / 2] += 1.0 + spec.amount;
    Coefficients::Full {
        width,
        height,
        weights,
    }
}

/// The window in samples of the grid, with distances in luma pixels. A sigma of 0, or a window
/// of one sample (a small circle on a subsampled grid), leaves the picture as it is.
fn bilateral(spec: &FilterSpec, subsampling: (u32, u32)) -> Filter {
    if spec.sigma_space < MIN_SIGMA || spec.sigma_color < MIN_SIGMA {
        return Filter::copy();
    }
    let radius = bilateral_radius(spec);
    let reach = |s: u32| radius.div_ceil(s) as i32;
    let luma = |offset: i32, s: u32| f64::from(offset) * f64::from(s);
    let mut offsets = Vec::new();
    for dy in -reach(subsampling.1)..=reach(subsampling.1) {
        for dx in -reach(subsampling.0)..=reach(subsampling.0) {
            let squared = luma(dx, subsampling.0).powi(2) + luma(dy, subsampling.1).powi(2);
            let inside = match spec.window {
                Window::Circle => squared <= f64::from(radius).powi(2),
                Window::Square => true,
            };
            if inside && (dx, dy) != (0, 0) {
                let exponent = -squared / (2.0 * spec.sigma_space * spec.sigma_space);
                offsets.push((dx, dy, exponent));
            }
        }
    }
    if offsets.is_empty() {
        return Filter::copy();
    }
    Filter::Bilateral(BilateralWindow {
        offsets,
        sigma_color: spec.sigma_color,
    })
}

#[cfg(test)]
mod tests;
