//! AVX2 with fused multiply-add and the bit manipulation of the same processors (Haswell, Zen and
//! later).

use std::arch::x86_64::*;

use super::{EXP2, LEAST_EXPONENT, ROUNDING, Simd};

#[derive(Debug, Clone, Copy)]
pub struct Avx2(());

impl Avx2 {
    pub fn detect() -> Option<Avx2> {
        (is_x86_feature_detected!("avx2")
            && is_x86_feature_detected!("fma")
            && is_x86_feature_detected!("bmi1")
            && is_x86_feature_detected!("bmi2"))
        .then_some(Avx2(()))
    }
}

impl Simd for Avx2 {
    type F32 = __m256;
    type Int = __m256i;
    const LANES: usize = 8;

    #[inline(always)]
    fn splat(self, value: f32) -> __m256 {
        // SAFETY: `self` proves AVX2 and FMA.
        unsafe { _mm256_set1_ps(value) }
    }
    #[inline(always)]
    fn add(self, a: __m256, b: __m256) -> __m256 {
        // SAFETY: `self` proves AVX2 and FMA.
        unsafe { _mm256_add_ps(a, b) }
    }
    #[inline(always)]
    fn sub(self, a: __m256, b: __m256) -> __m256 {
        // SAFETY: `self` proves AVX2 and FMA.
        unsafe { _mm256_sub_ps(a, b) }
    }
    #[inline(always)]
    fn abs(self, a: __m256) -> __m256 {
        // SAFETY: `self` proves AVX2 and FMA.
        unsafe { _mm256_andnot_ps(_mm256_set1_ps(-0.0), a) }
    }
    #[inline(always)]
    fn exp2(self, a: __m256) -> __m256 {
        // SAFETY: `self` proves AVX2 and FMA.
        unsafe {
            let a = _mm256_max_ps(a, _mm256_set1_ps(LEAST_EXPONENT));
            let rounded = _mm256_add_ps(a, _mm256_set1_ps(ROUNDING));
            let rest = _mm256_sub_ps(a, _mm256_sub_ps(rounded, _mm256_set1_ps(ROUNDING)));
            let mut power = _mm256_set1_ps(EXP2[5]);
            power = _mm256_fmadd_ps(power, rest, _mm256_set1_ps(EXP2[4]));
            power = _mm256_fmadd_ps(power, rest, _mm256_set1_ps(EXP2[3]));
            power = _mm256_fmadd_ps(power, rest, _mm256_set1_ps(EXP2[2]));
            power = _mm256_fmadd_ps(power, rest, _mm256_set1_ps(EXP2[1]));
            power = _mm256_fmadd_ps(power, rest, _mm256_set1_ps(EXP2[0]));
            let exponent = _mm256_slli_epi32(_mm256_castps_si256(rounded), 23);
            _mm256_castsi256_ps(_mm256_add_epi32(_mm256_castps_si256(power), exponent))
        }
    }
    #[inline(always)]
    fn mul(self, a: __m256, b: __m256) -> __m256 {
        // SAFETY: `self` proves AVX2 and FMA.
        unsafe { _mm256_mul_ps(a, b) }
    }
    #[inline(always)]
    fn div(self, a: __m256, b: __m256) -> __m256 {
        // SAFETY: `self` proves AVX2 and FMA.
        unsafe { _mm256_div_ps(a, b) }
    }
    #[inline(always)]
    fn sqrt(self, a: __m256) -> __m256 {
        // SAFETY: `self` proves AVX2 and FMA.
        unsafe { _mm256_sqrt_ps(a) }
    }
    #[inline(always)]
    fn mul_add(self, a: __m256, b: __m256, c: __m256) -> __m256 {
        // SAFETY: `self` proves AVX2 and FMA.
        unsafe { _mm256_fmadd_ps(a, b, c) }
    }
    #[inline(always)]
    unsafe fn load(self, from: *const f32) -> __m256 {
        // SAFETY: `self` proves AVX2 and FMA; the rest is the caller's promise.
        unsafe { _mm256_loadu_ps(from) }
    }
    #[inline(always)]
    unsafe fn store(self, to: *mut f32, value: __m256) {
        // SAFETY: `self` proves AVX2 and FMA; the rest is the caller's promise.
        unsafe { _mm256_storeu_ps(to, value) }
    }
    #[inline(always)]
    fn lanes_from(self, first: i32) -> __m256i {
        // SAFETY: `self` proves AVX2.
        unsafe {
            let lanes = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7);
            _mm256_add_epi32(lanes, _mm256_set1_epi32(first))
        }
    }
    #[inline(always)]
    fn to_f32(self, a: __m256i) -> __m256 {
        // SAFETY: `self` proves AVX2 and FMA.
        unsafe { _mm256_cvtepi32_ps(a) }
    }
    #[inline(always)]
    fn min(self, a: __m256, b: __m256) -> __m256 {
        // SAFETY: `self` proves AVX2.
        unsafe { _mm256_min_ps(a, b) }
    }
    #[inline(always)]
    fn round(self, a: __m256) -> __m256i {
        // SAFETY: `self` proves AVX2 and FMA.
        unsafe { _mm256_cvtps_epi32(a) }
    }
    #[inline(always)]
    fn splat_i16(self, value: i16) -> __m256i {
        // SAFETY: `self` proves AVX2 and FMA.
        unsafe { _mm256_set1_epi16(value) }
    }
    #[inline(always)]
    fn splat_i32(self, value: i32) -> __m256i {
        // SAFETY: `self` proves AVX2 and FMA.
        unsafe { _mm256_set1_epi32(value) }
    }
    #[inline(always)]
    fn splat_pairs(self, first: i16, second: i16) -> __m256i {
        // SAFETY: `self` proves AVX2 and FMA.
        unsafe { _mm256_set1_epi32(i32::from(first as u16) | i32::from(second) << 16) }
    }
    #[inline(always)]
    unsafe fn load_bytes(self, from: *const u8) -> __m256i {
        // SAFETY: `self` proves AVX2 and FMA; the rest is the caller's promise.
        unsafe { _mm256_loadu_si256(from.cast()) }
    }
    #[inline(always)]
    unsafe fn store_bytes(self, to: *mut u8, value: __m256i) {
        // SAFETY: `self` proves AVX2 and FMA; the rest is the caller's promise.
        unsafe { _mm256_storeu_si256(to.cast(), value) }
    }
    #[inline(always)]
    fn zip8(self, a: __m256i, b: __m256i) -> (__m256i, __m256i) {
        // SAFETY: `self` proves AVX2 and FMA.
        unsafe { (_mm256_unpacklo_epi8(a, b), _mm256_unpackhi_epi8(a, b)) }
    }
    #[inline(always)]
    fn zip16(self, a: __m256i, b: __m256i) -> (__m256i, __m256i) {
        // SAFETY: `self` proves AVX2 and FMA.
        unsafe { (_mm256_unpacklo_epi16(a, b), _mm256_unpackhi_epi16(a, b)) }
    }
    #[inline(always)]
    fn mul_pairs8(self, a: __m256i, b: __m256i) -> __m256i {
        // SAFETY: `self` proves AVX2 and FMA.
        unsafe { _mm256_maddubs_epi16(a, b) }
    }
    #[inline(always)]
    fn mul_pairs16(self, a: __m256i, b: __m256i) -> __m256i {
        // SAFETY: `self` proves AVX2 and FMA.
        unsafe { _mm256_madd_epi16(a, b) }
    }
    #[inline(always)]
    fn add16(self, a: __m256i, b: __m256i) -> __m256i {
        // SAFETY: `self` proves AVX2 and FMA.
        unsafe { _mm256_add_epi16(a, b) }
    }
    #[inline(always)]
    fn mul16(self, a: __m256i, b: __m256i) -> __m256i {
        // SAFETY: `self` proves AVX2 and FMA.
        unsafe { _mm256_mullo_epi16(a, b) }
    }
    #[inline(always)]
    fn mul_high16(self, a: __m256i, b: __m256i) -> __m256i {
        // SAFETY: `self` proves AVX2 and FMA.
        unsafe { _mm256_mulhi_epu16(a, b) }
    }
    #[inline(always)]
    fn shift_right16(self, a: __m256i, bits: u32) -> __m256i {
        // SAFETY: `self` proves AVX2 and FMA.
        unsafe { _mm256_srl_epi16(a, _mm_cvtsi32_si128(bits as i32)) }
    }
    #[inline(always)]
    fn round_shift16(self, a_plus_half: __m256i, bits: u32) -> __m256i {
        // SAFETY: `self` proves AVX2.
        unsafe {
            let rest = _mm256_set1_epi16(((1u16 << bits) - 1) as i16);
            let rest = _mm256_and_si256(a_plus_half, rest);
            let tie = _mm256_cmpeq_epi16(rest, _mm256_setzero_si256());
            let up = self.shift_right16(a_plus_half, bits);
            // The sum of a tie is the upper of two neighbours: the even one is without its 1.
            _mm256_andnot_si256(_mm256_srli_epi16(tie, 15), up)
        }
    }
    #[inline(always)]
    fn add32(self, a: __m256i, b: __m256i) -> __m256i {
        // SAFETY: `self` proves AVX2 and FMA.
        unsafe { _mm256_add_epi32(a, b) }
    }
    #[inline(always)]
    fn pack32(self, low: __m256i, high: __m256i) -> __m256i {
        // SAFETY: `self` proves AVX2 and FMA.
        unsafe { _mm256_packs_epi32(low, high) }
    }
    #[inline(always)]
    fn pack16(self, low: __m256i, high: __m256i) -> __m256i {
        // SAFETY: `self` proves AVX2 and FMA.
        unsafe { _mm256_packus_epi16(low, high) }
    }
    #[inline(always)]
    fn bytes(self, [a, b, c, d]: [__m256i; 4]) -> __m256i {
        // SAFETY: `self` proves AVX2.
        unsafe {
            let (first, second) = (_mm256_packs_epi32(a, b), _mm256_packs_epi32(c, d));
            // Each 16-byte lane has 4 bytes of each.
            let lanes = _mm256_packus_epi16(first, second);
            _mm256_permutevar8x32_epi32(lanes, _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7))
        }
    }
    #[inline(always)]
    fn words(self, [a, b]: [__m256i; 2]) -> __m256i {
        // SAFETY: `self` proves AVX2.
        unsafe { _mm256_permute4x64_epi64(_mm256_packus_epi32(a, b), 0b11_01_10_00) }
    }
    #[inline(always)]
    fn shift_left16(self, a: __m256i, bits: u32) -> __m256i {
        // SAFETY: `self` proves AVX2.
        unsafe { _mm256_sll_epi16(a, _mm_cvtsi32_si128(bits as i32)) }
    }
    #[inline(always)]
    fn or(self, a: __m256i, b: __m256i) -> __m256i {
        // SAFETY: `self` proves AVX2.
        unsafe { _mm256_or_si256(a, b) }
    }
}
