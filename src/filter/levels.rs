//! The bilateral by weighted levels, `method=fast`: what both engines compute, and when they can.
//!
//! The colour weight is a Gaussian of the difference of two code values. Up to a constant factor it
//! is the integral over all levels L of two Gaussians of half its variance,
//! `exp(-(p-q)²/(2σ²)) ∝ ∫ g(p-L)·g(q-L) dL` with `g(d) = exp(-d²/σ²)`. A sum over levels of a spacing s
//! takes the integral's place; by Poisson's summation formula it is off by `2·exp(-π²σ²/(2s²))` at most,
//! 0.018 of the weight for the largest spacing. In each summand p and q stand apart, and with that the
//! means over the window become spatial Gaussians, which a square window makes separable:
//!
//! `W_k = Σ h·v·g(in' - L_k)`, `P_k = Σ h·v·g(in' - L_k)·(in' - L_k)` over the window,
//! `out = Σ_k c_k·(P_k + L_k·W_k) / Σ_k c_k·W_k + offset`, `c_k = g(in'(x,y) - L_k)`,
//!
//! the last two over the levels within [`REACH`] of the sample in the middle. What a tap costs no longer
//! grows with the square of the radius. The idea of filtering images of the weights at few levels,
//! and of looking the result up between them, is that of Durand and Dorsey ("Fast bilateral filtering
//! for the display of high-dynamic-range images", 2002), Paris and Durand ("A fast approximation of the bilateral filter
//! using a signal processing approach", 2006) and Yang, Tan and Ahuja ("Real-time O(1) bilateral
//! filtering", 2009), who interpolate linearly between the two nearest levels. The Gaussian in place
//! of that costs nothing where it counts and is closer by 4 to 9 dB with as many levels.

use super::layout::{Layout, Role};
use super::plan::{Action, Bilateral, Job, Operation};

/// The largest distance of two levels, in sigmas, and the smallest: closer ones gain nothing, while
/// a margin that is larger instead does.
const SPACING: f64 = 1.02;
const LEAST_SPACING: f64 = 0.85;
/// How far the levels go on beyond the code values at least, in sigmas.
const MARGIN: f64 = 0.5;
/// Levels further from a sample than so many sigmas weigh less than 0.002, and count as nothing.
const REACH: f64 = 2.5;
/// With fewer the ends would count for too much.
const FEWEST: usize = 4;
/// The smallest `sigma-color`, in 8-bit code values: it takes 65 levels, with which the whole window
/// is faster at every radius.
pub const LEAST_SIGMA: f64 = 4.0;

/// Where the levels lie, in code values.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Grid {
    pub first: f64,
    pub spacing: f64,
    pub count: usize,
    /// Levels further away from a sample have no part in it.
    pub reach: f64,
}

impl Grid {
    /// For a `sigma` and code values up to `max_code`.
    pub fn new(sigma: f64, max_code: f64) -> Grid {
        let range = max_code + 2.0 * MARGIN * sigma;
        let intervals = (range / (SPACING * sigma)).ceil().max(FEWEST as f64 - 1.0);
        let spacing = (range / intervals).max(LEAST_SPACING * sigma);
        Grid {
            first: (max_code - intervals * spacing) / 2.0,
            spacing,
            count: intervals as usize + 1,
            reach: REACH * sigma,
        }
    }
}

/// A bilateral as it is computed by levels.
#[derive(Debug, Clone, PartialEq)]
pub struct Levels {
    /// Spatial weights across, from left to right, of sum 1.
    pub horizontal: Vec<f32>,
    /// The same down.
    pub vertical: Vec<f32>,
    /// The code value of level 0.
    pub first: f32,
    /// From one level to the next.
    pub spacing: f32,
    pub count: usize,
    /// As [`Grid::reach`].
    pub reach: f32,
    /// `g(d) = exp2(exponent·d²)`.
    pub exponent: f32,
}

impl Levels {
    /// For code values up to `max_code`. The window is to be a whole rectangle.
    pub fn new(bilateral: &Bilateral, max_code: u32) -> Levels {
        let grid = Grid::new(sigma(bilateral), f64::from(max_code));
        Levels {
            horizontal: axis(
                bilateral.radius_x,
                &mut of_taps(bilateral, |dx, dy| (dy, dx)),
            ),
            vertical: axis(
                bilateral.radius_y,
                &mut of_taps(bilateral, |dx, dy| (dx, dy)),
            ),
            first: grid.first as f32,
            spacing: grid.spacing as f32,
            count: grid.count,
            reach: grid.reach as f32,
            exponent: 2.0 * bilateral.color,
        }
    }

    /// The code value of level `k`.
    pub fn level(&self, k: usize) -> f32 {
        (k as f32).mul_add(self.spacing, self.first)
    }

    /// The levels that have a part in any sample from `least` to `most`, in code values.
    pub fn within_reach(&self, least: f32, most: f32) -> std::ops::Range<usize> {
        // As casts have it, what is below 0 or no number is 0.
        let from = ((least - self.reach - self.first) / self.spacing).floor() as usize;
        let to = ((most + self.reach - self.first) / self.spacing).ceil() as usize;
        from.min(self.count)..to.saturating_add(1).min(self.count)
    }
}

/// In code values.
fn sigma(bilateral: &Bilateral) -> f64 {
    (-std::f64::consts::LOG2_E / (2.0 * f64::from(bilateral.color))).sqrt()
}

/// Offsets and exponents of the taps on one axis: `place` puts an offset as (on the other, on this).
fn of_taps(
    bilateral: &Bilateral,
    place: impl Fn(i32, i32) -> (i32, i32),
) -> impl Iterator<Item = (i32, f32)> {
    let taps = bilateral.taps.iter();
    taps.filter_map(move |&(dx, dy, exponent)| match place(dx, dy) {
        (0, along) => Some((along, exponent)),
        _ => None,
    })
}

