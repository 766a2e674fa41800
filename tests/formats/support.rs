//! Frames in many memory layouts, run through an engine and compared with the definition.
#![allow(dead_code)] // the tests of the CUDA path use a part of it

use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use gst::glib;
use gst::prelude::*;
use gstcudaconv::engine::cpu::CpuEngine;
use gstcudaconv::engine::cuda::CudaEngine;
use gstcudaconv::engine::frame::WriteBytes;
use gstcudaconv::engine::{Engine, Frame, InputFrame, OutputFrame, PlaneSpan};
use gstcudaconv::filter::layout::{Role, supported_formats};
use gstcudaconv::filter::plan::{Operation, Plan};
use gstcudaconv::filter::reference::{self, Component};
use gstcudaconv::filter::spec::{Border, Kernel, Method};
use gstcudaconv::filter::{FilterSpec, Layout};

/// A frame takes milliseconds; beyond this the engine hangs.
const WATCHDOG: Duration = Duration::from_secs(60);
/// What the output holds before the engine writes it.
const UNTOUCHED: u8 = 0xA5;

pub const BORDERS: [Border; 5] = [
    Border::Replicate,
    Border::Reflect,
    Border::Reflect101,
    Border::Wrap,
    Border::Constant,
];

pub fn formats() -> Vec<gst_video::VideoFormat> {
    supported_formats().collect()
}

/// Every value of the property `kernel`.
pub fn kernels() -> Vec<Kernel> {
    let class = glib::EnumClass::with_type(Kernel::static_type()).unwrap();
    let value = |value: &glib::EnumValue| value.to_value(&class).get().unwrap();
    class.values().iter().map(value).collect()
}

pub fn layout(format: gst_video::VideoFormat, width: u32, height: u32) -> Arc<Layout> {
    gst::init().unwrap();
    let info = gst_video::VideoInfo::builder(format, width, height).build();
    Arc::new(Layout::new(&info.unwrap()).unwrap())
}

pub fn layout_of_range(format: gst_video::VideoFormat, colorimetry: &str) -> Arc<Layout> {
    gst::init().unwrap();
    let colorimetry = colorimetry.parse().unwrap();
    let info = gst_video::VideoInfo::builder(format, 33, 17)
        .colorimetry(&colorimetry)
        .build();
    Arc::new(Layout::new(&info.unwrap()).unwrap())
}

/// Where the planes of a frame lie.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Placement {
    /// One memory, no padding.
    Tight,
    /// A memory a plane, odd offsets and odd strides, so that 16-bit samples are not aligned.
    Odd,
    /// One memory, the last plane first, rows aligned to 64 bytes and gaps between planes.
    Aligned,
    /// `lead` bytes before each plane, `gap` bytes behind each row but the last of a memory; in one
    /// memory or, `apart`, in a memory a plane.
    Chosen {
        lead: usize,
        gap: usize,
        apart: bool,
    },
}

