//! The metrics page, for Prometheus.

use axum::extract::State;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};

use super::{AdminState, Viewer, error};
use crate::observe::metrics::CONTENT_TYPE;

pub(super) async fn page(_: Viewer, State(state): State<AdminState>) -> Response {
    match state.0.shown.metrics.render() {
        Ok(page) => ([(header::CONTENT_TYPE, CONTENT_TYPE)], page).into_response(),
        Err(_) => error(StatusCode::INTERNAL_SERVER_ERROR, "internal", "the metrics can't be written"),
    }
}
