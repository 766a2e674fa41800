//! What cannot be done is said in a sentence, with the right exit code, and leaves nothing behind.

use std::fs;
use std::os::unix::fs::symlink;

use crate::program::{Finished, folder, names, run, succeed};
use crate::video;

fn refuses(finished: &Finished, code: i32, sentence: &str) {
    assert_eq!(finished.code, Some(code), "{finished:?}");
    assert!(
        finished.err.contains(sentence),
        "{sentence:?} is not in {}",
        finished.err
    );
    assert!(!finished.err.contains("panicked"), "{}", finished.err);
    assert_eq!(finished.out, "");
}

#[test]
fn values_are_refused_with_what_is_accepted() {
    let folder = folder("values");
    let cases: [(&[&str], &str); 9] = [
        (&["--kernel", "blur"], "bilateral"),
        (&["--radius", "33"], "whole numbers from 0 to 32"),
        (&["--amount", "nan"], "decimal numbers from 0 to 10"),
        (&["--budget", "-1"], "as in 33ms"),
        (&["--qos", "perhaps"], "true and false"),
        (&["--kernel", "custom", "--matrix", "1 2"], "odd"),
        (&["--kernel", "custom"], "needs the property matrix"),
        (&["--test-size", "640"], "accepted are sizes as 1920x1080"),
        (&["--no-such-option"], "unexpected argument"),
    ];
    for (arguments, sentence) in cases {
        let finished = run(
            &folder,
            ["run", "test", "--no-output"].iter().chain(arguments),
        );
        refuses(&finished, 2, sentence);
    }
    refuses(&run(&folder, ["walk"]), 2, "unrecognized subcommand");
    assert_eq!(run::<&str>(&folder, []).code, Some(2));
}

#[test]
fn the_input_is_never_overwritten() {
    let folder = folder("overwrite");
    video::write_at(&folder.join("in.mkv"), &[0, 40, 80]);
    symlink("in.mkv", folder.join("link.mkv")).unwrap();
    fs::hard_link(folder.join("in.mkv"), folder.join("twin.mkv")).unwrap();
    let before = fs::read(folder.join("in.mkv")).unwrap();
    for output in ["in.mkv", "./in.mkv", "link.mkv", "twin.mkv"] {
        refuses(
            &run(&folder, ["run", "in.mkv", "-o", output]),
            2,
            "is the input and would be overwritten",
        );
    }
    assert_eq!(fs::read(folder.join("in.mkv")).unwrap(), before);
    assert_eq!(names(&folder), ["in.mkv", "link.mkv", "twin.mkv"]);
}

#[test]
fn an_output_that_cannot_be_is_refused() {
    let folder = folder("outputs");
    video::write_at(&folder.join("in.mkv"), &[0, 40]);
    let refused = |output: &str, sentence: &str| {
        refuses(&run(&folder, ["run", "in.mkv", "-o", output]), 2, sentence);
    };
    refused("out.xyz", "accepted are .mp4");
    refused("out", "accepted are .mp4");
    refused(
        "missing/out.mp4",
        "cannot be written: No such file or directory",
    );
    refused("out-%s.png", "as %d or %04d");
    refused("out-%d.mp4", "as %d or %04d");
    assert_eq!(names(&folder), ["in.mkv"]);
}

#[test]
fn what_is_no_video_fails_and_keeps_an_earlier_output() {
    let folder = folder("no-video");
    fs::write(folder.join("text.mp4"), "not a video\n").unwrap();
    fs::write(folder.join("empty.mp4"), "").unwrap();
    fs::write(folder.join("out.mp4"), "earlier").unwrap();
    video::play(&format!(
        "audiotestsrc num-buffers=20 ! opusenc ! matroskamux ! filesink location=\"{}\"",
        folder.join("sound.mkv").display()
    ));
    let fails = |input: &str, code: i32, sentence: &str| {
        refuses(
            &run(&folder, ["run", input, "-o", "out.mp4"]),
            code,
            sentence,
        );
    };
    fails("missing.mp4", 2, "there is no file missing.mp4");
    fails("nonsense://x", 2, "no URI that GStreamer can read");
    fails("text.mp4", 1, "no type that GStreamer knows");
    fails("empty.mp4", 1, "error: ");
    fails("sound.mkv", 1, "no video that can be decoded");
    assert_eq!(fs::read(folder.join("out.mp4")).unwrap(), b"earlier");
    assert_eq!(
        names(&folder),
        ["empty.mp4", "out.mp4", "sound.mkv", "text.mp4"]
    );
}

#[test]
fn a_video_that_breaks_off_fails() {
    let folder = folder("broken");
    let clip = ["--test-size", "64x48", "--test-frames", "20"];
    succeed(
        &folder,
        ["run", "test", "-o", "whole.mp4"].iter().chain(&clip),
    );
    let whole = fs::read(folder.join("whole.mp4")).unwrap();
    // The index of the frames is at the end.
    fs::write(folder.join("half.mp4"), &whole[..whole.len() / 2]).unwrap();
    let finished = run(&folder, ["run", "half.mp4", "-o", "out.mp4"]);
    refuses(&finished, 1, "error: ");
    assert_eq!(names(&folder), ["half.mp4", "whole.mp4"]);
}
