//! `FilterSpec` + `Layout` -> `Plan`: what every engine has to compute, and the canonical
//! float32 evaluation that gives every engine the same bytes.
//!
//! # Canonical evaluation
//! With `in' = in - zero` (exact in float32) and pixels beyond the edge by the border rule, applied
//! again and again where the plane is smaller than the kernel (a single pixel is its own mirror
//! image):
//! - rank 1 (`Taps::Separable`): `t(x,y) = Σ_i h[i]·in'(x+i-rx, y)`, then
//!   `s(x,y) = Σ_j v[j]·t(x, y+j-ry)`; `t` stays float32. Rows beyond the edge are rows of `t`
//!   of the row the border rule names, for `constant` the row of `t` of a constant row.
//! - others (`Taps::Full`): `s = Σ_j Σ_i k[j][i]·in'(x+i-rx, y+j-ry)`, row by row.
//! - `method=separable` of others where they are of low rank (`Taps::Sum`): the sum of `s` of each outer
//!   product, in no fixed order; not canonical, see [Low rank](#low-rank).
//! - every sum starts at +0 and is a chain of fused multiply-adds in ascending index;
//!   coefficients of 0 take part.
//! - magnitude: `s = sqrt(fma(sy, sy, sx·sx))`.
//! - `out = clamp(round_half_even(s / divisor + offset))`, IEEE division, `offset` = zero + bias.
//! - alpha premultiplied: the channels filtered are `in'·a` (one float32 product) and `a`; with
//!   `f = s / divisor` of each, `out = f_colour / f_alpha + offset`, or `offset` where `f_alpha` is
//!   below [`TRANSPARENT`](super::kernels::TRANSPARENT), as it is wherever all alpha is 0.
//!   Beyond the edge the product is that of the two values there. The alpha channel itself is
//!   filtered as without premultiplication.
//!
//! Where all sums are whole numbers below 2^24 ([`Job::sums_are_whole`]) no order of additions and
//! no integer arithmetic changes `s`. The values in a plan are such that nothing above overflows
//! or is NaN.
//!
//! # Low rank
//! [`Terms::find`](super::terms::Terms::find) gives a full kernel as a sum of up to four outer products, for
//! `method=separable` alone, since such sums round otherwise than the canonical ones; whole numbers, which do not,
//! have ways of their own. It is done where
//! - all sums are whole numbers below 2^24: the bytes are the canonical ones; or
//! - what is left of the kernel, and the rounding of sums as large as the outer products can make them,
//!   come to no more than the share of pixels that may be rounded otherwise: 1 in 1,000, beyond 12 bits 1
//!   in 100. Of values that lie anywhere between two code values, a difference of d code values changes
//!   the share d. Colours that are premultiplied are left out: they are divided by alpha, which may be as
//!   small as what is left.
//!
//! # Bilateral
//! Differences are taken between values of `in'`, the centre's weight is 1, and
//! `out = clamp(round_half_even(c + Σ w·(in' - c) / Σ w + offset))`. In float32, in no fixed order:
//! - a channel of role colour: one weight from the differences of all colour channels of the group
//!   (L1: the square of their sum of magnitudes, L2: the sum of their squares);
//! - any other channel, alpha too: a weight of its own, from its own differences.
//! - alpha premultiplied: the differences of the colours are those of `p = in'·a`, with
//!   `color_premultiplied` for `color`, and `out = Σ w·p / Σ w·a + offset`, or `offset` where
//!   `Σ w·a / Σ w` is below `TRANSPARENT`; the sums have the centre in them, as differences from
//!   it would cancel where it is opaque and all else is not.
//!
//! # Decisions
//! - A filter that changes nothing (one coefficient, equal to the divisor; a bilateral with a sigma
//!   below 1e-6 or a window of one sample) is a copy of the bytes, also under premultiplication, and
//!   with a bias an addition. The bilateral has no divisor.
//! - `planes=auto` with coefficients that sum to zero filters luma and grey, and fills chroma with
//!   neutral; RGB has no chroma, and every colour is filtered under each value of `planes`.
//! - Coefficients of `custom` and the amount of `sharpen` are the decimal numbers that were written,
//!   where at most six places make them whole: 0.3 -0.2 0.7 by 0.8 is 3 -2 7 by 8, exactly.
//! - Coefficients that a power of two makes whole numbers of 24 bits become the smallest whole
//!   numbers of their ratios, with the divisor to match: 0.25 0.5 0.25 by 1 becomes 1 2 1 by 4, nine
//!   times 0.1 becomes a box by 9. Each vector of a separable kernel is scaled by itself.
//! - Beyond 8 bits a kernel whose coefficients sum to the divisor, and whose sums are not whole below
//!   2^24, measures `in'` from the middle of the code range: `zero` is `2^(depth - 1)`, and `offset`
//!   and `beyond` follow. Such a filter gives the same picture from any level, and float32 has few
//!   bits to spare there. Premultiplied colours keep their zero level.
//! - A divisor beyond 2^±64 of the sum of magnitudes is brought back to that: the result is 0 or
//!   the end of the code range either way.

