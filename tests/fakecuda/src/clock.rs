//! What was ordered before what: vector clocks over the streams.
//!
//! Operation n of a stream happens before another operation if the other's clock has reached n for
//! that stream. A stream's clock takes in that of an event when it is told to wait for it, and the
//! host's at every submission; the host's takes in an event's or a stream's when a call has told
//! the host that it is done. That the work happens to be done without anyone having asked does not
//! count: on another day it would not be.

use std::collections::HashMap;

use crate::world::Handle;

#[derive(Debug, Clone, Default)]
pub struct Clock(HashMap<Handle, u64>);

impl Clock {
    /// Whether operation `number` of `stream` is ordered before whoever has this clock.
    pub fn knows(&self, stream: Handle, number: u64) -> bool {
        self.0.get(&stream).is_some_and(|known| *known >= number)
    }

    /// Orders operation `number` of `stream`, and so all before it there, before this clock.
    pub fn advance(&mut self, stream: Handle, number: u64) {
        let known = self.0.entry(stream).or_default();
        *known = number.max(*known);
    }

    /// Orders what `other` knows before this clock.
    pub fn join(&mut self, other: &Clock) {
        for (stream, number) in &other.0 {
            self.advance(*stream, *number);
        }
    }
}

/// One use of memory by an operation on a stream.
#[derive(Debug, Clone)]
pub struct Access {
    /// First address and the one beyond the last.
    pub from: u64,
    pub to: u64,
    pub write: bool,
    pub stream: Handle,
    pub number: u64,
    /// The call that submitted it.
    pub call: &'static str,
}

/// The uses of one piece of memory that the host does not yet know to be over.
#[derive(Debug, Default)]
pub struct Ledger(Vec<Access>);

impl Ledger {
    /// The first use by another operation that overlaps `access` and is not ordered before
    /// `clock`, where one of the two writes.
    pub fn conflict(&self, access: &Access, clock: &Clock) -> Option<&Access> {
        self.0.iter().find(|other| {
            (other.stream, other.number) != (access.stream, access.number)
                && other.from < access.to
                && access.from < other.to
                && (other.write || access.write)
                && !clock.knows(other.stream, other.number)
        })
    }

    /// Notes `access` and forgets what `host` knows to be over.
    pub fn note(&mut self, access: Access, host: &Clock) {
        self.0.retain(|old| !host.knows(old.stream, old.number));
        self.0.push(access);
    }

    /// A use of the bytes from `from` to `to` that `host` does not know to be over.
    pub fn in_flight(&self, from: u64, to: u64, host: &Clock) -> Option<&Access> {
        self.0
            .iter()
            .find(|a| a.from < to && from < a.to && !host.knows(a.stream, a.number))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn access(stream: Handle, number: u64, from: u64, write: bool) -> Access {
        Access {
            from,
            to: from + 10,
            write,
            stream,
            number,
            call: "test",
        }
    }

    #[test]
    fn two_uses_conflict_unless_both_read_or_one_is_ordered_before_the_other() {
        let mut ledger = Ledger::default();
        ledger.note(access(1, 5, 100, true), &Clock::default());
        let mut clock = Clock::default();
        clock.advance(1, 4);
        assert!(ledger.conflict(&access(2, 1, 105, false), &clock).is_some());
        assert!(ledger.conflict(&access(2, 1, 110, true), &clock).is_none());
        clock.advance(1, 5);
        assert!(ledger.conflict(&access(2, 1, 105, false), &clock).is_none());

        let mut readers = Ledger::default();
        readers.note(access(1, 1, 0, false), &Clock::default());
        let unordered = Clock::default();
        assert!(
            readers
                .conflict(&access(2, 1, 0, false), &unordered)
                .is_none()
        );
        assert!(
            readers
                .conflict(&access(2, 1, 0, true), &unordered)
                .is_some()
        );
    }

    #[test]
    fn a_use_is_in_flight_until_the_host_knows_that_it_is_over() {
        let mut ledger = Ledger::default();
        let mut host = Clock::default();
        ledger.note(access(1, 1, 0, false), &host);
        assert!(ledger.in_flight(0, 100, &host).is_some());
        assert!(ledger.in_flight(50, 100, &host).is_none());
        host.advance(1, 1);
        assert!(ledger.in_flight(0, 100, &host).is_none());
    }
}
