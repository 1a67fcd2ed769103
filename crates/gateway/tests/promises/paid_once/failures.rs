//! A failure is told to everybody aboard, asked for once, and kept for nobody.

use super::*;

const CALLERS: usize = 100;

/// All of one kind, streaming and plain ones in turn where `mixed`.
fn requests(stream: bool) -> Vec<Request<Full<Bytes>>> {
    (0..CALLERS).map(|_| if stream { CHAT.stream() } else { CHAT.plain() }).collect()
}

struct Failed {
    world: Arc<World>,
    mock: Arc<Mock>,
    replies: Vec<Reply>,
}

/// One flight that fails as the script says, and then a provider that is well.
async fn failed(mode: &str, stream: bool) -> Failed {
    let options = Options { script: format!("{mode} 1x; ok").parse().unwrap(), ..unhurried() };
    let (world, mock) = World::before(options);
    let world = Arc::new(world);
    let replies = at_once(&world, requests(stream)).await;
    assert_eq!(mock.stats().arrived, 1, "{mode}");
    Failed { world, mock, replies }
}

impl Failed {
    /// The next one asks anew and gets its answer.
    async fn and_then_well(self) {
        assert_idle(&self.world).await;
        assert_eq!(self.world.gate.shared().kept_bytes, 0, "nothing is kept");
        let next = self.world.ask(CHAT.plain()).await;
        assert_eq!((next.status.as_u16(), next.header("x-sluicegate-cache")), (200, "miss"));
        assert_eq!(self.mock.stats().arrived, 2);
        assert_eq!(said(&next), said(&from_provider(CHAT.plain()).await));
    }
}

#[tokio::test(start_paused = true)]
async fn a_status_is_everybodys() {
    for (mode, status) in [("500", 500), ("429(retry-after=7)", 429), ("400", 400), ("529", 529)] {
        for stream in [false, true] {
            let failed = failed(mode, stream).await;
            for reply in &failed.replies {
                assert_eq!(reply.status.as_u16(), status);
                assert_eq!(reply.text(), failed.replies[0].text());
                let wait = if status == 429 { "7" } else { "" };
                assert_eq!(reply.header("retry-after"), wait, "{:?}", reply.headers);
            }
            assert_eq!((count(&failed.replies, "miss"), count(&failed.replies, "joined")), (1, CALLERS - 1));
            failed.and_then_well().await;
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_connection_that_breaks_before_an_answer() {
    for stream in [false, true] {
        let failed = failed("reset", stream).await;
        for reply in &failed.replies {
            assert_eq!((reply.status.as_u16(), reply.header("x-sluicegate-error")), (502, "upstream_error"));
        }
        for record in failed.world.records.all() {
            assert_eq!(record.attempts, 1);
        }
        failed.and_then_well().await;
    }
}

/// A provider that nobody can connect to, and then one that is there.
struct Refusing {
    refusals: std::sync::atomic::AtomicUsize,
    behind: Arc<Mock>,
}

impl Provider for Refusing {
    fn connect(&self) -> std::io::Result<tokio::io::DuplexStream> {
        use std::sync::atomic::Ordering::Relaxed;
        match self.refusals.fetch_update(Relaxed, Relaxed, |left| left.checked_sub(1)) {
            Ok(_) => Err(std::io::ErrorKind::ConnectionRefused.into()),
            Err(_) => Provider::connect(&*self.behind),
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_connection_that_is_refused() {
    for stream in [false, true] {
        let mock = Arc::new(Mock::in_memory(unhurried()));
        let provider = Arc::new(Refusing { refusals: 1.into(), behind: mock.clone() });
        let world = Arc::new(World::around("", provider.clone()));
        // A refusal comes at once: only who is aboard by then can share it. The others ask for themselves.
        let replies = at_once(&world, requests(stream)).await;
        let refused = replies.iter().filter(|reply| reply.status == 502).count();
        assert!(refused >= 1);
        assert_eq!(replies.iter().filter(|reply| reply.status == 200).count(), CALLERS - refused);
        assert_eq!(world.dialled.lock().len() as u64, 1 + mock.stats().arrived);
        assert!(mock.stats().arrived <= 1);
        assert_idle(&world).await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_stream_that_is_cut_is_whole_for_nobody() {
    let failed = failed("cut", true).await;
    for reply in &failed.replies {
        assert_eq!((reply.status.as_u16(), reply.broken), (200, false));
        assert!(!reply.text().contains("[DONE]"), "{}", reply.text());
        let last = reply.text().trim_end().rsplit("data: ").next().unwrap().to_owned();
        let error: Value = serde_json::from_str(&last).unwrap();
        assert_eq!(error["error"]["code"], "upstream_error");
        assert!(!said(reply).is_empty() && said(reply) == said(&failed.replies[0]));
    }
    failed.and_then_well().await;
}

#[tokio::test(start_paused = true)]
async fn a_plain_answer_that_is_cut_is_an_error() {
    let failed = failed("cut", false).await;
    for reply in &failed.replies {
        assert!(reply.broken || reply.status == 502, "{}: {}", reply.status, reply.text());
    }
    failed.and_then_well().await;
}

/// The provider's own error in a stream reaches streaming callers as it was said, and plain ones as an error.
#[tokio::test(start_paused = true)]
async fn an_error_in_a_stream_is_told_in_every_form() {
    for mode in ["error", "cut"] {
        let options = Options { script: format!("{mode} 1x; ok").parse().unwrap(), ..unhurried() };
        let (world, mock) = World::before(options);
        let world = Arc::new(world);
        let leader = boarded(&world, CHAT.stream()).await;
        let plain = at_once(&world, requests(false)).await;
        let leader = leader.await.unwrap();
        assert!(leader.text().contains("\"error\":{"), "{}", leader.text());
        for reply in &plain {
            assert_eq!((reply.status.as_u16(), reply.header("x-sluicegate-error")), (502, "upstream_error"));
        }
        let failed = Failed { world, mock, replies: plain };
        failed.and_then_well().await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_hundred_streams_get_the_same_error_event() {
    let failed = failed("error", true).await;
    assert_all_equal(&failed.replies);
    assert_eq!(failed.replies[0].text().matches("\"error\":{").count(), 1);
    failed.and_then_well().await;
}

/// The provider is silent for too long: that is the flight's own limit, and everybody's.
#[tokio::test(start_paused = true)]
async fn silence_ends_for_everybody_at_once() {
    let options = Options { script: "hang! 1x; ok".parse().unwrap(), ..unhurried() };
    let (world, mock) = World::with("[timeouts]\nfirst_byte = \"5s\"\n", options);
    let world = Arc::new(world);
    let leader = boarded(&world, CHAT.plain()).await;
    tokio::time::sleep(secs(3)).await;
    let late = at_once(&world, requests(false)).await;
    let leader = leader.await.unwrap();
    assert_eq!((leader.status.as_u16(), leader.header("x-sluicegate-error")), (504, "upstream_timeout"));
    for reply in &late {
        assert_eq!(reply.header("x-sluicegate-error"), "upstream_timeout");
        assert!(reply.took <= millis(2100), "{:?}", reply.took);
    }
    Failed { world, mock, replies: late }.and_then_well().await;
}
