//! Matrices of low rank as sums of a few outer products, and their error.

use super::rank::common_divisor;

/// Most outer products of a sum. `n` of them cost `n·(width + height)` multiplications, the matrix by
/// itself `width·height`: four are fewer from 9x9 on, and kernels in use that are of low rank have no
/// more (a Laplacian of a Gaussian or an oriented wave 2, a disc of radius 4 just 4).
pub const MOST_TERMS: usize = 4;

/// Most outer products that a matrix of that size is taken apart into: no more than are of use, and fewer
/// than any matrix of that size has.
pub fn most_terms(width: usize, height: usize) -> usize {
    MOST_TERMS.min(width.min(height) - 1)
}

/// Whole numbers up to here are exact in float32.
const LARGEST_WHOLE: i64 = 1 << 24;

/// The outer product `vertical[j] * horizontal[i]`, in float32.
#[derive(Debug, Clone, PartialEq)]
pub struct Term {
    pub horizontal: Vec<f32>,
    pub vertical: Vec<f32>,
}

/// A matrix as a sum of outer products, and what is left of it.
#[derive(Debug, Clone, PartialEq)]
pub struct Terms {
    pub terms: Vec<Term>,
    /// The matrix less the sum, row by row.
    rest: Vec<f64>,
}

impl Term {
    /// `Σ |coefficient|` of the outer product.
    pub fn sum_of_magnitudes(&self) -> f64 {
        let sum = |line: &[f32]| -> f64 { line.iter().map(|k| f64::from(k.abs())).sum() };
        sum(&self.horizontal) * sum(&self.vertical)
    }

    /// `Σ coefficient` of the outer product.
    pub fn sum(&self) -> f64 {
        let sum = |line: &[f32]| -> f64 { line.iter().map(|&k| f64::from(k)).sum() };
        sum(&self.horizontal) * sum(&self.vertical)
    }
}

impl Terms {
    /// The matrix of rows of `width` as the fewest outer products of which `is_enough`: of whole numbers
    /// where such are found, else of the nearest found. `None` where [`MOST_TERMS`] are not enough, or
    /// no fewer than any matrix of that size needs.
    pub fn find(
        width: usize,
        weights: &[f32],
        is_enough: impl Fn(&Terms) -> bool,
    ) -> Option<Terms> {
        let most = most_terms(width, weights.len() / width);
        let none = Terms {
            terms: Vec::new(),
            rest: weights.iter().map(|&k| f64::from(k)).collect(),
        };
        let whole = none.clone().followed(most, |terms| terms.add_whole(width));
        let nearest = none.followed(most, |terms| terms.add_nearest(width));
        // Whole numbers are exact or of no use.
        (whole.filter(Terms::are_whole).chain(nearest)).find(is_enough)
    }

    /// The sums of 1, 2 and more terms, up to `most`, by a way to add one.
    fn followed(
        self,
        most: usize,
        add: impl Fn(&Terms) -> Option<Terms>,
    ) -> impl Iterator<Item = Terms> {
        std::iter::successors(add(&self), add).take(most)
    }

    /// Takes off an outer product of whole numbers: one row without its common divisor, times what each
    /// row has of it at a column where that is a whole number of times. Of all rows and columns where it is
    /// those of the smallest product, as large ones cost exactness.
    fn add_whole(&self, width: usize) -> Option<Terms> {
        let is_whole = |k: &f64| k.fract() == 0.0 && k.abs() <= LARGEST_WHOLE as f64;
        if !self.rest.iter().all(is_whole) {
            return None;
        }
        let rest: Vec<i64> = self.rest.iter().map(|&k| k as i64).collect();
        let magnitude = |line: &[i64]| -> i64 { line.iter().map(|k| k.abs()).sum() };
        let mut smallest: Option<(i64, Vec<i64>, Vec<i64>)> = None;
        for row in rest.chunks_exact(width) {
            let divisor = common_divisor(row);
            if divisor == 0 {
                continue;
            }
            let primitive: Vec<i64> = row.iter().map(|k| k / divisor).collect();
            for (i, &pivot) in primitive.iter().enumerate() {
                let column = || rest.chunks_exact(width).map(|row| row[i]);
                if pivot == 0 || column().any(|k| k % pivot != 0) {
                    continue;
                }
                let multiples: Vec<i64> = column().map(|k| k / pivot).collect();
                let size = magnitude(&primitive).saturating_mul(magnitude(&multiples));
                if smallest.as_ref().is_none_or(|(least, ..)| size < *least) {
                    smallest = Some((size, primitive.clone(), multiples));
                }
            }
        }
        let (_, horizontal, vertical) = smallest?;
        let in_float32 = |line: Vec<i64>| line.iter().map(|&k| k as f32).collect();
        Some(self.with(Term {
            horizontal: in_float32(horizontal),
            vertical: in_float32(vertical),
        }))
    }

    /// Takes off the cross through the largest coefficient that is left (elimination with complete
    /// pivoting). The next term then takes back what float32 rounded off of this one.
    fn add_nearest(&self, width: usize) -> Option<Terms> {
        let largest = self.rest.iter().enumerate();
        let (place, &pivot) = largest.max_by(|a, b| a.1.abs().total_cmp(&b.1.abs()))?;
        if pivot == 0.0 {
            return None;
        }
        let (row, column) = (place / width, place % width);
        let rows = || self.rest.chunks_exact(width);
        let of_row = rows().nth(row)?;
        Some(self.with(Term {
            horizontal: of_row.iter().map(|k| (k / pivot) as f32).collect(),
            vertical: rows().map(|row| row[column] as f32).collect(),
        }))
    }

    fn with(&self, term: Term) -> Terms {
        let mut more = self.clone();
        let rows = more.rest.chunks_exact_mut(term.horizontal.len());
        for (row, &v) in rows.zip(&term.vertical) {
            for (rest, &h) in row.iter_mut().zip(&term.horizontal) {
                // Exact: of 24 bits each.
                *rest -= f64::from(v) * f64::from(h);
            }
        }
        more.terms.push(term);
        more
    }

    /// Whether the outer products are of whole numbers, and their sum is the matrix.
    pub fn are_whole(&self) -> bool {
        let is_whole = |line: &[f32]| line.iter().all(|k| k.fract() == 0.0);
        let mut terms = self.terms.iter();
        terms.all(|t| is_whole(&t.horizontal) && is_whole(&t.vertical))
            && self.rest.iter().all(|&k| k == 0.0)
    }

    /// How far a sum of products with values up to 1 can be from that of the matrix.
    pub fn largest_error(&self) -> f64 {
        self.rest.iter().map(|k| k.abs()).sum()
    }

    /// How far it is in general: by what is left of the mean of the values, and of what they differ by from
    /// pixel to pixel.
    pub fn typical_error(&self) -> f64 {
        let of_mean: f64 = self.rest.iter().sum();
        let squares: f64 = self.rest.iter().map(|k| k * k).sum();
        of_mean.abs() + squares.sqrt()
    }

    /// `Σ |coefficient|` of all outer products.
    pub fn sum_of_magnitudes(&self) -> f64 {
        self.terms.iter().map(Term::sum_of_magnitudes).sum()
    }
}

#[cfg(test)]
mod tests;
