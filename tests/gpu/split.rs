//! Separable kernels whose weights are taken apart for the matrix units: the GPU's bytes are the CPU's.

use gst_video::VideoFormat;
use gstcudaconv::filter::FilterSpec;
use gstcudaconv::filter::spec::{Border, Kernel, Method};

use crate::compare::{Frames, Tally, compare_by};
use crate::support::{self, Memory, TIGHT, all_of, engines, noise};

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

/// As few pixels as are taken, in several shapes.
const SIZES: [(u32, u32); 4] = [(1281, 823), (70, 15_000), (16_384, 65), (1024, 1024)];

#[test]
fn pixels_of_every_border() {
    let Some(engines) = engines() else { return };
    let mut tally = Tally::default();
    let borders = all_of::<Border>();
    let specs = [
        gauss(4),
        gauss(7),
        gauss(8),
        fractions(9, 3),
        fractions(17, 17),
        fractions(1, 11),
    ];
    for (turn, spec) in specs.into_iter().enumerate() {
        for (index, format) in FORMATS.into_iter().enumerate() {
            if support::quick() && (turn + index) % 12 != 1 {
                continue;
            }
            let turn = turn + index;
            let (width, height) = SIZES[turn % SIZES.len()];
            let layout = support::layout(format, width, height);
            let spec = FilterSpec {
                border: borders[(turn + index) % borders.len()],
                divisor: [0.0, 1.5, 1.7][turn / 2 % 3],
                bias: [0.0, 0.25, -3.25][turn % 3],
                ..spec.clone()
            };
            let frames = Frames::of_auto(false);
            compare_by(&mut tally, &engines, &spec, &layout, frames);
        }
    }
    tally.report("weights taken apart");
}

/// Columns of two codes in turn whose results lie in the middle between two codes, so that as many as can be are in doubt.
#[test]
fn many_samples_in_doubt() {
    let Some(engines) = engines() else { return };
    let heap = (Memory::Heap, TIGHT);
    let (width, height) = SIZES[0];
    for (format, radius) in FORMATS.into_iter().zip([7, 4, 8, 7]) {
        if support::quick() && radius != 8 {
            continue;
        }
        let layout = support::layout(format, width, height);
        let spec = gauss(radius);
        let codes = codes_in_doubt(&spec);
        // Now and then another one, so that not all are alike.
        let byte = |plane: usize, at: usize| match noise(1, (plane << 32) ^ at) {
            0..=3 => 255 - codes[0],
            _ => codes[at / 4 % 2],
        };
        let frame = || support::frame_of(&layout, byte, heap, heap, false);
        let plan = support::plan(&spec, Method::Auto, &layout, support::gpu_abilities());
        let plan = plan.expect("a correlation");
        let expected = support::on_cpu(&engines.cpu, &spec, &layout, frame());
        let expected = support::output_codes(&layout, &expected);
        let frame = support::on_gpu(&engines.gpu, &plan, frame());
        let found = support::output_codes(&layout, &frame);
        assert!(found == expected, "{format:?} {radius}");
    }
}

/// The two codes that give, in turn, a mean nearest to the middle between two codes.
fn codes_in_doubt(spec: &FilterSpec) -> [u8; 2] {
    let radius = spec.radius as i32;
    let weight = |x: i32| (-f64::from(x * x) / (2.0 * spec.sigma * spec.sigma)).exp();
    let sum = |step| -> f64 { (-radius..=radius).step_by(step).map(weight).sum() };
    // Those with the first tap; the others are as many less one.
    let share = sum(2) / sum(1);
    let pairs = (0..=255u8).flat_map(|one| (0..one).map(move |other| [one, other]));
    let off = |codes: &[u8; 2]| {
        let [one, other] = codes.map(f64::from);
        let result = other + (one - other) * share;
        (result.fract() - 0.5).abs()
    };
    let nearest = pairs.min_by(|a, b| off(a).total_cmp(&off(b)));
    nearest.expect("there are pairs")
}
