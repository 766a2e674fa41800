//! The ordered queue between the sink pad's chain and the source pad's task, with the slots for
//! frames in flight and the flow that both share.
//!
//! One lock guards one small struct; it is held for a few instructions and never while calling
//! into an engine or into GStreamer, but for starting and pausing the task: these have to be one
//! step with the change of the flow, or a flush and a stop at the same time could leave the task
//! running on an inactive pad, or paused on an active one. (Channels would not do: a DRAIN query has to wait until the queue
//! is empty and nothing is being pushed.)

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard};
use std::time::{Duration, Instant};

pub type Flow = Result<gst::FlowSuccess, gst::FlowError>;

/// A place among the frames in flight.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Place {
    /// Below the depth.
    pub number: usize,
    /// Which start of the pad it belongs to.
    start: u64,
}

/// What the wait for a slot was for.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct SlotWait {
    /// For frames before this one to be done.
    pub wait: Duration,
    /// Only because downstream did not take an earlier frame.
    pub blocked: Duration,
}

struct State<T> {
    /// In the order of their arrival.
    items: VecDeque<T>,
    /// The task has taken an item and not yet called `finished`.
    busy: bool,
    /// What the chain returns. `Flushing` while inactive or flushing; otherwise `Ok` or the first
    /// error that downstream returned, until something clears it.
    flow: Flow,
    /// The error in `flow` was handed to upstream by a chain.
    told: bool,
    /// An EOS event is in `items` or went downstream.
    eos: bool,
    /// The source pad is active; only then may `flow` leave `Flushing`.
    active: bool,
    /// Slots that are free, and when the work of their last frames was over.
    slots: Vec<(Place, Instant)>,
    /// How often the pad was activated.
    starts: u64,
    /// The chain waits for a slot.
    slot_wanted: bool,
    /// Until when the chain, which waits for a slot, does so awake.
    watch_until: Option<Instant>,
}

/// See the module's text. `T` is an item of the stream.
pub struct Queue<T> {
    state: Mutex<State<T>>,
    /// Wakes the task: an item came, or the flow changed.
    for_task: Condvar,
    /// Wakes the chain and queries: a slot is free, the queue is empty, or the flow changed.
    for_chain: Condvar,
    /// How often that happened, for a chain that watches instead of sleeping.
    chain_wakes: AtomicU32,
}

/// The longest that a chain waits awake for a slot that is due. Being woken takes tens of
/// microseconds, in which the device has nothing to do.
const WATCHED_AT_MOST: Duration = Duration::from_micros(200);

impl<T> Default for Queue<T> {
    fn default() -> Self {
        Queue {
            state: Mutex::new(State {
                items: VecDeque::new(),
                busy: false,
                flow: Err(gst::FlowError::Flushing),
                told: false,
                eos: false,
                active: false,
                slots: Vec::new(),
                starts: 0,
                slot_wanted: false,
                watch_until: None,
            }),
            for_task: Condvar::new(),
            for_chain: Condvar::new(),
            chain_wakes: AtomicU32::new(0),
        }
    }
}

/// What became of an EOS event that joined the queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EosOutcome {
    Queued,
    /// Queued after downstream failed in a way that upstream was not told of: tell the
    /// application.
    QueuedAfterError(gst::FlowError),
}

impl<T> Queue<T> {
    fn lock(&self) -> MutexGuard<'_, State<T>> {
        // Nothing panics while it holds the lock; were it so, the struct would still be whole.
        self.state
            .lock()
            .unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    fn wake_chain(&self) {
        self.chain_wakes.fetch_add(1, Ordering::Release);
        self.for_chain.notify_all();
    }

    /// The source pad is activated with `depth` slots: data may flow, `start_task` is called.
    pub fn activate<R>(&self, depth: usize, start_task: impl FnOnce() -> R) -> R {
        let mut state = self.lock();
        state.active = true;
        state.starts += 1;
        let (now, start) = (Instant::now(), state.starts);
        let place = |number| (Place { number, start }, now);
        // The last one is taken first.
        state.slots = (0..depth).rev().map(place).collect();
        self.restart(&mut state);
        start_task()
    }

