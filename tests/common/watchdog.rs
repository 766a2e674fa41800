//! No test may hang: each runs in a thread of its own, and what the threads of the process wait
//! for is printed when it does not come back.

use std::fmt::Write as _;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::Duration;

/// Far more than any test needs on a slow, busy machine.
pub const LIMIT: Duration = Duration::from_secs(90);

/// Runs `test`, and fails if it panics, hangs, or makes a library complain.
pub fn watched(test: impl FnOnce() + Send + 'static) {
    watched_for(LIMIT, test);
}

/// As [`watched`], for a test that takes up to `limit`.
pub fn watched_for(limit: Duration, test: impl FnOnce() + Send + 'static) {
    super::init();
    let name = std::thread::current()
        .name()
        .unwrap_or("a test")
        .to_string();
    let complaints = super::complaint_count();
    within(limit, &name, test);
    let new = super::complaints_since(complaints);
    assert!(new.is_empty(), "libraries complained: {new:#?}");
}

/// Runs `action` in a thread of its own, and fails if it panics or takes longer than `limit`.
pub fn within<R: Send + 'static>(
    limit: Duration,
    name: &str,
    action: impl FnOnce() -> R + Send + 'static,
) -> R {
    let (done, finished) = channel();
    let thread = std::thread::Builder::new()
        .name("watched-test".into())
        .spawn(move || {
            let result = catch_unwind(AssertUnwindSafe(action));
            // The receiver is gone only when the test was given up.
            let _ = done.send(result);
        })
        .expect("a thread starts");
    match finished.recv_timeout(limit) {
        Ok(result) => {
            thread.join().expect("it has nothing left to do");
            result.unwrap_or_else(|panic| {
                eprintln!("{name} fails");
                resume_unwind(panic)
            })
        }
        Err(RecvTimeoutError::Timeout) => {
            panic!("{name} hangs; the threads of the process:\n{}", threads())
        }
        Err(RecvTimeoutError::Disconnected) => panic!("{name} ended without a result"),
    }
}

/// Measures again, a few times, where the figures are wrong: a busy machine spoils some
/// measurements, a fault spoils all.
pub fn measured(measure: impl Fn() -> Result<(), String>) {
    let mut wrong = Vec::new();
    for _ in 0..5 {
        match measure() {
            Ok(()) => return,
            Err(text) => wrong.push(text),
        }
    }
    panic!("wrong each time: {wrong:#?}");
}

/// Name, state and the kernel function that each thread of this process sleeps in.
pub fn threads() -> String {
    let mut report = String::new();
    for task in tasks() {
        let read = |file: &str| {
            std::fs::read_to_string(task.join(file))
                .unwrap_or_default()
                .trim()
                .to_string()
        };
        let status = read("status");
        let state = status
            .lines()
            .find_map(|line| line.strip_prefix("State:"))
            .unwrap_or("?");
        let _ = writeln!(
            report,
            "{:>8} {:<16} {} wchan={} syscall={}",
            task.file_name().unwrap_or_default().to_string_lossy(),
            read("comm"),
            state.trim(),
            read("wchan"),
            read("syscall").split(' ').next().unwrap_or_default(),
        );
    }
    report
}

/// The names of this process's threads.
pub fn thread_names() -> Vec<String> {
    let mut names: Vec<String> = tasks()
        .iter()
        .filter_map(|task| std::fs::read_to_string(task.join("comm")).ok())
        .map(|name| name.trim().to_string())
        .collect();
    names.sort();
    names
}

fn tasks() -> Vec<std::path::PathBuf> {
    std::fs::read_dir("/proc/self/task")
        .map(|entries| entries.filter_map(|e| e.ok().map(|e| e.path())).collect())
        .unwrap_or_default()
}
