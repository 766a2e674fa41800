//! The downstream end of the pads that a test plays: takes, blocks or refuses buffers, answers
//! queries, and records what came.

use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::time::{Duration, Instant};

use super::frames;

/// Longer than anything that does not hang takes.
pub const PATIENCE: Duration = Duration::from_secs(60);

/// What arrived downstream.
#[derive(Debug, Clone)]
pub enum Item {
    Buffer(gst::Buffer),
    Event(gst::Event),
    Allocation(Option<gst::Caps>),
    Drain,
}

impl Item {
    /// A word for it, for comparing orders.
    pub fn word(&self) -> String {
        match self {
            Item::Buffer(buffer) => format!(
                "frame {}",
                buffer
                    .pts()
                    .map_or("without time".into(), |t| (t / frames::DURATION.nseconds())
                        .nseconds()
                        .to_string())
            ),
            Item::Event(event) => match event.structure() {
                Some(s) if s.has_field("number") => {
                    format!("number {}", s.get::<u64>("number").expect("uint64"))
                }
                _ => event.type_().name().to_string(),
            },
            Item::Allocation(_) => "allocation".into(),
            Item::Drain => "drain".into(),
        }
    }
}

pub type AllocationAnswer = Arc<dyn Fn(&mut gst::query::Allocation) -> bool + Send + Sync>;

pub struct Down {
    pub items: Vec<Item>,
    /// Buffers wait here until it opens.
    pub gate_open: bool,
    pub flushing: bool,
    /// Buffers that wait at the gate.
    pub waiting: usize,
    /// What a buffer is answered, and from the how-manieth on (counted from now).
    pub flow: Result<gst::FlowSuccess, gst::FlowError>,
    pub accept_before: u64,
    pub refused: u64,
    pub allocation: Option<AllocationAnswer>,
    /// What the sink pad takes.
    pub caps: gst::Caps,
}

/// The downstream end.
pub struct Downstream {
    state: Mutex<Down>,
    pub changed: Condvar,
}

impl Downstream {
    pub fn new() -> Self {
        Downstream {
            state: Mutex::new(Down {
                items: Vec::new(),
                gate_open: true,
                flushing: false,
                waiting: 0,
                flow: Ok(gst::FlowSuccess::Ok),
                accept_before: 0,
                refused: 0,
                allocation: None,
                caps: gst::Caps::new_any(),
            }),
            changed: Condvar::new(),
        }
    }

    pub fn lock(&self) -> MutexGuard<'_, Down> {
        self.state.lock().unwrap_or_else(|p| p.into_inner())
    }

    /// Waits until `ready` holds, and panics with what is there if it never does.
    pub fn wait(&self, what: &str, mut ready: impl FnMut(&Down) -> bool) {
        let deadline = Instant::now() + PATIENCE;
        let mut state = self.lock();
        while !ready(&state) {
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                let words: Vec<_> = state.items.iter().map(Item::word).collect();
                drop(state);
                panic!(
                    "{what} did not happen; downstream got {words:?}; threads:\n{}",
                    super::watchdog::threads()
                );
            }
            state = self
                .changed
                .wait_timeout(state, left)
                .unwrap_or_else(|p| p.into_inner())
                .0;
        }
    }

    fn chain(&self, buffer: gst::Buffer) -> Result<gst::FlowSuccess, gst::FlowError> {
        let mut state = self.lock();
        state.waiting += 1;
        self.changed.notify_all();
        while !state.gate_open && !state.flushing {
            state = self.changed.wait(state).unwrap_or_else(|p| p.into_inner());
        }
        state.waiting -= 1;
        let answer = if state.flushing {
            Err(gst::FlowError::Flushing)
        } else if state.accept_before > 0 || state.flow.is_ok() {
            state.accept_before = state.accept_before.saturating_sub(1);
            state.items.push(Item::Buffer(buffer));
            Ok(gst::FlowSuccess::Ok)
        } else {
            state.refused += 1;
            state.flow
        };
        self.changed.notify_all();
        answer
    }

    fn event(&self, event: gst::Event) {
        let mut state = self.lock();
        match event.type_() {
            gst::EventType::FlushStart => state.flushing = true,
            gst::EventType::FlushStop => state.flushing = false,
            _ => {}
        }
        state.items.push(Item::Event(event));
        self.changed.notify_all();
    }

    /// `None` where the default is to be done.
    fn query(&self, query: &mut gst::QueryRef) -> Option<bool> {
        let mut state = self.lock();
        let answer = match query.view_mut() {
            gst::QueryViewMut::Allocation(allocation) => {
                let caps = allocation.get_owned().0;
                state.items.push(Item::Allocation(caps));
                let answer = state.allocation.clone();
                self.changed.notify_all();
                drop(state);
                return Some(answer.is_some_and(|answer| answer(allocation)));
            }
            gst::QueryViewMut::Drain(_) => {
                state.items.push(Item::Drain);
                Some(true)
            }
            gst::QueryViewMut::Caps(query) => {
                answer_caps(query, &state.caps);
                Some(true)
            }
            gst::QueryViewMut::AcceptCaps(query) => {
                let accepted = query.caps().is_subset(&state.caps);
                query.set_result(accepted);
                Some(true)
            }
            _ => None,
        };
        self.changed.notify_all();
        answer
    }
}

/// Without an answer of its own a pad would claim to take nothing but its current caps.
pub fn answer_caps(query: &mut gst::query::Caps, caps: &gst::Caps) {
    let caps = match query.filter() {
        Some(filter) => filter.intersect(caps),
        None => caps.clone(),
    };
    query.set_result(&caps);
}

pub fn count_buffers(items: &[Item]) -> usize {
    items
        .iter()
        .filter(|item| matches!(item, Item::Buffer(_)))
        .count()
}

pub fn downstream_pad(down: Arc<Downstream>) -> gst::Pad {
    let for_events = down.clone();
    let for_queries = down.clone();
    gst::Pad::builder(gst::PadDirection::Sink)
        .name("downstream")
        .chain_function(move |_, _, buffer| down.chain(buffer))
        .event_function(move |_, _, event| {
            for_events.event(event);
            true
        })
        .query_function(move |pad, parent, query| {
            for_queries
                .query(query)
                .unwrap_or_else(|| gst::Pad::query_default(pad, parent, query))
        })
        .build()
}
