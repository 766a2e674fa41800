//! Samples that lie apart: gathered into rows, and put back among the bytes of others.

use crate::engine::cpu::isa::{Isa, for_each_isa};
use crate::engine::cpu::simd::Simd;
use crate::filter::layout::Sample;

/// How pixels of four bytes come of rows of bytes and of the input's pixels.
#[derive(Debug, Clone, PartialEq)]
pub struct Merge {
    /// Of each row where in a pixel, read as a little-endian number, its byte goes: the first of
    /// those bits. At most four.
    pub shifts: Vec<u32>,
    /// The bits that are the input's.
    pub copy: u32,
    /// The bits that are set.
    pub fill: u32,
}

for_each_isa! {
    /// Pixels of `output` from the bytes of the first rows of `rows`, as many as there are shifts, and
    /// from the pixels of `input`.
    pub fn merge_row(rows: &[&[u8]; 4], merge: &Merge, input: &[u8], output: &mut [u8])
        = merge_row_body;
    /// Bytes `step` apart in `from`, side by side.
    pub fn gather(from: &[u8], step: usize, to: &mut [u8]) = gather_body;
    /// Samples of `bytes` side by side in `from` to samples `step` bytes apart in `to`.
    pub fn scatter(from: &[u8], to: &mut [u8], bytes: usize, step: usize) = scatter_body;
    /// Copies `count` samples of `bytes` each, `step` bytes apart in both rows.
    pub fn copy_samples(from: &[u8], to: &mut [u8], bytes: usize, step: usize, count: usize)
        = copy_samples_body;
    /// Of each byte the bits of `keep` stay, those of `copy` become the input's, and those of
    /// `fill` are set; the three repeat over the row.
    pub fn patch_row(keep: &[u8], copy: &[u8], fill: &[u8], input: &[u8], output: &mut [u8])
        = patch_row_body;
}

/// Writes `count` samples of one code value, `step` bytes apart.
pub fn fill_samples(isa: Isa, to: &mut [u8], sample: Sample, step: usize, count: usize, code: u32) {
    const VALUES: usize = 256;
    let bytes = sample.bytes();
    let mut values = [0; 2 * VALUES];
    values
        .chunks_mut(bytes)
        .for_each(|value| sample.write(value, code));
    for start in (0..count).step_by(VALUES) {
        let values = &values[..(count - start).min(VALUES) * bytes];
        scatter(isa, values, &mut to[start * step..], bytes, step);
    }
}

#[inline(always)]
fn gather_body<S: Simd>(_: S, from: &[u8], step: usize, to: &mut [u8]) {
    match step {
        1 => to.copy_from_slice(&from[..to.len()]),
        2 => gather_steps::<2>(from, to),
        3 => gather_steps::<3>(from, to),
        4 => gather_steps::<4>(from, to),
        _ => {
            for (to, from) in to.iter_mut().zip(from.iter().step_by(step)) {
                *to = *from;
            }
        }
    }
}

/// The compiler turns a `STEP` that it knows into shuffles of vectors.
#[inline(always)]
fn gather_steps<const STEP: usize>(from: &[u8], to: &mut [u8]) {
    let (whole, rest) = from.as_chunks::<STEP>();
    for (to, from) in to.iter_mut().zip(whole) {
        *to = from[0];
    }
    if let Some(last) = to.get_mut(whole.len()) {
        *last = rest[0];
    }
}

#[inline(always)]
fn scatter_body<S: Simd>(_: S, from: &[u8], to: &mut [u8], bytes: usize, step: usize) {
    match (bytes, step) {
        (1, 2) => scatter_steps::<1, 2>(from, to),
        (1, 3) => scatter_steps::<1, 3>(from, to),
        (1, 4) => scatter_steps::<1, 4>(from, to),
        (2, 4) => scatter_steps::<2, 4>(from, to),
        (2, 8) => scatter_steps::<2, 8>(from, to),
        _ => {
            for (to, from) in to.chunks_mut(step).zip(from.chunks_exact(bytes)) {
                to[..bytes].copy_from_slice(from);
            }
        }
    }
}

/// The bytes between are written too, as they were: vectors have no gaps.
#[inline(always)]
fn scatter_steps<const BYTES: usize, const STEP: usize>(from: &[u8], to: &mut [u8]) {
    let from = from.as_chunks::<BYTES>().0;
    let (whole, rest) = to.as_chunks_mut::<STEP>();
    let between = whole.iter_mut().zip(from);
    for (to, from) in between {
        let old = *to;
        *to = std::array::from_fn(|i| if i < BYTES { from[i] } else { old[i] });
    }
    if let Some(last) = from.get(whole.len()) {
        rest[..BYTES].copy_from_slice(last);
    }
}

#[inline(always)]
fn merge_row_body<S: Simd>(
    _: S,
    rows: &[&[u8]; 4],
    merge: &Merge,
    input: &[u8],
    output: &mut [u8],
) {
    match *merge.shifts {
        [a] => merge_rows([rows[0]], [a], merge, input, output),
        [a, b] => merge_rows([rows[0], rows[1]], [a, b], merge, input, output),
        [a, b, c] => merge_rows([rows[0], rows[1], rows[2]], [a, b, c], merge, input, output),
        [a, b, c, d] => merge_rows(*rows, [a, b, c, d], merge, input, output),
        _ => panic!("{} rows of pixels of four bytes", merge.shifts.len()),
    }
}

