//! A plan as launches of kernels: which kernel, with what parameter, over which jobs.

use std::sync::Arc;

use super::abi::{
    self, INLINE_WEIGHTS, Kernel, MAX_CHANNELS, MAX_JOBS, MAX_RADIUS, ROW_ALIGNMENT, Weights,
};
use super::api::CUdeviceptr;
use super::choose;
use super::context::{Current, Stream};
use super::error::CudaError;
use super::module::Function;
use super::transfer::DevicePlane;
use crate::engine::cpu;
use crate::filter::layout::{Channel, Role, Sample};
use crate::filter::plan::{Action, Bilateral, Correlation, Job, Operation, Plan, Taps};
use crate::filter::spec::{Border, Distance, Precision};

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
    /// Of all steps, one behind the other, as they lie in device memory.
    weights: Vec<f32>,
}

/// Jobs with one operation.
struct Step {
    kernel: Kernel,
    /// Indices of the plan's jobs.
    jobs: Vec<usize>,
    parameter: Parameter,
    radius: (usize, usize),
    /// Index of its first weight in `Launches::weights`.
    first_weight: usize,
}

enum Parameter {
    Convolve(Box<abi::ConvolveLaunch>),
    Bilateral(Box<abi::BilateralLaunch>),
}

impl Launches {
    /// # Errors
    /// A sentence on what in the plan the GPU cannot compute.
    pub fn new(plan: &Arc<Plan>) -> Result<Launches, String> {
        check(plan)?;
        let mut made = Launches {
            plan: plan.clone(),
            steps: Vec::new(),
            weights: Vec::new(),
        };
        let unfiltered = |job: &Job| job.operation == Operation::None;
        for (index, job) in plan.jobs.iter().enumerate().filter(|(_, j)| !unfiltered(j)) {
            let kernel = |job| choose::kernel(plan.algorithm, &plan.layout, job);
            let same = made.steps.iter_mut().find(|step| {
                let first = &plan.jobs[step.jobs[0]];
                first.operation == job.operation
                    && first.border == job.border
                    && kernel(first) == kernel(job)
            });
            match same {
                Some(step) => step.jobs.push(index),
                None => made.add_step(index, job)?,
            }
        }
        // Copies and fills are every kernel's by-work.
        for (index, job) in plan.jobs.iter().enumerate().filter(|(_, j)| unfiltered(j)) {
            let takes = |step: &&mut Step| choose::carries(step.kernel, &plan.layout, job);
            match made.steps.iter_mut().find(takes) {
                Some(step) => step.jobs.push(index),
                None => made.add_step(index, job)?,
            }
        }
        Ok(made)
    }

    fn add_step(&mut self, index: usize, job: &Job) -> Result<(), String> {
        let algorithm = self.plan.algorithm;
        let kernel = choose::kernel(algorithm, &self.plan.layout, job)
            .ok_or_else(|| format!("the GPU has no {algorithm:?} algorithm for this kernel"))?;
        let (parameter, weights) = match &job.operation {
            Operation::Bilateral(bilateral) => {
                let (launch, weights) = bilateral_parameter(bilateral);
                (Parameter::Bilateral(launch), weights)
            }
            Operation::None => (Parameter::Convolve(Box::default()), Vec::new()),
            Operation::Correlate(kernel) => convolve_parameter(&[kernel]),
            Operation::Magnitude { x, y } => convolve_parameter(&[x, y]),
        };
        // Kernels read lines of weights four at a time.
        self.weights
            .resize(self.weights.len().next_multiple_of(4), 0.0);
        self.steps.push(Step {
            kernel,
            jobs: vec![index],
            parameter: self.common(parameter, &job.border),
            radius: choose::radius(&job.operation),
            first_weight: self.weights.len(),
        });
        match kernel.weights() {
            Weights::Device => self.weights.extend(weights),
            Weights::Inline if weights.len() > INLINE_WEIGHTS => {
                return Err(format!(
                    "{} weights; a launch takes {INLINE_WEIGHTS}",
                    weights.len()
                ));
            }
            Weights::Inline => (),
        }
        Ok(())
    }

