//! The element between two pads that the test plays: full control of what comes in, of what
//! downstream says, and a record of all that came out.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::Instant;

use gst::prelude::*;

pub use super::downstream::Item;

use super::downstream::{Downstream, PATIENCE, answer_caps, count_buffers, downstream_pad};
use super::frames;

/// What upstream answers a LATENCY query: live, minimum, maximum.
pub type Latency = (bool, gst::ClockTime, Option<gst::ClockTime>);

/// The element, the two pads around it and its bus.
pub struct Pads {
    pub element: gst::Element,
    /// The pad that pushes into the element.
    pub src: gst::Pad,
    /// The pad that the element pushes into.
    pub sink: gst::Pad,
    pub bus: gst::Bus,
    down: Arc<Downstream>,
    upstream_events: Arc<Mutex<Vec<gst::Event>>>,
}

impl Pads {
    /// Puts `element` between two pads and on a bus; still in NULL.
    pub fn around(element: gst::Element) -> Self {
        Self::with_latency(element, (false, gst::ClockTime::ZERO, None))
    }

    /// As [`Pads::around`], upstream with this latency.
    pub fn with_latency(element: gst::Element, latency: Latency) -> Self {
        let down = Arc::new(Downstream::new());
        let upstream_events = Arc::new(Mutex::new(Vec::new()));
        let src = upstream_pad(latency, upstream_events.clone());
        let sink = downstream_pad(down.clone());
        let element_sink = element.static_pad("sink").expect("a sink pad");
        let element_src = element.static_pad("src").expect("a src pad");
        src.link(&element_sink).expect("upstream links");
        element_src.link(&sink).expect("downstream links");
        let bus = gst::Bus::new();
        element.set_bus(Some(&bus));
        Pads {
            element,
            src,
            sink,
            bus,
            down,
            upstream_events,
        }
    }

    /// The raising filter, PLAYING, with the small grey stream begun.
    pub fn raising() -> Self {
        let pads = Self::around(super::raising());
        pads.begin(&frames::gray());
        pads
    }

    /// PLAYING, with a stream of `caps` begun.
    pub fn begin(&self, caps: &gst::Caps) {
        self.play();
        self.begin_stream("test", caps);
    }

    pub fn play(&self) {
        self.down.lock().flushing = false;
        self.sink.set_active(true).expect("the sink pad activates");
        self.element
            .set_state(gst::State::Playing)
            .expect("the element plays");
        self.src.set_active(true).expect("the src pad activates");
    }

    pub fn begin_stream(&self, id: &str, caps: &gst::Caps) {
        assert!(self.src.push_event(gst::event::StreamStart::new(id)));
        // Sticky events of a source pad are always taken; refused caps show at the first frame.
        assert!(self.src.push_event(gst::event::Caps::new(caps)));
        assert!(self.src.push_event(time_segment()));
    }

    /// Pushes frame `number` of the small grey stream.
    pub fn push(&self, number: u64) -> Result<gst::FlowSuccess, gst::FlowError> {
        self.src.push(frames::numbered(number))
    }

    /// Pushes frames that must be taken.
    pub fn push_all(&self, numbers: impl IntoIterator<Item = u64>) {
        for number in numbers {
            assert_eq!(
                self.push(number),
                Ok(gst::FlowSuccess::Ok),
                "frame {number}"
            );
        }
    }

    /// Pushes frames from another thread until one is not taken.
    pub fn push_from_thread(&self, numbers: std::ops::Range<u64>) -> Pusher {
        Pusher::start(self.src.clone(), numbers)
    }

    /// A serialized event that carries `number`.
    pub fn push_number(&self, number: u64) -> bool {
        self.src.push_event(number_event(number))
    }

    pub fn flush(&self) {
        assert!(self.src.push_event(gst::event::FlushStart::new()));
        assert!(self.src.push_event(gst::event::FlushStop::new(true)));
        assert!(self.src.push_event(time_segment()));
    }

