//! What may be computed with weights of less than 32 bits, and how that is told.
//!
//! `precision` is the least that is asked of the arithmetic of the weights. An engine may use more, and
//! does where it has no faster way: every plan of `fp16` is one of `fp32` as well.

use std::borrow::Cow;

use super::layout::{Layout, Sample};
use super::plan::{Job, Operation, Plan, PlanError};
use super::spec::{FilterSpec, Method, Precision};

/// Refuses what no engine will ever compute in the precision that is asked for, the same on all of them.
pub(super) fn check(spec: &FilterSpec, layout: &Layout, jobs: &[Job]) -> Result<(), PlanError> {
    let obstacle = match spec.precision {
        Precision::Fp32 => None,
        Precision::Fp16 => obstacle(spec, layout, jobs),
    };
    match obstacle {
        None => Ok(()),
        Some(obstacle) => Err(PlanError::Precision {
            precision: spec.precision.nick(),
            obstacle,
        }),
    }
}

/// What of the settings does not go with weights of 16 bits.
fn obstacle(spec: &FilterSpec, layout: &Layout, jobs: &[Job]) -> Option<String> {
    let other = |job: &Job| match job.operation {
        Operation::None | Operation::Correlate(_) => false,
        Operation::Magnitude { .. } | Operation::Bilateral(_) => true,
    };
    if jobs.iter().any(other) {
        return Some(format!("kernel={}", spec.kernel.nick()));
    }
    // A method that is asked for by name is one of fp32, or approximate in its own way.
    if !matches!(spec.method, Method::Auto | Method::Separable) {
        return Some(format!("method={}", spec.method.nick()));
    }
    // Float16 has 11 bits for a sum.
    (layout.sample != Sample::U8).then(|| format!("the samples of {}", layout.format))
}

/// What `stats` calls the way in which `plan` is computed, whose weights were in the precision `computed`.
/// That is told where it was left open. What copies the picture has neither algorithm nor weights.
pub fn told(plan: &Plan, computed: Precision) -> Cow<'static, str> {
    let algorithm = plan.algorithm.nick();
    match plan.precision {
        _ if plan.is_copy() => "copy".into(),
        Precision::Fp32 => algorithm.into(),
        Precision::Fp16 => format!("{algorithm}, {}", computed.nick()).into(),
    }
}
