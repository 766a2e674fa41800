//! Streams that come over the network and go out again, on the loopback of this machine. A grey
//! picture goes in, and one that is lighter by 50 comes out: so it is known that it was filtered.

use std::io::{BufRead, BufReader, Read};
use std::net::UdpSocket;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::thread::JoinHandle;

use gst::prelude::*;

use crate::program::{Watchdog, cudaconv, folder, names, run, signal};
use crate::video;

/// Full-range grey of 96 is 98 in limited range.
const PICTURE: &str = "videotestsrc is-live=true pattern=solid-color foreground-color=0xff606060 \
                       ! video/x-raw,format=I420,width=64,height=48,framerate=30/1";
const ENCODER: &str =
    "x264enc tune=zerolatency speed-preset=ultrafast key-int-max=15 ! h264parse config-interval=-1";
/// What the program adds to it.
const LIGHTER: [&str; 4] = ["--kernel", "identity", "--bias", "50"];
const DARK: u8 = 98;

/// A port of the loopback that nobody had a moment ago.
fn free_port() -> u16 {
    UdpSocket::bind("127.0.0.1:0")
        .unwrap()
        .local_addr()
        .unwrap()
        .port()
}

/// A pipeline of this process that plays until it goes out of scope.
struct Playing(gst::Pipeline);

impl Playing {
    fn start(description: &str) -> Playing {
        gst::init().unwrap();
        let pipeline =
            gst::parse::launch(description).unwrap_or_else(|e| panic!("{description}: {e}"));
        let pipeline = pipeline.downcast::<gst::Pipeline>().unwrap();
        pipeline.set_state(gst::State::Playing).unwrap();
        Playing(pipeline)
    }

    /// Decoded frames that come in, as they are in memory.
    fn pull(&self, count: usize) -> Vec<Vec<u8>> {
        let sink = self
            .0
            .by_name("out")
            .unwrap()
            .downcast::<gst_app::AppSink>()
            .unwrap();
        let limit = gst::ClockTime::from_seconds(60);
        let pull = |_| {
            let sample = sink.try_pull_sample(limit).expect("a frame arrives");
            sample.buffer().unwrap().map_readable().unwrap().to_vec()
        };
        (0..count).map(pull).collect()
    }
}

impl Drop for Playing {
    fn drop(&mut self) {
        // Going to NULL cannot fail.
        let _ = self.0.set_state(gst::State::Null);
    }
}

/// Decodes what comes in, to grey.
const DECODE: &str = "h264parse ! decodebin ! videoconvert ! video/x-raw,format=GRAY8 \
                      ! appsink name=out sync=false max-buffers=4 drop=true";

fn assert_grey(bytes: &[u8], expected: u8) {
    let near = |sample: &u8| sample.abs_diff(expected) <= 3;
    assert!(bytes.iter().all(near), "{} is not {expected}", bytes[0]);
}

/// `cudaconv run` in work. What it prints is read all the time, so that it never waits for this.
struct Running {
    child: Child,
    rest: JoinHandle<String>,
    _watchdog: Watchdog,
}

impl Running {
    /// Returns once `frames` frames have been filtered.
    fn start(folder: &Path, arguments: &[&str], frames: usize) -> Running {
        let all = ["run"]
            .iter()
            .chain(arguments)
            .chain(&["--silent", "false"])
            .chain(&LIGHTER);
        let mut command = cudaconv(folder, all);
        let mut child = command
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let watchdog = Watchdog::over(&child);
        let mut out = BufReader::new(child.stdout.take().unwrap());
        for _ in 0..frames {
            let mut line = String::new();
            out.read_line(&mut line).unwrap();
            assert!(line.starts_with("frame "), "{line:?}");
        }
        let rest = std::thread::spawn(move || {
            let mut text = String::new();
            out.read_to_string(&mut text).unwrap();
            text
        });
        Running {
            child,
            rest,
            _watchdog: watchdog,
        }
    }

    /// Interrupts it; it must end in good order.
    fn interrupt(mut self) {
        signal("INT", self.child.id());
        let text = self.rest.join().unwrap();
        assert_eq!(self.child.wait().unwrap().code(), Some(130), "{text}");
        assert!(text.contains("interrupted: up to there"), "{text}");
    }
}

#[test]
fn rtp_that_comes_in_is_filtered_into_a_file() {
    let (folder, port) = (folder("rtp-in"), free_port());
    let sender =
        format!("{PICTURE} ! {ENCODER} ! rtph264pay pt=96 ! udpsink host=127.0.0.1 port={port}");
    let _sender = Playing::start(&sender);
    let input = format!("rtp://127.0.0.1:{port}");
    Running::start(&folder, &[&input, "-o", "out.mkv"], 20).interrupt();
    assert_eq!(names(&folder), ["out.mkv"]);
    let video = video::read(&folder.join("out.mkv"));
    assert!(video.frames.len() >= 20, "{}", video.frames.len());
    for frame in &video.frames {
        assert_grey(&frame.bytes, DARK + 50);
    }
}

