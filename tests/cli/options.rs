//! The filter's options are the element's properties, no more and no fewer.

use gst::glib;
use gst::prelude::*;

use crate::program::{folder, plugin_file, succeed};

/// The element of this build's plugin file.
pub fn element() -> gst::Element {
    gst::init().unwrap();
    gst::Plugin::load_file(plugin_file()).unwrap();
    gst::ElementFactory::make("cudaconv").build().unwrap()
}

#[test]
fn help_lists_every_writable_property_with_its_choices() {
    for subcommand in ["run", "webcam"] {
        lists_every_property(&succeed(&folder("help"), [subcommand, "--help"]).out);
    }
}

fn lists_every_property(help: &str) {
    let element = element();
    let mut listed = 0;
    for spec in element.list_properties() {
        if spec.owner_type() != element.type_() {
            continue;
        }
        let option = format!("--{} ", spec.name());
        let writable = spec.flags().contains(glib::ParamFlags::WRITABLE);
        assert_eq!(help.contains(&option), writable, "{option}");
        if let Some(choice) = spec.downcast_ref::<glib::ParamSpecEnum>() {
            for value in choice.enum_class().values() {
                assert!(help.contains(value.nick()), "{option}{}", value.nick());
            }
        }
        listed += usize::from(writable);
    }
    assert!(listed > 20, "{listed}");
    for text in [
        "Exit codes:",
        "130",
        "[default: replicate]",
        "whole numbers from 0 to 32",
    ] {
        assert!(help.contains(text), "{text}");
    }
}

#[test]
fn doctor_finds_all_that_run_needs() {
    let found = succeed(&folder("doctor"), ["doctor"]).out;
    let line = |name: &str| {
        let line = found
            .lines()
            .find(|line| line.split_whitespace().nth(1) == Some(name));
        line.unwrap_or_else(|| panic!("no {name} in {found}"))
    };
    let plugin = plugin_file();
    assert!(line("plugin").contains(plugin.to_str().unwrap()), "{found}");
    assert!(
        line("plugin").contains(env!("CARGO_PKG_VERSION")),
        "{found}"
    );
    for name in ["GStreamer", "element", "mp4mux", "H.264", "CPU"] {
        assert!(line(name).starts_with("ok "), "{found}");
    }
    assert!(line("NVIDIA").starts_with("note "), "{found}");
    assert!(
        found.ends_with("cudaconv run works on this machine.\n"),
        "{found}"
    );
}

#[test]
fn the_readme_has_the_keys_of_the_webcam_demo() {
    let help = succeed(&folder("keys"), ["webcam", "--help"]).out;
    let (_, keys) = help
        .split_once("Keys, in the terminal and in the window:\n")
        .unwrap();
    let expected: Vec<&str> = keys
        .lines()
        .take_while(|line| line.starts_with("    "))
        .flat_map(|line| line.get(4..8).unwrap().split_whitespace())
        .collect();
    let readme = include_str!("../../README.md");
    let (_, section) = readme.split_once("| key | what it does |\n").unwrap();
    let found: Vec<&str> = section
        .lines()
        .skip(1)
        .take_while(|line| line.starts_with('|'))
        .flat_map(|line| line.split('|').nth(1).unwrap().split_whitespace())
        .map(|key| key.trim_matches('`'))
        .collect();
    assert!(found.len() > 5, "{found:?}");
    assert_eq!(found, expected);
}
