//! The two jobs: a picture each, what is to come out of it, and how far from that something is.

use std::num::NonZeroUsize;
use std::thread;

use crate::engine::cuda::abi::ladder::{BILATERAL_WORDS, CONVOLVE_WORDS, RADIUS, Sample, Task};
use crate::filter::FilterSpec;
use crate::filter::kernels::{Coefficients, Filter};
use crate::filter::spec::{Kernel, Window};
use half::f16;

/// Pixels across the window of the bilateral.
const SIDE: usize = 2 * RADIUS + 1;
/// The largest code value of 8 bits.
const LARGEST_CODE: f64 = 255.0;

/// A filter over one picture of one channel; beyond its edge lies the nearest pixel.
pub struct Job {
    pub task: Task,
    pub width: usize,
    pub height: usize,
    /// From 0 to 1, row by row; those of the bilateral are code values divided by 255.
    pub values: Vec<f32>,
}

/// How far a result is from the exact one.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Errors {
    /// Peak signal-to-noise ratio in dB; infinite where nothing differs.
    pub psnr: f64,
    /// Largest difference, as a part of the whole range.
    pub largest: f64,
    /// Share of the pixels that are equal.
    pub equal: f64,
}

impl Job {
    /// `task` over a made-up picture of slopes, edges and noise.
    pub fn new(task: Task, width: usize, height: usize) -> Job {
        let pixels = (0..height).flat_map(|y| (0..width).map(move |x| pixel(x, y)));
        let values = pixels.map(|value| match task {
            Task::Convolve => value as f32,
            Task::Bilateral => ((value * LARGEST_CODE).round() / LARGEST_CODE) as f32,
        });
        Job {
            task,
            width,
            height,
            values: values.collect(),
        }
    }

    /// What the element would be asked for.
    pub fn spec(&self) -> FilterSpec {
        match self.task {
            Task::Convolve => FilterSpec {
                kernel: Kernel::Gauss,
                radius: 1,
                ..FilterSpec::default()
            },
            Task::Bilateral => FilterSpec {
                kernel: Kernel::Bilateral,
                radius: RADIUS as u32,
                window: Window::Square,
                ..FilterSpec::default()
            },
        }
    }

    /// For people.
    pub fn title(&self) -> String {
        let (width, height) = (self.width, self.height);
        match self.task {
            Task::Convolve => format!("Gauss 3x3, float32, {width}x{height}"),
            Task::Bilateral => {
                format!("Bilateral {SIDE}x{SIDE} (radius {RADIUS}), 8-bit grey, {width}x{height}")
            }
        }
    }

    /// For programs.
    pub fn name(&self) -> String {
        let task = match self.task {
            Task::Convolve => "convolve3-f32",
            Task::Bilateral => "bilateral-r7-u8",
        };
        format!("{task}-{}x{}", self.width, self.height)
    }

    /// Code values of 8 bits.
    pub fn codes(&self) -> Vec<u8> {
        let codes = self.values.iter();
        codes.map(|value| (value * 255.0).round() as u8).collect()
    }

    /// The picture as `sample`, in rows of `stride` samples; what lies between rows is 0.
    pub fn encode(&self, sample: Sample, stride: usize) -> Vec<u8> {
        let mut bytes = vec![0; stride * sample.bytes() * self.height];
        let rows = self.values.chunks_exact(self.width);
        for (row, values) in bytes.chunks_exact_mut(stride * sample.bytes()).zip(rows) {
            for (to, &value) in row.chunks_exact_mut(sample.bytes()).zip(values) {
                match sample {
                    Sample::U8 => to[0] = (value * 255.0).round() as u8,
                    Sample::F16 => to.copy_from_slice(&f16::from_f32(value).to_le_bytes()),
                    Sample::F32 => to.copy_from_slice(&value.to_le_bytes()),
                }
            }
        }
        bytes
    }

    /// Results in rows of `stride` samples as values from 0 to 1.
    pub fn decode(&self, sample: Sample, stride: usize, bytes: &[u8]) -> Vec<f64> {
        let rows = bytes.chunks_exact(stride * sample.bytes());
        let samples = rows.flat_map(|row| row.chunks_exact(sample.bytes()).take(self.width));
        samples
            .map(|bytes| match *bytes {
                [code] => f64::from(code) / LARGEST_CODE,
                [a, b] => f16::from_le_bytes([a, b]).to_f64(),
                [a, b, c, d] => f64::from(f32::from_le_bytes([a, b, c, d])),
                _ => unreachable!("samples have 1, 2 or 4 bytes"),
            })
            .collect()
    }

