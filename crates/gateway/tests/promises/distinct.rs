//! Different calls never wait for each other.

use tokio::task::JoinSet;

use crate::world::*;

async fn at_once(world: World, calls: usize) -> Vec<Reply> {
    let world = std::sync::Arc::new(world);
    let mut running = JoinSet::new();
    for number in 0..calls {
        let world = world.clone();
        running.spawn(
            async move { world.post("/v1/chat/completions", chat(&format!("number {number}"))).await },
        );
    }
    running.join_all().await
}

#[tokio::test(start_paused = true)]
async fn twenty_take_the_time_of_one() {
    let (world, mock) = World::before(mock_after(millis(1500)));
    for reply in at_once(world, 20).await {
        assert_eq!(reply.status, 200, "{}", reply.text());
        assert!(reply.took <= millis(1600), "{:?}", reply.took);
    }
    assert_eq!(mock.stats().most_in_flight, 20);
}

#[tokio::test(start_paused = true)]
async fn a_thousand_are_in_flight_together() {
    let (world, mock) = World::before(mock_after(millis(300)));
    for reply in at_once(world, 1000).await {
        assert_eq!(reply.status, 200, "{}", reply.text());
        assert!(reply.took <= millis(400), "{:?}", reply.took);
    }
    assert_eq!(mock.stats().most_in_flight, 1000);
}

#[tokio::test(start_paused = true)]
async fn a_cap_holds_and_everybody_is_answered() {
    let (world, mock) = World::with("concurrency = 64\n", mock_after(millis(300)));
    for reply in at_once(world, 1000).await {
        assert_eq!(reply.status, 200, "{}", reply.text());
        assert!(reply.took <= secs(6), "{:?}", reply.took);
    }
    assert_eq!(mock.stats().most_in_flight, 64);
}

#[tokio::test(start_paused = true)]
async fn http2_has_no_staircase() {
    let file = "[providers.openai]\nbase_url = \"http://127.0.0.1:1/v1\"\nhttp = \"2\"\n";
    let (world, mock) = World::with(file, mock_after(secs(1)));
    for reply in at_once(world, 500).await {
        assert_eq!(reply.status, 200, "{}", reply.text());
        assert!(reply.took <= millis(1200), "{:?}", reply.took);
    }
    let connections = mock.stats().connections.opened;
    assert!((5..=10).contains(&connections), "{connections} connections");
}
