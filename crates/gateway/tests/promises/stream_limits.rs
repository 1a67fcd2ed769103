//! HTTP/2 providers with few streams a connection: no call fails, and none waits for another.

use std::collections::HashSet;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use bytes::Bytes;
use http::Response;
use parking_lot::Mutex;
use sim::mock::{Mock, Options};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWriteExt, DuplexStream};
use tokio::task::JoinSet;

use crate::world::*;

const H2: &str = "[providers.openai]\nbase_url = \"http://127.0.0.1:1/v1\"\nhttp = \"2\"\n";
const LATENCY: Duration = millis(300);

fn mock_with(streams: u32) -> Options {
    Options { h2_max_streams: streams, ..mock_after(LATENCY) }
}

/// Sends `calls` at once; all must be answered within `time`.
async fn at_once(world: &Arc<World>, calls: usize, time: Duration) {
    let mut running = JoinSet::new();
    // No two are equal, in no rush either.
    static COUNT: AtomicUsize = AtomicUsize::new(0);
    for _ in 0..calls {
        let (world, number) = (world.clone(), COUNT.fetch_add(1, Ordering::Relaxed));
        running.spawn(
            async move { world.post("/v1/chat/completions", chat(&format!("number {number}"))).await },
        );
    }
    for reply in running.join_all().await {
        assert_eq!(reply.status, 200, "{}", reply.text());
        assert_eq!(reply.header("x-sluicegate-attempts"), "1");
        assert!(reply.took <= time, "{:?}", reply.took);
    }
}

#[tokio::test(start_paused = true)]
async fn whatever_the_limit_no_call_fails_or_waits() {
    for limit in [1, 10, 32, 50, 100] {
        let (world, mock) = World::with(H2, mock_with(limit));
        let world = Arc::new(world);
        at_once(&world, 500, millis(450)).await;
        let opened = mock.stats().connections.opened;
        at_once(&world, 100, millis(450)).await;
        assert_eq!(mock.stats().most_in_flight, 500, "limit {limit}");
        let needed = 500_u64.div_ceil(u64::from(limit.min(80)));
        assert!(opened <= needed + 10, "limit {limit}: {opened} connections");
        assert!(mock.stats().connections.opened <= opened + 2, "limit {limit}: the same ones serve again");
        assert_eq!(world.outcomes(), [("ok".to_owned(), 600)], "limit {limit}");
    }
}

#[tokio::test(start_paused = true)]
async fn the_cap_holds_whatever_the_limit() {
    for limit in [1, 10] {
        let settings = format!("concurrency = 64\n{H2}");
        let (world, mock) = World::with(&settings, mock_with(limit));
        at_once(&Arc::new(world), 300, secs(3)).await;
        assert_eq!(mock.stats().most_in_flight, 64, "limit {limit}");
    }
}

#[tokio::test(start_paused = true)]
async fn connections_of_a_rush_do_not_stay_for_ever() {
    let (world, mock) = World::with(H2, mock_with(10));
    let world = Arc::new(world);
    at_once(&world, 100, millis(450)).await;
    assert_eq!(mock.stats().connections.open, 10);
    tokio::time::sleep(secs(51)).await;
    at_once(&world, 1, millis(450)).await;
    tokio::time::sleep(secs(1)).await;
    assert_eq!(mock.stats().connections.open, 1);
}

/// A provider whose SETTINGS are late: it does not look at a new connection for a while.
struct Late {
    mock: Arc<Mock>,
    by: Duration,
    tasks: Mutex<JoinSet<()>>,
}

impl Provider for Late {
    fn connect(&self) -> io::Result<DuplexStream> {
        let (ours, theirs) = tokio::io::duplex(1 << 20);
        let (mock, by) = (self.mock.clone(), self.by);
        self.tasks.lock().spawn(async move {
            tokio::time::sleep(by).await;
            mock.serve_stream(theirs);
        });
        Ok(ours)
    }
}

#[tokio::test(start_paused = true)]
async fn late_settings_make_nobody_fail() {
    for (limit, by) in [(1, 50), (10, 90), (1, 3000), (10, 3000), (100, 10_000)] {
        let mock = Arc::new(Mock::in_memory(mock_with(limit)));
        let late = Late { mock: mock.clone(), by: millis(by), tasks: Mutex::default() };
        let world = Arc::new(World::around(H2, Arc::new(late)));
        // What comes on connections of a second round is late twice.
        let second = if by < 100 { by } else { 100 };
        at_once(&world, 500, millis(by + second + 450)).await;
        assert_eq!(world.outcomes(), [("ok".to_owned(), 500)], "limit {limit}, late by {by} ms");
    }
}

