//! Buffers: the pool offered upstream, the pool taken for the output, and mapping a buffer as an
//! engine's frame.

use gst::prelude::*;

use super::streaming::Format;
use crate::engine::frame::{ReadMemory, WriteBytes, WriteMemory};
use crate::engine::{Engine, Frame, FrameError, InputFrame, OutputFrame, PlaneSpan};
use crate::filter::Layout;

const ALIGNMENT_OPTION: &str = "GstBufferPoolOptionVideoAlignment";
const VIDEO_META_OPTION: &str = "GstBufferPoolOptionVideoMeta";

/// Where output buffers come from.
pub struct OutputPool {
    pub pool: gst::BufferPool,
    /// The pool has an upper limit, so that acquiring may wait for downstream.
    pub limited: bool,
    /// Downstream understands VideoMeta; otherwise buffers need the default layout.
    pub video_meta: bool,
}

impl OutputPool {
    /// Whether one of its buffers can be written, if it has one now: some that devices fill cannot.
    fn try_buffer(&self, format: &Format) -> Result<(), String> {
        let at_once =
            gst::BufferPoolAcquireParams::with_flags(gst::BufferPoolAcquireFlags::DONTWAIT);
        match self.pool.acquire_buffer(Some(&at_once)) {
            Ok(buffer) => map_output(buffer, &format.info, &format.layout)
                .map(drop)
                .map_err(|error| error.to_string()),
            Err(gst::FlowError::Eos | gst::FlowError::Flushing) => Ok(()),
            Err(error) => Err(error.to_string()),
        }
    }
}

impl Drop for OutputPool {
    fn drop(&mut self) {
        // Fails only for a pool that is not active, which is what is wanted.
        let _ = self.pool.set_active(false);
    }
}

/// Answers upstream's ALLOCATION query from the caps in it: any number of buffers, at least what
/// the slots hold; any layout that VideoMeta can describe.
///
/// # Errors
/// When the query has no caps, or none that describe video.
pub fn propose(
    query: &mut gst::query::Allocation,
    engine: Option<&dyn Engine>,
    depth: u32,
) -> Result<(), gst::LoggableError> {
    let (caps, need_pool) = query.get_owned();
    let caps = caps.ok_or_else(|| gst::loggable_error!(super::CAT, "no caps in the query"))?;
    let info = gst_video::VideoInfo::from_caps(&caps)?;
    let size = u32::try_from(info.size())
        .map_err(|_| gst::loggable_error!(super::CAT, "{} bytes a frame", info.size()))?;
    let allocator = engine.and_then(|engine| engine.allocator());
    if let Some(allocator) = &allocator {
        // Sources and decoders configure the pool anew, with the allocator that they find here.
        query.add_allocation_param(Some(allocator), gst::AllocationParams::default());
    }
    let pool = match &allocator {
        Some(allocator) if need_pool => {
            let pool = gst_video::VideoBufferPool::new();
            let mut config = pool.config();
            config.set_params(Some(&caps), size, depth + 1, 0);
            config.set_allocator(Some(allocator), None);
            config.add_option(VIDEO_META_OPTION);
            config.add_option(ALIGNMENT_OPTION);
            pool.set_config(config)?;
            Some(pool)
        }
        _ => None,
    };
    query.add_allocation_pool(pool.as_ref(), size, depth + 1, 0);
    query.add_allocation_meta::<gst_video::VideoMeta>(None);
    Ok(())
}

