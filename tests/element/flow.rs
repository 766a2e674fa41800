//! Frames in, frames out: number, order, time stamps, start and end of streams.

use std::sync::{Arc, Mutex};
use std::time::Instant;

use gst::prelude::*;

use crate::common::frames::{self, DURATION, assert_raised, gray, level, numbered, pts};
use crate::common::pads::{Pads, named, time_segment};
use crate::common::pipelines::{self, RAISING};
use crate::common::watchdog::watched;
use crate::common::{raising, stat};

const SOURCE: &str = "video/x-raw,format=GRAY8,width=32,height=24,framerate=1000/1";

/// Reported: with an asynchronous stage EOS travels faster than the last frames, and the tail of
/// the file is lost.
#[test]
fn every_frame_comes_out_before_the_one_eos() {
    watched(|| {
        for frames in [1, 2, 3, 5, 100] {
            for queue in ["", "queue ! "] {
                for sync in [false, true] {
                    let outcome = pipelines::run(&format!(
                        "videotestsrc num-buffers={frames} ! {SOURCE} ! {RAISING} ! {queue} \
                         fakesink name=out sync={sync}"
                    ));
                    outcome.assert_frames(frames);
                }
            }
        }
    });
}

/// Reported: a sink slower than the source loses the frames in flight at the end.
#[test]
fn a_slow_sink_gets_every_frame_before_eos() {
    watched(|| {
        for frames in [1, 2, 5] {
            let outcome = pipelines::run(&format!(
                "videotestsrc num-buffers={frames} ! {SOURCE} ! {RAISING} ! \
                 identity sleep-time=20000 ! fakesink name=out"
            ));
            outcome.assert_frames(frames);
        }
    });
}

/// Reported: a frame is held until the next one arrives, which costs a frame period of latency.
#[test]
fn a_frame_comes_out_without_another_buffer_or_event() {
    watched(|| {
        let pads = Pads::raising();
        for number in 0..5 {
            pads.push_all([number]);
            pads.wait_buffers(number as usize + 1);
        }
        assert_raised(&pads.buffers(), 0..5);
    });
}

/// Reported: the same, seen through a harness with caps set up by GStreamer's own helper.
#[test]
fn one_frame_in_gives_one_frame_out_in_a_harness() {
    watched(|| {
        let mut harness = gst_check::Harness::with_element(&raising(), Some("sink"), Some("src"));
        harness.set_src_caps(gray());
        let out = harness
            .push_and_pull(numbered(7))
            .expect("one frame comes out");
        assert_raised(&[out], [7]);
        assert!(harness.push_event(gst::event::Eos::new()));
        assert_eq!(harness.buffers_received(), 1);
    });
}

/// Reported: a live camera at 10 fps is shown one frame period late.
#[test]
fn a_live_frame_takes_far_less_than_the_frame_period() {
    watched(|| {
        const FRAMES: usize = 5;
        let pipeline = pipelines::parse(&format!(
            "videotestsrc is-live=true num-buffers={FRAMES} ! \
             video/x-raw,format=GRAY8,width=320,height=240,framerate=10/1 ! {RAISING} ! \
             fakesink name=out sync=false"
        ));
        let filter = pipelines::filter(&pipeline);
        let times = |pad: &str| {
            let seen = Arc::new(Mutex::new(Vec::new()));
            let writer = seen.clone();
            filter
                .static_pad(pad)
                .expect("both pads are always there")
                .add_probe(gst::PadProbeType::BUFFER, move |_, _| {
                    writer.lock().expect("not poisoned").push(Instant::now());
                    gst::PadProbeReturn::Ok
                });
            seen
        };
        let (arrived, left) = (times("sink"), times("src"));
        pipelines::play(&pipeline).assert_frames(FRAMES);
        let arrived = arrived.lock().expect("not poisoned");
        let left = left.lock().expect("not poisoned");
        let within = arrived.iter().zip(&*left).map(|(a, l)| *l - *a);
        let period = (*arrived.last().expect("frames") - arrived[0]) / (FRAMES as u32 - 1);
        // A busy machine delays some frames; one that holds frames delays them all by a period.
        let fastest = within.min().expect("frames");
        assert!(fastest * 3 < period, "{fastest:?} of {period:?}");
    });
}

fn untimed(number: u64) -> gst::Buffer {
    let mut buffer = numbered(number);
    let target = buffer.get_mut().expect("one owner");
    target.set_pts(gst::ClockTime::NONE);
    target.set_dts(gst::ClockTime::NONE);
    target.set_duration(gst::ClockTime::NONE);
    buffer
}

