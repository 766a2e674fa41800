//! Working memory of a thread, kept from band to band.

use std::cell::RefCell;

use super::byte_rows::{BytePair, SumTaps};
use super::chain::Tap;
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

/// Plain numbers, of which every pattern of bits is one.
pub trait Number: Copy {}
impl Number for u8 {}
impl Number for u16 {}
impl Number for i16 {}
impl Number for i32 {}
impl Number for f32 {}

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
    pub lifted: Buffer,
    pub rows: Buffer,
    pub sums: Buffer,
    pub codes: Buffer,
    pub taps: Vec<Tap>,
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
