//! Separable kernels of fractions, down slabs of rows, and wide ones: the GPU's bytes are the CPU's.

use gst_video::VideoFormat;
use gstcudaconv::filter::FilterSpec;
use gstcudaconv::filter::spec::{Alpha, Border, Kernel, Planes};

use crate::compare::{Frames, Tally, compare_by};
use crate::support::{self, all_of, engines};

/// Every radius that has a kernel of its own, and some that are filled up; strips and slabs that end anywhere.
#[test]
fn fractions_of_every_radius() {
    let Some(engines) = engines() else { return };
    let mut tally = Tally::default();
    let borders = all_of::<Border>();
    let formats = [
        VideoFormat::Gray8,
        VideoFormat::Nv12,
        VideoFormat::I420,
        VideoFormat::Rgba,
        VideoFormat::Argb,
        VideoFormat::Bgr,
        VideoFormat::Gbr,
        VideoFormat::Yuy2,
        VideoFormat::Uyvy,
        VideoFormat::P01010le,
        VideoFormat::I42012le,
        VideoFormat::Gray16Be,
        VideoFormat::Argb64,
    ];
    let sizes = [
        (1, 1),
        (5, 17),
        (31, 33),
        (64, 48),
        (129, 2),
        (261, 79),
        (642, 50),
    ];
    let mut turn = 0;
    for format in formats {
        for (width, height) in sizes {
            let layout = support::layout(format, width, height);
            for radius in [1, 2, 3, 4, 6, 7, 8, 11, 16, 17, 26, 32] {
                turn += 1;
                if support::quick() && turn % 11 != 0 {
                    continue;
                }
                let spec = FilterSpec {
                    kernel: Kernel::Gauss,
                    radius,
                    sigma: f64::from(radius) * 0.4 + 0.1,
                    border: borders[turn % borders.len()],
                    border_value: 201.0,
                    // Divided by a power of two, by none, and not at all.
                    divisor: [0.0, 2.0, 1.7][turn % 3],
                    bias: [0.0, 0.25, -3.0][turn / 3 % 3],
                    planes: [Planes::Auto, Planes::Luma, Planes::All][turn % 3],
                    alpha: [Alpha::Copy, Alpha::Filter][turn % 2],
                    ..FilterSpec::default()
                };
                let interlaced = turn % 3 == 0;
                compare_by(
                    &mut tally,
                    &engines,
                    &spec,
                    &layout,
                    Frames::of_auto(interlaced),
                );
            }
        }
    }
    tally.report("separable fractions");
}

#[test]
fn gradients_that_are_divided() {
    let Some(engines) = engines() else { return };
    let mut tally = Tally::default();
    let borders = all_of::<Border>();
    for (turn, format) in [
        VideoFormat::Gray8,
        VideoFormat::Rgba,
        VideoFormat::Bgr,
        VideoFormat::Gbr,
    ]
    .into_iter()
    .enumerate()
    {
        let layout = support::layout(format, 261, 79);
        for (index, kernel) in [Kernel::Sobel, Kernel::Scharr].into_iter().enumerate() {
            for divisor in [2.0, 3.3] {
                let spec = FilterSpec {
                    kernel,
                    divisor,
                    bias: 0.5,
                    border: borders[(turn + index) % borders.len()],
                    border_value: 201.0,
                    ..FilterSpec::default()
                };
                compare_by(
                    &mut tally,
                    &engines,
                    &spec,
                    &layout,
                    Frames::of_auto(index == 1),
                );
            }
        }
    }
    tally.report("gradients that are divided");
}
