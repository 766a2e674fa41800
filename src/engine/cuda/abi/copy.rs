//! The kernel that copies from device memory to device memory, `kernels/copy_on_device.cu`. It is no filter's: what
//! others take is compared with what it takes.

use super::{Extent, Geometry};

/// The name of its function, and of its file, `kernels/ptx/NAME.ptx`.
pub const NAME: &str = "copy_on_device";
/// Bytes that are read and written at once; addresses are multiples of it.
pub const PIECE: u64 = 16;
/// Pieces of a thread.
pub const PIECES: u64 = 2;
const THREADS: u32 = 256;

/// Its parameter.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CopyLaunch {
    pub input: u64,
    pub output: u64,
    pub bytes: u64,
}

impl CopyLaunch {
    /// How it is launched.
    pub fn place(&self) -> Geometry {
        let of_block = PIECE * PIECES * u64::from(THREADS);
        Geometry {
            grid: Extent {
                x: self.bytes.div_ceil(of_block).max(1) as u32,
                y: 1,
            },
            block: Extent { x: THREADS, y: 1 },
            shared_bytes: 0,
        }
    }
}
