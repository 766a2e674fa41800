//! `cudaconv webcam`, with sources that stand in for a camera.

use std::io::{BufRead, BufReader, Lines};
use std::path::Path;
use std::process::{Child, ChildStderr, ChildStdout, Command, Stdio};

use crate::driver;
use crate::program::{Finished, Watchdog, cudaconv, executable, finish, folder, names};
use crate::screen::{self, Screen};
use crate::terminal::Terminal;
use crate::video::{self, Video};

/// A source without motion: whatever changes in the picture was drawn on it.
const STILL: &str = "videotestsrc is-live=true pattern=solid-color foreground-color=0xff808080 \
                     ! video/x-raw,format=I420,width=640,height=480,framerate=30/1";
/// A source that is as fast as the rest.
const FAST: &str =
    "videotestsrc horizontal-speed=1 ! video/x-raw,format=I420,width=96,height=64,framerate=30/1";

/// `cudaconv webcam` where there is no display.
fn webcam(folder: &Path, arguments: &[&str]) -> Command {
    let mut command = cudaconv(folder, ["webcam"].iter().chain(arguments));
    command.env_remove("DISPLAY").env_remove("WAYLAND_DISPLAY");
    command
}

fn succeed(folder: &Path, arguments: &[&str]) -> Finished {
    let finished = finish(&mut webcam(folder, arguments));
    assert_eq!(finished.code, Some(0), "{finished:?}");
    finished
}

/// The samples of row `y` of a decoded frame.
fn row(video: &Video, frame: usize, y: usize) -> &[u8] {
    video.rows(frame).nth(y).unwrap()
}

#[test]
fn without_a_display_the_pictures_that_were_asked_for_are_recorded() {
    let folder = folder("webcam-frames");
    let arguments = [
        "--device", "test", "--size", "320x240", "--frames", "40", "--kernel", "box7",
    ];
    let finished = succeed(&folder, &arguments);
    assert_eq!(names(&folder), ["webcam-box7.mp4"]);
    for part in [
        "there is no display (neither DISPLAY nor WAYLAND_DISPLAY is set): the picture is recorded to webcam-box7.mp4",
        "generated live video, 320x240, 30 fps",
    ] {
        assert!(finished.err.contains(part), "{part}: {finished:?}");
    }
    for part in [
        "kernel    box7",
        "video     320x240",
        "latency ",
        "(blocked)",
        "over the budget of 33.000 ms",
    ] {
        assert!(finished.out.contains(part), "{part}: {finished:?}");
    }
    let video = video::read(&folder.join("webcam-box7.mp4"));
    assert_eq!(
        (video.width, video.height, video.frames.len()),
        (640, 240, 40)
    );
    // The right half is the left one, smoothed; between the labels and the strip nothing is drawn.
    let steps = |row: &[u8]| -> u64 {
        let pairs = row.windows(2);
        pairs.map(|pair| u64::from(pair[0].abs_diff(pair[1]))).sum()
    };
    let side = |half: std::ops::Range<usize>| -> u64 {
        (40..120)
            .map(|y| steps(&row(&video, 39, y)[half.clone()]))
            .sum()
    };
    let (before, after) = (side(0..320), side(320..640));
    assert!(after * 3 < before * 2, "{before} and {after}");
}

#[test]
fn a_camera_that_is_missing_is_said() {
    let folder = folder("webcam-list");
    let list = succeed(&folder, &["--list"]).out;
    if list != "no camera was found\n" {
        eprintln!("note: this machine has a camera, so nothing is said of a missing one:\n{list}");
        return;
    }
    let finished = succeed(&folder, &["--size", "64x48", "--frames", "3"]);
    assert!(
        finished
            .err
            .contains("no camera was found: generated live video, 64x48, 30 fps, takes its place"),
        "{finished:?}"
    );
    let named = finish(&mut webcam(&folder, &["--device", "/dev/nothing"]));
    assert_eq!(named.code, Some(2));
    assert!(
        named
            .err
            .contains("there is no camera \"/dev/nothing\"; none was found"),
        "{named:?}"
    );
}

