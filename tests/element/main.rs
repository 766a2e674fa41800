//! The element seen from outside: what pipelines and applications rely on.

#[path = "../common/mod.rs"]
mod common;

mod budget;
mod callbacks;
mod changes;
mod crowd;
mod dmabuf;
mod errors;
mod events;
mod flow;
mod flush;
mod latency;
mod memory;
mod metas;
mod negotiation;
mod pictures;
mod platform;
mod pools;
mod processes;
mod properties;
mod queries;
mod refusals;
mod reporting;
mod shortage;
mod stops;
mod storms;
mod timeline;
mod truth;
