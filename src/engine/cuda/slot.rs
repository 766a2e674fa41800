//! What frames in flight occupy on the device: slots of a stream, device buffers and events.

use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};

use super::bands;
use super::context::{Current, DeviceMemory, Event, Stream};
use super::error::CudaError;

/// What one frame occupies on the device.
pub struct Slot {
    /// For all work on a frame, or for the uploads of one that is done in bands.
    pub stream: Stream,
    /// `None` where no frame is done in bands.
    pub lanes: Option<Lanes>,
    pub started: Event,
    pub uploaded: Event,
    pub computed: Event,
    pub downloaded: Event,
    /// Of the parts of a frame that goes to foreign memory; made when needed.
    pub parts: Vec<Event>,
    pub input: DeviceMemory,
    pub output: DeviceMemory,
}

/// What a frame in bands needs besides: kernels and downloads of the bands go to two streams in
/// turn, so that the next band's kernel need not wait for the download of this one.
pub struct Lanes {
    pub streams: [Stream; 2],
    /// Behind the uploads and the kernels of each band but the last.
    pub arrived: Vec<Event>,
    pub computed: Vec<Event>,
    /// The end of the stream that has not the last band.
    pub other: Event,
}

impl Lanes {
    fn new(current: &Current) -> Result<Lanes, CudaError> {
        let events = || (1..bands::MOST).map(|_| current.event(false));
        Ok(Lanes {
            streams: [current.stream()?, current.stream()?],
            arrived: events().collect::<Result<_, _>>()?,
            computed: events().collect::<Result<_, _>>()?,
            other: current.event(false)?,
        })
    }
}

/// How large the frames are that a slot is for.
#[derive(Debug, Clone, Copy)]
pub struct Room {
    /// Of a frame on the device, on each side.
    pub bytes: usize,
    pub in_bands: bool,
}

impl Slot {
    /// A slot for frames of up to `room`.
    fn new(current: &Current, room: Room) -> Result<Slot, CudaError> {
        let bytes = room.bytes;
        Ok(Slot {
            lanes: room.in_bands.then(|| Lanes::new(current)).transpose()?,
            stream: current.stream()?,
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
        if room.in_bands && self.lanes.is_none() {
            self.lanes = Some(Lanes::new(current)?);
        }
        Ok(())
    }

    /// All streams that work for a frame.
    pub fn streams(&self) -> impl Iterator<Item = &Stream> {
        let lanes = self.lanes.iter().flat_map(|lanes| &lanes.streams);
        lanes.chain([&self.stream])
    }
}

/// The slots of an engine. Idle ones are taken in turn, so that the copies of one frame overlap
/// the kernels of another.
pub struct Slots {
    depth: usize,
    state: Mutex<SlotsState>,
}

#[derive(Default)]
struct SlotsState {
    idle: VecDeque<Slot>,
    /// Slots that exist, idle or not.
    made: usize,
}

impl Slots {
    pub fn new(depth: usize) -> Slots {
        Slots {
            depth,
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
        while self.state().made < self.depth {
            let slot = Slot::new(current, room)?;
            let mut state = self.state();
            state.made += 1;
            state.idle.push_back(slot);
        }
        Ok(())
    }

    /// The slot that has been idle for longest, and whether all were. Never waits: callers that have
    /// more frames in work than the depth get slots that are gone afterwards.
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
        if state.made <= self.depth {
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
