//! Tests that the vector code gives the bytes of the scalar path, for any plan.

use std::sync::Arc;

use proptest::prelude::*;
use proptest::strategy::ValueTree;
use proptest::test_runner::TestRunner;

use super::compute::Compiled;
use super::isa::Isa;
use super::testing::{frame, layout, output_bytes, padded_frame, tight_spans};
use super::{ABILITIES, pool};
use crate::engine::{OutputFrame, PlaneSpan};
use crate::filter::layout::{Layout, supported_formats};
use crate::filter::matrix::Matrix;
use crate::filter::plan::{Algorithm, Operation, Plan};
use crate::filter::spec::{Alpha, Border, Distance, FilterSpec, Kernel, Method, Planes, Window};

const LINEAR: [Kernel; 23] = [
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
    Kernel::Laplacian,
    Kernel::SobelX,
    Kernel::SobelY,
    Kernel::Sobel,
    Kernel::ScharrX,
    Kernel::ScharrY,
    Kernel::Scharr,
    Kernel::Prewitt,
    Kernel::PrewittX,
    Kernel::Custom,
];

const BORDERS: [Border; 5] = [
    Border::Replicate,
    Border::Reflect,
    Border::Reflect101,
    Border::Wrap,
    Border::Constant,
];

/// A format, a size and whether the frame is interlaced.
type Shape = (gst_video::VideoFormat, u32, u32, bool);

fn shapes() -> impl Strategy<Value = Shape> {
    let formats: Vec<_> = supported_formats().collect();
    let side = prop_oneof![1u32..6, 6u32..40, Just(64), Just(127)];
    (
        prop::sample::select(formats),
        prop_oneof![side.clone(), 100u32..400],
        side,
        any::<bool>(),
    )
}

fn matrices() -> impl Strategy<Value = Matrix> {
    let side = || (0usize..4).prop_map(|half| 2 * half + 1);
    (side(), side()).prop_flat_map(|(width, height)| {
        let whole = (-9i32..10).prop_map(|k| k as f32);
        let number = prop_oneof![whole.boxed(), (-2.0f32..2.0).boxed(), Just(0.0).boxed()];
        let rank_one = (
            prop::collection::vec(number.clone(), width),
            prop::collection::vec(number.clone(), height),
        )
            .prop_map(|(row, column)| -> Vec<f32> {
                (column.iter())
                    .flat_map(|c| row.iter().map(move |r| r * c))
                    .collect()
            });
        let any_rank = prop::collection::vec(number, width * height);
        prop_oneof![any_rank.boxed(), rank_one.boxed()].prop_map(move |coefficients| Matrix {
            width,
            height,
            coefficients,
        })
    })
}

fn specs(kernels: &'static [Kernel]) -> impl Strategy<Value = FilterSpec> {
    let numbers = (
        prop_oneof![Just(0.0), -20.0..20.0, Just(16.0)],
        prop_oneof![Just(0.0), Just(0.0), -300.0..300.0, Just(0.5), Just(-7.0)],
        prop_oneof![3 => 0u32..5, 1 => 0u32..33],
        prop_oneof![Just(0.0), 0.1..4.0],
        0.0..4.0,
        prop_oneof![Just(0.0), 0.0..255.0, Just(255.0)],
    );
    let choices = (
        prop::sample::select(&BORDERS[..]),
        prop::sample::select(&[Planes::Auto, Planes::All, Planes::Luma][..]),
        prop::sample::select(&[Alpha::Copy, Alpha::Filter, Alpha::Premultiply][..]),
        prop::sample::select(&[Window::Circle, Window::Square][..]),
        prop::sample::select(&[Distance::L1, Distance::L2][..]),
    );
    let kernel = prop::sample::select(kernels);
    (kernel, matrices(), numbers, choices).prop_map(|(kernel, matrix, numbers, choices)| {
        let (divisor, bias, radius, sigma, amount, border_value) = numbers;
        let (border, planes, alpha, window, distance) = choices;
        FilterSpec {
            kernel,
            matrix: Some(matrix),
            divisor,
            bias,
            radius,
            sigma,
            amount,
            border_value,
            border,
            planes,
            alpha,
            window,
            distance,
            ..FilterSpec::default()
        }
    })
}

