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

pub fn full(width: usize, weights: &[f32], divisor: f32) -> Correlation {
    Correlation {
        taps: Taps::Full {
            width,
            height: weights.len() / width,
            weights: weights.to_vec(),
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
