//! Which kernel computes a job of a plan.

mod bilateral;
mod matrix_units;

use super::abi::{DIRECT3_SUM, Kernel, MAX_CHANNELS, Needs, boxes, direct3, slabs};
use crate::filter::Layout;
use crate::filter::fourier;
use crate::filter::layout::Sample;
use crate::filter::plan::{Action, Algorithm, Correlation, Job, Operation, Plan, Taps};
use crate::filter::spec::{Border, Precision};
use matrix_units::{
    by_bands, by_halves, by_matrices, by_rough_bands, by_split, channels_in_rows, is_three_of_four,
};

pub use matrix_units::{bands, samples};

use bilateral::{by_levels, of_bilateral};

/// How far `operation` reaches beyond the centre, horizontally and vertically.
pub fn radius(operation: &Operation) -> (usize, usize) {
    match operation {
        Operation::None => (0, 0),
        Operation::Correlate(kernel) => kernel.taps.radius(),
        Operation::Magnitude { x, y } => {
            let (a, b) = (x.taps.radius(), y.taps.radius());
            (a.0.max(b.0), a.1.max(b.1))
        }
        Operation::Bilateral(bilateral) => (bilateral.radius_x, bilateral.radius_y),
    }
}

/// Compute capability of a device, major and minor.
pub type Capability = (u32, u32);

/// The kernel that computes `job` of `plan` on a device of `capability`: one of lower precision where that
/// was asked for and there is such a kernel, else [the one](kernel) of float32.
pub fn of(plan: &Plan, job: &Job, capability: Capability) -> Option<Kernel> {
    let lower = match plan.precision {
        Precision::Fp32 => None,
        Precision::Fp16 => by_halves(plan.algorithm, &plan.layout, job, capability)
            .or_else(|| by_rough_bands(plan.algorithm, &plan.layout, job, capability)),
    };
    lower.or_else(|| kernel(plan.algorithm, &plan.layout, job, capability))
}

/// The kernel that computes `job`, of a plan for `layout`, by `algorithm` in float32 on a device of
/// `capability`, or `None` where there is none. Any kernel for the samples of a layout copies and
/// fills.
pub fn kernel(
    algorithm: Algorithm,
    layout: &Layout,
    job: &Job,
    capability: Capability,
) -> Option<Kernel> {
    use Kernel::*;
    let (for_u8, for_u16) = match (&job.operation, algorithm) {
        (Operation::None, _) => (ConvolveNaiveU8, ConvolveNaiveU16),
        (operation, Algorithm::Separable) if is_sum(operation) => (SeparableU8, SeparableU16),
        (operation, _) if is_sum(operation) => return None,
        (_, Algorithm::Direct) if is_packed_422(layout) => return apart(layout, job, capability),
        (_, Algorithm::Direct) => return small_direct(layout, job),
        (Operation::Bilateral(_), Algorithm::Naive) => (BilateralNaiveU8, BilateralNaiveU16),
        (Operation::Bilateral(bilateral), Algorithm::Tile) => {
            return Some(of_bilateral(layout, job, bilateral));
        }
        (Operation::Bilateral(_), Algorithm::Fast) => return Some(by_levels(layout, job)),
        (_, Algorithm::Naive) => (ConvolveNaiveU8, ConvolveNaiveU16),
        (_, Algorithm::Fft) if fft_obstacle(layout, job).is_some() => return None,
        (Operation::Correlate(_), Algorithm::Fft) => return Some(ConvolveFft),
        (_, Algorithm::Tile) => match by_bands(layout, job, capability) {
            Some(kernel) => return Some(kernel),
            None => (ConvolveTileU8, ConvolveTileU16),
        },
        (operation, Algorithm::Separable) if is_separable(operation) => {
            return Some(of_separable(layout, job, capability));
        }
        _ => return None,
    };
    Some(match layout.sample {
        Sample::U8 => for_u8,
        Sample::U16Le { .. } | Sample::U16Be => for_u16,
    })
}

