//! The kernels of `cudaconv bench ladder`, beside those of the engine and apart from them: the mirror
//! of `kernels/ladder.h`.

use super::{Extent, Geometry};

/// Pixels on each side of the bilateral's centre.
pub const RADIUS: usize = 7;
/// Words of the table of the 3 x 3 kernels.
pub const CONVOLVE_WORDS: usize = 18;
/// Words of the table of the bilateral kernels.
pub const BILATERAL_WORDS: usize = 364;
/// Rows of pictures begin at multiples of so many samples, and pictures at multiples of so many bytes
/// at least.
pub const ALIGNMENT: usize = 64;
/// The variable of the modules that have the table in constant memory.
pub const CONSTANT_TABLE: &str = "ladder_table";

/// Parameter of every kernel.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct LadderLaunch {
    pub input: u64,
    pub output: u64,
    pub table: u64,
    pub width: u32,
    pub height: u32,
    pub input_stride: u32,
    pub output_stride: u32,
    pub color: f32,
    pub reserved: u32,
}

/// What is computed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Task {
    /// Nine weights over float32 values from 0 to 1.
    Convolve,
    /// A window of 15 x 15 over code values of 8 bits.
    Bilateral,
}

/// How samples are stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Sample {
    U8,
    F16,
    F32,
}

impl Sample {
    pub fn bytes(self) -> usize {
        match self {
            Sample::U8 => 1,
            Sample::F16 => 2,
            Sample::F32 => 4,
        }
    }
}

/// A PTX file; every ladder loads its own copy.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Module {
    Convolve,
    ConvolveConstant,
    ConvolveMatrix,
    Bilateral,
    BilateralConstant,
}

impl Module {
    pub const ALL: [Module; 5] = [
        Module::Convolve,
        Module::ConvolveConstant,
        Module::ConvolveMatrix,
        Module::Bilateral,
        Module::BilateralConstant,
    ];

    /// The name of its file, `kernels/ptx/NAME.ptx`.
    pub fn name(self) -> &'static str {
        match self {
            Module::Convolve => "ladder_convolve",
            Module::ConvolveConstant => "ladder_convolve_constant",
            Module::ConvolveMatrix => "ladder_convolve_matrix",
            Module::Bilateral => "ladder_bilateral",
            Module::BilateralConstant => "ladder_bilateral_constant",
        }
    }

    /// Whether its kernels read their table from constant memory.
    pub fn has_constant_table(self) -> bool {
        matches!(self, Module::ConvolveConstant | Module::BilateralConstant)
    }
}

/// Where a kernel keeps pixels in shared memory, and how many bytes of it that takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Shared {
    None,
    /// Words of the block's pixels with so many beside them on each side.
    Tile(u32),
    /// The same with one beside, and the sums of its rows.
    TileAndSums,
    /// Bytes of the block's pixels in whole words, behind a table of 256.
    TableAndBytes,
}

