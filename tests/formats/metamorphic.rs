//! What must hold between two runs, for any picture and whatever the definition says.

use gstcudaconv::filter::spec::{Alpha, Border, Kernel, Matrix, Planes};
use gstcudaconv::filter::{FilterSpec, Layout};
use proptest::prelude::*;

use super::random::{any_format, any_matrix, any_place, any_side, for_all};
use super::support::*;

/// Kernels whose results are whole numbers by a divisor of few bits, and which keep constants.
const KEEPING: [Kernel; 11] = [
    Kernel::Identity,
    Kernel::Box3,
    Kernel::Box5,
    Kernel::Box7,
    Kernel::Gauss3,
    Kernel::Gauss5,
    Kernel::Gauss7,
    Kernel::Gauss9,
    Kernel::Sharpen,
    Kernel::Emboss,
    Kernel::Unsharp,
];

fn cases(cpu: u32) -> u32 {
    if engine().backend() == "cpu" {
        cpu
    } else {
        cpu / 3
    }
}

fn custom(matrix: Matrix) -> FilterSpec {
    FilterSpec {
        kernel: Kernel::Custom,
        matrix: Some(matrix),
        alpha: Alpha::Filter,
        planes: Planes::All,
        ..FilterSpec::default()
    }
}

fn keeping() -> impl Strategy<Value = FilterSpec> {
    let borders = vec![
        Border::Replicate,
        Border::Reflect,
        Border::Reflect101,
        Border::Wrap,
    ];
    let kernel = prop::sample::select(KEEPING.to_vec());
    (kernel, prop::sample::select(borders)).prop_map(|(kernel, border)| FilterSpec {
        kernel,
        border,
        alpha: Alpha::Filter,
        planes: Planes::All,
        ..FilterSpec::default()
    })
}

#[test]
fn identity_is_a_copy_of_any_bytes() {
    let frames = (
        any_format(),
        any_side(),
        any_side(),
        any_place(),
        any_place(),
    );
    for_all(cases(90), frames, |(format, width, height, from, to)| {
        let layout = layout(format, width, height);
        let input = Picture::noise(&layout, from);
        let spec = FilterSpec {
            kernel: Kernel::Identity,
            border: Border::Constant,
            ..FilterSpec::default()
        };
        let result = run(&plan(&spec, &layout), &input, to, height % 2 == 1);
        assert!(input.active_bytes() == result.active_bytes());
    });
}

#[test]
fn constants_stay_whatever_the_filter_that_keeps_them() {
    let frames = (
        any_format(),
        any_side(),
        any_side(),
        keeping(),
        any::<u16>(),
    );
    for_all(cases(90), frames, |(format, width, height, spec, value)| {
        let layout = layout(format, width, height);
        let value = u32::from(value) & layout.max_code();
        let flat = Picture::new(&layout, Placement::Tight, |_, _, _| value);
        let result = run(&plan(&spec, &layout), &flat, Placement::Odd, false);
        for (_, group, channel) in components(&layout) {
            assert!(result.codes(group, channel).iter().all(|&c| c == value));
        }
    });
}

/// Samples of the grid of `group` per luma pixel.
fn moved(layout: &Layout, group: usize, (dx, dy): (u32, u32)) -> (usize, usize) {
    let (sx, sy) = layout.groups[group].subsampling;
    ((dx / sx) as usize, (dy / sy) as usize)
}

