//! The work of a slot on one frame.

use std::ops::Range;
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::bands;
use super::clock::Reference;
use super::context::{Context, Current, DeviceMemory, Stream};
use super::error::CudaError;
use super::launch::Placed;
use super::pinned::{self, Block};
use super::prepared::{Program, Shared};
use super::slot::Slot;
use super::staging;
use super::transfer::{self, Arrangement, DevicePlane, HostPlane, Padding, Transfer};
use crate::engine::{EngineError, Frame, Ticket};
use crate::filter::Layout;
use crate::latency::EngineTiming;

/// How a frame gets from one side to the other.
enum Way {
    /// Straight from or to its own memory, which is pinned.
    Direct,
    /// Through this pinned memory.
    Staged(Block),
}

/// A frame that the device works on. It owns all that the work uses until the work is done.
pub struct Work {
    program: Arc<Program>,
    /// `None` once it was given back.
    frame: Option<Frame>,
    /// `None` once the work is done.
    slot: Option<Slot>,
    submitted: Instant,
    reference: Option<Arc<Reference>>,
    /// When the host began to copy the frame into pinned memory.
    copied_from: Option<Instant>,
    copy_in: Duration,
    input: Way,
    output: Way,
    /// What went wrong when the work was given to the device.
    failed: Option<CudaError>,
}

impl Work {
    /// Gives the work on `frame` to the device. What goes wrong is told by the ticket.
    pub fn start(program: &Arc<Program>, frame: Frame) -> Box<dyn Ticket> {
        let submitted = Instant::now();
        let context = &program.shared().context;
        let taken = context.enter().and_then(|current| {
            let (slot, alone) = (program.shared().slots).take(&current, program.room())?;
            Ok((current, slot, alone))
        });
        let (current, slot, alone) = match taken {
            Ok(taken) => taken,
            Err(error) => return Box::new(Refused(frame, error)),
        };
        let mut work = Work {
            program: program.clone(),
            frame: Some(frame),
            slot: Some(slot),
            submitted,
            reference: None,
            copied_from: None,
            copy_in: Duration::ZERO,
            input: Way::Direct,
            output: Way::Direct,
            failed: None,
        };
        work.failed = work.enqueue(&current, alone).err();
        Box::new(work)
    }

    fn context(&self) -> &Arc<Context> {
        &self.program.shared().context
    }

    /// Gives the work to the device, in bands where the frame is `alone` and they are worth it.
    fn enqueue(&mut self, current: &Current, alone: bool) -> Result<(), CudaError> {
        let program = self.program.clone();
        let layout = program.layout();
        let frame = self.frame.as_mut().expect("given back only at the end");
        let in_bands = alone && program.goes_in_bands() && !frame.interlaced;
        let input = Side::of(layout, input_planes(layout, frame), Padding::Included);
        let output = Side::of(layout, output_planes(layout, frame), Padding::Excluded);
        match (&input.pinned, &output.pinned) {
            (Some(from), Some(to)) if in_bands => self.enqueue_bands(current, from, to),
            _ => self.enqueue_whole(current, &input, &output),
        }
    }

    fn enqueue_bands(
        &mut self,
        current: &Current,
        from: &Arrangement,
        to: &Arrangement,
    ) -> Result<(), CudaError> {
        let program = self.program.clone();
        let layout = program.layout();
        let slot = self.slot.as_mut().expect("given back only at the end");
        let parts = program.parts(
            placed(&slot.input, &from.planes),
            placed(&slot.output, &to.planes),
        );
        self.reference = Some(program.shared().clock.reference(current)?);
        let copies = &program.shared().copies;
        current.record(&slot.started, &copies.up)?;
        let bands = bands::divide(program.bands(), layout, &parts, from, to);
        let last = bands.len() - 1;
        for (number, band) in bands.into_iter().enumerate() {
            for transfer in &band.uploads {
                // SAFETY: the frame and the slot stay with this work until it is done; the
                // transfer lies within both, by how it was arranged.
                unsafe { upload(current, slot, transfer, &copies.up)? };
            }
            let (arrived, computed) = match number == last {
                true => (&slot.uploaded, &slot.computed),
                false => (&slot.bands[number].0, &slot.bands[number].1),
            };
            current.record(arrived, &copies.up)?;
            current.wait_in(&slot.stream, arrived)?;
            for (part, tiles) in band.tiles {
                // SAFETY: both sides hold a frame of the program's layout, arranged as they say, of
                // which the rows that these tiles need have arrived; the slot and the program, with
                // weights and functions, stay with this work until it is done.
                unsafe { program.launch_tiles(current, &slot.stream, (&parts[part], tiles))? };
            }
            current.record(computed, &slot.stream)?;
            current.wait_in(&copies.down, computed)?;
            for transfer in &band.downloads {
                // SAFETY: as for the upload.
                unsafe { download(current, slot, transfer, &copies.down)? };
            }
        }
        current.record(&slot.downloaded, &copies.down)
    }

