//! The float64 definition against OpenCV and SciPy: `tests/golden` holds pictures and their
//! results, made by `scripts/make-golden.py`.

use std::collections::HashMap;

use gst::glib;
use gst::prelude::*;
use gstcudaconv::filter::reference::{self, Component};
use gstcudaconv::filter::{FilterSpec, Layout};

const CASES: &str = include_str!("golden/cases.txt");
const DATA: &[u8] = include_bytes!("golden/data.bin");

struct Picture {
    format: gst_video::VideoFormat,
    width: u32,
    height: u32,
    /// Where its bytes begin in `DATA`: the planes one after another, without padding.
    offset: usize,
}

impl Picture {
    fn read(fields: &[&str]) -> Picture {
        let (width, height) = fields[2].split_once('x').unwrap();
        Picture {
            format: gst_video::VideoFormat::from_string(fields[1]),
            width: width.parse().unwrap(),
            height: height.parse().unwrap(),
            offset: fields[3].parse().unwrap(),
        }
    }

    fn layout(&self, range: Option<&str>) -> Layout {
        let builder = gst_video::VideoInfo::builder(self.format, self.width, self.height);
        let colorimetry = match range {
            None => None,
            Some("limited") => Some("2:4:5:1".parse::<gst_video::VideoColorimetry>().unwrap()),
            Some(other) => panic!("no range {other}"),
        };
        let info = builder
            .colorimetry_if_some(colorimetry.as_ref())
            .build()
            .unwrap();
        Layout::new(&info).unwrap()
    }

    fn planes(&self, layout: &Layout) -> Vec<(&'static [u8], usize)> {
        let mut offset = self.offset;
        let plane = |size: &gstcudaconv::filter::layout::PlaneSize| {
            let bytes = &DATA[offset..][..size.row_bytes * size.rows];
            offset += bytes.len();
            (bytes, size.row_bytes)
        };
        layout.planes.iter().map(plane).collect()
    }
}

/// The value of an enum property by its nick.
fn nick<T: StaticType + for<'v> glib::value::FromValue<'v> + 'static>(nick: &str) -> T {
    let class = glib::EnumClass::with_type(T::static_type()).unwrap();
    let value = class.to_value_by_nick(nick);
    value
        .unwrap_or_else(|| panic!("no value {nick}"))
        .get_owned()
        .unwrap()
}

fn set(spec: &mut FilterSpec, property: &str, value: &str) {
    let number = || value.parse().unwrap();
    match property {
        "kernel" => spec.kernel = nick(value),
        "matrix" => spec.matrix = Some(value.parse().unwrap()),
        "divisor" => spec.divisor = number(),
        "bias" => spec.bias = number(),
        "radius" => spec.radius = value.parse().unwrap(),
        "sigma" => spec.sigma = number(),
        "amount" => spec.amount = number(),
        "sigma-space" => spec.sigma_space = number(),
        "sigma-color" => spec.sigma_color = number(),
        "window" => spec.window = nick(value),
        "distance" => spec.distance = nick(value),
        "border" => spec.border = nick(value),
        "border-value" => spec.border_value = number(),
        "planes" => spec.planes = nick(value),
        "alpha" => spec.alpha = nick(value),
        _ => panic!("no property {property}"),
    }
}

/// Checks the components of one case.
fn compare(components: &[Component], expected: &[u8], tolerance: f64, max: f64, case: &str) {
    let mut expected = expected
        .chunks_exact(4)
        .map(|bytes| f64::from(f32::from_le_bytes(bytes.try_into().unwrap())));
    for component in components {
        let expected: Vec<f64> = expected.by_ref().take(component.values.len()).collect();
        assert_eq!(expected.len(), component.values.len());
        let largest = expected
            .iter()
            .fold(1.0f64, |most, value| most.max(value.abs()));
        for (index, (value, expected)) in component.values.iter().zip(&expected).enumerate() {
            let (x, y) = (index % component.width, index / component.width);
            let deviation = (value - expected).abs() / (tolerance * largest);
            assert!(
                deviation <= 1.0,
                "{case}\ngroup {} channel {} ({x}, {y}): {value}, expected {expected}",
                component.group,
                component.channel
            );
            let code = f64::from(component.codes[index]);
            let distance = (code - expected.clamp(0.0, max)).abs();
            assert!(
                distance <= 0.5 + tolerance * largest,
                "{case}\n({x}, {y}): code {code}"
            );
        }
    }
}

#[test]
fn the_definition_gives_what_opencv_and_scipy_give() {
    gst::init().unwrap();
    let mut pictures: HashMap<&str, Picture> = HashMap::new();
    let mut kernels: HashMap<i32, usize> = HashMap::new();
    for line in CASES.lines().filter(|line| !line.starts_with('#')) {
        let fields: Vec<&str> = line.split(' ').collect();
        if fields[0] == "picture" {
            pictures.insert(fields[1], Picture::read(&fields[1..]));
            continue;
        }
        let (picture, tolerance) = (&pictures[fields[1]], fields[3].parse().unwrap());
        let offset: usize = fields[4].parse().unwrap();
        let mut spec = FilterSpec::default();
        let mut range = None;
        for field in &fields[5..] {
            let (property, value) = field.split_once('=').unwrap();
            match property {
                "range" => range = Some(value),
                _ => set(&mut spec, property, value),
            }
        }
        let layout = picture.layout(range);
        let components = reference::filter(&spec, &layout, &picture.planes(&layout), false);
        let max = f64::from(layout.max_code());
        compare(&components.unwrap(), &DATA[offset..], tolerance, max, line);
        *kernels.entry(spec.kernel as i32).or_default() += 1;
    }
    // Every kernel but identity, so that a case lost in the file cannot go unseen.
    let class = glib::EnumClass::with_type(gstcudaconv::filter::spec::Kernel::static_type());
    for value in class.unwrap().values() {
        let known = kernels.contains_key(&value.value());
        assert!(
            known || value.nick() == "identity",
            "no case of {}",
            value.nick()
        );
    }
}
