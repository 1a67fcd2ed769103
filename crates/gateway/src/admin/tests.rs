use std::net::IpAddr;
use std::time::Duration;

use axum::body::{Body, Bytes, to_bytes};
use axum::extract::Request;
use axum::http::{Method, header};
use hyper::service::Service;
use hyper_util::service::TowerToHyperService;
use serde_json::Value;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio_util::sync::CancellationToken;

use super::*;

mod live;

const LOOPBACK: &str = "127.0.0.1:9090";
const EVERYWHERE: &str = "0.0.0.0:9090";

fn state(bound: &str, access: Access) -> AdminState {
    AdminState::new(bound.parse().unwrap(), access, Shown::default(), || Ok(()))
}

fn tokens() -> Access {
    Access {
        token: Some("operator-token".into()),
        viewer_token: Some("viewer-token".into()),
        hosts: vec!["gate.example".into()],
    }
}

/// The admin plane with one more route, for operators.
fn with_operator_route(state: AdminState) -> Router {
    async fn change(_: Operator, body: Bytes) -> String {
        body.len().to_string()
    }
    Routes::default().any("/change", change).get("/look", async |_: Viewer| "seen").guarded(state)
}

fn get(path: &str) -> http::request::Builder {
    Request::builder().uri(path)
}

async fn ask(router: Router, request: http::request::Builder) -> Response {
    send(router, request.body(Body::empty()).unwrap()).await
}

async fn send(router: Router, request: Request) -> Response {
    TowerToHyperService::new(router).call(request).await.unwrap()
}

async fn code(response: Response) -> (u16, String) {
    let status = response.status().as_u16();
    let body: Value =
        serde_json::from_slice(&to_bytes(response.into_body(), 1 << 20).await.unwrap()).unwrap();
    (status, body["error"]["code"].as_str().unwrap_or_default().to_owned())
}

async fn status_for_host(bound: &str, reached: Option<&str>, host: &str) -> u16 {
    let mut request = get("/healthz").header(header::HOST, host);
    if let Some(reached) = reached {
        request = request.extension(guard::Reached(reached.parse::<IpAddr>().unwrap()));
    }
    ask(router(state(bound, tokens())), request).await.status().as_u16()
}

#[tokio::test]
async fn only_names_that_nobody_else_can_claim_reach_it() {
    for host in [
        "localhost",
        "localhost:9090",
        "LOCALHOST:1",
        "localhost.",
        "app.localhost",
        "127.0.0.1",
        "127.8.9.1:9090",
        "[::1]:9090",
        "gate.example",
        "Gate.Example:443",
    ] {
        assert_eq!(status_for_host(LOOPBACK, None, host).await, 200, "{host}");
    }
    for host in [
        "evil.test",
        "evil.test:9090",
        "localhost.evil.test",
        "127.0.0.1.evil.test",
        "notlocalhost",
        "10.0.0.5",
        "user@localhost",
        "localhost@evil.test",
        "",
        "local host",
        "gate.example.evil.test",
    ] {
        assert_eq!(status_for_host(LOOPBACK, None, host).await, 421, "{host}");
    }
}

#[tokio::test]
async fn the_address_that_was_reached_is_a_good_name() {
    assert_eq!(status_for_host("10.0.0.5:9090", None, "10.0.0.5:9090").await, 200);
    assert_eq!(status_for_host(EVERYWHERE, Some("10.0.0.5"), "10.0.0.5:9090").await, 200);
    assert_eq!(status_for_host("[::]:9090", Some("::ffff:10.0.0.5"), "10.0.0.5:9090").await, 200);
    assert_eq!(status_for_host(EVERYWHERE, Some("10.0.0.5"), "10.0.0.6:9090").await, 421);
}

#[tokio::test]
async fn a_request_without_one_clear_host_is_misdirected() {
    let plane = || router(state(LOOPBACK, Access::default()));
    assert_eq!(ask(plane(), get("/healthz")).await.status(), 421);
    let twice = get("/healthz").header(header::HOST, "localhost").header(header::HOST, "localhost");
    assert_eq!(ask(plane(), twice).await.status(), 421);
    let torn = get("http://evil.test/healthz").header(header::HOST, "localhost");
    assert_eq!(ask(plane(), torn).await.status(), 421);
    let absolute = get("http://localhost/healthz").header(header::HOST, "localhost");
    assert_eq!(ask(plane(), absolute).await.status(), 200);
}

