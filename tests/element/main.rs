//! The element seen from outside: what pipelines and applications rely on.

#[path = "../common/mod.rs"]
mod common;

mod callbacks;
mod errors;
mod events;
mod flow;
mod flush;
mod memory;
mod negotiation;
mod pictures;
mod pools;
mod queries;
mod stops;
