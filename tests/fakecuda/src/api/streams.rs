//! Streams.

use std::ffi::c_uint;

use crate::call::{Code, call, code, put};
use crate::stream::Stream;
use crate::violation;
use crate::world::{self, Handle};

const NON_BLOCKING: c_uint = 1;

/// # Safety
/// As CUDA asks of `cuStreamCreate`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuStreamCreate(stream: *mut Handle, flags: c_uint) -> Code {
    call("cuStreamCreate", || {
        if flags != NON_BLOCKING {
            violation!("a stream that is not CU_STREAM_NON_BLOCKING waits for the default stream");
        }
        let mut world = world::lock();
        let context = world.current()?;
        let handle = world.new_handle();
        world.streams.insert(handle, Stream::new(handle, context));
        // SAFETY: a place for the result, by the contract of the call.
        unsafe { put(stream, handle) }
    })
}

#[unsafe(no_mangle)]
pub extern "C" fn cuStreamDestroy_v2(stream: Handle) -> Code {
    call("cuStreamDestroy", || {
        let mut world = world::lock();
        world.stream(stream)?;
        // Its thread goes on until all that was submitted is done.
        world.streams.remove(&stream);
        Ok(())
    })
}

#[unsafe(no_mangle)]
pub extern "C" fn cuStreamQuery(stream: Handle) -> Code {
    call("cuStreamQuery", || {
        let mut world = world::lock();
        let queried = world.stream(stream)?;
        if queried.completed < queried.submitted {
            return Err(code::NOT_READY);
        }
        let clock = queried.clock.clone();
        world.host.join(&clock);
        Ok(())
    })
}

#[unsafe(no_mangle)]
pub extern "C" fn cuStreamSynchronize(stream: Handle) -> Code {
    call("cuStreamSynchronize", || {
        let mut world = world::lock();
        let waited = world.stream(stream)?;
        let (target, clock) = (waited.submitted, waited.clock.clone());
        while world.stream(stream)?.completed < target {
            world = world::wait(world);
        }
        world.host.join(&clock);
        Ok(())
    })
}

#[unsafe(no_mangle)]
pub extern "C" fn cuStreamWaitEvent(stream: Handle, event: Handle, flags: c_uint) -> Code {
    call("cuStreamWaitEvent", || {
        if flags != 0 {
            return Err(code::INVALID_VALUE);
        }
        let mut world = world::lock();
        let record = world.event(event)?.latest.clone();
        let stream = world.stream(stream)?;
        // An event that was never recorded is nothing to wait for.
        if let Some(record) = record {
            stream.wait_for(record);
        }
        Ok(())
    })
}
