//! Figures of the GPU: kernels, round trips through the element, and what they compare with, all
//! of one run. Prints a table; with `--out FILE` also writes it as TOML, for the record that
//! `scripts/gpu-verify.sh` makes. `--modules` only loads the kernels and tells how long that took;
//! `--round-trips` only takes frames through the element; `--crossovers` only says from what work on
//! frames are better on the GPU than on the CPU.

mod bounds;
mod crossovers;
mod figures;
mod line;

use std::sync::Arc;
use std::time::{Duration, Instant};

use figures::Figures;
use gst::prelude::*;
use gstcudaconv::engine::Engine;
use gstcudaconv::engine::cuda::CudaEngine;
use gstcudaconv::filter::plan::Plan;
use gstcudaconv::filter::spec::{Kernel, Method, Precision, Window};
use gstcudaconv::filter::{FilterSpec, Layout};
use line::{Line, Memory};

fn main() {
    gst::init().expect("GStreamer starts");
    gstcudaconv::plugin_register_static().expect("the plugin registers");
    let engine = match CudaEngine::open(-1, 2) {
        Ok(engine) => engine,
        Err(error) => {
            println!("skipped, for want of a GPU: {error}");
            return;
        }
    };
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if arguments.iter().any(|argument| argument == "--modules") {
        return modules(&engine);
    }
    if arguments.iter().any(|argument| argument == "--crossovers") {
        return crossovers::print();
    }
    if let Some(at) = arguments.iter().position(|argument| argument == "--kernel") {
        return launch(&engine, &arguments[at + 1..]);
    }
    if arguments.iter().any(|argument| argument == "--round-trips") {
        return round_trips(&engine, &mut Figures::default());
    }
    let out = arguments.iter().position(|argument| argument == "--out");
    let out = out.and_then(|at| arguments.get(at + 1));
    let mut figures = Figures::default();
    kernels(&engine, &mut figures);
    let poor = figures.poor_choices();
    for choice in &poor {
        println!("auto is not the fastest: {choice}");
    }
    figures.add(
        "choice/auto-is-not-the-fastest".into(),
        poor.len() as f64,
        "kernels",
        None,
    );
    large_kernels(&engine, &mut figures);
    round_trips(&engine, &mut figures);
    others(&mut figures);
    first_frame(&mut figures);
    if let Some(file) = out {
        std::fs::write(file, figures.to_toml(&engine)).expect("the file can be written");
    }
}

/// `--kernel NAME FORMAT WIDTH HEIGHT`: launches it some hundred times, for profilers.
fn launch(engine: &CudaEngine, words: &[String]) {
    let [name, format, width, height] = words else {
        panic!("--kernel NAME FORMAT WIDTH HEIGHT");
    };
    let side = |word: &String| word.parse().expect("a number of pixels");
    let layout = layout(format, side(width), side(height));
    let plan = Plan::new(
        &filter(name),
        &layout,
        &gstcudaconv::engine::cuda::ABILITIES,
    );
    let time = engine.time_kernels(&Arc::new(plan.expect("a plan")));
    let time = time.unwrap_or_else(|error| panic!("{error}"));
    println!(
        "{name} {format} {width}x{height}: {:.1} us",
        microseconds(time)
    );
}

fn modules(engine: &CudaEngine) {
    for module in engine.load_all().unwrap_or_else(|error| panic!("{error}")) {
        let ms = module.load_time.as_secs_f64() * 1e3;
        println!("module {:<10} {ms:>8.1} ms", module.name);
        for kernel in &module.kernels {
            println!(
                "  {:<22} {:>3} registers, {} bytes spilled",
                kernel.name, kernel.registers, kernel.local_bytes
            );
        }
    }
}

