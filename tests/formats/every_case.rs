//! Every kernel, format and border at five sizes.

use std::collections::HashMap;
use std::sync::Arc;

use gst_video::VideoFormat;
use gstcudaconv::filter::layout::{PlaneSize, Sample};
use gstcudaconv::filter::reference::{self, Component};
use gstcudaconv::filter::spec::Kernel;
use gstcudaconv::filter::{Channel, FilterSpec, Group, Layout, Role};

use crate::support::*;

/// The formats that most pipelines carry.
const FIRST: [VideoFormat; 17] = [
    VideoFormat::Gray8,
    VideoFormat::Gray16Le,
    VideoFormat::I420,
    VideoFormat::Yv12,
    VideoFormat::Nv12,
    VideoFormat::Y42b,
    VideoFormat::Y444,
    VideoFormat::Yuy2,
    VideoFormat::Uyvy,
    VideoFormat::Rgb,
    VideoFormat::Bgr,
    VideoFormat::Rgbx,
    VideoFormat::Bgrx,
    VideoFormat::Rgba,
    VideoFormat::Bgra,
    VideoFormat::I42010le,
    VideoFormat::P01010le,
];

/// Every kernel, with sizes that small frames do not contain and large ones can afford.
fn specs() -> Vec<FilterSpec> {
    let mut specs = Vec::new();
    for kernel in kernels() {
        let spec = FilterSpec {
            kernel,
            ..FilterSpec::default()
        };
        match kernel {
            Kernel::Custom => {
                for matrix in [
                    "3 -1 4; 1 -5 9; 2 6 -7",
                    "1 2 4 8 16;",
                    "0.3; -0.2; 0.7",
                    "1 -2 3 0 5 -6 7; 0.1 0.2 0.3 0.4 0.5 0.6 0.7; 2 -4 6 0 10 -12 14",
                ] {
                    let matrix = Some(matrix.parse().unwrap());
                    specs.push(FilterSpec {
                        matrix,
                        ..spec.clone()
                    });
                }
            }
            Kernel::Box => specs.push(FilterSpec { radius: 4, ..spec }),
            Kernel::Gauss => {
                specs.push(FilterSpec {
                    radius: 3,
                    sigma: 1.2,
                    ..spec.clone()
                });
                specs.push(spec);
            }
            Kernel::Unsharp => specs.push(FilterSpec {
                sigma: 0.9,
                amount: 0.8,
                ..spec
            }),
            Kernel::Sharpen => {
                specs.push(FilterSpec {
                    amount: 0.7,
                    ..spec.clone()
                });
                specs.push(spec);
            }
            Kernel::Bilateral => specs.push(FilterSpec {
                radius: 2,
                sigma_space: 1.5,
                sigma_color: 40.0,
                ..spec
            }),
            _ => specs.push(spec),
        }
    }
    specs
}

/// What the definition gives for the channels of a group, computed once for all formats that have
/// such a group.
#[derive(Default)]
struct Expectations {
    known: HashMap<(u32, Group), Arc<Vec<Vec<u32>>>>,
}

impl Expectations {
    /// The codes of every channel of `group`, padding left out, for the samples of [`scene`].
    /// `first` is the component that the group begins with.
    fn of(
        &mut self,
        spec: &FilterSpec,
        layout: &Layout,
        index: usize,
        first: usize,
    ) -> Arc<Vec<Vec<u32>>> {
        let alone = alone(layout, &layout.groups[index], first);
        let key = (layout.depth, alone.groups[0].clone());
        let known = self.known.entry(key).or_insert_with(|| {
            let scene = scene(layout.depth);
            let code = |component, x, y| scene(component + first, x, y);
            let picture = Picture::new(&Arc::new(alone.clone()), Placement::Tight, code);
            let expected = reference::filter(spec, &alone, &picture.planes(), false).unwrap();
            Arc::new(
                expected
                    .into_iter()
                    .map(|component| component.codes)
                    .collect(),
            )
        });
        known.clone()
    }

