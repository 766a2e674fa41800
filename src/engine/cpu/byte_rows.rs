//! Rows of whole-number sums of bytes, in 16 and 32 bits.
//!
//! The first pass multiplies pairs of bytes and keeps its sums in 16 bits, the second multiplies
//! those with up to a few rows and writes bytes. gauss3 takes 27 vector operations for 64 pixels
//! of AVX-512, gauss7 about 80, against three reads and two writes of the first-level cache.
//!
//! A row of 16-bit sums is stored as the vectors come: of every `BYTES` samples first the low and
//! then the high half of each 16-byte lane. Only the second pass reads it, sample by sample, and
//! packing puts the bytes back in order.

use super::isa::for_each_isa;
use super::simd::{MAX_BYTES, Simd};

/// Two taps of the first pass, by where the bytes that they take for sample 0 are.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct BytePair {
    pub first: usize,
    pub second: usize,
    /// Such that no sum of the two products leaves 16 bits.
    pub weights: (i8, i8),
}

/// A tap of the second pass: `weight` times the sums of the row which starts at `row`, or of
/// that and the row which starts at `mirror`.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct SumTap {
    pub weight: i16,
    pub row: usize,
    pub mirror: usize,
}

/// The taps of the second pass.
#[derive(Debug, Clone, Default)]
pub struct SumTaps {
    /// Of two rows each.
    pub folded: Vec<SumTap>,
    /// Of one row each.
    pub lone: Vec<SumTap>,
}

/// How 16-bit sums become bytes, all constants being added to the sum beforehand.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Narrow {
    /// Signed sums are the bytes but for saturation.
    Saturate,
    /// Unsigned sums divided by 2^bits, half to even; half of 2^bits was added.
    Shift { bits: u32 },
    /// Unsigned sums times `factor`, divided by 2^(16 + bits), rounded down.
    Reciprocal { factor: u16, bits: u32 },
}

/// How 32-bit sums become bytes: `round(sum · factor + offset)` or `round(sum / divisor + offset)`.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Scale {
    Multiply(f32),
    Divide(f32),
}

/// Bytes of a row of `samples` sums.
pub fn sums_row_bytes(samples: usize) -> usize {
    2 * samples.next_multiple_of(MAX_BYTES)
}

for_each_isa! {
    /// First pass: `samples` sums of `pairs` over `bytes`, each starting from `start`.
    pub fn sum_bytes_row(
        pairs: &[BytePair], start: i16, bytes: &[u8], sums: &mut [u8], samples: usize,
    ) = sum_bytes_row_body;
    /// Second pass in 16 bits, each sum starting from `start`: `out.len()` bytes.
    pub fn narrow_row(taps: &SumTaps, start: i16, sums: &[u8], narrow: Narrow, out: &mut [u8])
        = narrow_row_body;
    /// Second pass in 32 bits, each sum starting from `start`: `out.len()` bytes.
    pub fn wide_row(
        taps: &SumTaps, start: i32, sums: &[u8], scale: Scale, offset: f32, out: &mut [u8],
    ) = wide_row_body;
    /// Second pass of a gradient magnitude in 16 bits: `round(sqrt(x² + y²) / divisor + offset)`.
    pub fn magnitude_bytes_row(
        x: &SumTaps, y: &SumTaps, start: (i16, i16), sums: &[u8], scale: Scale, offset: f32,
        out: &mut [u8],
    ) = magnitude_bytes_row_body;
    /// Whether `round(sum · (1 / divisor) + offset)`, with one rounding before the last, is
    /// `round(sum / divisor + offset)` for all sums from `least` to `most`, clamped to bytes.
    pub fn multiplication_is_exact(least: i32, most: i32, divisor: f32, offset: f32) -> bool
        = multiplication_is_exact_body;
}

