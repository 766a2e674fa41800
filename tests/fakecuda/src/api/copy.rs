//! Asynchronous copies. What the host may not touch meanwhile is watched: the source of an upload
//! must be the same when the copy is done as when it was submitted, and the target of a download
//! holds a pattern until then, which nobody shall overwrite or take for pixels.

use std::ffi::{c_uchar, c_uint, c_void};

use crate::call::{Code, Outcome, call, code};
use crate::memory::{self, Rows};
use crate::stream::Use;
use crate::violation;
use crate::world::{self, Handle};

/// Where one side of a copy lies.
#[derive(Clone, Copy, PartialEq)]
enum Side {
    Host,
    Device,
}

/// `CUDA_MEMCPY2D`, member by member.
#[repr(C)]
pub struct Copy2d {
    source_x: usize,
    source_y: usize,
    source_type: c_uint,
    source_host: *const c_void,
    source_device: u64,
    source_array: usize,
    source_pitch: usize,
    target_x: usize,
    target_y: usize,
    target_type: c_uint,
    target_host: *mut c_void,
    target_device: u64,
    target_array: usize,
    target_pitch: usize,
    width: usize,
    height: usize,
}

/// # Safety
/// As CUDA asks of `cuMemcpyHtoDAsync`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuMemcpyHtoDAsync_v2(
    target: u64,
    source: *const c_void,
    size: usize,
    stream: Handle,
) -> Code {
    call("cuMemcpyHtoDAsync", || {
        let source = Rows::bytes(source as u64, size as u64);
        let target = Rows::bytes(target, size as u64);
        // SAFETY: the host memory stays until the copy is done, by the contract of the call.
        unsafe { copy((Side::Host, source), (Side::Device, target), stream) }
    })
}

/// # Safety
/// As CUDA asks of `cuMemcpyDtoHAsync`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuMemcpyDtoHAsync_v2(
    target: *mut c_void,
    source: u64,
    size: usize,
    stream: Handle,
) -> Code {
    call("cuMemcpyDtoHAsync", || {
        let source = Rows::bytes(source, size as u64);
        let target = Rows::bytes(target as u64, size as u64);
        // SAFETY: the host memory stays until the copy is done, by the contract of the call.
        unsafe { copy((Side::Device, source), (Side::Host, target), stream) }
    })
}

/// # Safety
/// As CUDA asks of `cuMemcpyDtoDAsync`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuMemcpyDtoDAsync_v2(
    target: u64,
    source: u64,
    size: usize,
    stream: Handle,
) -> Code {
    call("cuMemcpyDtoDAsync", || {
        let source = Rows::bytes(source, size as u64);
        let target = Rows::bytes(target, size as u64);
        // SAFETY: no host memory takes part.
        unsafe { copy((Side::Device, source), (Side::Device, target), stream) }
    })
}

/// # Safety
/// As CUDA asks of `cuMemcpy2DAsync`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuMemcpy2DAsync_v2(copied: *const Copy2d, stream: Handle) -> Code {
    call("cuMemcpy2DAsync", || {
        // SAFETY: null or a structure to read, by the contract of the call.
        let c = unsafe { copied.as_ref() }.ok_or(code::INVALID_VALUE)?;
        let source = c.side(
            c.source_type,
            (c.source_host as u64, c.source_device),
            (c.source_x, c.source_y, c.source_pitch),
        )?;
        let target = c.side(
            c.target_type,
            (c.target_host as u64, c.target_device),
            (c.target_x, c.target_y, c.target_pitch),
        )?;
        // SAFETY: the host memory stays until the copy is done, by the contract of the call.
        unsafe { copy(source, target, stream) }
    })
}

impl Copy2d {
    /// One side of the copy.
    ///
    /// # Errors
    /// When it is in an array, or rows overlap.
    fn side(
        &self,
        kind: c_uint,
        (host, device): (u64, u64),
        (x, y, pitch): (usize, usize, usize),
    ) -> Result<(Side, Rows), Code> {
        let (side, start) = match kind {
            1 => (Side::Host, host),
            2 => (Side::Device, device),
            _ => return Err(code::INVALID_VALUE),
        };
        // A pitch of 0 means rows without gaps.
        let pitch = if pitch == 0 { x + self.width } else { pitch };
        if pitch < x + self.width || pitch > i32::MAX as usize {
            return Err(code::INVALID_VALUE);
        }
        let rows = Rows {
            address: start + (y * pitch + x) as u64,
            pitch: pitch as u64,
            width: self.width as u64,
            rows: self.height as u64,
        };
        Ok((side, rows))
    }
}

