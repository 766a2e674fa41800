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
        "method=separable cannot compute kernel=bilateral on the CPU: it is for convolutions, while the weights of \
         a bilateral follow the picture; possible are auto, naive"
    );
    assert_eq!(
        refusal(&with(Kernel::SobelX, Method::Tile)),
        "method=tile cannot compute kernel=sobel-x on the CPU: it is for GPUs, in whose shared memory the tiles are \
         held; possible are auto, separable, naive"
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
        "method=separable cannot compute kernel=emboss on the CPU: it takes 3x3 coefficients that are the sum of at \
         most 2 products of a column and a row; possible are auto, naive"
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
    let refused = |obstacle: &str, accepted: &str| {
        format!(
            "method=fast cannot compute kernel=bilateral with {obstacle} on the CPU: it takes {accepted}; \
             possible are auto, naive"
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
    assert_eq!(
        of(&circle, Format::Nv12),
        Err(refused("window=circle", "window=square"))
    );
    let joint = "one weight for the three colours of RGB";
    let without = "grey and YUV formats, such as GRAY8, I420 and NV12";
    let luma = FilterSpec {
        planes: Planes::Luma,
        ..fast.clone()
    };
    for format in [Format::Rgb, Format::Gbr, Format::Rgba64Le] {
        assert_eq!(of(&fast, format), Err(refused(joint, without)));
        let no_luma = format!("{without}; RGB has no luma to filter alone");
        assert_eq!(of(&luma, format), Err(refused(joint, &no_luma)));
    }
    let premultiplied = FilterSpec {
        alpha: Alpha::Premultiply,
        ..fast.clone()
    };
    assert_eq!(
        of(&premultiplied, Format::Ayuv),
        Err(refused("alpha=premultiply", "alpha=copy and alpha=filter"))
    );
    for format in [Format::Gray8, Format::Gray16Le, Format::I42012le] {
        let sigma = |sigma_color| FilterSpec {
            sigma_color,
            ..fast.clone()
        };
        assert_eq!(of(&sigma(4.0), format), Ok(Algorithm::Fast));
        let small = refused(
            "a sigma-color below 4",
            "4 and more, and 0, which is a copy",
        );
        assert_eq!(of(&sigma(3.99), format), Err(small));
        assert_eq!(of(&sigma(0.0), format), Ok(Algorithm::Fast));
    }
}

#[test]
fn methods_of_one_kind_of_filter_say_which() {
    let abilities = Abilities {
        algorithms: &[
            Algorithm::Separable,
            Algorithm::Naive,
            Algorithm::Fft,
            Algorithm::Fast,
        ],
        ..CPU
    };
    let layout = layout(gst_video::VideoFormat::Gray8);
    for (kernel, method, said) in [
        (
            Kernel::Gauss5,
            Method::Fast,
            "method=fast cannot compute kernel=gauss5 on the CPU: it is for kernel=bilateral alone; \
             possible are auto, separable, naive, fft",
        ),
        (
            Kernel::Bilateral,
            Method::Fft,
            "method=fft cannot compute kernel=bilateral on the CPU: it is for convolutions; possible \
             are auto, naive",
        ),
    ] {
        let spec = FilterSpec {
            method,
            ..spec(kernel)
        };
        let error = Plan::new(&spec, &layout, &abilities).unwrap_err();
        assert_eq!(error.to_string(), said);
    }
}

#[test]
fn kernels_that_are_not_separable_say_why() {
    use gst_video::VideoFormat as F;
    let refused = |spec: FilterSpec, format| {
        let spec = FilterSpec {
            method: Method::Separable,
            ..spec
        };
        let error = Plan::new(&spec, &layout(format), &CPU).unwrap_err();
        let text = error.to_string();
        let (_, kernel) = text.split_once("cannot compute kernel=").unwrap();
        let (kernel, _) = kernel.split_once("; possible are").unwrap();
        kernel.to_owned()
    };
    let unsharp = |amount| FilterSpec {
        amount,
        ..spec(Kernel::Unsharp)
    };
    // Numbers of a fixed sequence without structure: of full rank.
    let noise: Vec<String> = (0..7)
        .map(|row| {
            let numbers = (0..7).map(|column| (row * 7 + column + 1u32).pow(5) % 97);
            numbers.map(|k| format!("{k} ")).collect()
        })
        .collect();
    let is_of_high_rank = custom(&noise.join(";"));
    assert_eq!(
        refused(is_of_high_rank, F::Gray8),
        "custom on the CPU: it takes 7x7 coefficients that are the sum of at most 4 products of a \
         column and a row"
    );
    // Of rank 2 whatever the amount is.
    for (amount, format, bits) in [
        (4.0, F::Gray16Le, 16),
        (4.0, F::Argb64, 16),
        (10.0, F::I42012le, 12),
    ] {
        assert_eq!(
            refused(unsharp(amount), format),
            format!(
                "unsharp with amount={amount} at {bits} bits on the CPU: the rounding of its sums in float32 \
                 would show; it takes a smaller amount, or fewer bits"
            )
        );
    }
    let is_steep = FilterSpec {
        divisor: 1.0,
        ..custom("1 2 3; 4 770 5; 2 4 6")
    };
    assert_eq!(
        refused(is_steep, F::Gray16Le),
        "custom with coefficients that large beside their divisor at 16 bits on the CPU: the rounding \
         of its sums in float32 would show; it takes smaller ones, or fewer bits"
    );
    let premultiplied = FilterSpec {
        alpha: Alpha::Premultiply,
        ..unsharp(1.0)
    };
    assert_eq!(
        refused(premultiplied, F::Rgba),
        "unsharp with alpha=premultiply on the CPU: there it takes kernels of rank 1, and others if all sums \
         are whole numbers below 2^24"
    );
}

#[test]
fn what_copies_every_channel_is_a_copy() {
    use gst_video::VideoFormat as F;
    let bilateral = |sigma_space, sigma_color| FilterSpec {
        sigma_space,
        sigma_color,
        ..spec(Kernel::Bilateral)
    };
    for format in [F::Gray8, F::I420, F::Rgba, F::Bgrx, F::Yuy2] {
        for copy in [
            spec(Kernel::Identity),
            bilateral(0.0, 25.0),
            bilateral(5.0, 0.0),
            custom("0 0 0; 0 3 0; 0 0 0"),
        ] {
            assert!(plan(&copy, format).is_copy(), "{copy:?}");
        }
        let brighter = FilterSpec {
            bias: 1.0,
            ..spec(Kernel::Identity)
        };
        for filter in [spec(Kernel::Gauss3), spec(Kernel::Sobel), brighter] {
            assert!(!plan(&filter, format).is_copy(), "{filter:?}");
        }
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
