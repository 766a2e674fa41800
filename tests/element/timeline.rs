//! The timeline: `CUDACONV_TRACE=FILE.json`.

use gst::prelude::*;

use crate::common::frames::{assert_raised, gray, numbered};
use crate::common::isolated;
use crate::common::pads::{Pads, texts};
use crate::common::timeline::{self, Timeline};
use crate::common::watchdog::{thread_names, watched};
use crate::common::{backend, cudaconv, raising};

/// Runs the ignored test `name` of this file with a timeline in `file`.
fn with_timeline(name: &str, file: &str) -> Timeline {
    let path = timeline::fresh_file(file);
    let variables = [("CUDACONV_TRACE", path.to_str().expect("a plain name"))];
    isolated::passes(&format!("timeline::{name}"), &variables);
    timeline::read(&path)
}

fn named(name: &str, depth: u32) -> gst::Element {
    let element = cudaconv(&[("name", name), ("kernel", "gauss3"), ("bias", "1")]);
    element.set_property("depth", depth);
    element
}

fn run(pads: &Pads, frames: u64) {
    pads.begin(&gray());
    pads.push_all(0..frames);
    assert!(pads.end());
    pads.wait_event(gst::EventType::Eos);
    pads.stop();
}

/// Reported: the frames of several elements are one heap, and names with quotes break the file.
#[test]
fn each_element_has_its_tracks_and_each_frame_its_stages() {
    watched(|| {
        let timeline = with_timeline("alone_two_elements", "elements");
        for (element, depth, frames) in [("left", 1, 10), ("a \"name\" \\ with\tmore", 3, 20)] {
            timeline.assert_in_order(element, 0..frames);
            assert!(timeline.of_frame(element, frames).is_empty());
            let tracks = timeline.tracks.iter().filter(|track| track.0 == element);
            let tracks: Vec<&str> = tracks.map(|track| track.1.as_str()).collect();
            let mut wanted = vec!["chain".to_owned()];
            wanted.extend((0..depth).map(|slot| format!("slot {slot}")));
            wanted.push("output task".into());
            assert_eq!(tracks, wanted);
        }
        for span in timeline.spans.iter().filter(|span| span.name == "push") {
            assert!(span.arguments["latency-ns"].as_u64() > Some(0), "{span:?}");
            assert_eq!(span.arguments["bypassed"], false);
        }
        for span in timeline.spans.iter().filter(|span| span.name == "kernel") {
            assert_eq!(span.arguments["backend"], backend());
        }
        // Every arrow goes from an arrival over a slot to a push.
        let ends = |kind: &str| {
            timeline
                .arrows
                .iter()
                .filter(|arrow| arrow.1 == kind)
                .count()
        };
        assert_eq!([ends("s"), ends("t"), ends("f")], [30, 30, 30]);
    });
}

#[test]
#[ignore = "each_element_has_its_tracks_and_each_frame_its_stages runs it in a process of its own"]
fn alone_two_elements() {
    if !isolated::is_alone() {
        return;
    }
    watched(|| {
        run(&Pads::around(named("left", 1)), 10);
        run(&Pads::around(named("a \"name\" \\ with\tmore", 3)), 20);
    });
}

/// Reported: what was dropped or passed unfiltered is not to be seen.
#[test]
fn drops_and_bypasses_are_marked() {
    watched(|| {
        let timeline = with_timeline("alone_drops_and_bypasses", "drops");
        let dropped = timeline
            .moments
            .iter()
            .filter(|moment| moment.1 == "dropped");
        let dropped: Vec<_> = dropped.collect();
        assert!(dropped.len() >= 18, "{dropped:?}");
        for (element, _, arguments) in dropped {
            assert_eq!(element, "dropping");
            assert_eq!(arguments["reason"], "over budget");
        }
        let pushes = timeline.spans.iter().filter(|span| span.name == "push");
        let bypassed = pushes.filter(|span| span.arguments["bypassed"] == true);
        assert!(bypassed.filter(|span| span.element == "bypassing").count() >= 18);
    });
}

#[test]
#[ignore = "drops_and_bypasses_are_marked runs it in a process of its own"]
fn alone_drops_and_bypasses() {
    if !isolated::is_alone() {
        return;
    }
    watched(|| {
        for (name, policy) in [("dropping", "drop"), ("bypassing", "bypass")] {
            let element = named(name, 2);
            element.set_property_from_str("over-budget", policy);
            element.set_property("budget", 0u64);
            run(&Pads::around(element), 20);
        }
    });
}

/// Reported: a crash leaves a file that no viewer opens.
#[test]
fn a_process_that_ends_abruptly_leaves_a_whole_file() {
    watched(|| {
        let path = timeline::fresh_file("abrupt");
        let variables = [("CUDACONV_TRACE", path.to_str().expect("a plain name"))];
        let output = isolated::run("timeline::alone_ends_abruptly", &variables);
        assert!(!output.status.success(), "{output:?}");
        let timeline = timeline::read(&path);
        let pushes = timeline.spans.iter().filter(|span| span.name == "push");
        assert!(pushes.count() >= 5);
    });
}