    /// The pixel nearest to (x, y).
    fn at(&self, x: isize, y: isize) -> f64 {
        let nearest = |position: isize, length: usize| position.clamp(0, length as isize - 1);
        let (x, y) = (nearest(x, self.width), nearest(y, self.height));
        f64::from(self.values[y as usize * self.width + x as usize])
    }

    /// The result in float64, from 0 to 1; of the bilateral, the nearest code values, half to even.
    pub fn exact(&self) -> Vec<f64> {
        let mut results = vec![0.0; self.width * self.height];
        match self.task {
            Task::Convolve => {
                let line = line_weights();
                by_rows(&mut results, self.width, &|y, row| {
                    for (x, result) in row.iter_mut().enumerate() {
                        let offsets = (-1..=1).flat_map(|dy| (-1..=1).map(move |dx| (dx, dy)));
                        let weighted = offsets.map(|(dx, dy)| {
                            let weight = line[(dy + 1) as usize] * line[(dx + 1) as usize];
                            weight * self.at(x as isize + dx, y as isize + dy)
                        });
                        *result = weighted.sum();
                    }
                });
            }
            Task::Bilateral => self.exact_bilateral(&mut results),
        }
        results
    }

    fn exact_bilateral(&self, results: &mut [f64]) {
        let (space, color) = bilateral_exponents();
        let space: Vec<f64> = space.into_iter().map(f64::exp).collect();
        // All differences that there are.
        let range: Vec<f64> = (0..256).map(|d| (color * f64::from(d * d)).exp()).collect();
        let codes = self.codes();
        // Pixels to both sides of each row, so that the window has no ends.
        let padded = self.width + 2 * RADIUS;
        let nearest = |at: usize, length: usize| at.saturating_sub(RADIUS).min(length - 1);
        let lines: Vec<u8> = (0..self.height + 2 * RADIUS)
            .flat_map(|y| {
                let row = &codes[nearest(y, self.height) * self.width..][..self.width];
                (0..padded).map(move |x| row[nearest(x, row.len())])
            })
            .collect();
        by_rows(results, self.width, &|y, row| {
            for (x, result) in row.iter_mut().enumerate() {
                let centre = lines[(y + RADIUS) * padded + x + RADIUS];
                let (mut sum, mut weights) = (0.0, 0.0);
                for (dy, space) in space.chunks_exact(SIDE).enumerate() {
                    let values = &lines[(y + dy) * padded + x..][..SIDE];
                    for (&value, space) in values.iter().zip(space) {
                        let weight = space * range[usize::from(value.abs_diff(centre))];
                        sum += weight * f64::from(value);
                        weights += weight;
                    }
                }
                *result = (sum / weights).round_ties_even() / LARGEST_CODE;
            }
        });
    }

    /// How far `results` are from `exact` ones.
    pub fn errors(&self, results: &[f64], exact: &[f64]) -> Errors {
        assert_eq!(results.len(), exact.len(), "results of the same picture");
        let differences = results.iter().zip(exact).map(|(a, b)| (a - b).abs());
        let count = exact.len() as f64;
        let squares: f64 = differences.clone().map(|d| d * d).sum();
        Errors {
            psnr: -10.0 * (squares / count).log10(),
            largest: differences.clone().fold(0.0, f64::max),
            equal: differences.filter(|d| *d == 0.0).count() as f64 / count,
        }
    }

    /// The words that the kernels read, as `kernels/ladder.h` describes them.
    pub fn table(&self) -> Vec<u32> {
        match self.task {
            Task::Convolve => convolve_table(),
            Task::Bilateral => bilateral_table(),
        }
    }

    /// Factor of the squared difference of code values in the exponent of two.
    pub fn color(&self) -> f32 {
        (bilateral_exponents().1 * std::f64::consts::LOG2_E) as f32
    }

    /// The nine weights, row by row.
    pub fn weights(&self) -> [f32; 9] {
        let line = line_weights();
        std::array::from_fn(|at| (line[at / 3] * line[at % 3]) as f32)
    }

