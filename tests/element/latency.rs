//! Latency: what a query is answered, what a blocked sink does to it, and quality of service.

use std::sync::{Arc, Mutex};
use std::time::Instant;

use gst::prelude::*;

use crate::common::frames::{assert_raised, gray, numbered, pts};
use crate::common::pads::{Latency, Pads, named};
use crate::common::pipelines::{self, RAISING};
use crate::common::watchdog::{measured, watched};
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

const BLOCKED: std::time::Duration = std::time::Duration::from_millis(300);

fn ns(frame: &gst::Structure, field: &str) -> u64 {
    frame.get::<u64>(field).expect("a uint64")
}

/// Fails unless the latency of every frame is far less than the time that the sink was blocked.
fn check_latencies(frames: &[gst::Structure], blocked: u64) -> Result<(), String> {
    match frames
        .iter()
        .find(|frame| ns(frame, "latency-ns") > blocked / 3)
    {
        Some(late) => Err(format!("of {blocked} ns: {late}")),
        None => Ok(()),
    }
}

/// Closes the gate, pushes frames from another thread, calls `meanwhile`, opens the gate after a
/// while; what was told of the frames, and how many nanoseconds the sink was blocked.
fn block_for_a_while(
    pads: &Pads,
    numbers: std::ops::Range<u64>,
    meanwhile: impl FnOnce(),
) -> (Vec<gst::Structure>, u64) {
    pads.messages();
    pads.close_gate();
    let last = numbers.end as usize;
    let pusher = pads.push_from_thread(numbers);
    pads.wait_blocked();
    let closed = Instant::now();
    meanwhile();
    // The blocking itself, not a wait for something to happen.
    std::thread::sleep(BLOCKED);
    let blocked = closed.elapsed().as_nanos() as u64;
    pads.open_gate();
    assert_eq!(pusher.join(), Ok(gst::FlowSuccess::Ok));
    pads.wait_buffers(last);
    (named(&pads.messages(), "cudaconv-latency"), blocked)
}

/// A live stream that tells of every frame, four of which have passed.
fn told_live_stream() -> Pads {
    let element = raising();
    element.set_property("post-messages", true);
    let pads = Pads::with_latency(element, live(None));
    pads.begin(&gray());
    pads.push_all(0..4);
    pads.wait_buffers(4);
    pads
}

/// Reported: a sink that waits for the clock makes every frame look late, and the latency of the
/// pipeline grows and grows.
#[test]
fn a_sink_that_blocks_raises_neither_the_latency_nor_the_answer() {
    watched(|| {
        measured(|| {
            let pads = told_live_stream();
            let before = ask(&pads).1;
            let (frames, blocked) = block_for_a_while(&pads, 4..10, || ());
            check_latencies(&frames, blocked)?;
            // The frames that were ready, or waited for a slot, meanwhile say so.
            let waited = frames
                .iter()
                .filter(|frame| ns(frame, "stage-blocked-ns") > blocked / 2)
                .count();
            // A frame that really took longer may raise it, the blocking may not.
            let raised = (ask(&pads).1 - before).nseconds();
            match waited >= 2 && raised < blocked / 3 {
                true => Ok(()),
                false => Err(format!("raised by {raised} of {blocked} ns: {frames:#?}")),
            }
        });
    });
}

/// Reported: the same where downstream asks for a new negotiation, which waits for the frames.
#[test]
fn a_negotiation_behind_a_blocked_sink_makes_no_frame_late() {
    watched(|| {
        measured(|| {
            let pads = told_live_stream();
            // The first frame is blocked, the others fit into slots: the next to come negotiates.
            let (frames, blocked) = block_for_a_while(&pads, 4..10, || {
                assert!(pads.sink.push_event(gst::event::Reconfigure::new()));
            });
            check_latencies(&frames, blocked)
        });
    });
}

/// Reported: the same where the negotiation is asked for before the sink blocks.
#[test]
fn a_negotiation_that_meets_a_blocked_sink_makes_no_frame_late() {
    watched(|| {
        measured(|| {
            let pads = told_live_stream();
            let sink = pads.sink.clone();
            pads.close_gate();
            pads.push_all([4]);
            pads.wait_blocked();
            assert!(sink.push_event(gst::event::Reconfigure::new()));
            let (frames, blocked) = block_for_a_while(&pads, 5..9, || ());
            check_latencies(&frames, blocked)
        });
    });
}

