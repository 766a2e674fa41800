//! What `run` writes: every frame, when it was shown, at its size, with its sound.

use crate::program::{folder, names, run, succeed};
use crate::video;

const SMALL: [&str; 4] = ["--test-size", "64x48", "--test-frames", "20"];

#[test]
fn the_generated_clip_is_filtered_into_a_file_named_after_the_kernel() {
    let folder = folder("clip");
    let finished = succeed(
        &folder,
        ["run", "test", "--kernel", "box5"].iter().chain(&SMALL),
    );
    assert_eq!(names(&folder), ["test-box5.mp4"]);
    let video = video::read(&folder.join("test-box5.mp4"));
    assert_eq!((video.width, video.height), (64, 48));
    let times = video.times();
    assert_eq!(times.len(), 20);
    for (index, time) in times.iter().enumerate() {
        let expected = index as u64 * 1_000_000_000 / 30;
        assert!(time.abs_diff(expected) <= 3000, "frame {index} at {time}");
    }
    for part in [
        "kernel    box5",
        "frames    20 in",
        "latency ",
        "  kernel ",
        "(blocked)",
    ] {
        assert!(
            finished.out.contains(part),
            "{part} is missing in {}",
            finished.out
        );
    }
    assert!(
        finished
            .out
            .contains(" of 20 frames over the budget of 33.000 ms")
    );
}

#[test]
fn irregular_times_stay_as_they_were() {
    let folder = folder("times");
    // Gaps of 1 ms to 2 s, with the longest in front of the last frame.
    let times = [0, 1, 34, 40, 41, 700, 733, 766, 800, 2800];
    video::write_at(&folder.join("in.mkv"), &times);
    for (output, tick) in [("out.mp4", 2778), ("out.mov", 2778), ("out.mkv", 10_000)] {
        succeed(
            &folder,
            ["run", "in.mkv", "-o", output, "--kernel", "gauss5"],
        );
        let written = video::read(&folder.join(output)).times();
        assert_eq!(written.len(), times.len(), "{output}");
        for (time, expected) in written.iter().zip(times) {
            let expected = expected * 1_000_000;
            assert!(
                time.abs_diff(expected) <= tick,
                "{output}: {time} for {expected}"
            );
        }
    }
}

#[test]
fn odd_sizes_are_kept() {
    let folder = folder("odd");
    video::play(&format!(
        "videotestsrc num-buffers=3 ! video/x-raw,format=I420,width=33,height=17 ! jpegenc \
         ! matroskamux ! filesink location=\"{}\"",
        folder.join("in.mkv").display()
    ));
    succeed(&folder, ["run", "in.mkv", "-o", "out%d.png"]);
    let video = video::read(&folder.join("out%d.png"));
    assert_eq!((video.width, video.height, video.frames.len()), (33, 17, 3));
    if gst::ElementFactory::find("x264enc").is_some() {
        let finished = succeed(&folder, ["run", "in.mkv", "-o", "out.mp4"]);
        assert!(
            finished.err.contains("33x17 is encoded as 4:4:4"),
            "{finished:?}"
        );
        let video = video::read(&folder.join("out.mp4"));
        assert_eq!((video.width, video.height, video.frames.len()), (33, 17, 3));
    }
}

#[test]
fn a_comparison_has_the_original_on_the_left_and_the_filtered_on_the_right() {
    let folder = folder("compare");
    let arguments = [
        "run",
        "test",
        "--compare",
        "--kernel",
        "identity",
        "-o",
        "same%d.png",
    ];
    succeed(&folder, arguments.iter().chain(&SMALL));
    let same = video::read(&folder.join("same%d.png"));
    assert_eq!((same.width, same.height, same.frames.len()), (128, 48, 20));
    for index in 0..20 {
        for row in same.rows(index) {
            assert_eq!(row[..64], row[64..], "frame {index}");
        }
    }
    let arguments = [
        "run",
        "test",
        "--compare",
        "--kernel",
        "box7",
        "-o",
        "blurred%d.png",
    ];
    succeed(&folder, arguments.iter().chain(&SMALL));
    let blurred = video::read(&folder.join("blurred%d.png"));
    let steps = |row: &[u8]| -> u64 {
        let pairs = row.windows(2);
        pairs.map(|pair| u64::from(pair[0].abs_diff(pair[1]))).sum()
    };
    for index in 0..20 {
        let left: u64 = blurred.rows(index).map(|row| steps(&row[..64])).sum();
        let right: u64 = blurred.rows(index).map(|row| steps(&row[64..])).sum();
        assert!(right * 3 < left * 2, "frame {index}: {left} and {right}");
    }
}

