//! Every kernel, format, border and size: the GPU's bytes are the CPU's.

use gstcudaconv::filter::FilterSpec;
use gstcudaconv::filter::layout::supported_formats;
use gstcudaconv::filter::spec::{Alpha, Border, Distance, Kernel, Method, Planes, Window};

use crate::compare::{Frames, Tally, compare, compare_by};
use crate::support::{self, all_of, engines};

fn sizes() -> &'static [(u32, u32)] {
    match support::quick() {
        true => &[(33, 17), (1, 1)],
        false => &[
            (33, 17),
            (64, 48),
            (1, 1),
            (2, 2),
            (1, 40),
            (129, 3),
            (322, 241),
        ],
    }
}

fn specs(kernel: Kernel) -> Vec<FilterSpec> {
    let base = |matrix: Option<&str>| FilterSpec {
        kernel,
        matrix: matrix.map(|text| text.parse().expect("a matrix")),
        // Every kernel that has a size or a strength shows it.
        radius: match kernel {
            Kernel::Box | Kernel::Gauss | Kernel::Unsharp => 4,
            Kernel::Bilateral => 5,
            _ => 0,
        },
        amount: 1.7,
        border_value: 77.0,
        ..FilterSpec::default()
    };
    match kernel {
        Kernel::Custom => vec![
            base(Some("1 2 3; 4 5 6; 7 8 10")),
            base(Some("1 0 -3;")),
            base(Some("1; 5; 2;")),
            base(Some("0.25 -0.5 0.125 1 0.3; 0 0.7 0 0 -0.1; 1 1 0.9 1 1")),
        ],
        _ => vec![base(None)],
    }
}

/// Every format, border and size of `kernel`.
fn every_frame(kernel: Kernel) {
    let Some(engines) = engines() else { return };
    let mut tally = Tally::default();
    let bilateral = kernel == Kernel::Bilateral;
    for format in supported_formats() {
        for &(width, height) in sizes() {
            let layout = support::layout(format, width, height);
            for border in all_of::<Border>() {
                for spec in specs(kernel) {
                    let spec = FilterSpec { border, ..spec };
                    compare(
                        &mut tally,
                        &engines,
                        &spec,
                        &layout,
                        false,
                        bilateral.into(),
                    );
                }
            }
        }
    }
    tally.report(&format!("{kernel:?}"));
    // Of the bilateral fewer than one sample in a thousand may be off by one.
    assert!(tally.by_one * 1000 < tally.samples.max(1));
}

macro_rules! every_frame {
    ($($test:ident: $kernel:ident),* $(,)?) => {
        $(
            #[test]
            fn $test() {
                every_frame(Kernel::$kernel);
            }
        )*

        #[test]
        fn no_kernel_is_left_out() {
            gst::init().expect("GStreamer starts");
            assert_eq!(all_of::<Kernel>(), [$(Kernel::$kernel),*]);
        }
    };
}

every_frame! {
    identity: Identity, box3: Box3, box5: Box5, box7: Box7, box_of_radius_4: Box,
    gauss3: Gauss3, gauss5: Gauss5, gauss7: Gauss7, gauss9: Gauss9, gauss_of_radius_4: Gauss,
    sharpen: Sharpen, unsharp: Unsharp, emboss: Emboss, laplacian: Laplacian,
    sobel_x: SobelX, sobel_y: SobelY, sobel: Sobel,
    scharr_x: ScharrX, scharr_y: ScharrY, scharr: Scharr,
    prewitt_x: PrewittX, prewitt_y: PrewittY, prewitt: Prewitt,
    custom: Custom, bilateral: Bilateral,
}

