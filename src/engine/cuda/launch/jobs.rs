//! The jobs of a plan as kernels take them.

use super::{Launches, Placed, Step};
use crate::engine::cuda::abi::{self, MAX_CHANNELS};
use crate::filter::layout::{Channel, Role};
use crate::filter::plan::{Action, Job, Operation};

impl Launches {
    /// The jobs of a step, once for each field that has rows.
    pub(super) fn jobs(
        &self,
        step: &Step,
        input: Placed,
        output: Placed,
        interlaced: bool,
    ) -> Vec<abi::Job> {
        let fields = if interlaced { 2 } else { 1 };
        let described = step.described_jobs().iter();
        let jobs = described.map(|&index| &self.plan.jobs[index]);
        jobs.flat_map(|job| (0..fields).map(move |field| (job, field)))
            .filter(|(job, field)| job.group.height > *field)
            .map(|(job, field)| self.job(step, job, input, output, (field, fields)))
            .flat_map(|job| step.cut(job))
            .collect()
    }

    /// What `step` is told of `job`: one of `fields` fields of it.
    pub(super) fn job(
        &self,
        step: &Step,
        job: &Job,
        input: Placed,
        output: Placed,
        (field, fields): (usize, usize),
    ) -> abi::Job {
        if step.packed_422 {
            return self.packed_422(input, output, (field, fields));
        }
        let group = &job.group;
        // Packed channels stand in the order of their addresses.
        let order = group.by_address();
        let is_packed = group.is_packed(self.plan.layout.sample.bytes());
        let is_bilateral = matches!(job.operation, Operation::Bilateral(_));
        let is_second = |second: usize| self.plan.jobs[second].operation == job.operation;
        let mut made = abi::Job {
            joint_or_filter: step.second.is_some_and(is_second).into(),
            channel_count: order.len() as u32,
            width: group.width as u32,
            height: ((group.height + fields - 1 - field) / fields) as u32,
            packed: is_packed.into(),
            alpha: -1,
            ..abi::Job::default()
        };
        for (place, &index) in order.iter().enumerate() {
            let (channel, action) = (&group.channels[index], job.actions[index]);
            made.channels[place] = channel_of(channel, action, input, output, (field, fields));
            let is_filtered = matches!(action, Action::Filter { .. });
            if is_bilateral && is_filtered && channel.role == Role::Colour {
                made.joint_or_filter |= 1 << place;
            }
            if job.premultiply && is_filtered && channel.role == Role::Alpha {
                made.alpha = place as i32;
            }
        }
        made
    }

    /// A frame of packed 4:2:2 as one job.
    fn packed_422(
        &self,
        input: Placed,
        output: Placed,
        (field, fields): (usize, usize),
    ) -> abi::Job {
        let (luma, chroma) = (&self.plan.jobs[0], &self.plan.jobs[1]);
        let first = luma.group.channels[0];
        let made = |job: &Job, index: usize, channel: &Channel| {
            channel_of(channel, job.actions[index], input, output, (field, fields))
        };
        let second = Channel {
            offset: first.offset + first.step,
            ..first
        };
        let of_chroma = chroma.group.channels.iter().enumerate();
        let mut channels: Vec<(usize, abi::Channel)> = of_chroma
            .map(|(index, channel)| (channel.offset, made(chroma, index, channel)))
            .chain([first, second].map(|channel| (channel.offset, made(luma, 0, &channel))))
            .collect();
        channels.sort_by_key(|(offset, _)| *offset);
        let mut job = abi::Job {
            channel_count: channels.len() as u32,
            width: luma.group.width as u32,
            height: ((luma.group.height + fields - 1 - field) / fields) as u32,
            packed: match first.offset {
                0 => abi::packed::LUMA_FIRST,
                _ => abi::packed::LUMA_SECOND,
            },
            ..abi::Job::default()
        };
        for (to, (_, channel)) in job.channels.iter_mut().zip(channels) {
            *to = channel;
        }
        job
    }
}

impl Step {
    /// The jobs of which its kernel is told: of packed 4:2:2 one tells of all.
    pub(super) fn described_jobs(&self) -> &[usize] {
        match self.packed_422 {
            true => &self.jobs[..1],
            false => &self.jobs,
        }
    }

    /// `job` as its kernel takes it.
    pub(super) fn cut(&self, job: abi::Job) -> Vec<abi::Job> {
        match self.kernel.takes_whole_rows() {
            true => packed_jobs(job),
            false => vec![job],
        }
    }
}

/// One of `fields` fields of a channel.
fn channel_of(
    channel: &Channel,
    action: Action,
    input: Placed,
    output: Placed,
    (field, fields): (usize, usize),
) -> abi::Channel {
    abi::Channel {
        input: address(input, channel, field),
        output: address(output, channel, field),
        input_stride: (input.planes[channel.plane].stride * fields) as u32,
        output_stride: (output.planes[channel.plane].stride * fields) as u32,
        step: channel.step as u32,
        ..of_action(action)
    }
}

/// `job`, or one for each of its channels if it is not packed.
fn packed_jobs(job: abi::Job) -> Vec<abi::Job> {
    if job.packed != abi::packed::APART {
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