/// Takes the pool for the output: downstream's if it offers one that accepts the caps and whose
/// buffers the host can write, so that downstream has to copy nothing, else one of our own. Before
/// something is asked of a pool, `make_known` tells who could end that; it is false where there is nothing
/// to ask for any more.
///
/// # Errors
/// When no pool can be set up, which means that memory is short.
pub fn decide(
    src_pad: &gst::Pad,
    format: &Format,
    engine: &dyn Engine,
    depth: u32,
    make_known: impl Fn(&gst::BufferPool) -> bool,
) -> Result<OutputPool, gst::glib::BoolError> {
    let Format { caps, info, .. } = format;
    let mut query = gst::query::Allocation::new(Some(caps), true);
    let answered = src_pad.peer_query(&mut query);
    let video_meta = answered
        && query
            .find_allocation_meta::<gst_video::VideoMeta>()
            .is_some();
    let params = query.allocation_params().next();
    if answered {
        for (pool, size, min, max) in query.allocation_pools() {
            let Some(pool) = pool else { continue };
            let size = size.max(u32::try_from(info.size()).unwrap_or(u32::MAX));
            let max = match configure(&pool, caps, size, (min, max), video_meta, params.as_ref()) {
                Ok(max) => max,
                Err(error) => {
                    gst::info!(super::CAT, obj = src_pad, "downstream's pool: {error}");
                    continue;
                }
            };
            let pool = OutputPool {
                pool,
                limited: max != 0,
                video_meta,
            };
            if !make_known(&pool.pool) {
                return Ok(pool);
            }
            match pool.try_buffer(format) {
                Ok(()) => return Ok(pool),
                Err(error) => {
                    gst::info!(super::CAT, obj = src_pad, "downstream's buffers: {error}");
                }
            }
        }
    }
    let pool = gst_video::VideoBufferPool::new();
    let ours = engine
        .allocator()
        .map(|allocator| (Some(allocator), Default::default()));
    let size = u32::try_from(info.size())
        .map_err(|_| gst::glib::bool_error!("{} bytes a frame are too many", info.size()))?;
    let params = ours.or(params);
    configure(
        pool.upcast_ref(),
        caps,
        size,
        (depth + 1, 0),
        video_meta,
        params.as_ref(),
    )?;
    Ok(OutputPool {
        pool: pool.upcast(),
        limited: false,
        video_meta,
    })
}

/// Configures and activates `pool`; returns its maximum number of buffers, 0 = any.
fn configure(
    pool: &gst::BufferPool,
    caps: &gst::Caps,
    size: u32,
    (min, max): (u32, u32),
    video_meta: bool,
    params: Option<&(Option<gst::Allocator>, gst::AllocationParams)>,
) -> Result<u32, gst::glib::BoolError> {
    let mut config = pool.config();
    config.set_params(Some(caps), size, min, max);
    if let Some((allocator, params)) = params {
        config.set_allocator(allocator.as_ref(), Some(params));
    }
    if video_meta && pool.has_option(VIDEO_META_OPTION) {
        config.add_option(VIDEO_META_OPTION);
    }
    if pool.set_config(config).is_err() {
        // The pool may have changed what it could not take; the caps must still be ours.
        let changed = pool.config();
        changed.validate_params(Some(caps), size, min, max)?;
        pool.set_config(changed)?;
    }
    let max = pool.config().params().map_or(max, |(_, _, _, max)| max);
    pool.set_active(true)?;
    Ok(max)
}

