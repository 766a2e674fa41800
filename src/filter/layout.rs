//! Pixel formats as groups of channels on sampling grids: one row of data per format.

use super::formats::{FORMATS, Format};

/// The largest width and height, in luma pixels.
pub const MAX_SIDE: u32 = 16384;

/// What a channel means, hence its zero level and how `planes`, `alpha` and `bias` treat it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Role {
    /// Luma of YUV, or grey.
    Luma,
    /// U or V.
    Chroma,
    /// R, G or B.
    Colour,
    Alpha,
    /// The `x` of RGBx, and the luma sample beyond the last pixel of a packed 4:2:2 row of odd
    /// width: copied.
    Padding,
}

/// How one sample is stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Sample {
    U8,
    /// Two bytes, little-endian; the code value is the lowest `depth` bits, 1 to 16, of `word >> shift` (P010 has
    /// shift 6). Those above are no part of it; in valid video they are 0.
    U16Le {
        shift: u8,
        depth: u8,
    },
    /// Two bytes, big-endian.
    U16Be,
}

impl Sample {
    /// Bytes of one sample.
    pub fn bytes(self) -> usize {
        match self {
            Sample::U8 => 1,
            Sample::U16Le { .. } | Sample::U16Be => 2,
        }
    }

    /// The code value stored at the start of `bytes`.
    pub fn read(self, bytes: &[u8]) -> u32 {
        match self {
            Sample::U8 => u32::from(bytes[0]),
            Sample::U16Le { shift, depth } => {
                let word = u16::from_le_bytes([bytes[0], bytes[1]]);
                u32::from(word >> shift & code_bits(depth))
            }
            Sample::U16Be => u32::from(u16::from_be_bytes([bytes[0], bytes[1]])),
        }
    }

    /// Stores `code` at the start of `bytes`; bits below the code value become 0.
    pub fn write(self, bytes: &mut [u8], code: u32) {
        match self {
            Sample::U8 => bytes[0] = code as u8,
            Sample::U16Le { shift, .. } => {
                bytes[..2].copy_from_slice(&((code as u16) << shift).to_le_bytes());
            }
            Sample::U16Be => bytes[..2].copy_from_slice(&(code as u16).to_be_bytes()),
        }
    }
}

/// The word of which the lowest `depth` bits, 1 to 16, are set.
pub fn code_bits(depth: u8) -> u16 {
    u16::MAX >> (16 - depth)
}

/// Where the samples of one component lie. Sample x of row y is at
/// `plane[y * stride + offset + x * step]`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Channel {
    /// Plane of the frame, as GStreamer counts its memory planes.
    pub plane: usize,
    /// Bytes from the start of the row to the first sample.
    pub offset: usize,
    /// Bytes from one sample to the next.
    pub step: usize,
    pub role: Role,
    /// Code value of black (luma, grey, RGB), of neutral (chroma), or 0 (alpha, padding).
    pub zero: u32,
}

/// Channels that share one sampling grid and are filtered together: the three colours of RGB,
/// packed or planar, with their alpha; packed 4:4:4 YUV with its alpha; U and V where they are
/// interleaved; else one component.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Group {
    pub channels: Vec<Channel>,
    /// Luma pixels per sample, horizontally and vertically (1 or 2).
    pub subsampling: (u32, u32),
    /// Samples per row.
    pub width: usize,
    /// Rows of the whole frame (both fields).
    pub height: usize,
}

impl Group {
    /// Indices of the channels in the order of their addresses.
    pub fn by_address(&self) -> Vec<usize> {
        let mut order: Vec<usize> = (0..self.channels.len()).collect();
        order.sort_by_key(|&index| (self.channels[index].plane, self.channels[index].offset));
        order
    }

    /// Whether the channels fill one plane without gaps, samples being of `sample_bytes`.
    pub fn is_packed(&self, sample_bytes: usize) -> bool {
        let order = self.by_address();
        order.iter().enumerate().all(|(place, &index)| {
            let channel = &self.channels[index];
            channel.plane == self.channels[order[0]].plane
                && channel.offset == place * sample_bytes
                && channel.step == order.len() * sample_bytes
        })
    }

    /// Rows of field 0 or 1 of an interlaced frame. Field f is the rows f, f+2, … of every plane,
    /// so field 1 of a plane of one row has none.
    pub fn field_height(&self, field: usize) -> usize {
        (self.height + 1 - field) / 2
    }
}

/// Active bytes of one plane.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PlaneSize {
    /// Bytes of a row that hold pixels; the stride may be larger.
    pub row_bytes: usize,
    pub rows: usize,
}

