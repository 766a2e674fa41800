//! The engine from outside: order, failures, endings.

use std::sync::Arc;
use std::sync::mpsc::channel;
use std::time::Duration;

use super::CpuEngine;
use super::testing::{self, filter_job, frame, gauss3, layout, output_bytes, plan};
use crate::engine::frame::WriteBytes;
use crate::engine::{Engine, Frame, InputFrame, OutputFrame, Prepared};
use crate::filter::plan::{Algorithm, Operation, Plan};
use crate::filter::spec::Border;

fn prepare(engine: &CpuEngine, plan: &Plan) -> Arc<dyn Prepared> {
    engine
        .prepare(&Arc::new(plan.clone()), true)
        .unwrap()
        .unwrap()
}

fn gauss3_plan(width: u32, height: u32) -> Plan {
    let layout = layout(gst_video::VideoFormat::Gray8, width, height);
    plan(&layout, Operation::Correlate(gauss3()), Border::Replicate)
}

/// Fails the test instead of hanging it.
fn within_a_minute<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> T {
    let (done, result) = channel();
    std::thread::spawn(move || done.send(work()));
    result
        .recv_timeout(Duration::from_secs(60))
        .expect("ends, and without a panic")
}

#[test]
fn a_frame_comes_back_filtered_and_timed() {
    let plan = gauss3_plan(3, 1);
    let engine = CpuEngine::new().unwrap();
    let frame = frame(&plan.layout, |_, _, x| [0, 64, 0][x], false);
    let (frame, timing) = prepare(&engine, &plan).submit(frame).wait();
    let timing = timing.unwrap();
    assert_eq!(output_bytes(&plan.layout, &frame), [16, 32, 16]);
    assert_eq!(timing.kernel, timing.finished - timing.started);
    assert_eq!(engine.backend(), "cpu");
    assert!(engine.device().starts_with("CPU ("), "{}", engine.device());
}

#[test]
fn frames_of_several_plans_start_in_order() {
    let plans = [gauss3_plan(64, 48), gauss3_plan(5, 3)];
    let engine = CpuEngine::new().unwrap();
    let prepared = plans.each_ref().map(|plan| prepare(&engine, plan));
    let tickets: Vec<_> = (0..40)
        .map(|n| {
            prepared[n % 2].submit(frame(
                &plans[n % 2].layout,
                |_, y, x| (n + x + y) as u8,
                false,
            ))
        })
        .collect();
    let timings: Vec<_> = tickets.into_iter().map(|t| t.wait().1.unwrap()).collect();
    for pair in timings.windows(2) {
        assert!(pair[0].finished <= pair[1].started);
    }
}

/// Memory that breaks its word: it is shorter whenever it is asked again.
struct Shrinking(Vec<u8>, std::sync::atomic::AtomicUsize);

impl AsRef<[u8]> for Shrinking {
    fn as_ref(&self) -> &[u8] {
        let asked = self.1.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        &self.0[..if asked == 0 { self.0.len() } else { 1 }]
    }
}

#[test]
fn a_panic_gives_the_frame_back_with_an_error_and_the_engine_goes_on() {
    within_a_minute(|| {
        let plan = gauss3_plan(64, 64);
        let engine = CpuEngine::new().unwrap();
        let prepared = prepare(&engine, &plan);
        let good = || frame(&plan.layout, |_, _, _| 7, false);
        let mut bad = good();
        bad.input = InputFrame::new(
            &plan.layout,
            vec![Box::new(Shrinking(vec![0; 64 * 64], Default::default()))],
            testing::tight_spans(&plan.layout),
        )
        .unwrap();
        let tickets = [good(), bad, good()].map(|frame| prepared.submit(frame));
        let results = tickets.map(|ticket| ticket.wait());
        assert!(results[0].1.is_ok());
        let error = results[1].1.as_ref().unwrap_err();
        assert_eq!(error.call, "filtering a frame");
        assert_eq!(output_bytes(&plan.layout, &results[1].0).len(), 64 * 64);
        assert!(results[2].1.is_ok());
        assert_eq!(output_bytes(&plan.layout, &results[2].0), [7; 64 * 64]);
    });
}