impl Placement {
    /// Spans of the planes and the sizes of the memories.
    fn place(self, layout: &Layout) -> (Vec<PlaneSpan>, Vec<usize>) {
        let mut spans = Vec::new();
        let mut end = 0;
        let planes = layout.planes.iter();
        match self {
            Placement::Tight => {
                for size in planes {
                    let stride = size.row_bytes;
                    spans.push(PlaneSpan {
                        memory: 0,
                        offset: end,
                        stride,
                    });
                    end += stride * size.rows;
                }
            }
            Placement::Odd => {
                let mut sizes = Vec::new();
                for (memory, size) in planes.enumerate() {
                    let (offset, stride) =
                        (3 + 2 * memory, size.row_bytes + 7 - size.row_bytes % 2);
                    spans.push(PlaneSpan {
                        memory,
                        offset,
                        stride,
                    });
                    // The last row ends with its last pixel.
                    sizes.push(offset + stride * (size.rows - 1) + size.row_bytes);
                }
                return (spans, sizes);
            }
            Placement::Aligned => {
                for size in planes.rev() {
                    let stride = size.row_bytes.next_multiple_of(64);
                    spans.push(PlaneSpan {
                        memory: 0,
                        offset: end + 128,
                        stride,
                    });
                    end += 128 + stride * size.rows;
                }
                spans.reverse();
                end += 100;
            }
            Placement::Chosen { lead, gap, apart } => {
                let mut sizes = Vec::new();
                for (plane, size) in planes.enumerate() {
                    let stride = size.row_bytes + gap;
                    spans.push(PlaneSpan {
                        memory: if apart { plane } else { 0 },
                        offset: end + lead,
                        stride,
                    });
                    let last = end + lead + stride * (size.rows - 1) + size.row_bytes;
                    end = if apart { 0 } else { last + gap };
                    sizes.push(last);
                }
                let one = sizes.last().copied().into_iter().collect();
                return (spans, if apart { sizes } else { one });
            }
        }
        (spans, vec![end])
    }
}

/// A frame in memory.
#[derive(Debug, Clone, PartialEq)]
pub struct Picture {
    pub layout: Arc<Layout>,
    pub memories: Vec<Vec<u8>>,
    spans: Vec<PlaneSpan>,
}

impl Picture {
    fn filled(layout: &Arc<Layout>, placement: Placement, byte: u8) -> Picture {
        let (spans, sizes) = placement.place(layout);
        Picture {
            layout: layout.clone(),
            memories: sizes.into_iter().map(|size| vec![byte; size]).collect(),
            spans,
        }
    }

    /// A picture of random bytes.
    pub fn noise(layout: &Arc<Layout>, placement: Placement) -> Picture {
        let mut picture = Picture::filled(layout, placement, 0);
        for (index, byte) in picture.memories.iter_mut().flatten().enumerate() {
            *byte = hash(index as u64) as u8;
        }
        picture
    }

    /// A picture whose samples are `code(component, x, y)`, with components counted in the order
    /// Y U V A or R G B A; bytes that hold no code value are noise.
    pub fn new(
        layout: &Arc<Layout>,
        placement: Placement,
        mut code: impl FnMut(usize, usize, usize) -> u32,
    ) -> Picture {
        let mut picture = Picture::noise(layout, placement);
        for (component, group, channel) in components(layout) {
            let group = &layout.groups[group];
            for y in 0..group.height {
                for x in 0..group.width {
                    let code = code(component, x, y).min(layout.max_code());
                    let at = picture.at(group.channels[channel], x, y);
                    layout
                        .sample
                        .write(&mut picture.memories[at.0][at.1..], code);
                }
            }
        }
        picture
    }

    /// Memory and byte of a sample.
    fn at(&self, channel: gstcudaconv::filter::Channel, x: usize, y: usize) -> (usize, usize) {
        let span = self.spans[channel.plane];
        let at = span.offset + y * span.stride + channel.offset + x * channel.step;
        (span.memory, at)
    }

    /// Code values of a channel, row by row.
    pub fn codes(&self, group: usize, channel: usize) -> Vec<u32> {
        let group = &self.layout.groups[group];
        let channel = group.channels[channel];
        let mut codes = Vec::with_capacity(group.width * group.height);
        for y in 0..group.height {
            let (memory, first) = self.at(channel, 0, y);
            let row = self.memories[memory][first..].chunks(channel.step);
            codes.extend(
                row.take(group.width)
                    .map(|sample| self.layout.sample.read(sample)),
            );
        }
        codes
    }

    /// The bytes of a plane from its first row on, and its stride.
    pub fn planes(&self) -> Vec<(&[u8], usize)> {
        let plane = |span: &PlaneSpan| (&self.memories[span.memory][span.offset..], span.stride);
        self.spans.iter().map(plane).collect()
    }

