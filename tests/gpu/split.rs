//! Separable kernels whose weights are taken apart for the matrix units: the GPU's bytes are the CPU's.

use gst_video::VideoFormat;
use gstcudaconv::filter::FilterSpec;
use gstcudaconv::filter::spec::{Alpha, Border, Kernel, Method};

use crate::compare::{Frames, Tally, compare_by};
use crate::support::{self, Memory, TIGHT, all_of, engines};

const FORMATS: [VideoFormat; 4] = [
    VideoFormat::Rgba,
    VideoFormat::Argb,
    VideoFormat::Bgrx,
    VideoFormat::Ayuv,
];

fn gauss(radius: u32) -> FilterSpec {
    FilterSpec {
        kernel: Kernel::Gauss,
        radius,
        sigma: f64::from(radius) * 0.4 + 0.1,
        border_value: 201.0,
        ..FilterSpec::default()
    }
}

/// An outer product of fractions of either sign.
fn fractions(across: usize, down: usize) -> FilterSpec {
    let line = |taps: usize| (0..taps).map(|at| f64::from(at as u32 * 29 % 17) / 7.3 - 0.4);
    let row = |weight: f64| -> String {
        let row = line(across).map(|other| format!("{} ", weight * other));
        row.collect::<String>() + ";"
    };
    FilterSpec {
        kernel: Kernel::Custom,
        matrix: line(down).map(row).collect::<String>().parse().ok(),
        border_value: 77.0,
        ..FilterSpec::default()
    }
}

#[test]
fn pixels_of_every_size_and_border() {
    let Some(engines) = engines() else { return };
    let mut tally = Tally::default();
    let borders = all_of::<Border>();
    let sizes = [
        (1, 1),
        (5, 17),
        (33, 17),
        (64, 48),
        (65, 2),
        (129, 79),
        (642, 150),
    ];
    let mut turn = 0;
    for format in FORMATS {
        for (width, height) in sizes {
            let layout = support::layout(format, width, height);
            for spec in [
                gauss(4),
                gauss(7),
                gauss(8),
                fractions(9, 3),
                fractions(17, 17),
                fractions(1, 11),
            ] {
                turn += 1;
                if support::quick() && turn % 7 != 0 {
                    continue;
                }
                let spec = FilterSpec {
                    border: borders[turn % borders.len()],
                    // Divided by what float32 holds, by what it does not, and not at all.
                    divisor: [0.0, 2.0, 1.7][turn / 2 % 3],
                    bias: [0.0, 0.25, -3.0][turn / 3 % 3],
                    alpha: [Alpha::Copy, Alpha::Copy, Alpha::Filter][turn % 3],
                    ..spec
                };
                let frames = Frames::of_auto(turn % 3 == 0);
                compare_by(&mut tally, &engines, &spec, &layout, frames);
            }
        }
    }
    tally.report("weights taken apart");
}

/// Level pictures whose results lie in the middle between two codes, so that all are in doubt.
#[test]
fn all_samples_in_doubt() {
    let Some(engines) = engines() else { return };
    let heap = (Memory::Heap, TIGHT);
    let sizes: &[(u32, u32)] = match support::quick() {
        true => &[(70, 37)],
        false => &[(3, 2), (70, 37), (257, 81)],
    };
    for format in FORMATS {
        for &(width, height) in sizes {
            let layout = support::layout(format, width, height);
            for (radius, bias, level) in [(4, 0.5, 7), (7, 0.5, 100), (8, -0.5, 231)] {
                let spec = FilterSpec {
                    bias,
                    ..gauss(radius)
                };
                let plan = support::plan(&spec, Method::Auto, &layout, support::gpu_abilities());
                let plan = plan.expect("a correlation");
                let frame = || support::level_frame(&layout, level, heap, heap);
                let expected = support::on_cpu(&engines.cpu, &spec, &layout, frame());
                let expected = support::output_codes(&layout, &expected);
                let frame = support::on_gpu(&engines.gpu, &plan, frame());
                let codes = support::output_codes(&layout, &frame);
                assert!(codes == expected, "{format:?} {width}x{height} {radius}");
            }
        }
    }
}
