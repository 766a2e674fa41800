//! What is filtered: a file, a URI or the generated clip.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};

use gst::glib;

use crate::network::{AddressError, Rtp};
use crate::templates::{self, TemplateError};

/// The generated clip.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TestClip {
    /// Pixels.
    pub width: u32,
    pub height: u32,
    /// Frames per second.
    pub rate: u32,
    pub frames: u32,
}

impl Default for TestClip {
    /// Ten seconds of 1080p at 30 frames per second.
    fn default() -> Self {
        TestClip {
            width: 1920,
            height: 1080,
            rate: 30,
            frames: 300,
        }
    }
}

impl TestClip {
    /// Reads `WIDTHxHEIGHT` in pixels.
    ///
    /// # Errors
    /// A sentence that says what is accepted.
    pub fn parse_size(text: &str) -> Result<(u32, u32), String> {
        let side = |text: &str| {
            let pixels = text.parse::<u32>().ok();
            pixels.filter(|n| (16..=16384).contains(n))
        };
        text.split_once('x')
            .and_then(|(width, height)| Some((side(width)?, side(height)?)))
            .ok_or_else(|| "accepted are sizes as 1920x1080, each side 16 to 16384".to_owned())
    }
}

impl TestClip {
    /// The pipeline description that gives it; `live` without end, each frame at its time.
    ///
    /// # Errors
    /// When the template asks for something unknown.
    pub fn source(&self, live: bool) -> Result<String, TemplateError> {
        let frames = match live {
            true => "-1".to_owned(),
            false => self.frames.to_string(),
        };
        templates::fill(
            templates::TEST,
            &[
                ("live", &live.to_string()),
                ("frames", &frames),
                ("width", &self.width.to_string()),
                ("height", &self.height.to_string()),
                ("rate", &self.rate.to_string()),
            ],
        )
    }
}

/// What `run` reads.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Input {
    Test(TestClip),
    File(PathBuf),
    Uri(String),
    /// H.264 as RTP, which has no URI that would say so: this machine listens.
    Rtp(Rtp),
}

/// An input that cannot be one.
#[derive(Debug, thiserror::Error)]
pub enum InputError {
    #[error(
        "there is no file {0}; accepted are a file, a URI as https://…, rtsp://… or rtp://:PORT, and \
         the word test for a generated clip"
    )]
    Missing(String),
    #[error("{0} is a folder, not a video")]
    Folder(String),
    #[error("{0} cannot be read: {1}")]
    Unreadable(String, std::io::Error),
    #[error(transparent)]
    Address(#[from] AddressError),
    #[error("{0:?} is no URI that GStreamer can read; is the plugin for it installed?")]
    Scheme(String),
}

impl Input {
    /// What `text` means: the word `test`, a file that exists, else a URI.
    ///
    /// # Errors
    /// When it is none of them.
    pub fn parse(text: &OsStr, clip: TestClip) -> Result<Input, InputError> {
        if text == "test" {
            return Ok(Input::Test(clip));
        }
        let name = text.to_string_lossy().into_owned();
        let path = Path::new(text);
        match std::fs::metadata(path) {
            Ok(found) if found.is_dir() => Err(InputError::Folder(name)),
            Ok(_) => match std::fs::File::open(path).and_then(|_| path.canonicalize()) {
                Ok(path) => Ok(Input::File(path)),
                Err(error) => Err(InputError::Unreadable(name, error)),
            },
            Err(_) => Input::parse_uri(name),
        }
    }

    fn parse_uri(name: String) -> Result<Input, InputError> {
        if let Some(rtp) = Rtp::parse(&name) {
            return Ok(Input::Rtp(rtp?));
        }
        let Some((scheme, _)) = name.split_once("://") else {
            return Err(InputError::Missing(name));
        };
        if scheme == "file" {
            return match glib::filename_from_uri(&name) {
                Ok((path, _)) if path.is_file() => Ok(Input::File(path)),
                _ => Err(InputError::Missing(name)),
            };
        }
        let readable = gst::Element::make_from_uri(gst::URIType::Src, &name, None).is_ok();
        if readable {
            Ok(Input::Uri(name))
        } else {
            Err(InputError::Scheme(name))
        }
    }

