//! A display of its own for the tests of the window: an X server without a screen.

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};

/// A running X server, ended with this value.
pub struct Screen {
    server: Child,
    /// As in `DISPLAY`.
    pub name: String,
}

/// Whether all of `programs` and `elements` are there; says which are not.
pub fn has(programs: &[&str], elements: &[&str]) -> bool {
    gst::init().unwrap();
    let path = std::env::var_os("PATH").unwrap_or_default();
    let installed =
        |program: &&str| std::env::split_paths(&path).any(|p| p.join(program).is_file());
    let programs = programs.iter().filter(|program| !installed(program));
    let known = |element: &&str| gst::ElementFactory::find(element).is_some();
    let elements = elements.iter().filter(|element| !known(element));
    let missing: Vec<&str> = programs.chain(elements).copied().collect();
    if !missing.is_empty() {
        // Not through the captured output: a test that did not run must not look like one that did.
        let note = format!(
            "note: not tested, for want of {}: apt install xvfb xdotool gstreamer1.0-x\n",
            missing.join(", ")
        );
        let _ = std::io::Write::write_all(&mut std::io::stderr(), note.as_bytes());
    }
    missing.is_empty()
}

/// A picture of the whole screen in grey.
pub struct Shot {
    pub width: usize,
    bytes: Vec<u8>,
}

impl Screen {
    /// The server takes a number that is free and says which.
    pub fn open(size: &str) -> Screen {
        let geometry = format!("{size}x24");
        let mut server = Command::new("Xvfb")
            .args([
                "-displayfd",
                "1",
                "-noreset",
                "-nolisten",
                "tcp",
                "-screen",
                "0",
                &geometry,
            ])
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let mut number = String::new();
        BufReader::new(server.stdout.take().unwrap())
            .read_line(&mut number)
            .unwrap();
        assert!(!number.trim().is_empty(), "Xvfb did not start");
        Screen {
            server,
            name: format!(":{}", number.trim()),
        }
    }

    /// What is on the screen now.
    pub fn shot(&self) -> Shot {
        let description = format!(
            "ximagesrc display-name={} num-buffers=1 show-pointer=false ! videoconvert \
             ! video/x-raw,format=GRAY8 ! appsink name=out sync=false",
            self.name
        );
        let (mut width, mut bytes) = (0, Vec::new());
        crate::video::each_sample(&description, |sample| {
            let caps = sample.caps().unwrap().structure(0).unwrap();
            width = caps.get::<i32>("width").unwrap() as usize;
            bytes = sample.buffer().unwrap().map_readable().unwrap().to_vec();
        });
        Shot { width, bytes }
    }

    /// Writes what is on the screen as a picture, for people.
    pub fn save(&self, path: &std::path::Path) {
        crate::video::play(&format!(
            "ximagesrc display-name={} num-buffers=1 show-pointer=false ! videoconvert \
             ! pngenc ! filesink location=\"{}\"",
            self.name,
            path.display()
        ));
    }

    /// Closes the window that is there, as a window manager does when somebody asks for it.
    pub fn close(&self) {
        let script = format!("python3 -c '{CLOSE}' $(xdotool search --onlyvisible --name .)");
        let closed = Command::new("sh")
            .args(["-c", &script])
            .env("DISPLAY", &self.name)
            .output()
            .unwrap();
        assert!(closed.status.success(), "{closed:?}");
    }

    /// Presses a key, by its X name, in the window that is there.
    pub fn press(&self, key: &str) {
        let script = format!("xdotool search --onlyvisible --name . key {key}");
        let pressed = Command::new("sh")
            .args(["-c", &script])
            .env("DISPLAY", &self.name)
            .output();
        assert!(pressed.unwrap().status.success(), "{script}");
    }
}

/// Sends a window the message WM_DELETE_WINDOW.
const CLOSE: &str = r#"
import ctypes, sys
x = ctypes.CDLL("libX11.so.6")
x.XOpenDisplay.restype = ctypes.c_void_p
x.XInternAtom.restype = ctypes.c_ulong
class ClientMessage(ctypes.Structure):
    _fields_ = [("type", ctypes.c_int), ("serial", ctypes.c_ulong), ("send_event", ctypes.c_int),
        ("display", ctypes.c_void_p), ("window", ctypes.c_ulong), ("message_type", ctypes.c_ulong),
        ("format", ctypes.c_int), ("data", ctypes.c_long * 5), ("padding", ctypes.c_long * 24)]
display = ctypes.c_void_p(x.XOpenDisplay(None))
window = int(sys.argv[1])
protocols, delete = (x.XInternAtom(display, name, 0) for name in (b"WM_PROTOCOLS", b"WM_DELETE_WINDOW"))
event = ClientMessage(33, 0, 1, display, window, protocols, 32, (ctypes.c_long * 5)(delete))
sent = x.XSendEvent(display, ctypes.c_ulong(window), 0, ctypes.c_long(0), ctypes.byref(event))
x.XSync(display, 0)
sys.exit(0 if sent else 1)
"#;

impl Drop for Screen {
    fn drop(&mut self) {
        // It may have ended on its own.
        let _ = self.server.kill();
        let _ = self.server.wait();
    }
}

impl Shot {
    /// The samples of a rectangle, row by row.
    pub fn area(&self, rows: std::ops::Range<usize>, columns: std::ops::Range<usize>) -> Vec<u8> {
        let stride = self.width.next_multiple_of(4);
        rows.flat_map(|y| self.bytes[y * stride..][columns.clone()].iter().copied())
            .collect()
    }
}
