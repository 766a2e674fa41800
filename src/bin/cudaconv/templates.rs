//! The pipeline descriptions of `pipelines/` and how their placeholders are filled.

use gst::prelude::*;

/// One video through the filter.
pub const FILE: &str = include_str!("../../../pipelines/file.txt");
/// Original and filtered side by side.
pub const COMPARE: &str = include_str!("../../../pipelines/compare.txt");
/// A camera before and after the filter, in one picture with the figures.
pub const WEBCAM: &str = include_str!("../../../pipelines/webcam.txt");
/// A camera that speaks RTSP, a source.
pub const NETWORK_CAMERA: &str = include_str!("../../../pipelines/network-camera.txt");
/// H.264 received as RTP, a source.
pub const RTP_RECEIVE: &str = include_str!("../../../pipelines/rtp-receive.txt");
/// H.264 sent as RTP, in place of a file.
pub const RTP_SEND: &str = include_str!("../../../pipelines/rtp-send.txt");
/// H.264 sent by SRT, in place of a file.
pub const SRT_SEND: &str = include_str!("../../../pipelines/srt-send.txt");
/// The generated clip, a source.
pub const TEST: &str = include_str!("../../../pipelines/test.txt");

/// A placeholder that nobody filled, or a brace without its partner.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum TemplateError {
    #[error("the pipeline description has a placeholder {{{0}}} that nothing is known for")]
    Unknown(String),
    #[error("the pipeline description has a brace that is never closed: {0:?}")]
    Unclosed(String),
}

/// The description without its comments (lines that begin with `#`), `{name}` replaced by the
/// value of that name as it is: values that came from outside go through [`quote`] first.
///
/// # Errors
/// When a placeholder has no value.
pub fn fill(template: &str, values: &[(&str, &str)]) -> Result<String, TemplateError> {
    let text = template
        .lines()
        .map(str::trim)
        .filter(|line| !line.is_empty() && !line.starts_with('#'))
        .collect::<Vec<_>>()
        .join(" ");
    let mut filled = String::new();
    let mut rest = text.as_str();
    while let Some(open) = rest.find('{') {
        let (before, after) = rest.split_at(open);
        let close = after
            .find('}')
            .ok_or_else(|| TemplateError::Unclosed(after.to_owned()))?;
        let name = &after[1..close];
        let (_, value) = values
            .iter()
            .find(|(known, _)| *known == name)
            .ok_or_else(|| TemplateError::Unknown(name.to_owned()))?;
        filled.push_str(before);
        filled.push_str(value);
        rest = &after[close + 1..];
    }
    filled.push_str(rest);
    Ok(filled.trim().to_owned())
}

/// A property's value as a pipeline description takes it: in GStreamer's serialization, quoted
/// where the description's own syntax would trip over it.
pub fn quote(value: &gst::glib::Value) -> String {
    let serialized = match value.get::<Option<String>>() {
        // Text is read back as it stands, unless it looks like a serialized string itself.
        Ok(text) => match text.unwrap_or_default() {
            text if text.starts_with('"') => serialize(&text.to_value()),
            text => text,
        },
        Err(_) => serialize(value),
    };
    let plain = |c: char| c.is_ascii_alphanumeric() || "_-+./:,%@~".contains(c);
    if !serialized.is_empty() && serialized.chars().all(plain) {
        return serialized;
    }
    let mut quoted = String::from('"');
    for c in serialized.chars() {
        if matches!(c, '"' | '\\') {
            quoted.push('\\');
        }
        quoted.push(c);
    }
    quoted.push('"');
    quoted
}

/// Empty for values that have no text form (none of a property that can be given as an option).
fn serialize(value: &gst::glib::Value) -> String {
    value.serialize().map(String::from).unwrap_or_default()
}

/// [`quote`] for text.
pub fn quote_text(text: &str) -> String {
    quote(&text.to_value())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn comments_go_and_placeholders_are_filled_once() {
        let text = "# {nothing} here\n  a x={x}\n\n! b y={y}{x}\n";
        let filled = fill(text, &[("x", "{y}"), ("y", "2")]).unwrap();
        assert_eq!(filled, "a x={y} ! b y=2{y}");
    }

    #[test]
    fn an_unknown_placeholder_is_named() {
        assert_eq!(
            fill("a {what} b", &[("x", "1")]),
            Err(TemplateError::Unknown("what".into()))
        );
        assert!(matches!(
            fill("a {x", &[("x", "1")]),
            Err(TemplateError::Unclosed(_))
        ));
    }

    #[test]
    fn every_text_survives_the_description() {
        gst::init().unwrap();
        let texts = [
            "plain.mp4",
            "with space.mp4",
            "say \"hello\".mp4",
            "\"quoted\"",
            "'single' ! fakesink",
            "back\\slash\\",
            "a=b;c,(d)[e]{f}<g>#h",
            "name with\nline end",
            "żółć – 映画.mkv",
            " leading and trailing ",
            "%05d",
            "! ! !",
        ];
        for text in texts {
            let description = format!("fakesrc ! filesink name=f location={}", quote_text(text));
            let pipeline = gst::parse::launch(&description)
                .unwrap_or_else(|error| panic!("{description}: {error}"));
            let sink = pipeline
                .downcast::<gst::Bin>()
                .unwrap()
                .by_name("f")
                .unwrap();
            assert_eq!(sink.property::<String>("location"), text, "{description}");
        }
    }
}