    fn components(&mut self, spec: &FilterSpec, layout: &Layout) -> Vec<Component> {
        let mut expected = Vec::new();
        for (index, group) in layout.groups.iter().enumerate() {
            let Some(&(first, ..)) = components(layout).iter().find(|(_, g, _)| *g == index) else {
                continue;
            };
            let codes = self.of(spec, layout, index, first);
            let channels = components(layout)
                .into_iter()
                .filter(|(_, g, _)| *g == index);
            for ((_, group_index, channel), codes) in channels.zip(codes.iter()) {
                expected.push(Component {
                    group: group_index,
                    channel,
                    width: group.width,
                    height: group.height,
                    values: Vec::new(),
                    codes: codes.clone(),
                });
            }
        }
        expected
    }
}

/// A layout of one group with a plane for each channel, the same whatever format it comes from.
/// Planes are numbered from `first`'s place, so that groups of different components differ.
fn alone(layout: &Layout, group: &Group, first: usize) -> Layout {
    let sample = if layout.depth == 8 {
        Sample::U8
    } else {
        Sample::U16Le {
            shift: 0,
            depth: layout.depth as u8,
        }
    };
    let step = sample.bytes();
    let coloured = group
        .channels
        .iter()
        .filter(|channel| channel.role != Role::Padding);
    let channels: Vec<Channel> = coloured
        .enumerate()
        .map(|(index, channel)| Channel {
            plane: first + index,
            offset: 0,
            step,
            ..*channel
        })
        .collect();
    let plane = PlaneSize {
        row_bytes: group.width * step,
        rows: group.height,
    };
    Layout {
        planes: vec![plane; first + channels.len()],
        groups: vec![Group {
            channels,
            ..group.clone()
        }],
        sample,
        ..layout.clone()
    }
}

/// The scene in every format, placed in memory in turn in each way.
fn pictures((width, height): (u32, u32)) -> Vec<Picture> {
    let placements = [Placement::Tight, Placement::Odd, Placement::Aligned];
    formats()
        .into_iter()
        .zip(placements.into_iter().cycle())
        .map(|(format, placement)| {
            let layout = layout(format, width, height);
            Picture::new(&layout, placement, scene(layout.depth))
        })
        .collect()
}

/// How thoroughly a case is checked.
#[derive(Clone, Copy, PartialEq)]
enum Thoroughness {
    /// By the engine's own choice and by the scalar path, which is slow in debug builds.
    Both,
    /// By the engine's own choice.
    Auto,
    Not,
}

/// Every spec with every border on every format. `thoroughness` is that of a case, counted over
/// specs and borders, and a format.
fn check_size(size: (u32, u32), thoroughness: impl Fn(usize, usize) -> Thoroughness) {
    let inputs = pictures(size);
    let mut agreement = Agreement::default();
    let borders = || BORDERS.into_iter();
    let cases = specs()
        .into_iter()
        .flat_map(|spec| borders().map(move |b| (spec.clone(), b)));
    for (case, (spec, border)) in cases.enumerate() {
        let spec = FilterSpec {
            border,
            border_value: 37.0,
            ..spec
        };
        let mut expectations = Expectations::default();
        for (format, input) in inputs.iter().enumerate() {
            let how = thoroughness(case, format);
            if how == Thoroughness::Not {
                continue;
            }
            let expected = expectations.components(&spec, &input.layout);
            if how == Thoroughness::Both {
                check(&spec, input, false, &expected, &mut agreement);
            } else {
                check_auto(&spec, input, false, &expected, &mut agreement);
            }
        }
    }
    agreement.finish();
}

#[test]
fn at_1x1() {
    check_size((1, 1), |_, _| Thoroughness::Both);
}

#[test]
fn at_2x2() {
    check_size((2, 2), |_, _| Thoroughness::Both);
}

#[test]
fn at_33x17() {
    check_size((33, 17), |_, _| Thoroughness::Both);
}

#[test]
fn at_64x48() {
    check_size((64, 48), |case, format| match (case + format) % 3 {
        0 => Thoroughness::Both,
        _ => Thoroughness::Auto,
    });
}

#[test]
fn at_322x241() {
    // Formats that differ from these in the order of their bytes alone get every fourth case.
    let first: Vec<bool> = formats().into_iter().map(|f| FIRST.contains(&f)).collect();
    check_size((322, 241), |case, format| {
        match (case + format) % first.len() {
            0 => Thoroughness::Both,
            n if first[format] || n % 4 == 0 => Thoroughness::Auto,
            _ => Thoroughness::Not,
        }
    });
}
