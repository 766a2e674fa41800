//! Devices, contexts, modules.

use std::ffi::CStr;
use std::ptr;

use cudarc::driver::sys::*;

use crate::control::live;
use crate::support::*;
use crate::{ok, on_test_driver, status};

fn init_status() -> Status {
    status!(cuInit(0))
}

#[test]
fn cudarc_finds_the_driver_and_one_device() {
    on_test_driver!(&[], || {
        assert!(status!(is_culib_present()));
        let mut version = 0;
        ok!(cuDriverGetVersion(&mut version));
        assert_eq!(version, 12020);
        let mut count = 0;
        let not_initialised = status!(cuDeviceGetCount(&mut count));
        assert_eq!(not_initialised, CUresult::CUDA_ERROR_NOT_INITIALIZED);
        assert_eq!(init_status(), OK);
        ok!(cuDeviceGetCount(&mut count));
        assert_eq!(count, 1);
        let mut name = [1; 64];
        ok!(cuDeviceGetName(name.as_mut_ptr(), 64, 0));
        // SAFETY: the driver ended it with 0.
        let name = unsafe { CStr::from_ptr(name.as_ptr()) };
        assert_eq!(name, c"Fake CUDA device");
        let missing = status!(cuDeviceGet(&mut count, 1));
        assert_eq!(missing, CUresult::CUDA_ERROR_INVALID_DEVICE);
    });
}

#[test]
fn without_devices_the_driver_does_not_start() {
    on_test_driver!(&[("FAKECUDA_DEVICES", "0")], || {
        assert_eq!(init_status(), CUresult::CUDA_ERROR_NO_DEVICE);
    });
}

#[test]
fn the_environment_hides_devices_and_names_versions() {
    let variables = [
        ("FAKECUDA_DEVICES", "3"),
        ("CUDA_VISIBLE_DEVICES", "2,0"),
        ("FAKECUDA_DRIVER_VERSION", "11040"),
        ("FAKECUDA_COMPUTE", "75"),
    ];
    on_test_driver!(&variables, || {
        let (mut version, mut count, mut major) = (0, 0, 0);
        ok!(cuDriverGetVersion(&mut version));
        assert_eq!(version, 11040);
        assert_eq!(init_status(), OK);
        ok!(cuDeviceGetCount(&mut count));
        assert_eq!(count, 2);
        let attribute = CUdevice_attribute::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR;
        ok!(cuDeviceGetAttribute(&mut major, attribute, 1));
        assert_eq!(major, 7);
        let mut id = [1; 16];
        ok!(cuDeviceGetPCIBusId(id.as_mut_ptr(), 16, 0));
        // SAFETY: the driver ended it with 0.
        let id = unsafe { CStr::from_ptr(id.as_ptr()) };
        assert_eq!(id, c"0000:43:00.0");
    });
}

#[test]
fn contexts_are_a_stack_of_each_thread() {
    on_test_driver!(&[("FAKECUDA_DEVICES", "2")], || {
        let first = context();
        let (mut second, mut current) = (ptr::null_mut(), ptr::null_mut());
        ok!(cuDevicePrimaryCtxRetain(&mut second, 1));
        assert_ne!(first, second);
        ok!(cuCtxPushCurrent_v2(second));
        ok!(cuCtxGetCurrent(&mut current));
        assert_eq!(current, second);
        std::thread::spawn(|| {
            let mut current = ptr::dangling_mut();
            ok!(cuCtxGetCurrent(&mut current));
            assert!(current.is_null());
        })
        .join()
        .unwrap();
        ok!(cuCtxPopCurrent_v2(&mut current));
        assert_eq!(current, second);
        ok!(cuCtxPopCurrent_v2(&mut current));
        assert_eq!(current, first);
        let empty = status!(cuCtxPopCurrent_v2(&mut current));
        assert_eq!(empty, CUresult::CUDA_ERROR_INVALID_CONTEXT);
    });
}

