//! Keys from the terminal, one by one as they are pressed.
//!
//! Only line editing and echo are switched off. Ctrl-C stays what it is, and so does the way lines
//! are written: a terminal that is wholly raw would need both done anew.

use std::fs::File;
use std::io::{BufReader, IsTerminal, Read};
use std::os::fd::AsFd;
use std::sync::{Mutex, PoisonError};

use rustix::termios::{self, LocalModes, OptionalActions, SpecialCodeIndex, Termios};

use super::keys;

/// How the terminal was, for whoever comes first: the guard's end or a panic of any thread.
static BEFORE: Mutex<Option<Termios>> = Mutex::new(None);

/// Keys come one by one for as long as it lives.
pub struct Keys(());

impl Keys {
    /// Lets the keys of the terminal at standard input go to the bus of `pipeline`. `None` where
    /// there is no terminal, or it belongs to another job: this one runs in the background.
    pub fn watch(pipeline: &gst::Pipeline) -> Option<Keys> {
        let input = std::io::stdin();
        if !input.is_terminal() || !in_foreground() {
            return None;
        }
        let before = termios::tcgetattr(&input).ok()?;
        let mut keys = before.clone();
        keys.local_modes &= !(LocalModes::ICANON | LocalModes::ECHO);
        keys.special_codes[SpecialCodeIndex::VMIN] = 1;
        keys.special_codes[SpecialCodeIndex::VTIME] = 0;
        // Ctrl-\ would end the process, and Ctrl-Z stop it, without a chance to set the terminal right.
        keys.special_codes[SpecialCodeIndex::VQUIT] = 0;
        keys.special_codes[SpecialCodeIndex::VSUSP] = 0;
        *lock() = Some(before);
        let guard = Keys(());
        restore_on_panic();
        termios::tcsetattr(&input, OptionalActions::Now, &keys).ok()?;
        read(pipeline);
        Some(guard)
    }
}

impl Drop for Keys {
    fn drop(&mut self) {
        restore();
    }
}

fn lock() -> std::sync::MutexGuard<'static, Option<Termios>> {
    BEFORE.lock().unwrap_or_else(PoisonError::into_inner)
}

fn restore() {
    if let Some(before) = lock().take() {
        // A terminal that is gone needs nothing.
        let _ = termios::tcsetattr(std::io::stdin(), OptionalActions::Flush, &before);
    }
}

fn restore_on_panic() {
    let next = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        restore();
        next(panic);
    }));
}

/// A terminal without job control has no foreground: its only job is in front.
fn in_foreground() -> bool {
    match termios::tcgetpgrp(std::io::stdin()) {
        Ok(foreground) => foreground == rustix::process::getpgrp(),
        Err(_) => true,
    }
}

/// A thread reads for as long as the process lives: nothing interrupts a read in good order.
fn read(pipeline: &gst::Pipeline) {
    use gst::prelude::ObjectExt;
    let Ok(input) = std::io::stdin().as_fd().try_clone_to_owned() else {
        return;
    };
    let weak = pipeline.downgrade();
    let reader = move || {
        let mut decoder = Decoder::default();
        for byte in BufReader::new(File::from(input)).bytes() {
            let (Ok(byte), Some(pipeline)) = (byte, weak.upgrade()) else {
                return;
            };
            if let Some(key) = decoder.key(byte) {
                keys::post(&pipeline, key);
            }
        }
    };
    // Without the thread there are no keys, and Ctrl-C still works.
    let _ = std::thread::Builder::new()
        .name("keys".to_owned())
        .spawn(reader);
}

/// Makes keys of bytes: those of special keys begin with an escape and mean nothing but arrows.
#[derive(Default)]
struct Decoder {
    sequence: Vec<u8>,
}

