//! Times the CPU engine frame by frame, from submission to the filtered frame, as an element sees
//! it: `cargo bench --bench cpu [-- --tsv] [FILTER …]`.
//!
//! Prints the median and the least time, the time inside the engine, the time that all threads
//! together were computing, time per pixel, and the bytes read and written per second. FILTER keeps
//! the cases whose names contain it; `--tsv` prints `name`, median, least and computing time in
//! nanoseconds between tabs, for `scripts/bench.sh`.

use std::sync::Arc;
use std::time::{Duration, Instant};

use gstcudaconv::engine::cpu::CpuEngine;
use gstcudaconv::engine::{Engine, Frame, InputFrame, OutputFrame, PlaneSpan, Prepared};
use gstcudaconv::filter::spec::{Alpha, Kernel, Method, Window};
use gstcudaconv::filter::{FilterSpec, Layout, Plan};

/// Time spent on one case, at least, after the warm-up.
const CASE_TIME: Duration = Duration::from_millis(400);
/// Frames of one case, at least.
const MIN_FRAMES: usize = 7;

struct Case {
    name: &'static str,
    format: gst_video::VideoFormat,
    size: (u32, u32),
    spec: FilterSpec,
}

fn cases() -> Vec<Case> {
    use gst_video::VideoFormat::{
        Ayuv, Bgr, Bgrx, Gray8, I420, I42010le, Nv12, P01010le, Rgb, Rgba, Yuy2,
    };
    const HD: (u32, u32) = (1920, 1080);
    const VGA: (u32, u32) = (640, 480);
    let kernel = |kernel| FilterSpec {
        kernel,
        ..FilterSpec::default()
    };
    let radius = |kernel, radius| FilterSpec {
        kernel,
        radius,
        ..FilterSpec::default()
    };
    let sigma = |sigma| FilterSpec {
        kernel: Kernel::Gauss,
        sigma,
        ..FilterSpec::default()
    };
    let case = |name, format, size, spec| Case {
        name,
        format,
        size,
        spec,
    };
    let bilateral = || radius(Kernel::Bilateral, 7);
    let square = |method, of_radius| FilterSpec {
        method,
        window: Window::Square,
        ..radius(Kernel::Bilateral, of_radius)
    };
    // Not separable; thirds are no decimal numbers.
    let custom = |method, side: i32, unit: f64| {
        let weights = (0..side * side).map(|i| format!("{} ", f64::from(i * 29 % 17 - 7) * unit));
        FilterSpec {
            method,
            matrix: Some(weights.collect::<String>().parse().expect("a square")),
            ..kernel(Kernel::Custom)
        }
    };
    let thirds = |method, side| custom(method, side, 1.0 / 3.0);
    vec![
        case("identity gray8 1080p", Gray8, HD, kernel(Kernel::Identity)),
        case("gauss3 gray8 1080p", Gray8, HD, kernel(Kernel::Gauss3)),
        case("gauss5 gray8 1080p", Gray8, HD, kernel(Kernel::Gauss5)),
        case("gauss7 gray8 1080p", Gray8, HD, kernel(Kernel::Gauss7)),
        case("gauss9 gray8 1080p", Gray8, HD, kernel(Kernel::Gauss9)),
        case("box3 gray8 1080p", Gray8, HD, kernel(Kernel::Box3)),
        case("box7 gray8 1080p", Gray8, HD, kernel(Kernel::Box7)),
        case("box r16 gray8 1080p", Gray8, HD, radius(Kernel::Box, 16)),
        case(
            "gauss r10 gray8 1080p",
            Gray8,
            HD,
            radius(Kernel::Gauss, 10),
        ),
        case("gauss s1.2 ayuv 1080p", Ayuv, HD, sigma(1.2)),
        case("gauss s1.2 rgba 1080p", Rgba, HD, sigma(1.2)),
        case("gauss s1.2 nv12 1080p", Nv12, HD, sigma(1.2)),
        case("gauss s1.2 gray8 1080p", Gray8, HD, sigma(1.2)),
        case("gauss s1.2 i420-10 1080p", I42010le, HD, sigma(1.2)),
        case("sharpen gray8 1080p", Gray8, HD, kernel(Kernel::Sharpen)),
        case("emboss gray8 1080p", Gray8, HD, kernel(Kernel::Emboss)),
        case(
            "laplacian gray8 1080p",
            Gray8,
            HD,
            kernel(Kernel::Laplacian),
        ),
        case(
            "unsharp r4 gray8 1080p",
            Gray8,
            HD,
            radius(Kernel::Unsharp, 4),
        ),
        case("sobel-x gray8 1080p", Gray8, HD, kernel(Kernel::SobelX)),
        case("sobel gray8 1080p", Gray8, HD, kernel(Kernel::Sobel)),
        case("gauss3 gray8 480p", Gray8, VGA, kernel(Kernel::Gauss3)),
        case("gauss3 i420 1080p", I420, HD, kernel(Kernel::Gauss3)),
        case("gauss3 nv12 1080p", Nv12, HD, kernel(Kernel::Gauss3)),
        case("gauss3 yuy2 1080p", Yuy2, HD, kernel(Kernel::Gauss3)),
        case("gauss3 rgb 1080p", Rgb, HD, kernel(Kernel::Gauss3)),
        case("gauss3 bgrx 1080p", Bgrx, HD, kernel(Kernel::Gauss3)),
        case("gauss7 bgr 1080p", Bgr, HD, kernel(Kernel::Gauss7)),
        case(
            "gauss3 rgba premultiplied 1080p",
            Rgba,
            HD,
            FilterSpec {
                alpha: Alpha::Premultiply,
                ..FilterSpec::default()
            },
        ),
        case("gauss3 i420-10 1080p", I42010le, HD, kernel(Kernel::Gauss3)),
        case("gauss7 p010 1080p", P01010le, HD, kernel(Kernel::Gauss7)),
        case("bilateral r7 gray8 480p", Gray8, VGA, bilateral()),
        case("bilateral r7 gray8 1080p", Gray8, HD, bilateral()),
        case(
            "bilateral r7 square gray8 480p",
            Gray8,
            VGA,
            square(Method::Auto, 7),
        ),
        case(
            "bilateral r7 fast gray8 480p",
            Gray8,
            VGA,
            square(Method::Fast, 7),
        ),
        case(
            "bilateral r15 square gray8 480p",
            Gray8,
            VGA,
            square(Method::Auto, 15),
        ),
        case(
            "bilateral r15 fast gray8 480p",
            Gray8,
            VGA,
            square(Method::Fast, 15),
        ),
        case(
            "bilateral r15 square i420-10 480p",
            I42010le,
            VGA,
            square(Method::Auto, 15),
        ),
        case(
            "bilateral r15 fast i420-10 480p",
            I42010le,
            VGA,
            square(Method::Fast, 15),
        ),
        case(
            "whole 15x15 gray8 1080p",
            Gray8,
            HD,
            custom(Method::Auto, 15, 1.0),
        ),
        case("fft 15x15 gray8 1080p", Gray8, HD, thirds(Method::Fft, 15)),
        case(
            "thirds 15x15 gray8 1080p",
            Gray8,
            HD,
            thirds(Method::Auto, 15),
        ),
        case(
            "whole 25x25 gray8 1080p",
            Gray8,
            HD,
            custom(Method::Auto, 25, 1.0),
        ),
        case(
            "thirds 25x25 gray8 1080p",
            Gray8,
            HD,
            thirds(Method::Auto, 25),
        ),
        case("fft 25x25 gray8 1080p", Gray8, HD, thirds(Method::Fft, 25)),
        case(
            "whole 31x31 gray8 1080p",
            Gray8,
            HD,
            custom(Method::Auto, 31, 1.0),
        ),
        case(
            "thirds 31x31 gray8 1080p",
            Gray8,
            HD,
            thirds(Method::Auto, 31),
        ),
        case("fft 31x31 gray8 1080p", Gray8, HD, thirds(Method::Fft, 31)),
        case(
            "thirds 25x25 rgba 1080p",
            Rgba,
            HD,
            thirds(Method::Auto, 25),
        ),
        case("fft 25x25 rgba 1080p", Rgba, HD, thirds(Method::Fft, 25)),
        case(
            "thirds 25x25 i420-10 1080p",
            I42010le,
            HD,
            thirds(Method::Auto, 25),
        ),
        case(
            "fft 25x25 i420-10 1080p",
            I42010le,
            HD,
            thirds(Method::Fft, 25),
        ),
        case("bilateral r7 i420 1080p", I420, HD, bilateral()),
        case("bilateral r7 i420-10 1080p", I42010le, HD, bilateral()),
        case("bilateral r7 rgb 1080p", Rgb, HD, bilateral()),
    ]
}

