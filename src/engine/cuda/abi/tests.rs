//! The interface against its header, and the geometry of launches.

use super::copy::CopyLaunch;
use super::*;
use std::mem::{offset_of, size_of};

/// Terms of a separable kernel at most, as in `filter::terms`.
const MOST_TERMS: usize = 4;
const HEADER: &str = include_str!("../../../../kernels/abi.h");

/// The value of `#define CUDACONV_name value` in the header.
fn defined(name: &str) -> usize {
    let line = (HEADER.lines())
        .find_map(|line| line.strip_prefix("#define CUDACONV_")?.strip_prefix(name))
        .filter(|rest| rest.starts_with(' '))
        .unwrap_or_else(|| panic!("the header defines no {name}"));
    let value = line.split_whitespace().next().expect("a value");
    value.parse().expect("a whole number")
}

/// Size, name of the last member and its offset as the header asserts them.
fn asserted(name: &str) -> (usize, &'static str, usize) {
    let start = format!("CUDACONV_LAYOUT(Cudaconv{name}, ");
    let line = HEADER.lines().find_map(|line| line.strip_prefix(&start));
    let line = line.unwrap_or_else(|| panic!("the header asserts nothing of {name}"));
    let parts: Vec<&str> = line.trim_end_matches(");").split(", ").collect();
    (
        parts[0].parse().unwrap(),
        parts[1],
        parts[2].parse().unwrap(),
    )
}

#[test]
fn structures_are_laid_out_as_the_header_asserts() {
    macro_rules! same {
        ($name:ident, $last:ident) => {
            assert_eq!(
                asserted(stringify!($name)),
                (
                    size_of::<$name>(),
                    stringify!($last),
                    offset_of!($name, $last)
                )
            );
        };
    }
    same!(Channel, fill);
    same!(Job, tiles_across);
    same!(Frame, tile_height);
    same!(Taps, first);
    same!(ConvolveLaunch, tolerance);
    same!(BilateralLaunch, inline_weights);
    same!(Direct3Plane, offset);
    same!(Direct3Launch, planes);
    same!(FastLaunch, weights);
    same!(CopyLaunch, bytes);
    assert_eq!(defined("TRANSPARENT"), TRANSPARENT);
    // All parameters of a kernel together.
    assert!(size_of::<BilateralLaunch>().max(size_of::<ConvolveLaunch>()) <= 4096);
}

#[test]
fn members_stand_in_the_order_of_the_header() {
    let members = |name: &str| -> Vec<String> {
        let body = HEADER
            .split_once(&format!("typedef struct Cudaconv{name} {{"))
            .unwrap()
            .1;
        let body = body.split_once(&format!("}} Cudaconv{name};")).unwrap().0;
        let mut code = String::new();
        let mut rest = body;
        while let Some((before, after)) = rest.split_once("/*") {
            code.push_str(before);
            rest = after.split_once("*/").expect("a comment that ends").1;
        }
        code.push_str(rest);
        let names = code.split(';').filter_map(|member| {
            let member = member.split('[').next()?;
            member.split_whitespace().last().map(str::to_owned)
        });
        names.collect()
    };
    macro_rules! same {
        ($name:ident { $($member:ident),* }) => {
            assert_eq!(members(stringify!($name)), [$(stringify!($member)),*]);
            let offsets = [$(offset_of!($name, $member)),*];
            assert!(offsets.is_sorted(), "{offsets:?}");
            // Nothing in Rust that the header lacks.
            #[allow(unused_variables)]
            let all = |value: $name| { let $name { $($member),* } = value; };
        };
    }
    same!(Channel {
        input,
        output,
        input_stride,
        output_stride,
        step,
        action,
        zero,
        offset,
        beyond,
        fill
    });
    same!(Job {
        channels,
        channel_count,
        width,
        height,
        packed,
        joint_or_filter,
        alpha,
        first_tile_row,
        tiles_across
    });
    same!(Frame {
        jobs,
        job_count,
        border,
        sample,
        shift,
        max_code,
        tile_height
    });
    same!(Taps {
        width,
        height,
        separable,
        first
    });
    same!(ConvolveLaunch {
        frame,
        weights,
        kernels,
        kernel_count,
        divisor,
        reciprocal,
        sum,
        inline_weights,
        digits,
        sum_of_digits,
        factor,
        tolerance
    });
    same!(Direct3Plane {
        input,
        output,
        input_stride,
        output_stride,
        row_bytes,
        height,
        channels,
        first_tile_row,
        tiles_across,
        left,
        right,
        above,
        below,
        beyond,
        filtered,
        copied,
        filled,
        bias,
        clamped,
        zero,
        offset
    });
    same!(Direct3Launch {
        plane_count,
        border,
        tile_height,
        kernel_count,
        divisor,
        reciprocal,
        sums,
        scale,
        start,
        weights,
        planes
    });
    same!(CopyLaunch {
        input,
        output,
        bytes
    });
    same!(FastLaunch {
        frame,
        radius_x,
        radius_y,
        count,
        first,
        spacing,
        reach,
        scale,
        reserved,
        weights
    });
    same!(BilateralLaunch {
        frame,
        weights,
        radius_x,
        radius_y,
        distance,
        color,
        color_premultiplied,
        color_root,
        spans,
        columns,
        inline_weights
    });
}

