//! Making small videos and reading them back, without the program under test.

use std::path::Path;

use gst::prelude::*;

const LIMIT: gst::ClockTime = gst::ClockTime::from_seconds(60);

/// A decoded frame: when it is shown, in nanoseconds of running time, and its bytes.
pub struct Frame {
    pub time: u64,
    pub bytes: Vec<u8>,
}

/// A decoded video.
pub struct Video {
    pub width: usize,
    pub height: usize,
    pub frames: Vec<Frame>,
}

impl Video {
    /// The rows of plane 0 of frame `index`, without padding; one byte a sample.
    pub fn rows(&self, index: usize) -> impl Iterator<Item = &[u8]> {
        let stride = self.width.next_multiple_of(4);
        let rows = self.frames[index].bytes.chunks(stride).take(self.height);
        rows.map(|row| &row[..self.width])
    }

    pub fn times(&self) -> Vec<u64> {
        self.frames.iter().map(|frame| frame.time).collect()
    }
}

fn quoted(path: &Path) -> String {
    format!("\"{}\"", path.display())
}

/// Decodes the video of a file, or the pictures of a numbered name, to grey.
pub fn read(path: &Path) -> Video {
    let source = if path.to_string_lossy().contains('%') {
        "multifilesrc caps=image/png,framerate=30/1"
    } else {
        "filesrc"
    };
    let description = format!(
        "{source} location={} ! decodebin ! videoconvert ! video/x-raw,format=GRAY8 \
         ! appsink name=out sync=false",
        quoted(path)
    );
    let mut video = Video {
        width: 0,
        height: 0,
        frames: Vec::new(),
    };
    each_sample(&description, |sample| {
        let caps = sample.caps().unwrap().structure(0).unwrap();
        video.width = caps.get::<i32>("width").unwrap() as usize;
        video.height = caps.get::<i32>("height").unwrap() as usize;
        let segment = sample.segment().unwrap();
        let segment = segment.downcast_ref::<gst::ClockTime>().unwrap();
        let buffer = sample.buffer().unwrap();
        video.frames.push(Frame {
            time: segment.to_running_time(buffer.pts()).unwrap().nseconds(),
            bytes: buffer.map_readable().unwrap().to_vec(),
        });
    });
    video
}

/// The packets of the sound of a Matroska file, undecoded, with the name of their coding.
pub fn sound(path: &Path) -> (String, Vec<Vec<u8>>) {
    let description = format!(
        "filesrc location={} ! matroskademux name=demux demux.audio_0 ! queue \
         ! appsink name=out sync=false demux.video_0 ! queue ! fakesink",
        quoted(path)
    );
    let (mut coding, mut packets) = (String::new(), Vec::new());
    each_sample(&description, |sample| {
        coding = sample
            .caps()
            .unwrap()
            .structure(0)
            .unwrap()
            .name()
            .to_string();
        packets.push(sample.buffer().unwrap().map_readable().unwrap().to_vec());
    });
    (coding, packets)
}

/// Plays a description and hands each sample of its appsink `out` to `take`.
pub fn each_sample(description: &str, mut take: impl FnMut(gst::Sample)) {
    gst::init().unwrap();
    let pipeline = gst::parse::launch(description).unwrap();
    let pipeline = pipeline.downcast::<gst::Pipeline>().unwrap();
    let sink = pipeline.by_name("out").unwrap();
    let sink = sink.downcast::<gst_app::AppSink>().unwrap();
    pipeline.set_state(gst::State::Playing).unwrap();
    while let Some(sample) = sink.try_pull_sample(LIMIT) {
        take(sample);
    }
    assert!(sink.is_eos(), "{description} did not end");
    pipeline.set_state(gst::State::Null).unwrap();
}

/// Plays a description to its end.
pub fn play(description: &str) {
    gst::init().unwrap();
    let pipeline = gst::parse::launch(description).unwrap();
    pipeline.set_state(gst::State::Playing).unwrap();
    let bus = pipeline.bus().unwrap();
    let ends = [gst::MessageType::Eos, gst::MessageType::Error];
    let end = bus.timed_pop_filtered(LIMIT, &ends);
    pipeline.set_state(gst::State::Null).unwrap();
    let end = end.unwrap_or_else(|| panic!("{description} did not end"));
    assert_eq!(end.type_(), gst::MessageType::Eos, "{description}: {end:?}");
}

/// Writes a Matroska file of grey 64x48 frames shown at `times`, in milliseconds.
pub fn write_at(path: &Path, times: &[u64]) {
    gst::init().unwrap();
    let description = format!(
        "appsrc name=in format=time caps=video/x-raw,format=GRAY8,width=64,height=48,framerate=0/1 \
         ! jpegenc ! matroskamux ! filesink location={}",
        quoted(path)
    );
    let pipeline = gst::parse::launch(&description).unwrap();
    let pipeline = pipeline.downcast::<gst::Pipeline>().unwrap();
    let source = pipeline.by_name("in").unwrap();
    let source = source.downcast::<gst_app::AppSrc>().unwrap();
    for (index, time) in times.iter().enumerate() {
        let mut buffer = gst::Buffer::from_mut_slice(vec![index as u8 * 10; 64 * 48]);
        let time = gst::ClockTime::from_mseconds(*time);
        buffer.get_mut().unwrap().set_pts(time);
        source.push_buffer(buffer).unwrap();
    }
    source.end_of_stream().unwrap();
    pipeline.set_state(gst::State::Playing).unwrap();
    let bus = pipeline.bus().unwrap();
    let ends = [gst::MessageType::Eos, gst::MessageType::Error];
    let end = bus.timed_pop_filtered(LIMIT, &ends).unwrap();
    pipeline.set_state(gst::State::Null).unwrap();
    assert_eq!(end.type_(), gst::MessageType::Eos, "{end:?}");
}
