//! What Messages refuses about the turns so far.
//!
//! Turns of one role in a row count as one, as they do at the provider.

use serde_json::Value;

use super::super::reply::{Checked, Refusal};
use super::claude_thoughts::is_manual;
use super::common::{is_name, items, repeated};
use super::messages::{Asked, NEW};

const MOST_MESSAGES: usize = 100_000;
const MOST_ID: usize = 256;

pub(super) fn some_messages(asked: &Asked<'_>) -> Checked {
    match asked.request["messages"].as_array() {
        None => Err(Refusal::bad("messages: Field required")),
        Some(messages) if messages.is_empty() => {
            Err(Refusal::bad("messages: at least one message is required"))
        }
        Some(messages) if messages.len() > MOST_MESSAGES => {
            Err(Refusal::bad(format!("messages: at most {MOST_MESSAGES} messages")))
        }
        Some(_) => Ok(()),
    }
}

pub(super) fn known_roles(asked: &Asked<'_>) -> Checked {
    for (at, message) in messages(asked).enumerate() {
        match role(message) {
            "user" | "assistant" => {}
            "system" if asked.caps.is_none_or(|caps| caps.mid_system) => {}
            other => {
                return Err(Refusal::bad(format!("messages.{at}: unexpected role \"{other}\"")));
            }
        }
    }
    Ok(())
}

pub(super) fn user_begins(asked: &Asked<'_>) -> Checked {
    match messages(asked).find(|message| role(message) != "system").map(role) {
        Some("user") => Ok(()),
        _ => Err(Refusal::bad("messages: first message must use the \"user\" role")),
    }
}

/// Nothing is empty, save for a last message of the assistant.
pub(super) fn contents(asked: &Asked<'_>) -> Checked {
    let last = messages(asked).count().saturating_sub(1);
    for (at, message) in messages(asked).enumerate() {
        let may_be_empty = at == last && role(message) == "assistant";
        let empty = match &message["content"] {
            Value::String(text) => text.is_empty(),
            Value::Array(blocks) => blocks.is_empty(),
            _ => {
                return Err(Refusal::bad(format!(
                    "messages.{at}.content: Input should be a string or a list"
                )));
            }
        };
        if empty && !may_be_empty {
            return Err(Refusal::bad(format!(
                "messages.{at}: all messages must have non-empty content except for the optional final assistant \
                 message"
            )));
        }
        if blocks(message).any(is_empty_text) {
            return Err(Refusal::bad("messages: text content blocks must be non-empty"));
        }
    }
    match items(&asked.request["system"]).any(is_empty_text) {
        true => Err(Refusal::bad("system: text content blocks must be non-empty")),
        false => Ok(()),
    }
}

fn is_empty_text(block: &Value) -> bool {
    block["type"] == "text" && block["text"].as_str().is_none_or(str::is_empty)
}

/// A system message stands behind a user's turn, and before an assistant's or at the end.
pub(super) fn mid_system(asked: &Asked<'_>) -> Checked {
    let roles: Vec<&str> = messages(asked).map(role).collect();
    for (at, role) in roles.iter().enumerate() {
        if *role != "system" {
            continue;
        }
        let after_assistant = at > 0 && roles[at - 1] == "assistant";
        let before_user = roles.get(at + 1) == Some(&"user");
        if after_assistant || before_user {
            return Err(Refusal::bad(format!(
                "messages.{at}: a system message may not follow an assistant turn or precede a user message"
            )));
        }
    }
    Ok(())
}

pub(super) fn prefill(asked: &Asked<'_>) -> Checked {
    let Some(last) = messages(asked).last().filter(|last| role(last) == "assistant") else { return Ok(()) };
    if asked.caps.is_some_and(|caps| !caps.prefill) || is_manual(asked) {
        return Err(Refusal::bad(
            "This model does not support assistant message prefill. The conversation must end with a user message.",
        ));
    }
    let text = match &last["content"] {
        Value::String(text) => Some(text.as_str()),
        content => items(content).last().and_then(|block| block["text"].as_str()),
    };
    match text.filter(|text| text.ends_with(char::is_whitespace)) {
        Some(_) => Err(Refusal::bad("messages: final assistant content cannot end with trailing whitespace")),
        None => Ok(()),
    }
}

pub(super) fn uses_are_answered(asked: &Asked<'_>) -> Checked {
    let turns = turns(asked);
    for (at, turn) in turns.iter().enumerate().filter(|(_, turn)| turn.role == "assistant") {
        let next = turns.get(at + 1);
        let answered = |id: &str| {
            next.is_some_and(|next| ids(next, "tool_result", "tool_use_id").any(|known| known == id))
        };
        let open: Vec<&str> = ids(turn, "tool_use", "id").filter(|id| !answered(id)).collect();
        if !open.is_empty() {
            return Err(Refusal::bad(format!(
                "messages: `tool_use` ids were found without `tool_result` blocks immediately after: {}. Each \
                 `tool_use` block must have a corresponding `tool_result` block in the next message.",
                open.join(", ")
            )));
        }
    }
    Ok(())
}

