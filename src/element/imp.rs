//! The element's object: properties, pads, state changes.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, LazyLock, Mutex, MutexGuard, OnceLock};

use gst::glib;
use gst::prelude::*;
use gst::subclass::prelude::*;

use super::CAT;
use super::negotiation::Refusal;
use super::queue::Queue;
use super::report::Reporter;
use super::settings::{PROPERTIES, Settings, needs_ready};
use super::streaming::{Item, Qos, Stream};
use crate::engine::{self, Engine, Opened, Request};
use crate::filter::{Layout, Plan, PlanError, layout};
use crate::latency::timeline::ElementTimeline;

/// See the plugin's documentation for what it computes.
pub struct CudaConv {
    pub(super) sink_pad: gst::Pad,
    pub(super) src_pad: gst::Pad,
    /// Replaced whole, so that each frame works with one snapshot.
    settings: Mutex<Arc<Settings>>,
    /// Counts the changes of `settings`.
    pub(super) settings_serial: AtomicU64,
    /// Warnings from before the element had a bus, for NULL→READY.
    early_warnings: Mutex<Vec<String>>,
    /// From NULL→READY to READY→NULL; replaced when an engine fails and another goes on.
    pub(super) engine: Mutex<Option<Arc<dyn Engine>>>,
    /// Of a stream whose frames are too small for the GPU, from its caps on: the CPU.
    pub(super) small: Mutex<Option<Arc<dyn Engine>>>,
    /// What was asked for at NULL→READY, and what it gave.
    opened: Mutex<Option<(Request, Opened)>>,
    pub(super) queue: Arc<Queue<Item>>,
    /// The sink pad's streaming thread owns it: taken by whoever holds that pad's stream lock,
    /// and by state changes once the pads are inactive.
    pub(super) stream: Mutex<Stream>,
    /// Posted last, of caps that have not been taken since.
    pub(super) refused: Mutex<Option<Refusal>>,
    /// Apart from `stream`, so that a flush can wake a chain that waits for a buffer.
    pub(super) output_pool: Mutex<Option<gst::BufferPool>>,
    pub(super) qos: Mutex<Qos>,
    pub(super) reporter: Reporter,
    /// Set at the first start of a process that writes a timeline.
    pub(super) timeline: OnceLock<ElementTimeline>,
}

/// None of our locks is held while calling out, so no panic of others can poison one.
pub(super) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex
        .lock()
        .unwrap_or_else(|poisoned| poisoned.into_inner())
}

/// Grey takes every setting that any format takes.
fn check_without_format(settings: &Settings, engine: &dyn Engine) -> Result<(), PlanError> {
    let info = gst_video::VideoInfo::builder(gst_video::VideoFormat::Gray8, 64, 64);
    let info = info.build().expect("a valid size");
    let layout = Layout::new(&info).expect("a supported format");
    Plan::new(&settings.filter, &Arc::new(layout), engine.abilities()).map(|_| ())
}

impl CudaConv {
    /// The settings as they are now.
    pub(super) fn settings(&self) -> Arc<Settings> {
        lock(&self.settings).clone()
    }

    /// Posts a warning about a setting, and keeps it for NULL→READY if there is no bus yet.
    fn warn_of_setting(&self, text: &str) {
        gst::warning!(CAT, imp = self, "{text}");
        if self.obj().current_state() == gst::State::Null {
            lock(&self.early_warnings).push(text.to_owned());
        }
        self.post_setting_warning(text);
    }

    fn post_setting_warning(&self, text: &str) {
        gst::element_imp_warning!(self, gst::LibraryError::Settings, ("{text}"));
    }

    /// NULL→READY: opens the engine and checks what can be checked without a format.
    fn open_engine(&self) -> Result<(), gst::StateChangeError> {
        let early = std::mem::take(&mut *lock(&self.early_warnings));
        for text in &early {
            self.post_setting_warning(text);
        }
        let settings = self.settings();
        let request = settings.engine_request();
        let opened = engine::open(request).map_err(|error| {
            gst::element_imp_error!(self, gst::ResourceError::OpenRead, ("{error}"));
            gst::StateChangeError
        })?;
        if let Err(error) = check_without_format(&settings, &*opened.engine) {
            // What was refused may be what is missing now, and many programs show errors alone.
            let text = early.iter().fold(error.to_string(), |text, refused| {
                format!("{text}. Refused before: {refused}")
            });
            gst::element_imp_error!(self, gst::LibraryError::Settings, ("{text}"));
            return Err(gst::StateChangeError);
        }
        *lock(&self.engine) = Some(opened.engine.clone());
        *lock(&self.opened) = Some((request, opened));
        Ok(())
    }

