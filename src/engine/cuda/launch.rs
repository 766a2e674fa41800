//! A plan as launches of kernels: which kernel, with what parameter, over which jobs.

use std::ops::Range;
use std::sync::Arc;

use super::abi::band::Samples;
use super::abi::{
    self, Form, Kernel, LINEAR_WEIGHTS, MAX_CHANNELS, MAX_JOBS, MAX_RADIUS, ROW_ALIGNMENT, Weights,
};
use super::api::CUdeviceptr;
use super::choose::{self, Capability};
use super::context::{Current, Stream};
use super::error::CudaError;
use super::module::Function;
use super::transfer::DevicePlane;
use crate::engine::cpu;
use crate::filter::layout::Sample;
use crate::filter::plan::{Job, Operation, Plan};
use crate::filter::spec::{Border, Precision};

mod jobs;
mod parameter;
mod parts;

use self::parameter::{
    Kernels, Parameter, add_chroma, add_digits, bilateral_parameter, check_window,
    convolve_parameter, fast_parameter, halves, matrices, put_by_columns, spectrum, split,
};

pub use self::parts::Part;

/// A frame in device memory.
#[derive(Clone, Copy)]
pub struct Placed<'a> {
    pub start: CUdeviceptr,
    pub planes: &'a [DevicePlane],
}

/// The launches that compute a plan, all but the addresses.
pub struct Launches {
    plan: Arc<Plan>,
    steps: Vec<Step>,
    /// Of all steps, one behind the other, as they lie in device memory: the bits of floats, or words
    /// of matrices.
    weights: Vec<u32>,
}

/// What was found of a job beforehand.
struct Chosen {
    kernel: Kernel,
    samples: Samples,
    sums_are_whole: bool,
}

impl Chosen {
    fn new(plan: &Plan, job: &Job, capability: Capability) -> Result<Chosen, String> {
        let kernel = choose::of(plan, job, capability).ok_or_else(|| {
            let algorithm = plan.algorithm;
            format!("the GPU has no {algorithm:?} algorithm for this kernel")
        })?;
        Ok(Chosen {
            kernel,
            samples: choose::samples(&plan.layout, job),
            sums_are_whole: job.sums_are_whole(plan.layout.max_code()),
        })
    }

    /// Whether a launch for jobs of which this is one takes `other`, too, if both have one operation.
    fn includes(&self, other: &Chosen) -> bool {
        self.kernel == other.kernel
            && self.sums_are_whole == other.sums_are_whole
            && (self.kernel.weights() != Weights::Bands || self.samples.include(other.samples))
    }
}

/// Jobs with one operation, or with two that one launch computes.
struct Step {
    kernel: Kernel,
    /// Indices of the plan's jobs.
    jobs: Vec<usize>,
    /// One of them whose operation is the second.
    second: Option<usize>,
    parameter: Parameter,
    radius: (usize, usize),
    /// Whether all jobs, of packed 4:2:2, are described to it as one.
    packed_422: bool,
    /// Index of its first weight in `Launches::weights`.
    first_weight: usize,
}

