//! Caps and settings to a filter made ready: what happens between frames, in upstream's thread.

use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use gst::prelude::*;
use gst::subclass::prelude::*;

use super::CAT;
use super::allocation;
use super::imp::{CudaConv, lock};
use super::queue::Flow;
use super::settings::Settings;
use super::streaming::{Filter, Format, Item, Stream};
use crate::engine::{Engine, EngineError, Frame, Prepared};
use crate::filter::plan::{Plan, PlanError};
use crate::filter::{FilterSpec, Layout};
use crate::latency::ServiceEstimate;

/// `None` where the frame rate is unknown or variable.
fn frame_duration(info: &gst_video::VideoInfo) -> Option<Duration> {
    let fps = info.fps();
    (fps.numer() > 0 && fps.denom() > 0)
        .then(|| Duration::from_secs(1) * fps.denom().unsigned_abs() / fps.numer().unsigned_abs())
}

/// A first trial frame that took longer is not repeated: what it says is near enough.
const LONG_TRIAL: Duration = Duration::from_millis(50);

#[derive(Debug, thiserror::Error)]
enum FilterError {
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
        if known && stream.pool.is_some() {
            return self.enqueue_event(event);
        }
        self.queue.drain()?;
        (stream.format, stream.filter) = (None, None);
        let (engine, settings, serial) = self.engine_and_settings()?;
        let started = Instant::now();
        let made = self.make_filter(&settings.filter, &format, &engine, true);
        let made = made.map_err(|error| self.fail_settings(&error))?;
        let made = made.ok_or(gst::FlowError::NotNegotiated)?;
        self.enqueue_event(event)?;
        self.queue.drain()?;
        self.take_output_pool(stream, &format, &engine)?;
        self.ask_whether_live();
        let trial = self.warm_up(&format, &*made.0).map_err(|error| {
            gst::element_imp_error!(self, gst::LibraryError::Failed, ("{error}"));
            gst::FlowError::Error
        })?;
        self.install(stream, made, &settings.filter, &format, &engine, trial);
        let frame_duration = frame_duration(&format.info);
        if self
            .reporter
            .start_format(trial, started.elapsed(), frame_duration)
        {
            self.post_latency();
        }
        stream.serial = serial;
        stream.format = Some(format);
        Ok(gst::FlowSuccess::Ok)
    }

    fn read_caps(&self, caps: &gst::Caps) -> Result<Format, gst::FlowError> {
        let refuse = |reason: String| {
            gst::element_imp_error!(
                self,
                gst::CoreError::Negotiation,
                ("Caps that cannot be filtered: {reason}"),
                ["{caps}"]
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

    fn engine_and_settings(&self) -> Result<(Arc<dyn Engine>, Arc<Settings>, u64), gst::FlowError> {
        let engine = lock(&self.engine).clone().ok_or(gst::FlowError::Flushing)?;
        // Read before the settings: a change in between is then seen again at the next frame.
        let serial = self.settings_serial.load(Ordering::Acquire);
        Ok((engine, self.settings(), serial))
    }

    fn fail_settings(&self, error: &FilterError) -> gst::FlowError {
        gst::element_imp_error!(self, gst::LibraryError::Settings, ("{error}"));
        gst::FlowError::NotNegotiated
    }

    /// The filter for the next frame: the one in force, or a new one when settings, engine or
    /// downstream changed.
    pub(super) fn current_filter(
        &self,
        stream: &mut Stream,
        settings: &Settings,
    ) -> Result<Arc<Filter>, gst::FlowError> {
        let format = stream.format.clone().ok_or(gst::FlowError::NotNegotiated)?;
        let filter = stream.filter.clone().ok_or(gst::FlowError::NotNegotiated)?;
        if self.src_pad.check_reconfigure() {
            self.queue.drain()?;
            self.take_output_pool(stream, &format, &filter.engine)?;
        }
        let (engine, _, serial) = self.engine_and_settings()?;
        let same_engine = Arc::ptr_eq(&engine, &filter.engine);
        if same_engine && serial == stream.serial {
            return Ok(filter);
        }
        if same_engine && filter.spec == settings.filter {
            stream.serial = serial;
            return Ok(filter);
        }
        match self.make_filter(&settings.filter, &format, &engine, !same_engine) {
            Ok(Some(made)) => {
                stream.serial = serial;
                let expected = Duration::ZERO;
                self.install(stream, made, &settings.filter, &format, &engine, expected);
            }
            // Still loading: the old values apply, the next frame asks again.
            Ok(None) => (),
            Err(error) => {
                stream.serial = serial;
                gst::element_imp_warning!(
                    self,
                    gst::LibraryError::Settings,
                    ("{error}. The settings before this change stay in force")
                );
            }
        }
        stream.filter.clone().ok_or(gst::FlowError::NotNegotiated)
    }

    /// Plans and prepares `spec`; `None` while the engine has to load something first.
    fn make_filter(
        &self,
        spec: &FilterSpec,
        format: &Format,
        engine: &Arc<dyn Engine>,
        wait: bool,
    ) -> Result<Option<(Arc<dyn Prepared>, Arc<Plan>)>, FilterError> {
        let plan = Arc::new(Plan::new(spec, &format.layout, engine.abilities())?);
        gst::debug!(
            CAT,
            imp = self,
            "{} as {:?}",
            plan.layout.format,
            plan.algorithm
        );
        Ok(engine
            .prepare(&plan, wait)?
            .map(|prepared| (prepared, plan)))
    }

    fn install(
        &self,
        stream: &mut Stream,
        (prepared, plan): (Arc<dyn Prepared>, Arc<Plan>),
        spec: &FilterSpec,
        format: &Arc<Format>,
        engine: &Arc<dyn Engine>,
        expected: Duration,
    ) {
        self.reporter.set_engine(engine.backend(), engine.device());
        self.reporter.set_method(plan.algorithm.nick());
        stream.filter = Some(Arc::new(Filter {
            spec: spec.clone(),
            format: format.clone(),
            engine: engine.clone(),
            prepared,
            service: Mutex::new(ServiceEstimate::from_trial(expected)),
        }));
    }

    fn take_output_pool(
        &self,
        stream: &mut Stream,
        format: &Format,
        engine: &Arc<dyn Engine>,
    ) -> Result<(), gst::FlowError> {
        // Consumed first: a RECONFIGURE from now on means another round.
        self.src_pad.check_reconfigure();
        stream.pool = None;
        let depth = self.settings().depth;
        let pool = allocation::decide(&self.src_pad, &format.caps, &format.info, &**engine, depth);
        let pool = pool.map_err(|error| {
            if self.queue.peek_flow() == Err(gst::FlowError::Flushing) {
                return gst::FlowError::Flushing;
            }
            gst::element_imp_error!(
                self,
                gst::ResourceError::NoSpaceLeft,
                ("No pool of output frames could be set up"),
                ["{error}"]
            );
            gst::FlowError::Error
        })?;
        *lock(&self.output_pool) = Some(pool.pool.clone());
        stream.pool = Some(pool);
        Ok(())
    }

    /// Runs a trial frame, so that what comes with the first one is paid now; returns what a
    /// frame takes.
    fn warm_up(&self, format: &Format, prepared: &dyn Prepared) -> Result<Duration, EngineError> {
        let interlaced = format.info.interlace_mode() == gst_video::VideoInterlaceMode::Interleaved;
        let timed = |frame| {
            let started = Instant::now();
            let (frame, timing) = prepared.submit(frame).wait();
            timing.map(|_| (frame, started.elapsed()))
        };
        let (frame, first) = timed(Frame::blank(&format.layout, interlaced))?;
        if first > LONG_TRIAL {
            return Ok(first);
        }
        timed(frame).map(|(_, second)| second)
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
