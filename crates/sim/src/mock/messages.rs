//! `POST /v1/messages`, plain and as a stream, and `POST /v1/messages/count_tokens`.
//!
//! Stream: `message_start`, then the start, deltas and stop of each block, then `message_delta` with the stop
//! reason and the usage, then `message_stop`. There is no `[DONE]`.

use serde_json::{Value, json};

use super::answer::{Ask, Choice, Stop, Tool, ToolCall, Turn, pieces, speak, thought};
use super::caps::{self, Thinking};
use super::events::{EventWriter, Pieces};
use super::prefix_cache::{LEAST_TOKENS, PrefixHasher, tokens_of};
use super::prompt::{Prompt, PromptReader, scope};
use super::reply::{Refusal, Reply, parse_object};
use super::routes::Asked;
use super::signature::{Conversation, Signature};
use super::strict;

pub(crate) fn reply(asked: &Asked<'_>) -> Result<Reply, Refusal> {
    let request = parse_object(&asked.body)?;
    if asked.tuning.strict {
        strict::messages(&request, headers(asked))?;
    }
    let prompt = read_prompt(&request, asked);
    let answer = answer(&request, &prompt, asked);
    let tokens = prompt.tokens + answer.output_tokens();
    if request["stream"] == true {
        Ok(Reply::events(stream(&answer, asked.tuning.chunks), tokens))
    } else {
        Ok(Reply::json(&whole(&answer), tokens))
    }
}

pub(crate) fn count_tokens(asked: &Asked<'_>) -> Result<Reply, Refusal> {
    let request = parse_object(&asked.body)?;
    if asked.tuning.strict {
        strict::count_tokens(&request, headers(asked))?;
    }
    let prompt = read_prompt(&request, asked);
    Ok(Reply::json(&json!({"input_tokens": prompt.tokens}), 0))
}

fn headers<'a>(asked: &'a Asked<'_>) -> strict::Headers<'a> {
    strict::Headers { version: asked.header("anthropic-version"), beta: asked.header("anthropic-beta") }
}

fn model(request: &Value) -> &str {
    request["model"].as_str().unwrap_or("mock")
}

/// In the order in which the provider caches: tools, system, messages; a mark after every block.
fn read_prompt(request: &Value, asked: &Asked<'_>) -> Prompt {
    let credential = asked.header("x-api-key").or(asked.header("authorization"));
    let mut reader =
        PromptReader::new(model(request), PrefixHasher::at_marks(scope(model(request), credential)));
    blocks(&mut reader, &request["tools"]);
    blocks(&mut reader, &request["system"]);
    for message in request["messages"].as_array().into_iter().flatten() {
        reader.message(message["role"].as_str().unwrap_or_default());
        blocks(&mut reader, &message["content"]);
    }
    if request["cache_control"].is_object() {
        reader.mark(true);
    }
    reader.finish()
}

fn blocks(reader: &mut PromptReader, content: &Value) {
    let Value::Array(blocks) = content else {
        reader.value(content);
        return reader.mark(false);
    };
    for block in blocks {
        reader.value(block);
        reader.mark(block["cache_control"].is_object());
    }
}

/// What is sent, in whichever form.
struct Answer<'a> {
    id: String,
    model: &'a str,
    /// The text that is shown, and the signature.
    thought: Option<(String, String)>,
    thinking_tokens: u64,
    turn: Turn,
    input: InputUsage,
}

impl Answer<'_> {
    fn output_tokens(&self) -> u64 {
        self.turn.tokens + self.thinking_tokens
    }
}

#[derive(Clone, Copy)]
struct InputUsage {
    fresh: u64,
    read: u64,
    written: u64,
    for_an_hour: bool,
}

fn answer<'a>(request: &'a Value, prompt: &Prompt, asked: &'a Asked<'_>) -> Answer<'a> {
    let mut turn = speak(&ask(request, prompt, asked), 0);
    if request["tool_choice"]["disable_parallel_tool_use"] == true {
        turn.calls.truncate(1);
    }
    let thinks = thinks(request);
    let thought = thinks.then(|| thought(prompt.seed));
    let thinking_tokens = thought.as_ref().map_or(0, |thought| tokens_of(thought.len() as u64));
    let shown = shows_thoughts(request);
    Answer {
        id: format!("msg_{:016x}", prompt.seed),
        model: model(request),
        thought: thought.map(|text| {
            let signature = Signature::new(&text, shown, Conversation::end(request));
            (if shown { text } else { String::new() }, signature.write())
        }),
        thinking_tokens,
        turn,
        input: input_usage(request, prompt, asked),
    }
}

