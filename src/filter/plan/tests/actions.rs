//! What becomes of channels.

use super::*;

#[test]
fn kernels_that_change_nothing_are_copies() {
    let copies = [
        spec(Kernel::Identity),
        custom("1"),
        custom("0 0 0 0 1 0 0 0 0"),
        custom("0;0.3;0"),
        FilterSpec {
            amount: 0.0,
            ..spec(Kernel::Sharpen)
        },
        FilterSpec {
            amount: 0.0,
            ..spec(Kernel::Unsharp)
        },
        FilterSpec {
            sigma: 1e-160,
            ..spec(Kernel::Gauss)
        },
        FilterSpec {
            sigma_space: 0.0,
            ..spec(Kernel::Bilateral)
        },
        FilterSpec {
            sigma_color: 1e-160,
            ..spec(Kernel::Bilateral)
        },
    ];
    for spec in copies {
        for format in crate::filter::layout::supported_formats() {
            let plan = plan(&spec, format);
            for job in &plan.jobs {
                assert_eq!(job.operation, Operation::None, "{spec:?} {format:?}");
                assert!(job.actions.iter().all(|action| *action == Action::Copy));
            }
        }
    }
    let doubled = FilterSpec {
        divisor: 0.5,
        ..spec(Kernel::Identity)
    };
    assert_eq!(correlation(&doubled).divisor, 0.5);
    let shifted = custom("1 0 0 0 0 0 0 0 0");
    assert_ne!(
        actions(&shifted, gst_video::VideoFormat::Gray8),
        [Action::Copy]
    );
}

#[test]
fn bias_and_border_value_are_for_luma_grey_and_rgb_at_the_scale_of_the_depth() {
    use gst_video::VideoFormat as F;
    let spec = FilterSpec {
        bias: 10.0,
        border_value: 3.5,
        ..spec(Kernel::Gauss3)
    };
    let chroma = filter(128.0, 128.0, 0.0);
    assert_eq!(
        actions(&spec, F::I420),
        [filter(16.0, 26.0, 3.5), chroma, chroma]
    );
    assert_eq!(actions(&spec, F::Gray16Le), [filter(0.0, 2560.0, 896.0)]);
    let chroma = filter(512.0, 512.0, 0.0);
    assert_eq!(
        actions(&spec, F::P01010le),
        [filter(64.0, 104.0, 14.0), chroma, chroma]
    );
    let colour = filter(0.0, 10.0, 3.5);
    assert_eq!(
        actions(&spec, F::Rgbx),
        [colour, colour, colour, Action::Copy]
    );
}

#[test]
fn identity_with_a_bias_adds_it_to_luma_alone() {
    let spec = FilterSpec {
        bias: -2.0,
        ..spec(Kernel::Identity)
    };
    assert_eq!(
        actions(&spec, gst_video::VideoFormat::I420),
        [filter(16.0, 14.0, 0.0), Action::Copy, Action::Copy]
    );
}

#[test]
fn planes_says_what_becomes_of_chroma() {
    use gst_video::VideoFormat as F;
    let chroma = |kernel, planes| {
        let spec = FilterSpec {
            planes,
            ..spec(kernel)
        };
        actions(&spec, F::Nv12)[1]
    };
    let filtered = filter(128.0, 128.0, 0.0);
    for kernel in [
        Kernel::Laplacian,
        Kernel::SobelX,
        Kernel::Sobel,
        Kernel::Scharr,
    ] {
        assert_eq!(chroma(kernel, Planes::Auto), Action::Fill(128));
        assert_eq!(chroma(kernel, Planes::All), filtered);
        assert_eq!(chroma(kernel, Planes::Luma), Action::Copy);
    }
    for kernel in [
        Kernel::Gauss5,
        Kernel::Emboss,
        Kernel::Sharpen,
        Kernel::Bilateral,
    ] {
        assert_eq!(chroma(kernel, Planes::Auto), filtered);
        assert_eq!(chroma(kernel, Planes::Luma), Action::Copy);
    }
    let spec = FilterSpec {
        planes: Planes::Luma,
        ..spec(Kernel::Sobel)
    };
    assert_eq!(actions(&spec, F::Rgb), [filter(0.0, 0.0, 0.0); 3]);
}

#[test]
fn alpha_is_copied_filtered_or_multiplied() {
    use gst_video::VideoFormat as F;
    let of = |alpha| {
        plan(
            &FilterSpec {
                alpha,
                ..spec(Kernel::Gauss3)
            },
            F::Argb64,
        )
        .jobs
    };
    assert_eq!(of(Alpha::Copy)[0].actions[3], Action::Copy);
    assert_eq!(of(Alpha::Filter)[0].actions[3], filter(0.0, 0.0, 65535.0));
    assert!(!of(Alpha::Filter)[0].premultiply);
    assert!(of(Alpha::Premultiply)[0].premultiply);
    assert_eq!(
        of(Alpha::Premultiply)[0].actions,
        of(Alpha::Filter)[0].actions
    );
}

#[test]
fn premultiplication_needs_alpha_beside_every_filtered_colour() {
    let of = |kernel, planes| {
        let spec = FilterSpec {
            alpha: Alpha::Premultiply,
            planes,
            ..spec(kernel)
        };
        Plan::new(&spec, &layout(gst_video::VideoFormat::A420), &CPU)
    };
    let refused = of(Kernel::Gauss3, Planes::Auto).unwrap_err().to_string();
    assert!(
        refused.contains("A420") && refused.contains("AYUV"),
        "{refused}"
    );
    assert!(of(Kernel::Identity, Planes::Auto).is_ok());
}

#[test]
fn deep_sums_start_from_the_middle_of_the_code_range() {
    use gst_video::VideoFormat as F;
    let of = |kernel, alpha, format| {
        let spec = FilterSpec {
            radius: 8,
            bias: 1.0,
            border_value: 2.0,
            alpha,
            ..spec(kernel)
        };
        actions(&spec, format)[0]
    };
    let middle = filter(32768.0, 32768.0 + 256.0, 512.0 - 32768.0);
    assert_eq!(of(Kernel::Box, Alpha::Copy, F::Gray16Le), middle);
    assert_eq!(of(Kernel::Gauss7, Alpha::Copy, F::Gray16Le), middle);
    let limited = filter(512.0, 512.0 + 4.0, 64.0 + 8.0 - 512.0);
    assert_eq!(of(Kernel::Gauss, Alpha::Copy, F::I42010le), limited);
    // Exact as they are, of another sum, or in need of their zero level.
    let black = filter(0.0, 256.0, 512.0);
    assert_eq!(of(Kernel::Gauss3, Alpha::Copy, F::Gray16Le), black);
    assert_eq!(of(Kernel::Scharr, Alpha::Copy, F::Gray16Le), black);
    assert_eq!(of(Kernel::Box, Alpha::Premultiply, F::Argb64), black);
    let eight = filter(0.0, 1.0, 2.0);
    assert_eq!(of(Kernel::Gauss, Alpha::Copy, F::Gray8), eight);
}
