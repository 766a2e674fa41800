//! The filter of a launch: its parameter checked, and the weights that it reads from memory.

use super::Filter;
use crate::abi::band::Bands;
use crate::abi::{
    BilateralLaunch, ConvolveLaunch, Frame, INLINE_WEIGHTS, Kernel, LINEAR_WEIGHTS, MAX_RADIUS,
    Weights, distance, line_length, matrix,
};
use crate::kernels::bilateral::Bilateral;
use crate::kernels::linear::{Linear, kernels, weight_count};
use crate::kernels::{fast, fourier, halves, limits, split};
use crate::memory::{Device, Memory, Rows};
use crate::violation;
use crate::world::Handle;

impl Filter {
    pub fn frame(&self) -> &Frame {
        match self {
            Filter::Linear(launch) => &launch.frame,
            Filter::Bilateral(launch) => &launch.frame,
            Filter::Fast(launch) => &launch.frame,
        }
    }

    pub fn margin(&self) -> (usize, usize) {
        match self {
            Filter::Linear(launch) => Linear::new(launch, &[]).margin(),
            Filter::Bilateral(launch) => Bilateral::new(launch, &[]).margin(),
            Filter::Fast(launch) => fast::margin(launch),
        }
    }

    /// Ends the process when the filter is none.
    pub(super) fn check(&self) {
        match self {
            Filter::Linear(launch) => check_linear(launch),
            Filter::Bilateral(launch) => check_bilateral(launch),
            Filter::Fast(launch) => fast::check(launch),
        }
    }

    /// The filter of jobs that say that they are filtered by the second kernel of a launch, if there are any: the same
    /// launch with that kernel for its first. Ends the process where `kernel` takes one alone.
    pub fn of_second_kernel(&self, kernel: Kernel) -> Option<Filter> {
        let Filter::Linear(launch) = self else {
            return None;
        };
        let jobs = &launch.frame.jobs[..launch.frame.job_count as usize];
        let most = jobs
            .iter()
            .map(|job| job.joint_or_filter)
            .max()
            .unwrap_or(0);
        if most == 0 {
            return None;
        }
        if most > 1 || launch.kernel_count != 1 || !kernel.takes_filters_of_jobs() {
            violation!("{} has no kernel {most} for a job", kernel.name());
        }
        let mut second = launch.clone();
        second.kernels[0] = launch.kernels[1];
        let first = launch.kernels[1].first as usize;
        let behind_the_first = weight_count(&launch.kernels[0]);
        if first != behind_the_first || first > LINEAR_WEIGHTS {
            violation!("weights of a second kernel from {first} on");
        }
        second.kernels[0].first = 0;
        second.inline_weights.rotate_left(first);
        Some(Filter::Linear(second))
    }

    /// Index beyond the last weight that is read.
    fn weight_end(&self) -> usize {
        match self {
            Filter::Linear(launch) => (kernels(launch).iter())
                .map(|taps| taps.first as usize + weight_count(taps))
                .max()
                .unwrap_or(0),
            Filter::Bilateral(launch) => {
                (launch.radius_x as usize + 1) * (launch.radius_y as usize + 1)
            }
            Filter::Fast(_) => 0,
        }
    }

    /// The weights in device memory, for kernels that read them there.
    pub(super) fn find_weights(
        &self,
        kernel: Kernel,
        memory: &Memory,
        context: Handle,
    ) -> Option<(Device, Rows)> {
        if kernel.weights() == Weights::Spectrum {
            return None;
        }
        let end = self.weight_end();
        if !matches!(kernel.weights(), Weights::Device | Weights::Bands) {
            let most = match self {
                Filter::Linear(_) => LINEAR_WEIGHTS,
                Filter::Bilateral(_) | Filter::Fast(_) => INLINE_WEIGHTS,
            };
            if end > most {
                violation!("{end} weights do not fit into the launch");
            }
            return None;
        }
        let address = match self {
            Filter::Linear(launch) => launch.weights,
            Filter::Bilateral(launch) => launch.weights,
            Filter::Fast(_) => 0,
        };
        if !address.is_multiple_of(16) {
            violation!("the weights at {address:#x} are not aligned");
        }
        let rows = Rows::bytes(address, 4 * end as u64);
        Some((memory.device(&rows, context, "the weights"), rows))
    }
}

