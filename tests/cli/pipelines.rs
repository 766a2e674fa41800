//! The commands in the comments of `pipelines/` can be pasted.

use gst::prelude::*;

use crate::options::element;

const FILES: [&str; 8] = [
    include_str!("../../pipelines/file.txt"),
    include_str!("../../pipelines/compare.txt"),
    include_str!("../../pipelines/test.txt"),
    include_str!("../../pipelines/webcam.txt"),
    include_str!("../../pipelines/network-camera.txt"),
    include_str!("../../pipelines/rtp-receive.txt"),
    include_str!("../../pipelines/rtp-send.txt"),
    include_str!("../../pipelines/srt-send.txt"),
];

/// What follows `gst-launch-1.0` in the comments.
fn commands(file: &str) -> Vec<&str> {
    let comments = file.lines().filter_map(|line| line.strip_prefix('#'));
    comments
        .filter_map(|line| line.trim().strip_prefix("gst-launch-1.0 "))
        .map(|command| command.trim_start_matches("-e ").trim())
        .collect()
}

#[test]
fn every_file_has_a_command_that_gst_launch_takes() {
    // The element must be known.
    drop(element());
    for file in FILES {
        let commands = commands(file);
        assert!(!commands.is_empty(), "{file}");
        for command in commands {
            let mut context = gst::ParseContext::new();
            let flags = gst::ParseFlags::FATAL_ERRORS;
            // What a shell makes of the quotes around caps, which hold no blanks.
            let command = command.replace('"', "");
            let parsed = gst::parse::launch_full(&command, Some(&mut context), flags);
            let pipeline = parsed.unwrap_or_else(|error| panic!("{command}: {error}"));
            let pipeline = pipeline.downcast::<gst::Bin>().unwrap();
            let filter = pipeline.by_name("filter");
            assert!(filter.is_some(), "{command} has no filter");
        }
    }
}