    fn enqueue_whole(
        &mut self,
        current: &Current,
        input: &Side,
        output: &Side,
    ) -> Result<(), CudaError> {
        let program = self.program.clone();
        let layout = program.layout();
        let frame = self.frame.as_ref().expect("given back only at the end");
        let slot = self.slot.as_mut().expect("given back only at the end");
        self.reference = Some(program.shared().clock.reference(current)?);
        let copies = &program.shared().copies;
        current.record(&slot.started, &copies.up)?;

        let planes_in = match &input.pinned {
            Some(arranged) => {
                for transfer in &arranged.transfers {
                    // SAFETY: the frame and the slot stay with this work until it is done; the
                    // transfer lies within both, by how it was arranged.
                    unsafe { upload(current, slot, transfer, &copies.up)? };
                }
                &arranged.planes
            }
            None => {
                let staging = program.staging();
                let block = Block::pinned(current.context(), staging.bytes)?;
                let started = *self.copied_from.insert(Instant::now());
                let place = slot.input.start();
                // SAFETY: as above; the block is kept by this work, also after an error.
                let copied = unsafe {
                    staging::upload(
                        current,
                        staging,
                        layout,
                        &input.planes,
                        &block,
                        place,
                        &copies.up,
                    )
                };
                self.input = Way::Staged(block);
                self.copy_in = started.elapsed();
                copied?;
                &staging.planes
            }
        };
        current.record(&slot.uploaded, &copies.up)?;
        current.wait_in(&slot.stream, &slot.uploaded)?;

        let planes_out = match &output.pinned {
            Some(arranged) => &arranged.planes,
            None => &program.staging().planes,
        };
        let sides = (
            placed(&slot.input, planes_in),
            placed(&slot.output, planes_out),
        );
        // SAFETY: both hold a frame of the program's layout, arranged as they say; the slot and
        // the program, with weights and functions, stay with this work until it is done.
        unsafe { program.launch(current, &slot.stream, sides, frame.interlaced)? };
        current.record(&slot.computed, &slot.stream)?;
        current.wait_in(&copies.down, &slot.computed)?;

        match &output.pinned {
            Some(arranged) => {
                for transfer in &arranged.transfers {
                    // SAFETY: as for the upload.
                    unsafe { download(current, slot, transfer, &copies.down)? };
                }
            }
            None => {
                let staging = program.staging();
                let block = Block::pinned(current.context(), staging.bytes)?;
                while slot.parts.len() < staging.chunks.len() {
                    slot.parts.push(current.event()?);
                }
                let start = block.start();
                self.output = Way::Staged(block);
                let place = slot.output.start();
                // SAFETY: as above; the block is kept by this work.
                unsafe {
                    staging::download(current, staging, place, start, &copies.down, &slot.parts)?;
                }
            }
        }
        current.record(&slot.downloaded, &copies.down)
    }