/// The weights of one axis, of sum 1.
fn axis(radius: usize, taps: &mut dyn Iterator<Item = (i32, f32)>) -> Vec<f32> {
    let mut weights = vec![1.0f64; 2 * radius + 1];
    for (offset, exponent) in taps {
        weights[radius.wrapping_add_signed(offset as isize)] = f64::from(exponent).exp2();
    }
    let sum: f64 = weights.iter().sum();
    weights.iter().map(|weight| (weight / sum) as f32).collect()
}

/// What keeps a bilateral from being computed by levels, in words that follow "with".
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Obstacle {
    #[error("one weight for the three colours of RGB")]
    JointWeight,
    #[error("alpha=premultiply")]
    Premultiply,
    #[error("window=circle")]
    Circle,
    #[error("a sigma-color below {LEAST_SIGMA}")]
    SmallSigma,
}

impl Obstacle {
    /// What can be computed instead, in words that follow "it takes".
    pub fn accepted(self) -> String {
        match self {
            Obstacle::JointWeight => "grey and YUV formats, such as GRAY8, I420 and NV12".into(),
            Obstacle::Premultiply => "alpha=copy and alpha=filter".into(),
            Obstacle::Circle => "window=square".into(),
            Obstacle::SmallSigma => format!("{LEAST_SIGMA} and more, and 0, which is a copy"),
        }
    }
}

/// Why `job` cannot be computed by levels; `None` where it can.
pub fn obstacle(layout: &Layout, job: &Job) -> Option<Obstacle> {
    let Operation::Bilateral(bilateral) = &job.operation else {
        return None;
    };
    let (rx, ry) = (bilateral.radius_x, bilateral.radius_y);
    let joint = |(channel, action): (&super::Channel, &Action)| {
        channel.role == Role::Colour && matches!(action, Action::Filter { .. })
    };
    if (job.group.channels.iter().zip(&job.actions)).any(joint) {
        Some(Obstacle::JointWeight)
    } else if job.premultiply {
        Some(Obstacle::Premultiply)
    } else if bilateral.taps.len() + 1 != (2 * rx + 1) * (2 * ry + 1) {
        Some(Obstacle::Circle)
    } else if sigma(bilateral) < LEAST_SIGMA * layout.scale() * (1.0 - 1e-6) {
        Some(Obstacle::SmallSigma)
    } else {
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `Σ_k g(p-L_k)·g(q-L_k)` over the levels within reach of p.
    fn weight(grid: &Grid, sigma: f64, p: f64, q: f64) -> f64 {
        let g = |d: f64| (-(d / sigma).powi(2)).exp();
        let levels = (0..grid.count).map(|k| grid.first + k as f64 * grid.spacing);
        let near = levels.filter(|level| (level - p).abs() <= grid.reach);
        near.map(|level| g(p - level) * g(q - level)).sum()
    }

    #[test]
    fn the_sum_over_levels_has_the_shape_of_the_colour_weight() {
        for sigma in [4.0, 10.0, 25.0, 60.0, 100.0] {
            let grid = Grid::new(sigma, 255.0);
            assert!(grid.spacing <= SPACING * sigma);
            for p in (0..=255).step_by(5).map(f64::from) {
                let own = weight(&grid, sigma, p, p);
                for q in (0..=255).step_by(3).map(f64::from) {
                    let exact = (-(p - q).powi(2) / (2.0 * sigma * sigma)).exp();
                    let found = weight(&grid, sigma, p, q) / own;
                    // Near the ends, a few levels stand for those that there are not.
                    assert!(
                        (found - exact).abs() < 0.04,
                        "{sigma} {p} {q}: {found} {exact}"
                    );
                }
            }
        }
    }

    #[test]
    fn levels_cover_all_code_values() {
        for (sigma, max) in [
            (4.0, 255.0),
            (25.0, 255.0),
            (255.0, 255.0),
            (6400.0, 65535.0),
        ] {
            let grid = Grid::new(sigma, max);
            let last = grid.first + (grid.count - 1) as f64 * grid.spacing;
            assert!(grid.first <= 0.0 && last >= max, "{grid:?}");
            assert!((4..=65).contains(&grid.count), "{grid:?}");
        }
        assert_eq!(Grid::new(25.0, 255.0).count, 12);
        assert_eq!(Grid::new(LEAST_SIGMA, 255.0).count, 65);
    }

    #[test]
    fn the_levels_of_a_range_are_all_that_reach_it() {
        let bilateral = Bilateral {
            radius_x: 1,
            radius_y: 0,
            taps: vec![(-1, 0, -1.0), (1, 0, -1.0)],
            color: -std::f32::consts::LOG2_E / (2.0 * 25.0 * 25.0),
            color_premultiplied: 0.0,
            distance: crate::filter::spec::Distance::L1,
        };
        let levels = Levels::new(&bilateral, 255);
        assert_eq!(levels.horizontal, [0.25, 0.5, 0.25]);
        assert_eq!(levels.vertical, [1.0]);
        for (least, most) in [(0.0, 0.0), (100.0, 130.0), (255.0, 255.0), (0.0, 255.0)] {
            let range = levels.within_reach(least, most);
            for k in 0..levels.count {
                let level = levels.level(k);
                let distance = (least - level).max(level - most).max(0.0);
                assert!(
                    distance > levels.reach || range.contains(&k),
                    "{least} {most} {k}"
                );
            }
        }
        // Words that are no code values of the depth.
        assert!(levels.within_reach(4000.0, 60000.0).is_empty());
    }
}
