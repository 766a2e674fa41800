//! Applications call back into the element from every message, notification and probe.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use gst::prelude::*;

use crate::common::pads::Pads;
use crate::common::pipelines::{self, RAISING};
use crate::common::raising;
use crate::common::watchdog::watched;

/// Reads every property; how many there were.
fn read_all(element: &gst::Element) -> usize {
    let properties = element.list_properties();
    for property in properties.iter() {
        if property.flags().contains(gst::glib::ParamFlags::READABLE) {
            let _ = element.property_value(property.name());
        }
    }
    properties.len()
}

/// Reported: a deadlock as soon as a message handler reads a property, asks for the latency or
/// dumps the pipeline, because the element still holds its lock.
#[test]
fn a_bus_handler_may_read_everything_from_within_every_message() {
    watched(|| {
        let pipeline = pipelines::parse(&format!(
            "videotestsrc num-buffers=50 ! video/x-raw,format=GRAY8,width=32,height=24 ! \
             {RAISING} post-messages=true silent=false budget=1 ! fakesink name=out"
        ));
        let filter = pipelines::filter(&pipeline);
        let handled = call_back_from_every_message(&pipeline.bus().expect("a bus"), &filter);
        pipelines::play(&pipeline).assert_frames(50);
        // One message a frame at least, beside those of start and end.
        assert!(handled.load(Ordering::SeqCst) > 50);
    });
}

/// Makes a handler that reads, queries, dumps and sends an event upstream from within each message
/// of the element or of its pads; how many there were.
fn call_back_from_every_message(bus: &gst::Bus, filter: &gst::Element) -> Arc<AtomicU64> {
    let handled = Arc::new(AtomicU64::new(0));
    let counter = handled.clone();
    let weak = filter.downgrade();
    bus.set_sync_handler(move |_, message| {
        let Some(filter) = weak.upgrade() else {
            return gst::BusSyncReply::Pass;
        };
        let from = message.src().cloned();
        let parent = from.as_ref().and_then(|from| from.parent());
        let itself = filter.upcast_ref::<gst::Object>();
        if from.as_ref() == Some(itself) || parent.as_ref() == Some(itself) {
            read_all(&filter);
            let src = filter.static_pad("src").expect("a src pad");
            src.query(&mut gst::query::Latency::new());
            src.send_event(gst::event::Reconfigure::new());
            let root = filter.parent().and_downcast::<gst::Bin>();
            root.map(|root| root.debug_to_dot_data(gst::DebugGraphDetails::all()));
            counter.fetch_add(1, Ordering::SeqCst);
        }
        gst::BusSyncReply::Pass
    });
    handled
}

/// Reported: the same for messages that are rare: warnings, errors, starts and stops of threads.
#[test]
fn a_bus_handler_may_do_so_from_within_warnings_errors_and_thread_starts_too() {
    watched(|| {
        for start in 0..3 {
            let pads = Pads::around(raising());
            let handled = call_back_from_every_message(&pads.bus, &pads.element);
            pads.element.set_property("budget", 0u64);
            pads.element.set_property("matrix", "no matrix");
            pads.begin(&crate::common::frames::gray());
            pads.element.set_property("matrix", "none either");
            let short = crate::common::frames::stamped(vec![0; 5], 1);
            assert_eq!(pads.src.push(short), Ok(gst::FlowSuccess::Ok));
            pads.push_all(0..5);
            pads.flush();
            if start == 1 {
                pads.close_gate();
                pads.push_all(5..7);
                pads.wait_blocked();
                assert!(pads.end());
                pads.answer_after(0, gst::FlowError::Error);
                pads.open_gate();
            } else {
                pads.element.set_property_from_str("kernel", "custom");
                let larger = crate::common::frames::gray_of(64, 48);
                pads.src.push_event(gst::event::Caps::new(&larger));
            }
            pads.wait_error();
            pads.stop();
            assert!(handled.load(Ordering::SeqCst) >= 4);
        }
    });
}

/// Reported: the same for notifications, whose handler sets another property.
#[test]
fn a_notify_handler_may_set_properties() {
    watched(|| {
        let pads = Pads::raising();
        let notified = Arc::new(AtomicU64::new(0));
        for property in ["last-message", "kernel", "amount"] {
            let counter = notified.clone();
            pads.element
                .connect_notify(Some(property), move |element, _| {
                    let count = counter.fetch_add(1, Ordering::SeqCst);
                    if property != "amount" {
                        element.set_property("amount", (count % 10) as f64);
                    }
                    read_all(element);
                });
        }
        pads.element.set_property("silent", false);
        pads.push_all(0..10);
        pads.element.set_property_from_str("kernel", "box3");
        pads.push_all(10..20);
        pads.wait_buffers(20);
        assert!(notified.load(Ordering::SeqCst) >= 20, "one a frame");
    });
}

/// Reported: the same for a probe on the output thread that asks for the latency.
#[test]
fn a_probe_on_the_output_thread_may_query_and_set() {
    watched(|| {
        let latency = (true, gst::ClockTime::from_mseconds(1), None);
        let pads = Pads::with_latency(raising(), latency);
        let asked = Arc::new(AtomicU64::new(0));
        let counter = asked.clone();
        let pad = pads.element.static_pad("src").expect("a src pad");
        pad.add_probe(gst::PadProbeType::DATA_DOWNSTREAM, move |pad, _| {
            let mut query = gst::query::Latency::new();
            if pad.query(&mut query) {
                counter.fetch_add(1, Ordering::SeqCst);
            }
            let element = pad.parent_element().expect("a pad of an element");
            read_all(&element);
            element.set_property("bias", 1f64);
            gst::PadProbeReturn::Ok
        });
        pads.begin(&crate::common::frames::gray());
        pads.push_all(0..20);
        assert!(pads.end());
        pads.wait_event(gst::EventType::Eos);
        assert!(asked.load(Ordering::SeqCst) >= 20);
    });
}

/// Reported: reading statistics in a loop stalls the stream, or the other way round.
#[test]
fn properties_can_be_read_all_the_time_while_frames_are_blocked() {
    watched(|| {
        let pads = Pads::raising();
        pads.close_gate();
        let pusher = pads.push_from_thread(0..30);
        pads.wait_blocked();
        for _ in 0..200 {
            assert!(read_all(&pads.element) > 20);
            pads.element.set_property("bias", 1f64);
        }
        pads.open_gate();
        assert_eq!(pusher.join(), Ok(gst::FlowSuccess::Ok));
        pads.wait_buffers(30);
    });
}
