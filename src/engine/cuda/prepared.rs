//! A plan made ready for a device: its kernels found, its weights uploaded.

use std::ops::Range;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use super::bands;
use super::clock::{Clock, Pace};
use super::context::{Context, Current, DeviceMemory, Rows, Stream};
use super::driver::Instance;
use super::error::CudaError;
use super::launch::{Launches, Part, Placed};
use super::module::{self, Function, Loader};
use super::pinned::Block;
use super::slot::{Copies, Room, Slots};
use super::transfer::{self, Staging};
use super::work::Work;
use crate::engine::{Frame, Prepared, Ticket};
use crate::filter::Layout;
use crate::filter::plan::Plan;
use crate::filter::spec::Precision;

/// Device memory for the weights of a plan: three full kernels of 65 by 65. Such pieces go from
/// plan to plan, because freeing device memory makes the driver wait for all that runs.
const WEIGHTS_BYTES: usize = 64 * 1024;
/// Frames before the other modules are loaded: the trial frames are to be measured undisturbed, and
/// the first frames of a stream are not to wait for the driver's compiler.
const FRAMES_BEFORE_LOADING: usize = 32;
/// Bands cost the host two to three times the calls of the driver.
const MOST_ENGINES_WITH_BANDS: usize = 4;

/// What an engine and its prepared plans have in common.
pub struct Shared {
    pub context: Arc<Context>,
    pub slots: Slots,
    pub copies: Copies,
    pub clock: Clock,
    /// For uploads that belong to no frame.
    setup: Stream,
    spare_weights: Mutex<Vec<DeviceMemory>>,
    loader: Mutex<LoaderState>,
    frames: AtomicUsize,
    /// Bytes of a frame for which another band is worth it; plans made later heed a change.
    pub band_bytes: AtomicUsize,
    /// Counted as a user of the device until the last frame is done.
    instance: Instance,
}

enum LoaderState {
    Idle,
    Started(#[allow(dead_code, reason = "joined when dropped")] Option<Loader>),
    Ended,
}

impl Shared {
    /// # Errors
    /// As the driver's.
    pub fn new(
        context: Arc<Context>,
        instance: Instance,
        depth: usize,
    ) -> Result<Shared, CudaError> {
        let current = context.enter()?;
        let (clock, setup) = (Clock::new(&current)?, current.stream()?);
        let copies = Copies::new(&current)?;
        drop(current);
        Ok(Shared {
            context,
            slots: Slots::new(depth),
            copies,
            clock,
            setup,
            spare_weights: Mutex::default(),
            loader: Mutex::new(LoaderState::Idle),
            frames: AtomicUsize::new(0),
            band_bytes: AtomicUsize::new(bands::BAND_BYTES),
            instance,
        })
    }

    /// Loads the modules in the background, `first` first.
    fn load_modules(&self, first: super::abi::Module) {
        let mut loader = self.loader.lock().unwrap_or_else(PoisonError::into_inner);
        if matches!(*loader, LoaderState::Idle) {
            *loader = LoaderState::Started(Loader::start(&self.context, first));
        }
    }

    /// Ends the loading, and the thread that does it.
    pub fn end_loading(&self) {
        let mut loader = self.loader.lock().unwrap_or_else(PoisonError::into_inner);
        let ended = std::mem::replace(&mut *loader, LoaderState::Ended);
        drop(loader);
        drop(ended);
    }
}

/// A plan with all that the device needs for it.
pub struct Program {
    shared: Arc<Shared>,
    plan: Arc<Plan>,
    launches: Launches,
    /// Of the launches, in order.
    functions: Vec<Function>,
    /// `None` where no kernel reads weights from device memory, and once it was given back.
    weights: Option<DeviceMemory>,
    staging: Staging,
    room: Room,
    first_part: Pace,
    end: Pace,
}

impl Program {
    /// `None` if a module has to be loaded first, which then goes on in the background; with
    /// `wait`, loads it now.
    ///
    /// # Errors
    /// As the driver's, and when memory is short.
    pub fn new(
        shared: &Arc<Shared>,
        plan: &Arc<Plan>,
        launches: Launches,
        wait: bool,
    ) -> Result<Option<Program>, CudaError> {
        let mut functions = Vec::new();
        for kernel in launches.kernels() {
            let module = kernel.module();
            let loaded = match wait {
                true => Some(module::load(&shared.context, module)?),
                false => module::loaded(&shared.context, module)?,
            };
            let Some(loaded) = loaded else {
                shared.load_modules(module);
                return Ok(None);
            };
            functions.push(loaded.function(kernel));
        }
        let current = shared.context.enter()?;
        let device_bytes = transfer::device_bytes(&plan.layout);
        let staging = Staging::new(&plan.layout);
        let band_bytes = shared.band_bytes.load(Ordering::Relaxed);
        let room = Room {
            bytes: device_bytes,
            bands: match launches.suit_bands() {
                true => bands::count(staging.bytes, band_bytes),
                false => 1,
            },
        };
        shared.slots.reserve(&current, room)?;
        let weights = upload_weights(&current, shared, launches.weights())?;
        Ok(Some(Program {
            shared: shared.clone(),
            plan: plan.clone(),
            functions,
            weights,
            staging,
            room,
            first_part: Pace::default(),
            end: Pace::default(),
            launches,
        }))
    }

