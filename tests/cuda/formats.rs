//! The random cases of `tests/formats`, transforms and kernels of low rank, on the CUDA engine.

#[path = "../formats/case.rs"]
mod case;
#[path = "../formats/fourier.rs"]
mod fourier;
#[path = "../formats/low_rank.rs"]
mod low_rank;
#[path = "../formats/metamorphic.rs"]
mod metamorphic;
#[path = "../formats/random.rs"]
mod random;
#[path = "../formats/support.rs"]
mod support;
