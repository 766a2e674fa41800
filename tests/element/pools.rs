//! Buffer pools of downstream: padded, refusing, broken, bounded, none.

use gst::prelude::*;

use crate::common::frames::{assert_raised, gray, raw};
use crate::common::pads::Pads;
use crate::common::picture::{formats, noise, read, write};
use crate::common::pools::{self, InertPool, PaddedPool, RefusingPool, StubbornPool};
use crate::common::watchdog::watched;
use crate::common::{cudaconv, raising};

/// Downstream understands VideoMeta and offers `pool`.
pub fn offer(pads: &Pads, pool: &gst::BufferPool, size: u32, max: u32) {
    let pool = pool.clone();
    pads.answer_allocation(move |query| {
        query.add_allocation_pool(Some(&pool), size, 0, max);
        query.add_allocation_meta::<gst_video::VideoMeta>(None);
        true
    });
}

/// Reported: downstream's padded buffers are filled as if they were tight, or not used at all.
#[test]
fn a_padded_pool_of_downstream_is_used_and_filled_as_its_meta_says() {
    watched(|| {
        for format in formats() {
            let caps = raw(&format, 33, 17);
            let input = noise(&caps, 31);
            let info = gst_video::VideoInfo::from_caps(&caps).expect("caps of raw video");
            let pool = PaddedPool::make();
            let pads = Pads::around(cudaconv(&[("kernel", "identity")]));
            offer(&pads, &pool, info.size() as u32, 0);
            pads.begin(&caps);
            for _ in 0..4 {
                let pushed = pads.src.push(write(&caps, &input));
                assert_eq!(pushed, Ok(gst::FlowSuccess::Ok));
            }
            pads.wait_buffers(4);
            // One more was looked at before.
            assert_eq!(PaddedPool::acquired(&pool), 5, "{format}: the pool is used");
            for out in pads.buffers() {
                let meta = out.meta::<gst_video::VideoMeta>().expect("a VideoMeta");
                assert_eq!(meta.offset()[0], pools::LEAD);
                assert!(
                    pools::lead_untouched(&out),
                    "{format}: nothing is written before"
                );
                assert_eq!(read(&caps, &out), input, "{format}");
            }
        }
    });
}

/// Reported: a pool that refuses its configuration, or does not start, ends the stream.
#[test]
fn a_pool_that_refuses_or_does_not_start_is_replaced() {
    watched(|| {
        for pool in [RefusingPool::make(), InertPool::make()] {
            let pads = Pads::around(raising());
            offer(&pads, &pool, 32 * 24, 0);
            pads.begin(&gray());
            pads.push_all(0..6);
            pads.wait_buffers(6);
            assert_raised(&pads.buffers(), 0..6);
        }
    });
}

/// Reported: VideoMeta is used although downstream does not know it, because its pool could.
#[test]
fn without_video_meta_downstream_no_padded_layout_is_used() {
    watched(|| {
        let pool = PaddedPool::make();
        let pads = Pads::around(raising());
        let offered = pool.clone();
        pads.answer_allocation(move |query| {
            query.add_allocation_pool(Some(&offered), 32 * 24, 0, 0);
            true
        });
        pads.begin(&gray());
        pads.push_all(0..6);
        pads.wait_buffers(6);
        assert_raised(&pads.buffers(), 0..6);
        for out in pads.buffers() {
            assert_eq!(out.size(), 32 * 24);
        }
    });
}

/// Reported: VideoMeta on a buffer says another layout than the buffer has.
#[test]
fn with_video_meta_downstream_the_meta_describes_the_buffer() {
    watched(|| {
        for format in formats() {
            let caps = raw(&format, 33, 17);
            let input = noise(&caps, 32);
            let pads = Pads::around(cudaconv(&[("kernel", "identity")]));
            pads.answer_allocation(|query| {
                query.add_allocation_meta::<gst_video::VideoMeta>(None);
                true
            });
            pads.begin(&caps);
            let pushed = pads.src.push(write(&caps, &input));
            assert_eq!(pushed, Ok(gst::FlowSuccess::Ok));
            pads.wait_buffers(1);
            let out = pads.buffers().remove(0);
            if let Some(meta) = out.meta::<gst_video::VideoMeta>() {
                assert_eq!((meta.width(), meta.height()), (33, 17), "{format}");
                assert_eq!(meta.format().to_string(), format);
            }
            assert_eq!(read(&caps, &out), input, "{format}");
        }
    });
}

/// A pool of downstream that never has more than `max` buffers out.
fn bounded(pads: &Pads, max: u32) -> gst::BufferPool {
    let pool = gst_video::VideoBufferPool::new().upcast::<gst::BufferPool>();
    offer(pads, &pool, 32 * 24, max);
    pool
}

