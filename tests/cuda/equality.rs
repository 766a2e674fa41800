//! The GPU's picture is the CPU's, byte by byte.

use gstcudaconv::filter::FilterSpec;
use gstcudaconv::filter::spec::{Alpha, Border, Kernel, Method, Planes};

use crate::engines::{Case, Memory, cpu, formats, gpu, layout, spec, values};

/// One format of each kind of layout and depth.
const KINDS: [&str; 10] = [
    "GRAY8",
    "GRAY16_LE",
    "I420",
    "NV12",
    "YUY2",
    "RGB",
    "BGRA",
    "AYUV",
    "I420_10LE",
    "P010_10LE",
];

#[test]
fn every_kernel_format_and_border() {
    let (gpu, cpu) = (gpu(), cpu());
    for format in formats(&[]) {
        let layout = layout(format, 33, 17);
        for kernel in values::<Kernel>() {
            for border in values::<Border>() {
                let case = Case {
                    spec: &FilterSpec {
                        border,
                        border_value: 100.0,
                        ..spec(kernel)
                    },
                    layout: &layout,
                    memory: Memory::Tight,
                    interlaced: false,
                };
                assert!(case.compare(&*gpu, &*cpu), "{kernel:?} by the method auto");
            }
        }
    }
}

#[test]
fn every_method_and_size() {
    let (gpu, cpu) = (gpu(), cpu());
    let mut compared = [0; 3];
    for format in formats(&KINDS) {
        for (width, height) in [(1, 1), (2, 2), (3, 1), (1, 9), (31, 9), (64, 48), (65, 33)] {
            let layout = layout(format, width, height);
            for kernel in values::<Kernel>() {
                let methods = [Method::Naive, Method::Tile, Method::Separable];
                for (method, compared) in methods.into_iter().zip(&mut compared) {
                    let case = Case {
                        spec: &FilterSpec {
                            method,
                            border: Border::Reflect101,
                            ..spec(kernel)
                        },
                        layout: &layout,
                        memory: Memory::Pinned,
                        interlaced: false,
                    };
                    *compared += usize::from(case.compare(&*gpu, &*cpu));
                }
            }
        }
    }
    let [naive, tile, separable] = compared;
    assert!(
        naive == tile && tile > separable && separable > 0,
        "{compared:?}"
    );
}

#[test]
fn every_setting_that_changes_the_picture() {
    let (gpu, cpu) = (gpu(), cpu());
    let changes: [(&str, fn(&mut FilterSpec)); 10] = [
        ("bias", |spec| spec.bias = 17.5),
        ("divisor", |spec| spec.divisor = 7.0),
        ("all planes", |spec| spec.planes = Planes::All),
        ("luma", |spec| spec.planes = Planes::Luma),
        ("alpha filtered", |spec| spec.alpha = Alpha::Filter),
        ("alpha premultiplied", |spec| {
            spec.alpha = Alpha::Premultiply
        }),
        ("amount", |spec| spec.amount = 2.5),
        ("a large radius", |spec| spec.radius = 12),
        ("sigma", |spec| spec.sigma = 2.2),
        ("the largest matrix", |spec| {
            let row = |y: i32| {
                (0..31)
                    .map(|x| (x * y % 7 - 3).to_string())
                    .collect::<Vec<_>>()
            };
            let rows: Vec<String> = (0..31).map(|y| row(y).join(" ")).collect();
            spec.kernel = Kernel::Custom;
            spec.matrix = Some(rows.join(";").parse().unwrap());
        }),
    ];
    for (name, change) in changes {
        let mut compared = 0;
        for format in formats(&KINDS) {
            let layout = layout(format, 45, 38);
            let kernels = [
                Kernel::Gauss,
                Kernel::Sobel,
                Kernel::Unsharp,
                Kernel::Bilateral,
            ];
            for kernel in kernels {
                let mut spec = spec(kernel);
                change(&mut spec);
                let case = Case {
                    spec: &spec,
                    layout: &layout,
                    memory: Memory::Padded,
                    interlaced: false,
                };
                compared += usize::from(case.compare(&*gpu, &*cpu));
            }
        }
        assert!(compared > 0, "{name}");
    }
}

#[test]
fn every_layout_in_memory_and_both_fields() {
    let (gpu, cpu) = (gpu(), cpu());
    for format in formats(&[]) {
        for (width, height) in [(33, 17), (32, 18), (7, 1)] {
            let layout = layout(format, width, height);
            for memory in [Memory::Tight, Memory::Padded, Memory::Pinned] {
                for interlaced in [false, true] {
                    let case = Case {
                        spec: &spec(Kernel::Gauss5),
                        layout: &layout,
                        memory,
                        interlaced,
                    };
                    assert!(case.compare(&*gpu, &*cpu));
                }
            }
        }
    }
}
