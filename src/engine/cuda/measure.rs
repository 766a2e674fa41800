//! What kernels and bare copies take on the device: the floors that benchmarks compare with.
//!
//! Everything is timed by events, on random data where nothing else is asked for, and given as the median of several
//! batches. Data goes round in more memory than caches hold where nothing else is asked for, because frames come from
//! the host and are cold.

use std::cell::OnceCell;
use std::sync::Arc;
use std::time::{Duration, Instant};

use cudarc::driver::sys::CUdevice_attribute as Attribute;

use super::CudaEngine;
use super::abi::Module;
use super::context::{Current, DeviceMemory, Event, Rows, Stream};
use super::error::CudaError;
use super::floor;
use super::launch::Placed;
use super::module;
use super::pinned::Block;
use super::prepared::Program;
use super::transfer::Staging;
use crate::engine::EngineError;
use crate::filter::plan::Plan;

/// More than twice the cache of the largest device.
const COLD_BYTES: usize = 256 << 20;
const MOST_SETS: usize = 64;
/// Frames between two events.
const BATCH: usize = 32;
const BATCHES: usize = 15;
/// Work that keeps the device busy while the host asks for a batch: without it, launches shorter
/// than what asking for them takes would be timed by the host's pace.
const DELAY_BYTES: usize = 64 << 20;
const DELAYS: usize = 12;
/// What asking for a batch takes at most, and from what time on a call of the work outlasts asking for
/// the next one.
const ASKING: Duration = Duration::from_micros(400);
const OUTLASTS_ASKING: Duration = Duration::from_micros(100);
/// What all batches of one figure are to take, where that leaves the fewest.
const BRIEF: Duration = Duration::from_millis(80);
const FEWEST_BATCHES: u32 = 3;

/// Frames of a stream that are in the hands of sources, the filter and sinks.
pub const ROUND: usize = 8;

/// Times of copies of a number of bytes between pinned and device memory.
#[derive(Debug, Clone, Copy)]
pub struct Copies {
    pub up: Duration,
    pub down: Duration,
    /// A pair of both at once, in a long row of pairs.
    pub both: Duration,
    /// The same with [`ROUND`] frames' memory on each side, as a stream's frames go round.
    pub both_round: Duration,
}

/// What the driver made of a kernel.
#[derive(Debug, Clone)]
pub struct KernelResources {
    pub name: &'static str,
    /// Of a thread.
    pub registers: u32,
    /// Bytes of a thread that did not fit into registers.
    pub local_bytes: u32,
}

/// A module that was loaded.
#[derive(Debug, Clone)]
pub struct LoadedModule {
    pub name: &'static str,
    pub load_time: Duration,
    pub kernels: Vec<KernelResources>,
}

/// What is in the frames that kernels are timed on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Picture {
    /// Random bytes.
    Noise,
    /// All bytes the same.
    Level(u8),
}

/// What the device's caches hold of the frames that kernels are timed on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Caches {
    /// Nothing: frames go round in more memory than they hold.
    Cold,
    /// All that they can of one frame, which comes again and again.
    Warm,
}

impl Caches {
    /// Device memories of `bytes` each, for one call after the other.
    pub(super) fn sets(
        self,
        current: &Current,
        bytes: usize,
    ) -> Result<Vec<DeviceMemory>, CudaError> {
        match self {
            Caches::Cold => sets(current, bytes),
            Caches::Warm => Ok(vec![current.memory(bytes)?]),
        }
    }
}

fn median(mut times: Vec<Duration>) -> Duration {
    times.sort_unstable();
    times.get(times.len() / 2).copied().unwrap_or_default()
}

/// How much is done for a figure.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Effort {
    /// Always the same, for records that are compared.
    Thorough,
    /// As much as fits into a moment.
    Brief,
}

/// What a figure is made of.
struct Batches {
    count: usize,
    calls: usize,
    delays: usize,
}

