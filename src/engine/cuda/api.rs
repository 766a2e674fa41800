//! The driver's entry points: found once, and every call of them in this file.

use std::ffi::{CStr, c_char, c_int, c_uint, c_void};
use std::sync::OnceLock;

use cudarc::driver::sys;

use self::table::Table;

pub use sys::{CUcontext, CUdevice, CUdeviceptr, CUevent, CUfunction, CUmodule, CUstream};

pub mod code;
mod table;

/// What a call of the driver returned instead of success.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Failure {
    /// The driver's name of the function.
    pub call: &'static str,
    pub code: u32,
}

/// Why there are no entry points.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LoadError {
    /// No library of the driver was found.
    Missing,
    /// The library lacks this function.
    Symbol(&'static str),
}

/// The driver's library, opened.
///
/// Its methods say in one line what the driver's functions do; arguments and errors are those of
/// the functions, described in the CUDA driver API's reference. Methods that take handles are
/// unsafe: a handle must be alive and belong to the context that is current.
pub struct Api(Table);

macro_rules! call {
    ($api:expr, $name:ident($($argument:expr),* $(,)?)) => {
        match ($api.0.$name)($($argument),*) {
            0 => Ok(()),
            code => Err(Failure { call: stringify!($name), code }),
        }
    };
}

impl Api {
    /// The entry points, found at the first call. A failure is not kept: the next call looks
    /// again.
    ///
    /// # Errors
    /// When no driver is installed, or one that lacks something.
    pub fn get() -> Result<&'static Api, LoadError> {
        static API: OnceLock<Api> = OnceLock::new();
        if let Some(api) = API.get() {
            return Ok(api);
        }
        // SAFETY: opening the driver's library runs its initialisers, which is what it is for.
        if !unsafe { sys::is_culib_present() } {
            return Err(LoadError::Missing);
        }
        let table = Table::load().map_err(LoadError::Symbol)?;
        Ok(API.get_or_init(|| Api(table)))
    }

    /// The name and the description of a result code.
    pub fn describe(&self, code: u32) -> (String, String) {
        let text = |function: unsafe extern "C" fn(u32, *mut *const c_char) -> u32| {
            let mut text = std::ptr::null();
            // SAFETY: the driver writes the address of a string of its own, or of none.
            let known = unsafe { function(code, &mut text) } == 0 && !text.is_null();
            // SAFETY: the driver's strings are constants that end in NUL.
            known.then(|| {
                unsafe { CStr::from_ptr(text) }
                    .to_string_lossy()
                    .into_owned()
            })
        };
        (
            text(self.0.cuGetErrorName).unwrap_or_else(|| format!("CUDA error {code}")),
            text(self.0.cuGetErrorString).unwrap_or_else(|| "without description".into()),
        )
    }

    /// The CUDA version that the driver supports, major and minor.
    pub fn driver_version(&self) -> Result<(u32, u32), Failure> {
        let mut version = 0;
        // SAFETY: needs no initialisation; writes a number.
        unsafe { call!(self, cuDriverGetVersion(&mut version)) }?;
        let version = version.unsigned_abs();
        Ok((version / 1000, version % 1000 / 10))
    }

    pub fn init(&self) -> Result<(), Failure> {
        // SAFETY: may be called by any thread, any number of times.
        unsafe { call!(self, cuInit(0)) }
    }

    pub fn device_count(&self) -> Result<c_int, Failure> {
        let mut count = 0;
        // SAFETY: writes a number.
        unsafe { call!(self, cuDeviceGetCount(&mut count)) }?;
        Ok(count)
    }

    pub fn device(&self, ordinal: c_int) -> Result<CUdevice, Failure> {
        let mut device = 0;
        // SAFETY: writes a number.
        unsafe { call!(self, cuDeviceGet(&mut device, ordinal)) }?;
        Ok(device)
    }

    pub fn device_name(&self, device: CUdevice) -> Result<String, Failure> {
        let mut name = [0u8; 256];
        // SAFETY: writes at most 256 bytes.
        unsafe { call!(self, cuDeviceGetName(name.as_mut_ptr().cast(), 256, device)) }?;
        Ok(text_of(&name))
    }

    /// Of the form `0000:01:00.0`.
    pub fn device_pci_bus_id(&self, device: CUdevice) -> Result<String, Failure> {
        let mut id = [0u8; 32];
        // SAFETY: writes at most 32 bytes.
        unsafe {
            call!(
                self,
                cuDeviceGetPCIBusId(id.as_mut_ptr().cast(), 32, device)
            )
        }?;
        Ok(text_of(&id))
    }

    /// Bytes of memory.
    pub fn device_memory(&self, device: CUdevice) -> Result<usize, Failure> {
        let mut bytes = 0;
        // SAFETY: writes a number.
        unsafe { call!(self, cuDeviceTotalMem_v2(&mut bytes, device)) }?;
        Ok(bytes)
    }

    pub fn device_attribute(
        &self,
        attribute: sys::CUdevice_attribute,
        device: CUdevice,
    ) -> Result<c_int, Failure> {
        let mut value = 0;
        // SAFETY: writes a number.
        unsafe { call!(self, cuDeviceGetAttribute(&mut value, attribute, device)) }?;
        Ok(value)
    }

    pub fn retain_primary_context(&self, device: CUdevice) -> Result<CUcontext, Failure> {
        let mut context = std::ptr::null_mut();
        // SAFETY: writes a handle.
        unsafe { call!(self, cuDevicePrimaryCtxRetain(&mut context, device)) }?;
        Ok(context)
    }

    /// # Safety
    /// Nothing that was made in the context since it was retained may be used any more.
    pub unsafe fn release_primary_context(&self, device: CUdevice) -> Result<(), Failure> {
        // SAFETY: passed on to the caller.
        unsafe { call!(self, cuDevicePrimaryCtxRelease_v2(device)) }
    }

    /// # Safety
    /// The context must be alive.
    pub unsafe fn push_context(&self, context: CUcontext) -> Result<(), Failure> {
        // SAFETY: passed on to the caller.
        unsafe { call!(self, cuCtxPushCurrent_v2(context)) }
    }

    pub fn pop_context(&self) -> Result<(), Failure> {
        let mut context = std::ptr::null_mut();
        // SAFETY: writes a handle; without a current context it returns an error.
        unsafe { call!(self, cuCtxPopCurrent_v2(&mut context)) }
    }
}

