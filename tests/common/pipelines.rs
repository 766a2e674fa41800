//! Whole pipelines, run to their end and recorded.

use std::sync::{Arc, Mutex};

use gst::prelude::*;

/// The filter of most pipelines: raising flat pictures by one.
pub const RAISING: Raising = Raising;

/// The description of a filter on the backend that the tests are about.
pub struct Raising;

impl std::fmt::Display for Raising {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let backend = super::backend();
        write!(
            f,
            "cudaconv name=filter backend={backend} kernel=gauss3 bias=1"
        )
    }
}

/// What passed the sink pad of the element `out`.
#[derive(Debug, Default)]
pub struct Passed {
    pub buffers: Vec<gst::Buffer>,
    pub events: Vec<gst::Event>,
    /// The buffers before the first FLUSH_STOP, between it and the second, and so on.
    pub runs: Vec<Vec<gst::Buffer>>,
    /// Buffers that had passed when the first EOS came.
    pub before_eos: Option<usize>,
    pub eos_events: usize,
}

/// A pipeline that ran.
pub struct Outcome {
    pub passed: Passed,
    pub messages: Vec<gst::Message>,
    /// The text of the ERROR that ended it, with the debug text.
    pub error: Option<String>,
}

impl Outcome {
    /// Fails unless it ended without ERROR, with `frames` frames and then one EOS.
    pub fn assert_frames(&self, frames: usize) {
        assert_eq!(self.error, None);
        assert_eq!(self.passed.buffers.len(), frames, "frames at the sink");
        assert_eq!(self.passed.before_eos, Some(frames), "frames before EOS");
        assert_eq!(self.passed.eos_events, 1, "EOS events at the sink");
    }

    /// The caps that the sink saw last.
    pub fn caps(&self) -> gst::Caps {
        self.passed
            .events
            .iter()
            .rev()
            .find_map(|event| match event.view() {
                gst::EventView::Caps(caps) => Some(caps.caps_owned()),
                _ => None,
            })
            .expect("caps at the sink")
    }

    /// All active bytes of all frames.
    pub fn pictures(&self) -> Vec<Vec<Vec<u8>>> {
        let caps = self.caps();
        self.passed
            .buffers
            .iter()
            .map(|buffer| super::frames::planes(&caps, buffer))
            .collect()
    }
}

/// Makes the pipeline of this description.
pub fn parse(description: &str) -> gst::Pipeline {
    super::init();
    gst::parse::launch(description)
        .unwrap_or_else(|e| panic!("{description}: {e}"))
        .downcast::<gst::Pipeline>()
        .unwrap_or_else(|_| panic!("{description} is no pipeline"))
}

/// Records what passes the sink pad of the element `out` from now on.
pub fn record(pipeline: &gst::Pipeline) -> Arc<Mutex<Passed>> {
    record_with_probe(pipeline).0
}

fn record_with_probe(pipeline: &gst::Pipeline) -> (Arc<Mutex<Passed>>, gst::Pad, gst::PadProbeId) {
    let passed = Arc::new(Mutex::new(Passed {
        runs: vec![Vec::new()],
        ..Passed::default()
    }));
    let writer = passed.clone();
    let pad = pipeline
        .by_name("out")
        .and_then(|out| out.static_pad("sink"))
        .expect("an element named out");
    let mask = gst::PadProbeType::BUFFER
        | gst::PadProbeType::EVENT_DOWNSTREAM
        | gst::PadProbeType::EVENT_FLUSH;
    let probe = pad.add_probe(mask, move |_, info| {
        let mut passed = writer.lock().unwrap_or_else(|p| p.into_inner());
        if let Some(buffer) = info.buffer() {
            passed.buffers.push(buffer.clone());
            if let Some(run) = passed.runs.last_mut() {
                run.push(buffer.clone());
            }
        }
        if let Some(event) = info.event() {
            if event.type_() == gst::EventType::Eos {
                let so_far = passed.buffers.len();
                passed.before_eos.get_or_insert(so_far);
                passed.eos_events += 1;
            }
            if event.type_() == gst::EventType::FlushStop {
                passed.runs.push(Vec::new());
            }
            passed.events.push(event.clone());
        }
        gst::PadProbeReturn::Ok
    });
    (passed, pad, probe.expect("a probe is added"))
}

