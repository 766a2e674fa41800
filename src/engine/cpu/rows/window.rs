//! Several rows at once of fused multiply-add chains over the same window: the last pass of every
//! correlation in float32.
//!
//! An output takes one multiply-add a tap, but a vector that was loaded serves every row of the
//! block whose window has it: nine rows high, a block of four rows loads a third of what four rows by
//! themselves would, which is what bounds those when the rows lie in the second-level cache. The
//! multiply-adds bound it then, two vectors a cycle.

use std::ops::Range;

use super::samples::{Divisor, Finish};
use crate::engine::cpu::isa::for_each_isa;
use crate::engine::cpu::simd::{MAX_BYTES, Simd};
use crate::filter::layout::Sample;

/// Rows of a block. With four vectors of each their sums fill half of the 32 registers of AVX-512;
/// the other instruction sets have 16 and do two rows at a time.
pub const ROWS: usize = 4;

/// Vectors of a row worked on together: as many as give one vector of bytes.
const VECTORS: usize = 4;

/// Rows are worked on in runs of at most so many samples, and so as many less one may be read and
/// written beyond their end.
pub const RUN: usize = MAX_BYTES;

/// The window of a block of rows, sliding over rows of samples.
#[derive(Clone, Copy)]
pub struct Window<'a> {
    /// Row by row.
    pub weights: &'a [f32],
    /// Where in `samples` the rows of the windows of the block begin, from top to bottom: `ROWS - 1`
    /// more than the window has.
    pub rows: &'a [usize],
    /// From there to what each column of the window takes for output 0.
    pub columns: &'a [usize],
    pub samples: &'a [f32],
}

for_each_isa! {
    /// `out[r·stride + x] = Σ weight·sample` for the [`ROWS`] rows r of the block and all x below
    /// `len`, each a chain of fused multiply-adds from +0, row by row of the window. `len` is rounded
    /// up to whole [`RUN`]s.
    pub fn window_sums(window: &Window, out: &mut [f32], stride: usize, len: usize)
        = window_sums_body;
    /// As [`window_sums`], but with the sums made samples, side by side. Only as many are computed as
    /// the first of `outs` has room for, and of each row only as many written as there is room for.
    pub fn window_samples(window: &Window, finish: &Finish, outs: &mut [&mut [u8]; ROWS])
        = window_samples_body;
}

#[inline(always)]
fn window_sums_body<S: Simd>(simd: S, window: &Window, out: &mut [f32], stride: usize, len: usize) {
    let reach = len.next_multiple_of(VECTORS * S::LANES);
    check(window, reach);
    assert!((ROWS - 1) * stride + reach <= out.len());
    // SAFETY: the window was checked, and the rows written end within `out`.
    unsafe {
        blocks(
            simd,
            window,
            0..reach,
            &StoreSums {
                out: out.as_mut_ptr(),
                stride,
            },
        )
    }
}

#[inline(always)]
fn window_samples_body<S: Simd>(
    simd: S,
    window: &Window,
    finish: &Finish,
    outs: &mut [&mut [u8]; ROWS],
) {
    let bytes = finish.sample.bytes();
    let run = VECTORS * S::LANES;
    let len = outs[0].len() / bytes;
    let whole = len / run * run;
    check(window, len.next_multiple_of(run));
    assert!((0.0..=65535.0).contains(&finish.max));
    let mut last = [[0u8; 2 * RUN]; ROWS];
    let (mut to, mut to_last) = ([None; ROWS], [None; ROWS]);
    for r in 0..ROWS {
        if outs[r].len() >= len * bytes {
            to[r] = Some(outs[r].as_mut_ptr());
            to_last[r] = Some(last[r].as_mut_ptr());
        }
    }
    macro_rules! with {
        ($divide:expr) => {{
            let store = |outs, from| StoreSamples {
                outs,
                from,
                finish,
                divide: $divide,
            };
            // SAFETY: the window was checked; rows that are lent have room for `whole` samples, and
            // those of `last` for the one run after them.
            unsafe {
                blocks(simd, window, 0..whole, &store(to, 0));
                if whole < len {
                    blocks(simd, window, whole..whole + run, &store(to_last, whole));
                }
            }
        }};
    }
    match finish.divisor {
        Divisor::One => with!(Unchanged),
        Divisor::Inverse(inverse) => with!(Multiply(inverse)),
        Divisor::Any(divisor) => with!(Divide(divisor)),
    }
    let rest = (len - whole) * bytes;
    for (out, last) in outs.iter_mut().zip(&last) {
        if let Some(out) = out.get_mut(whole * bytes..len * bytes) {
            out.copy_from_slice(&last[..rest]);
        }
    }
}

