//! Kernels of the bilateral.

use super::*;
use crate::filter::spec::Distance;

#[test]
fn levels_have_tiles_for_every_size_and_room_for_every_radius() {
    let fast = |radius| FilterSpec {
        method: spec::Method::Fast,
        window: spec::Window::Square,
        radius,
        ..of(Bilateral)
    };
    let of_size = |format, size, radius| kernels_of(format, size, &fast(radius));
    let hd = (1920, 1080);
    assert_eq!(of_size(Format::Gray8, hd, 15), [BilateralFastU8]);
    assert_eq!(
        of_size(Format::I420, hd, 15),
        [
            BilateralFastU8,
            BilateralFastLowestU8,
            BilateralFastLowestU8
        ]
    );
    assert_eq!(
        of_size(Format::Gray8, (1280, 720), 15),
        [BilateralFastLowU8]
    );
    assert_eq!(
        of_size(Format::Gray8, (640, 480), 32),
        [BilateralFastLowestU8]
    );
    assert_eq!(of_size(Format::Gray16Le, hd, 32), [BilateralFastU16]);
}

#[test]
fn the_bilateral_goes_by_what_shares_a_weight() {
    assert_eq!(
        kernels(Format::Nv12, &of(Bilateral)),
        [BilateralTableSmallU8; 2]
    );
    assert_eq!(kernels(Format::Rgbx, &of(Bilateral)), [BilateralJointU8]);
    assert_eq!(kernels(Format::Gbr, &of(Bilateral)), [BilateralJointU8]);
    let euclidean = FilterSpec {
        distance: Distance::L2,
        ..of(Bilateral)
    };
    assert_eq!(kernels(Format::Rgb, &euclidean), [BilateralTileU8]);
    let with_alpha = |alpha| FilterSpec {
        alpha,
        ..of(Bilateral)
    };
    assert_eq!(
        kernels(Format::Rgba, &with_alpha(spec::Alpha::Copy)),
        [BilateralJointU8]
    );
    assert_eq!(
        kernels(Format::Rgba, &with_alpha(spec::Alpha::Filter)),
        [BilateralTileU8]
    );
    assert_eq!(
        kernels(Format::Ayuv, &with_alpha(spec::Alpha::Filter)),
        [BilateralTableSmallU8]
    );
    let premultiplied = with_alpha(spec::Alpha::Premultiply);
    assert_eq!(
        kernels(Format::Rgba, &premultiplied),
        [BilateralPremultipliedU8]
    );
    assert_eq!(
        kernels(Format::Rgba64Le, &premultiplied),
        [BilateralPremultipliedU16]
    );
    let wide = FilterSpec {
        radius: 32,
        ..of(Bilateral)
    };
    assert_eq!(kernels(Format::Gray8, &wide), [BilateralTileU8]);
    assert_eq!(kernels(Format::Gray16Le, &wide), [BilateralTileU16]);
    assert_eq!(kernels(Format::Rgb, &wide), [BilateralTileU8]);
    let less_wide = FilterSpec {
        radius: 31,
        ..of(Bilateral)
    };
    assert_eq!(kernels(Format::Gray16Le, &less_wide), [BilateralSingleU16]);
    assert_eq!(kernels(Format::Rgb, &less_wide), [BilateralJointWideU8]);
    assert_eq!(
        kernels(Format::P01010le, &of(Bilateral)),
        [BilateralSingleU16; 2]
    );
    assert_eq!(kernels(Format::Rgba64Le, &wide), [BilateralNaiveU16]);
}

#[test]
fn the_bilateral_of_grey_goes_by_radius_and_size() {
    let radius = |radius| FilterSpec {
        radius,
        ..of(Bilateral)
    };
    let hd = |radius_of| kernels_of(Format::Nv12, (1920, 1080), &radius(radius_of));
    assert_eq!(hd(8), [BilateralTableU8, BilateralTableSmallU8]);
    assert_eq!(hd(15), [BilateralWideTableU8, BilateralTableSmallU8]);
    assert_eq!(hd(32), [BilateralTileU8, BilateralWideTableSmallU8]);
    assert_eq!(
        kernels(Format::Gray8, &radius(16)),
        [BilateralWideTableSmallU8]
    );
}
