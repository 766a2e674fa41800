//! The CPU engine on every format: against the float64 definition, and against what must hold
//! between results.

mod every_case;
mod invariants;
mod properties;
mod support;
