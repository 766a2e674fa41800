//! Calls that fail while frames are in work: no frame is lost, doubled or passed unfiltered under
//! `backend=auto`, and none is wrong under `backend=cuda`.

use gst::prelude::*;

use crate::common::frames::{self, assert_raised};
use crate::common::pads::{Pads, texts};
use crate::common::watchdog::watched;
use crate::common::{cudaconv, raising, stats};
use crate::control::{calls, inject};
use crate::on_test_driver;

/// Every function of the driver that works on a stream of frames.
const CALLS: [&str; 17] = [
    "cuCtxPushCurrent",
    "cuStreamCreate",
    "cuEventCreate",
    "cuMemAlloc",
    "cuMemHostRegister",
    "cuModuleLoadDataEx",
    "cuModuleGetFunction",
    "cuFuncGetAttribute",
    "cuEventRecord",
    "cuMemcpyHtoDAsync",
    "cuLaunchKernel",
    "cuMemcpyDtoHAsync",
    "cuMemcpy2DAsync",
    "cuEventQuery",
    "cuEventSynchronize",
    "cuEventElapsedTime",
    "cuStreamSynchronize",
];
const FRAMES: u64 = 12;

/// Raises every level by one, with so much work that `backend=auto` leaves it to the GPU, and with weights
/// in device memory.
fn filter(backend: &str) -> gst::Element {
    cudaconv(&[
        ("backend", backend),
        ("kernel", "bilateral"),
        ("window", "square"),
        ("radius", "9"),
        ("sigma-space", "4"),
        ("bias", "1"),
    ])
}

/// All frames come out, whatever happens, with at most one warning.
fn auto_loses_nothing() {
    watched(|| {
        let pads = Pads::around(filter("auto"));
        pads.begin(&frames::gray());
        pads.push_all(0..FRAMES);
        assert!(pads.end());
        pads.wait_event(gst::EventType::Eos);
        assert_raised(&pads.buffers(), 0..FRAMES);
        let messages = pads.messages();
        let errors = texts(&messages, gst::MessageType::Error);
        assert!(errors.is_empty(), "{errors:?}");
        let warnings = texts(&messages, gst::MessageType::Warning);
        assert!(warnings.len() <= 1, "{warnings:?}");
        // A second stream in the same element and process.
        pads.stop();
        pads.begin(&frames::gray());
        pads.push_all(0..3);
        pads.wait_buffers(FRAMES as usize + 3);
        assert_raised(&pads.buffers()[FRAMES as usize..], 0..3);
    });
}

/// What comes out is right and in order, and what does not is an ERROR with CUDA's name of it.
fn cuda_shows_nothing_wrong(name: &'static str) {
    watched(move || {
        let pads = Pads::around(filter("cuda"));
        pads.sink.set_active(true).expect("the sink pad activates");
        pads.src.set_active(true).expect("the src pad activates");
        let mut failed = pads.element.set_state(gst::State::Playing).is_err();
        if !failed {
            pads.begin_stream("test", &frames::gray());
            failed = (0..FRAMES).any(|number| pads.push(number).is_err());
            failed |= !pads.end();
        }
        if !failed {
            // The frames in flight at the end may still fail.
            let ends = [gst::MessageType::Error, gst::MessageType::Element];
            while pads.buffers().len() < FRAMES as usize && !failed {
                let patience = gst::ClockTime::from_mseconds(20);
                let message = pads.bus.timed_pop_filtered(patience, &ends);
                failed = message.is_some_and(|m| m.type_() == gst::MessageType::Error);
            }
        } else {
            let text = pads.wait_error().to_string();
            assert!(text.contains("CUDA_ERROR_UNKNOWN"), "{text}");
            assert!(text.contains(name), "{text} names {name}");
        }
        let buffers = pads.buffers();
        assert_raised(&buffers, 0..buffers.len() as u64);
        assert!(failed || buffers.len() == FRAMES as usize);
    });
}

/// Runs `body` once for each of the first calls of each function, which and all later ones fail.
macro_rules! with_each_failing {
    ($code:expr, $body:expr) => {
        for name in CALLS {
            for count in [1, 2, 3, 6, 13] {
                let rule = format!("{name}:{count}+:{}", $code);
                on_test_driver!(&[("FAKECUDA_FAIL", &rule)], $body(name));
            }
        }
    };
}

/// The function that the rules of this process fail.
fn failing() -> &'static str {
    let rule = std::env::var("FAKECUDA_FAIL").expect("a rule");
    let name = rule.split(':').next().unwrap_or_default();
    CALLS
        .into_iter()
        .find(|call| *call == name)
        .expect("one of them")
}

#[test]
fn auto_loses_nothing_whichever_call_fails() {
    with_each_failing!(999, |_| auto_loses_nothing);
}

#[test]
fn auto_loses_nothing_whichever_call_finds_the_device_lost() {
    with_each_failing!(700, |_| auto_loses_nothing);
}

