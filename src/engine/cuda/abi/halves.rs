//! The weights of separable kernels, rounded to float16, for the [matrices](super::products) that
//! `kernels/separable_half.cu` and `kernels/separable_pixels.cu` multiply by.
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

use super::products::Reach;

/// Words behind the weights: see [`Matrices::table`].
const CONSTANTS: usize = 4;
/// What the magnitudes of the weights across sum to, and code values in sums across are times.
const ACROSS: f64 = 32768.0;
const CODE: f64 = 1.0 / 16_777_216.0;

/// The most that a filter may enlarge differences: errors grow as they do.
pub const MOST_GAIN: f64 = 4.0;

/// Rows of a tile: with `columns` tiles across planes of such `heights`, of `slots` blocks that a GPU has room
/// for at once. A block loads and sums a step of 16 rows besides its own, and takes about two more to
/// begin; the last round of blocks should not be a small one. Tiles have `most` rows at most.
pub fn tile_height(columns: &[u32], heights: &[u32], slots: u32, most: u32) -> u32 {
    best_height(columns, heights, slots, |height| match height <= most {
        true => f64::from(height / 16 + 3),
        false => f64::INFINITY,
    })
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

/// Of the weights of such a kernel, divided: the sum of those below 0, and of those above.
pub(super) fn ends(across: &[f32], down: &[f32], divisor: f32) -> (f64, f64) {
    let ((low_across, high_across), (low_down, high_down)) = (sums(across), sums(down));
    let unlike = high_across * low_down + low_across * high_down;
    let alike = high_across * high_down + low_across * low_down;
    let (one, other) = (unlike / f64::from(divisor), alike / f64::from(divisor));
    (one.min(other), one.max(other))
}

impl Matrices {
    /// Rounds the kernel `down` by `across`, divided by `divisor`.
    pub fn new(across: &[f32], down: &[f32], divisor: f32) -> Matrices {
        let (below, above) = ends(across, down, divisor);
        let (low_across, high_across) = sums(across);
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
            below,
            above,
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

    /// Words of a [table](Self::table).
    pub fn words(reach: Reach) -> usize {
        reach.words_across() + reach.words_down() + CONSTANTS
    }

    /// The [matrices](Reach::push_across) across and those down. Behind them, as float32: the sum of all weights, that of
    /// the negative and that of the positive ones, and 0.
    pub fn table(&self, reach: Reach) -> Vec<u32> {
        let mut words = Vec::with_capacity(Matrices::words(reach));
        reach.push_across(&mut words, &self.across);
        reach.push_down(&mut words, &self.down);
        let sum = sum_of(&self.across) * CODE * sum_of(&self.down);
        let constants = [sum, self.below, self.above, 0.0];
        words.extend(constants.map(|constant| (constant as f32).to_bits()));
        words
    }
}

#[cfg(test)]
mod tests {
    use super::super::products::tests::uneven;
    use super::*;

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
    fn tables_are_of_as_many_words_as_they_say() {
        let matrices = Matrices::new(&uneven(5), &uneven(3), 1.0);
        for pixels in [false, true] {
            let reach = Reach {
                pieces: 2,
                blocks: 2,
                pixels,
            };
            assert_eq!(matrices.table(reach).len(), Matrices::words(reach));
        }
    }

    #[test]
    fn tiles_are_as_high_as_fills_the_device_evenly() {
        const SLOTS: u32 = 4 * 132;
        // Measured on an H200: GRAY8 640x480 and 1080p, NV12 and RGBA 1080p, RGBA 4K.
        assert_eq!(tile_height(&[3], &[480], SLOTS, 208), 16);
        assert_eq!(tile_height(&[8], &[1080], SLOTS, 208), 32);
        assert_eq!(tile_height(&[8, 8], &[1080, 540], SLOTS, 208), 32);
        assert_eq!(tile_height(&[30], &[1080], SLOTS, 208), 64);
        assert_eq!(tile_height(&[60], &[2160], SLOTS, 208), 128);
        assert_eq!(tile_height(&[1], &[1], SLOTS, 208), 16);
        // Of three blocks a multiprocessor.
        assert_eq!(tile_height(&[60], &[2160], 396, 208), 208);
        assert_eq!(tile_height(&[60], &[2160], 396, 128), 128);
        assert_eq!(tile_height(&[30], &[1080], 396, 128), 96);
    }

    #[test]
    fn the_ends_are_those_of_the_result() {
        let matrices = Matrices::new(&[-1.0, 3.0, 1.0], &[2.0, -1.0, 0.0], -2.0);
        assert_eq!((matrices.below, matrices.above), (-4.5, 3.0));
        assert_eq!(gain(&[-1.0, 3.0, 1.0], &[2.0, -1.0, 0.0], -2.0), 7.5);
    }
}
