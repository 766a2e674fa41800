//! The test driver itself: does it promise what CUDA promises, and does it notice.

// Macros for calls of the driver and nothing else, and every call of it is unsafe.
#![allow(clippy::macro_metavars_in_unsafe)]

mod child;
mod control;
mod devices;
mod failures;
mod ladder;
mod launches;
mod library;
mod memory;
mod order;
mod support;