#[inline(always)]
fn multiplication_is_exact_body<S: Simd>(
    _: S,
    least: i32,
    most: i32,
    divisor: f32,
    offset: f32,
) -> bool {
    let factor = 1.0 / divisor;
    let mut wrong = 0;
    for sum in least..=most {
        let sum = sum as f32;
        let multiplied = sum.mul_add(factor, offset).round_ties_even();
        let divided = (sum / divisor + offset).round_ties_even();
        wrong += i32::from(multiplied.clamp(0.0, 255.0) != divided.clamp(0.0, 255.0));
    }
    wrong == 0
}

#[inline(always)]
fn sum_bytes_row_body<S: Simd>(
    simd: S,
    pairs: &[BytePair],
    start: i16,
    bytes: &[u8],
    sums: &mut [u8],
    samples: usize,
) {
    let reach = samples.next_multiple_of(S::BYTES);
    let starts = bytes.len().checked_sub(reach).expect("a row of bytes");
    assert!(
        pairs
            .iter()
            .all(|p| p.first <= starts && p.second <= starts)
    );
    assert!(2 * reach <= sums.len());
    // SAFETY: all reads and writes are below `reach` and twice that, as just checked.
    unsafe {
        // The compiler unrolls what it knows the length of.
        match *pairs {
            [a] => sum_bytes(simd, &[a], start, bytes, sums, reach),
            [a, b] => sum_bytes(simd, &[a, b], start, bytes, sums, reach),
            [a, b, c] => sum_bytes(simd, &[a, b, c], start, bytes, sums, reach),
            [a, b, c, d] => sum_bytes(simd, &[a, b, c, d], start, bytes, sums, reach),
            [a, b, c, d, e] => sum_bytes(simd, &[a, b, c, d, e], start, bytes, sums, reach),
            _ => sum_bytes(simd, pairs, start, bytes, sums, reach),
        }
    }
}

/// # Safety
/// From the places of every pair `reach` bytes can be read, and twice that written to `sums`;
/// `reach` is a multiple of `BYTES`.
#[inline(always)]
unsafe fn sum_bytes<S: Simd>(
    simd: S,
    pairs: &[BytePair],
    start: i16,
    bytes: &[u8],
    sums: &mut [u8],
    reach: usize,
) {
    let start = simd.splat_i16(start);
    for x in (0..reach).step_by(S::BYTES) {
        let (mut low, mut high) = (start, start);
        for pair in pairs {
            let weights = simd.splat_bytes(pair.weights.0, pair.weights.1);
            // SAFETY: the caller's promise, since x + BYTES is at most `reach`.
            let (first, second) = unsafe {
                (
                    simd.load_bytes(bytes.as_ptr().add(pair.first + x)),
                    simd.load_bytes(bytes.as_ptr().add(pair.second + x)),
                )
            };
            let (first, second) = simd.zip8(first, second);
            low = simd.add16(low, simd.mul_pairs8(first, weights));
            high = simd.add16(high, simd.mul_pairs8(second, weights));
        }
        // SAFETY: the caller's promise.
        unsafe {
            let to = sums.as_mut_ptr().add(2 * x);
            simd.store_bytes(to, low);
            simd.store_bytes(to.add(S::BYTES), high);
        }
    }
}

/// Checks that `taps` lie within `sums` for `samples` samples.
#[inline(always)]
fn check_taps<S: Simd>(taps: &SumTaps, sums: &[u8], samples: usize) {
    let bytes = 2 * samples.next_multiple_of(S::BYTES);
    let starts = sums.len().checked_sub(bytes).expect("a row of sums");
    let inside = |tap: &SumTap| tap.row <= starts && tap.mirror <= starts;
    assert!(taps.folded.iter().all(inside) && taps.lone.iter().all(inside));
}

/// The taps of a second pass, in slices whose lengths the compiler may know.
#[derive(Clone, Copy)]
struct Taps<'a> {
    folded: &'a [SumTap],
    lone: &'a [SumTap],
    sums: &'a [u8],
}

