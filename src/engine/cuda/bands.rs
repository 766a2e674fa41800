//! A frame in bands: while the next rows are on their way to the device, those that are there are
//! filtered and sent back. That halves the time of a frame that is alone, and costs more calls of
//! the driver; frames that follow each other closely overlap without it.

use std::ops::Range;

use super::context::Rows;
use super::launch::Part;
use super::transfer::{Arrangement, DevicePlane, Transfer};
use crate::filter::Layout;

/// Bytes of a frame for which another band is worth its calls.
pub const BAND_BYTES: usize = 1_000_000;
/// Most bands, and most of a frame of less than [`LARGE`].
pub const MOST: usize = 8;
const MOST_OF_SMALL: usize = 4;
const LARGE: usize = 16;

/// In how many bands a frame of `bytes` is done fastest, where one of `band_bytes` is worth it.
pub fn count(bytes: usize, band_bytes: usize) -> usize {
    match bytes / band_bytes.max(1) {
        0 => 1,
        bands if bands < LARGE => bands.min(MOST_OF_SMALL),
        _ => MOST,
    }
}

/// What is done once the copies of a band are there.
#[derive(Debug, Default)]
pub struct Band {
    pub uploads: Vec<Transfer>,
    /// Tiles of the parts with these indices.
    pub tiles: Vec<(usize, Range<u32>)>,
    pub downloads: Vec<Transfer>,
}

/// Divides the work on a frame of `layout` into `count` bands of about as many bytes each: every
/// transfer and every tile belongs to one of them, whose own uploads and those of the ones before it
/// are all that it needs.
pub fn divide(
    count: usize,
    layout: &Layout,
    parts: &[Part],
    input: &Arrangement,
    output: &Arrangement,
) -> Vec<Band> {
    let end = input.transfers.last().map_or(0, end_on_device);
    let (mut uploaded, mut downloaded) = (0, 0);
    let mut tiles_done = vec![0; parts.len()];
    let mut bands = Vec::with_capacity(count);
    for number in 1..=count {
        let until = match number == count {
            true => end,
            // Copies are fastest from and to whole pages.
            false => (end * number / count).next_multiple_of(4096).min(end),
        };
        let mut band = Band {
            uploads: cut(&input.transfers, uploaded..until),
            ..Band::default()
        };
        uploaded = until;
        let there = rows_there(layout, &input.planes, until);
        let mut done: Vec<usize> = layout.planes.iter().map(|plane| plane.rows).collect();
        for (index, part) in parts.iter().enumerate() {
            let ready = part.tiles_ready(&there);
            if ready > tiles_done[index] {
                band.tiles.push((index, tiles_done[index]..ready));
                tiles_done[index] = ready;
            }
            for &plane in part.planes() {
                done[plane] = done[plane].min(part.rows_of(ready));
            }
        }
        let until = end_of_rows(layout, &output.planes, &done);
        band.downloads = cut(&output.transfers, downloaded..until);
        downloaded = downloaded.max(until);
        bands.push(band);
    }
    bands
}

fn end_on_device(transfer: &Transfer) -> usize {
    let rows = transfer.rows;
    transfer.device + rows.device_stride * (rows.rows - 1) + rows.bytes
}

/// Rows of each plane that lie wholly before `until`.
fn rows_there(layout: &Layout, planes: &[DevicePlane], until: usize) -> Vec<usize> {
    (layout.planes.iter().zip(planes))
        .map(|(size, plane)| {
            let of_first = plane.offset + size.row_bytes;
            match until.checked_sub(of_first) {
                None => 0,
                Some(beyond) => (beyond / plane.stride + 1).min(size.rows),
            }
        })
        .collect()
}

/// The byte behind the planes, in their order on the device, as far as their first rows are `done`.
fn end_of_rows(layout: &Layout, planes: &[DevicePlane], done: &[usize]) -> usize {
    let mut end = 0;
    for ((size, plane), &rows) in layout.planes.iter().zip(planes).zip(done) {
        if rows > 0 {
            end = plane.offset + plane.stride * (rows - 1) + size.row_bytes;
        }
        if rows < size.rows {
            break;
        }
    }
    end
}

