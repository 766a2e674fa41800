//! GStreamer's messages as sentences that help.

use gst::prelude::*;

use crate::packages;

/// What an error message of the pipeline comes down to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Explained {
    pub sentence: String,
    /// The settings contradict each other: nothing was wrong with the video.
    pub usage: bool,
}

/// Boils an ERROR message down. `missing` are sentences about plugins that were found missing
/// before; they are the cause of what followed.
pub fn error(message: &gst::message::Error, missing: &[String]) -> Explained {
    let error = message.error();
    let debug = message.debug().unwrap_or_default().to_string();
    let source = message
        .src()
        .map(|src| src.name().to_string())
        .unwrap_or_default();
    Explained {
        sentence: sentence(&error, &debug, &source, missing),
        usage: error.matches(gst::LibraryError::Settings),
    }
}

/// The text of a WARNING message with who said it.
pub fn warning(message: &gst::message::Warning) -> String {
    let source = message.src().map(|src| src.name().to_string());
    let text = message.error().message().trim_end_matches('.').to_owned();
    match source.as_deref() {
        Some("filter") | None => text,
        Some(source) => format!("{source}: {text}"),
    }
}

fn sentence(error: &gst::glib::Error, debug: &str, source: &str, missing: &[String]) -> String {
    if !missing.is_empty() {
        return missing.join("; ");
    }
    let text = error.message().trim_end_matches('.').to_owned();
    // The element speaks in sentences already.
    if source == "filter" {
        return text;
    }
    if error.matches(gst::StreamError::Failed)
        && let Some(reason) = reason(debug)
    {
        return match reason {
            "not-negotiated" => format!(
                "{source} and its neighbour cannot agree on a video format (not-negotiated)"
            ),
            other => format!("the stream stopped at {source}: {other}"),
        };
    }
    if error.matches(gst::StreamError::TypeNotFound) {
        return "the input is of no type that GStreamer knows".to_owned();
    }
    if error.matches(gst::ResourceError::NoSpaceLeft) {
        return "the disk is full".to_owned();
    }
    match detail(debug) {
        Some(detail) if !text.contains(&detail) => format!("{text} ({detail})"),
        _ => text,
    }
}

/// The flow return in `streaming stopped, reason not-negotiated (-4)`.
fn reason(debug: &str) -> Option<&str> {
    let (_, after) = debug.split_once("reason ")?;
    after.split([' ', '\n']).next().filter(|r| !r.is_empty())
}

/// The last line of the debug text, where it is words and not a place in the source.
fn detail(debug: &str) -> Option<String> {
    let last = debug.lines().last()?.trim().trim_end_matches('.');
    let is_place = last.contains("(): ") || last.ends_with(':') || last.is_empty();
    let (_, after_place) = last.rsplit_once(":\t").unwrap_or(("", last));
    (!is_place && !after_place.is_empty()).then(|| after_place.to_owned())
}

/// A `missing-plugin` element message as a sentence; `None` for any other.
pub fn missing_plugin(structure: &gst::StructureRef) -> Option<String> {
    if structure.name() != "missing-plugin" {
        return None;
    }
    let kind = structure.get::<String>("type").unwrap_or_default();
    let name = structure.get::<String>("name").unwrap_or_default();
    if kind == "element" {
        let element = structure.get::<String>("detail").unwrap_or_default();
        return Some(format!(
            "the GStreamer element {element} is missing; {}",
            packages::advice(&element)
        ));
    }
    let media = structure
        .get::<gst::Caps>("detail")
        .ok()
        .and_then(|caps| Some(caps.structure(0)?.name().to_string()))
        .unwrap_or_default();
    Some(format!(
        "a GStreamer {kind} is missing: {} for {media}; install it with: apt install {}",
        if name.is_empty() { &kind } else { &name },
        decoder_packages(&media)
    ))
}

/// The packages that decode most videos; which of them has a given coding depends on the release.
fn decoder_packages(media: &str) -> &'static str {
    match media {
        "video/x-h264" | "video/x-h265" | "video/mpeg" | "audio/mpeg" => "gstreamer1.0-libav",
        "video/quicktime" | "video/x-matroska" | "video/webm" | "video/x-vp8" | "video/x-vp9"
        | "image/png" | "image/jpeg" => "gstreamer1.0-plugins-good",
        _ => "gstreamer1.0-plugins-good gstreamer1.0-plugins-bad gstreamer1.0-libav",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flow_errors_name_the_reason() {
        gst::init().unwrap();
        let failed = gst::glib::Error::new(gst::StreamError::Failed, "Internal data stream error.");
        let debug = "../gst/isomp4/qtdemux.c(6750): gst_qtdemux_loop (): /GstPipeline:p/x:\n\
                     streaming stopped, reason not-negotiated (-4)";
        let text = sentence(&failed, debug, "demux", &[]);
        assert!(text.contains("demux") && text.contains("cannot agree on a video format"));
        let debug = debug.replace("not-negotiated (-4)", "error (-5)");
        assert_eq!(
            sentence(&failed, &debug, "demux", &[]),
            "the stream stopped at demux: error"
        );
    }

    #[test]
    fn missing_plugins_are_the_cause() {
        let failed = gst::glib::Error::new(gst::StreamError::Failed, "Internal data stream error.");
        let missing = ["there is no decoder for H.264".to_owned()];
        assert_eq!(sentence(&failed, "", "x", &missing), missing[0]);
    }

    #[test]
    fn places_in_the_source_are_left_out() {
        let error =
            gst::glib::Error::new(gst::ResourceError::Read, "Could not read from resource.");
        let place = "../a.c(1): gst_x (): /GstPipeline:p";
        assert_eq!(
            sentence(&error, place, "x", &[]),
            "Could not read from resource"
        );
        let words = format!("{place}:\nsystem error: Input/output error");
        assert_eq!(
            sentence(&error, &words, "x", &[]),
            "Could not read from resource (system error: Input/output error)"
        );
    }

    #[test]
    fn a_missing_decoder_names_its_package() {
        gst::init().unwrap();
        let message = gst::Structure::builder("missing-plugin")
            .field("type", "decoder")
            .field("detail", gst::Caps::new_empty_simple("video/x-h264"))
            .field("name", "H.264 decoder")
            .build();
        let text = missing_plugin(&message).unwrap();
        assert!(
            text.contains("video/x-h264") && text.contains("gstreamer1.0-libav"),
            "{text}"
        );
    }
}
