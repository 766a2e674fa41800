//! The threads that all CPU engines of the process share, and how they help with a frame.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError};

use rayon::{ThreadPool, ThreadPoolBuildError, ThreadPoolBuilder};

static POOL: OnceLock<ThreadPool> = OnceLock::new();

/// Turns of the loop in which a thread looks whether its helpers are done before it sleeps: a few
/// microseconds, about what falling asleep and waking take.
const SPINS: usize = 100;

/// The pool, made at the first call with a thread for every core that the process may use.
///
/// # Errors
/// When the system refuses to start the threads; the next call tries again.
pub fn shared() -> Result<&'static ThreadPool, ThreadPoolBuildError> {
    if let Some(pool) = POOL.get() {
        return Ok(pool);
    }
    let pool = ThreadPoolBuilder::new()
        .thread_name(|index| format!("cudaconv-pool{index}"))
        .build()?;
    Ok(POOL.get_or_init(|| pool))
}

/// Calls `work` with every number below `count`, on this thread and up to `helpers` of `pool` that
/// are free, and returns when all calls have.
///
/// Unlike rayon's own loops this thread works too and waits only for threads that have begun: it
/// is done no later than if it were alone, however busy the pool is with the frames of others.
///
/// # Panics
/// When `work` does; other calls may be left out then.
pub fn share_out(pool: &ThreadPool, helpers: usize, count: usize, work: &(dyn Fn(usize) + Sync)) {
    let useful = pool.current_num_threads().min(count).saturating_sub(1);
    let crew = Arc::new(Crew {
        next: AtomicUsize::new(0),
        count,
        // SAFETY: only the lifetime is given up. The crew calls it between `join` and `leave`
        // alone, and `close`, below, returns or unwinds only when all who joined have left.
        work: unsafe {
            std::mem::transmute::<
                *const (dyn Fn(usize) + Sync + '_),
                *const (dyn Fn(usize) + Sync + 'static),
            >(work)
        },
        members: Mutex::new(Members::default()),
        left: Condvar::new(),
    });
    for _ in 0..helpers.min(useful) {
        let crew = Arc::clone(&crew);
        pool.spawn(move || crew.help());
    }
    let own = catch_unwind(AssertUnwindSafe(|| crew.take_turns()));
    let theirs = crew.close();
    if let Err(panic) = own {
        resume_unwind(panic);
    }
    if let Some(panic) = theirs {
        resume_unwind(panic);
    }
}

/// Threads that work on one frame.
struct Crew {
    next: AtomicUsize,
    count: usize,
    work: *const (dyn Fn(usize) + Sync),
    members: Mutex<Members>,
    left: Condvar,
}

// SAFETY: `work` is `Sync`, and dereferenced only while it lives (see `share_out`).
unsafe impl Send for Crew {}
// SAFETY: as above.
unsafe impl Sync for Crew {}

#[derive(Default)]
struct Members {
    helping: usize,
    closed: bool,
    panic: Option<Box<dyn Any + Send>>,
}

impl Crew {
    fn members(&self) -> MutexGuard<'_, Members> {
        // Nothing that can panic happens under the lock.
        self.members.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes numbers until none is left.
    fn take_turns(&self) {
        loop {
            let index = self.next.fetch_add(1, Ordering::Relaxed);
            if index >= self.count {
                return;
            }
            // SAFETY: called by the thread in `share_out` and between joining and leaving, when
            // `work` lives.
            unsafe { (*self.work)(index) };
        }
    }

    /// What a thread of the pool does, unless it comes too late.
    fn help(&self) {
        {
            let mut members = self.members();
            if members.closed {
                return;
            }
            members.helping += 1;
        }
        let result = catch_unwind(AssertUnwindSafe(|| self.take_turns()));
        let mut members = self.members();
        members.helping -= 1;
        if let Err(panic) = result {
            // The others need not go on.
            self.next.store(self.count, Ordering::Relaxed);
            members.panic.get_or_insert(panic);
        }
        if members.helping == 0 {
            self.left.notify_all();
        }
    }

    /// Lets nobody in any more, waits for those who are, and returns what they panicked with.
    fn close(&self) -> Option<Box<dyn Any + Send>> {
        // Of a panic of this thread's own the helpers are to know.
        self.next.fetch_max(self.count, Ordering::Relaxed);
        self.members().closed = true;
        for _ in 0..SPINS {
            if self.members().helping == 0 {
                break;
            }
            std::hint::spin_loop();
        }
        let members = self.members();
        let mut members = (self.left)
            .wait_while(members, |members| members.helping > 0)
            .unwrap_or_else(PoisonError::into_inner);
        members.panic.take()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Barrier;

    #[test]
    fn every_number_is_worked_on_once() {
        let pool = shared().unwrap();
        for count in [0, 1, 2, 7, 1000] {
            let calls: Vec<AtomicUsize> = (0..count).map(|_| AtomicUsize::new(0)).collect();
            share_out(pool, 9, count, &|index| {
                calls[index].fetch_add(1, Ordering::Relaxed);
            });
            assert!(calls.iter().all(|calls| calls.load(Ordering::Relaxed) == 1));
        }
    }

    #[test]
    fn a_panic_in_any_call_comes_out_and_the_pool_goes_on() {
        let pool = shared().unwrap();
        for bad in 0..20 {
            let result = catch_unwind(AssertUnwindSafe(|| {
                share_out(pool, 9, 20, &|index| assert_ne!(index, bad, "the bad one"));
            }));
            let panic = result.unwrap_err();
            assert!(
                panic
                    .downcast_ref::<String>()
                    .unwrap()
                    .contains("the bad one")
            );
        }
        share_out(pool, 9, 20, &|_| {});
    }

    #[test]
    fn a_pool_that_is_busy_holds_nobody_up() {
        let pool = ThreadPoolBuilder::new().num_threads(2).build().unwrap();
        let (blocked, released) = (Arc::new(Barrier::new(3)), Arc::new(Barrier::new(3)));
        for _ in 0..2 {
            let (blocked, released) = (Arc::clone(&blocked), Arc::clone(&released));
            pool.spawn(move || {
                blocked.wait();
                released.wait();
            });
        }
        blocked.wait();
        let calls = AtomicUsize::new(0);
        share_out(&pool, 9, 10, &|_| {
            calls.fetch_add(1, Ordering::Relaxed);
        });
        assert_eq!(calls.load(Ordering::Relaxed), 10);
        released.wait();
    }
}
