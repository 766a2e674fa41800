//! Cameras as GStreamer's device monitor finds them, and which of a camera's modes is taken.

use std::cmp::Reverse;

use gst::prelude::*;

use crate::templates::quote_text;

/// What the picture should be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Wanted {
    /// Pixels.
    pub width: u32,
    pub height: u32,
    /// Frames per second.
    pub rate: u32,
}

/// How a camera codes its pictures, in order of preference where size and rate are alike:
/// uncompressed ones have no artefacts and need no decoder, which would delay them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Coding {
    Raw,
    Jpeg,
    H264,
}

const CODINGS: &[(&str, Coding)] = &[
    ("video/x-raw", Coding::Raw),
    ("image/jpeg", Coding::Jpeg),
    ("video/x-h264", Coding::H264),
];

/// One of the modes that a camera offers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mode {
    coding: Coding,
    /// Fixed in all that matters here.
    caps: gst::Caps,
}

/// A camera that was found.
pub struct Camera {
    pub name: String,
    /// `/dev/video0` or the like, where it has one.
    pub path: Option<String>,
    device: gst::Device,
}

/// All cameras.
pub fn all() -> Vec<Camera> {
    let monitor = gst::DeviceMonitor::new();
    monitor.add_filter(Some("Video/Source"), None);
    // It refuses where no plugin can look for devices: then there are none.
    if monitor.start().is_err() {
        return Vec::new();
    }
    let devices = monitor.devices();
    monitor.stop();
    devices.into_iter().map(Camera::new).collect()
}

/// The camera that `name` means: its path, its name, or a part of the name that no other has.
///
/// # Errors
/// A sentence that lists what was found.
pub fn named(cameras: Vec<Camera>, name: &str) -> Result<Camera, String> {
    let whole = |camera: &Camera| camera.path.as_deref() == Some(name) || camera.name == name;
    let part = |camera: &Camera| camera.name.to_lowercase().contains(&name.to_lowercase());
    let chosen = match cameras.iter().position(whole) {
        Some(index) => Some(index),
        None if cameras.iter().filter(|camera| part(camera)).count() == 1 => {
            cameras.iter().position(part)
        }
        None => None,
    };
    let found = match cameras.iter().map(Camera::label).collect::<Vec<_>>() {
        labels if labels.is_empty() => "none was found".to_owned(),
        labels => format!("found were: {}", labels.join(", ")),
    };
    let mut cameras = cameras;
    chosen
        .map(|index| cameras.swap_remove(index))
        .ok_or_else(|| format!("there is no camera {name:?}; {found}"))
}

impl Camera {
    fn new(device: gst::Device) -> Camera {
        let properties = device.properties();
        let text = |name: &str| {
            let properties = properties.as_ref()?;
            properties.get::<String>(name).ok()
        };
        Camera {
            name: device.display_name().to_string(),
            path: text("device.path").or_else(|| text("api.v4l2.path")),
            device,
        }
    }

    /// For people.
    pub fn label(&self) -> String {
        match &self.path {
            Some(path) => format!("{} ({path})", self.name),
            None => self.name.clone(),
        }
    }

    /// What it offers, one line each.
    pub fn offers(&self) -> Vec<String> {
        let caps = self.device.caps().unwrap_or_else(gst::Caps::new_any);
        let mut lines: Vec<String> = Vec::new();
        for structure in caps.iter().filter(|s| coding_of(s).is_some()) {
            let line = structure.to_string();
            if !lines.contains(&line) {
                lines.push(line);
            }
        }
        lines
    }

    /// The mode that comes closest to what is wanted.
    pub fn mode(&self, wanted: Wanted) -> Option<Mode> {
        choose(self.device.caps()?.as_ref(), wanted)
    }

    /// The element that gives its pictures.
    ///
    /// # Errors
    /// A sentence, when the plugin that found it cannot make one.
    pub fn element(&self) -> Result<gst::Element, String> {
        self.device
            .create_element(None)
            .map_err(|error| format!("the camera {} cannot be used: {error}", self.label()))
    }
}

