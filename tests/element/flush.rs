//! Flushes and seeks: nothing hangs, nothing stale comes out, nothing after them is lost.

use gst::prelude::*;

use crate::common::Random;
use crate::common::frames::{assert_raised, gray, level, numbered, pts};
use crate::common::pads::{Item, Pads, time_segment};
use crate::common::pipelines::{self, RAISING};
use crate::common::watchdog::watched;

/// Buffers between two FLUSH_STOP events.
fn runs(pads: &Pads) -> Vec<Vec<gst::Buffer>> {
    let mut runs = vec![Vec::new()];
    for item in pads.items() {
        match item {
            Item::Event(event) if event.type_() == gst::EventType::FlushStop => {
                runs.push(Vec::new());
            }
            Item::Buffer(buffer) => runs.last_mut().expect("never empty").push(buffer),
            _ => {}
        }
    }
    runs
}

/// Reported: a flush at the wrong moment hangs, lets frames of before it out after it, or stops
/// the element for ever.
#[test]
fn fifty_flushes_at_random_moments_hang_nothing_and_let_nothing_stale_out() {
    watched(|| {
        let mut random = Random::new(0x5eed_0001);
        let pads = Pads::raising();
        let mut first = 0u64;
        let mut firsts = vec![first];
        for _ in 0..50 {
            let closed = random.below(2) == 0;
            if closed {
                pads.close_gate();
            }
            let pusher = pads.push_from_thread(first..first + 40);
            // How far it gets decides the moment; at a closed gate it stops by itself.
            pusher.wait_pushed(random.below(if closed { 3 } else { 40 }));
            assert!(pads.src.push_event(gst::event::FlushStart::new()));
            let end = pusher.join();
            assert!(
                matches!(end, Ok(_) | Err(gst::FlowError::Flushing)),
                "{end:?}"
            );
            assert!(pads.src.push_event(gst::event::FlushStop::new(true)));
            assert!(pads.src.push_event(time_segment()));
            pads.open_gate();
            first += 100;
            firsts.push(first);
        }
        pads.push_all(first..first + 10);
        assert!(pads.end());
        pads.wait_event(gst::EventType::Eos);
        let runs = runs(&pads);
        assert_eq!(runs.len(), firsts.len());
        for (run, first) in runs.iter().zip(&firsts) {
            assert_raised(run, *first..*first + run.len() as u64);
        }
        assert_eq!(runs.last().map(Vec::len), Some(10));
    });
}

/// Reported: upstream hangs in the chain function when the flush finds all slots full.
#[test]
fn a_flush_frees_a_push_that_waits_for_a_slot() {
    watched(|| {
        for depth in [1u32, 2, 4] {
            let element = crate::common::raising();
            element.set_property("depth", depth);
            let pads = Pads::around(element);
            pads.begin(&gray());
            pads.close_gate();
            let pusher = pads.push_from_thread(0..100);
            pads.wait_blocked();
            pusher.wait_pushed(u64::from(depth));
            assert!(pads.src.push_event(gst::event::FlushStart::new()));
            assert_eq!(pusher.join(), Err(gst::FlowError::Flushing));
            assert_eq!(pads.push(100), Err(gst::FlowError::Flushing));
            assert!(pads.src.push_event(gst::event::FlushStop::new(true)));
            assert!(pads.src.push_event(time_segment()));
            pads.open_gate();
            pads.push_all(200..204);
            pads.wait_buffers(4);
            assert_raised(&pads.buffers(), 200..204);
        }
    });
}

/// Reported: flushing an idle element, twice, or stopping a flush that never started breaks it.
#[test]
fn odd_flushes_of_an_idle_element_do_no_harm() {
    watched(|| {
        let pads = Pads::raising();
        for _ in 0..3 {
            pads.flush();
        }
        let start = gst::event::FlushStart::new;
        let stop = || gst::event::FlushStop::new(true);
        for event in [start(), start(), stop(), stop()] {
            // The core itself refuses the second of each.
            let _ = pads.src.push_event(event);
        }
        assert!(pads.src.push_event(time_segment()));
        pads.push_all(0..3);
        pads.wait_buffers(3);
        assert_raised(&pads.buffers(), 0..3);
    });
}

