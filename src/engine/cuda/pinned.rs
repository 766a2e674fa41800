//! Page-locked host memory, which the GPU copies from and to at full speed while the CPU does
//! something else.
//!
//! The memory is the process's own and only registered with the driver: it stays readable whatever
//! becomes of the context, while decoders and sinks still hold it. Pinning is slow (half a
//! millisecond for a frame), so memory that is given back is kept for the next who asks.

use std::alloc::{Layout, alloc, dealloc};
use std::collections::{BTreeMap, VecDeque};
use std::ptr::NonNull;
use std::sync::{Arc, Mutex, PoisonError, RwLock};

use super::api::Api;
use super::context::Context;
use super::error::CudaError;

/// Memory begins and ends at multiples of this many bytes, so that no page belongs to anything
/// else: the largest page of Linux on x86-64 and Arm.
const PAGE: usize = 64 * 1024;
/// The large page of x86-64 and most Arm systems. Memory of at least half of one is made of whole
/// ones where the system has them: pages of 4 KiB are scattered, and each costs the GPU's copy
/// engines and the host's IOMMU an entry of their small translation caches.
const LARGE_PAGE: usize = 2 * 1024 * 1024;
/// What a pool keeps of the memory that was given back: eight 4K RGBA frames.
const KEPT_BYTES: usize = 256 * 1024 * 1024;

/// Registered address ranges of the process: start to end and the device they were registered by.
static REGISTRY: RwLock<BTreeMap<usize, (usize, i32)>> = RwLock::new(BTreeMap::new());

/// Whether all of the `len` bytes from `start` are page-locked.
pub fn is_pinned(start: *const u8, len: usize) -> bool {
    let registry = REGISTRY.read().unwrap_or_else(PoisonError::into_inner);
    let start = start as usize;
    let end = start.saturating_add(len);
    (registry.range(..=start).next_back()).is_some_and(|(_, &(range_end, _))| end <= range_end)
}

/// Device `ordinal` is dead: what it registered may be pinned or not, and is counted as not.
pub(super) fn forget_device(ordinal: i32) {
    let mut registry = REGISTRY.write().unwrap_or_else(PoisonError::into_inner);
    registry.retain(|_, (_, by)| *by != ordinal);
}

fn page_for(len: usize) -> usize {
    if len < LARGE_PAGE / 2 {
        PAGE
    } else {
        LARGE_PAGE
    }
}

/// The bytes that memory for `len` bytes takes.
fn whole_pages(len: usize) -> Option<usize> {
    len.max(1).checked_next_multiple_of(page_for(len))
}

/// Asks the system to put large pages behind addresses that nothing was written to yet. A system
/// that has none, or none free, takes small ones.
#[cfg(target_os = "linux")]
fn ask_for_large_pages(start: NonNull<u8>, len: usize) {
    // SAFETY: advice on how to map memory of the caller's; its content does not change.
    unsafe { libc::madvise(start.as_ptr().cast(), len, libc::MADV_HUGEPAGE) };
}

#[cfg(not(target_os = "linux"))]
fn ask_for_large_pages(_start: NonNull<u8>, _len: usize) {}

/// Whole pages of the process's memory.
struct Pages {
    start: NonNull<u8>,
    layout: Layout,
    /// Registered with the driver.
    pinned: bool,
}

// SAFETY: memory that one owner has; nothing in it belongs to a thread.
unsafe impl Send for Pages {}
// SAFETY: as above; shared references give addresses only.
unsafe impl Sync for Pages {}

impl Pages {
    /// Zeroed pages for `len` bytes; `None` when memory is short.
    fn new(len: usize) -> Option<Pages> {
        let page = page_for(len);
        let size = whole_pages(len)?;
        let layout = Layout::from_size_align(size, page).ok()?;
        // SAFETY: the size is not 0.
        let start = NonNull::new(unsafe { alloc(layout) })?;
        if page == LARGE_PAGE {
            ask_for_large_pages(start, size);
        }
        // Only now are pages given to these addresses.
        // SAFETY: allocated with this size.
        unsafe { start.as_ptr().write_bytes(0, size) };
        Some(Pages {
            start,
            layout,
            pinned: false,
        })
    }

