//! The door of the whole process: so many past it, so many at it, and who waits holds nothing.

use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream};
use tokio::time::{Instant, timeout};

use super::*;

/// Two may be past it, one at it.
const DOOR: &str = "[gate]\nmax_in_flight = 2\nmax_waiting = 1\nwait = \"500ms\"\n";
/// One, and nobody.
const ONE: &str = "[gate]\nmax_in_flight = 1\n";
/// One, and a few.
const FEW: &str = "[gate]\nmax_in_flight = 1\nmax_waiting = 10\nwait = \"2s\"\n";

#[tokio::test(start_paused = true)]
async fn the_third_waits_and_the_fourth_is_turned_away_at_once() {
    for takes in [200, 800] {
        for protocol in [ask, ask_claude] {
            let (world, spy) = before(DOOR, millis(takes));
            let first = started(&world, protocol("1")).await;
            let second = started(&world, protocol("2")).await;
            let third = started(&world, protocol("3")).await;
            assert_eq!(at_door(&world), (2, 1));
            let fourth = world.ask(protocol("4")).await;
            assert_eq!(fourth.took, millis(0));
            assert_overloaded(&fourth, "queue_full");
            let message = fourth.json()["error"]["message"].as_str().unwrap().to_owned();
            assert!(message.contains("gate.max_in_flight"), "{message}");
            let record = world.records.last();
            assert_eq!((record.fate.as_str(), record.status, record.provider), ("refused", 429, None));
            let [first, second, third] = all([first, second, third]).await.try_into().unwrap();
            assert_took(&first, millis(takes));
            assert_took(&second, millis(takes));
            if takes == 200 {
                assert_took(&third, millis(400));
                assert!(third.header("server-timing").contains("queue;dur=200.000"));
                assert_eq!(spy.count(), 3);
            } else {
                assert_took(&third, millis(500));
                assert_overloaded(&third, "queue_timeout");
                assert_eq!(spy.count(), 2);
                assert!(world.log().contains("queue=500ms"), "{}", world.log());
            }
            assert_idle(&world).await;
            let counted = "sluicegate_refusals_total{code=\"overloaded\",reason=\"queue_full\"}";
            assert_eq!(metric(&world, counted), 1);
        }
    }
}

#[tokio::test(start_paused = true)]
async fn who_rides_along_and_who_has_a_kept_answer_count_too() {
    let (world, spy) = before("[gate]\nmax_in_flight = 2\n", millis(100));
    let leader = started(&world, ask("x")).await;
    let joiner = started(&world, ask("x")).await;
    assert_overloaded(&world.ask(ask("x")).await, "queue_full");
    let [leader, joiner] = all([leader, joiner]).await.try_into().unwrap();
    assert_eq!((leader.status.as_u16(), joiner.header("x-sluicegate-cache")), (200, "joined"));
    assert_eq!(world.ask(ask("x")).await.header("x-sluicegate-cache"), "hit");
    let others = [started(&world, ask("y")).await, started(&world, ask("z")).await];
    assert_overloaded(&world.ask(ask("x")).await, "queue_full");
    all(others).await;
    assert_eq!(spy.count(), 3);
    assert_idle(&world).await;
}

