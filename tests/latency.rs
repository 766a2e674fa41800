//! Latency regression: a fixed set of streams, judged by ratios to a floor measured in the same run
//! and by structure.
//!
//! `scripts/bench.sh latency` compares all with the device's baseline in `tests/latency/` and fails
//! where something got worse; `--update` makes the baseline anew. What runs with the other tests
//! compares within the run only.

#[path = "latency/baseline.rs"]
mod baseline;
#[path = "latency/busy.rs"]
mod busy;
#[path = "common/mod.rs"]
mod common;
#[path = "latency/compare.rs"]
mod compare;
#[path = "latency/floor.rs"]
mod floor;
#[allow(dead_code)] // of the benchmark that it belongs to
#[path = "bench/gpu/line.rs"]
mod line;
#[path = "latency/scenario.rs"]
mod scenario;
#[path = "latency/stream.rs"]
mod stream;

use common::{frames, pads, stages};

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use baseline::{Baseline, Worse, worse};
use busy::Usage;
use common::watchdog::{measured, watched};
use compare::Pair;
use gstcudaconv::engine::Engine;
use gstcudaconv::engine::cpu::CpuEngine;
use gstcudaconv::engine::cuda::CudaEngine;
use gstcudaconv::filter::spec::Kernel;
use line::Memory;
use scenario::{Pace, Scenario};
use stream::{Least, Streams, most_in_flight};

/// A processor that others use too, and a GPU that nobody else does.
const CPU_TOLERANCE: f64 = 1.4;
const GPU_TOLERANCE: f64 = 1.15;
/// How long a scenario runs in a pass: many ticks of the clock that processes are accounted by.
const PASS: Duration = Duration::from_millis(300);
/// Passes over all scenarios, as what disturbs one rarely disturbs all; and the same for a baseline,
/// which is to hold the least that this device reaches. A GPU has nothing else to do.
const CPU_PASSES: [usize; 2] = [4, 12];
const GPU_PASSES: [usize; 2] = [2, 3];
/// How long what looks worse is looked at again, before it is said to be.
const AGAIN: Duration = Duration::from_secs(60);

/// Name and scenarios of what is measured: the GPU where one is required, else the CPU.
fn device() -> (String, f64, Vec<Scenario>) {
    if std::env::var("CUDACONV_GPU").is_ok_and(|value| value == "required") {
        let engine = CudaEngine::open(-1, 2).unwrap_or_else(|error| panic!("{error}"));
        return (engine.device().into(), GPU_TOLERANCE, scenario::of_gpu());
    }
    let engine = CpuEngine::new().expect("threads");
    (engine.device().into(), CPU_TOLERANCE, scenario::of_cpu())
}

/// What was measured of each scenario, by name.
type Measured = BTreeMap<String, Seen>;

/// The least of all passes, and how much of the machine others took in the quietest.
struct Seen {
    least: Least,
    others: f64,
}

/// More than this, and a pass says little.
const QUIET: f64 = 0.1;

/// Runs `scenario` for a pass.
fn pass(scenario: &Scenario, measured: &mut Measured) {
    let mut streams = Streams::start(scenario);
    let usage = Usage::now();
    let started = Instant::now();
    while started.elapsed() < PASS {
        streams.round();
    }
    let others = usage.share_of_others();
    let seen = measured.entry(scenario.to_string()).or_insert(Seen {
        least: Least::default(),
        others,
    });
    seen.least.keep_all(streams.least());
    seen.others = seen.others.min(others);
}

/// What came of a comparison with the baseline.
#[derive(Default)]
struct Verdict {
    worse: Vec<Worse>,
    /// Lines about what could not be judged.
    open: Vec<String>,
}

