//! The first steps: plain code on one thread, and what the CPU engine makes of all of them.

use std::sync::Arc;
use std::time::{Duration, Instant};

use super::job::Job;
use super::{Measured, Place};
use crate::engine::cpu::{self, CpuEngine, correlate};
use crate::engine::cuda::abi::ladder::{RADIUS, Sample, Task};
use crate::engine::{Engine, EngineError, Frame, InputFrame, OutputFrame, PlaneSpan};
use crate::filter::plan::{Abilities, Algorithm, Plan};
use crate::filter::spec::Method;
use crate::filter::{FilterSpec, Layout};

/// What the repetitions of one step are to take, where that leaves one.
const MOMENT: Duration = Duration::from_millis(400);
const MOST_REPETITIONS: usize = 15;

/// The median time of `work`, which is done once beforehand to bring up clocks, caches and threads.
fn time<E>(mut work: impl FnMut() -> Result<(), E>) -> Result<Duration, E> {
    let mut timed = || {
        let started = Instant::now();
        work().map(|()| started.elapsed())
    };
    let first = timed()?;
    let fitting = MOMENT.as_nanos() / first.as_nanos().max(1);
    let mut times = Vec::new();
    for _ in 0..(fitting as usize).clamp(1, MOST_REPETITIONS) {
        times.push(timed()?);
    }
    times.sort_unstable();
    Ok(times[times.len() / 2])
}

/// The samples that a job's picture is made of.
fn sample(job: &Job) -> Sample {
    match job.task {
        Task::Convolve => Sample::F32,
        Task::Bilateral => Sample::U8,
    }
}

fn measured(
    job: &Job,
    time: Duration,
    floor: Duration,
    results: &[f64],
    exact: &[f64],
) -> Measured {
    let bytes = 2 * job.values.len() * sample(job).bytes();
    Measured {
        place: Place::Host,
        time,
        transfer: None,
        bytes,
        floor,
        memory_bytes: bytes,
        shared_bytes: None,
        block: None,
        registers: None,
        occupancy: None,
        errors: job.errors(results, exact),
    }
}

/// Loops as everybody writes them first.
pub fn one_thread(job: &Job, exact: &[f64]) -> Result<Measured, EngineError> {
    let bytes = job.encode(sample(job), job.width);
    let mut copied = vec![0u8; bytes.len()];
    let floor = time(|| -> Result<(), EngineError> {
        copied.copy_from_slice(std::hint::black_box(&bytes));
        std::hint::black_box(&mut copied);
        Ok(())
    })?;
    match job.task {
        Task::Convolve => {
            let mut out = vec![0.0f32; job.values.len()];
            let time = time(|| -> Result<(), EngineError> {
                plain_convolve(std::hint::black_box(job), &mut out);
                Ok(())
            })?;
            let results: Vec<f64> = out.iter().map(|&value| f64::from(value)).collect();
            Ok(measured(job, time, floor, &results, exact))
        }
        Task::Bilateral => {
            let (mut out, codes) = (vec![0u8; job.values.len()], job.codes());
            let time = time(|| -> Result<(), EngineError> {
                plain_bilateral(std::hint::black_box(job), &codes, &mut out);
                Ok(())
            })?;
            let results = job.decode(Sample::U8, job.width, &out);
            Ok(measured(job, time, floor, &results, exact))
        }
    }
}

fn plain_convolve(job: &Job, out: &mut [f32]) {
    let (width, height, weights) = (job.width, job.height, job.weights());
    for y in 0..height {
        for x in 0..width {
            let mut sum = 0.0;
            for j in 0..3 {
                for i in 0..3 {
                    let u = (x + i).saturating_sub(1).min(width - 1);
                    let v = (y + j).saturating_sub(1).min(height - 1);
                    sum += weights[3 * j + i] * job.values[v * width + u];
                }
            }
            out[y * width + x] = sum;
        }
    }
}

fn plain_bilateral(job: &Job, codes: &[u8], out: &mut [u8]) {
    let (width, height) = (job.width, job.height);
    let (exponents, color) = (job.exponents(), job.color());
    let side = 2 * RADIUS + 1;
    for y in 0..height {
        for x in 0..width {
            let centre = f32::from(codes[y * width + x]);
            let (mut sum, mut weights) = (0.0f32, 0.0f32);
            for j in 0..side {
                for i in 0..side {
                    let u = (x + i).saturating_sub(RADIUS).min(width - 1);
                    let v = (y + j).saturating_sub(RADIUS).min(height - 1);
                    let difference = f32::from(codes[v * width + u]) - centre;
                    let exponent = exponents[side * j + i] + color * difference * difference;
                    let weight = exponent.exp2();
                    sum += weight * difference;
                    weights += weight;
                }
            }
            out[y * width + x] = (centre + sum / weights).round_ties_even() as u8;
        }
    }
}

