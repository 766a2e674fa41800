//! Work that takes twice the frame time: what each policy makes of a live stream and of a file.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use gst::prelude::*;

use crate::common::pipelines::{self, Outcome};
use crate::common::stats;
use crate::common::watchdog::{measured, watched};
use crate::on_test_driver;

/// At 30 frames a second.
const PERIOD: Duration = Duration::from_nanos(1_000_000_000 / 30);
const FRAMES: u64 = 60;
const DEPTH: u64 = 2;
/// Kernels of two periods, one after the other.
const TWICE: [(&str, &str); 2] = [
    ("FAKECUDA_SLOW", "cuLaunchKernel:1+:66667"),
    ("FAKECUDA_SERIAL", "1"),
];
/// A frame alone fits, one that waits for another does not.
const FITS_ALONE: &str = "budget=85000000";

/// In slots, between its slot and its push, and at the door.
const MOST_INSIDE: u64 = DEPTH + 2;

/// What a stream of [`FRAMES`] frames did.
struct Stream {
    outcome: Outcome,
    stats: gst::Structure,
    /// From a frame's time to its arrival at the sink, in running time.
    delays: Vec<Duration>,
    /// The most frames that were in the element at once.
    inside: u64,
}

impl Stream {
    fn count(&self, field: &str) -> u64 {
        self.stats.get::<u64>(field).expect("a uint64")
    }

    /// QoS messages of the filter.
    fn told(&self) -> u64 {
        let told = self.outcome.messages.iter().filter(|message| {
            message.type_() == gst::MessageType::Qos
                && message.src().is_some_and(|src| src.name() == "filter")
        });
        told.count() as u64
    }

    /// Fails unless the counts add up, what was dropped was told, and what comes behind a gap is
    /// marked.
    fn assert_accounted(&self) {
        assert_eq!(self.outcome.error, None);
        let passed = &self.outcome.passed.buffers;
        assert_eq!(self.count("frames-in"), FRAMES);
        assert_eq!(self.count("frames-out"), passed.len() as u64);
        assert_eq!(self.count("dropped"), FRAMES - passed.len() as u64);
        assert_eq!(self.told(), self.count("dropped"));
        for pair in passed.windows(2) {
            let gap = pair[1].offset() != pair[0].offset() + 1;
            let marked = pair[1].flags().contains(gst::BufferFlags::DISCONT);
            assert_eq!(gap, marked, "frame {} is behind a gap", pair[1].offset());
        }
    }

    /// Fails unless frames come out at most `depth + 1` frames of work and `more` late, without a
    /// queue that grows.
    fn check_live(&self, more: Duration) -> Result<(), String> {
        let most = self.delays.iter().max().copied().unwrap_or_default();
        let bound = 2 * PERIOD * (DEPTH as u32 + 1) + more;
        if most > bound.mul_f64(1.1) || self.inside > MOST_INSIDE {
            let inside = self.inside;
            return Err(format!(
                "{inside} inside, late by {most:?} of {bound:?}: {}",
                self.stats
            ));
        }
        Ok(())
    }
}

/// Plays frames through the filter with `settings`.
fn play(source: &str, settings: &str, sink: &str) -> Stream {
    let pipeline = pipelines::parse(&format!(
        "videotestsrc {source} num-buffers={FRAMES} ! \
         video/x-raw,format=GRAY8,width=64,height=48,framerate=30/1 ! \
         cudaconv name=filter backend=cuda depth={DEPTH} {settings} ! fakesink name=out {sink}"
    ));
    let element = pipelines::filter(&pipeline);
    let inside = Arc::new(Mutex::new(0));
    let (most, watched) = (inside.clone(), element.clone());
    let arrives = element.static_pad("sink").expect("a sink pad");
    arrives.add_probe(gst::PadProbeType::BUFFER, move |_, _| {
        let stats = stats(&watched);
        let get = |field: &str| stats.get::<u64>(field).expect("a uint64");
        let mut most = most.lock().expect("not poisoned");
        // The one that arrives counts too.
        *most = (get("frames-in") + 1 - get("frames-out") - get("dropped")).max(*most);
        gst::PadProbeReturn::Ok
    });
    let delays = Arc::new(Mutex::new(Vec::new()));
    let (writer, watched) = (delays.clone(), element.clone());
    let leaves = element.static_pad("src").expect("a source pad");
    leaves.add_probe(gst::PadProbeType::BUFFER, move |_, info| {
        let time = info.buffer().and_then(|buffer| buffer.pts());
        if let (Some(now), Some(time)) = (watched.current_running_time(), time) {
            let late = Duration::from_nanos(now.saturating_sub(time).nseconds());
            writer.lock().expect("not poisoned").push(late);
        }
        gst::PadProbeReturn::Ok
    });
    let outcome = pipelines::play(&pipeline);
    let delays = std::mem::take(&mut *delays.lock().expect("not poisoned"));
    let inside = *inside.lock().expect("not poisoned");
    Stream {
        outcome,
        stats: stats(&element),
        delays,
        inside,
    }
}

