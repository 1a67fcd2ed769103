//! What Messages refuses about thinking: how it is asked for, and thoughts that come back.

use serde_json::Value;

use super::super::caps::Thinking;
use super::super::reply::{Checked, Refusal};
use super::super::signature::{Conversation, Signature, text_block};
use super::claude_history::{blocks, ids, messages, role, turns};
use super::messages::Asked;

const LEAST_BUDGET: u64 = 1_024;
const BINDING: &str = "thinking-binding-controls-2026-08-01";

/// Thinks by a budget, before every answer.
pub(super) fn is_manual(asked: &Asked<'_>) -> bool {
    asked.request["thinking"]["type"] == "enabled"
}

pub(super) fn thinking(asked: &Asked<'_>) -> Checked {
    let thinking = &asked.request["thinking"];
    match thinking["type"].as_str() {
        Some("enabled") => binding(asked).and_then(|()| budget(asked, &thinking["budget_tokens"])),
        Some("adaptive") if asked.caps.is_some_and(|caps| !caps.adaptive) => {
            Err(Refusal::bad("adaptive thinking is not supported on this model"))
        }
        Some("disabled") if asked.caps.is_some_and(|caps| caps.thinking == Thinking::Always) => {
            Err(Refusal::bad("thinking.type: 'disabled' is not supported on this model"))
        }
        Some("adaptive" | "disabled" | "between_tools") => binding(asked),
        None if thinking.is_null() => Ok(()),
        _ => Err(Refusal::bad("thinking.type: Input should be enabled, adaptive, disabled or between_tools")),
    }
}

/// What becomes of thoughts that are out of place is told in a beta.
fn binding(asked: &Asked<'_>) -> Checked {
    if asked.request["thinking"]["block_binding"].is_null() || asked.betas.contains(BINDING) {
        return Ok(());
    }
    Err(Refusal::bad(format!("thinking.block_binding: requires `{BINDING}` in the `anthropic-beta` header.")))
}

fn budget(asked: &Asked<'_>, budget: &Value) -> Checked {
    let Some(budget) = budget.as_u64() else {
        return Err(Refusal::bad("thinking.enabled.budget_tokens: Field required"));
    };
    if budget < LEAST_BUDGET {
        return Err(Refusal::bad(format!(
            "thinking.enabled.budget_tokens: Input should be greater than or equal to {LEAST_BUDGET}"
        )));
    }
    let most = asked.request["max_tokens"].as_u64();
    if most.is_some_and(|most| budget >= most) {
        return Err(Refusal::bad("`max_tokens` must be greater than `thinking.budget_tokens`."));
    }
    Ok(())
}

/// Every thought has its text, and stands behind what it stood behind.
pub(super) fn thoughts_are_unaltered(asked: &Asked<'_>) -> Checked {
    let mut conversation = Conversation::new(asked.request);
    for (at, message) in messages(asked).enumerate() {
        conversation.message(role(message));
        if message["content"].is_string() {
            conversation.block(&text_block(&message["content"]));
        }
        for (block_at, block) in blocks(message).enumerate() {
            if block["type"] == "thinking" {
                let place = format!("messages.{at}.content.{block_at}");
                thought_is_unaltered(asked, block, &conversation, &place)?;
            }
            conversation.block(block);
        }
    }
    Ok(())
}

fn thought_is_unaltered(
    asked: &Asked<'_>,
    block: &Value,
    conversation: &Conversation<'_>,
    place: &str,
) -> Checked {
    let Some(signature) = block["signature"].as_str() else {
        return Err(Refusal::bad(format!("{place}.thinking.signature: Field required")));
    };
    let text = block["thinking"].as_str().unwrap_or_default();
    let Some(signed) = Signature::read(signature).filter(|signed| signed.is_of(text)) else {
        return Err(Refusal::bad(format!("{place}: Invalid `signature` in `thinking` block")));
    };
    if !conversation.place().takes(signed.place) && !drops_misplaced(asked) {
        return Err(Refusal::bad(format!(
            "{place}: Invalid `signature` in `thinking` block. The block is bound to a different conversation. Remove \
             the block, or set `thinking.block_binding.prefix_mismatch_behavior` to \"drop_block\"."
        )));
    }
    Ok(())
}

fn drops_misplaced(asked: &Asked<'_>) -> bool {
    asked.request["thinking"]["block_binding"]["prefix_mismatch_behavior"] == "drop_block"
}