#[test]
fn auto_loses_nothing_whichever_call_is_short_of_memory_once() {
    for name in CALLS {
        for count in [1, 2, 5] {
            let rule = format!("{name}:{count}:2");
            on_test_driver!(&[("FAKECUDA_FAIL", &rule)], auto_loses_nothing);
        }
    }
}

#[test]
fn cuda_shows_nothing_wrong_whichever_call_fails() {
    with_each_failing!(999, |_| || cuda_shows_nothing_wrong(failing()));
}

/// Reported: after an illegal address every call fails, and the element pushes rubbish or spins.
#[test]
fn a_kernel_that_faults_in_mid_stream_is_one_warning_and_no_lost_frame() {
    on_test_driver!(&[], || {
        watched(|| {
            let pads = Pads::around(filter("auto"));
            pads.begin(&frames::gray());
            pads.push_all(0..10);
            pads.wait_buffers(10);
            inject(
                "FAULT",
                &format!("cuLaunchKernel:{}:700", calls("cuLaunchKernel") + 3),
            );
            pads.push_all(10..40);
            pads.wait_buffers(40);
            assert_raised(&pads.buffers(), 0..40);
            let warnings = texts(&pads.messages(), gst::MessageType::Warning);
            assert_eq!(warnings.len(), 1, "{warnings:?}");
            for word in ["CUDA_ERROR_ILLEGAL_ADDRESS", "Fake CUDA device", "CPU"] {
                assert!(warnings[0].contains(word), "{warnings:?} say {word:?}");
            }
            assert_eq!(stats(&pads.element).get::<&str>("backend"), Ok("cpu"));
            let launches = calls("cuLaunchKernel");
            pads.push_all(40..45);
            pads.wait_buffers(45);
            assert_eq!(
                calls("cuLaunchKernel"),
                launches,
                "the device is left alone"
            );
        });
    });
}

#[test]
fn a_kernel_that_faults_ends_a_stream_that_must_be_on_the_gpu() {
    on_test_driver!(&[("FAKECUDA_FAULT", "cuLaunchKernel:12:719")], || {
        watched(|| {
            let pads = Pads::around(filter("cuda"));
            pads.begin(&frames::gray());
            let taken = (0..40)
                .take_while(|number| pads.push(*number).is_ok())
                .count();
            assert!(taken < 40, "upstream is told");
            let text = pads.wait_error().to_string();
            assert!(text.contains("CUDA_ERROR_LAUNCH_FAILED"), "{text}");
            let buffers = pads.buffers();
            assert!(!buffers.is_empty());
            assert_raised(&buffers, 0..buffers.len() as u64);
            // The next start says why it is refused.
            pads.stop();
            assert!(pads.element.set_state(gst::State::Ready).is_err());
            let text = pads.wait_error().to_string();
            assert!(text.contains("CUDA_ERROR_LAUNCH_FAILED"), "{text}");
        });
    });
}

#[test]
fn other_elements_of_the_process_go_on_too() {
    on_test_driver!(&[], || {
        watched(|| {
            let all = [(); 4].map(|()| Pads::around(filter("auto")));
            for pads in &all {
                pads.begin(&frames::gray());
                pads.push_all(0..5);
            }
            inject(
                "FAULT",
                &format!("cuMemcpyHtoDAsync:{}:700", calls("cuMemcpyHtoDAsync") + 2),
            );
            for pads in &all {
                pads.push_all(5..20);
                pads.wait_buffers(20);
                assert_raised(&pads.buffers(), 0..20);
                let warnings = texts(&pads.messages(), gst::MessageType::Warning);
                assert_eq!(warnings.len(), 1, "{warnings:?}");
            }
            let late = Pads::around(filter("auto"));
            late.begin(&frames::gray());
            late.push_all(0..3);
            late.wait_buffers(3);
            assert_raised(&late.buffers(), 0..3);
        });
    });
}

/// Reported: an element whose frames do not fit on the device takes the others down with it.
#[test]
fn a_full_device_stops_only_who_does_not_fit() {
    on_test_driver!(&[("FAKECUDA_MEMORY", "6000000")], || {
        watched(|| {
            let small = Pads::around(raising());
            small.begin(&frames::gray());
            small.push_all(0..5);
            let large = Pads::around(filter("cuda"));
            large.begin(&frames::raw("RGBA", 1920, 1080));
            let frame = frames::numbered_as(&frames::raw("RGBA", 1920, 1080), 0);
            assert_eq!(large.src.push(frame), Err(gst::FlowError::NotNegotiated));
            let text = large.wait_error().to_string();
            assert!(text.contains("CUDA_ERROR_OUT_OF_MEMORY"), "{text}");
            large.stop();
            small.push_all(5..20);
            small.wait_buffers(20);
            assert_raised(&small.buffers(), 0..20);
            assert_eq!(stats(&small.element).get::<&str>("backend"), Ok("cuda"));
        });
    });
}