/// A batch's stream, its two events, and memory to pass the time with.
pub(super) struct Bench<'a> {
    current: &'a Current<'a>,
    pub(super) stream: Stream,
    start: Event,
    end: Event,
    /// Allocated when it is first needed.
    idle: OnceCell<[DeviceMemory; 2]>,
    effort: Effort,
}

impl<'a> Bench<'a> {
    pub(super) fn new(current: &'a Current<'a>, effort: Effort) -> Result<Bench<'a>, CudaError> {
        Ok(Bench {
            current,
            stream: current.stream()?,
            start: current.event()?,
            end: current.event()?,
            idle: OnceCell::new(),
            effort,
        })
    }

    /// The median time of a call of `work`, which gets its number.
    pub(super) fn time(
        &self,
        mut work: impl FnMut(&Stream, usize) -> Result<(), CudaError>,
    ) -> Result<Duration, CudaError> {
        let batches = match self.effort {
            Effort::Thorough => Batches {
                count: BATCHES,
                calls: BATCH,
                delays: DELAYS,
            },
            Effort::Brief => self.brief(&mut work)?,
        };
        let mut times = Vec::new();
        for batch in 0..=batches.count {
            self.delay(batches.delays)?;
            self.current.record(&self.start, &self.stream)?;
            for number in 0..batches.calls {
                work(&self.stream, batch * batches.calls + number)?;
            }
            self.current.record(&self.end, &self.stream)?;
            self.current.wait_for(&self.end)?;
            // The first batch brings up clocks and code.
            if batch > 0 {
                let time = self.current.elapsed(&self.start, &self.end)?;
                times.push(time / batches.calls as u32);
            }
        }
        Ok(median(times))
    }

    /// So much that a figure takes a moment, by what one call takes.
    fn brief(
        &self,
        work: &mut impl FnMut(&Stream, usize) -> Result<(), CudaError>,
    ) -> Result<Batches, CudaError> {
        let once = self.once(&mut || work(&self.stream, 0))?;
        let once = once.min(self.once(&mut || work(&self.stream, 1))?);
        let fitting = (BRIEF.as_nanos() / once.as_nanos().max(1)) as u32;
        let calls = (fitting / FEWEST_BATCHES).clamp(1, BATCH as u32);
        let delays = if once < OUTLASTS_ASKING {
            self.delay(1)?;
            let delay = self.once(&mut || self.delay(1))?;
            let delays = ASKING.as_nanos() / delay.as_nanos().max(1);
            (delays as usize).clamp(1, DELAYS)
        } else {
            0
        };
        Ok(Batches {
            count: (fitting / calls).clamp(FEWEST_BATCHES, BATCHES as u32) as usize,
            calls: calls as usize,
            delays,
        })
    }

    /// What `work` takes by itself, launch included.
    fn once(
        &self,
        work: &mut impl FnMut() -> Result<(), CudaError>,
    ) -> Result<Duration, CudaError> {
        self.current.record(&self.start, &self.stream)?;
        work()?;
        self.current.record(&self.end, &self.stream)?;
        self.current.wait_for(&self.end)?;
        self.current.elapsed(&self.start, &self.end)
    }

    fn delay(&self, count: usize) -> Result<(), CudaError> {
        if count > 0 && self.idle.get().is_none() {
            let memory = || self.current.memory(DELAY_BYTES);
            // Nobody has set it in between: a bench is one thread's.
            let _ = self.idle.set([memory()?, memory()?]);
        }
        let Some([to, from]) = self.idle.get() else {
            return Ok(());
        };
        for _ in 0..count {
            self.copy(to.start(), from.start(), DELAY_BYTES)?;
        }
        Ok(())
    }

    pub(super) fn copy(&self, to: u64, from: u64, bytes: usize) -> Result<(), CudaError> {
        let stream = self.stream.raw();
        // SAFETY: the callers' memories are that large, and live until this bench has waited.
        let copied = unsafe { (self.current.api()).copy_on_device(to, from, bytes, stream) };
        self.current.check(copied)
    }
}

