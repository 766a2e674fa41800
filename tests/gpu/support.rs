//! Engines, frames and plans for the tests of the GPU.

use std::io::Write as _;
use std::sync::{Arc, OnceLock};

use gst::glib;
use gst::prelude::*;
use gstcudaconv::engine::cpu::{self, CpuEngine};
use gstcudaconv::engine::cuda::{self, CudaEngine};
use gstcudaconv::engine::frame::{ReadMemory, WriteBytes, WriteMemory};
use gstcudaconv::engine::{Engine, Frame, InputFrame, OutputFrame, PlaneSpan, Prepared};
use gstcudaconv::filter::plan::{Abilities, Job, Operation, Taps};
use gstcudaconv::filter::spec::Method;
use gstcudaconv::filter::{FilterSpec, Layout, Plan};

/// An engine with `depth` slots; `None`, said once, where there is no driver.
///
/// # Panics
/// When there is none and `CUDACONV_GPU=required`, or when there is one that does not work.
pub fn gpu(depth: usize) -> Option<CudaEngine> {
    gst::init().expect("GStreamer starts");
    match CudaEngine::open(-1, depth) {
        Ok(engine) => Some(engine),
        Err(error) => {
            let required = std::env::var("CUDACONV_GPU").is_ok_and(|value| value == "required");
            assert!(!required, "{error}");
            static SAID: OnceLock<()> = OnceLock::new();
            SAID.get_or_init(|| say(&format!("skipped, for want of a GPU: {error}")));
            None
        }
    }
}

/// A GPU and what it is compared with.
pub struct Engines {
    pub gpu: CudaEngine,
    pub cpu: CpuEngine,
}

/// Both, with two slots on the GPU; `None`, said once, where there is no driver.
pub fn engines() -> Option<Engines> {
    Some(Engines {
        gpu: gpu(2)?,
        cpu: CpuEngine::new().expect("the CPU engine starts"),
    })
}

/// Every value of an enum.
pub fn all_of<T: StaticType + for<'v> glib::value::FromValue<'v> + 'static>() -> Vec<T> {
    let class = glib::EnumClass::with_type(T::static_type()).expect("an enum");
    (class.values().iter())
        .map(|value| value.to_value(&class).get_owned().expect("its own type"))
        .collect()
}

/// Prints a line that the test harness does not hold back.
pub fn say(line: &str) {
    // Nobody reads it if it cannot be written.
    let _ = writeln!(std::io::stderr(), "{line}");
}

/// With `CUDACONV_GPU_TESTS=quick` few frames stand for many.
pub fn quick() -> bool {
    std::env::var("CUDACONV_GPU_TESTS").is_ok_and(|value| value == "quick")
}

pub fn layout(format: gst_video::VideoFormat, width: u32, height: u32) -> Arc<Layout> {
    let info = gst_video::VideoInfo::builder(format, width, height);
    Arc::new(Layout::new(&info.build().expect("a size")).expect("a format"))
}

/// Where the bytes of a frame are allocated.
#[derive(Clone, Copy)]
pub enum Memory<'a> {
    Heap,
    /// By an engine's allocator.
    From(&'a gst::Allocator),
}

/// How planes lie in memory.
#[derive(Debug, Clone, Copy)]
pub struct Shape {
    /// Bytes between the end of a row and the start of the next.
    pub row_gap: usize,
    /// Bytes before the first plane and behind each.
    pub plane_gap: usize,
}

pub const TIGHT: Shape = Shape {
    row_gap: 0,
    plane_gap: 0,
};

/// Some of each kind.
pub const SHAPES: [Shape; 5] = [
    TIGHT,
    // Rows that the device takes as they lie.
    Shape {
        row_gap: 16,
        plane_gap: 0,
    },
    Shape {
        row_gap: 3,
        plane_gap: 7,
    },
    Shape {
        row_gap: 0,
        plane_gap: 4096,
    },
    Shape {
        row_gap: 1000,
        plane_gap: 1,
    },
];

/// Bytes of a mapped GStreamer memory.
struct Mapped(gst::memory::MappedMemory<gst::memory::Writable>);

impl WriteBytes for Mapped {
    fn bytes(&self) -> &[u8] {
        self.0.as_slice()
    }
    fn bytes_mut(&mut self) -> &mut [u8] {
        self.0.as_mut_slice()
    }
}

impl AsRef<[u8]> for Mapped {
    fn as_ref(&self) -> &[u8] {
        self.0.as_slice()
    }
}

fn mapped(allocator: &gst::Allocator, bytes: &[u8]) -> Mapped {
    let memory = allocator.alloc(bytes.len(), None).expect("memory");
    let mut mapped = memory.into_mapped_memory_writable().expect("it maps");
    mapped.as_mut_slice().copy_from_slice(bytes);
    Mapped(mapped)
}

/// Spans of the planes of `layout`, and the bytes that they take.
pub fn spans(layout: &Layout, shape: Shape) -> (Vec<PlaneSpan>, usize) {
    let mut offset = shape.plane_gap;
    let planes = layout.planes.iter().map(|size| {
        let stride = size.row_bytes + shape.row_gap;
        let span = PlaneSpan {
            memory: 0,
            offset,
            stride,
        };
        offset += stride * size.rows + shape.plane_gap;
        span
    });
    (planes.collect(), offset)
}

/// A repeatable byte for each place (Steele's SplitMix64).
pub fn noise(seed: u64, at: usize) -> u8 {
    let mut z = seed.wrapping_add((at as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15));
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    (z ^ (z >> 31)) as u8
}

