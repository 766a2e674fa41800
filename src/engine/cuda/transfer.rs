//! Where the planes of a frame lie in device memory, and which copies bring them there and back.
//!
//! A copy costs the host 2 µs to ask for, so planes that follow each other in memory travel in
//! one, with the padding between them: upwards whatever it holds, downwards only where there is
//! none, because bytes that are not the picture's are not ours to write.

use super::abi::ROW_ALIGNMENT;
use super::context::Rows;
use crate::filter::Layout;
use crate::filter::layout::PlaneSize;

/// Where rows of device memory begin that are not copied as they lie in host memory.
const PITCH: usize = 256;
/// The most bytes between two planes that are copied along (decoders pad the height to 16 or 32
/// rows).
const MOST_GAP: usize = 64 * 1024;
/// Bytes of a frame that are copied at a time between foreign and pinned memory, at least.
const SMALLEST_CHUNK: usize = 128 * 1024;
/// Chunks of a frame, at most: each is a copy of its own for the driver.
const MOST_CHUNKS: usize = 8;

/// A plane in host memory.
#[derive(Debug, Clone, Copy)]
pub struct HostPlane {
    /// The first byte of the first row. Planes of an input are never written.
    pub start: *mut u8,
    /// Bytes from there that are the frame's to use.
    pub len: usize,
    /// Bytes from one row to the next.
    pub stride: usize,
}

/// A plane in device memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DevicePlane {
    /// Bytes from the start of the frame's device memory.
    pub offset: usize,
    /// Bytes from one row to the next.
    pub stride: usize,
}

/// A copy between host and device.
#[derive(Debug, Clone, Copy)]
pub struct Transfer {
    pub host: *mut u8,
    /// Bytes from the start of the frame's device memory.
    pub device: usize,
    pub rows: Rows,
}

/// The planes on the device and the copies between there and host memory.
#[derive(Debug, Default)]
pub struct Arrangement {
    pub planes: Vec<DevicePlane>,
    pub transfers: Vec<Transfer>,
}

/// What may be copied besides the picture.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Padding {
    /// Reading it does no harm.
    Included,
    /// Writing it might.
    Excluded,
}

/// Bytes of device memory that hold a frame of `layout`, however it lies in host memory.
pub fn device_bytes(layout: &Layout) -> usize {
    (layout.planes.iter())
        .map(|size| size.row_bytes.next_multiple_of(PITCH) * size.rows + MOST_GAP)
        .sum()
}

/// Bytes from the first to the last of a plane's picture.
fn extent(size: &PlaneSize, stride: usize) -> usize {
    stride * (size.rows - 1) + size.row_bytes
}

/// The copies of a frame straight from or to where it lies. `None` if a plane is shorter than the
/// layout needs, which the frame's makers exclude.
pub fn direct(layout: &Layout, host: &[HostPlane], padding: Padding) -> Option<Arrangement> {
    let mut made = Arrangement::default();
    // Bytes after the start of the last transfer's plane that are the frame's, if it is a run that
    // the next plane may join.
    let mut open_run: Option<usize> = None;
    let mut end = 0usize;
    for (size, plane) in layout.planes.iter().zip(host) {
        let bytes = extent(size, plane.stride);
        if bytes > plane.len || host.len() != layout.planes.len() {
            return None;
        }
        if !travels_as_it_lies(size, plane.stride, padding) {
            let stride = size.row_bytes.next_multiple_of(PITCH);
            let offset = end.next_multiple_of(PITCH);
            made.planes.push(DevicePlane { offset, stride });
            made.transfers.push(Transfer {
                host: plane.start,
                device: offset,
                rows: Rows {
                    bytes: size.row_bytes,
                    rows: size.rows,
                    host_stride: plane.stride,
                    device_stride: stride,
                },
            });
            open_run = None;
            end = offset + stride * size.rows;
            continue;
        }
        let joined = (open_run.zip(made.transfers.last_mut()))
            .and_then(|(available, run)| join(run, available, plane, bytes, padding));
        let offset = joined.unwrap_or_else(|| {
            let offset = end.next_multiple_of(PITCH);
            made.transfers.push(Transfer {
                host: plane.start,
                device: offset,
                rows: run_of(bytes),
            });
            open_run = Some(plane.len);
            offset
        });
        made.planes.push(DevicePlane {
            offset,
            stride: plane.stride,
        });
        end = offset + bytes;
    }
    debug_assert!(end <= device_bytes(layout));
    Some(made)
}

/// Whether a plane is copied in one piece, keeping its stride.
fn travels_as_it_lies(size: &PlaneSize, stride: usize, padding: Padding) -> bool {
    let padded = match padding {
        Padding::Included => stride <= size.row_bytes.next_multiple_of(PITCH),
        Padding::Excluded => stride == size.row_bytes,
    };
    size.rows == 1 || (stride.is_multiple_of(ROW_ALIGNMENT) && padded)
}

