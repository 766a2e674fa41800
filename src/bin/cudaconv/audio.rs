//! Sound goes along with the video: copied where the container takes it as it is, else encoded
//! again as AAC.

use std::str::FromStr;

use gst::prelude::*;

/// Codings that mp4, mov and Matroska take alike: what the decoder is asked to leave as it is,
/// its name, and the parser that frames it.
const COPIED: &[(&str, &str, &str)] = &[
    ("audio/mpeg,mpegversion=4,framed=true", "AAC", "aacparse"),
    (
        "audio/mpeg,mpegversion=1,layer=3,parsed=true",
        "MP3",
        "mpegaudioparse",
    ),
    ("audio/x-ac3,framed=true", "AC-3", "ac3parse"),
    ("audio/x-opus", "Opus", "opusparse"),
];

const AAC_ENCODERS: &[&str] = &["fdkaacenc", "avenc_aac", "voaacenc"];

/// How sound is treated.
#[derive(Debug, Clone)]
pub struct AudioPlan {
    encoder: Option<&'static str>,
}

/// The AAC encoders that `run` would take, best first.
pub fn aac_encoders() -> impl Iterator<Item = &'static str> {
    AAC_ENCODERS.iter().copied()
}

fn installed(element: &str) -> bool {
    gst::ElementFactory::find(element).is_some()
}

impl AudioPlan {
    /// By what is installed.
    pub fn new() -> AudioPlan {
        AudioPlan {
            encoder: aac_encoders().find(|element| installed(element)),
        }
    }

    /// Tells a decoder bin to leave alone what can be copied.
    pub fn prepare(&self, source: &gst::Element) {
        let mut caps = source.property::<gst::Caps>("caps");
        for (text, _, parser) in COPIED {
            if let (true, Ok(copied)) = (installed(parser), gst::Caps::from_str(text)) {
                caps.merge(copied);
            }
        }
        source.set_property("caps", caps);
    }

    /// Leads the sound of `pad` into the muxer of `pipeline`, and says how.
    ///
    /// # Errors
    /// A sentence that says why this sound is left out.
    pub fn attach(&self, pipeline: &gst::Bin, pad: &gst::Pad) -> Result<String, String> {
        let caps = pad.current_caps().unwrap_or_else(|| pad.query_caps(None));
        let name = caps.structure(0).map(|s| s.name().to_string());
        let name = name.unwrap_or_default();
        let (description, how) = if name == "audio/x-raw" {
            let encoder = self.encoder.ok_or(
                "sound is left out: no AAC encoder is installed (apt install gstreamer1.0-libav)",
            )?;
            let convert = "queue ! audioconvert ! audioresample";
            (
                format!("{convert} ! {encoder} ! aacparse"),
                format!("sound encoded as AAC by {encoder}"),
            )
        } else {
            let (_, coding, parser) = COPIED
                .iter()
                .find(|(text, _, _)| {
                    gst::Caps::from_str(text).is_ok_and(|copied| caps.can_intersect(&copied))
                })
                .ok_or_else(|| format!("sound is left out: {name} cannot be written"))?;
            (
                format!("queue ! {parser}"),
                format!("sound copied ({coding})"),
            )
        };
        link(pipeline, pad, &description).map_err(|error| format!("sound is left out: {error}"))?;
        Ok(how)
    }
}

fn link(pipeline: &gst::Bin, pad: &gst::Pad, description: &str) -> Result<(), String> {
    let mux = pipeline
        .by_name("mux")
        .ok_or("the file has no place for it")?;
    let branch = gst::parse::bin_from_description(description, true)
        .map_err(|error| error.message().to_owned())?;
    let fail = |error: &dyn std::fmt::Display| error.to_string();
    pipeline.add(&branch).map_err(|e| fail(&e))?;
    let sink = branch.static_pad("sink").ok_or("it has no sink pad")?;
    let slot = mux
        .request_pad_simple("audio_%u")
        .ok_or("the file's header is already written")?;
    let src = branch.static_pad("src").ok_or("it has no source pad")?;
    src.link(&slot).map_err(|e| fail(&e))?;
    branch.sync_state_with_parent().map_err(|e| fail(&e))?;
    pad.link(&sink).map_err(|e| fail(&e))?;
    Ok(())
}
