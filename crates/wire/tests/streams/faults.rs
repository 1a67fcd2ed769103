//! Faults that users of other gateways have met, one test each.

use std::collections::VecDeque;

use bytes::Bytes;
use wire::dialect::{CHAT, Dialect, Fault, MESSAGES, RESPONSES};
use wire::relay::{Relay, Watch};

use super::relay;

const ROLE: &str = "data: {\"id\":\"c1\",\"model\":\"m\",\"choices\":[{\"index\":0,\"delta\":{\"role\":\"assistant\",\"content\":\"\"}}]}\n\n";
const TEXT: &str =
    "data: {\"id\":\"c1\",\"model\":\"m\",\"choices\":[{\"index\":0,\"delta\":{\"content\":\"yes\"}}]}\n\n";
const FINISH: &str = "data: {\"id\":\"c1\",\"model\":\"m\",\"choices\":[{\"index\":0,\"delta\":{},\"finish_reason\":\"stop\"}]}\n\n";
const USAGE: &str = "data: {\"id\":\"c1\",\"model\":\"m\",\"choices\":[],\"usage\":{\"prompt_tokens\":4,\"completion_tokens\":2}}\n\n";
const DONE: &str = "data: [DONE]\n\n";

fn event_of(dialect: &dyn Dialect, fault: &Fault<'_>) -> String {
    String::from_utf8(dialect.error_event(fault, &Watch::default()).to_vec()).unwrap()
}

#[test]
fn k001_a_character_cut_between_two_reads_is_the_same_character() {
    let read1 = b"data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"caf\xc3";
    let read2 = b"\xa9 \\u00fcber\"}}]}\n\n";
    let relayed = relay(&CHAT, false, [&read1[..], &read2[..]]);
    assert_eq!(relayed.out, [&read1[..], &read2[..]].concat());
    assert!(!relayed.watch.garbled && relayed.watch.content);
}

#[test]
fn k002_data_lines_are_read_as_one_text() {
    let input = "event: response.output_text.delta\ndata: {\"type\":\"response.output_text.delta\",\ndata: \"sequence_number\":3,\"output_index\":0,\"delta\":\"ok\"}\n\n";
    let relayed = relay(&RESPONSES, false, [input.as_bytes()]);
    assert_eq!(relayed.out, input.as_bytes());
    assert!(relayed.watch.content && !relayed.watch.garbled);
    assert_eq!(relayed.watch.sequence, Some(3));
}

#[test]
fn k003_usage_is_counted_wherever_its_event_is_cut() {
    let input = "event: response.completed\ndata: {\"type\":\"response.completed\",\"response\":{\"status\":\"completed\",\"usage\":{\"input_tokens\":40,\"output_tokens\":9,\"total_tokens\":49}}}\n\n";
    for cut in 0..input.len() {
        let (first, second) = input.split_at(cut);
        let watch = relay(&RESPONSES, false, [first.as_bytes(), second.as_bytes()]).watch;
        assert_eq!((watch.usage.input, watch.usage.output), (40, 9), "cut at {cut}");
    }
}

#[test]
fn k004_nameless_messages_are_understood_and_pass_as_they_are() {
    let input = "data: {\"type\":\"message_start\",\"message\":{\"id\":\"msg_2\",\"role\":\"assistant\",\"content\":[],\"usage\":{\"input_tokens\":5,\"output_tokens\":0}}}\n\ndata: {\"type\":\"content_block_start\",\"index\":0,\"content_block\":{\"type\":\"text\",\"text\":\"\"}}\n\ndata: {\"type\":\"message_stop\"}\n\n";
    let relayed = relay(&MESSAGES, false, [input.as_bytes()]);
    assert_eq!(relayed.out, input.as_bytes());
    assert!(relayed.watch.terminal && relayed.watch.content);
    assert_eq!(relayed.watch.usage.input, 5);
}

#[test]
fn k005_a_foreign_sentinel_neither_ends_nor_spoils_a_messages_stream() {
    let stop = "event: message_stop\ndata: {\"type\":\"message_stop\"}\n\n";
    let relayed = relay(&MESSAGES, false, [stop.as_bytes()]);
    assert_eq!(relayed.out, stop.as_bytes(), "nothing is added behind the last event");
    assert!(relay(&MESSAGES, false, [stop.as_bytes(), DONE.as_bytes()]).watch.terminal);
    let alone = relay(&MESSAGES, false, [DONE.as_bytes()]).watch;
    assert!(!alone.terminal && !alone.garbled);
}

