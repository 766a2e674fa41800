//! Every kernel, format and border at five sizes.

use std::collections::HashMap;
use std::sync::Arc;

use gstcudaconv::filter::layout::{PlaneSize, Sample};
use gstcudaconv::filter::reference::{self, Component};
use gstcudaconv::filter::spec::Kernel;
use gstcudaconv::filter::{Channel, FilterSpec, Group, Layout, Role};

use crate::support::*;

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
        Sample::U16Le { shift: 0 }
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

/// All formats with one spec and border. The scalar path, slow in debug builds, runs where
/// `scalar` says.
fn check_formats(
    spec: &FilterSpec,
    (width, height): (u32, u32),
    scalar: impl Fn(usize) -> bool,
    agreement: &mut Agreement,
) {
    let mut expectations = Expectations::default();
    for (index, format) in formats().into_iter().enumerate() {
        let layout = layout(format, width, height);
        let expected = expectations.components(spec, &layout);
        let placement = [Placement::Tight, Placement::Odd, Placement::Aligned][index % 3];
        let input = Picture::new(&layout, placement, scene(layout.depth));
        if scalar(index) {
            check(spec, &input, false, &expected, agreement);
        } else {
            let result = run(&plan(spec, &layout), &input, Placement::Odd, false);
            let what = format!("{format:?} {width}x{height} {spec:?}");
            check_against(&result, &expected, false, agreement, &what);
            check_copies(spec, &input, &result, &what);
        }
    }
}

fn check_size(size: (u32, u32), scalar: impl Fn(usize, usize) -> bool) {
    let mut agreement = Agreement::default();
    let mut cases = 0;
    for spec in specs() {
        for border in BORDERS {
            let spec = FilterSpec {
                border,
                border_value: 37.0,
                ..spec.clone()
            };
            check_formats(&spec, size, |format| scalar(cases, format), &mut agreement);
            cases += 1;
        }
    }
    agreement.finish();
}

#[test]
fn at_1x1() {
    check_size((1, 1), |_, _| true);
}

#[test]
fn at_2x2() {
    check_size((2, 2), |_, _| true);
}

#[test]
fn at_33x17() {
    check_size((33, 17), |_, _| true);
}

#[test]
fn at_64x48() {
    check_size((64, 48), |case, format| (case + format) % 3 == 0);
}

#[test]
fn at_322x241() {
    check_size((322, 241), |case, format| (case + format) % 16 == 0);
}
