//! An end after so many pictures or so much time, counted where the pictures are shown: neither a
//! slow machine nor a late look at the bus changes what is in a recording.

use std::sync::Mutex;
use std::time::Duration;

use gst::prelude::*;

use crate::wiring::application;

/// The application message that says that the limit was reached.
pub const ENOUGH: &str = "cudaconv-enough";

/// What has been let pass.
struct Passed {
    frames: u64,
    first: Option<gst::ClockTime>,
    told: bool,
}

/// Lets no more than `frames` pictures, and of those no later ones than `duration`, go past the
/// element `panel`.
pub fn set(pipeline: &gst::Pipeline, frames: Option<u64>, duration: Option<Duration>) {
    let panel = pipeline.by_name("panel");
    let Some(pad) = panel.and_then(|panel| panel.static_pad("src")) else {
        return;
    };
    if frames.is_none() && duration.is_none() {
        return;
    }
    let weak = pipeline.downgrade();
    let passed = Mutex::new(Passed {
        frames: 0,
        first: None,
        told: false,
    });
    pad.add_probe(gst::PadProbeType::BUFFER, move |_, info| {
        let (Some(buffer), Ok(mut passed)) = (info.buffer(), passed.lock()) else {
            return gst::PadProbeReturn::Ok;
        };
        let time = buffer.pts().unwrap_or_default();
        let first = *passed.first.get_or_insert(time);
        let late =
            duration.is_some_and(|limit| time.saturating_sub(first).nseconds() >= nanos(limit));
        if !late && frames.is_none_or(|limit| passed.frames < limit) {
            passed.frames += 1;
            // The last one is shown before anything ends.
            return gst::PadProbeReturn::Ok;
        }
        if !std::mem::replace(&mut passed.told, true)
            && let Some(pipeline) = weak.upgrade()
        {
            // A bus that is flushing belongs to a pipeline that has ended.
            let _ = pipeline.post_message(application(ENOUGH, ""));
        }
        gst::PadProbeReturn::Drop
    });
}

fn nanos(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}
