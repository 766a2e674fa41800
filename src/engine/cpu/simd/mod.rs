//! The vector operations that are written by hand; all else is plain loops that the compiler turns
//! into vectors (see [`for_each_isa`](super::isa::for_each_isa)).
//!
//! A value of one of the types is the proof that the machine has the instructions, since only
//! `detect` makes one. Every method is inlined into code that was compiled with them enabled.

#[cfg(target_arch = "x86_64")]
mod avx2;
#[cfg(target_arch = "x86_64")]
mod avx512;
mod portable;
#[cfg(target_arch = "x86_64")]
mod vbmi;

#[cfg(target_arch = "x86_64")]
pub use avx2::Avx2;
#[cfg(target_arch = "x86_64")]
pub use avx512::Avx512;
pub use portable::Portable;
#[cfg(target_arch = "x86_64")]
pub use vbmi::{ByteRow, Segment, TapGroup, Vbmi, bilateral_bytes_row};

/// The most bytes that a vector has.
pub const MAX_BYTES: usize = 64;

/// Coefficients of the polynomial of degree 5 whose relative distance from `2^x` is least over
/// -0.5 to 0.5: 7.5e-8, and 2.2e-7 as float32 evaluates it. Found by the Remez exchange.
const EXP2: [f32; 6] = [
    1.000_000_1,
    0.693_146_94,
    0.240_221_2,
    0.055_507_13,
    0.009_675_541,
    0.001_327_647_2,
];

/// Added to and taken from a number of magnitude below 2^22 it rounds it to a whole number, which
/// is in the low bits in between.
const ROUNDING: f32 = 12_582_912.0;

/// Exponents below give the smallest normal numbers, near enough to 0 for a weight.
const LEAST_EXPONENT: f32 = -126.0;

/// `2^a` of `a` up to 0 to a relative 2.2e-7: a whole number of exponent, and the polynomial of the
/// rest.
#[inline(always)]
pub fn exp2_of(a: f32) -> f32 {
    let a = if a > LEAST_EXPONENT {
        a
    } else {
        LEAST_EXPONENT
    };
    let rounded = a + ROUNDING;
    let rest = a - (rounded - ROUNDING);
    let power = EXP2
        .iter()
        .rev()
        .fold(0.0, |sum: f32, c| sum.mul_add(rest, *c));
    f32::from_bits(power.to_bits().wrapping_add(rounded.to_bits() << 23))
}

/// Vectors of one instruction set. Integer operations work within 16-byte lanes, as x86's do:
/// `low` and `high` are the halves of each lane, and packing two vectors that came from unpacking
/// one restores the order.
pub trait Simd: Copy {
    /// `LANES` float32.
    type F32: Copy;
    /// `BYTES` bytes, or half as many 16-bit or a quarter as many 32-bit integers.
    type Int: Copy;
    const LANES: usize;
    const BYTES: usize = 4 * Self::LANES;
    /// Whether [`permute`](Self::permute) is one instruction.
    const PERMUTES: bool = false;

    fn splat(self, value: f32) -> Self::F32;
    fn add(self, a: Self::F32, b: Self::F32) -> Self::F32;
    fn sub(self, a: Self::F32, b: Self::F32) -> Self::F32;
    fn mul(self, a: Self::F32, b: Self::F32) -> Self::F32;
    fn abs(self, a: Self::F32) -> Self::F32;
    /// `2^a` of `a` up to 0, as [`exp2_of`] does.
    fn exp2(self, a: Self::F32) -> Self::F32;
    fn div(self, a: Self::F32, b: Self::F32) -> Self::F32;
    fn sqrt(self, a: Self::F32) -> Self::F32;
    /// `a * b + c`, rounded once.
    fn mul_add(self, a: Self::F32, b: Self::F32, c: Self::F32) -> Self::F32;
    /// # Safety
    /// `LANES` values can be read at `from`, aligned as f32.
    unsafe fn load(self, from: *const f32) -> Self::F32;
    /// # Safety
    /// `LANES` values can be written at `to`, aligned as f32.
    unsafe fn store(self, to: *mut f32, value: Self::F32);
    /// 32-bit integers `first`, `first + 1` and so on.
    fn lanes_from(self, first: i32) -> Self::Int;
    /// Of the lanes of `low` followed by those of `high` the ones that the 32-bit integers of
    /// `lanes` name.
    #[inline(always)]
    fn permute(self, low: Self::F32, high: Self::F32, lanes: Self::Int) -> Self::F32 {
        let (mut from, mut to, mut names) = ([0.0; 32], [0.0; 16], [0u8; MAX_BYTES]);
        const { assert!(Self::LANES <= 16) };
        // SAFETY: the arrays have room for two vectors, for one, and for the bytes of one.
        unsafe {
            self.store(from.as_mut_ptr(), low);
            self.store(from.as_mut_ptr().add(Self::LANES), high);
            self.store_bytes(names.as_mut_ptr(), lanes);
        }
        for (to, name) in to.iter_mut().zip(names.as_chunks::<4>().0) {
            *to = from[i32::from_ne_bytes(*name) as usize % from.len()];
        }
        // SAFETY: a vector fits into `to`.
        unsafe { self.load(to.as_ptr()) }
    }
    /// 32-bit integers to float32.
    fn to_f32(self, a: Self::Int) -> Self::F32;
    /// `a` where it is less than `b`, else `b`, which may be NaN.
    fn min(self, a: Self::F32, b: Self::F32) -> Self::F32;
    /// Float32 to 32-bit integers, half to even; what is below -2^31 becomes negative or, if NaN, 0 or
    /// negative. None is to be above 2^31.
    fn round(self, a: Self::F32) -> Self::Int;

