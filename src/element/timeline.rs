//! The element's tracks in the process's timeline.

use std::time::Instant;

use gst::prelude::*;
use gst::subclass::prelude::*;

use super::imp::CudaConv;
use super::streaming::Arrived;
use crate::latency::timeline::{self, FrameSpans, TimelineError};
use crate::latency::{EngineTiming, FrameTiming, nanoseconds};

/// When the output task began to wait for a frame and when it had it; with what its engine said,
/// if it had one.
pub(super) struct Output {
    pub asked: Instant,
    pub got: Instant,
    pub timing: FrameTiming,
    pub engine: Option<(&'static str, EngineTiming)>,
}

impl CudaConv {
    /// At a start: the tracks, where the process writes a timeline.
    pub(super) fn open_timeline(&self) {
        match timeline::of_process() {
            None => (),
            Some(Err(error)) => self.warn_of_timeline(error),
            Some(Ok(timeline)) => {
                let (name, depth) = (self.obj().name(), self.settings().depth as usize);
                match self.timeline.get() {
                    Some(tracks) => tracks.name(&name, depth),
                    None => {
                        // Nobody else sets it: state changes come one after the other.
                        let _ = self.timeline.set(timeline.element(&name, depth));
                    }
                }
            }
        }
    }

    /// At a stop: what is in the file then is all there was.
    pub(super) fn flush_timeline(&self) {
        if let Some(tracks) = self.timeline.get() {
            tracks.flush();
        }
    }

    fn warn_of_timeline(&self, error: &TimelineError) {
        gst::element_imp_warning!(self, gst::ResourceError::OpenWrite, ("{error}"));
    }

    /// For [`Arrived::handed_over`]: the time, if it is of use.
    pub(super) fn timeline_now(&self) -> Option<Instant> {
        self.timeline.get().map(|_| Instant::now())
    }

    /// A frame was pushed.
    pub(super) fn trace_frame(&self, arrived: &Arrived, slot: usize, output: &Output) {
        let Some(tracks) = self.timeline.get() else {
            return;
        };
        let pushed = Instant::now();
        let handed_over = arrived.handed_over.unwrap_or(output.asked);
        tracks.frame(FrameSpans {
            number: arrived.number,
            slot,
            arrived: arrived.at,
            wait: arrived.wait.wait + arrived.wait.blocked,
            handed_over,
            engine: output.engine,
            asked: output.asked,
            got: output.got,
            pushed,
            timing: output.timing,
            over_budget: nanoseconds(output.timing.latency) > arrived.settings.budget,
        });
        if let Some(error) = tracks.failure() {
            self.warn_of_timeline(error);
        }
    }

    /// A frame was dropped on purpose.
    pub(super) fn trace_drop(&self, number: u64, reason: &'static str) {
        if let Some(tracks) = self.timeline.get() {
            tracks.dropped(number, reason);
        }
    }
}
