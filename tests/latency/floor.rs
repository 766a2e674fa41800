//! What no filter can beat: moving the bytes of a frame, measured in the same run.

use std::sync::Arc;
use std::time::{Duration, Instant};

use gstcudaconv::engine::cuda::{self, CudaEngine};
use gstcudaconv::filter::{Layout, Plan};

use super::scenario::Scenario;

/// Pairs of frames that go round, so that a copy finds them as cold as the filter does.
const PAIRS: usize = 8;

pub enum Floor {
    /// A copy from memory to memory.
    Copy(Vec<(Vec<u8>, Vec<u8>)>),
    /// Upload, kernels and download, each by itself.
    Device(Box<CudaEngine>, Arc<Plan>, usize),
    /// For comparisons within a run.
    Fixed(Duration),
}

impl Floor {
    pub fn of(scenario: &Scenario) -> Floor {
        let info = gst_video::VideoInfo::from_caps(&scenario.caps()).expect("caps of video");
        if scenario.backend == "cpu" {
            let pair = |n| (vec![n as u8; info.size()], vec![0; info.size()]);
            return Floor::Copy((0..PAIRS).map(pair).collect());
        }
        let engine = CudaEngine::open(-1, 2).unwrap_or_else(|error| panic!("{error}"));
        let layout = Arc::new(Layout::new(&info).expect("a format"));
        let plan = Plan::new(&scenario.spec(), &layout, &cuda::ABILITIES).expect("a plan");
        Floor::Device(Box::new(engine), Arc::new(plan), info.size())
    }

    /// The time for one frame.
    pub fn measure(&mut self) -> Duration {
        match self {
            Floor::Copy(pairs) => {
                let started = Instant::now();
                for (from, to) in pairs.iter_mut() {
                    to.copy_from_slice(std::hint::black_box(from));
                    std::hint::black_box(to);
                }
                started.elapsed() / PAIRS as u32
            }
            Floor::Device(engine, plan, bytes) => {
                let copies = engine.time_copies(*bytes);
                let copies = copies.unwrap_or_else(|error| panic!("{error}"));
                let kernels = engine.time_kernels(plan);
                copies.up + copies.down + kernels.unwrap_or_else(|error| panic!("{error}"))
            }
            Floor::Fixed(time) => *time,
        }
    }
}
