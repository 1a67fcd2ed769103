//! The real binary over real sockets: what processes, signals, files and the kernel's buffers can break, and
//! what therefore no test in memory can show.
//!
//! Every child process is killed by the guard that started it. Nothing sleeps for a fixed time: a test waits
//! `until` something can be seen, with an end.

#[cfg(feature = "lab")]
mod bench;
mod bounds;
mod child;
mod client;
mod drain;
mod early;
mod flowing;
mod h2c;
mod hangup;
mod live;
mod passing;
mod reload;
mod start;
mod tls;
mod until;
