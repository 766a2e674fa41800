//! Which kernel is chosen for what.

mod bilateral;
mod matrix_units;

use std::sync::Arc;

use super::*;
use crate::engine::cuda::ABILITIES;
use crate::filter::plan::Plan;
use crate::filter::spec::{self, FilterSpec, Precision};

/// The kernels of the jobs of a plan for 64x48 pixels.
fn kernels(format: gst_video::VideoFormat, spec: &FilterSpec) -> Vec<Kernel> {
    kernels_of(format, (64, 48), spec)
}

fn kernels_of(format: gst_video::VideoFormat, size: (u32, u32), spec: &FilterSpec) -> Vec<Kernel> {
    kernels_on((9, 0), format, size, spec)
}

fn kernels_on(
    capability: Capability,
    format: gst_video::VideoFormat,
    (width, height): (u32, u32),
    spec: &FilterSpec,
) -> Vec<Kernel> {
    gst::init().unwrap();
    let info = gst_video::VideoInfo::builder(format, width, height).build();
    let layout = Arc::new(Layout::new(&info.unwrap()).unwrap());
    let plan = Plan::new(spec, &layout, &ABILITIES).unwrap();
    let jobs = plan.jobs.iter();
    jobs.map(|job| kernel(plan.algorithm, &layout, job, capability).unwrap())
        .collect()
}

/// The kernels of a frame of 64x48 pixels: one for all jobs, or each job's.
fn launched(format: gst_video::VideoFormat, spec: &FilterSpec) -> Vec<Kernel> {
    launched_on((9, 0), format, spec)
}

fn launched_on(
    capability: Capability,
    format: gst_video::VideoFormat,
    spec: &FilterSpec,
) -> Vec<Kernel> {
    gst::init().unwrap();
    let info = gst_video::VideoInfo::builder(format, 64, 48).build();
    let layout = Arc::new(Layout::new(&info.unwrap()).unwrap());
    let plan = Plan::new(spec, &layout, &ABILITIES).unwrap();
    match of_packed_422(plan.algorithm, &layout, &plan.jobs, capability) {
        Some(kernel) => vec![kernel],
        None => kernels_on(capability, format, (64, 48), spec),
    }
}

fn of(kernel: spec::Kernel) -> FilterSpec {
    FilterSpec {
        kernel,
        ..FilterSpec::default()
    }
}

use Kernel::*;
use gst_video::VideoFormat as Format;
use spec::Kernel::{
    Bilateral, Box, Box3, Box5, Custom, Emboss, Gauss, Gauss3, Gauss5, Gauss7, Gauss9, Laplacian,
    Prewitt, Scharr, ScharrX, Sobel, Unsharp,
};

#[test]
fn few_separable_taps_of_bytes_have_kernels_of_their_own() {
    assert_eq!(kernels(Format::Nv12, &of(Gauss3)), [Direct3SmoothU8; 2]);
    let of_turing = |format, spec: &FilterSpec| kernels_on((7, 5), format, (64, 48), spec);
    assert_eq!(of_turing(Format::Rgba, &of(Gauss9)), [SeparableU8R4]);
    assert_eq!(kernels(Format::Gray8, &of(Sobel)), [Direct3MagnitudeU8]);
    assert_eq!(kernels(Format::Gray8, &of(Scharr)), [Direct3MagnitudeU8]);
    let radius = |radius| FilterSpec {
        radius,
        ..of(Gauss)
    };
    // Half as many taps on a grid of half as many samples.
    assert_eq!(
        kernels(Format::I420, &radius(8)),
        [SeparableU8R8, SeparableU8R4, SeparableU8R4]
    );
    for (taps, bytes, words) in [
        (2, SeparableU8R2, SeparableU16R4),
        (3, SeparableU8R3, SeparableU16R4),
        (5, SeparableU8R7, SeparableU16R8),
        (7, SeparableU8R7, SeparableU16R8),
        (9, SeparableU8R16, SeparableU16R16),
        (16, SeparableU8R16, SeparableU16R16),
        (17, SeparableWideU8, SeparableWideU16),
        (32, SeparableWideU8, SeparableWideU16),
    ] {
        assert_eq!(kernels(Format::Gray8, &radius(taps)), [bytes], "{taps}");
        assert_eq!(kernels(Format::Gray16Le, &radius(taps)), [words], "{taps}");
    }
    // Weights too far apart for sums in other units.
    let narrow = FilterSpec {
        sigma: 0.4,
        ..radius(7)
    };
    assert_eq!(kernels(Format::Gray8, &narrow), [SeparableU8]);
}

