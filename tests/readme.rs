//! The README's tables say what the element says of itself.

use std::collections::BTreeSet;

use gst::glib;
use gst::prelude::*;

const README: &str = include_str!("../README.md");

fn element() -> gst::Element {
    gst::init().unwrap();
    gstcudaconv::plugin_register_static().unwrap();
    gst::ElementFactory::make("cudaconv").build().unwrap()
}

/// Cells of the table rows under a heading of the second level, without the two rows of its head.
fn table(heading: &str) -> Vec<Vec<String>> {
    let section = README
        .split("\n## ")
        .find(|section| section.lines().next() == Some(heading))
        .unwrap_or_else(|| panic!("README has no section {heading:?}"));
    section
        .lines()
        .filter(|line| line.starts_with('|'))
        .skip(2)
        .map(|row| {
            let row = row.trim_matches('|').replace("\\|", "¦");
            row.split('|')
                .map(|cell| cell.trim().replace('−', "-"))
                .collect()
        })
        .collect()
}

/// The texts in backticks.
fn quoted(cell: &str) -> Vec<&str> {
    cell.split('`').skip(1).step_by(2).collect()
}

fn nicks(pspec: &glib::ParamSpecEnum) -> Vec<String> {
    let values = pspec.enum_class();
    values.values().iter().map(|v| v.nick().into()).collect()
}

/// Type and range as the table writes them; a list of nicks for an enum other than `kernel`, whose
/// values have a table of their own.
fn type_and_range(pspec: &glib::ParamSpec) -> String {
    let bounds = |name: &str, min: f64, max: f64, widest: f64| match (min, max) {
        (min, max) if min <= -widest && max >= widest => name.to_string(),
        (min, max) if max >= widest => format!("{name} {min}.."),
        (min, max) => format!("{name} {min}..{max}"),
    };
    if let Some(p) = pspec.downcast_ref::<glib::ParamSpecDouble>() {
        bounds("double", p.minimum(), p.maximum(), f32::MAX.into())
    } else if let Some(p) = pspec.downcast_ref::<glib::ParamSpecInt>() {
        bounds(
            "int",
            p.minimum().into(),
            p.maximum().into(),
            i32::MAX.into(),
        )
    } else if let Some(p) = pspec.downcast_ref::<glib::ParamSpecUInt>() {
        bounds(
            "uint",
            p.minimum().into(),
            p.maximum().into(),
            u32::MAX.into(),
        )
    } else if pspec.is::<glib::ParamSpecUInt64>() {
        "uint64, ns".into()
    } else if pspec.is::<glib::ParamSpecBoolean>() {
        "bool".into()
    } else if pspec.is::<glib::ParamSpecString>() {
        "string".into()
    } else if let Some(p) = pspec.downcast_ref::<glib::ParamSpecEnum>() {
        match pspec.name() {
            "kernel" => "enum".into(),
            _ => nicks(p)
                .iter()
                .map(|nick| format!("`{nick}`"))
                .collect::<Vec<_>>()
                .join(" "),
        }
    } else {
        "structure".into()
    }
}

fn default(pspec: &glib::ParamSpec) -> String {
    let value = pspec.default_value();
    if !pspec.flags().contains(glib::ParamFlags::WRITABLE) {
        return String::new();
    }
    if let Some((_, value)) = glib::EnumValue::from_value(value) {
        return format!("`{}`", value.nick());
    }
    if let Ok(text) = value.get::<Option<String>>() {
        return match text.unwrap_or_default() {
            text if text.is_empty() => "empty".into(),
            text => format!("`{text}`"),
        };
    }
    if let Ok(number) = value.get::<f64>() {
        return format!("`{number}`");
    }
    let text = value
        .transform::<String>()
        .unwrap()
        .get::<String>()
        .unwrap();
    format!("`{}`", text.to_lowercase())
}

#[test]
fn property_table_agrees_with_the_element() {
    let element = element();
    let expected: Vec<Vec<String>> = element
        .list_properties()
        .iter()
        .filter(|pspec| pspec.owner_type() == element.type_())
        .map(|pspec| {
            let flags = pspec.flags();
            let writable = flags.contains(glib::ParamFlags::WRITABLE);
            let playing = flags.contains(gst::PARAM_FLAG_MUTABLE_PLAYING);
            let ready_only = if writable && !playing { " (R)" } else { "" };
            let read_only = if writable { "" } else { ", read only" };
            vec![
                format!("`{}`{ready_only}", pspec.name()),
                type_and_range(pspec) + read_only,
                default(pspec),
            ]
        })
        .collect();
    let found: Vec<Vec<String>> = table("Properties")
        .into_iter()
        .map(|row| row[..3].to_vec())
        .collect();
    assert_eq!(found, expected);
}

#[test]
fn kernel_table_names_every_kernel_once() {
    let pspec = element().find_property("kernel").unwrap();
    let expected = nicks(pspec.downcast_ref().unwrap());
    let table = table("Kernels");
    let mut found: Vec<&str> = table.iter().flat_map(|row| quoted(&row[0])).collect();
    found.sort_unstable();
    let mut expected: Vec<&str> = expected.iter().map(String::as_str).collect();
    expected.sort_unstable();
    assert_eq!(found, expected);
}

#[test]
fn format_table_names_the_formats_of_the_pad_template() {
    let caps = element().pad_template("sink").unwrap().caps().clone();
    let expected: BTreeSet<String> = caps
        .iter()
        .flat_map(|s| {
            let formats = s.value("format").unwrap();
            match formats.get::<gst::List>() {
                Ok(list) => list.iter().map(|v| v.get::<String>().unwrap()).collect(),
                Err(_) => vec![formats.get::<String>().unwrap()],
            }
        })
        .collect();
    let table = table("Formats");
    let found: BTreeSet<String> = table
        .iter()
        .flat_map(|row| row[1].split(", "))
        .map(String::from)
        .collect();
    assert_eq!(found, expected);
}
