//! The GStreamer face: pads, events, caps and buffers. Knows no CUDA and no arithmetic.
//!
//! # What the element computes
//! For every sample of a filtered plane, in code values of a depth of d bits:
//!
//! `out(x,y) = clamp(round(zero + bias·2^(d-8) + (1/divisor)·Σ K(i,j)·(in(x+i, y+j) - zero)))`
//!
//! a correlation (the matrix is not flipped), with i and j counted from the middle of the matrix,
//! halves rounded to even, and results clamped to `0 … 2^d - 1`. `bias` applies to luma, grey and
//! RGB. `divisor=0` is `Σ K`, or 1 where `|Σ K|` is below `1e-6·Σ |K|`.
//!
//! - zero: 0 for RGB, alpha and full-range luma, `16·2^(d-8)` for limited-range luma, `128·2^(d-8)`
//!   for chroma.
//! - beyond the edge `abc` goes on as `aaa|abc` (replicate), `cba|abc` (reflect), `cb|abc`
//!   (reflect101), `bc|abc` (wrap, from the far side), or as `zero + border-value·2^(d-8)` for luma,
//!   grey and RGB, neutral for chroma, opaque for alpha (constant).
//! - `box`: 1 in a square of `2·radius + 1`. `gauss3 5 7 9`: the products of `[1 2 1]`,
//!   `[1 4 6 4 1]`, `[2 7 14 18 14 7 2]`, `[4 13 30 51 60 51 30 13 4]` by themselves. `gauss`:
//!   `exp(-i²/(2·sigma²))` per axis, `sigma = 0.3·(radius - 1) + 0.8` where it is 0, and `radius =
//!   ceil(3·sigma)` where that is.
//! - `sharpen`: identity - amount·laplacian. `unsharp`: in + amount·(in - gauss). `emboss`:
//!   `[-2 -1 0; -1 1 1; 0 1 2]`. `laplacian`: `[0 1 0; 1 -4 1; 0 1 0]`.
//! - `sobel-x`, `scharr-x`, `prewitt-x`: `[1 2 1]`, `[3 10 3]`, `[1 1 1]` down, `[-1 0 1]` across; -y
//!   the transposed; without a letter `zero + bias·2^(d-8) + sqrt(gx² + gy²)/divisor`.
//! - `bilateral`: `Σ w·in / Σ w` over the window, `w = exp(-(i²+j²)/(2·sigma-space²)) ·
//!   exp(-c²/(2·(sigma-color·2^(d-8))²))`, c the difference to the middle: of the component in YUV and
//!   grey, of the three colours together in RGB, `|ΔR|+|ΔG|+|ΔB|` (l1) or `sqrt(ΔR²+ΔG²+ΔB²)` (l2).
//!   A window of `circle` has the offsets with `i²+j² ≤ radius²`. On subsampled planes i and j count
//!   in luma pixels. A sigma of 0 is a copy.
//! - `bilateral` with `method=fast`, approximately the same for square windows and a component's own
//!   weight: with levels `L_k` about one sigma s = sigma-color·2^(d-8) apart, `g(c) = exp(-c²/s²)`,
//!   `h` the spatial weight and `c_k = g(in(x,y) - L_k)` or 0 beyond 2.5·s, `out = Σ_k c_k·Σ h·g(in - L_k)·in /
//!   Σ_k c_k·Σ h·g(in - L_k)`. After Durand and Dorsey 2002, Paris and Durand 2006, Yang, Tan and Ahuja 2009;
//!   [`crate::filter::levels`] says how it differs.
//! - `method=fft`: the same correlations by Fourier transforms of overlapping rectangles, within one code value;
//!   [`crate::filter::fourier`] says how exactly. `auto` never takes it.
//! - `alpha=premultiply`: with a the alpha and F the filter without zero and bias, `zero + bias·2^(d-8)
//!   + F((in - zero)·a) / F(a)`, or `zero + bias·2^(d-8)` where `F(a)` is 0.
//! - interlaced frames: the formula for each field by itself.
//! - properties that do not stand in a kernel's formula, and those for channels that a format does not have, make no
//!   difference; [`crate::filter::effect`] says which, and the element names them when a stream starts.
//!
//! Sums are float32, in a fixed order of fused multiply-adds that [`crate::filter::plan`] defines; with
//! `method=auto` every engine gives the same bytes, but for the bilateral.
//!
//! `precision=fp16` allows weights rounded to 16-bit floating point for correlations of 8-bit samples, whose
//! results are then at most one code value off. The bilateral, gradient magnitudes, deeper samples and methods
//! other than `auto` and `separable` refuse it; where there is no faster way, as on the CPU, the result
//! is that of fp32. [`crate::filter::precision`] says what is told of it.

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
mod timeline;

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
