//! The parts of a pipeline that depend on what the input turns out to be: its size, its streams.

use std::str::FromStr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use gst::prelude::*;

use crate::audio::AudioPlan;
use crate::output;

/// Application messages of this program, on the bus of its pipeline.
pub const NOTE: &str = "cudaconv-note";
pub const NO_VIDEO: &str = "cudaconv-no-video";
pub const INTERRUPT: &str = "cudaconv-interrupt";

/// A message of this program that says `text`.
pub fn application(name: &str, text: &str) -> gst::Message {
    let structure = gst::Structure::builder(name).field("text", text).build();
    gst::message::Application::new(structure)
}

fn post(pipeline: &gst::Pipeline, name: &str, text: &str) {
    // A bus that is flushing belongs to a pipeline that has ended: nobody wants to know.
    let _ = pipeline.post_message(application(name, text));
}

/// Once the size is known: the right half of a comparison begins where the left one ends, and
/// pictures that 4:2:0 cannot halve are encoded as 4:4:4.
pub fn watch_caps(pipeline: &gst::Pipeline, filter: &gst::Element, odd_sizes: bool) {
    let Some(pad) = filter.static_pad("src") else {
        return;
    };
    let weak = pipeline.downgrade();
    pad.add_probe(gst::PadProbeType::EVENT_DOWNSTREAM, move |_, info| {
        if let (Some(event), Some(pipeline)) = (info.event(), weak.upgrade())
            && let gst::EventView::Caps(caps) = event.view()
        {
            apply_caps(&pipeline, caps.caps(), odd_sizes);
        }
        gst::PadProbeReturn::Ok
    });
}

fn apply_caps(pipeline: &gst::Pipeline, caps: &gst::CapsRef, odd_sizes: bool) {
    let Some(structure) = caps.structure(0) else {
        return;
    };
    let side = |name: &str| structure.get::<i32>(name).unwrap_or(0);
    let (mut width, height) = (side("width"), side("height"));
    let mix = pipeline.by_name("mix");
    if let Some(pad) = mix.and_then(|mix| mix.static_pad("sink_1")) {
        pad.set_property("xpos", width);
        width *= 2;
    }
    let Some(encodable) = pipeline.by_name("encodable") else {
        return;
    };
    let even = width % 2 == 0 && height % 2 == 0;
    if !even && odd_sizes {
        post(
            pipeline,
            NOTE,
            &format!(
                "{width}x{height} is encoded as 4:4:4, for 4:2:0 needs even sizes; not every \
                 player can show it"
            ),
        );
    } else if !even {
        let (width, height) = (width & !1, height & !1);
        post(
            pipeline,
            NOTE,
            &format!("this encoder takes even sizes alone: the picture is cut to {width}x{height}"),
        );
    }
    let text = output::encodable(even || !odd_sizes);
    if let Ok(caps) = gst::Caps::from_str(text) {
        encodable.set_property("caps", caps);
    }
}

/// Shortest time a frame may be shown, in nanoseconds: a tick of the finest container.
const SHORTEST: u64 = 1_000_000_000 / 360_000;

/// How long the last frame is shown ends the track: one that comes without a duration would be cut
/// off by players. It gets that of the frame before it.
pub fn watch_durations(pipeline: &gst::Pipeline) {
    let mux = pipeline.by_name("mux");
    let pad = mux.and_then(|mux| mux.sink_pads().into_iter().next());
    let Some(pad) = pad else {
        return;
    };
    let mut last_pts = None;
    let mut interval = gst::ClockTime::from_mseconds(40);
    let state = std::sync::Mutex::new(move |buffer: &mut gst::BufferRef| {
        if let (Some(pts), Some(last)) = (buffer.pts(), last_pts) {
            interval = pts.checked_sub(last).unwrap_or(interval);
        }
        last_pts = buffer.pts().or(last_pts);
        if buffer.duration().is_none_or(|d| d.nseconds() < SHORTEST) {
            buffer.set_duration(interval);
        }
    });
    pad.add_probe(gst::PadProbeType::BUFFER, move |_, info| {
        if let (Some(buffer), Ok(mut complete)) = (info.buffer_mut(), state.lock()) {
            complete(buffer.make_mut());
        }
        gst::PadProbeReturn::Ok
    });
}

/// Video is linked by the description itself; sound is led along, and a source without video is
/// told of.
pub fn watch_pads(pipeline: &gst::Pipeline, source: &gst::Element, audio: Option<AudioPlan>) {
    let weak = pipeline.downgrade();
    let videos = Arc::new(AtomicU32::new(0));
    let seen = videos.clone();
    source.connect_pad_added(move |_, pad| {
        let Some(pipeline) = weak.upgrade() else {
            return;
        };
        match media_of(pad).as_str() {
            media if media.starts_with("video/") => {
                if seen.fetch_add(1, Ordering::Relaxed) > 0 {
                    post(
                        &pipeline,
                        NOTE,
                        "another video stream of the input is left out",
                    );
                }
            }
            media if media.starts_with("audio/") => {
                let Some(audio) = &audio else {
                    return;
                };
                let (Ok(note) | Err(note)) = audio.attach(pipeline.upcast_ref(), pad);
                post(&pipeline, NOTE, &note);
            }
            media => post(&pipeline, NOTE, &format!("a stream of {media} is left out")),
        }
    });
    let weak = pipeline.downgrade();
    source.connect_no_more_pads(move |source| {
        if videos.load(Ordering::Relaxed) > 0 {
            return;
        }
        let others: Vec<String> = source.src_pads().iter().map(media_of).collect();
        let others = if others.is_empty() {
            "nothing".to_owned()
        } else {
            others.join(", ")
        };
        if let Some(pipeline) = weak.upgrade() {
            let text = format!("the input has no video that can be decoded, only {others}");
            post(&pipeline, NO_VIDEO, &text);
        }
    });
}

fn media_of(pad: &gst::Pad) -> String {
    let caps = pad.current_caps().unwrap_or_else(|| pad.query_caps(None));
    let name = caps.structure(0).map(|s| s.name().to_string());
    name.unwrap_or_else(|| "unknown kind".to_owned())
}
