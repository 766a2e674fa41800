//! What the element takes of the driver, and gives back.

use std::time::{Duration, Instant};

use gst::prelude::*;
use gstcudaconv::engine::cuda::abi::Module;

use crate::common::frames::{self, assert_raised, gray, raw};
use crate::common::pads::Pads;
use crate::common::watchdog::watched;
use crate::common::{cudaconv, pipelines, raising, stat, stats};
use crate::control::{calls, inject, live};
use crate::on_test_driver;

const KINDS: [&str; 6] = [
    "contexts",
    "streams",
    "events",
    "modules",
    "allocations",
    "registrations",
];

fn all_live() -> Vec<(&'static str, u64)> {
    KINDS.map(|kind| (kind, live(kind))).into()
}

fn assert_nothing_left() {
    for (kind, count) in all_live() {
        assert_eq!(count, 0, "{kind} left behind");
    }
}

/// Reported: each start leaves memory, streams or a reference to the context behind.
#[test]
fn a_hundred_starts_leave_nothing_behind() {
    on_test_driver!(&[], || {
        watched(|| {
            for _ in 0..100 {
                let pads = Pads::raising();
                pads.push_all(0..3);
                pads.wait_buffers(3);
                assert_raised(&pads.buffers(), 0..3);
            }
            assert_nothing_left();
        });
    });
}

/// Reported: each change of caps leaves memory behind.
#[test]
fn changes_of_caps_level_off() {
    on_test_driver!(&[], || {
        watched(|| {
            let pads = Pads::around(raising());
            let sizes = [gray(), raw("RGBA", 64, 48), raw("I420", 33, 17)];
            pads.begin(&sizes[0]);
            let mut settled = Vec::new();
            for turn in 0..100 {
                let caps = &sizes[turn % 3];
                assert!(pads.src.push_event(gst::event::Caps::new(caps)));
                for number in 0..3 {
                    let frame = frames::numbered_as(caps, number);
                    assert_eq!(pads.src.push(frame), Ok(gst::FlowSuccess::Ok));
                }
                pads.wait_buffers(3);
                pads.forget();
                if turn == 9 {
                    settled = all_live();
                }
            }
            for ((kind, early), (_, late)) in settled.into_iter().zip(all_live()) {
                assert!(
                    late <= early + 4,
                    "{late} {kind}, {early} after ten changes"
                );
            }
            drop(pads);
            assert_nothing_left();
        });
    });
}

/// Reported: memory is pinned, or streams and events are made, for every frame.
#[test]
fn a_steady_stream_makes_nothing_new() {
    const MAKERS: [&str; 6] = [
        "cuMemAlloc",
        "cuMemFree",
        "cuMemHostRegister",
        "cuMemHostUnregister",
        "cuStreamCreate",
        "cuModuleLoadDataEx",
    ];
    on_test_driver!(&[], || {
        watched(|| {
            let pads = Pads::raising();
            pads.push_all(0..40);
            pads.wait_buffers(40);
            pads.forget();
            // The other families load in the background, once the stream runs.
            while live("modules") < Module::ALL.len() as u64 {
                std::thread::yield_now();
            }
            let before = MAKERS.map(calls);
            for number in 40..140 {
                pads.push_all(number..=number);
                pads.wait_buffers(1);
                pads.forget();
            }
            assert_eq!(MAKERS.map(calls), before, "{MAKERS:?}");
        });
    });
}

/// What a source writes into our pool travels without a copy by the host, both ways.
#[test]
fn a_source_that_takes_our_pool_copies_nothing() {
    on_test_driver!(&[], || {
        watched(|| {
            for (format, kernel, method) in [
                ("GRAY8", "gauss3", "direct"),
                ("NV12", "gauss3", "direct"),
                ("RGBA", "gauss3", "direct"),
                ("I420_10LE", "gauss3", "direct"),
                ("I420_10LE", "gauss5", "separable"),
            ] {
                let pipeline = pipelines::parse(&format!(
                    "videotestsrc num-buffers=20 ! video/x-raw,format={format},width=320,height=240 \
                     ! cudaconv name=filter backend=cuda kernel={kernel} ! fakesink name=out"
                ));
                pipelines::play(&pipeline).assert_frames(20);
                let filter = pipelines::filter(&pipeline);
                assert_eq!(stat(&filter, "pinned-in"), 20, "{format}");
                assert_eq!(stat(&filter, "pinned-out"), 20, "{format}");
                assert_eq!(stat(&filter, "stage-copy-in-p50-ns"), 0, "{format}");
                let stats = stats(&filter);
                assert_eq!(stats.get::<&str>("backend"), Ok("cuda"));
                assert_eq!(stats.get::<&str>("device"), Ok("Fake CUDA device"));
                assert_eq!(stats.get::<&str>("method"), Ok(method));
                for stage in ["upload", "kernel", "download"] {
                    assert!(
                        stat(&filter, &format!("stage-{stage}-p50-ns")) > 0,
                        "{stage}"
                    );
                }
            }
        });
    });
}

