//! What kinds of filters there are.

use super::filtered;
use crate::abi::split::Split;
use crate::abi::{Channel, DIRECT3_SUM, Form, Taps, action, direct3, slabs};
use crate::kernels::launch::Filter;
use crate::kernels::linear::{kernels, lines, weight_count};

impl Filter {
    /// Whether the weights stand as kernels of one size expect them, one kernel behind the other.
    pub fn has_form(&self, form: Form) -> bool {
        let Filter::Linear(launch) = self else {
            return false;
        };
        let (side, separable) = match form {
            Form::Any => return true,
            Form::Full(side) => (side, 0),
            Form::Scaled(side) => (side, 1),
        };
        let expected = (side as u32, side as u32, separable);
        (kernels(launch).iter()).all(|t| (t.width, t.height, t.separable) == expected)
            && self.weights_follow()
    }

    /// Whether the weights, which are the plain ones here, were such that they can be scaled.
    pub fn has_plain_weights(&self) -> bool {
        let Filter::Linear(launch) = self else {
            return false;
        };
        let divisor = match launch.kernel_count {
            1 => launch.divisor,
            _ => 1.0,
        };
        kernels(launch).iter().all(|taps| {
            let (across, down) = lines(launch, taps);
            slabs::takes(across, down, divisor)
        })
    }

    /// Whether the weights of one kernel stand behind those of the other, from the first weight on.
    pub fn weights_follow(&self) -> bool {
        let Filter::Linear(launch) = self else {
            return false;
        };
        let mut next = 0;
        kernels(launch).iter().all(|taps| {
            let at = next;
            next += weight_count(taps);
            taps.first as usize == at
        })
    }

    /// Whether no kernel is one outer product or the sum of several.
    pub fn is_full(&self) -> bool {
        match self {
            Filter::Linear(launch) => kernels(launch).iter().all(|taps| taps.separable == 0),
            Filter::Bilateral(_) | Filter::Fast(_) => false,
        }
    }

    pub fn is_separable(&self) -> bool {
        match self {
            Filter::Linear(launch) => kernels(launch).iter().all(|taps| taps.separable == 1),
            Filter::Bilateral(_) | Filter::Fast(_) => false,
        }
    }

    /// One separable kernel of weights that are bytes, whose sums across are of 16 bits, and all sums of 24 bits.
    pub fn has_whole_bytes(&self) -> bool {
        let Filter::Linear(launch) = self else {
            return false;
        };
        let taps = &launch.kernels[0];
        let weights = &launch.inline_weights[taps.first as usize..];
        let across = &weights[..taps.width as usize];
        let down = &weights[crate::abi::line_length(across.len())..][..taps.height as usize];
        let sum = |line: &[f32]| -> f64 { line.iter().map(|&w| f64::from(w)).sum() };
        let is_byte = |weight: &f32| weight.fract() == 0.0 && (0.0..=255.0).contains(weight);
        taps.separable == 1
            && across.iter().chain(down).all(is_byte)
            && sum(across) * 255.0 < 65536.0
            && sum(across) * sum(down) * 255.0 < f64::from(1 << 24)
    }

    /// A divisor that is a power of two up to 2^16, nothing to add to quotients, and these in range.
    pub fn is_shifted(&self) -> bool {
        let Filter::Linear(launch) = self else {
            return false;
        };
        let taps = &launch.kernels[0];
        let weights = &launch.inline_weights[taps.first as usize..];
        let down = crate::abi::line_length(taps.width as usize);
        let sum = weights[..taps.width as usize].iter().sum::<f32>()
            * weights[down..][..taps.height as usize].iter().sum::<f32>();
        let adds_nothing =
            |channel: &Channel| channel.offset == channel.zero * sum / launch.divisor;
        launch.divisor * launch.reciprocal == 1.0
            && launch.divisor.to_bits() & 0x7f_ffff == 0
            && (1.0..=65536.0).contains(&launch.divisor)
            && sum <= launch.divisor
            && filtered(&launch.frame).all(|(_, _, channel)| adds_nothing(channel))
    }

