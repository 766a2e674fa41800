//! What kernels take at least, by the operations that their sources count.

use gstcudaconv::engine::cuda::CudaEngine;

/// Seconds, for `pixels` of a frame of `format`; `None` where nobody has counted.
pub fn seconds(
    engine: &CudaEngine,
    kernel: &str,
    method: &str,
    format: &str,
    pixels: u32,
) -> Option<f64> {
    let cycles = cycles(kernel, method, format)?;
    let rate = engine.scheduler_cycles()?;
    Some(f64::from(pixels) / 32.0 * cycles / rate)
}

/// Cycles of a scheduler for 32 pixels, in which it issues their instructions, or in which the unit is busy that
/// most of them need: lookups in shared memory take 4 cycles, exponentials 8, matrix products 6.8 (measured on an H200).
fn cycles(kernel: &str, method: &str, format: &str) -> Option<f64> {
    let samples = match format {
        "GRAY8" => 1.0,
        "NV12" | "P010_10LE" => 1.5,
        // Alpha is copied.
        "RGBA" => 3.0,
        _ => return None,
    };
    Some(match (kernel, method, format) {
        // rows.cu: 3 x 3 taps of samples of 16 bits.
        ("gauss3" | "sobel" | "emboss", "auto", "P010_10LE") => 20.0 * samples,
        // separable_slabs.cu: a multiply-add for each tap across and down, and 20 others.
        ("gauss7", "auto", "P010_10LE") => (14.0 + 20.0) * samples,
        // separable_split.cu: 60 products of 6.5 cycles and 560 instructions for 256 pixels.
        ("gauss15", "auto", "RGBA") => 560.0 / 8.0,
        ("gauss15", "auto", _) => (30.0 + 20.0) * samples,
        // direct3.cu: 5 instructions for a product of lines of three, 9 for others, 20 for magnitudes; 4 for what is around.
        ("gauss3", "auto", _) => 9.0 * samples,
        ("emboss", "auto", _) => 13.0 * samples,
        ("sobel", "auto", _) => 20.0 * samples,
        // separable_matrix.cu: 32 products and 250 instructions for 1024 samples.
        ("gauss7", "auto", _) => 9.0 * samples,
        // separable_half.cu: 310 and 330 instructions for 1024 samples, 40 and 56 of them products of 6 cycles each.
        ("gauss7", "fp16", "GRAY8" | "NV12") => 10.0 * samples,
        ("gauss15", "fp16", "GRAY8" | "NV12") => 11.0 * samples,
        // separable_pixels.cu: 230 for 256 pixels.
        ("gauss7" | "gauss15", "fp16", "RGBA") => 9.6 * samples,
        // convolve_matrix.cu: 15 products of 128 outputs, for each of two digits the second time; there 28
        // instructions decide what is in doubt, beside 26.
        ("custom15x15", "auto", "GRAY8" | "NV12" | "RGBA") => 15.0 / 4.0 * 6.8 * samples,
        // Of both bytes of samples, and of both with three digits but once.
        ("custom15x15", "auto", "P010_10LE") => 2.0 * 15.0 / 4.0 * 6.8 * samples,
        ("fractions15x15", "auto", "P010_10LE") => 5.0 * 15.0 / 4.0 * 6.8 * samples,
        ("fractions15x15", "auto", "GRAY8" | "NV12" | "RGBA") => 54.0 * samples,
        // bilateral_u8.cu: 149 or 709 lookups and the reads of samples, a column for 8 outputs.
        ("bilateral-r7", "auto", "GRAY8") => 149.0 * 4.0 + 35.0 * 4.0,
        ("bilateral-r15", "auto", "GRAY8") => 709.0 * 4.0 + 264.0 * 4.0,
        // bilateral_joint.cu: what is issued a tap of three channels at once.
        ("bilateral-r7", "auto", "RGBA") => 149.0 * 8.6,
        // bilateral_fast.cu, 12 levels.
        ("bilateral-r7", "fast", "GRAY8") => 54.0 * 12.0,
        ("bilateral-r15", "fast", "GRAY8") => 70.0 * 12.0,
        _ => return None,
    })
}
