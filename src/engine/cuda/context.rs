//! A device's context and what lives in it: streams, events, device memory. Each is released when
//! dropped, by whichever thread drops it, and leaked where the device is dead.

use std::marker::PhantomData;
use std::sync::Arc;
use std::time::Duration;

use cudarc::driver::sys;

use super::api::{Api, CUcontext, CUdeviceptr, CUevent, CUstream, Failure};
use super::driver::Device;
use super::error::{CudaError, is_fatal};
use super::module::Modules;
use super::pinned::PinnedPool;

/// The primary context of a device, shared by all that this process does there.
pub struct Context {
    pub(super) device: &'static Device,
    raw: CUcontext,
    pub(super) pinned: PinnedPool,
    pub(super) modules: Modules,
}

// SAFETY: a context may be used by any thread, by several at once too: the driver locks it.
unsafe impl Send for Context {}
// SAFETY: as above.
unsafe impl Sync for Context {}

impl Context {
    pub(super) fn new(device: &'static Device) -> Result<Arc<Context>, CudaError> {
        let raw = device.api.retain_primary_context(device.handle);
        let raw = raw.map_err(|failure| report(device, failure))?;
        Ok(Arc::new(Context {
            device,
            raw,
            pinned: PinnedPool::default(),
            modules: Modules::default(),
        }))
    }

    pub fn device(&self) -> &'static Device {
        self.device
    }

    fn api(&self) -> &'static Api {
        self.device.api
    }

    /// Makes the context current on this thread until the guard is dropped; the one that was
    /// current before then is so again.
    ///
    /// # Errors
    /// When the device is dead.
    pub fn enter(self: &Arc<Self>) -> Result<Current<'_>, CudaError> {
        if let Some(error) = self.device.dead() {
            return Err(error.clone());
        }
        // SAFETY: retained as long as `self` lives.
        let pushed = unsafe { self.api().push_context(self.raw) };
        pushed.map_err(|failure| report(self.device, failure))?;
        Ok(Current {
            context: self,
            on_this_thread: PhantomData,
        })
    }

    /// Waits until the device is done with what `stream` holds, also where the device counts as
    /// dead: it was given up for an error of one call, and may work on for all that. A device that
    /// stopped answers at once, with its error.
    pub(super) fn drain(&self, stream: &Stream) {
        // SAFETY: retained as long as `self` lives.
        if unsafe { self.api().push_context(self.raw) }.is_ok() {
            // SAFETY: the stream is alive. Whatever the answer: nothing runs any more.
            let _ = unsafe { self.api().synchronize_stream(stream.raw) };
            let _ = self.api().pop_context();
        }
    }

    /// Runs `release` with the context current. A dead device's objects are leaked on purpose: its
    /// driver would refuse every call. What else fails leaves an object behind that nobody can do
    /// anything about.
    pub(super) fn release(&self, release: impl FnOnce(&Api) -> Result<(), Failure>) -> bool {
        if self.device.dead().is_some() {
            return false;
        }
        // SAFETY: retained as long as `self` lives.
        let entered = unsafe { self.api().push_context(self.raw) };
        let released = entered.and_then(|()| {
            let released = release(self.api());
            let popped = self.api().pop_context();
            released.and(popped)
        });
        released
            .map_err(|failure| report(self.device, failure))
            .is_ok()
    }
}

/// The error of a failed call; a fatal one is the end of the device.
fn report(device: &Device, failure: Failure) -> CudaError {
    let error = CudaError::new(device.api, failure, &device.label());
    if is_fatal(failure.code) {
        device.mark_dead(&error);
    }
    error
}

impl Drop for Context {
    fn drop(&mut self) {
        let (pinned, modules) = (&self.pinned, &self.modules);
        self.release(|api| {
            pinned.clear(api);
            modules.clear(api);
            Ok(())
        });
        if self.device.dead().is_none() {
            // SAFETY: everything that lives in the context holds it, so nothing is left. A failure
            // leaves the context behind, as the driver's own end does.
            let _ = unsafe { self.api().release_primary_context(self.device.handle) };
        }
    }
}

/// Proof that a context is current on this thread.
pub struct Current<'a> {
    context: &'a Arc<Context>,
    on_this_thread: PhantomData<*const ()>,
}

impl Drop for Current<'_> {
    fn drop(&mut self) {
        // Fails only when the driver has ended or the context was destroyed by others: then there
        // is nothing to restore.
        let _ = self.context.api().pop_context();
    }
}

