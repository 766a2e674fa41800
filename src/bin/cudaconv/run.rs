//! `cudaconv run`: filters an input, writes the output, reports.

use std::path::{Path, PathBuf};

use gst::prelude::*;

use crate::args::RunOptions;
use crate::input::Input;
use crate::output::{self, Output};
use crate::plugin::{self, Plugin};
use crate::properties::{self, Property};
use crate::session::{End, Session, Wiring};
use crate::summary::{Setting, Summary};
use crate::{Exit, Failure, console, network, report, templates};

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
    let settings = settings(
        &options.settings,
        options.report.as_ref().map(|_| "--report"),
    )?;
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
    let stopped = matches!(end, End::Stopped) || summary.seen.stats.frames_in == 0;
    let exit = conclude(&output, end, &summary, options.quiet)?;
    if !stopped {
        write_report(options, &summary)?;
    }
    Ok(exit)
}

/// What is set on the element: what was given, and a message for every frame, which may be refused
/// unless `needs` names what lives of them.
///
/// # Errors
/// A usage error when the element refuses a value.
pub fn settings(
    given: &[(String, gst::glib::Value)],
    needs: Option<&str>,
) -> Result<Vec<(String, gst::glib::Value)>, Failure> {
    let mut settings = given.to_vec();
    match settings.iter().find(|(name, _)| name == "post-messages") {
        None => settings.push(("post-messages".to_owned(), true.to_value())),
        Some((_, value)) => {
            if let (Some(needs), Ok(false)) = (needs, value.get()) {
                return Err(Failure::Usage(format!(
                    "{needs} needs a message for every frame: leave out --post-messages false"
                )));
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
    let address = options.output.as_deref().and_then(Path::to_str);
    if let Some(address) = address.filter(|address| network::is_destination(address)) {
        return Output::stream(address).map_err(|error| Failure::Usage(error.to_string()));
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
        patience: None,
        verbose: options.verbose,
        quiet: options.quiet,
    };
    let session = Session::new(description, wiring).map_err(Failure::Failed)?;
    session
        .handle_interrupts()
        .map_err(|error| Failure::Failed(format!("Ctrl-C cannot be handled: {error}")))?;
    if let Some(encoder) = output.encoder {
        let verb = if output.address.is_some() {
            "sending to"
        } else {
            "writing"
        };
        session.say(&format!("{verb} {} with {encoder}", output.label()));
    }
    print_lines(session.filter());
    let settings = in_use(session.filter());
    let (end, seen) = session.run(&mut ());
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

/// With `silent=false`, prints the line that the element has for every frame.
pub fn print_lines(filter: &gst::Element) {
    if filter.property::<bool>("silent") {
        return;
    }
    filter.connect_notify(Some("last-message"), |filter, _| {
        if let Some(line) = filter.property::<Option<String>>("last-message") {
            console::result(&line);
        }
    });
}

/// Every property of the element and its value.
pub fn in_use(filter: &gst::Element) -> Vec<Setting> {
    let properties = properties::of(filter).into_iter();
    properties
        .map(|property| {
            let value = properties::text_of(&filter.property_value(&property.name));
            Setting {
                changed: value != property.default,
                name: property.name,
                value,
            }
        })
        .collect()
}

/// Names the output and prints the table; nothing more where it was stopped.
///
/// # Errors
/// What stopped the pipeline, or that nothing came through it.
pub fn conclude(
    output: &Output,
    end: End,
    summary: &Summary,
    quiet: bool,
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
    if !quiet {
        console::result(&summary.table());
    }
    Ok(exit)
}

fn write_report(options: &RunOptions, summary: &Summary) -> Result<(), Failure> {
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
    Ok(())
}
