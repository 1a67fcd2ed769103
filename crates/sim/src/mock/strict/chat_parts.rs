//! What Chat Completions refuses inside a message: parts that its role does not send, Anthropic's blocks among
//! them, media that nobody could read, and calls of tools that are not in its form.

use serde_json::Value;

use super::super::reply::{Checked, Refusal};
use super::chat_words::one_of;
use super::common::{is_address, is_base64, items, missing};
use super::openai::{invalid_type, not_empty, tool_name};

const IMAGES: &[&str] = &["image/png", "image/jpeg", "image/gif", "image/webp"];
const DETAILS: &[&str] = &["auto", "low", "high", "original"];
const SOUNDS: &[&str] = &["wav", "mp3"];

/// Looks at a part that is at some place.
type Shape = fn(&Value, &str) -> Checked;

const SHAPES: &[(&str, Shape)] = &[
    ("text", |part, param| string(&part["text"], &format!("{param}.text"))),
    ("refusal", |part, param| string(&part["refusal"], &format!("{param}.refusal"))),
    ("image_url", |part, param| image(&part["image_url"], &format!("{param}.image_url"))),
    ("input_audio", |part, param| audio(&part["input_audio"], &format!("{param}.input_audio"))),
    ("file", |part, param| file(&part["file"], &format!("{param}.file"))),
];

/// Types of the parts that a role sends.
fn sends(role: &Value) -> &'static [&'static str] {
    match role.as_str() {
        Some("user") => &["text", "image_url", "input_audio", "file"],
        Some("assistant") => &["text", "refusal"],
        _ => &["text"],
    }
}

pub(super) fn parts(request: &Value) -> Checked {
    for (at, message) in items(&request["messages"]).enumerate() {
        for (part_at, part) in items(&message["content"]).enumerate() {
            let param = format!("messages[{at}].content[{part_at}]");
            one_of(&part["type"], sends(&message["role"]), &format!("{param}.type"))?;
            let shape = SHAPES.iter().find(|(kind, _)| part["type"] == *kind);
            shape.map_or(Ok(()), |(_, check)| check(part, &param))?;
        }
    }
    Ok(())
}

fn string(value: &Value, param: &str) -> Checked {
    match value {
        Value::String(_) => Ok(()),
        Value::Null => Err(missing(param)),
        _ => Err(invalid_type(param, "a string", value)),
    }
}

fn object(value: &Value, param: &str) -> Checked {
    match value {
        Value::Object(_) => Ok(()),
        Value::Null => Err(missing(param)),
        _ => Err(invalid_type(param, "an object", value)),
    }
}

fn image(image: &Value, param: &str) -> Checked {
    object(image, param)?;
    string(&image["url"], &format!("{param}.url"))?;
    if !image["detail"].is_null() {
        one_of(&image["detail"], DETAILS, &format!("{param}.detail"))?;
    }
    let url = image["url"].as_str().unwrap_or_default();
    match is_address(url) || is_data(url, |kind| IMAGES.contains(&kind)) {
        true => Ok(()),
        false => Err(not_data("an image MIME type", &format!("{param}.url"))),
    }
}

fn audio(audio: &Value, param: &str) -> Checked {
    object(audio, param)?;
    one_of(&audio["format"], SOUNDS, &format!("{param}.format"))?;
    string(&audio["data"], &format!("{param}.data"))?;
    match is_base64(audio["data"].as_str().unwrap_or_default()) {
        true => Ok(()),
        false => {
            let param = format!("{param}.data");
            let message = format!("Invalid '{param}': expected base64-encoded bytes.");
            Err(Refusal::bad(message).param(param).code("invalid_value"))
        }
    }
}

fn file(file: &Value, param: &str) -> Checked {
    object(file, param)?;
    if file["file_id"].is_string() {
        return Ok(());
    }
    string(&file["file_data"], &format!("{param}.file_data"))?;
    string(&file["filename"], &format!("{param}.filename"))?;
    match is_data(file["file_data"].as_str().unwrap_or_default(), |kind| !kind.is_empty()) {
        true => Ok(()),
        false => Err(not_data("a MIME type", &format!("{param}.file_data"))),
    }
}

/// `data:` with one of these media types and base64.
fn is_data(url: &str, is_known: impl Fn(&str) -> bool) -> bool {
    let parts = url.strip_prefix("data:").and_then(|url| url.split_once(";base64,"));
    parts.is_some_and(|(kind, data)| is_known(kind) && is_base64(data))
}

fn not_data(kind: &str, param: &str) -> Refusal {
    Refusal::bad(format!("Invalid '{param}': expected a base64-encoded data URL with {kind}."))
        .param(param)
        .code("invalid_value")
}

pub(super) fn calls(request: &Value) -> Checked {
    for (at, message) in items(&request["messages"]).enumerate() {
        not_empty(&message["tool_calls"], &format!("messages[{at}].tool_calls"))?;
        for (call_at, call) in items(&message["tool_calls"]).enumerate() {
            well_formed(call, &format!("messages[{at}].tool_calls[{call_at}]"))?;
        }
    }
    Ok(())
}

