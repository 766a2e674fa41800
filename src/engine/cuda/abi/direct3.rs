//! What the kernels of 3 x 3 taps get: everything that threads would otherwise compute again and
//! again.

use half::f16;

use super::{
    Channel, ConvolveLaunch, Direct3Launch, Direct3Plane, Frame, Job, Taps, action, border,
    line_length,
};

/// Sums are of code values less this.
const MIDDLE: f32 = 128.0;

/// What weights are multiplied by, and sums of their products with bytes, which stand for the smallest float16, in
/// units of one.
pub const WEIGHT_UNIT: f32 = 2048.0;
pub const SUM_UNIT: f32 = 1.0 / 8192.0;

/// `value` as float16, if that holds it exactly; normal numbers and 0 alone.
fn exact_half(value: f64) -> Option<u16> {
    if value == 0.0 {
        return Some(0);
    }
    let half = f16::from_f64(value);
    (half.is_normal() && half.to_f64() == value).then(|| half.to_bits())
}

/// What is added to sums of code values less 128 that were divided: the offset, and what is between
/// 128 and the zero level. `sum` is that of the weights.
pub fn bias(zero: f32, offset: f32, sum: f64, divisor: f32) -> f64 {
    f64::from(offset) + f64::from(MIDDLE - zero) * sum / f64::from(divisor)
}

/// Whether the kernel by these lines is 1, any, 1 across and down, of whole numbers that are not negative.
pub fn is_smooth(across: &[f32], down: &[f32]) -> bool {
    let is =
        |line: &[f32]| matches!(*line, [1.0, inner, 1.0] if inner >= 0.0 && inner.fract() == 0.0);
    is(across) && is(down)
}

/// Most that is added to magnitudes of gradients, either way.
pub const MAGNITUDE_OFFSET: f32 = 256.0;

/// Whether the 3 x 3 weights `across` and `down`, row by row, are differences by -1 0 1, smoothed the other way by the
/// same whole numbers: at most 4 outside and 16 inside.
///
/// Sums of samples of 8 bits times these are exact in float16 up to 2048, and larger ones rounded once, to no less
/// than that: results are then beyond 255 either way.
pub fn is_gradient(across: &[f32; 9], down: &[f32; 9]) -> bool {
    let (outer, inner) = (across[2], across[5]);
    let is_whole = |value: f32, most: f32| value.fract() == 0.0 && (0.0..=most).contains(&value);
    let gradient = [-outer, 0.0, outer, -inner, 0.0, inner, -outer, 0.0, outer];
    let turned = |at: usize| gradient[at % 3 * 3 + at / 3];
    let alike = (0..9).all(|at| across[at] == gradient[at] && down[at] == turned(at));
    alike && is_whole(outer, 4.0) && is_whole(inner, 16.0)
}

/// Two float16 in a word, 0 where one cannot be.
fn pair(first: f64, second: f64) -> u32 {
    match (exact_half(first), exact_half(second)) {
        (Some(first), Some(second)) => u32::from(first) | u32::from(second) << 16,
        _ => 0,
    }
}

/// The weights of a kernel of at most 3 x 3, row by row.
fn weights(taps: &Taps, all: &[f32]) -> [f32; 9] {
    let (width, height) = (taps.width as usize, taps.height as usize);
    let line = line_length(width);
    let all = &all[taps.first as usize..];
    let mut weights = [0.0; 9];
    for y in 0..height {
        for x in 0..width {
            let weight = match taps.separable {
                0 => all[y * line + x],
                _ => all[x] * all[line + y],
            };
            weights[(y + 1 - height / 2) * 3 + x + 1 - width / 2] = weight;
        }
    }
    weights
}

/// The positions that stand for the one before the first of `length` and the one behind the last;
/// -1 for the border's constant.
fn beyond_edges(rule: u32, length: i32) -> (i32, i32) {
    let last = length - 1;
    match rule {
        border::CONSTANT => (-1, -1),
        border::WRAP => (last, 0),
        border::REFLECT101 => (1.min(last), (last - 1).max(0)),
        _ => (0, last),
    }
}

impl Direct3Launch {
    /// The launch of what `launch` describes: packed jobs that have been placed.
    pub fn new(launch: &ConvolveLaunch) -> Direct3Launch {
        let frame = &launch.frame;
        let twice = |value: f64| pair(value, value);
        let mut made = Direct3Launch {
            plane_count: frame.job_count,
            border: frame.border,
            tile_height: frame.tile_height,
            kernel_count: launch.kernel_count,
            divisor: launch.divisor,
            reciprocal: launch.reciprocal,
            scale: twice(1.0 / f64::from(SUM_UNIT * launch.divisor)),
            ..Direct3Launch::default()
        };
        let unit = match launch.kernel_count {
            1 => WEIGHT_UNIT,
            _ => 1.0,
        };
        let mut first = [0.0; 9];
        for (n, taps) in launch.kernels[..launch.kernel_count as usize]
            .iter()
            .enumerate()
        {
            let weights = weights(taps, &launch.inline_weights);
            made.sums[n] = weights.iter().sum();
            made.weights[n] = weights.map(|weight| twice((weight * unit).into()));
            if n == 0 {
                first = weights;
            }
        }
        made.start = twice((-MIDDLE * SUM_UNIT * made.sums[0]).into());
        for (plane, job) in made.planes.iter_mut().zip(frame.jobs()) {
            *plane = Direct3Plane::new(frame, job, &first, launch.divisor);
        }
        made
    }
}

