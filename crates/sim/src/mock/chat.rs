//! `POST /v1/chat/completions`, plain and as a stream.
//!
//! Stream: the role, then the content, then the finish reason, then usage if asked for, then `[DONE]`.

use serde::Serialize;
use serde_json::{Value, json};

use super::answer::{Ask, Choice, Stop, Tool, ToolCall, Turn, pieces, speak};
use super::caps;
use super::events::EventWriter;
use super::files::CREATED;
use super::prefix_cache::PrefixHasher;
use super::prompt::{Prompt, PromptReader, scope, text_of};
use super::reply::{Refusal, Reply, parse_object};
use super::routes::Asked;
use super::strict;

/// More choices than any provider gives.
const MOST_CHOICES: u64 = 128;
/// What one event weighs besides its text.
const EVENT_OVERHEAD: usize = 320;

pub(crate) fn reply(asked: &Asked<'_>) -> Result<Reply, Refusal> {
    let request = parse_object(&asked.body)?;
    if asked.tuning.strict {
        strict::chat(&request)?;
    }
    let model = request["model"].as_str().unwrap_or("mock");
    let prompt = read_prompt(&request, model, asked);
    let usage_of = |turns: &[Turn]| Usage::of(&prompt, asked, &request, turns);
    let ask = ask(&request, &prompt, asked);
    let count = request["n"].as_u64().unwrap_or(1).clamp(1, MOST_CHOICES);
    let turns: Vec<Turn> = (0..count).map(|index| speak(&ask, index)).collect();
    let usage = usage_of(&turns);
    let head =
        Head { id: format!("chatcmpl-{:016x}", prompt.seed), model, service_tier: service_tier(&request) };
    let tokens = usage.total_tokens;
    if request["stream"] == true {
        let with_usage = request["stream_options"]["include_usage"] == true;
        Ok(Reply::events(stream(&head, &turns, with_usage.then_some(&usage), asked.tuning.chunks), tokens))
    } else {
        Ok(Reply::json(&whole(&head, &turns, &usage), tokens))
    }
}

fn read_prompt(request: &Value, model: &str, asked: &Asked<'_>) -> Prompt {
    let scope = scope(model, asked.header("authorization"));
    let mut reader = PromptReader::new(model, PrefixHasher::in_steps(scope));
    reader.value(&request["tools"]);
    for message in request["messages"].as_array().into_iter().flatten() {
        reader.message(message["role"].as_str().unwrap_or_default());
        reader.value(&message["content"]);
        reader.value(&message["tool_calls"]);
        reader.value(&message["tool_call_id"]);
    }
    reader.finish()
}

fn ask<'a>(request: &'a Value, prompt: &Prompt, asked: &'a Asked<'_>) -> Ask<'a> {
    let last = request["messages"].as_array().and_then(|messages| messages.last());
    let last_text = last.filter(|last| last["role"] == "user").map(|last| text_of(&last["content"]));
    let format = &request["response_format"];
    let schema = match format["type"].as_str() {
        Some("json_schema") => Some(&format["json_schema"]["schema"]),
        // No schema: any object will do.
        Some("json_object") => Some(&Value::Null),
        _ => None,
    };
    Ask {
        seed: prompt.seed,
        last_text: last_text.unwrap_or_default(),
        tools: tools(&request["tools"]),
        choice: choice(&request["tool_choice"]),
        schema,
        limit: request["max_completion_tokens"].as_u64().or(request["max_tokens"].as_u64()),
        stops: stops(&request["stop"]),
        images: prompt.images,
        documents: prompt.documents,
        fixed: asked.tuning.answer.as_deref(),
        chunks: asked.tuning.chunks,
    }
}

/// One sequence, or a list of them.
pub(crate) fn stops(stop: &Value) -> Vec<&str> {
    match stop {
        Value::String(one) => vec![one],
        Value::Array(many) => many.iter().filter_map(Value::as_str).collect(),
        _ => Vec::new(),
    }
}

fn tools(tools: &Value) -> Vec<Tool<'_>> {
    let known = tools.as_array().into_iter().flatten().filter_map(|tool| {
        let custom = tool["type"] == "custom";
        let inner = if custom { &tool["custom"] } else { &tool["function"] };
        Some(Tool { name: inner["name"].as_str()?, schema: &inner["parameters"], custom })
    });
    known.collect()
}

