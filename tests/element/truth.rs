//! What a frame cost is told as it was: by stage, whatever downstream does, and as GStreamer's own
//! tracer measures it.

use std::time::{Duration, Instant};

use gst::prelude::*;

use crate::common::frames::{self, gray_of, numbered_as};
use crate::common::isolated;
use crate::common::pads::{Pads, named};
use crate::common::pipelines;
use crate::common::stages::{Cost, check_explained, check_only, costs, median, typical};
use crate::common::watchdog::{measured, watched};
use crate::common::{backend, cudaconv};

const FRAMES: u64 = 12;

/// Frames, and the radius of a naive bilateral of theirs, that take milliseconds on any backend.
fn heavy() -> (gst::Caps, &'static str) {
    match backend() {
        "cuda" => (gray_of(3840, 2160), "20"),
        _ => (gray_of(64, 48), "5"),
    }
}

fn told_stream(properties: &[(&str, &str)], caps: &gst::Caps) -> Pads {
    let element = cudaconv(properties);
    element.set_property("post-messages", true);
    let pads = Pads::around(element);
    pads.begin(caps);
    pads
}

/// What frames cost that come one after the other, each when the one before is out, and how long
/// each took from push to arrival in microseconds.
fn one_by_one(pads: &Pads, caps: &gst::Caps) -> (Vec<Cost>, Vec<f64>) {
    let mut seen = Vec::new();
    for number in 0..FRAMES {
        pads.forget();
        let frame = numbered_as(caps, number);
        let pushed = Instant::now();
        assert!(pads.src.push(frame).is_ok());
        pads.wait_buffers(1);
        seen.push(pushed.elapsed().as_secs_f64() * 1e6);
    }
    (costs(pads), seen)
}

/// More work shows in the stage of the work; all stages together are what it takes from outside.
#[test]
fn a_slow_engine_shows_as_kernel_alone() {
    watched(|| {
        let (caps, radius) = heavy();
        measured(|| {
            let light = told_stream(&[("kernel", "identity")], &caps);
            let (before, _) = one_by_one(&light, &caps);
            let heavy = [
                ("kernel", "bilateral"),
                ("radius", radius),
                ("method", "naive"),
            ];
            let heavy = told_stream(&heavy, &caps);
            let (after, seen) = one_by_one(&heavy, &caps);
            check_explained(&before)?;
            check_explained(&after)?;
            let (before, after) = (typical(&before), typical(&after));
            let work = after.stage("kernel") - before.stage("kernel");
            check_only("kernel", work, &before, &after)?;
            // From outside it takes no less, and not much more.
            let seen = median(seen);
            match work > 1_000.0 && after.latency <= seen && after.latency > seen * 0.8 {
                true => Ok(()),
                false => Err(format!("{seen} µs from outside, {after:?}")),
            }
        });
    });
}

/// With one slot each frame waits for the work on the one before, and nothing else grows.
#[test]
fn a_busy_slot_shows_as_wait_alone() {
    watched(|| {
        let (caps, radius) = heavy();
        measured(|| {
            let heavy = [
                ("kernel", "bilateral"),
                ("radius", radius),
                ("method", "naive"),
                ("depth", "1"),
            ];
            let pads = told_stream(&heavy, &caps);
            for number in 0..FRAMES {
                assert!(pads.src.push(numbered_as(&caps, number)).is_ok());
            }
            pads.wait_buffers(FRAMES as usize);
            let costs = costs(&pads);
            check_explained(&costs)?;
            // A frame arrives as soon as the one before has its slot.
            let pairs = costs.windows(2);
            let share = median(pairs.map(|pair| pair[1].stage("wait") / pair[0].stage("kernel")));
            let typical = typical(&costs);
            let small = typical.stage("kernel") / 4.0;
            let others = ["copy-in", "upload", "download", "blocked"];
            let alone = others.iter().all(|name| typical.stage(name) < small);
            match (0.9..1.25).contains(&share) && alone {
                true => Ok(()),
                false => Err(format!("{share} of the work before: {costs:?}")),
            }
        });
    });
}

