//! An element between a source that has its frames ready and a sink that only takes the time.

use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

use gst::prelude::*;

/// Frames that go round.
const FRAMES: usize = 8;
/// Frames before the clock runs.
const WARM_UP: usize = 40;
const LATENCY_FRAMES: usize = 300;
const THROUGHPUT_TIME: Duration = Duration::from_millis(700);
/// Far more than any frame takes.
const PATIENCE: Duration = Duration::from_secs(30);

/// Where frames lie on both sides of the element.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Memory {
    /// In the pool that the element offers, and in the one that it takes for want of another.
    Pinned,
    /// In plain memory, also behind the element.
    Foreign,
}

pub fn caps(format: &str, width: u32, height: u32) -> gst::Caps {
    gst::Caps::builder("video/x-raw")
        .field("format", format)
        .field("width", width as i32)
        .field("height", height as i32)
        .field("framerate", gst::Fraction::new(30, 1))
        .build()
}

/// A running element with a source and a sink of this program.
pub struct Line {
    element: gst::Element,
    src: gst::Pad,
    sink: gst::Pad,
    frames: Vec<gst::Buffer>,
    arrivals: Receiver<Instant>,
}

impl Line {
    /// Starts `element` with frames of `caps`.
    pub fn new(element: gst::Element, caps: &gst::Caps, memory: Memory) -> Line {
        let (sender, arrivals) = channel();
        let src = gst::Pad::builder(gst::PadDirection::Src)
            .name("src")
            .build();
        let sink = gst::Pad::builder(gst::PadDirection::Sink)
            .name("sink")
            .chain_function(move |_, _, _buffer| {
                let _ = sender.send(Instant::now());
                Ok(gst::FlowSuccess::Ok)
            })
            .event_function(|_, _, _| true)
            .query_function(move |pad, parent, query| match query.view_mut() {
                gst::QueryViewMut::Allocation(query) if memory == Memory::Foreign => {
                    offer_plain_pool(query)
                }
                gst::QueryViewMut::Allocation(_) => false,
                _ => gst::Pad::query_default(pad, parent, query),
            })
            .build();
        let of = |name| element.static_pad(name).expect("the element has the pad");
        src.link(&of("sink")).expect("the pads link");
        of("src").link(&sink).expect("the pads link");
        sink.set_active(true).expect("a pad starts");
        element.set_state(gst::State::Playing).expect("it starts");
        src.set_active(true).expect("a pad starts");
        assert!(src.push_event(gst::event::StreamStart::new("bench")));
        assert!(src.push_event(gst::event::Caps::new(caps)));
        let segment = gst::FormattedSegment::<gst::ClockTime>::new();
        assert!(src.push_event(gst::event::Segment::new(&segment)));
        let frames = match memory {
            Memory::Pinned => pool_of(&src, caps),
            Memory::Foreign => None,
        };
        let info = gst_video::VideoInfo::from_caps(caps).expect("caps of video");
        let frames = frames.unwrap_or_else(|| {
            let plain = |_| gst::Buffer::from_mut_slice(vec![0u8; info.size()]);
            (0..FRAMES).map(plain).collect()
        });
        let mut line = Line {
            element,
            src,
            sink,
            frames,
            arrivals,
        };
        line.fill();
        line
    }

    /// Noise in every frame.
    fn fill(&mut self) {
        let mut state = 0x2545_f491_4f6c_dd1d_u64;
        for frame in &mut self.frames {
            let frame = frame.make_mut();
            let mut map = frame.map_writable().expect("the frame maps");
            for byte in map.as_mut_slice() {
                state ^= state << 13;
                state ^= state >> 7;
                state ^= state << 17;
                *byte = (state >> 24) as u8;
            }
        }
    }

    /// Gives the element frame `number` of those that go round.
    pub fn push(&self, number: usize) {
        let frame = self.frames[number % self.frames.len()].copy();
        self.src.push(frame).expect("the element takes the frame");
    }

    /// When the next frame came out, which is waited for.
    pub fn arrival(&self) -> Instant {
        (self.arrivals.recv_timeout(PATIENCE)).expect("the frame comes out")
    }

    /// The time from a frame's push to its arrival, with no other frame on the way.
    pub fn one(&self) -> Duration {
        let pushed = Instant::now();
        self.push(0);
        self.arrival() - pushed
    }

    /// The median of that.
    pub fn latency(&self) -> Duration {
        (0..WARM_UP).map(|_| self.one()).for_each(|_| ());
        let mut times: Vec<Duration> = (0..LATENCY_FRAMES).map(|_| self.one()).collect();
        times.sort_unstable();
        times[times.len() / 2]
    }

    /// The medians of the element's stages, in µs.
    pub fn stages(&self) -> String {
        let stats = self.element.property::<gst::Structure>("stats");
        let mut text = String::new();
        for field in [
            "latency",
            "stage-wait",
            "stage-copy-in",
            "stage-upload",
            "stage-kernel",
            "stage-download",
            "stage-blocked",
        ] {
            let median = stats
                .get::<u64>(format!("{field}-p50-ns"))
                .unwrap_or_default();
            text += &format!(
                "{} {:.1}  ",
                field.trim_start_matches("stage-"),
                median as f64 / 1e3
            );
        }
        text
    }

    /// Frames a second when the source never waits.
    pub fn throughput(&self) -> f64 {
        (0..WARM_UP).for_each(|number| self.push(number));
        (0..WARM_UP).map(|_| self.arrival()).for_each(|_| ());
        let started = Instant::now();
        let mut pushed = 0;
        while started.elapsed() < THROUGHPUT_TIME {
            self.push(pushed);
            pushed += 1;
        }
        let last = (0..pushed).fold(started, |_, _| self.arrival());
        pushed as f64 / (last - started).as_secs_f64()
    }
}

impl Drop for Line {
    fn drop(&mut self) {
        // Nothing depends on the state behind this.
        let _ = self.src.set_active(false);
        let _ = self.element.set_state(gst::State::Null);
        let _ = self.sink.set_active(false);
    }
}

fn offer_plain_pool(query: &mut gst::query::Allocation) -> bool {
    let (Some(caps), _) = query.get_owned() else {
        return false;
    };
    let info = gst_video::VideoInfo::from_caps(&caps).expect("caps of video");
    let pool = gst_video::VideoBufferPool::new();
    query.add_allocation_pool(Some(&pool), info.size() as u32, 4, 0);
    true
}

/// Frames of the pool that the element offers.
fn pool_of(src: &gst::Pad, caps: &gst::Caps) -> Option<Vec<gst::Buffer>> {
    let mut query = gst::query::Allocation::new(Some(caps), true);
    if !src.peer_query(&mut query) {
        return None;
    }
    let (pool, size, min, _) = query.allocation_pools().next()?;
    let pool = pool?;
    let mut config = pool.config();
    config.set_params(Some(caps), size, min, 0);
    pool.set_config(config)
        .expect("the pool takes its own values");
    pool.set_active(true).expect("the pool starts");
    let frame = |_| pool.acquire_buffer(None).expect("memory");
    Some((0..FRAMES).map(frame).collect())
}