#[test]
fn frames_in_foreign_memory_are_staged_and_right() {
    on_test_driver!(&[], || {
        watched(|| {
            let pads = Pads::raising();
            pads.push_all(0..30);
            pads.wait_buffers(30);
            assert_raised(&pads.buffers(), 0..30);
            assert_eq!(stat(&pads.element, "pinned-in"), 0);
            assert_eq!(stat(&pads.element, "pinned-out"), 30);
        });
    });
}

/// Reported: a sink or an application that still holds frames when the element is gone reads
/// memory that is not there.
#[test]
fn frames_outlive_the_element_and_then_nothing_is_left() {
    on_test_driver!(&[], || {
        watched(|| {
            let pads = Pads::raising();
            pads.push_all(0..6);
            pads.wait_buffers(6);
            let held = pads.buffers();
            pads.forget();
            drop(pads);
            assert_raised(&held, 0..6);
            assert!(live("registrations") > 0, "they are still pinned");
            drop(held);
            assert_nothing_left();
        });
    });
}

/// Reported: the element leaves its context current on other people's threads, or needs theirs.
#[test]
fn the_context_of_the_calling_thread_stays_as_it_was() {
    use cudarc::driver::sys;
    on_test_driver!(&[("FAKECUDA_DEVICES", "2")], || {
        watched(|| {
            // SAFETY: as CUDA's manual asks; the context is never released.
            let ours = unsafe {
                let mut context = std::ptr::null_mut();
                assert_eq!(sys::cuInit(0), sys::CUresult::CUDA_SUCCESS);
                sys::cuDevicePrimaryCtxRetain(&mut context, 1);
                sys::cuCtxPushCurrent_v2(context);
                context
            };
            let unchanged = |when: &str| {
                let mut current = std::ptr::null_mut();
                // SAFETY: a place for the result.
                unsafe { sys::cuCtxGetCurrent(&mut current) };
                assert_eq!(current, ours, "{when}");
            };
            let pads = Pads::around(cudaconv(&[("cuda-device-id", "0")]));
            pads.element.set_state(gst::State::Ready).expect("ready");
            unchanged("NULL to READY");
            pads.begin(&gray());
            unchanged("caps");
            pads.push_all(0..10);
            unchanged("frames");
            pads.wait_buffers(10);
            pads.stop();
            unchanged("stopped");
            drop(pads);
            unchanged("gone");
        });
    });
}

/// Frames a second with kernels of 4 ms and copies of 2 ms, at this depth.
fn rate(depth: &str) -> f64 {
    inject(
        "SLOW",
        "cuLaunchKernel:1+:4000,cuMemcpyHtoDAsync:1+:2000,cuMemcpyDtoHAsync:1+:2000",
    );
    let pads = Pads::around(cudaconv(&[
        ("kernel", "gauss3"),
        ("bias", "1"),
        ("depth", depth),
    ]));
    pads.begin(&gray());
    pads.push_all(0..4);
    pads.wait_buffers(4);
    let begun = Instant::now();
    pads.push_all(4..64);
    pads.wait_buffers(64);
    let taken = begun.elapsed();
    assert_raised(&pads.buffers(), 0..64);
    60.0 / taken.as_secs_f64()
}

#[test]
fn frames_in_flight_overlap() {
    on_test_driver!(&[("FAKECUDA_DELAY_US", "0")], || {
        watched(|| {
            let (one, two) = (rate("1"), rate("2"));
            assert!(
                two > 1.5 * one,
                "{one} frames a second at depth 1, {two} at 2"
            );
        });
    });
}

/// The chain waits for a slot, never for the GPU.
#[test]
fn a_frame_is_taken_while_others_are_in_work() {
    on_test_driver!(&[], || {
        watched(|| {
            let pads = Pads::around(cudaconv(&[
                ("kernel", "gauss3"),
                ("bias", "1"),
                ("depth", "3"),
            ]));
            pads.begin(&gray());
            pads.push_all(0..3);
            pads.wait_buffers(3);
            pads.forget();
            inject("SLOW", "cuLaunchKernel:1+:1000000");
            let begun = Instant::now();
            pads.push_all(3..6);
            assert!(
                begun.elapsed() < Duration::from_secs(1),
                "three slots, no waiting"
            );
            assert_eq!(pads.buffers().len(), 0);
            pads.wait_buffers(3);
            assert_raised(&pads.buffers(), 3..6);
        });
    });
}