/// # Safety
/// What is host memory stays readable, or writable, until the copy is done.
unsafe fn copy(
    (from, source): (Side, Rows),
    (to, target): (Side, Rows),
    stream: Handle,
) -> Outcome {
    let mut world = world::lock();
    let context = world.stream(stream)?.context;
    if source.width == 0 || source.rows == 0 {
        return Ok(());
    }
    let uses = [Use::read(&source), Use::write(&target)];
    let submitted = match (from, to) {
        (Side::Host, Side::Device) => {
            world.memory.check_host(&source, context, "the source");
            let memory = world.memory.device(&target, context, "the target");
            // SAFETY: page-locked, by the check, and there, by the caller.
            let submitted = fingerprint(&unsafe { read_host(&source) });
            world.submit(stream, &uses, move || {
                // SAFETY: as above; nobody unregisters it before the host knows of the end.
                let bytes = unsafe { read_host(&source) };
                if fingerprint(&bytes) != submitted {
                    violation!("the source was written to before the copy was done");
                }
                memory.write(&target, &bytes);
            })
        }
        (Side::Device, Side::Host) => {
            let memory = world.memory.device(&source, context, "the source");
            world.memory.check_host(&target, context, "the target");
            // An earlier operation may still read what this one is to overwrite after it.
            let alone = !world.memory.host_in_flight(&target, &world.host);
            let pattern = pattern(&target);
            if alone {
                // SAFETY: page-locked, by the check, and there, by the caller.
                unsafe { write_host(&target, &pattern) };
            }
            world.submit(stream, &uses, move || {
                // SAFETY: as above; nobody unregisters it before the host knows of the end.
                if alone && unsafe { read_host(&target) } != pattern {
                    violation!("the target was written to before the copy was done");
                }
                // SAFETY: as above.
                unsafe { write_host(&target, &memory.read(&source)) };
            })
        }
        (Side::Device, Side::Device) => {
            let read = world.memory.device(&source, context, "the source");
            let written = world.memory.device(&target, context, "the target");
            world.submit(stream, &uses, move || {
                written.write(&target, &read.read(&source));
            })
        }
        (Side::Host, Side::Host) => violation!("neither side is device memory"),
    };
    submitted.map(|_| ())
}

/// # Safety
/// As CUDA asks of `cuMemsetD8Async`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuMemsetD8Async(
    target: u64,
    value: c_uchar,
    size: usize,
    stream: Handle,
) -> Code {
    call("cuMemsetD8Async", || {
        let mut world = world::lock();
        let context = world.stream(stream)?.context;
        if size == 0 {
            return Ok(());
        }
        let target = Rows::bytes(target, size as u64);
        let memory = world.memory.device(&target, context, "the target");
        world.submit(stream, &[Use::write(&target)], move || {
            memory.write(&target, &vec![value; size]);
        })?;
        Ok(())
    })
}

/// The bytes of `rows` without the gaps.
///
/// # Safety
/// They are readable host memory.
unsafe fn read_host(rows: &Rows) -> Vec<u8> {
    let mut bytes = vec![0; (rows.width * rows.rows) as usize];
    for (row, line) in (0..).zip(bytes.chunks_exact_mut(rows.width as usize)) {
        let start = (rows.address + row * rows.pitch) as *const u8;
        // SAFETY: a row of the caller's memory; `line` is our own.
        unsafe {
            line.as_mut_ptr()
                .copy_from_nonoverlapping(start, line.len())
        };
    }
    bytes
}

/// # Safety
/// `rows` are writable host memory.
unsafe fn write_host(rows: &Rows, bytes: &[u8]) {
    for (row, line) in (0..).zip(bytes.chunks_exact(rows.width as usize)) {
        let start = (rows.address + row * rows.pitch) as *mut u8;
        // SAFETY: a row of the caller's memory; `line` is our own.
        unsafe { start.copy_from_nonoverlapping(line.as_ptr(), line.len()) };
    }
}

/// What `rows` hold while a download to them is under way.
fn pattern(rows: &Rows) -> Vec<u8> {
    memory::noise((rows.width * rows.rows) as usize, rows.address)
}

/// A number that bytes which differ do not share.
fn fingerprint(bytes: &[u8]) -> u64 {
    let step = |hash: u64, word: u64| {
        (hash ^ word)
            .wrapping_mul(0x9E37_79B9_7F4A_7C15)
            .rotate_left(29)
    };
    let words = bytes.chunks_exact(8);
    let rest = words.remainder();
    let hash = words.fold(bytes.len() as u64, |hash, word| {
        step(hash, u64::from_le_bytes(word.try_into().expect("8 bytes")))
    });
    rest.iter()
        .fold(hash, |hash, byte| step(hash, u64::from(*byte)))
}
