//! Too many at once: those who can be served are, in a fair order, and all others are told at once.

use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use tokio::time::Instant;

use super::*;

/// One at a time, and a few in the queue.
fn one(queue: &str) -> String {
    format!("concurrency = 1\n[queue]\n{queue}\n")
}

fn percentile(mut times: Vec<Duration>, percent: usize) -> Duration {
    times.sort();
    times[(times.len() * percent).div_ceil(100) - 1]
}

#[tokio::test(start_paused = true)]
async fn twice_what_fits_is_served_as_fast_as_it_can_be_and_the_rest_is_told_at_once() {
    let settings = "concurrency = 8\n[queue]\nmax = 8\ntimeout = \"50ms\"\n";
    for protocol in [ask, ask_claude] {
        let (world, spy) = before(settings, millis(20));
        let start = Instant::now();
        let mut calls = Vec::new();
        for number in 0..1600 {
            let world = world.clone();
            calls.push(by_itself(async move {
                tokio::time::sleep(secs(2) * number / 1600).await;
                let reply = world.ask(protocol(&number.to_string())).await;
                (start.elapsed(), reply)
            }));
        }
        let (mut good, mut refused) = (0, 0);
        for call in calls {
            let (at, reply) = call.await.unwrap();
            if reply.status == 200 {
                assert!(reply.took <= millis(45), "{:?}", reply.took);
                good += u64::from(at <= secs(2));
                continue;
            }
            refused += 1;
            assert_overloaded(&reply, "queue_full");
            assert_eq!(reply.took, millis(0));
            assert_eq!(reply.header("content-type"), "application/json");
            let error = reply.json();
            if reply.headers.contains_key("request-id") {
                assert_eq!(
                    (&error["type"], &error["error"]["type"]),
                    (&"error".into(), &"rate_limit_error".into())
                );
            } else {
                assert_eq!(error["error"]["code"], "overloaded");
            }
            assert!(error["error"]["message"].as_str().unwrap().contains("too many calls are waiting"));
        }
        assert!(good >= 776, "{good} of 800");
        assert_eq!(spy.count() as u64 + refused, 1600);
        assert_eq!(spy.most(), 8);
        let refusals = "sluicegate_refusals_total{code=\"overloaded\",reason=\"queue_full\"}";
        assert_eq!(metric(&world, refusals), refused);
        assert_eq!(metric(&world, "sluicegate_shed_total{"), refused);
        let log = world.log();
        assert_eq!(log.matches("status=429").count() as u64, refused);
        assert!(log.contains("fate=refused status=429 queue=0ms"), "{}", &log[..2000]);
        assert_idle(&world).await;
    }
}

/// One that brings a hundred times as many calls as another costs that one next to nothing.
#[tokio::test(start_paused = true)]
async fn a_small_key_beside_a_hundred_times_larger_one_is_served_as_if_it_were_alone() {
    let settings = "concurrency = 8\n[queue]\nmax = 64\n";
    let mut p99 = Vec::new();
    for crowded in [false, true] {
        let (world, _spy) = before(settings, millis(20));
        let mut random = StdRng::seed_from_u64(7);
        let mut calls = Vec::new();
        for round in 0..50 {
            let mut bring = |key: &'static str, count: u32| {
                for number in 0..count {
                    let world = world.clone();
                    let takes = random.random_range(10..=30);
                    let at = millis(round * 100 + random.random_range(0..100));
                    calls.push(by_itself(async move {
                        tokio::time::sleep(at).await;
                        let asked = by(key, ask(&format!("{key} {round} {number} takes={takes}")));
                        (key, world.ask(asked).await)
                    }));
                }
            };
            bring("small", 1);
            if crowded {
                bring("big", 100);
            }
        }
        let mut times = Vec::new();
        let mut big = 0;
        for call in calls {
            let (key, reply) = call.await.unwrap();
            if key == "small" {
                assert_eq!(reply.status, 200, "crowded: {crowded}: {}", reply.text());
                times.push(reply.took);
            } else {
                big += u64::from(reply.status == 200);
            }
        }
        assert!(!crowded || big > 1800, "the large one has all the rest: {big} of 2000");
        p99.push(percentile(times, 99));
        assert_idle(&world).await;
    }
    assert!(p99[1] <= p99[0] * 3 / 2, "{:?} instead of {:?}", p99[1], p99[0]);
}

