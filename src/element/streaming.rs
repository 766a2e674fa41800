//! The sink side: buffers, events and queries as they arrive, in upstream's thread.

use std::borrow::Cow;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use gst::prelude::*;
use gst::subclass::prelude::*;
use gst_video::prelude::*;

use super::CAT;
use super::allocation::{self, OutputPool};
use super::imp::{CudaConv, lock};
use super::queue::{Flow, Place, Queue, SlotWait};
use super::settings::{OverBudget, Settings};
use crate::engine::{Engine, Frame, OutputFrame, Prepared, Ticket};
use crate::filter::{FilterSpec, Layout};
use crate::latency::{ServiceForecast, nanoseconds};

/// One thing of the stream, on its way from the sink pad to the source pad.
pub enum Item {
    Event(gst::Event),
    Filtered(FilteredFrame),
    /// A frame that passes unfiltered, because it would have been over budget.
    Bypassed(Arrived, gst::Buffer, Slot),
}

impl Item {
    fn handed_over(&mut self, at: Option<Instant>) {
        match self {
            Item::Event(_) => (),
            Item::Filtered(FilteredFrame { arrived, .. }) | Item::Bypassed(arrived, ..) => {
                arrived.handed_over = at;
            }
        }
    }
}

/// What is known of a frame when it joins the queue.
pub struct Arrived {
    pub number: u64,
    pub pts: Option<gst::ClockTime>,
    pub at: Instant,
    pub wait: SlotWait,
    pub settings: Arc<Settings>,
    /// When upstream's thread was done with it; known where a timeline is written.
    pub handed_over: Option<Instant>,
}

/// A frame in work.
pub struct FilteredFrame {
    pub arrived: Arrived,
    pub submitted: Instant,
    pub ticket: Box<dyn Ticket>,
    pub filter: Arc<Filter>,
    /// Given back by the task, or when the frame is discarded.
    pub slot: Slot,
}

/// A slot that is taken; free again when dropped.
pub struct Slot {
    queue: Arc<Queue<Item>>,
    place: Place,
    /// When the work of its frame was over, if that was before the drop.
    idle_since: Option<Instant>,
}

impl Slot {
    /// Which of the frames in flight its frame is.
    pub fn number(&self) -> usize {
        self.place.number
    }

    /// Gives the slot back, whose work was over at `idle_since`.
    pub fn release(mut self, idle_since: Instant) {
        self.idle_since = Some(idle_since);
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        self.queue
            .give_slot(self.place, self.idle_since.unwrap_or_else(Instant::now));
    }
}

/// The settings in force, made ready by an engine for a format.
pub struct Filter {
    pub spec: FilterSpec,
    pub format: Arc<Format>,
    pub engine: Arc<dyn Engine>,
    /// How it is computed, as `stats` calls it.
    pub method: Cow<'static, str>,
    pub prepared: Arc<dyn Prepared>,
    pub service: Mutex<ServiceForecast>,
}

/// The negotiated format.
pub struct Format {
    pub caps: gst::Caps,
    pub info: gst_video::VideoInfo,
    pub layout: Arc<Layout>,
}

/// What the sink pad's streaming thread knows of the stream.
#[derive(Default)]
pub struct Stream {
    /// Of format TIME; otherwise frames have no running time.
    pub segment: Option<gst::FormattedSegment<gst::ClockTime>>,
    pub format: Option<Arc<Format>>,
    pub filter: Option<Arc<Filter>>,
    /// Settings that `filter` was made from, or that were refused in its favour.
    pub serial: u64,
    /// What was told last of settings without effect, empty where there were none.
    pub unused: Option<String>,
    pub pool: Option<OutputPool>,
    /// What the present frame waited for those before it, because downstream asked for a new
    /// negotiation.
    pub drained: SlotWait,
    /// A frame was dropped on purpose: the next one is marked DISCONT.
    discont: bool,
    /// When the over-budget policy last let a frame through.
    last_served: Option<Instant>,
}

/// What downstream's QoS events say.
#[derive(Default)]
pub struct Qos {
    /// Frames with a running time up to this one would be late.
    pub earliest: Option<gst::ClockTime>,
    pub proportion: f64,
}

/// A service estimate over budget would never be put right while its frames are all dropped or
/// bypassed, so this often one is served nevertheless.
const PROBE_PERIOD: Duration = Duration::from_secs(1);

