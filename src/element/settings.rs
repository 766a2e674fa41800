//! Properties: their specifications, their values, and the `FilterSpec` they make.

use std::sync::LazyLock;

use gst::glib;
use gst::prelude::*;

use crate::engine::{Backend, Request};
use crate::filter::FilterSpec;
use crate::filter::spec::{
    Alpha, Border, Distance, Kernel, Matrix, Method, Planes, Precision, Window,
};

/// What happens to a frame that would be over budget.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, glib::Enum)]
#[repr(i32)]
#[enum_type(name = "GstCudaConvOverBudget")]
pub enum OverBudget {
    #[default]
    #[enum_value(name = "Filter it, count it and tell", nick = "report")]
    Report,
    #[enum_value(name = "Pass it on unfiltered, counted", nick = "bypass")]
    Bypass,
    #[enum_value(name = "Drop it, counted", nick = "drop")]
    Drop,
}

pub const DEFAULT_DEPTH: u32 = 2;
pub const DEFAULT_BUDGET_NS: u64 = 33_000_000;

/// The values of all writable properties.
#[derive(Debug, Clone)]
pub struct Settings {
    pub filter: FilterSpec,
    /// `matrix` as it was set, to be read back.
    pub matrix_text: String,
    pub backend: Backend,
    pub cuda_device_id: i32,
    pub depth: u32,
    pub budget: u64,
    pub over_budget: OverBudget,
    pub qos: bool,
    pub post_messages: bool,
    pub silent: bool,
}

impl Default for Settings {
    fn default() -> Self {
        Settings {
            filter: FilterSpec::default(),
            matrix_text: String::new(),
            backend: Backend::default(),
            cuda_device_id: -1,
            depth: DEFAULT_DEPTH,
            budget: DEFAULT_BUDGET_NS,
            over_budget: OverBudget::default(),
            qos: true,
            post_messages: false,
            silent: true,
        }
    }
}

impl Settings {
    /// Sets the property `name`.
    ///
    /// # Errors
    /// A sentence for users when the value is refused; the old value then stands.
    pub fn set(&mut self, name: &str, value: &glib::Value) -> Result<(), String> {
        fn get<'a, T: glib::value::FromValue<'a>>(value: &'a glib::Value) -> T {
            let Ok(value) = value.get::<T>() else {
                unreachable!("GObject checked the type against the specification")
            };
            value
        }
        let f = &mut self.filter;
        match name {
            "kernel" => f.kernel = get::<Kernel>(value),
            "matrix" => self.set_matrix(get::<Option<String>>(value).unwrap_or_default())?,
            "divisor" => f.divisor = finite(name, get(value))?,
            "bias" => f.bias = finite(name, get(value))?,
            "radius" => f.radius = get::<i32>(value).unsigned_abs(),
            "sigma" => f.sigma = finite(name, get(value))?,
            "amount" => f.amount = finite(name, get(value))?,
            "sigma-space" => f.sigma_space = finite(name, get(value))?,
            "sigma-color" => f.sigma_color = finite(name, get(value))?,
            "window" => f.window = get::<Window>(value),
            "distance" => f.distance = get::<Distance>(value),
            "border" => f.border = get::<Border>(value),
            "border-value" => f.border_value = finite(name, get(value))?,
            "planes" => f.planes = get::<Planes>(value),
            "alpha" => f.alpha = get::<Alpha>(value),
            "method" => f.method = get::<Method>(value),
            "precision" => f.precision = get::<Precision>(value),
            "backend" => self.backend = get::<Backend>(value),
            "cuda-device-id" => self.cuda_device_id = get(value),
            "depth" => self.depth = get(value),
            "budget" => self.budget = get(value),
            "over-budget" => self.over_budget = get::<OverBudget>(value),
            "qos" => self.qos = get(value),
            "post-messages" => self.post_messages = get(value),
            "silent" => self.silent = get(value),
            _ => return Err(format!("{name} is not a writable property")),
        }
        Ok(())
    }

    fn set_matrix(&mut self, text: String) -> Result<(), String> {
        self.filter.matrix = if text.trim().is_empty() {
            None
        } else {
            Some(text.parse::<Matrix>().map_err(|error| error.to_string())?)
        };
        self.matrix_text = text;
        Ok(())
    }