#[test]
fn planes_alpha_bias_divisor_and_fields() {
    let Some(engines) = engines() else { return };
    let mut tally = Tally::default();
    for format in supported_formats() {
        let layout = support::layout(format, 33, 18);
        for kernel in [Kernel::Gauss5, Kernel::Sobel, Kernel::Emboss] {
            for planes in all_of::<Planes>() {
                for alpha in all_of::<Alpha>() {
                    for interlaced in [false, true] {
                        let spec = FilterSpec {
                            kernel,
                            planes,
                            alpha,
                            bias: 3.0,
                            divisor: 7.0,
                            border: Border::Constant,
                            border_value: 200.0,
                            ..FilterSpec::default()
                        };
                        // Formats without alpha refuse to premultiply.
                        let abilities = support::gpu_abilities();
                        if support::plan(&spec, Method::Auto, &layout, abilities).is_some() {
                            compare(&mut tally, &engines, &spec, &layout, interlaced, 0);
                        }
                    }
                }
            }
        }
    }
    tally.report("planes, alpha, fields");
}

#[test]
fn the_bilaterals_settings() {
    let Some(engines) = engines() else { return };
    let mut tally = Tally::default();
    let (width, height) = if support::quick() { (21, 18) } else { (40, 34) };
    for format in supported_formats() {
        let layout = support::layout(format, width, height);
        for window in all_of::<Window>() {
            for distance in all_of::<Distance>() {
                for (radius, sigma_color, alpha) in [
                    (1, 60.0, Alpha::Copy),
                    (7, 25.0, Alpha::Filter),
                    (12, 40.0, Alpha::Premultiply),
                ] {
                    let spec = FilterSpec {
                        kernel: Kernel::Bilateral,
                        radius,
                        sigma_space: 4.0,
                        sigma_color,
                        window,
                        distance,
                        alpha,
                        ..FilterSpec::default()
                    };
                    let abilities = support::gpu_abilities();
                    if support::plan(&spec, Method::Auto, &layout, abilities).is_some() {
                        compare(&mut tally, &engines, &spec, &layout, false, 1);
                    }
                }
            }
        }
    }
    tally.report("bilateral's settings");
    assert!(tally.by_one * 1000 < tally.samples.max(1));
}

#[test]
fn the_largest_kernels() {
    let Some(engines) = engines() else { return };
    let mut tally = Tally::default();
    let matrix = (0..31 * 31).map(|i| format!("{} ", (i * 37 % 101) as f32 / 64.0 - 0.7));
    let custom = FilterSpec {
        kernel: Kernel::Custom,
        matrix: Some(matrix.collect::<String>().parse().expect("a matrix")),
        ..FilterSpec::default()
    };
    let of_radius_32 = |kernel| FilterSpec {
        kernel,
        radius: 32,
        ..FilterSpec::default()
    };
    for format in [
        gst_video::VideoFormat::Gray8,
        gst_video::VideoFormat::Rgba,
        gst_video::VideoFormat::P01010le,
    ] {
        let larger = if support::quick() { (37, 34) } else { (97, 70) };
        for (width, height) in [(5, 3), larger] {
            let layout = support::layout(format, width, height);
            for border in all_of::<Border>() {
                for spec in [
                    custom.clone(),
                    of_radius_32(Kernel::Gauss),
                    of_radius_32(Kernel::Unsharp),
                    of_radius_32(Kernel::Box),
                ] {
                    let spec = FilterSpec { border, ..spec };
                    compare(&mut tally, &engines, &spec, &layout, false, 0);
                }
                let spec = FilterSpec {
                    border,
                    ..of_radius_32(Kernel::Bilateral)
                };
                compare(&mut tally, &engines, &spec, &layout, false, 1);
            }
        }
    }
    tally.report("largest kernels");
}

