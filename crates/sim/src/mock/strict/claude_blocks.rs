//! What Messages refuses in a content: blocks that are OpenAI's, or that stand where they may not, and sources
//! that nobody could read. Blocks that neither of them knows pass.

use serde_json::Value;

use super::super::reply::{Checked, Refusal};
use super::claude_words::without;
use super::common::{is_address, is_base64, items};
use super::messages::Asked;

/// Types of parts and items of OpenAI's.
const FOREIGN: &[&str] = &[
    "custom_tool_call",
    "file",
    "function",
    "function_call",
    "function_call_output",
    "image_url",
    "input_audio",
    "input_file",
    "input_image",
    "input_text",
    "output_text",
    "reasoning",
    "refusal",
    "tool",
];
const FIELDS: &[&str] = &[
    "annotations",
    "arguments",
    "detail",
    "file",
    "function",
    "image_url",
    "input_audio",
    "prompt_cache_breakpoint",
    "refusal",
    "tool_call_id",
];
/// Who alone may send them.
const SENDERS: &[(&str, &str)] = &[
    ("thinking", "assistant"),
    ("redacted_thinking", "assistant"),
    ("tool_use", "assistant"),
    ("server_tool_use", "assistant"),
    ("tool_result", "user"),
];
/// Looks at a block that is at some place.
type Shape = fn(&Value, &str) -> Checked;

const SHAPES: &[(&str, Shape)] = &[
    ("text", text),
    ("image", image),
    ("document", document),
    ("search_result", search_result),
    ("redacted_thinking", |block, place| string(block, "data", place)),
    ("tool_use", tool_use),
    ("tool_result", tool_result),
];
const IMAGES: &[&str] = &["image/jpeg", "image/png", "image/gif", "image/webp"];

pub(super) fn blocks(asked: &Asked<'_>) -> Checked {
    for (at, message) in items(&asked.request["messages"]).enumerate() {
        let role = message["role"].as_str().unwrap_or_default();
        for (block_at, block) in items(&message["content"]).enumerate() {
            let place = format!("messages.{at}.content.{block_at}");
            let kind = known(block, &place)?;
            let sender = SENDERS.iter().find(|(sent, _)| *sent == kind).map(|(_, sender)| *sender);
            if let Some(sender) = sender.filter(|sender| *sender != role) {
                return Err(Refusal::bad(format!(
                    "messages.{at}: `{kind}` blocks can only be in `{sender}` messages"
                )));
            }
            if role == "system" && kind != "text" {
                return Err(Refusal::bad(format!("{place}.type: Input should be 'text'")));
            }
        }
    }
    Ok(())
}

pub(super) fn system(asked: &Asked<'_>) -> Checked {
    let system = &asked.request["system"];
    if !system.is_null() && !system.is_string() && !system.is_array() {
        return Err(Refusal::bad("system: Input should be a string or a list"));
    }
    only(system, &["text"], "system")
}

/// The type of a block that is shaped as it should be.
fn known<'a>(block: &'a Value, place: &str) -> Result<&'a str, Refusal> {
    let Some(kind) = block["type"].as_str() else {
        return Err(Refusal::bad(format!("{place}: Unable to extract tag using discriminator 'type'")));
    };
    if FOREIGN.contains(&kind) {
        return Err(unexpected(kind, place));
    }
    let place = format!("{place}.{kind}");
    without(block, FIELDS, &format!("{place}."))?;
    let shape = SHAPES.iter().find(|(shaped, _)| *shaped == kind);
    shape.map_or(Ok(()), |(_, check)| check(block, &place))?;
    Ok(kind)
}

fn unexpected(kind: &str, place: &str) -> Refusal {
    Refusal::bad(format!(
        "{place}: Input tag '{kind}' found using 'type' does not match any of the expected tags"
    ))
}

/// Blocks of these types alone.
fn only(content: &Value, kinds: &[&str], place: &str) -> Checked {
    for (at, block) in items(content).enumerate() {
        let place = format!("{place}.{at}");
        let kind = known(block, &place)?;
        if !kinds.contains(&kind) {
            return Err(unexpected(kind, &place));
        }
    }
    Ok(())
}

fn string(block: &Value, field: &str, place: &str) -> Checked {
    match &block[field] {
        Value::String(_) => Ok(()),
        Value::Null => Err(Refusal::bad(format!("{place}.{field}: Field required"))),
        _ => Err(Refusal::bad(format!("{place}.{field}: Input should be a valid string"))),
    }
}

fn text(block: &Value, place: &str) -> Checked {
    string(block, "text", place)
}

fn image(block: &Value, place: &str) -> Checked {
    let (source, place) = (&block["source"], format!("{place}.source"));
    match kind(source) {
        "base64" => base64(source, IMAGES, &place),
        _ => elsewhere(source, &place),
    }
}

