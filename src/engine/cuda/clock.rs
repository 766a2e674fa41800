//! Device time on the host's clock, and waiting for the device without burning a core.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use super::context::{Current, Event, Stream};
use super::error::CudaError;
use crate::latency::ServiceEstimate;

/// Event times are milliseconds in float32: a second after the reference they are exact to 60 ns.
const RENEWAL: Duration = Duration::from_secs(1);
/// A reference whose moment is known less exactly is renewed sooner, and the first is tried a few times.
const GOOD_BRACKET: Duration = Duration::from_micros(30);
const RENEWAL_OF_POOR: Duration = Duration::from_millis(250);
const TRIALS: usize = 3;
const WATCHED_AT_MOST: Duration = Duration::from_micros(200);

/// An event whose moment is known on the host's clock.
pub struct Reference {
    event: Event,
    at: Instant,
    /// How far apart the moments are that it lies in the middle of.
    bracket: Duration,
}

impl Reference {
    fn is_fresh(&self) -> bool {
        self.at.elapsed()
            < match self.bracket < GOOD_BRACKET {
                true => RENEWAL,
                false => RENEWAL_OF_POOR,
            }
    }

    /// When `event`, which is done and was recorded after the reference, was passed.
    ///
    /// # Errors
    /// As the driver's.
    pub fn moment(&self, current: &Current, event: &Event) -> Result<Instant, CudaError> {
        Ok(self.at + current.elapsed(&self.event, event)?)
    }
}

/// Makes references, on a stream of its own that has no work.
pub struct Clock {
    stream: Stream,
    newest: Mutex<Option<Arc<Reference>>>,
}

impl Clock {
    /// # Errors
    /// As the driver's.
    pub fn new(current: &Current) -> Result<Clock, CudaError> {
        Ok(Clock {
            stream: current.stream()?,
            newest: Mutex::default(),
        })
    }

    /// A reference at most a second old.
    ///
    /// # Errors
    /// As the driver's.
    pub fn reference(&self, current: &Current) -> Result<Arc<Reference>, CudaError> {
        let mut newest = self.newest.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(reference) = newest.as_ref()
            && reference.is_fresh()
        {
            return Ok(reference.clone());
        }
        let mut best = self.measure(current)?;
        // Later ones are made while a frame waits.
        let more = if newest.is_none() { TRIALS - 1 } else { 0 };
        for _ in 0..more {
            if best.bracket < GOOD_BRACKET {
                break;
            }
            let another = self.measure(current)?;
            if another.bracket < best.bracket {
                best = another;
            }
        }
        let reference = Arc::new(best);
        *newest = Some(reference.clone());
        Ok(reference)
    }

    fn measure(&self, current: &Current) -> Result<Reference, CudaError> {
        // A new event each time: frames in flight still measure from the one before.
        let event = current.event()?;
        let before = Instant::now();
        current.record(&event, &self.stream)?;
        while !current.is_done(&event)? {
            // A device that others keep busy takes its time.
            match before.elapsed() < WATCHED_AT_MOST {
                true => std::hint::spin_loop(),
                false => current.wait_for(&event)?,
            }
        }
        let bracket = before.elapsed();
        Ok(Reference {
            event,
            at: before + bracket / 2,
            bracket,
        })
    }
}

/// What frames of one plan took from submission to some point of their work: how long to sleep for
/// the next.
pub struct Pace(Mutex<Recent>);

struct Recent {
    frames: u32,
    estimate: ServiceEstimate,
}

/// Fewer frames tell nothing: the first brings up the device.
const FEWEST_FRAMES: u32 = 3;
/// The part of the expected time that is slept through.
const SLEPT: f64 = 0.7;
/// Shorter sleeps are not worth two system calls.
const SHORTEST_SLEEP: Duration = Duration::from_micros(20);
/// Between two looks at an event that is not due yet.
const NAP: Duration = Duration::from_micros(10);
const LONGEST_NAP: Duration = Duration::from_millis(1);
/// Part of the expected time, before and after its end, in which the event is watched without
/// naps.
const WATCHED: f64 = 0.1;
/// Before a watch that begins sooner than this there are no naps: one may last longer.
const NO_NAP: Duration = Duration::from_micros(50);
/// How long an event is looked at in naps while nothing is known of its time.
const UNKNOWN: Duration = Duration::from_millis(1);

impl Default for Pace {
    fn default() -> Self {
        Pace(Mutex::new(Recent {
            frames: 0,
            estimate: ServiceEstimate::from_trial(Duration::ZERO),
        }))
    }
}

impl Pace {
    pub fn record(&self, service: Duration) {
        let mut recent = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        recent.frames = recent.frames.saturating_add(1);
        recent.estimate.record(service);
    }

    fn expected(&self) -> Option<Duration> {
        let recent = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        (recent.frames >= FEWEST_FRAMES).then(|| recent.estimate.median())
    }

    /// Waits until about `lead` before that point of work that was submitted at `submitted`: until
    /// it is due, and `before` has passed, which comes shortly before its `end`. False, soon, while nothing
    /// is known of its time, where it is over already, and when it takes far longer than others.
    pub fn approach(
        &self,
        current: &Current,
        (before, end): (&Event, &Event),
        submitted: Instant,
        lead: Duration,
    ) -> bool {
        let Some(expected) = self.expected() else {
            return false;
        };
        if !matches!(current.is_done(end), Ok(false)) {
            return false;
        }
        let due = expected.saturating_sub(lead);
        let _sharp = SharpTimer::new();
        loop {
            let elapsed = submitted.elapsed();
            match current.is_done(if elapsed < due { end } else { before }) {
                Ok(true) => return true,
                Ok(false) if elapsed <= 2 * expected => next_step(Some(due), elapsed).take(),
                _ => return false,
            }
        }
    }

