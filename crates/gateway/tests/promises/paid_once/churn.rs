//! Thousands that come and leave when they like.

use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};

use super::*;

const CALLERS: usize = 10_000;
const SEEDS: u64 = 12;

/// Each comes at a moment of its own within some seconds, asks for one of a few things, and stays or leaves.
#[tokio::test(start_paused = true)]
async fn nobody_is_stranded_nothing_is_paid_twice_and_nothing_is_left() {
    let (world, mock) = World::before(unhurried());
    let world = Arc::new(world);
    let references = Arc::strong_count(&world.gate);
    let expected: Arc<Vec<String>> = Arc::new({
        let mut expected = Vec::new();
        for seed in 0..SEEDS {
            expected.push(said(&from_provider(CHAT.with(json!({"seed": seed}))).await));
        }
        expected
    });
    let mut random = StdRng::seed_from_u64(65);
    let mut callers = JoinSet::new();
    for _ in 0..CALLERS {
        let (world, expected) = (world.clone(), expected.clone());
        let seed = random.random_range(0..SEEDS);
        let comes = millis(random.random_range(0..6000));
        let stays = random.random_bool(0.4).then(|| millis(random.random_range(1..2500)));
        let stream = random.random_bool(0.6);
        callers.spawn(async move {
            tokio::time::sleep(comes).await;
            let mut client = world.client().await;
            let asked = async {
                let answer = client.try_send(CHAT.with(json!({"seed": seed, "stream": stream}))).await;
                answer.expect("an answer").whole().await
            };
            let reply = match stays {
                None => Some(asked.await),
                Some(stays) => tokio::time::timeout(stays, asked).await.ok(),
            };
            client.leave().await;
            let Some(reply) = reply else { return false };
            assert_eq!((reply.status.as_u16(), reply.broken), (200, false), "{}", reply.text());
            assert_eq!(said(&reply), expected[seed as usize]);
            // Nobody waits longer than for one whole call.
            assert!(reply.took <= millis(1800), "{:?}", reply.took);
            true
        });
    }
    let whole = callers.join_all().await.into_iter().filter(|whole| *whole).count();
    assert!((6000..10_000).contains(&whole), "{whole}");
    assert_idle(&world).await;
    let records = world.records.all();
    assert_eq!(records.len(), CALLERS);
    let fate = |name: &str| records.iter().filter(|record| record.fate.as_str() == name).count();
    assert_eq!(fate("miss") as u64, mock.stats().arrived);
    assert_eq!(fate("miss") + fate("joined") + fate("hit"), CALLERS);
    assert!(fate("joined") > 500 && fate("hit") > 500, "{} joined, {} hit", fate("joined"), fate("hit"));
    // Each is asked for in two forms at most, and again only where all had left the first one.
    let cancelled = mock.stats().hang_ups.count;
    assert!(
        mock.stats().arrived <= 2 * SEEDS + cancelled,
        "{} calls, {cancelled} cancelled",
        mock.stats().arrived
    );
    assert_eq!(mock.stats().in_flight, 0);
    // Connections to the provider rest in a pool and may hold the gate; nobody else does.
    until(|| Arc::strong_count(&world.gate) <= references).await;
}
