//! A `libcuda.so.1` for machines without a GPU: the CUDA path of cudaconv runs on it, found by the
//! loader as the real driver is, and every call is checked.
//!
//! What it is strict about. A thread per stream executes copies and kernels in the order CUDA
//! promises and no sooner. Device memory has addresses of its own, full of noise when allocated;
//! asynchronous copies take page-locked host memory alone. Each operation notes what it reads and
//! writes and what was ordered before it (see [`clock`]), so that a missing wait is found every
//! time, not only when the threads happen to fall so. Whatever a real driver would leave undefined,
//! and whatever cudaconv forbids itself (the default stream, device-wide synchronisation), ends
//! the process with a sentence: see [`call::violation`]. What a real driver answers with an error
//! is answered with that error.
//!
//! # Environment
//! | variable | meaning |
//! |---|---|
//! | `FAKECUDA_DEVICES` | number of devices, 1 unless said; 0 makes `cuInit` fail as without a GPU |
//! | `FAKECUDA_DRIVER_VERSION` | as `cuDriverGetVersion` gives it, 12020 unless said |
//! | `FAKECUDA_COMPUTE` | compute capability times ten, 90 unless said |
//! | `FAKECUDA_MEMORY` | bytes of each device, 1 GiB unless said |
//! | `FAKECUDA_DELAY_US` | each operation on a stream takes up to so much longer, 50 unless said |
//! | `FAKECUDA_SERIAL` | 1: a kernel runs when no other does, as large ones do |
//! | `FAKECUDA_FAIL` | `NAME:COUNT:CODE`: call number COUNT (from 1) of NAME returns CODE, `COUNT+` that one and all later; several parted by commas |
//! | `FAKECUDA_FAULT` | the same for calls that put work on a stream: the call succeeds, the work fails when its turn comes |
//! | `FAKECUDA_SLOW` | `NAME:COUNT:MICROSECONDS`: that call, or the work it puts on a stream, takes so much longer |
//! | `CUDA_VISIBLE_DEVICES` | as in CUDA, by index |
//!
//! Names are those of CUDA without `_v2`. Codes that leave a context unusable (700, 719, …) do so.
//! The same can be asked for at run time, and calls and live objects counted: see
//! [`api::control`].

#![allow(non_snake_case)]

#[allow(dead_code)]
#[path = "../../../src/engine/cuda/abi.rs"]
pub mod abi;
pub mod api;
pub mod call;
pub mod clock;
pub mod event;
pub mod inject;
pub mod kernels;
pub mod memory;
pub mod ptx;
pub mod settings;
pub mod stream;
pub mod world;
