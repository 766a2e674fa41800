//! Tests that run on the test driver: each in a process of its own, as a process has one driver
//! and a fault in the caller ends it.

use std::io::Read;
use std::os::unix::process::ExitStatusExt;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::channel;
use std::thread;
use std::time::Duration;

use crate::library;

/// Tells a test that it is the process that shall do the work, by the name of the test.
const CHILD: &str = "FAKECUDA_TEST";
/// What a process says last, if it was a test's and nothing went wrong.
const DONE: &str = "fakecuda: the test is done";
/// No test takes so long.
const PATIENCE: Duration = Duration::from_secs(300);
/// The signal of `abort`.
const SIGABRT: i32 = 6;

/// How the work shall end.
#[derive(Clone, Copy)]
#[allow(
    dead_code,
    reason = "each test program that includes this file expects some of them"
)]
pub enum Ending {
    Success,
    /// Ended by the test driver, with a sentence that contains this.
    Violation(&'static str),
}

/// Runs the body of a test on the test driver, in another process, with more environment
/// variables; `violates` says how the driver shall end it. The body may use nothing from outside.
#[macro_export]
macro_rules! on_test_driver {
    (violates $sentence:expr, $body:expr) => {
        $crate::on_test_driver!(violates $sentence, &[], $body)
    };
    (violates $sentence:expr, $variables:expr, $body:expr) => {
        $crate::child::run(
            $crate::here!(),
            $variables,
            $crate::child::Ending::Violation($sentence),
            $body,
        )
    };
    ($variables:expr, $body:expr) => {
        $crate::child::run($crate::here!(), $variables, $crate::child::Ending::Success, $body)
    };
}

/// The name of the test that this is written in, as the test harness knows it.
#[macro_export]
macro_rules! here {
    () => {{
        fn marker() {}
        let path = std::any::type_name_of_val(&marker);
        let path = path.strip_suffix("::marker").expect("a function here");
        path.split_once("::").expect("the crate's name first").1
    }};
}

/// See [`on_test_driver`].
pub fn run(test: &str, variables: &[(&str, &str)], ending: Ending, body: impl FnOnce()) {
    if std::env::var(CHILD).is_ok_and(|name| name == test) {
        body();
        println!("{DONE}");
        // A test may run several processes; this one has done its part.
        std::process::exit(0);
    }
    let mut child = Command::new(std::env::current_exe().expect("this program"))
        .args([test, "--exact", "--nocapture", "--include-ignored"])
        .env(CHILD, test)
        .env("LD_LIBRARY_PATH", library::search_path())
        .envs(variables.iter().copied())
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("this program runs");
    let (status, said) = finish(&mut child);
    match ending {
        Ending::Success => assert!(
            status.success() && said.contains(DONE),
            "{variables:?}: {status}\n{said}"
        ),
        Ending::Violation(sentence) => {
            let mut lines = said
                .lines()
                .filter(|line| line.starts_with("fakecuda: violation:"));
            let found = lines.any(|line| line.contains(sentence));
            assert!(
                status.signal() == Some(SIGABRT) && found,
                "{variables:?}: expected a violation: {sentence}\n{status}\n{said}"
            );
        }
    }
}

/// How `child` ended and what it said. Ends it when it takes too long.
fn finish(child: &mut Child) -> (ExitStatus, String) {
    let mut streams: Vec<Box<dyn Read + Send>> = Vec::new();
    streams.extend(child.stdout.take().map(|s| Box::new(s) as Box<_>));
    streams.extend(child.stderr.take().map(|s| Box::new(s) as Box<_>));
    let (sender, receiver) = channel();
    for mut stream in streams {
        let sender = sender.clone();
        thread::spawn(move || {
            let mut bytes = Vec::new();
            let _ = stream.read_to_end(&mut bytes);
            let _ = sender.send(String::from_utf8_lossy(&bytes).into_owned());
        });
    }
    let mut said = String::new();
    for _ in 0..2 {
        match receiver.recv_timeout(PATIENCE) {
            Ok(text) => said.push_str(&text),
            Err(_) => {
                said.push_str("\nkilled: it took too long\n");
                let _ = child.kill();
            }
        }
    }
    (child.wait().expect("it was started"), said)
}
