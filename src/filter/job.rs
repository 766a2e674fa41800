//! The job of one group of channels: float64 coefficients to float32, and what becomes of each
//! channel.

use super::kernels::{BilateralWindow, Coefficients, Filter};
use super::layout::{Channel, Group, Layout, Role};
use super::plan::{Action, Bilateral, Correlation, Job, Operation, Taps};
use super::rank;
use super::spec::{Alpha, Distance, FilterSpec, Method, Planes};
use super::terms::Terms;

/// What keeps a full kernel from being taken apart into a sum of outer products.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum RankObstacle {
    /// It takes more of them than are of use.
    Rank { width: usize, height: usize },
    /// Colours are divided by alpha, which may be as small as what rounding leaves.
    Premultiply,
    /// The sums are so large beside the divisor that their rounding would show.
    Rounding { bits: u32 },
}

impl Correlation {
    /// Rounds `coefficients` to float32, scaled together with `divisor`, as an outer product where
    /// they are one.
    fn new(coefficients: &Coefficients, divisor: f64) -> Correlation {
        let (taps, factor) = match &rank::reduce(coefficients.clone()) {
            Coefficients::Separable {
                horizontal,
                vertical,
            } => {
                let (horizontal, x) = scaled(horizontal);
                let (vertical, y) = scaled(vertical);
                let taps = Taps::Separable {
                    horizontal,
                    vertical,
                };
                (taps, x * y)
            }
            Coefficients::Full {
                width,
                height,
                weights,
            } => {
                let (weights, factor) = scaled(weights);
                let taps = Taps::Full {
                    width: *width,
                    height: *height,
                    weights,
                };
                (taps, factor)
            }
        };
        let magnitudes = match taps.sum_of_magnitudes() {
            0.0 => 1.0,
            sum => sum,
        };
        let bound = rank::power_of_two(64);
        let divisor = divisor * factor;
        let size = divisor.abs().clamp(magnitudes / bound, magnitudes * bound);
        Correlation {
            taps,
            divisor: size.copysign(divisor) as f32,
        }
    }
}

/// `weights` in float32, and the factor by which they are larger than they were: the smallest
/// whole numbers where that is possible, else unchanged, or near 1 where sums of them could leave
/// float32.
fn scaled(weights: &[f64]) -> (Vec<f32>, f64) {
    let in_float32 = |factor: f64| weights.iter().map(|k| (k * factor) as f32).collect();
    if let Some((whole, factor)) = rank::smallest_whole(weights) {
        return (whole.iter().map(|&k| k as f32).collect(), factor);
    }
    let largest = weights.iter().fold(0.0f64, |most, k| most.max(k.abs()));
    let exponent = if largest == 0.0 {
        0
    } else {
        largest.log2().floor() as i32
    };
    let factor = if exponent.abs() > 32 {
        rank::power_of_two(-exponent)
    } else {
        1.0
    };
    (in_float32(factor), factor)
}

impl Bilateral {
    /// `scale` and `max_code` are those of the layout.
    fn new(window: &BilateralWindow, distance: Distance, scale: f64, max_code: u32) -> Bilateral {
        let log2_e = std::f64::consts::LOG2_E;
        let sigma = window.sigma_color * scale;
        let color = -log2_e / (2.0 * sigma * sigma);
        let most = |offsets: &mut dyn Iterator<Item = i32>| {
            offsets.map(i32::unsigned_abs).max().unwrap_or(0) as usize
        };
        Bilateral {
            radius_x: most(&mut window.offsets.iter().map(|offset| offset.0)),
            radius_y: most(&mut window.offsets.iter().map(|offset| offset.1)),
            taps: window
                .offsets
                .iter()
                .map(|&(dx, dy, exponent)| (dx, dy, (exponent * log2_e) as f32))
                .collect(),
            color: color as f32,
            color_premultiplied: (color / f64::from(max_code).powi(2)) as f32,
            distance,
        }
    }
}

impl Operation {
    fn new(filter: &Filter, spec: &FilterSpec, layout: &Layout) -> Operation {
        match filter {
            Filter::Linear {
                coefficients,
                divisor,
            } => Operation::Correlate(Correlation::new(coefficients, *divisor)),
            Filter::Magnitude { x, y, divisor } => Operation::Magnitude {
                x: Correlation::new(x, *divisor),
                y: Correlation::new(y, *divisor),
            },
            Filter::Bilateral(window) => Operation::Bilateral(Bilateral::new(
                window,
                spec.distance,
                layout.scale(),
                layout.max_code(),
            )),
        }
    }
}

impl Job {
    /// The job of one group, or `None` for a custom kernel without a matrix.
    pub(super) fn new(spec: &FilterSpec, layout: &Layout, group: &Group) -> Option<Job> {
        let filter = Filter::new(spec, group.subsampling)?;
        let copy = filter.is_copy();
        let actions: Vec<Action> = group
            .channels
            .iter()
            .map(|channel| match action(spec, layout, &filter, channel) {
                Action::Filter { zero, offset, .. } if copy && zero == offset => Action::Copy,
                action => action,
            })
            .collect();
        let filters = |index: usize| matches!(actions[index], Action::Filter { .. });
        let colours = (0..actions.len())
            .any(|index| filters(index) && group.channels[index].role != Role::Alpha);
        let mut job = Job {
            operation: if (0..actions.len()).any(filters) {
                Operation::new(&filter, spec, layout)
            } else {
                Operation::None
            },
            premultiply: spec.alpha == Alpha::Premultiply
                && colours
                && !copy
                && group.channels.iter().any(|c| c.role == Role::Alpha),
            group: group.clone(),
            actions,
            border: spec.border,
        };
        if filter.keeps_constants() && layout.depth > 8 {
            job.centre(layout.max_code());
        }
        if spec.method == Method::Separable {
            job.take_apart(layout);
        }
        Some(job)
    }

