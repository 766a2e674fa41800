//! The weights of separable kernels, rounded to float16, as the matrices that `kernels/separable_half.cu` and
//! `kernels/separable_pixels.cu` multiply by, in the order in which their threads hold them.
//!
//! Matrix products are those of PTX's `mma.m16n8k16` of float16: of the first operand, 16 rows of 16,
//! thread `t` of group `g` (lane 4g + t) holds columns 2t and 2t + 1 of row g, of row g + 8, and the same
//! 8 columns further; of `mma.m16n8k8`, which the second source takes down, the first or the second half of that. How rows
//! and columns of these products stand for places in the picture is free as long as all agree; it is said here and, in
//! the same words, in those sources.
//!
//! # Scale
//! A byte in the low half of a float16 is a denormal number, of 2^-24 times its value. Weights across
//! are scaled so that their magnitudes sum to 2^15, so sums across are 2^-9 times a code value at most
//! 255; those down undo that, with the divisor in them.
//!
//! # Rounding
//! Weights are rounded to the nearest float16; then some are moved by units in their last place, the largest
//! first and those that mirror each other together, so that their sum is right to within the unit of
//! the smallest: level areas keep their level.

use half::f16;

use super::MAX_CHANNELS;

const LANES: usize = 32;
/// Bytes of a row, or rows, of one product.
const SIDE: i32 = 16;
/// Words of a thread for one product.
const WORDS: usize = 4;
/// Words behind the weights: see [`Matrices::table`].
const CONSTANTS: usize = 4;
/// What the magnitudes of the weights across sum to, and code values in sums across are times.
const ACROSS: f64 = 32768.0;
const CODE: f64 = 1.0 / 16_777_216.0;

/// The most that a filter may enlarge differences: errors grow as they do.
pub const MOST_GAIN: f64 = 4.0;

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

    /// Words of [`Matrices::table`].
    pub fn words(self) -> usize {
        (self.across() + self.blocks) * WORDS * LANES + CONSTANTS
    }

    /// Products across of the table: of pixels as many as blocks, as they reach as far beyond the centre as rows do.
    fn across(self) -> usize {
        match self.pixels {
            true => self.blocks,
            false => MAX_CHANNELS * (2 * self.pieces + 1),
        }
    }
}

/// Rows of a tile: with `columns` tiles across planes of such `heights`, of `slots` blocks that a GPU has room
/// for at once. A block loads and sums a step of 16 rows besides its own, and takes about two more to
/// begin; the last round of blocks should not be a small one.
pub fn tile_height(columns: &[u32], heights: &[u32], slots: u32) -> u32 {
    best_height(columns, heights, slots, |height| f64::from(height / 16 + 3))
}

/// The same with blocks that take `work` for a height.
pub(super) fn best_height(
    columns: &[u32],
    heights: &[u32],
    slots: u32,
    work: impl Fn(u32) -> f64,
) -> u32 {
    const HEIGHTS: [u32; 10] = [16, 32, 48, 64, 80, 96, 112, 128, 144, 208];
    best_height_of(&HEIGHTS, columns, heights, slots, |height, rounds| {
        // A multiprocessor that is not full is faster, down to half the time.
        let rounds = match rounds < 1.0 {
            true => 0.5 + rounds / 2.0,
            false => rounds.ceil(),
        };
        rounds * work(height)
    })
}

/// The one of the heights `among` that takes the least `time`, which is that of blocks of a height that fill the GPU so
/// many times.
pub(super) fn best_height_of(
    among: &[u32],
    columns: &[u32],
    heights: &[u32],
    slots: u32,
    time: impl Fn(u32, f64) -> f64,
) -> u32 {
    let cost = |height: &u32| {
        let blocks = columns.iter().zip(heights);
        let blocks: u32 = blocks.map(|(c, rows)| c * rows.div_ceil(*height)).sum();
        time(*height, f64::from(blocks) / f64::from(slots))
    };
    let costs = among.iter().map(|height| (*height, cost(height)));
    let best = costs.min_by(|a, b| a.1.total_cmp(&b.1));
    best.map_or(64, |(height, _)| height)
}

