//! The driver's functions as programs call them, through cudarc, in short.

use std::ffi::{CString, c_void};
use std::ptr;

use cudarc::driver::sys::*;

pub type Status = CUresult;
pub const OK: Status = CUresult::CUDA_SUCCESS;

/// Asserts that a call succeeds.
#[macro_export]
macro_rules! ok {
    ($call:expr) => {{
        // SAFETY: the arguments are what the driver asks for; where a test breaks its rules, the
        // test driver ends the process before anything happens.
        let status = unsafe { $call };
        assert_eq!(status, $crate::support::OK, stringify!($call));
    }};
}

/// What a call returns.
#[macro_export]
macro_rules! status {
    ($call:expr) => {
        // SAFETY: as in `ok`.
        unsafe { $call }
    };
}

/// The first device's primary context, current on this thread.
pub fn context() -> CUcontext {
    ok!(cuInit(0));
    let mut context = ptr::null_mut();
    ok!(cuDevicePrimaryCtxRetain(&mut context, 0));
    ok!(cuCtxPushCurrent_v2(context));
    context
}

pub fn stream() -> CUstream {
    let mut stream = ptr::null_mut();
    ok!(cuStreamCreate(&mut stream, 1));
    stream
}

pub fn event(flags: u32) -> CUevent {
    let mut event = ptr::null_mut();
    ok!(cuEventCreate(&mut event, flags));
    event
}

/// An event recorded on `stream`.
pub fn record(stream: CUstream) -> CUevent {
    let event = event(0);
    ok!(cuEventRecord(event, stream));
    event
}

pub fn device_memory(size: usize) -> CUdeviceptr {
    let mut address = 0;
    ok!(cuMemAlloc_v2(&mut address, size));
    address
}

/// Page-locked host memory, to be used by address alone while copies are under way. Never freed.
#[derive(Clone, Copy)]
pub struct Pinned {
    pub start: *mut u8,
    pub size: usize,
}

impl Pinned {
    pub fn new(size: usize) -> Pinned {
        let start = Box::leak(vec![0u8; size + 4096].into_boxed_slice()).as_mut_ptr();
        let start = start.wrapping_add(start.align_offset(4096));
        ok!(cuMemHostRegister_v2(start.cast(), size, 1));
        Pinned { start, size }
    }

    pub fn fill(self, value: u8) {
        // SAFETY: the leaked allocation.
        unsafe { self.start.write_bytes(value, self.size) };
    }

    pub fn bytes(self) -> Vec<u8> {
        // SAFETY: the leaked allocation.
        unsafe { std::slice::from_raw_parts(self.start, self.size) }.to_vec()
    }

    pub fn upload(self, target: CUdeviceptr, stream: CUstream) {
        ok!(cuMemcpyHtoDAsync_v2(
            target,
            self.start.cast(),
            self.size,
            stream
        ));
    }

    pub fn download(self, source: CUdeviceptr, stream: CUstream) {
        ok!(cuMemcpyDtoHAsync_v2(
            self.start.cast(),
            source,
            self.size,
            stream
        ));
    }
}

/// Loads `ptx`.
pub fn load(ptx: &str) -> Result<CUmodule, Status> {
    let text = CString::new(ptx).unwrap();
    let mut module = ptr::null_mut();
    let image = text.as_ptr().cast::<c_void>();
    let none = ptr::null_mut();
    match status!(cuModuleLoadDataEx(
        &mut module,
        image,
        0,
        none,
        ptr::null_mut()
    )) {
        OK => Ok(module),
        other => Err(other),
    }
}
