//! Which kernel computes a job of a plan.

use super::abi::{Kernel, Needs};
use crate::filter::Layout;
use crate::filter::layout::{Role, Sample};
use crate::filter::plan::{Action, Algorithm, Correlation, Job, Operation, Taps};
use crate::filter::spec::Border;

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
        (Operation::Bilateral(_), Algorithm::Naive) => (BilateralNaiveU8, BilateralNaiveU16),
        (Operation::Bilateral(_), Algorithm::Tile | Algorithm::Direct) => {
            let of_tile = match layout.sample {
                Sample::U8 => BilateralTileU8,
                _ => BilateralTileU16,
            };
            if bilateral_tile_takes(of_tile, layout, job) {
                (BilateralTileU8, BilateralTileU16)
            } else {
                (BilateralNaiveU8, BilateralNaiveU16)
            }
        }
        (_, Algorithm::Naive) => (ConvolveNaiveU8, ConvolveNaiveU16),
        (_, Algorithm::Tile | Algorithm::Direct) => (ConvolveTileU8, ConvolveTileU16),
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

/// Tiles of several channels hold code values, and the widest of 16-bit samples are larger than
/// shared memory.
fn bilateral_tile_takes(kernel: Kernel, layout: &Layout, job: &Job) -> bool {
    let joint = (job.group.channels.iter().zip(&job.actions)).any(|(channel, action)| {
        channel.role == Role::Colour && matches!(action, Action::Filter { .. })
    });
    let needs = Needs {
        premultiplied: job.premultiply,
        joint,
    };
    let several = needs.joint || needs.premultiplied;
    kernel.fits(radius(&job.operation), needs) && (!several || edge_is_code(layout, job))
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