/// The text before the first NUL.
fn text_of(bytes: &[u8]) -> String {
    let end = bytes.iter().position(|&b| b == 0).unwrap_or(bytes.len());
    String::from_utf8_lossy(&bytes[..end]).into_owned()
}

/// Memory.
impl Api {
    /// # Safety
    /// A context must be current.
    pub unsafe fn allocate(&self, bytes: usize) -> Result<CUdeviceptr, Failure> {
        let mut start = 0;
        // SAFETY: writes an address.
        unsafe { call!(self, cuMemAlloc_v2(&mut start, bytes)) }?;
        Ok(start)
    }

    /// # Safety
    /// `start` must come from [`Api::allocate`] and be in no work's use.
    pub unsafe fn free(&self, start: CUdeviceptr) -> Result<(), Failure> {
        // SAFETY: passed on to the caller.
        unsafe { call!(self, cuMemFree_v2(start)) }
    }

    /// Bytes free and in all.
    ///
    /// # Safety
    /// A context must be current.
    pub unsafe fn memory_info(&self) -> Result<(usize, usize), Failure> {
        let (mut free, mut total) = (0, 0);
        // SAFETY: writes two numbers.
        unsafe { call!(self, cuMemGetInfo_v2(&mut free, &mut total)) }?;
        Ok((free, total))
    }

    /// Page-locks host memory, for all contexts.
    ///
    /// # Safety
    /// A context must be current; the memory must stay until it is unregistered.
    pub unsafe fn register_host(&self, start: *mut u8, bytes: usize) -> Result<(), Failure> {
        // SAFETY: passed on to the caller.
        unsafe {
            call!(
                self,
                cuMemHostRegister_v2(start.cast(), bytes, sys::CU_MEMHOSTREGISTER_PORTABLE)
            )
        }
    }

    /// # Safety
    /// A context must be current, `start` be registered and in no work's use.
    pub unsafe fn unregister_host(&self, start: *mut u8) -> Result<(), Failure> {
        // SAFETY: passed on to the caller.
        unsafe { call!(self, cuMemHostUnregister(start.cast())) }
    }

    /// # Safety
    /// All of both ranges must stay valid until the stream has passed this point, and be used by
    /// nothing else meanwhile.
    pub unsafe fn copy_to_device(
        &self,
        to: CUdeviceptr,
        from: *const u8,
        bytes: usize,
        stream: CUstream,
    ) -> Result<(), Failure> {
        // SAFETY: passed on to the caller.
        unsafe { call!(self, cuMemcpyHtoDAsync_v2(to, from.cast(), bytes, stream)) }
    }

