//! Events: where reads cut them, how they may look, and what is booked of them.

use serde_json::json;

use super::tongues::*;
use super::*;

#[tokio::test(start_paused = true)]
async fn k001_a_character_cut_between_two_reads_arrives_whole() {
    let text = b"data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"caf\xc3\xa9 \\u00fcber\"}}]}\n\n";
    let stream = [text.as_slice(), FINISH.as_bytes(), DONE.as_bytes()].concat();
    for cut in 0..=stream.len() {
        let told = told(CHAT, CHAT_CALL, cut_at(&stream, cut)).await;
        assert_eq!(told.reply.body, stream, "cut at {cut}");
        assert_eq!((told.record.error.as_ref(), told.outcomes()), (None, one("ok")), "cut at {cut}");
    }
}

#[tokio::test(start_paused = true)]
async fn k002_usage_in_an_event_of_several_data_lines_is_booked() {
    let stream = "event: response.output_text.delta\ndata: {\"type\":\"response.output_text.delta\",\ndata: \"output_index\":0,\"delta\":\"ok\"}\n\n\
        event: response.completed\ndata: {\"type\":\"response.completed\",\"response\":\ndata: {\"status\":\"completed\",\"usage\":\ndata: {\"input_tokens\":40,\"output_tokens\":9}}}\n\n";
    for cut in 0..=stream.len() {
        let told = told(RESPONSES, RESPONSES_CALL, cut_at(stream.as_bytes(), cut)).await;
        assert_eq!(told.reply.text(), stream, "cut at {cut}");
        assert_eq!(told.tokens(), (Some(40), Some(9)), "cut at {cut}");
        assert_eq!((told.record.error.as_ref(), told.outcomes()), (None, one("ok")), "cut at {cut}");
    }
}

#[tokio::test(start_paused = true)]
async fn k003_usage_is_in_record_and_metrics_wherever_its_event_is_cut() {
    let stream = "event: response.completed\ndata: {\"type\":\"response.completed\",\"response\":{\"status\":\"completed\",\"usage\":{\"input_tokens\":40,\"output_tokens\":9,\"total_tokens\":49}}}\n\n";
    for cut in 0..=stream.len() {
        let told = told(RESPONSES, RESPONSES_CALL, cut_at(stream.as_bytes(), cut)).await;
        assert_eq!(told.tokens(), (Some(40), Some(9)), "cut at {cut}");
        let counted = ["input", "output"].map(|kind| tokens_counted(&told.world, kind));
        assert_eq!(counted, [40, 9], "cut at {cut}");
    }
}

#[tokio::test(start_paused = true)]
async fn k004_nameless_messages_pass_and_are_booked() {
    let stream = [START, DELTA, STOP].concat();
    let nameless: String =
        stream.lines().filter(|line| !line.starts_with("event:")).map(|line| format!("{line}\n")).collect();
    let told = told(MESSAGES, MESSAGES_CALL, Scripted::chunked(EVENTS, &[nameless.as_bytes()])).await;
    assert_eq!(told.reply.text(), nameless, "nothing is added: not the names either");
    assert_eq!(told.tokens(), (Some(11), Some(1)));
    assert_eq!((told.record.error.as_ref(), told.outcomes()), (None, one("ok")));
}

#[tokio::test(start_paused = true)]
async fn k005_every_stream_ends_as_its_provider_ended_it() {
    for (path, call, stream) in [
        (MESSAGES, MESSAGES_CALL, [START, STOP].concat()),
        (MESSAGES, MESSAGES_CALL, [START, STOP, DONE].concat()),
        (CHAT, CHAT_CALL, [ROLE, FINISH, DONE].concat()),
    ] {
        let told = told(path, call, Scripted::chunked(EVENTS, &[stream.as_bytes()])).await;
        assert_eq!(told.reply.text(), stream);
        assert_eq!((told.record.error.as_ref(), told.outcomes()), (None, one("ok")), "{stream}");
    }
    // The sentinel of another protocol does not stand for the end that is missing.
    let told =
        told(MESSAGES, MESSAGES_CALL, Scripted::chunked(EVENTS, &[START.as_bytes(), DONE.as_bytes()])).await;
    assert!(told.reply.text().contains("event: error\n"), "{}", told.reply.text());
    assert_eq!(told.outcomes(), one("cut"));
}

