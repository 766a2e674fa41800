//! An episode between two pads: full control of upstream, everything at random moments.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, Instant};

use gst::prelude::*;

use super::Totals;
use super::checker::Checker;
use super::weather::Weather;
use crate::common::frames::{DURATION, level, numbered_as, pts, raw};
use crate::common::pads::{number_event, texts, time_segment};
use crate::common::{Random, backend, stats, watchdog};

/// Frames in work are done within milliseconds.
const RETURN_LIMIT: Duration = Duration::from_secs(60);

/// Where upstream takes its buffers.
#[derive(Debug, Clone, Copy)]
enum Source {
    Heap,
    /// A pool of this many buffers.
    Few(u32),
    /// The pool that the element offers.
    Offered,
}

/// What the streaming thread owns, locked while it pushes; as the stream lock of a source is.
struct Loop {
    number: u64,
    caps: gst::Caps,
    pool: Option<gst::BufferPool>,
    fresh_caps: bool,
}

struct Stream {
    element: gst::Element,
    src: gst::Pad,
    sink: gst::Pad,
    bus: gst::Bus,
    errors: Mutex<Vec<String>>,
    checker: Arc<Checker>,
    source: Source,
    looping: Mutex<Loop>,
    /// A flush or a stop waits for the loop.
    interrupting: AtomicBool,
    /// One flush, stop or pause at a time.
    control: Mutex<()>,
    flushes: AtomicU64,
    starts: AtomicU64,
    pauses: AtomicU64,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(|p| p.into_inner())
}

fn some_caps(random: &mut Random) -> gst::Caps {
    let all = [
        ("GRAY8", 32, 24),
        ("GRAY8", 61, 13),
        ("RGB", 33, 17),
        ("BGR", 48, 8),
        ("RGBP", 31, 9),
        ("GBR", 40, 30),
        ("GRAY8", 1, 1),
        ("GRAY8", 160, 120),
    ];
    let (format, width, height) = all[random.below(all.len() as u64) as usize];
    raw(format, width, height)
}

impl Stream {
    fn new(random: &mut Random, lossy: bool) -> Arc<Self> {
        crate::common::init();
        let element = gst::ElementFactory::make("cudaconv")
            .property_from_str("backend", backend())
            .property("bias", 1f64)
            .property("depth", 1 + random.below(4) as u32)
            .build()
            .expect("the factory makes an element");
        if lossy {
            let policy = ["drop", "bypass"][random.below(2) as usize];
            element.set_property_from_str("over-budget", policy);
            element.set_property("budget", 20_000 + random.below(3_000_000));
        } else {
            element.set_property("qos", false);
        }
        let checker = Checker::new(random.next(), lossy);
        let live = random.below(2) == 0;
        let src = gst::Pad::builder(gst::PadDirection::Src)
            .name("upstream")
            .event_function(|_, _, _| true)
            .query_function(move |pad, parent, query| match query.view_mut() {
                gst::QueryViewMut::Latency(query) => {
                    query.set(live, gst::ClockTime::ZERO, None);
                    true
                }
                _ => gst::Pad::query_default(pad, parent, query),
            })
            .build();
        let sink = checker.pad();
        src.link(&element.static_pad("sink").expect("a sink pad"))
            .expect("upstream links");
        element
            .static_pad("src")
            .expect("a src pad")
            .link(&sink)
            .expect("downstream links");
        let bus = gst::Bus::new();
        element.set_bus(Some(&bus));
        let source = match random.below(5) {
            0 => Source::Heap,
            1 => Source::Few(1),
            2 => Source::Few(2),
            3 => Source::Few(3),
            _ => Source::Offered,
        };
        Arc::new(Stream {
            element,
            src,
            sink,
            bus,
            errors: Mutex::new(Vec::new()),
            checker,
            source,
            looping: Mutex::new(Loop {
                number: 0,
                caps: some_caps(random),
                pool: None,
                fresh_caps: true,
            }),
            interrupting: AtomicBool::new(false),
            control: Mutex::new(()),
            flushes: AtomicU64::new(0),
            starts: AtomicU64::new(0),
            pauses: AtomicU64::new(0),
        })
    }

