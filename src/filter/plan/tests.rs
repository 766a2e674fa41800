//! Plans of what users ask for.

mod actions;
mod methods;

use super::*;
use crate::filter::spec::{Kernel, Method, Planes, Window};

const CPU: Abilities = Abilities {
    direct: |_, _| true,
    fft: |_, _| None,
    engine: "CPU",
    algorithms: &[Algorithm::Separable, Algorithm::Direct, Algorithm::Naive],
};

fn layout(format: gst_video::VideoFormat) -> Arc<Layout> {
    gst::init().unwrap();
    let info = gst_video::VideoInfo::builder(format, 33, 17)
        .build()
        .unwrap();
    Arc::new(Layout::new(&info).unwrap())
}

fn spec(kernel: Kernel) -> FilterSpec {
    FilterSpec {
        kernel,
        ..FilterSpec::default()
    }
}

fn custom(matrix: &str) -> FilterSpec {
    FilterSpec {
        matrix: Some(matrix.parse().unwrap()),
        ..spec(Kernel::Custom)
    }
}

pub(super) fn plan(spec: &FilterSpec, format: gst_video::VideoFormat) -> Plan {
    Plan::new(spec, &layout(format), &CPU).unwrap()
}

fn refusal(spec: &FilterSpec) -> String {
    let layout = layout(gst_video::VideoFormat::I420);
    Plan::new(spec, &layout, &CPU).unwrap_err().to_string()
}

fn correlation(spec: &FilterSpec) -> Correlation {
    match &plan(spec, gst_video::VideoFormat::Gray8).jobs[0].operation {
        Operation::Correlate(kernel) => kernel.clone(),
        other => panic!("{other:?}"),
    }
}

/// Actions of all channels in the order of the layout.
fn actions(spec: &FilterSpec, format: gst_video::VideoFormat) -> Vec<Action> {
    let plan = plan(spec, format);
    plan.jobs
        .iter()
        .flat_map(|job| job.actions.clone())
        .collect()
}

fn filter(zero: f32, offset: f32, beyond: f32) -> Action {
    Action::Filter {
        zero,
        offset,
        beyond,
    }
}

#[test]
fn divisors_are_derived_or_given() {
    let divisor = |kernel, divisor| {
        correlation(&FilterSpec {
            divisor,
            ..spec(kernel)
        })
        .divisor
    };
    assert_eq!(divisor(Kernel::Gauss3, 0.0), 16.0);
    assert_eq!(divisor(Kernel::Gauss3, 16.0), 16.0);
    assert_eq!(divisor(Kernel::Gauss9, 0.0), 65536.0);
    assert_eq!(divisor(Kernel::Box7, 0.0), 49.0);
    assert_eq!(divisor(Kernel::Gauss, 0.0), 1.0);
    assert_eq!(divisor(Kernel::Unsharp, 0.0), 1.0);
    assert_eq!(divisor(Kernel::Sharpen, 1.0), 1.0);
    assert_eq!(divisor(Kernel::Sharpen, -2.0), -2.0);
    assert_eq!(divisor(Kernel::Laplacian, 0.0), 1.0);
    assert_eq!(divisor(Kernel::SobelX, 8.0), 8.0);
    assert_eq!(correlation(&custom("1 2 3;")).divisor, 6.0);
    assert_eq!(correlation(&custom("1 -2.0000001 1;")).divisor, 1.0);
    assert_eq!(correlation(&custom("0 0 0;")).divisor, 1.0);
}

#[test]
fn dyadic_fractions_become_whole_numbers() {
    let kernel = correlation(&custom(
        "0.0625 0.125 0.0625 0.125 0.25 0.125 0.0625 0.125 0.0625",
    ));
    let taps = Taps::Separable {
        horizontal: vec![1.0, 2.0, 1.0],
        vertical: vec![1.0, 2.0, 1.0],
    };
    assert_eq!((kernel.taps, kernel.divisor), (taps, 16.0));
    let tenths = correlation(&custom(&["0.1"; 9].join(" ")));
    assert_eq!(tenths, correlation(&spec(Kernel::Box3)));
    let kernel = correlation(&FilterSpec {
        amount: 0.5,
        ..spec(Kernel::Sharpen)
    });
    let weights = vec![0.0, -1.0, 0.0, -1.0, 6.0, -1.0, 0.0, -1.0, 0.0];
    assert_eq!(
        kernel.taps,
        Taps::Full {
            width: 3,
            height: 3,
            weights
        }
    );
    assert_eq!(kernel.divisor, 2.0);
}

#[test]
fn no_coefficient_or_divisor_leaves_float32() {
    for matrix in [
        "3e38 1e38 3.3e38;",
        "1e-44 3e-44 7e-45;",
        "1e38 1e-38 1;",
        "0.1 1e30 7e-30;",
    ] {
        for divisor in [0.0, 1e-300, -1e300, 5e-324, f64::MAX] {
            let kernel = correlation(&FilterSpec {
                divisor,
                ..custom(matrix)
            });
            let largest: f32 = kernel.taps.iter().map(f32::abs).sum();
            assert!(largest.is_normal() && largest < 1e12, "{kernel:?}");
            let results = [1.0, 4e9 * largest].map(|sum| sum / kernel.divisor);
            assert!(results.iter().all(|r| r.is_finite()), "{kernel:?}");
            assert_eq!(kernel.divisor < 0.0, divisor < 0.0);
        }
    }
}

