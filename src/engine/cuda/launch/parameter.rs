//! The structures that kernels take, of a plan's operations.

use std::borrow::Cow;

use crate::engine::cuda::abi::band::Samples;
use crate::engine::cuda::abi::halves::Matrices;
use crate::engine::cuda::abi::products::Reach;
use crate::engine::cuda::abi::split::Split;
use crate::engine::cuda::abi::{self, Form, Kernel, slabs};
use crate::engine::cuda::choose;
use crate::filter::fourier;
use crate::filter::levels::Levels;
use crate::filter::plan::{Bilateral, Correlation, Job, Operation, Taps};
use crate::filter::spec::Distance;

/// What a launch hands to its kernel.
pub enum Parameter {
    Convolve(Box<abi::ConvolveLaunch>),
    Bilateral(Box<abi::BilateralLaunch>),
    Fast(Box<abi::FastLaunch>),
}

impl Clone for Parameter {
    fn clone(&self) -> Self {
        match self {
            Parameter::Convolve(launch) => Parameter::Convolve(launch.clone()),
            Parameter::Bilateral(launch) => Parameter::Bilateral(launch.clone()),
            Parameter::Fast(launch) => Parameter::Fast(launch.clone()),
        }
    }
}

impl Parameter {
    pub fn frame(&mut self) -> &mut abi::Frame {
        match self {
            Parameter::Convolve(launch) => &mut launch.frame,
            Parameter::Bilateral(launch) => &mut launch.frame,
            Parameter::Fast(launch) => &mut launch.frame,
        }
    }

    /// Says where in device memory the weights are.
    pub fn set_weights(&mut self, address: u64) {
        match self {
            Parameter::Convolve(launch) => launch.weights = address,
            Parameter::Bilateral(launch) => launch.weights = address,
            // They are all in the launch.
            Parameter::Fast(_) => (),
        }
    }

    pub fn address(&self) -> *const std::ffi::c_void {
        match self {
            Parameter::Convolve(launch) => (&raw const **launch).cast(),
            Parameter::Bilateral(launch) => (&raw const **launch).cast(),
            Parameter::Fast(launch) => (&raw const **launch).cast(),
        }
    }
}

/// `count` weights, `line` in the middle of them.
fn filled_up(line: &[f32], count: usize) -> Vec<f32> {
    let mut filled = vec![0.0; count];
    filled[(count - line.len()) / 2..][..line.len()].copy_from_slice(line);
    filled
}

/// `taps` in the form that a kernel takes. What is separable becomes full by products, which are exact
/// for whole numbers.
fn formed(taps: &Taps, form: Form) -> Cow<'_, Taps> {
    let (side, separable) = match form {
        Form::Any => return Cow::Borrowed(taps),
        Form::Full(side) => (side, false),
        Form::Scaled(side) => (side, true),
    };
    Cow::Owned(match taps {
        Taps::Separable {
            horizontal,
            vertical,
        } if separable => Taps::Separable {
            horizontal: filled_up(horizontal, side),
            vertical: filled_up(vertical, side),
        },
        Taps::Separable {
            horizontal,
            vertical,
        } => {
            let line = filled_up(horizontal, side);
            let lines = filled_up(vertical, side);
            let weights = lines.iter().flat_map(|v| line.iter().map(move |h| v * h));
            Taps::Full {
                width: side,
                height: side,
                weights: weights.collect(),
            }
        }
        // Kernels of one form are chosen for one outer product, or none.
        Taps::Sum(_) => return Cow::Borrowed(taps),
        Taps::Full {
            width,
            height,
            weights,
        } => {
            let mut all = vec![0.0; side * side];
            let above = (side - height) / 2;
            let lines = weights.chunks_exact(*width);
            for (line, to) in lines.zip(all.chunks_exact_mut(side).skip(above)) {
                to.copy_from_slice(&filled_up(line, side));
            }
            Taps::Full {
                width: side,
                height: side,
                weights: all,
            }
        }
    })
}

/// What several linear kernels of a launch are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kernels {
    /// Jobs are filtered by one of them, and divided by the same.
    OfJobs,
    /// Both gradients of a magnitude.
    OfMagnitude,
}