const LIVE: &str = "is-live=true";

/// Reported: a live stream whose filter is too slow gets later and later.
#[test]
fn a_live_stream_of_twice_the_work_drops_what_would_be_late_and_stays_live() {
    on_test_driver!(&TWICE, || watched(|| {
        measured(|| {
            let settings = format!("over-budget=drop {FITS_ALONE}");
            let stream = play(LIVE, &settings, "sync=true qos=false");
            stream.assert_accounted();
            // Every other frame.
            let out = stream.count("frames-out");
            match (FRAMES / 3..=FRAMES * 2 / 3).contains(&out) {
                true => stream.check_live(Duration::ZERO),
                false => Err(format!("{out} came out: {}", stream.stats)),
            }
        });
    }));
}

#[test]
fn a_live_stream_of_twice_the_work_passes_unfiltered_what_would_be_late() {
    on_test_driver!(&TWICE, || watched(|| {
        measured(|| {
            let settings = format!("over-budget=bypass {FITS_ALONE}");
            let stream = play(LIVE, &settings, "sync=true qos=false");
            stream.assert_accounted();
            assert_eq!(stream.count("frames-out"), FRAMES);
            let bypassed = stream.count("bypassed");
            match (FRAMES / 3..=FRAMES * 2 / 3).contains(&bypassed) {
                true => stream.check_live(Duration::ZERO),
                false => Err(format!("{bypassed} were bypassed: {}", stream.stats)),
            }
        });
    }));
}

/// No frame fits: one a second is filtered all the same, to see whether it still takes as long.
#[test]
fn a_live_stream_whose_every_frame_is_over_budget_serves_one_a_second() {
    on_test_driver!(&TWICE, || watched(|| {
        measured(|| {
            let stream = play(LIVE, "over-budget=drop", "sync=true qos=false");
            stream.assert_accounted();
            match stream.count("frames-out") {
                1..=3 => stream.check_live(Duration::ZERO),
                out => Err(format!("{out} came out: {}", stream.stats)),
            }
        });
    }));
}

/// The sink says that frames are late, and the filter drops before it works on them. The sink says
/// so of frames that are later than the latency it was told: two trial frames.
#[test]
fn a_live_stream_of_twice_the_work_follows_its_sink() {
    on_test_driver!(&TWICE, || watched(|| {
        measured(|| {
            let stream = play(LIVE, "over-budget=report", "sync=true qos=true");
            stream.assert_accounted();
            assert_eq!(stream.count("bypassed"), 0);
            let dropped = stream.count("dropped");
            match dropped >= FRAMES / 4 {
                true => stream.check_live(4 * PERIOD + PERIOD / 2),
                false => Err(format!("{dropped} were dropped: {}", stream.stats)),
            }
        });
    }));
}

/// Reported: a file loses frames because the machine is slow.
#[test]
fn a_file_of_twice_the_work_loses_nothing_but_under_drop() {
    on_test_driver!(&TWICE, || watched(|| {
        for policy in ["report", "bypass"] {
            let settings = format!("over-budget={policy} {FITS_ALONE}");
            let stream = play("", &settings, "sync=true qos=true");
            stream.assert_accounted();
            assert_eq!(stream.count("frames-out"), FRAMES, "{policy}");
            let bypassed = stream.count("bypassed");
            assert_eq!(bypassed > 0, policy == "bypass", "{bypassed} bypassed");
            let inside = stream.inside;
            assert!(inside <= MOST_INSIDE, "{inside} inside");
        }
        let settings = format!("over-budget=drop {FITS_ALONE}");
        let stream = play("", &settings, "sync=true qos=true");
        stream.assert_accounted();
        assert!(stream.count("dropped") > 0);
    }));
}

/// Reported: a healthy live stream has late frames, because the filter's latency is not told.
#[test]
fn a_live_stream_whose_work_fits_has_no_late_frame() {
    let half = ("FAKECUDA_SLOW", "cuLaunchKernel:1+:15000");
    on_test_driver!(&[half, TWICE[1]], || watched(|| {
        measured(|| {
            let sink = "sync=true qos=true max-lateness=1000000";
            let stream = play(LIVE, "", sink);
            stream.assert_accounted();
            let out = stream.count("frames-out");
            let late = stream.outcome.messages.iter().filter(|message| {
                // A sink tells of each frame that it does not show.
                message.type_() == gst::MessageType::Qos
            });
            // The sink waits for the clock with each frame, which is no latency of the filter's.
            let latency = Duration::from_nanos(stream.count("latency-p50-ns"));
            match (out, late.count()) {
                (FRAMES, 0) if latency < PERIOD * 2 / 3 => stream.check_live(Duration::ZERO),
                (out, late) => Err(format!("{out} came out, {late} late: {}", stream.stats)),
            }
        });
    }));
}
