use super::*;

fn spec(kernel: Kernel) -> FilterSpec {
    FilterSpec {
        kernel,
        ..FilterSpec::default()
    }
}

fn linear(spec: &FilterSpec, subsampling: (u32, u32)) -> (Coefficients, f64) {
    match Filter::new(spec, subsampling) {
        Some(Filter::Linear {
            coefficients,
            divisor,
        }) => (coefficients, divisor),
        other => panic!("{other:?}"),
    }
}

#[test]
fn derived_sizes_follow_their_formulas() {
    let gauss = |radius, sigma| {
        let spec = FilterSpec {
            radius,
            sigma,
            ..spec(Kernel::Gauss)
        };
        gauss_size(&spec)
    };
    let (radius, sigma) = gauss(0, 0.0);
    assert!(radius == 2 && (sigma - 1.1).abs() < 1e-15);
    assert_eq!(gauss(0, 1.0), (3, 1.0));
    assert_eq!(gauss(0, 1.01), (4, 1.01));
    assert_eq!(gauss(0, 1e-160), (1, 1e-160));
    assert_eq!(gauss(0, 100.0), (32, 100.0));
    assert_eq!(gauss(5, 0.5), (5, 0.5));
    for radius in 1..=32 {
        let n = 2.0 * f64::from(radius) + 1.0;
        let opencv = 0.3 * ((n - 1.0) * 0.5 - 1.0) + 0.8;
        assert!((gauss(radius, 0.0).1 - opencv).abs() < 1e-12);
    }

    let bilateral = |radius, sigma_space| {
        let spec = FilterSpec {
            radius,
            sigma_space,
            ..spec(Kernel::Bilateral)
        };
        bilateral_radius(&spec)
    };
    // 1.5 · 3 = 4.5 and 1.5 · 5 = 7.5: halves go to the even number.
    assert_eq!(bilateral(0, 3.0), 4);
    assert_eq!(bilateral(0, 5.0), 8);
    assert_eq!(bilateral(0, 0.2), 1);
    assert_eq!(bilateral(0, 100.0), 32);
    assert_eq!(bilateral(7, 100.0), 7);
    assert_eq!(box_radius(&spec(Kernel::Box)), 1);
}

#[test]
fn sizes_are_divided_by_the_subsampling_per_axis() {
    let size = |kernel, radius, subsampling| {
        let (coefficients, _) = linear(
            &FilterSpec {
                radius,
                ..spec(kernel)
            },
            subsampling,
        );
        (coefficients.width(), coefficients.height())
    };
    assert_eq!(size(Kernel::Box, 3, (1, 1)), (7, 7));
    assert_eq!(size(Kernel::Box, 3, (2, 1)), (5, 7));
    assert_eq!(size(Kernel::Gauss, 5, (2, 2)), (7, 7));
    assert_eq!(size(Kernel::Unsharp, 1, (2, 1)), (3, 3));
    assert_eq!(size(Kernel::Unsharp, 32, (1, 2)), (65, 33));
    assert_eq!(size(Kernel::Box5, 3, (2, 2)), (5, 5));
    assert_eq!(size(Kernel::Sharpen, 3, (2, 2)), (3, 3));
}

#[test]
fn gaussians_have_sum_one_and_the_ratio_of_their_sigma() {
    for (radius, sigma, s) in [(3, 1.0, 1u32), (8, 2.5, 2), (32, 100.0, 1), (5, 0.3, 2)] {
        let axis = gauss_axis(radius, sigma, s);
        assert!((axis.iter().sum::<f64>() - 1.0).abs() < 1e-14);
        let centre = axis.len() / 2;
        let expected = (-f64::from(s * s) / (2.0 * sigma * sigma)).exp();
        assert!((axis[centre + 1] / axis[centre] - expected).abs() < 1e-12);
        assert!(axis.iter().eq(axis.iter().rev()));
    }
}

#[test]
fn unsharp_adds_what_the_gauss_took_away() {
    let spec = FilterSpec {
        radius: 3,
        sigma: 1.2,
        amount: 2.5,
        ..spec(Kernel::Unsharp)
    };
    let (kernel, divisor) = linear(&spec, (1, 1));
    let (gauss, _) = linear(
        &FilterSpec {
            kernel: Kernel::Gauss,
            ..spec.clone()
        },
        (1, 1),
    );
    assert_eq!(divisor, 1.0);
    assert!((kernel.sum() - 1.0).abs() < 1e-13);
    for j in 0..7 {
        for i in 0..7 {
            let identity = f64::from(i == 3 && j == 3);
            let expected = identity + 2.5 * (identity - gauss.at(i, j));
            assert!((kernel.at(i, j) - expected).abs() < 1e-14);
        }
    }
}