/// Reported: a flush does not clear the error of before, so a seek cannot rescue a stream.
#[test]
fn a_flush_clears_a_kept_flow_return() {
    watched(|| {
        for flow in [gst::FlowError::Error, gst::FlowError::Eos] {
            let pads = Pads::raising();
            pads.answer_after(1, flow);
            let mut number = 0;
            while pads.push(number).is_ok() {
                number += 1;
                assert!(number < 10, "the flow return comes back");
            }
            pads.answer_ok();
            pads.flush();
            pads.forget();
            pads.push_all(20..25);
            pads.wait_buffers(5);
            assert_raised(&pads.buffers(), 20..25);
        }
    });
}

/// Reported: running time is not reset, or is reset though the flush said not to.
#[test]
fn flush_stop_keeps_its_reset_time() {
    watched(|| {
        for reset in [true, false] {
            let pads = Pads::raising();
            assert!(pads.src.push_event(gst::event::FlushStart::new()));
            assert!(pads.src.push_event(gst::event::FlushStop::new(reset)));
            match pads.events(gst::EventType::FlushStop)[0].view() {
                gst::EventView::FlushStop(stop) => assert_eq!(stop.resets_time(), reset),
                _ => unreachable!("events of one type were asked for"),
            }
        }
    });
}

/// What a seek target's frames must look like.
fn assert_seek_run(run: &[gst::Buffer], start: gst::ClockTime) {
    for (step, buffer) in (0u64..).zip(run) {
        let time = buffer.pts().expect("the source stamps frames");
        assert_eq!(time, start + pts(step), "frames follow the seek one by one");
        let number = time.nseconds() / pts(1).nseconds();
        assert_eq!(
            crate::common::frames::flat_value(&gray(), buffer),
            level(number) + 1,
            "frame {number} is its own"
        );
    }
}

/// Reported: seeking in a player hangs now and then, or shows a frame of the old place.
#[test]
fn fifty_flushing_seeks_of_a_pipeline_show_only_frames_of_the_new_place() {
    watched(|| {
        let mut random = Random::new(0x5eed_0002);
        let pipeline = seekable("fakesink name=out sync=false");
        let passed = pipelines::record(&pipeline);
        pipeline.set_state(gst::State::Playing).expect("plays");
        wait_prerolled(&pipeline);
        let mut targets = vec![gst::ClockTime::ZERO];
        for _ in 0..50 {
            std::thread::sleep(std::time::Duration::from_micros(random.below(4000)));
            let target = pts(random.below(50_000));
            let flags = gst::SeekFlags::FLUSH | gst::SeekFlags::ACCURATE;
            pipeline.seek_simple(flags, target).expect("seeks");
            targets.push(target);
        }
        wait_prerolled(&pipeline);
        pipeline.set_state(gst::State::Null).expect("stops");
        let runs = passed.lock().expect("not poisoned").runs.clone();
        assert_eq!(runs.len(), targets.len(), "one run a seek");
        for (run, target) in runs.iter().zip(targets) {
            assert_seek_run(run, target);
        }
        assert!(!runs[50].is_empty(), "frames follow the last seek");
    });
}

/// Reported: a flush that comes while frames are pushed without any waiting loses later ones.
#[test]
fn frames_after_a_flush_are_all_there_however_fast_they_come() {
    watched(|| {
        let pads = Pads::raising();
        for round in 0..30u64 {
            let first = round * 10;
            for number in first..first + 3 {
                let _ = pads.src.push(numbered(number));
            }
            pads.flush();
            pads.forget();
            pads.push_all(first + 3..first + 9);
            pads.wait_buffers(6);
            assert_raised(&pads.buffers(), first + 3..first + 9);
        }
    });
}

