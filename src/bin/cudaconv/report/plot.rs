//! The plots: latency of every frame against the budget, and how often which latency occurred.

use std::fmt::Write;
use std::ops::Range;

use maud::{Markup, html};

use super::scale::{Scale, number};
use crate::measure::{COUNTED, Quantiles, STAGES, Sample, milliseconds};

const WIDTH: f64 = 960.0;
const HEIGHT: f64 = 260.0;
const LEFT: f64 = 56.0;
const RIGHT: f64 = WIDTH - 26.0;
const TOP: f64 = 20.0;
const BOTTOM: f64 = HEIGHT - 34.0;
/// Beyond this many frames each column stands for several: the worst of them is shown.
const COLUMNS: usize = 480;
const BINS: usize = 60;
/// Below this share of the budget the bars are too small to read, and a second plot enlarges them.
const ENLARGE_BELOW: f64 = 0.4;

/// Consecutive frames and the worst of them.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Column {
    first: u64,
    last: u64,
    worst: Sample,
}

/// At most [`COLUMNS`] columns of equally many frames (the last may have fewer).
fn columns(samples: &[Sample]) -> Vec<Column> {
    let per_column = samples.len().div_ceil(COLUMNS).max(1);
    samples
        .chunks(per_column)
        .filter_map(|chunk| {
            Some(Column {
                first: chunk.first()?.frame,
                last: chunk.last()?.frame,
                worst: *chunk.iter().max_by_key(|sample| sample.latency)?,
            })
        })
        .collect()
}