#[test]
fn it_ends_after_the_time_that_was_asked_for_or_where_nobody_can_end_it() {
    let folder = folder("webcam-duration");
    succeed(
        &folder,
        &["--source", FAST, "--duration", "1.5", "-r", "asked.mkv"],
    );
    assert_eq!(video::read(&folder.join("asked.mkv")).frames.len(), 45);
    let finished = succeed(&folder, &["--source", FAST, "-r", "unattended.mkv"]);
    assert!(
        finished
            .err
            .contains("nobody can press a key here: it ends after 10 s"),
        "{finished:?}"
    );
    assert_eq!(
        video::read(&folder.join("unattended.mkv")).frames.len(),
        300
    );
}

#[test]
fn figures_and_a_moving_plot_are_drawn_on_the_picture() {
    let folder = folder("webcam-panel");
    succeed(
        &folder,
        &[
            "--source", STILL, "--frames", "60", "--kernel", "identity", "-r", "a.mkv",
        ],
    );
    let video = video::read(&folder.join("a.mkv"));
    assert_eq!(
        (video.width, video.height, video.frames.len()),
        (1280, 480, 60)
    );
    // The labels and the strip at the bottom, and nothing else: grey is 126 in limited range.
    for y in [60, 200, 340] {
        assert!(
            row(&video, 59, y)
                .iter()
                .all(|sample| sample.abs_diff(126) < 8),
            "row {y}"
        );
    }
    // Letters are white, grey, or of a colour; the strip is far darker.
    let light = |rows: std::ops::Range<usize>, columns: std::ops::Range<usize>, frame: usize| {
        let all = rows.flat_map(|y| &row(&video, frame, y)[columns.clone()]);
        all.filter(|sample| **sample > 90).count()
    };
    let labels = [light(9..35, 9..86, 59), light(9..35, 649..819, 59)];
    let few = |count: usize| (100..1000).contains(&count);
    assert!(labels.into_iter().all(few), "{labels:?}");
    // Four lines of text at the left, the dark strip between them.
    let text: Vec<usize> = (0..4)
        .map(|line| light(381 + line * 24..401 + line * 24, 0..640, 59))
        .collect();
    assert!(text.iter().all(|count| *count > 60), "{text:?}");
    let dark = (372..480)
        .flat_map(|y| &row(&video, 59, y)[..640])
        .filter(|s| **s < 70)
        .count();
    assert!(dark > 100 * 640 / 2, "{dark}");
    // The plot grows to the left, a frame at a time.
    let plot = |frame: usize| light(400..475, 1000..1200, frame);
    assert!(plot(59) > plot(20) + 30, "{} and {}", plot(20), plot(59));
}

#[test]
fn what_makes_no_sense_is_refused() {
    let folder = folder("webcam-refused");
    let cases: [(&[&str], &str); 8] = [
        (
            &["--source", "nosuchelement"],
            "the GStreamer element nosuchelement is missing",
        ),
        (&["--source", "audiotestsrc"], "could not link"),
        (
            &["--source", FAST, "--device", "test"],
            "cannot be used with",
        ),
        (&["--record", "a.avi"], "accepted are .mp4"),
        (&["--duration", "0"], "accepted are seconds above 0"),
        (&["--size", "5"], "accepted are sizes as 1920x1080"),
        (
            &["--post-messages", "false"],
            "needs a message for every frame",
        ),
        (&["--kernel", "custom"], "needs the property matrix"),
    ];
    for (arguments, sentence) in cases {
        let finished = finish(&mut webcam(&folder, arguments));
        assert_eq!(finished.code, Some(2), "{finished:?}");
        assert!(
            finished.err.contains(sentence),
            "{sentence:?} is not in {}",
            finished.err
        );
        assert!(!finished.err.contains("panicked"), "{}", finished.err);
    }
    assert!(names(&folder).is_empty());
}

