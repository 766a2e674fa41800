//! No settings make a plan whose numbers overflow.

use gst::prelude::*;
use proptest::prelude::*;

use super::tests::plan;
use super::*;
use crate::filter::spec::{Kernel, Planes};

fn kernels() -> Vec<Kernel> {
    let class = gst::glib::EnumClass::with_type(Kernel::static_type()).unwrap();
    let value = |value: &gst::glib::EnumValue| value.to_value(&class).get().unwrap();
    class.values().iter().map(value).collect()
}

/// Any spec that the properties can hold, extremes included.
fn specs() -> impl Strategy<Value = FilterSpec> {
    fn any_of<T: Copy + std::fmt::Debug + 'static>(values: &[T]) -> impl Strategy<Value = T> {
        prop::sample::select(values.to_vec())
    }
    let small = |most: f64| prop_oneof![Just(0.0), Just(1e-160), Just(1e-6), Just(most), 0.0..most];
    let number = prop_oneof![
        Just(0.0),
        Just(f64::MAX),
        Just(-5e-324),
        -1e3..1e3f64,
        any::<f64>().prop_filter("finite", |x| x.is_finite()),
    ];
    let matrix = prop::collection::vec(any::<f32>().prop_filter("finite", |x| x.is_finite()), 9);
    (
        (
            prop::sample::select(kernels()),
            matrix,
            number.clone(),
            number,
            0u32..33,
        ),
        (
            small(100.0),
            small(10.0),
            small(100.0),
            small(255.0),
            small(255.0),
        ),
        any_of(&[Border::Replicate, Border::Wrap, Border::Constant]),
        any_of(&[Planes::Auto, Planes::All, Planes::Luma]),
        any_of(&[Alpha::Copy, Alpha::Filter, Alpha::Premultiply]),
    )
        .prop_map(|(whole, fractions, border, planes, alpha)| FilterSpec {
            kernel: whole.0,
            matrix: Some(crate::filter::spec::Matrix {
                width: 3,
                height: 3,
                coefficients: whole.1,
            }),
            divisor: whole.2,
            bias: whole.3,
            radius: whole.4,
            sigma: fractions.0,
            amount: fractions.1,
            sigma_space: fractions.2,
            sigma_color: fractions.3,
            border_value: fractions.4,
            border,
            planes,
            alpha,
            ..FilterSpec::default()
        })
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..Default::default() })]

    #[test]
    fn whatever_the_values_every_number_of_a_plan_is_finite(spec in specs()) {
        use gst_video::VideoFormat as F;
        for format in [F::Gray8, F::Argb64, F::I42010le] {
            let plan = plan(&spec, format);
            for job in &plan.jobs {
                for action in &job.actions {
                    if let Action::Filter { zero, offset, beyond } = action {
                        prop_assert!([zero, offset, beyond].iter().all(|x| x.is_finite()));
                    }
                }
                match &job.operation {
                    Operation::None => {}
                    Operation::Correlate(kernel) => prop_assert!(is_sound(kernel), "{kernel:?}"),
                    Operation::Magnitude { x, y } => {
                        prop_assert!(is_sound(x) && is_sound(y) && x.divisor == y.divisor);
                    }
                    Operation::Bilateral(bilateral) => {
                        prop_assert!(bilateral.color.is_finite() && bilateral.color < 0.0);
                        prop_assert!(bilateral.taps.iter().all(|tap| tap.2.is_finite()));
                    }
                }
            }
        }
    }
}

/// Whether sums of products with code values and alpha stay finite, before and after division.
fn is_sound(kernel: &Correlation) -> bool {
    let largest = kernel.taps.sum_of_magnitudes() as f32 * 65535.0 * 65535.0;
    largest.is_finite() && kernel.divisor != 0.0 && (largest / kernel.divisor).is_finite()
}
