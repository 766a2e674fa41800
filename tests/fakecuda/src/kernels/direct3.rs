//! The compact launch of the kernels of 3 x 3 taps, written out as any other linear launch; and a
//! check of all in it that was computed beforehand.

use half::f16;

use super::image::position;
use crate::abi::direct3::{SUM_UNIT, WEIGHT_UNIT};
use crate::abi::{
    Channel, ConvolveLaunch, Direct3Launch, Direct3Plane, Job, Kernel, MAX_JOBS, ROW_ALIGNMENT,
    Taps, action, border,
};
use crate::violation;

/// The launch that `launch` stands for. Ends the process when it contradicts itself.
pub fn expand(kernel: Kernel, launch: &Direct3Launch) -> ConvolveLaunch {
    let counts = 1..=MAX_JOBS as u32;
    if !counts.contains(&launch.plane_count) || launch.border > border::CONSTANT {
        violation!("{} planes, border {}", launch.plane_count, launch.border);
    }
    if !(1..=2).contains(&launch.kernel_count) {
        violation!("{} kernels", launch.kernel_count);
    }
    let mut made = ConvolveLaunch {
        kernel_count: launch.kernel_count,
        divisor: launch.divisor,
        reciprocal: launch.reciprocal,
        ..ConvolveLaunch::default()
    };
    let unit = match launch.kernel_count {
        1 => WEIGHT_UNIT,
        _ => 1.0,
    };
    for n in 0..launch.kernel_count as usize {
        let first = 12 * n;
        made.kernels[n] = Taps {
            width: 3,
            height: 3,
            separable: 0,
            first: first as u32,
        };
        for (index, pair) in launch.weights[n].iter().enumerate() {
            let place = first + index / 3 * 4 + index % 3;
            made.inline_weights[place] = twice(*pair) / unit;
        }
        let sum: f32 = made.inline_weights[first..][..12].iter().sum();
        if launch.sums[n] != sum {
            violation!("{} for a sum of {sum}", launch.sums[n]);
        }
    }
    let rounded = matches!(kernel, Kernel::Direct3U8 | Kernel::Direct3SmoothU8);
    if rounded && twice(launch.scale) * launch.divisor * SUM_UNIT != 1.0 {
        violation!("{:#x} for 1 / {}", launch.scale, launch.divisor);
    }
    let start = -128.0 * launch.sums[0] * SUM_UNIT;
    if launch.kernel_count == 1 && twice(launch.start) != start {
        violation!("{:#x} for {start}", launch.start);
    }
    let frame = &mut made.frame;
    frame.job_count = launch.plane_count;
    frame.border = launch.border;
    frame.max_code = 255.0;
    frame.tile_height = launch.tile_height;
    let planes = launch.planes.iter().take(launch.plane_count as usize);
    for (job, plane) in frame.jobs.iter_mut().zip(planes) {
        *job = expand_plane(launch.border, plane);
        if rounded {
            check_bias(launch, plane);
            check_range(&made.inline_weights, launch.divisor, plane);
        }
    }
    made
}