/// The output of a plan's `algorithm`, or `None` where there is no such plan.
fn output(
    isa: Isa,
    algorithm: Algorithm,
    spec: &FilterSpec,
    (format, width, height, interlaced): Shape,
    seed: u64,
) -> Option<Vec<u8>> {
    let layout = layout(format, width, height);
    let mut plan = Plan::new(spec, &layout, &ABILITIES).ok()?;
    plan.algorithm = algorithm;
    let compiled = Compiled::new(&Arc::new(plan), isa, pool::shared().unwrap()).unwrap();
    let mut frame = padded_frame(&layout, seed, interlaced);
    compiled.run(&mut frame);
    Some(output_bytes(&layout, &frame))
}

fn assert_same(isas: &[Isa], spec: &FilterSpec, shape: Shape, seed: u64) {
    let Some(scalar) = output(isas[0], Algorithm::Naive, spec, shape, seed) else {
        return;
    };
    for &isa in isas {
        let vector = output(isa, Algorithm::Direct, spec, shape, seed).unwrap();
        let differing = scalar.iter().zip(&vector).position(|(a, b)| a != b);
        if let Some(at) = differing {
            panic!(
                "byte {at}: {} is to be {}, {isa:?} {shape:?} {spec:?}",
                vector[at], scalar[at]
            );
        }
    }
}

proptest! {
    // 256 of them, or as many as `PROPTEST_CASES` says.
    #![proptest_config(ProptestConfig::default())]

    #[test]
    fn linear_kernels_give_the_canonical_bytes(
        spec in specs(&LINEAR),
        shape in shapes(),
        seed in any::<u64>(),
    ) {
        assert_same(&Isa::all(), &spec, shape, seed);
    }
}

/// Code values of all samples, in the order of the groups and channels.
fn codes(layout: &Layout, bytes: &[u8]) -> Vec<u32> {
    let spans = tight_spans(layout);
    let mut codes = Vec::new();
    for group in &layout.groups {
        for channel in &group.channels {
            let span = spans[channel.plane];
            for y in 0..group.height {
                for x in 0..group.width {
                    let at = span.offset + y * span.stride + channel.offset + x * channel.step;
                    codes.push(layout.sample.read(&bytes[at..]));
                }
            }
        }
    }
    codes
}

/// The bilateral is in no fixed order: one code value apart, rarely.
#[test]
fn bilaterals_are_those_of_the_scalar_path() {
    let mut runner = TestRunner::deterministic();
    let strategy = (
        specs(&[Kernel::Bilateral]),
        0.1f64..20.0,
        prop_oneof![0.0f64..255.0, 0.0..40.0],
        shapes(),
        any::<u64>(),
    );
    let (mut samples, mut differing) = ([0; 2], [0; 2]);
    // Fewer where fewer are asked for, as under valgrind.
    let cases = ProptestConfig::default().cases.min(100);
    for _ in 0..cases {
        let (mut spec, space, color, shape, seed) =
            strategy.new_tree(&mut runner).unwrap().current();
        (spec.sigma_space, spec.sigma_color) = (space, color);
        spec.radius %= 9;
        let isas = Isa::all();
        let Some(scalar) = output(isas[0], Algorithm::Naive, &spec, shape, seed) else {
            continue;
        };
        let layout = layout(shape.0, shape.1, shape.2);
        let deep = usize::from(layout.depth > 12);
        let scalar = codes(&layout, &scalar);
        for isa in isas {
            let vector = output(isa, Algorithm::Direct, &spec, shape, seed).unwrap();
            for (a, b) in codes(&layout, &vector).into_iter().zip(&scalar) {
                let apart = a.abs_diff(*b);
                assert!(apart <= 1, "{a} is to be {b}, {isa:?} {shape:?} {spec:?}");
                samples[deep] += 1;
                differing[deep] += apart;
            }
        }
    }
    println!("{differing:?} of {samples:?} samples differ");
    if cases < 100 {
        return;
    }
    assert!(samples[0] > 100_000 && samples[1] > 20_000);
    assert!(differing[0] * 5_000 <= samples[0]);
    assert!(differing[1] * 200 <= samples[1]);
}

