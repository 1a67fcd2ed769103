//! Requests of clients.

use super::*;

#[test]
fn a_request_is_read_field_by_field() {
    let body = r#"{"model":"m","stream":true,"stream_options":{"include_usage":true},"max_completion_tokens":9,
        "max_tokens":7,"stop":["a","b"],"temperature":0.70,"top_p":1e-2,"top_k":5,"reasoning_effort":"high",
        "verbosity":"low","service_tier":"default","user":"u","safety_identifier":"s","parallel_tool_calls":false,
        "messages":[{"role":"user","content":"say \"hi\""}]}"#;
    let (read, dropped) = read(body);
    let number = |digits: &'static str| Some(Json(digits.into()));
    let expected = Conversation {
        model: "m".into(),
        stream: true,
        limit: Some(Limit { tokens: 9, field: "max_completion_tokens" }),
        stop: vec!["a".into(), "b".into()],
        sampling: Sampling { temperature: number("0.70"), top_p: number("1e-2"), top_k: number("5") },
        reasoning: Reasoning { effort: Some(Effort::High), ..Reasoning::default() },
        verbosity: Some("low".into()),
        tier: Some(Tier::Standard),
        end_user: Some("s".into()),
        parallel: Some(false),
        turns: vec![turn(0, Role::User, vec![text("say \"hi\"")])],
        ..Conversation::default()
    };
    assert_eq!(read, expected);
    assert_eq!(dropped, [""; 0]);
}

