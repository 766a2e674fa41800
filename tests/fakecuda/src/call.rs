//! What every exported function goes through, and what ends the process.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::sync::Mutex;

use crate::inject;
use crate::world;

/// A `CUresult`.
pub type Code = u32;
/// What a call comes to; errors are those that CUDA documents.
pub type Outcome = Result<(), Code>;

pub mod code {
    use super::Code;

    pub const SUCCESS: Code = 0;
    pub const INVALID_VALUE: Code = 1;
    pub const OUT_OF_MEMORY: Code = 2;
    pub const NOT_INITIALIZED: Code = 3;
    pub const NO_DEVICE: Code = 100;
    pub const INVALID_DEVICE: Code = 101;
    pub const INVALID_IMAGE: Code = 200;
    pub const INVALID_CONTEXT: Code = 201;
    pub const NO_BINARY_FOR_GPU: Code = 209;
    pub const INVALID_PTX: Code = 218;
    pub const UNSUPPORTED_PTX_VERSION: Code = 222;
    pub const INVALID_HANDLE: Code = 400;
    pub const NOT_FOUND: Code = 500;
    pub const NOT_READY: Code = 600;
    pub const CONTEXT_IS_DESTROYED: Code = 709;
    pub const HOST_MEMORY_ALREADY_REGISTERED: Code = 712;
    pub const HOST_MEMORY_NOT_REGISTERED: Code = 713;
}

thread_local! {
    static RUNNING: Cell<&'static str> = const { Cell::new("?") };
}

/// Calls made so far, by name.
static CALLS: Mutex<BTreeMap<&'static str, u64>> = Mutex::new(BTreeMap::new());

/// How often the function `name` was called.
pub fn count(name: &str) -> u64 {
    *CALLS.lock().unwrap().get(name).unwrap_or(&0)
}

/// Runs the body of the exported function `name`, unless it was asked to fail.
pub fn call(name: &'static str, body: impl FnOnce() -> Outcome) -> Code {
    RUNNING.set(name);
    let number = {
        let mut calls = CALLS.lock().unwrap();
        let number = calls.entry(name).or_default();
        *number += 1;
        *number
    };
    if let Some(code) = inject::call(name, number) {
        world::break_current_context(code);
        return code;
    }
    match body() {
        Ok(()) => code::SUCCESS,
        Err(code) => code,
    }
}

/// Stores a result of a call.
///
/// # Errors
/// `INVALID_VALUE` when the caller gave no place for it.
///
/// # Safety
/// `place` is null or valid for a write.
pub unsafe fn put<T>(place: *mut T, value: T) -> Outcome {
    if place.is_null() {
        return Err(code::INVALID_VALUE);
    }
    // SAFETY: not null, and valid by the contract of this function.
    unsafe { place.write(value) };
    Ok(())
}

/// The name of the call that this thread is in, or the work that its stream does.
pub fn running() -> &'static str {
    RUNNING.get()
}

/// Names the work that this thread does from now on.
pub fn set_running(name: &'static str) {
    RUNNING.set(name);
}

/// Ends the process because of a fault in the caller.
pub fn end(sentence: std::fmt::Arguments) -> ! {
    eprintln!("fakecuda: violation: {}: {sentence}", running());
    std::process::abort()
}

/// Ends the process with a sentence: the caller did what no correct program does.
#[macro_export]
macro_rules! violation {
    ($($sentence:tt)*) => { $crate::call::end(format_args!($($sentence)*)) };
}
