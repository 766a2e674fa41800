//! Device memory, and page-locking of host memory.

use std::ffi::{c_uint, c_void};

use crate::call::{Code, call, code, put};
use crate::settings::SETTINGS;
use crate::world;

const PORTABLE: c_uint = 1;
const DEVICE_MAP: c_uint = 2;

/// # Safety
/// As CUDA asks of `cuMemAlloc`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuMemAlloc_v2(address: *mut u64, size: usize) -> Code {
    call("cuMemAlloc", || {
        let mut world = world::lock();
        let context = world.current()?;
        let device = world.contexts[&context].device;
        let allocated = world.memory.allocate(context, device, size as u64)?;
        // SAFETY: a place for the result, by the contract of the call.
        unsafe { put(address, allocated) }
    })
}

#[unsafe(no_mangle)]
pub extern "C" fn cuMemFree_v2(address: u64) -> Code {
    call("cuMemFree", || {
        let mut guard = world::lock();
        guard.current()?;
        let world = &mut *guard;
        world.memory.free(address, &world.host);
        Ok(())
    })
}

/// # Safety
/// As CUDA asks of `cuMemGetInfo`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuMemGetInfo_v2(free: *mut usize, total: *mut usize) -> Code {
    call("cuMemGetInfo", || {
        let world = world::lock();
        let device = world.contexts[&world.current()?].device;
        let left = SETTINGS.memory - world.memory.used(device);
        // SAFETY: places for the results, by the contract of the call.
        unsafe {
            put(free, left as usize)?;
            put(total, SETTINGS.memory as usize)
        }
    })
}

#[unsafe(no_mangle)]
pub extern "C" fn cuMemHostRegister_v2(start: *mut c_void, size: usize, flags: c_uint) -> Code {
    call("cuMemHostRegister", || {
        if flags & !(PORTABLE | DEVICE_MAP) != 0 {
            return Err(code::INVALID_VALUE);
        }
        let mut world = world::lock();
        let context = world.current()?;
        let portable = flags & PORTABLE != 0;
        let address = start as u64;
        (world.memory).register(address, size as u64, context, portable)
    })
}

#[unsafe(no_mangle)]
pub extern "C" fn cuMemHostUnregister(start: *mut c_void) -> Code {
    call("cuMemHostUnregister", || {
        let mut guard = world::lock();
        guard.current()?;
        let world = &mut *guard;
        world.memory.unregister(start as u64, &world.host)
    })
}
