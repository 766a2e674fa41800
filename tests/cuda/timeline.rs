//! The timeline of frames that the device works on.

use gst::prelude::*;

use crate::common::cudaconv;
use crate::common::frames;
use crate::common::pads::Pads;
use crate::common::timeline::{self, Span, Timeline};
use crate::common::watchdog::watched;
use crate::on_test_driver;

const FRAMES: u64 = 20;
/// Kernels take far longer than copies, and both far longer than all that goes on around them;
/// kernels run one at a time, so that two frames cannot go on in step.
const DEVICE: [(&str, &str); 2] = [
    (
        "FAKECUDA_SLOW",
        "cuLaunchKernel:1+:12000,cuMemcpyHtoDAsync:1+:4000,cuMemcpyDtoHAsync:1+:2000",
    ),
    ("FAKECUDA_SERIAL", "1"),
];

/// Filters frames with `depth` in flight in an element named `filter`.
fn filter_frames(depth: u32) {
    watched(move || {
        let element = cudaconv(&[("name", "filter"), ("kernel", "gauss3")]);
        element.set_property("depth", depth);
        let pads = Pads::around(element);
        pads.begin(&frames::gray());
        pads.push_all(0..FRAMES);
        assert!(pads.end());
        pads.wait_event(gst::EventType::Eos);
        pads.stop();
    });
}

/// How much of the copies to the device ran during kernels of other frames.
fn hidden_share(timeline: &Timeline) -> f64 {
    let of = |name: &'static str| timeline.spans.iter().filter(move |s| s.name == name);
    let hidden = |upload: &Span| -> f64 {
        of("kernel")
            .filter(|kernel| kernel.frame != upload.frame)
            .map(|kernel| kernel.overlaps(upload))
            .sum()
    };
    let total: f64 = of("upload").map(|upload| upload.to - upload.from).sum();
    of("upload").map(hidden).sum::<f64>() / total
}

#[test]
fn copies_of_one_frame_run_during_the_kernel_of_another_and_stages_are_in_order() {
    let file = timeline::fresh_file("overlap");
    let path = file.to_str().expect("a plain name");
    on_test_driver!(&[("CUDACONV_TRACE", path), DEVICE[0], DEVICE[1]], || {
        filter_frames(2)
    });
    let timeline = timeline::read(&file);
    timeline.assert_in_order("filter", 0..FRAMES);
    let share = hidden_share(&timeline);
    assert!(share > 0.25, "{share} of the uploads are hidden");
    for name in ["upload", "kernel", "download"] {
        let spans = timeline.spans.iter().filter(|span| span.name == name);
        assert_eq!(spans.count() as u64, FRAMES, "{name}");
    }
    // A frame may begin in the last moments of the one before, on a track of its own.
    let slots: Vec<&str> = (timeline.tracks.iter())
        .map(|(_, track)| track.as_str())
        .filter(|track| *track != "slot 2")
        .collect();
    assert_eq!(slots, ["chain", "slot 0", "slot 1", "output task"]);
}

/// What shows that the test above can fail.
#[test]
fn a_single_frame_in_flight_overlaps_with_none() {
    let file = timeline::fresh_file("no-overlap");
    let path = file.to_str().expect("a plain name");
    on_test_driver!(&[("CUDACONV_TRACE", path), DEVICE[0], DEVICE[1]], || {
        filter_frames(1)
    });
    let timeline = timeline::read(&file);
    timeline.assert_in_order("filter", 0..FRAMES);
    assert_eq!(hidden_share(&timeline), 0.0);
}