    pub fn end(&self) -> bool {
        self.src.push_event(gst::event::Eos::new())
    }

    pub fn close_gate(&self) {
        self.down.lock().gate_open = false;
    }

    pub fn open_gate(&self) {
        self.down.lock().gate_open = true;
        self.down.changed.notify_all();
    }

    /// From now on downstream takes `accepted` buffers more and then answers `flow`.
    pub fn answer_after(&self, accepted: u64, flow: gst::FlowError) {
        let mut state = self.down.lock();
        state.accept_before = accepted;
        state.flow = Err(flow);
    }

    /// Downstream takes buffers again.
    pub fn answer_ok(&self) {
        self.down.lock().flow = Ok(gst::FlowSuccess::Ok);
    }

    /// Downstream answers ALLOCATION queries with this.
    pub fn answer_allocation(
        &self,
        answer: impl Fn(&mut gst::query::Allocation) -> bool + Send + Sync + 'static,
    ) {
        self.down.lock().allocation = Some(Arc::new(answer));
    }

    /// Downstream takes these caps only.
    pub fn restrict(&self, caps: &gst::Caps) {
        self.down.lock().caps = caps.clone();
    }

    /// Waits until a buffer is held at the closed gate.
    pub fn wait_blocked(&self) {
        self.down
            .wait("a frame at the closed gate", |s| s.waiting > 0);
    }

    /// Waits until downstream has taken `count` buffers in all.
    pub fn wait_buffers(&self, count: usize) {
        self.down.wait(&format!("{count} frames downstream"), |s| {
            count_buffers(&s.items) >= count
        });
    }

    /// Waits until an event of this type has arrived.
    pub fn wait_event(&self, type_: gst::EventType) {
        self.down.wait(&format!("{type_:?} downstream"), |s| {
            s.items
                .iter()
                .any(|i| matches!(i, Item::Event(e) if e.type_() == type_))
        });
    }

    /// Waits until the event that carries `number` has arrived.
    pub fn wait_number(&self, number: u64) {
        let word = format!("number {number}");
        self.down
            .wait(&word, |s| s.items.iter().any(|i| i.word() == word));
    }

    /// Buffers that downstream refused.
    pub fn refused(&self) -> u64 {
        self.down.lock().refused
    }

    /// Everything that arrived so far.
    pub fn items(&self) -> Vec<Item> {
        self.down.lock().items.clone()
    }

    /// The same in words.
    pub fn words(&self) -> Vec<String> {
        self.items().iter().map(Item::word).collect()
    }

    /// Forgets what arrived so far.
    pub fn forget(&self) {
        self.down.lock().items.clear();
    }

    pub fn buffers(&self) -> Vec<gst::Buffer> {
        self.items()
            .into_iter()
            .filter_map(|item| match item {
                Item::Buffer(buffer) => Some(buffer),
                _ => None,
            })
            .collect()
    }

    pub fn events(&self, type_: gst::EventType) -> Vec<gst::Event> {
        self.items()
            .into_iter()
            .filter_map(|item| match item {
                Item::Event(event) if event.type_() == type_ => Some(event),
                _ => None,
            })
            .collect()
    }

    /// Events that came up to the upstream end.
    pub fn upstream_events(&self) -> Vec<gst::Event> {
        self.upstream_events
            .lock()
            .unwrap_or_else(|p| p.into_inner())
            .clone()
    }

    /// All messages on the bus so far, taken off it.
    pub fn messages(&self) -> Vec<gst::Message> {
        std::iter::from_fn(|| self.bus.pop()).collect()
    }

    /// Waits for an ERROR on the bus.
    pub fn wait_error(&self) -> gst::glib::Error {
        let timeout = gst::ClockTime::from_seconds(PATIENCE.as_secs());
        let message = self
            .bus
            .timed_pop_filtered(timeout, &[gst::MessageType::Error])
            .expect("an ERROR on the bus");
        match message.view() {
            gst::MessageView::Error(error) => error.error(),
            _ => unreachable!("the bus was asked for errors"),
        }
    }

