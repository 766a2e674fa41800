//! Starts the test program again with the test driver where the loader looks for drivers: the
//! loader reads that once, when a process begins.

use std::os::unix::process::CommandExt;
use std::process::Command;

use crate::library;

/// The backend of the tests; in the environment once the program was started again.
const BACKEND: &str = "CUDACONV_TEST_BACKEND";

/// Called by the loader before the test harness begins.
#[used]
// SAFETY: the section is a table of functions of this type, which the loader calls one by one.
#[unsafe(link_section = ".init_array")]
static BEFORE_MAIN: extern "C" fn() = start_again;

extern "C" fn start_again() {
    if std::env::var_os(BACKEND).is_some() {
        return;
    }
    let mut arguments = std::env::args_os();
    let program = std::env::current_exe().expect("this program");
    let error = Command::new(program)
        .arg0(arguments.next().unwrap_or_default())
        .args(arguments)
        .env("LD_LIBRARY_PATH", library::search_path())
        .env(BACKEND, "cuda")
        .env("CUDACONV_GPU", "required")
        .env("CUDACONV_GPU_TESTS", "quick")
        .exec();
    panic!("the test program does not start again: {error}");
}