#[test]
fn a_picture_that_is_moved_round_gives_the_result_moved_round() {
    // Even sides and steps, so that chroma moves by whole samples.
    let side = || (1u32..50).prop_map(|half| 2 * half);
    let frames = (
        any_format(),
        side(),
        side(),
        any_matrix(),
        (0u32..40, 0u32..40),
        0u64..99,
    );
    for_all(
        cases(90),
        frames,
        |(format, width, height, matrix, by, seed)| {
            let layout = layout(format, width, height);
            let by = (2 * by.0 % width, 2 * by.1 % height);
            let spec = FilterSpec {
                border: Border::Wrap,
                ..custom(matrix)
            };
            let plan = plan(&spec, &layout);
            let scene = scene_of(layout.depth, seed);
            let still = Picture::new(&layout, Placement::Tight, &scene);
            let grids = components(&layout);
            let turned = Picture::new(&layout, Placement::Odd, |component, x, y| {
                let group = grids[component].1;
                let (dx, dy) = moved(&layout, group, by);
                let grid = &layout.groups[group];
                scene(component, (x + dx) % grid.width, (y + dy) % grid.height)
            });
            let still = run(&plan, &still, Placement::Tight, false);
            let turned = run(&plan, &turned, Placement::Tight, false);
            for &(_, group, channel) in &grids {
                let (dx, dy) = moved(&layout, group, by);
                let grid = &layout.groups[group];
                let (a, b) = (still.codes(group, channel), turned.codes(group, channel));
                for y in 0..grid.height {
                    for x in 0..grid.width {
                        let from = (y + dy) % grid.height * grid.width + (x + dx) % grid.width;
                        assert_eq!(b[y * grid.width + x], a[from], "({x}, {y})");
                    }
                }
            }
        },
    );
}

#[test]
fn sums_and_multiples_of_pictures_give_sums_and_multiples_of_results() {
    let weights = (0usize..2, 0usize..2).prop_flat_map(|(x, y)| {
        let (width, height) = (2 * x + 1, 2 * y + 1);
        prop::collection::vec(0u8..4, width * height).prop_map(move |weights| Matrix {
            width,
            height,
            coefficients: weights.into_iter().map(f32::from).collect(),
        })
    });
    // Zero levels of 0, and no sum beyond 255.
    let formats = prop::sample::select(vec![
        gst_video::VideoFormat::Gray8,
        gst_video::VideoFormat::Rgb,
        gst_video::VideoFormat::Argb,
        gst_video::VideoFormat::Gbr,
        gst_video::VideoFormat::Gray16Be,
    ]);
    let frames = (formats, any_side(), any_side(), weights, 0u64..99);
    for_all(
        cases(90),
        frames,
        |(format, width, height, matrix, seed)| {
            let layout = layout(format, width, height);
            let spec = FilterSpec {
                divisor: 1.0,
                border: Border::Reflect101,
                ..custom(matrix)
            };
            let plan = plan(&spec, &layout);
            let value = |n: u64, c: usize, x: usize, y: usize| {
                (hash(seed + 1000 * n + ((c as u64) << 40) + ((y as u64) << 20) + x as u64) % 4)
                    as u32
            };
            let result = |code: &dyn Fn(usize, usize, usize) -> u32| {
                let input = Picture::new(&layout, Placement::Odd, code);
                let result = run(&plan, &input, Placement::Tight, false);
                let channels = components(&layout).into_iter();
                channels
                    .flat_map(|(_, g, c)| result.codes(g, c))
                    .collect::<Vec<u32>>()
            };
            let a = result(&|c, x, y| value(1, c, x, y));
            let b = result(&|c, x, y| value(2, c, x, y));
            let both = result(&|c, x, y| value(1, c, x, y) + value(2, c, x, y));
            let double = result(&|c, x, y| 2 * value(1, c, x, y));
            for (index, (a, b)) in a.into_iter().zip(b).enumerate() {
                assert_eq!(
                    (both[index], double[index]),
                    (a + b, 2 * a),
                    "sample {index}"
                );
            }
        },
    );
}

