//! Time: what one frame cost, quantiles over a stream, the latency a live pipeline is told.
//! Knows no GStreamer.

mod answer;
mod forecast;
mod statistics;
pub mod timeline;

pub use answer::{LatencyAnswer, ServiceEstimate};
pub use forecast::ServiceForecast;
pub use statistics::{Counts, Quantiles, Statistics};

use std::time::{Duration, Instant};

/// What an engine measured of one frame.
#[derive(Debug, Clone, Copy)]
pub struct EngineTiming {
    /// When the engine began to work on the frame (the end of its own queueing).
    pub started: Instant,
    /// When the last byte of the output was there.
    pub finished: Instant,
    /// Host copy into pinned memory; 0 when none was needed.
    pub copy_in: Duration,
    /// Until the whole frame had arrived.
    pub upload: Duration,
    /// From then until all of it was computed; the work on its first rows may have gone before.
    pub kernel: Duration,
    /// From then until all of it was back.
    pub download: Duration,
    /// Whether input and output needed no copy by the host.
    pub pinned_in: bool,
    pub pinned_out: bool,
}

/// The stages of a frame's way, in the order in which they are passed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Stage {
    /// For a free slot, for the engine to get to the frame, and for the output task to be woken when
    /// it is done.
    Wait,
    CopyIn,
    Upload,
    Kernel,
    Download,
    /// Ready, or waiting for a slot, only because downstream did not take an earlier frame. Not
    /// part of the latency.
    Blocked,
}

impl Stage {
    pub const ALL: [Stage; 6] = [
        Stage::Wait,
        Stage::CopyIn,
        Stage::Upload,
        Stage::Kernel,
        Stage::Download,
        Stage::Blocked,
    ];

    /// The name that `stats` and messages use.
    pub fn name(self) -> &'static str {
        match self {
            Stage::Wait => "wait",
            Stage::CopyIn => "copy-in",
            Stage::Upload => "upload",
            Stage::Kernel => "kernel",
            Stage::Download => "download",
            Stage::Blocked => "blocked",
        }
    }
}

/// What one frame cost.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct FrameTiming {
    /// From arrival until ready to be pushed, less `blocked`.
    pub latency: Duration,
    stages: [Duration; 6],
}

impl FrameTiming {
    /// A frame with this latency and all stages 0.
    pub fn new(latency: Duration) -> Self {
        FrameTiming {
            latency,
            stages: [Duration::ZERO; 6],
        }
    }

    /// The same with `stage` set.
    pub fn with(mut self, stage: Stage, time: Duration) -> Self {
        self.stages[stage as usize] = time;
        self
    }

    pub fn stage(&self, stage: Stage) -> Duration {
        self.stages[stage as usize]
    }

    /// The stage of the latency that cost most.
    pub fn costliest(&self) -> Stage {
        Stage::ALL
            .into_iter()
            .filter(|stage| *stage != Stage::Blocked)
            .max_by_key(|stage| self.stage(*stage))
            .unwrap_or(Stage::Kernel)
    }
}

/// Nanoseconds, saturating after 584 years.
pub fn nanoseconds(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}
