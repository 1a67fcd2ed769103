//! Who may call a gate that asks for no key.
//!
//! A gate on loopback spends its owner's money for whoever reaches it. Programs of its owner may; a web page in
//! the owner's browser may not: it either tells its `Origin`, or, after rebinding a name of its own to this
//! address, a `Host` that is none of ours.

use http::request::Parts;
use http::{HeaderMap, HeaderValue, Method, header};

use super::marks::Marks;
use crate::config::Config;
use crate::refusal::Refusal;

/// Lets a request in, or says why not. Returns the listed web page that it comes from, if it does.
pub(crate) fn admit(config: &Config, head: &Parts, marks: Marks) -> Result<Option<HeaderValue>, Refusal> {
    let origin = if marks.origin { head.headers.get(header::ORIGIN) } else { None };
    if let Some(origin) = origin
        && !config.cors_origins.iter().any(|known| known.as_bytes() == origin.as_bytes())
    {
        return Err(foreign("Origin", origin));
    }
    if head.headers.get_all(header::HOST).iter().nth(1).is_some() {
        let message = "the header host is given more than once".to_owned();
        return Err(Refusal::Malformed { message, param: Some("host".to_owned()) });
    }
    for host in named_hosts(head) {
        let name = host_name(host);
        if !is_loopback(name) && !config.hosts.iter().any(|known| known.eq_ignore_ascii_case(name)) {
            return Err(Refusal::Foreign { what: "Host", value: clip(host) });
        }
    }
    Ok(origin.cloned())
}

/// Lets a listed web page read an answer.
pub(crate) fn allow(origin: &HeaderValue, answer: &mut HeaderMap) {
    answer.insert(header::ACCESS_CONTROL_ALLOW_ORIGIN, origin.clone());
    answer.insert(header::ACCESS_CONTROL_EXPOSE_HEADERS, HeaderValue::from_static("*"));
    answer.append(header::VARY, HeaderValue::from_static("origin"));
}

/// A browser's question before the request itself.
pub(crate) fn is_preflight(head: &Parts) -> bool {
    head.method == Method::OPTIONS
        && head.headers.contains_key(header::ORIGIN)
        && head.headers.contains_key(header::ACCESS_CONTROL_REQUEST_METHOD)
}

/// The answer to a preflight from a listed page: it may send what it asked to send.
pub(crate) fn preflight(request: &HeaderMap) -> HeaderMap {
    let mut answer = HeaderMap::new();
    answer.insert(
        header::ACCESS_CONTROL_ALLOW_METHODS,
        HeaderValue::from_static("GET, POST, DELETE, PUT, PATCH"),
    );
    if let Some(asked) = request.get(header::ACCESS_CONTROL_REQUEST_HEADERS) {
        answer.insert(header::ACCESS_CONTROL_ALLOW_HEADERS, asked.clone());
    }
    answer.insert(header::ACCESS_CONTROL_MAX_AGE, HeaderValue::from_static("600"));
    answer
}

/// Every name that the request calls us by: the header and, in absolute form, the target.
fn named_hosts(head: &Parts) -> impl Iterator<Item = &[u8]> {
    let in_target = head.uri.authority().map(|authority| authority.as_str().as_bytes());
    head.headers.get_all(header::HOST).into_iter().map(HeaderValue::as_bytes).chain(in_target)
}

/// The name without port and brackets; empty if it can't be read.
fn host_name(host: &[u8]) -> &str {
    let host = std::str::from_utf8(host).unwrap_or_default();
    if let Some(rest) = host.strip_prefix('[') {
        return match rest.split_once(']') {
            Some((name, port)) if port.is_empty() || is_port(port) => name,
            _ => "",
        };
    }
    match host.split_once(':') {
        None => host,
        Some((name, _)) if is_port(&host[name.len()..]) => name,
        Some(_) => "",
    }
}

fn is_port(text: &str) -> bool {
    text.strip_prefix(':').is_some_and(|digits| digits.bytes().all(|byte| byte.is_ascii_digit()))
}

fn is_loopback(name: &str) -> bool {
    // What nearly everybody writes.
    if matches!(name, "localhost" | "127.0.0.1") {
        return true;
    }
    let name = name.strip_suffix('.').unwrap_or(name);
    name.eq_ignore_ascii_case("localhost")
        || name.len() > 10 && name[name.len().saturating_sub(10)..].eq_ignore_ascii_case(".localhost")
        || name.parse::<std::net::IpAddr>().is_ok_and(|address| address.is_loopback())
}

fn foreign(what: &'static str, value: &HeaderValue) -> Refusal {
    Refusal::Foreign { what, value: clip(value.as_bytes()) }
}

/// Enough of a value from outside to recognise it.
fn clip(value: &[u8]) -> String {
    value[..value.len().min(100)].escape_ascii().to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_loopback_names_are_loopback_names() {
        for name in ["localhost", "LOCALHOST", "localhost.", "a.localhost", "127.0.0.1", "127.9.9.9", "::1"] {
            assert!(is_loopback(name), "{name}");
        }
        for name in
            ["", "evil.test", "localhost.evil.test", "notlocalhost", "10.0.0.1", "127.0.0.1.evil.test"]
        {
            assert!(!is_loopback(name), "{name}");
        }
    }

    #[test]
    fn a_host_is_read_with_and_without_port() {
        assert_eq!(host_name(b"localhost:8080"), "localhost");
        assert_eq!(host_name(b"[::1]:8080"), "::1");
        assert_eq!(host_name(b"[::1]"), "::1");
        assert_eq!(host_name(b"::1"), "");
        assert_eq!(host_name(b"localhost:80@evil.test"), "");
        assert_eq!(host_name(b"\xff"), "");
    }
}
