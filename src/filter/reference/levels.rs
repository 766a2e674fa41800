//! The definition of the bilateral by weighted levels: the full window, with the colour weight that
//! the levels make.

use super::Image;
use crate::filter::kernels::BilateralWindow;
use crate::filter::levels::Grid;
use crate::filter::spec::Border;

/// The mean of `image`, whose values are code values less `zero`, over the window.
pub fn filter(
    image: &Image,
    window: &BilateralWindow,
    border: Border,
    grid: &Grid,
    (sigma, zero): (f64, f64),
) -> Vec<f64> {
    let reach = |axis: fn(&(i32, i32, f64)) -> i32| {
        let offsets = window.offsets.iter().map(|o| axis(o).unsigned_abs());
        offsets.max().unwrap_or(0) as usize
    };
    let radius = (reach(|o| o.0), reach(|o| o.1));
    let extended = image.extended(radius, border);
    let levels: Vec<f64> = (0..grid.count)
        .map(|k| grid.first + k as f64 * grid.spacing - zero)
        .collect();
    let of_levels = |value: f64| {
        let weight = move |level: &f64| (-((value - level) / sigma).powi(2)).exp();
        levels.iter().map(weight)
    };
    let weights: Vec<f64> = extended
        .pixels
        .iter()
        .copied()
        .flat_map(of_levels)
        .collect();
    let at = |index: usize| &weights[index * grid.count..][..grid.count];
    let mut means = Vec::with_capacity(image.width * image.height);
    for y in 0..image.height {
        for x in 0..image.width {
            let centre = (y + radius.1) * extended.width + x + radius.0;
            let own = extended.pixels[centre];
            let near: Vec<(usize, f64)> = (levels.iter().zip(at(centre)).enumerate())
                .filter(|(_, (level, _))| (own - **level).abs() <= grid.reach)
                .map(|(k, (_, weight))| (k, *weight))
                .collect();
            let (mut sum, mut total) = (0.0, 0.0);
            for &(dx, dy, nearness) in window.offsets.iter().chain(&[(0, 0, 0.0)]) {
                let offset = dy as isize * extended.width as isize + dx as isize;
                let there = centre.wrapping_add_signed(offset);
                let colour = near.iter().map(|&(k, weight)| weight * at(there)[k]);
                let weight = nearness.exp() * colour.sum::<f64>();
                sum += weight * extended.pixels[there];
                total += weight;
            }
            means.push(sum / total);
        }
    }
    means
}
