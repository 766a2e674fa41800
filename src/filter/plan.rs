//! `FilterSpec` + `Layout` -> `Plan`: what every engine has to compute, and the canonical
//! float32 evaluation that gives every engine the same bytes.
//!
//! # Canonical evaluation
//! With `in' = in - zero` (exact in float32) and pixels beyond the edge by the border rule:
//! - rank 1 (`Taps::Separable`): `t(x,y) = Σ_i h[i]·in'(x+i-rx, y)`, then
//!   `s(x,y) = Σ_j v[j]·t(x, y+j-ry)`; `t` stays float32. Rows beyond the edge are rows of `t`
//!   of the row the border rule names, for `constant` the row of `t` of a constant row.
//! - others (`Taps::Full`): `s = Σ_j Σ_i k[j][i]·in'(x+i-rx, y+j-ry)`, row by row.
//! - every sum starts at +0 and is a chain of fused multiply-adds in ascending index;
//!   coefficients of 0 take part.
//! - magnitude: `s = sqrt(fma(sy, sy, sx·sx))`.
//! - `out = clamp(round_half_even(s / divisor + offset))`, IEEE division, `offset` = zero + bias.
//! - alpha premultiplied: the channels filtered are `in'·a` (one float32 product) and `a`; with
//!   `f = s / divisor` of each, `out = f_colour / f_alpha + offset`, or `offset` where `f_alpha <= 0`.

use std::sync::Arc;

use super::layout::{Group, Layout};
use super::spec::{Border, Distance, FilterSpec, Precision};

/// A way to compute a plan. `method=auto` takes the first that an engine lists and that can
/// compute the kernel; each other `method` names one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Algorithm {
    /// Pixel by pixel, every tap from memory: any kernel.
    Naive,
    /// Shared-memory tile with halo: any kernel.
    Tile,
    /// Two one-dimensional passes: kernels of rank 1 (and magnitudes of two such).
    Separable,
    /// The engine's own vectorised way for any kernel; chosen by `auto` alone.
    Direct,
    Fft,
    Fast,
}

impl Algorithm {
    /// The name that `stats` uses.
    pub fn nick(self) -> &'static str {
        match self {
            Algorithm::Naive => "naive",
            Algorithm::Tile => "tile",
            Algorithm::Separable => "separable",
            Algorithm::Direct => "direct",
            Algorithm::Fft => "fft",
            Algorithm::Fast => "fast",
        }
    }
}

/// What an engine can do, for [`Plan::new`].
#[derive(Debug, Clone, Copy)]
pub struct Abilities {
    /// For messages: `CPU` or `GPU`.
    pub engine: &'static str,
    /// In order of preference.
    pub algorithms: &'static [Algorithm],
    pub precisions: &'static [Precision],
}

/// A linear kernel in float32 with its divisor.
#[derive(Debug, Clone, PartialEq)]
pub struct Correlation {
    pub taps: Taps,
    /// Never 0.
    pub divisor: f32,
}

#[derive(Debug, Clone, PartialEq)]
pub enum Taps {
    /// Rank 1: odd lengths 1 to 65 each.
    Separable {
        horizontal: Vec<f32>,
        vertical: Vec<f32>,
    },
    /// Row-major, both sides odd.
    Full {
        width: usize,
        height: usize,
        weights: Vec<f32>,
    },
}

/// The bilateral on one grid:
/// `out = c + Σ w·(in - c) / Σ w`, `w = exp2(space(dx,dy) + color·distance²)`.
#[derive(Debug, Clone, PartialEq)]
pub struct Bilateral {
    /// Window radius in samples of this grid.
    pub radius_x: usize,
    pub radius_y: usize,
    /// `(dx, dy, exponent)` of every offset in the window but (0,0), row by row; exponent =
    /// `-(dx²/(2·sx²) + dy²/(2·sy²))·log2(e)`.
    pub taps: Vec<(i32, i32, f32)>,
    /// `-log2(e) / (2·sigma²)`, per squared code value.
    pub color: f32,
    pub distance: Distance,
}

/// What is computed on the filtered channels of a job.
#[derive(Debug, Clone, PartialEq)]
pub enum Operation {
    /// Nothing is filtered: actions are copies and fills.
    None,
    Correlate(Correlation),
    /// Gradient magnitude of two kernels of the same divisor.
    Magnitude {
        x: Correlation,
        y: Correlation,
    },
    /// One joint weight over all `Filter` channels of role colour in the group; a group of luma
    /// or chroma channels is filtered channel by channel.
    Bilateral(Bilateral),
}

/// What becomes of one channel.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Action {
    Copy,
    /// Every sample gets this code value.
    Fill(u32),
    Filter {
        /// Subtracted from the input's code values.
        zero: f32,
        /// Added at the end: zero + bias.
        offset: f32,
        /// Value of `in'` beyond the edge under `Border::Constant`.
        beyond: f32,
    },
}

/// One group of channels and what is done with it.
#[derive(Debug, Clone, PartialEq)]
pub struct Job {
    pub group: Group,
    /// One a channel of the group.
    pub actions: Vec<Action>,
    pub operation: Operation,
    pub border: Border,
    /// The colours are multiplied by the alpha channel, filtered with it and divided.
    pub premultiply: bool,
}

/// The work of one frame.
#[derive(Debug, Clone, PartialEq)]
pub struct Plan {
    pub layout: Arc<Layout>,
    pub jobs: Vec<Job>,
    pub algorithm: Algorithm,
    pub precision: Precision,
}

/// Why these settings cannot be used with this format and engine; sentences for users.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PlanError {
    #[error("kernel=custom needs the property matrix, for example matrix=\"0 1 0; 1 4 1; 0 1 0\"")]
    NoMatrix,
}

impl Plan {
    /// Makes the plan of `spec` for `layout` on an engine with `abilities`.
    ///
    /// # Errors
    /// When the settings contradict each other, or the engine cannot do what `method` or
    /// `precision` ask for; the sentence names what can.
    pub fn new(
        spec: &FilterSpec,
        layout: &Arc<Layout>,
        abilities: &Abilities,
    ) -> Result<Plan, PlanError> {
        let _ = (spec, layout, abilities);
        Err(PlanError::NoMatrix)
    }
}
