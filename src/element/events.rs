//! Events and queries of both pads, other than caps.

use std::time::Duration;

use gst::prelude::*;
use gst::subclass::prelude::*;

use super::CAT;
use super::allocation;
use super::imp::{CudaConv, lock};
use super::queue::{EosOutcome, Flow};
use super::streaming::{Item, Qos};

impl CudaConv {
    pub(super) fn sink_event(&self, event: gst::Event) -> Flow {
        gst::trace!(CAT, imp = self, "sink event {event:?}");
        match event.view() {
            gst::EventView::FlushStart(_) => {
                // Downstream first, so that a push that is blocked there returns.
                self.src_pad.push_event(event);
                self.start_flushing();
                // Waits until the task is between two items. Fails when there is no task.
                let _ = self.src_pad.pause_task();
                Ok(gst::FlowSuccess::Ok)
            }
            gst::EventView::FlushStop(_) => {
                self.src_pad.push_event(event);
                self.stop_flushing();
                Ok(gst::FlowSuccess::Ok)
            }
            gst::EventView::Caps(caps) => {
                let caps = caps.caps_owned();
                self.sink_caps(caps, event)
            }
            gst::EventView::Segment(segment) => {
                lock(&self.stream).segment = segment.segment().downcast_ref().cloned();
                self.queue.clear_eos();
                self.enqueue_event(event)
            }
            gst::EventView::StreamStart(_) => {
                self.queue.clear_eos();
                lock(&self.refused).take();
                self.enqueue_event(event)
            }
            gst::EventView::Eos(_) => self.sink_eos(event),
            _ if event.is_serialized() => {
                let sticky = event.is_sticky();
                self.enqueue_event(event)?;
                // Sticky events are seen again with the next frame, which then tells.
                if sticky {
                    Ok(gst::FlowSuccess::Ok)
                } else {
                    self.queue.flow()
                }
            }
            _ => match self.src_pad.push_event(event) {
                true => Ok(gst::FlowSuccess::Ok),
                false => Err(gst::FlowError::Error),
            },
        }
    }

    fn sink_eos(&self, event: gst::Event) -> Flow {
        match self.queue.push_eos(Item::Event(event)) {
            Ok(EosOutcome::Queued) => Ok(gst::FlowSuccess::Ok),
            Ok(EosOutcome::QueuedAfterError(error)) => {
                self.post_flow_error(error);
                Ok(gst::FlowSuccess::Ok)
            }
            Err(item) => {
                self.discard(vec![item]);
                Err(gst::FlowError::Flushing)
            }
        }
    }

    /// Downstream failed and upstream, being at EOS, will not find out.
    pub(super) fn post_flow_error(&self, error: gst::FlowError) {
        gst::element_imp_error!(
            self,
            gst::StreamError::Failed,
            ("Internal data stream error."),
            ["streaming stopped, reason {error:?}"]
        );
    }

    /// Everything that waits returns; what is queued is thrown away.
    pub(super) fn start_flushing(&self) {
        let items = self.queue.flush();
        self.set_pool_flushing(true);
        self.discard(items);
    }

    fn stop_flushing(&self) {
        lock(&self.stream).segment = None;
        lock(&self.refused).take();
        *lock(&self.qos) = Qos::default();
        self.set_pool_flushing(false);
        self.queue.resume(|| {
            if let Err(error) = self.resume_task() {
                gst::error!(CAT, imp = self, "the task does not go on: {error}");
            }
        });
    }

    pub(super) fn set_pool_flushing(&self, flushing: bool) {
        let pool = lock(&self.output_pool).clone();
        if let Some(pool) = pool {
            pool.set_flushing(flushing);
        }
    }

    pub(super) fn sink_query(&self, query: &mut gst::QueryRef) -> bool {
        let serialized = query.is_serialized();
        match query.view_mut() {
            gst::QueryViewMut::Allocation(allocation) => {
                let engine = self.engine_in_use();
                let depth = self.settings().depth;
                match allocation::propose(allocation, engine.as_deref(), depth) {
                    Ok(()) => true,
                    Err(error) => {
                        error.log_with_imp(self);
                        false
                    }
                }
            }
            // In order with the frames, as whoever asks expects; DRAIN wants just that.
            _ if serialized => self.queue.drain().is_ok() && self.src_pad.peer_query(query),
            _ => gst::Pad::query_default(&self.sink_pad, Some(&*self.obj()), query),
        }
    }

    pub(super) fn src_query(&self, query: &mut gst::QueryRef) -> bool {
        match query.view_mut() {
            gst::QueryViewMut::Latency(latency) => {
                let mut upstream = gst::query::Latency::new();
                if !self.sink_pad.peer_query(&mut upstream) {
                    return false;
                }
                let (live, min, max) = upstream.result();
                self.reporter.set_live(live);
                if !live {
                    latency.set(live, min, max);
                    return true;
                }
                let (ours, frames) = self.reporter.answer_latency(self.settings().depth);
                latency.set(
                    live,
                    min + clock_time(ours),
                    max.map(|max| max + clock_time(frames)),
                );
                gst::debug!(
                    CAT,
                    imp = self,
                    "latency: upstream {min} to {max:?}, own {ours:?}"
                );
                true
            }
            _ => gst::Pad::query_default(&self.src_pad, Some(&*self.obj()), query),
        }
    }

    pub(super) fn src_event(&self, event: gst::Event) -> bool {
        match event.view() {
            gst::EventView::Reconfigure(_) => self.queue.clear_not_linked(),
            gst::EventView::Qos(qos) => {
                let (_, proportion, jitter, timestamp) = qos.get();
                let earliest = timestamp.map(|timestamp| {
                    // As GStreamer's decoders do: frames on the way are as late, and catching up
                    // takes as long again.
                    let ahead = match jitter {
                        1.. => jitter.saturating_mul(2),
                        _ => jitter,
                    };
                    let earliest = timestamp.nseconds().saturating_add_signed(ahead);
                    gst::ClockTime::from_nseconds(earliest.min(gst::ClockTime::MAX.nseconds()))
                });
                *lock(&self.qos) = Qos {
                    earliest,
                    proportion,
                };
            }
            _ => (),
        }
        gst::Pad::event_default(&self.src_pad, Some(&*self.obj()), event)
    }
}

fn clock_time(time: Duration) -> gst::ClockTime {
    gst::ClockTime::try_from(time).unwrap_or(gst::ClockTime::MAX)
}