/// What became of frames that were not filtered, and the numbers of these frames, in runs.
type Marks = (&'static str, Vec<Range<u64>>);

/// All plots of a run into which `frames` came; nothing without frames.
pub fn plots(samples: &[Sample], frames: u64, budget: u64) -> Markup {
    if samples.is_empty() {
        return html! { p.note { "There are no latencies of single frames to plot." } };
    }
    let marks = [
        ("dropped", dropped(samples, frames)),
        ("bypassed", bypassed(samples)),
    ];
    let quantiles = Quantiles::of(samples.iter().map(|sample| sample.latency));
    let columns = columns(samples);
    let enlarged = (quantiles.p99 as f64) < ENLARGE_BELOW * budget as f64;
    html! {
        section {
            h2 { "Latency of every frame" }
            (legend(&columns, &marks))
            (timeline(&columns, &marks, ceiling(&quantiles, budget), budget))
            @if enlarged {
                h3 { "The same, enlarged" }
                (timeline(&columns, &marks, ceiling(&quantiles, 0), budget))
            }
            @if samples.len() > columns.len() {
                p.note {
                    (samples.len()) " frames in " (columns.len())
                    " columns: each shows the worst of its frames."
                }
            }
        }
        section {
            h2 { "How many frames took how long" }
            (histogram(samples, &quantiles, budget))
        }
    }
}

/// The top of the latency axis in nanoseconds: the budget and 99 % of the frames are below it;
/// a few frames far beyond do not flatten all others, they are cut off and marked.
fn ceiling(quantiles: &Quantiles, budget: u64) -> f64 {
    let usual = (quantiles.p99.max(budget)).max(1) as f64 * 1.15;
    let max = quantiles.max as f64 * 1.05;
    if max <= usual * 1.6 {
        usual.max(max)
    } else {
        usual
    }
}

/// Stages that occur, and the part of the latency that belongs to none.
fn legend(columns: &[Column], marks: &[Marks]) -> Markup {
    let occurs = |index: usize| columns.iter().any(|c| parts(&c.worst)[index].1 > 0);
    html! {
        p.legend {
            @for (index, (name, _)) in parts(&Sample::default()).into_iter().enumerate() {
                @if occurs(index) { span { span class={ "key " (name) } {} (name) } }
            }
            span { span.key.line {} "budget" }
            @for (name, _) in marks.iter().filter(|(_, runs)| !runs.is_empty()) {
                span { span class={ "key mark " (name) } {} (name) }
            }
        }
    }
}

/// What the latency of a frame is made of, from the axis upwards.
fn parts(sample: &Sample) -> [(&'static str, u64); COUNTED + 1] {
    let mut parts = [("other", sample.unaccounted()); COUNTED + 1];
    for index in 0..COUNTED {
        parts[index] = (STAGES[index], sample.stages[index]);
    }
    parts
}

fn timeline(columns: &[Column], marks: &[Marks], ceiling: f64, budget: u64) -> Markup {
    let y = Scale {
        low: 0.0,
        high: ceiling,
        from: BOTTOM,
        to: TOP,
    };
    // Frames at the beginning and the end may have been dropped.
    let dropped = marks.iter().flat_map(|(_, runs)| runs);
    let first = columns.first().map_or(0, |column| column.first);
    let end = columns.last().map_or(0, |column| column.last) + 1;
    let x = Scale {
        low: dropped.clone().map(|run| run.start).fold(first, u64::min) as f64,
        high: dropped.map(|run| run.end).fold(end, u64::max) as f64,
        from: LEFT,
        to: RIGHT,
    };
    let spans = |column: &Column| (x.at(column.first as f64), x.at(column.last as f64 + 1.0));
    html! {
        svg viewBox={ "0 0 " (WIDTH) " " (HEIGHT) } role="img" {
            title { "Latency of every frame in milliseconds" }
            (frame_axes(&x, &y))
            @for (index, (name, _)) in parts(&Sample::default()).into_iter().enumerate() {
                path class=(name) d=(stage_path(columns, index, &y, spans)) {}
            }
            (budget_across(&y, budget))
            @for (name, runs) in marks.iter().filter(|(_, runs)| !runs.is_empty()) {
                path class=(name) d=(marks_path(runs, &x)) {}
            }
            @for column in columns {
                @let (left, right) = spans(column);
                @if column.worst.latency as f64 > ceiling { (beyond((left + right) / 2.0)) }
                rect.hit x=(pixel(left)) y=(TOP) width=(pixel(right - left)) height=(BOTTOM - TOP) {
                    title { (describe(column)) }
                }
            }
        }
    }
}

/// The numbers of frames that came in and never went out, in runs.
fn dropped(samples: &[Sample], frames: u64) -> Vec<Range<u64>> {
    let mut runs = Vec::new();
    let mut expected = 0;
    let numbers = samples.iter().map(|sample| sample.frame);
    for number in numbers.chain([frames]) {
        if number > expected {
            runs.push(expected..number);
        }
        expected = expected.max(number + 1);
    }
    runs
}

/// The numbers of frames that were passed on unfiltered, in runs.
fn bypassed(samples: &[Sample]) -> Vec<Range<u64>> {
    let mut runs: Vec<Range<u64>> = Vec::new();
    for sample in samples.iter().filter(|sample| sample.bypassed()) {
        match runs.last_mut() {
            Some(last) if last.end == sample.frame => last.end += 1,
            _ => runs.push(sample.frame..sample.frame + 1),
        }
    }
    runs
}

/// A mark under the axis for every frame of `runs`; those that would touch are one.
fn marks_path(runs: &[Range<u64>], x: &Scale) -> String {
    const NARROWEST: f64 = 2.0;
    let mut marks: Vec<(f64, f64)> = Vec::new();
    for run in runs {
        let (left, right) = (x.at(run.start as f64), x.at(run.end as f64));
        let right = right.max(left + NARROWEST);
        match marks.last_mut() {
            Some(last) if left <= last.1 => last.1 = right,
            _ => marks.push((left, right)),
        }
    }
    let mut path = String::new();
    for (left, right) in marks {
        // Writing to a String cannot fail.
        let _ = write!(
            path,
            "M{} {}H{}v5H{}z",
            pixel(left),
            BOTTOM,
            pixel(right),
            pixel(left)
        );
    }
    path
}

/// The bars of one stage as one path, each on top of the stages before it.
fn stage_path(
    columns: &[Column],
    index: usize,
    y: &Scale,
    spans: impl Fn(&Column) -> (f64, f64),
) -> String {
    let mut path = String::new();
    for column in columns {
        let parts = parts(&column.worst);
        let below: u64 = parts[..index].iter().map(|(_, time)| time).sum();
        let (bottom, top) = (y.at(below as f64), y.at((below + parts[index].1) as f64));
        if bottom - top < 0.05 {
            continue;
        }
        let (left, right) = spans(column);
        // A gap between bars that are wide enough to have one.
        let right = if right - left > 3.0 {
            right - 1.0
        } else {
            right
        };
        // Writing to a String cannot fail.
        let _ = write!(
            path,
            "M{} {}H{}V{}H{}z",
            pixel(left),
            pixel(bottom),
            pixel(right),
            pixel(top),
            pixel(left)
        );
    }
    path
}

fn pixel(value: f64) -> String {
    number((value * 100.0).round() / 100.0)
}

/// Marks a bar that is cut off.
fn beyond(x: f64) -> Markup {
    let d = format!("M{} {TOP}l4 -8h-8z", pixel(x));
    html! { path.beyond d=(d) {} }
}

fn describe(column: &Column) -> String {
    let worst = &column.worst;
    let mut text = format!("frame {}", worst.frame);
    if column.first != column.last {
        let _ = write!(text, ", the worst of {} to {}", column.first, column.last);
    }
    let _ = write!(text, ": {} ms", milliseconds(worst.latency));
    if worst.over_budget {
        text.push_str(", over budget");
    }
    if worst.bypassed() {
        text.push_str(", passed on unfiltered");
    }
    for (name, time) in parts(worst).into_iter().filter(|(_, time)| *time > 0) {
        let _ = write!(text, "\n{name} {} ms", milliseconds(time));
    }
    text
}

fn frame_axes(x: &Scale, y: &Scale) -> Markup {
    html! {
        g.axis {
            @for value in milliseconds_of(y).ticks(5) {
                @let at = pixel(y.at(value * 1e6));
                line x1=(LEFT) x2=(RIGHT) y1=(at) y2=(at) {}
                text.y x=(LEFT - 6.0) y=(at) { (number(value)) }
            }
            @for value in x.ticks(10).into_iter().filter(|value| value.fract() == 0.0) {
                text.x x=(pixel(x.at(value))) y=(BOTTOM + 16.0) { (number(value)) }
            }
            text.x x=((LEFT + RIGHT) / 2.0) y=(HEIGHT - 3.0) { "frame" }
            text.y x=(LEFT - 6.0) y=(TOP - 12.0) { "ms" }
        }
    }
}

/// An axis of nanoseconds as one of milliseconds.
fn milliseconds_of(scale: &Scale) -> Scale {
    Scale {
        low: scale.low / 1e6,
        high: scale.high / 1e6,
        ..*scale
    }
}

fn budget_across(y: &Scale, budget: u64) -> Markup {
    let value = budget as f64;
    let at = y.at(value);
    html! {
        @if y.contains(value) {
            line.under x1=(LEFT) x2=(RIGHT) y1=(pixel(at)) y2=(pixel(at)) {}
            line.line x1=(LEFT) x2=(RIGHT) y1=(pixel(at)) y2=(pixel(at)) {}
            text.label x=(RIGHT) y=(pixel(at - 4.0)) { "budget " (number(value / 1e6)) " ms" }
        }
    }
}

/// Counts of frames in equal ranges of latency; the last range holds all above it.
#[derive(Debug, Clone, PartialEq)]
struct Bins {
    low: f64,
    high: f64,
    counts: Vec<u64>,
    above: u64,
}

fn bins(samples: &[Sample], quantiles: &Quantiles) -> Bins {
    let min = samples.iter().map(|s| s.latency).min().unwrap_or(0) as f64;
    let low = min * 0.9;
    let high = ceiling(quantiles, 0).max(low * 1.2).max(low + 1000.0);
    let mut counts = vec![0; BINS];
    let mut above = 0;
    for sample in samples {
        let share = (sample.latency as f64 - low) / (high - low);
        match counts.get_mut((share * BINS as f64) as usize) {
            Some(count) => *count += 1,
            None => above += 1,
        }
    }
    Bins {
        low,
        high,
        counts,
        above,
    }
}

fn histogram(samples: &[Sample], quantiles: &Quantiles, budget: u64) -> Markup {
    let bins = bins(samples, quantiles);
    let most = bins.counts.iter().copied().max().unwrap_or(0).max(1);
    let x = Scale {
        low: bins.low,
        high: bins.high,
        from: LEFT,
        to: RIGHT,
    };
    let y = Scale {
        low: 0.0,
        high: most as f64 * 1.08,
        from: BOTTOM,
        to: TOP,
    };
    let width = (bins.high - bins.low) / BINS as f64;
    html! {
        svg viewBox={ "0 0 " (WIDTH) " " (HEIGHT) } role="img" {
            title { "Number of frames by latency" }
            (count_axes(&x, &y))
            @for (index, count) in bins.counts.iter().enumerate().filter(|(_, count)| **count > 0) {
                @let from = bins.low + index as f64 * width;
                (bar(&x, &y, from, width, *count))
            }
            @if x.contains(budget as f64) {
                @let at = pixel(x.at(budget as f64));
                line.line x1=(at) x2=(at) y1=(TOP) y2=(BOTTOM) {}
            }
        }
        @if bins.above > 0 {
            p.note {
                (bins.above) " of " (samples.len()) " frames took longer than "
                (number(bins.high / 1e6)) " ms; the longest took " (milliseconds(quantiles.max)) " ms."
            }
        }
    }
}

fn bar(x: &Scale, y: &Scale, from: f64, width: f64, count: u64) -> Markup {
    // A single frame among thousands is still to be seen.
    let top = y.at(count as f64).min(BOTTOM - 1.5);
    let (left, right) = (x.at(from), x.at(from + width));
    html! {
        rect.bar x=(pixel(left)) y=(pixel(top)) width=(pixel(right - left - 1.0))
            height=(pixel(BOTTOM - top)) {
            title {
                (count) " frame" @if count != 1 { "s" } " from " (number(from / 1e6)) " to "
                (number((from + width) / 1e6)) " ms"
            }
        }
    }
}

fn count_axes(x: &Scale, y: &Scale) -> Markup {
    let milliseconds = milliseconds_of(x);
    html! {
        g.axis {
            @for value in y.ticks(4).into_iter().filter(|value| value.fract() == 0.0) {
                @let at = pixel(y.at(value));
                line x1=(LEFT) x2=(RIGHT) y1=(at) y2=(at) {}
                text.y x=(LEFT - 6.0) y=(at) { (number(value)) }
            }
            @for value in milliseconds.ticks(10) {
                text.x x=(pixel(milliseconds.at(value))) y=(BOTTOM + 16.0) { (number(value)) }
            }
            text.x x=((LEFT + RIGHT) / 2.0) y=(HEIGHT - 3.0) { "latency in ms" }
            text.y x=(LEFT - 6.0) y=(TOP - 12.0) { "frames" }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn samples(latencies: impl IntoIterator<Item = u64>) -> Vec<Sample> {
        latencies
            .into_iter()
            .enumerate()
            .map(|(index, latency)| Sample {
                frame: index as u64,
                latency,
                stages: [latency / 10, 0, 0, latency / 2, 0, 0],
                ..Sample::default()
            })
            .collect()
    }

    #[test]
    fn few_frames_have_a_column_each() {
        let columns = columns(&samples([5, 9, 7]));
        assert_eq!(columns.len(), 3);
        assert!(columns.iter().all(|c| c.first == c.last));
    }

    #[test]
    fn many_frames_keep_their_worst() {
        let mut all = samples((0..100_000).map(|i| 1_000_000 + i % 1000));
        all[77_777].latency = 900_000_000;
        let columns = columns(&all);
        assert!(columns.len() <= COLUMNS);
        assert_eq!(
            columns.iter().map(|c| c.worst.latency).max(),
            Some(900_000_000)
        );
        assert_eq!(columns[0].first, 0);
        assert_eq!(columns.last().unwrap().last, 99_999);
        for pair in columns.windows(2) {
            assert_eq!(pair[0].last + 1, pair[1].first);
        }
    }

    #[test]
    fn one_huge_frame_does_not_flatten_the_others() {
        let mut all = samples(vec![2_000_000; 1000]);
        all[3].latency = 60_000_000_000;
        let quantiles = Quantiles::of(all.iter().map(|s| s.latency));
        assert!(ceiling(&quantiles, 33_000_000) < 40_000_000.0);
        assert!(ceiling(&quantiles, 0) < 3_000_000.0);
        let text = plots(&all, 1000, 33_000_000).into_string();
        assert_eq!(text.matches("class=\"beyond\"").count(), 2);
        assert!(text.contains("1 of 1000 frames took longer"));
    }

    #[test]
    fn frames_that_did_not_come_out_are_marked() {
        let mut all = samples(vec![1000; 10]);
        all.remove(7);
        all.drain(3..5);
        all.remove(0);
        assert_eq!(dropped(&all, 13), [0..1, 3..5, 7..8, 10..13]);
        let mut unfiltered = all.clone();
        for sample in &mut unfiltered[1..3] {
            sample.stages = [500, 0, 0, 0, 0, 0];
        }
        assert_eq!(bypassed(&unfiltered), [2..3, 5..6]);
        let page = plots(&all, 13, 2000).into_string();
        let path = page.split("path class=\"dropped\" d=\"").nth(1).unwrap();
        assert_eq!(path.split('"').next().unwrap().matches('M').count(), 4);
        assert!(
            plots(&samples([1, 2]), 2, 9)
                .into_string()
                .find("dropped")
                .is_none()
        );
        // However many there are, marks that touch are one.
        let x = Scale {
            low: 0.0,
            high: 1e6,
            from: 0.0,
            to: 500.0,
        };
        let every_other: Vec<_> = (0..500_000).map(|n| 2 * n..2 * n + 1).collect();
        assert_eq!(marks_path(&every_other, &x).matches('M').count(), 1);
    }

    #[test]
    fn every_frame_is_in_the_histogram_once() {
        for latencies in [vec![1], vec![0, 0], vec![5_000_000; 7], (1..5000).collect()] {
            let all = samples(latencies);
            let quantiles = Quantiles::of(all.iter().map(|s| s.latency));
            let bins = bins(&all, &quantiles);
            let counted: u64 = bins.counts.iter().sum();
            assert_eq!(counted + bins.above, all.len() as u64);
        }
    }

    #[test]
    fn the_parts_of_a_frame_add_up_to_its_latency() {
        let sample = samples([1000])[0];
        let total: u64 = parts(&sample).iter().map(|(_, time)| time).sum();
        assert_eq!(total, 1000);
    }
}
