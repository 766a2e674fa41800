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
fn kernels_that_change_nothing_are_copies() {
    let copies = [
        spec(Kernel::Identity),
        custom("1"),
        custom("0 0 0 0 1 0 0 0 0"),
        custom("0;0.3;0"),
        FilterSpec {
            amount: 0.0,
            ..spec(Kernel::Sharpen)
        },
        FilterSpec {
            amount: 0.0,
            ..spec(Kernel::Unsharp)
        },
        FilterSpec {
            sigma: 1e-160,
            ..spec(Kernel::Gauss)
        },
        FilterSpec {
            sigma_space: 0.0,
            ..spec(Kernel::Bilateral)
        },
        FilterSpec {
            sigma_color: 1e-160,
            ..spec(Kernel::Bilateral)
        },
    ];
    for spec in copies {
        for format in crate::filter::layout::supported_formats() {
            let plan = plan(&spec, format);
            for job in &plan.jobs {
                assert_eq!(job.operation, Operation::None, "{spec:?} {format:?}");
                assert!(job.actions.iter().all(|action| *action == Action::Copy));
            }
        }
    }
    let doubled = FilterSpec {
        divisor: 0.5,
        ..spec(Kernel::Identity)
    };
    assert_eq!(correlation(&doubled).divisor, 0.5);
    let shifted = custom("1 0 0 0 0 0 0 0 0");
    assert_ne!(
        actions(&shifted, gst_video::VideoFormat::Gray8),
        [Action::Copy]
    );
}

#[test]
fn bias_and_border_value_are_for_luma_grey_and_rgb_at_the_scale_of_the_depth() {
    use gst_video::VideoFormat as F;
    let spec = FilterSpec {
        bias: 10.0,
        border_value: 3.5,
        ..spec(Kernel::Gauss3)
    };
    let chroma = filter(128.0, 128.0, 0.0);
    assert_eq!(
        actions(&spec, F::I420),
        [filter(16.0, 26.0, 3.5), chroma, chroma]
    );
    assert_eq!(actions(&spec, F::Gray16Le), [filter(0.0, 2560.0, 896.0)]);
    let chroma = filter(512.0, 512.0, 0.0);
    assert_eq!(
        actions(&spec, F::P01010le),
        [filter(64.0, 104.0, 14.0), chroma, chroma]
    );
    let colour = filter(0.0, 10.0, 3.5);
    assert_eq!(
        actions(&spec, F::Rgbx),
        [colour, colour, colour, Action::Copy]
    );
}

#[test]
fn identity_with_a_bias_adds_it_to_luma_alone() {
    let spec = FilterSpec {
        bias: -2.0,
        ..spec(Kernel::Identity)
    };
    assert_eq!(
        actions(&spec, gst_video::VideoFormat::I420),
        [filter(16.0, 14.0, 0.0), Action::Copy, Action::Copy]
    );
}

#[test]
fn planes_says_what_becomes_of_chroma() {
    use gst_video::VideoFormat as F;
    let chroma = |kernel, planes| {
        let spec = FilterSpec {
            planes,
            ..spec(kernel)
        };
        actions(&spec, F::Nv12)[1]
    };
    let filtered = filter(128.0, 128.0, 0.0);
    for kernel in [
        Kernel::Laplacian,
        Kernel::SobelX,
        Kernel::Sobel,
        Kernel::Scharr,
    ] {
        assert_eq!(chroma(kernel, Planes::Auto), Action::Fill(128));
        assert_eq!(chroma(kernel, Planes::All), filtered);
        assert_eq!(chroma(kernel, Planes::Luma), Action::Copy);
    }
    for kernel in [
        Kernel::Gauss5,
        Kernel::Emboss,
        Kernel::Sharpen,
        Kernel::Bilateral,
    ] {
        assert_eq!(chroma(kernel, Planes::Auto), filtered);
        assert_eq!(chroma(kernel, Planes::Luma), Action::Copy);
    }
    let spec = FilterSpec {
        planes: Planes::Luma,
        ..spec(Kernel::Sobel)
    };
    assert_eq!(actions(&spec, F::Rgb), [filter(0.0, 0.0, 0.0); 3]);
}

