//! A plan made ready for the CPU, and the way of a frame through it: bands of rows, each
//! computed by whichever thread is free.

use std::ops::Range;
use std::sync::Arc;

use rayon::ThreadPool;
use rayon::prelude::*;

use super::naive;
use super::planes::{Field, InputPlanes, OutputPlanes};
use crate::engine::Frame;
use crate::filter::Layout;
use crate::filter::layout::Role;
use crate::filter::plan::{Action, Algorithm, Correlation, Job, Operation, Plan, Taps};
use crate::filter::spec::Precision;

/// Bands per thread and grid: enough that a thread which is late leaves little for the others
/// to wait for.
const BANDS_PER_THREAD: usize = 4;
/// Rows of the smallest band: below, the rows computed twice at the seams cost more than the
/// balance gains.
const MIN_BAND_ROWS: usize = 16;

/// Rows of one field of the jobs `jobs`, computed by one thread.
struct Band {
    jobs: Range<usize>,
    field: Field,
    rows: Range<usize>,
}

/// A plan with the bands that its frames are cut into.
pub struct Compiled {
    plan: Arc<Plan>,
    pool: &'static ThreadPool,
    progressive: Vec<Band>,
    interlaced: Vec<Band>,
}

impl Compiled {
    /// # Errors
    /// A sentence on what in the plan this engine cannot compute.
    pub fn new(plan: &Arc<Plan>, pool: &'static ThreadPool) -> Result<Compiled, String> {
        check(plan)?;
        let threads = pool.current_num_threads();
        Ok(Compiled {
            plan: plan.clone(),
            pool,
            progressive: bands(plan, threads, false),
            interlaced: bands(plan, threads, true),
        })
    }

    /// Filters `frame`.
    ///
    /// # Panics
    /// When the frame is not of the plan's layout.
    pub fn run(&self, frame: &mut Frame) {
        let layout = &self.plan.layout;
        let input = InputPlanes::new(layout, &frame.input);
        let output = OutputPlanes::new(layout, &mut frame.output);
        let bands = if frame.interlaced {
            &self.interlaced
        } else {
            &self.progressive
        };
        // SAFETY: no two bands share a row of a plane, and unless planes overlap each row is
        // memory of its own; overlapping planes are written by this thread alone.
        let compute = |band: &Band| unsafe { self.band(&input, &output, band) };
        if output.overlap(layout) {
            bands.iter().for_each(compute);
        } else {
            self.pool
                .install(|| bands.par_iter().with_max_len(1).for_each(compute));
        }
    }

    /// # Safety
    /// No other reference to the rows of `band` in the output may exist.
    unsafe fn band(&self, input: &InputPlanes, output: &OutputPlanes, band: &Band) {
        for job in &self.plan.jobs[band.jobs.clone()] {
            for y in band.rows.clone() {
                // SAFETY: passed on to the caller.
                unsafe { naive::row(&self.plan, job, input, output, band.field, y) };
            }
        }
    }
}

/// Cuts the grids of a plan into bands. Jobs that share a plane (luma and chroma of packed YUV)
/// go together, so that every row of a plane has one writer.
fn bands(plan: &Plan, threads: usize, interlaced: bool) -> Vec<Band> {
    let mut bands = Vec::new();
    for jobs in jobs_by_plane(&plan.jobs) {
        for field in Field::all(plan.jobs[jobs.start].group.height, interlaced) {
            let rows = (field.height)
                .div_ceil(threads * BANDS_PER_THREAD)
                .max(MIN_BAND_ROWS);
            bands.extend((0..field.height).step_by(rows).map(|y| Band {
                jobs: jobs.clone(),
                field,
                rows: y..(y + rows).min(field.height),
            }));
        }
    }
    bands
}

/// Parts the jobs into the smallest runs of which no two have a plane in common.
fn jobs_by_plane(jobs: &[Job]) -> Vec<Range<usize>> {
    let planes = |job: &Job| -> Vec<usize> { job.group.channels.iter().map(|c| c.plane).collect() };
    let mut runs = Vec::new();
    let mut first = 0;
    while first < jobs.len() {
        let mut taken = planes(&jobs[first]);
        let mut end = first + 1;
        while let Some(next) =
            (end..jobs.len()).find(|&next| planes(&jobs[next]).iter().any(|p| taken.contains(p)))
        {
            taken.extend(jobs[end..=next].iter().flat_map(planes));
            end = next + 1;
        }
        runs.push(first..end);
        first = end;
    }
    runs
}

/// Refuses what the code behind relies on never to meet.
fn check(plan: &Plan) -> Result<(), String> {
    match plan.algorithm {
        Algorithm::Naive | Algorithm::Separable | Algorithm::Direct => {}
        other => return Err(format!("the CPU engine has no {other:?} algorithm")),
    }
    if plan.precision != Precision::Fp32 {
        return Err(format!(
            "the CPU engine has no {:?} precision",
            plan.precision
        ));
    }
    for job in &plan.jobs {
        check_job(&plan.layout, job)?;
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

fn check_job(layout: &Layout, job: &Job) -> Result<(), String> {
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
        Operation::Correlate(kernel) => check_kernel(kernel),
        Operation::Magnitude { x, y } if x.divisor != y.divisor => {
            Err("the kernels of a magnitude differ in divisor".into())
        }
        Operation::Magnitude { x, y } => check_kernel(x).and_then(|()| check_kernel(y)),
        Operation::Bilateral(_) if job.premultiply => {
            Err("the bilateral does not premultiply".into())
        }
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

fn check_kernel(kernel: &Correlation) -> Result<(), String> {
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
    };
    if width % 2 == 0 || height % 2 == 0 || !complete {
        return Err(format!("{width}x{height} is no size of a kernel"));
    }
    Ok(())
}