impl CudaConv {
    /// The chain function: hands a frame to the engine and returns, waiting only for a free slot.
    pub(super) fn sink_chain(&self, buffer: gst::Buffer) -> Flow {
        let at = Instant::now();
        self.queue.flow()?;
        let mut stream = lock(&self.stream);
        let stream = &mut *stream;
        self.sync_controlled_properties(stream, &buffer);
        let wanted = self.wanted()?;
        let filter = self.current_filter(stream, &wanted, at)?;
        let settings = wanted.settings;
        let number = self.reporter.arrived();
        if settings.qos && self.is_late(stream, &buffer) {
            self.drop_frame(stream, &buffer);
            self.trace_drop(number, "qos");
            return self.queue.flow();
        }
        let format = &filter.format;
        let input = match allocation::map_input(buffer.clone(), &format.info, &format.layout) {
            Ok(input) => input,
            Err(error) => {
                self.warn_of_buffer(&error.to_string());
                return self.queue.flow();
            }
        };
        let (place, mut wait) = self
            .queue
            .take_slot(at)
            .inspect_err(|_| self.count_dropped(1))?;
        // After a drain every slot was free.
        wait.wait += stream.drained.wait;
        wait.blocked += stream.drained.blocked;
        let mut slot = Slot {
            queue: self.queue.clone(),
            place,
            idle_since: None,
        };
        let mut arrived = Arrived {
            number,
            pts: buffer.pts(),
            at,
            wait,
            settings,
            handed_over: None,
        };
        let mut item = match stream.judge_budget(&arrived, &filter) {
            OverBudget::Drop => {
                self.drop_frame(stream, &buffer);
                self.trace_drop(number, "over budget");
                return self.queue.flow();
            }
            OverBudget::Bypass => {
                drop(input);
                // It keeps the slot, so that the queue stays short, but there is no work.
                slot.idle_since = Some(at + arrived.wait.wait + arrived.wait.blocked);
                let buffer = self.unfiltered(stream, format, buffer)?;
                Item::Bypassed(arrived, buffer, slot)
            }
            OverBudget::Report => {
                let frame = Frame {
                    input,
                    output: self.output_frame(stream, format, &buffer, &mut arrived.wait)?,
                    interlaced: is_interlaced(format, &buffer),
                };
                drop(buffer);
                let submitted = Instant::now();
                lock(&filter.service).submitted(submitted);
                Item::Filtered(FilteredFrame {
                    arrived,
                    submitted,
                    ticket: filter.prepared.submit(frame),
                    filter,
                    slot,
                })
            }
        };
        item.handed_over(self.timeline_now());
        if let Err(item) = self.queue.push(item) {
            self.discard(vec![item]);
        }
        self.queue.flow()
    }

    fn sync_controlled_properties(&self, stream: &Stream, buffer: &gst::BufferRef) {
        let element = self.obj();
        if !element.has_active_control_bindings() {
            return;
        }
        if let (Some(segment), Some(pts)) = (&stream.segment, buffer.pts())
            && let Some(time) = segment.to_stream_time(pts)
            && let Err(error) = element.sync_values(time)
        {
            gst::warning!(CAT, imp = self, "controlled properties at {time}: {error}");
        }
    }

    /// True for a frame of a live pipeline that downstream's QoS events say will be late.
    fn is_late(&self, stream: &Stream, buffer: &gst::BufferRef) -> bool {
        if !self.reporter.is_live() {
            return false;
        }
        let (Some(running_time), Some(earliest)) =
            (stream.running_time(buffer.pts()), lock(&self.qos).earliest)
        else {
            return false;
        };
        running_time <= earliest
    }

    /// Drops a frame on purpose: counted, told by a QoS message, the next one marked DISCONT.
    fn drop_frame(&self, stream: &mut Stream, buffer: &gst::BufferRef) {
        self.count_dropped(1);
        stream.discont = true;
        let running_time = stream.running_time(buffer.pts());
        let proportion = lock(&self.qos).proportion;
        let counts = self.reporter.counts();
        let jitter = match (running_time, lock(&self.qos).earliest) {
            (Some(at), Some(earliest)) => {
                i64::try_from(earliest.nseconds().saturating_sub(at.nseconds())).unwrap_or(i64::MAX)
            }
            _ => 0,
        };
        let segment = stream.segment.as_ref();
        let message = gst::message::Qos::builder(self.reporter.is_live())
            .src(&*self.obj())
            .running_time(running_time)
            .stream_time(
                segment
                    .zip(buffer.pts())
                    .and_then(|(segment, pts)| segment.to_stream_time(pts)),
            )
            .timestamp(buffer.pts())
            .duration(buffer.duration())
            .values(jitter, proportion, 1_000_000)
            .stats(
                gst::format::Buffers::from_u64(counts.frames_out),
                gst::format::Buffers::from_u64(counts.dropped),
            )
            .build();
        let _ = self.obj().post_message(message);
    }

    /// A buffer that cannot be filtered is dropped, and said so at most once a second.
    fn warn_of_buffer(&self, reason: &str) {
        if let Some(count) = self.reporter.bad_buffer() {
            gst::element_imp_warning!(
                self,
                gst::StreamError::Format,
                ("Dropped {count} buffer(s) that cannot be filtered: {reason}")
            );
        }
    }

    pub(super) fn count_dropped(&self, frames: u64) {
        self.reporter.count(|counts| counts.dropped += frames);
    }

