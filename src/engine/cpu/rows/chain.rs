//! Rows of fused multiply-add chains: what every correlation in float32 is made of.
//!
//! One output takes one multiply-add and one load a tap. A block of eight vectors keeps eight
//! chains going, which hides the latency of the multiply-add (4 cycles, two of them started per
//! cycle), so that the loads bound it: of 64 bytes, nearly all straddle two cache lines and so count
//! twice. Every second tap that would straddle loads whole lines instead and permutes two of them
//! into one, which takes a place of a multiply-add: a fifth faster.

use crate::engine::cpu::isa::for_each_isa;
use crate::engine::cpu::simd::Simd;

/// One term of the chains of a row: `weight` times the samples from `start` on.
#[derive(Debug, Clone, Copy)]
pub struct Tap {
    pub weight: f32,
    /// Index into the samples of the value that output 0 takes.
    pub start: usize,
}

/// Values beyond the end of a row that vectors may read and write.
pub const SLACK: usize = 16;

for_each_isa! {
    /// `out[x] = Σ weight·samples[start + x]`, a chain of fused multiply-adds from +0 in the order
    /// of `taps`, for all x below `len`. Rows are worked on in whole vectors: up to [`SLACK`]
    /// further values are read after the last of each tap, and `out` has room for as many.
    pub fn chain_row(taps: &[Tap], samples: &[f32], out: &mut [f32], len: usize) = chain_row_body;
}

#[inline(always)]
fn chain_row_body<S: Simd>(simd: S, taps: &[Tap], samples: &[f32], out: &mut [f32], len: usize) {
    /// Vectors of a block.
    const BLOCK: usize = 8;
    const { assert!(S::LANES <= SLACK) };
    let reach = len.next_multiple_of(S::LANES);
    assert!(reach <= out.len());
    let starts = samples.len().checked_sub(reach).expect("a row of samples");
    assert!(taps.iter().all(|tap| tap.start <= starts));
    let mut x = 0;
    while x + BLOCK * S::LANES <= reach {
        // SAFETY: x + BLOCK·LANES is at most `reach`, up to which every tap may read and `out`
        // can be written, as just checked.
        unsafe { chain_block::<S, BLOCK>(simd, taps, samples, out, x) };
        x += BLOCK * S::LANES;
    }
    while x + BLOCK / 2 * S::LANES <= reach {
        // SAFETY: as above.
        unsafe { chain_block::<S, { BLOCK / 2 }>(simd, taps, samples, out, x) };
        x += BLOCK / 2 * S::LANES;
    }
    while x < reach {
        // SAFETY: `reach` is a multiple of LANES, so x + LANES is at most `reach`.
        unsafe { chain_block::<S, 1>(simd, taps, samples, out, x) };
        x += S::LANES;
    }
}

/// # Safety
/// `x + N·LANES` is at most `out.len()`, and with the start of every tap at most `samples.len()`.
#[inline(always)]
unsafe fn chain_block<S: Simd, const N: usize>(
    simd: S,
    taps: &[Tap],
    samples: &[f32],
    out: &mut [f32],
    x: usize,
) {
    let mut sums = [simd.splat(0.0); N];
    let mut permute = false;
    for tap in taps {
        let weight = simd.splat(tap.weight);
        let within = tap.start % S::LANES;
        let line = tap.start - within + x;
        permute = S::PERMUTES && within != 0 && !permute;
        if permute && line + (N + 1) * S::LANES <= samples.len() {
            let lanes = simd.lanes_from(within as i32);
            // SAFETY: N + 1 vectors from `line` on are within `samples`, as just checked.
            let mut low = unsafe { simd.load(samples.as_ptr().add(line)) };
            for (n, sum) in sums.iter_mut().enumerate() {
                // SAFETY: as above.
                let high = unsafe { simd.load(samples.as_ptr().add(line + (n + 1) * S::LANES)) };
                *sum = simd.mul_add(weight, simd.permute(low, high, lanes), *sum);
                low = high;
            }
            continue;
        }
        for (n, sum) in sums.iter_mut().enumerate() {
            // SAFETY: the caller's promise.
            let value = unsafe { simd.load(samples.as_ptr().add(tap.start + x + n * S::LANES)) };
            *sum = simd.mul_add(weight, value, *sum);
        }
    }
    for (n, sum) in sums.iter().enumerate() {
        // SAFETY: the caller's promise.
        unsafe { simd.store(out.as_mut_ptr().add(x + n * S::LANES), *sum) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::cpu::isa::Isa;

    #[test]
    fn chains_are_those_of_single_multiply_adds_wherever_taps_start() {
        for isa in Isa::all() {
            for len in [1usize, 16, 130, 700] {
                let reach = len + SLACK;
                let samples: Vec<f32> = (0..reach + 60).map(|i| (i * i % 251) as f32).collect();
                // The last may not read whole lines beyond what it takes.
                let tap = |start| Tap {
                    weight: 0.1 + start as f32 / 7.0,
                    start,
                };
                let taps: Vec<Tap> = [0, 1, 5, 16, 17, 31, 33, 48, 59].map(tap).to_vec();
                let mut out = vec![0.0; reach];
                chain_row(isa, &taps, &samples, &mut out, len);
                for (x, sum) in out[..len].iter().enumerate() {
                    let expected = (taps.iter()).fold(0.0, |sum, tap| {
                        tap.weight.mul_add(samples[tap.start + x], sum)
                    });
                    assert_eq!(*sum, expected, "{isa:?} {len} {x}");
                }
            }
        }
    }
}