    /// What the engine is asked for.
    pub fn engine_request(&self) -> Request {
        Request {
            backend: self.backend,
            device_id: self.cuda_device_id,
            depth: self.depth as usize,
        }
    }

    /// The value of the writable property `name`.
    pub fn get(&self, name: &str) -> Option<glib::Value> {
        let f = &self.filter;
        Some(match name {
            "kernel" => f.kernel.to_value(),
            "matrix" => self.matrix_text.to_value(),
            "divisor" => f.divisor.to_value(),
            "bias" => f.bias.to_value(),
            "radius" => (f.radius as i32).to_value(),
            "sigma" => f.sigma.to_value(),
            "amount" => f.amount.to_value(),
            "sigma-space" => f.sigma_space.to_value(),
            "sigma-color" => f.sigma_color.to_value(),
            "window" => f.window.to_value(),
            "distance" => f.distance.to_value(),
            "border" => f.border.to_value(),
            "border-value" => f.border_value.to_value(),
            "planes" => f.planes.to_value(),
            "alpha" => f.alpha.to_value(),
            "method" => f.method.to_value(),
            "precision" => f.precision.to_value(),
            "backend" => self.backend.to_value(),
            "cuda-device-id" => self.cuda_device_id.to_value(),
            "depth" => self.depth.to_value(),
            "budget" => self.budget.to_value(),
            "over-budget" => self.over_budget.to_value(),
            "qos" => self.qos.to_value(),
            "post-messages" => self.post_messages.to_value(),
            "silent" => self.silent.to_value(),
            _ => return None,
        })
    }
}

/// GObject's range check lets NaN pass, and knows nothing of float32.
fn finite(name: &str, value: f64) -> Result<f64, String> {
    if (value as f32).is_finite() {
        Ok(value)
    } else {
        Err(format!(
            "{name}: {value} is refused; accepted are numbers within float32, ±{:e}",
            f32::MAX
        ))
    }
}

/// True for properties that may only change in NULL and READY.
pub fn needs_ready(name: &str) -> bool {
    matches!(name, "backend" | "cuda-device-id" | "depth")
}

/// All properties, in the order in which `gst-inspect-1.0` groups them.
pub static PROPERTIES: LazyLock<Vec<glib::ParamSpec>> = LazyLock::new(|| {
    let mut all = kernel_properties();
    all.extend(picture_properties());
    all.extend(engine_properties());
    all.extend(reporting_properties());
    all
});

fn number(name: &'static str, blurb: &'static str, max: f64, default: f64) -> glib::ParamSpec {
    let min = if max == f64::MAX { -f64::MAX } else { 0.0 };
    glib::ParamSpecDouble::builder(name)
        .blurb(blurb)
        .minimum(min)
        .maximum(max)
        .default_value(default)
        .controllable()
        .mutable_playing()
        .build()
}

macro_rules! choice {
    ($type:ty, $name:expr, $blurb:expr) => {
        glib::ParamSpecEnum::builder_with_default($name, <$type>::default())
            .blurb($blurb)
            .mutable_playing()
            .build()
    };
}

