//! How much memory of the heap is in use. What the system counts as resident tells little: GLib and
//! the C library keep what was freed, and the more threads take turns, the more of it.

/// The environment in which [`bytes_in_use`] counts what is in use and nothing else: GLib keeps no
/// slices of its own, the C library no freed blocks for each thread. It is read when a process
/// starts.
pub const COUNTED: [(&str, &str); 2] = [
    ("G_SLICE", "always-malloc"),
    ("GLIBC_TUNABLES", "glibc.malloc.tcache_count=0"),
];

/// Bytes that were allocated and not freed, in the whole process.
pub fn bytes_in_use() -> usize {
    // SAFETY: it only reads what the allocator counts, under the allocator's own locks.
    let counts = unsafe { libc::mallinfo2() };
    counts.uordblks + counts.hblkhd
}

/// Bytes that a driver's tables may grow by, in a few steps, besides what else a test allows; 0 without a
/// GPU.
pub fn drivers_own() -> usize {
    match std::env::var_os("CUDACONV_GPU") {
        Some(_) => 160 * 1024,
        None => 0,
    }
}
