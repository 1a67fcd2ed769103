//! Calls that gather in a window leave it together, and each goes on by itself.

use sim::mock::Mock;
use tokio::time::Instant;

use super::*;
use crate::either_tongue::{BOTH, chat_to_claude, streamed};

const WINDOW: &str = "concurrency = 8\n[window]\nenabled = true\nmax_size = 16\nmax_wait = \"20ms\"\n";

/// `calls` different ones, spread evenly over `within`.
async fn wave(world: &Arc<World>, calls: u32, within: std::time::Duration) -> Vec<(u32, Reply)> {
    let mut running = JoinSet::new();
    for number in 0..calls {
        let world = world.clone();
        running.spawn(async move {
            tokio::time::sleep(within * number / calls).await;
            (number, world.post("/v1/chat/completions", chat(&format!("number {number}"))).await)
        });
    }
    running.join_all().await
}

fn before_mock(settings: &str, mock: sim::mock::Options) -> (Arc<World>, Arc<Mock>) {
    let (world, mock) = World::with(settings, mock);
    (Arc::new(world), mock)
}

#[tokio::test(start_paused = true)]
async fn a_wave_passes_in_its_ideal_time_under_the_cap() {
    let (world, mock) = before_mock(WINDOW, mock_after(millis(50)));
    let start = Instant::now();
    let replies = wave(&world, 200, millis(50)).await;
    let ideal = millis(50) * (200 / 8);
    assert!(start.elapsed() <= ideal * 11 / 10, "{:?}", start.elapsed());
    // The mock's answer follows from the prompt: each caller has the one to its own.
    let (direct, _) = World::before(mock_after(millis(0)));
    for (number, reply) in replies {
        assert_eq!(reply.status, 200, "{}", reply.text());
        let own = direct.post("/v1/chat/completions", chat(&format!("number {number}"))).await;
        assert_eq!(reply.json()["choices"], own.json()["choices"], "{number}");
    }
    assert_eq!(mock.stats().most_in_flight, 8);
    assert!(mock.stats().connections.opened <= 8, "{:?}", mock.stats().connections);
}

#[tokio::test(start_paused = true)]
async fn a_lone_call_leaves_when_its_time_is_over() {
    let (world, _mock) = before_mock(WINDOW, mock_after(millis(50)));
    let reply = world.post("/v1/chat/completions", chat("x")).await;
    assert_eq!(reply.status, 200);
    assert!(reply.took >= millis(70) && reply.took <= millis(72), "{:?}", reply.took);
    let queue = world.records.last().queue;
    assert!(queue >= millis(20) && queue <= millis(22), "{queue:?}");
}

/// A window that flushes by its size of three, or late.
const OF_THREE: &str = "concurrency = 64\n[window]\nenabled = true\nmax_size = 3\nmax_wait = \"10s\"\n";
/// One that flushes by time alone.
const LONG: &str = "[window]\nenabled = true\nmax_size = 100\nmax_wait = \"1s\"\n";

#[tokio::test(start_paused = true)]
async fn size_who_comes_in_a_stream_leaves_in_groups_as_soon_as_each_is_full() {
    let settings = WINDOW.replace("concurrency = 8", "concurrency = 64");
    let (world, spy) = before(&settings, millis(10));
    let sent = Arc::new(parking_lot::Mutex::new(Vec::new()));
    let mut calls = Vec::new();
    for number in 0..200 {
        let (world, sent) = (world.clone(), sent.clone());
        calls.push(by_itself(async move {
            tokio::time::sleep(millis(50) * number / 200).await;
            sent.lock().push(Instant::now());
            world.ask(ask(&number.to_string())).await
        }));
    }
    for (number, reply) in all(calls).await.into_iter().enumerate() {
        assert_eq!((reply.status.as_u16(), said(&reply)), (200, number.to_string()));
    }
    let (sent, seen) = (sent.lock().clone(), spy.seen());
    assert_eq!(seen.len(), 200);
    for (group, came) in seen.chunks(16).zip(sent.chunks(16)) {
        // The last eight leave by time.
        let leaves = if came.len() == 16 { came[15] } else { came[0] + millis(20) };
        for seen in group {
            assert!(seen.at >= leaves && seen.at <= leaves + millis(2), "{:?}", seen.at - leaves);
        }
    }
    assert_eq!(metric(&world, "sluicegate_waves_total{provider=\"openai\",cause=\"size\"}"), 12);
    assert_eq!(metric(&world, "sluicegate_waves_total{provider=\"openai\",cause=\"time\"}"), 1);
    assert_idle(&world).await;
}