/// What one launch computes: all rows of some jobs, or the rows of some tiles of one.
enum Extent<'a> {
    Jobs(&'a [abi::Job]),
    Tiles(&'a abi::Job, Range<u32>),
}

impl Launches {
    /// Those for a device of `capability`.
    ///
    /// # Errors
    /// A sentence on what in the plan the GPU cannot compute.
    pub fn new(plan: &Arc<Plan>, capability: Capability) -> Result<Launches, String> {
        check(plan)?;
        let mut made = Launches {
            plan: plan.clone(),
            steps: Vec::new(),
            weights: Vec::new(),
        };
        let unfiltered = |job: &Job| job.operation == Operation::None;
        if let Some(kernel) =
            choose::of_packed_422(plan.algorithm, &plan.layout, &plan.jobs, capability)
        {
            let filtered = plan.jobs.iter().position(|job| !unfiltered(job));
            let index = filtered.expect("a kernel is chosen for what is filtered");
            made.add_step(index, &plan.jobs[index], kernel)?;
            let step = &mut made.steps[0];
            step.jobs = (0..plan.jobs.len()).collect();
            step.packed_422 = true;
            let others = plan.jobs.iter().rev().find(|job| !unfiltered(job));
            if let Some(chroma) = others.filter(|job| job.operation != plan.jobs[index].operation) {
                add_chroma(&mut step.parameter, kernel.form(), &chroma.operation);
            }
            return Ok(made);
        }
        let chosen = (plan.jobs.iter()).map(|job| Chosen::new(plan, job, capability));
        let chosen = chosen.collect::<Result<Vec<Chosen>, String>>()?;
        for (index, job) in plan.jobs.iter().enumerate().filter(|(_, j)| !unfiltered(j)) {
            let same = made.steps.iter_mut().find(|step| {
                let is_of_step = |of_step: usize| {
                    let other = &plan.jobs[of_step];
                    other.operation == job.operation
                        && other.border == job.border
                        && chosen[of_step].includes(&chosen[index])
                };
                is_of_step(step.jobs[0]) || step.second.is_some_and(is_of_step)
            });
            let kernel = chosen[index].kernel;
            if let Some(step) = same {
                step.jobs.push(index);
            } else if !made.join_step(index, job, kernel) {
                made.add_step(index, job, kernel)?;
            }
        }
        // Copies and fills are every kernel's by-work.
        for (index, job) in plan.jobs.iter().enumerate().filter(|(_, j)| unfiltered(j)) {
            let takes = |step: &&mut Step| choose::carries(step.kernel, &plan.layout, job);
            match made.steps.iter_mut().find(takes) {
                Some(step) => step.jobs.push(index),
                None => made.add_step(index, job, chosen[index].kernel)?,
            }
        }
        Ok(made)
    }

    /// Adds `job`, for which `kernel` was chosen, to a step with another operation, if there is one that a kernel computes
    /// with this one in one launch.
    fn join_step(&mut self, index: usize, job: &Job, kernel: Kernel) -> bool {
        let plan = self.plan.clone();
        let both = |step: &Step| {
            let first = &plan.jobs[step.jobs[0]];
            let together = step.kernel.together(kernel)?;
            match (&first.operation, &job.operation) {
                (Operation::Correlate(first_of_both), Operation::Correlate(second))
                    if step.second.is_none()
                        && first.border == job.border
                        && first_of_both.divisor == second.divisor =>
                {
                    Some((together, [first_of_both, second]))
                }
                _ => None,
            }
        };
        let found = (self.steps.iter().enumerate())
            .find_map(|(place, step)| both(step).map(|found| (place, found)));
        let Some((place, (kernel, both))) = found else {
            return false;
        };
        let (parameter, _) = convolve_parameter(&both, Kernels::OfJobs, kernel.form());
        let parameter = self.common(parameter, &job.border);
        let step = &mut self.steps[place];
        step.kernel = kernel;
        step.jobs.push(index);
        step.second = Some(index);
        step.parameter = parameter;
        step.radius = radius(kernel, &job.operation);
        true
    }

    fn add_step(&mut self, index: usize, job: &Job, kernel: Kernel) -> Result<(), String> {
        let (mut parameter, weights) = match &job.operation {
            Operation::Bilateral(bilateral) if kernel.parameter() == abi::Parameter::Fast => {
                let max_code = self.plan.layout.max_code();
                (fast_parameter(bilateral, max_code), Vec::new())
            }
            Operation::Bilateral(bilateral) => {
                let (launch, weights) = bilateral_parameter(bilateral);
                (Parameter::Bilateral(launch), weights)
            }
            Operation::None => (Parameter::Convolve(Box::default()), Vec::new()),
            Operation::Correlate(correlation) => {
                convolve_parameter(&[correlation], Kernels::OfJobs, kernel.form())
            }
            Operation::Magnitude { x, y } => {
                convolve_parameter(&[x, y], Kernels::OfMagnitude, kernel.form())
            }
        };
        let in_device_memory =
            self.weights_in_device_memory(&mut parameter, kernel, job, weights)?;
        // Kernels read lines of weights four at a time.
        self.weights
            .resize(self.weights.len().next_multiple_of(4), 0);
        self.steps.push(Step {
            kernel,
            jobs: vec![index],
            second: None,
            parameter: self.common(parameter, &job.border),
            radius: radius(kernel, &job.operation),
            packed_422: false,
            first_weight: self.weights.len(),
        });
        self.weights.extend(in_device_memory);
        Ok(())
    }

    /// What `kernel` reads from device memory of `job`, whose plain weights are `weights`. Says in `parameter` what
    /// it means.
    ///
    /// # Errors
    /// Where the kernel does not take as many weights, or none such.
    fn weights_in_device_memory(
        &self,
        parameter: &mut Parameter,
        kernel: Kernel,
        job: &Job,
        weights: Vec<f32>,
    ) -> Result<Vec<u32>, String> {
        let count = weights.len();
        let plain = weights.into_iter().map(f32::to_bits);
        let no_weights = || format!("{} has no such weights", kernel.name());
        Ok(match kernel.weights() {
            Weights::Device => plain.collect(),
            Weights::Columns => {
                put_by_columns(parameter);
                Vec::new()
            }
            Weights::Matrices => matrices(&job.operation),
            Weights::Halves => {
                let reach = kernel.reach().ok_or_else(no_weights)?;
                halves(&job.operation, reach)
            }
            Weights::Split => {
                let reach = kernel.reach().ok_or_else(no_weights)?;
                let table = split(&job.operation, reach).ok_or_else(no_weights)?;
                table.into_iter().chain(plain).collect()
            }
            Weights::Bands => {
                let samples = choose::samples(&self.plan.layout, job);
                let digits = add_digits(parameter, kernel, &job.operation, samples)?;
                plain.chain(digits).collect()
            }
            Weights::Spectrum => spectrum(job, self.plan.layout.max_code()),
            Weights::Inline if count > LINEAR_WEIGHTS => {
                return Err(format!("{count} weights; a launch takes {LINEAR_WEIGHTS}"));
            }
            Weights::Inline => Vec::new(),
        })
    }

    /// Fills in what all jobs have in common.
    fn common(&self, mut parameter: Parameter, border: &Border) -> Parameter {
        let layout = &self.plan.layout;
        let frame = parameter.frame();
        (frame.sample, frame.shift) = match layout.sample {
            Sample::U8 => (abi::sample::U8, 0),
            Sample::U16Le { shift, .. } => (abi::sample::U16_LE, u32::from(shift)),
            Sample::U16Be => (abi::sample::U16_BE, 0),
        };
        frame.max_code = layout.max_code() as f32;
        frame.border = match border {
            Border::Replicate => abi::border::REPLICATE,
            Border::Reflect => abi::border::REFLECT,
            Border::Reflect101 => abi::border::REFLECT101,
            Border::Wrap => abi::border::WRAP,
            Border::Constant => abi::border::CONSTANT,
        };
        parameter
    }

    /// The kernels that are launched.
    pub fn kernels(&self) -> impl Iterator<Item = Kernel> + '_ {
        self.steps.iter().map(|step| step.kernel)
    }

    /// The lowest precision of the weights' arithmetic in them.
    pub fn precision(&self) -> Precision {
        match self.kernels().any(Kernel::rounds_weights) {
            true => Precision::Fp16,
            false => Precision::Fp32,
        }
    }

    /// The weights that the launches read from device memory.
    pub fn weights(&self) -> &[u32] {
        &self.weights
    }

    /// Launches all for one frame.
    ///
    /// # Safety
    /// `input` and `output` must hold a frame of the plan's layout, and `weights` the
    /// [weights](Self::weights); all of it must stay valid until the stream has passed this point,
    /// and nothing else may use the output meanwhile. The functions must be those of
    /// [kernels](Self::kernels), in that order, of the current context.
    ///
    /// # Errors
    /// As the driver's, also those of earlier work.
    pub unsafe fn enqueue(
        &self,
        current: &Current,
        stream: &Stream,
        functions: &[Function],
        (input, output): (Placed, Placed),
        weights: CUdeviceptr,
        interlaced: bool,
    ) -> Result<(), CudaError> {
        for (step, function) in self.steps.iter().zip(functions) {
            let jobs = self.jobs(step, input, output, interlaced);
            let at = weights + (step.first_weight * size_of::<u32>()) as u64;
            for jobs in jobs.chunks(MAX_JOBS) {
                // SAFETY: passed on to the caller; the addresses lie in input and output, because
                // the plan was checked against its layout.
                unsafe { step.launch(current, stream, *function, Extent::Jobs(jobs), at)? };
            }
        }
        Ok(())
    }
}

