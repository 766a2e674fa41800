//! Memory: bounds, kinds, and use while work on it is in flight.

use std::ffi::c_void;

use cudarc::driver::sys::*;

use crate::control::live;
use crate::support::*;
use crate::{ok, on_test_driver, status};

#[test]
fn device_memory_starts_as_noise_and_keeps_what_is_written() {
    on_test_driver!(&[], || {
        context();
        let stream = stream();
        let memory = device_memory(1000);
        let (first, second) = (Pinned::new(1000), Pinned::new(1000));
        first.download(memory, stream);
        ok!(cuMemsetD8Async(memory, 5, 600, stream));
        second.download(memory, stream);
        ok!(cuStreamSynchronize(stream));
        let (first, second) = (first.bytes(), second.bytes());
        let values: std::collections::HashSet<_> = first.iter().collect();
        assert!(values.len() > 100, "noise has many values");
        assert_eq!(second[..600], [5; 600]);
        assert_eq!(second[600..], first[600..]);
    });
}

#[test]
fn the_device_has_so_much_memory() {
    on_test_driver!(&[("FAKECUDA_MEMORY", "1000000")], || {
        context();
        let (mut free, mut total) = (0, 0);
        let memory = device_memory(600_000);
        ok!(cuMemGetInfo_v2(&mut free, &mut total));
        assert_eq!((free, total), (400_000, 1_000_000));
        let mut address = 0;
        let full = status!(cuMemAlloc_v2(&mut address, 400_001));
        assert_eq!(full, CUresult::CUDA_ERROR_OUT_OF_MEMORY);
        ok!(cuMemFree_v2(memory));
        assert_ne!(device_memory(400_001), memory);
    });
}

/// A copy of `height` rows of `width` bytes.
fn rows(from: Pinned, from_pitch: usize, to: CUdeviceptr, to_pitch: usize) -> CUDA_MEMCPY2D {
    CUDA_MEMCPY2D {
        srcXInBytes: 2,
        srcY: 1,
        srcMemoryType: CUmemorytype::CU_MEMORYTYPE_HOST,
        srcHost: from.start.cast::<c_void>(),
        srcDevice: 0,
        srcArray: std::ptr::null_mut(),
        srcPitch: from_pitch,
        dstXInBytes: 0,
        dstY: 0,
        dstMemoryType: CUmemorytype::CU_MEMORYTYPE_DEVICE,
        dstHost: std::ptr::null_mut(),
        dstDevice: to,
        dstArray: std::ptr::null_mut(),
        dstPitch: to_pitch,
        WidthInBytes: 5,
        Height: 3,
    }
}

#[test]
fn rows_are_copied_with_their_pitches() {
    on_test_driver!(&[], || {
        context();
        let stream = stream();
        let source = Pinned::new(40);
        // SAFETY: the leaked allocation, with nothing in flight.
        (0..40).for_each(|i| unsafe { *source.start.add(i) = i as u8 });
        let memory = device_memory(8 + 8 + 5);
        ok!(cuMemsetD8Async(memory, 99, 21, stream));
        ok!(cuMemcpy2DAsync_v2(&rows(source, 10, memory, 8), stream));
        let result = Pinned::new(21);
        result.download(memory, stream);
        ok!(cuStreamSynchronize(stream));
        let gap = [99, 99, 99];
        let row = |first: u8| (first..first + 5).collect::<Vec<u8>>();
        let expected = [&row(12)[..], &gap, &row(22), &gap, &row(32)].concat();
        assert_eq!(result.bytes(), expected);
        let narrow = status!(cuMemcpy2DAsync_v2(&rows(source, 6, memory, 8), stream));
        assert_eq!(narrow, CUresult::CUDA_ERROR_INVALID_VALUE);
    });
}

#[test]
fn rows_beyond_an_allocation_are_a_fault() {
    on_test_driver!(violates "the target reaches 1 bytes beyond its device allocation", || {
        context();
        let memory = device_memory(8 + 8 + 4);
        ok!(cuMemcpy2DAsync_v2(&rows(Pinned::new(40), 10, memory, 8), stream()));
    });
}

