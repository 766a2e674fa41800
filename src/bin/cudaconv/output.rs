//! Where the filtered video goes: container by the file's extension, encoder by what is
//! installed.

use std::path::{Path, PathBuf};

use gst::prelude::*;

use crate::audio::AudioPlan;
use crate::network::{AddressError, Destination};
use crate::packages;
use crate::templates::{TemplateError, quote_text};

/// An encoder and its settings, kept where the installed version has such a property.
struct Encoder {
    element: &'static str,
    settings: &'static [(&'static str, &'static str)],
    /// Settings besides, where the video is watched while it is encoded: an encoder that looks ahead
    /// would delay everything beside it.
    live: &'static [(&'static str, &'static str)],
    /// Settings besides, where it is sent: somebody who comes later must not wait for a picture.
    sent: &'static [(&'static str, &'static str)],
    /// Takes 4:4:4, which pictures with an odd width or height need.
    odd_sizes: bool,
}

/// Encoders of H.264 in order of preference: the best picture first, then hardware.
///
/// No B-frames: mp4mux takes the length of the track from decoding times, which for a variable
/// frame rate cuts off reordered frames at the end.
const H264_ENCODERS: &[Encoder] = &[
    Encoder {
        element: "x264enc",
        settings: &[
            ("pass", "qual"),
            ("quantizer", "21"),
            ("speed-preset", "veryfast"),
            ("bframes", "0"),
        ],
        live: &[("tune", "zerolatency")],
        sent: &[("key-int-max", "60")],
        odd_sizes: true,
    },
    Encoder {
        element: "nvh264enc",
        settings: &[("bframes", "0")],
        live: &[("zerolatency", "true")],
        sent: &[("gop-size", "60")],
        odd_sizes: false,
    },
    Encoder {
        element: "vah264enc",
        settings: &[("b-frames", "0")],
        live: &[],
        sent: &[("key-int-max", "60")],
        odd_sizes: false,
    },
    // The default of 128 kbit/s would spoil every picture; without rate control the quantizer is
    // constant.
    Encoder {
        element: "openh264enc",
        settings: &[("rate-control", "off")],
        live: &[],
        sent: &[("gop-size", "60")],
        odd_sizes: false,
    },
];

/// What becomes of the encoded video.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Purpose {
    File,
    /// A file, of video that is watched while it is written.
    Watched,
    /// A network.
    Sent,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Coding {
    H264,
    Png,
}

/// A kind of file.
struct Container {
    extensions: &'static [&'static str],
    coding: Coding,
    /// Element and its settings; empty for files without a container of their own.
    muxer: &'static str,
}

/// Timescales are fine enough for the times of common frame rates to stay what they were:
/// 1/360000 s is a multiple of the ticks of 24, 25, 30, 50, 60 fps, of the same /1.001, of
/// 90 kHz and of milliseconds. Matroska has powers of ten only.
const CONTAINERS: &[Container] = &[
    Container {
        extensions: &["mp4", "m4v"],
        coding: Coding::H264,
        muxer: "mp4mux name=mux trak-timescale=360000",
    },
    Container {
        extensions: &["mov"],
        coding: Coding::H264,
        muxer: "qtmux name=mux trak-timescale=360000",
    },
    Container {
        extensions: &["mkv"],
        coding: Coding::H264,
        muxer: "matroskamux name=mux timecodescale=10000",
    },
    Container {
        extensions: &["png"],
        coding: Coding::Png,
        muxer: "",
    },
];

/// Why nothing can be written there.
#[derive(Debug, thiserror::Error)]
pub enum OutputError {
    #[error("{0} is the input and would be overwritten; name another file")]
    IsInput(String),
    #[error(
        "the output {0} has no extension that is known; accepted are .mp4, .m4v, .mov, .mkv (H.264), \
         and .png (the first frame, or every frame as in out-%04d.png)"
    )]
    Extension(String),
    #[error("the name {0:?} is not valid UTF-8; name another file with -o")]
    NotUtf8(PathBuf),
    #[error("{0} has more than one place for the frame's number, or one that is not as %d or %04d")]
    Pattern(String),
    #[error(transparent)]
    Address(#[from] AddressError),
    #[error(transparent)]
    Template(#[from] TemplateError),
    #[error("{0} cannot be written: {1}")]
    Unwritable(String, std::io::Error),
    #[error("{what} needs the GStreamer element {element}, which is missing; {advice}")]
    Missing {
        what: String,
        element: &'static str,
        advice: String,
    },
    #[error(
        "no H.264 encoder is installed (looked for x264enc, nvh264enc, vah264enc, openh264enc); \
         install one with: apt install gstreamer1.0-plugins-ugly; or write .png"
    )]
    NoEncoder,
}