#[test]
fn means_of_rectangles_have_a_kernel_of_their_own() {
    let of_radius = |radius| FilterSpec { radius, ..of(Box) };
    // Chroma of a smaller window as well, where there is more than one sample.
    assert_eq!(kernels(Format::Nv12, &of_radius(32)), [BoxU8; 2]);
    assert_eq!(kernels(Format::I420, &of_radius(20)), [BoxU8; 3]);
    // Small ones go to the matrix units, where there are any.
    let of_turing = kernels_on((7, 5), Format::Rgba, (64, 48), &of(Box5));
    assert_eq!(of_turing, [BoxU8]);
    assert_eq!(kernels(Format::Bgr, &of_radius(9)), [BoxU8]);
    assert_eq!(kernels(Format::Gray8, &of(Box3)), [Direct3DividedU8]);
    assert_eq!(kernels(Format::P01010le, &of_radius(32)), [BoxU16; 2]);
    // More samples could be rounded otherwise.
    assert_eq!(kernels(Format::I42012le, &of_radius(22)), [BoxU16; 3]);
    assert_eq!(kernels(Format::Gray16Be, &of_radius(5)), [BoxU16]);
    assert_eq!(kernels(Format::Gray16Le, &of_radius(6)), [SeparableU16R8]);
    assert_eq!(kernels(Format::Rgba64Le, &of_radius(5)), [SeparableU16R8]);
    // With samples of others in between.
    assert_eq!(kernels(Format::Yuy2, &of_radius(9)), [SeparableU8R16; 2]);
    for other in [
        FilterSpec {
            border: Border::Wrap,
            ..of_radius(9)
        },
        FilterSpec {
            bias: 1.0,
            ..of_radius(9)
        },
        FilterSpec {
            divisor: 360.0,
            ..of_radius(9)
        },
    ] {
        assert_eq!(kernels(Format::Rgba, &other), [SeparableU8R16]);
    }
    for other in [
        FilterSpec {
            border: Border::Constant,
            border_value: 0.5,
            ..of_radius(9)
        },
        FilterSpec {
            alpha: spec::Alpha::Premultiply,
            ..of_radius(9)
        },
    ] {
        assert_ne!(kernels(Format::Rgba, &other), [BoxU8]);
    }
}

#[test]
fn gradients_have_a_kernel_of_their_own_where_nothing_is_divided() {
    for preset in [Sobel, Scharr, Prewitt] {
        assert_eq!(kernels(Format::Rgba, &of(preset)), [Direct3MagnitudeU8]);
        for (bias, divisor) in [(0.5, 0.0), (257.0, 0.0), (0.0, 2.0)] {
            let other = FilterSpec {
                bias,
                divisor,
                ..of(preset)
            };
            assert_eq!(kernels(Format::Rgba, &other), [SeparableMagnitudeU8]);
        }
    }
    let raised = FilterSpec {
        bias: -128.0,
        ..of(Sobel)
    };
    assert_eq!(kernels(Format::Gray8, &raised), [Direct3MagnitudeU8]);
}