#[tokio::test(start_paused = true)]
async fn inside_a_key_the_more_urgent_goes_first_and_ahead_of_nobody_else() {
    let (world, spy) = before(&one(""), millis(100));
    let mut calls = vec![started(&world, by("other", ask("first"))).await];
    for (key, prompt, priority) in [
        ("a", "a low", "low"),
        ("a", "a normal", "normal"),
        ("a", "a high", "high"),
        ("a", "a high too", "HIGH"),
        ("b", "b low", "low"),
        ("b", "b low too", "low"),
    ] {
        calls.push(started(&world, by(key, with(ask(prompt), "x-sluicegate-priority", priority))).await);
    }
    all(calls).await;
    assert_eq!(spy.prompts(), ["first", "a high", "b low", "a high too", "b low too", "a normal", "a low"]);
}

#[tokio::test(start_paused = true)]
async fn inside_a_key_the_earlier_deadline_goes_first() {
    let (world, spy) = before(&one(""), millis(100));
    let mut calls = vec![started(&world, ask("first")).await];
    for (prompt, timeout) in [("a", "9s"), ("b", "3s"), ("c", "6s"), ("d", "3s")] {
        calls.push(started(&world, with(ask(prompt), "x-sluicegate-timeout", timeout)).await);
    }
    calls.push(started(&world, ask("e")).await);
    all(calls).await;
    assert_eq!(spy.prompts(), ["first", "b", "d", "c", "a", "e"]);
}

#[tokio::test(start_paused = true)]
async fn one_key_has_no_more_at_once_than_it_may_and_others_pass_it() {
    let (world, spy) = before("concurrency = 10\n[queue]\nparallel_per_key = 2\n", millis(100));
    let start = Instant::now();
    let mut calls = Vec::new();
    for number in 0..5 {
        calls.push(started(&world, by("a", ask(&format!("a {number}")))).await);
    }
    calls.push(started(&world, by("b", ask("b"))).await);
    // The key is one, whatever protocol or form it is used in.
    calls.push(started(&world, by("a", ask_stream("a stream"))).await);
    assert!(all(calls).await.iter().all(|reply| reply.status == 200));
    assert_eq!(spy.times(start, |seen| seen.prompt.starts_with('a')), [0, 0, 100, 100, 200, 200].map(millis));
    assert_eq!(spy.times(start, |seen| seen.prompt == "b"), [millis(0)]);
    reload(&world, "concurrency = 10\n");
    let start = Instant::now();
    let calls = (0..5).map(|number| start_by(&world, "a", &format!("again {number}"))).collect::<Vec<_>>();
    all(calls).await;
    assert_eq!(spy.times(start, |seen| seen.prompt.starts_with("again")), [millis(0); 5]);
    assert_idle(&world).await;
}

fn start_by(world: &Arc<World>, key: &str, prompt: &str) -> JoinHandle<Reply> {
    start(world, by(key, ask(prompt)))
}

fn of_model(model: &str, prompt: &str) -> Request<Full<Bytes>> {
    let body = serde_json::json!({"model": model, "messages": [{"role": "user", "content": prompt}]});
    request(Method::POST, CHAT, body.to_string())
}

#[tokio::test(start_paused = true)]
async fn a_models_own_bound_holds_by_whatever_name_it_is_asked_for() {
    let settings = format!(
        "concurrency = 10\n[[models]]\nname = \"few\"\n\
         targets = [{{ provider = \"openai\", model = \"gpt-x\", concurrency = 2 }}]\n{PROVIDERS}"
    );
    let (world, spy) = before(&settings, millis(100));
    let start = Instant::now();
    let mut calls = Vec::new();
    for (number, model) in ["few", "few", "few", "openai/gpt-x", "gpt-x", "gpt-y"].into_iter().enumerate() {
        calls.push(started(&world, of_model(model, &number.to_string())).await);
    }
    calls.push(started(&world, by("another", of_model("few", "6"))).await);
    for (number, reply) in all(calls).await.into_iter().enumerate() {
        assert_eq!(reply.status, 200, "{number}: {}", reply.text());
    }
    assert_eq!(spy.times(start, |seen| seen.model == "gpt-x"), [0, 0, 100, 100, 200, 200].map(millis));
    assert_eq!(
        spy.times(start, |seen| seen.model == "gpt-y"),
        [millis(0)],
        "it is passed over, and not behind"
    );
    // A reload that lifts it starts who waits; one that sets it again interrupts nobody.
    let calls: Vec<_> =
        (10..16).map(|number| super::start(&world, of_model("few", &number.to_string()))).collect();
    pause(50).await;
    let start = Instant::now();
    world.gate.adopt(Arc::new(
        config::parse_text(&settings.replace("concurrency = 2", "concurrency = 5")).unwrap(),
    ));
    pause(10).await;
    assert_eq!(spy.times(start - millis(50), |seen| seen.prompt.len() == 2), [0, 0, 50, 50, 50].map(millis));
    world.gate.adopt(Arc::new(config::parse_text(&settings).unwrap()));
    assert!(all(calls).await.iter().all(|reply| reply.status == 200));
    assert_idle(&world).await;
}