#[test]
fn gradients_grow_to_the_right_and_downwards() {
    let of = |kernel| linear(&spec(kernel), (1, 1)).0.iter().collect::<Vec<_>>();
    assert_eq!(of(Kernel::SobelX), [-1., 0., 1., -2., 0., 2., -1., 0., 1.]);
    assert_eq!(of(Kernel::SobelY), [-1., -2., -1., 0., 0., 0., 1., 2., 1.]);
    assert_eq!(
        of(Kernel::ScharrX),
        [-3., 0., 3., -10., 0., 10., -3., 0., 3.]
    );
    assert_eq!(
        of(Kernel::PrewittY),
        [-1., -1., -1., 0., 0., 0., 1., 1., 1.]
    );
    for (magnitude, x, y) in [
        (Kernel::Sobel, Kernel::SobelX, Kernel::SobelY),
        (Kernel::Scharr, Kernel::ScharrX, Kernel::ScharrY),
        (Kernel::Prewitt, Kernel::PrewittX, Kernel::PrewittY),
    ] {
        let expected = Filter::Magnitude {
            x: linear(&spec(x), (1, 1)).0,
            y: linear(&spec(y), (1, 1)).0,
            divisor: 1.0,
        };
        assert_eq!(Filter::new(&spec(magnitude), (1, 1)), Some(expected));
    }
}

#[test]
fn the_bilateral_window_is_a_circle_or_a_square_of_luma_pixels() {
    let offsets = |radius, window, subsampling| {
        let spec = FilterSpec {
            radius,
            window,
            ..spec(Kernel::Bilateral)
        };
        match Filter::new(&spec, subsampling) {
            Some(Filter::Bilateral(window)) => window.offsets,
            other => panic!("{other:?}"),
        }
    };
    // Lattice points within radius 5: Gauss's circle problem gives 81.
    assert_eq!(offsets(5, Window::Circle, (1, 1)).len(), 80);
    assert_eq!(offsets(5, Window::Square, (1, 1)).len(), 120);
    assert_eq!(offsets(32, Window::Circle, (1, 1)).len(), 3208);
    assert_eq!(offsets(3, Window::Square, (2, 2)).len(), 24);
    let chroma: Vec<(i32, i32)> = offsets(3, Window::Circle, (2, 2))
        .iter()
        .map(|o| (o.0, o.1))
        .collect();
    let around = [
        (-1, -1),
        (0, -1),
        (1, -1),
        (-1, 0),
        (1, 0),
        (-1, 1),
        (0, 1),
        (1, 1),
    ];
    assert_eq!(chroma, around);
    let right = offsets(2, Window::Circle, (2, 1))
        .into_iter()
        .find(|o| o.0 == 1);
    assert_eq!(right, Some((1, 0, -4.0 / 50.0)));
}

#[test]
fn decimal_fractions_are_taken_as_written() {
    let custom = |matrix: &str, divisor| {
        let spec = FilterSpec {
            matrix: Some(matrix.parse().unwrap()),
            divisor,
            ..spec(Kernel::Custom)
        };
        let (coefficients, divisor) = linear(&spec, (1, 1));
        (coefficients.iter().collect::<Vec<_>>(), divisor)
    };
    assert_eq!(custom("0.3 -0.2 0.7;", 0.0), (vec![3.0, -2.0, 7.0], 8.0));
    assert!((custom("0.3 -0.2 0.7;", 0.57).1 - 5.7).abs() < 1e-14);
    assert_eq!(custom("0.57;", 0.57), (vec![57.0], 57.0));
    assert_eq!(custom("0.1 -0.2 0.1;", 0.0), (vec![1.0, -2.0, 1.0], 10.0));
    assert_eq!(
        custom("0.125 1 0.0005;", 0.0),
        (vec![1250.0, 10000.0, 5.0], 11255.0)
    );
    assert_eq!(custom("1 2 1;", 0.0), (vec![1.0, 2.0, 1.0], 4.0));
    // No decimal of a few digits: the float32 itself.
    let third = f64::from(1.0f32 / 3.0);
    assert_eq!(
        custom("0.333333343 1 0;", 2.0),
        (vec![third, 1.0, 0.0], 2.0)
    );
    assert_eq!(custom("1e30 1 0;", 2.0).0, [f64::from(1e30f32), 1.0, 0.0]);

    let sharpen = |amount, divisor| {
        let spec = FilterSpec {
            amount,
            divisor,
            ..spec(Kernel::Sharpen)
        };
        let (coefficients, divisor) = linear(&spec, (1, 1));
        (coefficients.at(1, 0), coefficients.at(1, 1), divisor)
    };
    assert_eq!(sharpen(0.7, 0.0), (-7.0, 38.0, 10.0));
    assert_eq!(sharpen(2.0, 0.5), (-2.0, 9.0, 0.5));
    let odd = 1.0 / 3.0;
    assert_eq!(sharpen(odd, 0.0), (-odd, 1.0 + 4.0 * odd, 1.0));
}
