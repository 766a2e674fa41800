//! The CPU engine on every format: against the float64 definition, and against what must hold
//! between results.

mod case;
mod every_case;
mod fourier;
mod invariants;
mod levels;
mod low_rank;
mod metamorphic;
mod properties;
mod random;
mod support;