    /// # Safety
    /// As [`Api::copy_to_device`].
    pub unsafe fn copy_to_host(
        &self,
        to: *mut u8,
        from: CUdeviceptr,
        bytes: usize,
        stream: CUstream,
    ) -> Result<(), Failure> {
        // SAFETY: passed on to the caller.
        unsafe { call!(self, cuMemcpyDtoHAsync_v2(to.cast(), from, bytes, stream)) }
    }

    /// # Safety
    /// As [`Api::copy_to_device`].
    pub unsafe fn copy_on_device(
        &self,
        to: CUdeviceptr,
        from: CUdeviceptr,
        bytes: usize,
        stream: CUstream,
    ) -> Result<(), Failure> {
        // SAFETY: passed on to the caller.
        unsafe { call!(self, cuMemcpyDtoDAsync_v2(to, from, bytes, stream)) }
    }

    /// # Safety
    /// As [`Api::copy_to_device`], for every row.
    pub unsafe fn copy_rows(
        &self,
        copy: &sys::CUDA_MEMCPY2D,
        stream: CUstream,
    ) -> Result<(), Failure> {
        // SAFETY: passed on to the caller.
        unsafe { call!(self, cuMemcpy2DAsync_v2(copy, stream)) }
    }

    /// # Safety
    /// As [`Api::copy_to_device`].
    pub unsafe fn fill(
        &self,
        start: CUdeviceptr,
        byte: u8,
        bytes: usize,
        stream: CUstream,
    ) -> Result<(), Failure> {
        // SAFETY: passed on to the caller.
        unsafe { call!(self, cuMemsetD8Async(start, byte, bytes, stream)) }
    }
}

/// Streams, events, modules and kernels.
impl Api {
    /// A stream that does not wait for the null stream.
    ///
    /// # Safety
    /// A context must be current.
    pub unsafe fn create_stream(&self) -> Result<CUstream, Failure> {
        let flags = sys::CUstream_flags::CU_STREAM_NON_BLOCKING as c_uint;
        let mut stream = std::ptr::null_mut();
        // SAFETY: writes a handle.
        unsafe { call!(self, cuStreamCreate(&mut stream, flags)) }?;
        Ok(stream)
    }

    /// # Safety
    /// The stream must not be used again.
    pub unsafe fn destroy_stream(&self, stream: CUstream) -> Result<(), Failure> {
        // SAFETY: passed on to the caller.
        unsafe { call!(self, cuStreamDestroy_v2(stream)) }
    }

    /// # Safety
    /// The stream must be alive.
    pub unsafe fn synchronize_stream(&self, stream: CUstream) -> Result<(), Failure> {
        // SAFETY: passed on to the caller.
        unsafe { call!(self, cuStreamSynchronize(stream)) }
    }

    /// An event with timing; a thread that waits for one made `blocking` sleeps.
    ///
    /// # Safety
    /// A context must be current.
    pub unsafe fn create_event(&self, blocking: bool) -> Result<CUevent, Failure> {
        let flags = match blocking {
            true => sys::CUevent_flags::CU_EVENT_BLOCKING_SYNC,
            false => sys::CUevent_flags::CU_EVENT_DEFAULT,
        };
        let mut event = std::ptr::null_mut();
        // SAFETY: writes a handle.
        unsafe { call!(self, cuEventCreate(&mut event, flags as c_uint)) }?;
        Ok(event)
    }

    /// # Safety
    /// The event must not be used again.
    pub unsafe fn destroy_event(&self, event: CUevent) -> Result<(), Failure> {
        // SAFETY: passed on to the caller.
        unsafe { call!(self, cuEventDestroy_v2(event)) }
    }

    /// # Safety
    /// Both must be alive.
    pub unsafe fn record_event(&self, event: CUevent, stream: CUstream) -> Result<(), Failure> {
        // SAFETY: passed on to the caller.
        unsafe { call!(self, cuEventRecord(event, stream)) }
    }

    /// What is given to the stream from now on begins once the event, as last recorded, has passed.
    ///
    /// # Safety
    /// Both must be alive.
    pub unsafe fn stream_wait_event(
        &self,
        stream: CUstream,
        event: CUevent,
    ) -> Result<(), Failure> {
        // SAFETY: passed on to the caller.
        unsafe { call!(self, cuStreamWaitEvent(stream, event, 0)) }
    }

    /// Whether the stream has passed the event.
    ///
    /// # Safety
    /// The event must be alive.
    pub unsafe fn query_event(&self, event: CUevent) -> Result<bool, Failure> {
        // SAFETY: passed on to the caller.
        match unsafe { call!(self, cuEventQuery(event)) } {
            Ok(()) => Ok(true),
            Err(failure) if failure.code == code::NOT_READY => Ok(false),
            Err(failure) => Err(failure),
        }
    }