/// Kernels of low rank, by the sum of outer products that is asked for.
#[test]
fn sums_of_outer_products() {
    let Some(engines) = engines() else { return };
    // Whole numbers and fractions, at up to 12 bits and at 16.
    let mut tallies = [(); 3].map(|()| Tally::default());
    let disc = |x: i32, y: i32| i32::from(x * x + y * y <= 16);
    let disc: String = (-4..=4)
        .flat_map(|y| (-4..=4).map(move |x| format!("{} ", disc(x, y))))
        .collect();
    let waves = |x: i32, y: i32| {
        let (x, y) = (f64::from(x), f64::from(y));
        (2.0 + (0.3 * x + 0.2 * y).cos()) * (-(x * x + y * y) / 90.0).exp()
    };
    let waves: String = (-15..=15)
        .flat_map(|y| (-15..=15).map(move |x| format!("{} ", waves(x, y) as f32)))
        .collect();
    let custom = |matrix: &str| FilterSpec {
        matrix: Some(matrix.parse().expect("a matrix")),
        ..FilterSpec {
            kernel: Kernel::Custom,
            ..FilterSpec::default()
        }
    };
    let preset = |kernel, radius| FilterSpec {
        kernel,
        radius,
        ..FilterSpec::default()
    };
    let specs = [
        preset(Kernel::Laplacian, 0),
        preset(Kernel::Sharpen, 0),
        custom(&disc),
        preset(Kernel::Unsharp, 3),
        preset(Kernel::Unsharp, 32),
        custom(&waves),
    ];
    for (turn, format) in supported_formats().enumerate() {
        for &(width, height) in sizes() {
            let layout = support::layout(format, width, height);
            for (index, border) in all_of::<Border>().into_iter().enumerate() {
                for (number, spec) in specs.iter().enumerate() {
                    // The largest take nearly all the time, so each is done in a third of the cases.
                    let every = match (support::quick(), number) {
                        (true, _) => 8,
                        (false, 4..) => 3,
                        (false, _) => 1,
                    };
                    if (turn + index + number) % every != 0 {
                        continue;
                    }
                    let spec = FilterSpec {
                        border,
                        border_value: 77.0,
                        alpha: [Alpha::Copy, Alpha::Filter][(turn + index) % 2],
                        ..spec.clone()
                    };
                    let plan =
                        support::plan(&spec, Method::Separable, &layout, support::gpu_abilities());
                    let plan = plan.unwrap_or_else(|| panic!("{spec:?} of {format:?}"));
                    let tally = match (support::rounding(&plan), layout.depth) {
                        (0, _) => &mut tallies[0],
                        (_, ..=12) => &mut tallies[1],
                        _ => &mut tallies[2],
                    };
                    let frames = Frames {
                        methods: &[Method::Separable],
                        interlaced: (turn + number) % 3 == 0,
                        tolerance: 0,
                    };
                    compare_by(tally, &engines, &spec, &layout, frames);
                }
            }
        }
    }
    for (tally, name, most_in_thousand) in [
        (&tallies[0], "sums of whole products", 0),
        (&tallies[1], "sums of products", 1),
        (&tallies[2], "sums of products, 16 bits", 20),
    ] {
        tally.report(name);
        assert!(tally.by_one * 1000 <= tally.samples * most_in_thousand);
    }
}

#[test]
fn separable_kernels_of_large_pictures() {
    let Some(engines) = engines() else { return };
    let mut tally = Tally::default();
    let kernels = [Kernel::Gauss5, Kernel::Gauss7, Kernel::Gauss9];
    for (format, width, height) in [
        (gst_video::VideoFormat::Gray8, 2561, 643),
        (gst_video::VideoFormat::Rgba, 645, 641),
        (gst_video::VideoFormat::Rgb, 853, 647),
        (gst_video::VideoFormat::Nv12, 1798, 702),
        (gst_video::VideoFormat::I420, 1801, 703),
        (gst_video::VideoFormat::Gbr, 1027, 450),
    ] {
        // Under the sanitizer each of these frames takes seconds.
        let few = [gst_video::VideoFormat::Gray8, gst_video::VideoFormat::Rgba];
        if support::quick() && !few.contains(&format) {
            continue;
        }
        let layout = support::layout(format, width, height);
        for (turn, border) in all_of::<Border>().into_iter().enumerate() {
            for (index, kernel) in kernels.into_iter().enumerate() {
                if support::quick() && (turn % 2 == 1 || index != turn / 2) {
                    continue;
                }
                let spec = FilterSpec {
                    kernel,
                    border,
                    border_value: 201.0,
                    ..FilterSpec::default()
                };
                let frames = Frames {
                    methods: &[Method::Auto],
                    interlaced: index == 1,
                    tolerance: 0,
                };
                compare_by(&mut tally, &engines, &spec, &layout, frames);
            }
        }
    }
    tally.report("large pictures");
}

