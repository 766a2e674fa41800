//! The kernels of the ladder, by the definition of each step in `kernels/ladder.h`.

use half::f16;

use crate::abi::ladder::{ALIGNMENT, Kernel, LadderLaunch, RADIUS, Sample, Task};
use crate::abi::ladder::{BILATERAL_WORDS, CONVOLVE_WORDS};
use crate::abi::{Extent, Geometry};
use crate::memory::{Device, Memory, Rows};
use crate::stream::Use;
use crate::violation;
use crate::world::{Handle, Texture};

/// Samples across the window of the bilateral.
const SIDE: usize = 2 * RADIUS + 1;

/// A launch that was checked, with the device memory that it touches.
pub struct Launch {
    kernel: Kernel,
    launch: LadderLaunch,
    input: (Device, Rows),
    output: (Device, Rows),
    table: (Device, Rows),
}

/// What a launch reads beside what its parameter names.
pub struct Surroundings<'a> {
    pub memory: &'a Memory,
    pub context: Handle,
    /// The texture that `input` names, if there is one.
    pub texture: Option<&'a Texture>,
    /// Address and bytes of the table in the module's constant memory, if it has one.
    pub constant: Option<(u64, u64)>,
}

impl Launch {
    /// Checks a launch of `kernel`. Ends the process where the host breaks the rules of
    /// `kernels/ladder.h`.
    pub fn new(kernel: Kernel, launch: LadderLaunch, around: &Surroundings) -> Launch {
        if launch.width == 0 || launch.height == 0 {
            violation!("a picture of {}x{}", launch.width, launch.height);
        }
        let (from, to) = kernel.samples();
        let rows = |address: u64, stride: u32, sample: Sample| {
            let aligned = u64::from(stride) | address;
            if stride < launch.width || !aligned.is_multiple_of(ALIGNMENT as u64) {
                violation!("a picture at {address:#x} in rows of {stride} samples");
            }
            Rows {
                address,
                pitch: u64::from(stride) * sample.bytes() as u64,
                width: u64::from(launch.width) * sample.bytes() as u64,
                rows: launch.height.into(),
            }
        };
        let address = match (kernel.reads_texture(), around.texture) {
            (true, Some(texture)) => {
                texture.check(from, launch.width, launch.height, launch.input_stride);
                texture.address
            }
            (true, None) => violation!("{:#x} is no texture", launch.input),
            (false, _) => launch.input,
        };
        let input = rows(address, launch.input_stride, from);
        let output = rows(launch.output, launch.output_stride, to);
        if input.address < output.end() && output.address < input.end() {
            violation!("input and output overlap ({input:?}, {output:?})");
        }
        let words = match kernel.task() {
            Task::Convolve => CONVOLVE_WORDS,
            Task::Bilateral => BILATERAL_WORDS,
        };
        let table = match (kernel.module().has_constant_table(), around.constant) {
            (true, Some((start, bytes))) if bytes == 4 * words as u64 => start,
            (true, found) => violation!("{found:?} for a table of {words} words"),
            (false, _) => launch.table,
        };
        if !table.is_multiple_of(16) {
            violation!("the table at {table:#x} is not aligned");
        }
        let table = Rows::bytes(table, 4 * words as u64);
        let device = |rows: &Rows, what| around.memory.device(rows, around.context, what);
        Launch {
            kernel,
            launch,
            input: (device(&input, "the input"), input),
            output: (device(&output, "the output"), output),
            table: (device(&table, "the table"), table),
        }
    }

    /// Ends the process unless grid and shared memory are what the host side of the interface says of
    /// this launch.
    pub fn check_shape(&self, grid: Extent, block: Extent, shared: u32) {
        let possible = match self.kernel {
            Kernel::ConvolveMatrix => block == Extent { x: 128, y: 1 },
            Kernel::BilateralInt8 => block.x.is_multiple_of(4),
            _ => true,
        };
        if !possible {
            violation!("{} in blocks of {block:?}", self.kernel.name());
        }
        let given = Geometry {
            grid,
            block,
            shared_bytes: shared,
        };
        let expected = (self.kernel).place(self.launch.width, self.launch.height, block);
        if given != expected {
            violation!("{given:?}, expected {expected:?}");
        }
    }

