//! Another filter in the place of the one that runs: a backend is chosen before the element starts,
//! and the stream must not stop for it.

use std::sync::mpsc;
use std::time::Duration;

use gst::prelude::*;

use crate::{plugin, properties};

/// Far longer than between two frames of any camera.
const LIMIT: Duration = Duration::from_secs(5);

/// A filter as `old`, but on `backend`, already started: it has its device, or the reason why not
/// is known before anything of the stream was touched.
///
/// # Errors
/// What the element says, as a sentence.
pub fn prepare(old: &gst::Element, backend: &gst::glib::Value) -> Result<gst::Element, String> {
    let new = gst::ElementFactory::make(plugin::ELEMENT)
        .build()
        .map_err(|error| error.message.to_string())?;
    for property in properties::of(old) {
        new.set_property_from_value(&property.name, &old.property_value(&property.name));
    }
    new.set_property_from_value("backend", backend);
    let bus = gst::Bus::new();
    new.set_bus(Some(&bus));
    let started = new.set_state(gst::State::Ready);
    new.set_bus(None);
    if started.is_ok() {
        return Ok(new);
    }
    // Going to NULL cannot fail.
    let _ = new.set_state(gst::State::Null);
    let error = bus.pop_filtered(&[gst::MessageType::Error]);
    let text = error.and_then(|message| match message.view() {
        gst::MessageView::Error(error) => Some(error.error().message().to_owned()),
        _ => None,
    });
    Err(text.unwrap_or_else(|| "the filter could not be started".to_owned()))
}

/// Puts `new` between the neighbours of `old` at the next frame boundary: the frames in `old` are
/// finished first, none is lost.
///
/// # Errors
/// A sentence, and nothing has changed, when no frame came in time.
pub fn replace(
    pipeline: &gst::Pipeline,
    old: &gst::Element,
    new: &gst::Element,
) -> Result<(), String> {
    let upstream = peer(old, "sink")?;
    let downstream = peer(old, "src")?;
    let (blocked, wait) = mpsc::channel();
    let probe = upstream.add_probe(gst::PadProbeType::BLOCK_DOWNSTREAM, move |_, _| {
        // Nobody waits any more where it took too long.
        let _ = blocked.send(());
        gst::PadProbeReturn::Ok
    });
    let probe = probe.ok_or("the filter's neighbour is shutting down")?;
    if wait.recv_timeout(LIMIT).is_err() {
        upstream.remove_probe(probe);
        return Err("no frame came, so the filter was left as it is".to_owned());
    }
    let exchanged = exchange(pipeline, old, new, &upstream, &downstream);
    upstream.remove_probe(probe);
    // The new filter may need another time; refused only while the pipeline is shutting down.
    let _ = pipeline.recalculate_latency();
    exchanged
}

fn peer(filter: &gst::Element, pad: &str) -> Result<gst::Pad, String> {
    let pad = filter.static_pad(pad).and_then(|pad| pad.peer());
    pad.ok_or_else(|| "the filter has no neighbour".to_owned())
}

/// With the stream blocked in front of `old`.
fn exchange(
    pipeline: &gst::Pipeline,
    old: &gst::Element,
    new: &gst::Element,
    upstream: &gst::Pad,
    downstream: &gst::Pad,
) -> Result<(), String> {
    let failed = |error: gst::glib::BoolError| error.message.to_string();
    let pads = |element: &gst::Element| element.static_pad("sink").zip(element.static_pad("src"));
    let (sink, src) = pads(old).ok_or("the filter has no pads")?;
    // Answered once every frame has been pushed on.
    sink.query(&mut gst::query::Drain::new());
    upstream.unlink(&sink).map_err(failed)?;
    src.unlink(downstream).map_err(failed)?;
    // Going to NULL cannot fail.
    let _ = old.set_state(gst::State::Null);
    let name = old.name();
    pipeline.remove(old).map_err(failed)?;
    // What has no parent may be renamed.
    new.set_property("name", name.as_str());
    pipeline.add(new).map_err(failed)?;
    let (sink, src) = pads(new).ok_or("the filter has no pads")?;
    src.link(downstream).map_err(|error| error.to_string())?;
    upstream.link(&sink).map_err(|error| error.to_string())?;
    new.sync_state_with_parent().map_err(failed)
}
