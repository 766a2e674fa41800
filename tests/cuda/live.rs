//! A live pipeline on a device that stalls once.

use std::sync::{Arc, Mutex};

use gst::prelude::*;

use crate::common::pads::named;
use crate::common::pipelines;
use crate::common::stat;
use crate::common::watchdog::{measured, watched};
use crate::control::{calls, inject};
use crate::on_test_driver;

/// What the filter adds to the latency of the pipeline.
fn answer(filter: &gst::Element) -> gst::ClockTime {
    let mut query = gst::query::Latency::new();
    let pad = filter.static_pad("src").expect("a source pad");
    assert!(pad.query(&mut query), "the query is answered");
    let mut upstream = gst::query::Latency::new();
    let pad = filter.static_pad("sink").expect("a sink pad");
    assert!(pad.peer_query(&mut upstream), "the query is answered");
    let ((live, all, _), (_, before, _)) = (query.result(), upstream.result());
    assert!(live);
    all - before
}

/// Reported: one hiccup delays a pipeline for ever.
#[test]
fn a_stall_of_400_ms_raises_the_latency_of_no_pipeline() {
    on_test_driver!(&[], || watched(|| measured(stall_once)));
}

/// Plays four seconds, one of whose frames takes 400 ms.
fn stall_once() -> Result<(), String> {
    let pipeline = pipelines::parse(
        "videotestsrc name=source is-live=true num-buffers=120 ! \
         video/x-raw,format=GRAY8,width=64,height=48,framerate=30/1 ! \
         cudaconv name=filter backend=cuda kernel=gauss3 post-messages=true ! \
         fakesink name=out sync=true",
    );
    let filter = pipelines::filter(&pipeline);
    let answers = Arc::new(Mutex::new(Vec::new()));
    let (writer, asked) = (answers.clone(), filter.clone());
    let source = pipeline.by_name("source").and_then(|s| s.static_pad("src"));
    source
        .expect("a source")
        .add_probe(gst::PadProbeType::BUFFER, move |_, info| {
            let number = info.buffer().map(|buffer| buffer.offset());
            if let Some(30 | 118) = number {
                writer.lock().expect("not poisoned").push(answer(&asked));
            }
            if number == Some(30) {
                let next = calls("cuLaunchKernel") + 1;
                inject("SLOW", &format!("cuLaunchKernel:{next}:400000"));
            }
            gst::PadProbeReturn::Ok
        });
    let outcome = pipelines::play(&pipeline);
    assert_eq!(outcome.error, None);
    let stalled = stat(&filter, "latency-max-ns");
    assert!(stalled >= 390_000_000, "it stalled: {stalled} ns");
    let answers = answers.lock().expect("not poisoned").clone();
    assert_eq!(answers.len(), 2);
    // The stall itself would raise it to the budget; whatever else made frames slow may raise it.
    let frames = named(&outcome.messages, "cudaconv-latency");
    let apart = frames.iter().filter(|frame| {
        let number = frame.get::<u64>("frame").expect("a uint64");
        !(25..65).contains(&number)
    });
    let slowest = apart.map(|frame| frame.get::<u64>("latency-ns").expect("a uint64"));
    let slowest = gst::ClockTime::from_nseconds(slowest.max().expect("frames"));
    let most = answers[0].max(slowest + slowest / 4);
    match answers[1] <= most {
        true => Ok(()),
        false => Err(format!(
            "raised from {} to {}, slowest {slowest}",
            answers[0], answers[1]
        )),
    }
}
