//! Events.

use std::ffi::c_uint;

use crate::call::{Code, call, code, put};
use crate::event::Event;
use crate::violation;
use crate::world::{self, Handle};

const BLOCKING_SYNC: c_uint = 1;
const DISABLE_TIMING: c_uint = 2;

/// # Safety
/// As CUDA asks of `cuEventCreate`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuEventCreate(event: *mut Handle, flags: c_uint) -> Code {
    call("cuEventCreate", || {
        if flags & !(BLOCKING_SYNC | DISABLE_TIMING) != 0 {
            return Err(code::INVALID_VALUE);
        }
        let mut world = world::lock();
        let created = Event {
            context: world.current()?,
            timing: flags & DISABLE_TIMING == 0,
            latest: None,
        };
        let handle = world.new_handle();
        world.events.insert(handle, created);
        // SAFETY: a place for the result, by the contract of the call.
        unsafe { put(event, handle) }
    })
}

#[unsafe(no_mangle)]
pub extern "C" fn cuEventDestroy_v2(event: Handle) -> Code {
    call("cuEventDestroy", || {
        let mut world = world::lock();
        world.event(event)?;
        world.events.remove(&event);
        Ok(())
    })
}

#[unsafe(no_mangle)]
pub extern "C" fn cuEventRecord(event: Handle, stream: Handle) -> Code {
    call("cuEventRecord", || {
        let mut world = world::lock();
        let host = world.host.clone();
        let recorded_on = world.stream(stream)?;
        let (context, record) = (recorded_on.context, recorded_on.record(&host));
        let event = world.event(event)?;
        if event.context != context {
            violation!("the event belongs to another context than the stream");
        }
        event.latest = Some(record);
        Ok(())
    })
}

#[unsafe(no_mangle)]
pub extern "C" fn cuEventQuery(event: Handle) -> Code {
    call("cuEventQuery", || {
        let mut world = world::lock();
        let Some(record) = world.event(event)?.latest.clone() else {
            return Ok(());
        };
        if record.reached().is_none() {
            return Err(code::NOT_READY);
        }
        world.host.join(&record.clock);
        Ok(())
    })
}

#[unsafe(no_mangle)]
pub extern "C" fn cuEventSynchronize(event: Handle) -> Code {
    call("cuEventSynchronize", || {
        let mut world = world::lock();
        let found = world.event(event)?;
        let context = found.context;
        let Some(record) = found.latest.clone() else {
            return Ok(());
        };
        while record.reached().is_none() && world.broken(context).is_none() {
            world = world::wait(world);
        }
        if let Some(code) = world.broken(context) {
            return Err(code);
        }
        world.host.join(&record.clock);
        Ok(())
    })
}

/// # Safety
/// As CUDA asks of `cuEventElapsedTime`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuEventElapsedTime(
    milliseconds: *mut f32,
    start: Handle,
    end: Handle,
) -> Code {
    call("cuEventElapsedTime", || {
        let mut world = world::lock();
        let mut reached = |handle| {
            let event = world.event(handle)?;
            match (&event.latest, event.timing) {
                (Some(record), true) => record.reached().ok_or(code::NOT_READY),
                _ => Err(code::INVALID_HANDLE),
            }
        };
        let (start, end) = (reached(start)?, reached(end)?);
        let seconds = match end.checked_duration_since(start) {
            Some(later) => later.as_secs_f64(),
            None => -(start - end).as_secs_f64(),
        };
        // SAFETY: a place for the result, by the contract of the call.
        unsafe { put(milliseconds, (seconds * 1e3) as f32) }
    })
}
