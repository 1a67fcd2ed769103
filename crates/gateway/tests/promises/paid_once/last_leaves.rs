//! The call to the provider lives as long as somebody waits for it, and no longer.

use super::*;

/// Opens so many calls of one kind on connections of their own, and gives what ends them all.
async fn waiting(
    world: &Arc<World>,
    count: usize,
    request: impl Fn() -> Request<Full<Bytes>>,
) -> Vec<JoinHandle<()>> {
    let calls = (0..count).map(|_| {
        let (world, request) = (world.clone(), request());
        by_itself(async move {
            let mut client = world.client().await;
            if let Ok(mut answer) = client.try_send(request).await {
                while answer.next().await.is_some() {}
            }
        })
    });
    let calls = calls.collect();
    until(|| world.gate.life.calls() == count).await;
    calls
}

#[tokio::test(start_paused = true)]
async fn before_the_first_byte_and_after_it() {
    for (callers, stream, begun) in [
        (1, false, false),
        (1, true, false),
        (1, true, true),
        (50, false, false),
        (50, true, false),
        (50, true, true),
    ] {
        let hand = Hand::new();
        let world = Arc::new(World::around("", hand.clone()));
        let calls = waiting(&world, callers, || if stream { CHAT.stream() } else { CHAT.plain() }).await;
        let mut asked = hand.asked().await;
        if begun {
            asked.open_stream().await;
            asked.event(&text("hello")).await;
        }
        tokio::time::sleep(secs(1)).await;
        let (last, others) = calls.split_last().unwrap();
        for call in others {
            call.abort();
        }
        until(|| world.gate.life.calls() == 1).await;
        assert!(tokio::time::timeout(secs(5), asked.gone()).await.is_err(), "one is still waiting");
        last.abort();
        let took = asked.gone().await;
        assert!(took <= millis(100), "{callers} callers, stream {stream}, begun {begun}: {took:?}");
        assert_idle(&world).await;
        assert_eq!(hand.count(), 1);
        // Nothing of it is left to be joined or hit.
        let again = call(&world, CHAT.plain());
        let mut asked = hand.asked().await;
        asked.whole("200 OK", JSON, &answer("yes")).await;
        assert_eq!(fates(&[again.await.unwrap()]), ["miss"]);
    }
}

#[tokio::test(start_paused = true)]
async fn what_is_worth_finishing_is_finished_and_kept() {
    for (callers, begun) in [(1, false), (1, true), (20, false), (20, true)] {
        let hand = Hand::new();
        let world = Arc::new(World::around("[coalesce]\nfinish_abandoned = true\n", hand.clone()));
        let calls = waiting(&world, callers, || CHAT.stream()).await;
        let mut asked = hand.asked().await;
        if begun {
            asked.open_stream().await;
            asked.event(&text("all ")).await;
        }
        for call in &calls {
            call.abort();
        }
        until(|| world.gate.life.calls() == 0).await;
        if !begun {
            asked.open_stream().await;
            asked.event(&text("all ")).await;
        }
        // Who comes meanwhile rides along.
        let late = boarded(&world, CHAT.stream()).await;
        for event in [&text("is well"), &finish("stop"), USAGE, DONE] {
            asked.event(event).await;
        }
        asked.end_stream().await;
        let late = late.await.unwrap();
        assert_eq!((said(&late).as_str(), late.header("x-sluicegate-cache")), ("all is well", "joined"));
        let hit = world.ask(CHAT.plain()).await;
        assert_eq!((said(&hit).as_str(), hit.header("x-sluicegate-cache")), ("all is well", "hit"));
        assert_eq!(hand.count(), 1);
        assert_idle(&world).await;
    }
}

/// A call whose answer nobody may keep is not worth a token more once nobody waits.
#[tokio::test(start_paused = true)]
async fn what_can_not_be_kept_is_not_finished() {
    let settings = "[coalesce]\nfinish_abandoned = true\n";
    for (request, callers) in
        [(CHAT.with(json!({"stream": true, "n": 2})), 1), (cache_control(CHAT.stream(), "no-store"), 1)]
    {
        let hand = Hand::new();
        let world = Arc::new(World::around(settings, hand.clone()));
        let calls = waiting(&world, callers, || request.clone()).await;
        let mut asked = hand.asked().await;
        calls[0].abort();
        assert!(asked.gone().await <= millis(100));
    }
    // Nor is one that has grown too long to be kept.
    let hand = Hand::new();
    let world = Arc::new(World::around(settings, hand.clone()));
    let calls = waiting(&world, 2, || CHAT.stream()).await;
    let mut asked = hand.asked().await;
    asked.open_stream().await;
    let long = chunk(text(&"x".repeat(1 << 20)).as_bytes());
    for _ in 0..10 {
        assert!(asked.offer(&long).await);
    }
    for call in &calls {
        call.abort();
    }
    until(|| world.gate.life.calls() == 0).await;
    let mut taken = 10;
    while asked.offer(&long).await {
        taken += 1;
        assert!(taken < 30, "it goes on for nobody");
    }
    assert!(taken >= 15, "{taken}: as long as it may be kept it goes on");
    assert_idle(&world).await;
}
