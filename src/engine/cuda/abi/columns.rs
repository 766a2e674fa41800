//! The exponents of a bilateral as a kernel takes them that goes down the columns of the window.

/// Rows of a thread of [`BilateralJointU8`](super::Kernel::BilateralJointU8).
pub const JOINT_ROWS: usize = 7;
/// Added to the exponents of that kernel, whose samples are that much smaller powers of two.
pub const LARGER: usize = 100;

/// Exponents ahead of those of the centre's row.
const AHEAD: usize = JOINT_ROWS / 2;

/// Those of a window of `radius`, of which `rows` are those of a quarter, row by row: of each column of the quarter those of
/// the distances from `-(JOINT_ROWS / 2)` to the radius, [`LARGER`] added to each.
pub fn from_rows(rows: &[f32], (rx, ry): (usize, usize)) -> Vec<f32> {
    let distances = || (1..=AHEAD).rev().chain(0..=ry).map(|dy| dy.min(ry));
    let columns = (0..=rx).flat_map(|dx| distances().map(move |dy| rows[dy * (rx + 1) + dx]));
    columns.map(|exponent| exponent + LARGER as f32).collect()
}

/// The rows of which [`from_rows`] made `columns`; nothing where it makes others of these.
pub fn to_rows(columns: &[f32], (rx, ry): (usize, usize)) -> Option<Vec<f32>> {
    let of_column = AHEAD + ry + 1;
    let columns = columns.get(..(rx + 1) * of_column)?;
    let at = |dx: usize, dy: usize| columns[dx * of_column + AHEAD + dy] - LARGER as f32;
    let rows: Vec<f32> = (0..=ry)
        .flat_map(|dy| (0..=rx).map(move |dx| at(dx, dy)))
        .collect();
    (from_rows(&rows, (rx, ry)) == columns).then_some(rows)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_begin_with_rows_above_the_centre() {
        let beyond = f32::NEG_INFINITY;
        let rows = [0.0, -1.0, -2.0, -3.0, -4.0, beyond];
        // Distances -3 to 2, of which the first is that of the last row, as no window is as large.
        let columns = [96.0, 96.0, 98.0, 100.0, 98.0, 96.0];
        assert_eq!(from_rows(&rows, (1, 2))[..6], columns);
        assert_eq!(
            from_rows(&rows, (1, 2))[6..],
            [beyond, beyond, 97.0, 99.0, 97.0, beyond]
        );
    }

    #[test]
    fn rows_come_back_from_their_columns_alone() {
        let rows: Vec<f32> = (0..81).map(|n| -(n as f32) / 128.0).collect();
        let mut columns = from_rows(&rows, (8, 8));
        assert!(columns.len() <= super::super::INLINE_WEIGHTS);
        assert_eq!(to_rows(&columns, (8, 8)).as_deref(), Some(&rows[..]));
        columns[0] += 1.0;
        assert_eq!(to_rows(&columns, (8, 8)), None);
        assert_eq!(to_rows(&columns[1..], (8, 8)), None);
    }
}
