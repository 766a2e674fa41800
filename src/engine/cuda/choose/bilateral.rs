//! Which kernel computes a bilateral.

use super::edge_is_code;
use crate::engine::cuda::abi::{Kernel, Needs};
use crate::filter::Layout;
use crate::filter::layout::{Channel, Role, Sample};
use crate::filter::plan::{Action, Bilateral, Job};
use crate::filter::spec::Distance;

/// Of the kernels that look weights up.
const LARGEST_TABLE_RADIUS: usize = 8;
const LARGEST_WIDE_TABLE_RADIUS: usize = 16;
/// Of the kernel that keeps joint channels apart.
const LARGEST_JOINT_RADIUS: usize = 8;
/// Tiles of 32 x 64 for those kernels, or of 64 by 64 or 32 of the one by levels, which are blocks: with fewer, three for each of the 132
/// multiprocessors of an H200, some of these would have too little to do.
const FEW_TILES: usize = 400;

/// The fastest kernel that computes the bilateral `job`.
pub fn of_bilateral(layout: &Layout, job: &Job, bilateral: &Bilateral) -> Kernel {
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
    let tile = match (layout.sample, job.premultiply) {
        (Sample::U8, false) => Kernel::BilateralTileU8,
        (Sample::U8, true) => Kernel::BilateralPremultipliedU8,
        (_, false) => Kernel::BilateralTileU16,
        (_, true) => Kernel::BilateralPremultipliedU16,
    };
    let table = by_table(job, radius).filter(|_| bytes && !needs.joint);
    let joint = match radius.0.max(radius.1) {
        0..=LARGEST_JOINT_RADIUS => Kernel::BilateralJointU8,
        _ => Kernel::BilateralJointWideU8,
    };
    let single = Kernel::BilateralSingleU16;
    let words = layout.sample != Sample::U8 && !(needs.joint || needs.premultiplied);
    if let Some(table) = table {
        table
    } else if bytes && all_joint && bilateral.distance == Distance::L1 && joint.fits(radius, needs)
    {
        joint
    } else if words && single.fits(radius, needs) {
        single
    } else if tile.fits(radius, needs) && (codes || !(needs.joint || needs.premultiplied)) {
        tile
    } else if layout.sample == Sample::U8 {
        Kernel::BilateralNaiveU8
    } else {
        Kernel::BilateralNaiveU16
    }
}

/// The kernel that computes the bilateral `job` by levels, by the size of its picture.
pub fn by_levels(layout: &Layout, job: &Job) -> Kernel {
    use Kernel::*;
    let of_height = |height| job.group.width.div_ceil(64) * job.group.height.div_ceil(height);
    let (for_u8, for_u16) = match (of_height(64) < FEW_TILES, of_height(32) < FEW_TILES) {
        (false, _) => (BilateralFastU8, BilateralFastU16),
        (true, false) => (BilateralFastLowU8, BilateralFastLowU16),
        (true, true) => (BilateralFastLowestU8, BilateralFastLowestU16),
    };
    match layout.sample {
        Sample::U8 => for_u8,
        _ => for_u16,
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
