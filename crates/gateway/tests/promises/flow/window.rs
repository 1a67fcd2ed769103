//! Calls that gather in a window leave it together, and each goes on by itself.

use std::sync::Arc;

use sim::mock::Mock;
use tokio::task::JoinSet;
use tokio::time::Instant;

use crate::world::*;

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

fn before(settings: &str, mock: sim::mock::Options) -> (Arc<World>, Arc<Mock>) {
    let (world, mock) = World::with(settings, mock);
    (Arc::new(world), mock)
}

#[tokio::test(start_paused = true)]
async fn a_wave_passes_in_its_ideal_time_under_the_cap() {
    let (world, mock) = before(WINDOW, mock_after(millis(50)));
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
    let (world, _mock) = before(WINDOW, mock_after(millis(50)));
    let reply = world.post("/v1/chat/completions", chat("x")).await;
    assert_eq!(reply.status, 200);
    assert!(reply.took >= millis(70) && reply.took <= millis(72), "{:?}", reply.took);
    let queue = world.records.last().queue;
    assert!(queue >= millis(20) && queue <= millis(22), "{queue:?}");
}
