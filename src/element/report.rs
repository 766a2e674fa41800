//! What the element tells: `stats`, `last-message`, element messages, and the numbers behind the
//! LATENCY query.

use std::borrow::Cow;
use std::sync::{Mutex, MutexGuard, PoisonError, TryLockError};
use std::time::{Duration, Instant};

use super::settings::Settings;
use crate::latency::{Counts, FrameTiming, LatencyAnswer, Stage, Statistics, nanoseconds};

const NOTICE_PERIOD: Duration = Duration::from_secs(1);

/// Who filters, for people.
#[derive(Debug, Clone, Default)]
pub struct Identity {
    pub backend: &'static str,
    pub device: String,
    pub method: Cow<'static, str>,
}

/// One finished frame.
#[derive(Debug, Clone, Copy)]
pub struct Done {
    /// Frames that arrived before this one.
    pub number: u64,
    pub pts: Option<gst::ClockTime>,
    pub timing: FrameTiming,
    pub bypassed: bool,
}

/// Something that happens at most once a period, with what was held back in between.
#[derive(Default)]
struct Notice {
    last: Option<Instant>,
    count: u64,
    worst: Duration,
    stage: Option<Stage>,
}

impl Notice {
    fn add(&mut self, latency: Duration, stage: Option<Stage>) {
        self.count += 1;
        if latency >= self.worst {
            self.worst = latency;
            self.stage = stage;
        }
    }

    /// What there is to tell, if it is time to.
    fn take(&mut self, now: Instant) -> Option<Notice> {
        let due = self
            .last
            .is_none_or(|last| now.duration_since(last) >= NOTICE_PERIOD);
        (due && self.count > 0).then(|| {
            std::mem::replace(
                self,
                Notice {
                    last: Some(now),
                    ..Notice::default()
                },
            )
        })
    }
}

#[derive(Default)]
struct Inner {
    identity: Identity,
    counts: Counts,
    warm_up: Duration,
    /// Frames that [`Distribution`] does not have yet: those that got done while somebody read it.
    pending: Vec<FrameTiming>,
    answer: LatencyAnswer,
    /// The minimum that upstream's answer was raised by when a pipeline last asked.
    answered: Option<Duration>,
    frame_duration: Option<Duration>,
    live: bool,
    over_budget: Notice,
    bad_buffers: Notice,
    last_message: String,
}

/// What frames took, for quantiles, which take some hundred microseconds to read.
#[derive(Default)]
struct Distribution {
    statistics: Statistics,
    /// Exchanged with [`Inner::pending`], so that neither is ever allocated anew.
    spare: Vec<FrameTiming>,
}

impl Distribution {
    fn take_pending(&mut self, inner: &mut Inner) {
        std::mem::swap(&mut self.spare, &mut inner.pending);
    }

    fn record_taken(&mut self) {
        for timing in self.spare.drain(..) {
            self.statistics.record(&timing);
        }
    }
}

/// The element's memory of what happened. No lock is held while calling out. The one that frames
/// need is held for some instructions only; whoever reads quantiles holds the other, which frames
/// take if it is free and never wait for. Both at once are taken in the order of the fields.
#[derive(Default)]
pub struct Reporter {
    distribution: Mutex<Distribution>,
    inner: Mutex<Inner>,
}