fn kernel_properties() -> Vec<glib::ParamSpec> {
    vec![
        choice!(Kernel, "kernel", "The filter's kernel; properties that it does not use have no effect, which an INFO message says at the start"),
        glib::ParamSpecString::builder("matrix")
            .blurb("Coefficients of kernel=custom, which no other kernel uses: numbers separated by blanks or commas, rows by ';', odd rows and columns, 1 to 31 each; without ';' an odd square")
            .default_value(Some(""))
            .mutable_playing()
            .build(),
        number("divisor", "What the sum of products of the whole-number coefficients is divided by; 0 = the sum of the coefficients, or 1 where that sum is 0. Not for the bilateral", f64::MAX, 0.0),
        number("bias", "Added after the division to luma, grey and RGB, in 8-bit code values (times 2^(depth-8))", f64::MAX, 0.0),
        glib::ParamSpecInt::builder("radius")
            .blurb("Window radius in pixels of box, gauss, unsharp and bilateral, which no other kernel uses; 0 = derived from the sigma (box: 1)")
            .minimum(0)
            .maximum(32)
            .default_value(0)
            .controllable()
            .mutable_playing()
            .build(),
        number("sigma", "Sigma of gauss and unsharp in pixels; 0 = derived from the radius by 0.3*(radius-1)+0.8", 100.0, 0.0),
        number("amount", "Strength of sharpen and unsharp, a factor", 10.0, 1.0),
        number("sigma-space", "Bilateral: sigma of the distance in pixels; 0 = copy", 100.0, 5.0),
        number("sigma-color", "Bilateral: sigma of the colour difference in 8-bit code values (times 2^(depth-8)); 0 = copy", 255.0, 25.0),
        choice!(Window, "window", "Bilateral: shape of the window"),
        choice!(Distance, "distance", "Bilateral: colour distance of RGB"),
    ]
}

fn picture_properties() -> Vec<glib::ParamSpec> {
    vec![
        choice!(Border, "border", "Pixels beyond the edge of the picture"),
        number(
            "border-value",
            "border=constant: luma, grey and RGB beyond the edge, in 8-bit code values above the zero level (times 2^(depth-8)); chroma is neutral there, alpha opaque",
            255.0,
            0.0,
        ),
        choice!(Planes, "planes", "YUV: which planes are filtered"),
        choice!(Alpha, "alpha", "Formats with alpha: what becomes of it"),
    ]
}

fn engine_properties() -> Vec<glib::ParamSpec> {
    vec![
        choice!(Method, "method", "How the filter is computed"),
        choice!(
            Precision,
            "precision",
            "Least that is asked of the arithmetic of the weights: with fp16 correlations of 8-bit samples may take weights of 16 bits, where that is faster; everything else is computed in fp32, as stats says, or refused"
        ),
        glib::ParamSpecEnum::builder_with_default("backend", Backend::default())
            .blurb("Which engine filters: auto takes the GPU if one works, for streams whose frames are large enough to be worth the trip, else the CPU, and goes on with the CPU if the GPU fails; cuda makes any such failure an error")
            .mutable_ready()
            .build(),
        glib::ParamSpecInt::builder("cuda-device-id")
            .blurb("Index of the CUDA device; -1 = the one with the fewest instances in this process. Without meaning on the CPU")
            .minimum(-1)
            .default_value(-1)
            .mutable_ready()
            .build(),
        glib::ParamSpecUInt::builder("depth")
            .blurb("Frames in flight (2 = double-buffered)")
            .minimum(1)
            .maximum(8)
            .default_value(DEFAULT_DEPTH)
            .mutable_ready()
            .build(),
    ]
}

fn reporting_properties() -> Vec<glib::ParamSpec> {
    vec![
        glib::ParamSpecUInt64::builder("budget")
            .blurb("A frame whose latency is larger is over budget, in nanoseconds")
            .default_value(DEFAULT_BUDGET_NS)
            .mutable_playing()
            .build(),
        choice!(
            OverBudget,
            "over-budget",
            "What happens to a frame that would be over budget"
        ),
        glib::ParamSpecBoolean::builder("qos")
            .blurb("In live pipelines, drop frames before filtering that QoS events say would be late")
            .default_value(true)
            .mutable_playing()
            .build(),
        glib::ParamSpecBoolean::builder("post-messages")
            .blurb("Post an element message cudaconv-latency for every frame")
            .default_value(false)
            .mutable_playing()
            .build(),
        glib::ParamSpecBoolean::builder("silent")
            .blurb("false: notify last-message for every frame")
            .default_value(true)
            .mutable_playing()
            .build(),
        glib::ParamSpecString::builder("last-message")
            .blurb("The last frame: number, PTS, latency and its stages in milliseconds, OVER when over budget")
            .read_only()
            .build(),
        glib::ParamSpecBoxed::builder::<gst::Structure>("stats")
            .blurb("Counts of frames; backend, device and method (copy where the filter changes nothing); latency and stages in nanoseconds")
            .read_only()
            .build(),
    ]
}
