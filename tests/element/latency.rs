//! Latency: what a query is answered, what a blocked sink does to it, and quality of service.

use std::time::Instant;

use gst::prelude::*;

use crate::common::frames::{assert_raised, gray, numbered, pts};
use crate::common::pads::{Latency, Pads, named};
use crate::common::pipelines::{self, RAISING};
use crate::common::watchdog::watched;
use crate::common::{raising, stat};

const MS: gst::ClockTime = gst::ClockTime::from_mseconds(1);

/// What a LATENCY query from downstream is answered.
fn ask(pads: &Pads) -> Latency {
    let mut query = gst::query::Latency::new();
    assert!(pads.sink.peer_query(&mut query), "the query is answered");
    query.result()
}

fn live(max: Option<gst::ClockTime>) -> Latency {
    (true, MS * 20, max)
}

/// Reported: the element hides its own time, so live pipelines drop every frame as late.
#[test]
fn a_live_query_gets_upstreams_minimum_and_whole_milliseconds_of_our_own() {
    watched(|| {
        for depth in [1u32, 2, 8] {
            for max in [None, Some(MS * 100)] {
                let element = raising();
                element.set_property("depth", depth);
                let pads = Pads::with_latency(element, live(max));
                pads.begin(&gray());
                pads.push_all([0]);
                pads.wait_buffers(1);
                let (is_live, min, answered_max) = ask(&pads);
                assert!(is_live);
                let own = min - MS * 20;
                assert!(own >= MS, "at least 1 ms, not {own}");
                assert_eq!(own % MS, gst::ClockTime::ZERO, "whole milliseconds: {own}");
                // 25 frames a second: depth frame durations of 40 ms are more than our own time.
                let frames = own.max(MS * 40 * u64::from(depth));
                assert_eq!(answered_max, max.map(|max| max + frames));
            }
        }
    });
}

/// Reported: an unknown frame rate divides by zero here.
#[test]
fn a_live_query_without_a_frame_rate_adds_only_our_own_time_to_the_maximum() {
    watched(|| {
        let caps: gst::Caps = "video/x-raw,format=GRAY8,width=32,height=24,framerate=0/1"
            .parse()
            .expect("caps");
        let pads = Pads::with_latency(raising(), live(Some(MS * 100)));
        pads.begin(&caps);
        pads.push_all([0]);
        pads.wait_buffers(1);
        let (_, min, max) = ask(&pads);
        assert_eq!(max, Some(MS * 100 + (min - MS * 20)));
    });
}

/// Reported: a file is played with a delay because a filter claims latency for it.
#[test]
fn a_query_of_a_stream_that_is_not_live_gets_upstreams_answer() {
    watched(|| {
        for (min, max) in [(gst::ClockTime::ZERO, None), (MS * 7, Some(MS * 9))] {
            let pads = Pads::with_latency(raising(), (false, min, max));
            pads.begin(&gray());
            pads.push_all([0]);
            pads.wait_buffers(1);
            assert_eq!(ask(&pads), (false, min, max));
        }
    });
}

/// Reported: a query before caps, or while frames are blocked, hangs or fails.
#[test]
fn a_query_is_answered_before_caps_and_while_frames_are_blocked() {
    watched(|| {
        let pads = Pads::with_latency(raising(), live(None));
        pads.play();
        let (is_live, min, _) = ask(&pads);
        assert!(is_live && min >= MS * 20);
        pads.begin_stream("later", &gray());
        pads.close_gate();
        let pusher = pads.push_from_thread(0..20);
        pads.wait_blocked();
        let (is_live, min, _) = ask(&pads);
        assert!(is_live && min > MS * 20);
        pads.open_gate();
        assert_eq!(pusher.join(), Ok(gst::FlowSuccess::Ok));
    });
}

/// Reported: a sink that waits for the clock makes every frame look late, and the latency of the
/// pipeline grows and grows.
#[test]
fn a_sink_that_blocks_raises_neither_the_latency_nor_the_answer() {
    watched(|| {
        let element = raising();
        element.set_property("post-messages", true);
        let pads = Pads::with_latency(element, live(None));
        pads.begin(&gray());
        pads.push_all(0..4);
        pads.wait_buffers(4);
        let before = ask(&pads);
        pads.messages();
        pads.close_gate();
        let pusher = pads.push_from_thread(4..10);
        pads.wait_blocked();
        let closed = Instant::now();
        // The blocking itself, not a wait for something to happen.
        std::thread::sleep(std::time::Duration::from_millis(400));
        let blocked = closed.elapsed().as_nanos() as u64;
        pads.open_gate();
        assert_eq!(pusher.join(), Ok(gst::FlowSuccess::Ok));
        pads.wait_buffers(10);
        assert!(pads.end());
        pads.wait_event(gst::EventType::Eos);
        let messages = pads.messages();
        let frames = named(&messages, "cudaconv-latency");
        let of = |frame: &gst::Structure, field| frame.get::<u64>(field).expect("a uint64");
        for frame in &frames {
            let latency = of(frame, "latency-ns");
            assert!(latency < blocked / 3, "{latency} of {blocked} ns: {frame}");
        }
        // The frames that were ready, or waited for a slot, meanwhile say so.
        let waited = frames
            .iter()
            .filter(|frame| of(frame, "stage-blocked-ns") > blocked / 2)
            .count();
        assert!(waited >= 2, "{frames:?}");
        // A frame that really took longer may raise it, the blocking may not.
        let raised = (ask(&pads).1 - before.1).nseconds();
        assert!(raised < blocked / 3, "{raised} of {blocked} ns");
    });
}