    fn len(&self) -> usize {
        self.layout.size()
    }

    fn pin(&mut self, context: &Arc<Context>) -> Result<(), CudaError> {
        let current = context.enter()?;
        // SAFETY: the pages are freed only after they were unregistered.
        let registered = unsafe { (current.api()).register_host(self.start.as_ptr(), self.len()) };
        current.check(registered).map_err(|error| {
            error.with_detail(&format!("{} bytes were to be page-locked", self.len()))
        })?;
        self.pinned = true;
        let start = self.start.as_ptr() as usize;
        let mut registry = REGISTRY.write().unwrap_or_else(PoisonError::into_inner);
        registry.insert(start, (start + self.len(), context.device().ordinal));
        Ok(())
    }

    /// Frees the pages, with the context that they were registered in current. Pages that the
    /// driver does not let go are leaked: the device may still write to them.
    fn free(mut self, api: &Api) {
        if !self.pinned {
            return;
        }
        let start = self.start.as_ptr();
        let mut registry = REGISTRY.write().unwrap_or_else(PoisonError::into_inner);
        registry.remove(&(start as usize));
        drop(registry);
        // SAFETY: registered by `pin`; only the owner of the last reference frees them.
        self.pinned = unsafe { api.unregister_host(start) }.is_err();
    }
}

impl Drop for Pages {
    fn drop(&mut self) {
        if !self.pinned {
            // SAFETY: allocated with this layout by `new`, and nobody refers to them any more.
            unsafe { dealloc(self.start.as_ptr(), self.layout) };
        }
    }
}

/// Pinned memory that a device's engines, pools and frames gave back, the oldest first.
#[derive(Default)]
pub struct PinnedPool(Mutex<VecDeque<Pages>>);

impl PinnedPool {
    /// The smallest that holds `len` bytes and is not much larger.
    fn take(&self, len: usize) -> Option<Pages> {
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let most = whole_pages(len)? + len / 4;
        let fitting = |pages: &Pages| (len..=most).contains(&pages.len());
        let best = (kept.iter().enumerate())
            .filter(|(_, pages)| fitting(pages))
            .min_by_key(|(_, pages)| pages.len())?
            .0;
        kept.remove(best)
    }

    /// Keeps `pages`; returns what then is beyond `most` bytes, the oldest.
    fn put(&self, pages: Pages, most: usize) -> Vec<Pages> {
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        kept.push_back(pages);
        let mut bytes: usize = kept.iter().map(Pages::len).sum();
        let mut surplus = Vec::new();
        while bytes > most
            && let Some(oldest) = kept.pop_front()
        {
            bytes -= oldest.len();
            surplus.push(oldest);
        }
        surplus
    }

    /// Frees all, with the context current.
    pub(super) fn clear(&self, api: &Api) {
        let kept = std::mem::take(&mut *self.0.lock().unwrap_or_else(PoisonError::into_inner));
        kept.into_iter().for_each(|pages| pages.free(api));
    }
}

/// Host memory that the GPU can reach directly. Dropping it gives it back to the device's pool.
pub struct Block {
    /// `None` only while it is dropped.
    pages: Option<Pages>,
    context: Arc<Context>,
}

impl Block {
    /// At least `len` bytes of page-locked memory, of any content.
    ///
    /// # Errors
    /// When memory is short or the driver refuses to lock it.
    pub fn pinned(context: &Arc<Context>, len: usize) -> Result<Block, CudaError> {
        let block = |pages| Block {
            pages: Some(pages),
            context: context.clone(),
        };
        if let Some(pages) = context.pinned.take(len) {
            return Ok(block(pages));
        }
        let mut pages = Pages::new(len).ok_or_else(|| CudaError {
            call: "allocating host memory",
            code: super::api::code::OUT_OF_MEMORY,
            name: "out of memory".into(),
            text: format!("{len} bytes were asked for"),
            device: "the host".into(),
            detail: String::new(),
        })?;
        pages.pin(context)?;
        Ok(block(pages))
    }

