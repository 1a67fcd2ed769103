//! `POST /v1/completions`, the legacy one: several prompts, `n`, `echo`, plain and as a stream.

use serde_json::{Value, json};

use super::answer::{Ask, Choice, Stop, Turn, pieces, speak};
use super::chat::stops;
use super::events::{EventWriter, Pieces};
use super::files::CREATED;
use super::hash::draw;
use super::prefix_cache::PrefixHasher;
use super::prompt::{PromptReader, scope};
use super::reply::{Refusal, Reply, parse_object};
use super::routes::Asked;
use super::strict;

const MOST_CHOICES: usize = 128;
/// What the provider takes where nothing is said.
const USUAL_LIMIT: u64 = 16;

pub(crate) fn reply(asked: &Asked<'_>) -> Result<Reply, Refusal> {
    let request = parse_object(&asked.body)?;
    if asked.tuning.strict {
        strict::completions(&request)?;
    }
    let model = request["model"].as_str().unwrap_or("mock");
    let mut reader =
        PromptReader::new(model, PrefixHasher::in_steps(scope(model, asked.header("authorization"))));
    reader.value(&request["prompt"]);
    let prompt = reader.finish();
    let ask = Ask {
        seed: prompt.seed,
        last_text: String::new(),
        tools: Vec::new(),
        choice: Choice::None,
        schema: None,
        limit: Some(request["max_tokens"].as_u64().unwrap_or(USUAL_LIMIT)),
        stops: stops(&request["stop"]),
        images: 0,
        documents: 0,
        fixed: asked.tuning.answer.as_deref(),
        chunks: asked.tuning.chunks,
    };
    let turns = turns(&request, &ask);
    let output: u64 = turns.iter().map(|turn| turn.tokens).sum();
    let total = prompt.tokens + output;
    let usage = json!({"prompt_tokens": prompt.tokens, "completion_tokens": output, "total_tokens": total});
    let head = json!({
        "id": format!("cmpl-{:016x}", prompt.seed),
        "object": "text_completion",
        "created": CREATED,
        "model": model,
    });
    if request["stream"] == true {
        let usage = (request["stream_options"]["include_usage"] == true).then_some(usage);
        return Ok(Reply::events(stream(&head, &turns, usage, asked.tuning.chunks), total));
    }
    let mut answer = head;
    answer["choices"] =
        turns.iter().enumerate().map(|(at, turn)| choice(at, &turn.text, finish(turn))).collect();
    answer["usage"] = usage;
    Ok(Reply::json(&answer, total))
}

/// `n` for each prompt, in the order of the prompts.
fn turns(request: &Value, ask: &Ask<'_>) -> Vec<Turn> {
    let prompts: Vec<&Value> = match &request["prompt"] {
        Value::Array(prompts) if !prompts.iter().all(Value::is_number) => prompts.iter().collect(),
        one => vec![one],
    };
    let count = request["n"].as_u64().unwrap_or(1).clamp(1, MOST_CHOICES as u64);
    let echo = request["echo"] == true;
    let each = prompts.iter().enumerate().flat_map(|(at, prompt)| {
        (0..count).map(move |choice| {
            let ask = Ask {
                seed: draw(ask.seed, at as u64),
                last_text: String::new(),
                tools: Vec::new(),
                stops: ask.stops.clone(),
                ..*ask
            };
            let mut turn = speak(&ask, choice);
            if let (true, Some(prompt)) = (echo, prompt.as_str()) {
                turn.text.insert_str(0, prompt);
            }
            turn
        })
    });
    each.take(MOST_CHOICES).collect()
}

fn finish(turn: &Turn) -> Option<&'static str> {
    Some(if turn.stop == Stop::Length { "length" } else { "stop" })
}

fn choice(index: usize, text: &str, finish_reason: Option<&str>) -> Value {
    json!({"text": text, "index": index, "logprobs": null, "finish_reason": finish_reason})
}

fn stream(head: &Value, turns: &[Turn], usage: Option<Value>, chunks: usize) -> Pieces {
    let mut out = EventWriter::default();
    let mut send = |choices: Value, told: Option<&Value>, paced| {
        let mut chunk = head.clone();
        chunk["choices"] = choices;
        if usage.is_some() {
            chunk["usage"] = told.cloned().unwrap_or_default();
        }
        out.data(&chunk, paced);
    };
    for (index, turn) in turns.iter().enumerate() {
        for piece in pieces(&turn.text, chunks) {
            send(json!([choice(index, piece, None)]), None, true);
        }
        send(json!([choice(index, "", finish(turn))]), None, false);
    }
    if usage.is_some() {
        send(json!([]), usage.as_ref(), false);
    }
    out.done();
    out.finish()
}