/// What is worse than before, after looking at it again and again.
fn judge(before: &Baseline, measured: &mut Measured, scenarios: &[Scenario]) -> Verdict {
    let compare = |scenario: &Scenario, measured: &Measured| {
        let name = scenario.to_string();
        let (_, figures) = before.scenarios.get(&name)?;
        let after = measured[&name].least.ratios();
        Some(worse(&name, figures, &after, before.tolerance))
    };
    let started = Instant::now();
    loop {
        let looks_worse = |scenario: &&Scenario| {
            compare(scenario, measured).is_some_and(|found| !found.is_empty())
        };
        let again: Vec<&Scenario> = scenarios.iter().filter(looks_worse).collect();
        if again.is_empty() || started.elapsed() > AGAIN {
            break;
        }
        again.iter().for_each(|scenario| pass(scenario, measured));
    }
    let mut verdict = Verdict::default();
    for scenario in scenarios {
        let others = measured[&scenario.to_string()].others;
        match compare(scenario, measured) {
            None => verdict.open.push(format!(
                "new: {scenario}: there is nothing to compare it with"
            )),
            Some(found) if !found.is_empty() && others > QUIET => verdict.open.push(format!(
                "busy: {scenario}: no verdict, as other processes took {:.0} % of the processor",
                others * 100.0
            )),
            Some(found) => verdict.worse.extend(found),
        }
    }
    verdict
}

/// `scripts/bench.sh latency` runs this.
#[test]
#[ignore = "a measurement of minutes, for a machine that has nothing else to do"]
fn against_the_baseline() {
    common::init();
    let (device, tolerance, scenarios) = device();
    let update = std::env::var_os("CUDACONV_LATENCY_UPDATE").is_some();
    let mut measured = Measured::new();
    let passes = match scenarios[0].backend {
        "cpu" => CPU_PASSES,
        _ => GPU_PASSES,
    };
    for _ in 0..passes[usize::from(update)] {
        scenarios
            .iter()
            .for_each(|scenario| pass(scenario, &mut measured));
    }
    println!("{device}: multiples of the floor");
    for (name, Seen { least, others }) in &measured {
        let shown = least
            .ratios()
            .into_iter()
            .filter(|(_, ratio)| *ratio >= 0.01);
        let shown: Vec<String> = shown
            .map(|(stage, ratio)| format!("{stage} {ratio:.2}"))
            .collect();
        println!(
            "  {name}: floor {:.1} us; {}; others {:.0} %",
            least.floor,
            shown.join(", "),
            others * 100.0
        );
    }
    if update {
        let entry = |(name, Seen { least, .. })| (name, (least.floor, least.ratios()));
        let now = Baseline {
            device,
            tolerance,
            scenarios: measured.into_iter().map(entry).collect(),
        };
        let file = now.write().expect("the baseline can be written");
        println!("baseline written: {}", file.display());
        return;
    }
    let Some(before) = Baseline::read(&device) else {
        println!("there is no baseline of {device}: make one with --update");
        return;
    };
    let verdict = judge(&before, &mut measured, &scenarios);
    verdict.open.iter().for_each(|line| println!("{line}"));
    verdict.worse.iter().for_each(|worse| println!("{worse}"));
    println!(
        "{} scenarios compared, {} without a verdict, {} stages worse",
        scenarios.len(),
        verdict.open.len(),
        verdict.worse.len()
    );
    assert!(verdict.worse.is_empty(), "latency got worse");
}

/// Reported: an asynchronous element holds a frame until the next one comes, or takes more and more
/// frames that nobody asks for.
#[test]
fn no_scenario_holds_a_frame_or_takes_more_than_it_has_slots_for() {
    watched(|| {
        for scenario in scenario::of_cpu() {
            // Waits for each frame before the next is sent.
            let single = Scenario {
                pace: Pace::Single,
                ..scenario.clone()
            };
            drop(Streams::start(&single));
            let single = Scenario {
                instances: 1,
                ..scenario.clone()
            };
            for depth in [1, 2] {
                let scenario = Scenario {
                    depth,
                    ..single.clone()
                };
                let most = most_in_flight(&scenario);
                assert!(
                    most <= depth as usize + 1,
                    "{scenario}: {most} at depth {depth}"
                );
            }
        }
    });
}

