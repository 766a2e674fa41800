//! Vector code, row by row: each function is compiled for every instruction set.

pub mod boxes;
pub mod chain;
pub mod levels;
pub mod samples;
pub mod strided;
pub mod sums;
pub mod weighted;
pub mod window;
