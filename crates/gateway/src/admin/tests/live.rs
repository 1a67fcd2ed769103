use std::sync::Arc;

use futures_util::{FutureExt, StreamExt};
use tokio::time::Instant;
use uuid::Uuid;

use super::*;
use crate::admin::live::{Closing, LISTENERS_MAX};
use crate::observe::metrics::{GateGauges, WindowLimits};
use crate::observe::record::tests::sample;
use crate::observe::{CallError, Event, GaugeLevels, ProviderGauges};
use ::guard::window::Cause;

/// A listener on the admin plane.
fn look(state: &AdminState, request: http::request::Builder) -> impl Future<Output = Response> + use<> {
    let request = request.header(header::HOST, "localhost").extension(Closing(CancellationToken::new()));
    ask(router(state.clone()), request)
}

/// What has come by now: kinds and data.
fn come(response: &mut Response) -> Vec<(String, Value)> {
    let mut body = std::mem::take(response.body_mut()).into_data_stream();
    let mut told = Vec::new();
    while let Some(Some(piece)) = body.next().now_or_never() {
        let text = String::from_utf8(piece.unwrap().to_vec()).unwrap();
        let (kind, data) = text.strip_suffix("\n\n").unwrap().split_once('\n').unwrap();
        let data = serde_json::from_str(data.strip_prefix("data: ").unwrap()).unwrap();
        told.push((kind.strip_prefix("event: ").unwrap().to_owned(), data));
    }
    *response.body_mut() = Body::from_stream(body);
    told
}

fn lane() -> ProviderGauges {
    ProviderGauges {
        provider: "openai".into(),
        in_flight: 3,
        waiting: 7,
        permits: 64,
        window: 5,
        window_limits: Some(WindowLimits { size: 32, time: Duration::from_millis(50) }),
        queue_bytes: 8192,
        stands: true,
    }
}

#[tokio::test(start_paused = true)]
async fn who_may_look_may_watch_and_nobody_else() {
    for (host, origin, token, expected) in [
        ("localhost", None, Some("viewer-token"), 200),
        ("localhost", Some("http://localhost"), Some("operator-token"), 200),
        ("localhost", None, None, 401),
        ("localhost", None, Some("another-token"), 401),
        ("localhost", Some("http://evil.test"), Some("viewer-token"), 403),
        ("evil.test", None, Some("viewer-token"), 421),
    ] {
        let mut request = get("/api/live").header(header::HOST, host);
        request = origin.into_iter().fold(request, |request, it| request.header(header::ORIGIN, it));
        let bearer = token.map(|token| format!("Bearer {token}"));
        request = bearer.into_iter().fold(request, |request, it| request.header(header::AUTHORIZATION, it));
        let request = request.extension(Closing(CancellationToken::new()));
        let response = ask(router(state(EVERYWHERE, tokens())), request).await;
        assert_eq!(response.status(), expected, "{host} {origin:?} {token:?}");
        assert_eq!(response.headers()[header::CACHE_CONTROL], "no-store");
        let events = response.headers()[header::CONTENT_TYPE] == "text/event-stream";
        assert_eq!(events, expected == 200);
    }
}

#[tokio::test(start_paused = true)]
async fn the_state_comes_first_and_again_each_second() {
    let state = state(LOOPBACK, Access::default());
    let gate = Some(GateGauges { in_flight: 40, waiting: 2 });
    state.0.shown.metrics.read_gauges_from(move || GaugeLevels {
        providers: vec![lane(), ProviderGauges { window_limits: None, window: 0, ..lane() }],
        gate,
        cache_bytes: 0,
    });
    let mut response = look(&state, get("/api/live")).await;
    let told = come(&mut response);
    let [(kind, data)] = &told[..] else { panic!("{told:?}") };
    assert_eq!(kind, "state");
    assert!(data["at"].as_i64().unwrap() > 1_700_000_000_000, "{data}");
    assert_eq!(data["one_in"], 1);
    let expected = serde_json::json!({
        "provider": "openai", "permits": 64, "in_flight": 3, "waiting": 7, "queue_bytes": 8192,
        "queue_stands": true, "window": { "fill": 5, "size": 32, "time_ms": 50.0 },
    });
    assert_eq!(data["providers"][0], expected);
    assert!(data["providers"][1]["window"].is_null());
    assert_eq!(data["gate"], serde_json::json!({ "in_flight": 40, "waiting": 2 }));

    tokio::time::advance(Duration::from_secs(1)).await;
    assert_eq!(come(&mut response).len(), 1);
    assert!(come(&mut response).is_empty());
}

