//! `cudaconv webcam`: a camera before and after the filter, side by side, with the figures on the
//! picture, and keys that change the filter while it runs.

mod board;
mod camera;
mod controls;
mod keys;
mod limit;
mod live;
mod options;
mod panel;
mod source;
mod swap;
mod terminal;
mod text;
mod window;

use std::io::IsTerminal;
use std::path::PathBuf;
use std::time::Duration;

use gst::prelude::*;

pub use options::{WebcamOptions, command, read as options};

use crate::output::Output;
use crate::plugin::Plugin;
use crate::session::{End, Session, Wiring};
use crate::summary::Summary;
use crate::{Exit, Failure, console, properties, run, templates};
use live::Live;
use source::Source;

/// How long the stream may take to end: a camera that hangs must not keep the terminal.
const PATIENCE: Duration = Duration::from_secs(30);
/// How long it runs where nobody could end it by a key and nothing else was asked for.
const UNATTENDED: Duration = Duration::from_secs(10);

/// Where the picture goes.
struct Target {
    /// The element that opens the window.
    window: Option<String>,
    /// `Output::none()` where nothing is recorded.
    output: Output,
    recorded: bool,
}

/// Runs until a key, a limit or Ctrl-C ends it, and says what came of it.
///
/// # Errors
/// A usage error when the options make no sense together, else what stopped the pipeline.
pub fn webcam(options: &WebcamOptions, plugin: &Plugin) -> Result<Exit, Failure> {
    if options.list {
        console::result(&source::list());
        return Ok(Exit::Done);
    }
    let settings = run::settings(&options.settings, Some("webcam"))?;
    let source = Source::find(options).map_err(Failure::Usage)?;
    let target = target(options, &settings)?;
    say(options, &source.words());
    let description = describe(&source, &target, &settings)?;
    if options.verbose {
        console::note(&format!("plugin: {}", plugin.file.display()));
        console::note(&format!("pipeline: {description}"));
    }
    let (end, mut summary) = match play(options, &source, &target, &description) {
        Ok(done) => done,
        Err(failure) => {
            target.output.discard();
            return Err(failure);
        }
    };
    summary.plugin = format!("{} ({})", plugin.version, plugin.file.display());
    run::conclude(&target.output, end, &summary, options.quiet)
}

fn say(options: &WebcamOptions, line: &str) {
    if !options.quiet {
        console::note(line);
    }
}

/// A window, a file, or both; a file where there can be no window.
fn target(
    options: &WebcamOptions,
    settings: &[(String, gst::glib::Value)],
) -> Result<Target, Failure> {
    let window = match options.no_window {
        true => Err("no window was asked for".to_owned()),
        false => window::sink(),
    };
    let path = match (&window, &options.record) {
        (_, Some(path)) => Some(path.clone()),
        (Ok(_), None) => None,
        (Err(_), None) => {
            let kernel = settings.iter().find(|(name, _)| name == "kernel");
            let kernel = kernel.map(|(_, value)| properties::text_of(value));
            let kernel = kernel.unwrap_or_else(|| "filtered".to_owned());
            Some(PathBuf::from(format!("webcam-{kernel}.mp4")))
        }
    };
    let output = match &path {
        Some(path) => Output::recording(path).map_err(|error| Failure::Usage(error.to_string()))?,
        None => Output::none(),
    };
    if let (Err(reason), Some(path)) = (&window, &path) {
        let name = path.display();
        say(
            options,
            &format!("{reason}: the picture is recorded to {name}"),
        );
    }
    Ok(Target {
        window: window.ok(),
        recorded: path.is_some(),
        output,
    })
}

