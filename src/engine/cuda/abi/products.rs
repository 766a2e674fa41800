//! The matrices that kernels of staged rows multiply by on the matrix units, in the order in which their threads
//! hold them: `kernels/separable_half.cu`, `kernels/separable_pixels.cu` and `kernels/separable_split.cu`.
//!
//! Matrix products are those of PTX's `mma.m16n8k16` of float16: of the first operand, 16 rows of 16,
//! thread `t` of group `g` (lane 4g + t) holds columns 2t and 2t + 1 of row g, of row g + 8, and the same
//! 8 columns further; of `mma.m16n8k8` the first or the second half of that. How rows
//! and columns of these products stand for places in the picture is free as long as all agree; it is said here and, in
//! the same words, in those sources.

use half::f16;

use super::MAX_CHANNELS;

const LANES: usize = 32;
/// Bytes of a row, or rows, of one product.
const SIDE: i32 = 16;
/// Words of a thread for one product.
const WORDS: usize = 4;

/// How far the matrices of a kernel reach.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Reach {
    /// Pieces of 16 bytes that are read on either side.
    pub pieces: usize,
    /// Blocks of 16 rows that 16 rows of sums are computed from.
    pub blocks: usize,
    /// Whether pixels have four channels, and products across are of 16 pixels of one of them; else they are of 16
    /// bytes, whatever these are.
    pub pixels: bool,
}

impl Reach {
    /// Most samples beyond the centre, across where `channels` are interleaved, and down.
    pub fn samples(self, channels: usize) -> (usize, usize) {
        let side = SIDE as usize;
        (side * self.pieces / channels, self.rows_above())
    }

    /// Rows above an output that the first product down begins with.
    fn rows_above(self) -> usize {
        SIDE as usize * (self.blocks - 1) / 2
    }

    /// Words of the matrices of one line of weights across: those of pixels are as many as blocks, as they reach as far
    /// beyond the centre as rows do; of bytes there are some for each number of channels.
    pub fn words_across(self) -> usize {
        let products = match self.pixels {
            true => self.blocks,
            false => MAX_CHANNELS * (2 * self.pieces + 1),
        };
        products * WORDS * LANES
    }

    /// Words of those of one line of weights down.
    pub fn words_down(self) -> usize {
        self.blocks * WORDS * LANES
    }

    /// Appends the matrices of `weights` across: for one to four channels, or for pixels once, threads' words of each
    /// product, four words of all threads at a time.
    pub fn push_across(self, words: &mut Vec<u32>, weights: &[f16]) {
        match self.pixels {
            true => self.push_pixels(words, weights),
            false => self.push_bytes(words, weights),
        }
    }

    fn push_bytes(self, words: &mut Vec<u32>, weights: &[f16]) {
        for channels in 1..=MAX_CHANNELS {
            for product in 0..2 * self.pieces + 1 {
                let piece = product as i32 - self.pieces as i32;
                push_product(words, |row, column| {
                    let distance = piece * SIDE + byte_read(column) - place_written(row);
                    match distance % channels as i32 {
                        0 => weight(weights, distance / channels as i32),
                        _ => f16::ZERO,
                    }
                });
            }
        }
    }

    fn push_pixels(self, words: &mut Vec<u32>, weights: &[f16]) {
        for block in 0..self.blocks as i32 {
            let first = block * SIDE - self.rows_above() as i32;
            push_product(words, |row, column| {
                weight(weights, first + pixel_read(column) - place_written(row))
            });
        }
    }

    /// Appends the matrices of `weights` down, in the same way.
    pub fn push_down(self, words: &mut Vec<u32>, weights: &[f16]) {
        for block in 0..self.blocks as i32 {
            push_product(words, |row, column| {
                let distance = block * SIDE + column - self.rows_above() as i32 - row;
                weight(weights, distance)
            });
        }
    }
}

/// The weight at `distance` from the centre.
fn weight(weights: &[f16], distance: i32) -> f16 {
    let index = usize::try_from(distance + weights.len() as i32 / 2);
    let weight = index.ok().and_then(|index| weights.get(index));
    weight.copied().unwrap_or(f16::ZERO)
}

/// The byte or pixel among 16 that row `row` of a product across gives the sum of: a thread gets four that stand one
/// behind the other, two of each of two products down.
fn place_written(row: i32) -> i32 {
    row % 8 / 2 * 4 + row / 8 * 2 + row % 2
}

/// The byte among 16 that column `column` of a product across multiplies: a thread has four that stand one
/// behind the other, the first and the third in one register.
fn byte_read(column: i32) -> i32 {
    column % 8 / 2 * 4 + column / 8 + column % 2 * 2
}

/// The pixel among 16 that it multiplies: a thread has four that stand four apart, the first two in one register.
fn pixel_read(column: i32) -> i32 {
    column / 8 * 8 + column % 2 * 4 + column % 8 / 2
}

/// Appends a first operand: words of all lanes.
fn push_product(words: &mut Vec<u32>, weight: impl Fn(i32, i32) -> f16) {
    for lane in 0..LANES {
        for register in 0..WORDS {
            let (row, column) = place(lane, register);
            let of = |column| u32::from(weight(row, column).to_bits());
            words.push(of(column) | of(column + 1) << 16);
        }
    }
}

