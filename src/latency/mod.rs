//! Time: what one frame cost, quantiles, the budget. Knows no GStreamer.

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
    pub upload: Duration,
    pub kernel: Duration,
    pub download: Duration,
}