#[test]
fn whole_sums_are_those_that_float32_holds() {
    let whole = |spec: &FilterSpec, format| {
        let plan = plan(spec, format);
        plan.jobs[0].sums_are_whole(plan.layout.max_code())
    };
    use gst_video::VideoFormat as F;
    assert!(whole(&spec(Kernel::Gauss9), F::Gray8));
    assert!(!whole(&spec(Kernel::Gauss9), F::Gray16Le));
    assert!(whole(&spec(Kernel::Gauss3), F::Gray16Le));
    assert!(!whole(&spec(Kernel::Gauss), F::Gray8));
    assert!(whole(&spec(Kernel::Scharr), F::I42010le));
    assert!(whole(&custom("0.25 0.5 0.25;"), F::Gray8));
    assert!(!whole(&custom("0.1 0.33333334 0.1;"), F::Gray8));
    assert!(!whole(&spec(Kernel::Bilateral), F::Gray8));
    let beyond = |border_value| FilterSpec {
        border: Border::Constant,
        border_value,
        ..spec(Kernel::Gauss3)
    };
    assert!(whole(&beyond(3.0), F::Gray8) && !whole(&beyond(3.1), F::Gray8));
    // 255 · 255 · 16 < 2^24, 255 · 255 · 2^16 is not.
    let premultiplied = |kernel| FilterSpec {
        alpha: Alpha::Premultiply,
        ..spec(kernel)
    };
    assert!(whole(&premultiplied(Kernel::Gauss3), F::Rgba));
    assert!(!whole(&premultiplied(Kernel::Gauss9), F::Rgba));
}

#[test]
fn the_bilateral_measures_distances_in_luma_pixels() {
    let spec = FilterSpec {
        radius: 4,
        sigma_space: 2.0,
        ..spec(Kernel::Bilateral)
    };
    let plan = plan(&spec, gst_video::VideoFormat::Nv16);
    let of = |job: usize| match &plan.jobs[job].operation {
        Operation::Bilateral(bilateral) => bilateral.clone(),
        other => panic!("{other:?}"),
    };
    let (luma, chroma) = (of(0), of(1));
    assert_eq!((luma.radius_x, luma.radius_y), (4, 4));
    assert_eq!((chroma.radius_x, chroma.radius_y), (2, 4));
    // Every offset of the chroma grid has the weight of the luma offset twice as wide.
    for (dx, dy, exponent) in chroma.taps {
        assert!(luma.taps.contains(&(2 * dx, dy, exponent)), "{dx} {dy}");
    }
    // Lattice points of the circle of radius 4, without the centre.
    assert_eq!(luma.taps.len(), 48);
    let expected = -std::f32::consts::LOG2_E / (2.0 * 25.0 * 25.0);
    assert!((luma.color - expected).abs() < 1e-9);
}

#[test]
fn exponents_stay_finite_at_the_smallest_and_largest_sigmas() {
    use gst_video::VideoFormat as F;
    for sigma in [1e-6, 1e-3, 100.0] {
        let spec = FilterSpec {
            radius: 32,
            sigma_space: sigma,
            sigma_color: sigma,
            ..spec(Kernel::Bilateral)
        };
        for format in [F::Rgba, F::Argb64] {
            let plan = plan(&spec, format);
            let Operation::Bilateral(b) = &plan.jobs[0].operation else {
                panic!("no bilateral");
            };
            let max = plan.layout.max_code() as f32;
            assert!(b.taps.iter().all(|tap| tap.2.is_finite()));
            assert!((b.color * (3.0 * max).powi(2)).is_finite() && b.color < 0.0);
            let product = b.color_premultiplied * (3.0 * max * max).powi(2);
            assert!(product.is_finite() && b.color_premultiplied < 0.0);
        }
    }
}

#[test]
fn a_small_circle_on_a_subsampled_grid_is_a_copy() {
    let spec = FilterSpec {
        radius: 1,
        ..spec(Kernel::Bilateral)
    };
    let actions = actions(&spec, gst_video::VideoFormat::I420);
    assert_eq!(actions[1..], [Action::Copy, Action::Copy]);
    assert_ne!(actions[0], Action::Copy);
}

#[test]
fn what_is_missing_or_out_of_range_is_said() {
    assert!(refusal(&spec(Kernel::Custom)).contains("needs the property matrix"));
    let wide = FilterSpec {
        radius: 33,
        ..spec(Kernel::Box)
    };
    assert_eq!(
        refusal(&wide),
        "radius=33 is not possible; accepted are 0 to 32"
    );
    let nan = FilterSpec {
        sigma: f64::NAN,
        ..spec(Kernel::Gauss)
    };
    assert_eq!(
        refusal(&nan),
        "sigma=NaN is not possible; accepted are 0 to 100"
    );
    let infinite = FilterSpec {
        bias: f64::INFINITY,
        ..spec(Kernel::Gauss)
    };
    assert_eq!(
        refusal(&infinite),
        "bias=inf is not possible; accepted are finite numbers"
    );
}
