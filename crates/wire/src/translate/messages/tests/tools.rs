//! Tools, and what they were called with.

use serde_json::json;

use super::*;
use crate::translate::canon::*;

#[test]
fn the_choice_of_tools_is_said_in_the_providers_words() {
    let tools = json!([tool("f"), tool("g.h")]);
    let told = |choice: Option<Choice<'static>>, parallel| {
        let mut said = said(json!({"tools": tools}));
        (said.choice, said.parallel) = (choice, parallel);
        write(&said, OLD).0
    };
    let table = [
        (None, None, json!(null)),
        (None, Some(true), json!(null)),
        (None, Some(false), json!({"type": "auto", "disable_parallel_tool_use": true})),
        (Some(Choice::Auto), None, json!({"type": "auto"})),
        (Some(Choice::None), Some(false), json!({"type": "none"})),
        (Some(Choice::Any), Some(false), json!({"type": "any", "disable_parallel_tool_use": true})),
        (Some(Choice::Named("f".into())), None, json!({"type": "tool", "name": "f"})),
    ];
    for (choice, parallel, expected) in table {
        assert_eq!(told(choice.clone(), parallel)["tool_choice"], expected, "{choice:?}");
    }
    let named = told(Some(Choice::Named("g.h".into())), None);
    assert_eq!(named["tool_choice"]["name"], named["tools"][1]["name"]);
    let among = |must| told(Some(Choice::Among { names: vec!["f".into()], must }), None);
    assert_eq!(among(true)["tools"].as_array().unwrap().len(), 1);
    assert_eq!([among(true), among(false)].map(|body| body["tool_choice"]["type"].clone()), ["any", "auto"]);
}

#[test]
fn a_choice_that_the_model_can_not_make_is_refused() {
    let with = |choice: Choice<'static>, change| {
        let mut said = said(change);
        said.choice = Some(choice);
        said
    };
    let tools = json!({"tools": [tool("f")]});
    for choice in
        [Choice::Any, Choice::Named("f".into()), Choice::Among { names: vec!["f".into()], must: true }]
    {
        assert_eq!(blamed(&with(choice.clone(), tools.clone()), NEW), "tool_choice");
        let mut thinking = with(choice.clone(), tools.clone());
        thinking.reasoning.effort = Some(Effort::Low);
        assert_eq!(blamed(&thinking, OLD), "tool_choice");
        assert!(try_write(&thinking, "claude-opus-4-6").is_ok());
        assert_eq!(blamed(&with(choice, json!({})), OLD), "tool_choice");
    }
    assert_eq!(blamed(&with(Choice::Named("g".into()), tools.clone()), OLD), "tool_choice");
    assert_eq!(
        blamed(&with(Choice::Among { names: vec!["g".into()], must: false }, tools), OLD),
        "tool_choice"
    );
    let (body, _) = write(&with(Choice::Auto, json!({})), OLD);
    assert_eq!(body.get("tool_choice"), None, "it may only be given with tools");
}

