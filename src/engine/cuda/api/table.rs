//! The driver's functions by name, looked up when it is loaded.
//!
//! The functions that cudarc generates panic on a symbol that the driver lacks and give its
//! result codes an enum's type, which a newer driver's codes would break. So the entry points are
//! looked up here, in the library that cudarc opened, with results as numbers; that their
//! arguments are those of cudarc's declarations is checked by the compiler.

use std::ffi::{c_char, c_int, c_uint, c_void};

use cudarc::driver::sys;
use sys::{CUcontext, CUdevice, CUdeviceptr, CUevent, CUfunction, CUmodule, CUstream};

macro_rules! entry_points {
    ($($name:ident($($argument:ty),*);)*) => {
        /// The driver's functions.
        #[allow(non_snake_case, reason = "the driver's names")]
        pub(super) struct Table {
            pub(super) cuGetErrorName: unsafe extern "C" fn(u32, *mut *const c_char) -> u32,
            pub(super) cuGetErrorString: unsafe extern "C" fn(u32, *mut *const c_char) -> u32,
            $(pub(super) $name: unsafe extern "C" fn($($argument),*) -> u32,)*
        }

        impl Table {
            /// # Errors
            /// The name of a function that `library` lacks.
            pub(super) fn load() -> Result<Table, &'static str> {
                // SAFETY: the caller made sure that there is a library to open.
                let library = unsafe { sys::culib() };
                $(let _: unsafe fn($($argument),*) -> sys::CUresult = sys::$name;)*
                Ok(Table {
                    // SAFETY: the functions of this name have this type in every driver, `cuda.h`
                    // says; an enum of C is passed as a 32-bit number.
                    cuGetErrorName: unsafe { library.get(b"cuGetErrorName") }
                        .map(|symbol| *symbol)
                        .map_err(|_| "cuGetErrorName")?,
                    // SAFETY: as above.
                    cuGetErrorString: unsafe { library.get(b"cuGetErrorString") }
                        .map(|symbol| *symbol)
                        .map_err(|_| "cuGetErrorString")?,
                    // SAFETY: as above; the types were compared with cudarc's two lines up.
                    $($name: unsafe { library.get(stringify!($name).as_bytes()) }
                        .map(|symbol| *symbol)
                        .map_err(|_| stringify!($name))?,)*
                })
            }
        }
    };
}

entry_points! {
    cuDriverGetVersion(*mut c_int);
    cuInit(c_uint);
    cuDeviceGetCount(*mut c_int);
    cuDeviceGet(*mut CUdevice, c_int);
    cuDeviceGetName(*mut c_char, c_int, CUdevice);
    cuDeviceTotalMem_v2(*mut usize, CUdevice);
    cuDeviceGetAttribute(*mut c_int, sys::CUdevice_attribute, CUdevice);
    cuDeviceGetPCIBusId(*mut c_char, c_int, CUdevice);
    cuDevicePrimaryCtxRetain(*mut CUcontext, CUdevice);
    cuDevicePrimaryCtxRelease_v2(CUdevice);
    cuCtxPushCurrent_v2(CUcontext);
    cuCtxPopCurrent_v2(*mut CUcontext);
    cuMemAlloc_v2(*mut CUdeviceptr, usize);
    cuMemFree_v2(CUdeviceptr);
    cuMemGetInfo_v2(*mut usize, *mut usize);
    cuMemHostRegister_v2(*mut c_void, usize, c_uint);
    cuMemHostUnregister(*mut c_void);
    cuMemcpyHtoDAsync_v2(CUdeviceptr, *const c_void, usize, CUstream);
    cuMemcpyDtoHAsync_v2(*mut c_void, CUdeviceptr, usize, CUstream);
    cuMemcpyDtoDAsync_v2(CUdeviceptr, CUdeviceptr, usize, CUstream);
    cuMemcpy2DAsync_v2(*const sys::CUDA_MEMCPY2D, CUstream);
    cuMemsetD8Async(CUdeviceptr, u8, usize, CUstream);
    cuStreamCreate(*mut CUstream, c_uint);
    cuStreamDestroy_v2(CUstream);
    cuStreamSynchronize(CUstream);
    cuStreamWaitEvent(CUstream, CUevent, c_uint);
    cuEventCreate(*mut CUevent, c_uint);
    cuEventDestroy_v2(CUevent);
    cuEventRecord(CUevent, CUstream);
    cuEventQuery(CUevent);
    cuEventSynchronize(CUevent);
    cuEventElapsedTime(*mut f32, CUevent, CUevent);
    cuModuleLoadDataEx(*mut CUmodule, *const c_void, c_uint, *mut sys::CUjit_option, *mut *mut c_void);
    cuModuleUnload(CUmodule);
    cuModuleGetFunction(*mut CUfunction, CUmodule, *const c_char);
    cuFuncGetAttribute(*mut c_int, sys::CUfunction_attribute, CUfunction);
    cuFuncSetAttribute(CUfunction, sys::CUfunction_attribute, c_int);
    cuLaunchKernel(
        CUfunction, c_uint, c_uint, c_uint, c_uint, c_uint, c_uint, c_uint, CUstream,
        *mut *mut c_void, *mut *mut c_void
    );
}