fn choice(choice: &Value) -> Choice<'_> {
    match (choice.as_str(), choice["type"].as_str()) {
        (Some("none"), _) => Choice::None,
        (Some("required" | "any"), _) => Choice::Any,
        (_, Some("function")) => named(&choice["function"]),
        (_, Some("custom")) => named(&choice["custom"]),
        (_, Some("allowed_tools")) if choice["allowed_tools"]["mode"] == "required" => Choice::Any,
        _ => Choice::Auto,
    }
}

fn named(tool: &Value) -> Choice<'_> {
    tool["name"].as_str().map_or(Choice::Auto, Choice::Named)
}

/// The tier that answers: a named one is granted, `fast` goes by its other name.
pub(crate) fn service_tier(request: &Value) -> &str {
    match request["service_tier"].as_str() {
        None | Some("auto") => "default",
        Some("fast") => "priority",
        Some(tier) => tier,
    }
}

/// Tokens a reasoning model spends before it speaks.
pub(crate) fn reasoning_tokens(model: &str, effort: &Value) -> u64 {
    if caps::openai(model).is_none_or(|caps| !caps.reasoning) {
        return 0;
    }
    match effort.as_str() {
        Some("none") => 0,
        Some("minimal") => 16,
        Some("low") => 32,
        Some("high") => 128,
        Some("xhigh" | "max") => 256,
        _ => 64,
    }
}

#[derive(Serialize)]
struct Usage {
    prompt_tokens: u64,
    completion_tokens: u64,
    total_tokens: u64,
    prompt_tokens_details: PromptDetails,
    completion_tokens_details: CompletionDetails,
}

#[derive(Serialize)]
struct PromptDetails {
    cached_tokens: u64,
    audio_tokens: u64,
}

#[derive(Serialize)]
struct CompletionDetails {
    reasoning_tokens: u64,
    audio_tokens: u64,
    accepted_prediction_tokens: u64,
    rejected_prediction_tokens: u64,
}

impl Usage {
    fn of(prompt: &Prompt, asked: &Asked<'_>, request: &Value, turns: &[Turn]) -> Self {
        let model = request["model"].as_str().unwrap_or_default();
        let reasoning_tokens = reasoning_tokens(model, &request["reasoning_effort"]) * turns.len() as u64;
        let completion_tokens = turns.iter().map(|turn| turn.tokens).sum::<u64>() + reasoning_tokens;
        let cached_tokens = asked.shared.prompts.pass(&prompt.marks);
        Self {
            prompt_tokens: prompt.tokens,
            completion_tokens,
            total_tokens: prompt.tokens + completion_tokens,
            prompt_tokens_details: PromptDetails { cached_tokens, audio_tokens: 0 },
            completion_tokens_details: CompletionDetails {
                reasoning_tokens,
                audio_tokens: 0,
                accepted_prediction_tokens: 0,
                rejected_prediction_tokens: 0,
            },
        }
    }
}

struct Head<'a> {
    id: String,
    model: &'a str,
    service_tier: &'a str,
}

fn finish_reason(turn: &Turn) -> &'static str {
    match turn.stop {
        Stop::End | Stop::Sequence(_) => "stop",
        Stop::Length => "length",
        Stop::Tools => "tool_calls",
    }
}

fn whole(head: &Head<'_>, turns: &[Turn], usage: &Usage) -> Value {
    let choices: Vec<Value> = turns.iter().enumerate().map(|(index, turn)| choice_of(index, turn)).collect();
    json!({
        "id": head.id,
        "object": "chat.completion",
        "created": CREATED,
        "model": head.model,
        "choices": choices,
        "usage": usage,
        "service_tier": head.service_tier,
        "system_fingerprint": null,
    })
}

fn choice_of(index: usize, turn: &Turn) -> Value {
    let mut message = json!({"role": "assistant", "content": turn.text, "refusal": null, "annotations": []});
    if !turn.calls.is_empty() {
        message["content"] = Value::Null;
        message["tool_calls"] = turn.calls.iter().map(whole_call).collect();
    }
    json!({"index": index, "message": message, "logprobs": null, "finish_reason": finish_reason(turn)})
}

fn whole_call(call: &ToolCall) -> Value {
    let id = format!("call_{}", call.id);
    match call.custom {
        true => json!({"id": id, "type": "custom", "custom": {"name": call.name, "input": call.arguments}}),
        false => {
            json!({"id": id, "type": "function", "function": {"name": call.name, "arguments": call.arguments}})
        }
    }
}

