//! Reads the timeline that a process wrote.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde_json::Value;

/// Something that took time, in microseconds since the timeline began.
#[derive(Debug, Clone, PartialEq)]
pub struct Span {
    pub element: String,
    pub track: String,
    pub name: String,
    pub frame: u64,
    pub from: f64,
    pub to: f64,
    pub arguments: Value,
}

impl Span {
    pub fn overlaps(&self, other: &Span) -> f64 {
        (self.to.min(other.to) - self.from.max(other.from)).max(0.0)
    }
}

/// All that a timeline tells.
pub struct Timeline {
    pub spans: Vec<Span>,
    /// Names of elements and of their tracks, as the file has them.
    pub tracks: Vec<(String, String)>,
    /// Events without a duration: element, name, arguments.
    pub moments: Vec<(String, String, Value)>,
    /// Ends of arrows: which they belong to, kind, microseconds.
    pub arrows: Vec<(u64, String, f64)>,
}

/// A file of this name in a folder for tests, not there yet.
pub fn fresh_file(name: &str) -> PathBuf {
    let file = super::scratch_folder().join(format!("{name}.trace.json"));
    let _ = std::fs::remove_file(&file);
    file
}

/// Reads `file`, which must be whole JSON.
pub fn read(file: &Path) -> Timeline {
    let text = std::fs::read_to_string(file).expect("a timeline was written");
    let events: Value = serde_json::from_str(&text).expect("whole JSON");
    let events = events.as_array().expect("an array of events");
    let mut elements = BTreeMap::new();
    let mut tracks = BTreeMap::new();
    for event in events {
        let name = || string(&event["args"]["name"]);
        match (
            string(&event["ph"]).as_str(),
            string(&event["name"]).as_str(),
        ) {
            ("M", "process_name") => drop(elements.insert(number(&event["pid"]), name())),
            ("M", "thread_name") => drop(tracks.insert(place(event), name())),
            _ => (),
        }
    }
    let element = |event: &Value| elements.get(&number(&event["pid"])).cloned();
    let of_kind = |kind: &'static str| events.iter().filter(move |event| event["ph"] == kind);
    let spans = of_kind("X").map(|event| Span {
        element: element(event).expect("a named element"),
        track: tracks.get(&place(event)).expect("a named track").clone(),
        name: string(&event["name"]),
        frame: number(&event["args"]["frame"]),
        from: time(&event["ts"]),
        to: time(&event["ts"]) + time(&event["dur"]),
        arguments: event["args"].clone(),
    });
    let moments = of_kind("i").map(|event| {
        let element = element(event).unwrap_or_default();
        (element, string(&event["name"]), event["args"].clone())
    });
    let arrows = events.iter().filter(|event| event["cat"] == "flow");
    let arrows = arrows.map(|event| {
        let kind = string(&event["ph"]);
        (number(&event["id"]), kind, time(&event["ts"]))
    });
    let named = tracks.iter().map(|((pid, _), track)| {
        let element = elements.get(pid).expect("a named element");
        (element.clone(), track.clone())
    });
    Timeline {
        spans: spans.collect(),
        tracks: named.collect(),
        moments: moments.collect(),
        arrows: arrows.collect(),
    }
}

fn string(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}

fn number(value: &Value) -> u64 {
    value.as_u64().expect("a whole number")
}

fn time(value: &Value) -> f64 {
    value.as_f64().expect("microseconds")
}

fn place(event: &Value) -> (u64, u64) {
    (number(&event["pid"]), number(&event["tid"]))
}

/// Microseconds are read as doubles: sums of them may be this far off.
const ROUNDING: f64 = 0.001;

impl Timeline {
    /// The spans of frame `number` of the element that is named so.
    pub fn of_frame(&self, element: &str, number: u64) -> Vec<&Span> {
        let spans = self.spans.iter();
        spans
            .filter(|span| span.element == element && span.frame == number)
            .collect()
    }

    /// Fails unless the stages of each of `frames` lie one after the other between its arrival and
    /// its push, and the frames of a slot one after the other, as do those of the output task.
    pub fn assert_in_order(&self, element: &str, frames: std::ops::Range<u64>) {
        for number in frames {
            let spans = self.of_frame(element, number);
            let find = |track: &str, name: &str| {
                let found: Vec<_> = (spans.iter())
                    .filter(|span| span.track == track && span.name == name)
                    .collect();
                assert_eq!(found.len(), 1, "{track}, {name} of {number}: {spans:#?}");
                found[0]
            };
            let arrival = find("chain", "frame").from;
            let (waited, push) = (find("output task", "wait"), find("output task", "push"));
            assert!(waited.to <= push.from + ROUNDING, "{spans:#?}");
            let slot: Vec<_> = spans
                .iter()
                .filter(|s| s.track.starts_with("slot"))
                .collect();
            assert!(slot.iter().any(|span| span.name == "kernel"), "{spans:#?}");
            assert!(slot.iter().all(|span| span.track == slot[0].track));
            let mut reached = arrival;
            for span in slot {
                assert!(
                    span.from >= reached - ROUNDING && span.to > span.from,
                    "{spans:#?}"
                );
                reached = span.to;
            }
            assert!(reached <= push.from + ROUNDING, "{spans:#?}");
            assert!(push.from <= push.to, "{spans:#?}");
        }
        let tracks = self.tracks.iter().filter(|(name, _)| name == element);
        for (_, track) in tracks.filter(|(_, track)| track != "chain") {
            let of_track = |span: &&Span| span.element == element && span.track == *track;
            let mut spans: Vec<&Span> = self.spans.iter().filter(of_track).collect();
            spans.sort_by(|a, b| a.from.total_cmp(&b.from));
            for pair in spans.windows(2) {
                assert!(pair[0].to <= pair[1].from + ROUNDING, "{pair:#?}");
            }
        }
    }
}
