//! What each kernel is for. They are computed here by code that can do everything, so a kernel
//! that was chosen for more than it can do would go unnoticed.

mod filters;

use super::launch::Filter;
use crate::abi::band::{Samples, quotients_decide};
use crate::abi::boxes::MOST_OF_ALL_SUMS;
use crate::abi::matrix::most_radius;
use crate::abi::{
    Channel, ConvolveLaunch, Frame, Job, Kernel, MAX_RADIUS, Needs, Weights, action, border,
    distance, fourier, packed, sample,
};
use crate::violation;

/// Ends the process when `kernel` cannot compute what is asked of it.
pub fn check(kernel: Kernel, filter: &Filter) {
    let frame = filter.frame();
    let either = kernel == Kernel::ConvolveFft;
    if !either && takes_words(kernel) != (frame.sample != sample::U8) {
        violation!("{} for samples of kind {}", kernel.name(), frame.sample);
    }
    let missing = missing(kernel, filter);
    if !missing.is_empty() {
        violation!("{} cannot do {}", kernel.name(), missing.join(", "));
    }
}

fn takes_words(kernel: Kernel) -> bool {
    use Kernel::*;
    matches!(
        kernel,
        BilateralFastU16
            | BilateralFastLowU16
            | BilateralFastLowestU16
            | ConvolveNaiveU16
            | ConvolveTileU16
            | ConvolveMatrixU16
            | ConvolveMatrixNearU16
            | SeparableU16
            | SeparableWideU16
            | Direct3U16
            | Direct3MagnitudeU16
            | SeparableU16R4
            | SeparableU16R8
            | SeparableU16R16
            | BoxU16
            | BilateralNaiveU16
            | BilateralTileU16
            | BilateralPremultipliedU16
            | BilateralSingleU16
    )
}

