//! The kernels' modules: PTX that ships in the program, compiled by the driver when a module is
//! first needed, and kept for all engines on the device.

use std::collections::HashMap;
use std::ffi::CString;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError, TryLockError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use cudarc::driver::sys::CUfunction_attribute;

use super::abi::{Kernel, Module};
use super::api::{Api, CUfunction, CUmodule, code};
use super::context::{Context, Current};
use super::driver::NEEDED_CUDA;
use super::error::CudaError;

/// The PTX of a module, made by `scripts/build-kernels.sh`.
pub fn ptx(module: Module) -> &'static str {
    macro_rules! file {
        ($name:literal) => {
            include_str!(concat!("../../../kernels/ptx/", $name, ".ptx"))
        };
    }
    match module {
        Module::Direct3U8 => file!("direct3_u8"),
        Module::Direct3SmoothU8 => file!("direct3_smooth_u8"),
        Module::Direct3DividedU8 => file!("direct3_divided_u8"),
        Module::Direct3MagnitudeU8 => file!("direct3_magnitude_u8"),
        Module::Direct3U16 => file!("direct3_u16"),
        Module::Direct3MagnitudeU16 => file!("direct3_magnitude_u16"),
        Module::Direct3Packed422 => file!("direct3_422"),
        Module::Direct3MagnitudePacked422 => file!("direct3_magnitude_422"),
        Module::ConvolveNaiveU8 => file!("convolve_naive_u8"),
        Module::ConvolveNaiveU16 => file!("convolve_naive_u16"),
        Module::ConvolveMatrixU8 => file!("convolve_matrix_u8"),
        Module::ConvolveMatrixNearU8 => file!("convolve_matrix_near_u8"),
        Module::ConvolveMatrixU16 => file!("convolve_matrix_u16"),
        Module::ConvolveFft => file!("convolve_fft"),
        Module::ConvolveTileU8 => file!("convolve_tile_u8"),
        Module::ConvolveTileU16 => file!("convolve_tile_u16"),
        Module::SeparableU8 => file!("separable_u8"),
        Module::SeparableU16 => file!("separable_u16"),
        Module::SeparableWideU8 => file!("separable_wide_u8"),
        Module::SeparableWideU16 => file!("separable_wide_u16"),
        Module::SeparableU8R4 => file!("separable_u8_r4"),
        Module::SeparableU8R7 => file!("separable_u8_r7"),
        Module::SeparableU8R8 => file!("separable_u8_r8"),
        Module::SeparableU8R16 => file!("separable_u8_r16"),
        Module::SeparableMagnitudeU8 => file!("separable_magnitude_u8"),
        Module::SeparableU16R4 => file!("separable_u16_r4"),
        Module::SeparableU16R8 => file!("separable_u16_r8"),
        Module::SeparableU16R16 => file!("separable_u16_r16"),
        Module::SeparablePacked422R4 => file!("separable_422_r4"),
        Module::SeparablePacked422R8 => file!("separable_422_r8"),
        Module::SeparablePacked422R16 => file!("separable_422_r16"),
        Module::SeparableMatrixU8 => file!("separable_matrix_u8"),
        Module::SeparableMatrixDividedU8 => file!("separable_matrix_divided_u8"),
        Module::BoxU8 => file!("box_u8"),
        Module::BoxU16 => file!("box_u16"),
        Module::SeparableHalfU8 => file!("separable_half_u8"),
        Module::SeparableHalfWideU8 => file!("separable_half_wide_u8"),
        Module::SeparablePixelsU8 => file!("separable_pixels_u8"),
        Module::SeparablePixelsWideU8 => file!("separable_pixels_wide_u8"),
        Module::SeparableSplitPixelsU8 => file!("separable_split_pixels_u8"),
        Module::BilateralNaiveU8 => file!("bilateral_naive_u8"),
        Module::BilateralNaiveU16 => file!("bilateral_naive_u16"),
        Module::BilateralTileU8 => file!("bilateral_tile_u8"),
        Module::BilateralTileU16 => file!("bilateral_tile_u16"),
        Module::BilateralPremultipliedU8 => file!("bilateral_premultiplied_u8"),
        Module::BilateralPremultipliedU16 => file!("bilateral_premultiplied_u16"),
        Module::BilateralTableU8 => file!("bilateral_table_u8"),
        Module::BilateralTableSmallU8 => file!("bilateral_table_small_u8"),
        Module::BilateralWideTableU8 => file!("bilateral_wide_table_u8"),
        Module::BilateralWideTableSmallU8 => file!("bilateral_wide_table_small_u8"),
        Module::BilateralJointU8 => file!("bilateral_joint_u8"),
        Module::BilateralJointWideU8 => file!("bilateral_joint_wide_u8"),
        Module::BilateralSingleU16 => file!("bilateral_single_u16"),
        Module::BilateralFast => file!("bilateral_fast"),
    }
}