/// The parameter of one or two linear kernels, with their weights in `form`.
pub fn convolve_parameter(
    kernels: &[&Correlation],
    are: Kernels,
    form: Form,
) -> (Parameter, Vec<f32>) {
    let divisor = kernels[0].divisor;
    let mut launch = Box::new(abi::ConvolveLaunch {
        kernel_count: match are {
            Kernels::OfJobs => 1,
            Kernels::OfMagnitude => 2,
        },
        divisor,
        reciprocal: 1.0 / divisor,
        sum: kernels[0].taps.sum() as f32,
        ..abi::ConvolveLaunch::default()
    });
    // A magnitude is divided as a whole.
    let in_weights = match are {
        Kernels::OfJobs => slabs::folded(divisor),
        Kernels::OfMagnitude => 1.0,
    };
    let mut weights = Vec::new();
    for (kernel, described) in kernels.iter().zip(&mut launch.kernels) {
        let first = weights.len() as u32;
        let (width, height, separable) = match &*formed(&kernel.taps, form) {
            Taps::Separable {
                horizontal,
                vertical,
            } => {
                match form {
                    Form::Scaled(_) => {
                        let (across, down) = slabs::scaled(horizontal, vertical, in_weights);
                        abi::push_line(&mut weights, &across);
                        abi::push_line(&mut weights, &down);
                    }
                    Form::Any | Form::Full(_) => {
                        abi::push_line(&mut weights, horizontal);
                        abi::push_line(&mut weights, vertical);
                    }
                }
                (horizontal.len(), vertical.len(), 1)
            }
            Taps::Full {
                width,
                height,
                weights: full,
            } => {
                for line in full.chunks_exact(*width) {
                    abi::push_line(&mut weights, line);
                }
                (*width, *height, 0)
            }
            Taps::Sum(terms) => {
                for term in terms {
                    abi::push_line(&mut weights, &term.horizontal);
                    abi::push_line(&mut weights, &term.vertical);
                }
                let (rx, ry) = kernel.taps.radius();
                (2 * rx + 1, 2 * ry + 1, terms.len() as u32)
            }
        };
        *described = abi::Taps {
            width: width as u32,
            height: height as u32,
            separable,
            first,
        };
    }
    copy_inline(&mut launch.inline_weights, &weights);
    (Parameter::Convolve(launch), weights)
}

/// Says in `parameter`, which is of luma of packed 4:2:2 for a kernel of `form` that goes down slabs, what chroma is
/// filtered by: separable weights, those down and the divisor the same.
pub fn add_chroma(parameter: &mut Parameter, form: Form, chroma: &Operation) {
    let (Parameter::Convolve(launch), Form::Scaled(side)) = (parameter, form) else {
        return;
    };
    let Operation::Correlate(Correlation { taps, divisor }) = chroma else {
        return;
    };
    let Some((across, down)) = taps.lines() else {
        return;
    };
    let across = filled_up(across, slabs::chroma_taps(side));
    let down = filled_up(down, side);
    let (scaled_across, scaled_down) = slabs::scaled(&across, &down, slabs::folded(*divisor));
    let mut weights = Vec::new();
    abi::push_line(&mut weights, &scaled_across);
    abi::push_line(&mut weights, &scaled_down);
    launch.kernels[1] = abi::Taps {
        width: across.len() as u32,
        height: down.len() as u32,
        separable: 1,
        first: slabs::CHROMA_WEIGHTS as u32,
    };
    launch.inline_weights[slabs::CHROMA_WEIGHTS..][..weights.len()].copy_from_slice(&weights);
}

/// The weights of a separable correlation, rounded to float16, as a kernel that reaches as far as `reach` takes them;
/// nothing of other operations.
pub fn halves(operation: &Operation, reach: Reach) -> Vec<u32> {
    match operation {
        Operation::Correlate(Correlation { taps, divisor }) => (taps.lines())
            .map(|(across, down)| Matrices::new(across, down, *divisor).table(reach))
            .unwrap_or_default(),
        _ => Vec::new(),
    }
}

/// The weights of a separable correlation, taken apart, as a kernel that reaches as far as `reach` takes them; `None` of
/// other operations, and where they cannot be.
pub fn split(operation: &Operation, reach: Reach) -> Option<Vec<u32>> {
    let Operation::Correlate(Correlation { taps, divisor }) = operation else {
        return None;
    };
    let (across, down) = taps.lines()?;
    Some(Split::new(across, down, *divisor)?.table(reach))
}

/// The weights of a separable correlation as the matrix units take them; nothing of other operations.
pub fn matrices(operation: &Operation) -> Vec<u32> {
    match operation {
        Operation::Correlate(Correlation { taps, .. }) => (taps.lines())
            .map(|(across, down)| abi::matrix::table(across, down))
            .unwrap_or_default(),
        _ => Vec::new(),
    }
}

