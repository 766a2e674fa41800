//! Digits of weights, and what is found with them.

use super::*;

/// The sums of a kernel over `samples`, rows of `pitch`, for 16 outputs of its middle row, by the
/// products of all its matrices.
fn products(bands: &Bands, width: usize, height: usize, samples: &[u8], pitch: usize) -> [i32; 16] {
    let words = bands.table(width);
    let of_digit = height.div_ceil(16) * slices(width) * 16 * LANES * 4;
    assert_eq!(words.len(), bands.digits * of_digit);
    let mut sums = [0i32; 16];
    for words in words.chunks(of_digit) {
        sums = sums.map(|sum| sum.wrapping_mul(256));
        for row in 0..height {
            for slice in 0..slices(width) {
                let (block, phase, second) = (row / 16, row % GROUP, row / GROUP % 2);
                let matrix = ((block * slices(width) + slice) * GROUP + phase) * APART + second;
                for lane in 0..LANES {
                    for register in 0..4 {
                        let word = words[(matrix * LANES + lane) * 4 + register];
                        let (of, first) = place(lane, register);
                        for (byte, digit) in word.to_le_bytes().into_iter().enumerate() {
                            let at = slice * SAMPLES + first + byte;
                            let sample = samples.get(row * pitch + at).filter(|_| at < pitch);
                            // Beyond the tile anything may be read.
                            let sample = i32::from(sample.copied().unwrap_or(0xa5));
                            let sum = &mut sums[output(of)];
                            *sum = sum.wrapping_add(i32::from(digit as i8) * sample);
                        }
                    }
                }
            }
        }
    }
    sums
}

fn bytes(count: usize) -> Vec<u8> {
    (0..count).map(|at| (at * 37 % 251) as u8).collect()
}

#[test]
fn samples_from_any_level_include_those_from_the_middle() {
    let any = Samples {
        max_code: 1023,
        bytes: 2,
        centred: false,
    };
    let centred = Samples {
        centred: true,
        ..any
    };
    assert!(any.include(any) && centred.include(centred));
    assert!(any.include(centred) && !centred.include(any));
    assert!(!any.include(Samples::BYTES));
}

#[test]
fn products_with_the_matrices_are_the_sums() {
    for (width, height) in [
        (1, 1),
        (3, 5),
        (15, 15),
        (17, 33),
        (19, 3),
        (49, 7),
        (51, 9),
        (65, 65),
    ] {
        let pitch = left(width) * 2 + OUTPUTS;
        let samples = bytes(pitch * height);
        for (digits, modulus) in [(1, 256), (2, 65_279), (3, 16_711_423)] {
            let half = modulus as i32 / 2;
            let number = |at| (at * 2_654_435_761_usize % modulus) as i32 - half;
            let bands = Bands {
                values: (0..width * height).map(number).collect(),
                digits,
                factor: 0.0,
                tolerance: 0.0,
            };
            let sums = products(&bands, width, height, &samples, pitch);
            for (output, sum) in sums.into_iter().enumerate() {
                let first = left(width) - width / 2 + output;
                let rows = bands.values.chunks(width).zip(samples.chunks(pitch));
                let expected = rows
                    .flat_map(|(values, row)| values.iter().zip(&row[first..]))
                    .map(|(value, &sample)| value.wrapping_mul(i32::from(sample)))
                    .fold(0, i32::wrapping_add);
                assert_eq!(sum, expected, "{width}x{height}, output {output}");
            }
        }
    }
}

#[test]
fn whole_numbers_take_as_few_digits_as_hold_them() {
    let digits =
        |weights: &[f32]| Bands::whole(weights, 1.0, Samples::BYTES).map(|bands| bands.digits);
    assert_eq!(digits(&[-128.0, 127.0, 0.0]), Some(1));
    assert_eq!(digits(&[128.0, 0.0, 0.0]), Some(2));
    assert_eq!(digits(&[-32639.0, 32639.0, 0.0]), Some(2));
    assert_eq!(digits(&[-32640.0, 0.0, 0.0]), Some(3));
    // 255 times as much is 2^24 or more.
    assert_eq!(digits(&[65793.0, 0.0, 0.0]), Some(3));
    assert_eq!(digits(&[65794.0, 0.0, 0.0]), None);
    assert_eq!(digits(&[0.5, 1.0, 1.0]), None);
}