/// The row of a first operand that a register of a lane is of, and the first of its two columns.
fn place(lane: usize, register: usize) -> (i32, i32) {
    let (group, thread) = (lane / 4, lane % 4);
    let row = group + register % 2 * 8;
    (row as i32, (thread * 2 + register / 2 * 8) as i32)
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    const REACHES: [Reach; 2] = [
        Reach {
            pieces: 2,
            blocks: 2,
            pixels: false,
        },
        Reach {
            pieces: 4,
            blocks: 3,
            pixels: false,
        },
    ];

    /// A product of the first operand that 32 lanes hold in four registers each.
    fn product(words: &[u32], second: impl Fn(i32) -> f64) -> [f64; 16] {
        let mut sums = [0.0; 16];
        for lane in 0..LANES {
            for register in 0..WORDS {
                let word = words[lane * WORDS + register];
                let (row, column) = place(lane, register);
                for (at, bits) in [word & 0xffff, word >> 16].into_iter().enumerate() {
                    let weight = f16::from_bits(bits as u16).to_f64();
                    sums[row as usize] += weight * second(column + at as i32);
                }
            }
        }
        sums
    }

    /// Weights of every size and sign, not symmetric.
    pub fn uneven(count: usize) -> Vec<f32> {
        let weight = |i: usize| ((i * 37 + 11) % 50) as f32 / 100.0 - 0.1;
        (0..count).map(weight).collect()
    }

    fn halves(count: usize) -> Vec<f16> {
        uneven(count).into_iter().map(f16::from_f32).collect()
    }

    fn close(value: f64, expected: f64) {
        assert!((value - expected).abs() < 1e-9, "{value} for {expected}");
    }

    #[test]
    fn products_with_the_matrices_are_the_sums_across() {
        for (reach, taps) in REACHES
            .iter()
            .flat_map(|reach| [1, 3, 7, 17].map(|taps| (*reach, taps)))
        {
            let (mut table, weights) = (Vec::new(), halves(taps));
            reach.push_across(&mut table, &weights);
            assert_eq!(table.len(), reach.words_across());
            let byte = |at: i32| f64::from((at + 200) * 37 % 256);
            let mut products = table.chunks_exact(WORDS * LANES);
            for channels in 1..=MAX_CHANNELS {
                let mut sums = [0.0; 16];
                for piece in -(reach.pieces as i32)..=reach.pieces as i32 {
                    let words = products.next().unwrap();
                    let of_piece = product(words, |column| byte(piece * SIDE + byte_read(column)));
                    sums.iter_mut()
                        .zip(of_piece)
                        .for_each(|(sum, part)| *sum += part);
                }
                if taps / 2 > reach.samples(channels).0 {
                    continue;
                }
                for (row, sum) in sums.into_iter().enumerate() {
                    let at = |tap: usize| (tap as i32 - taps as i32 / 2) * channels as i32;
                    let centre = place_written(row as i32);
                    let expected = (weights.iter().enumerate())
                        .map(|(tap, weight)| weight.to_f64() * byte(centre + at(tap)));
                    close(sum, expected.sum());
                }
            }
        }
    }

    #[test]
    fn products_with_the_matrices_are_the_sums_of_pixels_across() {
        for (reach, taps) in [(REACHES[0], 17), (REACHES[1], 5), (REACHES[1], 33)] {
            let reach = Reach {
                pixels: true,
                ..reach
            };
            let (mut table, weights) = (Vec::new(), halves(taps));
            reach.push_across(&mut table, &weights);
            assert_eq!(table.len(), reach.words_across());
            let pixel = |at: i32| f64::from((at + 200) * 37 % 256);
            let before = reach.samples(MAX_CHANNELS).0 as i32;
            let mut sums = [0.0; 16];
            for (block, words) in table.chunks_exact(WORDS * LANES).enumerate() {
                let first = block as i32 * SIDE - before;
                let of_block = product(words, |column| pixel(first + pixel_read(column)));
                sums.iter_mut()
                    .zip(of_block)
                    .for_each(|(sum, part)| *sum += part);
            }
            for (row, sum) in sums.into_iter().enumerate() {
                let first = place_written(row as i32) - taps as i32 / 2;
                let terms = (first..).zip(&weights);
                let expected = terms.map(|(at, weight)| weight.to_f64() * pixel(at));
                close(sum, expected.sum());
            }
        }
    }

    #[test]
    fn products_with_the_matrices_are_the_sums_down() {
        for (reach, taps) in [
            (REACHES[0], 9),
            (REACHES[0], 17),
            (REACHES[1], 25),
            (REACHES[1], 33),
        ] {
            let (mut table, weights) = (Vec::new(), halves(taps));
            reach.push_down(&mut table, &weights);
            assert_eq!(table.len(), reach.words_down());
            let row = |at: i32| f64::from((at + 200) * 53 % 256);
            let mut sums = [0.0; 16];
            for (block, words) in table.chunks_exact(WORDS * LANES).enumerate() {
                let of_block = product(words, |column| row(block as i32 * SIDE + column));
                sums.iter_mut()
                    .zip(of_block)
                    .for_each(|(sum, part)| *sum += part);
            }
            for (at, sum) in sums.into_iter().enumerate() {
                let centre = (at + reach.rows_above()) as i32;
                let expected = (weights.iter().enumerate())
                    .map(|(tap, w)| w.to_f64() * row(centre + tap as i32 - taps as i32 / 2));
                close(sum, expected.sum());
            }
        }
    }

    #[test]
    fn every_place_is_read_and_written_once() {
        for order in [place_written, byte_read, pixel_read] {
            let mut places: Vec<i32> = (0..SIDE).map(order).collect();
            places.sort_unstable();
            assert_eq!(places, (0..SIDE).collect::<Vec<_>>());
        }
    }
}
