//! What flights hold in memory has an end, and who is aboard does not notice.

use super::*;

/// An event of 128 KiB of text, and how many are past the bound of one flight.
fn piece(number: usize) -> String {
    text(&format!("{number:06}").repeat(128 * 1024 / 6))
}
const PAST: usize = 140;
/// What a stream's client gets while nothing else comes.
const SIGN: &str = ": keep-alive\n\n";

#[tokio::test(start_paused = true)]
async fn a_flight_that_has_grown_too_long_takes_nobody_more_and_reaches_all_aboard() {
    let hand = Hand::new();
    let world = Arc::new(World::around("", hand.clone()));
    let leader = call(&world, CHAT.stream());
    let mut asked = hand.asked().await;
    asked.open_stream().await;
    let mut said = String::new();
    let mut aboard = vec![leader];
    for _ in 0..2 {
        aboard.push(boarded(&world, CHAT.stream()).await);
    }
    let mut plain = Vec::new();
    for _ in 0..2 {
        plain.push(boarded(&world, CHAT.plain()).await);
    }
    for number in 0..PAST / 2 {
        asked.event(&piece(number)).await;
        said.push_str(&piece(number));
    }
    turns().await;
    assert!(world.gate.shared().tape_bytes > 8 << 20, "half of it is held for those who come late");
    aboard.push(boarded(&world, CHAT.stream()).await);
    plain.push(boarded(&world, CHAT.plain()).await);
    for number in PAST / 2..PAST {
        asked.event(&piece(number)).await;
        said.push_str(&piece(number));
    }
    turns().await;
    assert!(world.gate.shared().tape_bytes < 1 << 20, "{:?}", world.gate.shared());
    // Who comes now leads another flight.
    let after = call(&world, CHAT.stream());
    let mut another = hand.asked().await;
    another.open_stream().await;
    for event in [&text("short"), &finish("stop"), USAGE, DONE] {
        another.event(event).await;
    }
    another.end_stream().await;
    let after = after.await.unwrap();
    assert_eq!((super::said(&after).as_str(), after.header("x-sluicegate-cache")), ("short", "miss"));
    // All aboard get all of it.
    for number in PAST..PAST + 20 {
        asked.event(&piece(number)).await;
        said.push_str(&piece(number));
    }
    for event in [&finish("stop"), USAGE, DONE] {
        asked.event(event).await;
    }
    said.push_str(&finish("stop"));
    said.push_str(DONE);
    let now = tokio::time::Instant::now();
    asked.end_stream().await;
    for call in aboard {
        let reply = call.await.unwrap();
        assert_eq!((reply.status.as_u16(), reply.broken), (200, false));
        assert!(reply.text() == said, "{} of {} bytes", reply.body.len(), said.len());
    }
    let whole: String = (0..PAST + 20).map(|number| format!("{number:06}").repeat(128 * 1024 / 6)).collect();
    for call in plain {
        let reply = call.await.unwrap();
        assert_eq!(
            reply.status,
            200,
            "{}",
            String::from_utf8_lossy(&reply.body[..200.min(reply.body.len())])
        );
        assert!(super::said(&reply) == whole, "{} bytes", reply.body.len());
    }
    assert_eq!(now.elapsed(), std::time::Duration::ZERO, "nobody was waited for");
    assert_idle(&world).await;
    // What is kept is the short one.
    let hit = world.ask(CHAT.stream()).await;
    assert_eq!((super::said(&hit).as_str(), hit.header("x-sluicegate-cache")), ("short", "hit"));
    assert_eq!(hand.count(), 2);
}

/// A plain answer is as bounded as a stream.
#[tokio::test(start_paused = true)]
async fn a_long_plain_answer_reaches_all_and_is_not_kept() {
    let hand = Hand::new();
    let world = Arc::new(World::around("", hand.clone()));
    let calls = [call(&world, CHAT.plain()), call(&world, CHAT.plain()), call(&world, CHAT.plain())];
    let mut asked = hand.asked().await;
    turns().await;
    let body = answer(&"long ".repeat(4 << 20));
    asked.whole("200 OK", JSON, &body).await;
    for call in calls {
        let reply = call.await.unwrap();
        assert!(reply.body == body.as_bytes() && !reply.broken, "{} of {}", reply.body.len(), body.len());
    }
    assert_idle(&world).await;
    assert_eq!((hand.count(), world.gate.shared().kept_bytes), (1, 0));
}

