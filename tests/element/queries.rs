//! Serialized queries among frames in flight, and what is offered to upstream.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use gst::prelude::*;
use gst_video::prelude::*;

use crate::common::frames::{assert_raised, gray, gray_of, level, pts, raw};
use crate::common::pads::Pads;
use crate::common::raising;
use crate::common::watchdog::watched;

/// The answer to an ALLOCATION query with these caps.
fn allocation(pads: &Pads, caps: &gst::Caps) -> gst::query::Allocation<gst::Query> {
    let mut query = gst::query::Allocation::new(Some(caps), true);
    assert!(pads.src.peer_query(&mut query), "the query is answered");
    query
}

fn assert_pool_offer(query: &gst::query::Allocation, caps: &gst::Caps, depth: u32) {
    let (pool, size, min, max) = query
        .allocation_pools()
        .next()
        .expect("a pool, or at least how many buffers are needed");
    let info = gst_video::VideoInfo::from_caps(caps).expect("caps of raw video");
    assert!(size as usize >= info.size(), "{size} bytes for {caps}");
    assert!(min > depth, "at least {min} buffers at depth {depth}");
    assert_eq!(max, 0, "any number of buffers");
    if let Some(pool) = pool {
        let alignment = gst_video::BUFFER_POOL_OPTION_VIDEO_ALIGNMENT;
        assert!(pool.has_option(gst_video::BUFFER_POOL_OPTION_VIDEO_META));
        assert!(pool.has_option(alignment));
    }
    assert!(
        query
            .find_allocation_meta::<gst_video::VideoMeta>()
            .is_some(),
        "VideoMeta is understood"
    );
}

/// Reported: upstream gets no pool, or one too small for the frames in flight, and stalls.
#[test]
fn an_allocation_query_is_answered_with_enough_buffers() {
    watched(|| {
        for depth in [1u32, 2, 8] {
            let element = raising();
            element.set_property("depth", depth);
            let pads = Pads::around(element);
            pads.begin(&gray());
            assert_pool_offer(&allocation(&pads, &gray()), &gray(), depth);
        }
    });
}

/// Reported: serialized queries wait for frames that downstream does not take.
#[test]
fn an_allocation_query_waits_for_no_frame_and_answers_for_its_own_caps() {
    watched(|| {
        let pads = Pads::raising();
        pads.close_gate();
        pads.push_all([0]);
        pads.wait_blocked();
        for caps in [gray(), gray_of(640, 480), raw("I420", 33, 17)] {
            assert_pool_offer(&allocation(&pads, &caps), &caps, 2);
        }
        pads.open_gate();
        pads.wait_buffers(1);
    });
}

/// Reported: ALLOCATION queries before any data, or while downstream is in error, hang or crash.
#[test]
fn an_allocation_query_is_answered_before_data_and_after_errors() {
    watched(|| {
        let pads = Pads::around(raising());
        pads.play();
        assert_pool_offer(&allocation(&pads, &gray()), &gray(), 2);
        pads.begin_stream("first", &gray());
        pads.answer_after(0, gst::FlowError::Error);
        let mut number = 0;
        while pads.push(number).is_ok() {
            number += 1;
        }
        assert_pool_offer(&allocation(&pads, &gray()), &gray(), 2);
    });
}

/// Reported: an ALLOCATION query without caps makes elements panic.
#[test]
fn an_allocation_query_without_caps_does_no_harm() {
    watched(|| {
        let pads = Pads::raising();
        let mut query = gst::query::Allocation::new(None, true);
        let _ = pads.src.peer_query(&mut query);
        let odd = gst::Caps::new_empty_simple("audio/x-raw");
        let mut query = gst::query::Allocation::new(Some(&odd), true);
        let _ = pads.src.peer_query(&mut query);
        pads.push_all(0..3);
        pads.wait_buffers(3);
        assert_raised(&pads.buffers(), 0..3);
    });
}

/// Reported: frames in the element's own pool, with the alignment that a decoder asked of it, come
/// out wrong.
#[test]
fn frames_in_the_offered_pool_with_a_decoders_alignment_are_filtered() {
    watched(|| {
        let caps = raw("I420", 33, 17);
        let pads = Pads::around(raising());
        pads.begin(&caps);
        let query = allocation(&pads, &caps);
        let Some((Some(pool), size, min, max)) = query.allocation_pools().next() else {
            return; // no pool was offered: there is nothing to align
        };
        let mut config = pool.config();
        config.set_params(Some(&caps), size, min, max);
        config.add_option(gst_video::BUFFER_POOL_OPTION_VIDEO_META);
        config.add_option(gst_video::BUFFER_POOL_OPTION_VIDEO_ALIGNMENT);
        let alignment = gst_video::VideoAlignment::new(3, 7, 5, 9, &[15; 4]);
        config.set_video_alignment(&alignment);
        pool.set_config(config).expect("the pool takes alignment");
        pool.set_active(true).expect("the pool starts");
        let info = gst_video::VideoInfo::from_caps(&caps).expect("caps of raw video");
        for number in 0..6u64 {
            let mut buffer = pool.acquire_buffer(None).expect("a buffer");
            let target = buffer.get_mut().expect("one owner");
            target.set_pts(pts(number));
            let mut frame = gst_video::VideoFrameRef::from_buffer_ref_writable(target, &info)
                .expect("the buffer maps");
            for plane in 0..3 {
                // Chroma is neutral, so that the bias of luma alone shows.
                let value = if plane == 0 { level(number) } else { 128 };
                frame.plane_data_mut(plane).expect("a plane").fill(value);
            }
            drop(frame);
            assert_eq!(pads.src.push(buffer), Ok(gst::FlowSuccess::Ok));
        }
        pads.wait_buffers(6);
        for (number, out) in (0u64..).zip(pads.buffers()) {
            let planes = crate::common::frames::planes(&caps, &out);
            assert_eq!(planes[0], vec![level(number) + 1; 33 * 17]);
            assert_eq!(planes[1], vec![128; 17 * 9]);
            assert_eq!(planes[2], vec![128; 17 * 9]);
        }
        pads.stop();
        pool.set_active(false).expect("the pool stops");
    });
}

