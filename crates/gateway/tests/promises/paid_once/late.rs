//! Who comes late gets what was said so far at once, then what is said, as it is said.

use super::*;

const CHUNKS: usize = 12;

fn events() -> Vec<String> {
    let mut events: Vec<String> = (0..CHUNKS).map(|number| text(&format!("word {number} "))).collect();
    events.extend([finish("stop"), USAGE.to_owned(), DONE.to_owned()]);
    events
}

/// Reads from a stream until so much of it is there.
async fn read_to(answer: &mut Answer, read: &mut Vec<u8>, length: usize) {
    while read.len() < length {
        read.extend_from_slice(&answer.next().await.unwrap().unwrap());
    }
}

#[tokio::test(start_paused = true)]
async fn at_every_chunk_the_same_bytes_at_once_and_then_live() {
    let hand = Hand::new();
    let world = Arc::new(World::around("", hand.clone()));
    let mut clients = Vec::new();
    let mut first = world.client().await;
    let (answer, mut asked) = tokio::join!(first.send(CHAT.stream_with_usage()), async {
        let mut asked = hand.asked().await;
        asked.open_stream().await;
        asked
    });
    clients.push((first, answer, Vec::new()));
    let mut said = String::new();
    for event in events() {
        // One more comes aboard, and has all that was said, without the provider saying anything or time passing.
        let now = tokio::time::Instant::now();
        let mut client = world.client().await;
        let mut answer = client.send(CHAT.stream_with_usage()).await;
        assert_eq!(answer.headers["x-sluicegate-cache"], "joined");
        let mut read = Vec::new();
        read_to(&mut answer, &mut read, said.len()).await;
        clients.push((client, answer, read));
        said.push_str(&event);
        asked.event(&event).await;
        for (_, answer, read) in &mut clients {
            read_to(answer, read, said.len()).await;
            assert_eq!(String::from_utf8_lossy(read), said);
        }
        assert_eq!(now.elapsed(), std::time::Duration::ZERO);
    }
    asked.end_stream().await;
    for (client, mut answer, read) in clients {
        assert!(answer.next().await.is_none());
        assert_eq!(String::from_utf8(read).unwrap(), said);
        drop(client);
    }
    assert_eq!(hand.count(), 1);
    assert_idle(&world).await;
}

#[tokio::test(start_paused = true)]
async fn one_that_reads_slowly_slows_nobody_and_misses_nothing() {
    let hand = Hand::new();
    let world = Arc::new(World::around("", hand.clone()));
    let leader = call(&world, CHAT.stream());
    let mut asked = hand.asked().await;
    asked.open_stream().await;
    // More than a connection's buffers hold, so that the slow one really holds the gate up.
    let events: Vec<String> = (0..40).map(|_| text(&"x".repeat(100_000))).collect();
    let mut slow = world.client().await;
    let mut answer = slow.send(CHAT.stream()).await;
    let quick = boarded(&world, CHAT.stream()).await;
    let now = tokio::time::Instant::now();
    for event in &events {
        asked.event(event).await;
    }
    for event in [&finish("stop"), USAGE, DONE] {
        asked.event(event).await;
    }
    asked.end_stream().await;
    let whole = [leader.await.unwrap(), quick.await.unwrap()];
    assert_all_equal(&whole);
    assert_eq!(now.elapsed(), std::time::Duration::ZERO);
    // It takes a piece a second.
    let mut read = Vec::new();
    let mut pieces = 0;
    while let Some(piece) = answer.next().await {
        read.extend_from_slice(&piece.unwrap());
        pieces += 1;
        tokio::time::sleep(secs(1)).await;
    }
    assert!(pieces > 10 && read == whole[0].body, "{pieces} pieces, {} bytes", read.len());
    assert_eq!(hand.count(), 1);
    assert_idle(&world).await;
}

#[tokio::test(start_paused = true)]
async fn one_that_leaves_is_missed_by_nobody() {
    let hand = Hand::new();
    let world = Arc::new(World::around("", hand.clone()));
    let leader = call(&world, CHAT.stream());
    let mut asked = hand.asked().await;
    asked.open_stream().await;
    let mut expected = String::new();
    for event in events() {
        let mut client = world.client().await;
        let mut answer = client.send(CHAT.stream()).await;
        asked.event(&event).await;
        if event != USAGE {
            expected.push_str(&event);
            assert!(answer.next().await.unwrap().is_ok());
        }
        drop(answer);
        client.leave().await;
        turns().await;
        assert_eq!(world.gate.life.calls(), 1, "it is gone");
    }
    asked.end_stream().await;
    let leader = leader.await.unwrap();
    assert_eq!((leader.text(), leader.broken), (expected, false));
    assert_eq!(hand.count(), 1);
    assert_idle(&world).await;
}
