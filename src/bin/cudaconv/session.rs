//! One pipeline from start to end: its dynamic parts, its messages, its interruption.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use gst::prelude::*;

use crate::audio::AudioPlan;
use crate::companion::{Companion, Next, Stage};
use crate::explain::{self, Explained};
use crate::measure::{Sample, Stats, Tally};
use crate::progress::{Position, Progress};
use crate::wiring::{self, INTERRUPT, NO_VIDEO, NOTE, application};

/// How often the progress is looked at when nothing happens.
const TICK: gst::ClockTime = gst::ClockTime::from_mseconds(100);

/// Signals this close together are one: shells and wrappers send them to the program and again to
/// its process group.
const ONE_INTERRUPT: Duration = Duration::from_millis(500);

/// How a run ended.
#[derive(Debug)]
pub enum End {
    Complete,
    /// Interrupted, with everything up to there finished.
    Interrupted,
    /// Interrupted twice: given up at once.
    Stopped,
    Failed(Explained),
}

/// What was seen of a run.
#[derive(Debug, Default)]
pub struct Seen {
    /// Every frame, in order; empty with `post-messages=false`.
    pub samples: Vec<Sample>,
    /// In place of the samples, where there is no end to them.
    pub tally: Option<Tally>,
    pub stats: Stats,
    pub elapsed: Duration,
    /// The video as it reached the filter, for people.
    pub video: Option<String>,
    pub decoder: Option<String>,
    /// How sound goes along.
    pub sound: Option<String>,
}

/// What a pipeline needs besides its description.
pub struct Wiring {
    pub audio: Option<AudioPlan>,
    /// The encoder takes pictures of odd width or height.
    pub odd_sizes: bool,
    /// Frames that will come, where that is known beforehand.
    pub frames: Option<u64>,
    /// How long the stream may take to end once it was asked to; `None`: as long as it needs.
    pub patience: Option<Duration>,
    pub verbose: bool,
    pub quiet: bool,
}

/// A pipeline in work.
pub struct Session {
    pipeline: gst::Pipeline,
    filter: gst::Element,
    bus: gst::Bus,
    wiring: Wiring,
    progress: Progress,
    seen: Seen,
    missing: Vec<String>,
    warned: BTreeSet<String>,
    /// When the stream was asked to end early.
    interrupted: Option<Instant>,
    /// When the companion asked for the end.
    finished: Option<Instant>,
    /// EOS was sent for either.
    ending: bool,
    /// It did not end in time.
    given_up: bool,
    /// Frames whose figures came.
    frames: u64,
    first_pts: Option<u64>,
    last_pts: Option<u64>,
}

impl Session {
    /// Builds the pipeline of `description`, in which the filter is named `filter`.
    ///
    /// # Errors
    /// A sentence, when an element is missing or the description is wrong.
    pub fn new(description: &str, wiring: Wiring) -> Result<Session, String> {
        let pipeline = parse(description)?;
        let filter = pipeline
            .by_name("filter")
            .ok_or("the pipeline has no element named filter")?;
        let bus = pipeline.bus().ok_or("the pipeline has no bus")?;
        wiring::watch_caps(&pipeline, &filter, wiring.odd_sizes);
        wiring::watch_durations(&pipeline);
        if let Some(source) = pipeline.by_name("source") {
            if let Some(audio) = &wiring.audio {
                audio.prepare(&source);
            }
            wiring::watch_pads(&pipeline, &source, wiring.audio.clone());
        }
        let progress = Progress::new(wiring.quiet);
        Ok(Session {
            pipeline,
            filter,
            bus,
            wiring,
            progress,
            seen: Seen::default(),
            missing: Vec::new(),
            warned: BTreeSet::new(),
            interrupted: None,
            finished: None,
            ending: false,
            given_up: false,
            frames: 0,
            first_pts: None,
            last_pts: None,
        })
    }

    /// The filter, to read its properties.
    pub fn filter(&self) -> &gst::Element {
        &self.filter
    }