/// Changes the state and waits until it is reached. A change that is asked for while the pipeline
/// still prerolls for the one before can be forgotten by GStreamer's bins (seen with 1.22 and
/// stock elements alone: it stays in PAUSED, with PLAYING pending).
pub fn reach(pipeline: &gst::Pipeline, state: gst::State) {
    let change = pipeline.set_state(state).expect("the state changes");
    if change == gst::StateChangeSuccess::Async {
        let (reached, now, pending) = pipeline.state(gst::ClockTime::from_seconds(60));
        if let Err(error) = reached {
            panic!(
                "{state:?} is not reached: {error}; {now:?}, pending {pending:?}; threads:\n{}",
                super::watchdog::threads()
            );
        }
    }
}

/// Waits for EOS or ERROR; all messages until then, and the error's text.
pub fn wait_end(pipeline: &gst::Pipeline) -> (Vec<gst::Message>, Option<String>) {
    let bus = pipeline.bus().expect("a pipeline has a bus");
    let mut messages = Vec::new();
    loop {
        let message = bus
            .timed_pop(gst::ClockTime::from_seconds(60))
            .unwrap_or_else(|| {
                panic!(
                    "the pipeline does not end; messages: {messages:#?}; threads:\n{}",
                    super::watchdog::threads()
                )
            });
        messages.push(message.clone());
        match message.view() {
            gst::MessageView::Eos(_) => return (messages, None),
            gst::MessageView::Error(error) => {
                let text = format!("{} ({:?})", error.error(), error.debug());
                return (messages, Some(text));
            }
            _ => {}
        }
    }
}

/// Plays the pipeline to its end, then stops it.
pub fn play(pipeline: &gst::Pipeline) -> Outcome {
    let (passed, pad, probe) = record_with_probe(pipeline);
    let started = pipeline.set_state(gst::State::Playing);
    let (messages, error) = match started {
        Ok(_) => wait_end(pipeline),
        Err(_) => failed_start(pipeline),
    };
    pipeline
        .set_state(gst::State::Null)
        .expect("the pipeline stops");
    pad.remove_probe(probe);
    let passed = std::mem::take(&mut *passed.lock().unwrap_or_else(|p| p.into_inner()));
    Outcome {
        passed,
        messages,
        error,
    }
}

/// What is on the bus of a pipeline that did not start.
fn failed_start(pipeline: &gst::Pipeline) -> (Vec<gst::Message>, Option<String>) {
    let bus = pipeline.bus().expect("a pipeline has a bus");
    let messages: Vec<_> = std::iter::from_fn(|| bus.pop()).collect();
    let text = messages.iter().find_map(|message| match message.view() {
        gst::MessageView::Error(error) => Some(format!("{} ({:?})", error.error(), error.debug())),
        _ => None,
    });
    (
        messages,
        Some(text.unwrap_or_else(|| "the state change failed without a message".into())),
    )
}

/// Runs the pipeline of this description to its end.
pub fn run(description: &str) -> Outcome {
    play(&parse(description))
}

/// The element named `filter`.
pub fn filter(pipeline: &gst::Pipeline) -> gst::Element {
    pipeline.by_name("filter").expect("an element named filter")
}

/// Gives every frame that leaves `element` the level of its number, reckoned from its time stamp
/// at 25 frames a second.
pub fn number_by_time(pipeline: &gst::Pipeline, element: &str) {
    number(pipeline, element, |buffer| {
        let time = buffer.pts().expect("the source stamps frames");
        time.nseconds() / super::frames::DURATION.nseconds()
    });
}

/// Gives every frame that leaves `element` the level of its number, which its offset tells.
pub fn number_by_offset(pipeline: &gst::Pipeline, element: &str) {
    number(pipeline, element, gst::BufferRef::offset);
}

fn number(pipeline: &gst::Pipeline, element: &str, number: fn(&gst::BufferRef) -> u64) {
    pipeline
        .by_name(element)
        .and_then(|element| element.static_pad("src"))
        .expect("an element of this name")
        .add_probe(gst::PadProbeType::BUFFER, move |_, info| {
            let buffer = info.buffer_mut().expect("a probe for buffers").make_mut();
            let level = super::frames::level(number(buffer));
            buffer
                .map_writable()
                .expect("a writable buffer maps")
                .fill(level);
            gst::PadProbeReturn::Ok
        })
        .expect("a probe is added");
}
