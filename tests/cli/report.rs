//! The page of `--report`.

use std::fs;

use crate::program::{folder, names, run, succeed};

#[test]
fn the_page_has_every_frame_the_table_and_the_settings() {
    let folder = folder("report");
    let arguments = [
        "run",
        "test",
        "--test-size",
        "64x48",
        "--test-frames",
        "12",
        "--no-output",
        "--kernel",
        "gauss7",
        "--budget",
        "50ms",
        "--report",
        "page.html",
    ];
    let finished = succeed(&folder, arguments);
    assert!(finished.out.contains("report: page.html"));
    let page = fs::read_to_string(folder.join("page.html")).unwrap();
    for frame in 0..12 {
        assert!(
            page.contains(&format!("<title>frame {frame}: ")),
            "frame {frame}"
        );
    }
    assert!(!page.contains("<title>frame 12: "));
    for part in [
        "budget 50 ms",
        "12 frames over the budget of 50.000 ms",
        "<td>gauss7</td>",
        "50000000",
        "sigma-space",
        "--budget 50ms",
        env!("CARGO_PKG_VERSION"),
    ] {
        assert!(page.contains(part), "{part} is missing");
    }
    for outside in ["http://", "https://", "<script", "<link", "url(", "@import"] {
        assert!(!page.contains(outside), "{outside}");
    }
    assert_eq!(page.matches("<svg").count(), page.matches("</svg>").count());
}

#[test]
fn a_report_that_cannot_be_written_is_said_before_the_work_is_done() {
    let folder = folder("report-missing");
    let clip = ["--test-size", "64x48", "--test-frames", "5"];
    let arguments = [
        "run",
        "test",
        "-o",
        "out.mp4",
        "--report",
        "missing/page.html",
    ];
    let finished = run(&folder, arguments.iter().chain(&clip));
    assert_eq!(finished.code, Some(2), "{finished:?}");
    assert!(
        finished.err.contains("missing/page.html cannot be written"),
        "{finished:?}"
    );
    assert!(names(&folder).is_empty());
}