/// Checks that `reach` outputs of every row can be computed.
#[inline(always)]
fn check(window: &Window, reach: usize) {
    let starts = window
        .samples
        .len()
        .checked_sub(reach)
        .expect("a row of samples");
    let column = window.columns.iter().max().unwrap_or(&0);
    assert!(window.rows.iter().all(|row| row + column <= starts));
    let (rows, columns) = (window.rows.len(), window.columns.len());
    assert!(rows >= ROWS && window.weights.len() == (rows - (ROWS - 1)) * columns);
}

/// # Safety
/// [`check`] holds for the end of `reach`, a whole number of runs of VECTORS vectors, and `store` may
/// write there.
#[inline(always)]
unsafe fn blocks<S: Simd>(simd: S, window: &Window, reach: Range<usize>, store: &impl Store<S>) {
    // SAFETY: the caller's promise; no more rows at a time than the window has.
    unsafe {
        match (window.rows.len() - (ROWS - 1), window.columns) {
            (1, _) => runs::<S, 1, false>(simd, window, reach, store),
            (2.., &[0]) if S::LANES < 16 => runs::<S, 2, true>(simd, window, reach, store),
            (2.., _) if S::LANES < 16 => runs::<S, 2, false>(simd, window, reach, store),
            (2 | 3, &[0]) => runs::<S, 2, true>(simd, window, reach, store),
            (2 | 3, _) => runs::<S, 2, false>(simd, window, reach, store),
            (_, &[0]) => runs::<S, 4, true>(simd, window, reach, store),
            (_, _) => runs::<S, 4, false>(simd, window, reach, store),
        }
    }
}

/// With `R` rows at a time, `ALONE` for windows of one column at 0.
///
/// # Safety
/// As [`blocks`]; the window has at least R rows, and R is a divisor of ROWS up to 4.
#[inline(always)]
unsafe fn runs<S: Simd, const R: usize, const ALONE: bool>(
    simd: S,
    window: &Window,
    reach: Range<usize>,
    store: &impl Store<S>,
) {
    for x in reach.step_by(VECTORS * S::LANES) {
        for first in (0..ROWS).step_by(R) {
            // SAFETY: the caller's promise, since the run from x on ends within `reach`.
            unsafe { run::<S, R, ALONE>(simd, window, first, x, store) };
        }
    }
}

/// The run at `x` of R rows of the block from `first` on.
///
/// # Safety
/// `x + VECTORS·LANES` is within the reach that [`check`] and `store` know of, `first + R` at most
/// ROWS, and R at most 4 and the height of the window.
#[inline(always)]
unsafe fn run<S: Simd, const R: usize, const ALONE: bool>(
    simd: S,
    window: &Window,
    first: usize,
    x: usize,
    store: &impl Store<S>,
) {
    const { assert!(R <= 4) };
    let height = window.rows.len() - (ROWS - 1);
    let rows = &window.rows[first..];
    let mut sums = [[simd.splat(0.0); VECTORS]; R];
    let sum = &mut sums;
    // SAFETY: the caller's promise. Row m is in the windows of the output rows from m - (height - 1)
    // to m, which at the top and the bottom are not all of the R.
    unsafe {
        if R > 1 {
            add_row::<S, R, 0, 1, ALONE>(simd, window, rows, 0, x, sum);
        }
        if R > 2 {
            add_row::<S, R, 0, 2, ALONE>(simd, window, rows, 1, x, sum);
        }
        if R > 3 {
            add_row::<S, R, 0, 3, ALONE>(simd, window, rows, 2, x, sum);
        }
        for m in R - 1..height {
            add_row::<S, R, 0, R, ALONE>(simd, window, rows, m, x, sum);
        }
        if R > 1 {
            add_row::<S, R, 1, R, ALONE>(simd, window, rows, height, x, sum);
        }
        if R > 2 {
            add_row::<S, R, 2, R, ALONE>(simd, window, rows, height + 1, x, sum);
        }
        if R > 3 {
            add_row::<S, R, 3, R, ALONE>(simd, window, rows, height + 2, x, sum);
        }
    }
    for (r, sums) in sums.iter().enumerate() {
        // SAFETY: the caller's promise.
        unsafe { store.store(simd, first + r, x, *sums) };
    }
}

/// Adds the products of row `m` of the windows to the sums of the output rows from FROM to TO.
///
/// # Safety
/// As [`run`]; `rows` has row m, and m less the output row is a row of the window.
#[allow(
    clippy::needless_range_loop,
    reason = "adaptors of iterators are not sure to be inlined, and so to be compiled for the instruction set"
)]
#[inline(always)]
unsafe fn add_row<
    S: Simd,
    const R: usize,
    const FROM: usize,
    const TO: usize,
    const ALONE: bool,