    /// The bytes of all samples, wherever the planes lie.
    pub fn active_bytes(&self) -> Vec<u8> {
        let mut bytes = Vec::new();
        for ((plane, stride), size) in self.planes().iter().zip(&self.layout.planes) {
            for y in 0..size.rows {
                bytes.extend_from_slice(&plane[y * stride..][..size.row_bytes]);
            }
        }
        bytes
    }

    /// That every byte outside the rows of the planes is as it was.
    fn assert_padding_untouched(&self, what: &str) {
        let mut rest = self.memories.clone();
        for (span, size) in self.spans.iter().zip(&self.layout.planes) {
            for y in 0..size.rows {
                let row = span.offset + y * span.stride;
                rest[span.memory][row..row + size.row_bytes].fill(UNTOUCHED);
            }
        }
        let untouched = rest.iter().flatten().all(|&byte| byte == UNTOUCHED);
        assert!(untouched, "{what}: bytes outside the picture were written");
    }
}

/// Component, group and channel of everything but padding. Components count in the order of the
/// layout, which is Y U V A or R G B A.
pub fn components(layout: &Layout) -> Vec<(usize, usize, usize)> {
    let groups = layout.groups.iter().enumerate();
    groups
        .flat_map(|(g, group)| {
            group
                .channels
                .iter()
                .enumerate()
                .map(move |(c, ch)| (g, c, ch))
        })
        .filter(|(_, _, channel)| channel.role != Role::Padding)
        .enumerate()
        .map(|(component, (group, channel, _))| (component, group, channel))
        .collect()
}

/// Well mixed bits of a number (splitmix64's finaliser).
pub fn hash(number: u64) -> u64 {
    let mut z = number.wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

/// Blocks of flat colour, of slight noise, of full noise and of the two extremes.
pub fn scene(depth: u32) -> impl Fn(usize, usize, usize) -> u32 {
    scene_of(depth, 0)
}

/// As [`scene`], one of many.
pub fn scene_of(depth: u32, seed: u64) -> impl Fn(usize, usize, usize) -> u32 {
    move |component, x, y| {
        let max = (1u64 << depth) - 1;
        let key = |x: usize, y: usize| {
            (seed << 52) + ((component as u64) << 40) + ((y as u64) << 20) + x as u64
        };
        let block = hash(key(x / 7, y / 5) + (1 << 50));
        let pixel = hash(key(x, y));
        let base = (block >> 8) % (max + 1);
        let code = match block % 4 {
            0 => base,
            1 => (base + (pixel % (max / 16))).min(max),
            2 => pixel % (max + 1),
            _ => (pixel % 2) * max,
        };
        code as u32
    }
}

/// Output memory that comes back when the engine has dropped the frame.
struct Returned {
    index: usize,
    bytes: Vec<u8>,
    back: Sender<(usize, Vec<u8>)>,
}

impl WriteBytes for Returned {
    fn bytes(&self) -> &[u8] {
        &self.bytes
    }
    fn bytes_mut(&mut self) -> &mut [u8] {
        &mut self.bytes
    }
}

impl Drop for Returned {
    fn drop(&mut self) {
        let bytes = std::mem::take(&mut self.bytes);
        // Nobody listens if the test has failed already.
        let _ = self.back.send((self.index, bytes));
    }
}

/// The engine that the tests are about: the CPU's, or what `CUDACONV_TEST_BACKEND` says.
pub fn engine() -> &'static dyn Engine {
    static ENGINE: OnceLock<Arc<dyn Engine>> = OnceLock::new();
    let engine = ENGINE.get_or_init(|| match std::env::var("CUDACONV_TEST_BACKEND") {
        Ok(backend) if backend == "cuda" => {
            gst::init().unwrap();
            Arc::new(CudaEngine::open(-1, 2).unwrap())
        }
        _ => Arc::new(CpuEngine::new().unwrap()),
    });
    &**engine
}

