//! Settings that change while frames run.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use gst::prelude::*;
use gst_controller::prelude::*;

use crate::common::frames::{filled, flat_value, gray, gray_of, pts};
use crate::common::pads::{Pads, texts};
use crate::common::watchdog::watched;
use crate::common::{Random, cudaconv, raising, stats};

/// The levels of the frames that came out.
fn levels(pads: &Pads, caps: &gst::Caps) -> Vec<u8> {
    pads.buffers().iter().map(|b| flat_value(caps, b)).collect()
}

/// Reported: a change takes effect only at the next caps, or cuts through a frame.
#[test]
fn a_change_is_in_effect_within_depth_plus_one_frames_and_no_frame_is_half_changed() {
    watched(|| {
        for depth in [1usize, 2, 8] {
            let caps = gray_of(256, 128);
            let element = cudaconv(&[("kernel", "gauss5")]);
            element.set_property("depth", depth as u32);
            let pads = Pads::around(element);
            pads.begin(&caps);
            let mut random = Random::new(0x5eed_0007);
            let mut changes = Vec::new();
            for number in 0..200u64 {
                if random.below(8) == 0 {
                    let bias = random.below(100);
                    pads.element.set_property("bias", bias as f64);
                    changes.push((number as usize, bias as u8));
                }
                let frame = filled(&caps, number, 100);
                assert_eq!(pads.src.push(frame), Ok(gst::FlowSuccess::Ok));
            }
            pads.wait_buffers(200);
            for (number, level) in levels(&pads, &caps).into_iter().enumerate() {
                // The oldest that may still hold: the last change that is depth + 1 frames old.
                let settled = changes.iter().rposition(|(at, _)| at + depth < number);
                let made = changes.iter().filter(|(at, _)| *at <= number).count();
                let allowed: Vec<u8> = match settled {
                    Some(settled) => changes[settled..made].iter().map(|c| 100 + c.1).collect(),
                    None => changes[..made]
                        .iter()
                        .map(|c| 100 + c.1)
                        .chain([100])
                        .collect(),
                };
                assert!(
                    allowed.contains(&level),
                    "frame {number} at depth {depth} is {level}, not one of {allowed:?}"
                );
            }
        }
    });
}

/// Reported: a crash, a mixed kernel, or a deadlock when an application changes settings fast.
#[test]
fn a_storm_of_changes_from_another_thread_tears_no_frame() {
    watched(|| {
        let caps = gray_of(64, 48);
        let pads = Pads::around(raising());
        pads.begin(&caps);
        let ended = Arc::new(AtomicBool::new(false));
        let (element, flag) = (pads.element.clone(), ended.clone());
        let changing = std::thread::spawn(move || {
            let kernels = ["gauss3", "sobel", "custom", "bilateral", "box5", "gauss"];
            let mut random = Random::new(0x5eed_0008);
            element.set_property("matrix", "0 1 0; 1 4 1; 0 1 0");
            while !flag.load(Ordering::SeqCst) {
                let kernel = kernels[random.below(kernels.len() as u64) as usize];
                element.set_property_from_str("kernel", kernel);
                element.set_property("sigma", random.below(30) as f64 / 10.0);
                element.set_property("sigma-color", random.below(100) as f64);
                let matrix = ["1 2 1; 2 4 2; 1 2 1", "no matrix", "1; 1; 1"];
                element.set_property("matrix", matrix[random.below(3) as usize]);
                let _ = element.property::<gst::Structure>("stats");
            }
        });
        for number in 0..1000 {
            let frame = filled(&caps, number, 77);
            assert_eq!(pads.src.push(frame), Ok(gst::FlowSuccess::Ok));
        }
        ended.store(true, Ordering::SeqCst);
        changing.join().expect("setting never panics");
        pads.wait_buffers(1000);
        for (number, level) in levels(&pads, &caps).into_iter().enumerate() {
            // Flat stays flat under all of them; sobel makes it black. Both plus the bias.
            assert!(
                [1, 78].contains(&level) || level == 77,
                "frame {number}: {level}"
            );
        }
        let errors = texts(&pads.messages(), gst::MessageType::Error);
        assert!(errors.is_empty(), "{errors:?}");
        // A refused value poisons nothing.
        pads.element.set_property_from_str("kernel", "gauss3");
        for number in 0..20 {
            let frame = filled(&caps, number, 77);
            assert_eq!(pads.src.push(frame), Ok(gst::FlowSuccess::Ok));
        }
        pads.wait_buffers(1020);
        assert_eq!(levels(&pads, &caps)[1019], 78);
    });
}

/// Reported: setting a property waits for frames or for a device, and blocks the user interface.
#[test]
fn setting_a_property_waits_for_no_frame() {
    watched(|| {
        let pads = Pads::raising();
        pads.close_gate();
        let pusher = pads.push_from_thread(0..50);
        pads.wait_blocked();
        pusher.wait_pushed(2);
        for kernel in ["box7", "bilateral", "sobel", "gauss9", "gauss3"] {
            // Returns though nothing moves: otherwise the watchdog speaks.
            pads.element.set_property_from_str("kernel", kernel);
            pads.element.set_property("bias", 1f64);
            pads.element.set_property("matrix", "1 1 1;");
        }
        pads.open_gate();
        assert_eq!(pusher.join(), Ok(gst::FlowSuccess::Ok));
    });
}

