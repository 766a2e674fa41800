//! What shows only in a process of its own: its threads, memory, environment, locale and end.
//!
//! Each test here starts one of the ignored ones in a new process.

use std::time::Duration;

use gst::prelude::*;

use crate::common::frames::{gray, gray_of, numbered_as};
use crate::common::pads::{Pads, named, texts};
use crate::common::pipelines::{self, RAISING};
use crate::common::watchdog::{thread_names, threads, watched, watched_for};
use crate::common::{cudaconv, raising};
use crate::common::{heap, isolated};

/// Open files and resident memory in pages.
fn files_and_pages() -> (usize, usize) {
    let files = std::fs::read_dir("/proc/self/fd")
        .expect("proc is there")
        .count();
    let statm = std::fs::read_to_string("/proc/self/statm").expect("proc is there");
    let pages = statm.split(' ').nth(1).and_then(|word| word.parse().ok());
    (files, pages.expect("a number of pages"))
}

/// Threads that GLib's pools may keep idle for the next who needs one, and are no leak.
const IDLE_THREADS: usize = 2;

/// Bytes that caches and tables may have grown by, whatever the number of rounds. One closure left
/// behind in a round is more than this after 400.
const IN_USE_ALLOWANCE: usize = 20 * 1024;

/// Runs `round` ten times for everything to settle, then `rounds` times; threads, files and memory
/// may not have grown. On a GPU it takes as many rounds to settle: modules are loaded in the
/// background once there were some frames.
fn assert_levels_off(rounds: usize, mut round: impl FnMut()) {
    let settling = match std::env::var_os("CUDACONV_GPU") {
        Some(_) => rounds,
        None => 10,
    };
    let allowance = IN_USE_ALLOWANCE + heap::drivers_own();
    (0..settling).for_each(|_| round());
    let (names, (files, pages)) = (thread_names(), files_and_pages());
    let in_use = heap::bytes_in_use();
    (0..rounds).for_each(|_| round());
    // A thread that was joined may still be on its way out of the process's list.
    let settled = std::time::Instant::now();
    while thread_names().len() > names.len() + IDLE_THREADS && settled.elapsed().as_secs() < 10 {
        std::thread::yield_now();
    }
    let (files_now, pages_now) = files_and_pages();
    assert!(
        thread_names().len() <= names.len() + IDLE_THREADS,
        "before {names:?}, now:\n{}",
        threads()
    );
    assert!(files_now <= files, "{files} open files, now {files_now}");
    let left = heap::bytes_in_use().saturating_sub(in_use);
    assert!(
        left < allowance,
        "{left} bytes left in use after {rounds} rounds"
    );
    // Allocators keep some; a leak of one 640x480 frame a round would be 75 pages a round.
    let grown = pages_now.saturating_sub(pages);
    assert!(
        grown < 2000 + rounds,
        "{pages} pages, {grown} more after {rounds} rounds"
    );
}

/// Hundreds of starts take their time on a slow, busy machine.
const MANY_STARTS: Duration = Duration::from_secs(300);

/// Reported: every start leaves threads, files or memory behind.
#[test]
fn starts_and_stops_leave_nothing_behind() {
    watched_for(2 * MANY_STARTS, || {
        isolated::passes("processes::alone_starts_and_stops", &heap::COUNTED);
    });
}

#[test]
#[ignore = "starts_and_stops_leave_nothing_behind runs it in a process of its own"]
fn alone_starts_and_stops() {
    if !isolated::is_alone() {
        return;
    }
    watched_for(MANY_STARTS, || {
        let pipeline = pipelines::parse(&format!(
            "videotestsrc num-buffers=3 ! video/x-raw,format=I420,width=640,height=480 ! \
             {RAISING} ! fakesink name=out"
        ));
        assert_levels_off(400, || {
            pipelines::play(&pipeline).assert_frames(3);
        });
        assert_levels_off(400, || {
            let pads = Pads::raising();
            let _ = pads.push(0);
        });
    });
}

/// Reported: every change of caps leaves buffers or pools behind.
#[test]
fn changes_of_caps_leave_nothing_behind() {
    watched(|| {
        isolated::passes("processes::alone_changes_of_caps", &heap::COUNTED);
    });
}

#[test]
#[ignore = "changes_of_caps_leave_nothing_behind runs it in a process of its own"]
fn alone_changes_of_caps() {
    if !isolated::is_alone() {
        return;
    }
    watched(|| {
        let pads = Pads::raising();
        assert_levels_off(400, || {
            for caps in [gray_of(320, 240), gray_of(640, 480)] {
                assert!(pads.src.push_event(gst::event::Caps::new(&caps)));
                let pushed = pads.src.push(numbered_as(&caps, 1));
                assert_eq!(pushed, Ok(gst::FlowSuccess::Ok));
            }
            pads.wait_buffers(2);
            pads.forget();
            drop(pads.messages());
        });
    });
}

/// Reported: an application that seeks for hours grows, a little with every flush.
#[test]
fn flushes_leave_nothing_behind() {
    watched(|| {
        isolated::passes("processes::alone_flushes", &heap::COUNTED);
    });
}

