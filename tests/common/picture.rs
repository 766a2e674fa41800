//! Frames as samples: components read and written through GStreamer's own description of the
//! formats, and a plain correlation to compare with.

use gst_video::prelude::*;

use super::pads::Pads;

/// One component of a frame, row by row without padding.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Component {
    pub width: usize,
    pub height: usize,
    /// Code values.
    pub samples: Vec<u32>,
    pub depth: u32,
    pub alpha: bool,
}

impl Component {
    pub fn at(&self, x: usize, y: usize) -> u32 {
        self.samples[y * self.width + x]
    }
}

/// Where the samples of a component lie.
struct Place {
    plane: u32,
    offset: usize,
    step: usize,
    shift: u32,
    depth: u32,
    big_endian: bool,
    bytes: usize,
}

fn place(info: &gst_video::VideoInfo, component: usize) -> Place {
    let format = info.format_info();
    let depth = format.depth()[component];
    let bytes = if depth > 8 { 2 } else { 1 };
    let mut offset = format.poffset()[component] as usize;
    if info.format() == gst_video::VideoFormat::P01010le && component == 2 {
        offset = 2; // GStreamer 1.22 says 1, in the middle of U
    }
    Place {
        plane: format.plane()[component],
        offset,
        step: format.pixel_stride()[component] as usize,
        shift: format.shift()[component],
        depth,
        big_endian: !format.flags().contains(gst_video::VideoFormatFlags::LE) && bytes == 2,
        bytes,
    }
}

fn size(info: &gst_video::VideoInfo, component: usize) -> (usize, usize) {
    let format = info.format_info();
    let halved = |length: u32, by: u32| (length as usize).div_ceil(1 << by);
    (
        halved(info.width(), format.w_sub()[component]),
        halved(info.height(), format.h_sub()[component]),
    )
}

fn info_of(caps: &gst::Caps) -> gst_video::VideoInfo {
    gst_video::VideoInfo::from_caps(caps).unwrap_or_else(|e| panic!("{caps}: {e}"))
}

/// Components of `caps` with the samples that `sample(component, x, y)` gives, cut to the depth.
pub fn paint(caps: &gst::Caps, sample: impl Fn(usize, usize, usize) -> u32) -> Vec<Component> {
    let info = info_of(caps);
    (0..info.n_components() as usize)
        .map(|component| {
            let (width, height) = size(&info, component);
            let depth = info.format_info().depth()[component];
            let samples = (0..width * height)
                .map(|i| sample(component, i % width, i / width) & ((1 << depth) - 1))
                .collect();
            Component {
                width,
                height,
                samples,
                depth,
                alpha: info.format_info().has_alpha() && component == 3,
            }
        })
        .collect()
}

/// Components with repeatable noise.
pub fn noise(caps: &gst::Caps, seed: u64) -> Vec<Component> {
    paint(caps, |component, x, y| {
        let mut random = super::Random::new(
            seed ^ ((component as u64 + 1) << 40) ^ ((y as u64) << 20) ^ (x as u64 + 1),
        );
        for _ in 0..3 {
            random.next();
        }
        (random.next() >> 20) as u32
    })
}

/// A frame of the default layout with these components; other bytes hold 0x5a.
pub fn write(caps: &gst::Caps, components: &[Component]) -> gst::Buffer {
    let info = info_of(caps);
    let mut buffer = super::frames::stamped(vec![0x5a; info.size()], 0);
    let target = buffer.get_mut().expect("one owner");
    let mut frame =
        gst_video::VideoFrameRef::from_buffer_ref_writable(target, &info).expect("the buffer maps");
    for (index, component) in components.iter().enumerate() {
        let place = place(&info, index);
        let stride = info.stride()[place.plane as usize] as usize;
        let data = frame.plane_data_mut(place.plane).expect("a plane");
        for (i, sample) in component.samples.iter().enumerate() {
            let (x, y) = (i % component.width, i / component.width);
            let at = y * stride + place.offset + x * place.step;
            let word = (sample << place.shift) as u16;
            let bytes = match (place.bytes, place.big_endian) {
                (1, _) => [word as u8, 0],
                (_, true) => word.to_be_bytes(),
                (_, false) => word.to_le_bytes(),
            };
            data[at..at + place.bytes].copy_from_slice(&bytes[..place.bytes]);
        }
    }
    drop(frame);
    buffer
}