#[tokio::test(start_paused = true)]
async fn size_each_has_its_own_answer_in_whatever_order_they_come() {
    let (world, spy) = before(WINDOW, millis(0));
    reload(&world, &WINDOW.replace("concurrency = 8", "concurrency = 64"));
    let start_at = Instant::now();
    let calls = (0..16).map(|number| start(&world, ask(&format!("{number} takes={}", 170 - 10 * number))));
    for (number, reply) in all(calls.collect::<Vec<_>>()).await.into_iter().enumerate() {
        let takes = 170 - 10 * number as u64;
        assert_eq!(said(&reply), format!("{number} takes={takes}"));
        assert_took(&reply, millis(takes));
        let record = world.records.all().into_iter().find(|record| record.total >= millis(takes));
        assert!(record.is_some());
    }
    assert_eq!(spy.times(start_at, |_| true), [millis(0); 16]);
}

#[tokio::test(start_paused = true)]
async fn isolation_what_becomes_of_one_is_nothing_to_its_neighbours() {
    let (world, _spy) = before(OF_THREE, millis(50));
    reload(&world, &OF_THREE.replace("max_size = 3", "max_size = 8"));
    let stuck = with(ask("e hang"), "x-sluicegate-timeout", "300ms");
    let gone = started(&world, ask("f hang")).await;
    let mut calls = Vec::new();
    for asked in [ask("a"), ask("b status=500"), ask("c cut"), stuck, ask("d takes=80"), ask("g"), ask("h")] {
        calls.push(start(&world, asked));
    }
    pause(10).await;
    gone.abort();
    let replies = all(calls).await;
    let statuses: Vec<u16> = replies.iter().map(|reply| reply.status.as_u16()).collect();
    assert_eq!(statuses, [200, 500, 502, 504, 200, 200, 200]);
    for at in [0, 1, 2, 5, 6] {
        assert_took(&replies[at], millis(50));
    }
    assert_took(&replies[4], millis(80));
    assert_took(&replies[3], millis(300));
    assert_deadline(&replies[3]);
    assert_idle(&world).await;
}

#[tokio::test(start_paused = true)]
async fn stuck_a_deadline_that_ends_in_the_window_ends_the_call_alone() {
    let (world, spy) = before(LONG, millis(0));
    let waits = started(&world, ask("waits")).await;
    for unshared in [false, true] {
        let mut asked = with(ask(&format!("late {unshared}")), "x-sluicegate-timeout", "100ms");
        if unshared {
            asked = with(asked, "cache-control", "no-store");
        }
        let late = start(&world, asked).await.unwrap();
        assert_took(&late, millis(100));
        assert_deadline(&late);
        assert_eq!(late.header("x-sluicegate-attempts"), "0");
        assert_eq!(world.records.last().fate.as_str(), "refused");
        assert!(world.records.last().queue >= millis(100), "{:?}", world.records.last().queue);
    }
    assert_eq!(levels(&world).2, 1);
    assert_took(&waits.await.unwrap(), secs(1));
    assert_eq!(spy.prompts(), ["waits"]);
    assert_eq!(world.outcomes(), [("ok".to_owned(), 1)]);
    assert_idle(&world).await;
}