/// Reported: a sink with few buffers that keeps them all blocks a flush or a stop for ever.
#[test]
fn a_flush_and_a_stop_return_while_downstream_keeps_all_its_buffers() {
    watched(|| {
        for flush in [true, false] {
            let pads = Pads::around(raising());
            bounded(&pads, 2);
            pads.begin(&gray());
            // Downstream keeps every buffer, so that a bounded pool runs dry.
            let pusher = pads.push_from_thread(0..20);
            pads.wait_buffers(2);
            if flush {
                assert!(pads.src.push_event(gst::event::FlushStart::new()));
                let _ = pusher.join();
                assert!(pads.src.push_event(gst::event::FlushStop::new(true)));
                pads.forget();
                assert!(pads.src.push_event(crate::common::pads::time_segment()));
                pads.push_all([50]);
                pads.wait_buffers(1);
                assert_raised(&pads.buffers(), [50]);
            } else {
                pads.stop();
                let _ = pusher.join();
            }
        }
    });
}

/// Reported: frames are lost or the stream stalls when downstream has few buffers.
#[test]
fn a_bounded_pool_whose_buffers_come_back_passes_every_frame() {
    watched(|| {
        for max in [1, 2, 3] {
            let pads = Pads::around(raising());
            bounded(&pads, max);
            pads.begin(&gray());
            for number in 0..20 {
                pads.push_all([number]);
                pads.wait_buffers(1);
                assert_raised(&pads.buffers(), [number]);
                pads.forget();
            }
        }
    });
}

/// Reported: pools of downstream stay active or are leaked after a stop.
#[test]
fn a_stop_lets_go_of_the_pool_of_downstream() {
    watched(|| {
        let weak = {
            let pool = PaddedPool::make();
            let pads = Pads::around(raising());
            offer(&pads, &pool, 32 * 24, 0);
            pads.begin(&gray());
            pads.push_all(0..4);
            pads.wait_buffers(4);
            pads.stop();
            assert!(!pool.is_active(), "the pool was stopped");
            pool.downgrade()
        };
        assert!(weak.upgrade().is_none(), "nobody holds the pool");
    });
}

/// Reported: after RECONFIGURE the old pool goes on being used, or frames are lost.
#[test]
fn reconfigure_asks_for_a_new_pool_and_loses_no_frame() {
    watched(|| {
        let pads = Pads::around(raising());
        let first = PaddedPool::make();
        offer(&pads, &first, 32 * 24, 0);
        pads.begin(&gray());
        pads.push_all(0..4);
        let second = PaddedPool::make();
        offer(&pads, &second, 32 * 24, 0);
        assert!(pads.sink.push_event(gst::event::Reconfigure::new()));
        pads.push_all(4..8);
        pads.wait_buffers(8);
        assert_raised(&pads.buffers(), 0..8);
        // One of each was looked at before.
        let acquired = [&first, &second].map(PaddedPool::acquired);
        assert_eq!(
            acquired,
            [5, 5],
            "the old pool until then, the new from then on"
        );
        let queries = pads.words().iter().filter(|w| *w == "allocation").count();
        assert_eq!(queries, 2, "one at the caps, one at the reconfiguration");
    });
}

/// Reported: a pool offered with too small a size gives buffers that are written beyond their end.
#[test]
fn a_pool_offered_with_too_small_a_size_is_not_believed() {
    watched(|| {
        for pool in [
            gst::BufferPool::new(),
            gst_video::VideoBufferPool::new().upcast(),
        ] {
            let pads = Pads::around(raising());
            offer(&pads, &pool, 10, 0);
            pads.begin(&gray());
            pads.push_all(0..6);
            pads.wait_buffers(6);
            assert_raised(&pads.buffers(), 0..6);
        }
    });
}

/// Reported: what downstream says of alignment and padding breaks the allocation.
#[test]
fn allocation_parameters_of_downstream_do_no_harm() {
    watched(|| {
        for (flags, align, prefix, padding) in [
            (gst::MemoryFlags::empty(), 63, 0, 0),
            (gst::MemoryFlags::ZERO_PREFIXED, 4095, 128, 64),
            (gst::MemoryFlags::ZERO_PADDED, 0, 1, 1),
        ] {
            let pads = Pads::around(raising());
            pads.answer_allocation(move |query| {
                let params = gst::AllocationParams::new(flags, align, prefix, padding);
                query.add_allocation_param(None::<&gst::Allocator>, params);
                true
            });
            pads.begin(&gray());
            pads.push_all(0..6);
            pads.wait_buffers(6);
            assert_raised(&pads.buffers(), 0..6);
            assert!(pads.buffers().iter().all(|b| b.size() == 32 * 24));
        }
    });
}

/// Reported: a stop hangs where a sink's pool lets nobody go.
#[test]
fn a_stop_and_a_flush_return_while_a_pool_of_downstream_waits_whatever_it_is_asked() {
    watched(|| {
        for flush in [true, false] {
            let pads = Pads::around(raising());
            let pool = StubbornPool::make();
            offer(&pads, &pool, 32 * 24, 1);
            pads.play();
            let src = pads.src.clone();
            let upstream = std::thread::spawn(move || {
                for event in [
                    gst::event::StreamStart::new("test"),
                    gst::event::Caps::new(&gray()),
                ] {
                    let _ = src.push_event(event);
                }
            });
            StubbornPool::wait_asked(&pool);
            match flush {
                true => assert!(pads.src.push_event(gst::event::FlushStart::new())),
                false => pads.stop(),
            }
            upstream.join().expect("upstream's thread comes back");
        }
    });
}