/// A negotiated format and size.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Layout {
    /// GStreamer's name of the format, for messages.
    pub format: &'static str,
    /// Luma pixels.
    pub width: usize,
    pub height: usize,
    /// Bits of a code value: 8, 10, 12 or 16.
    pub depth: u32,
    pub sample: Sample,
    /// Every byte of `planes` belongs to a channel of exactly one group.
    pub groups: Vec<Group>,
    pub planes: Vec<PlaneSize>,
}

/// Why caps cannot be filtered.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum LayoutError {
    #[error("the format {0} is not supported; supported are {list}", list = format_names())]
    Format(String),
    #[error("a size of {width}x{height} is not supported; supported are 1x1 to 16384x16384")]
    Size { width: u32, height: u32 },
}

fn format_names() -> String {
    let names: Vec<&str> = FORMATS.iter().map(|format| format.name).collect();
    names.join(", ")
}

/// The formats that [`Layout::new`] takes, in the order in which caps list them.
pub fn supported_formats() -> impl Iterator<Item = gst_video::VideoFormat> {
    FORMATS.iter().map(|format| format.video_format)
}

/// Whether the range of `info`'s luma is limited. What caps leave open is limited for YUV and full
/// for grey, as GStreamer itself fills it in.
fn limited_range(info: &gst_video::VideoInfo) -> bool {
    match info.colorimetry().range() {
        gst_video::VideoColorRange::Range16_235 => true,
        gst_video::VideoColorRange::Range0_255 => false,
        _ => info.format_info().is_yuv(),
    }
}

impl Layout {
    /// The layout of the frames that `info` describes. With interlace-mode `alternate` a frame is
    /// one field.
    ///
    /// Zero levels: RGB is 0 whatever its range; luma is 0 at full and `16 << (depth - 8)` at
    /// limited range, and grey is luma (full range unless its caps say otherwise); chroma is
    /// `128 << (depth - 8)`.
    ///
    /// # Errors
    /// When the format or the size is not supported.
    pub fn new(info: &gst_video::VideoInfo) -> Result<Layout, LayoutError> {
        let video_format = info.format();
        let format = FORMATS
            .iter()
            .find(|format| format.video_format == video_format)
            .ok_or_else(|| LayoutError::Format(video_format.to_str().to_string()))?;
        let (width, height) = (info.width(), info.field_height());
        if !(1..=MAX_SIDE).contains(&width) || !(1..=MAX_SIDE).contains(&height) {
            return Err(LayoutError::Size { width, height });
        }
        Ok(format.layout(width as usize, height as usize, limited_range(info)))
    }

    /// The largest code value, `2^depth - 1`.
    pub fn max_code(&self) -> u32 {
        (1 << self.depth) - 1
    }

    /// What 8-bit code values are multiplied by: `2^(depth - 8)`.
    pub fn scale(&self) -> f64 {
        f64::from(1u32 << (self.depth - 8))
    }
}

impl Format {
    fn layout(&self, width: usize, height: usize, limited_range: bool) -> Layout {
        let zero = |role| match role {
            Role::Luma if limited_range => 16 << (self.depth - 8),
            Role::Chroma => 128 << (self.depth - 8),
            _ => 0,
        };
        let mut groups: Vec<Group> = self
            .groups
            .iter()
            .map(|row| Group {
                channels: row
                    .channels
                    .iter()
                    .map(|&(role, plane, offset, step)| Channel {
                        plane,
                        offset,
                        step,
                        role,
                        zero: zero(role),
                    })
                    .collect(),
                subsampling: row.subsampling,
                width: width.div_ceil(row.subsampling.0 as usize),
                height: height.div_ceil(row.subsampling.1 as usize),
            })
            .collect();
        groups.extend(self.row_padding(width, height));

        let planes = (0..self.planes)
            .map(|plane| self.plane_size(plane, &groups))
            .collect();
        Layout {
            format: self.name,
            width,
            height,
            depth: self.depth,
            sample: self.sample,
            groups,
            planes,
        }
    }

    /// Packed 4:2:2 stores pixels in pairs: at odd width the second luma sample of the last pair
    /// is no pixel, but lies amid the active bytes.
    fn row_padding(&self, width: usize, height: usize) -> Option<Group> {
        let packed_422 = self.planes == 1 && self.groups.iter().any(|g| g.subsampling.0 == 2);
        if !packed_422 || width.is_multiple_of(2) {
            return None;
        }
        let (_, plane, luma_offset, step) = self.groups[0].channels[0];
        Some(Group {
            channels: vec![Channel {
                plane,
                offset: luma_offset + width * step,
                step,
                role: Role::Padding,
                zero: 0,
            }],
            subsampling: (1, 1),
            width: 1,
            height,
        })
    }

