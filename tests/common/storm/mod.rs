//! Storms: everything that can happen to a stream, at random and all at once, for as long as
//! `CUDACONV_STORM_SECONDS` says.
//!
//! A storm is a row of episodes, each with a seed of its own; `CUDACONV_STORM_SEED` starts the row
//! with the seed of an episode that failed. Threads meet at other moments each time, so a seed
//! repeats what is done, not when.

mod checker;
mod level;
mod player;
mod stream;
mod weather;

use std::time::{Duration, Instant};

use super::Random;
use super::watchdog::within;
use level::Levels;

/// An episode takes a second or two; beyond this it hangs.
const EPISODE_LIMIT: Duration = Duration::from_secs(120);
/// In a second; there are one or two.
const MOST_EPISODES: usize = 8;
/// How often a long storm tells how it goes.
const TELLING: Duration = Duration::from_secs(30);
/// Where the row of seeds starts if nothing else is said.
const FIRST_SEED: u64 = 0x5eed_5000;

fn number_from_environment(name: &str) -> Option<u64> {
    let text = std::env::var(name).ok()?;
    let number = text.parse();
    Some(number.unwrap_or_else(|error| panic!("{name}={text}: {error}")))
}

/// How long a storm lasts: what the environment says, or a few seconds.
pub fn duration() -> Duration {
    Duration::from_secs(number_from_environment("CUDACONV_STORM_SECONDS").unwrap_or(4))
}

/// Runs episodes for [`duration`], and fails where a frame is lost, doubled, stale or torn, where
/// anything hangs, and where memory, threads or open files grow.
pub fn rage() {
    let first = number_from_environment("CUDACONV_STORM_SEED").unwrap_or(FIRST_SEED);
    let begun = Instant::now();
    let mut levels = Levels::with_room(MOST_EPISODES * duration().as_secs() as usize);
    let mut totals = Totals::default();
    let mut seed = first;
    let mut told = Duration::ZERO;
    while begun.elapsed() < duration() {
        let what = format!("an episode (CUDACONV_STORM_SEED={seed} begins with it)");
        let counts = within(EPISODE_LIMIT, &what, move || episode(seed));
        totals.add(&counts);
        let level = levels.measure();
        seed += 1;
        if begun.elapsed() >= told + TELLING {
            told = begun.elapsed();
            eprintln!(
                "{:.0} s, {} episodes: {level}",
                told.as_secs_f64(),
                seed - first
            );
        }
    }
    eprintln!(
        "{} episodes from seed {first} in {:.0} s: {totals}; {levels}",
        seed - first,
        begun.elapsed().as_secs_f64()
    );
    levels.assert_level();
}

fn episode(seed: u64) -> Totals {
    let mut random = Random::new(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15));
    for _ in 0..4 {
        random.next();
    }
    match random.below(4) {
        0 => player::episode(&mut random),
        _ => stream::episode(&mut random),
    }
}

/// What happened in a storm.
#[derive(Debug, Default, Clone)]
pub struct Totals {
    pub frames_in: u64,
    pub frames_out: u64,
    pub flushes: u64,
    pub starts: u64,
    pub pauses: u64,
    pub caps: u64,
    pub changes: u64,
    pub refusals: u64,
    pub ends: u64,
}

impl Totals {
    fn add(&mut self, other: &Totals) {
        self.frames_in += other.frames_in;
        self.frames_out += other.frames_out;
        self.flushes += other.flushes;
        self.starts += other.starts;
        self.pauses += other.pauses;
        self.caps += other.caps;
        self.changes += other.changes;
        self.refusals += other.refusals;
        self.ends += other.ends;
    }
}

impl std::fmt::Display for Totals {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(
            f,
            "{} frames in, {} out, {} flushes, {} starts, {} pauses, {} changes of caps, {} of \
             properties, {} refusals downstream, {} ends",
            self.frames_in,
            self.frames_out,
            self.flushes,
            self.starts,
            self.pauses,
            self.caps,
            self.changes,
            self.refusals,
            self.ends
        )
    }
}