/// A frame of noise, whose samples are within the depth, and an output in which every byte is
/// [`POISON`].
pub fn frame(
    layout: &Layout,
    seed: u64,
    input: (Memory, Shape),
    output: (Memory, Shape),
    interlaced: bool,
) -> Frame {
    let byte = |plane, at| noise(seed, (plane << 32) ^ at);
    frame_of(layout, byte, input, output, interlaced)
}

/// A frame in which every byte is `level`, and an output of [`POISON`].
pub fn level_frame(
    layout: &Layout,
    level: u8,
    input: (Memory, Shape),
    output: (Memory, Shape),
) -> Frame {
    frame_of(layout, |_, _| level, input, output, false)
}

/// A frame of the bytes that `byte` gives for an offset of a plane and a place in it.
pub fn frame_of(
    layout: &Layout,
    byte: impl Fn(usize, usize) -> u8,
    (input, input_shape): (Memory, Shape),
    (output, output_shape): (Memory, Shape),
    interlaced: bool,
) -> Frame {
    let (input_spans, input_len) = spans(layout, input_shape);
    let mut bytes = vec![POISON; input_len];
    for (span, size) in input_spans.iter().zip(&layout.planes) {
        for y in 0..size.rows {
            let row = &mut bytes[span.offset + y * span.stride..][..size.row_bytes];
            for (x, sample) in row.iter_mut().enumerate() {
                *sample = byte(span.offset, y * size.row_bytes + x);
            }
        }
    }
    let input: ReadMemory = match input {
        Memory::Heap => Box::new(bytes),
        Memory::From(allocator) => Box::new(mapped(allocator, &bytes)),
    };
    let (output_spans, output_len) = spans(layout, output_shape);
    let poison = vec![POISON; output_len];
    let output: WriteMemory = match output {
        Memory::Heap => Box::new(poison),
        Memory::From(allocator) => Box::new(mapped(allocator, &poison)),
    };
    Frame {
        input: InputFrame::new(layout, vec![input], input_spans).expect("it fits"),
        output: OutputFrame::new(layout, vec![output], output_spans).expect("it fits"),
        interlaced,
    }
}

/// What outputs hold before they are written.
pub const POISON: u8 = 0xa5;

/// The active bytes of the output, plane by plane.
pub fn output_bytes(layout: &Layout, frame: &Frame) -> Vec<u8> {
    let mut bytes = Vec::new();
    for (plane, size) in layout.planes.iter().enumerate() {
        let (rows, stride) = frame.output.plane(plane);
        for y in 0..size.rows {
            bytes.extend_from_slice(&rows[y * stride..][..size.row_bytes]);
        }
    }
    bytes
}

/// Whether every byte of the output's memory that is no pixel is [`POISON`].
pub fn padding_is_untouched(frame: Frame, layout: &Layout, shape: Shape) -> bool {
    let (spans, len) = spans(layout, shape);
    let mut active = vec![false; len];
    for (span, size) in spans.iter().zip(&layout.planes) {
        for y in 0..size.rows {
            active[span.offset + y * span.stride..][..size.row_bytes].fill(true);
        }
    }
    let memory = frame.output.into_memories().pop().expect("one memory");
    (memory.bytes().iter().zip(&active)).all(|(&byte, &active)| active || byte == POISON)
}

/// The code values of the output, sample by sample.
pub fn output_codes(layout: &Layout, frame: &Frame) -> Vec<u32> {
    let mut codes = Vec::new();
    for group in &layout.groups {
        for channel in &group.channels {
            let (rows, stride) = frame.output.plane(channel.plane);
            for y in 0..group.height {
                for x in 0..group.width {
                    let at = y * stride + channel.offset + x * channel.step;
                    codes.push(layout.sample.read(&rows[at..]));
                }
            }
        }
    }
    codes
}

/// `spec` by `method` on an engine with `abilities`; `None` where the method cannot do it.
pub fn plan(
    spec: &FilterSpec,
    method: Method,
    layout: &Arc<Layout>,
    abilities: &Abilities,
) -> Option<Arc<Plan>> {
    let spec = FilterSpec {
        method,
        ..spec.clone()
    };
    Plan::new(&spec, layout, abilities).ok().map(Arc::new)
}

/// By how many code values the results of `plan` may differ from the canonical ones for its kernels being
/// sums of outer products.
pub fn rounding(plan: &Plan) -> u32 {
    let max_code = plan.layout.max_code();
    let is_sum = |job: &Job| match &job.operation {
        Operation::Correlate(kernel) => matches!(kernel.taps, Taps::Sum(_)),
        _ => false,
    };
    let rounded = |job: &Job| is_sum(job) && !job.sums_are_whole(max_code);
    plan.jobs.iter().any(rounded).into()
}

pub fn prepare(engine: &dyn Engine, plan: &Arc<Plan>) -> Arc<dyn Prepared> {
    let prepared = engine.prepare(plan, true);
    let prepared = prepared.unwrap_or_else(|error| panic!("{error}"));
    prepared.expect("waited for")
}

/// Filters a frame on the GPU.
pub fn on_gpu(engine: &CudaEngine, plan: &Arc<Plan>, frame: Frame) -> Frame {
    let (frame, timing) = prepare(engine, plan).submit(frame).wait();
    timing.unwrap_or_else(|error| panic!("{error}"));
    frame
}

/// Filters a frame pixel by pixel on the CPU.
pub fn on_cpu(engine: &CpuEngine, spec: &FilterSpec, layout: &Arc<Layout>, frame: Frame) -> Frame {
    let plan = plan(spec, Method::Naive, layout, &cpu::ABILITIES).expect("the CPU does all");
    let (frame, timing) = prepare(engine, &plan).submit(frame).wait();
    timing.unwrap_or_else(|error| panic!("{error}"));
    frame
}

pub fn gpu_abilities() -> &'static Abilities {
    &cuda::ABILITIES
}
