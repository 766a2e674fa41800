//! What the element tells: statistics, messages, the last message.

use std::sync::{Arc, Mutex};

use gst::prelude::*;

use crate::common::frames::{gray, pts};
use crate::common::pads::{Pads, named, texts};
use crate::common::pipelines::{self, RAISING};
use crate::common::stages::STAGES;
use crate::common::watchdog::watched;
use crate::common::{backend, cudaconv, raising, stat, stats};

const COUNTS: [&str; 5] = [
    "frames-in",
    "frames-out",
    "dropped",
    "bypassed",
    "over-budget",
];
const TIMES: [&str; 7] = [
    "budget-ns",
    "latency-min-ns",
    "latency-mean-ns",
    "latency-p50-ns",
    "latency-p95-ns",
    "latency-p99-ns",
    "latency-max-ns",
];
/// Fails unless the structure has every field of the statistics, with its type.
fn assert_stats_fields(stats: &gst::Structure) {
    let stages = STAGES.map(|stage| format!("stage-{stage}-p50-ns"));
    let others = ["pinned-in", "pinned-out", "warm-up-ns"];
    for field in COUNTS
        .into_iter()
        .chain(TIMES)
        .chain(stages.iter().map(String::as_str))
        .chain(others)
    {
        stats
            .get::<u64>(field)
            .unwrap_or_else(|e| panic!("{field}: {e} in {stats}"));
    }
    for field in ["backend", "device", "method"] {
        stats
            .get::<String>(field)
            .unwrap_or_else(|e| panic!("{field}: {e} in {stats}"));
    }
}

fn assert_ordered(stats: &gst::Structure) {
    let get = |field: &str| stats.get::<u64>(field).expect("a uint64");
    let (min, p50, p95) = (
        get("latency-min-ns"),
        get("latency-p50-ns"),
        get("latency-p95-ns"),
    );
    let (p99, max, mean) = (
        get("latency-p99-ns"),
        get("latency-max-ns"),
        get("latency-mean-ns"),
    );
    assert!(min > 0, "{stats}");
    assert!(
        min <= p50 && p50 <= p95 && p95 <= p99 && p99 <= max,
        "{stats}"
    );
    assert!(min <= mean && mean <= max, "{stats}");
}

/// Reported: fields of the statistics change name or type, or are infinite without frames.
#[test]
fn stats_have_every_field_with_its_type_in_every_state() {
    watched(|| {
        let pads = Pads::around(raising());
        for state in [gst::State::Null, gst::State::Ready, gst::State::Playing] {
            pads.element.set_state(state).expect("the state changes");
            let stats = stats(&pads.element);
            assert_eq!(stats.name(), "application/x-cudaconv-stats");
            assert_stats_fields(&stats);
            assert_eq!(stats.get::<u64>("budget-ns"), Ok(33_000_000));
            for count in COUNTS {
                assert_eq!(stats.get::<u64>(count), Ok(0), "{count}");
            }
        }
        pads.begin(&gray());
        pads.push_all(0..30);
        assert!(pads.end());
        pads.wait_event(gst::EventType::Eos);
        let stats = stats(&pads.element);
        assert_stats_fields(&stats);
        assert_ordered(&stats);
        assert_eq!(stats.get::<String>("backend").as_deref(), Ok(backend()));
        assert!(!stats.get::<String>("device").expect("a device").is_empty());
        assert!(!stats.get::<String>("method").expect("a method").is_empty());
    });
}

/// Reported: set-up spoils the first figures: minutes of it show as the largest latency.
#[test]
fn warm_up_is_counted_apart_and_is_no_frame() {
    watched(|| {
        let pads = Pads::raising();
        // A frame goes through, so that the caps have been handled by then.
        pads.push_all([0]);
        pads.wait_buffers(1);
        let stats = stats(&pads.element);
        let get = |field: &str| stats.get::<u64>(field).expect("a uint64");
        assert!(get("warm-up-ns") > 0, "{stats}");
        assert_eq!(get("frames-in"), 1, "the trial frame is not counted");
        assert_eq!(get("frames-out"), 1);
    });
}

