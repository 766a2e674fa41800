//! Where the live video comes from: a camera, a description, or a generated clip.

use gst::prelude::*;

use super::camera::{self, Camera, Mode};
use super::options::WebcamOptions;
use crate::input::TestClip;
use crate::network;
use crate::templates::TemplateError;

/// A source of live video.
pub enum Source {
    Camera(Box<Camera>, Mode),
    /// A camera on the network: its address, and the pipeline description that gives its video.
    Network(String, String),
    /// A pipeline description that somebody wrote.
    Description(String),
    /// `asked`: no camera was looked for.
    Generated {
        clip: TestClip,
        asked: bool,
    },
}

/// All cameras and what they offer, for people.
pub fn list() -> String {
    let cameras = camera::all();
    if cameras.is_empty() {
        return "no camera was found".to_owned();
    }
    let lines = cameras.iter().flat_map(|camera| {
        let offers = camera
            .offers()
            .into_iter()
            .map(|offer| format!("    {offer}"));
        std::iter::once(camera.label()).chain(offers)
    });
    lines.collect::<Vec<_>>().join("\n")
}

impl Source {
    /// What the options ask for, else the first camera, else the generated clip.
    ///
    /// # Errors
    /// A sentence, when the camera that was named is not there or gives nothing that can be used.
    pub fn find(options: &WebcamOptions) -> Result<Source, String> {
        let clip = TestClip {
            width: options.wanted.width,
            height: options.wanted.height,
            rate: options.wanted.rate,
            ..TestClip::default()
        };
        if let Some(description) = &options.source {
            return Ok(Source::Description(description.clone()));
        }
        if options.device.as_deref() == Some("test") {
            return Ok(Source::Generated { clip, asked: true });
        }
        if let Some(address) = &options.device
            && let Some(description) = network::camera(address)
        {
            return Ok(Source::Network(address.clone(), description?));
        }
        let cameras = camera::all();
        let camera = match &options.device {
            Some(name) => camera::named(cameras, name)?,
            None => match cameras.into_iter().next() {
                Some(camera) => camera,
                None => return Ok(Source::Generated { clip, asked: false }),
            },
        };
        let mode = camera.mode(options.wanted).ok_or_else(|| {
            let label = camera.label();
            format!("the camera {label} offers neither uncompressed video nor MJPEG nor H.264")
        })?;
        Ok(Source::Camera(Box::new(camera), mode))
    }

    /// The pipeline description that gives its video.
    ///
    /// # Errors
    /// When the template of the test clip asks for something unknown.
    pub fn description(&self) -> Result<String, TemplateError> {
        match self {
            Source::Camera(_, mode) => Ok(mode.description()),
            Source::Network(_, description) | Source::Description(description) => {
                Ok(description.clone())
            }
            Source::Generated { clip, .. } => clip.source(true),
        }
    }

    /// Adds what a description cannot name: the camera's own element.
    ///
    /// # Errors
    /// A sentence, when the camera cannot be used.
    pub fn complete(&self, pipeline: &gst::Pipeline) -> Result<(), String> {
        let Source::Camera(camera, _) = self else {
            return Ok(());
        };
        let element = camera.element()?;
        let refused = |error: gst::glib::BoolError| error.message.to_string();
        pipeline.add(&element).map_err(refused)?;
        let entry = pipeline.by_name("camera");
        let entry = entry.ok_or("the pipeline has no element named camera")?;
        element.link(&entry).map_err(refused)
    }

    /// For people.
    pub fn label(&self) -> String {
        match self {
            Source::Camera(camera, mode) => format!("{}, {}", camera.label(), mode.label()),
            Source::Network(address, _) => address.clone(),
            Source::Description(description) => description.clone(),
            Source::Generated { clip, .. } => format!(
                "generated live video, {}x{}, {} fps",
                clip.width, clip.height, clip.rate
            ),
        }
    }

