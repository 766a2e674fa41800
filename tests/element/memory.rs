//! Where pixels lie: layouts that come in, buffers that are too short, who owns what.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use gst::prelude::*;

use crate::common::frames::{
    assert_raised, gray, level, numbered, of_memories, planes, pts, raw, stamped,
};
use crate::common::pads::{Pads, texts};
use crate::common::picture::{filter_one, formats, noise, read, write};
use crate::common::pipelines::{self, RAISING};
use crate::common::pools::{padded_buffer, padded_copy};
use crate::common::watchdog::watched;
use crate::common::{cudaconv, raising, stat};

/// Reported: rows are taken at the default stride although the buffer's VideoMeta says otherwise.
#[test]
fn a_padded_input_gives_the_same_picture_as_a_tight_one() {
    watched(|| {
        for format in formats() {
            let caps = raw(&format, 33, 17);
            let tight = write(&caps, &noise(&caps, 21));
            let padded = padded_copy(&caps, &tight);
            let wanted = filter_one(cudaconv(&[]), &caps, tight);
            let got = filter_one(cudaconv(&[]), &caps, padded);
            assert_eq!(read(&caps, &got), read(&caps, &wanted), "{format}");
        }
    });
}

/// Splits a buffer of the default layout into one memory per plane, described by VideoMeta.
fn memory_per_plane(caps: &gst::Caps, tight: &gst::Buffer) -> gst::Buffer {
    let info = gst_video::VideoInfo::from_caps(caps).expect("caps of raw video");
    let bytes = tight.map_readable().expect("maps");
    let memories = (0..info.n_planes() as usize).map(|plane| {
        let end = info.offset().get(plane + 1).copied().unwrap_or(info.size());
        let slice = bytes[info.offset()[plane]..end].to_vec();
        gst::Memory::from_mut_slice(slice)
    });
    of_memories(&info, tight.pts(), memories)
}

/// Reported: buffers of several memories are taken for their first one.
#[test]
fn a_memory_per_plane_gives_the_same_picture() {
    watched(|| {
        for format in ["I420", "NV12", "Y444", "GRAY8"] {
            let caps = raw(format, 33, 17);
            let tight = write(&caps, &noise(&caps, 22));
            let split = memory_per_plane(&caps, &tight);
            let wanted = filter_one(cudaconv(&[]), &caps, tight);
            let got = filter_one(cudaconv(&[]), &caps, split);
            assert_eq!(read(&caps, &got), read(&caps, &wanted), "{format}");
        }
    });
}

/// The I420 frame of 33x17 in four memories that are cut within rows, each a part of a larger one;
/// described by a VideoMeta, if `meta`.
fn cut_anywhere(tight: &gst::Buffer, meta: bool) -> gst::Buffer {
    let bytes = tight.map_readable().expect("maps").to_vec();
    let mut cut = gst::Buffer::new();
    let target = cut.get_mut().expect("one owner");
    let mut rest = &bytes[..];
    for length in [100, 37, 500, bytes.len()] {
        let (head, tail) = rest.split_at(length.min(rest.len()));
        // The bytes before and after are not the frame's.
        let mut larger = vec![0xee; 16];
        larger.extend_from_slice(head);
        larger.extend_from_slice(&[0xee; 16]);
        let memory = gst::Memory::from_slice(larger);
        target.append_memory(memory.share(16..16 + head.len()));
        rest = tail;
    }
    if meta {
        gst_video::VideoMeta::add(
            target,
            gst_video::VideoFrameFlags::empty(),
            gst_video::VideoFormat::I420,
            33,
            17,
        )
        .expect("VideoMeta fits");
    }
    cut
}

/// Reported: the same where the memories are cut anywhere, even within a row, or start late.
#[test]
fn memories_cut_anywhere_give_the_same_picture() {
    watched(|| {
        for meta in [false, true] {
            let caps = raw("I420", 33, 17);
            let tight = write(&caps, &noise(&caps, 23));
            let cut = cut_anywhere(&tight, meta);
            let wanted = filter_one(cudaconv(&[]), &caps, tight);
            let got = filter_one(cudaconv(&[]), &caps, cut);
            assert_eq!(read(&caps, &got), read(&caps, &wanted));
        }
    });
}

/// Reported: frames with bytes to spare at the end are refused.
#[test]
fn a_buffer_with_bytes_to_spare_is_filtered() {
    watched(|| {
        let mut bytes = vec![50; 32 * 24];
        bytes.extend_from_slice(&[9; 100]);
        let out = filter_one(raising(), &gray(), stamped(bytes, 0));
        assert_eq!(planes(&gray(), &out), vec![vec![51; 32 * 24]]);
        assert_eq!(out.size(), 32 * 24);
    });
}

