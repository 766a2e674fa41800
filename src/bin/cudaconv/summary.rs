//! The table at the end of a run.

use std::fmt::Write;

use crate::measure::{self, COUNTED, Row, STAGES, milliseconds};
use crate::session::Seen;

/// A property of the element and the value it had.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Setting {
    pub name: String,
    pub value: String,
    /// It is not the default.
    pub changed: bool,
}

/// Everything that is told about a run.
#[derive(Debug)]
pub struct Summary {
    pub input: String,
    pub output: String,
    pub encoder: Option<&'static str>,
    /// Every writable property.
    pub settings: Vec<Setting>,
    /// Version and file of the plugin.
    pub plugin: String,
    pub interrupted: bool,
    pub seen: Seen,
}

impl Summary {
    /// Frames that left the filter, per second of the whole run.
    pub fn rate(&self) -> f64 {
        let seconds = self.seen.elapsed.as_secs_f64();
        self.seen.stats.frames_out as f64 / seconds.max(1e-9)
    }

    /// The value of a property, or nothing.
    pub fn setting(&self, name: &str) -> &str {
        let found = self.settings.iter().find(|setting| setting.name == name);
        found.map_or("", |setting| &setting.value)
    }

    /// What else was set, as in `radius=3 border=wrap`.
    fn other_settings(&self) -> String {
        let changed = self.settings.iter().filter(|setting| setting.changed);
        changed
            .filter(|setting| !["kernel", "post-messages"].contains(&setting.name.as_str()))
            .map(|setting| format!("{}={}", setting.name, setting.value))
            .collect::<Vec<_>>()
            .join(" ")
    }

    /// Pairs of name and value, above the latencies.
    pub fn facts(&self) -> Vec<(&'static str, String)> {
        let seen = &self.seen;
        let stats = &seen.stats;
        let mut facts = vec![
            ("input", self.input.clone()),
            ("output", self.output.clone()),
        ];
        if let Some(encoder) = self.encoder {
            facts.push(("encoder", encoder.to_owned()));
        }
        if let Some(sound) = &seen.sound {
            facts.push(("sound", sound.trim_start_matches("sound ").to_owned()));
        }
        if let Some(video) = &seen.video {
            facts.push(("video", video.clone()));
        }
        if let Some(decoder) = &seen.decoder {
            facts.push(("decoder", decoder.clone()));
        }
        facts.push(("kernel", self.setting("kernel").to_owned()));
        let others = self.other_settings();
        if !others.is_empty() {
            facts.push(("settings", others));
        }
        facts.push(("method", stats.method.clone()));
        facts.push(("backend", format!("{}: {}", stats.backend, stats.device)));
        let seconds = seen.elapsed.as_secs_f64();
        facts.push((
            "frames",
            format!(
                "{} in {seconds:.2} s, {:.1} fps",
                stats.frames_out,
                self.rate()
            ),
        ));
        facts.push(("warm-up", format!("{} ms", milliseconds(stats.warm_up))));
        facts
    }

    /// How many frames were over budget, dropped or passed on unfiltered.
    pub fn verdict(&self) -> String {
        let stats = &self.seen.stats;
        let share = 100.0 * stats.over_budget as f64 / stats.frames_out.max(1) as f64;
        format!(
            "{} of {} frames over the budget of {} ms ({share:.1} %), {} dropped, {} bypassed",
            stats.over_budget,
            stats.frames_out,
            milliseconds(stats.budget),
            stats.dropped,
            stats.bypassed,
        )
    }

    /// The whole table as text.
    pub fn table(&self) -> String {
        let mut text = String::new();
        if self.interrupted {
            text.push_str("interrupted: up to there\n");
        }
        for (name, value) in self.facts() {
            // Writing to a String cannot fail.
            let _ = writeln!(text, "{name:<10}{value}");
        }
        let _ = writeln!(
            text,
            "\n{:<12}{:>10}{:>10}{:>10}{:>10}",
            "ms", "p50", "p95", "p99", "max"
        );
        let rows = match &self.seen.tally {
            Some(tally) => tally.rows(),
            None => measure::rows(&self.seen.samples, &self.seen.stats),
        };
        for row in rows {
            let _ = writeln!(text, "{}", line(&row));
        }
        let _ = write!(text, "\n{}", self.verdict());
        text
    }
}

