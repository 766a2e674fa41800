//! The random cases of `tests/formats`, and transforms, on the CUDA engine.

#[path = "../formats/case.rs"]
mod case;
#[path = "../formats/fourier.rs"]
mod fourier;
#[path = "../formats/metamorphic.rs"]
mod metamorphic;
#[path = "../formats/random.rs"]
mod random;
#[path = "../formats/support.rs"]
mod support;
