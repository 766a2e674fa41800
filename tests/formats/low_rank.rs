//! `method=separable` for kernels that are a sum of few outer products, against the definition.

use std::sync::Arc;

use gstcudaconv::filter::layout::supported_formats;
use gstcudaconv::filter::plan::{Algorithm, Operation, Taps};
use gstcudaconv::filter::spec::{Alpha, Kernel, Method, Planes};
use gstcudaconv::filter::{FilterSpec, Plan};

use super::support::*;

/// Samples of `f(x, y)` up to `radius` on both axes, as a matrix.
fn sampled(radius: i32, f: impl Fn(f64, f64) -> f64) -> String {
    let row = |y: i32| {
        (-radius..=radius)
            .map(|x| format!("{} ", f(x.into(), y.into()) as f32))
            .collect::<String>()
    };
    (-radius..=radius)
        .map(row)
        .collect::<Vec<String>>()
        .join(";")
}

fn specs() -> Vec<FilterSpec> {
    let of = |kernel| FilterSpec {
        kernel,
        method: Method::Separable,
        border_value: 37.0,
        ..FilterSpec::default()
    };
    let gauss = |x: f64, y: f64| (-(x * x + y * y) / 6.0).exp();
    let disc = |x: f64, y: f64| f64::from(u8::from(x * x + y * y <= 16.0));
    let matrices = [
        // 2, 4, 2 and 3 outer products.
        "1 -2 3 0 5 -6 7; 1 2 3 4 5 6 7; 2 -4 6 0 10 -12 14".to_owned(),
        sampled(4, disc),
        sampled(6, |x, y| gauss(x, y) - 0.1 * gauss(0.6 * x, 0.6 * y)),
        sampled(5, |x, y| {
            (1.0 + 0.02 * x * x * y + 0.01 * x * y * y) * gauss(x, y)
        }),
    ];
    let customs = matrices.map(|matrix| FilterSpec {
        matrix: Some(matrix.parse().unwrap()),
        ..of(Kernel::Custom)
    });
    let unsharp = |radius, amount| FilterSpec {
        radius,
        amount,
        ..of(Kernel::Unsharp)
    };
    let presets = [
        of(Kernel::Laplacian),
        FilterSpec {
            amount: 0.7,
            ..of(Kernel::Sharpen)
        },
        unsharp(3, 0.8),
        unsharp(9, 1.2),
    ];
    presets.into_iter().chain(customs).collect()
}

/// Whether a kernel of `plan` is a sum.
fn is_sum(plan: &Plan) -> bool {
    plan.jobs.iter().any(|job| match &job.operation {
        Operation::Correlate(kernel) => matches!(kernel.taps, Taps::Sum(_)),
        _ => false,
    })
}

#[test]
fn every_format_and_border_is_within_the_contract() {
    let mut agreement = Agreement::default();
    let formats: Vec<_> = supported_formats().collect();
    for (turn, &format) in formats.iter().enumerate() {
        for (index, spec) in specs().into_iter().enumerate() {
            for (width, height) in [(70, 40), (5, 3), (1, 1), (323, 18)] {
                let spec = FilterSpec {
                    border: BORDERS[(turn + index + width as usize) % BORDERS.len()],
                    planes: Planes::All,
                    alpha: Alpha::Filter,
                    ..spec.clone()
                };
                let layout = layout(format, width, height);
                let plan = plan(&spec, &layout);
                assert!(is_sum(&plan) && plan.algorithm == Algorithm::Separable);
                let input = Picture::new(&layout, Placement::Odd, scene(layout.depth));
                let interlaced = (turn + index) % 3 == 0;
                let expected = gstcudaconv::filter::reference::filter(
                    &spec,
                    &layout,
                    &input.planes(),
                    interlaced,
                );
                check_auto(
                    &spec,
                    &input,
                    interlaced,
                    &expected.unwrap(),
                    &mut agreement,
                );
            }
        }
    }
    println!("{agreement}");
    agreement.finish();
}

/// Whole numbers have the canonical bytes, also of colours that are premultiplied.
#[test]
fn whole_numbers_give_the_canonical_bytes() {
    for format in supported_formats() {
        let layout = layout(format, 45, 23);
        for spec in &specs()[..2] {
            for alpha in [Alpha::Copy, Alpha::Filter, Alpha::Premultiply] {
                let spec = FilterSpec {
                    alpha,
                    ..spec.clone()
                };
                let Ok(plan) = Plan::new(&spec, &layout, engine().abilities()) else {
                    // Of 16 bits, products with alpha are beyond 2^24.
                    assert_eq!(alpha, Alpha::Premultiply);
                    continue;
                };
                assert!(is_sum(&plan));
                let auto = FilterSpec {
                    method: Method::Auto,
                    ..spec.clone()
                };
                let canonical = Plan::new(&auto, &layout, cpu_engine().abilities()).unwrap();
                let input = Picture::noise(&layout, Placement::Odd);
                let bytes = |result: Picture| result.active_bytes();
                let place = Placement::Aligned;
                let found = bytes(run(&Arc::new(plan), &input, place, false));
                let canonical = Arc::new(canonical);
                let expected = bytes(run_on(cpu_engine(), &canonical, &input, place, false));
                assert!(found == expected, "{format:?} {spec:?}");
            }
        }
    }
}
