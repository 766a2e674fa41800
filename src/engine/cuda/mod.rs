//! The engine that filters on an NVIDIA GPU.
//!
//! A frame is uploaded, filtered and downloaded on the stream of its slot; the slots of an engine
//! alternate, so that copies of one frame overlap kernels of another. All engines on a device
//! share its primary context, its modules and its pinned memory.

pub mod abi;
mod allocator;
mod api;
mod bands;
mod choose;
mod clock;
mod context;
pub mod doctor;
pub mod driver;
mod error;
mod floor;
pub mod ladder;
mod launch;
pub mod measure;
mod module;
mod pinned;
mod prepared;
mod slot;
mod staging;
mod team;
mod transfer;
mod work;

use std::sync::Arc;
use std::sync::atomic::Ordering;

use gst::prelude::*;

use self::allocator::PinnedAllocator;
use self::driver::DriverError;
use self::launch::Launches;
use self::prepared::{PreparedProgram, Program, Shared};
use super::{Engine, EngineError, Prepared};
use crate::filter::plan::{Abilities, Algorithm, Plan};

/// What [`CudaEngine`] can compute.
pub static ABILITIES: Abilities = Abilities {
    engine: "GPU",
    algorithms: &[
        Algorithm::Direct,
        Algorithm::Separable,
        Algorithm::Tile,
        Algorithm::Naive,
        Algorithm::Fft,
        Algorithm::Fast,
    ],
    direct: choose::has_direct,
    fft: choose::fft_obstacle,
};

/// Filters frames on one device.
pub struct CudaEngine {
    shared: Arc<Shared>,
    allocator: PinnedAllocator,
    /// Of the NVIDIA driver, as in `535.183.01`; empty where the system does not tell.
    pub driver_version: String,
    /// The CUDA version that the driver supports, as in `12.2`.
    pub cuda_version: String,
}

impl CudaEngine {
    /// Opens device `device_id`, -1 for any, for `depth` frames in flight.
    ///
    /// # Errors
    /// When there is no driver, no such device, or it does not work; sentences that say what to
    /// do.
    pub fn open(device_id: i32, depth: usize) -> Result<CudaEngine, DriverError> {
        let driver = driver::open()?;
        let (instance, context) = driver.open_device(device_id)?;
        let allocator = PinnedAllocator::new(&context);
        let shared = Shared::new(context, instance, depth).map_err(DriverError::Call)?;
        Ok(CudaEngine {
            shared: Arc::new(shared),
            allocator,
            driver_version: driver.version.clone(),
            cuda_version: driver.cuda_version(),
        })
    }

    /// The device's index, as the driver counts.
    pub fn device_id(&self) -> i32 {
        self.shared.context.device().ordinal
    }

    /// Lets frames that are alone, of plans that are prepared from now on, be done in a band for each
    /// `bytes`, at most 8: for tests, which have small frames.
    pub fn set_band_bytes(&self, bytes: usize) {
        self.shared.band_bytes.store(bytes, Ordering::Relaxed);
    }

    fn launches(&self, plan: &Arc<Plan>) -> Result<Launches, EngineError> {
        let device = self.shared.context.device();
        Launches::new(plan, device.capability).map_err(|reason| EngineError {
            call: "preparing a plan".into(),
            reason,
            device: device.label(),
        })
    }

    /// Free bytes of the device's memory.
    ///
    /// # Errors
    /// When the device does not answer.
    pub fn free_memory(&self) -> Result<usize, EngineError> {
        Ok(self.shared.context.enter()?.memory_info()?.0)
    }
}

impl Engine for CudaEngine {
    fn backend(&self) -> &'static str {
        "cuda"
    }

    fn device(&self) -> &str {
        &self.shared.context.device().name
    }

    fn abilities(&self) -> &'static Abilities {
        &ABILITIES
    }

    fn allocator(&self) -> Option<gst::Allocator> {
        Some(self.allocator.clone().upcast())
    }

    fn prepare(
        &self,
        plan: &Arc<Plan>,
        wait: bool,
    ) -> Result<Option<Arc<dyn Prepared>>, EngineError> {
        let launches = self.launches(plan)?;
        let program = Program::new(&self.shared, plan, launches, wait)?;
        Ok(program
            .map(|program| -> Arc<dyn Prepared> { Arc::new(PreparedProgram(Arc::new(program))) }))
    }
}

impl Drop for CudaEngine {
    fn drop(&mut self) {
        self.shared.end_loading();
    }
}
