//! How much models are told to think.

use serde_json::json;

use super::*;
use crate::translate::canon::*;

/// `thinking` and the effort, as they are written.
fn told(model: &str, reasoning: Reasoning, change: Value) -> (Value, Value, Vec<String>) {
    let mut said = said(change);
    said.reasoning = reasoning;
    let (body, dropped) = write(&said, model);
    (body["thinking"].clone(), body["output_config"]["effort"].clone(), dropped)
}

fn effort(effort: Effort) -> Reasoning {
    Reasoning { effort: Some(effort), ..Reasoning::default() }
}

fn mode(mode: Mode) -> Reasoning {
    Reasoning { mode: Some(mode), ..Reasoning::default() }
}

#[test]
fn effort_is_said_in_the_shape_that_the_model_takes() {
    let adaptive = json!({"type": "adaptive"});
    let shown = json!({"type": "adaptive", "display": "summarized"});
    let budget = |tokens: u64| json!({"type": "enabled", "budget_tokens": tokens});
    let none = Value::Null;
    let table = [
        ("claude-opus-4-6", effort(Effort::High), adaptive.clone(), json!("high")),
        ("claude-opus-4-6", effort(Effort::Xhigh), adaptive, json!("high")),
        ("claude-opus-4-7", effort(Effort::Xhigh), shown.clone(), json!("xhigh")),
        ("claude-opus-5", effort(Effort::Minimal), shown.clone(), json!("low")),
        ("claude-opus-5", effort(Effort::None), json!({"type": "disabled"}), none.clone()),
        (NEW, effort(Effort::None), json!({"type": "between_tools", "display": "summarized"}), none.clone()),
        (NEW, effort(Effort::Max), shown.clone(), json!("max")),
        (NEW, mode(Mode::Budget(20_000)), shown.clone(), json!("high")),
        (OLD, effort(Effort::Low), budget(2_048), none.clone()),
        (OLD, effort(Effort::Medium), budget(8_192), none.clone()),
        (OLD, effort(Effort::Max), budget(16_384), none.clone()),
        (OLD, mode(Mode::Budget(3)), budget(1_024), none.clone()),
        (OLD, effort(Effort::None), json!({"type": "disabled"}), none.clone()),
        // What a model says between calls of tools comes as thoughts, which are hidden if nobody asks.
        (NEW, Reasoning::default(), shown.clone(), none.clone()),
        ("claude-haiku-5-5", Reasoning::default(), shown, none.clone()),
        ("claude-opus-4-7", Reasoning::default(), none.clone(), none.clone()),
        (OLD, Reasoning::default(), none.clone(), none),
    ];
    for (model, asked, thinking, effort) in table {
        assert_eq!(told(model, asked, json!({})), (thinking, effort, vec![]), "{model} {asked:?}");
    }
    let hidden = Reasoning { shown: Some(false), ..effort(Effort::Low) };
    assert_eq!(told(NEW, hidden, json!({})).0, json!({"type": "adaptive", "display": "omitted"}));
    let never = told("claude-3-5-haiku", effort(Effort::High), json!({}));
    assert_eq!(never, (Value::Null, Value::Null, vec!["reasoning_effort".into()]));
}

#[test]
fn thoughts_take_no_more_than_half_of_the_clients_limit() {
    let limit = |asked: u64, wanted| {
        let mut said = said(json!({"max_tokens": asked}));
        said.reasoning = effort(wanted);
        let (body, _) = write(&said, OLD);
        (body["max_tokens"].as_u64().unwrap(), body["thinking"]["budget_tokens"].as_u64())
    };
    assert_eq!(limit(100, Effort::Low), (100, None), "too few for any thought");
    assert_eq!(limit(2_047, Effort::High), (2_047, None));
    assert_eq!(limit(2_048, Effort::Low), (2_048, Some(1_024)));
    assert_eq!(limit(10_000, Effort::High), (10_000, Some(5_000)));
    assert_eq!(limit(20_000, Effort::Low), (20_000, Some(2_048)));
    assert_eq!(limit(0, Effort::Low), (0, None), "zero stays zero");
    for model in [OLD, "claude-opus-4-1"] {
        let mut said = said(json!({"max_tokens": 16_384}));
        said.reasoning = mode(Mode::Budget(u64::MAX));
        let (body, _) = write(&said, model);
        assert!(body["thinking"]["budget_tokens"].as_u64() < body["max_tokens"].as_u64(), "{body}");
    }
}

#[test]
fn a_history_without_its_thoughts_goes_on_without_thinking() {
    let off = json!({"type": "disabled"});
    let turns = |blocks: Value| json!({"messages": [user(json!("x")), assistant(blocks), user(json!([result("1")]))]});
    let without = told(OLD, effort(Effort::High), turns(json!([call("1")])));
    assert_eq!(without, (off.clone(), Value::Null, vec!["reasoning_effort".into()]));
    let thought = json!({"type": "thinking", "thinking": "t", "signature": "S"});
    let with = told(OLD, effort(Effort::High), turns(json!([thought, call("1")])));
    assert_eq!((&with.0["type"], with.2.len()), (&json!("enabled"), 0));
    let prefill =
        told(OLD, effort(Effort::High), json!({"messages": [user(json!("x")), assistant(json!("y"))]}));
    assert_eq!(prefill.0, off);
    let adaptive = told(NEW, effort(Effort::High), turns(json!([call("1")])));
    assert_eq!(adaptive.1, "high", "a model that decides itself takes any history");
}
