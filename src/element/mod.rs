//! The GStreamer face: pads, events, caps and buffers. Knows no CUDA and no arithmetic.

#[cfg(not(fuzzing))]
mod allocation;
#[cfg(fuzzing)]
pub mod allocation;
mod events;
mod imp;
mod negotiation;
mod output;
mod queue;
mod report;
#[cfg(not(fuzzing))]
mod settings;
#[cfg(fuzzing)]
pub mod settings;
mod streaming;

use std::sync::LazyLock;

use gst::glib;
use gst::prelude::*;

static CAT: LazyLock<gst::DebugCategory> = LazyLock::new(|| {
    gst::DebugCategory::new(
        "cudaconv",
        gst::DebugColorFlags::empty(),
        Some("GPU and CPU video filter with latency report"),
    )
});

glib::wrapper! {
    /// The element `cudaconv`.
    pub struct CudaConv(ObjectSubclass<imp::CudaConv>) @extends gst::Element, gst::Object;
}

/// Registers the element with `plugin`.
///
/// # Errors
/// When GStreamer refuses the registration.
pub fn register(plugin: &gst::Plugin) -> Result<(), glib::BoolError> {
    gst::Element::register(
        Some(plugin),
        "cudaconv",
        gst::Rank::NONE,
        CudaConv::static_type(),
    )
}
