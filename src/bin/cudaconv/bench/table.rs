//! The table of a ladder, a line as soon as its step is done.

use std::fmt::Write;
use std::time::Duration;

use gstcudaconv::engine::ladder::{Measured, Row};

/// Of the columns behind the step's name, each flush right.
const WIDTHS: [usize; 11] = [10, 10, 11, 10, 9, 9, 9, 9, 8, 8, 8];

fn columns(name: &str, cells: [&str; WIDTHS.len()]) -> String {
    let mut line = format!("{name:<32}");
    for (cell, width) in cells.into_iter().zip(WIDTHS) {
        // Writing to a String cannot fail.
        let _ = write!(line, "{cell:>width$}");
    }
    line
}

/// Two lines above those of the steps: names and units.
pub fn header() -> String {
    let names = [
        "time", "speed-up", "+ copies", "speed-up", "moved", "", "x copy", "memory", "shared",
        "occup.", "PSNR",
    ];
    let units = ["us", "", "us", "", "MB", "GB/s", "", "MB", "B", "%", "dB"];
    format!("{}\n{}", columns("", names), columns("step", units))
}

/// Stands for all steps on a GPU where there is none; why stands above the table.
pub fn line_without_gpu() -> String {
    format!(
        "{:<32}  - no GPU, for the reason above",
        "all steps on a GPU"
    )
}

/// One step; speed-ups are relative to `first`.
pub fn line(row: &Row, first: Option<Duration>) -> String {
    let title = &row.step.title;
    match &row.outcome {
        Ok(measured) => {
            let figures = figures(measured, first);
            columns(title, figures.each_ref().map(String::as_str))
        }
        Err(reason) => format!("{title:<32}  - {reason}"),
    }
}

fn figures(measured: &Measured, first: Option<Duration>) -> [String; WIDTHS.len()] {
    let speed_up = |time: Duration| {
        let of = |first: Duration| ratio(first.as_secs_f64() / time.as_secs_f64().max(1e-9));
        first.map_or_else(String::new, of)
    };
    let (copies, with_copies) = match measured.transfer {
        Some(transfer) => (
            microseconds(transfer.up + transfer.down),
            speed_up(measured.with_transfer()),
        ),
        None => (String::new(), String::new()),
    };
    let percent = |share: f64| format!("{:.0}", 100.0 * share);
    [
        microseconds(measured.time),
        speed_up(measured.time),
        copies,
        with_copies,
        megabytes(measured.bytes),
        short(measured.bandwidth() / 1e9),
        short(measured.over_floor()),
        megabytes(measured.memory_bytes),
        (measured.shared_bytes).map_or_else(String::new, |bytes| bytes.to_string()),
        measured.occupancy.map_or_else(String::new, percent),
        psnr(measured.errors.psnr),
    ]
}

/// Three significant digits, as far as they are behind the point.
pub fn short(value: f64) -> String {
    match value {
        v if v >= 99.95 => format!("{v:.0}"),
        v if v >= 9.995 => format!("{v:.1}"),
        v => format!("{v:.2}"),
    }
}

pub fn microseconds(time: Duration) -> String {
    short(time.as_secs_f64() * 1e6)
}

pub fn megabytes(bytes: usize) -> String {
    short(bytes as f64 / 1e6)
}

pub fn ratio(value: f64) -> String {
    format!("{}x", short(value))
}

pub fn psnr(decibels: f64) -> String {
    if decibels.is_infinite() {
        "=".into()
    } else {
        format!("{decibels:.1}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::tests::made_up;

    #[test]
    fn lines_have_figures_or_say_why_not() {
        let (_, ladders) = made_up();
        let first = ladders[0].first();
        let lines: Vec<String> = (ladders[0].rows.iter())
            .map(|row| line(row, first))
            .collect();
        let words = |line: &str| -> Vec<String> {
            line[32..].split_whitespace().map(String::from).collect()
        };
        assert_eq!(
            words(&lines[0]),
            ["8000", "1.00x", "16.0", "2.00", "16.0", "16.0", "="]
        );
        assert_eq!(
            words(&lines[2]),
            [
                "2000", "4.00x", "500", "3.20x", "16.0", "8.00", "4.00", "16.0", "1296", "75",
                "61.3"
            ]
        );
        assert!(lines[3].ends_with("- no <tile> \"here\""));
        let width = lines[0].chars().count();
        assert!(header().lines().all(|line| line.chars().count() == width));
    }
}