/// Reported: per-frame messages lack fields, number frames from elsewhere, or flood by default.
#[test]
fn post_messages_tells_every_frame_with_every_field() {
    watched(|| {
        let element = raising();
        element.set_property("post-messages", true);
        let pads = Pads::around(element);
        pads.begin(&gray());
        pads.push_all(0..12);
        assert!(pads.end());
        pads.wait_event(gst::EventType::Eos);
        let messages = named(&pads.messages(), "cudaconv-latency");
        assert_eq!(messages.len(), 12);
        for (number, message) in (0u64..).zip(&messages) {
            let get = |field: &str| {
                message
                    .get::<u64>(field)
                    .unwrap_or_else(|e| panic!("{field}: {e} in {message}"))
            };
            assert_eq!(get("frame"), number);
            assert_eq!(get("pts"), pts(number).nseconds());
            assert!(get("latency-ns") > 0);
            let stages: Vec<u64> = STAGES
                .iter()
                .map(|stage| get(&format!("stage-{stage}-ns")))
                .collect();
            // Stages but the blocked one are parts of the latency. Copying a foreign frame and its
            // upload overlap a little.
            let overlap = if backend() == "cuda" { 100_000 } else { 0 };
            assert!(
                stages[..5].iter().sum::<u64>() <= get("latency-ns") + overlap,
                "{message}"
            );
            message.get::<bool>("over-budget").expect("a boolean");
        }
    });
}

/// Reported: the same, where it was not asked for.
#[test]
fn without_post_messages_no_frame_is_told() {
    watched(|| {
        let pads = Pads::raising();
        pads.push_all(0..12);
        assert!(pads.end());
        pads.wait_event(gst::EventType::Eos);
        let messages = pads.messages();
        assert!(named(&messages, "cudaconv-latency").is_empty());
    });
}

/// Reported: `gst-launch-1.0 -v` shows nothing, or floods though silent.
#[test]
fn last_message_is_notified_for_every_frame_unless_silent() {
    watched(|| {
        for (silent, wanted) in [(false, 10), (true, 0)] {
            let element = raising();
            element.set_property("silent", silent);
            element.set_property("budget", 0u64);
            let seen = Arc::new(Mutex::new(Vec::new()));
            let writer = seen.clone();
            element.connect_notify(Some("last-message"), move |element, _| {
                let text = element.property::<Option<String>>("last-message");
                writer
                    .lock()
                    .expect("not poisoned")
                    .push(text.unwrap_or_default());
            });
            let pads = Pads::around(element);
            pads.begin(&gray());
            pads.push_all(0..10);
            assert!(pads.end());
            pads.wait_event(gst::EventType::Eos);
            let seen = seen.lock().expect("not poisoned").clone();
            assert_eq!(seen.len(), wanted, "silent: {silent}");
            for (number, text) in seen.iter().enumerate() {
                assert!(
                    text.contains(&number.to_string()),
                    "{text:?} numbers {number}"
                );
                assert!(text.contains("ms") && text.contains("OVER"), "{text:?}");
                assert_eq!(text.lines().count(), 1, "{text:?}");
                for stage in ["wait", "kernel"] {
                    assert!(text.contains(stage), "{text:?} names {stage}");
                }
            }
        }
    });
}

/// Reported: the summary comes after the application has already shut down at EOS.
#[test]
fn the_summary_is_on_the_bus_before_the_eos_goes_downstream() {
    watched(|| {
        let pads = Pads::raising();
        let order = Arc::new(Mutex::new(Vec::new()));
        let (messages, events) = (order.clone(), order.clone());
        pads.bus.set_sync_handler(move |_, message| {
            if let Some(structure) = message.structure() {
                let mut order = messages.lock().expect("not poisoned");
                order.push(structure.name().to_string());
            }
            gst::BusSyncReply::Pass
        });
        pads.sink
            .add_probe(gst::PadProbeType::EVENT_DOWNSTREAM, move |_, info| {
                if let Some(event) = info.event() {
                    let mut order = events.lock().expect("not poisoned");
                    order.push(event.type_().name().to_string());
                }
                gst::PadProbeReturn::Ok
            });
        pads.push_all(0..9);
        assert!(pads.end());
        pads.wait_event(gst::EventType::Eos);
        pads.bus.unset_sync_handler();
        let order = order.lock().expect("not poisoned").clone();
        let place = |word: &str| order.iter().position(|w| w == word);
        let (summary, eos) = (place("cudaconv-summary"), place("eos"));
        assert!(summary.is_some() && summary < eos, "{order:?}");
        let summaries = named(&pads.messages(), "cudaconv-summary");
        assert_eq!(summaries.len(), 1);
        assert_stats_fields(&summaries[0]);
        assert_ordered(&summaries[0]);
        assert_eq!(summaries[0].get::<u64>("frames-out"), Ok(9));
    });
}