#[tokio::test(start_paused = true)]
async fn who_leaves_before_the_flush_is_never_sent_and_takes_no_place() {
    let (world, spy) = before(OF_THREE, millis(10));
    let h2 = H2::to(&world).await;
    let gone = started(&world, ask("gone")).await;
    let taken_back = h2.start(ask("taken back"));
    turns().await;
    assert_eq!(levels(&world).2, 2);
    for leaver in [gone, taken_back] {
        leaver.abort();
        let _aborted = leaver.await;
    }
    pause(1).await;
    assert_eq!(levels(&world).2, 0);
    let first = started(&world, ask("1")).await;
    let second = started(&world, ask("2")).await;
    pause(100).await;
    assert_eq!((spy.count(), levels(&world).2), (0, 2), "two are not three");
    let third = start(&world, ask("3")).await.unwrap();
    assert_took(&third, millis(10));
    all([first, second]).await;
    let mut prompts = spy.prompts();
    prompts.sort();
    assert_eq!(prompts, ["1", "2", "3"]);
    assert_idle(&world).await;
    let left = world.records.all().iter().filter(|record| record.status == 499).count();
    assert_eq!(left, 2);
}

#[tokio::test(start_paused = true)]
async fn the_first_may_leave_and_the_others_keep_their_time() {
    let (world, spy) = before(LONG, millis(0));
    let start_at = Instant::now();
    let first = started(&world, ask("first")).await;
    pause(400).await;
    let second = started(&world, ask("second")).await;
    first.abort();
    let _aborted = first.await;
    assert_eq!(second.await.unwrap().status, 200);
    let waited = start_at.elapsed();
    assert!(waited >= secs(1) && waited <= millis(1402), "never longer than its own max_wait: {waited:?}");
    assert_eq!(spy.prompts(), ["second"]);
}

#[tokio::test(start_paused = true)]
async fn joiners_and_hits_never_wait_in_it() {
    let (world, spy) = before(LONG, millis(200));
    let leader = started(&world, ask("x")).await;
    pause(500).await;
    let joiner = started(&world, ask("x")).await;
    pause(600).await;
    // The flight has left: the window is of no concern to who joins it now.
    let late = started(&world, ask("x")).await;
    let [leader, joiner, late] = all([leader, joiner, late]).await.try_into().unwrap();
    assert_took(&leader, millis(1200));
    assert_took(&joiner, millis(700));
    assert_took(&late, millis(100));
    for joined in [&joiner, &late] {
        assert_eq!(joined.header("x-sluicegate-cache"), "joined");
    }
    let waits = started(&world, ask("somebody else")).await;
    let hit = start(&world, ask("x")).await.unwrap();
    assert_eq!((hit.header("x-sluicegate-cache"), hit.took), ("hit", millis(0)));
    assert!(hit.header("server-timing").contains("queue;dur=0.000"), "{}", hit.header("server-timing"));
    waits.await.unwrap();
    assert_eq!(spy.count(), 2);
}

#[tokio::test(start_paused = true)]
async fn a_joiner_is_told_its_own_wait() {
    let (world, _spy) = before(LONG, millis(200));
    let leader = started(&world, ask("x")).await;
    pause(600).await;
    let joiner = started(&world, ask("x")).await;
    pause(500).await;
    let late = started(&world, ask("x")).await;
    for (call, waited) in [(leader, 1000), (joiner, 400), (late, 0)] {
        let reply = call.await.unwrap();
        let timing = reply.header("server-timing").to_owned();
        assert!(timing.contains(&format!("queue;dur={waited}")), "{waited}: {timing}");
    }
    for record in world.records.all() {
        assert!(record.queue <= record.total, "{:?} of {:?}", record.queue, record.total);
    }
}