    /// Exponents of two that stand for distance, row by row.
    pub fn exponents(&self) -> Vec<f32> {
        let space = bilateral_exponents().0.into_iter();
        space
            .map(|e| (e * std::f64::consts::LOG2_E) as f32)
            .collect()
    }
}

/// Slopes, squares of 48 pixels, a grating that gets finer, and noise.
fn pixel(x: usize, y: usize) -> f64 {
    let (across, down) = (x as f64, y as f64);
    let slope = 0.18 * (across / 211.0).sin() * (down / 157.0).cos();
    let square = if (x / 48 + y / 48).is_multiple_of(2) {
        0.15
    } else {
        -0.15
    };
    let grating = 0.08 * (across * across / 4000.0).sin();
    let mut hash = (x as u64) << 32 | y as u64;
    hash = (hash ^ hash >> 31).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    hash = (hash ^ hash >> 29).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let noise = 0.08 * ((hash >> 40) as f64 / f64::from(1 << 24) - 0.5);
    (0.5 + slope + square + grating + noise).clamp(0.0, 1.0)
}

/// The three weights of a row and of a column; their sum is 1.
fn line_weights() -> Vec<f64> {
    let spec = Job::new(Task::Convolve, 1, 1).spec();
    match Filter::new(&spec, (1, 1)) {
        Some(Filter::Linear {
            coefficients: Coefficients::Separable { horizontal, .. },
            divisor: 1.0,
        }) => horizontal,
        _ => unreachable!("a Gaussian is separable, and of sum 1"),
    }
}

/// Exponents of e: of every offset of the window, row by row, and the factor of a squared difference of
/// code values.
fn bilateral_exponents() -> (Vec<f64>, f64) {
    let spec = Job::new(Task::Bilateral, 1, 1).spec();
    let radius = RADIUS as i32;
    let squared = |sigma: f64| 2.0 * sigma * sigma;
    let offsets = (-radius..=radius).flat_map(|dy| (-radius..=radius).map(move |dx| (dx, dy)));
    let space = offsets.map(|(dx, dy)| -f64::from(dx * dx + dy * dy) / squared(spec.sigma_space));
    (space.collect(), -1.0 / squared(spec.sigma_color))
}

fn convolve_table() -> Vec<u32> {
    let line = line_weights();
    let products = (0..9).map(|at| line[at / 3] * line[at % 3]);
    let floats = products.clone().chain(line.clone()).chain(line.clone());
    let mut words: Vec<u32> = floats.map(|weight| (weight as f32).to_bits()).collect();
    let mut bytes: Vec<u32> = products
        .map(|weight| (256.0 * weight).round() as u32)
        .collect();
    // What rounding has changed of the sum is made good at the centre.
    let others: u32 = bytes.iter().sum::<u32>() - bytes[4];
    bytes[4] = 256 - others;
    words.extend(
        bytes
            .chunks_exact(3)
            .map(|row| row[0] | row[1] << 8 | row[2] << 16),
    );
    debug_assert_eq!(words.len(), CONVOLVE_WORDS);
    words
}

fn bilateral_table() -> Vec<u32> {
    let (space, color) = bilateral_exponents();
    let exponents: Vec<u32> = (space.iter())
        .map(|e| ((e * std::f64::consts::LOG2_E) as f32).to_bits())
        .collect();
    let byte = |exponent: f64| (255.0 * exponent.exp()).round() as u8;
    let mut bytes = Vec::new();
    for row in space.chunks_exact(SIDE) {
        bytes.extend(row.iter().map(|&exponent| byte(exponent)));
        bytes.push(0);
    }
    bytes.extend((0..256).map(|d| byte(color * f64::from(d * d))));
    let mut words = exponents.clone();
    words.extend(&exponents[RADIUS * SIDE..][..SIDE]);
    words.extend(
        bytes
            .as_chunks::<4>()
            .0
            .iter()
            .map(|four| u32::from_le_bytes(*four)),
    );
    debug_assert_eq!(words.len(), BILATERAL_WORDS);
    words
}