/// Reported: a stream without frames ends with rubbish figures or without a summary.
#[test]
fn the_summary_of_no_frames_is_all_zero() {
    watched(|| {
        let pads = Pads::raising();
        assert!(pads.end());
        pads.wait_event(gst::EventType::Eos);
        let summary = named(&pads.messages(), "cudaconv-summary").remove(0);
        for field in COUNTS.into_iter().chain(TIMES.into_iter().skip(1)) {
            assert_eq!(summary.get::<u64>(field), Ok(0), "{field}");
        }
    });
}

/// Reported: nobody knows which device computes, or why it is not the GPU.
#[test]
fn the_backend_is_told_once_a_start() {
    watched(|| {
        let pads = Pads::raising();
        for start in 0..3 {
            if start > 0 {
                pads.stop();
                pads.begin(&gray());
            }
            pads.push_all(0..3);
            assert!(pads.end());
            pads.wait_event(gst::EventType::Eos);
            let told = named(&pads.messages(), "cudaconv-backend");
            assert_eq!(told.len(), 1, "start {start}: {told:?}");
            for field in ["backend", "device", "driver", "cuda", "reason"] {
                told[0]
                    .get::<String>(field)
                    .unwrap_or_else(|e| panic!("{field}: {e} in {}", told[0]));
            }
            assert_eq!(told[0].get::<String>("backend").as_deref(), Ok(backend()));
            told[0].get::<i32>("device-id").expect("an int");
            pads.forget();
        }
    });
}

/// Reported: statistics of the last run are added to those of the next.
#[test]
fn statistics_restart_with_every_start() {
    watched(|| {
        let pads = Pads::raising();
        pads.push_all(0..8);
        pads.wait_buffers(8);
        pads.stop();
        pads.forget();
        pads.begin(&gray());
        pads.push_all(0..3);
        pads.wait_buffers(3);
        assert!(pads.end());
        pads.wait_event(gst::EventType::Eos);
        assert_eq!(stat(&pads.element, "frames-in"), 3);
        assert_eq!(stat(&pads.element, "frames-out"), 3);
    });
}

/// Reported: the method in use is not what was asked for, and nobody tells.
#[test]
fn stats_say_which_method_runs() {
    watched(|| {
        for method in ["naive", "separable", "auto"] {
            let pads = Pads::around(cudaconv(&[("method", method), ("kernel", "gauss3")]));
            pads.begin(&gray());
            pads.push_all([0]);
            pads.wait_buffers(1);
            let said = stats(&pads.element)
                .get::<String>("method")
                .expect("a method");
            if method == "auto" {
                assert!(
                    !said.is_empty() && said != "auto",
                    "what was picked: {said}"
                );
            } else {
                assert_eq!(said, method);
            }
        }
    });
}

/// Reported: what copies the picture is told as the method of a filter.
#[test]
fn stats_say_that_a_filter_which_changes_nothing_copies() {
    watched(|| {
        let of = |properties: &[(&str, &str)]| {
            let pads = Pads::around(cudaconv(properties));
            pads.begin(&gray());
            pads.push_all([0]);
            pads.wait_buffers(1);
            let method = stats(&pads.element).get::<String>("method");
            method.expect("a method")
        };
        for copies in [
            &[("kernel", "identity")][..],
            &[("kernel", "identity"), ("method", "naive")],
            &[("kernel", "identity"), ("precision", "fp16")],
            &[("kernel", "bilateral"), ("sigma-color", "0")],
            &[("kernel", "custom"), ("matrix", "0 5 0;")],
        ] {
            assert_eq!(of(copies), "copy", "{copies:?}");
        }
        assert_ne!(of(&[("kernel", "identity"), ("bias", "1")]), "copy");
    });
}