/// Reported: an empty or short buffer is read beyond its end, or ends the stream.
#[test]
fn short_and_empty_buffers_are_dropped_with_a_warning_and_the_stream_goes_on() {
    watched(|| {
        let pads = Pads::raising();
        pads.push_all([0]);
        let short = [vec![], vec![1; 10], vec![1; 32 * 24 - 1]];
        for bytes in short.clone() {
            assert_eq!(
                pads.src.push(stamped(bytes, 1)),
                Ok(gst::FlowSuccess::Ok),
                "the stream goes on"
            );
        }
        assert_eq!(pads.src.push(gst::Buffer::new()), Ok(gst::FlowSuccess::Ok));
        pads.push_all([2]);
        pads.wait_buffers(2);
        assert!(pads.end());
        pads.wait_event(gst::EventType::Eos);
        assert_raised(&pads.buffers(), [0, 2]);
        let warnings = texts(&pads.messages(), gst::MessageType::Warning);
        assert!(!warnings.is_empty(), "a warning is posted");
        let count = |field| stat(&pads.element, field);
        assert_eq!(count("frames-in"), 6);
        assert_eq!(count("frames-out"), 2);
        assert_eq!(count("dropped"), 4);
    });
}

/// A frame whose VideoMeta has these offsets and strides.
fn described(offset: usize, stride: i32, width: u32, height: u32) -> gst::Buffer {
    let mut buffer = numbered(1);
    gst_video::VideoMeta::add_full(
        buffer.get_mut().expect("one owner"),
        gst_video::VideoFrameFlags::empty(),
        gst_video::VideoFormat::Gray8,
        width,
        height,
        &[offset],
        &[stride],
    )
    .expect("VideoMeta is added");
    buffer
}

/// Reported: a VideoMeta that reaches beyond its memory is believed.
#[test]
fn a_video_meta_beyond_its_memory_is_dropped_with_a_warning() {
    watched(|| {
        let pads = Pads::raising();
        pads.push_all([0]);
        for (offset, stride) in [(1, 32), (0, 33), (100_000, 32), (0, 1 << 20)] {
            let buffer = described(offset, stride, 32, 24);
            assert_eq!(pads.src.push(buffer), Ok(gst::FlowSuccess::Ok));
        }
        pads.push_all([2]);
        assert!(pads.end());
        pads.wait_event(gst::EventType::Eos);
        assert_raised(&pads.buffers(), [0, 2]);
        assert_eq!(stat(&pads.element, "dropped"), 4);
        let warnings = texts(&pads.messages(), gst::MessageType::Warning);
        assert!(!warnings.is_empty(), "a warning is posted");
    });
}

/// Reported: a VideoMeta of another size or with a stride too small crashes or mixes up rows.
#[test]
fn a_video_meta_that_contradicts_the_caps_does_no_harm() {
    watched(|| {
        let pads = Pads::raising();
        for (stride, width, height) in [
            (16, 32, 24),
            (-32, 32, 24),
            (0, 32, 24),
            (64, 64, 12),
            (8, 8, 8),
        ] {
            let _ = pads.src.push(described(0, stride, width, height));
        }
        pads.push_all([2]);
        assert!(pads.end());
        pads.wait_event(gst::EventType::Eos);
        let last = pads.buffers().pop().expect("the good frame");
        assert_raised(&[last], [2]);
    });
}

/// Reported: behind a tee the element writes into memory that the other branch shows.
#[test]
fn the_other_branch_of_a_tee_sees_the_untouched_source() {
    watched(|| {
        let source = "videotestsrc num-buffers=5 pattern=snow ! \
                      video/x-raw,format=I420,width=64,height=48";
        let plain = pipelines::run(&format!("{source} ! fakesink name=out")).pictures();
        let single = pipelines::run(&format!(
            "{source} ! cudaconv backend=cpu kernel=sobel ! fakesink name=out"
        ))
        .pictures();
        let sobel = "cudaconv backend=cpu kernel=sobel";
        let shared = |first: &str, second: &str| {
            pipelines::run(&format!(
                "{source} ! tee name=t  t. ! queue ! {first} ! fakesink name=out \
                 t. ! queue ! {second} ! fakesink"
            ))
            .pictures()
        };
        assert!(shared("identity", sobel) == plain, "the plain branch");
        assert!(shared(sobel, "identity") == single, "the filtered branch");
        assert!(shared(sobel, sobel) == single, "two filtered branches");
    });
}

/// Bytes that can only be read, which count their owners.
struct Counted(Vec<u8>, Arc<AtomicUsize>);

