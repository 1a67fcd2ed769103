//! Sluicegate: a gate in front of LLM APIs.
//!
//! Start with `pipeline`, which shows a request from top to bottom; `run` is the life of the process.

pub mod admin;
mod admission;
mod answer;
mod attempt;
mod call;
pub mod cli;
pub mod config;
mod crossing;
mod flight;
pub mod gateway;
mod headers;
mod kept;
pub mod net;
pub mod observe;
mod pipeline;
mod pump;
pub mod refusal;
pub mod run;
mod stage;
pub mod tasks;
mod turn;
pub mod upstream;
pub mod world;
