//! The steps, in order, and what each is for.

use crate::engine::cuda::abi::Extent;
use crate::engine::cuda::abi::ladder::{Kernel, Task};
use crate::filter::spec::Method;

/// How a step is computed.
#[derive(Debug, Clone, PartialEq)]
pub enum Way {
    OneThread,
    AllThreads,
    CpuMethod(Method),
    /// One kernel of the ladder, or two one after the other.
    Kernels {
        kernels: &'static [Kernel],
        block: Extent,
    },
    /// The engine's own, by a method of the element.
    GpuMethod(Method),
    /// Why it cannot be.
    Impossible(&'static str),
}

/// One step of a ladder.
#[derive(Debug, Clone, PartialEq)]
pub struct Step {
    /// For programs; unique in its ladder.
    pub name: String,
    /// For people.
    pub title: String,
    /// What is done, and what it is to show, in a sentence.
    pub about: &'static str,
    pub way: Way,
}

/// The block of all steps that do not say otherwise: the one of most tutorials.
const BLOCK: Extent = Extent { x: 16, y: 16 };
/// Blocks to compare it with.
const OTHER_BLOCKS: [Extent; 5] = [
    Extent { x: 8, y: 8 },
    Extent { x: 16, y: 8 },
    Extent { x: 32, y: 8 },
    Extent { x: 32, y: 16 },
    Extent { x: 32, y: 32 },
];
/// Of the matrix units' kernel, whose warps share out the picture.
const MATRIX_BLOCK: Extent = Extent { x: 128, y: 1 };

fn step(name: &str, title: &str, about: &'static str, way: Way) -> Step {
    Step {
        name: name.to_owned(),
        title: title.to_owned(),
        about,
        way,
    }
}

fn kernels(kernels: &'static [Kernel], block: Extent) -> Way {
    Way::Kernels { kernels, block }
}

/// All steps of a task, the slowest way first.
pub fn of(task: Task) -> Vec<Step> {
    let mut steps = vec![
        step(
            "cpu-one-thread",
            "CPU, one thread",
            "plain loops over pixels and window, as everybody writes them first",
            Way::OneThread,
        ),
        step(
            "cpu-all-threads",
            "CPU, all threads",
            "this program's own CPU engine: vector instructions on every core",
            Way::AllThreads,
        ),
    ];
    match task {
        Task::Convolve => convolve(&mut steps),
        Task::Bilateral => bilateral(&mut steps),
    }
    steps
}

/// The same kernels in blocks of other shapes.
fn blocks(steps: &mut Vec<Step>, naive: &'static [Kernel], tile: &'static [Kernel]) {
    for (name, title, used) in [
        ("naive", "GPU, naive", naive),
        ("tile", "shared memory", tile),
    ] {
        for block in OTHER_BLOCKS {
            let (x, y) = (block.x, block.y);
            steps.push(step(
                &format!("{name}-{x}x{y}"),
                &format!("{title}, blocks of {x}x{y}"),
                "the same kernel in blocks of another shape: how rows are read, and how much of the \
                 tile is halo",
                kernels(used, block),
            ));
        }
    }
}

fn convolve(steps: &mut Vec<Step>) {
    use Kernel::*;
    steps.extend([
        step(
            "naive",
            "GPU, naive",
            "one thread a pixel, every value and weight from global memory; caches do more than \
             tutorials say",
            kernels(&[ConvolveNaive], BLOCK),
        ),
        step(
            "tile",
            "shared memory",
            "a block loads its pixels and their neighbours once, and reads them from shared memory",
            kernels(&[ConvolveTile], BLOCK),
        ),
        step(
            "constant",
            "+ constant memory",
            "the same, with the weights from constant memory",
            kernels(&[ConvolveConstant], BLOCK),
        ),
        step(
            "separable-two-passes",
            "separable, two kernels",
            "three weights across, then three down: 6 instead of 9 products, twice the memory traffic",
            kernels(&[ConvolveAcross, ConvolveDown], BLOCK),
        ),
        step(
            "separable-fused",
            "separable, one kernel",
            "both passes in one kernel: what lies between them stays in shared memory",
            kernels(&[ConvolveFused], BLOCK),
        ),
        step(
            "texture",
            "texture fetches",
            "values through the texture units, which also do the border",
            kernels(&[ConvolveTexture], BLOCK),
        ),
    ]);
    blocks(steps, &[ConvolveNaive], &[ConvolveTile]);
    convolve_with_fewer_bits(steps);
}

/// Fewer bits, other units, and what the element makes of it all.
fn convolve_with_fewer_bits(steps: &mut Vec<Step>) {
    use Kernel::*;
    steps.extend([
        step(
            "fp16",
            "fp16 (half2)",
            "pictures and sums in float16, two pixels an instruction: half the bytes",
            kernels(&[ConvolveHalf2], BLOCK),
        ),
        step(
            "int8",
            "int8 (dp4a)",
            "pictures in bytes, weights in 256ths, a row of weights in one dot product: a quarter of \
             the bytes",
            kernels(&[ConvolveInt8], BLOCK),
        ),
        step(
            "matrix",
            "matrix units (fp16)",
            "rows of weights as banded matrices on the tensor cores, float16 with float32 sums",
            kernels(&[ConvolveMatrix], MATRIX_BLOCK),
        ),
        step(
            "element",
            "cudaconv, 8-bit",
            "what the element runs for kernel=gauss radius=1 on 8-bit grey, rounded to codes",
            Way::GpuMethod(Method::Auto),
        ),
    ]);
}

fn bilateral(steps: &mut Vec<Step>) {
    use Kernel::*;
    steps.extend([
        step(
            "cpu-fast",
            "CPU, method=fast",
            "weighted Gaussian levels on the CPU: another sum, near the exact one",
            Way::CpuMethod(Method::Fast),
        ),
        step(
            "naive",
            "GPU, naive",
            "one thread a pixel, every value and exponent from global memory",
            kernels(&[BilateralNaive], BLOCK),
        ),
        step(
            "tile",
            "shared memory",
            "a block loads its pixels and their neighbours once, and reads them from shared memory",
            kernels(&[BilateralTile], BLOCK),
        ),
        step(
            "constant",
            "+ constant memory",
            "the same, with the exponents from constant memory",
            kernels(&[BilateralConstant], BLOCK),
        ),
        step(
            "separable",
            "separable (approximate)",
            "a bilateral across, then one down: 30 taps instead of 225, but the filter is no product, \
             so the result is another",
            kernels(&[BilateralAcross, BilateralDown], BLOCK),
        ),
        step(
            "texture",
            "texture fetches",
            "values through the texture units, which also do the border",
            kernels(&[BilateralTexture], BLOCK),
        ),
    ]);
    blocks(steps, &[BilateralNaive], &[BilateralTile]);
    bilateral_with_fewer_bits(steps);
}

/// As [`convolve_with_fewer_bits`].
fn bilateral_with_fewer_bits(steps: &mut Vec<Step>) {
    use Kernel::*;
    steps.extend([
        step(
            "fp16",
            "fp16 (half2)",
            "weights in float16, two pixels an instruction, rows of the window summed in float32",
            kernels(&[BilateralHalf2], BLOCK),
        ),
        step(
            "int8",
            "int8 (dp4a)",
            "weights in 8 bits by two tables instead of an exponential, four taps a dot product",
            kernels(&[BilateralInt8], BLOCK),
        ),
        step(
            "matrix",
            "matrix units (fp16)",
            "a product with a matrix of weights",
            Way::Impossible(
                "not possible: every pixel has weights of its own, so there is no matrix to multiply by",
            ),
        ),
        step(
            "fast",
            "cudaconv, method=fast",
            "weighted Gaussian levels, separable each: work that does not grow with the window",
            Way::GpuMethod(Method::Fast),
        ),
        step(
            "element",
            "cudaconv, method=auto",
            "what the element runs: exact, several rows a thread, weights by a table without bank \
             conflicts",
            Way::GpuMethod(Method::Auto),
        ),
    ]);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_unique_and_every_kernel_is_a_step() {
        let mut used = Vec::new();
        for task in [Task::Convolve, Task::Bilateral] {
            let steps = of(task);
            let mut names: Vec<&str> = steps.iter().map(|step| step.name.as_str()).collect();
            let count = names.len();
            names.sort_unstable();
            names.dedup();
            assert_eq!(names.len(), count);
            for step in steps {
                if let Way::Kernels { kernels, .. } = step.way {
                    assert!(kernels.iter().all(|kernel| kernel.task() == task));
                    // What one writes the next one reads.
                    for pair in kernels.windows(2) {
                        assert_eq!(pair[0].samples().1, pair[1].samples().0);
                    }
                    used.extend(kernels);
                }
            }
        }
        for kernel in Kernel::ALL {
            assert!(used.contains(&kernel), "{}", kernel.name());
        }
    }
}
