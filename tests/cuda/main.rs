//! The CUDA path on a machine without a GPU: engine and element on the driver of
//! `tests/fakecuda`, which checks every call and ends the process where one breaks CUDA's rules.
//!
//! The tests of the engine are those of `tests/gpu`, those of the element `tests/element` with
//! `backend=cuda`. What only a driver that fails on purpose can show is tested here.

#[path = "../fakecuda/tests/driver/child.rs"]
mod child;
#[path = "../common/mod.rs"]
mod common;
#[path = "../gpu/compare.rs"]
mod compare;
#[path = "../fakecuda/tests/driver/control.rs"]
mod control;
#[path = "../fakecuda/tests/driver/library.rs"]
mod library;
#[allow(dead_code)] // of the benchmark that it belongs to
#[path = "../bench/gpu/line.rs"]
mod line;
mod start;
#[path = "../gpu/support.rs"]
mod support;

mod crossover;
mod drivers;
mod failures;
mod formats;
mod live;
mod policy;
mod regression;
mod resources;
mod timeline;
mod truth;

#[path = "../gpu/alpha.rs"]
mod engine_alpha;
#[path = "../gpu/bands.rs"]
mod engine_bands;
#[path = "../gpu/edges.rs"]
mod engine_edges;
#[path = "../gpu/exact.rs"]
mod engine_exact;
#[path = "../gpu/flow.rs"]
mod engine_flow;
#[path = "../gpu/fourier.rs"]
mod engine_fourier;
#[path = "../gpu/full.rs"]
mod engine_full;
#[path = "../gpu/halves.rs"]
mod engine_halves;
#[path = "../gpu/ladder.rs"]
mod engine_ladder;
#[path = "../gpu/levels.rs"]
mod engine_levels;
#[path = "../gpu/memory.rs"]
mod engine_memory;
#[path = "../gpu/slabs.rs"]
mod engine_slabs;
#[path = "../gpu/smallest.rs"]
mod engine_smallest;
#[path = "../gpu/split.rs"]
mod engine_split;

#[path = "../element/callbacks.rs"]
mod callbacks;
#[path = "../element/errors.rs"]
mod errors;
#[path = "../element/events.rs"]
mod events;
#[path = "../element/flow.rs"]
mod flow;
#[path = "../element/flush.rs"]
mod flush;
#[path = "../element/memory.rs"]
mod memory;
#[path = "../element/negotiation.rs"]
mod negotiation;
#[path = "../element/pictures.rs"]
mod pictures;
#[path = "../element/pools.rs"]
mod pools;
#[path = "../element/queries.rs"]
mod queries;
#[path = "../element/refusals.rs"]
mod refusals;
#[path = "../element/stops.rs"]
mod stops;
#[path = "../element/storms.rs"]
mod storms;
