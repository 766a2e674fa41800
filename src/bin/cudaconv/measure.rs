//! What the element reported of each frame, and quantiles of it.

use gst::prelude::*;
use hdrhistogram::Histogram;

/// Stages of a frame's way, in order. `blocked` is not part of the latency: it is time that only
/// downstream took.
pub const STAGES: [&str; 6] = ["wait", "copy-in", "upload", "kernel", "download", "blocked"];
/// How many of [`STAGES`] make up the latency.
pub const COUNTED: usize = 5;

/// One frame; times in nanoseconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Sample {
    pub frame: u64,
    /// `None` for frames without a timestamp.
    pub pts: Option<u64>,
    pub latency: u64,
    pub stages: [u64; STAGES.len()],
    pub over_budget: bool,
}

impl Sample {
    /// Reads an element message `cudaconv-latency`; `None` for any other.
    pub fn from_structure(structure: &gst::StructureRef) -> Option<Sample> {
        if structure.name() != "cudaconv-latency" {
            return None;
        }
        let mut stages = [0; STAGES.len()];
        for (time, name) in stages.iter_mut().zip(STAGES) {
            *time = structure.get(format!("stage-{name}-ns")).unwrap_or(0);
        }
        let pts = structure.get::<u64>("pts").ok();
        Some(Sample {
            frame: structure.get("frame").ok()?,
            pts: pts.filter(|pts| *pts != u64::MAX),
            latency: structure.get("latency-ns").ok()?,
            stages,
            over_budget: structure.get("over-budget").unwrap_or(false),
        })
    }

    /// It was passed on as it came: every other frame is worked on.
    pub fn bypassed(&self) -> bool {
        let worked = &self.stages[1..COUNTED];
        worked.iter().all(|time| *time == 0)
    }

    /// The part of the latency that no stage accounts for.
    pub fn unaccounted(&self) -> u64 {
        let counted: u64 = self.stages[..COUNTED].iter().sum();
        self.latency.saturating_sub(counted)
    }
}

/// What is kept of frames where there is no end to them: constant memory, three significant digits.
#[derive(Debug, Clone)]
pub struct Tally {
    latency: Histogram<u64>,
    stages: [Histogram<u64>; STAGES.len()],
}

impl Default for Tally {
    fn default() -> Self {
        Tally {
            latency: histogram(),
            stages: std::array::from_fn(|_| histogram()),
        }
    }
}

/// Grows with its values.
fn histogram() -> Histogram<u64> {
    Histogram::new(3).expect("three digits are a number that it accepts")
}

impl Tally {
    /// Takes in a frame.
    pub fn frame(&mut self, sample: &Sample) {
        // Refused only where no size would hold a value; every time in nanoseconds has one.
        let _ = self.latency.record(sample.latency);
        for (stage, time) in self.stages.iter_mut().zip(sample.stages) {
            let _ = stage.record(time);
        }
    }

    /// Latency first, then the stages; none without a frame.
    pub fn rows(&self) -> Vec<Row> {
        if self.latency.is_empty() {
            return Vec::new();
        }
        let stages = STAGES.into_iter().zip(&self.stages);
        let all = std::iter::once(("latency", &self.latency)).chain(stages);
        all.map(|(name, histogram)| {
            let at = |quantile| histogram.value_at_quantile(quantile).min(histogram.max());
            let quantiles = Quantiles {
                p50: at(0.5),
                p95: at(0.95),
                p99: at(0.99),
                max: histogram.max(),
            };
            Row {
                name,
                p50: quantiles.p50,
                rest: Some(quantiles),
            }
        })
        .collect()
    }
}

/// Nearest-rank quantiles in nanoseconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Quantiles {
    pub p50: u64,
    pub p95: u64,
    pub p99: u64,
    pub max: u64,
}

impl Quantiles {
    /// All 0 when there are no values.
    pub fn of(values: impl IntoIterator<Item = u64>) -> Quantiles {
        let mut sorted: Vec<u64> = values.into_iter().collect();
        sorted.sort_unstable();
        let rank = |percent: usize| {
            let rank = (sorted.len() * percent).div_ceil(100);
            sorted.get(rank.saturating_sub(1)).copied().unwrap_or(0)
        };
        Quantiles {
            p50: rank(50),
            p95: rank(95),
            p99: rank(99),
            max: rank(100),
        }
    }
}

/// The element's `stats`, as far as the table shows them.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Stats {
    pub frames_in: u64,
    pub frames_out: u64,
    pub dropped: u64,
    pub bypassed: u64,
    pub over_budget: u64,
    pub backend: String,
    pub device: String,
    pub method: String,
    pub budget: u64,
    pub latency: Quantiles,
    pub latency_min: u64,
    pub latency_mean: u64,
    /// Median of each of [`STAGES`].
    pub stages_p50: [u64; STAGES.len()],
    pub warm_up: u64,
}

impl Stats {
    /// Reads the property `stats` of `filter`.
    pub fn of(filter: &gst::Element) -> Stats {
        let structure = filter.property::<Option<gst::Structure>>("stats");
        structure.map_or_else(Stats::default, |s| Stats::from_structure(&s))
    }

    /// Counts of `earlier` are added to these; all else stays.
    pub fn add_counts(&mut self, earlier: &Stats) {
        self.frames_in += earlier.frames_in;
        self.frames_out += earlier.frames_out;
        self.dropped += earlier.dropped;
        self.bypassed += earlier.bypassed;
        self.over_budget += earlier.over_budget;
    }