#[test]
fn constants_are_those_of_the_header() {
    assert_eq!(defined("CHANNELS"), MAX_CHANNELS);
    assert_eq!(defined("JOBS"), MAX_JOBS);
    assert_eq!(defined("INLINE_WEIGHTS"), INLINE_WEIGHTS);
    assert_eq!(defined("JOINT_ROWS"), columns::JOINT_ROWS);
    assert_eq!(defined("LARGER"), columns::LARGER);
    assert_eq!(defined("LINEAR_WEIGHTS"), LINEAR_WEIGHTS);
    assert_eq!(defined("CHROMA_WEIGHTS"), slabs::CHROMA_WEIGHTS);
    assert_eq!(defined("MAX_RADIUS"), MAX_RADIUS);
    assert_eq!(defined("DIRECT3_SUM"), DIRECT3_SUM);
    assert_eq!(defined("FAST_TAPS"), FAST_TAPS);
    assert_eq!(defined("COPY_PIECE"), copy::PIECE as usize);
    assert_eq!(defined("COPY_PIECES"), copy::PIECES as usize);
    for (name, value) in [
        ("COPY", action::COPY),
        ("FILL", action::FILL),
        ("FILTER", action::FILTER),
        ("REPLICATE", border::REPLICATE),
        ("REFLECT", border::REFLECT),
        ("REFLECT101", border::REFLECT101),
        ("WRAP", border::WRAP),
        ("CONSTANT", border::CONSTANT),
        ("U8", sample::U8),
        ("U16_LE", sample::U16_LE),
        ("U16_BE", sample::U16_BE),
        ("APART", packed::APART),
        ("PACKED", packed::PACKED),
        ("LUMA_FIRST", packed::LUMA_FIRST),
        ("LUMA_SECOND", packed::LUMA_SECOND),
        ("FOURIER_SIDE", fourier::SIDE as u32),
        ("FOURIER_RADIUS", fourier::MOST_RADIUS as u32),
        ("L1", distance::L1),
        ("L2", distance::L2),
    ] {
        assert_eq!(defined(name), value as usize, "{name}");
    }
}

#[test]
fn lines_of_weights_are_filled_up_with_zeros() {
    let mut weights = Vec::new();
    push_line(&mut weights, &[1.0, 2.0, 1.0]);
    push_line(&mut weights, &[3.0; 5]);
    push_line(&mut weights, &[4.0; 4]);
    let (a, b) = (
        [1.0, 2.0, 1.0, 0.0],
        [3.0, 3.0, 3.0, 3.0, 3.0, 0.0, 0.0, 0.0],
    );
    assert_eq!(weights, [&a[..], &b[..], &[4.0; 4]].concat());
    let longest = 2 * line_length(2 * MAX_RADIUS + 1);
    let of_matrix = 2 * line_length(31);
    assert!(
        (2 * longest).max(MOST_TERMS * of_matrix) <= LINEAR_WEIGHTS,
        "every separable kernel is inline, and every sum of them"
    );
}

fn frame(sizes: &[(u32, u32)]) -> Frame {
    let mut frame = Frame {
        job_count: sizes.len() as u32,
        ..Frame::default()
    };
    for (job, &(width, height)) in frame.jobs.iter_mut().zip(sizes) {
        (job.width, job.height, job.channel_count) = (width, height, 1);
    }
    frame
}

#[test]
fn kernels_that_take_filters_of_jobs_stand_in_for_those_with_fewer_taps() {
    use Kernel::*;
    for (one, other, together) in [
        (SeparableU8R7, SeparableU8R4, Some(SeparableU8R7)),
        (SeparableU8R4, SeparableU8R2, Some(SeparableU8R7)),
        (SeparableU8R4, SeparableU8R8, Some(SeparableU8R8)),
        (SeparableU16R4, SeparableU16R4, Some(SeparableU16R4)),
        (SeparableU16R8, SeparableU16R4, Some(SeparableU16R8)),
        (SeparableU8R16, SeparableU8R8, None),
        (SeparableU8R8, SeparableU8R16, None),
        (SeparableU16R4, SeparableU16R16, None),
        (SeparableU8R4, SeparableMagnitudeU8, None),
        (SeparableU8R4, SeparableU8, None),
        (SeparableMatrixU8, SeparableU8R7, None),
    ] {
        assert_eq!(one.together(other), together, "{one:?} and {other:?}");
    }
    for kernel in Kernel::ALL
        .into_iter()
        .filter(|k| k.takes_filters_of_jobs())
    {
        let Form::Scaled(taps) = kernel.form() else {
            panic!("{kernel:?} takes any number of weights");
        };
        // Both filters fit into the launch.
        assert!(4 * line_length(taps) <= LINEAR_WEIGHTS, "{kernel:?}");
        assert_eq!(kernel.together(kernel), Some(kernel));
    }
}