/// What of the launch is beyond `kernel`, in words.
fn missing(kernel: Kernel, filter: &Filter) -> Vec<String> {
    use Kernel::*;
    let (frame, radius) = (filter.frame(), filter.margin());
    let needs = needs(frame);
    let mut missing = Vec::new();
    let mut unless = |possible: bool, what: &str| {
        if !possible {
            missing.push(what.to_owned());
        }
    };
    let reach = radius.0.max(radius.1);
    let within = |most: usize| (reach <= most, format!("a radius of {reach}"));
    match kernel {
        Direct3U8 | Direct3SmoothU8 | Direct3DividedU8 => {
            let (fits, text) = within(1);
            unless(fits, &text);
            unless(filter.kernel_count() == 1, "so many kernels");
            unless(filter.has_small_whole_weights(), "such weights");
            let smooth = kernel != Direct3SmoothU8 || filter.is_smooth();
            unless(smooth, "weights that are not smooth");
        }
        Direct3MagnitudeU8 => {
            unless(filter.kernel_count() == 2, "so many kernels");
            unless(filter.is_gradient(), "such weights or such a divisor");
            unless(filter.adds_whole_numbers(), "such an offset");
        }
        Direct3U16 | Direct3MagnitudeU16 | Direct3Packed422 | Direct3MagnitudePacked422 => {
            unless(filter.has_form(kernel.form()), "so many weights");
            let magnitude = matches!(kernel, Direct3MagnitudeU16 | Direct3MagnitudePacked422);
            let count = if magnitude { 2 } else { 1 };
            unless(filter.kernel_count() == count, "so many kernels");
            unless(!needs.premultiplied, "premultiplication");
            unless(
                edge_is_code(frame, |_, _| true),
                "a fraction beyond the edge",
            );
            unless(in_whole_rows(frame, kernel.needs_packed_422()), "such rows");
        }
        SeparableMatrixU8 | SeparableMatrixDividedU8 => {
            let jobs = &frame.jobs[..frame.job_count as usize];
            let within = jobs.iter().all(|job| {
                let (across, down) = most_radius(job.channel_count as usize);
                radius.0 <= across && radius.1 <= down
            });
            unless(within, &format!("a radius of {radius:?}"));
            unless(filter.has_whole_bytes(), "such weights");
            let divided = kernel == SeparableMatrixDividedU8 || filter.is_shifted();
            unless(divided, "such a divisor or offset");
            unless(filter.kernel_count() == 1, "magnitudes");
            unless(!needs.premultiplied, "premultiplication");
            unless(
                edge_is_code(frame, |_, _| true),
                "a fraction beyond the edge",
            );
            let packed = jobs.iter().all(|job| job.packed != packed::APART);
            unless(packed && in_rows_of_bytes(frame), "such rows");
        }
        BoxU8 | BoxU16 => {
            let (fits, samples) = filter.box_samples();
            unless(fits, "such weights or such a divisor");
            let codes = frame.max_code as usize + 1;
            unless(samples * codes <= MOST_OF_ALL_SUMS, "so many samples");
            let whole = filtered(frame).all(|(_, _, channel)| channel.zero.fract() == 0.0);
            unless(whole, "such zero levels");
            unless(filter.kernel_count() == 1, "magnitudes");
            let adds = filtered(frame).any(|(.., channel)| channel.offset != channel.zero);
            unless(!adds, "an offset");
            unless(frame.border != border::WRAP, "pictures that repeat");
            unless(!needs.premultiplied, "premultiplication");
            unless(
                edge_is_code(frame, |_, _| true),
                "a fraction beyond the edge",
            );
            let jobs = &frame.jobs[..frame.job_count as usize];
            let packed = jobs.iter().all(|job| job.packed == packed::PACKED);
            let bytes = if kernel == BoxU8 { 1 } else { 2 };
            unless(packed && in_rows(frame, bytes), "such rows");
            let few = |job: &Job| job.channel_count as usize <= kernel.most_channels();
            unless(jobs.iter().all(few), "so many channels");
        }
        SeparableHalfU8
        | SeparableHalfWideU8
        | SeparablePixelsU8
        | SeparablePixelsWideU8
        | SeparableSplitPixelsU8 => {
            let reach = kernel
                .reach()
                .expect("such a kernel says how far it reaches");
            let jobs = &frame.jobs[..frame.job_count as usize];
            let within = jobs.iter().all(|job| {
                let (across, down) = reach.samples(job.channel_count as usize);
                radius.0 <= across && radius.1 <= down
            });
            unless(within, &format!("a radius of {radius:?}"));
            let is_filtered = |channel: &&Channel| channel.action == action::FILTER;
            let three_of_four = jobs.iter().all(|job| {
                job.channel_count == 4 && job.channels.iter().filter(is_filtered).count() < 4
            });
            if kernel.weights() == Weights::Split {
                let mut channels = filtered(frame).map(|(.., channel)| channel);
                let all = channels.all(|channel| filter.takes_apart(channel));
                unless(all, "such weights, zero levels or offsets");
            }
            let all = kernel.takes_three_of_four();
            unless(!all || three_of_four, "other than three of four channels");
            unless(filter.is_separable(), "kernels of other ranks");
            unless(filter.kernel_count() == 1, "magnitudes");
            unless(!needs.premultiplied, "premultiplication");
            unless(
                edge_is_code(frame, |_, _| true),
                "a fraction beyond the edge",
            );
            let packed = jobs.iter().all(|job| job.packed == packed::PACKED);
            unless(packed && in_rows_of_bytes(frame), "such rows");
        }
        // Its spectrum is looked at where the weights are.
        ConvolveFft => {
            let (fits, text) = within(fourier::MOST_RADIUS);
            unless(fits, &text);
            unless(filter.kernel_count() == 1, "magnitudes");
            unless(!needs.premultiplied, "premultiplication");
        }
        // Its weights are looked at where its matrices are.
        ConvolveMatrixU8
        | ConvolveMatrixNearU8
        | ConvolveMatrixRoughU8
        | ConvolveMatrixU16
        | ConvolveMatrixNearU16 => {
            unless(filter.kernel_count() == 1, "magnitudes");
            unless(filter.is_full(), "separable kernels");
            unless(!needs.premultiplied, "premultiplication");
            unless(
                edge_is_code(frame, |_, _| true),
                "a fraction beyond the edge",
            );
            let whole = filtered(frame).all(|(_, _, channel)| channel.zero.fract() == 0.0);
            unless(whole, "such zero levels");
            if let Filter::Linear(launch) = filter {
                let samples = summed_up(launch);
                let possible = filtered(frame).all(|(_, _, channel)| match kernel {
                    ConvolveMatrixU8 | ConvolveMatrixU16 => {
                        quotients_decide(launch.divisor, channel.offset, samples)
                    }
                    _ => channel.offset.abs() <= samples.most_offset(),
                });
                unless(possible, "such an offset or divisor");
                let few = |job: &Job| {
                    job.packed == packed::APART
                        || job.channel_count as usize <= kernel.most_channels()
                };
                let few = frame.jobs[..frame.job_count as usize].iter().all(few);
                unless(few, "so many packed channels");
                unless(in_rows(frame, samples.bytes as u32), "such rows");
            }
        }
        SeparableU8R2
        | SeparableU8R3
        | SeparableU8R4
        | SeparableU8R7
        | SeparableU8R8
        | SeparableU8R16
        | SeparableMagnitudeU8
        | SeparableU16R4
        | SeparableU16R8
        | SeparableU16R16
        | SeparablePacked422R4
        | SeparablePacked422R8
        | SeparablePacked422R16 => {
            unless(filter.has_form(kernel.form()), "so many weights");
            let count = if kernel == SeparableMagnitudeU8 { 2 } else { 1 };
            unless(filter.kernel_count() == count, "so many kernels");
            unless(filter.has_plain_weights(), "such weights");
            unless(!needs.premultiplied, "premultiplication");
            unless(
                edge_is_code(frame, |_, _| true),
                "a fraction beyond the edge",
            );
            let whole = filtered(frame).all(|(_, _, channel)| channel.zero.fract() == 0.0);
            unless(whole, "such zero levels");
            let rows = !kernel.needs_packed_422() || in_whole_rows(frame, true);
            unless(rows, "such rows");
        }
        SeparableWideU8 | SeparableWideU16 => {
            unless(filter.is_of_rank_1(), "kernels that are not of rank 1");
            unless(filter.kernel_count() == 1, "magnitudes");
            unless(filter.weights_follow(), "weights in such order");
            unless(!needs.premultiplied, "premultiplication");
        }
        SeparableU8 | SeparableU16 => {
            unless(!filter.is_full(), "kernels that are not separable");
            unless(filter.weights_follow(), "weights in such order");
        }
        BilateralTableU8
        | BilateralTableSmallU8
        | BilateralWideTableU8
        | BilateralWideTableSmallU8 => {
            let narrow = matches!(kernel, BilateralTableU8 | BilateralTableSmallU8);
            let (fits, text) = within(if narrow { 8 } else { 16 });
            unless(fits, &text);
            unless(!needs.joint, "joint weights");
            unless(!needs.premultiplied, "premultiplication");
            unless(
                edge_is_code(frame, |_, _| true),
                "a fraction beyond the edge",
            );
        }
        BilateralJointU8 | BilateralJointWideU8 => {
            let (fits, text) = within(if kernel == BilateralJointU8 {
                8
            } else {
                MAX_RADIUS
            });
            unless(fits, &text);
            let joint = filtered(frame).all(|(job, index, _)| is_joint(job, index));
            unless(joint, "channels with a weight of their own");
            unless(filter.distance() == Some(distance::L1), "the L2 distance");
            unless(!needs.premultiplied, "premultiplication");
            unless(
                edge_is_code(frame, |_, _| true),
                "a fraction beyond the edge",
            );
        }
        BilateralTileU8 | BilateralTileU16 => {
            unless(!needs.premultiplied, "premultiplication");
            unless(edge_is_code(frame, is_joint), "a fraction beyond the edge");
        }
        BilateralSingleU16 => {
            unless(!needs.joint, "joint weights");
            unless(!needs.premultiplied, "premultiplication");
        }
        BilateralPremultipliedU8 | BilateralPremultipliedU16 => {
            let all = frame.jobs[..frame.job_count as usize]
                .iter()
                .all(|job| job.alpha >= 0);
            unless(all, "jobs without premultiplication");
            unless(
                edge_is_code(frame, |_, _| true),
                "a fraction beyond the edge",
            );
        }
        BilateralFastU8
        | BilateralFastLowU8
        | BilateralFastLowestU8
        | BilateralFastU16
        | BilateralFastLowU16
        | BilateralFastLowestU16 => {
            unless(!needs.joint, "joint weights");
            unless(!needs.premultiplied, "premultiplication");
        }
        ConvolveNaiveU8 | ConvolveNaiveU16 | ConvolveTileU8 | ConvolveTileU16 => {
            let one = filter.is_full() || filter.is_separable();
            unless(one, "sums of outer products");
        }
        BilateralNaiveU8 | BilateralNaiveU16 => {}
    }
    let of_422 = |job: &Job| matches!(job.packed, packed::LUMA_FIRST | packed::LUMA_SECOND);
    let any_422 = frame.jobs[..frame.job_count as usize].iter().any(of_422);
    unless(kernel.takes_packed_422() || !any_422, "packed 4:2:2");
    unless(kernel.fits(radius, needs), "so large a tile");
    missing
}