#[test]
fn sound_goes_along_unchanged() {
    let folder = folder("sound");
    video::play(&format!(
        "matroskamux name=mux ! filesink location=\"{}\" \
         videotestsrc num-buffers=25 ! video/x-raw,width=64,height=48,framerate=25/1 ! jpegenc ! mux. \
         audiotestsrc num-buffers=48 samplesperbuffer=1000 ! audio/x-raw,rate=48000,channels=2 \
         ! opusenc ! mux.",
        folder.join("in.mkv").display()
    ));
    let finished = succeed(&folder, ["run", "in.mkv", "-o", "out.mkv"]);
    assert!(
        finished.out.contains("sound     copied (Opus)"),
        "{}",
        finished.out
    );
    let (coding, packets) = video::sound(&folder.join("in.mkv"));
    assert_eq!(coding, "audio/x-opus");
    assert!(packets.len() > 40);
    assert!(video::sound(&folder.join("out.mkv")) == (coding, packets));
}

#[test]
fn pictures_are_written_one_or_all() {
    let folder = folder("pictures");
    succeed(
        &folder,
        ["run", "test", "-o", "one.png"].iter().chain(&SMALL),
    );
    succeed(
        &folder,
        ["run", "test", "-o", "n%02d.png"].iter().chain(&SMALL),
    );
    let names = names(&folder);
    assert_eq!(names.len(), 21);
    assert_eq!(
        (names[0].as_str(), names[19].as_str()),
        ("n00.png", "n19.png")
    );
    // A picture is a video of one frame.
    succeed(&folder, ["run", "one.png", "-o", "again.mp4"]);
    assert_eq!(video::read(&folder.join("again.mp4")).frames.len(), 1);
}

#[test]
fn names_that_would_trip_a_pipeline_description_are_fine() {
    let folder = folder("names");
    let name = "it's \"a\" \\ b ! c=d {e} # ż.mkv";
    succeed(&folder, ["run", "test", "-o", name].iter().chain(&SMALL));
    let again = format!("again {name}");
    succeed(&folder, ["run", name, "-o", &again]);
    assert_eq!(names(&folder).len(), 2);
}

#[test]
fn measuring_writes_nothing() {
    for option in [&["--no-output"][..], &["-o", "-"]] {
        let folder = folder("measure");
        let finished = succeed(&folder, ["run", "test"].iter().chain(option).chain(&SMALL));
        assert!(names(&folder).is_empty());
        assert!(finished.out.contains("frames    20 in"), "{}", finished.out);
    }
}

#[test]
fn quiet_says_nothing() {
    let folder = folder("quiet");
    let finished = succeed(
        &folder,
        ["run", "test", "--no-output", "-q"].iter().chain(&SMALL),
    );
    assert_eq!((finished.out.as_str(), finished.err.as_str()), ("", ""));
}

#[test]
fn a_frame_over_budget_is_counted() {
    let folder = folder("budget");
    let arguments = ["run", "test", "--no-output", "--budget", "0"];
    let finished = succeed(&folder, arguments.iter().chain(&SMALL));
    let verdict = "20 of 20 frames over the budget of 0.000 ms (100.0 %)";
    assert!(finished.out.contains(verdict), "{}", finished.out);
}

#[test]
fn messages_can_be_left_out() {
    let folder = folder("messages");
    let arguments = ["run", "test", "--no-output", "--post-messages", "false"];
    let finished = succeed(&folder, arguments.iter().chain(&SMALL));
    assert!(finished.out.contains("frames    20 in"), "{}", finished.out);
    let finished = run(&folder, arguments.iter().chain(&["--report", "r.html"]));
    assert_eq!(finished.code, Some(2), "{finished:?}");
}
