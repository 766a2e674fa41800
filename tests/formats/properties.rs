//! Every property that changes pixels, on the formats that it concerns, against the definition.

use gst_video::VideoFormat;
use gstcudaconv::filter::layout::Role;
use gstcudaconv::filter::spec::{Alpha, Border, Distance, Kernel, Planes, Window};
use gstcudaconv::filter::{FilterSpec, Layout};

use crate::support::*;

fn spec(kernel: Kernel) -> FilterSpec {
    FilterSpec {
        kernel,
        radius: 2,
        sigma_space: 1.5,
        sigma_color: 40.0,
        ..FilterSpec::default()
    }
}

/// Checks every spec on a scene of every format that `concerns` takes.
fn check_all(specs: &[FilterSpec], concerns: impl Fn(&Layout) -> bool) {
    let mut agreement = Agreement::default();
    for format in formats() {
        let layout = layout(format, 33, 17);
        if !concerns(&layout) {
            continue;
        }
        let input = Picture::new(&layout, Placement::Odd, scene(layout.depth));
        for spec in specs {
            check_with_reference(spec, &input, false, &mut agreement);
        }
    }
    agreement.finish();
}

fn has(layout: &Layout, role: Role) -> bool {
    let mut channels = layout.groups.iter().flat_map(|group| &group.channels);
    channels.any(|channel| channel.role == role)
}

#[test]
fn planes_choose_what_is_filtered() {
    let mut specs = Vec::new();
    for kernel in [
        Kernel::Gauss5,
        Kernel::Laplacian,
        Kernel::Sobel,
        Kernel::Bilateral,
    ] {
        for planes in [Planes::All, Planes::Luma] {
            specs.push(FilterSpec {
                planes,
                ..spec(kernel)
            });
        }
    }
    check_all(&specs, |_| true);
}

#[test]
fn chroma_is_neutral_or_untouched_and_never_zero() {
    for format in [
        VideoFormat::I420,
        VideoFormat::P01010le,
        VideoFormat::Yuy2,
        VideoFormat::Ayuv,
    ] {
        let layout = layout(format, 33, 17);
        let flat = Picture::new(&layout, Placement::Tight, |component, _, _| {
            [60, 90, 170, 128][component] << (layout.depth - 8)
        });
        for (planes, chroma) in [(Planes::Auto, [128, 128]), (Planes::Luma, [90, 170])] {
            for kernel in [Kernel::Sobel, Kernel::Laplacian, Kernel::ScharrY] {
                let spec = FilterSpec {
                    planes,
                    ..spec(kernel)
                };
                let result = run(&plan(&spec, &layout), &flat, Placement::Odd, false);
                let expected = [16, chroma[0], chroma[1], 128];
                for (component, group, channel) in components(&layout) {
                    let codes = result.codes(group, channel);
                    let expected = expected[component] << (layout.depth - 8);
                    assert!(
                        codes.iter().all(|&code| code == expected),
                        "{format:?} {spec:?}"
                    );
                }
            }
        }
    }
}

#[test]
fn alpha_is_copied_filtered_or_premultiplied() {
    let mut specs = Vec::new();
    for kernel in [
        Kernel::Gauss5,
        Kernel::Box3,
        Kernel::Gauss,
        Kernel::Bilateral,
        Kernel::Identity,
    ] {
        for alpha in [Alpha::Copy, Alpha::Filter, Alpha::Premultiply] {
            for border in [Border::Reflect, Border::Constant] {
                let spec = FilterSpec {
                    alpha,
                    border,
                    border_value: 90.0,
                    ..spec(kernel)
                };
                specs.push(spec);
            }
        }
    }
    check_all(&specs, |layout| {
        // Chroma of A420 has no alpha of its own: `Plan::new` refuses.
        has(layout, Role::Alpha) && layout.format != "A420"
    });
    let filtered: Vec<_> = specs
        .into_iter()
        .filter(|s| s.alpha == Alpha::Filter)
        .collect();
    check_all(&filtered, |layout| layout.format == "A420");
}

#[test]
fn premultiplied_edges_are_exact_at_8_bits() {
    // Negative coefficients make the filtered alpha small or negative; at 16 bits such a quotient
    // is beyond float32.
    let mut specs = Vec::new();
    for kernel in [
        Kernel::Emboss,
        Kernel::Sharpen,
        Kernel::Sobel,
        Kernel::PrewittX,
    ] {
        specs.push(FilterSpec {
            alpha: Alpha::Premultiply,
            bias: 3.0,
            ..spec(kernel)
        });
    }
    check_all(&specs, |layout| {
        has(layout, Role::Alpha) && layout.format != "A420" && layout.depth == 8
    });
}