fn coding_of(structure: &gst::StructureRef) -> Option<Coding> {
    let name = structure.name().as_str();
    let coding = CODINGS.iter().find(|(media, _)| *media == name);
    coding.map(|(_, coding)| *coding)
}

/// The best of `caps`: the size that is wanted or the next one, then the rate, then the coding.
fn choose(caps: &gst::CapsRef, wanted: Wanted) -> Option<Mode> {
    let modes = caps
        .iter_with_features()
        .filter_map(|(structure, features)| {
            let coding = coding_of(structure)?;
            // Frames in memory of a device would need elements that bring them back.
            let plain = features.is_equal(&gst::CAPS_FEATURES_MEMORY_SYSTEM_MEMORY);
            plain.then(|| fix(structure, coding, wanted))
        });
    modes.max_by_key(|mode| mode.merit(wanted))
}

/// The mode of `structure` that comes closest to what is wanted.
fn fix(structure: &gst::StructureRef, coding: Coding, wanted: Wanted) -> Mode {
    let mut fixed = structure.to_owned();
    if fixed.has_field("width") {
        fixed.fixate_field_nearest_int("width", wanted.width as i32);
    }
    if fixed.has_field("height") {
        fixed.fixate_field_nearest_int("height", wanted.height as i32);
    }
    if fixed.has_field("framerate") {
        let rate = gst::Fraction::new(wanted.rate as i32, 1);
        fixed.fixate_field_nearest_fraction("framerate", rate);
    }
    if fixed.has_field("format") {
        fixed.fixate_field("format");
    }
    // All else is the camera's own business: asked for again, it might be refused.
    let mut asked = gst::Structure::new_empty(structure.name());
    for name in ["format", "width", "height", "framerate"] {
        if let Ok(value) = fixed.value(name) {
            asked.set_value(name, value.clone());
        }
    }
    let mut caps = gst::Caps::new_empty();
    caps.make_mut().append_structure(asked);
    Mode { coding, caps }
}

impl Mode {
    fn side(&self, name: &str) -> u64 {
        let structure = self.caps.structure(0);
        let side = structure.and_then(|s| s.get::<i32>(name).ok());
        side.and_then(|side| u64::try_from(side).ok()).unwrap_or(0)
    }

    fn rate(&self) -> Option<f64> {
        let rate = self
            .caps
            .structure(0)?
            .get::<gst::Fraction>("framerate")
            .ok()?;
        Some(f64::from(rate.numer()) / f64::from(rate.denom().max(1)))
    }

    /// More is better. Of sizes the nearest, of rates one that is reached, else the highest.
    fn merit(&self, wanted: Wanted) -> impl Ord + use<> {
        let (width, height) = (self.side("width"), self.side("height"));
        let distance = width.abs_diff(wanted.width.into()) + height.abs_diff(wanted.height.into());
        let wanted_rate = u64::from(wanted.rate) * 1000;
        let rate = self
            .rate()
            .map_or(wanted_rate, |rate| (rate * 1000.0) as u64);
        let missing = wanted_rate.saturating_sub(rate);
        // 29.97 is as good as 30.
        let missing = if missing * 100 <= wanted_rate {
            0
        } else {
            missing
        };
        (Reverse(distance), Reverse(missing), Reverse(self.coding))
    }

    /// The pipeline description behind the camera's element; it begins with an element `camera`.
    pub fn description(&self) -> String {
        let caps = quote_text(&self.caps.to_string());
        let decode = match self.coding {
            Coding::Raw => "",
            Coding::Jpeg => " ! jpegparse ! decodebin name=source",
            Coding::H264 => " ! h264parse ! decodebin name=source",
        };
        format!("capsfilter name=camera caps={caps}{decode}")
    }

