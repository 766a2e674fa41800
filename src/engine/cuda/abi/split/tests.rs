//! The arithmetic of the kernel, as loose as PTX leaves it, against the canonical evaluation.

use super::*;

/// Samples across and down of a picture.
const WIDTH: usize = 120;
const HEIGHT: usize = 90;

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

    /// The canonical bytes.
    fn canonical(&self, picture: &[u8]) -> Vec<u8> {
        let chain = |weights: &[f32], values: &mut dyn Iterator<Item = f32>| {
            (weights.iter().zip(values)).fold(0.0f32, |sum, (weight, value)| {
                weight.mul_add(value, sum)
            })
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
                (sum / self.divisor + self.offset).round_ties_even() as u8
            })
        });
        codes.collect()
    }

    /// The kernel's bytes, and which are in doubt, with constants `last` of a table.
    fn split_bytes(
        &self,
        split: &Split,
        last: &[u32],
        picture: &[u8],
        order: Order,
    ) -> Vec<(u8, bool)> {
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
            assert_eq!(
                a,
                f64::from(constant(0)) + terms(&high).iter().sum::<f64>()
            );
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
                let result = both.mul_add(constant(1), c);
                // To a float16 towards 0.
                let code = result.trunc().clamp(1024.0, 1279.0) as u32 - 1024;
                (code as u8, result.to_bits() & 0x1fff < last[7])
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
    let ends = |x: usize, y: usize, low: u8| {
        match across[x % across.len()] == down[y % down.len()] {
            true => 255 - low,
            false => low,
        }
    };
    vec![
        picture(&|_, _, noise| noise as u8),
        picture(&|_, _, noise| if noise & 1 == 0 { 0 } else { 255 }),
        picture(&|x, y, noise| ((2 * x + y) as u8 & 0xfc) | noise as u8 & 3),
        picture(&|_, _, noise| 254 + (noise & 1) as u8),
        picture(&|x, y, noise| ends(x, y, (noise & 1) as u8)),
        picture(&|x, y, noise| ends(x, y, if noise & 7 == 0 { (noise >> 8) as u8 } else { 0 })),
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
        plain(vec![0.5, 0.000_1, 0.5], vec![0.25, 0.5, 0.000_1, 0.000_2, 0.25]),
    ];
    for seed in 0..6 {
        filters.push(Filter {
            divisor: if seed % 2 == 0 { 0.4 } else { -0.9 },
            zero: [0.0, 128.0, 255.0][seed as usize % 3],
            offset: 100.0 + seed as f32 / 3.0,
            ..plain(
                fractions(seed, 17 - 2 * (seed as usize % 3), 0.2 * seed as f32),
                fractions(seed + 10, 3 + 2 * seed as usize, 0.1),
            )
        });
    }
    filters
}

/// Samples in all, in doubt, and those of other codes than the canonical ones that are not in doubt, with as many units of
/// tolerance as `change` makes of the first and the second number of those.
fn compared(change: impl Fn(u32, u32) -> (u32, u32)) -> [usize; 3] {
    let reach = Reach {
        pieces: 2,
        blocks: 2,
        pixels: true,
    };
    let mut counts = [0; 3];
    for (index, filter) in filters().iter().enumerate() {
        let split = filter.split();
        let table = split.table(reach);
        let mut last = table[table.len() - CONSTANTS..].to_vec();
        let (raised, window) = change(split.raised() as u32, last[7]);
        last[6] = (1024.5 + raised as f32 * UNIT as f32).to_bits();
        last[7] = window;
        for picture in pictures(&split, filter, index as u64) {
            let canonical = filter.canonical(&picture);
            for order in ORDERS {
                let bytes = filter.split_bytes(&split, &last, &picture, order);
                assert_eq!(bytes.len(), canonical.len());
                for ((byte, in_doubt), canonical) in bytes.iter().zip(&canonical) {
                    counts[0] += 1;
                    counts[1] += usize::from(*in_doubt);
                    counts[2] += usize::from(byte != canonical && !in_doubt);
                }
            }
        }
    }
    counts
}

#[test]
fn codes_that_are_not_in_doubt_are_the_canonical_ones() {
    let [samples, in_doubt, wrong] = compared(|raised, window| (raised, window));
    assert_eq!(wrong, 0, "of {samples}");
    // Pictures of few codes have more than noise.
    assert!(in_doubt * 50 < samples, "{in_doubt} of {samples}");
}

#[test]
fn without_tolerance_some_are_not() {
    let [_, in_doubt, wrong] = compared(|_, _| (0, 0));
    assert!(in_doubt == 0 && wrong > 0);
    // Nor with a fraction of it.
    let [.., wrong] = compared(|raised, window| (raised / 4, window / 4));
    assert!(wrong > 0);
}

#[test]
fn show() {
    for filter in filters() {
        let split = filter.split();
        eprintln!(
            "{}+{}: error {:.3} window {} q {:?} {}",
            filter.across.len(),
            filter.down.len(),
            split.error,
            split.window(),
            split.largest(),
            split.across.scale
        );
    }
    eprintln!("{:?}", compared(|r, w| (r, w)));
    eprintln!("{:?}", compared(|r, w| (r / 2, w / 2)));
    eprintln!("{:?}", compared(|r, w| (r / 3, w / 3)));
    eprintln!("{:?}", compared(|_, _| (0, 0)));
}
