//! From a method and a path to the protocol that is spoken there.
//!
//! Every endpoint has exactly one path. A path that some server could read as another one (an encoded letter or
//! slash, a dot segment, an empty segment, a slash after an endpoint) is nobody's: it would pass here as
//! something harmless and arrive as a call that was never counted.
//!
//! Not here: which provider takes the call, and whether it speaks the protocol.

use std::borrow::Cow;

use http::Method;

use super::{
    CHAT, COMPLETIONS, COUNT_TOKENS, Dialect, EMBEDDINGS, MESSAGES, MODELS, MODELS_ANTHROPIC,
    OPAQUE_ANTHROPIC, OPAQUE_OPENAI, RESPONSES,
};

/// A path that the gate serves.
pub struct Route<'a> {
    /// Its protocol.
    pub dialect: &'static dyn Dialect,
    /// What follows the version in the path, with its slash.
    pub op: &'a str,
    /// The provider that the path names.
    pub to: Option<&'a str>,
}

/// What becomes of a path.
pub enum Routed<'a> {
    /// It is served.
    Found(Route<'a>),
    /// It will be served, and is not yet.
    Later,
    /// Nobody serves it.
    Unknown,
}

/// The paths below the version that have a protocol of their own.
pub const ENDPOINTS: [&str; 7] = [
    "/chat/completions",
    "/completions",
    "/embeddings",
    "/responses",
    "/messages",
    "/messages/count_tokens",
    "/models",
];

/// Finds the protocol of a request. `anthropic` says whether it bears `anthropic-version`: of what both vendors
/// have, such a client means Anthropic's.
pub fn route<'a>(method: &Method, path: &'a str, anthropic: bool) -> Routed<'a> {
    // What nearly everybody asks for is spelled as it must be.
    if let Some(op) = path.strip_prefix("/v1").filter(|op| is_endpoint(op)) {
        return Routed::Found(Route { dialect: dialect(method, op, anthropic), op, to: None });
    }
    // SDKs write the slash of `provider/model` as %2F where a path names a model; nowhere else is it welcome.
    if let Some(id) = path.strip_prefix("/v1/models/").filter(|id| id.contains("%2"))
        && *method == Method::GET
        && is_canonical(&format!("/v1/models/{}", plain_id(id)))
    {
        let dialect = dialect(method, "/models/x", anthropic);
        return Routed::Found(Route { dialect, op: &path["/v1".len()..], to: None });
    }
    if !is_canonical(path) {
        return Routed::Unknown;
    }
    if below(path, "/v1beta/models") {
        return Routed::Later;
    }
    let Some((to, op)) = split(path) else { return Routed::Unknown };
    if op.strip_suffix('/').is_some_and(is_endpoint) {
        return Routed::Unknown;
    }
    Routed::Found(Route { dialect: dialect(method, op, anthropic), op, to })
}

/// A model's name as it stands in a path, with its slashes.
pub fn plain_id(id: &str) -> Cow<'_, str> {
    if id.contains("%2") { Cow::Owned(id.replace("%2F", "/").replace("%2f", "/")) } else { Cow::Borrowed(id) }
}

/// The provider that a path names, and the path below its version.
fn split(path: &str) -> Option<(Option<&str>, &str)> {
    let Some(named) = path.strip_prefix("/to/") else {
        return Some((None, path.strip_prefix("/v1").filter(|op| op.starts_with('/'))?));
    };
    let (name, rest) = named.split_at_checked(named.find('/')?)?;
    let op = match rest.strip_prefix("/v1") {
        Some("") => "/",
        Some(op) if op.starts_with('/') => op,
        _ => rest,
    };
    Some((Some(name), op))
}

fn dialect(method: &Method, op: &str, anthropic: bool) -> &'static dyn Dialect {
    let known = match *method {
        Method::POST => posted(op),
        Method::GET if below(op, "/models") && anthropic => Some(&MODELS_ANTHROPIC as &dyn Dialect),
        Method::GET if below(op, "/models") => Some(&MODELS as &dyn Dialect),
        _ => None,
    };
    let opaque = || -> &'static dyn Dialect {
        if anthropic || below(op, "/messages") { &OPAQUE_ANTHROPIC } else { &OPAQUE_OPENAI }
    };
    known.unwrap_or_else(opaque)
}

fn posted(op: &str) -> Option<&'static dyn Dialect> {
    Some(match op {
        "/chat/completions" => &CHAT,
        "/completions" => &COMPLETIONS,
        "/embeddings" => &EMBEDDINGS,
        "/responses" => &RESPONSES,
        "/messages" => &MESSAGES,
        "/messages/count_tokens" => &COUNT_TOKENS,
        _ => return None,
    })
}

fn is_endpoint(op: &str) -> bool {
    ENDPOINTS.contains(&op)
}

/// Whether `path` is `root` or under it.
fn below(path: &str, root: &str) -> bool {
    path.strip_prefix(root).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

/// Whether a path can only be read in one way.
fn is_canonical(path: &str) -> bool {
    let Some(rest) = path.strip_prefix('/') else { return false };
    // Only the last segment may be empty: the path ends with its slash then.
    let plain = |(from_end, segment)| match segment {
        "." | ".." => false,
        "" => from_end == 0,
        _ => true,
    };
    if !rest.split('/').rev().enumerate().all(plain) {
        return false;
    }
    let bytes = path.as_bytes();
    bytes.iter().enumerate().all(|(at, byte)| match byte {
        b'%' => bytes.get(at + 1..at + 3).is_some_and(must_be_encoded),
        b'\\' | b'?' | b'#' => false,
        byte => !byte.is_ascii_control(),
    })
}

/// Whether the two digits of an escape stand for a byte that has to be written so: no letter or sign that means
/// itself, no separator, no control byte.
fn must_be_encoded(digits: &[u8]) -> bool {
    let value = |digit: &u8| char::from(*digit).to_digit(16);
    let [high, low] = digits else { return false };
    let (Some(high), Some(low)) = (value(high), value(low)) else { return false };
    // Two hexadecimal digits make a byte.
    let byte = (high * 16 + low) as u8;
    let means_itself = byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'_' | b'~');
    !(means_itself || matches!(byte, b'/' | b'\\') || byte.is_ascii_control())
}

#[cfg(test)]
mod tests;
