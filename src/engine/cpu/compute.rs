//! A plan made ready for the CPU, and the way of a frame through it: bands of rows, each
//! computed by whichever thread is free.

use std::ops::Range;
use std::sync::Arc;

use rayon::ThreadPool;

use super::bilateral::BilateralJob;
#[cfg(target_arch = "x86_64")]
use super::byte_bilateral::ByteBilateralJob;
use super::integer::IntegerJob;
use super::isa::Isa;
use super::linear::LinearJob;
use super::planes::{Field, InputPlanes, OutputPlanes};
use super::streams::Streams;
use super::{naive, pool, scratch};
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

/// Rows of one field of one part, computed by one thread.
struct Band {
    part: usize,
    field: Field,
    rows: Range<usize>,
}

/// Jobs that share planes (luma and chroma of packed YUV), so that every row has one writer.
struct Part {
    height: usize,
    work: PartWork,
}

enum PartWork {
    /// Whole rows of these planes are the input's.
    Copy(Vec<usize>),
    Jobs(Vec<JobWork>),
}

enum JobWork {
    /// The job of this index of the plan, by the scalar path.
    Naive(usize),
    Unfiltered(Streams),
    Integer(IntegerJob),
    Linear(LinearJob),
    #[cfg(target_arch = "x86_64")]
    ByteBilateral(ByteBilateralJob),
    Bilateral(BilateralJob),
}

impl Part {
    fn new(plan: &Plan, jobs: Range<usize>, isa: Isa) -> Part {
        let copies = |job: &Job| job.actions.iter().all(|action| *action == Action::Copy);
        let work = if plan.jobs[jobs.clone()].iter().all(copies) {
            let channels = plan.jobs[jobs.clone()]
                .iter()
                .flat_map(|job| &job.group.channels);
            let mut planes: Vec<usize> = channels.map(|channel| channel.plane).collect();
            planes.sort_unstable();
            planes.dedup();
            PartWork::Copy(planes)
        } else {
            PartWork::Jobs(
                jobs.clone()
                    .map(|job| JobWork::new(plan, job, isa))
                    .collect(),
            )
        };
        Part {
            height: plan.jobs[jobs.start].group.height,
            work,
        }
    }
}

impl JobWork {
    fn new(plan: &Plan, index: usize, isa: Isa) -> JobWork {
        let job = &plan.jobs[index];
        match &job.operation {
            _ if plan.algorithm == Algorithm::Naive => JobWork::Naive(index),
            Operation::None => JobWork::Unfiltered(Streams::new(&plan.layout, job)),
            Operation::Correlate(_) | Operation::Magnitude { .. } => {
                match IntegerJob::new(&plan.layout, job, isa) {
                    Some(integer) => JobWork::Integer(integer),
                    None => JobWork::Linear(LinearJob::new(&plan.layout, job)),
                }
            }
            Operation::Bilateral(window) => {
                #[cfg(target_arch = "x86_64")]
                if let Some(bytes) = ByteBilateralJob::new(&plan.layout, job, window, isa) {
                    return JobWork::ByteBilateral(bytes);
                }
                JobWork::Bilateral(BilateralJob::new(&plan.layout, job, window))
            }
        }
    }
}

/// A plan with the bands that its frames are cut into.
pub struct Compiled {
    plan: Arc<Plan>,
    pool: &'static ThreadPool,
    isa: Isa,
    parts: Vec<Part>,
    progressive: Vec<Band>,
    interlaced: Vec<Band>,
}

impl Compiled {
    /// # Errors
    /// A sentence on what in the plan this engine cannot compute.
    pub fn new(plan: &Arc<Plan>, isa: Isa, pool: &'static ThreadPool) -> Result<Compiled, String> {
        check(plan)?;
        let parts: Vec<Part> = (jobs_by_plane(&plan.jobs).into_iter())
            .map(|jobs| Part::new(plan, jobs, isa))
            .collect();
        let threads = pool.current_num_threads();
        Ok(Compiled {
            plan: plan.clone(),
            pool,
            isa,
            progressive: bands(&parts, threads, false),
            interlaced: bands(&parts, threads, true),
            parts,
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
            pool::share_out(self.pool, bands.len(), &|index| compute(&bands[index]));
        }
    }

    /// # Safety
    /// No other reference to the rows of `band` in the output may exist.
    unsafe fn band(&self, input: &InputPlanes, output: &OutputPlanes, band: &Band) {
        let frame_rows = || band.rows.clone().map(|y| band.field.row(y));
        match &self.parts[band.part].work {
            PartWork::Copy(planes) => {
                for &plane in planes {
                    for row in frame_rows() {
                        // SAFETY: passed on to the caller; one slice lives at a time.
                        let out = unsafe { output.row(plane, row) };
                        out.copy_from_slice(input.row(plane, row));
                    }
                }
            }
            PartWork::Jobs(jobs) => {
                for job in jobs {
                    // SAFETY: passed on to the caller.
                    unsafe { self.job(job, input, output, band) };
                }
            }
        }
    }

    /// # Safety
    /// As [`band`](Self::band).
    unsafe fn job(&self, job: &JobWork, input: &InputPlanes, output: &OutputPlanes, band: &Band) {
        let Band { field, rows, .. } = band;
        match job {
            JobWork::Naive(index) => {
                for y in rows.clone() {
                    let job = &self.plan.jobs[*index];
                    // SAFETY: passed on to the caller.
                    unsafe { naive::row(&self.plan, job, input, output, *field, y) };
                }
            }
            JobWork::Unfiltered(streams) => {
                for y in rows.clone() {
                    // SAFETY: passed on to the caller.
                    unsafe { streams.write_unfiltered(self.isa, input, output, field.row(y)) };
                }
            }
            JobWork::Integer(integer) => scratch::with(|scratch| {
                // SAFETY: passed on to the caller.
                unsafe { integer.band(self.isa, input, output, *field, rows.clone(), scratch) };
            }),
            JobWork::Linear(linear) => scratch::with(|scratch| {
                // SAFETY: passed on to the caller.
                unsafe { linear.band(self.isa, input, output, *field, rows.clone(), scratch) };
            }),
            #[cfg(target_arch = "x86_64")]
            JobWork::ByteBilateral(bilateral) => scratch::with(|scratch| {
                // SAFETY: passed on to the caller.
                unsafe { bilateral.band(self.isa, input, output, *field, rows.clone(), scratch) };
            }),
            JobWork::Bilateral(bilateral) => scratch::with(|scratch| {
                // SAFETY: passed on to the caller.
                unsafe { bilateral.band(self.isa, input, output, *field, rows.clone(), scratch) };
            }),
        }
    }
}

/// Cuts the rows of every part into bands.
fn bands(parts: &[Part], threads: usize, interlaced: bool) -> Vec<Band> {
    let mut bands = Vec::new();
    for (part, Part { height, .. }) in parts.iter().enumerate() {
        for field in Field::all(*height, interlaced) {
            let rows = (field.height)
                .div_ceil(threads * BANDS_PER_THREAD)
                .max(MIN_BAND_ROWS);
            bands.extend((0..field.height).step_by(rows).map(|y| Band {
                part,
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

/// Refuses jobs that contradict themselves or the layout, for both engines.
///
/// # Errors
/// A sentence on what is wrong.
pub fn check_job(layout: &Layout, job: &Job) -> Result<(), String> {
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