/// What `run` writes.
#[derive(Debug)]
pub struct Output {
    /// What the user called it; `None` when frames are only measured.
    pub path: Option<PathBuf>,
    /// The address, where it is sent over a network.
    pub address: Option<String>,
    /// Written first, and given its real name once it is complete.
    pub partial: Option<PathBuf>,
    /// The encoder, for people.
    pub encoder: Option<&'static str>,
    /// Pictures of odd width or height keep their size.
    pub odd_sizes: bool,
    /// What becomes of sound; `None` where the file has no place for it.
    pub audio: Option<AudioPlan>,
    description: String,
}

impl Output {
    /// Frames are measured and thrown away.
    pub fn none() -> Output {
        Output {
            path: None,
            address: None,
            partial: None,
            encoder: None,
            odd_sizes: true,
            audio: None,
            description: "fakesink name=sink sync=false".to_owned(),
        }
    }

    /// A file whose extension says what it is.
    ///
    /// # Errors
    /// When it would overwrite `input`, its folder cannot be written to, or what encodes it is
    /// not installed.
    pub fn file(path: &Path, input: Option<&Path>) -> Result<Output, OutputError> {
        Output::new(path, input, Purpose::File)
    }

    /// As [`Output::file`], for video that comes live and is watched at the same time.
    ///
    /// # Errors
    /// As [`Output::file`].
    pub fn recording(path: &Path) -> Result<Output, OutputError> {
        Output::new(path, None, Purpose::Watched)
    }

    /// A stream over a network, to an address as `rtp://HOST:PORT`.
    ///
    /// # Errors
    /// When it is no such address, or what encodes and sends it is not installed.
    pub fn stream(address: &str) -> Result<Output, OutputError> {
        let destination = Destination::parse(address)?;
        let (encoder, text) = choose_encoder(Purpose::Sent).ok_or(OutputError::NoEncoder)?;
        for element in destination.elements() {
            need(element, "this kind of stream")?;
        }
        Ok(Output {
            path: None,
            address: Some(address.to_owned()),
            partial: None,
            encoder: Some(encoder.element),
            odd_sizes: encoder.odd_sizes,
            audio: None,
            description: destination.sink(&text)?,
        })
    }

    fn new(path: &Path, input: Option<&Path>, purpose: Purpose) -> Result<Output, OutputError> {
        let name = path.display().to_string();
        let text = path
            .to_str()
            .ok_or_else(|| OutputError::NotUtf8(path.to_owned()))?;
        let container = container_of(path).ok_or_else(|| OutputError::Extension(name.clone()))?;
        let numbered = text.contains('%');
        if numbered && (container.coding != Coding::Png || !is_pattern(text)) {
            return Err(OutputError::Pattern(name));
        }
        check_target(path, input)?;
        let partial = (!numbered).then(|| partial_name(path));
        let mut output = Output {
            path: Some(path.to_owned()),
            address: None,
            partial,
            encoder: None,
            odd_sizes: true,
            audio: None,
            description: String::new(),
        };
        output.describe(container, numbered, purpose)?;
        Ok(output)
    }

    fn describe(
        &mut self,
        container: &Container,
        numbered: bool,
        purpose: Purpose,
    ) -> Result<(), OutputError> {
        let target = self.partial.as_ref().or(self.path.as_ref());
        let location = quote_text(&target.map(|p| p.display().to_string()).unwrap_or_default());
        let (coder, sink) = match container.coding {
            Coding::H264 => {
                let (encoder, text) = choose_encoder(purpose).ok_or(OutputError::NoEncoder)?;
                self.encoder = Some(encoder.element);
                self.odd_sizes = encoder.odd_sizes;
                self.audio = Some(AudioPlan::new());
                let element = container.muxer.split(' ').next().unwrap_or_default();
                need(element, "this kind of file")?;
                need("h264parse", "H.264")?;
                let coder = format!("{text} ! h264parse ! {}", container.muxer);
                (coder, "filesink name=sink")
            }
            Coding::Png => {
                need("pngenc", "PNG")?;
                self.encoder = Some("pngenc");
                let sink = if numbered {
                    "multifilesink name=sink"
                } else {
                    "filesink name=sink"
                };
                (format!("pngenc name=encoder snapshot={}", !numbered), sink)
            }
        };
        self.description = format!("videoconvert ! {coder} ! {sink} location={location}");
        Ok(())
    }

    /// The pipeline description that takes the video.
    pub fn sink(&self) -> &str {
        &self.description
    }

    /// For people.
    pub fn label(&self) -> String {
        match (&self.path, &self.address) {
            (Some(path), _) => path.display().to_string(),
            (None, Some(address)) => address.clone(),
            (None, None) => "no output, measured only".to_owned(),
        }
    }

    /// Gives the finished file its name.
    ///
    /// # Errors
    /// When the system refuses to rename it.
    pub fn finish(&self) -> Result<(), OutputError> {
        let (Some(partial), Some(path)) = (&self.partial, &self.path) else {
            return Ok(());
        };
        std::fs::rename(partial, path)
            .map_err(|error| OutputError::Unwritable(path.display().to_string(), error))
    }

