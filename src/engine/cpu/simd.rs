//! The few vector operations that are written by hand; all else is plain loops that the compiler
//! turns into vectors (see [`for_each_isa`](super::isa::for_each_isa)).
//!
//! A value of one of these types is the proof that the machine has the instructions, since only
//! `detect` makes one. Every method is inlined into code that was compiled with them enabled.

#[cfg(target_arch = "x86_64")]
use std::arch::x86_64::*;

/// Vectors of one instruction set.
pub trait Simd: Copy {
    /// `LANES` float32.
    type F32: Copy;
    const LANES: usize;

    fn splat(self, value: f32) -> Self::F32;
    /// `a * b + c`, rounded once.
    fn mul_add(self, a: Self::F32, b: Self::F32, c: Self::F32) -> Self::F32;
    /// # Safety
    /// `LANES` values can be read at `from`, aligned as f32.
    unsafe fn load(self, from: *const f32) -> Self::F32;
    /// # Safety
    /// `LANES` values can be written at `to`, aligned as f32.
    unsafe fn store(self, to: *mut f32, value: Self::F32);
}

/// Arrays, for the compiler to make of what it can.
#[derive(Debug, Clone, Copy)]
pub struct Portable;

impl Simd for Portable {
    type F32 = [f32; 4];
    const LANES: usize = 4;

    #[inline(always)]
    fn splat(self, value: f32) -> [f32; 4] {
        [value; 4]
    }
    #[inline(always)]
    fn mul_add(self, a: [f32; 4], b: [f32; 4], c: [f32; 4]) -> [f32; 4] {
        std::array::from_fn(|i| a[i].mul_add(b[i], c[i]))
    }
    #[inline(always)]
    unsafe fn load(self, from: *const f32) -> [f32; 4] {
        // SAFETY: the caller's promise.
        unsafe { from.cast::<[f32; 4]>().read() }
    }
    #[inline(always)]
    unsafe fn store(self, to: *mut f32, value: [f32; 4]) {
        // SAFETY: the caller's promise.
        unsafe { to.cast::<[f32; 4]>().write(value) }
    }
}

/// AVX2 and FMA.
#[cfg(target_arch = "x86_64")]
#[derive(Debug, Clone, Copy)]
pub struct Avx2(());

#[cfg(target_arch = "x86_64")]
impl Avx2 {
    pub fn detect() -> Option<Avx2> {
        (is_x86_feature_detected!("avx2")
            && is_x86_feature_detected!("fma")
            && is_x86_feature_detected!("bmi1")
            && is_x86_feature_detected!("bmi2"))
        .then_some(Avx2(()))
    }
}

#[cfg(target_arch = "x86_64")]
impl Simd for Avx2 {
    type F32 = __m256;
    const LANES: usize = 8;

    #[inline(always)]
    fn splat(self, value: f32) -> __m256 {
        // SAFETY: `self` proves AVX2 and FMA.
        unsafe { _mm256_set1_ps(value) }
    }
    #[inline(always)]
    fn mul_add(self, a: __m256, b: __m256, c: __m256) -> __m256 {
        // SAFETY: `self` proves AVX2 and FMA.
        unsafe { _mm256_fmadd_ps(a, b, c) }
    }
    #[inline(always)]
    unsafe fn load(self, from: *const f32) -> __m256 {
        // SAFETY: `self` proves AVX2; the rest is the caller's promise.
        unsafe { _mm256_loadu_ps(from) }
    }
    #[inline(always)]
    unsafe fn store(self, to: *mut f32, value: __m256) {
        // SAFETY: `self` proves AVX2; the rest is the caller's promise.
        unsafe { _mm256_storeu_ps(to, value) }
    }
}

/// AVX-512 F, BW, DQ and VL, with all of [`Avx2`].
#[cfg(target_arch = "x86_64")]
#[derive(Debug, Clone, Copy)]
pub struct Avx512(());

#[cfg(target_arch = "x86_64")]
impl Avx512 {
    pub fn detect() -> Option<Avx512> {
        (Avx2::detect().is_some()
            && is_x86_feature_detected!("avx512f")
            && is_x86_feature_detected!("avx512bw")
            && is_x86_feature_detected!("avx512dq")
            && is_x86_feature_detected!("avx512vl"))
        .then_some(Avx512(()))
    }
}

#[cfg(target_arch = "x86_64")]
impl Simd for Avx512 {
    type F32 = __m512;
    const LANES: usize = 16;

    #[inline(always)]
    fn splat(self, value: f32) -> __m512 {
        // SAFETY: `self` proves AVX-512.
        unsafe { _mm512_set1_ps(value) }
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
}