/// Sums of outer products have an order of their own on the CPU, which gives the canonical bytes where
/// no order matters, and else nearly all of them.
#[test]
fn sums_of_outer_products_are_those_of_the_scalar_path() {
    let sheared = "1 0 0 0 -2; 0 3 0 0 1; 0 0 0 0 0; 0 3 0 0 1; 1 0 0 0 -2";
    let fractions = "0.1 0.3 0.7 0.2 0.1; 0.3 0.7 0.1 0.33333333 0.2; 0.4 1.0 0.8 0.53333333 0.3; \
                     0.1 0.3 0.7 0.2 0.1; 0.3 0.7 0.1 0.33333333 0.2";
    let (mut samples, mut differing) = ([0; 2], [0; 2]);
    for (turn, format) in supported_formats().enumerate() {
        for (k, kernel) in [Kernel::Laplacian, Kernel::Sharpen, Kernel::Unsharp]
            .into_iter()
            .chain([Kernel::Custom; 2])
            .enumerate()
        {
            let matrix = [sheared, fractions][k % 2];
            let spec = FilterSpec {
                kernel,
                matrix: Some(matrix.parse().unwrap()),
                radius: [0, 2, 7][turn % 3],
                border: BORDERS[(turn + k) % BORDERS.len()],
                border_value: 77.0,
                alpha: [Alpha::Copy, Alpha::Filter, Alpha::Premultiply][(turn + k) % 3],
                method: Method::Separable,
                ..FilterSpec::default()
            };
            let (width, height) = [(33, 17), (2, 2), (722, 21), (1, 1)][(turn + k) % 4];
            let shape = (format, width, height, k % 2 == 1);
            let isas = Isa::all();
            let Some(scalar) = output(isas[0], Algorithm::Naive, &spec, shape, 3) else {
                // Of fractions and of many bits.
                assert_eq!(spec.alpha, Alpha::Premultiply, "{shape:?} {spec:?}");
                continue;
            };
            for &isa in &isas {
                let vector = output(isa, Algorithm::Separable, &spec, shape, 3).unwrap();
                assert!(vector == scalar, "{isa:?} {shape:?} {spec:?}");
            }
            let naive = FilterSpec {
                method: Method::Naive,
                ..spec.clone()
            };
            let canonical = output(isas[0], Algorithm::Naive, &naive, shape, 3).unwrap();
            let layout = layout(format, width, height);
            let plan = Plan::new(&spec, &layout, &ABILITIES).unwrap();
            let whole = (plan.jobs.iter()).all(|job| {
                job.operation == Operation::None || job.sums_are_whole(layout.max_code())
            });
            let deep = usize::from(layout.depth > 12);
            for (a, b) in codes(&layout, &scalar)
                .iter()
                .zip(codes(&layout, &canonical))
            {
                let apart = a.abs_diff(b);
                assert!(
                    apart <= u32::from(!whole),
                    "{a} is to be {b}, {shape:?} {spec:?}"
                );
                samples[deep] += 1;
                differing[deep] += apart;
            }
        }
    }
    println!("{differing:?} of {samples:?} samples differ");
    assert!(samples[0] > 100_000 && samples[1] > 20_000);
    assert!(differing[0] * 1_000 <= samples[0]);
    assert!(differing[1] * 100 <= samples[1]);
}

