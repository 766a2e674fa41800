//! Which kernel on the matrix units computes a correlation.

use crate::engine::cuda::abi::band::{Bands, Samples, quotients_decide};
use crate::engine::cuda::abi::halves::{self, MOST_GAIN};
use crate::engine::cuda::abi::matrix::{self, MATRIX_SUM};
use crate::engine::cuda::abi::split::Split;
use crate::engine::cuda::abi::{Kernel, MAX_CHANNELS, Needs};
use crate::engine::cuda::choose::{Capability, edge_is_code, is_in_rows, radius, takes_channels};
use crate::filter::Layout;
use crate::filter::layout::Sample;
use crate::filter::plan::{Action, Algorithm, Correlation, Job, Operation, Taps};

/// The kernel on the matrix units that computes `jobs`, which have one operation and lie in rows of `channels`, if sums
/// are whole numbers.
pub fn by_matrices(layout: &Layout, jobs: &[&Job], channels: usize) -> Option<Kernel> {
    let operation = &jobs.first()?.operation;
    let Operation::Correlate(kernel) = operation else {
        return None;
    };
    let (horizontal, vertical) = kernel.taps.lines()?;
    let (rx, ry) = radius(operation);
    let (across, down) = matrix::most_radius(channels);
    let are_bytes = |weights: &[f32]| weights.iter().all(|weight| (0.0..=255.0).contains(weight));
    let can = rx <= across
        && ry <= down
        && are_bytes(horizontal)
        && are_bytes(vertical)
        && horizontal.iter().sum::<f32>() <= MATRIX_SUM
        && kernel.sums_are_whole(layout.max_code() as f32);
    if !can {
        return None;
    }
    Some(match jobs.iter().all(|job| is_shifted(kernel, job)) {
        true => Kernel::SeparableMatrixU8,
        false => Kernel::SeparableMatrixDividedU8,
    })
}

/// Of the jobs that `job`, which lies in rows, is launched as.
pub fn channels_in_rows(job: &Job) -> usize {
    match job.group.is_packed(1) {
        true => job.group.channels.len(),
        false => 1,
    }
}

/// The kernel on the matrix units that computes `job` with weights rounded to float16, if it is separable, of
/// bytes, and errors do not grow much.
pub fn by_halves(
    algorithm: Algorithm,
    layout: &Layout,
    job: &Job,
    capability: Capability,
) -> Option<Kernel> {
    let (Algorithm::Separable, Operation::Correlate(kernel)) = (algorithm, &job.operation) else {
        return None;
    };
    let (horizontal, vertical) = kernel.taps.lines()?;
    let can = layout.sample == Sample::U8
        && is_in_rows(layout, job)
        && !job.premultiply
        && edge_is_code(layout, job)
        && halves::gain(horizontal, vertical, kernel.divisor) <= MOST_GAIN;
    let kernels = match is_three_of_four(job) {
        true => [Kernel::SeparablePixelsU8, Kernel::SeparablePixelsWideU8],
        false => [Kernel::SeparableHalfU8, Kernel::SeparableHalfWideU8],
    };
    (kernels.into_iter())
        .find(|kernel| reaches(*kernel, job))
        .filter(|kernel| can && capability >= kernel.module().needed_capability())
}

/// Whether the matrices of `kernel` reach as far as the filter of `job`, which lies in rows.
fn reaches(kernel: Kernel, job: &Job) -> bool {
    let (rx, ry) = radius(&job.operation);
    let most = kernel.reach();
    let most = most.map(|reach| reach.samples(channels_in_rows(job)));
    most.is_some_and(|(across, down)| rx <= across && ry <= down)
}

/// The kernel on the matrix units that computes `job`, of bytes, if it is separable, in float32 with weights taken apart,
/// where that is faster than down slabs.
pub fn by_split(job: &Job, capability: Capability) -> Option<Kernel> {
    /// Of the filter, and pixels of the picture: measured on an H200.
    const LEAST_RADIUS: usize = 4;
    const LEAST_PIXELS: usize = 1 << 20;
    let Operation::Correlate(kernel) = &job.operation else {
        return None;
    };
    let (horizontal, vertical) = kernel.taps.lines()?;
    let (rx, ry) = radius(&job.operation);
    let filtered = || {
        job.actions.iter().filter_map(|action| match *action {
            Action::Filter { zero, offset, .. } => Some((zero, offset)),
            Action::Copy | Action::Fill(_) => None,
        })
    };
    // Fewer take as long as three.
    let three_of_four = is_three_of_four(job) && filtered().count() == MAX_CHANNELS - 1;
    let by_split = Kernel::SeparableSplitPixelsU8;
    let can = rx.max(ry) >= LEAST_RADIUS
        && job.group.width * job.group.height >= LEAST_PIXELS
        && reaches(by_split, job)
        && three_of_four
        && !job.premultiply
        && capability >= by_split.module().needed_capability();
    let split = can.then(|| Split::new(horizontal, vertical, kernel.divisor));
    let takes = |split: &Split| filtered().all(|(zero, offset)| split.takes(zero, offset));
    split.flatten().filter(takes).map(|_| by_split)
}

