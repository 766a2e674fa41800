//! The weights of separable kernels as the matrices that `kernels/separable_matrix.cu` multiplies
//! by, in the order in which its threads hold them.
//!
//! Matrix products are those of PTX's `mma.m16n8k32` of bytes: of the first operand, 16 rows of 32,
//! thread `t` of group `g` (lane 4g + t) holds four consecutive bytes of row g or g + 8 in each of
//! four registers. How rows and columns of these products stand for places in the picture is free as
//! long as all agree; it is said here and, in the same words, in that source. Half a product, `mma.m16n8k16`,
//! has 16 columns of the first operand and two registers; the matrices here are pairs of such.

use super::MAX_CHANNELS;

/// Largest sum of the weights across.
pub const MATRIX_SUM: f32 = 257.0;

pub(super) const LANES: usize = 32;
/// Bytes of a row, or rows, of one product.
const SIDE: i32 = 16;
/// Words of a thread for half a product.
const WORDS: usize = 2;
/// Halves of products across: of the 16 bytes before those whose sums they are, of these themselves, and of
/// those behind. A thread holds its words of two in registers side by side.
const ACROSS: [(i32, i32); 3] = [(0, 1), (1, 2), (2, 0)];
/// Halves of the product down: of 16 rows, the last 8 of them the first that sums are of, and of the 16 rows below.
const DOWN: (i32, i32) = (0, 1);
/// Rows above the first output that the products down begin with.
const ABOVE: i32 = 8;

/// Tables of products across: of one to four interleaved channels, and of packed 4:2:2 with luma first or second.
const TABLES: usize = MAX_CHANNELS + 2;

/// Words of [`table`].
pub const MATRIX_WORDS: usize = (TABLES * ACROSS.len() + 1) * 2 * WORDS * LANES;

/// Bytes from byte `byte` of a row to the next of its channel, in table `table`.
fn step_of(table: usize, byte: i32) -> i32 {
    match table.checked_sub(MAX_CHANNELS) {
        None => table as i32 + 1,
        Some(luma) if byte % 2 == luma as i32 => 2,
        Some(_) => 4,
    }
}

/// Most samples beyond the centre of a kernel, across where `channels` are interleaved, and down.
pub fn most_radius(channels: usize) -> (usize, usize) {
    (SIDE as usize / channels, ABOVE as usize)
}

/// The matrices of the kernel `down` by `across`, of whole numbers from 0 to 255: threads' words of each
/// product across for one to four channels and for packed 4:2:2, then those of the product down.
pub fn table(across: &[f32], down: &[f32]) -> Vec<u32> {
    let mut words = Vec::with_capacity(MATRIX_WORDS);
    for table in 0..TABLES {
        for pieces in ACROSS {
            push_product(&mut words, pieces, |piece, row, column| {
                let distance = (piece - 1) * SIDE + column - byte_of(row);
                let step = step_of(table, byte_of(row));
                match distance % step {
                    0 => weight(across, distance / step),
                    _ => 0,
                }
            });
        }
    }
    push_product(&mut words, DOWN, |block, row, column| {
        weight(down, block * SIDE + row_read(column) - ABOVE - row)
    });
    words
}

/// The weight at `distance` from the centre.
fn weight(weights: &[f32], distance: i32) -> u8 {
    let index = usize::try_from(distance + weights.len() as i32 / 2);
    let weight = index.ok().and_then(|index| weights.get(index));
    weight.map_or(0, |&weight| weight as u8)
}

/// The row of a first operand that a register of a lane is of, and the first column of its four bytes; of operands
/// of 32 columns the second half is in two further registers.
pub(super) fn place(lane: usize, register: usize) -> (usize, usize) {
    (
        lane / 4 + register % 2 * 8,
        lane % 4 * 4 + register / 2 * 16,
    )
}

/// The byte among 16 that row `row` of a product across gives the sum of: a thread gets four that stand one
/// behind the other, two of each of two products down.
fn byte_of(row: i32) -> i32 {
    row % 8 / 2 * 4 + row / 8 * 2 + row % 2
}

/// The row among 16 that column `column` of a product down multiplies: two sums of each of two groups of 8
/// rows make a word.
fn row_read(column: i32) -> i32 {
    column % 4 / 2 * 8 + column / 4 * 2 + column % 2
}

