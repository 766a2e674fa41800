//! How far the run is: a bar on a terminal, a line now and then elsewhere.

use std::io::IsTerminal;
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressStyle};

use crate::console;
use crate::measure::{Sample, milliseconds};

/// Frames over which the latency shown is the median: it can be read, and follows quickly.
const WINDOW: usize = 31;
/// Between two lines where there is no terminal.
const LINE_INTERVAL: Duration = Duration::from_secs(10);

/// What is known of the run at one moment.
#[derive(Debug, Clone, Copy, Default)]
pub struct Position {
    pub frames: u64,
    /// Place in the video and its length, in nanoseconds.
    pub time: Option<u64>,
    pub duration: Option<u64>,
}

enum Display {
    Bar(ProgressBar),
    Lines { last: Instant },
    Nothing,
}

/// Shows the progress on standard error.
pub struct Progress {
    display: Display,
    started: Instant,
    recent: Vec<u64>,
    next: usize,
}

impl Progress {
    /// Shows nothing at all when `quiet`.
    pub fn new(quiet: bool) -> Progress {
        let display = if quiet {
            Display::Nothing
        } else if std::io::stderr().is_terminal() {
            let bar = ProgressBar::new_spinner();
            bar.enable_steady_tick(Duration::from_millis(200));
            Display::Bar(bar)
        } else {
            Display::Lines {
                last: Instant::now(),
            }
        };
        Progress {
            display,
            started: Instant::now(),
            recent: Vec::with_capacity(WINDOW),
            next: 0,
        }
    }

    /// Takes in a frame's latency.
    pub fn frame(&mut self, sample: &Sample) {
        if self.recent.len() < WINDOW {
            self.recent.push(sample.latency);
        } else {
            self.recent[self.next] = sample.latency;
        }
        self.next = (self.next + 1) % WINDOW;
    }

    /// Shows `position`, not more often than makes sense.
    pub fn show(&mut self, position: &Position) {
        let text = self.text(position);
        match &mut self.display {
            Display::Bar(bar) => {
                if let (Some(time), Some(duration)) = (position.time, position.duration) {
                    if bar.length() != Some(duration) {
                        bar.set_style(bar_style());
                        bar.set_length(duration);
                    }
                    bar.set_position(time.min(duration));
                }
                bar.set_message(text);
            }
            Display::Lines { last } if last.elapsed() >= LINE_INTERVAL => {
                *last = Instant::now();
                let done = match (position.time, position.duration) {
                    (Some(time), Some(duration)) if duration > 0 => {
                        format!("{:3} %, ", (time.min(duration) * 100) / duration)
                    }
                    _ => String::new(),
                };
                console::note(&format!("{done}{text}"));
            }
            Display::Lines { .. } | Display::Nothing => {}
        }
    }

    fn text(&self, position: &Position) -> String {
        let seconds = self.started.elapsed().as_secs_f64();
        let rate = position.frames as f64 / seconds.max(1e-3);
        let mut text = format!("{} frames, {rate:.1} fps", position.frames);
        if !self.recent.is_empty() {
            let mut recent = self.recent.clone();
            recent.sort_unstable();
            let median = recent[recent.len() / 2];
            text.push_str(&format!(", latency {} ms", milliseconds(median)));
        }
        text
    }

    /// Says `line` without disturbing the bar.
    pub fn say(&self, line: &str) {
        match &self.display {
            Display::Bar(bar) => bar.suspend(|| console::note(line)),
            _ => console::note(line),
        }
    }

    /// Takes the bar away.
    pub fn finish(&self) {
        if let Display::Bar(bar) = &self.display {
            bar.finish_and_clear();
        }
    }
}

fn bar_style() -> ProgressStyle {
    let template = "{wide_bar} {percent:>3} % {msg} {eta}";
    ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_bar())
}
