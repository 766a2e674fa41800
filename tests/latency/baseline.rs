//! What a device reached before, in `tests/latency/DEVICE.json`, and what got worse since.

use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;

use serde_json::{Map, Value, json};

use super::stream::Figures;

/// Figures of all scenarios on one device.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Baseline {
    pub device: String,
    /// How many times more than before is worse; what is below is the machine's noise.
    pub tolerance: f64,
    /// By name: microseconds of the floor, for readers, and multiples of it.
    pub scenarios: BTreeMap<String, (f64, Figures)>,
}

/// A stage of a scenario that takes more than it did, in multiples of the floor.
#[derive(Debug, Clone, PartialEq)]
pub struct Worse {
    pub scenario: String,
    pub stage: String,
    pub before: f64,
    pub after: f64,
}

impl fmt::Display for Worse {
    fn fmt(&self, out: &mut fmt::Formatter) -> fmt::Result {
        let Worse {
            scenario,
            stage,
            before,
            after,
        } = self;
        let ratio = after / before;
        write!(
            out,
            "worse: {scenario}: {stage}: before {before:.3}, after {after:.3} times the floor, ratio {ratio:.2}"
        )
    }
}

/// Growth by less than this part of the latency, or of the time between frames, is not looked at; and by less
/// than this part of the growth that is tolerated.
const SMALL: f64 = 0.03;
const SMALL_OF_TOLERATED: f64 = 0.125;

/// The stages of `after` that take more than `tolerance` times what they took `before`.
pub fn worse(scenario: &str, before: &Figures, after: &Figures, tolerance: f64) -> Vec<Worse> {
    let whole = before.get("latency").or_else(|| before.get("period"));
    let whole = whole.copied().unwrap_or_default();
    let small = whole * SMALL.max((tolerance - 1.0) * SMALL_OF_TOLERATED);
    let stages = before.iter().filter(|(stage, _)| *stage != "blocked");
    let found = stages.filter_map(|(stage, before)| {
        let after = *after.get(stage)?;
        let large = after - before > small;
        (large && after > before * tolerance).then(|| Worse {
            scenario: scenario.to_owned(),
            stage: stage.clone(),
            before: *before,
            after,
        })
    });
    found.collect()
}

/// Where the baseline of `device` is.
pub fn file_of(device: &str) -> PathBuf {
    let folder = std::env::var_os("CUDACONV_LATENCY_BASELINES").map(PathBuf::from);
    let folder =
        folder.unwrap_or_else(|| concat!(env!("CARGO_MANIFEST_DIR"), "/tests/latency").into());
    let plain = |c: char| {
        if c.is_ascii_alphanumeric() {
            c.to_ascii_lowercase()
        } else {
            '-'
        }
    };
    let name: String = device.chars().map(plain).collect();
    let words: Vec<&str> = name.split('-').filter(|word| !word.is_empty()).collect();
    folder.join(format!("{}.json", words.join("-")))
}

impl Baseline {
    /// That of `device`; `None` where there is none yet.
    pub fn read(device: &str) -> Option<Baseline> {
        let text = std::fs::read_to_string(file_of(device)).ok()?;
        Some(Baseline::parse(&text))
    }

    fn parse(text: &str) -> Baseline {
        let file: Value = serde_json::from_str(text).expect("a baseline is JSON");
        let scenarios = file["scenarios"].as_object().expect("scenarios");
        let figures = |entry: &Value| {
            let figures = entry["times-floor"].as_object().expect("figures");
            let number = |value: &Value| value.as_f64().expect("a number");
            let figures = figures
                .iter()
                .map(|(name, value)| (name.clone(), number(value)));
            (number(&entry["floor-us"]), figures.collect())
        };
        Baseline {
            device: file["device"].as_str().expect("a device").into(),
            tolerance: file["tolerance"].as_f64().expect("a tolerance"),
            scenarios: (scenarios.iter())
                .map(|(name, entry)| (name.clone(), figures(entry)))
                .collect(),
        }
    }

    pub fn write(&self) -> std::io::Result<PathBuf> {
        let file = file_of(&self.device);
        std::fs::write(&file, self.to_text())?;
        Ok(file)
    }

    fn to_text(&self) -> String {
        let short = |value: f64| json!((value * 1e3).round() / 1e3);
        let entry = |(floor, figures): &(f64, Figures)| {
            let figures = figures
                .iter()
                .map(|(name, value)| (name.clone(), short(*value)));
            json!({"floor-us": short(*floor), "times-floor": figures.collect::<Map<_, _>>()})
        };
        let scenarios = self
            .scenarios
            .iter()
            .map(|(name, e)| (name.clone(), entry(e)));
        let file = json!({
            "device": self.device,
            "tolerance": self.tolerance,
            "scenarios": scenarios.collect::<Map<_, _>>(),
        });
        serde_json::to_string_pretty(&file).expect("JSON") + "\n"
    }
}

#[test]
fn a_baseline_is_read_as_it_was_written() {
    let figures = Figures::from([("latency".into(), 2.5), ("kernel".into(), 1.25)]);
    let baseline = Baseline {
        device: "A \"fast\" device".into(),
        tolerance: 1.5,
        scenarios: BTreeMap::from([("cpu/gauss3".into(), (12.5, figures))]),
    };
    assert_eq!(Baseline::parse(&baseline.to_text()), baseline);
}

#[test]
fn what_got_worse_is_told_by_stage_and_noise_is_not() {
    let of = |kernel, wait| {
        let latency = kernel + wait;
        let figures = [
            ("latency", latency),
            ("kernel", kernel),
            ("wait", wait),
            ("blocked", 9.0),
        ];
        Figures::from(figures.map(|(name, value)| (name.to_owned(), value)))
    };
    let stages = |after| -> Vec<String> {
        let found = worse("s", &of(10.0, 0.1), &after, 1.25);
        found.into_iter().map(|worse| worse.stage).collect()
    };
    assert!(stages(of(10.0, 0.1)).is_empty());
    assert!(stages(of(12.0, 0.1)).is_empty());
    // Three times as much, but of next to nothing.
    assert!(stages(of(10.0, 0.3)).is_empty());
    assert_eq!(stages(of(13.0, 0.1)), ["kernel", "latency"]);
    assert_eq!(stages(of(10.0, 2.0)), ["wait"]);
    let found = worse("s", &of(10.0, 0.1), &of(15.0, 0.1), 1.25);
    assert_eq!(
        found[0].to_string(),
        "worse: s: kernel: before 10.000, after 15.000 times the floor, ratio 1.50"
    );
}
