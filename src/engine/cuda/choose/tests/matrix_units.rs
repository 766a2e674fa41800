//! Kernels on the matrix units.

use super::*;
use spec::Alpha;

#[test]
fn whole_numbers_go_to_the_matrix_units_where_there_are_any() {
    assert_eq!(
        kernels(Format::Nv12, &of(Gauss7)),
        [SeparableMatrixU8, SeparableMatrixU8]
    );
    assert_eq!(kernels(Format::Gray8, &of(Gauss9)), [SeparableMatrixU8]);
    // Divided by 25.
    assert_eq!(
        kernels(Format::Gray8, &of(Box5)),
        [SeparableMatrixDividedU8]
    );
    let biased = FilterSpec {
        bias: 0.5,
        ..of(Gauss5)
    };
    assert_eq!(kernels(Format::Rgba, &biased), [SeparableMatrixDividedU8]);
    // Added whole, and out of range.
    let whole = FilterSpec {
        bias: 2.0,
        ..of(Gauss5)
    };
    assert_eq!(kernels(Format::Rgba, &whole), [SeparableMatrixDividedU8]);
    let row = |taps: usize, divisor| FilterSpec {
        matrix: format!("{};", "1 ".repeat(taps)).parse().ok(),
        divisor,
        ..of(Custom)
    };
    assert_eq!(
        kernels(Format::Gray8, &row(9, 8.0)),
        [SeparableMatrixDividedU8]
    );
    assert_eq!(kernels(Format::Gray8, &row(9, 16.0)), [SeparableMatrixU8]);
    // Across as far as 16 bytes.
    assert_eq!(kernels(Format::Rgba, &row(9, 16.0)), [SeparableMatrixU8]);
    assert_eq!(kernels(Format::Rgba, &row(11, 16.0)), [SeparableU8R7]);
    assert_eq!(kernels(Format::Gray8, &row(31, 32.0)), [SeparableMatrixU8]);
    // Weights below zero, fractions.
    assert_eq!(kernels(Format::Gray8, &of(ScharrX)), [SeparableU8R2]);
    let sigma = FilterSpec {
        sigma: 1.3,
        radius: 4,
        ..of(Gauss)
    };
    assert_eq!(kernels(Format::Gray8, &sigma), [SeparableU8R4]);
}

#[test]
fn full_kernels_go_to_the_matrix_units() {
    let custom = |matrix: &str| FilterSpec {
        matrix: matrix.parse().ok(),
        ..of(Custom)
    };
    let small = custom("1 2 3; 4 5 6; 7 8 10");
    assert_eq!(kernels(Format::Gray8, &small), [ConvolveMatrixU8]);
    assert_eq!(kernels(Format::Nv12, &small), [ConvolveMatrixU8; 2]);
    assert_eq!(kernels(Format::Rgb, &small), [ConvolveMatrixU8]);
    assert_eq!(
        kernels_on((7, 5), Format::Gray8, (64, 48), &small),
        [ConvolveTileU8]
    );
    // Samples with others in between, 16 bits, premultiplication.
    let of_five = custom("1 2 3 4 6; 7 8 10 11 12; 1 0 2 0 1");
    assert_eq!(kernels(Format::Yuy2, &of_five), [ConvolveTileU8; 2]);
    assert_eq!(kernels(Format::Gray16Le, &of_five), [ConvolveTileU16]);
    // Of sums up to 2^24 every digit counts, of others as many as decide.
    let large = |weight: i32| custom(&format!("1 2 3; 4 5 6; 7 8 {weight}"));
    assert_eq!(kernels(Format::Gray8, &large(128)), [ConvolveMatrixU8]);
    assert_eq!(kernels(Format::Gray8, &large(15_000)), [ConvolveMatrixU8]);
    // Divided by more, or what is no whole number, or with a fraction added.
    let near = [ConvolveMatrixNearU8];
    assert_eq!(kernels(Format::Gray8, &large(65_700)), near);
    assert_eq!(kernels(Format::Gray8, &large(65_800)), near);
    let divided = |divisor| FilterSpec {
        divisor,
        ..small.clone()
    };
    assert_eq!(kernels(Format::Gray8, &divided(7.0)), [ConvolveMatrixU8]);
    assert_eq!(kernels(Format::Gray8, &divided(7.5)), near);
    let biased = |bias| FilterSpec {
        bias,
        ..small.clone()
    };
    assert_eq!(kernels(Format::Gray8, &biased(0.5)), [ConvolveMatrixU8]);
    assert_eq!(kernels(Format::Gray8, &biased(0.3)), near);
    // What is added to luma alone leaves too little of a float32.
    let raised = FilterSpec {
        bias: 100_000.0,
        planes: spec::Planes::All,
        ..large(65_800)
    };
    assert_eq!(
        kernels(Format::Y444, &raised),
        [ConvolveTileU8, ConvolveMatrixNearU8, ConvolveMatrixNearU8]
    );
    // Results of a thousand times the contrast lie between two codes too often.
    let contrast = FilterSpec {
        divisor: 0.001,
        ..custom("0.1234567 -1 2; 1 0 -2; 1 -1 0")
    };
    assert_eq!(kernels(Format::Gray8, &contrast), [ConvolveTileU8]);
    let premultiplied = FilterSpec {
        alpha: spec::Alpha::Premultiply,
        ..custom("1 2 3; 4 5 6; 7 8 10")
    };
    assert_eq!(kernels(Format::Rgba, &premultiplied), [ConvolveTileU8]);
    // As many channels as there is room for.
    let weights = (0..31 * 31).map(|at| format!("{} ", at * 29 % 17));
    let largest = custom(&weights.collect::<String>());
    assert_eq!(kernels(Format::Gray8, &largest), [ConvolveMatrixU8]);
    assert_eq!(kernels(Format::Rgba, &largest), [ConvolveMatrixU8]);
    let with_alpha = FilterSpec {
        alpha: spec::Alpha::Filter,
        ..largest
    };
    assert_eq!(kernels(Format::Rgba, &with_alpha), [ConvolveTileU8]);
}

