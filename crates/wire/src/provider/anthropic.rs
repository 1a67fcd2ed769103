//! Anthropic.
//!
//! It refuses a request without `anthropic-version`. A caller's own passes as it is; one that knows nothing of
//! it gets the oldest, which takes the most.

use super::{Auth, Kind, Shape};

pub(super) static ANTHROPIC: Kind = Kind {
    name: "anthropic",
    base: "https://api.anthropic.com",
    speaks: &["messages", "count_tokens", "models"],
    shape: Shape::Anthropic,
    auth: Auth::ApiKeyOrBearer,
    key_env: &["ANTHROPIC_API_KEY"],
    families: &["claude-"],
    keyless: false,
    ask_usage: false,
    old_limit: false,
    replays_thoughts: false,
    native: &[],
    defaults: &[("anthropic-version", "2023-06-01")],
};
