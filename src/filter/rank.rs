//! Which matrices are an outer product of a column and a row.

use super::kernels::Coefficients;

/// Bits of a float32 significand: whole numbers up to `2^24` are exact.
const SIGNIFICAND_BITS: i32 = 24;

/// How far, relative to the largest coefficient, an outer product may be from a fractional
/// matrix: one unit in the last place of float32, as much as writing the matrix in float32 costs.
const TOLERANCE: f64 = 1.0 / (1u32 << 23) as f64;

/// The smallest power of two that makes all `weights` whole numbers of at most 24 bits, as an
/// exponent, if there is one. `None` also when all are 0.
pub(super) fn whole_exponent(weights: &[f64]) -> Option<i32> {
    let mut lowest = i32::MAX;
    let mut highest = i32::MIN;
    for &weight in weights.iter().filter(|&&weight| weight != 0.0) {
        if !weight.is_normal() {
            return None;
        }
        let bits = weight.to_bits();
        let exponent = ((bits >> 52) & 0x7ff) as i32 - 1023;
        let significand = (bits & ((1 << 52) - 1)) | (1 << 52);
        highest = highest.max(exponent);
        lowest = lowest.min(exponent - 52 + significand.trailing_zeros() as i32);
    }
    (lowest <= highest && highest - lowest < SIGNIFICAND_BITS).then_some(-lowest)
}

/// The smallest whole numbers in the ratios of `weights`, and the factor by which they are larger,
/// if a power of two makes `weights` whole numbers of at most 24 bits. `None` also when all are 0.
pub(super) fn smallest_whole(weights: &[f64]) -> Option<(Vec<f64>, f64)> {
    let scale = power_of_two(whole_exponent(weights)?);
    let whole: Vec<i64> = weights
        .iter()
        .map(|weight| (weight * scale) as i64)
        .collect();
    let divisor = common_divisor(&whole);
    let smallest = whole.iter().map(|k| (k / divisor) as f64).collect();
    Some((smallest, scale / divisor as f64))
}

/// `2^exponent`; exact for the exponents of float32 and their sums.
pub(super) fn power_of_two(exponent: i32) -> f64 {
    2f64.powi(exponent)
}

/// `coefficients` as an outer product where they are one, else unchanged.
///
/// Matrices that a power of two makes whole (all whole ones, and 0.25 0.5 0.25) are compared
/// exactly, and the row is the smallest of whole numbers. Others count as rank 1 if the outer product gives
/// every coefficient within float32's own rounding of the largest, and 0 exactly where that is 0.
pub(super) fn reduce(coefficients: Coefficients) -> Coefficients {
    let Coefficients::Full { width, weights, .. } = &coefficients else {
        return coefficients;
    };
    let rows: Vec<&[f64]> = weights.chunks(*width).collect();
    let factors = if weights.iter().all(|&weight| weight == 0.0) {
        Some((vec![0.0; *width], vec![0.0; rows.len()]))
    } else if let Some(exponent) = whole_exponent(weights) {
        whole_factors(&rows, exponent)
    } else if rows.len() == 1 {
        Some((weights.clone(), vec![1.0]))
    } else if *width == 1 {
        Some((vec![1.0], weights.clone()))
    } else {
        fractional_factors(&rows)
    };
    match factors {
        Some((horizontal, vertical)) => Coefficients::Separable {
            horizontal,
            vertical,
        },
        None => coefficients,
    }
}

/// The greatest common divisor; 0 if all are 0.
pub(super) fn common_divisor(numbers: &[i64]) -> i64 {
    numbers.iter().fold(0, |mut a, k| {
        let mut b = k.abs();
        while b != 0 {
            (a, b) = (b, a % b);
        }
        a
    })
}

/// Row and column of a matrix that is whole after multiplication by `2^exponent`. Every row of a
/// matrix of rank 1 is a whole multiple of the primitive row, whose numbers share no divisor.
fn whole_factors(rows: &[&[f64]], exponent: i32) -> Option<(Vec<f64>, Vec<f64>)> {
    let scale = power_of_two(exponent);
    let rows: Vec<Vec<i64>> = rows
        .iter()
        .map(|row| row.iter().map(|&weight| (weight * scale) as i64).collect())
        .collect();
    let first = rows.iter().find(|row| row.iter().any(|&k| k != 0))?;
    let divisor = common_divisor(first);
    let primitive: Vec<i64> = first.iter().map(|k| k / divisor).collect();
    let pivot = primitive.iter().position(|&k| k != 0)?;
    let mut vertical = Vec::with_capacity(rows.len());
    for row in &rows {
        let multiple = row[pivot] / primitive[pivot];
        if row.iter().zip(&primitive).any(|(&k, &p)| k != multiple * p) {
            return None;
        }
        vertical.push(multiple as f64 / scale);
    }
    Some((primitive.iter().map(|&k| k as f64).collect(), vertical))
}

