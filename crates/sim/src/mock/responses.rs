//! `POST /v1/responses`, plain and as a stream of named events.
//!
//! Nothing is stored: a `previous_response_id` is taken as it is and only shapes the answer.

use serde_json::{Map, Value, json};

use super::answer::{Ask, Choice, Stop, Tool, ToolCall, Turn, pieces, speak, thought};
use super::chat::{reasoning_tokens, service_tier};
use super::events::{EventWriter, Pieces};
use super::files::CREATED;
use super::prefix_cache::PrefixHasher;
use super::prompt::{Prompt, PromptReader, scope, text_of};
use super::reply::{Refusal, Reply, parse_object};
use super::routes::Asked;
use super::signature::{self, Signature};
use super::strict;

pub(crate) fn reply(asked: &Asked<'_>) -> Result<Reply, Refusal> {
    let request = parse_object(&asked.body)?;
    if asked.tuning.strict {
        strict::responses(&request)?;
    }
    let prompt = read_prompt(&request, asked);
    let turn = speak(&ask(&request, &prompt, asked), 0);
    let items = items(&request, prompt.seed, &turn);
    let response = response(&request, &prompt, &turn, &items, asked);
    let tokens = response["usage"]["total_tokens"].as_u64().unwrap_or_default();
    if request["stream"] == true {
        Ok(Reply::events(stream(response, &items, asked.tuning.chunks), tokens))
    } else {
        Ok(Reply::json(&response, tokens))
    }
}

fn read_prompt(request: &Value, asked: &Asked<'_>) -> Prompt {
    let model = request["model"].as_str().unwrap_or("mock");
    let mut reader =
        PromptReader::new(model, PrefixHasher::in_steps(scope(model, asked.header("authorization"))));
    reader.value(&request["tools"]);
    reader.value(&request["instructions"]);
    reader.value(&request["previous_response_id"]);
    reader.value(&request["conversation"]);
    match &request["input"] {
        Value::Array(items) => {
            for item in items {
                reader.message(item["role"].as_str().or(item["type"].as_str()).unwrap_or_default());
                let said = if item["content"].is_null() { item } else { &item["content"] };
                reader.value(said);
            }
        }
        text => {
            reader.message("user");
            reader.value(text);
        }
    }
    reader.finish()
}

fn ask<'a>(request: &'a Value, prompt: &Prompt, asked: &'a Asked<'_>) -> Ask<'a> {
    let last_text = match &request["input"] {
        Value::String(text) => text.clone(),
        Value::Array(items) => {
            let last = items.last().filter(|last| last["role"] == "user");
            last.map(|last| text_of(&last["content"])).unwrap_or_default()
        }
        _ => String::new(),
    };
    let format = &request["text"]["format"];
    let schema = match format["type"].as_str() {
        Some("json_schema") => Some(&format["schema"]),
        Some("json_object") => Some(&Value::Null),
        _ => None,
    };
    let choice = &request["tool_choice"];
    Ask {
        seed: prompt.seed,
        last_text,
        tools: tools(&request["tools"]),
        choice: match (choice.as_str(), choice["name"].as_str()) {
            (Some("none"), _) => Choice::None,
            (Some("required"), _) => Choice::Any,
            (None, Some(name)) => Choice::Named(name),
            _ if choice["mode"] == "required" => Choice::Any,
            _ => Choice::Auto,
        },
        schema,
        limit: request["max_output_tokens"].as_u64(),
        stops: Vec::new(),
        images: prompt.images,
        documents: prompt.documents,
        fixed: asked.tuning.answer.as_deref(),
        chunks: asked.tuning.chunks,
    }
}

/// Those of the client; the provider's own tools are not played.
fn tools(tools: &Value) -> Vec<Tool<'_>> {
    let own = tools.as_array().into_iter().flatten().filter_map(|tool| {
        let custom = tool["type"] == "custom";
        let own = custom || tool["type"] == "function";
        Some(Tool { name: tool["name"].as_str().filter(|_| own)?, schema: &tool["parameters"], custom })
    });
    own.collect()
}

fn effort(request: &Value) -> &Value {
    &request["reasoning"]["effort"]
}

