//! Who may do what: a handler takes a [`Viewer`] or an [`Operator`] as its first argument, and is run only for
//! callers who are one.
//!
//! Invariant: [`Routes`] takes no handler that names no role, save those listed as public; that is checked when the
//! gate is compiled, not when somebody reviews it.
//!
//! A token is needed where the listener can be reached from another machine, and wherever one is configured.
//! Without a token, on loopback, whoever reaches the listener is the operator.

use std::convert::Infallible;

use axum::Router;
use axum::extract::{DefaultBodyLimit, FromRequestParts};
use axum::handler::Handler;
use axum::http::header::{self, HeaderMap};
use axum::http::request::Parts;
use axum::http::{StatusCode, Uri};
use axum::middleware::from_fn_with_state;
use axum::response::Response;
use axum::routing::{self, MethodRouter};
use secrecy::{ExposeSecret, SecretString};
use subtle::ConstantTimeEq;

use super::{AdminState, Denied, error, guard};

/// Largest request body, in bytes.
const BODY_MAX: usize = 1 << 20;

/// May look.
#[derive(Clone, Copy, Debug)]
pub struct Viewer(());

/// May look and change.
#[derive(Clone, Copy, Debug)]
pub struct Operator(());

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Rank {
    Viewer,
    Operator,
}

impl FromRequestParts<AdminState> for Viewer {
    type Rejection = Denied;

    async fn from_request_parts(parts: &mut Parts, state: &AdminState) -> Result<Self, Denied> {
        state.rank(&parts.headers).map(|_| Viewer(()))
    }
}

impl FromRequestParts<AdminState> for Operator {
    type Rejection = Denied;

    async fn from_request_parts(parts: &mut Parts, state: &AdminState) -> Result<Self, Denied> {
        match state.rank(&parts.headers)? {
            Rank::Operator => Ok(Operator(())),
            Rank::Viewer => Err(Denied::Role),
        }
    }
}

impl AdminState {
    fn rank(&self, headers: &HeaderMap) -> Result<Rank, Denied> {
        let access = self.0.access.load();
        let remote = !self.0.bound.ip().to_canonical().is_loopback();
        if !remote && access.token.is_none() && access.viewer_token.is_none() {
            return Ok(Rank::Operator);
        }
        let presented = bearer(headers).unwrap_or_default();
        // Both are compared always, so that the time taken tells nothing.
        match (is(presented, &access.token), is(presented, &access.viewer_token)) {
            (true, _) => Ok(Rank::Operator),
            (false, true) => Ok(Rank::Viewer),
            (false, false) => Err(Denied::Token),
        }
    }
}

/// The token of the one `Authorization: Bearer` header.
fn bearer(headers: &HeaderMap) -> Option<&str> {
    let mut values = headers.get_all(header::AUTHORIZATION).iter();
    let (scheme, token) = values.next()?.to_str().ok()?.split_once(' ')?;
    (values.next().is_none() && scheme.eq_ignore_ascii_case("bearer")).then(|| token.trim())
}

/// An empty token is nobody's.
fn is(presented: &str, token: &Option<SecretString>) -> bool {
    let token = token.as_ref().map_or("", |token| token.expose_secret());
    !token.is_empty() && bool::from(presented.as_bytes().ct_eq(token.as_bytes()))
}

/// Builds the admin plane's router.
///
/// A handler whose first argument is no role does not compile:
///
/// ```compile_fail
/// use sluicegate::admin::Routes;
/// let _ = Routes::default().get("/secrets", async || "for everybody");
/// ```
///
/// One that names its role does:
///
/// ```
/// use sluicegate::admin::{Operator, Routes, Viewer};
/// let _ = Routes::default()
///     .get("/figures", async |_: Viewer| "for viewers")
///     .any("/reset", async |_: Operator| "for operators");
/// ```
#[derive(Debug, Default)]
pub struct Routes(Router<AdminState>);

impl Routes {
    /// A route to look at.
    #[must_use]
    pub fn get<H, T>(self, path: &str, handler: H) -> Self
    where
        H: Handler<T, AdminState>,
        T: NamesRole + 'static,
    {
        self.route(path, routing::get(handler))
    }

    /// A route for every method.
    #[must_use]
    pub fn any<H, T>(self, path: &str, handler: H) -> Self
    where
        H: Handler<T, AdminState>,
        T: NamesRole + 'static,
    {
        self.route(path, routing::any(handler))
    }

    /// A route to look at that needs no token: for orchestrators, and nothing that tells more than up or down.
    #[must_use]
    pub(super) fn public<H, T>(self, path: &str, handler: H) -> Self
    where
        H: Handler<T, AdminState>,
        T: 'static,
    {
        self.route(path, routing::get(handler))
    }

    fn route(self, path: &str, handler: MethodRouter<AdminState, Infallible>) -> Self {
        Routes(self.0.route(path, handler))
    }

    /// The router, with the guard before every route, known or not.
    pub(super) fn guarded(self, state: AdminState) -> Router {
        self.0
            .fallback(not_found)
            .method_not_allowed_fallback(method_not_allowed)
            .layer(DefaultBodyLimit::max(BODY_MAX))
            .layer(from_fn_with_state(state.clone(), guard::check))
            .with_state(state)
    }
}

async fn not_found(uri: Uri) -> Response {
    error(StatusCode::NOT_FOUND, "not_found", &format!("there is no {}", uri.path()))
}

async fn method_not_allowed() -> Response {
    error(StatusCode::METHOD_NOT_ALLOWED, "method_not_allowed", "this path takes another method")
}

/// Arguments of a handler of which the first is a role.
pub trait NamesRole {}

/// A role that a handler can name.
pub trait Role {}
impl Role for Viewer {}
impl Role for Operator {}

// The handler trait's own parameter is a tuple: how the last argument is taken, then the arguments.
impl<M, R: Role> NamesRole for (M, R) {}
impl<M, R: Role, A> NamesRole for (M, R, A) {}
impl<M, R: Role, A, B> NamesRole for (M, R, A, B) {}
impl<M, R: Role, A, B, C> NamesRole for (M, R, A, B, C) {}
