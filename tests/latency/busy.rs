//! How much of the processor others take: a measurement says nothing while that is much.

use std::time::Instant;

/// What was used of the processor up to now, in the ticks of a hundredth of a second that Linux
/// counts in.
pub struct Usage {
    all: f64,
    own: f64,
    at: Instant,
}

const TICKS: f64 = 100.0;

impl Usage {
    pub fn now() -> Usage {
        let all = std::fs::read_to_string("/proc/stat").unwrap_or_default();
        let own = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
        Usage {
            all: busy_of_all(&all),
            own: own_time(&own),
            at: Instant::now(),
        }
    }

    /// The part of the machine, from 0 to 1, that other processes took since `self`.
    pub fn share_of_others(&self) -> f64 {
        let now = Usage::now();
        let cores = std::thread::available_parallelism().map_or(1.0, |n| n.get() as f64);
        let others = (now.all - self.all) - (now.own - self.own);
        let capacity = (now.at - self.at).as_secs_f64() * TICKS * cores;
        (others / capacity.max(1.0)).clamp(0.0, 1.0)
    }
}

/// All but idle time and waiting for disks, from `/proc/stat`.
fn busy_of_all(text: &str) -> f64 {
    let line = text.lines().next().unwrap_or_default();
    let fields = line.split_whitespace().skip(1).take(8);
    let numbers: Vec<f64> = fields.filter_map(|field| field.parse().ok()).collect();
    let idle: f64 = numbers.iter().skip(3).take(2).sum();
    numbers.iter().sum::<f64>() - idle
}

/// In user and kernel mode, from `/proc/self/stat`.
fn own_time(text: &str) -> f64 {
    // The name of the program, in brackets, may hold anything.
    let behind_name = text.rsplit(')').next().unwrap_or_default();
    let fields = behind_name.split_whitespace().skip(11).take(2);
    fields.filter_map(|field| field.parse::<f64>().ok()).sum()
}

#[test]
fn times_are_read_as_linux_writes_them() {
    let all = "cpu  100 20 30 4000 50 1 2 3 0 0\ncpu0 1 2 3";
    assert_eq!(busy_of_all(all), 156.0);
    let own = "7 (a (b) c) S 1 1 1 0 -1 4 10 0 0 0 250 50 0 0 20 0 1";
    assert_eq!(own_time(own), 300.0);
}
