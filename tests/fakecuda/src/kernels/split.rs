//! Weights taken apart for the matrix units. What is computed with them is canonical, so it is computed from the plain
//! weights here, and the matrices are looked at alone.

use half::f16;

use super::launch::read_words;
use super::linear::lines;
use crate::abi::products::Reach;
use crate::abi::split::{BASE, CONSTANTS, Split, UNIT};
use crate::abi::{ConvolveLaunch, MAX_CHANNELS, push_line};
use crate::memory::{Memory, Rows};
use crate::violation;
use crate::world::Handle;

/// Words of a product: four of each of 32 lanes.
const PRODUCT: usize = 128;
/// Rows and columns of one.
const SIDE: i32 = 16;
/// What the larger parts of sums are divided by.
const HIGH: f64 = 512.0;

/// Where the matrices of `launch` are. Ends the process when they do not make up its weights.
pub fn check(launch: &ConvolveLaunch, reach: Reach, memory: &Memory, context: Handle) -> Rows {
    let (across, down) = lines(launch, &launch.kernels[0]);
    let words = Split::words(reach);
    let mut plain = Vec::new();
    push_line(&mut plain, across);
    push_line(&mut plain, down);
    let rows = Rows::bytes(launch.weights, 4 * (words + plain.len()) as u64);
    let mut table = read_words(&memory.device(&rows, context, "the matrices"), &rows);
    let behind = table.split_off(words);
    if !behind.iter().copied().map(f32::from_bits).eq(plain) {
        violation!("weights behind their matrices that are others");
    }
    if !launch.weights.is_multiple_of(16) {
        violation!("the matrices at {:#x} are not aligned", launch.weights);
    }
    let (matrices, constants) = table.split_at(words - CONSTANTS);
    let (of_across, of_down) = matrices.split_at(2 * reach.words_across());
    let steps: Vec<i32> = match reach.pixels {
        true => vec![1],
        false => (1..=MAX_CHANNELS as i32).collect(),
    };
    let products = of_across.len() / 2 / steps.len() / PRODUCT;
    let scales = steps.iter().enumerate().map(|(index, step)| {
        let own = Matrices {
            words: of_across,
            first: index * products,
            products,
            low: 1.0,
        };
        let read = if reach.pixels { pixel_read } else { byte_read };
        own.scale_of(across, *step, written, read)
    });
    let scales: Vec<f64> = scales.collect();
    let own = Matrices {
        words: of_down,
        first: 0,
        products: reach.blocks,
        low: 1.0 / HIGH,
    };
    let down_scale = own.scale_of(down, 1, |row| row, |column| column);
    let constant = |at: usize| f64::from(f32::from_bits(constants[at]));
    let factor = HIGH / (scales[0] * down_scale * f64::from(launch.divisor));
    let sum = |weights: &[f32]| weights.iter().map(|&w| f64::from(w)).sum::<f64>();
    let all = sum(across) * sum(down) / f64::from(launch.divisor);
    // What results may be too small by is added to them, and the window holds what they may be too large by besides.
    let raised = (constant(6) - BASE - 0.5) / UNIT;
    let right = scales.iter().all(|scale| near(*scale, scales[0]))
        && near(constant(1), factor)
        && near(constant(2), all)
        && raised > 0.0
        && f64::from(constants[7]) > raised;
    if !right {
        violation!("factors of {constants:?} for {across:?} and {down:?}");
    }
    rows
}

/// The same but for the rounding of some numbers of float32.
fn near(value: f64, expected: f64) -> bool {
    (value - expected).abs() <= 1e-5 * expected.abs()
}

/// The products of one line of weights: of high parts, and as far behind them of low ones.
struct Matrices<'a> {
    words: &'a [u32],
    first: usize,
    products: usize,
    /// What a low part of 1 is worth.
    low: f64,
}

impl Matrices<'_> {
    /// Row and column of a product, and what stands there.
    fn weights(&self, product: usize) -> impl Iterator<Item = (i32, i32, f64)> + '_ {
        let at = (self.first + product) * PRODUCT;
        let part = move |at: usize, half: usize| {
            let bits = self.words[at] >> (16 * half) & 0xffff;
            f16::from_bits(bits as u16).to_f64()
        };
        (0..2 * PRODUCT).map(move |index| {
            let (word, half) = (index / 2, index % 2);
            let (lane, register) = (word / 4, word % 4);
            let high = part(at + word, half);
            let low = part(at + word + self.words.len() / 2, half);
            let row = lane / 4 + register % 2 * 8;
            let column = lane % 4 * 2 + half + register / 2 * 8;
            (row as i32, column as i32, high + low * self.low)
        })
    }

    /// What the matrices are times `line`, of samples `step` columns apart, where rows and columns are of such places.
    /// Ends the process where that is not the same for all.
    fn scale_of(
        &self,
        line: &[f32],
        step: i32,
        written: fn(i32) -> i32,
        read: fn(i32) -> i32,
    ) -> f64 {
        // As many columns before the 16 written as behind them, in whole products or halves of such.
        let before = (self.products as i32 - 1) * SIDE / 2;
        let centre = line.len() as i32 / 2;
        let weight = |product: usize, row: i32, column: i32| {
            let distance = product as i32 * SIDE + read(column) - before - written(row);
            let at = usize::try_from(distance / step + centre).ok();
            let found = at.filter(|_| distance % step == 0);
            f64::from(found.and_then(|at| line.get(at)).copied().unwrap_or(0.0))
        };
        let largest = line
            .iter()
            .fold(0.0f32, |a, b| if b.abs() > a.abs() { *b } else { a });
        let all = || {
            let products = 0..self.products;
            products.flat_map(|product| {
                let weights = self.weights(product);
                weights.map(move |(row, column, value)| (weight(product, row, column), value))
            })
        };
        let of_largest = all().find(|(weight, _)| *weight == f64::from(largest));
        let scale = of_largest.map_or(0.0, |(weight, value)| value / weight);
        // What is left of a whole number has 11 bits.
        let off = |(weight, value): (f64, f64)| (value - weight * scale).abs() > 1.0 / 1024.0;
        if scale <= 0.0 || all().any(off) {
            violation!("matrices that are not those of {line:?}");
        }
        scale
    }
}

fn written(row: i32) -> i32 {
    row % 8 / 2 * 4 + row / 8 * 2 + row % 2
}

fn byte_read(column: i32) -> i32 {
    column % 8 / 2 * 4 + column / 8 + column % 2 * 2
}

fn pixel_read(column: i32) -> i32 {
    column / 8 * 8 + column % 2 * 4 + column % 8 / 2
}