impl Decoder {
    fn key(&mut self, byte: u8) -> Option<char> {
        const ESCAPE: u8 = 0x1b;
        if byte == ESCAPE {
            self.sequence = vec![byte];
            return None;
        }
        if self.sequence.is_empty() {
            return byte.is_ascii_graphic().then_some(char::from(byte));
        }
        // ESC [ A or ESC O A, with parameters in between; anything else ends it.
        let introduces = self.sequence.len() == 1 && matches!(byte, b'[' | b'O');
        let parameter = self.sequence.len() > 1 && matches!(byte, 0x20..=0x3f);
        if introduces || parameter {
            self.sequence.push(byte);
            return None;
        }
        let special = self.sequence.len() > 1;
        self.sequence.clear();
        match byte {
            b'A' if special => Some('+'),
            b'B' if special => Some('-'),
            b'C' if special => Some('k'),
            b'D' if special => Some('j'),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn special_keys_are_arrows_or_nothing() {
        let keys = |bytes: &[u8]| -> String {
            let mut decoder = Decoder::default();
            bytes.iter().filter_map(|byte| decoder.key(*byte)).collect()
        };
        assert_eq!(keys(b"k+-q\n \x01"), "k+-q");
        assert_eq!(keys(b"\x1b[A\x1b[B\x1bOC\x1b[Dp"), "+-kjp");
        assert_eq!(keys(b"\x1b[15~\x1b[1;5Cb"), "kb");
        assert_eq!(keys(b"\x1b\x1b[3~\xc3\xa9p"), "p");
    }

    /// Set where a test runs in a process of its own: where all ignored tests are asked for at once,
    /// those that need one have nothing to do.
    const ALONE: &str = "CUDACONV_TEST_ALONE";

    /// A terminal of a process of its own, whose modes can be seen from outside.
    fn terminal() -> (std::os::fd::OwnedFd, File) {
        use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
        use std::os::unix::ffi::OsStrExt;
        use std::os::unix::fs::OpenOptionsExt;

        let controller = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).unwrap();
        grantpt(&controller).unwrap();
        unlockpt(&controller).unwrap();
        let name = ptsname(&controller, Vec::new()).unwrap();
        let path = std::ffi::OsStr::from_bytes(name.as_bytes());
        let user = std::fs::OpenOptions::new()
            .read(true)
            .write(true)
            .custom_flags(libc::O_NOCTTY)
            .open(path)
            .unwrap();
        (controller, user)
    }

    /// Runs one of the tests below in a process of its own at a terminal, and says whether the
    /// terminal was left as it was.
    fn leaves_the_terminal(test: &str) -> bool {
        let (_controller, user) = terminal();
        let before = format!("{:?}", termios::tcgetattr(&user).unwrap());
        let output = std::process::Command::new(std::env::current_exe().unwrap())
            .args([
                &format!("webcam::terminal::tests::{test}"),
                "--exact",
                "--ignored",
            ])
            .env(ALONE, "1")
            .stdin(user.try_clone().unwrap())
            .output()
            .unwrap();
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        assert!(text.contains("keys were on"), "{text}");
        format!("{:?}", termios::tcgetattr(&user).unwrap()) == before
    }

    fn switch_on() -> Option<Keys> {
        gst::init().unwrap();
        let keys = Keys::watch(&gst::Pipeline::new());
        let modes = termios::tcgetattr(std::io::stdin()).unwrap().local_modes;
        assert!(!modes.intersects(LocalModes::ICANON | LocalModes::ECHO));
        keys
    }

    #[test]
    #[ignore = "run by another test, at a terminal of its own"]
    fn panicking() {
        if std::env::var_os(ALONE).is_none() {
            return;
        }
        let _keys = switch_on();
        panic!("keys were on");
    }

    #[test]
    #[ignore = "run by another test, at a terminal of its own"]
    fn panicking_in_another_thread() {
        if std::env::var_os(ALONE).is_none() {
            return;
        }
        // Kept from its drop, so that the panic alone sets the terminal right.
        std::mem::forget(switch_on());
        let panicked = std::thread::spawn(|| panic!("somewhere else")).join();
        panicked.expect_err("it panics");
        panic!("keys were on");
    }

    #[test]
    fn a_panic_leaves_the_terminal_as_it_was() {
        assert!(leaves_the_terminal("panicking"));
        assert!(leaves_the_terminal("panicking_in_another_thread"));
    }
}