macro_rules! kernels {
    ($($(#[$doc:meta])* $kernel:ident = $name:literal, $module:ident, $task:ident, $input:ident -> $output:ident,
       [$across:literal, $down:literal], $shared:expr;)*) => {
        /// A kernel, as a function of a module.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        pub enum Kernel {
            $($(#[$doc])* $kernel,)*
        }

        impl Kernel {
            pub const ALL: [Kernel; [$(Kernel::$kernel),*].len()] = [$(Kernel::$kernel),*];

            /// The name of the function in its module.
            pub fn name(self) -> &'static str {
                match self {
                    $(Kernel::$kernel => $name,)*
                }
            }

            pub fn module(self) -> Module {
                match self {
                    $(Kernel::$kernel => Module::$module,)*
                }
            }

            pub fn task(self) -> Task {
                match self {
                    $(Kernel::$kernel => Task::$task,)*
                }
            }

            /// What it reads, and what it writes.
            pub fn samples(self) -> (Sample, Sample) {
                match self {
                    $(Kernel::$kernel => (Sample::$input, Sample::$output),)*
                }
            }

            /// Pixels of a thread, across and down.
            fn pixels(self) -> (u32, u32) {
                match self {
                    $(Kernel::$kernel => ($across, $down),)*
                }
            }

            fn shared(self) -> Shared {
                match self {
                    $(Kernel::$kernel => $shared,)*
                }
            }
        }
    };
}

// Name, module, task, samples, pixels of a thread across and down, dynamic shared memory.
#[rustfmt::skip]
kernels! {
    ConvolveNaive = "ladder_convolve_naive", Convolve, Convolve, F32 -> F32, [1, 1], Shared::None;
    ConvolveTile = "ladder_convolve_tile", Convolve, Convolve, F32 -> F32, [1, 1], Shared::Tile(1);
    ConvolveConstant = "ladder_convolve_constant", ConvolveConstant, Convolve, F32 -> F32, [1, 1], Shared::Tile(1);
    ConvolveAcross = "ladder_convolve_across", Convolve, Convolve, F32 -> F32, [1, 1], Shared::None;
    ConvolveDown = "ladder_convolve_down", Convolve, Convolve, F32 -> F32, [1, 1], Shared::None;
    ConvolveFused = "ladder_convolve_fused", Convolve, Convolve, F32 -> F32, [1, 1], Shared::TileAndSums;
    ConvolveTexture = "ladder_convolve_texture", Convolve, Convolve, F32 -> F32, [1, 1], Shared::None;
    ConvolveHalf2 = "ladder_convolve_half2", Convolve, Convolve, F16 -> F16, [2, 1], Shared::None;
    ConvolveInt8 = "ladder_convolve_int8", Convolve, Convolve, U8 -> U8, [4, 1], Shared::None;
    /// In blocks of 128 x 1 threads alone, whose warps share out 64 x 16 pixels.
    ConvolveMatrix = "ladder_convolve_matrix", ConvolveMatrix, Convolve, F16 -> F16, [1, 1], Shared::None;
    BilateralNaive = "ladder_bilateral_naive", Bilateral, Bilateral, U8 -> U8, [1, 1], Shared::None;
    BilateralTile = "ladder_bilateral_tile", Bilateral, Bilateral, U8 -> U8, [1, 1], Shared::Tile(RADIUS as u32);
    BilateralConstant = "ladder_bilateral_constant", BilateralConstant, Bilateral, U8 -> U8, [1, 1], Shared::Tile(RADIUS as u32);
    BilateralAcross = "ladder_bilateral_across", Bilateral, Bilateral, U8 -> F32, [1, 1], Shared::None;
    BilateralDown = "ladder_bilateral_down", Bilateral, Bilateral, F32 -> U8, [1, 1], Shared::None;
    BilateralTexture = "ladder_bilateral_texture", Bilateral, Bilateral, U8 -> U8, [1, 1], Shared::None;
    BilateralHalf2 = "ladder_bilateral_half2", Bilateral, Bilateral, U8 -> U8, [1, 2], Shared::Tile(RADIUS as u32);
    /// In blocks whose width is a multiple of 4.
    BilateralInt8 = "ladder_bilateral_int8", Bilateral, Bilateral, U8 -> U8, [1, 1], Shared::TableAndBytes;
}

impl Kernel {
    /// Whether `input` of its launch is a texture object.
    pub fn reads_texture(self) -> bool {
        matches!(self, Kernel::ConvolveTexture | Kernel::BilateralTexture)
    }

    /// Pixels of a block of `block` threads, across and down.
    fn block_pixels(self, block: Extent) -> (u32, u32) {
        if self == Kernel::ConvolveMatrix {
            return (64, 16);
        }
        let (across, down) = self.pixels();
        (block.x * across, block.y * down)
    }

    /// How it is launched over `width` x `height` pixels in blocks of `block` threads.
    pub fn place(self, width: u32, height: u32, block: Extent) -> Geometry {
        let (across, down) = self.block_pixels(block);
        let shared_bytes = match self.shared() {
            Shared::None => 0,
            Shared::Tile(halo) => 4 * (block.x + 2 * halo) * (block.y + 2 * halo),
            Shared::TileAndSums => 4 * (block.x + 2 + block.x) * (block.y + 2),
            Shared::TableAndBytes => {
                let radius = RADIUS as u32;
                256 + (block.x + 2 * radius + 7) / 4 * 4 * (block.y + 2 * radius)
            }
        };
        Geometry {
            grid: Extent {
                x: width.div_ceil(across),
                y: height.div_ceil(down),
            },
            block,
            shared_bytes,
        }
    }
}
