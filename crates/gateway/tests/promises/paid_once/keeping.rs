//! A whole answer is kept for five minutes, and serves in either form.

use super::*;

/// The mock's answers come at once, so that ages are whole seconds.
fn world() -> (World, Arc<Mock>) {
    World::before(mock())
}

#[tokio::test(start_paused = true)]
async fn it_is_there_for_299_seconds_and_gone_after_301() {
    let (world, mock) = world();
    let first = world.ask(CHAT.plain()).await;
    assert_eq!(first.header("x-sluicegate-cache"), "miss");
    assert_eq!(first.header("cache-status"), "sluicegate; fwd=miss; stored");
    assert_eq!(first.header("age"), "");
    tokio::time::sleep(secs(299)).await;
    let hit = world.ask(CHAT.plain()).await;
    assert_eq!((hit.header("x-sluicegate-cache"), hit.header("age")), ("hit", "299"));
    assert_eq!(hit.header("cache-status"), "sluicegate; hit; ttl=1");
    assert_eq!((hit.text(), hit.header("content-type")), (first.text(), first.header("content-type")));
    assert_eq!(hit.header("x-sluicegate-attempts"), "0");
    assert_eq!(mock.stats().arrived, 1);
    tokio::time::sleep(secs(2)).await;
    let anew = world.ask(CHAT.plain()).await;
    assert_eq!((anew.header("x-sluicegate-cache"), mock.stats().arrived), ("miss", 2));
}

#[tokio::test(start_paused = true)]
async fn a_hit_costs_its_caller_no_time_and_the_provider_nothing() {
    let (world, mock) = World::before(unhurried());
    world.ask(CHAT.stream()).await;
    for request in [CHAT.stream(), CHAT.plain()] {
        let hit = world.ask(request).await;
        assert_eq!((hit.header("x-sluicegate-cache"), hit.took), ("hit", std::time::Duration::ZERO));
    }
    assert_eq!(mock.stats().arrived, 1);
}

#[tokio::test(start_paused = true)]
async fn each_fate_is_told() {
    let (world, _mock) = World::before(unhurried());
    let world = Arc::new(world);
    let stream = boarded(&world, CHAT.stream()).await;
    let joined = call(&world, CHAT.stream());
    let bypass = world.ask(cache_control(CHAT.stream(), "no-store")).await;
    let told = |reply: &Reply| {
        (reply.header("x-sluicegate-cache").to_owned(), reply.header("cache-status").to_owned())
    };
    let [stream, joined] = [stream.await.unwrap(), joined.await.unwrap()];
    let hit = world.ask(CHAT.stream()).await;
    let pair = |fate: &str, status: &str| (fate.to_owned(), status.to_owned());
    // A stream's head goes out before it is known whether its answer can be kept.
    assert_eq!(told(&stream), pair("miss", "sluicegate; fwd=miss"));
    assert_eq!(told(&joined), pair("joined", "sluicegate; fwd=miss; collapsed"));
    assert_eq!(told(&bypass), pair("bypass", "sluicegate; fwd=bypass"));
    // The last word came 700 ms after the first one, and was there by then.
    assert_eq!(told(&hit), pair("hit", "sluicegate; hit; ttl=300"));
    assert_eq!(hit.header("age"), "0");
    for reply in [&stream, &joined, &hit] {
        assert_eq!(reply.header("x-sluicegate-provider"), "openai");
        assert_eq!(reply.header("x-sluicegate-model"), "gpt-4o-mini");
    }
}

/// Whatever form it was kept in, a hit means what the provider would have said in the form that is asked for.
#[tokio::test(start_paused = true)]
async fn a_hit_in_the_other_form_means_the_same() {
    for kind in Kind::with_streams() {
        for kept_as_stream in [false, true] {
            let (world, mock) = world();
            let first = world.ask(if kept_as_stream { kind.stream() } else { kind.plain() }).await;
            assert_eq!(first.status, 200, "{}", first.text());
            let hits = [
                world.ask(kind.plain()).await,
                world.ask(kind.stream()).await,
                world
                    .ask(if kind.path.ends_with("completions") {
                        kind.stream_with_usage()
                    } else {
                        kind.stream()
                    })
                    .await,
            ];
            assert_eq!(fates(&hits), ["hit"; 3], "{}, kept as a stream: {kept_as_stream}", kind.path);
            assert_eq!(mock.stats().arrived, 1);
            let provided = from_provider(kind.plain()).await;
            assert_eq!(hits[0].header("content-type"), "application/json");
            assert_eq!(meaning(&hits[0]), meaning(&provided), "{}", kind.path);
            for hit in &hits[1..] {
                assert!(hit.header("content-type").starts_with("text/event-stream"));
                assert_eq!(said(hit), said(&provided), "{}", kind.path);
                // Ends as the provider's own stream does, and every event is a kind of event that it has.
                let own = from_provider(kind.stream()).await;
                assert_eq!(
                    hit.text().lines().rev().find(|line| !line.is_empty()).map(ending),
                    own.text().lines().rev().find(|line| !line.is_empty()).map(ending)
                );
            }
            assert_eq!(
                [tells_usage(&hits[1]), tells_usage(&hits[2])],
                [false, kind.path.ends_with("completions")]
            );
        }
    }
}

