//! The laboratory behind `sluicegate bench`: the field's experiments, direct and through any proxy side by side.
//!
//! An [`experiment`] starts a provider and what stands before it, sends the calls of a [`scenario`] by callers that
//! behave as official SDKs do ([`client`]), at times that do not depend on the answers ([`load`]), and records what
//! came of them ([`record`]). What was found is a [`document`]; table, JSON, page ([`report`]) and
//! verdict are made from it alone.
//!
//! Not here: the figures that make a claim about what the gate costs. Those take longer and hold still (`proof`).

pub mod call;
pub mod cli;
pub mod client;
pub mod document;
pub mod experiment;
pub mod knobs;
pub mod load;
pub mod process;
pub mod procfs;
pub mod provider;
pub mod record;
pub mod relay;
pub mod report;
pub mod scenario;
pub mod table;
pub mod web;