impl Filter {
    /// The matrices of a kernel that multiplies by them. They were there before the launch; ends the
    /// process when they are not those of the weights.
    pub(super) fn find_matrices(
        &self,
        kernel: Kernel,
        weights: Option<&(Device, Rows)>,
        memory: &Memory,
        context: Handle,
    ) -> Option<Rows> {
        let Filter::Linear(launch) = self else {
            return None;
        };
        let taps = &launch.kernels[0];
        let (table, sum, at) = match kernel.weights() {
            Weights::Halves => {
                let table = halves::matrices(launch).table(kernel.reach()?);
                (table, launch.sum, launch.weights)
            }
            Weights::Split => {
                return Some(split::check(launch, kernel.reach()?, memory, context));
            }
            Weights::Matrices => {
                let weights = &launch.inline_weights[taps.first as usize..];
                let across = &weights[..taps.width as usize];
                let down = &weights[line_length(across.len())..][..taps.height as usize];
                let sum = across.iter().sum::<f32>() * down.iter().sum::<f32>();
                (matrix::table(across, down), sum, launch.weights)
            }
            Weights::Bands => {
                let (device, rows) = weights?;
                let lines = read_floats(device, rows);
                let lines = lines.chunks_exact(line_length(taps.width as usize));
                let weights: Vec<f32> = lines
                    .flat_map(|line| &line[..taps.width as usize])
                    .copied()
                    .collect();
                let bands = check_digits(kernel, launch, &weights);
                let sum = weights.iter().map(|&weight| f64::from(weight)).sum::<f64>();
                (bands.table(taps.width as usize), sum as f32, rows.end())
            }
            Weights::Inline | Weights::Columns | Weights::Device | Weights::Spectrum => {
                return None;
            }
        };
        if launch.sum != sum {
            violation!("{} for a sum of {sum}", launch.sum);
        }
        let expected: Vec<u8> = (table.iter()).flat_map(|word| word.to_le_bytes()).collect();
        let rows = Rows::bytes(at, expected.len() as u64);
        let device = memory.device(&rows, context, "the matrices");
        if !at.is_multiple_of(16) || device.read(&rows) != expected {
            violation!("the matrices at {at:#x} are not those of {taps:?}");
        }
        Some(rows)
    }
}

impl Filter {
    /// The weights of which there is a spectrum in device memory, and where that is. It was there before the launch, in
    /// which they are from now on said to be as many lines as the kernel is high.
    pub(super) fn find_spectrum(
        &mut self,
        kernel: Kernel,
        memory: &Memory,
        context: Handle,
    ) -> Option<(Vec<f32>, Rows)> {
        let Filter::Linear(launch) = self else {
            return None;
        };
        if kernel.weights() != Weights::Spectrum {
            return None;
        }
        let rows = Rows::bytes(launch.weights, fourier::BYTES);
        let table = read_floats(&memory.device(&rows, context, "the spectrum"), &rows);
        if !launch.weights.is_multiple_of(16) {
            violation!("the spectrum at {:#x} is not aligned", launch.weights);
        }
        launch.kernels[0].separable = 0;
        Some((fourier::weights(&launch.kernels[0], &table), rows))
    }
}

fn check_linear(launch: &ConvolveLaunch) {
    if !(1..=2).contains(&launch.kernel_count) {
        violation!("{} kernels", launch.kernel_count);
    }
    for taps in kernels(launch) {
        let side = |side: u32| side % 2 == 1 && side as usize / 2 <= MAX_RADIUS;
        let same_size =
            taps.width == launch.kernels[0].width && taps.height == launch.kernels[0].height;
        if !side(taps.width)
            || !side(taps.height)
            || (taps.separable > 1 && launch.kernel_count > 1)
            || taps.first % 4 != 0
            || !same_size
        {
            violation!("{taps:?}");
        }
    }
    if !launch.divisor.is_finite() || launch.divisor == 0.0 {
        violation!("a divisor of {}", launch.divisor);
    }
    if launch.reciprocal != 1.0 / launch.divisor {
        violation!(
            "{} for the reciprocal of {}",
            launch.reciprocal,
            launch.divisor
        );
    }
}

/// Digits of `weights`; ends the process unless they are those of a launch.
fn check_digits(kernel: Kernel, launch: &ConvolveLaunch, weights: &[f32]) -> Bands {
    let samples = limits::summed_up(launch);
    let bands = match kernel {
        Kernel::ConvolveMatrixNearU8 | Kernel::ConvolveMatrixNearU16 => {
            Bands::near(weights, launch.divisor, samples)
        }
        Kernel::ConvolveMatrixRoughU8 => Bands::rough(weights, launch.divisor),
        _ => Bands::whole(weights, launch.divisor, samples),
    };
    let Some(bands) = bands else {
        violation!("weights of too many digits");
    };
    let said = (
        launch.digits as usize,
        launch.sum_of_digits,
        launch.factor,
        launch.tolerance,
    );
    if said != (bands.digits, bands.sum(), bands.factor, bands.tolerance) {
        violation!("{said:?} for {bands:?}");
    }
    bands
}

pub(super) fn read_floats(device: &Device, rows: &Rows) -> Vec<f32> {
    let words = read_words(device, rows);
    words.into_iter().map(f32::from_bits).collect()
}

pub fn read_words(device: &Device, rows: &Rows) -> Vec<u32> {
    let bytes = device.read(rows);
    let words = bytes.chunks_exact(4);
    words
        .map(|b| u32::from_le_bytes([b[0], b[1], b[2], b[3]]))
        .collect()
}

fn check_bilateral(launch: &BilateralLaunch) {
    let (rx, ry) = (launch.radius_x as usize, launch.radius_y as usize);
    if rx.max(ry) > MAX_RADIUS || launch.distance > distance::L2 {
        violation!("radii {rx} and {ry}, distance {}", launch.distance);
    }
    if launch.spans[..=ry]
        .iter()
        .any(|span| usize::from(*span) > rx)
    {
        violation!("a row of the window is wider than its radius");
    }
    let reach = |dx| {
        (0..=ry)
            .rev()
            .find(|&dy| usize::from(launch.spans[dy]) >= dx)
    };
    if (0..=rx).any(|dx| Some(usize::from(launch.columns[dx])) != reach(dx)) {
        violation!("columns of the window that are not those of its rows");
    }
}