#[test]
fn a_primary_context_goes_with_all_that_is_in_it_when_nobody_retains_it() {
    on_test_driver!(&[], || {
        let context = context();
        let mut again = ptr::null_mut();
        ok!(cuDevicePrimaryCtxRetain(&mut again, 0));
        assert_eq!(context, again);
        stream();
        event(0);
        device_memory(100);
        Pinned::new(100);
        ok!(cuDevicePrimaryCtxRelease_v2(0));
        assert_eq!(live("streams"), 1);
        ok!(cuDevicePrimaryCtxRelease_v2(0));
        for kind in [
            "contexts",
            "streams",
            "events",
            "allocations",
            "registrations",
        ] {
            assert_eq!(live(kind), 0, "{kind}");
        }
        let mut address = 0;
        let gone = status!(cuMemAlloc_v2(&mut address, 1));
        assert_eq!(gone, CUresult::CUDA_ERROR_CONTEXT_IS_DESTROYED);
    });
}

#[test]
fn work_without_a_context_is_a_fault() {
    on_test_driver!(violates "no context is current", || {
        assert_eq!(init_status(), OK);
        device_memory(1);
    });
}

#[test]
fn a_stream_of_another_context_is_a_fault() {
    on_test_driver!(violates "belongs to another context", &[("FAKECUDA_DEVICES", "2")], || {
        context();
        let stream = stream();
        let mut second = ptr::null_mut();
        ok!(cuDevicePrimaryCtxRetain(&mut second, 1));
        ok!(cuCtxPushCurrent_v2(second));
        ok!(cuStreamSynchronize(stream));
    });
}

const PTX: &str = "//\n.version 8.2\n.target sm_75\n.address_size 64\n\n\
    .visible .entry convolve_naive_u8(\n\t.param .align 8 .b8 convolve_naive_u8_param_0[2976]\n)\n\
    {\n\tret;\n}\n";

#[test]
fn modules_give_the_kernels_that_are_in_their_ptx() {
    on_test_driver!(&[], || {
        context();
        let module = load(PTX).unwrap();
        let mut function = ptr::null_mut();
        ok!(cuModuleGetFunction(
            &mut function,
            module,
            c"convolve_naive_u8".as_ptr()
        ));
        let missing = c"convolve_tile_u8".as_ptr();
        let missing = status!(cuModuleGetFunction(&mut function, module, missing));
        assert_eq!(missing, CUresult::CUDA_ERROR_NOT_FOUND);
        ok!(cuModuleUnload(module));
        assert_eq!(live("modules"), 0);
    });
}

#[test]
fn ptx_for_a_newer_driver_is_refused_with_a_log() {
    on_test_driver!(&[("FAKECUDA_DRIVER_VERSION", "12010")], || {
        context();
        let refused = CUresult::CUDA_ERROR_UNSUPPORTED_PTX_VERSION;
        assert_eq!(load(PTX), Err(refused));
        let text = std::ffi::CString::new(PTX).unwrap();
        let mut log = [0x55u8; 80];
        let mut options = [
            CUjit_option::CU_JIT_ERROR_LOG_BUFFER,
            CUjit_option::CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES,
        ];
        let mut values = [
            log.as_mut_ptr().cast(),
            ptr::without_provenance_mut(log.len()),
        ];
        let mut module = ptr::null_mut();
        let status = status!(cuModuleLoadDataEx(
            &mut module,
            text.as_ptr().cast(),
            2,
            options.as_mut_ptr(),
            values.as_mut_ptr()
        ));
        assert_eq!(status, refused);
        let log = CStr::from_bytes_until_nul(&log).unwrap().to_str().unwrap();
        assert!(log.contains(".version 8.2") && log.contains("8.1"), "{log}");
    });
}

#[test]
fn a_kernel_whose_parameter_has_another_size_is_a_fault() {
    on_test_driver!(violates "takes 2968 bytes, the host hands over 2976", || {
        context();
        let _ = load(&PTX.replace("2976", "2968"));
    });
}
