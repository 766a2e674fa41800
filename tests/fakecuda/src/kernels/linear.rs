//! Correlation and gradient magnitude.

use super::image::Picture;
use crate::abi::band::Bands;
use crate::abi::{ConvolveLaunch, Kernel, Taps, line_length, sample, slabs};
use crate::violation;

/// A linear filter, with its weights where the kernel reads them.
pub struct Linear<'a> {
    launch: &'a ConvolveLaunch,
    weights: &'a [f32],
}

impl<'a> Linear<'a> {
    pub fn new(launch: &'a ConvolveLaunch, weights: &'a [f32]) -> Self {
        Linear { launch, weights }
    }

    /// Samples that the filter reaches beyond the centre, across and down.
    pub fn margin(&self) -> (usize, usize) {
        let largest = |side: fn(&Taps) -> u32| {
            let sides = kernels(self.launch).iter().map(side);
            sides.max().map_or(0, |side| side as usize / 2)
        };
        (largest(|taps| taps.width), largest(|taps| taps.height))
    }

    /// Sum (or magnitude of two sums) by divisor of every sample, row by row.
    pub fn filter(&self, picture: &Picture, width: usize, height: usize) -> Vec<f32> {
        let divisor = self.launch.divisor;
        let of_bytes = self.launch.frame.sample == sample::U8;
        if of_bytes && self.launch.factor != 0.0 && self.launch.tolerance == 0.0 {
            return self.by_digits(&self.launch.kernels[0], picture, width, height);
        }
        let sums = |taps: &Taps| self.sums(taps, picture, width, height);
        match kernels(self.launch) {
            [x, y] => (sums(x).iter().zip(sums(y)))
                .map(|(sx, sy)| sy.mul_add(sy, sx * sx).sqrt() / divisor)
                .collect(),
            all => sums(&all[0]).iter().map(|sum| sum / divisor).collect(),
        }
    }

    /// What becomes of the sums of one kernel by the digits of its weights.
    fn by_digits(&self, taps: &Taps, picture: &Picture, width: usize, height: usize) -> Vec<f32> {
        let (columns, rows) = (taps.width as usize, taps.height as usize);
        let lines = self.weights[taps.first as usize..].chunks_exact(line_length(columns));
        let weights: Vec<f32> = lines
            .take(rows)
            .flat_map(|line| &line[..columns])
            .copied()
            .collect();
        let bands = Bands::rough(&weights, self.launch.divisor).expect("it was checked");
        // Whole numbers, which float64 holds.
        let mut sums = vec![0.0f64; width * height];
        let above = -(rows as isize / 2);
        for (y, sums) in (above..).zip(sums.chunks_exact_mut(width)) {
            for (y, values) in (y..).zip(bands.values().chunks_exact(columns)) {
                for (x, &value) in (-(columns as isize / 2)..).zip(values) {
                    for (sum, sample) in sums.iter_mut().zip(picture.row(y, x, width)) {
                        *sum += f64::from(value) * f64::from(*sample);
                    }
                }
            }
        }
        sums.iter()
            .map(|&sum| sum as f32 * self.launch.factor)
            .collect()
    }

    /// The sums of one kernel, row by row.
    fn sums(&self, taps: &Taps, picture: &Picture, width: usize, height: usize) -> Vec<f32> {
        let (columns, rows) = (taps.width as usize, taps.height as usize);
        let (left, above) = (-(columns as isize / 2), -(rows as isize / 2));
        let weights = &self.weights[taps.first as usize..];
        let line = line_length(columns);
        let mut sums = vec![0.0; width * height];
        if taps.separable == 0 {
            for (y, sums) in (above..).zip(sums.chunks_exact_mut(width)) {
                for (y, weights) in (y..).zip(weights.chunks(line).take(rows)) {
                    across(sums, &weights[..columns], |x| {
                        picture.row(y, left + x, width)
                    });
                }
            }
            return sums;
        }
        let terms = weights.chunks(line + line_length(rows));
        for term in terms.take(taps.separable as usize) {
            let (horizontal, vertical) = (&term[..columns], &term[line..]);
            let mut passed = vec![0.0; width * (height + rows - 1)];
            for (y, sums) in (above..).zip(passed.chunks_exact_mut(width)) {
                across(sums, horizontal, |x| picture.row(y, left + x, width));
            }
            for (y, sums) in sums.chunks_exact_mut(width).enumerate() {
                across(sums, &vertical[..rows], |j| {
                    &passed[(y + j as usize) * width..][..width]
                });
            }
        }
        sums
    }
}