#[test]
fn rows_beyond_page_locked_memory_are_a_fault() {
    on_test_driver!(violates "the source reaches 1 bytes beyond its page-locked", || {
        context();
        let memory = device_memory(100);
        ok!(cuMemcpy2DAsync_v2(&rows(Pinned::new(36), 10, memory, 8), stream()));
    });
}

#[test]
fn pageable_memory_is_a_fault() {
    on_test_driver!(violates "no page-locked host memory", || {
        context();
        let bytes = [0u8; 100];
        let (memory, stream) = (device_memory(100), stream());
        ok!(cuMemcpyHtoDAsync_v2(memory, bytes.as_ptr().cast(), 100, stream));
    });
}

#[test]
fn memory_that_was_freed_is_a_fault() {
    on_test_driver!(violates "in no device allocation, or it was freed", || {
        context();
        let memory = device_memory(100);
        ok!(cuMemFree_v2(memory));
        Pinned::new(100).upload(memory, stream());
    });
}

#[test]
fn memory_that_is_freed_twice_is_a_fault() {
    on_test_driver!(violates "is no device allocation, or it was freed", || {
        context();
        let memory = device_memory(100);
        ok!(cuMemFree_v2(memory));
        ok!(cuMemFree_v2(memory));
    });
}

#[test]
fn device_memory_freed_in_flight_is_a_fault() {
    on_test_driver!(violates "device memory is freed, but nothing has shown yet", || {
        context();
        let memory = device_memory(100);
        Pinned::new(100).upload(memory, stream());
        ok!(cuMemFree_v2(memory));
    });
}

#[test]
fn host_memory_unregistered_in_flight_is_a_fault() {
    on_test_driver!(violates "host memory is unregistered, but nothing has shown yet", || {
        context();
        let source = Pinned::new(100);
        source.upload(device_memory(100), stream());
        ok!(cuMemHostUnregister(source.start.cast()));
    });
}

#[test]
fn once_the_host_knows_of_the_end_memory_can_go() {
    on_test_driver!(&[], || {
        context();
        let (stream, memory, source) = (stream(), device_memory(100), Pinned::new(100));
        source.upload(memory, stream);
        let done = record(stream);
        while status!(cuEventQuery(done)) != OK {
            std::thread::yield_now();
        }
        ok!(cuMemFree_v2(memory));
        ok!(cuMemHostUnregister(source.start.cast()));
        let again = status!(cuMemHostUnregister(source.start.cast()));
        assert_eq!(again, CUresult::CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED);
        assert_eq!(live("allocations") + live("registrations"), 0);
    });
}

/// A stream on which nothing begins for a while.
fn held_back() -> CUstream {
    let (slow, held) = (stream(), stream());
    let (memory, source) = (device_memory(1 << 20), Pinned::new(1 << 20));
    for _ in 0..50 {
        source.upload(memory, slow);
    }
    ok!(cuStreamWaitEvent(held, record(slow), 0));
    held
}

#[test]
fn an_upload_whose_source_is_overwritten_is_a_fault() {
    on_test_driver!(violates "the source was written to before the copy was done", || {
        context();
        let (stream, source) = (held_back(), Pinned::new(100));
        source.fill(1);
        source.upload(device_memory(100), stream);
        source.fill(2);
        ok!(cuStreamSynchronize(stream));
    });
}

#[test]
fn a_download_whose_target_is_overwritten_is_a_fault() {
    on_test_driver!(violates "the target was written to before the copy was done", || {
        context();
        let (stream, target) = (held_back(), Pinned::new(100));
        target.download(device_memory(100), stream);
        target.fill(2);
        ok!(cuStreamSynchronize(stream));
    });
}

#[test]
fn whoever_reads_a_download_too_early_finds_no_pixels() {
    on_test_driver!(&[], || {
        context();
        let (stream, target) = (held_back(), Pinned::new(100));
        let memory = device_memory(100);
        ok!(cuMemsetD8Async(memory, 0, 100, stream));
        target.fill(0);
        target.download(memory, stream);
        assert!(target.bytes().iter().filter(|byte| **byte == 0).count() < 10);
        ok!(cuStreamSynchronize(stream));
        assert_eq!(target.bytes(), [0; 100]);
    });
}

#[test]
fn waiting_for_the_whole_device_is_a_fault() {
    on_test_driver!(violates "waiting for a whole device", || {
        context();
        ok!(cuCtxSynchronize());
    });
}
