//! The provider's side: connections, and one exchange over one of them.
//!
//! A connection is owned by the call that uses it and is polled by that call alone: no task stands between
//! them, and dropping the call closes the connection, which is what cancels the provider's work.

pub mod connect;
pub mod exchange;
pub mod h2;
pub mod head;
mod link;
pub mod pool;
pub mod resolve;
mod sending;
mod upload;

pub use upload::{Upload, UploadError};