#[test]
fn a_source_that_fails_leaves_no_file() {
    let folder = folder("webcam-fails");
    let source = format!("{FAST} ! identity error-after=5");
    let finished = finish(&mut webcam(&folder, &["--source", &source, "-r", "a.mp4"]));
    assert_eq!(finished.code, Some(1), "{finished:?}");
    assert!(finished.err.contains("error: "), "{finished:?}");
    assert!(names(&folder).is_empty());
}

/// A run at a terminal, whose words and lines for every frame can be waited for.
struct Running {
    child: Child,
    _watchdog: Watchdog,
    err: Lines<BufReader<ChildStderr>>,
    out: Lines<BufReader<ChildStdout>>,
}

impl Running {
    /// `terminal` becomes the program's own, so that Ctrl-C is typed there.
    fn start(folder: &Path, terminal: &Terminal, arguments: &[&str]) -> Running {
        Running::start_on("", folder, terminal, arguments)
    }

    /// With the CUDA driver of the folder `libraries`.
    fn start_on(
        libraries: &str,
        folder: &Path,
        terminal: &Terminal,
        arguments: &[&str],
    ) -> Running {
        let mut command = Command::new("setsid");
        command
            .arg("--ctty")
            .arg(executable())
            .arg("webcam")
            .args(arguments)
            .args(["--silent", "false"])
            .current_dir(folder)
            .env_remove("DISPLAY")
            .env_remove("WAYLAND_DISPLAY");
        if !libraries.is_empty() {
            command.env("LD_LIBRARY_PATH", libraries);
        }
        Running::spawn(command.stdin(terminal.input()))
    }

    fn spawn(command: &mut Command) -> Running {
        let command = command.stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        Running {
            _watchdog: Watchdog::over(&child),
            err: BufReader::new(child.stderr.take().unwrap()).lines(),
            out: BufReader::new(child.stdout.take().unwrap()).lines(),
            child,
        }
    }

    /// Waits until it says a line with `part`.
    fn says(&mut self, part: &str) -> String {
        let mut seen = Vec::new();
        for line in self.err.by_ref().map_while(Result::ok) {
            if line.contains(part) {
                return line;
            }
            seen.push(line);
        }
        panic!("{part:?} was not said, but {seen:#?}");
    }

    /// Waits for `count` more frames.
    fn frames(&mut self, count: usize) {
        for _ in 0..count {
            self.out.next().unwrap().unwrap();
        }
    }

    /// Exit code and all that is left of what it printed.
    fn end(mut self) -> (Option<i32>, String) {
        let out: Vec<String> = self.out.by_ref().map_while(Result::ok).collect();
        let mut rest = String::new();
        self.err.by_ref().map_while(Result::ok).for_each(|line| {
            rest.push_str(&line);
            rest.push('\n');
        });
        let code = self.child.wait().unwrap().code();
        assert!(
            !rest.contains("CRITICAL") && !rest.contains("panicked"),
            "{rest}"
        );
        (code, out.join("\n"))
    }
}

