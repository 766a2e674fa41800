//! Runs a scenario and keeps what its frames cost.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use gst::prelude::*;

use super::floor::Floor;
use super::line::Line;
use super::scenario::{Pace, Scenario};
use super::stages::{Cost, STAGES, lower_quartile, upper_quartile};

const LIVE_PERIOD: Duration = Duration::from_nanos(1_000_000_000 / 60);
/// Frames of a round.
const FRAMES: usize = 12;

/// By stage, or `latency` (the element's own figure), `outside` (from the push to the arrival) and
/// `period` (between frames, where they come as fast as they are taken).
pub type Figures = BTreeMap<String, f64>;

/// Streams that run, and the least that a quarter of the frames of a round took.
pub struct Streams {
    scenario: Scenario,
    lines: Vec<(Line, gst::Bus)>,
    floor: Floor,
    least: Least,
}

/// The least that the floor and each stage took, in microseconds: whatever else goes on only adds.
#[derive(Debug, Clone)]
pub struct Least {
    pub floor: f64,
    pub times: Figures,
}

impl Default for Least {
    fn default() -> Self {
        Least {
            floor: f64::INFINITY,
            times: Figures::new(),
        }
    }
}

impl Least {
    fn keep(&mut self, name: &str, time: f64) {
        let least = self.times.entry(name.to_owned()).or_insert(time);
        *least = least.min(time);
    }

    pub fn keep_all(&mut self, other: &Least) {
        self.floor = self.floor.min(other.floor);
        other
            .times
            .iter()
            .for_each(|(name, time)| self.keep(name, *time));
    }

    /// The times as multiples of the floor.
    pub fn ratios(&self) -> Figures {
        let times = self.times.iter();
        times
            .map(|(name, time)| (name.clone(), time / self.floor))
            .collect()
    }
}

fn microseconds(time: Duration) -> f64 {
    time.as_secs_f64() * 1e6
}

impl Streams {
    pub fn start(scenario: &Scenario) -> Streams {
        Streams::with_floor(scenario, Floor::of(scenario))
    }

    pub fn with_floor(scenario: &Scenario, floor: Floor) -> Streams {
        let line = |_| {
            let element = scenario.element();
            let bus = gst::Bus::new();
            element.set_bus(Some(&bus));
            (Line::new(element, &scenario.caps(), scenario.memory), bus)
        };
        let mut streams = Streams {
            scenario: scenario.clone(),
            lines: (0..scenario.instances).map(line).collect(),
            floor,
            least: Least::default(),
        };
        // Code, caches and clocks come up; nothing of it counts.
        streams.round();
        streams.least = Least::default();
        streams
    }

    /// A number of frames, and the floor once.
    pub fn round(&mut self) {
        let floor = microseconds(self.floor.measure());
        self.least.floor = self.least.floor.min(floor);
        match self.scenario.pace {
            Pace::File => self.as_fast_as_they_are_taken(),
            Pace::Single | Pace::Live => self.one_by_one(),
        }
        let costs: Vec<Cost> = (self.lines.iter())
            .flat_map(|(_, bus)| std::iter::from_fn(|| bus.pop()))
            .filter_map(|message| message.structure().map(gst::StructureRef::to_owned))
            .filter(|structure| structure.name() == "cudaconv-latency")
            .map(|structure| Cost::of(&structure))
            .collect();
        assert_eq!(
            costs.len(),
            FRAMES * self.lines.len(),
            "every frame is told"
        );
        if self.scenario.pace != Pace::File {
            // Where frames queue it is but how far the source is ahead.
            let latency = lower_quartile(costs.iter().map(|cost| cost.latency));
            self.least.keep("latency", latency);
        }
        for stage in STAGES {
            let times = costs.iter().map(|cost| cost.stage(stage));
            let time = match (stage, self.scenario.pace, self.scenario.depth) {
                // With one slot each frame waits for the one before, unless the source is held up.
                ("wait", Pace::File, 1) => upper_quartile(times),
                // With more it depends on how far the source is ahead.
                ("wait", Pace::File, _) => continue,
                _ => lower_quartile(times),
            };
            self.least.keep(stage, time);
        }
    }

    /// A frame to each line, then all of them are waited for: nobody sends another that could push
    /// one out that was held.
    fn one_by_one(&mut self) {
        let mut outside = Vec::new();
        for number in 0..FRAMES {
            if self.scenario.pace == Pace::Live {
                // The pace itself, not a wait for something to happen.
                std::thread::sleep(LIVE_PERIOD);
            }
            let pushed = Instant::now();
            self.lines.iter().for_each(|(line, _)| line.push(number));
            let arrivals = self.lines.iter().map(|(line, _)| line.arrival());
            let last = arrivals.max().expect("at least one line");
            outside.push(microseconds(last - pushed));
        }
        self.least.keep("outside", lower_quartile(outside));
    }

    fn as_fast_as_they_are_taken(&mut self) {
        let started = Instant::now();
        for number in 0..FRAMES {
            self.lines.iter().for_each(|(line, _)| line.push(number));
        }
        let arrivals = self.lines.iter().flat_map(|(line, _)| {
            let arrivals: Vec<Instant> = (0..FRAMES).map(|_| line.arrival()).collect();
            arrivals
        });
        let last = arrivals.max().expect("at least one frame");
        let period = microseconds(last - started) / FRAMES as f64;
        self.least.keep("period", period);
    }

    /// Everything as multiples of the floor.
    pub fn ratios(&self) -> Figures {
        self.least.ratios()
    }

    pub fn least(&self) -> &Least {
        &self.least
    }
}

/// The most frames that are on their way at once while the sink takes none: the element must not
/// take more than it has slots for, but for the one that its output task holds.
pub fn most_in_flight(scenario: &Scenario) -> usize {
    let element = scenario.element();
    let pads = super::pads::Pads::around(element);
    pads.begin(&scenario.caps());
    pads.close_gate();
    let (src, caps) = (pads.src.clone(), scenario.caps());
    let taken = std::sync::Arc::new(std::sync::atomic::AtomicUsize::new(0));
    let counter = taken.clone();
    let pusher = std::thread::spawn(move || {
        for number in 0..40 {
            let frame = super::frames::numbered_as(&caps, number);
            if src.push(frame).is_err() {
                return;
            }
            counter.fetch_add(1, std::sync::atomic::Ordering::SeqCst);
        }
    });
    pads.wait_blocked();
    // All that it will take is taken when the count stands still while frames would be there.
    let (mut seen, mut since) = (0, Instant::now());
    while since.elapsed() < Duration::from_millis(200) {
        let now = taken.load(std::sync::atomic::Ordering::SeqCst);
        if now != seen {
            (seen, since) = (now, Instant::now());
        }
        std::thread::yield_now();
    }
    pads.open_gate();
    pusher.join().expect("the pushing thread ends");
    seen
}
