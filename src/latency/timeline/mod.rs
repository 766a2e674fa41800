//! A timeline of frames that Perfetto and chrome://tracing open: what waited, ran and was pushed
//! when, one group of tracks an element.
//!
//! With `CUDACONV_TRACE=FILE.json` in the environment the process has one. Frames go to a thread
//! that writes them, through a channel that never holds the stream up: what does not fit is left
//! out, and the file says how much that was.

mod format;
mod writer;

use std::ffi::OsStr;
use std::fs::File;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use crossbeam_channel::{Receiver, Sender, bounded};

use self::writer::Writer;
use super::{EngineTiming, FrameTiming};

const VARIABLE: &str = "CUDACONV_TRACE";
/// Frames that wait to be written: some seconds of them, in a third of a megabyte.
const WAITING: usize = 1024;
/// The most that a stream that stops waits for the file.
const PATIENCE: Duration = Duration::from_secs(1);

/// Why there is no timeline, in words for users.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the timeline {file} ({VARIABLE}) cannot be written: {reason}; frames go on without it")]
pub struct TimelineError {
    file: String,
    reason: String,
}

/// One frame's way through an element.
#[derive(Debug, Clone, Copy)]
pub struct FrameSpans {
    /// Frames that arrived before this one.
    pub number: u64,
    /// Which of the frames in flight it was; one that is done makes place for the next.
    pub slot: usize,
    pub arrived: Instant,
    /// For a slot, from `arrived` on.
    pub wait: Duration,
    /// When the engine had it and upstream's thread was free again.
    pub handed_over: Instant,
    /// `None` for a frame that passed unfiltered.
    pub engine: Option<(&'static str, EngineTiming)>,
    /// When the output task began to wait for it, had it, and had pushed it.
    pub asked: Instant,
    pub got: Instant,
    pub pushed: Instant,
    pub timing: FrameTiming,
    pub over_budget: bool,
}

#[expect(
    clippy::large_enum_variant,
    reason = "most are frames, which are to cost no allocation"
)]
enum Record {
    Element {
        id: u32,
        name: Box<str>,
        slots: usize,
    },
    Frame(u32, FrameSpans),
    Dropped {
        id: u32,
        number: u64,
        at: Instant,
        reason: &'static str,
    },
    /// Answered once everything before it is in the file.
    Flush(Sender<()>),
}

#[derive(Default)]
struct Shared {
    /// Records that did not fit into the channel and are not told in the file yet.
    lost: AtomicU64,
    failed: AtomicBool,
    reason: OnceLock<TimelineError>,
}

/// The file and the thread that writes it.
pub struct Timeline {
    records: Sender<Record>,
    shared: Arc<Shared>,
    elements: AtomicU32,
}

/// The process's timeline; `None` where none is asked for. The file is made at the first call.
pub fn of_process() -> Option<Result<&'static Timeline, &'static TimelineError>> {
    static TIMELINE: OnceLock<Option<Result<Timeline, TimelineError>>> = OnceLock::new();
    let timeline = TIMELINE.get_or_init(|| {
        let file = std::env::var_os(VARIABLE).filter(|file| !file.is_empty())?;
        Some(Timeline::create(&file))
    });
    timeline.as_ref().map(Result::as_ref)
}

impl Timeline {
    fn create(file: &OsStr) -> Result<Timeline, TimelineError> {
        let name = file.to_string_lossy().into_owned();
        let error = |reason: std::io::Error| TimelineError {
            file: name.clone(),
            reason: reason.to_string(),
        };
        let opened = File::create(Path::new(file)).map_err(error)?;
        let mut writer = Writer::start(opened).map_err(error)?;
        let (records, receiver) = bounded(WAITING);
        let shared = Arc::new(Shared::default());
        let of_thread = shared.clone();
        let file = name.clone();
        std::thread::Builder::new()
            .name("cudaconv-trace".into())
            .spawn(move || serve(&receiver, &mut writer, &of_thread, file))
            .map_err(error)?;
        Ok(Timeline {
            records,
            shared,
            elements: AtomicU32::new(1),
        })
    }

    /// Tracks for an element called `name` with `slots` frames in flight.
    pub fn element(&'static self, name: &str, slots: usize) -> ElementTimeline {
        let tracks = ElementTimeline {
            timeline: self,
            id: self.elements.fetch_add(1, Ordering::Relaxed),
            told: AtomicBool::new(false),
        };
        tracks.name(name, slots);
        tracks
    }

