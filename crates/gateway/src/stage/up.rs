//! The request's head on its way up: everything passes but what belongs to one connection, to the gate, or to
//! somebody's credentials.

use http::header::{self, HeaderName};
use http::{HeaderMap, HeaderValue, Uri};
use smallvec::SmallVec;
use wire::dialect::ENDPOINTS;
use wire::provider::{ClientCredential, Credential};

use crate::gateway::Provider;
use crate::refusal::Refusal;

/// Tells an Anthropic client.
pub(crate) const ANTHROPIC_VERSION: HeaderName = HeaderName::from_static("anthropic-version");

/// Takes out of a client's headers what must not go up; what `address` writes anew is left to it.
pub(crate) fn strip(headers: &mut HeaderMap) {
    remove_where(headers, |name| {
        let name = name.as_str();
        is_hop_by_hop(name)
            || matches!(name, "content-length" | "expect")
            || name.starts_with("x-sluicegate-")
    });
}

/// Headers that describe one connection (RFC 9110, section 7.6.1).
pub(crate) fn is_hop_by_hop(name: &str) -> bool {
    matches!(
        name,
        "connection"
            | "transfer-encoding"
            | "te"
            | "trailer"
            | "upgrade"
            | "proxy-authorization"
            | "proxy-authenticate"
            | "keep-alive"
            | "proxy-connection"
    )
}

/// Takes out what is `unwanted` and, where `Connection` is, what that header declares to belong to this connection
/// alone. Looks at each name once: a message has fewer headers than there are names to look for.
pub(crate) fn remove_where(headers: &mut HeaderMap, mut unwanted: impl FnMut(&HeaderName) -> bool) {
    let names: SmallVec<[HeaderName; 8]> = headers.keys().filter(|name| unwanted(name)).cloned().collect();
    if names.contains(&header::CONNECTION) {
        drop_named_by_connection(headers);
    }
    for name in &names {
        headers.remove(name);
    }
}

fn drop_named_by_connection(headers: &mut HeaderMap) {
    let Some(value) = headers.get(header::CONNECTION) else { return };
    if value.as_bytes().eq_ignore_ascii_case(b"keep-alive") || value.as_bytes().eq_ignore_ascii_case(b"close")
    {
        return;
    }
    let named: Vec<HeaderName> = headers
        .get_all(header::CONNECTION)
        .iter()
        .filter_map(|value| value.to_str().ok())
        .flat_map(|value| value.split(','))
        .filter_map(|name| name.trim().parse().ok())
        .collect();
    for name in &named {
        headers.remove(name);
    }
}

/// Whose credential goes up.
pub(crate) fn credential<'a>(
    provider: &'a Provider,
    client: &'a Option<ClientCredential>,
) -> Result<Option<Credential>, Refusal> {
    if let Some(key) = &provider.credential {
        return Ok(Some(key.clone()));
    }
    match client {
        Some(client) => Ok(Some(client.for_provider(provider.config.kind))),
        None if provider.needs_no_key() => Ok(None),
        None => Err(Refusal::NoCredentials { provider: provider.config.name.clone(), translated: false }),
    }
}

/// Writes what the gate says on this connection.
pub(crate) fn address(headers: &mut HeaderMap, provider: &Provider) {
    speak_to(headers, &provider.host);
}

fn speak_to(headers: &mut HeaderMap, host: &HeaderValue) {
    headers.insert(header::HOST, host.clone());
    headers.insert(header::ACCEPT_ENCODING, HeaderValue::from_static("identity"));
}

/// Puts the credential where this provider looks for it, and what else it can't do without, last of all.
pub(crate) fn seal(headers: &mut HeaderMap, provider: &Provider, credential: Option<&Credential>) {
    provider.config.kind.finish(headers);
    if let Some(credential) = credential {
        provider.config.kind.seal(headers, credential);
    }
}

/// Where the provider serves `op`, a path below its `/v1`.
pub(crate) fn uri(provider: &Provider, op: &str, query: Option<&str>) -> Result<Uri, Refusal> {
    if query.is_none()
        && let Some(at) = ENDPOINTS.iter().position(|known| *known == op)
        && let Some(known) = &provider.uris[at]
    {
        return Ok(known.clone());
    }
    let target = provider.config.base.target(provider.config.kind, op, query);
    Uri::try_from(target).map_err(|_| Refusal::PathUnknown)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hop_by_hop_headers_stay_and_unknown_ones_pass() {
        let mut headers = HeaderMap::new();
        for (name, value) in [
            ("connection", "close, X-Hop"),
            ("x-hop", "1"),
            ("keep-alive", "timeout=5"),
            ("te", "trailers"),
            ("transfer-encoding", "chunked"),
            ("host", "localhost"),
            ("content-length", "3"),
            ("accept-encoding", "gzip"),
            ("x-sluicegate-tags", "a=b"),
            ("x-vendor-new", "kept"),
            ("openai-beta", "kept"),
        ] {
            headers.insert(HeaderName::from_static(name), HeaderValue::from_static(value));
        }
        headers.append("anthropic-beta", HeaderValue::from_static("one"));
        headers.append("anthropic-beta", HeaderValue::from_static("two"));
        strip(&mut headers);
        speak_to(&mut headers, &HeaderValue::from_static("api.test"));
        let mut left: Vec<_> =
            headers.iter().map(|(name, value)| (name.as_str(), value.as_bytes())).collect();
        left.sort_unstable();
        assert_eq!(
            left,
            [
                ("accept-encoding", &b"identity"[..]),
                ("anthropic-beta", b"one"),
                ("anthropic-beta", b"two"),
                ("host", b"api.test"),
                ("openai-beta", b"kept"),
                ("x-vendor-new", b"kept")
            ]
        );
    }
}
