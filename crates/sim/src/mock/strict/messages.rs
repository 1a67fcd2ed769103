//! What Messages refuses about the request itself; the history is `claude_history`'s.

use serde_json::Value;

use super::super::caps::{self, ClaudeCaps};
use super::super::reply::{Checked, Refusal};
use super::Headers;
use super::claude_blocks as blocks;
use super::claude_history as history;
use super::claude_thoughts as thoughts;
use super::claude_words as words;
use super::common::{is_name, items, repeated};

/// A request with what decides about it.
pub(super) struct Asked<'a> {
    pub(super) request: &'a Value,
    pub(super) version: &'a str,
    /// The names in `anthropic-beta`, as they stand there.
    pub(super) betas: &'a str,
    pub(super) caps: Option<&'static ClaudeCaps>,
    pub(super) generates: bool,
}

type Check = fn(&Asked<'_>) -> Checked;

const CHECKS: &[Check] = &[
    known_version,
    model,
    max_tokens,
    words::fields,
    history::some_messages,
    history::known_roles,
    history::user_begins,
    words::fields_of_messages,
    history::contents,
    blocks::blocks,
    blocks::system,
    history::mid_system,
    history::prefill,
    history::uses_are_answered,
    history::results_have_their_use,
    history::tool_ids,
    thoughts::thoughts_are_unaltered,
    thoughts::thinking_goes_on,
    history::blocks_of_2026,
    words::tools,
    tools_are_named,
    words::choice,
    choice,
    words::output,
    words::metadata,
    words::tier,
    words::stops,
    sampling_ranges,
    sampling_of_model,
    sampling_of_2026,
    thoughts::thinking,
    breakpoints,
];

pub(super) const OLD: &str = "2023-06-01";
pub(super) const NEW: &str = "2026-10-21";
const MOST_NAME: usize = 128;
const MOST_BREAKPOINTS: usize = 4;

pub(super) fn all(request: &Value, headers: Headers<'_>, generates: bool) -> Checked {
    let caps = caps::claude(request["model"].as_str().unwrap_or_default());
    let (version, betas) = (headers.version.unwrap_or_default(), headers.beta.unwrap_or_default());
    let asked = Asked { request, version, betas, caps, generates };
    CHECKS.iter().try_for_each(|check| check(&asked))
}

fn known_version(asked: &Asked<'_>) -> Checked {
    match asked.version {
        OLD | NEW => Ok(()),
        "" => Err(Refusal::bad("anthropic-version: header is required")),
        other => Err(Refusal::bad(format!("anthropic-version: \"{other}\" is not a valid version"))),
    }
}

fn model(asked: &Asked<'_>) -> Checked {
    match asked.request["model"].as_str() {
        Some(model) if !model.is_empty() => Ok(()),
        _ => Err(Refusal::bad("model: Field required")),
    }
}

/// Nothing generated with 0: it only fills the cache.
fn max_tokens(asked: &Asked<'_>) -> Checked {
    let value = &asked.request["max_tokens"];
    let most = asked.caps.map_or(u64::MAX, |caps| caps.max_output);
    match value.as_u64() {
        Some(wanted) if wanted > most => Err(Refusal::bad(format!(
            "max_tokens: {wanted} > {most}, which is the maximum allowed number of output tokens for {}",
            asked.request["model"].as_str().unwrap_or_default()
        ))),
        Some(_) => Ok(()),
        None if value.is_null() && !asked.generates => Ok(()),
        None if value.is_null() => Err(Refusal::bad("max_tokens: Field required")),
        None => Err(Refusal::bad("max_tokens: Input should be a whole number from 0")),
    }
}

fn tools_are_named(asked: &Asked<'_>) -> Checked {
    let tools = &asked.request["tools"];
    for (at, tool) in items(tools).enumerate() {
        let is_own = tool["type"].as_str().is_none_or(|kind| kind == "custom");
        let name = tool["name"].as_str().unwrap_or_default();
        if is_own && !is_name(name, MOST_NAME) {
            return Err(Refusal::bad(format!(
                "tools.{at}.custom.name: String should match pattern '^[a-zA-Z0-9_-]{{1,{MOST_NAME}}}$'"
            )));
        }
        if is_own && tool["input_schema"]["type"] != "object" {
            return Err(Refusal::bad(format!(
                "tools.{at}.custom.input_schema.type: Input should be 'object'"
            )));
        }
    }
    match repeated(items(tools).filter_map(|tool| tool["name"].as_str())) {
        Some(_) => Err(Refusal::bad("tools: Tool names must be unique.")),
        None => Ok(()),
    }
}

fn choice(asked: &Asked<'_>) -> Checked {
    let (choice, tools) = (&asked.request["tool_choice"], &asked.request["tools"]);
    let Some(kind) = choice["type"].as_str() else {
        return match choice {
            Value::Null => Ok(()),
            _ => Err(Refusal::bad("tool_choice: Input should be an object with a type")),
        };
    };
    if !["auto", "any", "tool", "none"].contains(&kind) {
        return Err(Refusal::bad(format!(
            "tool_choice: Input tag '{kind}' found is not one of auto, any, tool, none"
        )));
    }
    if kind != "none" && items(tools).next().is_none() {
        return Err(Refusal::bad("tool_choice may only be specified while providing tools."));
    }
    if kind == "tool" && !items(tools).any(|tool| tool["name"] == choice["name"]) {
        return Err(Refusal::bad(format!("Tool '{}' not found in provided tools", choice["name"])));
    }
    let forced = kind == "any" || kind == "tool";
    if forced && asked.request["thinking"]["type"] == "enabled" {
        return Err(Refusal::bad("Thinking may not be enabled when tool_choice forces tool use."));
    }
    if forced && asked.caps.is_some_and(|caps| !caps.forced_tools) {
        return Err(Refusal::bad("tool_choice: forced tool use is not supported by this model."));
    }
    Ok(())
}

fn sampling_ranges(asked: &Asked<'_>) -> Checked {
    for name in ["temperature", "top_p"] {
        let value = &asked.request[name];
        let fine = value.is_null() || value.as_f64().is_some_and(|number| (0.0..=1.0).contains(&number));
        if !fine {
            return Err(Refusal::bad(format!("{name}: range: 0..1")));
        }
    }
    let top_k = &asked.request["top_k"];
    if !top_k.is_null() && !top_k.is_u64() {
        return Err(Refusal::bad("top_k: Input should be a whole number from 0"));
    }
    Ok(())
}

fn is_set_otherwise(request: &Value, name: &str) -> bool {
    let value = &request[name];
    !value.is_null() && (name == "top_k" || value.as_f64() != Some(1.0))
}

const SAMPLING: [&str; 3] = ["temperature", "top_p", "top_k"];

fn sampling_of_model(asked: &Asked<'_>) -> Checked {
    let request = asked.request;
    let set = SAMPLING.iter().find(|name| is_set_otherwise(request, name));
    match (set, asked.caps) {
        (Some(name), Some(caps)) if !caps.sampling => {
            Err(Refusal::bad(format!("{name}: is not supported by this model.")))
        }
        (Some(_), _)
            if request["thinking"]["type"] == "enabled" && is_set_otherwise(request, "temperature") =>
        {
            Err(Refusal::bad("`temperature` may only be set to 1 when thinking is enabled."))
        }
        (Some(_), _) if request["thinking"]["type"] == "enabled" && is_set_otherwise(request, "top_k") => {
            Err(Refusal::bad("`top_k` must be unset when thinking is enabled."))
        }
        (Some(_), Some(_)) if !request["temperature"].is_null() && !request["top_p"].is_null() => {
            Err(Refusal::bad("`temperature` and `top_p` cannot both be specified for this model."))
        }
        _ => Ok(()),
    }
}

/// The newer version takes none at all, not even the default.
fn sampling_of_2026(asked: &Asked<'_>) -> Checked {
    let set = SAMPLING.iter().find(|name| !asked.request[**name].is_null());
    match set.filter(|_| asked.version == NEW) {
        Some(name) => Err(Refusal::bad(format!("{name}: is not supported with anthropic-version {NEW}."))),
        None => Ok(()),
    }
}

fn breakpoints(asked: &Asked<'_>) -> Checked {
    let found = count_breakpoints(asked.request);
    if found > MOST_BREAKPOINTS {
        return Err(Refusal::bad(format!(
            "A maximum of {MOST_BREAKPOINTS} blocks with cache_control may be provided. Found {found}."
        )));
    }
    Ok(())
}

fn count_breakpoints(value: &Value) -> usize {
    match value {
        Value::Object(fields) => {
            usize::from(value["cache_control"].is_object())
                + fields.values().map(count_breakpoints).sum::<usize>()
        }
        Value::Array(items) => items.iter().map(count_breakpoints).sum(),
        _ => 0,
    }
}

#[cfg(test)]
pub(super) mod tests {
    use serde_json::json;

    use super::*;

    /// Checks a request that is fine, with some fields changed.
    pub(in super::super) fn check(version: &str, change: Value) -> Checked {
        check_with(Headers { version: Some(version), beta: None }, change)
    }

    pub(in super::super) fn check_with(headers: Headers<'_>, change: Value) -> Checked {
        let mut request =
            json!({"model": "m", "max_tokens": 100, "messages": [{"role": "user", "content": "hello"}]});
        for (name, value) in change.as_object().unwrap() {
            request[name] = value.clone();
        }
        super::super::messages(&request, headers)
    }

    pub(in super::super) fn accepts(change: Value) {
        assert_eq!(check(OLD, change.clone()), Ok(()), "{change}");
    }

    pub(in super::super) fn refuses(change: Value, complaint: &str) {
        let refusal = check(OLD, change.clone()).expect_err(&change.to_string());
        assert_eq!(refusal.status, 400);
        assert!(refusal.message.contains(complaint), "{}", refusal.message);
    }

    fn tool(name: &str) -> Value {
        json!({"name": name, "input_schema": {"type": "object"}})
    }

    #[test]
    fn a_plain_request_passes_with_fields_nobody_knows() {
        accepts(json!({"brand_new_field": 1}));
        assert_eq!(check(NEW, json!({})), Ok(()));
    }

    #[test]
    fn the_version_is_needed_and_known() {
        let request = json!({});
        assert!(all(&request, Headers::default(), true).unwrap_err().message.contains("header is required"));
        assert!(check("2020-01-01", json!({})).unwrap_err().message.contains("not a valid version"));
    }

    #[test]
    fn model_and_max_tokens_are_needed() {
        refuses(json!({"model": null}), "model: Field required");
        refuses(json!({"max_tokens": null}), "max_tokens: Field required");
        refuses(json!({"max_tokens": -1}), "max_tokens");
        accepts(json!({"max_tokens": 0}));
        let with = |model: &str, most: u64| json!({"model": model, "max_tokens": most});
        accepts(with("claude-haiku-4-5", 64_000));
        refuses(with("claude-haiku-4-5", 64_001), "64001 > 64000");
        accepts(with("claude-opus-5-5", 128_000));
        refuses(with("claude-opus-5-5", 128_001), "claude-opus-5-5");
        accepts(with("m", 1_000_000));
        let counted = json!({"model": "m", "messages": [{"role": "user", "content": "x"}]});
        assert_eq!(super::super::count_tokens(&counted, Headers { version: Some(OLD), beta: None }), Ok(()));
    }

    #[test]
    fn tool_names_are_plain_and_unique() {
        accepts(
            json!({"tools": [tool(&"a".repeat(128)), {"type": "web_search_20260209", "name": "web_search"}]}),
        );
        refuses(json!({"tools": [tool(&"a".repeat(129))]}), "pattern");
        refuses(json!({"tools": [tool("a.b")]}), "pattern");
        refuses(json!({"tools": [tool("a"), tool("a")]}), "unique");
        refuses(json!({"tools": [{"name": "a"}]}), "input_schema");
    }

    #[test]
    fn a_choice_needs_its_tool_and_a_model_that_can_be_forced() {
        let with =
            |model: &str, choice: Value| json!({"model": model, "tools": [tool("a")], "tool_choice": choice});
        accepts(with("m", json!({"type": "any"})));
        accepts(with("claude-haiku-5-5", json!({"type": "tool", "name": "a"})));
        refuses(with("m", json!("auto")), "should be an object");
        refuses(with("m", json!({"type": "required"})), "not one of");
        refuses(with("m", json!({"type": "tool", "name": "b"})), "not found");
        refuses(json!({"tool_choice": {"type": "auto"}}), "while providing tools");
        refuses(with("claude-opus-5-5", json!({"type": "any"})), "forced tool use");
        accepts(with("claude-opus-5-5", json!({"type": "auto"})));
        let mut thinking = with("m", json!({"type": "any"}));
        thinking["thinking"] = json!({"type": "enabled", "budget_tokens": 1024});
        thinking["max_tokens"] = 2000.into();
        refuses(thinking, "forces tool use");
    }

    #[test]
    fn sampling_depends_on_model_and_version() {
        accepts(json!({"model": "claude-sonnet-4-5", "temperature": 0.3, "top_k": 5}));
        refuses(json!({"temperature": 1.5}), "range");
        refuses(json!({"model": "claude-sonnet-4-5", "temperature": 0.3, "top_p": 0.9}), "cannot both");
        refuses(json!({"model": "claude-opus-4-7", "temperature": 0.3}), "not supported by this model");
        refuses(json!({"model": "claude-opus-5-5", "top_k": 5}), "top_k");
        accepts(json!({"model": "claude-opus-4-7", "temperature": 1.0}));
        let refusal = check(NEW, json!({"model": "claude-sonnet-4-5", "temperature": 1.0})).unwrap_err();
        assert!(refusal.message.contains(NEW));
    }

    #[test]
    fn there_are_four_breakpoints_at_most() {
        let block = json!({"type": "text", "text": "x", "cache_control": {"type": "ephemeral"}});
        accepts(json!({"system": [block, block, block, block]}));
        refuses(json!({"system": [block, block, block, block, block]}), "maximum of 4");
    }
}