#[tokio::test]
async fn only_its_own_pages_may_call_it() {
    let status = async |host: &str, origin: &str| {
        let request = get("/metrics").header(header::HOST, host).header(header::ORIGIN, origin);
        let access = Access { hosts: vec!["gate.example".into()], ..Access::default() };
        ask(router(state(LOOPBACK, access)), request).await.status().as_u16()
    };
    for (host, origin) in [
        ("localhost:9090", "http://localhost:9090"),
        ("LocalHost:9090", "http://localhost:9090"),
        ("gate.example", "https://gate.example"),
        ("gate.example:443", "https://gate.example"),
        ("[::1]:9090", "http://[::1]:9090"),
    ] {
        assert_eq!(status(host, origin).await, 200, "{host} {origin}");
    }
    for (host, origin) in [
        ("localhost:9090", "http://localhost:3000"),
        ("localhost:9090", "http://127.0.0.1:9090"),
        ("localhost:9090", "http://evil.test"),
        ("localhost:9090", "http://localhost:9090.evil.test"),
        ("localhost:9090", "http://localhost:9090@evil.test"),
        ("localhost:9090", "null"),
        ("localhost:9090", ""),
        ("localhost:9090", "file://localhost:9090"),
        ("localhost:9090", "localhost:9090"),
    ] {
        assert_eq!(status(host, origin).await, 403, "{host} {origin}");
    }
    let both = get("/metrics")
        .header(header::HOST, "localhost")
        .header(header::ORIGIN, "http://localhost")
        .header(header::ORIGIN, "http://evil.test");
    assert_eq!(ask(router(state(LOOPBACK, Access::default())), both).await.status(), 403);
}

#[tokio::test]
async fn the_matrix_of_host_origin_token_and_role() {
    let hosts = [("localhost:9090", true), ("evil.test", false)];
    let origins = [(None, true), (Some("http://localhost:9090"), true), (Some("http://evil.test"), false)];
    // What is presented, and whether it may look and change.
    let tokens_presented = [
        (None, false, false),
        (Some("Bearer viewer-token"), true, false),
        (Some("Bearer operator-token"), true, true),
        (Some("bearer operator-token"), true, true),
        (Some("Bearer operator-tokem"), false, false),
        (Some("Bearer operator-token2"), false, false),
        (Some("Bearer "), false, false),
        (Some("Basic operator-token"), false, false),
    ];
    for (host, good_host) in hosts {
        for (origin, good_origin) in origins {
            for (token, looks, changes) in tokens_presented {
                for path in ["/look", "/change"] {
                    let mut request = get(path).header(header::HOST, host);
                    request =
                        origin.into_iter().fold(request, |request, it| request.header(header::ORIGIN, it));
                    request = token
                        .into_iter()
                        .fold(request, |request, it| request.header(header::AUTHORIZATION, it));
                    let allowed = if path == "/look" { looks } else { changes };
                    let expected = match () {
                        () if !good_host => 421,
                        () if !good_origin => 403,
                        () if !looks => 401,
                        () if !allowed => 403,
                        () => 200,
                    };
                    for bound in [LOOPBACK, EVERYWHERE] {
                        let plane = with_operator_route(state(bound, tokens()));
                        let got = ask(plane, request_clone(&request)).await.status().as_u16();
                        assert_eq!(got, expected, "{bound} {host} {origin:?} {token:?} {path}");
                    }
                }
            }
        }
    }
}

fn request_clone(request: &http::request::Builder) -> http::request::Builder {
    let mut copy = get("/").uri(request.uri_ref().unwrap().clone());
    *copy.headers_mut().unwrap() = request.headers_ref().unwrap().clone();
    copy
}

async fn status_without_token(bound: &str, access: Access, path: &str) -> u16 {
    let request = get(path).header(header::HOST, "localhost");
    ask(with_operator_route(state(bound, access)), request).await.status().as_u16()
}