    /// Sends `event`, behind which the frames of the loop begin.
    fn push_barrier(&self, event: gst::Event, looping: &Loop) {
        self.checker.plan_barrier(&event, looping.number);
        assert!(self.src.push_event(event), "the element takes the event");
    }

    fn start(&self, looping: &mut Loop) {
        self.checker.start();
        self.sink.set_active(true).expect("the sink pad starts");
        self.element.set_state(gst::State::Playing).expect("plays");
        self.src.set_active(true).expect("the src pad starts");
        self.push_barrier(gst::event::StreamStart::new("storm"), looping);
        looping.fresh_caps = true;
        self.starts.fetch_add(1, Ordering::Relaxed);
    }

    /// Holds the loop while `action` runs, which must make a push that is under way return.
    fn interrupted<R>(&self, release: impl FnOnce(), action: impl FnOnce(&mut Loop) -> R) -> R {
        self.interrupting.store(true, Ordering::SeqCst);
        release();
        let mut looping = lock(&self.looping);
        let result = action(&mut looping);
        self.interrupting.store(false, Ordering::SeqCst);
        result
    }

    /// A flushing seek, as a source does one.
    fn flush(&self) {
        let _control = lock(&self.control);
        let release = || {
            assert!(self.src.push_event(gst::event::FlushStart::new()));
        };
        self.interrupted(release, |looping| {
            self.push_barrier(gst::event::FlushStop::new(true), looping);
            // Before caps it would be out of order.
            if !looping.fresh_caps {
                assert!(self.src.push_event(time_segment()));
            }
        });
        self.flushes.fetch_add(1, Ordering::Relaxed);
    }

    /// Down to `state` and up again, as an application that stops does it.
    fn restart(&self, state: gst::State) {
        let _control = lock(&self.control);
        let release = || self.go_down(state);
        self.interrupted(release, |looping| {
            self.src.set_active(false).expect("the src pad stops");
            self.start(looping);
        });
    }

    fn go_down(&self, state: gst::State) {
        self.checker.stop();
        self.sink.set_active(false).expect("the sink pad stops");
        self.element.set_state(state).expect("the element stops");
    }

    fn pause(&self) {
        let _control = lock(&self.control);
        for state in [gst::State::Paused, gst::State::Playing] {
            self.element.set_state(state).expect("the state changes");
        }
        self.pauses.fetch_add(1, Ordering::Relaxed);
    }

    /// New caps, and the pool for them.
    fn announce_caps(&self, looping: &mut Loop) {
        looping.fresh_caps = false;
        self.checker.plan_caps(looping.number, &looping.caps);
        self.src.push_event(gst::event::Caps::new(&looping.caps));
        self.src.push_event(time_segment());
        if let Some(old) = looping.pool.take() {
            old.set_active(false).expect("a pool stops");
        }
        looping.pool = match self.source {
            Source::Heap => None,
            Source::Few(max) => {
                let info = gst_video::VideoInfo::from_caps(&looping.caps).expect("video");
                let pool: gst::BufferPool = gst_video::VideoBufferPool::new().upcast();
                let mut config = pool.config();
                config.set_params(Some(&looping.caps), info.size() as u32, 0, max);
                pool.set_config(config).expect("a pool takes its caps");
                Some(pool)
            }
            Source::Offered => self.offered_pool(&looping.caps),
        };
        if let Some(pool) = &looping.pool {
            pool.set_active(true).expect("a pool starts");
        }
    }

    fn offered_pool(&self, caps: &gst::Caps) -> Option<gst::BufferPool> {
        let mut query = gst::query::Allocation::new(Some(caps), true);
        if !self.src.peer_query(&mut query) {
            return None;
        }
        query
            .allocation_pools()
            .into_iter()
            .find_map(|(pool, ..)| pool)
    }

    fn frame(&self, looping: &Loop) -> Option<gst::Buffer> {
        let Some(pool) = &looping.pool else {
            return Some(numbered_as(&looping.caps, looping.number));
        };
        // A source would sleep in the pool; this one must see that it is to stop.
        let params =
            gst::BufferPoolAcquireParams::with_flags(gst::BufferPoolAcquireFlags::DONTWAIT);
        let mut buffer = pool.acquire_buffer(Some(&params)).ok()?;
        let frame = buffer.make_mut();
        frame
            .map_writable()
            .expect("it maps")
            .fill(level(looping.number));
        frame.set_pts(pts(looping.number));
        frame.set_duration(DURATION);
        frame.set_offset(looping.number);
        Some(buffer)
    }

