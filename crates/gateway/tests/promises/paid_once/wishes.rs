//! What a caller asks for with `Cache-Control`.

use super::*;

fn world() -> (World, Arc<Mock>) {
    World::before(mock())
}

#[tokio::test(start_paused = true)]
async fn no_store_neither_joins_nor_reads_nor_writes() {
    let (world, mock) = World::before(unhurried());
    let world = Arc::new(world);
    let alone = || cache_control(CHAT.plain(), "no-store");
    // It leads nothing: neither its like nor others come aboard.
    let first = boarded(&world, alone()).await;
    assert_eq!(world.gate.shared().flights, 0);
    let replies = at_once(&world, vec![alone(), CHAT.plain(), alone(), CHAT.plain()]).await;
    assert_eq!(fates(&replies), ["bypass", "miss", "bypass", "joined"]);
    assert_eq!(fates(&[first.await.unwrap()]), ["bypass"]);
    assert_eq!(mock.stats().arrived, 4);
    // It reads nothing of what is there by now.
    assert_eq!(fates(&at_once(&world, vec![alone(), CHAT.plain()]).await), ["bypass", "hit"]);
    // It writes nothing.
    let other = || CHAT.with(json!({"seed": 1}));
    world.ask(cache_control(other(), "No-Store, max-age=60")).await;
    assert_eq!(fates(&[world.ask(other()).await]), ["miss"]);
    assert_eq!(mock.stats().arrived, 7);
}

#[tokio::test(start_paused = true)]
async fn no_cache_asks_anew_and_its_answer_is_for_all() {
    for directive in ["no-cache", "max-age=0"] {
        let (world, mock) = World::before(unhurried());
        let world = Arc::new(world);
        let anew = || cache_control(CHAT.plain(), directive);
        world.ask(CHAT.plain()).await;
        tokio::time::sleep(secs(100)).await;
        // Two of them are two calls. Who does not ask for that comes aboard, since a flight is looked for first.
        let replies = at_once(&world, vec![anew(), anew(), CHAT.plain()]).await;
        assert_eq!(fates(&replies), ["miss", "miss", "joined"], "{directive}");
        assert_eq!(replies[0].header("cache-status"), "sluicegate; fwd=request; stored");
        assert_eq!(mock.stats().arrived, 3);
        // What it brought has taken the place of what was there.
        tokio::time::sleep(secs(250)).await;
        let hit = world.ask(CHAT.plain()).await;
        assert_eq!((hit.header("x-sluicegate-cache"), hit.header("age")), ("hit", "250"));
        // Where nothing is kept, others come aboard of its flight; it comes aboard of nobody's.
        let other = || CHAT.with(json!({"seed": 1}));
        let first = boarded(&world, cache_control(other(), directive)).await;
        let replies = at_once(&world, vec![other(), cache_control(other(), directive), other()]).await;
        assert_eq!(fates(&replies), ["joined", "miss", "joined"]);
        assert_eq!(fates(&[first.await.unwrap()]), ["miss"]);
        assert_eq!(mock.stats().arrived, 5);
    }
}

#[tokio::test(start_paused = true)]
async fn max_age_bounds_how_old_an_answer_may_be() {
    let (world, mock) = world();
    world.ask(CHAT.plain()).await;
    tokio::time::sleep(secs(100)).await;
    let young = |age: u32| cache_control(CHAT.plain(), &format!("max-age={age}"));
    assert_eq!(fates(&[world.ask(young(101)).await, world.ask(young(100)).await]), ["hit", "hit"]);
    assert_eq!(mock.stats().arrived, 1);
    // Too old for this one: what it gets instead serves everybody.
    assert_eq!(fates(&[world.ask(young(99)).await, world.ask(young(1)).await]), ["miss", "hit"]);
    assert_eq!(world.ask(CHAT.plain()).await.header("age"), "0");
    assert_eq!(mock.stats().arrived, 2);
    // A running flight is younger than any age.
    let (world, mock) = World::before(unhurried());
    let world = Arc::new(world);
    let replies = at_once(&world, vec![young(1), young(5), CHAT.plain()]).await;
    assert_one_paid(&replies, &mock);
}

#[tokio::test(start_paused = true)]
async fn only_if_cached_asks_nobody() {
    let (world, mock) = world();
    let kept = |request, more: &str| cache_control(request, &format!("only-if-cached{more}"));
    let missing = |reply: &Reply| {
        assert_eq!((reply.status.as_u16(), reply.header("x-sluicegate-error")), (504, "not_cached"));
    };
    missing(&world.ask(kept(CHAT.plain(), "")).await);
    world.ask(CHAT.plain()).await;
    tokio::time::sleep(secs(10)).await;
    let hits =
        [world.ask(kept(CHAT.plain(), "")).await, world.ask(kept(CHAT.stream(), ", max-age=10")).await];
    assert_eq!(fates(&hits), ["hit", "hit"]);
    assert_eq!(said(&hits[0]), said(&hits[1]));
    missing(&world.ask(kept(CHAT.plain(), ", max-age=9")).await);
    missing(&world.ask(kept(CHAT.with(json!({"seed": 1})), "")).await);
    // Asked for and ruled out at once; and a call whose answer is never kept.
    missing(&world.ask(kept(CHAT.plain(), ", no-store")).await);
    missing(&world.ask(kept(CHAT.plain(), ", no-cache")).await);
    missing(&world.ask(kept(CHAT.with(json!({"n": 2})), "")).await);
    tokio::time::sleep(secs(291)).await;
    missing(&world.ask(kept(CHAT.plain(), "")).await);
    assert_eq!(mock.stats().arrived, 1);
    let refused = world.records.all().iter().filter(|record| record.fate.as_str() == "refused").count();
    assert_eq!(refused, 7);
}

/// An answer that a running flight will bring is no kept answer.
#[tokio::test(start_paused = true)]
async fn only_if_cached_does_not_wait_for_a_flight() {
    let (world, mock) = World::before(unhurried());
    let world = Arc::new(world);
    let running = boarded(&world, CHAT.plain()).await;
    let reply = world.ask(cache_control(CHAT.plain(), "only-if-cached")).await;
    assert_eq!((reply.header("x-sluicegate-error"), reply.took), ("not_cached", std::time::Duration::ZERO));
    running.await.unwrap();
    assert_eq!(mock.stats().arrived, 1);
}