#[tokio::test]
async fn on_loopback_a_token_is_needed_only_where_one_is_configured() {
    assert_eq!(status_without_token(LOOPBACK, Access::default(), "/change").await, 200);
    assert_eq!(status_without_token("[::1]:9090", Access::default(), "/change").await, 200);
    let viewer_only = Access { viewer_token: Some("viewer-token".into()), ..Access::default() };
    assert_eq!(status_without_token(LOOPBACK, viewer_only, "/change").await, 401);
}

#[tokio::test]
async fn elsewhere_nothing_is_open_without_a_token() {
    assert_eq!(status_without_token(EVERYWHERE, Access::default(), "/look").await, 401);
    assert_eq!(status_without_token("10.0.0.5:9090", Access::default(), "/look").await, 401);
    let empty = || Access { token: Some("".into()), viewer_token: Some("".into()), ..Access::default() };
    assert_eq!(status_without_token(EVERYWHERE, empty(), "/look").await, 401);
    let request = get("/look").header(header::HOST, "localhost").header(header::AUTHORIZATION, "Bearer ");
    assert_eq!(ask(with_operator_route(state(EVERYWHERE, empty())), request).await.status(), 401);
}

#[tokio::test]
async fn a_missing_token_is_asked_for_and_never_shown() {
    let request = get("/metrics").header(header::HOST, "localhost");
    let response = ask(router(state(EVERYWHERE, tokens())), request).await;
    assert!(response.headers()[header::WWW_AUTHENTICATE].to_str().unwrap().starts_with("Bearer"));
    assert_eq!(code(response).await, (401, "invalid_token".into()));
    assert!(!format!("{:?}", state(EVERYWHERE, tokens())).contains("operator-token"));
}

#[tokio::test]
async fn tokens_and_names_change_with_the_configuration() {
    let state = state(LOOPBACK, Access::default());
    let plane = router(state.clone());
    let metrics = || get("/metrics").header(header::HOST, "localhost");
    assert_eq!(ask(plane.clone(), metrics()).await.status(), 200);
    state.set_access(tokens());
    assert_eq!(ask(plane, metrics()).await.status(), 401);
}

