//! Functions of the driver that the ladder alone calls. They are looked up when they are first called,
//! so that a driver without them lacks a step and nothing else.

use std::ffi::{CStr, c_char, c_int};
use std::sync::Arc;

use cudarc::driver::sys;

use crate::engine::cuda::abi::ladder::Sample;
use crate::engine::cuda::api::{CUdeviceptr, CUfunction, CUmodule, Failure};
use crate::engine::cuda::context::{Context, Current};
use crate::engine::cuda::error::CudaError;

/// What a call of a function that the driver lacks comes to: `CUDA_ERROR_NOT_FOUND`.
const NOT_FOUND: u32 = sys::CUresult::CUDA_ERROR_NOT_FOUND as u32;

macro_rules! call {
    ($name:ident: fn($($type:ty),*), $($argument:expr),* $(,)?) => {{
        let _: unsafe fn($($type),*) -> sys::CUresult = sys::$name;
        // SAFETY: a context exists, so the driver's library was opened. The function has this type in
        // every driver that has it: it was compared with cudarc's declaration one line up.
        let function = unsafe {
            (sys::culib())
                .get::<unsafe extern "C" fn($($type),*) -> u32>(stringify!($name).as_bytes())
        };
        match function {
            // SAFETY: passed on to the caller of the macro, which says why its arguments are right.
            Ok(function) => match unsafe { function($($argument),*) } {
                0 => Ok(()),
                code => Err(Failure { call: stringify!($name), code }),
            },
            Err(_) => Err(Failure { call: stringify!($name), code: NOT_FOUND }),
        }
    }};
}

/// Address and bytes of a variable of a loaded module.
///
/// # Errors
/// As the driver's.
pub fn variable(
    current: &Current,
    module: CUmodule,
    name: &CStr,
) -> Result<(CUdeviceptr, usize), CudaError> {
    let (mut start, mut bytes) = (0, 0);
    // The context is current, and the module loaded in it; two numbers are written.
    let found = call!(
        cuModuleGetGlobal_v2: fn(*mut CUdeviceptr, *mut usize, CUmodule, *const c_char),
        &mut start,
        &mut bytes,
        module,
        name.as_ptr(),
    );
    current.check(found)?;
    Ok((start, bytes))
}

/// Blocks of a launch that a multiprocessor can hold at once.
///
/// # Errors
/// As the driver's.
pub fn blocks_of_multiprocessor(
    current: &Current,
    function: CUfunction,
    threads: u32,
    shared_bytes: u32,
) -> Result<u32, CudaError> {
    let mut blocks = 0;
    // The context is current, and the function of a module loaded in it; a number is written.
    let asked = call!(
        cuOccupancyMaxActiveBlocksPerMultiprocessor: fn(*mut c_int, CUfunction, c_int, usize),
        &mut blocks,
        function,
        threads as c_int,
        shared_bytes as usize,
    );
    current.check(asked)?;
    Ok(blocks.unsigned_abs())
}

/// A picture in device memory as the texture units read it: single values, beyond the edge the nearest.
pub struct Texture {
    context: Arc<Context>,
    handle: sys::CUtexObject,
}

/// Textures begin at multiples of this many bytes on every device.
pub const TEXTURE_ALIGNMENT: usize = 512;

impl Texture {
    /// Of `width` x `height` samples from `start` on, in rows of `stride` samples. The memory must stay
    /// as long as the texture is read.
    ///
    /// # Errors
    /// As the driver's.
    pub fn new(
        current: &Current,
        start: CUdeviceptr,
        sample: Sample,
        (width, height, stride): (usize, usize, usize),
    ) -> Result<Texture, CudaError> {
        let format = match sample {
            Sample::U8 => sys::CUarray_format::CU_AD_FORMAT_UNSIGNED_INT8,
            Sample::F16 => sys::CUarray_format::CU_AD_FORMAT_HALF,
            Sample::F32 => sys::CUarray_format::CU_AD_FORMAT_FLOAT,
        };
        // SAFETY: a structure of C whose members may all be 0; the bytes behind what is set below must be.
        let mut resource: sys::CUDA_RESOURCE_DESC = unsafe { std::mem::zeroed() };
        resource.resType = sys::CUresourcetype::CU_RESOURCE_TYPE_PITCH2D;
        resource.res.pitch2D = sys::CUDA_RESOURCE_DESC_st__bindgen_ty_1__bindgen_ty_4 {
            devPtr: start,
            format,
            numChannels: 1,
            width,
            height,
            pitchInBytes: stride * sample.bytes(),
        };
        let clamp = sys::CUaddress_mode::CU_TR_ADDRESS_MODE_CLAMP;
        let point = sys::CUfilter_mode::CU_TR_FILTER_MODE_POINT;
        let texture = sys::CUDA_TEXTURE_DESC {
            addressMode: [clamp; 3],
            filterMode: point,
            flags: sys::CU_TRSF_READ_AS_INTEGER,
            maxAnisotropy: 0,
            mipmapFilterMode: point,
            mipmapLevelBias: 0.0,
            minMipmapLevelClamp: 0.0,
            maxMipmapLevelClamp: 0.0,
            borderColor: [0.0; 4],
            reserved: [0; 12],
        };
        let mut handle = 0;
        // The context is current; the descriptions are whole, and a number is written.
        let made = call!(
            cuTexObjectCreate: fn(
                *mut sys::CUtexObject,
                *const sys::CUDA_RESOURCE_DESC,
                *const sys::CUDA_TEXTURE_DESC,
                *const sys::CUDA_RESOURCE_VIEW_DESC
            ),
            &mut handle,
            &resource,
            &texture,
            std::ptr::null(),
        );
        current.check(made)?;
        Ok(Texture {
            context: current.context().clone(),
            handle,
        })
    }

    pub fn handle(&self) -> u64 {
        self.handle
    }
}

impl Drop for Texture {
    fn drop(&mut self) {
        let handle = self.handle;
        // Whoever drops it has waited for the work that reads it, and nobody else has the handle.
        self.context
            .release(|_| call!(cuTexObjectDestroy: fn(sys::CUtexObject), handle));
    }
}
