//! The command line: what is fixed, and an option for every property of the element.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::builder::{PossibleValue, PossibleValuesParser, Str, StyledStr, TypedValueParser};
use clap::parser::ValueSource;
use clap::{Arg, ArgAction, ArgMatches, Command, value_parser};

use crate::bench;
use crate::input::TestClip;
use crate::properties::{Accepts, Property};
use crate::webcam;

/// What `run` was asked to do.
#[derive(Debug, Clone)]
pub struct RunOptions {
    pub input: OsString,
    pub clip: TestClip,
    /// `None`: named after the input and the kernel.
    pub output: Option<PathBuf>,
    pub no_output: bool,
    pub compare: bool,
    pub report: Option<PathBuf>,
    pub verbose: bool,
    pub quiet: bool,
    /// Properties that were given, in the element's order.
    pub settings: Vec<(String, gst::glib::Value)>,
}

pub const EXIT_CODES: &str = "\
Exit codes:
    0  done
    1  the pipeline failed, or (doctor) something that run needs is missing
    2  the command line or the settings make no sense
  130  interrupted; the output was finished up to there";

const RUN_HELP: &str = "\
INPUT is any file or URI that GStreamer can decode, rtp://:PORT for H.264 that comes as RTP, or the \
word test for a generated clip (use ./test for a file of that name). The video is filtered by the element cudaconv, encoded, and every \
frame's latency is compared with the budget. Frame count and timestamps stay those of the input; \
sound goes along.";

/// The whole command line; `properties` are those of the element, empty without the plugin.
pub fn command(properties: &[Property], version: String) -> Command {
    Command::new("cudaconv")
        .version(version)
        .about(
            "Filters video with the GStreamer element cudaconv and reports every frame's latency",
        )
        .after_help(EXIT_CODES)
        .subcommand_required(true)
        .arg_required_else_help(true)
        .subcommand(run_command(properties))
        .subcommand(webcam::command(properties))
        .subcommand(bench::command())
        .subcommand(
            Command::new("doctor")
                .about("Tells what was found on this machine, what is missing and what to do")
                .after_help(EXIT_CODES),
        )
}

fn run_command(properties: &[Property]) -> Command {
    let filter = if properties.is_empty() {
        "The filter's options are missing here because the plugin was not found: see cudaconv doctor"
    } else {
        "Options of the filter are the properties of the element cudaconv; post-messages is on unless \
         it is switched off"
    };
    Command::new("run")
        .about("Filters a file, a stream or a generated clip")
        .long_about(RUN_HELP)
        .after_help(format!("{filter}.\n\n{EXIT_CODES}"))
        .arg(
            Arg::new("input")
                .value_name("INPUT")
                .help("A file, a URI, or the word test for a generated clip")
                .required(true)
                .value_parser(value_parser!(OsString)),
        )
        .args(output_arguments())
        .args(clip_arguments())
        .args(talk_arguments())
        .args(properties.iter().map(property_argument))
}

/// How much is said.
pub fn talk_arguments() -> [Arg; 2] {
    [
        flag(
            "verbose",
            "Say more: the pipeline, and what GStreamer said of errors",
        )
        .short('v'),
        flag("quiet", "Say nothing but errors")
            .short('q')
            .conflicts_with("verbose"),
    ]
}

/// An option without a value.
pub fn flag(name: &'static str, help: &'static str) -> Arg {
    Arg::new(name)
        .long(name)
        .help(help)
        .action(ArgAction::SetTrue)
}

fn output_arguments() -> [Arg; 4] {
    [
        Arg::new("output")
            .short('o')
            .long("output")
            .value_name("FILE|ADDRESS")
            .help(
                "Where the filtered video goes: .mp4, .m4v, .mov, .mkv (H.264), \
                 .png (the first frame; out-%04d.png: all); or a stream of H.264 to rtp://HOST:PORT, \
                 srt://HOST:PORT, or srt://:PORT, which is called [default: INPUT-KERNEL.mp4 in the current \
                 folder]; - is --no-output",
            )
            .value_parser(value_parser!(PathBuf)),
        flag("no-output", "Measure only: nothing is encoded or written").conflicts_with("output"),
        flag("compare", "Show original and filtered video side by side in one picture"),
        Arg::new("report")
            .long("report")
            .value_name("FILE.html")
            .help("Write a page with the latency of every frame, a histogram and the table")
            .value_parser(value_parser!(PathBuf)),
    ]
}

fn clip_arguments() -> [Arg; 3] {
    let defaults = TestClip::default();
    let heading = "Generated clip (INPUT test)";
    [
        Arg::new("test-size")
            .long("test-size")
            .value_name("WIDTHxHEIGHT")
            .help("Size in pixels")
            .default_value(format!("{}x{}", defaults.width, defaults.height))
            .value_parser(TestClip::parse_size)
            .help_heading(heading),
        Arg::new("test-rate")
            .long("test-rate")
            .value_name("FPS")
            .help("Frames per second")
            .default_value(defaults.rate.to_string())
            .value_parser(value_parser!(u32).range(1..=1000))
            .help_heading(heading),
        Arg::new("test-frames")
            .long("test-frames")
            .value_name("COUNT")
            .help("Number of frames")
            .default_value(defaults.frames.to_string())
            .value_parser(value_parser!(u32).range(1..=i64::from(i32::MAX)))
            .help_heading(heading),
    ]
}