/// The finished output items, in order.
fn items(request: &Value, seed: u64, turn: &Turn) -> Vec<Value> {
    let mut items: Vec<Value> = reasoning_item(request, seed).into_iter().collect();
    let status = if turn.stop == Stop::Length { "incomplete" } else { "completed" };
    if turn.calls.is_empty() {
        let part = json!({"type": "output_text", "annotations": [], "logprobs": [], "text": turn.text});
        items.push(json!({
            "id": format!("msg_{seed:016x}"), "type": "message", "status": status, "role": "assistant",
            "content": [part],
        }));
    }
    items.extend(turn.calls.iter().map(call_item));
    items
}

fn call_item(call: &ToolCall) -> Value {
    let call_id = format!("call_{}", call.id);
    match call.custom {
        true => json!({
            "id": format!("ctc_{}", call.id), "type": "custom_tool_call", "status": "completed",
            "call_id": call_id, "name": call.name, "input": call.arguments,
        }),
        false => json!({
            "id": format!("fc_{}", call.id), "type": "function_call", "status": "completed",
            "call_id": call_id, "name": call.name, "arguments": call.arguments,
        }),
    }
}

/// Told where a summary or the encrypted content is asked for and the model reasons.
fn reasoning_item(request: &Value, seed: u64) -> Option<Value> {
    let model = request["model"].as_str().unwrap_or_default();
    let summarised = request["reasoning"]["summary"].is_string();
    let include = request["include"].as_array().into_iter().flatten();
    let encrypted = include.into_iter().any(|field| field == "reasoning.encrypted_content");
    if reasoning_tokens(model, effort(request)) == 0 || !(summarised || encrypted) {
        return None;
    }
    let text = thought(seed);
    let summary = if summarised { json!([{"type": "summary_text", "text": text}]) } else { json!([]) };
    let mut item = json!({"id": format!("rs_{seed:016x}"), "type": "reasoning", "summary": summary});
    if encrypted {
        item["encrypted_content"] = Signature::new(&text, false, signature::Place::default()).write().into();
    }
    Some(item)
}

/// The whole response. What the request set is told back, as the provider does.
fn response(request: &Value, prompt: &Prompt, turn: &Turn, items: &[Value], asked: &Asked<'_>) -> Value {
    let given = |name: &str, usual: Value| match &request[name] {
        Value::Null => usual,
        value => value.clone(),
    };
    let model = request["model"].as_str().unwrap_or("mock");
    let cut_short = turn.stop == Stop::Length;
    let reasoning_tokens = reasoning_tokens(model, effort(request));
    let output_tokens = turn.tokens + reasoning_tokens;
    json!({
        "id": format!("resp_{:016x}", prompt.seed),
        "object": "response",
        "created_at": CREATED,
        "status": if cut_short { "incomplete" } else { "completed" },
        "background": given("background", false.into()),
        "error": null,
        "incomplete_details": cut_short.then(|| json!({"reason": "max_output_tokens"})),
        "instructions": request["instructions"],
        "max_output_tokens": request["max_output_tokens"],
        "metadata": given("metadata", json!({})),
        "model": model,
        "output": items,
        "parallel_tool_calls": given("parallel_tool_calls", true.into()),
        "previous_response_id": request["previous_response_id"],
        "reasoning": {"effort": effort(request), "summary": request["reasoning"]["summary"]},
        "service_tier": service_tier(request),
        "store": given("store", true.into()),
        "temperature": given("temperature", 1.0.into()),
        "text": given("text", json!({"format": {"type": "text"}})),
        "tool_choice": given("tool_choice", "auto".into()),
        "tools": given("tools", json!([])),
        "top_p": given("top_p", 1.0.into()),
        "truncation": given("truncation", "disabled".into()),
        "usage": {
            "input_tokens": prompt.tokens,
            "input_tokens_details": {"cached_tokens": asked.shared.prompts.pass(&prompt.marks)},
            "output_tokens": output_tokens,
            "output_tokens_details": {"reasoning_tokens": reasoning_tokens},
            "total_tokens": prompt.tokens + output_tokens,
        },
    })
}

/// Writes the events of one stream, numbered in order.
struct Writer {
    out: EventWriter,
    number: u64,
}

impl Writer {
    fn event(&mut self, name: &str, fields: Value, paced: bool) {
        let mut payload = Map::new();
        payload.insert("type".into(), name.into());
        payload.insert("sequence_number".into(), self.number.into());
        if let Value::Object(fields) = fields {
            payload.extend(fields);
        }
        self.number += 1;
        self.out.named(name, &payload, paced);
    }
}

