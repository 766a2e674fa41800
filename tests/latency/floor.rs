//! What no filter can beat: moving the bytes of a frame, measured in the same run.
//!
//! On the CPU threads do it that wait for it, as those of the engine do: whatever else the machine
//! is busy with then holds both up alike.

use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::{Duration, Instant};

use gstcudaconv::engine::cuda::{self, CudaEngine};
use gstcudaconv::filter::{Layout, Plan};

use super::scenario::Scenario;
use super::stages::lower_quartile;

/// Pairs of frames that go round, so that a copy finds them as cold as the filter does.
const PAIRS: usize = 8;

/// A thread that copies its share of each frame when it is told to.
pub struct Copier {
    start: Sender<usize>,
    done: Receiver<()>,
}

impl Copier {
    fn new(bytes: usize) -> Copier {
        let (start, started) = channel();
        let (tell, done) = channel();
        std::thread::spawn(move || {
            let mut pairs: Vec<(Vec<u8>, Vec<u8>)> = (0..PAIRS)
                .map(|n| (vec![n as u8; bytes], vec![0; bytes]))
                .collect();
            while let Ok(number) = started.recv() {
                let (from, to): &mut (Vec<u8>, Vec<u8>) = &mut pairs[number];
                to.copy_from_slice(std::hint::black_box(from));
                std::hint::black_box(to);
                if tell.send(()).is_err() {
                    return;
                }
            }
        });
        Copier { start, done }
    }
}

/// All threads copy frame `number`.
fn copy(copiers: &[Copier], number: usize) -> Duration {
    let started = Instant::now();
    for copier in copiers {
        copier.start.send(number).expect("the thread waits");
    }
    for copier in copiers {
        copier.done.recv().expect("the thread answers");
    }
    started.elapsed()
}

pub enum Floor {
    /// A copy from memory to memory, by all cores.
    Copy(Vec<Copier>),
    /// Upload, kernels and download, each by itself; measured once, as it takes the median of many.
    Device(Box<CudaEngine>, Arc<Plan>, usize),
    /// For comparisons within a run.
    Fixed(Duration),
}

impl Floor {
    pub fn of(scenario: &Scenario) -> Floor {
        let info = gst_video::VideoInfo::from_caps(&scenario.caps()).expect("caps of video");
        if scenario.backend == "cpu" {
            let cores = std::thread::available_parallelism().map_or(1, usize::from);
            let copier = |_| Copier::new(info.size().div_ceil(cores));
            return Floor::Copy((0..cores).map(copier).collect());
        }
        let engine = CudaEngine::open(-1, 2).unwrap_or_else(|error| panic!("{error}"));
        let layout = Arc::new(Layout::new(&info).expect("a format"));
        let plan = Plan::new(&scenario.spec(), &layout, &cuda::ABILITIES).expect("a plan");
        Floor::Device(Box::new(engine), Arc::new(plan), info.size())
    }

    /// The time for one frame.
    pub fn measure(&mut self) -> Duration {
        match self {
            Floor::Copy(copiers) => {
                let copies = (0..2 * PAIRS).map(|number| copy(copiers, number % PAIRS));
                let copies = copies.map(|time| time.as_secs_f64());
                Duration::from_secs_f64(lower_quartile(copies))
            }
            Floor::Device(engine, plan, bytes) => {
                let copies = engine.time_copies(*bytes);
                let copies = copies.unwrap_or_else(|error| panic!("{error}"));
                let kernels = engine.time_kernels(plan);
                let kernels = kernels.unwrap_or_else(|error| panic!("{error}"));
                *self = Floor::Fixed(copies.up + copies.down + kernels);
                self.measure()
            }
            Floor::Fixed(time) => *time,
        }
    }
}