impl Step {
    /// # Safety
    /// As [`Launches::enqueue`].
    unsafe fn launch(
        &self,
        current: &Current,
        stream: &Stream,
        function: Function,
        extent: Extent,
        weights: CUdeviceptr,
    ) -> Result<(), CudaError> {
        let jobs = match &extent {
            Extent::Jobs(jobs) => jobs,
            Extent::Tiles(job, _) => std::slice::from_ref(*job),
        };
        let from_device = self.kernel.weights() != Weights::Inline;
        let mut parameter = self.parameter.clone();
        parameter.set_weights(if from_device { weights } else { 0 });
        let frame = parameter.frame();
        frame.jobs[..jobs.len()].copy_from_slice(jobs);
        frame.job_count = jobs.len() as u32;
        let mut geometry = self.kernel.place(frame, self.radius);
        if let Extent::Tiles(_, tiles) = &extent {
            // Kernels subtract it from their row of tiles, so this adds the tiles above.
            frame.jobs[0].first_tile_row = tiles.start.wrapping_neg();
            geometry.grid.y = tiles.end - tiles.start;
        }
        debug_assert!(!self.kernel.takes_whole_rows() || jobs.iter().all(begins_rows_aligned));
        let compact = match (&parameter, self.kernel.parameter()) {
            (Parameter::Convolve(launch), abi::Parameter::Direct3) => {
                Some(abi::Direct3Launch::new(launch))
            }
            _ => None,
        };
        let address = match &compact {
            Some(launch) => (&raw const *launch).cast(),
            None => parameter.address(),
        };
        // SAFETY: the kernel takes the structure of its module, which is at `address` by
        // construction; the rest is passed on to the caller.
        let launched = unsafe {
            current.api().launch(
                function.raw(),
                [geometry.grid.x, geometry.grid.y, 1],
                [geometry.block.x, geometry.block.y, 1],
                geometry.shared_bytes,
                stream.raw(),
                address,
            )
        };
        current
            .check(launched)
            .map_err(|error| error.with_detail(&format!("kernel {}", self.kernel.name())))
    }
}

