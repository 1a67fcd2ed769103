//! What happens in the gate, as it happens: server-sent events from which a picture can be drawn.
//!
//! A listener first gets the `state`, then every event of the bus, and the state again each second: gauges move,
//! and a listener that is gone is noticed. A slow one is told how much it missed and delays nobody.
//! Not here: bodies, credentials and what providers said. An error is its code and its reason.

use std::convert::Infallible;
use std::time::Duration;

use axum::Extension;
use axum::extract::State;
use axum::http::StatusCode;
use axum::http::header::{self, HeaderName, HeaderValue};
use axum::response::sse::{Event as Line, Sse};
use axum::response::{IntoResponse, Response};
use futures_util::stream;
use serde_json::{Value, json};
use tokio::sync::OwnedSemaphorePermit;
use tokio::time::{Interval, MissedTickBehavior, interval};
use tokio_util::sync::CancellationToken;

use super::{AdminState, Shown, Viewer, error};
use crate::observe::record::{millis, name};
use crate::observe::{CallRecord, Event, GateGauges, Heard, Listener, ProviderGauges, Told};

/// Most listeners at once.
pub(super) const LISTENERS_MAX: usize = 32;
/// How often the state is told.
const STATE_EVERY: Duration = Duration::from_secs(1);

/// Cancelled when the gate closes. An extension of every request.
#[derive(Clone, Debug)]
pub(super) struct Closing(pub(super) CancellationToken);

pub(super) async fn feed(
    _: Viewer,
    State(state): State<AdminState>,
    Extension(Closing(closing)): Extension<Closing>,
) -> Response {
    let Ok(place) = state.0.places.clone().try_acquire_owned() else {
        let message = format!("{LISTENERS_MAX} listen already, and that is the most");
        return error(StatusCode::SERVICE_UNAVAILABLE, "too_many_listeners", &message);
    };
    let shown = state.0.shown.clone();
    let mut tick = interval(STATE_EVERY);
    tick.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let feed = Feed { listener: shown.bus.listen(), shown, tick, closing, _place: place };
    let lines = stream::unfold(feed, |mut feed| async move {
        let line = feed.next().await?;
        Some((Ok::<_, Infallible>(line), feed))
    });
    let mut response = Sse::new(lines).into_response();
    let headers = response.headers_mut();
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    // A proxy that gathers answers would hold back what is live.
    headers.insert(HeaderName::from_static("x-accel-buffering"), HeaderValue::from_static("no"));
    response
}

/// One listener's feed. Dropping it ends the listening.
struct Feed {
    shown: Shown,
    listener: Listener,
    tick: Interval,
    closing: CancellationToken,
    _place: OwnedSemaphorePermit,
}

impl Feed {
    /// The next line, until the gate closes.
    async fn next(&mut self) -> Option<Line> {
        let (kind, data) = tokio::select! {
            // The end and the state come first: events may never leave a gap.
            biased;
            () = self.closing.cancelled() => return None,
            _ = self.tick.tick() => ("state", state(&self.shown)),
            heard = self.listener.next() => match heard? {
                Heard::Told(told) => event(&told),
                Heard::Missed(events) => {
                    ("missed", json!({ "at": self.shown.bus.now().as_millisecond(), "events": events }))
                }
            },
        };
        Some(Line::default().event(kind).data(data.to_string()))
    }
}

/// What the gate looks like now.
fn state(shown: &Shown) -> Value {
    let levels = shown.metrics.levels();
    json!({
        "at": shown.bus.now().as_millisecond(),
        "one_in": shown.bus.one_in(),
        "providers": levels.providers.iter().map(provider).collect::<Vec<_>>(),
        "gate": levels.gate.map(|GateGauges { in_flight, waiting }| {
            json!({ "in_flight": in_flight, "waiting": waiting })
        }),
    })
}

fn provider(row: &ProviderGauges) -> Value {
    json!({
        "provider": &*row.provider,
        "permits": row.permits,
        "in_flight": row.in_flight,
        "waiting": row.waiting,
        "queue_bytes": row.queue_bytes,
        "queue_stands": row.stands,
        "window": row.window_limits.map(|limits| {
            json!({ "fill": row.window, "size": limits.size, "time_ms": millis(limits.time) })
        }),
    })
}

/// An event's name and what is told of it.
fn event(told: &Told) -> (&'static str, Value) {
    let at = told.at.as_millisecond();
    match &told.event {
        Event::Arrived { id, protocol } => {
            ("arrived", json!({ "at": at, "id": id.to_string(), "protocol": protocol }))
        }
        Event::Joined { id, flight } => {
            ("joined", json!({ "at": at, "id": id.to_string(), "flight": flight.to_string() }))
        }
        Event::Windowed { id, provider, fill } => {
            ("windowed", json!({ "at": at, "id": id.to_string(), "provider": &**provider, "fill": fill }))
        }
        Event::Flushed { provider, size, cause } => {
            ("flushed", json!({ "at": at, "provider": &**provider, "size": size, "cause": cause.as_str() }))
        }
        Event::Queued { id, provider, waiting } => {
            ("queued", json!({ "at": at, "id": id.to_string(), "provider": &**provider, "waiting": waiting }))
        }
        Event::Started { id, provider, in_flight } => (
            "started",
            json!({ "at": at, "id": id.to_string(), "provider": &**provider, "in_flight": in_flight }),
        ),
        Event::FirstByte { id } => ("first_byte", json!({ "at": at, "id": id.to_string() })),
        Event::Settled(record) => ("done", done(at, record)),
        Event::Sampling { one_in } => ("sampling", json!({ "at": at, "one_in": one_in })),
    }
}

/// What is told of a call that is over: a part of its record, under the record's names.
fn done(at: i64, record: &CallRecord) -> Value {
    json!({
        "at": at,
        "id": record.id.to_string(),
        "protocol": record.protocol,
        "provider": record.provider.as_deref().map(name),
        "model": record.model.as_deref().map(name),
        "fate": record.fate.as_str(),
        "status": record.status,
        "code": record.error.as_ref().map(|error| error.code),
        "reason": record.error.as_ref().and_then(|error| error.reason),
        "attempts": record.attempts,
        "queue_ms": millis(record.queue),
        "first_byte_ms": record.first_byte.map(millis),
        "total_ms": millis(record.total),
        "input_tokens": record.input_tokens,
        "cached_input_tokens": record.cached_input_tokens,
        "output_tokens": record.output_tokens,
    })
}