use std::sync::Arc;

use super::kernels::Filter;
use super::layout::{Group, Layout, Role};
use super::method;
use super::precision;
use super::spec::{Alpha, Border, Distance, FilterSpec, Precision};
pub use super::terms::Term;

/// A way to compute a plan. `method=auto` takes the first that an engine lists and that can
/// compute the kernel; each other `method` names one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Algorithm {
    /// Pixel by pixel, every tap from memory: any kernel.
    Naive,
    /// Shared-memory tile with halo: any kernel.
    Tile,
    /// Two one-dimensional passes: kernels of rank 1 (and magnitudes of two such), and sums of few such.
    Separable,
    /// The engine's own vectorised way for the jobs that it [names](Abilities::direct); chosen by
    /// `auto` alone.
    Direct,
    /// By the [Fourier transform](super::fourier), not canonical: any linear kernel.
    Fft,
    /// The bilateral [by levels](super::levels), not canonical: square windows, channels with a
    /// weight of their own.
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
    /// Whether [`Algorithm::Direct`] can compute a job.
    pub direct: fn(&Layout, &Job) -> bool,
    /// What keeps [`Algorithm::Fft`] from computing a job with a linear kernel; `None` for others.
    pub fft: fn(&Layout, &Job) -> Option<&'static str>,
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
    /// The sum of up to [`MOST_TERMS`](super::terms::MOST_TERMS) outer products, all of one size as in
    /// `Separable`.
    Sum(Vec<Term>),
}

/// The bilateral on one grid:
/// `out = c + Σ w·(in - c) / Σ w`, `w = exp2(space(dx,dy) + color·distance²)`.
#[derive(Debug, Clone, PartialEq)]
pub struct Bilateral {
    /// The largest `|dx|` and `|dy|` of the window, in samples of this grid.
    pub radius_x: usize,
    pub radius_y: usize,
    /// `(dx, dy, exponent)` of every offset in the window but (0,0), row by row; exponent =
    /// `-(dx²/(2·sx²) + dy²/(2·sy²))·log2(e)`.
    pub taps: Vec<(i32, i32, f32)>,
    /// `-log2(e) / (2·sigma²)`, per squared code value.
    pub color: f32,
    /// The same for products of code value and alpha: `color / max_code²`.
    pub color_premultiplied: f32,
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
        /// Subtracted from the input's code values: the zero level, or another that gives the same
        /// picture in float32's better half.
        zero: f32,
        /// Added at the end: `zero` + bias.
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
    /// The `Filter` channels other than alpha are multiplied by the alpha channel of the group,
    /// filtered with it and divided.
    pub premultiply: bool,
}

/// The work of one frame.
#[derive(Debug, Clone, PartialEq)]
pub struct Plan {
    pub layout: Arc<Layout>,
    pub jobs: Vec<Job>,
    pub algorithm: Algorithm,
    /// The least that is asked of the arithmetic of the weights.
    pub precision: Precision,
}

