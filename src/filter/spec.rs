//! `FilterSpec`: what the user asked for, validated value by value.
//!
//! The enums carry their GObject names here, so that `gst-inspect-1.0`, the command line and the
//! plan all read the one list.

use gst::glib;

pub use super::matrix::{Matrix, MatrixError};

/// The filter's kernel.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, glib::Enum)]
#[repr(i32)]
#[enum_type(name = "GstCudaConvKernel")]
pub enum Kernel {
    #[enum_value(name = "Identity: the picture unchanged", nick = "identity")]
    Identity,
    #[enum_value(name = "Box blur 3x3", nick = "box3")]
    Box3,
    #[enum_value(name = "Box blur 5x5", nick = "box5")]
    Box5,
    #[enum_value(name = "Box blur 7x7", nick = "box7")]
    Box7,
    #[enum_value(name = "Box blur, size from radius", nick = "box")]
    Box,
    #[default]
    #[enum_value(name = "Gaussian 3x3, [1 2 1]/4 per axis", nick = "gauss3")]
    Gauss3,
    #[enum_value(name = "Gaussian 5x5, [1 4 6 4 1]/16 per axis", nick = "gauss5")]
    Gauss5,
    #[enum_value(name = "Gaussian 7x7, [2 7 14 18 14 7 2]/64 per axis", nick = "gauss7")]
    Gauss7,
    #[enum_value(
        name = "Gaussian 9x9, [4 13 30 51 60 51 30 13 4]/256 per axis",
        nick = "gauss9"
    )]
    Gauss9,
    #[enum_value(name = "Gaussian, size from radius and sigma", nick = "gauss")]
    Gauss,
    #[enum_value(name = "Sharpen: identity - amount * laplacian", nick = "sharpen")]
    Sharpen,
    #[enum_value(name = "Unsharp mask: in + amount * (in - gauss)", nick = "unsharp")]
    Unsharp,
    #[enum_value(name = "Emboss [-2 -1 0; -1 1 1; 0 1 2]", nick = "emboss")]
    Emboss,
    #[enum_value(name = "Laplacian [0 1 0; 1 -4 1; 0 1 0]", nick = "laplacian")]
    Laplacian,
    #[enum_value(name = "Sobel, horizontal gradient", nick = "sobel-x")]
    SobelX,
    #[enum_value(name = "Sobel, vertical gradient", nick = "sobel-y")]
    SobelY,
    #[enum_value(name = "Sobel, gradient magnitude", nick = "sobel")]
    Sobel,
    #[enum_value(name = "Scharr, horizontal gradient", nick = "scharr-x")]
    ScharrX,
    #[enum_value(name = "Scharr, vertical gradient", nick = "scharr-y")]
    ScharrY,
    #[enum_value(name = "Scharr, gradient magnitude", nick = "scharr")]
    Scharr,
    #[enum_value(name = "Prewitt, horizontal gradient", nick = "prewitt-x")]
    PrewittX,
    #[enum_value(name = "Prewitt, vertical gradient", nick = "prewitt-y")]
    PrewittY,
    #[enum_value(name = "Prewitt, gradient magnitude", nick = "prewitt")]
    Prewitt,
    #[enum_value(name = "The coefficients of the property matrix", nick = "custom")]
    Custom,
    #[enum_value(name = "Bilateral: smooths and keeps edges", nick = "bilateral")]
    Bilateral,
}

impl Kernel {
    /// The name that the property `kernel` uses.
    pub fn nick(self) -> String {
        let class = glib::EnumClass::new::<Kernel>();
        let value = class.value(self as i32);
        value.map_or_else(|| format!("{self:?}"), |value| value.nick().to_string())
    }
}

/// Pixels beyond the edge of the picture.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, glib::Enum)]
#[repr(i32)]
#[enum_type(name = "GstCudaConvBorder")]
pub enum Border {
    #[default]
    #[enum_value(name = "The edge pixel again: aaa|abc", nick = "replicate")]
    Replicate,
    #[enum_value(name = "Mirrored with the edge pixel: cba|abc", nick = "reflect")]
    Reflect,
    #[enum_value(name = "Mirrored without the edge pixel: cb|abc", nick = "reflect101")]
    Reflect101,
    #[enum_value(name = "From the far side: bc|abc", nick = "wrap")]
    Wrap,
    #[enum_value(name = "The value of border-value", nick = "constant")]
    Constant,
}

/// Shape of the bilateral's window.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, glib::Enum)]
#[repr(i32)]
#[enum_type(name = "GstCudaConvWindow")]
pub enum Window {
    #[default]
    #[enum_value(name = "Offsets within radius luma pixels (OpenCV's)", nick = "circle")]
    Circle,
    #[enum_value(name = "The whole square", nick = "square")]
    Square,
}

