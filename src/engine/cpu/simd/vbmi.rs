//! The bilateral of bytes by table, for AVX-512 with VBMI and VNNI (Ice Lake, Zen 4 and later).
//!
//! A byte permutation looks up 64 bytes of weights at a time, and a dot product of bytes adds four
//! taps to 32-bit sums, all exact. For 64 pixels and a tap of one channel that takes 15 operations
//! in 7 cycles where the weights reach no further than 126 code values, against 64 operations in
//! float32; for three channels 31, against 100.

use std::arch::x86_64::*;

use super::Avx512;

/// Bytes of a vector.
const VECTOR: usize = 64;

/// Proof that the machine has the instructions.
#[derive(Debug, Clone, Copy)]
pub struct Vbmi(());

impl Vbmi {
    pub fn detect(_: Avx512) -> Option<Vbmi> {
        (is_x86_feature_detected!("avx512vbmi") && is_x86_feature_detected!("avx512vnni"))
            .then_some(Vbmi(()))
    }
}

/// 64 entries of a table.
#[derive(Debug, Clone, Copy, PartialEq)]
#[repr(C, align(64))]
pub struct Segment(pub [u8; VECTOR]);

/// Taps of one table of weights, by where the bytes that they take for sample 0 are.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct TapGroup {
    pub taps: [usize; 4],
    /// The first segment of the table: `SEGMENTS` of the high bytes of the weights by difference,
    /// then as many of the low bytes.
    pub table: usize,
}

/// A row of the bilateral of bytes. Samples are stored less 128, as signed bytes.
pub struct ByteRow<'a> {
    pub samples: &'a [u8],
    /// Where the centre of sample 0 is.
    pub centre: usize,
    /// From the samples of one channel to those of the next.
    pub channel: usize,
    pub groups: &'a [TapGroup],
    pub tables: &'a [Segment],
    /// Segments of the high, and of the low bytes: 1 to 4. Differences beyond have no weight: if
    /// there can be any, the last entry is 0.
    pub segments: usize,
    /// The weight of the centre less what the groups count too much.
    pub centre_weight: i32,
    /// Added to the results less 128, by channel.
    pub offsets: [f32; 3],
}

/// The bilateral of one channel, or of three that share the weight of the sum of the magnitudes of
/// their differences: as many samples as all `outputs` are long. Whole vectors are read: up to 64
/// bytes beyond the last.
pub fn bilateral_bytes_row(_: Vbmi, row: &ByteRow, outputs: &mut [&mut [u8]]) {
    let len = outputs[0].len();
    assert!(outputs.iter().all(|output| output.len() == len));
    let reach = len.next_multiple_of(VECTOR) + (outputs.len() - 1) * row.channel;
    let starts = (row.samples.len().checked_sub(reach)).expect("a row of samples");
    let tables = (row.tables.len().checked_sub(2 * row.segments)).expect("a table");
    assert!(row.centre <= starts);
    assert!((row.groups.iter()).all(|g| g.table <= tables && g.taps.iter().all(|&t| t <= starts)));
    // SAFETY: the instructions are there, and all reads lie below `reach` from the starts.
    unsafe {
        match (row.segments, outputs) {
            (1, [out]) => bytes_row::<1>(row, out),
            (2, [out]) => bytes_row::<2>(row, out),
            (3, [out]) => bytes_row::<3>(row, out),
            (4, [out]) => bytes_row::<4>(row, out),
            (1, [a, b, c]) => joint_row::<1>(row, [a, b, c]),
            (2, [a, b, c]) => joint_row::<2>(row, [a, b, c]),
            (3, [a, b, c]) => joint_row::<3>(row, [a, b, c]),
            (4, [a, b, c]) => joint_row::<4>(row, [a, b, c]),
            (segments, outputs) => panic!("{segments} segments, {} channels", outputs.len()),
        }
    }
}

/// Sums of 16 samples: `Σ w·value` of `N` channels and `Σ w`, of the high and the low bytes of the
/// weights.
#[derive(Clone, Copy)]
struct Sums<const N: usize> {
    values: [[__m512i; 2]; N],
    weights: [__m512i; 2],
}

impl<const N: usize> Sums<N> {
    #[inline]
    #[target_feature(enable = "avx512f")]
    fn new() -> Sums<N> {
        let zero = _mm512_setzero_si512();
        Sums {
            values: [[zero; 2]; N],
            weights: [zero; 2],
        }
    }

    /// Adds four taps of values whose weights are at `index`.
    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512vbmi,avx512vnni")]
    fn add<const SEGMENTS: usize>(
        &mut self,
        tables: &[[Segment; SEGMENTS]; 2],
        index: __m512i,
        values: [__m512i; N],
    ) {
        for (byte, table) in tables.iter().enumerate() {
            let weights = look_up(table, index);
            for (sums, value) in self.values.iter_mut().zip(values) {
                sums[byte] = _mm512_dpbusd_epi32(sums[byte], weights, value);
            }
            let ones = _mm512_set1_epi8(1);
            self.weights[byte] = _mm512_dpbusd_epi32(self.weights[byte], weights, ones);
        }
    }
}