/// With manual thinking, the turn whose tools were just answered begins with its thoughts.
pub(super) fn thinking_goes_on(asked: &Asked<'_>) -> Checked {
    let turns = turns(asked);
    let (true, [.., before, last]) = (is_manual(asked), turns.as_slice()) else { return Ok(()) };
    let goes_on = before.role == "assistant" && ids(last, "tool_result", "tool_use_id").next().is_some();
    let first = before.blocks.first().and_then(|block| block["type"].as_str()).unwrap_or("text");
    if !goes_on || first == "thinking" || first == "redacted_thinking" {
        return Ok(());
    }
    Err(Refusal::bad(format!(
        "messages: Expected `thinking` or `redacted_thinking`, but found `{first}`. When `thinking` is enabled, a final \
         `assistant` message must start with a thinking block."
    )))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::Headers;
    use super::super::claude_history::tests::{assistant, history, result, tool_use, user};
    use super::super::messages::OLD;
    use super::super::messages::tests::{accepts, check_with, refuses};
    use super::*;

    #[test]
    fn a_thinking_budget_lies_between_its_bounds() {
        let with = |budget: Value, most: u64| json!({"max_tokens": most, "thinking": {"type": "enabled", "budget_tokens": budget}});
        accepts(with(json!(1024), 1025));
        refuses(with(json!(1024), 1024), "must be greater than");
        refuses(with(json!(1000), 5000), "greater than or equal to 1024");
        refuses(with(json!(null), 5000), "required");
        let mut warm = with(json!(1024), 2000);
        warm["temperature"] = json!(0.5);
        refuses(warm, "may only be set to 1");
        let mut narrow = with(json!(1024), 2000);
        narrow["top_k"] = json!(5);
        refuses(narrow, "top_k");
    }

    #[test]
    fn a_setting_of_a_beta_needs_its_header() {
        let setting =
            json!({"type": "adaptive", "block_binding": {"prefix_mismatch_behavior": "drop_block"}});
        refuses(json!({"thinking": setting}), "anthropic-beta");
        let beta = format!("files-api-2025-04-14,{BINDING}");
        let headers = Headers { version: Some(OLD), beta: Some(&beta) };
        assert_eq!(check_with(headers, json!({"thinking": setting})), Ok(()));
    }

    #[test]
    fn thinking_is_of_a_kind_that_the_model_has() {
        let with = |model: &str, kind: &str| json!({"model": model, "thinking": {"type": kind}});
        refuses(with("claude-sonnet-4-5", "adaptive"), "adaptive");
        accepts(with("claude-opus-4-6", "adaptive"));
        refuses(with("claude-opus-5-5", "disabled"), "disabled");
        accepts(with("claude-opus-5", "disabled"));
        refuses(with("m", "deep"), "thinking.type");
    }

    /// A thought that was had after these messages.
    fn thought_after(before: &[Value]) -> Value {
        let signed = Signature::new("deep", true, Conversation::end(&history(before)));
        json!({"type": "thinking", "thinking": "deep", "signature": signed.write()})
    }

    #[test]
    fn thoughts_come_back_as_they_were() {
        let ask = user(json!("x"));
        let with = |thinking: &str, signature: Value| {
            let block = json!({"type": "thinking", "thinking": thinking, "signature": signature});
            let answer = json!([block, {"type": "text", "text": "ok"}]);
            history(&[ask.clone(), assistant(answer), user(json!("y"))])
        };
        let signed = thought_after(std::slice::from_ref(&ask))["signature"].clone();
        accepts(with("deep", signed.clone()));
        refuses(with("shallow", signed), "Invalid `signature`");
        refuses(with("deep", json!(null)), "signature: Field required");
        refuses(with("deep", json!("bm90IG91cnM=")), "Invalid `signature`");
    }

    #[test]
    fn thoughts_stand_behind_what_they_stood_behind() {
        let ask = user(json!("x"));
        let thought = thought_after(std::slice::from_ref(&ask));
        let first =
            [ask.clone(), assistant(json!([thought, {"type": "text", "text": "ok"}])), user(json!("y"))];
        let second = assistant(json!([thought_after(&first), {"type": "text", "text": "yes"}]));
        let whole = [&first[..], &[second, user(json!("z"))]].concat();
        accepts(history(&whole));

        let mut altered = history(&whole);
        altered["messages"][2]["content"] = "Y".into();
        refuses(
            altered.clone(),
            "messages.3.content.0: Invalid `signature` in `thinking` block. The block is bound",
        );
        altered["thinking"] =
            json!({"type": "adaptive", "block_binding": {"prefix_mismatch_behavior": "drop_block"}});
        let headers = Headers { version: Some(OLD), beta: Some(BINDING) };
        assert_eq!(check_with(headers, altered), Ok(()));

        let mut rebuilt = history(&whole);
        rebuilt["system"] = "be brief".into();
        refuses(rebuilt, "messages.1.content.0");
        // The first thoughts can be left out.
        let mut shortened = history(&whole);
        shortened["messages"][1]["content"].as_array_mut().unwrap().remove(0);
        accepts(shortened);
    }

    #[test]
    fn manual_thinking_goes_on_with_its_thoughts() {
        let ask = [user(json!("x"))];
        let with = |blocks: Value| {
            json!({
                "max_tokens": 2000, "thinking": {"type": "enabled", "budget_tokens": 1024},
                "messages": [ask[0], assistant(blocks), user(json!([result("a")]))],
            })
        };
        accepts(with(json!([thought_after(&ask), tool_use("a")])));
        refuses(with(json!([tool_use("a")])), "Expected `thinking`");
    }
}
