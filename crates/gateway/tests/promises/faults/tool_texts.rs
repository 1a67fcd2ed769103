//! The words of tools: names, schemas and arguments, as they are written.

use std::collections::HashSet;

use serde_json::{Value, json};

use super::tongues::*;
use super::*;

#[tokio::test(start_paused = true)]
async fn k022_long_and_odd_names_go_up_shortened_and_come_back() {
    let long = |length: usize, end: &str| format!("srv__{}{end}", "a".repeat(length - 5 - end.len()));
    for (path, longest, names) in [
        (
            MESSAGES,
            64,
            [long(70, "x"), long(70, "y"), "files/read.all".into(), "files.read/all".into(), "plain".into()],
        ),
        (
            CHAT,
            128,
            [
                long(140, "x"),
                long(140, "y"),
                "files/read.all".into(),
                "wetter_für_köln".into(),
                "plain".into(),
            ],
        ),
    ] {
        for (n, name) in names.iter().enumerate() {
            // Called before, offered, and asked for.
            let mut call = with_history(path, name, "{}");
            call["tools"] = names.iter().map(|name| tool(path, name)).collect();
            call["tool_choice"] = match path {
                CHAT => json!({"type": "function", "function": {"name": name}}),
                _ => json!({"type": "tool", "name": name}),
            };
            let put = puts(path, &call).await;
            let of = |tool: &Value| {
                tool["function"]["name"].as_str().or(tool["name"].as_str()).unwrap().to_owned()
            };
            let theirs: Vec<_> = put.body["tools"].as_array().unwrap().iter().map(of).collect();
            let plain = |name: &String| {
                name.len() <= longest
                    && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"_-".contains(&byte))
            };
            assert!(theirs.iter().all(plain), "{theirs:?}");
            assert_eq!(theirs.iter().collect::<HashSet<_>>().len(), names.len(), "{theirs:?}");
            assert_eq!(theirs[4], "plain");
            assert_eq!(put.text().matches(&*theirs[n]).count(), 3, "the same wherever it stands");

            // The answer names the tool as the client knows it.
            let says = match path {
                CHAT => claude(&json!([tool_use("t2", &theirs[n], &json!({}))]), "tool_use"),
                _ => gpt(
                    &json!({"content": null, "tool_calls": [super::tongues::call("t2", &theirs[n], "{}")]}),
                    "tool_calls",
                ),
            };
            let answer = hears(path, &call, &says).await;
            let called = match path {
                CHAT => &answer["message"]["tool_calls"][0]["function"]["name"],
                _ => &answer["content"][0]["name"],
            };
            assert_eq!(called, name);
        }
    }
}

/// Ids too: whatever a server has made up, results find their calls.
#[tokio::test(start_paused = true)]
async fn k022_long_and_odd_ids_go_up_as_such_as_are_taken() {
    let long = |length: usize, end: &str| format!("{}{end}", "a".repeat(length - end.len()));
    for (path, longest, odd) in [(MESSAGES, 40, true), (CHAT, 256, false)] {
        for ids in [
            [long(40, "x"), long(40, "y")],
            [long(300, "x"), long(300, "y")],
            ["functions.f:0".into(), "functions.f:1".into()],
            ["ü".repeat(50), "ü".repeat(51)],
        ] {
            let put = puts(path, &called_twice(path, &ids)).await;
            let messages = put.body["messages"].as_array().unwrap();
            let text = |value: &Value| value.as_str().unwrap().to_owned();
            let (calls, results): (Vec<_>, Vec<_>) = match path {
                MESSAGES => (
                    messages[1]["tool_calls"]
                        .as_array()
                        .unwrap()
                        .iter()
                        .map(|call| text(&call["id"]))
                        .collect(),
                    messages[2..4].iter().map(|result| text(&result["tool_call_id"])).collect(),
                ),
                _ => (
                    messages[1]["content"].as_array().unwrap().iter().map(|call| text(&call["id"])).collect(),
                    messages[2]["content"].as_array().unwrap()[..2]
                        .iter()
                        .map(|result| text(&result["tool_use_id"]))
                        .collect(),
                ),
            };
            assert_eq!(calls, results, "{ids:?}");
            assert_ne!(calls[0], calls[1], "{ids:?}");
            let plain =
                |id: &String| id.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"_-".contains(&byte));
            assert!(calls.iter().all(|id| id.len() <= longest && (odd || plain(id))), "{calls:?}");
            if ids[0].len() <= longest && (odd || plain(&ids[0])) {
                assert_eq!(calls, ids, "what is taken stays");
            }
        }
    }
}

