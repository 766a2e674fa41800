//! The test driver itself: does it promise what CUDA promises, and does it notice.

mod child;
mod devices;
mod failures;
mod launches;
mod memory;
mod order;
mod support;