impl Reporter {
    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn lock_distribution(&self) -> MutexGuard<'_, Distribution> {
        let distribution = self.distribution.lock();
        distribution.unwrap_or_else(PoisonError::into_inner)
    }

    /// A new stream: all counts start at 0.
    pub fn reset(&self) {
        let mut distribution = self.lock_distribution();
        let mut inner = self.lock();
        let identity = std::mem::take(&mut inner.identity);
        *inner = Inner {
            identity,
            ..Inner::default()
        };
        *distribution = Distribution::default();
    }

    pub fn set_engine(&self, backend: &'static str, device: &str) {
        let mut inner = self.lock();
        inner.identity.backend = backend;
        inner.identity.device = device.to_owned();
    }

    pub fn set_method(&self, method: Cow<'static, str>) {
        self.lock().identity.method = method;
    }

    pub fn set_live(&self, live: bool) {
        self.lock().live = live;
    }

    pub fn is_live(&self) -> bool {
        self.lock().live
    }

    /// New caps: the trial frame took `trial`, all preparations `warm_up`. Returns true when the
    /// pipeline was told another latency before.
    pub fn start_format(
        &self,
        trial: Duration,
        warm_up: Duration,
        frame_duration: Option<Duration>,
    ) -> bool {
        let mut inner = self.lock();
        inner.frame_duration = frame_duration;
        inner.answer = LatencyAnswer::from_trial(trial);
        inner.warm_up += warm_up;
        inner
            .answered
            .is_some_and(|answered| answered != inner.answer.minimum())
    }

    /// What a live pipeline that asks is told: the minimum, and what may be held at most, which
    /// is the larger of that and `depth` frame durations.
    pub fn answer_latency(&self, depth: u32) -> (Duration, Duration) {
        let mut inner = self.lock();
        let minimum = inner.answer.minimum();
        inner.answered = Some(minimum);
        let frames = inner.frame_duration.unwrap_or_default() * depth;
        (minimum, minimum.max(frames))
    }

    pub fn counts(&self) -> Counts {
        self.lock().counts
    }

    pub fn count(&self, change: impl FnOnce(&mut Counts)) {
        change(&mut self.lock().counts);
    }

    /// Counts an arrived frame and returns its number, from 0.
    pub fn arrived(&self) -> u64 {
        let mut inner = self.lock();
        let counts = &mut inner.counts;
        counts.frames_in += 1;
        counts.frames_in - 1
    }

    /// Counts a buffer that could not be filtered. Returns how many there were since the last
    /// time it was to be told, if it is again.
    pub fn bad_buffer(&self) -> Option<u64> {
        let mut inner = self.lock();
        inner.counts.dropped += 1;
        inner.bad_buffers.add(Duration::ZERO, None);
        inner
            .bad_buffers
            .take(Instant::now())
            .map(|notice| notice.count)
    }

    /// Counts a finished frame and returns what there is to tell of it.
    pub fn finished(&self, done: &Done, settings: &Settings) -> Telling {
        let latency = done.timing.latency;
        let over = nanoseconds(latency) > settings.budget;
        let now = Instant::now();
        let mut guard = self.lock();
        let inner = &mut *guard;
        inner.pending.push(done.timing);
        let counts = &mut inner.counts;
        counts.frames_out += 1;
        counts.bypassed += u64::from(done.bypassed);
        let mut telling = Telling::default();
        if over {
            counts.over_budget += 1;
            inner
                .over_budget
                .add(latency, Some(done.timing.costliest()));
        }
        telling
            .messages
            .extend(inner.over_budget.take(now).map(over_budget_structure));
        if settings.post_messages {
            telling.messages.push(latency_structure(done, over));
        }
        if !settings.silent {
            inner.last_message = last_message(done, over);
            telling.notify = true;
        }
        telling.latency_changed = inner.live
            && inner
                .answer
                .record(now, latency, Duration::from_nanos(settings.budget));
        drop(guard);
        self.distribute();
        telling
    }

    /// Puts what is pending into the distribution, unless somebody reads that now.
    fn distribute(&self) {
        let mut distribution = match self.distribution.try_lock() {
            Ok(distribution) => distribution,
            Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
            Err(TryLockError::WouldBlock) => return,
        };
        distribution.take_pending(&mut self.lock());
        distribution.record_taken();
    }

    pub fn last_message(&self) -> String {
        self.lock().last_message.clone()
    }

    /// `stats`, or with the name `cudaconv-summary` the message of that name.
    pub fn stats(&self, name: &str, budget: u64) -> gst::Structure {
        let mut distribution = self.lock_distribution();
        let (identity, counts, warm_up) = {
            let mut inner = self.lock();
            distribution.take_pending(&mut inner);
            (inner.identity.clone(), inner.counts, inner.warm_up)
        };
        distribution.record_taken();
        let statistics = &distribution.statistics;
        let latency = statistics.latency();
        let mut stats = gst::Structure::builder(name)
            .field("frames-in", counts.frames_in)
            .field("frames-out", counts.frames_out)
            .field("dropped", counts.dropped)
            .field("bypassed", counts.bypassed)
            .field("over-budget", counts.over_budget)
            .field("backend", identity.backend)
            .field("device", &identity.device)
            .field("method", &*identity.method)
            .field("budget-ns", budget)
            .field("latency-min-ns", latency.min)
            .field("latency-mean-ns", latency.mean)
            .field("latency-p50-ns", latency.p50)
            .field("latency-p95-ns", latency.p95)
            .field("latency-p99-ns", latency.p99)
            .field("latency-max-ns", latency.max)
            .field("pinned-in", counts.pinned_in)
            .field("pinned-out", counts.pinned_out)
            .field("warm-up-ns", nanoseconds(warm_up))
            .build();
        for stage in Stage::ALL {
            let field = format!("stage-{}-p50-ns", stage.name());
            stats.set(field, statistics.stage_median(stage));
        }
        stats
    }
}

/// What is to be posted once no lock is held.
#[derive(Default)]
pub struct Telling {
    /// Element messages, in order.
    pub messages: Vec<gst::Structure>,
    /// `last-message` changed and is to be notified.
    pub notify: bool,
    /// The answer to the LATENCY query was raised.
    pub latency_changed: bool,
}

fn over_budget_structure(notice: Notice) -> gst::Structure {
    gst::Structure::builder("cudaconv-over-budget")
        .field("count", notice.count)
        .field("worst-ns", nanoseconds(notice.worst))
        .field("stage", notice.stage.map_or("", Stage::name))
        .build()
}

fn latency_structure(done: &Done, over: bool) -> gst::Structure {
    let mut structure = gst::Structure::builder("cudaconv-latency")
        .field("frame", done.number)
        .field("pts", done.pts.map_or(u64::MAX, |pts| pts.nseconds()))
        .field("latency-ns", nanoseconds(done.timing.latency))
        .field("over-budget", over)
        .build();
    for stage in Stage::ALL {
        let field = format!("stage-{}-ns", stage.name());
        structure.set(field, nanoseconds(done.timing.stage(stage)));
    }
    structure
}

fn last_message(done: &Done, over: bool) -> String {
    let ms = |time: Duration| time.as_secs_f64() * 1e3;
    let mut text = format!("frame {} pts ", done.number);
    text += &done.pts.map_or("none".to_owned(), |pts| pts.to_string());
    text += &format!(" latency {:.3} ms", ms(done.timing.latency));
    for stage in Stage::ALL {
        text += &format!(" {} {:.3}", stage.name(), ms(done.timing.stage(stage)));
    }
    if over {
        text += " OVER";
    }
    text
}

#[cfg(test)]
mod tests;
