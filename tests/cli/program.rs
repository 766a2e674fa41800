//! Starting the built program, with a limit on how long it may take.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

const LIMIT: Duration = Duration::from_secs(120);

/// The program that this build made.
pub fn executable() -> &'static Path {
    Path::new(env!("CARGO_BIN_EXE_cudaconv"))
}

/// The plugin of this build, where Cargo always puts it.
pub fn plugin_file() -> PathBuf {
    executable()
        .with_file_name("deps")
        .join("libgstcudaconv.so")
}

/// A new empty folder for one test.
pub fn folder(test: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR"))
        .join("cli")
        .join(test);
    // There is none at the first run.
    let _ = std::fs::remove_dir_all(&folder);
    std::fs::create_dir_all(&folder).unwrap();
    folder
}

/// `cudaconv`, to be run in `folder`.
pub fn cudaconv<S: AsRef<OsStr>>(folder: &Path, arguments: impl IntoIterator<Item = S>) -> Command {
    let mut command = Command::new(executable());
    command
        .args(arguments)
        .current_dir(folder)
        .stdin(Stdio::null());
    command
}

/// Kills the process unless it is told within the limit that all is well.
pub struct Watchdog(Option<mpsc::Sender<()>>);

impl Watchdog {
    pub fn over(child: &Child) -> Watchdog {
        let (done, waiting) = mpsc::channel();
        let id = child.id();
        thread::spawn(move || {
            if waiting.recv_timeout(LIMIT) == Err(mpsc::RecvTimeoutError::Timeout) {
                signal("KILL", id);
            }
        });
        Watchdog(Some(done))
    }
}

impl Drop for Watchdog {
    fn drop(&mut self) {
        self.0.take();
    }
}

/// Sends a signal by its name.
pub fn signal(name: &str, process: u32) {
    let command = format!("kill -{name} {process}");
    let status = Command::new("sh").args(["-c", &command]).status().unwrap();
    assert!(status.success(), "{command}");
}

/// What a finished program left behind.
#[derive(Debug)]
pub struct Finished {
    pub code: Option<i32>,
    pub out: String,
    pub err: String,
}

impl From<Output> for Finished {
    fn from(output: Output) -> Finished {
        Finished {
            code: output.status.code(),
            out: String::from_utf8(output.stdout).unwrap(),
            err: String::from_utf8(output.stderr).unwrap(),
        }
    }
}

/// Runs `command` to its end.
pub fn finish(command: &mut Command) -> Finished {
    let child = command
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let _watchdog = Watchdog::over(&child);
    child.wait_with_output().unwrap().into()
}

/// Runs `cudaconv` with `arguments` in `folder`.
pub fn run<S: AsRef<OsStr>>(folder: &Path, arguments: impl IntoIterator<Item = S>) -> Finished {
    finish(&mut cudaconv(folder, arguments))
}

/// As [`run`]; the program must succeed.
pub fn succeed<S: AsRef<OsStr>>(folder: &Path, arguments: impl IntoIterator<Item = S>) -> Finished {
    let finished = run(folder, arguments);
    assert_eq!(finished.code, Some(0), "{finished:?}");
    finished
}

/// The names in `folder`, sorted.
pub fn names(folder: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(folder).unwrap();
    let mut names: Vec<String> = entries
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    names
}
