//! The weights of separable kernels as the matrices that `kernels/separable_matrix.cu` multiplies
//! by, in the order in which its threads hold them.
//!
//! Matrix products are those of PTX's `mma.m16n8k32` of bytes: of the first operand, 16 rows of 32,
//! thread `t` of group `g` (lane 4g + t) holds four consecutive bytes of row g or g + 8 in each of
//! four registers. How rows and columns of these products stand for places in the picture is free as
//! long as all agree; it is said here and, in the same words, in that source.

use super::MAX_CHANNELS;

/// Most samples beyond the centre of a kernel, on each axis.
pub const MATRIX_RADIUS: usize = 4;
/// Largest sum of the weights across.
pub const MATRIX_SUM: f32 = 257.0;

pub(super) const LANES: usize = 32;
/// Words of a thread: of the weights across for each number of channels, and of those down.
const ACROSS: usize = 16;
const DOWN: usize = 4;
/// Bytes that a warp reads on either side of those that it computes.
const BESIDE: usize = 16;
/// Rows above the first output that a product down begins with.
const ABOVE: usize = 4;

/// Words of [`table`].
pub const MATRIX_WORDS: usize = (MAX_CHANNELS * ACROSS + DOWN) * LANES;

/// The matrices of the kernel `down` by `across`, of whole numbers from 0 to 255: for one to four
/// channels, threads' words across, four words of all threads at a time; then those down.
pub fn table(across: &[f32], down: &[f32]) -> Vec<u32> {
    let mut words = Vec::with_capacity(MATRIX_WORDS);
    for channels in 1..=MAX_CHANNELS {
        for first in (0..ACROSS).step_by(4) {
            for lane in 0..LANES {
                words.extend(
                    (first..first + 4).map(|word| word_across(across, channels, lane, word)),
                );
            }
        }
    }
    for lane in 0..LANES {
        words.extend((0..DOWN).map(|word| word_down(down, lane, word)));
    }
    words
}

/// The weight at `distance` from the centre.
fn weight(weights: &[f32], distance: i32) -> u8 {
    let index = distance + weights.len() as i32 / 2;
    let weight = usize::try_from(index)
        .ok()
        .and_then(|index| weights.get(index));
    weight.map_or(0, |&weight| weight as u8)
}

/// The row of a first operand that a register of a lane is of, and the first column of its four bytes.
pub(super) fn place(lane: usize, register: usize) -> (usize, usize) {
    (
        lane / 4 + register % 2 * 8,
        lane % 4 * 4 + register / 2 * 16,
    )
}

/// The byte among the 32 that a warp computes of a row that row `row` of the products across is the sum
/// of, in the first or the second half of them.
fn column(half: usize, row: usize) -> usize {
    row % 8 / 2 * 8 + half * 4 + row / 8 * 2 + row % 2
}

/// The byte among the 64 that a warp reads of a row that column `column` of product `product` across
/// multiplies: each of four threads has 16 bytes, four for each half of each product.
fn byte_read(product: usize, column: usize) -> usize {
    let (thread, byte, half) = (column % 16 / 4, column % 4, column / 16);
    thread * 16 + (2 * product + half) * 4 + byte
}

/// The row, counted from the first that it needs, that column `column` of a product down multiplies:
/// two sums of each of two groups of 8 rows make a word.
fn row_read(column: usize) -> usize {
    let (thread, byte, pair) = (column % 16 / 4, column % 4, column / 16);
    pair * 16 + byte / 2 * 8 + thread * 2 + byte % 2
}

fn word_across(weights: &[f32], channels: usize, lane: usize, word: usize) -> u32 {
    let (half, product) = (word / 8, word / 4 % 2);
    let (row, first) = place(lane, word % 4);
    let centre = BESIDE + column(half, row);
    of_bytes(|byte| {
        let distance = byte_read(product, first + byte) as i32 - centre as i32;
        match distance % channels as i32 {
            0 => weight(weights, distance / channels as i32),
            _ => 0,
        }
    })
}

