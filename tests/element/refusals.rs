//! Settings and caps that do not go together, or do nothing: told once, in a sentence that says what is accepted.

use gst::prelude::*;

use crate::common::cudaconv;
use crate::common::frames::{gray, numbered_as, raw};
use crate::common::pads::{Pads, texts};
use crate::common::pipelines;
use crate::common::watchdog::watched;

/// What takes grey and YUV, but not RGB.
const FAST: [(&str, &str); 3] = [
    ("kernel", "bilateral"),
    ("window", "square"),
    ("method", "fast"),
];

/// Offers everything that upstream may send after caps that were refused; the errors since the last time.
fn errors_of_attempts(pads: &Pads, caps: &gst::Caps) -> Vec<String> {
    for number in 0..3 {
        let flow = pads.src.push(numbered_as(caps, number));
        assert_eq!(flow, Err(gst::FlowError::NotNegotiated));
        pads.push_number(number);
    }
    assert!(
        pads.src
            .push_event(gst::event::Tag::new(gst::TagList::new()))
    );
    assert_eq!(pads.buffers().len(), 0);
    texts(&pads.messages(), gst::MessageType::Error)
}

fn new_caps(pads: &Pads, caps: &gst::Caps) {
    assert!(pads.src.push_event(gst::event::Caps::new(caps)));
}

/// Reported: one refusal is posted seven times, as GStreamer offers refused caps again before every event.
#[test]
fn caps_that_are_refused_are_told_once() {
    watched(|| {
        let pads = Pads::around(cudaconv(&FAST));
        let (rgb, bgr) = (raw("RGB", 32, 24), raw("BGR", 32, 24));
        pads.begin(&rgb);
        let errors = errors_of_attempts(&pads, &rgb);
        assert_eq!(errors.len(), 1, "{errors:?}");
        for words in ["method=fast", "RGB", "it takes grey and YUV formats"] {
            assert!(errors[0].contains(words), "{errors:?}");
        }
        new_caps(&pads, &bgr);
        assert_eq!(errors_of_attempts(&pads, &bgr).len(), 1, "other caps");
        pads.element.set_property("radius", 3i32);
        assert_eq!(errors_of_attempts(&pads, &bgr).len(), 1, "other settings");
        assert_eq!(errors_of_attempts(&pads, &bgr).len(), 0, "nothing new");
        pads.flush();
        assert_eq!(errors_of_attempts(&pads, &bgr).len(), 1, "after a flush");
        pads.begin_stream("second", &bgr);
        assert_eq!(errors_of_attempts(&pads, &bgr).len(), 1, "a new stream");
        pads.stop();
        pads.begin(&bgr);
        assert_eq!(errors_of_attempts(&pads, &bgr).len(), 1, "a new start");
    });
}

/// What was refused is taken as soon as it can be, and told anew when it is refused again.
#[test]
fn after_a_refusal_what_can_be_done_is_done() {
    watched(|| {
        let pads = Pads::around(cudaconv(&FAST));
        let rgb = raw("RGB", 32, 24);
        pads.begin(&rgb);
        assert_eq!(errors_of_attempts(&pads, &rgb).len(), 1);
        new_caps(&pads, &gray());
        pads.push_all([0]);
        pads.wait_buffers(1);
        pads.forget();
        new_caps(&pads, &rgb);
        assert_eq!(errors_of_attempts(&pads, &rgb).len(), 1, "refused again");
        pads.element.set_property_from_str("method", "auto");
        assert!(pads.src.push(numbered_as(&rgb, 1)).is_ok());
        pads.wait_buffers(1);
        assert_eq!(
            texts(&pads.messages(), gst::MessageType::Error),
            Vec::<String>::new()
        );
    });
}

/// The same of caps that no settings can do anything with.
#[test]
fn caps_that_can_never_be_filtered_are_told_once() {
    watched(|| {
        let pads = Pads::around(cudaconv(&[]));
        let mut caps = raw("I420", 32, 24);
        caps.get_mut()
            .expect("one owner")
            .set("interlace-mode", "fields");
        pads.begin(&caps);
        let errors = errors_of_attempts(&pads, &caps);
        assert_eq!(errors.len(), 1, "{errors:?}");
        assert!(errors[0].contains("accepted are progressive"), "{errors:?}");
    });
}

/// Reported: the same, seen through a pipeline until upstream has given up.
#[test]
fn a_pipeline_shows_one_error_of_the_element() {
    watched(|| {
        let pipeline = pipelines::parse(
            "videotestsrc num-buffers=5 ! video/x-raw,format=RGB,width=32,height=24 ! \
             cudaconv name=filter kernel=bilateral window=square method=fast ! fakesink name=out",
        );
        let filter = pipelines::filter(&pipeline);
        filter.set_property_from_str("backend", crate::common::backend());
        let errors = gst::Bus::new();
        let pushed = errors.clone();
        let bus = pipeline.bus().expect("a pipeline has a bus");
        bus.set_sync_handler(move |_, message| {
            if message.type_() == gst::MessageType::Error {
                pushed.post(message.clone()).expect("a bus");
            }
            gst::BusSyncReply::Pass
        });
        // The source's task has ended when the pipeline has stopped.
        assert!(pipelines::play(&pipeline).error.is_some());
        let own: Vec<gst::Message> = std::iter::from_fn(|| errors.pop())
            .filter(|message| message.src() == Some(filter.upcast_ref()))
            .collect();
        let errors = texts(&own, gst::MessageType::Error);
        assert_eq!(errors.len(), 1, "{errors:?}");
    });
}

/// Reported: `radius` with a kernel of a fixed size does nothing, and nobody says so.
#[test]
fn settings_without_effect_are_told_at_the_start() {
    watched(|| {
        for (properties, told) in [
            (&[("kernel", "gauss3")][..], ""),
            (&[("kernel", "gauss"), ("radius", "3"), ("sigma", "2")], ""),
            (
                &[("matrix", "1 2 1;"), ("radius", "3")],
                "matrix (for kernel=custom), radius (for kernel=box, gauss, unsharp and bilateral)",
            ),
            (
                &[("border-value", "9"), ("alpha", "filter")],
                "border-value (for border=constant), alpha (for formats with alpha)",
            ),
            (
                &[("backend", "cpu"), ("cuda-device-id", "7")],
                "cuda-device-id (for GPUs)",
            ),
        ] {
            let pads = Pads::around(cudaconv(properties));
            pads.begin(&gray());
            pads.push_all([0]);
            pads.wait_buffers(1);
            // Later changes are for the log, as programs go from kernel to kernel.
            pads.element.set_property_from_str("kernel", "sobel");
            pads.element.set_property("sigma", 3f64);
            pads.push_all([1]);
            pads.wait_buffers(2);
            let mut texts = texts(&pads.messages(), gst::MessageType::Info);
            if told.is_empty() {
                assert_eq!(texts, Vec::<String>::new(), "{properties:?}");
            } else {
                assert_eq!(texts.len(), 1, "{texts:?}");
                let text = texts.remove(0);
                assert!(
                    text.ends_with(&format!("without effect here: {told}")),
                    "{text}"
                );
            }
        }
    });
}
