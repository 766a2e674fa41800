//! Which kernel computes a job of a plan.

use super::abi::matrix::{MATRIX_RADIUS, MATRIX_SUM};
use super::abi::{DIRECT3_SUM, Kernel, Needs, Parameter, Weights, direct3};
use crate::filter::Layout;
use crate::filter::layout::{Channel, Role, Sample};
use crate::filter::plan::{Action, Algorithm, Bilateral, Correlation, Job, Operation, Taps};
use crate::filter::spec::{Border, Distance};

/// Of the kernels that look weights up.
const LARGEST_TABLE_RADIUS: usize = 8;
const LARGEST_WIDE_TABLE_RADIUS: usize = 16;
/// Tiles of 32 x 64 of those kernels, or of 64 by 64 or 32 of the one by levels, which are blocks: with fewer, three for each of the 132
/// multiprocessors of an H200, some of these would have too little to do.
const FEW_TILES: usize = 400;

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

/// The kernel that computes `job`, of a plan for `layout`, by `algorithm` on a device of
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
        (_, Algorithm::Direct) => return small_direct(layout, job),
        (Operation::Bilateral(_), Algorithm::Naive) => (BilateralNaiveU8, BilateralNaiveU16),
        (Operation::Bilateral(bilateral), Algorithm::Tile) => {
            return Some(of_bilateral(layout, job, bilateral));
        }
        (Operation::Bilateral(bilateral), Algorithm::Fast) => {
            return Some(by_levels(layout, job, bilateral));
        }
        (_, Algorithm::Naive) => (ConvolveNaiveU8, ConvolveNaiveU16),
        (_, Algorithm::Tile) => (
            by_bands(layout, job, capability).unwrap_or(ConvolveTileU8),
            ConvolveTileU16,
        ),
        (operation, Algorithm::Separable) if is_separable(operation) => (
            small_separable(layout, job, capability).unwrap_or(SeparableU8),
            SeparableU16,
        ),
        _ => return None,
    };
    Some(match layout.sample {
        Sample::U8 => for_u8,
        Sample::U16Le { .. } | Sample::U16Be => for_u16,
    })
}

/// Whether there is a kernel of `Algorithm::Direct` for `job`.
pub fn has_direct(layout: &Layout, job: &Job) -> bool {
    small_direct(layout, job).is_some()
}

/// Whether `kernel`, chosen for another job, can copy and fill the channels of `job`.
pub fn carries(kernel: Kernel, layout: &Layout, job: &Job) -> bool {
    let in_rows = kernel.parameter() == Parameter::Direct3 || kernel.weights() == Weights::Bands;
    !in_rows || is_in_rows_of_bytes(layout, job)
}

/// Whether the channels of `job` lie in memory without gaps, together or each by itself, and what is
/// done with them is told by a byte's place in its word.
fn is_in_rows_of_bytes(layout: &Layout, job: &Job) -> bool {
    let channels = &job.group.channels;
    let alone = (channels.iter()).all(|channel| (channel.step, channel.offset) == (1, 0));
    let packed = job.group.is_packed(1);
    let alike = job.actions.iter().all(|action| *action == job.actions[0]);
    layout.sample == Sample::U8 && (alone || (packed && (channels.len() != 3 || alike)))
}

