//! Two scenarios by turns.

use std::time::Duration;

use super::floor::Floor;
use super::scenario::Scenario;
use super::stream::{Figures, Streams};

/// Both run at once, and only one of them has frames at a time.
pub struct Pair([Streams; 2]);

impl Pair {
    pub fn start(first: &Scenario, second: &Scenario) -> Pair {
        let start =
            |scenario| Streams::with_floor(scenario, Floor::Fixed(Duration::from_millis(1)));
        Pair([start(first), start(second)])
    }

    /// Rounds of both by turns; `before_round` is told which of them comes.
    pub fn rounds(&mut self, rounds: usize, mut before_round: impl FnMut(usize)) {
        for _ in 0..rounds {
            for (which, streams) in self.0.iter_mut().enumerate() {
                before_round(which);
                streams.round();
            }
        }
    }

    /// What each reached so far, in milliseconds.
    pub fn figures(&self) -> (Figures, Figures) {
        (self.0[0].ratios(), self.0[1].ratios())
    }
}
