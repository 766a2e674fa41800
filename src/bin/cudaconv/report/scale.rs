//! Axes: ranges that show what matters, and ticks at round numbers.

/// A linear map from values to pixels.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Scale {
    pub low: f64,
    pub high: f64,
    /// Pixels of `low` and `high`; they run downwards for a vertical axis.
    pub from: f64,
    pub to: f64,
}

impl Scale {
    /// The pixel of `value`, kept within the axis.
    pub fn at(&self, value: f64) -> f64 {
        let share = ((value - self.low) / (self.high - self.low)).clamp(0.0, 1.0);
        self.from + share * (self.to - self.from)
    }

    pub fn contains(&self, value: f64) -> bool {
        (self.low..=self.high).contains(&value)
    }

    /// Round values on the axis, about `count` of them.
    pub fn ticks(&self, count: usize) -> Vec<f64> {
        let step = round_step((self.high - self.low) / count.max(1) as f64);
        let first = (self.low / step).ceil() as i64;
        let last = (self.high / step + 1e-9).floor() as i64;
        (first..=last).map(|n| n as f64 * step).collect()
    }
}

/// The smallest of 1, 2, 5 times a power of ten that is not below `step`.
fn round_step(step: f64) -> f64 {
    let power = 10f64.powf(step.max(f64::MIN_POSITIVE).log10().floor());
    let factors = [1.0, 2.0, 5.0, 10.0];
    let fitting = factors
        .iter()
        .find(|factor| *factor * power >= step * (1.0 - 1e-9));
    fitting.unwrap_or(&10.0) * power
}

/// A number with as many digits as it needs, at most four after the point.
pub fn number(value: f64) -> String {
    let text = format!("{value:.4}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn scale(low: f64, high: f64) -> Scale {
        Scale {
            low,
            high,
            from: 0.0,
            to: 100.0,
        }
    }

    #[test]
    fn values_outside_stay_on_the_axis() {
        let scale = scale(10.0, 20.0);
        assert_eq!(
            [5.0, 10.0, 15.0, 20.0, 1e9].map(|v| scale.at(v)),
            [0.0, 0.0, 50.0, 100.0, 100.0]
        );
    }

    #[test]
    fn ticks_are_round_and_inside() {
        assert_eq!(scale(0.0, 39.6).ticks(4), [0.0, 10.0, 20.0, 30.0]);
        assert_eq!(scale(0.0, 0.42).ticks(4), [0.0, 0.2, 0.4]);
        assert_eq!(scale(0.0, 1.0).ticks(1), [0.0, 1.0]);
        assert_eq!(scale(3.5, 9.0).ticks(3), [4.0, 6.0, 8.0]);
    }

    #[test]
    fn numbers_are_short() {
        assert_eq!(number(30.0), "30");
        assert_eq!(number(0.2), "0.2");
        assert_eq!(number(0.0), "0");
    }
}