/// Reported: a paused pipeline counts the pause as latency.
#[test]
fn a_sink_in_preroll_makes_no_frame_late() {
    watched(|| {
        let pipeline = pipelines::parse(&format!(
            "videotestsrc num-buffers=6 ! video/x-raw,format=GRAY8,width=32,height=24 ! \
             {RAISING} ! fakesink name=out sync=false"
        ));
        let started = Instant::now();
        pipeline.set_state(gst::State::Paused).expect("pauses");
        let (ready, _, _) = pipeline.state(gst::ClockTime::from_seconds(60));
        ready.expect("prerolls");
        std::thread::sleep(std::time::Duration::from_millis(300));
        let paused = started.elapsed().as_nanos() as u64;
        let filter = pipelines::filter(&pipeline);
        pipelines::play(&pipeline);
        let worst = stat(&filter, "latency-max-ns");
        assert!(worst * 3 < paused * 2, "{worst} of {paused} ns");
    });
}

fn qos_event(time: gst::ClockTime, jitter: i64) -> gst::Event {
    gst::event::Qos::builder(gst::QOSType::Underflow, 2.0, jitter)
        .timestamp(time)
        .build()
}

/// A live stream whose sink has said that it is late by `late` at time 0.
fn late_stream(qos: bool, latency: Latency, late: gst::ClockTime) -> Pads {
    let element = raising();
    element.set_property("qos", qos);
    let pads = Pads::with_latency(element, latency);
    pads.begin(&gray());
    pads.push_all([0]);
    pads.wait_buffers(1);
    ask(&pads);
    let event = qos_event(pts(0), late.nseconds() as i64);
    assert!(pads.sink.push_event(event));
    pads
}

/// Reported: a late live stream filters every frame only for the sink to drop it, or drops without
/// a count.
#[test]
fn a_late_live_stream_drops_before_filtering_counts_tells_and_recovers() {
    watched(|| {
        let pads = late_stream(true, live(None), pts(5));
        pads.push_all(1..40);
        assert!(pads.end());
        pads.wait_event(gst::EventType::Eos);
        let numbers: Vec<u64> = pads.buffers().iter().map(|b| b.offset()).collect();
        for number in 1..4 {
            assert!(
                !numbers.contains(&number),
                "frame {number} is late: {numbers:?}"
            );
        }
        for number in 20..40 {
            assert!(
                numbers.contains(&number),
                "frame {number} is in time: {numbers:?}"
            );
        }
        assert_raised(&pads.buffers(), numbers.iter().copied());
        let dropped = 40 - numbers.len() as u64;
        assert_eq!(stat(&pads.element, "dropped"), dropped);
        assert_eq!(stat(&pads.element, "frames-in"), 40);
        assert_eq!(stat(&pads.element, "frames-out"), numbers.len() as u64);
        let types: Vec<_> = pads.upstream_events().iter().map(|e| e.type_()).collect();
        assert!(types.contains(&gst::EventType::Qos), "upstream hears too");
        let told = pads.messages();
        let qos: Vec<_> = told
            .iter()
            .filter(|m| m.type_() == gst::MessageType::Qos)
            .collect();
        assert!(!qos.is_empty(), "a QoS message tells of the drops");
    });
}

/// Reported: a file loses frames because the disk was slow for a moment.
#[test]
fn a_stream_that_is_not_live_never_drops_for_being_late() {
    watched(|| {
        let pads = late_stream(true, (false, gst::ClockTime::ZERO, None), pts(20));
        pads.push_all(1..40);
        pads.wait_buffers(40);
        assert_raised(&pads.buffers(), 0..40);
        assert_eq!(stat(&pads.element, "dropped"), 0);
    });
}

/// Reported: drops cannot be switched off, or switching them off eats the events.
#[test]
fn without_qos_events_are_only_forwarded() {
    watched(|| {
        let pads = late_stream(false, live(None), pts(20));
        pads.push_all(1..40);
        pads.wait_buffers(40);
        assert_raised(&pads.buffers(), 0..40);
        let types: Vec<_> = pads.upstream_events().iter().map(|e| e.type_()).collect();
        assert!(types.contains(&gst::EventType::Qos));
    });
}

/// Reported: an old QoS event goes on dropping frames after a seek.
#[test]
fn a_flush_forgets_that_the_stream_was_late() {
    watched(|| {
        let pads = late_stream(true, live(None), pts(1000));
        pads.flush();
        pads.forget();
        pads.push_all(0..10);
        pads.wait_buffers(10);
        assert_raised(&pads.buffers(), 0..10);
    });
}

/// Reported: frames without time stamps panic or are all dropped once the sink was late.
#[test]
fn a_frame_without_time_stamp_is_never_late() {
    watched(|| {
        let pads = late_stream(true, live(None), pts(1000));
        let mut frame = numbered(3);
        frame
            .get_mut()
            .expect("one owner")
            .set_pts(gst::ClockTime::NONE);
        assert_eq!(pads.src.push(frame), Ok(gst::FlowSuccess::Ok));
        pads.wait_buffers(2);
    });
}

/// Reported: a live stream drops frames at its start, because setting up counts as lateness.
#[test]
fn a_live_stream_gives_all_its_frames() {
    watched(|| {
        let outcome = pipelines::run(&format!(
            "videotestsrc is-live=true num-buffers=15 ! \
             video/x-raw,format=I420,width=320,height=240,framerate=30/1 ! {RAISING} ! \
             fakesink name=out sync=true"
        ));
        outcome.assert_frames(15);
        let summary = named(&outcome.messages, "cudaconv-summary").remove(0);
        assert_eq!(summary.get::<u64>("dropped"), Ok(0));
        assert_eq!(summary.get::<u64>("frames-out"), Ok(15));
    });
}