/// The kernel of 3 x 3 taps for `job`, if its sums are small whole numbers.
fn small_direct(layout: &Layout, job: &Job) -> Option<Kernel> {
    let (rx, ry) = radius(&job.operation);
    let rows = is_in_rows_of_bytes(layout, job) && edge_is_code(layout, job);
    if job.premultiply || rx.max(ry) > 1 || !rows {
        return None;
    }
    let small = |kernel: &Correlation| {
        let sum = kernel.taps.sum_of_magnitudes();
        kernel.taps.are_whole() && sum <= DIRECT3_SUM as f64
    };
    match &job.operation {
        Operation::Correlate(kernel) if small(kernel) => {
            Some(match adds_whole_numbers(kernel, job) {
                true => Kernel::Direct3U8,
                false => Kernel::Direct3DividedU8,
            })
        }
        Operation::Magnitude { x, y } if small(x) && small(y) => Some(Kernel::Direct3MagnitudeU8),
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
    let separable = |kernel: &Correlation| matches!(kernel.taps, Taps::Separable { .. });
    match operation {
        Operation::Correlate(kernel) => separable(kernel),
        Operation::Magnitude { x, y } => separable(x) && separable(y),
        Operation::None | Operation::Bilateral(_) => false,
    }
}

/// The smallest of the kernels for few taps that computes `job`. They hold bytes, of which those
/// beyond the edge must be some too.
fn small_separable(layout: &Layout, job: &Job, capability: Capability) -> Option<Kernel> {
    if job.premultiply || !edge_is_code(layout, job) {
        return None;
    }
    if let Some(kernel) = by_matrices(layout, job)
        && capability >= kernel.module().needed_capability()
    {
        return Some(kernel);
    }
    let (rx, ry) = radius(&job.operation);
    let magnitude = matches!(job.operation, Operation::Magnitude { .. });
    match rx.max(ry) {
        0 | 1 => Some(Kernel::SeparableU8R1),
        _ if magnitude => None,
        2 => Some(Kernel::SeparableU8R2),
        3 => Some(Kernel::SeparableU8R3),
        4 => Some(Kernel::SeparableU8R4),
        5..=8 => Some(Kernel::SeparableU8R8),
        _ => None,
    }
}

/// The kernel on the matrix units that computes `job`, if its sums are whole numbers.
fn by_matrices(layout: &Layout, job: &Job) -> Option<Kernel> {
    let Operation::Correlate(kernel) = &job.operation else {
        return None;
    };
    let Taps::Separable {
        horizontal,
        vertical,
    } = &kernel.taps
    else {
        return None;
    };
    let (rx, ry) = radius(&job.operation);
    let max_code = layout.max_code() as f32;
    let are_bytes = |weights: &[f32]| weights.iter().all(|weight| (0.0..=255.0).contains(weight));
    let can = is_in_rows_of_bytes(layout, job)
        && rx.max(ry) <= MATRIX_RADIUS
        && are_bytes(horizontal)
        && are_bytes(vertical)
        && horizontal.iter().sum::<f32>() <= MATRIX_SUM
        && kernel.sums_are_whole(max_code);
    if !can {
        return None;
    }
    let is_small = kernel.taps.sum() * f64::from(max_code) < f64::from(1 << 23);
    Some(match (leaves_whole_numbers(kernel, job), is_small) {
        (true, true) => Kernel::SeparableMatrixU8,
        (true, false) => Kernel::SeparableMatrixLargeU8,
        (false, _) => Kernel::SeparableMatrixDividedU8,
    })
}

/// The kernel on the matrix units that computes `job`, if it is not separable, of small whole numbers
/// and has whole sums.
fn by_bands(layout: &Layout, job: &Job, capability: Capability) -> Option<Kernel> {
    let Operation::Correlate(kernel) = &job.operation else {
        return None;
    };
    let Taps::Full { weights, .. } = &kernel.taps else {
        return None;
    };
    let filtered = (job.actions.iter()).filter(|action| matches!(action, Action::Filter { .. }));
    let whole_levels = (job.actions.iter()).all(|action| match action {
        Action::Filter { zero, .. } => zero.fract() == 0.0,
        Action::Copy | Action::Fill(_) => true,
    });
    let needs = Needs {
        others: match job.group.is_packed(1) {
            true => filtered.count().saturating_sub(1),
            false => 0,
        },
        ..Needs::default()
    };
    let by_bands = Kernel::ConvolveMatrixU8;
    let can = is_in_rows_of_bytes(layout, job)
        && !job.premultiply
        && edge_is_code(layout, job)
        && whole_levels
        && weights
            .iter()
            .all(|weight| (-128.0..=127.0).contains(weight))
        && kernel.sums_are_whole(layout.max_code() as f32)
        && capability >= by_bands.module().needed_capability()
        && by_bands.fits(radius(&job.operation), needs);
    can.then_some(by_bands)
}

/// Whether sums of code values are divided by a power of two, and a whole number is added to the quotient,
/// so that one rounding of both together is as good as one after each.
fn leaves_whole_numbers(kernel: &Correlation, job: &Job) -> bool {
    let divisor = kernel.divisor;
    let power_of_two = divisor.to_bits() & 0x7f_ffff == 0;
    let is_whole = |action: &Action| match *action {
        Action::Filter { zero, offset, .. } => {
            let level = f64::from(zero) * kernel.taps.sum() / f64::from(divisor);
            let added = f64::from(offset) - level;
            added.fract() == 0.0 && added.abs() <= 1024.0
        }
        Action::Copy | Action::Fill(_) => true,
    };
    power_of_two && (1.0..=65536.0).contains(&divisor) && job.actions.iter().all(is_whole)
}

/// The fastest kernel that computes the bilateral `job`.
fn of_bilateral(layout: &Layout, job: &Job, bilateral: &Bilateral) -> Kernel {
    let filtered = || {
        let channels = job.group.channels.iter().zip(&job.actions);
        channels.filter(|(_, action)| matches!(action, Action::Filter { .. }))
    };
    let joint = |channel: &Channel| channel.role == Role::Colour;
    let needs = Needs {
        premultiplied: job.premultiply,
        joint: filtered().any(|(channel, _)| joint(channel)),
        ..Needs::default()
    };
    let radius = (bilateral.radius_x, bilateral.radius_y);
    let all_joint = filtered().all(|(channel, _)| joint(channel));
    // Tiles of code values, not of floats.
    let codes = edge_is_code(layout, job);
    let bytes = layout.sample == Sample::U8 && codes && !job.premultiply;
    let tile = match layout.sample {
        Sample::U8 => Kernel::BilateralTileU8,
        _ => Kernel::BilateralTileU16,
    };
    let table = by_table(job, radius).filter(|_| bytes && !needs.joint);
    if let Some(table) = table {
        table
    } else if bytes
        && all_joint
        && bilateral.distance == Distance::L1
        && Kernel::BilateralJointU8.fits(radius, needs)
    {
        Kernel::BilateralJointU8
    } else if tile.fits(radius, needs) && (codes || !(needs.joint || needs.premultiplied)) {
        tile
    } else if layout.sample == Sample::U8 {
        Kernel::BilateralNaiveU8
    } else {
        Kernel::BilateralNaiveU16
    }
}

/// The kernel that computes the bilateral `job` by levels, or, where there is no room for the tile of
/// one, the whole window: it is no further from the definition than that is.
fn by_levels(layout: &Layout, job: &Job, bilateral: &Bilateral) -> Kernel {
    use Kernel::*;
    let of_height = |height| job.group.width.div_ceil(64) * job.group.height.div_ceil(height);
    let (for_u8, for_u16) = match (of_height(64) < FEW_TILES, of_height(32) < FEW_TILES) {
        (false, _) => (BilateralFastU8, BilateralFastU16),
        (true, false) => (BilateralFastLowU8, BilateralFastLowU16),
        (true, true) => (BilateralFastLowestU8, BilateralFastLowestU16),
    };
    let kernel = match layout.sample {
        Sample::U8 => for_u8,
        _ => for_u16,
    };
    match kernel.fits((bilateral.radius_x, bilateral.radius_y), Needs::default()) {
        true => kernel,
        false => of_bilateral(layout, job, bilateral),
    }
}

/// The kernel that looks weights up for pictures as large as `job`'s.
fn by_table(job: &Job, radius: (usize, usize)) -> Option<Kernel> {
    let tiles = job.group.width.div_ceil(32) * job.group.height.div_ceil(64);
    match (radius.0.max(radius.1), tiles < FEW_TILES) {
        (0..=LARGEST_TABLE_RADIUS, false) => Some(Kernel::BilateralTableU8),
        (0..=LARGEST_TABLE_RADIUS, true) => Some(Kernel::BilateralTableSmallU8),
        (0..=LARGEST_WIDE_TABLE_RADIUS, false) => Some(Kernel::BilateralWideTableU8),
        (0..=LARGEST_WIDE_TABLE_RADIUS, true) => Some(Kernel::BilateralWideTableSmallU8),
        _ => None,
    }
}

/// Whether what lies beyond the edge of every filtered channel is a code value: it is not, where
/// the border's constant is a fraction or out of range.
fn edge_is_code(layout: &Layout, job: &Job) -> bool {
    let is_code = |action: &Action| match *action {
        Action::Filter { zero, beyond, .. } => {
            let code = zero + beyond;
            code.fract() == 0.0 && (0.0..=layout.max_code() as f32).contains(&code)
        }
        Action::Copy | Action::Fill(_) => true,
    };
    job.border != Border::Constant || job.actions.iter().all(is_code)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::engine::cuda::ABILITIES;
    use crate::filter::plan::Plan;
    use crate::filter::spec::{self, FilterSpec};

    /// The kernels of the jobs of a plan for 64x48 pixels.
    fn kernels(format: gst_video::VideoFormat, spec: &FilterSpec) -> Vec<Kernel> {
        kernels_of(format, (64, 48), spec)
    }

    fn kernels_of(
        format: gst_video::VideoFormat,
        size: (u32, u32),
        spec: &FilterSpec,
    ) -> Vec<Kernel> {
        kernels_on((9, 0), format, size, spec)
    }

    fn kernels_on(
        capability: Capability,
        format: gst_video::VideoFormat,
        (width, height): (u32, u32),
        spec: &FilterSpec,
    ) -> Vec<Kernel> {
        gst::init().unwrap();
        let info = gst_video::VideoInfo::builder(format, width, height).build();
        let layout = Arc::new(Layout::new(&info.unwrap()).unwrap());
        let plan = Plan::new(spec, &layout, &ABILITIES).unwrap();
        let jobs = plan.jobs.iter();
        jobs.map(|job| kernel(plan.algorithm, &layout, job, capability).unwrap())
            .collect()
    }

    fn of(kernel: spec::Kernel) -> FilterSpec {
        FilterSpec {
            kernel,
            ..FilterSpec::default()
        }
    }

    use Kernel::*;
    use gst_video::VideoFormat as Format;
    use spec::Kernel::{
        Bilateral, Box3, Box5, Custom, Emboss, Gauss, Gauss3, Gauss5, Gauss7, Gauss9, Scharr, Sobel,
    };

    #[test]
    fn few_separable_taps_of_bytes_have_kernels_of_their_own() {
        assert_eq!(kernels(Format::Nv12, &of(Gauss3)), [Direct3U8; 2]);
        let of_turing = |format, spec: &FilterSpec| kernels_on((7, 5), format, (64, 48), spec);
        assert_eq!(of_turing(Format::Rgba, &of(Gauss9)), [SeparableU8R4]);
        assert_eq!(kernels(Format::Gray8, &of(Sobel)), [Direct3MagnitudeU8]);
        assert_eq!(kernels(Format::Gray8, &of(Scharr)), [SeparableU8R1]);
        let radius = |radius| FilterSpec {
            radius,
            ..of(Gauss)
        };
        // Half as many taps on a grid of half as many samples.
        assert_eq!(
            kernels(Format::I420, &radius(8)),
            [SeparableU8R8, SeparableU8R4, SeparableU8R4]
        );
        assert_eq!(kernels(Format::Gray8, &radius(9)), [SeparableU8]);
        assert_eq!(kernels(Format::Gray16Be, &of(Gauss3)), [SeparableU16]);
    }

    #[test]
    fn few_small_whole_weights_have_kernels_of_their_own() {
        assert_eq!(kernels(Format::I420, &of(Gauss3)), [Direct3U8; 3]);
        assert_eq!(kernels(Format::Rgba, &of(Emboss)), [Direct3U8]);
        assert_eq!(kernels(Format::Gbr, &of(Gauss3)), [Direct3U8]);
        assert_eq!(kernels(Format::Bgr, &of(Box3)), [Direct3DividedU8]);
        // Luma is filtered, chroma filled by the same kernel.
        assert_eq!(
            kernels(Format::Nv12, &of(Sobel)),
            [Direct3MagnitudeU8, ConvolveNaiveU8]
        );
        let half = FilterSpec {
            bias: 0.5,
            ..of(Gauss3)
        };
        assert_eq!(kernels(Format::Gray8, &half), [Direct3DividedU8]);
        // Samples with others in between.
        assert_eq!(kernels(Format::Yuy2, &of(Gauss3)), [SeparableU8R1; 2]);
        assert_eq!(kernels(Format::Gray16Le, &of(Gauss3)), [SeparableU16]);
        let separable = FilterSpec {
            method: spec::Method::Separable,
            ..of(Gauss3)
        };
        assert_eq!(kernels(Format::Gray8, &separable), [SeparableMatrixU8]);
    }

    #[test]
    fn whole_numbers_go_to_the_matrix_units_where_there_are_any() {
        assert_eq!(
            kernels(Format::Nv12, &of(Gauss7)),
            [SeparableMatrixU8, SeparableMatrixU8]
        );
        assert_eq!(
            kernels(Format::Gray8, &of(Gauss9)),
            [SeparableMatrixLargeU8]
        );
        // Divided by 25.
        assert_eq!(
            kernels(Format::Gray8, &of(Box5)),
            [SeparableMatrixDividedU8]
        );
        let biased = FilterSpec {
            bias: 0.5,
            ..of(Gauss5)
        };
        assert_eq!(kernels(Format::Rgba, &biased), [SeparableMatrixDividedU8]);
        // Samples with others in between, weights below zero, fractions.
        assert_eq!(kernels(Format::Yuy2, &of(Gauss5)), [SeparableU8R2; 2]);
        assert_eq!(kernels(Format::Gray8, &of(Scharr)), [SeparableU8R1]);
        let sigma = FilterSpec {
            sigma: 1.3,
            radius: 4,
            ..of(Gauss)
        };
        assert_eq!(kernels(Format::Gray8, &sigma), [SeparableU8R4]);
    }

    #[test]
    fn levels_have_tiles_for_every_size_and_room_for_most_radii() {
        let fast = |radius| FilterSpec {
            method: spec::Method::Fast,
            window: spec::Window::Square,
            radius,
            ..of(Bilateral)
        };
        let of_size = |format, size, radius| kernels_of(format, size, &fast(radius));
        let hd = (1920, 1080);
        assert_eq!(of_size(Format::Gray8, hd, 15), [BilateralFastU8]);
        assert_eq!(
            of_size(Format::I420, hd, 15),
            [
                BilateralFastU8,
                BilateralFastLowestU8,
                BilateralFastLowestU8
            ]
        );
        assert_eq!(
            of_size(Format::Gray8, (1280, 720), 15),
            [BilateralFastLowU8]
        );
        assert_eq!(
            of_size(Format::Gray8, (640, 480), 32),
            [BilateralFastLowestU8]
        );
        assert_eq!(of_size(Format::Gray16Le, hd, 27), [BilateralFastU16]);
        // No room: the whole window.
        assert_eq!(of_size(Format::Gray16Le, hd, 28), [BilateralTileU16]);
    }

    #[test]
    fn kernels_of_bytes_are_not_asked_what_bytes_cannot_hold() {
        let premultiplied = FilterSpec {
            alpha: spec::Alpha::Premultiply,
            ..of(Gauss3)
        };
        assert_eq!(kernels(Format::Rgba, &premultiplied), [SeparableU8]);
        let constant = |kernel, border_value| FilterSpec {
            border: Border::Constant,
            border_value,
            ..of(kernel)
        };
        assert_eq!(kernels(Format::Gray8, &constant(Gauss3, 7.0)), [Direct3U8]);
        assert_eq!(
            kernels(Format::Gray8, &constant(Gauss3, 7.5)),
            [SeparableU8]
        );
        // Above the zero level of 16.
        assert_eq!(
            kernels(Format::Y444, &constant(Gauss3, 250.0)),
            [SeparableU8, SeparableMatrixU8, SeparableMatrixU8]
        );
        assert_eq!(
            kernels(Format::Gray8, &constant(Bilateral, 0.5)),
            [BilateralTileU8]
        );
        assert_eq!(
            kernels(Format::Rgb, &constant(Bilateral, 0.5)),
            [BilateralNaiveU8]
        );
    }

    #[test]
    fn full_kernels_are_for_tiles() {
        let fractions = FilterSpec {
            matrix: "1 2 3; 4 5 6; 7 8 0.1234567".parse().ok(),
            ..of(Custom)
        };
        assert_eq!(kernels(Format::Gray8, &fractions), [ConvolveTileU8]);
        assert_eq!(kernels(Format::P01010le, &of(Emboss)), [ConvolveTileU16; 2]);
        let naive = FilterSpec {
            method: spec::Method::Naive,
            ..of(Gauss3)
        };
        assert_eq!(kernels(Format::Gray8, &naive), [ConvolveNaiveU8]);
    }

    #[test]
    fn full_kernels_of_small_whole_numbers_go_to_the_matrix_units() {
        let custom = |matrix: &str| FilterSpec {
            matrix: matrix.parse().ok(),
            ..of(Custom)
        };
        let small = custom("1 2 3; 4 5 6; 7 8 10");
        assert_eq!(kernels(Format::Gray8, &small), [ConvolveMatrixU8]);
        assert_eq!(kernels(Format::Nv12, &small), [ConvolveMatrixU8; 2]);
        assert_eq!(kernels(Format::Rgb, &small), [ConvolveMatrixU8]);
        assert_eq!(
            kernels_on((7, 5), Format::Gray8, (64, 48), &small),
            [ConvolveTileU8]
        );
        // Samples with others in between, 16 bits, weights beyond a byte, premultiplication.
        assert_eq!(kernels(Format::Yuy2, &small), [ConvolveTileU8; 2]);
        assert_eq!(kernels(Format::Gray16Le, &small), [ConvolveTileU16]);
        let large = |weight: i32| custom(&format!("1 2 3; 4 5 6; 7 8 {weight}"));
        assert_eq!(kernels(Format::Gray8, &large(-128)), [ConvolveMatrixU8]);
        assert_eq!(kernels(Format::Gray8, &large(128)), [ConvolveTileU8]);
        let premultiplied = FilterSpec {
            alpha: spec::Alpha::Premultiply,
            ..custom("1 2 3; 4 5 6; 7 8 10")
        };
        assert_eq!(kernels(Format::Rgba, &premultiplied), [ConvolveTileU8]);
        // As many channels as there is room for.
        let weights = (0..31 * 31).map(|at| format!("{} ", at * 29 % 17));
        let largest = custom(&weights.collect::<String>());
        assert_eq!(kernels(Format::Gray8, &largest), [ConvolveMatrixU8]);
        assert_eq!(kernels(Format::Rgba, &largest), [ConvolveMatrixU8]);
        let with_alpha = FilterSpec {
            alpha: spec::Alpha::Filter,
            ..largest
        };
        assert_eq!(kernels(Format::Rgba, &with_alpha), [ConvolveTileU8]);
    }

    #[test]
    fn the_bilateral_goes_by_what_shares_a_weight() {
        assert_eq!(
            kernels(Format::Nv12, &of(Bilateral)),
            [BilateralTableSmallU8; 2]
        );
        assert_eq!(kernels(Format::Rgbx, &of(Bilateral)), [BilateralJointU8]);
        assert_eq!(kernels(Format::Gbr, &of(Bilateral)), [BilateralJointU8]);
        let euclidean = FilterSpec {
            distance: Distance::L2,
            ..of(Bilateral)
        };
        assert_eq!(kernels(Format::Rgb, &euclidean), [BilateralTileU8]);
        let with_alpha = |alpha| FilterSpec {
            alpha,
            ..of(Bilateral)
        };
        assert_eq!(
            kernels(Format::Rgba, &with_alpha(spec::Alpha::Copy)),
            [BilateralJointU8]
        );
        assert_eq!(
            kernels(Format::Rgba, &with_alpha(spec::Alpha::Filter)),
            [BilateralTileU8]
        );
        assert_eq!(
            kernels(Format::Ayuv, &with_alpha(spec::Alpha::Filter)),
            [BilateralTableSmallU8]
        );
        let wide = FilterSpec {
            radius: 32,
            ..of(Bilateral)
        };
        assert_eq!(kernels(Format::Gray8, &wide), [BilateralTileU8]);
        assert_eq!(kernels(Format::Gray16Le, &wide), [BilateralTileU16]);
        assert_eq!(kernels(Format::Rgba64Le, &wide), [BilateralNaiveU16]);
    }

    #[test]
    fn the_bilateral_of_grey_goes_by_radius_and_size() {
        let radius = |radius| FilterSpec {
            radius,
            ..of(Bilateral)
        };
        let hd = |radius_of| kernels_of(Format::Nv12, (1920, 1080), &radius(radius_of));
        assert_eq!(hd(8), [BilateralTableU8, BilateralTableSmallU8]);
        assert_eq!(hd(15), [BilateralWideTableU8, BilateralTableSmallU8]);
        assert_eq!(hd(32), [BilateralTileU8, BilateralWideTableSmallU8]);
        assert_eq!(
            kernels(Format::Gray8, &radius(16)),
            [BilateralWideTableSmallU8]
        );
    }

    #[test]
    fn what_is_not_filtered_is_copied_by_any_kernel() {
        // A matrix that changes nothing.
        let identity = FilterSpec {
            matrix: "1".parse().ok(),
            ..of(Custom)
        };
        assert_eq!(kernels(Format::Gray8, &identity), [ConvolveNaiveU8]);
    }
}
