//! What the gate itself refuses, and how it says so.

use std::io;
use std::sync::Arc;

use http::{HeaderValue, Method};
use tokio::io::DuplexStream;

use crate::world::*;

#[tokio::test(start_paused = true)]
async fn a_web_page_may_not_use_an_open_gate() {
    let (world, mock) =
        World::with("cors = { origins = [\"http://mine.test\"] }\nhosts = [\"gate.internal\"]\n", mock());
    for (name, value, status) in [
        ("origin", "http://evil.test", 403),
        ("origin", "null", 403),
        ("origin", "http://mine.test", 200),
        ("host", "evil.test", 403),
        ("host", "localhost.evil.test:8080", 403),
        ("host", "gate.internal:8080", 200),
        ("host", "127.0.0.1:8080", 200),
        ("host", "[::1]:8080", 200),
    ] {
        let mut asked = request(Method::POST, "/v1/chat/completions", chat(value));
        asked.headers_mut().insert(name, HeaderValue::from_static(value));
        let reply = world.ask(asked).await;
        assert_eq!(reply.status, status, "{name}: {value}: {}", reply.text());
        if status == 403 {
            assert_eq!(reply.header("x-sluicegate-error"), "origin_not_allowed");
        } else if name == "origin" {
            assert_eq!(reply.header("access-control-allow-origin"), value);
        }
    }
    assert_eq!(mock.requests(100).len(), 4);
    let mut asked = request(Method::OPTIONS, "/v1/chat/completions", "");
    asked.headers_mut().insert("origin", HeaderValue::from_static("http://mine.test"));
    asked.headers_mut().insert("access-control-request-method", HeaderValue::from_static("POST"));
    asked.headers_mut().insert("access-control-request-headers", HeaderValue::from_static("authorization"));
    let reply = world.ask(asked).await;
    assert_eq!(reply.status, 204);
    assert_eq!(reply.header("access-control-allow-headers"), "authorization");
    assert_eq!(reply.header("access-control-allow-origin"), "http://mine.test");
}

#[tokio::test(start_paused = true)]
async fn each_is_said_in_the_shape_that_asked() {
    let (world, mock) = World::before(mock());
    for (method, path, body, status, code) in [
        (Method::POST, "/v1/chat/completions", "{\"model\":\"claude-x\"}", 400, "invalid_request"),
        (Method::POST, "/v1/responses", "{\"model\":\"claude-x\"}", 400, "invalid_request"),
        (
            Method::POST,
            "/v1/messages",
            "{\"model\":\"gpt-x\",\"messages\":[],\"mcp_servers\":[{}]}",
            400,
            "invalid_request",
        ),
        (Method::POST, "/nowhere", "{}", 404, "not_found"),
        (Method::POST, "/v1//chat/completions", "{}", 404, "not_found"),
        (Method::POST, "/v1/chat%2fcompletions", "{}", 404, "not_found"),
        (Method::POST, "/to/nobody/v1/chat/completions", "{}", 404, "not_found"),
        (Method::POST, "/v1beta/models/gemini-x:generateContent", "{}", 501, "not_built_yet"),
    ] {
        let reply = world.ask(request(method, path, body)).await;
        assert_eq!(reply.status, status, "{path}: {}", reply.text());
        assert_eq!(reply.header("x-sluicegate-error"), code, "{path}");
        assert_eq!(reply.header("x-should-retry"), "false");
        assert_eq!(reply.header("content-type"), "application/json");
        assert!(!reply.header("x-request-id").is_empty());
        let json = reply.json();
        if path == "/v1/messages" {
            assert_eq!(json["type"], "error");
            assert_eq!(json["error"]["type"], "invalid_request_error");
        } else {
            assert_eq!(json["error"]["code"], code);
        }
        assert!(json["error"]["message"].as_str().is_some_and(|message| message.len() > 10));
        let record = world.records.last();
        assert_eq!(record.fate.as_str(), "refused");
        assert_eq!(record.status, status);
    }
    let mut upgrade = request(Method::GET, "/v1/realtime", "");
    upgrade.headers_mut().insert("connection", HeaderValue::from_static("upgrade"));
    upgrade.headers_mut().insert("upgrade", HeaderValue::from_static("websocket"));
    let reply = world.ask(upgrade).await;
    assert_eq!((reply.status.as_u16(), reply.header("x-sluicegate-error")), (501, "upgrade_not_supported"));
    let mut cached = request(Method::POST, "/v1/chat/completions", chat("x"));
    cached.headers_mut().insert("cache-control", HeaderValue::from_static("only-if-cached"));
    let reply = world.ask(cached).await;
    assert_eq!((reply.status.as_u16(), reply.header("x-sluicegate-error")), (504, "not_cached"));
    assert_eq!(mock.requests(100).len(), 0);
}

