//! The bilateral by weighted levels: against its definition, and the definition against the full
//! window.

use std::path::Path;
use std::sync::Arc;

use gst_video::VideoFormat;
use gstcudaconv::engine::Engine;
use gstcudaconv::filter::spec::{Alpha, Border, Kernel, Method, Planes, Window};
use gstcudaconv::filter::{FilterSpec, Plan, reference};

use crate::support::*;

/// What the README promises of `method=fast`.
const LEAST_DECIBELS: f64 = 55.0;

fn fast(radius: u32) -> FilterSpec {
    FilterSpec {
        kernel: Kernel::Bilateral,
        method: Method::Fast,
        window: Window::Square,
        radius,
        ..FilterSpec::default()
    }
}

/// Every format without joint colour, with every border, at sizes that no vector or tile divides.
#[test]
fn every_format_and_border_is_that_of_the_definition() {
    let mut agreement = Agreement::default();
    let mut tried = 0;
    for format in formats() {
        for (width, height, interlaced) in [
            (33, 17, false),
            (70, 41, true),
            (1, 1, false),
            (2, 9, false),
        ] {
            let layout = layout(format, width, height);
            let input = Picture::new(&layout, Placement::Odd, scene(layout.depth));
            for border in BORDERS {
                let spec = FilterSpec {
                    border,
                    border_value: 240.0,
                    sigma_space: 2.5,
                    ..fast(4)
                };
                if Plan::new(&spec, &layout, engine().abilities()).is_err() {
                    continue;
                }
                let expected = reference::filter(&spec, &layout, &input.planes(), interlaced);
                check_auto(
                    &spec,
                    &input,
                    interlaced,
                    &expected.unwrap(),
                    &mut agreement,
                );
                tried += 1;
            }
        }
    }
    agreement.finish();
    // 3 of grey and 16 of YUV, packed, planar and semi-planar, of 8 to 16 bits.
    assert_eq!(tried, 19 * 4 * 5);
}

#[test]
fn sigmas_radii_planes_and_alpha_are_those_of_the_definition() {
    let mut agreement = Agreement::default();
    let base = |radius, sigma_space, sigma_color| FilterSpec {
        sigma_space,
        sigma_color,
        ..fast(radius)
    };
    let mut specs = vec![
        base(1, 0.4, 4.0),
        base(0, 5.0, 25.0),
        base(9, 3.0, 10.0),
        base(15, 5.0, 70.0),
        base(32, 100.0, 255.0),
    ];
    for alpha in [Alpha::Copy, Alpha::Filter] {
        for planes in [Planes::All, Planes::Luma] {
            specs.push(FilterSpec {
                alpha,
                planes,
                bias: 3.25,
                ..base(3, 2.0, 30.0)
            });
        }
    }
    for format in [
        VideoFormat::Gray8,
        VideoFormat::Nv16,
        VideoFormat::Ayuv,
        VideoFormat::I42010le,
        VideoFormat::Gray16Be,
    ] {
        let layout = layout(format, 75, 43);
        let input = Picture::new(&layout, Placement::Aligned, scene(layout.depth));
        for spec in &specs {
            let expected = reference::filter(spec, &layout, &input.planes(), false);
            check_auto(spec, &input, false, &expected.unwrap(), &mut agreement);
        }
    }
    agreement.finish();
}

/// A picture of one component.
struct Grey {
    width: u32,
    height: u32,
    /// 0 to 255.
    values: Vec<f64>,
}

/// Overlapping discs of all sizes, each with a gradient and some grain: the dead leaves of Matheron, whose
/// edges and areas are distributed as those of photos are.
fn leaves(seed: u64) -> Grey {
    let (width, height) = (320u32, 240u32);
    let random =
        |disc: u64, what: u64| (hash(seed * 1_000_000 + disc * 8 + what) % 65536) as f64 / 65536.0;
    let discs: Vec<[f64; 6]> = (0..1500)
        .map(|n| {
            let radius = 3.0 / (random(n, 0) + 0.02);
            let at = (
                random(n, 1) * f64::from(width),
                random(n, 2) * f64::from(height),
            );
            let slope = |what| (random(n, what) - 0.5) * 1.5;
            [at.0, at.1, radius, random(n, 3) * 255.0, slope(4), slope(5)]
        })
        .collect();
    let mut values = Vec::new();
    for y in 0..height {
        for x in 0..width {
            let at = |disc: &&[f64; 6]| {
                let (dx, dy) = (f64::from(x) - disc[0], f64::from(y) - disc[1]);
                dx * dx + dy * dy <= disc[2] * disc[2]
            };
            let value = discs.iter().find(at).map_or(128.0, |disc| {
                disc[3] + disc[4] * (f64::from(x) - disc[0]) + disc[5] * (f64::from(y) - disc[1])
            });
            let grain = (0..4)
                .map(|n| random(u64::from(y * width + x) + 5000, n))
                .sum::<f64>()
                - 2.0;
            values.push((value + 6.0 * grain).clamp(0.0, 255.0));
        }
    }
    Grey {
        width,
        height,
        values,
    }
}