    /// READY→PAUSED: all counts start anew, with the engine that the properties ask for now; an
    /// engine that failed in the last run is given another chance.
    fn start(&self) -> Result<(), gst::StateChangeError> {
        let opened = lock(&self.opened).clone();
        let fresh = opened.filter(|(request, opened)| {
            let engine = lock(&self.engine);
            *request == self.settings().engine_request()
                && engine
                    .as_ref()
                    .is_some_and(|engine| Arc::ptr_eq(engine, &opened.engine))
        });
        let opened = match fresh {
            Some((_, opened)) => opened,
            None => {
                self.open_engine()?;
                let opened = lock(&self.opened).clone();
                opened.ok_or(gst::StateChangeError)?.1
            }
        };
        self.reporter.reset();
        self.open_timeline();
        *lock(&self.qos) = Qos::default();
        let engine = &opened.engine;
        gst::info!(
            CAT,
            imp = self,
            "{} on {}",
            engine.backend(),
            engine.device()
        );
        self.reporter.set_engine(engine.backend(), engine.device());
        self.post_structure(
            gst::Structure::builder("cudaconv-backend")
                .field("backend", engine.backend())
                .field("device", engine.device())
                .field("driver", &opened.driver)
                .field("cuda", &opened.cuda)
                .field("reason", &opened.reason)
                .field("device-id", opened.device_id)
                .build(),
        );
        Ok(())
    }

    /// Posts an element message. No lock may be held.
    pub(super) fn post_structure(&self, structure: gst::Structure) {
        let message = gst::message::Element::builder(structure)
            .src(&*self.obj())
            .build();
        // Without a bus nobody listens, which is no fault.
        let _ = self.obj().post_message(message);
    }

    fn activate_sink(&self, active: bool) -> Result<(), gst::LoggableError> {
        if !active {
            // Wakes the chain; only after this does the pad take its stream lock.
            self.start_flushing();
        }
        Ok(())
    }

    fn activate_src(&self, active: bool) -> Result<(), gst::LoggableError> {
        if active {
            let depth = self.settings().depth as usize;
            // Making the task posts a message, whose handlers may call back: not under the lock.
            // It pauses itself, as the queue is flushing still.
            self.start_task()?;
            self.queue.activate(depth, || self.resume_task())?;
        } else {
            let items = self.queue.deactivate();
            self.set_pool_flushing(true);
            self.discard(items);
            self.src_pad.stop_task()?;
            self.flush_timeline();
        }
        Ok(())
    }

    fn start_task(&self) -> Result<(), gst::LoggableError> {
        let element = self.obj().downgrade();
        self.src_pad.start_task(move || {
            let Some(element) = element.upgrade() else {
                return;
            };
            let pause = || {
                let _ = element.imp().src_pad.pause_task();
            };
            CudaConv::catch_panic_pad_function(
                Some(element.upcast_ref()),
                pause,
                CudaConv::run_task,
            );
        })?;
        Ok(())
    }

    /// Lets the task go on that [`Self::start_task`] made. Starting it anew would hand the pad
    /// another closure, which a pad that has a task neither takes nor frees.
    pub(super) fn resume_task(&self) -> Result<(), gst::LoggableError> {
        let task: Option<gst::Task> = {
            let _locked = self.src_pad.object_lock();
            // SAFETY: the pad lives as long as `self`; its lock, which is held, guards the field;
            // the field is null or a task that the pad keeps alive while it is locked, and the
            // result has a reference of its own.
            unsafe { glib::translate::from_glib_none((*self.src_pad.as_ptr()).task) }
        };
        task.ok_or_else(|| gst::loggable_error!(CAT, "the source pad has no task"))?
            .start()?;
        Ok(())
    }
}

#[glib::object_subclass]
impl ObjectSubclass for CudaConv {
    const NAME: &'static str = "GstCudaConv";
    type Type = super::CudaConv;
    type ParentType = gst::Element;

    fn with_class(class: &Self::Class) -> Self {
        let sink_template = class.pad_template("sink").expect("added in pad_templates");
        let sink_pad = gst::Pad::builder_from_template(&sink_template)
            .chain_function(|_, parent, buffer| {
                CudaConv::catch_panic_pad_function(
                    parent,
                    || Err(gst::FlowError::Error),
                    |this| this.sink_chain(buffer),
                )
            })
            .event_full_function(|_, parent, event| {
                CudaConv::catch_panic_pad_function(
                    parent,
                    || Err(gst::FlowError::Error),
                    |this| this.sink_event(event),
                )
            })
            .query_function(|_, parent, query| {
                CudaConv::catch_panic_pad_function(parent, || false, |this| this.sink_query(query))
            })
            .activatemode_function(|_, parent, mode, active| {
                CudaConv::catch_panic_pad_function(
                    parent,
                    || {
                        Err(gst::loggable_error!(
                            CAT,
                            "panic while activating the sink pad"
                        ))
                    },
                    |this| match mode {
                        gst::PadMode::Push => this.activate_sink(active),
                        _ => Err(gst::loggable_error!(CAT, "only push mode is supported")),
                    },
                )
            })
            .flags(gst::PadFlags::PROXY_CAPS)
            .build();

        let src_template = class.pad_template("src").expect("added in pad_templates");
        let src_pad = gst::Pad::builder_from_template(&src_template)
            .event_function(|_, parent, event| {
                CudaConv::catch_panic_pad_function(parent, || false, |this| this.src_event(event))
            })
            .query_function(|_, parent, query| {
                CudaConv::catch_panic_pad_function(parent, || false, |this| this.src_query(query))
            })
            .activatemode_function(|_, parent, mode, active| {
                CudaConv::catch_panic_pad_function(
                    parent,
                    || {
                        Err(gst::loggable_error!(
                            CAT,
                            "panic while activating the source pad"
                        ))
                    },
                    |this| match mode {
                        gst::PadMode::Push => this.activate_src(active),
                        _ => Err(gst::loggable_error!(CAT, "only push mode is supported")),
                    },
                )
            })
            .flags(gst::PadFlags::PROXY_CAPS)
            .build();

        CudaConv {
            sink_pad,
            src_pad,
            settings: Mutex::default(),
            settings_serial: AtomicU64::new(0),
            early_warnings: Mutex::default(),
            engine: Mutex::default(),
            small: Mutex::default(),
            opened: Mutex::default(),
            queue: Arc::default(),
            stream: Mutex::default(),
            refused: Mutex::default(),
            output_pool: Mutex::default(),
            qos: Mutex::default(),
            reporter: Reporter::default(),
            timeline: OnceLock::new(),
        }
    }
}