    /// An output buffer with the metadata of `input`, mapped for the engine. Waiting for a buffer
    /// of a limited pool is waiting for downstream.
    fn output_frame(
        &self,
        stream: &mut Stream,
        format: &Format,
        input: &gst::BufferRef,
        wait: &mut SlotWait,
    ) -> Result<OutputFrame, gst::FlowError> {
        let asked = Instant::now();
        let limited = stream.pool.as_ref().is_some_and(|pool| pool.limited);
        let buffer = self.output_buffer(stream, input)?;
        // Memory that is new takes its time, too.
        match limited {
            true => wait.blocked += asked.elapsed(),
            false => wait.wait += asked.elapsed(),
        }
        allocation::map_output(buffer, &format.info, &format.layout).map_err(|error| {
            self.count_dropped(1);
            gst::element_imp_error!(
                self,
                gst::ResourceError::Write,
                ("Downstream's buffer cannot be written: {error}")
            );
            gst::FlowError::Error
        })
    }

    /// A buffer of the output pool with timestamps, flags and metas of `input`.
    fn output_buffer(
        &self,
        stream: &mut Stream,
        input: &gst::BufferRef,
    ) -> Result<gst::Buffer, gst::FlowError> {
        let pool = &stream
            .pool
            .as_ref()
            .ok_or(gst::FlowError::NotNegotiated)?
            .pool;
        let mut buffer = pool.acquire_buffer(None).inspect_err(|error| {
            self.count_dropped(1);
            if *error != gst::FlowError::Flushing {
                gst::element_imp_error!(
                    self,
                    gst::ResourceError::NoSpaceLeft,
                    ("No memory for an output frame")
                );
            }
        })?;
        let output = buffer.make_mut();
        let copied = input.copy_into(
            output,
            gst::BufferCopyFlags::FLAGS
                | gst::BufferCopyFlags::TIMESTAMPS
                | gst::BufferCopyFlags::META,
            ..,
        );
        if let Err(error) = copied {
            gst::warning!(CAT, imp = self, "metadata of a frame: {error}");
        }
        if std::mem::take(&mut stream.discont) {
            output.set_flags(gst::BufferFlags::DISCONT);
        }
        Ok(buffer)
    }

    /// `buffer` in a layout that downstream understands.
    fn unfiltered(
        &self,
        stream: &mut Stream,
        format: &Format,
        mut buffer: gst::Buffer,
    ) -> Result<gst::Buffer, gst::FlowError> {
        let video_meta = stream.pool.as_ref().is_some_and(|pool| pool.video_meta);
        if video_meta || allocation::has_default_layout(&buffer, &format.info) {
            if std::mem::take(&mut stream.discont) {
                buffer.make_mut().set_flags(gst::BufferFlags::DISCONT);
            }
            return Ok(buffer);
        }
        let output = self.output_buffer(stream, &buffer)?;
        allocation::copy_picture(buffer, output, &format.info, &format.layout).map_err(|error| {
            self.count_dropped(1);
            gst::element_imp_error!(
                self,
                gst::ResourceError::Write,
                ("Downstream's buffer cannot be written: {error}")
            );
            gst::FlowError::Error
        })
    }

    /// Throws queued items away, but for sticky events: these stay on the source pad, so that
    /// frames behind a flush have their caps.
    pub(super) fn discard(&self, items: Vec<Item>) {
        for item in items {
            match item {
                Item::Event(event) => {
                    let lost = [gst::EventType::Segment, gst::EventType::Eos];
                    if event.is_sticky() && !lost.contains(&event.type_()) {
                        let _ = self.src_pad.store_sticky_event(&event);
                    }
                }
                Item::Filtered(_) | Item::Bypassed(..) => self.count_dropped(1),
            }
        }
    }
}

/// Whether the rows of two fields alternate in `buffer`.
fn is_interlaced(format: &Format, buffer: &gst::BufferRef) -> bool {
    match format.info.interlace_mode() {
        gst_video::VideoInterlaceMode::Interleaved => true,
        gst_video::VideoInterlaceMode::Mixed => buffer
            .video_flags()
            .contains(gst_video::VideoBufferFlags::INTERLACED),
        _ => false,
    }
}

impl Stream {
    pub(super) fn running_time(&self, pts: Option<gst::ClockTime>) -> Option<gst::ClockTime> {
        self.segment.as_ref()?.to_running_time(pts?)
    }

    /// What the over-budget policy says of a frame that has its slot.
    fn judge_budget(&mut self, arrived: &Arrived, filter: &Filter) -> OverBudget {
        let now = Instant::now();
        let expected = arrived.wait.wait + lock(&filter.service).expect(now);
        let late = nanoseconds(expected) > arrived.settings.budget;
        let served = *self.last_served.get_or_insert(now);
        if late && now.duration_since(served) < PROBE_PERIOD {
            return arrived.settings.over_budget;
        }
        self.last_served = Some(now);
        OverBudget::Report
    }
}
