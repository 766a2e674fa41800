//! A plan made ready for the CPU, and the way of a frame through it: bands of rows, each
//! computed by whichever thread is free.

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use rayon::ThreadPool;

use super::band::Band;
use super::bilateral::BilateralJob;
use super::boxes::BoxJob;
#[cfg(target_arch = "x86_64")]
use super::byte_bilateral::ByteBilateralJob;
use super::fourier::FourierJob;
use super::integer::IntegerJob;
use super::isa::Isa;
use super::levels::LevelsJob;
use super::linear::LinearJob;
use super::planes::{Field, InputPlanes, OutputPlanes};
use super::streams::Streams;
use super::{check, naive, pool, scratch};
use crate::engine::Frame;
use crate::filter::plan::{Action, Algorithm, Job, Operation, Plan};

/// Bands per thread and grid: enough that a thread which is late leaves little for the others
/// to wait for.
const BANDS_PER_THREAD: usize = 4;
/// Rows of the smallest band, and for a window of more rows the same in windows: below, what is
/// computed twice at the seams costs more than the balance gains.
const MIN_BAND_ROWS: usize = 16;
const MIN_BAND_WINDOWS: usize = 4;

/// Nanoseconds of work for which a thread is woken: on a busy machine waking it takes as long.
const SHARE: u64 = 50_000;

/// Rows of one field of one part, computed by one thread.
struct Span {
    part: usize,
    field: Field,
    rows: Range<usize>,
}

/// Jobs that share planes (luma and chroma of packed YUV), so that every row has one writer.
struct Part {
    height: usize,
    /// Rows of the highest window of its jobs.
    window: usize,
    /// Rows of its bands, where not any will do.
    rows: Option<usize>,
    work: PartWork,
}

enum PartWork {
    /// Whole rows of these planes are the input's.
    Copy(Vec<usize>),
    Jobs(Vec<JobWork>),
}

/// How a job is computed: the first that can.
enum JobWork {
    /// `method=naive`: the job of this index of the plan, by the scalar path.
    Naive(usize),
    /// Copies and fills.
    Unfiltered(Streams),
    /// Large boxes of bytes.
    Box(BoxJob),
    /// Kernels of bytes whose sums are whole numbers of few bits: all small presets.
    Integer(IntegerJob),
    /// Any other linear kernel, deeper samples, premultiplied colours.
    Linear(LinearJob),
    /// Bilaterals of bytes, by channel or of RGB with the L1 distance, with AVX-512 VBMI.
    #[cfg(target_arch = "x86_64")]
    ByteBilateral(ByteBilateralJob),
    /// Any other bilateral.
    Bilateral(BilateralJob),
    /// `method=fft`.
    Fourier(FourierJob),
    /// `method=fast`.
    Levels(LevelsJob),
}

impl Part {
    fn new(plan: &Plan, jobs: Range<usize>, isa: Isa, threads: usize) -> Part {
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
                    .map(|job| JobWork::new(plan, job, isa, threads))
                    .collect(),
            )
        };
        Part {
            height: plan.jobs[jobs.start].group.height,
            window: plan.jobs[jobs].iter().map(window_rows).max().unwrap_or(1),
            rows: work.rows(),
            work,
        }
    }
}

impl PartWork {
    /// Rows of the bands that its jobs are best computed in.
    fn rows(&self) -> Option<usize> {
        let PartWork::Jobs(jobs) = self else {
            return None;
        };
        jobs.iter().find_map(|job| match job {
            JobWork::Fourier(fourier) => Some(fourier.rows()),
            _ => None,
        })
    }
}

