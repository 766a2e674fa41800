//! The answer to a live pipeline's LATENCY query, and the expected service time of a frame.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

const MILLISECOND: Duration = Duration::from_millis(1);
const WINDOW: Duration = Duration::from_secs(5);
const EVALUATION_PERIOD: Duration = Duration::from_secs(1);
/// Frames that are remembered of the window: at more than 800 a second it is shorter.
/// A frame this near to the slowest one may be slow because of that one.
const HICCUP: Duration = Duration::from_secs(1);
const MOST_RECENT: usize = 4096;

/// The minimum latency told to live pipelines: twice the warm-up trial frame in whole
/// milliseconds, at least one; raised only when the p99 of the last five seconds exceeds it, to
/// 1.25 times that and never beyond the budget. One hiccup, with the frames that it made wait, is
/// left out of these seconds, so that it does not delay a pipeline for ever.
#[derive(Debug)]
pub struct LatencyAnswer {
    minimum: Duration,
    recent: VecDeque<(Instant, Duration)>,
    /// Where the recent ones are sorted, once a second.
    sorted: Vec<Duration>,
    evaluated: Option<Instant>,
}

impl Default for LatencyAnswer {
    fn default() -> Self {
        LatencyAnswer {
            minimum: MILLISECOND,
            recent: VecDeque::new(),
            sorted: Vec::new(),
            evaluated: None,
        }
    }
}

impl LatencyAnswer {
    /// Starts anew with the time that a trial frame took.
    pub fn from_trial(trial: Duration) -> Self {
        let milliseconds = (2 * trial).as_nanos().div_ceil(MILLISECOND.as_nanos());
        LatencyAnswer {
            minimum: MILLISECOND * u32::try_from(milliseconds.max(1)).unwrap_or(u32::MAX),
            ..Self::default()
        }
    }

    pub fn minimum(&self) -> Duration {
        self.minimum
    }

    /// Takes the latency of a frame that got ready at `now`. Returns true when the minimum was
    /// raised and the pipeline has to be told.
    pub fn record(&mut self, now: Instant, latency: Duration, budget: Duration) -> bool {
        if self.recent.capacity() == 0 {
            // All at once, so that no frame has to wait for memory later.
            self.recent.reserve_exact(MOST_RECENT + 1);
            self.sorted.reserve_exact(MOST_RECENT + 1);
        }
        self.recent.push_back((now, latency));
        while self
            .recent
            .front()
            .is_some_and(|(then, _)| now.duration_since(*then) > WINDOW)
            || self.recent.len() > MOST_RECENT
        {
            self.recent.pop_front();
        }
        let evaluated = *self.evaluated.get_or_insert(now);
        if now.duration_since(evaluated) < EVALUATION_PERIOD {
            return false;
        }
        self.evaluated = Some(now);
        let p99 = self.recent_p99();
        let raised = p99.mul_f64(1.25).min(budget);
        if p99 <= self.minimum || raised <= self.minimum {
            return false;
        }
        self.minimum = raised;
        true
    }

    /// The smallest latency that at least 99 % of the recent frames do not exceed, but for those
    /// around the slowest.
    fn recent_p99(&mut self) -> Duration {
        let latencies = &mut self.sorted;
        latencies.clear();
        let Some((slowest, _)) = self.recent.iter().max_by_key(|frame| frame.1) else {
            return Duration::ZERO;
        };
        let apart = |at: &Instant| at.max(slowest).duration_since(*at.min(slowest)) > HICCUP;
        let others = self.recent.iter().filter(|(at, _)| apart(at));
        latencies.extend(others.map(|(_, latency)| *latency));
        let rank = (latencies.len() * 99).div_ceil(100).saturating_sub(1);
        match latencies.is_empty() {
            true => Duration::ZERO,
            false => *latencies.select_nth_unstable(rank).1,
        }
    }
}

/// The median service time of the last frames: what the next one will take once it has a slot.
#[derive(Debug)]
pub struct ServiceEstimate {
    recent: VecDeque<Duration>,
    median: Duration,
}

impl ServiceEstimate {
    const FRAMES: usize = 31;

    /// Expects the time that a trial frame took, until frames were measured.
    pub fn from_trial(trial: Duration) -> Self {
        ServiceEstimate {
            recent: VecDeque::with_capacity(Self::FRAMES + 1),
            median: trial,
        }
    }

