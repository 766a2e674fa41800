//! The threads that all CPU engines of the process share.

use std::sync::OnceLock;

use rayon::{ThreadPool, ThreadPoolBuildError, ThreadPoolBuilder};

static POOL: OnceLock<ThreadPool> = OnceLock::new();

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