/// Reported: the same where downstream has few buffers and keeps them while it waits.
#[test]
fn a_sink_that_keeps_its_few_buffers_makes_no_frame_late() {
    watched(|| {
        measured(|| {
            let element = raising();
            element.set_property("post-messages", true);
            let pads = Pads::with_latency(element, live(None));
            let pool = gst_video::VideoBufferPool::new();
            pads.answer_allocation(move |query| {
                query.add_allocation_pool(Some(&pool), 32 * 24, 0, 2);
                query.add_allocation_meta::<gst_video::VideoMeta>(None);
                true
            });
            pads.begin(&gray());
            // The buffers that came out are kept, so the third frame has none.
            let pusher = pads.push_from_thread(0..4);
            pads.wait_buffers(2);
            let kept = Instant::now();
            std::thread::sleep(BLOCKED);
            pads.forget();
            let blocked = kept.elapsed().as_nanos() as u64;
            pads.wait_buffers(2);
            assert_eq!(pusher.join(), Ok(gst::FlowSuccess::Ok));
            check_latencies(&named(&pads.messages(), "cudaconv-latency"), blocked)
        });
    });
}

/// Reported: a paused pipeline counts the pause as latency.
#[test]
fn a_sink_in_preroll_makes_no_frame_late() {
    watched(|| {
        measured(|| {
            let pipeline = pipelines::parse(&format!(
                "videotestsrc num-buffers=6 ! video/x-raw,format=GRAY8,width=32,height=24 ! \
                 {RAISING} post-messages=true ! fakesink name=out sync=false"
            ));
            pipeline.set_state(gst::State::Paused).expect("pauses");
            let (ready, _, _) = pipeline.state(gst::ClockTime::from_seconds(60));
            ready.expect("prerolls");
            std::thread::sleep(BLOCKED);
            let outcome = pipelines::play(&pipeline);
            let frames = named(&outcome.messages, "cudaconv-latency");
            check_latencies(&frames, BLOCKED.as_nanos() as u64)
        });
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

/// A live stream of a hundred frames whose work is heavy for the first half and light for the
/// second; the statistics at half way.
fn half_heavy_stream() -> (gst::Pipeline, Arc<Mutex<Option<gst::Structure>>>) {
    let pipeline = pipelines::parse(
        "videotestsrc name=source is-live=true num-buffers=100 ! \
         video/x-raw,format=GRAY8,width=96,height=64,framerate=50/1 ! \
         cudaconv name=filter backend=cpu kernel=bilateral radius=7 method=naive ! \
         fakesink name=out sync=true qos=true",
    );
    let element = pipelines::filter(&pipeline);
    let half_way = Arc::new(Mutex::new(None));
    let writer = half_way.clone();
    let source = pipeline.by_name("source").and_then(|s| s.static_pad("src"));
    source
        .expect("a source")
        .add_probe(gst::PadProbeType::BUFFER, move |_, info| {
            if info.buffer().is_some_and(|buffer| buffer.offset() == 50) {
                *writer.lock().expect("not poisoned") = Some(crate::common::stats(&element));
                element.set_property_from_str("kernel", "identity");
            }
            gst::PadProbeReturn::Ok
        });
    (pipeline, half_way)
}

/// Reported: when the work takes longer than a frame period, delay builds up without end, drops are
/// not counted, and it never recovers.
#[test]
fn an_overloaded_live_stream_counts_its_drops_and_recovers() {
    watched(|| {
        measured(|| {
            let (pipeline, half_way) = half_heavy_stream();
            let filter = pipelines::filter(&pipeline);
            let outcome = pipelines::play(&pipeline);
            assert_eq!(outcome.error, None);
            let count = |field| stat(&filter, field);
            assert_eq!(count("frames-in"), 100);
            assert_eq!(count("frames-in"), count("frames-out") + count("dropped"));
            let half_way = half_way.lock().expect("not poisoned").take();
            let half_way = half_way.expect("half of the frames");
            // Where the machine is so fast that this is no load, there is nothing to drop.
            if ns(&half_way, "stage-kernel-p50-ns") > 25_000_000 {
                assert!(ns(&half_way, "dropped") > 0, "{half_way}");
                let told = outcome.messages.iter().map(|m| m.type_());
                assert!(told.filter(|t| *t == gst::MessageType::Qos).count() > 0);
            }
            let passed: Vec<u64> = outcome.passed.buffers.iter().map(|b| b.offset()).collect();
            match passed.iter().filter(|number| **number >= 80).count() {
                10.. => Ok(()),
                _ => Err(format!("not again: {passed:?}; half way {half_way}")),
            }
        });
    });
}
