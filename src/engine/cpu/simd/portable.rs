//! Arrays, for the compiler to make of what it can.

use super::{Simd, exp2_of};

#[derive(Debug, Clone, Copy)]
pub struct Portable;

type F32 = [f32; 4];
type Bytes = [u8; 16];

#[inline(always)]
fn to16(bytes: Bytes) -> [i16; 8] {
    std::array::from_fn(|i| i16::from_ne_bytes([bytes[2 * i], bytes[2 * i + 1]]))
}

#[inline(always)]
fn from16(values: [i16; 8]) -> Bytes {
    std::array::from_fn(|i| values[i / 2].to_ne_bytes()[i % 2])
}

#[inline(always)]
fn to32(bytes: Bytes) -> [i32; 4] {
    std::array::from_fn(|i| i32::from_ne_bytes(std::array::from_fn(|byte| bytes[4 * i + byte])))
}

#[inline(always)]
fn from32(values: [i32; 4]) -> Bytes {
    std::array::from_fn(|i| values[i / 4].to_ne_bytes()[i % 4])
}

#[inline(always)]
fn map16(a: Bytes, b: Bytes, f: impl Fn(i16, i16) -> i16) -> Bytes {
    let (a, b) = (to16(a), to16(b));
    from16(std::array::from_fn(|i| f(a[i], b[i])))
}

impl Simd for Portable {
    type F32 = F32;
    type Int = Bytes;
    const LANES: usize = 4;

