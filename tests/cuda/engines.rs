//! Both engines on the same frames.

use std::sync::Arc;

use gst::glib;
use gst::prelude::*;
use gstcudaconv::engine::{
    self, Backend, Engine, Frame, InputFrame, Opened, OutputFrame, PlaneSpan, Prepared, Request,
};
use gstcudaconv::filter::layout::supported_formats;
use gstcudaconv::filter::spec::{Kernel, Method};
use gstcudaconv::filter::{FilterSpec, Layout, Plan, PlanError};

use crate::common::{self, Random};

/// Opens an engine on device `device_id`.
pub fn open(backend: Backend, device_id: i32) -> Opened {
    common::init();
    let request = Request {
        backend,
        device_id,
        depth: 2,
    };
    engine::open(request).unwrap_or_else(|error| panic!("{error}"))
}

pub fn gpu() -> Arc<dyn Engine> {
    open(Backend::Cuda, -1).engine
}

pub fn cpu() -> Arc<dyn Engine> {
    open(Backend::Cpu, -1).engine
}

pub fn layout(format: gst_video::VideoFormat, width: u32, height: u32) -> Arc<Layout> {
    common::init();
    let info = gst_video::VideoInfo::builder(format, width, height);
    Arc::new(Layout::new(&info.build().unwrap()).unwrap())
}

/// The formats with these names; all that the element takes for an empty list.
pub fn formats(names: &[&str]) -> Vec<gst_video::VideoFormat> {
    let all: Vec<_> = supported_formats().collect();
    let find = |name: &&str| *all.iter().find(|f| f.to_str() == *name).expect("a format");
    match names {
        [] => all,
        names => names.iter().map(find).collect(),
    }
}

/// Every value of an enum property.
pub fn values<T>() -> Vec<T>
where
    T: StaticType + for<'v> glib::value::FromValue<'v> + 'static,
{
    let class = glib::EnumClass::with_type(T::static_type()).unwrap();
    let values = class.values().iter();
    values
        .map(|value| value.to_value(&class).get().unwrap())
        .collect()
}

/// `kernel` with settings that make it reach a few samples far.
pub fn spec(kernel: Kernel) -> FilterSpec {
    let custom = "1 -2 3 4.5 0; 0.25 7 -1 2 2; 1 1 -3 1 1";
    FilterSpec {
        kernel,
        matrix: (kernel == Kernel::Custom).then(|| custom.parse().unwrap()),
        radius: 3,
        sigma_space: 2.0,
        ..FilterSpec::default()
    }
}

/// How a frame lies in memory.
#[derive(Debug, Clone, Copy)]
pub enum Memory {
    /// Planes one behind the other without padding, in memory of the program.
    Tight,
    /// Rows with gaps and planes with a lead, at odd places where the samples allow it.
    Padded,
    /// As `Tight`, in memory of the engine's allocator.
    Pinned,
}

/// Where the planes of `layout` lie, and the bytes that they need.
fn spans(layout: &Layout, memory: Memory) -> (Vec<PlaneSpan>, usize) {
    let sample = layout.sample.bytes();
    let (lead, gap) = match memory {
        Memory::Padded => (3 * sample, 5 * sample),
        Memory::Tight | Memory::Pinned => (0, 0),
    };
    let mut end = 0;
    let span = |size: &gstcudaconv::filter::layout::PlaneSize| {
        let span = PlaneSpan {
            memory: 0,
            offset: end + lead,
            stride: size.row_bytes + gap,
        };
        end = span.offset + span.stride * size.rows;
        span
    };
    let spans = layout.planes.iter().map(span).collect();
    (spans, end)
}

/// The bytes of a frame of noise: every sample a code value, whatever else any byte.
fn noise(layout: &Layout, spans: &[PlaneSpan], bytes: usize, seed: u64) -> Vec<u8> {
    let mut random = Random::new(seed);
    let mut noise: Vec<u8> = (0..bytes).map(|_| (random.next() >> 32) as u8).collect();
    for group in &layout.groups {
        for channel in &group.channels {
            let span = spans[channel.plane];
            for (x, y) in (0..group.height).flat_map(|y| (0..group.width).map(move |x| (x, y))) {
                let at = span.offset + y * span.stride + channel.offset + x * channel.step;
                let code = (random.next() >> 32) as u32 & layout.max_code();
                layout.sample.write(&mut noise[at..], code);
            }
        }
    }
    noise
}

/// Memory of the engine's allocator, mapped.
struct Pinned(gst::MappedMemory<gst::memory::Writable>);

impl AsRef<[u8]> for Pinned {
    fn as_ref(&self) -> &[u8] {
        self.0.as_slice()
    }
}

impl engine::frame::WriteBytes for Pinned {
    fn bytes(&self) -> &[u8] {
        self.0.as_slice()
    }
    fn bytes_mut(&mut self) -> &mut [u8] {
        self.0.as_mut_slice()
    }
}

fn pinned(engine: &dyn Engine, bytes: &[u8]) -> Pinned {
    let allocator = engine.allocator().expect("an allocator of pinned memory");
    let memory = allocator.alloc(bytes.len(), None).expect("memory");
    let mut mapped = memory.into_mapped_memory_writable().expect("mapped");
    mapped.as_mut_slice().copy_from_slice(bytes);
    Pinned(mapped)
}