    /// Takes a full kernel as the sum of a few outer products, if those give the bytes that
    /// [`plan`](super::plan#low-rank) promises.
    fn take_apart(&mut self, layout: &Layout) {
        if let (Some(Ok(found)), Operation::Correlate(kernel)) =
            (self.terms(layout), &mut self.operation)
        {
            kernel.taps = Taps::Sum(found.terms);
        }
    }

    /// The outer products that a full kernel is taken apart into, or why it is not; `None` for all other
    /// operations.
    fn terms(&self, layout: &Layout) -> Option<Result<Terms, RankObstacle>> {
        /// Of pixels, those that may be rounded otherwise at up to 12 bits, and beyond.
        const SHARE: f64 = 0.001;
        const DEEP_SHARE: f64 = 0.01;
        /// Code values by which no sum may be off, so that none is rounded to another than the nearest
        /// code value or its neighbour.
        const FARTHEST: f64 = 0.25;
        /// Of a sum in float32, to its size.
        const ROUNDING: f64 = 1.0 / (1u32 << 24) as f64;
        let max_code = layout.max_code();
        let whole_input = self.largest_input(max_code);
        let Operation::Correlate(kernel) = &self.operation else {
            return None;
        };
        let Taps::Full {
            width,
            height,
            weights,
        } = &kernel.taps
        else {
            return None;
        };
        let share = if layout.depth > 12 { DEEP_SHARE } else { SHARE };
        let largest = whole_input.map_or(f64::from(max_code), f64::from);
        let codes = largest / f64::from(kernel.divisor).abs();
        let found = Terms::find(*width, weights, |found| {
            let sums = found.sum_of_magnitudes();
            if found.are_whole() && whole_input.is_some() && sums * largest < 16_777_216.0 {
                return true;
            }
            !self.premultiply
                && codes * found.largest_error() <= FARTHEST
                && codes * (found.typical_error() + ROUNDING * sums) <= share
        });
        Some(found.ok_or_else(|| {
            /// Of the coefficients, what may be left of a matrix that is told to be of low rank.
            const LEFT: f64 = 1e-5;
            let left = LEFT * kernel.taps.sum_of_magnitudes();
            let is_low = |found: &Terms| found.largest_error() <= left;
            if Terms::find(*width, weights, is_low).is_none() {
                RankObstacle::Rank {
                    width: *width,
                    height: *height,
                }
            } else if self.premultiply {
                RankObstacle::Premultiply
            } else {
                RankObstacle::Rounding { bits: layout.depth }
            }
        }))
    }

    /// Why the job is no sum of a few outer products; `None` where it is.
    pub(super) fn rank_obstacle(&self, layout: &Layout) -> Option<RankObstacle> {
        self.terms(layout)?.err()
    }

    /// Measures inputs from the middle of the code range instead of the zero level, which makes
    /// no difference to a filter that keeps constants but halves the largest sums, and with them
    /// their rounding.
    fn centre(&mut self, max_code: u32) {
        if self.premultiply || self.sums_are_whole(max_code) {
            return;
        }
        let middle = max_code.div_ceil(2) as f32;
        for action in &mut self.actions {
            if let Action::Filter {
                zero,
                offset,
                beyond,
            } = action
            {
                *offset += middle - *zero;
                *beyond -= middle - *zero;
                *zero = middle;
            }
        }
    }
}

/// What becomes of one channel under `filter`.
fn action(spec: &FilterSpec, layout: &Layout, filter: &Filter, channel: &Channel) -> Action {
    /// Far beyond any code value, and far from overflow.
    const LARGEST_BIAS: f64 = 1e9;
    let zero = channel.zero as f32;
    match channel.role {
        Role::Padding => Action::Copy,
        Role::Alpha if spec.alpha == Alpha::Copy => Action::Copy,
        Role::Alpha => Action::Filter {
            zero,
            offset: zero,
            beyond: layout.max_code() as f32,
        },
        Role::Chroma => match spec.planes {
            Planes::Luma => Action::Copy,
            Planes::Auto if filter.sums_to_zero() => Action::Fill(channel.zero),
            Planes::Auto | Planes::All => Action::Filter {
                zero,
                offset: zero,
                beyond: 0.0,
            },
        },
        Role::Luma | Role::Colour => {
            let bias = (spec.bias * layout.scale()).clamp(-LARGEST_BIAS, LARGEST_BIAS);
            Action::Filter {
                zero,
                offset: (f64::from(channel.zero) + bias) as f32,
                beyond: (spec.border_value * layout.scale()) as f32,
            }
        }
    }
}