/// Arguments are text, though what they say is JSON.
fn well_formed(call: &Value, param: &str) -> Checked {
    string(&call["id"], &format!("{param}.id"))?;
    one_of(&call["type"], &["function", "custom"], &format!("{param}.type"))?;
    let kind = if call["type"] == "custom" { "custom" } else { "function" };
    let said = if kind == "custom" { "input" } else { "arguments" };
    let param = format!("{param}.{kind}");
    object(&call[kind], &param)?;
    tool_name(&call[kind]["name"], &format!("{param}.name"))?;
    string(&call[kind][said], &format!("{param}.{said}"))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::chat::tests::{accepts, refuses, result};
    use super::*;

    fn says(role: &str, part: Value) -> Value {
        json!({"messages": [{"role": role, "content": [part]}]})
    }

    #[test]
    fn blocks_of_anthropic_are_no_parts() {
        for kind in ["image", "document", "tool_use", "tool_result", "thinking", "search_result"] {
            for role in ["user", "assistant", "system", "developer"] {
                let complaint = format!("Invalid value: '{kind}'. Supported values are: 'text'");
                refuses(says(role, json!({"type": kind})), &complaint);
            }
        }
        refuses(says("user", json!({"text": "x"})), "'messages[0].content[0].type'");
        refuses(says("user", json!("x")), "'messages[0].content[0].type'");
    }

    #[test]
    fn a_role_sends_parts_of_its_own() {
        let url = json!({"type": "image_url", "image_url": {"url": "https://h/i.png"}});
        accepts(says("user", url.clone()));
        for role in ["system", "developer", "assistant"] {
            refuses(says(role, url.clone()), "'image_url'");
            accepts(says(role, json!({"type": "text", "text": "x", "brand_new_field": 1})));
        }
        let call = json!({"id": "a", "type": "function", "function": {"name": "f", "arguments": "{}"}});
        let mut answer = result("a");
        answer["content"] = json!([url]);
        let calls = json!({"role": "assistant", "tool_calls": [call]});
        refuses(json!({"messages": [calls, answer]}), "'image_url'");
        accepts(says("assistant", json!({"type": "refusal", "refusal": "no"})));
        refuses(says("user", json!({"type": "refusal", "refusal": "no"})), "'refusal'");
        refuses(says("user", json!({"type": "text"})), "content[0].text");
        refuses(says("user", json!({"type": "text", "text": {"value": "x"}})), "expected a string");
    }

    #[test]
    fn images_can_be_read() {
        let with = |url: Value| says("user", json!({"type": "image_url", "image_url": url}));
        let at = |url: &str| with(json!({"url": url, "detail": "low"}));
        accepts(at("https://h/i.png"));
        accepts(at("data:image/png;base64,aGk="));
        for bad in [
            "aGk=",
            "data:image/png,hi",
            "data:image/png;base64,?",
            "data:image/bmp;base64,aGk=",
            "file:///i",
        ] {
            refuses(at(bad), "messages[0].content[0].image_url.url");
        }
        refuses(with(json!("https://h/i.png")), "expected an object");
        refuses(with(json!({"url": "https://h", "detail": "sharp"})), "'sharp'");
        refuses(with(json!({})), "image_url.url");
    }

    #[test]
    fn sounds_can_be_heard() {
        let with = |audio: Value| says("user", json!({"type": "input_audio", "input_audio": audio}));
        accepts(with(json!({"data": "aGk=", "format": "wav"})));
        refuses(with(json!({"data": "aGk=", "format": "ogg"})), "'ogg'");
        refuses(with(json!({"data": "?", "format": "mp3"})), "base64");
    }

    #[test]
    fn files_are_known_or_there() {
        let with = |file: Value| says("user", json!({"type": "file", "file": file}));
        accepts(with(json!({"file_id": "file-1"})));
        let data = "data:application/pdf;base64,aGk=";
        accepts(with(json!({"file_data": data, "filename": "a.pdf"})));
        refuses(with(json!({"file_data": data})), "file.filename");
        refuses(with(json!({"filename": "a.pdf"})), "file.file_data");
        refuses(with(json!({"file_data": "aGk=", "filename": "a.pdf"})), "data URL");
        refuses(says("user", json!({"type": "file", "file_id": "file-1"})), "content[0].file");
    }

    #[test]
    fn calls_of_tools_are_in_its_form() {
        let with = |call: Value| json!({"messages": [{"role": "assistant", "content": null, "tool_calls": [call]}, result("a")]});
        let function = |function: Value| with(json!({"id": "a", "type": "function", "function": function}));
        accepts(function(json!({"name": "f", "arguments": "{}"})));
        accepts(with(json!({"id": "a", "type": "custom", "custom": {"name": "f", "input": "x"}})));
        refuses(
            function(json!({"name": "f", "arguments": {}})),
            "'messages[0].tool_calls[0].function.arguments': expected a string, but got an object instead",
        );
        refuses(function(json!({"name": "f", "input": {}})), "function.arguments");
        refuses(function(json!({"name": "a b", "arguments": "{}"})), "pattern");
        let none = json!({"role": "assistant", "content": "x", "tool_calls": []});
        refuses(json!({"messages": [none]}), "messages[0].tool_calls': empty array");
        refuses(with(json!({"id": "a", "type": "tool_use", "name": "f", "input": {}})), "'tool_use'");
        refuses(with(json!({"id": "a", "function": {"name": "f", "arguments": "{}"}})), "tool_calls[0].type");
    }
}
