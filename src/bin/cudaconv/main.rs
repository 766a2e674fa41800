//! The command line of `cudaconv`. It is thin: it builds pipelines from `pipelines/`, reads the
//! element's messages and statistics, and tells what came of it.

mod args;
mod audio;
mod bench;
mod companion;
mod console;
mod doctor;
mod explain;
mod input;
mod machine;
mod measure;
mod network;
mod output;
mod packages;
mod plugin;
mod progress;
mod properties;
mod report;
mod run;
mod session;
mod summary;
mod templates;
mod webcam;
mod wiring;

use std::process::ExitCode;

use plugin::{Plugin, PluginError};
use properties::Property;

/// How the program ends when nothing went wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Exit {
    Done,
    /// `doctor` found something missing that `run` needs.
    Incomplete,
    Interrupted,
}

/// Why the program could not do what was asked; sentences for people.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Failure {
    #[error("{0}")]
    Usage(String),
    #[error("{0}")]
    Failed(String),
}

const EXIT_FAILED: u8 = 1;
const EXIT_USAGE: u8 = 2;
const EXIT_INTERRUPTED: u8 = 130;

fn version() -> String {
    format!("{}-{}", env!("CARGO_PKG_VERSION"), env!("COMMIT_ID"))
}

/// The element's properties; none where there is no element.
fn element_properties(plugin: &Result<Plugin, PluginError>) -> Vec<Property> {
    if plugin.is_err() {
        return Vec::new();
    }
    match gst::ElementFactory::make(plugin::ELEMENT).build() {
        Ok(element) => properties::of(&element),
        Err(_) => Vec::new(),
    }
}

fn dispatch() -> Result<Exit, Failure> {
    gst::init().map_err(|error| {
        Failure::Failed(format!("GStreamer cannot be started: {}", error.message()))
    })?;
    if std::env::args_os()
        .nth(1)
        .is_some_and(|name| name == "bench")
    {
        // It works with the engines, and needs no element. The types of both are of the same names, of
        // which a process has each once.
        return match args::command(&[], version()).get_matches().subcommand() {
            Some(("bench", matches)) => bench::bench(matches),
            _ => unreachable!("the first argument is bench"),
        };
    }
    let plugin = plugin::load();
    let properties = element_properties(&plugin);
    // Without the plugin the filter's options are unknown: say that instead of refusing them.
    let command = args::command(&properties, version());
    let matches = match (command.try_get_matches(), &plugin) {
        (Ok(matches), _) => matches,
        (Err(error), Err(missing)) if error.kind() == clap::error::ErrorKind::UnknownArgument => {
            return Err(Failure::Failed(missing.to_string()));
        }
        (Err(error), _) => error.exit(),
    };
    match matches.subcommand() {
        Some(("run", matches)) => {
            let plugin = plugin.map_err(|error| Failure::Failed(error.to_string()))?;
            run::run(
                &args::run_options(matches, &properties),
                &properties,
                &plugin,
            )
        }
        Some(("webcam", matches)) => {
            let plugin = plugin.map_err(|error| Failure::Failed(error.to_string()))?;
            webcam::webcam(&webcam::options(matches, &properties), &plugin)
        }
        _ => Ok(doctor::doctor(&plugin)),
    }
}

fn main() -> ExitCode {
    match dispatch() {
        Ok(Exit::Done) => ExitCode::SUCCESS,
        Ok(Exit::Incomplete) => ExitCode::from(EXIT_FAILED),
        Ok(Exit::Interrupted) => ExitCode::from(EXIT_INTERRUPTED),
        Err(failure) => {
            console::note(&format!("error: {failure}"));
            ExitCode::from(match failure {
                Failure::Usage(_) => EXIT_USAGE,
                Failure::Failed(_) => EXIT_FAILED,
            })
        }
    }
}