/// A filter under the name that figures call it by.
fn filters() -> Vec<(&'static str, FilterSpec)> {
    let of = |kernel, radius| FilterSpec {
        kernel,
        radius,
        ..FilterSpec::default()
    };
    let weights = || (0..225).map(|i| i * 29 % 17 - 7);
    let matrix: String = weights().map(|weight| format!("{weight} ")).collect();
    // No power of ten makes these whole.
    let fractions: String = weights()
        .map(|weight| format!("{} ", f64::from(weight) / 3.0))
        .collect();
    vec![
        ("gauss3", of(Kernel::Gauss3, 0)),
        ("gauss7", of(Kernel::Gauss7, 0)),
        ("gauss15", of(Kernel::Gauss, 7)),
        ("sobel", of(Kernel::Sobel, 0)),
        ("emboss", of(Kernel::Emboss, 0)),
        (
            "custom15x15",
            FilterSpec {
                matrix: Some(matrix.parse().expect("225 numbers")),
                ..of(Kernel::Custom, 0)
            },
        ),
        (
            "fractions15x15",
            FilterSpec {
                matrix: Some(fractions.parse().expect("225 numbers")),
                ..of(Kernel::Custom, 0)
            },
        ),
        ("bilateral-r7", of(Kernel::Bilateral, 7)),
        ("bilateral-r15", of(Kernel::Bilateral, 15)),
    ]
}

fn filter(name: &str) -> FilterSpec {
    let filters = filters();
    let found = filters.into_iter().find(|(known, _)| *known == name);
    found.expect("a filter of the list").1
}

fn layout(format: &str, width: u32, height: u32) -> Arc<Layout> {
    let info = gst_video::VideoInfo::from_caps(&line::caps(format, width, height));
    Arc::new(Layout::new(&info.expect("caps of video")).expect("a format"))
}

/// Bytes of the pixels of a frame.
fn bytes(layout: &Layout) -> usize {
    (layout.planes.iter())
        .map(|size| size.row_bytes * size.rows)
        .sum()
}

fn microseconds(time: Duration) -> f64 {
    time.as_secs_f64() * 1e6
}

/// `kernel/KERNEL/METHOD/FORMAT/WxH`, with a copy on the device as the floor.
fn kernels(engine: &CudaEngine, figures: &mut Figures) {
    for (format, width, height) in [
        ("GRAY8", 640, 480),
        ("GRAY8", 1920, 1080),
        ("NV12", 1920, 1080),
        ("RGBA", 1920, 1080),
        ("P010_10LE", 1920, 1080),
        ("RGBA", 3840, 2160),
    ] {
        let layout = layout(format, width, height);
        let floor = engine.time_device_copy(bytes(&layout));
        let floor = floor.unwrap_or_else(|error| panic!("{error}"));
        for (name, spec) in filters() {
            if name == "bilateral-r15" && format != "GRAY8" {
                continue;
            }
            in_halves(engine, figures, (name, &spec), (&layout, floor));
            for method in [
                Method::Auto,
                Method::Naive,
                Method::Tile,
                Method::Separable,
                Method::Fast,
            ] {
                let spec = FilterSpec {
                    method,
                    // The only one that levels can do.
                    window: match method {
                        Method::Fast => Window::Square,
                        _ => spec.window,
                    },
                    ..spec.clone()
                };
                let abilities = &gstcudaconv::engine::cuda::ABILITIES;
                let Ok(plan) = Plan::new(&spec, &layout, abilities) else {
                    continue;
                };
                let algorithm = plan.algorithm.nick();
                let method = match method {
                    Method::Auto => "auto",
                    _ => algorithm,
                };
                let time = engine.time_kernels(&Arc::new(plan));
                // Whatever is counted, the bytes are to be moved.
                let bound = bounds::seconds(engine, name, method, format, width * height);
                let bound = bound.map(|bound| microseconds(floor).max(1e6 * bound));
                figures.add_with_bound(
                    format!("kernel/{name}/{method}/{format}/{width}x{height}"),
                    microseconds(time.unwrap_or_else(|error| panic!("{error}"))),
                    "us",
                    Some(microseconds(floor)),
                    bound,
                );
            }
        }
    }
}