    fn splat_i16(self, value: i16) -> Self::Int;
    /// Pairs of bytes `[first, second]` all over.
    #[inline(always)]
    fn splat_bytes(self, first: i8, second: i8) -> Self::Int {
        self.splat_i16(i16::from_ne_bytes([first as u8, second as u8]))
    }
    fn splat_i32(self, value: i32) -> Self::Int;
    /// Pairs of 16-bit integers `[first, second]` all over.
    fn splat_pairs(self, first: i16, second: i16) -> Self::Int;
    /// # Safety
    /// `BYTES` bytes can be read at `from`.
    unsafe fn load_bytes(self, from: *const u8) -> Self::Int;
    /// # Safety
    /// `BYTES` bytes can be written at `to`.
    unsafe fn store_bytes(self, to: *mut u8, value: Self::Int);
    /// Bytes of `a` and `b` in turn: those of the low halves, and those of the high halves.
    fn zip8(self, a: Self::Int, b: Self::Int) -> (Self::Int, Self::Int);
    /// As [`zip8`](Self::zip8) of 16-bit integers.
    fn zip16(self, a: Self::Int, b: Self::Int) -> (Self::Int, Self::Int);
    /// Sums of the products of neighbouring unsigned bytes of `a` and signed bytes of `b`, in 16
    /// bits with saturation.
    fn mul_pairs8(self, a: Self::Int, b: Self::Int) -> Self::Int;
    /// Sums of the products of neighbouring 16-bit integers of `a` and `b`, in 32 bits.
    fn mul_pairs16(self, a: Self::Int, b: Self::Int) -> Self::Int;
    fn add16(self, a: Self::Int, b: Self::Int) -> Self::Int;
    /// The low 16 bits of the products.
    fn mul16(self, a: Self::Int, b: Self::Int) -> Self::Int;
    /// The high 16 bits of the products of unsigned integers.
    fn mul_high16(self, a: Self::Int, b: Self::Int) -> Self::Int;
    fn shift_right16(self, a: Self::Int, bits: u32) -> Self::Int;
    /// `a` as unsigned 16-bit integers, less half of 2^bits, divided by 2^bits, half to even.
    fn round_shift16(self, a_plus_half: Self::Int, bits: u32) -> Self::Int;
    fn add32(self, a: Self::Int, b: Self::Int) -> Self::Int;
    /// 32-bit integers to signed 16-bit ones with saturation, of `low` and then `high` in each lane.
    fn pack32(self, low: Self::Int, high: Self::Int) -> Self::Int;
    /// Signed 16-bit integers to unsigned bytes with saturation, of `low` and then `high` in each
    /// lane.
    fn pack16(self, low: Self::Int, high: Self::Int) -> Self::Int;
    /// 32-bit integers to unsigned bytes with saturation, in order across the lanes.
    fn bytes(self, a: [Self::Int; 4]) -> Self::Int;
    /// 32-bit integers to unsigned 16-bit ones with saturation, in order across the lanes.
    fn words(self, a: [Self::Int; 2]) -> Self::Int;
    fn shift_left16(self, a: Self::Int, bits: u32) -> Self::Int;
    /// 16-bit integers with their bytes exchanged.
    #[inline(always)]
    fn swap_bytes16(self, a: Self::Int) -> Self::Int {
        let (low, high) = (self.shift_right16(a, 8), self.shift_left16(a, 8));
        self.or(low, high)
    }
    fn or(self, a: Self::Int, b: Self::Int) -> Self::Int;
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The way of all that have no instruction for it.
    #[test]
    fn permuting_takes_lanes_of_two_vectors() {
        let simd = Portable;
        let lanes = simd.lanes_from(3);
        let permuted = simd.permute([0.0, 1.0, 2.0, 3.0], [4.0, 5.0, 6.0, 7.0], lanes);
        assert_eq!(permuted, [3.0, 4.0, 5.0, 6.0]);
    }
}
