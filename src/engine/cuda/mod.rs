//! The engine that filters on an NVIDIA GPU.

pub mod abi;
