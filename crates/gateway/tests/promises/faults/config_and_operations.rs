//! Going down, and what a long or a bad day leaves behind.

use sluicegate::net::life::Step;
use tokio::task::JoinSet;

use super::*;

/// A stream of twenty seconds.
fn long_stream() -> Scripted {
    let mut steps = vec![stream_head(), event(ROLE)];
    for _ in 0..20 {
        steps.extend([Do::Pause(secs(1)), event(TEXT)]);
    }
    steps.extend([event(FINISH), event(DONE), stream_end()]);
    Scripted::new(steps)
}

/// A gate with one call of twenty seconds, of which five are over.
async fn busy() -> (Arc<World>, JoinSet<Reply>) {
    let world = Arc::new(World::around("", Arc::new(long_stream())));
    let mut running = JoinSet::new();
    let there = world.clone();
    running.spawn(async move { there.post(CHAT, CHAT_CALL).await });
    tokio::time::sleep(secs(5)).await;
    (world, running)
}

#[tokio::test(start_paused = true)]
async fn k087_a_running_answer_outlives_the_stop() {
    let (world, running) = busy().await;
    assert_eq!(world.gate.ready(), Ok(()));
    world.gate.life.advance(Step::Draining);
    assert_eq!(world.gate.ready(), Err("draining"));
    let turned_away = world.post(CHAT, CHAT_CALL).await;
    assert_eq!(
        (turned_away.status.as_u16(), turned_away.header("x-sluicegate-error")),
        (503, "shutting_down")
    );
    tokio::time::timeout(secs(60), world.gate.life.empty()).await.expect("within the grace");
    let reply = running.join_all().await.remove(0);
    assert_eq!((reply.status.as_u16(), reply.broken, reply.took), (200, false, secs(20)));
    assert_eq!(reply.text(), [ROLE, &TEXT.repeat(20), FINISH, DONE].concat());
    let record = world.records.last();
    assert_eq!((record.status, record.error), (200, None), "it is booked before the gate is empty");
    assert_eq!(world.log().lines().count(), 2);
}

#[tokio::test(start_paused = true)]
async fn k087_what_the_grace_does_not_cover_ends_readably_and_is_booked() {
    let (world, running) = busy().await;
    world.gate.life.advance(Step::Draining);
    tokio::time::sleep(millis(3500)).await;
    world.gate.life.advance(Step::Cut);
    tokio::time::timeout(millis(100), world.gate.life.empty()).await.expect("at once");
    let reply = running.join_all().await.remove(0);
    let end = reply.text().split_off([ROLE, &TEXT.repeat(8)].concat().len());
    assert!(end.starts_with("data: {\"error\"") && end.contains("shutting_down"), "{end}");
    assert!(!reply.broken && !end.contains("[DONE]"));
    assert_eq!(world.records.last().error.unwrap().reason, Some("shutdown"));
}

#[tokio::test(start_paused = true)]
async fn k089_an_error_of_a_megabyte_is_one_short_line() {
    let words = "boom ".repeat(200_000);
    let json = format!(r#"{{"error":{{"message":"{words}","type":"server_error"}}}}"#);
    let small = format!(r#"{{"error":{{"message":"{}","type":"server_error"}}}}"#, &words[..200_000]);
    let frame = format!("data: {json}\n\n");
    let error = |kind: &str, said: &str| plain("500 Internal Server Error", kind, said.as_bytes());
    for (provider, said, outcome) in [
        (error(JSON, &json), &json, "failed"),
        (error(JSON, &small), &small, "failed"),
        (error("content-type: text/html\r\n", &words), &words, "failed"),
        // Too long to be looked at as one event: the stream counts as one without an end.
        (Scripted::chunked(EVENTS, &[frame.as_bytes()]), &frame, "cut"),
    ] {
        let told = told(CHAT, CHAT_CALL, provider).await;
        assert!(told.reply.body.starts_with(said.as_bytes()), "the client gets all of it");
        assert!(told.record.failed());
        assert_eq!(told.outcomes(), one(outcome));
        assert!(serde_json::to_string(&told.record).unwrap().len() < 4096);
        let log = told.world.log();
        assert_eq!(log.lines().count(), 1, "{}", &log[..log.len().min(500)]);
        assert!(log.len() < 4096, "{} bytes", log.len());
    }
}

/// What the gate still holds when nothing is going on.
#[derive(Debug, PartialEq, Eq)]
struct Held {
    /// Calls, connections and tasks hold the gate.
    holders: usize,
    series: usize,
    connections: u64,
}

#[tokio::test(start_paused = true)]
async fn k090_streams_and_failures_leave_nothing_behind() {
    let (world, mock) = World::before(mock());
    let prompt = "word ".repeat(20_000);
    let mut after = Vec::new();
    for round in 0..3 {
        mock.set_script("ok".parse().unwrap());
        for number in 0..100 {
            assert_eq!(world.post(CHAT, chat_stream(&format!("{round} {number}"))).await.status, 200);
        }
        mock.set_script("500".parse().unwrap());
        for number in 0..100 {
            let model = format!("gpt-{round}-{number}");
            let call = serde_json::json!({"model": model, "messages": [{"role": "user", "content": prompt}]});
            assert_eq!(world.post(CHAT, call.to_string()).await.status, 500);
        }
        settled(&world).await;
        after.push(Held {
            holders: Arc::strong_count(&world.gate),
            series: world.metrics.render().unwrap().lines().count(),
            connections: mock.stats().connections.open,
        });
    }
    assert_eq!(after[0], after[1]);
    assert_eq!(after[1], after[2]);
    assert_eq!((after[2].holders, after[2].connections), (1, 1), "{after:?}");
    // A record is small, whatever the call was.
    for record in world.records.all() {
        assert!(serde_json::to_string(&record).unwrap().len() < 4096);
    }
}