impl AsRef<[u8]> for Counted {
    fn as_ref(&self) -> &[u8] {
        &self.0
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.1.fetch_sub(1, Ordering::SeqCst);
    }
}

/// Reported: read-only memory is refused or written to.
#[test]
fn read_only_memory_is_filtered_and_left_alone() {
    watched(|| {
        let pads = Pads::raising();
        let mut kept = Vec::new();
        for number in 0..6 {
            let mut buffer = gst::Buffer::from_slice(vec![level(number); 32 * 24]);
            buffer.get_mut().expect("one owner").set_pts(pts(number));
            kept.push(buffer.clone());
            assert_eq!(pads.src.push(buffer), Ok(gst::FlowSuccess::Ok));
        }
        pads.wait_buffers(6);
        assert_raised(&pads.buffers(), 0..6);
        for (number, buffer) in (0u64..).zip(kept) {
            let map = buffer.map_readable().expect("maps");
            assert!(map.iter().all(|b| *b == level(number)), "frame {number}");
        }
    });
}

/// Reported: input buffers are held until the next frame or the end, so that a camera with few
/// buffers stalls.
#[test]
fn the_input_is_released_before_its_frame_leaves() {
    watched(|| {
        let alive = Arc::new(AtomicUsize::new(0));
        let pads = Pads::raising();
        let held = Arc::new(AtomicUsize::new(0));
        let (count, most) = (alive.clone(), held.clone());
        pads.sink.add_probe(gst::PadProbeType::BUFFER, move |_, _| {
            most.fetch_max(count.load(Ordering::SeqCst), Ordering::SeqCst);
            gst::PadProbeReturn::Ok
        });
        for number in 0..5u64 {
            alive.fetch_add(1, Ordering::SeqCst);
            let bytes = Counted(vec![level(number); 32 * 24], alive.clone());
            let mut buffer = gst::Buffer::from_slice(bytes);
            buffer.get_mut().expect("one owner").set_pts(pts(number));
            assert_eq!(pads.src.push(buffer), Ok(gst::FlowSuccess::Ok));
            pads.wait_buffers(number as usize + 1);
        }
        assert_eq!(held.load(Ordering::SeqCst), 0, "inputs while frames leave");
    });
}

/// Reported: inputs in flight are leaked by a stop, a flush or an error.
#[test]
fn no_input_outlives_a_stop_a_flush_or_an_error() {
    watched(|| {
        for end in ["stop", "flush", "error"] {
            let alive = Arc::new(AtomicUsize::new(0));
            let pads = Pads::raising();
            pads.close_gate();
            for number in 0..3u64 {
                alive.fetch_add(1, Ordering::SeqCst);
                let bytes = Counted(vec![level(number); 32 * 24], alive.clone());
                let mut buffer = gst::Buffer::from_slice(bytes);
                buffer.get_mut().expect("one owner").set_pts(pts(number));
                assert_eq!(pads.src.push(buffer), Ok(gst::FlowSuccess::Ok));
            }
            pads.wait_blocked();
            match end {
                "stop" => {}
                "flush" => pads.flush(),
                _ => {
                    pads.answer_after(0, gst::FlowError::Error);
                    pads.open_gate();
                }
            }
            pads.stop();
            assert_eq!(alive.load(Ordering::SeqCst), 0, "{end}");
        }
    });
}

/// Reported: consumers that know nothing of VideoMeta see frames that drift, because rows have the
/// pitch of a device allocation or lack the padding of the default layout.
#[test]
fn without_video_meta_downstream_buffers_have_exactly_the_default_size_and_layout() {
    watched(|| {
        for (format, width, height, size) in [
            ("I420", 404, 716, 435_328),
            ("I420", 33, 17, 1008),
            ("I420", 1, 1, 16),
            ("NV12", 33, 17, 972),
            ("NV12", 322, 241, 117_612),
            ("NV12", 2, 2, 12),
            ("YUY2", 33, 17, 1156),
            ("GRAY8", 33, 17, 612),
            ("GRAY8", 1, 1, 4),
            ("GRAY16_LE", 33, 17, 1156),
            ("RGB", 33, 17, 1700),
            ("BGR", 321, 3, 2892),
            ("I420_10LE", 33, 17, 1872),
            ("P010_10LE", 33, 17, 1836),
        ] {
            let caps = raw(format, width, height);
            let input = noise(&caps, 24);
            let element = cudaconv(&[("kernel", "identity")]);
            let mut out = filter_one(element, &caps, write(&caps, &input));
            assert_eq!(out.size(), size, "{format} {width}x{height}");
            // A consumer that knows no VideoMeta reads the default layout.
            out = out
                .copy_region(gst::BufferCopyFlags::MEMORY, ..)
                .expect("copies");
            assert_eq!(read(&caps, &out), input, "{format} {width}x{height}");
        }
    });
}