fn line(row: &Row) -> String {
    let name = match row.name {
        "latency" => "latency".to_owned(),
        name if STAGES[COUNTED..].contains(&name) => format!("({name})"),
        name => format!("  {name}"),
    };
    let mut line = format!("{name:<12}{:>10}", milliseconds(row.p50));
    if let Some(rest) = row.rest {
        for value in [rest.p95, rest.p99, rest.max] {
            let _ = write!(line, "{:>10}", milliseconds(value));
        }
    }
    line
}

#[cfg(test)]
pub mod tests {
    use std::time::Duration;

    use super::*;
    use crate::measure::{Quantiles, Sample, Stats};

    /// A made-up run whose latencies are `latencies`, in microseconds.
    pub fn made_up(latencies: &[u64]) -> Summary {
        let budget = 33_000_000;
        let samples: Vec<Sample> = latencies
            .iter()
            .enumerate()
            .map(|(index, micros)| Sample {
                frame: index as u64,
                pts: Some(index as u64 * 40_000_000),
                latency: micros * 1000,
                stages: [micros * 100, micros * 200, 0, micros * 600, 0, 50_000],
                over_budget: micros * 1000 > budget,
            })
            .collect();
        let stats = Stats {
            frames_in: samples.len() as u64,
            frames_out: samples.len() as u64,
            over_budget: samples.iter().filter(|s| s.over_budget).count() as u64,
            backend: "cpu".into(),
            device: "A <fast> CPU & more".into(),
            method: "separable".into(),
            budget,
            latency: Quantiles::of(samples.iter().map(|s| s.latency)),
            warm_up: 1_234_567,
            ..Stats::default()
        };
        Summary {
            input: "in & out <1>.mp4".into(),
            output: "out.mp4".into(),
            encoder: Some("x264enc"),
            settings: [
                ("kernel", "gauss5", true),
                ("radius", "3", true),
                ("matrix", "", false),
            ]
            .map(|(name, value, changed)| Setting {
                name: name.into(),
                value: value.into(),
                changed,
            })
            .into(),
            plugin: "0.1.0".into(),
            interrupted: false,
            seen: Seen {
                samples,
                stats,
                elapsed: Duration::from_secs(2),
                video: Some("1280x720 I420, 25 fps".into()),
                tally: None,
                decoder: Some("avdec_h264".into()),
                sound: Some("sound copied (AAC)".into()),
            },
        }
    }

    #[test]
    fn the_table_has_every_stage_and_the_verdict() {
        let table = made_up(&[1000, 2000, 3000, 40_000]).table();
        for part in [
            "kernel    gauss5",
            "settings  radius=3\n",
            "method    separable",
            "sound     copied (AAC)",
            "frames    4 in 2.00 s, 2.0 fps",
            "latency          2.000    40.000    40.000    40.000",
            "  copy-in        0.400     8.000     8.000     8.000",
            "(blocked)        0.050     0.050     0.050     0.050",
            "1 of 4 frames over the budget of 33.000 ms (25.0 %), 0 dropped, 0 bypassed",
        ] {
            assert!(table.contains(part), "{part} is missing in\n{table}");
        }
    }

    #[test]
    fn without_frames_only_medians_of_stages_are_shown() {
        let mut summary = made_up(&[1000, 2000]);
        summary.seen.samples.clear();
        let table = summary.table();
        let kernel = table.lines().find(|l| l.starts_with("  kernel")).unwrap();
        assert_eq!(kernel.split_whitespace().count(), 2, "{kernel}");
    }
}
