//! Frames in host memory as engines take them: mapped memories and where the planes lie in them,
//! checked once so that nothing behind reads or writes beyond.

use std::any::Any;

use crate::filter::Layout;

/// Where a plane lies.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PlaneSpan {
    /// Index into the frame's memories.
    pub memory: usize,
    /// Bytes from the start of that memory to the first row.
    pub offset: usize,
    /// Bytes from one row to the next.
    pub stride: usize,
}

/// A layout that does not fit the memory that is there.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum FrameError {
    #[error("{format} {width}x{height} has {needed} planes, but the buffer describes {found}")]
    PlaneCount {
        format: &'static str,
        width: usize,
        height: usize,
        needed: usize,
        found: usize,
    },
    #[error("plane {plane}: a stride of {stride} bytes is shorter than a row of {row_bytes} bytes")]
    Stride {
        plane: usize,
        stride: usize,
        row_bytes: usize,
    },
    #[error(
        "plane {plane} ends at byte {needed} of a memory of {available} bytes (offset {offset}, stride {stride}, {rows} rows)"
    )]
    Short {
        plane: usize,
        offset: usize,
        stride: usize,
        rows: usize,
        needed: usize,
        available: usize,
    },
}

/// A mapped memory that can be read, from whatever allocator; unmapped when dropped.
pub type ReadMemory = Box<dyn AsRef<[u8]> + Send + Sync>;
/// A mapped memory that can be written.
pub type WriteMemory = Box<dyn WriteBytes>;

/// Mapped memory that can be written and, once the frame is done, given back for what it was.
pub trait WriteBytes: Any + Send + Sync {
    fn bytes(&self) -> &[u8];
    fn bytes_mut(&mut self) -> &mut [u8];
}

impl WriteBytes for Vec<u8> {
    fn bytes(&self) -> &[u8] {
        self
    }
    fn bytes_mut(&mut self) -> &mut [u8] {
        self
    }
}

fn check(layout: &Layout, planes: &[PlaneSpan], sizes: &[usize]) -> Result<(), FrameError> {
    if planes.len() != layout.planes.len() {
        return Err(FrameError::PlaneCount {
            format: layout.format,
            width: layout.width,
            height: layout.height,
            needed: layout.planes.len(),
            found: planes.len(),
        });
    }
    for (plane, (span, size)) in planes.iter().zip(&layout.planes).enumerate() {
        if span.stride < size.row_bytes && size.rows > 1 {
            return Err(FrameError::Stride {
                plane,
                stride: span.stride,
                row_bytes: size.row_bytes,
            });
        }
        let available = sizes.get(span.memory).copied().unwrap_or(0);
        let needed = span
            .stride
            .checked_mul(size.rows - 1)
            .and_then(|n| n.checked_add(span.offset))
            .and_then(|n| n.checked_add(size.row_bytes))
            .unwrap_or(usize::MAX);
        if needed > available {
            return Err(FrameError::Short {
                plane,
                offset: span.offset,
                stride: span.stride,
                rows: size.rows,
                needed,
                available,
            });
        }
    }
    Ok(())
}

/// A frame to read.
pub struct InputFrame {
    memories: Vec<ReadMemory>,
    planes: Vec<PlaneSpan>,
}

impl InputFrame {
    /// Takes mapped `memories` in which the planes of `layout` lie at `planes`.
    ///
    /// # Errors
    /// When a plane is missing or reaches beyond its memory.
    pub fn new(
        layout: &Layout,
        memories: Vec<ReadMemory>,
        planes: Vec<PlaneSpan>,
    ) -> Result<Self, FrameError> {
        let sizes: Vec<usize> = memories.iter().map(|m| (**m).as_ref().len()).collect();
        check(layout, &planes, &sizes)?;
        Ok(InputFrame { memories, planes })
    }