#[test]
fn keys_of_the_terminal_change_the_filter() {
    let folder = folder("webcam-keys");
    let mut terminal = Terminal::open();
    let before = format!("{:?}", terminal.modes());
    let arguments = [
        "--device", "test", "--size", "64x48", "--kernel", "box7", "-r", "a.mp4",
    ];
    let mut running = Running::start(&folder, &terminal, &arguments);
    running.says("keys: k j kernel");
    running.frames(1);
    assert!(!terminal.is_sane(), "{:?}", terminal.modes());
    for (keys, said) in [
        ("k", "kernel box, radius 1"),
        ("+", "radius 2"),
        ("\x1b[A", "radius 3"),
        ("-", "radius 2"),
        ("x \n\x1b[15~k", "kernel gauss3"),
        (
            "+",
            "gauss3 has no radius; box, gauss, unsharp, bilateral have one",
        ),
        ("J", "kernel box, radius 2"),
        ("p", "over-budget bypass"),
        ("p", "over-budget drop"),
        ("p", "over-budget report"),
        ("h", "keys: k j kernel"),
    ] {
        terminal.press(keys);
        running.says(said);
    }
    // What would stop or end it with the terminal as it is now does nothing.
    terminal.press("\x1a\x1cq");
    let (code, out) = running.end();
    assert_eq!(code, Some(0));
    for part in ["kernel    box\n", "radius=2"] {
        assert!(out.contains(part), "{part:?} is not in {out}");
    }
    assert!(!out.contains("interrupted"), "{out}");
    assert_eq!(format!("{:?}", terminal.modes()), before);
    let frames = video::read(&folder.join("a.mp4")).frames.len();
    assert!(frames > 0);
}

#[test]
fn another_backend_takes_over_without_losing_a_frame() {
    const FRAMES: usize = 600;
    let folder = folder("webcam-backend");
    let mut terminal = Terminal::open();
    let source = FAST.replace(
        "videotestsrc",
        &format!("videotestsrc num-buffers={FRAMES}"),
    );
    let arguments = ["--source", &source, "-r", "a.mkv"];
    let mut running = Running::start_on(&driver::search_path(), &folder, &terminal, &arguments);
    for backend in ["backend cuda", "backend cpu", "backend auto"] {
        running.frames(30);
        terminal.press("b");
        running.says(backend);
    }
    let (code, out) = running.end();
    assert_eq!(code, Some(0), "{out}");
    for part in [
        &format!("frames    {FRAMES} in "),
        "backend   cuda: ",
        " 0 dropped, 0 bypassed",
    ] {
        assert!(out.contains(part), "{part:?} is not in {out}");
    }
    assert_eq!(video::read(&folder.join("a.mkv")).frames.len(), FRAMES);
}

#[test]
fn a_backend_that_does_not_work_is_passed_over_with_its_reason() {
    let folder = folder("webcam-no-backend");
    // A driver that cannot be loaded comes before any real one.
    std::fs::write(folder.join("libcuda.so.1"), "no library").unwrap();
    let mut terminal = Terminal::open();
    let arguments = ["--device", "test", "--size", "64x48", "-r", "a.mkv"];
    let path = folder.display().to_string();
    let mut running = Running::start_on(&path, &folder, &terminal, &arguments);
    running.frames(1);
    terminal.press("b");
    running.says("backend cuda cannot be taken: ");
    running.says("backend cpu");
    running.frames(5);
    terminal.press("q");
    let (code, out) = running.end();
    assert_eq!(code, Some(0), "{out}");
    assert!(out.contains("backend=cpu"), "{out}");
}

#[test]
fn an_interrupt_leaves_the_terminal_as_it_was_and_the_recording_whole() {
    let folder = folder("webcam-interrupt");
    let mut terminal = Terminal::open();
    let before = format!("{:?}", terminal.modes());
    let arguments = ["--device", "test", "--size", "64x48", "-r", "a.mp4"];
    let mut running = Running::start(&folder, &terminal, &arguments);
    running.frames(10);
    assert!(!terminal.is_sane());
    terminal.press("\x03");
    let (code, out) = running.end();
    assert_eq!(code, Some(130), "{out}");
    assert!(out.contains("interrupted: up to there"), "{out}");
    assert!(out.contains("latency "), "{out}");
    assert_eq!(format!("{:?}", terminal.modes()), before);
    assert_eq!(names(&folder), ["a.mp4"]);
    assert!(!video::read(&folder.join("a.mp4")).frames.is_empty());
}

