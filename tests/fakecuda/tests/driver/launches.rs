//! Launches: what is computed, and what the driver makes of wrong ones.

use std::ffi::c_void;
use std::ptr;

use cudarc::driver::sys::*;
use fakecuda::abi::{
    Channel, ConvolveLaunch, Frame, Geometry, Job, Kernel, Taps, action, border, packed, push_line,
    sample,
};

use crate::support::*;
use crate::{ok, on_test_driver};

const PTX: &str = "//\n.version 8.2\n.target sm_75\n.address_size 64\n\n\
    .visible .entry convolve_naive_u8(\n\t.param .align 8 .b8 convolve_naive_u8_param_0[2976]\n)\n\
    {\n\tret;\n}\n\
    .visible .entry separable_u8(\n\t.param .align 8 .b8 separable_u8_param_0[2976]\n)\n\
    {\n\tret;\n}\n";
const KERNEL: Kernel = Kernel::ConvolveNaiveU8;
const WIDTH: usize = 37;
const HEIGHT: usize = 11;
const STRIDE: usize = 40;
const WEIGHTS: [f32; 9] = [1.0, 2.0, 1.0, 2.0, 4.0, 2.0, 1.0, 2.0, 1.0];

/// A picture with its weights on the device, and a launch that blurs it.
struct Blur {
    function: CUfunction,
    stream: CUstream,
    geometry: Geometry,
    launch: Box<ConvolveLaunch>,
}

fn pixel(x: usize, y: usize) -> u8 {
    (x * 67 + y * 151 + x * y * 13) as u8
}

impl Blur {
    fn new() -> Blur {
        context();
        let module = load(PTX).unwrap();
        let mut function = ptr::null_mut();
        ok!(cuModuleGetFunction(
            &mut function,
            module,
            c"convolve_naive_u8".as_ptr()
        ));
        let stream = stream();
        let picture = Pinned::new(STRIDE * HEIGHT);
        let mut lines = Vec::new();
        for line in WEIGHTS.chunks_exact(3) {
            push_line(&mut lines, line);
        }
        let weights = Pinned::new(size_of_val(&lines[..]));
        for (at, value) in lines.into_iter().enumerate() {
            // SAFETY: the leaked allocation, with nothing in flight.
            unsafe { weights.start.cast::<f32>().add(at).write(value) };
        }
        for at in 0..STRIDE * HEIGHT {
            // SAFETY: as above.
            unsafe { *picture.start.add(at) = pixel(at % STRIDE, at / STRIDE) };
        }
        let device = [picture, weights].map(|pinned| {
            let memory = device_memory(pinned.size);
            pinned.upload(memory, stream);
            memory
        });
        let channel = Channel {
            input: device[0],
            output: device_memory(STRIDE * HEIGHT),
            input_stride: STRIDE as u32,
            output_stride: STRIDE as u32,
            step: 1,
            action: action::FILTER,
            ..Channel::default()
        };
        let mut job = Job {
            channel_count: 1,
            width: WIDTH as u32,
            height: HEIGHT as u32,
            packed: 1,
            alpha: -1,
            ..Job::default()
        };
        job.channels[0] = channel;
        let mut frame = Frame {
            job_count: 1,
            border: border::REPLICATE,
            sample: sample::U8,
            max_code: 255.0,
            ..Frame::default()
        };
        frame.jobs[0] = job;
        let geometry = KERNEL.place(&mut frame, (1, 1));
        let mut launch = Box::new(ConvolveLaunch {
            frame,
            weights: device[1],
            kernel_count: 1,
            divisor: 16.0,
            reciprocal: 0.0625,
            ..ConvolveLaunch::default()
        });
        launch.kernels[0] = Taps {
            width: 3,
            height: 3,
            ..Taps::default()
        };
        Blur {
            function,
            stream,
            geometry,
            launch,
        }
    }

    fn channel(&mut self) -> &mut Channel {
        &mut self.launch.frame.jobs[0].channels[0]
    }

    fn launch(&self, stream: CUstream) {
        let (grid, block) = (self.geometry.grid, self.geometry.block);
        let parameter: *const ConvolveLaunch = &*self.launch;
        let mut parameters = [parameter.cast_mut().cast::<c_void>()];
        ok!(cuLaunchKernel(
            self.function,
            grid.x,
            grid.y,
            1,
            block.x,
            block.y,
            1,
            self.geometry.shared_bytes,
            stream,
            parameters.as_mut_ptr(),
            ptr::null_mut()
        ));
    }
}

