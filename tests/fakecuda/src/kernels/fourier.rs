//! The spectrum of a filter by Fourier transforms, against the definition. What the kernel computes with it
//! is the correlation that the weights say.

use crate::abi::fourier::{SIDE, frequency, root};
use crate::abi::{Taps, line_length};
use crate::violation;

/// Of the table: two factors of each point, the roots of unity, and what tells whether sums are whole.
pub const BYTES: u64 = 8 * (2 * SIDE * SIDE + SIDE + 1) as u64;

/// Real and imaginary part.
type Complex = [f64; 2];

fn add(sum: &mut Complex, factor: f64, [re, im]: Complex) {
    sum[0] += factor * re;
    sum[1] += factor * im;
}

fn product(a: Complex, b: Complex) -> Complex {
    [a[0] * b[0] - a[1] * b[1], a[0] * b[1] + a[1] * b[0]]
}

/// The weights of the kernel of which `table` is the spectrum, in lines; ends the process unless it is that of a kernel of
/// the size of `taps`, of whole numbers where it says so.
pub fn weights(taps: &Taps, table: &[f32]) -> Vec<f32> {
    let (width, height) = (taps.width as usize, taps.height as usize);
    let line = line_length(width);
    let roots: Vec<Complex> = (0..SIDE).map(|n| root(n, SIDE)).collect();
    let whole = match table[BYTES as usize / 4 - 2..] {
        [0.0, 0.0] => false,
        [1.0, 0.0] => true,
        _ => violation!("{:?} for whole sums", &table[BYTES as usize / 4 - 2..]),
    };
    let response = response(table, &roots);
    let mut weights = vec![0.0; line * height];
    for (y, line) in weights.chunks_exact_mut(line).enumerate() {
        for (x, weight) in line[..width].iter_mut().enumerate() {
            // Real parts are those of even columns; imaginary ones those of the odd columns before.
            let value = response[y * SIDE + x.div_ceil(2)][x % 2];
            *weight = if whole { value.round() } else { value } as f32;
        }
    }
    check(&weights, (width, height), table, &roots);
    weights
}

/// What the kernel of `table` makes of a picture of one sample, mirrored: the transform back, by row and point, of the sums
/// of the two factors.
fn response(table: &[f32], roots: &[Complex]) -> Vec<Complex> {
    let back = |n: usize| [roots[n % SIDE][0], -roots[n % SIDE][1]];
    let mut spectrum = vec![[0.0; 2]; SIDE * SIDE];
    for (index, factors) in table.chunks_exact(4).take(SIDE * SIDE).enumerate() {
        let (u, v) = frequency(index % 256, index / 256);
        spectrum[v * SIDE + u] =
            [0, 1].map(|part| f64::from(factors[part]) + f64::from(factors[2 + part]));
    }
    let mut across = vec![[0.0; 2]; SIDE * SIDE];
    let mut response = vec![[0.0; 2]; SIDE * SIDE];
    for (index, sum) in across.iter_mut().enumerate() {
        let (x, v) = (index % SIDE, index / SIDE);
        (0..SIDE).for_each(|u| add(sum, 1.0, product(spectrum[v * SIDE + u], back(u * x))));
    }
    for (index, sum) in response.iter_mut().enumerate() {
        let (x, y) = (index % SIDE, index / SIDE);
        (0..SIDE).for_each(|v| add(sum, 1.0, product(across[v * SIDE + x], back(v * y))));
    }
    response
}

/// Ends the process unless `table` is that of `weights`.
fn check(weights: &[f32], (width, height): (usize, usize), table: &[f32], roots: &[Complex]) {
    let line = line_length(width);
    let at = |x: usize, y: usize| f64::from(weights[y * line + x]);
    // Of the even and the odd columns, by row and frequency across; SIDE² is what is left of a transform there and
    // back.
    let scale = 1.0 / (SIDE * SIDE) as f64;
    let mut across = vec![[[0.0; 2]; 2]; SIDE * height];
    for (index, sums) in across.iter_mut().enumerate() {
        let (u, y) = (index % SIDE, index / SIDE);
        (0..width).for_each(|x| {
            add(
                &mut sums[x % 2],
                at(x, y) * scale,
                roots[u * (x / 2) % SIDE],
            )
        });
    }
    let mut expected = Vec::with_capacity(2 * SIDE * SIDE + SIDE + 1);
    for index in 0..SIDE * SIDE {
        let (u, v) = frequency(index % 256, index / 256);
        let [mut even, mut odd] = [[0.0; 2]; 2];
        for y in 0..height {
            let [of_even, of_odd] = across[y * SIDE + u];
            add(&mut even, 1.0, product(of_even, roots[v * y % SIDE]));
            add(&mut odd, 1.0, product(of_odd, roots[v * y % SIDE]));
        }
        // Of one sample further on by one point, times i/2.
        let half = product([0.0, 0.5], odd);
        let shifted = product(half, roots[u]);
        expected.push([
            even[0] + shifted[0] - half[0],
            even[1] + shifted[1] - half[1],
        ]);
        expected.push([shifted[0] + half[0], shifted[1] + half[1]]);
    }
    let largest = (expected.iter()).fold(0.0f64, |most, [re, im]| most.max(re.hypot(*im)));
    let limits = std::iter::repeat_n(1e-6 * largest, expected.len());
    let limits = limits.chain(std::iter::repeat_n(1e-6, SIDE));
    expected.extend(roots.iter().map(|[cos, sin]| [*cos, -sin]));
    for (index, ((found, wanted), limit)) in
        table.chunks_exact(2).zip(&expected).zip(limits).enumerate()
    {
        if (found.iter().zip(wanted)).any(|(&a, b)| (f64::from(a) - b).abs() > limit) {
            violation!("value {index} of a spectrum is {found:?}, not {wanted:?}");
        }
    }
}