    /// Waits for `event`, which marks that point of work that was submitted at `submitted`.
    ///
    /// # Errors
    /// As the driver's, also those of earlier work.
    pub fn wait(
        &self,
        current: &Current,
        event: &Event,
        submitted: Instant,
    ) -> Result<(), CudaError> {
        if current.is_done(event)? {
            return Ok(());
        }
        let expected = self.expected();
        let _sharp = SharpTimer::new();
        loop {
            next_step(expected, submitted.elapsed()).take();
            if current.is_done(event)? {
                return Ok(());
            }
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Step {
    Sleep(Duration),
    Spin,
}

impl Step {
    fn take(self) {
        match self {
            Step::Sleep(time) => std::thread::sleep(time),
            Step::Spin => std::hint::spin_loop(),
        }
    }
}

/// A part of the time that has passed: work that takes long is not looked at often, and found done
/// soon enough all the same. (An event that the driver can wake a thread for would make the device
/// send an interrupt for every frame.)
fn long_nap(elapsed: Duration) -> Step {
    Step::Sleep((elapsed / 32).clamp(NAP, LONGEST_NAP))
}

/// What to do `elapsed` after the submission of work that is expected to take `expected` in all.
fn next_step(expected: Option<Duration>, elapsed: Duration) -> Step {
    let Some(expected) = expected else {
        return if elapsed < UNKNOWN {
            Step::Sleep(NAP)
        } else {
            long_nap(elapsed)
        };
    };
    if elapsed > expected * 2 {
        return long_nap(elapsed);
    }
    let sleep = expected.mul_f64(SLEPT).saturating_sub(elapsed);
    if sleep >= SHORTEST_SLEEP {
        return Step::Sleep(sleep);
    }
    let watched = expected.mul_f64(WATCHED);
    let earliest = expected.saturating_sub(watched + NO_NAP);
    let latest = expected + watched.max(NO_NAP);
    if (earliest..=latest).contains(&elapsed) {
        Step::Spin
    } else {
        Step::Sleep(NAP)
    }
}

/// Lets this thread's sleeps end on time, as long as it lives: by default Linux adds up to 50 µs
/// to each.
struct SharpTimer {
    #[cfg(target_os = "linux")]
    before: libc::c_int,
}

#[cfg(target_os = "linux")]
impl SharpTimer {
    fn new() -> SharpTimer {
        // SAFETY: reads and sets a number of this thread.
        unsafe {
            let before = libc::prctl(libc::PR_GET_TIMERSLACK);
            libc::prctl(libc::PR_SET_TIMERSLACK, 1u64);
            SharpTimer { before }
        }
    }
}

#[cfg(target_os = "linux")]
impl Drop for SharpTimer {
    fn drop(&mut self) {
        if let Ok(before @ 1..) = u64::try_from(self.before) {
            // SAFETY: sets a number of this thread.
            unsafe { libc::prctl(libc::PR_SET_TIMERSLACK, before) };
        }
    }
}

#[cfg(not(target_os = "linux"))]
impl SharpTimer {
    fn new() -> SharpTimer {
        SharpTimer {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn us(n: u64) -> Duration {
        Duration::from_micros(n)
    }

    #[test]
    fn most_of_the_expected_time_is_slept_then_napped_then_watched_then_looked_at_less_and_less() {
        let step = |elapsed| next_step(Some(us(1000)), us(elapsed));
        assert_eq!(step(0), Step::Sleep(us(700)));
        assert_eq!(step(300), Step::Sleep(us(400)));
        assert_eq!(step(690), Step::Sleep(NAP));
        assert_eq!(step(840), Step::Sleep(NAP));
        assert_eq!(step(860), Step::Spin);
        assert_eq!(step(1090), Step::Spin);
        assert_eq!(step(1500), Step::Sleep(NAP));
        assert_eq!(step(3200), Step::Sleep(us(100)));
        assert_eq!(step(1_000_000), Step::Sleep(LONGEST_NAP));
    }

    #[test]
    fn short_work_is_watched_from_the_end_of_the_sleep_on() {
        let step = |elapsed| next_step(Some(us(140)), us(elapsed));
        assert_eq!(step(10), Step::Sleep(us(88)));
        assert_eq!(step(98), Step::Spin);
        assert_eq!(step(190), Step::Spin);
        assert_eq!(step(191), Step::Sleep(NAP));
    }

    #[test]
    fn work_of_unknown_length_is_not_watched_for_long() {
        assert_eq!(next_step(None, us(0)), Step::Sleep(NAP));
        assert_eq!(next_step(None, us(3200)), Step::Sleep(us(100)));
    }

    #[test]
    fn the_first_frames_set_no_pace() {
        let pace = Pace::default();
        for time in [us(90_000), us(120), us(100)] {
            assert_eq!(pace.expected(), None);
            pace.record(time);
        }
        assert_eq!(pace.expected(), Some(us(120)));
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn a_threads_timer_slack_is_given_back() {
        // SAFETY: reads a number of this thread.
        let slack = || unsafe { libc::prctl(libc::PR_GET_TIMERSLACK) };
        let before = slack();
        {
            let _sharp = SharpTimer::new();
            assert_eq!(slack(), 1);
        }
        assert_eq!(slack(), before);
    }
}
