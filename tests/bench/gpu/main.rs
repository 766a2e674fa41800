//! Figures of the GPU: kernels, round trips through the element, and what they compare with, all
//! of one run. Prints a table; with `--out FILE` also writes it as TOML, for the record that
//! `scripts/gpu-verify.sh` makes. `--modules` only loads the kernels and tells how long that took;
//! `--round-trips` only takes frames through the element; `--crossovers` only says from what work on
//! frames are better on the GPU than on the CPU.

mod bounds;
mod crossovers;
mod figures;
mod line;
mod trips;

use std::sync::Arc;
use std::time::Duration;

use figures::Figures;
use gstcudaconv::engine::Engine;
use gstcudaconv::engine::cuda::CudaEngine;
use gstcudaconv::engine::cuda::measure::{Caches, Picture};
use gstcudaconv::filter::plan::{Algorithm, Correlation, Job, Operation, Plan, Taps};
use gstcudaconv::filter::spec::{Kernel, Method, Precision, Window};
use gstcudaconv::filter::{FilterSpec, Layout};

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
        return trips::round_trips(&engine, &mut Figures::default());
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
    other_formats(&engine, &mut figures);
    warm_caches(&engine, &mut figures);
    in_doubt(&engine, &mut figures);
    trips::round_trips(&engine, &mut figures);
    trips::others(&mut figures);
    trips::first_frame(&mut figures);
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
    let time = engine.time_kernels(&plan(&filter(name), &layout));
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

/// The plan of a filter that the GPU can compute.
fn plan(spec: &FilterSpec, layout: &Arc<Layout>) -> Arc<Plan> {
    let plan = Plan::new(spec, layout, &gstcudaconv::engine::cuda::ABILITIES);
    Arc::new(plan.expect("a plan"))
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

/// `kernel/KERNEL/METHOD/FORMAT/WxH`, with a copy on the device as the floor: the faster of the driver's and a kernel's.
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
        let floor = engine.time_device_copy(Caches::Cold, bytes(&layout));
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
                let is_exact = is_exact(&plan);
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
                if is_exact {
                    figures.last_is_exact();
                }
            }
        }
    }
}

/// Whether the bytes are those that `method=auto` promises.
fn is_exact(plan: &Plan) -> bool {
    let rounds_otherwise = |job: &Job| match &job.operation {
        Operation::Correlate(Correlation {
            taps: Taps::Sum(_), ..
        }) => !job.sums_are_whole(plan.layout.max_code()),
        _ => false,
    };
    !matches!(plan.algorithm, Algorithm::Fast | Algorithm::Fft)
        && !plan.jobs.iter().any(rounds_otherwise)
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
        let floor = engine.time_device_copy(Caches::Cold, bytes(&layout));
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
                let time = engine.time_kernels(&plan(&spec, &layout));
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

/// The same for layouts that are not of bytes in planes or in words, and for radii without a kernel of their own.
fn other_formats(engine: &CudaEngine, figures: &mut Figures) {
    let of = |kernel, radius| FilterSpec {
        kernel,
        radius,
        ..FilterSpec::default()
    };
    let auto = |figures: &mut Figures, name: &str, spec: &FilterSpec, format: &str, height: u32| {
        let layout = layout(format, height * 16 / 9, height);
        let floor = engine.time_device_copy(Caches::Cold, bytes(&layout));
        let time = engine.time_kernels(&plan(spec, &layout));
        figures.add(
            format!("kernel/{name}/auto/{format}/{}x{height}", layout.width),
            microseconds(time.unwrap_or_else(|error| panic!("{error}"))),
            "us",
            Some(microseconds(
                floor.unwrap_or_else(|error| panic!("{error}")),
            )),
        );
    };
    for format in ["YUY2", "RGB", "I420_10LE", "GRAY16_LE"] {
        for name in ["gauss3", "gauss7", "gauss15", "bilateral-r7"] {
            auto(figures, name, &filter(name), format, 1080);
        }
    }
    for (format, height) in [
        ("GRAY8", 1080),
        ("RGBA", 1080),
        ("P010_10LE", 1080),
        ("RGBA", 2160),
    ] {
        for radius in [1, 7, 16, 32] {
            let name = format!("box{}", 2 * radius + 1);
            auto(figures, &name, &of(Kernel::Box, radius), format, height);
        }
        for radius in [4, 12, 32] {
            let name = format!("gauss{}", 2 * radius + 1);
            auto(figures, &name, &of(Kernel::Gauss, radius), format, height);
        }
    }
}

/// `kernel-warm/KERNEL/auto/FORMAT/WxH`: the same of one frame again and again, which caches may hold, with a
/// copy of it as the floor.
fn warm_caches(engine: &CudaEngine, figures: &mut Figures) {
    for (format, width, height, names) in [
        ("GRAY8", 640, 480, &["bilateral-r7"][..]),
        (
            "GRAY8",
            1920,
            1080,
            &[
                "gauss3",
                "custom15x15",
                "fractions15x15",
                "bilateral-r7",
                "bilateral-r15",
            ],
        ),
        ("RGBA", 1920, 1080, &["gauss3", "bilateral-r7"]),
    ] {
        let layout = layout(format, width, height);
        let floor = engine.time_device_copy(Caches::Warm, bytes(&layout));
        let floor = floor.unwrap_or_else(|error| panic!("{error}"));
        for name in names {
            let plan = plan(&filter(name), &layout);
            let time = engine.time_kernels_on(Picture::Noise, Caches::Warm, &plan);
            figures.add(
                format!("kernel-warm/{name}/auto/{format}/{width}x{height}"),
                microseconds(time.unwrap_or_else(|error| panic!("{error}"))),
                "us",
                Some(microseconds(floor)),
            );
        }
    }
}

/// Kernels that compute results anew which lie midway between two code values, on frames in which all do.
fn in_doubt(engine: &CudaEngine, figures: &mut Figures) {
    let layout = layout("GRAY8", 1920, 1080);
    for name in ["gauss15", "fractions15x15"] {
        let spec = FilterSpec {
            bias: 0.5,
            ..filter(name)
        };
        let plan = plan(&spec, &layout);
        let time = engine.time_kernels_on(Picture::Level(0), Caches::Cold, &plan);
        figures.add(
            format!("kernel/{name}/auto-all-midway/GRAY8/1920x1080"),
            microseconds(time.unwrap_or_else(|error| panic!("{error}"))),
            "us",
            None,
        );
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
    let bound = bounds::seconds(engine, name, "fp16", format, width as u32 * height as u32);
    figures.add_with_bound(
        format!("kernel/{name}/fp16/{format}/{width}x{height}"),
        microseconds(time.unwrap_or_else(|error| panic!("{error}"))),
        "us",
        Some(microseconds(floor)),
        bound.map(|bound| microseconds(floor).max(1e6 * bound)),
    );
}
