//! The steps of the ladder on a GPU: each computed, timed by events, and compared with a bare copy of
//! as many bytes.

mod extras;
mod module;

use std::cell::RefCell;
use std::collections::HashMap;
use std::rc::Rc;
use std::time::Duration;

use cudarc::driver::sys::CUdevice_attribute as Attribute;

use self::extras::{TEXTURE_ALIGNMENT, Texture};
use self::module::Loaded;
use super::abi::ladder::{ALIGNMENT, Kernel, LadderLaunch, Module, Sample};
use super::abi::{Extent, Geometry};
use super::api::CUdeviceptr;
use super::context::{Current, DeviceMemory, Stream};
use super::driver::DriverError;
use super::error::CudaError;
use super::measure::{Bench, Effort, run_of, sets};
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
            registers: setup.launches.iter().map(|l| l.function.registers).max(),
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
        let time = self.engine.time_kernels_by(&plan, Effort::Brief)?;
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

    /// What a copy of `bytes` from device memory to device memory takes.
    fn floor(&self, current: &Current, bytes: usize) -> Result<Duration, CudaError> {
        if let Some(floor) = self.floors.borrow().get(&bytes) {
            return Ok(*floor);
        }
        let (from, to) = (sets(current, bytes)?, sets(current, bytes)?);
        let bench = Bench::new(current, Effort::Brief)?;
        let floor = bench.time(|_, number| {
            let place = |sets: &[DeviceMemory]| sets[number % sets.len()].start();
            bench.copy(place(&to), place(&from), bytes)
        })?;
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

/// One kernel of a step, ready to be launched.
struct KernelLaunch {
    kernel: Kernel,
    function: module::Function,
    geometry: Geometry,
    /// Keeps the function.
    module: Rc<Loaded>,
}

/// All that a step needs on the device. The bench, which waits for the work, goes first.
struct Setup<'a> {
    bench: Bench<'a>,
    current: &'a Current<'a>,
    launches: Vec<KernelLaunch>,
    parameter: LadderLaunch,
    textures: Vec<Texture>,
    inputs: Vec<DeviceMemory>,
    outputs: Vec<DeviceMemory>,
    between: Option<DeviceMemory>,
    table: DeviceMemory,
    constant_bytes: usize,
    output_bytes: usize,
}

/// The first address in `memory` at which a texture may begin.
fn aligned(memory: &DeviceMemory) -> CUdeviceptr {
    memory.start().next_multiple_of(TEXTURE_ALIGNMENT as u64)
}

/// Pictures of `bytes` that can begin at [`aligned`] addresses: as many as make them cold, at most
/// `most`.
fn pictures(current: &Current, bytes: usize, most: usize) -> Result<Vec<DeviceMemory>, CudaError> {
    let bytes = bytes + TEXTURE_ALIGNMENT;
    match most {
        1 => Ok(vec![current.memory(bytes)?]),
        _ => sets(current, bytes),
    }
}

