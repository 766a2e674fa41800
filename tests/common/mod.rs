//! What the tests of the element share.
#![allow(dead_code)] // each test target uses a part of it

pub mod downstream;
pub mod frames;
pub mod heap;
pub mod isolated;
pub mod pads;
pub mod picture;
pub mod pipelines;
pub mod pools;
pub mod stages;
pub mod storm;
pub mod timeline;
pub mod watchdog;

use std::sync::{LazyLock, Mutex, Once};

use gst::glib;
use gst::prelude::*;

/// Critical messages of any library and warnings of GStreamer since the process began.
static COMPLAINTS: Mutex<Vec<String>> = Mutex::new(Vec::new());

/// Makes GStreamer and the plugin ready, once per process.
pub fn init() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        gst::init().expect("GStreamer starts");
        gstcudaconv::plugin_register_static().expect("the plugin registers");
        glib::log_set_default_handler(|domain, level, text| {
            let domain = domain.unwrap_or("");
            eprintln!("{domain} {level:?}: {text}");
            // GLib says so since 2.80, of values that tests set on purpose.
            let provoked = text.contains("is invalid or out of range for property");
            let serious = match level {
                _ if provoked => false,
                glib::LogLevel::Error | glib::LogLevel::Critical => true,
                glib::LogLevel::Warning => domain == "GStreamer",
                _ => false,
            };
            if serious {
                COMPLAINTS
                    .lock()
                    .unwrap_or_else(|poisoned| poisoned.into_inner())
                    .push(format!("{domain} {level:?}: {text}"));
            }
        });
    });
}

/// A folder for files that tests write: cargo's, or the system's where this program was brought to
/// another machine.
pub fn scratch_folder() -> std::path::PathBuf {
    let cargos = std::path::Path::new(env!("CARGO_TARGET_TMPDIR"));
    match cargos.is_dir() {
        true => cargos.to_path_buf(),
        false => std::env::temp_dir(),
    }
}

/// How many complaints there were so far.
pub fn complaint_count() -> usize {
    COMPLAINTS
        .lock()
        .unwrap_or_else(|poisoned| poisoned.into_inner())
        .len()
}

/// The complaints after the first `count`.
pub fn complaints_since(count: usize) -> Vec<String> {
    COMPLAINTS
        .lock()
        .unwrap_or_else(|poisoned| poisoned.into_inner())
        .get(count..)
        .unwrap_or_default()
        .to_vec()
}

/// The backend that the tests are about: the CPU, or what the environment says.
pub fn backend() -> &'static str {
    static BACKEND: LazyLock<String> =
        LazyLock::new(|| std::env::var("CUDACONV_TEST_BACKEND").unwrap_or_else(|_| "cpu".into()));
    &BACKEND
}

/// The element with a filter that leaves flat pictures flat and raises them by one, so
/// that a frame which passed unfiltered shows.
pub fn raising() -> gst::Element {
    init();
    gst::ElementFactory::make("cudaconv")
        .property_from_str("backend", backend())
        .property_from_str("kernel", "gauss3")
        .property("bias", 1f64)
        .build()
        .expect("the factory makes an element")
}

/// The element with `properties` in the syntax of `gst-launch-1.0`, in this order.
pub fn cudaconv(properties: &[(&str, &str)]) -> gst::Element {
    init();
    let mut builder = gst::ElementFactory::make("cudaconv").property_from_str("backend", backend());
    for (name, value) in properties {
        builder = builder.property_from_str(name, value);
    }
    builder.build().expect("the factory makes an element")
}

/// Sets a property as C programs do: a value that the range refuses is only warned about.
pub fn set_as_c_does(element: &gst::Element, name: &str, value: impl Into<glib::Value>) {
    use glib::translate::ToGlibPtr;
    let value = value.into();
    // SAFETY: the element lives through the call, the name is NUL-terminated by the conversion,
    // and GObject copies the value.
    unsafe {
        glib::gobject_ffi::g_object_set_property(
            element.as_ptr().cast(),
            name.to_glib_none().0,
            value.to_glib_none().0,
        );
    }
}

/// The nick of an enum property's value.
pub fn nick(element: &gst::Element, property: &str) -> String {
    let value = element.property_value(property);
    let (_, value) = glib::EnumValue::from_value(&value).expect("an enum property");
    value.nick().to_string()
}

/// `stats` as it is now.
pub fn stats(element: &gst::Element) -> gst::Structure {
    element.property::<gst::Structure>("stats")
}

/// One counter of `stats`.
pub fn stat(element: &gst::Element, field: &str) -> u64 {
    stats(element)
        .get::<u64>(field)
        .unwrap_or_else(|e| panic!("stats has no uint64 {field}: {e}"))
}

/// A small generator of repeatable pseudo-random numbers (Marsaglia's xorshift64).
pub struct Random(u64);

impl Random {
    pub fn new(seed: u64) -> Self {
        Random(seed.max(1))
    }

    pub fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    /// A number in `0..end`.
    pub fn below(&mut self, end: u64) -> u64 {
        self.next() % end
    }
}
