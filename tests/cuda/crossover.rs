//! Which streams go to the GPU under `backend=auto`.

use gst::prelude::*;

use crate::common::frames::{self, assert_raised, gray, gray_of};
use crate::common::pads::{Pads, texts};
use crate::common::watchdog::watched;
use crate::common::{cudaconv, stats};
use crate::control::calls;
use crate::on_test_driver;

fn backend(pads: &Pads) -> String {
    let backend = stats(&pads.element).get::<String>("backend");
    backend.expect("stats name the backend")
}

/// Reported: small frames take longer over the GPU than on the CPU alone.
#[test]
fn streams_of_small_frames_stay_on_the_cpu_and_larger_ones_go_to_the_gpu() {
    on_test_driver!(&[], || {
        watched(|| {
            let auto = [("backend", "auto"), ("kernel", "gauss3"), ("bias", "1")];
            let pads = Pads::around(cudaconv(&auto));
            pads.begin(&gray());
            pads.push_all(0..5);
            pads.wait_buffers(5);
            assert_eq!(
                (backend(&pads).as_str(), calls("cuLaunchKernel")),
                ("cpu", 0)
            );
            // What the stream began with stays.
            pads.element.set_property_from_str("kernel", "bilateral");
            pads.element.set_property("radius", 20i32);
            pads.push_all(5..10);
            pads.wait_buffers(10);
            assert_eq!(
                (backend(&pads).as_str(), calls("cuLaunchKernel")),
                ("cpu", 0)
            );
            pads.element.set_property_from_str("kernel", "gauss3");

            let large = gray_of(640, 480);
            assert!(pads.src.push_event(gst::event::Caps::new(&large)));
            for number in 10..13 {
                let pushed = pads.src.push(frames::numbered_as(&large, number));
                assert_eq!(pushed, Ok(gst::FlowSuccess::Ok));
            }
            pads.wait_buffers(13);
            assert_eq!(backend(&pads), "cuda");
            let launches = calls("cuLaunchKernel");
            assert!(launches >= 3, "{launches} launches");

            assert!(pads.src.push_event(gst::event::Caps::new(&gray())));
            pads.push_all(13..20);
            pads.wait_buffers(20);
            assert_eq!(backend(&pads), "cpu");
            assert_eq!(calls("cuLaunchKernel"), launches);
            let buffers = pads.buffers();
            assert_raised(&buffers[..10], 0..10);
            assert_raised(&buffers[13..], 13..20);
        });
    });
}

/// Whoever asks for the GPU gets it.
#[test]
fn small_frames_go_to_the_gpu_where_it_is_asked_for() {
    on_test_driver!(&[], || {
        watched(|| {
            let pads = Pads::around(cudaconv(&[
                ("backend", "cuda"),
                ("kernel", "gauss3"),
                ("bias", "1"),
            ]));
            pads.begin(&gray());
            pads.push_all(0..3);
            pads.wait_buffers(3);
            assert_raised(&pads.buffers(), 0..3);
            assert_eq!(backend(&pads), "cuda");
        });
    });
}

/// Reported: a setting is refused because of the frames' size.
#[test]
fn a_method_that_is_asked_for_is_the_gpus_also_for_small_frames() {
    on_test_driver!(&[], || {
        watched(|| {
            for asked_for_before in [true, false] {
                let auto = [("backend", "auto"), ("kernel", "gauss3"), ("bias", "1")];
                let pads = Pads::around(cudaconv(&auto));
                if asked_for_before {
                    pads.element.set_property_from_str("method", "tile");
                }
                pads.begin(&gray());
                pads.push_all(0..3);
                pads.element.set_property_from_str("method", "tile");
                // The first may have to load a module, in whose time others pass.
                let mut count = 3;
                while backend(&pads) != "cuda" {
                    pads.push_all([count]);
                    count += 1;
                    pads.wait_buffers(count as usize);
                }
                pads.push_all(count..count + 3);
                pads.wait_buffers(count as usize + 3);
                assert_raised(&pads.buffers(), 0..count + 3);
                assert!(calls("cuLaunchKernel") > 0);
                let warnings = texts(&pads.messages(), gst::MessageType::Warning);
                assert!(warnings.is_empty(), "{warnings:?}");
            }
        });
    });
}
