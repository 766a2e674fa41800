//! A known delay in each stage of a frame's way shows in that stage, in the latency, and nowhere
//! else.

use gst::prelude::*;

use crate::common::cudaconv;
use crate::common::frames;
use crate::common::pads::Pads;
use crate::common::stages::{Cost, check_explained, check_only, costs, typical};
use crate::common::watchdog::{measured, watched};
use crate::control::inject;
use crate::on_test_driver;

/// Far more than anything else that a frame of this size takes.
const DELAY_US: u64 = 8_000;
const FRAMES: usize = 15;

fn told_stream(depth: u32) -> Pads {
    let element = cudaconv(&[("kernel", "gauss3"), ("post-messages", "true")]);
    element.set_property("depth", depth);
    let pads = Pads::around(element);
    pads.begin(&frames::gray());
    pads
}

/// What frames cost that come one after the other, each when the one before is out.
fn one_by_one(pads: &Pads) -> Vec<Cost> {
    for number in 0..FRAMES {
        pads.forget();
        pads.push_all([number as u64]);
        pads.wait_buffers(1);
    }
    costs(pads)
}

fn slow(call: &str) {
    inject("SLOW", &format!("{call}:1+:{DELAY_US}"));
}

#[test]
fn a_slow_copy_or_kernel_shows_in_its_stage_alone() {
    on_test_driver!(&[], || watched(|| {
        for (call, stage) in [
            ("cuMemcpyHtoDAsync", "upload"),
            ("cuLaunchKernel", "kernel"),
            ("cuMemcpyDtoHAsync", "download"),
        ] {
            measured(|| {
                inject("SLOW", "");
                let pads = told_stream(2);
                let before = one_by_one(&pads);
                slow(call);
                let after = one_by_one(&pads);
                check_explained(&before)?;
                check_explained(&after)?;
                check_only(stage, DELAY_US as f64, &typical(&before), &typical(&after))
            });
        }
    }));
}

/// With one slot each frame waits for the work on the one before, which is not downstream's doing.
#[test]
fn a_busy_slot_shows_as_wait_alone() {
    on_test_driver!(&[], || watched(|| {
        measured(|| {
            inject("SLOW", "");
            let pads = told_stream(1);
            slow("cuLaunchKernel");
            let before = one_by_one(&pads);
            pads.forget();
            pads.push_all(0..FRAMES as u64);
            pads.wait_buffers(FRAMES);
            let after = costs(&pads);
            check_explained(&after)?;
            // A frame comes as soon as there is a slot for the one before: it waits for one frame.
            check_only("wait", DELAY_US as f64, &typical(&before), &typical(&after))
        });
    }));
}

/// The copy of a foreign frame into pinned memory is a stage of its own, and none where the frame
/// is in the pool that the element offers.
#[test]
fn a_copy_into_pinned_memory_shows_where_there_is_one() {
    on_test_driver!(&[("FAKECUDA_DELAY_US", "0")], || watched(|| {
        let caps = frames::raw("RGBA", 1920, 1080);
        let element = cudaconv(&[("kernel", "identity"), ("post-messages", "true")]);
        let pads = Pads::around(element);
        pads.begin(&caps);
        let bytes = vec![7u8; 1920 * 1080 * 4];
        measured(|| {
            let foreign = |number| frames::stamped(bytes.clone(), number);
            let mut copies = Vec::new();
            for number in 0..5 {
                pads.forget();
                assert!(pads.src.push(foreign(number)).is_ok());
                pads.wait_buffers(1);
                let started = std::time::Instant::now();
                std::hint::black_box(bytes.clone());
                copies.push(started.elapsed().as_secs_f64() * 1e6);
            }
            let foreign = costs(&pads);
            check_explained(&foreign)?;
            let copy_in = typical(&foreign).stage("copy-in");
            let copy = crate::common::stages::median(copies);
            // Several threads copy, to memory that is not fresh; the driver's calls come on top.
            match copy_in > copy / 20.0 {
                true => Ok(()),
                false => Err(format!("{copy_in} µs, a plain copy takes {copy}")),
            }
        });
        let mut query = gst::query::Allocation::new(Some(&caps), true);
        assert!(pads.src.peer_query(&mut query));
        let (pool, size, min, _) = query.allocation_pools().next().expect("a pool is offered");
        let pool = pool.expect("a pool is offered");
        let mut config = pool.config();
        config.set_params(Some(&caps), size, min, 0);
        pool.set_config(config).expect("its own values");
        pool.set_active(true).expect("the pool starts");
        for _ in 0..3 {
            let buffer = pool.acquire_buffer(None).expect("memory");
            assert!(pads.src.push(buffer).is_ok());
        }
        pads.forget();
        assert!(pads.end());
        pads.wait_event(gst::EventType::Eos);
        let pinned = costs(&pads);
        assert_eq!(pinned.len(), 3);
        assert!(
            pinned.iter().all(|cost| cost.stage("copy-in") == 0.0),
            "{pinned:?}"
        );
        pool.set_active(false).expect("the pool stops");
    }));
}