    /// # Safety
    /// The event must be alive.
    pub unsafe fn synchronize_event(&self, event: CUevent) -> Result<(), Failure> {
        // SAFETY: passed on to the caller.
        unsafe { call!(self, cuEventSynchronize(event)) }
    }

    /// Milliseconds from one event to the other, which may be the earlier.
    ///
    /// # Safety
    /// Both must be alive.
    pub unsafe fn elapsed(&self, from: CUevent, to: CUevent) -> Result<f32, Failure> {
        let mut milliseconds = 0.0;
        // SAFETY: passed on to the caller.
        unsafe { call!(self, cuEventElapsedTime(&mut milliseconds, from, to)) }?;
        Ok(milliseconds)
    }

    /// Compiles and loads PTX. With a failure comes what the compiler says of it.
    ///
    /// # Safety
    /// A context must be current; `ptx` must be code that does no harm.
    pub unsafe fn load_module(&self, ptx: &CStr) -> Result<CUmodule, (Failure, String)> {
        const LOG_BYTES: usize = 8192;
        let mut log = vec![0u8; LOG_BYTES];
        let mut options = [
            sys::CUjit_option::CU_JIT_ERROR_LOG_BUFFER,
            sys::CUjit_option::CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES,
        ];
        // A number is passed in the place of the pointer.
        let mut values = [log.as_mut_ptr().cast(), LOG_BYTES as *mut c_void];
        let mut module = std::ptr::null_mut();
        // SAFETY: the image ends in NUL; the log is as long as the options say, and the driver
        // writes it and the size of it, in `values`, before it returns.
        let loaded = unsafe {
            call!(
                self,
                cuModuleLoadDataEx(
                    &mut module,
                    ptx.as_ptr().cast(),
                    2,
                    options.as_mut_ptr(),
                    values.as_mut_ptr(),
                )
            )
        };
        loaded.map_err(|failure| (failure, text_of(&log).trim().to_owned()))?;
        Ok(module)
    }

    /// # Safety
    /// Nothing of the module may be in use or be used again.
    pub unsafe fn unload_module(&self, module: CUmodule) -> Result<(), Failure> {
        // SAFETY: passed on to the caller.
        unsafe { call!(self, cuModuleUnload(module)) }
    }

    /// # Safety
    /// The module must be alive, as long as the function is used.
    pub unsafe fn function(&self, module: CUmodule, name: &CStr) -> Result<CUfunction, Failure> {
        let mut function = std::ptr::null_mut();
        // SAFETY: passed on to the caller; the name ends in NUL.
        unsafe {
            call!(
                self,
                cuModuleGetFunction(&mut function, module, name.as_ptr())
            )
        }?;
        Ok(function)
    }

    /// # Safety
    /// The function must be alive.
    pub unsafe fn function_attribute(
        &self,
        attribute: sys::CUfunction_attribute,
        function: CUfunction,
    ) -> Result<c_int, Failure> {
        let mut value = 0;
        // SAFETY: passed on to the caller.
        unsafe { call!(self, cuFuncGetAttribute(&mut value, attribute, function)) }?;
        Ok(value)
    }

    /// Allows `bytes` of dynamic shared memory at launches, also beyond 48 KiB.
    ///
    /// # Safety
    /// The function must be alive.
    pub unsafe fn allow_shared_memory(
        &self,
        function: CUfunction,
        bytes: c_int,
    ) -> Result<(), Failure> {
        let attribute = sys::CUfunction_attribute::CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES;
        // SAFETY: passed on to the caller.
        unsafe { call!(self, cuFuncSetAttribute(function, attribute, bytes)) }
    }

    /// Launches `function` with one parameter, the structure at `parameter`, which is copied.
    ///
    /// # Safety
    /// `function` and `stream` must be alive and of one context; the function must take one
    /// parameter of the layout of `parameter`, and what it reads and writes by it must stay valid
    /// until the stream has passed this point.
    pub unsafe fn launch(
        &self,
        function: CUfunction,
        grid: [u32; 3],
        block: [u32; 3],
        shared_bytes: u32,
        stream: CUstream,
        parameter: *const c_void,
    ) -> Result<(), Failure> {
        let mut parameters = [parameter.cast_mut()];
        // SAFETY: passed on to the caller; the driver reads the parameter before it returns.
        unsafe {
            call!(
                self,
                cuLaunchKernel(
                    function,
                    grid[0],
                    grid[1],
                    grid[2],
                    block[0],
                    block[1],
                    block[2],
                    shared_bytes,
                    stream,
                    parameters.as_mut_ptr(),
                    std::ptr::null_mut(),
                )
            )
        }
    }
}