    /// Bytes of plane `index` from its first row to the end of its memory, and its stride.
    pub fn plane(&self, index: usize) -> (&[u8], usize) {
        let span = self.planes[index];
        let memory = (*self.memories[span.memory]).as_ref();
        (&memory[span.offset..], span.stride)
    }
}

/// A frame to write. Planes may share a memory.
pub struct OutputFrame {
    memories: Vec<WriteMemory>,
    planes: Vec<PlaneSpan>,
}

impl OutputFrame {
    /// As [`InputFrame::new`].
    ///
    /// # Errors
    /// When a plane is missing or reaches beyond its memory.
    pub fn new(
        layout: &Layout,
        memories: Vec<WriteMemory>,
        planes: Vec<PlaneSpan>,
    ) -> Result<Self, FrameError> {
        let sizes: Vec<usize> = memories.iter().map(|m| m.bytes().len()).collect();
        check(layout, &planes, &sizes)?;
        Ok(OutputFrame { memories, planes })
    }

    /// Bytes of plane `index` from its first row to the end of its memory, and its stride.
    pub fn plane_mut(&mut self, index: usize) -> (&mut [u8], usize) {
        let span = self.planes[index];
        let memory = self.memories[span.memory].bytes_mut();
        (&mut memory[span.offset..], span.stride)
    }

    /// The memories, as they were given.
    pub fn into_memories(self) -> Vec<WriteMemory> {
        self.memories
    }

    /// As [`OutputFrame::plane_mut`], to read.
    pub fn plane(&self, index: usize) -> (&[u8], usize) {
        let span = self.planes[index];
        (
            &self.memories[span.memory].bytes()[span.offset..],
            span.stride,
        )
    }
}

/// Where a plane of an [`OutputFrame`] begins: for engines whose threads write different rows at
/// the same time, which borrowed slices of whole planes cannot express.
#[derive(Debug, Clone, Copy)]
pub struct RawPlane {
    /// The first byte of the first row.
    pub start: *mut u8,
    /// Bytes from there to the end of the plane's memory.
    pub len: usize,
    /// Bytes from one row to the next.
    pub stride: usize,
}

impl OutputFrame {
    /// Every plane, to write through pointers. They are valid until the frame is used again in
    /// any other way, and planes may overlap where the buffer was described so.
    pub fn raw_planes(&mut self) -> Vec<RawPlane> {
        let memories: Vec<(*mut u8, usize)> = self
            .memories
            .iter_mut()
            .map(|m| {
                let bytes = m.bytes_mut();
                (bytes.as_mut_ptr(), bytes.len())
            })
            .collect();
        self.planes
            .iter()
            .map(|span| {
                let (start, len) = memories[span.memory];
                assert!(span.offset <= len, "checked when the frame was made");
                RawPlane {
                    // `wrapping_add` stays within the memory, by the line above.
                    start: start.wrapping_add(span.offset),
                    len: len - span.offset,
                    stride: span.stride,
                }
            })
            .collect()
    }
}

/// One frame's input and output, owned by whoever works on it.
pub struct Frame {
    pub input: InputFrame,
    pub output: OutputFrame,
    /// The rows of two fields alternate: each field is filtered by itself.
    pub interlaced: bool,
}

impl Frame {
    /// A frame of zeros in memory of its own, for a trial.
    pub fn blank(layout: &Layout, interlaced: bool) -> Frame {
        let mut planes = Vec::new();
        let mut size = 0;
        for plane in &layout.planes {
            planes.push(PlaneSpan {
                memory: 0,
                offset: size,
                stride: plane.row_bytes,
            });
            size += plane.row_bytes * plane.rows;
        }
        let input = InputFrame::new(layout, vec![Box::new(vec![0; size])], planes.clone());
        let output = OutputFrame::new(layout, vec![Box::new(vec![0; size])], planes);
        Frame {
            input: input.expect("the spans were laid out above"),
            output: output.expect("the spans were laid out above"),
            interlaced,
        }
    }
}
