//! Frames that carry their number in their time stamp and in every pixel.

use gst_video::prelude::*;

pub const WIDTH: u32 = 32;
pub const HEIGHT: u32 = 24;
pub const DURATION: gst::ClockTime = gst::ClockTime::from_mseconds(40);

/// Caps of a small grey picture at 25 frames a second.
pub fn gray() -> gst::Caps {
    gray_of(WIDTH, HEIGHT)
}

/// Caps of a grey picture at 25 frames a second.
pub fn gray_of(width: u32, height: u32) -> gst::Caps {
    raw("GRAY8", width, height)
}

/// Caps of a picture at 25 frames a second.
pub fn raw(format: &str, width: u32, height: u32) -> gst::Caps {
    gst::Caps::builder("video/x-raw")
        .field("format", format)
        .field("width", width as i32)
        .field("height", height as i32)
        .field("framerate", gst::Fraction::new(25, 1))
        .build()
}

/// The level that frame `number` has in every pixel: below 251, so that it can be raised.
pub fn level(number: u64) -> u8 {
    (number % 251) as u8
}

/// When frame `number` is shown.
pub fn pts(number: u64) -> gst::ClockTime {
    DURATION * number
}

/// Frame `number` of the small grey stream.
pub fn numbered(number: u64) -> gst::Buffer {
    numbered_as(&gray(), number)
}

/// Frame `number` with every byte at its level, of the default size of `caps`.
pub fn numbered_as(caps: &gst::Caps, number: u64) -> gst::Buffer {
    filled(caps, number, level(number))
}

/// Frame `number` with every byte at `value`.
pub fn filled(caps: &gst::Caps, number: u64, value: u8) -> gst::Buffer {
    let info = gst_video::VideoInfo::from_caps(caps).expect("caps of raw video");
    stamped(vec![value; info.size()], number)
}

/// A buffer of these bytes with the time stamps of frame `number`.
pub fn stamped(bytes: Vec<u8>, number: u64) -> gst::Buffer {
    let mut buffer = gst::Buffer::from_mut_slice(bytes);
    {
        let buffer = buffer.get_mut().expect("a new buffer has one owner");
        buffer.set_pts(pts(number));
        buffer.set_duration(DURATION);
        buffer.set_offset(number);
    }
    buffer
}

/// The memories, one behind the other, as a frame whose VideoMeta says that it has the default layout.
pub fn of_memories(
    info: &gst_video::VideoInfo,
    pts: Option<gst::ClockTime>,
    memories: impl IntoIterator<Item = gst::Memory>,
) -> gst::Buffer {
    let mut buffer = gst::Buffer::new();
    let target = buffer.get_mut().expect("one owner");
    for memory in memories {
        target.append_memory(memory);
    }
    target.set_pts(pts);
    gst_video::VideoMeta::add_full(
        target,
        gst_video::VideoFrameFlags::empty(),
        info.format(),
        info.width(),
        info.height(),
        info.offset(),
        info.stride(),
    )
    .expect("VideoMeta fits");
    buffer
}

/// The active bytes of each plane, row after row without padding.
pub fn planes(caps: &gst::Caps, buffer: &gst::Buffer) -> Vec<Vec<u8>> {
    let info = gst_video::VideoInfo::from_caps(caps).expect("caps of raw video");
    let frame = gst_video::VideoFrameRef::from_buffer_ref_readable(buffer, &info)
        .expect("the buffer maps as its caps say");
    let format = info.format_info();
    (0..info.n_planes())
        .map(|plane| {
            let components: Vec<u32> = (0..format.n_components())
                .filter(|c| format.plane()[*c as usize] == plane)
                .collect();
            // Bytes of the row that the components of this plane reach.
            let row = components
                .iter()
                .map(|c| frame.comp_width(*c) * frame.comp_pstride(*c) as u32)
                .max()
                .unwrap_or(0) as usize;
            let rows = components
                .iter()
                .map(|c| frame.comp_height(*c))
                .max()
                .unwrap_or(0) as usize;
            let stride = frame.plane_stride()[plane as usize] as usize;
            let data = frame.plane_data(plane).expect("a plane of the format");
            let mut bytes: Vec<u8> = (0..rows)
                .flat_map(|y| data[y * stride..y * stride + row].iter().copied())
                .collect();
            if let Some(beyond) = luma_beyond_the_edge(&info) {
                bytes
                    .iter_mut()
                    .skip(beyond)
                    .step_by(row)
                    .for_each(|b| *b = 0);
            }
            bytes
        })
        .collect()
}

/// Where the last pair of a row of packed 4:2:2 holds the luma of a pixel beyond an odd width.
fn luma_beyond_the_edge(info: &gst_video::VideoInfo) -> Option<usize> {
    let width = info.width() as usize;
    match info.format() {
        gst_video::VideoFormat::Yuy2 if width % 2 == 1 => Some(2 * width),
        gst_video::VideoFormat::Uyvy if width % 2 == 1 => Some(2 * width + 1),
        _ => None,
    }
}

/// The one value of all active bytes.
///
/// # Panics
/// When they differ: the frame is torn.
pub fn flat_value(caps: &gst::Caps, buffer: &gst::Buffer) -> u8 {
    let planes = planes(caps, buffer);
    let value = planes[0][0];
    for (plane, bytes) in planes.iter().enumerate() {
        if let Some(at) = bytes.iter().position(|b| *b != value) {
            panic!(
                "plane {plane} of the frame at {:?} is {} at byte {at} and {value} elsewhere",
                buffer.pts(),
                bytes[at]
            );
        }
    }
    value
}

/// Fails unless `buffers` are the small grey frames `numbers`, in this order, each once, raised
/// by one.
pub fn assert_raised(buffers: &[gst::Buffer], numbers: impl IntoIterator<Item = u64>) {
    let caps = gray();
    let got: Vec<_> = buffers
        .iter()
        .map(|b| (b.pts(), flat_value(&caps, b)))
        .collect();
    let wanted: Vec<_> = numbers
        .into_iter()
        .map(|n| (Some(pts(n)), level(n) + 1))
        .collect();
    assert_eq!(got, wanted, "(time stamp, level) of every frame");
}