impl Taps<'_> {
    /// The vector at `at` of the row of tap `index`, the folded before the lone.
    ///
    /// # Safety
    /// `at + BYTES` is within the rows of the taps.
    #[inline(always)]
    unsafe fn value<S: Simd>(self, simd: S, index: usize, at: usize) -> S::Int {
        let from = self.sums.as_ptr();
        // SAFETY: the caller's promise.
        unsafe {
            if index < self.folded.len() {
                let tap = self.folded[index];
                let row = simd.load_bytes(from.add(tap.row + at));
                simd.add16(row, simd.load_bytes(from.add(tap.mirror + at)))
            } else {
                let tap = self.lone[index - self.folded.len()];
                simd.load_bytes(from.add(tap.row + at))
            }
        }
    }

    #[inline(always)]
    fn weight(self, index: usize) -> i16 {
        if index < self.folded.len() {
            self.folded[index].weight
        } else {
            self.lone[index - self.folded.len()].weight
        }
    }

    #[inline(always)]
    fn len(self) -> usize {
        self.folded.len() + self.lone.len()
    }

    /// 16-bit sums.
    ///
    /// # Safety
    /// As [`value`](Self::value).
    #[inline(always)]
    unsafe fn sums16<S: Simd>(self, simd: S, start: S::Int, at: usize) -> S::Int {
        let mut sum = start;
        for index in 0..self.len() {
            // SAFETY: the caller's promise.
            let value = unsafe { self.value(simd, index, at) };
            sum = simd.add16(sum, simd.mul16(value, simd.splat_i16(self.weight(index))));
        }
        sum
    }

    /// 32-bit sums, of the low and the high halves of the lanes.
    ///
    /// # Safety
    /// As [`value`](Self::value).
    #[inline(always)]
    unsafe fn sums32<S: Simd>(self, simd: S, start: S::Int, at: usize) -> (S::Int, S::Int) {
        let (mut low, mut high) = (start, start);
        for index in (0..self.len()).step_by(2) {
            // SAFETY: the caller's promise.
            let first = unsafe { self.value(simd, index, at) };
            let (second, weights) = if index + 1 < self.len() {
                let weights = simd.splat_pairs(self.weight(index), self.weight(index + 1));
                // SAFETY: the caller's promise.
                (unsafe { self.value(simd, index + 1, at) }, weights)
            } else {
                (simd.splat_i16(0), simd.splat_pairs(self.weight(index), 0))
            };
            let (a, b) = simd.zip16(first, second);
            low = simd.add32(low, simd.mul_pairs16(a, weights));
            high = simd.add32(high, simd.mul_pairs16(b, weights));
        }
        (low, high)
    }
}

/// A second pass. (Not closures: those are not sure to be inlined, and so to be compiled for the
/// instruction set.)
trait SecondPass<S: Simd> {
    /// Signed 16-bit results of the sums at byte `at`, to be saturated to bytes.
    ///
    /// # Safety
    /// `at + BYTES` is within the rows of the taps.
    unsafe fn results(&self, simd: S, at: usize) -> S::Int;
}

/// Writes whole vectors into `out`, and the last one as far as `out` goes.
///
/// # Safety
/// The taps of `pass` reach `out.len()` samples, rounded up to whole vectors.
#[inline(always)]
unsafe fn write_row<S: Simd>(simd: S, out: &mut [u8], pass: impl SecondPass<S>) {
    for x in (0..out.len()).step_by(S::BYTES) {
        // SAFETY: the caller's promise, since x is below `out.len()`.
        let bytes = unsafe {
            let low = pass.results(simd, 2 * x);
            simd.pack16(low, pass.results(simd, 2 * x + S::BYTES))
        };
        if x + S::BYTES <= out.len() {
            // SAFETY: the vector ends within `out`.
            unsafe { simd.store_bytes(out.as_mut_ptr().add(x), bytes) };
        } else {
            let mut last = [0; MAX_BYTES];
            // SAFETY: no vector is longer than `last`.
            unsafe { simd.store_bytes(last.as_mut_ptr(), bytes) };
            let rest = out.len() - x;
            out[x..].copy_from_slice(&last[..rest]);
        }
    }
}

