//! One launch: its parameter read and checked, and then computed.

use super::bilateral::{self, Bilateral, Inputs};
use super::direct3;
use super::image::{Picture, Plane, Samples};
use super::limits;
use super::linear::{self, Linear};
use super::{fast, halves};
use crate::abi::{
    BilateralLaunch, Channel, ConvolveLaunch, Direct3Launch, FastLaunch, Form, Frame, Job, Kernel,
    MAX_CHANNELS, MAX_JOBS, Parameter, TRANSPARENT, Weights, action, border, packed, sample,
};
use crate::memory::{Device, Memory, Rows};
use crate::stream::Use;
use crate::violation;
use crate::world::Handle;

mod filter;
mod shape;

pub use filter::read_words;

use filter::read_floats;

/// A filter as the host hands it over.
pub enum Filter {
    Linear(Box<ConvolveLaunch>),
    Bilateral(Box<BilateralLaunch>),
    Fast(Box<FastLaunch>),
}

/// A launch that was checked, with the device memory that it touches.
pub struct Launch {
    kernel: Kernel,
    filter: Filter,
    /// That of jobs which the launch's second kernel filters.
    second: Option<Filter>,
    /// Of chroma of packed 4:2:2, where it is another one.
    chroma: Option<Filter>,
    by_halves: bool,
    samples: Samples,
    /// Those of the frame, of packed 4:2:2 luma, chroma and padding apart.
    jobs: Vec<Job>,
    /// By job.
    planes: Vec<Vec<Plane>>,
    /// Weights in device memory.
    weights: Option<(Device, Rows)>,
    /// Weights of which their spectrum was there.
    of_spectrum: Option<Vec<f32>>,
    /// Matrices or a spectrum in device memory.
    matrices: Option<Rows>,
}

impl Launch {
    /// Reads and checks the parameter of `kernel`. Ends the process where the host breaks the
    /// rules of `kernels/abi.h`.
    ///
    /// # Safety
    /// `parameter` is the address of the structure that the kernel takes.
    pub unsafe fn read(
        kernel: Kernel,
        parameter: *const u8,
        memory: &Memory,
        context: Handle,
    ) -> Launch {
        let mut filter = match kernel.parameter() {
            // SAFETY: the structure of this kernel, by the contract of this function; every
            // bit pattern is a value of it.
            Parameter::Convolve => Filter::Linear(Box::new(unsafe {
                parameter.cast::<ConvolveLaunch>().read_unaligned()
            })),
            // SAFETY: as above.
            Parameter::Direct3 => Filter::Linear(Box::new(direct3::expand(kernel, &unsafe {
                parameter.cast::<Direct3Launch>().read_unaligned()
            }))),
            // SAFETY: as above.
            Parameter::Bilateral => Filter::Bilateral(Box::new(unsafe {
                parameter.cast::<BilateralLaunch>().read_unaligned()
            })),
            // SAFETY: as above.
            Parameter::Fast => Filter::Fast(Box::new(unsafe {
                parameter.cast::<FastLaunch>().read_unaligned()
            })),
        };
        let frame = filter.frame();
        check_frame(frame);
        let kernel = shape::variant(kernel, &filter);
        let samples = Samples::of(frame);
        let mut planes: Vec<Vec<Plane>> = Vec::new();
        jobs(frame).iter().for_each(|job| check_job(job, samples));
        let jobs: Vec<Job> = jobs(frame).iter().flat_map(apart).collect();
        for job in &jobs {
            let channels = job.channels[..job.channel_count as usize].iter();
            let plane = |channel| Plane::find(channel, job, samples, memory, context);
            planes.push(channels.map(plane).collect());
        }
        check_separate(&planes);
        let filtered = planes
            .iter()
            .flatten()
            .any(|plane| plane.channel.action == action::FILTER);
        let (mut weights, mut matrices, mut of_spectrum) = (None, None, None);
        let mut second = filter.of_second_kernel(kernel);
        let mut chroma = None;
        if filtered {
            for filter in [Some(&mut filter), second.as_mut()].into_iter().flatten() {
                filter.check();
                if let (Form::Scaled(_), Filter::Linear(launch)) = (kernel.form(), &mut *filter) {
                    linear::unscale(launch);
                }
                if let (Weights::Columns, Filter::Bilateral(launch)) =
                    (kernel.weights(), &mut *filter)
                {
                    bilateral::put_by_rows(launch);
                }
                limits::check(kernel, filter);
            }
            if let (Form::Scaled(side), Filter::Linear(launch)) = (kernel.form(), &filter) {
                chroma = linear::chroma(kernel, side, launch).map(Filter::Linear);
            }
            weights = filter.find_weights(kernel, memory, context);
            matrices = filter.find_matrices(kernel, weights.as_ref(), memory, context);
            if let Some((found, rows)) = filter.find_spectrum(kernel, memory, context) {
                (of_spectrum, matrices) = (Some(found), Some(rows));
            }
        }
        Launch {
            kernel,
            filter,
            second,
            chroma,
            by_halves: kernel.weights() == Weights::Halves,
            samples,
            jobs,
            planes,
            weights,
            of_spectrum,
            matrices,
        }
    }