/// Reported: scrubbing a paused video hangs, because the sink holds a frame and all slots are full.
#[test]
fn twenty_seeks_while_paused_each_show_their_own_frame() {
    watched(|| {
        let mut random = Random::new(0x5eed_000a);
        let pipeline = seekable("fakesink name=out sync=true");
        let passed = pipelines::record(&pipeline);
        pipeline.set_state(gst::State::Paused).expect("pauses");
        wait_prerolled(&pipeline);
        for _ in 0..20 {
            let target = pts(random.below(50_000));
            let flags = gst::SeekFlags::FLUSH | gst::SeekFlags::ACCURATE;
            pipeline.seek_simple(flags, target).expect("seeks");
            wait_prerolled(&pipeline);
            let runs = passed.lock().expect("not poisoned").runs.clone();
            let run = runs.last().expect("a run");
            assert!(!run.is_empty(), "a frame of the new place is shown");
            assert_seek_run(run, target);
        }
        pipeline.set_state(gst::State::Null).expect("stops");
    });
}

/// Reported: after the end of a video, seeking back shows nothing any more.
#[test]
fn a_seek_after_the_end_plays_again_to_the_end() {
    watched(|| {
        let pipeline = seekable("fakesink name=out sync=false");
        let flags = gst::SeekFlags::FLUSH | gst::SeekFlags::ACCURATE;
        let passed = pipelines::record(&pipeline);
        pipeline.set_state(gst::State::Paused).expect("pauses");
        wait_prerolled(&pipeline);
        for round in 0..4u64 {
            let (start, stop) = (pts(10 * round), pts(10 * round + 7));
            let end = gst::SeekType::Set;
            pipeline
                .seek(1.0, flags, gst::SeekType::Set, start, end, stop)
                .expect("seeks");
            pipeline.set_state(gst::State::Playing).expect("plays");
            let (_, error) = pipelines::wait_end(&pipeline);
            assert_eq!(error, None);
            let runs = passed.lock().expect("not poisoned").runs.clone();
            let run = runs.last().expect("a run");
            assert_eq!(run.len(), 7, "round {round}");
            assert_seek_run(run, start);
        }
        pipeline.set_state(gst::State::Null).expect("stops");
    });
}

/// A source of numbered frames that can be sought, before this sink.
fn seekable(sink: &str) -> gst::Pipeline {
    let pipeline = pipelines::parse(&format!(
        "videotestsrc name=source num-buffers=100000 ! \
         video/x-raw,format=GRAY8,width=32,height=24,framerate=25/1 ! {RAISING} ! {sink}"
    ));
    pipelines::number_by_time(&pipeline, "source");
    pipeline
}

fn wait_prerolled(pipeline: &gst::Pipeline) {
    let (ready, _, _) = pipeline.state(gst::ClockTime::from_seconds(60));
    ready.expect("prerolls");
}

/// Reported: an application that seeks from a probe on the output thread waits for itself.
#[test]
fn a_seek_from_a_probe_on_the_output_thread_returns() {
    watched(|| {
        let pipeline = seekable("fakesink name=out sync=false");
        let target = pts(30_000);
        let weak = pipeline.downgrade();
        let pad = pipelines::filter(&pipeline).static_pad("src");
        pad.expect("a src pad")
            .add_probe(gst::PadProbeType::BUFFER, move |_, info| {
                let time = info.buffer().and_then(|buffer| buffer.pts());
                match weak.upgrade() {
                    Some(pipeline) if time == Some(pts(5)) => {
                        let flags = gst::SeekFlags::FLUSH | gst::SeekFlags::ACCURATE;
                        pipeline.seek_simple(flags, target).expect("seeks");
                        // This frame is of the old place.
                        gst::PadProbeReturn::Drop
                    }
                    _ => gst::PadProbeReturn::Ok,
                }
            });
        let passed = pipelines::record(&pipeline);
        pipeline.set_state(gst::State::Playing).expect("plays");
        let enough = || {
            let passed = passed.lock().expect("not poisoned");
            passed.runs.len() > 1 && passed.runs[1].len() > 5
        };
        while !enough() {
            std::thread::yield_now();
        }
        pipeline.set_state(gst::State::Null).expect("stops");
        let runs = passed.lock().expect("not poisoned").runs.clone();
        assert_seek_run(&runs[0], gst::ClockTime::ZERO);
        assert_seek_run(&runs[1], target);
    });
}
