//! The admin plane: the operator's own listener, apart from the one that callers use.
//!
//! Invariant: every request passes the `guard` (Host and Origin), and every handler names the `role` that it
//! needs in its signature, or is listed as public. A route can't be added that forgets either.
//! Not here: what the routes show. They are views of what the gate keeps, never a second way to call a provider.

mod guard;
mod health;
mod listener;
mod live;
mod metrics;
mod role;

use std::fmt;
use std::net::SocketAddr;
use std::sync::Arc;

use arc_swap::ArcSwap;
use axum::Json;
use axum::Router;
use axum::http::header::{HeaderValue, WWW_AUTHENTICATE};
use axum::http::{StatusCode, Uri};
use axum::response::{IntoResponse, Response};
use secrecy::SecretString;
use tokio::sync::Semaphore;

use crate::observe::{Bus, Metrics};
pub use listener::serve;
pub use role::{Operator, Routes, Viewer};

/// Who may reach the admin plane, and by which names.
#[derive(Clone, Debug, Default)]
pub struct Access {
    /// What an operator presents.
    pub token: Option<SecretString>,
    /// What a viewer presents.
    pub viewer_token: Option<SecretString>,
    /// Names, besides loopback ones, that the admin plane answers to.
    pub hosts: Vec<String>,
}

/// What the admin plane's handlers work with. Cloning copies one pointer.
#[derive(Clone, Debug)]
pub struct AdminState(Arc<Inner>);

type Readiness = Box<dyn Fn() -> Result<(), &'static str> + Send + Sync>;

struct Inner {
    bound: SocketAddr,
    access: ArcSwap<Access>,
    shown: Shown,
    ready: Readiness,
    /// For those who watch.
    places: Arc<Semaphore>,
}

/// What the admin plane shows.
#[derive(Clone, Debug, Default)]
pub struct Shown {
    /// The metrics of all calls.
    pub metrics: Arc<Metrics>,
    /// The live events of all calls.
    pub bus: Bus,
}

impl fmt::Debug for Inner {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("Inner")
            .field("bound", &self.bound)
            .field("access", &self.access)
            .finish_non_exhaustive()
    }
}

impl AdminState {
    /// `bound` is the address that is listened on; `ready` says whether calls are welcome, or why not.
    pub fn new(
        bound: SocketAddr,
        access: Access,
        shown: Shown,
        ready: impl Fn() -> Result<(), &'static str> + Send + Sync + 'static,
    ) -> Self {
        AdminState(Arc::new(Inner {
            bound,
            access: ArcSwap::from_pointee(access),
            shown,
            ready: Box::new(ready),
            places: Arc::new(Semaphore::new(live::LISTENERS_MAX)),
        }))
    }

    /// Changes who may reach it, from the next request on.
    pub fn set_access(&self, access: Access) {
        self.0.access.store(Arc::new(access));
    }
}

/// All routes of the admin plane.
pub fn router(state: AdminState) -> Router {
    Routes::default()
        .public("/healthz", health::alive)
        .public("/readyz", health::ready)
        .get("/metrics", metrics::page)
        .any("/", not_built_yet)
        .get("/api/live", live::feed)
        .any("/api", not_built_yet)
        .any("/api/{*path}", not_built_yet)
        .guarded(state)
}

/// Stands where the dashboard and the rest of its API will be.
async fn not_built_yet(_: Viewer, uri: Uri) -> Response {
    let message = format!("{} comes with a later version of the gate", uri.path());
    error(StatusCode::NOT_IMPLEMENTED, "not_built_yet", &message)
}

/// Why a request does not get to its handler.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Denied {
    /// Called by a name that anybody could have pointed here.
    Host,
    /// Called by a web page from elsewhere.
    Origin,
    /// No token, or not one of ours.
    Token,
    /// A viewer's token, where an operator's is needed.
    Role,
}

impl IntoResponse for Denied {
    fn into_response(self) -> Response {
        let (status, code, message) = match self {
            Denied::Host => (
                StatusCode::MISDIRECTED_REQUEST,
                "host_not_allowed",
                "the admin plane is not known by this Host; add the name to admin.hosts if it should be",
            ),
            Denied::Origin => (
                StatusCode::FORBIDDEN,
                "origin_not_allowed",
                "a page of another origin may not call the admin plane",
            ),
            Denied::Token => (
                StatusCode::UNAUTHORIZED,
                "invalid_token",
                "this needs `Authorization: Bearer` with the token of admin.token or admin.viewer_token",
            ),
            Denied::Role => (StatusCode::FORBIDDEN, "operator_only", "this needs the token of admin.token"),
        };
        let mut response = error(status, code, message);
        if self == Denied::Token {
            let challenge = HeaderValue::from_static("Bearer realm=\"sluicegate admin\"");
            response.headers_mut().insert(WWW_AUTHENTICATE, challenge);
        }
        response
    }
}

/// An error, as the admin plane tells it.
fn error(status: StatusCode, code: &str, message: &str) -> Response {
    (status, Json(serde_json::json!({ "error": { "code": code, "message": message } }))).into_response()
}

#[cfg(test)]
mod tests;