/// Whole numbers as far as the matrix units take them, with all that becomes of their sums.
#[test]
fn whole_numbers_of_every_reach() {
    let Some(engines) = engines() else { return };
    let sizes: &[(u32, u32)] = match support::quick() {
        true => &[(70, 37)],
        false => &[(1, 1), (6, 5), (70, 37), (129, 16), (130, 41), (515, 90)],
    };
    let line = |taps: usize| (0..taps).map(|i| (i * 7 + 3) % 16).collect::<Vec<_>>();
    let product = |across: usize, down: usize| {
        let (across, down) = (line(across), line(down));
        let row = |weight: &usize| {
            let row = across.iter().map(|other| format!("{} ", weight * other));
            row.collect::<String>() + ";"
        };
        down.iter().map(row).collect::<String>()
    };
    let mut tally = Tally::default();
    // A power of two with results in range, out of range, no power of two.
    let settings = [(32768.0, 0.0), (64.0, 0.0), (4096.0, 2.5), (1234.5, -7.0)];
    for (turn, (divisor, bias)) in settings.into_iter().enumerate() {
        for (index, (across, down)) in [(9, 17), (17, 9), (31, 3), (11, 17), (5, 5), (1, 17)]
            .into_iter()
            .enumerate()
        {
            if support::quick() && (turn + index) % 3 > 0 {
                continue;
            }
            for format in [
                gst_video::VideoFormat::Gray8,
                gst_video::VideoFormat::Nv12,
                gst_video::VideoFormat::Rgba,
                gst_video::VideoFormat::Rgb,
            ] {
                for (at, &(width, height)) in sizes.iter().enumerate() {
                    let borders = all_of::<Border>();
                    let spec = FilterSpec {
                        kernel: Kernel::Custom,
                        matrix: Some(product(across, down).parse().expect("a matrix")),
                        divisor,
                        bias,
                        border: borders[(turn + index + at) % borders.len()],
                        border_value: 201.0,
                        alpha: [Alpha::Copy, Alpha::Filter][at % 2],
                        ..FilterSpec::default()
                    };
                    let layout = support::layout(format, width, height);
                    let frames = Frames {
                        methods: &[Method::Auto],
                        interlaced: at % 3 == 2,
                        tolerance: 0,
                    };
                    compare_by(&mut tally, &engines, &spec, &layout, frames);
                }
            }
        }
    }
    tally.report("whole numbers of every reach");
}

/// Pictures that fill a device have kernels of their own.
#[test]
fn the_bilateral_of_large_pictures() {
    let Some(engines) = engines() else { return };
    let mut tally = Tally::default();
    let borders = all_of::<Border>();
    let quick = support::quick();
    for (format, width, height, radius) in [
        (gst_video::VideoFormat::Gray8, 1281, 646, 7),
        (gst_video::VideoFormat::Gray8, 1281, 646, 15),
        (gst_video::VideoFormat::Nv12, 1302, 1290, 8),
        (gst_video::VideoFormat::Rgba, 645, 323, 7),
        (gst_video::VideoFormat::Argb, 322, 241, 8),
        (gst_video::VideoFormat::Rgb, 333, 222, 12),
        (gst_video::VideoFormat::P01010le, 646, 322, 7),
        (gst_video::VideoFormat::Gray16Be, 333, 222, 11),
    ] {
        let layout = support::layout(format, width, height);
        for &border in borders.iter().take(if quick { 1 } else { borders.len() }) {
            // Windows of bytes that are not wide have the same loop for every radius.
            if quick && format == gst_video::VideoFormat::Nv12 {
                continue;
            }
            let spec = FilterSpec {
                kernel: Kernel::Bilateral,
                radius,
                border,
                border_value: 77.0,
                ..FilterSpec::default()
            };
            let frames = Frames {
                methods: &[Method::Auto],
                interlaced: false,
                tolerance: 1,
            };
            compare_by(&mut tally, &engines, &spec, &layout, frames);
        }
    }
    tally.report("bilateral of large pictures");
    assert!(tally.by_one * 1000 < tally.samples.max(1));
}