    #[inline(always)]
    fn splat(self, value: f32) -> F32 {
        [value; 4]
    }
    #[inline(always)]
    fn add(self, a: F32, b: F32) -> F32 {
        std::array::from_fn(|i| a[i] + b[i])
    }
    #[inline(always)]
    fn sub(self, a: F32, b: F32) -> F32 {
        std::array::from_fn(|i| a[i] - b[i])
    }
    #[inline(always)]
    fn abs(self, a: F32) -> F32 {
        a.map(f32::abs)
    }
    #[inline(always)]
    fn exp2(self, a: F32) -> F32 {
        a.map(exp2_of)
    }
    #[inline(always)]
    fn mul(self, a: F32, b: F32) -> F32 {
        std::array::from_fn(|i| a[i] * b[i])
    }
    #[inline(always)]
    fn div(self, a: F32, b: F32) -> F32 {
        std::array::from_fn(|i| a[i] / b[i])
    }
    #[inline(always)]
    fn sqrt(self, a: F32) -> F32 {
        a.map(f32::sqrt)
    }
    #[inline(always)]
    fn mul_add(self, a: F32, b: F32, c: F32) -> F32 {
        std::array::from_fn(|i| a[i].mul_add(b[i], c[i]))
    }
    #[inline(always)]
    unsafe fn load(self, from: *const f32) -> F32 {
        // SAFETY: the caller's promise.
        unsafe { from.cast::<F32>().read() }
    }
    #[inline(always)]
    unsafe fn store(self, to: *mut f32, value: F32) {
        // SAFETY: the caller's promise.
        unsafe { to.cast::<F32>().write(value) }
    }
    #[inline(always)]
    fn lanes_from(self, first: i32) -> Bytes {
        from32(std::array::from_fn(|i| first + i as i32))
    }
    #[inline(always)]
    fn to_f32(self, a: Bytes) -> F32 {
        to32(a).map(|value| value as f32)
    }
    #[inline(always)]
    fn min(self, a: F32, b: F32) -> F32 {
        std::array::from_fn(|i| if a[i] < b[i] { a[i] } else { b[i] })
    }
    #[inline(always)]
    fn round(self, a: F32) -> Bytes {
        from32(a.map(|value| value.round_ties_even() as i32))
    }
    #[inline(always)]
    fn splat_i16(self, value: i16) -> Bytes {
        from16([value; 8])
    }
    #[inline(always)]
    fn splat_i32(self, value: i32) -> Bytes {
        from32([value; 4])
    }
    #[inline(always)]
    fn splat_pairs(self, first: i16, second: i16) -> Bytes {
        from16(std::array::from_fn(
            |i| if i % 2 == 0 { first } else { second },
        ))
    }
    #[inline(always)]
    unsafe fn load_bytes(self, from: *const u8) -> Bytes {
        // SAFETY: the caller's promise.
        unsafe { from.cast::<Bytes>().read() }
    }
    #[inline(always)]
    unsafe fn store_bytes(self, to: *mut u8, value: Bytes) {
        // SAFETY: the caller's promise.
        unsafe { to.cast::<Bytes>().write(value) }
    }
    #[inline(always)]
    fn zip8(self, a: Bytes, b: Bytes) -> (Bytes, Bytes) {
        let zip = |from: usize| -> Bytes {
            std::array::from_fn(|i| {
                if i % 2 == 0 {
                    a[from + i / 2]
                } else {
                    b[from + i / 2]
                }
            })
        };
        (zip(0), zip(8))
    }
    #[inline(always)]
    fn zip16(self, a: Bytes, b: Bytes) -> (Bytes, Bytes) {
        let (a, b) = (to16(a), to16(b));
        let zip = |from: usize| {
            from16(std::array::from_fn(|i| {
                if i % 2 == 0 {
                    a[from + i / 2]
                } else {
                    b[from + i / 2]
                }
            }))
        };
        (zip(0), zip(4))
    }
    #[inline(always)]
    fn mul_pairs8(self, a: Bytes, b: Bytes) -> Bytes {
        let product = |i: usize| i32::from(a[i]) * i32::from(b[i] as i8);
        from16(std::array::from_fn(|i| {
            let sum = product(2 * i) + product(2 * i + 1);
            sum.clamp(i16::MIN.into(), i16::MAX.into()) as i16
        }))
    }
    #[inline(always)]
    fn mul_pairs16(self, a: Bytes, b: Bytes) -> Bytes {
        let (a, b) = (to16(a), to16(b));
        let product = |i: usize| i32::from(a[i]) * i32::from(b[i]);
        from32(std::array::from_fn(|i| {
            product(2 * i).wrapping_add(product(2 * i + 1))
        }))
    }
    #[inline(always)]
    fn add16(self, a: Bytes, b: Bytes) -> Bytes {
        map16(a, b, i16::wrapping_add)
    }
    #[inline(always)]
    fn mul16(self, a: Bytes, b: Bytes) -> Bytes {
        map16(a, b, i16::wrapping_mul)
    }
    #[inline(always)]
    fn mul_high16(self, a: Bytes, b: Bytes) -> Bytes {
        map16(a, b, |a, b| {
            ((u32::from(a as u16) * u32::from(b as u16)) >> 16) as i16
        })
    }
    #[inline(always)]
    fn shift_right16(self, a: Bytes, bits: u32) -> Bytes {
        from16(to16(a).map(|value| ((value as u16) >> bits) as i16))
    }
    #[inline(always)]
    fn round_shift16(self, a_plus_half: Bytes, bits: u32) -> Bytes {
        from16(to16(a_plus_half).map(|value| {
            let (value, mask) = (value as u16, (1u16 << bits) - 1);
            let tie = u16::from(value & mask == 0);
            ((value >> bits) & !tie) as i16
        }))
    }
    #[inline(always)]
    fn add32(self, a: Bytes, b: Bytes) -> Bytes {
        let (a, b) = (to32(a), to32(b));
        from32(std::array::from_fn(|i| a[i].wrapping_add(b[i])))
    }
    #[inline(always)]
    fn pack32(self, low: Bytes, high: Bytes) -> Bytes {
        let (low, high) = (to32(low), to32(high));
        from16(std::array::from_fn(|i| {
            let value = if i < 4 { low[i] } else { high[i - 4] };
            value.clamp(i16::MIN.into(), i16::MAX.into()) as i16
        }))
    }
    #[inline(always)]
    fn pack16(self, low: Bytes, high: Bytes) -> Bytes {
        let (low, high) = (to16(low), to16(high));
        std::array::from_fn(|i| {
            let value = if i < 8 { low[i] } else { high[i - 8] };
            value.clamp(0, 255) as u8
        })
    }
    #[inline(always)]
    fn bytes(self, a: [Bytes; 4]) -> Bytes {
        std::array::from_fn(|i| to32(a[i / 4])[i % 4].clamp(0, 255) as u8)
    }
    #[inline(always)]
    fn words(self, a: [Bytes; 2]) -> Bytes {
        from16(std::array::from_fn(|i| {
            to32(a[i / 4])[i % 4].clamp(0, 65535) as i16
        }))
    }
    #[inline(always)]
    fn shift_left16(self, a: Bytes, bits: u32) -> Bytes {
        from16(to16(a).map(|value| value << bits))
    }
    #[inline(always)]
    fn or(self, a: Bytes, b: Bytes) -> Bytes {
        std::array::from_fn(|i| a[i] | b[i])
    }
}
