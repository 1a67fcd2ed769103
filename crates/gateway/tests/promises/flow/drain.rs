//! Going down with calls in the window, in the queue and at the door: who can still be answered is, and who can not
//! reads why.

use sluicegate::net::life::Step;
use tokio::time::Instant;

use super::*;

const LONG: &str = "[window]\nenabled = true\nmax_size = 100\nmax_wait = \"60s\"\n";

/// Plain, streamed, in the other protocol and over HTTP/2.
async fn of_all_kinds(world: &Arc<World>, h2: &H2) -> Vec<JoinHandle<Reply>> {
    let calls = vec![
        started(world, ask("plain")).await,
        started(world, ask_stream("streamed")).await,
        started(world, ask_claude("messages")).await,
        h2.start(ask("over http2")),
        h2.start(ask_stream("over http2, streamed")),
    ];
    turns().await;
    calls
}

#[tokio::test(start_paused = true)]
async fn a_waiting_window_flushes_at_once_and_everybody_is_answered() {
    let (world, spy) = before(LONG, millis(50));
    let h2 = H2::to(&world).await;
    let start = Instant::now();
    let mut calls = of_all_kinds(&world, &h2).await;
    calls.push(started(&world, ask("plain")).await);
    pause(1000).await;
    assert_eq!((spy.count(), levels(&world).2), (0, 5), "and one rides along");
    world.gate.drain();
    turns().await;
    assert_eq!(spy.times(start, |_| true), [millis(1000); 5]);
    for reply in all(calls).await {
        assert_eq!((reply.status.as_u16(), reply.broken), (200, false), "{}", reply.text());
    }
    assert!(start.elapsed() <= millis(1102), "{:?}", start.elapsed());
    assert_shutdown(&world.ask(ask("new")).await);
    assert_eq!(metric(&world, "sluicegate_waves_total{provider=\"openai\",cause=\"drain\"}"), 1);
    world.gate.life.empty().await;
    assert_idle(&world).await;
}

#[tokio::test(start_paused = true)]
async fn what_is_cut_in_the_window_or_the_queue_reads_why() {
    for settings in [LONG, "concurrency = 1\n"] {
        let (world, spy) = before(settings, secs(100));
        let h2 = H2::to(&world).await;
        let holds = if settings == LONG { None } else { Some(start(&world, ask("holds hang"))) };
        turns().await;
        let claude = start(&world, ask_claude("holds hang"));
        turns().await;
        let mut calls = of_all_kinds(&world, &h2).await;
        calls.push(started(&world, ask("plain")).await);
        pause(1000).await;
        world.gate.life.advance(Step::Draining);
        pause(1000).await;
        let sent = spy.count();
        let start = Instant::now();
        world.gate.life.advance(Step::Cut);
        for reply in all(calls).await {
            assert_shutdown(&reply);
            assert_eq!(reply.header("retry-after"), "1");
        }
        assert_shutdown(&claude.await.unwrap());
        if let Some(holds) = holds {
            assert_shutdown(&holds.await.unwrap());
        }
        assert_eq!(start.elapsed(), millis(0), "{settings}");
        assert_eq!(spy.count(), sent, "nothing is sent any more");
        world.gate.life.empty().await;
        assert_idle(&world).await;
        assert_eq!(spy.flying(), 0);
    }
}

#[tokio::test(start_paused = true)]
async fn queued_calls_go_on_while_they_can_still_start() {
    let (world, spy) = before("concurrency = 1\n", millis(100));
    let start = Instant::now();
    let mut calls = Vec::new();
    for number in 0..5 {
        calls.push(started(&world, ask(&number.to_string())).await);
    }
    world.gate.drain();
    for reply in all(calls).await {
        assert_eq!(reply.status, 200, "{}", reply.text());
    }
    assert_eq!(spy.times(start, |_| true), [0, 100, 200, 300, 400].map(millis));
    world.gate.life.empty().await;
    assert_idle(&world).await;
}

#[tokio::test(start_paused = true)]
async fn who_waits_at_the_door_goes_in_or_reads_why_not() {
    let settings = "[gate]\nmax_in_flight = 1\nmax_waiting = 10\nwait = \"30s\"\n";
    for cut in [false, true] {
        let (world, spy) = before(settings, secs(2));
        let h2 = H2::to(&world).await;
        let first = started(&world, ask("first")).await;
        let mut waiting =
            vec![started(&world, ask("second")).await, started(&world, ask_claude("third")).await];
        waiting.push(h2.start(ask("fourth")));
        turns().await;
        assert_eq!(at_door(&world), (1, 3));
        world.gate.drain();
        pause(100).await;
        assert_eq!(at_door(&world), (1, 3), "nobody is turned away who may still be served");
        if cut {
            world.gate.life.advance(Step::Cut);
        }
        for reply in all(waiting).await {
            if cut {
                assert_shutdown(&reply);
                assert!(reply.took <= millis(102), "{:?}", reply.took);
            } else {
                assert_eq!(reply.status, 200);
            }
        }
        let first = first.await.unwrap();
        assert_eq!(first.status, if cut { 503 } else { 200 });
        world.gate.life.empty().await;
        assert_eq!(spy.count(), if cut { 1 } else { 4 });
        assert_idle(&world).await;
    }
}

/// A window belongs to an account; one that a reload brought, and one whose key it changed, flush like any other.
#[tokio::test(start_paused = true)]
async fn windows_that_a_reload_brought_flush_too() {
    let (world, _spy) = before("", millis(10));
    reload(&world, LONG);
    let waits = started(&world, ask("x")).await;
    pause(100).await;
    world.gate.drain();
    assert_took(&waits.await.unwrap(), millis(110));
    assert_idle(&world).await;
}