#[tokio::test(start_paused = true)]
async fn a_full_queue_makes_room_for_another_key_and_tells_who_gave_way_at_once() {
    let (world, spy) = before(&one("max = 3"), millis(100));
    let mut flood = Vec::new();
    for number in 0..4 {
        flood.push(started(&world, by("flood", ask(&format!("flood {number}")))).await);
    }
    pause(30).await;
    let small = started(&world, by("small", ask("small"))).await;
    let replies = all(flood).await;
    assert_overloaded(&replies[3], "queue_full");
    assert_took(&replies[3], millis(30));
    assert_eq!(small.await.unwrap().status, 200);
    // The key of the call that runs is not served twice before the other.
    assert!(spy.prompts()[..3].contains(&"small".to_owned()), "{:?}", spy.prompts());
    assert_eq!(spy.count(), 4);
    // Nobody of its own is displaced.
    let mut calls = Vec::new();
    for number in 0..5 {
        calls.push(started(&world, by("flood", ask(&format!("again {number}")))).await);
    }
    let replies = all(calls).await;
    assert_overloaded(&replies[4], "queue_full");
    assert_eq!(replies[4].took, millis(0));
    assert!(replies[..4].iter().all(|reply| reply.status == 200));
    assert_idle(&world).await;
}

#[tokio::test(start_paused = true)]
async fn long_requests_fill_it_by_their_bytes() {
    let (world, _spy) = before(&one("max_bytes = \"1MiB\""), millis(100));
    let long = |name: &str, size: usize| ask(&format!("{name} {}", "x".repeat(size)));
    let mut calls = vec![started(&world, by("a", long("0", 10))).await];
    for number in 1..3 {
        calls.push(started(&world, by("a", long(&number.to_string(), 500_000))).await);
    }
    let bytes = metric(&world, "sluicegate_queue_bytes{");
    assert!((1_000_000..1 << 20).contains(&bytes), "{bytes}");
    let too_much = world.ask(by("a", long("3", 100_000))).await;
    assert_overloaded(&too_much, "queue_full");
    assert_eq!(too_much.took, millis(0));
    calls.push(started(&world, by("a", long("4", 1000))).await);
    // Another's takes the place of one of them.
    let other = started(&world, by("b", long("5", 100_000))).await;
    assert_eq!(other.await.unwrap().status, 200);
    let replies = all(calls).await;
    // The newest first, until there is room.
    let statuses: Vec<u16> = replies.iter().map(|reply| reply.status.as_u16()).collect();
    assert_eq!(statuses, [200, 200, 429, 429]);
    // One that is larger by itself may wait alone.
    let first = started(&world, by("a", long("6", 10))).await;
    let huge = started(&world, by("a", long("7", 2_000_000))).await;
    assert_overloaded(&world.ask(by("a", long("8", 10))).await, "queue_full");
    assert!(all([first, huge]).await.iter().all(|reply| reply.status == 200));
    assert_idle(&world).await;
}

#[tokio::test(start_paused = true)]
async fn a_wait_has_its_end_in_either_protocol() {
    let (world, spy) = before(&one("timeout = \"1s\""), secs(5));
    for protocol in [ask, ask_claude] {
        let first = started(&world, protocol("first")).await;
        let second = world.ask(protocol("second")).await;
        assert_took(&second, secs(1));
        assert_overloaded(&second, "queue_timeout");
        assert!(second.json()["error"]["message"].as_str().unwrap().contains("waited 1000 ms"));
        let record = world.records.last();
        assert_eq!((record.fate.as_str(), record.attempts), ("refused", 0));
        assert_eq!(record.queue, secs(1));
        first.await.unwrap();
    }
    let counted = |name: &str| metric(&world, name);
    assert_eq!(counted("sluicegate_refusals_total{code=\"overloaded\",reason=\"queue_timeout\"}"), 2);
    assert_eq!(counted("sluicegate_shed_total{provider=\"openai\",reason=\"queue_timeout\"}"), 1);
    assert_eq!(counted("sluicegate_shed_total{provider=\"anthropic\",reason=\"queue_timeout\"}"), 1);
    assert_eq!(spy.count(), 2);
}