#[tokio::test(start_paused = true)]
async fn the_gates_own_key_replaces_the_callers_and_its_refusal_is_not_the_callers_fault() {
    let file = "[providers.openai]\nbase_url = \"http://127.0.0.1:1/v1\"\napi_key = \"gate-key\"\n";
    let (world, mock) = World::with(file, mock());
    let reply = world.post("/v1/chat/completions", chat("x")).await;
    assert_eq!(reply.status, 200);
    let received = mock.requests(1).remove(0);
    assert!(
        received.headers.iter().any(|(name, value)| name == "authorization" && value == "Bearer gate-key")
    );
    assert!(!received.headers.iter().any(|(_, value)| value.contains("caller-key")));
    mock.set_script("401".parse().unwrap());
    let reply = world.post("/v1/chat/completions", chat("y")).await;
    assert_eq!(reply.status, 502);
    assert_eq!(reply.header("x-sluicegate-error"), "upstream_credentials");
    assert!(!reply.text().contains("gate-key"));
}

#[tokio::test(start_paused = true)]
async fn without_any_credential_the_caller_is_told() {
    let file = "[providers.openai]\nbase_url = \"https://api.example.com/v1\"\n";
    let (world, mock) = World::with(file, mock());
    let mut asked = request(Method::POST, "/v1/chat/completions", chat("x"));
    asked.headers_mut().remove("authorization");
    let reply = world.ask(asked).await;
    assert_eq!((reply.status.as_u16(), reply.header("x-sluicegate-error")), (401, "no_credentials"));
    assert_eq!(mock.requests(1).len(), 0);
}

/// A provider to which this machine can't open a connection.
struct Lacking {
    code: i32,
    /// The error lies inside others, as a library hands it on.
    wrapped: bool,
}

impl Provider for Lacking {
    fn connect(&self) -> io::Result<DuplexStream> {
        let lack = io::Error::from_raw_os_error(self.code);
        Err(if self.wrapped { io::Error::other(io::Error::other(lack)) } else { lack })
    }
}

#[tokio::test(start_paused = true)]
async fn what_the_gate_lacks_is_not_laid_to_the_provider() {
    let ours = [libc::EMFILE, libc::ENFILE, libc::ENOBUFS, libc::ENOMEM, libc::EADDRNOTAVAIL];
    for (codes, status, error) in [
        (&ours[..], 503, "overloaded"),
        (&[libc::ECONNREFUSED, libc::EHOSTUNREACH, libc::ENETUNREACH], 502, "upstream_error"),
    ] {
        for (code, wrapped) in codes.iter().flat_map(|code| [(*code, false), (*code, true)]) {
            for http in ["1.1", "2"] {
                let settings =
                    format!("[providers.openai]\nbase_url = \"http://127.0.0.1:1/v1\"\nhttp = \"{http}\"\n");
                let world = World::around(&settings, Arc::new(Lacking { code, wrapped }));
                let reply = world.post("/v1/chat/completions", chat("x")).await;
                assert_eq!(reply.status, status, "{}", reply.text());
                assert_eq!(reply.header("x-sluicegate-error"), error);
                assert_eq!(reply.header("x-should-retry"), "true");
                let retry_after = if status == 503 { "1" } else { "" };
                assert_eq!(reply.header("retry-after"), retry_after, "{}", reply.text());
                let outcome = if status == 503 { "abandoned" } else { "unreachable" };
                assert_eq!(world.outcomes(), [(outcome.to_owned(), 1)]);
            }
        }
    }
}