/// What a stream's last line says first.
fn ending(line: &str) -> String {
    let data = line.strip_prefix("data: ").unwrap_or(line);
    match serde_json::from_str::<Value>(data) {
        Ok(event) => event["type"].as_str().unwrap_or("chunk").to_owned(),
        Err(_) => data.to_owned(),
    }
}

#[tokio::test(start_paused = true)]
async fn embeddings_are_kept() {
    let (world, mock) = world();
    let [first, hit] = [world.ask(KINDS[4].plain()).await, world.ask(KINDS[4].plain()).await];
    assert_eq!((hit.header("x-sluicegate-cache"), hit.text()), ("hit", first.text()));
    assert_eq!(mock.stats().arrived, 1);
}

#[tokio::test(start_paused = true)]
async fn as_long_as_was_configured() {
    let (world, mock) = World::with("[cache]\nttl = \"10s\"\n", mock());
    world.ask(CHAT.plain()).await;
    tokio::time::sleep(secs(9)).await;
    assert_eq!(world.ask(CHAT.plain()).await.header("cache-status"), "sluicegate; hit; ttl=1");
    tokio::time::sleep(secs(1)).await;
    assert_eq!(fates(&[world.ask(CHAT.plain()).await]), ["miss"]);
    assert_eq!(mock.stats().arrived, 2);
}

#[tokio::test(start_paused = true)]
async fn only_answers_without_chance_or_none_where_that_was_configured() {
    let calls = || {
        [
            (CHAT.plain(), false),
            (CHAT.with(json!({"temperature": 1})), false),
            (CHAT.with(json!({"temperature": 0})), true),
            (CHAT.with(json!({"temperature": 0.0, "stream": true})), true),
            (CHAT.with(json!({"seed": 7})), true),
            (KINDS[4].plain(), true),
        ]
    };
    for (when, coalesce) in [("always", true), ("deterministic", true), ("never", true), ("never", false)] {
        let settings = format!("[cache]\nwhen = \"{when}\"\n[coalesce]\nenabled = {coalesce}\n");
        for (request, deterministic) in calls() {
            let (world, mock) = World::with(&settings, mock());
            let replies = [world.ask(request.clone()).await, world.ask(request).await];
            let kept = when == "always" || deterministic && when == "deterministic";
            let expected = match (kept, coalesce) {
                (true, _) => ["miss", "hit"],
                (false, true) => ["miss", "miss"],
                (false, false) => ["bypass", "bypass"],
            };
            assert_eq!(fates(&replies), expected, "{when}");
            assert_eq!(mock.stats().arrived, if kept { 1 } else { 2 });
            assert_eq!(world.gate.shared().kept_bytes > 0, kept);
        }
    }
}

/// Flights and answers that are kept are two things: each is there without the other.
#[tokio::test(start_paused = true)]
async fn without_flights_answers_are_kept_and_without_those_flights_are_shared() {
    let three = || vec![CHAT.plain(), CHAT.plain(), CHAT.plain()];
    let (world, mock) = World::with("[coalesce]\nenabled = false\n", unhurried());
    let world = Arc::new(world);
    assert_eq!(fates(&at_once(&world, three()).await), ["miss"; 3]);
    assert_eq!(fates(&[world.ask(CHAT.plain()).await]), ["hit"]);
    assert_eq!(mock.stats().arrived, 3);
    let (world, mock) = World::with("[cache]\nwhen = \"never\"\n", unhurried());
    let world = Arc::new(world);
    assert_one_paid(&at_once(&world, three()).await, &mock);
    assert_eq!(fates(&[world.ask(CHAT.plain()).await]), ["miss"]);
}

/// What the provider said of its limits is for all who waited for its answer, and not for those who get it later;
/// what it said to one connection is for nobody else.
#[tokio::test(start_paused = true)]
async fn headers_of_the_answer_are_given_and_those_of_the_exchange_are_not() {
    let hand = Hand::new();
    let world = Arc::new(World::around("", hand.clone()));
    let first = call(&world, CHAT.plain());
    let mut asked = hand.asked().await;
    let joined = boarded(&world, CHAT.plain()).await;
    let headers = format!(
        "{JSON}openai-version: 2020-10-01\r\nx-request-id: req_1\r\nset-cookie: a=b\r\nx-ratelimit-remaining-requests: 9\r\nage: 5\r\n"
    );
    asked.whole("200 OK", &headers, &answer("yes")).await;
    let [first, joined] = [first.await.unwrap(), joined.await.unwrap()];
    let hit = world.ask(CHAT.plain()).await;
    for (name, told) in [
        ("openai-version", ["2020-10-01", "2020-10-01", "2020-10-01"]),
        ("x-upstream-request-id", ["req_1", "req_1", "req_1"]),
        ("set-cookie", ["a=b", "", ""]),
        ("x-ratelimit-remaining-requests", ["9", "9", ""]),
        ("age", ["5", "5", "0"]),
        ("x-sluicegate-cache", ["miss", "joined", "hit"]),
    ] {
        assert_eq!([&first, &joined, &hit].map(|reply| reply.header(name)), told, "{name}");
    }
    assert_eq!(hand.count(), 1);
}