fn document(block: &Value, place: &str) -> Checked {
    let (source, place) = (&block["source"], format!("{place}.source"));
    match kind(source) {
        "base64" => base64(source, &["application/pdf"], &place),
        "text" => {
            media_type(source, &["text/plain"], &place)?;
            string(source, "data", &place)
        }
        "content" => texts(&source["content"], &["text", "image"], &format!("{place}.content")),
        _ => elsewhere(source, &place),
    }
}

fn kind(source: &Value) -> &str {
    source["type"].as_str().unwrap_or_default()
}

fn base64(source: &Value, kinds: &[&str], place: &str) -> Checked {
    media_type(source, kinds, place)?;
    string(source, "data", place)?;
    match is_base64(source["data"].as_str().unwrap_or_default()) {
        true => Ok(()),
        false => Err(Refusal::bad(format!("{place}.base64.data: invalid base64 data"))),
    }
}

fn media_type(source: &Value, kinds: &[&str], place: &str) -> Checked {
    match source["media_type"].as_str() {
        Some(kind) if kinds.contains(&kind) => Ok(()),
        _ => Err(Refusal::bad(format!("{place}.media_type: Input should be one of {}", kinds.join(", ")))),
    }
}

fn elsewhere(source: &Value, place: &str) -> Checked {
    match kind(source) {
        "url" if source["url"].as_str().is_some_and(is_address) => Ok(()),
        "url" => Err(Refusal::bad(format!("{place}.url.url: Input should be an http or https address"))),
        "file" => string(source, "file_id", place),
        other => Err(unexpected(other, place)),
    }
}

/// A text, or blocks of these types.
fn texts(content: &Value, kinds: &[&str], place: &str) -> Checked {
    match content {
        Value::String(_) => Ok(()),
        Value::Array(_) => only(content, kinds, place),
        _ => Err(Refusal::bad(format!("{place}: Input should be a string or a list"))),
    }
}

fn search_result(block: &Value, place: &str) -> Checked {
    string(block, "source", place)?;
    string(block, "title", place)?;
    match block["content"].as_array() {
        Some(_) => only(&block["content"], &["text"], &format!("{place}.content")),
        None => Err(Refusal::bad(format!("{place}.content: Input should be a valid list"))),
    }
}

fn tool_use(block: &Value, place: &str) -> Checked {
    string(block, "name", place)?;
    match block["input"].is_object() {
        true => Ok(()),
        false => Err(Refusal::bad(format!("{place}.input: Input should be a valid dictionary"))),
    }
}