#[test]
fn full_kernels_of_words_go_to_the_matrix_units() {
    let custom = |matrix: &str| FilterSpec {
        matrix: matrix.parse().ok(),
        ..of(Custom)
    };
    let whole = custom("1 2 3 4 6; 7 8 10 11 12; 1 0 2 0 1");
    let fractions = custom("0.1234567 2 3 4 6; 7 8 10 11 12; 1 0 2 0 1");
    for format in [
        Format::P01010le,
        Format::I42010le,
        Format::Y44410le,
        Format::I42012le,
    ] {
        let of_whole = kernels(format, &whole);
        assert!(of_whole.iter().all(|kernel| *kernel == ConvolveMatrixU16));
        let near = kernels(format, &fractions);
        assert!(near.iter().all(|kernel| *kernel == ConvolveMatrixNearU16));
    }
    // 16 bits, of which float32 itself leaves most open; four packed channels; older devices.
    assert_eq!(kernels(Format::Gray16Le, &fractions), [ConvolveTileU16]);
    assert_eq!(kernels(Format::Rgba64Le, &whole), [ConvolveTileU16]);
    assert_eq!(
        kernels_on((7, 5), Format::P01010le, (64, 48), &whole),
        [ConvolveTileU16; 2]
    );
}

#[test]
fn fractions_of_three_channels_of_four_are_taken_apart() {
    let gauss = |radius| FilterSpec {
        radius,
        ..of(Gauss)
    };
    let size = (1920, 1080);
    let kernels = |format, spec: &FilterSpec| kernels_of(format, size, spec);
    for format in [Format::Rgba, Format::Argb, Format::Xrgb, Format::Ayuv] {
        assert_eq!(kernels(format, &gauss(3)), [SeparableU8R3], "{format}");
        for radius in [4, 5, 7, 8] {
            let kernel = [SeparableSplitPixelsU8];
            assert_eq!(kernels(format, &gauss(radius)), kernel, "{format}");
        }
        assert_eq!(kernels(format, &gauss(9)), [SeparableU8R16], "{format}");
    }
    let with = |change: fn(&mut FilterSpec)| {
        let mut spec = gauss(7);
        change(&mut spec);
        kernels(Format::Rgba, &spec)
    };
    // Four channels, no whole pixels of a row, a fraction beyond the edge, premultiplication.
    assert_eq!(with(|s| s.alpha = Alpha::Filter), [SeparableU8R7]);
    let edge = with(|s| (s.border, s.border_value) = (Border::Constant, 0.5));
    assert_eq!(edge, [SeparableU8]);
    assert_eq!(with(|s| s.alpha = Alpha::Premultiply), [SeparableU8]);
    // Offsets that leave few bits behind the point, and too many that are in doubt.
    assert_eq!(with(|s| s.bias = 120.3), [SeparableSplitPixelsU8]);
    assert_eq!(with(|s| s.bias = 130.3), [SeparableU8R7]);
    assert_eq!(with(|s| s.bias = -300.0), [SeparableU8R7]);
    assert_eq!(with(|s| s.divisor = 0.6), [SeparableSplitPixelsU8]);
    // Level areas of odd codes would all be.
    assert_eq!(with(|s| s.divisor = 2.0), [SeparableU8R7]);
    assert_eq!(with(|s| s.divisor = 0.2), [SeparableU8R7]);
    // Other formats, older devices, small pictures.
    let small = kernels_of(Format::Rgba, (1280, 720), &gauss(7));
    assert_eq!(small, [SeparableU8R7]);
    for format in [Format::Gray8, Format::Rgb, Format::I420] {
        assert_ne!(kernels(format, &gauss(7))[0], SeparableSplitPixelsU8);
    }
    let of_turing = kernels_on((7, 5), Format::Rgba, size, &gauss(7));
    assert_eq!(of_turing, [SeparableU8R7]);
    // Whole numbers that bytes do not hold, and one channel of which no other is filtered.
    let large = FilterSpec {
        matrix: "1 2 300 2 1 2 300 2 1;".parse().ok(),
        ..of(Custom)
    };
    assert_eq!(kernels(Format::Rgba, &large), [SeparableSplitPixelsU8]);
    let luma = FilterSpec {
        planes: spec::Planes::Luma,
        ..gauss(7)
    };
    assert_eq!(kernels(Format::Ayuv, &luma), [SeparableU8R7]);
}

