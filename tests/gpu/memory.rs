//! Frames in all kinds of memory, and what is left when engines are gone.

use gst::prelude::*;
use gstcudaconv::engine::Engine;
use gstcudaconv::engine::cpu::CpuEngine;
use gstcudaconv::engine::cuda::CudaEngine;
use gstcudaconv::filter::FilterSpec;
use gstcudaconv::filter::spec::{Kernel, Method};

use crate::support::{self, Memory, SHAPES, TIGHT};

fn sharpen() -> FilterSpec {
    FilterSpec {
        kernel: Kernel::Sharpen,
        ..FilterSpec::default()
    }
}

#[test]
fn what_is_copied_on_the_device_is_as_it_was() {
    let Some(gpu) = support::gpu(1) else { return };
    for bytes in [1, 15, 16, 17, 4096, 8191, 8192, 8193, 100_003] {
        let data: Vec<u8> = (0..bytes).map(|i: u64| (i * i / 7 + i) as u8).collect();
        let copied = gpu.copy_on_device(&data);
        assert!(copied.expect("a copy") == data, "{bytes}");
    }
}

#[test]
fn frames_of_any_shape_in_pinned_or_foreign_memory_are_filtered_alike() {
    let Some(gpu) = support::gpu(2) else { return };
    let cpu = CpuEngine::new().expect("the CPU engine starts");
    let allocator = gpu.allocator().expect("pinned memory");
    let kinds = [Memory::Heap, Memory::From(&allocator)];
    for (format, width, height) in [
        (gst_video::VideoFormat::Nv12, 640, 360),
        (gst_video::VideoFormat::I420, 321, 123),
        (gst_video::VideoFormat::Rgb, 641, 35),
        (gst_video::VideoFormat::P01010le, 64, 48),
        (gst_video::VideoFormat::Rgba, 1024, 600),
        (gst_video::VideoFormat::Gray8, 1, 1),
    ] {
        let layout = support::layout(format, width, height);
        let abilities = support::gpu_abilities();
        let plan = support::plan(&sharpen(), Method::Auto, &layout, abilities).expect("a plan");
        let prepared = support::prepare(&gpu, &plan);
        let heap = (Memory::Heap, TIGHT);
        for (index, input_shape) in SHAPES.into_iter().enumerate() {
            let frame = support::frame(&layout, 9, (Memory::Heap, input_shape), heap, false);
            let frame = support::on_cpu(&cpu, &sharpen(), &layout, frame);
            let expected = support::output_bytes(&layout, &frame);
            let output_shape = SHAPES[(index + 2) % SHAPES.len()];
            for (input, output) in [(0, 0), (0, 1), (1, 0), (1, 1)] {
                let (from, to) = ((kinds[input], input_shape), (kinds[output], output_shape));
                let frame = support::frame(&layout, 9, from, to, false);
                let (frame, timing) = prepared.submit(frame).wait();
                let timing = timing.unwrap_or_else(|error| panic!("{error}"));
                let what = format!("{format:?} {input_shape:?} {output_shape:?} {input}{output}");
                assert!(support::output_bytes(&layout, &frame) == expected, "{what}");
                assert_eq!(timing.pinned_in, input == 1, "{what}");
                assert_eq!(timing.pinned_out, output == 1, "{what}");
                assert!(
                    support::padding_is_untouched(frame, &layout, output_shape),
                    "{what}"
                );
            }
        }
    }
}

#[test]
fn pinned_memory_outlives_its_engine() {
    let Some(gpu) = support::gpu(2) else { return };
    let allocator = gpu.allocator().expect("pinned memory");
    let memory = allocator.alloc(1 << 20, None).expect("a megabyte");
    drop((allocator, gpu));
    let mut mapped = memory.into_mapped_memory_writable().expect("it maps");
    mapped.as_mut_slice().fill(7);
    assert!(mapped.as_slice().iter().all(|&byte| byte == 7));
}

#[test]
fn allocation_parameters_are_honoured() {
    let Some(gpu) = support::gpu(1) else { return };
    let allocator = gpu.allocator().expect("pinned memory");
    // Used before, so that zeros are not there by chance.
    let memory = allocator.alloc(5000, None).expect("memory");
    let mut mapped = memory.into_mapped_memory_writable().expect("it maps");
    mapped.as_mut_slice().fill(0xff);
    drop(mapped);
    let flags = gst::MemoryFlags::ZERO_PREFIXED | gst::MemoryFlags::ZERO_PADDED;
    let params = gst::AllocationParams::new(flags, 255, 300, 77);
    let mut memory = allocator.alloc(4000, Some(&params)).expect("memory");
    assert_eq!(memory.size(), 4000);
    assert!(memory.maxsize() >= 4377);
    let start = memory.map_readable().expect("it maps").as_ptr() as usize;
    assert_eq!((start - 300) % 256, 0);
    // Grown to all that was allocated.
    memory.make_mut().resize_maxsize(0..4377);
    let map = memory.map_readable().expect("it maps");
    assert!(map[..300].iter().all(|&byte| byte == 0));
    assert!(map[4300..].iter().all(|&byte| byte == 0));
}

#[test]
fn engines_that_come_and_go_leave_no_device_memory_behind() {
    let Some(_keeps_the_context) = support::gpu(1) else {
        return;
    };
    let layout = support::layout(gst_video::VideoFormat::Rgba, 1920, 1080);
    let abilities = support::gpu_abilities();
    let plan = support::plan(&sharpen(), Method::Auto, &layout, abilities).expect("a plan");
    let round = || {
        let gpu: CudaEngine = support::gpu(3).expect("there was one before");
        let prepared = support::prepare(&gpu, &plan);
        let heap = (Memory::Heap, TIGHT);
        for seed in 0..3 {
            let frame = support::frame(&layout, seed, heap, heap, false);
            prepared.submit(frame).wait().1.expect("filtered");
        }
        drop(prepared);
        gpu.free_memory().expect("the device answers")
    };
    let first = round();
    for _ in 0..20 {
        let free = round();
        // Other tests of this process allocate too, but not as much as these engines would leak.
        assert!(
            free + (256 << 20) > first,
            "{free} of {first} bytes are left"
        );
    }
}
