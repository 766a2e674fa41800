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
    let output = command(name, environment).output();
    output.expect("the test program starts again")
}

fn command(name: &str, environment: &[(&str, &str)]) -> Command {
    let program = std::env::current_exe().expect("the test program knows its file");
    let mut command = Command::new(program);
    command
        .args([
            name,
            "--exact",
            "--ignored",
            "--nocapture",
            "--test-threads=1",
        ])
        .env(ALONE, "1")
        .envs(environment.iter().copied())
        .stdin(Stdio::null());
    command
}

/// As [`run`]; fails unless that test passes. Returns what it printed.
pub fn passes(name: &str, environment: &[(&str, &str)]) -> String {
    check(name, &run(name, environment))
}

/// As [`passes`], for a long test: what it prints to standard error is seen while it runs.
pub fn passes_aloud(name: &str, environment: &[(&str, &str)]) {
    let mut command = command(name, environment);
    let output = command.stderr(Stdio::inherit()).output();
    check(name, &output.expect("the test program starts again"));
}

fn check(name: &str, output: &Output) -> String {
    let text = text(output);
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
