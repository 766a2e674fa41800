//! What downstream answers to a push, and how upstream and the application learn of it.

use gst::prelude::*;

use crate::common::frames::{assert_raised, gray};
use crate::common::pads::{Pads, texts};
use crate::common::pipelines::{self, RAISING};
use crate::common::raising;
use crate::common::watchdog::watched;

/// Pushes until a frame is not taken; how that ended.
fn push_until_refused(pads: &Pads, first: u64) -> gst::FlowError {
    for number in first..first + 50 {
        if let Err(error) = pads.push(number) {
            return error;
        }
    }
    panic!("fifty frames were taken after downstream had refused one");
}

/// Reported: what downstream answers is lost in the queue, and the source goes on for ever.
#[test]
fn the_answer_of_downstream_comes_back_with_a_later_push() {
    watched(|| {
        for flow in [
            gst::FlowError::Error,
            gst::FlowError::Eos,
            gst::FlowError::NotNegotiated,
            gst::FlowError::NotLinked,
            gst::FlowError::CustomError,
        ] {
            let pads = Pads::raising();
            pads.answer_after(2, flow);
            assert_eq!(push_until_refused(&pads, 0), flow);
            assert_raised(&pads.buffers(), 0..2);
            assert_eq!(pads.refused(), 1, "nothing is pushed after {flow:?}");
            assert_eq!(pads.push(60), Err(flow), "the answer is kept");
            assert_eq!(pads.refused(), 1);
        }
    });
}

/// Reported: a failure downstream leaves upstream hanging for a slot that never gets free.
#[test]
fn an_error_with_full_slots_frees_the_waiting_push() {
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
            pads.answer_after(0, gst::FlowError::Error);
            pads.open_gate();
            assert_eq!(pusher.join(), Err(gst::FlowError::Error));
            assert_eq!(pads.buffers().len(), 0);
            assert_eq!(pads.refused(), 1);
        }
    });
}

/// Reported: after an error the EOS event is thrown away, so `identity eos-after` never ends.
#[test]
fn an_eos_event_after_a_refused_frame_still_goes_downstream() {
    watched(|| {
        for flow in [
            gst::FlowError::Eos,
            gst::FlowError::Error,
            gst::FlowError::NotLinked,
        ] {
            let pads = Pads::raising();
            pads.answer_after(1, flow);
            assert_eq!(push_until_refused(&pads, 0), flow);
            let _ = pads.end();
            pads.wait_event(gst::EventType::Eos);
            assert_eq!(pads.buffers().len(), 1, "after {flow:?}");
        }
    });
}

/// Reported: with EOS already queued an error reaches nobody, and the application waits for ever.
#[test]
fn an_error_with_eos_already_queued_is_posted() {
    watched(|| {
        let pads = Pads::raising();
        pads.close_gate();
        pads.push_all(0..2);
        pads.wait_blocked();
        assert!(pads.end());
        pads.answer_after(0, gst::FlowError::Error);
        pads.open_gate();
        let error = pads.wait_error();
        assert!(
            error.matches(gst::StreamError::Failed),
            "a stream error: {error:?}"
        );
    });
}

/// Reported: an error that no push told of is lost when the stream ends.
#[test]
fn an_error_that_upstream_did_not_hear_of_is_posted_at_the_end() {
    watched(|| {
        let pads = Pads::raising();
        pads.answer_after(0, gst::FlowError::Error);
        assert_eq!(pads.push(0), Ok(gst::FlowSuccess::Ok));
        // The answer is known once an event behind the frame is through.
        pads.push_number(1);
        pads.wait_number(1);
        assert!(pads.end());
        let error = pads.wait_error();
        assert!(error.matches(gst::StreamError::Failed), "{error:?}");
        pads.wait_event(gst::EventType::Eos);
    });
}

/// Reported: once downstream had enough of one stream the next one is refused too.
#[test]
fn a_new_stream_behind_downstreams_eos_is_passed_on() {
    watched(|| {
        let pads = Pads::raising();
        pads.answer_after(1, gst::FlowError::Eos);
        assert_eq!(push_until_refused(&pads, 0), gst::FlowError::Eos);
        pads.answer_ok();
        assert_eq!(pads.push(50), Err(gst::FlowError::Eos), "it holds");
        pads.begin_stream("second", &gray());
        pads.forget();
        // A frame of the first stream may still have been on its way.
        assert_goes_on(&pads, 60);
    });
}

