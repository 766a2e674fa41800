//! Ctrl-C, and a reader that goes away.

use std::io::{BufRead, BufReader, Read};
use std::process::{Child, ChildStdout, Stdio};

use crate::program::{Watchdog, cudaconv, folder, names, signal};
use crate::video;

/// Starts a run without end and returns once its first frame is done.
fn started(folder: &std::path::Path) -> (Child, BufReader<ChildStdout>) {
    let arguments = [
        "run",
        "test",
        "--test-size",
        "64x48",
        "--test-frames",
        "100000000",
        "-o",
        "out.mp4",
        "--silent",
        "false",
    ];
    let mut child = cudaconv(folder, arguments)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut out = BufReader::new(child.stdout.take().unwrap());
    let mut line = String::new();
    out.read_line(&mut line).unwrap();
    assert!(line.contains("0"), "{line}");
    (child, out)
}

#[test]
fn an_interrupted_run_finishes_its_file() {
    for name in ["INT", "TERM"] {
        let folder = folder(&format!("interrupt-{name}"));
        let (mut child, mut out) = started(&folder);
        let watchdog = Watchdog::over(&child);
        signal(name, child.id());
        // The same signal once more at once is what wrappers do: it is the same interruption.
        signal(name, child.id());
        let mut text = String::new();
        out.read_to_string(&mut text).unwrap();
        let status = child.wait().unwrap();
        drop(watchdog);
        assert_eq!(status.code(), Some(130), "{name}");
        assert!(text.contains("interrupted: up to there"), "{name}");
        assert_eq!(names(&folder), ["out.mp4"], "{name}");
        let frames = video::read(&folder.join("out.mp4")).frames.len();
        assert!(
            text.contains(&format!("frames    {frames} in ")),
            "{name}: {frames} frames"
        );
    }
}

#[test]
fn a_reader_that_goes_away_does_not_stop_the_run() {
    let folder = folder("reader");
    let arguments = [
        "run",
        "test",
        "--test-size",
        "64x48",
        "--test-frames",
        "200",
        "-o",
        "out.mp4",
        "--silent",
        "false",
    ];
    let mut child = cudaconv(&folder, arguments)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let _watchdog = Watchdog::over(&child);
    drop(child.stdout.take());
    drop(child.stderr.take());
    assert_eq!(child.wait().unwrap().code(), Some(0));
    assert_eq!(video::read(&folder.join("out.mp4")).frames.len(), 200);
}
