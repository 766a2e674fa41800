//! What is shown about the filter while it runs: filled by the thread that watches the stream,
//! drawn by the one that shows it.

use std::collections::VecDeque;

use crate::measure::{Quantiles, Sample, Stats};

/// Frames of which the plot and the quantile are: eight seconds at 30 frames per second.
pub const SHOWN: usize = 240;
/// Frames between two changes of the figures, and over which the latency of now is the median: a
/// number that changes with every frame cannot be read.
const STEADY: usize = 8;

/// One frame of the plot.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Point {
    /// Nanoseconds.
    pub latency: u64,
    pub over_budget: bool,
}

/// Figures that stand still long enough to be read; nanoseconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Figures {
    pub now: u64,
    pub p99: u64,
}

/// Everything that is drawn.
#[derive(Debug, Clone, Default)]
pub struct Board {
    /// The kernel, as in `bilateral, radius 8`.
    pub title: String,
    /// What computes it, as in `cpu · separable · report`.
    pub how: String,
    /// Nanoseconds.
    pub budget: u64,
    /// Frames that were over budget, dropped and passed on unfiltered since the start.
    pub counts: Counts,
    pub figures: Option<Figures>,
    /// The last frames, oldest first, at most [`SHOWN`].
    pub points: VecDeque<Point>,
    since_figures: usize,
}

/// Frames that did not go as they should.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Counts {
    pub over_budget: u64,
    pub dropped: u64,
    pub bypassed: u64,
}

impl Counts {
    pub fn of(stats: &Stats) -> Counts {
        Counts {
            over_budget: stats.over_budget,
            dropped: stats.dropped,
            bypassed: stats.bypassed,
        }
    }
}

impl Board {
    /// Takes in a frame.
    pub fn frame(&mut self, sample: &Sample) {
        if self.points.len() == SHOWN {
            self.points.pop_front();
        }
        self.points.push_back(Point {
            latency: sample.latency,
            over_budget: sample.over_budget,
        });
        self.since_figures += 1;
        if self.figures.is_none() || self.since_figures >= STEADY {
            self.since_figures = 0;
            let newest = self.points.iter().rev().take(STEADY);
            self.figures = Some(Figures {
                now: Quantiles::of(newest.map(|point| point.latency)).p50,
                p99: Quantiles::of(self.points.iter().map(|point| point.latency)).p99,
            });
        }
    }

    /// Forgets the frames: those of other settings say nothing about the new ones.
    pub fn clear(&mut self) {
        self.points.clear();
        self.figures = None;
        self.since_figures = 0;
    }

    /// The line of counts.
    pub fn outcome(&self) -> String {
        let Counts {
            over_budget,
            dropped,
            bypassed,
        } = self.counts;
        format!("{over_budget} over, {dropped} dropped, {bypassed} bypassed")
    }
}

/// Milliseconds with as many digits as matter: three, or the whole number.
pub fn short(nanoseconds: u64) -> String {
    let value = nanoseconds as f64 / 1e6;
    let digits = match value {
        v if v < 9.995 => 2,
        v if v < 99.95 => 1,
        _ => 0,
    };
    format!("{value:.digits$}")
}

/// A budget in milliseconds, without digits that say nothing.
pub fn budget(nanoseconds: u64) -> String {
    let text = format!("{:.3}", nanoseconds as f64 / 1e6);
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample(latency: u64) -> Sample {
        Sample {
            latency,
            over_budget: latency > 33,
            ..Sample::default()
        }
    }

    #[test]
    fn the_last_frames_are_kept_and_the_figures_stand_still_for_some() {
        let mut board = Board::default();
        board.frame(&sample(5));
        assert_eq!(board.figures, Some(Figures { now: 5, p99: 5 }));
        for _ in 1..STEADY {
            board.frame(&sample(50));
            assert_eq!(board.figures.unwrap().now, 5);
        }
        board.frame(&sample(50));
        assert_eq!(board.figures, Some(Figures { now: 50, p99: 50 }));
        for latency in 0..1000 {
            board.frame(&sample(latency));
        }
        assert_eq!(board.points.len(), SHOWN);
        assert_eq!(board.points.front().unwrap().latency, 1000 - SHOWN as u64);
        assert!(board.points.iter().all(|point| point.over_budget));
        board.clear();
        assert!(board.points.is_empty() && board.figures.is_none());
    }

    #[test]
    fn times_have_the_digits_that_matter() {
        let times = [
            (1_834_000, "1.83"),
            (12_340_000, "12.3"),
            (9_999_000, "10.0"),
            (250_000_000, "250"),
        ];
        for (time, text) in times {
            assert_eq!(short(time), text);
        }
        let budgets = [
            (33_000_000, "33"),
            (16_666_667, "16.667"),
            (500_000, "0.5"),
            (0, "0"),
        ];
        for (time, text) in budgets {
            assert_eq!(budget(time), text);
        }
    }
}