/// Each frame waits for the one before it to be taken: only `blocked` grows.
#[test]
fn a_slow_sink_shows_as_blocked_alone() {
    watched(|| {
        const SLOW: Duration = Duration::from_millis(20);
        let caps = frames::gray();
        measured(|| {
            let pads = told_stream(&[("kernel", "gauss3")], &caps);
            let before = typical(&one_by_one(&pads, &caps).0);
            let probe = pads.sink.add_probe(gst::PadProbeType::BUFFER, |_, _| {
                std::thread::sleep(SLOW);
                gst::PadProbeReturn::Ok
            });
            pads.forget();
            pads.push_all(0..FRAMES);
            pads.wait_buffers(FRAMES as usize);
            pads.sink.remove_probe(probe.expect("a probe is added"));
            let after = costs(&pads);
            check_explained(&after)?;
            let delay = SLOW.as_secs_f64() * 1e6;
            check_only("blocked", delay, &before, &typical(&after))
        });
    });
}

/// The process writes what the tracer says to this file.
const LOG: &str = "tracer.log";

/// Reported: the figures of an element are not those of the tools that everybody uses.
#[test]
fn the_latency_tracer_of_gstreamer_agrees() {
    watched(|| {
        let log = crate::common::scratch_folder().join(LOG);
        let log = log.to_str().expect("a plain name");
        isolated::passes(
            "truth::alone_the_latency_tracer_of_gstreamer_agrees",
            &[
                ("GST_TRACERS", "latency(flags=element)"),
                ("GST_DEBUG", "GST_TRACER:7"),
                ("GST_DEBUG_NO_COLOR", "1"),
                ("GST_DEBUG_FILE", log),
            ],
        );
    });
}

#[test]
#[ignore = "the_latency_tracer_of_gstreamer_agrees runs it in a process of its own"]
fn alone_the_latency_tracer_of_gstreamer_agrees() {
    if !isolated::is_alone() {
        return;
    }
    let log = std::env::var("GST_DEBUG_FILE").expect("a file for the tracer");
    watched(move || {
        let mut seen = 0;
        for kernel in ["gauss3", "bilateral radius=5 method=naive"] {
            measured_once_more(kernel, &log, &mut seen);
        }
    });
}

/// Frames through a pipeline; what the tracer says of them since `seen` lines is what we say.
fn measured_once_more(kernel: &str, log: &str, seen: &mut usize) {
    let mut wrong = Vec::new();
    for _ in 0..5 {
        let outcome = pipelines::run(&format!(
            "videotestsrc num-buffers=30 ! video/x-raw,format=GRAY8,width=64,height=48 ! \
             cudaconv name=filter backend={} kernel={kernel} post-messages=true ! \
             fakesink name=out sync=false",
            backend()
        ));
        outcome.assert_frames(30);
        let told = named(&outcome.messages, "cudaconv-latency");
        let told = told.iter().map(Cost::of);
        let told = median(told.map(|cost| cost.latency + cost.stage("blocked")));
        let text = std::fs::read_to_string(log).expect("the tracer's log");
        let lines: Vec<&str> = text.lines().collect();
        let traced = lines[*seen..].iter().filter_map(|line| tracer_time(line));
        let traced: Vec<f64> = traced.collect();
        *seen = lines.len();
        assert!(traced.len() >= 25, "the tracer saw {} frames", traced.len());
        let traced = median(traced);
        println!("{kernel}: {told:.1} µs by our messages, {traced:.1} µs by the tracer");
        if (traced - told).abs() <= (told * 0.05).max(100.0) {
            return;
        }
        wrong.push((told, traced));
    }
    panic!("{kernel}: (told, traced) in µs: {wrong:?}");
}

/// Microseconds that a line of the tracer's log gives for the element.
fn tracer_time(line: &str) -> Option<f64> {
    if !line.contains("element-latency,") || !line.contains("element=(string)filter,") {
        return None;
    }
    let time = line.split("time=(guint64)").nth(1)?;
    let digits = time.split(|c: char| !c.is_ascii_digit()).next()?;
    digits.parse::<f64>().ok().map(|ns| ns / 1e3)
}
