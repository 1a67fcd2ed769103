//! The laboratory behind `sluicegate bench`: the field's experiments, direct and through any proxy side by side.
//!
//! What an experiment found is a [`Document`](document::Document); the table, the JSON and the page are made
//! from it alone.

pub mod client;
pub mod document;
pub mod load;
pub mod procfs;
pub mod record;
pub mod relay;
pub mod web;
