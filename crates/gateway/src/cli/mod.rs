//! The commands: arguments in, exit code out.

#[cfg(feature = "lab")]
pub mod bench;
pub mod serve;
