//! What the kernel of the bilateral by levels gets.

use half::f16;

use super::{FAST_TAPS, FastLaunch};

/// Taps are worked on in runs of so many.
const RUN: usize = 8;

/// `taps`, filled up to whole runs.
pub fn whole_runs(taps: usize) -> usize {
    taps.next_multiple_of(RUN)
}

/// A weight as the kernel takes it: twice, in float16.
pub fn pair(weight: f32) -> u32 {
    let half = u32::from(f16::from_f32(weight).to_bits());
    half | half << 16
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
