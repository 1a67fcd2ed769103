//! Requests to providers.

use super::*;

/// Writes a conversation that can be written: its body, and what was dropped.
fn write(said: &Conversation<'_>, to: &Destination<'_>) -> (String, Vec<String>) {
    let mut dropped = Dropped::default();
    let (body, _) =
        CHAT_TONGUE.write(said, to, &mut dropped).unwrap_or_else(|unfit| panic!("{} {unfit}", unfit.field));
    (String::from_utf8(body).unwrap(), dropped.names().map(str::to_owned).collect())
}

/// The body without its beginning and its messages.
fn members(said: &Conversation<'_>, model: &str) -> (String, Vec<String>) {
    let (body, dropped) = write(said, &Destination { model, ..Destination::default() });
    let head = format!(r#"{{"model":"{model}","#);
    let rest = body.strip_prefix(&head).unwrap();
    (rest[..rest.find(r#""messages":"#).unwrap()].trim_end_matches(',').to_owned(), dropped)
}

/// The messages alone.
fn messages(turns: Vec<Turn<'_>>, to: &Destination<'_>) -> (String, Vec<String>) {
    let (body, dropped) = write(&Conversation { turns, ..Conversation::default() }, to);
    let at = body.find(r#""messages":["#).unwrap() + r#""messages":["#.len();
    (body[at..body.len() - 2].to_owned(), dropped)
}

/// The field for which a conversation can't be written.
fn unfit(said: &Conversation<'_>, model: &str) -> String {
    let to = Destination { model, ..Destination::default() };
    match CHAT_TONGUE.write(said, &to, &mut Dropped::default()) {
        Ok((body, _)) => panic!("written: {}", String::from_utf8_lossy(&body)),
        Err(unfit) => unfit.field,
    }
}

const TO: Destination<'static> =
    Destination { model: "m", ask_usage: false, default_limit: 0, old_limit: false, replays_thoughts: false };

fn function(name: &str) -> Tool<'_> {
    Tool { name: name.into(), description: None, takes: Takes::Schema(None), strict: None, cache: None }
}

#[test]
fn a_request_is_written_in_one_order_and_its_messages_last() {
    let said = Conversation {
        model: "alias".into(),
        stream: true,
        instructions: vec![
            Instruction { text: "be \"brief\"".into(), cache: Some(Cache::Short) },
            Instruction { text: "and kind".into(), cache: None },
        ],
        turns: vec![turn(0, Role::User, vec![text("hi")])],
        tools: vec![Tool {
            description: Some("d".into()),
            takes: Takes::Schema(Some(Json(r#"{"z":1.10,"a":1}"#.into()))),
            strict: Some(true),
            ..function("f")
        }],
        choice: Some(Choice::Named("f".into())),
        parallel: Some(false),
        limit: Some(Limit { tokens: 0, field: "max_tokens" }),
        stop: vec!["\n".into()],
        sampling: Sampling {
            temperature: Some(Json("0".into())),
            top_p: Some(Json("0.10".into())),
            top_k: Some(Json("5".into())),
        },
        format: Some(Format::Object),
        reasoning: Reasoning { effort: Some(Effort::High), ..Reasoning::default() },
        tier: Some(Tier::Standard),
        end_user: Some("u".into()),
        cache: None,
        verbosity: Some("low".into()),
    };
    let (body, dropped) = write(&said, &Destination { ask_usage: true, ..TO });
    let expected =
        r#"{"model":"m","stream":true,"stream_options":{"include_usage":true},"max_completion_tokens":0,"#
            .to_owned()
            + r#""stop":["\n"],"temperature":0,"top_p":0.10,"reasoning_effort":"high","verbosity":"low","#
            + r#""response_format":{"type":"json_object"},"service_tier":"default","user":"u","#
            + r#""tools":[{"type":"function","function":{"name":"f","description":"d","parameters":{"z":1.10,"a":1},"#
            + r#""strict":true}}],"tool_choice":{"type":"function","function":{"name":"f"}},"#
            + r#""parallel_tool_calls":false,"messages":[{"role":"system","content":"be \"brief\""},"#
            + r#"{"role":"system","content":"and kind"},{"role":"user","content":"hi"}]}"#;
    assert_eq!(body, expected);
    assert_eq!(dropped, ["top_k", "cache_control"]);
}

#[test]
fn every_choice_of_tools_is_a_word_unless_it_names_one() {
    let table = [
        (Choice::Auto, r#""auto""#),
        (Choice::None, r#""none""#),
        (Choice::Any, r#""required""#),
        (Choice::Named("f".into()), r#"{"type":"function","function":{"name":"f"}}"#),
        (
            Choice::Among { names: vec!["f".into()], must: true },
            r#"{"type":"allowed_tools","allowed_tools":{"mode":"required","tools":[{"type":"function","function":{"name":"f"}}]}}"#,
        ),
    ];
    for (choice, expected) in table {
        let said =
            Conversation { tools: vec![function("f")], choice: Some(choice), ..Conversation::default() };
        let (written, _) = members(&said, "m");
        assert!(written.ends_with(&format!(r#","tool_choice":{expected}"#)), "{written}");
    }
    let bare =
        |choice| Conversation { choice: Some(choice), parallel: Some(false), ..Conversation::default() };
    assert_eq!(members(&bare(Choice::Auto), "m").0, "");
    assert_eq!(unfit(&bare(Choice::Any), "m"), "tool_choice");
}

#[test]
fn a_function_without_a_schema_takes_an_empty_object() {
    let said = Conversation { tools: vec![function("f")], ..Conversation::default() };
    let expected = r#""tools":[{"type":"function","function":{"name":"f","parameters":{"type":"object","properties":{}}}}]"#;
    assert_eq!(members(&said, "m").0, expected);
}

#[test]
fn tools_that_another_provider_does_not_have_are_refused_by_their_place() {
    for takes in [Takes::Hosted { kind: "bash_20250124".into() }, Takes::Text { grammar: true }] {
        let tools = vec![function("f"), Tool { takes, ..function("g") }];
        assert_eq!(unfit(&Conversation { tools, ..Conversation::default() }, "m"), "tools[1]");
    }
}

#[test]
fn long_and_odd_names_are_shortened_everywhere_and_come_back() {
    let long = "srv__".to_owned() + &"a".repeat(65);
    let said = Conversation {
        tools: vec![
            function(&long),
            function("files/read.all"),
            function("files.read/all"),
            function("plain"),
        ],
        choice: Some(Choice::Named(long.as_str().into())),
        turns: vec![turn(
            0,
            Role::Assistant,
            vec![Part::Call {
                id: "c".into(),
                name: "gone/tool".into(),
                arguments: Arguments::Json(Json("{}".into())),
                cache: None,
            }],
        )],
        ..Conversation::default()
    };
    let (body, names) = CHAT_TONGUE.write(&said, &TO, &mut Dropped::default()).unwrap();
    let body: serde_json::Value = serde_json::from_slice(&body).unwrap();
    let mut theirs: Vec<String> =
        (0..4).map(|at| body["tools"][at]["function"]["name"].as_str().unwrap().to_owned()).collect();
    assert_eq!(body["tool_choice"]["function"]["name"], theirs[0]);
    assert_eq!(theirs[3], "plain");
    theirs.push(body["messages"][0]["tool_calls"][0]["function"]["name"].as_str().unwrap().to_owned());
    for (theirs, ours) in theirs.iter().zip([&long, "files/read.all", "files.read/all", "plain", "gone/tool"])
    {
        assert!(
            theirs.len() <= 64 && theirs.bytes().all(|b| b.is_ascii_alphanumeric() || b"_-".contains(&b))
        );
        assert_eq!(names.ours(theirs), ours);
    }
    theirs.sort();
    theirs.dedup();
    assert_eq!(theirs.len(), 5);
}

#[test]
fn the_limit_has_the_name_and_the_size_that_are_taken() {
    let said = Conversation {
        limit: Some(Limit { tokens: 90_000, field: "max_tokens" }),
        ..Conversation::default()
    };
    assert_eq!(members(&said, "m").0, r#""max_completion_tokens":90000"#);
    assert_eq!(members(&said, "gpt-4o-mini").0, r#""max_completion_tokens":16384"#);
    assert_eq!(members(&said, "gpt-5").0, r#""max_completion_tokens":90000"#);
    let (body, _) = write(&said, &Destination { old_limit: true, ..TO });
    assert!(body.contains(r#","max_tokens":90000,"#), "{body}");
}

#[test]
fn more_stop_sequences_than_are_taken_are_refused() {
    let stop = |count: usize| Conversation { stop: vec!["x".into(); count], ..Conversation::default() };
    assert_eq!(members(&stop(4), "m").0, r#""stop":["x","x","x","x"]"#);
    assert_eq!(unfit(&stop(5), "m"), "stop_sequences");
}

#[test]
fn how_hard_to_think_is_said_in_words_that_the_model_has() {
    use Effort::*;
    let mode = |mode| Reasoning { mode: Some(mode), ..Reasoning::default() };
    let effort = |effort| Reasoning { effort: Some(effort), ..Reasoning::default() };
    let table: [(&str, Reasoning, &str, &[&str]); 20] = [
        ("gpt-5.6", Reasoning::default(), "", &[]),
        ("gpt-5.6", mode(Mode::Budget(1024)), "low", &[]),
        ("gpt-5.6", mode(Mode::Budget(4095)), "low", &[]),
        ("gpt-5.6", mode(Mode::Budget(4096)), "medium", &[]),
        ("gpt-5.6", mode(Mode::Budget(16384)), "high", &[]),
        ("gpt-5.6", mode(Mode::Adaptive), "", &[]),
        ("gpt-5.6", mode(Mode::Off), "none", &[]),
        ("gpt-5.6", effort(Max), "xhigh", &[]),
        ("gpt-6-luna", effort(Max), "max", &[]),
        ("gpt-5", effort(Xhigh), "high", &[]),
        ("gpt-5.1", effort(Minimal), "low", &[]),
        ("gpt-5", mode(Mode::Off), "minimal", &["thinking"]),
        ("gpt-6-astra", mode(Mode::Off), "low", &["thinking"]),
        ("gpt-5", Reasoning { mode: Some(Mode::Adaptive), ..effort(Low) }, "low", &[]),
        ("gpt-4.1", effort(High), "", &["output_config.effort"]),
        ("gpt-4.1", mode(Mode::Budget(9999)), "", &["thinking"]),
        ("gpt-4.1", mode(Mode::Off), "", &[]),
        ("m", effort(Xhigh), "xhigh", &[]),
        ("m", mode(Mode::Off), "", &["thinking"]),
        ("m", Reasoning { shown: Some(true), ..effort(Low) }, "low", &["thinking.display"]),
    ];
    for (model, reasoning, word, dropped) in table {
        let written = members(&Conversation { reasoning, ..Conversation::default() }, model);
        let expected =
            if word.is_empty() { String::new() } else { format!(r#""reasoning_effort":"{word}""#) };
        assert_eq!(
            written,
            (expected, dropped.iter().map(|name| (*name).to_owned()).collect()),
            "{model} {reasoning:?}"
        );
    }
}

#[test]
fn tools_beside_reasoning_are_kept_to_what_the_model_takes() {
    let asked = |effort, mode| Conversation {
        tools: vec![function("f")],
        reasoning: Reasoning { effort, mode, shown: None },
        ..Conversation::default()
    };
    let effort = |said: &Conversation<'_>, model: &str| {
        let (written, dropped) = members(said, model);
        let effort = serde_json::from_str::<serde_json::Value>(&format!("{{{written}}}")).unwrap();
        (effort["reasoning_effort"].as_str().map(str::to_owned), dropped)
    };
    let none = || Some("none".to_owned());
    assert_eq!(effort(&asked(None, None), "gpt-5.6"), (none(), vec![]));
    assert_eq!(effort(&asked(None, Some(Mode::Adaptive)), "gpt-5.6"), (none(), vec!["thinking".to_owned()]));
    assert_eq!(effort(&asked(None, Some(Mode::Off)), "gpt-5.6"), (none(), vec![]));
    assert_eq!(effort(&asked(None, None), "gpt-5.4"), (None, vec![]));
    assert_eq!(effort(&asked(Some(Effort::High), None), "gpt-5"), (Some("high".to_owned()), vec![]));
    for model in ["gpt-5.6", "gpt-5.4", "gpt-6-luna"] {
        assert_eq!(unfit(&asked(Some(Effort::Low), None), model), "output_config.effort", "{model}");
        assert_eq!(unfit(&asked(None, Some(Mode::Budget(1024))), model), "thinking", "{model}");
    }
    for model in ["gpt-6-astra", "gpt-6.1-sol"] {
        assert_eq!(unfit(&asked(None, None), model), "tools", "{model}");
    }
}

#[test]
fn a_model_that_reasons_draws_its_tokens_as_it_likes() {
    let sampling =
        Sampling { temperature: Some(Json("0.5".into())), top_p: Some(Json("1".into())), top_k: None };
    let said = |effort| Conversation {
        sampling: sampling.clone(),
        reasoning: Reasoning { effort, ..Reasoning::default() },
        ..Conversation::default()
    };
    assert_eq!(members(&said(None), "gpt-5.1"), (String::new(), vec!["temperature".into(), "top_p".into()]));
    let (written, dropped) = members(&said(Some(Effort::None)), "gpt-5.1");
    assert_eq!((&*written, dropped.len()), (r#""temperature":0.5,"top_p":1,"reasoning_effort":"none""#, 0));
    assert_eq!(members(&said(None), "gpt-4.1").0, r#""temperature":0.5,"top_p":1"#);
}

#[test]
fn a_schema_of_the_answer_is_written_as_one() {
    let schema = |name: Option<&'static str>, strict| Conversation {
        format: Some(Format::Schema {
            name: name.map(Into::into),
            description: None,
            schema: Json(r#"{"type":"object"}"#.into()),
            strict,
        }),
        ..Conversation::default()
    };
    let expected = |name: &str, strict: bool| {
        format!(
            r#""response_format":{{"type":"json_schema","json_schema":{{"name":"{name}","schema":{{"type":"object"}},"strict":{strict}}}}}"#
        )
    };
    assert_eq!(members(&schema(None, None), "m").0, expected("output", false));
    assert_eq!(members(&schema(None, Some(true)), "m").0, expected("output", true));
    assert_eq!(members(&schema(Some("o"), Some(false)), "m").0, expected("o", false));
}

fn result<'a>(id: &'a str, parts: Vec<Part<'a>>, is_error: bool) -> Part<'a> {
    Part::Result { id: id.into(), parts, is_error, cache: None }
}

fn image() -> Part<'static> {
    let source = Source::Base64 { media_type: "image/png".into(), data: "QQ==".into() };
    Part::Image { source, detail: None, cache: None }
}

#[test]
fn results_come_first_and_their_images_after_them() {
    let parts = vec![
        text("look"),
        result("c1", vec![text("page"), image()], false),
        result("c2", vec![], false),
        result("c3", vec![text("no file"), text("there")], true),
        result("c4", vec![image()], false),
        result("c5", vec![], true),
    ];
    let (written, _) = messages(vec![turn(2, Role::User, parts)], &TO);
    let picture = r#"{"type":"image_url","image_url":{"url":"data:image/png;base64,QQ=="}}"#;
    let expected = [
        r#"{"role":"tool","tool_call_id":"c1","content":"page"}"#,
        r#"{"role":"tool","tool_call_id":"c2","content":""}"#,
        r#"{"role":"tool","tool_call_id":"c3","content":[{"type":"text","text":"Error: no file"},{"type":"text","text":"there"}]}"#,
        r#"{"role":"tool","tool_call_id":"c4","content":"The result is in the next message of the user."}"#,
        r#"{"role":"tool","tool_call_id":"c5","content":"Error: "}"#,
        &format!(
            r#"{{"role":"user","content":[{{"type":"text","text":"Of the result of the call c1:"}},{picture},{{"type":"text","text":"Of the result of the call c4:"}},{picture},{{"type":"text","text":"look"}}]}}"#
        ),
    ];
    assert_eq!(written, expected.join(","));
    let (written, _) = messages(vec![turn(0, Role::User, vec![result("c", vec![text("ok")], false)])], &TO);
    assert_eq!(written, r#"{"role":"tool","tool_call_id":"c","content":"ok"}"#);
}

#[test]
fn an_id_that_is_too_long_is_shortened_in_call_and_result() {
    let sent = |id: &str| {
        let call = Part::Call {
            id: id.to_owned().into(),
            name: "f".into(),
            arguments: Arguments::Json(Json("{}".into())),
            cache: None,
        };
        let turns =
            vec![turn(0, Role::Assistant, vec![call]), turn(1, Role::User, vec![result(id, vec![], false)])];
        let (written, _) = messages(turns, &TO);
        let written: serde_json::Value = serde_json::from_str(&format!("[{written}]")).unwrap();
        assert_eq!(written[0]["tool_calls"][0]["id"], written[1]["tool_call_id"]);
        written[1]["tool_call_id"].as_str().unwrap().to_owned()
    };
    for id in ["functions.f:0", &"a".repeat(40), ""] {
        assert_eq!(sent(id), id, "some hosts read their own");
    }
    let (one, other) = (sent(&"a".repeat(41)), sent(&"a".repeat(42)));
    assert!(one.len() == 40 && other.len() == 40 && one != other, "{one} {other}");
}

#[test]
fn results_that_come_one_by_one_stay_together() {
    let turns = vec![
        turn(1, Role::User, vec![result("c1", vec![text("a"), image()], false)]),
        turn(2, Role::User, vec![result("c2", vec![text("b")], false), text("go on")]),
        turn(3, Role::Assistant, vec![text("x")]),
        turn(4, Role::User, vec![text("y")]),
    ];
    let (written, _) = messages(turns, &TO);
    let written: serde_json::Value = serde_json::from_str(&format!("[{written}]")).unwrap();
    let roles: Vec<_> =
        written.as_array().unwrap().iter().map(|message| message["role"].as_str().unwrap()).collect();
    assert_eq!(roles, ["tool", "tool", "user", "user", "assistant", "user"]);
    assert_eq!(written[3]["content"], "go on");
}

#[test]
fn every_part_of_a_user_is_written() {
    let document = |source, name: Option<&'static str>, context: Option<&'static str>| Part::Document {
        source,
        name: name.map(Into::into),
        context: context.map(Into::into),
        cache: None,
    };
    let pdf = || Source::Base64 { media_type: "application/pdf".into(), data: "QQ==".into() };
    let url =
        Part::Image { source: Source::Url("https://h/i".into()), detail: Some("low".into()), cache: None };
    let table: [(Part<'_>, &str); 7] = [
        (text("a"), r#""a""#),
        (url, r#"[{"type":"image_url","image_url":{"url":"https://h/i","detail":"low"}}]"#),
        (
            document(pdf(), Some("a.pdf"), None),
            r#"[{"type":"file","file":{"filename":"a.pdf","file_data":"data:application/pdf;base64,QQ=="}}]"#,
        ),
        (
            document(pdf(), None, Some("old")),
            r#"[{"type":"text","text":"About the document: old"},{"type":"file","file":{"filename":"document.pdf","file_data":"data:application/pdf;base64,QQ=="}}]"#,
        ),
        (document(Source::Plain("t".into()), None, None), r#""t""#),
        (
            document(Source::Plain("t".into()), Some("n"), None),
            r#"[{"type":"text","text":"Document: n"},{"type":"text","text":"t"}]"#,
        ),
        (
            Part::Audio { data: "QQ==".into(), format: "wav".into() },
            r#"[{"type":"input_audio","input_audio":{"data":"QQ==","format":"wav"}}]"#,
        ),
    ];
    for (part, expected) in table {
        let (written, _) = messages(vec![turn(0, Role::User, vec![part])], &TO);
        assert_eq!(written, format!(r#"{{"role":"user","content":{expected}}}"#));
    }
}

#[test]
fn what_can_not_be_said_is_refused_by_its_path() {
    let document = |source| Part::Document { source, name: None, context: None, cache: None };
    let table = [
        (Role::User, document(Source::Url("https://h/d.pdf".into()))),
        (Role::User, document(Source::File("file_1".into()))),
        (Role::User, document(Source::Base64 { media_type: "text/csv".into(), data: "QQ==".into() })),
        (Role::User, Part::Image { source: Source::File("file_1".into()), detail: None, cache: None }),
        (Role::User, Part::Foreign { kind: "container_upload".into() }),
        (Role::User, result("c", vec![document(Source::File("file_1".into()))], false)),
        (Role::User, call("c", "{}")),
        (Role::Assistant, Part::Foreign { kind: "server_tool_use".into() }),
        (Role::Assistant, image()),
        (Role::System, image()),
    ];
    for (role, part) in table {
        let turns = vec![turn(3, role, vec![text("a"), part.clone()])];
        let field = unfit(&Conversation { turns, ..Conversation::default() }, "m");
        assert_eq!(field, "messages[3].content[1]", "{part:?}");
    }
}

#[test]
fn what_the_model_said_is_written_with_its_calls() {
    let parts = vec![
        text("a"),
        Part::Call {
            id: "c1".into(),
            name: "f".into(),
            arguments: Arguments::Json(Json(r#"{ "id":7300000000000000123,"rate":1.10}"#.into())),
            cache: None,
        },
        text("b"),
    ];
    let (written, _) = messages(vec![turn(0, Role::Assistant, parts)], &TO);
    let expected = r#"{"role":"assistant","content":[{"type":"text","text":"a"},{"type":"text","text":"b"}],"tool_calls":[{"id":"c1","type":"function","function":{"name":"f","arguments":"{ \"id\":7300000000000000123,\"rate\":1.10}"}}]}"#;
    assert_eq!(written, expected);
    let table = [
        (vec![], r#""content":"""#),
        (vec![text("a")], r#""content":"a""#),
        (
            vec![call("c", "{}")],
            r#""content":null,"tool_calls":[{"id":"c","type":"function","function":{"name":"f","arguments":"{}"}}]"#,
        ),
        (vec![Part::Refusal { text: "no".into() }], r#""content":null,"refusal":"no""#),
    ];
    for (parts, expected) in table {
        let (written, _) = messages(vec![turn(0, Role::Assistant, parts)], &TO);
        assert_eq!(written, format!(r#"{{"role":"assistant",{expected}}}"#));
    }
}

#[test]
fn thoughts_go_back_only_to_who_wants_them() {
    let thought = |text: &'static str, seal| Part::Thought(Thought { text: text.into(), seal, place: None });
    let turns = || {
        vec![
            turn(0, Role::Assistant, vec![thought("t", Some(Seal::Signature("S".into()))), call("c", "{}")]),
            turn(1, Role::Assistant, vec![call("c", "{}")]),
            turn(2, Role::Assistant, vec![thought("", Some(Seal::Encrypted("E".into()))), text("x")]),
        ]
    };
    let calls = r#""content":null,"tool_calls":[{"id":"c","type":"function","function":{"name":"f","arguments":"{}"}}]}"#;
    let (written, dropped) = messages(turns(), &TO);
    let said = r#"{"role":"assistant","content":"x"}"#;
    assert_eq!(written, format!(r#"{{"role":"assistant",{calls},{{"role":"assistant",{calls},{said}"#));
    assert_eq!(dropped, ["messages.thinking"]);
    let (written, dropped) = messages(turns(), &Destination { replays_thoughts: true, ..TO });
    let with = |text: &str| {
        calls.replace(r#","tool_calls"#, &format!(r#","reasoning_content":"{text}","tool_calls"#))
    };
    assert_eq!(
        written,
        format!(r#"{{"role":"assistant",{},{{"role":"assistant",{},{said}"#, with("t"), with(""))
    );
    assert_eq!(dropped, ["messages.thinking"]);
}

#[test]
fn openais_reasoning_models_are_instructed_by_a_developer() {
    let turns = vec![turn(0, Role::User, vec![text("a")]), turn(1, Role::System, vec![text("b"), text("c")])];
    let instructions = vec![Instruction { text: "i".into(), cache: None }];
    let said = Conversation { instructions, turns, ..Conversation::default() };
    for (model, role) in [("gpt-5", "developer"), ("gpt-4.1", "system"), ("llama-4", "system")] {
        let (body, _) = write(&said, &Destination { model, ..TO });
        let expected = format!(
            r#""messages":[{{"role":"{role}","content":"i"}},{{"role":"user","content":"a"}},{{"role":"{role}","content":[{{"type":"text","text":"b"}},{{"type":"text","text":"c"}}]}}]}}"#
        );
        assert!(body.ends_with(&expected), "{body}");
    }
}

#[test]
fn tools_that_take_a_text_stay_what_they_are() {
    let said = Conversation {
        tools: vec![Tool { takes: Takes::Text { grammar: false }, ..function("g") }],
        choice: Some(Choice::Named("g".into())),
        turns: vec![turn(
            0,
            Role::Assistant,
            vec![Part::Call {
                id: "c".into(),
                name: "g".into(),
                arguments: Arguments::Free("print(1)".into()),
                cache: None,
            }],
        )],
        ..Conversation::default()
    };
    let expected = r#"{"model":"m","tools":[{"type":"custom","custom":{"name":"g"}}],"tool_choice":{"type":"custom","custom":{"name":"g"}},"messages":[{"role":"assistant","content":null,"tool_calls":[{"id":"c","type":"custom","custom":{"name":"g","input":"print(1)"}}]}]}"#;
    assert_eq!(write(&said, &TO).0, expected);
}

#[test]
fn an_id_that_is_too_long_is_shortened_alike_everywhere() {
    let id = "chatcmpl-tool-0123456789abcdef0123456789abcdef";
    let picture = Part::Image { source: Source::Url("https://a/b".into()), detail: None, cache: None };
    let result = Part::Result { id: id.into(), parts: vec![picture], is_error: false, cache: None };
    let turns = vec![turn(0, Role::Assistant, vec![call(id, "{}")]), turn(1, Role::User, vec![result])];
    let (written, _) = messages(turns, &TO);
    let at = written.find(r#""id":""#).unwrap() + r#""id":""#.len();
    let short = &written[at..at + 40];
    assert!(short.starts_with("chatcmpl-tool-0123456789abcdef0"), "{short}");
    assert_eq!(written.matches(&format!(r#"{short}""#)).count(), 2, "{written}");
    assert!(written.contains(&format!("of the call {short}:")) && !written.contains(id));
}

#[test]
fn a_user_goes_up_by_no_longer_name_than_the_provider_takes() {
    for (user, told) in [("u-17", Some("u-17")), ("", None)] {
        let said = Conversation { end_user: Some(user.into()), ..Conversation::default() };
        let expected = told.map_or(String::new(), |told| format!(r#""user":"{told}""#));
        assert_eq!(members(&said, "m").0, expected);
    }
    let user = format!("user_{}_session_1", "a".repeat(64));
    let said = Conversation { end_user: Some(user.into()), ..Conversation::default() };
    assert_eq!(members(&said, "m").0.len(), r#""user":"""#.len() + 64);
}