#[test]
fn a_tool_says_what_it_takes() {
    let empty = json!({"type": "object", "properties": {}});
    let table = [
        (None, empty.clone()),
        (Some("{}"), empty),
        (Some(r#" {"type":"object","x":1.10} "#), json!({"type": "object", "x": 1.10})),
        (Some(r#"{ "properties":{"a":{}}}"#), json!({"type": "object", "properties": {"a": {}}})),
    ];
    for (schema, expected) in table {
        let mut said = said(json!({"tools": [tool("f")]}));
        said.tools[0].takes = Takes::Schema(schema.map(|schema| Json(schema.into())));
        assert_eq!(write(&said, NEW).0["tools"][0]["input_schema"], expected);
    }
    let blame = |takes: Takes<'static>| {
        let mut said = said(json!({"tools": [tool("e"), tool("f")]}));
        said.tools[1].takes = takes;
        blamed(&said, NEW)
    };
    assert_eq!(
        blame(Takes::Schema(Some(Json(r#"{"type":"array"}"#.into())))),
        "tools[1].function.parameters"
    );
    assert_eq!(blame(Takes::Text { grammar: true }), "tools[1].custom.format");
    assert_eq!(blame(Takes::Hosted { kind: "web_search".into() }), "tools[1]");
    assert_eq!(blamed(&said(json!({"tools": [tool("f"), tool("f")]})), NEW), "tools[1]");
}

#[test]
fn odd_names_of_tools_become_plain_everywhere_and_come_back() {
    let long = "srv__".to_owned() + &"a".repeat(130);
    let mut use_of = call("1");
    use_of["name"] = json!("files/read.all");
    let said = said(json!({
        "tools": [tool(&long), tool("files/read.all")],
        "messages": [user(json!("x")), assistant(json!([use_of])), user(json!([result("1")]))],
    }));
    let (body, names) = MESSAGES_TONGUE.write(&said, &to(NEW), &mut Dropped::default()).unwrap();
    let body: Value = serde_json::from_slice(&body).unwrap();
    let [first, second] = [0, 1].map(|at| body["tools"][at]["name"].as_str().unwrap());
    assert!(first.len() == 128 && second.starts_with("files_read_all_"), "{first} {second}");
    assert_eq!((names.ours(first), names.ours(second)), (&*long, "files/read.all"));
    assert_eq!(body["messages"][1]["content"][0]["name"], second);
    let said = super::said(json!({"tools": [tool(&"a".repeat(128))]}));
    assert_eq!(write(&said, NEW).0["tools"][0]["name"], "a".repeat(128));
}

#[test]
fn a_tool_that_takes_text_goes_up_with_its_text_in_an_object() {
    let mut said = said(json!({
        "tools": [tool("f")], "messages": [user(json!("x")), assistant(json!([call("1")])), user(json!([result("1")]))],
    }));
    said.tools[0].takes = Takes::Text { grammar: false };
    let Part::Call { arguments, .. } = &mut said.turns[1].parts[0] else { panic!() };
    *arguments = Arguments::Free("*** \"Begin\"".into());
    let (body, names) = MESSAGES_TONGUE.write(&said, &to(NEW), &mut Dropped::default()).unwrap();
    let body: Value = serde_json::from_slice(&body).unwrap();
    let schema =
        json!({"type": "object", "properties": {"input": {"type": "string"}}, "required": ["input"]});
    assert_eq!(body["tools"][0]["input_schema"], schema);
    assert_eq!(body["messages"][1]["content"][0]["input"], json!({"input": "*** \"Begin\""}));
    assert!(names.is_wrapped("f") && !names.is_wrapped("g"));
}

#[test]
fn what_a_function_was_called_with_has_to_be_an_object() {
    let with = |arguments: Arguments<'static>, tools: Value| {
        let mut said = said(json!({
            "tools": tools, "messages": [user(json!("x")), assistant(json!([call("0"), call("1")])), user(json!([result("0"), result("1")]))],
        }));
        let Part::Call { arguments: there, .. } = &mut said.turns[1].parts[1] else { panic!() };
        *there = arguments;
        said
    };
    let declared = json!([tool("f")]);
    let input = |arguments, tools: &Value| {
        write(&with(arguments, tools.clone()), NEW).0["messages"][1]["content"][1]["input"].clone()
    };
    assert_eq!(input(Arguments::Free("".into()), &declared), json!({}));
    assert_eq!(input(Arguments::Json(Json(" {\"a\":1}".into())), &declared), json!({"a": 1}));
    // What is not there any more may have been a tool that takes text.
    assert_eq!(input(Arguments::Free("*** Begin".into()), &json!([])), json!({"input": "*** Begin"}));
    for bad in [
        Arguments::Free("{\"a\":".into()),
        Arguments::Json(Json("[1]".into())),
        Arguments::Json(Json("\"x\"".into())),
    ] {
        assert_eq!(blamed(&with(bad, declared.clone()), NEW), "messages[1].tool_calls[1].function.arguments");
    }
}

#[test]
fn tools_that_were_called_are_known_even_where_none_is_offered() {
    let said = said(
        json!({"messages": [user(json!("x")), assistant(json!([call("1"), call("2")])), user(json!([result("1"), result("2")]))]}),
    );
    let (body, _) = write(&said, NEW);
    assert_eq!(body["tools"], json!([{"name": "f", "input_schema": {"type": "object", "properties": {}}}]));
    assert_eq!(body["tool_choice"], json!({"type": "none"}));
}

#[test]
fn a_result_keeps_its_pictures_and_its_failure() {
    let image = json!({"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "iVBORw0KGgo="}});
    let results = json!([{"type": "tool_result", "tool_use_id": "1", "content": [text("page"), image], "is_error": true}]);
    let turns = [user(json!("x")), assistant(json!([call("1")])), user(results.clone())];
    let (body, _) = write(&said(json!({"messages": turns})), NEW);
    assert_eq!(body["messages"][2]["content"], results);
    let silent = json!([{"type": "tool_result", "tool_use_id": "1", "content": "", "is_error": true}]);
    let turns = [user(json!("x")), assistant(json!([call("1")])), user(silent)];
    let (body, _) = write(&said(json!({"messages": turns})), NEW);
    assert_eq!(body["messages"][2]["content"], json!([{"type": "tool_result", "tool_use_id": "1"}]));
}