#[test]
fn a_filtered_stream_goes_out_as_rtp() {
    let folder = folder("rtp-out");
    // The receiver's port is taken before anything is sent there.
    let receiver = Playing::start(&format!(
        "udpsrc name=in address=127.0.0.1 port=0 \
         caps=application/x-rtp,media=video,clock-rate=90000,encoding-name=H264 \
         ! rtpjitterbuffer latency=50 ! rtph264depay ! {DECODE}"
    ));
    let port = receiver.0.by_name("in").unwrap().property::<i32>("port");
    assert_ne!(port, 0);
    let input_port = free_port();
    let sender = format!(
        "{PICTURE} ! {ENCODER} ! rtph264pay pt=96 ! udpsink host=127.0.0.1 port={input_port}"
    );
    let _sender = Playing::start(&sender);
    let (input, output) = (
        format!("rtp://:{input_port}"),
        format!("rtp://127.0.0.1:{port}"),
    );
    let running = Running::start(&folder, &[&input, "-o", &output], 1);
    for frame in receiver.pull(10) {
        assert_grey(&frame, DARK + 50);
    }
    running.interrupt();
    assert!(names(&folder).is_empty());
}

#[test]
fn a_filtered_stream_can_be_called_by_srt() {
    let (folder, port) = (folder("srt-out"), free_port());
    let (sender_port, output) = (free_port(), format!("srt://127.0.0.1:{port}?mode=listener"));
    let sender = format!(
        "{PICTURE} ! {ENCODER} ! rtph264pay pt=96 ! udpsink host=127.0.0.1 port={sender_port}"
    );
    let _sender = Playing::start(&sender);
    let input = format!("rtp://127.0.0.1:{sender_port}");
    let running = Running::start(&folder, &[&input, "-o", &output], 1);
    let receiver = Playing::start(&format!(
        "srtsrc uri=srt://127.0.0.1:{port}?mode=caller ! tsdemux ! {DECODE}"
    ));
    for frame in receiver.pull(10) {
        assert_grey(&frame, DARK + 50);
    }
    drop(receiver);
    running.interrupt();
}

/// A camera that speaks RTSP, with sound besides; prints its port.
const CAMERA: &str = r#"
import gi
gi.require_version("Gst", "1.0")
gi.require_version("GstRtspServer", "1.0")
from gi.repository import GLib, Gst, GstRtspServer
Gst.init(None)
server = GstRtspServer.RTSPServer()
server.set_address("127.0.0.1")
server.set_service("0")
media = GstRtspServer.RTSPMediaFactory()
media.set_launch("( PICTURE ! ENCODER ! rtph264pay name=pay0 pt=96 audiotestsrc is-live=true ! alawenc ! rtppcmapay name=pay1 pt=8 )")
server.get_mount_points().add_factory("/stream1", media)
server.attach(None)
print(server.get_bound_port(), flush=True)
GLib.MainLoop().run()
"#;

#[test]
fn a_network_camera_is_asked_by_rtsp() {
    // The system's own, for that is what the distribution's bindings are for.
    let script = CAMERA
        .replace("PICTURE", PICTURE)
        .replace("ENCODER", ENCODER);
    let mut camera = Command::new("/usr/bin/python3");
    camera
        .args(["-c", &script])
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::null());
    let mut camera = match camera.spawn() {
        Ok(child) => child,
        Err(_) => return no_camera(),
    };
    let mut port = String::new();
    BufReader::new(camera.stdout.take().unwrap())
        .read_line(&mut port)
        .unwrap();
    if port.is_empty() {
        camera.wait().unwrap();
        return no_camera();
    }
    let folder = folder("rtsp-in");
    let address = format!("rtsp://127.0.0.1:{}/stream1", port.trim());
    let arguments = [
        "webcam",
        "--device",
        &address,
        "--no-window",
        "--frames",
        "20",
        "-r",
        "a.mkv",
    ];
    let finished = run(&folder, arguments.iter().chain(&LIGHTER));
    camera.kill().unwrap();
    camera.wait().unwrap();
    assert_eq!(finished.code, Some(0), "{finished:?}");
    assert!(
        finished.err.contains(&format!("camera: {address}")),
        "{finished:?}"
    );
    let video = video::read(&folder.join("a.mkv"));
    assert_eq!(
        (video.width, video.height, video.frames.len()),
        (128, 48, 20)
    );
}

fn no_camera() {
    // Not through the captured output: a test that did not run must not look like one that did.
    let note = "note: not tested, for want of an RTSP server: apt install python3-gi gir1.2-gst-rtsp-server-1.0\n";
    let _ = std::io::Write::write_all(&mut std::io::stderr(), note.as_bytes());
}

#[test]
fn what_is_no_address_is_refused() {
    let folder = folder("network-refused");
    for (input, output) in [
        ("rtp://host", "a.mp4"),
        ("rtp://127.0.0.1:70000", "a.mp4"),
        ("test", "rtp://127.0.0.1"),
        ("test", "rtp://:5004"),
        ("test", "srt://127.0.0.1"),
    ] {
        let finished = run(&folder, ["run", input, "-o", output]);
        assert_eq!(finished.code, Some(2), "{finished:?}");
        assert!(
            finished
                .err
                .contains("is no address of a stream; accepted are rtp://HOST:PORT"),
            "{finished:?}"
        );
    }
    assert!(names(&folder).is_empty());
}