/// A provider behind a front that watches the frames of each connection.
struct Front {
    mock: Arc<Mock>,
    rule: Rule,
    /// How many connections it said GOAWAY on.
    goaways: Arc<AtomicUsize>,
    tasks: Mutex<JoinSet<()>>,
}

#[derive(Clone, Copy)]
enum Rule {
    /// One stream too many at once and all are lost.
    CloseAbove(usize),
    /// A connection carries so many calls in its life; what comes after its GOAWAY with this code is not seen.
    Carry(usize, u32),
}

impl Front {
    fn before(mock: Options, rule: Rule) -> Front {
        Front {
            mock: Arc::new(Mock::in_memory(mock)),
            rule,
            goaways: Arc::default(),
            tasks: Mutex::default(),
        }
    }
}

impl Provider for Front {
    fn connect(&self) -> io::Result<DuplexStream> {
        let (ours, theirs) = tokio::io::duplex(1 << 20);
        let (server, rule, goaways) = (self.mock.connect(), self.rule, self.goaways.clone());
        self.tasks.lock().spawn(async move {
            let _closed = relay(theirs, server, rule, &goaways).await;
        });
        Ok(ours)
    }
}

const DATA: u8 = 0;
const HEADERS: u8 = 1;
const RST_STREAM: u8 = 3;
const END_STREAM: u8 = 1;
const ENHANCE_YOUR_CALM: u32 = 0xb;
const PROTOCOL_ERROR: u32 = 0x1;

struct Frame {
    kind: u8,
    flags: u8,
    stream: u32,
    bytes: Vec<u8>,
}

async fn read_frame(io: &mut (impl AsyncRead + Unpin)) -> io::Result<Frame> {
    let mut bytes = vec![0; 9];
    io.read_exact(&mut bytes).await?;
    let size = u32::from_be_bytes([0, bytes[0], bytes[1], bytes[2]]) as usize;
    let stream = u32::from_be_bytes([bytes[5], bytes[6], bytes[7], bytes[8]]);
    bytes.resize(9 + size, 0);
    io.read_exact(&mut bytes[9..]).await?;
    Ok(Frame { kind: bytes[3], flags: bytes[4], stream, bytes })
}

fn goaway(last: u32, code: u32) -> Vec<u8> {
    let mut frame = vec![0, 0, 8, 7, 0, 0, 0, 0, 0];
    frame.extend(last.to_be_bytes());
    frame.extend(code.to_be_bytes());
    frame
}

async fn relay(
    client: DuplexStream,
    server: DuplexStream,
    rule: Rule,
    goaways: &AtomicUsize,
) -> io::Result<()> {
    let (mut from_client, to_client) = tokio::io::split(client);
    let (mut from_server, mut to_server) = tokio::io::split(server);
    let to_client = tokio::sync::Mutex::new(to_client);
    let open = Mutex::new(HashSet::new());
    let up = async {
        let mut preface = [0; 24];
        from_client.read_exact(&mut preface).await?;
        to_server.write_all(&preface).await?;
        let (mut calls, mut last) = (0, u32::MAX >> 1);
        loop {
            let frame = read_frame(&mut from_client).await?;
            if frame.kind == HEADERS && frame.stream <= last {
                calls += 1;
                open.lock().insert(frame.stream);
                let at_once = open.lock().len();
                match rule {
                    Rule::CloseAbove(most) if at_once > most => {
                        goaways.fetch_add(1, Ordering::Relaxed);
                        let words = goaway(frame.stream, ENHANCE_YOUR_CALM);
                        return to_client.lock().await.write_all(&words).await;
                    }
                    Rule::Carry(most, code) if calls == most => {
                        goaways.fetch_add(1, Ordering::Relaxed);
                        last = frame.stream;
                        to_client.lock().await.write_all(&goaway(last, code)).await?;
                    }
                    _ => {}
                }
            }
            if frame.kind == RST_STREAM {
                open.lock().remove(&frame.stream);
            }
            if frame.stream <= last {
                to_server.write_all(&frame.bytes).await?;
            }
        }
    };
    let down = async {
        loop {
            let frame = read_frame(&mut from_server).await?;
            let ends = matches!(frame.kind, DATA | HEADERS) && frame.flags & END_STREAM != 0;
            if ends || frame.kind == RST_STREAM {
                open.lock().remove(&frame.stream);
            }
            to_client.lock().await.write_all(&frame.bytes).await?;
        }
    };
    tokio::select! { ended = up => ended, ended = down => ended }
}

