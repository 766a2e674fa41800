//! The scalar path: the canonical evaluation of [`crate::filter::plan`], word for word, one
//! sample at a time with every tap read from the frame. Any plan; the measure of the fast paths.

use super::band::Band;
use super::planes::{Field, InputPlanes, border_position};
use crate::filter::kernels::TRANSPARENT;
use crate::filter::layout::{Channel, Role, Sample};
use crate::filter::plan::{Action, Bilateral, Correlation, Job, Operation, Plan, Taps};
use crate::filter::spec::Distance;

/// One filtered channel of a field.
struct Source<'a> {
    planes: &'a InputPlanes<'a>,
    sample: Sample,
    job: &'a Job,
    field: Field,
    channel: Channel,
    zero: f32,
    beyond: f32,
}

impl Source<'_> {
    /// `in'(x, y)`, with pixels beyond the edge by the border rule.
    fn at(&self, x: isize, y: isize) -> f32 {
        let border = self.job.border;
        let (Some(x), Some(y)) = (
            border_position(border, x, self.job.group.width),
            border_position(border, y, self.field.height),
        ) else {
            return self.beyond;
        };
        let row = self.planes.row(self.channel.plane, self.field.row(y));
        let bytes = &row[self.channel.offset + x * self.channel.step..];
        self.sample.read(bytes) as f32 - self.zero
    }
}

/// Computes a band of every channel of `job`.
pub fn filter(plan: &Plan, job: &Job, band: &mut Band) {
    let sources: Vec<Option<Source>> = (job.group.channels.iter().zip(&job.actions))
        .map(|(&channel, &action)| match action {
            Action::Filter { zero, beyond, .. } => Some(Source {
                planes: band.input(),
                sample: plan.layout.sample,
                job,
                field: band.field(),
                channel,
                zero,
                beyond,
            }),
            Action::Copy | Action::Fill(_) => None,
        })
        .collect();
    for y in band.rows() {
        for index in 0..sources.len() {
            channel_row(plan, job, &sources, index, band, y);
        }
    }
}

/// Computes row `y` of one channel.
fn channel_row(
    plan: &Plan,
    job: &Job,
    sources: &[Option<Source>],
    index: usize,
    band: &mut Band,
    y: usize,
) {
    let sample = plan.layout.sample;
    let max = plan.layout.max_code() as f32;
    let channel = job.group.channels[index];
    let (input, output) = band.row(channel.plane, y);
    for x in 0..job.group.width {
        let at = channel.offset + x * channel.step;
        let at = at..at + sample.bytes();
        match job.actions[index] {
            Action::Copy => output[at.clone()].copy_from_slice(&input[at]),
            Action::Fill(code) => sample.write(&mut output[at], code),
            Action::Filter { offset, .. } => {
                let value = filtered(job, sources, index, x as isize, y as isize) + offset;
                let code = value.round_ties_even().clamp(0.0, max);
                sample.write(&mut output[at], code as u32);
            }
        }
    }
}

/// The result of channel `index` before its offset.
fn filtered(job: &Job, sources: &[Option<Source>], index: usize, x: isize, y: isize) -> f32 {
    let source = sources[index].as_ref().expect("a filtered channel");
    let alpha = (sources.iter().flatten())
        .find(|s| s.channel.role == Role::Alpha)
        .filter(|_| job.premultiply && source.channel.role != Role::Alpha);
    if let Operation::Bilateral(bilateral) = &job.operation {
        let joint: Vec<&Source> = if source.channel.role == Role::Colour {
            (sources.iter().flatten())
                .filter(|s| s.channel.role == Role::Colour)
                .collect()
        } else {
            vec![source]
        };
        return bilateral_at(bilateral, source, &joint, alpha, x, y);
    }
    match alpha {
        None => linear(&job.operation, &|x, y| source.at(x, y), x, y),
        Some(alpha) => {
            let product = |x, y| source.at(x, y) * alpha.at(x, y);
            let colour = linear(&job.operation, &product, x, y);
            let alpha = linear(&job.operation, &|x, y| alpha.at(x, y), x, y);
            over_alpha(colour, alpha, alpha)
        }
    }
}

