//! The source side: the task that takes the queue's head, waits until it is done, and pushes it
//! at once.

use std::time::{Duration, Instant};

use gst::prelude::*;
use gst::subclass::prelude::*;

use super::CAT;
use super::allocation;
use super::imp::{CudaConv, lock};
use super::negotiation::{FilterError, make_filter};
use super::queue::Flow;
use super::report::Done;
use super::settings::Settings;
use super::streaming::{Arrived, Filter, FilteredFrame, Item, Slot};
use super::timeline::Output;
use crate::engine::{EngineError, Frame, Ticket};
use crate::latency::{EngineTiming, FrameTiming, Stage};

/// How long before a frame is done a chain that waits for its slot is woken: about what that takes.
const SLOT_SOON: Duration = Duration::from_micros(120);
/// How long before that it gets the slot: what it does before it submits the next frame, for which the
/// device need not wait.
const SLOT_FREE: Duration = Duration::from_micros(60);

impl CudaConv {
    /// One round of the source pad's task.
    pub(super) fn run_task(&self) {
        let Ok(item) = self.queue.next() else {
            self.queue.pause(|| {
                let _ = self.src_pad.pause_task();
            });
            return;
        };
        let result = match item {
            Item::Event(event) => self.push_event(event),
            // Downstream wants no more frames; only events still go there.
            item if self.queue.peek_flow().is_err() => {
                self.discard(vec![item]);
                Ok(gst::FlowSuccess::Ok)
            }
            Item::Filtered(frame) => self.push_filtered(frame),
            Item::Bypassed(arrived, buffer, slot) => self.push_bypassed(&arrived, buffer, slot),
        };
        if let Some(error) = self.queue.finished(result) {
            self.post_flow_error(error);
        }
    }

    fn push_event(&self, event: gst::Event) -> Flow {
        if event.type_() == gst::EventType::Eos {
            let budget = self.settings().budget;
            self.post_structure(self.reporter.stats("cudaconv-summary", budget));
        }
        // What a refused event means shows with the next frame.
        self.src_pad.push_event(event);
        Ok(gst::FlowSuccess::Ok)
    }

    fn push_bypassed(&self, arrived: &Arrived, buffer: gst::Buffer, slot: Slot) -> Flow {
        let (now, number) = (Instant::now(), slot.number());
        drop(slot);
        // The wait for the task was for earlier frames to be taken.
        let ready = arrived.at + arrived.wait.wait + arrived.wait.blocked;
        let timing = FrameTiming::new(arrived.wait.wait)
            .with(Stage::Wait, arrived.wait.wait)
            .with(
                Stage::Blocked,
                arrived.wait.blocked + now.saturating_duration_since(ready),
            );
        let output = Output {
            asked: now,
            got: now,
            timing,
            engine: None,
        };
        let result = self.push_frame(arrived, buffer, timing, true);
        self.trace_frame(arrived, number, &output);
        result
    }

    fn push_filtered(&self, item: FilteredFrame) -> Flow {
        let FilteredFrame {
            arrived,
            submitted,
            mut ticket,
            filter,
            slot,
        } = item;
        let asked = Instant::now();
        let place = slot.number();
        // A single frame in flight is to be alone.
        let slot = match arrived.settings.depth > 1 {
            true => self.release_early(&mut *ticket, slot),
            false => Some(slot),
        };
        let (frame, result) = ticket.wait();
        let (frame, engine, backend) = match result {
            Ok(timing) => (frame, timing, filter.engine.backend()),
            Err(error) => {
                let redone = self.redo_on_cpu(&arrived.settings, &filter, frame, error);
                let (frame, timing) = redone.inspect_err(|_| self.count_dropped(1))?;
                (frame, timing, "cpu")
            }
        };
        let got = Instant::now();
        // The task was busy pushing while the frame got done, or it waited for it here.
        let ready = if engine.finished > asked {
            got
        } else {
            engine.finished
        };
        if let Some(slot) = slot {
            slot.release(ready);
        }
        let Frame { input, output, .. } = frame;
        drop(input);
        let buffer = allocation::into_buffer(output);
        let wait = &arrived.wait;
        lock(&filter.service).record(submitted, ready);
        self.reporter.count(|counts| {
            counts.pinned_in += u64::from(engine.pinned_in);
            counts.pinned_out += u64::from(engine.pinned_out);
        });
        let queued = engine.started.saturating_duration_since(submitted);
        // The processor had other work when this task was to be woken.
        let woken = ready.saturating_duration_since(engine.finished);
        let total = ready.saturating_duration_since(arrived.at);
        let timing = FrameTiming::new(total.saturating_sub(wait.blocked))
            .with(Stage::Wait, wait.wait + queued + woken)
            .with(Stage::CopyIn, engine.copy_in)
            .with(Stage::Upload, engine.upload)
            .with(Stage::Kernel, engine.kernel)
            .with(Stage::Download, engine.download)
            .with(
                Stage::Blocked,
                wait.blocked + got.saturating_duration_since(ready),
            );
        let result = self.push_frame(&arrived, buffer, timing, false);
        let output = Output {
            asked,
            got,
            timing,
            engine: Some((backend, engine)),
        };
        self.trace_frame(&arrived, place, &output);
        result
    }

    /// Gives the slot of a frame that is nearly done to the chain, so that the device goes on without
    /// a break. The slot comes back where that cannot be told, and of a frame that is done: it is
    /// known then when that was.
    fn release_early(&self, ticket: &mut dyn Ticket, slot: Slot) -> Option<Slot> {
        if !ticket.approach(SLOT_SOON) {
            return Some(slot);
        }
        self.queue.slot_soon();
        if !ticket.approach(SLOT_FREE) {
            return Some(slot);
        }
        slot.release(Instant::now());
        None
    }

    /// Counts and tells what a frame cost, then pushes it.
    fn push_frame(
        &self,
        arrived: &Arrived,
        buffer: gst::Buffer,
        timing: FrameTiming,
        bypassed: bool,
    ) -> Flow {
        let done = Done {
            number: arrived.number,
            pts: arrived.pts,
            timing,
            bypassed,
        };
        let telling = self.reporter.finished(&done, &arrived.settings);
        for structure in telling.messages {
            self.post_structure(structure);
        }
        if telling.notify {
            self.obj().notify("last-message");
        }
        if telling.latency_changed {
            self.post_latency();
        }
        gst::trace!(
            CAT,
            imp = self,
            "frame {} after {:?}",
            done.number,
            timing.latency
        );
        self.src_pad.push(buffer)
    }

    /// The engine failed on `frame`: under `backend=auto` the CPU does it again and goes on from
    /// there, so that no frame is lost, doubled or passed unfiltered.
    fn redo_on_cpu(
        &self,
        settings: &Settings,
        filter: &Filter,
        frame: Frame,
        error: EngineError,
    ) -> Result<(Frame, EngineTiming), gst::FlowError> {
        let redone = self.fall_back(settings, error).map_err(FilterError::from);
        let redone = redone.and_then(|cpu| make_filter(&filter.spec, &filter.format, &cpu, true));
        let redone = redone.and_then(|filter| {
            let filter = filter.expect("the CPU engine has nothing to load");
            let (frame, timing) = filter.prepared.submit(frame).wait();
            Ok((frame, timing?))
        });
        redone.map_err(|error| {
            gst::element_imp_error!(self, gst::LibraryError::Failed, ("{error}"));
            gst::FlowError::Error
        })
    }
}
