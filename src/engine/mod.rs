//! Who computes a plan: an engine prepares it once and then takes frames.

pub mod cpu;
pub mod frame;

use std::sync::Arc;

pub use frame::{Frame, FrameError, InputFrame, OutputFrame, PlaneSpan, RawPlane};

use crate::filter::plan::{Abilities, Plan};
use crate::latency::EngineTiming;

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
    /// Starts the work on `frame` and returns; never waits for it to be done.
    fn submit(&self, frame: Frame) -> Box<dyn Ticket>;
}

/// A frame in work.
pub trait Ticket: Send {
    /// Waits until the frame is done and gives it back, filtered or, with an error, as it was
    /// (the input untouched, the output undefined).
    fn wait(self: Box<Self>) -> (Frame, Result<EngineTiming, EngineError>);
}