/// A separable kernel with its weights rounded.
#[derive(Debug, Clone, PartialEq)]
pub struct Matrices {
    across: Vec<f16>,
    down: Vec<f16>,
    /// Of the weights as they were, divided: of those below 0, and of those above.
    below: f64,
    above: f64,
}

/// Adds the negative and the positive ones of `weights` up.
fn sums(weights: &[f32]) -> (f64, f64) {
    let sum = |sign: f32| -> f64 {
        let of_sign = weights.iter().filter(|&&weight| weight * sign > 0.0);
        of_sign.map(|&weight| f64::from(weight)).sum()
    };
    (sum(-1.0), sum(1.0))
}

fn sum_of(weights: &[f16]) -> f64 {
    weights.iter().map(|weight| weight.to_f64()).sum()
}

/// The difference to the next float16 further from 0.
fn unit(weight: f16) -> f64 {
    f16::from_bits((weight.to_bits() & 0x7fff) + 1).to_f64()
        - f16::from_bits(weight.to_bits() & 0x7fff).to_f64()
}

/// `weights` as float16 whose sum is theirs: see the module's documentation.
fn rounded(weights: &[f64]) -> Vec<f16> {
    let mut rounded: Vec<f16> = weights
        .iter()
        .map(|&weight| f16::from_f64(weight))
        .collect();
    let mut left = weights.iter().sum::<f64>() - sum_of(&rounded);
    let mut order: Vec<usize> = (0..weights.len()).filter(|&i| weights[i] != 0.0).collect();
    order.sort_by(|&a, &b| weights[b].abs().total_cmp(&weights[a].abs()));
    let mut done = vec![false; weights.len()];
    for index in order {
        let mirrored = weights.len() - 1 - index;
        let places = match mirrored != index && weights[mirrored] == weights[index] {
            true => &[index, mirrored][..],
            false => &[index],
        };
        let (unit, count) = (unit(rounded[index]), places.len() as f64);
        if std::mem::replace(&mut done[index], true) || left.abs() <= count * unit / 2.0 {
            continue;
        }
        let units = (left / (count * unit)).round();
        let moved = f16::from_f64(rounded[index].to_f64() + units * unit);
        left -= count * (moved.to_f64() - rounded[index].to_f64());
        for &place in places {
            (rounded[place], done[place]) = (moved, true);
        }
    }
    rounded
}

/// How many times larger than itself a difference between samples can be in the result.
pub fn gain(across: &[f32], down: &[f32], divisor: f32) -> f64 {
    let (low_across, high_across) = sums(across);
    let (low_down, high_down) = sums(down);
    (high_across - low_across) * (high_down - low_down) / f64::from(divisor).abs()
}

impl Matrices {
    /// Rounds the kernel `down` by `across`, divided by `divisor`.
    pub fn new(across: &[f32], down: &[f32], divisor: f32) -> Matrices {
        let ((low_across, high_across), (low_down, high_down)) = (sums(across), sums(down));
        let divisor = f64::from(divisor);
        let magnitudes = match high_across - low_across {
            0.0 => 1.0,
            sum => sum,
        };
        let scaled = |weights: &[f32], factor: f64| -> Vec<f16> {
            let scaled: Vec<f64> = (weights.iter().map(|&w| f64::from(w) * factor)).collect();
            rounded(&scaled)
        };
        let scaled_across = scaled(across, ACROSS / magnitudes);
        // What the rounding of those across left of their sum is made good down.
        let wanted = (high_across + low_across) / magnitudes * ACROSS;
        let made_good = match sum_of(&scaled_across) {
            0.0 => 1.0,
            sum => wanted / sum,
        };
        let factor = magnitudes / divisor / (ACROSS * CODE);
        let ends = [
            (high_across * low_down + low_across * high_down) / divisor,
            (high_across * high_down + low_across * low_down) / divisor,
        ];
        Matrices {
            down: scaled(
                down,
                if wanted == 0.0 {
                    factor
                } else {
                    factor * made_good
                },
            ),
            across: scaled_across,
            below: ends[0].min(ends[1]),
            above: ends[0].max(ends[1]),
        }
    }

    /// The weights across, on their scale.
    pub fn across(&self) -> &[f16] {
        &self.across
    }

