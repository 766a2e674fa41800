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