/// The luma of an uncompressed bitmap of 24 bits.
fn bitmap(path: &Path) -> Option<Grey> {
    let bytes = std::fs::read(path).ok()?;
    let number = |at: usize| u32::from_le_bytes(bytes[at..at + 4].try_into().unwrap());
    let (start, width, height) = (number(10) as usize, number(18), number(22));
    assert_eq!(bytes[28], 24, "24 bits a pixel");
    let stride = (3 * width as usize).next_multiple_of(4);
    let mut values = Vec::new();
    for y in (0..height as usize).rev() {
        for x in 0..width as usize {
            let pixel = &bytes[start + y * stride + 3 * x..][..3];
            let [b, g, r] = [0, 1, 2].map(|channel| f64::from(pixel[channel]));
            values.push(0.114 * b + 0.587 * g + 0.299 * r);
        }
    }
    Some(Grey {
        width,
        height,
        values,
    })
}

fn pictures() -> Vec<(String, Grey)> {
    let made = (1..=2).map(|seed| (format!("leaves {seed}"), leaves(seed)));
    let photo = Path::new(env!("CARGO_MANIFEST_DIR")).join("../shared/media/nature_monte.bmp");
    made.chain(bitmap(&photo).map(|grey| ("photo".into(), grey)))
        .collect()
}

/// Code values of `spec` on the CPU, or on the engine that the tests are about.
fn filtered(engine: &dyn Engine, spec: &FilterSpec, input: &Picture) -> Vec<u32> {
    let plan = Plan::new(spec, &input.layout, engine.abilities()).expect("a plan");
    run_on(engine, &Arc::new(plan), input, Placement::Tight, false).codes(0, 0)
}

fn decibels(found: &[u32], expected: &[u32], max: u32) -> f64 {
    let errors = found
        .iter()
        .zip(expected)
        .map(|(a, b)| f64::from(a.abs_diff(*b)).powi(2));
    let mean = errors.sum::<f64>() / found.len() as f64;
    20.0 * f64::from(max).log10() - 10.0 * mean.log10()
}

/// Both rounded to code values: at 8 bits the rounding alone of two results that differ by little
/// costs most of what is lost.
#[test]
fn pictures_are_close_to_the_full_square_window() {
    for (name, grey) in pictures() {
        for format in [VideoFormat::Gray8, VideoFormat::Gray16Le] {
            let layout = layout(format, grey.width, grey.height);
            let most = f64::from(layout.max_code());
            let input = Picture::new(&layout, Placement::Tight, |_, x, y| {
                (grey.values[y * grey.width as usize + x] * most / 255.0).round() as u32
            });
            for radius in [7, 15] {
                let spec = fast(radius);
                let exact = FilterSpec {
                    method: Method::Auto,
                    ..spec.clone()
                };
                let expected = filtered(cpu_engine(), &exact, &input);
                let found = filtered(engine(), &spec, &input);
                let near = decibels(&found, &expected, layout.max_code());
                println!("{name} {format:?} radius {radius}: {near:.1} dB");
                assert!(
                    near >= LEAST_DECIBELS,
                    "{name} {format:?} radius {radius}: {near} dB"
                );
            }
        }
    }
}

/// Also where the sigmas are not the defaults, and the picture is as hard as can be.
#[test]
fn noise_is_close_to_the_full_square_window_with_any_sigma() {
    let layout = layout(VideoFormat::Gray8, 160, 90);
    let input = Picture::new(&layout, Placement::Tight, |_, x, y| {
        (hash((y * 160 + x) as u64) % 256) as u32
    });
    for sigma_color in [4.0, 10.0, 25.0, 40.0, 60.0, 100.0, 150.0, 255.0] {
        let spec = FilterSpec {
            sigma_color,
            ..fast(7)
        };
        let exact = FilterSpec {
            method: Method::Auto,
            ..spec.clone()
        };
        let expected = filtered(cpu_engine(), &exact, &input);
        let near = decibels(&filtered(engine(), &spec, &input), &expected, 255);
        println!("noise, sigma-color {sigma_color}: {near:.1} dB");
        assert!(
            near >= LEAST_DECIBELS,
            "sigma-color {sigma_color}: {near} dB"
        );
    }
}

#[test]
fn flat_pictures_and_far_edges_stay_as_they_are() {
    for format in [VideoFormat::Gray8, VideoFormat::P01010le] {
        let layout = layout(format, 97, 40);
        let step = 1 << (layout.depth - 8);
        // Every code value of 8 bits in columns of its own would be filtered: flat, and black beside
        // white, which are ten sigmas apart.
        for (left, right) in [(0, 0), (77, 77), (255, 255), (0, 255), (255, 0)] {
            let input = Picture::new(&layout, Placement::Tight, |_, x, _| {
                (if x < 50 { left } else { right }) * step
            });
            let spec = FilterSpec {
                border: Border::Reflect,
                ..fast(15)
            };
            let found = run(&plan(&spec, &layout), &input, Placement::Odd, false);
            for (_, group, channel) in components(&layout) {
                let (before, after) = (input.codes(group, channel), found.codes(group, channel));
                let off = before.iter().zip(&after).map(|(a, b)| a.abs_diff(*b)).max();
                assert!(off <= Some(step / 8), "{format:?} {left} {right}: {off:?}");
            }
        }
    }
}