    pub fn shared(&self) -> &Arc<Shared> {
        &self.shared
    }

    pub fn layout(&self) -> &Layout {
        &self.plan.layout
    }

    pub fn staging(&self) -> &Staging {
        &self.staging
    }

    /// Until the first part of a frame for foreign memory is in pinned memory.
    pub fn first_part(&self) -> &Pace {
        &self.first_part
    }

    /// Until a frame is done.
    pub fn end(&self) -> &Pace {
        &self.end
    }

    /// What a frame occupies on the device, on each side.
    pub fn device_bytes(&self) -> usize {
        self.room.bytes
    }

    /// What a slot has for a frame.
    pub fn room(&self) -> Room {
        self.room
    }

    /// In how many bands a frame is done that is alone.
    pub fn bands(&self) -> usize {
        self.room.bands
    }

    /// Whether a frame that is the only one of its engine is done in bands: not where many engines
    /// share the device, whose frames overlap without that.
    pub fn goes_in_bands(&self) -> bool {
        self.room.bands > 1 && self.shared.instance.device().instances() <= MOST_ENGINES_WITH_BANDS
    }

    /// See [`Launches::parts`].
    pub fn parts(&self, input: Placed, output: Placed) -> Vec<Part> {
        self.launches.parts(input, output)
    }

    /// Launches some tiles of a part of one frame.
    ///
    /// # Safety
    /// As [`Program::launch`] and [`Launches::enqueue_tiles`].
    ///
    /// # Errors
    /// As the driver's, also those of earlier work.
    pub unsafe fn launch_tiles(
        &self,
        current: &Current,
        stream: &Stream,
        tiles: (&Part, Range<u32>),
    ) -> Result<(), CudaError> {
        let weights = self.weights.as_ref().map_or(0, DeviceMemory::start);
        // SAFETY: as in `launch`.
        unsafe { (self.launches).enqueue_tiles(current, stream, &self.functions, tiles, weights) }
    }

    /// Launches all kernels for one frame.
    ///
    /// # Safety
    /// Both sides must hold a frame of the layout; they and this program must stay until the
    /// stream has passed this point, and nothing else may use the output meanwhile.
    ///
    /// # Errors
    /// As the driver's, also those of earlier work.
    pub unsafe fn launch(
        &self,
        current: &Current,
        stream: &Stream,
        frame: (Placed, Placed),
        interlaced: bool,
    ) -> Result<(), CudaError> {
        let weights = self.weights.as_ref().map_or(0, DeviceMemory::start);
        // SAFETY: the weights and functions are those of these launches, the rest is passed on to
        // the caller.
        unsafe {
            (self.launches).enqueue(current, stream, &self.functions, frame, weights, interlaced)
        }
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        // No work uses the weights any more: all work holds the program.
        if let Some(memory) = self.weights.take() {
            let spare = &self.shared.spare_weights;
            spare
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .push(memory);
        }
    }
}

/// Weights in device memory, there when this returns.
fn upload_weights(
    current: &Current,
    shared: &Shared,
    weights: &[u32],
) -> Result<Option<DeviceMemory>, CudaError> {
    if weights.is_empty() {
        return Ok(None);
    }
    let bytes = size_of_val(weights);
    let spare = (shared.spare_weights.lock())
        .unwrap_or_else(PoisonError::into_inner)
        .pop();
    let memory = match spare {
        Some(memory) if memory.len() >= bytes => memory,
        _ => current.memory(bytes.max(WEIGHTS_BYTES))?,
    };
    let block = Block::pinned(&shared.context, bytes)?;
    let rows = Rows {
        bytes,
        rows: 1,
        host_stride: bytes,
        device_stride: bytes,
    };
    // SAFETY: the block is at least as long and nobody else's. Block and memory outlive the copy,
    // which is waited for; if that fails, the device is dead and both are leaked.
    let copied = unsafe {
        block
            .start()
            .copy_from_nonoverlapping(weights.as_ptr().cast(), bytes);
        current.upload(memory.start(), block.start(), rows, &shared.setup)
    };
    // Also after an error: some may be under way.
    let waited = current.wait_for_all(&shared.setup);
    copied.and(waited)?;
    Ok(Some(memory))
}

/// A program as the element sees it.
pub struct PreparedProgram(pub Arc<Program>);

impl Prepared for PreparedProgram {
    fn precision(&self) -> Precision {
        self.0.launches.precision()
    }

    fn submit(&self, frame: Frame) -> Box<dyn Ticket> {
        let shared = self.0.shared();
        if shared.frames.fetch_add(1, Ordering::Relaxed) == FRAMES_BEFORE_LOADING
            && let Some(kernel) = self.0.launches.kernels().next()
        {
            shared.load_modules(kernel.module());
        }
        Work::start(&self.0, frame)
    }
}
