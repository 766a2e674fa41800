//! Modules and the kernels in them.

use std::ffi::{CStr, c_char, c_int, c_uint, c_void};

use crate::abi::{self, Kernel, copy, ladder};
use crate::api::device;
use crate::call::{Code, Outcome, call, code, put};
use crate::ptx::{self, Entry};
use crate::violation;
use crate::world::{self, Function, Handle, Module};

const JIT_ERROR_LOG: c_uint = 5;
const JIT_ERROR_LOG_SIZE: c_uint = 6;
const MAX_DYNAMIC_SHARED: c_int = 8;

/// # Safety
/// As CUDA asks of `cuModuleLoadDataEx`, and the image is text.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuModuleLoadDataEx(
    module: *mut Handle,
    image: *const c_void,
    option_count: c_uint,
    options: *const c_uint,
    values: *const *mut c_void,
) -> Code {
    call("cuModuleLoadDataEx", || {
        if image.is_null() || (option_count > 0 && (options.is_null() || values.is_null())) {
            return Err(code::INVALID_VALUE);
        }
        // SAFETY: text that ends with 0, by the contract of the call.
        let text = unsafe { CStr::from_ptr(image.cast()) };
        let mut world = world::lock();
        let context = world.current()?;
        let entries = match text.to_str() {
            Ok(text) => ptx::entries(text),
            Err(_) => Err((code::INVALID_IMAGE, "not text".into())),
        };
        let entries = entries.map_err(|(code, log)| {
            // SAFETY: so many options and values, by the contract of the call.
            unsafe { write_log(option_count as usize, options, values, &log) };
            code
        })?;
        entries.iter().for_each(check_entry);
        let device = world.contexts[&context].device;
        let mut variables = Vec::new();
        for variable in text.to_str().map(ptx::variables).unwrap_or_default() {
            let address = world.memory.allocate(context, device, variable.bytes)?;
            variables.push((variable.name, address, variable.bytes));
        }
        let loaded = Module {
            context,
            variables,
            entries: entries.into_iter().map(|entry| entry.name).collect(),
            launches: Vec::new(),
        };
        let handle = world.new_handle();
        world.modules.insert(handle, loaded);
        // SAFETY: a place for the result, by the contract of the call.
        unsafe { put(module, handle) }
    })
}

/// A kernel that can be computed.
#[derive(Clone, Copy)]
pub enum Known {
    Engine(Kernel),
    Ladder(ladder::Kernel),
    Copy,
}

/// The kernel of this name.
pub fn kernel(name: &str) -> Option<Known> {
    let of_engine = Kernel::ALL.into_iter().find(|kernel| kernel.name() == name);
    let mut of_ladder = ladder::Kernel::ALL.into_iter();
    if name == copy::NAME {
        return Some(Known::Copy);
    }
    of_engine.map(Known::Engine).or_else(|| {
        let found = of_ladder.find(|kernel| kernel.name() == name);
        found.map(Known::Ladder)
    })
}

/// Ends the process unless the PTX takes what the host hands over.
fn check_entry(entry: &Entry) {
    let Some(kernel) = kernel(&entry.name) else {
        violation!("the PTX has a kernel {} that nobody can launch", entry.name);
    };
    let expected = match kernel {
        Known::Engine(kernel) => match kernel.parameter() {
            abi::Parameter::Convolve => size_of::<abi::ConvolveLaunch>(),
            abi::Parameter::Direct3 => size_of::<abi::Direct3Launch>(),
            abi::Parameter::Bilateral => size_of::<abi::BilateralLaunch>(),
            abi::Parameter::Fast => size_of::<abi::FastLaunch>(),
        },
        Known::Ladder(_) => size_of::<ladder::LadderLaunch>(),
        Known::Copy => size_of::<copy::CopyLaunch>(),
    };
    if entry.parameter_bytes != expected {
        violation!(
            "the PTX of {} takes {} bytes, the host hands over {expected}",
            entry.name,
            entry.parameter_bytes
        );
    }
}

/// Puts `log` where the options ask for errors.
///
/// # Safety
/// There are `count` options and values, as CUDA asks for.
unsafe fn write_log(count: usize, options: *const c_uint, values: *const *mut c_void, log: &str) {
    if count == 0 {
        return;
    }
    // SAFETY: by the contract of this function; not null, as there are some.
    let (options, values) = unsafe {
        (
            std::slice::from_raw_parts(options, count),
            std::slice::from_raw_parts(values, count),
        )
    };
    let value = |wanted| {
        let at = options.iter().position(|option| *option == wanted)?;
        Some(values[at])
    };
    let (Some(buffer), Some(size)) = (value(JIT_ERROR_LOG), value(JIT_ERROR_LOG_SIZE)) else {
        return;
    };
    // The value is the size itself, in the place of a pointer.
    let size = size as usize as u32 as usize;
    if buffer.is_null() || size == 0 {
        return;
    }
    let bytes = log.len().min(size - 1);
    // SAFETY: the buffer has `size` bytes, by the contract of this function.
    unsafe {
        buffer
            .cast::<u8>()
            .copy_from_nonoverlapping(log.as_ptr(), bytes);
        buffer.cast::<u8>().add(bytes).write(0);
    }
}

