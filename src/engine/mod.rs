//! Who computes a plan: an engine prepares it once and then takes frames.

pub mod cpu;
pub mod crossover;
pub mod cuda;
pub mod frame;
pub mod ladder;

use std::sync::Arc;
use std::time::Duration;

pub use frame::{Frame, FrameError, InputFrame, OutputFrame, PlaneSpan, RawPlane};

use gst::glib;

use crate::filter::plan::{Abilities, Plan};
use crate::filter::spec::Precision;
use crate::latency::EngineTiming;

/// Which engine filters.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, glib::Enum)]
#[repr(i32)]
#[enum_type(name = "GstCudaConvBackend")]
pub enum Backend {
    #[default]
    #[enum_value(
        name = "The GPU if one works and frames are large enough, else the CPU",
        nick = "auto"
    )]
    Auto,
    #[enum_value(name = "The GPU; any failure is an error", nick = "cuda")]
    Cuda,
    #[enum_value(name = "The CPU; the driver is never loaded", nick = "cpu")]
    Cpu,
}

/// What an element asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Request {
    pub backend: Backend,
    /// CUDA device; -1 = any.
    pub device_id: i32,
    /// Frames in flight, 1 to 8.
    pub depth: usize,
}

/// An engine that was opened, and why this one.
#[derive(Clone)]
pub struct Opened {
    pub engine: Arc<dyn Engine>,
    /// A sentence for users.
    pub reason: String,
    /// Versions of the NVIDIA driver and of CUDA; empty where they play no part.
    pub driver: String,
    pub cuda: String,
    /// CUDA device in use; -1 on the CPU.
    pub device_id: i32,
}

/// Opens the engine that is asked for.
///
/// # Errors
/// When that engine is not to be had.
pub fn open(request: Request) -> Result<Opened, EngineError> {
    let reason = match request.backend {
        Backend::Cpu => "backend=cpu".into(),
        Backend::Cuda => return Ok(open_cuda(&request, "backend=cuda")?),
        Backend::Auto => match open_cuda(
            &request,
            "backend=auto, and the GPU works; streams of small frames go to the CPU",
        ) {
            Ok(opened) => return Ok(opened),
            Err(error) => error.to_string(),
        },
    };
    Ok(Opened {
        engine: Arc::new(cpu::CpuEngine::new()?),
        reason,
        driver: String::new(),
        cuda: String::new(),
        device_id: -1,
    })
}

fn open_cuda(request: &Request, reason: &str) -> Result<Opened, cuda::driver::DriverError> {
    let engine = cuda::CudaEngine::open(request.device_id, request.depth)?;
    Ok(Opened {
        reason: reason.into(),
        driver: engine.driver_version.clone(),
        cuda: engine.cuda_version.clone(),
        device_id: engine.device_id(),
        engine: Arc::new(engine),
    })
}

/// What failed in an engine: the call, what the engine said of it, and where.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{call} failed on {device}: {reason}")]
pub struct EngineError {
    pub call: String,
    pub reason: String,
    pub device: String,
}

/// A place that can compute plans. One per element instance; dropping it ends its threads once
/// the frames in flight are done.
pub trait Engine: Send + Sync {
    /// The name that `backend` and `stats` use: `cpu` or `cuda`.
    fn backend(&self) -> &'static str;

    /// The device's name, for people.
    fn device(&self) -> &str;

    /// What this engine can compute, and how.
    fn abilities(&self) -> &'static Abilities;

    /// Where buffers are best allocated for this engine; `None` = anywhere.
    fn allocator(&self) -> Option<gst::Allocator> {
        None
    }

    /// Makes `plan` ready to run. Returns `None` if something has to be loaded first, which then
    /// goes on in the background: ask again. With `wait`, waits for it instead.
    ///
    /// # Errors
    /// When the engine cannot run the plan.
    fn prepare(
        &self,
        plan: &Arc<Plan>,
        wait: bool,
    ) -> Result<Option<Arc<dyn Prepared>>, EngineError>;
}

/// A plan made ready by an engine. Frames submitted to one engine start in the order of their
/// submission, also across plans.
pub trait Prepared: Send + Sync {
    /// The lowest precision of the arithmetic of weights in it: no lower than the plan asks for.
    fn precision(&self) -> Precision {
        Precision::Fp32
    }

    /// Starts the work on `frame` and returns; never waits for it to be done.
    fn submit(&self, frame: Frame) -> Box<dyn Ticket>;
}

/// A frame in work.
pub trait Ticket: Send {
    /// Waits until about `lead` before the frame is done. False, soon, where that cannot be told, and
    /// where the frame is done already.
    fn approach(&mut self, _lead: Duration) -> bool {
        false
    }

    /// Waits until the frame is done and gives it back, filtered or, with an error, as it was
    /// (the input untouched, the output undefined).
    fn wait(self: Box<Self>) -> (Frame, Result<EngineTiming, EngineError>);
}