>(
    simd: S,
    window: &Window,
    rows: &[usize],
    m: usize,
    x: usize,
    sums: &mut [[S::F32; VECTORS]; R],
) {
    let columns = if ALONE { &[0] } else { window.columns };
    // SAFETY: the caller's promise.
    let row = unsafe { *rows.get_unchecked(m) } + x;
    for (i, column) in columns.iter().enumerate() {
        // SAFETY: the caller's promise.
        let from = unsafe { window.samples.as_ptr().add(row + column) };
        let mut values = [simd.splat(0.0); VECTORS];
        for (v, value) in values.iter_mut().enumerate() {
            // SAFETY: the caller's promise.
            *value = unsafe { simd.load(from.add(v * S::LANES)) };
        }
        for r in FROM..TO {
            // SAFETY: the caller's promise.
            let weight = unsafe { *window.weights.get_unchecked((m - r) * columns.len() + i) };
            let weight = simd.splat(weight);
            for v in 0..VECTORS {
                sums[r][v] = simd.mul_add(weight, values[v], sums[r][v]);
            }
        }
    }
}

/// What becomes of the sums. (Not closures: those are not sure to be inlined, and so to be compiled
/// for the instruction set.)
trait Store<S: Simd> {
    /// Takes in a run of sums of row `r` at `x`.
    ///
    /// # Safety
    /// The run lies within what may be written.
    unsafe fn store(&self, simd: S, r: usize, x: usize, sums: [S::F32; VECTORS]);
}

struct StoreSums {
    out: *mut f32,
    stride: usize,
}

impl<S: Simd> Store<S> for StoreSums {
    #[inline(always)]
    unsafe fn store(&self, simd: S, r: usize, x: usize, sums: [S::F32; VECTORS]) {
        for (v, sum) in sums.iter().enumerate() {
            // SAFETY: the caller's promise.
            unsafe { simd.store(self.out.add(r * self.stride + x + v * S::LANES), *sum) };
        }
    }
}

/// A division.
trait Division<S: Simd> {
    fn divided(&self, simd: S, sum: S::F32) -> S::F32;
}

struct Unchanged;
struct Multiply(f32);
struct Divide(f32);

impl<S: Simd> Division<S> for Unchanged {
    #[inline(always)]
    fn divided(&self, _: S, sum: S::F32) -> S::F32 {
        sum
    }
}

impl<S: Simd> Division<S> for Multiply {
    #[inline(always)]
    fn divided(&self, simd: S, sum: S::F32) -> S::F32 {
        simd.mul(sum, simd.splat(self.0))
    }
}

impl<S: Simd> Division<S> for Divide {
    #[inline(always)]
    fn divided(&self, simd: S, sum: S::F32) -> S::F32 {
        simd.div(sum, simd.splat(self.0))
    }
}

struct StoreSamples<'a, D> {
    /// Where the rows that are wanted go, which are lent for as long as this lives.
    outs: [Option<*mut u8>; ROWS],
    /// The sample that goes first.
    from: usize,
    finish: &'a Finish,
    divide: D,
}

impl<S: Simd, D: Division<S>> Store<S> for StoreSamples<'_, D> {
    #[inline(always)]
    unsafe fn store(&self, simd: S, r: usize, x: usize, sums: [S::F32; VECTORS]) {
        let Finish {
            offset,
            max,
            sample,
            ..
        } = *self.finish;
        let mut codes = [simd.splat_i32(0); VECTORS];
        for v in 0..VECTORS {
            let value = simd.add(self.divide.divided(simd, sums[v]), simd.splat(offset));
            // What is below 0, and NaN, becomes a negative integer, and that 0.
            codes[v] = simd.round(simd.min(simd.splat(max), value));
        }
        if let Some(out) = self.outs[r] {
            // SAFETY: the caller's promise.
            unsafe {
                store_codes(
                    simd,
                    codes,
                    sample,
                    out.add((x - self.from) * sample.bytes()),
                )
            };
        }
    }
}

/// # Safety
/// At `to` there is room for four vectors of samples.
#[inline(always)]
unsafe fn store_codes<S: Simd>(simd: S, codes: [S::Int; VECTORS], sample: Sample, to: *mut u8) {
    let [a, b, c, d] = codes;
    // SAFETY: the caller's promise.
    unsafe {
        match sample {
            Sample::U8 => simd.store_bytes(to, simd.bytes(codes)),
            Sample::U16Le { shift, .. } => {
                let first = simd.shift_left16(simd.words([a, b]), shift.into());
                let second = simd.shift_left16(simd.words([c, d]), shift.into());
                simd.store_bytes(to, first);
                simd.store_bytes(to.add(S::BYTES), second);
            }
            Sample::U16Be => {
                simd.store_bytes(to, simd.swap_bytes16(simd.words([a, b])));
                simd.store_bytes(to.add(S::BYTES), simd.swap_bytes16(simd.words([c, d])));
            }
        }
    }
}
