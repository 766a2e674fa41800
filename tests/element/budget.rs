//! The budget: which frames are over it, what becomes of them, and how it is told.

use std::time::Instant;

use gst::prelude::*;

use crate::common::frames::{assert_raised, flat_value, gray, level, pts};
use crate::common::pads::{Pads, named};
use crate::common::stages::STAGES;
use crate::common::watchdog::watched;
use crate::common::{raising, stat};

/// Reported: the counts do not add up.
#[test]
fn frames_in_are_frames_out_and_dropped_ones() {
    watched(|| {
        for what in ["report", "bypass", "drop"] {
            for budget in [0u64, 1, 33_000_000, u64::MAX] {
                let element = raising();
                element.set_property_from_str("over-budget", what);
                element.set_property("budget", budget);
                let pads = Pads::around(element);
                pads.begin(&gray());
                pads.push_all(0..40);
                assert!(pads.end());
                pads.wait_event(gst::EventType::Eos);
                let count = |field| stat(&pads.element, field);
                assert_eq!(count("frames-in"), 40, "{what} {budget}");
                assert_eq!(count("frames-out"), pads.buffers().len() as u64);
                assert_eq!(count("frames-in"), count("frames-out") + count("dropped"));
                assert!(count("bypassed") <= count("frames-out"));
                assert_eq!(count("budget-ns"), budget);
                if budget == u64::MAX {
                    assert_eq!(count("frames-out"), 40);
                    assert_eq!(count("over-budget") + count("bypassed"), 0);
                }
            }
        }
    });
}

/// Reported: frames over the budget are not counted, or not told.
#[test]
fn every_frame_is_over_a_budget_of_nothing() {
    watched(|| {
        for budget in [0u64, 1] {
            let element = raising();
            element.set_property("budget", budget);
            element.set_property("post-messages", true);
            let pads = Pads::around(element);
            pads.begin(&gray());
            pads.push_all(0..25);
            assert!(pads.end());
            pads.wait_event(gst::EventType::Eos);
            assert_raised(&pads.buffers(), 0..25);
            assert_eq!(stat(&pads.element, "over-budget"), 25);
            let messages = named(&pads.messages(), "cudaconv-latency");
            assert_eq!(messages.len(), 25);
            for message in messages {
                assert_eq!(message.get::<bool>("over-budget"), Ok(true));
            }
        }
    });
}

/// Reported: frames that are dropped for being late vanish without a count.
#[test]
fn over_budget_drop_drops_and_counts() {
    watched(|| {
        let element = raising();
        element.set_property_from_str("over-budget", "drop");
        element.set_property("budget", 0u64);
        let pads = Pads::around(element);
        pads.begin(&gray());
        let started = Instant::now();
        pads.push_all(0..20);
        let seconds = started.elapsed().as_secs();
        pads.element.set_property("budget", u64::MAX);
        pads.push_all(20..25);
        assert!(pads.end());
        pads.wait_event(gst::EventType::Eos);
        // One a second may be let through, to see whether they would still be late.
        let buffers = pads.buffers();
        let passed = buffers.len() as u64 - 5;
        assert!(passed <= seconds + 1, "{passed} in {seconds} s");
        assert_raised(&buffers[passed as usize..], 20..25);
        assert_eq!(stat(&pads.element, "dropped"), 20 - passed);
        assert_eq!(stat(&pads.element, "frames-in"), 25);
    });
}

/// Reported: frames pass unfiltered while the element says that it filters.
#[test]
fn over_budget_bypass_passes_the_frame_as_it_was_in_order_and_counts() {
    watched(|| {
        let element = raising();
        element.set_property_from_str("over-budget", "bypass");
        element.set_property("budget", 0u64);
        let pads = Pads::around(element);
        pads.begin(&gray());
        pads.push_all(0..20);
        pads.element.set_property("budget", u64::MAX);
        pads.push_all(20..40);
        assert!(pads.end());
        pads.wait_event(gst::EventType::Eos);
        let buffers = pads.buffers();
        assert_eq!(buffers.len(), 40);
        for (number, buffer) in (0u64..).zip(&buffers[..20]) {
            assert_eq!(buffer.pts(), Some(pts(number)));
            assert_eq!(flat_value(&gray(), buffer), level(number), "unfiltered");
        }
        assert_raised(&buffers[20..], 20..40);
        assert_eq!(stat(&pads.element, "bypassed"), 20);
        assert_eq!(stat(&pads.element, "dropped"), 0);
    });
}

/// Reported: a healthy frame is marked as late.
#[test]
fn last_message_says_over_only_when_it_is() {
    watched(|| {
        let element = raising();
        element.set_property("silent", false);
        element.set_property("budget", u64::MAX);
        let pads = Pads::around(element);
        pads.begin(&gray());
        pads.push_all(0..3);
        assert!(pads.end());
        pads.wait_event(gst::EventType::Eos);
        let text = pads.element.property::<String>("last-message");
        assert!(!text.contains("OVER"), "{text:?}");
    });
}

/// Reported: a late stream floods the bus with one warning a frame.
#[test]
fn over_budget_messages_come_at_most_once_a_second_and_count() {
    watched(|| {
        let element = raising();
        element.set_property("budget", 1u64);
        let pads = Pads::around(element);
        let started = Instant::now();
        pads.begin(&gray());
        pads.push_all(0..300);
        assert!(pads.end());
        pads.wait_event(gst::EventType::Eos);
        let seconds = started.elapsed().as_secs();
        let messages = named(&pads.messages(), "cudaconv-over-budget");
        assert!(!messages.is_empty(), "the first is told at once");
        assert!(messages.len() as u64 <= seconds + 1, "{messages:?}");
        let mut told = 0;
        for message in &messages {
            let count = message.get::<u64>("count").expect("a uint64");
            assert!(count > 0);
            told += count;
            assert!(message.get::<u64>("worst-ns").expect("a uint64") > 1);
            let stage = message.get::<String>("stage").expect("a stage");
            assert!(STAGES.contains(&stage.as_str()), "{stage}");
        }
        assert!(told <= 300, "no frame is told twice");
    });
}