fn ask<'a>(request: &'a Value, prompt: &Prompt, asked: &'a Asked<'_>) -> Ask<'a> {
    let last = request["messages"].as_array().and_then(|messages| messages.last());
    let last_text =
        last.filter(|last| last["role"] == "user").map(|last| super::prompt::text_of(&last["content"]));
    let format = match &request["output_config"]["format"] {
        Value::Null => &request["output_format"],
        format => format,
    };
    let choice = &request["tool_choice"];
    Ask {
        seed: prompt.seed,
        last_text: last_text.unwrap_or_default(),
        tools: tools(&request["tools"]),
        choice: match choice["type"].as_str() {
            Some("none") => Choice::None,
            Some("any") => Choice::Any,
            Some("tool") => choice["name"].as_str().map_or(Choice::Auto, Choice::Named),
            _ => Choice::Auto,
        },
        schema: (format["type"] == "json_schema").then_some(&format["schema"]),
        limit: request["max_tokens"].as_u64(),
        stops: super::chat::stops(&request["stop_sequences"]),
        images: prompt.images,
        documents: prompt.documents,
        fixed: asked.tuning.answer.as_deref(),
        chunks: asked.tuning.chunks,
    }
}

/// Those of the client; the provider's own tools are not played.
fn tools(tools: &Value) -> Vec<Tool<'_>> {
    let own = tools.as_array().into_iter().flatten().filter(|tool| {
        let kind = tool["type"].as_str();
        kind.is_none_or(|kind| kind == "custom")
    });
    own.filter_map(|tool| {
        Some(Tool { name: tool["name"].as_str()?, schema: &tool["input_schema"], custom: false })
    })
    .collect()
}

fn thinks(request: &Value) -> bool {
    if request["max_tokens"] == 0 {
        return false;
    }
    let by_itself = caps::claude(model(request)).is_some_and(|caps| caps.thinking != Thinking::OnRequest);
    match request["thinking"]["type"].as_str() {
        Some("enabled" | "adaptive") => true,
        Some(_) => false,
        None => by_itself,
    }
}

fn shows_thoughts(request: &Value) -> bool {
    match request["thinking"]["display"].as_str() {
        Some(display) => display != "omitted",
        None => caps::claude(model(request)).is_none_or(|caps| caps.shows_thoughts),
    }
}

/// Nothing is cached without a breakpoint, nor under the least length.
fn input_usage(request: &Value, prompt: &Prompt, asked: &Asked<'_>) -> InputUsage {
    let last_breakpoint = prompt.marks.iter().rposition(|mark| mark.kept);
    let cacheable = last_breakpoint.map_or(&[][..], |at| &prompt.marks[..=at]);
    let reach =
        cacheable.last().map(|mark| mark.tokens).filter(|tokens| *tokens >= LEAST_TOKENS).unwrap_or(0);
    let read = asked.shared.prompts.pass(cacheable);
    let written = reach.saturating_sub(read);
    InputUsage { fresh: prompt.tokens - read - written, read, written, for_an_hour: has_hour(request) }
}

fn has_hour(value: &Value) -> bool {
    match value {
        Value::Object(fields) => value["cache_control"]["ttl"] == "1h" || fields.values().any(has_hour),
        Value::Array(items) => items.iter().any(has_hour),
        _ => false,
    }
}

fn usage(answer: &Answer<'_>, output_tokens: u64) -> Value {
    let InputUsage { fresh, read, written, for_an_hour } = answer.input;
    let (five_minutes, hour) = if for_an_hour { (0, written) } else { (written, 0) };
    json!({
        "input_tokens": fresh,
        "cache_creation_input_tokens": written,
        "cache_read_input_tokens": read,
        "cache_creation": {"ephemeral_5m_input_tokens": five_minutes, "ephemeral_1h_input_tokens": hour},
        "output_tokens": output_tokens,
        "service_tier": "standard",
    })
}

fn stop(turn: &Turn) -> (&'static str, Value) {
    match &turn.stop {
        Stop::End => ("end_turn", Value::Null),
        Stop::Length => ("max_tokens", Value::Null),
        Stop::Sequence(sequence) => ("stop_sequence", sequence.as_str().into()),
        Stop::Tools => ("tool_use", Value::Null),
    }
}