pub fn cpu_engine() -> &'static dyn Engine {
    static ENGINE: OnceLock<CpuEngine> = OnceLock::new();
    ENGINE.get_or_init(|| CpuEngine::new().unwrap())
}

pub fn plan(spec: &FilterSpec, layout: &Arc<Layout>) -> Arc<Plan> {
    Arc::new(Plan::new(spec, layout, engine().abilities()).unwrap())
}

/// Filters `input` into a picture of `placement`, and checks that nothing around it was written.
pub fn run(plan: &Arc<Plan>, input: &Picture, placement: Placement, interlaced: bool) -> Picture {
    run_on(engine(), plan, input, placement, interlaced)
}

/// As [`run`], on `engine`.
pub fn run_on(
    engine: &dyn Engine,
    plan: &Arc<Plan>,
    input: &Picture,
    placement: Placement,
    interlaced: bool,
) -> Picture {
    let prepared = engine.prepare(plan, true).unwrap().expect("asked to wait");
    let mut output = Picture::filled(&input.layout, placement, UNTOUCHED);
    let (back, returned) = channel();
    let memories = std::mem::take(&mut output.memories);
    let count = memories.len();
    let memories = memories.into_iter().enumerate().map(|(index, bytes)| {
        let back = back.clone();
        Box::new(Returned { index, bytes, back }) as _
    });
    let read = input
        .memories
        .iter()
        .map(|bytes| Box::new(bytes.clone()) as _);
    let frame = Frame {
        input: InputFrame::new(&input.layout, read.collect(), input.spans.clone()).unwrap(),
        output: OutputFrame::new(&input.layout, memories.collect(), output.spans.clone()).unwrap(),
        interlaced,
    };
    let ticket = prepared.submit(frame);
    let waiting = std::thread::spawn(move || {
        let (frame, result) = ticket.wait();
        drop(frame);
        result
    });
    output.memories = collect(&returned, count);
    waiting.join().unwrap().unwrap();
    output.assert_padding_untouched(input.layout.format);
    output
}

fn collect(returned: &Receiver<(usize, Vec<u8>)>, count: usize) -> Vec<Vec<u8>> {
    let mut memories = vec![Vec::new(); count];
    for _ in 0..count {
        let (index, bytes) = returned.recv_timeout(WATCHDOG).expect("the engine hangs");
        memories[index] = bytes;
    }
    memories
}

/// How far results may be from the definition, added up over many frames so that the share of
/// equal samples means something for small ones too.
#[derive(Default)]
pub struct Agreement {
    /// Samples, and those that differ, at 8 to 12 bits and at 16.
    samples: [u64; 2],
    different: [u64; 2],
}

impl std::fmt::Display for Agreement {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(
            f,
            "{} of {} samples of 8 to 12 bits differ, and {} of {} of 16 bits",
            self.different[0], self.samples[0], self.different[1], self.samples[1]
        )
    }
}

impl Agreement {
    /// Compares a channel. With `exact` no code value may differ.
    pub fn check(&mut self, found: &[u32], expected: &[u32], depth: u32, exact: bool, what: &str) {
        assert_eq!(found.len(), expected.len());
        let class = usize::from(depth > 12);
        self.samples[class] += found.len() as u64;
        if found == expected {
            return;
        }
        for (index, (&found, &expected)) in found.iter().zip(expected).enumerate() {
            let distance = found.abs_diff(expected);
            let most = if exact { 0 } else { 1 };
            assert!(
                distance <= most,
                "{what}: sample {index} is {found}, expected {expected}"
            );
            self.different[class] += u64::from(distance);
        }
    }

    /// Equal on 99.9 % of the samples at 8 to 12 bits, 99 % at 16.
    pub fn finish(&self) {
        for (class, per_thousand) in [(0, 1), (1, 10)] {
            let (samples, different) = (self.samples[class], self.different[class]);
            assert!(
                different * 1000 <= samples * per_thousand,
                "{different} of {samples} samples differ"
            );
        }
        assert!(self.samples.iter().sum::<u64>() > 0);
    }
}

