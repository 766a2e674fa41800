//! The table of pixel formats.

use gst_video::VideoFormat;

use super::layout::{Role, Sample};

/// A pixel format. To support one more, add a row to [`FORMATS`].
pub(super) struct Format {
    pub(super) video_format: VideoFormat,
    /// GStreamer's name.
    pub(super) name: &'static str,
    pub(super) depth: u32,
    pub(super) sample: Sample,
    pub(super) planes: usize,
    pub(super) groups: &'static [GroupRow],
}

/// Channels of one grid.
pub(super) struct GroupRow {
    /// Luma pixels per sample, horizontally and vertically.
    pub(super) subsampling: (u32, u32),
    /// Role, plane, offset and step in bytes.
    pub(super) channels: &'static [(Role, usize, usize, usize)],
}

use Role::{Alpha as A, Chroma as C, Colour as R, Luma as Y, Padding as X};

const U8: Sample = Sample::U8;
/// Bits at the bottom of the word.
const fn le(depth: u8) -> Sample {
    Sample::U16Le { shift: 0, depth }
}
const BE: Sample = Sample::U16Be;
/// Ten bits at the top of the word.
const P010: Sample = Sample::U16Le {
    shift: 6,
    depth: 10,
};
const NATIVE: Sample = if cfg!(target_endian = "little") {
    le(16)
} else {
    BE
};

const FULL: (u32, u32) = (1, 1);
const HALF_WIDTH: (u32, u32) = (2, 1);
const QUARTER: (u32, u32) = (2, 2);

const fn group(
    subsampling: (u32, u32),
    channels: &'static [(Role, usize, usize, usize)],
) -> GroupRow {
    GroupRow {
        subsampling,
        channels,
    }
}

const fn format(
    video_format: VideoFormat,
    name: &'static str,
    depth: u32,
    sample: Sample,
    planes: usize,
    groups: &'static [GroupRow],
) -> Format {
    Format {
        video_format,
        name,
        depth,
        sample,
        planes,
        groups,
    }
}