fn message(answer: &Answer<'_>, content: Vec<Value>, stop: (Value, Value), usage: Value) -> Value {
    json!({
        "id": answer.id,
        "type": "message",
        "role": "assistant",
        "model": answer.model,
        "content": content,
        "stop_reason": stop.0,
        "stop_sequence": stop.1,
        "usage": usage,
    })
}

fn whole(answer: &Answer<'_>) -> Value {
    let thought = answer.thought.iter().map(
        |(thinking, signature)| json!({"type": "thinking", "thinking": thinking, "signature": signature}),
    );
    let text = Some(&answer.turn.text).filter(|text| !text.is_empty());
    let text = text.map(|text| json!({"type": "text", "text": text}));
    let calls = answer.turn.calls.iter().map(|call| {
        // Arguments were written from a value, so they parse.
        tool_use(call, serde_json::from_str(&call.arguments).unwrap_or_default())
    });
    let content = thought.chain(text).chain(calls).collect();
    let (reason, sequence) = stop(&answer.turn);
    let mut usage = usage(answer, answer.output_tokens());
    usage["output_tokens_details"] = json!({"thinking_tokens": answer.thinking_tokens});
    message(answer, content, (reason.into(), sequence), usage)
}

fn tool_use(call: &ToolCall, input: Value) -> Value {
    json!({"type": "tool_use", "id": format!("toolu_{}", call.id), "name": call.name, "input": input})
}

/// Writes the events of one stream.
struct Writer {
    out: EventWriter,
    blocks: usize,
}

impl Writer {
    /// Every payload carries the name of its event.
    fn event(&mut self, payload: Value, paced: bool) {
        let name = payload["type"].as_str().unwrap_or_default().to_owned();
        self.out.named(&name, &payload, paced);
    }

    fn block(&mut self, start: Value, deltas: impl Iterator<Item = (Value, bool)>) {
        let index = self.blocks;
        self.event(json!({"type": "content_block_start", "index": index, "content_block": start}), false);
        if index == 0 {
            self.event(json!({"type": "ping"}), false);
        }
        for (delta, paced) in deltas {
            self.event(json!({"type": "content_block_delta", "index": index, "delta": delta}), paced);
        }
        self.event(json!({"type": "content_block_stop", "index": index}), false);
        self.blocks += 1;
    }
}

fn stream(answer: &Answer<'_>, chunks: usize) -> Pieces {
    let mut writer = Writer { out: EventWriter::default(), blocks: 0 };
    let opening = message(answer, Vec::new(), (Value::Null, Value::Null), usage(answer, 1));
    writer.event(json!({"type": "message_start", "message": opening}), false);
    if let Some((thinking, signature)) = &answer.thought {
        let start = json!({"type": "thinking", "thinking": "", "signature": ""});
        let texts =
            pieces(thinking, 2).map(|text| (json!({"type": "thinking_delta", "thinking": text}), false));
        let signature = (json!({"type": "signature_delta", "signature": signature}), false);
        writer.block(start, texts.chain([signature]));
    }
    if !answer.turn.text.is_empty() {
        let texts = pieces(&answer.turn.text, chunks);
        let deltas = texts.map(|text| (json!({"type": "text_delta", "text": text}), true));
        writer.block(json!({"type": "text", "text": ""}), deltas);
    }
    for call in &answer.turn.calls {
        // The provider, too, opens with an empty piece.
        let parts = std::iter::once("").chain(pieces(&call.arguments, chunks));
        let deltas =
            parts.map(|part| (json!({"type": "input_json_delta", "partial_json": part}), !part.is_empty()));
        writer.block(tool_use(call, json!({})), deltas);
    }
    let (reason, sequence) = stop(&answer.turn);
    let mut last = usage(answer, answer.output_tokens());
    if let Value::Object(fields) = &mut last {
        // Told in `message_start` alone.
        fields.remove("cache_creation");
        fields.remove("service_tier");
    }
    last["output_tokens_details"] = json!({"thinking_tokens": answer.thinking_tokens});
    let delta = json!({"stop_reason": reason, "stop_sequence": sequence});
    writer.event(json!({"type": "message_delta", "delta": delta, "usage": last}), false);
    writer.event(json!({"type": "message_stop"}), false);
    writer.out.finish()
}