    /// Says `line` without disturbing the progress, unless nothing is to be said.
    pub fn say(&self, line: &str) {
        if !self.wiring.quiet {
            self.progress.say(line);
        }
    }

    /// The pipeline, to be completed before it runs.
    pub fn pipeline(&self) -> &gst::Pipeline {
        &self.pipeline
    }

    /// Lets Ctrl-C, and a request to terminate, end the stream.
    ///
    /// # Errors
    /// When the system refuses a handler.
    pub fn handle_interrupts(&self) -> Result<(), ctrlc::Error> {
        let bus = self.bus.clone();
        ctrlc::set_handler(move || {
            // A bus that refuses belongs to a pipeline that has ended.
            let _ = bus.post(application(INTERRUPT, ""));
        })
    }

    /// Plays to the end.
    pub fn run(mut self, companion: &mut dyn Companion) -> (End, Seen) {
        let started = Instant::now();
        let end = match self.pipeline.set_state(gst::State::Playing) {
            Ok(_) => self.until_end(companion),
            Err(_) => End::Failed(self.start_failure(companion)),
        };
        if matches!(end, End::Stopped) || self.given_up {
            // Stopping in order may have to wait for whatever the user did not want to wait for.
            // The process ends now, so leaving the pipeline as it is harms nobody.
            std::mem::forget(self.pipeline.clone());
            self.progress.finish();
            return (end, self.seen);
        }
        self.seen.elapsed = started.elapsed();
        self.progress.finish();
        self.seen.stats = Stats::of(&self.filter);
        self.seen.video = video_of(&self.filter);
        self.seen.decoder = decoder_of(&self.pipeline);
        // Going to NULL cannot fail, and nothing could be done about it.
        let _ = self.pipeline.set_state(gst::State::Null);
        (end, self.seen)
    }

    /// The error that kept the pipeline from starting.
    fn start_failure(&mut self, companion: &mut dyn Companion) -> Explained {
        while let Some(message) = self.bus.pop() {
            if let Some(End::Failed(explained)) = self.handle(&message, companion) {
                return explained;
            }
        }
        Explained {
            sentence: "the pipeline could not be started, and no element said why".to_owned(),
            usage: false,
        }
    }

    fn until_end(&mut self, companion: &mut dyn Companion) -> End {
        let mut shown = Instant::now();
        loop {
            if let Some(message) = self.bus.timed_pop(TICK)
                && let Some(end) = self.handle(&message, companion)
            {
                return end;
            }
            if shown.elapsed() >= Duration::from(TICK) {
                shown = Instant::now();
                companion.tick(&mut self.stage());
                let position = self.position();
                self.progress.show(&position);
                if self.is_stuck() {
                    self.given_up = true;
                    return End::Failed(Explained {
                        sentence: "the stream was asked to end and does not: it is given up"
                            .to_owned(),
                        usage: false,
                    });
                }
            }
        }
    }