/// A loaded module. It lives as long as its context.
pub struct Loaded {
    raw: CUmodule,
    functions: HashMap<Kernel, Function>,
    /// What the driver took to compile and load it.
    pub load_time: Duration,
}

/// A kernel, ready to be launched. It lives as long as its context.
#[derive(Debug, Clone, Copy)]
pub struct Function {
    raw: CUfunction,
    /// Of a thread, as the driver compiled it.
    pub registers: u32,
    /// Bytes of a thread that did not fit into registers.
    pub local_bytes: u32,
}

// SAFETY: handles that the driver's functions take from any thread.
unsafe impl Send for Loaded {}
// SAFETY: as above.
unsafe impl Sync for Loaded {}
// SAFETY: as above.
unsafe impl Send for Function {}
// SAFETY: as above.
unsafe impl Sync for Function {}

impl Function {
    pub(super) fn raw(self) -> CUfunction {
        self.raw
    }
}

impl Loaded {
    /// One of the module's kernels.
    ///
    /// # Panics
    /// For a kernel of another module.
    pub fn function(&self, kernel: Kernel) -> Function {
        self.functions[&kernel]
    }
}

#[derive(Default, Clone)]
enum State {
    #[default]
    Absent,
    Loaded(Arc<Loaded>),
    /// Would fail again.
    Refused(CudaError),
}

/// The modules of a context. Each lock is held while the driver loads.
pub struct Modules([Mutex<State>; Module::ALL.len()]);

impl Default for Modules {
    fn default() -> Self {
        Modules(std::array::from_fn(|_| Mutex::default()))
    }
}

impl Modules {
    fn state(&self, module: Module) -> &Mutex<State> {
        let index = Module::ALL.iter().position(|&m| m == module);
        &self.0[index.expect("all modules are listed")]
    }

    /// Unloads all, with the context current. No function of them may be used any more.
    pub(super) fn clear(&self, api: &Api) {
        for state in &self.0 {
            let state = std::mem::take(&mut *state.lock().unwrap_or_else(PoisonError::into_inner));
            if let State::Loaded(loaded) = state {
                // SAFETY: whoever uses the module's functions holds the context, which is on its
                // way out. A failure leaves the module to the context's end.
                let _ = unsafe { api.unload_module(loaded.raw) };
            }
        }
    }
}

/// `module` if it is loaded; never waits.
///
/// # Errors
/// When the driver refused it.
pub fn loaded(context: &Context, module: Module) -> Result<Option<Arc<Loaded>>, CudaError> {
    let state = match context.modules.state(module).try_lock() {
        Ok(state) => state,
        Err(TryLockError::Poisoned(state)) => state.into_inner(),
        Err(TryLockError::WouldBlock) => return Ok(None),
    };
    match &*state {
        State::Absent => Ok(None),
        State::Loaded(loaded) => Ok(Some(loaded.clone())),
        State::Refused(error) => Err(error.clone()),
    }
}

/// `module`, loaded now if it was not yet.
///
/// # Errors
/// When the driver refuses it; the error tells what its compiler says.
pub fn load(context: &Arc<Context>, module: Module) -> Result<Arc<Loaded>, CudaError> {
    let mut state = (context.modules.state(module).lock()).unwrap_or_else(PoisonError::into_inner);
    match &*state {
        State::Loaded(loaded) => return Ok(loaded.clone()),
        State::Refused(error) => return Err(error.clone()),
        State::Absent => (),
    }
    let result = context
        .enter()
        .and_then(|current| compile(&current, module));
    *state = match &result {
        Ok(loaded) => State::Loaded(loaded.clone()),
        // What is short now may not be so the next time.
        Err(error) if error.code == code::OUT_OF_MEMORY => State::Absent,
        Err(error) => State::Refused(error.clone()),
    };
    result
}

fn compile(current: &Current, module: Module) -> Result<Arc<Loaded>, CudaError> {
    let started = Instant::now();
    let image = CString::new(ptx(module)).expect("PTX is text without NUL");
    let api = current.api();
    // SAFETY: the context is current, and the PTX is this program's own.
    let raw = match unsafe { api.load_module(&image) } {
        Ok(raw) => raw,
        Err((failure, log)) => {
            let error = current.check(Err::<(), _>(failure)).err();
            let error = error.expect("an error was passed in");
            return Err(error.with_detail(&detail(module, failure.code, &log)));
        }
    };
    let functions = (Kernel::ALL.into_iter())
        .filter(|kernel| kernel.module() == module)
        .map(|kernel| Ok((kernel, function(current, raw, kernel)?)))
        .collect::<Result<_, CudaError>>();
    match functions {
        Ok(functions) => Ok(Arc::new(Loaded {
            raw,
            functions,
            load_time: started.elapsed(),
        })),
        Err(error) => {
            // SAFETY: nothing of the module is in use.
            let _ = unsafe { api.unload_module(raw) };
            Err(error)
        }
    }
}