#[tokio::test(start_paused = true)]
async fn what_is_no_generation_does_not_wait() {
    let (world, spy) = before(LONG, millis(0));
    for asked in [
        request(Method::GET, "/to/openai/v1/models", ""),
        request(Method::GET, "/v1/models/gpt-4o", ""),
        request(Method::POST, "/v1/files", "abc"),
        request(Method::POST, "/v1/audio/speech", r#"{"model":"tts-1","input":"x","voice":"alloy"}"#),
        with(
            request(Method::POST, "/v1/messages/count_tokens", message("x", false)),
            "anthropic-version",
            "2023-06-01",
        ),
    ] {
        let path = asked.uri().path().to_owned();
        let reply = world.ask(asked).await;
        assert_eq!(reply.took, millis(0), "{path}: {}", reply.text());
        assert_eq!(reply.status, 200, "{path}: {}", reply.text());
    }
    assert_eq!(spy.count(), 5);
}

#[tokio::test(start_paused = true)]
async fn streams_wait_and_then_flow() {
    let (world, _spy) = before(WINDOW, millis(30));
    let mut client = world.client().await;
    let start_at = Instant::now();
    let mut answer = client.send(ask_stream("x")).await;
    assert_eq!((answer.status.as_u16(), answer.head_after), (200, millis(50)));
    let mut came = Vec::new();
    while let Some(piece) = answer.next().await {
        let piece = String::from_utf8(piece.unwrap().to_vec()).unwrap();
        came.extend((0..5).filter(|word| piece.contains(&format!("x/{word} "))).map(|_| start_at.elapsed()));
    }
    assert_eq!(came, [50, 60, 70, 80, 90].map(millis));
}

#[tokio::test(start_paused = true)]
async fn translated_calls_wait_too() {
    let settings = format!("{WINDOW}{BOTH}");
    let (world, mock) = World::with(&settings, mock_after(millis(30)));
    let world = Arc::new(world);
    for body in [chat_to_claude("plain"), streamed(chat_to_claude("streamed"))] {
        let reply = world.ask(request(Method::POST, CHAT, body.to_string())).await;
        assert_eq!(reply.status, 200, "{}", reply.text());
        assert_took(&reply, millis(50));
        assert_eq!(reply.header("x-sluicegate-provider"), "anthropic");
    }
    assert_eq!(mock.stats().arrived, 2);
    let calls = (0..16).map(|number| {
        start(&world, request(Method::POST, CHAT, chat_to_claude(&number.to_string()).to_string()))
    });
    let replies = all(calls.collect::<Vec<_>>()).await;
    assert!(replies.iter().all(|reply| reply.status == 200));
    assert!(replies.iter().all(|reply| reply.took < millis(63)), "eight at once, and no wait in the window");
}

#[tokio::test(start_paused = true)]
async fn two_providers_have_windows_of_their_own() {
    let settings = LONG.replace("max_size = 100", "max_size = 2");
    let (world, spy) = before(&settings, millis(0));
    let (one, other) = (started(&world, ask("openai")).await, started(&world, ask_claude("anthropic")).await);
    pause(500).await;
    assert_eq!(spy.count(), 0, "they do not fill one window");
    let second = started(&world, ask_claude("another")).await;
    assert_eq!(spy.count(), 2);
    assert!(!spy.prompts().contains(&"openai".to_owned()));
    let [one, other, second] = all([one, other, second]).await.try_into().unwrap();
    for (reply, took) in [(&one, secs(1)), (&other, millis(500)), (&second, millis(0))] {
        assert_eq!(reply.status, 200, "{}", reply.text());
        assert_took(reply, took);
    }
    let own = format!("{LONG}\n{PROVIDERS}\n[providers.anthropic.window]\nenabled = false\n");
    let (world, _spy) = before(&own, millis(0));
    assert_eq!(world.ask(ask_claude("x")).await.took, millis(0));
    assert_took(&world.ask(ask("x")).await, secs(1));
}

#[tokio::test(start_paused = true)]
async fn a_reload_holds_for_those_inside() {
    let long = "[window]\nenabled = true\nmax_size = 100\nmax_wait = \"60s\"\n";
    for (change, leaves) in [
        // Off: nobody waits for a window that is no more.
        (long.replace("true", "false"), 1000),
        (String::new(), 1000),
        // Full by what it is now, or over by it.
        (long.replace("100", "3"), 1000),
        (long.replace("60s", "500ms"), 1000),
        (long.replace("60s", "2s"), 2000),
        (long.replace("60s", "30s"), 30_000),
    ] {
        let (world, spy) = before(long, millis(0));
        let start_at = Instant::now();
        let mut calls = Vec::new();
        for number in 0..3 {
            calls.push(started(&world, ask(&number.to_string())).await);
        }
        pause(1000).await;
        assert_eq!(levels(&world).2, 3);
        reload(&world, &change);
        for reply in all(calls).await {
            assert_eq!(reply.status, 200);
            assert_took(&reply, millis(leaves));
        }
        assert_eq!(spy.times(start_at, |_| true).len(), 3);
        assert_idle(&world).await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_reload_switches_it_on_for_those_who_come() {
    let (world, _spy) = before("", millis(100));
    let before = started(&world, ask("before")).await;
    reload(&world, LONG);
    let after = started(&world, ask("after")).await;
    assert_took(&before.await.unwrap(), millis(100));
    assert_took(&after.await.unwrap(), millis(1100));
    reload(&world, "");
    assert_took(&world.ask(ask("again")).await, millis(100));
}

/// The account's key is another one: the window that its calls wait in is nobody's any more.
#[tokio::test(start_paused = true)]
async fn a_reload_that_takes_the_account_away_lets_those_inside_go() {
    let long = "[window]\nenabled = true\nmax_size = 100\nmax_wait = \"60s\"\n";
    let file = |key: &str| {
        format!("{long}\n[providers.openai]\nbase_url = \"http://127.0.0.1:1/v1\"\napi_key = \"{key}\"\n")
    };
    let (world, spy) = before(&file("old"), millis(10));
    let waits = started(&world, ask("x")).await;
    pause(100).await;
    world.gate.adopt(Arc::new(config::parse_text(&file("new")).unwrap()));
    assert_took(&waits.await.unwrap(), millis(110));
    assert!(spy.seen()[0].head.contains("Bearer old"), "{}", spy.seen()[0].head);
    assert_idle(&world).await;
}

#[tokio::test(start_paused = true)]
async fn off_it_costs_nothing() {
    let (world, _spy) = before("", millis(7));
    for reply in
        [world.ask(ask("x")).await, world.ask(ask_claude("x")).await, world.ask(ask_stream("y")).await]
    {
        let timing = reply.header("server-timing");
        assert!(timing.contains("gate;dur=0.000, queue;dur=0.000, upstream;dur=7.000"), "{timing}");
    }
    assert_eq!(metric(&world, "sluicegate_waves_total{"), 0);
    let (world, _spy) = before(WINDOW, millis(7));
    let timing = world.ask(ask("x")).await.header("server-timing").to_owned();
    assert!(timing.contains("queue;dur=20.000, upstream;dur=7.000"), "{timing}");
}

#[tokio::test(start_paused = true)]
async fn clients_of_http2_gather_like_all_others() {
    let (world, spy) = before(WINDOW, millis(10));
    reload(&world, &WINDOW.replace("concurrency = 8", "concurrency = 64"));
    let h2 = H2::to(&world).await;
    assert_took(&h2.start(ask("alone")).await.unwrap(), millis(30));
    let calls = (0..16).map(|number| match number % 2 {
        0 => h2.start(ask(&format!("{number}"))),
        _ => start(&world, ask(&format!("{number}"))),
    });
    for (number, reply) in all(calls.collect::<Vec<_>>()).await.into_iter().enumerate() {
        assert_eq!((reply.status.as_u16(), said(&reply)), (200, number.to_string()));
        assert_took(&reply, millis(10));
    }
    assert_eq!(spy.count(), 17);
    assert_idle(&world).await;
}
