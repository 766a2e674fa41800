//! Presets, custom matrices, rank and separability, in float64.