impl<'a> Current<'a> {
    pub fn context(&self) -> &'a Arc<Context> {
        self.context
    }

    pub(super) fn api(&self) -> &'static Api {
        self.context.api()
    }

    /// The result of a call of the driver as an error with names; a fatal one is the end of the
    /// device.
    pub(super) fn check<T>(&self, result: Result<T, Failure>) -> Result<T, CudaError> {
        result.map_err(|failure| report(self.context.device, failure))
    }

    /// # Errors
    /// As the driver's.
    pub fn stream(&self) -> Result<Stream, CudaError> {
        // SAFETY: the context is current.
        let raw = self.check(unsafe { self.api().create_stream() })?;
        Ok(Stream {
            context: self.context.clone(),
            raw,
        })
    }

    /// An event with timing. A thread that waits for it does so awake.
    ///
    /// # Errors
    /// As the driver's.
    pub fn event(&self) -> Result<Event, CudaError> {
        // SAFETY: the context is current.
        let raw = self.check(unsafe { self.api().create_event() })?;
        Ok(Event {
            context: self.context.clone(),
            raw,
        })
    }

    /// Device memory of `len` bytes, at least 1.
    ///
    /// # Errors
    /// As the driver's, which names the bytes that were asked for and those that are free.
    pub fn memory(&self, len: usize) -> Result<DeviceMemory, CudaError> {
        // SAFETY: the context is current.
        let start = self
            .check(unsafe { self.api().allocate(len) })
            .map_err(|error| {
                // SAFETY: as above.
                let free = unsafe { self.api().memory_info() };
                let free = free.map_or(String::new(), |(free, _)| format!(", {free} are free"));
                error.with_detail(&format!("{len} bytes were asked for{free}"))
            })?;
        Ok(DeviceMemory {
            context: self.context.clone(),
            start,
            len,
        })
    }

    /// Bytes of device memory, free and in all.
    ///
    /// # Errors
    /// As the driver's.
    pub fn memory_info(&self) -> Result<(usize, usize), CudaError> {
        // SAFETY: the context is current.
        self.check(unsafe { self.api().memory_info() })
    }

    /// # Errors
    /// As the driver's, also those of earlier work.
    pub fn record(&self, event: &Event, stream: &Stream) -> Result<(), CudaError> {
        // SAFETY: both are alive, and of one context: there is one per device.
        self.check(unsafe { self.api().record_event(event.raw, stream.raw) })
    }

    /// Lets what `stream` gets from now on begin once `event`, as last recorded, has passed.
    ///
    /// # Errors
    /// As the driver's, also those of earlier work.
    pub fn wait_in(&self, stream: &Stream, event: &Event) -> Result<(), CudaError> {
        // SAFETY: both are alive, and of one context: there is one per device.
        self.check(unsafe { self.api().stream_wait_event(stream.raw, event.raw) })
    }

    /// Whether all work before the event is done.
    ///
    /// # Errors
    /// As the driver's, also those of earlier work.
    pub fn is_done(&self, event: &Event) -> Result<bool, CudaError> {
        // SAFETY: the event is alive.
        self.check(unsafe { self.api().query_event(event.raw) })
    }

    /// # Errors
    /// As the driver's, also those of earlier work.
    pub fn wait_for(&self, event: &Event) -> Result<(), CudaError> {
        // SAFETY: the event is alive.
        self.check(unsafe { self.api().synchronize_event(event.raw) })
    }

    /// Waits until the device has let go of all that the work on `stream` uses. Where the driver does
    /// not say so, whatever its error, the device counts as dead from then on: nothing that the work may
    /// still use is freed.
    ///
    /// # Errors
    /// As the driver's, also those of earlier work.
    pub fn wait_for_all(&self, stream: &Stream) -> Result<(), CudaError> {
        // SAFETY: the stream is alive.
        let waited = self.check(unsafe { self.api().synchronize_stream(stream.raw) });
        waited.inspect_err(|error| {
            self.context.device().mark_dead(error);
            self.context.drain(stream);
        })
    }

    /// Time between two events that are done; 0 where `to` was before `from`.
    ///
    /// # Errors
    /// As the driver's.
    pub fn elapsed(&self, from: &Event, to: &Event) -> Result<Duration, CudaError> {
        // SAFETY: both are alive.
        let milliseconds = self.check(unsafe { self.api().elapsed(from.raw, to.raw) })?;
        Ok(Duration::try_from_secs_f64(f64::from(milliseconds) / 1e3).unwrap_or_default())
    }
}

/// A stream that does not wait for the null stream.
pub struct Stream {
    context: Arc<Context>,
    raw: CUstream,
}

// SAFETY: the driver's functions may be called on it by any thread, by several at once too.
unsafe impl Send for Stream {}
// SAFETY: as above.
unsafe impl Sync for Stream {}

impl Stream {
    pub(super) fn raw(&self) -> CUstream {
        self.raw
    }
}

impl Drop for Stream {
    fn drop(&mut self) {
        let raw = self.raw;
        // SAFETY: nobody else has the handle.
        self.context
            .release(|api| unsafe { api.destroy_stream(raw) });
    }
}

/// A point in a stream's work, and when it was passed.
pub struct Event {
    context: Arc<Context>,
    raw: CUevent,
}

// SAFETY: the driver's functions may be called on it by any thread, by several at once too.
unsafe impl Send for Event {}
// SAFETY: as above.
unsafe impl Sync for Event {}

impl Drop for Event {
    fn drop(&mut self) {
        let raw = self.raw;
        // SAFETY: nobody else has the handle.
        self.context
            .release(|api| unsafe { api.destroy_event(raw) });
    }
}