/// Why these settings cannot be used with this format and engine; sentences for users.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PlanError {
    #[error("kernel=custom needs the property matrix, for example matrix=\"0 1 0; 1 4 1; 0 1 0\"")]
    NoMatrix,
    #[error("{property}={value} is not possible; accepted are {accepted}")]
    Value {
        property: &'static str,
        value: String,
        accepted: &'static str,
    },
    #[error(
        "method={method} cannot compute kernel={kernel} on the {engine}{}; possible are {possible}",
        .reason.as_ref().map_or_else(String::new, |reason| format!(": {reason}"))
    )]
    Method {
        method: &'static str,
        /// And what it is of the other settings that `method` cannot do.
        kernel: String,
        engine: &'static str,
        /// What `method` is for, or takes.
        reason: Option<String>,
        /// Methods that can, separated by commas.
        possible: String,
    },
    #[error(
        "precision={precision} is not possible with {obstacle}: it is for correlations of 8-bit samples \
         by method=auto or method=separable; use precision=fp32"
    )]
    Precision {
        precision: &'static str,
        /// The setting that it does not go with.
        obstacle: String,
    },
    #[error(
        "alpha=premultiply needs an alpha sample for every colour sample, which {format} does not \
         have; use alpha=copy or alpha=filter, or another format, such as AYUV or RGBA"
    )]
    Premultiply { format: &'static str },
}

impl Correlation {
    /// Whether every sum and every part of it is a whole number below 2^24, for whole inputs
    /// `in'` of at most `largest_input`: float32 then holds them exactly, whatever the order.
    pub fn sums_are_whole(&self, largest_input: f32) -> bool {
        self.taps.are_whole()
            && self.taps.sum_of_magnitudes() * f64::from(largest_input) < 16_777_216.0
    }
}

impl Taps {
    /// Samples beyond the centre, horizontally and vertically.
    pub fn radius(&self) -> (usize, usize) {
        match self {
            Taps::Separable {
                horizontal,
                vertical,
            } => (horizontal.len() / 2, vertical.len() / 2),
            Taps::Full { width, height, .. } => (width / 2, height / 2),
            Taps::Sum(terms) => (terms[0].horizontal.len() / 2, terms[0].vertical.len() / 2),
        }
    }

    /// The horizontal and the vertical coefficients, of what is one outer product.
    pub fn lines(&self) -> Option<(&[f32], &[f32])> {
        match self {
            Taps::Separable {
                horizontal,
                vertical,
            } => Some((horizontal, vertical)),
            Taps::Full { .. } | Taps::Sum(_) => None,
        }
    }

    /// The coefficients as they are stored.
    fn iter(&self) -> impl Iterator<Item = f32> + '_ {
        let lines: Vec<&[f32]> = match self {
            Taps::Separable {
                horizontal,
                vertical,
            } => vec![horizontal, vertical],
            Taps::Full { weights, .. } => vec![weights],
            Taps::Sum(terms) => (terms.iter())
                .flat_map(|term| [&term.horizontal[..], &term.vertical])
                .collect(),
        };
        lines.into_iter().flatten().copied()
    }

    /// `Σ K` of the kernel.
    pub fn sum(&self) -> f64 {
        let sum = |weights: &[f32]| -> f64 { weights.iter().map(|&k| f64::from(k)).sum() };
        match self {
            Taps::Separable {
                horizontal,
                vertical,
            } => sum(horizontal) * sum(vertical),
            Taps::Full { weights, .. } => sum(weights),
            Taps::Sum(terms) => terms.iter().map(Term::sum).sum(),
        }
    }

    /// Whether all coefficients are whole numbers.
    pub fn are_whole(&self) -> bool {
        self.iter().all(|k| k.fract() == 0.0)
    }

    /// `Σ |K|` of the kernel, or of all whose sum it is.
    pub fn sum_of_magnitudes(&self) -> f64 {
        let sum = |weights: &[f32]| -> f64 { weights.iter().map(|k| f64::from(k.abs())).sum() };
        match self {
            Taps::Separable {
                horizontal,
                vertical,
            } => sum(horizontal) * sum(vertical),
            Taps::Full { weights, .. } => sum(weights),
            Taps::Sum(terms) => terms.iter().map(Term::sum_of_magnitudes).sum(),
        }
    }
}