/// Less precision than fp32 is asked for and may not be had: what runs is told, and it can change.
#[test]
fn stats_say_in_which_precision_the_weights_are() {
    watched(|| {
        let pads = Pads::around(cudaconv(&[("kernel", "gauss7"), ("precision", "fp16")]));
        let said = || {
            let method = stats(&pads.element).get::<String>("method");
            method.expect("a method")
        };
        pads.begin(&gray());
        pads.push_all([0]);
        pads.wait_buffers(1);
        let expected = match backend() {
            "cuda" => "separable, fp16",
            _ => "separable, fp32",
        };
        assert_eq!(said(), expected);
        pads.element.set_property_from_str("precision", "fp32");
        // The new values apply once their kernel is loaded.
        for number in 1.. {
            pads.push_all([number]);
            pads.wait_buffers(number as usize + 1);
            if said() == "separable" {
                break;
            }
        }
    });
}

/// Reported: an ordinary run posts warnings or errors.
#[test]
fn an_ordinary_run_posts_no_warning_and_no_error() {
    watched(|| {
        let outcome = pipelines::run(&format!(
            "videotestsrc num-buffers=30 ! video/x-raw,format=I420,width=320,height=240 ! \
             {RAISING} ! fakesink name=out"
        ));
        outcome.assert_frames(30);
        for type_ in [gst::MessageType::Warning, gst::MessageType::Error] {
            let texts = texts(&outcome.messages, type_);
            assert!(texts.is_empty(), "{texts:?}");
        }
        assert_eq!(named(&outcome.messages, "cudaconv-summary").len(), 1);
        assert_eq!(named(&outcome.messages, "cudaconv-backend").len(), 1);
    });
}

/// Reported: frames without time stamps make the reports panic.
#[test]
fn frames_without_time_stamps_are_reported_too() {
    watched(|| {
        let element = raising();
        element.set_property("post-messages", true);
        element.set_property("silent", false);
        let pads = Pads::around(element);
        pads.begin(&gray());
        for number in 0..3u8 {
            let frame = gst::Buffer::from_mut_slice(vec![number; 32 * 24]);
            assert_eq!(pads.src.push(frame), Ok(gst::FlowSuccess::Ok));
        }
        assert!(pads.end());
        pads.wait_event(gst::EventType::Eos);
        let messages = named(&pads.messages(), "cudaconv-latency");
        assert_eq!(messages.len(), 3);
        for message in messages {
            // Undefined, as GStreamer writes it, or left out; never a time that was not there.
            let time = message.get::<u64>("pts").unwrap_or(u64::MAX);
            assert_eq!(time, u64::MAX, "{message}");
        }
    });
}

/// Reported: frames that a flush, an error or a stop takes vanish from the counts.
#[test]
fn the_counts_add_up_after_a_flush_and_after_an_error() {
    watched(|| {
        for flush in [true, false] {
            let pads = Pads::raising();
            pads.close_gate();
            let pusher = pads.push_from_thread(0..50);
            pads.wait_blocked();
            pusher.wait_pushed(2);
            if flush {
                assert!(pads.src.push_event(gst::event::FlushStart::new()));
                assert_eq!(pusher.join(), Err(gst::FlowError::Flushing));
                assert!(pads.src.push_event(gst::event::FlushStop::new(true)));
                pads.open_gate();
            } else {
                pads.answer_after(0, gst::FlowError::Error);
                pads.open_gate();
                assert_eq!(pusher.join(), Err(gst::FlowError::Error));
                let _ = pads.end();
                pads.wait_event(gst::EventType::Eos);
            }
            let count = |field| stat(&pads.element, field);
            assert!(count("frames-in") >= 2, "those that were pushed");
            assert_eq!(
                count("frames-in"),
                count("frames-out") + count("dropped"),
                "flush: {flush}"
            );
        }
    });
}
