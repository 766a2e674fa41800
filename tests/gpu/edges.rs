//! Frames of every size around those at which words, blocks and tiles end: the GPU's bytes are the CPU's.

use std::sync::Arc;

use gstcudaconv::filter::spec::{Alpha, Border, Kernel};
use gstcudaconv::filter::{FilterSpec, Layout};

use crate::compare::{Frames, Tally, compare, compare_by};
use crate::support::{self, all_of, engines};

/// Calls `body` with a number and a layout of each format, width and height; with few where few stand for
/// many.
fn for_each_length(
    formats: &[gst_video::VideoFormat],
    widths: &[u32],
    heights: &[u32],
    mut body: impl FnMut(usize, &Arc<Layout>),
) {
    let mut turn = 0;
    for &format in formats {
        for &width in widths {
            for &height in heights {
                turn += 1;
                if !support::quick() || turn % 16 == 0 {
                    body(turn, &support::layout(format, width, height));
                }
            }
        }
    }
}

/// Edges of the kernels of 3 x 3 taps, which read and write 16 bytes at a time, 512 across a block.
#[test]
fn rows_of_any_length_of_the_smallest_kernels() {
    let Some(engines) = engines() else { return };
    let mut tally = Tally::default();
    let widths = [
        1, 2, 3, 5, 6, 8, 11, 15, 16, 17, 33, 127, 129, 171, 511, 513,
    ];
    let heights = [1, 2, 3, 8, 9];
    let kernels = [
        Kernel::Gauss3,
        Kernel::Sharpen,
        Kernel::Box3,
        Kernel::Sobel,
        Kernel::Emboss,
    ];
    let formats = [
        gst_video::VideoFormat::Gray8,
        gst_video::VideoFormat::Nv12,
        gst_video::VideoFormat::Rgb,
        gst_video::VideoFormat::Rgba,
        gst_video::VideoFormat::Bgrx,
        gst_video::VideoFormat::Gbr,
    ];
    for_each_length(&formats, &widths, &heights, |turn, layout| {
        for (index, border) in all_of::<Border>().into_iter().enumerate() {
            let spec = FilterSpec {
                kernel: kernels[(turn + index) % kernels.len()],
                border,
                border_value: 201.0,
                ..FilterSpec::default()
            };
            compare(&mut tally, &engines, &spec, layout, turn % 3 == 0, 0);
        }
    });
    tally.report("smallest kernels' edges");
}

/// Edges of the kernels of whole rows, of every width that a word or a tile can end at.
#[test]
fn rows_of_any_length_of_words_and_packed_422() {
    let Some(engines) = engines() else { return };
    let mut tally = Tally::default();
    let widths = [
        1, 2, 3, 4, 5, 7, 8, 9, 15, 16, 17, 31, 33, 63, 64, 65, 127, 128, 129, 255, 257, 513,
    ];
    let heights = [1, 2, 3, 16, 33, 65];
    let small = [
        Kernel::Gauss3,
        Kernel::Emboss,
        Kernel::Sobel,
        Kernel::Gauss5,
        Kernel::Gauss9,
    ];
    let specs = small.into_iter().map(|kernel| (kernel, 0));
    let specs = specs.chain((1..=9).map(|radius| (Kernel::Gauss, radius)));
    let specs: Vec<(Kernel, u32)> = specs.collect();
    let borders = all_of::<Border>();
    let formats = [
        gst_video::VideoFormat::P01010le,
        gst_video::VideoFormat::I42012le,
        gst_video::VideoFormat::Gray16Be,
        gst_video::VideoFormat::Rgba64Le,
        gst_video::VideoFormat::Argb64,
        gst_video::VideoFormat::Yuy2,
        gst_video::VideoFormat::Uyvy,
    ];
    for_each_length(&formats, &widths, &heights, |turn, layout| {
        for (index, &(kernel, radius)) in specs.iter().enumerate() {
            let spec = FilterSpec {
                kernel,
                radius,
                border: borders[(turn + index) % borders.len()],
                border_value: 201.0,
                ..FilterSpec::default()
            };
            let frames = Frames::of_auto(turn % 3 == 0);
            compare_by(&mut tally, &engines, &spec, layout, frames);
        }
    });
    tally.report("edges of whole rows");
}

/// Edges of strips: the last column, and those that are computed from others beyond the edges.
#[test]
fn rows_of_any_length_of_means() {
    let Some(engines) = engines() else { return };
    let mut tally = Tally::default();
    let widths = [1, 2, 7, 31, 64, 191, 193, 240, 241, 256, 257, 500];
    let heights = [1, 3, 16, 33, 64, 131];
    let radii = [2, 5, 7, 8, 9, 15, 16, 24, 31, 32];
    let borders = all_of::<Border>();
    let formats = [
        gst_video::VideoFormat::Gray8,
        gst_video::VideoFormat::Nv12,
        gst_video::VideoFormat::Rgb,
        gst_video::VideoFormat::Rgba,
        gst_video::VideoFormat::Xrgb,
        gst_video::VideoFormat::Gbr,
        gst_video::VideoFormat::P01010le,
        gst_video::VideoFormat::I42012le,
        gst_video::VideoFormat::Gray16Le,
        gst_video::VideoFormat::Gray16Be,
    ];
    for_each_length(&formats, &widths, &heights, |turn, layout| {
        for (index, &border) in borders.iter().enumerate() {
            let spec = FilterSpec {
                kernel: Kernel::Box,
                radius: radii[(turn + 3 * index) % radii.len()],
                border,
                border_value: 201.0,
                alpha: match turn % 2 {
                    0 => Alpha::Copy,
                    _ => Alpha::Filter,
                },
                ..FilterSpec::default()
            };
            let frames = Frames::of_auto(turn % 3 == 0);
            compare_by(&mut tally, &engines, &spec, layout, frames);
        }
    });
    tally.report("edges of means");
}

/// Edges of blocks and tiles: every residue of width and height.
#[test]
fn every_size_up_to_a_few_tiles() {
    let Some(engines) = engines() else { return };
    let mut tally = Tally::default();
    let sides = [
        1, 2, 3, 4, 7, 8, 9, 15, 16, 17, 31, 32, 33, 63, 64, 65, 127, 128, 129,
    ];
    for format in [
        gst_video::VideoFormat::Nv12,
        gst_video::VideoFormat::Bgr,
        gst_video::VideoFormat::Yuy2,
    ] {
        for &width in &sides {
            for &height in &sides {
                if support::quick() && (width + height) % 5 != 0 {
                    continue;
                }
                let layout = support::layout(format, width, height);
                for (kernel, tolerance) in [
                    (Kernel::Gauss7, 0),
                    (Kernel::Emboss, 0),
                    (Kernel::Bilateral, 1),
                ] {
                    let spec = FilterSpec {
                        kernel,
                        radius: if tolerance == 1 { 3 } else { 0 },
                        border: Border::Reflect101,
                        ..FilterSpec::default()
                    };
                    compare(&mut tally, &engines, &spec, &layout, false, tolerance);
                }
            }
        }
    }
    tally.report("every size");
}