    /// The weights down, on their scale.
    pub fn down(&self) -> &[f16] {
        &self.down
    }

    /// For one to four channels, or for pixels once, threads' words of each product across, four words of all threads at a
    /// time; then those down. Behind them, as float32: the sum of all weights, that of the negative and that of
    /// the positive ones, and 0.
    pub fn table(&self, reach: Reach) -> Vec<u32> {
        let mut words = Vec::with_capacity(reach.words());
        match reach.pixels {
            true => self.push_pixels(&mut words, reach),
            false => self.push_bytes(&mut words, reach),
        }
        for block in 0..reach.blocks as i32 {
            push_product(&mut words, |row, column| {
                let distance = block * SIDE + column - reach.rows_above() as i32 - row;
                weight(&self.down, distance)
            });
        }
        let sum = sum_of(&self.across) * CODE * sum_of(&self.down);
        let constants = [sum, self.below, self.above, 0.0];
        words.extend(constants.map(|constant| (constant as f32).to_bits()));
        words
    }

    fn push_bytes(&self, words: &mut Vec<u32>, reach: Reach) {
        for channels in 1..=MAX_CHANNELS {
            for product in 0..2 * reach.pieces + 1 {
                let piece = product as i32 - reach.pieces as i32;
                push_product(words, |row, column| {
                    let distance = piece * SIDE + byte_read(column) - place_written(row);
                    match distance % channels as i32 {
                        0 => weight(&self.across, distance / channels as i32),
                        _ => f16::ZERO,
                    }
                });
            }
        }
    }

