//! Copies of one frame run during kernels of another.

use std::time::{Duration, Instant};

use gstcudaconv::engine::Engine;
use gstcudaconv::filter::FilterSpec;
use gstcudaconv::filter::spec::{Kernel, Method};
use gstcudaconv::latency::EngineTiming;

use crate::support::{self, Memory, TIGHT};

fn overlap(a: (Instant, Instant), b: (Instant, Instant)) -> Duration {
    a.1.min(b.1).saturating_duration_since(a.0.max(b.0))
}

fn upload(timing: &EngineTiming) -> (Instant, Instant) {
    (timing.started, timing.started + timing.upload)
}

fn kernel(timing: &EngineTiming) -> (Instant, Instant) {
    let start = timing.started + timing.upload;
    (start, start + timing.kernel)
}

#[test]
fn uploads_run_during_kernels_of_other_frames() {
    let Some(gpu) = support::gpu(2) else { return };
    let allocator = gpu.allocator().expect("pinned memory");
    let memory = (Memory::From(&allocator), TIGHT);
    let layout = support::layout(gst_video::VideoFormat::Rgba, 3840, 2160);
    let spec = FilterSpec {
        kernel: Kernel::Bilateral,
        radius: 7,
        ..FilterSpec::default()
    };
    let plan = support::plan(&spec, Method::Auto, &layout, support::gpu_abilities());
    let prepared = support::prepare(&gpu, &plan.expect("a plan"));
    let mut spare = vec![
        support::frame(&layout, 1, memory, memory, false),
        support::frame(&layout, 2, memory, memory, false),
    ];
    let mut timings: Vec<EngineTiming> = Vec::new();
    let mut flying = std::collections::VecDeque::new();
    for _ in 0..20 {
        let frame = spare.pop().expect("two frames go round");
        flying.push_back(prepared.submit(frame));
        if flying.len() == 2 {
            let (frame, timing) = flying.pop_front().expect("two are flying").wait();
            timings.push(timing.unwrap_or_else(|error| panic!("{error}")));
            spare.push(frame);
        }
    }
    let hidden: Duration = (timings.windows(2))
        .map(|pair| overlap(kernel(&pair[0]), upload(&pair[1])))
        .sum();
    let uploads: Duration = timings.iter().map(|timing| timing.upload).sum();
    let start = timings[0].started;
    support::say("timeline of the first frames, in µs: upload, kernel, download");
    for (n, timing) in timings.iter().take(6).enumerate() {
        let at = |moment: Instant| moment.duration_since(start).as_micros();
        let (up, run) = (upload(timing), kernel(timing));
        support::say(&format!(
            "  frame {n}: {:>6}-{:<6} {:>6}-{:<6} {:>6}-{:<6}",
            at(up.0),
            at(up.1),
            at(run.0),
            at(run.1),
            at(run.1),
            at(timing.finished),
        ));
    }
    support::say(&format!(
        "{:.0} % of the uploads ran during kernels",
        100.0 * hidden.as_secs_f64() / uploads.as_secs_f64()
    ));
    assert!(hidden * 4 > uploads, "{hidden:?} of {uploads:?} overlap");
}