/// Runs `$body` with `$taps` of which the compiler knows the number where they are few.
macro_rules! unrolled {
    ($from:expr, $sums:expr, |$taps:ident| $body:expr) => {{
        macro_rules! with {
            ($folded:expr, $lone:expr) => {{
                let $taps = Taps {
                    folded: $folded,
                    lone: $lone,
                    sums: $sums,
                };
                $body
            }};
        }
        match (&*$from.folded, &*$from.lone) {
            (&[], &[a]) => with!(&[], &[a]),
            (&[], &[a, b]) => with!(&[], &[a, b]),
            (&[], &[a, b, c]) => with!(&[], &[a, b, c]),
            (&[a], &[c]) => with!(&[a], &[c]),
            (&[a, b], &[c]) => with!(&[a, b], &[c]),
            (&[a, b, d], &[c]) => with!(&[a, b, d], &[c]),
            (&[a, b, d, e], &[c]) => with!(&[a, b, d, e], &[c]),
            (folded, lone) => with!(folded, lone),
        }
    }};
}

struct Saturated<'a, S: Simd>(Taps<'a>, S::Int);

impl<S: Simd> SecondPass<S> for Saturated<'_, S> {
    #[inline(always)]
    unsafe fn results(&self, simd: S, at: usize) -> S::Int {
        // SAFETY: the caller's promise.
        unsafe { self.0.sums16(simd, self.1, at) }
    }
}

struct Shifted<'a, S: Simd>(Taps<'a>, S::Int, u32);

impl<S: Simd> SecondPass<S> for Shifted<'_, S> {
    #[inline(always)]
    unsafe fn results(&self, simd: S, at: usize) -> S::Int {
        // SAFETY: the caller's promise.
        let sum = unsafe { self.0.sums16(simd, self.1, at) };
        simd.round_shift16(sum, self.2)
    }
}

struct Multiplied<'a, S: Simd>(Taps<'a>, S::Int, S::Int, u32);

impl<S: Simd> SecondPass<S> for Multiplied<'_, S> {
    #[inline(always)]
    unsafe fn results(&self, simd: S, at: usize) -> S::Int {
        // SAFETY: the caller's promise.
        let sum = unsafe { self.0.sums16(simd, self.1, at) };
        simd.shift_right16(simd.mul_high16(sum, self.2), self.3)
    }
}

#[inline(always)]
fn narrow_row_body<S: Simd>(
    simd: S,
    taps: &SumTaps,
    start: i16,
    sums: &[u8],
    narrow: Narrow,
    out: &mut [u8],
) {
    check_taps::<S>(taps, sums, out.len());
    let start = simd.splat_i16(start);
    // SAFETY: `check_taps`.
    unsafe {
        match narrow {
            Narrow::Saturate => {
                unrolled!(taps, sums, |taps| write_row(
                    simd,
                    out,
                    Saturated(taps, start)
                ));
            }
            Narrow::Shift { bits } => {
                unrolled!(taps, sums, |taps| write_row(
                    simd,
                    out,
                    Shifted(taps, start, bits)
                ));
            }
            Narrow::Reciprocal { factor, bits } => {
                let factor = simd.splat_i16(factor as i16);
                unrolled!(taps, sums, |taps| {
                    write_row(simd, out, Multiplied(taps, start, factor, bits))
                });
            }
        }
    }
}

/// `round(value · factor + offset)`, or the same by division, as signed 32-bit integers.
#[inline(always)]
fn scaled<S: Simd>(simd: S, value: S::F32, scale: Scale, offset: f32) -> S::Int {
    let offset = simd.splat(offset);
    simd.round(match scale {
        Scale::Multiply(factor) => simd.mul_add(value, simd.splat(factor), offset),
        Scale::Divide(divisor) => simd.add(simd.div(value, simd.splat(divisor)), offset),
    })
}

struct Wide<'a, S: Simd>(Taps<'a>, S::Int, Scale, f32);