/// An option with the property's name, description, range and default.
pub fn property_argument(property: &Property) -> Arg {
    let (value_name, range) = match &property.accepts {
        Accepts::Choice(_) => ("NAME", None),
        Accepts::Boolean => ("true|false", None),
        Accepts::Whole { .. } | Accepts::Number { .. } => ("NUMBER", Some(property.accepted())),
        Accepts::Text => ("TEXT", None),
    };
    let help = match range {
        Some(range) => format!("{} [{range}]", property.blurb),
        None => property.blurb.clone(),
    };
    let argument = Arg::new(property.name.clone())
        .long(property.name.clone())
        .value_name(value_name)
        .help(StyledStr::from(help))
        .help_heading("Filter")
        .action(ArgAction::Set)
        .allow_hyphen_values(true)
        .hide_default_value(property.default.is_empty())
        .default_value(property.default.clone());
    match &property.accepts {
        Accepts::Choice(names) => argument.value_parser(
            PossibleValuesParser::new(names.iter().map(|(nick, meaning)| {
                PossibleValue::new(Str::from(nick.clone())).help(meaning.clone())
            }))
            .map(|nick| nick),
        ),
        _ => {
            let property = property.clone();
            argument.value_parser(move |text: &str| property.parse(text).map(|_| text.to_owned()))
        }
    }
}

/// Reads what clap has checked.
pub fn run_options(matches: &ArgMatches, properties: &[Property]) -> RunOptions {
    let path = |name: &str| matches.get_one::<PathBuf>(name).cloned();
    let number =
        |name: &str, default: u32| matches.get_one::<u32>(name).copied().unwrap_or(default);
    let defaults = TestClip::default();
    let size = matches.get_one::<(u32, u32)>("test-size").copied();
    let (width, height) = size.unwrap_or((defaults.width, defaults.height));
    let output = path("output");
    let measure = output.as_ref().is_some_and(|path| path.as_os_str() == "-");
    RunOptions {
        input: matches
            .get_one::<OsString>("input")
            .cloned()
            .unwrap_or_default(),
        clip: TestClip {
            width,
            height,
            rate: number("test-rate", defaults.rate),
            frames: number("test-frames", defaults.frames),
        },
        output: output.filter(|_| !measure),
        no_output: measure || matches.get_flag("no-output"),
        compare: matches.get_flag("compare"),
        report: path("report"),
        verbose: matches.get_flag("verbose"),
        quiet: matches.get_flag("quiet"),
        settings: settings(matches, properties),
    }
}

/// The properties that were given, in the element's order.
pub fn settings(matches: &ArgMatches, properties: &[Property]) -> Vec<(String, gst::glib::Value)> {
    properties
        .iter()
        .filter(|p| matches.value_source(&p.name) == Some(ValueSource::CommandLine))
        .filter_map(|property| {
            let text = matches.get_one::<String>(&property.name)?;
            Some((property.name.clone(), property.parse(text).ok()?))
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::properties;

    /// A stock element's properties stand in for any element's.
    fn parse(arguments: &[&str]) -> Result<RunOptions, clap::Error> {
        gst::init().unwrap();
        let element = gst::ElementFactory::make("queue").build().unwrap();
        let properties = properties::of(&element);
        let all = ["cudaconv", "run"].iter().chain(arguments);
        let matches = command(&properties, "0".into()).try_get_matches_from(all)?;
        let (_, matches) = matches.subcommand().unwrap();
        Ok(run_options(matches, &properties))
    }

    #[test]
    fn the_command_line_is_consistent() {
        gst::init().unwrap();
        let element = gst::ElementFactory::make("videotestsrc").build().unwrap();
        command(&properties::of(&element), "0".into()).debug_assert();
    }

    #[test]
    fn only_what_was_given_is_set() {
        let options = parse(&["in.mp4"]).unwrap();
        assert!(options.settings.is_empty() && !options.no_output);
        let options = parse(&["in.mp4", "--leaky", "upstream", "--max-size-time=5ms"]).unwrap();
        let names: Vec<&str> = options.settings.iter().map(|(n, _)| n.as_str()).collect();
        assert_eq!(names, ["max-size-time", "leaky"]);
        assert_eq!(options.settings[0].1.get::<u64>().unwrap(), 5_000_000);
    }

    #[test]
    fn a_bad_value_is_answered_with_what_is_accepted() {
        let error = parse(&["in.mp4", "--leaky", "sideways"]).unwrap_err();
        assert_eq!(error.exit_code(), 2);
        assert!(error.to_string().contains("downstream"));
        let error = parse(&["in.mp4", "--max-size-time", "-3"]).unwrap_err();
        assert!(
            error.to_string().contains("whole numbers of nanoseconds"),
            "{error}"
        );
        assert_eq!(
            parse(&["in.mp4", "--no-such", "1"])
                .unwrap_err()
                .exit_code(),
            2
        );
        assert_eq!(parse(&[]).unwrap_err().exit_code(), 2);
    }

    #[test]
    fn a_dash_as_output_measures_only() {
        let options = parse(&["in.mp4", "-o", "-"]).unwrap();
        assert!(options.no_output && options.output.is_none());
        assert!(parse(&["in.mp4", "-o", "a.mp4", "--no-output"]).is_err());
    }
}
