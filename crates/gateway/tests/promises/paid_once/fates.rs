//! What the gate tells of its calls is what the provider has counted.

use std::collections::HashMap;

use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};

use super::*;

const CALLS: usize = 3000;

/// Misses and bypasses are calls to the provider; joins and hits are none. Whatever happens.
#[tokio::test(start_paused = true)]
async fn misses_and_bypasses_are_what_the_provider_has_counted() {
    for seed in 0..2 {
        let (world, mock) = World::with("[cache]\nttl = \"4s\"\n", unhurried());
        let world = Arc::new(world);
        let mut random = StdRng::seed_from_u64(seed);
        let mut calls = JoinSet::new();
        for _ in 0..CALLS {
            let kind = KINDS[random.random_range(0..4)];
            let mut fields = json!({"stream": random.random_bool(0.5), "temperature": random.random_range(0..5) as f64 / 10.0});
            if random.random_bool(0.05) && kind.path.ends_with("completions") {
                fields["n"] = json!(2);
            }
            let mut request = kind.with(fields);
            match random.random_range(0..20) {
                0 => request = cache_control(request, "no-store"),
                1 => request = cache_control(request, "no-cache"),
                2 => request = cache_control(request, "max-age=2"),
                3 => request = head(request, "x-sluicegate-timeout", "900ms"),
                4 => request = head(request, "idempotency-key", "k"),
                5 => request = cache_control(request, "only-if-cached"),
                _ => {}
            }
            let comes = millis(random.random_range(0..24_000));
            let leaves = random.random_bool(0.2).then(|| millis(random.random_range(1..2000)));
            let world = world.clone();
            calls.spawn(async move {
                tokio::time::sleep(comes).await;
                let mut client = world.client().await;
                let asked = async { client.try_send(request).await.expect("an answer").whole().await };
                let reply = match leaves {
                    None => Some(asked.await),
                    Some(leaves) => tokio::time::timeout(leaves, asked).await.ok(),
                };
                client.leave().await;
                reply.map(|reply| {
                    (reply.header("x-sluicegate-cache").to_owned(), reply.header("x-request-id").to_owned())
                })
            });
        }
        let told: Vec<_> = calls.join_all().await.into_iter().flatten().collect();
        assert_idle(&world).await;
        let records = world.records.all();
        assert_eq!(records.len(), CALLS);
        let fate = |name: &str| records.iter().filter(|record| record.fate.as_str() == name).count() as u64;
        assert_eq!(fate("miss") + fate("bypass"), mock.stats().arrived, "seed {seed}");
        assert_eq!(
            fate("miss") + fate("bypass") + fate("joined") + fate("hit") + fate("refused"),
            CALLS as u64
        );
        for name in ["miss", "bypass", "joined", "hit", "refused"] {
            assert!(fate(name) > 10, "{name}: {}", fate(name));
        }
        // A refusal says nothing of flights; what every answer says is what is booked.
        let booked: HashMap<_, _> =
            records.iter().map(|record| (record.id.to_string(), record.fate.as_str())).collect();
        let mut compared = 0;
        for (fate, id) in told.iter().filter(|(fate, _)| !fate.is_empty()) {
            assert_eq!(booked[id], fate);
            compared += 1;
        }
        assert!(compared > CALLS / 2, "{compared}");
    }
}
