//! What rides on a frame stays on it.

use gst_video::prelude::*;

use crate::common::frames::{assert_raised, gray, level, numbered, pts, raw};
use crate::common::pads::Pads;
use crate::common::picture::{noise, read, write};
use crate::common::pools::padded_copy;
use crate::common::watchdog::watched;
use crate::common::{cudaconv, raising};

const CUSTOM: &str = "CudaConvTestMeta";

/// GStreamer takes a name once a process.
fn register_custom() {
    static ONCE: std::sync::Once = std::sync::Once::new();
    ONCE.call_once(|| gst::meta::CustomMeta::register(CUSTOM, &[]));
}

/// Frame `number` with a region, a time code, a reference time and a custom meta of its own.
fn laden(number: u64) -> gst::Buffer {
    let mut buffer = numbered(number);
    let target = buffer.get_mut().expect("one owner");
    for region in 0..=number % 3 {
        let place = (number as u32, region as u32, 4, 5);
        gst_video::VideoRegionOfInterestMeta::add(target, &format!("kind {number}"), place);
    }
    let code = gst_video::VideoTimeCode::new(
        gst::Fraction::new(25, 1),
        None,
        gst_video::VideoTimeCodeFlags::empty(),
        1,
        2,
        3,
        number as u32,
        0,
    );
    let code = gst_video::ValidVideoTimeCode::try_from(code).expect("a valid time code");
    gst_video::VideoTimeCodeMeta::add(target, &code);
    let reference = gst::Caps::new_empty_simple("timestamp/x-ntp");
    gst::ReferenceTimestampMeta::add(target, &reference, pts(number + 500), pts(1));
    let mut custom = gst::meta::CustomMeta::add(target, CUSTOM).expect("a registered meta");
    custom.mut_structure().set("number", number);
    buffer
}

fn assert_laden(out: &gst::Buffer, number: u64) {
    let regions: Vec<_> = out
        .iter_meta::<gst_video::VideoRegionOfInterestMeta>()
        .map(|meta| (meta.roi_type().to_string(), meta.rect()))
        .collect();
    let wanted: Vec<_> = (0..=number % 3)
        .map(|region| {
            let place = (number as u32, region as u32, 4, 5);
            (format!("kind {number}"), place)
        })
        .collect();
    assert_eq!(regions, wanted, "frame {number}");
    let code = out
        .meta::<gst_video::VideoTimeCodeMeta>()
        .expect("a time code")
        .tc();
    assert_eq!((code.seconds(), u64::from(code.frames())), (3, number));
    let reference = out
        .meta::<gst::ReferenceTimestampMeta>()
        .expect("a reference time");
    assert_eq!(reference.timestamp(), pts(number + 500));
    let custom = gst::meta::CustomMeta::from_buffer(out, CUSTOM).expect("the custom meta");
    assert_eq!(custom.structure().get::<u64>("number"), Ok(number));
    assert_eq!(out.iter_meta::<gst_video::VideoTimeCodeMeta>().count(), 1);
    assert_eq!(out.iter_meta::<gst::ReferenceTimestampMeta>().count(), 1);
}

/// Reported: regions, time codes, capture times and an application's own metas vanish, or end on
/// the frame before or after.
#[test]
fn regions_time_codes_reference_times_and_custom_metas_stay_with_their_frame() {
    watched(|| {
        register_custom();
        for depth in [1u32, 2, 8] {
            let element = raising();
            element.set_property("depth", depth);
            let pads = Pads::around(element);
            pads.begin(&gray());
            for number in 0..20 {
                let pushed = pads.src.push(laden(number));
                assert_eq!(pushed, Ok(gst::FlowSuccess::Ok));
            }
            pads.wait_buffers(20);
            let buffers = pads.buffers();
            assert_raised(&buffers, 0..20);
            for (number, out) in (0u64..).zip(&buffers) {
                assert_laden(out, number);
            }
        }
    });
}

/// Reported: buffers of a pool come back with the metas of their last use.
#[test]
fn a_frame_without_metas_gets_none_of_an_earlier_frame() {
    watched(|| {
        register_custom();
        let pads = Pads::raising();
        for number in 0..12 {
            let frame = if number < 6 {
                laden(number)
            } else {
                numbered(number)
            };
            assert_eq!(pads.src.push(frame), Ok(gst::FlowSuccess::Ok));
            pads.wait_buffers(1);
            let out = pads.buffers().remove(0);
            assert_eq!(
                crate::common::frames::flat_value(&gray(), &out),
                level(number) + 1
            );
            if number >= 6 {
                let regions = out.iter_meta::<gst_video::VideoRegionOfInterestMeta>();
                assert_eq!(regions.count(), 0, "frame {number}");
                assert!(gst::meta::CustomMeta::from_buffer(&out, CUSTOM).is_err());
                assert!(out.meta::<gst::ReferenceTimestampMeta>().is_none());
            }
            drop(out);
            pads.forget();
        }
    });
}

/// Reported: the VideoMeta of the input is copied and describes memory that is not there.
#[test]
fn the_video_meta_of_the_output_is_its_own() {
    watched(|| {
        for understood in [true, false] {
            let caps = raw("I420", 33, 17);
            let input = noise(&caps, 51);
            let pads = Pads::around(cudaconv(&[("kernel", "identity")]));
            if understood {
                pads.answer_allocation(|query| {
                    query.add_allocation_meta::<gst_video::VideoMeta>(None);
                    true
                });
            }
            pads.begin(&caps);
            let padded = padded_copy(&caps, &write(&caps, &input));
            assert_eq!(pads.src.push(padded), Ok(gst::FlowSuccess::Ok));
            pads.wait_buffers(1);
            let out = pads.buffers().remove(0);
            assert!(out.iter_meta::<gst_video::VideoMeta>().count() <= 1);
            assert_eq!(read(&caps, &out), input, "understood: {understood}");
        }
    });
}