    /// Waits for the end of the work.
    fn finish(&mut self) -> Result<EngineTiming, CudaError> {
        let program = self.program.clone();
        let current = program.shared().context.enter()?;
        if let Some(error) = self.failed.take() {
            return Err(error);
        }
        let frame = self.frame.as_mut().expect("given back only at the end");
        let slot = self.slot.as_ref().expect("given back only at the end");
        let reference = self.reference.as_ref().expect("set by `enqueue`");
        let mut copied_until = None;
        if let Way::Staged(block) = &self.output {
            let (staging, layout) = (program.staging(), program.layout());
            let first = &slot.parts[0];
            (program.first_part()).wait(&current, first, self.submitted)?;
            let arrived = reference.moment(&current, first)?;
            (program.first_part()).record(arrived.saturating_duration_since(self.submitted));
            let targets = output_planes(layout, frame);
            // SAFETY: the targets are the frame's, which this work owns; the block holds a frame.
            unsafe {
                staging::copy_out(&current, staging, layout, block, &slot.parts, &targets)?;
            }
            copied_until = Some(Instant::now());
        }
        (program.end()).wait(&current, &slot.downloaded, self.submitted)?;
        let now = Instant::now();
        let on_device = [
            reference.moment(&current, &slot.started)?,
            reference.moment(&current, &slot.downloaded)?,
        ];
        let mapped = Mapped::new(self.submitted..now, on_device);
        let [begun, downloaded] = on_device.map(|moment| mapped.moment(moment));
        let started = self.copied_from.unwrap_or(begun);
        let finished = copied_until.unwrap_or(downloaded).max(downloaded);
        let upload = match self.copied_from {
            // What the copy into pinned memory did not hide.
            Some(from) => mapped
                .moment(reference.moment(&current, &slot.uploaded)?)
                .saturating_duration_since(from + self.copy_in),
            None => current.elapsed(&slot.started, &slot.uploaded)?,
        };
        let timing = EngineTiming {
            started,
            finished,
            copy_in: self.copy_in,
            upload,
            kernel: current.elapsed(&slot.uploaded, &slot.computed)?,
            download: current.elapsed(&slot.computed, &slot.downloaded)? + (finished - downloaded),
            pinned_in: matches!(self.input, Way::Direct),
            pinned_out: matches!(self.output, Way::Direct),
        };
        program.end().record(downloaded - self.submitted);
        if let Some(slot) = self.slot.take() {
            program.shared().slots.give(slot);
        }
        Ok(timing)
    }

    /// Waits until the device has let go of everything, whatever became of the work.
    fn settle(&mut self) {
        let Some(slot) = self.slot.take() else { return };
        let Shared { slots, copies, .. } = &**self.program.shared();
        // Each waits for the one before.
        let streams = [&copies.up, &slot.stream, &copies.down];
        let settled = (self.context().enter()).and_then(|current| {
            streams
                .map(|stream| current.wait_for_all(stream))
                .into_iter()
                .collect()
        });
        match settled {
            Ok(()) => slots.give(slot),
            Err(error) => {
                // Whatever failed: what the device still does is unknown, so nothing of this may
                // be used again; and the frame goes back, so the device must have let go of it.
                self.context().device().mark_dead(&error);
                for stream in streams {
                    self.context().drain(stream);
                }
                slots.lost();
            }
        }
    }
}

/// Moments of a frame on the device's clock, as they are told on the host's. The mapping errs by what
/// its reference does, usually some microseconds: no work began before it was submitted, and what
/// was found done was done. So all moments of a frame move together, and what lies between them stays.
struct Mapped {
    known: Range<Instant>,
    back: Duration,
    forth: Duration,
}

impl Mapped {
    /// Moves the `first` and the `last` moment into `known`.
    fn new(known: Range<Instant>, [first, last]: [Instant; 2]) -> Mapped {
        let back = last.saturating_duration_since(known.end);
        Mapped {
            back,
            forth: (known.start + back).saturating_duration_since(first),
            known,
        }
    }

    fn moment(&self, on_device: Instant) -> Instant {
        // The two clocks do not run alike: what took longer than it can have is cut.
        (on_device + self.forth - self.back).min(self.known.end)
    }
}

impl Ticket for Work {
    fn approach(&mut self, lead: Duration) -> bool {
        // What goes to foreign memory is still to be copied by the host then.
        let (Way::Direct, Some(slot), None) = (&self.output, &self.slot, &self.failed) else {
            return false;
        };
        let events = (&slot.computed, &slot.downloaded);
        // What fails here fails in `wait` too, which tells.
        (self.context().enter()).is_ok_and(|current| {
            (self.program.end()).approach(&current, events, self.submitted, lead)
        })
    }

    fn wait(mut self: Box<Self>) -> (Frame, Result<EngineTiming, EngineError>) {
        let result = self.finish();
        self.settle();
        let frame = self.frame.take().expect("given back only here");
        (frame, result.map_err(EngineError::from))
    }
}