/// Reported: EOS from downstream is posted as "Internal data stream error".
#[test]
fn eos_from_downstream_with_eos_queued_is_no_error() {
    watched(|| {
        let pads = Pads::raising();
        pads.close_gate();
        pads.push_all(0..2);
        pads.wait_blocked();
        assert!(pads.end());
        pads.answer_after(0, gst::FlowError::Eos);
        pads.open_gate();
        pads.wait_event(gst::EventType::Eos);
        let errors = texts(&pads.messages(), gst::MessageType::Error);
        assert!(errors.is_empty(), "{errors:?}");
    });
}

/// Five frames pass, each once and in order, after whatever waited in the element.
fn assert_goes_on(pads: &Pads, first: u64) {
    pads.push_all(first..first + 5);
    assert!(pads.end());
    pads.wait_event(gst::EventType::Eos);
    let buffers = pads.buffers();
    let (before, last) = buffers.split_at(buffers.len() - 5);
    assert_raised(last, first..first + 5);
    let times: Vec<_> = before.iter().map(|b| b.pts()).collect();
    assert!(times.is_sorted(), "{times:?}");
}

/// Reported: after a branch was unlinked and linked again the stream stays dead.
#[test]
fn reconfigure_clears_not_linked() {
    watched(|| {
        let pads = Pads::raising();
        pads.answer_after(1, gst::FlowError::NotLinked);
        assert_eq!(push_until_refused(&pads, 0), gst::FlowError::NotLinked);
        pads.answer_ok();
        assert!(pads.sink.push_event(gst::event::Reconfigure::new()));
        assert_goes_on(&pads, 30);
    });
}

/// Reported: the same with a real unlink and relink.
#[test]
fn unlinking_and_linking_again_resumes_the_stream() {
    watched(|| {
        let pads = Pads::raising();
        let element_src = pads.element.static_pad("src").expect("a src pad");
        pads.push_all(0..2);
        pads.wait_buffers(2);
        element_src.unlink(&pads.sink).expect("unlinks");
        assert_eq!(push_until_refused(&pads, 2), gst::FlowError::NotLinked);
        element_src.link(&pads.sink).expect("links again");
        assert_goes_on(&pads, 70);
        assert_eq!(pads.sink.current_caps(), Some(gray()));
        assert!(pads.sink.sticky_event::<gst::event::Segment>(0).is_some());
    });
}

/// Reported: a sink that wants no more frames makes the application believe the stream failed.
#[test]
fn a_pipeline_that_ends_early_ends_silently_a_hundred_times() {
    watched(|| {
        for after in 0..100 {
            let after = 1 + after % 7;
            let outcome = pipelines::run(&format!(
                "videotestsrc ! video/x-raw,format=GRAY8,width=32,height=24,framerate=25/1 ! \
                 {RAISING} ! identity eos-after={after} ! fakesink name=out"
            ));
            assert_eq!(outcome.error, None);
            assert_eq!(outcome.passed.eos_events, 1);
            let errors = texts(&outcome.messages, gst::MessageType::Error);
            assert!(errors.is_empty(), "{errors:?}");
        }
    });
}

/// Reported: an error of the sink leaves the pipeline hanging instead of ending it.
#[test]
fn an_error_of_the_sink_ends_the_pipeline() {
    watched(|| {
        for after in [1, 2, 5] {
            let outcome = pipelines::run(&format!(
                "videotestsrc ! video/x-raw,format=GRAY8,width=32,height=24,framerate=25/1 ! \
                 {RAISING} ! identity error-after={after} ! fakesink name=out"
            ));
            assert!(outcome.error.is_some(), "the error is on the bus");
            assert!(outcome.passed.buffers.len() < after);
        }
    });
}

/// Reported: after an error and a restart the element still answers the old error.
#[test]
fn a_restart_clears_an_error() {
    watched(|| {
        let pads = Pads::raising();
        pads.answer_after(1, gst::FlowError::Error);
        assert_eq!(push_until_refused(&pads, 0), gst::FlowError::Error);
        pads.stop();
        pads.answer_ok();
        pads.forget();
        pads.begin(&gray());
        pads.push_all(0..5);
        pads.wait_buffers(5);
        assert_raised(&pads.buffers(), 0..5);
    });
}

/// Reported: a misspelt matrix is told as a missing one.
#[test]
fn the_error_of_a_missing_matrix_quotes_the_one_that_was_refused() {
    watched(|| {
        let element = crate::common::cudaconv(&[("kernel", "custom"), ("matrix", "1 2 x")]);
        let pads = Pads::around(element);
        assert!(pads.element.set_state(gst::State::Ready).is_err());
        let text = pads.wait_error().to_string();
        for word in ["needs the property matrix", "\"x\" is not a number"] {
            assert!(text.contains(word), "{text:?} says {word:?}");
        }
    });
}