/// What of `transfers` ends in `part` of device memory: bytes of those in one row, else whole rows.
fn cut(transfers: &[Transfer], part: Range<usize>) -> Vec<Transfer> {
    let mut made = Vec::new();
    for transfer in transfers {
        let rows = transfer.rows;
        let piece = if rows.rows == 1 {
            let from = part.start.saturating_sub(transfer.device).min(rows.bytes);
            let to = part.end.saturating_sub(transfer.device).min(rows.bytes);
            let bytes = to.saturating_sub(from);
            (bytes > 0).then(|| Transfer {
                host: transfer.host.wrapping_add(from),
                device: transfer.device + from,
                rows: Rows {
                    bytes,
                    host_stride: bytes,
                    device_stride: bytes,
                    ..rows
                },
            })
        } else {
            let ended_by = |end: usize| match end.checked_sub(transfer.device + rows.bytes) {
                None => 0,
                Some(beyond) => (beyond / rows.device_stride + 1).min(rows.rows),
            };
            let (from, to) = (ended_by(part.start), ended_by(part.end));
            (to > from).then(|| Transfer {
                host: transfer.host.wrapping_add(from * rows.host_stride),
                device: transfer.device + from * rows.device_stride,
                rows: Rows {
                    rows: to - from,
                    ..rows
                },
            })
        };
        made.extend(piece);
    }
    made
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use gst_video::VideoFormat;

    use super::*;
    use crate::engine::cuda::ABILITIES;
    use crate::engine::cuda::launch::{Launches, Placed};
    use crate::engine::cuda::transfer::{HostPlane, Padding, direct};
    use crate::filter::plan::Plan;
    use crate::filter::spec::{Border, FilterSpec, Kernel};

    #[test]
    fn the_number_of_bands_grows_with_the_frame() {
        let count = |bytes| count(bytes, BAND_BYTES);
        assert_eq!(count(640 * 480), 1);
        assert_eq!(count(1920 * 1080), 2);
        assert_eq!(count(1920 * 1080 * 3 / 2), 3);
        assert_eq!(count(1920 * 1080 * 4), 4);
        assert_eq!(count(3840 * 2160 * 4), 8);
        assert_eq!(super::count(1000, 0), MOST);
    }

    fn plan(format: VideoFormat, (width, height): (u32, u32), spec: &FilterSpec) -> Arc<Plan> {
        gst::init().unwrap();
        let info = gst_video::VideoInfo::builder(format, width, height);
        let layout = Arc::new(Layout::new(&info.build().unwrap()).unwrap());
        Arc::new(Plan::new(spec, &layout, &ABILITIES).unwrap())
    }

    /// Planes one behind the other with `row_gap` bytes behind each row.
    fn host(layout: &Layout, row_gap: usize) -> Vec<HostPlane> {
        let len: usize = (layout.planes.iter())
            .map(|size| (size.row_bytes + row_gap) * size.rows)
            .sum();
        let mut offset = 0;
        (layout.planes.iter())
            .map(|size| {
                let stride = size.row_bytes + row_gap;
                let plane = HostPlane {
                    start: (4096 + offset) as *mut u8,
                    len: len - offset,
                    stride,
                };
                offset += stride * size.rows;
                plane
            })
            .collect()
    }

    /// The pieces of both, as bytes on the device with their place on the host.
    fn bytes(transfers: &[Transfer]) -> Vec<(usize, usize)> {
        let rows = transfers.iter().flat_map(|transfer| {
            let rows = transfer.rows;
            (0..rows.rows).map(move |row| (transfer, row))
        });
        rows.flat_map(|(transfer, row)| {
            let device = transfer.device + row * transfer.rows.device_stride;
            let host = transfer.host as usize + row * transfer.rows.host_stride;
            (0..transfer.rows.bytes).map(move |byte| (device + byte, host + byte))
        })
        .collect()
    }

    #[test]
    fn every_byte_and_every_tile_is_in_one_band_and_has_what_it_needs() {
        let spec = FilterSpec {
            kernel: Kernel::Gauss5,
            ..FilterSpec::default()
        };
        let formats = [
            VideoFormat::Gray8,
            VideoFormat::Nv12,
            VideoFormat::I42010le,
            VideoFormat::Rgb,
            VideoFormat::Yuy2,
            VideoFormat::A420,
        ];
        for (format, row_gap, of) in formats
            .into_iter()
            .flat_map(|format| [0, 3, 16, 300].map(|gap| (format, gap)))
            .flat_map(|(format, gap)| [1, 2, 3, 8].map(|count| (format, gap, count)))
        {
            let plan = plan(format, (66, 140), &spec);
            let launches = Launches::new(&plan, (9, 0)).unwrap();
            let layout = &plan.layout;
            let planes = host(layout, row_gap);
            let input = direct(layout, &planes, Padding::Included).unwrap();
            let output = direct(layout, &planes, Padding::Excluded).unwrap();
            let placed = |planes| Placed {
                start: 1 << 30,
                planes,
            };
            assert!(launches.suit_bands());
            let parts = launches.parts(placed(&input.planes), placed(&output.planes));
            let bands = divide(of, layout, &parts, &input, &output);
            let what = format!("{format:?} {row_gap} {of}");
            assert_eq!(bands.len(), of, "{what}");
            let all = |of: fn(&Band) -> &Vec<Transfer>| -> Vec<_> {
                bands.iter().flat_map(|band| bytes(of(band))).collect()
            };
            assert_eq!(all(|band| &band.uploads), bytes(&input.transfers), "{what}");
            assert_eq!(
                all(|band| &band.downloads),
                bytes(&output.transfers),
                "{what}"
            );
            let mut uploaded = std::collections::HashSet::new();
            let mut done = vec![0; parts.len()];
            for band in &bands {
                uploaded.extend(bytes(&band.uploads).into_iter().map(|(device, _)| device));
                for (index, tiles) in &band.tiles {
                    let part = &parts[*index];
                    assert_eq!(tiles.start, done[*index], "{what}");
                    done[*index] = tiles.end;
                    let rows = part.rows_of(tiles.end) + 2;
                    for &plane in part.planes() {
                        let (place, size) = (input.planes[plane], layout.planes[plane]);
                        let last = place.offset + (rows.min(size.rows) - 1) * place.stride;
                        for byte in [last, last + size.row_bytes - 1] {
                            assert!(uploaded.contains(&byte), "{what}: {rows} rows of {plane}");
                        }
                    }
                }
                for (device, _) in bytes(&band.downloads) {
                    let plane = (output.planes.iter())
                        .rposition(|plane| plane.offset <= device)
                        .unwrap();
                    let row = (device - output.planes[plane].offset) / output.planes[plane].stride;
                    let behind = parts.iter().zip(&done).filter(|(part, tiles)| {
                        part.planes().contains(&plane) && part.rows_of(**tiles) <= row
                    });
                    assert_eq!(behind.count(), 0, "{what}: row {row} of plane {plane}");
                }
            }
            let all: Vec<usize> = layout.planes.iter().map(|size| size.rows).collect();
            for (part, tiles) in parts.iter().zip(&done) {
                assert_eq!(*tiles, part.tiles_ready(&all), "{what}");
            }
        }
    }

    #[test]
    fn a_frame_whose_first_rows_need_its_last_has_no_bands() {
        let spec = FilterSpec {
            border: Border::Wrap,
            ..FilterSpec::default()
        };
        let plan = plan(VideoFormat::Gray8, (64, 64), &spec);
        assert!(!Launches::new(&plan, (9, 0)).unwrap().suit_bands());
    }
}