#[test]
#[ignore = "flushes_leave_nothing_behind runs it in a process of its own"]
fn alone_flushes() {
    if !isolated::is_alone() {
        return;
    }
    watched(|| {
        let pads = Pads::raising();
        assert_levels_off(1000, || {
            pads.push_all(0..2);
            pads.wait_buffers(1);
            pads.push_all(2..4);
            pads.flush();
            pads.forget();
            drop(pads.messages());
        });
    });
}

/// Reported: every failure downstream leaves the frames in flight behind.
#[test]
fn errors_leave_nothing_behind() {
    watched(|| {
        isolated::passes("processes::alone_errors", &heap::COUNTED);
    });
}

#[test]
#[ignore = "errors_leave_nothing_behind runs it in a process of its own"]
fn alone_errors() {
    if !isolated::is_alone() {
        return;
    }
    watched(|| {
        let caps = gray_of(640, 480);
        assert_levels_off(400, || {
            let pads = Pads::around(raising());
            pads.begin(&caps);
            pads.answer_after(1, gst::FlowError::Error);
            let mut number = 0;
            while pads.src.push(numbered_as(&caps, number)).is_ok() {
                number += 1;
            }
        });
    });
}

/// Reported: GStreamer's own leak tracer lists the element, its pads or buffers.
#[test]
fn the_leaks_tracer_lists_nothing() {
    watched(|| {
        let environment = [
            ("GST_TRACERS", "leaks"),
            ("GST_DEBUG", "GST_TRACER:7"),
            ("GST_DEBUG_NO_COLOR", "1"),
        ];
        let text = isolated::passes("processes::alone_until_deinit", &environment);
        let leaks: Vec<_> = text
            .lines()
            .filter(|l| l.contains("object-alive, type-name=(string)") && !l.contains("%s"))
            .collect();
        assert!(leaks.is_empty(), "{leaks:#?}");
    });
}

#[test]
#[ignore = "the_leaks_tracer_lists_nothing runs it in a process of its own"]
fn alone_until_deinit() {
    if !isolated::is_alone() {
        return;
    }
    crate::common::init();
    let outcome = pipelines::run(&format!(
        "videotestsrc num-buffers=5 ! video/x-raw,format=I420,width=64,height=48 ! \
         {RAISING} post-messages=true ! fakesink name=out"
    ));
    outcome.assert_frames(5);
    drop(outcome);
    let pads = Pads::raising();
    pads.close_gate();
    pads.push_all(0..2);
    drop(pads);
    // SAFETY: everything of GStreamer in this process was dropped above, and nothing follows.
    unsafe { gst::deinit() };
}

/// Reported: measuring with GStreamer's latency tracer, which sends an event with every frame,
/// stalls the element or changes what it does.
#[test]
fn the_latency_tracer_changes_nothing() {
    watched(|| {
        let environment = [
            ("GST_TRACERS", "latency(flags=pipeline+element+reported)"),
            ("GST_DEBUG", "GST_TRACER:7"),
            ("GST_DEBUG_NO_COLOR", "1"),
        ];
        let output = isolated::run("processes::alone_traced", &environment);
        let text = isolated::text(&output);
        if text.contains(TRACER_STALLS) {
            eprintln!("skipped: {TRACER_STALLS}");
            return;
        }
        assert!(text.contains("1 passed"), "{}\n{text}", output.status);
        let traced = text.lines().filter(|line| {
            line.contains("element-latency, ") && line.contains("element=(string)filter")
        });
        assert!(
            traced.count() >= 100,
            "the tracer sees each frame pass the element"
        );
    });
}

/// Seen with 1.26.2.
const TRACER_STALLS: &str = "this GStreamer's latency tracer stalls its own elements";

#[test]
#[ignore = "the_latency_tracer_changes_nothing runs it in a process of its own"]
fn alone_traced() {
    if !isolated::is_alone() {
        return;
    }
    watched(|| {
        let stock = pipelines::parse("videotestsrc num-buffers=3 ! fakesink");
        stock.set_state(gst::State::Playing).expect("plays");
        let bus = stock.bus().expect("a pipeline has a bus");
        let end = bus.timed_pop_filtered(
            gst::ClockTime::from_seconds(20),
            &[gst::MessageType::Eos, gst::MessageType::Error],
        );
        if end.is_none() {
            eprintln!("{TRACER_STALLS}");
            // It would not stop either.
            std::process::exit(0);
        }
        stock.set_state(gst::State::Null).expect("stops");
        let pipeline = pipelines::parse(&format!(
            "videotestsrc name=source num-buffers=100 ! \
             video/x-raw,format=GRAY8,width=32,height=24,framerate=1000/1 ! {RAISING} ! \
             fakesink name=out sync=true"
        ));
        pipelines::number_by_offset(&pipeline, "source");
        let outcome = pipelines::play(&pipeline);
        outcome.assert_frames(100);
        for (number, buffer) in (0u64..).zip(&outcome.passed.buffers) {
            assert_eq!(buffer.offset(), number);
        }
    });
}

