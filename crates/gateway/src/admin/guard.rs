//! What every request to the admin plane passes first, so that no web page gets in through its visitor's browser.
//!
//! - **Host** must be a name of this machine that no stranger can point elsewhere: a loopback name or address,
//!   the address that the connection came in on, or a configured name. A page whose own name was made to
//!   resolve to this machine ("DNS rebinding") sends its own name, and gets 421.
//! - **Origin**, where a browser sends one, must be the very host that is being called; else 403.
//!
//! It also bounds the time until an answer begins, and adds the headers that keep answers out of frames,
//! caches and other pages.

use std::net::IpAddr;
use std::time::Duration;

use axum::extract::{Request, State};
use axum::http::header::{self, HeaderMap, HeaderName, HeaderValue};
use axum::http::uri::Authority;
use axum::http::{StatusCode, Uri};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};

use super::{Access, AdminState, Denied, error};

/// Until a handler has its answer's head; reading a request's body counts.
const ANSWER_WITHIN: Duration = Duration::from_secs(30);

const HEADERS: [(HeaderName, HeaderValue); 5] = [
    (header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff")),
    (header::CACHE_CONTROL, HeaderValue::from_static("no-store")),
    (header::REFERRER_POLICY, HeaderValue::from_static("no-referrer")),
    (
        header::CONTENT_SECURITY_POLICY,
        HeaderValue::from_static(
            "default-src 'none'; frame-ancestors 'none'; base-uri 'none'; form-action 'none'",
        ),
    ),
    (HeaderName::from_static("cross-origin-resource-policy"), HeaderValue::from_static("same-origin")),
];

/// The address of ours that a connection came in on.
#[derive(Clone, Copy, Debug)]
pub(super) struct Reached(pub(super) IpAddr);

/// The middleware.
pub(super) async fn check(State(state): State<AdminState>, request: Request, next: Next) -> Response {
    let mut response = match admit(&state, &request) {
        Ok(()) => answer(request, next).await,
        Err(denied) => denied.into_response(),
    };
    for (name, value) in HEADERS {
        response.headers_mut().entry(name).or_insert(value);
    }
    response
}

async fn answer(request: Request, next: Next) -> Response {
    let late = |_| error(StatusCode::SERVICE_UNAVAILABLE, "timeout", "the answer took too long");
    tokio::time::timeout(ANSWER_WITHIN, next.run(request)).await.unwrap_or_else(late)
}

fn admit(state: &AdminState, request: &Request) -> Result<(), Denied> {
    let host = named(request.uri(), request.headers()).ok_or(Denied::Host)?;
    let reached = request.extensions().get::<Reached>().map(|reached| reached.0);
    if !is_ours(&host, &[Some(state.0.bound.ip()), reached], &state.0.access.load()) {
        return Err(Denied::Host);
    }
    let mut origins = request.headers().get_all(header::ORIGIN).iter();
    match (origins.next(), origins.next()) {
        (None, _) => Ok(()),
        (Some(origin), None) if origin.to_str().is_ok_and(|origin| is_same(origin, &host)) => Ok(()),
        _ => Err(Denied::Origin),
    }
}

/// The one host that the request names.
fn named(uri: &Uri, headers: &HeaderMap) -> Option<Authority> {
    let mut hosts = headers.get_all(header::HOST).iter();
    let host = Authority::try_from(hosts.next()?.as_bytes()).ok()?;
    let one = hosts.next().is_none() && uri.authority().is_none_or(|target| *target == host);
    // Names and a password before an `@` have no place in a Host.
    (one && !host.as_str().contains('@')).then_some(host)
}

fn is_ours(host: &Authority, addresses: &[Option<IpAddr>], access: &Access) -> bool {
    let name = host.host().trim_matches(['[', ']']);
    if let Ok(address) = name.parse::<IpAddr>() {
        let address = address.to_canonical();
        let ours = addresses.iter().flatten().any(|ours| ours.to_canonical() == address);
        return ours || address.is_loopback() || listed(host, access);
    }
    let bare = name.strip_suffix('.').unwrap_or(name).to_ascii_lowercase();
    bare == "localhost" || bare.ends_with(".localhost") || listed(host, access)
}

/// Whether the operator named it, with or without its port.
fn listed(host: &Authority, access: &Access) -> bool {
    let is =
        |entry: &String| entry.eq_ignore_ascii_case(host.host()) || entry.eq_ignore_ascii_case(host.as_str());
    access.hosts.iter().any(is)
}

fn is_same(origin: &str, host: &Authority) -> bool {
    let Some((scheme, authority)) = origin.split_once("://") else { return false };
    let usual = match scheme {
        "http" => 80,
        "https" => 443,
        _ => return false,
    };
    let Ok(origin) = authority.parse::<Authority>() else { return false };
    let port = |authority: &Authority| authority.port_u16().unwrap_or(usual);
    !origin.as_str().contains('@')
        && origin.host().eq_ignore_ascii_case(host.host())
        && port(&origin) == port(host)
}