/// The same for kernels that the Fourier transform is for.
fn large_kernels(engine: &CudaEngine, figures: &mut Figures) {
    let custom = |side: i32, unit: f64| {
        let weights = (0..side * side).map(|i| format!("{} ", f64::from(i * 29 % 17 - 7) * unit));
        FilterSpec {
            kernel: Kernel::Custom,
            matrix: Some(weights.collect::<String>().parse().expect("a square")),
            ..FilterSpec::default()
        }
    };
    for format in ["GRAY8", "RGBA"] {
        let layout = layout(format, 1920, 1080);
        let floor = engine.time_device_copy(bytes(&layout));
        let floor = floor.unwrap_or_else(|error| panic!("{error}"));
        for (name, spec) in [
            ("custom25x25", custom(25, 1.0)),
            ("fractions25x25", custom(25, 1.0 / 3.0)),
            ("fractions31x31", custom(31, 1.0 / 3.0)),
        ] {
            for method in [Method::Auto, Method::Fft] {
                let spec = FilterSpec {
                    method,
                    ..spec.clone()
                };
                let plan = Plan::new(&spec, &layout, &gstcudaconv::engine::cuda::ABILITIES);
                let time = engine.time_kernels(&Arc::new(plan.expect("a plan")));
                figures.add(
                    format!("kernel/{name}/{}/{format}/1920x1080", method.nick()),
                    microseconds(time.unwrap_or_else(|error| panic!("{error}"))),
                    "us",
                    Some(microseconds(floor)),
                );
            }
        }
    }
}

/// `kernel/KERNEL/fp16/FORMAT/WxH`, where weights are rounded to float16.
fn in_halves(
    engine: &CudaEngine,
    figures: &mut Figures,
    (name, spec): (&str, &FilterSpec),
    (layout, floor): (&Arc<Layout>, Duration),
) {
    let spec = FilterSpec {
        precision: Precision::Fp16,
        ..spec.clone()
    };
    let Ok(plan) = Plan::new(&spec, layout, &gstcudaconv::engine::cuda::ABILITIES) else {
        return;
    };
    let plan = Arc::new(plan);
    let prepared = engine.prepare(&plan, true);
    let prepared = prepared.unwrap_or_else(|error| panic!("{error}"));
    if prepared.is_none_or(|prepared| prepared.precision() != Precision::Fp16) {
        return;
    }
    let time = engine.time_kernels(&plan);
    let Layout {
        format,
        width,
        height,
        ..
    } = **layout;
    figures.add(
        format!("kernel/{name}/fp16/{format}/{width}x{height}"),
        microseconds(time.unwrap_or_else(|error| panic!("{error}"))),
        "us",
        Some(microseconds(floor)),
    );
}

const TRIPS: [(&str, &str, u32, u32); 7] = [
    ("gauss3", "GRAY8", 640, 480),
    ("gauss3", "GRAY8", 1920, 1080),
    ("gauss3", "NV12", 1920, 1080),
    ("gauss3", "RGBA", 1920, 1080),
    ("gauss3", "RGBA", 3840, 2160),
    ("bilateral-r7", "GRAY8", 1920, 1080),
    ("bilateral-r7", "RGBA", 1920, 1080),
];

