//! The exported functions, by the chapters of CUDA's manual.

pub mod context;
pub mod control;
pub mod copy;
pub mod device;
pub mod errors;
pub mod events;
pub mod launch;
pub mod memory;
pub mod modules;
pub mod streams;
pub mod textures;