#[tokio::test(start_paused = true)]
async fn the_wait_counts_toward_the_deadline_and_is_no_fault_of_the_provider() {
    let settings = "concurrency = 1\n[timeouts]\nfirst_byte = \"2s\"\nstall = \"2s\"\n";
    let (world, spy) = before(settings, millis(1500));
    let mut calls = Vec::new();
    for number in 0..3 {
        calls.push(started(&world, ask(&number.to_string())).await);
    }
    let late = started(&world, with(ask("late"), "x-sluicegate-timeout", "2s")).await;
    for unshared in [with(ask("a"), "cache-control", "no-store"), ask("b")] {
        let reply = world.ask(with(unshared, "x-sluicegate-timeout", "200ms")).await;
        assert_took(&reply, millis(200));
        assert_deadline(&reply);
        assert_eq!(world.records.last().queue, millis(200));
    }
    let late = late.await.unwrap();
    assert_took(&late, secs(2));
    assert_deadline(&late);
    for (reply, took) in all(calls).await.iter().zip([1500, 3500, 5000]) {
        assert_eq!(reply.status, 200, "{}", reply.text());
        assert!(reply.took <= millis(took), "{:?}", reply.took);
    }
    assert_eq!(spy.count(), 4, "the late one was asked for, and two never");
    let shed = "sluicegate_shed_total{provider=\"openai\",reason=\"deadline\"}";
    assert_eq!(metric(&world, shed), 2, "those two");
    let outcomes = world.outcomes();
    assert_eq!(outcomes, [("abandoned".to_owned(), 1), ("ok".to_owned(), 3)]);
    assert_idle(&world).await;
}

#[tokio::test(start_paused = true)]
async fn who_can_not_be_served_in_time_is_told_at_once() {
    let (world, spy) = before("concurrency = 1\n", millis(100));
    // The gate knows by now how long a call takes.
    let calls: Vec<_> = (0..40).map(|number| start(&world, ask(&number.to_string()))).collect();
    all(calls).await;
    let calls: Vec<_> = (50..70).map(|number| start(&world, ask(&number.to_string()))).collect();
    turns().await;
    let late = world.ask(with(ask("late"), "x-sluicegate-priority", "low")).await;
    assert_eq!(late.status, 200);
    let calls = calls.into_iter().chain((70..90).map(|number| start(&world, ask(&number.to_string()))));
    let calls: Vec<_> = calls.collect();
    turns().await;
    let asked = with(with(ask("in vain"), "x-sluicegate-timeout", "300ms"), "x-sluicegate-priority", "low");
    let in_vain = world.ask(asked).await;
    assert_deadline(&in_vain);
    assert_eq!(in_vain.took, millis(0));
    let in_time =
        with(with(ask("in time"), "x-sluicegate-timeout", "300ms"), "x-sluicegate-priority", "high");
    assert_eq!(world.ask(in_time).await.status, 200);
    assert!(all(calls).await.iter().all(|reply| reply.status == 200));
    assert!(!spy.prompts().contains(&"in vain".to_owned()));
    let counted = "sluicegate_refusals_total{code=\"deadline_exceeded\",reason=\"deadline\"}";
    assert_eq!(metric(&world, counted), 1);
    assert_eq!(metric(&world, "sluicegate_shed_total{provider=\"openai\",reason=\"deadline\"}"), 1);
}

#[tokio::test(start_paused = true)]
async fn a_burst_that_drains_loses_nobody() {
    let (world, spy) = before("concurrency = 64\n", millis(300));
    let start = Instant::now();
    let calls: Vec<_> = (0..1000).map(|number| super::start(&world, ask(&number.to_string()))).collect();
    for reply in all(calls).await {
        assert_eq!(reply.status, 200, "{}", reply.text());
    }
    assert_eq!((spy.count(), spy.most()), (1000, 64));
    assert_eq!(start.elapsed(), millis(300) * 1000_u32.div_ceil(64));
    assert_idle(&world).await;
}

