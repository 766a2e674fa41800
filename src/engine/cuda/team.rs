//! Threads that copy frames between foreign and pinned memory together.
//!
//! One thread copies 8 GB/s on the machines that were measured, a sixth of what PCIe carries, so
//! where frames are not pinned the copy is the bottleneck. A caller and its helpers take the parts
//! of a job from one counter; nobody waits for a helper that wakes late. Helpers look out for the
//! next job for a moment before they sleep, because waking them costs as much as copying a plane.

use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, Instant};

/// Helpers beside the calling thread; more than four threads gain little.
const MOST_HELPERS: usize = 4;
/// How long a helper looks out for the next job before it sleeps.
const LOOKOUT: Duration = Duration::from_micros(50);
/// Rounds that a caller spins for the last parts before it yields its core, some 20 µs.
const SPINS: u32 = 1000;

/// Work in parts, of which each is done once.
struct Job {
    parts: usize,
    next: AtomicUsize,
    done: AtomicUsize,
    /// A part panicked.
    failed: AtomicBool,
    /// Valid until `done` reaches `parts`; touched by who took a part only.
    work: *const (dyn Fn(usize) + Sync),
}

// SAFETY: `work` is `Sync` and outlives every use of it, by the rule at its field.
unsafe impl Send for Job {}
// SAFETY: as above.
unsafe impl Sync for Job {}

/// Counts a part as done also when its work panics.
struct Done<'a>(&'a Job);

impl Drop for Done<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.0.failed.store(true, Ordering::Relaxed);
        }
        self.0.done.fetch_add(1, Ordering::Release);
    }
}

impl Job {
    /// Does parts until none is left, or one panics.
    fn help(&self) {
        loop {
            let part = self.next.fetch_add(1, Ordering::Relaxed);
            if part >= self.parts {
                return;
            }
            let _done = Done(self);
            // SAFETY: this part is not done yet, so the caller of `run` still waits for it and
            // keeps the work alive.
            unsafe { (*self.work)(part) };
        }
    }

    fn has_parts(&self) -> bool {
        self.next.load(Ordering::Relaxed) < self.parts
    }
}

/// The threads of the process that copy.
pub struct Team {
    jobs: Mutex<VecDeque<Arc<Job>>>,
    /// Jobs ever posted, to look out for without the lock.
    posted: AtomicUsize,
    wake: Condvar,
}

impl Team {
    /// The team, with its helpers started at the first call. Where the system refuses threads the
    /// caller copies alone.
    pub fn shared() -> &'static Team {
        static TEAM: OnceLock<Team> = OnceLock::new();
        static STARTED: OnceLock<()> = OnceLock::new();
        let team = TEAM.get_or_init(|| Team {
            jobs: Mutex::default(),
            posted: AtomicUsize::new(0),
            wake: Condvar::new(),
        });
        STARTED.get_or_init(|| {
            let cores = std::thread::available_parallelism().map_or(1, usize::from);
            for number in 0..MOST_HELPERS.min(cores - 1) {
                let thread = std::thread::Builder::new().name(format!("cudaconv-copy{number}"));
                if thread.spawn(|| team.serve()).is_err() {
                    break;
                }
            }
        });
        team
    }

    fn jobs(&self) -> MutexGuard<'_, VecDeque<Arc<Job>>> {
        self.jobs.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Does `work` once for each of 0..`parts`, on this thread and the helpers, and returns when
    /// all are done.
    ///
    /// # Panics
    /// When `work` does.
    pub fn run(&self, parts: usize, work: &(dyn Fn(usize) + Sync)) {
        if parts < 2 {
            (0..parts).for_each(work);
            return;
        }
        // SAFETY: only the lifetime is changed; this call returns after the last use of `work`.
        let work: &'static (dyn Fn(usize) + Sync) = unsafe { std::mem::transmute(work) };
        let job = Arc::new(Job {
            parts,
            next: AtomicUsize::new(0),
            done: AtomicUsize::new(0),
            failed: AtomicBool::new(false),
            work,
        });
        /// Waits for the parts that others took, also if this thread's part panics.
        struct Finish<'a>(&'a Job);
        impl Drop for Finish<'_> {
            fn drop(&mut self) {
                // What nobody took is not done any more, after a panic; else nothing is left.
                let taken = self.0.next.fetch_add(self.0.parts, Ordering::Relaxed);
                let taken = taken.min(self.0.parts);
                let mut rounds = 0;
                while self.0.done.load(Ordering::Acquire) < taken {
                    rounds += 1;
                    match rounds < SPINS {
                        true => std::hint::spin_loop(),
                        // The helper may need this very core.
                        false => std::thread::yield_now(),
                    }
                }
            }
        }
        let finish = Finish(&job);
        self.jobs().push_back(job.clone());
        self.posted.fetch_add(1, Ordering::Release);
        self.wake.notify_all();
        job.help();
        drop(finish);
        assert!(
            !job.failed.load(Ordering::Relaxed),
            "a helper's part of a copy panicked"
        );
    }

    fn serve(&self) {
        loop {
            let job = self.next_job();
            // The caller tells of a panic; the helper lives on for the next job.
            let _ = catch_unwind(AssertUnwindSafe(|| job.help()));
        }
    }

    fn next_job(&self) -> Arc<Job> {
        let lookout = Instant::now();
        loop {
            let seen = self.posted.load(Ordering::Acquire);
            let mut jobs = self.jobs();
            loop {
                jobs.retain(|job| job.has_parts());
                if let Some(job) = jobs.front() {
                    return job.clone();
                }
                if lookout.elapsed() < LOOKOUT {
                    break;
                }
                jobs = self.wake.wait(jobs).unwrap_or_else(PoisonError::into_inner);
            }
            drop(jobs);
            while self.posted.load(Ordering::Acquire) == seen && lookout.elapsed() < LOOKOUT {
                std::hint::spin_loop();
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::AtomicU32;

    #[test]
    fn every_part_is_done_once_before_run_returns() {
        let team = Team::shared();
        for parts in [0, 1, 2, 8, 1000] {
            let counts: Vec<AtomicU32> = (0..parts).map(|_| AtomicU32::new(0)).collect();
            team.run(parts, &|part| {
                counts[part].fetch_add(1, Ordering::Relaxed);
            });
            assert!(counts.iter().all(|n| n.load(Ordering::Relaxed) == 1));
        }
    }

    #[test]
    fn several_callers_are_served_at_once() {
        let team = Team::shared();
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for _ in 0..200 {
                        let sum = AtomicUsize::new(0);
                        team.run(16, &|part| {
                            sum.fetch_add(part, Ordering::Relaxed);
                        });
                        assert_eq!(sum.load(Ordering::Relaxed), 120);
                    }
                });
            }
        });
    }

    #[test]
    fn a_panic_reaches_its_caller_and_nobody_else() {
        let team = Team::shared();
        let caller = std::thread::current().id();
        let result = std::panic::catch_unwind(|| {
            team.run(64, &|_| {
                if std::thread::current().id() == caller {
                    panic!("a part that fails");
                }
            });
        });
        assert!(result.is_err());
        let sum = AtomicUsize::new(0);
        team.run(4, &|part| {
            sum.fetch_add(part, Ordering::Relaxed);
        });
        assert_eq!(sum.load(Ordering::Relaxed), 6);
    }
}