#[test]
fn transparent_pixels_lend_no_colour() {
    // Red and opaque on the left, green and transparent on the right.
    let layout = layout(VideoFormat::Rgba, 33, 17);
    let input = Picture::new(
        &layout,
        Placement::Tight,
        |component, x, _| match component {
            0 => {
                if x < 16 {
                    200
                } else {
                    0
                }
            }
            1 => {
                if x < 16 {
                    0
                } else {
                    255
                }
            }
            2 => 0,
            _ => {
                if x < 16 {
                    255
                } else {
                    0
                }
            }
        },
    );
    for kernel in [Kernel::Gauss9, Kernel::Box7, Kernel::Bilateral] {
        let spec = FilterSpec {
            alpha: Alpha::Premultiply,
            ..spec(kernel)
        };
        let result = run(&plan(&spec, &layout), &input, Placement::Odd, false);
        assert!(
            result.codes(0, 1).iter().all(|&green| green == 0),
            "{kernel:?}"
        );
        let red = result.codes(0, 0);
        assert!((0..16).all(|x| red[x] == 200), "{kernel:?}");
    }
}

#[test]
fn divisors_and_biases_are_applied() {
    let mut specs = Vec::new();
    for kernel in [
        Kernel::Identity,
        Kernel::Gauss3,
        Kernel::Gauss,
        Kernel::Unsharp,
        Kernel::SobelX,
        Kernel::Sobel,
        Kernel::Emboss,
        Kernel::Bilateral,
    ] {
        for (divisor, bias) in [
            (0.0, 25.0),
            (3.0, 0.0),
            (-2.0, 128.0),
            (0.7, -10.25),
            (1.0, 1e6),
        ] {
            specs.push(FilterSpec {
                divisor,
                bias,
                ..spec(kernel)
            });
        }
    }
    check_all(&specs, |layout| {
        [
            "I420",
            "P010_10LE",
            "GRAY8",
            "GRAY16_BE",
            "YUY2",
            "RGBx",
            "RGBA",
            "GBR",
        ]
        .contains(&layout.format)
    });
}

#[test]
fn the_value_beyond_the_edge_is_above_the_zero_level() {
    let mut specs = Vec::new();
    for kernel in [
        Kernel::Gauss9,
        Kernel::Emboss,
        Kernel::Sobel,
        Kernel::Unsharp,
        Kernel::Bilateral,
    ] {
        for border_value in [0.0, 12.5, 255.0] {
            let border = Border::Constant;
            specs.push(FilterSpec {
                border,
                border_value,
                alpha: Alpha::Filter,
                ..spec(kernel)
            });
        }
    }
    check_all(&specs, |_| true);
}

#[test]
fn the_bilateral_has_windows_distances_and_sizes() {
    let mut specs = Vec::new();
    for window in [Window::Circle, Window::Square] {
        for distance in [Distance::L1, Distance::L2] {
            for (radius, sigma_space, sigma_color) in [
                (1, 0.4, 12.0),
                (3, 2.0, 60.0),
                (0, 2.2, 255.0),
                (5, 100.0, 5.0),
                (2, 1e-3, 1e-3),
            ] {
                specs.push(FilterSpec {
                    window,
                    distance,
                    radius,
                    sigma_space,
                    sigma_color,
                    ..spec(Kernel::Bilateral)
                });
            }
        }
    }
    check_all(&specs, |layout| {
        [
            "GRAY8",
            "NV12",
            "Y42B",
            "RGB",
            "BGRA",
            "GBR",
            "I420_10LE",
            "ARGB64",
            "UYVY",
        ]
        .contains(&layout.format)
    });
}

#[test]
fn sizes_larger_than_the_picture_are_no_obstacle() {
    let mut agreement = Agreement::default();
    for format in [
        VideoFormat::Gray8,
        VideoFormat::Nv12,
        VideoFormat::Rgb,
        VideoFormat::Yuy2,
    ] {
        for (width, height) in [(1, 1), (2, 2), (3, 3), (1, 48), (64, 1)] {
            let layout = layout(format, width, height);
            let input = Picture::new(&layout, Placement::Aligned, scene(8));
            for border in BORDERS {
                for kernel in [
                    Kernel::Box,
                    Kernel::Gauss,
                    Kernel::Unsharp,
                    Kernel::Bilateral,
                ] {
                    let spec = FilterSpec {
                        radius: 20,
                        border,
                        sigma: 7.0,
                        ..spec(kernel)
                    };
                    check_with_reference(&spec, &input, false, &mut agreement);
                }
            }
        }
    }
    agreement.finish();
}

