//! A slowdown of half in each stage of the device is found, in that stage, and none is not.

#[path = "../latency/baseline.rs"]
#[allow(dead_code)] // `tests/latency.rs` uses all of it
mod baseline;
#[path = "../latency/compare.rs"]
mod compare;
#[path = "../latency/floor.rs"]
#[allow(dead_code)]
mod floor;
#[path = "../latency/scenario.rs"]
#[allow(dead_code)]
mod scenario;
#[path = "../latency/stream.rs"]
#[allow(dead_code)]
mod stream;

use baseline::worse;
use compare::Pair;
use scenario::Scenario;

use crate::common::watchdog::{measured, watched};
use crate::common::{frames, pads, stages};
use crate::control::inject;
use crate::line;
use crate::line::Memory;
use crate::on_test_driver;

/// What every copy and kernel takes, far more than all around them.
const PLAIN_US: u64 = 4_000;
const CALLS: [(&str, &str); 3] = [
    ("cuMemcpyHtoDAsync", "upload"),
    ("cuLaunchKernel", "kernel"),
    ("cuMemcpyDtoHAsync", "download"),
];
const ROUNDS: usize = 3;
const TOLERANCE: f64 = 1.25;

/// All take the same, but `slow` takes half as long again.
fn set_times(slow: Option<&str>) {
    let time = |call| PLAIN_US + if slow == Some(call) { PLAIN_US / 2 } else { 0 };
    let rules = CALLS.map(|(call, _)| format!("{call}:1+:{}", time(call)));
    inject("SLOW", &rules.join(","));
}

#[test]
fn half_as_much_more_in_a_stage_is_found_in_that_stage() {
    on_test_driver!(&[("FAKECUDA_DELAY_US", "0")], || watched(|| {
        gst::init().expect("GStreamer starts");
        let scenario = Scenario {
            memory: Memory::Pinned,
            width: 64,
            height: 48,
            ..Scenario::small("cuda")
        };
        for slow in CALLS.into_iter().map(Some).chain([None]) {
            let call = slow.map(|(call, _)| call);
            let wanted: Vec<&str> = slow.iter().map(|(_, stage)| *stage).collect();
            measured(|| {
                let mut pair = Pair::start(&scenario, &scenario);
                pair.rounds(ROUNDS, |which| set_times(call.filter(|_| which == 1)));
                let (before, after) = pair.figures();
                let found = worse("slow", &before, &after, TOLERANCE);
                let stages: Vec<&str> = found.iter().map(|worse| worse.stage.as_str()).collect();
                match stages == wanted {
                    true => Ok(()),
                    false => Err(format!("{call:?}: {stages:?}, {before:?}, {after:?}")),
                }
            });
        }
    }));
}
