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

/// Rows of a tile: with `columns` tiles across planes of such `heights`, of `slots` blocks that a GPU has room for at
/// once, and a filter that reaches `radius` rows up and down. Horizontal sums of a slab take as long as vertical ones.
pub fn tile_height(columns: &[u32], heights: &[u32], slots: u32, radius: usize) -> u32 {
    const HEIGHTS: [u32; 6] = [32, 64, 96, 128, 160, 224];
    let before = (2 * radius).div_ceil(ROWS) as f64;
    best_height_of(&HEIGHTS, columns, heights, slots, |height| {
        f64::from(2 * height / ROWS as u32) + before
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
        let of = |width: u32, height: u32| tile_height(&[width.div_ceil(64)], &[height], SLOTS, 32);
        assert_eq!(of(640, 480), 32);
        assert_eq!(of(1920, 1080), 64);
        assert_eq!(of(3840, 2160), 128);
    }
}
