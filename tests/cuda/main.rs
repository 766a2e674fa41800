//! The CUDA path on a machine without a GPU: engine and element on the driver of
//! `tests/fakecuda`, which checks every call and ends the process where one breaks CUDA's rules.
//!
//! The tests of the element are those of `tests/element`, with `backend=cuda`.

#[path = "../common/mod.rs"]
mod common;
mod engines;
mod equality;
#[path = "../fakecuda/tests/driver/library.rs"]
mod library;
mod start;

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
#[path = "../element/stops.rs"]
mod stops;