#[tokio::test]
async fn probes_need_no_token_and_tell_whether_calls_are_welcome() {
    let draining =
        AdminState::new(EVERYWHERE.parse().unwrap(), tokens(), Shown::default(), || Err("draining"));
    let probe = |path: &str| get(path).header(header::HOST, "127.0.0.1:9090");
    assert_eq!(ask(router(draining.clone()), probe("/healthz")).await.status(), 200);
    let response = ask(router(draining), probe("/readyz")).await;
    assert_eq!(response.status(), 503);
    let body = to_bytes(response.into_body(), 1 << 10).await.unwrap();
    assert_eq!(body, r#"{"status":"not ready","reason":"draining"}"#);
    assert_eq!(ask(router(state(EVERYWHERE, tokens())), probe("/readyz")).await.status(), 200);
}

#[tokio::test]
async fn metrics_are_openmetrics() {
    let request = get("/metrics").header(header::HOST, "localhost");
    let response = ask(router(state(LOOPBACK, Access::default())), request).await;
    assert!(
        response.headers()[header::CONTENT_TYPE]
            .to_str()
            .unwrap()
            .starts_with("application/openmetrics-text")
    );
    let page = to_bytes(response.into_body(), 1 << 20).await.unwrap();
    assert!(page.ends_with(b"# EOF\n"));
}

#[tokio::test]
async fn what_comes_later_says_so_after_authentication() {
    for path in ["/", "/api", "/api/calls", "/api/openapi.json?x=1"] {
        let request = || get(path).header(header::HOST, "localhost");
        assert_eq!(ask(router(state(EVERYWHERE, tokens())), request()).await.status(), 401, "{path}");
        let request = request().header(header::AUTHORIZATION, "Bearer viewer-token");
        let response = ask(router(state(EVERYWHERE, tokens())), request).await;
        assert_eq!(code(response).await, (501, "not_built_yet".into()), "{path}");
    }
}

#[tokio::test]
async fn unknown_paths_and_methods_are_refused_in_json() {
    let plane = || router(state(LOOPBACK, Access::default()));
    for path in ["/nothing", "/v1/chat/completions", "/healthz/", "//healthz", "/%2e%2e/metrics"] {
        let response = ask(plane(), get(path).header(header::HOST, "localhost")).await;
        assert_eq!(code(response).await, (404, "not_found".into()), "{path}");
    }
    let post = get("/metrics").method(Method::POST).header(header::HOST, "localhost");
    assert_eq!(code(ask(plane(), post).await).await, (405, "method_not_allowed".into()));
}

#[tokio::test]
async fn every_answer_bears_the_security_headers() {
    for (host, path) in [("localhost", "/healthz"), ("localhost", "/nothing"), ("evil.test", "/metrics")] {
        let plane = router(state(LOOPBACK, Access::default()));
        let response = ask(plane, get(path).header(header::HOST, host)).await;
        let headers = response.headers();
        assert_eq!(headers[header::X_CONTENT_TYPE_OPTIONS], "nosniff");
        assert_eq!(headers[header::CACHE_CONTROL], "no-store");
        let policy = headers[header::CONTENT_SECURITY_POLICY].to_str().unwrap();
        assert!(policy.contains("default-src 'none'") && policy.contains("frame-ancestors 'none'"));
    }
}

#[tokio::test]
async fn a_large_body_is_refused() {
    let request = |length| get("/change").header(header::HOST, "localhost").body(Body::from(vec![0; length]));
    let plane = || with_operator_route(state(LOOPBACK, Access::default()));
    assert_eq!(send(plane(), request(1 << 20).unwrap()).await.status(), 200);
    assert_eq!(send(plane(), request((1 << 20) + 1).unwrap()).await.status(), 413);
}

#[tokio::test(start_paused = true)]
async fn a_body_that_never_ends_is_given_up() {
    let endless = Body::from_stream(futures_util::stream::pending::<Result<Bytes, std::io::Error>>());
    let request = get("/change").header(header::HOST, "localhost").body(endless).unwrap();
    let response = send(with_operator_route(state(LOOPBACK, Access::default())), request).await;
    assert_eq!(response.status(), 503);
}

/// Serves on a port of the system's choice; cancel the token to stop.
async fn listening() -> (std::net::SocketAddr, CancellationToken, tokio::task::JoinSet<()>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let shutdown = CancellationToken::new();
    let mut server = tokio::task::JoinSet::new();
    server.spawn(serve(listener, state(&address.to_string(), Access::default()), shutdown.clone()));
    (address, shutdown, server)
}

async fn talk(address: std::net::SocketAddr, text: &str) -> String {
    let mut stream = TcpStream::connect(address).await.unwrap();
    stream.write_all(text.as_bytes()).await.unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.unwrap();
    answer
}

#[tokio::test]
async fn it_serves_on_a_socket_until_told_to_stop() {
    let (address, shutdown, mut server) = listening().await;
    let answer = talk(address, &format!("GET /readyz HTTP/1.1\r\nhost: {address}\r\n\r\n")).await;
    assert!(answer.starts_with("HTTP/1.1 200 OK\r\n"), "{answer}");
    let answer = talk(address, "GET /readyz HTTP/1.1\r\nhost: evil.test\r\n\r\n").await;
    assert!(answer.starts_with("HTTP/1.1 421 "), "{answer}");

    // One that says nothing does not delay the end.
    let _silent = TcpStream::connect(address).await.unwrap();
    shutdown.cancel();
    tokio::time::timeout(Duration::from_secs(10), server.join_next()).await.unwrap().unwrap().unwrap();
    assert!(TcpStream::connect(address).await.is_err());
}

#[tokio::test]
async fn a_connection_serves_one_request() {
    let (address, _shutdown, _server) = listening().await;
    let twice = "GET /healthz HTTP/1.1\r\nhost: localhost\r\n\r\n".repeat(2);
    let answer = talk(address, &twice).await;
    assert_eq!(answer.matches("HTTP/1.1 200 OK").count(), 1, "{answer}");
}
