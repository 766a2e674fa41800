//! From what work on a frame on a GPU is sooner done with it than the CPU, there and back included.

use gst::prelude::*;
use gstcudaconv::engine::{cpu, crossover};
use gstcudaconv::filter::FilterSpec;
use gstcudaconv::filter::plan::Plan;
use gstcudaconv::filter::spec::Kernel;

use crate::line::{self, Line, Memory};
use crate::{filter, layout, microseconds};

/// Widths of pictures of 4:3.
const WIDTHS: [u32; 10] = [16, 32, 64, 96, 160, 256, 384, 512, 768, 1024];

fn element(backend: &str, spec: &FilterSpec) -> gst::Element {
    let kernel = spec.kernel.to_value();
    let (_, kernel) = gst::glib::EnumValue::from_value(&kernel).expect("an enum");
    let element = gst::ElementFactory::make("cudaconv")
        .property_from_str("backend", backend)
        .build()
        .expect("the element is registered");
    if let Some(matrix) = &spec.matrix {
        element.set_property("matrix", matrix.to_string());
    }
    element.set_property("radius", spec.radius as i32);
    element.set_property_from_str("kernel", kernel.nick());
    element
}

/// Prints a line a kernel and format: where both take the same time, between the last size at which the
/// CPU is sooner done and the next.
pub fn print() {
    let bilateral = |radius| FilterSpec {
        kernel: Kernel::Bilateral,
        radius,
        ..FilterSpec::default()
    };
    let specs = [
        ("gauss3", filter("gauss3")),
        ("gauss7", filter("gauss7")),
        ("sobel", filter("sobel")),
        ("emboss", filter("emboss")),
        ("custom15x15", filter("custom15x15")),
        ("bilateral-r2", bilateral(2)),
        ("bilateral-r7", bilateral(7)),
    ];
    println!("samples x coefficients at which CPU and GPU take the same time");
    for (name, spec) in &specs {
        for format in ["GRAY8", "GRAY16_LE"] {
            let mut last: Option<(f64, f64)> = None;
            let mut text = String::new();
            let mut crossing = None;
            for width in WIDTHS {
                let height = width * 3 / 4;
                let caps = line::caps(format, width, height);
                let time =
                    |backend, memory| Line::new(element(backend, spec), &caps, memory).latency();
                let on_cpu = microseconds(time("cpu", Memory::Foreign));
                let on_gpu = microseconds(time("cuda", Memory::Pinned));
                let layout = layout(format, width, height);
                let plan = Plan::new(spec, &layout, &cpu::ABILITIES).expect("the CPU can");
                let work = crossover::work(&plan);
                text += &format!("  {width}x{height} {on_cpu:.0}/{on_gpu:.0}");
                let ratio = on_cpu / on_gpu;
                if ratio >= 1.0 {
                    let (work_before, ratio_before) = last.unwrap_or((0.0, 0.0));
                    let part = (1.0 - ratio_before) / (ratio - ratio_before);
                    crossing = Some(work_before + part * (work - work_before));
                    break;
                }
                last = Some((work, ratio));
            }
            let found = match crossing {
                Some(work) => format!("{work:.0}"),
                None => "beyond".into(),
            };
            println!("crossover/{name}/{format} {found:>12}   CPU/GPU in us:{text}");
        }
    }
}