    fn stage(&mut self) -> Stage<'_> {
        Stage {
            pipeline: &self.pipeline,
            filter: &mut self.filter,
            progress: &self.progress,
            quiet: self.wiring.quiet,
        }
    }

    /// The stream was asked to end longer ago than it may take.
    fn is_stuck(&self) -> bool {
        let asked = self.finished.or(self.interrupted);
        asked
            .zip(self.wiring.patience)
            .is_some_and(|(asked, patience)| asked.elapsed() > patience)
    }

    fn handle(&mut self, message: &gst::Message, companion: &mut dyn Companion) -> Option<End> {
        use gst::MessageView;
        match message.view() {
            MessageView::Eos(_) if self.interrupted.is_some() => return Some(End::Interrupted),
            MessageView::Eos(_) => return Some(End::Complete),
            MessageView::Error(error) => {
                match companion.error(&mut self.stage(), error) {
                    Next::GoOn => {}
                    next => return self.follow(next),
                }
                if self.wiring.verbose {
                    let debug = error.debug().unwrap_or_default();
                    self.progress.say(&format!("{}\n{debug}", error.error()));
                }
                return Some(End::Failed(explain::error(error, &self.missing)));
            }
            MessageView::Warning(warning) => self.warn(warning),
            MessageView::Info(info) => self.note(info),
            MessageView::Element(element) => {
                if let Some(structure) = element.structure() {
                    self.element_message(structure, companion);
                }
            }
            MessageView::Application(application) => {
                let structure = application.structure()?;
                return self.own_message(structure, companion);
            }
            MessageView::Latency(_) => {
                // Refused only while the pipeline is shutting down.
                let _ = self.pipeline.recalculate_latency();
            }
            MessageView::StateChanged(change) => {
                let started = change.current() == gst::State::Playing
                    && change.src() == Some(self.pipeline.upcast_ref());
                if started && self.interrupted.or(self.finished).is_some() {
                    self.end_stream();
                }
            }
            MessageView::ClockLost(_) => {
                let _ = self.pipeline.set_state(gst::State::Paused);
                // A bin can forget a change that is asked for while it still prerolls.
                let _ = self.pipeline.state(gst::ClockTime::from_seconds(10));
                let _ = self.pipeline.set_state(gst::State::Playing);
            }
            _ => {}
        }
        None
    }

    fn element_message(&mut self, structure: &gst::StructureRef, companion: &mut dyn Companion) {
        if let Some(sample) = Sample::from_structure(structure) {
            self.first_pts = self.first_pts.or(sample.pts);
            self.last_pts = sample.pts.or(self.last_pts);
            self.progress.frame(&sample);
            self.frames += 1;
            if companion.frame(&sample) {
                self.seen.samples.push(sample);
            }
        } else if let Some(sentence) = explain::missing_plugin(structure) {
            if !self.missing.contains(&sentence) {
                if !self.wiring.quiet {
                    self.progress.say(&sentence);
                }
                self.missing.push(sentence);
            }
        } else if structure.name() == "cudaconv-backend" && !self.wiring.quiet {
            let text = |name: &str| structure.get::<String>(name).unwrap_or_default();
            let (device, reason) = (text("device"), text("reason"));
            let line = if reason.is_empty() {
                format!("filtering on {device}")
            } else {
                format!("filtering on {device}: {reason}")
            };
            self.progress.say(&line);
        }
    }

    fn own_message(
        &mut self,
        structure: &gst::StructureRef,
        companion: &mut dyn Companion,
    ) -> Option<End> {
        let text = structure.get::<String>("text").unwrap_or_default();
        match structure.name().as_str() {
            NOTE => {
                if text.starts_with("sound") {
                    self.seen.sound.get_or_insert_with(|| text.clone());
                }
                if !self.wiring.quiet {
                    self.progress.say(&text);
                }
                None
            }
            NO_VIDEO if self.missing.is_empty() => Some(End::Failed(Explained {
                sentence: text,
                usage: false,
            })),
            NO_VIDEO => Some(End::Failed(Explained {
                sentence: self.missing.join("; "),
                usage: false,
            })),
            INTERRUPT
                if self
                    .interrupted
                    .is_some_and(|at| at.elapsed() > ONE_INTERRUPT) =>
            {
                Some(End::Stopped)
            }
            INTERRUPT if self.interrupted.is_some() => None,
            INTERRUPT => {
                self.interrupted = Some(Instant::now());
                if !self.wiring.quiet {
                    self.progress
                        .say("interrupted: finishing what was begun (once more to stop at once)");
                }
                self.end_if_playing();
                None
            }
            _ => {
                let next = companion.message(&mut self.stage(), structure);
                self.follow(next)
            }
        }
    }

    /// Does what the companion wants.
    fn follow(&mut self, next: Next) -> Option<End> {
        match next {
            Next::GoOn => {}
            Next::End => {
                self.finished.get_or_insert_with(Instant::now);
                self.end_if_playing();
            }
            Next::Leave => return Some(End::Complete),
        }
        None
    }

    fn end_if_playing(&mut self) {
        if self.pipeline.current_state() == gst::State::Playing {
            self.end_stream();
        }
    }

    /// Sends EOS through the pipeline, which must be PLAYING: a source takes it only once it is
    /// between two frames, and until then the call holds the lock that going to PLAYING needs. For
    /// the same reason another thread makes the call.
    fn end_stream(&mut self) {
        if std::mem::replace(&mut self.ending, true) {
            return;
        }
        self.pipeline.call_async(|pipeline| {
            pipeline.send_event(gst::event::Eos::new());
        });
    }

    /// A warning is told once, however often it comes.
    fn warn(&mut self, warning: &gst::message::Warning) {
        let text = explain::warning(warning);
        // Both are told in other words: what becomes of streams that are no video, and which
        // package a missing decoder is in.
        let expected = text.ends_with("Delayed linking failed")
            || warning.error().matches(gst::StreamError::CodecNotFound);
        if !self.wiring.quiet && !expected && self.warned.insert(text.clone()) {
            self.progress.say(&format!("warning: {text}"));
        }
        if self.wiring.verbose
            && let Some(debug) = warning.debug()
        {
            self.progress.say(&debug);
        }
    }

    /// What the element says of its settings; other elements' notes are for people who know them.
    fn note(&mut self, info: &gst::message::Info) {
        let is_filters = info.src() == Some(self.filter.upcast_ref());
        let text = info.error().message().to_owned();
        if !self.wiring.quiet && is_filters && self.warned.insert(text.clone()) {
            self.progress.say(&format!("note: {text}"));
        }
    }

    fn position(&self) -> Position {
        let frames = match self.frames {
            0 => Stats::of(&self.filter).frames_out,
            frames => frames,
        };
        if let Some(total) = self.wiring.frames {
            return Position {
                frames,
                time: Some(frames),
                duration: Some(total),
            };
        }
        let last = self.last_pts;
        let sink = self.filter.static_pad("sink");
        let duration = sink.and_then(|pad| pad.peer_query_duration::<gst::ClockTime>());
        Position {
            frames,
            time: last.map(|pts| pts.saturating_sub(self.first_pts.unwrap_or(0))),
            duration: duration.map(gst::ClockTime::nseconds),
        }
    }
}

