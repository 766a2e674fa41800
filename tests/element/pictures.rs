//! Pixels, as far as format, size and direction go: what a wrong stride, offset or sign breaks.

use crate::common::cudaconv;
use crate::common::frames::{raw, stamped};
use crate::common::picture::{
    Component, correlate, filter_one, filtered, formats, noise, paint, read, write,
};
use crate::common::watchdog::watched;

const GAUSS3: &[&[i32]] = &[&[1, 2, 1], &[2, 4, 2], &[1, 2, 1]];

fn gray8(width: u32, height: u32, sample: impl Fn(usize, usize) -> u32) -> Vec<Component> {
    paint(&raw("GRAY8", width, height), |_, x, y| sample(x, y))
}

/// Reported: strides, offsets, roundings and byte orders are wrong in some format at some odd
/// size; the identity shows them all.
#[test]
fn the_identity_copies_every_component_of_every_format_at_odd_sizes() {
    watched(|| {
        for format in formats() {
            for (width, height) in [
                (33, 17),
                (33, 16),
                (32, 17),
                (322, 241),
                (1, 1),
                (2, 2),
                (3, 1),
            ] {
                let caps = raw(&format, width, height);
                let input = noise(&caps, 11);
                let output = filtered(&[("kernel", "identity")], &caps, &input);
                assert_eq!(output, input, "{format} {width}x{height}");
            }
        }
    });
}

/// Reported: chroma planes are half a row short or shifted, U and V are swapped.
#[test]
fn a_blur_of_every_format_at_odd_sizes_equals_a_plain_correlation() {
    watched(|| {
        for format in formats() {
            for (width, height) in [(33, 17), (32, 17), (33, 16), (1, 1), (2, 2)] {
                let caps = raw(&format, width, height);
                let input = noise(&caps, 12);
                let output = filtered(&[("kernel", "gauss3")], &caps, &input);
                for (index, (input, output)) in input.iter().zip(&output).enumerate() {
                    let wanted = if input.alpha {
                        input.clone()
                    } else {
                        correlate(input, GAUSS3, 16)
                    };
                    assert_eq!(
                        *output, wanted,
                        "{format} {width}x{height} component {index}"
                    );
                }
            }
        }
    });
}

/// Reported: the last columns or rows are wrong where the size is no multiple of a block.
#[test]
fn edges_are_right_at_every_size_around_powers_of_two() {
    watched(|| {
        let box5: &[&[i32]] = &[&[1, 1, 1, 1, 1][..]; 5];
        let lengths = [1u32, 2, 3, 15, 16, 17, 31, 33, 63, 65, 127, 129];
        for (i, width) in lengths.into_iter().enumerate() {
            for height in [lengths[(i * 5 + 3) % 12], lengths[(i * 7 + 1) % 12], width] {
                let caps = raw("GRAY8", width, height);
                let input = noise(&caps, 13);
                for (kernel, weights, divisor) in [("gauss3", GAUSS3, 16), ("box5", box5, 25)] {
                    let output = filtered(&[("kernel", kernel)], &caps, &input);
                    let wanted = correlate(&input[0], weights, divisor);
                    assert_eq!(output[0], wanted, "{kernel} {width}x{height}");
                }
            }
        }
    });
}

/// Reported: the same at the sizes of real screens.
#[test]
fn edges_are_right_at_screen_sizes() {
    watched(|| {
        for (width, height) in [(1366, 768), (1440, 810)] {
            let caps = raw("I420", width, height);
            let input = noise(&caps, 14);
            let output = filtered(&[("kernel", "gauss3")], &caps, &input);
            for (input, output) in input.iter().zip(&output) {
                assert!(*output == correlate(input, GAUSS3, 16), "{width}x{height}");
            }
        }
    });
}

