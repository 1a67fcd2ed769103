//! Every caller waits as long as it said itself. Nobody waits shorter for somebody else's haste.

use super::*;

/// Its answer takes a minute.
async fn slow() -> (Arc<World>, Arc<Mock>) {
    let (world, mock) = World::before(mock_after(secs(60)));
    (Arc::new(world), mock)
}

const HASTES: [(&str, &str); 3] =
    [("x-sluicegate-timeout", "5s"), ("x-stainless-timeout", "5"), ("x-stainless-read-timeout", "5")];

#[tokio::test(start_paused = true)]
async fn the_first_ones_haste_is_its_own() {
    for ((name, value), stream) in HASTES.iter().flat_map(|haste| [(haste, false), (haste, true)]) {
        let request = || if stream { CHAT.stream() } else { CHAT.plain() };
        let (world, mock) = slow().await;
        let first = boarded(&world, head(request(), name, value)).await;
        let others = at_once(&world, (0..10).map(|_| request()).collect()).await;
        let first = first.await.unwrap();
        assert_eq!(
            (first.status.as_u16(), first.header("x-sluicegate-error")),
            (504, "deadline_exceeded"),
            "{name}"
        );
        assert_eq!(first.took.as_secs(), 5, "{name}");
        assert_all_equal(&others);
        assert_eq!(count(&others, "joined"), 10);
        assert_eq!(mock.stats().arrived, 1);
        // It was its call that was paid, whatever became of its own wait.
        let records = world.records.all();
        let first = records.iter().find(|record| record.error.is_some()).unwrap();
        assert_eq!((first.fate.as_str(), first.attempts), ("miss", 1), "{name}");
        assert_idle(&world).await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_joiners_haste_is_its_own() {
    for (name, value) in HASTES {
        for (leads_stream, stream) in [(false, false), (true, false), (true, true)] {
            let (world, mock) = slow().await;
            let first = boarded(&world, if leads_stream { CHAT.stream() } else { CHAT.plain() }).await;
            tokio::time::sleep(secs(2)).await;
            let hasty = head(if stream { CHAT.stream() } else { CHAT.plain() }, name, value);
            let hasty = world.ask(hasty).await;
            assert_eq!(
                (hasty.status.as_u16(), hasty.header("x-sluicegate-error")),
                (504, "deadline_exceeded")
            );
            assert_eq!(hasty.took.as_secs(), 5, "{name}: counted from its own arrival");
            let first = first.await.unwrap();
            assert_eq!(first.status, 200);
            assert_eq!(mock.stats().arrived, 1);
            let fates: Vec<_> = world.records.all().iter().map(|record| record.fate.as_str()).collect();
            assert_eq!(fates, ["joined", "miss"]);
        }
    }
}

/// Once an answer has begun, who waits no longer gets the error as an event, alone.
#[tokio::test(start_paused = true)]
async fn haste_in_the_middle_of_a_stream() {
    let hand = Hand::new();
    let world = Arc::new(World::around("", hand.clone()));
    let first = call(&world, CHAT.stream());
    let mut asked = hand.asked().await;
    asked.open_stream().await;
    asked.event(&text("one ")).await;
    let total = boarded(&world, head(CHAT.stream(), "x-sluicegate-timeout", "5s")).await;
    let pause = boarded(&world, head(CHAT.stream(), "x-stainless-read-timeout", "3")).await;
    tokio::time::sleep(secs(2)).await;
    asked.event(&text("two ")).await;
    let pause = pause.await.unwrap();
    let total = total.await.unwrap();
    assert_eq!(
        (pause.took.as_secs(), total.took.as_secs()),
        (5, 5),
        "three seconds after the second word, or five in all"
    );
    for reply in [&pause, &total] {
        assert_eq!((said(reply).as_str(), reply.broken), ("one two ", false));
        assert!(reply.text().contains("deadline_exceeded"), "{}", reply.text());
    }
    for event in [&text("three"), &finish("stop"), USAGE, DONE] {
        asked.event(event).await;
    }
    asked.end_stream().await;
    let first = first.await.unwrap();
    assert_eq!(said(&first), "one two three");
    assert!(!first.text().contains("error"));
}

/// The place in the queue is the flight's: who comes aboard has it too, and who has little time need not turn away
/// from a queue in which it does not stand.
#[tokio::test(start_paused = true)]
async fn a_full_queue_turns_nobody_away_who_needs_no_permit() {
    let (world, mock) = World::with("concurrency = 1\n", mock_after(millis(200)));
    let world = Arc::new(world);
    let kept = || CHAT.with(json!({"seed": 0}));
    let mut queued = Vec::new();
    for number in 0..100 {
        queued.push(boarded(&world, CHAT.with(json!({"seed": number}))).await);
    }
    // The lane has learned how fast it drains: a call every 200 ms.
    until(|| mock.stats().arrived == 30).await;
    let running = boarded(&world, CHAT.with(json!({"seed": 29}))).await;
    tokio::time::sleep(millis(170)).await;
    let hasty = |request| head(request, "x-sluicegate-timeout", "50ms");
    let hopeless = world.ask(hasty(CHAT.with(json!({"seed": 999})))).await;
    assert_eq!(hopeless.header("x-sluicegate-error"), "deadline_exceeded");
    assert_eq!(hopeless.took, std::time::Duration::ZERO, "no permit would come in time");
    let hit = world.ask(hasty(kept())).await;
    assert_eq!((hit.status.as_u16(), hit.header("x-sluicegate-cache")), (200, "hit"), "{}", hit.text());
    let joined = world.ask(hasty(CHAT.with(json!({"seed": 29})))).await;
    assert_eq!(
        (joined.status.as_u16(), joined.header("x-sluicegate-cache")),
        (200, "joined"),
        "{}",
        joined.text()
    );
    assert_eq!(running.await.unwrap().status, 200);
    queued.iter().for_each(JoinHandle::abort);
}

/// What the first one said of its own place in the queue is no field of the question.
#[tokio::test(start_paused = true)]
async fn what_is_said_to_the_gate_alone_changes_no_key() {
    let (world, mock) = slow().await;
    let requests = [
        ("x-sluicegate-priority", "low"),
        ("x-sluicegate-priority", "high"),
        ("x-sluicegate-tags", "team=a"),
        ("x-sluicegate-timeout", "500s"),
        ("x-request-id", "mine"),
        ("x-stainless-retry-count", "2"),
        ("user-agent", "somebody else"),
    ];
    let requests = requests.map(|(name, value)| head(CHAT.plain(), name, value));
    let replies = at_once(&world, requests.into()).await;
    assert_one_paid(&replies, &mock);
    assert_eq!(replies[4].header("x-request-id"), "mine");
    let ids: std::collections::HashSet<_> =
        replies.iter().map(|reply| reply.header("x-request-id")).collect();
    assert_eq!(ids.len(), replies.len(), "each has an id of its own");
}