#[test]
fn a_kernel_computes_its_job_and_writes_nothing_else() {
    on_test_driver!(&[], || {
        let mut blur = Blur::new();
        let output = blur.channel().output;
        ok!(cuMemsetD8Async(output, 77, STRIDE * HEIGHT, blur.stream));
        blur.launch(blur.stream);
        let result = Pinned::new(STRIDE * HEIGHT);
        result.download(output, blur.stream);
        ok!(cuStreamSynchronize(blur.stream));
        let clamped = |at: usize, by: usize, last: usize| (at + by).saturating_sub(1).min(last);
        for (at, byte) in result.bytes().into_iter().enumerate() {
            let (x, y) = (at % STRIDE, at / STRIDE);
            let taps = (0..9).map(|tap| {
                let x = clamped(x, tap % 3, WIDTH - 1);
                let y = clamped(y, tap / 3, HEIGHT - 1);
                u32::from(pixel(x, y)) * WEIGHTS[tap] as u32
            });
            let sum: u32 = taps.sum();
            // Half to even, in whole numbers.
            let (whole, rest) = (sum / 16, sum % 16);
            let up = rest > 8 || (rest == 8 && whole % 2 == 1);
            let expected = if x < WIDTH { whole + u32::from(up) } else { 77 };
            assert_eq!(u32::from(byte), expected, "{x}, {y}");
        }
    });
}

#[test]
fn a_grid_with_rows_beyond_the_picture_is_a_fault() {
    on_test_driver!(violates "expected Extent { x: 2, y: 2 }", || {
        let mut blur = Blur::new();
        blur.geometry.grid.y += 1;
        blur.launch(blur.stream);
    });
}

#[test]
fn a_band_that_ends_beyond_the_picture_is_a_fault() {
    on_test_driver!(violates "a band of 2 tiles from 1, of 2", || {
        let mut blur = Blur::new();
        blur.launch.frame.jobs[0].first_tile_row = 1u32.wrapping_neg();
        blur.launch(blur.stream);
    });
}

#[test]
fn an_output_beyond_its_allocation_is_a_fault() {
    on_test_driver!(violates "the output reaches 37 bytes beyond its device allocation", || {
        let mut blur = Blur::new();
        blur.channel().output += 40;
        blur.launch(blur.stream);
    });
}

#[test]
fn an_output_over_the_input_is_a_fault() {
    on_test_driver!(violates "input and output overlap", || {
        let mut blur = Blur::new();
        blur.channel().output = blur.channel().input;
        blur.launch(blur.stream);
    });
}

#[test]
fn missing_weights_are_a_fault() {
    on_test_driver!(violates "the weights at 0x0 is in no device allocation", || {
        let mut blur = Blur::new();
        blur.launch.weights = 0;
        blur.launch(blur.stream);
    });
}

#[test]
fn a_kernel_that_does_not_wait_for_its_input_is_a_fault() {
    on_test_driver!(violates "neither waits for the other", || {
        let blur = Blur::new();
        blur.launch(stream());
    });
}

#[test]
fn a_kernel_chosen_for_more_than_it_can_do_is_a_fault() {
    on_test_driver!(violates "separable_u8 cannot do kernels that are not separable", || {
        let blur = Blur::new();
        let module = load(PTX).unwrap();
        let mut function = ptr::null_mut();
        ok!(cuModuleGetFunction(&mut function, module, c"separable_u8".as_ptr()));
        Blur { function, ..blur }.launch(blur.stream);
    });
}

#[test]
fn channels_that_are_no_packed_422_are_a_fault() {
    on_test_driver!(violates "packed is 2, the channels are", || {
        let mut blur = Blur::new();
        blur.launch.frame.jobs[0].packed = packed::LUMA_FIRST;
        blur.launch(blur.stream);
    });
}

#[test]
fn packed_422_is_not_for_every_kernel() {
    on_test_driver!(violates "convolve_naive_u8 cannot do packed 4:2:2", || {
        let mut blur = Blur::new();
        let job = &mut blur.launch.frame.jobs[0];
        (job.packed, job.channel_count, job.width) = (packed::LUMA_FIRST, 4, 18);
        let first = job.channels[0];
        for (index, channel) in job.channels.iter_mut().enumerate() {
            let at = index as u64;
            *channel = Channel {
                input: first.input + at,
                output: first.output + at,
                step: if index % 2 == 0 { 2 } else { 4 },
                ..first
            };
        }
        blur.launch(blur.stream);
    });
}

#[test]
fn a_module_unloaded_in_flight_is_a_fault() {
    on_test_driver!(violates "nothing has shown yet that its kernels are done", || {
        let blur = Blur::new();
        let module = load(PTX).unwrap();
        let mut function = ptr::null_mut();
        ok!(cuModuleGetFunction(&mut function, module, c"convolve_naive_u8".as_ptr()));
        Blur { function, ..blur }.launch(blur.stream);
        ok!(cuModuleUnload(module));
    });
}