#[test]
fn alpha_is_copied_filtered_or_multiplied() {
    use gst_video::VideoFormat as F;
    let of = |alpha| {
        plan(
            &FilterSpec {
                alpha,
                ..spec(Kernel::Gauss3)
            },
            F::Argb64,
        )
        .jobs
    };
    assert_eq!(of(Alpha::Copy)[0].actions[3], Action::Copy);
    assert_eq!(of(Alpha::Filter)[0].actions[3], filter(0.0, 0.0, 65535.0));
    assert!(!of(Alpha::Filter)[0].premultiply);
    assert!(of(Alpha::Premultiply)[0].premultiply);
    assert_eq!(
        of(Alpha::Premultiply)[0].actions,
        of(Alpha::Filter)[0].actions
    );
}

#[test]
fn premultiplication_needs_alpha_beside_every_filtered_colour() {
    let of = |kernel, planes| {
        let spec = FilterSpec {
            alpha: Alpha::Premultiply,
            planes,
            ..spec(kernel)
        };
        Plan::new(&spec, &layout(gst_video::VideoFormat::A420), &CPU)
    };
    let refused = of(Kernel::Gauss3, Planes::Auto).unwrap_err().to_string();
    assert!(
        refused.contains("A420") && refused.contains("AYUV"),
        "{refused}"
    );
    assert!(of(Kernel::Identity, Planes::Auto).is_ok());
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
fn methods_are_chosen_or_refused_with_those_that_can() {
    let algorithm = |kernel| plan(&spec(kernel), gst_video::VideoFormat::I420).algorithm;
    assert_eq!(algorithm(Kernel::Gauss7), Algorithm::Separable);
    assert_eq!(algorithm(Kernel::Sobel), Algorithm::Separable);
    assert_eq!(algorithm(Kernel::Laplacian), Algorithm::Direct);
    assert_eq!(algorithm(Kernel::Bilateral), Algorithm::Direct);

    let with = |kernel, method| FilterSpec {
        method,
        ..spec(kernel)
    };
    let naive = with(Kernel::Gauss7, Method::Naive);
    assert_eq!(
        plan(&naive, gst_video::VideoFormat::I420).algorithm,
        Algorithm::Naive
    );
    assert_eq!(
        refusal(&with(Kernel::Bilateral, Method::Separable)),
        "method=separable cannot compute kernel=bilateral on the CPU; possible are auto, naive"
    );
    assert_eq!(
        refusal(&with(Kernel::SobelX, Method::Tile)),
        "method=tile cannot compute kernel=sobel-x on the CPU; possible are auto, separable, naive"
    );
}

#[test]
fn kernels_of_low_rank_are_sums_of_outer_products_where_they_are_asked_for() {
    use gst_video::VideoFormat as F;
    let separable = |spec: FilterSpec| FilterSpec {
        method: Method::Separable,
        ..spec
    };
    let terms = |spec: &FilterSpec, format| match &plan(spec, format).jobs[0].operation {
        Operation::Correlate(kernel) => match &kernel.taps {
            Taps::Sum(terms) => terms.len(),
            _ => 0,
        },
        other => panic!("{other:?}"),
    };
    let unsharp = |amount| FilterSpec {
        amount,
        ..spec(Kernel::Unsharp)
    };
    for spec in [spec(Kernel::Laplacian), spec(Kernel::Sharpen), unsharp(1.0)] {
        for format in [F::Gray8, F::I42010le, F::I42012le, F::Gray16Be, F::Argb64] {
            assert_eq!(terms(&separable(spec.clone()), format), 2, "{spec:?}");
            assert_eq!(terms(&spec, format), 0);
            let naive = FilterSpec {
                method: Method::Naive,
                ..spec.clone()
            };
            assert_eq!(terms(&naive, format), 0);
        }
    }
    let laplacian = plan(&separable(spec(Kernel::Laplacian)), F::Gray16Le);
    assert!(laplacian.jobs[0].sums_are_whole(65535));
    assert_eq!(laplacian.algorithm, Algorithm::Separable);
    // A kernel of rank 1 stays one.
    assert_eq!(terms(&separable(spec(Kernel::Gauss3)), F::Gray8), 0);
    // Three of three rows and columns.
    let of_emboss = refusal(&separable(spec(Kernel::Emboss)));
    assert_eq!(
        of_emboss,
        "method=separable cannot compute kernel=emboss on the CPU; possible are auto, naive"
    );
}

#[test]
fn sums_whose_rounding_would_show_are_refused() {
    use gst_video::VideoFormat as F;
    let is_possible = |amount, alpha, format| {
        let spec = FilterSpec {
            amount,
            alpha,
            method: Method::Separable,
            ..spec(Kernel::Unsharp)
        };
        Plan::new(&spec, &layout(format), &CPU).is_ok()
    };
    // Sums of 21 times the code values, of which 24 bits hold less the more there are.
    for (format, amount, possible) in [
        (F::Gray8, 10.0, true),
        (F::I42010le, 10.0, true),
        (F::I42012le, 2.0, true),
        (F::I42012le, 10.0, false),
        (F::Gray16Le, 2.0, true),
        (F::Gray16Le, 4.0, false),
    ] {
        assert_eq!(is_possible(amount, Alpha::Copy, format), possible);
    }
    // A quotient by an alpha of next to nothing.
    assert!(is_possible(1.0, Alpha::Filter, F::Rgba));
    assert!(!is_possible(1.0, Alpha::Premultiply, F::Rgba));
}

#[test]
fn auto_never_takes_what_is_not_canonical() {
    let abilities = Abilities {
        direct: |_, _| false,
        algorithms: &[Algorithm::Fft, Algorithm::Fast, Algorithm::Tile],
        ..CPU
    };
    let layout = layout(gst_video::VideoFormat::Gray8);
    let of = |kernel, method| {
        let spec = FilterSpec {
            method,
            ..spec(kernel)
        };
        Plan::new(&spec, &layout, &abilities).map(|plan| plan.algorithm)
    };
    assert_eq!(of(Kernel::Gauss, Method::Auto), Ok(Algorithm::Tile));
    assert_eq!(of(Kernel::Bilateral, Method::Auto), Ok(Algorithm::Tile));
    assert_eq!(of(Kernel::Gauss, Method::Fft), Ok(Algorithm::Fft));
    assert!(of(Kernel::Gauss, Method::Fast).is_err());
    assert!(of(Kernel::Bilateral, Method::Fft).is_err());
    let auto_of_square = FilterSpec {
        window: Window::Square,
        ..spec(Kernel::Bilateral)
    };
    let plan = Plan::new(&auto_of_square, &layout, &abilities).unwrap();
    assert_eq!(plan.algorithm, Algorithm::Tile);
}

#[test]
fn levels_are_refused_where_they_cannot_be_with_what_stands_in_the_way() {
    let abilities = Abilities {
        algorithms: &[Algorithm::Naive, Algorithm::Fast],
        ..CPU
    };
    let fast = FilterSpec {
        method: Method::Fast,
        window: Window::Square,
        ..spec(Kernel::Bilateral)
    };
    let of = |spec: &FilterSpec, format| {
        let plan = Plan::new(spec, &layout(format), &abilities);
        plan.map(|plan| plan.algorithm).map_err(|e| e.to_string())
    };
    let can = |text| {
        format!(
            "method=fast cannot compute kernel=bilateral with {text} on the CPU; possible are auto, naive"
        )
    };
    use gst_video::VideoFormat as Format;
    for format in [
        Format::Gray8,
        Format::I420,
        Format::P01010le,
        Format::Yuy2,
        Format::Ayuv,
    ] {
        assert_eq!(of(&fast, format), Ok(Algorithm::Fast), "{format:?}");
    }
    let circle = FilterSpec {
        window: Window::Circle,
        ..fast.clone()
    };
    assert_eq!(of(&circle, Format::Nv12), Err(can("window=circle")));
    for format in [Format::Rgb, Format::Gbr, Format::Rgba64Le] {
        assert_eq!(
            of(&fast, format),
            Err(can("one weight for the three colours of RGB"))
        );
    }
    let premultiplied = FilterSpec {
        alpha: Alpha::Premultiply,
        ..fast.clone()
    };
    assert_eq!(
        of(&premultiplied, Format::Ayuv),
        Err(can("alpha=premultiply"))
    );
    for format in [Format::Gray8, Format::Gray16Le, Format::I42012le] {
        let sigma = |sigma_color| FilterSpec {
            sigma_color,
            ..fast.clone()
        };
        assert_eq!(of(&sigma(4.0), format), Ok(Algorithm::Fast));
        assert_eq!(of(&sigma(3.99), format), Err(can("a sigma-color below 4")));
        // A copy.
        assert_eq!(of(&sigma(0.0), format), Ok(Algorithm::Fast));
    }
}

#[test]
fn half_precision_is_for_correlations_of_bytes() {
    use gst_video::VideoFormat as F;
    gst::init().unwrap();
    let of = |spec: &FilterSpec, format| {
        let spec = FilterSpec {
            precision: Precision::Fp16,
            ..spec.clone()
        };
        let info = gst_video::VideoInfo::builder(format, 16, 16).build();
        let layout = Arc::new(Layout::new(&info.unwrap()).unwrap());
        Plan::new(&spec, &layout, &CPU).map(|plan| plan.precision)
    };
    let said = |obstacle: &str| {
        Err(PlanError::Precision {
            precision: "fp16",
            obstacle: obstacle.into(),
        })
    };
    let by = |method| FilterSpec {
        method,
        ..spec(Kernel::Gauss5)
    };
    for kernel in [
        Kernel::Gauss3,
        Kernel::Gauss,
        Kernel::Emboss,
        Kernel::SobelX,
    ] {
        assert_eq!(of(&spec(kernel), F::Nv12), Ok(Precision::Fp16));
        assert_eq!(
            of(&spec(kernel), F::Gray16Le),
            said("the samples of GRAY16_LE")
        );
    }
    assert_eq!(of(&by(Method::Separable), F::Rgba), Ok(Precision::Fp16));
    for kernel in [
        Kernel::Bilateral,
        Kernel::Sobel,
        Kernel::Scharr,
        Kernel::Prewitt,
    ] {
        let expected = said(&format!("kernel={}", kernel.nick()));
        assert_eq!(of(&spec(kernel), F::Gray8), expected);
    }
    for method in [Method::Naive, Method::Tile, Method::Fft, Method::Fast] {
        let expected = said(&format!("method={}", method.nick()));
        assert_eq!(of(&by(method), F::Gray8), expected);
    }
    // Nothing is computed.
    assert_eq!(of(&spec(Kernel::Identity), F::Yuy2), Ok(Precision::Fp16));
    assert_eq!(
        said("kernel=bilateral")
            .map(|_: Precision| ())
            .unwrap_err()
            .to_string(),
        "precision=fp16 is not possible with kernel=bilateral: it is for correlations of 8-bit \
         samples by method=auto or method=separable; use precision=fp32"
    );
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

#[test]
fn deep_sums_start_from_the_middle_of_the_code_range() {
    use gst_video::VideoFormat as F;
    let of = |kernel, alpha, format| {
        let spec = FilterSpec {
            radius: 8,
            bias: 1.0,
            border_value: 2.0,
            alpha,
            ..spec(kernel)
        };
        actions(&spec, format)[0]
    };
    let middle = filter(32768.0, 32768.0 + 256.0, 512.0 - 32768.0);
    assert_eq!(of(Kernel::Box, Alpha::Copy, F::Gray16Le), middle);
    assert_eq!(of(Kernel::Gauss7, Alpha::Copy, F::Gray16Le), middle);
    let limited = filter(512.0, 512.0 + 4.0, 64.0 + 8.0 - 512.0);
    assert_eq!(of(Kernel::Gauss, Alpha::Copy, F::I42010le), limited);
    // Exact as they are, of another sum, or in need of their zero level.
    let black = filter(0.0, 256.0, 512.0);
    assert_eq!(of(Kernel::Gauss3, Alpha::Copy, F::Gray16Le), black);
    assert_eq!(of(Kernel::Scharr, Alpha::Copy, F::Gray16Le), black);
    assert_eq!(of(Kernel::Box, Alpha::Premultiply, F::Argb64), black);
    let eight = filter(0.0, 1.0, 2.0);
    assert_eq!(of(Kernel::Gauss, Alpha::Copy, F::Gray8), eight);
}
