//! Texture objects: pictures in device memory, as the texture units read them.

use crate::abi::ladder::Sample;
use crate::call::{Code, call, code, put};
use crate::memory::Rows;
use crate::violation;
use crate::world::{self, Handle, Texture};
use std::ffi::{c_int, c_uint, c_void};

/// Pictures begin at multiples of so many bytes, and rows at multiples of so many.
const ALIGNMENT: u64 = 512;
const PITCH_ALIGNMENT: u64 = 32;
const PITCH_2D: c_uint = 3;
const CLAMP: c_uint = 1;
const POINT: c_uint = 0;
const READ_AS_INTEGER: c_uint = 1;

/// `CUDA_RESOURCE_DESC` of rows in device memory, member by member.
#[repr(C)]
pub struct Resource {
    kind: c_uint,
    address: u64,
    format: c_uint,
    channels: c_uint,
    width: usize,
    height: usize,
    pitch: usize,
    rest: [c_int; 22],
    flags: c_uint,
}

/// `CUDA_TEXTURE_DESC`, member by member.
#[repr(C)]
pub struct Description {
    address_mode: [c_uint; 3],
    filter_mode: c_uint,
    flags: c_uint,
    max_anisotropy: c_uint,
    mipmap: [u32; 4],
    border: [f32; 4],
    reserved: [c_int; 12],
}

const _: () = assert!(size_of::<Resource>() == 144 && size_of::<Description>() == 104);

/// # Safety
/// As CUDA asks of `cuTexObjectCreate`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuTexObjectCreate(
    texture: *mut u64,
    resource: *const Resource,
    description: *const Description,
    view: *const c_void,
) -> Code {
    call("cuTexObjectCreate", || {
        // SAFETY: null or structures to read, by the contract of the call.
        let (Some(resource), Some(description)) = (unsafe { resource.as_ref() }, unsafe {
            description.as_ref()
        }) else {
            return Err(code::INVALID_VALUE);
        };
        let mut world = world::lock();
        let context = world.current()?;
        let made = Texture::new(context, resource, description)?;
        if !view.is_null() || made.address % ALIGNMENT != 0 || made.pitch % PITCH_ALIGNMENT != 0 {
            return Err(code::INVALID_VALUE);
        }
        (world.memory).device(&made.rows(), context, "the texture");
        let handle = world.new_handle();
        world.textures.insert(handle, made);
        // SAFETY: a place for the result, by the contract of the call.
        unsafe { put(texture, handle as u64) }
    })
}

#[unsafe(no_mangle)]
pub extern "C" fn cuTexObjectDestroy(texture: u64) -> Code {
    call("cuTexObjectDestroy", || {
        let mut world = world::lock();
        world.current()?;
        match world.textures.remove(&(texture as Handle)) {
            Some(gone) => {
                let rows = gone.rows();
                if world.memory.device_in_flight(&rows, &world.host) {
                    violation!(
                        "the texture goes, but nothing has shown yet that its kernels are done"
                    );
                }
                Ok(())
            }
            None => violation!("{texture:#x} is no texture, or it was destroyed"),
        }
    })
}

impl Texture {
    /// # Errors
    /// When it is anything but single samples in rows, each read as it is and the nearest of them beyond
    /// the edge: others are not known here.
    fn new(context: Handle, resource: &Resource, texture: &Description) -> Result<Texture, Code> {
        let sample = match resource.format {
            1 => Sample::U8,
            16 => Sample::F16,
            32 => Sample::F32,
            _ => return Err(code::INVALID_VALUE),
        };
        let known = resource.kind == PITCH_2D
            && resource.channels == 1
            && resource.flags == 0
            && texture.address_mode[..2] == [CLAMP; 2]
            && texture.filter_mode == POINT
            && texture.flags == READ_AS_INTEGER;
        let pitch = resource.pitch as u64;
        let width = (resource.width * sample.bytes()) as u64;
        if !known || width == 0 || resource.height == 0 || pitch < width {
            return Err(code::INVALID_VALUE);
        }
        Ok(Texture {
            context,
            address: resource.address,
            sample,
            width: resource.width,
            height: resource.height,
            pitch,
        })
    }

    fn rows(&self) -> Rows {
        Rows {
            address: self.address,
            pitch: self.pitch,
            width: (self.width * self.sample.bytes()) as u64,
            rows: self.height as u64,
        }
    }

    /// Ends the process unless it is of such a picture.
    pub fn check(&self, sample: Sample, width: u32, height: u32, stride: u32) {
        let pitch = u64::from(stride) * sample.bytes() as u64;
        let same = (self.sample, self.width, self.height, self.pitch)
            == (sample, width as usize, height as usize, pitch);
        if !same {
            violation!("a texture of another picture: {self:?}");
        }
    }
}
