//! The gate.

pub mod observe;