/// Whether `job`, which lies in rows, has pixels of four channels, not all of which are filtered.
pub fn is_three_of_four(job: &Job) -> bool {
    let is_filtered = |action: &Action| matches!(action, Action::Filter { .. });
    channels_in_rows(job) == MAX_CHANNELS && !job.actions.iter().all(is_filtered)
}

/// The kernel on the matrix units that computes `job`, if it is not separable and its weights have few digits.
pub fn by_bands(layout: &Layout, job: &Job, capability: Capability) -> Option<Kernel> {
    let kernels = match layout.sample {
        Sample::U8 => [Kernel::ConvolveMatrixU8, Kernel::ConvolveMatrixNearU8],
        Sample::U16Le { .. } | Sample::U16Be => {
            [Kernel::ConvolveMatrixU16, Kernel::ConvolveMatrixNearU16]
        }
    };
    one_of_bands(&kernels, layout, job, capability)
}

/// The same of bytes, with weights that may be rounded to digits.
pub fn by_rough_bands(
    algorithm: Algorithm,
    layout: &Layout,
    job: &Job,
    capability: Capability,
) -> Option<Kernel> {
    let kernels = [Kernel::ConvolveMatrixU8, Kernel::ConvolveMatrixRoughU8];
    (algorithm == Algorithm::Tile && layout.sample == Sample::U8)
        .then(|| one_of_bands(&kernels, layout, job, capability))
        .flatten()
}

fn one_of_bands(
    kernels: &[Kernel],
    layout: &Layout,
    job: &Job,
    capability: Capability,
) -> Option<Kernel> {
    let Operation::Correlate(kernel) = &job.operation else {
        return None;
    };
    let packed = job.group.is_packed(layout.sample.bytes());
    let filtered = || {
        job.actions.iter().filter_map(|action| match *action {
            Action::Filter { zero, offset, .. } => Some((zero, offset)),
            Action::Copy | Action::Fill(_) => None,
        })
    };
    let needs = Needs {
        others: match packed {
            true => filtered().count().saturating_sub(1),
            false => 0,
        },
        ..Needs::default()
    };
    let can = is_in_rows(layout, job)
        && !job.premultiply
        && edge_is_code(layout, job)
        && filtered().all(|(zero, _)| zero.fract() == 0.0);
    let samples = samples(layout, job);
    let takes = |by_bands: Kernel| {
        filtered().all(|(_, offset)| match by_bands {
            Kernel::ConvolveMatrixU8 | Kernel::ConvolveMatrixU16 => {
                quotients_decide(kernel.divisor, offset, samples)
            }
            _ => offset.abs() <= samples.most_offset(),
        })
    };
    let mut kernels = kernels.iter().copied().filter(|_| can);
    kernels.find(|&by_bands| {
        capability >= by_bands.module().needed_capability()
            && by_bands.fits(radius(&job.operation), needs)
            && takes_channels(by_bands, layout, job)
            && takes(by_bands)
            && bands(by_bands, kernel, samples).is_some()
    })
}

/// What `job` sums up.
pub fn samples(layout: &Layout, job: &Job) -> Samples {
    let middle = layout.max_code().div_ceil(2) as f32;
    let keeps_constants = match &job.operation {
        Operation::Correlate(kernel) => kernel.taps.sum() as f32 == kernel.divisor,
        _ => false,
    };
    let from_the_middle = (job.actions.iter()).all(|action| match *action {
        Action::Filter { zero, .. } => zero == middle,
        Action::Copy | Action::Fill(_) => true,
    });
    Samples {
        max_code: layout.max_code(),
        bytes: layout.sample.bytes(),
        centred: layout.sample != Sample::U8 && keeps_constants && from_the_middle,
    }
}

/// The weights of `correlation` as digits with which `kernel` finds its results, of sums of `samples`.
pub fn bands(kernel: Kernel, correlation: &Correlation, samples: Samples) -> Option<Bands> {
    let Taps::Full { weights, .. } = &correlation.taps else {
        return None;
    };
    let divisor = correlation.divisor;
    match kernel {
        Kernel::ConvolveMatrixU8 | Kernel::ConvolveMatrixU16 => {
            Bands::whole(weights, divisor, samples)
        }
        Kernel::ConvolveMatrixNearU8 | Kernel::ConvolveMatrixNearU16 => {
            Bands::near(weights, divisor, samples)
        }
        Kernel::ConvolveMatrixRoughU8 => Bands::rough(weights, divisor),
        _ => None,
    }
}

/// Whether all there is to do with sums of weights that are not negative is to divide them by a power of two: nothing
/// is added, and no result is out of range.
fn is_shifted(kernel: &Correlation, job: &Job) -> bool {
    let (divisor, sum) = (kernel.divisor, kernel.taps.sum());
    let power_of_two = divisor.to_bits() & 0x7f_ffff == 0;
    let adds_nothing = |action: &Action| match *action {
        Action::Filter { zero, offset, .. } => {
            f64::from(offset) == f64::from(zero) * sum / f64::from(divisor)
        }
        Action::Copy | Action::Fill(_) => true,
    };
    power_of_two
        && (1.0..=65536.0).contains(&divisor)
        && sum <= f64::from(divisor)
        && job.actions.iter().all(adds_nothing)
}
