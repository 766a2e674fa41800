//! What must hold between pictures, whatever the definition says: constants stay, impulses move
//! as a correlation moves them, and the format of a picture does not change what is seen.

use gst_video::VideoFormat;
use gstcudaconv::filter::spec::{Alpha, Border, Kernel, Planes};
use gstcudaconv::filter::{FilterSpec, Role};

use crate::support::*;

fn spec(kernel: Kernel) -> FilterSpec {
    FilterSpec {
        kernel,
        radius: 3,
        sigma_space: 2.0,
        sigma_color: 30.0,
        alpha: Alpha::Filter,
        ..FilterSpec::default()
    }
}

/// Kernels whose coefficients sum to their divisor.
const NORMALISED: [Kernel; 14] = [
    Kernel::Identity,
    Kernel::Box3,
    Kernel::Box5,
    Kernel::Box7,
    Kernel::Box,
    Kernel::Gauss3,
    Kernel::Gauss5,
    Kernel::Gauss7,
    Kernel::Gauss9,
    Kernel::Gauss,
    Kernel::Sharpen,
    Kernel::Unsharp,
    Kernel::Emboss,
    Kernel::Bilateral,
];

fn assert_constants_stay(spec: &FilterSpec, format: VideoFormat, size: (u32, u32)) {
    let layout = layout(format, size.0, size.1);
    let plan = plan(spec, &layout);
    for value in [0, 1, 16, 127, 128, 235, 254, 255, 1023, 65535] {
        let value = std::cmp::min(value, layout.max_code());
        let flat = Picture::new(&layout, Placement::Tight, |_, _, _| value);
        let result = run(&plan, &flat, Placement::Odd, false);
        for (_, group, channel) in components(&layout) {
            let codes = result.codes(group, channel);
            let same = codes.iter().all(|&code| code == value);
            assert!(same, "{format:?} {value} {spec:?}: {codes:?}");
        }
    }
}

#[test]
fn constant_pictures_stay_constant_up_to_the_corners() {
    let formats = formats();
    let borders = [
        Border::Replicate,
        Border::Reflect,
        Border::Reflect101,
        Border::Wrap,
    ];
    for (k, kernel) in NORMALISED.into_iter().enumerate() {
        for (f, &format) in formats.iter().enumerate() {
            let border = borders[(k + f) % borders.len()];
            let spec = FilterSpec {
                border,
                ..spec(kernel)
            };
            assert_constants_stay(&spec, format, (33, 17));
            assert_constants_stay(&spec, format, (1, 1));
        }
    }
}

#[test]
fn constants_stay_at_every_size_and_sigma() {
    let deep = [
        VideoFormat::Gray8,
        VideoFormat::Gray16Le,
        VideoFormat::I42010le,
    ];
    for format in deep {
        for (radius, sigma) in [(0, 0.05), (0, 0.6), (9, 0.0), (32, 100.0), (20, 6.5)] {
            let gauss = FilterSpec {
                radius,
                sigma,
                ..spec(Kernel::Gauss)
            };
            assert_constants_stay(&gauss, format, (33, 17));
            let unsharp = FilterSpec {
                amount: 2.0,
                kernel: Kernel::Unsharp,
                ..gauss.clone()
            };
            assert_constants_stay(&unsharp, format, (9, 7));
            let bilateral = FilterSpec {
                sigma_space: sigma,
                kernel: Kernel::Bilateral,
                radius: radius.min(9),
                ..gauss
            };
            assert_constants_stay(&bilateral, format, (9, 7));
        }
        for matrix in [
            "0.3 0.3 0.3;",
            "1 2 3 4 5 6 7 8 9",
            "0.111 0.111 0.111;",
            "0.1 -7 0.77;",
        ] {
            let matrix = Some(matrix.parse().unwrap());
            let custom = FilterSpec {
                matrix,
                ..spec(Kernel::Custom)
            };
            assert_constants_stay(&custom, format, (33, 17));
        }
    }
}

#[test]
fn an_impulse_moves_by_one_pixel_against_the_coefficient() {
    // A lone coefficient above and left of the middle takes every pixel from its upper left
    // neighbour: the picture moves down and right.
    let cases = [
        ("1 0 0; 0 0 0; 0 0 0", (1, 1)),
        ("0 0 0; 0 0 0; 0 1 0", (0, -1)),
        ("1 0 0;", (1, 0)),
        ("0 0 0 0 1;", (-2, 0)),
        ("1;0;0", (0, 1)),
        ("0;1;0", (0, 0)),
    ];
    for format in formats() {
        let layout = layout(format, 33, 17);
        let max = layout.max_code();
        // Away from the edge also on the grid of chroma.
        let impulse = |x, y| (x, y) == (10, 5);
        let input = Picture::new(&layout, Placement::Odd, |_, x, y| {
            if impulse(x, y) { max } else { max / 2 }
        });
        for (matrix, (dx, dy)) in cases {
            let matrix = Some(matrix.parse().unwrap());
            let spec = FilterSpec {
                matrix,
                ..spec(Kernel::Custom)
            };
            let result = run(&plan(&spec, &layout), &input, Placement::Tight, false);
            for (_, group, channel) in components(&layout) {
                let width = layout.groups[group].width as i32;
                for (index, code) in result.codes(group, channel).into_iter().enumerate() {
                    let (x, y) = (index as i32 % width - dx, index as i32 / width - dy);
                    let expected = if (x, y) == (10, 5) { max } else { max / 2 };
                    assert_eq!(code, expected, "{format:?} {spec:?} {index}");
                }
            }
        }
    }
}