/// Why a buffer cannot be filtered.
#[derive(Debug, thiserror::Error)]
pub enum MapError {
    #[error("the buffer is empty")]
    Empty,
    #[error("the buffer describes {found}, but the caps say {expected}")]
    Meta { found: String, expected: String },
    #[error("plane {plane} has a stride of {stride} bytes; accepted are strides of 0 and more")]
    NegativeStride { plane: usize, stride: i32 },
    #[error(transparent)]
    Frame(#[from] FrameError),
    #[error("the buffer cannot be mapped")]
    Map,
}

/// Where the planes lie in a buffer mapped as one: by its VideoMeta, else by the caps.
fn planes(
    buffer: &gst::BufferRef,
    info: &gst_video::VideoInfo,
) -> Result<Vec<PlaneSpan>, MapError> {
    let (offsets, strides) = match buffer.meta::<gst_video::VideoMeta>() {
        Some(meta) => {
            if meta.format() != info.format()
                || meta.width() < info.width()
                || meta.height() < info.height()
            {
                let text = |format: gst_video::VideoFormat, width, height| {
                    format!("{} {width}x{height}", format.to_str())
                };
                return Err(MapError::Meta {
                    found: text(meta.format(), meta.width(), meta.height()),
                    expected: text(info.format(), info.width(), info.height()),
                });
            }
            (meta.offset().to_vec(), meta.stride().to_vec())
        }
        None => (info.offset().to_vec(), info.stride().to_vec()),
    };
    let spans = offsets.into_iter().zip(strides).enumerate();
    spans
        .map(|(plane, (offset, stride))| {
            let stride =
                usize::try_from(stride).map_err(|_| MapError::NegativeStride { plane, stride })?;
            Ok(PlaneSpan {
                memory: 0,
                offset,
                stride,
            })
        })
        .collect()
}

/// True if consumers that know nothing of VideoMeta read `buffer` right.
pub fn has_default_layout(buffer: &gst::BufferRef, info: &gst_video::VideoInfo) -> bool {
    buffer
        .meta::<gst_video::VideoMeta>()
        .is_none_or(|meta| meta.offset() == info.offset() && meta.stride() == info.stride())
        && buffer.size() == info.size()
}

/// Maps `buffer` for reading.
///
/// # Errors
/// When it is empty, shorter than its layout needs, or describes another picture than the caps.
pub fn map_input(
    buffer: gst::Buffer,
    info: &gst_video::VideoInfo,
    layout: &Layout,
) -> Result<InputFrame, MapError> {
    if buffer.size() == 0 {
        return Err(MapError::Empty);
    }
    let planes = planes(&buffer, info)?;
    let mapped = buffer
        .into_mapped_buffer_readable()
        .map_err(|_| MapError::Map)?;
    let memory: ReadMemory = Box::new(mapped);
    Ok(InputFrame::new(layout, vec![memory], planes)?)
}

/// A buffer mapped for writing.
struct OutputBuffer(gst::MappedBuffer<gst::buffer::Writable>);

impl WriteBytes for OutputBuffer {
    fn bytes(&self) -> &[u8] {
        self.0.as_slice()
    }
    fn bytes_mut(&mut self) -> &mut [u8] {
        self.0.as_mut_slice()
    }
}

/// Maps `buffer` for writing.
///
/// # Errors
/// As [`map_input`].
pub fn map_output(
    buffer: gst::Buffer,
    info: &gst_video::VideoInfo,
    layout: &Layout,
) -> Result<OutputFrame, MapError> {
    let planes = planes(&buffer, info)?;
    let mapped = buffer
        .into_mapped_buffer_writable()
        .map_err(|_| MapError::Map)?;
    let memory: WriteMemory = Box::new(OutputBuffer(mapped));
    Ok(OutputFrame::new(layout, vec![memory], planes)?)
}

/// A frame, of any content, in memory of the engine's allocator, as a stream's frames are where
/// both sides take the engine's pools. `None` where the engine has no allocator, or memory is short.
pub fn trial_frame(
    engine: &dyn Engine,
    info: &gst_video::VideoInfo,
    layout: &Layout,
    interlaced: bool,
) -> Option<Frame> {
    let allocator = engine.allocator()?;
    let buffer = || {
        let memory = allocator.alloc(info.size(), None).ok()?;
        let mut buffer = gst::Buffer::new();
        buffer.get_mut()?.append_memory(memory);
        Some(buffer)
    };
    Some(Frame {
        input: map_input(buffer()?, info, layout).ok()?,
        output: map_output(buffer()?, info, layout).ok()?,
        interlaced,
    })
}

/// Copies the picture of `from` to `to`, whatever their layouts and memories. (GStreamer's own copy
/// maps one memory a plane, and would read beyond it where a plane goes on in the next.)
///
/// # Errors
/// As [`map_input`], for either.
pub fn copy_picture(
    from: gst::Buffer,
    to: gst::Buffer,
    info: &gst_video::VideoInfo,
    layout: &Layout,
) -> Result<gst::Buffer, MapError> {
    let from = map_input(from, info, layout)?;
    let mut to = map_output(to, info, layout)?;
    for (plane, size) in layout.planes.iter().enumerate() {
        let (source, source_stride) = from.plane(plane);
        let (target, target_stride) = to.plane_mut(plane);
        for row in 0..size.rows {
            target[row * target_stride..][..size.row_bytes]
                .copy_from_slice(&source[row * source_stride..][..size.row_bytes]);
        }
    }
    Ok(into_buffer(to))
}

/// Unmaps the buffer that [`map_output`] mapped.
pub fn into_buffer(frame: OutputFrame) -> gst::Buffer {
    let memory: Box<dyn std::any::Any> = frame
        .into_memories()
        .pop()
        .expect("map_output gave one memory");
    let output: Box<OutputBuffer> = memory.downcast().expect("map_output made it of this type");
    output.0.into_buffer()
}
