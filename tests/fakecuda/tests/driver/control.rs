//! What only the test driver can be asked and told.

use std::ffi::CString;

use cudarc::driver::sys::culib;

/// Calls a function that only the test driver has.
fn control<T: Copy>(name: &str) -> T {
    // SAFETY: the library is loaded, and the tests name functions with their types.
    unsafe { *culib().get::<T>(name.as_bytes()).expect("the test driver") }
}

/// Objects of this kind that are there, as `fakecuda_live` counts them.
pub fn live(kind: &str) -> u64 {
    let text = CString::new(kind).unwrap();
    let function: unsafe extern "C" fn(*const i8) -> u64 = control("fakecuda_live");
    // SAFETY: text that ends with 0.
    unsafe { function(text.as_ptr()) }
}

/// Calls of the function `name` so far.
pub fn calls(name: &str) -> u64 {
    let text = CString::new(name).unwrap();
    let function: unsafe extern "C" fn(*const i8) -> u64 = control("fakecuda_calls");
    // SAFETY: text that ends with 0.
    unsafe { function(text.as_ptr()) }
}

/// Replaces the rules of FAKECUDA_FAIL, FAKECUDA_FAULT or FAKECUDA_SLOW.
pub fn inject(kind: &str, rules: &str) {
    let (kind, rules) = (CString::new(kind).unwrap(), CString::new(rules).unwrap());
    let function: unsafe extern "C" fn(*const i8, *const i8) -> i32 = control("fakecuda_inject");
    // SAFETY: texts that end with 0.
    assert_eq!(unsafe { function(kind.as_ptr(), rules.as_ptr()) }, 1);
}