#[test]
fn a_transposed_matrix_on_a_transposed_picture_gives_the_transposed_result() {
    // Whole numbers: the order of summation plays no part.
    let matrix = (0usize..3, 0usize..3).prop_flat_map(|(x, y)| {
        let (width, height) = (2 * x + 1, 2 * y + 1);
        prop::collection::vec(-9i8..10, width * height).prop_map(move |weights| Matrix {
            width,
            height,
            coefficients: weights.into_iter().map(f32::from).collect(),
        })
    });
    let formats = prop::sample::select(vec![
        gst_video::VideoFormat::Gray8,
        gst_video::VideoFormat::Bgra,
        gst_video::VideoFormat::Y444,
        gst_video::VideoFormat::I420,
        gst_video::VideoFormat::Y44410le,
    ]);
    let border = prop::sample::select(BORDERS.to_vec());
    let frames = (formats, any_side(), any_side(), matrix, border, 0u64..99);
    for_all(
        cases(90),
        frames,
        |(format, width, height, matrix, border, seed)| {
            let transposed = Matrix {
                width: matrix.height,
                height: matrix.width,
                coefficients: (0..matrix.width)
                    .flat_map(|i| (0..matrix.height).map(move |j| (i, j)))
                    .map(|(i, j)| matrix.coefficients[j * matrix.width + i])
                    .collect(),
            };
            let (upright, turned) = (layout(format, width, height), layout(format, height, width));
            let scene = scene_of(upright.depth, seed);
            let filtered = |layout, matrix, code: &dyn Fn(usize, usize, usize) -> u32| {
                let spec = FilterSpec {
                    border,
                    ..custom(matrix)
                };
                let input = Picture::new(layout, Placement::Tight, code);
                run(&plan(&spec, layout), &input, Placement::Odd, false)
            };
            let a = filtered(&upright, matrix, &scene);
            let b = filtered(&turned, transposed, &|c, x, y| scene(c, y, x));
            for (_, group, channel) in components(&upright) {
                let (width, height) = (upright.groups[group].width, upright.groups[group].height);
                let (a, b) = (a.codes(group, channel), b.codes(group, channel));
                for y in 0..height {
                    for x in 0..width {
                        assert_eq!(a[y * width + x], b[x * height + y], "({x}, {y})");
                    }
                }
            }
        },
    );
}

/// A filter that keeps constants sees no zero level: the same numbers as colours or as luma and
/// chroma give the same numbers.
#[test]
fn rgb_and_y444_of_the_same_numbers_give_the_same_numbers() {
    let rgb = prop::sample::select(vec![
        gst_video::VideoFormat::Rgb,
        gst_video::VideoFormat::Bgrx,
        gst_video::VideoFormat::Rgbp,
        gst_video::VideoFormat::Gbr,
    ]);
    let frames = (rgb, any_side(), any_side(), keeping(), 0u64..99);
    for_all(cases(90), frames, |(format, width, height, spec, seed)| {
        if spec.kernel == Kernel::Unsharp {
            // Its coefficients are no whole numbers.
            return;
        }
        let numbers = |format| {
            let layout = layout(format, width, height);
            let input = Picture::new(&layout, Placement::Odd, scene_of(8, seed));
            let result = run(&plan(&spec, &layout), &input, Placement::Tight, false);
            let channels = components(&layout).into_iter();
            channels
                .map(|(_, g, c)| result.codes(g, c))
                .collect::<Vec<_>>()
        };
        assert!(numbers(format) == numbers(gst_video::VideoFormat::Y444));
    });
}

/// Rows far from the edge know nothing of what lies beyond the kernel's reach.
#[test]
fn a_band_of_a_frame_gives_the_rows_of_the_whole() {
    let frames = (
        any_format(),
        any_side(),
        keeping(),
        (0u32..30, 1u32..30),
        0u64..99,
    );
    for_all(
        cases(90),
        frames,
        |(format, width, spec, (first, rows), seed)| {
            // The reach of the largest, on chroma of half the height.
            const HALO: u32 = 16;
            let whole = layout(format, width, 4 * HALO + 2 * (first + rows));
            let band = layout(format, width, 2 * HALO + 2 * rows);
            let top = 2 * first + HALO;
            let scene = scene_of(whole.depth, seed);
            let above = |group: usize| (top / whole.groups[group].subsampling.1) as usize;
            let grids = components(&whole);
            let all = Picture::new(&whole, Placement::Tight, &scene);
            let part = Picture::new(&band, Placement::Odd, |component, x, y| {
                scene(component, x, y + above(grids[component].1))
            });
            let all = run(&plan(&spec, &whole), &all, Placement::Tight, false);
            let part = run(&plan(&spec, &band), &part, Placement::Tight, false);
            for &(_, group, channel) in &grids {
                let grid = &band.groups[group];
                let (a, b) = (all.codes(group, channel), part.codes(group, channel));
                let halo = (HALO / grid.subsampling.1) as usize;
                for y in halo..grid.height - halo {
                    let (from, to) = ((y + above(group)) * grid.width, y * grid.width);
                    assert!(a[from..][..grid.width] == b[to..][..grid.width], "row {y}");
                }
            }
        },
    );
}
