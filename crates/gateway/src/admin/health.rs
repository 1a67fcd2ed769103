//! Whether the gate is up, and whether it wants calls. Public: orchestrators bear no token.

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use serde_json::json;

use super::AdminState;

/// The process runs and answers. Green until it ends, also while it drains: a restart would cut calls off.
pub(super) async fn alive() -> Response {
    Json(json!({ "status": "ok" })).into_response()
}

/// New calls are welcome. Red while draining, so that no more are sent here.
pub(super) async fn ready(State(state): State<AdminState>) -> Response {
    match (state.0.ready)() {
        Ok(()) => Json(json!({ "status": "ready" })).into_response(),
        Err(reason) => {
            let body = Json(json!({ "status": "not ready", "reason": reason }));
            (StatusCode::SERVICE_UNAVAILABLE, body).into_response()
        }
    }
}