/// Calls that came in waves of just as many as fit were all served at once: nothing says that more would be slow.
#[tokio::test(start_paused = true)]
async fn a_burst_after_many_waves_that_just_fit_loses_nobody() {
    let (world, spy) = before("concurrency = 16\n", millis(300));
    for wave in 0..25 {
        let calls: Vec<_> = (0..16).map(|number| start(&world, ask(&format!("{wave} {number}")))).collect();
        assert!(all(calls).await.iter().all(|reply| reply.status == 200));
        pause(10).await;
    }
    let calls: Vec<_> = (0..400).map(|number| start(&world, ask(&number.to_string()))).collect();
    let replies = all(calls).await;
    let refused = replies.iter().filter(|reply| reply.status != 200).count();
    assert_eq!(refused, 0, "{:?}", replies.iter().find(|reply| reply.status != 200));
    assert_eq!(spy.count(), 800);
}

#[tokio::test(start_paused = true)]
async fn a_queue_that_does_not_drain_serves_some_soon_rather_than_all_too_late() {
    let settings = "concurrency = 8\n[queue]\ntimeout = \"10s\"\n";
    let (world, spy) = before(settings, millis(100));
    let start = Instant::now();
    let mut calls = Vec::new();
    // Twice what it can serve, for ten seconds.
    for number in 0..1600 {
        let world = world.clone();
        calls.push(by_itself(async move {
            tokio::time::sleep(secs(10) * number / 1600).await;
            (start.elapsed(), world.ask(ask(&number.to_string())).await)
        }));
    }
    pause(9000).await;
    assert_eq!(metric(&world, "sluicegate_queue_stands{"), 1);
    pause(2000).await;
    let after = world.ask(ask("after")).await;
    assert_eq!(after.status, 200);
    assert!(after.took <= millis(300), "{:?}", after.took);
    let (mut waits, mut stale, mut served) = (Vec::new(), 0, 0);
    for call in calls {
        let (at, reply) = call.await.unwrap();
        if reply.status == 200 {
            served += 1;
            if at >= secs(5) {
                waits.push(reply.took - millis(100));
            }
        } else {
            assert_overloaded(&reply, "queue_timeout");
            assert!(reply.took < secs(4), "{:?}", reply.took);
            stale += 1;
        }
    }
    assert!(served >= 776, "all that fits: {served}");
    assert!(stale > 400, "{stale}");
    let (half, most) = (percentile(waits.clone(), 50), percentile(waits, 99));
    assert!(half <= millis(150) && most <= millis(250), "{half:?}, {most:?}");
    assert_eq!(spy.most(), 8);
    assert_idle(&world).await;
    assert_eq!(metric(&world, "sluicegate_queue_stands{"), 0);
}

#[tokio::test(start_paused = true)]
async fn a_reload_while_it_is_full_changes_how_many_fly_and_how_many_may_wait() {
    let (world, spy) = before(&one("max = 6"), millis(100));
    let start = Instant::now();
    let mut calls = Vec::new();
    for number in 0..7 {
        calls.push(started(&world, ask(&number.to_string())).await);
    }
    assert_overloaded(&world.ask(ask("no")).await, "queue_full");
    pause(50).await;
    reload(&world, "concurrency = 4\n[queue]\nmax = 6\n");
    pause(10).await;
    assert_eq!((spy.flying(), levels(&world)), (4, (4, 3, 0)));
    // Less again: who runs runs on, who waits keeps its place, nobody else finds one.
    reload(&world, &one("max = 1"));
    assert_overloaded(&world.ask(ask("no")).await, "queue_full");
    let replies = all(calls).await;
    assert!(replies.iter().all(|reply| reply.status == 200));
    assert_eq!(spy.times(start, |_| true), [0, 50, 50, 50, 150, 250, 350].map(millis));
    assert_idle(&world).await;
}