    fn push_pixels(&self, words: &mut Vec<u32>, reach: Reach) {
        for block in 0..reach.blocks as i32 {
            let first = block * SIDE - reach.rows_above() as i32;
            push_product(words, |row, column| {
                weight(
                    &self.across,
                    first + pixel_read(column) - place_written(row),
                )
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
mod tests {
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
    fn uneven(count: usize) -> Vec<f32> {
        let weight = |i: usize| ((i * 37 + 11) % 50) as f32 / 100.0 - 0.1;
        (0..count).map(weight).collect()
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
            let matrices = Matrices::new(&uneven(taps), &[1.0], 1.0);
            let table = matrices.table(reach);
            assert_eq!(table.len(), reach.words());
            let byte = |at: i32| f64::from((at + 200) * 37 % 256);
            let products = table.chunks_exact(WORDS * LANES);
            let mut products = products.take(MAX_CHANNELS * (2 * reach.pieces + 1));
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
                    let expected = (matrices.across.iter().enumerate())
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
            let matrices = Matrices::new(&uneven(taps), &uneven(3), 1.0);
            let table = matrices.table(reach);
            assert_eq!(table.len(), reach.words());
            let pixel = |at: i32| f64::from((at + 200) * 37 % 256);
            let before = reach.samples(MAX_CHANNELS).0 as i32;
            let mut sums = [0.0; 16];
            let products = table.chunks_exact(WORDS * LANES);
            for (block, words) in products.take(reach.blocks).enumerate() {
                let first = block as i32 * SIDE - before;
                let of_block = product(words, |column| pixel(first + pixel_read(column)));
                sums.iter_mut()
                    .zip(of_block)
                    .for_each(|(sum, part)| *sum += part);
            }
            for (row, sum) in sums.into_iter().enumerate() {
                let first = place_written(row as i32) - taps as i32 / 2;
                let terms = (first..).zip(&matrices.across);
                let expected = terms.map(|(at, weight)| weight.to_f64() * pixel(at));
                close(sum, expected.sum());
            }
            // Those down follow, as of bytes.
            let of_bytes = matrices.table(Reach {
                pixels: false,
                ..reach
            });
            let behind = (reach.blocks * WORDS * LANES) + CONSTANTS;
            assert_eq!(
                table[table.len() - behind..],
                of_bytes[of_bytes.len() - behind..]
            );
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
            let matrices = Matrices::new(&[1.0], &uneven(taps), 1.0);
            let table = matrices.table(reach);
            let first = MAX_CHANNELS * (2 * reach.pieces + 1) * WORDS * LANES;
            let row = |at: i32| f64::from((at + 200) * 53 % 256);
            let mut sums = [0.0; 16];
            for (block, words) in table[first..].chunks_exact(WORDS * LANES).enumerate() {
                let of_block = product(words, |column| row(block as i32 * SIDE + column));
                sums.iter_mut()
                    .zip(of_block)
                    .for_each(|(sum, part)| *sum += part);
            }
            for (at, sum) in sums.into_iter().enumerate() {
                let centre = (at + reach.rows_above()) as i32;
                let expected = (matrices.down.iter().enumerate())
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

    #[test]
    fn rounded_weights_sum_to_what_they_did() {
        let gauss = |radius: i32, sigma: f32| -> Vec<f32> {
            let weights: Vec<f32> = (-radius..=radius)
                .map(|x| (-(x * x) as f32 / (2.0 * sigma * sigma)).exp())
                .collect();
            let sum: f32 = weights.iter().sum();
            weights.iter().map(|weight| weight / sum).collect()
        };
        let kernels = [(1, 0.4), (2, 0.8), (3, 1.5), (7, 2.6), (8, 3.3), (16, 5.3)]
            .map(|(radius, sigma)| gauss(radius, sigma));
        for weights in kernels
            .into_iter()
            .chain([uneven(9), uneven(17), vec![1.0; 5]])
        {
            let divisor = weights.iter().sum::<f32>().powi(2);
            let matrices = Matrices::new(&weights, &weights, divisor);
            let sum = sum_of(&matrices.across) * CODE * sum_of(&matrices.down);
            assert!((sum - 1.0).abs() * 255.0 < 0.02, "{sum} of {weights:?}");
            // No further off than what the rounding of all may leave of their sum, a quarter of a unit each.
            let magnitudes: f64 = weights.iter().map(|w| f64::from(w.abs())).sum();
            let units = matrices.across.iter().map(|half| unit(*half));
            let largest = units.fold(0.0, f64::max);
            for (half, weight) in matrices.across.iter().zip(&weights) {
                let exact = f64::from(*weight) / magnitudes * ACROSS;
                let difference = (half.to_f64() - exact).abs();
                let most = largest * (weights.len() as f64 / 4.0).max(1.0);
                assert!(difference <= most, "{half} {exact}");
            }
            let symmetric = weights.iter().eq(weights.iter().rev());
            let across = &matrices.across;
            assert!(!symmetric || across.iter().eq(across.iter().rev()));
        }
    }

    #[test]
    fn whole_weights_of_few_bits_stay_as_they_are() {
        let gauss7 = [2.0, 7.0, 14.0, 18.0, 14.0, 7.0, 2.0];
        let matrices = Matrices::new(&gauss7, &gauss7, 4096.0);
        for (half, weight) in matrices.across.iter().zip(gauss7) {
            assert_eq!(half.to_f64(), f64::from(weight) * 512.0);
        }
        for (half, weight) in matrices.down.iter().zip(gauss7) {
            assert_eq!(half.to_f64(), f64::from(weight) * 8.0);
        }
        assert_eq!((matrices.below, matrices.above), (0.0, 1.0));
    }

    #[test]
    fn tiles_are_as_high_as_fills_the_device_evenly() {
        const SLOTS: u32 = 4 * 132;
        // Measured on an H200: GRAY8 640x480 and 1080p, NV12 and RGBA 1080p, RGBA 4K.
        assert_eq!(tile_height(&[3], &[480], SLOTS), 16);
        assert_eq!(tile_height(&[8], &[1080], SLOTS), 32);
        assert_eq!(tile_height(&[8, 8], &[1080, 540], SLOTS), 32);
        assert_eq!(tile_height(&[30], &[1080], SLOTS), 64);
        assert_eq!(tile_height(&[60], &[2160], SLOTS), 128);
        assert_eq!(tile_height(&[1], &[1], SLOTS), 16);
    }

    #[test]
    fn the_ends_are_those_of_the_result() {
        let matrices = Matrices::new(&[-1.0, 3.0, 1.0], &[2.0, -1.0, 0.0], -2.0);
        assert_eq!((matrices.below, matrices.above), (-4.5, 3.0));
        assert_eq!(gain(&[-1.0, 3.0, 1.0], &[2.0, -1.0, 0.0], -2.0), 7.5);
    }
}