/// `roundtrip/KERNEL/FORMAT/WxH/…`: latency against upload + kernel + download one after the
/// other, throughput against both directions of PCIe at once.
fn round_trips(engine: &CudaEngine, figures: &mut Figures) {
    for (name, format, width, height) in TRIPS {
        let layout = layout(format, width, height);
        let spec = filter(name);
        let plan = Plan::new(&spec, &layout, &gstcudaconv::engine::cuda::ABILITIES);
        let kernel = engine.time_kernels(&Arc::new(plan.expect("a plan")));
        let kernel = kernel.unwrap_or_else(|error| panic!("{error}"));
        let copies = engine.time_copies(bytes(&layout));
        let copies = copies.unwrap_or_else(|error| panic!("{error}"));
        let serial = microseconds(copies.up + kernel + copies.down);
        // A kernel longer than the copies is the slower of what runs at once.
        let duplex = 1.0 / copies.both.max(kernel).as_secs_f64();
        let trip = format!("roundtrip/{name}/{format}/{width}x{height}");
        if name == "gauss3" {
            figures.add(
                format!("pcie/duplex-round/{format}/{width}x{height}"),
                1.0 / copies.both_round.as_secs_f64(),
                "fps",
                Some(1.0 / copies.both.as_secs_f64()),
            );
        }
        let element = |depth: u32| {
            let element = gst::ElementFactory::make("cudaconv")
                .property_from_str("backend", "cuda")
                .property("depth", depth)
                .property_from_str("kernel", name.split('-').next().unwrap_or(name))
                .property("radius", spec.radius as i32);
            element.build().expect("the element is registered")
        };
        let caps = line::caps(format, width, height);
        let pinned = |depth| Line::new(element(depth), &caps, Memory::Pinned);
        let foreign = |depth| Line::new(element(depth), &caps, Memory::Foreign);
        let line = pinned(2);
        figures.add(
            format!("{trip}/latency"),
            microseconds(line.latency()),
            "us",
            Some(serial),
        );
        println!("    {}", line.stages());
        for (suffix, line) in [
            ("throughput", pinned(2)),
            ("throughput-depth3", pinned(3)),
            ("foreign-throughput", foreign(3)),
        ] {
            let rate = line.throughput();
            figures.add(format!("{trip}/{suffix}"), rate, "fps", Some(duplex));
            println!("    {}", line.stages());
        }
        figures.add(
            format!("{trip}/foreign-latency"),
            microseconds(foreign(2).latency()),
            "us",
            Some(serial),
        );
    }
}

/// With caps between them, without which both pass frames on as they are.
const GPU_AND_BACK: &str = "cudaupload ! video/x-raw(memory:CUDAMemory) ! cudadownload";

/// GStreamer's own elements that bring frames to the GPU and back, and filter nothing.
fn others(figures: &mut Figures) {
    for (format, width, height) in [
        ("GRAY8", 1920, 1080),
        ("NV12", 1920, 1080),
        ("RGBA", 1920, 1080),
    ] {
        let bin = gst::parse::bin_from_description(GPU_AND_BACK, true);
        let (Ok(bin), Some(upload)) = (bin, gst::ElementFactory::find("cudaupload")) else {
            println!("cudaupload and cudadownload are not installed: not compared");
            return;
        };
        let caps = line::caps(format, width, height);
        if !upload.can_sink_all_caps(&caps) {
            println!("cudaupload does not take {format}: not compared");
            continue;
        }
        let rate = Line::new(bin.upcast(), &caps, Memory::Foreign).throughput();
        let name = format!("cudaupload-cudadownload/{format}/{width}x{height}/throughput");
        figures.add(name, rate, "fps", None);
    }
}

/// Later frames that the first is compared with.
const PACED_FRAMES: usize = 31;
/// Between two frames of a camera.
const PACE: Duration = Duration::from_millis(33);

/// The first frame after the caps, against later ones that come as far apart as a camera's: a device and
/// processors that had nothing to do wake up for each of them.
fn first_frame(figures: &mut Figures) {
    let element = gst::ElementFactory::make("cudaconv").property_from_str("backend", "cuda");
    let element = element.build().expect("the element is registered");
    let started = Instant::now();
    let line = Line::new(element, &line::caps("NV12", 1920, 1080), Memory::Pinned);
    let start_up = started.elapsed();
    let first = line.one();
    println!("    {}", line.stages());
    let mut later: Vec<Duration> = (0..PACED_FRAMES)
        .map(|_| {
            std::thread::sleep(PACE);
            line.one()
        })
        .collect();
    later.sort_unstable();
    let steady = later[later.len() / 2];
    figures.add(
        "start/gauss3/NV12/1920x1080/first-frame".into(),
        microseconds(first),
        "us",
        Some(microseconds(steady)),
    );
    figures.add(
        "start/gauss3/NV12/1920x1080/start-up".into(),
        microseconds(start_up) / 1e3,
        "ms",
        None,
    );
}