impl<S: Simd> SecondPass<S> for Wide<'_, S> {
    #[inline(always)]
    unsafe fn results(&self, simd: S, at: usize) -> S::Int {
        let Wide(taps, start, scale, offset) = *self;
        // SAFETY: the caller's promise.
        let (low, high) = unsafe { taps.sums32(simd, start, at) };
        let low = scaled(simd, simd.to_f32(low), scale, offset);
        simd.pack32(low, scaled(simd, simd.to_f32(high), scale, offset))
    }
}

#[inline(always)]
fn wide_row_body<S: Simd>(
    simd: S,
    taps: &SumTaps,
    start: i32,
    sums: &[u8],
    scale: Scale,
    offset: f32,
    out: &mut [u8],
) {
    check_taps::<S>(taps, sums, out.len());
    let start = simd.splat_i32(start);
    // SAFETY: `check_taps`.
    unsafe {
        match scale {
            // Of division the speed is its own: no need for versions.
            Scale::Divide(_) => {
                let taps = Taps {
                    folded: &taps.folded,
                    lone: &taps.lone,
                    sums,
                };
                write_row(simd, out, Wide(taps, start, scale, offset));
            }
            Scale::Multiply(factor) => unrolled!(taps, sums, |taps| {
                write_row(
                    simd,
                    out,
                    Wide(taps, start, Scale::Multiply(factor), offset),
                )
            }),
        }
    }
}

struct Magnitude<'a, S: Simd> {
    x: Taps<'a>,
    y: Taps<'a>,
    start: (S::Int, S::Int),
    scale: Scale,
    offset: f32,
}

impl<S: Simd> Magnitude<'_, S> {
    #[inline(always)]
    fn half(&self, simd: S, x: S::Int, y: S::Int) -> S::Int {
        let one = simd.splat_pairs(1, 0);
        let x = simd.to_f32(simd.mul_pairs16(x, one));
        let y = simd.to_f32(simd.mul_pairs16(y, one));
        let magnitude = simd.sqrt(simd.mul_add(y, y, simd.mul(x, x)));
        scaled(simd, magnitude, self.scale, self.offset)
    }
}

impl<S: Simd> SecondPass<S> for Magnitude<'_, S> {
    #[inline(always)]
    unsafe fn results(&self, simd: S, at: usize) -> S::Int {
        let zero = simd.splat_i16(0);
        // SAFETY: the caller's promise.
        let (x, y) = unsafe {
            (
                simd.zip16(self.x.sums16(simd, self.start.0, at), zero),
                simd.zip16(self.y.sums16(simd, self.start.1, at), zero),
            )
        };
        simd.pack32(self.half(simd, x.0, y.0), self.half(simd, x.1, y.1))
    }
}

#[inline(always)]
fn magnitude_bytes_row_body<S: Simd>(
    simd: S,
    x: &SumTaps,
    y: &SumTaps,
    start: (i16, i16),
    sums: &[u8],
    scale: Scale,
    offset: f32,
    out: &mut [u8],
) {
    check_taps::<S>(x, sums, out.len());
    check_taps::<S>(y, sums, out.len());
    let start = (simd.splat_i16(start.0), simd.splat_i16(start.1));
    macro_rules! with {
        ($x:expr, $y:expr) => {{
            let ((folded, lone), (y_folded, y_lone)) = ($x, $y);
            let pass = Magnitude {
                x: Taps { folded, lone, sums },
                y: Taps {
                    folded: y_folded,
                    lone: y_lone,
                    sums,
                },
                start,
                scale,
                offset,
            };
            // SAFETY: `check_taps`.
            unsafe { write_row(simd, out, pass) }
        }};
    }
    match (&*x.folded, &*x.lone, &*y.folded, &*y.lone) {
        // All gradients of three rows.
        (&[a], &[b], &[], &[c, d]) => with!((&[a], &[b]), (&[], &[c, d])),
        (x_folded, x_lone, y_folded, y_lone) => with!((x_folded, x_lone), (y_folded, y_lone)),
    }
}