    pub fn record(&mut self, service: Duration) {
        self.recent.push_back(service);
        if self.recent.len() > Self::FRAMES {
            self.recent.pop_front();
        }
        let mut sorted = [Duration::ZERO; Self::FRAMES];
        let sorted = &mut sorted[..self.recent.len()];
        for (slot, service) in sorted.iter_mut().zip(&self.recent) {
            *slot = *service;
        }
        let middle = sorted.len() / 2;
        self.median = *sorted.select_nth_unstable(middle).1;
    }

    pub fn median(&self) -> Duration {
        self.median
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BUDGET: Duration = Duration::from_millis(33);

    fn run(answer: &mut LatencyAnswer, start: Instant, frames: u32, latency: Duration) -> u32 {
        (0..frames)
            .filter(|n| answer.record(start + *n * Duration::from_millis(10), latency, BUDGET))
            .count() as u32
    }

    #[test]
    fn the_minimum_is_twice_the_trial_in_whole_milliseconds() {
        let minimum = |us| LatencyAnswer::from_trial(Duration::from_micros(us)).minimum();
        assert_eq!(minimum(10), Duration::from_millis(1));
        assert_eq!(minimum(500), Duration::from_millis(1));
        assert_eq!(minimum(501), Duration::from_millis(2));
        assert_eq!(minimum(2_300), Duration::from_millis(5));
    }

    #[test]
    fn one_hiccup_in_five_seconds_raises_nothing() {
        let mut answer = LatencyAnswer::from_trial(MILLISECOND);
        let start = Instant::now();
        assert_eq!(run(&mut answer, start, 250, MILLISECOND), 0);
        answer.record(
            start + Duration::from_millis(2_500),
            Duration::from_millis(400),
            BUDGET,
        );
        let later = start + Duration::from_millis(2_510);
        assert_eq!(run(&mut answer, later, 1_000, MILLISECOND), 0);
        assert_eq!(answer.minimum(), Duration::from_millis(2));
    }

    /// At 30 frames a second a stall of 400 ms makes the frames behind it late too.
    #[test]
    fn a_stall_raises_nothing_whenever_it_comes() {
        for before in [0u32, 5, 40, 100, 200] {
            let mut answer = LatencyAnswer::from_trial(MILLISECOND);
            let start = Instant::now();
            let at = |frame: u32| start + frame * Duration::from_millis(33);
            for frame in 0..before + 300 {
                let latency = match frame.checked_sub(before) {
                    Some(behind @ 0..3) => Duration::from_millis(400) - behind * 33 * MILLISECOND,
                    _ => MILLISECOND,
                };
                assert!(
                    !answer.record(at(frame), latency, BUDGET),
                    "{before}, {frame}"
                );
            }
            assert_eq!(answer.minimum(), Duration::from_millis(2));
        }
    }

    #[test]
    fn stalls_again_and_again_raise_it() {
        let mut answer = LatencyAnswer::from_trial(MILLISECOND);
        let start = Instant::now();
        for frame in 0..300u32 {
            let late = frame % 60 < 4;
            let latency = if late { 20 * MILLISECOND } else { MILLISECOND };
            answer.record(start + frame * Duration::from_millis(33), latency, BUDGET);
        }
        assert_eq!(answer.minimum(), Duration::from_millis(25));
    }

    #[test]
    fn lasting_slowness_raises_once_to_five_quarters_of_p99() {
        let mut answer = LatencyAnswer::from_trial(MILLISECOND);
        assert_eq!(
            run(&mut answer, Instant::now(), 1_000, Duration::from_millis(8)),
            1
        );
        assert_eq!(answer.minimum(), Duration::from_millis(10));
    }

    #[test]
    fn it_is_never_raised_beyond_the_budget() {
        let mut answer = LatencyAnswer::from_trial(MILLISECOND);
        run(
            &mut answer,
            Instant::now(),
            1_000,
            Duration::from_millis(500),
        );
        assert_eq!(answer.minimum(), BUDGET);
    }

    #[test]
    fn the_service_estimate_is_the_median_of_the_last_31() {
        let mut estimate = ServiceEstimate::from_trial(Duration::from_millis(7));
        assert_eq!(estimate.median(), Duration::from_millis(7));
        for n in 0..100 {
            estimate.record(Duration::from_millis(n));
        }
        assert_eq!(estimate.median(), Duration::from_millis(84));
    }
}