/// Whether every result of `plan` is a quotient of whole numbers, which float32 rounds to the same
/// code value as float64: whole sums, and a divisor of at most 12 bits.
fn is_exact(plan: &Plan) -> bool {
    let exact = |operation: &Operation| match operation {
        Operation::None => true,
        Operation::Correlate(kernel) => kernel.divisor.abs() <= 4096.0,
        Operation::Magnitude { .. } | Operation::Bilateral(_) => false,
    };
    let max = plan.layout.max_code();
    plan.layout.depth <= 8
        && plan.jobs.iter().all(|job| {
            exact(&job.operation)
                && !job.premultiply
                && (job.operation == Operation::None || job.sums_are_whole(max))
        })
}

/// Filters `input` by the engine's own choice and compares with `expected`.
pub fn check_auto(
    spec: &FilterSpec,
    input: &Picture,
    interlaced: bool,
    expected: &[Component],
    agreement: &mut Agreement,
) -> Picture {
    let what = describe(spec, &input.layout);
    let plan = plan(spec, &input.layout);
    let result = run(&plan, input, Placement::Odd, interlaced);
    check_against(&result, expected, is_exact(&plan), agreement, &what);
    check_copies(spec, input, &result, &what);
    result
}

/// As [`check_auto`], and by the scalar path, which must give the same bytes, or of the bilateral
/// results as near.
pub fn check(
    spec: &FilterSpec,
    input: &Picture,
    interlaced: bool,
    expected: &[Component],
    agreement: &mut Agreement,
) {
    let what = describe(spec, &input.layout);
    let auto = check_auto(spec, input, interlaced, expected, agreement);
    let naive = FilterSpec {
        method: Method::Naive,
        ..spec.clone()
    };
    let naive = plan(&naive, &input.layout);
    let scalar = run(&naive, input, Placement::Aligned, interlaced);
    if spec.kernel == Kernel::Bilateral {
        check_against(&scalar, expected, is_exact(&naive), agreement, &what);
    } else {
        assert!(
            auto.active_bytes() == scalar.active_bytes(),
            "{what}: auto is not naive"
        );
    }
}

fn describe(spec: &FilterSpec, layout: &Layout) -> String {
    format!(
        "{} {}x{} {spec:?}",
        layout.format, layout.width, layout.height
    )
}

fn check_against(
    result: &Picture,
    expected: &[Component],
    exact: bool,
    agreement: &mut Agreement,
    what: &str,
) {
    for component in expected {
        let found = result.codes(component.group, component.channel);
        let what = format!(
            "{what} group {} channel {}",
            component.group, component.channel
        );
        agreement.check(&found, &component.codes, result.layout.depth, exact, &what);
    }
}

/// Padding, and everything under a filter that changes nothing, is the same bytes as before.
fn check_copies(spec: &FilterSpec, input: &Picture, result: &Picture, what: &str) {
    if spec.kernel == Kernel::Identity && spec.bias == 0.0 && spec.divisor == 0.0 {
        assert!(
            input.active_bytes() == result.active_bytes(),
            "{what}: not a copy"
        );
    }
    for (g, group) in input.layout.groups.iter().enumerate() {
        for (c, channel) in group.channels.iter().enumerate() {
            if channel.role == Role::Padding {
                assert!(
                    input.codes(g, c) == result.codes(g, c),
                    "{what}: padding changed"
                );
            }
        }
    }
}

/// As [`check`], with what the definition gives for `input`.
pub fn check_with_reference(
    spec: &FilterSpec,
    input: &Picture,
    interlaced: bool,
    agreement: &mut Agreement,
) {
    let expected = reference::filter(spec, &input.layout, &input.planes(), interlaced).unwrap();
    check(spec, input, interlaced, &expected, agreement);
}