#[test]
#[ignore = "a_process_that_ends_abruptly_leaves_a_whole_file runs it in a process of its own"]
fn alone_ends_abruptly() {
    if !isolated::is_alone() {
        return;
    }
    watched(|| {
        let file = std::env::var("CUDACONV_TRACE").expect("a file");
        let pads = Pads::raising();
        for number in 0.. {
            pads.push_all([number]);
            // Frames are written as they come, so some are there before long.
            let text = std::fs::read_to_string(&file).expect("the timeline");
            if text.matches(r#""name":"push""#).count() >= 5 {
                std::process::abort();
            }
            pads.forget();
        }
    });
}

/// Reported: a file that cannot be written stops the stream, or nobody is told.
#[test]
fn a_file_that_cannot_be_written_is_one_warning_a_start() {
    watched(|| {
        for file in ["/nowhere/to/be/found.json", "/dev/full"] {
            isolated::passes(
                "timeline::alone_cannot_be_written",
                &[("CUDACONV_TRACE", file)],
            );
        }
    });
}

#[test]
#[ignore = "a_file_that_cannot_be_written_is_one_warning_a_start runs it in a process of its own"]
fn alone_cannot_be_written() {
    if !isolated::is_alone() {
        return;
    }
    watched(|| {
        let file = std::env::var("CUDACONV_TRACE").expect("a file");
        let pads = Pads::around(raising());
        run(&pads, 10);
        assert_raised(&pads.buffers(), 0..10);
        let warnings = texts(&pads.messages(), gst::MessageType::Warning);
        assert_eq!(warnings.len(), 1, "{warnings:?}");
        for word in [file.as_str(), "cannot be written"] {
            assert!(warnings[0].contains(word), "{warnings:?} say {word:?}");
        }
        assert!(!thread_names().contains(&"cudaconv-trace".into()));
    });
}

/// Reported: a disk that fills up in mid-stream stops the stream.
#[test]
fn a_disk_that_fills_up_is_one_warning_and_the_stream_goes_on() {
    watched(|| {
        let timeline = with_timeline("alone_disk_fills_up", "full");
        // What was written before is to be read still.
        assert!(!timeline.spans.is_empty());
    });
}

#[test]
#[ignore = "a_disk_that_fills_up_is_one_warning_and_the_stream_goes_on runs it in a process of its own"]
fn alone_disk_fills_up() {
    if !isolated::is_alone() {
        return;
    }
    watched(|| {
        let limit = libc::rlimit {
            rlim_cur: 16 << 10,
            rlim_max: 16 << 10,
        };
        // SAFETY: the limit is read within the call; the signal of the limit is left out, so that
        // writes fail instead.
        unsafe {
            libc::signal(libc::SIGXFSZ, libc::SIG_IGN);
            assert_eq!(libc::setrlimit(libc::RLIMIT_FSIZE, &limit), 0);
        }
        // A stop writes what there is, which has room.
        let first = Pads::raising();
        first.push_all(0..2);
        first.wait_buffers(2);
        first.stop();
        let pads = Pads::raising();
        let mut number = 0;
        let warnings = loop {
            pads.push_all(number..number + 10);
            number += 10;
            pads.wait_buffers(number as usize);
            let warnings = texts(&pads.messages(), gst::MessageType::Warning);
            if !warnings.is_empty() {
                break warnings;
            }
        };
        assert_eq!(warnings.len(), 1, "{warnings:?}");
        assert!(warnings[0].contains("cannot be written"), "{warnings:?}");
        pads.push_all(number..number + 30);
        pads.wait_buffers(number as usize + 30);
        assert_raised(&pads.buffers(), 0..number + 30);
        let warnings = texts(&pads.messages(), gst::MessageType::Warning);
        assert!(warnings.is_empty(), "{warnings:?}");
    });
}

/// Reported: the trace costs something though nobody asked for it.
#[test]
fn without_the_variable_there_is_no_file_and_no_thread() {
    watched(|| {
        isolated::passes(
            "timeline::alone_without_timeline",
            &[("CUDACONV_TRACE", "")],
        );
    });
}

#[test]
#[ignore = "without_the_variable_there_is_no_file_and_no_thread runs it in a process of its own"]
fn alone_without_timeline() {
    if !isolated::is_alone() {
        return;
    }
    watched(|| {
        let pads = Pads::raising();
        assert!(pads.src.push(numbered(0)).is_ok());
        pads.wait_buffers(1);
        assert!(!thread_names().contains(&"cudaconv-trace".into()));
    });
}