impl Target {
    /// The pipeline description that takes the picture.
    fn sink(&self) -> String {
        // An encoder has its slow frames: they wait here rather than hold up the window.
        let queue = "queue max-size-buffers=32 max-size-bytes=0 max-size-time=0";
        let written = format!("{queue} ! {}", self.output.sink());
        match &self.window {
            None => written,
            Some(sink) if !self.recorded => window::description(sink, true),
            Some(sink) => {
                let shown = window::description(sink, false);
                format!("tee name=shown shown. ! {shown} shown. ! {written}")
            }
        }
    }

    /// For people.
    fn label(&self) -> String {
        let window = self.window.as_ref().map(|sink| format!("window ({sink})"));
        let file = self.recorded.then(|| self.output.label());
        let parts: Vec<String> = [window, file].into_iter().flatten().collect();
        parts.join(", ")
    }
}

fn describe(
    source: &Source,
    target: &Target,
    settings: &[(String, gst::glib::Value)],
) -> Result<String, Failure> {
    let failed = |error: templates::TemplateError| Failure::Failed(error.to_string());
    let properties = properties::describe(settings.iter().map(|(name, value)| (name, value)));
    let source = source.description().map_err(failed)?;
    let sink = target.sink();
    // The width is not known yet; the session moves the right half once it is.
    let values = [
        ("source", source.as_str()),
        ("properties", properties.as_str()),
        ("width", "0"),
        ("sink", sink.as_str()),
    ];
    templates::fill(templates::WEBCAM, &values).map_err(failed)
}

fn play(
    options: &WebcamOptions,
    source: &Source,
    target: &Target,
    description: &str,
) -> Result<(End, Summary), Failure> {
    let wiring = Wiring {
        audio: None,
        odd_sizes: target.output.odd_sizes,
        frames: options.frames,
        patience: Some(PATIENCE),
        verbose: options.verbose,
        quiet: options.quiet,
    };
    let session = Session::new(description, wiring).map_err(|error| match source {
        Source::Description(_) => Failure::Usage(error),
        _ => Failure::Failed(error),
    })?;
    session
        .handle_interrupts()
        .map_err(|error| Failure::Failed(format!("Ctrl-C cannot be handled: {error}")))?;
    let pipeline = session.pipeline();
    source.complete(pipeline).map_err(Failure::Failed)?;
    let mut live = Live::new(pipeline, session.filter()).map_err(Failure::Failed)?;
    if let Some(window) = pipeline.by_name("window") {
        window::watch_keys(pipeline, &window);
        window::watch_closing(pipeline);
    }
    run::print_lines(session.filter());
    let keys = terminal::Keys::watch(pipeline);
    announce(&session, target, keys.is_some());
    limit::set(
        pipeline,
        options.frames,
        duration(options, target, keys.is_some()),
    );
    let (end, mut seen) = session.run(&mut live);
    drop(keys);
    let (settings, tally, earlier) = live.results();
    seen.stats.add_counts(&earlier);
    seen.tally = Some(tally);
    let summary = Summary {
        input: source.label(),
        output: target.label(),
        encoder: target.output.encoder,
        settings,
        plugin: String::new(),
        interrupted: matches!(end, End::Interrupted),
        seen,
    };
    Ok((end, summary))
}

/// What can be done now.
fn announce(session: &Session, target: &Target, terminal: bool) {
    if let (true, Some(encoder)) = (target.recorded, target.output.encoder) {
        let label = target.output.label();
        session.say(&format!("writing {label} with {encoder}"));
    }
    if terminal || target.window.is_some() {
        session.say(keys::HELP);
    }
}

/// When the video ends by itself.
fn duration(options: &WebcamOptions, target: &Target, terminal: bool) -> Option<Duration> {
    let attended = terminal || target.window.is_some() || std::io::stderr().is_terminal();
    if options.duration.is_some() || options.frames.is_some() || attended {
        return options.duration;
    }
    let seconds = UNATTENDED.as_secs();
    say(
        options,
        &format!(
            "nobody can press a key here: it ends after {seconds} s (--duration sets another time)"
        ),
    );
    Some(UNATTENDED)
}
