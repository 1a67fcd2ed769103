//! The request's head on its way up: everything passes but what belongs to one connection, to the gate, or to
//! somebody's credentials.

use http::header::{self, HeaderName};
use http::{HeaderMap, HeaderValue, Uri};
use smallvec::SmallVec;
use wire::provider::{ClientCredential, Credential};

use crate::gateway::Provider;
use crate::refusal::Refusal;

/// Tells an Anthropic client.
pub(crate) const ANTHROPIC_VERSION: HeaderName = HeaderName::from_static("anthropic-version");

/// Takes out of a client's headers what must not go up; what `address` writes anew is left to it.
pub(crate) fn strip(headers: &mut HeaderMap) {
    drop_named_by_connection(headers);
    remove_where(headers, |name| {
        is_hop_by_hop(name)
            || *name == header::CONTENT_LENGTH
            || *name == header::EXPECT
            || name.as_str().starts_with("x-sluicegate-")
    });
}

/// Headers that describe one connection (RFC 9110, section 7.6.1).
pub(crate) fn is_hop_by_hop(name: &HeaderName) -> bool {
    *name == header::CONNECTION
        || *name == header::TRANSFER_ENCODING
        || *name == header::TE
        || *name == header::TRAILER
        || *name == header::UPGRADE
        || *name == header::PROXY_AUTHORIZATION
        || *name == header::PROXY_AUTHENTICATE
        || matches!(name.as_str(), "keep-alive" | "proxy-connection")
}

/// Looks at each name once: a message has fewer headers than there are names to look for.
pub(crate) fn remove_where(headers: &mut HeaderMap, unwanted: impl Fn(&HeaderName) -> bool) {
    let names: SmallVec<[HeaderName; 8]> = headers.keys().filter(|name| unwanted(name)).cloned().collect();
    for name in &names {
        headers.remove(name);
    }
}

/// A header may be declared to belong to this connection alone.
pub(crate) fn drop_named_by_connection(headers: &mut HeaderMap) {
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
        None => Err(Refusal::NoCredentials { provider: provider.config.name.clone() }),
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