pub(super) fn results_have_their_use(asked: &Asked<'_>) -> Checked {
    let turns = turns(asked);
    for (at, turn) in turns.iter().enumerate() {
        let before =
            at.checked_sub(1).map(|before| &turns[before]).filter(|before| before.role == "assistant");
        let known =
            |id: &str| before.is_some_and(|before| ids(before, "tool_use", "id").any(|used| used == id));
        if let Some(id) = ids(turn, "tool_result", "tool_use_id").find(|id| !known(id)) {
            return Err(Refusal::bad(format!(
                "messages: unexpected `tool_use_id` found in `tool_result` blocks: {id}. Each `tool_result` block \
                 must have a corresponding `tool_use` block in the previous message."
            )));
        }
        if let Some(id) = repeated(ids(turn, "tool_result", "tool_use_id")) {
            return Err(Refusal::bad(format!(
                "messages: each tool_use must have a single result. Found multiple `tool_result` blocks with id: {id}"
            )));
        }
    }
    Ok(())
}

pub(super) fn tool_ids(asked: &Asked<'_>) -> Checked {
    let uses = || messages(asked).flat_map(blocks).filter(|block| block["type"] == "tool_use");
    let all = || uses().filter_map(|block| block["id"].as_str());
    if uses().count() != all().count() || all().any(|id| !is_name(id, MOST_ID)) {
        return Err(Refusal::bad("messages: tool_use.id: String should match pattern '^[a-zA-Z0-9_-]+$'"));
    }
    match repeated(all()) {
        Some(_) => Err(Refusal::bad("messages: `tool_use` ids must be unique")),
        None => Ok(()),
    }
}

/// The newer version is stricter about what stands where.
pub(super) fn blocks_of_2026(asked: &Asked<'_>) -> Checked {
    if asked.version != NEW {
        return Ok(());
    }
    for message in messages(asked) {
        let from_assistant = role(message) == "assistant";
        if from_assistant && blocks(message).any(|block| block["type"] == "document") {
            return Err(Refusal::bad(format!(
                "messages: `document` blocks are not allowed in assistant turns with anthropic-version {NEW}."
            )));
        }
        let cites = |block: &Value| block["type"] == "text" && items(&block["citations"]).next().is_some();
        if role(message) == "user" && blocks(message).any(cites) {
            return Err(Refusal::bad(format!(
                "messages: `citations` are not allowed on user text blocks with anthropic-version {NEW}."
            )));
        }
    }
    Ok(())
}

pub(super) fn messages<'a>(asked: &Asked<'a>) -> impl Iterator<Item = &'a Value> {
    items(&asked.request["messages"])
}

pub(super) fn role(message: &Value) -> &str {
    message["role"].as_str().unwrap_or_default()
}

pub(super) fn blocks(message: &Value) -> impl Iterator<Item = &Value> {
    items(&message["content"])
}

/// Messages of one role in a row. System messages belong to no turn.
pub(super) struct Turn<'a> {
    pub(super) role: &'a str,
    pub(super) blocks: Vec<&'a Value>,
}

pub(super) fn turns<'a>(asked: &Asked<'a>) -> Vec<Turn<'a>> {
    let mut turns: Vec<Turn<'a>> = Vec::new();
    for message in messages(asked).filter(|message| role(message) != "system") {
        match turns.last_mut() {
            Some(turn) if turn.role == role(message) => turn.blocks.extend(blocks(message)),
            _ => turns.push(Turn { role: role(message), blocks: blocks(message).collect() }),
        }
    }
    turns
}

pub(super) fn ids<'a>(turn: &Turn<'a>, kind: &'a str, field: &'a str) -> impl Iterator<Item = &'a str> {
    let of_kind = turn.blocks.clone().into_iter().filter(move |block| block["type"] == kind);
    of_kind.filter_map(move |block| block[field].as_str())
}

#[cfg(test)]
pub(super) mod tests {
    use serde_json::json;

    use super::super::messages::tests::{accepts, check, refuses};
    use super::*;

    pub(in super::super) fn user(content: Value) -> Value {
        json!({"role": "user", "content": content})
    }

    pub(in super::super) fn assistant(content: Value) -> Value {
        json!({"role": "assistant", "content": content})
    }

    pub(in super::super) fn history(messages: &[Value]) -> Value {
        json!({"messages": messages})
    }