#[test]
fn a_frame_of_another_layout_is_an_error() {
    within_a_minute(|| {
        let engine = CpuEngine::new().unwrap();
        for algorithm in [Algorithm::Naive, Algorithm::Separable] {
            let mut plan = gauss3_plan(64, 64);
            plan.algorithm = algorithm;
            let small = layout(gst_video::VideoFormat::Gray8, 60, 64);
            let ticket = prepare(&engine, &plan).submit(frame(&small, |_, _, _| 1, false));
            let (frame, result) = ticket.wait();
            assert_eq!(result.unwrap_err().call, "filtering a frame");
            assert_eq!(output_bytes(&small, &frame).len(), 60 * 64);
        }
    });
}

#[test]
fn frames_in_flight_are_done_when_the_engine_is_dropped() {
    within_a_minute(|| {
        let plan = gauss3_plan(320, 240);
        let engine = CpuEngine::new().unwrap();
        let prepared = prepare(&engine, &plan);
        let tickets: Vec<_> = (0..8)
            .map(|n| prepared.submit(frame(&plan.layout, |_, _, _| n, false)))
            .collect();
        drop(engine);
        for (n, ticket) in tickets.into_iter().enumerate() {
            let (frame, result) = ticket.wait();
            result.unwrap();
            assert_eq!(output_bytes(&plan.layout, &frame)[0], n as u8);
        }
        let (_, late) = prepared
            .submit(frame(&plan.layout, |_, _, _| 0, false))
            .wait();
        assert_eq!(late.unwrap_err().reason, "the engine has ended");
    });
}

/// Output memory that holds the last engine, and so drops it wherever the frame is dropped.
struct HoldsEngine(Vec<u8>, #[allow(dead_code)] CpuEngine);

impl WriteBytes for HoldsEngine {
    fn bytes(&self) -> &[u8] {
        &self.0
    }
    fn bytes_mut(&mut self) -> &mut [u8] {
        &mut self.0
    }
}

fn frame_with_engine(plan: &Plan, engine: CpuEngine) -> Frame {
    let mut frame = frame(&plan.layout, |_, _, _| 1, false);
    let memory = HoldsEngine(vec![0; 64 * 64], engine);
    frame.output = OutputFrame::new(
        &plan.layout,
        vec![Box::new(memory)],
        testing::tight_spans(&plan.layout),
    )
    .unwrap();
    frame
}

#[test]
fn an_engine_may_be_dropped_on_its_own_thread() {
    within_a_minute(|| {
        let plan = gauss3_plan(64, 64);
        let engine = CpuEngine::new().unwrap();
        let prepared = prepare(&engine, &plan);
        // The first ticket is dropped unanswered, so its frame ends on the engine's thread.
        drop(prepared.submit(frame_with_engine(&plan, engine)));
        let (_, late) = prepared
            .submit(frame(&plan.layout, |_, _, _| 0, false))
            .wait();
        drop(late);
    });
}

#[test]
fn an_engine_may_be_dropped_on_a_thread_of_the_pool() {
    within_a_minute(|| {
        let plan = gauss3_plan(320, 240);
        let engine = CpuEngine::new().unwrap();
        let ticket = prepare(&engine, &plan).submit(frame(&plan.layout, |_, _, _| 3, false));
        super::pool::shared().unwrap().install(|| drop(engine));
        ticket.wait().1.unwrap();
    });
}

#[test]
fn plans_of_other_engines_are_refused() {
    let engine = CpuEngine::new().unwrap();
    let mut plan = gauss3_plan(8, 8);
    plan.algorithm = Algorithm::Tile;
    let error = engine.prepare(&Arc::new(plan), true).err().unwrap();
    assert_eq!(error.reason, "the CPU engine has no Tile algorithm");
}

#[test]
fn a_plan_whose_kernel_is_missing_is_refused() {
    let engine = CpuEngine::new().unwrap();
    let layout = layout(gst_video::VideoFormat::Gray8, 8, 8);
    let mut plan = plan(&layout, Operation::None, Border::Wrap);
    plan.jobs = vec![filter_job(&layout, 0, Operation::None, Border::Wrap)];
    assert!(engine.prepare(&Arc::new(plan), true).is_err());
}
