//! The table of a ladder, a line as soon as its step is done.

use std::time::Duration;

use gstcudaconv::engine::ladder::{Measured, Row};

/// Above the columns of [`line`].
pub const HEADER: &str = "\
                                      time  speed-up   + copies  speed-up    moved            x copy   memory  shared  occup.    PSNR
step                                    us                   us                 MB     GB/s               MB       B       %      dB";

/// One step; speed-ups are relative to `first`.
pub fn line(row: &Row, first: Option<Duration>) -> String {
    let title = &row.step.title;
    match &row.outcome {
        Ok(measured) => format!("{title:<32}{}", figures(measured, first)),
        Err(reason) => format!("{title:<32}  - {reason}"),
    }
}

fn figures(measured: &Measured, first: Option<Duration>) -> String {
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
    let shared = measured
        .shared_bytes
        .map_or(String::new(), |b| b.to_string());
    let occupancy = (measured.occupancy).map_or(String::new(), |o| format!("{:.0}", 100.0 * o));
    format!(
        "{:>10}{:>10}{copies:>11}{with_copies:>10}{:>9}{:>9}{:>10}{:>9}{shared:>8}{occupancy:>8}{:>8}",
        microseconds(measured.time),
        speed_up(measured.time),
        megabytes(measured.bytes),
        format!("{:.1}", measured.bandwidth() / 1e9),
        format!("{:.2}", measured.over_floor()),
        megabytes(measured.memory_bytes),
        psnr(measured.errors.psnr),
    )
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
            ["8000", "1.00x", "16.0", "2.0", "16.00", "16.0", "="]
        );
        assert_eq!(
            words(&lines[2]),
            [
                "2000", "4.00x", "500", "3.20x", "16.0", "8.0", "4.00", "16.0", "1296", "75",
                "61.3"
            ]
        );
        assert!(lines[3].ends_with("- no <tile> \"here\""));
        let widths: Vec<usize> = HEADER.lines().map(str::len).collect();
        assert_eq!(
            widths,
            [lines[0].len(), lines[0].len()],
            "{HEADER}\n{}",
            lines[0]
        );
    }
}
