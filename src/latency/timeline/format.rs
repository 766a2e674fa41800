//! Frames as events of Chrome's trace format, which Perfetto reads too: times in microseconds
//! since the timeline began.

use std::collections::HashMap;
use std::fmt::Write;
use std::time::{Duration, Instant};

use super::FrameSpans;
use crate::latency::{Stage, nanoseconds};

/// Tracks of an element, in the order in which a viewer shows them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Track {
    Chain,
    Slot(usize),
    Output,
}

impl Track {
    /// What the format calls the thread.
    fn id(self) -> usize {
        match self {
            Track::Chain => 1,
            Track::Slot(slot) => 2 + slot,
            // Behind the slots, whatever their number.
            Track::Output => 100,
        }
    }

    fn name(self) -> String {
        match self {
            Track::Chain => "chain".into(),
            Track::Slot(slot) => format!("slot {slot}"),
            Track::Output => "output task".into(),
        }
    }
}

/// Events as text, each behind a comma.
pub struct Events {
    pub text: String,
    epoch: Instant,
    /// When the last work on each slot's track ended, by element.
    ends: HashMap<u32, Vec<Instant>>,
}

impl Events {
    pub fn since(epoch: Instant) -> Events {
        Events {
            text: String::new(),
            epoch,
            ends: HashMap::new(),
        }
    }

    /// What tracks are called and how they are sorted. Telling it again changes nothing but names.
    pub fn element(&mut self, id: u32, name: &str, slots: usize) {
        self.meta(id, None, "process_name", name);
        self.ends.insert(id, vec![self.epoch; slots]);
        let tracks = std::iter::once(Track::Chain)
            .chain((0..slots).map(Track::Slot))
            .chain([Track::Output]);
        for track in tracks {
            self.track(id, track);
        }
    }

    fn track(&mut self, id: u32, track: Track) {
        self.meta(id, Some(track), "thread_name", &track.name());
        let sort = track.id();
        self.add(format_args!(
            r#""name":"thread_sort_index","ph":"M","pid":{id},"tid":{sort},"args":{{"sort_index":{sort}}}"#
        ));
    }

    /// The track of `slot`, or, where the frame before it there was not over yet, another one: a
    /// viewer shows nothing that overlaps on a track.
    fn free_slot(&mut self, id: u32, slot: usize, from: Instant, to: Instant) -> usize {
        let epoch = self.epoch;
        let ends = self.ends.entry(id).or_default();
        let is_free = |slot: &usize| ends.get(*slot).is_none_or(|end| *end <= from);
        let mut slots = std::iter::once(slot).chain(0..);
        let free = slots.find(is_free).unwrap_or(slot);
        let known = ends.len();
        ends.resize(known.max(free + 1), epoch);
        ends[free] = to;
        if free >= known {
            self.track(id, Track::Slot(free));
        }
        free
    }

    fn meta(&mut self, id: u32, track: Option<Track>, what: &str, name: &str) {
        let track = track.map_or(0, Track::id);
        let name = Quoted(name);
        self.add(format_args!(
            r#""name":"{what}","ph":"M","pid":{id},"tid":{track},"args":{{"name":{name}}}"#
        ));
    }

    pub fn dropped(&mut self, id: u32, number: u64, at: Instant, reason: &str) {
        let (at, track) = (self.time(at), Track::Chain.id());
        self.add(format_args!(
            r#""name":"dropped","cat":"frame","ph":"i","s":"t","pid":{id},"tid":{track},"ts":{at},"args":{{"frame":{number},"reason":{}}}"#,
            Quoted(reason)
        ));
    }

    /// Records were left out, because the file was written too slowly.
    pub fn lost(&mut self, records: u64, now: Instant) {
        let at = self.time(now);
        self.add(format_args!(
            r#""name":"left out","ph":"i","s":"g","pid":0,"tid":0,"ts":{at},"args":{{"records":{records}}}"#
        ));
    }