#[test]
fn what_kernels_read_beside_a_tile_is_what_the_filter_needs_or_a_little_more() {
    use Kernel::*;
    for (kernel, radius, rows) in [
        (ConvolveTileU8, 5, 5),
        (Direct3U8, 0, 1),
        (SeparableWideU8, 17, 17),
        (SeparableMatrixU8, 3, 3),
        (SeparableU8R2, 2, 14),
        (SeparableU8R7, 7, 9),
        (SeparableU16R16, 16, 16),
        (BoxU8, 2, 5),
        (BilateralTableU8, 7, 14),
        (BilateralWideTableU8, 9, 16),
        (BilateralJointU8, 7, 8),
        (BilateralSingleU16, 32, 32),
    ] {
        assert_eq!(kernel.rows_beside(radius), rows, "{kernel:?}");
    }
}

#[test]
fn kernels_of_two_bytes_that_take_words_take_two_channels() {
    for kernel in Kernel::ALL {
        use Kernel::*;
        let of_two = matches!(kernel, BoxU16 | ConvolveMatrixU16 | ConvolveMatrixNearU16);
        let most = if of_two { 2 } else { MAX_CHANNELS };
        assert_eq!(kernel.most_channels(), most, "{kernel:?}");
    }
}

#[test]
fn tiles_cover_every_job_once() {
    for kernel in Kernel::ALL {
        for sizes in [
            vec![(1, 1)],
            vec![(1920, 1080), (960, 540)],
            vec![(33, 17); 8],
        ] {
            let mut frame = frame(&sizes);
            let grid = kernel.place(&mut frame, (3, 3)).grid;
            let mut rows = 0;
            for job in &frame.jobs[..sizes.len()] {
                assert_eq!(job.first_tile_row, rows);
                assert_eq!(
                    job.tiles_across,
                    geometry::tiles_across(kernel, job, (3, 3))
                );
                assert!(job.tiles_across <= grid.x);
                rows += job.height.div_ceil(frame.tile_height);
            }
            assert_eq!(grid.y, rows);
        }
    }
}

#[test]
fn launches_are_within_what_every_device_grants() {
    let plain = frame(&[(16384, 16384); MAX_JOBS]);
    let mut several = plain;
    for job in &mut several.jobs {
        (job.joint_or_filter, job.alpha) = (1, 0);
    }
    for kernel in Kernel::ALL {
        for (mut frame, radius) in (0..=MAX_RADIUS).flat_map(|r| [(plain, r), (several, r)]) {
            if !kernel.fits((radius, radius), Needs::of(&frame.jobs)) {
                continue;
            }
            let geometry = kernel.place(&mut frame, (radius, radius));
            assert!(geometry.grid.y <= 65535, "{kernel:?}: {geometry:?}");
            assert!(geometry.block.x * geometry.block.y <= 1024);
            let shared = geometry.shared_bytes as usize + geometry::static_bytes(kernel);
            assert!(shared <= 48 * 1024, "{kernel:?} {radius}");
        }
    }
}

/// Against what the assembler reports.
#[test]
fn static_shared_memory_is_what_kernels_have() {
    const TABLE: &str = include_str!("../../../../tests/gpu/resources.txt");
    for kernel in Kernel::ALL {
        let line =
            (TABLE.lines()).find(|line| line.split_whitespace().next() == Some(kernel.name()));
        let columns = line.map(|line| line.split_whitespace().collect::<Vec<_>>());
        let reported = columns.unwrap_or_else(|| panic!("{} is not in the table", kernel.name()));
        let bytes: usize = reported[reported.len() - 1].parse().expect("a number");
        let dynamic = (kernel.place(&mut frame(&[(64, 64)]), (1, 1))).shared_bytes > 0;
        assert_eq!(
            if dynamic { bytes } else { 0 },
            geometry::static_bytes(kernel),
            "{kernel:?}"
        );
    }
}

