//! The scalar float64 definition that everything is checked against.
