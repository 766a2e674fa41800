//! An episode of a whole pipeline, as a player drives it: seeks, pauses, stops and new caps.

use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::Duration;

use gst::prelude::*;

use super::Totals;
use super::weather::Weather;
use crate::common::Random;
use crate::common::frames::{flat_value, level, pts};
use crate::common::pipelines::{self, Passed, RAISING, reach};

const CAPS: [&str; 4] = [
    "video/x-raw,format=GRAY8,width=32,height=24,framerate=25/1",
    "video/x-raw,format=RGB,width=33,height=17,framerate=25/1",
    "video/x-raw,format=GBR,width=64,height=48,framerate=25/1",
    "video/x-raw,format=BGR,width=5,height=3,framerate=25/1",
];

const SINKS: [&str; 5] = [
    "fakesink name=out sync=false",
    "fakesink name=out sync=true",
    "queue max-size-buffers=2 ! fakesink name=out sync=false",
    "identity sleep-time=2000 ! fakesink name=out sync=false",
    "fakesink name=out sync=false enable-last-sample=true",
];

/// Frames between two flushes or starts follow one another, each whole and its own.
fn check_run(run: &[gst::Buffer], caps: &[gst::Caps]) {
    let mut next = None;
    for buffer in run {
        let time = buffer.pts().expect("the source stamps frames");
        let number = time.nseconds() / pts(1).nseconds();
        assert!(
            next.is_none_or(|next| number == next),
            "{number} where {next:?} is next"
        );
        next = Some(number + 1);
        // One of the sizes in use; which one its own meta or size says.
        let whole = caps.iter().find(|caps| {
            let info = gst_video::VideoInfo::from_caps(caps).expect("video");
            match buffer.meta::<gst_video::VideoMeta>() {
                Some(meta) => meta.format() == info.format() && meta.width() == info.width(),
                None => buffer.size() == info.size(),
            }
        });
        let caps = whole.unwrap_or_else(|| panic!("frame {number} has {} bytes", buffer.size()));
        let raised = flat_value(caps, buffer).wrapping_sub(level(number));
        assert!(
            raised == 1 || raised == 2,
            "frame {number}: {raised} above its level"
        );
    }
}

/// Checks what passed so far, and forgets it.
fn check(passed: &std::sync::Mutex<Passed>, caps: &[gst::Caps]) -> u64 {
    let runs = {
        let mut passed = passed.lock().unwrap_or_else(|p| p.into_inner());
        passed.events.clear();
        passed.buffers.clear();
        std::mem::replace(&mut passed.runs, vec![Vec::new()])
    };
    for run in &runs {
        check_run(run, caps);
    }
    runs.iter().map(|run| run.len() as u64).sum()
}

pub fn episode(random: &mut Random) -> Totals {
    let all: Vec<gst::Caps> = CAPS
        .iter()
        .map(|text| text.parse().expect("caps"))
        .collect();
    let sink = SINKS[random.below(SINKS.len() as u64) as usize];
    let pipeline = pipelines::parse(&format!(
        "videotestsrc name=source ! capsfilter name=caps caps={} ! {RAISING} ! {sink}",
        CAPS[0]
    ));
    pipelines::number_by_time(&pipeline, "source");
    let filter = pipelines::filter(&pipeline);
    filter.set_property("depth", 1 + random.below(4) as u32);
    let passed = pipelines::record(&pipeline);
    let changes = Arc::new(AtomicU64::new(0));
    let mut counts = Totals::default();
    let mut weather = Weather::new();
    weather.change_properties(&filter, random.next(), &changes);
    reach(&pipeline, gst::State::Playing);
    for _ in 0..20 + random.below(20) {
        // The moment is what is tested.
        std::thread::sleep(Duration::from_micros(random.below(30_000)));
        match random.below(16) {
            0..=8 => {
                let flags = gst::SeekFlags::FLUSH | gst::SeekFlags::ACCURATE;
                let target = pts(random.below(50_000));
                pipeline.seek_simple(flags, target).expect("seeks");
                counts.flushes += 1;
            }
            9 | 10 => {
                reach(&pipeline, gst::State::Paused);
                reach(&pipeline, gst::State::Playing);
                counts.pauses += 1;
            }
            11 => {
                let state = [gst::State::Ready, gst::State::Null][random.below(2) as usize];
                pipeline.set_state(state).expect("stops");
                counts.frames_out += check(&passed, &all);
                reach(&pipeline, gst::State::Playing);
                counts.starts += 1;
            }
            12 | 13 => {
                let caps = &all[random.below(all.len() as u64) as usize];
                let filter = pipeline.by_name("caps").expect("a capsfilter");
                filter.set_property("caps", caps);
                counts.caps += 1;
            }
            _ => {}
        }
    }
    weather.end();
    pipeline.set_state(gst::State::Null).expect("stops");
    counts.frames_out += check(&passed, &all);
    counts.changes = changes.load(std::sync::atomic::Ordering::Relaxed);
    let bus = pipeline.bus().expect("a pipeline has a bus");
    let messages: Vec<_> = std::iter::from_fn(|| bus.pop()).collect();
    let errors = crate::common::pads::texts(&messages, gst::MessageType::Error);
    assert!(errors.is_empty(), "{errors:?}");
    counts
}
