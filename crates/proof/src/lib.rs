//! The figures that make a claim: the gate measured beside a bare hyper relay, in the same run, on the
//! same machine, with the same clients and the same upstream.
//!
//! Three processes take part besides the one that is measured: the `upstream` and the load client
//! (inside `proof`, which also starts and ends the others). So what `/proc` says about the measured
//! process is its own work and nobody else's. `docs/benchmarks.md` has the method.

pub mod fate;
pub mod fates;
pub mod flow;
pub mod load;
pub mod page;
pub mod process;
pub mod report;
pub mod scenarios;
pub mod shapes;
pub mod sharing;
pub mod stats;
pub mod streams;
