//! What the kernels compute, in plain code: the canonical evaluation that `filter/plan.rs` of
//! cudaconv defines, on the structures of `kernels/abi.h`. Written from that definition alone, so
//! that it is a second opinion beside the CPU engine.

mod bilateral;
pub mod copy;
mod direct3;
mod fast;
mod fourier;
mod halves;
mod image;
pub mod ladder;
pub mod launch;
mod limits;
mod linear;
mod split;

pub use launch::Launch;