#[test]
fn every_format_kernel_and_border_gives_the_canonical_bytes() {
    for (count, format) in supported_formats().enumerate() {
        for (k, &kernel) in LINEAR.iter().enumerate() {
            let spec = FilterSpec {
                kernel,
                matrix: Some("1 2 3; 4 5 6; 7 8 10".parse().unwrap()),
                border: BORDERS[(count + k) % BORDERS.len()],
                border_value: 77.0,
                ..FilterSpec::default()
            };
            let (width, height) = [(33, 17), (2, 2), (322, 21), (1, 1)][(count + k / 5) % 4];
            assert_same(
                &[Isa::detect()],
                &spec,
                (format, width, height, k % 2 == 1),
                1,
            );
        }
    }
}

/// Full kernels of few taps go a way of their own, and so do pixels with several streams.
#[test]
fn sparse_kernels_and_pixels_give_the_canonical_bytes() {
    use gst_video::VideoFormat::{Argb, Ayuv, Gray8, Gray16Be, Rgba};
    let sparse = "0.1 0 0 0 0; 0 0 0 0 0; 0 0 0.3 0 0; 0 0 0 0 0; 0 0 0 0 0.7";
    for matrix in [sparse, "1 2 3; 4 5 6; 7 8 10.1"] {
        for format in [Gray8, Gray16Be, Ayuv, Rgba, Argb] {
            for (alpha, height) in [
                (Alpha::Copy, 1),
                (Alpha::Filter, 6),
                (Alpha::Premultiply, 23),
            ] {
                let spec = FilterSpec {
                    kernel: Kernel::Custom,
                    matrix: Some(matrix.parse().unwrap()),
                    alpha,
                    ..FilterSpec::default()
                };
                assert_same(&Isa::all(), &spec, (format, 77, height, false), 7);
            }
        }
    }
}

/// Rows of U and V may alternate in one memory, as some decoders lay them.
#[test]
fn planes_whose_rows_alternate_are_written_apart() {
    let layout = layout(gst_video::VideoFormat::I420, 40, 400);
    let plan = Plan::new(&FilterSpec::default(), &layout, &ABILITIES).unwrap();
    let compiled = Compiled::new(&Arc::new(plan), Isa::detect(), pool::shared().unwrap()).unwrap();
    let mut tight = frame(
        &layout,
        |plane, y, x| (plane * 50 + y * 3 + x * x) as u8,
        false,
    );
    compiled.run(&mut tight);
    let mut alternating = frame(
        &layout,
        |plane, y, x| (plane * 50 + y * 3 + x * x) as u8,
        false,
    );
    let spans = [(0, 40), (16000, 40), (16020, 40)].map(|(offset, stride)| PlaneSpan {
        memory: 0,
        offset,
        stride,
    });
    let memory = Box::new(vec![0; 24000]);
    alternating.output = OutputFrame::new(&layout, vec![memory], spans.to_vec()).unwrap();
    compiled.run(&mut alternating);
    assert_eq!(
        output_bytes(&layout, &alternating),
        output_bytes(&layout, &tight)
    );
}

/// Tiles of columns and their seams, which small pictures do not have.
#[test]
fn wide_pictures_give_the_canonical_bytes() {
    for (kernel, radius) in [
        (Kernel::Gauss, 20),
        (Kernel::Unsharp, 4),
        (Kernel::Sobel, 0),
        (Kernel::Box, 9),
        (Kernel::Box, 32),
    ] {
        for format in [gst_video::VideoFormat::Gray8, gst_video::VideoFormat::Rgba] {
            for alpha in [Alpha::Copy, Alpha::Premultiply] {
                let spec = FilterSpec {
                    kernel,
                    radius,
                    alpha,
                    border: Border::Reflect,
                    ..FilterSpec::default()
                };
                assert_same(&Isa::all(), &spec, (format, 1501, 3, false), 5);
            }
        }
    }
}