/// What keeps `Algorithm::Fft` from computing `job`.
pub fn fft_obstacle(layout: &Layout, job: &Job) -> Option<&'static str> {
    if matches!(job.operation, Operation::Magnitude { .. }) {
        Some("a root of two sums")
    } else if job.premultiply {
        Some("alpha=premultiply")
    } else if !Kernel::ConvolveFft.fits(radius(&job.operation), Needs::default()) {
        Some("more than 49 taps across or down")
    } else if !fourier::float32_suffices(job, layout.max_code()) {
        Some("weights that are too large for float32")
    } else {
        None
    }
}

/// Whether there is a kernel of `Algorithm::Direct` for `job`.
pub fn has_direct(layout: &Layout, job: &Job) -> bool {
    match is_packed_422(layout) {
        true => direct_of_packed_422(layout, job).is_some(),
        false => small_direct(layout, job).is_some(),
    }
}

/// The kernel that computes all `jobs` of a frame of packed 4:2:2 at once by `algorithm` on a device of `capability`, `None`
/// for other layouts and where there is none. What it filters, it filters alike, but for the weights of chroma across.
pub fn of_packed_422(
    algorithm: Algorithm,
    layout: &Layout,
    jobs: &[Job],
    capability: Capability,
) -> Option<Kernel> {
    let filtered = jobs.iter().filter(|job| job.operation != Operation::None);
    let filtered: Vec<&Job> = filtered.collect();
    let first = filtered.first().filter(|_| is_packed_422(layout))?;
    if !jobs.iter().all(|job| edge_is_code(layout, job)) {
        return None;
    }
    let alike = |job: &&Job| (&job.operation, job.border) == (&first.operation, first.border);
    match algorithm {
        Algorithm::Direct if filtered.iter().all(alike) => direct_of_packed_422(layout, first),
        Algorithm::Separable if filtered.iter().all(alike) => {
            matrices_of_packed_422(layout, &filtered, capability)
                .or_else(|| slabs_of_packed_422(layout, &filtered))
        }
        Algorithm::Separable => slabs_of_packed_422(layout, &filtered),
        _ => None,
    }
}

/// The kernel on the matrix units for `jobs`, which are filtered alike.
fn matrices_of_packed_422(
    layout: &Layout,
    jobs: &[&Job],
    capability: Capability,
) -> Option<Kernel> {
    let kernel = by_matrices(layout, jobs, MAX_CHANNELS)?;
    (capability >= kernel.module().needed_capability()).then_some(kernel)
}

/// The kernel that goes down slabs for `jobs`, if they are filtered alike but for the weights of chroma across, of which
/// there are half as many.
fn slabs_of_packed_422(layout: &Layout, jobs: &[&Job]) -> Option<Kernel> {
    let lines = |job: &Job| match &job.operation {
        Operation::Correlate(kernel) => {
            let (across, down) = kernel.taps.lines()?;
            Some((across.to_vec(), (down.to_vec(), kernel.divisor, job.border)))
        }
        _ => None,
    };
    if !jobs.iter().all(|job| goes_down_slabs(layout, job)) {
        return None;
    }
    let (luma, common) = lines(jobs[0])?;
    let (chroma, others) = lines(jobs[jobs.len() - 1])?;
    let (rx, ry) = radius(&jobs[0].operation);
    let (kernel, taps) = match rx.max(ry) {
        0..=4 => (Kernel::SeparablePacked422R4, 9),
        5..=8 => (Kernel::SeparablePacked422R8, 17),
        9..=16 => (Kernel::SeparablePacked422R16, 33),
        _ => return None,
    };
    let can = luma == chroma || chroma.len() <= slabs::chroma_taps(taps);
    (common == others && can).then_some(kernel)
}

/// Whether luma and chroma are bytes of one plane, chroma of half the width.
fn is_packed_422(layout: &Layout) -> bool {
    let luma = &layout.groups[0].channels[0];
    (layout.planes.len(), layout.sample, luma.step) == (1, Sample::U8, 2)
}

/// The kernel of 3 x 3 taps for `job` of packed 4:2:2.
fn direct_of_packed_422(layout: &Layout, job: &Job) -> Option<Kernel> {
    let (rx, ry) = radius(&job.operation);
    if job.premultiply || rx.max(ry) > 1 || !edge_is_code(layout, job) {
        return None;
    }
    match of_3x3(layout, job)? {
        Taken::Sum => Some(Kernel::Direct3Packed422),
        Taken::Magnitude => Some(Kernel::Direct3MagnitudePacked422),
    }
}