    /// All the memory that the launch reads and writes.
    pub fn uses(&self) -> Vec<Use> {
        vec![
            Use::read(&self.input.1),
            Use::read(&self.table.1),
            Use::write(&self.output.1),
        ]
    }

    pub fn run(&self) {
        let (from, to) = self.kernel.samples();
        let bytes = self.table.0.read(&self.table.1);
        let words = bytes.as_chunks::<4>().0.iter();
        let picture = Picture {
            values: decode(from, &self.input.0.read(&self.input.1)),
            width: self.launch.width as usize,
            table: words.map(|word| u32::from_le_bytes(*word)).collect(),
            color: self.launch.color,
        };
        let (width, height) = (picture.width, self.launch.height as usize);
        let places = (0..height).flat_map(|y| (0..width).map(move |x| (x as isize, y as isize)));
        let results = places.map(|at| picture.result(self.kernel, at));
        self.output.0.write(&self.output.1, &encode(to, results));
    }
}

fn decode(sample: Sample, bytes: &[u8]) -> Vec<f32> {
    let samples = bytes.chunks_exact(sample.bytes());
    samples
        .map(|bytes| match *bytes {
            [code] => f32::from(code),
            [a, b] => f16::from_le_bytes([a, b]).to_f32(),
            [a, b, c, d] => f32::from_le_bytes([a, b, c, d]),
            _ => unreachable!("samples have 1, 2 or 4 bytes"),
        })
        .collect()
}

fn encode(sample: Sample, values: impl Iterator<Item = f32>) -> Vec<u8> {
    let mut bytes = Vec::new();
    for value in values {
        match sample {
            Sample::U8 => bytes.push(value.round_ties_even().clamp(0.0, 255.0) as u8),
            Sample::F16 => bytes.extend(f16::from_f32(value).to_le_bytes()),
            Sample::F32 => bytes.extend(value.to_le_bytes()),
        }
    }
    bytes
}

/// What a float16 instruction makes of an exact result.
fn halved(value: f64) -> f64 {
    f16::from_f64(value).to_f64()
}

struct Picture {
    values: Vec<f32>,
    width: usize,
    table: Vec<u32>,
    color: f32,
}

impl Picture {
    /// The sample nearest to (x, y).
    fn at(&self, x: isize, y: isize) -> f32 {
        let height = self.values.len() / self.width;
        let x = x.clamp(0, self.width as isize - 1) as usize;
        let y = y.clamp(0, height as isize - 1) as usize;
        self.values[y * self.width + x]
    }

    fn float(&self, word: usize) -> f32 {
        f32::from_bits(self.table[word])
    }

    fn result(&self, kernel: Kernel, at: (isize, isize)) -> f32 {
        use Kernel::*;
        match kernel {
            ConvolveNaive | ConvolveTile | ConvolveConstant | ConvolveTexture => {
                self.nine(at, |weight, value, sum| weight.mul_add(value, sum))
            }
            // The products of three by three, whose passes another kernel does one by one.
            ConvolveFused => self.line(at, 12, false, |x, y| {
                self.line((x, y), 9, true, |x, y| self.at(x, y))
            }),
            ConvolveAcross => self.line(at, 9, true, |x, y| self.at(x, y)),
            ConvolveDown => self.line(at, 12, false, |x, y| self.at(x, y)),
            ConvolveHalf2 => self.nine(at, |weight, value, sum| {
                let weight = halved(weight.into());
                halved(weight * f64::from(value) + f64::from(sum)) as f32
            }),
            ConvolveMatrix => self.nine(at, |weight, value, sum| {
                sum + halved(weight.into()) as f32 * value
            }),
            ConvolveInt8 => self.bytes(at),
            BilateralNaive | BilateralTile | BilateralConstant | BilateralTexture => {
                self.mean(at, self.window())
            }
            BilateralAcross => self.mean(at, self.window_line(true)),
            BilateralDown => self.mean(at, self.window_line(false)),
            BilateralHalf2 => self.half_mean(at),
            BilateralInt8 => self.byte_mean(at),
        }
    }

