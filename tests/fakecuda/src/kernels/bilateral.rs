//! The bilateral.

use super::image::Picture;
use crate::abi::{BilateralLaunch, TRANSPARENT, columns, distance};
use crate::violation;

/// Puts the exponents in a launch, which are by columns, by rows.
pub fn put_by_rows(launch: &mut BilateralLaunch) {
    let radius = (launch.radius_x as usize, launch.radius_y as usize);
    let Some(rows) = columns::to_rows(&launch.inline_weights, radius) else {
        violation!("exponents that are not those of columns, radii {radius:?}");
    };
    launch.inline_weights[..rows.len()].copy_from_slice(&rows);
}

/// A bilateral, with its exponents where the kernel reads them.
pub struct Bilateral<'a> {
    launch: &'a BilateralLaunch,
    exponents: &'a [f32],
}

/// What one channel is filtered with.
pub struct Inputs<'a> {
    /// The channel itself.
    pub own: &'a Picture,
    /// The channels whose differences make the weight.
    pub joint: Vec<&'a Picture>,
    /// The alpha that the pictures above are multiplied by.
    pub alpha: Option<&'a Picture>,
}

impl<'a> Bilateral<'a> {
    pub fn new(launch: &'a BilateralLaunch, exponents: &'a [f32]) -> Self {
        Bilateral { launch, exponents }
    }

    pub fn margin(&self) -> (usize, usize) {
        (self.launch.radius_x as usize, self.launch.radius_y as usize)
    }

    /// The result of every sample before its offset, row by row.
    pub fn filter(&self, inputs: &Inputs, width: usize, height: usize) -> Vec<f32> {
        let rows = 0..height as isize;
        let samples = rows.flat_map(|y| (0..width as isize).map(move |x| (x, y)));
        samples.map(|at| self.at(inputs, at)).collect()
    }

    fn at(&self, inputs: &Inputs, (x, y): (isize, isize)) -> f32 {
        // Of premultiplied values themselves, else of differences from the centre.
        let centre = inputs.own.at(x, y);
        let mut sum = inputs.alpha.map_or(0.0, |_| centre);
        let mut alpha_sum = inputs.alpha.map_or(0.0, |alpha| alpha.at(x, y));
        let mut weights = 1.0f32;
        let colour = match inputs.alpha {
            None => self.launch.color,
            Some(_) => self.launch.color_premultiplied,
        };
        for (dx, dy, exponent) in self.window() {
            let there = |picture: &Picture| picture.at(x + dx, y + dy);
            let difference = |picture: &Picture| there(picture) - picture.at(x, y);
            let differences = inputs.joint.iter().map(|picture| difference(picture));
            let squared = if self.launch.distance == distance::L1 {
                differences.map(f32::abs).sum::<f32>().powi(2)
            } else {
                differences.map(|d| d * d).sum()
            };
            let weight = squared.mul_add(colour, exponent).exp2();
            weights += weight;
            if let Some(alpha) = inputs.alpha {
                sum = weight.mul_add(there(inputs.own), sum);
                alpha_sum = weight.mul_add(there(alpha), alpha_sum);
            } else {
                sum = weight.mul_add(difference(inputs.own), sum);
            }
        }
        match inputs.alpha {
            None => centre + sum / weights,
            Some(_) if alpha_sum / weights * TRANSPARENT as f32 >= 1.0 => sum / alpha_sum,
            Some(_) => 0.0,
        }
    }

    /// Offset and exponent of every sample of the window but the centre, row by row.
    fn window(&self) -> impl Iterator<Item = (isize, isize, f32)> + '_ {
        let columns = self.launch.radius_x as usize + 1;
        let radius = self.launch.radius_y as isize;
        (-radius..=radius).flat_map(move |dy| {
            let down = dy.unsigned_abs();
            let span = self.launch.spans[down] as isize;
            (-span..=span)
                .filter(move |dx| (*dx, dy) != (0, 0))
                .map(move |dx| (dx, dy, self.exponents[down * columns + dx.unsigned_abs()]))
        })
    }
}