/// Reported: planes smaller than the kernel are read beyond their end; 4:2:0 chroma comes first.
#[test]
fn a_flat_picture_smaller_than_the_kernel_stays_flat() {
    watched(|| {
        let seven = ["1 1 1 1 1 1 1"; 7].join(";");
        let filters: [&[(&str, &str)]; 4] = [
            &[("kernel", "gauss3")],
            &[("kernel", "custom"), ("matrix", &seven)],
            &[("kernel", "bilateral"), ("radius", "10")],
            &[("kernel", "box"), ("radius", "32")],
        ];
        for format in ["GRAY8", "I420", "NV12", "RGB"] {
            for (width, height) in [(2, 2), (3, 3), (1, 1), (1, 480), (640, 1)] {
                let caps = raw(format, width, height);
                let input = paint(&caps, |component, _, _| 90 + 10 * component as u32);
                for properties in filters {
                    let output = filtered(properties, &caps, &input);
                    assert_eq!(output, input, "{format} {width}x{height} {properties:?}");
                }
            }
        }
    });
}

/// Reported: kernels come out mirrored, or rows and columns are swapped.
#[test]
fn a_bright_pixel_moves_as_a_correlation_moves_it() {
    watched(|| {
        let caps = raw("GRAY8", 33, 17);
        let dot = |at: (usize, usize)| gray8(33, 17, move |x, y| 200 * u32::from((x, y) == at));
        let input = dot((10, 7));
        for (matrix, place) in [
            ("1 0 0 0 0 0 0 0 0", (11, 8)),
            ("0 0 1; 0 0 0; 0 0 0", (9, 8)),
            ("0 0 0 0 0 0 1 0 0", (11, 6)),
            ("1 0 0;", (11, 7)),
            ("0 0 1;", (9, 7)),
            ("1; 0; 0", (10, 8)),
            ("0; 0; 1", (10, 6)),
            ("0; 1; 0", (10, 7)),
            ("0 1 0;", (10, 7)),
            ("0 0 0 0 1;", (8, 7)),
        ] {
            let properties = [("kernel", "custom"), ("matrix", matrix)];
            assert_eq!(filtered(&properties, &caps, &input), dot(place), "{matrix}");
        }
    });
}

/// Reported: the same for the nine weights of a full matrix, and for one that is not square.
#[test]
fn different_weights_lie_where_the_matrix_says() {
    watched(|| {
        let caps = raw("GRAY8", 33, 17);
        let input = gray8(33, 17, |x, y| 10 * u32::from((x, y) == (10, 7)));
        for (matrix, kernel) in [
            (
                "1 2 3; 4 5 6; 7 8 9",
                &[&[1, 2, 3][..], &[4, 5, 6], &[7, 8, 9]][..],
            ),
            (
                "1 2 3 4 5; 6 7 8 9 10; 11 12 13 14 15",
                &[
                    &[1, 2, 3, 4, 5][..],
                    &[6, 7, 8, 9, 10],
                    &[11, 12, 13, 14, 15],
                ],
            ),
        ] {
            let properties = [("kernel", "custom"), ("matrix", matrix), ("divisor", "1")];
            let output = filtered(&properties, &caps, &input);
            assert_eq!(output[0], correlate(&input[0], kernel, 1), "{matrix}");
        }
    });
}

/// Reported: edge kernels over U and V turn the picture green, or set alpha to 0.
#[test]
fn an_edge_kernel_makes_flat_pictures_black_with_neutral_chroma_and_keeps_alpha() {
    watched(|| {
        for format in formats() {
            let caps = raw(&format, 16, 8);
            let info = gst_video::VideoInfo::from_caps(&caps).expect("caps of raw video");
            let input = paint(&caps, |component, _, _| match component {
                3 => 77,
                _ => 100 + 5 * component as u32,
            });
            let output = filtered(&[("kernel", "sobel")], &caps, &input);
            let limited = info.is_yuv()
                && info.colorimetry().range() == gst_video::VideoColorRange::Range16_235;
            for (index, component) in output.iter().enumerate() {
                let scale = 1 << (component.depth - 8);
                let wanted = match index {
                    3 => 77,
                    0 if limited => 16 * scale,
                    1 | 2 if info.is_yuv() => 128 * scale,
                    _ => 0,
                };
                assert!(
                    component.samples.iter().all(|s| *s == wanted),
                    "{format} component {index} is {:?} instead of {wanted}",
                    component.samples.first()
                );
            }
        }
    });
}

