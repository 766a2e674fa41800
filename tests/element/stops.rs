//! State changes at every bad moment: they return, and the next start works.

use std::sync::mpsc::channel;
use std::time::Duration;

use gst::prelude::*;

use crate::common::Random;
use crate::common::frames::{assert_raised, flat_value, gray, level, numbered};
use crate::common::pads::{Pads, texts};
use crate::common::pipelines::{self, RAISING};
use crate::common::raising;
use crate::common::watchdog::watched;

const SOURCE: &str =
    "videotestsrc name=source ! video/x-raw,format=GRAY8,width=32,height=24,framerate=200/1";

/// A pipeline that never ends by itself, its frames numbered by their offset.
fn endless(after: &str) -> gst::Pipeline {
    let pipeline = pipelines::parse(&format!("{SOURCE} ! {RAISING} ! {after}"));
    pipelines::number_by_offset(&pipeline, "source");
    pipeline
}

/// Fails unless the frames are 0, 1, 2, … each its own.
fn assert_from_zero(buffers: &[gst::Buffer]) {
    for (number, buffer) in (0u64..).zip(buffers) {
        assert_eq!(buffer.offset(), number, "no frame is lost or doubled");
        assert_eq!(flat_value(&gray(), buffer), level(number) + 1);
    }
}

fn assert_no_errors(pipeline: &gst::Pipeline) {
    let bus = pipeline.bus().expect("a pipeline has a bus");
    let messages: Vec<_> = std::iter::from_fn(|| bus.pop()).collect();
    let errors = texts(&messages, gst::MessageType::Error);
    assert!(errors.is_empty(), "{errors:?}");
}

/// Reported: stopping hangs now and then: the chain function waits for a slot, the task in a push,
/// and the state change for both.
#[test]
fn two_hundred_stops_at_random_moments_return_and_the_next_start_works() {
    watched(|| {
        let mut random = Random::new(0x5eed_0003);
        let sinks = [
            "fakesink name=out sync=false",
            "fakesink name=out sync=true",
            "queue ! fakesink name=out sync=true",
            "identity sleep-time=3000 ! fakesink name=out",
        ];
        for sink in sinks {
            let pipeline = endless(sink);
            let passed = pipelines::record(&pipeline);
            for _ in 0..50 {
                pipeline.set_state(gst::State::Playing).expect("plays");
                // The moment is what is tested; nothing waits for anything to happen by then.
                std::thread::sleep(Duration::from_micros(random.below(30_000)));
                pipeline.set_state(gst::State::Null).expect("stops");
                let buffers = std::mem::take(&mut *passed.lock().expect("not poisoned")).buffers;
                assert_from_zero(&buffers);
            }
            // Without an error, and with data once it is given the time.
            assert_no_errors(&pipeline);
            pipeline.set_state(gst::State::Playing).expect("plays");
            let (ready, _, _) = pipeline.state(gst::ClockTime::from_seconds(60));
            ready.expect("a frame arrives after all those stops");
            pipeline.set_state(gst::State::Null).expect("stops");
        }
    });
}

/// Reported: stopping a paused player hangs, because the sink holds the first frame and every
/// slot is full behind it.
#[test]
fn stops_while_paused_with_full_slots_return() {
    watched(|| {
        for depth in [1, 2, 8] {
            let pipeline = endless("fakesink name=out sync=true");
            pipelines::filter(&pipeline).set_property("depth", depth as u32);
            for _ in 0..10 {
                pipeline.set_state(gst::State::Paused).expect("pauses");
                let (ready, _, _) = pipeline.state(gst::ClockTime::from_seconds(60));
                ready.expect("prerolls");
                pipeline.set_state(gst::State::Null).expect("stops");
            }
            assert_no_errors(&pipeline);
        }
    });
}

/// Reported: the same one level up: back to READY and on, again and again.
#[test]
fn going_between_paused_playing_and_ready_works() {
    watched(|| {
        let pipeline = endless("fakesink name=out sync=true");
        let mut random = Random::new(0x5eed_0004);
        for _ in 0..60 {
            let state = match random.below(3) {
                0 => gst::State::Ready,
                1 => gst::State::Paused,
                _ => gst::State::Playing,
            };
            pipeline.set_state(state).expect("the state changes");
            std::thread::sleep(Duration::from_micros(random.below(3000)));
        }
        pipeline.set_state(gst::State::Null).expect("stops");
        assert_no_errors(&pipeline);
    });
}

/// Reported: stopping after the end of the stream hangs on a thread that already ended.
#[test]
fn stops_after_eos_return() {
    watched(|| {
        let pipeline = pipelines::parse(&format!(
            "videotestsrc num-buffers=3 ! video/x-raw,format=GRAY8,width=32,height=24 ! \
             {RAISING} ! fakesink name=out"
        ));
        for _ in 0..25 {
            pipeline.set_state(gst::State::Playing).expect("plays");
            let (_, error) = pipelines::wait_end(&pipeline);
            assert_eq!(error, None);
            pipeline.set_state(gst::State::Null).expect("stops");
        }
    });
}

