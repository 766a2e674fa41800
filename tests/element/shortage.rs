//! Downstream that has no memory for frames.

use crate::common::backend;
use crate::common::frames::{assert_raised, gray};
use crate::common::pads::Pads;
use crate::common::pools::{EmptyAllocator, ShortPool};
use crate::common::raising;
use crate::common::watchdog::watched;

/// Reported: where memory runs out in one stream the whole process fails, or rubbish is shown.
#[test]
fn memory_that_runs_out_ends_that_stream_with_a_clear_error_and_no_other() {
    watched(|| {
        let other = Pads::raising();
        other.push_all(0..3);
        let short = Pads::around(raising());
        let pool = ShortPool::make(2);
        short.answer_allocation(move |query| {
            query.add_allocation_pool(Some(&pool), 32 * 24, 0, 0);
            true
        });
        short.begin(&gray());
        // Downstream keeps them, so that a third is needed.
        short.push_all(0..2);
        assert_eq!(short.push(2), Err(gst::FlowError::Error));
        let error = short.wait_error();
        assert!(error.matches(gst::ResourceError::NoSpaceLeft), "{error}");
        short.wait_buffers(2);
        assert_raised(&short.buffers(), 0..2);
        short.stop();
        other.push_all(3..6);
        other.wait_buffers(6);
        assert_raised(&other.buffers(), 0..6);
    });
}

/// Reported: a pool that gets no memory at all hangs the start, or lets frames pass unfiltered.
#[test]
fn a_pool_without_any_memory_is_replaced() {
    watched(|| {
        let pads = Pads::around(raising());
        let pool = ShortPool::make(0);
        pads.answer_allocation(move |query| {
            // Starting takes what the minimum says.
            query.add_allocation_pool(Some(&pool), 32 * 24, 2, 0);
            true
        });
        pads.begin(&gray());
        pads.push_all(0..2);
        pads.wait_buffers(2);
        assert_raised(&pads.buffers(), 0..2);
    });
}

/// Reported: an allocator without memory hangs the start, or lets frames pass unfiltered.
#[test]
fn an_allocator_without_memory_is_a_clear_error() {
    // On a GPU output frames are in memory of the element's own.
    if backend() != "cpu" {
        return;
    }
    watched(|| {
        let pads = Pads::around(raising());
        let allocator = EmptyAllocator::make();
        pads.answer_allocation(move |query| {
            query.add_allocation_param(Some(&allocator), gst::AllocationParams::default());
            true
        });
        pads.begin(&gray());
        assert_eq!(pads.push(0), Err(gst::FlowError::Error));
        let error = pads.wait_error();
        assert!(error.matches(gst::ResourceError::NoSpaceLeft), "{error}");
        assert!(pads.buffers().is_empty());
    });
}
