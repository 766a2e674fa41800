//! Which algorithm computes a plan.

use super::layout::Layout;
use super::levels;
use super::plan::{Abilities, Algorithm, Correlation, Job, Operation, PlanError, Taps};
use super::spec::{FilterSpec, Method};

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
        PlanError::Method {
            method: spec.method.nick(),
            kernel: described(spec, layout, jobs, abilities),
            engine: abilities.engine,
            possible: possible.join(", "),
        }
    })
}

/// The kernel's name, and what it is of the settings that `method` cannot do.
fn described(spec: &FilterSpec, layout: &Layout, jobs: &[Job], abilities: &Abilities) -> String {
    let nick = spec.kernel.nick();
    let obstacle = |job: &Job| match spec.method {
        Method::Fast => levels::obstacle(layout, job),
        Method::Fft => (abilities.fft)(layout, job).map(str::to_string),
        _ => None,
    };
    match jobs.iter().find_map(obstacle) {
        Some(obstacle) => format!("{nick} with {obstacle}"),
        None => nick,
    }
}