fn stream(response: Value, items: &[Value], chunks: usize) -> Pieces {
    let mut writer = Writer { out: EventWriter::default(), number: 0 };
    let mut running = response.clone();
    running["status"] = "in_progress".into();
    running["output"] = json!([]);
    running["usage"] = Value::Null;
    running["incomplete_details"] = Value::Null;
    writer.event("response.created", json!({"response": running}), false);
    writer.event("response.in_progress", json!({"response": running}), false);
    for (index, item) in items.iter().enumerate() {
        let mut started = item.clone();
        if !item["status"].is_null() {
            started["status"] = "in_progress".into();
        }
        let place = Place { index, id: item["id"].as_str().unwrap_or_default(), chunks };
        match item["type"].as_str() {
            Some("message") => message(&mut writer, place, started, item),
            Some("reasoning") => reasoning(&mut writer, place, started, item),
            Some("custom_tool_call") => {
                arguments(&mut writer, place, started, item, "input", "response.custom_tool_call_input");
            }
            _ => {
                arguments(&mut writer, place, started, item, "arguments", "response.function_call_arguments")
            }
        }
        writer.event("response.output_item.done", json!({"output_index": index, "item": item}), false);
    }
    let last = if response["status"] == "incomplete" { "response.incomplete" } else { "response.completed" };
    writer.event(last, json!({"response": response}), false);
    writer.out.finish()
}

/// Where an item stands in the output.
#[derive(Clone, Copy)]
struct Place<'a> {
    index: usize,
    id: &'a str,
    chunks: usize,
}

impl Place<'_> {
    fn begin(self, writer: &mut Writer, started: Value) {
        writer.event(
            "response.output_item.added",
            json!({"output_index": self.index, "item": started}),
            false,
        );
    }

    /// Fields of an event inside this item.
    fn fields(self, more: Value) -> Value {
        let mut fields = json!({"item_id": self.id, "output_index": self.index});
        if let (Value::Object(fields), Value::Object(more)) = (&mut fields, more) {
            fields.extend(more);
        }
        fields
    }
}

fn message(writer: &mut Writer, place: Place<'_>, mut started: Value, item: &Value) {
    started["content"] = json!([]);
    place.begin(writer, started);
    let part = &item["content"][0];
    let text = part["text"].as_str().unwrap_or_default();
    let mut empty = part.clone();
    empty["text"] = "".into();
    writer.event(
        "response.content_part.added",
        place.fields(json!({"content_index": 0, "part": empty})),
        false,
    );
    for piece in pieces(text, place.chunks) {
        let delta = json!({"content_index": 0, "delta": piece, "logprobs": []});
        writer.event("response.output_text.delta", place.fields(delta), true);
    }
    let done = json!({"content_index": 0, "text": text, "logprobs": []});
    writer.event("response.output_text.done", place.fields(done), false);
    writer.event(
        "response.content_part.done",
        place.fields(json!({"content_index": 0, "part": part})),
        false,
    );
}

fn reasoning(writer: &mut Writer, place: Place<'_>, mut started: Value, item: &Value) {
    started["summary"] = json!([]);
    place.begin(writer, started);
    for (at, part) in item["summary"].as_array().into_iter().flatten().enumerate() {
        let text = part["text"].as_str().unwrap_or_default();
        let empty = json!({"summary_index": at, "part": {"type": "summary_text", "text": ""}});
        writer.event("response.reasoning_summary_part.added", place.fields(empty), false);
        for piece in pieces(text, 2) {
            let delta = json!({"summary_index": at, "delta": piece});
            writer.event("response.reasoning_summary_text.delta", place.fields(delta), false);
        }
        let done = json!({"summary_index": at, "text": text});
        writer.event("response.reasoning_summary_text.done", place.fields(done), false);
        let done = json!({"summary_index": at, "part": part});
        writer.event("response.reasoning_summary_part.done", place.fields(done), false);
    }
}

fn arguments(
    writer: &mut Writer,
    place: Place<'_>,
    mut started: Value,
    item: &Value,
    field: &str,
    event: &str,
) {
    started[field] = "".into();
    place.begin(writer, started);
    let text = item[field].as_str().unwrap_or_default();
    for piece in pieces(text, place.chunks) {
        writer.event(&format!("{event}.delta"), place.fields(json!({"delta": piece})), true);
    }
    let done = json!({field: text, "name": item["name"]});
    writer.event(&format!("{event}.done"), place.fields(done), false);
}
