//! The command line of `webcam`.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Arg, ArgAction, ArgMatches, Command, value_parser};

use super::camera::Wanted;
use crate::args::{self, EXIT_CODES};
use crate::input::TestClip;
use crate::properties::{Accepts, Property};

/// The kernel at the start: its effect can be seen at once.
const KERNEL: &str = "sobel";

/// What `webcam` was asked to do.
#[derive(Debug, Clone)]
pub struct WebcamOptions {
    /// Path or name of a camera, or `test`.
    pub device: Option<String>,
    /// Only say which cameras there are.
    pub list: bool,
    /// A pipeline description in place of a camera.
    pub source: Option<String>,
    pub wanted: Wanted,
    pub record: Option<PathBuf>,
    pub no_window: bool,
    /// Pictures after which it ends.
    pub frames: Option<u64>,
    /// Time of the video after which it ends.
    pub duration: Option<Duration>,
    pub verbose: bool,
    pub quiet: bool,
    /// Properties of the element, the kernel among them.
    pub settings: Vec<(String, gst::glib::Value)>,
}

const HELP: &str = "\
Shows a camera's picture and, beside it, what the filter makes of it, with the kernel, the latency of \
now and its p99 against the budget, and a plot of the last frames' latency drawn on the picture. Keys, in the \
terminal and in the window, change the filter while it runs. Without a camera a generated live video takes its \
place; without a display the picture is recorded instead of shown.";

const KEYS: &str = "\
Keys, in the terminal and in the window:
    k  j   next and previous kernel (arrows: right, left)
    +  -   radius of box, gauss, unsharp and bilateral (arrows: up, down)
    b      next backend that works: auto, cuda, cpu
    p      next policy for frames over budget: report, bypass, drop
    h      a line about the keys
    q      end (in the window also Escape; Ctrl-C ends as well, with exit code 130)";

/// The subcommand; `properties` are those of the element.
pub fn command(properties: &[Property]) -> Command {
    let properties = properties.iter().map(|property| {
        let argument = args::property_argument(property);
        match property.name == "kernel" && offers(property, KERNEL) {
            true => argument.default_value(KERNEL),
            false => argument,
        }
    });
    Command::new("webcam")
        .about("Shows a camera before and after the filter, side by side, with the latency")
        .long_about(HELP)
        .after_help(format!("{KEYS}\n\n{EXIT_CODES}"))
        .args(camera_arguments())
        .args(output_arguments())
        .args(args::talk_arguments())
        .args(properties)
}

fn offers(property: &Property, choice: &str) -> bool {
    matches!(&property.accepts, Accepts::Choice(names) if names.iter().any(|(nick, _)| nick == choice))
}

fn camera_arguments() -> [Arg; 5] {
    [
        Arg::new("device")
            .short('d')
            .long("device")
            .value_name("PATH|NAME|ADDRESS")
            .help(
                "Which camera, as --list names it: /dev/video0, its name, or a part of it; rtsp://… or \
                 rtp://:PORT for one on the network; the word test for a generated video [default: the \
                 first one]",
            ),
        Arg::new("list")
            .long("list")
            .help("Say which cameras there are and what they offer, and end")
            .action(ArgAction::SetTrue),
        Arg::new("source")
            .long("source")
            .value_name("PIPELINE")
            .help("A GStreamer pipeline description that gives video, in place of a camera")
            .conflicts_with("device"),
        Arg::new("size")
            .long("size")
            .value_name("WIDTHxHEIGHT")
            .help("Size asked of the camera, in pixels; it gives the nearest one it has")
            .default_value("640x480")
            .value_parser(TestClip::parse_size),
        Arg::new("rate")
            .long("rate")
            .value_name("FPS")
            .help("Frames per second asked of the camera")
            .default_value("30")
            .value_parser(value_parser!(u32).range(1..=1000)),
    ]
}

fn output_arguments() -> [Arg; 4] {
    [
        Arg::new("record")
            .short('r')
            .long("record")
            .value_name("FILE")
            .help("Write the picture that is shown as well: .mp4, .m4v, .mov, .mkv (H.264)")
            .value_parser(value_parser!(PathBuf)),
        args::flag(
            "no-window",
            "Open no window: record only [default for --record: webcam-KERNEL.mp4]",
        ),
        Arg::new("frames")
            .long("frames")
            .value_name("COUNT")
            .help("End after so many pictures")
            .value_parser(value_parser!(u64).range(1..)),
        Arg::new("duration")
            .long("duration")
            .value_name("SECONDS")
            .help("End after so many seconds of video")
            .value_parser(parse_seconds),
    ]
}

fn parse_seconds(text: &str) -> Result<Duration, String> {
    let seconds = text.parse::<f64>().ok().filter(|seconds| *seconds > 0.0);
    seconds
        .and_then(|seconds| Duration::try_from_secs_f64(seconds).ok())
        .filter(|time| *time <= Duration::from_secs(u64::from(u32::MAX)))
        .ok_or_else(|| "accepted are seconds above 0, as in 10 or 2.5".to_owned())
}

/// Reads what clap has checked.
pub fn read(matches: &ArgMatches, properties: &[Property]) -> WebcamOptions {
    let text = |name: &str| matches.get_one::<String>(name).cloned();
    let size = matches.get_one::<(u32, u32)>("size").copied();
    let (width, height) = size.unwrap_or((640, 480));
    let mut settings = args::settings(matches, properties);
    let kernel = properties.iter().find(|property| property.name == "kernel");
    if let Some(kernel) = kernel
        && !settings.iter().any(|(name, _)| name == "kernel")
        && let Ok(value) = kernel.parse(KERNEL)
    {
        settings.push((kernel.name.clone(), value));
    }
    WebcamOptions {
        device: text("device"),
        list: matches.get_flag("list"),
        source: text("source"),
        wanted: Wanted {
            width,
            height,
            rate: matches.get_one("rate").copied().unwrap_or(30),
        },
        record: matches.get_one::<PathBuf>("record").cloned(),
        no_window: matches.get_flag("no-window"),
        frames: matches.get_one("frames").copied(),
        duration: matches.get_one("duration").copied(),
        verbose: matches.get_flag("verbose"),
        quiet: matches.get_flag("quiet"),
        settings,
    }
}

#[cfg(test)]
mod tests {
    use super::super::keys;
    use super::*;

    #[test]
    fn the_help_names_every_key() {
        let keys: Vec<char> = KEYS
            .lines()
            .skip(1)
            .flat_map(|line| line[..10].chars())
            .filter(|c| !c.is_whitespace())
            .collect();
        assert_eq!(keys, ['k', 'j', '+', '-', 'b', 'p', 'h', 'q']);
        assert!(keys.iter().all(|key| keys::action(*key).is_some()));
    }

    #[test]
    fn durations_are_seconds() {
        assert_eq!(parse_seconds("2.5"), Ok(Duration::from_millis(2500)));
        for bad in ["0", "-1", "nan", "inf", "1s", "1e30", ""] {
            assert!(parse_seconds(bad).is_err(), "{bad}");
        }
    }
}
