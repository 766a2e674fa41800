//! The ladder: the steps that the field's tutorials take from plain code to what a GPU can do, each
//! computed and measured on this machine, beside what the machine's memory allows and how exact the
//! result is.

pub mod cpu;
pub mod job;
pub mod steps;

use std::time::Duration;

pub use job::{Errors, Job};

use super::cuda::abi::Extent;
use super::cuda::abi::ladder::Task;
use super::cuda::ladder::Gpu;
use steps::{Step, Way};

/// Which memory a step works on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Place {
    Host,
    Device,
}

/// Times of copies between pinned and device memory, of what a step reads and writes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Transfer {
    pub up: Duration,
    pub down: Duration,
}

/// What was found of one step.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Measured {
    pub place: Place,
    /// Median, of the filter alone.
    pub time: Duration,
    /// `None` where nothing is transferred.
    pub transfer: Option<Transfer>,
    /// Read from memory and written to it, every byte once for each kernel of the step.
    pub bytes: usize,
    /// What a copy takes that moves as many bytes in the same memory, the fastest of those tried.
    pub floor: Duration,
    /// Pictures, tables and what lies between kernels.
    pub memory_bytes: usize,
    /// Of a block; the most of its kernels, and `None` for what is not known.
    pub shared_bytes: Option<usize>,
    pub block: Option<Extent>,
    /// Of a thread; the most of its kernels.
    pub registers: Option<u32>,
    /// Threads that a multiprocessor can hold of those that it has room for, from 0 to 1, by
    /// registers, shared memory and block size; the least of its kernels.
    pub occupancy: Option<f64>,
    pub errors: Errors,
}

impl Measured {
    /// Bytes a second.
    pub fn bandwidth(&self) -> f64 {
        self.bytes as f64 / self.time.as_secs_f64().max(1e-9)
    }

    /// How many times as long as the copy.
    pub fn over_floor(&self) -> f64 {
        self.time.as_secs_f64() / self.floor.as_secs_f64().max(1e-9)
    }

    /// Upload, filter and download one after the other.
    pub fn with_transfer(&self) -> Duration {
        let transfer = self.transfer.map_or(Duration::ZERO, |t| t.up + t.down);
        self.time + transfer
    }
}

/// A step and what came of it.
#[derive(Debug, Clone)]
pub struct Row {
    pub step: Step,
    /// What was measured, or why nothing was, in one line.
    pub outcome: Result<Measured, String>,
}

/// All steps of a job.
#[derive(Debug, Clone)]
pub struct Ladder {
    pub task: Task,
    /// For people.
    pub title: String,
    /// For programs.
    pub name: String,
    pub rows: Vec<Row>,
}

impl Ladder {
    /// The time that speed-ups are relative to.
    pub fn first(&self) -> Option<Duration> {
        let first = self.rows.first()?.outcome.as_ref().ok()?;
        Some(first.time)
    }
}

/// The GPU, or why there is none, in one line.
pub type MaybeGpu = Result<Gpu, String>;

/// Takes every step of `job`, and tells of each when it is done.
pub fn climb(job: &Job, gpu: &MaybeGpu, told: &mut dyn FnMut(&Row)) -> Ladder {
    let exact = job.exact();
    let mut rows = Vec::new();
    for step in steps::of(job.task) {
        let outcome = take(job, &step, gpu, &exact);
        let row = Row { step, outcome };
        told(&row);
        rows.push(row);
    }
    Ladder {
        task: job.task,
        title: job.title(),
        name: job.name(),
        rows,
    }
}

fn take(job: &Job, step: &Step, gpu: &MaybeGpu, exact: &[f64]) -> Result<Measured, String> {
    match &step.way {
        Way::OneThread => cpu::one_thread(job, exact).map_err(|error| error.to_string()),
        Way::AllThreads => cpu::all_threads(job, exact).map_err(|error| error.to_string()),
        Way::CpuMethod(method) => {
            cpu::by_method(job, *method, exact).map_err(|error| not_offered(&error))
        }
        Way::Impossible(reason) => Err((*reason).to_owned()),
        Way::Kernels { kernels, block } => {
            let gpu = gpu.as_ref().map_err(Clone::clone)?;
            gpu.take(job, kernels, *block, exact)
        }
        Way::GpuMethod(method) => {
            let gpu = gpu.as_ref().map_err(Clone::clone)?;
            (gpu.by_method(job, *method, exact)).map_err(|error| not_offered(&error))
        }
    }
}

/// A method that an engine does not have is no failure.
fn not_offered(error: &super::EngineError) -> String {
    match error.call.as_str() {
        "preparing a plan" => format!("not available: {}", error.reason),
        _ => error.to_string(),
    }
}