fn values(pads: &Pads) -> Vec<u8> {
    pads.buffers()
        .iter()
        .map(|b| frames::flat_value(&gray(), b))
        .collect()
}

/// Reported: buffers without PTS panic, or frames are lost because PTS is the key of the frames
/// in flight.
#[test]
fn frames_without_pts_come_out_in_order_and_without_pts() {
    watched(|| {
        let pads = Pads::around(raising());
        pads.play();
        assert!(pads.src.push_event(gst::event::StreamStart::new("bytes")));
        assert!(pads.src.push_event(gst::event::Caps::new(&gray())));
        let bytes = gst::FormattedSegment::<gst::format::Bytes>::new();
        assert!(pads.src.push_event(gst::event::Segment::new(&bytes)));
        for number in 0..10 {
            assert_eq!(pads.src.push(untimed(number)), Ok(gst::FlowSuccess::Ok));
        }
        assert!(pads.end());
        pads.wait_event(gst::EventType::Eos);
        assert_eq!(values(&pads), (1..=10).collect::<Vec<u8>>());
        assert!(pads.buffers().iter().all(|b| b.pts().is_none()));
        let latency = stat(&pads.element, "latency-max-ns");
        assert!(latency > 0, "latency comes from the monotonic clock");
    });
}

/// Reported: equal or backward time stamps lose or reorder frames.
#[test]
fn equal_and_backward_pts_keep_every_frame_in_order_of_arrival() {
    watched(|| {
        for times in [
            [5u64; 8],
            [7, 6, 5, 4, 3, 2, 1, 0],
            [0, 9, 1, 8, 2, 7, 3, 6],
        ] {
            let pads = Pads::raising();
            for (number, time) in times.iter().enumerate() {
                let mut buffer = numbered(number as u64);
                buffer.get_mut().expect("one owner").set_pts(pts(*time));
                assert_eq!(pads.src.push(buffer), Ok(gst::FlowSuccess::Ok));
            }
            pads.wait_buffers(times.len());
            assert_eq!(values(&pads), (1..=8).collect::<Vec<u8>>());
            let out: Vec<_> = pads.buffers().iter().map(|b| b.pts()).collect();
            assert_eq!(out, times.map(|t| Some(pts(t))));
        }
    });
}

/// Reported: streams with decoding time stamps only lose them.
#[test]
fn a_dts_without_pts_is_kept() {
    watched(|| {
        let pads = Pads::raising();
        let mut buffer = untimed(3);
        buffer.get_mut().expect("one owner").set_dts(pts(3));
        assert_eq!(pads.src.push(buffer), Ok(gst::FlowSuccess::Ok));
        pads.wait_buffers(1);
        let out = &pads.buffers()[0];
        assert_eq!((out.pts(), out.dts()), (None, Some(pts(3))));
    });
}

/// Reported: reverse playback breaks elements that reckon with rising time stamps.
#[test]
fn a_segment_of_rate_minus_one_passes_frames_and_segment() {
    watched(|| {
        let pads = Pads::around(raising());
        pads.play();
        assert!(pads.src.push_event(gst::event::StreamStart::new("reverse")));
        assert!(pads.src.push_event(gst::event::Caps::new(&gray())));
        let mut segment = gst::FormattedSegment::<gst::ClockTime>::new();
        segment.set_rate(-1.0);
        segment.set_stop(pts(10));
        assert!(pads.src.push_event(gst::event::Segment::new(&segment)));
        pads.push_all((0..10).rev());
        pads.wait_buffers(10);
        assert_raised(&pads.buffers(), (0..10).rev());
        let out = pads.events(gst::EventType::Segment).remove(0);
        match out.view() {
            gst::EventView::Segment(s) => assert_eq!(s.segment().rate(), -1.0),
            _ => unreachable!("events of one type were asked for"),
        }
    });
}

/// Reported: EOS with no buffer, or with no caps at all, hangs.
#[test]
fn eos_without_frames_or_caps_reaches_the_sink() {
    watched(|| {
        for source in [
            "videotestsrc num-buffers=0 ! video/x-raw,format=GRAY8,width=64,height=48",
            "fakesrc num-buffers=0",
        ] {
            let outcome = pipelines::run(&format!("{source} ! {RAISING} ! fakesink name=out"));
            outcome.assert_frames(0);
        }
    });
}

