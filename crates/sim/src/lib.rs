//! Pretend providers and clients.
//!
//! [`mock`] is a scripted LLM provider: it is shipped as a subcommand and used, in memory or over a
//! socket, by tests of anything that talks to such a provider.

pub mod mock;