    pub fn frame(&mut self, id: u32, frame: &FrameSpans) {
        let FrameSpans { number, slot, .. } = *frame;
        let slot = match &frame.engine {
            Some((_, engine)) => self.free_slot(id, slot, engine.started, engine.finished),
            None => slot,
        };
        let mut span = |track, name: &str, from: Instant, to: Instant, more: &str| {
            self.span((id, track), name, (from, to), number, more);
        };
        span(
            Track::Chain,
            "frame",
            frame.arrived,
            frame.handed_over.max(frame.arrived),
            "",
        );
        let waited = (frame.arrived + frame.wait).min(frame.handed_over);
        if !frame.wait.is_zero() {
            span(Track::Chain, "wait", frame.arrived, waited, "");
        }
        let mut begun = frame.got;
        if let Some((backend, engine)) = &frame.engine {
            begun = engine.started;
            let backend = format!(r#","backend":"{backend}""#);
            let stages = [
                (Stage::CopyIn, engine.copy_in),
                (Stage::Upload, engine.upload),
                (Stage::Kernel, engine.kernel),
                (Stage::Download, engine.download),
            ];
            let mut from = engine.started;
            for (stage, time) in stages {
                let to = (from + time).min(engine.finished);
                if to > from {
                    span(Track::Slot(slot), stage.name(), from, to, &backend);
                }
                from = to;
            }
        }
        span(Track::Output, "wait", frame.asked, frame.got, "");
        let stages = Totals(frame);
        let stages = stages.to_string();
        span(Track::Output, "push", frame.got, frame.pushed, &stages);
        let flow = (u64::from(id) << 32) | (number & u64::from(u32::MAX));
        self.arrow(id, Track::Chain, "s", frame.arrived, flow);
        if frame.engine.is_some() {
            self.arrow(id, Track::Slot(slot), "t", begun, flow);
        }
        self.arrow(id, Track::Output, "f", frame.got, flow);
    }

    fn span(
        &mut self,
        (id, track): (u32, Track),
        name: &str,
        (from, to): (Instant, Instant),
        number: u64,
        more: &str,
    ) {
        let track = track.id();
        let time = to.saturating_duration_since(from);
        let (from, time) = (self.time(from), Microseconds(time));
        self.add(format_args!(
            r#""name":"{name}","cat":"frame","ph":"X","pid":{id},"tid":{track},"ts":{from},"dur":{time},"args":{{"frame":{number}{more}}}"#
        ));
    }

    /// One end of the arrows that lead from a frame's arrival over its slot to its push.
    fn arrow(&mut self, id: u32, track: Track, kind: &str, at: Instant, flow: u64) {
        let (track, at) = (track.id(), self.time(at));
        self.add(format_args!(
            r#""name":"frame","cat":"flow","ph":"{kind}","bp":"e","id":{flow},"pid":{id},"tid":{track},"ts":{at}"#
        ));
    }

    fn time(&self, at: Instant) -> Microseconds {
        Microseconds(at.saturating_duration_since(self.epoch))
    }

    fn add(&mut self, members: std::fmt::Arguments) {
        // Writing to a String cannot fail.
        let _ = write!(self.text, ",\n{{{members}}}");
    }
}

/// Latency and stages as `stats` and messages name them, behind a comma.
struct Totals<'a>(&'a FrameSpans);

impl std::fmt::Display for Totals<'_> {
    fn fmt(&self, out: &mut std::fmt::Formatter) -> std::fmt::Result {
        let timing = &self.0.timing;
        write!(out, r#","latency-ns":{}"#, nanoseconds(timing.latency))?;
        for stage in Stage::ALL {
            let time = nanoseconds(timing.stage(stage));
            write!(out, r#","stage-{}-ns":{time}"#, stage.name())?;
        }
        write!(out, r#","over-budget":{}"#, self.0.over_budget)?;
        write!(out, r#","bypassed":{}"#, self.0.engine.is_none())
    }
}

/// With all nanoseconds, as a decimal fraction.
struct Microseconds(Duration);

impl std::fmt::Display for Microseconds {
    fn fmt(&self, out: &mut std::fmt::Formatter) -> std::fmt::Result {
        let ns = self.0.as_nanos();
        write!(out, "{}.{:03}", ns / 1000, ns % 1000)
    }
}

/// A JSON string.
struct Quoted<'a>(&'a str);

impl std::fmt::Display for Quoted<'_> {
    fn fmt(&self, out: &mut std::fmt::Formatter) -> std::fmt::Result {
        out.write_char('"')?;
        for c in self.0.chars() {
            match c {
                '"' | '\\' => write!(out, "\\{c}")?,
                c if c < ' ' => write!(out, "\\u{:04x}", u32::from(c))?,
                c => out.write_char(c)?,
            }
        }
        out.write_char('"')
    }
}