#[test]
fn k006_garbage_passes_but_the_stream_is_not_whole() {
    let garbage = "data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"total: 1\n\n";
    let relayed = relay(&CHAT, true, [garbage.as_bytes(), DONE.as_bytes()]);
    assert_eq!(relayed.out, [garbage, DONE].concat().as_bytes());
    assert!(relayed.watch.garbled);
    // Also where only parsing shows it, and in every protocol.
    for (dialect, text) in [
        (&CHAT as &'static dyn Dialect, "data: {\"choices\":[}\n\n"),
        (&MESSAGES, "event: message_delta\ndata: {\"usage\":}\n\n"),
        (&MESSAGES, "event: content_block_delta\ndata: oops\n\n"),
        (&RESPONSES, "event: response.completed\ndata: {\"response\":{}\n\n"),
    ] {
        assert!(relay(dialect, false, [text.as_bytes()]).watch.garbled, "{text}");
    }
}

#[test]
fn k007_metadata_with_empty_choices_passes_without_a_trace() {
    let metadata = "data: {\"id\":\"\",\"model\":\"\",\"choices\":[],\"prompt_filter_results\":[{\"prompt_index\":0}]}\n\n";
    let relayed = relay(&CHAT, true, [metadata.as_bytes()]);
    assert_eq!(relayed.out, metadata.as_bytes());
    assert_eq!(relayed.watch, Watch::default());
    let null = "data: {\"id\":\"c1\",\"choices\":[],\"usage\":null}\n\n";
    assert_eq!(relay(&CHAT, true, [null.as_bytes()]).out, null.as_bytes());
}

#[test]
fn k008_usage_is_booked_always_and_relayed_only_where_it_was_asked_for() {
    let chunks = || [ROLE, TEXT, FINISH, USAGE, DONE].map(str::as_bytes);
    let hidden = relay(&CHAT, true, chunks());
    assert_eq!(hidden.out, [ROLE, TEXT, FINISH, DONE].concat().as_bytes());
    let shown = relay(&CHAT, false, chunks());
    assert_eq!(shown.out, [ROLE, TEXT, FINISH, USAGE, DONE].concat().as_bytes());
    for watch in [hidden.watch, shown.watch] {
        assert_eq!((watch.usage.input, watch.usage.output), (4, 2));
    }
    // Usage beside a choice belongs to the answer.
    let both = FINISH.replace("}]}", "}],\"usage\": {\"prompt_tokens\":1,\"completion_tokens\":1}}");
    let relayed = relay(&CHAT, true, [both.as_bytes()]);
    assert_eq!(relayed.out, both.as_bytes());
    assert!(relayed.watch.has_usage);
}

#[test]
fn k009_no_opening_event_is_made_beside_the_real_one() {
    let start = "event: message_start\ndata: {\"type\":\"message_start\",\"message\":{\"id\":\"msg_7\",\"usage\":{\"input_tokens\":11}}}\n\n";
    let relayed = relay(&MESSAGES, true, [start.as_bytes()]);
    assert_eq!(relayed.out, start.as_bytes());
    assert_eq!(relayed.watch.usage.input, 11);
}

#[test]
fn k010_an_error_has_the_shape_that_the_client_parses() {
    let fault = Fault {
        status: 502,
        code: "upstream_error",
        message: "the connection broke",
        param: None,
        request_id: "r-1",
    };
    let event = event_of(&MESSAGES, &fault);
    assert!(event.starts_with("event: error\ndata: {\"type\":\"error\",\"error\":{\"type\":\"api_error\","));
    let event = event_of(&CHAT, &fault);
    assert!(event.starts_with("data: {\"error\":{\"message\":\"the connection broke\""));
    assert!(!event.contains("[DONE]"));
}

#[test]
fn k011_an_unknown_frame_that_looks_like_an_error_tells_the_providers_reason() {
    let frame =
        "data: {\"error_type\":\"validation_error\",\"error_message\":\"prompt too long: 9100 of 8192\"}\n\n";
    let relayed = relay(&CHAT, true, [ROLE.as_bytes(), frame.as_bytes()]);
    assert_eq!(relayed.out, [ROLE, frame].concat().as_bytes());
    assert_eq!(relayed.watch.error.as_deref(), Some("prompt too long: 9100 of 8192"));
    assert!(relayed.watch.terminal);
}

#[test]
fn k014_a_failed_stream_has_no_usage_and_its_error_is_no_content() {
    let message = "word ".repeat(400);
    let frame = format!("data: {{\"error\":{{\"message\":\"{message}\",\"type\":\"server_error\"}}}}\n\n");
    let watch = relay(&CHAT, true, [frame.as_bytes()]).watch;
    assert!(!watch.has_usage && !watch.content);
    assert_eq!(watch.error.as_deref(), Some(&*message));
}

#[test]
fn k015_all_events_of_one_packet_are_relayed_in_order() {
    let packet = Bytes::from([ROLE, TEXT, FINISH, USAGE, DONE].concat());
    let mut relay = Relay::new(&CHAT, false);
    let mut out = VecDeque::new();
    relay.feed(packet.clone(), &mut out);
    assert_eq!(out.len(), 1);
    assert_eq!(out[0], packet);
    assert_eq!(out[0].as_ptr(), packet.as_ptr(), "a chunk of whole events is not copied");
    assert_eq!(relay.watch().finish.as_deref(), Some("stop"));

    let mut relay = Relay::new(&CHAT, true);
    out.clear();
    relay.feed(packet.clone(), &mut out);
    assert_eq!(
        out.iter().flatten().copied().collect::<Vec<u8>>(),
        [ROLE, TEXT, FINISH, DONE].concat().as_bytes()
    );
    assert!(
        out.iter().all(|piece| packet.as_ptr_range().contains(&piece.as_ptr())),
        "nor is one that is cut"
    );
}