/// The kernel for `job` of packed 4:2:2 where luma and chroma are not filtered alike.
fn apart(layout: &Layout, job: &Job, capability: Capability) -> Option<Kernel> {
    let algorithm = match is_separable(&job.operation) {
        true => Algorithm::Separable,
        false => Algorithm::Tile,
    };
    kernel(algorithm, layout, job, capability)
}

/// Whether `kernel`, chosen for another job, can copy and fill the channels of `job`.
pub fn carries(kernel: Kernel, layout: &Layout, job: &Job) -> bool {
    (!kernel.takes_whole_rows() || is_in_rows(layout, job))
        && (!kernel.takes_three_of_four() || is_three_of_four(job))
        && takes_channels(kernel, layout, job)
}

/// Whether `kernel` takes as many channels as `job` has, where they lie together.
fn takes_channels(kernel: Kernel, layout: &Layout, job: &Job) -> bool {
    !job.group.is_packed(layout.sample.bytes())
        || job.group.channels.len() <= kernel.most_channels()
}

/// Whether the channels of `job` lie in memory without gaps, together or each by itself, and what is
/// done with them is told by a sample's place in its four or eight bytes.
fn is_in_rows(layout: &Layout, job: &Job) -> bool {
    let bytes = layout.sample.bytes();
    let channels = &job.group.channels;
    let alone = (channels.iter()).all(|channel| (channel.step, channel.offset) == (bytes, 0));
    let packed = job.group.is_packed(bytes);
    let alike = job.actions.iter().all(|action| *action == job.actions[0]);
    let in_turn = channels.len() != 3 || (layout.sample == Sample::U8 && alike);
    alone || (packed && in_turn)
}

/// The kernel of 3 x 3 taps for `job`, if its sums are small whole numbers.
fn small_direct(layout: &Layout, job: &Job) -> Option<Kernel> {
    let (rx, ry) = radius(&job.operation);
    let rows = is_in_rows(layout, job) && edge_is_code(layout, job);
    if job.premultiply || rx.max(ry) > 1 || !rows {
        return None;
    }
    if layout.sample != Sample::U8 {
        return Some(match of_3x3(layout, job)? {
            Taken::Sum => Kernel::Direct3U16,
            Taken::Magnitude => Kernel::Direct3MagnitudeU16,
        });
    }
    let small = |kernel: &Correlation| {
        let sum = kernel.taps.sum_of_magnitudes();
        kernel.taps.are_whole() && sum <= DIRECT3_SUM as f64
    };
    match &job.operation {
        Operation::Correlate(kernel) if small(kernel) => {
            let lines = kernel.taps.lines();
            let smooth = lines.is_some_and(|(across, down)| direct3::is_smooth(across, down));
            Some(match (adds_whole_numbers(kernel, job), smooth) {
                (true, true) => Kernel::Direct3SmoothU8,
                (true, false) => Kernel::Direct3U8,
                (false, _) => Kernel::Direct3DividedU8,
            })
        }
        Operation::Magnitude { x, y } if is_gradient(x, y, job) => Some(Kernel::Direct3MagnitudeU8),
        _ => None,
    }
}

/// Whether the magnitude of `x` and `y` is that of a gradient that is not divided, and a whole number is added.
///
/// Squares of such magnitudes are whole numbers too, whose roots are never halfway between two and never as near to
/// that as approximate roots of up to 512 are to the exact ones.
fn is_gradient(x: &Correlation, y: &Correlation, job: &Job) -> bool {
    let square = |kernel: &Correlation| {
        let (across, down) = kernel.taps.lines()?;
        let all = (across.len(), down.len()) == (3, 3) && kernel.divisor == 1.0;
        all.then(|| std::array::from_fn(|at| across[at % 3] * down[at / 3]))
    };
    let adds_whole = |action: &Action| match *action {
        Action::Filter { offset, .. } => {
            offset.fract() == 0.0 && offset.abs() <= direct3::MAGNITUDE_OFFSET
        }
        Action::Copy | Action::Fill(_) => true,
    };
    let (Some(x), Some(y)) = (square(x), square(y)) else {
        return false;
    };
    direct3::is_gradient(&x, &y) && job.actions.iter().all(adds_whole)
}

