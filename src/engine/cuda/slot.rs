//! What frames in flight occupy on the device: slots of a stream, device buffers and events.

use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};

use super::context::{Current, DeviceMemory, Event, Stream};
use super::error::CudaError;

/// The streams of an engine that all its frames' copies go through, in order of their arrival: copies of
/// several streams in one direction would make the device switch from one to the other between frames.
pub struct Copies {
    pub up: Stream,
    pub down: Stream,
}

impl Copies {
    /// # Errors
    /// As the driver's.
    pub fn new(current: &Current) -> Result<Copies, CudaError> {
        Ok(Copies {
            up: current.stream()?,
            down: current.stream()?,
        })
    }
}

/// What one frame occupies on the device.
pub struct Slot {
    /// For the kernels of a frame.
    pub stream: Stream,
    pub started: Event,
    pub uploaded: Event,
    pub computed: Event,
    pub downloaded: Event,
    /// Of a frame in bands: behind the uploads and the kernels of each but the last.
    pub bands: Vec<(Event, Event)>,
    /// Of the parts of a frame that goes to foreign memory; made when needed.
    pub parts: Vec<Event>,
    pub input: DeviceMemory,
    pub output: DeviceMemory,
}

/// What frames a slot is for.
#[derive(Debug, Clone, Copy)]
pub struct Room {
    /// Of a frame on the device, on each side.
    pub bytes: usize,
    /// In which a frame is done that is alone.
    pub bands: usize,
}

fn band_events(current: &Current, count: usize) -> Result<Vec<(Event, Event)>, CudaError> {
    let pair = |_| Ok((current.event(false)?, current.event(false)?));
    (0..count).map(pair).collect()
}

impl Slot {
    /// A slot for frames of up to `room`.
    fn new(current: &Current, room: Room) -> Result<Slot, CudaError> {
        let bytes = room.bytes;
        Ok(Slot {
            stream: current.stream()?,
            bands: band_events(current, room.bands - 1)?,
            started: current.event(false)?,
            uploaded: current.event(false)?,
            computed: current.event(false)?,
            downloaded: current.event(true)?,
            parts: Vec::new(),
            input: current.memory(bytes)?,
            output: current.memory(bytes)?,
        })
    }

    /// Makes room for frames of up to `room`. The slot must be idle.
    fn reserve(&mut self, current: &Current, room: Room) -> Result<(), CudaError> {
        for memory in [&mut self.input, &mut self.output] {
            if memory.len() < room.bytes {
                *memory = current.memory(room.bytes)?;
            }
        }
        let missing = (room.bands - 1).saturating_sub(self.bands.len());
        self.bands.extend(band_events(current, missing)?);
        Ok(())
    }
}

/// The slots of an engine. Idle ones are taken in turn, so that the copies of one frame overlap
/// the kernels of another.
pub struct Slots {
    count: usize,
    state: Mutex<SlotsState>,
}

#[derive(Default)]
struct SlotsState {
    idle: VecDeque<Slot>,
    /// Slots that exist, idle or not.
    made: usize,
}

impl Slots {
    /// Those for `depth` frames in flight, and one more: a frame may be submitted while what the
    /// events of the one before say has not yet been read.
    pub fn new(depth: usize) -> Slots {
        Slots {
            count: depth + 1,
            state: Mutex::default(),
        }
    }

    fn state(&self) -> MutexGuard<'_, SlotsState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Makes all slots, and room in those that are idle for frames of up to `room`.
    ///
    /// # Errors
    /// As the driver's, mostly that memory is short.
    pub fn reserve(&self, current: &Current, room: Room) -> Result<(), CudaError> {
        // Taken out, so that no lock is held while the driver allocates.
        let mut idle = std::mem::take(&mut self.state().idle);
        let grown = (idle.iter_mut()).try_for_each(|slot| slot.reserve(current, room));
        self.state().idle.append(&mut idle);
        grown?;
        while self.state().made < self.count {
            let slot = Slot::new(current, room)?;
            let mut state = self.state();
            state.made += 1;
            state.idle.push_back(slot);
        }
        Ok(())
    }

    /// The slot that has been idle for longest, and whether all were. Never waits: callers that have
    /// more frames in work than there are slots get some that are gone afterwards.
    /// # Errors
    /// As the driver's, mostly that memory is short.
    pub fn take(&self, current: &Current, room: Room) -> Result<(Slot, bool), CudaError> {
        let (idle, alone) = {
            let mut state = self.state();
            let alone = state.idle.len() == state.made;
            (state.idle.pop_front(), alone)
        };
        if let Some(mut slot) = idle {
            return match slot.reserve(current, room) {
                Ok(()) => Ok((slot, alone)),
                Err(error) => {
                    self.give(slot);
                    Err(error)
                }
            };
        }
        let slot = Slot::new(current, room)?;
        self.state().made += 1;
        Ok((slot, false))
    }

    /// Takes an idle slot back.
    pub fn give(&self, slot: Slot) {
        let mut state = self.state();
        if state.made <= self.count {
            state.idle.push_back(slot);
        } else {
            state.made -= 1;
            drop(state);
            drop(slot);
        }
    }

    /// A slot will not come back.
    pub fn lost(&self) {
        self.state().made -= 1;
    }
}