fn tool_result(block: &Value, place: &str) -> Checked {
    string(block, "tool_use_id", place)?;
    if !block["is_error"].is_null() && !block["is_error"].is_boolean() {
        return Err(Refusal::bad(format!("{place}.is_error: Input should be a valid boolean")));
    }
    if block["content"].is_null() {
        return Ok(());
    }
    let kinds = ["text", "image", "document", "search_result", "tool_reference"];
    texts(&block["content"], &kinds, &format!("{place}.content"))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::messages::tests::{accepts, refuses};
    use super::*;

    fn says(role: &str, block: Value) -> Value {
        json!({"messages": [{"role": role, "content": [block]}]})
    }

    fn user(block: Value) -> Value {
        says("user", block)
    }

    /// An assistant's block behind a question, and a result behind that for a tool it uses.
    fn assistant(block: Value) -> Value {
        let result = json!([{"type": "tool_result", "tool_use_id": block["id"], "content": "x"}]);
        let answer = if block["type"] == "tool_use" { result } else { json!("y") };
        json!({"messages": [
            {"role": "user", "content": "x"},
            {"role": "assistant", "content": [block]},
            {"role": "user", "content": answer},
        ]})
    }

    #[test]
    fn blocks_of_openai_are_unknown() {
        for kind in FOREIGN {
            refuses(user(json!({"type": kind})), &format!("messages.0.content.0: Input tag '{kind}' found"));
        }
        refuses(user(json!({"text": "x"})), "discriminator");
        refuses(user(json!("x")), "discriminator");
        accepts(user(json!({"type": "container_upload", "file_id": "f"})));
        accepts(user(json!({"type": "brand_new_block"})));
    }

    #[test]
    fn so_are_its_fields_in_known_blocks() {
        for field in FIELDS {
            let block = json!({"type": "text", "text": "x", *field: null});
            refuses(user(block), &format!("messages.0.content.0.text.{field}: Extra inputs"));
        }
        accepts(user(json!({"type": "text", "text": "x", "brand_new_field": 1})));
    }

    #[test]
    fn some_blocks_are_of_one_role() {
        let tool_use = json!({"type": "tool_use", "id": "a", "name": "f", "input": {}});
        refuses(user(tool_use), "`tool_use` blocks can only be in `assistant`");
        refuses(
            user(json!({"type": "thinking", "thinking": "x", "signature": "x"})),
            "only be in `assistant`",
        );
        let result = json!({"type": "tool_result", "tool_use_id": "a", "content": "x"});
        refuses(assistant(result), "only be in `user`");
        let system = json!({"role": "system", "content": [{"type": "document", "source": {
            "type": "text", "media_type": "text/plain", "data": "x",
        }}]});
        refuses(json!({"messages": [{"role": "user", "content": "x"}, system]}), "should be 'text'");
    }

    #[test]
    fn the_system_is_text() {
        accepts(json!({"system": "x"}));
        accepts(json!({"system": [{"type": "text", "text": "x"}]}));
        refuses(json!({"system": {"role": "system", "content": "x"}}), "string or a list");
        refuses(json!({"system": [{"role": "system", "content": "x"}]}), "system.0");
        refuses(json!({"system": [{"type": "input_text", "text": "x"}]}), "system.0");
        let source = json!({"type": "url", "url": "https://h/i.png"});
        refuses(json!({"system": [{"type": "image", "source": source}]}), "'image'");
    }

    #[test]
    fn images_can_be_read() {
        let with = |source: Value| user(json!({"type": "image", "source": source}));
        let bytes =
            |kind: &str, data: &str| with(json!({"type": "base64", "media_type": kind, "data": data}));
        for kind in IMAGES {
            accepts(bytes(kind, "aGk="));
        }
        refuses(bytes("image/bmp", "aGk="), "media_type");
        for bad in ["", "a?", "aGk", "data:image/png;base64,aGk="] {
            refuses(bytes("image/png", bad), "invalid base64");
        }
        accepts(with(json!({"type": "url", "url": "https://h/i.png"})));
        accepts(with(json!({"type": "file", "file_id": "f"})));
        refuses(with(json!({"type": "url", "url": "data:image/png;base64,aGk="})), "http or https");
        refuses(with(json!({"type": "file"})), "file_id: Field required");
        refuses(with(json!("https://h/i.png")), "Input tag ''");
    }

    #[test]
    fn documents_can_be_read() {
        let with = |source: Value| user(json!({"type": "document", "source": source}));
        let pdf = "application/pdf";
        accepts(with(json!({"type": "base64", "media_type": pdf, "data": "aGk="})));
        accepts(with(json!({"type": "text", "media_type": "text/plain", "data": "x"})));
        accepts(with(json!({"type": "content", "content": [{"type": "text", "text": "x"}]})));
        accepts(with(json!({"type": "url", "url": "https://h/d.pdf"})));
        refuses(with(json!({"type": "base64", "media_type": "text/csv", "data": "aGk="})), "media_type");
        refuses(with(json!({"type": "base64", "media_type": pdf, "data": "%"})), "invalid base64");
        refuses(with(json!({"type": "text", "media_type": pdf, "data": "x"})), "text/plain");
        refuses(with(json!({"type": "content", "content": [{"type": "thinking"}]})), "'thinking'");
        refuses(with(json!(null)), "Input tag ''");
    }

    #[test]
    fn a_search_result_is_made_of_texts() {
        let with = |content: Value| {
            user(json!({"type": "search_result", "source": "https://h", "title": "t", "content": content}))
        };
        accepts(with(json!([{"type": "text", "text": "x"}])));
        refuses(with(json!("x")), "valid list");
        refuses(user(json!({"type": "search_result", "content": []})), "source: Field required");
    }

    #[test]
    fn the_input_of_a_tool_is_an_object() {
        let with =
            |input: Value| assistant(json!({"type": "tool_use", "id": "a", "name": "f", "input": input}));
        accepts(with(json!({"city": "Oslo"})));
        for bad in [json!("{}"), json!([]), json!(null)] {
            refuses(with(bad), "messages.1.content.0.tool_use.input: Input should be a valid dictionary");
        }
        refuses(assistant(json!({"type": "tool_use", "id": "a", "input": {}})), "name: Field required");
    }

    #[test]
    fn a_result_is_text_or_blocks_that_show_something() {
        let with = |content: Value| {
            let mut request = assistant(json!({"type": "tool_use", "id": "a", "name": "f", "input": {}}));
            request["messages"][2]["content"][0]["content"] = content;
            request
        };
        let image =
            json!({"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "aGk="}});
        accepts(with(json!("x")));
        accepts(with(json!(null)));
        accepts(with(json!([{"type": "text", "text": "x"}, image])));
        refuses(with(json!({"temperature": 18})), "string or a list");
        refuses(with(json!([{"type": "image_url", "image_url": {"url": "https://h"}}])), "'image_url'");
        refuses(with(json!([{"type": "tool_use", "name": "f", "input": {}}])), "'tool_use'");
        refuses(with(json!([{"type": "image", "source": {"type": "base64"}}])), "media_type");
        let mut wrong = with(json!("x"));
        wrong["messages"][2]["content"][0]["is_error"] = "yes".into();
        refuses(wrong, "boolean");
    }
}
