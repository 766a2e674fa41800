//! What a plan must be for the code behind, which relies on it.

use super::compute::jobs_by_plane;
use crate::filter::Layout;
use crate::filter::layout::Role;
use crate::filter::levels;
use crate::filter::plan::{Action, Algorithm, Correlation, Job, Operation, Plan, Taps, Term};
use crate::filter::terms::MOST_TERMS;

/// Refuses what the code behind relies on never to meet.
pub fn plan(plan: &Plan) -> Result<(), String> {
    match plan.algorithm {
        Algorithm::Naive
        | Algorithm::Separable
        | Algorithm::Direct
        | Algorithm::Fft
        | Algorithm::Fast => {}
        other => return Err(format!("the CPU engine has no {other:?} algorithm")),
    }
    for job in &plan.jobs {
        self::job(&plan.layout, job)?;
        by_levels(plan, job)?;
    }
    for jobs in jobs_by_plane(&plan.jobs) {
        let jobs = &plan.jobs[jobs];
        if jobs
            .iter()
            .any(|job| job.group.height != jobs[0].group.height)
        {
            return Err("grids that share a plane differ in height".into());
        }
    }
    Ok(())
}

/// Refuses jobs that no levels can compute, for both engines.
///
/// # Errors
/// A sentence on what is in the way.
pub fn by_levels(plan: &Plan, job: &Job) -> Result<(), String> {
    match levels::obstacle(&plan.layout, job) {
        Some(obstacle) if plan.algorithm == Algorithm::Fast => {
            Err(format!("levels cannot compute a bilateral with {obstacle}"))
        }
        _ => Ok(()),
    }
}

/// Refuses jobs that contradict themselves or the layout, for both engines.
///
/// # Errors
/// A sentence on what is wrong.
pub fn job(layout: &Layout, job: &Job) -> Result<(), String> {
    let group = &job.group;
    if group.width == 0 || group.height == 0 || group.channels.is_empty() {
        return Err("a group of channels is empty".into());
    }
    if job.actions.len() != group.channels.len() {
        return Err(format!(
            "{} actions for {} channels",
            job.actions.len(),
            group.channels.len()
        ));
    }
    for channel in &group.channels {
        let end = channel.offset + (group.width - 1) * channel.step + layout.sample.bytes();
        let plane = layout.planes.get(channel.plane);
        if !plane.is_some_and(|p| end <= p.row_bytes && group.height <= p.rows) {
            return Err(format!("a channel reaches beyond plane {}", channel.plane));
        }
    }
    let filters = |role: fn(Role) -> bool| {
        (group.channels.iter().zip(&job.actions))
            .any(|(c, action)| role(c.role) && matches!(action, Action::Filter { .. }))
    };
    if job.premultiply && !filters(|role| role == Role::Alpha) {
        return Err("premultiplied colours without a filtered alpha channel".into());
    }
    match &job.operation {
        Operation::None if filters(|_| true) => Err("a channel is filtered by nothing".into()),
        Operation::None => Ok(()),
        Operation::Correlate(kernel) => self::kernel(kernel),
        Operation::Magnitude { x, y } if x.divisor != y.divisor => {
            Err("the kernels of a magnitude differ in divisor".into())
        }
        Operation::Magnitude { x, y } => kernel(x).and_then(|()| kernel(y)),
        Operation::Bilateral(b) => {
            let inside = |dx: i32, radius: usize| dx.unsigned_abs() as usize <= radius;
            if (b.taps.iter()).all(|&(dx, dy, _)| inside(dx, b.radius_x) && inside(dy, b.radius_y))
            {
                Ok(())
            } else {
                Err("a tap of the bilateral lies beyond its radius".into())
            }
        }
    }
}

fn kernel(kernel: &Correlation) -> Result<(), String> {
    let (width, height, complete) = match &kernel.taps {
        Taps::Separable {
            horizontal,
            vertical,
        } => (horizontal.len(), vertical.len(), true),
        Taps::Full {
            width,
            height,
            weights,
        } => (*width, *height, weights.len() == width * height),
        Taps::Sum(terms) => {
            let first = terms.first().ok_or("a sum of no outer products")?;
            let size = |term: &Term| (term.horizontal.len(), term.vertical.len());
            let alike = terms.len() <= MOST_TERMS && terms.iter().all(|t| size(t) == size(first));
            (size(first).0, size(first).1, alike)
        }
    };
    if width % 2 == 0 || height % 2 == 0 || !complete {
        return Err(format!("{width}x{height} is no size of a kernel"));
    }
    Ok(())
}