impl Drop for Bench<'_> {
    fn drop(&mut self) {
        // After an error something may still run. If this fails too, the device is dead.
        let _ = self.current.wait_for_all(&self.stream);
    }
}

/// Device memories of `bytes` each that go round: as many as make them cold.
pub(super) fn sets(current: &Current, bytes: usize) -> Result<Vec<DeviceMemory>, CudaError> {
    let count = COLD_BYTES.div_ceil(bytes.max(1)).clamp(2, MOST_SETS);
    (0..count).map(|_| current.memory(bytes)).collect()
}

pub(super) fn run_of(bytes: usize) -> Rows {
    Rows {
        bytes,
        rows: 1,
        host_stride: bytes,
        device_stride: bytes,
    }
}

impl CudaEngine {
    /// What the kernels of one frame of `plan` take on noise.
    ///
    /// # Errors
    /// When the plan cannot be computed, or the device fails.
    pub fn time_kernels(&self, plan: &Arc<Plan>) -> Result<Duration, EngineError> {
        self.time_kernels_on(Picture::Noise, Caches::Cold, plan)
    }

    /// The same on frames of `picture`, with such `caches`.
    ///
    /// # Errors
    /// As [`time_kernels`](Self::time_kernels).
    pub fn time_kernels_on(
        &self,
        picture: Picture,
        caches: Caches,
        plan: &Arc<Plan>,
    ) -> Result<Duration, EngineError> {
        self.time_kernels_by(plan, (picture, caches), Effort::Thorough)
    }

    pub(super) fn time_kernels_by(
        &self,
        plan: &Arc<Plan>,
        (picture, caches): (Picture, Caches),
        effort: Effort,
    ) -> Result<Duration, EngineError> {
        let program = Program::new(&self.shared, plan, self.launches(plan)?, true)?;
        let program = program.expect("waited for its modules");
        let current = self.shared.context.enter()?;
        let staging = Staging::new(&plan.layout);
        let inputs = caches.sets(&current, program.device_bytes())?;
        let outputs = caches.sets(&current, program.device_bytes())?;
        let bench = Bench::new(&current, effort)?;
        self.fill(&bench, &inputs, staging.bytes, picture)?;
        let time = bench.time(|stream, number| {
            let place = |sets: &[DeviceMemory]| sets[number % sets.len()].start();
            let placed = |start| Placed {
                start,
                planes: &staging.planes,
            };
            let frame = (placed(place(&inputs)), placed(place(&outputs)));
            // SAFETY: every set holds a frame of the layout; program and sets outlive the bench,
            // which waits for its work.
            unsafe { program.launch(&current, stream, frame, false) }
        })?;
        Ok(time)
    }

    /// `picture` in the first `bytes` of all `sets`.
    fn fill(
        &self,
        bench: &Bench,
        sets: &[DeviceMemory],
        bytes: usize,
        picture: Picture,
    ) -> Result<(), CudaError> {
        let block = Block::pinned(&self.shared.context, bytes)?;
        let mut state = 0x9e37_79b9_7f4a_7c15_u64;
        for at in 0..bytes {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            let byte = match picture {
                Picture::Noise => (state >> 24) as u8,
                Picture::Level(level) => level,
            };
            // SAFETY: the block is at least this long, and nobody else's.
            unsafe { block.start().add(at).write(byte) };
        }
        for set in sets {
            // SAFETY: block and set are at least this long and live until the copies are done.
            unsafe {
                (bench.current).upload(set.start(), block.start(), run_of(bytes), &bench.stream)?;
            }
        }
        bench.current.wait_for_all(&bench.stream)
    }

    /// Cycles of all the device's schedulers in a second, at its highest clock: each issues at most one
    /// instruction of a warp in one. `None` where the driver does not tell.
    pub fn scheduler_cycles(&self) -> Option<f64> {
        /// Of a multiprocessor, on every architecture that kernels run on.
        const SCHEDULERS: f64 = 4.0;
        let device = self.shared.context.device();
        let attribute = |attribute| {
            let value = device.api.device_attribute(attribute, device.handle);
            value.ok().map(f64::from)
        };
        let processors = attribute(Attribute::CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT)?;
        let kilohertz = attribute(Attribute::CU_DEVICE_ATTRIBUTE_CLOCK_RATE)?;
        Some(SCHEDULERS * processors * kilohertz * 1e3)
    }

