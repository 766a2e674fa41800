//! What a step needs on the device: pictures, tables, textures and kernels; and its launches.

use std::rc::Rc;

use cudarc::driver::sys::CUdevice_attribute as Attribute;

use super::extras::{self, TEXTURE_ALIGNMENT, Texture};
use super::module::{Function, Loaded};
use super::{Gpu, samples};
use crate::engine::cuda::abi::ladder::{ALIGNMENT, Kernel, LadderLaunch, Sample};
use crate::engine::cuda::abi::{Extent, Geometry};
use crate::engine::cuda::api::CUdeviceptr;
use crate::engine::cuda::context::{Current, DeviceMemory, Stream};
use crate::engine::cuda::error::CudaError;
use crate::engine::cuda::measure::{Bench, Effort, run_of, sets};
use crate::engine::cuda::pinned::Block;
use crate::engine::ladder::Job;

/// One kernel of a step, ready to be launched.
struct KernelLaunch {
    kernel: Kernel,
    function: Function,
    geometry: Geometry,
    /// Keeps the function.
    module: Rc<Loaded>,
}

/// All that a step needs on the device. The bench, which waits for the work, goes first.
pub struct Setup<'a> {
    pub(super) bench: Bench<'a>,
    current: &'a Current<'a>,
    launches: Vec<KernelLaunch>,
    parameter: LadderLaunch,
    textures: Vec<Texture>,
    inputs: Vec<DeviceMemory>,
    outputs: Vec<DeviceMemory>,
    between: Option<DeviceMemory>,
    table: DeviceMemory,
    /// Of the table in constant memory; 0 where it is not there.
    pub(super) constant_bytes: usize,
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
    /// Loads the modules, and uploads the picture to as many places as make it cold, at most `most_sets`.
    ///
    /// # Errors
    /// When the driver refuses something, or the device fails.
    pub(super) fn new(
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
    pub(super) unsafe fn launch(&self, stream: &Stream, number: usize) -> Result<(), CudaError> {
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
    pub(super) fn result(&self, job: &Job) -> Result<Vec<f64>, CudaError> {
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
    pub(super) fn shared_bytes(&self) -> u32 {
        let of =
            |launch: &KernelLaunch| launch.function.static_shared + launch.geometry.shared_bytes;
        self.launches.iter().map(of).max().unwrap_or(0)
    }

    /// Of a thread, of the kernel that takes most.
    pub(super) fn registers(&self) -> Option<u32> {
        let registers = self.launches.iter().map(|launch| launch.function.registers);
        registers.max()
    }

    /// Of the kernel that fills a multiprocessor least; `None` where the driver does not say.
    pub(super) fn occupancy(&self) -> Option<f64> {
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
