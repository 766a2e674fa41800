//! `cudaconv run`: filters an input, writes the output, reports.

use std::path::PathBuf;

use gst::prelude::*;

use crate::args::RunOptions;
use crate::input::Input;
use crate::output::{self, Output};
use crate::plugin::{self, Plugin};
use crate::properties::{self, Property};
use crate::session::{End, Session, Wiring};
use crate::summary::{Setting, Summary};
use crate::{Exit, Failure, console, report, templates};

/// Runs to the end and says what came of it.
///
/// # Errors
/// A usage error when the options make no sense together or the element refuses a value, else
/// what stopped the pipeline.
pub fn run(
    options: &RunOptions,
    properties: &[Property],
    plugin: &Plugin,
) -> Result<Exit, Failure> {
    let settings = settings(options)?;
    let input = Input::parse(&options.input, options.clip)
        .map_err(|error| Failure::Usage(error.to_string()))?;
    let output = output(options, &input, properties)?;
    check_report(options, &input, &output)?;
    let description = describe(options, &input, &output, &settings)?;
    if options.verbose {
        console::note(&format!("plugin: {}", plugin.file.display()));
        console::note(&format!("pipeline: {description}"));
    }
    let result = play(options, &input, &output, &description);
    let (end, mut summary) = match result {
        Ok(done) => done,
        Err(failure) => {
            output.discard();
            return Err(failure);
        }
    };
    summary.plugin = format!("{} ({})", plugin.version, plugin.file.display());
    conclude(options, &output, end, &summary)
}

/// What is set on the element: what was given, and a message for every frame unless refused.
fn settings(options: &RunOptions) -> Result<Vec<(String, gst::glib::Value)>, Failure> {
    let mut settings = options.settings.clone();
    match settings.iter().find(|(name, _)| name == "post-messages") {
        None => settings.push(("post-messages".to_owned(), true.to_value())),
        Some((_, value)) => {
            if options.report.is_some() && value.get() == Ok(false) {
                return Err(Failure::Usage(
                    "--report needs a message for every frame: leave out --post-messages false"
                        .to_owned(),
                ));
            }
        }
    }
    let element = gst::ElementFactory::make(plugin::ELEMENT)
        .build()
        .map_err(|error| Failure::Failed(error.message.to_string()))?;
    properties::try_on(&element, settings.iter().map(|(n, v)| (n.as_str(), v)))
        .map_err(Failure::Usage)?;
    Ok(settings)
}

fn output(options: &RunOptions, input: &Input, properties: &[Property]) -> Result<Output, Failure> {
    if options.no_output {
        return Ok(Output::none());
    }
    let kernel = options.settings.iter().find(|(name, _)| name == "kernel");
    let kernel = match kernel {
        Some((_, value)) => properties::text_of(value),
        None => properties
            .iter()
            .find(|p| p.name == "kernel")
            .map_or_else(|| "filtered".to_owned(), |p| p.default.clone()),
    };
    let path = options
        .output
        .clone()
        .unwrap_or_else(|| PathBuf::from(format!("{}-{kernel}.mp4", input.stem())));
    Output::file(&path, input.file()).map_err(|error| Failure::Usage(error.to_string()))
}

/// That a report cannot be written is better known before an hour's work than after it.
fn check_report(options: &RunOptions, input: &Input, output: &Output) -> Result<(), Failure> {
    let Some(path) = &options.report else {
        return Ok(());
    };
    if output.path.as_ref() == Some(path) {
        let name = path.display();
        return Err(Failure::Usage(format!(
            "{name} is both the output and the report"
        )));
    }
    output::check_target(path, input.file()).map_err(|error| Failure::Usage(error.to_string()))
}

fn describe(
    options: &RunOptions,
    input: &Input,
    output: &Output,
    settings: &[(String, gst::glib::Value)],
) -> Result<String, Failure> {
    let template = if options.compare {
        templates::COMPARE
    } else {
        templates::FILE
    };
    let failed = |error: templates::TemplateError| Failure::Failed(error.to_string());
    let properties = properties::describe(settings.iter().map(|(name, value)| (name, value)));
    let source = input.source().map_err(failed)?;
    // The width is not known yet; the session moves the right half once it is.
    let values = [
        ("source", source.as_str()),
        ("properties", properties.as_str()),
        ("width", "0"),
        ("sink", output.sink()),
    ];
    templates::fill(template, &values).map_err(failed)
}

fn play(
    options: &RunOptions,
    input: &Input,
    output: &Output,
    description: &str,
) -> Result<(End, Summary), Failure> {
    let wiring = Wiring {
        audio: output.audio.clone(),
        odd_sizes: output.odd_sizes,
        frames: match input {
            Input::Test(clip) => Some(clip.frames.into()),
            _ => None,
        },
        verbose: options.verbose,
        quiet: options.quiet,
    };
    let session = Session::new(description, wiring).map_err(Failure::Failed)?;
    session
        .handle_interrupts()
        .map_err(|error| Failure::Failed(format!("Ctrl-C cannot be handled: {error}")))?;
    if let (Some(encoder), false) = (output.encoder, options.quiet) {
        console::note(&format!("writing {} with {encoder}", output.label()));
    }
    let silent = options.settings.iter().find(|(name, _)| name == "silent");
    if silent.is_some_and(|(_, value)| value.get() == Ok(false)) {
        session
            .filter()
            .connect_notify(Some("last-message"), |filter, _| {
                if let Some(line) = filter.property::<Option<String>>("last-message") {
                    console::result(&line);
                }
            });
    }
    let settings = properties::of(session.filter())
        .into_iter()
        .map(|property| {
            let value = properties::text_of(&session.filter().property_value(&property.name));
            Setting {
                changed: value != property.default,
                name: property.name,
                value,
            }
        })
        .collect();
    let (end, seen) = session.run();
    let summary = Summary {
        input: input.label(),
        output: output.label(),
        encoder: output.encoder,
        settings,
        plugin: String::new(),
        interrupted: matches!(end, End::Interrupted),
        seen,
    };
    Ok((end, summary))
}

/// Names the output, prints the table, writes the report.
fn conclude(
    options: &RunOptions,
    output: &Output,
    end: End,
    summary: &Summary,
) -> Result<Exit, Failure> {
    let exit = match end {
        End::Complete => Exit::Done,
        End::Interrupted => Exit::Interrupted,
        End::Stopped => {
            output.discard();
            return Ok(Exit::Interrupted);
        }
        End::Failed(explained) => {
            output.discard();
            return Err(if explained.usage {
                Failure::Usage(explained.sentence)
            } else {
                Failure::Failed(explained.sentence)
            });
        }
    };
    if summary.seen.stats.frames_in == 0 {
        output.discard();
        return match exit {
            Exit::Interrupted => Ok(exit),
            _ => Err(Failure::Failed(format!(
                "{} gave no video frame",
                summary.input
            ))),
        };
    }
    output
        .finish()
        .map_err(|error| Failure::Failed(error.to_string()))?;
    if !options.quiet {
        console::result(&summary.table());
    }
    if let Some(path) = &options.report {
        report::write(path, summary).map_err(|error| {
            Failure::Failed(format!(
                "the report {} cannot be written: {error}",
                path.display()
            ))
        })?;
        if !options.quiet {
            console::result(&format!("report: {}", path.display()));
        }
    }
    Ok(exit)
}