    /// Fills in what all jobs have in common.
    fn common(&self, mut parameter: Parameter, border: &Border) -> Parameter {
        let layout = &self.plan.layout;
        let frame = parameter.frame();
        (frame.sample, frame.shift) = match layout.sample {
            Sample::U8 => (abi::sample::U8, 0),
            Sample::U16Le { shift } => (abi::sample::U16_LE, u32::from(shift)),
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

    /// The weights that the launches read from device memory.
    pub fn weights(&self) -> &[f32] {
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
            let at = weights + (step.first_weight * size_of::<f32>()) as u64;
            for jobs in jobs.chunks(MAX_JOBS) {
                // SAFETY: passed on to the caller; the addresses lie in input and output, because
                // the plan was checked against its layout.
                unsafe { step.launch(current, stream, *function, jobs, at)? };
            }
        }
        Ok(())
    }

    /// The jobs of a step, once for each field that has rows.
    fn jobs(&self, step: &Step, input: Placed, output: Placed, interlaced: bool) -> Vec<abi::Job> {
        let fields = if interlaced { 2 } else { 1 };
        let jobs = step.jobs.iter().map(|&index| &self.plan.jobs[index]);
        jobs.flat_map(|job| (0..fields).map(move |field| (job, field)))
            .filter(|(job, field)| job.group.height > *field)
            .map(|(job, field)| self.job(job, input, output, field, fields))
            .flat_map(|job| match step.kernel.parameter() {
                abi::Parameter::Direct3 => packed_jobs(job),
                _ => vec![job],
            })
            .collect()
    }

    fn job(
        &self,
        job: &Job,
        input: Placed,
        output: Placed,
        field: usize,
        fields: usize,
    ) -> abi::Job {
        let group = &job.group;
        // Packed channels stand in the order of their addresses.
        let order = group.by_address();
        let is_packed = group.is_packed(self.plan.layout.sample.bytes());
        let is_bilateral = matches!(job.operation, Operation::Bilateral(_));
        let mut made = abi::Job {
            channel_count: order.len() as u32,
            width: group.width as u32,
            height: ((group.height + fields - 1 - field) / fields) as u32,
            packed: is_packed.into(),
            alpha: -1,
            ..abi::Job::default()
        };
        for (place, &index) in order.iter().enumerate() {
            let (channel, action) = (&group.channels[index], job.actions[index]);
            made.channels[place] = abi::Channel {
                input: address(input, channel, field),
                output: address(output, channel, field),
                input_stride: (input.planes[channel.plane].stride * fields) as u32,
                output_stride: (output.planes[channel.plane].stride * fields) as u32,
                step: channel.step as u32,
                ..of_action(action)
            };
            let is_filtered = matches!(action, Action::Filter { .. });
            if is_bilateral && is_filtered && channel.role == Role::Colour {
                made.joint |= 1 << place;
            }
            if job.premultiply && is_filtered && channel.role == Role::Alpha {
                made.alpha = place as i32;
            }
        }
        made
    }
}

/// `job`, or one for each of its channels if it is not packed.
fn packed_jobs(job: abi::Job) -> Vec<abi::Job> {
    if job.packed == 1 {
        return vec![job];
    }
    let channels = job.channels[..job.channel_count as usize].iter();
    let alone = |channel: &abi::Channel| abi::Job {
        channels: [*channel; MAX_CHANNELS],
        channel_count: 1,
        packed: 1,
        ..job
    };
    channels.map(alone).collect()
}

fn address(frame: Placed, channel: &Channel, field: usize) -> u64 {
    let plane = frame.planes[channel.plane];
    frame.start + (plane.offset + field * plane.stride + channel.offset) as u64
}

fn of_action(action: Action) -> abi::Channel {
    let kind = |action| abi::Channel {
        action,
        ..abi::Channel::default()
    };
    match action {
        Action::Copy => kind(abi::action::COPY),
        Action::Fill(code) => abi::Channel {
            fill: code,
            ..kind(abi::action::FILL)
        },
        Action::Filter {
            zero,
            offset,
            beyond,
        } => abi::Channel {
            zero,
            offset,
            beyond,
            ..kind(abi::action::FILTER)
        },
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
        jobs: &[abi::Job],
        weights: CUdeviceptr,
    ) -> Result<(), CudaError> {
        let from_device = self.kernel.weights() == Weights::Device;
        let mut parameter = self.parameter.clone();
        *parameter.weights() = if from_device { weights } else { 0 };
        let frame = parameter.frame();
        frame.jobs[..jobs.len()].copy_from_slice(jobs);
        frame.job_count = jobs.len() as u32;
        let geometry = self.kernel.place(frame, self.radius);
        let compact = match (&parameter, self.kernel.parameter()) {
            (Parameter::Convolve(launch), abi::Parameter::Direct3) => {
                debug_assert!(jobs.iter().all(begins_rows_aligned));
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

/// As all planes in device memory do.
fn begins_rows_aligned(job: &abi::Job) -> bool {
    let first = &job.channels[0];
    let strides = (first.input_stride | first.output_stride) as usize;
    let addresses = (first.input | first.output) as usize;
    addresses.is_multiple_of(ROW_ALIGNMENT)
        && (job.height == 1 || strides.is_multiple_of(ROW_ALIGNMENT))
}

impl Clone for Parameter {
    fn clone(&self) -> Self {
        match self {
            Parameter::Convolve(launch) => Parameter::Convolve(launch.clone()),
            Parameter::Bilateral(launch) => Parameter::Bilateral(launch.clone()),
        }
    }
}

impl Parameter {
    fn frame(&mut self) -> &mut abi::Frame {
        match self {
            Parameter::Convolve(launch) => &mut launch.frame,
            Parameter::Bilateral(launch) => &mut launch.frame,
        }
    }

    fn weights(&mut self) -> &mut u64 {
        match self {
            Parameter::Convolve(launch) => &mut launch.weights,
            Parameter::Bilateral(launch) => &mut launch.weights,
        }
    }

    fn address(&self) -> *const std::ffi::c_void {
        match self {
            Parameter::Convolve(launch) => (&raw const **launch).cast(),
            Parameter::Bilateral(launch) => (&raw const **launch).cast(),
        }
    }
}

/// The parameter of one linear kernel, or of the two of a magnitude, with their weights.
fn convolve_parameter(kernels: &[&Correlation]) -> (Parameter, Vec<f32>) {
    let divisor = kernels[0].divisor;
    let mut launch = Box::new(abi::ConvolveLaunch {
        kernel_count: kernels.len() as u32,
        divisor,
        reciprocal: 1.0 / divisor,
        ..abi::ConvolveLaunch::default()
    });
    let mut weights = Vec::new();
    for (kernel, described) in kernels.iter().zip(&mut launch.kernels) {
        let first = weights.len() as u32;
        let (width, height, separable) = match &kernel.taps {
            Taps::Separable {
                horizontal,
                vertical,
            } => {
                abi::push_line(&mut weights, horizontal);
                abi::push_line(&mut weights, vertical);
                (horizontal.len(), vertical.len(), 1)
            }
            Taps::Full {
                width,
                height,
                weights: full,
            } => {
                for line in full.chunks_exact(*width) {
                    abi::push_line(&mut weights, line);
                }
                (*width, *height, 0)
            }
        };
        *described = abi::Taps {
            width: width as u32,
            height: height as u32,
            separable,
            first,
        };
    }
    copy_inline(&mut launch.inline_weights, &weights);
    (Parameter::Convolve(launch), weights)
}

/// The parameter of a bilateral and its weights: the exponents of a quarter of the window.
fn bilateral_parameter(bilateral: &Bilateral) -> (Box<abi::BilateralLaunch>, Vec<f32>) {
    let (rx, ry) = (bilateral.radius_x, bilateral.radius_y);
    let mut weights = vec![f32::NEG_INFINITY; (rx + 1) * (ry + 1)];
    let mut launch = Box::new(abi::BilateralLaunch {
        radius_x: rx as u32,
        radius_y: ry as u32,
        distance: match bilateral.distance {
            Distance::L1 => abi::distance::L1,
            Distance::L2 => abi::distance::L2,
        },
        color: bilateral.color,
        color_premultiplied: bilateral.color_premultiplied,
        ..abi::BilateralLaunch::default()
    });
    weights[0] = 0.0;
    for &(dx, dy, exponent) in &bilateral.taps {
        let (dx, dy) = (dx.unsigned_abs() as usize, dy.unsigned_abs() as usize);
        weights[dy * (rx + 1) + dx] = exponent;
        launch.spans[dy] = launch.spans[dy].max(dx as u8);
    }
    copy_inline(&mut launch.inline_weights, &weights);
    (launch, weights)
}

/// Weights travel in the launch if they all fit.
fn copy_inline(inline: &mut [f32], weights: &[f32]) {
    if let Some(place) = inline.get_mut(..weights.len()) {
        place.copy_from_slice(weights);
    }
}

/// Refuses what the kernels rely on never to meet.
fn check(plan: &Plan) -> Result<(), String> {
    if plan.precision != Precision::Fp32 {
        return Err(format!("the GPU has no {:?} precision", plan.precision));
    }
    for job in &plan.jobs {
        cpu::check_job(&plan.layout, job)?;
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

/// The kernels take a quarter of the window, whose rows are runs: the other three must mirror it.
fn check_window(bilateral: &Bilateral) -> Result<(), String> {
    let (launch, weights) = bilateral_parameter(bilateral);
    let in_runs: usize = (0..=bilateral.radius_y)
        .map(|dy| {
            let row = 2 * usize::from(launch.spans[dy]) + 1;
            if dy == 0 { row } else { 2 * row }
        })
        .sum();
    let mirrored = (bilateral.taps.iter()).all(|&(dx, dy, exponent)| {
        let at = dy.unsigned_abs() as usize * (bilateral.radius_x + 1) + dx.unsigned_abs() as usize;
        weights[at] == exponent
    });
    if in_runs == bilateral.taps.len() + 1 && mirrored {
        Ok(())
    } else {
        Err("a window of the bilateral that is not symmetric, or has holes".into())
    }
}

#[cfg(test)]
mod tests;