#[test]
fn the_largest_sizes_agree() {
    let mut agreement = Agreement::default();
    let sizes = |kernel| FilterSpec {
        radius: 32,
        sigma: 12.0,
        sigma_space: 20.0,
        ..spec(kernel)
    };
    for format in [VideoFormat::Nv16, VideoFormat::Gray16Le, VideoFormat::Bgrx] {
        let layout = layout(format, 70, 40);
        let input = Picture::new(&layout, Placement::Tight, scene(layout.depth));
        for kernel in [Kernel::Box, Kernel::Gauss, Kernel::Bilateral] {
            check_with_reference(&sizes(kernel), &input, false, &mut agreement);
        }
    }
    let layout = layout(VideoFormat::Gray8, 70, 40);
    let input = Picture::new(&layout, Placement::Tight, scene(8));
    check_with_reference(&sizes(Kernel::Unsharp), &input, false, &mut agreement);
    let side = |n: i32| (0..31 * 31).map(move |i| ((i * n) % 17 - 8).to_string());
    let matrix = Some(side(7).collect::<Vec<_>>().join(" ").parse().unwrap());
    let custom = FilterSpec {
        matrix,
        bias: 90.0,
        divisor: 500.0,
        ..spec(Kernel::Custom)
    };
    check_with_reference(&custom, &input, false, &mut agreement);
    agreement.finish();
}

#[test]
fn fields_of_interlaced_frames_are_filtered_by_themselves() {
    let mut agreement = Agreement::default();
    for format in formats() {
        for (width, height) in [(33, 17), (2, 2), (1, 1)] {
            let layout = layout(format, width, height);
            let input = Picture::new(&layout, Placement::Odd, scene(layout.depth));
            for (kernel, border) in [
                (Kernel::Gauss5, Border::Reflect101),
                (Kernel::Emboss, Border::Wrap),
                (Kernel::Sobel, Border::Replicate),
                (Kernel::Bilateral, Border::Reflect),
                (Kernel::Unsharp, Border::Constant),
                (Kernel::Identity, Border::Replicate),
            ] {
                let spec = FilterSpec {
                    border,
                    ..spec(kernel)
                };
                check_with_reference(&spec, &input, true, &mut agreement);
            }
        }
        // Dark and bright lines in turn stay so.
        let layout = layout(format, 33, 17);
        let max = layout.max_code();
        let lines = Picture::new(&layout, Placement::Tight, |_, _, y| (y as u32 % 2) * max);
        for kernel in [Kernel::Gauss9, Kernel::Box7, Kernel::Bilateral] {
            let result = run(&plan(&spec(kernel), &layout), &lines, Placement::Odd, true);
            for (_, group, channel) in components(&layout) {
                let same = result.codes(group, channel) == lines.codes(group, channel);
                assert!(same, "{format:?} {kernel:?}");
            }
        }
    }
    agreement.finish();
}

#[test]
fn the_zero_level_follows_the_range() {
    let mut agreement = Agreement::default();
    for format in [
        VideoFormat::Gray8,
        VideoFormat::I420,
        VideoFormat::I42010le,
        VideoFormat::Rgb,
    ] {
        for colorimetry in ["2:4:5:1", "1:4:5:1"] {
            let layout = layout_of_range(format, colorimetry);
            let input = Picture::new(&layout, Placement::Odd, scene(layout.depth));
            for kernel in [
                Kernel::SobelY,
                Kernel::Scharr,
                Kernel::Emboss,
                Kernel::Gauss3,
            ] {
                let spec = FilterSpec {
                    border: Border::Constant,
                    divisor: 3.0,
                    ..spec(kernel)
                };
                check_with_reference(&spec, &input, false, &mut agreement);
            }
        }
    }
    agreement.finish();
    // No edge: black of the range.
    for (format, colorimetry, black) in [
        (VideoFormat::Gray8, "2:4:5:1", 16),
        (VideoFormat::Gray8, "1:4:5:1", 0),
        (VideoFormat::I42010le, "2:4:5:1", 64),
        (VideoFormat::I42010le, "1:4:5:1", 0),
    ] {
        let layout = layout_of_range(format, colorimetry);
        let flat = Picture::new(&layout, Placement::Tight, |_, _, _| 200);
        let result = run(
            &plan(&spec(Kernel::Sobel), &layout),
            &flat,
            Placement::Odd,
            false,
        );
        assert!(
            result.codes(0, 0).iter().all(|&code| code == black),
            "{format:?}"
        );
    }
}
