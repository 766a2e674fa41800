use proptest::prelude::*;

use super::*;

/// The sum of `terms`, row by row, in float64.
fn product(terms: &[Term]) -> Vec<f64> {
    let of = |term: &Term| -> Vec<f64> {
        let rows = term.vertical.iter();
        let (h, f) = (&term.horizontal, |k: &f32| f64::from(*k));
        rows.flat_map(|v| h.iter().map(move |h| f(v) * f(h)))
            .collect()
    };
    let sum = |a: Vec<f64>, b: Vec<f64>| a.iter().zip(b).map(|(a, b)| a + b).collect();
    terms.iter().map(of).reduce(sum).unwrap()
}

fn exact(width: usize, weights: &[f32]) -> Option<Vec<Term>> {
    Terms::find(width, weights, Terms::are_whole).map(|found| found.terms)
}

/// Within what float32 rounds off of a matrix of this size.
fn is_near(weights: &[f32]) -> impl Fn(&Terms) -> bool {
    let sum: f64 = weights.iter().map(|k| f64::from(k.abs())).sum();
    move |found| found.largest_error() <= 1e-6 * sum && found.sum_of_magnitudes() <= 20.0 * sum
}

/// Ones within `radius` of the middle.
fn disc(radius: i32) -> (usize, Vec<f32>) {
    let side = -radius..=radius;
    let within = |x: i32, y: i32| f32::from(u8::from(x * x + y * y <= radius * radius));
    let weights = side
        .clone()
        .flat_map(|y| side.clone().map(move |x| within(x, y)));
    (2 * radius as usize + 1, weights.collect())
}

/// Samples of `f(x, y)` up to `radius` on both axes.
fn sampled(radius: i32, f: impl Fn(f64, f64) -> f64) -> (usize, Vec<f32>) {
    let f = &f;
    let rows = -radius..=radius;
    let weights = rows.flat_map(|y| (-radius..=radius).map(move |x| f(x.into(), y.into()) as f32));
    (2 * radius as usize + 1, weights.collect())
}

#[test]
fn whole_numbers_fall_into_whole_numbers() {
    let laplacian = [0., 1., 0., 1., -4., 1., 0., 1., 0.];
    let sharpen = [0., -17., 0., -17., 78., -17., 0., -17., 0.];
    // Rank 2 in two rows of three.
    let rows = [10., -20., 30., 1., 2., 3., 20., -40., 60.];
    for weights in [laplacian, sharpen, rows] {
        let terms = exact(3, &weights).unwrap();
        assert_eq!(terms.len(), 2);
        assert_eq!(product(&terms), weights.map(f64::from));
    }
    let sums = |terms: &[Term]| -> f64 { terms.iter().map(Term::sum_of_magnitudes).sum() };
    assert_eq!(sums(&exact(3, &laplacian).unwrap()), 8.0);
    // As many as there are rows of different length.
    for (radius, rank) in [(1, 2), (2, 3), (3, 3), (4, 4)] {
        let (width, weights) = disc(radius);
        let terms = exact(width, &weights).unwrap();
        assert_eq!(terms.len(), rank, "{radius}");
        let expected: Vec<f64> = weights.iter().map(|&k| k.into()).collect();
        assert_eq!(product(&terms), expected);
        assert_eq!(sums(&terms), expected.iter().sum::<f64>());
    }
}

#[test]
fn high_ranks_and_what_is_not_lower_than_any_are_refused() {
    let emboss = [-2., -1., 0., -1., 1., 1., 0., 1., 2.];
    assert_eq!(exact(3, &emboss), None);
    assert!(Terms::find(3, &emboss, |_| true).is_some_and(|found| found.terms.len() == 1));
    assert!(Terms::find(3, &[1., 2., 3.], |_| true).is_none());
    let diagonal: Vec<f32> = (0..49).map(|i| f32::from(u8::from(i % 8 == 0))).collect();
    let most = std::cell::Cell::new(0);
    let found = Terms::find(7, &diagonal, |found| {
        most.set(most.get().max(found.terms.len()));
        found.are_whole()
    });
    assert_eq!((found, most.get()), (None, MOST_TERMS));
}

#[test]
fn kernels_of_theory_have_the_rank_that_theory_says() {
    let gauss = |x: f64, y: f64| (-(x * x + y * y) / 8.0).exp();
    let difference = |x: f64, y: f64| gauss(x, y) - gauss(1.7 * x, 1.7 * y) / 3.0;
    let log = |x: f64, y: f64| (x * x + y * y - 8.0) * gauss(x, y);
    let wave = |x: f64, y: f64| (0.7 * x - 0.4 * y).cos() * gauss(x, y);
    let flow = |x: f64, y: f64| (1.0 + x * x * y + 0.3 * x * y * y) * gauss(x, y);
    for (rank, (width, weights)) in [
        (2, sampled(6, difference)),
        (2, sampled(7, log)),
        (2, sampled(9, wave)),
        (3, sampled(5, flow)),
    ] {
        let found = Terms::find(width, &weights, is_near(&weights)).unwrap();
        assert_eq!(found.terms.len(), rank);
        let product = product(&found.terms);
        let errors: Vec<f64> = (product.iter().zip(&weights))
            .map(|(p, &k)| f64::from(k) - p)
            .collect();
        let largest: f64 = errors.iter().map(|e| e.abs()).sum();
        assert!((largest - found.largest_error()).abs() < 1e-12);
        let squares: f64 = errors.iter().map(|e| e * e).sum();
        let typical = errors.iter().sum::<f64>().abs() + squares.sqrt();
        assert!((typical - found.typical_error()).abs() < 1e-12);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..Default::default() })]

    #[test]
    fn sums_of_outer_products_are_found_again(
        lines in prop::collection::vec((prop::collection::vec(-3.0f32..3.0, 9), prop::collection::vec(-3.0f32..3.0, 7)), 1..5),
    ) {
        let terms: Vec<Term> = lines
            .into_iter()
            .map(|(horizontal, vertical)| Term { horizontal, vertical })
            .collect();
        let weights: Vec<f32> = product(&terms).iter().map(|&k| k as f32).collect();
        let sum: f64 = weights.iter().map(|k| f64::from(k.abs())).sum();
        let found = Terms::find(9, &weights, |found| found.largest_error() <= 3e-5 * sum);
        let found = found.expect("no more than there were");
        prop_assert!(found.terms.len() <= terms.len());
    }

    #[test]
    fn sums_of_products_of_whole_numbers_are_exact_where_they_are_whole(
        lines in prop::collection::vec((prop::collection::vec(-9i8..10, 5), prop::collection::vec(-9i8..10, 5)), 1..4),
    ) {
        let in_float32 = |line: Vec<i8>| line.into_iter().map(f32::from).collect();
        let terms: Vec<Term> = lines
            .into_iter()
            .map(|(h, v)| Term { horizontal: in_float32(h), vertical: in_float32(v) })
            .collect();
        let weights: Vec<f32> = product(&terms).iter().map(|&k| k as f32).collect();
        if let Some(found) = exact(5, &weights) {
            prop_assert!(found.len() <= terms.len());
            let expected: Vec<f64> = weights.iter().map(|&k| k.into()).collect();
            prop_assert_eq!(product(&found), expected);
        }
    }
}