/// How far `kernel` reaches beyond the centre with the weights of `operation`, filled up to its form.
fn radius(kernel: Kernel, operation: &Operation) -> (usize, usize) {
    match kernel.form() {
        Form::Any => choose::radius(operation),
        Form::Full(side) | Form::Scaled(side) => (side / 2, side / 2),
    }
}

/// As all planes in device memory do.
fn begins_rows_aligned(job: &abi::Job) -> bool {
    let first = &job.channels[0];
    let strides = (first.input_stride | first.output_stride) as usize;
    let addresses = (first.input | first.output) as usize;
    addresses.is_multiple_of(ROW_ALIGNMENT)
        && (job.height == 1 || strides.is_multiple_of(ROW_ALIGNMENT))
}

/// Refuses what the kernels rely on never to meet.
fn check(plan: &Plan) -> Result<(), String> {
    for job in &plan.jobs {
        cpu::check_job(&plan.layout, job)?;
        cpu::check_levels(plan, job)?;
        if job.group.channels.len() > MAX_CHANNELS {
            return Err(format!(
                "a group of {} channels; the kernels take {MAX_CHANNELS}",
                job.group.channels.len()
            ));
        }
        let (rx, ry) = choose::radius(&job.operation);
        if rx.max(ry) > MAX_RADIUS {
            return Err(format!(
                "a radius of {rx}x{ry}; the kernels reach {MAX_RADIUS}"
            ));
        }
        if let Operation::Bilateral(bilateral) = &job.operation {
            check_window(bilateral)?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests;