    /// One turn of the streaming thread.
    fn turn(&self, random: &mut Random, counts: &mut Totals) -> Result<(), gst::FlowError> {
        while self.interrupting.load(Ordering::SeqCst) {
            std::thread::yield_now();
        }
        let mut looping = lock(&self.looping);
        let looping = &mut *looping;
        match random.below(60) {
            0 => {
                looping.caps = some_caps(random);
                looping.fresh_caps = true;
                counts.caps += 1;
            }
            1 => {
                let _ = self.src.peer_query(&mut gst::query::Drain::new());
            }
            2..=4 => {
                let _ = self.src.push_event(number_event(looping.number));
            }
            5 if !looping.fresh_caps => {
                let _ = self.src.push_event(time_segment());
            }
            _ => {}
        }
        if looping.fresh_caps {
            self.announce_caps(looping);
        }
        let Some(frame) = self.frame(looping) else {
            // All buffers of the pool are on their way.
            std::thread::yield_now();
            return Ok(());
        };
        counts.frames_in += 1;
        looping.number += 1;
        self.src.push(frame).map(drop)
    }

    /// Ends the stream; everything that was pushed has come then. False if something interrupted.
    fn end(&self) -> bool {
        let (ends, number, interruptions) = {
            let looping = lock(&self.looping);
            let ends = self.checker.lock().ends;
            let interruptions = self.interruptions();
            // An element that is flushing or stopped refuses it.
            if !self.src.push_event(gst::event::Eos::new()) {
                return false;
            }
            (ends, looping.number, interruptions)
        };
        let came = self
            .checker
            .wait(|checks| checks.ends > ends || self.interrupted_since(interruptions));
        if self.interrupted_since(interruptions) {
            return false;
        }
        assert!(
            came,
            "EOS does not arrive; threads:\n{}",
            watchdog::threads()
        );
        let mut checks = self.checker.lock();
        if !checks.is_complete(number) {
            let text = format!("EOS comes where {:?} is next, not {number}", checks.next());
            checks.faults.push(text);
        }
        true
    }

    /// Empties the bus, and keeps its last errors.
    fn read_bus(&self) {
        let messages: Vec<_> = std::iter::from_fn(|| self.bus.pop()).collect();
        let mut errors = lock(&self.errors);
        errors.extend(texts(&messages, gst::MessageType::Error));
        let surplus = errors.len().saturating_sub(3);
        errors.drain(..surplus);
    }

    /// The last errors on the bus.
    fn errors(&self) -> Vec<String> {
        self.read_bus();
        lock(&self.errors).clone()
    }

    fn interruptions(&self) -> u64 {
        self.flushes.load(Ordering::SeqCst) + self.starts.load(Ordering::SeqCst)
    }

    fn interrupted_since(&self, interruptions: u64) -> bool {
        self.interrupting.load(Ordering::SeqCst) || self.interruptions() != interruptions
    }
}

/// Flushes, stops and pauses, what downstream sends up, and refusals.
fn disturb(stream: &Arc<Stream>, random: &mut Random, changes: &Arc<AtomicU64>) -> Weather {
    let mut weather = Weather::new();
    weather.change_properties(&stream.element, random.next(), changes);
    let control = stream.clone();
    weather.every(
        Duration::from_millis(12),
        random.next(),
        move |random| match random.below(24) {
            0 => control.restart(gst::State::Null),
            1 => control.restart(gst::State::Ready),
            2..=4 => control.pause(),
            5..=12 => control.flush(),
            _ => {}
        },
    );
    let upstream = stream.clone();
    weather.every(Duration::from_millis(2), random.next(), move |random| {
        match random.below(12) {
            0 => {
                let _ = upstream.sink.push_event(gst::event::Reconfigure::new());
            }
            1 => {
                let time = pts(random.below(1000));
                let event =
                    gst::event::Qos::builder(gst::QOSType::Underflow, 1.1, 7).timestamp(time);
                let _ = upstream.sink.push_event(event.build());
            }
            2..=5 => {
                let _ = upstream.sink.peer_query(&mut gst::query::Latency::new());
            }
            _ => {}
        }
        upstream.read_bus();
    });
    let refusing = stream.clone();
    weather.every(Duration::from_millis(40), random.next(), move |random| {
        let flows = [
            gst::FlowError::Error,
            gst::FlowError::Eos,
            gst::FlowError::NotLinked,
        ];
        if random.below(6) == 0 {
            refusing.checker.refuse(flows[random.below(3) as usize]);
        }
    });
    weather
}

