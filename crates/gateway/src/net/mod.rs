//! The client's side: listening, one task per connection, and the body of an answer.

pub(crate) mod chunk_scan;
pub(crate) mod door;
pub(crate) mod flow;
mod head_scan;
pub mod life;
pub mod listen;
pub(crate) mod port;
pub(crate) mod reply;