    fn from_structure(structure: &gst::StructureRef) -> Stats {
        let number = |name: &str| structure.get::<u64>(name).unwrap_or(0);
        let text = |name: &str| structure.get::<String>(name).unwrap_or_default();
        Stats {
            frames_in: number("frames-in"),
            frames_out: number("frames-out"),
            dropped: number("dropped"),
            bypassed: number("bypassed"),
            over_budget: number("over-budget"),
            backend: text("backend"),
            device: text("device"),
            method: text("method"),
            budget: number("budget-ns"),
            latency: Quantiles {
                p50: number("latency-p50-ns"),
                p95: number("latency-p95-ns"),
                p99: number("latency-p99-ns"),
                max: number("latency-max-ns"),
            },
            latency_min: number("latency-min-ns"),
            latency_mean: number("latency-mean-ns"),
            stages_p50: STAGES.map(|name| number(&format!("stage-{name}-p50-ns"))),
            warm_up: number("warm-up-ns"),
        }
    }
}

/// One row of the table: the latency or a stage. `rest` is `None` where only the median is known.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Row {
    pub name: &'static str,
    pub p50: u64,
    pub rest: Option<Quantiles>,
}

/// Latency first, then the stages. From the frames where they were reported, else from `stats`.
pub fn rows(samples: &[Sample], stats: &Stats) -> Vec<Row> {
    let row = |name, quantiles: Quantiles| Row {
        name,
        p50: quantiles.p50,
        rest: Some(quantiles),
    };
    if samples.is_empty() {
        let stages = STAGES.into_iter().zip(stats.stages_p50);
        return std::iter::once(row("latency", stats.latency))
            .chain(stages.map(|(name, p50)| Row {
                name,
                p50,
                rest: None,
            }))
            .collect();
    }
    let latency = Quantiles::of(samples.iter().map(|s| s.latency));
    std::iter::once(row("latency", latency))
        .chain(
            STAGES.into_iter().enumerate().map(|(index, name)| {
                row(name, Quantiles::of(samples.iter().map(|s| s.stages[index])))
            }),
        )
        .collect()
}

/// Milliseconds with three digits after the point.
pub fn milliseconds(nanoseconds: u64) -> String {
    format!("{:.3}", nanoseconds as f64 / 1e6)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_are_values_that_occurred() {
        assert_eq!(Quantiles::of([]), Quantiles::default());
        let one = Quantiles::of([7]);
        assert_eq!((one.p50, one.p95, one.p99, one.max), (7, 7, 7, 7));
        let hundred = Quantiles::of((1..=100).rev());
        assert_eq!(
            (hundred.p50, hundred.p95, hundred.p99, hundred.max),
            (50, 95, 99, 100)
        );
        let four = Quantiles::of([40, 10, 30, 20]);
        assert_eq!((four.p50, four.p95), (20, 40));
    }

    #[test]
    fn a_tally_has_the_rows_of_its_frames() {
        let mut tally = Tally::default();
        assert!(tally.rows().is_empty());
        for index in 1..=100 {
            tally.frame(&Sample {
                latency: index * 1000,
                stages: [index, 0, 0, 7_000_000_000, 0, 0],
                ..Sample::default()
            });
        }
        let rows = tally.rows();
        let names: Vec<&str> = rows.iter().map(|row| row.name).collect();
        assert_eq!(names[0], "latency");
        assert_eq!(names[1..], STAGES);
        let near = |value: u64, expected: u64| value.abs_diff(expected) * 1000 <= expected;
        let latency = rows[0].rest.unwrap();
        assert!(
            near(latency.p50, 50_000) && near(latency.p95, 95_000),
            "{latency:?}"
        );
        assert!(near(latency.max, 100_000) && near(rows[4].p50, 7_000_000_000));
    }

    #[test]
    fn a_latency_message_is_a_sample() {
        gst::init().unwrap();
        let message = gst::Structure::builder("cudaconv-latency")
            .field("frame", 3u64)
            .field("pts", u64::MAX)
            .field("latency-ns", 1000u64)
            .field("stage-wait-ns", 100u64)
            .field("stage-kernel-ns", 600u64)
            .field("stage-blocked-ns", 5000u64)
            .field("over-budget", true)
            .build();
        let sample = Sample::from_structure(&message).unwrap();
        assert_eq!(sample.stages, [100, 0, 0, 600, 0, 5000]);
        assert_eq!((sample.frame, sample.pts), (3, None));
        assert_eq!(sample.unaccounted(), 300);
        assert!(!sample.bypassed());
        assert!(sample.over_budget);
        assert_eq!(
            Sample::from_structure(&gst::Structure::new_empty("other")),
            None
        );
    }

    #[test]
    fn without_frames_the_rows_have_medians_alone() {
        let stats = Stats {
            latency: Quantiles {
                p50: 5,
                p95: 6,
                p99: 7,
                max: 8,
            },
            stages_p50: [1, 0, 0, 4, 0, 9],
            ..Stats::default()
        };
        let rows = rows(&[], &stats);
        assert_eq!(rows.len(), 1 + STAGES.len());
        assert_eq!(rows[0].rest, Some(stats.latency));
        assert_eq!((rows[4].name, rows[4].p50), ("kernel", 4));
        assert!(rows[4].rest.is_none());
    }
}
