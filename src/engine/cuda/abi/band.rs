//! The weights of a kernel as the band matrices that `kernels/convolve_matrix.cu` multiplies by, in
//! the order in which its threads hold them.
//!
//! Matrix products are those of PTX's `mma.m16n8k32` of bytes; where a thread's words lie in the first
//! operand says [`super::matrix`]. Row by row of the kernel, one such operand makes 16 neighbouring
//! outputs of 32 neighbouring samples: its diagonals are the weights. Wide kernels take several, each
//! of the next 32 samples.

use super::matrix::{LANES, place};

/// Outputs of a product.
const OUTPUTS: usize = 16;
/// Samples of a product.
const SAMPLES: usize = 32;
/// The samples before the outputs are whole units of so many.
const UNIT: usize = 8;
/// Rows of the kernel that are multiplied together, eight apart.
const APART: usize = 2;
const GROUP: usize = 8;

/// Products that a row of a kernel of `width` weights takes.
pub fn slices(width: usize) -> usize {
    (left(width) + width / 2 + OUTPUTS).div_ceil(SAMPLES)
}

/// Samples of a tile before its first output.
pub fn left(width: usize) -> usize {
    (width / 2).next_multiple_of(UNIT)
}

/// The matrices of the kernel of `width` weights a row, whole numbers from -128 to 127: for every 16
/// rows of it, for every product of a row, for every eighth row from the first, the second, … on those of both, as
/// four words of each thread.
pub fn table(weights: &[f32], width: usize) -> Vec<u32> {
    let height = weights.len() / width;
    let mut words = Vec::new();
    for first in (0..height).step_by(APART * GROUP) {
        for slice in 0..slices(width) {
            for row in (0..GROUP).flat_map(|phase| [first + phase, first + phase + GROUP]) {
                let row = weights.get(row * width..(row + 1) * width);
                for lane in 0..LANES {
                    words.extend((0..4).map(|register| word(row, width, slice, lane, register)));
                }
            }
        }
    }
    words
}

/// The output that row `row` of a first operand makes: a thread has two neighbours.
fn output(row: usize) -> usize {
    row % 8 * 2 + row / 8
}

fn word(weights: Option<&[f32]>, width: usize, slice: usize, lane: usize, register: usize) -> u32 {
    let (row, first) = place(lane, register);
    u32::from_le_bytes(std::array::from_fn(|byte| {
        let sample = slice * SAMPLES + first + byte;
        // The tile begins `left` samples before the first output, its first tap half the width before.
        let tap = (sample + width / 2).checked_sub(left(width) + output(row));
        let weight = weights.zip(tap).and_then(|(row, tap)| row.get(tap));
        weight.map_or(0, |&weight| weight as i8 as u8)
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The sums of a kernel over `samples`, rows of `pitch`, for 16 outputs of the row `y`, by the
    /// products of all its matrices.
    fn products(
        words: &[u32],
        width: usize,
        height: usize,
        samples: &[u8],
        pitch: usize,
    ) -> [i32; 16] {
        let mut sums = [0; 16];
        for row in 0..height {
            for slice in 0..slices(width) {
                let (block, phase, second) = (row / 16, row % GROUP, row / GROUP % 2);
                let matrix = ((block * slices(width) + slice) * GROUP + phase) * APART + second;
                for lane in 0..LANES {
                    for register in 0..4 {
                        let word = words[(matrix * LANES + lane) * 4 + register];
                        let (of, first) = place(lane, register);
                        for (byte, weight) in word.to_le_bytes().into_iter().enumerate() {
                            let at = slice * SAMPLES + first + byte;
                            let sample = samples.get(row * pitch + at).filter(|_| at < pitch);
                            // Beyond the tile anything may be read.
                            let sample = sample.copied().unwrap_or(0xa5);
                            sums[output(of)] += i32::from(weight as i8) * i32::from(sample);
                        }
                    }
                }
            }
        }
        sums
    }

    #[test]
    fn products_with_the_matrices_are_the_sums() {
        for (width, height) in [
            (1, 1),
            (3, 5),
            (15, 15),
            (17, 33),
            (19, 3),
            (49, 7),
            (51, 9),
            (65, 65),
        ] {
            let weights: Vec<f32> = (0..width * height)
                .map(|at| (at * 29 % 256) as f32 - 128.0)
                .collect();
            let pitch = left(width) * 2 + OUTPUTS;
            let samples: Vec<u8> = (0..pitch * height)
                .map(|at| (at * 37 % 251) as u8)
                .collect();
            let words = table(&weights, width);
            assert_eq!(
                words.len(),
                height.div_ceil(16) * slices(width) * 16 * LANES * 4
            );
            let sums = products(&words, width, height, &samples, pitch);
            for (output, sum) in sums.into_iter().enumerate() {
                let first = left(width) - width / 2 + output;
                let expected: i32 = (weights.chunks(width).zip(samples.chunks(pitch)))
                    .flat_map(|(weights, row)| weights.iter().zip(&row[first..]))
                    .map(|(&weight, &sample)| weight as i32 * i32::from(sample))
                    .sum();
                assert_eq!(sum, expected, "{width}x{height}, output {output}");
            }
        }
    }

    #[test]
    fn tiles_hold_what_their_products_read() {
        for width in (1..=65).step_by(2) {
            // Of an output, its own samples and those of the row that the last product begins.
            assert!(
                2 * left(width) <= SAMPLES * slices(width) - OUTPUTS,
                "{width}"
            );
        }
    }
}