    /// For people: `640x480 YUY2, 30 fps`.
    pub fn label(&self) -> String {
        let structure = self.caps.structure(0);
        let format = structure.and_then(|s| s.get::<String>("format").ok());
        let coding = match (self.coding, format) {
            (Coding::Raw, Some(format)) => format,
            (Coding::Raw, None) => "uncompressed".to_owned(),
            (Coding::Jpeg, _) => "MJPEG".to_owned(),
            (Coding::H264, _) => "H.264".to_owned(),
        };
        let rate = match self.rate() {
            Some(rate) => format!(", {} fps", (rate * 100.0).round() / 100.0),
            None => String::new(),
        };
        format!(
            "{}x{} {coding}{rate}",
            self.side("width"),
            self.side("height")
        )
    }
}

#[cfg(test)]
mod tests {
    use std::str::FromStr;

    use super::*;

    /// What a common USB camera says of itself.
    const USB: &str = "\
        video/x-raw, format=YUY2, width=1280, height=720, pixel-aspect-ratio=1/1, framerate=10/1; \
        video/x-raw, format=YUY2, width=640, height=480, framerate={ (fraction)30/1, (fraction)15/1 }; \
        image/jpeg, width=1920, height=1080, framerate=30/1; \
        image/jpeg, parsed=true, width=1280, height=720, framerate={ (fraction)30/1, (fraction)25/1 }; \
        image/jpeg, width=640, height=480, framerate=30/1";

    fn chosen(caps: &str, width: u32, height: u32, rate: u32) -> String {
        gst::init().unwrap();
        let caps = gst::Caps::from_str(caps).unwrap();
        let wanted = Wanted {
            width,
            height,
            rate,
        };
        choose(&caps, wanted).map_or_else(String::new, |mode| mode.label())
    }

    #[test]
    fn the_mode_has_the_size_then_the_rate_then_no_compression() {
        assert_eq!(chosen(USB, 640, 480, 30), "640x480 YUY2, 30 fps");
        assert_eq!(chosen(USB, 640, 480, 15), "640x480 YUY2, 15 fps");
        assert_eq!(chosen(USB, 1280, 720, 30), "1280x720 MJPEG, 30 fps");
        assert_eq!(chosen(USB, 1280, 720, 10), "1280x720 YUY2, 10 fps");
        assert_eq!(chosen(USB, 1920, 1080, 60), "1920x1080 MJPEG, 30 fps");
        assert_eq!(chosen(USB, 320, 240, 30), "640x480 YUY2, 30 fps");
        let film = "video/x-h264, width=1280, height=720, framerate=30000/1001; \
                    video/x-raw, format=NV12, width=1280, height=720, framerate=5/1";
        assert_eq!(chosen(film, 1280, 720, 30), "1280x720 H.264, 29.97 fps");
    }

    #[test]
    fn ranges_are_fixed_at_what_is_wanted() {
        let any = "video/x-raw, format={ NV12, I420 }, width=[1, 4096], height=[1, 4096], \
                   framerate=[0/1, 120/1]";
        assert_eq!(chosen(any, 800, 600, 30), "800x600 NV12, 30 fps");
        assert_eq!(chosen("video/x-raw", 800, 600, 30), "0x0 uncompressed");
    }

    #[test]
    fn what_cannot_be_used_is_passed_over() {
        assert_eq!(
            chosen("video/x-bayer, width=640, height=480", 640, 480, 30),
            ""
        );
        let device = "video/x-raw(memory:DMABuf), format=NV12, width=640, height=480";
        assert_eq!(chosen(device, 640, 480, 30), "");
    }

    #[test]
    fn the_description_asks_for_what_was_chosen_alone() {
        gst::init().unwrap();
        let caps = gst::Caps::from_str(USB).unwrap();
        let wanted = Wanted {
            width: 1280,
            height: 720,
            rate: 30,
        };
        let text = choose(&caps, wanted).unwrap().description();
        assert!(text.contains("image/jpeg") && text.contains("decodebin name=source"));
        assert!(!text.contains("parsed"), "{text}");
        let bin = gst::parse::bin_from_description(&format!("{text} ! fakesink"), false).unwrap();
        let camera = bin.by_name("camera").unwrap();
        let caps = camera.property::<gst::Caps>("caps");
        assert!(caps.is_fixed(), "{caps}");
    }
}