    fn plane_size(&self, plane: usize, groups: &[Group]) -> PlaneSize {
        let channels = groups
            .iter()
            .flat_map(|group| group.channels.iter().map(move |channel| (group, channel)));
        let mut size = PlaneSize {
            row_bytes: 0,
            rows: 0,
        };
        for (group, channel) in channels.filter(|(_, channel)| channel.plane == plane) {
            let end = channel.offset + (group.width - 1) * channel.step + self.sample.bytes();
            size.row_bytes = size.row_bytes.max(end);
            size.rows = size.rows.max(group.height);
        }
        size
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn info(format: gst_video::VideoFormat, width: u32, height: u32) -> gst_video::VideoInfo {
        gst::init().unwrap();
        gst_video::VideoInfo::builder(format, width, height)
            .build()
            .unwrap()
    }

    fn layout(format: gst_video::VideoFormat, width: u32, height: u32) -> Layout {
        Layout::new(&info(format, width, height)).unwrap()
    }

    /// The range of `colorimetry` as caps write it.
    fn with_colorimetry(format: &str, colorimetry: &str) -> Layout {
        gst::init().unwrap();
        let caps = gst::Caps::builder("video/x-raw")
            .field("format", format)
            .field("width", 4)
            .field("height", 4)
            .field("colorimetry", colorimetry)
            .build();
        Layout::new(&gst_video::VideoInfo::from_caps(&caps).unwrap()).unwrap()
    }

    /// Channels in GStreamer's order of components: Y U V A or R G B A.
    fn components(layout: &Layout) -> Vec<(&Group, Channel)> {
        layout
            .groups
            .iter()
            .flat_map(|group| group.channels.iter().map(move |channel| (group, *channel)))
            .filter(|(_, channel)| channel.role != Role::Padding)
            .collect()
    }

    #[test]
    fn every_row_of_the_table_agrees_with_gstreamer() {
        for (width, height) in [(1, 1), (2, 2), (33, 17), (33, 16), (32, 17), (322, 241)] {
            for format in supported_formats() {
                let info = info(format, width, height);
                let gst_format = info.format_info();
                let layout = Layout::new(&info).unwrap();
                assert_eq!(layout.format, gst_format.name().as_str());
                assert_eq!(layout.planes.len(), info.n_planes() as usize, "{format:?}");
                let components = components(&layout);
                assert_eq!(components.len(), info.n_components() as usize, "{format:?}");
                for (index, (group, channel)) in components.iter().enumerate() {
                    let c = index as u8;
                    let what = format!("{format:?} {width}x{height} component {index}");
                    assert_eq!(channel.plane, info.comp_plane(c) as usize, "{what}");
                    assert_eq!(channel.step, info.comp_pstride(c) as usize, "{what}");
                    let p010_v = format == gst_video::VideoFormat::P01010le && index == 2;
                    let offset = if p010_v {
                        2
                    } else {
                        info.comp_poffset(c) as usize
                    };
                    assert_eq!(channel.offset, offset, "{what}");
                    assert_eq!(layout.depth, info.comp_depth(c), "{what}");
                    assert_eq!(group.width, info.comp_width(c) as usize, "{what}");
                    assert_eq!(group.height, info.comp_height(c) as usize, "{what}");
                    if let Sample::U16Le { shift, depth } = layout.sample {
                        assert_eq!(u32::from(shift), gst_format.shift()[index], "{what}");
                        assert_eq!(u32::from(depth), layout.depth, "{what}");
                    }
                }
            }
        }
    }

    #[test]
    fn planes_fit_into_the_frames_that_gstreamer_allocates() {
        for (width, height) in [(1, 1), (3, 3), (33, 17), (322, 241), (404, 716)] {
            for format in supported_formats() {
                let info = info(format, width, height);
                let layout = Layout::new(&info).unwrap();
                for (plane, size) in layout.planes.iter().enumerate() {
                    let stride = info.stride()[plane] as usize;
                    let end = info.offset()[plane] + stride * (size.rows - 1) + size.row_bytes;
                    assert!(
                        size.row_bytes <= stride && end <= info.size(),
                        "{format:?} {plane}"
                    );
                }
            }
        }
    }

    #[test]
    fn every_active_byte_belongs_to_exactly_one_sample() {
        for (width, height) in [(1, 1), (2, 2), (33, 17), (32, 17), (5, 4)] {
            for format in supported_formats() {
                let layout = layout(format, width, height);
                let mut uses: Vec<Vec<u32>> = layout
                    .planes
                    .iter()
                    .map(|plane| vec![0; plane.row_bytes * plane.rows])
                    .collect();
                for group in &layout.groups {
                    for channel in &group.channels {
                        let row_bytes = layout.planes[channel.plane].row_bytes;
                        for y in 0..group.height {
                            for x in 0..group.width {
                                let at = y * row_bytes + channel.offset + x * channel.step;
                                let end = at + layout.sample.bytes();
                                for n in &mut uses[channel.plane][at..end] {
                                    *n += 1;
                                }
                            }
                        }
                    }
                }
                assert!(
                    uses.iter().flatten().all(|&n| n == 1),
                    "{format:?} {width}x{height}"
                );
            }
        }
    }

    #[test]
    fn zero_levels_follow_the_colorimetry() {
        let zeros = |format: &str, colorimetry: &str| -> Vec<u32> {
            let layout = with_colorimetry(format, colorimetry);
            components(&layout)
                .iter()
                .map(|(_, channel)| channel.zero)
                .collect()
        };
        assert_eq!(zeros("I420", "bt709"), [16, 128, 128]);
        assert_eq!(zeros("I420", "1:4:5:1"), [0, 128, 128]);
        assert_eq!(zeros("I420_10LE", "bt2020"), [64, 512, 512]);
        assert_eq!(zeros("I420_12LE", "bt2020"), [256, 2048, 2048]);
        assert_eq!(zeros("AYUV", "bt601"), [16, 128, 128, 0]);
        assert_eq!(zeros("GRAY8", "2:4:5:1"), [16]);
        assert_eq!(zeros("GRAY16_LE", "2:4:5:1"), [4096]);
        assert_eq!(zeros("GRAY8", "1:4:0:0"), [0]);
        assert_eq!(zeros("RGBA", "sRGB"), [0, 0, 0, 0]);
        assert_eq!(zeros("RGB", "2:1:7:1"), [0, 0, 0]);
    }

    #[test]
    fn caps_without_colorimetry_are_limited_for_yuv_and_full_for_grey() {
        let zero = |format| layout(format, 4, 4).groups[0].channels[0].zero;
        assert_eq!(zero(gst_video::VideoFormat::Nv12), 16);
        assert_eq!(zero(gst_video::VideoFormat::Gray8), 0);
        assert_eq!(zero(gst_video::VideoFormat::Gray16Le), 0);
        assert_eq!(zero(gst_video::VideoFormat::Rgb), 0);
    }

    #[test]
    fn other_formats_and_sizes_are_refused_with_what_is_supported() {
        let refused = Layout::new(&info(gst_video::VideoFormat::V210, 48, 4)).unwrap_err();
        let text = refused.to_string();
        assert!(
            text.contains("v210") && text.contains("GRAY8, GRAY16_LE"),
            "{text}"
        );
        let refused = Layout::new(&info(gst_video::VideoFormat::Gray8, 16385, 1)).unwrap_err();
        assert_eq!(
            refused,
            LayoutError::Size {
                width: 16385,
                height: 1
            }
        );
        assert!(Layout::new(&info(gst_video::VideoFormat::Gray8, 16384, 1)).is_ok());
    }

    #[test]
    fn fields_share_the_rows_out() {
        let fields = |height| {
            let group = &layout(gst_video::VideoFormat::Gray8, 4, height).groups[0];
            (group.field_height(0), group.field_height(1))
        };
        assert_eq!(fields(1), (1, 0));
        assert_eq!(fields(2), (1, 1));
        assert_eq!(fields(17), (9, 8));
    }

    #[test]
    fn alternate_frames_are_one_field() {
        gst::init().unwrap();
        let format = gst_video::VideoFormat::I420;
        let info = gst_video::VideoInfo::builder(format, 33, 17)
            .interlace_mode(gst_video::VideoInterlaceMode::Alternate)
            .build()
            .unwrap();
        let layout = Layout::new(&info).unwrap();
        assert_eq!(
            (layout.height, layout.planes[0].rows, layout.planes[1].rows),
            (9, 9, 5)
        );
    }

    #[test]
    fn samples_are_read_as_they_were_written() {
        for sample in [
            Sample::U16Le {
                shift: 0,
                depth: 10,
            },
            Sample::U16Le {
                shift: 6,
                depth: 10,
            },
            Sample::U16Be,
        ] {
            let mut bytes = [0; 2];
            sample.write(&mut bytes, 0x2a5);
            assert_eq!(sample.read(&bytes), 0x2a5, "{sample:?}");
        }
        let p010 = Sample::U16Le {
            shift: 6,
            depth: 10,
        };
        let mut bytes = [0xff; 2];
        p010.write(&mut bytes, 1);
        assert_eq!(bytes, [0x40, 0]);
        // Bits beside the code value are none of it.
        assert_eq!(p010.read(&[0x7f, 0]), 1);
        let i420 = Sample::U16Le {
            shift: 0,
            depth: 10,
        };
        assert_eq!(i420.read(&[1, 0xfc]), 1);
        Sample::U16Be.write(&mut bytes, 0x0102);
        assert_eq!(bytes, [1, 2]);
    }
}
