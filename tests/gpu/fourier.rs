//! Correlation by the Fourier transform: within one code value of the CPU's canonical bytes, and mostly equal.

use gstcudaconv::filter::FilterSpec;
use gstcudaconv::filter::spec::{Alpha, Border, Kernel, Method, Planes};

use crate::compare::{Frames, Tally, compare_by};
use crate::support::{self, Engines, all_of, engines};

/// Weights without any symmetry: whole numbers, or fractions that no power of ten makes whole.
fn custom(width: usize, height: usize, whole: bool) -> FilterSpec {
    let row = |y: usize| {
        let weights = (0..width).map(|x| ((y * width + x) * 29 % 97) as f64 - 20.0);
        let unit = if whole { 1.0 } else { 1.0 / 7.0 };
        let row = weights.map(|weight| format!("{} ", weight * unit));
        row.collect::<String>()
    };
    let rows: Vec<String> = (0..height).map(row).collect();
    FilterSpec {
        kernel: Kernel::Custom,
        matrix: Some((rows.join(";") + ";").parse().expect("a matrix")),
        border_value: 77.0,
        ..FilterSpec::default()
    }
}

fn compare(
    tally: &mut Tally,
    engines: &Engines,
    spec: &FilterSpec,
    of: (gst_video::VideoFormat, u32, u32),
    interlaced: bool,
) {
    let frames = Frames {
        methods: &[Method::Fft],
        interlaced,
        tolerance: 1,
    };
    compare_by(
        tally,
        engines,
        spec,
        &support::layout(of.0, of.1, of.2),
        frames,
    );
}

/// At most `per_thousand` samples differ from the CPU's.
fn finish(tally: &Tally, name: &str, per_thousand: u64) {
    tally.report(name);
    assert!(tally.samples > 0 && tally.by_one * 1000 <= tally.samples * per_thousand);
}

#[test]
fn kernels_of_every_size_format_and_border() {
    use gst_video::VideoFormat::{
        A420, Argb64, Ayuv, Gbr, Gray8, Gray16Be, Gray16Le, I42010le, Nv12, P01010le, Rgb, Rgba,
        Uyvy,
    };
    let Some(engines) = engines() else { return };
    let shapes = [
        (1, 1),
        (3, 5),
        (15, 15),
        (25, 25),
        (31, 29),
        (31, 1),
        (1, 31),
        (31, 31),
    ];
    let shapes = &shapes[..if support::quick() { 4 } else { shapes.len() }];
    let (mut few, mut many) = (Tally::default(), Tally::default());
    for (format, width, height) in [
        (Gray8, 397, 71),
        (Gray8, 9, 5),
        (Gray8, 1, 1),
        (Nv12, 202, 82),
        (Rgb, 105, 67),
        (Rgba, 137, 45),
        (Gbr, 93, 33),
        (Ayuv, 97, 35),
        (Uyvy, 131, 40),
        (A420, 75, 40),
        (I42010le, 187, 66),
        (P01010le, 141, 51),
        (Gray16Le, 211, 47),
        (Gray16Be, 83, 40),
        (Argb64, 61, 39),
    ] {
        let words = matches!(format, Gray16Le | Gray16Be | Argb64);
        let tally = if words { &mut many } else { &mut few };
        for (turn, &(across, down)) in shapes.iter().enumerate() {
            for (index, border) in all_of::<Border>().into_iter().enumerate() {
                let spec = FilterSpec {
                    border,
                    planes: if turn % 2 == 0 {
                        Planes::All
                    } else {
                        Planes::Luma
                    },
                    alpha: if index % 2 == 0 {
                        Alpha::Filter
                    } else {
                        Alpha::Copy
                    },
                    bias: index as f64,
                    ..custom(across, down, (turn + index) % 2 == 0)
                };
                compare(tally, &engines, &spec, (format, width, height), index == 3);
            }
        }
    }
    finish(&few, "transforms, to 12 bits", 1);
    finish(&many, "transforms, 16 bits", 10);
}

#[test]
fn presets_and_magnitudes() {
    use gst_video::VideoFormat::{Gray8, I42010le, Rgba};
    let Some(engines) = engines() else { return };
    let mut tally = Tally::default();
    for of in [(Gray8, 203, 71), (Rgba, 97, 50), (I42010le, 77, 45)] {
        for kernel in all_of::<Kernel>() {
            for radius in [0, 9, 24] {
                let spec = FilterSpec {
                    kernel,
                    radius,
                    matrix: custom(5, 3, true).matrix,
                    border: Border::Reflect101,
                    ..FilterSpec::default()
                };
                compare(&mut tally, &engines, &spec, of, false);
            }
        }
    }
    finish(&tally, "transforms, presets", 1);
}

/// Squares that begin and end at every place.
#[test]
fn every_size_up_to_a_few_squares() {
    let Some(engines) = engines() else { return };
    let mut tally = Tally::default();
    let spec = custom(25, 23, true);
    let step = if support::quick() { 9 } else { 1 };
    for side in (1..170).step_by(step) {
        for of in [
            (gst_video::VideoFormat::Gray8, side, 30),
            (gst_video::VideoFormat::Nv12, 50, side),
        ] {
            compare(&mut tally, &engines, &spec, of, false);
        }
    }
    finish(&tally, "transforms, sizes", 1);
}