    /// What the kernel that [is timed](Self::time_device_copy) makes of `bytes`: a copy.
    ///
    /// # Errors
    /// When the device fails.
    pub fn copy_on_device(&self, bytes: &[u8]) -> Result<Vec<u8>, EngineError> {
        let current = self.shared.context.enter()?;
        Ok(floor::copied(&current, bytes)?)
    }

    /// What a copy of `bytes` from device memory to device memory takes with such `caches`, by the driver or by a kernel,
    /// whichever is faster.
    ///
    /// # Errors
    /// When the device fails.
    pub fn time_device_copy(&self, caches: Caches, bytes: usize) -> Result<Duration, EngineError> {
        let current = self.shared.context.enter()?;
        Ok(floor::floor(&current, caches, bytes, Effort::Thorough)?)
    }

    /// What copies of `bytes` between pinned host memory and device memory take.
    ///
    /// # Errors
    /// When memory is short, or the device fails.
    pub fn time_copies(&self, bytes: usize) -> Result<Copies, EngineError> {
        let context = &self.shared.context;
        let current = context.enter()?;
        let blocks = || -> Result<Vec<Block>, CudaError> {
            (0..ROUND).map(|_| Block::pinned(context, bytes)).collect()
        };
        let (from, to) = (blocks()?, blocks()?);
        let device = [current.memory(bytes)?, current.memory(bytes)?];
        let (up, down) = (
            Bench::new(&current, Effort::Thorough)?,
            Bench::new(&current, Effort::Thorough)?,
        );
        let upload = |stream: &Stream, from: &Block| {
            // SAFETY: block and memory are that long, and outlive the benches.
            unsafe { current.upload(device[0].start(), from.start(), run_of(bytes), stream) }
        };
        let download = |stream: &Stream, to: &Block| {
            // SAFETY: as above.
            unsafe { current.download(to.start(), device[1].start(), run_of(bytes), stream) }
        };
        let pairs = |blocks: usize| -> Result<Duration, CudaError> {
            let mut pairs = Vec::new();
            for _ in 0..=BATCHES {
                let started = Instant::now();
                for number in 0..BATCH {
                    upload(&up.stream, &from[number % blocks])?;
                    download(&down.stream, &to[number % blocks])?;
                }
                current.wait_for_all(&up.stream)?;
                current.wait_for_all(&down.stream)?;
                pairs.push(started.elapsed() / BATCH as u32);
            }
            Ok(median(pairs))
        };
        Ok(Copies {
            up: up.time(|stream, _| upload(stream, &from[0]))?,
            down: down.time(|stream, _| download(stream, &to[0]))?,
            both: pairs(1)?,
            both_round: pairs(ROUND)?,
        })
    }

    /// Loads all modules that are not loaded yet.
    ///
    /// # Errors
    /// When the driver refuses one.
    pub fn load_all(&self) -> Result<Vec<LoadedModule>, EngineError> {
        let load = |module: Module| {
            let loaded = module::load(&self.shared.context, module)?;
            let kernels = super::abi::Kernel::ALL.into_iter();
            Ok(LoadedModule {
                name: module.name(),
                load_time: loaded.load_time,
                kernels: kernels
                    .filter(|kernel| kernel.module() == module)
                    .map(|kernel| {
                        let function = loaded.function(kernel);
                        KernelResources {
                            name: kernel.name(),
                            registers: function.registers,
                            local_bytes: function.local_bytes,
                        }
                    })
                    .collect(),
            })
        };
        let capability = self.shared.context.device().capability;
        let loaded: Result<Vec<_>, CudaError> = (Module::ALL.into_iter())
            .filter(|module| module.needed_capability() <= capability)
            .map(load)
            .collect();
        Ok(loaded?)
    }
}
