//! What users of the mock rely on, one file per promise.

mod answers;
mod counts;
mod http2;
mod limits;
mod script;
#[expect(clippy::unwrap_used, reason = "a test ends where its client fails")]
mod support;
