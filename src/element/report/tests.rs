use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::hint::black_box;

use super::*;
use crate::latency::ServiceForecast;

thread_local! {
    static ALLOCATIONS: Cell<u64> = const { Cell::new(0) };
}

/// Counts what each thread allocates.
struct Counting;

// SAFETY: everything is passed on to the system's allocator; counting allocates nothing.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // Fails only in a thread that is about to end.
        let _ = ALLOCATIONS.try_with(|count| count.set(count.get() + 1));
        // SAFETY: as promised by the caller.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        // SAFETY: as promised by the caller.
        unsafe { System.dealloc(pointer, layout) }
    }

    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        let _ = ALLOCATIONS.try_with(|count| count.set(count.get() + 1));
        // SAFETY: as promised by the caller.
        unsafe { System.realloc(pointer, layout, size) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

fn allocations(work: impl FnOnce()) -> u64 {
    let before = ALLOCATIONS.get();
    work();
    ALLOCATIONS.get() - before
}

fn done(number: u64) -> Done {
    // All sizes from microseconds to hours occur.
    let latency = Duration::from_nanos(1_000 << (number % 32));
    Done {
        number,
        pts: None,
        timing: FrameTiming::new(latency).with(Stage::Kernel, latency),
        bypassed: false,
    }
}

/// A live stream that tells nothing of single frames, and no frame over its budget.
fn live() -> (Reporter, Settings) {
    let reporter = Reporter::default();
    reporter.set_live(true);
    let settings = Settings {
        budget: u64::MAX,
        ..Settings::default()
    };
    (reporter, settings)
}

/// All that measuring one frame takes of the host, with the readings of the clock: at its arrival,
/// submission, start, end, and on both sides of the wait for it.
fn measure(reporter: &Reporter, settings: &Settings, service: &Mutex<ServiceForecast>) {
    let times: [Instant; 6] = std::array::from_fn(|_| Instant::now());
    let number = reporter.arrived();
    let service = service.lock();
    let mut service = service.unwrap();
    service.submitted(times[0]);
    service.record(times[0], times[5]);
    drop(service);
    reporter.count(|counts| counts.pinned_in += 1);
    black_box(reporter.finished(&done(number), settings));
}

#[test]
fn measuring_a_frame_allocates_nothing() {
    let (reporter, settings) = live();
    let service = Mutex::new(ServiceForecast::from_trial(Duration::ZERO));
    let frames = |count| (0..count).for_each(|_| measure(&reporter, &settings, &service));
    frames(100);
    // Counting works at all.
    assert_eq!(allocations(|| drop(black_box(Box::new(1)))), 1);
    assert_eq!(allocations(|| frames(100_000)), 0);
}

#[test]
fn reading_stats_never_holds_a_frame_up() {
    let (reporter, settings) = live();
    {
        let _reads = reporter.lock_distribution();
        for number in 0..1_000 {
            reporter.arrived();
            reporter.finished(&done(number), &settings);
        }
        assert_eq!(reporter.counts().frames_out, 1_000);
    }
    // Nothing of it is lost.
    gst::init().unwrap();
    let stats = reporter.stats("stats", settings.budget);
    assert_eq!(stats.get::<u64>("frames-out"), Ok(1_000));
    assert_eq!(stats.get::<u64>("latency-min-ns"), Ok(1_000));
    assert_eq!(stats.get::<u64>("latency-max-ns"), Ok(1_000 << 31));
    let median = stats.get::<u64>("latency-p50-ns").unwrap() as f64;
    assert!((median / f64::from(1_000 << 15) - 1.0).abs() < 0.001);
}

/// `scripts/bench.sh measuring` runs this.
#[test]
#[ignore = "a measurement, which other work on the machine spoils"]
fn what_measuring_a_frame_costs() {
    const FRAMES: u32 = 200_000;
    const MOST: Duration = Duration::from_micros(2);
    let (reporter, settings) = live();
    let service = Mutex::new(ServiceForecast::from_trial(Duration::ZERO));
    let rounds = (0..7).map(|_| {
        let started = Instant::now();
        (0..FRAMES).for_each(|_| measure(&reporter, &settings, &service));
        started.elapsed() / FRAMES
    });
    let mut rounds: Vec<Duration> = rounds.collect();
    rounds.sort_unstable();
    let median = rounds[rounds.len() / 2];
    println!("measuring a frame: {median:?} (limit {MOST:?})");
    assert!(median < MOST);
}