/// Colour distance of RGB in the bilateral.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, glib::Enum)]
#[repr(i32)]
#[enum_type(name = "GstCudaConvDistance")]
pub enum Distance {
    #[default]
    #[enum_value(name = "Sum of absolute differences (OpenCV's)", nick = "l1")]
    L1,
    #[enum_value(name = "Euclidean distance", nick = "l2")]
    L2,
}

/// Which planes are filtered.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, glib::Enum)]
#[repr(i32)]
#[enum_type(name = "GstCudaConvPlanes")]
pub enum Planes {
    #[default]
    #[enum_value(
        name = "Every colour plane; for kernels that sum to zero luma alone, with neutral chroma",
        nick = "auto"
    )]
    Auto,
    #[enum_value(name = "Every plane", nick = "all")]
    All,
    #[enum_value(name = "Luma alone; chroma is copied", nick = "luma")]
    Luma,
}

/// What becomes of alpha channels.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, glib::Enum)]
#[repr(i32)]
#[enum_type(name = "GstCudaConvAlpha")]
pub enum Alpha {
    #[default]
    #[enum_value(name = "Passed untouched", nick = "copy")]
    Copy,
    #[enum_value(name = "Filtered like a colour", nick = "filter")]
    Filter,
    #[enum_value(
        name = "Colours multiplied by alpha, filtered with it, divided by the filtered alpha",
        nick = "premultiply"
    )]
    Premultiply,
}

/// How the filter is computed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, glib::Enum)]
#[repr(i32)]
#[enum_type(name = "GstCudaConvMethod")]
pub enum Method {
    #[default]
    #[enum_value(name = "The fastest way to the canonical result", nick = "auto")]
    Auto,
    #[enum_value(name = "Pixel by pixel, nothing shared", nick = "naive")]
    Naive,
    #[enum_value(name = "Shared-memory tile with halo (GPU)", nick = "tile")]
    Tile,
    #[enum_value(
        name = "Two one-dimensional passes, or the sum of up to four such",
        nick = "separable"
    )]
    Separable,
    #[enum_value(
        name = "Fourier transform, for large kernels; not taken by auto",
        nick = "fft"
    )]
    Fft,
    #[enum_value(
        name = "Bilateral by weighted levels, approximate: square window, grey and YUV",
        nick = "fast"
    )]
    Fast,
}

impl Method {
    /// The name that properties and `stats` use.
    pub fn nick(self) -> &'static str {
        match self {
            Method::Auto => "auto",
            Method::Naive => "naive",
            Method::Tile => "tile",
            Method::Separable => "separable",
            Method::Fft => "fft",
            Method::Fast => "fast",
        }
    }
}

/// The least that is asked of the arithmetic of the weights.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, glib::Enum)]
#[repr(i32)]
#[enum_type(name = "GstCudaConvPrecision")]
pub enum Precision {
    #[default]
    #[enum_value(name = "32-bit floating point", nick = "fp32")]
    Fp32,
    #[enum_value(
        name = "16-bit floating point where that is faster: 8-bit correlations, at most 1 code value off",
        nick = "fp16"
    )]
    Fp16,
}

impl Precision {
    /// The name that the property `precision` uses.
    pub fn nick(self) -> &'static str {
        match self {
            Precision::Fp32 => "fp32",
            Precision::Fp16 => "fp16",
        }
    }
}

/// Everything that says what is computed, as the properties hold it. Units, ranges and meanings
/// are those of the properties of the same names.
#[derive(Debug, Clone, PartialEq)]
pub struct FilterSpec {
    pub kernel: Kernel,
    /// Coefficients of `custom`; `None` while the property is empty.
    pub matrix: Option<Matrix>,
    pub divisor: f64,
    pub bias: f64,
    pub radius: u32,
    pub sigma: f64,
    pub amount: f64,
    pub sigma_space: f64,
    pub sigma_color: f64,
    pub window: Window,
    pub distance: Distance,
    pub border: Border,
    pub border_value: f64,
    pub planes: Planes,
    pub alpha: Alpha,
    pub method: Method,
    pub precision: Precision,
}

impl Default for FilterSpec {
    fn default() -> Self {
        FilterSpec {
            kernel: Kernel::default(),
            matrix: None,
            divisor: 0.0,
            bias: 0.0,
            radius: 0,
            sigma: 0.0,
            amount: 1.0,
            sigma_space: 5.0,
            sigma_color: 25.0,
            window: Window::default(),
            distance: Distance::default(),
            border: Border::default(),
            border_value: 0.0,
            planes: Planes::default(),
            alpha: Alpha::default(),
            method: Method::default(),
            precision: Precision::default(),
        }
    }
}
