//! Pinned memory as GStreamer's pools allocate it.

use std::sync::{Arc, OnceLock};

use gst::glib;
use gst::subclass::prelude::*;

use super::context::Context;
use super::pinned::Block;

mod imp {
    use super::*;

    #[derive(Default)]
    pub struct PinnedAllocator {
        pub(super) context: OnceLock<Arc<Context>>,
    }

    #[glib::object_subclass]
    impl ObjectSubclass for PinnedAllocator {
        const NAME: &'static str = "GstCudaConvPinnedAllocator";
        type Type = super::PinnedAllocator;
        type ParentType = gst::Allocator;
    }

    impl ObjectImpl for PinnedAllocator {}
    impl GstObjectImpl for PinnedAllocator {}

    // SAFETY: `alloc` returns memory of the size asked for, which GStreamer's own functions for
    // wrapped memory map, share and free.
    unsafe impl AllocatorImpl for PinnedAllocator {
        unsafe fn alloc(
            &self,
            size: usize,
            params: &gst::AllocationParams,
        ) -> *mut gst::ffi::GstMemory {
            self.allocate(size, params).unwrap_or(std::ptr::null_mut())
        }
    }

    impl PinnedAllocator {
        /// `None` when memory is short.
        fn allocate(
            &self,
            size: usize,
            params: &gst::AllocationParams,
        ) -> Option<*mut gst::ffi::GstMemory> {
            let (prefix, padding) = (params.prefix(), params.padding());
            let whole = prefix.checked_add(size)?.checked_add(padding)?;
            let block = Block::preferably_pinned(self.context.get()?, whole)?;
            let start = block.start();
            if start as usize & params.align() != 0 {
                return None;
            }
            let flags = params.flags();
            // SAFETY: all ranges lie within the block, which is at least `whole` bytes long.
            unsafe {
                if flags.contains(gst::MemoryFlags::ZERO_PREFIXED) {
                    start.write_bytes(0, prefix);
                }
                if flags.contains(gst::MemoryFlags::ZERO_PADDED) {
                    start.add(prefix + size).write_bytes(0, padding);
                }
            }
            // SAFETY: the block stays until GStreamer gives it back to `release`.
            Some(unsafe {
                gst::ffi::gst_memory_new_wrapped(
                    glib::translate::IntoGlib::into_glib(flags),
                    start.cast(),
                    whole,
                    prefix,
                    size,
                    Box::into_raw(Box::new(block)).cast(),
                    Some(release),
                )
            })
        }
    }

    unsafe extern "C" fn release(block: glib::ffi::gpointer) {
        // SAFETY: the pointer that `allocate` made, passed back once.
        drop(unsafe { Box::from_raw(block.cast::<Block>()) });
    }
}

glib::wrapper! {
    /// Allocates page-locked memory, or plain memory where the driver locks no more.
    pub struct PinnedAllocator(ObjectSubclass<imp::PinnedAllocator>) @extends gst::Allocator, gst::Object;
}

impl PinnedAllocator {
    /// An allocator whose memory is given back to `context`'s pool.
    pub fn new(context: &Arc<Context>) -> PinnedAllocator {
        let allocator: PinnedAllocator = glib::Object::new();
        // Cannot be set: the object is new.
        let _ = allocator.imp().context.set(context.clone());
        allocator
    }
}