    /// Of 3 x 3 weights in three lines each, as they come from the compact launch.
    pub fn has_small_whole_weights(&self) -> bool {
        let Filter::Linear(launch) = self else {
            return false;
        };
        kernels(launch).iter().all(|taps| {
            let weights = &launch.inline_weights[taps.first as usize..][..12];
            let sum: f32 = weights.iter().map(|weight| weight.abs()).sum();
            weights.iter().all(|weight| weight.fract() == 0.0) && sum <= DIRECT3_SUM as f32
        })
    }

    /// Whether its 3 x 3 weights are an outer product of 1, any and 1.
    pub fn is_smooth(&self) -> bool {
        let Filter::Linear(launch) = self else {
            return false;
        };
        let at = |x: usize, y: usize| launch.inline_weights[4 * y + x];
        let (across, down) = (
            [at(0, 0), at(1, 0), at(2, 0)],
            [at(0, 0), at(0, 1), at(0, 2)],
        );
        let product = |at_: usize| across[at_ % 3] * down[at_ / 3] == at(at_ % 3, at_ / 3);
        direct3::is_smooth(&across, &down) && (0..9).all(product)
    }

    /// Whether it is the magnitude of differences, not divided, of 3 x 3 weights each.
    pub fn is_gradient(&self) -> bool {
        let Filter::Linear(launch) = self else {
            return false;
        };
        let square = |taps: &Taps| -> [f32; 9] {
            let weights = &launch.inline_weights[taps.first as usize..][..12];
            std::array::from_fn(|at| weights[at / 3 * 4 + at % 3])
        };
        let [x, y] = &launch.kernels;
        launch.divisor == 1.0 && direct3::is_gradient(&square(x), &square(y))
    }

    /// Whether the weights can be taken apart for such a channel.
    pub fn takes_apart(&self, channel: &Channel) -> bool {
        let Filter::Linear(launch) = self else {
            return false;
        };
        let (across, down) = lines(launch, &launch.kernels[0]);
        let split = Split::new(across, down, launch.divisor);
        split.is_some_and(|split| split.takes(channel.zero, channel.offset))
    }

    pub fn is_of_rank_1(&self) -> bool {
        matches!(self, Filter::Linear(launch) if launch.kernels[0].separable == 1)
    }

    /// Whether it is the mean of a rectangle, and of how many samples.
    pub fn box_samples(&self) -> (bool, usize) {
        let Filter::Linear(launch) = self else {
            return (false, 0);
        };
        let taps = &launch.kernels[0];
        let (width, height) = (taps.width as usize, taps.height as usize);
        let first = taps.first as usize;
        let line = width.next_multiple_of(4);
        let weights = &launch.inline_weights[first..];
        let mut ones = weights[..width].iter().chain(&weights[line..][..height]);
        let is_box = taps.separable == 1
            && ones.all(|weight| *weight == 1.0)
            && launch.divisor == (width * height) as f32;
        (is_box, width * height)
    }

    /// Whether small whole numbers are added to all results.
    pub fn adds_whole_numbers(&self) -> bool {
        let frame = self.frame();
        let jobs = &frame.jobs[..frame.job_count as usize];
        let channels = (jobs.iter()).flat_map(|job| &job.channels[..job.channel_count as usize]);
        let mut filtered = channels.filter(|channel| channel.action == action::FILTER);
        filtered.all(|channel| {
            channel.offset.fract() == 0.0 && channel.offset.abs() <= direct3::MAGNITUDE_OFFSET
        })
    }

    pub fn kernel_count(&self) -> u32 {
        match self {
            Filter::Linear(launch) => launch.kernel_count,
            Filter::Bilateral(_) | Filter::Fast(_) => 0,
        }
    }

    pub fn distance(&self) -> Option<u32> {
        match self {
            Filter::Linear(_) | Filter::Fast(_) => None,
            Filter::Bilateral(launch) => Some(launch.distance),
        }
    }
}