/// Reported: sharpening changes the alpha of a translucent picture.
#[test]
fn alpha_passes_untouched_unless_asked() {
    watched(|| {
        for format in formats() {
            let caps = raw(&format, 15, 9);
            let input = noise(&caps, 15);
            let Some(alpha) = input.iter().position(|c| c.alpha) else {
                continue;
            };
            let output = filtered(&[("kernel", "sharpen")], &caps, &input);
            assert_eq!(output[alpha], input[alpha], "{format}");
        }
    });
}

/// Reported: the padding byte of RGBx is filtered, or holds old memory.
#[test]
fn the_padding_byte_of_rgbx_is_copied() {
    watched(|| {
        for (format, at) in [("RGBx", 3), ("BGRx", 3)] {
            let caps = raw(format, 9, 5);
            let bytes: Vec<u8> = (0..9 * 5 * 4).map(|i| (i * 37 % 256) as u8).collect();
            let element = cudaconv(&[("kernel", "gauss3")]);
            let out = filter_one(element, &caps, stamped(bytes.clone(), 0));
            let map = out.map_readable().expect("maps");
            for pixel in 0..45 {
                assert_eq!(
                    map[pixel * 4 + at],
                    bytes[pixel * 4 + at],
                    "{format} {pixel}"
                );
            }
        }
    });
}

/// Reported: flat pictures drift by one, white wraps to 0, a tiny sigma divides 0 by 0.
#[test]
fn flat_pictures_stay_flat_at_every_level() {
    watched(|| {
        let filters: [&[(&str, &str)]; 7] = [
            &[("kernel", "gauss3")],
            &[("kernel", "box3")],
            &[("kernel", "gauss"), ("sigma", "0.05")],
            &[("kernel", "gauss"), ("sigma", "100")],
            &[("kernel", "bilateral")],
            &[
                ("kernel", "bilateral"),
                ("sigma-space", "0.05"),
                ("sigma-color", "0.05"),
            ],
            &[
                ("kernel", "bilateral"),
                ("sigma-space", "100"),
                ("sigma-color", "255"),
                ("radius", "3"),
            ],
        ];
        for (format, levels) in [
            ("GRAY8", &[0u32, 1, 16, 127, 128, 235, 254, 255][..]),
            ("GRAY16_LE", &[0, 1, 1023, 32767, 32768, 65535]),
            ("I420_10LE", &[0, 1, 64, 512, 1023]),
            ("RGB", &[0, 1, 128, 255]),
        ] {
            let caps = raw(format, 19, 11);
            for properties in filters {
                for level in levels {
                    let input = paint(&caps, |_, _, _| *level);
                    let output = filtered(properties, &caps, &input);
                    assert_eq!(output, input, "{format} at {level} with {properties:?}");
                }
            }
        }
    });
}

/// Reported: a bilateral with a sigma of 0, or a denormal one, gives black or undefined frames.
#[test]
fn a_bilateral_with_a_vanishing_sigma_is_a_copy() {
    watched(|| {
        let caps = raw("RGB", 33, 17);
        let input = noise(&caps, 16);
        for (space, color) in [
            ("0", "25"),
            ("5", "0"),
            ("0", "0"),
            ("1e-160", "25"),
            ("5", "1e-160"),
        ] {
            let properties = [
                ("kernel", "bilateral"),
                ("sigma-space", space),
                ("sigma-color", color),
            ];
            assert_eq!(
                filtered(&properties, &caps, &input),
                input,
                "{space} {color}"
            );
        }
    });
}

/// Reported: sums beyond the range wrap around instead of stopping at black and white.
#[test]
fn results_stop_at_black_and_white() {
    watched(|| {
        let caps = raw("GRAY8", 16, 16);
        let input = noise(&caps, 17);
        for (bias, level) in [("1000", 255), ("-1000", 0)] {
            let output = filtered(&[("kernel", "gauss3"), ("bias", bias)], &caps, &input);
            assert!(output[0].samples.iter().all(|s| *s == level), "bias {bias}");
        }
    });
}

/// Reported: big-endian samples are computed as little-endian, 12-bit values are rescaled.
#[test]
fn sixteen_bit_samples_are_neither_swapped_nor_scaled() {
    watched(|| {
        let formats = formats();
        let offered = ["GRAY16_LE", "GRAY16_BE"]
            .into_iter()
            .filter(|f| formats.iter().any(|o| o == f));
        for format in offered {
            let caps = raw(format, 33, 17);
            let input = paint(&caps, |_, x, y| ((x * 131 + y * 977) % 4096) as u32);
            let output = filtered(&[("kernel", "gauss3")], &caps, &input);
            assert_eq!(output[0], correlate(&input[0], GAUSS3, 16), "{format}");
            assert!(output[0].samples.iter().all(|s| *s < 4096));
        }
    });
}