#[test]
fn few_small_whole_weights_have_kernels_of_their_own() {
    assert_eq!(kernels(Format::I420, &of(Gauss3)), [Direct3SmoothU8; 3]);
    assert_eq!(kernels(Format::Rgba, &of(Emboss)), [Direct3U8]);
    assert_eq!(kernels(Format::Gbr, &of(Gauss3)), [Direct3SmoothU8]);
    assert_eq!(kernels(Format::Bgr, &of(Box3)), [Direct3DividedU8]);
    // Luma is filtered, chroma filled by the same kernel.
    assert_eq!(
        kernels(Format::Nv12, &of(Sobel)),
        [Direct3MagnitudeU8, ConvolveNaiveU8]
    );
    let half = FilterSpec {
        bias: 0.5,
        ..of(Gauss3)
    };
    assert_eq!(kernels(Format::Gray8, &half), [Direct3DividedU8]);
    let separable = FilterSpec {
        method: spec::Method::Separable,
        ..of(Gauss3)
    };
    assert_eq!(kernels(Format::Gray8, &separable), [SeparableMatrixU8]);
}

#[test]
fn sums_of_outer_products_have_one_kernel_where_they_are_asked_for() {
    let by = |method, kernel| FilterSpec {
        method,
        ..of(kernel)
    };
    let (separable, auto) = (spec::Method::Separable, spec::Method::Auto);
    let asked_for = by(separable, Laplacian);
    assert_eq!(kernels(Format::Gray8, &asked_for), [SeparableU8]);
    assert_eq!(kernels(Format::Gray16Le, &asked_for), [SeparableU16]);
    assert_eq!(kernels(Format::Gray8, &by(auto, Laplacian)), [Direct3U8]);
    assert_eq!(
        kernels(Format::Yuy2, &by(separable, Unsharp)),
        [SeparableU8, SeparableU8]
    );
    assert_eq!(
        launched(Format::Yuy2, &by(separable, Unsharp)),
        [SeparableU8, SeparableU8]
    );
    // No other kernel can do them, whatever a plan says.
    let info = gst_video::VideoInfo::builder(Format::Gray8, 64, 48).build();
    let layout = Arc::new(Layout::new(&info.unwrap()).unwrap());
    let plan = Plan::new(&asked_for, &layout, &ABILITIES).unwrap();
    for algorithm in [Algorithm::Naive, Algorithm::Tile, Algorithm::Direct] {
        assert_eq!(kernel(algorithm, &layout, &plan.jobs[0], (9, 0)), None);
    }
}

/// Which kernel computes each format that is not of bytes in planes of their own, and RGB.
#[test]
fn every_kind_of_samples_has_kernels_of_its_own() {
    let words = [
        Direct3U16,
        Direct3MagnitudeU16,
        SeparableU16R4,
        SeparableU16R4,
    ];
    let bytes = [
        Direct3SmoothU8,
        Direct3MagnitudeU8,
        SeparableMatrixU8,
        SeparableMatrixU8,
    ];
    let packed_422 = [
        Direct3Packed422,
        Direct3MagnitudePacked422,
        SeparableMatrixU8,
        SeparableMatrixU8,
    ];
    for (format, expected) in [
        (Format::P01010le, words),
        (Format::I42010le, words),
        (Format::I42210le, words),
        (Format::Y44410le, words),
        (Format::I42012le, words),
        (Format::Gray16Le, words),
        (Format::Gray16Be, words),
        (Format::Argb64, words),
        (Format::Rgba64Le, words),
        (Format::Yuy2, packed_422),
        (Format::Uyvy, packed_422),
        (Format::Rgb, bytes),
        (Format::Bgr, bytes),
        (Format::Xrgb, bytes),
        (Format::Ayuv, bytes),
    ] {
        for (kernel, expected) in [Gauss3, Sobel, Gauss7, Gauss9].into_iter().zip(expected) {
            for planes in [spec::Planes::Auto, spec::Planes::Luma] {
                let spec = FilterSpec {
                    planes,
                    ..of(kernel)
                };
                assert_eq!(
                    launched(format, &spec)[0],
                    expected,
                    "{format:?} {kernel:?}"
                );
            }
        }
        let embossed = launched(format, &of(Emboss))[0];
        let expected = match expected[0] {
            Direct3SmoothU8 => Direct3U8,
            any => any,
        };
        assert_eq!(embossed, expected, "{format:?}");
    }
}

