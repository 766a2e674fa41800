//! Frames through the element, and through what it compares with.

use std::sync::Arc;
use std::time::{Duration, Instant};

use gst::prelude::*;
use gstcudaconv::engine::cuda::CudaEngine;
use gstcudaconv::filter::plan::Plan;

use crate::figures::Figures;
use crate::line::{self, Line, Memory};
use crate::{bytes, filter, layout, microseconds};

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
pub fn round_trips(engine: &CudaEngine, figures: &mut Figures) {
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
pub fn others(figures: &mut Figures) {
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
pub fn first_frame(figures: &mut Figures) {
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