    /// All the memory that the launch reads and writes.
    pub fn uses(&self) -> Vec<Use> {
        let in_memory = (self.weights.iter()).map(|(_, rows)| rows);
        let mut uses: Vec<Use> = in_memory.chain(&self.matrices).map(Use::read).collect();
        let reach = match self.filter.frame().border {
            border::WRAP => usize::MAX,
            // Kernels may read some more than they need, which must not be written meanwhile either.
            _ => self.kernel.rows_beside(self.filter.margin().1),
        };
        for plane in self.planes.iter().flatten() {
            let (input, output) = (&plane.input.1, &plane.output.1);
            if plane.channel.action != action::FILL {
                let from = plane.band.start.saturating_sub(reach);
                let to = plane.band.end.saturating_add(reach);
                uses.push(Use::read(&input.part(from..to.min(input.rows as usize))));
            }
            uses.push(Use::write(&output.part(plane.band.clone())));
        }
        uses
    }

    /// Computes all jobs.
    pub fn run(&self) {
        let in_memory = (self.weights.as_ref()).map(|(device, rows)| read_floats(device, rows));
        let held = in_memory.as_ref().or(self.of_spectrum.as_ref());
        for (job, planes) in self.jobs.iter().zip(&self.planes) {
            for plane in planes {
                match plane.channel.action {
                    action::COPY => plane.copy(self.samples, job.width as usize),
                    action::FILL => plane.fill(self.samples, job.width as usize),
                    _ => {}
                }
            }
            let filter = match (&self.second, &self.chroma) {
                (Some(second), _) if job.joint_or_filter == 1 => second,
                (_, Some(chroma)) if job.channels[0].step == 4 => chroma,
                _ => &self.filter,
            };
            let weights: &[f32] = match (held, filter) {
                (Some(held), _) => held,
                (None, Filter::Linear(launch)) => &launch.inline_weights,
                (None, Filter::Bilateral(launch)) => &launch.inline_weights,
                (None, Filter::Fast(_)) => &[],
            };
            self.filter_job(job, planes, filter, weights);
        }
    }