#[derive(Serialize)]
struct Chunk<'a> {
    id: &'a str,
    object: &'static str,
    created: u64,
    model: &'a str,
    service_tier: &'a str,
    system_fingerprint: Option<&'static str>,
    choices: &'a [ChunkChoice<'a>],
    /// Absent, `null`, or told.
    #[serde(skip_serializing_if = "Option::is_none")]
    usage: Option<Option<&'a Usage>>,
}

#[derive(Serialize)]
struct ChunkChoice<'a> {
    index: usize,
    delta: Delta<'a>,
    logprobs: Option<()>,
    finish_reason: Option<&'static str>,
}

#[derive(Default, Serialize)]
struct Delta<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    role: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    content: Option<Option<&'a str>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    refusal: Option<Option<&'static str>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    tool_calls: Option<[Value; 1]>,
}

/// Writes the chunks of one stream.
struct Writer<'a> {
    out: EventWriter,
    head: &'a Head<'a>,
    asked_for_usage: bool,
}

impl Writer<'_> {
    fn delta(&mut self, index: usize, delta: Delta<'_>, finish_reason: Option<&'static str>, paced: bool) {
        let usage = self.asked_for_usage.then_some(None);
        self.chunk(&[ChunkChoice { index, delta, logprobs: None, finish_reason }], usage, paced);
    }

    fn chunk(&mut self, choices: &[ChunkChoice<'_>], usage: Option<Option<&Usage>>, paced: bool) {
        let Head { id, model, service_tier } = self.head;
        let object = "chat.completion.chunk";
        let chunk = Chunk {
            id,
            object,
            created: CREATED,
            model,
            service_tier,
            system_fingerprint: None,
            choices,
            usage,
        };
        self.out.data(&chunk, paced);
    }
}

fn stream(head: &Head<'_>, turns: &[Turn], usage: Option<&Usage>, chunks: usize) -> super::events::Pieces {
    let size: usize = turns.iter().map(|turn| turn.text.len() + chunks * EVENT_OVERHEAD).sum();
    let out = EventWriter::with_capacity(size.min(1 << 20) + 4 * EVENT_OVERHEAD);
    let mut writer = Writer { out, head, asked_for_usage: usage.is_some() };
    for (index, turn) in turns.iter().enumerate() {
        let content = if turn.calls.is_empty() { Some("") } else { None };
        let role =
            Delta { role: Some("assistant"), content: Some(content), refusal: Some(None), tool_calls: None };
        writer.delta(index, role, None, false);
    }
    contents(&mut writer, turns, chunks);
    for (index, turn) in turns.iter().enumerate() {
        for (at, call) in turn.calls.iter().enumerate() {
            call_deltas(&mut writer, index, at, call, chunks);
        }
        writer.delta(index, Delta::default(), Some(finish_reason(turn)), false);
    }
    if usage.is_some() {
        writer.chunk(&[], Some(usage), false);
    }
    writer.out.done();
    writer.out.finish()
}

/// The choices take turns, as they do at the provider.
fn contents(writer: &mut Writer<'_>, turns: &[Turn], chunks: usize) {
    let mut texts: Vec<_> = turns.iter().map(|turn| pieces(&turn.text, chunks)).collect();
    for _ in 0..chunks {
        let mut paced = true;
        for (index, text) in texts.iter_mut().enumerate() {
            let Some(piece) = text.next() else { continue };
            writer.delta(index, Delta { content: Some(Some(piece)), ..Delta::default() }, None, paced);
            // One wait for the round, however many choices there are.
            paced = false;
        }
    }
}

/// Id and name come once, then the arguments in pieces.
fn call_deltas(writer: &mut Writer<'_>, index: usize, at: usize, call: &ToolCall, chunks: usize) {
    let (kind, field) = if call.custom { ("custom", "input") } else { ("function", "arguments") };
    let first = json!({
        "index": at,
        "id": format!("call_{}", call.id),
        "type": kind,
        kind: {"name": call.name, field: ""},
    });
    let mut send = |value: Value, paced| {
        writer.delta(index, Delta { tool_calls: Some([value]), ..Delta::default() }, None, paced);
    };
    send(first, false);
    for piece in pieces(&call.arguments, chunks) {
        send(json!({"index": at, kind: {field: piece}}), true);
    }
}
