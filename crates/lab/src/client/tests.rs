use std::time::Duration;

use sim::mock::{Mock, Options, Tuning};

use super::*;
use crate::web;

struct World {
    mock: Mock,
    client: Client,
    place: Place,
}

/// A caller of this SDK before a mock with this script.
async fn world(sdk: &str, script: &str) -> World {
    let tuning = Tuning { strict: true, chunks: 4, ..Tuning::default() };
    let options = Options { tuning, script: script.parse().unwrap(), ..Options::default() };
    let mock = Mock::start_local(options).await.unwrap();
    let sdk = *Sdk::named(sdk).unwrap();
    let base = format!("http://{}", mock.addr()).parse().unwrap();
    let place = Place::new(&sdk, &base, "sk-test", HeaderName::from_static("x-fate")).unwrap();
    World { mock, client: Client { http: web::client().unwrap(), sdk }, place }
}

impl World {
    async fn call(&self, stream: bool) -> Seen {
        let model = match self.client.sdk.protocol {
            Protocol::OpenAi => "gpt-5-mini",
            Protocol::Anthropic => "claude-haiku-4-5",
        };
        let ask = Ask::new(self.client.sdk.protocol, model, "Tell me about sluices.", stream);
        let mut seen = Seen::default();
        // The most jitter there is: retries come after 0.375 s and 0.75 s.
        self.client.call(&self.place, &ask, &mut seen, || 1.0).await;
        seen
    }
}

#[tokio::test]
async fn answers_of_both_protocols_are_whole_in_both_forms() {
    for sdk in ["openai-python", "openai-node", "anthropic-python", "anthropic-node"] {
        let world = world(sdk, "ok").await;
        let plain = world.call(false).await;
        assert_eq!((plain.outcome, plain.attempts), (Outcome::Ok, 1), "{sdk}");
        assert!(plain.read.unwrap().input > 0, "{sdk}");
        let stream = world.call(true).await;
        assert_eq!((stream.outcome, stream.pieces.len()), (Outcome::Ok, 4), "{sdk}");
        assert_eq!(stream.first, stream.pieces.first().copied(), "{sdk}");
        assert!(stream.read.unwrap().input > 0, "{sdk}");
    }
}

#[tokio::test]
async fn failures_are_tried_again_and_counted_in_a_header() {
    let world = world("openai-python", "503 1x; ok").await;
    let seen = world.call(false).await;
    assert_eq!((seen.outcome, seen.attempts), (Outcome::Ok, 2));
    assert!(seen.end.unwrap() - seen.sent.unwrap() >= Duration::from_millis(375));
    let counts: Vec<_> =
        world.mock.requests(2).iter().map(|received| header(received, "x-stainless-retry-count")).collect();
    assert_eq!(counts, ["0", "1"]);
    assert_eq!(header(&world.mock.requests(1)[0], "x-stainless-read-timeout"), "600");
}

fn header(received: &sim::mock::Received, name: &str) -> String {
    let found = received.headers.iter().find(|(known, _)| known.as_str() == name);
    found.map(|(_, value)| value.clone()).unwrap_or_default()
}

#[tokio::test]
async fn what_is_no_use_to_try_again_is_not() {
    assert_eq!(outcome("openai-node", "400", false).await, (Outcome::Status(400), 1));
    assert_eq!(outcome("none", "503", false).await, (Outcome::Status(503), 1));
    assert_eq!(outcome("openai-node", "garbage", false).await, (Outcome::Broken, 1));
}

#[tokio::test]
async fn the_last_of_three_failures_is_what_the_caller_gets() {
    assert_eq!(outcome("anthropic-node", "529", false).await, (Outcome::Status(529), 3));
    assert_eq!(outcome("openai-node", "reset", false).await, (Outcome::Connect, 3));
}

#[tokio::test]
async fn a_plain_answer_that_breaks_is_tried_again_by_some() {
    assert_eq!(outcome("openai-node", "cut 1x; ok", false).await, (Outcome::Broken, 1));
    assert_eq!(outcome("openai-python", "cut 1x; ok", false).await, (Outcome::Ok, 2));
}

#[tokio::test]
async fn a_stream_that_does_not_end_well_is_not_whole_and_not_tried_again() {
    assert_eq!(outcome("openai-python", "cut 1x; ok", true).await, (Outcome::Cut, 1));
    assert_eq!(outcome("anthropic-python", "error 1x; ok", true).await, (Outcome::Error, 1));
    assert_eq!(outcome("openai-python", "garbage 1x; ok", true).await, (Outcome::Error, 1));
}

/// Its own patience of ten minutes would be long.
#[tokio::test]
async fn silence_after_the_head_is_the_end_of_pythons_streams_and_not_of_its_plain_answers() {
    let impatient = async |sdk: &str, script: &str, stream: bool| {
        let mut world = world(sdk, script).await;
        world.client.sdk.patience = Duration::from_millis(200);
        let seen = world.call(stream).await;
        (seen.outcome, seen.attempts)
    };
    assert_eq!(impatient("openai-python", "stall 1x; ok", true).await, (Outcome::Timeout, 1));
    assert_eq!(impatient("openai-python", "stall 1x; ok", false).await, (Outcome::Ok, 2));
    // Node waits until the connection breaks.
    assert_eq!(impatient("openai-node", "stall 2s; ok", true).await, (Outcome::Cut, 1));
}

#[tokio::test]
async fn a_caller_tells_how_long_it_waited() {
    let world = world("openai-node", "429(retry-after=1) 1x; 503 1x; ok").await;
    assert_eq!(world.call(false).await.waits, [1.0, 0.75].map(Duration::from_secs_f64));
}

async fn outcome(sdk: &str, script: &str, stream: bool) -> (Outcome, u32) {
    let seen = world(sdk, script).await.call(stream).await;
    (seen.outcome, seen.attempts)
}

#[test]
fn a_base_url_is_what_an_sdk_takes() {
    let uri = |sdk: &str, base: &str| {
        let base = base.parse().unwrap();
        let place = Place::new(Sdk::named(sdk).unwrap(), &base, "k", HeaderName::from_static("x-fate"));
        place.unwrap().uri.to_string()
    };
    assert_eq!(uri("openai-node", "http://a:1/v1"), "http://a:1/v1/chat/completions");
    assert_eq!(uri("openai-node", "http://a:1"), "http://a:1/v1/chat/completions");
    assert_eq!(uri("openai-node", "https://a/openai/v1/"), "https://a/openai/v1/chat/completions");
    assert_eq!(uri("anthropic-node", "https://a"), "https://a/v1/messages");
    assert_eq!(uri("anthropic-node", "https://a/v1"), "https://a/v1/messages");
}