    /// Shuts down as a pipeline does: sink first.
    pub fn stop(&self) {
        self.down.lock().flushing = true;
        self.down.changed.notify_all();
        self.sink.set_active(false).expect("the sink pad stops");
        self.element
            .set_state(gst::State::Null)
            .expect("the element stops");
        self.src.set_active(false).expect("the src pad stops");
    }
}

impl Drop for Pads {
    fn drop(&mut self) {
        self.stop();
        self.element.set_bus(None);
    }
}

/// Frames being pushed by another thread.
pub struct Pusher {
    pushed: Arc<AtomicU64>,
    thread: JoinHandle<Result<gst::FlowSuccess, gst::FlowError>>,
}

impl Pusher {
    fn start(src: gst::Pad, numbers: std::ops::Range<u64>) -> Self {
        let pushed = Arc::new(AtomicU64::new(0));
        let counter = pushed.clone();
        let thread = std::thread::spawn(move || {
            for number in numbers {
                src.push(frames::numbered(number))?;
                counter.fetch_add(1, Ordering::SeqCst);
            }
            Ok(gst::FlowSuccess::Ok)
        });
        Pusher { pushed, thread }
    }

    /// How many frames were taken so far.
    pub fn pushed(&self) -> u64 {
        self.pushed.load(Ordering::SeqCst)
    }

    /// Waits until `count` frames were taken.
    pub fn wait_pushed(&self, count: u64) {
        let deadline = Instant::now() + PATIENCE;
        while self.pushed() < count && !self.thread.is_finished() {
            assert!(Instant::now() < deadline, "{count} frames are not taken");
            std::thread::yield_now();
        }
    }

    /// How the last push ended.
    pub fn join(self) -> Result<gst::FlowSuccess, gst::FlowError> {
        self.thread.join().expect("the pushing thread ends")
    }
}

pub fn time_segment() -> gst::Event {
    gst::event::Segment::new(&gst::FormattedSegment::<gst::ClockTime>::new())
}

/// A serialized downstream event that carries `number`.
pub fn number_event(number: u64) -> gst::Event {
    gst::event::CustomDownstream::new(
        gst::Structure::builder("test-number")
            .field("number", number)
            .build(),
    )
}

/// The structures of this name in element messages.
pub fn named(messages: &[gst::Message], name: &str) -> Vec<gst::Structure> {
    messages
        .iter()
        .filter_map(|message| match message.view() {
            gst::MessageView::Element(_) => message.structure(),
            _ => None,
        })
        .filter(|structure| structure.name() == name)
        .map(|structure| structure.to_owned())
        .collect()
}

/// The texts of the messages of one type: ERROR, WARNING or INFO.
pub fn texts(messages: &[gst::Message], type_: gst::MessageType) -> Vec<String> {
    messages
        .iter()
        .filter(|message| message.type_() == type_)
        .map(|message| match message.view() {
            gst::MessageView::Error(m) => m.error().to_string(),
            gst::MessageView::Warning(m) => m.error().to_string(),
            gst::MessageView::Info(m) => m.error().to_string(),
            other => format!("{other:?}"),
        })
        .collect()
}

fn upstream_pad(latency: Latency, events: Arc<Mutex<Vec<gst::Event>>>) -> gst::Pad {
    gst::Pad::builder(gst::PadDirection::Src)
        .name("upstream")
        .event_function(move |_, _, event| {
            events.lock().unwrap_or_else(|p| p.into_inner()).push(event);
            true
        })
        .query_function(move |pad, parent, query| match query.view_mut() {
            gst::QueryViewMut::Latency(query) => {
                query.set(latency.0, latency.1, latency.2);
                true
            }
            gst::QueryViewMut::Caps(query) => {
                answer_caps(query, &gst::Caps::new_any());
                true
            }
            _ => gst::Pad::query_default(pad, parent, query),
        })
        .build()
}