/// Reported: a stop that meets the end of a seek starts the task of a pad that is going down.
#[test]
fn a_stop_at_the_same_time_as_flush_stop_returns() {
    watched(|| {
        let mut random = Random::new(0x5eed_0005);
        for _ in 0..50 {
            let pads = Pads::raising();
            pads.push_all(0..2);
            let src = pads.src.clone();
            let flushing = std::thread::spawn(move || {
                for _ in 0..3 {
                    src.push_event(gst::event::FlushStart::new());
                    src.push_event(gst::event::FlushStop::new(true));
                }
            });
            for _ in 0..random.below(200) {
                std::hint::spin_loop();
            }
            pads.element.set_state(gst::State::Null).expect("stops");
            flushing.join().expect("flushing returns");
        }
    });
}

/// Reported: the same with frames on their way and downstream blocked.
#[test]
fn a_stop_frees_a_push_that_waits_for_a_slot() {
    watched(|| {
        for depth in [1u32, 2, 8] {
            let element = raising();
            element.set_property("depth", depth);
            let pads = Pads::around(element);
            pads.begin(&gray());
            pads.close_gate();
            let pusher = pads.push_from_thread(0..100);
            pads.wait_blocked();
            pusher.wait_pushed(u64::from(depth));
            pads.stop();
            let end = pusher.join();
            assert_eq!(end, Err(gst::FlowError::Flushing));
            assert_eq!(pads.buffers().len(), 0);
            pads.open_gate();
            pads.begin(&gray());
            pads.push_all(0..5);
            pads.wait_buffers(5);
            assert_raised(&pads.buffers(), 0..5);
        }
    });
}

/// Reported: a stop hangs while new caps wait for the frames before them.
#[test]
fn a_stop_frees_caps_that_wait_for_the_frames_before_them() {
    watched(|| {
        let pads = Pads::raising();
        pads.close_gate();
        pads.push_all(0..2);
        pads.wait_blocked();
        let src = pads.src.clone();
        let caps = crate::common::frames::gray_of(64, 48);
        let pushing = std::thread::spawn(move || src.push_event(gst::event::Caps::new(&caps)));
        pads.stop();
        let _ = pushing.join().expect("the caps event comes back");
    });
}

/// Reported: an application that stops the pipeline from a callback on the streaming thread hangs,
/// although it hands the work to another thread as the documentation asks.
#[test]
fn a_stop_asked_for_from_a_probe_on_the_output_thread_returns() {
    watched(|| {
        for frame in [0usize, 1, 2, 7] {
            for sync in [true, false] {
                let pipeline = endless(&format!("fakesink name=out sync={sync}"));
                let (stopped, wait) = channel();
                let weak = pipeline.downgrade();
                let count = std::sync::atomic::AtomicUsize::new(0);
                let pad = pipelines::filter(&pipeline).static_pad("src");
                pad.expect("a src pad")
                    .add_probe(gst::PadProbeType::BUFFER, move |_, _| {
                        let seen = count.fetch_add(1, std::sync::atomic::Ordering::SeqCst);
                        if let (true, Some(pipeline)) = (seen == frame, weak.upgrade()) {
                            let stopped = stopped.clone();
                            pipeline.call_async(move |pipeline| {
                                let result = pipeline.set_state(gst::State::Null);
                                stopped.send(result).expect("the test waits");
                            });
                        }
                        gst::PadProbeReturn::Ok
                    });
                pipeline.set_state(gst::State::Playing).expect("plays");
                wait.recv_timeout(Duration::from_secs(60))
                    .expect("the stop returns")
                    .expect("the stop succeeds");
                pipeline.set_state(gst::State::Null).expect("stays stopped");
            }
        }
    });
}

/// Reported: taking the element out of a running pipeline and putting it back hangs or loses data.
#[test]
fn the_element_can_be_exchanged_while_playing() {
    watched(|| {
        let pads = Pads::raising();
        for round in 0..10u64 {
            pads.push_all(round * 2..round * 2 + 2);
            pads.wait_buffers(2 * round as usize + 2);
            let sink = pads.element.static_pad("sink").expect("a sink pad");
            pads.src.unlink(&sink).expect("unlinks");
            pads.element.set_state(gst::State::Null).expect("stops");
            pads.element.set_state(gst::State::Playing).expect("plays");
            pads.src.link(&sink).expect("links again");
        }
        assert_raised(&pads.buffers(), 0..20);
    });
}

