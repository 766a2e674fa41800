//! A pseudo-terminal: what a program sees of one, and what it leaves behind.

use std::fs::{File, OpenOptions};
use std::io::Write;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::process::Stdio;

use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{LocalModes, Termios, tcgetattr};

/// Both ends of a terminal.
pub struct Terminal {
    /// Where the person types.
    keyboard: File,
    /// What a program has as its terminal. Kept open, so that the terminal outlives the program.
    user: File,
}

impl Terminal {
    pub fn open() -> Terminal {
        let controller: OwnedFd = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).unwrap();
        grantpt(&controller).unwrap();
        unlockpt(&controller).unwrap();
        let name = ptsname(&controller, Vec::new()).unwrap();
        let path = Path::new(std::ffi::OsStr::from_bytes(name.as_bytes()));
        // Not the terminal of this process: the tests' own Ctrl-C must stay theirs.
        let mut options = OpenOptions::new();
        std::os::unix::fs::OpenOptionsExt::custom_flags(&mut options, libc::O_NOCTTY);
        let user = options.read(true).write(true).open(path).unwrap();
        Terminal {
            keyboard: File::from(controller),
            user,
        }
    }

    /// For a program's standard input.
    pub fn input(&self) -> Stdio {
        self.user.try_clone().unwrap().into()
    }

    pub fn press(&mut self, keys: &str) {
        self.keyboard.write_all(keys.as_bytes()).unwrap();
    }

    pub fn modes(&self) -> Termios {
        tcgetattr(&self.user).unwrap()
    }

    /// Whether it edits lines and shows what is typed.
    pub fn is_sane(&self) -> bool {
        let wanted = LocalModes::ICANON | LocalModes::ECHO | LocalModes::ISIG;
        self.modes().local_modes.contains(wanted)
    }
}
