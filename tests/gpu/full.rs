//! Kernels that are not separable, on the matrix units: the GPU's bytes are the CPU's.

use gstcudaconv::filter::FilterSpec;
use gstcudaconv::filter::spec::{Border, Kernel, Planes};

use crate::compare::{Frames, Tally, compare_by};
use crate::support::{self, all_of, engines};

fn custom(matrix: &str) -> FilterSpec {
    FilterSpec {
        kernel: Kernel::Custom,
        matrix: Some(matrix.parse().expect("a matrix")),
        ..FilterSpec::default()
    }
}

#[test]
fn full_kernels_of_every_shape() {
    let Some(engines) = engines() else { return };
    let mut tally = Tally::default();
    let of_size = |width: usize, height: usize, unit: f32| {
        let row = |y: usize| {
            let weights = (0..width).map(|x| ((y * width + x) * 29 % 97) as f32 - 40.0);
            let weights = weights.map(|weight| format!("{} ", weight * unit));
            weights.collect::<String>()
        };
        let rows: Vec<String> = (0..height).map(row).collect();
        FilterSpec {
            divisor: (width * height * 8) as f64 * f64::from(unit),
            ..custom(&rows.join(";"))
        }
    };
    let shapes = [
        (3, 5),
        (15, 15),
        (9, 17),
        (19, 3),
        (31, 29),
        (5, 31),
        (31, 31),
    ];
    let shapes = &shapes[..if support::quick() { 3 } else { shapes.len() }];
    for (format, width, height) in [
        (gst_video::VideoFormat::Gray8, 397, 71),
        (gst_video::VideoFormat::Gray8, 9, 5),
        (gst_video::VideoFormat::Nv12, 402, 82),
        (gst_video::VideoFormat::Rgb, 205, 67),
        (gst_video::VideoFormat::Bgra, 203, 35),
        (gst_video::VideoFormat::Gbr, 193, 33),
        (gst_video::VideoFormat::I420, 387, 66),
        (gst_video::VideoFormat::P01010le, 402, 82),
        (gst_video::VideoFormat::I42010le, 387, 66),
        (gst_video::VideoFormat::Y44410le, 61, 37),
        (gst_video::VideoFormat::I42012le, 150, 66),
    ] {
        let layout = support::layout(format, width, height);
        for (turn, &(across, down)) in shapes.iter().enumerate() {
            for (index, border) in all_of::<Border>().into_iter().enumerate() {
                if support::quick() && index % 2 == 1 {
                    continue;
                }
                // Whole numbers of one digit and, by 100, of two, and fractions.
                let unit = [1.0, 1.0 / 3.0, 0.37][index / 2];
                let spec = FilterSpec {
                    border,
                    border_value: 77.0,
                    bias: index as f64,
                    ..of_size(across, down, unit)
                };
                compare_by(
                    &mut tally,
                    &engines,
                    &spec,
                    &layout,
                    Frames::of_auto(turn % 2 == 1),
                );
            }
        }
    }
    tally.report("full kernels");
}

/// A half of each sample: every second result lies in the middle between two codes, where the last bit of a
/// sum decides.
#[test]
fn results_between_two_codes() {
    let Some(engines) = engines() else { return };
    let mut tally = Tally::default();
    for (format, width, height) in [
        (gst_video::VideoFormat::Gray8, 397, 71),
        (gst_video::VideoFormat::Nv12, 150, 66),
        (gst_video::VideoFormat::Rgba, 203, 35),
        (gst_video::VideoFormat::P01010le, 150, 66),
    ] {
        let layout = support::layout(format, width, height);
        for tail in ["0.00000001", "-0.00000003", "0.0000004"] {
            let matrix = format!("0 0 0; 0 0.5 0; 0 0 {tail}");
            let spec = FilterSpec {
                divisor: 1.0,
                ..custom(&matrix)
            };
            compare_by(&mut tally, &engines, &spec, &layout, Frames::of_auto(false));
        }
    }
    tally.report("between two codes");
}

/// A bias that only luma gets, so that its plane and those of chroma go different ways.
#[test]
fn planes_to_which_different_numbers_are_added() {
    let Some(engines) = engines() else { return };
    let mut tally = Tally::default();
    let layout = support::layout(gst_video::VideoFormat::Y444, 150, 66);
    for bias in [-300.0, 384.0, 600.0, 100_000.0] {
        let spec = FilterSpec {
            planes: Planes::All,
            bias,
            ..custom("1 2 3; 4 5 6; 7 8 0.1234567")
        };
        compare_by(&mut tally, &engines, &spec, &layout, Frames::of_auto(false));
    }
    tally.report("different biases");
}