#[test]
fn zero_is_a_number_and_null_is_nothing() {
    let limit = |members: &str| read(&with(members)).0.limit.map(|limit| (limit.tokens, limit.field));
    assert_eq!(limit(r#""max_tokens":0"#), Some((0, "max_tokens")));
    assert_eq!(limit(r#""max_completion_tokens":0,"max_tokens":9"#), Some((0, "max_completion_tokens")));
    assert_eq!(limit(r#""max_completion_tokens":null,"max_tokens":12.0"#), Some((12, "max_tokens")));
    assert_eq!(limit(r#""max_tokens":null"#), None);
    let body = with(r#""temperature":0,"top_p":0.0,"top_k":null"#);
    let sampling = read(&body).0.sampling;
    assert_eq!(sampling.temperature, Some(Json("0".into())));
    assert_eq!(sampling.top_p, Some(Json("0.0".into())));
    assert_eq!(sampling.top_k, None);
}

#[test]
fn what_would_change_the_answer_is_refused_by_its_name() {
    let table = [
        (r#""n":2"#, "n"),
        (r#""n":0"#, "n"),
        (r#""logprobs":true"#, "logprobs"),
        (r#""top_logprobs":5"#, "top_logprobs"),
        (r#""logit_bias":{"50256":-100}"#, "logit_bias"),
        (r#""audio":{"voice":"v"}"#, "audio"),
        (r#""modalities":["text","audio"]"#, "modalities"),
        (r#""web_search_options":{"x":1}"#, "web_search_options"),
        (r#""web_search_options":{}"#, "web_search_options"),
        (r#""functions":[{"name":"f"}]"#, "functions"),
        (r#""function_call":"auto""#, "function_call"),
        (r#""reasoning_effort":"vast""#, "reasoning_effort"),
        (r#""response_format":{"type":"grammar"}"#, "response_format.type"),
        (r#""response_format":{"type":"json_schema"}"#, "response_format.json_schema"),
        (
            r#""response_format":{"type":"json_schema","json_schema":{"name":"n"}}"#,
            "response_format.json_schema.schema",
        ),
    ];
    for (members, field) in table {
        assert_eq!(refused(&with(members)), field, "{members}");
    }
}

#[test]
fn a_wrong_type_is_refused_by_its_name() {
    let table = [
        (r#""stream":1"#, "stream"),
        (r#""max_tokens":-1"#, "max_tokens"),
        (r#""max_tokens":"9""#, "max_tokens"),
        (r#""max_tokens":1.5"#, "max_tokens"),
        (r#""temperature":"0""#, "temperature"),
        (r#""stop":[1]"#, "stop"),
        (r#""tools":{}"#, "tools"),
        (r#""tools":[7]"#, "tools[0]"),
        (r#""tools":[{"type":"function","function":{"name":7}}]"#, "tools[0].function.name"),
        (
            r#""tools":[{"type":"function","function":{"name":"f","parameters":"p"}}]"#,
            "tools[0].function.parameters",
        ),
        (r#""tools":[{"type":"function","function":{"name":"f","strict":1}}]"#, "tools[0].function.strict"),
        (r#""tool_choice":"some""#, "tool_choice"),
        (r#""tool_choice":{"type":"function"}"#, "tool_choice.function"),
        (r#""user":"\ud800""#, "user"),
    ];
    for (members, field) in table {
        assert_eq!(refused(&with(members)), field, "{members}");
    }
    assert_eq!(refused(r#"{"model":"m"}"#), "messages");
    assert_eq!(refused(r#"{"model":"m","model":"n"}"#), "");
    assert_eq!(refused("[]"), "");
}

#[test]
fn what_says_what_is_the_case_anyway_is_passed_over() {
    let body = with(
        r#""n":1,"logprobs":false,"top_logprobs":0,"logit_bias":{},"presence_penalty":0,"frequency_penalty":0.0,
        "store":false,"modalities":["text"],"audio":null,"seed":null,"functions":[],"metadata":{},
        "response_format":{"type":"text"}"#,
    );
    let (read, dropped) = read(&body);
    assert_eq!(dropped, [""; 0]);
    assert_eq!(read.format, None);
}

#[test]
fn hints_and_unknown_fields_are_dropped_by_name() {
    let body = r#"{"model":"m","seed":0,"presence_penalty":0.5,"store":true,"metadata":{"a":"b"},"prediction":{},
        "prompt_cache_key":"k","service_tier":"scale","thinking":{"type":"enabled"},"x_vendor":{"a":1},
        "reasoning":{"mode":"pro","effort":"low"},"messages":[{"role":"user","name":"ann","content":[
        {"type":"text","text":"a","odd":1},{"type":"image_url","image_url":{"url":"https://h/i","odd":1}}]},
        {"role":"assistant","content":"b","annotations":[],"prefix":true,"tool_calls":[{"id":"c","type":"function",
        "function":{"name":"f","arguments":"{}","odd":1}}]}],"response_format":{"type":"text","odd":1}}"#;
    let (read, dropped) = read(body);
    let expected = [
        "seed",
        "presence_penalty",
        "store",
        "metadata",
        "prediction",
        "prompt_cache_key",
        "service_tier",
        "thinking",
        "x_vendor",
        "reasoning.mode",
        "response_format.odd",
        "messages.content.odd",
        "messages.content.image_url.odd",
        "messages.name",
        "messages.prefix",
        "messages.tool_calls.function.odd",
    ];
    assert_eq!(dropped, expected);
    assert_eq!(read.reasoning.effort, Some(Effort::Low));
}

#[test]
fn no_more_names_are_told_than_somebody_reads() {
    let members: Vec<String> = (0..200).map(|n| format!(r#""x{n}":1"#)).collect();
    assert_eq!(read(&with(&members.join(","))).1.len(), 64);
}

#[test]
fn instructions_stand_apart_and_keep_their_marks() {
    let body = of(r#"{"role":"system","content":"a"},{"role":"developer","content":[
        {"type":"text","text":"b","cache_control":{"type":"ephemeral"}},{"type":"text","text":"c"},
        {"type":"text","text":"d","cache_control":{"type":"ephemeral","ttl":"1h"}}]},
        {"role":"user","content":"hi"},{"role":"system","content":"later"},{"role":"user","content":"ho"}"#);
    let (read, dropped) = read(&body);
    let expected = [("a", None), ("b", Some(Cache::Short)), ("c", None), ("d", Some(Cache::Long))];
    let expected = expected.map(|(text, cache)| Instruction { text: text.into(), cache });
    assert_eq!(read.instructions, expected);
    let expected = [
        turn(2, Role::User, vec![text("hi")]),
        turn(3, Role::System, vec![text("later")]),
        turn(4, Role::User, vec![text("ho")]),
    ];
    assert_eq!(read.turns, expected);
    assert_eq!(dropped, [""; 0]);
}

#[test]
fn cache_marks_of_either_form_are_read() {
    let table = [
        (r#""cache_control":{"type":"ephemeral"}"#, Some(Cache::Short)),
        (r#""cache_control":{"type":"ephemeral","ttl":"5m"}"#, Some(Cache::Short)),
        (r#""cache_control":{"type":"ephemeral","ttl":"1h"}"#, Some(Cache::Long)),
        (r#""prompt_cache_breakpoint":{"mode":"explicit"}"#, Some(Cache::Long)),
        (r#""prompt_cache_breakpoint":{"mode":"explicit","ttl":"30m"}"#, Some(Cache::Long)),
        (r#""prompt_cache_breakpoint":{"mode":"explicit","ttl":"12h"}"#, Some(Cache::Long)),
        (r#""cache_control":null"#, None),
    ];
    for (mark, cache) in table {
        let body = of(&format!(r#"{{"role":"user","content":[{{"type":"text","text":"a",{mark}}}]}}"#));
        let (read, dropped) = read(&body);
        assert_eq!(read.turns[0].parts, [Part::Text { text: "a".into(), cache }], "{mark}");
        assert_eq!(dropped, [""; 0]);
    }
    let body = of(r#"{"role":"user","content":"a","cache_control":{"type":"ephemeral"}}"#);
    assert_eq!(read(&body).0.turns[0].parts, [marked("a", Cache::Short)]);
    let body = of(r#"{"role":"user","content":[{"type":"text","text":"a","cache_control":{"ttl":"9d"}}]}"#);
    assert_eq!(read(&body).1, ["messages.content.cache_control"]);
}

#[test]
fn every_part_of_a_user_is_read() {
    let image = |source, detail: Option<&'static str>| Part::Image {
        source,
        detail: detail.map(Into::into),
        cache: None,
    };
    let document = |source, name: Option<&'static str>| Part::Document {
        source,
        name: name.map(Into::into),
        context: None,
        cache: None,
    };
    let base64 =
        |media_type: &'static str| Source::Base64 { media_type: media_type.into(), data: "QQ==".into() };
    let table = [
        (
            r#"{"type":"image_url","image_url":{"url":"data:image/PNG;base64,QQ==","detail":"low"}}"#,
            image(base64("image/png"), Some("low")),
        ),
        (
            r#"{"type":"image_url","image_url":{"url":"https://h/i.png"}}"#,
            image(Source::Url("https://h/i.png".into()), None),
        ),
        (r#"{"type":"image_url","image_url":"http://h/i"}"#, image(Source::Url("http://h/i".into()), None)),
        (
            r#"{"type":"file","file":{"filename":"a.pdf","file_data":"data:application/pdf;x=y;base64,QQ=="}}"#,
            document(base64("application/pdf"), Some("a.pdf")),
        ),
        (r#"{"type":"file","file":{"file_data":"QQ=="}}"#, document(base64("application/pdf"), None)),
        (r#"{"type":"file","file":{"file_id":"file-1"}}"#, document(Source::File("file-1".into()), None)),
        (
            r#"{"type":"input_audio","input_audio":{"data":"QQ==","format":"wav"}}"#,
            Part::Audio { data: "QQ==".into(), format: "wav".into() },
        ),
        (r#"{"type":"video_url","video_url":{}}"#, Part::Foreign { kind: "video_url".into() }),
    ];
    for (part, expected) in table {
        let body = of(&format!(r#"{{"role":"user","content":[{part}]}}"#));
        let (read, dropped) = read(&body);
        assert_eq!(read.turns[0].parts, [expected], "{part}");
        assert_eq!(dropped, [""; 0]);
    }
}

#[test]
fn a_message_that_can_not_be_read_is_refused_by_its_path() {
    let table = [
        (r#"7"#, "messages[0]"),
        (r#"{"content":"a"}"#, "messages[0].role"),
        (r#"{"role":"function","content":"a"}"#, "messages[0].role"),
        (r#"{"role":"king","content":"a"}"#, "messages[0].role"),
        (r#"{"role":"user"}"#, "messages[0].content"),
        (r#"{"role":"user","content":7}"#, "messages[0].content"),
        (r#"{"role":"user","content":["a"]}"#, "messages[0].content[0]"),
        (r#"{"role":"user","content":[{"text":"a"}]}"#, "messages[0].content[0].type"),
        (
            r#"{"role":"user","content":[{"type":"text","text":"a"},{"type":"text","text":1}]}"#,
            "messages[0].content[1].text",
        ),
        (
            r#"{"role":"user","content":[{"type":"image_url","image_url":{"url":"data:image/png,raw"}}]}"#,
            "messages[0].content[0].image_url.url",
        ),
        (
            r#"{"role":"user","content":[{"type":"image_url","image_url":"ftp://h"}]}"#,
            "messages[0].content[0].image_url",
        ),
        (r#"{"role":"user","content":[{"type":"file","file":{}}]}"#, "messages[0].content[0].file.file_data"),
        (
            r#"{"role":"system","content":[{"type":"image_url","image_url":"https://h"}]}"#,
            "messages[0].content[0].type",
        ),
        (r#"{"role":"assistant","audio":{"id":"a"}}"#, "messages[0].audio"),
        (r#"{"role":"assistant","function_call":{"name":"f"}}"#, "messages[0].function_call"),
        (r#"{"role":"assistant","tool_calls":[{"type":"function"}]}"#, "messages[0].tool_calls[0].id"),
        (
            r#"{"role":"assistant","tool_calls":[{"id":"c","function":{"name":"f","arguments":{}}}]}"#,
            "messages[0].tool_calls[0].function.arguments",
        ),
        (r#"{"role":"tool","content":"a"}"#, "messages[0].tool_call_id"),
    ];
    for (message, field) in table {
        assert_eq!(refused(&of(message)), field, "{message}");
    }
}

#[test]
fn arguments_keep_their_text() {
    let given = r#"{ \"id\":7300000000000000123,\"rate\":1.10,\"z\":1,\"a\":2}"#;
    let body = of(&format!(
        r#"{{"role":"assistant","content":"","tool_calls":[
        {{"id":"c1","type":"function","function":{{"name":"f","arguments":"{given}"}}}},
        {{"id":"c2","type":"function","function":{{"name":"f","arguments":""}}}},
        {{"id":"c3","type":"function","function":{{"name":"f","arguments":"{{\"torn\":"}}}},
        {{"id":"c4","type":"custom","custom":{{"name":"g","input":"print(1)"}}}}]}}"#
    ));
    let free = |id: &'static str, name: &'static str, text: &'static str| Part::Call {
        id: id.into(),
        name: name.into(),
        arguments: Arguments::Free(text.into()),
        cache: None,
    };
    let expected = [
        call("c1", r#"{ "id":7300000000000000123,"rate":1.10,"z":1,"a":2}"#),
        call("c2", "{}"),
        free("c3", "f", r#"{"torn":"#),
        free("c4", "g", "print(1)"),
    ];
    assert_eq!(read(&body).0.turns[0].parts, expected);
}

#[test]
fn an_image_in_a_tools_result_is_kept() {
    let body = of(r#"{"role":"tool","tool_call_id":"c1","content":[{"type":"text","text":"page"},
        {"type":"image_url","image_url":{"url":"data:image/png;base64,iVBORw0KGgo="}}]},
        {"role":"tool","tool_call_id":"c2","content":"plain"}"#);
    let result =
        |id: &'static str, parts| Part::Result { id: id.into(), parts, is_error: false, cache: None };
    let source = Source::Base64 { media_type: "image/png".into(), data: "iVBORw0KGgo=".into() };
    let image = Part::Image { source, detail: None, cache: None };
    let expected = [
        turn(0, Role::User, vec![result("c1", vec![text("page"), image])]),
        turn(1, Role::User, vec![result("c2", vec![text("plain")])]),
    ];
    assert_eq!(read(&body).0.turns, expected);
}

#[test]
fn tools_of_every_kind_are_read() {
    let body = with(
        r#""tools":[{"type":"function","function":{"name":"f","description":"d","strict":false,
        "parameters":{"z":1.10,"a":{"$ref":"\u0023"}}},"cache_control":{"type":"ephemeral"}},
        {"type":"function","function":{"name":"g","parameters":null}},
        {"type":"custom","custom":{"name":"h"}},
        {"type":"custom","custom":{"name":"i","format":{"type":"grammar","grammar":{}}}},
        {"type":"web_search","filters":{}}]"#,
    );
    let tool = |name: &'static str, takes| Tool {
        name: name.into(),
        description: None,
        takes,
        strict: None,
        cache: None,
    };
    let schema = Some(Json(r##"{"z":1.10,"a":{"$ref":"\u0023"}}"##.into()));
    let expected = [
        Tool {
            description: Some("d".into()),
            strict: Some(false),
            cache: Some(Cache::Short),
            ..tool("f", Takes::Schema(schema))
        },
        tool("g", Takes::Schema(None)),
        tool("h", Takes::Text { grammar: false }),
        tool("i", Takes::Text { grammar: true }),
        tool("web_search", Takes::Hosted { kind: "web_search".into() }),
    ];
    let (read, dropped) = read(&body);
    assert_eq!(read.tools, expected);
    assert_eq!(dropped, [""; 0]);
}

#[test]
fn every_choice_of_tools_is_read() {
    let among = |must| Choice::Among { names: vec!["f".into(), "h".into()], must };
    let allowed = |mode: &str| {
        format!(
            r#"{{"type":"allowed_tools","allowed_tools":{{"mode":"{mode}","tools":[
            {{"type":"function","function":{{"name":"f"}}}},{{"type":"custom","custom":{{"name":"h"}}}}]}}}}"#
        )
    };
    let table = [
        (r#""none""#.to_owned(), Choice::None),
        (r#""auto""#.to_owned(), Choice::Auto),
        (r#""required""#.to_owned(), Choice::Any),
        (r#"{"type":"function","function":{"name":"f"}}"#.to_owned(), Choice::Named("f".into())),
        (r#"{"type":"custom","custom":{"name":"h"}}"#.to_owned(), Choice::Named("h".into())),
        (allowed("auto"), among(false)),
        (allowed("required"), among(true)),
    ];
    for (choice, expected) in table {
        let body = with(&format!(r#""tool_choice":{choice}"#));
        assert_eq!(read(&body).0.choice, Some(expected), "{choice}");
    }
    assert_eq!(
        refused(&with(&format!(r#""tool_choice":{}"#, allowed("some")))),
        "tool_choice.allowed_tools.mode"
    );
}

#[test]
fn a_schema_of_the_answer_keeps_its_text() {
    let body = with(
        r##""response_format":{"type":"json_schema","json_schema":{"name":"o","strict":true,
        "schema":{"type":"object","$defs":{"P":{}},"properties":{"p":{"$ref":"#/$defs/P"}}}}}"##,
    );
    let schema = r##"{"type":"object","$defs":{"P":{}},"properties":{"p":{"$ref":"#/$defs/P"}}}"##;
    let expected = Format::Schema {
        name: Some("o".into()),
        description: None,
        schema: Json(schema.into()),
        strict: Some(true),
    };
    assert_eq!(read(&body).0.format, Some(expected));
    assert_eq!(read(&with(r#""response_format":{"type":"json_object"}"#)).0.format, Some(Format::Object));
}

#[test]
fn a_refusal_comes_after_what_was_said() {
    let body =
        of(r#"{"role":"assistant","refusal":"no","content":[{"type":"text","text":"a"}],"tool_calls":null}"#);
    assert_eq!(read(&body).0.turns[0].parts, [text("a"), Part::Refusal { text: "no".into() }]);
}

#[test]
fn texts_without_escapes_are_borrowed() {
    let body = of(r#"{"role":"user","content":"plain"},{"role":"user","content":"a\nb"}"#);
    let (read, _) = read(&body);
    let is_borrowed =
        |at: usize| matches!(&read.turns[at].parts[0], Part::Text { text: Text::Borrowed(_), .. });
    assert!(is_borrowed(0) && !is_borrowed(1));
}
