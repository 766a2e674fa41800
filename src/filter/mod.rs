//! What is computed: filters, pixel formats and plans. Knows no GStreamer element and no device.

pub mod effect;
mod formats;
pub mod fourier;
mod job;
pub mod kernels;
pub mod layout;
pub mod levels;
pub mod matrix;
mod method;
pub mod plan;
pub mod precision;
mod rank;
pub mod reference;
pub mod spec;
pub mod terms;

pub use layout::{Channel, Group, Layout, Role};
pub use plan::{Plan, PlanError};
pub use spec::FilterSpec;
