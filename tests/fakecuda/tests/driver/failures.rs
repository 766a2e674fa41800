//! Failures on purpose.

use cudarc::driver::sys::*;

use crate::control::{calls, inject, live};
use crate::support::*;
use crate::{ok, on_test_driver, status};

fn allocate() -> Status {
    let mut address = 0;
    status!(cuMemAlloc_v2(&mut address, 100))
}

#[test]
fn one_call_fails_as_the_environment_says() {
    on_test_driver!(&[("FAKECUDA_FAIL", "cuMemAlloc:2:2")], || {
        context();
        let results = [(); 3].map(|()| allocate());
        assert_eq!(results, [OK, CUresult::CUDA_ERROR_OUT_OF_MEMORY, OK]);
        assert_eq!(live("allocations"), 2);
        assert_eq!(calls("cuMemAlloc"), 3);
    });
}

#[test]
fn all_calls_fail_after_an_error_that_sticks() {
    on_test_driver!(&[], || {
        context();
        inject("FAIL", "cuMemAlloc:1:700");
        let fault = CUresult::CUDA_ERROR_ILLEGAL_ADDRESS;
        assert_eq!(allocate(), fault);
        assert_eq!(allocate(), fault);
        let mut stream = std::ptr::null_mut();
        assert_eq!(status!(cuStreamCreate(&mut stream, 1)), fault);
        let mut context = std::ptr::null_mut();
        assert_eq!(status!(cuDevicePrimaryCtxRetain(&mut context, 0)), fault);
    });
}

#[test]
fn work_that_fails_shows_it_to_whoever_waits() {
    on_test_driver!(&[("FAKECUDA_FAULT", "cuMemcpyHtoDAsync:2:719")], || {
        context();
        let (stream, memory, source) = (stream(), device_memory(100), Pinned::new(100));
        source.upload(memory, stream);
        let first = record(stream);
        ok!(cuEventSynchronize(first));
        source.upload(memory, stream);
        let second = status!(cuStreamSynchronize(stream));
        assert_eq!(second, CUresult::CUDA_ERROR_LAUNCH_FAILED);
        assert_eq!(status!(cuEventQuery(first)), second);
    });
}

#[test]
fn a_failure_of_one_device_is_none_of_another() {
    on_test_driver!(&[("FAKECUDA_DEVICES", "2")], || {
        context();
        inject("FAIL", "cuMemAlloc:1:700");
        assert_ne!(allocate(), OK);
        let mut second = std::ptr::null_mut();
        ok!(cuDevicePrimaryCtxRetain(&mut second, 1));
        ok!(cuCtxPushCurrent_v2(second));
        assert_eq!(allocate(), OK);
    });
}
