//! The ladder's modules: each ladder loads its own, so that what it writes to their constant memory is
//! nobody else's.

use std::collections::HashMap;
use std::ffi::CString;
use std::sync::Arc;

use cudarc::driver::sys::CUfunction_attribute as Attribute;

use super::extras;
use crate::engine::cuda::abi::ladder::{CONSTANT_TABLE, Kernel, Module};
use crate::engine::cuda::api::{CUdeviceptr, CUfunction, CUmodule};
use crate::engine::cuda::context::{Context, Current};
use crate::engine::cuda::error::CudaError;

/// The PTX of a module, made by `scripts/build-kernels.sh`.
pub fn ptx(module: Module) -> &'static str {
    macro_rules! file {
        ($name:literal) => {
            include_str!(concat!("../../../../kernels/ptx/", $name, ".ptx"))
        };
    }
    match module {
        Module::Convolve => file!("ladder_convolve"),
        Module::ConvolveConstant => file!("ladder_convolve_constant"),
        Module::ConvolveMatrix => file!("ladder_convolve_matrix"),
        Module::Bilateral => file!("ladder_bilateral"),
        Module::BilateralConstant => file!("ladder_bilateral_constant"),
    }
}

/// A kernel that can be launched as long as its module is there.
#[derive(Debug, Clone, Copy)]
pub struct Function {
    pub raw: CUfunction,
    /// Of a thread.
    pub registers: u32,
    /// Bytes of a block, beside those that a launch asks for.
    pub static_shared: u32,
}

/// A loaded module.
pub struct Loaded {
    context: Arc<Context>,
    raw: CUmodule,
    functions: HashMap<Kernel, Function>,
    /// Where the table goes, and its bytes, in modules that have it in constant memory.
    pub constant: Option<(CUdeviceptr, usize)>,
}

impl Loaded {
    /// Compiles and loads `module`.
    ///
    /// # Errors
    /// When the driver refuses it; the error tells what its compiler says.
    pub fn new(current: &Current, module: Module) -> Result<Loaded, CudaError> {
        let image = CString::new(ptx(module)).expect("PTX is text without NUL");
        // SAFETY: the context is current, and the PTX is this program's own.
        let raw = match unsafe { current.api().load_module(&image) } {
            Ok(raw) => raw,
            Err((failure, log)) => {
                let error = current.check(Err::<(), _>(failure)).err();
                let error = error.expect("an error was passed in");
                return Err(error.with_detail(&format!("module {}: {log}", module.name())));
            }
        };
        // From now on it is unloaded whatever happens.
        let mut loaded = Loaded {
            context: current.context().clone(),
            raw,
            functions: HashMap::new(),
            constant: None,
        };
        for kernel in Kernel::ALL {
            if kernel.module() == module {
                let function = function(current, raw, kernel)?;
                loaded.functions.insert(kernel, function);
            }
        }
        if module.has_constant_table() {
            let name = CString::new(CONSTANT_TABLE).expect("a name without NUL");
            loaded.constant = Some(extras::variable(current, raw, &name)?);
        }
        Ok(loaded)
    }

    /// One of the module's kernels.
    ///
    /// # Panics
    /// For a kernel of another module.
    pub fn function(&self, kernel: Kernel) -> Function {
        self.functions[&kernel]
    }
}

impl Drop for Loaded {
    fn drop(&mut self) {
        let raw = self.raw;
        // SAFETY: the ladder waits for its kernels before it lets go of a module.
        self.context
            .release(|api| unsafe { api.unload_module(raw) });
    }
}

fn function(current: &Current, module: CUmodule, kernel: Kernel) -> Result<Function, CudaError> {
    let name = CString::new(kernel.name()).expect("names of kernels have no NUL");
    // SAFETY: the module is loaded.
    let raw = current.check(unsafe { current.api().function(module, &name) })?;
    let attribute = |attribute| {
        // SAFETY: the function was just found.
        let value = unsafe { current.api().function_attribute(attribute, raw) };
        current.check(value).map(i32::unsigned_abs)
    };
    Ok(Function {
        raw,
        registers: attribute(Attribute::CU_FUNC_ATTRIBUTE_NUM_REGS)?,
        static_shared: attribute(Attribute::CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES)?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kernel_is_an_entry_of_its_module_and_takes_the_launch() {
        let bytes = size_of::<crate::engine::cuda::abi::ladder::LadderLaunch>();
        for kernel in Kernel::ALL {
            let name = kernel.name();
            let entry = format!(".entry {name}(\n.param .align 8 .b8 launch[{bytes}]\n)");
            assert!(ptx(kernel.module()).contains(&entry), "{entry}");
        }
    }

    #[test]
    fn the_ptx_is_for_the_oldest_driver_and_device_and_short() {
        for module in Module::ALL {
            let text = ptx(module);
            assert!(text.starts_with(".version 8.2\n"), "{module:?}");
            assert!(text.contains("\n.target sm_75\n"), "{module:?}");
            let constant = text.contains(&format!(" {CONSTANT_TABLE}["));
            assert_eq!(constant, module.has_constant_table(), "{module:?}");
        }
        let all: usize = Module::ALL.map(|module| ptx(module).len()).iter().sum();
        assert!(all < 120_000, "{all}");
    }
}