/// Reported: settings that contradict each other in mid-stream pass frames unfiltered or panic.
#[test]
fn a_change_that_cannot_be_done_never_passes_frames_unfiltered() {
    watched(|| {
        let caps = gray();
        let pads = Pads::around(raising());
        pads.begin(&caps);
        let push = |number| pads.src.push(filled(&caps, number, 50));
        assert_eq!(push(0), Ok(gst::FlowSuccess::Ok));
        pads.element.set_property_from_str("kernel", "custom");
        let mut taken = 1;
        while taken < 10 && push(taken).is_ok() {
            taken += 1;
        }
        assert!(pads.end());
        pads.wait_event(gst::EventType::Eos);
        let messages = pads.messages();
        let mut told = texts(&messages, gst::MessageType::Error);
        told.extend(texts(&messages, gst::MessageType::Warning));
        assert!(told.iter().any(|text| text.contains("matrix")), "{told:?}");
        assert!(told.len() < 3, "no flood: {told:?}");
        for level in levels(&pads, &caps) {
            assert_eq!(level, 51, "the old filter or nothing");
        }
    });
}

/// Reported: another way of computing takes a restart, or loses the frames on the way to it.
#[test]
fn ways_of_computing_change_in_mid_stream() {
    watched(|| {
        let caps = gray_of(64, 48);
        let pads = Pads::around(raising());
        pads.element.set_property_from_str("kernel", "unsharp");
        pads.element.set_property("radius", 3i32);
        pads.begin(&caps);
        let mut pushed = 0;
        for (method, precision, told) in [
            ("fft", "fp32", "fft"),
            ("separable", "fp32", "separable"),
            ("auto", "fp16", ", fp"),
            ("fft", "fp32", "fft"),
        ] {
            // Both go together in every order of these.
            pads.element.set_property_from_str("precision", "fp32");
            pads.element.set_property_from_str("method", method);
            pads.element.set_property_from_str("precision", precision);
            // As many frames as it takes until all that it needs is loaded.
            loop {
                let frame = filled(&caps, pushed, 77);
                assert_eq!(pads.src.push(frame), Ok(gst::FlowSuccess::Ok));
                pushed += 1;
                pads.wait_buffers(pushed as usize);
                let method: String = stats(&pads.element).get("method").expect("a method");
                if method.contains(told) {
                    break;
                }
            }
        }
        for (number, level) in levels(&pads, &caps).into_iter().enumerate() {
            assert_eq!(level, 78, "frame {number}");
        }
        let messages = pads.messages();
        for kind in [gst::MessageType::Error, gst::MessageType::Warning] {
            assert_eq!(texts(&messages, kind), Vec::<String>::new());
        }
    });
}

/// Reported: numbers cannot be driven by GStreamer's controllers.
#[test]
fn numeric_filter_parameters_follow_a_control_binding() {
    watched(|| {
        let element = cudaconv(&[]);
        for name in [
            "divisor",
            "bias",
            "radius",
            "sigma",
            "amount",
            "sigma-space",
            "sigma-color",
            "border-value",
        ] {
            let pspec = element.find_property(name).expect("a property");
            assert!(
                pspec.flags().contains(gst::PARAM_FLAG_CONTROLLABLE),
                "{name}"
            );
        }
        let source = gst_controller::InterpolationControlSource::new();
        source.set_mode(gst_controller::InterpolationMode::None);
        for number in 0..10u64 {
            assert!(source.set(pts(number), 10.0 * number as f64));
        }
        let binding = gst_controller::DirectControlBinding::new_absolute(&element, "bias", &source);
        element.add_control_binding(&binding).expect("bound");
        let pads = Pads::around(element);
        pads.begin(&gray());
        for number in 0..20 {
            let frame = filled(&gray(), number, 50);
            assert_eq!(pads.src.push(frame), Ok(gst::FlowSuccess::Ok));
        }
        pads.wait_buffers(20);
        let levels = levels(&pads, &gray());
        for (number, level) in levels.iter().enumerate() {
            let newest = 50 + 10 * number.min(9);
            let oldest = 50 + 10 * number.saturating_sub(3).min(9);
            let level = usize::from(*level);
            assert!(
                (oldest..=newest).contains(&level),
                "frame {number}: {level}"
            );
        }
        assert!(levels.is_sorted(), "{levels:?}");
        assert_eq!(levels[19], 140);
    });
}

/// Reported: a controller drives a value beyond its range into the filter.
#[test]
fn a_control_binding_cannot_set_what_the_range_refuses() {
    watched(|| {
        let element = cudaconv(&[("kernel", "box"), ("radius", "3")]);
        let source = gst_controller::InterpolationControlSource::new();
        source.set_mode(gst_controller::InterpolationMode::None);
        for (number, value) in [(0u64, 1000.0), (2, -5.0), (4, 7.0)] {
            assert!(source.set(pts(number), value));
        }
        let binding =
            gst_controller::DirectControlBinding::new_absolute(&element, "radius", &source);
        element.add_control_binding(&binding).expect("bound");
        let pads = Pads::around(element);
        pads.begin(&gray());
        for number in 0..8 {
            let frame = filled(&gray(), number, 50);
            assert_eq!(pads.src.push(frame), Ok(gst::FlowSuccess::Ok));
            let radius = pads.element.property::<i32>("radius");
            assert_eq!(radius, if number < 4 { 3 } else { 7 }, "frame {number}");
        }
        pads.wait_buffers(8);
        assert_eq!(levels(&pads, &gray()), [50; 8]);
    });
}