#[test]
fn nine_different_weights_are_neither_mirrored_nor_transposed() {
    let layout = layout(VideoFormat::Gray8, 5, 5);
    let input = Picture::new(&layout, Placement::Tight, |_, x, y| {
        u32::from((x, y) == (2, 2))
    });
    let matrix = Some("1 2 3; 4 5 6; 7 8 9".parse().unwrap());
    let spec = FilterSpec {
        matrix,
        divisor: 1.0,
        ..spec(Kernel::Custom)
    };
    let result = run(&plan(&spec, &layout), &input, Placement::Tight, false);
    // The pixel left of the impulse sees it on its right, under the 6.
    let expected = [
        [0, 0, 0, 0, 0],
        [0, 9, 8, 7, 0],
        [0, 6, 5, 4, 0],
        [0, 3, 2, 1, 0],
        [0, 0, 0, 0, 0],
    ];
    assert_eq!(result.codes(0, 0), expected.concat());
}

/// The scene of one format, filtered; a list of components.
fn filtered(spec: &FilterSpec, format: VideoFormat) -> Vec<Vec<u32>> {
    let layout = layout(format, 35, 18);
    let input = Picture::new(&layout, Placement::Aligned, scene(layout.depth));
    let result = run(&plan(spec, &layout), &input, Placement::Odd, false);
    let channels = components(&layout).into_iter();
    channels
        .map(|(_, group, channel)| result.codes(group, channel))
        .collect()
}

#[test]
fn the_order_of_bytes_does_not_change_the_picture() {
    use VideoFormat as F;
    // Formats with the same components on the same grids. Alpha is left out.
    let families: [&[VideoFormat]; 6] = [
        &[
            F::Rgb,
            F::Bgr,
            F::Rgbx,
            F::Bgrx,
            F::Xrgb,
            F::Xbgr,
            F::Rgba,
            F::Bgra,
            F::Argb,
            F::Abgr,
            F::Rgbp,
            F::Gbr,
        ],
        &[F::I420, F::Yv12, F::Nv12, F::Nv21, F::A420],
        &[F::Y42b, F::Yuy2, F::Uyvy, F::Nv16],
        &[F::Y444, F::Ayuv],
        &[F::I42010le, F::P01010le],
        &[F::Argb64, F::Rgba64Le],
    ];
    for kernel in kernels() {
        let matrix = Some("3 -1 4; 1 -5 9; 2 6 -7".parse().unwrap());
        let spec = FilterSpec {
            matrix,
            ..spec(kernel)
        };
        for family in families {
            let colours = |format| {
                let mut components = filtered(&spec, format);
                components.truncate(3);
                components
            };
            let first = colours(family[0]);
            for &format in &family[1..] {
                let other = colours(format);
                if kernel == Kernel::Bilateral {
                    let mut agreement = Agreement::default();
                    for (a, b) in first.iter().zip(&other) {
                        agreement.check(b, a, 8, false, &format!("{format:?}"));
                    }
                    agreement.finish();
                } else {
                    assert!(
                        first == other,
                        "{kernel:?}: {format:?} is not {:?}",
                        family[0]
                    );
                }
            }
        }
        // Both byte orders, and luma of any sampling.
        assert!(
            filtered(&spec, F::Gray16Le) == filtered(&spec, F::Gray16Be),
            "{kernel:?}"
        );
        if kernel != Kernel::Bilateral {
            let luma = |format| filtered(&spec, format).swap_remove(0);
            assert!(
                luma(F::I420) == luma(F::Y444) && luma(F::Y42b) == luma(F::Y444),
                "{kernel:?}"
            );
        }
    }
}

/// Full scale of RGB to limited-range BT.601, unrounded.
fn to_yuv([r, g, b]: [f64; 3]) -> [f64; 3] {
    let luma = 0.299 * r + 0.587 * g + 0.114 * b;
    [
        16.0 + luma * 219.0 / 255.0,
        128.0 + (b - luma) / 1.772 * 224.0 / 255.0,
        128.0 + (r - luma) / 1.402 * 224.0 / 255.0,
    ]
}

