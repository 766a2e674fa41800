//! What the table of kernels says of each.

use super::{Module, Parameter, Weights};

/// Samples across a tile.
#[derive(Debug, Clone, Copy)]
pub enum Across {
    Samples(u32),
    /// As many as make 128 samples with the interleaved channels of a packed job, 96 for three.
    PackedSamples,
    /// This many samples of a row of a packed job, all its channels counted, or of one channel.
    OfRow(u32),
    /// What is right of a transformed rectangle.
    Right,
    /// What [a strip](super::super::boxes::columns) has sums of.
    Strip,
}

/// Rows of a tile. Of kernels that walk down tiles of any height it is what keeps a device busy that has room for so
/// many of their blocks on each multiprocessor.
#[derive(Debug, Clone, Copy)]
pub enum Rows {
    /// The first of these for which there is room in shared memory.
    First(&'static [u32]),
    /// What is below of a transformed rectangle.
    Below,
    /// Those that [sum means up](super::super::boxes::tile_height).
    Strips(u32),
    /// Those that [stage rows](super::super::halves::tile_height) for the matrix units; of at most so many rows.
    Staged(u32, u32),
    /// Those that [go down slabs](super::super::slabs::tile_height).
    Slabs(u32),
    /// The same with slabs of [32 rows](super::super::wide::tile_height).
    Rings(u32),
}

/// What holds for a few kernels alone.
#[derive(Debug, Clone, Copy)]
pub enum Particular {
    /// Packed jobs have so many channels at most.
    Channels(usize),
    /// So many rows above and below a tile may be read, however few the filter needs.
    Halo(usize),
}

pub struct Description {
    pub name: &'static str,
    pub module: Module,
    pub parameter: Parameter,
    pub weights: Weights,
    /// Threads of a block.
    pub threads: u32,
    pub across: Across,
    pub rows: Rows,
    pub particulars: &'static [Particular],
}
