//! The CPU engine: one thread per instance that takes frames in order, and one pool of threads,
//! shared by all instances, that computes each frame in bands of rows.

mod band;
mod bilateral;
mod boxes;
#[cfg(target_arch = "x86_64")]
mod byte_bilateral;
mod check;
mod compute;
pub(super) mod correlate;
mod fourier;
mod integer;
mod isa;
mod levels;
mod linear;
mod naive;
mod planes;
mod pool;
mod rows;
mod scratch;
mod simd;
mod streams;
mod whole;
mod worker;

#[cfg(test)]
mod equivalence;
#[cfg(test)]
mod testing;
#[cfg(test)]
mod tests;

use std::sync::Arc;

pub(super) use self::check::{by_levels as check_levels, job as check_job};
use self::compute::Compiled;
use self::isa::Isa;
use self::worker::{Queue, Worker};
use super::{Engine, EngineError, Frame, Prepared, Ticket};
use crate::filter::plan::{Abilities, Algorithm, Plan};

/// What [`CpuEngine`] can compute.
pub static ABILITIES: Abilities = Abilities {
    direct: |_, _| true,
    fft: |_, _| None,
    engine: "CPU",
    algorithms: &[
        Algorithm::Separable,
        Algorithm::Direct,
        Algorithm::Naive,
        Algorithm::Fft,
        Algorithm::Fast,
    ],
};

/// Filters frames on the CPU.
pub struct CpuEngine {
    device: Arc<str>,
    worker: Worker,
}

impl CpuEngine {
    /// Starts an engine.
    ///
    /// # Errors
    /// When the system refuses to start its threads.
    pub fn new() -> Result<CpuEngine, EngineError> {
        let refused = |reason: String| EngineError {
            call: "starting threads".into(),
            reason,
            device: "CPU".into(),
        };
        let pool = pool::shared().map_err(|e| refused(e.to_string()))?;
        let device = isa::describe_device(pool.current_num_threads()).into();
        let worker = Worker::start(Arc::clone(&device)).map_err(|e| refused(e.to_string()))?;
        Ok(CpuEngine { device, worker })
    }
}

impl Engine for CpuEngine {
    fn backend(&self) -> &'static str {
        "cpu"
    }

    fn device(&self) -> &str {
        &self.device
    }

    fn abilities(&self) -> &'static Abilities {
        &ABILITIES
    }

    /// Never has to wait.
    fn prepare(
        &self,
        plan: &Arc<Plan>,
        _wait: bool,
    ) -> Result<Option<Arc<dyn Prepared>>, EngineError> {
        let refused = |reason: String| EngineError {
            call: "preparing a plan".into(),
            reason,
            device: self.device.to_string(),
        };
        let pool = pool::shared().map_err(|e| refused(e.to_string()))?;
        let plan = Compiled::new(plan, Isa::detect(), pool).map_err(refused)?;
        Ok(Some(Arc::new(PreparedPlan {
            plan: Arc::new(plan),
            queue: self.worker.queue().clone(),
        })))
    }
}

struct PreparedPlan {
    plan: Arc<Compiled>,
    queue: Queue,
}

impl Prepared for PreparedPlan {
    fn submit(&self, frame: Frame) -> Box<dyn Ticket> {
        self.queue.submit(&self.plan, frame)
    }
}