/// Reported: files written behind the element are too long or too short.
#[test]
fn a_file_has_the_default_size_times_the_frames() {
    watched(|| {
        let path = std::env::temp_dir().join(format!("cudaconv-size-{}", std::process::id()));
        let outcome = pipelines::run(&format!(
            "videotestsrc num-buffers=10 ! video/x-raw,format=I420,width=404,height=716 ! \
             {RAISING} ! filesink name=out location={}",
            path.display()
        ));
        outcome.assert_frames(10);
        let size = std::fs::metadata(&path).expect("the file is there").len();
        std::fs::remove_file(&path).expect("the file can go");
        assert_eq!(size, 10 * 435_328);
    });
}

/// Reported: padded frames are written back with their guard bytes changed.
#[test]
fn a_padded_input_is_not_written_to() {
    watched(|| {
        let caps = raw("I420", 33, 17);
        let info = gst_video::VideoInfo::from_caps(&caps).expect("caps of raw video");
        let buffer = padded_buffer(&info).expect("a padded buffer");
        let before = buffer.map_readable().expect("maps").to_vec();
        let kept = buffer.clone();
        filter_one(raising(), &caps, buffer);
        assert_eq!(kept.map_readable().expect("maps").to_vec(), before);
    });
}

/// Reported: a source of broken frames floods the bus with a warning for each.
#[test]
fn many_broken_buffers_are_all_counted_and_told_in_few_warnings() {
    watched(|| {
        let started = std::time::Instant::now();
        let pads = Pads::raising();
        for _ in 0..500 {
            let pushed = pads.src.push(stamped(vec![1; 10], 1));
            assert_eq!(pushed, Ok(gst::FlowSuccess::Ok));
        }
        assert!(pads.end());
        pads.wait_event(gst::EventType::Eos);
        assert_eq!(stat(&pads.element, "dropped"), 500);
        let warnings = texts(&pads.messages(), gst::MessageType::Warning).len() as u64;
        let seconds = started.elapsed().as_secs();
        assert!((1..=seconds + 2).contains(&warnings), "{warnings} warnings");
    });
}

/// Reported: a frame that passes unfiltered has a layout that downstream does not understand.
#[test]
fn a_bypassed_padded_frame_has_the_default_layout_where_video_meta_is_unknown() {
    watched(|| {
        for understood in [false, true] {
            let caps = raw("I420", 33, 17);
            let input = noise(&caps, 25);
            let padded = padded_copy(&caps, &write(&caps, &input));
            let element = cudaconv(&[("over-budget", "bypass"), ("budget", "0")]);
            let pads = Pads::around(element);
            if understood {
                pads.answer_allocation(|query| {
                    query.add_allocation_meta::<gst_video::VideoMeta>(None);
                    true
                });
            }
            pads.begin(&caps);
            assert_eq!(pads.src.push(padded), Ok(gst::FlowSuccess::Ok));
            pads.wait_buffers(1);
            let mut out = pads.buffers().remove(0);
            assert_eq!(stat(&pads.element, "bypassed"), 1);
            if !understood {
                assert_eq!(out.size(), 1008, "the default size");
                out = out
                    .copy_region(gst::BufferCopyFlags::MEMORY, ..)
                    .expect("copies");
            }
            assert_eq!(read(&caps, &out), input, "understood: {understood}");
        }
    });
}

/// Seen: a frame that passes unfiltered is copied plane by plane, each from one memory, and what
/// lies behind that memory is shown where the plane goes on in the next.
#[test]
fn a_bypassed_frame_in_memories_cut_anywhere_is_copied_whole() {
    watched(|| {
        let caps = raw("I420", 33, 17);
        let input = noise(&caps, 26);
        for meta in [false, true] {
            let frame = cut_anywhere(&write(&caps, &input), meta);
            // One byte more than the default, so that downstream, which knows no VideoMeta, gets a copy.
            let mut frame = frame;
            let spare = gst::Memory::from_slice([0u8; 1]);
            frame.get_mut().expect("one owner").append_memory(spare);
            let element = cudaconv(&[("over-budget", "bypass"), ("budget", "0")]);
            let pads = Pads::around(element);
            pads.begin(&caps);
            assert_eq!(pads.src.push(frame), Ok(gst::FlowSuccess::Ok));
            pads.wait_buffers(1);
            let out = pads.buffers().remove(0);
            assert_eq!(stat(&pads.element, "bypassed"), 1);
            assert_eq!(out.size(), 1008, "the default size");
            assert_eq!(read(&caps, &out), input);
        }
    });
}
