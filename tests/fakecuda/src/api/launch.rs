//! Launches of kernels.

use std::ffi::{c_uint, c_void};

use crate::abi::Extent;
use crate::abi::copy::CopyLaunch;
use crate::abi::ladder::{CONSTANT_TABLE, LadderLaunch};
use crate::api::modules::{Known, kernel};
use crate::call::{Code, call, code};
use crate::kernels::{Launch, copy, ladder};
use crate::violation;
use crate::world::{self, Handle};

/// # Safety
/// As CUDA asks of `cuLaunchKernel`.
#[unsafe(no_mangle)]
#[allow(clippy::too_many_arguments)]
pub unsafe extern "C" fn cuLaunchKernel(
    function: Handle,
    grid_x: c_uint,
    grid_y: c_uint,
    grid_z: c_uint,
    block_x: c_uint,
    block_y: c_uint,
    block_z: c_uint,
    shared: c_uint,
    stream: Handle,
    parameters: *const *const c_void,
    extra: *const *const c_void,
) -> Code {
    call("cuLaunchKernel", || {
        let mut guard = world::lock();
        let context = guard.stream(stream)?.context;
        let world = &mut *guard;
        let Some(launched) = world.functions.get(&function) else {
            violation!("{function:#x} is no function, or its module was unloaded");
        };
        let threads = [block_x, block_y, block_z].map(u64::from).iter().product();
        let blocks = (1..=i32::MAX as u32).contains(&grid_x)
            && (1..=65535).contains(&grid_y)
            && (1..=65535).contains(&grid_z);
        if !blocks || !(1..=1024u64).contains(&threads) || block_z > 64 || !extra.is_null() {
            return Err(code::INVALID_VALUE);
        }
        if shared > launched.max_dynamic_shared || parameters.is_null() {
            return Err(code::INVALID_VALUE);
        }
        let module = world.modules.get_mut(&launched.module);
        let module = module.expect("functions go with their module");
        if module.context != context {
            violation!("the function belongs to another context than the stream");
        }
        let kernel = kernel(&launched.name).expect("checked when the module was loaded");
        if grid_z != 1 || block_z != 1 {
            violation!("a grid or a block with depth");
        }
        let extent = |x, y| Extent { x, y };
        let (grid, block) = (extent(grid_x, grid_y), extent(block_x, block_y));
        let host = world.host.clone();
        let in_module = launched.module;
        // SAFETY: the kernel has one parameter, whose address is the first of the array.
        let parameter: *const u8 = unsafe { parameters.read().cast() };
        let number = match kernel {
            Known::Engine(kernel) => {
                // SAFETY: the structure of this kernel, by the contract of the call.
                let mut launch = unsafe { Launch::read(kernel, parameter, &world.memory, context) };
                launch.check_shape(kernel, grid, block, shared);
                let uses = launch.uses();
                world.submit(stream, &uses, move || launch.run())?
            }
            Known::Ladder(kernel) => {
                // SAFETY: as above; every bit pattern is a value of it.
                let parameter = unsafe { parameter.cast::<LadderLaunch>().read_unaligned() };
                let mut variables = module.variables.iter();
                let around = ladder::Surroundings {
                    memory: &world.memory,
                    context,
                    texture: world.textures.get(&(parameter.input as Handle)),
                    constant: variables
                        .find(|(name, ..)| name == CONSTANT_TABLE)
                        .map(|(_, address, bytes)| (*address, *bytes)),
                };
                let launch = ladder::Launch::new(kernel, parameter, &around);
                launch.check_shape(grid, block, shared);
                let uses = launch.uses();
                world.submit(stream, &uses, move || launch.run())?
            }
            Known::Copy => {
                // SAFETY: as above.
                let parameter = unsafe { parameter.cast::<CopyLaunch>().read_unaligned() };
                let launch = copy::Launch::new(parameter, &world.memory, context);
                launch.check_shape(grid, block, shared);
                let uses = launch.uses();
                world.submit(stream, &uses, move || launch.run())?
            }
        };
        let module = world.modules.get_mut(&in_module).expect("found above");
        module.launches.retain(|(s, n)| !host.knows(*s, *n));
        module.launches.push((stream, number));
        Ok(())
    })
}