impl Direct3Plane {
    fn new(frame: &Frame, job: &Job, weights: &[f32; 9], divisor: f32) -> Direct3Plane {
        let sum: f32 = weights.iter().sum();
        let channels = job.channel_count;
        let first = &job.channels[0];
        let (left, right) = beyond_edges(frame.border, job.width as i32);
        let (above, below) = beyond_edges(frame.border, job.height as i32);
        let at = |pixel: i32| {
            if pixel < 0 {
                -1
            } else {
                pixel * channels as i32
            }
        };
        // The only row of a plane has no stride.
        let stride = |stride| if job.height > 1 { stride } else { 0 };
        let mut plane = Direct3Plane {
            input: first.input,
            output: first.output,
            input_stride: stride(first.input_stride),
            output_stride: stride(first.output_stride),
            row_bytes: job.width * channels,
            height: job.height,
            channels,
            first_tile_row: job.first_tile_row,
            tiles_across: job.tiles_across,
            left: at(left),
            right: at(right),
            above,
            below,
            ..Direct3Plane::default()
        };
        let mut biases = [0.0; 4];
        for (byte, added) in biases.iter_mut().enumerate() {
            let channel: &Channel = &job.channels[byte % channels as usize];
            let shift = 8 * byte;
            match channel.action {
                action::COPY => plane.copied |= 0xff << shift,
                action::FILL => plane.filled |= channel.fill << shift,
                _ => {
                    plane.filtered |= 0xff << shift;
                    plane.beyond |= ((channel.zero + channel.beyond) as u32 & 0xff) << shift;
                    *added = 1024.0 + bias(channel.zero, channel.offset, sum.into(), divisor);
                    (plane.zero[byte], plane.offset[byte]) = (channel.zero, channel.offset);
                    let (least, most) = results(weights, divisor, channel.zero, channel.offset);
                    if least < 0.0 || most > 255.0 {
                        plane.clamped = 1;
                    }
                }
            }
        }
        plane.bias = [pair(biases[0], biases[2]), pair(biases[1], biases[3])];
        plane
    }
}

/// The least and the largest result of any picture, before rounding.
pub fn results(weights: &[f32; 9], divisor: f32, zero: f32, offset: f32) -> (f64, f64) {
    let of = |sum: f64| sum / f64::from(divisor) + f64::from(offset);
    let sum_of = |wanted: fn(&f32) -> bool| -> f64 {
        let wanted = weights.iter().filter(|weight| wanted(weight));
        wanted.map(|&weight| f64::from(weight)).sum()
    };
    let (positive, negative) = (sum_of(|w| *w > 0.0), sum_of(|w| *w < 0.0));
    let (below, above) = (f64::from(-zero), f64::from(255.0 - zero));
    let ends = [
        of(positive * below + negative * above),
        of(positive * above + negative * below),
    ];
    (ends[0].min(ends[1]), ends[0].max(ends[1]))
}

#[cfg(test)]
mod tests {
    use super::{is_gradient, is_smooth, results};

    #[test]
    fn smooth_kernels_have_ones_on_either_side() {
        assert!(is_smooth(&[1.0, 2.0, 1.0], &[1.0, 2.0, 1.0]));
        assert!(is_smooth(&[1.0, 0.0, 1.0], &[1.0, 6.0, 1.0]));
        for other in [
            &[1.0, 2.0, -1.0][..],
            &[1.0, -2.0, 1.0],
            &[1.0, 0.5, 1.0],
            &[2.0, 2.0, 2.0],
            &[1.0],
            &[1.0, 1.0, 1.0, 1.0, 1.0],
        ] {
            assert!(!is_smooth(other, &[1.0, 2.0, 1.0]), "{other:?}");
            assert!(!is_smooth(&[1.0, 2.0, 1.0], other), "{other:?}");
        }
    }

    #[test]
    fn results_lie_between_those_of_the_worst_pictures() {
        let gauss = [1.0, 2.0, 1.0, 2.0, 4.0, 2.0, 1.0, 2.0, 1.0];
        assert_eq!(results(&gauss, 16.0, 0.0, 0.0), (0.0, 255.0));
        assert_eq!(results(&gauss, 16.0, 128.0, 128.0), (0.0, 255.0));
        assert_eq!(results(&gauss, 16.0, 16.0, 20.0), (4.0, 259.0));
        assert_eq!(results(&gauss, 8.0, 0.0, 0.0), (0.0, 510.0));
        let edges = [0.0, -1.0, 0.0, -1.0, 5.0, -1.0, 0.0, -1.0, 0.0];
        assert_eq!(results(&edges, 1.0, 0.0, 0.0), (-1020.0, 1275.0));
        assert_eq!(results(&edges, -1.0, 0.0, 0.0), (-1275.0, 1020.0));
    }

    #[test]
    fn gradients_are_differences_smoothed_by_whole_numbers() {
        let sobel = [-1.0, 0.0, 1.0, -2.0, 0.0, 2.0, -1.0, 0.0, 1.0];
        let turned = [-1.0, -2.0, -1.0, 0.0, 0.0, 0.0, 1.0, 2.0, 1.0];
        assert!(is_gradient(&sobel, &turned));
        assert!(!is_gradient(&turned, &sobel));
        assert!(!is_gradient(&sobel, &sobel));
        let times = |factor: f32| (sobel.map(|w| w * factor), turned.map(|w| w * factor));
        for (factor, is) in [
            (3.0, true),
            (4.0, true),
            (5.0, false),
            (0.5, false),
            (-1.0, false),
        ] {
            let (across, down) = times(factor);
            assert_eq!(is_gradient(&across, &down), is, "{factor}");
        }
        let mut lopsided = sobel;
        lopsided[8] = 2.0;
        assert!(!is_gradient(&lopsided, &turned));
    }
}