    /// Removes what was begun and cannot be finished.
    pub fn discard(&self) {
        if let Some(partial) = &self.partial {
            // It may never have been opened; nothing else could be done about it anyway.
            let _ = std::fs::remove_file(partial);
        }
    }
}

/// Caps that H.264 encoders take without losing what players understand: 4:2:0, or 4:4:4 for
/// pictures that cannot be halved.
pub fn encodable(even: bool) -> &'static str {
    if even {
        "video/x-raw,format={I420,YV12,NV12,I420_10LE,P010_10LE}"
    } else {
        "video/x-raw,format={Y444,Y444_10LE}"
    }
}

/// The H.264 encoders that `run` would take, best first.
pub fn h264_encoders() -> impl Iterator<Item = &'static str> {
    H264_ENCODERS.iter().map(|encoder| encoder.element)
}

/// The best encoder that is there, and its description with the caps that it takes in front.
fn choose_encoder(purpose: Purpose) -> Option<(&'static Encoder, String)> {
    H264_ENCODERS.iter().find_map(|encoder| {
        let element = gst::ElementFactory::make(encoder.element).build().ok()?;
        let mut text = encoder.element.to_owned();
        let besides = match purpose {
            Purpose::File => [&[][..], &[]],
            Purpose::Watched => [encoder.live, &[]],
            Purpose::Sent => [encoder.live, encoder.sent],
        };
        for (name, value) in encoder.settings.iter().chain(besides.concat().iter()) {
            if element.find_property(name).is_some() {
                text.push_str(&format!(" {name}={value}"));
            }
        }
        let caps = quote_text(encodable(true));
        let text = format!("capsfilter name=encodable caps={caps} ! {text} name=encoder");
        Some((encoder, text))
    })
}

fn need(element: &'static str, what: &str) -> Result<(), OutputError> {
    if gst::ElementFactory::find(element).is_some() {
        return Ok(());
    }
    Err(OutputError::Missing {
        what: what.to_owned(),
        element,
        advice: packages::advice(element),
    })
}

fn container_of(path: &Path) -> Option<&'static Container> {
    let extension = path.extension()?.to_str()?.to_ascii_lowercase();
    CONTAINERS
        .iter()
        .find(|container| container.extensions.contains(&extension.as_str()))
}

/// One `%d` or `%04d`, as printf and multifilesink read it, and no other percent sign.
fn is_pattern(text: &str) -> bool {
    let Some((_, after)) = text.split_once('%') else {
        return false;
    };
    let digits = after.trim_start_matches(|c: char| c.is_ascii_digit());
    digits.starts_with('d') && !after.contains('%') && after.len() - digits.len() <= 2
}

/// `a/b.mp4` is written as `a/b.part.mp4`.
fn partial_name(path: &Path) -> PathBuf {
    let extension = path.extension().unwrap_or_default().to_string_lossy();
    path.with_extension(format!("part.{extension}"))
}

/// Whether a file could be written at `path`, which is left as it is.
///
/// # Errors
/// When it is the input, a folder, or in a folder that cannot be written to.
pub fn check_target(path: &Path, input: Option<&Path>) -> Result<(), OutputError> {
    let name = path.display().to_string();
    if input.is_some_and(|input| is_same_file(input, path)) {
        return Err(OutputError::IsInput(name));
    }
    let probe = partial_name(path);
    let written = if path.is_dir() {
        Err(std::io::ErrorKind::IsADirectory.into())
    } else {
        std::fs::File::create(&probe).and_then(|_| std::fs::remove_file(&probe))
    };
    written.map_err(|error| OutputError::Unwritable(name, error))
}

/// Whether both names lead to one file, through links of any kind.
fn is_same_file(a: &Path, b: &Path) -> bool {
    use std::os::unix::fs::MetadataExt;
    match (std::fs::metadata(a), std::fs::metadata(b)) {
        (Ok(a), Ok(b)) => (a.dev(), a.ino()) == (b.dev(), b.ino()),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbered_names_have_one_number() {
        for good in ["out-%d.png", "a/%04d.png", "%5d.png"] {
            assert!(is_pattern(good), "{good}");
        }
        for bad in [
            "out-%s.png",
            "%d-%d.png",
            "100%.png",
            "%n.png",
            "%0400d.png",
            "a.png",
        ] {
            assert!(!is_pattern(bad), "{bad}");
        }
    }

    #[test]
    fn the_unfinished_file_keeps_extension_and_folder() {
        assert_eq!(
            partial_name(Path::new("a/b.c.mp4")),
            Path::new("a/b.c.part.mp4")
        );
    }

    #[test]
    fn extensions_are_known_in_any_case() {
        assert!(container_of(Path::new("A.MP4")).is_some());
        assert!(container_of(Path::new("A.avi")).is_none());
        assert!(container_of(Path::new("mp4")).is_none());
    }
}
