//! What CUDA does not have: for tests, to ask and to upset the driver they run on.

use std::ffi::{CStr, c_char, c_int};

use crate::call;
use crate::inject;
use crate::world;

/// # Safety
/// `text` is a string that ends with 0.
unsafe fn text<'a>(text: *const c_char) -> &'a str {
    // SAFETY: passed on to the caller.
    let text = unsafe { CStr::from_ptr(text) };
    text.to_str().expect("names are ASCII")
}

/// How often the function `name` (without `_v2`) was called.
///
/// # Safety
/// `name` is a string that ends with 0.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fakecuda_calls(name: *const c_char) -> u64 {
    // SAFETY: passed on to the caller.
    call::count(unsafe { text(name) })
}

/// Replaces the rules of FAKECUDA_FAIL, FAKECUDA_FAULT or FAKECUDA_SLOW (`kind` is what follows
/// the underscore); 0 when `rules` could not be read.
///
/// # Safety
/// Both are strings that end with 0.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fakecuda_inject(kind: *const c_char, rules: *const c_char) -> c_int {
    // SAFETY: passed on to the caller.
    let (kind, rules) = unsafe { (text(kind), text(rules)) };
    inject::replace(kind, rules).into()
}

/// Objects that are there: `kind` is `contexts streams events modules allocations` or
/// `registrations`; `u64::MAX` for any other.
///
/// # Safety
/// `kind` is a string that ends with 0.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fakecuda_live(kind: *const c_char) -> u64 {
    let world = world::lock();
    let (allocations, registrations) = world.memory.counts();
    // SAFETY: passed on to the caller.
    let count = match unsafe { text(kind) } {
        "contexts" => world.contexts.len(),
        "streams" => world.streams.len(),
        "events" => world.events.len(),
        "modules" => world.modules.len(),
        "allocations" => allocations,
        "registrations" => registrations,
        _ => return u64::MAX,
    };
    count as u64
}