impl Job {
    /// The largest magnitude that enters the sums (`in'`, or its product with alpha) for code
    /// values up to `max_code`; `None` if the inputs are not all whole numbers.
    pub fn largest_input(&self, max_code: u32) -> Option<f32> {
        let max = max_code as f32;
        let mut largest = 0.0f32;
        for action in &self.actions {
            let Action::Filter { zero, beyond, .. } = *action else {
                continue;
            };
            largest = largest.max(zero).max(max - zero);
            if self.border == Border::Constant {
                if beyond.fract() != 0.0 {
                    return None;
                }
                largest = largest.max(beyond.abs());
            }
        }
        Some(if self.premultiply {
            largest * max
        } else {
            largest
        })
    }

    /// Whether every sum of the operation's correlations, in any order, is a whole number below
    /// 2^24, so that integer arithmetic gives the same `s`. Never so for the bilateral.
    pub fn sums_are_whole(&self, max_code: u32) -> bool {
        let Some(largest) = self.largest_input(max_code) else {
            return false;
        };
        match &self.operation {
            Operation::Correlate(kernel) => kernel.sums_are_whole(largest),
            Operation::Magnitude { x, y } => x.sums_are_whole(largest) && y.sums_are_whole(largest),
            Operation::None | Operation::Bilateral(_) => false,
        }
    }
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
        check_values(spec)?;
        let jobs: Vec<Job> = layout
            .groups
            .iter()
            .map(|group| Job::new(spec, layout, group).ok_or(PlanError::NoMatrix))
            .collect::<Result<_, _>>()?;
        check_alpha(spec, layout, &jobs)?;
        precision::check(spec, layout, &jobs)?;
        Ok(Plan {
            algorithm: method::choose(spec, layout, &jobs, abilities)?,
            precision: spec.precision,
            layout: layout.clone(),
            jobs,
        })
    }

    /// Whether every channel is copied.
    pub fn is_copy(&self) -> bool {
        let mut actions = self.jobs.iter().flat_map(|job| &job.actions);
        actions.all(|action| *action == Action::Copy)
    }
}

/// The ranges of the properties, for callers that set them past GObject.
fn check_values(spec: &FilterSpec) -> Result<(), PlanError> {
    let limited = [
        ("radius", f64::from(spec.radius), 32.0, "0 to 32"),
        ("sigma", spec.sigma, 100.0, "0 to 100"),
        ("amount", spec.amount, 10.0, "0 to 10"),
        ("sigma-space", spec.sigma_space, 100.0, "0 to 100"),
        ("sigma-color", spec.sigma_color, 255.0, "0 to 255"),
        ("border-value", spec.border_value, 255.0, "0 to 255"),
    ];
    for (property, value, most, accepted) in limited {
        if !(0.0..=most).contains(&value) {
            return Err(PlanError::Value {
                property,
                value: value.to_string(),
                accepted,
            });
        }
    }
    for (property, value) in [("divisor", spec.divisor), ("bias", spec.bias)] {
        if !value.is_finite() {
            return Err(PlanError::Value {
                property,
                value: value.to_string(),
                accepted: "finite numbers",
            });
        }
    }
    Ok(())
}

/// Premultiplication needs the alpha channel on the grid of every filtered colour.
fn check_alpha(spec: &FilterSpec, layout: &Layout, jobs: &[Job]) -> Result<(), PlanError> {
    let has_alpha = |job: &Job| job.group.channels.iter().any(|c| c.role == Role::Alpha);
    let without = |job: &Job| {
        let filter = Filter::new(spec, job.group.subsampling);
        let copy = filter.is_none_or(|filter| filter.is_copy());
        !has_alpha(job) && job.operation != Operation::None && !copy
    };
    if spec.alpha == Alpha::Premultiply && jobs.iter().any(has_alpha) && jobs.iter().any(without) {
        return Err(PlanError::Premultiply {
            format: layout.format,
        });
    }
    Ok(())
}

#[cfg(test)]
mod finite;
#[cfg(test)]
mod tests;
