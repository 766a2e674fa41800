//! The program `cudaconv`, run as people run it.

#[path = "../fakecuda/tests/driver/library.rs"]
mod driver;

mod bench;
mod errors;
mod interrupt;
mod network;
mod options;
mod pipelines;
mod plugin;
mod program;
mod report;
mod run;
mod screen;
mod terminal;
mod video;
mod webcam;
