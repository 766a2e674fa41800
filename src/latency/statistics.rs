//! Counts and quantiles of a stream, in constant memory.

use hdrhistogram::Histogram;

use super::{FrameTiming, Stage, nanoseconds};

/// Frames counted since the stream started.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Counts {
    pub frames_in: u64,
    pub frames_out: u64,
    pub dropped: u64,
    pub bypassed: u64,
    pub over_budget: u64,
    /// Frames whose input or output needed no host copy.
    pub pinned_in: u64,
    pub pinned_out: u64,
}

/// Latency of the frames so far, in nanoseconds; all 0 before the first.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Quantiles {
    pub min: u64,
    pub mean: u64,
    pub p50: u64,
    pub p95: u64,
    pub p99: u64,
    pub max: u64,
}

/// One microsecond is the finest step, one minute the largest value told apart; in between three
/// significant digits.
fn histogram() -> Histogram<u32> {
    Histogram::new_with_bounds(1_000, 60_000_000_000, 3).expect("constant bounds are valid")
}

/// Latency and stages of all frames of a stream. Memory is constant, half a megabyte: a
/// week at 240 frames a second is far below what its counters hold.
#[derive(Debug)]
pub struct Statistics {
    latency: Histogram<u32>,
    stages: [Histogram<u32>; 6],
    frames: u64,
    sum: u128,
    min: u64,
    max: u64,
}

impl Default for Statistics {
    fn default() -> Self {
        Statistics {
            latency: histogram(),
            stages: std::array::from_fn(|_| histogram()),
            frames: 0,
            sum: 0,
            min: u64::MAX,
            max: 0,
        }
    }
}

impl Statistics {
    /// Counts one finished frame.
    pub fn record(&mut self, timing: &FrameTiming) {
        let latency = nanoseconds(timing.latency);
        self.latency.saturating_record(latency);
        for stage in Stage::ALL {
            self.stages[stage as usize].saturating_record(nanoseconds(timing.stage(stage)));
        }
        self.frames += 1;
        self.sum += u128::from(latency);
        self.min = self.min.min(latency);
        self.max = self.max.max(latency);
    }

    pub fn latency(&self) -> Quantiles {
        if self.frames == 0 {
            return Quantiles::default();
        }
        // A bucket's upper end may lie beyond every value in it.
        let quantile = |q: f64| self.latency.value_at_quantile(q).clamp(self.min, self.max);
        Quantiles {
            min: self.min,
            mean: u64::try_from(self.sum / u128::from(self.frames)).unwrap_or(u64::MAX),
            p50: quantile(0.50),
            p95: quantile(0.95),
            p99: quantile(0.99),
            max: self.max,
        }
    }

    /// The median of a stage, in nanoseconds.
    pub fn stage_median(&self, stage: Stage) -> u64 {
        let stage = &self.stages[stage as usize];
        // A stage that is 0 for most frames is told as 0, not as the width of the first bucket.
        if stage.value_at_quantile(0.50) <= stage.highest_equivalent(0) {
            0
        } else {
            stage.value_at_quantile(0.50)
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn frame(latency_us: u64) -> FrameTiming {
        let latency = Duration::from_micros(latency_us);
        FrameTiming::new(latency).with(Stage::Kernel, latency)
    }

    #[test]
    fn quantiles_of_one_to_a_thousand_are_within_three_digits() {
        let mut statistics = Statistics::default();
        for us in 1..=1000 {
            statistics.record(&frame(us));
        }
        let quantiles = statistics.latency();
        let near = |value: u64, us: f64| (value as f64 / 1000.0 / us - 1.0).abs() < 2e-3;
        assert_eq!(quantiles.min, 1_000);
        assert_eq!(quantiles.max, 1_000_000);
        assert_eq!(quantiles.mean, 500_500);
        assert!(near(quantiles.p50, 500.0), "{quantiles:?}");
        assert!(near(quantiles.p95, 950.0), "{quantiles:?}");
        assert!(near(quantiles.p99, 990.0), "{quantiles:?}");
        assert!(near(statistics.stage_median(Stage::Kernel), 500.0));
        assert_eq!(statistics.stage_median(Stage::Upload), 0);
    }

    #[test]
    fn before_the_first_frame_all_is_zero() {
        assert_eq!(Statistics::default().latency(), Quantiles::default());
    }

    #[test]
    fn a_frame_of_an_hour_is_kept_as_maximum() {
        let mut statistics = Statistics::default();
        statistics.record(&frame(3_600_000_000));
        assert_eq!(statistics.latency().max, 3_600_000_000_000);
        assert_eq!(statistics.latency().min, 3_600_000_000_000);
    }

    #[test]
    fn the_costliest_stage_is_never_the_blocked_one() {
        let timing = frame(10).with(Stage::Blocked, Duration::from_secs(9));
        assert_eq!(timing.costliest(), Stage::Kernel);
    }
}