    /// The source pad is deactivated: everything that waits returns `Flushing`.
    pub fn deactivate(&self) -> Vec<T> {
        self.lock().active = false;
        self.flush()
    }

    /// Everything that waits returns `Flushing`. Returns the items, in order, for the caller to
    /// discard.
    pub fn flush(&self) -> Vec<T> {
        let mut state = self.lock();
        state.flow = Err(gst::FlowError::Flushing);
        let items = state.items.drain(..).collect();
        self.for_task.notify_all();
        self.wake_chain();
        items
    }

    /// Data may flow again after a flush, if the source pad is active: then `start_task` is
    /// called.
    pub fn resume(&self, start_task: impl FnOnce()) {
        let mut state = self.lock();
        if state.active {
            self.restart(&mut state);
            start_task();
        }
    }

    /// For the task: calls `pause_task` if it is still to pause.
    pub fn pause(&self, pause_task: impl FnOnce()) {
        let state = self.lock();
        if state.flow == Err(gst::FlowError::Flushing) {
            pause_task();
        }
    }

    fn restart(&self, state: &mut State<T>) {
        state.flow = Ok(gst::FlowSuccess::Ok);
        state.told = false;
        state.eos = false;
        self.for_task.notify_all();
        self.wake_chain();
    }

    /// What the chain has to return now; an error counts as told to upstream.
    pub fn flow(&self) -> Flow {
        let mut state = self.lock();
        state.told |= state.flow.is_err();
        state.flow
    }

    /// The flow as it is, told to nobody.
    pub fn peek_flow(&self) -> Flow {
        self.lock().flow
    }

    /// Downstream may be linked now.
    pub fn clear_not_linked(&self) {
        let mut state = self.lock();
        if state.flow == Err(gst::FlowError::NotLinked) {
            state.flow = Ok(gst::FlowSuccess::Ok);
            state.told = false;
        }
    }

    /// A new stream begins behind an EOS: what downstream said of the old one holds no more.
    pub fn clear_eos(&self) {
        let mut state = self.lock();
        state.eos = false;
        if state.flow == Err(gst::FlowError::Eos) {
            state.flow = Ok(gst::FlowSuccess::Ok);
            state.told = false;
        }
    }

    /// Takes a slot, waiting for one since `arrival` if need be.
    ///
    /// # Errors
    /// The flow, when it is not OK.
    pub fn take_slot(&self, arrival: Instant) -> Result<(Place, SlotWait), gst::FlowError> {
        let mut state = self.lock();
        let mut waited = false;
        loop {
            state.slot_wanted = false;
            if let Err(error) = state.flow {
                state.told = true;
                return Err(error);
            }
            if let Some((place, idle_since)) = state.slots.pop() {
                state.watch_until = None;
                let wait = if waited {
                    split_wait(arrival, idle_since, Instant::now())
                } else {
                    SlotWait::default()
                };
                return Ok((place, wait));
            }
            waited = true;
            state.slot_wanted = true;
            state = match state.watch_until {
                Some(until) if Instant::now() < until => self.watch(state, until),
                _ => (self.for_chain.wait(state)).unwrap_or_else(|poisoned| poisoned.into_inner()),
            };
        }
    }

