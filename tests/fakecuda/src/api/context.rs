//! Primary contexts, and which is current.

use std::ffi::{c_int, c_uint};

use crate::api::device::device;
use crate::call::{Code, call, code, put};
use crate::violation;
use crate::world::{self, Context, Handle};

/// # Safety
/// As CUDA asks of `cuDevicePrimaryCtxRetain`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuDevicePrimaryCtxRetain(context: *mut Handle, handle: c_int) -> Code {
    call("cuDevicePrimaryCtxRetain", || {
        let device = device(handle)?;
        let mut world = world::lock();
        if let Some(code) = world.broken_device(device) {
            return Err(code);
        }
        let existing = world.contexts.iter().find(|(_, c)| c.device == device);
        let existing = existing.map(|(handle, _)| *handle);
        let found = existing.unwrap_or_else(|| {
            let retained = 0;
            let handle = world.new_handle();
            world.contexts.insert(handle, Context { device, retained });
            handle
        });
        let primary = world.contexts.get_mut(&found);
        primary.expect("found or inserted above").retained += 1;
        // SAFETY: a place for the result, by the contract of the call.
        unsafe { put(context, found) }
    })
}

#[unsafe(no_mangle)]
pub extern "C" fn cuDevicePrimaryCtxRelease_v2(handle: c_int) -> Code {
    call("cuDevicePrimaryCtxRelease", || {
        let device = device(handle)?;
        let mut world = world::lock();
        let mut all = world.contexts.iter_mut();
        let Some((&handle, context)) = all.find(|(_, c)| c.device == device) else {
            violation!("the primary context was released more often than retained");
        };
        context.retained -= 1;
        if context.retained == 0 {
            world.destroy_context(handle);
        }
        Ok(())
    })
}

/// # Errors
/// When `context` is none.
fn exists(context: Handle) -> Result<(), Code> {
    let world = world::lock();
    world.initialised()?;
    if world.contexts.contains_key(&context) {
        Ok(())
    } else {
        Err(code::INVALID_CONTEXT)
    }
}

#[unsafe(no_mangle)]
pub extern "C" fn cuCtxPushCurrent_v2(context: Handle) -> Code {
    call("cuCtxPushCurrent", || {
        exists(context)?;
        world::with_stack(|stack| stack.push(context));
        Ok(())
    })
}

/// # Safety
/// As CUDA asks of `cuCtxPopCurrent`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuCtxPopCurrent_v2(context: *mut Handle) -> Code {
    call("cuCtxPopCurrent", || {
        world::lock().initialised()?;
        let popped = world::with_stack(Vec::pop).ok_or(code::INVALID_CONTEXT)?;
        if context.is_null() {
            return Ok(());
        }
        // SAFETY: not null, and a place for the result by the contract of the call.
        unsafe { put(context, popped) }
    })
}

#[unsafe(no_mangle)]
pub extern "C" fn cuCtxSetCurrent(context: Handle) -> Code {
    call("cuCtxSetCurrent", || {
        if context != 0 {
            exists(context)?;
        }
        world::with_stack(|stack| {
            stack.pop();
            stack.extend((context != 0).then_some(context));
        });
        Ok(())
    })
}

/// # Safety
/// As CUDA asks of `cuCtxGetCurrent`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuCtxGetCurrent(context: *mut Handle) -> Code {
    call("cuCtxGetCurrent", || {
        world::lock().initialised()?;
        // SAFETY: a place for the result, by the contract of the call.
        unsafe { put(context, world::top().unwrap_or(0)) }
    })
}

/// # Safety
/// As CUDA asks of `cuCtxGetDevice`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuCtxGetDevice(device: *mut c_int) -> Code {
    call("cuCtxGetDevice", || {
        let world = world::lock();
        let current = world.current()?;
        // SAFETY: a place for the result, by the contract of the call.
        unsafe { put(device, world.contexts[&current].device as c_int) }
    })
}

#[unsafe(no_mangle)]
pub extern "C" fn cuCtxSynchronize() -> Code {
    call("cuCtxSynchronize", || {
        violation!("waiting for a whole device makes all its users wait for each other")
    })
}

/// # Safety
/// As CUDA asks of `cuCtxCreate`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuCtxCreate_v2(_: *mut Handle, _: c_uint, _: c_int) -> Code {
    call("cuCtxCreate", || {
        violation!("a context beside the primary one costs memory and switches")
    })
}
