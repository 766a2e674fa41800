//! Pixel formats as groups of channels on sampling grids: one row of data per format.

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
    /// The `x` of RGBx: copied.
    Padding,
}

/// How one sample is stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Sample {
    U8,
    /// Two bytes, little-endian; the code value is `word >> shift` (P010 has shift 6).
    U16Le {
        shift: u8,
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
/// packed or planar, with their alpha; U and V where they are interleaved; else one component.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Group {
    pub channels: Vec<Channel>,
    /// Luma pixels per sample, horizontally and vertically (1 or 2).
    pub subsampling: (u32, u32),
    /// Samples per row.
    pub width: usize,
    /// Rows of the whole frame (both fields).
    pub height: usize,
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
    pub groups: Vec<Group>,
    pub planes: Vec<PlaneSize>,
}

impl Layout {
    /// The largest code value, `2^depth - 1`.
    pub fn max_code(&self) -> u32 {
        (1 << self.depth) - 1
    }
}
