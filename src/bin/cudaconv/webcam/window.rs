//! The window, if there can be one, and the keys that are pressed in it.

use gst::prelude::*;

use super::keys;
use crate::packages;

/// Elements that show video on a screen of which no window could be had: they take the whole
/// screen, and no key would come from it.
const NO_WINDOW: &[&str] = &["kmssink", "fbdevsink"];

/// The element that opens a window.
///
/// # Errors
/// A sentence that says why there is none.
pub fn sink() -> Result<String, String> {
    let set = |name: &str| std::env::var_os(name).is_some_and(|value| !value.is_empty());
    let (x, wayland) = (set("DISPLAY"), set("WAYLAND_DISPLAY"));
    if !x && !wayland {
        return Err("there is no display (neither DISPLAY nor WAYLAND_DISPLAY is set)".to_owned());
    }
    // Asked in vain, the library of Wayland would complain on its own.
    let mut candidates = candidates();
    candidates.retain(|factory| wayland || !factory.name().starts_with("wayland"));
    let found = candidates.iter().find(|factory| opens(factory));
    found
        .map(|factory| factory.name().to_string())
        .ok_or_else(|| refusal(&candidates))
}

/// Why there is no window though there is a display.
fn refusal(tried: &[gst::ElementFactory]) -> String {
    let names: Vec<_> = tried.iter().map(|f| f.name().to_string()).collect();
    if names.iter().any(|name| name == "ximagesink") {
        return format!("no window can be opened (tried with {})", names.join(", "));
    }
    format!(
        "no window can be opened: the GStreamer element ximagesink is missing; {}",
        packages::advice("ximagesink")
    )
}

/// Video sinks, best first: those that tell of keys before all others, then by rank.
fn candidates() -> Vec<gst::ElementFactory> {
    let kind = gst::ElementFactoryType::SINK | gst::ElementFactoryType::MEDIA_VIDEO;
    let factories = gst::ElementFactory::factories_with_type(kind, gst::Rank::MARGINAL);
    let mut sinks: Vec<gst::ElementFactory> = factories
        .into_iter()
        .filter(|factory| !NO_WINDOW.contains(&factory.name().as_str()))
        .filter(|factory| factory.has_interface("GstVideoOverlay"))
        .collect();
    sinks.sort_by_key(|factory| {
        let keys = factory.has_interface("GstNavigation");
        (std::cmp::Reverse(keys), std::cmp::Reverse(factory.rank()))
    });
    sinks
}

/// Whether it gets at the display.
fn opens(factory: &gst::ElementFactory) -> bool {
    let Ok(element) = factory.create().build() else {
        return false;
    };
    let opened = element.set_state(gst::State::Ready).is_ok();
    // Going to NULL cannot fail.
    let _ = element.set_state(gst::State::Null);
    opened
}

/// Leads the keys that are pressed in the window of `sink` to the bus of `pipeline`.
pub fn watch_keys(pipeline: &gst::Pipeline, sink: &gst::Element) {
    let Some(pad) = sink.static_pad("sink") else {
        return;
    };
    let weak = pipeline.downgrade();
    pad.add_probe(gst::PadProbeType::EVENT_UPSTREAM, move |_, info| {
        let Some(event) = info.event() else {
            return gst::PadProbeReturn::Ok;
        };
        let gst::EventView::Navigation(navigation) = event.view() else {
            return gst::PadProbeReturn::Ok;
        };
        let key = navigation.structure().and_then(pressed);
        if let (Some(key), Some(pipeline)) = (key, weak.upgrade()) {
            keys::post(&pipeline, key);
        }
        // Sources have no use for keys and pointers, and need not be asked.
        gst::PadProbeReturn::Handled
    });
}

/// The key of a navigation event, as the terminal would send it.
fn pressed(structure: &gst::StructureRef) -> Option<char> {
    if structure.get::<&str>("event") != Ok("key-press") {
        return None;
    }
    let name = structure.get::<&str>("key").ok()?;
    let mut characters = name.chars();
    match (characters.next(), characters.next()) {
        (Some(key), None) => Some(key),
        _ => match name {
            "plus" | "equal" | "KP_Add" => Some('+'),
            "minus" | "KP_Subtract" => Some('-'),
            "question" | "F1" => Some('h'),
            "Escape" => Some('q'),
            "Right" => Some('k'),
            "Left" => Some('j'),
            "Up" => Some('+'),
            "Down" => Some('-'),
            _ => None,
        },
    }
}

/// The pipeline description of the window of `sink`. Where something else takes the picture too, it
/// must not wait for the window.
pub fn description(sink: &str, alone: bool) -> String {
    let leaky = if alone { "no" } else { "downstream" };
    format!(
        "queue name=window-queue leaky={leaky} max-size-buffers=4 max-size-bytes=0 max-size-time=0 \
         ! videoconvert name=window-convert ! {sink} name=window"
    )
}

/// Once the window is closed, its sink refuses every picture, and that would end the stream of a
/// recording beside it before it is finished: the branch is cut off before the sink gets to it.
pub fn watch_closing(pipeline: &gst::Pipeline) {
    let (Some(bus), Some(pad)) = (pipeline.bus(), branch(pipeline)) else {
        return;
    };
    let pad = pad.downgrade();
    bus.set_sync_handler(move |_, message| {
        if let gst::MessageView::Error(error) = message.view()
            && was_closed(error)
            && let Some(pad) = pad.upgrade()
            && let Some(tee) = pad.peer()
        {
            // Refused only where it is cut off already.
            let _ = tee.unlink(&pad);
        }
        gst::BusSyncReply::Pass
    });
}

/// Where pictures enter the window's branch, if there are other branches.
fn branch(pipeline: &gst::Pipeline) -> Option<gst::Pad> {
    pipeline.by_name("shown")?;
    pipeline.by_name("window-queue")?.static_pad("sink")
}

/// Takes the branch of a closed window out of `pipeline`, so that nothing waits for it to end. Says
/// whether anything is left that takes pictures.
pub fn take_away(pipeline: &gst::Pipeline) -> bool {
    if pipeline.by_name("shown").is_none() {
        return false;
    }
    for name in ["window", "window-convert", "window-queue"] {
        if let Some(element) = pipeline.by_name(name) {
            // Neither can fail for an element that is there.
            let _ = element.set_state(gst::State::Null);
            let _ = pipeline.remove(&element);
        }
    }
    true
}

/// Whether an error only says that the window was closed by who looked at it.
pub fn was_closed(error: &gst::message::Error) -> bool {
    // A sink may be a bin, whose own sink says it.
    let mut source = error.src().cloned();
    while let Some(object) = source {
        if object.name() == "window" {
            return error.error().matches(gst::ResourceError::NotFound);
        }
        source = object.parent();
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_of_the_window_are_those_of_the_terminal() {
        gst::init().unwrap();
        let key = |event: &str, name: &str| {
            let structure = gst::Structure::builder("application/x-gst-navigation")
                .field("event", event)
                .field("key", name)
                .build();
            pressed(&structure)
        };
        assert_eq!(key("key-press", "k"), Some('k'));
        assert_eq!(key("key-press", "KP_Add"), Some('+'));
        assert_eq!(key("key-press", "Escape"), Some('q'));
        assert_eq!(key("key-press", "Shift_L"), None);
        assert_eq!(key("key-release", "k"), None);
    }
}
