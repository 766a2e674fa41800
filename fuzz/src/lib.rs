//! What the fuzzers share: an engine, formats, and small pictures.

use std::sync::{Arc, LazyLock};

use gstcudaconv::engine::cpu::CpuEngine;
use gstcudaconv::engine::{Engine, Frame};
use gstcudaconv::filter::layout::supported_formats;
use gstcudaconv::filter::{Layout, Plan};

/// One CPU engine for all inputs.
pub static ENGINE: LazyLock<CpuEngine> = LazyLock::new(|| CpuEngine::new().expect("it starts"));

/// One of the formats, by any number.
pub fn format(number: u8) -> gst_video::VideoFormat {
    gst::init().expect("GStreamer starts");
    let formats: Vec<_> = supported_formats().collect();
    formats[usize::from(number) % formats.len()]
}

pub fn info(format: gst_video::VideoFormat, width: u32, height: u32) -> gst_video::VideoInfo {
    let info = gst_video::VideoInfo::builder(format, width, height).build();
    info.expect("small sizes are possible")
}

/// Filters a frame.
pub fn run(plan: &Arc<Plan>, frame: Frame) -> Frame {
    let prepared = ENGINE.prepare(plan, true).expect("the CPU does every plan");
    let (frame, timing) = prepared.expect("waited for").submit(frame).wait();
    timing.expect("the CPU does not fail");
    frame
}

/// The active bytes of the output.
pub fn output(layout: &Layout, frame: &Frame) -> Vec<u8> {
    let mut bytes = Vec::new();
    for (plane, size) in layout.planes.iter().enumerate() {
        let (rows, stride) = frame.output.plane(plane);
        for y in 0..size.rows {
            bytes.extend_from_slice(&rows[y * stride..][..size.row_bytes]);
        }
    }
    bytes
}
