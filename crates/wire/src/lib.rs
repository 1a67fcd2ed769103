//! The protocols of LLM APIs: from bytes to what they mean, and back.
//!
//! Pure: no clock, no I/O, no runtime. What is not understood passes as it came, so a field that a provider
//! invents tomorrow works today. Nothing in here panics on what a client or a provider sends.
//!
//! A request's way: [`dialect::route`] finds its protocol, [`peek`] borrows the few fields that matter, [`edit`]
//! changes them by splicing, [`fingerprint`] says which calls may share an answer, [`provider`] and [`base`] say where
//! to and with which credentials. An answer's way: [`relay`] passes a stream on in whole events ([`sse`]) and watches
//! what it says of itself; [`fold`] gives an answer the form that a caller asked for where it came in the other.
//! Where client and provider speak different protocols, [`translate`] stands between them.

pub mod base;
pub mod dialect;
pub mod edit;
pub mod fingerprint;
pub mod fold;
pub mod peek;
pub mod provider;
pub mod relay;
pub mod sse;
pub mod translate;
mod watch;
