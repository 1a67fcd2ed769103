//! Events that are too long to be held pass in pieces, and still say what they cost.

use std::collections::VecDeque;

use bytes::Bytes;
use wire::dialect::{CHAT, Dialect, MESSAGES, RESPONSES};
use wire::relay::{HOLD, Relay, Watch};

const FILLER: usize = 150_000;

/// Relays in pieces of that size; returns what was seen, having checked that the bytes are the same.
fn relayed(dialect: &'static dyn Dialect, input: &str, size: usize) -> Watch {
    let mut relay = Relay::new(dialect, true);
    let mut out = VecDeque::new();
    let mut went = Vec::new();
    let mut most = 0;
    let mut fed = 0;
    for chunk in input.as_bytes().chunks(size) {
        relay.feed(Bytes::copy_from_slice(chunk), &mut out);
        fed += chunk.len();
        went.extend(out.drain(..).flatten());
        most = most.max(fed - went.len());
        assert_eq!(relay.at_boundary(), went.is_empty() || went.ends_with(b"\n\n"));
    }
    assert!(relay.at_boundary(), "the long event has come to its end");
    assert!(most <= HOLD, "{most} bytes were held back");
    assert_eq!(went, input.as_bytes());
    relay.watch().clone()
}

fn same_in_all_sizes(dialect: &'static dyn Dialect, input: &str) -> Watch {
    let whole = relayed(dialect, input, input.len());
    for size in [1_000, 40_000, HOLD, HOLD + 1, 100_000] {
        assert_eq!(relayed(dialect, input, size), whole, "in pieces of {size}");
    }
    whole
}

#[test]
fn a_long_final_response_still_tells_usage_and_ending() {
    let input = format!(
        "event: response.completed\ndata: {{\"type\":\"response.completed\",\"sequence_number\":12,\"response\":\
         {{\"id\":\"resp_1\",\"created_at\":5,\"model\":\"m\",\"status\":\"completed\",\"error\":null,\"output\":[{{\"text\":\
         \"{}\"}}],\"usage\":{{\"input_tokens\":40,\"output_tokens\":9}},\"metadata\":{{}}}}}}\n\n",
        "x".repeat(FILLER)
    );
    let created = "event: response.created\ndata: {\"type\":\"response.created\",\"response\":{\"id\":\"resp_1\",\
                   \"created_at\":5,\"model\":\"m\"}}\n\nevent: response.output_text.delta\ndata: {}\n\n";
    let watch = same_in_all_sizes(&RESPONSES, &format!("{created}{input}"));
    assert!(watch.terminal && watch.has_usage && !watch.garbled);
    assert_eq!((watch.usage.input, watch.usage.output, watch.sequence), (40, 9, Some(12)));
    assert_eq!(watch.finish.as_deref(), Some("completed"));
}

#[test]
fn a_long_failure_still_tells_its_reason() {
    let input = format!(
        "data: {{\"type\":\"response.failed\",\"response\":{{\"status\":\"failed\",\"model\":\"m\",\"error\":\
         {{\"code\":\"x\",\"message\":\"no luck\"}},\"output\":[{{\"text\":\"{}\"}}],\"usage\":null}}}}\n\n",
        "x".repeat(FILLER)
    );
    let watch = relayed(&RESPONSES, &input, 30_000);
    assert!(watch.terminal);
    assert_eq!(watch.error.as_deref(), Some("no luck"));
}

#[test]
fn a_long_chunk_still_tells_model_ending_and_usage() {
    let input = format!(
        "data: {{\"model\":\"m\",\"choices\":[{{\"index\":0,\"delta\":{{\"content\":\"{}\"}},\"finish_reason\":\"stop\"}}],\
         \"usage\":{{\"prompt_tokens\":7,\"completion_tokens\":8}}}}\n\ndata: [DONE]\n\n",
        "x".repeat(FILLER)
    );
    let watch = same_in_all_sizes(&CHAT, &input);
    assert_eq!((watch.usage.input, watch.usage.output), (7, 8));
    assert_eq!((watch.model.as_deref(), watch.finish.as_deref()), (Some("m"), Some("stop")));
}

#[test]
fn a_long_event_that_is_no_json_is_noticed() {
    let input = format!("event: content_block_delta\ndata: {{\"text\":\"{}\n\n", "x".repeat(FILLER));
    assert!(same_in_all_sizes(&MESSAGES, &input).garbled);
    let healthy = format!("event: content_block_delta\ndata: {{\"text\":\"{}\"}}\n\n", "x".repeat(FILLER));
    assert!(!same_in_all_sizes(&MESSAGES, &healthy).garbled);
}

#[test]
fn a_long_event_that_never_ends_leaves_no_place_for_an_event_of_ours() {
    let mut relay = Relay::new(&CHAT, true);
    let mut out = VecDeque::new();
    relay.feed(Bytes::from("data: {".to_owned() + &"x".repeat(HOLD + 10)), &mut out);
    assert_eq!(out.iter().map(Bytes::len).sum::<usize>(), HOLD + 17);
    relay.finish(&mut out);
    assert!(!relay.at_boundary());
    assert!(relay.watch().garbled && !relay.watch().terminal);
}