/// Lengthens `run` by a plane that follows it within the same memory; returns its place on the
/// device.
fn join(
    run: &mut Transfer,
    available: usize,
    plane: &HostPlane,
    bytes: usize,
    padding: Padding,
) -> Option<usize> {
    let distance = (plane.start as usize).checked_sub(run.host as usize)?;
    let gap = distance.checked_sub(run.rows.bytes)?;
    let most_gap = match padding {
        Padding::Included => MOST_GAP,
        Padding::Excluded => 0,
    };
    let fits = distance.checked_add(bytes)? <= available;
    if gap > most_gap || !fits || !distance.is_multiple_of(ROW_ALIGNMENT) {
        return None;
    }
    run.rows = run_of(distance + bytes);
    Some(run.device + distance)
}

fn run_of(bytes: usize) -> Rows {
    Rows {
        bytes,
        rows: 1,
        host_stride: bytes,
        device_stride: bytes,
    }
}

/// A frame's way through pinned memory, which is arranged as device memory is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Staging {
    pub planes: Vec<DevicePlane>,
    /// Bytes of pinned memory.
    pub bytes: usize,
    /// Parts of the frame in order, each of which travels in one copy.
    pub chunks: Vec<Chunk>,
}

/// Rows that lie together in pinned memory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Chunk {
    /// Plane, first row and number of rows.
    pub rows: Vec<(usize, usize, usize)>,
    /// First byte in pinned and device memory.
    pub start: usize,
    pub bytes: usize,
}

impl Staging {
    pub fn new(layout: &Layout) -> Staging {
        let mut planes = Vec::new();
        let mut bytes = 0usize;
        for size in &layout.planes {
            let plane = DevicePlane {
                offset: bytes.next_multiple_of(PITCH),
                stride: size.row_bytes.next_multiple_of(ROW_ALIGNMENT),
            };
            bytes = plane.offset + extent(size, plane.stride);
            planes.push(plane);
        }
        debug_assert!(bytes <= device_bytes(layout));
        let chunks = chunks(layout, &planes, bytes);
        Staging {
            planes,
            bytes,
            chunks,
        }
    }
}

/// Cuts a frame into parts of about equal size, between rows.
fn chunks(layout: &Layout, planes: &[DevicePlane], bytes: usize) -> Vec<Chunk> {
    let wanted = bytes.div_ceil(MOST_CHUNKS).max(SMALLEST_CHUNK);
    let mut chunks: Vec<Chunk> = Vec::new();
    for (index, (size, plane)) in layout.planes.iter().zip(planes).enumerate() {
        let mut row = 0;
        while row < size.rows {
            if chunks.last().is_none_or(|chunk| chunk.bytes >= wanted) {
                chunks.push(Chunk {
                    rows: Vec::new(),
                    start: plane.offset + row * plane.stride,
                    bytes: 0,
                });
            }
            let Some(chunk) = chunks.last_mut() else {
                break;
            };
            let missing = wanted.saturating_sub(chunk.bytes);
            let rows = missing.div_ceil(plane.stride).clamp(1, size.rows - row);
            chunk.rows.push((index, row, rows));
            row += rows;
            let last = plane.offset + (row - 1) * plane.stride + size.row_bytes;
            chunk.bytes = last - chunk.start;
        }
    }
    chunks
}

#[cfg(test)]
mod tests {
    use super::*;

    fn layout(format: gst_video::VideoFormat, width: u32, height: u32) -> Layout {
        gst::init().unwrap();
        let info = gst_video::VideoInfo::builder(format, width, height);
        Layout::new(&info.build().unwrap()).unwrap()
    }

    /// Planes of a buffer of `len` bytes at address 4096, at these offsets and strides.
    fn planes(len: usize, places: &[(usize, usize)]) -> Vec<HostPlane> {
        (places.iter())
            .map(|&(offset, stride)| HostPlane {
                start: (4096 + offset) as *mut u8,
                len: len - offset,
                stride,
            })
            .collect()
    }

    fn shape(made: &Arrangement) -> Vec<(usize, usize, usize, usize)> {
        (made.transfers.iter())
            .map(|t| (t.host as usize - 4096, t.device, t.rows.bytes, t.rows.rows))
            .collect()
    }

    #[test]
    fn a_frame_without_gaps_travels_in_one_copy_both_ways() {
        let layout = layout(gst_video::VideoFormat::Nv12, 1920, 1080);
        let size = 1920 * 1080 * 3 / 2;
        let host = planes(size, &[(0, 1920), (1920 * 1080, 1920)]);
        for padding in [Padding::Included, Padding::Excluded] {
            let made = direct(&layout, &host, padding).unwrap();
            assert_eq!(shape(&made), [(0, 0, size, 1)], "{padding:?}");
            assert_eq!(made.planes[1].offset, 1920 * 1080);
        }
    }

    #[test]
    fn a_decoders_padding_is_uploaded_along_but_never_written() {
        let layout = layout(gst_video::VideoFormat::Nv12, 1920, 1080);
        let second = 1920 * 1088;
        let host = planes(second + 1920 * 544, &[(0, 1920), (second, 1920)]);
        let up = direct(&layout, &host, Padding::Included).unwrap();
        assert_eq!(shape(&up), [(0, 0, second + 1920 * 540, 1)]);
        let down = direct(&layout, &host, Padding::Excluded).unwrap();
        assert_eq!(
            shape(&down),
            [(0, 0, 1920 * 1080, 1), (second, 1920 * 1080, 1920 * 540, 1)]
        );
    }