/// Reported: a panic text, a core or a hang where the application ends while playing.
#[test]
fn a_process_that_exits_while_playing_ends_with_its_own_code() {
    watched(|| {
        let output = isolated::run("processes::alone_exit_while_playing", &[]);
        let text = isolated::text(&output);
        assert_eq!(output.status.code(), Some(7), "{text}");
        assert!(!text.contains("panicked"), "{text}");
    });
}

#[test]
#[ignore = "a_process_that_exits_while_playing_ends_with_its_own_code runs it"]
fn alone_exit_while_playing() {
    if !isolated::is_alone() {
        return;
    }
    let pipeline = pipelines::parse(&format!(
        "videotestsrc ! video/x-raw,format=GRAY8,width=32,height=24 ! {RAISING} ! \
         fakesink name=out sync=false"
    ));
    pipeline.set_state(gst::State::Playing).expect("plays");
    let (ready, _, _) = pipeline.state(gst::ClockTime::from_seconds(60));
    ready.expect("prerolls");
    std::mem::forget(pipeline);
    std::process::exit(7);
}

/// Reported: the same where the element is leaked and the main function just returns.
#[test]
fn a_process_that_leaks_a_playing_pipeline_ends_well() {
    watched(|| {
        let text = isolated::passes("processes::alone_leak", &[]);
        assert!(!text.contains("panicked"), "{text}");
    });
}

#[test]
#[ignore = "a_process_that_leaks_a_playing_pipeline_ends_well runs it"]
fn alone_leak() {
    if !isolated::is_alone() {
        return;
    }
    let pads = Pads::raising();
    pads.close_gate();
    pads.push_all(0..2);
    pads.wait_blocked();
    std::mem::forget(pads);
}

/// Reported: without a driver the element is missing, panics, or hangs, and nobody says why.
#[test]
fn without_a_gpu_auto_goes_on_with_the_cpu_and_says_so_once() {
    watched(|| {
        let hidden = [("CUDA_VISIBLE_DEVICES", "")];
        isolated::passes("processes::alone_auto_without_gpu", &hidden);
    });
}

#[test]
#[ignore = "without_a_gpu_auto_goes_on_with_the_cpu_and_says_so_once runs it"]
fn alone_auto_without_gpu() {
    if !isolated::is_alone() {
        return;
    }
    watched(|| {
        let outcome = pipelines::run(
            "videotestsrc num-buffers=5 ! video/x-raw,format=GRAY8,width=32,height=24 ! \
             cudaconv name=filter backend=auto ! fakesink name=out",
        );
        outcome.assert_frames(5);
        let told = named(&outcome.messages, "cudaconv-backend");
        assert_eq!(told.len(), 1);
        assert_eq!(told[0].get::<String>("backend").as_deref(), Ok("cpu"));
        let reason = told[0].get::<String>("reason").expect("a reason");
        assert!(reason.len() > 10, "a sentence: {reason:?}");
        let mut loud = texts(&outcome.messages, gst::MessageType::Warning);
        loud.extend(texts(&outcome.messages, gst::MessageType::Info));
        assert!(loud.len() <= 1, "no flood: {loud:?}");
    });
}

/// Reported: asking for the GPU where there is none silently gives something else, or hangs.
#[test]
fn without_a_gpu_cuda_is_a_clear_error_at_the_start() {
    watched(|| {
        let hidden = [("CUDA_VISIBLE_DEVICES", "")];
        isolated::passes("processes::alone_cuda_without_gpu", &hidden);
    });
}

#[test]
#[ignore = "without_a_gpu_cuda_is_a_clear_error_at_the_start runs it"]
fn alone_cuda_without_gpu() {
    if !isolated::is_alone() {
        return;
    }
    watched(|| {
        let pads = Pads::around(cudaconv(&[("backend", "cuda")]));
        let started = pads.element.set_state(gst::State::Ready);
        assert!(started.is_err(), "NULL to READY fails");
        let error = pads.wait_error();
        assert!(error.is::<gst::ResourceError>(), "{error:?}");
        let text = error.to_string();
        assert!(text.len() > 20, "a sentence: {text:?}");
        // And it can be put right.
        pads.element.set_state(gst::State::Null).expect("stops");
        pads.element.set_property_from_str("backend", "cpu");
        pads.begin(&gray());
        assert_eq!(pads.push(1), Ok(gst::FlowSuccess::Ok));
        pads.wait_buffers(1);
    });
}

/// Reported: a CPU run loads the driver, and fails or waits for it.
#[test]
fn backend_cpu_never_touches_the_driver() {
    watched(|| {
        isolated::passes("processes::alone_cpu_without_driver", &[]);
    });
}

#[test]
#[ignore = "backend_cpu_never_touches_the_driver runs it"]
fn alone_cpu_without_driver() {
    if !isolated::is_alone() {
        return;
    }
    watched(|| {
        pipelines::run(
            "videotestsrc num-buffers=5 ! video/x-raw,format=GRAY8,width=32,height=24 ! \
             cudaconv name=filter backend=cpu ! fakesink name=out",
        )
        .assert_frames(5);
        let maps = std::fs::read_to_string("/proc/self/maps").expect("proc is there");
        assert!(!maps.contains("libcuda"), "the driver is loaded");
    });
}