/// Appends a first operand of two halves, words of all lanes: `weight` is that of a half, a row and a column of it.
fn push_product(words: &mut Vec<u32>, halves: (i32, i32), weight: impl Fn(i32, i32, i32) -> u8) {
    for lane in 0..LANES {
        for half in [halves.0, halves.1] {
            for register in 0..WORDS {
                let (row, first) = place(lane, register);
                let byte = |at| weight(half, row as i32, (first + at) as i32);
                words.push(u32::from_le_bytes(std::array::from_fn(byte)));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The product of the first operand that 32 lanes hold in four registers each.
    fn product(words: &[u32], second: impl Fn(usize) -> u32) -> [u32; 16] {
        let mut sums = [0; 16];
        for (index, word) in words.iter().enumerate() {
            let (row, first) = place(index / (2 * WORDS), index % (2 * WORDS));
            for (at, weight) in word.to_le_bytes().into_iter().enumerate() {
                sums[row] += u32::from(weight) * second(first + at);
            }
        }
        sums
    }

    /// The column of one half of an operand that column `column` of a product is.
    fn column_of(halves: (i32, i32), column: usize) -> (i32, i32) {
        let half = [halves.0, halves.1][column / SIDE as usize];
        (half, column as i32 % SIDE)
    }

    #[test]
    fn products_with_the_matrices_are_the_sums_across() {
        let across: Vec<f32> = (0..33).map(|i| ((i * 29 + 3) % 256) as f32).collect();
        let byte = |at: i32| ((at + 100) * 37 + 11) as u32 % 256;
        for taps in [
            &across[..],
            &across[8..25],
            &across[12..21],
            &across[15..18],
        ] {
            let words = table(taps, &[1.0]);
            assert_eq!(words.len(), MATRIX_WORDS);
            let mut products = words.chunks_exact(2 * WORDS * LANES);
            for table in 0..TABLES {
                // Each half is in two products.
                let mut sums = [0; 16];
                for halves in ACROSS {
                    let part = product(products.next().unwrap(), |column| {
                        let (piece, column) = column_of(halves, column);
                        byte((piece - 1) * SIDE + column)
                    });
                    sums.iter_mut()
                        .zip(part)
                        .for_each(|(sum, part)| *sum += part);
                }
                if taps.len() / 2 > most_radius((table + 1).min(MAX_CHANNELS)).0 {
                    continue;
                }
                for (row, sum) in sums.into_iter().enumerate() {
                    let step = step_of(table, byte_of(row as i32));
                    let expected = taps.iter().enumerate().map(|(tap, &weight)| {
                        let distance = (tap as i32 - taps.len() as i32 / 2) * step;
                        weight as u32 * byte(byte_of(row as i32) + distance)
                    });
                    assert_eq!(sum, 2 * expected.sum::<u32>(), "{table} {row}");
                }
            }
        }
    }

    #[test]
    fn products_with_the_matrix_are_the_sums_down() {
        let down: Vec<f32> = (0..17).map(|i| ((i * 53 + 9) % 256) as f32).collect();
        let row = |at: i32| ((at + 100) * 53 + 7) as u32 % 256;
        for taps in [&down[..], &down[4..13], &down[7..10], &down[8..9]] {
            let words = table(&[1.0], taps);
            let first = TABLES * ACROSS.len() * 2 * WORDS * LANES;
            let sums = product(&words[first..], |column| {
                let (block, column) = column_of(DOWN, column);
                row(block * SIDE + row_read(column))
            });
            for (at, sum) in sums.into_iter().enumerate() {
                let first = ABOVE + at as i32 - taps.len() as i32 / 2;
                let expected = (first..)
                    .zip(taps)
                    .map(|(at, &weight)| weight as u32 * row(at));
                assert_eq!(sum, expected.sum::<u32>(), "{at}");
            }
        }
    }

    #[test]
    fn every_place_is_read_and_written_once() {
        for order in [byte_of, row_read] {
            let mut places: Vec<i32> = (0..SIDE).map(order).collect();
            places.sort_unstable();
            assert_eq!(places, (0..SIDE).collect::<Vec<_>>());
        }
    }
}