/// Reported: data without caps crashes or hangs the element.
#[test]
fn a_buffer_without_caps_is_not_negotiated() {
    watched(|| {
        let outcome = pipelines::run(&format!(
            "fakesrc num-buffers=3 sizetype=fixed sizemax=768 ! {RAISING} ! fakesink name=out"
        ));
        assert!(outcome.error.is_some(), "no caps is an error");
        assert_eq!(outcome.passed.buffers.len(), 0);
    });
}

/// Reported: a second run in the same element fails, or keeps the counts of the first.
#[test]
fn a_second_run_gives_as_many_frames_and_restarts_the_statistics() {
    watched(|| {
        let pipeline = pipelines::parse(&format!(
            "videotestsrc num-buffers=7 ! {SOURCE} ! {RAISING} ! fakesink name=out"
        ));
        let filter = pipelines::filter(&pipeline);
        let passed = pipelines::record(&pipeline);
        for run in 1..=3 {
            pipeline.set_state(gst::State::Playing).expect("plays");
            let (messages, error) = pipelines::wait_end(&pipeline);
            assert_eq!(error, None, "run {run}");
            assert_eq!(
                passed.lock().expect("not poisoned").buffers.len(),
                7 * run,
                "frames after run {run}"
            );
            let summary = named(&messages, "cudaconv-summary").remove(0);
            assert_eq!(summary.get::<u64>("frames-in"), Ok(7), "run {run}");
            assert_eq!(stat(&filter, "frames-out"), 7, "run {run}");
            pipeline.set_state(gst::State::Ready).expect("is ready");
        }
        pipeline.set_state(gst::State::Null).expect("stops");
    });
}

/// Reported: going up and down without data leaves the element unable to start.
#[test]
fn states_without_data_leave_the_element_usable() {
    watched(|| {
        let element = raising();
        for state in [
            gst::State::Ready,
            gst::State::Null,
            gst::State::Paused,
            gst::State::Ready,
            gst::State::Paused,
            gst::State::Null,
            gst::State::Playing,
            gst::State::Null,
        ] {
            element.set_state(state).expect("the state changes");
        }
        let pads = Pads::around(element);
        pads.begin(&gray());
        pads.push_all(0..4);
        pads.wait_buffers(4);
        assert_raised(&pads.buffers(), 0..4);
    });
}

/// Reported: frames after EOS and a new STREAM_START are refused.
#[test]
fn a_new_stream_after_eos_passes() {
    watched(|| {
        let pads = Pads::raising();
        pads.push_all(0..3);
        assert!(pads.end());
        pads.wait_event(gst::EventType::Eos);
        assert!(pads.src.push_event(gst::event::StreamStart::new("second")));
        assert!(pads.src.push_event(time_segment()));
        pads.push_all(3..8);
        assert!(pads.end());
        pads.wait_buffers(8);
        assert_raised(&pads.buffers(), 0..8);
    });
}

/// Reported: after EOS and a flush the stopped task never starts again.
#[test]
fn frames_pass_after_eos_and_a_flush() {
    watched(|| {
        let pads = Pads::raising();
        pads.push_all(0..2);
        assert!(pads.end());
        pads.wait_event(gst::EventType::Eos);
        pads.flush();
        pads.push_all(2..6);
        pads.wait_buffers(6);
        assert_raised(&pads.buffers(), 0..6);
    });
}

/// Reported: elements with their own chain function forget lists of buffers.
#[test]
fn a_buffer_list_passes_frame_by_frame() {
    watched(|| {
        let pads = Pads::raising();
        let mut list = gst::BufferList::new();
        {
            let list = list.get_mut().expect("one owner");
            (0..6).for_each(|number| list.add(numbered(number)));
        }
        assert_eq!(pads.src.push_list(list), Ok(gst::FlowSuccess::Ok));
        pads.wait_buffers(6);
        assert_raised(&pads.buffers(), 0..6);
    });
}

/// Reported: frames are lost, doubled or torn when more of them come than fit in flight.
#[test]
fn a_thousand_frames_pass_at_every_depth_each_once_and_whole() {
    watched(|| {
        for depth in [1u32, 2, 3, 8] {
            let element = raising();
            element.set_property("depth", depth);
            let pads = Pads::around(element);
            pads.begin(&gray());
            pads.push_all(0..250);
            assert!(pads.end());
            pads.wait_event(gst::EventType::Eos);
            assert_raised(&pads.buffers(), 0..250);
            assert_eq!(stat(&pads.element, "frames-in"), 250);
            assert_eq!(stat(&pads.element, "frames-out"), 250);
        }
    });
}

