//! The CUDA engine on a GPU: its bytes against those of the CPU engine, its memory, its overlap.
//! Without a driver every test says so and passes; with `CUDACONV_GPU=required` it fails instead.

mod alpha;
mod bands;
mod compare;
mod edges;
mod exact;
mod flow;
mod fourier;
mod full;
mod halves;
mod ladder;
mod levels;
mod memory;
mod overlap;
mod slabs;
mod smallest;
mod split;
mod support;