/// Reported: data that arrives before the element starts, or after it stopped, is taken or hangs.
#[test]
fn a_stopped_element_takes_nothing() {
    watched(|| {
        let pads = Pads::raising();
        pads.push_all([0]);
        pads.wait_buffers(1);
        pads.element.set_state(gst::State::Ready).expect("is ready");
        assert_eq!(pads.src.push(numbered(1)), Err(gst::FlowError::Flushing));
        assert_eq!(pads.buffers().len(), 1);
    });
}

/// Reported: pausing and going on loses or doubles frames.
#[test]
fn pausing_and_going_on_loses_nothing() {
    watched(|| {
        let pipeline = pipelines::parse(&format!(
            "videotestsrc name=source num-buffers=400 ! \
             video/x-raw,format=GRAY8,width=32,height=24,framerate=1000/1 ! {RAISING} ! \
             fakesink name=out sync=true"
        ));
        pipelines::number_by_offset(&pipeline, "source");
        let passed = pipelines::record(&pipeline);
        let mut random = Random::new(0x5eed_0009);
        for _ in 0..25 {
            for state in [gst::State::Playing, gst::State::Paused] {
                pipelines::reach(&pipeline, state);
                std::thread::sleep(Duration::from_micros(random.below(4000)));
            }
        }
        pipelines::reach(&pipeline, gst::State::Playing);
        let (_, error) = pipelines::wait_end(&pipeline);
        assert_eq!(error, None);
        pipeline.set_state(gst::State::Null).expect("stops");
        let passed = passed.lock().expect("not poisoned");
        assert_eq!(passed.before_eos, Some(400));
        assert_from_zero(&passed.buffers);
    });
}

/// Reported: stopping hangs while an application does not fetch the frames of its appsink.
#[test]
fn stops_while_an_appsink_is_full_return() {
    watched(|| {
        let pipeline = endless("appsink name=out sync=false max-buffers=1");
        let sink = pipeline.by_name("out").and_downcast::<gst_app::AppSink>();
        let sink = sink.expect("an appsink");
        for round in 0..25 {
            pipeline.set_state(gst::State::Playing).expect("plays");
            for _ in 0..round % 4 {
                sink.pull_sample().expect("a frame comes");
            }
            pipeline.set_state(gst::State::Null).expect("stops");
        }
        assert_no_errors(&pipeline);
    });
}

/// Reported: a live pipeline waits in PAUSED for a frame that never comes.
#[test]
fn a_live_pipeline_pauses_without_preroll_and_stops() {
    watched(|| {
        let pipeline = pipelines::parse(&format!(
            "videotestsrc is-live=true ! video/x-raw,format=GRAY8,width=32,height=24 ! \
             {RAISING} ! fakesink name=out"
        ));
        for _ in 0..5 {
            let paused = pipeline.set_state(gst::State::Paused).expect("pauses");
            assert_eq!(paused, gst::StateChangeSuccess::NoPreroll);
            pipeline.set_state(gst::State::Playing).expect("plays");
            pipeline.set_state(gst::State::Paused).expect("pauses");
            pipeline.set_state(gst::State::Null).expect("stops");
        }
    });
}

/// Reported: a depth set between two runs counts only from the run after.
#[test]
fn a_depth_set_between_runs_holds_from_the_next_start() {
    watched(|| {
        let pads = Pads::around(raising());
        for depth in [1u32, 8, 3, 1] {
            pads.element.set_property("depth", depth);
            pads.begin(&gray());
            pads.close_gate();
            // One frame is being pushed, and depth of them are in slots: all these are taken.
            let frames = u64::from(depth) + 1;
            pads.push_all(0..frames);
            pads.wait_blocked();
            let pusher = pads.push_from_thread(frames..frames + 10);
            pads.open_gate();
            assert_eq!(pusher.join(), Ok(gst::FlowSuccess::Ok));
            pads.wait_buffers(frames as usize + 10);
            assert_raised(&pads.buffers(), 0..frames + 10);
            pads.stop();
            pads.forget();
        }
    });
}

/// Reported: more frames are in flight than was asked for, so latency and memory grow.
#[test]
fn no_more_than_depth_frames_wait_behind_the_one_being_pushed() {
    watched(|| {
        for depth in [1u32, 2, 8] {
            let element = raising();
            element.set_property("depth", depth);
            let pads = Pads::around(element);
            pads.begin(&gray());
            pads.close_gate();
            let pusher = pads.push_from_thread(0..100);
            pads.wait_blocked();
            pusher.wait_pushed(u64::from(depth) + 1);
            // Give one too many every chance to be taken.
            std::thread::sleep(Duration::from_millis(50));
            assert_eq!(pusher.pushed(), u64::from(depth) + 1, "depth {depth}");
            pads.open_gate();
            assert_eq!(pusher.join(), Ok(gst::FlowSuccess::Ok));
            pads.wait_buffers(100);
        }
    });
}
