//! Working memory of a thread, kept from band to band.

use std::cell::RefCell;

use super::rows::chain::Tap;
use super::rows::sums::{BytePair, SumTaps};
#[cfg(target_arch = "x86_64")]
use super::simd::TapGroup;

/// One cache line and one vector of AVX-512.
const LINE: usize = 64;

#[derive(Clone, Copy)]
#[repr(C, align(64))]
struct Line([u8; LINE]);

/// Memory that grows and starts at a cache line, so that vectors of rows which start at one too
/// never straddle two.
#[derive(Default)]
pub struct Buffer {
    lines: Vec<Line>,
}

/// Plain numbers.
///
/// # Safety
/// Every pattern of bits is a value, and the alignment is at most a cache line.
pub unsafe trait Number: Copy {}
// SAFETY: so it is.
unsafe impl Number for u8 {}
// SAFETY: so it is.
unsafe impl Number for u16 {}
// SAFETY: so it is.
unsafe impl Number for i32 {}
// SAFETY: so it is.
unsafe impl Number for f32 {}
// SAFETY: so it is.
unsafe impl Number for f64 {}

impl Buffer {
    /// `len` numbers: 0, or whatever an earlier user left.
    pub fn get<T: Number>(&mut self, len: usize) -> &mut [T] {
        let lines = (len * size_of::<T>()).div_ceil(LINE);
        if self.lines.len() < lines {
            self.lines.resize(lines, Line([0; LINE]));
        }
        // SAFETY: the lines hold at least `len` values of T, are aligned for it, initialised and
        // borrowed for as long as the slice; any bytes are values of a `Number`.
        unsafe { std::slice::from_raw_parts_mut(self.lines.as_mut_ptr().cast(), len) }
    }
}

/// The buffers of one thread.
#[derive(Default)]
pub struct Scratch {
    /// Input rows with what lies beyond their edges.
    pub input: Buffer,
    /// Sums of the first pass.
    pub sums: Buffer,
    /// Sums of the last pass.
    pub results: Buffer,
    /// A row of samples side by side.
    pub codes: Buffer,
    /// Complex numbers: a rectangle, its columns as lines, and what its transforms need beside.
    pub transforms: [Buffer; 3],
    pub taps: Vec<Tap>,
    pub rows: Vec<usize>,
    pub columns: Vec<usize>,
    pub pairs: Vec<BytePair>,
    pub sum_taps: [SumTaps; 2],
    #[cfg(target_arch = "x86_64")]
    pub groups: Vec<TapGroup>,
}

/// Calls `work` with the buffers of this thread. Not to be nested.
pub fn with<R>(work: impl FnOnce(&mut Scratch) -> R) -> R {
    thread_local! {
        static SCRATCH: RefCell<Scratch> = RefCell::default();
    }
    SCRATCH.with_borrow_mut(work)
}

/// `len` rounded up to whole cache lines of T.
pub fn whole_lines<T>(len: usize) -> usize {
    len.next_multiple_of(LINE / size_of::<T>())
}
