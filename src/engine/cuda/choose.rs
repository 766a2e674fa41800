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
        (operation, Algorithm::Separable) if is_separable(operation) => (SeparableU8, SeparableU16),
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

/// Tiles of several channels hold code values, so what lies beyond the edge must be one; and the
/// widest of 16-bit samples are larger than shared memory.
fn bilateral_tile_takes(kernel: Kernel, layout: &Layout, job: &Job) -> bool {
    let joint = (job.group.channels.iter().zip(&job.actions)).any(|(channel, action)| {
        channel.role == Role::Colour && matches!(action, Action::Filter { .. })
    });
    let needs = Needs {
        premultiplied: job.premultiply,
        joint,
    };
    let beyond_is_code = |action: &Action| match *action {
        Action::Filter { zero, beyond, .. } => {
            let code = zero + beyond;
            code.fract() == 0.0 && (0.0..=layout.max_code() as f32).contains(&code)
        }
        Action::Copy | Action::Fill(_) => true,
    };
    let several = needs.joint || needs.premultiplied;
    let edge_fits =
        !several || job.border != Border::Constant || job.actions.iter().all(beyond_is_code);
    kernel.fits(radius(&job.operation), needs) && edge_fits
}
