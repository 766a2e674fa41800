//! Which package of Debian and Ubuntu brings which element.

const PACKAGES: &[(&str, &[&str])] = &[
    (
        "gstreamer1.0-plugins-base",
        &[
            "uridecodebin",
            "decodebin",
            "videoconvert",
            "videotestsrc",
            "audioconvert",
            "audioresample",
            "opusenc",
            "vorbisenc",
            "compositor",
            "overlaycomposition",
        ],
    ),
    (
        "gstreamer1.0-plugins-good",
        &[
            "mp4mux",
            "qtmux",
            "qtdemux",
            "matroskamux",
            "matroskademux",
            "webmmux",
            "vp8enc",
            "vp9enc",
            "vp8dec",
            "vp9dec",
            "pngenc",
            "pngdec",
            "jpegdec",
            "v4l2src",
            "rtph264pay",
            "rtph264depay",
            "rtpjitterbuffer",
            "rtspsrc",
            "udpsrc",
            "udpsink",
            "multifilesink",
            "aacparse",
            "ac3parse",
            "mpegaudioparse",
        ],
    ),
    (
        "gstreamer1.0-plugins-bad",
        &[
            "h264parse",
            "jpegparse",
            "mpegtsmux",
            "srtsink",
            "srtsrc",
            "h265parse",
            "opusparse",
            "openh264enc",
            "nvh264enc",
            "vah264enc",
            "voaacenc",
            "tsdemux",
        ],
    ),
    ("gstreamer1.0-plugins-ugly", &["x264enc"]),
    ("gstreamer1.0-x", &["ximagesink", "xvimagesink"]),
    (
        "gstreamer1.0-libav",
        &["avdec_h264", "avdec_h265", "avdec_aac", "avenc_aac"],
    ),
    (
        "libgstreamer1.0-0",
        &[
            "filesrc",
            "filesink",
            "fakesink",
            "queue",
            "tee",
            "capsfilter",
        ],
    ),
];

/// The package that brings `element`, where it is known.
pub fn of_element(element: &str) -> Option<&'static str> {
    PACKAGES
        .iter()
        .find(|(_, elements)| elements.contains(&element))
        .map(|(package, _)| *package)
}

/// What to do about a missing `element`, as the end of a sentence.
pub fn advice(element: &str) -> String {
    match of_element(element) {
        Some(package) => format!("install it with: apt install {package}"),
        None => "install the GStreamer plugin that brings it".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_element_has_one_package() {
        let mut all: Vec<&str> = PACKAGES
            .iter()
            .flat_map(|(_, e)| e.iter().copied())
            .collect();
        all.sort_unstable();
        let count = all.len();
        all.dedup();
        assert_eq!(all.len(), count);
        assert_eq!(of_element("x264enc"), Some("gstreamer1.0-plugins-ugly"));
        assert_eq!(of_element("no-such-element"), None);
    }
}