    /// Waits awake, without the lock, until something wakes the chain.
    fn watch<'a>(
        &'a self,
        state: MutexGuard<'a, State<T>>,
        until: Instant,
    ) -> MutexGuard<'a, State<T>> {
        let wakes = self.chain_wakes.load(Ordering::Acquire);
        drop(state);
        while self.chain_wakes.load(Ordering::Acquire) == wakes && Instant::now() < until {
            std::hint::spin_loop();
        }
        self.lock()
    }

    /// For the task: a slot will be free in a moment. A chain that waits for one wakes up.
    pub fn slot_soon(&self) {
        let mut state = self.lock();
        if state.slot_wanted && state.slots.is_empty() {
            state.watch_until = Some(Instant::now() + WATCHED_AT_MOST);
            self.wake_chain();
        }
    }

    /// Gives a slot back whose work was over at `idle_since`.
    pub fn give_slot(&self, place: Place, idle_since: Instant) {
        let mut state = self.lock();
        // A slot of before a stop does not add to those of the new start.
        if place.start == state.starts {
            state.slots.push((place, idle_since));
        }
        drop(state);
        self.wake_chain();
    }

    /// Appends an item.
    ///
    /// # Errors
    /// `Flushing` with the item. After any other error items are still taken, for the task to
    /// discard frames and hand on events.
    pub fn push(&self, item: T) -> Result<(), T> {
        let mut state = self.lock();
        if state.flow == Err(gst::FlowError::Flushing) {
            return Err(item);
        }
        state.items.push_back(item);
        self.for_task.notify_one();
        Ok(())
    }

    /// Appends the item of an EOS event.
    ///
    /// # Errors
    /// `Flushing` with the item.
    pub fn push_eos(&self, item: T) -> Result<EosOutcome, T> {
        self.push(item)?;
        let mut state = self.lock();
        state.eos = true;
        Ok(match state.flow {
            Err(error) if is_failure(error) && !state.told => {
                state.told = true;
                EosOutcome::QueuedAfterError(error)
            }
            _ => EosOutcome::Queued,
        })
    }

    /// The task's next item, once there is one. The task calls [`Queue::finished`] when it is
    /// done with it.
    ///
    /// # Errors
    /// `Flushing`.
    pub fn next(&self) -> Result<T, gst::FlowError> {
        let mut state = self.lock();
        loop {
            if state.flow == Err(gst::FlowError::Flushing) {
                return Err(gst::FlowError::Flushing);
            }
            if let Some(item) = state.items.pop_front() {
                state.busy = true;
                return Ok(item);
            }
            state = self
                .for_task
                .wait(state)
                .unwrap_or_else(|poisoned| poisoned.into_inner());
        }
    }

    /// The task is done with its item, with what downstream returned. Returns an error that the
    /// application has to be told because upstream, being at EOS, will not ask again.
    pub fn finished(&self, result: Flow) -> Option<gst::FlowError> {
        let mut state = self.lock();
        state.busy = false;
        let mut untold = None;
        if let (Ok(_), Err(error)) = (state.flow, result) {
            // A flush that downstream saw first: its own FLUSH_START is on its way here or never
            // comes (downstream was stopped); either way upstream must stop sending.
            state.flow = result;
            state.told = false;
            if state.eos && is_failure(error) {
                state.told = true;
                untold = Some(error);
            }
        }
        self.wake_chain();
        if state.flow == Err(gst::FlowError::Flushing) {
            self.for_task.notify_all();
        }
        untold
    }

    /// As [`Queue::drain`], for a frame that arrived at `arrival`: how much of its wait was for the
    /// work on earlier frames, and how much only for downstream to take them.
    ///
    /// # Errors
    /// `Flushing`.
    pub fn drain_for(&self, arrival: Instant) -> Result<SlotWait, gst::FlowError> {
        self.drain()?;
        let idle_since = self.lock().slots.iter().map(|slot| slot.1).max();
        Ok(split_wait(
            arrival,
            idle_since.unwrap_or(arrival),
            Instant::now(),
        ))
    }

    /// Waits until the queue is empty and nothing is being pushed.
    ///
    /// # Errors
    /// `Flushing`.
    pub fn drain(&self) -> Result<(), gst::FlowError> {
        let mut state = self.lock();
        loop {
            if state.flow == Err(gst::FlowError::Flushing) {
                return Err(gst::FlowError::Flushing);
            }
            if state.items.is_empty() && !state.busy {
                return Ok(());
            }
            state = self
                .for_chain
                .wait(state)
                .unwrap_or_else(|poisoned| poisoned.into_inner());
        }
    }
}

/// True for what ends a stream with an error, other than a flush or the end.
fn is_failure(error: gst::FlowError) -> bool {
    !matches!(error, gst::FlowError::Flushing | gst::FlowError::Eos)
}