fn needs(frame: &Frame) -> Needs {
    Needs::of(&frame.jobs[..frame.job_count as usize])
}

fn is_joint(job: &Job, index: usize) -> bool {
    job.joint_or_filter >> index & 1 == 1
}

/// Job, index and channel of all that is filtered.
fn filtered(frame: &Frame) -> impl Iterator<Item = (&Job, usize, &Channel)> {
    frame.jobs[..frame.job_count as usize]
        .iter()
        .flat_map(|job| {
            let channels = job.channels[..job.channel_count as usize]
                .iter()
                .enumerate();
            channels
                .filter(|(_, channel)| channel.action == action::FILTER)
                .map(move |(index, channel)| (job, index, channel))
        })
}

/// Whether what lies beyond the edge of the filtered channels that `concerns` names is a code
/// value.
fn edge_is_code(frame: &Frame, concerns: impl Fn(&Job, usize) -> bool) -> bool {
    let is_code = |channel: &Channel| {
        let code = channel.zero + channel.beyond;
        code.fract() == 0.0
            && code - channel.zero == channel.beyond
            && (0.0..=frame.max_code).contains(&code)
    };
    frame.border != border::CONSTANT
        || filtered(frame).all(|(job, index, channel)| !concerns(job, index) || is_code(channel))
}

