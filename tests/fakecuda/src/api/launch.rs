//! Launches of kernels.

use std::ffi::{c_uint, c_void};

use crate::abi::Extent;
use crate::api::modules::kernel;
use crate::call::{Code, call, code};
use crate::kernels::Launch;
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
        // SAFETY: the kernel has one parameter, whose address is the first of the array.
        let mut launch = unsafe {
            let parameter = parameters.read().cast();
            Launch::read(kernel, parameter, &world.memory, context)
        };
        let extent = |x, y| Extent { x, y };
        if grid_z != 1 || block_z != 1 {
            violation!("a grid or a block with depth");
        }
        launch.check_shape(
            kernel,
            extent(grid_x, grid_y),
            extent(block_x, block_y),
            shared,
        );
        let host = world.host.clone();
        let in_module = launched.module;
        let uses = launch.uses();
        let number = world.submit(stream, &uses, move || launch.run())?;
        let module = world.modules.get_mut(&in_module).expect("found above");
        module.launches.retain(|(s, n)| !host.knows(*s, *n));
        module.launches.push((stream, number));
        Ok(())
    })
}