/// Planes one behind the other, rows padded to a cache line as decoders do.
fn spans(layout: &Layout) -> (Vec<PlaneSpan>, usize) {
    let mut offset = 0;
    let planes = layout.planes.iter().map(|size| {
        let stride = size.row_bytes.next_multiple_of(64);
        let span = PlaneSpan {
            memory: 0,
            offset,
            stride,
        };
        offset += stride * size.rows;
        span
    });
    (planes.collect(), offset)
}

fn frame(layout: &Layout, seed: u64) -> Frame {
    let (spans, len) = spans(layout);
    let mut state = seed;
    let input: Vec<u8> = (0..len)
        .map(|_| {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1);
            (state >> 56) as u8
        })
        .collect();
    let input = InputFrame::new(layout, vec![Box::new(input)], spans.clone());
    let output = OutputFrame::new(layout, vec![Box::new(vec![0u8; len])], spans);
    Frame {
        input: input.expect("planes of the layout"),
        output: output.expect("planes of the layout"),
        interlaced: false,
    }
}

/// The time that all threads of the process were computing so far. Other processes lengthen it
/// less than they lengthen the time that passes.
fn cpu_time() -> Duration {
    let mut time = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: writes `time`, which lives; the clock exists on every Linux.
    let result = unsafe { libc::clock_gettime(libc::CLOCK_PROCESS_CPUTIME_ID, &mut time) };
    assert_eq!(result, 0);
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

struct Times {
    /// Computing time of a frame, all threads together.
    computing: Duration,
    /// From submission to the frame, sorted.
    total: Vec<Duration>,
    /// Median inside the engine.
    kernel: Duration,
}

fn time(prepared: &Arc<dyn Prepared>, layout: &Layout) -> Times {
    // Two frames in turn, so that the input of one is not all that the caches hold.
    let mut frames = [Some(frame(layout, 1)), Some(frame(layout, 2))];
    let (mut total, mut kernel) = (Vec::new(), Vec::new());
    let (mut begin, mut computing) = (Instant::now(), Duration::ZERO);
    for count in 0.. {
        let slot = &mut frames[count % 2];
        let submitted = Instant::now();
        let ticket = prepared.submit(slot.take().expect("given back"));
        let (frame, timing) = ticket.wait();
        let elapsed = submitted.elapsed();
        *slot = Some(frame);
        let timing = timing.expect("filtered");
        if count < 2 {
            (begin, computing) = (Instant::now(), cpu_time());
            continue;
        }
        total.push(elapsed);
        kernel.push(timing.kernel);
        if total.len() >= MIN_FRAMES && begin.elapsed() >= CASE_TIME {
            break;
        }
    }
    let computing = (cpu_time() - computing) / total.len() as u32;
    total.sort();
    kernel.sort();
    Times {
        computing,
        kernel: kernel[kernel.len() / 2],
        total,
    }
}

fn main() {
    let arguments: Vec<String> = std::env::args()
        .skip(1)
        .filter(|a| a != "--bench")
        .collect();
    let tsv = arguments.iter().any(|a| a == "--tsv");
    let filters: Vec<&String> = arguments.iter().filter(|a| !a.starts_with("--")).collect();
    gst::init().expect("GStreamer");
    let engine = CpuEngine::new().expect("a CPU engine");
    if !tsv {
        println!("{}", engine.device());
        println!(
            "{:34} {:>9} {:>9} {:>9} {:>9} {:>8} {:>7}",
            "", "median", "least", "engine", "computing", "ns/px", "GB/s"
        );
    }
    for case in cases() {
        if !filters.is_empty() && !filters.iter().any(|f| case.name.contains(f.as_str())) {
            continue;
        }
        let (width, height) = case.size;
        let info = gst_video::VideoInfo::builder(case.format, width, height).build();
        let layout = Arc::new(Layout::new(&info.expect("a size")).expect("a format"));
        let plan = Arc::new(Plan::new(&case.spec, &layout, engine.abilities()).expect("a plan"));
        let prepared = engine
            .prepare(&plan, true)
            .expect("prepared")
            .expect("ready");
        let times = time(&prepared, &layout);
        let (median, least) = (times.total[times.total.len() / 2], times.total[0]);
        if tsv {
            println!(
                "{}\t{}\t{}\t{}",
                case.name,
                median.as_nanos(),
                least.as_nanos(),
                times.computing.as_nanos()
            );
            continue;
        }
        let pixels = f64::from(width) * f64::from(height);
        let bytes: usize = layout.planes.iter().map(|p| 2 * p.row_bytes * p.rows).sum();
        let ms = |time: Duration| format!("{:.3}ms", time.as_secs_f64() * 1e3);
        println!(
            "{:34} {:>9} {:>9} {:>9} {:>9} {:>8.3} {:>7.2}",
            case.name,
            ms(median),
            ms(least),
            ms(times.kernel),
            ms(times.computing),
            median.as_secs_f64() * 1e9 / pixels,
            bytes as f64 / median.as_secs_f64() / 1e9,
        );
    }
}
