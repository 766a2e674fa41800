//! Start of the driver, and the devices.

use std::ffi::{c_char, c_int, c_uint};

use crate::call::{Code, Outcome, call, code, put};
use crate::settings::SETTINGS;
use crate::world;

const NAME: &[u8] = b"Fake CUDA device";

/// Index of the device that a `CUdevice` names.
///
/// # Errors
/// Before `cuInit`, and when there is no such device.
pub fn device(handle: c_int) -> Result<usize, Code> {
    world::lock().initialised()?;
    let index = usize::try_from(handle).map_err(|_| code::INVALID_DEVICE)?;
    if index < SETTINGS.devices.len() {
        Ok(index)
    } else {
        Err(code::INVALID_DEVICE)
    }
}

/// Stores text and its final 0 where there is room for `length` bytes.
///
/// # Safety
/// `place` is null or valid for writes of `length` bytes.
unsafe fn put_text(place: *mut c_char, length: c_int, text: &[u8]) -> Outcome {
    if place.is_null() || length <= 0 {
        return Err(code::INVALID_VALUE);
    }
    let bytes = text.len().min(length as usize - 1);
    // SAFETY: `bytes + 1` is at most `length`, for which the place is valid.
    unsafe {
        place.cast::<u8>().copy_from(text.as_ptr(), bytes);
        place.add(bytes).write(0);
    }
    Ok(())
}

#[unsafe(no_mangle)]
pub extern "C" fn cuInit(flags: c_uint) -> Code {
    call("cuInit", || match (flags, SETTINGS.devices.is_empty()) {
        (0, false) => {
            world::lock().initialised = true;
            Ok(())
        }
        (0, true) => Err(code::NO_DEVICE),
        _ => Err(code::INVALID_VALUE),
    })
}

/// # Safety
/// As CUDA asks of `cuDriverGetVersion`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuDriverGetVersion(version: *mut c_int) -> Code {
    // SAFETY: a place for the result, by the contract of the call.
    call("cuDriverGetVersion", || unsafe {
        put(version, SETTINGS.driver_version)
    })
}

/// # Safety
/// As CUDA asks of `cuDeviceGetCount`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuDeviceGetCount(count: *mut c_int) -> Code {
    call("cuDeviceGetCount", || {
        world::lock().initialised()?;
        // SAFETY: a place for the result, by the contract of the call.
        unsafe { put(count, SETTINGS.devices.len() as c_int) }
    })
}

/// # Safety
/// As CUDA asks of `cuDeviceGet`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuDeviceGet(handle: *mut c_int, ordinal: c_int) -> Code {
    call("cuDeviceGet", || {
        let index = device(ordinal)?;
        // SAFETY: a place for the result, by the contract of the call.
        unsafe { put(handle, index as c_int) }
    })
}

/// # Safety
/// As CUDA asks of `cuDeviceGetName`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuDeviceGetName(name: *mut c_char, length: c_int, handle: c_int) -> Code {
    call("cuDeviceGetName", || {
        device(handle)?;
        // SAFETY: room for so many bytes, by the contract of the call.
        unsafe { put_text(name, length, NAME) }
    })
}

/// # Safety
/// As CUDA asks of `cuDeviceGetPCIBusId`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuDeviceGetPCIBusId(
    id: *mut c_char,
    length: c_int,
    handle: c_int,
) -> Code {
    call("cuDeviceGetPCIBusId", || {
        let text = format!("0000:{:02x}:00.0", pci_bus(device(handle)?));
        // SAFETY: room for so many bytes, by the contract of the call.
        unsafe { put_text(id, length, text.as_bytes()) }
    })
}

fn pci_bus(device: usize) -> u32 {
    0x41 + SETTINGS.devices[device]
}

/// # Safety
/// As CUDA asks of `cuDeviceTotalMem`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuDeviceTotalMem_v2(bytes: *mut usize, handle: c_int) -> Code {
    call("cuDeviceTotalMem", || {
        device(handle)?;
        // SAFETY: a place for the result, by the contract of the call.
        unsafe { put(bytes, SETTINGS.memory as usize) }
    })
}

/// # Safety
/// As CUDA asks of `cuDeviceGetAttribute`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuDeviceGetAttribute(
    value: *mut c_int,
    attribute: c_int,
    handle: c_int,
) -> Code {
    call("cuDeviceGetAttribute", || {
        let found = self::attribute(attribute, device(handle)?).ok_or(code::INVALID_VALUE)?;
        // SAFETY: a place for the result, by the contract of the call.
        unsafe { put(value, found) }
    })
}

/// Dynamic shared memory that a block may have once a kernel has asked for more than 48 KiB.
pub fn max_shared() -> c_int {
    match SETTINGS.compute {
        90.. => 227 * 1024,
        80 | 87 => 163 * 1024,
        75 => 64 * 1024,
        _ => 99 * 1024,
    }
}

/// Threads that a multiprocessor holds at once.
pub const THREADS_OF_MULTIPROCESSOR: c_int = 2048;

/// The numbers are CUDA's `CU_DEVICE_ATTRIBUTE_*`.
fn attribute(attribute: c_int, device: usize) -> Option<c_int> {
    Some(match attribute {
        // Threads of a block, in all and by axis; blocks of a grid by axis.
        1..=3 => 1024,
        4 => 64,
        5 => i32::MAX,
        6 | 7 => 65535,
        // Shared memory of a block, constant memory, warp, pitch, registers, clock in kHz.
        8 => 48 * 1024,
        9 => 65536,
        10 => 32,
        11 => i32::MAX,
        12 => 65536,
        13 => 1_980_000,
        // Texture alignment, overlap, multiprocessors, timeout, integrated, mapping, mode.
        14 => 512,
        15 => 1,
        16 => 16,
        17 | 18 => 0,
        19 => 1,
        20 => 0,
        // Concurrent kernels, ECC, PCI bus, device and domain, threads of a multiprocessor.
        31 => 1,
        32 => 0,
        33 => pci_bus(device) as c_int,
        34 | 50 => 0,
        39 => THREADS_OF_MULTIPROCESSOR,
        // Copy engines, unified addresses, compute capability, priorities.
        40 => 2,
        41 => 1,
        75 => SETTINGS.compute / 10,
        76 => SETTINGS.compute % 10,
        78 => 1,
        // Shared memory of a multiprocessor, of a block that asks for it.
        81 => max_shared() + 1024,
        97 => max_shared(),
        // Host memory can be registered, and used by its own address.
        98 | 99 => 1,
        _ => return None,
    })
}