/// `colour / alpha`, or 0 where the `opacity`, a mean of alpha, counts as 0.
fn over_alpha(colour: f32, alpha: f32, opacity: f32) -> f32 {
    if opacity >= TRANSPARENT as f32 {
        colour / alpha
    } else {
        0.0
    }
}

/// `s / divisor` of the picture that `at` reads.
fn linear(operation: &Operation, at: &dyn Fn(isize, isize) -> f32, x: isize, y: isize) -> f32 {
    match operation {
        Operation::Correlate(kernel) => sum(kernel, at, x, y) / kernel.divisor,
        Operation::Magnitude { x: kx, y: ky } => {
            let (sx, sy) = (sum(kx, at, x, y), sum(ky, at, x, y));
            sy.mul_add(sy, sx * sx).sqrt() / kx.divisor
        }
        Operation::None | Operation::Bilateral(_) => {
            unreachable!("checked when the plan was prepared")
        }
    }
}

/// The chain of fused multiply-adds of one kernel at one place.
fn sum(kernel: &Correlation, at: &dyn Fn(isize, isize) -> f32, x: isize, y: isize) -> f32 {
    let chain = |weights: &[f32], values: &dyn Fn(isize) -> f32| {
        let radius = weights.len() as isize / 2;
        (weights.iter().zip(-radius..))
            .fold(0.0f32, |sum, (&weight, i)| weight.mul_add(values(i), sum))
    };
    match &kernel.taps {
        Taps::Separable {
            horizontal,
            vertical,
        } => chain(vertical, &|j| chain(horizontal, &|i| at(x + i, y + j))),
        Taps::Sum(terms) => {
            let radius = terms[0].vertical.len() as isize / 2;
            (0..terms[0].vertical.len())
                .zip(-radius..)
                .fold(0.0, |sum, (row, j)| {
                    terms.iter().fold(sum, |sum, term| {
                        let across = chain(&term.horizontal, &|i| at(x + i, y + j));
                        term.vertical[row].mul_add(across, sum)
                    })
                })
        }
        Taps::Full {
            width,
            height,
            weights,
        } => {
            let (rx, ry) = (*width as isize / 2, *height as isize / 2);
            (weights.chunks_exact(*width).zip(-ry..)).fold(0.0, |sum, (row, j)| {
                (row.iter().zip(-rx..)).fold(sum, |sum, (&weight, i)| {
                    weight.mul_add(at(x + i, y + j), sum)
                })
            })
        }
    }
}

/// `in' + Σ w·(in - centre) / Σ w` with one weight from the differences of all `joint` channels;
/// with `alpha` the weighted sum of the products with it, over that of alpha.
fn bilateral_at(
    bilateral: &Bilateral,
    source: &Source,
    joint: &[&Source],
    alpha: Option<&Source>,
    x: isize,
    y: isize,
) -> f32 {
    let value = |s: &Source, x, y| match alpha {
        None => s.at(x, y),
        Some(alpha) => s.at(x, y) * alpha.at(x, y),
    };
    let color = match alpha {
        None => bilateral.color,
        Some(_) => bilateral.color_premultiplied,
    };
    let centre = value(source, x, y);
    let centre_alpha = alpha.map_or(1.0, |a| a.at(x, y));
    let (mut sum, mut weights) = (0.0f32, 1.0f32);
    let (mut colours, mut alphas) = (centre, centre_alpha);
    for &(dx, dy, space) in &bilateral.taps {
        let (u, v) = (x + dx as isize, y + dy as isize);
        let differences = joint.iter().map(|s| value(s, u, v) - value(s, x, y));
        let squared = match bilateral.distance {
            Distance::L1 => differences.map(f32::abs).sum::<f32>().powi(2),
            Distance::L2 => differences.map(|d| d * d).sum(),
        };
        let weight = squared.mul_add(color, space).exp2();
        sum = weight.mul_add(value(source, u, v) - centre, sum);
        if let Some(alpha) = alpha {
            colours = weight.mul_add(value(source, u, v), colours);
            alphas = weight.mul_add(alpha.at(u, v), alphas);
        }
        weights += weight;
    }
    match alpha {
        None => centre + sum / weights,
        Some(_) => over_alpha(colours, alphas, alphas / weights),
    }
}