fn parse(description: &str) -> Result<gst::Pipeline, String> {
    let mut context = gst::ParseContext::new();
    let parsed = gst::parse::launch_full(
        description,
        Some(&mut context),
        gst::ParseFlags::FATAL_ERRORS,
    );
    match parsed {
        Ok(element) => element
            .downcast::<gst::Pipeline>()
            .map_err(|_| "the pipeline description is a single element".to_owned()),
        Err(error) => {
            let missing = context.missing_elements();
            let Some(first) = missing.first() else {
                return Err(error.message().to_owned());
            };
            Err(format!(
                "the GStreamer element {first} is missing; {}",
                crate::packages::advice(first)
            ))
        }
    }
}

/// `1280x720 I420, 25 fps`.
fn video_of(filter: &gst::Element) -> Option<String> {
    let caps = filter.static_pad("sink")?.current_caps()?;
    let structure = caps.structure(0)?;
    let (width, height) = (
        structure.get::<i32>("width").ok()?,
        structure.get::<i32>("height").ok()?,
    );
    let format = structure.get::<String>("format").ok()?;
    let rate = structure.get::<gst::Fraction>("framerate").ok();
    let rate = match rate.map(|rate| (rate.numer(), rate.denom())) {
        None | Some((0, _)) => "variable frame rate".to_owned(),
        Some((frames, 1)) => format!("{frames} fps"),
        Some((frames, seconds)) => format!("{:.3} fps", f64::from(frames) / f64::from(seconds)),
    };
    Some(format!("{width}x{height} {format}, {rate}"))
}

fn decoder_of(pipeline: &gst::Pipeline) -> Option<String> {
    pipeline
        .iterate_recurse()
        .into_iter()
        .flatten()
        .find_map(|element| {
            let factory = element.factory()?;
            let class = factory.metadata("klass")?;
            let decodes =
                class.contains("Decoder") && (class.contains("Video") || class.contains("Image"));
            decodes.then(|| factory.name().to_string())
        })
}
