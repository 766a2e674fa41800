//! The tiles of `kernels/separable_wide.cu`.

use super::halves::best_height_of;

/// Columns of a tile, and rows of a slab.
const WIDTH: usize = 64;
const ROWS: usize = 32;
/// Taps that are taken at once, behind the first.
const TAPS: usize = 8;
/// Floats between rows, so that these begin in different banks of shared memory.
const BETWEEN: usize = 4;

/// Floats of shared memory of a block, for a filter that reaches `radius` samples beyond the centre: the samples of a
/// slab, the horizontal sums of as many slabs as results of one need, and the weights.
pub fn shared_floats(radius: (usize, usize)) -> usize {
    let taps = |radius: usize| (2 * radius).next_multiple_of(TAPS);
    let samples = ROWS * (WIDTH + taps(radius.0) + BETWEEN);
    let sums = (ROWS + (2 * radius.1).next_multiple_of(ROWS)) * (WIDTH + BETWEEN);
    let weights = (BETWEEN + taps(radius.0)) + (BETWEEN + taps(radius.1));
    samples + sums + weights
}

/// Rows of a tile: with `columns` tiles across planes of such `heights`, each once for each channel that is filtered, as
/// a block takes one after the other, of `slots` blocks that a GPU has room for at once. The rows around a tile take about
/// half as long as a slab, and a multiprocessor that is not full as long as one that is.
pub fn tile_height(columns: &[u32], heights: &[u32], slots: u32) -> u32 {
    const HEIGHTS: [u32; 6] = [32, 64, 96, 128, 160, 224];
    best_height_of(&HEIGHTS, columns, heights, slots, |height, rounds| {
        rounds.ceil() * (f64::from(height / ROWS as u32) + 0.5)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_that_a_thread_reads_is_in_shared_memory() {
        for radius in 0..=32usize {
            let reads = ROWS + (2 * radius).next_multiple_of(TAPS);
            assert!(reads <= ROWS + (2 * radius).next_multiple_of(ROWS));
            assert!(4 * shared_floats((radius, radius)) <= 48 * 1024 - 256);
        }
    }

    /// As they were fastest on an H200.
    #[test]
    fn tiles_are_as_high_as_fills_the_device() {
        const SLOTS: u32 = 4 * 132;
        let of = |planes: &[(u32, u32, u32)]| {
            let columns = planes.iter().map(|plane| plane.0.div_ceil(64) * plane.2);
            let heights: Vec<u32> = planes.iter().map(|plane| plane.1).collect();
            tile_height(&columns.collect::<Vec<u32>>(), &heights, SLOTS)
        };
        assert_eq!(of(&[(640, 480, 1)]), 32);
        assert_eq!(of(&[(1920, 1080, 1)]), 64);
        assert_eq!(of(&[(1920, 1080, 3)]), 64);
        assert_eq!(of(&[(3840, 2160, 1)]), 128);
        assert_eq!(of(&[(3840, 2160, 3)]), 128);
        // Of NV12 and P010, in radii of 17 and of 32.
        assert_eq!(of(&[(1920, 1080, 1), (960, 540, 2)]), 32);
        assert_eq!(of(&[(3840, 2160, 1), (1920, 1080, 2)]), 128);
    }
}
