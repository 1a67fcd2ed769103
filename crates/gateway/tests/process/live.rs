//! Watching the gate on its admin listener.

use crate::child::{Gate, Mock};
use crate::client::{Answer, Client, chat, request};
use crate::until::secs;

/// Reads until all of `parts` have come, one after the other.
async fn come(feed: &mut Answer, parts: &[&str]) -> String {
    let mut text = String::new();
    for part in parts {
        while !text.contains(part) {
            let piece = feed.next().await.unwrap_or_else(|| panic!("{part} is not in\n{text}"));
            text.push_str(&String::from_utf8_lossy(&piece));
        }
    }
    text
}

#[tokio::test]
async fn a_call_is_seen_live_and_the_feed_ends_with_the_gate() {
    let mock = Mock::start(&[]).await;
    let mut gate = Gate::before(&mock, "").await;
    let mut watcher = Client::connect(gate.admin).await;
    let mut feed = watcher.send(request(http::Method::GET, "/api/live", String::new())).await;
    assert_eq!(
        (feed.status.as_u16(), &feed.headers["content-type"]),
        (200, &"text/event-stream".parse().unwrap())
    );
    let state = come(&mut feed, &["event: state\n", "\n\n"]).await;
    assert!(state.contains(r#""provider":"openai","permits":"#), "{state}");

    assert_eq!(gate.client().await.send(chat("hello", false)).await.status, 200);
    let seen = come(&mut feed, &["arrived", "started", "first_byte", "event: done\n", "\n\n"]).await;
    assert!(seen.contains(r#""fate":"miss","status":200"#), "{seen}");

    gate.process.signal("TERM");
    while feed.next().await.is_some() {}
    assert_eq!(gate.process.exit(secs(10)).await, Some(0));
}