#[test]
fn quotients_decide_where_they_are_far_from_the_middle_or_in_it() {
    let words = Samples {
        max_code: 1023,
        bytes: 2,
        centred: false,
    };
    for (samples, divisor, offset, decide) in [
        (Samples::BYTES, 214.0, 0.0, true),
        (Samples::BYTES, -9.0, 16.5, true),
        (Samples::BYTES, 2.5, 0.0, false),
        (Samples::BYTES, 9.0, 0.3, false),
        (Samples::BYTES, 16_000.0, 0.0, true),
        (Samples::BYTES, 17_000.0, 0.0, false),
        (Samples::BYTES, 9.0, 1e9, false),
        (words, 3000.0, 512.0, true),
        (words, 5000.0, 0.0, false),
    ] {
        let found = quotients_decide(divisor, offset, samples);
        assert_eq!(found, decide, "{divisor} {offset} {samples:?}");
    }
    // As the kernel computes them, near all middles.
    for (samples, divisor, offset) in [
        (Samples::BYTES, 214.0f32, 0.0f32),
        (Samples::BYTES, 15_998.0, 0.0),
        (Samples::BYTES, 98.0, -7.5),
        (words, 3002.0, 512.0),
        (words, 1000.0, 0.0),
    ] {
        assert!(quotients_decide(divisor, offset, samples));
        let reciprocal = 1.0 / divisor;
        let rest = (-reciprocal).mul_add(divisor, 1.0) * reciprocal;
        for code in 0..=samples.max_code {
            let middle = (f64::from(code) + 0.5 - f64::from(offset)) * f64::from(divisor);
            for beside in -2..=2 {
                let sum = (middle.round() + f64::from(beside)) as f32;
                let quotient = sum.mul_add(reciprocal, sum * rest);
                let codes =
                    [quotient, sum / divisor].map(|quotient| (quotient + offset).round_ties_even());
                assert_eq!(codes[0], codes[1], "{sum} by {divisor}");
            }
        }
    }
}

/// What the kernel sums up of samples of 16 bits, whose codes are raised by `spare` bits, with three digits.
fn rounded_sum(values: &[i32], codes: &[u32], spare: i32) -> i32 {
    let mut sum = 0i32;
    for worth in 1..=3usize {
        sum = (sum + 128) >> 8;
        for (&value, &code) in values.iter().zip(codes) {
            let raised = code << spare;
            for (place, byte) in [raised & 0xff, raised >> 8].into_iter().enumerate() {
                if (place..place + 3).contains(&worth) {
                    sum += i32::from(digit_of(value, worth - place)) * byte as i32;
                }
            }
        }
    }
    sum
}

#[test]
fn results_of_words_are_within_the_tolerance() {
    for (depth, count, centred, sign) in [
        (10, 225, true, 1.0),
        (10, 225, false, 1.0),
        (10, 225, false, -1.0),
        (12, 9, true, 1.0),
        (12, 9, true, -1.0),
    ] {
        let samples = Samples {
            max_code: (1 << depth) - 1,
            bytes: 2,
            centred,
        };
        let number = |at: usize| (at * 2_654_435_761 % 1009) as f32 / 1009.0 - 0.3;
        let weights: Vec<f32> = (0..count).map(number).collect();
        let divisor = sign * weights.iter().sum::<f32>();
        let bands = Bands::near(&weights, divisor, samples).expect("it is possible");
        assert_eq!(bands.digits, 3);
        let spare = 16 - depth;
        let zero = if centred { 1u32 << (depth - 1) } else { 64 };
        let mut largest = 0.0f64;
        for seed in 0..400u32 {
            let code = |at: usize| match seed % 3 {
                0 => (at as u32 + 1) * (seed + 7) % (samples.max_code + 1),
                1 => ((weights[at] > 0.0) == (seed % 2 == 0)) as u32 * samples.max_code,
                _ => seed % (samples.max_code + 1),
            };
            let codes: Vec<u32> = (0..count).map(code).collect();
            let sum = rounded_sum(&bands.values, &codes, spare);
            let by_digits = f64::from(sum) * f64::from(bands.factor);
            let level = f64::from(zero) * f64::from(bands.sum()) * f64::from(bands.factor)
                / samples.unit(3);
            let canonical = (weights.iter().zip(&codes)).fold(0.0f32, |sum, (weight, &code)| {
                weight.mul_add(code as f32 - zero as f32, sum)
            });
            let difference = by_digits - level - f64::from(canonical) / f64::from(divisor);
            largest = largest.max(difference.abs());
        }
        let most = f64::from(bands.tolerance);
        assert!(
            largest <= most && largest > most / 200.0,
            "{largest} {most}"
        );
    }
}

#[test]
fn whole_numbers_of_words_are_their_own_digits() {
    let samples = Samples {
        max_code: 1023,
        bytes: 2,
        centred: false,
    };
    let bands = Bands::whole(&[-128.0, 3.0, 127.0], 2.0, samples).expect("whole numbers");
    assert_eq!((bands.digits, bands.factor), (1, 0.5 / 64.0));
    let two = Bands::whole(&[128.0, 3.0, 127.0], 2.0, samples);
    assert_eq!(two.map(|bands| bands.digits), Some(2));
    // Sums beyond 2^24, which float32 rounds.
    assert_eq!(Bands::whole(&[16_401.0, 0.0, 0.0], 2.0, samples), None);
    // Exact sums, of which a fraction is found.
    let near = Bands::near(&[1.0, 2.0, 3.0], 2.5, samples).expect("it is possible");
    assert_eq!(near.values(), [1, 2, 3]);
    assert!(near.tolerance > 0.0 && near.tolerance < 0.003);
    // At 16 bits float32 itself leaves most open.
    let deep = Samples {
        max_code: 65_535,
        centred: true,
        ..samples
    };
    let weights: Vec<f32> = (0..225).map(|at| (at % 7) as f32 / 9.0).collect();
    assert_eq!(Bands::near(&weights, 75.0, deep), None);
    assert!(
        Bands::near(
            &weights,
            75.0,
            Samples {
                max_code: 1023,
                ..deep
            }
        )
        .is_some()
    );
}