/// Row and column through the largest coefficient, rounded to float32.
fn fractional_factors(rows: &[&[f64]]) -> Option<(Vec<f64>, Vec<f64>)> {
    let (y, x, largest) = rows
        .iter()
        .enumerate()
        .flat_map(|(j, row)| row.iter().enumerate().map(move |(i, &k)| (j, i, k)))
        .max_by(|a, b| a.2.abs().total_cmp(&b.2.abs()))?;
    let in_float32 = |value: f64| f64::from(value as f32);
    // The row as a fraction of the largest cannot overflow; the column keeps the magnitude.
    let horizontal: Vec<f64> = rows[y].iter().map(|k| in_float32(k / largest)).collect();
    let vertical: Vec<f64> = rows.iter().map(|row| row[x]).collect();
    let close = |product: f64, k: f64| {
        (product == 0.0) == (k == 0.0) && (product - k).abs() <= TOLERANCE * largest.abs()
    };
    let reproduced = rows
        .iter()
        .zip(&vertical)
        .all(|(row, v)| row.iter().zip(&horizontal).all(|(&k, h)| close(v * h, k)));
    reproduced.then_some((horizontal, vertical))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn full(width: usize, weights: &[f64]) -> Coefficients {
        Coefficients::Full {
            width,
            height: weights.len() / width,
            weights: weights.to_vec(),
        }
    }

    fn factors(width: usize, weights: &[f64]) -> Option<(Vec<f64>, Vec<f64>)> {
        match reduce(full(width, weights)) {
            Coefficients::Separable {
                horizontal,
                vertical,
            } => Some((horizontal, vertical)),
            Coefficients::Full { .. } => None,
        }
    }

    #[test]
    fn whole_matrices_fall_into_whole_factors() {
        let sobel = [-1., 0., 1., -2., 0., 2., -1., 0., 1.];
        assert_eq!(
            factors(3, &sobel),
            Some((vec![-1., 0., 1.], vec![1., 2., 1.]))
        );
        assert_eq!(
            factors(3, &[2., 4., 6.]),
            Some((vec![1., 2., 3.], vec![2.]))
        );
        assert_eq!(
            factors(1, &[0., 6., 4.]),
            Some((vec![1.], vec![0., 6., 4.]))
        );
        let first_rows_zero = [0., 0., 0., 6., 0., 9., -2., 0., -3.];
        assert_eq!(
            factors(3, &first_rows_zero),
            Some((vec![2., 0., 3.], vec![0., 3., -1.]))
        );
        assert_eq!(factors(3, &[0.; 9]), Some((vec![0.; 3], vec![0.; 3])));
        let quarters = [0.25, 0.5, 0.25];
        assert_eq!(factors(3, &quarters), Some((vec![1., 2., 1.], vec![0.25])));
    }

    #[test]
    fn higher_ranks_stay_whole() {
        assert_eq!(factors(3, &[0., 1., 0., 1., -4., 1., 0., 1., 0.]), None);
        assert_eq!(factors(3, &[1., 2., 1., 2., 4., 2., 1., 2., 1.0001]), None);
        // A large matrix that misses rank 1 by one part in sixteen million.
        let mut almost = vec![4096.0; 9];
        almost[8] = 4095.0;
        assert_eq!(factors(3, &almost), None);
    }

    #[test]
    fn fractional_matrices_count_if_their_product_is_true_to_float32() {
        let f32s = |weights: &[f64]| -> Vec<f64> {
            weights.iter().map(|&k| f64::from(k as f32)).collect()
        };
        assert!(factors(3, &f32s(&[0.1; 9])).is_some());
        assert!(factors(3, &f32s(&[0.1, 0.2, 0.1])).is_some());
        // 1e-5 from rank 1, a hundred times float32's rounding.
        assert_eq!(
            factors(
                3,
                &f32s(&[0.1, 0.1, 0.1, 0.1, 0.1, 0.1, 0.1, 0.1, 0.100001])
            ),
            None
        );
        // A small coefficient where the product has 0, and the other way round.
        assert_eq!(
            factors(3, &f32s(&[0.1, 0.3, 0.0, 0.1, 0.3, 1e-12, 0.1, 0.3, 0.0])),
            None
        );
        assert_eq!(
            factors(3, &f32s(&[0.1, 0.3, 1e-9, 0.1, 0.3, 0.0, 0.1, 0.3, 1e-9])),
            None
        );
        // One row is of rank 1 whatever stands in it.
        let row = f32s(&[3e38, 1e37, 1e-9]);
        assert_eq!(factors(3, &row), Some((row.clone(), vec![1.0])));
        assert_eq!(factors(1, &row), Some((vec![1.0], row.clone())));
    }

    #[test]
    fn powers_of_two_are_found() {
        assert_eq!(whole_exponent(&[1.0, -3.0]), Some(0));
        assert_eq!(whole_exponent(&[0.5, 0.75]), Some(2));
        assert_eq!(whole_exponent(&[4.0, 8.0, 0.0]), Some(-2));
        assert_eq!(whole_exponent(&[16_777_215.0, 1.0]), Some(0));
        assert_eq!(whole_exponent(&[16_777_217.0, 1.0]), None);
        assert_eq!(whole_exponent(&[0.1]), None);
        assert_eq!(whole_exponent(&[0.0]), None);
        assert_eq!(whole_exponent(&[1e-310, 1.0]), None);
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..Default::default() })]

        #[test]
        fn outer_products_of_whole_numbers_are_rank_one(
            horizontal in prop::collection::vec(-40i32..40, 1..8),
            vertical in prop::collection::vec(-40i32..40, 1..8),
        ) {
            let weights: Vec<f64> = vertical
                .iter()
                .flat_map(|v| horizontal.iter().map(move |h| f64::from(v * h)))
                .collect();
            let reduced = reduce(full(horizontal.len(), &weights));
            prop_assert!(matches!(reduced, Coefficients::Separable { .. }), "{weights:?}");
            prop_assert!(reduced.iter().eq(weights.iter().copied()), "{reduced:?}");
        }

        #[test]
        fn outer_products_give_the_matrix_back(
            width in 1usize..4,
            weights in prop::collection::vec(-3.0f32..3.0, 9),
        ) {
            let weights: Vec<f64> = weights[..3 * width].iter().map(|&k| f64::from(k)).collect();
            let largest = weights.iter().fold(0.0f64, |most, k| most.max(k.abs()));
            for (product, k) in reduce(full(width, &weights)).iter().zip(&weights) {
                prop_assert!((product - k).abs() <= 1.2e-7 * largest);
            }
        }
    }
}
