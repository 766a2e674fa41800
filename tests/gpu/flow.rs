//! Many frames, engines and threads at once, and frames that nobody waits for.

use std::sync::Arc;

use gstcudaconv::engine::cpu::CpuEngine;
use gstcudaconv::engine::{Engine, EngineError, Frame};
use gstcudaconv::filter::FilterSpec;
use gstcudaconv::filter::plan::Plan;
use gstcudaconv::filter::spec::{Kernel, Method};

use crate::support::{self, Memory, TIGHT};

fn plan_of(kernel: Kernel, width: u32, height: u32) -> (FilterSpec, Arc<Plan>) {
    let layout = support::layout(gst_video::VideoFormat::Gray8, width, height);
    let spec = FilterSpec {
        kernel,
        ..FilterSpec::default()
    };
    let plan = support::plan(&spec, Method::Auto, &layout, support::gpu_abilities());
    (spec, plan.expect("a plan"))
}

fn frame(plan: &Plan, seed: u64, memory: Memory) -> Frame {
    support::frame(&plan.layout, seed, (memory, TIGHT), (memory, TIGHT), false)
}

fn expected(spec: &FilterSpec, plan: &Plan, seed: u64) -> Vec<u8> {
    let cpu = CpuEngine::new().expect("the CPU engine starts");
    let frame = support::on_cpu(&cpu, spec, &plan.layout, frame(plan, seed, Memory::Heap));
    support::output_bytes(&plan.layout, &frame)
}

#[test]
fn frames_in_flight_keep_apart_at_every_depth() {
    let plans = [(Kernel::Gauss9, 640, 480), (Kernel::Laplacian, 640, 480)];
    for depth in [1, 2, 3, 8] {
        let Some(gpu) = support::gpu(depth) else {
            return;
        };
        let allocator = gpu.allocator().expect("pinned memory");
        for memory in [Memory::Heap, Memory::From(&allocator)] {
            let plans = plans.map(|(kernel, w, h)| plan_of(kernel, w, h));
            let prepared = plans
                .each_ref()
                .map(|(_, plan)| support::prepare(&gpu, plan));
            // Twice as many as there are slots.
            let tickets: Vec<_> = (0..2 * depth)
                .map(|n| prepared[n % 2].submit(frame(&plans[n % 2].1, n as u64, memory)))
                .collect();
            for (n, ticket) in tickets.into_iter().enumerate() {
                let (frame, timing) = ticket.wait();
                let timing = timing.unwrap_or_else(|error| panic!("{error}"));
                assert!(timing.started <= timing.finished);
                let (spec, plan) = &plans[n % 2];
                let got = support::output_bytes(&plan.layout, &frame);
                assert!(
                    got == expected(spec, plan, n as u64),
                    "depth {depth} frame {n}"
                );
            }
        }
    }
}

#[test]
fn frames_that_nobody_waits_for_are_let_go_when_the_device_is_done() {
    let Some(gpu) = support::gpu(2) else { return };
    let allocator = gpu.allocator().expect("pinned memory");
    let (width, height) = if support::quick() {
        (320, 180)
    } else {
        (1920, 1080)
    };
    let (spec, plan) = plan_of(Kernel::Bilateral, width, height);
    let prepared = support::prepare(&gpu, &plan);
    for seed in 0..50 {
        drop(prepared.submit(frame(&plan, seed, Memory::From(&allocator))));
    }
    let (frame, timing) = prepared.submit(frame(&plan, 3, Memory::Heap)).wait();
    timing.unwrap_or_else(|error| panic!("{error}"));
    let cpu = expected(&spec, &plan, 3);
    let off = support::output_bytes(&plan.layout, &frame);
    let differing = off.iter().zip(&cpu).filter(|(a, b)| a != b).count();
    assert!(differing * 1000 < cpu.len(), "{differing} of {}", cpu.len());
}

#[test]
fn frames_in_flight_are_done_when_the_engine_is_dropped() {
    let Some(gpu) = support::gpu(4) else { return };
    let (spec, plan) = plan_of(Kernel::Gauss7, 1280, 720);
    let prepared = support::prepare(&gpu, &plan);
    let tickets: Vec<_> = (0..4)
        .map(|seed| prepared.submit(frame(&plan, seed, Memory::Heap)))
        .collect();
    drop((gpu, prepared));
    for (seed, ticket) in tickets.into_iter().enumerate() {
        let (frame, timing) = ticket.wait();
        timing.unwrap_or_else(|error| panic!("{error}"));
        let got = support::output_bytes(&plan.layout, &frame);
        assert!(got == expected(&spec, &plan, seed as u64), "frame {seed}");
    }
}

#[test]
fn engines_of_several_threads_do_not_disturb_each_other() {
    if support::gpu(1).is_none() {
        return;
    }
    std::thread::scope(|scope| {
        for thread in 0..8u64 {
            scope.spawn(move || {
                let kernel = [Kernel::Gauss3, Kernel::Emboss, Kernel::Box7, Kernel::Sobel];
                let (spec, plan) = plan_of(kernel[thread as usize % 4], 320, 200);
                let expected = expected(&spec, &plan, thread);
                for _ in 0..3 {
                    let gpu = support::gpu(2).expect("there was one before");
                    let prepared = support::prepare(&gpu, &plan);
                    for _ in 0..50 {
                        let ticket = prepared.submit(frame(&plan, thread, Memory::Heap));
                        let (frame, timing) = ticket.wait();
                        timing.unwrap_or_else(|error| panic!("{error}"));
                        assert!(support::output_bytes(&plan.layout, &frame) == expected);
                    }
                }
            });
        }
    });
}

#[test]
fn kernels_not_asked_for_yet_are_loaded_in_the_background() {
    let Some(gpu) = support::gpu(2) else { return };
    let (_, plan) = plan_of(Kernel::Gauss3, 64, 48);
    let prepared = support::prepare(&gpu, &plan);
    for seed in 0..8 {
        let (_, timing) = prepared.submit(frame(&plan, seed, Memory::Heap)).wait();
        timing.unwrap_or_else(|error| panic!("{error}"));
    }
    let (_, other) = plan_of(Kernel::Bilateral, 64, 48);
    let give_up = std::time::Instant::now() + std::time::Duration::from_secs(60);
    let prepared: Result<_, EngineError> = loop {
        match gpu.prepare(&other, false) {
            Ok(None) => assert!(std::time::Instant::now() < give_up, "it is never loaded"),
            Ok(Some(prepared)) => break Ok(prepared),
            Err(error) => break Err(error),
        }
        std::thread::yield_now();
    };
    let prepared = prepared.unwrap_or_else(|error| panic!("{error}"));
    let (_, timing) = prepared.submit(frame(&other, 1, Memory::Heap)).wait();
    timing.unwrap_or_else(|error| panic!("{error}"));
}