#[tokio::test(start_paused = true)]
async fn a_provider_that_closes_on_excess_has_nothing_to_close_for() {
    for limit in [1, 10, 32] {
        let front = Arc::new(Front::before(mock_with(limit), Rule::CloseAbove(limit as usize)));
        let world = Arc::new(World::around(H2, front.clone()));
        at_once(&world, 500, millis(450)).await;
        at_once(&world, 100, millis(450)).await;
        assert_eq!(front.goaways.load(Ordering::Relaxed), 0, "limit {limit}");
    }
}

#[tokio::test(start_paused = true)]
async fn what_a_goaway_leaves_unseen_goes_elsewhere() {
    for code in [0, ENHANCE_YOUR_CALM, PROTOCOL_ERROR] {
        for most in [1, 10] {
            let front = Arc::new(Front::before(mock_with(100), Rule::Carry(most, code)));
            let world = Arc::new(World::around(H2, front.clone()));
            for _ in 0..3 {
                at_once(&world, 100, millis(450)).await;
            }
            assert!(front.goaways.load(Ordering::Relaxed) > 0);
            // Nobody asked twice.
            assert_eq!(front.mock.stats().arrived, 300, "code {code}, {most} calls a connection");
            assert_eq!(world.outcomes(), [("ok".to_owned(), 300)]);
        }
    }
}

/// A provider that says nothing of a limit and refuses what is above it.
struct Refusing {
    most: usize,
    refused: Arc<AtomicUsize>,
    tasks: Mutex<JoinSet<()>>,
}

impl Refusing {
    fn above(most: usize) -> Arc<Refusing> {
        Arc::new(Refusing { most, refused: Arc::default(), tasks: Mutex::default() })
    }
}

impl Provider for Refusing {
    fn connect(&self) -> io::Result<DuplexStream> {
        let (ours, theirs) = tokio::io::duplex(1 << 20);
        let (most, refused) = (self.most, self.refused.clone());
        self.tasks.lock().spawn(async move {
            let mut connection = h2::server::handshake(theirs).await.expect("a handshake");
            let open = Arc::new(AtomicUsize::new(0));
            let mut calls = JoinSet::new();
            while let Some(Ok((_, mut respond))) = connection.accept().await {
                if open.load(Ordering::Relaxed) >= most {
                    refused.fetch_add(1, Ordering::Relaxed);
                    respond.send_reset(h2::Reason::REFUSED_STREAM);
                    continue;
                }
                open.fetch_add(1, Ordering::Relaxed);
                let open = open.clone();
                calls.spawn(async move {
                    tokio::time::sleep(LATENCY).await;
                    open.fetch_sub(1, Ordering::Relaxed);
                    let head = Response::builder().header("content-type", "application/json").body(());
                    if let Ok(mut body) = respond.send_response(head.expect("a head"), false) {
                        let _gone = body.send_data(Bytes::from_static(b"{}"), true);
                    }
                });
            }
        });
        Ok(ours)
    }
}

#[tokio::test(start_paused = true)]
async fn a_refused_stream_is_no_failure() {
    for most in [1, 10, 50] {
        let provider = Refusing::above(most);
        let world = Arc::new(World::around(H2, provider.clone()));
        at_once(&world, 500, millis(450)).await;
        assert!(provider.refused.load(Ordering::Relaxed) > 0);
        assert_eq!(world.outcomes(), [("ok".to_owned(), 500)], "above {most}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_provider_that_refuses_all_is_asked_a_few_times_only() {
    let provider = Refusing::above(0);
    let world = World::around(H2, provider.clone());
    let reply = world.post("/v1/chat/completions", chat("hi")).await;
    assert_eq!((reply.status.as_u16(), reply.header("x-sluicegate-error")), (502, "upstream_error"));
    assert_eq!(provider.refused.load(Ordering::Relaxed), 5);
}
