//! Weights rounded to float16: the GPU's results against the float64 definition.

use std::sync::Arc;

use gst_video::VideoFormat;
use gstcudaconv::engine::Prepared;
use gstcudaconv::filter::reference;
use gstcudaconv::filter::spec::{Alpha, Border, Kernel, Method, Precision};
use gstcudaconv::filter::{FilterSpec, Layout};

use crate::support::{self, Engines, Memory, TIGHT, all_of, engines};

/// What the README says of `precision=fp16`, besides that no sample is more than one code value off.
const LEAST_DECIBELS: f64 = 60.0;
/// Frames with fewer samples say little of the mean.
const FEW_SAMPLES: usize = 4096;

const FORMATS: [VideoFormat; 6] = [
    VideoFormat::Gray8,
    VideoFormat::Nv12,
    VideoFormat::I420,
    VideoFormat::Rgb,
    VideoFormat::Rgba,
    VideoFormat::Xrgb,
];

#[derive(Default)]
struct Tally {
    frames: u64,
    samples: u64,
    off: u64,
    worst: Option<f64>,
}

fn prepared(engines: &Engines, spec: &FilterSpec, layout: &Arc<Layout>) -> Arc<dyn Prepared> {
    let plan = support::plan(spec, Method::Auto, layout, support::gpu_abilities());
    support::prepare(&engines.gpu, &plan.expect("a correlation of bytes"))
}

fn with_fp16(spec: FilterSpec) -> FilterSpec {
    FilterSpec {
        precision: Precision::Fp16,
        ..spec
    }
}

fn compare(tally: &mut Tally, engines: &Engines, spec: &FilterSpec, layout: &Arc<Layout>) {
    let heap = (Memory::Heap, TIGHT);
    let frame = support::frame(layout, tally.frames + 1, heap, heap, false);
    let planes: Vec<_> = (0..layout.planes.len())
        .map(|plane| frame.input.plane(plane))
        .collect();
    let expected = reference::filter(spec, layout, &planes, false).expect("a filter");
    let expected: Vec<u32> = (expected.into_iter())
        .flat_map(|component| component.codes)
        .collect();
    let prepared = prepared(engines, spec, layout);
    assert_eq!(prepared.precision(), Precision::Fp16, "{spec:?}");
    let (frame, timing) = prepared.submit(frame).wait();
    timing.unwrap_or_else(|error| panic!("{error}"));
    let codes = support::output_codes(layout, &frame);
    let what = || {
        let Layout {
            format,
            width,
            height,
            ..
        } = **layout;
        format!("{format} {width}x{height} {spec:?}")
    };
    let mut off = 0;
    for (index, (code, expected)) in codes.iter().zip(&expected).enumerate() {
        match code.abs_diff(*expected) {
            0 => (),
            1 => off += 1,
            _ => panic!("{}: sample {index} is {code} for {expected}", what()),
        }
    }
    let decibels = 20.0 * 255.0f64.log10() - 10.0 * (off as f64 / codes.len() as f64).log10();
    if codes.len() >= FEW_SAMPLES {
        assert!(decibels >= LEAST_DECIBELS, "{}: {decibels:.1} dB", what());
        tally.worst = Some(tally.worst.unwrap_or(decibels).min(decibels));
    }
    tally.frames += 1;
    tally.samples += codes.len() as u64;
    tally.off += off;
}

