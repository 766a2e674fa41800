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
        let handled = Arc::new(AtomicU64::new(0));
        let counter = handled.clone();
        let weak = pipeline.downgrade();
        let bus = pipeline.bus().expect("a pipeline has a bus");
        bus.set_sync_handler(move |_, message| {
            let ours = message.src().is_some_and(|src| *src == filter);
            if let (true, Some(pipeline)) = (ours, weak.upgrade()) {
                read_all(&filter);
                let _ = filter.query(&mut gst::query::Latency::new());
                let _ = pipeline.debug_to_dot_data(gst::DebugGraphDetails::all());
                counter.fetch_add(1, Ordering::SeqCst);
            }
            gst::BusSyncReply::Pass
        });
        pipelines::play(&pipeline).assert_frames(50);
        bus.unset_sync_handler();
        // One message a frame at least, beside those of start and end.
        assert!(handled.load(Ordering::SeqCst) > 50);
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
