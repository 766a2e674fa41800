//! The arithmetic of the kernel, as loose as PTX leaves it, against the canonical evaluation.

use super::*;

/// Samples across and down of a picture.
const WIDTH: usize = 72;
const HEIGHT: usize = 40;

const REACH: Reach = Reach {
    pieces: 2,
    blocks: 2,
    pixels: true,
};

/// In which order and how sums are rounded.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Order {
    Nearest,
    /// Towards 0, the last terms first.
    Truncated,
    Up,
    Down,
    /// Groups of 8 terms and the sum so far, each cut to 24 bits of the largest, at once.
    Aligned,
}

const ORDERS: [Order; 5] = [
    Order::Nearest,
    Order::Truncated,
    Order::Up,
    Order::Down,
    Order::Aligned,
];

/// `exact` as a float32.
fn rounded(exact: f64, order: Order) -> f64 {
    let nearest = exact as f32;
    let other = match order {
        Order::Up if f64::from(nearest) < exact => nearest.next_up(),
        Order::Down if f64::from(nearest) > exact => nearest.next_down(),
        Order::Truncated | Order::Aligned if f64::from(nearest).abs() > exact.abs() => {
            f32::from_bits(nearest.to_bits() - 1)
        }
        _ => nearest,
    };
    f64::from(other)
}

/// `start` and `terms` added up.
fn sum(start: f64, terms: &[f64], order: Order) -> f64 {
    let add = |sum: f64, term: &f64| rounded(sum + term, order);
    match order {
        Order::Truncated => terms.iter().rev().fold(start, add),
        Order::Aligned => terms.chunks(8).fold(start, |sum, group| {
            let all = || group.iter().copied().chain([sum]);
            let largest = all().fold(0.0, |most: f64, term| most.max(term.abs()));
            let bit = 2.0 * half_a_bit(largest);
            if bit == 0.0 {
                return sum;
            }
            let cut: f64 = all().map(|term| (term / bit).trunc() * bit).sum();
            rounded(cut, order)
        }),
        _ => terms.iter().fold(start, add),
    }
}

/// A kernel, what is added, and a border that does not matter, as only samples are looked at whose window is in the picture.
struct Filter {
    across: Vec<f32>,
    down: Vec<f32>,
    divisor: f32,
    zero: f32,
    offset: f32,
}

impl Filter {
    fn split(&self) -> Split {
        let split = Split::new(&self.across, &self.down, self.divisor);
        split.unwrap_or_else(|| panic!("{:?} {:?}", self.across, self.down))
    }

    /// What becomes of `line` across, of all windows, where `f` makes a sum of each.
    fn of_rows<T>(&self, picture: &[u8], f: impl Fn(&[u8]) -> T) -> Vec<Vec<T>> {
        let rows = picture.chunks_exact(WIDTH);
        rows.map(|row| row.windows(self.across.len()).map(&f).collect())
            .collect()
    }

    /// The canonical results before rounding.
    fn canonical(&self, picture: &[u8]) -> Vec<f32> {
        let chain = |weights: &[f32], values: &mut dyn Iterator<Item = f32>| {
            (weights.iter().zip(values))
                .fold(0.0f32, |sum, (weight, value)| weight.mul_add(value, sum))
        };
        let rows = self.of_rows(picture, |codes| {
            chain(
                &self.across,
                &mut codes.iter().map(|&code| f32::from(code) - self.zero),
            )
        });
        let of_rows = rows.windows(self.down.len());
        let codes = of_rows.flat_map(|rows| {
            (0..rows[0].len()).map(|x| {
                let sum = chain(&self.down, &mut rows.iter().map(|row| row[x]));
                sum / self.divisor + self.offset
            })
        });
        codes.collect()
    }

    /// The kernel's results, with constants `last` of a table.
    fn split_results(&self, split: &Split, last: &[u32], picture: &[u8], order: Order) -> Vec<f32> {
        let constant = |at: usize| f32::from_bits(last[at]);
        let level = (128.0 - self.zero).mul_add(constant(2), self.offset + constant(3));
        let c = constant(6) + level;
        let numbers = |parts: &[f16]| -> Vec<f64> { parts.iter().map(|p| p.to_f64()).collect() };
        let [high, low] = [&split.across.high, &split.across.low].map(|parts| numbers(parts));
        let rows = self.of_rows(picture, |codes| {
            let terms = |weights: &[f64]| -> Vec<f64> {
                let operands = codes.iter().map(|&code| 1024.0 + f64::from(code));
                weights.iter().zip(operands).map(|(w, o)| w * o).collect()
            };
            let a = sum(f64::from(constant(0)), &terms(&high), order);
            assert_eq!(a, f64::from(constant(0)) + terms(&high).iter().sum::<f64>());
            let p = (a / 512.0).round_ties_even();
            let q = sum(a - 512.0 * p, &terms(&low), order);
            assert_eq!(f16::from_f64(p).to_f64(), p);
            [p, f16::from_f64(q).to_f64()]
        });
        let [high, low] = [&split.down.high, &split.down.low].map(|parts| numbers(parts));
        let of_rows = rows.windows(self.down.len());
        let codes = of_rows.flat_map(|rows| {
            let (high, low) = (&high, &low);
            (0..rows[0].len()).map(move |x| {
                let terms = |weights: &[f64], of: usize| -> Vec<f64> {
                    (weights.iter().zip(rows))
                        .map(|(w, row)| w * row[x][of])
                        .collect()
                };
                let b = sum(0.0, &terms(high, 0), order);
                assert_eq!(b, terms(high, 0).iter().sum::<f64>());
                let c_sum = sum(sum(0.0, &terms(low, 0), order), &terms(high, 1), order);
                let both = (c_sum as f32).mul_add(1.0 / 512.0, b as f32);
                both.mul_add(constant(1), c)
            })
        });
        codes.collect()
    }
}