    fn filter_job(&self, job: &Job, planes: &[Plane], filter: &Filter, weights: &[f32]) {
        let (width, height) = (job.width as usize, planes[0].band.len());
        let rule = filter.frame().border;
        let margin = filter.margin();
        let load = |plane: &Plane| Picture::load(self.samples, rule, job, plane, margin);
        let alpha_index = usize::try_from(job.alpha).ok();
        let alpha = alpha_index.map(|index| load(&planes[index]));
        let pictures: Vec<Option<Picture>> = (planes.iter().enumerate())
            .map(|(index, plane)| {
                (plane.channel.action == action::FILTER).then(|| {
                    let mut picture = load(plane);
                    if let Some(alpha) = alpha.as_ref().filter(|_| Some(index) != alpha_index) {
                        picture.multiply(alpha);
                    }
                    picture
                })
            })
            .collect();
        for (index, plane) in planes.iter().enumerate() {
            let Some(own) = &pictures[index] else {
                continue;
            };
            let alpha = alpha.as_ref().filter(|_| Some(index) != alpha_index);
            let results = match filter {
                Filter::Linear(launch) if self.by_halves => {
                    halves::filter(launch, own, plane.channel.zero, width, height)
                }
                Filter::Linear(launch) => {
                    let linear = Linear::new(launch, weights);
                    let mut results = linear.filter(own, width, height);
                    if let Some(alpha) = alpha {
                        let divisors = linear.filter(alpha, width, height);
                        for (result, alpha) in results.iter_mut().zip(divisors) {
                            *result = if alpha * TRANSPARENT as f32 >= 1.0 {
                                *result / alpha
                            } else {
                                0.0
                            };
                        }
                    }
                    results
                }
                Filter::Fast(launch) => {
                    fast::filter(launch, own, plane.channel.zero, width, height)
                }
                Filter::Bilateral(launch) => {
                    let takes_part = |index: usize| job.joint_or_filter >> index & 1 == 1;
                    let joint = if takes_part(index) {
                        let all = pictures.iter().enumerate();
                        all.filter(|(index, _)| takes_part(*index))
                            .filter_map(|(_, picture)| picture.as_ref())
                            .collect()
                    } else {
                        vec![own]
                    };
                    let inputs = Inputs { own, joint, alpha };
                    Bilateral::new(launch, weights).filter(&inputs, width, height)
                }
            };
            plane.finish(self.samples, width, &results);
        }
    }
}

impl Plane {
    fn find(
        channel: &Channel,
        job: &Job,
        samples: Samples,
        memory: &Memory,
        context: Handle,
    ) -> Plane {
        let rows = |address, stride: u32| Rows {
            address,
            pitch: stride.into(),
            width: u64::from(job.width - 1) * u64::from(channel.step) + samples.bytes() as u64,
            rows: job.height.into(),
        };
        let input = rows(channel.input, channel.input_stride);
        let output = rows(channel.output, channel.output_stride);
        for rows in [&input, &output] {
            let even = rows.address.is_multiple_of(2) && rows.pitch.is_multiple_of(2);
            if samples.bytes() == 2 && !even {
                violation!("16-bit samples at an odd address or stride ({rows:?})");
            }
            if rows.rows > 1 && rows.pitch < rows.width {
                violation!("rows overlap ({rows:?})");
            }
        }
        let input_device = if channel.action == action::FILL {
            memory.device(&output, context, "the output")
        } else {
            memory.device(&input, context, "the input")
        };
        Plane {
            channel: *channel,
            input: (input_device, input),
            output: (memory.device(&output, context, "the output"), output),
            band: 0..job.height as usize,
        }
    }
}

fn jobs(frame: &Frame) -> &[Job] {
    &frame.jobs[..frame.job_count as usize]
}

/// `job`, or luma, chroma and what is padding of one of packed 4:2:2.
fn apart(job: &Job) -> Vec<Job> {
    let second = match job.packed {
        packed::LUMA_FIRST => 0,
        packed::LUMA_SECOND => 1,
        _ => return vec![*job],
    };
    let of = |channels: &[Channel], width: u32| {
        let mut made = Job {
            channel_count: channels.len() as u32,
            width,
            packed: packed::APART,
            ..*job
        };
        made.channels[..channels.len()].copy_from_slice(channels);
        made
    };
    let luma = job.channels[second];
    let chroma = [job.channels[1 - second], job.channels[3 - second]];
    let mut jobs = vec![of(&[luma], job.width), of(&chroma, job.width.div_ceil(2))];
    if job.width % 2 == 1 {
        let behind = u64::from(job.width * luma.step);
        let padding = Channel {
            input: luma.input + behind,
            output: luma.output + behind,
            action: action::COPY,
            ..luma
        };
        jobs.push(of(&[padding], 1));
    }
    jobs
}

