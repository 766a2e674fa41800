//! What the kernel of the bilateral by levels gets.

use super::{FAST_TAPS, FastLaunch};

/// Taps are worked on in runs of so many.
const RUN: usize = 8;

/// `taps`, filled up to whole runs.
pub fn whole_runs(taps: usize) -> usize {
    taps.next_multiple_of(RUN)
}

/// The float16 nearest to `value`, half to even; 0 to 1.
fn nearest_half(value: f32) -> u16 {
    /// The distance of denormals, and the smallest normal number.
    const STEP: f32 = 1.0 / 16_777_216.0;
    const NORMAL: f32 = 1024.0 * STEP;
    if value < NORMAL {
        return (value / STEP).round_ties_even() as u16;
    }
    // Of the 23 bits of the fraction 10 stay. The exponent, whose bias is 15 for 127, takes what a
    // fraction that is rounded up to 1 carries.
    let bits = value.to_bits() - (112 << 23);
    let (kept, lost) = (bits >> 13, bits & 0x1fff);
    let up = lost > 0x1000 || (lost == 0x1000 && kept & 1 == 1);
    (kept + u32::from(up)) as u16
}

/// A weight as the kernel takes it: twice, in float16.
pub fn pair(weight: f32) -> u32 {
    let half = u32::from(nearest_half(weight));
    half | half << 16
}

/// The value of a float16 that is not negative and finite.
pub fn value_of(half: u32) -> f32 {
    let fraction = (half & 0x3ff) as f32 / 1024.0;
    match half >> 10 {
        0 => fraction / 16384.0,
        exponent => (1.0 + fraction) * (exponent as f32 - 15.0).exp2(),
    }
}

impl FastLaunch {
    /// Takes the weights across and down, each 2 · radius + 1.
    ///
    /// # Panics
    /// When they are too many.
    pub fn set_weights(&mut self, horizontal: &[f32], vertical: &[f32]) {
        (self.radius_x, self.radius_y) = (horizontal.len() as u32 / 2, vertical.len() as u32 / 2);
        self.taps_x = whole_runs(horizontal.len()) as u32;
        self.taps_y = whole_runs(vertical.len()) as u32;
        self.weights = [[0; FAST_TAPS]; 2];
        for (places, weights) in self.weights.iter_mut().zip([horizontal, vertical]) {
            for (place, &weight) in places[..weights.len()].iter_mut().zip(weights) {
                *place = pair(weight);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn halves_are_the_nearest() {
        let half = |value: f32| pair(value) & 0xffff;
        for (value, expected) in [
            (0.0, 0),
            (1.0, 0x3c00),
            (0.5, 0x3800),
            (0.1, 0x2e66),
            (1e-7, 2),
        ] {
            assert_eq!(half(value), expected, "{value}");
        }
        // Between two, half to even; and up into the next power.
        assert_eq!(half(0.5 + 1.0 / 4096.0), 0x3800);
        assert_eq!(half(0.5 + 3.0 / 4096.0), 0x3802);
        assert_eq!(half(1.0 - 1e-5), 0x3c00);
        for half in 0..=0x3c00 {
            assert_eq!(pair(value_of(half)), half | half << 16);
        }
    }
}
