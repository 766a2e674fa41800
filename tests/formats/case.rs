//! A frame and a filter in one line of text: what a random test shrinks to, and what a unit test can
//! be made of.
//!
//! `NV12 33x17 fields seed=7 in=3,5,each out=0,0,one kernel=gauss5 border=wrap`: format, size, fields
//! if it is interlaced, the seed of the picture, where input and output lie (bytes before each plane,
//! bytes behind each row, planes in one memory or each in its own), and the properties that are not
//! at their defaults. `matrix` comes last, as it has blanks.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use gst::glib;
use gst::glib::translate::{FromGlib, IntoGlib};
use gst::prelude::*;
use gstcudaconv::filter::spec::Matrix;
use gstcudaconv::filter::{FilterSpec, Layout};

use super::support::{Picture, Placement, layout, scene_of};

#[derive(Clone, PartialEq)]
pub struct Case {
    pub format: gst_video::VideoFormat,
    pub width: u32,
    pub height: u32,
    pub interlaced: bool,
    pub seed: u64,
    pub input: Placement,
    pub output: Placement,
    pub spec: FilterSpec,
}

impl Case {
    pub fn layout(&self) -> Arc<Layout> {
        layout(self.format, self.width, self.height)
    }

    pub fn picture(&self) -> Picture {
        let layout = self.layout();
        Picture::new(&layout, self.input, scene_of(layout.depth, self.seed))
    }
}

/// The nick of an enum's value.
fn nick<T: StaticType + IntoGlib<GlibType = i32>>(value: T) -> String {
    let class = glib::EnumClass::with_type(T::static_type()).expect("an enum");
    let value = class.value(value.into_glib()).expect("a value of it");
    value.nick().to_string()
}

/// The value of an enum with this nick.
fn named<T: StaticType + FromGlib<i32>>(nick: &str) -> T {
    let class = glib::EnumClass::with_type(T::static_type()).expect("an enum");
    let value = class.value_by_nick(nick);
    let value = value.unwrap_or_else(|| panic!("no value {nick:?}"));
    // SAFETY: the number is that of a value of this enum.
    unsafe { T::from_glib(value.value()) }
}

fn place(placement: Placement) -> String {
    match placement {
        Placement::Chosen { lead, gap, apart } => {
            format!("{lead},{gap},{}", if apart { "each" } else { "one" })
        }
        other => panic!("{other:?} is no choice"),
    }
}

fn placed(text: &str) -> Placement {
    let parts: Vec<&str> = text.split(',').collect();
    Placement::Chosen {
        lead: parts[0].parse().expect("bytes before a plane"),
        gap: parts[1].parse().expect("bytes behind a row"),
        apart: parts[2] == "each",
    }
}

/// Rows with as many digits as they need.
fn written(matrix: &Matrix) -> String {
    let rows = matrix.coefficients.chunks(matrix.width);
    let rows = rows.map(|row| row.iter().map(f32::to_string).collect::<Vec<_>>().join(" "));
    rows.map(|row| row + ";").collect::<Vec<_>>().join(" ")
}

macro_rules! enums {
    ($macro:ident) => {
        $macro!("kernel", kernel);
        $macro!("border", border);
        $macro!("planes", planes);
        $macro!("alpha", alpha);
        $macro!("method", method);
        $macro!("window", window);
        $macro!("distance", distance);
    };
}

macro_rules! numbers {
    ($macro:ident) => {
        $macro!("radius", radius);
        $macro!("divisor", divisor);
        $macro!("bias", bias);
        $macro!("sigma", sigma);
        $macro!("amount", amount);
        $macro!("sigma-space", sigma_space);
        $macro!("sigma-color", sigma_color);
        $macro!("border-value", border_value);
    };
}

impl fmt::Display for Case {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let fields = if self.interlaced { " fields" } else { "" };
        write!(
            f,
            "{} {}x{}{fields} seed={} in={} out={}",
            self.format.to_str(),
            self.width,
            self.height,
            self.seed,
            place(self.input),
            place(self.output)
        )?;
        let default = FilterSpec::default();
        macro_rules! write_enum {
            ($name:literal, $field:ident) => {
                if self.spec.$field != default.$field {
                    write!(f, " {}={}", $name, nick(self.spec.$field))?;
                }
            };
        }
        enums!(write_enum);
        macro_rules! write_number {
            ($name:literal, $field:ident) => {
                if self.spec.$field != default.$field {
                    write!(f, " {}={}", $name, self.spec.$field)?;
                }
            };
        }
        numbers!(write_number);
        match &self.spec.matrix {
            Some(matrix) => write!(f, " matrix={}", written(matrix)),
            None => Ok(()),
        }
    }
}

/// As a line of a unit test.
impl fmt::Debug for Case {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "\n\n    is_right(\"{self}\");\n\n")
    }
}

impl FromStr for Case {
    type Err = std::convert::Infallible;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let (words, matrix) = match text.split_once(" matrix=") {
            Some((words, matrix)) => (words, Some(matrix.parse().expect("a matrix"))),
            None => (text, None),
        };
        let mut words = words.split(' ');
        let mut next = || words.next().expect("format and size");
        let format = gst_video::VideoFormat::from_string(next());
        let (width, height) = next().split_once('x').expect("WIDTHxHEIGHT");
        let nowhere = placed("0,0,one");
        let mut case = Case {
            format,
            width: width.parse().expect("a width"),
            height: height.parse().expect("a height"),
            interlaced: false,
            seed: 0,
            input: nowhere,
            output: nowhere,
            spec: FilterSpec {
                matrix,
                ..FilterSpec::default()
            },
        };
        for word in words {
            case.set(word);
        }
        Ok(case)
    }
}

impl Case {
    fn set(&mut self, word: &str) {
        let (name, value) = word.split_once('=').unwrap_or((word, ""));
        macro_rules! read_enum {
            ($name:literal, $field:ident) => {
                if name == $name {
                    self.spec.$field = named(value);
                    return;
                }
            };
        }
        enums!(read_enum);
        macro_rules! read_number {
            ($name:literal, $field:ident) => {
                if name == $name {
                    self.spec.$field = value.parse().expect("a number");
                    return;
                }
            };
        }
        numbers!(read_number);
        match name {
            "fields" => self.interlaced = true,
            "seed" => self.seed = value.parse().expect("a number"),
            "in" => self.input = placed(value),
            "out" => self.output = placed(value),
            _ => panic!("no property {name:?}"),
        }
    }
}
