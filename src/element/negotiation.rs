//! Caps and settings to a filter made ready: what happens between frames, in upstream's thread.

use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use gst::prelude::*;
use gst::subclass::prelude::*;

use super::CAT;
use super::allocation;
use super::imp::{CudaConv, lock};
use super::queue::{Flow, SlotWait};
use super::settings::Settings;
use super::streaming::{Filter, Format, Item, Stream};
use crate::engine::cpu::CpuEngine;
use crate::engine::{self, Backend, Engine, EngineError, Frame, Prepared, Request, crossover};
use crate::filter::plan::{Plan, PlanError};
use crate::filter::spec::Method;
use crate::filter::{FilterSpec, Layout, effect, precision};
use crate::latency::ServiceForecast;

/// `None` where the frame rate is unknown or variable.
fn frame_duration(info: &gst_video::VideoInfo) -> Option<Duration> {
    let fps = info.fps();
    (fps.numer() > 0 && fps.denom() > 0)
        .then(|| Duration::from_secs(1) * fps.denom().unsigned_abs() / fps.numer().unsigned_abs())
}

/// A first trial frame that took longer is not repeated: what it says is near enough.
const LONG_TRIAL: Duration = Duration::from_millis(50);
const MORE_TRIALS: u32 = 3;

/// What the next frame is to be filtered with.
pub(super) struct Wanted {
    pub engine: Arc<dyn Engine>,
    pub settings: Arc<Settings>,
    serial: u64,
}

/// An error that was posted, with the caps and the settings that it was about.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Refusal {
    caps: gst::Caps,
    filter: FilterSpec,
    text: String,
}