/// Adds to each sum, weight by weight, its product with the value at the same place of the row
/// that belongs to the weight.
fn across<'a>(sums: &mut [f32], weights: &[f32], row: impl Fn(isize) -> &'a [f32]) {
    for (weight, index) in weights.iter().zip(0..) {
        add_products(sums, row(index), *weight);
    }
}

fn add_products(sums: &mut [f32], values: &[f32], weight: f32) {
    #[cfg(target_arch = "x86_64")]
    if is_x86_feature_detected!("fma") {
        // SAFETY: the processor has the instructions.
        return unsafe { add_products_by_fma(sums, values, weight) };
    }
    add_each_product(sums, values, weight);
}

/// The same in instructions: without them each fused multiply-add is a call.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "fma")]
fn add_products_by_fma(sums: &mut [f32], values: &[f32], weight: f32) {
    add_each_product(sums, values, weight);
}

#[inline(always)]
fn add_each_product(sums: &mut [f32], values: &[f32], weight: f32) {
    for (sum, value) in sums.iter_mut().zip(values) {
        *sum = weight.mul_add(*value, *sum);
    }
}

/// The kernels of a launch that are used.
pub fn kernels(launch: &ConvolveLaunch) -> &[Taps] {
    &launch.kernels[..launch.kernel_count as usize]
}

/// The weights of a separable kernel in the launch, across and down.
pub fn lines<'a>(launch: &'a ConvolveLaunch, taps: &Taps) -> (&'a [f32], &'a [f32]) {
    let (width, height) = (taps.width as usize, taps.height as usize);
    let weights = &launch.inline_weights[taps.first as usize..];
    (&weights[..width], &weights[line_length(width)..][..height])
}

/// Gives a launch whose weights are [scaled](slabs) those that they stand for.
pub fn unscale(launch: &mut ConvolveLaunch) {
    let divisor = match launch.kernel_count {
        1 => slabs::folded(launch.divisor),
        _ => 1.0,
    };
    for index in 0..launch.kernel_count as usize {
        let taps = launch.kernels[index];
        let (across, down) = lines(launch, &taps);
        let (across, down) = slabs::unscaled(across, down, divisor);
        let first = taps.first as usize;
        launch.inline_weights[first..][..across.len()].copy_from_slice(&across);
        let first = first + line_length(across.len());
        launch.inline_weights[first..][..down.len()].copy_from_slice(&down);
    }
}

/// The launch of chroma, of one for packed 4:2:2 by `kernel`, of `side` taps across and down, whose weights for chroma are
/// others than luma's, which are [unscaled](unscale) already. Ends the process where these are not what the kernel takes.
pub fn chroma(kernel: Kernel, side: usize, launch: &ConvolveLaunch) -> Option<Box<ConvolveLaunch>> {
    let taps = launch.kernels[1];
    if launch.kernel_count != 1 || taps.width == 0 || !kernel.needs_packed_422() {
        return None;
    }
    let expected = Taps {
        width: slabs::chroma_taps(side) as u32,
        height: side as u32,
        separable: 1,
        first: slabs::CHROMA_WEIGHTS as u32,
    };
    if taps != expected {
        violation!("{} for chroma with {taps:?}", kernel.name());
    }
    let mut chroma = Box::new(*launch);
    chroma.kernels[0] = taps;
    unscale(&mut chroma);
    if lines(&chroma, &taps).1 != lines(launch, &launch.kernels[0]).1 {
        violation!("{} for chroma with other weights down", kernel.name());
    }
    Some(chroma)
}

/// Weights of one kernel.
pub fn weight_count(taps: &Taps) -> usize {
    let (width, height) = (taps.width as usize, taps.height as usize);
    if taps.separable == 0 {
        line_length(width) * height
    } else {
        taps.separable as usize * (line_length(width) + line_length(height))
    }
}
