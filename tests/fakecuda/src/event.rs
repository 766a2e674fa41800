//! Events, and what a stream does when it comes to one.

use std::sync::{Arc, OnceLock};
use std::time::Instant;

use crate::clock::Clock;
use crate::world::Handle;

pub struct Event {
    pub context: Handle,
    pub timing: bool,
    /// The record that queries and waits made now mean.
    pub latest: Option<Arc<Record>>,
}

/// One recording of an event on a stream.
pub struct Record {
    /// What is over once the stream has come to it.
    pub clock: Clock,
    reached: OnceLock<Instant>,
}

impl Record {
    pub fn new(clock: Clock) -> Record {
        Record {
            clock,
            reached: OnceLock::new(),
        }
    }

    /// The stream has come to it.
    pub fn reach(&self) {
        self.reached.get_or_init(Instant::now);
    }

    /// When the stream came to it.
    pub fn reached(&self) -> Option<Instant> {
        self.reached.get().copied()
    }
}