/// The stages in which `slow` takes more than `tolerance` times what `plain` does, measured by
/// turns, and again and again where it looks so.
fn found_worse(plain: &Scenario, slow: &Scenario, tolerance: f64) -> Vec<String> {
    const ROUNDS: usize = 10;
    const AGAIN: Duration = Duration::from_secs(6);
    let mut pair = Pair::start(plain, slow);
    let started = Instant::now();
    let found = loop {
        pair.rounds(ROUNDS, |_| ());
        let (before, after) = pair.figures();
        let found = worse(&plain.to_string(), &before, &after, tolerance);
        if found.is_empty() || started.elapsed() > AGAIN {
            break found;
        }
    };
    found.iter().for_each(|worse| println!("{worse}"));
    found.into_iter().map(|worse| worse.stage).collect()
}

/// Between the noise and the slowdown of half that is looked for.
const SLOWER_THAN_NOISE: f64 = 1.25;

/// A `part`th more rows: as much more work in every stage that works.
fn more(scenario: &Scenario, part: u32) -> Scenario {
    Scenario {
        height: scenario.height + scenario.height / part,
        ..scenario.clone()
    }
}

/// Small frames with much to do: one at a time, and as a file, where they wait for the one slot.
fn of_heavy_work() -> [Scenario; 2] {
    let single = Scenario {
        kernel: Kernel::Bilateral,
        radius: 5,
        ..Scenario::small("cpu")
    };
    let file = Scenario {
        pace: Pace::File,
        depth: 1,
        ..single.clone()
    };
    [single, file]
}

#[test]
fn half_as_much_work_more_is_found_and_none_is_not() {
    watched(|| {
        let [single, file] = of_heavy_work();
        for (scenario, wanted) in [
            (&single, vec!["kernel", "latency", "outside"]),
            (&file, vec!["kernel", "period", "wait"]),
        ] {
            measured(|| {
                let none = found_worse(scenario, scenario, SLOWER_THAN_NOISE);
                let found = found_worse(scenario, &more(scenario, 2), SLOWER_THAN_NOISE);
                match none.is_empty() && found == wanted {
                    true => Ok(()),
                    false => Err(format!("{scenario}: unchanged {none:?}, slower {found:?}")),
                }
            });
        }
    });
}

#[test]
#[ignore = "a measurement of a minute"]
fn twenty_unchanged_runs_are_quiet() {
    common::init();
    let streams = of_heavy_work();
    let mut loud = Vec::new();
    for _ in 0..20 {
        for scenario in &streams {
            loud.extend(found_worse(scenario, scenario, SLOWER_THAN_NOISE));
        }
    }
    assert!(loud.is_empty(), "{loud:?} of 20 runs of two scenarios");
}

/// A GPU that has nothing else to do is told from one that takes a fifth more.
#[test]
#[ignore = "for a machine with a GPU"]
fn a_fifth_more_work_is_found_on_a_gpu_and_none_is_not() {
    const A_TENTH: f64 = 1.1;
    common::init();
    let base = Scenario {
        format: "RGBA",
        width: 1920,
        height: 1080,
        memory: Memory::Pinned,
        ..Scenario::small("cuda")
    };
    // So much work that most of it is done when all bands of the frame are there.
    let kernel = Scenario {
        kernel: Kernel::Bilateral,
        radius: 12,
        ..base.clone()
    };
    let foreign = Scenario {
        memory: Memory::Foreign,
        ..base.clone()
    };
    let file = Scenario {
        pace: Pace::File,
        depth: 1,
        ..base.clone()
    };
    let scenarios = [
        (base, vec!["upload", "download", "latency", "outside"]),
        (kernel, vec!["kernel"]),
        (foreign, vec!["copy-in"]),
        (file, vec!["wait", "period"]),
    ];
    for (scenario, wanted) in scenarios {
        measured(|| {
            println!("{scenario}, unchanged and with a fifth more:");
            let none = found_worse(&scenario, &scenario, A_TENTH);
            let found = found_worse(&scenario, &more(&scenario, 5), A_TENTH);
            let all = wanted.iter().all(|stage| found.iter().any(|f| f == stage));
            match none.is_empty() && all {
                true => Ok(()),
                false => Err(format!("{scenario}: unchanged {none:?}, slower {found:?}")),
            }
        });
    }
}