/// The digits of the weights of `operation`, on `samples`, as the matrix units take them for `kernel`, which was chosen
/// for it. Says in `parameter` what they mean.
///
/// # Errors
/// Where the kernel has no digits for such weights.
pub fn add_digits(
    parameter: &mut Parameter,
    kernel: Kernel,
    operation: &Operation,
    samples: Samples,
) -> Result<Vec<u32>, String> {
    let (Parameter::Convolve(launch), Operation::Correlate(correlation)) = (parameter, operation)
    else {
        return Ok(Vec::new());
    };
    let bands = choose::bands(kernel, correlation, samples);
    let bands = bands.ok_or_else(|| format!("{} has no such weights", kernel.name()))?;
    launch.digits = bands.digits as u32;
    launch.sum_of_digits = bands.sum();
    launch.factor = bands.factor;
    launch.tolerance = bands.tolerance;
    Ok(bands.table(launch.kernels[0].width as usize))
}

/// The spectrum of the kernel of `job`, with code values up to `max_code`, as the kernel that transforms takes it.
pub fn spectrum(job: &Job, max_code: u32) -> Vec<u32> {
    let (columns, rows) = (abi::fourier::COLUMNS, abi::fourier::SIDE);
    let values = fourier::spectrum(&job.operation, columns, rows);
    let parts: Vec<[f64; 2]> = values.iter().map(|value| [value.re, value.im]).collect();
    abi::fourier::table(&parts, job.sums_are_whole(max_code))
}

/// The parameter of a bilateral and its weights: the exponents of a quarter of the window.
pub fn bilateral_parameter(bilateral: &Bilateral) -> (Box<abi::BilateralLaunch>, Vec<f32>) {
    let (rx, ry) = (bilateral.radius_x, bilateral.radius_y);
    let mut weights = vec![f32::NEG_INFINITY; (rx + 1) * (ry + 1)];
    let mut launch = Box::new(abi::BilateralLaunch {
        radius_x: rx as u32,
        radius_y: ry as u32,
        distance: match bilateral.distance {
            Distance::L1 => abi::distance::L1,
            Distance::L2 => abi::distance::L2,
        },
        color: bilateral.color,
        color_premultiplied: bilateral.color_premultiplied,
        color_root: (-bilateral.color).sqrt(),
        ..abi::BilateralLaunch::default()
    });
    weights[0] = 0.0;
    for &(dx, dy, exponent) in &bilateral.taps {
        let (dx, dy) = (dx.unsigned_abs() as usize, dy.unsigned_abs() as usize);
        weights[dy * (rx + 1) + dx] = exponent;
        launch.spans[dy] = launch.spans[dy].max(dx as u8);
        launch.columns[dx] = launch.columns[dx].max(dy as u8);
    }
    copy_inline(&mut launch.inline_weights, &weights);
    (launch, weights)
}

/// Puts the weights in the launch of a bilateral, all of which are there, by columns.
pub fn put_by_columns(parameter: &mut Parameter) {
    if let Parameter::Bilateral(launch) = parameter {
        let radius = (launch.radius_x as usize, launch.radius_y as usize);
        let columns = abi::columns::from_rows(&launch.inline_weights, radius);
        copy_inline(&mut launch.inline_weights, &columns);
    }
}

/// The parameter of a bilateral by levels.
pub fn fast_parameter(bilateral: &Bilateral, max_code: u32) -> Parameter {
    let levels = Levels::new(bilateral, max_code);
    let scale = (-levels.exponent).sqrt();
    let mut launch = Box::new(abi::FastLaunch {
        count: levels.count as u32,
        first: levels.first,
        spacing: levels.spacing,
        reach: levels.reach * scale,
        scale,
        ..abi::FastLaunch::default()
    });
    launch.set_weights(&levels.horizontal, &levels.vertical);
    Parameter::Fast(launch)
}

/// Weights travel in the launch if they all fit.
fn copy_inline(inline: &mut [f32], weights: &[f32]) {
    if let Some(place) = inline.get_mut(..weights.len()) {
        place.copy_from_slice(weights);
    }
}

/// The kernels take a quarter of the window, whose rows are runs: the other three must mirror it.
pub fn check_window(bilateral: &Bilateral) -> Result<(), String> {
    let (launch, weights) = bilateral_parameter(bilateral);
    let in_runs: usize = (0..=bilateral.radius_y)
        .map(|dy| {
            let row = 2 * usize::from(launch.spans[dy]) + 1;
            if dy == 0 { row } else { 2 * row }
        })
        .sum();
    let mirrored = (bilateral.taps.iter()).all(|&(dx, dy, exponent)| {
        let at = dy.unsigned_abs() as usize * (bilateral.radius_x + 1) + dx.unsigned_abs() as usize;
        weights[at] == exponent
    });
    if in_runs == bilateral.taps.len() + 1 && mirrored {
        Ok(())
    } else {
        Err("a window of the bilateral that is not symmetric, or has holes".into())
    }
}