/// The kernels of the jobs of a plan for 64x48 pixels with `precision=fp16`.
fn lower(capability: Capability, format: Format, spec: &FilterSpec) -> Vec<Kernel> {
    gst::init().unwrap();
    let info = gst_video::VideoInfo::builder(format, 64, 48).build();
    let layout = Arc::new(Layout::new(&info.unwrap()).unwrap());
    let spec = FilterSpec {
        precision: Precision::Fp16,
        ..spec.clone()
    };
    let plan = Plan::new(&spec, &layout, &ABILITIES).unwrap();
    let jobs = plan.jobs.iter();
    jobs.map(|job| super::super::of(&plan, job, capability).unwrap())
        .collect()
}

#[test]
fn rounded_weights_are_for_separable_kernels_of_bytes() {
    let ampere = |format, spec: &FilterSpec| lower((8, 0), format, spec);
    let gauss = |radius| FilterSpec {
        radius,
        ..of(Gauss)
    };
    assert_eq!(ampere(Format::Gray8, &of(Gauss7)), [SeparableHalfU8]);
    assert_eq!(ampere(Format::Nv12, &gauss(7)), [SeparableHalfU8; 2]);
    let with_alpha = |radius| FilterSpec {
        alpha: Alpha::Filter,
        ..gauss(radius)
    };
    for (format, spec) in [
        (Format::Rgb, &gauss as &dyn Fn(u32) -> FilterSpec),
        (Format::Rgba, &with_alpha),
    ] {
        assert_eq!(ampere(format, &spec(8)), [SeparableHalfU8]);
        assert_eq!(ampere(format, &spec(9)), [SeparableHalfWideU8]);
        assert_eq!(ampere(format, &spec(16)), [SeparableHalfWideU8]);
        assert_eq!(ampere(format, &spec(17)), [SeparableWideU8]);
    }
    // Three of four channels.
    for format in [Format::Rgba, Format::Argb, Format::Xrgb] {
        assert_eq!(ampere(format, &of(Gauss7)), [SeparablePixelsU8]);
        assert_eq!(ampere(format, &gauss(8)), [SeparablePixelsU8]);
        assert_eq!(ampere(format, &gauss(9)), [SeparablePixelsWideU8]);
        assert_eq!(ampere(format, &gauss(16)), [SeparablePixelsWideU8]);
        assert_eq!(ampere(format, &gauss(17)), [SeparableWideU8]);
    }
    // Half the taps on half the grid.
    let planar = [SeparableHalfWideU8, SeparableHalfU8, SeparableHalfU8];
    assert_eq!(ampere(Format::I420, &gauss(16)), planar);
    let custom = |matrix: &str, divisor| FilterSpec {
        matrix: Some(matrix.parse().unwrap()),
        divisor,
        ..of(Custom)
    };
    let fractions = custom("-0.31 0.7 1.1 0.7 0.1;", 0.0);
    assert_eq!(ampere(Format::Gray8, &fractions), [SeparableHalfU8]);
    // Four times at most.
    assert_eq!(
        ampere(Format::Gray8, &custom("1 2 1 2 2;", 2.0)),
        [SeparableHalfU8]
    );
    assert_eq!(
        ampere(Format::Gray8, &custom("1 2 1 2 3;", 2.0)),
        [SeparableMatrixDividedU8]
    );
    // Exact and as fast, of another rank, premultiplied, in no rows, for older devices.
    assert_eq!(ampere(Format::Gray8, &of(Gauss3)), [Direct3SmoothU8]);
    assert_eq!(
        ampere(
            Format::Gray8,
            &custom("1 0 2 0 0; 0 1 0 0 0; 3 0 0 0 1", 0.0)
        ),
        [ConvolveMatrixU8]
    );
    let premultiplied = FilterSpec {
        alpha: spec::Alpha::Premultiply,
        ..gauss(7)
    };
    assert_eq!(ampere(Format::Rgba, &premultiplied), [SeparableU8]);
    assert_eq!(ampere(Format::Yuy2, &gauss(7)), [SeparableU8R7; 2]);
    assert_eq!(lower((7, 5), Format::Gray8, &gauss(7)), [SeparableU8R7]);
}
