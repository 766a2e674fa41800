//! The steps of the ladder on a GPU: each computed, timed by events, and compared with a bare copy of
//! as many bytes.

mod extras;
mod module;
mod setup;

use std::cell::RefCell;
use std::collections::HashMap;
use std::rc::Rc;
use std::time::Duration;

use self::module::Loaded;
use self::setup::Setup;
use super::abi::Extent;
use super::abi::ladder::{Kernel, Module, Sample};
use super::context::Current;
use super::driver::DriverError;
use super::error::CudaError;
use super::floor;
use super::measure::{Bench, Caches, Effort, Picture, run_of};
use super::pinned::Block;
use super::{ABILITIES, CudaEngine};
use crate::engine::ladder::cpu::{frame, plan, rows};
use crate::engine::ladder::{Job, Measured, Place, Transfer};
use crate::engine::{Engine, EngineError};
use crate::filter::spec::Method;

/// A device on which steps are taken.
pub struct Gpu {
    engine: CudaEngine,
    modules: RefCell<HashMap<Module, Result<Rc<Loaded>, CudaError>>>,
    /// Bytes that are read and written, and what their copies take.
    transfers: RefCell<HashMap<(usize, usize), Transfer>>,
    /// The same of copies on the device.
    floors: RefCell<HashMap<usize, Duration>>,
}

impl Gpu {
    /// Opens device `device_id`, -1 for any.
    ///
    /// # Errors
    /// When there is no driver, no such device, or it does not work.
    pub fn open(device_id: i32) -> Result<Gpu, DriverError> {
        Ok(Gpu {
            engine: CudaEngine::open(device_id, 1)?,
            modules: RefCell::default(),
            transfers: RefCell::default(),
            floors: RefCell::default(),
        })
    }

    /// Name, compute capability, driver and CUDA version, for people.
    pub fn describe(&self) -> String {
        let (major, minor) = self.engine.shared.context.device().capability;
        let driver = match self.engine.driver_version.as_str() {
            "" => String::new(),
            version => format!("driver {version}, "),
        };
        format!(
            "{}, compute capability {major}.{minor}, {driver}CUDA {}",
            self.engine.device(),
            self.engine.cuda_version
        )
    }

    /// What `kernels`, one after the other, make of the picture of `job`: values from 0 to 1.
    ///
    /// # Errors
    /// When the driver refuses a kernel, or the device fails.
    pub fn filter(
        &self,
        job: &Job,
        kernels: &[Kernel],
        block: Extent,
    ) -> Result<Vec<f64>, EngineError> {
        let current = self.engine.shared.context.enter()?;
        let setup = Setup::new(self, &current, job, kernels, block, 1)?;
        Ok(setup.result(job)?)
    }

    /// Measures what `kernels` take, and compares what they compute with `exact`.
    ///
    /// # Errors
    /// A line on why it cannot be done.
    pub fn take(
        &self,
        job: &Job,
        kernels: &[Kernel],
        block: Extent,
        exact: &[f64],
    ) -> Result<Measured, String> {
        let device = self.engine.shared.context.device();
        let matrix = kernels.contains(&Kernel::ConvolveMatrix);
        if matrix && !has_matrix_units(&device.name, device.capability) {
            return Err(format!("not possible: {} has no matrix units", device.name));
        }
        self.measure(job, kernels, block, exact)
            .map_err(|error| error.to_string())
    }

    fn measure(
        &self,
        job: &Job,
        kernels: &[Kernel],
        block: Extent,
        exact: &[f64],
    ) -> Result<Measured, CudaError> {
        let current = self.engine.shared.context.enter()?;
        let (from, to) = samples(kernels);
        let pixels = job.values.len();
        let between = match kernels.len() {
            1 => 0,
            _ => pixels * kernels[0].samples().1.bytes(),
        };
        let (read, written) = (pixels * from.bytes(), pixels * to.bytes());
        let bytes = read + written + 2 * between;
        let floor = self.floor(&current, bytes / 2)?;
        let transfer = self.transfer(&current, read, written)?;
        let setup = Setup::new(self, &current, job, kernels, block, usize::MAX)?;
        let time = setup.bench.time(|stream, number| {
            // SAFETY: the setup's memory and modules outlive the bench, which waits for its work.
            unsafe { setup.launch(stream, number) }
        })?;
        let results = setup.result(job)?;
        let table = if setup.constant_bytes > 0 {
            setup.constant_bytes
        } else {
            4 * job.table().len()
        };
        Ok(Measured {
            place: Place::Device,
            time,
            transfer: Some(transfer),
            bytes,
            floor,
            memory_bytes: read + written + between + table,
            shared_bytes: Some(setup.shared_bytes() as usize),
            block: Some(block),
            registers: setup.registers(),
            occupancy: setup.occupancy(),
            errors: job.errors(&results, exact),
        })
    }

