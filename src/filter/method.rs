//! Which algorithm computes a plan.

use super::job::RankObstacle;
use super::layout::Layout;
use super::levels;
use super::plan::{Abilities, Algorithm, Correlation, Job, Operation, PlanError, Taps};
use super::spec::{FilterSpec, Kernel, Method, Planes};
use super::terms::most_terms;

impl Algorithm {
    /// Whether it can compute all `jobs`, which are for `layout`, on an engine with `abilities`.
    /// Copies and fills are no obstacle to any.
    fn can_compute(self, layout: &Layout, jobs: &[Job], abilities: &Abilities) -> bool {
        let separable = |kernel: &Correlation| !matches!(kernel.taps, Taps::Full { .. });
        jobs.iter().all(|job| match (&job.operation, self) {
            (Operation::None, _) => true,
            (_, Algorithm::Naive | Algorithm::Tile) => true,
            (_, Algorithm::Direct) => (abilities.direct)(layout, job),
            (Operation::Correlate(kernel), Algorithm::Separable) => separable(kernel),
            (Operation::Magnitude { x, y }, Algorithm::Separable) => separable(x) && separable(y),
            (Operation::Bilateral(_), Algorithm::Separable | Algorithm::Fft) => false,
            (_, Algorithm::Fft) => (abilities.fft)(layout, job).is_none(),
            (Operation::Bilateral(_), Algorithm::Fast) => levels::obstacle(layout, job).is_none(),
            (_, Algorithm::Fast) => false,
        })
    }

    /// Whether it gives the canonical result, so that `auto` may take it.
    fn is_canonical(self) -> bool {
        !matches!(self, Algorithm::Fft | Algorithm::Fast)
    }

    /// The `method` that asks for it; `None` for what `auto` alone takes.
    fn method(self) -> Option<Method> {
        match self {
            Algorithm::Naive => Some(Method::Naive),
            Algorithm::Tile => Some(Method::Tile),
            Algorithm::Separable => Some(Method::Separable),
            Algorithm::Direct => None,
            Algorithm::Fft => Some(Method::Fft),
            Algorithm::Fast => Some(Method::Fast),
        }
    }
}

/// The algorithm that `method` asks for, or the engine's first that is canonical and can compute
/// `jobs`.
pub(super) fn choose(
    spec: &FilterSpec,
    layout: &Layout,
    jobs: &[Job],
    abilities: &Abilities,
) -> Result<Algorithm, PlanError> {
    let able = || {
        let algorithms = abilities.algorithms.iter().copied();
        algorithms.filter(|algorithm| algorithm.can_compute(layout, jobs, abilities))
    };
    let chosen = match spec.method {
        Method::Auto => able().find(|algorithm| algorithm.is_canonical()),
        method => able().find(|algorithm| algorithm.method() == Some(method)),
    };
    chosen.ok_or_else(|| {
        let mut possible = Vec::new();
        if able().any(Algorithm::is_canonical) {
            possible.push(Method::Auto.nick());
        }
        possible.extend(able().filter_map(Algorithm::method).map(Method::nick));
        let (obstacle, reason) = refusal(spec, layout, jobs, abilities);
        let nick = spec.kernel.nick();
        PlanError::Method {
            method: spec.method.nick(),
            kernel: match obstacle {
                Some(obstacle) => format!("{nick} with {obstacle}"),
                None => nick,
            },
            engine: abilities.engine,
            reason,
            possible: possible.join(", "),
        }
    })
}

/// What it is of the settings that `spec.method` cannot do, in words that follow "with", where it is not
/// the kernel itself; and what the method is for, or takes instead.
fn refusal(
    spec: &FilterSpec,
    layout: &Layout,
    jobs: &[Job],
    abilities: &Abilities,
) -> (Option<String>, Option<String>) {
    let is_bilateral = spec.kernel == Kernel::Bilateral;
    let for_kernel = |text: &str| (None, Some(text.to_owned()));
    match spec.method {
        Method::Tile => for_kernel("it is for GPUs, in whose shared memory the tiles are held"),
        Method::Separable if is_bilateral => for_kernel(
            "it is for convolutions, while the weights of a bilateral follow the picture",
        ),
        Method::Fft if is_bilateral => for_kernel("it is for convolutions"),
        Method::Fast if !is_bilateral => for_kernel("it is for kernel=bilateral alone"),
        Method::Separable => jobs
            .iter()
            .find_map(|job| job.rank_obstacle(layout))
            .map_or((None, None), |obstacle| of_rank(spec, obstacle)),
        Method::Fft => {
            let obstacle = jobs.iter().find_map(|job| (abilities.fft)(layout, job));
            (obstacle.map(str::to_owned), None)
        }
        Method::Fast => match jobs.iter().find_map(|job| levels::obstacle(layout, job)) {
            Some(obstacle) => {
                let whatever = match (obstacle, spec.planes) {
                    (levels::Obstacle::JointWeight, Planes::Luma) => {
                        "; RGB has no luma to filter alone"
                    }
                    _ => "",
                };
                let accepted = format!("it takes {}{whatever}", obstacle.accepted());
                (Some(obstacle.to_string()), Some(accepted))
            }
            None => (None, None),
        },
        Method::Auto | Method::Naive => (None, None),
    }
}

/// [`refusal`] of `method=separable`, for kernels that are not of rank 1.
fn of_rank(spec: &FilterSpec, obstacle: RankObstacle) -> (Option<String>, Option<String>) {
    match obstacle {
        RankObstacle::Rank { width, height } => {
            let most = most_terms(width, height);
            let accepted = format!(
                "it takes {width}x{height} coefficients that are the sum of at most {most} products of a \
                 column and a row"
            );
            (None, Some(accepted))
        }
        RankObstacle::Premultiply => (
            Some("alpha=premultiply".into()),
            Some(
                "there it takes kernels of rank 1, and others if all sums are whole numbers below 2^24"
                    .into(),
            ),
        ),
        RankObstacle::Rounding { bits } => {
            let (what, smaller) = match spec.kernel {
                Kernel::Unsharp | Kernel::Sharpen => (
                    format!("amount={} at {bits} bits", spec.amount),
                    "a smaller amount",
                ),
                _ => (
                    format!("coefficients that large beside their divisor at {bits} bits"),
                    "smaller ones",
                ),
            };
            let reason = format!(
                "the rounding of its sums in float32 would show; it takes {smaller}, or fewer bits"
            );
            (Some(what), Some(reason))
        }
    }
}
