//! Thousands that leave where they like, at a provider that fails as it likes: at the end nothing is held.

use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};

use super::*;

const CALLS: usize = 2000;

/// All guards at once, each of them narrow.
const NARROW: &str = "concurrency = 12\nkeep_alive = \"150ms\"\n[window]\nenabled = true\nmax_size = 8\nmax_wait = \"20ms\"\n\
    [queue]\nmax = 40\nper_key = 30\ntimeout = \"400ms\"\nparallel_per_key = 7\nmax_bytes = \"64KiB\"\n\
    [gate]\nmax_in_flight = 150\nmax_waiting = 30\nwait = \"100ms\"\n\
    [timeouts]\nfirst_byte = \"500ms\"\nstall = \"300ms\"\n";

/// Something that a client may ask, and how long it stays for the answer at most.
fn any(random: &mut StdRng) -> (Request<Full<Bytes>>, Option<Duration>) {
    let fate = match random.random_range(0..20) {
        0 => "hang".to_owned(),
        1 => "cut".to_owned(),
        2 => "stall".to_owned(),
        3 => "status=500".to_owned(),
        4 => "status=429".to_owned(),
        _ => format!("takes={}", random.random_range(0..120)),
    };
    // Some are equal.
    let number = random.random_range(0..1500);
    let long = if random.random_bool(0.02) { "x".repeat(20_000) } else { String::new() };
    let prompt = format!("{number} {fate} {long}");
    let mut asked = match random.random_range(0..10) {
        0..5 => ask(&prompt),
        5..9 => ask_stream(&prompt),
        _ => ask_claude(&prompt),
    };
    asked = by(&format!("key {}", random.random_range(0..4)), asked);
    if random.random_bool(0.1) {
        asked = with(asked, "x-sluicegate-timeout", &format!("{}ms", random.random_range(1..300)));
    }
    if random.random_bool(0.1) {
        asked = with(asked, "x-sluicegate-priority", ["high", "low"][random.random_range(0..2)]);
    }
    if random.random_bool(0.2) {
        asked = with(asked, "cache-control", "no-store");
    }
    (asked, random.random_bool(0.4).then(|| millis(random.random_range(1..250))))
}

async fn storm(seed: u64, reloads: bool) {
    let (world, spy) = before(NARROW, millis(30));
    let mut random = StdRng::seed_from_u64(seed);
    let mut lines = Vec::new();
    for _ in 0..3 {
        lines.push(Arc::new(H2::to(&world).await));
    }
    let mut callers = JoinSet::new();
    for _ in 0..CALLS {
        let world = world.clone();
        let (asked, stays) = any(&mut random);
        let comes = millis(random.random_range(0..4000));
        let line = random.random_bool(0.3).then(|| lines[random.random_range(0..lines.len())].clone());
        callers.spawn(async move {
            tokio::time::sleep(comes).await;
            let mut call = match line {
                Some(line) => line.start(asked),
                None => start(&world, asked),
            };
            match stays {
                Some(stays) => match tokio::time::timeout(stays, &mut call).await {
                    Ok(reply) => Some(reply.unwrap().status.as_u16()),
                    Err(_) => {
                        call.abort();
                        None
                    }
                },
                None => Some(call.await.unwrap().status.as_u16()),
            }
        });
    }
    if reloads {
        let world = world.clone();
        let widths: Vec<(u32, u32, bool, u32)> = (0..80)
            .map(|_| {
                let door = if random.random_bool(0.3) { 0 } else { random.random_range(20..200) };
                (random.random_range(1..20), random.random_range(1..12), random.random_bool(0.7), door)
            })
            .collect();
        callers.spawn(async move {
            for (permits, window, on, door) in widths {
                pause(50).await;
                let settings = NARROW
                    .replace("concurrency = 12", &format!("concurrency = {permits}"))
                    .replace("max_size = 8", &format!("max_size = {window}"))
                    .replace("enabled = true", &format!("enabled = {on}"))
                    .replace("max_in_flight = 150", &format!("max_in_flight = {door}"));
                reload(&world, &settings);
            }
            reload(&world, NARROW);
            None
        });
    }
    let mut statuses = std::collections::BTreeMap::<u16, usize>::new();
    for status in callers.join_all().await.into_iter().flatten() {
        *statuses.entry(status).or_default() += 1;
    }
    for status in [200, 429, 500, 502, 504] {
        assert!(statuses.get(&status).is_some_and(|count| *count > 5), "{status}: {statuses:?}");
    }
    // The longest wait that is left is the provider's for its first byte, or a stall.
    pause(2000).await;
    assert_idle(&world).await;
    assert_eq!(spy.flying(), 0);
    let records = world.records.all();
    assert_eq!(records.len(), CALLS, "each is settled once");
    for record in &records {
        assert!(record.queue <= record.total, "{record:?}");
    }
    for reason in ["queue_full", "queue_timeout", "deadline"] {
        let seen =
            records.iter().filter(|r| r.error.as_ref().is_some_and(|e| e.reason == Some(reason))).count();
        assert!(seen > 0, "{reason}");
    }
    if !reloads {
        assert!(spy.most() <= 24, "{}: twelve at each of two providers", spy.most());
    }
    // As if nothing had been; alone in the window.
    let reply = world.ask(ask("at last takes=30")).await;
    assert_eq!(reply.status, 200);
    assert_took(&reply, millis(50));
}

#[tokio::test(start_paused = true)]
async fn whoever_leaves_wherever_leaves_nothing_behind() {
    storm(1, false).await;
}

#[tokio::test(start_paused = true)]
async fn nor_does_a_reload_in_the_middle_of_it() {
    storm(2, true).await;
}