/// A wait from `arrival` to `taken` for a slot whose work was over at `idle_since`: what lies
/// behind `idle_since` was downstream's doing.
fn split_wait(arrival: Instant, idle_since: Instant, taken: Instant) -> SlotWait {
    let blocked = taken.saturating_duration_since(arrival.max(idle_since));
    SlotWait {
        wait: taken
            .saturating_duration_since(arrival)
            .saturating_sub(blocked),
        blocked,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn queue(depth: usize) -> Queue<u32> {
        let queue = Queue::default();
        queue.activate(depth, || ());
        queue
    }

    #[test]
    fn a_wait_is_split_where_the_slot_could_have_been_free() {
        let at = |ms| Instant::now() + Duration::from_millis(ms);
        let base = at(0);
        let ms = Duration::from_millis;
        let split =
            |idle: u64, taken: u64| split_wait(base + ms(10), base + ms(idle), base + ms(taken));
        assert_eq!(
            split(25, 30),
            SlotWait {
                wait: ms(15),
                blocked: ms(5)
            }
        );
        assert_eq!(
            split(5, 30),
            SlotWait {
                wait: ms(0),
                blocked: ms(20)
            }
        );
        assert_eq!(
            split(30, 30),
            SlotWait {
                wait: ms(20),
                blocked: ms(0)
            }
        );
    }

    #[test]
    fn an_inactive_queue_is_flushing() {
        let queue = Queue::<u32>::default();
        assert_eq!(queue.flow(), Err(gst::FlowError::Flushing));
        assert_eq!(queue.push(1), Err(1));
        queue.resume(|| panic!("an inactive pad has no task"));
        assert_eq!(queue.next(), Err(gst::FlowError::Flushing));
    }

    #[test]
    fn an_error_before_eos_that_nobody_was_told_is_reported_once_at_eos() {
        let queue = queue(1);
        queue.push(1).unwrap();
        queue.next().unwrap();
        assert_eq!(queue.finished(Err(gst::FlowError::NotNegotiated)), None);
        assert_eq!(
            queue.push_eos(2),
            Ok(EosOutcome::QueuedAfterError(gst::FlowError::NotNegotiated))
        );
        assert_eq!(queue.push_eos(3), Ok(EosOutcome::Queued));
    }

    #[test]
    fn an_error_behind_a_queued_eos_is_reported_by_the_task() {
        let queue = queue(1);
        queue.push(1).unwrap();
        queue.push_eos(2).unwrap();
        queue.next().unwrap();
        assert_eq!(
            queue.finished(Err(gst::FlowError::Error)),
            Some(gst::FlowError::Error)
        );
    }

    #[test]
    fn not_linked_is_cleared_and_other_errors_are_kept() {
        for (error, kept) in [
            (gst::FlowError::NotLinked, false),
            (gst::FlowError::Error, true),
        ] {
            let queue = queue(1);
            queue.push(1).unwrap();
            queue.next().unwrap();
            queue.finished(Err(error));
            queue.clear_not_linked();
            assert_eq!(queue.flow().is_err(), kept);
        }
    }

    #[test]
    fn a_chain_that_is_told_of_a_slot_takes_it_and_one_that_was_told_wrong_waits_on() {
        for promised in [false, true] {
            let queue = std::sync::Arc::new(queue(1));
            let (place, _) = queue.take_slot(Instant::now()).unwrap();
            let waiter = {
                let queue = queue.clone();
                std::thread::spawn(move || queue.take_slot(Instant::now()))
            };
            while !queue.lock().slot_wanted {
                std::thread::yield_now();
            }
            queue.slot_soon();
            // Told wrong: the watch ends without a slot.
            while !promised
                && queue
                    .lock()
                    .watch_until
                    .is_some_and(|until| Instant::now() < until)
            {
                std::thread::yield_now();
            }
            queue.give_slot(place, Instant::now());
            assert!(waiter.join().unwrap().is_ok());
            assert_eq!(queue.lock().watch_until, None);
        }
    }

    #[test]
    fn slots_are_taken_until_none_is_free_and_a_flush_wakes_the_waiter() {
        let queue = std::sync::Arc::new(queue(2));
        queue.take_slot(Instant::now()).unwrap();
        queue.take_slot(Instant::now()).unwrap();
        let waiter = {
            let queue = queue.clone();
            std::thread::spawn(move || queue.take_slot(Instant::now()))
        };
        queue.flush();
        assert_eq!(waiter.join().unwrap(), Err(gst::FlowError::Flushing));
    }
}
