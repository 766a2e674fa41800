//! What the kernel that transforms gets.

use std::f64::consts::TAU;

/// Side of the square of points that is transformed at once, each two neighbours of a row.
pub const SIDE: usize = 64;
/// Samples of a row of the square.
pub const COLUMNS: usize = 2 * SIDE;
/// Most that a filter reaches beyond the centre, per axis.
pub const MOST_RADIUS: usize = 24;

/// Values of a digit of a position, of which a thread has all, and of the other two together.
const DIGIT: usize = 4;
const OTHERS: usize = SIDE / DIGIT;

/// Real and imaginary part.
type Complex = [f64; 2];

fn product(a: Complex, b: Complex) -> Complex {
    [a[0] * b[0] - a[1] * b[1], a[0] * b[1] + a[1] * b[0]]
}

/// `exp(2πi·n/count)`.
pub fn root(n: usize, count: usize) -> Complex {
    let (sin, cos) = (TAU * n as f64 / count as f64).sin_cos();
    [cos, sin]
}

/// The frequencies, across and down, of a point of a thread.
pub fn frequency(thread: usize, point: usize) -> (usize, usize) {
    // Of the others the first digit counts for most now.
    let of = |others: usize, digit: usize| others / DIGIT + others % DIGIT * DIGIT + digit * OTHERS;
    let across = of(thread % OTHERS, point % DIGIT);
    (across, of(thread / OTHERS, point / DIGIT))
}

/// Words of the table of the kernel's spectrum: [`SIDE`] rows of [`COLUMNS`]. Point by point, for
/// all threads in turn, the two factors that `kernels/convolve_fft.cu` says; the roots of unity `exp(-2πi·n/SIDE)`;
/// and 1 where sums are `whole` numbers, else 0.
pub fn table(spectrum: &[Complex], whole: bool) -> Vec<u32> {
    assert_eq!(spectrum.len(), SIDE * COLUMNS);
    let threads = OTHERS * OTHERS;
    let mut values = Vec::with_capacity(2 * SIDE * SIDE + SIDE + 1);
    for point in 0..DIGIT * DIGIT {
        for thread in 0..threads {
            let (u, v) = frequency(thread, point);
            let [low, high] = [u, u + SIDE].map(|u| spectrum[v * COLUMNS + u]);
            // The spectra of the even and, turned by half a point, of the odd columns. A point is half as many samples.
            let even = [low[0] + high[0], low[1] + high[1]];
            let turned = [low[0] - high[0], low[1] - high[1]];
            let [cos, sin] = root(u, COLUMNS);
            let odd = product(turned, [cos, -sin]);
            let [cos, sin] = root(u, SIDE);
            // i/2 (t - 1) and i/2 (t + 1).
            let own = product(odd, [-sin / 2.0, (cos - 1.0) / 2.0]);
            values.push([even[0] + own[0], even[1] + own[1]]);
            values.push(product(odd, [-sin / 2.0, (cos + 1.0) / 2.0]));
        }
    }
    values.extend((0..SIDE).map(|n| {
        let [cos, sin] = root(n, SIDE);
        [cos, -sin]
    }));
    values.push([f64::from(u8::from(whole)), 0.0]);
    let words = |value: Complex| value.map(|part| (part as f32).to_bits());
    values.into_iter().flat_map(words).collect()
}
