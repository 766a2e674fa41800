//! Frames that the GPU computed beside those of the CPU.

use std::sync::Arc;

use gstcudaconv::filter::spec::Method;
use gstcudaconv::filter::{FilterSpec, Layout};

use crate::support::{self, Engines, Memory, TIGHT};

const METHODS: [Method; 4] = [Method::Auto, Method::Naive, Method::Tile, Method::Separable];

/// What was compared, and what differed.
#[derive(Default)]
pub struct Tally {
    frames: u64,
    pub samples: u64,
    /// Samples off by one, and by more.
    pub by_one: u64,
    by_more: u64,
    /// The first of each kind of frame.
    faults: Vec<String>,
}

impl Tally {
    fn compare(&mut self, what: &dyn Fn() -> String, gpu: &[u32], cpu: &[u32], tolerance: u32) {
        self.frames += 1;
        self.samples += cpu.len() as u64;
        let mut first = None;
        for (index, (gpu, cpu)) in gpu.iter().zip(cpu).enumerate() {
            match gpu.abs_diff(*cpu) {
                0 => continue,
                1 => self.by_one += 1,
                _ => self.by_more += 1,
            }
            if gpu.abs_diff(*cpu) > tolerance {
                first.get_or_insert((index, *gpu, *cpu));
            }
        }
        if let Some((index, gpu, cpu)) = first {
            self.faults.push(format!(
                "{}: sample {index} is {gpu}, on the CPU {cpu}",
                what()
            ));
        }
    }

    pub fn report(&self, name: &str) {
        support::say(&format!(
            "{name:<28} {:>6} frames {:>11} samples, off by 1: {}, by more: {}",
            self.frames, self.samples, self.by_one, self.by_more
        ));
        let shown: Vec<&String> = self.faults.iter().take(12).collect();
        assert!(
            self.faults.is_empty(),
            "{} frames differ: {shown:#?}",
            self.faults.len()
        );
    }
}

/// Compares `spec` on one layout by every method that can compute it.
pub fn compare(
    tally: &mut Tally,
    engines: &Engines,
    spec: &FilterSpec,
    layout: &Arc<Layout>,
    interlaced: bool,
    tolerance: u32,
) {
    let frames = Frames {
        methods: &METHODS,
        interlaced,
        tolerance,
    };
    compare_by(tally, engines, spec, layout, frames);
}

/// What is compared, and how.
#[derive(Clone, Copy)]
pub struct Frames {
    pub methods: &'static [Method],
    pub interlaced: bool,
    /// The largest difference that may be.
    pub tolerance: u32,
}

impl Frames {
    /// What `auto` gives, byte for byte.
    pub fn of_auto(interlaced: bool) -> Frames {
        Frames {
            methods: &[Method::Auto],
            interlaced,
            tolerance: 0,
        }
    }
}

/// Compares `spec` on one layout by each of the methods that can compute it.
pub fn compare_by(
    tally: &mut Tally,
    engines: &Engines,
    spec: &FilterSpec,
    layout: &Arc<Layout>,
    frames: Frames,
) {
    let Frames {
        methods,
        interlaced,
        tolerance,
    } = frames;
    let heap = (Memory::Heap, TIGHT);
    let allocator = gstcudaconv::engine::Engine::allocator(&engines.gpu).expect("pinned memory");
    let pinned = (Memory::From(&allocator), TIGHT);
    let seed = tally.frames + 1;
    let frame = support::frame(layout, seed, heap, heap, interlaced);
    let frame = support::on_cpu(&engines.cpu, spec, layout, frame);
    let expected = support::output_codes(layout, &frame);
    for &method in methods {
        let Some(plan) = support::plan(spec, method, layout, support::gpu_abilities()) else {
            continue;
        };
        // Pinned and foreign memory in turn.
        let memory = if tally.frames.is_multiple_of(2) {
            pinned
        } else {
            heap
        };
        let frame = support::frame(layout, seed, memory, memory, interlaced);
        let frame = support::on_gpu(&engines.gpu, &plan, frame);
        let got = support::output_codes(layout, &frame);
        let what = || {
            format!(
                "{:?} {method:?} {} {}x{} {:?} {:?} {:?}{}",
                spec.kernel,
                layout.format,
                layout.width,
                layout.height,
                spec.border,
                spec.planes,
                spec.alpha,
                if interlaced { " interlaced" } else { "" }
            )
        };
        let tolerance = tolerance.max(support::rounding(&plan));
        tally.compare(&what, &got, &expected, tolerance);
    }
}
