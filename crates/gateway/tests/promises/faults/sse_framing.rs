//! Events: where reads cut them, how they may look, and what is booked of them.

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
