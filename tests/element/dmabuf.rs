//! Memory of drivers, as cameras and decoders hand it out: DMABuf.

use std::fs::File;
use std::io::Write;
use std::os::fd::{FromRawFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use gst::prelude::*;
use gst_allocators::prelude::*;

use crate::common::frames::{assert_raised, gray, of_memories, pts, raw};
use crate::common::pads::{Pads, texts};
use crate::common::picture::{filter_one, noise, read, write};
use crate::common::pools::MadePool;
use crate::common::stat;
use crate::common::watchdog::watched;
use crate::common::{cudaconv, raising};
use crate::pools::offer;

/// `bytes` in a file that lies in memory. GStreamer maps it as it maps a driver's buffer.
fn file_in_memory(bytes: &[u8]) -> OwnedFd {
    // SAFETY: the name is NUL-terminated.
    let number = unsafe { libc::memfd_create(c"frame".as_ptr(), libc::MFD_CLOEXEC) };
    assert!(number >= 0, "a file in memory is made");
    // SAFETY: it was made above, and nobody else owns it.
    let mut file = File::from(unsafe { OwnedFd::from_raw_fd(number) });
    file.write_all(bytes).expect("the file takes its bytes");
    file.into()
}

/// A GstDmaBufMemory of `size` bytes behind `descriptor`.
fn dmabuf(descriptor: OwnedFd, size: usize) -> gst::Memory {
    let allocator = gst_allocators::DmaBufAllocator::new();
    // SAFETY: the descriptor is owned, and passes to the memory.
    unsafe { allocator.alloc_dmabuf(descriptor, size) }.expect("a DMABuf memory")
}

/// Such memory as only a device can read and write: it cannot be mapped.
fn unmappable(size: usize) -> gst::Memory {
    let (_, pipe) = std::io::pipe().expect("a pipe");
    dmabuf(pipe.into(), size)
}

/// The picture of `tight`, which has the default layout, in a DMABuf for each of its planes, or one
/// for all. The buffer says which layout it has, as V4L2 and VA do.
fn imported(caps: &gst::Caps, tight: &gst::Buffer, one_each: bool) -> gst::Buffer {
    let info = gst_video::VideoInfo::from_caps(caps).expect("caps of raw video");
    let bytes = tight.map_readable().expect("maps");
    let mut starts = vec![0];
    if one_each {
        starts = info.offset().to_vec();
    }
    let memories = starts.iter().enumerate().map(|(index, start)| {
        let end = starts.get(index + 1).copied().unwrap_or(info.size());
        let part = &bytes[*start..end];
        dmabuf(file_in_memory(part), part.len())
    });
    of_memories(&info, tight.pts(), memories)
}

/// Reported: frames of a camera in mappable DMABuf memory, under plain caps, are refused, mixed up
/// or written to.
#[test]
fn mappable_dmabuf_under_plain_caps_is_filtered_and_left_alone() {
    watched(|| {
        for format in ["I420", "NV12", "YUY2", "GRAY8"] {
            let caps = raw(format, 33, 17);
            let tight = write(&caps, &noise(&caps, 41));
            let wanted = read(&caps, &filter_one(cudaconv(&[]), &caps, tight.clone()));
            for one_each in [false, true] {
                let input = imported(&caps, &tight, one_each);
                let got = filter_one(cudaconv(&[]), &caps, input.clone());
                assert_eq!(read(&caps, &got), wanted, "{format}, one each: {one_each}");
                let (before, after) = (tight.map_readable(), input.map_readable());
                assert_eq!(
                    before.expect("maps").as_slice(),
                    after.expect("maps").as_slice(),
                    "{format}: the input is as it was"
                );
            }
        }
    });
}

/// Reported: memory that cannot be mapped fails an assertion, or is passed on as it came.
#[test]
fn a_dmabuf_that_cannot_be_mapped_is_dropped_with_a_warning_and_the_stream_goes_on() {
    watched(|| {
        let pads = Pads::raising();
        pads.push_all([0]);
        let mut buffer = gst::Buffer::new();
        let frame = buffer.get_mut().expect("one owner");
        frame.append_memory(unmappable(32 * 24));
        frame.set_pts(pts(1));
        assert_eq!(
            pads.src.push(buffer),
            Ok(gst::FlowSuccess::Ok),
            "the stream goes on"
        );
        pads.push_all([2]);
        pads.wait_buffers(2);
        assert_raised(&pads.buffers(), [0, 2]);
        let warnings = texts(&pads.messages(), gst::MessageType::Warning);
        assert!(
            warnings
                .iter()
                .any(|text| text.contains("cannot be mapped")),
            "{warnings:?}"
        );
        assert_eq!(stat(&pads.element, "dropped"), 1);
    });
}

/// Reported: where both are possible the pipeline settles on DMABuf by accident, and fails or
/// filters nothing.
#[test]
fn with_a_choice_plain_memory_is_negotiated() {
    watched(|| {
        let pads = Pads::raising();
        let choice: gst::Caps = "video/x-raw(memory:DMABuf),format=GRAY8,width=32,height=24; \
             video/x-raw(memory:DMABuf),format=DMA_DRM,width=32,height=24; \
             video/x-raw,format=GRAY8,width=32,height=24"
            .parse()
            .expect("caps");
        let mut settled = pads.src.peer_query_caps(Some(&choice));
        assert!(!settled.is_empty(), "plain memory is left");
        settled.fixate();
        assert_eq!(settled.size(), 1);
        let plain = settled.features(0).is_none_or(|features| {
            features.is_equal(&gst::CapsFeatures::new([
                gst::CAPS_FEATURE_MEMORY_SYSTEM_MEMORY,
            ]))
        });
        assert!(plain, "{settled}");
        assert!(gray().can_intersect(&settled), "{settled}");
        // And what was settled on is filtered.
        let mut caps = settled;
        caps.make_mut()
            .set_value("framerate", gst::Fraction::new(25, 1).to_send_value());
        pads.src.push_event(gst::event::Caps::new(&caps));
        pads.push_all([3]);
        pads.wait_buffers(1);
        assert_raised(&pads.buffers(), [3]);
    });
}

/// Reported: buffers of a sink that only its device can fill end the stream.
#[test]
fn a_pool_of_dmabuf_that_cannot_be_mapped_is_replaced() {
    watched(|| {
        let pads = Pads::around(raising());
        let made = Arc::new(AtomicUsize::new(0));
        let counted = made.clone();
        let pool = MadePool::make(move |size| {
            counted.fetch_add(1, Ordering::SeqCst);
            let mut buffer = gst::Buffer::new();
            buffer.make_mut().append_memory(unmappable(size));
            buffer
        });
        offer(&pads, &pool, 32 * 24, 0);
        pads.begin(&gray());
        pads.push_all(0..6);
        pads.wait_buffers(6);
        assert_raised(&pads.buffers(), 0..6);
        assert_eq!(made.load(Ordering::SeqCst), 1, "it was tried");
    });
}