    fn send(&self, record: Record) {
        if self.records.try_send(record).is_err() {
            self.shared.lost.fetch_add(1, Ordering::Relaxed);
        }
    }
}

/// The tracks of one element.
pub struct ElementTimeline {
    timeline: &'static Timeline,
    id: u32,
    told: AtomicBool,
}

impl ElementTimeline {
    /// The element starts, under this name and with so many frames in flight.
    pub fn name(&self, name: &str, slots: usize) {
        self.timeline.send(Record::Element {
            id: self.id,
            name: name.into(),
            slots,
        });
    }

    /// A frame was pushed. Never waits.
    pub fn frame(&self, spans: FrameSpans) {
        self.timeline.send(Record::Frame(self.id, spans));
    }

    /// A frame was dropped on purpose. Never waits.
    pub fn dropped(&self, number: u64, reason: &'static str) {
        self.timeline.send(Record::Dropped {
            id: self.id,
            number,
            at: Instant::now(),
            reason,
        });
    }

    /// Waits until everything so far is in the file, at most a second.
    pub fn flush(&self) {
        let (done, written) = bounded(1);
        let flush = Record::Flush(done);
        if self.timeline.records.send_timeout(flush, PATIENCE).is_ok() {
            // Too slow a disk is no reason to hold a stream's end up.
            let _ = written.recv_timeout(PATIENCE);
        }
    }

    /// Why the file is written no more: told once to each element.
    pub fn failure(&self) -> Option<&'static TimelineError> {
        let shared = &self.timeline.shared;
        if !shared.failed.load(Ordering::Acquire) || self.told.swap(true, Ordering::Relaxed) {
            return None;
        }
        shared.reason.get()
    }
}

/// The thread: writes what came since the last time, as soon as it came.
fn serve(records: &Receiver<Record>, writer: &mut Writer, shared: &Shared, file: String) {
    while let Ok(first) = records.recv() {
        let mut flushed = Vec::new();
        // What comes meanwhile is for the next round, so that the text stays small.
        for record in std::iter::once(first).chain(records.try_iter().take(WAITING)) {
            match record {
                Record::Flush(done) => flushed.push(done),
                record => writer.add(&record),
            }
        }
        writer.add_lost(shared.lost.swap(0, Ordering::Relaxed));
        if let Err(error) = writer.write() {
            let reason = error.to_string();
            let _ = shared.reason.set(TimelineError { file, reason });
            shared.failed.store(true, Ordering::Release);
            return;
        }
        for done in flushed {
            let _ = done.send(());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A timeline whose thread gets to nothing, and its file.
    fn stuck(
        name: &str,
        waiting: usize,
    ) -> (Timeline, Receiver<Record>, Writer, std::path::PathBuf) {
        let path =
            std::env::temp_dir().join(format!("cudaconv-{}-{name}.json", std::process::id()));
        let writer = Writer::start(File::create(&path).unwrap()).unwrap();
        let (records, receiver) = bounded(waiting);
        let timeline = Timeline {
            records,
            shared: Arc::default(),
            elements: AtomicU32::new(1),
        };
        (timeline, receiver, writer, path)
    }

    #[test]
    fn what_does_not_fit_is_left_out_and_told() {
        let (timeline, receiver, mut writer, path) = stuck("lost", 2);
        let tracks = Box::leak(Box::new(timeline)).element("filter", 2);
        // The element's name takes one place; none of these waits.
        (0..5).for_each(|number| tracks.dropped(number, "qos"));
        let lost = &tracks.timeline.shared.lost;
        assert_eq!(lost.load(Ordering::Relaxed), 4);
        receiver.try_iter().for_each(|record| writer.add(&record));
        writer.add_lost(lost.swap(0, Ordering::Relaxed));
        writer.write().unwrap();
        writer.add_lost(0);
        writer.write().unwrap();
        let text = std::fs::read_to_string(&path).unwrap();
        std::fs::remove_file(&path).unwrap();
        let events: Vec<serde_json::Value> = serde_json::from_str(&text).unwrap();
        let named = |name: &str| events.iter().filter(|e| e["name"] == name).count();
        assert_eq!(named("dropped"), 1);
        assert_eq!(named("left out"), 1);
        assert_eq!(events.last().unwrap()["args"]["records"], 4);
    }
}