#[test]
fn a_linear_kernel_gives_the_same_picture_in_rgb_and_in_yuv() {
    let rgb = layout(VideoFormat::Rgb, 33, 17);
    let yuv = layout(VideoFormat::Y444, 33, 17);
    // Mild contrast, so that results need no clamping.
    let colour =
        |c: usize, x: usize, y: usize| 90 + (hash((c + 3 * x + 200 * y) as u64) % 40) as u32;
    let pixel = |x, y| to_yuv([0, 1, 2].map(|c| f64::from(colour(c, x, y))));
    let rgb_input = Picture::new(&rgb, Placement::Tight, colour);
    let yuv_input = Picture::new(&yuv, Placement::Tight, |c, x, y| {
        pixel(x, y)[c].round() as u32
    });
    // The border is black in both, which tests the zero levels.
    for (kernel, magnitudes) in [
        (Kernel::Gauss5, 1.0),
        (Kernel::Emboss, 9.0),
        (Kernel::Sharpen, 9.0),
    ] {
        let spec = FilterSpec {
            border: Border::Constant,
            planes: Planes::All,
            ..spec(kernel)
        };
        let in_rgb = run(&plan(&spec, &rgb), &rgb_input, Placement::Tight, false);
        let in_yuv = run(&plan(&spec, &yuv), &yuv_input, Placement::Tight, false);
        let rgb_codes = [0, 1, 2].map(|c| in_rgb.codes(0, c));
        let yuv_codes = [0, 1, 2].map(|c| in_yuv.codes(c, 0));
        let mut compared = 0;
        for index in 0..33 * 17 {
            let colours = [0, 1, 2].map(|c| rgb_codes[c][index]);
            if colours.iter().any(|&code| code == 0 || code == 255) {
                continue;
            }
            let expected = to_yuv(colours.map(f64::from));
            for c in 0..3 {
                // Half a code value of rounding at the input times the kernel, at the output,
                // and at the colours that are compared.
                let bound = 0.5 * magnitudes + 0.5 + 0.51;
                let distance = (f64::from(yuv_codes[c][index]) - expected[c]).abs();
                assert!(
                    distance <= bound,
                    "{kernel:?} sample {index} component {c}: {distance}"
                );
            }
            compared += 1;
        }
        assert!(compared > 300, "{kernel:?}: {compared}");
    }
}

#[test]
fn a_transposed_kernel_on_a_transposed_picture_is_the_transposed_result() {
    let (wide, tall) = (
        layout(VideoFormat::Gray8, 37, 14),
        layout(VideoFormat::Gray8, 14, 37),
    );
    let code = scene(8);
    let upright = Picture::new(&wide, Placement::Tight, &code);
    let turned = Picture::new(&tall, Placement::Tight, |c, x, y| code(c, y, x));
    let custom = |matrix: &str| FilterSpec {
        matrix: Some(matrix.parse().unwrap()),
        border: Border::Wrap,
        ..spec(Kernel::Custom)
    };
    let pairs = [
        (
            custom("1 2 3; 4 5 6; 7 8 -9"),
            custom("1 4 7; 2 5 8; 3 6 -9"),
        ),
        (custom("1 -2 4 8 3;"), custom("1;-2;4;8;3")),
        (spec(Kernel::SobelX), spec(Kernel::SobelY)),
        (spec(Kernel::Prewitt), spec(Kernel::Prewitt)),
    ];
    for (kernel, transposed) in pairs {
        let a = run(&plan(&kernel, &wide), &upright, Placement::Tight, false).codes(0, 0);
        let b = run(&plan(&transposed, &tall), &turned, Placement::Tight, false).codes(0, 0);
        for (index, code) in a.into_iter().enumerate() {
            let (x, y) = (index % 37, index / 37);
            assert_eq!(code, b[x * 14 + y], "{kernel:?} ({x}, {y})");
        }
    }
}

#[test]
fn low_bits_and_padding_pass_an_identity() {
    // Six bits below P010's code values, the x of RGBx, the odd luma sample of YUY2: all noise.
    for format in formats() {
        for (width, height) in [(33, 17), (1, 1), (32, 17), (33, 16), (322, 241)] {
            let layout = layout(format, width, height);
            let input = Picture::noise(&layout, Placement::Aligned);
            for border in [Border::Replicate, Border::Constant] {
                let spec = FilterSpec {
                    border,
                    ..spec(Kernel::Identity)
                };
                let result = run(&plan(&spec, &layout), &input, Placement::Odd, false);
                assert!(input.active_bytes() == result.active_bytes(), "{format:?}");
            }
        }
    }
    let rgbx = layout(VideoFormat::Rgbx, 33, 17);
    let input = Picture::noise(&rgbx, Placement::Aligned);
    let result = run(
        &plan(&spec(Kernel::Gauss9), &rgbx),
        &input,
        Placement::Odd,
        false,
    );
    let padding = rgbx.groups[0]
        .channels
        .iter()
        .position(|c| c.role == Role::Padding);
    assert_eq!(
        input.codes(0, padding.unwrap()),
        result.codes(0, padding.unwrap())
    );
}
