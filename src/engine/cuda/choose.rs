//! Which kernel computes a job of a plan.

use super::abi::{DIRECT3_SUM, Kernel, Needs, Parameter, direct3};
use crate::filter::Layout;
use crate::filter::layout::{Channel, Role, Sample};
use crate::filter::plan::{Action, Algorithm, Bilateral, Correlation, Job, Operation, Taps};
use crate::filter::spec::{Border, Distance};

/// Of the kernels that look weights up.
const LARGEST_TABLE_RADIUS: usize = 8;
const LARGEST_WIDE_TABLE_RADIUS: usize = 16;
/// Tiles of 32 x 64 of those kernels, which are blocks: with fewer, three for each of the 132
/// multiprocessors of an H200, some of these would have too little to do.
const FEW_TILES: usize = 400;
/// Tiles of 256 bytes by 32 of the kernels of whole numbers; with fewer, those of floats are faster.
const FEW_WHOLE_TILES: usize = 700;

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

/// The kernel that computes `job`, of a plan for `layout`, by `algorithm`, or `None` where there
/// is none. Any kernel for the samples of a layout copies and fills.
pub fn kernel(algorithm: Algorithm, layout: &Layout, job: &Job) -> Option<Kernel> {
    use Kernel::*;
    let (for_u8, for_u16) = match (&job.operation, algorithm) {
        (Operation::None, _) => (ConvolveNaiveU8, ConvolveNaiveU16),
        (_, Algorithm::Direct) => return small_direct(layout, job),
        (Operation::Bilateral(_), Algorithm::Naive) => (BilateralNaiveU8, BilateralNaiveU16),
        (Operation::Bilateral(bilateral), Algorithm::Tile) => {
            return Some(of_bilateral(layout, job, bilateral));
        }
        (_, Algorithm::Naive) => (ConvolveNaiveU8, ConvolveNaiveU16),
        (_, Algorithm::Tile) => (ConvolveTileU8, ConvolveTileU16),
        (operation, Algorithm::Separable) if is_separable(operation) => (
            small_separable(layout, job).unwrap_or(SeparableU8),
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
    kernel.parameter() != Parameter::Direct3 || is_in_rows_of_bytes(layout, job)
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
fn small_separable(layout: &Layout, job: &Job) -> Option<Kernel> {
    if job.premultiply || !edge_is_code(layout, job) {
        return None;
    }
    if let Some(kernel) = whole_separable(layout, job) {
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

/// The kernel of whole numbers that computes `job`, of a picture that has blocks for a device.
fn whole_separable(layout: &Layout, job: &Job) -> Option<Kernel> {
    let Operation::Correlate(kernel) = &job.operation else {
        return None;
    };
    let Taps::Separable { horizontal, .. } = &kernel.taps else {
        return None;
    };
    let planes = layout.planes.iter();
    let tiles: usize = planes
        .map(|size| size.row_bytes.div_ceil(256) * size.rows.div_ceil(32))
        .sum();
    let max_code = layout.max_code() as f32;
    let of_16_bits = horizontal.iter().all(|&weight| weight >= 0.0)
        && horizontal.iter().sum::<f32>() * max_code < 65536.0;
    let by_power_of_two = kernel.divisor.to_bits() & 0x7f_ffff == 0;
    let can = is_in_rows_of_bytes(layout, job)
        && kernel.sums_are_whole(max_code)
        && of_16_bits
        && by_power_of_two;
    if !can || tiles < FEW_WHOLE_TILES {
        return None;
    }
    let (rx, ry) = radius(&job.operation);
    match rx.max(ry) {
        0..=2 => Some(Kernel::SeparableWholeU8R2),
        3 => Some(Kernel::SeparableWholeU8R3),
        4 => Some(Kernel::SeparableWholeU8R4),
        _ => None,
    }
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
        (width, height): (u32, u32),
        spec: &FilterSpec,
    ) -> Vec<Kernel> {
        gst::init().unwrap();
        let info = gst_video::VideoInfo::builder(format, width, height).build();
        let layout = Arc::new(Layout::new(&info.unwrap()).unwrap());
        let plan = Plan::new(spec, &layout, &ABILITIES).unwrap();
        let jobs = plan.jobs.iter();
        jobs.map(|job| kernel(plan.algorithm, &layout, job).unwrap())
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
        assert_eq!(kernels(Format::Rgba, &of(Gauss9)), [SeparableU8R4]);
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
        assert_eq!(kernels(Format::Gray8, &separable), [SeparableU8R1]);
    }

    #[test]
    fn whole_numbers_have_kernels_of_their_own_where_pictures_are_large() {
        let hd = |format, preset| kernels_of(format, (1920, 1080), &of(preset));
        let uhd = |format, preset| kernels_of(format, (3840, 2160), &of(preset));
        assert_eq!(uhd(Format::Nv12, Gauss7), [SeparableWholeU8R3; 2]);
        assert_eq!(hd(Format::Rgba, Gauss5), [SeparableWholeU8R2]);
        assert_eq!(uhd(Format::Gray8, Gauss9), [SeparableWholeU8R4]);
        assert_eq!(hd(Format::Gray8, Gauss9), [SeparableU8R4]);
        // Divided by 25.
        assert_eq!(hd(Format::Gray8, Box5), [SeparableU8R2]);
        assert_eq!(hd(Format::Yuy2, Gauss5), [SeparableU8R2; 2]);
        assert_eq!(hd(Format::Gray8, Scharr), [SeparableU8R1]);
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
            [SeparableU8, SeparableU8R1, SeparableU8R1]
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
        let custom = FilterSpec {
            matrix: "1 2 3; 4 5 6; 7 8 10".parse().ok(),
            ..of(Custom)
        };
        assert_eq!(kernels(Format::Gray8, &custom), [ConvolveTileU8]);
        assert_eq!(kernels(Format::P01010le, &of(Emboss)), [ConvolveTileU16; 2]);
        let naive = FilterSpec {
            method: spec::Method::Naive,
            ..of(Gauss3)
        };
        assert_eq!(kernels(Format::Gray8, &naive), [ConvolveNaiveU8]);
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
