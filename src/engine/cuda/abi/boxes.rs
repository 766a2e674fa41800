//! The tiles of `kernels/box.cu`.

use super::halves::best_height;

/// Pixels of a row that a warp reads, and neighbouring ones that a thread has.
const STRIP: usize = 256;
const PIXELS: usize = 8;
/// Warps of a block, one below the other.
const WARPS: u32 = 4;
/// Rows above and below those that a window needs that a warp may read before its first row, as it takes eight at a time of
/// them where it computes four.
pub const SPARE_ROWS: usize = 3;
/// The most that samples of a window times all values that a code can have may be, as `kernels/box.cu` says why.
pub const MOST_OF_ALL_SUMS: usize = 1 << 23;

/// Columns of a tile, of windows that reach `radius` pixels to either side: the rest of a strip is what these need.
pub fn columns(radius: usize) -> u32 {
    (STRIP - 2 * radius.next_multiple_of(PIXELS)) as u32
}

/// Rows of a tile: with `columns` tiles across planes of such `heights`, of `slots` blocks that a GPU has room for
/// at once, and windows that reach `radius` rows up and down. Before its first row a warp adds up a window, of which eight
/// rows take about as long as one that it computes, and takes about two more to begin.
pub fn tile_height(columns: &[u32], heights: &[u32], slots: u32, radius: usize) -> u32 {
    let before = (2 * radius + 1) as f64 / 8.0 + 2.0;
    best_height(columns, heights, slots, |height| {
        f64::from(height / WARPS) + before
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn strips_are_what_a_tile_needs() {
        for radius in 0..=32 {
            let columns = columns(radius) as usize;
            assert!(columns + 2 * radius <= STRIP && columns.is_multiple_of(2 * PIXELS));
        }
        assert_eq!(
            (columns(0), columns(1), columns(8), columns(32)),
            (256, 240, 240, 192)
        );
    }

    /// As they were fastest, or nearly so, on an H200.
    #[test]
    fn tiles_are_as_high_as_fills_the_device() {
        const SLOTS: u32 = 5 * 132;
        let of = |width: u32, height: u32, radius: usize| {
            tile_height(&[width.div_ceil(columns(radius))], &[height], SLOTS, radius)
        };
        assert_eq!(of(640, 480, 7), 16);
        assert_eq!(of(1920, 1080, 7), 16);
        assert_eq!(of(1920, 1080, 16), 16);
        assert_eq!(of(1920, 1080, 32), 32);
        assert_eq!(of(3840, 2160, 16), 64);
    }
}