#[inline(always)]
fn merge_rows<const ROWS: usize>(
    rows: [&[u8]; ROWS],
    shifts: [u32; ROWS],
    merge: &Merge,
    input: &[u8],
    output: &mut [u8],
) {
    let (input, output) = (input.as_chunks().0, output.as_chunks_mut().0);
    assert!(rows.iter().all(|row| row.len() == output.len()));
    for (i, (output, input)) in output.iter_mut().zip(input).enumerate() {
        let mut pixel = u32::from_le_bytes(*input) & merge.copy | merge.fill;
        for r in 0..ROWS {
            pixel |= u32::from(rows[r][i]) << (shifts[r] & 31);
        }
        *output = pixel.to_le_bytes();
    }
}

#[inline(always)]
fn copy_samples_body<S: Simd>(
    _: S,
    from: &[u8],
    to: &mut [u8],
    bytes: usize,
    step: usize,
    count: usize,
) {
    match (bytes, step) {
        (1, 2) => copy_steps::<1, 2>(from, to, count),
        (1, 4) => copy_steps::<1, 4>(from, to, count),
        (2, 4) => copy_steps::<2, 4>(from, to, count),
        (2, 8) => copy_steps::<2, 8>(from, to, count),
        _ => {
            let samples = to.chunks_mut(step).zip(from.chunks(step));
            for (to, from) in samples.take(count) {
                to[..bytes].copy_from_slice(&from[..bytes]);
            }
        }
    }
}

#[inline(always)]
fn copy_steps<const BYTES: usize, const STEP: usize>(from: &[u8], to: &mut [u8], count: usize) {
    // The last sample may lack the bytes that follow the others.
    let whole = count.saturating_sub(1);
    let pairs = (to.as_chunks_mut::<STEP>().0.iter_mut()).zip(from.as_chunks::<STEP>().0);
    for (to, from) in pairs.take(whole) {
        let old = *to;
        *to = std::array::from_fn(|i| if i < BYTES { from[i] } else { old[i] });
    }
    let last = whole * STEP..(whole * STEP + BYTES) * count.min(1);
    if !last.is_empty() {
        to[last.clone()].copy_from_slice(&from[last]);
    }
}

#[inline(always)]
fn patch_row_body<S: Simd>(
    _: S,
    keep: &[u8],
    copy: &[u8],
    fill: &[u8],
    input: &[u8],
    output: &mut [u8],
) {
    for (output, input) in output.chunks_mut(keep.len()).zip(input.chunks(keep.len())) {
        let len = output.len();
        let (keep, copy, fill, input) = (&keep[..len], &copy[..len], &fill[..len], &input[..len]);
        for i in 0..len {
            output[i] = output[i] & keep[i] | input[i] & copy[i] | fill[i];
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn samples_apart_are_gathered_scattered_and_copied() {
        for isa in Isa::all() {
            for bytes in [1usize, 2] {
                for step in bytes..9 {
                    for count in [0usize, 1, 2, 63, 64, 200] {
                        let len = (count * step).saturating_sub(step - bytes);
                        let row: Vec<u8> = (0..len).map(|i| (i * 7 + 1) as u8).collect();
                        let values: Vec<u8> = (row.chunks(step))
                            .flat_map(|sample| &sample[..bytes])
                            .copied()
                            .collect();
                        let mut gathered = vec![0; count];
                        if bytes == 1 {
                            gather(isa, &row, step, &mut gathered);
                            assert_eq!(gathered, values);
                        }
                        let expected: Vec<u8> = (row.iter().enumerate())
                            .map(|(i, &value)| if i % step < bytes { value } else { 99 })
                            .collect();
                        let mut scattered = vec![99; len];
                        scatter(isa, &values, &mut scattered, bytes, step);
                        assert_eq!(scattered, expected);
                        let mut copied = vec![99; len];
                        copy_samples(isa, &row, &mut copied, bytes, step, count);
                        assert_eq!(copied, expected);
                    }
                }
            }
        }
    }

    #[test]
    fn pixels_are_merged_from_rows_and_the_input() {
        for isa in Isa::all() {
            for len in [0usize, 1, 15, 64, 77] {
                let row =
                    |r: usize| -> Vec<u8> { (0..len).map(|x| (x * 3 + r * 70) as u8).collect() };
                let rows = [row(0), row(1), row(2), row(3)];
                let slices = rows.each_ref().map(|row| &row[..]);
                let input: Vec<u8> = (0..4 * len).map(|i| (i * 11) as u8).collect();
                // Bytes 3 and 1 of a pixel are of rows, byte 0 is the input's and byte 2 a constant.
                let merge = Merge {
                    shifts: vec![24, 8],
                    copy: 0x0000_00FF,
                    fill: 0x0077_0000,
                };
                let mut output = vec![9; 4 * len];
                merge_row(isa, &slices, &merge, &input, &mut output);
                for (x, pixel) in output.chunks(4).enumerate() {
                    assert_eq!(pixel, [input[4 * x], rows[1][x], 0x77, rows[0][x]]);
                }
            }
        }
    }

    #[test]
    fn filled_samples_leave_the_bytes_between() {
        for isa in Isa::all() {
            let mut row = [7; 4 * 1000 - 2];
            fill_samples(
                isa,
                &mut row,
                Sample::U16Le {
                    shift: 6,
                    depth: 10,
                },
                4,
                1000,
                512,
            );
            for pixel in row.chunks(4) {
                assert_eq!(pixel[..2], [0x00, 0x80]);
                assert!(pixel[2..].iter().all(|&byte| byte == 7));
            }
        }
    }
}