impl JobWork {
    fn new(plan: &Plan, index: usize, isa: Isa, threads: usize) -> JobWork {
        let job = &plan.jobs[index];
        match &job.operation {
            _ if plan.algorithm == Algorithm::Naive => JobWork::Naive(index),
            Operation::None => JobWork::Unfiltered(Streams::new(&plan.layout, job)),
            Operation::Correlate(_) | Operation::Magnitude { .. }
                if plan.algorithm == Algorithm::Fft =>
            {
                JobWork::Fourier(FourierJob::new(&plan.layout, job, threads))
            }
            Operation::Correlate(_) | Operation::Magnitude { .. } => {
                let layout = &plan.layout;
                (BoxJob::new(layout, job, isa).map(JobWork::Box))
                    .or_else(|| IntegerJob::new(layout, job, isa).map(JobWork::Integer))
                    .unwrap_or_else(|| JobWork::Linear(LinearJob::new(layout, job)))
            }
            Operation::Bilateral(window) if plan.algorithm == Algorithm::Fast => {
                JobWork::Levels(LevelsJob::new(&plan.layout, job, window))
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
    progressive: Vec<Span>,
    interlaced: Vec<Span>,
    /// Nanoseconds that all threads together worked on the last frame.
    busy: AtomicU64,
}

impl Compiled {
    /// # Errors
    /// A sentence on what in the plan this engine cannot compute.
    pub fn new(plan: &Arc<Plan>, isa: Isa, pool: &'static ThreadPool) -> Result<Compiled, String> {
        check::plan(plan)?;
        let threads = pool.current_num_threads();
        let parts: Vec<Part> = (jobs_by_plane(&plan.jobs).into_iter())
            .map(|jobs| Part::new(plan, jobs, isa, threads))
            .collect();
        Ok(Compiled {
            plan: plan.clone(),
            pool,
            isa,
            progressive: spans(&parts, threads, false),
            interlaced: spans(&parts, threads, true),
            parts,
            busy: AtomicU64::new(0),
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
        let spans = if frame.interlaced {
            &self.interlaced
        } else {
            &self.progressive
        };
        let compute = |span: &Span| {
            // SAFETY: no two spans share a row of a plane, and unless planes overlap each row is
            // memory of its own; overlapping planes are written by this thread alone, and a band
            // lends out one row at a time.
            let mut band = unsafe { Band::new(&input, &output, span.field, span.rows.clone()) };
            self.part(&self.parts[span.part].work, &mut band);
        };
        if output.overlap(layout) {
            spans.iter().for_each(compute);
            return;
        }
        let busy = AtomicU64::new(0);
        pool::share_out(self.pool, self.helpers(), spans.len(), &|index| {
            let begin = Instant::now();
            compute(&spans[index]);
            busy.fetch_add(begin.elapsed().as_nanos() as u64, Ordering::Relaxed);
        });
        self.busy.store(busy.into_inner(), Ordering::Relaxed);
    }

    /// As many threads as the last frame had a [`SHARE`] for each.
    fn helpers(&self) -> usize {
        match self.busy.load(Ordering::Relaxed) {
            0 => usize::MAX,
            busy => (busy / SHARE) as usize,
        }
    }

    fn part(&self, work: &PartWork, band: &mut Band) {
        match work {
            PartWork::Copy(planes) => {
                for &plane in planes {
                    for y in band.rows() {
                        let (input, output) = band.row(plane, y);
                        output.copy_from_slice(input);
                    }
                }
            }
            PartWork::Jobs(jobs) => {
                for job in jobs {
                    self.job(job, band);
                }
            }
        }
    }

    fn job(&self, job: &JobWork, band: &mut Band) {
        let isa = self.isa;
        scratch::with(|scratch| match job {
            JobWork::Naive(index) => naive::filter(&self.plan, &self.plan.jobs[*index], band),
            JobWork::Unfiltered(streams) => streams.write_unfiltered(isa, band),
            JobWork::Box(boxes) => boxes.filter(isa, band, scratch),
            JobWork::Integer(integer) => integer.filter(isa, band, scratch),
            JobWork::Linear(linear) => linear.filter(isa, band, scratch),
            #[cfg(target_arch = "x86_64")]
            JobWork::ByteBilateral(bilateral) => bilateral.filter(isa, band, scratch),
            JobWork::Bilateral(bilateral) => bilateral.filter(isa, band, scratch),
            JobWork::Fourier(fourier) => fourier.filter(isa, band, scratch),
            JobWork::Levels(levels) => levels.filter(isa, band, scratch),
        });
    }
}

/// Rows that an output row of a job depends on.
fn window_rows(job: &Job) -> usize {
    let radius = match &job.operation {
        Operation::None => 0,
        Operation::Correlate(kernel) => kernel.taps.radius().1,
        Operation::Magnitude { x, y } => x.taps.radius().1.max(y.taps.radius().1),
        Operation::Bilateral(window) => window.radius_y,
    };
    2 * radius + 1
}

/// Cuts the rows of every part into bands.
fn spans(parts: &[Part], threads: usize, interlaced: bool) -> Vec<Span> {
    let mut spans = Vec::new();
    for (part, of_part) in parts.iter().enumerate() {
        let (height, window) = (of_part.height, of_part.window);
        for field in Field::all(height, interlaced) {
            let balanced = field.height.div_ceil(threads * BANDS_PER_THREAD);
            let rows = balanced.max(MIN_BAND_WINDOWS * window).max(MIN_BAND_ROWS);
            // Yet every thread is to have something to do.
            let rows = rows.min(field.height.div_ceil(threads).max(MIN_BAND_ROWS));
            let rows = of_part.rows.unwrap_or(rows);
            spans.extend((0..field.height).step_by(rows).map(|y| Span {
                part,
                field,
                rows: y..(y + rows).min(field.height),
            }));
        }
    }
    spans
}

/// Parts the jobs into the smallest runs of which no two have a plane in common.
pub fn jobs_by_plane(jobs: &[Job]) -> Vec<Range<usize>> {
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
