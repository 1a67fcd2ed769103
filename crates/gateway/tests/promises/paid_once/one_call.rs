//! Equal calls at once are one call to the provider, whatever their protocol and form.

use rand::seq::SliceRandom;
use rand::{SeedableRng, rngs::StdRng};

use super::*;

const CALLERS: usize = 200;

async fn world(settings: &str) -> (Arc<World>, Arc<Mock>) {
    let (world, mock) = World::with(settings, unhurried());
    (Arc::new(world), mock)
}

/// The same request so many times.
fn times(count: usize, request: impl Fn() -> Request<Full<Bytes>>) -> Vec<Request<Full<Bytes>>> {
    (0..count).map(|_| request()).collect()
}

#[tokio::test(start_paused = true)]
async fn two_hundred_plain() {
    for kind in KINDS {
        let (world, mock) = world("").await;
        let replies = at_once(&world, times(CALLERS, || kind.plain())).await;
        assert_one_paid(&replies, &mock);
        assert_all_equal(&replies);
        assert_eq!(meaning(&replies[0]), meaning(&from_provider(kind.plain()).await), "{}", kind.path);
        assert!(replies.iter().all(|reply| reply.took < millis(1100)), "nobody waits for anybody");
        assert_idle(&world).await;
    }
}

#[tokio::test(start_paused = true)]
async fn two_hundred_streaming() {
    for kind in Kind::with_streams() {
        let (world, mock) = world("").await;
        let replies = at_once(&world, times(CALLERS, || kind.stream())).await;
        assert_one_paid(&replies, &mock);
        assert_all_equal(&replies);
        assert!(replies[0].text().matches("data: ").count() > 8, "{}", replies[0].text());
        assert_eq!(said(&replies[0]), said(&from_provider(kind.plain()).await), "{}", kind.path);
        assert_idle(&world).await;
    }
}

