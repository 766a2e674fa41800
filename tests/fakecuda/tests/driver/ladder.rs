//! Textures, variables in constant memory and occupancy: what the kernels of the ladder need beside
//! all else.

use std::ffi::c_void;
use std::ptr;

use cudarc::driver::sys::*;
use fakecuda::abi::Extent;
use fakecuda::abi::ladder::{CONVOLVE_WORDS, Kernel, LadderLaunch};

use crate::support::*;
use crate::{ok, on_test_driver, status};

const PTX: &str = "//\n.version 8.2\n.target sm_75\n.address_size 64\n\n\
    .const .align 4 .b8 ladder_table[72];\n\n\
    .visible .entry ladder_convolve_constant(\n\
    \t.param .align 8 .b8 ladder_convolve_constant_param_0[48]\n)\n{\n\tret;\n}\n\
    .visible .entry ladder_convolve_texture(\n\
    \t.param .align 8 .b8 ladder_convolve_texture_param_0[48]\n)\n{\n\tret;\n}\n";
const WIDTH: usize = 70;
const HEIGHT: usize = 5;
/// Samples.
const STRIDE: usize = 128;
const BYTES: usize = 4 * STRIDE * HEIGHT;
const BLOCK: Extent = Extent { x: 16, y: 16 };

/// A picture whose sample `at` is `at`, a table that takes the value to the left of each, and a place for
/// the result.
struct Shift {
    module: CUmodule,
    stream: CUstream,
    input: CUdeviceptr,
    output: CUdeviceptr,
    table: CUdeviceptr,
}

/// The first multiple of what textures and the table need.
fn aligned(bytes: usize) -> CUdeviceptr {
    device_memory(bytes + 512).next_multiple_of(512)
}

fn upload(words: impl Iterator<Item = f32>, to: CUdeviceptr, stream: CUstream) {
    let words: Vec<f32> = words.collect();
    let pinned = Pinned::new(size_of_val(&words[..]));
    for (at, word) in words.into_iter().enumerate() {
        // SAFETY: the leaked allocation, with nothing in flight.
        unsafe { pinned.start.cast::<f32>().add(at).write(word) };
    }
    pinned.upload(to, stream);
}

impl Shift {
    fn new() -> Shift {
        context();
        let shift = Shift {
            module: load(PTX).unwrap(),
            stream: stream(),
            input: aligned(BYTES),
            output: aligned(BYTES),
            table: aligned(4 * CONVOLVE_WORDS),
        };
        upload(
            (0..STRIDE * HEIGHT).map(|at| at as f32),
            shift.input,
            shift.stream,
        );
        let words = (0..CONVOLVE_WORDS).map(|at| if at == 3 { 1.0 } else { 0.0 });
        upload(words.clone(), shift.table, shift.stream);
        let (mut variable, mut bytes) = (0, 0);
        ok!(cuModuleGetGlobal_v2(
            &mut variable,
            &mut bytes,
            shift.module,
            c"ladder_table".as_ptr()
        ));
        assert_eq!(bytes, 4 * CONVOLVE_WORDS);
        upload(words, variable, shift.stream);
        ok!(cuStreamSynchronize(shift.stream));
        shift
    }

    fn function(&self, kernel: Kernel) -> CUfunction {
        let mut function = ptr::null_mut();
        let name = std::ffi::CString::new(kernel.name()).unwrap();
        ok!(cuModuleGetFunction(
            &mut function,
            self.module,
            name.as_ptr()
        ));
        function
    }

    fn launch(&self, kernel: Kernel, input: u64, grid: Extent) {
        let parameter = LadderLaunch {
            input,
            output: self.output,
            table: self.table,
            width: WIDTH as u32,
            height: HEIGHT as u32,
            input_stride: STRIDE as u32,
            output_stride: STRIDE as u32,
            ..LadderLaunch::default()
        };
        let mut parameters = [(&raw const parameter).cast_mut().cast::<c_void>()];
        let shared = kernel
            .place(WIDTH as u32, HEIGHT as u32, BLOCK)
            .shared_bytes;
        ok!(cuLaunchKernel(
            self.function(kernel),
            grid.x,
            grid.y,
            1,
            BLOCK.x,
            BLOCK.y,
            1,
            shared,
            self.stream,
            parameters.as_mut_ptr(),
            ptr::null_mut()
        ));
    }