/// What a kernel by digits sums up.
pub fn summed_up(launch: &ConvolveLaunch) -> Samples {
    let frame = &launch.frame;
    let max_code = frame.max_code as u32;
    let words = frame.sample != sample::U8;
    let middle = max_code.div_ceil(2) as f32;
    let from_the_middle = filtered(frame).all(|(_, _, channel)| channel.zero == middle);
    Samples {
        max_code,
        bytes: if words { 2 } else { 1 },
        centred: words && launch.sum == launch.divisor && from_the_middle,
    }
}

/// Whether all samples are bytes without others in between but those of their packed job, and rows begin
/// at multiples of 16.
fn in_rows_of_bytes(frame: &Frame) -> bool {
    in_rows(frame, 1)
}

/// The same of samples of so many bytes.
fn in_rows(frame: &Frame, bytes: u32) -> bool {
    (frame.jobs[..frame.job_count as usize].iter()).all(|job| {
        let channels = &job.channels[..job.channel_count as usize];
        let first = &channels[0];
        let strides = u64::from(first.input_stride | first.output_stride);
        let alike = |channel: &Channel| Channel {
            input: 0,
            output: 0,
            ..*channel
        };
        let rows = |channel: &Channel| {
            job.packed != packed::APART
                || (channel.step == bytes && (channel.input | channel.output).is_multiple_of(16))
        };
        (first.input | first.output).is_multiple_of(16)
            && (job.height == 1 || strides.is_multiple_of(16))
            && channels.iter().all(rows)
            && (job.packed == packed::APART
                || channels.len() != 3
                || channels
                    .iter()
                    .all(|channel| alike(channel) == alike(first)))
    })
}

/// Whether all jobs are packed, of one, two or four channels, or all packed 4:2:2, and rows begin at multiples
/// of 16.
fn in_whole_rows(frame: &Frame, packed_422: bool) -> bool {
    (frame.jobs[..frame.job_count as usize].iter()).all(|job| {
        let first = &job.channels[0];
        let strides = u64::from(first.input_stride | first.output_stride);
        let is_422 = matches!(job.packed, packed::LUMA_FIRST | packed::LUMA_SECOND);
        job.packed != packed::APART
            && is_422 == packed_422
            && job.channel_count.is_power_of_two()
            && (first.input | first.output).is_multiple_of(16)
            && (job.height == 1 || strides.is_multiple_of(16))
    })
}