    /// The same, in memory that is not locked where the driver refuses, which only costs speed.
    /// `None` when memory is short.
    pub fn preferably_pinned(context: &Arc<Context>, len: usize) -> Option<Block> {
        Block::pinned(context, len).ok().or_else(|| {
            Some(Block {
                pages: Some(Pages::new(len)?),
                context: context.clone(),
            })
        })
    }

    /// The first byte, at a multiple of the page size.
    pub fn start(&self) -> *mut u8 {
        let pages = self.pages.as_ref().expect("there until it is dropped");
        pages.start.as_ptr()
    }
}

impl Drop for Block {
    fn drop(&mut self) {
        let Some(pages) = self.pages.take() else {
            return;
        };
        // Without a living device pinned pages cannot be unregistered, and are left to the end of
        // the process by their own drop.
        if !pages.pinned || self.context.device().dead().is_some() {
            return;
        }
        let surplus = self.context.pinned.put(pages, KEPT_BYTES);
        if !surplus.is_empty() {
            self.context.release(|api| {
                surplus.into_iter().for_each(|pages| pages.free(api));
                Ok(())
            });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_are_whole_zeroed_and_aligned() {
        let pages = Pages::new(100_000).unwrap();
        assert_eq!(pages.len(), 2 * PAGE);
        assert_eq!(pages.start.as_ptr() as usize % PAGE, 0);
        // SAFETY: the pages were allocated with this length.
        let bytes = unsafe { std::slice::from_raw_parts(pages.start.as_ptr(), pages.len()) };
        assert!(bytes.iter().all(|&byte| byte == 0));
        assert!(Pages::new(usize::MAX).is_none());
        let frame = Pages::new(1920 * 1080).unwrap();
        assert_eq!(frame.len(), LARGE_PAGE);
        assert_eq!(frame.start.as_ptr() as usize % LARGE_PAGE, 0);
    }

    #[test]
    fn a_pool_gives_the_smallest_that_fits_and_nothing_much_larger() {
        let pool = PinnedPool::default();
        for len in [8 * PAGE, 10 * PAGE, 64 * PAGE] {
            assert!(pool.put(Pages::new(len).unwrap(), KEPT_BYTES).is_empty());
        }
        assert_eq!(pool.take(9 * PAGE).unwrap().len(), 10 * PAGE);
        assert!(pool.take(9 * PAGE).is_none());
        assert_eq!(pool.take(8 * PAGE).unwrap().len(), 8 * PAGE);
        assert!(pool.take(1).is_none());
        let frame = 1200 * 1024;
        assert!(pool.put(Pages::new(frame).unwrap(), KEPT_BYTES).is_empty());
        assert_eq!(pool.take(frame).unwrap().len(), LARGE_PAGE);
    }

    #[test]
    fn a_pool_lets_the_oldest_go_when_it_keeps_too_much() {
        let pool = PinnedPool::default();
        let put = |pages: usize| pool.put(Pages::new(pages * PAGE).unwrap(), 10 * PAGE);
        assert!(put(3).is_empty() && put(4).is_empty() && put(3).is_empty());
        let lens: Vec<usize> = put(5).iter().map(|pages| pages.len() / PAGE).collect();
        assert_eq!(lens, [3, 4]);
    }

    #[test]
    fn only_whole_registered_ranges_are_pinned() {
        let base = 0x7000_0000_0000usize;
        (REGISTRY.write().unwrap()).insert(base, (base + 1000, -7));
        let at = |offset: usize, len| is_pinned((base + offset) as *const u8, len);
        assert!(at(0, 1000) && at(10, 990) && at(999, 1));
        assert!(!at(10, 991) && !at(1000, 1) && !at(0, usize::MAX));
        assert!(!is_pinned((base - 1) as *const u8, 2));
        forget_device(-7);
        assert!(!at(0, 1));
    }
}