/// A conversation with two calls of these ids.
fn called_twice(path: &str, ids: &[String; 2]) -> Value {
    let user = json!({"role": "user", "content": "why?"});
    let messages = match path {
        CHAT => {
            let calls: Value = ids.iter().map(|id| call(id, "f", "{}")).collect();
            let result = |id: &String| json!({"role": "tool", "tool_call_id": id, "content": "42"});
            json!([user, {"role": "assistant", "content": null, "tool_calls": calls}, result(&ids[0]), result(&ids[1])])
        }
        _ => {
            let calls: Value = ids.iter().map(|id| tool_use(id, "f", &json!({}))).collect();
            let result = |id: &String| json!({"type": "tool_result", "tool_use_id": id, "content": "42"});
            let results: Value = ids.iter().map(result).collect();
            json!([user, {"role": "assistant", "content": calls}, {"role": "user", "content": results}])
        }
    };
    across_with(path, json!({"messages": messages, "tools": [tool(path, "f")]}))
}

/// Providers of both protocols take JSON Schema as it is; what one of them refuses all the same is the caller's to know.
#[tokio::test(start_paused = true)]
async fn k023_a_schema_passes_as_it_is_written() {
    for schema in [
        r##"{"$schema":"https://json-schema.org/draft/2020-12/schema","type":"object","additionalProperties":false,"properties":{"tags":{"type":"array","uniqueItems":true,"items":{"$ref":"#/$defs/t"}}},"$defs":{"t":{"type":"string"}}}"##,
        r#"{"type":"object","properties":{"z":{"type":["string","null"],"format":"uri","pattern":"^a{1,3}$"},"a":{"type":"integer","minimum":-9007199254740993,"exclusiveMaximum":1e3}},"required":["z"],"x-vendor":{"b":1,"a":[]}}"#,
        r#"{"properties":{"a":{"const":1.10},"b":{"anyOf":[{"type":"null"},{"enum":["x",2,null]}]}},"type":"object"}"#,
    ] {
        let call = |path: &str, text: &str| across(path).to_string().replacen('{', &format!("{{{text},"), 1);
        let chat = call(
            CHAT,
            &format!(r#""tools":[{{"type":"function","function":{{"name":"f","parameters":{schema}}}}}]"#),
        );
        let messages = call(MESSAGES, &format!(r#""tools":[{{"name":"f","input_schema":{schema}}}]"#));
        for (path, call) in [(CHAT, chat), (MESSAGES, messages)] {
            let (world, mock) = both(mock());
            let reply = world.post(path, call).await;
            assert_eq!(reply.status, 200, "{}", reply.text());
            let sent = String::from_utf8(mock.requests(1)[0].body.to_vec()).unwrap();
            assert!(sent.contains(schema), "{path}: {sent}");
            assert_eq!(reply.header("x-sluicegate-dropped"), "");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn k023_a_schema_that_the_provider_refuses_is_a_400() {
    let said = "tools.0.input_schema: JSON schema is invalid";
    for (path, body) in [
        (CHAT, json!({"type": "error", "error": {"type": "invalid_request_error", "message": said}})),
        (
            MESSAGES,
            json!({"error": {"type": "invalid_request_error", "message": said, "param": "tools", "code": "invalid_function_parameters"}}),
        ),
    ] {
        for call in [across(path), streamed(across(path))] {
            let told = told_with(
                BOTH,
                path,
                call.to_string(),
                super::plain("400 Bad Request", JSON, body.to_string().as_bytes()),
            )
            .await;
            assert_eq!(told.reply.status, 400);
            assert_eq!(told.reply.json()["error"]["type"], "invalid_request_error", "{}", told.reply.text());
            assert!(told.reply.text().contains(said));
            assert_eq!((told.record.failed(), told.outcomes()), (false, one("refused")));
        }
    }
}

#[tokio::test(start_paused = true)]
async fn k024_large_numbers_and_fractions_pass_as_they_are_written() {
    passes(CHAT, r#"{"model":"gpt-x","messages":[{"role":"assistant","tool_calls":[{"function":{"arguments":"{\"id\":7300000000000000123,\"rate\":1.10}"}}]}],"id":7300000000000000123,"rate":1.10}"#).await;
}

/// Numbers, fractions, escapes and the order of keys: what is to stay as it is written.
const WRITTEN: [&str; 4] = [
    r#"{"id":7300000000000000123,"rate":1.10}"#,
    r#"{"z":1e300,"a":-0.0,"m":123456789012345678901234567890,"b":{"y":0.10,"x":[1.0,2E+2]}}"#,
    r#"{"text":"caf\u00e9 \\ \"q\" \/ \ud83d\ude00","n":9007199254740993}"#,
    "{ \"spaced\" : [ 1.50 , null ] }",
];

#[tokio::test(start_paused = true)]
async fn k024_arguments_go_up_as_they_are_written() {
    for given in WRITTEN {
        let quoted = Value::from(given).to_string();
        // The history is text: a `Value` would write the numbers in its own way.
        let chat = with_history(CHAT, "f", "{}")
            .to_string()
            .replace(r#""arguments":"{}""#, &format!("\"arguments\":{quoted}"));
        let messages = with_history(MESSAGES, "f", "{}")
            .to_string()
            .replace(r#""input":{}"#, &format!("\"input\":{given}"));
        for (path, call, written) in [
            (CHAT, chat, format!("\"input\":{given}")),
            (MESSAGES, messages, format!("\"arguments\":{quoted}")),
        ] {
            let (world, mock) = both(mock());
            let reply = world.post(path, call).await;
            assert_eq!(reply.status, 200, "{}", reply.text());
            let sent = String::from_utf8(mock.requests(1)[0].body.to_vec()).unwrap();
            assert!(sent.contains(&written), "{path}: {sent}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn k024_arguments_come_back_as_they_are_written() {
    for given in WRITTEN {
        let quoted = Value::from(given).to_string();
        let says = claude(&json!([tool_use("t1", "f", &json!({"here": 1}))]), "tool_use");
        let plain = says.plain.replace(r#""input":{"here":1}"#, &format!("\"input\":{given}"));
        let told =
            told_with(BOTH, CHAT, across(CHAT).to_string(), super::plain("200 OK", JSON, plain.as_bytes()))
                .await;
        assert_eq!(
            told.reply.json()["choices"][0]["message"]["tool_calls"][0]["function"]["arguments"],
            given
        );

        let says = gpt(&json!({"content": null, "tool_calls": [call("t1", "f", given)]}), "tool_calls");
        let told = told_with(
            BOTH,
            MESSAGES,
            across(MESSAGES).to_string(),
            super::plain("200 OK", JSON, says.plain.as_bytes()),
        )
        .await;
        assert!(told.reply.text().contains(&format!("\"input\":{}", given)), "{}", told.reply.text());

        // In a stream, arguments are text on either side; the pieces make up what was sent.
        let stream = claude(&json!([tool_use("t1", "f", &json!({"here": 1}))]), "tool_use").stream;
        let start = stream.find("event: content_block_delta").unwrap();
        let end = stream.find("event: content_block_stop").unwrap();
        let deltas: String = ["{", &given[1..given.len() / 2], &given[given.len() / 2..]]
            .map(|piece| named(&json!({"type": "content_block_delta", "index": 0, "delta": {"type": "input_json_delta", "partial_json": piece}})))
            .concat();
        let stream = [&stream[..start], &deltas, &stream[end..]].concat();
        let told = streams(CHAT, &across(CHAT), &stream).await;
        let choice = put_chat_together(&told.reply.text());
        assert_eq!(choice["message"]["tool_calls"][0]["function"]["arguments"], given);

        let told = streams(MESSAGES, &across(MESSAGES), &says.stream).await;
        let pieces = events(&told.reply.text());
        let pieces = pieces.iter().filter_map(|event| event["delta"]["partial_json"].as_str());
        assert_eq!(pieces.collect::<String>(), given, "{quoted}");
    }
}
