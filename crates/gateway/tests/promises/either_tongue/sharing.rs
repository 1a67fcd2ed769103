//! Equal calls are translated once, like they are paid once.

use std::sync::Arc;

use sim::mock::Tuning;
use tokio::task::JoinSet;

use super::*;

/// Sends the same calls at once; tells what came, and how often the provider was asked.
async fn at_once(calls: Vec<(&'static str, Value)>) -> (Vec<Reply>, Arc<Mock>, Arc<World>) {
    let mock = Options {
        tuning: Tuning { strict: true, latency: secs(2), ..Tuning::default() },
        ..Options::default()
    };
    let (world, mock) = both(mock);
    let world = Arc::new(world);
    let mut tasks = JoinSet::new();
    for (path, call) in calls {
        let world = world.clone();
        tasks.spawn(async move { world.post(path, call.to_string()).await });
        // In this order.
        tokio::task::yield_now().await;
    }
    (tasks.join_all().await, mock, world)
}

#[tokio::test(start_paused = true)]
async fn two_hundred_equal_calls_are_one() {
    for call in [chat_to_claude("why?"), streamed(chat_to_claude("why?"))] {
        let (replies, mock, _world) = at_once(vec![(CHAT, call); 200]).await;
        assert_eq!(mock.stats().arrived, 1);
        assert_eq!(replies.iter().filter(|reply| reply.header("x-sluicegate-cache") == "miss").count(), 1);
        assert_eq!(
            replies.iter().filter(|reply| reply.header("x-sluicegate-cache") == "joined").count(),
            199
        );
        assert!(replies.iter().all(|reply| reply.status == 200 && reply.body == replies[0].body));
    }
}

#[tokio::test(start_paused = true)]
async fn plain_callers_ride_a_translated_stream() {
    for (path, stream, plain) in [
        (CHAT, streamed(chat_to_claude("why?")), chat_to_claude("why?")),
        (MESSAGES, streamed(message_to_gpt("why?")), message_to_gpt("why?")),
    ] {
        let (replies, mock, _world) =
            at_once(vec![(path, stream), (path, plain.clone()), (path, plain)]).await;
        assert_eq!(mock.stats().arrived, 1);
        let (streams, plains): (Vec<_>, Vec<_>) =
            replies.iter().partition(|reply| reply.header("content-type").starts_with("text/event-stream"));
        assert_eq!((streams.len(), plains.len()), (1, 2));
        let text = streams[0].text();
        for plain in plains {
            assert_eq!(plain.status, 200, "{}", plain.text());
            let answer = plain.json();
            let said = if path == CHAT {
                &answer["choices"][0]["message"]["content"]
            } else {
                &answer["content"][0]["text"]
            };
            assert_eq!(*said, if path == CHAT { chat_text(&text) } else { message_text(&text) });
            assert!(answer["usage"].is_object(), "a plain answer tells its usage: {answer}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_kept_answer_comes_in_either_form() {
    let (world, mock) = both(mock());
    let plain = world.post(CHAT, chat_to_claude("why?").to_string()).await;
    let stream = world.post(CHAT, streamed(chat_to_claude("why?")).to_string()).await;
    assert_eq!(stream.header("x-sluicegate-cache"), "hit");
    assert_eq!(plain.json()["choices"][0]["message"]["content"], chat_text(&stream.text()));
    assert_eq!(mock.stats().arrived, 1);
}

#[tokio::test(start_paused = true)]
async fn what_can_not_be_said_reaches_all_who_ask_it_and_is_not_kept() {
    let mut call = chat_to_claude("why?");
    call["messages"][0]["content"] =
        json!([{"type": "input_audio", "input_audio": {"data": "AAAA", "format": "wav"}}]);
    let (replies, mock, world) = at_once(vec![(CHAT, call); 5]).await;
    assert!(replies.iter().all(|reply| reply.status == 400), "{}", replies[0].text());
    assert_eq!(mock.stats().arrived, 0);
    assert_eq!(world.gate.shared().flights, 0);
}

#[tokio::test(start_paused = true)]
async fn clients_of_both_protocols_do_not_share() {
    let (world, mock) = both(mock());
    let call = json!({"model": "claude-sonnet-4-5", "max_tokens": 300, "messages": [{"role": "user", "content": "why?"}]});
    let translated = world.post(CHAT, call.to_string()).await;
    let own = world.post(MESSAGES, call.to_string()).await;
    assert_eq!(own.header("x-sluicegate-cache"), "miss");
    assert_eq!(
        (translated.json()["object"].as_str(), own.json()["type"].as_str()),
        (Some("chat.completion"), Some("message"))
    );
    assert_eq!(mock.stats().arrived, 2);
}

/// A caller's key does not go to the other vendor, so it is nobody's account that is asked: before a provider without a
/// key all callers share.
#[tokio::test(start_paused = true)]
async fn callers_whose_keys_do_not_go_up_share() {
    let (world, mock) = World::before(mock());
    for (key, fate) in [("Bearer one", "miss"), ("Bearer two", "hit")] {
        let mut asked = request(http::Method::POST, CHAT, chat_to_claude("why?").to_string());
        asked.headers_mut().insert("authorization", http::HeaderValue::from_static(key));
        let reply = world.ask(asked).await;
        assert_eq!(
            (reply.status.as_u16(), reply.header("x-sluicegate-cache")),
            (200, fate),
            "{}",
            reply.text()
        );
    }
    assert_eq!(mock.stats().arrived, 1);
    assert_eq!(mock.requests(1)[0].header("authorization"), None);
}
