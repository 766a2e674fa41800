//! Correlation by the Fourier transform: against the definition, which the canonical bytes are as near to.

use gst_video::VideoFormat;
use gstcudaconv::filter::plan::Algorithm;
use gstcudaconv::filter::spec::{Alpha, Border, Kernel, Matrix, Method, Planes};
use gstcudaconv::filter::{FilterSpec, Plan, reference};

use super::support::*;

fn fft(kernel: Kernel) -> FilterSpec {
    FilterSpec {
        kernel,
        method: Method::Fft,
        ..FilterSpec::default()
    }
}

/// Coefficients without any symmetry, whole numbers or fractions.
fn custom(width: usize, height: usize, whole: bool) -> FilterSpec {
    let coefficient = |index: usize| {
        let random = (hash(index as u64 + 77) % 2001) as f32;
        if whole {
            (random % 21.0) - 4.0
        } else {
            random / 1000.0 - 0.3
        }
    };
    FilterSpec {
        matrix: Some(Matrix {
            width,
            height,
            coefficients: (0..width * height).map(coefficient).collect(),
        }),
        ..fft(Kernel::Custom)
    }
}

fn check_fft(spec: &FilterSpec, input: &Picture, interlaced: bool, agreement: &mut Agreement) {
    let expected = reference::filter(spec, &input.layout, &input.planes(), interlaced).unwrap();
    let made = plan(spec, &input.layout);
    assert_eq!(made.algorithm, Algorithm::Fft);
    check_auto(spec, input, interlaced, &expected, agreement);
}

#[test]
fn every_format_and_border_is_that_of_the_definition() {
    let mut agreement = Agreement::default();
    for format in formats() {
        for (width, height, interlaced) in [
            (33, 17, false),
            (70, 41, true),
            (1, 1, false),
            (150, 9, false),
        ] {
            let layout = layout(format, width, height);
            let input = Picture::new(&layout, Placement::Odd, scene(layout.depth));
            for (index, border) in BORDERS.into_iter().enumerate() {
                let spec = FilterSpec {
                    border,
                    border_value: 240.0,
                    planes: Planes::All,
                    ..custom(9 + 2 * index, 5, index % 2 == 0)
                };
                check_fft(&spec, &input, interlaced, &mut agreement);
            }
        }
    }
    println!("{agreement}");
    agreement.finish();
}

#[test]
fn sizes_from_one_tap_to_the_largest_are_those_of_the_definition() {
    let mut agreement = Agreement::default();
    for format in [
        VideoFormat::Gray8,
        VideoFormat::I42010le,
        VideoFormat::Gray16Be,
    ] {
        for (width, height) in [(3, 2), (131, 77), (300, 5)] {
            let layout = layout(format, width, height);
            let input = Picture::new(&layout, Placement::Aligned, scene(layout.depth));
            for (columns, rows) in [
                (1, 1),
                (3, 3),
                (31, 1),
                (1, 31),
                (25, 25),
                (31, 31),
                (7, 29),
            ] {
                for whole in [false, true] {
                    let spec = FilterSpec {
                        border: Border::Reflect101,
                        ..custom(columns, rows, whole)
                    };
                    check_fft(&spec, &input, false, &mut agreement);
                }
            }
        }
    }
    println!("{agreement}");
    agreement.finish();
}

/// All kernels that have a spectrum, with separable ones and magnitudes.
#[test]
fn presets_are_those_of_the_definition() {
    let mut agreement = Agreement::default();
    for format in [VideoFormat::Rgba, VideoFormat::Yuy2, VideoFormat::P01010le] {
        let layout = layout(format, 83, 47);
        let input = Picture::new(&layout, Placement::Odd, scene(layout.depth));
        for kernel in kernels() {
            for radius in [0, 11, 32] {
                let spec = FilterSpec {
                    radius,
                    bias: 3.25,
                    matrix: custom(5, 3, true).matrix,
                    planes: Planes::All,
                    alpha: Alpha::Filter,
                    ..fft(kernel)
                };
                if Plan::new(&spec, &layout, engine().abilities()).is_ok() {
                    check_fft(&spec, &input, false, &mut agreement);
                } else {
                    let magnitudes = [Kernel::Sobel, Kernel::Scharr, Kernel::Prewitt];
                    let on_gpu = engine().backend() != "cpu";
                    let beyond = on_gpu && (radius == 32 || magnitudes.contains(&kernel));
                    assert!(kernel == Kernel::Bilateral || beyond, "{kernel:?} {radius}");
                }
            }
        }
    }
    println!("{agreement}");
    agreement.finish();
}

/// Colours go over into places where all alpha is 0, next to none and full.
#[test]
fn premultiplied_colours_are_those_of_the_definition() {
    let mut agreement = Agreement::default();
    for format in [
        VideoFormat::Rgba,
        VideoFormat::Ayuv,
        VideoFormat::Argb64,
        VideoFormat::A420,
    ] {
        let layout = layout(format, 130, 70);
        let colour = scene(layout.depth);
        let input = Picture::new(&layout, Placement::Odd, |component, x, y| match component {
            3 if x < 40 => 0,
            3 if x < 70 => colour(3, x, y) % 2,
            component => colour(component, x, y),
        });
        for (kernel, radius) in [
            (Kernel::Box, 15),
            (Kernel::Gauss, 32),
            (Kernel::Gauss3, 0),
            (Kernel::Sobel, 0),
        ] {
            let spec = FilterSpec {
                radius,
                alpha: Alpha::Premultiply,
                ..fft(kernel)
            };
            if Plan::new(&spec, &layout, engine().abilities()).is_ok() {
                check_fft(&spec, &input, false, &mut agreement);
            } else {
                let no_chroma_alpha = format == VideoFormat::A420;
                assert!(no_chroma_alpha || engine().backend() != "cpu");
            }
        }
    }
    println!("{agreement}");
    if engine().backend() == "cpu" {
        agreement.finish();
    }
}

#[test]
fn a_flat_picture_stays_flat() {
    for format in [VideoFormat::Gray8, VideoFormat::Gray16Le] {
        let layout = layout(format, 99, 50);
        for code in [0, 1, layout.max_code() / 2, layout.max_code()] {
            let input = Picture::new(&layout, Placement::Tight, |_, _, _| code);
            let spec = custom(25, 25, true);
            let result = run(&plan(&spec, &layout), &input, Placement::Odd, false);
            assert!(
                result.codes(0, 0).iter().all(|&found| found == code),
                "{format:?} {code}"
            );
        }
    }
}

#[test]
fn bilaterals_are_refused() {
    let layout = layout(VideoFormat::Gray8, 8, 8);
    let plan = Plan::new(&fft(Kernel::Bilateral), &layout, engine().abilities());
    let text = plan.unwrap_err().to_string();
    assert!(
        text.starts_with("method=fft cannot compute kernel=bilateral on the "),
        "{text}"
    );
}
