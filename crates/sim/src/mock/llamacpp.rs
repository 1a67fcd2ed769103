//! `POST /completion`, llama.cpp's own: plain and as a stream, whose last event says `stop`; it has no `[DONE]`.

use serde_json::{Value, json};

use super::answer::{Ask, Choice, Stop, Turn, pieces, speak};
use super::chat::stops;
use super::events::{EventWriter, Pieces};
use super::prefix_cache::{PrefixHasher, tokens_of};
use super::prompt::{PromptReader, scope};
use super::reply::{Refusal, Reply, parse_object};
use super::routes::Asked;

const MODEL: &str = "mock";
/// Pretended times, the same on every machine.
const MS_PER_PROMPT_TOKEN: f64 = 0.5;
const MS_PER_TOKEN: f64 = 10.0;

pub(crate) fn reply(asked: &Asked<'_>) -> Result<Reply, Refusal> {
    let request = parse_object(&asked.body)?;
    if request["prompt"].is_null() {
        return Err(Refusal::bad("\"prompt\" must be provided"));
    }
    let mut reader = PromptReader::new(MODEL, PrefixHasher::in_steps(scope(MODEL, None)));
    reader.value(&request["prompt"]);
    let prompt = reader.finish();
    let cached = match request["cache_prompt"] {
        Value::Bool(false) => 0,
        _ => asked.shared.prompts.pass(&prompt.marks),
    };
    let schema = &request["json_schema"];
    let ask = Ask {
        seed: prompt.seed,
        last_text: String::new(),
        tools: Vec::new(),
        choice: Choice::None,
        schema: schema.is_object().then_some(schema),
        // A negative number means no limit.
        limit: request["n_predict"].as_u64(),
        stops: stops(&request["stop"]),
        images: 0,
        documents: 0,
        fixed: asked.tuning.answer.as_deref(),
        chunks: asked.tuning.chunks,
    };
    let turn = speak(&ask, 0);
    let total = prompt.tokens + turn.tokens;
    let last = last(&request, &turn, prompt.tokens, cached);
    if request["stream"] == true {
        return Ok(Reply::events(stream(&turn, last, prompt.tokens, asked.tuning.chunks), total));
    }
    let mut whole = last;
    whole["content"] = turn.text.into();
    Ok(Reply::json(&whole, total))
}

fn last(request: &Value, turn: &Turn, prompt_tokens: u64, cached: u64) -> Value {
    let (stop_type, word) = match &turn.stop {
        Stop::Length => ("limit", ""),
        Stop::Sequence(word) => ("word", word.as_str()),
        Stop::End | Stop::Tools => ("eos", ""),
    };
    let (prompt_ms, predicted_ms) = (
        (prompt_tokens - cached.min(prompt_tokens)) as f64 * MS_PER_PROMPT_TOKEN,
        turn.tokens as f64 * MS_PER_TOKEN,
    );
    json!({
        "index": 0,
        "content": "",
        "tokens": [],
        "id_slot": 0,
        "stop": true,
        "model": MODEL,
        "tokens_predicted": turn.tokens,
        "tokens_evaluated": prompt_tokens,
        "generation_settings": {
            "n_predict": request["n_predict"].as_i64().unwrap_or(-1),
            "temperature": request["temperature"].as_f64().unwrap_or(0.8),
            "stream": request["stream"] == true,
            "stop": stops(&request["stop"]),
        },
        "prompt": request["prompt"],
        "has_new_line": turn.text.contains('\n'),
        "truncated": false,
        "stop_type": stop_type,
        "stopping_word": word,
        "tokens_cached": cached,
        "timings": {
            "cache_n": cached,
            "prompt_n": prompt_tokens - cached.min(prompt_tokens),
            "prompt_ms": prompt_ms,
            "prompt_per_token_ms": MS_PER_PROMPT_TOKEN,
            "prompt_per_second": 1000.0 / MS_PER_PROMPT_TOKEN,
            "predicted_n": turn.tokens,
            "predicted_ms": predicted_ms,
            "predicted_per_token_ms": MS_PER_TOKEN,
            "predicted_per_second": 1000.0 / MS_PER_TOKEN,
        },
    })
}

fn stream(turn: &Turn, last: Value, prompt_tokens: u64, chunks: usize) -> Pieces {
    let mut out = EventWriter::default();
    let mut said = 0;
    for piece in pieces(&turn.text, chunks) {
        said += piece.len() as u64;
        let event = json!({
            "index": 0, "content": piece, "tokens": [], "stop": false, "id_slot": 0,
            "tokens_predicted": tokens_of(said), "tokens_evaluated": prompt_tokens,
        });
        out.data(&event, true);
    }
    out.data(&last, false);
    out.finish()
}
