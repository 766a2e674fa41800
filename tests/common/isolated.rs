//! Tests that need a process of their own: its threads, memory, locale, environment or exit.

use std::process::{Command, Output, Stdio};

/// Set where a test runs in a process of its own.
const ALONE: &str = "CUDACONV_TEST_ALONE";

/// Whether this process is for one test alone; where all ignored tests are asked for at once, those
/// that need a process of their own have nothing to do.
pub fn is_alone() -> bool {
    std::env::var_os(ALONE).is_some()
}

/// Runs the ignored test `name` (its full path) of this test program in a process of its own.
pub fn run(name: &str, environment: &[(&str, &str)]) -> Output {
    let program = std::env::current_exe().expect("the test program knows its file");
    Command::new(program)
        .args([
            name,
            "--exact",
            "--ignored",
            "--nocapture",
            "--test-threads=1",
        ])
        .env(ALONE, "1")
        .envs(environment.iter().copied())
        .stdin(Stdio::null())
        .output()
        .expect("the test program starts again")
}

/// As [`run`]; fails unless that test passes. Returns what it printed.
pub fn passes(name: &str, environment: &[(&str, &str)]) -> String {
    let output = run(name, environment);
    let text = text(&output);
    assert!(
        output.status.success() && text.contains("1 passed"),
        "{name} in a process of its own: {}\n{text}",
        output.status
    );
    text
}

/// Everything that a process printed.
pub fn text(output: &Output) -> String {
    format!(
        "{}{}",
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    )
}
