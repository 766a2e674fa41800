//! Methods and precisions.

use super::*;

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