/// Counts of `stats` that must add up once nothing is on its way.
fn assert_counts(stream: &Stream) {
    let stats = stats(&stream.element);
    let count = |field| stats.get::<u64>(field).expect("a count");
    let (arrived, left, dropped) = (count("frames-in"), count("frames-out"), count("dropped"));
    assert_eq!(
        arrived,
        left + dropped,
        "frames in are those out and dropped"
    );
}

/// Every buffer of upstream's pool comes back; those that a flush found in work when that is done.
fn assert_pool_is_whole(stream: &Stream) {
    stream.checker.let_go();
    let (Some(pool), Source::Few(max)) = (lock(&stream.looping).pool.clone(), stream.source) else {
        return;
    };
    let what = "the return of upstream's buffers";
    watchdog::within(RETURN_LIMIT, what, move || {
        let buffers: Result<Vec<_>, _> = (0..max).map(|_| pool.acquire_buffer(None)).collect();
        buffers.expect("the pool gives what it has");
    });
}

pub fn episode(random: &mut Random) -> Totals {
    let lossy = random.below(4) == 0;
    let stream = Stream::new(random, lossy);
    let changes = Arc::new(AtomicU64::new(0));
    let mut counts = Totals::default();
    stream.start(&mut lock(&stream.looping));
    let weather = disturb(&stream, random, &changes);
    let until = Instant::now() + Duration::from_millis(200 + random.below(900));
    while Instant::now() < until {
        match stream.turn(random, &mut counts) {
            Err(gst::FlowError::Flushing) | Ok(()) => {}
            Err(_) => match random.below(4) {
                0 => stream.restart(gst::State::Ready),
                _ => stream.flush(),
            },
        }
        if random.below(300) == 0 && stream.end() {
            // The next stream in the same element.
            let mut looping = lock(&stream.looping);
            if random.below(2) == 0 && !stream.interrupting.load(Ordering::SeqCst) {
                let event = gst::event::StreamStart::new("storm");
                stream.checker.plan_barrier(&event, looping.number);
                stream.src.push_event(event);
                looping.fresh_caps = true;
            } else {
                drop(looping);
                stream.flush();
            }
        }
    }
    weather.end();
    stream.flush();
    for _ in 0..5 {
        // The last frames meet no disturbance.
        if let Err(flow) = stream.turn(random, &mut counts) {
            panic!("{flow:?} after a flush; {:?}", stream.errors());
        }
    }
    assert!(stream.end(), "nothing interrupts the end");
    assert_pool_is_whole(&stream);
    assert_counts(&stream);
    finish(&stream, counts, &changes)
}

fn finish(stream: &Stream, mut counts: Totals, changes: &AtomicU64) -> Totals {
    stream.go_down(gst::State::Null);
    stream.src.set_active(false).expect("the src pad stops");
    let errors = stream.errors();
    stream.element.set_bus(None);
    let checks = stream.checker.lock();
    assert!(
        checks.faults.is_empty(),
        "{:#?}; upstream {:?}; errors {errors:?}",
        checks.faults,
        stream.source,
    );
    if let Some(pool) = lock(&stream.looping).pool.take() {
        pool.set_active(false).expect("a pool stops");
    }
    counts.frames_out = checks.taken;
    counts.refusals = checks.refusals;
    counts.ends = checks.ends;
    counts.flushes = stream.flushes.load(Ordering::Relaxed);
    counts.starts = stream.starts.load(Ordering::Relaxed);
    counts.pauses = stream.pauses.load(Ordering::Relaxed);
    counts.changes = changes.load(Ordering::Relaxed);
    counts
}