    /// The pipeline description that gives its video.
    ///
    /// # Errors
    /// When the template of the test clip asks for something unknown.
    pub fn source(&self) -> Result<String, TemplateError> {
        match self {
            Input::Test(clip) => clip.source(false),
            Input::File(path) => {
                // Only relative paths have no URI, and this one was made absolute.
                let uri = glib::filename_to_uri(path, None).unwrap_or_default();
                Ok(decoder(&uri))
            }
            Input::Uri(uri) => Ok(decoder(uri)),
            Input::Rtp(rtp) => rtp.source(),
        }
    }

    /// The file that is read, if it is one.
    pub fn file(&self) -> Option<&Path> {
        match self {
            Input::File(path) => Some(path),
            _ => None,
        }
    }

    /// For people.
    pub fn label(&self) -> String {
        match self {
            Input::Test(clip) => format!(
                "generated clip, {}x{}, {} frames at {} fps",
                clip.width, clip.height, clip.frames, clip.rate
            ),
            Input::File(path) => path.display().to_string(),
            Input::Uri(uri) => uri.clone(),
            Input::Rtp(rtp) => format!("rtp://{}:{}", rtp.host, rtp.port),
        }
    }

    /// The name without folder and extension, from which the output is named.
    pub fn stem(&self) -> String {
        let name = match self {
            Input::Test(_) => return "test".to_owned(),
            Input::Rtp(_) => return "rtp".to_owned(),
            Input::File(path) => path.clone(),
            Input::Uri(uri) => {
                let path = uri.split(['?', '#']).next().unwrap_or_default();
                PathBuf::from(path.trim_end_matches('/'))
            }
        };
        match name.file_stem() {
            Some(stem) if !stem.is_empty() => stem.to_string_lossy().into_owned(),
            _ => "video".to_owned(),
        }
    }
}

fn decoder(uri: &str) -> String {
    format!(
        "uridecodebin name=source uri={}",
        templates::quote_text(uri)
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_two_numbers() {
        assert_eq!(TestClip::parse_size("640x480"), Ok((640, 480)));
        for bad in [
            "640",
            "640x",
            "x480",
            "8x8",
            "640x480x3",
            "640X480",
            "99999x10",
        ] {
            assert!(TestClip::parse_size(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn the_stem_names_the_output() {
        let stem = |uri: &str| Input::Uri(uri.into()).stem();
        assert_eq!(stem("https://host/films/a.b.mp4?token=1.2"), "a.b");
        assert_eq!(stem("rtsp://camera:554/live/"), "live");
        assert_eq!(Input::File("/x/clip.tar.mkv".into()).stem(), "clip.tar");
        assert_eq!(Input::Test(TestClip::default()).stem(), "test");
    }

    #[test]
    fn what_is_no_input_is_told_apart() {
        gst::init().unwrap();
        let parse = |text: &str| Input::parse(OsStr::new(text), TestClip::default());
        assert!(matches!(parse("test"), Ok(Input::Test(_))));
        assert!(matches!(parse("/no/such.mp4"), Err(InputError::Missing(_))));
        assert!(matches!(
            parse("file:///no/such.mp4"),
            Err(InputError::Missing(_))
        ));
        assert!(matches!(parse("/"), Err(InputError::Folder(_))));
        assert!(matches!(parse("nonsense://x"), Err(InputError::Scheme(_))));
        let here = concat!(env!("CARGO_MANIFEST_DIR"), "/Cargo.toml");
        assert!(matches!(parse(here), Ok(Input::File(_))));
        assert!(matches!(
            parse(&format!("file://{here}")),
            Ok(Input::File(_))
        ));
    }
}