/// What is taken of the sums of 3 x 3 products.
enum Taken {
    Sum,
    Magnitude,
}

/// What kernels that sum 3 x 3 products up row by row are to take for `job`, if they can: it is the canonical
/// order of full kernels, and of others where no order matters.
fn of_3x3(layout: &Layout, job: &Job) -> Option<Taken> {
    let full = |kernel: &Correlation| matches!(kernel.taps, Taps::Full { .. });
    let exact = job.sums_are_whole(layout.max_code());
    match &job.operation {
        Operation::Correlate(kernel) if exact || full(kernel) => Some(Taken::Sum),
        Operation::Magnitude { x, y } if exact || (full(x) && full(y)) => Some(Taken::Magnitude),
        _ => None,
    }
}

/// Whether sums of code values less 128 are divided by a power of two, and a whole number is added
/// that leaves them in the range in which float16 rounds to whole numbers.
fn adds_whole_numbers(kernel: &Correlation, job: &Job) -> bool {
    let divisor = kernel.divisor;
    let power_of_two = divisor.to_bits() & 0x7f_ffff == 0;
    let is_whole = |action: &Action| match *action {
        Action::Filter { zero, offset, .. } => {
            let bias = direct3::bias(zero, offset, kernel.taps.sum(), divisor);
            bias.fract() == 0.0 && bias.abs() <= 512.0
        }
        Action::Copy | Action::Fill(_) => true,
    };
    power_of_two && (1.0..=1024.0).contains(&divisor) && job.actions.iter().all(is_whole)
}

fn is_separable(operation: &Operation) -> bool {
    let separable = |kernel: &Correlation| kernel.taps.lines().is_some();
    match operation {
        Operation::Correlate(kernel) => separable(kernel),
        Operation::Magnitude { x, y } => separable(x) && separable(y),
        Operation::None | Operation::Bilateral(_) => false,
    }
}

/// Whether it is a sum of outer products, which one kernel alone takes.
fn is_sum(operation: &Operation) -> bool {
    let is_sum = |kernel: &Correlation| matches!(kernel.taps, Taps::Sum(_));
    matches!(operation, Operation::Correlate(kernel) if is_sum(kernel))
}

/// The fastest kernel that computes `job`, which is separable.
fn of_separable(layout: &Layout, job: &Job, capability: Capability) -> Kernel {
    let general = match (layout.sample, is_wide(job)) {
        (Sample::U8, false) => Kernel::SeparableU8,
        (Sample::U8, true) => Kernel::SeparableWideU8,
        (_, false) => Kernel::SeparableU16,
        (_, true) => Kernel::SeparableWideU16,
    };
    let special = match layout.sample {
        Sample::U8 => of_bytes(layout, job, capability),
        _ => by_box(layout, job, Kernel::BoxU16).or_else(|| by_slabs(layout, job)),
    };
    special.unwrap_or(general)
}

/// Whether `job` has one kernel that is so large that the general ones are slower than those for such.
fn is_wide(job: &Job) -> bool {
    let (rx, ry) = radius(&job.operation);
    matches!(job.operation, Operation::Correlate(_)) && !job.premultiply && rx.max(ry) > 16
}

/// The kernel that computes `job`, which is separable, with samples held as bytes, of which those beyond the edge must be
/// some too.
fn of_bytes(layout: &Layout, job: &Job, capability: Capability) -> Option<Kernel> {
    if job.premultiply || !edge_is_code(layout, job) {
        return None;
    }
    if is_in_rows(layout, job)
        && let Some(kernel) = by_matrices(layout, &[job], channels_in_rows(job))
        && capability >= kernel.module().needed_capability()
    {
        return Some(kernel);
    }
    if let Some(kernel) = by_box(layout, job, Kernel::BoxU8) {
        return Some(kernel);
    }
    let by_split = is_in_rows(layout, job).then(|| by_split(job, capability));
    by_split.flatten().or_else(|| by_slabs(layout, job))
}