    pub(in super::super) fn tool_use(id: &str) -> Value {
        json!({"type": "tool_use", "id": id, "name": "f", "input": {}})
    }

    pub(in super::super) fn result(id: &str) -> Value {
        json!({"type": "tool_result", "tool_use_id": id, "content": "done"})
    }

    #[test]
    fn messages_are_needed_and_the_user_begins() {
        refuses(json!({"messages": null}), "Field required");
        refuses(history(&[]), "at least one");
        refuses(history(&[assistant(json!("x")), user(json!("y"))]), "first message");
        accepts(history(&[user(json!("x")), user(json!("y"))]));
    }

    #[test]
    fn roles_are_known_to_the_model() {
        refuses(history(&[json!({"role": "tool", "content": "x"})]), "unexpected role");
        let system = json!({"role": "system", "content": "x"});
        let with = |model: &str, messages: &[Value]| json!({"model": model, "messages": messages});
        refuses(with("claude-sonnet-4-5", &[user(json!("x")), system.clone()]), "unexpected role");
        accepts(with("claude-opus-5", &[user(json!("x")), system.clone()]));
        refuses(history(&[user(json!("x")), system.clone(), user(json!("y"))]), "may not follow");
        let answered = [user(json!("x")), assistant(json!("y")), system];
        refuses(history(&answered), "may not follow");
    }

    #[test]
    fn nothing_is_empty() {
        refuses(history(&[user(json!(""))]), "non-empty content");
        refuses(history(&[user(json!([]))]), "non-empty content");
        refuses(history(&[user(json!(null))]), "string or a list");
        refuses(history(&[user(json!([{"type": "text", "text": ""}]))]), "non-empty");
        refuses(json!({"system": [{"type": "text", "text": ""}]}), "system");
        accepts(history(&[user(json!("x")), assistant(json!(""))]));
    }

    #[test]
    fn some_models_do_not_go_on_from_a_prefill() {
        let messages = [user(json!("x")), assistant(json!("Sure,"))];
        accepts(json!({"model": "claude-haiku-4-5", "messages": messages}));
        refuses(json!({"model": "claude-opus-4-6", "messages": messages}), "prefill");
        refuses(history(&[user(json!("x")), assistant(json!("Sure, "))]), "trailing whitespace");
    }

    #[test]
    fn uses_and_results_belong_together() {
        let (a, b) = (tool_use("a"), tool_use("b"));
        let ask = user(json!("x"));
        accepts(history(&[ask.clone(), assistant(json!([a, b])), user(json!([result("b"), result("a")]))]));
        // Two messages of the user in a row are one turn.
        accepts(history(&[
            ask.clone(),
            assistant(json!([a, b])),
            user(json!([result("a")])),
            user(json!([result("b")])),
        ]));
        refuses(history(&[ask.clone(), assistant(json!([a])), user(json!("y"))]), "without `tool_result`");
        refuses(history(&[ask.clone(), assistant(json!([a, b])), user(json!([result("a")]))]), "after: b");
        refuses(history(&[user(json!([result("a")]))]), "unexpected `tool_use_id`");
        let late = [
            ask.clone(),
            assistant(json!([a])),
            user(json!([result("a")])),
            assistant(json!("ok")),
            user(json!([result("a")])),
        ];
        refuses(history(&late), "unexpected `tool_use_id`");
        refuses(
            history(&[ask, assistant(json!([a])), user(json!([result("a"), result("a")]))]),
            "single result",
        );
    }

    #[test]
    fn ids_are_plain_and_unique() {
        let turn = |uses: &[&str]| {
            let results: Vec<Value> = uses.iter().map(|id| result(id)).collect();
            let uses: Vec<Value> = uses.iter().map(|id| tool_use(id)).collect();
            [assistant(json!(uses)), user(json!(results))]
        };
        let ask = [user(json!("x"))];
        refuses(history(&[&ask[..], &turn(&["a b"])].concat()), "pattern");
        refuses(history(&[&ask[..], &turn(&["a"]), &turn(&["a"])].concat()), "unique");
        accepts(history(&[&ask[..], &turn(&["a"]), &turn(&["b"])].concat()));
    }

    #[test]
    fn the_newer_version_is_stricter_about_blocks() {
        let document =
            json!({"type": "document", "source": {"type": "text", "media_type": "text/plain", "data": "x"}});
        let answered = history(&[user(json!("x")), assistant(json!([document])), user(json!("y"))]);
        accepts(answered.clone());
        assert!(check(NEW, answered).unwrap_err().message.contains("document"));
        let cited = json!([{"type": "text", "text": "x", "citations": [{"type": "char_location"}]}]);
        accepts(history(&[user(cited.clone())]));
        assert!(check(NEW, history(&[user(cited)])).unwrap_err().message.contains("citations"));
    }
}