/// Reported: DRAIN comes back while frames are still in flight, so their memory is taken away.
#[test]
fn a_drain_query_returns_after_every_frame_was_pushed_and_is_forwarded() {
    watched(|| {
        for round in 0..20u64 {
            let pads = Pads::raising();
            let frames = 1 + round % 3;
            if round % 2 == 1 {
                pads.close_gate();
            }
            // Up to three frames fit whatever the gate does: one in push, two in slots.
            pads.push_all(0..frames);
            let returned = Arc::new(AtomicBool::new(false));
            let (src, flag) = (pads.src.clone(), returned.clone());
            let draining = std::thread::spawn(move || {
                let answered = src.peer_query(&mut gst::query::Drain::new());
                flag.store(true, Ordering::SeqCst);
                answered
            });
            if round % 2 == 1 {
                pads.wait_blocked();
                assert!(!returned.load(Ordering::SeqCst), "frames are in flight");
                pads.open_gate();
            }
            assert!(draining.join().expect("the query returns"));
            let words = pads.words();
            assert_eq!(
                words.iter().position(|w| w == "drain"),
                Some(words.len() - 1),
                "{words:?}"
            );
            assert_raised(&pads.buffers(), 0..frames);
            pads.push_all([frames]);
            pads.wait_buffers(frames as usize + 1);
        }
    });
}

/// Reported: DRAIN waits for ever when a flush takes the frames that it waits for.
#[test]
fn a_flush_ends_a_waiting_drain_query() {
    watched(|| {
        for _ in 0..20 {
            let pads = Pads::raising();
            pads.close_gate();
            pads.push_all([0]);
            pads.wait_blocked();
            let src = pads.src.clone();
            let draining =
                std::thread::spawn(move || src.peer_query(&mut gst::query::Drain::new()));
            assert!(pads.src.push_event(gst::event::FlushStart::new()));
            assert!(!draining.join().expect("the query returns"));
            assert!(pads.src.push_event(gst::event::FlushStop::new(true)));
        }
    });
}

/// Reported: DRAIN waits for ever when the element is stopped, or when downstream has failed.
#[test]
fn a_stop_or_an_error_ends_a_waiting_drain_query() {
    watched(|| {
        for stop in [true, false] {
            let pads = Pads::raising();
            pads.close_gate();
            pads.push_all(0..2);
            pads.wait_blocked();
            let src = pads.src.clone();
            let draining =
                std::thread::spawn(move || src.peer_query(&mut gst::query::Drain::new()));
            if stop {
                pads.stop();
            } else {
                pads.answer_after(0, gst::FlowError::Error);
                pads.open_gate();
            }
            let _ = draining.join().expect("the query returns");
        }
    });
}

/// Reported: a caps query with a filter hands out more than the filter allows.
#[test]
fn a_caps_query_answers_a_subset_of_its_filter() {
    watched(|| {
        let pads = Pads::around(raising());
        pads.play();
        let filters = [
            gst::Caps::builder("video/x-raw")
                .field("width", 320i32)
                .build(),
            raw("GRAY8", 5, 5),
            gst::Caps::new_empty_simple("audio/x-raw"),
            "video/x-raw,format={I420,v308,GRAY8}"
                .parse()
                .expect("caps"),
        ];
        for filter in filters {
            for pad in [&pads.src, &pads.sink] {
                let caps = pad.peer_query_caps(Some(&filter));
                assert!(caps.is_subset(&filter), "{caps} for {filter}");
            }
        }
        let some = pads.src.peer_query_caps(Some(&raw("GRAY8", 5, 5)));
        assert!(!some.is_empty(), "GRAY8 is taken");
    });
}

/// Reported: an element claims formats that downstream cannot take, and fails in mid-stream.
#[test]
fn a_caps_query_passes_on_what_the_other_side_takes() {
    watched(|| {
        let pads = Pads::around(raising());
        pads.restrict(&raw("I420", 64, 48));
        pads.play();
        let caps = pads.src.peer_query_caps(None);
        assert!(caps.can_intersect(&raw("I420", 64, 48)), "{caps}");
        for other in [raw("GRAY8", 64, 48), raw("I420", 64, 50)] {
            assert!(!caps.can_intersect(&other), "{caps}");
        }
    });
}
