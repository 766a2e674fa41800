//! Many of them in one process: what they share, and what they cost together.

use std::time::{Duration, Instant};

use gst::prelude::*;

use crate::common::frames::{DURATION, filled, planes, raw};
use crate::common::pads::Pads;
use crate::common::watchdog::{measured, thread_names, watched_for};
use crate::common::{heap, isolated, raising};

/// Hundreds of large frames take their time on a slow, busy machine.
const LIMIT: Duration = Duration::from_secs(300);

/// Reported: many filters of large frames in one process take memory without bound, or the last
/// ones take the process down with them.
#[test]
fn sixty_four_4k_streams_take_a_few_frames_each_and_give_them_back() {
    watched_for(2 * LIMIT, || {
        isolated::passes("crowd::alone_sixty_four", &heap::COUNTED);
    });
}

const CROWD: usize = 64;
/// In flight in each of them, unless told otherwise.
const DEPTH: usize = 2;

#[test]
#[ignore = "sixty_four_4k_streams_take_a_few_frames_each_and_give_them_back runs it"]
fn alone_sixty_four() {
    if !isolated::is_alone() {
        return;
    }
    watched_for(LIMIT, || {
        let caps = raw("I420", 3840, 2160);
        let frame = filled(&caps, 0, 20);
        let one = |caps: &gst::Caps, frame: &gst::Buffer| {
            let pads = Pads::around(raising());
            pads.begin(caps);
            assert_eq!(pads.src.push(frame.clone()), Ok(gst::FlowSuccess::Ok));
            pads.wait_buffers(1);
            pads
        };
        // What is made once for all of them.
        drop(one(&caps, &frame));
        let (before, threads) = (heap::bytes_in_use(), thread_names().len());
        let crowd: Vec<_> = (0..CROWD).map(|_| one(&caps, &frame)).collect();
        let each = (heap::bytes_in_use() - before) / CROWD;
        let frames = each as f64 / frame.size() as f64;
        // The output pool's, as many as are in flight and one that downstream has, and one more.
        assert!(
            frames <= (DEPTH + 2) as f64,
            "{frames:.1} frames of memory each"
        );
        // One thread that pushes and one that takes the frames in turn; those that help it filter
        // are shared.
        let more = thread_names().len().saturating_sub(threads);
        assert!(
            more <= 2 * CROWD + 2,
            "{more} more threads for {CROWD} streams"
        );
        for pads in &crowd {
            let luma = &planes(&caps, &pads.buffers()[0])[0];
            assert!(luma.iter().all(|value| *value == 21));
        }
        drop(crowd);
        let left = heap::bytes_in_use().saturating_sub(before);
        assert!(left < frame.size() / 16, "{left} bytes are not given back");
    });
}

/// Reported: with several filters in a process each takes a core for itself while it waits.
#[test]
fn eight_streams_at_their_pace_cost_no_more_than_their_frames() {
    watched_for(2 * LIMIT, || {
        isolated::passes("crowd::alone_eight", &[]);
    });
}

const STREAMS: usize = 8;
/// Of each stream.
const FRAMES: u64 = 40;

/// What the clock `id` of this process or thread counted so far.
fn cpu_time(id: libc::clockid_t) -> Duration {
    let mut time = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: `time` outlives the call.
    let answer = unsafe { libc::clock_gettime(id, &mut time) };
    assert_eq!(answer, 0, "the clock tells");
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

/// CPU time of the process for `round` after `round`, each begun `pace` after the one before it.
fn cost(pace: Duration, rounds: u64, mut round: impl FnMut(u64)) -> (Duration, Duration) {
    let (begun, before) = (Instant::now(), cpu_time(libc::CLOCK_PROCESS_CPUTIME_ID));
    for number in 0..rounds {
        // Pace alone: nothing waits for anything to have happened by then.
        let due = begun + pace * number as u32;
        std::thread::sleep(due.saturating_duration_since(Instant::now()));
        round(number);
    }
    let cost = cpu_time(libc::CLOCK_PROCESS_CPUTIME_ID) - before;
    (cost, begun.elapsed())
}

fn check_cost() -> Result<(), String> {
    let caps = raw("I420", 1920, 1080);
    let frame = filled(&caps, 0, 20);
    let make = || {
        let pads = Pads::around(raising());
        pads.begin(&caps);
        pads
    };
    let push = |pads: &Pads, number: u64| {
        assert_eq!(pads.src.push(frame.clone()), Ok(gst::FlowSuccess::Ok));
        if number % 8 == 7 {
            pads.wait_buffers(8);
            pads.forget();
        }
    };
    let alone = make();
    let frames = FRAMES * STREAMS as u64;
    let (busy, _) = cost(Duration::ZERO, frames, |number| push(&alone, number));
    drop(alone);
    let crowd: Vec<_> = (0..STREAMS).map(|_| make()).collect();
    let pace = DURATION.into();
    let (paced, wall) = cost(pace, FRAMES, |number| {
        crowd.iter().for_each(|pads| push(pads, number));
    });
    if paced > busy * 3 {
        return Err(format!(
            "{frames} frames cost {busy:?} in a row, {paced:?} over {wall:?} in {STREAMS} streams"
        ));
    }
    Ok(())
}

#[test]
#[ignore = "eight_streams_at_their_pace_cost_no_more_than_their_frames runs it"]
fn alone_eight() {
    if !isolated::is_alone() {
        return;
    }
    watched_for(LIMIT, || measured(check_cost));
}