/// The tables of a group.
///
/// # Safety
/// Its segments lie within those of the row.
#[inline]
#[target_feature(enable = "avx512f")]
unsafe fn tables<const SEGMENTS: usize>(row: &ByteRow, at: usize) -> [[Segment; SEGMENTS]; 2] {
    // SAFETY: the caller's promise.
    unsafe {
        row.tables
            .as_ptr()
            .add(at)
            .cast::<[[Segment; SEGMENTS]; 2]>()
            .read()
    }
}

/// # Safety
/// `VECTOR` bytes can be read at `at`.
#[inline]
#[target_feature(enable = "avx512f")]
unsafe fn load(row: &ByteRow, at: usize) -> __m512i {
    // SAFETY: the caller's promise.
    unsafe { _mm512_loadu_si512(row.samples.as_ptr().add(at).cast()) }
}

/// Writes `bytes` at `x` of `out`, as far as that goes.
#[inline]
#[target_feature(enable = "avx512f,avx512bw")]
fn store(out: &mut [u8], x: usize, bytes: __m512i) {
    let out = &mut out[x..];
    let mask = u64::MAX >> (VECTOR - out.len().min(VECTOR));
    // SAFETY: the mask leaves out what lies beyond `out`.
    unsafe { _mm512_mask_storeu_epi8(out.as_mut_ptr().cast(), mask, bytes) };
}

/// # Safety
/// The machine has the instructions, and whole vectors can be read at all places of the row.
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vbmi,avx512vnni")]
unsafe fn bytes_row<const SEGMENTS: usize>(row: &ByteRow, out: &mut [u8]) {
    for x in (0..out.len()).step_by(VECTOR) {
        // SAFETY: the caller's promise, since x is below `out.len()`.
        let centres = interleave([unsafe { load(row, row.centre + x) }; 4]);
        let mut sums = [Sums::<1>::new(); 4];
        for group in row.groups {
            // SAFETY: as above.
            let values = interleave(group.taps.map(|tap| unsafe { load(row, tap + x) }));
            // SAFETY: the table lies within the segments.
            let tables = unsafe { tables::<SEGMENTS>(row, group.table) };
            for n in 0..4 {
                let index = difference::<SEGMENTS>(values[n], centres[n]);
                sums[n].add(&tables, at_most::<SEGMENTS>(index), [values[n]]);
            }
        }
        let [a, b, c, d] = std::array::from_fn(|n| mean(&sums[n], 0, centres[n], row));
        let bytes = _mm512_packus_epi16(_mm512_packs_epi32(a, b), _mm512_packs_epi32(c, d));
        store(out, x, bytes);
    }
}

/// Three channels, half of the samples of a vector at a time: for all there are not the registers.
///
/// # Safety
/// As [`bytes_row`].
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vbmi,avx512vnni")]
unsafe fn joint_row<const SEGMENTS: usize>(row: &ByteRow, outputs: [&mut [u8]; 3]) {
    for x in (0..outputs[0].len()).step_by(VECTOR) {
        // SAFETY: passed on to the caller, since x is below the length.
        let (low, high) = unsafe {
            (
                joint_half::<SEGMENTS, false>(row, x),
                joint_half::<SEGMENTS, true>(row, x),
            )
        };
        for channel in 0..3 {
            let bytes = _mm512_packus_epi16(low[channel], high[channel]);
            store(&mut *outputs[channel], x, bytes);
        }
    }
}

/// The results of three channels, in 16 bits: of the samples in the low or the high halves of the
/// 16-byte lanes.
///
/// # Safety
/// As [`bytes_row`].
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vbmi,avx512vnni")]
unsafe fn joint_half<const SEGMENTS: usize, const HIGH: bool>(
    row: &ByteRow,
    x: usize,
) -> [__m512i; 3] {
    let centres: [_; 3] = std::array::from_fn(|channel| {
        // SAFETY: the caller's promise.
        let centre = unsafe { load(row, row.centre + channel * row.channel + x) };
        interleave_half::<HIGH>([centre; 4])
    });
    let mut sums = [Sums::<3>::new(); 2];
    for group in row.groups {
        let values: [_; 3] = std::array::from_fn(|channel| {
            // SAFETY: the caller's promise.
            let tap = |tap: usize| unsafe { load(row, tap + channel * row.channel + x) };
            interleave_half::<HIGH>(group.taps.map(tap))
        });
        // SAFETY: the table lies within the segments.
        let tables = unsafe { tables::<SEGMENTS>(row, group.table) };
        for n in 0..2 {
            let values: [_; 3] = std::array::from_fn(|channel| values[channel][n]);
            let [a, b, c] = std::array::from_fn(|channel| {
                difference::<SEGMENTS>(values[channel], centres[channel][n])
            });
            let index = _mm512_adds_epu8(_mm512_adds_epu8(a, b), c);
            sums[n].add(&tables, at_most::<SEGMENTS>(index), values);
        }
    }
    std::array::from_fn(|channel| {
        let [a, b] = std::array::from_fn(|n| mean(&sums[n], channel, centres[channel][n], row));
        _mm512_packs_epi32(a, b)
    })
}