/// What the kernel computes before it rounds, for an offset of 0.
fn value(bands: &Bands, samples: &[f32]) -> f32 {
    let products = bands.values.iter().zip(samples);
    let sum = products.fold(0, |sum: i32, (value, &sample)| sum + value * sample as i32);
    sum as f32 * bands.factor
}

#[test]
fn results_are_within_the_tolerance() {
    let fractions = |count: usize, gain: f32| -> Vec<f32> {
        let number = |at: usize| (at * 2_654_435_761 % 1009) as f32 / 1009.0 - 0.3;
        (0..count).map(|at| gain * number(at)).collect()
    };
    let mut peak = fractions(225, 0.001);
    peak[112] = 1.7;
    for (weights, digits) in [
        (fractions(9, 0.1), 2),
        (fractions(225, 0.01), 2),
        (fractions(961, 0.003), 2),
        (peak, 3),
    ] {
        let divisor: f32 = 0.9;
        let bands = Bands::near(&weights, divisor, Samples::BYTES).expect("it is possible");
        assert_eq!(bands.digits, digits);
        assert!(bands.tolerance > 1e-5 && bands.tolerance < 0.04);
        let mut largest = 0.0f32;
        for seed in 0..400 {
            // Noise, all black and white where it adds most to the error, and flat.
            let sample = |at: usize| match seed % 3 {
                0 => ((at + 1) * (seed + 7) * 2_654_435_761 % 256) as f32 - 16.0,
                1 => {
                    let exact = weights[at] / divisor / bands.factor;
                    let is_above = bands.values[at] as f32 > exact;
                    if is_above == (seed % 2 == 0) {
                        255.0
                    } else {
                        0.0
                    }
                }
                _ => (seed % 256) as f32 - 16.0,
            };
            let samples: Vec<f32> = (0..weights.len()).map(sample).collect();
            let canonical = (weights.iter().zip(&samples))
                .fold(0.0, |sum, (weight, &sample)| weight.mul_add(sample, sum));
            let difference = value(&bands, &samples) - canonical / divisor;
            largest = largest.max(difference.abs());
        }
        assert!(largest <= bands.tolerance, "{largest} {}", bands.tolerance);
        // It is no more than the worst, which is what black and white come near to.
        assert!(
            largest >= bands.tolerance / 20.0,
            "{largest} {}",
            bands.tolerance
        );
    }
}

#[test]
fn rough_weights_are_as_near_as_sixteen_bits_of_the_largest() {
    let weights: Vec<f32> = (0..225)
        .map(|at| (at * 29 % 17) as f32 / 3.0 - 2.0)
        .collect();
    let bands = Bands::rough(&weights, 75.0).expect("it is possible");
    assert_eq!((bands.digits, bands.tolerance), (2, 0.0));
    let largest = weights
        .iter()
        .fold(0.0, |largest: f32, weight| largest.max(weight.abs()));
    for (&value, weight) in bands.values().iter().zip(&weights) {
        let difference = value as f32 * bands.factor * 75.0 - weight;
        assert!(difference.abs() <= largest / 65_000.0, "{weight}");
    }
    // A picture of one level stays within a hundredth of a code of what it should be.
    let sum: f32 = weights.iter().sum();
    assert!((bands.sum() as f32 * bands.factor - sum / 75.0).abs() * 255.0 < 0.01);
}

#[test]
fn weights_of_which_too_much_is_doubtful_are_refused() {
    assert_eq!(Bands::near(&[0.001; 9], 1e-40, Samples::BYTES), None);
    assert_eq!(Bands::near(&[f32::MAX; 9], 1.0, Samples::BYTES), None);
    // Results of a thousand times as much contrast.
    let weights: Vec<f32> = (0..225).map(|at| (at % 7) as f32 / 9.0).collect();
    assert!(Bands::near(&weights, 75.0, Samples::BYTES).is_some());
    assert_eq!(Bands::near(&weights, 0.05, Samples::BYTES), None);
}

#[test]
fn tiles_hold_what_their_products_read() {
    for width in (1..=65).step_by(2) {
        // Of an output, its own samples and those of the row that the last product begins.
        assert!(
            2 * left(width) <= SAMPLES * slices(width) - OUTPUTS,
            "{width}"
        );
    }
}