/// Once the flight holds nothing for late ones, the slowest paces it; one that takes nothing for half a minute while
/// others want to go on is given up.
#[tokio::test(start_paused = true)]
async fn one_that_takes_nothing_holds_nobody_up_for_long() {
    let hand = Hand::new();
    let world = Arc::new(World::around("", hand.clone()));
    let leader = call(&world, CHAT.stream());
    let mut asked = hand.asked().await;
    asked.open_stream().await;
    let mut stuck = world.client().await;
    let mut unread = stuck.send(CHAT.stream()).await;
    turns().await;
    let now = tokio::time::Instant::now();
    let mut whole = 0;
    for number in 0..PAST + 20 {
        asked.event(&piece(number)).await;
        whole += piece(number).len();
    }
    for event in [&finish("stop"), DONE] {
        asked.event(event).await;
        whole += event.len();
    }
    asked.end_stream().await;
    let leader = leader.await.unwrap();
    // While it waited there was a sign of life.
    let signs = leader.text().matches(SIGN).count();
    assert_eq!((leader.body.len(), leader.broken, signs), (whole + SIGN.len(), false, 1));
    assert_eq!(now.elapsed().as_secs(), 30);
    // It was told in a way that it can't take for the end.
    let mut read = Vec::new();
    let mut broken = false;
    while let Some(piece) = unread.next().await {
        match piece {
            Ok(piece) => read.extend_from_slice(&piece),
            Err(_) => broken = true,
        }
    }
    let read = String::from_utf8_lossy(&read).into_owned();
    assert!(read.len() < whole && !read.contains("[DONE]"));
    assert!(broken || read.contains("read too slowly"), "{}", &read[read.len() - 300..]);
    assert_idle(&world).await;
}

/// Past what all flights together may hold, the one that would hold more takes nobody more; those that hold theirs
/// already, and what is kept, are there as before. Once there is room again, flights are shared again.
#[tokio::test(start_paused = true)]
async fn past_the_total_calls_fly_alone() {
    const TOTAL: usize = 256 << 20;
    // Less than one flight's own bound, and what nineteen of them come to is past the total.
    const EACH: usize = 15 << 20;
    let hand = Hand::new();
    let world = Arc::new(World::around("", hand.clone()));
    let kept = call(&world, CHAT.with(json!({"seed": 1000})));
    hand.asked().await.whole("200 OK", JSON, &answer("kept")).await;
    kept.await.unwrap();
    let mut flights = Vec::new();
    let mut readers = JoinSet::new();
    for seed in 0..19 {
        let request = CHAT.with(json!({"stream": true, "seed": seed}));
        let (reading, request) = (world.clone(), request);
        readers.spawn(async move {
            let mut client = reading.client().await;
            let mut answer = client.send(request).await;
            while answer.next().await.is_some() {}
        });
        let mut asked = hand.asked().await;
        // No stream of events, so that nothing in it is looked for.
        let head =
            format!("HTTP/1.1 200 OK\r\ncontent-type: text/plain\r\ncontent-length: {}\r\n\r\n", EACH + 1);
        asked.write(head.as_bytes()).await;
        for _ in 0..EACH >> 20 {
            asked.write(&[b'x'; 1 << 20]).await;
        }
        turns().await;
        assert!(world.gate.shared().tape_bytes < TOTAL + (1 << 20), "{:?}", world.gate.shared());
        flights.push(asked);
    }
    assert!(world.gate.shared().tape_bytes > TOTAL - EACH, "{:?}", world.gate.shared());
    let before = hand.count();
    let aboard = |seed: u64| CHAT.with(json!({"stream": true, "seed": seed}));
    let mut first = world.client().await;
    let joined = first.send(aboard(0)).await;
    assert_eq!(joined.headers["x-sluicegate-cache"], "joined");
    let alone = call(&world, aboard(18));
    // Dropped at once: a connection that stays open would be used again.
    hand.asked().await.whole("200 OK", JSON, &answer("alone")).await;
    assert_eq!(fates(&[alone.await.unwrap()]), ["miss"]);
    assert_eq!(fates(&[world.ask(CHAT.with(json!({"seed": 1000}))).await]), ["hit"]);
    assert_eq!(hand.count(), before + 1);
    readers.shutdown().await;
    drop(joined);
    first.leave().await;
    drop(flights);
    assert_idle(&world).await;
    let two = [boarded(&world, CHAT.plain()).await, boarded(&world, CHAT.plain()).await];
    hand.asked().await.whole("200 OK", JSON, &answer("shared")).await;
    for call in two {
        assert_eq!(said(&call.await.unwrap()), "shared");
    }
    assert_eq!(hand.count(), before + 2);
}
