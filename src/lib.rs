//! `cudaconv`: a GStreamer element that filters video on a GPU or the CPU and reports every
//! frame's latency.

pub mod element;
pub mod engine;
pub mod filter;
pub mod latency;

fn plugin_init(plugin: &gst::Plugin) -> Result<(), gst::glib::BoolError> {
    element::register(plugin)
}

gst::plugin_define!(
    cudaconv,
    env!("CARGO_PKG_DESCRIPTION"),
    plugin_init,
    concat!(env!("CARGO_PKG_VERSION"), "-", env!("COMMIT_ID")),
    "MPL-2.0",
    env!("CARGO_PKG_NAME"),
    env!("CARGO_PKG_NAME"),
    env!("CARGO_PKG_NAME"),
    env!("BUILD_REL_DATE")
);