fn check_frame(frame: &Frame) {
    if !(1..=MAX_JOBS as u32).contains(&frame.job_count) {
        violation!("{} jobs", frame.job_count);
    }
    if frame.border > border::CONSTANT || frame.sample > sample::U16_BE {
        violation!("border {} and sample {}", frame.border, frame.sample);
    }
    let words = frame.sample != sample::U8;
    let depth = (frame.max_code + 1.0).log2();
    let depths = if words { 9.0..=16.0 } else { 8.0..=8.0 };
    if !depths.contains(&depth) || depth.fract() != 0.0 {
        violation!("{} is no largest code value", frame.max_code);
    }
    let shifted = frame.sample == sample::U16_LE && frame.shift as f32 <= 16.0 - depth;
    if frame.shift != 0 && !shifted {
        violation!("a shift of {}", frame.shift);
    }
}

fn check_job(job: &Job, samples: Samples) {
    if !(1..=MAX_CHANNELS as u32).contains(&job.channel_count) || job.width * job.height == 0 {
        violation!(
            "a job of {} channels, {}x{}",
            job.channel_count,
            job.width,
            job.height
        );
    }
    let channels = &job.channels[..job.channel_count as usize];
    for channel in channels {
        if channel.action > action::FILTER || (channel.step as usize) < samples.bytes() {
            violation!("action {}, step {}", channel.action, channel.step);
        }
    }
    let filtered = |index: u32| {
        let channel = channels.get(index as usize);
        channel.is_some_and(|channel| channel.action == action::FILTER)
    };
    if job.alpha != -1 && !filtered(job.alpha as u32) {
        violation!("channel {} cannot premultiply", job.alpha);
    }
    if (0..32).any(|index| job.joint_or_filter >> index & 1 == 1 && !filtered(index)) {
        violation!(
            "joint channels {:#b} are not all filtered",
            job.joint_or_filter
        );
    }
    let first = &channels[0];
    let is_packed = |(index, channel): (usize, &Channel)| {
        let gap = (index * samples.bytes()) as u64;
        channel.input == first.input + gap
            && channel.output == first.output + gap
            && channel.step as usize == channels.len() * samples.bytes()
            && channel.input_stride == first.input_stride
            && channel.output_stride == first.output_stride
    };
    let described = match job.packed {
        packed::APART => true,
        packed::PACKED => channels.iter().enumerate().all(is_packed),
        packed::LUMA_FIRST => samples.bytes() == 1 && is_packed_422(channels, 0),
        packed::LUMA_SECOND => samples.bytes() == 1 && is_packed_422(channels, 1),
        _ => false,
    };
    if !described {
        violation!("packed is {}, the channels are {channels:?}", job.packed);
    }
}

/// Whether `channels` are luma and chroma in turn, from luma on or from chroma.
fn is_packed_422(channels: &[Channel], second: usize) -> bool {
    let [first, ..] = channels else { return false };
    let stands = |(index, channel): (usize, &Channel)| {
        let step = if index % 2 == second { 2 } else { 4 };
        channel.input == first.input + index as u64
            && channel.output == first.output + index as u64
            && channel.step == step
            && channel.input_stride == first.input_stride
            && channel.output_stride == first.output_stride
    };
    let action = |channel: &Channel| Channel {
        input: 0,
        output: 0,
        ..*channel
    };
    channels.len() == 4
        && channels.iter().enumerate().all(stands)
        && action(&channels[second]) == action(&channels[second + 2])
}

/// Ends the process when anything is read that is also written.
fn check_separate(planes: &[Vec<Plane>]) {
    let all = || planes.iter().flatten();
    for read in all().filter(|plane| plane.channel.action != action::FILL) {
        for written in all() {
            let (input, output) = (&read.input.1, &written.output.1);
            if input.address < output.end() && output.address < input.end() {
                violation!("input and output overlap ({input:?}, {output:?})");
            }
        }
    }
}
