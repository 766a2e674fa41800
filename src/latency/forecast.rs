//! When a frame will be ready: what the over-budget policy decides by.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use super::ServiceEstimate;

/// What frames of one plan take, and when those in work will be ready. Frames are worked on one
/// after the other, so a frame's service begins when the one before it is ready, or when it is
/// handed to the engine if that is later: else frames that wait for others would look slow
/// themselves, and an engine with too much to do would seem to have no time for any frame.
#[derive(Debug)]
pub struct ServiceForecast {
    estimate: ServiceEstimate,
    /// Frames in work: when they were handed to the engine, and when they should be ready.
    in_work: VecDeque<(Instant, Instant)>,
    last_ready: Option<Instant>,
}

impl ServiceForecast {
    /// More than an element has in flight: others were thrown away.
    const MOST: usize = 16;

    /// Expects the time that a trial frame took, until frames were measured.
    pub fn from_trial(trial: Duration) -> Self {
        ServiceForecast {
            estimate: ServiceEstimate::from_trial(trial),
            in_work: VecDeque::with_capacity(Self::MOST + 1),
            last_ready: None,
        }
    }

    fn ready_if_submitted(&self, now: Instant) -> Instant {
        let begins = self
            .in_work
            .back()
            .map_or(now, |(_, ready)| now.max(*ready));
        begins + self.estimate.median()
    }

    /// How long a frame that is handed to the engine at `now` takes to be ready.
    pub fn expect(&self, now: Instant) -> Duration {
        self.ready_if_submitted(now) - now
    }

    /// A frame is handed to the engine at `now`.
    pub fn submitted(&mut self, now: Instant) {
        let ready = self.ready_if_submitted(now);
        self.in_work.push_back((now, ready));
        if self.in_work.len() > Self::MOST {
            self.in_work.pop_front();
        }
    }

    /// The frame that was handed to the engine at `submitted` was ready at `ready`.
    pub fn record(&mut self, submitted: Instant, ready: Instant) {
        let begun = self
            .last_ready
            .map_or(submitted, |last| last.max(submitted));
        self.estimate.record(ready.saturating_duration_since(begun));
        self.last_ready = Some(ready);
        // With it go earlier ones, which were thrown away.
        while self
            .in_work
            .front()
            .is_some_and(|frame| frame.0 <= submitted)
        {
            self.in_work.pop_front();
        }
        let mut begins = ready;
        for (submitted, ready) in &mut self.in_work {
            begins = begins.max(*submitted) + self.estimate.median();
            *ready = begins;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SERVICE: Duration = Duration::from_millis(60);

    fn ms(ms: u64) -> Duration {
        Duration::from_millis(ms)
    }

    #[test]
    fn a_frame_waits_for_what_is_left_of_those_before_it() {
        let start = Instant::now();
        let mut forecast = ServiceForecast::from_trial(SERVICE);
        assert_eq!(forecast.expect(start), SERVICE);
        forecast.submitted(start);
        assert_eq!(forecast.expect(start), 2 * SERVICE);
        assert_eq!(forecast.expect(start + ms(20)), ms(100));
        forecast.submitted(start + ms(20));
        assert_eq!(forecast.expect(start + ms(30)), ms(150));
        // Nobody has looked whether they are ready, but they should be.
        assert_eq!(forecast.expect(start + ms(500)), SERVICE);
        // The first took longer, and so the second will be later.
        forecast.record(start, start + ms(70));
        assert_eq!(forecast.expect(start + ms(70)), ms(70) + ms(70));
    }

    #[test]
    fn frames_that_wait_for_others_do_not_look_slow() {
        let start = Instant::now();
        let mut forecast = ServiceForecast::from_trial(Duration::ZERO);
        let mut in_work = VecDeque::new();
        // Two in work at any time: each is submitted when the last but one is ready.
        for number in 0..40u32 {
            if in_work.len() == 2 {
                let ready = start + SERVICE * (number - 1);
                forecast.record(in_work.pop_front().unwrap(), ready);
            }
            let submitted = start + SERVICE * number.saturating_sub(1);
            forecast.submitted(submitted);
            in_work.push_back(submitted);
        }
        assert_eq!(forecast.expect(start + SERVICE * 100), SERVICE);
    }

    #[test]
    fn frames_that_were_thrown_away_are_forgotten() {
        let start = Instant::now();
        let mut forecast = ServiceForecast::from_trial(SERVICE);
        (0..1000).for_each(|n| forecast.submitted(start + ms(n)));
        forecast.submitted(start + ms(2000));
        forecast.record(start + ms(2000), start + ms(2060));
        assert_eq!(forecast.expect(start + ms(2060)), SERVICE);
    }
}
