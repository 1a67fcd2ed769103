//! `GET /v1/models` and `/v1/models/{id}`, in the shape of whoever is asked.

use serde_json::{Value, json};

use super::caps::{OPENAI_MODELS, claude_models};
use super::files::{CREATED, CREATED_TEXT};
use super::reply::{Dialect, Refusal, Reply};
use super::routes::Asked;

pub(crate) fn list(asked: &Asked<'_>) -> Result<Reply, Refusal> {
    let data: Vec<Value> = names(asked.dialect).map(|id| model(asked.dialect, id)).collect();
    let list = match asked.dialect {
        Dialect::Anthropic => json!({
            "first_id": data.first().map(|model| &model["id"]),
            "last_id": data.last().map(|model| &model["id"]),
            "has_more": false,
            "data": data,
        }),
        _ => json!({"object": "list", "data": data}),
    };
    Ok(Reply::json(&list, 0))
}

/// Any model is there for those who are not strict.
pub(crate) fn one(asked: &Asked<'_>, id: &str) -> Result<Reply, Refusal> {
    if asked.tuning.strict && !names(asked.dialect).any(|known| known == id) {
        let refusal = Refusal::not_found(format!("The model '{id}' does not exist"));
        return Err(refusal.param("model").code("model_not_found"));
    }
    Ok(Reply::json(&model(asked.dialect, id), 0))
}

fn names(dialect: Dialect) -> Box<dyn Iterator<Item = &'static str>> {
    match dialect {
        Dialect::Anthropic => Box::new(claude_models()),
        _ => Box::new(OPENAI_MODELS.iter().copied()),
    }
}

fn model(dialect: Dialect, id: &str) -> Value {
    match dialect {
        Dialect::Anthropic => json!({
            "type": "model", "id": id, "display_name": id, "created_at": CREATED_TEXT,
            "max_input_tokens": 200_000, "max_tokens": 64_000,
        }),
        _ => json!({"id": id, "object": "model", "created": CREATED, "owned_by": "mock"}),
    }
}