#[derive(Debug, thiserror::Error)]
pub(super) enum FilterError {
    #[error(transparent)]
    Plan(#[from] PlanError),
    #[error(transparent)]
    Engine(#[from] EngineError),
}

impl CudaConv {
    /// New caps: everything before them goes out first, then they, then all is set up anew and
    /// warmed up.
    pub(super) fn sink_caps(&self, caps: gst::Caps, event: gst::Event) -> Flow {
        let format = Arc::new(self.read_caps(&caps)?);
        let mut stream = lock(&self.stream);
        let stream = &mut *stream;
        let known = stream
            .format
            .as_ref()
            .is_some_and(|known| known.caps == caps);
        if known {
            return self.enqueue_event(event);
        }
        self.queue.drain()?;
        (stream.format, stream.filter, stream.pool) = (None, None, None);
        let started = Instant::now();
        self.choose_engine(&format)?;
        let wanted = self.wanted()?;
        let (filter, trial) = self.ready_filter(&wanted, &format)?;
        self.enqueue_event(event)?;
        self.queue.drain()?;
        self.take_output_pool(stream, &format, &*filter.engine)?;
        self.ask_whether_live();
        let frame_duration = frame_duration(&format.info);
        if self
            .reporter
            .start_format(trial, started.elapsed(), frame_duration)
        {
            self.post_latency();
        }
        self.install(stream, filter, wanted.serial);
        stream.format = Some(format);
        lock(&self.refused).take();
        Ok(gst::FlowSuccess::Ok)
    }

    /// A filter that has run a trial frame, and what that took.
    fn ready_filter(
        &self,
        wanted: &Wanted,
        format: &Arc<Format>,
    ) -> Result<(Filter, Duration), gst::FlowError> {
        let ready = |engine: &Arc<dyn Engine>| {
            let filter = make_filter(&wanted.settings.filter, format, engine, true)?;
            let filter = filter.ok_or_else(|| EngineError {
                call: "prepare".into(),
                reason: "the engine is not ready".into(),
                device: engine.device().into(),
            })?;
            let trial = warm_up(format, &**engine, &*filter.prepared)?;
            *lock(&filter.service) = ServiceForecast::from_trial(trial);
            Ok((filter, trial))
        };
        let result = ready(&wanted.engine).or_else(|error| match error {
            FilterError::Engine(error) => ready(&self.fall_back(&wanted.settings, error)?),
            error => Err(error),
        });
        result.map_err(|error| {
            let domain = match &error {
                FilterError::Plan(_) => gst::LibraryError::Settings,
                FilterError::Engine(_) => gst::LibraryError::Failed,
            };
            let filter = &wanted.settings.filter;
            self.post_refusal(&format.caps, filter, domain, error.to_string());
            gst::FlowError::NotNegotiated
        })
    }

    /// Posts an error that keeps frames of `caps` from being filtered as `filter` says. Once: an event that was
    /// refused is a sticky one still, and GStreamer sends it again before whatever comes next.
    fn post_refusal<E: gst::MessageErrorDomain>(
        &self,
        caps: &gst::Caps,
        filter: &FilterSpec,
        domain: E,
        text: String,
    ) {
        let refusal = Some(Refusal {
            caps: caps.clone(),
            filter: filter.clone(),
            text: text.clone(),
        });
        let mut refused = lock(&self.refused);
        if *refused == refusal {
            gst::debug!(CAT, imp = self, "still: {text}");
            return;
        }
        *refused = refusal;
        drop(refused);
        gst::element_imp_error!(self, domain, ("{text}"), ["{caps}"]);
    }

    /// Under `backend=auto` the CPU takes over from an engine that failed, with one warning.
    ///
    /// # Errors
    /// The failure itself, where nothing takes over.
    pub(super) fn fall_back(
        &self,
        settings: &Settings,
        failure: EngineError,
    ) -> Result<Arc<dyn Engine>, EngineError> {
        let current = lock(&self.engine).clone();
        if lock(&self.small).is_some() {
            // It was the CPU that failed.
            self.set_small(None);
            return current.ok_or(failure);
        }
        if let Some(cpu) = current.filter(|engine| engine.backend() == "cpu") {
            return Ok(cpu);
        }
        if settings.backend != Backend::Auto {
            return Err(failure);
        }
        let opened = engine::open(Request {
            backend: Backend::Cpu,
            ..settings.engine_request()
        })?;
        *lock(&self.engine) = Some(opened.engine.clone());
        gst::element_imp_warning!(
            self,
            gst::LibraryError::Failed,
            ("{failure}. The stream goes on with the CPU from this frame on")
        );
        Ok(opened.engine)
    }

    /// The engine that filters the stream.
    pub(super) fn engine_in_use(&self) -> Option<Arc<dyn Engine>> {
        let small = lock(&self.small).clone();
        small.or_else(|| lock(&self.engine).clone())
    }

    /// Under `backend=auto` a stream of small frames, to which a GPU is no help, goes to the CPU.
    fn choose_engine(&self, format: &Format) -> Result<(), gst::FlowError> {
        let settings = self.settings();
        let opened = lock(&self.engine).clone().ok_or(gst::FlowError::Flushing)?;
        let for_cpu = settings.backend == Backend::Auto
            && opened.backend() != "cpu"
            && crossover::is_for_cpu(&settings.filter, &format.layout);
        let small = match for_cpu.then(CpuEngine::new) {
            Some(Ok(engine)) => {
                gst::info!(CAT, imp = self, "frames of this size are for the CPU");
                Some(Arc::new(engine) as Arc<dyn Engine>)
            }
            Some(Err(error)) => {
                gst::warning!(CAT, imp = self, "{error}; the GPU does it, too");
                None
            }
            None => None,
        };
        self.set_small(small);
        Ok(())
    }

    pub(super) fn set_small(&self, engine: Option<Arc<dyn Engine>>) {
        // The one before goes when no lock is held: its threads end.
        let before = std::mem::replace(&mut *lock(&self.small), engine);
        drop(before);
    }

    fn read_caps(&self, caps: &gst::Caps) -> Result<Format, gst::FlowError> {
        let refuse = |reason: String| {
            self.post_refusal(
                caps,
                &self.settings().filter,
                gst::CoreError::Negotiation,
                format!("Caps that cannot be filtered: {reason}"),
            );
            gst::FlowError::NotNegotiated
        };
        let info =
            gst_video::VideoInfo::from_caps(caps).map_err(|error| refuse(error.to_string()))?;
        let modes = [
            gst_video::VideoInterlaceMode::Progressive,
            gst_video::VideoInterlaceMode::Interleaved,
            gst_video::VideoInterlaceMode::Mixed,
        ];
        if !modes.contains(&info.interlace_mode()) {
            return Err(refuse(format!(
                "interlace-mode {:?}; accepted are progressive, interleaved and mixed",
                info.interlace_mode()
            )));
        }
        let layout = Layout::new(&info).map_err(|error| refuse(error.to_string()))?;
        Ok(Format {
            caps: caps.clone(),
            info,
            layout: Arc::new(layout),
        })
    }

    pub(super) fn wanted(&self) -> Result<Wanted, gst::FlowError> {
        let engine = self.engine_in_use().ok_or(gst::FlowError::Flushing)?;
        // Read before the settings: a change in between is then seen again at the next frame.
        let serial = self.settings_serial.load(Ordering::Acquire);
        Ok(Wanted {
            engine,
            settings: self.settings(),
            serial,
        })
    }

    /// The filter for the next frame: the one in force, or a new one when settings, engine or
    /// downstream changed.
    pub(super) fn current_filter(
        &self,
        stream: &mut Stream,
        wanted: &Wanted,
        arrival: Instant,
    ) -> Result<Arc<Filter>, gst::FlowError> {
        stream.drained = SlotWait::default();
        let format = stream.format.clone().ok_or(gst::FlowError::NotNegotiated)?;
        let filter = stream.filter.clone().ok_or(gst::FlowError::NotNegotiated)?;
        if stream.pool.is_none() || self.src_pad.needs_reconfigure() {
            stream.drained = self.queue.drain_for(arrival)?;
            self.take_output_pool(stream, &format, &*filter.engine)?;
        }
        if !Arc::ptr_eq(&wanted.engine, &filter.engine) {
            let (filter, _) = self.ready_filter(wanted, &format)?;
            return Ok(self.install(stream, filter, wanted.serial));
        }
        if wanted.serial == stream.serial {
            return Ok(filter);
        }
        if filter.spec == wanted.settings.filter {
            stream.serial = wanted.serial;
            return Ok(filter);
        }
        // The CPU was taken for a small frame and the best method; others are for the GPU.
        let leaves_cpu =
            wanted.settings.filter.method != Method::Auto && lock(&self.small).is_some();
        let engine = match leaves_cpu {
            true => lock(&self.engine).clone().ok_or(gst::FlowError::Flushing)?,
            false => wanted.engine.clone(),
        };
        match make_filter(&wanted.settings.filter, &format, &engine, false) {
            Ok(Some(made)) => {
                if leaves_cpu {
                    self.set_small(None);
                }
                Ok(self.install(stream, made, wanted.serial))
            }
            // Still loading: the old values apply, the next frame asks again.
            Ok(None) => Ok(filter),
            Err(error) => {
                stream.serial = wanted.serial;
                gst::element_imp_warning!(
                    self,
                    gst::LibraryError::Settings,
                    ("{error}. The settings before this change stay in force")
                );
                Ok(filter)
            }
        }
    }

    fn install(&self, stream: &mut Stream, filter: Filter, serial: u64) -> Arc<Filter> {
        let engine = &filter.engine;
        self.reporter.set_engine(engine.backend(), engine.device());
        self.reporter.set_method(filter.method.clone());
        self.tell_unused(stream, &filter);
        let filter = Arc::new(filter);
        stream.filter = Some(filter.clone());
        stream.serial = serial;
        filter
    }

    /// Says which settings have no effect: on the bus at the start, where they are most likely a mistake; later, as
    /// programs that go from kernel to kernel leave the others' settings as they are, in the log alone.
    fn tell_unused(&self, stream: &mut Stream, filter: &Filter) {
        let unused = effect::unused(&filter.spec, &filter.format.layout);
        let mut unused: Vec<String> = unused.iter().map(ToString::to_string).collect();
        let settings = self.settings();
        if settings.backend == Backend::Cpu && settings.cuda_device_id != -1 {
            unused.push("cuda-device-id (for GPUs)".into());
        }
        let text = match unused.is_empty() {
            true => String::new(),
            false => format!("Settings without effect here: {}", unused.join(", ")),
        };
        if stream.unused.as_ref() == Some(&text) {
            return;
        }
        let is_start = stream.unused.replace(text.clone()).is_none();
        if text.is_empty() {
            return;
        }
        gst::info!(CAT, imp = self, "{text}");
        if is_start {
            let element = self.obj();
            // Of such messages gst-launch-1.0 prints the debug text alone.
            let message = gst::message::Info::builder(gst::LibraryError::Settings, &text)
                .debug(&text)
                .src(&*element);
            let _ = element.post_message(message.build());
        }
    }

    fn take_output_pool(
        &self,
        stream: &mut Stream,
        format: &Format,
        engine: &dyn Engine,
    ) -> Result<(), gst::FlowError> {
        // Consumed first: a RECONFIGURE from now on means another round.
        self.src_pad.check_reconfigure();
        stream.pool = None;
        let depth = self.settings().depth;
        // A flush or a stop wakes whoever waits in the pool that is known here.
        let make_known = |pool: &gst::BufferPool| {
            *lock(&self.output_pool) = Some(pool.clone());
            self.queue.peek_flow() != Err(gst::FlowError::Flushing)
        };
        let pool = allocation::decide(&self.src_pad, format, engine, depth, make_known);
        let pool = pool.map_err(|error| {
            if self.queue.peek_flow() == Err(gst::FlowError::Flushing) {
                return gst::FlowError::Flushing;
            }
            self.post_refusal(
                &format.caps,
                &self.settings().filter,
                gst::ResourceError::NoSpaceLeft,
                format!("No pool of output frames could be set up: {error}"),
            );
            gst::FlowError::Error
        })?;
        make_known(&pool.pool);
        stream.pool = Some(pool);
        Ok(())
    }

    /// Upstream's LATENCY answer says whether the pipeline is live.
    fn ask_whether_live(&self) {
        let mut query = gst::query::Latency::new();
        if self.sink_pad.peer_query(&mut query) {
            self.reporter.set_live(query.result().0);
        }
    }

    pub(super) fn post_latency(&self) {
        let message = gst::message::Latency::builder().src(&*self.obj()).build();
        let _ = self.obj().post_message(message);
    }

    pub(super) fn enqueue_event(&self, event: gst::Event) -> Flow {
        match self.queue.push(Item::Event(event)) {
            Ok(()) => Ok(gst::FlowSuccess::Ok),
            Err(item) => {
                self.discard(vec![item]);
                Err(gst::FlowError::Flushing)
            }
        }
    }
}

/// Plans and prepares `spec`; `None` while the engine has to load something first, unless `wait`.
pub(super) fn make_filter(
    spec: &FilterSpec,
    format: &Arc<Format>,
    engine: &Arc<dyn Engine>,
    wait: bool,
) -> Result<Option<Filter>, FilterError> {
    let plan = Arc::new(Plan::new(spec, &format.layout, engine.abilities())?);
    let prepared = engine.prepare(&plan, wait)?;
    Ok(prepared.map(|prepared| Filter {
        spec: spec.clone(),
        format: format.clone(),
        engine: engine.clone(),
        method: precision::told(&plan, prepared.precision()),
        prepared,
        service: Mutex::new(ServiceForecast::from_trial(Duration::ZERO)),
    }))
}

/// Runs trial frames, so that what comes with the first ones is paid now; returns what a frame
/// takes: the quickest, as whatever else the machine does only makes them slower. The first is in
/// plain memory; the others are in the engine's own, where it has such memory, as most streams'
/// frames are.
fn warm_up(
    format: &Format,
    engine: &dyn Engine,
    prepared: &dyn Prepared,
) -> Result<Duration, EngineError> {
    let interlaced = format.info.interlace_mode() == gst_video::VideoInterlaceMode::Interleaved;
    let timed = |frame| {
        let started = Instant::now();
        let (frame, timing) = prepared.submit(frame).wait();
        timing.map(|_| (frame, started.elapsed()))
    };
    let (frame, first) = timed(Frame::blank(&format.layout, interlaced))?;
    let own = allocation::trial_frame(engine, &format.info, &format.layout, interlaced);
    if first > LONG_TRIAL && own.is_none() {
        return Ok(first);
    }
    let mut quickest = first;
    let mut frame = own.unwrap_or(frame);
    for _ in 0..MORE_TRIALS {
        let (done, trial) = timed(frame)?;
        frame = done;
        quickest = quickest.min(trial);
    }
    Ok(quickest)
}
