//! `--report`: one self-contained page about a run. Other pages are made of its parts.

mod plot;
pub mod scale;

use std::path::Path;

use gst::glib;
use maud::{DOCTYPE, Markup, PreEscaped, html};

use crate::machine;
use crate::measure::{self, COUNTED, Quantiles, STAGES, milliseconds};
use crate::summary::Summary;

const STYLE: &str = include_str!("style.css");

/// Writes the page about `summary` to `path`.
///
/// # Errors
/// When the file cannot be written.
pub fn write(path: &Path, summary: &Summary) -> std::io::Result<()> {
    std::fs::write(path, page(summary).into_string())
}

fn page(summary: &Summary) -> Markup {
    let kernel = summary.setting("kernel");
    let (samples, stats) = (&summary.seen.samples, &summary.seen.stats);
    let body = html! {
        header {
            h1 { "cudaconv " (kernel) }
            p.input { (summary.input) }
            @if summary.interrupted {
                p.warning { "The run was interrupted: everything here is up to there." }
            }
            p.verdict.over[summary.seen.stats.over_budget > 0] { (summary.verdict()) }
        }
        main {
            p.story { (story(summary)) }
            (plot::plots(samples, stats.frames_in, stats.budget))
            section { h2 { "Latency by stage" } (table(summary)) (stages(summary)) }
            section { h2 { "Run" } (pairs(facts(summary))) }
            section { h2 { "Settings" } (settings(summary)) }
            section { h2 { "Machine and versions" } (pairs(versions(summary))) }
        }
    };
    document(&format!("cudaconv {kernel}: {}", summary.input), "", &body)
}

/// A page that stands alone; `style` is beside that of all pages.
pub fn document(title: &str, style: &str, body: &Markup) -> Markup {
    html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width, initial-scale=1";
                meta name="color-scheme" content="light dark";
                title { (title) }
                style { (PreEscaped(STYLE)) (PreEscaped(style)) }
            }
            body { (body) }
        }
    }
}

/// Latency and stages in milliseconds, with the budget beside them.
fn table(summary: &Summary) -> Markup {
    let rows = measure::rows(&summary.seen.samples, &summary.seen.stats);
    html! {
        table.numbers {
            thead { tr { th { "ms" } th { "p50" } th { "p95" } th { "p99" } th { "max" } } }
            tbody {
                @for row in rows {
                    tr.total[row.name == "latency"] {
                        th scope="row" {
                            @if STAGES.contains(&row.name) { span class={ "key " (row.name) } {} }
                            (row.name)
                        }
                        td { (milliseconds(row.p50)) }
                        @match row.rest {
                            Some(rest) => {
                                td { (milliseconds(rest.p95)) }
                                td { (milliseconds(rest.p99)) }
                                td { (milliseconds(rest.max)) }
                            }
                            None => { td {} td {} td {} }
                        }
                    }
                }
                tr.budget {
                    th scope="row" { "budget" }
                    td { (milliseconds(summary.seen.stats.budget)) }
                    td {} td {} td {}
                }
            }
        }
    }
}

/// What was done and how it went, for somebody who was not there.
fn story(summary: &Summary) -> String {
    let stats = &summary.seen.stats;
    let mut text = format!(
        "{} frames came in and {} went out, filtered with {} on {}. ",
        stats.frames_in,
        stats.frames_out,
        summary.setting("kernel"),
        stats.device
    );
    if stats.frames_out > 0 {
        let samples = &summary.seen.samples;
        let latency = match samples.is_empty() {
            true => stats.latency,
            false => Quantiles::of(samples.iter().map(|sample| sample.latency)),
        };
        text += &format!(
            "Half of them were ready within {} ms of their arrival, and 99 of 100 within {} ms; \
             the slowest took {} ms. ",
            milliseconds(latency.p50),
            milliseconds(latency.p99),
            milliseconds(latency.max)
        );
    }
    text += &format!(
        "A frame that takes longer than the budget of {} ms is late.",
        milliseconds(stats.budget)
    );
    if stats.dropped > 0 {
        text += &format!(" {} frames were dropped.", stats.dropped);
    }
    if stats.bypassed > 0 {
        text += &format!(" {} frames were passed on unfiltered.", stats.bypassed);
    }
    if stats.dropped + stats.bypassed > 0 {
        text += " The marks under the first plot show which.";
    }
    text
}

