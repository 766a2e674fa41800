//! Kernels of 3 x 3 small whole numbers: the GPU's bytes are the CPU's, also where results are out of range.

use gst_video::VideoFormat;
use gstcudaconv::filter::FilterSpec;
use gstcudaconv::filter::spec::{Alpha, Border, Kernel, Planes};

use crate::compare::{Frames, Tally, compare_by};
use crate::support::{self, all_of, engines};

/// Weights that are outer products of lines of three, some of them like that of `gauss3`, and weights that are not.
const MATRICES: [&str; 7] = [
    "1 2 1; 2 4 2; 1 2 1",
    "1 0 1; 6 0 6; 1 0 1",
    "1 6 1; 0 0 0; 1 6 1",
    "1 1 1; 3 3 3; 1 1 1",
    "-1 2 1; 3 -2 1; -3 1 2",
    "0 -2 0; -2 8 -2; 0 -2 0",
    "0 0 0; 0 -16 0; 0 0 0",
];

#[test]
fn small_whole_weights_with_any_divisor_and_bias() {
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
        VideoFormat::Ayuv,
    ];
    let mut turn = 0;
    for format in formats {
        for (width, height) in [(1, 1), (16, 3), (53, 17), (530, 9)] {
            let layout = support::layout(format, width, height);
            for matrix in MATRICES {
                for divisor in [0.0, 1.0, -4.0, 16.0, 1024.0, 7.0] {
                    turn += 1;
                    if support::quick() && turn % 13 != 0 {
                        continue;
                    }
                    let spec = FilterSpec {
                        kernel: Kernel::Custom,
                        matrix: matrix.parse().ok(),
                        divisor,
                        bias: [0.0, 20.0, -33.0, 0.5, 128.0][turn % 5],
                        border: borders[turn % borders.len()],
                        border_value: 201.0,
                        planes: [Planes::Auto, Planes::Luma, Planes::All][turn % 3],
                        alpha: [Alpha::Copy, Alpha::Filter][turn % 2],
                        ..FilterSpec::default()
                    };
                    let frames = Frames::of_auto(turn % 3 == 0);
                    compare_by(&mut tally, &engines, &spec, &layout, frames);
                }
            }
        }
    }
    tally.report("small whole weights");
}