#[test]
fn words_are_summed_up_in_the_canonical_order_alone() {
    // Fractions, whose sums depend on the order: separable ones go across first.
    let fractions = FilterSpec {
        sigma: 0.9,
        radius: 1,
        ..of(Gauss)
    };
    assert_eq!(kernels(Format::Gray16Le, &fractions), [SeparableU16R4]);
    assert_eq!(launched(Format::Yuy2, &fractions), [SeparablePacked422R4]);
    let full = FilterSpec {
        matrix: "0.1 0.2 0; 0.3 0.33 -1; 0 0.77 0.2".parse().ok(),
        ..of(Custom)
    };
    assert_eq!(kernels(Format::Gray16Le, &full), [Direct3U16]);
    let premultiplied = FilterSpec {
        alpha: spec::Alpha::Premultiply,
        ..of(Gauss3)
    };
    assert_eq!(kernels(Format::Rgba64Le, &premultiplied), [SeparableU16]);
    let between = FilterSpec {
        border: Border::Constant,
        border_value: 0.001,
        ..of(Gauss3)
    };
    assert_eq!(kernels(Format::Gray16Le, &between), [SeparableU16]);
}

#[test]
fn luma_and_chroma_of_packed_422_are_one_job_where_weights_across_alone_differ() {
    let radius = |radius| FilterSpec {
        radius,
        ..of(Gauss)
    };
    let (r4, r8, r16) = (
        SeparablePacked422R4,
        SeparablePacked422R8,
        SeparablePacked422R16,
    );
    for (taps, expected) in [(1, r4), (4, r4), (5, r8), (8, r8), (9, r16), (16, r16)] {
        assert_eq!(launched(Format::Uyvy, &radius(taps)), [expected], "{taps}");
    }
    assert_eq!(launched(Format::Yuy2, &radius(17)), [SeparableWideU8; 2]);
    // Of fractions alike, and of whole numbers where there are no matrix units for them.
    let wide = |matrix: &str| FilterSpec {
        matrix: matrix.parse().ok(),
        ..of(Custom)
    };
    let thirds = wide("0.1 0.7 0.3 0.7 0.3 0.7 0.33333333;");
    assert_eq!(launched(Format::Yuy2, &thirds), [r4]);
    assert_eq!(launched(Format::Yuy2, &of(Gauss9)), [SeparableMatrixU8]);
    assert_eq!(
        launched(Format::Yuy2, &of(Box5)),
        [SeparableMatrixDividedU8]
    );
    assert_eq!(launched_on((7, 5), Format::Yuy2, &of(Gauss9)), [r4]);
    assert_eq!(
        launched(Format::Yuy2, &wide("1 2 3 4 5 6 7 6 5 4 3 2 1;")),
        [r8]
    );
    // Not the same window, nor a window that is separable.
    assert_eq!(
        launched(Format::Uyvy, &of(Bilateral)),
        [BilateralTableSmallU8; 2]
    );
}

#[test]
fn kernels_of_bytes_are_not_asked_what_bytes_cannot_hold() {
    let premultiplied = FilterSpec {
        alpha: spec::Alpha::Premultiply,
        ..of(Gauss3)
    };
    assert_eq!(kernels(Format::Rgba, &premultiplied), [SeparableU8]);
    let constant = |kernel, border_value| FilterSpec {
        border: Border::Constant,
        border_value,
        ..of(kernel)
    };
    assert_eq!(
        kernels(Format::Gray8, &constant(Gauss3, 7.0)),
        [Direct3SmoothU8]
    );
    assert_eq!(
        kernels(Format::Gray8, &constant(Gauss3, 7.5)),
        [SeparableU8]
    );
    // What a sum with the zero level of 16 rounds off.
    assert_eq!(
        kernels(Format::Y444, &constant(Gauss3, 9e-7))[0],
        SeparableU8
    );
    // Above the zero level of 16.
    assert_eq!(
        kernels(Format::Y444, &constant(Gauss3, 250.0)),
        [SeparableU8, SeparableMatrixU8, SeparableMatrixU8]
    );
    assert_eq!(
        kernels(Format::Gray8, &constant(Bilateral, 0.5)),
        [BilateralTileU8]
    );
    assert_eq!(
        kernels(Format::Rgb, &constant(Bilateral, 0.5)),
        [BilateralNaiveU8]
    );
}