#[unsafe(no_mangle)]
pub extern "C" fn cuModuleUnload(module: Handle) -> Code {
    call("cuModuleUnload", || {
        let mut guard = world::lock();
        guard.current()?;
        let world = &mut *guard;
        let Some(unloaded) = world.modules.remove(&module) else {
            violation!("{module:#x} is no module, or it was unloaded");
        };
        let over = |(stream, number): &(_, _)| world.host.knows(*stream, *number);
        if !unloaded.launches.iter().all(over) {
            violation!(
                "the module is unloaded, but nothing has shown yet that its kernels are done"
            );
        }
        world
            .functions
            .retain(|_, function| function.module != module);
        for (_, address, _) in &unloaded.variables {
            world.memory.free(*address, &world.host);
        }
        Ok(())
    })
}

/// # Safety
/// As CUDA asks of `cuModuleGetFunction`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuModuleGetFunction(
    function: *mut Handle,
    module: Handle,
    name: *const c_char,
) -> Code {
    call("cuModuleGetFunction", || {
        if name.is_null() {
            return Err(code::INVALID_VALUE);
        }
        // SAFETY: text that ends with 0, by the contract of the call.
        let name = unsafe { CStr::from_ptr(name) }.to_string_lossy();
        let mut world = world::lock();
        world.current()?;
        let Some(loaded) = world.modules.get(&module) else {
            violation!("{module:#x} is no module, or it was unloaded");
        };
        if !loaded.entries.iter().any(|entry| *entry == name) {
            return Err(code::NOT_FOUND);
        }
        let found = Function {
            module,
            name: name.into_owned(),
            max_dynamic_shared: 48 * 1024,
        };
        let handle = world.new_handle();
        world.functions.insert(handle, found);
        // SAFETY: a place for the result, by the contract of the call.
        unsafe { put(function, handle) }
    })
}

/// # Safety
/// As CUDA asks of `cuModuleGetGlobal`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuModuleGetGlobal_v2(
    address: *mut u64,
    bytes: *mut usize,
    module: Handle,
    name: *const c_char,
) -> Code {
    call("cuModuleGetGlobal", || {
        if name.is_null() {
            return Err(code::INVALID_VALUE);
        }
        // SAFETY: text that ends with 0, by the contract of the call.
        let name = unsafe { CStr::from_ptr(name) }.to_string_lossy();
        let world = world::lock();
        world.current()?;
        let Some(loaded) = world.modules.get(&module) else {
            violation!("{module:#x} is no module, or it was unloaded");
        };
        let found = (loaded.variables.iter()).find(|(variable, ..)| *variable == name);
        let (_, start, size) = found.ok_or(code::NOT_FOUND)?;
        // SAFETY: places for the results, by the contract of the call.
        unsafe {
            put(address, *start)?;
            put(bytes, *size as usize)
        }
    })
}

/// # Safety
/// As CUDA asks of `cuOccupancyMaxActiveBlocksPerMultiprocessor`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuOccupancyMaxActiveBlocksPerMultiprocessor(
    blocks: *mut c_int,
    function: Handle,
    threads: c_int,
    shared: usize,
) -> Code {
    call("cuOccupancyMaxActiveBlocksPerMultiprocessor", || {
        with_function(function, |function| {
            if threads < 1 || shared > function.max_dynamic_shared as usize {
                return Err(code::INVALID_VALUE);
            }
            // Of 65536 registers, 32 a thread; 1 KiB of shared memory a block is the driver's own.
            let by_threads = device::THREADS_OF_MULTIPROCESSOR / threads;
            let by_shared = (device::max_shared() as usize + 1024) / (shared + 1024);
            // SAFETY: a place for the result, by the contract of the call.
            unsafe { put(blocks, by_threads.min(by_shared as c_int).min(32)) }
        })
    })
}

/// Runs `f` on a function of the current context.
fn with_function(handle: Handle, f: impl FnOnce(&mut Function) -> Outcome) -> Outcome {
    let mut world = world::lock();
    world.current()?;
    match world.functions.get_mut(&handle) {
        None => violation!("{handle:#x} is no function, or its module was unloaded"),
        Some(function) => f(function),
    }
}

/// # Safety
/// As CUDA asks of `cuFuncGetAttribute`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuFuncGetAttribute(
    value: *mut c_int,
    attribute: c_int,
    function: Handle,
) -> Code {
    call("cuFuncGetAttribute", || {
        with_function(function, |function| {
            // Threads of a block; static shared, constant, local memory; registers; versions.
            let found = match attribute {
                0 => 1024,
                1..=3 => 0,
                4 => 32,
                5 => 82,
                6 => crate::settings::SETTINGS.compute,
                7 => 0,
                MAX_DYNAMIC_SHARED => function.max_dynamic_shared as c_int,
                _ => return Err(code::INVALID_VALUE),
            };
            // SAFETY: a place for the result, by the contract of the call.
            unsafe { put(value, found) }
        })
    })
}

#[unsafe(no_mangle)]
pub extern "C" fn cuFuncSetAttribute(function: Handle, attribute: c_int, value: c_int) -> Code {
    call("cuFuncSetAttribute", || {
        with_function(function, |function| {
            let allowed = 0..=crate::api::device::max_shared();
            if attribute != MAX_DYNAMIC_SHARED || !allowed.contains(&value) {
                return Err(code::INVALID_VALUE);
            }
            function.max_dynamic_shared = value as u32;
            Ok(())
        })
    })
}
