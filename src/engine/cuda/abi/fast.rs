//! What the kernel of the bilateral by levels gets.

use half::f16;

use super::{FAST_TAPS, FastLaunch};

/// A weight as the kernel takes it: in float16.
fn word(weight: f32) -> u32 {
    u32::from(f16::from_f32(weight).to_bits())
}

impl FastLaunch {
    /// Takes the weights across and down, each 2 · radius + 1.
    ///
    /// # Panics
    /// When they are too many.
    pub fn set_weights(&mut self, horizontal: &[f32], vertical: &[f32]) {
        (self.radius_x, self.radius_y) = (horizontal.len() as u32 / 2, vertical.len() as u32 / 2);
        self.weights = [[0; FAST_TAPS]; 2];
        for (places, weights) in self.weights.iter_mut().zip([horizontal, vertical]) {
            for (place, &weight) in places[..weights.len()].iter_mut().zip(weights) {
                *place = word(weight);
            }
        }
    }
}
