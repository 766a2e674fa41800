//! Rows of sums over boxes, whose cost hardly grows with the box.
//!
//! Across, sums of 1, 2, 4, … samples are made each from the last by one addition, and those whose
//! lengths add up to the window are added. Down, the row that enters the window is added and the
//! one that leaves it subtracted.

use super::sums::Scale;
use crate::engine::cpu::isa::for_each_isa;
use crate::engine::cpu::simd::Simd;

for_each_isa! {
    /// `out[x]` = the sum of `window` samples from `bytes[x]` on, `distance` apart, for a window of
    /// up to 255. `powers` are two rows as long as `bytes`.
    pub fn window_row(
        bytes: &[u8], window: usize, distance: usize, powers: [&mut [u16]; 2], out: &mut [u16],
    ) = window_row_body;
    /// Puts `entering` into `sums` in place of `row`, which becomes `entering`.
    pub fn slide_row(sums: &mut [i32], row: &mut [u16], entering: &[u16]) = slide_row_body;
    /// Bytes from sums: `round(scaled(sum + start) + offset)`.
    pub fn scale_row(sums: &[i32], start: i32, scale: Scale, offset: f32, out: &mut [u8])
        = scale_row_body;
}

#[inline(always)]
fn window_row_body<S: Simd>(
    _: S,
    bytes: &[u8],
    window: usize,
    distance: usize,
    powers: [&mut [u16]; 2],
    out: &mut [u16],
) {
    assert!((1..256).contains(&window));
    let mut len = out.len() + (window - 1) * distance;
    let [mut power, mut next] = powers.map(|row| &mut row[..len]);
    for (power, &byte) in power.iter_mut().zip(&bytes[..len]) {
        *power = u16::from(byte);
    }
    // `power[x]` is the sum of `size` samples; `done` samples of the window are in `out`.
    let (mut size, mut done) = (1, 0);
    out.fill(0);
    loop {
        if window & size != 0 {
            for (out, power) in out.iter_mut().zip(&power[done * distance..]) {
                *out += power;
            }
            done += size;
        }
        if done == window {
            return;
        }
        len -= size * distance;
        let (first, second) = (&power[..len], &power[size * distance..][..len]);
        for ((next, first), second) in next[..len].iter_mut().zip(first).zip(second) {
            *next = first + second;
        }
        std::mem::swap(&mut power, &mut next);
        size *= 2;
    }
}

#[inline(always)]
fn slide_row_body<S: Simd>(_: S, sums: &mut [i32], row: &mut [u16], entering: &[u16]) {
    for ((sum, row), &entering) in sums.iter_mut().zip(row).zip(entering) {
        *sum += i32::from(entering) - i32::from(*row);
        *row = entering;
    }
}

#[inline(always)]
fn scale_row_body<S: Simd>(
    _: S,
    sums: &[i32],
    start: i32,
    scale: Scale,
    offset: f32,
    out: &mut [u8],
) {
    let byte = |value: f32| {
        let value = value.round_ties_even();
        let value = if value > 0.0 { value } else { 0.0 };
        let value = if value < 255.0 { value } else { 255.0 };
        // SAFETY: between 0 and 255.
        unsafe { value.to_int_unchecked::<i32>() as u8 }
    };
    match scale {
        Scale::Multiply(factor) => {
            for (out, &sum) in out.iter_mut().zip(sums) {
                *out = byte(((sum + start) as f32).mul_add(factor, offset));
            }
        }
        Scale::Divide(divisor) => {
            for (out, &sum) in out.iter_mut().zip(sums) {
                *out = byte((sum + start) as f32 / divisor + offset);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::cpu::isa::Isa;

    #[test]
    fn windows_of_every_length_are_summed() {
        let bytes: Vec<u8> = (0..700).map(|i| (i * i + 3 * i) as u8).collect();
        for isa in Isa::all() {
            for (window, distance) in (1..66).zip([1, 2, 3, 4].into_iter().cycle()) {
                let mut out = [0; 401];
                let (mut a, mut b) = (vec![7; 700], vec![9; 700]);
                window_row(isa, &bytes, window, distance, [&mut a, &mut b], &mut out);
                for (x, out) in out.iter().enumerate() {
                    let samples = (0..window).map(|i| u16::from(bytes[x + i * distance]));
                    assert_eq!(*out, samples.sum::<u16>());
                }
            }
        }
    }
}
