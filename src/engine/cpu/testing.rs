//! Plans and frames for tests, made by hand.

use std::sync::Arc;

use crate::engine::{Frame, InputFrame, OutputFrame, PlaneSpan};
use crate::filter::layout::{Layout, Role};
use crate::filter::plan::{Action, Algorithm, Correlation, Job, Operation, Plan, Taps};
use crate::filter::spec::{Border, Precision};

pub fn layout(format: gst_video::VideoFormat, width: u32, height: u32) -> Arc<Layout> {
    gst::init().unwrap();
    let info = gst_video::VideoInfo::builder(format, width, height)
        .build()
        .unwrap();
    Arc::new(Layout::new(&info).unwrap())
}

pub fn separable(horizontal: &[f32], vertical: &[f32], divisor: f32) -> Correlation {
    Correlation {
        taps: Taps::Separable {
            horizontal: horizontal.to_vec(),
            vertical: vertical.to_vec(),
        },
        divisor,
    }
}

pub fn gauss3() -> Correlation {
    separable(&[1.0, 2.0, 1.0], &[1.0, 2.0, 1.0], 16.0)
}

/// Group `group` with every colour filtered, alpha and padding copied.
pub fn filter_job(layout: &Layout, group: usize, operation: Operation, border: Border) -> Job {
    let group = layout.groups[group].clone();
    let actions = (group.channels.iter())
        .map(|channel| match channel.role {
            Role::Alpha | Role::Padding => Action::Copy,
            _ => Action::Filter {
                zero: channel.zero as f32,
                offset: channel.zero as f32,
                beyond: 0.0,
            },
        })
        .collect::<Vec<_>>();
    let copies = actions.iter().all(|action| *action == Action::Copy);
    Job {
        group,
        actions,
        operation: if copies { Operation::None } else { operation },
        border,
        premultiply: false,
    }
}

/// Every group filtered alike.
pub fn plan(layout: &Arc<Layout>, operation: Operation, border: Border) -> Plan {
    Plan {
        layout: layout.clone(),
        jobs: (0..layout.groups.len())
            .map(|group| filter_job(layout, group, operation.clone(), border))
            .collect(),
        algorithm: Algorithm::Separable,
        precision: Precision::Fp32,
    }
}

/// Planes one behind the other without padding.
pub fn tight_spans(layout: &Layout) -> Vec<PlaneSpan> {
    let mut offset = 0;
    (layout.planes.iter())
        .map(|size| {
            let span = PlaneSpan {
                memory: 0,
                offset,
                stride: size.row_bytes,
            };
            offset += size.row_bytes * size.rows;
            span
        })
        .collect()
}

/// A tight frame whose byte x of row y of a plane is `byte(plane, y, x)`, and an output of noise.
pub fn frame(layout: &Layout, byte: impl Fn(usize, usize, usize) -> u8, interlaced: bool) -> Frame {
    let mut bytes = Vec::new();
    for (plane, size) in layout.planes.iter().enumerate() {
        for y in 0..size.rows {
            bytes.extend((0..size.row_bytes).map(|x| byte(plane, y, x)));
        }
    }
    let old: Vec<u8> = (0..bytes.len()).map(|i| (i * 151 + 89) as u8).collect();
    let spans = tight_spans(layout);
    Frame {
        input: InputFrame::new(layout, vec![Box::new(bytes)], spans.clone()).unwrap(),
        output: OutputFrame::new(layout, vec![Box::new(old)], spans).unwrap(),
        interlaced,
    }
}

/// The active bytes of the output, plane by plane and row by row.
pub fn output_bytes(layout: &Layout, frame: &Frame) -> Vec<u8> {
    let mut bytes = Vec::new();
    for (plane, size) in layout.planes.iter().enumerate() {
        let (rows, stride) = frame.output.plane(plane);
        for y in 0..size.rows {
            bytes.extend_from_slice(&rows[y * stride..][..size.row_bytes]);
        }
    }
    bytes
}

/// Numbers that look random (splitmix64).
pub fn noise(seed: u64) -> impl FnMut() -> u64 {
    let mut state = seed;
    move || {
        state = state.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = state;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }
}

/// A frame of valid code values drawn from `seed` (smooth, noisy, or only the extremes), its rows
/// padded and its planes in memories of their own, at odd offsets.
pub fn padded_frame(layout: &Layout, seed: u64, interlaced: bool) -> Frame {
    let mut next = noise(seed);
    let style = next() % 4;
    let max = u64::from(layout.max_code());
    let mut code = |x: usize, y: usize| match style {
        0 => (next() % 2) * max,
        1 => (x as u64 * 3 + y as u64 * 5 + next() % 8) % (max + 1),
        _ => next() % (max + 1),
    };
    let (mut inputs, mut outputs) = (Vec::new(), Vec::new());
    let mut spans = Vec::new();
    for (memory, size) in layout.planes.iter().enumerate() {
        let span = PlaneSpan {
            memory,
            offset: 3 + memory,
            stride: size.row_bytes + 5,
        };
        let len = span.offset + span.stride * (size.rows - 1) + size.row_bytes;
        inputs.push((0..len).map(|i| (i * 31) as u8).collect::<Vec<u8>>());
        outputs.push(vec![0xA5u8; len]);
        spans.push(span);
    }
    for group in &layout.groups {
        for channel in &group.channels {
            let span = spans[channel.plane];
            for y in 0..group.height {
                for x in 0..group.width {
                    let at = span.offset + y * span.stride + channel.offset + x * channel.step;
                    let bytes = &mut inputs[channel.plane][at..];
                    layout.sample.write(bytes, code(x, y) as u32);
                }
            }
        }
    }
    let read = inputs
        .into_iter()
        .map(|bytes| Box::new(bytes) as _)
        .collect();
    let write = outputs
        .into_iter()
        .map(|bytes| Box::new(bytes) as _)
        .collect();
    Frame {
        input: InputFrame::new(layout, read, spans.clone()).unwrap(),
        output: OutputFrame::new(layout, write, spans).unwrap(),
        interlaced,
    }
}