    /// What is said of it at the start.
    pub fn words(&self) -> String {
        let label = self.label();
        match self {
            Source::Camera(..) | Source::Network(..) => format!("camera: {label}"),
            Source::Description(_) => format!("source: {label}"),
            Source::Generated { asked: true, .. } => format!("source: {label}"),
            Source::Generated { asked: false, .. } => {
                format!("no camera was found: {label}, takes its place")
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::str::FromStr;
    use std::sync::Once;

    use gst::glib;
    use gst::subclass::prelude::*;

    use super::super::camera::Wanted;
    use super::*;

    /// A camera without hardware: gives what its caps say, whichever mode is asked for.
    #[derive(Default)]
    struct PretendedCamera;

    #[glib::object_subclass]
    impl ObjectSubclass for PretendedCamera {
        const NAME: &'static str = "PretendedCamera";
        type Type = Pretended;
        type ParentType = gst::Device;
    }

    glib::wrapper! {
        struct Pretended(ObjectSubclass<PretendedCamera>) @extends gst::Device, gst::Object;
    }

    impl ObjectImpl for PretendedCamera {}
    impl GstObjectImpl for PretendedCamera {}
    impl DeviceImpl for PretendedCamera {
        fn create_element(&self, _name: Option<&str>) -> Result<gst::Element, gst::LoggableError> {
            let encoder = match self.obj().display_name().as_str() {
                "Pretended MJPEG camera" => "! jpegenc",
                "Pretended H.264 camera" => "! x264enc tune=zerolatency",
                _ => "",
            };
            let description = format!("videotestsrc num-buffers=5 {encoder} ! identity");
            let bin = gst::parse::bin_from_description(&description, true);
            bin.map(|bin| bin.upcast())
                .map_err(|error| gst::loggable_error!(gst::CAT_RUST, "{error}"))
        }
    }

    /// Knows of three such cameras.
    #[derive(Default)]
    struct PretendedPort;

    #[glib::object_subclass]
    impl ObjectSubclass for PretendedPort {
        const NAME: &'static str = "PretendedPort";
        type Type = Port;
        type ParentType = gst::DeviceProvider;
    }

    glib::wrapper! {
        struct Port(ObjectSubclass<PretendedPort>) @extends gst::DeviceProvider, gst::Object;
    }

    impl ObjectImpl for PretendedPort {}
    impl GstObjectImpl for PretendedPort {}
    impl DeviceProviderImpl for PretendedPort {
        fn metadata() -> Option<&'static gst::subclass::DeviceProviderMetadata> {
            static METADATA: std::sync::LazyLock<gst::subclass::DeviceProviderMetadata> =
                std::sync::LazyLock::new(|| {
                    gst::subclass::DeviceProviderMetadata::new(
                        "Pretended cameras",
                        "Video/Source",
                        "Cameras for tests",
                        "The cudaconv authors",
                    )
                });
            Some(&METADATA)
        }

        fn probe(&self) -> Vec<gst::Device> {
            let camera = |coding: &str, path: &str, caps: &str| {
                let properties = gst::Structure::builder("camera").field("device.path", path);
                glib::Object::builder::<Pretended>()
                    .property("display-name", format!("Pretended {coding} camera"))
                    .property("device-class", "Video/Source")
                    .property("caps", gst::Caps::from_str(caps).unwrap())
                    .property("properties", properties.build())
                    .build()
                    .upcast()
            };
            let size = "width=64, height=48, framerate=30/1";
            vec![
                camera(
                    "YUY2",
                    "/dev/pretended0",
                    &format!("video/x-raw, format=YUY2, {size}"),
                ),
                camera("MJPEG", "/dev/pretended1", &format!("image/jpeg, {size}")),
                camera("H.264", "/dev/pretended2", &format!("video/x-h264, {size}")),
            ]
        }

        fn start(&self) -> Result<(), gst::LoggableError> {
            for device in self.probe() {
                self.obj().device_add(&device);
            }
            Ok(())
        }

        fn stop(&self) {}
    }

    fn options(device: Option<&str>) -> WebcamOptions {
        static REGISTERED: Once = Once::new();
        gst::init().unwrap();
        REGISTERED.call_once(|| {
            let rank = gst::Rank::PRIMARY;
            gst::DeviceProvider::register(None, "pretended", rank, Port::static_type()).unwrap();
        });
        WebcamOptions {
            device: device.map(str::to_owned),
            list: false,
            source: None,
            wanted: Wanted {
                width: 64,
                height: 48,
                rate: 30,
            },
            record: None,
            no_window: true,
            frames: None,
            duration: None,
            verbose: false,
            quiet: true,
            settings: Vec::new(),
        }
    }

    /// Plays it to its end and says which caps came out decoded.
    fn play(source: &Source) -> gst::Caps {
        let description = format!(
            "{} ! videoconvert ! fakesink name=end async=false",
            source.description().unwrap()
        );
        let pipeline = gst::parse::launch(&description).unwrap();
        let pipeline = pipeline.downcast::<gst::Pipeline>().unwrap();
        source.complete(&pipeline).unwrap();
        pipeline.set_state(gst::State::Playing).unwrap();
        let ends = [gst::MessageType::Eos, gst::MessageType::Error];
        let limit = gst::ClockTime::from_seconds(60);
        let end = pipeline
            .bus()
            .unwrap()
            .timed_pop_filtered(limit, &ends)
            .unwrap();
        assert_eq!(end.type_(), gst::MessageType::Eos, "{description}: {end:?}");
        let pad = pipeline.by_name("end").unwrap().static_pad("sink").unwrap();
        let caps = pad.current_caps().unwrap();
        pipeline.set_state(gst::State::Null).unwrap();
        caps
    }

    #[test]
    fn a_camera_is_found_by_path_name_or_part_of_it_and_gives_its_video() {
        for (device, label) in [
            ("/dev/pretended0", "YUY2"),
            ("Pretended MJPEG camera", "MJPEG"),
            ("h.264", "H.264"),
        ] {
            let source = Source::find(&options(Some(device))).unwrap();
            let words = source.words();
            assert!(
                words.starts_with("camera: Pretended ") && words.contains("(/dev/pretended"),
                "{words}"
            );
            assert!(
                words.ends_with(&format!("64x48 {label}, 30 fps")),
                "{words}"
            );
            let caps = play(&source);
            let structure = caps.structure(0).unwrap();
            assert_eq!(structure.name(), "video/x-raw");
            assert_eq!(structure.get("width"), Ok(64), "{caps}");
        }
    }

    #[test]
    fn cameras_are_listed_and_the_first_is_taken() {
        let first = Source::find(&options(None)).unwrap();
        assert!(matches!(first, Source::Camera(..)));
        let list = list();
        for part in [
            "Pretended YUY2 camera (/dev/pretended0)",
            "    image/jpeg, width=(int)64",
        ] {
            assert!(list.contains(part), "{list}");
        }
    }

    #[test]
    fn a_name_that_is_none_or_of_several_is_refused_with_the_list() {
        for name in ["/dev/video77", "pretended"] {
            let Err(error) = Source::find(&options(Some(name))) else {
                panic!("{name} was taken");
            };
            assert!(
                error.contains("found were: ") && error.contains("/dev/pretended2"),
                "{error}"
            );
        }
        let Err(error) = Source::find(&options(Some("rtp://nowhere"))) else {
            panic!("no address was taken");
        };
        assert!(error.contains("rtp://HOST:PORT"), "{error}");
    }
}