/// Gaussians of every size, fractions of either sign, kernels along one axis.
fn specs() -> Vec<FilterSpec> {
    let of = |kernel| FilterSpec {
        kernel,
        ..FilterSpec::default()
    };
    let custom = |matrix: &str| FilterSpec {
        matrix: Some(matrix.parse().expect("numbers")),
        bias: 3.5,
        ..of(Kernel::Custom)
    };
    let thirds = (0..225).map(|at| format!("{} ", f64::from(at * 29 % 17 - 7) / 3.0));
    let thirds: String = thirds.collect();
    let mut specs = vec![
        of(Kernel::Gauss7),
        of(Kernel::Box5),
        custom("-0.31 0.7 1.1 0.7 0.1;"),
        custom("0.3; -0.2; 0.77; 0.41; 0.02"),
        // Not separable, and no power of ten makes them whole.
        custom("0.1234567 0.2 0.31; -0.2 0.7712345 0.41; 0.02 1.3 0.5"),
        custom(&thirds),
    ];
    for radius in [1, 2, 4, 7, 8, 9, 13, 16] {
        specs.push(FilterSpec {
            radius,
            sigma: f64::from(radius) * 0.37,
            ..of(Kernel::Gauss)
        });
    }
    specs
}

#[test]
fn weights_of_16_bits_are_one_code_off_at_most() {
    let Some(engines) = engines() else { return };
    let sizes: &[(u32, u32)] = match support::quick() {
        true => &[(70, 37)],
        false => &[(1, 1), (5, 3), (33, 17), (70, 37), (129, 70), (300, 41)],
    };
    let mut tally = Tally::default();
    for (turn, spec) in specs().into_iter().enumerate() {
        for (index, format) in FORMATS.into_iter().enumerate() {
            for &(width, height) in sizes {
                let borders = all_of::<Border>();
                let border = borders[(turn + index + width as usize) % borders.len()];
                let spec = FilterSpec {
                    border,
                    border_value: 90.0,
                    alpha: [Alpha::Copy, Alpha::Filter][turn % 2],
                    ..with_fp16(spec.clone())
                };
                let layout = support::layout(format, width, height);
                compare(&mut tally, &engines, &spec, &layout);
            }
        }
    }
    report(&tally, "weights of 16 bits");
}

#[test]
fn weights_of_16_bits_in_large_pictures() {
    let Some(engines) = engines() else { return };
    let mut tally = Tally::default();
    for (format, width, height) in [
        (VideoFormat::Gray8, 1283, 722),
        (VideoFormat::Rgba, 641, 722),
        (VideoFormat::Nv12, 1290, 410),
    ] {
        for radius in [3, 8] {
            let spec = with_fp16(FilterSpec {
                kernel: Kernel::Gauss,
                radius,
                border: Border::Reflect101,
                ..FilterSpec::default()
            });
            let layout = support::layout(format, width, height);
            compare(&mut tally, &engines, &spec, &layout);
        }
    }
    report(&tally, "the same, large");
}

/// Weights that sum to the divisor leave every level as it is, whatever their rounding.
#[test]
fn weights_of_16_bits_leave_level_areas_alone() {
    let Some(engines) = engines() else { return };
    let layouts = [(VideoFormat::Gray8, 256), (VideoFormat::Rgba, 64)]
        .map(|(format, width)| support::layout(format, width, 9));
    let specs = specs().into_iter();
    let sums_to_one = specs.filter(|spec| spec.kernel != Kernel::Custom);
    for (spec, layout) in sums_to_one.flat_map(|spec| {
        layouts
            .iter()
            .map(move |layout| (with_fp16(spec.clone()), layout))
    }) {
        let prepared = prepared(&engines, &spec, layout);
        for level in 0..=255u8 {
            let heap = (Memory::Heap, TIGHT);
            let frame = support::level_frame(layout, level, heap, heap);
            let (frame, timing) = prepared.submit(frame).wait();
            timing.unwrap_or_else(|error| panic!("{error}"));
            let codes = support::output_codes(layout, &frame);
            assert!(
                codes.iter().all(|code| *code == u32::from(level)),
                "{level} {} {spec:?}",
                layout.format
            );
        }
    }
}

fn report(tally: &Tally, what: &str) {
    let Tally {
        frames,
        samples,
        off,
        worst,
    } = tally;
    support::say(&format!(
        "{what:28} {frames:>6} frames {samples:>11} samples, off by 1: {off}, {:.1} dB at least",
        worst.unwrap_or(f64::INFINITY)
    ));
    assert!(*frames > 0);
}