#[test]
fn every_radius_has_a_tile_but_for_several_wide_samples() {
    let all = (MAX_RADIUS, MAX_RADIUS);
    let (one, several) = (
        Needs::default(),
        Needs {
            premultiplied: true,
            joint: true,
            ..Needs::default()
        },
    );
    for kernel in [
        Kernel::ConvolveTileU16,
        Kernel::SeparableU16,
        Kernel::BilateralTileU8,
    ] {
        assert!(
            kernel.fits(all, one) && kernel.fits(all, several),
            "{kernel:?}"
        );
    }
    let channels = |count: usize| Needs {
        others: count - 1,
        ..one
    };
    assert!(Kernel::ConvolveMatrixU8.fits(all, one));
    assert!(Kernel::ConvolveMatrixU8.fits((22, 22), channels(3)));
    assert!(!Kernel::ConvolveMatrixU8.fits((23, 23), channels(3)));
    assert!(Kernel::ConvolveMatrixU8.fits((12, 12), channels(4)));
    assert!(Kernel::ConvolveFft.fits((24, 24), one) && !Kernel::ConvolveFft.fits((1, 25), one));
    assert!(Kernel::BilateralTileU16.fits(all, one));
    assert!(Kernel::BilateralTileU16.fits((27, 27), several));
    assert!(!Kernel::BilateralTileU16.fits((28, 28), several));
    assert!(Kernel::BilateralPremultipliedU8.fits(all, several));
    assert!(Kernel::BilateralPremultipliedU16.fits((27, 27), several));
    assert!(Kernel::BilateralFastU8.fits(all, one));
    assert!(Kernel::BilateralFastU16.fits(all, one));
}

/// The ladder's header against its mirror.
mod ladder {
    use std::mem::{offset_of, size_of};

    use super::super::Extent;
    use super::super::ladder::{
        BILATERAL_WORDS, CONVOLVE_WORDS, Kernel, LadderLaunch, Module, RADIUS,
    };

    const HEADER: &str = include_str!("../../../../kernels/ladder.h");

    #[test]
    fn the_structure_is_laid_out_as_the_header_asserts() {
        let line = format!(
            "CUDACONV_LAYOUT(CudaconvLadderLaunch, {}, reserved, {});",
            size_of::<LadderLaunch>(),
            offset_of!(LadderLaunch, reserved)
        );
        assert!(HEADER.contains(&line), "{line}");
        let body = HEADER.split("typedef struct CudaconvLadderLaunch {").nth(1);
        let body = body.and_then(|text| text.split('}').next()).unwrap();
        let members: Vec<&str> = (body.lines())
            .filter_map(|line| line.split(';').next()?.split_whitespace().nth(1))
            .collect();
        assert_eq!(
            members,
            [
                "input",
                "output",
                "table",
                "width",
                "height",
                "input_stride",
                "output_stride",
                "color",
                "reserved"
            ]
        );
        for (name, value) in [
            ("RADIUS", RADIUS),
            ("CONVOLVE_WORDS", CONVOLVE_WORDS),
            ("BILATERAL_WORDS", BILATERAL_WORDS),
        ] {
            let line = format!("#define CUDACONV_LADDER_{name} {value}\n");
            assert!(HEADER.contains(&line), "{line}");
        }
    }

    #[test]
    fn names_tell_the_module() {
        for kernel in Kernel::ALL {
            let module = kernel.module().name();
            assert!(kernel.name().starts_with(module), "{}", kernel.name());
        }
        assert_eq!(
            Module::ALL.map(Module::has_constant_table),
            [false, true, false, false, true]
        );
    }

    #[test]
    fn blocks_cover_the_picture_and_fit_into_what_every_device_grants() {
        for kernel in Kernel::ALL {
            for (x, y) in [(8, 8), (16, 16), (32, 8), (32, 32)] {
                let geometry = kernel.place(1921, 1081, Extent { x, y });
                assert!(geometry.shared_bytes <= 48 * 1024, "{}", kernel.name());
            }
        }
        let geometry = Kernel::BilateralTile.place(640, 480, Extent { x: 16, y: 16 });
        assert_eq!(geometry.grid, Extent { x: 40, y: 30 });
        assert_eq!(geometry.shared_bytes, 4 * 30 * 30);
        let two = Kernel::BilateralHalf2.place(640, 480, Extent { x: 16, y: 16 });
        assert_eq!(two.grid, Extent { x: 40, y: 15 });
        let four = Kernel::ConvolveInt8.place(65, 9, Extent { x: 8, y: 8 });
        assert_eq!(four.grid, Extent { x: 3, y: 2 });
        let products = Kernel::ConvolveMatrix.place(65, 17, Extent { x: 128, y: 1 });
        assert_eq!(products.grid, Extent { x: 2, y: 2 });
    }
}