/// Reported: a vertical blur mixes the two fields, which are two points in time.
#[test]
fn interlaced_frames_are_filtered_field_by_field() {
    watched(|| {
        let comb = |_, _, y: usize| if y.is_multiple_of(2) { 40 } else { 200 };
        for format in ["GRAY8", "I420", "RGB"] {
            let mut caps = raw(format, 16, 24);
            let input = paint(&caps, comb);
            let progressive = filtered(&[("kernel", "box5")], &caps, &input);
            assert_ne!(progressive[0], input[0], "{format} as a whole is blurred");
            let target = caps.get_mut().expect("one owner");
            target.set("interlace-mode", "interleaved");
            target.set("field-order", "top-field-first");
            let output = filtered(&[("kernel", "box5")], &caps, &input);
            assert_eq!(output[0], input[0], "{format} field by field");
        }
    });
}

/// Reported: in a stream of mixed frames the flag of each frame is ignored.
#[test]
fn in_a_mixed_stream_the_flag_of_each_frame_decides() {
    watched(|| {
        let mut caps = raw("GRAY8", 16, 24);
        let input = paint(&caps, |_, _, y| if y.is_multiple_of(2) { 40 } else { 200 });
        caps.get_mut()
            .expect("one owner")
            .set("interlace-mode", "mixed");
        for interlaced in [true, false] {
            let mut buffer = write(&caps, &input);
            if interlaced {
                use gst_video::prelude::*;
                buffer
                    .get_mut()
                    .expect("one owner")
                    .set_video_flags(gst_video::VideoBufferFlags::INTERLACED);
            }
            let out = filter_one(cudaconv(&[("kernel", "box5")]), &caps, buffer);
            let same = read(&caps, &out)[0] == input[0];
            assert_eq!(
                same, interlaced,
                "fields stay apart only where there are fields"
            );
        }
    });
}

/// Reported: the two fields of an odd number of rows, or a frame of one row, are mixed up.
#[test]
fn interlaced_frames_of_few_or_odd_rows_are_filtered() {
    watched(|| {
        for height in [1u32, 2, 3, 5, 17] {
            for format in ["GRAY8", "I420", "NV12", "YUY2"] {
                let mut caps = raw(format, 9, height);
                caps.get_mut()
                    .expect("one owner")
                    .set("interlace-mode", "interleaved");
                let input = noise(&caps, 18);
                let output = filtered(&[("kernel", "gauss3")], &caps, &input);
                let luma = field_by_field(&input[0]);
                assert_eq!(output[0], luma, "{format} of {height} rows");
            }
        }
    });
}

/// A blur of the even rows among themselves and of the odd rows among themselves.
fn field_by_field(input: &Component) -> Component {
    let mut output = input.clone();
    for parity in 0..input.height.min(2) {
        let rows: Vec<usize> = (parity..input.height).step_by(2).collect();
        let field = Component {
            height: rows.len(),
            samples: rows
                .iter()
                .flat_map(|y| input.samples[y * input.width..][..input.width].to_vec())
                .collect(),
            ..input.clone()
        };
        let blurred = correlate(&field, GAUSS3, 16);
        for (index, y) in rows.iter().enumerate() {
            output.samples[y * input.width..][..input.width]
                .copy_from_slice(&blurred.samples[index * input.width..][..input.width]);
        }
    }
    output
}

/// Reported: frames hold old memory where nothing was computed; two runs of one input differ.
#[test]
fn two_runs_of_the_same_frame_give_the_same_bytes() {
    watched(|| {
        for format in formats() {
            let caps = raw(&format, 35, 19);
            let input = noise(&caps, 19);
            for kernel in ["sobel", "bilateral", "emboss"] {
                let run = || filtered(&[("kernel", kernel)], &caps, &input);
                assert_eq!(run(), run(), "{format} {kernel}");
            }
        }
    });
}
