//! Frames that are alone are done in bands, with the bytes of those that are done at once.

use std::sync::Arc;

use gstcudaconv::engine::cpu::CpuEngine;
use gstcudaconv::engine::{Engine, Prepared};
use gstcudaconv::filter::layout::supported_formats;
use gstcudaconv::filter::spec::{Alpha, Border, Kernel, Method, Planes};
use gstcudaconv::filter::{FilterSpec, Layout};

use crate::support::{self, Memory, SHAPES, TIGHT};

/// Small frames have several bands of so many bytes.
const BAND_BYTES: usize = 1500;

fn specs() -> Vec<FilterSpec> {
    let kernel = |kernel| FilterSpec {
        kernel,
        ..FilterSpec::default()
    };
    let bordered = |of, border| FilterSpec {
        border,
        border_value: 77.0,
        ..kernel(of)
    };
    vec![
        bordered(Kernel::Gauss3, Border::Constant),
        bordered(Kernel::Gauss7, Border::Reflect),
        bordered(Kernel::Sobel, Border::Reflect101),
        // Its first rows need the last.
        bordered(Kernel::Gauss5, Border::Wrap),
        FilterSpec {
            planes: Planes::All,
            alpha: Alpha::Filter,
            bias: 3.0,
            ..kernel(Kernel::Emboss)
        },
        FilterSpec {
            radius: 3,
            ..kernel(Kernel::Bilateral)
        },
    ]
}

/// A frame of `layout` by each method, in shapes by its `number`.
fn compare(
    (gpu, cpu): (&dyn Engine, &CpuEngine),
    spec: &FilterSpec,
    layout: &Arc<Layout>,
    number: &mut usize,
) {
    let allocator = gpu.allocator().expect("pinned memory");
    let pinned = Memory::From(&allocator);
    let heap = (Memory::Heap, TIGHT);
    for method in [Method::Auto, Method::Naive, Method::Tile, Method::Separable] {
        let Some(plan) = support::plan(spec, method, layout, support::gpu_abilities()) else {
            continue;
        };
        *number += 1;
        let shape = |number: usize| SHAPES[number % SHAPES.len()];
        let (from, to) = (shape(*number), shape(*number / 3));
        let seed = *number as u64;
        let frame = support::frame(layout, seed, (Memory::Heap, from), heap, false);
        let frame = support::on_cpu(cpu, spec, layout, frame);
        let expected = support::output_codes(layout, &frame);
        let frame = support::frame(layout, seed, (pinned, from), (pinned, to), false);
        let (frame, timing) = support::prepare(gpu, &plan).submit(frame).wait();
        let timing = timing.unwrap_or_else(|error| panic!("{error}"));
        assert!(timing.pinned_in && timing.pinned_out);
        let what = format!(
            "{:?} {method:?} {} {}x{} {:?} {from:?} {to:?}",
            spec.kernel, layout.format, layout.width, layout.height, spec.border
        );
        let got = support::output_codes(layout, &frame);
        let tolerance = u32::from(spec.kernel == Kernel::Bilateral);
        let tolerance = tolerance.max(support::rounding(&plan));
        let off = got.iter().zip(&expected).map(|(a, b)| a.abs_diff(*b));
        assert!(off.max() <= Some(tolerance), "{what}");
        assert!(support::padding_is_untouched(frame, layout, to), "{what}");
    }
}

#[test]
fn frames_in_bands_have_the_bytes_of_those_done_at_once() {
    let Some(gpu) = support::gpu(2) else { return };
    gpu.set_band_bytes(BAND_BYTES);
    let cpu = CpuEngine::new().expect("the CPU engine starts");
    let sizes: &[(u32, u32)] = match support::quick() {
        true => &[(33, 150)],
        false => &[(33, 150), (130, 71), (300, 9), (2, 800)],
    };
    let mut number = 0;
    for &(width, height) in sizes {
        for format in supported_formats() {
            let layout = support::layout(format, width, height);
            for spec in specs() {
                compare((&gpu, &cpu), &spec, &layout, &mut number);
            }
        }
    }
}

/// Bands or not, by whether there are others: frames that come closely, one behind the other.
#[test]
fn frames_alone_and_frames_that_overlap_keep_apart() {
    let Some(gpu) = support::gpu(3) else { return };
    gpu.set_band_bytes(20_000);
    let cpu = CpuEngine::new().expect("the CPU engine starts");
    let allocator = gpu.allocator().expect("pinned memory");
    let memory = (Memory::From(&allocator), TIGHT);
    let layout = support::layout(gst_video::VideoFormat::Nv12, 320, 240);
    let spec = FilterSpec {
        kernel: Kernel::Gauss5,
        ..FilterSpec::default()
    };
    let plan = support::plan(&spec, Method::Auto, &layout, support::gpu_abilities());
    let prepared = support::prepare(&gpu, &plan.expect("a plan"));
    let expected: Vec<Vec<u8>> = (0..7)
        .map(|seed| {
            let heap = (Memory::Heap, TIGHT);
            let frame = support::frame(&layout, seed, heap, heap, false);
            let frame = support::on_cpu(&cpu, &spec, &layout, frame);
            support::output_bytes(&layout, &frame)
        })
        .collect();
    // One alone, then two, three, one …
    let mut number = 0;
    for together in (0..60).map(|round| round % 3 + 1) {
        let submit = |prepared: &dyn Prepared, number: u64| {
            prepared.submit(support::frame(&layout, number % 7, memory, memory, false))
        };
        let tickets: Vec<_> = (0..together)
            .map(|n| submit(&*prepared, number + n))
            .collect();
        for ticket in tickets {
            let (frame, timing) = ticket.wait();
            timing.unwrap_or_else(|error| panic!("{error}"));
            let got = support::output_bytes(&layout, &frame);
            assert!(got == expected[(number % 7) as usize], "frame {number}");
            number += 1;
        }
    }
}