fn word_down(weights: &[f32], lane: usize, word: usize) -> u32 {
    let (row, first) = place(lane, word);
    of_bytes(|byte| {
        let distance = row_read(first + byte) as i32 - (ABOVE + row) as i32;
        weight(weights, distance)
    })
}

fn of_bytes(byte: impl Fn(usize) -> u8) -> u32 {
    u32::from_le_bytes(std::array::from_fn(byte))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A product of the first operand that 32 lanes hold in four registers each.
    fn product(words: impl Fn(usize, usize) -> u32, second: impl Fn(usize) -> u32) -> [u32; 16] {
        let mut sums = [0; 16];
        for lane in 0..LANES {
            for register in 0..4 {
                let (row, first) = place(lane, register);
                for (byte, weight) in words(lane, register).to_le_bytes().into_iter().enumerate() {
                    sums[row] += u32::from(weight) * second(first + byte);
                }
            }
        }
        sums
    }

    #[test]
    fn products_with_the_matrices_are_the_sums_across() {
        let across = [1.0, 2.0, 40.0, 80.0, 200.0, 3.0, 5.0, 7.0, 11.0];
        let bytes: Vec<u32> = (0..64).map(|at| (at * 37 + 11) % 256).collect();
        for taps in [&across[..], &across[2..7], &across[3..6]] {
            let words = table(taps, &[1.0]);
            assert_eq!(words.len(), MATRIX_WORDS);
            for channels in 1..=MAX_CHANNELS {
                let word = |lane: usize, word: usize| {
                    words[(((channels - 1) * 4 + word / 4) * LANES + lane) * 4 + word % 4]
                };
                for half in 0..2 {
                    let sums: Vec<[u32; 16]> = (0..2)
                        .map(|n| {
                            let words = |lane, register| word(lane, 8 * half + 4 * n + register);
                            product(words, |column| bytes[byte_read(n, column)])
                        })
                        .collect();
                    let sums = sums[0].iter().zip(sums[1]).map(|(a, b)| a + b);
                    for (row, sum) in sums.enumerate() {
                        let centre = BESIDE + column(half, row);
                        let expected = taps.iter().enumerate().map(|(tap, &weight)| {
                            let at = centre + tap * channels - taps.len() / 2 * channels;
                            weight as u32 * bytes[at]
                        });
                        assert_eq!(sum, expected.sum::<u32>(), "{channels} {half} {row}");
                    }
                }
            }
        }
    }

    #[test]
    fn products_with_the_matrix_are_the_sums_down() {
        let down = [1.0, 2.0, 40.0, 80.0, 255.0, 3.0, 5.0, 7.0, 11.0];
        let rows: Vec<u32> = (0..32).map(|at| (at * 53 + 7) % 256).collect();
        for taps in [&down[..], &down[3..6], &down[4..5]] {
            let words = table(&[1.0], taps);
            let words = &words[MAX_CHANNELS * ACROSS * LANES..];
            let sums = product(
                |lane, word| words[4 * lane + word],
                |column| rows[row_read(column)],
            );
            for (row, sum) in sums.into_iter().enumerate() {
                let expected = taps
                    .iter()
                    .enumerate()
                    .map(|(tap, &weight)| weight as u32 * rows[ABOVE + row + tap - taps.len() / 2]);
                assert_eq!(sum, expected.sum::<u32>(), "{row}");
            }
        }
    }

    #[test]
    fn every_place_is_read_once() {
        for product in 0..2 {
            let mut places: Vec<usize> = (0..32).map(|at| byte_read(product, at)).collect();
            places.extend((0..32).map(|at| byte_read(1 - product, at)));
            places.sort_unstable();
            assert_eq!(places, (0..64).collect::<Vec<_>>());
        }
        let mut rows: Vec<usize> = (0..32).map(row_read).collect();
        rows.sort_unstable();
        assert_eq!(rows, (0..32).collect::<Vec<_>>());
        let mut columns: Vec<usize> = (0..32).map(|at| column(at / 16, at % 16)).collect();
        columns.sort_unstable();
        assert_eq!(columns, (0..32).collect::<Vec<_>>());
    }
}