/// Reported: an element with its own thread still works on the caller's, so nothing overlaps.
#[test]
fn frames_leave_on_a_thread_of_the_element() {
    watched(|| {
        let pads = Pads::raising();
        let pushing = Arc::new(Mutex::new(None));
        let writer = pushing.clone();
        pads.sink.add_probe(gst::PadProbeType::BUFFER, move |_, _| {
            *writer.lock().expect("not poisoned") = Some(std::thread::current().id());
            gst::PadProbeReturn::Ok
        });
        pads.push_all([0]);
        pads.wait_buffers(1);
        let pushing = *pushing.lock().expect("not poisoned");
        assert_ne!(pushing, Some(std::thread::current().id()));
    });
}

/// Reported: the time stamps, offsets and flags of a frame end on another frame or vanish.
#[test]
fn times_offsets_and_flags_stay_with_their_frame() {
    watched(|| {
        let pads = Pads::raising();
        let odd = gst::BufferFlags::CORRUPTED
            | gst::BufferFlags::DISCONT
            | gst::BufferFlags::MARKER
            | gst::BufferFlags::DELTA_UNIT;
        for number in 0..6u64 {
            let mut buffer = numbered(number);
            let target = buffer.get_mut().expect("one owner");
            target.set_dts(pts(number + 100));
            target.set_duration(DURATION + gst::ClockTime::from_nseconds(number));
            target.set_offset(1000 + number);
            target.set_offset_end(1001 + number);
            if number % 2 == 1 {
                target.set_flags(odd);
            }
            assert_eq!(pads.src.push(buffer), Ok(gst::FlowSuccess::Ok));
        }
        pads.wait_buffers(6);
        for (number, out) in (0u64..).zip(pads.buffers()) {
            assert_eq!(frames::flat_value(&gray(), &out), level(number) + 1);
            assert_eq!(out.pts(), Some(pts(number)));
            assert_eq!(out.dts(), Some(pts(number + 100)));
            assert_eq!(
                out.duration(),
                Some(DURATION + gst::ClockTime::from_nseconds(number))
            );
            assert_eq!(out.offset(), 1000 + number);
            assert_eq!(out.offset_end(), 1001 + number);
            assert_eq!(out.flags().contains(odd), number % 2 == 1);
            assert_eq!(out.flags().intersects(odd), number % 2 == 1);
        }
    });
}

/// Reported: two of the element in a row fight over buffers, or wait for each other.
#[test]
fn three_in_a_row_pass_every_frame_once() {
    watched(|| {
        for format in ["GRAY8", "I420"] {
            let again = "cudaconv backend=cpu kernel=gauss3 bias=1";
            let pipeline = pipelines::parse(&format!(
                "videotestsrc name=source num-buffers=60 ! \
                 video/x-raw,format={format},width=32,height=24 ! {again} ! {again} depth=1 ! \
                 {RAISING} depth=8 ! fakesink name=out"
            ));
            pipelines::number_by_offset(&pipeline, "source");
            let outcome = pipelines::play(&pipeline);
            outcome.assert_frames(60);
            for (number, planes) in (0u64..).zip(outcome.pictures()) {
                assert!(planes[0].iter().all(|b| *b == level(number) + 3));
            }
        }
    });
}

/// Reported: applications that push and pull by hand hang at the end or get frames out of order.
#[test]
fn frames_of_an_appsrc_arrive_in_an_appsink() {
    watched(|| {
        let pipeline = pipelines::parse(&format!(
            "appsrc name=source format=time block=true max-buffers=2 ! {RAISING} ! \
             appsink name=out sync=false max-buffers=1"
        ));
        let source = pipeline.by_name("source").and_downcast::<gst_app::AppSrc>();
        let source = source.expect("an appsrc");
        source.set_caps(Some(&gray()));
        let sink = pipeline.by_name("out").and_downcast::<gst_app::AppSink>();
        let sink = sink.expect("an appsink");
        pipeline.set_state(gst::State::Playing).expect("plays");
        let pushing = std::thread::spawn(move || {
            for number in 0..50 {
                source.push_buffer(numbered(number)).expect("is taken");
            }
            source.end_of_stream().expect("ends");
        });
        let mut buffers = Vec::new();
        while let Ok(sample) = sink.pull_sample() {
            assert_eq!(sample.caps(), Some(gray().as_ref()));
            buffers.push(sample.buffer_owned().expect("a frame"));
        }
        pushing.join().expect("everything is taken");
        assert_raised(&buffers, 0..50);
        pipeline.set_state(gst::State::Null).expect("stops");
    });
}
