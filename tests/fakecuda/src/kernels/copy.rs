//! The kernel that copies from device memory to device memory.

use crate::abi::copy::{CopyLaunch, PIECE};
use crate::abi::{Extent, Geometry};
use crate::memory::{Device, Memory, Rows};
use crate::stream::Use;
use crate::violation;
use crate::world::Handle;

/// A launch that was checked, with the device memory that it touches.
pub struct Launch {
    launch: CopyLaunch,
    input: (Device, Rows),
    output: (Device, Rows),
}

impl Launch {
    /// Checks a launch. Ends the process where the host breaks the rules of `kernels/abi.h`.
    pub fn new(launch: CopyLaunch, memory: &Memory, context: Handle) -> Launch {
        let (input, output) = (launch.input, launch.output);
        if launch.bytes == 0 || !(input | output).is_multiple_of(PIECE) {
            violation!(
                "a copy of {} bytes from {input:#x} to {output:#x}",
                launch.bytes
            );
        }
        if input < output + launch.bytes && output < input + launch.bytes {
            violation!("input and output overlap ({launch:?})");
        }
        let (input, output) = (
            Rows::bytes(input, launch.bytes),
            Rows::bytes(output, launch.bytes),
        );
        Launch {
            launch,
            input: (memory.device(&input, context, "the input"), input),
            output: (memory.device(&output, context, "the output"), output),
        }
    }

    /// Ends the process unless grid and shared memory are what the host side of the interface says of this launch.
    pub fn check_shape(&self, grid: Extent, block: Extent, shared: u32) {
        let given = Geometry {
            grid,
            block,
            shared_bytes: shared,
        };
        let expected = self.launch.place();
        if given != expected {
            violation!("{given:?}, expected {expected:?}");
        }
    }

    /// All the memory that the launch reads and writes.
    pub fn uses(&self) -> Vec<Use> {
        vec![Use::read(&self.input.1), Use::write(&self.output.1)]
    }

    pub fn run(&self) {
        let bytes = self.input.0.read(&self.input.1);
        self.output.0.write(&self.output.1, &bytes);
    }
}