/// One row a format. Components stand in the order Y, U, V or R, G, B, then alpha or padding,
/// each as (role, plane, offset, step).
#[rustfmt::skip]
pub(super) const FORMATS: &[Format] = &[
    format(VideoFormat::Nv12, "NV12", 8, U8, 2,
        &[group(FULL, &[(Y, 0, 0, 1)]), group(QUARTER, &[(C, 1, 0, 2), (C, 1, 1, 2)])]),
    format(VideoFormat::I420, "I420", 8, U8, 3,
        &[group(FULL, &[(Y, 0, 0, 1)]), group(QUARTER, &[(C, 1, 0, 1)]), group(QUARTER, &[(C, 2, 0, 1)])]),
    format(VideoFormat::Yv12, "YV12", 8, U8, 3,
        &[group(FULL, &[(Y, 0, 0, 1)]), group(QUARTER, &[(C, 2, 0, 1)]), group(QUARTER, &[(C, 1, 0, 1)])]),
    format(VideoFormat::Nv21, "NV21", 8, U8, 2,
        &[group(FULL, &[(Y, 0, 0, 1)]), group(QUARTER, &[(C, 1, 1, 2), (C, 1, 0, 2)])]),
    format(VideoFormat::Nv16, "NV16", 8, U8, 2,
        &[group(FULL, &[(Y, 0, 0, 1)]), group(HALF_WIDTH, &[(C, 1, 0, 2), (C, 1, 1, 2)])]),
    format(VideoFormat::Y42b, "Y42B", 8, U8, 3,
        &[group(FULL, &[(Y, 0, 0, 1)]), group(HALF_WIDTH, &[(C, 1, 0, 1)]), group(HALF_WIDTH, &[(C, 2, 0, 1)])]),
    format(VideoFormat::Y444, "Y444", 8, U8, 3,
        &[group(FULL, &[(Y, 0, 0, 1)]), group(FULL, &[(C, 1, 0, 1)]), group(FULL, &[(C, 2, 0, 1)])]),
    format(VideoFormat::Yuy2, "YUY2", 8, U8, 1,
        &[group(FULL, &[(Y, 0, 0, 2)]), group(HALF_WIDTH, &[(C, 0, 1, 4), (C, 0, 3, 4)])]),
    format(VideoFormat::Uyvy, "UYVY", 8, U8, 1,
        &[group(FULL, &[(Y, 0, 1, 2)]), group(HALF_WIDTH, &[(C, 0, 0, 4), (C, 0, 2, 4)])]),
    format(VideoFormat::I42010le, "I420_10LE", 10, le(10), 3,
        &[group(FULL, &[(Y, 0, 0, 2)]), group(QUARTER, &[(C, 1, 0, 2)]), group(QUARTER, &[(C, 2, 0, 2)])]),
    format(VideoFormat::I42210le, "I422_10LE", 10, le(10), 3,
        &[group(FULL, &[(Y, 0, 0, 2)]), group(HALF_WIDTH, &[(C, 1, 0, 2)]), group(HALF_WIDTH, &[(C, 2, 0, 2)])]),
    format(VideoFormat::Y44410le, "Y444_10LE", 10, le(10), 3,
        &[group(FULL, &[(Y, 0, 0, 2)]), group(FULL, &[(C, 1, 0, 2)]), group(FULL, &[(C, 2, 0, 2)])]),
    format(VideoFormat::I42012le, "I420_12LE", 12, le(12), 3,
        &[group(FULL, &[(Y, 0, 0, 2)]), group(QUARTER, &[(C, 1, 0, 2)]), group(QUARTER, &[(C, 2, 0, 2)])]),
    // V is at byte 2, though GStreamer 1.22 tells of byte 1.
    format(VideoFormat::P01010le, "P010_10LE", 10, P010, 2,
        &[group(FULL, &[(Y, 0, 0, 2)]), group(QUARTER, &[(C, 1, 0, 4), (C, 1, 2, 4)])]),
    format(VideoFormat::Gray8, "GRAY8", 8, U8, 1, &[group(FULL, &[(Y, 0, 0, 1)])]),
    format(VideoFormat::Gray16Le, "GRAY16_LE", 16, le(16), 1, &[group(FULL, &[(Y, 0, 0, 2)])]),
    format(VideoFormat::Gray16Be, "GRAY16_BE", 16, BE, 1, &[group(FULL, &[(Y, 0, 0, 2)])]),
    format(VideoFormat::Rgb, "RGB", 8, U8, 1,
        &[group(FULL, &[(R, 0, 0, 3), (R, 0, 1, 3), (R, 0, 2, 3)])]),
    format(VideoFormat::Bgr, "BGR", 8, U8, 1,
        &[group(FULL, &[(R, 0, 2, 3), (R, 0, 1, 3), (R, 0, 0, 3)])]),
    format(VideoFormat::Rgbx, "RGBx", 8, U8, 1,
        &[group(FULL, &[(R, 0, 0, 4), (R, 0, 1, 4), (R, 0, 2, 4), (X, 0, 3, 4)])]),
    format(VideoFormat::Bgrx, "BGRx", 8, U8, 1,
        &[group(FULL, &[(R, 0, 2, 4), (R, 0, 1, 4), (R, 0, 0, 4), (X, 0, 3, 4)])]),
    format(VideoFormat::Xrgb, "xRGB", 8, U8, 1,
        &[group(FULL, &[(R, 0, 1, 4), (R, 0, 2, 4), (R, 0, 3, 4), (X, 0, 0, 4)])]),
    format(VideoFormat::Xbgr, "xBGR", 8, U8, 1,
        &[group(FULL, &[(R, 0, 3, 4), (R, 0, 2, 4), (R, 0, 1, 4), (X, 0, 0, 4)])]),
    format(VideoFormat::Rgba, "RGBA", 8, U8, 1,
        &[group(FULL, &[(R, 0, 0, 4), (R, 0, 1, 4), (R, 0, 2, 4), (A, 0, 3, 4)])]),
    format(VideoFormat::Bgra, "BGRA", 8, U8, 1,
        &[group(FULL, &[(R, 0, 2, 4), (R, 0, 1, 4), (R, 0, 0, 4), (A, 0, 3, 4)])]),
    format(VideoFormat::Argb, "ARGB", 8, U8, 1,
        &[group(FULL, &[(R, 0, 1, 4), (R, 0, 2, 4), (R, 0, 3, 4), (A, 0, 0, 4)])]),
    format(VideoFormat::Abgr, "ABGR", 8, U8, 1,
        &[group(FULL, &[(R, 0, 3, 4), (R, 0, 2, 4), (R, 0, 1, 4), (A, 0, 0, 4)])]),
    format(VideoFormat::Ayuv, "AYUV", 8, U8, 1,
        &[group(FULL, &[(Y, 0, 1, 4), (C, 0, 2, 4), (C, 0, 3, 4), (A, 0, 0, 4)])]),
    format(VideoFormat::Argb64, "ARGB64", 16, NATIVE, 1,
        &[group(FULL, &[(R, 0, 2, 8), (R, 0, 4, 8), (R, 0, 6, 8), (A, 0, 0, 8)])]),
    format(VideoFormat::Rgba64Le, "RGBA64_LE", 16, le(16), 1,
        &[group(FULL, &[(R, 0, 0, 8), (R, 0, 2, 8), (R, 0, 4, 8), (A, 0, 6, 8)])]),
    format(VideoFormat::Rgbp, "RGBP", 8, U8, 3,
        &[group(FULL, &[(R, 0, 0, 1), (R, 1, 0, 1), (R, 2, 0, 1)])]),
    format(VideoFormat::Gbr, "GBR", 8, U8, 3,
        &[group(FULL, &[(R, 2, 0, 1), (R, 0, 0, 1), (R, 1, 0, 1)])]),
    format(VideoFormat::A420, "A420", 8, U8, 4,
        &[group(FULL, &[(Y, 0, 0, 1)]), group(QUARTER, &[(C, 1, 0, 1)]), group(QUARTER, &[(C, 2, 0, 1)]),
          group(FULL, &[(A, 3, 0, 1)])]),
];
