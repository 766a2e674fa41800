//! Two scenarios by turns.

use std::time::Duration;

use super::floor::Floor;
use super::scenario::Scenario;
use super::stream::{Figures, Streams};

/// Runs both by turns and gives the figures of each, as multiples of a millisecond. `before_round`
/// is told which of them comes.
pub fn alternately(
    first: &Scenario,
    second: &Scenario,
    rounds: usize,
    mut before_round: impl FnMut(usize),
) -> (Figures, Figures) {
    let start = |scenario| Streams::with_floor(scenario, Floor::Fixed(Duration::from_millis(1)));
    let mut both = [start(first), start(second)];
    for _ in 0..rounds {
        for (which, streams) in both.iter_mut().enumerate() {
            before_round(which);
            streams.round();
        }
    }
    (both[0].ratios(), both[1].ratios())
}
