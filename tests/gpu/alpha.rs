//! Premultiplied colours where nearly all is transparent: the GPU's results are the CPU's.

use gst_video::VideoFormat;
use gstcudaconv::filter::FilterSpec;
use gstcudaconv::filter::spec::{Alpha, Distance, Kernel, Method};

use crate::support::{self, Memory, TIGHT, engines};

const WIDTH: usize = 60;

/// Opaque noise to the left, and one such pixel in the middle of what is transparent to the right.
fn byte(pixel_bytes: usize, at: usize) -> u8 {
    let (x, y) = (at / pixel_bytes % WIDTH, at / pixel_bytes / WIDTH);
    let is_alpha = at % pixel_bytes >= pixel_bytes * 3 / 4;
    match is_alpha {
        false => support::noise(7, at),
        true if x < WIDTH / 3 || (x, y) == (WIDTH * 3 / 4, 20) => 255,
        true => 0,
    }
}

#[test]
fn colours_beside_what_is_transparent() {
    let Some(engines) = engines() else { return };
    let of = |kernel, radius, sigma| FilterSpec {
        kernel,
        radius,
        sigma,
        sigma_space: 100.0,
        sigma_color: 255.0,
        alpha: Alpha::Premultiply,
        ..FilterSpec::default()
    };
    let l2 = FilterSpec {
        distance: Distance::L2,
        ..of(Kernel::Bilateral, 9, 0.0)
    };
    let filters = [
        (of(Kernel::Gauss3, 0, 0.0), 0),
        (of(Kernel::Gauss, 8, 1.0), 0),
        (of(Kernel::Gauss, 16, 1.5), 0),
        (of(Kernel::Unsharp, 5, 0.8), 0),
        (of(Kernel::Bilateral, 15, 0.0), 1),
        (of(Kernel::Bilateral, 32, 0.0), 1),
        (l2, 1),
    ];
    for (format, pixel_bytes) in [(VideoFormat::Rgba, 4), (VideoFormat::Rgba64Le, 8)] {
        let layout = support::layout(format, WIDTH as u32, 40);
        let heap = || (Memory::Heap, TIGHT);
        let bytes = |_, at| byte(pixel_bytes, at);
        let frame = || support::frame_of(&layout, bytes, heap(), heap(), false);
        for (spec, tolerance) in &filters {
            let expected = support::on_cpu(&engines.cpu, spec, &layout, frame());
            let expected = support::output_codes(&layout, &expected);
            for method in [Method::Auto, Method::Naive, Method::Tile] {
                let abilities = support::gpu_abilities();
                let Some(plan) = support::plan(spec, method, &layout, abilities) else {
                    continue;
                };
                let codes = support::on_gpu(&engines.gpu, &plan, frame());
                let codes = support::output_codes(&layout, &codes);
                for (place, (gpu, cpu)) in codes.iter().zip(&expected).enumerate() {
                    assert!(
                        gpu.abs_diff(*cpu) <= *tolerance,
                        "{format} {:?} radius {} {method:?}, sample {place}: {gpu}, on the CPU {cpu}",
                        spec.kernel,
                        spec.radius
                    );
                }
            }
        }
    }
}