#[test]
fn full_kernels_have_no_separable_way() {
    let fractions = FilterSpec {
        matrix: "1 2 3; 4 5 6; 7 8 0.1234567".parse().ok(),
        ..of(Custom)
    };
    assert_eq!(kernels(Format::Gray8, &fractions), [ConvolveMatrixNearU8]);
    let custom_of_five = FilterSpec {
        matrix: "1 2 3 4 6; 7 8 10 11 12; 1 0 2 0 1".parse().ok(),
        ..of(Custom)
    };
    assert_eq!(
        kernels(Format::P01010le, &custom_of_five),
        [ConvolveMatrixU16; 2]
    );
    assert_eq!(launched(Format::Yuy2, &custom_of_five), [ConvolveTileU8; 2]);
    let naive = FilterSpec {
        method: spec::Method::Naive,
        ..of(Gauss3)
    };
    assert_eq!(kernels(Format::Gray8, &naive), [ConvolveNaiveU8]);
}

#[test]
fn what_is_not_filtered_is_copied_by_any_kernel() {
    // A matrix that changes nothing.
    let identity = FilterSpec {
        matrix: "1".parse().ok(),
        ..of(Custom)
    };
    assert_eq!(kernels(Format::Gray8, &identity), [ConvolveNaiveU8]);
}

#[test]
fn transforms_take_large_kernels_on_request_alone() {
    let fft = |kernel, radius| FilterSpec {
        method: spec::Method::Fft,
        radius,
        ..of(kernel)
    };
    assert_eq!(kernels(Format::Gray8, &fft(Gauss, 24)), [ConvolveFft]);
    assert_eq!(kernels(Format::I420, &fft(Box3, 0)), [ConvolveFft; 3]);
    assert_eq!(kernels(Format::P01010le, &fft(Emboss, 0)), [ConvolveFft; 2]);
    let automatic = kernels(
        Format::Gray8,
        &FilterSpec {
            radius: 24,
            ..of(Gauss)
        },
    );
    assert_eq!(automatic, [SeparableWideU8]);
}

#[test]
fn transforms_are_refused_by_name() {
    gst::init().unwrap();
    let refusal = |format, spec: FilterSpec| {
        let info = gst_video::VideoInfo::builder(format, 64, 48).build();
        let layout = Arc::new(Layout::new(&info.unwrap()).unwrap());
        let spec = FilterSpec {
            method: spec::Method::Fft,
            ..spec
        };
        Plan::new(&spec, &layout, &ABILITIES)
            .unwrap_err()
            .to_string()
    };
    let wide = FilterSpec {
        radius: 25,
        ..of(Gauss)
    };
    assert_eq!(
        refusal(Format::Gray8, wide),
        "method=fft cannot compute kernel=gauss with more than 49 taps across or down on the GPU; \
         possible are auto, separable, tile, naive"
    );
    let premultiplied = FilterSpec {
        alpha: spec::Alpha::Premultiply,
        ..of(Gauss9)
    };
    let text = refusal(Format::Rgba, premultiplied);
    assert!(
        text.contains("kernel=gauss9 with alpha=premultiply on the GPU"),
        "{text}"
    );
    let text = refusal(Format::Gray8, of(Sobel));
    assert!(
        text.contains("kernel=sobel with a root of two sums on the GPU"),
        "{text}"
    );
    let strong = FilterSpec {
        divisor: 0.3,
        ..of(Gauss9)
    };
    let text = refusal(Format::Gray16Le, strong);
    assert!(
        text.contains("weights that are too large for float32"),
        "{text}"
    );
    assert!(
        refusal(Format::Gray8, of(Bilateral))
            .starts_with("method=fft cannot compute kernel=bilateral on the GPU")
    );
}
