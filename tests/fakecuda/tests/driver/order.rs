//! Streams and events: what is ordered, and what is not.

use cudarc::driver::sys::*;

use crate::control::live;
use crate::support::*;
use crate::{ok, on_test_driver, status};

const SIZE: usize = 100_000;

#[test]
fn a_stream_does_its_work_in_order() {
    on_test_driver!(&[("FAKECUDA_DELAY_US", "2000")], || {
        context();
        let stream = stream();
        let memory = device_memory(SIZE);
        let results: Vec<Pinned> = (1..=5u8)
            .map(|value| {
                let (source, result) = (Pinned::new(SIZE), Pinned::new(SIZE));
                source.fill(value);
                source.upload(memory, stream);
                result.download(memory, stream);
                result
            })
            .collect();
        ok!(cuStreamSynchronize(stream));
        for (value, result) in (1..).zip(results) {
            assert_eq!(result.bytes(), vec![value; SIZE]);
        }
    });
}

#[test]
fn a_call_that_puts_work_on_a_stream_does_not_wait_for_it() {
    on_test_driver!(&[], || {
        context();
        let (stream, memory) = (stream(), device_memory(SIZE));
        let (source, result) = (Pinned::new(SIZE), Pinned::new(SIZE));
        source.fill(7);
        for _ in 0..200 {
            source.upload(memory, stream);
        }
        result.download(memory, stream);
        let done = record(stream);
        let first = status!(cuEventQuery(done));
        assert_eq!(first, CUresult::CUDA_ERROR_NOT_READY);
        assert_ne!(result.bytes(), vec![7; SIZE]);
        ok!(cuEventSynchronize(done));
        assert_eq!(status!(cuEventQuery(done)), OK);
        assert_eq!(result.bytes(), vec![7; SIZE]);
    });
}

#[test]
fn an_event_means_its_last_record_when_it_is_waited_for() {
    on_test_driver!(&[("FAKECUDA_DELAY_US", "3000")], || {
        context();
        let (one, two) = (stream(), stream());
        let (a, b) = (device_memory(SIZE), device_memory(SIZE));
        let (x, y) = (Pinned::new(SIZE), Pinned::new(SIZE));
        x.fill(1);
        y.fill(2);
        let event = event(0);
        // Never recorded: nothing to wait for.
        ok!(cuStreamWaitEvent(two, event, 0));
        assert_eq!(status!(cuEventQuery(event)), OK);
        x.upload(a, one);
        ok!(cuEventRecord(event, one));
        ok!(cuStreamWaitEvent(two, event, 0));
        // The wait above keeps to the record before this one.
        y.upload(b, one);
        ok!(cuEventRecord(event, one));
        let result = Pinned::new(SIZE);
        result.download(a, two);
        ok!(cuStreamSynchronize(two));
        assert_eq!(result.bytes(), vec![1; SIZE]);
        ok!(cuEventSynchronize(event));
    });
}

#[test]
fn events_tell_the_time_between_them() {
    on_test_driver!(&[], || {
        context();
        let (stream, memory, source) = (stream(), device_memory(SIZE), Pinned::new(SIZE));
        let start = record(stream);
        for _ in 0..50 {
            source.upload(memory, stream);
        }
        let end = record(stream);
        let mut elapsed = -1.0;
        let early = status!(cuEventElapsedTime(&mut elapsed, start, end));
        assert_eq!(early, CUresult::CUDA_ERROR_NOT_READY);
        ok!(cuEventSynchronize(end));
        ok!(cuEventElapsedTime(&mut elapsed, start, end));
        assert!(elapsed > 0.0);
        let mut back = 0.0;
        ok!(cuEventElapsedTime(&mut back, end, start));
        assert_eq!(back, -elapsed);
        let untimed = event(2);
        ok!(cuEventRecord(untimed, stream));
        ok!(cuEventSynchronize(untimed));
        let none = status!(cuEventElapsedTime(&mut elapsed, start, untimed));
        assert_eq!(none, CUresult::CUDA_ERROR_INVALID_HANDLE);
    });
}

#[test]
fn a_destroyed_stream_finishes_its_work() {
    on_test_driver!(&[("FAKECUDA_DELAY_US", "2000")], || {
        context();
        let (stream, memory, source) = (stream(), device_memory(SIZE), Pinned::new(SIZE));
        source.fill(9);
        source.upload(memory, stream);
        let result = Pinned::new(SIZE);
        result.download(memory, stream);
        let done = record(stream);
        ok!(cuStreamDestroy_v2(stream));
        ok!(cuEventSynchronize(done));
        assert_eq!(result.bytes(), vec![9; SIZE]);
        ok!(cuEventDestroy_v2(done));
        assert_eq!(live("streams") + live("events"), 0);
    });
}

/// Uploads on one stream and downloads on another, and makes the second wait if told to.
fn handed_over(wait: bool) {
    context();
    let (one, two) = (stream(), stream());
    let memory = device_memory(SIZE);
    let (source, result) = (Pinned::new(SIZE), Pinned::new(SIZE));
    source.fill(3);
    source.upload(memory, one);
    let uploaded = record(one);
    if wait {
        ok!(cuStreamWaitEvent(two, uploaded, 0));
    }
    result.download(memory, two);
    ok!(cuStreamSynchronize(two));
    assert_eq!(result.bytes(), vec![3; SIZE]);
}

#[test]
fn streams_hand_over_memory_by_an_event() {
    on_test_driver!(&[("FAKECUDA_DELAY_US", "2000")], || handed_over(true));
}

#[test]
fn two_streams_that_use_the_same_memory_without_order_are_a_fault() {
    on_test_driver!(violates "neither waits for the other", || handed_over(false));
}

#[test]
fn the_default_stream_is_a_fault() {
    on_test_driver!(violates "the default stream must not be used", || {
        context();
        Pinned::new(10).upload(device_memory(10), std::ptr::null_mut());
    });
}

#[test]
fn a_stream_that_waits_for_the_default_stream_is_a_fault() {
    on_test_driver!(violates "CU_STREAM_NON_BLOCKING", || {
        context();
        let mut stream = std::ptr::null_mut();
        ok!(cuStreamCreate(&mut stream, 0));
    });
}

#[test]
fn a_destroyed_event_is_gone() {
    on_test_driver!(violates "is no event", || {
        context();
        let event = record(stream());
        ok!(cuEventDestroy_v2(event));
        ok!(cuEventSynchronize(event));
    });
}

#[test]
fn a_context_that_goes_with_work_in_flight_is_a_fault() {
    on_test_driver!(violates "while work on one of its streams is in flight", || {
        context();
        Pinned::new(SIZE).upload(device_memory(SIZE), stream());
        ok!(cuDevicePrimaryCtxRelease_v2(0));
    });
}