#[tokio::test(start_paused = true)]
async fn plain_ones_ride_a_stream() {
    for kind in Kind::with_streams() {
        let (world, mock) = world("").await;
        let leader = boarded(&world, kind.stream()).await;
        let mut replies = at_once(&world, times(CALLERS - 1, || kind.plain())).await;
        assert_all_equal(&replies);
        assert_eq!(replies[0].header("content-type"), "application/json");
        assert_eq!(meaning(&replies[0]), meaning(&from_provider(kind.plain()).await), "{}", kind.path);
        let leader = leader.await.unwrap();
        assert!(leader.header("content-type").starts_with("text/event-stream"));
        assert_eq!(said(&leader), said(&replies[0]));
        replies.push(leader);
        assert_one_paid(&replies, &mock);
        assert_idle(&world).await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_stream_never_waits_for_a_plain_answer() {
    for kind in Kind::with_streams() {
        let (world, mock) = world("").await;
        let first = boarded(&world, kind.plain()).await;
        let mut requests = times(100, || kind.stream());
        requests.extend(times(99, || kind.plain()));
        let replies = at_once(&world, requests).await;
        let first = first.await.unwrap();
        assert_eq!(mock.stats().arrived, 2, "{}", kind.path);
        let (streams, plain) = replies.split_at(100);
        assert_all_equal(streams);
        assert_all_equal(plain);
        assert_eq!(said(&streams[0]), said(&first));
        assert_eq!(meaning(&plain[0]), meaning(&first));
        assert_eq!((count(streams, "miss"), count(streams, "joined")), (1, 99));
        assert_eq!(count(plain, "joined"), 99);
        assert_eq!(first.header("x-sluicegate-cache"), "miss");
        assert_idle(&world).await;
    }
}

#[tokio::test(start_paused = true)]
async fn any_mix_is_two_calls_at_most() {
    for (seed, kind) in (0..8).flat_map(|seed| Kind::with_streams().map(move |kind| (seed, kind))) {
        let (world, mock) = world("").await;
        let mut requests = times(CALLERS / 2, || kind.stream());
        requests.extend(times(CALLERS / 2, || kind.plain()));
        requests.shuffle(&mut StdRng::seed_from_u64(seed));
        let replies = at_once(&world, requests).await;
        let arrived = mock.stats().arrived;
        assert!((1..=2).contains(&arrived), "{}: {arrived} calls (seed {seed})", kind.path);
        assert_eq!(count(&replies, "miss") as u64, arrived);
        assert_eq!(count(&replies, "joined") as u64, CALLERS as u64 - arrived);
        let texts: Vec<String> = replies.iter().map(said).collect();
        assert!(!texts[0].is_empty() && texts.iter().all(|text| *text == texts[0]));
        assert_idle(&world).await;
    }
}

/// Chat and completions leave it to the caller whether a stream tells its usage.
#[tokio::test(start_paused = true)]
async fn usage_is_for_who_asked_for_it() {
    for kind in [KINDS[0], KINDS[3]] {
        let [without, with] =
            [from_provider(kind.stream()).await, from_provider(kind.stream_with_usage()).await];
        assert!(!tells_usage(&without) && tells_usage(&with));
        for leader_asks in [false, true] {
            let (world, mock) = world("").await;
            let first = if leader_asks { kind.stream_with_usage() } else { kind.stream() };
            let leader = boarded(&world, first).await;
            let requests = vec![kind.stream(), kind.stream_with_usage(), kind.plain()];
            let mut replies = at_once(&world, requests).await;
            replies.insert(0, leader.await.unwrap());
            assert_one_paid(&replies, &mock);
            let told: Vec<bool> = replies.iter().map(tells_usage).collect();
            assert_eq!(told, [leader_asks, false, true, false], "{}", kind.path);
            assert_eq!(replies[2].text(), with.text());
            assert_eq!(meaning(&replies[3]), meaning(&from_provider(kind.plain()).await));
            // Afterwards the same from what is kept.
            let hits = at_once(&world, vec![kind.stream(), kind.stream_with_usage(), kind.plain()]).await;
            assert_eq!(fates(&hits), ["hit"; 3]);
            assert_eq!(hits.iter().map(tells_usage).collect::<Vec<_>>(), [false, true, false]);
            for (hit, joined) in hits.iter().zip(&replies[1..]) {
                assert_eq!(hit.text(), joined.text());
            }
        }
    }
}

/// Where the gate asks for nothing by itself, who wants usage does not ride on a stream that lacks it.
#[tokio::test(start_paused = true)]
async fn usage_that_nobody_asked_for_is_not_made_up() {
    let (world, mock) = world("usage_on_streams = false\n").await;
    let leader = boarded(&world, CHAT.stream()).await;
    let others =
        vec![CHAT.stream(), CHAT.stream_with_usage(), CHAT.plain(), CHAT.plain(), CHAT.stream_with_usage()];
    let replies = at_once(&world, others).await;
    let leader = leader.await.unwrap();
    assert_eq!(fates(&replies), ["joined", "miss", "joined", "joined", "joined"]);
    assert_eq!(mock.stats().arrived, 2);
    assert_eq!(leader.text(), from_provider(CHAT.stream()).await.text());
    assert_eq!(replies[0].text(), leader.text());
    assert_eq!(replies[1].text(), from_provider(CHAT.stream_with_usage()).await.text());
    assert_eq!(meaning(&replies[2]), meaning(&from_provider(CHAT.plain()).await));
}

/// An answer that is kept without its usage serves nobody who needs it; what is asked for instead is shared again.
#[tokio::test(start_paused = true)]
async fn what_is_kept_in_an_unfit_form_is_asked_for_once_more() {
    let (world, mock) = world("usage_on_streams = false\n").await;
    assert!(!tells_usage(&world.ask(CHAT.stream()).await));
    let replies = at_once(&world, times(CALLERS, || CHAT.plain())).await;
    assert_eq!(mock.stats().arrived, 2);
    assert_eq!((count(&replies, "miss"), count(&replies, "joined")), (1, CALLERS - 1));
    assert_all_equal(&replies);
}
