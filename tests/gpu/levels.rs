//! The bilateral by levels: the GPU's results against those of the CPU engine.

use std::sync::Arc;

use gst_video::VideoFormat;
use gstcudaconv::filter::layout::supported_formats;
use gstcudaconv::filter::spec::{Alpha, Border, Kernel, Method, Window};
use gstcudaconv::filter::{FilterSpec, Layout};

use crate::support::{self, Engines, Memory, TIGHT, all_of, engines};

/// What the README says of the two engines' results of `method=fast`, whose sums are of different
/// precision: at 8 bits they differ by one code value at most, at larger depths by less than this.
const LEAST_DECIBELS: f64 = 60.0;
/// At 8 bits, of all samples: those that may be off.
const LARGEST_SHARE_OFF: f64 = 0.2;
/// Radius, sigma-space and sigma-color.
const FILTERS: [(u32, f64, f64); 5] = [
    (1, 1.0, 60.0),
    (7, 5.0, 25.0),
    (15, 5.0, 25.0),
    (27, 9.0, 10.0),
    (32, 100.0, 255.0),
];
/// Of one frame: the driver of the tests' own takes every tap by itself.
const MOST_TAPS: u32 = 4_000_000;

/// The mean of two pictures' squared differences, as the ratio to the largest code value in dB.
fn decibels(a: &[u32], b: &[u32], max: u32) -> f64 {
    let squares = a
        .iter()
        .zip(b)
        .map(|(a, b)| f64::from(a.abs_diff(*b)).powi(2));
    let mean = squares.sum::<f64>() / a.len() as f64;
    20.0 * f64::from(max).log10() - 10.0 * mean.log10()
}

/// Of the bytes and words that the kernels read, one format each.
const FEW_FORMATS: [VideoFormat; 5] = [
    VideoFormat::Gray8,
    VideoFormat::Nv12,
    VideoFormat::Ayuv,
    VideoFormat::Gray16Be,
    VideoFormat::P01010le,
];

struct Tally {
    frames: u64,
    /// The least likeness of a frame, in dB.
    worst: f64,
    /// Samples of 8 bits, and those of them that are off.
    bytes: usize,
    bytes_off: usize,
}

impl Tally {
    fn new() -> Tally {
        Tally {
            frames: 0,
            worst: f64::INFINITY,
            bytes: 0,
            bytes_off: 0,
        }
    }

    fn report(&self, what: &str) {
        let Tally {
            frames,
            worst,
            bytes,
            bytes_off,
        } = self;
        support::say(&format!(
            "{what:29} {frames} frames, {worst:.1} dB at least, {bytes_off} of {bytes} bytes off by 1"
        ));
        assert!(*frames > 0 && *bytes_off as f64 <= *bytes as f64 * LARGEST_SHARE_OFF);
    }
}

/// One frame of `layout`, if the method can do it.
fn compare(
    tally: &mut Tally,
    engines: &Engines,
    spec: &FilterSpec,
    layout: &Arc<Layout>,
    interlaced: bool,
) {
    let abilities = support::gpu_abilities();
    let Some(plan) = support::plan(spec, Method::Fast, layout, abilities) else {
        return;
    };
    let heap = (Memory::Heap, TIGHT);
    let frame = || support::frame(layout, tally.frames + 1, heap, heap, interlaced);
    let gpu = support::on_gpu(&engines.gpu, &plan, frame());
    let abilities = &gstcudaconv::engine::cpu::ABILITIES;
    let plan = support::plan(spec, Method::Fast, layout, abilities).expect("as the GPU");
    let (cpu, timing) = support::prepare(&engines.cpu, &plan).submit(frame()).wait();
    timing.unwrap_or_else(|error| panic!("{error}"));
    let (gpu, cpu) = (
        support::output_codes(layout, &gpu),
        support::output_codes(layout, &cpu),
    );
    let differences = || gpu.iter().zip(&cpu).map(|(a, b)| a.abs_diff(*b));
    let off = differences().max();
    if layout.depth == 8 {
        tally.bytes += gpu.len();
        tally.bytes_off += differences().filter(|&off| off > 0).count();
    }
    let near = decibels(&gpu, &cpu, layout.max_code());
    let enough = match layout.depth {
        8 => off <= Some(1),
        _ => near >= LEAST_DECIBELS,
    };
    assert!(
        enough,
        "{} {}x{} {:?} radius {}: {near:.1} dB, off by {off:?}",
        layout.format, layout.width, layout.height, spec.border, spec.radius
    );
    tally.worst = tally.worst.min(near);
    tally.frames += 1;
}

/// Whatever the radius, the border and the samples: by levels the engines nearly agree. (Of noise,
/// which has all levels in every tile.)
#[test]
fn the_bilateral_by_levels() {
    let Some(engines) = engines() else { return };
    let mut tally = Tally::new();
    let sizes: &[(u32, u32)] = match support::quick() {
        true => &[(70, 37), (40, 23)],
        false => &[(1, 1), (70, 9), (40, 23), (70, 37), (64, 64), (65, 130)],
    };
    let layouts = supported_formats()
        .filter(|format| !support::quick() || FEW_FORMATS.contains(format))
        .flat_map(|format| sizes.iter().map(move |size| (format, *size)))
        .map(|(format, (width, height))| support::layout(format, width, height));
    for layout in layouts {
        for (turn, border) in all_of::<Border>().into_iter().enumerate() {
            for (radius, sigma_space, sigma_color) in FILTERS {
                let taps = u32::pow(2 * radius + 1, 2) * layout.width as u32 * layout.height as u32;
                let left_out = support::quick() && !(turn + radius as usize).is_multiple_of(3);
                if taps > MOST_TAPS || left_out {
                    continue;
                }
                let spec = FilterSpec {
                    kernel: Kernel::Bilateral,
                    method: Method::Fast,
                    window: Window::Square,
                    radius,
                    sigma_space,
                    sigma_color,
                    border,
                    // Beyond what bytes hold, where black is 16.
                    border_value: 250.5,
                    alpha: [Alpha::Copy, Alpha::Filter][turn % 2],
                    ..FilterSpec::default()
                };
                compare(&mut tally, &engines, &spec, &layout, turn == 2);
            }
        }
    }
    tally.report("bilateral by levels");
}

/// Pictures that fill a device have kernels of their own.
#[test]
fn the_bilateral_by_levels_of_large_pictures() {
    let Some(engines) = engines() else { return };
    let mut tally = Tally::new();
    for (format, width, height) in [
        (VideoFormat::Gray8, 1281, 1290),
        (VideoFormat::Gray8, 1281, 646),
        (VideoFormat::Gray16Le, 1281, 1290),
        (VideoFormat::Gray16Le, 1281, 646),
    ] {
        let layout = support::layout(format, width, height);
        for border in [Border::Reflect, Border::Constant] {
            let spec = FilterSpec {
                kernel: Kernel::Bilateral,
                method: Method::Fast,
                window: Window::Square,
                radius: 3,
                sigma_space: 2.0,
                border,
                border_value: 250.5,
                ..FilterSpec::default()
            };
            compare(&mut tally, &engines, &spec, &layout, false);
            if support::quick() {
                break;
            }
        }
    }
    tally.report("levels of large pictures");
}