    #[test]
    fn rows_of_odd_strides_are_aligned_on_the_device() {
        let layout = layout(gst_video::VideoFormat::I420, 33, 17);
        let host = planes(1872, &[(0, 36), (648, 20), (828, 20)]);
        for padding in [Padding::Included, Padding::Excluded] {
            let made = direct(&layout, &host, padding).unwrap();
            assert_eq!(
                shape(&made),
                [
                    (0, 0, 33, 17),
                    (648, 17 * 256, 17, 9),
                    (828, 26 * 256, 17, 9)
                ]
            );
            assert!(made.planes.iter().all(|plane| plane.stride == 256));
        }
    }

    #[test]
    fn planes_side_by_side_in_rows_are_copied_row_by_row() {
        // U and V share rows: U in the left half of each, V in the right.
        let layout = layout(gst_video::VideoFormat::I420, 64, 64);
        let host = planes(64 * 96, &[(0, 64), (4096, 64), (4128, 64)]);
        let down = direct(&layout, &host, Padding::Excluded).unwrap();
        assert_eq!(
            shape(&down),
            [
                (0, 0, 4096, 1),
                (4096, 4096, 32, 32),
                (4128, 4096 + 32 * 256, 32, 32)
            ]
        );
    }

    #[test]
    fn planes_of_other_memories_or_out_of_order_are_copied_apart() {
        let layout = layout(gst_video::VideoFormat::I420, 64, 64);
        let mut host = planes(6144, &[(0, 64), (4096, 32), (5120, 32)]);
        host[0].len = 4096;
        let made = direct(&layout, &host, Padding::Included).unwrap();
        assert_eq!(shape(&made), [(0, 0, 4096, 1), (4096, 4096, 2048, 1)]);
        let swapped = planes(6144, &[(0, 64), (5120, 32), (4096, 32)]);
        let made = direct(&layout, &swapped, Padding::Included).unwrap();
        assert_eq!(made.transfers.len(), 2);
    }

    #[test]
    fn no_transfer_leaves_the_memory_on_either_side() {
        for format in crate::filter::layout::supported_formats() {
            for (width, height) in [(1, 1), (3, 3), (33, 17), (322, 241), (404, 716)] {
                let layout = layout(format, width, height);
                let info = gst_video::VideoInfo::builder(format, width, height);
                let info = info.build().unwrap();
                let places: Vec<(usize, usize)> = (info.offset().iter())
                    .zip(info.stride())
                    .map(|(&offset, &stride)| (offset, stride as usize))
                    .collect();
                for padding in [Padding::Included, Padding::Excluded] {
                    let host = planes(info.size(), &places);
                    let made = direct(&layout, &host, padding).unwrap();
                    let mut free = 0;
                    for t in &made.transfers {
                        let host = t.host as usize - 4096;
                        let last = t.rows.rows - 1;
                        assert!(host + last * t.rows.host_stride + t.rows.bytes <= info.size());
                        assert!(t.device >= free, "{format:?}");
                        free = t.device + last * t.rows.device_stride + t.rows.bytes;
                    }
                    assert!(free <= device_bytes(&layout), "{format:?}");
                    assert!(made.planes.iter().all(|p| p.offset % ROW_ALIGNMENT == 0));
                }
            }
        }
    }

    #[test]
    fn planes_that_are_too_short_are_refused() {
        let layout = layout(gst_video::VideoFormat::Gray8, 64, 64);
        assert!(direct(&layout, &planes(4095, &[(0, 64)]), Padding::Included).is_none());
        assert!(direct(&layout, &planes(4096, &[(0, 64)]), Padding::Included).is_some());
    }

    #[test]
    fn chunks_hold_every_row_once_and_in_order() {
        for (format, width, height) in [
            (gst_video::VideoFormat::Rgba, 1920, 1080),
            (gst_video::VideoFormat::I420, 1919, 1079),
            (gst_video::VideoFormat::Gray8, 1, 1),
            (gst_video::VideoFormat::A420, 33, 17),
        ] {
            let layout = layout(format, width, height);
            let staging = Staging::new(&layout);
            assert!(staging.chunks.len() <= MOST_CHUNKS);
            let mut next = vec![0; layout.planes.len()];
            let mut end = 0;
            for chunk in &staging.chunks {
                assert!(chunk.start >= end);
                end = chunk.start + chunk.bytes;
                for &(plane, first, rows) in &chunk.rows {
                    assert_eq!(first, next[plane]);
                    next[plane] += rows;
                    let place = staging.planes[plane];
                    let bytes = layout.planes[plane].row_bytes;
                    assert!(place.offset + first * place.stride >= chunk.start);
                    assert!(place.offset + (first + rows - 1) * place.stride + bytes <= end);
                }
            }
            assert_eq!(end, staging.bytes);
            let rows: Vec<usize> = layout.planes.iter().map(|size| size.rows).collect();
            assert_eq!(next, rows);
        }
    }
}