/// `kernel`, which sums means up, if `job` takes the mean of a rectangle of no more samples than it takes, and adds nothing
/// to it, with a border of code values that does not repeat the picture.
fn by_box(layout: &Layout, job: &Job, kernel: Kernel) -> Option<Kernel> {
    let Operation::Correlate(Correlation { taps, divisor }) = &job.operation else {
        return None;
    };
    let (across, down) = taps.lines()?;
    let are_ones = |weights: &[f32]| weights.iter().all(|weight| *weight == 1.0);
    let adds_nothing = |action: &Action| match *action {
        Action::Filter { zero, offset, .. } => offset == zero && zero.fract() == 0.0,
        Action::Copy | Action::Fill(_) => true,
    };
    let samples = across.len() * down.len();
    let can = is_in_rows(layout, job)
        && takes_channels(kernel, layout, job)
        && are_ones(across)
        && are_ones(down)
        && *divisor == samples as f32
        && samples * (layout.max_code() as usize + 1) <= boxes::MOST_OF_ALL_SUMS
        && !job.premultiply
        && edge_is_code(layout, job)
        && job.border != Border::Wrap
        && job.actions.iter().all(adds_nothing);
    can.then_some(kernel)
}

/// Whether kernels that go down slabs compute `job`, if it is small enough. They hold code values, of which those beyond
/// the edge must be some too, and take weights in other units.
fn goes_down_slabs(layout: &Layout, job: &Job) -> bool {
    let whole_levels = (job.actions.iter()).all(|action| match action {
        Action::Filter { zero, .. } => zero.fract() == 0.0,
        Action::Copy | Action::Fill(_) => true,
    });
    let takes = |kernel: &Correlation, divisor: f32| {
        let lines = kernel.taps.lines();
        lines.is_some_and(|(across, down)| slabs::takes(across, down, divisor))
    };
    let taken = match &job.operation {
        Operation::Correlate(kernel) => takes(kernel, kernel.divisor),
        Operation::Magnitude { x, y } => takes(x, 1.0) && takes(y, 1.0),
        Operation::None | Operation::Bilateral(_) => false,
    };
    !job.premultiply && edge_is_code(layout, job) && whole_levels && taken
}

/// The smallest of the kernels that go down slabs that computes `job`.
fn by_slabs(layout: &Layout, job: &Job) -> Option<Kernel> {
    use Kernel::*;
    if !goes_down_slabs(layout, job) {
        return None;
    }
    let magnitude = matches!(job.operation, Operation::Magnitude { .. });
    let (rx, ry) = radius(&job.operation);
    match (layout.sample, magnitude, rx.max(ry)) {
        (Sample::U8, true, 0..=1) => Some(SeparableMagnitudeU8),
        (_, true, _) => None,
        (Sample::U8, _, 0..=2) => Some(SeparableU8R2),
        (Sample::U8, _, 3) => Some(SeparableU8R3),
        (Sample::U8, _, 4) => Some(SeparableU8R4),
        (Sample::U8, _, 5..=7) => Some(SeparableU8R7),
        (Sample::U8, _, 8) => Some(SeparableU8R8),
        (Sample::U8, _, 9..=16) => Some(SeparableU8R16),
        (_, _, 0..=4) => Some(SeparableU16R4),
        (_, _, 5..=8) => Some(SeparableU16R8),
        (_, _, 9..=16) => Some(SeparableU16R16),
        _ => None,
    }
}

/// Whether what lies beyond the edge of every filtered channel is a code value: it is not, where
/// the border's constant is a fraction or out of range.
fn edge_is_code(layout: &Layout, job: &Job) -> bool {
    let is_code = |action: &Action| match *action {
        Action::Filter { zero, beyond, .. } => {
            let code = zero + beyond;
            // A small fraction is rounded off by the sum.
            code.fract() == 0.0
                && code - zero == beyond
                && (0.0..=layout.max_code() as f32).contains(&code)
        }
        Action::Copy | Action::Fill(_) => true,
    };
    job.border != Border::Constant || job.actions.iter().all(is_code)
}

#[cfg(test)]
mod tests;
