//! AVX-512 F, BW, DQ and VL, with all of AVX2 (Skylake-X, Zen 4 and later).

use std::arch::x86_64::*;

use super::{EXP2, LEAST_EXPONENT, ROUNDING, Simd};

#[derive(Debug, Clone, Copy)]
pub struct Avx512(());

impl Avx512 {
    pub fn detect() -> Option<Avx512> {
        (super::Avx2::detect().is_some()
            && is_x86_feature_detected!("avx512f")
            && is_x86_feature_detected!("avx512bw")
            && is_x86_feature_detected!("avx512dq")
            && is_x86_feature_detected!("avx512vl"))
        .then_some(Avx512(()))
    }
}

impl Simd for Avx512 {
    type F32 = __m512;
    type Int = __m512i;
    const LANES: usize = 16;
    const PERMUTES: bool = true;

    #[inline(always)]
    fn splat(self, value: f32) -> __m512 {
        // SAFETY: `self` proves AVX-512.
        unsafe { _mm512_set1_ps(value) }
    }
    #[inline(always)]
    fn add(self, a: __m512, b: __m512) -> __m512 {
        // SAFETY: `self` proves AVX-512.
        unsafe { _mm512_add_ps(a, b) }
    }
    #[inline(always)]
    fn sub(self, a: __m512, b: __m512) -> __m512 {
        // SAFETY: `self` proves AVX-512.
        unsafe { _mm512_sub_ps(a, b) }
    }
    #[inline(always)]
    fn abs(self, a: __m512) -> __m512 {
        // SAFETY: `self` proves AVX-512.
        unsafe { _mm512_andnot_ps(_mm512_set1_ps(-0.0), a) }
    }
    #[inline(always)]
    fn exp2(self, a: __m512) -> __m512 {
        // SAFETY: `self` proves AVX-512.
        unsafe {
            let a = _mm512_max_ps(a, _mm512_set1_ps(LEAST_EXPONENT));
            let rounded = _mm512_add_ps(a, _mm512_set1_ps(ROUNDING));
            let rest = _mm512_sub_ps(a, _mm512_sub_ps(rounded, _mm512_set1_ps(ROUNDING)));
            let mut power = _mm512_set1_ps(EXP2[5]);
            power = _mm512_fmadd_ps(power, rest, _mm512_set1_ps(EXP2[4]));
            power = _mm512_fmadd_ps(power, rest, _mm512_set1_ps(EXP2[3]));
            power = _mm512_fmadd_ps(power, rest, _mm512_set1_ps(EXP2[2]));
            power = _mm512_fmadd_ps(power, rest, _mm512_set1_ps(EXP2[1]));
            power = _mm512_fmadd_ps(power, rest, _mm512_set1_ps(EXP2[0]));
            let exponent = _mm512_slli_epi32(_mm512_castps_si512(rounded), 23);
            _mm512_castsi512_ps(_mm512_add_epi32(_mm512_castps_si512(power), exponent))
        }
    }
    #[inline(always)]
    fn mul(self, a: __m512, b: __m512) -> __m512 {
        // SAFETY: `self` proves AVX-512.
        unsafe { _mm512_mul_ps(a, b) }
    }
    #[inline(always)]
    fn div(self, a: __m512, b: __m512) -> __m512 {
        // SAFETY: `self` proves AVX-512.
        unsafe { _mm512_div_ps(a, b) }
    }
    #[inline(always)]
    fn sqrt(self, a: __m512) -> __m512 {
        // SAFETY: `self` proves AVX-512.
        unsafe { _mm512_sqrt_ps(a) }
    }
    #[inline(always)]
    fn mul_add(self, a: __m512, b: __m512, c: __m512) -> __m512 {
        // SAFETY: `self` proves AVX-512.
        unsafe { _mm512_fmadd_ps(a, b, c) }
    }
    #[inline(always)]
    unsafe fn load(self, from: *const f32) -> __m512 {
        // SAFETY: `self` proves AVX-512; the rest is the caller's promise.
        unsafe { _mm512_loadu_ps(from) }
    }
    #[inline(always)]
    unsafe fn store(self, to: *mut f32, value: __m512) {
        // SAFETY: `self` proves AVX-512; the rest is the caller's promise.
        unsafe { _mm512_storeu_ps(to, value) }
    }
    #[inline(always)]
    fn lanes_from(self, first: i32) -> __m512i {
        // SAFETY: `self` proves AVX-512.
        unsafe {
            let lanes = _mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
            _mm512_add_epi32(lanes, _mm512_set1_epi32(first))
        }
    }
    #[inline(always)]
    fn permute(self, low: __m512, high: __m512, lanes: __m512i) -> __m512 {
        // SAFETY: `self` proves AVX-512.
        unsafe { _mm512_permutex2var_ps(low, lanes, high) }
    }
    #[inline(always)]
    fn to_f32(self, a: __m512i) -> __m512 {
        // SAFETY: `self` proves AVX-512.
        unsafe { _mm512_cvtepi32_ps(a) }
    }
    #[inline(always)]
    fn min(self, a: __m512, b: __m512) -> __m512 {
        // SAFETY: `self` proves AVX-512.
        unsafe { _mm512_min_ps(a, b) }
    }
    #[inline(always)]
    fn round(self, a: __m512) -> __m512i {
        // SAFETY: `self` proves AVX-512.
        unsafe { _mm512_cvtps_epi32(a) }
    }
    #[inline(always)]
    fn splat_i16(self, value: i16) -> __m512i {
        // SAFETY: `self` proves AVX-512.
        unsafe { _mm512_set1_epi16(value) }
    }
    #[inline(always)]
    fn splat_i32(self, value: i32) -> __m512i {
        // SAFETY: `self` proves AVX-512.
        unsafe { _mm512_set1_epi32(value) }
    }
    #[inline(always)]
    fn splat_pairs(self, first: i16, second: i16) -> __m512i {
        // SAFETY: `self` proves AVX-512.
        unsafe { _mm512_set1_epi32(i32::from(first as u16) | i32::from(second) << 16) }
    }
    #[inline(always)]
    unsafe fn load_bytes(self, from: *const u8) -> __m512i {
        // SAFETY: `self` proves AVX-512; the rest is the caller's promise.
        unsafe { _mm512_loadu_si512(from.cast()) }
    }
    #[inline(always)]
    unsafe fn store_bytes(self, to: *mut u8, value: __m512i) {
        // SAFETY: `self` proves AVX-512; the rest is the caller's promise.
        unsafe { _mm512_storeu_si512(to.cast(), value) }
    }
    #[inline(always)]
    fn zip8(self, a: __m512i, b: __m512i) -> (__m512i, __m512i) {
        // SAFETY: `self` proves AVX-512.
        unsafe { (_mm512_unpacklo_epi8(a, b), _mm512_unpackhi_epi8(a, b)) }
    }
    #[inline(always)]
    fn zip16(self, a: __m512i, b: __m512i) -> (__m512i, __m512i) {
        // SAFETY: `self` proves AVX-512.
        unsafe { (_mm512_unpacklo_epi16(a, b), _mm512_unpackhi_epi16(a, b)) }
    }
    #[inline(always)]
    fn mul_pairs8(self, a: __m512i, b: __m512i) -> __m512i {
        // SAFETY: `self` proves AVX-512.
        unsafe { _mm512_maddubs_epi16(a, b) }
    }
    #[inline(always)]
    fn mul_pairs16(self, a: __m512i, b: __m512i) -> __m512i {
        // SAFETY: `self` proves AVX-512.
        unsafe { _mm512_madd_epi16(a, b) }
    }
    #[inline(always)]
    fn add16(self, a: __m512i, b: __m512i) -> __m512i {
        // SAFETY: `self` proves AVX-512.
        unsafe { _mm512_add_epi16(a, b) }
    }
    #[inline(always)]
    fn mul16(self, a: __m512i, b: __m512i) -> __m512i {
        // SAFETY: `self` proves AVX-512.
        unsafe { _mm512_mullo_epi16(a, b) }
    }
    #[inline(always)]
    fn mul_high16(self, a: __m512i, b: __m512i) -> __m512i {
        // SAFETY: `self` proves AVX-512.
        unsafe { _mm512_mulhi_epu16(a, b) }
    }
    #[inline(always)]
    fn shift_right16(self, a: __m512i, bits: u32) -> __m512i {
        // SAFETY: `self` proves AVX-512.
        unsafe { _mm512_srl_epi16(a, _mm_cvtsi32_si128(bits as i32)) }
    }
    #[inline(always)]
    fn round_shift16(self, a_plus_half: __m512i, bits: u32) -> __m512i {
        // SAFETY: `self` proves AVX-512.
        unsafe {
            let rest = _mm512_set1_epi16(((1u16 << bits) - 1) as i16);
            let tie = _mm512_testn_epi16_mask(a_plus_half, rest);
            let up = self.shift_right16(a_plus_half, bits);
            // The sum of a tie is the upper of two neighbours: the even one is without its 1.
            _mm512_mask_blend_epi16(tie, up, _mm512_and_si512(up, _mm512_set1_epi16(!1)))
        }
    }
    #[inline(always)]
    fn add32(self, a: __m512i, b: __m512i) -> __m512i {
        // SAFETY: `self` proves AVX-512.
        unsafe { _mm512_add_epi32(a, b) }
    }
    #[inline(always)]
    fn pack32(self, low: __m512i, high: __m512i) -> __m512i {
        // SAFETY: `self` proves AVX-512.
        unsafe { _mm512_packs_epi32(low, high) }
    }
    #[inline(always)]
    fn pack16(self, low: __m512i, high: __m512i) -> __m512i {
        // SAFETY: `self` proves AVX-512.
        unsafe { _mm512_packus_epi16(low, high) }
    }
    #[inline(always)]
    fn bytes(self, [a, b, c, d]: [__m512i; 4]) -> __m512i {
        // SAFETY: `self` proves AVX-512.
        unsafe {
            let (first, second) = (_mm512_packs_epi32(a, b), _mm512_packs_epi32(c, d));
            // Each 16-byte lane has 4 bytes of each.
            let lanes = _mm512_packus_epi16(first, second);
            let order = _mm512_setr_epi32(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15);
            _mm512_permutexvar_epi32(order, lanes)
        }
    }
    #[inline(always)]
    fn words(self, [a, b]: [__m512i; 2]) -> __m512i {
        // SAFETY: `self` proves AVX-512.
        unsafe {
            let order = _mm512_setr_epi64(0, 2, 4, 6, 1, 3, 5, 7);
            _mm512_permutexvar_epi64(order, _mm512_packus_epi32(a, b))
        }
    }
    #[inline(always)]
    fn shift_left16(self, a: __m512i, bits: u32) -> __m512i {
        // SAFETY: `self` proves AVX-512.
        unsafe { _mm512_sll_epi16(a, _mm_cvtsi32_si128(bits as i32)) }
    }
    #[inline(always)]
    fn or(self, a: __m512i, b: __m512i) -> __m512i {
        // SAFETY: `self` proves AVX-512.
        unsafe { _mm512_or_si512(a, b) }
    }
}