#[tokio::test(start_paused = true)]
async fn who_waits_for_a_kept_answer_has_it_as_soon_as_it_is_let_in() {
    let (world, _spy) = before(FEW, millis(100));
    world.ask(ask("x")).await;
    let first = started(&world, ask("y")).await;
    let hit = world.ask(ask("x")).await;
    assert_eq!(hit.header("x-sluicegate-cache"), "hit");
    assert_took(&hit, millis(100));
    assert!(hit.header("server-timing").contains("queue;dur=100.000"), "{}", hit.header("server-timing"));
    first.await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn the_permit_is_held_to_the_last_byte() {
    let (world, _spy) = before(ONE, millis(30));
    let mut client = world.client().await;
    let mut answer = client.send(ask_stream("x")).await;
    for _ in 0..3 {
        assert!(answer.next().await.is_some());
        assert_overloaded(&world.ask(ask("y")).await, "queue_full");
    }
    assert!(!answer.whole().await.broken);
    assert_eq!(world.ask(ask("y")).await.status, 200);
}

#[tokio::test(start_paused = true)]
async fn the_permit_comes_back_however_a_call_ends() {
    let (world, _spy) = before(ONE, millis(30));
    let h2 = H2::to(&world).await;
    let mut number = 0_u32;
    let mut free = async |what: &str| {
        turns().await;
        assert_eq!(at_door(&world), (0, 0), "after {what}");
        number += 1;
        assert_eq!(world.ask(ask(&number.to_string())).await.status, 200, "after {what}");
    };
    for (what, asked, status) in [
        ("an error of the provider's", ask("a status=500"), 500),
        ("a provider that breaks off", ask("b cut"), 502),
        ("a deadline", with(ask("c hang"), "x-sluicegate-timeout", "50ms"), 504),
        ("a body that can't be read", request(Method::POST, CHAT, "{"), 400),
        ("a model that nobody has", request(Method::POST, "/to/nobody/v1/chat/completions", "{}"), 404),
        ("a list of models", request(Method::GET, "/v1/models", ""), 200),
        ("a head alone", request(Method::HEAD, "/to/openai/v1/models", ""), 200),
        ("an upload", request(Method::POST, "/v1/files", "abc"), 200),
        ("a kept answer that is not there", with(ask("d"), "cache-control", "only-if-cached"), 504),
        ("a misspelt wish", with(ask("e"), "x-sluicegate-timeout", "soon"), 400),
    ] {
        if what != "a head alone" {
            let reply = h2.start(asked.clone()).await.unwrap();
            assert!(reply.status == status || what == "a list of models", "{what}: {}", reply.text());
            free(what).await;
        }
        let reply = world.ask(asked).await;
        assert!(reply.status == status || what == "a list of models", "{what}: {}", reply.text());
        free(what).await;
    }
    for (what, asked, after) in [
        ("one who left before an answer", ask("f hang"), 10),
        ("one who left in a stream", ask_stream("g stall"), 60),
    ] {
        for over_h2 in [false, true] {
            let call = if over_h2 { h2.start(asked.clone()) } else { start(&world, asked.clone()) };
            pause(after).await;
            assert_eq!(at_door(&world).0, 1);
            call.abort();
            let _aborted = call.await;
            free(what).await;
        }
    }
    assert_idle(&world).await;
}

#[tokio::test(start_paused = true)]
async fn who_leaves_while_waiting_takes_no_place() {
    let (world, spy) = before(&FEW.replace("10", "1"), millis(100));
    let h2 = H2::to(&world).await;
    let first = started(&world, ask("first")).await;
    for over_h2 in [false, true] {
        let gone = if over_h2 { h2.start(ask("gone")) } else { start(&world, ask("gone")) };
        turns().await;
        assert_eq!(at_door(&world), (1, 1));
        assert_overloaded(&world.ask(ask("too many")).await, "queue_full");
        gone.abort();
        let _aborted = gone.await;
        pause(1).await;
        assert_eq!(at_door(&world), (1, 0), "over_h2: {over_h2}");
    }
    let next = started(&world, ask("next")).await;
    all([first, next]).await;
    assert_eq!(spy.prompts(), ["first", "next"]);
    assert_idle(&world).await;
}

const HEAD: &str = "POST /v1/chat/completions HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n\
    authorization: Bearer caller-key\r\nconnection: close\r\n";

/// All that comes until the gate closes.
async fn rest(io: &mut DuplexStream) -> String {
    let mut came = String::new();
    timeout(secs(60), io.read_to_string(&mut came)).await.expect("the connection ends").unwrap();
    came
}

/// What has come in no time.
async fn now(io: &mut DuplexStream) -> String {
    let mut came = vec![0; 4096];
    let length = timeout(millis(1), io.read(&mut came)).await.map_or(0, Result::unwrap);
    String::from_utf8_lossy(&came[..length]).into_owned()
}

#[tokio::test(start_paused = true)]
async fn nothing_of_a_body_is_read_before_the_call_is_let_in() {
    let (world, _spy) = before(FEW, millis(1000));
    let first = started(&world, ask("first")).await;
    // More than the gate could hold unread, in a pipe that is full as soon as nobody reads on.
    let body = chat(&"x".repeat(3 << 20));
    let mut io = world.raw();
    io.write_all(format!("{HEAD}content-length: {}\r\n\r\n", body.len()).as_bytes()).await.unwrap();
    let mut sent = 0;
    while let Ok(more) = timeout(millis(50), io.write(&body.as_bytes()[sent..])).await {
        sent += more.unwrap();
    }
    assert!(sent < 3 << 19, "{sent} bytes were taken in");
    assert_eq!(at_door(&world), (1, 1));
    let start = Instant::now();
    io.write_all(&body.as_bytes()[sent..]).await.unwrap();
    assert!(start.elapsed() > millis(900), "{:?}", start.elapsed());
    let answer = rest(&mut io).await;
    assert!(answer.starts_with("HTTP/1.1 200"), "{}", &answer[..100]);
    first.await.unwrap();
    assert_idle(&world).await;
}

#[tokio::test(start_paused = true)]
async fn a_body_that_is_held_back_is_asked_for_once_the_call_is_let_in() {
    let (world, _spy) = before(FEW, millis(1000));
    let first = started(&world, ask("first")).await;
    let body = chat("x");
    let head = format!("{HEAD}expect: 100-continue\r\ncontent-length: {}\r\n\r\n", body.len());
    let mut io = world.raw();
    io.write_all(head.as_bytes()).await.unwrap();
    pause(900).await;
    assert_eq!(now(&mut io).await, "");
    pause(100).await;
    assert_eq!(now(&mut io).await, "HTTP/1.1 100 Continue\r\n\r\n");
    io.write_all(body.as_bytes()).await.unwrap();
    assert!(rest(&mut io).await.starts_with("HTTP/1.1 200"));
    first.await.unwrap();

    // Nobody comes to it in time, or there is no room at all.
    for (settings, waits, reason) in [(FEW, 2000, "queue_timeout"), (ONE, 0, "queue_full")] {
        let (world, _spy) = before(settings, secs(9));
        let _first = started(&world, ask("first")).await;
        let start = Instant::now();
        let mut io = world.raw();
        io.write_all(head.as_bytes()).await.unwrap();
        let answer = rest(&mut io).await;
        assert!(answer.starts_with("HTTP/1.1 429"), "{answer}");
        assert!(
            answer.contains(&format!("x-sluicegate-reason: {reason}")) && !answer.contains("100 Continue")
        );
        assert_eq!(start.elapsed(), millis(waits));
    }
}

/// The whole body is on its way: who sends it gets to read why it is not wanted.
#[tokio::test(start_paused = true)]
async fn who_sends_a_long_body_is_turned_away_in_words() {
    let (world, _spy) = before(ONE, millis(1000));
    let first = started(&world, ask("first")).await;
    let body = chat(&"x".repeat(3 << 20));
    let reply = world.ask(request(Method::POST, CHAT, body)).await;
    assert_overloaded(&reply, "queue_full");
    assert_eq!(reply.took, millis(0));
    first.await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn when_to_come_back_is_what_the_operator_says_or_what_is_measured() {
    for (setting, of) in [("retry_after = \"11s\"\n", 11..=11), ("", 1..=60)] {
        let settings = format!("{DOOR}{setting}");
        let (world, _spy) = before(&settings, secs(4));
        // A few have left a full door, at half a call a second.
        for round in 0..4 {
            let calls = [format!("{round}a"), format!("{round}b")].map(|prompt| start(&world, ask(&prompt)));
            all(calls).await;
        }
        let mut calls = Vec::new();
        for number in 0..3 {
            calls.push(started(&world, ask(&number.to_string())).await);
        }
        let full = world.ask(ask("full")).await;
        calls.remove(0).abort();
        let late = calls.remove(1).await.unwrap();
        // The permit that came back was for the one who waited.
        assert_eq!(late.status, 200);
        let after: u64 = full.header("retry-after").parse().unwrap();
        assert!(of.contains(&after), "{after}");
        if setting.is_empty() {
            assert!((3..=5).contains(&after), "one call waits, and two leave every four seconds: {after}");
        }
        assert_overloaded(&full, "queue_full");
    }
}

#[tokio::test(start_paused = true)]
async fn a_deadline_that_ends_at_the_door() {
    let (world, spy) = before(FEW, millis(1000));
    let h2 = H2::to(&world).await;
    let first = started(&world, ask("first")).await;
    let late = || with(ask("late"), "x-sluicegate-timeout", "300ms");
    for call in [start(&world, late()), h2.start(late())] {
        let reply = call.await.unwrap();
        assert_took(&reply, millis(300));
        assert_deadline(&reply);
    }
    first.await.unwrap();
    assert_eq!(spy.count(), 1);
    assert_eq!(world.outcomes(), [("ok".to_owned(), 1)]);
}

#[tokio::test(start_paused = true)]
async fn the_wait_counts_toward_the_deadline() {
    let (world, spy) = before(FEW, millis(200));
    let first = started(&world, ask("first")).await;
    let late = world.ask(with(ask("late"), "x-sluicegate-timeout", "300ms")).await;
    assert_took(&late, millis(300));
    assert_deadline(&late);
    first.await.unwrap();
    assert_eq!(spy.count(), 2);
}

#[tokio::test(start_paused = true)]
async fn the_door_is_fair_to_those_who_bring_their_own_keys() {
    let (world, spy) = before(FEW, millis(100));
    let mut calls = Vec::new();
    for number in 0..6 {
        calls.push(started(&world, by("flood", ask(&format!("flood {number}")))).await);
    }
    calls.push(started(&world, by("small", ask("small"))).await);
    let high = with(by("flood", ask("urgent")), "x-sluicegate-priority", "high");
    calls.push(started(&world, high).await);
    assert!(all(calls).await.iter().all(|reply| reply.status == 200));
    let order = spy.prompts();
    assert_eq!(order[0], "flood 0");
    let at = |prompt: &str| order.iter().position(|came| came == prompt).unwrap();
    assert!(at("small") <= 2, "{order:?}");
    assert!(at("urgent") <= 2, "first of its key's own: {order:?}");
    assert!(at("flood 1") < at("flood 2") && at("flood 4") < at("flood 5"), "{order:?}");
}

#[tokio::test(start_paused = true)]
async fn one_keys_flood_gives_way_to_anothers_newcomer() {
    let (world, spy) = before(&FEW.replace("10", "2"), millis(100));
    let mut calls = Vec::new();
    for number in 0..3 {
        calls.push(started(&world, by("flood", ask(&format!("flood {number}")))).await);
    }
    calls.push(started(&world, by("small", ask("small"))).await);
    let replies = all(calls).await;
    assert_overloaded(&replies[2], "queue_full");
    assert_eq!(replies[2].took, millis(0));
    assert_eq!(replies[3].status, 200);
    assert_eq!(spy.count(), 3);
}

#[tokio::test(start_paused = true)]
async fn a_reload_puts_it_there_while_calls_run() {
    let (world, _spy) = before("", millis(100));
    let running = [started(&world, ask("1")).await, started(&world, ask("2")).await];
    reload(&world, DOOR);
    let mut calls = Vec::new();
    for number in 3..6 {
        calls.push(started(&world, ask(&number.to_string())).await);
    }
    assert_eq!(at_door(&world), (2, 1), "those who were in already have no permit");
    assert_overloaded(&world.ask(ask("6")).await, "queue_full");
    for reply in all(running.into_iter().chain(calls)).await {
        assert_eq!(reply.status, 200);
    }
    assert_idle(&world).await;
}

#[tokio::test(start_paused = true)]
async fn a_reload_that_takes_it_away_lets_those_in_who_wait_at_it() {
    for (settings, goes) in [(String::new(), 300), (FEW.replace("= 1\n", "= 4\n"), 300)] {
        let (world, spy) = before(FEW, millis(1000));
        let start = Instant::now();
        let mut calls = Vec::new();
        for number in 0..4 {
            calls.push(started(&world, ask(&number.to_string())).await);
        }
        pause(300).await;
        reload(&world, &settings);
        let came = started(&world, ask("came")).await;
        let times: Vec<_> = spy.times(start, |seen| seen.prompt != "came");
        assert_eq!(times, [0, goes, goes, goes].map(millis), "{settings}");
        for reply in all(calls).await {
            assert_eq!(reply.status, 200, "{}", reply.text());
        }
        assert_eq!(came.await.unwrap().status, 200);
        reload(&world, FEW);
        assert_idle(&world).await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_reload_that_narrows_it_interrupts_nobody() {
    let (world, spy) = before(DOOR, millis(300));
    let start = Instant::now();
    let mut calls = Vec::new();
    for number in 0..3 {
        calls.push(started(&world, ask(&number.to_string())).await);
    }
    pause(100).await;
    reload(&world, ONE);
    assert_overloaded(&world.ask(ask("no room")).await, "queue_full");
    for reply in all(calls).await {
        assert_eq!(reply.status, 200, "{}", reply.text());
    }
    assert_eq!(spy.times(start, |_| true), [0, 0, 300].map(millis));
    assert_idle(&world).await;
}

/// Twice what it can take, for five seconds.
#[tokio::test(start_paused = true)]
async fn a_crowd_at_it_that_does_not_get_smaller_is_turned_away_soon() {
    let settings = "[gate]\nmax_in_flight = 8\nmax_waiting = 400\nwait = \"2s\"\n";
    let (world, spy) = before(settings, millis(100));
    let mut calls = Vec::new();
    for number in 0..800 {
        let world = world.clone();
        calls.push(by_itself(async move {
            tokio::time::sleep(secs(5) * number / 800).await;
            world.ask(ask(&number.to_string())).await
        }));
    }
    let (mut served, mut stale) = (0, 0);
    for reply in all(calls).await {
        if reply.status == 200 {
            served += 1;
            continue;
        }
        stale += 1;
        assert_overloaded(&reply, "queue_timeout");
        assert!(reply.took >= millis(200), "who is turned away has waited: {:?}", reply.took);
    }
    assert!(served >= 388, "all that fits: {served}");
    assert!(stale > 100, "{stale}");
    assert_eq!((spy.count(), spy.most()), (served, 8));
    let after = world.ask(ask("after")).await;
    assert_took(&after, millis(100));
    assert_idle(&world).await;
}

/// Its body is not there yet, and will never be: that is seen once somebody looks for it.
#[tokio::test(start_paused = true)]
async fn who_hangs_up_at_it_before_its_body_was_sent_is_gone_as_soon_as_it_is_let_in() {
    let (world, spy) = before(FEW, millis(1000));
    let first = started(&world, ask("first")).await;
    for sent in ["", "{\"model\":"] {
        let mut io = world.raw();
        io.write_all(format!("{HEAD}content-length: 100\r\n\r\n{sent}").as_bytes()).await.unwrap();
        pause(10).await;
        drop(io);
    }
    let next = started(&world, ask("next")).await;
    assert_took(&first.await.unwrap(), millis(1000));
    let next = next.await.unwrap();
    assert!(next.took <= millis(2000), "nobody waits for those: {:?}", next.took);
    assert_eq!((next.status.as_u16(), spy.count()), (200, 2));
    assert_idle(&world).await;
    let gone = world.records.all().iter().filter(|record| record.status == 499).count();
    assert_eq!(gone, 2);
}
