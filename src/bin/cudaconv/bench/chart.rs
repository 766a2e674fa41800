//! The chart of a ladder: a bar for the time of every step, on a logarithmic axis.

use gstcudaconv::engine::ladder::{Ladder, Measured, Row};
use maud::{Markup, html};

use super::table;
use crate::report::scale::{Scale, number};

const WIDTH: f64 = 960.0;
const LEFT: f64 = 210.0;
const RIGHT: f64 = WIDTH - 70.0;
const TOP: f64 = 24.0;
const ROW: f64 = 20.0;
const BAR: f64 = 12.0;

/// A bar a step, in the ladder's order; nothing where no step was taken.
pub fn chart(ladder: &Ladder) -> Markup {
    let measured = || (ladder.rows.iter()).filter_map(|row| row.outcome.as_ref().ok());
    if measured().next().is_none() {
        return html! {};
    }
    let axis = axis(measured());
    let height = TOP + ROW * ladder.rows.len() as f64 + 12.0;
    html! {
        svg viewBox={ "0 0 " (WIDTH) " " (height) } role="img" {
            title { "Time of every step of " (ladder.title) ", in microseconds" }
            g.axis {
                @for power in axis.low as i32..=axis.high as i32 {
                    @let at = pixel(axis.at(power.into()));
                    line x1=(at) x2=(at) y1=(TOP - 6.0) y2=(height - 12.0) {}
                    text.x x=(at) y=(TOP - 11.0) { (time(power)) }
                }
            }
            @for (index, row) in ladder.rows.iter().enumerate() {
                (bar(&axis, row, TOP + ROW * index as f64))
            }
        }
    }
}

/// Powers of ten of microseconds, from below the least to above the most.
fn axis<'a>(measured: impl Iterator<Item = &'a Measured>) -> Scale {
    let (mut least, mut most) = (f64::INFINITY, f64::NEG_INFINITY);
    for measured in measured {
        for time in [measured.time, measured.floor, measured.with_transfer()] {
            least = least.min(logarithm(time));
            most = most.max(logarithm(time));
        }
    }
    Scale {
        // Bars have no beginning on such an axis: they get room to be seen.
        low: (least - 0.15).floor(),
        high: most.ceil().max((least - 0.15).floor() + 1.0),
        from: LEFT,
        to: RIGHT,
    }
}

/// Of microseconds, to the base of ten.
fn logarithm(time: std::time::Duration) -> f64 {
    (time.as_secs_f64() * 1e6).max(1e-3).log10()
}

/// A power of ten of microseconds as people say it.
fn time(power: i32) -> String {
    match power {
        ..3 => format!("{} µs", number(10f64.powi(power))),
        3..6 => format!("{} ms", number(10f64.powi(power - 3))),
        6.. => format!("{} s", number(10f64.powi(power - 6))),
    }
}

fn bar(axis: &Scale, row: &Row, top: f64) -> Markup {
    let middle = top + ROW / 2.0;
    html! {
        text.y x=(LEFT - 8.0) y=(pixel(middle)) { (row.step.title) }
        @match &row.outcome {
            Err(_) => text.missing x=(LEFT + 6.0) y=(pixel(middle)) { "not taken: see the table" },
            Ok(measured) => {
                @let end = axis.at(logarithm(measured.time));
                @let total = axis.at(logarithm(measured.with_transfer()));
                @let floor = axis.at(logarithm(measured.floor));
                rect.bar x=(LEFT) y=(pixel(top + (ROW - BAR) / 2.0)) width=(pixel(end - LEFT))
                    height=(BAR) {}
                @if measured.transfer.is_some() {
                    rect.copies x=(pixel(end)) y=(pixel(middle - 2.0)) width=(pixel(total - end))
                        height="4" {}
                }
                line.floor x1=(pixel(floor)) x2=(pixel(floor)) y1=(pixel(top + 2.0))
                    y2=(pixel(top + ROW - 2.0)) {}
                text.value x=(pixel(end.max(total).max(floor) + 6.0)) y=(pixel(middle)) {
                    (table::microseconds(measured.time)) " µs"
                }
                rect.hit x=(LEFT) y=(pixel(top)) width=(RIGHT - LEFT) height=(ROW) {
                    title { (describe(row, measured)) }
                }
            }
        }
    }
}

fn describe(row: &Row, measured: &Measured) -> String {
    let mut text = format!(
        "{}: {}\n{} µs, a copy of as many bytes {} µs",
        row.step.title,
        row.step.about,
        table::microseconds(measured.time),
        table::microseconds(measured.floor),
    );
    if let Some(transfer) = measured.transfer {
        text += &format!(
            "\nupload {} µs, download {} µs",
            table::microseconds(transfer.up),
            table::microseconds(transfer.down)
        );
    }
    text
}

/// A place in the picture, to a hundredth.
fn pixel(value: f64) -> String {
    number((value * 100.0).round() / 100.0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::tests::made_up;

    #[test]
    fn every_step_has_a_bar_that_ends_at_its_time() {
        let (_, ladders) = made_up();
        let text = chart(&ladders[0]).into_string();
        assert_eq!(text.matches("class=\"bar\"").count(), 3);
        assert_eq!(text.matches("class=\"floor\"").count(), 3);
        assert_eq!(text.matches("class=\"copies\"").count(), 1);
        assert_eq!(text.matches("not taken").count(), 1);
        assert!(!text.contains("NaN") && !text.contains("inf"));
        let measured = ladders[0]
            .rows
            .iter()
            .filter_map(|row| row.outcome.as_ref().ok());
        let axis = axis(measured);
        // From the floor of 500 µs to 8 ms.
        assert_eq!((axis.low, axis.high), (2.0, 4.0));
        assert_eq!(time(2), "100 µs");
        assert_eq!(time(4), "10 ms");
    }
}
