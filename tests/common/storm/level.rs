//! Memory, threads and open files of this process over a storm.

use crate::common::heap;
use crate::common::watchdog::thread_names;

/// The first episodes load libraries, start pools of threads and fill caches.
const SETTLING: usize = 12;
/// Fewer episodes than this after settling tell nothing.
const ENOUGH: usize = 24;
/// One object a flush left behind would be more than this within some hundred episodes, one frame
/// or one pool an episode within some ten.
const IN_USE_ALLOWANCE_KIB: usize = 64;
/// For memory that does not come from the heap. Allocators keep some of what was freed.
const RESIDENT_ALLOWANCE_KIB: usize = 24 * 1024;
/// Threads that pools of GLib keep for a while.
const IDLE_THREADS: usize = 4;

#[derive(Debug, Clone, Copy)]
pub struct Level {
    in_use_kib: usize,
    resident_kib: usize,
    threads: usize,
    files: usize,
}

/// What was there after each episode.
pub struct Levels {
    all: Vec<Level>,
}

fn resident_kib() -> usize {
    // SAFETY: gives free memory of the allocator back to the system; no memory in use changes.
    unsafe { libc::malloc_trim(0) };
    let status = std::fs::read_to_string("/proc/self/status").expect("proc is there");
    let line = status.lines().find_map(|l| l.strip_prefix("VmRSS:"));
    let number = line.and_then(|l| l.split_whitespace().next()?.parse().ok());
    number.expect("a number of KiB")
}

/// The number in the middle.
fn median(of: impl Iterator<Item = usize>) -> usize {
    let mut all: Vec<usize> = of.collect();
    all.sort_unstable();
    all.get(all.len() / 2).copied().unwrap_or(0)
}

impl Levels {
    /// With room for `episodes`, so that the record itself takes the same memory all along.
    pub fn with_room(episodes: usize) -> Self {
        Levels {
            all: Vec::with_capacity(episodes),
        }
    }

    pub fn measure(&mut self) -> Level {
        let level = Level {
            in_use_kib: heap::bytes_in_use() / 1024,
            resident_kib: resident_kib(),
            threads: thread_names().len(),
            files: std::fs::read_dir("/proc/self/fd").map_or(0, Iterator::count),
        };
        self.all.push(level);
        level
    }

    /// The first and the last quarter after settling.
    fn ends(&self) -> Option<(&[Level], &[Level])> {
        let settled = self.all.get(SETTLING..)?;
        let quarter = settled.len() / 4;
        (settled.len() >= ENOUGH)
            .then(|| (&settled[..quarter], &settled[settled.len() - quarter..]))
    }

    /// Fails where the last quarter of the episodes left more behind than the first.
    pub fn assert_level(&self) {
        let Some((early, late)) = self.ends() else {
            return;
        };
        let compare = |what: &str, value: fn(&Level) -> usize, allowance: usize| {
            let (before, after) = (
                median(early.iter().map(value)),
                median(late.iter().map(value)),
            );
            assert!(
                after <= before + allowance,
                "{what}: {before} early in the storm, {after} late; threads now: {:?}",
                thread_names()
            );
        };
        let in_use = IN_USE_ALLOWANCE_KIB + heap::drivers_own() / 1024;
        compare("KiB in use", |l| l.in_use_kib, in_use);
        compare("KiB resident", |l| l.resident_kib, RESIDENT_ALLOWANCE_KIB);
        compare("threads", |l| l.threads, IDLE_THREADS);
        compare("open files", |l| l.files, 2);
    }
}

impl std::fmt::Display for Level {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(
            f,
            "{} KiB in use, {} KiB resident, {} threads, {} files",
            self.in_use_kib, self.resident_kib, self.threads, self.files
        )
    }
}

impl std::fmt::Display for Levels {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Some((early, late)) = self.ends() else {
            return write!(f, "too short for levels");
        };
        let middle = |levels: &[Level]| Level {
            in_use_kib: median(levels.iter().map(|l| l.in_use_kib)),
            resident_kib: median(levels.iter().map(|l| l.resident_kib)),
            threads: median(levels.iter().map(|l| l.threads)),
            files: median(levels.iter().map(|l| l.files)),
        };
        write!(f, "early {}; late {}", middle(early), middle(late))
    }
}