/// The CPU engine's vectors and threads.
pub fn all_threads(job: &Job, exact: &[f64]) -> Result<Measured, EngineError> {
    match job.task {
        Task::Convolve => {
            let (size, weights) = ((job.width, job.height), job.weights());
            let stride = correlate::stride(job.width);
            let mut out = vec![0.0f32; stride * job.height];
            let time = time(|| correlate::correlate3(&job.values, size, &weights, &mut out))?;
            let rows = out.chunks_exact(stride);
            let results: Vec<f64> = rows
                .flat_map(|row| row[..job.width].iter().map(|&value| f64::from(value)))
                .collect();
            Ok(measured(job, time, floor(job)?, &results, exact))
        }
        Task::Bilateral => by_method(job, Method::Auto, exact),
    }
}

/// What a copy by all threads takes.
fn floor(job: &Job) -> Result<Duration, EngineError> {
    let bytes = job.encode(sample(job), job.width);
    let mut copied = vec![0; bytes.len()];
    time(|| correlate::copy(&bytes, &mut copied))
}

/// The CPU engine with one of its methods, from frame to frame.
///
/// # Errors
/// When it has no such method, or fails.
pub fn by_method(job: &Job, method: Method, exact: &[f64]) -> Result<Measured, EngineError> {
    let engine = CpuEngine::new()?;
    let plan = plan(job, method, &cpu::ABILITIES)?;
    let prepared = engine.prepare(&plan, true)?.expect("it never has to wait");
    let mut frame = Some(frame(job, &plan.layout));
    let time = time(|| {
        let (done, timing) = prepared.submit(frame.take().expect("given back")).wait();
        frame = Some(done);
        timing.map(|_| ())
    })?;
    let (bytes, stride) = frame.as_ref().expect("given back").output.plane(0);
    let results = job.decode(Sample::U8, stride, &rows(bytes, stride, job));
    Ok(measured(job, time, floor(job)?, &results, exact))
}

/// Whole rows of a plane, whose last one may end with its pixels.
pub fn rows(bytes: &[u8], stride: usize, job: &Job) -> Vec<u8> {
    let mut rows = bytes.to_vec();
    rows.resize(stride * job.height, 0);
    rows
}

/// The job as a plan over 8-bit grey, by one of an engine's methods.
///
/// # Errors
/// When the engine has no such method.
pub fn plan(job: &Job, method: Method, abilities: &Abilities) -> Result<Arc<Plan>, EngineError> {
    let refused = |reason: String| EngineError {
        call: "preparing a plan".into(),
        reason,
        device: abilities.engine.into(),
    };
    // Asked beforehand: the plan's own refusal quotes names of the element's types, which are the
    // plugin's where it is loaded.
    if method == Method::Fast && !abilities.algorithms.contains(&Algorithm::Fast) {
        let engine = abilities.engine;
        return Err(refused(format!(
            "method=fast is not in this version for the {engine}"
        )));
    }
    let grey = gst_video::VideoFormat::Gray8;
    let info = gst_video::VideoInfo::builder(grey, job.width as u32, job.height as u32);
    let info = info.build().map_err(|error| refused(error.to_string()))?;
    let layout = Layout::new(&info).map_err(|error| refused(error.to_string()))?;
    let spec = FilterSpec {
        method,
        ..job.spec()
    };
    let plan = Plan::new(&spec, &Arc::new(layout), abilities);
    plan.map(Arc::new)
        .map_err(|error| refused(error.to_string()))
}

/// The picture as a frame of 8-bit grey.
pub fn frame(job: &Job, layout: &Layout) -> Frame {
    let span = PlaneSpan {
        memory: 0,
        offset: 0,
        stride: job.width,
    };
    let codes = job.codes();
    let out = vec![0u8; codes.len()];
    Frame {
        input: InputFrame::new(layout, vec![Box::new(codes)], vec![span]).expect("it fits"),
        output: OutputFrame::new(layout, vec![Box::new(out)], vec![span]).expect("it fits"),
        interlaced: false,
    }
}
