//! Drivers and devices that cannot be used, and several that can: what a user is told.

use std::path::PathBuf;

use gst::prelude::*;

use crate::common::cudaconv;
use crate::common::frames::{self, assert_raised};
use crate::common::pads::{Pads, named, texts};
use crate::common::pipelines;
use crate::common::watchdog::watched;
use crate::on_test_driver;

/// Runs five frames through `backend=auto`, which takes the CPU, and starts `backend=cuda`, which
/// fails. Both say `words`.
fn refused(words: &[&'static str]) {
    let words = words.to_vec();
    watched(move || {
        let outcome = pipelines::run(
            "videotestsrc num-buffers=5 ! video/x-raw,format=GRAY8,width=32,height=24 ! \
             cudaconv name=filter ! fakesink name=out",
        );
        outcome.assert_frames(5);
        let told = named(&outcome.messages, "cudaconv-backend");
        assert_eq!(told.len(), 1);
        assert_eq!(told[0].get::<&str>("backend"), Ok("cpu"));
        assert_eq!(told[0].get::<i32>("device-id"), Ok(-1));
        let reason = told[0].get::<String>("reason").unwrap();

        let pads = Pads::around(cudaconv(&[("backend", "cuda")]));
        let started = pads.element.set_state(gst::State::Ready);
        assert!(started.is_err(), "NULL to READY fails");
        let error = pads.wait_error();
        assert!(error.is::<gst::ResourceError>(), "{error:?}");
        for text in [reason, error.to_string()] {
            for word in &words {
                assert!(text.contains(word), "{text:?} says {word:?}");
            }
        }
    });
}

#[test]
fn without_a_library_the_driver_is_named_as_missing() {
    on_test_driver!(&[("LD_LIBRARY_PATH", "")], || {
        refused(&["libcuda.so.1 was not found", "no CUDA toolkit is needed"]);
    });
}

/// A folder in which some other library has the driver's name.
fn folder_of_another_library() -> PathBuf {
    let maps = std::fs::read_to_string("/proc/self/maps").expect("the memory of this process");
    let library = maps
        .split_whitespace()
        .find(|word| word.contains("/libm.so"));
    let library = library.expect("the library of mathematics");
    let folder = std::env::temp_dir().join(format!("cudaconv-no-driver-{}", std::process::id()));
    std::fs::create_dir_all(&folder).expect("a folder");
    for name in ["libcuda.so", "libcuda.so.1"] {
        std::os::unix::fs::symlink(library, folder.join(name)).expect("a link");
    }
    folder
}

#[test]
fn a_library_that_lacks_functions_is_no_driver() {
    let folder = folder_of_another_library();
    let path = folder.to_str().expect("a readable path");
    on_test_driver!(&[("LD_LIBRARY_PATH", path)], || {
        refused(&["lacks the function", "LD_LIBRARY_PATH"]);
    });
    std::fs::remove_dir_all(&folder).expect("the folder goes");
}

#[test]
fn without_a_device_the_user_is_told_so() {
    on_test_driver!(&[("FAKECUDA_DEVICES", "0")], || refused(&[
        "finds no device"
    ]));
}

#[test]
fn a_hidden_device_is_blamed_on_the_variable() {
    let hidden = [("CUDA_VISIBLE_DEVICES", "-1")];
    on_test_driver!(&hidden, || refused(&["CUDA_VISIBLE_DEVICES", "-1"]));
}

#[test]
fn an_old_driver_is_told_with_both_versions() {
    let old = [("FAKECUDA_DRIVER_VERSION", "11040")];
    on_test_driver!(&old, || refused(&["11.4", "12.2", "535"]));
}

#[test]
fn an_old_device_is_told_with_its_capability() {
    let old = [("FAKECUDA_COMPUTE", "70")];
    on_test_driver!(&old, || refused(&["Fake CUDA device", "7.0", "7.5"]));
}

#[test]
fn a_driver_that_does_not_start_is_quoted() {
    let mismatch = [("FAKECUDA_FAIL", "cuInit:1+:803")];
    let words = ["CUDA_ERROR_SYSTEM_DRIVER_MISMATCH", "restart the machine"];
    on_test_driver!(&mismatch, || refused(&words));
}

#[test]
fn a_device_that_gives_no_context_is_quoted() {
    let busy = [("FAKECUDA_FAIL", "cuDevicePrimaryCtxRetain:1+:46")];
    on_test_driver!(&busy, || refused(&["CUDA_ERROR_DEVICE_UNAVAILABLE"]));
}

#[test]
fn a_device_that_is_not_there_is_answered_with_those_that_are() {
    on_test_driver!(&[("FAKECUDA_DEVICES", "2")], || {
        watched(|| {
            let properties = [("backend", "cuda"), ("cuda-device-id", "7")];
            let pads = Pads::around(cudaconv(&properties));
            assert!(pads.element.set_state(gst::State::Ready).is_err());
            let text = pads.wait_error().to_string();
            assert!(
                text.contains("cuda-device-id=7") && text.contains("0"),
                "{text}"
            );
        });
    });
}

/// The device that an element says it took.
fn device_of(pads: &Pads) -> i32 {
    let told = named(&pads.messages(), "cudaconv-backend");
    assert_eq!(told.len(), 1);
    assert_eq!(told[0].get::<&str>("backend"), Ok("cuda"));
    assert_eq!(told[0].get::<&str>("device"), Ok("Fake CUDA device"));
    assert_eq!(told[0].get::<&str>("cuda"), Ok("12.2"));
    told[0].get::<i32>("device-id").unwrap()
}

fn raising_on(device: &str) -> Pads {
    let properties = [
        ("cuda-device-id", device),
        ("kernel", "gauss3"),
        ("bias", "1"),
    ];
    let pads = Pads::around(cudaconv(&properties));
    pads.begin(&frames::gray());
    pads
}

/// Reported: a device id is honoured in part, and objects of two devices meet.
#[test]
fn elements_work_side_by_side_on_the_devices_they_ask_for() {
    on_test_driver!(&[("FAKECUDA_DEVICES", "3")], || {
        watched(|| {
            let all: Vec<Pads> = ["2", "0", "-1", "-1"].map(raising_on).into();
            let devices: Vec<i32> = all.iter().map(device_of).collect();
            // Any: the one with the fewest elements, the lowest on ties.
            assert_eq!(devices, [2, 0, 1, 0]);
            for pads in &all {
                pads.push_all(0..10);
            }
            for pads in &all {
                pads.wait_buffers(10);
                assert_raised(&pads.buffers(), 0..10);
                let stats = crate::common::stats(&pads.element);
                assert_eq!(stats.get::<&str>("backend"), Ok("cuda"));
                assert_eq!(stats.get::<&str>("device"), Ok("Fake CUDA device"));
            }
        });
    });
}

#[test]
fn a_driver_that_refuses_the_kernels_is_an_error_before_the_first_frame() {
    on_test_driver!(&[("FAKECUDA_FAIL", "cuModuleLoadDataEx:1+:222")], || {
        watched(|| {
            let pads = Pads::around(cudaconv(&[]));
            pads.begin(&frames::gray());
            assert_eq!(pads.push(0), Err(gst::FlowError::NotNegotiated));
            let text = pads.wait_error().to_string();
            for word in ["CUDA_ERROR_UNSUPPORTED_PTX_VERSION", "12.2"] {
                assert!(text.contains(word), "{text:?} says {word:?}");
            }
            assert_eq!(pads.buffers().len(), 0);

            // So much work that it is for the GPU.
            let auto = Pads::around(cudaconv(&[
                ("backend", "auto"),
                ("kernel", "bilateral"),
                ("window", "square"),
                ("radius", "6"),
                ("sigma-space", "4"),
                ("bias", "1"),
            ]));
            auto.begin(&frames::gray());
            auto.push_all(0..5);
            auto.wait_buffers(5);
            assert_raised(&auto.buffers(), 0..5);
            let warnings = texts(&auto.messages(), gst::MessageType::Warning);
            assert_eq!(warnings.len(), 1, "{warnings:?}");
            assert!(warnings[0].contains("12.2"), "{warnings:?}");
        });
    });
}

/// Reported: newcomers do not learn which of driver, toolkit and card is at fault.
#[test]
fn the_doctor_tells_of_driver_and_devices_and_tries_them() {
    let doctor = |folder: &std::path::Path| {
        let output = std::process::Command::new(env!("CARGO_BIN_EXE_cudaconv"))
            .arg("doctor")
            .env("LD_LIBRARY_PATH", folder)
            .output();
        let output = output.expect("the program starts");
        String::from_utf8_lossy(&output.stdout).into_owned()
    };
    let found = doctor(&crate::library::folder());
    for text in [
        "CUDA 12.2; no CUDA toolkit is needed",
        "GPU 0",
        "Fake CUDA device, compute capability",
        "trial frames have the CPU's pixels",
    ] {
        assert!(found.contains(text), "{found} says {text:?}");
    }
    let missing = doctor(std::path::Path::new("/nonexistent"));
    assert!(missing.contains("libcuda.so.1 was not found"), "{missing}");
}