/// What each stage is, of those that took any time.
fn stages(summary: &Summary) -> Markup {
    let meanings = [
        "for frames before it to be done, and for the processor to get to it",
        "its copy into memory that the GPU can read",
        "its way to the GPU",
        "the filter itself",
        "its way back from the GPU, and out of that memory",
        "ready, or waiting, only because what comes behind the filter did not take earlier frames: \
         not part of the latency",
    ];
    let rows = measure::rows(&summary.seen.samples, &summary.seen.stats);
    let took_time = |name: &str| {
        let row = rows.iter().find(|row| row.name == name);
        row.is_some_and(|row| row.rest.map_or(row.p50, |rest| rest.max) > 0)
    };
    html! {
        p.note { "Latency runs from a frame’s arrival at the filter until it is ready to go on. It is made of:" }
        dl.stages {
            @for (index, (name, meaning)) in STAGES.iter().zip(meanings).enumerate() {
                @if index == COUNTED {
                    dt { "other" } dd { "all else, such as getting memory" }
                }
                @if took_time(name) { dt { (name) } dd { (meaning) } }
            }
        }
    }
}

/// A table of names and values.
pub fn pairs(pairs: Vec<(String, String)>) -> Markup {
    html! {
        table.pairs {
            tbody {
                @for (name, value) in pairs {
                    tr { th scope="row" { (name) } td { (value) } }
                }
            }
        }
    }
}

fn facts(summary: &Summary) -> Vec<(String, String)> {
    let facts = summary.facts().into_iter();
    facts
        .map(|(name, value)| (name.to_owned(), value))
        .collect()
}

/// Every property; those that are not at their default stand out.
fn settings(summary: &Summary) -> Markup {
    html! {
        table.pairs {
            tbody {
                @for setting in &summary.settings {
                    tr.changed[setting.changed] {
                        th scope="row" { (setting.name) }
                        td { @if setting.value.is_empty() { "–" } @else { (setting.value) } }
                    }
                }
            }
        }
    }
}

fn versions(summary: &Summary) -> Vec<(String, String)> {
    let mut versions = machine_and_versions();
    let program = versions.iter().position(|(name, _)| name == "cudaconv");
    let plugin = ("plugin".to_owned(), summary.plugin.clone());
    versions.insert(program.map_or(0, |at| at + 1), plugin);
    versions
}

/// Names and values of the machine, of what runs on it, and of when and how it was started.
pub fn machine_and_versions() -> Vec<(String, String)> {
    let (major, minor, micro, _) = gst::version();
    let date = glib::DateTime::now_local().and_then(|now| now.format("%Y-%m-%d %H:%M:%S %Z"));
    let mut versions = vec![
        ("CPU", machine::describe_cpu()),
        ("system", machine::system()),
        ("GStreamer", format!("{major}.{minor}.{micro}")),
        ("cudaconv", crate::version()),
    ];
    versions.push(("command", command_line(std::env::args())));
    if let Ok(date) = date {
        versions.push(("date", date.to_string()));
    }
    let versions = versions.into_iter();
    versions
        .map(|(name, value)| (name.to_owned(), value))
        .collect()
}

/// The arguments as a shell takes them.
fn command_line(arguments: impl Iterator<Item = String>) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "_-+./:,=%@".contains(c);
    arguments
        .map(|argument| {
            if !argument.is_empty() && argument.chars().all(plain) {
                argument
            } else {
                format!("'{}'", argument.replace('\'', r"'\''"))
            }
        })
        .collect::<Vec<_>>()
        .join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::summary::tests::made_up;

    #[test]
    fn the_page_stands_alone_and_escapes_what_came_from_outside() {
        gst::init().unwrap();
        let page = page(&made_up(&[1000, 2000, 40_000])).into_string();
        assert!(page.starts_with("<!DOCTYPE html>"));
        assert!(page.contains("in &amp; out &lt;1&gt;.mp4"));
        assert!(page.contains("A &lt;fast&gt; CPU &amp; more"));
        for outside in ["http://", "https://", "<script", "<link", "@import", "url("] {
            assert!(!page.contains(outside), "{outside}");
        }
        assert!(page.contains("1 of 3 frames over the budget"));
    }

    #[test]
    fn every_number_of_frames_makes_a_page_of_sensible_size() {
        gst::init().unwrap();
        for frames in [1, 2, 480, 481, 100_000] {
            let latencies: Vec<u64> = (0..frames).map(|i| 1000 + i % 977).collect();
            let page = page(&made_up(&latencies)).into_string();
            assert!(page.len() < 400_000, "{frames}: {} bytes", page.len());
            assert!(!page.contains("NaN") && !page.contains("inf"), "{frames}");
        }
    }

    #[test]
    fn arguments_are_quoted_for_a_shell() {
        let arguments = ["cudaconv", "it's", "a b", ""].map(String::from);
        assert_eq!(
            command_line(arguments.into_iter()),
            r"cudaconv 'it'\''s' 'a b' ''"
        );
    }
}