#[tokio::test(start_paused = true)]
async fn every_event_is_told_by_its_name_and_never_what_a_provider_said() {
    let state = state(LOOPBACK, Access::default());
    let bus = &state.0.shown.bus;
    let mut response = look(&state, get("/api/live")).await;
    let (id, flight) = (Uuid::from_u128(1), Uuid::from_u128(2));
    let provider: Arc<str> = "openai".into();
    let error = CallError::new("overloaded").reason("queue_full").detail("sentinel");
    let record = crate::observe::CallRecord { status: 429, error: Some(error), ..sample() };
    for event in [
        Event::Arrived { id, protocol: "chat" },
        Event::Joined { id, flight },
        Event::Windowed { id, provider: provider.clone(), fill: 3 },
        Event::Flushed { provider: provider.clone(), size: 4, cause: Cause::Time },
        Event::Queued { id, provider: provider.clone(), waiting: 5 },
        Event::Started { id, provider, in_flight: 6 },
        Event::FirstByte { id },
        Event::Settled(Arc::new(record)),
        Event::Sampling { one_in: 7 },
    ] {
        bus.publish(|| event);
    }
    let told = come(&mut response);
    let kinds: Vec<_> = told.iter().map(|(kind, _)| kind.as_str()).collect();
    let expected = "state arrived joined windowed flushed queued started first_byte done sampling";
    assert_eq!(kinds, expected.split(' ').collect::<Vec<_>>());
    let data = |kind: &str| &told.iter().find(|(told, _)| told == kind).unwrap().1;
    assert_eq!(data("arrived")["id"], id.to_string());
    assert_eq!(data("arrived")["protocol"], "chat");
    assert_eq!(data("joined")["flight"], flight.to_string());
    assert_eq!(data("windowed")["fill"], 3);
    assert_eq!((&data("flushed")["size"], &data("flushed")["cause"]), (&4.into(), &"time".into()));
    assert_eq!(data("queued")["waiting"], 5);
    assert_eq!(data("started")["in_flight"], 6);
    assert_eq!(data("sampling")["one_in"], 7);
    let done = data("done");
    assert_eq!((&done["code"], &done["reason"]), (&"overloaded".into(), &"queue_full".into()));
    assert_eq!((&done["first_byte_ms"], &done["output_tokens"]), (&310.25.into(), &40.into()));
    assert!(!format!("{told:?}").contains("sentinel"), "{done}");
}

#[tokio::test(start_paused = true)]
async fn who_reads_too_slowly_is_told_how_much_it_missed() {
    let state = state(LOOPBACK, Access::default());
    let mut response = look(&state, get("/api/live")).await;
    for _ in 0..2_000 {
        state.0.shown.bus.publish(|| Event::FirstByte { id: Uuid::nil() });
    }
    let told = come(&mut response);
    assert_eq!((told[0].0.as_str(), told[1].0.as_str()), ("state", "missed"));
    assert_eq!(told[1].1["events"], 976, "of 2,000 the latest 1,024 are kept");
}

#[tokio::test(start_paused = true)]
async fn there_is_room_for_so_many_and_who_leaves_makes_room() {
    let state = state(LOOPBACK, Access::default());
    let mut listeners = Vec::new();
    for _ in 0..LISTENERS_MAX {
        listeners.push(look(&state, get("/api/live")).await);
    }
    assert!(listeners.iter().all(|response| response.status() == 200));
    let one_more = look(&state, get("/api/live")).await;
    assert_eq!(code(one_more).await, (503, "too_many_listeners".into()));
    listeners.pop();
    assert_eq!(look(&state, get("/api/live")).await.status(), 200);
    listeners.clear();
    assert!(!state.0.shown.bus.admits(Instant::now()), "nobody listens any more");
}

/// Serves `state` on a port of the system's choice, and listens there until the first state has come.
async fn listening_to(
    state: impl FnOnce(&str) -> AdminState,
) -> (TcpStream, CancellationToken, tokio::task::JoinSet<()>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let shutdown = CancellationToken::new();
    let mut server = tokio::task::JoinSet::new();
    server.spawn(serve(listener, state(&address.to_string()), shutdown.clone()));
    let mut stream = TcpStream::connect(address).await.unwrap();
    stream.write_all(b"GET /api/live HTTP/1.1\r\nhost: localhost\r\n\r\n").await.unwrap();
    let mut head = Vec::new();
    while !head.windows(12).any(|text| text == b"event: state") {
        assert!(stream.read_buf(&mut head).await.unwrap() > 0, "{}", String::from_utf8_lossy(&head));
    }
    (stream, shutdown, server)
}

#[tokio::test]
async fn the_feed_ends_when_the_gate_closes() {
    let plane = |bound: &str| state(bound, Access::default());
    let (mut stream, shutdown, mut server) = listening_to(plane).await;
    shutdown.cancel();
    let mut rest = String::new();
    let ends = stream.read_to_string(&mut rest);
    tokio::time::timeout(Duration::from_secs(10), ends).await.unwrap().unwrap();
    assert!(rest.ends_with("\r\n0\r\n\r\n") || rest == "0\r\n\r\n", "a whole answer: {rest:?}");
    tokio::time::timeout(Duration::from_secs(10), server.join_next()).await.unwrap().unwrap().unwrap();
}

#[tokio::test]
async fn who_hangs_up_listens_no_more() {
    let shown = Shown::default();
    let bus = shown.bus.clone();
    let plane = |bound: &str| AdminState::new(bound.parse().unwrap(), Access::default(), shown, || Ok(()));
    let (stream, _shutdown, _server) = listening_to(plane).await;
    assert!(bus.admits(Instant::now()), "somebody listens");
    drop(stream);
    let nobody = async {
        // Sampled or not: all of a listener's calls are left out only when there is none.
        while (0..1_000).any(|_| bus.admits(Instant::now())) {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(Duration::from_secs(10), nobody).await.unwrap();
}