    /// The engine's own way of doing the job over 8-bit grey.
    ///
    /// # Errors
    /// When it has no such method, or the device fails.
    pub fn by_method(
        &self,
        job: &Job,
        method: Method,
        exact: &[f64],
    ) -> Result<Measured, EngineError> {
        let plan = plan(job, method, &ABILITIES)?;
        let prepared = self.engine.prepare(&plan, true)?.expect("waited for");
        let (done, timing) = prepared.submit(frame(job, &plan.layout)).wait();
        timing?;
        let (bytes, stride) = done.output.plane(0);
        let results = job.decode(Sample::U8, stride, &rows(bytes, stride, job));
        let time =
            self.engine
                .time_kernels_by(&plan, (Picture::Noise, Caches::Cold), Effort::Brief)?;
        let pixels = job.values.len();
        let current = self.engine.shared.context.enter()?;
        Ok(Measured {
            place: Place::Device,
            time,
            transfer: Some(self.transfer(&current, pixels, pixels)?),
            bytes: 2 * pixels,
            floor: self.floor(&current, pixels)?,
            memory_bytes: 2 * pixels,
            shared_bytes: None,
            block: None,
            registers: None,
            occupancy: None,
            errors: job.errors(&results, exact),
        })
    }

    /// `module`, loaded now if it was not yet.
    fn module(&self, current: &Current, module: Module) -> Result<Rc<Loaded>, CudaError> {
        let mut modules = self.modules.borrow_mut();
        let loaded = modules
            .entry(module)
            .or_insert_with(|| Loaded::new(current, module).map(Rc::new));
        loaded.clone()
    }

    /// What a copy of `bytes` from device memory to device memory takes at least.
    fn floor(&self, current: &Current, bytes: usize) -> Result<Duration, CudaError> {
        if let Some(floor) = self.floors.borrow().get(&bytes) {
            return Ok(*floor);
        }
        let floor = floor::floor(current, Caches::Cold, bytes, Effort::Brief)?;
        self.floors.borrow_mut().insert(bytes, floor);
        Ok(floor)
    }

    /// What copies of `up` bytes to the device and of `down` bytes from it take, each by itself.
    fn transfer(&self, current: &Current, up: usize, down: usize) -> Result<Transfer, CudaError> {
        if let Some(transfer) = self.transfers.borrow().get(&(up, down)) {
            return Ok(*transfer);
        }
        let context = current.context();
        let (from, to) = (Block::pinned(context, up)?, Block::pinned(context, down)?);
        let (source, target) = (current.memory(down)?, current.memory(up)?);
        let bench = Bench::new(current, Effort::Brief)?;
        let transfer = Transfer {
            up: bench.time(|stream, _| {
                // SAFETY: block and memory are that long, and outlive the bench.
                unsafe { current.upload(target.start(), from.start(), run_of(up), stream) }
            })?,
            down: bench.time(|stream, _| {
                // SAFETY: as above.
                unsafe { current.download(to.start(), source.start(), run_of(down), stream) }
            })?,
        };
        (self.transfers.borrow_mut()).insert((up, down), transfer);
        Ok(transfer)
    }
}

/// What the first of `kernels` reads, and the last one writes.
fn samples(kernels: &[Kernel]) -> (Sample, Sample) {
    let ends = kernels.first().zip(kernels.last());
    let (first, last) = ends.expect("a step has kernels");
    (first.samples().0, last.samples().1)
}

/// Turing without tensor cores, by the parts of names that its chips TU116 and TU117 are sold under,
/// says that it is of compute capability 7.5 as the others do.
fn has_matrix_units(name: &str, capability: (u32, u32)) -> bool {
    const WITHOUT: [&str; 8] = [
        "GTX 16", "MX4", "MX5", "T400", "T500", "T600", "T1000", "T1200",
    ];
    capability != (7, 5) || !WITHOUT.iter().any(|part| name.contains(part))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chips_of_turing_without_matrix_units_are_known_by_name() {
        assert!(!has_matrix_units("NVIDIA GeForce GTX 1660 Ti", (7, 5)));
        assert!(!has_matrix_units("NVIDIA T1000", (7, 5)));
        assert!(has_matrix_units("NVIDIA GeForce RTX 2080", (7, 5)));
        assert!(has_matrix_units("Tesla T4", (7, 5)));
        assert!(has_matrix_units("NVIDIA H200", (9, 0)));
    }
}
