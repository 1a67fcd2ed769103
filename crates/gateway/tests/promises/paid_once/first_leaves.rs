//! Who started a flight may leave it, and so may anybody else: those who stay get all of it.

use super::*;

const OTHERS: usize = 199;

async fn others(world: &Arc<World>, request: impl Fn() -> Request<Full<Bytes>>) -> Vec<JoinHandle<Reply>> {
    let before = world.gate.life.calls();
    let others = (0..OTHERS).map(|_| call(world, request())).collect();
    until(|| world.gate.life.calls() == before + OTHERS).await;
    turns().await;
    others
}

async fn all(calls: Vec<JoinHandle<Reply>>) -> Vec<Reply> {
    let mut replies = Vec::new();
    for call in calls {
        replies.push(call.await.unwrap());
    }
    replies
}

/// The record of the one that left: it is a call that was paid, whoever took its answer.
fn assert_left(world: &World) {
    let left: Vec<_> = world.records.all().into_iter().filter(|record| record.error.is_some()).collect();
    assert_eq!(left.len(), 1);
    assert_eq!(left[0].error.as_ref().unwrap().code, "client_gone");
    assert_eq!(left[0].fate.as_str(), "miss");
}

/// The tokens of the one call that was paid are counted once, though the one that began it never heard of them.
fn assert_counted_once(world: &World) {
    let page = world.metrics.render().unwrap();
    let rows = page.lines().filter(|row| row.starts_with("sluicegate_tokens_total{"));
    let rows: Vec<&str> = rows.filter(|row| row.contains("kind=\"input\"")).collect();
    let told = world.records.all().iter().find_map(|record| record.input_tokens).expect("somebody was told");
    assert!(told > 0);
    assert_eq!(rows.len(), 1, "{page}");
    assert_eq!(rows[0].rsplit(' ').next(), Some(&*told.to_string()), "{page}");
}

#[tokio::test(start_paused = true)]
async fn before_the_answer_begins() {
    for (kind, stream) in KINDS.iter().flat_map(|kind| [(kind, false), (kind, true)]) {
        if stream && !kind.streams {
            continue;
        }
        let request = || if stream { kind.stream() } else { kind.plain() };
        let (world, mock) = World::before(unhurried());
        let world = Arc::new(world);
        let mut first = world.client().await;
        let mut sent = Box::pin(first.try_send(request()));
        // Polled once, it is on its way.
        assert!(futures_util::poll!(&mut sent).is_pending());
        until(|| mock.stats().in_flight == 1).await;
        let others = others(&world, request).await;
        drop(sent);
        first.leave().await;
        let replies = all(others).await;
        assert_all_equal(&replies);
        assert_eq!(count(&replies, "joined"), OTHERS);
        assert_eq!(mock.stats().arrived, 1, "{}", kind.path);
        assert_eq!(mock.stats().hang_ups.count, 0);
        assert_eq!(said(&replies[0]), said(&from_provider(kind.plain()).await));
        assert_idle(&world).await;
        assert_left(&world);
        assert_counted_once(&world);
    }
}

#[tokio::test(start_paused = true)]
async fn after_any_chunk_of_a_stream() {
    for kind in Kind::with_streams() {
        for chunks in 0..6 {
            let (world, mock) = World::before(unhurried());
            let world = Arc::new(world);
            let mut first = world.client().await;
            let mut answer = first.send(kind.stream()).await;
            let others = others(&world, || kind.stream()).await;
            for _ in 0..chunks {
                answer.next().await.unwrap().unwrap();
            }
            drop(answer);
            first.leave().await;
            let replies = all(others).await;
            assert_all_equal(&replies);
            assert_eq!(mock.stats().arrived, 1, "{} after {chunks}", kind.path);
            assert_eq!(said(&replies[0]), said(&from_provider(kind.plain()).await));
            assert_idle(&world).await;
            assert_left(&world);
            // What came without its first caller is kept like any other.
            assert_eq!(fates(&[world.ask(kind.stream()).await]), ["hit"], "{} after {chunks}", kind.path);
        }
    }
}