#[tokio::test(start_paused = true)]
async fn a_shared_flight_that_gives_way_is_refused_to_all_aboard_once_and_is_not_kept() {
    let (world, spy) = before(&one("max = 1"), millis(100));
    let first = started(&world, by("a", ask("first"))).await;
    let mut aboard = Vec::new();
    for asked in [ask("x"), ask("x"), ask("x"), ask("x")] {
        aboard.push(started(&world, by("a", asked)).await);
    }
    pause(20).await;
    // The queue's one place is a's, and a has no less than b would.
    let refused = world.ask(by("b", ask("y"))).await;
    assert_overloaded(&refused, "queue_full");
    reload(&world, &one("max = 2"));
    let mut more = vec![started(&world, by("a", ask("z"))).await];
    more.push(started(&world, by("b", ask("y"))).await);
    let waits = all(aboard).await;
    // The newest of a's gave way, which is not the shared one.
    assert!(waits.iter().all(|reply| reply.status == 200));
    let more = all(more).await;
    assert_overloaded(&more[0], "queue_full");
    assert_eq!((more[1].status.as_u16(), first.await.unwrap().status.as_u16()), (200, 200));
    let shed_before = metric(&world, "sluicegate_shed_total{");
    assert_eq!(shed_before, 2);

    let first = started(&world, by("a", ask("first again"))).await;
    let older = started(&world, by("a", ask("older"))).await;
    let mut aboard = Vec::new();
    for asked in [ask("shared"), ask("shared"), ask("shared"), ask_stream("shared")] {
        aboard.push(started(&world, by("a", asked)).await);
    }
    assert_eq!(levels(&world).1, 2 + 1 - 1, "a stream is no plain answer's joiner and had no room");
    pause(20).await;
    let newcomer = started(&world, by("b", ask("newcomer"))).await;
    for reply in all(aboard).await {
        assert_overloaded(&reply, "queue_full");
    }
    assert!(all([first, older, newcomer]).await.iter().all(|reply| reply.status == 200));
    assert_eq!(metric(&world, "sluicegate_shed_total{"), shed_before + 2, "once for each flight");
    assert!(!spy.prompts().contains(&"shared".to_owned()));
    let again = world.ask(by("a", ask("shared"))).await;
    assert_eq!((again.status.as_u16(), again.header("x-sluicegate-cache")), (200, "miss"));
    assert_idle(&world).await;
}

#[tokio::test(start_paused = true)]
async fn who_leaves_the_queue_is_never_sent_and_the_next_takes_its_place() {
    let (world, spy) = before(&one("max = 1"), millis(100));
    let h2 = H2::to(&world).await;
    let first = started(&world, ask("first")).await;
    for over_h2 in [false, true] {
        let gone = if over_h2 { h2.start(ask("gone")) } else { start(&world, ask("gone")) };
        turns().await;
        assert_eq!(levels(&world).1, 1);
        gone.abort();
        let _aborted = gone.await;
        pause(1).await;
        assert_eq!(levels(&world).1, 0);
    }
    let next = started(&world, ask("next")).await;
    all([first, next]).await;
    assert_eq!(spy.prompts(), ["first", "next"]);
    assert_idle(&world).await;
}

/// A stream that waits for longer than its client can bear silence gets signs of life, and then its answer or an error
/// that it can read.
#[tokio::test(start_paused = true)]
async fn a_stream_that_waits_long_is_kept_alive() {
    let settings = "keep_alive = \"1s\"\n".to_owned() + &one("timeout = \"5s\"");
    let (world, spy) = before(&settings, millis(3500));
    let first = started(&world, ask("first")).await;
    let second = started(&world, ask_stream("second")).await;
    let third = started(&world, ask_stream("third")).await;
    let third = third.await.unwrap();
    assert_eq!((third.status.as_u16(), third.took), (200, secs(5)));
    assert!(third.text().contains("overloaded"), "{}", third.text());
    let second = second.await.unwrap();
    assert!(second.text().contains("second/4") && second.text().contains("[DONE]"), "{}", second.text());
    first.await.unwrap();
    assert_eq!(spy.count(), 2);
    let record = world.records.all().into_iter().find(|record| record.error.is_some()).unwrap();
    assert_eq!((record.attempts, record.queue), (0, secs(5)));
    assert_eq!(record.error.unwrap().reason, Some("queue_timeout"));
    assert_idle(&world).await;
}

#[tokio::test(start_paused = true)]
async fn a_stream_whose_client_left_while_it_waited_was_never_sent_and_says_so() {
    let settings = "keep_alive = \"1s\"\n".to_owned() + &one("timeout = \"9s\"");
    let (world, spy) = before(&settings, secs(5));
    let first = started(&world, ask("first")).await;
    let mut client = world.client().await;
    let answer = client.send(ask_stream("left")).await;
    assert_eq!((answer.head_after, answer.headers["x-sluicegate-attempts"].as_bytes()), (secs(1), &b"0"[..]));
    pause(1000).await;
    client.leave().await;
    pause(1).await;
    let record = world.records.last();
    assert_eq!((record.attempts, record.queue >= secs(2), record.queue < millis(2010)), (0, true, true));
    first.await.unwrap();
    assert_eq!(spy.count(), 1);
    assert_idle(&world).await;
}