#[tokio::test(start_paused = true)]
async fn k006_a_stream_with_garbage_in_it_is_booked_as_failed() {
    let garbage = "data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"total: 1\n\n";
    for stream in [[garbage, DONE].concat(), [ROLE, garbage, FINISH, DONE].concat()] {
        let told = told(CHAT, CHAT_CALL, Scripted::chunked(EVENTS, &[stream.as_bytes()])).await;
        assert_eq!(told.reply.text(), stream, "the client's own parser is to see it");
        assert_eq!(told.error(), ("upstream_error", Some("garbled")));
        assert!(told.record.failed());
        assert_eq!(told.outcomes(), one("failed"));
        assert!(told.world.log().contains(" WARN call "), "{}", told.world.log());
    }
}

#[tokio::test(start_paused = true)]
async fn k007_a_chunk_of_metadata_without_choices_is_neither_usage_nor_the_end() {
    let metadata = "data: {\"id\":\"\",\"model\":\"\",\"choices\":[],\"prompt_filter_results\":[{\"prompt_index\":0}]}\n\n";
    // The caller did not ask for usage, so chunks without choices are looked at closely.
    let call = chat_stream("x");
    let stream = [metadata, ROLE, TEXT, FINISH, DONE].concat();
    let whole = told(CHAT, call.clone(), Scripted::chunked(EVENTS, &[stream.as_bytes()])).await;
    assert_eq!(whole.reply.text(), stream);
    assert_eq!((whole.record.error.as_ref(), whole.outcomes()), (None, one("ok")));
    let cut = told(CHAT, call, Scripted::chunked(EVENTS, &[metadata.as_bytes()])).await;
    assert_eq!(cut.outcomes(), one("cut"), "alone it is no answer");
}

