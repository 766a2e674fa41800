//! What frames cost by stage, as their messages tell.

use super::pads::{Pads, named};

/// The stages of a frame, as fields and messages name them.
pub const STAGES: [&str; 6] = ["wait", "copy-in", "upload", "kernel", "download", "blocked"];
/// How many of them, from the first, make up the latency.
const COUNTED: usize = 5;

/// One frame, in microseconds.
#[derive(Debug, Clone, Copy, Default)]
pub struct Cost {
    pub latency: f64,
    pub stages: [f64; STAGES.len()],
}

impl Cost {
    /// Reads a message `cudaconv-latency`.
    pub fn of(message: &gst::Structure) -> Cost {
        let get = |field: &str| message.get::<u64>(field).expect("a uint64") as f64 / 1e3;
        Cost {
            latency: get("latency-ns"),
            stages: STAGES.map(|stage| get(&format!("stage-{stage}-ns"))),
        }
    }

    pub fn stage(&self, name: &str) -> f64 {
        let index = STAGES.iter().position(|stage| *stage == name);
        self.stages[index.expect("a stage")]
    }

    /// What of the latency no stage explains; negative where they explain too much.
    pub fn unexplained(&self) -> f64 {
        self.latency - self.stages[..COUNTED].iter().sum::<f64>()
    }
}

/// What was told of frames since the last call.
pub fn costs(pads: &Pads) -> Vec<Cost> {
    let messages = named(&pads.messages(), "cudaconv-latency");
    messages.iter().map(Cost::of).collect()
}

pub fn median(values: impl IntoIterator<Item = f64>) -> f64 {
    quantile(values, 1, 2)
}

/// What a quarter of the values do not exceed: where anything else that goes on only adds, it says
/// more of the thing itself than the median does.
pub fn lower_quartile(values: impl IntoIterator<Item = f64>) -> f64 {
    quantile(values, 1, 4)
}

/// What three quarters of the values do not exceed.
pub fn upper_quartile(values: impl IntoIterator<Item = f64>) -> f64 {
    quantile(values, 3, 4)
}

fn quantile(values: impl IntoIterator<Item = f64>, numerator: usize, denominator: usize) -> f64 {
    let mut values: Vec<f64> = values.into_iter().collect();
    values.sort_by(f64::total_cmp);
    values[values.len() * numerator / denominator]
}

/// The median of everything.
pub fn typical(costs: &[Cost]) -> Cost {
    Cost {
        latency: median(costs.iter().map(|cost| cost.latency)),
        stages: std::array::from_fn(|stage| median(costs.iter().map(|cost| cost.stages[stage]))),
    }
}

/// Fails unless the stages explain the latency of nine frames in ten to within 5 % or 100 µs: the
/// machine may stop a thread anywhere.
pub fn check_explained(costs: &[Cost]) -> Result<(), String> {
    let unexplained = |cost: &&Cost| cost.unexplained().abs() > (cost.latency * 0.05).max(100.0);
    let wrong: Vec<_> = costs.iter().filter(unexplained).collect();
    match wrong.len() * 10 <= costs.len() {
        true => Ok(()),
        false => Err(format!("of {} frames: {wrong:?}", costs.len())),
    }
}

/// Fails unless `stage` took at least `delay` microseconds more than `before`, and no other stage
/// took a quarter of that more; the latency grew by as much, but for what was blocked.
pub fn check_only(stage: &str, delay: f64, before: &Cost, after: &Cost) -> Result<(), String> {
    let grown = |name: &str| after.stage(name) - before.stage(name);
    let others = STAGES.iter().filter(|name| **name != stage);
    let most = others.map(|name| grown(name)).fold(0.0, f64::max);
    let latency = after.latency - before.latency;
    let wanted = if stage == "blocked" {
        0.0
    } else {
        grown(stage)
    };
    let right = grown(stage) >= delay * 0.95
        && most < delay / 4.0
        && (latency - wanted).abs() < delay / 4.0;
    match right {
        true => Ok(()),
        false => Err(format!(
            "{stage}, {delay} µs: before {before:?}, after {after:?}"
        )),
    }
}