/// Finds a kernel. Asking for its attributes makes a driver that loads kernels late load it now.
fn function(current: &Current, module: CUmodule, kernel: Kernel) -> Result<Function, CudaError> {
    let api = current.api();
    let name = CString::new(kernel.name()).expect("names of kernels have no NUL");
    // SAFETY: the module is loaded.
    let raw = unsafe { api.function(module, &name) };
    let raw = current
        .check(raw)
        .map_err(|error| error.with_detail(&format!("kernel {}", kernel.name())))?;
    let attribute = |attribute| {
        // SAFETY: the function was just found.
        let value = unsafe { api.function_attribute(attribute, raw) };
        current.check(value).map(i32::unsigned_abs)
    };
    Ok(Function {
        raw,
        registers: attribute(CUfunction_attribute::CU_FUNC_ATTRIBUTE_NUM_REGS)?,
        local_bytes: attribute(CUfunction_attribute::CU_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES)?,
    })
}

/// What is known of a module that the driver refused, and what to do.
fn detail(module: Module, refused_with: u32, log: &str) -> String {
    let advice = match refused_with {
        code::UNSUPPORTED_PTX_VERSION | code::INVALID_PTX | code::NO_BINARY_FOR_GPU => format!(
            "; a driver for CUDA {}.{} or newer compiles it",
            NEEDED_CUDA.0, NEEDED_CUDA.1
        ),
        code::JIT_COMPILER_NOT_FOUND => "; libnvidia-ptxjitcompiler.so.1 is missing, which is \
                                         part of the NVIDIA driver"
            .into(),
        code::JIT_COMPILATION_DISABLED => {
            "; unset CUDA_DISABLE_PTX_JIT, the kernels are compiled by the driver".into()
        }
        _ => String::new(),
    };
    let log = match log {
        "" => String::new(),
        log => format!("; its compiler says: {log}"),
    };
    format!("module {}{advice}{log}", module.name())
}

/// A thread that loads all modules, so that a later change of the kernel finds its own loaded.
/// Dropping it waits for the module that is being loaded, not for the others.
pub struct Loader {
    thread: Option<JoinHandle<()>>,
    stop: Arc<AtomicBool>,
}

impl Loader {
    /// Begins with `first`. `None` where the system refuses a thread: modules are then loaded when
    /// they are waited for.
    pub fn start(context: &Arc<Context>, first: Module) -> Option<Loader> {
        let stop = Arc::new(AtomicBool::new(false));
        let (context, stopped) = (context.clone(), stop.clone());
        let work = move || {
            let capability = context.device().capability;
            let others = (Module::ALL.into_iter())
                .filter(|&module| module != first && module.needed_capability() <= capability);
            for module in std::iter::once(first).chain(others) {
                if stopped.load(Ordering::Acquire) {
                    return;
                }
                // A failure is kept with the module, and told to who needs it.
                let _ = load(&context, module);
            }
        };
        let thread = std::thread::Builder::new().name("cudaconv-load".into());
        Some(Loader {
            thread: Some(thread.spawn(work).ok()?),
            stop,
        })
    }
}

impl Drop for Loader {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Release);
        if let Some(thread) = self.thread.take()
            && thread.thread().id() != std::thread::current().id()
        {
            // A panic there was reported by its hook, and nothing depends on the thread.
            let _ = thread.join();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kernel_is_an_entry_of_its_module() {
        for kernel in Kernel::ALL {
            let entry = format!(".entry {}(", kernel.name());
            assert!(ptx(kernel.module()).contains(&entry), "{entry}");
        }
    }

    #[test]
    fn the_files_are_those_of_the_modules_names() {
        for module in Module::ALL {
            let entry = format!(".entry {}", module.name());
            assert!(ptx(module).contains(&entry), "{entry}");
        }
    }

    #[test]
    fn the_ptx_is_for_the_oldest_driver_and_device() {
        for module in Module::ALL {
            let text = ptx(module);
            let line = |start: &str| text.lines().find(|line| line.starts_with(start));
            assert_eq!(line(".version"), Some(".version 8.2"), "{module:?}");
            let target = line(".target").unwrap_or_default();
            let (major, minor) = module.needed_capability();
            let needed = format!(".target sm_{major}{minor}");
            assert!(target.starts_with(&needed), "{module:?}: {target}");
        }
    }

    #[test]
    fn a_refused_module_says_what_to_do() {
        let text = detail(
            Module::BilateralTileU8,
            code::UNSUPPORTED_PTX_VERSION,
            "line 1: bad",
        );
        assert_eq!(
            text,
            "module bilateral_tile_u8; a driver for CUDA 12.2 or newer compiles it; its compiler says: \
             line 1: bad"
        );
        assert!(
            detail(Module::ConvolveNaiveU8, code::JIT_COMPILER_NOT_FOUND, "").contains("ptxjit")
        );
    }
}
