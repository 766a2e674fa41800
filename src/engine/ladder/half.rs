//! Float16 (IEEE 754 binary16) as 16 bits.

/// The float16 nearest to `value`, half to even. Infinities and what is beyond the largest become
/// infinite, NaN stays NaN.
pub fn to_half(value: f32) -> u16 {
    let bits = value.to_bits();
    let sign = (bits >> 16 & 0x8000) as u16;
    if value.is_nan() {
        return sign | 0x7e00;
    }
    let magnitude = value.abs();
    // Half of the distance from the largest to what would follow it.
    if magnitude >= 65520.0 {
        return sign | 0x7c00;
    }
    // Numbers are multiples of 2^-24, from 2^-14 on of 2^-10 of their power of two.
    let exponent = ((magnitude.to_bits() >> 23) as i32 - 127).max(-14);
    let multiples = (f64::from(magnitude) * f64::from(10 - exponent).exp2()).round_ties_even();
    sign | ((exponent + 14) as u16 * 1024 + multiples as u16)
}

/// The value of a float16.
pub fn from_half(half: u16) -> f32 {
    let (exponent, fraction) = (i32::from(half >> 10 & 0x1f), f32::from(half & 0x3ff));
    let magnitude = match exponent {
        0 => fraction * (-24f32).exp2(),
        31 if fraction == 0.0 => f32::INFINITY,
        31 => f32::NAN,
        _ => (1.0 + fraction / 1024.0) * ((exponent - 15) as f32).exp2(),
    };
    if half >> 15 == 1 {
        -magnitude
    } else {
        magnitude
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_float16_is_itself() {
        for half in 0..=u16::MAX {
            let value = from_half(half);
            if value.is_nan() {
                assert!(from_half(to_half(value)).is_nan());
            } else {
                assert_eq!(to_half(value), half, "{value}");
            }
        }
    }

    #[test]
    fn what_lies_between_goes_to_the_nearest_and_halves_to_even() {
        for half in (0..0x7bffu16).step_by(7) {
            let (low, high) = (from_half(half), from_half(half + 1));
            let middle = low + (high - low) / 2.0;
            assert_eq!(to_half(middle) % 2, 0, "{middle}");
            assert_eq!(to_half(f32::from_bits(middle.to_bits() - 1)), half);
            assert_eq!(to_half(f32::from_bits(middle.to_bits() + 1)), half + 1);
        }
        assert_eq!(to_half(1.0), 0x3c00);
        assert_eq!(to_half(65519.0), 0x7bff);
        assert_eq!(to_half(65520.0), 0x7c00);
        assert_eq!(to_half(-1e9), 0xfc00);
    }
}