fn expand_plane(rule: u32, plane: &Direct3Plane) -> Job {
    let channels = plane.channels;
    if !(1..=4).contains(&channels)
        || !plane.row_bytes.is_multiple_of(channels)
        || plane.height == 0
    {
        violation!("{plane:?}");
    }
    let strides = u64::from(plane.input_stride | plane.output_stride);
    if !(plane.input | plane.output | strides).is_multiple_of(ROW_ALIGNMENT as u64) {
        violation!("rows that are not aligned: {plane:?}");
    }
    let width = plane.row_bytes / channels;
    let edges = |length: u32, unit: u32| {
        let at = |at: i64| match position(rule, at, length.into()) {
            Some(place) => (place as u32 * unit) as i32,
            None => -1,
        };
        (at(-1), at(length.into()))
    };
    let found = [(plane.left, plane.right), (plane.above, plane.below)];
    if found != [edges(width, channels), edges(plane.height, 1)] {
        violation!("edges by border {rule}: {plane:?}");
    }
    let mut job = Job {
        channel_count: channels,
        width,
        height: plane.height,
        packed: 1,
        first_tile_row: plane.first_tile_row,
        tiles_across: plane.tiles_across,
        ..Job::default()
    };
    for byte in 0..4 {
        let index = byte % channels as usize;
        let channel = channel_of(plane, byte, index);
        if byte < channels as usize {
            job.channels[index] = channel;
        } else if job.channels[index] != channel {
            violation!("byte {byte} is not as channel {index}: {plane:?}");
        }
        // The bytes of three channels wander through the words.
        let alike = Channel {
            input: job.channels[0].input,
            output: job.channels[0].output,
            beyond: job.channels[0].beyond,
            ..channel
        };
        if channels == 3 && alike != job.channels[0] {
            violation!("three channels that differ: {plane:?}");
        }
    }
    job
}

/// Channel `index`, as byte `byte` of a word says.
fn channel_of(plane: &Direct3Plane, byte: usize, index: usize) -> Channel {
    let of = |word: u32| word >> (8 * byte) & 0xff;
    let action = match (of(plane.filtered), of(plane.copied)) {
        (0xff, 0) => action::FILTER,
        (0, 0xff) => action::COPY,
        (0, 0) => action::FILL,
        masks => violation!("masks {masks:?} of a byte"),
    };
    if action != action::FILL && of(plane.filled) != 0 {
        violation!("a byte that is filled besides: {plane:?}");
    }
    Channel {
        input: plane.input + index as u64,
        output: plane.output + index as u64,
        input_stride: plane.input_stride,
        output_stride: plane.output_stride,
        step: plane.channels,
        action,
        zero: plane.zero[byte],
        offset: plane.offset[byte],
        beyond: of(plane.beyond) as f32 - plane.zero[byte],
        fill: of(plane.filled),
    }
}

/// What is added in float16 is what float32 would add.
fn check_bias(launch: &Direct3Launch, plane: &Direct3Plane) {
    for byte in 0..4 {
        let pair = plane.bias[byte % 2];
        let bias = float(if byte < 2 { pair & 0xffff } else { pair >> 16 });
        let level = (128.0 - plane.zero[byte]) * launch.sums[0] / launch.divisor;
        let filtered = plane.filtered >> (8 * byte) & 1 == 1;
        if filtered && bias != 1024.0 + plane.offset[byte] + level {
            violation!("a bias of {bias} at byte {byte}: {plane:?}");
        }
    }
}

/// What may lie outside 0..255 is clamped.
fn check_range(lines: &[f32], divisor: f32, plane: &Direct3Plane) {
    let weights: [f32; 9] = std::array::from_fn(|at| lines[at / 3 * 4 + at % 3]);
    for byte in (0..4).filter(|byte| plane.filtered >> (8 * byte) & 1 == 1) {
        // Each sample is the worst one: those that raise sums, or all the others.
        let worst = |raised: f64| -> f64 {
            let product = |weight: f32| {
                let sample = if f64::from(weight) * raised > 0.0 {
                    255.0
                } else {
                    0.0
                };
                f64::from(weight) * (sample - f64::from(plane.zero[byte]))
            };
            weights.iter().map(|&weight| product(weight)).sum::<f64>() / f64::from(divisor)
                + f64::from(plane.offset[byte])
        };
        let all = [worst(1.0), worst(-1.0)];
        if plane.clamped == 0 && !all.iter().all(|result| (0.0..=255.0).contains(result)) {
            violation!("results {all:?} that are not clamped: {plane:?}");
        }
    }
}

/// The value of two equal float16.
fn twice(pair: u32) -> f32 {
    if pair >> 16 != pair & 0xffff {
        violation!("{pair:#x} is not twice the same");
    }
    float(pair & 0xffff)
}

fn float(half: u32) -> f32 {
    f16::from_bits(half as u16).to_f32()
}