impl<'a> Setup<'a> {
    fn new(
        gpu: &Gpu,
        current: &'a Current<'a>,
        job: &Job,
        kernels: &[Kernel],
        block: Extent,
        most_sets: usize,
    ) -> Result<Setup<'a>, CudaError> {
        let (from, to) = samples(kernels);
        let (width, height) = (job.width as u32, job.height as u32);
        let launches = (kernels.iter())
            .map(|&kernel| {
                let module = gpu.module(current, kernel.module())?;
                Ok(KernelLaunch {
                    kernel,
                    function: module.function(kernel),
                    geometry: kernel.place(width, height, block),
                    module,
                })
            })
            .collect::<Result<Vec<_>, CudaError>>()?;
        let stride = job.width.next_multiple_of(ALIGNMENT);
        let bytes = |sample: Sample| stride * job.height * sample.bytes();
        let table = job.table();
        let between = match kernels {
            [first, _, ..] => Some(current.memory(bytes(first.samples().1) + TEXTURE_ALIGNMENT)?),
            _ => None,
        };
        let mut setup = Setup {
            bench: Bench::new(current, Effort::Brief)?,
            current,
            launches,
            parameter: LadderLaunch {
                width,
                height,
                input_stride: stride as u32,
                output_stride: stride as u32,
                color: job.color(),
                ..LadderLaunch::default()
            },
            textures: Vec::new(),
            inputs: pictures(current, bytes(from), most_sets)?,
            outputs: pictures(current, bytes(to), most_sets)?,
            between,
            table: current.memory(4 * table.len())?,
            constant_bytes: 0,
            output_bytes: bytes(to),
        };
        setup.upload(job, &table)?;
        if kernels[0].reads_texture() {
            let size = (job.width, job.height, stride);
            for input in &setup.inputs {
                let texture = Texture::new(current, aligned(input), from, size)?;
                setup.textures.push(texture);
            }
        }
        Ok(setup)
    }

    /// Pictures and tables, to where the kernels read them.
    fn upload(&mut self, job: &Job, table: &[u32]) -> Result<(), CudaError> {
        let (from, _) = samples(&[self.launches[0].kernel]);
        let picture = job.encode(from, self.parameter.input_stride as usize);
        let words: Vec<u8> = table.iter().flat_map(|word| word.to_le_bytes()).collect();
        let context = self.current.context();
        let (pinned, pinned_words) = (
            Block::pinned(context, picture.len())?,
            Block::pinned(context, words.len())?,
        );
        // SAFETY: the blocks are at least so long, and nobody else's.
        unsafe {
            (pinned.start()).copy_from_nonoverlapping(picture.as_ptr(), picture.len());
            (pinned_words.start()).copy_from_nonoverlapping(words.as_ptr(), words.len());
        }
        let stream = &self.bench.stream;
        let copied = (|| {
            let upload = |to, from: &Block, bytes| {
                // SAFETY: both sides are at least so long, and are there until the wait below.
                unsafe { (self.current).upload(to, from.start(), run_of(bytes), stream) }
            };
            for input in &self.inputs {
                upload(aligned(input), &pinned, picture.len())?;
            }
            upload(self.table.start(), &pinned_words, words.len())?;
            for launch in &self.launches {
                if let Some((start, bytes)) = launch.module.constant {
                    self.constant_bytes = bytes.min(words.len());
                    upload(start, &pinned_words, self.constant_bytes)?;
                }
            }
            Ok(())
        })();
        // Also after an error: some may be under way.
        let waited = self.current.wait_for_all(stream);
        copied.and(waited)
    }

    /// Asks for all kernels of the step, over the pictures of turn `number`.
    ///
    /// # Safety
    /// The setup must live until the stream has passed this point.
    unsafe fn launch(&self, stream: &Stream, number: usize) -> Result<(), CudaError> {
        let input = number % self.inputs.len();
        let output = aligned(&self.outputs[number % self.outputs.len()]);
        for (index, launch) in self.launches.iter().enumerate() {
            let between = self.between.as_ref().map(aligned);
            let parameter = LadderLaunch {
                input: match (index, self.textures.get(input), between) {
                    (0, Some(texture), _) => texture.handle(),
                    (0, None, _) | (_, _, None) => aligned(&self.inputs[input]),
                    (_, _, Some(between)) => between,
                },
                output: match between {
                    Some(between) if index + 1 < self.launches.len() => between,
                    _ => output,
                },
                table: match launch.module.constant {
                    Some(_) => 0,
                    None => self.table.start(),
                },
                ..self.parameter
            };
            let Geometry {
                grid,
                block,
                shared_bytes,
            } = launch.geometry;
            // SAFETY: the function takes this structure, whose addresses are of pictures and tables of
            // the sizes in it; they are there as long as the setup.
            let launched = unsafe {
                self.current.api().launch(
                    launch.function.raw,
                    [grid.x, grid.y, 1],
                    [block.x, block.y, 1],
                    shared_bytes,
                    stream.raw(),
                    (&raw const parameter).cast(),
                )
            };
            (self.current.check(launched))
                .map_err(|error| error.with_detail(&format!("kernel {}", launch.kernel.name())))?;
        }
        Ok(())
    }

    /// Computes once, and reads the result.
    fn result(&self, job: &Job) -> Result<Vec<f64>, CudaError> {
        let stream = &self.bench.stream;
        let pinned = Block::pinned(self.current.context(), self.output_bytes)?;
        // SAFETY: waited for below, or by the bench, which goes first.
        unsafe { self.launch(stream, 0) }?;
        // SAFETY: the memory is that long; the block stays until the wait below, as it is leaked to
        // the pool at the earliest then.
        let copied = unsafe {
            let from = aligned(&self.outputs[0]);
            self.current
                .download(pinned.start(), from, run_of(self.output_bytes), stream)
        };
        let waited = self.current.wait_for_all(stream);
        copied.and(waited)?;
        // SAFETY: the block is at least so long, and the device is done with it.
        let bytes = unsafe { std::slice::from_raw_parts(pinned.start(), self.output_bytes) };
        let last = self.launches.last().expect("a step has kernels");
        let stride = self.parameter.output_stride as usize;
        Ok(job.decode(last.kernel.samples().1, stride, bytes))
    }

    /// Of a block, of the kernel that takes most.
    fn shared_bytes(&self) -> u32 {
        let of =
            |launch: &KernelLaunch| launch.function.static_shared + launch.geometry.shared_bytes;
        self.launches.iter().map(of).max().unwrap_or(0)
    }

    /// Of the kernel that fills a multiprocessor least; `None` where the driver does not say.
    fn occupancy(&self) -> Option<f64> {
        let device = self.current.context().device();
        let attribute = Attribute::CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_MULTIPROCESSOR;
        let most = (self.current.api()).device_attribute(attribute, device.handle);
        let most = f64::from(most.ok().filter(|most| *most > 0)?);
        let mut least = 1.0f64;
        for launch in &self.launches {
            let Geometry {
                block,
                shared_bytes,
                ..
            } = launch.geometry;
            let threads = block.x * block.y;
            let raw = launch.function.raw;
            let blocks =
                extras::blocks_of_multiprocessor(self.current, raw, threads, shared_bytes).ok()?;
            least = least.min(f64::from(blocks * threads) / most);
        }
        Some(least)
    }
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
