//! Limits on how many: whoever leaves gives its place back, and every wait has a bound and an end.

use super::*;

fn call(world: &Arc<World>, tasks: &mut tokio::task::JoinSet<(usize, Reply)>, number: usize, body: String) {
    let world = world.clone();
    tasks.spawn(async move { (number, world.post(CHAT, body).await) });
}

/// In the queue and before it, too: a call that the provider refuses, one that times out in the queue, one that never
/// got that far.
#[tokio::test(start_paused = true)]
async fn k073_permits_and_places_return_after_each_ending() {
    let settings = "concurrency = 10\n[queue]\nmax = 15\ntimeout = \"3s\"\n\
        [timeouts]\nfirst_byte = \"1s\"\n[gate]\nmax_in_flight = 40\n";
    let (world, mock) = World::with(settings, mock());
    let world = Arc::new(world);
    let wrong_role = |number: usize| {
        format!(r#"{{"model":"gpt-4o-mini","messages":[{{"role":"usr","content":"{number}"}}]}}"#)
    };
    for round in 0..3 {
        for (script, queued) in [("hang!", 504), ("ok", 400), ("reset", 502)] {
            mock.set_script(script.parse().unwrap());
            let mut calls = tokio::task::JoinSet::new();
            for number in 0..30 {
                let body =
                    if script == "ok" { wrong_role(number) } else { chat(&format!("{round} {number}")) };
                call(&world, &mut calls, number, body);
            }
            for (_, reply) in calls.join_all().await {
                let status = reply.status.as_u16();
                assert!(status == queued || status == 429, "{script}: {}", reply.text());
            }
            settled(&world).await;
            assert_eq!(gauge(&world, "permits"), 20, "ten of either provider");
        }
    }
    mock.set_script("ok".parse().unwrap());
    let mut calls = tokio::task::JoinSet::new();
    (0..25).for_each(|number| call(&world, &mut calls, number, chat(&format!("last {number}"))));
    assert!(calls.join_all().await.iter().all(|(_, reply)| reply.status == 200));
    settled(&world).await;
    assert_eq!(sum(&world, "sluicegate_gate_in_flight ", |_| true), 0);
}

#[tokio::test(start_paused = true)]
async fn k077_a_crowd_waits_in_bounds_and_nothing_is_done_for_those_who_left() {
    let (world, mock) = World::with("concurrency = 10\n[queue]\nmax = 500\n", mock_after(secs(2)));
    let world = Arc::new(world);
    let mut calls = tokio::task::JoinSet::new();
    for number in 0..2000 {
        let world = world.clone();
        calls.spawn(async move {
            let mut client = world.client().await;
            // Clients time out in the middle of the wait.
            let asked = client.send(request(Method::POST, CHAT, chat(&number.to_string())));
            let answer = tokio::time::timeout(secs(3), asked).await;
            let Ok(answer) = answer else {
                client.leave().await;
                return None;
            };
            let reply = answer.whole().await;
            if reply.status == 429 {
                assert_eq!(reply.header("x-sluicegate-reason"), "queue_full");
                assert_eq!(reply.took, secs(0), "at once");
                let after: u64 = reply.header("retry-after").parse().unwrap();
                assert!((1..=60).contains(&after), "{after}");
            }
            Some(reply.status.as_u16())
        });
    }
    tokio::time::sleep(secs(1)).await;
    assert_eq!((gauge(&world, "in_flight"), gauge(&world, "waiting")), (10, 500));
    let statuses = calls.join_all().await;
    let count = |status: Option<u16>| statuses.iter().filter(|known| **known == status).count();
    assert_eq!((count(Some(429)), count(Some(200)), count(None)), (1490, 10, 500));
    settled(&world).await;
    // Ten were answered, and ten more had begun when their clients left.
    assert_eq!(mock.stats().arrived, 20);
    assert_eq!(world.outcomes(), [("abandoned".to_owned(), 10), ("ok".to_owned(), 10)]);
    let start = tokio::time::Instant::now();
    assert_eq!(world.post(CHAT, chat("after")).await.status, 200);
    assert_eq!(start.elapsed(), secs(2));
}

#[tokio::test(start_paused = true)]
async fn k077_a_wait_counts_toward_the_deadline_and_is_no_timeout_of_the_provider() {
    let settings = "concurrency = 1\n[timeouts]\nfirst_byte = \"2s\"\n";
    let (world, mock) = World::with(settings, mock_after(millis(1500)));
    let world = Arc::new(world);
    let mut calls = tokio::task::JoinSet::new();
    (0..4).for_each(|number| call(&world, &mut calls, number, chat(&number.to_string())));
    tokio::time::sleep(millis(1)).await;
    let mut asked = asked(CHAT, chat("late"));
    asked.headers_mut().insert("x-sluicegate-timeout", HeaderValue::from_static("1s"));
    let late = world.ask(asked).await;
    assert_eq!((late.status.as_u16(), late.header("x-sluicegate-error")), (504, "deadline_exceeded"));
    assert_eq!(late.took, secs(1));
    let mut took: Vec<_> =
        calls.join_all().await.iter().map(|(_, reply)| (reply.status.as_u16(), reply.took)).collect();
    took.sort();
    assert_eq!(took, [1500, 3000, 4500, 6000].map(|took| (200, millis(took))));
    assert_eq!(mock.stats().arrived, 4);
    assert_eq!(world.outcomes(), [("ok".to_owned(), 4)]);
}

/// Eight prompts of 120 000 tokens, then a hundred short ones of somebody else.
#[tokio::test(start_paused = true)]
async fn k078_few_long_prompts_do_not_keep_many_short_ones_waiting() {
    let settings = "concurrency = 1\n[queue]\ntimeout = \"60s\"\nmax_bytes = \"2MiB\"\n";
    let (world, mock) = World::with(settings, mock_after(millis(100)));
    let world = Arc::new(world);
    let long = "word ".repeat(96_000);
    let mut calls = tokio::task::JoinSet::new();
    for number in 0..108 {
        let (key, body) = match number {
            0..8 => ("long", chat(&format!("{number} {long}"))),
            _ => ("short", chat(&number.to_string())),
        };
        let world = world.clone();
        calls.spawn(async move {
            tokio::time::sleep(millis(number / 8)).await;
            let mut asked = asked(CHAT, body);
            asked.headers_mut().insert("authorization", format!("Bearer {key}").parse().unwrap());
            (number, world.ask(asked).await)
        });
    }
    tokio::time::sleep(millis(50)).await;
    let bytes = gauge(&world, "queue_bytes");
    assert!(bytes <= 2 << 20, "{bytes} bytes wait");
    let mut replies = calls.join_all().await;
    replies.sort_by_key(|(number, _)| *number);
    // One flies, four wait, and there is no room for the rest, however few they are.
    let refused: Vec<_> =
        replies.iter().filter(|(_, reply)| reply.status == 429).map(|(at, _)| *at).collect();
    assert_eq!(refused.len(), 3, "{refused:?}");
    assert!(refused.iter().all(|at| *at < 8), "{refused:?}");
    for at in &refused {
        assert_eq!(replies[*at as usize].1.header("x-sluicegate-reason"), "queue_full");
    }
    // A long one costs its key as much as it weighs: fifteen turns of the other's.
    let order: Vec<usize> = mock.requests(200).iter().map(|request| request.body.len()).collect();
    let second = order.iter().skip(1).position(|length| *length > 100_000).unwrap();
    let third = order.iter().skip(second + 2).position(|length| *length > 100_000).unwrap();
    assert!(third >= 14, "{third} short ones between two long ones");
    settled(&world).await;
}