/// A repeatable number for each place (Steele's SplitMix64).
fn noise(seed: u64, at: usize) -> u64 {
    let mut z = seed.wrapping_add((at as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15));
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

/// Noise, noise of two codes, of few next to each other; and windows side by side whose samples are at the end of the code range at
/// which what is lost of their weight adds up, or nearly.
fn pictures(split: &Split, filter: &Filter, seed: u64) -> Vec<Vec<u8>> {
    let lost = |weights: &[f32], parts: &Parts| -> Vec<bool> {
        let pairs = weights.iter().zip(parts.values());
        pairs
            .map(|(&weight, value)| f64::from(weight) * parts.scale > value)
            .collect()
    };
    let across = lost(&filter.across, &split.across);
    let down = lost(&filter.down, &split.down);
    let picture = |byte: &dyn Fn(usize, usize, u64) -> u8| -> Vec<u8> {
        let at = (0..WIDTH * HEIGHT).map(|at| byte(at % WIDTH, at / WIDTH, noise(seed, at)));
        at.collect()
    };
    let ends = |x: usize, y: usize, low: u8| match across[x % across.len()] == down[y % down.len()]
    {
        true => 255 - low,
        false => low,
    };
    vec![
        picture(&|_, _, noise| noise as u8),
        picture(&|_, _, noise| if noise & 1 == 0 { 0 } else { 255 }),
        picture(&|x, y, noise| ((2 * x + y) as u8 & 0xfc) | noise as u8 & 3),
        picture(&|_, _, noise| 254 + (noise & 1) as u8),
        picture(&|x, y, noise| ends(x, y, (noise & 1) as u8)),
        picture(&|x, y, noise| {
            ends(
                x,
                y,
                if noise & 7 == 0 {
                    (noise >> 8) as u8
                } else {
                    0
                },
            )
        }),
    ]
}

fn gauss(radius: i32, sigma: f64) -> Vec<f32> {
    let weights = (-radius..=radius).map(|x| (-f64::from(x * x) / (2.0 * sigma * sigma)).exp());
    let weights: Vec<f64> = weights.collect();
    let sum: f64 = weights.iter().sum();
    weights.iter().map(|weight| (weight / sum) as f32).collect()
}

/// Weights of either sign, of some sizes, that do not sum to a round number.
fn fractions(seed: u64, count: usize, negative: f32) -> Vec<f32> {
    let weight = |at| (noise(seed, at) >> 40) as f32 / (1 << 24) as f32;
    let weights: Vec<f32> = (0..count).map(|at| weight(at) - negative).collect();
    let size: f32 = weights.iter().map(|weight| weight.abs()).sum();
    weights.iter().map(|weight| weight / size).collect()
}

fn plain(across: Vec<f32>, down: Vec<f32>) -> Filter {
    Filter {
        across,
        down,
        divisor: 1.0,
        zero: 0.0,
        offset: 0.0,
    }
}

fn filters() -> Vec<Filter> {
    let of_gauss = |radius, sigma| plain(gauss(radius, sigma), gauss(radius, sigma));
    let mut filters = vec![
        of_gauss(7, 2.6),
        of_gauss(8, 2.9),
        of_gauss(4, 1.3),
        of_gauss(2, 0.7),
        of_gauss(7, 0.45),
        Filter {
            zero: 128.0,
            offset: 128.0,
            ..of_gauss(7, 2.6)
        },
        Filter {
            zero: 16.0,
            offset: 23.7,
            ..plain(gauss(7, 3.0), gauss(3, 1.1))
        },
        // Whole numbers that float32 cannot hold sums of, and a divisor.
        Filter {
            divisor: 7_654_321.0,
            ..plain(
                vec![1234.0, 999.0, 2001.0, 17.0, 1009.0],
                vec![300.0, 41.0, 707.0, 301.0, 123.0],
            )
        },
        // Of which high parts cannot sum to what all weights do.
        Filter {
            offset: 128.0,
            ..plain(vec![0.3, -0.7, 0.399_97], gauss(5, 1.7))
        },
        plain(
            vec![0.5, 0.000_1, 0.5],
            vec![0.25, 0.5, 0.000_1, 0.000_2, 0.25],
        ),
    ];
    for seed in 0..6 {
        let mut filter = Filter {
            divisor: if seed % 2 == 0 { 0.7 } else { -0.9 },
            zero: [0.0, 128.0, 160.0][seed as usize % 3],
            ..plain(
                fractions(seed, 17 - 2 * (seed as usize % 3), 0.2 * seed as f32),
                fractions(seed + 10, 3 + 2 * seed as usize, 0.1),
            )
        };
        // So that nearly all results are in range.
        filter.offset = 120.3 - (128.0 - filter.zero) * filter.split().sum;
        filters.push(filter);
    }
    filters
}

/// What there is to say of many samples.
#[derive(Debug, Default)]
struct Tally {
    samples: usize,
    in_doubt: usize,
    /// Of other codes than the canonical ones, without being in doubt.
    wrong: usize,
    /// The largest difference from canonical results before rounding, as part of what is proven to be the most.
    farthest: f64,
}

/// Compares all filters on all pictures, with `change` made to the units that are added and to the window.
fn compared(change: impl Fn(u32, u32) -> (u32, u32)) -> Tally {
    let mut tally = Tally::default();
    for (index, filter) in filters().iter_mut().enumerate() {
        let split = filter.split();
        // Of no level area all may be in doubt.
        let mut steps = 0..20;
        while !split.takes(filter.zero, filter.offset) {
            assert!(steps.next().is_some(), "filter {index}");
            filter.offset += 0.004;
        }
        let table = split.table(REACH);
        let mut last = table[table.len() - CONSTANTS..].to_vec();
        let (raised, window) = change(split.raised() as u32, last[7]);
        let added = BASE + 0.5 + f64::from(raised) * UNIT;
        (last[6], last[7]) = ((added as f32).to_bits(), window);
        let filter = &*filter;
        for picture in pictures(&split, filter, index as u64) {
            let canonical = filter.canonical(&picture);
            for order in ORDERS {
                let results = filter.split_results(&split, &last, &picture, order);
                assert_eq!(results.len(), canonical.len());
                for (result, canonical) in results.iter().zip(&canonical) {
                    let fraction = result.to_bits() & ((1.0 / UNIT) as u32 - 1);
                    let in_doubt = fraction < window;
                    let code = f64::from(*result).trunc().clamp(BASE, BASE + 255.0) - BASE;
                    let expected = f64::from(canonical.round_ties_even().clamp(0.0, 255.0));
                    let off = (f64::from(*result) - added - f64::from(*canonical)).abs() / UNIT;
                    tally.samples += 1;
                    tally.in_doubt += usize::from(in_doubt);
                    tally.wrong += usize::from(code != expected && !in_doubt);
                    // Both c and the result are rounded to units.
                    tally.farthest = tally.farthest.max(off / (split.error + 1.0));
                }
            }
        }
    }
    tally
}

#[test]
fn codes_that_are_not_in_doubt_are_the_canonical_ones() {
    let tally = compared(|raised, window| (raised, window));
    assert_eq!(tally.wrong, 0, "{tally:?}");
    assert!(tally.farthest <= 1.0, "{tally:?}");
    // What is proven is not far more than there is.
    assert!(tally.farthest > 0.3, "{tally:?}");
    assert!(tally.in_doubt * 500 < tally.samples, "{tally:?}");
}

#[test]
fn without_tolerance_some_are_not() {
    let tally = compared(|_, _| (0, 0));
    assert!(tally.in_doubt == 0 && tally.wrong > 0, "{tally:?}");
}

#[test]
fn parts_are_float16_that_make_up_the_weights() {
    for filter in filters() {
        let split = filter.split();
        let lines = [
            (&split.across, &filter.across, 1.0),
            (&split.down, &filter.down, 1.0 / 512.0),
        ];
        for (parts, weights, unit) in lines {
            let mut high_sum = 0.0;
            assert_eq!(parts.high.len(), weights.len());
            for (at, &weight) in weights.iter().enumerate() {
                let (high, low) = (parts.high[at].to_f64(), parts.low[at].to_f64() * unit);
                assert!(high.fract() == 0.0 && high.abs() <= 2048.0);
                assert!(low.abs() <= 1.0, "{low}");
                assert!(low == 0.0 || parts.low[at].is_normal());
                // Half the last bit of what is left, or what is below the least float16.
                let off = (high + low - f64::from(weight) * parts.scale).abs();
                assert!(off <= 1.0 / 4096.0, "{off}");
                high_sum += high.abs();
            }
            assert!(high_sum <= 8192.0);
        }
        let factor = 512.0 / (split.across.scale * split.down.scale * f64::from(filter.divisor));
        let exact = f64::from(split.factor);
        assert!((factor - exact).abs() <= 1e-14 * exact.abs());
    }
}

#[test]
fn low_parts_across_sum_to_nearly_nothing() {
    for radius in [4, 7, 8] {
        let weights = gauss(radius, f64::from(radius) * 0.37);
        let split = Split::new(&weights, &weights, 1.0).unwrap();
        assert!(sum_of(&split.across.low).abs() < 0.001);
        // So that q is below 1024, and the window as small as this.
        assert!(split.largest().1 < 1024.0);
        assert!(split.window() <= 7.0, "{}", split.window());
    }
}

#[test]
fn kernels_whose_results_would_be_in_doubt_too_often_are_refused() {
    let weights = gauss(7, 2.6);
    let of_divisor = |divisor| Split::new(&weights, &weights, divisor);
    assert!(of_divisor(1.0).is_some() && of_divisor(-1.0).is_some());
    // More contrast than fourfold, or a window that is too large already.
    assert!(of_divisor(0.24).is_none());
    let rough = fractions(3, 17, 0.5);
    let window = |divisor| Split::new(&rough, &rough, divisor).map(|split| split.window());
    assert!(window(1.0).is_some_and(|window| window <= MOST_WINDOW));
    assert_eq!(window(0.26), None);
    assert!(Split::new(&[0.0; 3], &weights, 1.0).is_none());
    assert!(Split::new(&weights, &[0.0; 5], 1.0).is_none());
    // Results of next to nothing.
    assert!(of_divisor(1e38).is_none());
}

#[test]
fn zero_levels_are_bytes_and_levels_have_as_many_bits_as_results() {
    let weights = gauss(7, 2.6);
    let split = Split::new(&weights, &weights, 1.0).unwrap();
    for (zero, offset, taken) in [
        (0.0, 0.0, true),
        (16.0, 16.0, true),
        (128.0, 128.0, true),
        (0.0, 126.9, true),
        (0.0, 127.1, false),
        (255.0, 255.0, true),
        (0.0, -256.0, false),
        (0.5, 0.0, false),
        (-1.0, 0.0, false),
        (256.0, 0.0, false),
    ] {
        assert_eq!(split.takes(zero, offset), taken, "{zero} {offset}");
    }
}

#[test]
fn level_areas_are_not_in_doubt() {
    let weights = gauss(7, 2.6);
    let takes = |divisor, offset| {
        let split = Split::new(&weights, &weights, divisor);
        split.unwrap().takes(0.0, offset)
    };
    // Codes in the middle between two.
    assert!(takes(1.0, 0.49) && takes(1.0, 0.51) && !takes(1.0, 0.5));
    assert!(!takes(2.0, 0.0) && takes(2.0, 0.25));
    // Of odd codes, and of none.
    assert!(takes(1.5, 0.0) && takes(1.7, 0.0) && !takes(1.6, 0.0));
    // Results below 0, where float32 has half the unit: whole numbers and halves.
    assert!(takes(1.0, -20.25) && !takes(1.0, -20.0) && !takes(1.0, -1.0));
}

#[test]
fn tables_are_of_high_and_low_parts_and_constants() {
    let split = Split::new(&gauss(7, 2.6), &gauss(3, 1.1), 1.0).unwrap();
    for reach in [
        REACH,
        Reach {
            pixels: false,
            ..REACH
        },
    ] {
        let table = split.table(reach);
        assert_eq!(table.len(), Split::words(reach));
        let mut expected = Vec::new();
        reach.push_across(&mut expected, &split.across.high);
        reach.push_across(&mut expected, &split.across.low);
        reach.push_down(&mut expected, &split.down.high);
        reach.push_down(&mut expected, &split.down.low);
        assert_eq!(table[..expected.len()], expected);
        let constants = &table[expected.len()..];
        let floats: Vec<f32> = constants.iter().copied().map(f32::from_bits).collect();
        let taken_off = 1152.0 * (sum_of(&split.across.high) + sum_of(&split.across.low));
        assert_eq!(floats[0], -taken_off.round() as f32);
        assert_eq!((floats[1], floats[4]), (split.factor, 0.0));
        assert!((floats[2] - 1.0).abs() < 1e-6 && (floats[5] - 1.0).abs() < 1e-6);
        // Half a unit of sums across at most.
        assert!(floats[3].abs() <= 1e-4);
        let units = (f64::from(floats[6]) - BASE - 0.5) / UNIT;
        assert!(units.fract() == 0.0 && units >= 1.0);
        assert!(constants[7] > units as u32);
    }
}
