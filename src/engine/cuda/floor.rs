//! The floor that kernels are compared with: what a copy on the device takes, by the driver or by a kernel of ours. A
//! kernel is faster for small frames, the driver for large ones.

use std::ffi::CString;
use std::sync::Arc;
use std::time::Duration;

use super::abi::copy::{CopyLaunch, NAME};
use super::api::{CUfunction, CUmodule};
use super::context::{Context, Current, DeviceMemory, Stream};
use super::error::CudaError;
use super::measure::{Bench, Caches, Effort, run_of};
use super::pinned::Block;

/// The PTX of the kernel that copies, made by `scripts/build-kernels.sh`.
const PTX: &str = include_str!("../../../kernels/ptx/copy_on_device.ptx");

/// The kernel, loaded.
struct Copier {
    context: Arc<Context>,
    module: CUmodule,
    function: CUfunction,
}

impl Copier {
    fn new(current: &Current) -> Result<Copier, CudaError> {
        let image = CString::new(PTX).expect("PTX is text without NUL");
        // SAFETY: the context is current, and the PTX is this program's own.
        let module = match unsafe { current.api().load_module(&image) } {
            Ok(module) => module,
            Err((failure, log)) => {
                let error = current.check(Err::<(), _>(failure)).err();
                let error = error.expect("an error was passed in");
                return Err(error.with_detail(&format!("module {NAME}: {log}")));
            }
        };
        // From now on it is unloaded whatever happens.
        let mut copier = Copier {
            context: current.context().clone(),
            module,
            function: std::ptr::null_mut(),
        };
        let name = CString::new(NAME).expect("a name without NUL");
        // SAFETY: the module is loaded.
        copier.function = current.check(unsafe { current.api().function(module, &name) })?;
        Ok(copier)
    }

    /// Asks for a copy.
    ///
    /// # Safety
    /// The memories that `launch` names must be that large, apart from each other, and be there until the stream has
    /// passed this point, as must the copier.
    unsafe fn copy(
        &self,
        current: &Current,
        stream: &Stream,
        launch: CopyLaunch,
    ) -> Result<(), CudaError> {
        let place = launch.place();
        // SAFETY: the function takes this structure; the rest is passed on to the caller.
        let launched = unsafe {
            current.api().launch(
                self.function,
                [place.grid.x, place.grid.y, 1],
                [place.block.x, place.block.y, 1],
                place.shared_bytes,
                stream.raw(),
                (&raw const launch).cast(),
            )
        };
        (current.check(launched)).map_err(|error| error.with_detail(&format!("kernel {NAME}")))
    }
}

impl Drop for Copier {
    fn drop(&mut self) {
        let module = self.module;
        // SAFETY: whoever copies waits for it before it lets go of the copier.
        self.context
            .release(|api| unsafe { api.unload_module(module) });
    }
}

/// `bytes`, by the kernel from one place of device memory to another.
pub(super) fn copied(current: &Current, bytes: &[u8]) -> Result<Vec<u8>, CudaError> {
    let copier = Copier::new(current)?;
    let block = Block::pinned(current.context(), bytes.len())?;
    let (from, to) = (current.memory(bytes.len())?, current.memory(bytes.len())?);
    let launch = CopyLaunch {
        input: from.start(),
        output: to.start(),
        bytes: bytes.len() as u64,
    };
    let (stream, rows) = (current.stream()?, run_of(bytes.len()));
    // SAFETY: the block is at least so long, and nobody else's.
    unsafe { (block.start()).copy_from_nonoverlapping(bytes.as_ptr(), bytes.len()) };
    // SAFETY: block and memories are that large, and are there until the wait below, as is the copier.
    let asked = unsafe {
        (current.upload(from.start(), block.start(), rows, &stream))
            .and_then(|()| copier.copy(current, &stream, launch))
            .and_then(|()| current.download(block.start(), to.start(), rows, &stream))
    };
    // Also after an error: some may be under way.
    let waited = current.wait_for_all(&stream);
    asked.and(waited)?;
    // SAFETY: the block is at least so long, and the device is done with it.
    Ok(unsafe { std::slice::from_raw_parts(block.start(), bytes.len()) }.to_vec())
}

/// What a copy of `bytes` from device memory to device memory takes with such `caches`: the faster of the driver's and
/// the kernel's.
pub(super) fn floor(
    current: &Current,
    caches: Caches,
    bytes: usize,
    effort: Effort,
) -> Result<Duration, CudaError> {
    let copier = Copier::new(current)?;
    let (from, to) = (caches.sets(current, bytes)?, caches.sets(current, bytes)?);
    let place = |sets: &[DeviceMemory], number: usize| sets[number % sets.len()].start();
    // The last, so that it goes first and waits for its work.
    let bench = Bench::new(current, effort)?;
    let by_driver =
        bench.time(|_, number| bench.copy(place(&to, number), place(&from, number), bytes))?;
    let by_kernel = bench.time(|stream, number| {
        let launch = CopyLaunch {
            input: place(&from, number),
            output: place(&to, number),
            bytes: bytes as u64,
        };
        // SAFETY: all sets are that large, and outlive the bench as the copier does.
        unsafe { copier.copy(current, stream, launch) }
    })?;
    Ok(by_driver.min(by_kernel))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kernel_takes_the_launch_and_is_short() {
        let bytes = size_of::<CopyLaunch>();
        let entry = format!(".entry {NAME}(\n.param .align 8 .b8 launch[{bytes}]\n)");
        assert!(PTX.contains(&entry), "{entry}");
        assert!(PTX.starts_with(".version 8.2\n") && PTX.contains("\n.target sm_75\n"));
        assert!(PTX.len() < 4096, "{}", PTX.len());
    }
}