impl ObjectImpl for CudaConv {
    fn properties() -> &'static [glib::ParamSpec] {
        &PROPERTIES
    }

    fn constructed(&self) {
        self.parent_constructed();
        let element = self.obj();
        element
            .add_pad(&self.sink_pad)
            .expect("the element has no pad yet");
        element
            .add_pad(&self.src_pad)
            .expect("the element has no source pad yet");
    }

    fn set_property(&self, _id: usize, value: &glib::Value, pspec: &glib::ParamSpec) {
        let name = pspec.name();
        if needs_ready(name) && self.obj().current_state() > gst::State::Ready {
            self.warn_of_setting(&format!(
                "{name} can only be changed in the states NULL and READY; the old value stands"
            ));
            return;
        }
        let refused = {
            let mut settings = lock(&self.settings);
            let mut changed = Settings::clone(&settings);
            let result = changed.set(name, value);
            if result.is_ok() {
                *settings = Arc::new(changed);
                self.settings_serial.fetch_add(1, Ordering::Release);
            }
            result.err()
        };
        if let Some(text) = refused {
            self.warn_of_setting(&text);
        }
    }

    fn property(&self, _id: usize, pspec: &glib::ParamSpec) -> glib::Value {
        let settings = self.settings();
        match pspec.name() {
            "last-message" => self.reporter.last_message().to_value(),
            "stats" => self
                .reporter
                .stats("application/x-cudaconv-stats", settings.budget)
                .to_value(),
            name => settings
                .get(name)
                .expect("PROPERTIES lists what Settings holds"),
        }
    }
}

impl GstObjectImpl for CudaConv {}

impl ElementImpl for CudaConv {
    fn metadata() -> Option<&'static gst::subclass::ElementMetadata> {
        static METADATA: LazyLock<gst::subclass::ElementMetadata> = LazyLock::new(|| {
            gst::subclass::ElementMetadata::new(
                "Convolution and bilateral filter",
                "Filter/Effect/Video",
                "Filters raw video by convolution or bilateral filter, on a GPU or the CPU with the same pixels, and reports every frame's latency against a budget",
                "The cudaconv authors",
            )
        });
        Some(&METADATA)
    }

    fn pad_templates() -> &'static [gst::PadTemplate] {
        static TEMPLATES: LazyLock<Vec<gst::PadTemplate>> = LazyLock::new(|| {
            let side = gst::IntRange::new(
                1,
                i32::try_from(layout::MAX_SIDE).expect("a small constant"),
            );
            let formats = layout::supported_formats().map(|format| format.to_str());
            // Without `framerate`: caps that have none are not to be refused.
            let caps = gst::Caps::builder("video/x-raw")
                .field("format", gst::List::new(formats))
                .field("width", side)
                .field("height", side)
                .build();
            [
                ("sink", gst::PadDirection::Sink),
                ("src", gst::PadDirection::Src),
            ]
            .map(|(name, direction)| {
                gst::PadTemplate::new(name, direction, gst::PadPresence::Always, &caps)
                    .expect("name and caps are valid")
            })
            .into()
        });
        &TEMPLATES
    }

    fn change_state(
        &self,
        transition: gst::StateChange,
    ) -> Result<gst::StateChangeSuccess, gst::StateChangeError> {
        match transition {
            gst::StateChange::NullToReady => self.open_engine()?,
            gst::StateChange::ReadyToPaused => self.start()?,
            _ => (),
        }
        let success = self.parent_change_state(transition)?;
        match transition {
            gst::StateChange::PausedToReady => {
                lock(&self.output_pool).take();
                let stream = std::mem::take(&mut *lock(&self.stream));
                drop(stream);
                lock(&self.refused).take();
                self.set_small(None);
            }
            gst::StateChange::ReadyToNull => {
                let engine = (lock(&self.engine).take(), lock(&self.opened).take());
                drop(engine);
            }
            _ => (),
        }
        Ok(success)
    }
}