/// A frame of noise for `engine`, with an output of other noise.
pub fn frame(layout: &Layout, engine: &dyn Engine, memory: Memory, seed: u64) -> Frame {
    let (spans, bytes) = spans(layout, memory);
    let input = noise(layout, &spans, bytes, seed);
    let output = noise(layout, &spans, bytes, !seed);
    let (input, output) = match memory {
        Memory::Pinned => (
            InputFrame::new(
                layout,
                vec![Box::new(pinned(engine, &input))],
                spans.clone(),
            ),
            OutputFrame::new(layout, vec![Box::new(pinned(engine, &output))], spans),
        ),
        Memory::Tight | Memory::Padded => (
            InputFrame::new(layout, vec![Box::new(input)], spans.clone()),
            OutputFrame::new(layout, vec![Box::new(output)], spans),
        ),
    };
    Frame {
        input: input.unwrap(),
        output: output.unwrap(),
        interlaced: false,
    }
}

/// `spec` made ready on `engine`.
///
/// # Errors
/// When the engine cannot compute it.
pub fn prepare(
    engine: &dyn Engine,
    spec: &FilterSpec,
    layout: &Arc<Layout>,
) -> Result<Arc<dyn Prepared>, PlanError> {
    let plan = Arc::new(Plan::new(spec, layout, engine.abilities())?);
    let prepared = engine
        .prepare(&plan, true)
        .unwrap_or_else(|e| panic!("{e}"));
    Ok(prepared.expect("waited for"))
}

/// The filtered picture, plane by plane and row by row.
pub fn picture(layout: &Layout, output: &OutputFrame) -> Vec<u8> {
    let mut bytes = Vec::new();
    for (plane, size) in layout.planes.iter().enumerate() {
        let (rows, stride) = output.plane(plane);
        for y in 0..size.rows {
            bytes.extend_from_slice(&rows[y * stride..][..size.row_bytes]);
        }
    }
    bytes
}

/// All bytes of the output's memory that are no picture.
fn surroundings(layout: &Layout, mut output: OutputFrame, memory: Memory) -> Vec<u8> {
    let (spans, _) = spans(layout, memory);
    for (plane, (size, span)) in layout.planes.iter().zip(&spans).enumerate() {
        let (rows, _) = output.plane_mut(plane);
        for y in 0..size.rows {
            rows[y * span.stride..][..size.row_bytes].fill(0);
        }
    }
    let memories = output.into_memories();
    memories[0].bytes().to_vec()
}

/// One comparison of the GPU with the CPU's scalar reference.
pub struct Case<'a> {
    pub spec: &'a FilterSpec,
    pub layout: &'a Arc<Layout>,
    pub memory: Memory,
    pub interlaced: bool,
}

impl Case<'_> {
    /// Fails unless both give the same picture, and the GPU writes nothing else. False if the GPU
    /// cannot compute it by this method.
    pub fn compare(&self, gpu: &dyn Engine, cpu: &dyn Engine) -> bool {
        let &Case {
            spec,
            layout,
            memory,
            interlaced,
        } = self;
        let Ok(on_gpu) = prepare(gpu, spec, layout) else {
            return false;
        };
        let naive = FilterSpec {
            method: Method::Naive,
            ..spec.clone()
        };
        let on_cpu = prepare(cpu, &naive, layout).expect("naive computes everything");
        let run = |prepared: &dyn Prepared, memory, what| {
            let mut frame = frame(layout, gpu, memory, 77);
            frame.interlaced = interlaced;
            let (frame, timing) = prepared.submit(frame).wait();
            timing.unwrap_or_else(|error| panic!("{what}: {error}"));
            let picture = picture(layout, &frame.output);
            (picture, surroundings(layout, frame.output, memory))
        };
        let case = format!(
            "{:?} {:?} {:?}, {} {}x{} {memory:?}{}",
            spec.kernel,
            spec.method,
            spec.border,
            layout.format,
            layout.width,
            layout.height,
            if interlaced { " interlaced" } else { "" }
        );
        let (got, around) = run(&*on_gpu, memory, &case);
        let (wanted, untouched) = run(&*on_cpu, memory, &case);
        assert_eq!(around, untouched, "{case}: what is no picture");
        if spec.kernel == Kernel::Bilateral {
            assert_close(layout, &got, &wanted, &case);
        } else if let Some(at) = (0..got.len()).find(|&at| got[at] != wanted[at]) {
            panic!(
                "{case}: byte {at} is {}, on the CPU {}",
                got[at], wanted[at]
            );
        }
        true
    }
}

/// At most one code value apart, on fewer than one sample in 1,000.
fn assert_close(layout: &Layout, got: &[u8], wanted: &[u8], case: &str) {
    let sample = layout.sample;
    let codes = |bytes: &[u8]| -> Vec<u32> {
        bytes
            .chunks_exact(sample.bytes())
            .map(|b| sample.read(b))
            .collect()
    };
    let (got, wanted) = (codes(got), codes(wanted));
    let apart = |(a, b): (&u32, &u32)| a.abs_diff(*b);
    let differ = got
        .iter()
        .zip(&wanted)
        .filter(|pair| apart(*pair) > 0)
        .count();
    let most = got.iter().zip(&wanted).map(apart).max().unwrap_or(0);
    assert!(
        most <= 1 && differ * 1000 <= got.len(),
        "{case}: {differ} of {} samples differ, by up to {most}",
        got.len()
    );
}