/// Four vectors of bytes as four in which the bytes of a sample are side by side: samples 0 to 3
/// of each 16-byte lane in the first, and so on.
#[inline]
#[target_feature(enable = "avx512f,avx512bw")]
fn interleave(bytes: [__m512i; 4]) -> [__m512i; 4] {
    let ([a, b], [c, d]) = (
        interleave_half::<false>(bytes),
        interleave_half::<true>(bytes),
    );
    [a, b, c, d]
}

/// The first or the last two of [`interleave`].
#[inline]
#[target_feature(enable = "avx512f,avx512bw")]
fn interleave_half<const HIGH: bool>([a, b, c, d]: [__m512i; 4]) -> [__m512i; 2] {
    let (ab, cd) = if HIGH {
        (_mm512_unpackhi_epi8(a, b), _mm512_unpackhi_epi8(c, d))
    } else {
        (_mm512_unpacklo_epi8(a, b), _mm512_unpacklo_epi8(c, d))
    };
    [_mm512_unpacklo_epi16(ab, cd), _mm512_unpackhi_epi16(ab, cd)]
}

/// The magnitudes of the differences, as unsigned bytes; those beyond 126 may be any larger number
/// where the table has no more than 128 entries.
#[inline]
#[target_feature(enable = "avx512f,avx512bw")]
fn difference<const SEGMENTS: usize>(a: __m512i, b: __m512i) -> __m512i {
    if SEGMENTS <= 2 {
        _mm512_abs_epi8(_mm512_subs_epi8(a, b))
    } else {
        _mm512_sub_epi8(_mm512_max_epi8(a, b), _mm512_min_epi8(a, b))
    }
}

/// Differences up to the last index of the table.
#[inline]
#[target_feature(enable = "avx512f,avx512bw")]
fn at_most<const SEGMENTS: usize>(difference: __m512i) -> __m512i {
    let last = (SEGMENTS * VECTOR - 1) as u8 as i8;
    _mm512_min_epu8(difference, _mm512_set1_epi8(last))
}

/// Entries of a table of up to 256.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vbmi")]
fn look_up<const SEGMENTS: usize>(table: &[Segment; SEGMENTS], index: __m512i) -> __m512i {
    // SAFETY: a segment is a vector's size.
    let segment = |n: usize| unsafe { _mm512_load_si512((&raw const table[n]).cast()) };
    let mut entries = _mm512_permutexvar_epi8(index, segment(0));
    if SEGMENTS > 1 {
        let second = if SEGMENTS == 2 {
            _mm512_test_epi8_mask(index, _mm512_set1_epi8(64))
        } else {
            _mm512_cmpge_epu8_mask(index, _mm512_set1_epi8(64))
        };
        entries = _mm512_mask_permutexvar_epi8(entries, second, index, segment(1));
    }
    if SEGMENTS > 2 {
        let third = _mm512_movepi8_mask(index);
        entries = _mm512_mask_permutexvar_epi8(entries, third, index, segment(2));
    }
    if SEGMENTS > 3 {
        let fourth = _mm512_cmpge_epu8_mask(index, _mm512_set1_epi8(192u8 as i8));
        entries = _mm512_mask_permutexvar_epi8(entries, fourth, index, segment(3));
    }
    entries
}

/// `round(centre + Σ w·(value - centre) / Σ w + offset)` of 16 samples, as 32-bit integers.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512dq")]
fn mean<const N: usize>(sums: &Sums<N>, channel: usize, centre: __m512i, row: &ByteRow) -> __m512i {
    let centre = _mm512_srai_epi32(centre, 24);
    let differences = |byte: usize| {
        let centres = _mm512_mullo_epi32(centre, sums.weights[byte]);
        _mm512_cvtepi32_ps(_mm512_sub_epi32(sums.values[channel][byte], centres))
    };
    let numerator = _mm512_fmadd_ps(differences(0), _mm512_set1_ps(256.0), differences(1));
    let weights = _mm512_add_epi32(_mm512_slli_epi32(sums.weights[0], 8), sums.weights[1]);
    let weights = _mm512_add_epi32(weights, _mm512_set1_epi32(row.centre_weight));
    let quotient = _mm512_div_ps(numerator, _mm512_cvtepi32_ps(weights));
    let offset = _mm512_set1_ps(row.offsets[channel]);
    let centre = _mm512_add_ps(_mm512_cvtepi32_ps(centre), offset);
    _mm512_cvtps_epi32(_mm512_add_ps(centre, quotient))
}