/// Device memory. Whoever drops it has waited for the work that uses it.
pub struct DeviceMemory {
    context: Arc<Context>,
    start: CUdeviceptr,
    len: usize,
}

impl DeviceMemory {
    /// The first byte's address on the device.
    pub fn start(&self) -> CUdeviceptr {
        self.start
    }

    /// Bytes.
    pub fn len(&self) -> usize {
        self.len
    }
}

impl Drop for DeviceMemory {
    fn drop(&mut self) {
        let start = self.start;
        // SAFETY: nobody else has the address, and the work that used it is done.
        self.context.release(|api| unsafe { api.free(start) });
    }
}

/// Rows between host and device memory. With one row, or strides that equal the row, they are one
/// run of bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rows {
    /// Bytes of a row.
    pub bytes: usize,
    pub rows: usize,
    /// Bytes from one row to the next in host memory, at least `bytes`.
    pub host_stride: usize,
    /// The same in device memory.
    pub device_stride: usize,
}

impl Rows {
    fn as_one_run(&self) -> Option<usize> {
        let whole = self.host_stride == self.bytes && self.device_stride == self.bytes;
        match self.rows {
            1 => Some(self.bytes),
            rows if whole => Some(self.bytes * rows),
            _ => None,
        }
    }
}

impl Current<'_> {
    /// Copies rows to the device, in the order of the stream.
    ///
    /// # Safety
    /// The rows must lie within memory that stays valid, on both sides, until the stream has
    /// passed this point, and that nothing else writes or, on the device, reads meanwhile.
    ///
    /// # Errors
    /// As the driver's, also those of earlier work.
    pub unsafe fn upload(
        &self,
        to: CUdeviceptr,
        from: *const u8,
        rows: Rows,
        stream: &Stream,
    ) -> Result<(), CudaError> {
        let api = self.api();
        if let Some(bytes) = rows.as_one_run() {
            // SAFETY: passed on to the caller.
            return self.check(unsafe { api.copy_to_device(to, from, bytes, stream.raw) });
        }
        let copy = sys::CUDA_MEMCPY2D {
            srcMemoryType: sys::CUmemorytype::CU_MEMORYTYPE_HOST,
            srcHost: from.cast(),
            srcPitch: rows.host_stride,
            dstMemoryType: sys::CUmemorytype::CU_MEMORYTYPE_DEVICE,
            dstDevice: to,
            dstPitch: rows.device_stride,
            ..of_rows(rows)
        };
        // SAFETY: passed on to the caller.
        self.check(unsafe { api.copy_rows(&copy, stream.raw) })
    }

    /// Copies rows to the host, in the order of the stream.
    ///
    /// # Safety
    /// As [`Current::upload`], with the sides exchanged.
    ///
    /// # Errors
    /// As the driver's, also those of earlier work.
    pub unsafe fn download(
        &self,
        to: *mut u8,
        from: CUdeviceptr,
        rows: Rows,
        stream: &Stream,
    ) -> Result<(), CudaError> {
        let api = self.api();
        if let Some(bytes) = rows.as_one_run() {
            // SAFETY: passed on to the caller.
            return self.check(unsafe { api.copy_to_host(to, from, bytes, stream.raw) });
        }
        let copy = sys::CUDA_MEMCPY2D {
            srcMemoryType: sys::CUmemorytype::CU_MEMORYTYPE_DEVICE,
            srcDevice: from,
            srcPitch: rows.device_stride,
            dstMemoryType: sys::CUmemorytype::CU_MEMORYTYPE_HOST,
            dstHost: to.cast(),
            dstPitch: rows.host_stride,
            ..of_rows(rows)
        };
        // SAFETY: passed on to the caller.
        self.check(unsafe { api.copy_rows(&copy, stream.raw) })
    }
}

/// The extent of a copy, without its ends.
fn of_rows(rows: Rows) -> sys::CUDA_MEMCPY2D {
    sys::CUDA_MEMCPY2D {
        srcXInBytes: 0,
        srcY: 0,
        srcMemoryType: sys::CUmemorytype::CU_MEMORYTYPE_HOST,
        srcHost: std::ptr::null(),
        srcDevice: 0,
        srcArray: std::ptr::null_mut(),
        srcPitch: 0,
        dstXInBytes: 0,
        dstY: 0,
        dstMemoryType: sys::CUmemorytype::CU_MEMORYTYPE_HOST,
        dstHost: std::ptr::null_mut(),
        dstDevice: 0,
        dstArray: std::ptr::null_mut(),
        dstPitch: 0,
        WidthInBytes: rows.bytes,
        Height: rows.rows,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_without_gaps_are_one_run() {
        let rows = |rows, host_stride, device_stride| Rows {
            bytes: 100,
            rows,
            host_stride,
            device_stride,
        };
        assert_eq!(rows(7, 100, 100).as_one_run(), Some(700));
        assert_eq!(rows(1, 128, 256).as_one_run(), Some(100));
        assert_eq!(rows(7, 104, 100).as_one_run(), None);
        assert_eq!(rows(7, 100, 112).as_one_run(), None);
    }
}