    fn check(&self) {
        let result = Pinned::new(BYTES);
        result.download(self.output, self.stream);
        ok!(cuStreamSynchronize(self.stream));
        let bytes = result.bytes();
        for y in 0..HEIGHT {
            for x in 0..WIDTH {
                let at = y * STRIDE + x;
                let value = f32::from_le_bytes(bytes[4 * at..][..4].try_into().unwrap());
                assert_eq!(value, (y * STRIDE + x.saturating_sub(1)) as f32, "{x}, {y}");
            }
        }
    }

    fn texture(&self, start: CUdeviceptr) -> Result<CUtexObject, Status> {
        // SAFETY: structures of C, of which 0 is a value for every member.
        let (mut resource, mut texture): (CUDA_RESOURCE_DESC, CUDA_TEXTURE_DESC) =
            unsafe { (std::mem::zeroed(), std::mem::zeroed()) };
        resource.resType = CUresourcetype::CU_RESOURCE_TYPE_PITCH2D;
        resource.res.pitch2D = CUDA_RESOURCE_DESC_st__bindgen_ty_1__bindgen_ty_4 {
            devPtr: start,
            format: CUarray_format::CU_AD_FORMAT_FLOAT,
            numChannels: 1,
            width: WIDTH,
            height: HEIGHT,
            pitchInBytes: 4 * STRIDE,
        };
        texture.addressMode = [CUaddress_mode::CU_TR_ADDRESS_MODE_CLAMP; 3];
        texture.flags = CU_TRSF_READ_AS_INTEGER;
        let mut handle = 0;
        match status!(cuTexObjectCreate(
            &mut handle,
            &resource,
            &texture,
            ptr::null()
        )) {
            OK => Ok(handle),
            status => Err(status),
        }
    }
}

const GRID: Extent = Extent { x: 5, y: 1 };

#[test]
fn the_table_in_constant_memory_is_the_modules() {
    on_test_driver!(&[], || {
        let shift = Shift::new();
        shift.launch(Kernel::ConvolveConstant, shift.input, GRID);
        shift.check();
        ok!(cuModuleUnload(shift.module));
        let mut bytes = 0;
        let mut variable = 0;
        let module = load(PTX).unwrap();
        let missing = c"another".as_ptr();
        let status = status!(cuModuleGetGlobal_v2(
            &mut variable,
            &mut bytes,
            module,
            missing
        ));
        assert_eq!(status, CUresult::CUDA_ERROR_NOT_FOUND);
    });
}

#[test]
fn a_texture_is_a_picture_with_the_nearest_beyond_its_edge() {
    on_test_driver!(&[], || {
        let shift = Shift::new();
        let texture = shift.texture(shift.input).unwrap();
        shift.launch(Kernel::ConvolveTexture, texture, GRID);
        shift.check();
        ok!(cuTexObjectDestroy(texture));
        let refused = shift.texture(shift.input + 256);
        assert_eq!(refused, Err(CUresult::CUDA_ERROR_INVALID_VALUE));
    });
}

#[test]
fn an_address_in_the_place_of_a_texture_is_a_fault() {
    on_test_driver!(violates "is no texture", || {
        let shift = Shift::new();
        shift.launch(Kernel::ConvolveTexture, shift.input, GRID);
    });
}

#[test]
fn a_texture_that_goes_while_it_is_read_is_a_fault() {
    on_test_driver!(violates "nothing has shown yet that its kernels are done", || {
        let shift = Shift::new();
        let texture = shift.texture(shift.input).unwrap();
        shift.launch(Kernel::ConvolveTexture, texture, GRID);
        ok!(cuTexObjectDestroy(texture));
    });
}

#[test]
fn a_grid_that_misses_columns_is_a_fault() {
    on_test_driver!(violates "expected Geometry { grid: Extent { x: 5, y: 1 }", || {
        let shift = Shift::new();
        shift.launch(Kernel::ConvolveConstant, shift.input, Extent { x: 4, y: 1 });
    });
}

#[test]
fn blocks_of_a_multiprocessor_are_bound_by_threads_and_shared_memory() {
    on_test_driver!(&[], || {
        let shift = Shift::new();
        let function = shift.function(Kernel::ConvolveConstant);
        let blocks = |threads, shared| {
            let mut blocks = 0;
            ok!(cuOccupancyMaxActiveBlocksPerMultiprocessor(
                &mut blocks,
                function,
                threads,
                shared
            ));
            blocks
        };
        assert_eq!(blocks(256, 1000), 8);
        assert_eq!(blocks(1024, 0), 2);
        assert_eq!(blocks(32, 0), 32);
        assert_eq!(blocks(64, 48 * 1024), 4);
    });
}