impl Drop for Work {
    fn drop(&mut self) {
        // A ticket that nobody waited for: the frame is in use until the device is done with it.
        self.settle();
    }
}

/// A frame whose work could not begin.
struct Refused(Frame, CudaError);

impl Ticket for Refused {
    fn wait(self: Box<Self>) -> (Frame, Result<EngineTiming, EngineError>) {
        (self.0, Err(self.1.into()))
    }
}

fn input_planes(layout: &Layout, frame: &Frame) -> Vec<HostPlane> {
    (0..layout.planes.len())
        .map(|index| {
            let (bytes, stride) = frame.input.plane(index);
            HostPlane {
                start: bytes.as_ptr().cast_mut(),
                len: bytes.len(),
                stride,
            }
        })
        .collect()
}

fn output_planes(layout: &Layout, frame: &mut Frame) -> Vec<HostPlane> {
    (frame.output.raw_planes().into_iter())
        .take(layout.planes.len())
        .map(|plane| HostPlane {
            start: plane.start,
            len: plane.len,
            stride: plane.stride,
        })
        .collect()
}

fn placed<'a>(memory: &DeviceMemory, planes: &'a [DevicePlane]) -> Placed<'a> {
    Placed {
        start: memory.start(),
        planes,
    }
}

/// The planes of a frame that come from the host or go there.
struct Side {
    planes: Vec<HostPlane>,
    /// The copies straight from or to them, if all their bytes are pinned.
    pinned: Option<Arrangement>,
}

impl Side {
    fn of(layout: &Layout, planes: Vec<HostPlane>, padding: Padding) -> Side {
        Side {
            pinned: pinned_arrangement(layout, &planes, padding),
            planes,
        }
    }
}

/// The copies straight from or to `planes`, if all their bytes are pinned.
fn pinned_arrangement(
    layout: &Layout,
    planes: &[HostPlane],
    padding: Padding,
) -> Option<Arrangement> {
    let arranged = transfer::direct(layout, planes, padding)?;
    let is_pinned = |transfer: &Transfer| {
        let rows = transfer.rows;
        let bytes = rows.host_stride * (rows.rows - 1) + rows.bytes;
        pinned::is_pinned(transfer.host, bytes)
    };
    arranged.transfers.iter().all(is_pinned).then_some(arranged)
}

/// # Safety
/// The host's side of `transfer` must stay valid and unwritten until `stream` has passed this
/// point, and the slot must have room for it.
unsafe fn upload(
    current: &Current,
    slot: &Slot,
    transfer: &Transfer,
    stream: &Stream,
) -> Result<(), CudaError> {
    let to = slot.input.start() + transfer.device as u64;
    // SAFETY: passed on to the caller.
    unsafe { current.upload(to, transfer.host, transfer.rows, stream) }
}

/// # Safety
/// As [`upload`]; nothing else may use the host's side meanwhile.
unsafe fn download(
    current: &Current,
    slot: &Slot,
    transfer: &Transfer,
    stream: &Stream,
) -> Result<(), CudaError> {
    let from = slot.output.start() + transfer.device as u64;
    // SAFETY: passed on to the caller.
    unsafe { current.download(transfer.host, from, transfer.rows, stream) }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The first and the last moment that the device tells for work that is known to lie between
    /// 100 and 200 µs, as they are mapped, in µs.
    fn mapped(first: i64, last: i64) -> [i64; 2] {
        let second = Instant::now() + Duration::from_secs(1);
        let at = |us: i64| match us {
            0.. => second + Duration::from_micros(us as u64),
            _ => second - Duration::from_micros(us.unsigned_abs()),
        };
        let moments = [at(first), at(last)];
        let mapped = Mapped::new(at(100)..at(200), moments);
        moments.map(|moment| {
            let moment = mapped.moment(moment);
            moment.duration_since(second).as_micros() as i64
        })
    }

    #[test]
    fn moments_of_a_frame_move_together_into_the_time_it_is_known_to_have_taken() {
        assert_eq!(mapped(110, 190), [110, 190]);
        assert_eq!(mapped(150, 230), [120, 200]);
        assert_eq!(mapped(1150, 1230), [120, 200]);
        assert_eq!(mapped(70, 150), [100, 180]);
        assert_eq!(mapped(-930, -850), [100, 180]);
        assert_eq!(mapped(90, 205), [100, 200]);
    }
}
