//! `--html`: one self-contained page about the ladders of a machine.

use std::time::Duration;

use gstcudaconv::engine::ladder::{Ladder, Measured, Row};
use maud::{Markup, html};

use super::{Machine, chart, table};
use crate::report;

/// Beside the style of every report.
const STYLE: &str = "
rect.copies { fill: var(--upload); } .key.copies { background: var(--upload); }
.key.kernel { background: var(--kernel); }
line.floor { stroke: var(--ink); stroke-width: 2; }
.key.floor { background: var(--ink); width: 2px; border-radius: 0; }
text.value, text.missing { dominant-baseline: middle; }
.wide { overflow-x: auto; }
.ladder { font-size: .75rem; }
.ladder th, .ladder td, .ladder thead th + th { min-width: 0; padding-left: .5rem; white-space: nowrap; }
.ladder tr > th:first-child { padding-left: 0; }
.ladder td.reason { text-align: left; white-space: normal; color: var(--faint); }
";

/// The whole page.
pub fn document(machine: &Machine, ladders: &[Ladder]) -> Markup {
    let body = html! {
        header {
            h1 { "cudaconv: the ladder" }
            p.input { (machine.cpu) }
            p.input { (machine.gpu_text()) }
        }
        main {
            p.story {
                "The steps of the tutorials, from plain code on one thread to what a GPU can do. Every one was "
                "computed and timed on this machine, and its result compared with one in float64. Bars are the "
                "filter alone, on a logarithmic axis; the thin piece behind one is the upload before and the "
                "download after it. The black mark is a bare copy of as many bytes in the same memory and the same "
                "run: only what caches hold can be faster."
            }
            p.legend {
                span { span.key.kernel {} "filter" }
                span { span.key.copies {} "with upload and download" }
                span { span.key.floor {} "bare copy of as many bytes" }
            }
            @for ladder in ladders { (section(machine, ladder)) }
            section { h2 { "Machine and versions" } (report::pairs(report::machine_and_versions())) }
        }
    };
    report::document("cudaconv: the ladder", STYLE, &body)
}

fn section(machine: &Machine, ladder: &Ladder) -> Markup {
    let first = ladder.first();
    html! {
        section {
            h2 { (ladder.title) }
            (chart::chart(ladder))
            div.wide {
                table.numbers.ladder {
                    thead {
                        tr {
                            th { "step" }
                            @for name in COLUMNS { th { (name) } }
                        }
                    }
                    tbody {
                        @for row in &ladder.rows {
                            (line(row, first, machine.lacks_gpu_for(row)))
                        }
                    }
                }
            }
            dl.stages {
                @for row in &ladder.rows {
                    @if !row.step.title.contains("blocks of") {
                        dt { (row.step.title) } dd { (row.step.about) }
                    }
                }
            }
        }
    }
}

const COLUMNS: [&str; 13] = [
    "µs",
    "speed-up",
    "up µs",
    "down µs",
    "with both",
    "moved MB",
    "GB/s",
    "× copy",
    "memory MB",
    "shared B",
    "occup.",
    "PSNR dB",
    "equal",
];

fn line(row: &Row, first: Option<Duration>, lacks_gpu: bool) -> Markup {
    html! {
        tr {
            th scope="row" { (row.step.title) }
            @match &row.outcome {
                Ok(measured) => { @for cell in cells(measured, first) { td { (cell) } } }
                Err(_) if lacks_gpu => {
                    td.reason colspan=(COLUMNS.len()) { "no GPU, for the reason above" }
                }
                Err(reason) => { td.reason colspan=(COLUMNS.len()) { (reason) } }
            }
        }
    }
}

fn cells(measured: &Measured, first: Option<Duration>) -> [String; COLUMNS.len()] {
    let speed_up = |time: Duration| {
        let of = |first: Duration| table::ratio(first.as_secs_f64() / time.as_secs_f64().max(1e-9));
        first.map_or_else(String::new, of)
    };
    let transfer = measured.transfer;
    let of_transfer = |text: &dyn Fn() -> String| transfer.map_or_else(String::new, |_| text());
    let percent = |share: f64| format!("{} %", table::short(100.0 * share));
    [
        table::microseconds(measured.time),
        speed_up(measured.time),
        transfer.map_or_else(String::new, |t| table::microseconds(t.up)),
        transfer.map_or_else(String::new, |t| table::microseconds(t.down)),
        of_transfer(&|| speed_up(measured.with_transfer())),
        table::megabytes(measured.bytes),
        table::short(measured.bandwidth() / 1e9),
        table::short(measured.over_floor()),
        table::megabytes(measured.memory_bytes),
        measured
            .shared_bytes
            .map_or_else(String::new, |b| b.to_string()),
        measured.occupancy.map_or_else(String::new, percent),
        table::psnr(measured.errors.psnr),
        percent(measured.errors.equal),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::tests::made_up;

    #[test]
    fn the_page_stands_alone_and_escapes_what_came_from_outside() {
        gst::init().unwrap();
        let (machine, ladders) = made_up();
        let page = document(&machine, &ladders).into_string();
        assert!(page.starts_with("<!DOCTYPE html>"));
        assert!(page.contains("A &lt;fast&gt; CPU") && page.contains("no &lt;tile&gt;"));
        for outside in ["http://", "https://", "<script", "<link", "@import", "url("] {
            assert!(!page.contains(outside), "{outside}");
        }
        assert_eq!(page.matches("<svg").count(), 1);
        assert!(page.contains(">3.20x<"));
    }
}