#[test]
fn a_background_job_leaves_the_terminal_alone() {
    let folder = folder("webcam-background");
    let terminal = Terminal::open();
    // A shell with job control, whose job may not touch the terminal while it is in the background.
    let script = format!(
        "set -m; '{}' webcam --device test --size 64x48 --frames 20 -r a.mp4 >out 2>err & wait $!",
        executable().display()
    );
    let mut command = Command::new("setsid");
    command
        .args(["--ctty", "bash", "-c", &script])
        .current_dir(&folder)
        .env_remove("DISPLAY")
        .env_remove("WAYLAND_DISPLAY")
        .stdin(terminal.input());
    let finished = finish(&mut command);
    assert_eq!(finished.code, Some(0), "{finished:?}");
    assert!(terminal.is_sane());
    assert_eq!(video::read(&folder.join("a.mp4")).frames.len(), 20);
}

/// A run in a window of `screen`.
fn in_a_window(folder: &Path, screen: &Screen, arguments: &[&str]) -> Running {
    let mut command = cudaconv(folder, ["webcam"].iter().chain(arguments));
    command.args(["--silent", "false"]);
    Running::spawn(
        command
            .env("DISPLAY", &screen.name)
            .env_remove("WAYLAND_DISPLAY"),
    )
}

#[test]
fn the_window_shows_both_halves_with_figures_and_obeys_its_keys() {
    if !screen::has(&["Xvfb", "xdotool"], &["ximagesink", "ximagesrc"]) {
        return;
    }
    let folder = folder("webcam-window");
    let screen = Screen::open("1280x480");
    let arguments = ["--device", "test", "--size", "640x480", "-r", "a.mkv"];
    let mut running = in_a_window(&folder, &screen, &arguments);
    running.says("keys: k j kernel");
    running.frames(60);
    let first = screen.shot();
    screen.save(&folder.join("screenshot.png"));
    // The bars on the left, their edges on the right.
    let mean = |area: &[u8]| area.iter().map(|s| u64::from(*s)).sum::<u64>() / area.len() as u64;
    let halves = [0..640, 640..1280].map(|columns| mean(&first.area(60..300, columns)));
    assert!(halves[0] > halves[1] + 20, "{halves:?}");
    let light = |rows, columns| {
        first
            .area(rows, columns)
            .iter()
            .filter(|s| **s > 100)
            .count()
    };
    let words = [
        light(381..401, 10..500),
        light(405..425, 10..500),
        light(429..449, 10..500),
    ];
    assert!(words.iter().all(|count| *count > 60), "{words:?}");
    running.frames(30);
    let second = screen.shot();
    assert!(first.area(400..475, 700..1270) != second.area(400..475, 700..1270));
    for (key, said) in [
        ("k", "kernel scharr-x"),
        ("Left", "kernel sobel"),
        ("p", "over-budget bypass"),
    ] {
        screen.press(key);
        running.says(said);
    }
    screen.press("Escape");
    let (code, out) = running.end();
    assert_eq!(code, Some(0), "{out}");
    assert!(out.contains("output    window (x"), "{out}");
    // A busy machine leaves out pictures that come too late to be shown.
    assert!(!video::read(&folder.join("a.mkv")).frames.is_empty());
}

#[test]
fn closing_the_window_ends_it_and_finishes_the_recording() {
    if !screen::has(&["Xvfb", "xdotool", "python3"], &["ximagesink"]) {
        return;
    }
    let folder = folder("webcam-closed");
    let screen = Screen::open("400x200");
    for recording in [&["-r", "a.mkv"][..], &[]] {
        let arguments = ["--device", "test", "--size", "160x120"];
        let arguments = [&arguments, recording].concat();
        let mut running = in_a_window(&folder, &screen, &arguments);
        running.says("keys: k j kernel");
        running.frames(20);
        screen.close();
        let (code, out) = running.end();
        assert_eq!(code, Some(0), "{out}");
        assert!(out.contains("over the budget of"), "{out}");
    }
    assert_eq!(names(&folder), ["a.mkv"]);
    assert!(!video::read(&folder.join("a.mkv")).frames.is_empty());
}