    /// Nine weights, row by row.
    fn nine(&self, (x, y): (isize, isize), add: impl Fn(f32, f32, f32) -> f32) -> f32 {
        (0..9).fold(0.0, |sum, tap| {
            let (dx, dy) = (tap % 3 - 1, tap / 3 - 1);
            add(self.float(tap as usize), self.at(x + dx, y + dy), sum)
        })
    }

    /// Three weights from `first` on, across or down.
    fn line(
        &self,
        (x, y): (isize, isize),
        first: usize,
        across: bool,
        value: impl Fn(isize, isize) -> f32,
    ) -> f32 {
        (0..3).fold(0.0, |sum, tap| {
            let i = tap as isize - 1;
            let (x, y) = if across { (x + i, y) } else { (x, y + i) };
            self.float(first + tap).mul_add(value(x, y), sum)
        })
    }

    fn bytes(&self, (x, y): (isize, isize)) -> f32 {
        let sum: u32 = (0..9)
            .map(|tap| {
                let (dx, dy) = (tap % 3, tap / 3);
                let weight = self.table[15 + dy] >> (8 * dx) & 255;
                weight * self.at(x + dx as isize - 1, y + dy as isize - 1) as u32
            })
            .sum();
        ((sum + 128) >> 8) as f32
    }

    /// Offset and exponent of every tap, row by row.
    fn window(&self) -> impl Iterator<Item = (isize, isize, f32)> + '_ {
        let radius = RADIUS as isize;
        let offsets =
            (-radius..=radius).flat_map(move |dy| (-radius..=radius).map(move |dx| (dx, dy)));
        (offsets.enumerate()).map(|(tap, (dx, dy))| (dx, dy, self.float(tap)))
    }

    fn window_line(&self, across: bool) -> impl Iterator<Item = (isize, isize, f32)> + '_ {
        let radius = RADIUS as isize;
        (-radius..=radius).enumerate().map(move |(tap, i)| {
            let exponent = self.float(SIDE * SIDE + tap);
            if across {
                (i, 0, exponent)
            } else {
                (0, i, exponent)
            }
        })
    }

    fn mean(&self, (x, y): (isize, isize), taps: impl Iterator<Item = (isize, isize, f32)>) -> f32 {
        let centre = self.at(x, y);
        let (mut sum, mut weights) = (0.0f32, 0.0f32);
        for (dx, dy, exponent) in taps {
            let difference = self.at(x + dx, y + dy) - centre;
            let weight = (difference * difference)
                .mul_add(self.color, exponent)
                .exp2();
            sum = weight.mul_add(difference, sum);
            weights += weight;
        }
        centre + sum / weights
    }

    /// As [`mean`](Self::mean), a row of the window at a time in float16.
    fn half_mean(&self, (x, y): (isize, isize)) -> f32 {
        let (centre, color) = (self.at(x, y), halved(self.color.into()));
        let (mut sum, mut weights) = (0.0f32, 0.0f32);
        let taps: Vec<_> = self.window().collect();
        for row in taps.chunks_exact(SIDE) {
            let (mut row_sum, mut row_weights) = (0.0f64, 0.0f64);
            for &(dx, dy, exponent) in row {
                let difference = f64::from(self.at(x + dx, y + dy) - centre);
                let product = halved(difference * color);
                let exponent = halved(product * difference + halved(exponent.into()));
                let weight = halved(exponent.exp2());
                row_sum = halved(weight * difference + row_sum);
                row_weights = halved(row_weights + weight);
            }
            sum += row_sum as f32;
            weights += row_weights as f32;
        }
        centre + sum / weights
    }

    /// Weights in 8 bits, as products of two.
    fn byte_mean(&self, (x, y): (isize, isize)) -> f32 {
        let centre = self.at(x, y) as u32;
        let byte = |first: usize, at: usize| self.table[first + at / 4] >> (8 * (at % 4)) & 255;
        let (mut sum, mut weights) = (0u32, 0u32);
        for (tap, (dx, dy, _)) in self.window().enumerate() {
            let value = self.at(x + dx, y + dy) as u32;
            let distance = byte(SIDE * SIDE + SIDE, tap / SIDE * 16 + tap % SIDE);
            let range = byte(300, value.abs_diff(centre) as usize);
            let weight = (distance * range + 128) >> 8;
            sum += weight * value;
            weights += weight;
        }
        ((sum + weights / 2) / weights) as f32
    }
}