/// The components of a frame of any layout that its VideoMeta describes.
pub fn read(caps: &gst::Caps, buffer: &gst::Buffer) -> Vec<Component> {
    let info = info_of(caps);
    let frame = gst_video::VideoFrameRef::from_buffer_ref_readable(buffer, &info)
        .expect("the buffer maps as its caps say");
    (0..info.n_components() as usize)
        .map(|index| {
            let place = place(&info, index);
            let (width, height) = size(&info, index);
            let stride = frame.plane_stride()[place.plane as usize] as usize;
            let data = frame.plane_data(place.plane).expect("a plane");
            let samples = (0..width * height)
                .map(|i| {
                    let at = (i / width) * stride + place.offset + (i % width) * place.step;
                    let word = match (place.bytes, place.big_endian) {
                        (1, _) => u16::from(data[at]),
                        (_, true) => u16::from_be_bytes([data[at], data[at + 1]]),
                        (_, false) => u16::from_le_bytes([data[at], data[at + 1]]),
                    };
                    u32::from(word) >> place.shift
                })
                .collect();
            Component {
                width,
                height,
                samples,
                depth: place.depth,
                alpha: info.format_info().has_alpha() && index == 3,
            }
        })
        .collect()
}

/// `Σ K(i,j)·in(x+i,y+j) / divisor` of whole-number coefficients with the edge pixels repeated
/// beyond the edge, rounded half to even and clamped: in float64, where all of it is exact but the
/// last division.
pub fn correlate(input: &Component, kernel: &[&[i32]], divisor: i32) -> Component {
    let (rows, columns) = (kernel.len() as isize, kernel[0].len() as isize);
    let clamp = |at: isize, length: usize| at.clamp(0, length as isize - 1) as usize;
    let mut output = input.clone();
    for y in 0..input.height {
        for x in 0..input.width {
            let mut sum = 0i64;
            for (j, row) in kernel.iter().enumerate() {
                for (i, weight) in row.iter().enumerate() {
                    let from_x = clamp(x as isize + i as isize - columns / 2, input.width);
                    let from_y = clamp(y as isize + j as isize - rows / 2, input.height);
                    sum += i64::from(*weight) * i64::from(input.at(from_x, from_y));
                }
            }
            let value = (sum as f64 / f64::from(divisor)).round_ties_even();
            let max = f64::from((1u32 << input.depth) - 1);
            output.samples[y * input.width + x] = value.clamp(0.0, max) as u32;
        }
    }
    output
}

/// Passes one frame of `caps` through `element`.
pub fn filter_one(element: gst::Element, caps: &gst::Caps, frame: gst::Buffer) -> gst::Buffer {
    let pads = Pads::around(element);
    pads.begin(caps);
    assert_eq!(pads.src.push(frame), Ok(gst::FlowSuccess::Ok), "{caps}");
    assert!(pads.end());
    pads.wait_event(gst::EventType::Eos);
    let mut buffers = pads.buffers();
    assert_eq!(
        buffers.len(),
        1,
        "{caps}: one frame; on the bus: {:?}",
        pads.messages()
    );
    buffers.remove(0)
}

/// Passes these components through the filter with these properties, on the CPU.
pub fn filtered(
    properties: &[(&str, &str)],
    caps: &gst::Caps,
    components: &[Component],
) -> Vec<Component> {
    let out = filter_one(super::cudaconv(properties), caps, write(caps, components));
    read(caps, &out)
}

/// The formats of plain memory that the element takes.
pub fn formats() -> Vec<String> {
    let element = super::raising();
    let template = element.pad_template("sink").expect("a sink template");
    let mut formats = Vec::new();
    for (structure, features) in template.caps().iter_with_features() {
        if !features.is_equal(gst::CAPS_FEATURES_MEMORY_SYSTEM_MEMORY.as_ref()) {
            continue;
        }
        let value = structure.value("format").expect("formats are listed");
        match value.get::<gst::List>() {
            Ok(list) => formats.extend(
                list.iter()
                    .map(|v| v.get::<String>().expect("a format name")),
            ),
            Err(_) => formats.push(value.get::<String>().expect("a format name")),
        }
    }
    formats
}