#[tokio::test(start_paused = true)]
async fn k008_usage_is_booked_always_and_shown_only_to_who_asked() {
    let (all, hidden) = ([ROLE, TEXT, FINISH, USAGE, DONE].concat(), [ROLE, TEXT, FINISH, DONE].concat());
    for (options, shown) in [
        ("", &hidden),
        (r#""stream_options":{"include_usage":false},"#, &hidden),
        (r#""stream_options":{"include_usage":true},"#, &all),
    ] {
        let call = format!(r#"{{"model":"gpt-x","stream":true,{options}"messages":[]}}"#);
        let told = told(CHAT, call, Scripted::chunked(EVENTS, &[all.as_bytes()])).await;
        assert_eq!(&told.reply.text(), shown, "{options}");
        assert_eq!(told.tokens(), (Some(4), Some(2)), "{options}");
        let sent: serde_json::Value =
            serde_json::from_slice(&parts(&told.provider.received.lock()[0]).1).unwrap();
        assert_eq!(sent["stream_options"]["include_usage"], true, "{options}");
    }
}

#[tokio::test(start_paused = true)]
async fn k008_translated_usage_is_booked_always_and_shown_only_to_who_asked() {
    let says = claude(&json!([{"type": "text", "text": "yes"}]), "end_turn");
    for (options, shown) in
        [(json!(null), 0), (json!({"include_usage": false}), 0), (json!({"include_usage": true}), 1)]
    {
        let told = streams(CHAT, &across_with(CHAT, json!({"stream_options": options})), &says.stream).await;
        let events = super::tongues::events(&told.reply.text());
        let usage: Vec<_> = events.iter().filter(|chunk| chunk["choices"] == json!([])).collect();
        assert_eq!(usage.len(), shown, "{options}");
        assert!(usage.iter().all(|chunk| chunk["usage"]["prompt_tokens"] == 11), "{usage:?}");
        assert_eq!(told.tokens(), (Some(11), Some(5)), "{options}");
    }
}

#[tokio::test(start_paused = true)]
async fn k009_an_answer_is_opened_once_also_after_a_long_silence() {
    let stream = [START, DELTA, STOP].concat();
    for silence in [0, 16, 40] {
        let steps = vec![Do::Pause(secs(silence)), stream_head(), event(&stream), stream_end()];
        let told = told(MESSAGES, MESSAGES_CALL, Scripted::new(steps)).await;
        let text = told.reply.text();
        assert_eq!(text.matches("event: message_start\n").count(), 1, "{text}");
        assert_eq!(text.replace("event: ping\ndata: {\"type\": \"ping\"}\n\n", ""), stream);
        assert_eq!(told.tokens(), (Some(11), Some(1)));
    }
}

/// An answer of either provider, with letters of several bytes in it, in a form that its own clients would take.
fn answers() -> [(&'static str, Says); 2] {
    let said = "f\u{fc}r \u{1f600} \"x\"";
    [
        (
            CHAT,
            claude(
                &json!([{"type": "text", "text": said}, tool_use("t1", "f", &json!({"a": said}))]),
                "tool_use",
            ),
        ),
        (
            MESSAGES,
            gpt(
                &json!({"content": said, "tool_calls": [call("t1", "f", "{\"a\":\"\u{fc}\"}")]}),
                "tool_calls",
            ),
        ),
    ]
}

/// What a client of this protocol makes of a stream.
fn put_together(path: &str, text: &str) -> serde_json::Value {
    if path == CHAT { put_chat_together(text) } else { put_message_together(text) }
}

#[tokio::test(start_paused = true)]
async fn k001_a_translated_stream_says_the_same_wherever_it_is_cut() {
    for (path, says) in answers() {
        let whole = put_together(path, &streams(path, &across(path), &says.stream).await.reply.text());
        for cut in (1..says.stream.len()).step_by(11) {
            let told = told_with(
                BOTH,
                path,
                streamed(across(path)).to_string(),
                cut_at(says.stream.as_bytes(), cut),
            );
            let told = told.await;
            assert_eq!(put_together(path, &told.reply.text()), whole, "cut at {cut}");
            assert_eq!(told.tokens(), (Some(11), Some(5)), "cut at {cut}");
        }
    }
}

/// Events in all the forms that the framing allows: other ends of lines, data in several lines, comments between.
#[tokio::test(start_paused = true)]
async fn k002_a_translated_stream_says_the_same_however_it_is_framed() {
    for (path, says) in answers() {
        let whole = put_together(path, &streams(path, &across(path), &says.stream).await.reply.text());
        let lines =
            says.stream.replace("{\"type\":", "{\ndata: \"type\":").replace("{\"id\":", "{\ndata: \"id\":");
        for framed in [
            lines,
            says.stream.replace('\n', "\r\n"),
            says.stream.replace('\n', "\r"),
            says.stream.replace("data: ", "data:"),
            says.stream.replace("\n\n", "\nid: 7\nretry: 9\n\n: still here\n\n"),
            format!("\u{feff}{}", says.stream),
        ] {
            let told = streams(path, &across(path), &framed).await;
            assert_eq!(put_together(path, &told.reply.text()), whole, "{framed}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn k004_events_without_a_name_or_a_type_are_understood_and_get_both() {
    let says = claude(&json!([{"type": "text", "text": "yes"}, tool_use("t1", "f", &json!({}))]), "tool_use");
    let whole = hears(CHAT, &across(CHAT), &says).await;
    let nameless: String = says
        .stream
        .lines()
        .filter(|line| !line.starts_with("event:"))
        .map(|line| format!("{line}\n"))
        .collect();
    let told = streams(CHAT, &across(CHAT), &nameless).await;
    assert_eq!(put_chat_together(&told.reply.text()), whole);
    // The type of an event stands in its name as well.
    let typeless: String = says
        .stream
        .split_inclusive("\n\n")
        .map(|event| {
            let kind = event.lines().next().unwrap().strip_prefix("event: ").unwrap();
            event
                .replace(&format!(",\"type\":\"{kind}\""), "")
                .replace(&format!("\"type\":\"{kind}\","), "")
                .replace(&format!("{{\"type\":\"{kind}\"}}"), "{}")
        })
        .collect();
    assert!(!typeless.contains("\"type\":\"message_"), "{typeless}");
    let told = streams(CHAT, &across(CHAT), &typeless).await;
    assert_eq!(put_chat_together(&told.reply.text()), whole);
    // To a client of Messages every event has its name: `put_message_together` looks at each.
    let told = streams(MESSAGES, &across(MESSAGES), &gpt(&json!({"content": "yes"}), "stop").stream).await;
    assert_eq!(put_message_together(&told.reply.text())["content"][0]["text"], "yes");
}

#[tokio::test(start_paused = true)]
async fn k005_a_translated_stream_ends_as_its_clients_protocol_does() {
    let says = claude(&json!([{"type": "text", "text": "yes"}]), "end_turn");
    for stream in [says.stream.clone(), says.stream.clone() + DONE] {
        let told = streams(CHAT, &across(CHAT), &stream).await;
        assert_eq!(put_chat_together(&told.reply.text())["message"]["content"], "yes");
    }
    // The sentinel of another protocol does not stand for the end that is missing.
    let cut = says.stream.replace("event: message_stop\ndata: {\"type\":\"message_stop\"}\n\n", DONE);
    assert_ne!(cut, says.stream);
    let told = streams(CHAT, &across(CHAT), &cut).await;
    let text = told.reply.text();
    assert!(!text.contains("[DONE]") && text.contains("\"error\""), "{text}");
    assert_eq!(told.outcomes(), one("cut"));

    let says = gpt(&json!({"content": "yes"}), "stop");
    let told = streams(MESSAGES, &across(MESSAGES), &says.stream).await;
    assert_eq!(put_message_together(&told.reply.text())["content"][0]["text"], "yes");
    let told = streams(MESSAGES, &across(MESSAGES), &(says.stream + DONE + STOP)).await;
    assert_eq!(
        put_message_together(&told.reply.text())["content"][0]["text"],
        "yes",
        "what is behind it is nothing"
    );
}

#[tokio::test(start_paused = true)]
async fn k006_garbage_makes_a_translated_stream_a_failure_wherever_it_stands() {
    for (path, says) in answers() {
        let events: Vec<&str> = says.stream.split_inclusive("\n\n").collect();
        for garbage in [
            "data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"total: 1\n\n",
            "data: <html>\n\n",
            "event: content_block_delta\ndata: [1,\n\n",
        ] {
            for at in 0..events.len() - 1 {
                let mut spoilt = events.clone();
                spoilt.insert(at, garbage);
                let told = streams(path, &across(path), &spoilt.concat()).await;
                let text = told.reply.text();
                assert!(!text.contains("[DONE]") && !text.contains("message_stop"), "{at}: {text}");
                let last = super::tongues::events(&text).pop().unwrap();
                assert!(last["error"]["message"].is_string(), "{at}: {text}");
                assert_eq!(last["type"] == "error", path == MESSAGES, "{at}: {text}");
                assert!(told.record.failed(), "{at}");
                assert_eq!(told.outcomes(), one("failed"), "{at}: {text}");
            }
        }
    }
}

#[tokio::test(start_paused = true)]
async fn k007_metadata_without_choices_opens_and_ends_nothing_in_the_other_protocol() {
    let says = gpt(&json!({"content": "yes"}), "stop");
    let whole = hears(MESSAGES, &across(MESSAGES), &says).await;
    let events: Vec<&str> = says.stream.split_inclusive("\n\n").collect();
    for metadata in [
        "data: {\"id\":\"\",\"model\":\"\",\"choices\":[],\"prompt_filter_results\":[{\"prompt_index\":0}]}\n\n",
        "data: {\"choices\":[]}\n\n",
        "data: {\"id\":\"x\",\"object\":\"chat.completion.chunk\"}\n\n",
        "data:\n\n",
        ": processing\n\n",
    ] {
        for at in 0..events.len() {
            let mut stream = events.clone();
            stream.insert(at, metadata);
            let told = streams(MESSAGES, &across(MESSAGES), &stream.concat()).await;
            let text = told.reply.text();
            assert_eq!(put_message_together(&text), whole, "{at}");
            assert!(
                text.contains("\"id\":\"chatcmpl-1\""),
                "the first chunk that counts names the answer: {text}"
            );
            assert_eq!(told.tokens(), (Some(11), Some(5)), "{at}");
        }
        // Alone it is no answer.
        let told = streams(MESSAGES, &across(MESSAGES), metadata).await;
        assert!(told.reply.text().contains("event: error\n"), "{}", told.reply.text());
        assert!(told.record.failed());
    }
}

#[tokio::test(start_paused = true)]
async fn k009_a_translated_answer_is_opened_once_also_after_a_long_silence() {
    for (path, says) in answers() {
        let whole = put_together(path, &streams(path, &across(path), &says.stream).await.reply.text());
        // The first event comes twice, from some servers.
        let first = says.stream.split_inclusive("\n\n").next().unwrap();
        for stream in [says.stream.clone(), [first, &says.stream].concat()] {
            for silence in [0, 16, 40] {
                let steps = vec![Do::Pause(secs(silence)), stream_head(), event(&stream), stream_end()];
                let call = streamed(across(path)).to_string();
                let told = told_with(BOTH, path, call, Scripted::new(steps)).await;
                let text = told.reply.text().replace(": keep-alive\n\n", "");
                let text = text.replace("event: ping\ndata: {\"type\": \"ping\"}\n\n", "");
                assert_eq!(put_together(path, &text), whole, "{silence}");
            }
        }
    }
}