/// Fills `results` row by row, on all processors.
fn by_rows(results: &mut [f64], width: usize, fill: &(dyn Fn(usize, &mut [f64]) + Sync)) {
    let threads = thread::available_parallelism().map_or(1, NonZeroUsize::get);
    let rows = (results.len() / width).div_ceil(threads).max(1);
    thread::scope(|scope| {
        for (part, results) in results.chunks_mut(rows * width).enumerate() {
            scope.spawn(move || {
                for (y, row) in results.chunks_exact_mut(width).enumerate() {
                    fill(part * rows + y, row);
                }
            });
        }
    });
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::filter::{Layout, reference};

    /// The definition that the element is checked against.
    #[test]
    fn exact_results_are_those_of_the_filters_definition() {
        gst::init().unwrap();
        for (width, height) in [(1, 1), (5, 3), (61, 33)] {
            let job = Job::new(Task::Bilateral, width, height);
            let info = gst_video::VideoInfo::builder(
                gst_video::VideoFormat::Gray8,
                width as u32,
                height as u32,
            );
            let layout = Layout::new(&info.build().unwrap()).unwrap();
            let codes = job.codes();
            let defined =
                reference::filter(&job.spec(), &layout, &[(&codes, width)], false).unwrap();
            let exact: Vec<u32> = (job.exact().iter())
                .map(|v| (v * 255.0).round() as u32)
                .collect();
            assert_eq!(exact, defined[0].codes);

            // In code values, which the other is linear in.
            let job = Job::new(Task::Convolve, width, height);
            let rounded = Job {
                values: job.codes().iter().map(|&c| f32::from(c)).collect(),
                ..job
            };
            let codes: Vec<u8> = rounded.values.iter().map(|&v| v as u8).collect();
            let defined =
                reference::filter(&rounded.spec(), &layout, &[(&codes, width)], false).unwrap();
            for (a, b) in rounded.exact().iter().zip(&defined[0].values) {
                assert!((a - b).abs() < 1e-9, "{a} {b}");
            }
        }
    }

    #[test]
    fn tables_hold_weights_as_floats_and_as_bytes() {
        let job = Job::new(Task::Convolve, 4, 4);
        let table = job.table();
        let floats: Vec<f32> = table[..15].iter().map(|w| f32::from_bits(*w)).collect();
        assert_eq!(floats[..9], job.weights());
        assert!((floats[9..12].iter().sum::<f32>() - 1.0).abs() < 1e-6);
        let bytes: u32 = table[15..]
            .iter()
            .flat_map(|w| w.to_le_bytes())
            .map(u32::from)
            .sum();
        assert_eq!(bytes, 256);
        let table = Job::new(Task::Bilateral, 4, 4).table();
        assert_eq!(f32::from_bits(table[112]), 0.0, "the centre");
        assert_eq!(f32::from_bits(table[225 + 7]), 0.0, "and of a line");
        assert_eq!(table[240 + 4 * 7 + 1] >> 24, 255);
        assert!((240..300).skip(3).step_by(4).all(|at| table[at] >> 24 == 0));
        assert_eq!(table[300] & 255, 255);
    }

    #[test]
    fn pictures_come_back_from_every_kind_of_sample() {
        for task in [Task::Convolve, Task::Bilateral] {
            let job = Job::new(task, 37, 5);
            for (sample, largest) in [
                (Sample::U8, 0.5 / 255.0 + 1e-6),
                (Sample::F16, 0.5 / 2048.0),
                (Sample::F32, 0.0),
            ] {
                let bytes = job.encode(sample, 64);
                assert_eq!(bytes.len(), 64 * 5 * sample.bytes());
                let values: Vec<f64> = job.values.iter().map(|&v| f64::from(v)).collect();
                let errors = job.errors(&job.decode(sample, 64, &bytes), &values);
                assert!(errors.largest <= largest, "{task:?} {sample:?}: {errors:?}");
            }
        }
    }

    #[test]
    fn errors_are_those_of_the_textbook() {
        let job = Job::new(Task::Convolve, 2, 2);
        let exact = [0.0, 0.5, 1.0, 1.0];
        let same = job.errors(&exact, &exact);
        assert_eq!(
            (same.psnr, same.largest, same.equal),
            (f64::INFINITY, 0.0, 1.0)
        );
        let off = job.errors(&[0.0, 0.5, 1.0, 0.8], &exact);
        assert!((off.psnr - 20.0).abs() < 1e-9, "{}", off.psnr);
        assert_eq!(off.equal, 0.75);
    }
}
