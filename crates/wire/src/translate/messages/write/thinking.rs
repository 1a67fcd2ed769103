//! How much a model thinks, in the words that it takes.
//!
//! Models that decide themselves how much to think are told the same for every history. Older ones, which are given a
//! budget, refuse histories that lack a thought: for these thinking is left out, and the request begins otherwise than
//! the one before. That is the one exception to what the writer promises, and better than a refusal.

use crate::translate::Dropped;
use crate::translate::canon::{Conversation, Effort, Mode};
use crate::translate::claude_caps::{Claude, Thinking};
use crate::translate::json::Object;

/// The least budget that the provider takes.
const LEAST: u64 = 1_024;

/// What a request says of thinking.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Think {
    /// Nothing.
    Unsaid,
    /// Not.
    Off,
    /// Between calls of tools only.
    BetweenTools,
    /// As the model sees fit.
    Adaptive(Option<Effort>),
    /// Up to so many tokens.
    Budget(u64),
}

/// What is to be said. `goes_on` says whether the history is one that a model which is given a budget goes on from:
/// it refuses one whose last calls it made without a thought.
pub(super) fn think(said: &Conversation<'_>, model: &Claude, goes_on: bool, dropped: &mut Dropped) -> Think {
    let asked = said.reasoning;
    let effort = asked.effort.filter(|effort| *effort != Effort::None);
    let off = asked.mode == Some(Mode::Off) || (asked.mode.is_none() && asked.effort == Some(Effort::None));
    let thinks_anyway = matches!(model.thinking, Thinking::ByDefault | Thinking::Always);
    if off {
        return match model.thinking {
            Thinking::Never => Think::Unsaid,
            Thinking::Always => Think::BetweenTools,
            _ => Think::Off,
        };
    }
    if asked.mode.is_none() && effort.is_none() {
        // Said all the same, to ask for what would else be hidden.
        return if thinks_anyway && model.hides_thoughts { Think::Adaptive(None) } else { Think::Unsaid };
    }
    if asked.mode == Some(Mode::BetweenTools) && model.thinking == Thinking::Always {
        return Think::BetweenTools;
    }
    if model.adaptive {
        let budget = match asked.mode {
            Some(Mode::Budget(tokens)) => Some(effort_of(tokens)),
            _ => None,
        };
        return Think::Adaptive(effort.or(budget).map(|effort| model.effort(effort)));
    }
    // Zero tokens are not made many for the sake of thinking.
    if model.thinking == Thinking::Never || !goes_on || said.limit.is_some_and(|limit| limit.tokens == 0) {
        dropped.add("reasoning_effort");
        return if model.thinking == Thinking::Never { Think::Unsaid } else { Think::Off };
    }
    let wanted = match (asked.mode, effort.map(|effort| model.effort(effort))) {
        (Some(Mode::Budget(tokens)), _) => tokens,
        (_, Some(Effort::Low)) => 2_048,
        (_, Some(Effort::High)) => 16_384,
        _ => 8_192,
    };
    // Thoughts count towards the client's own limit, and something of it has to be left for the answer.
    let limit = said.limit.map_or(model.max_output, |limit| limit.tokens.min(model.max_output));
    let budget = wanted.max(LEAST).min(limit / 2);
    if budget < LEAST {
        dropped.add("reasoning_effort");
        return Think::Off;
    }
    Think::Budget(budget)
}

/// The effort that a budget amounts to: the way back from the budgets above.
fn effort_of(tokens: u64) -> Effort {
    match tokens {
        0..4_000 => Effort::Low,
        4_000..16_000 => Effort::Medium,
        _ => Effort::High,
    }
}

/// How many tokens the model may write, its thoughts included.
pub(super) fn limit(said: &Conversation<'_>, model: &Claude, default: u64) -> u64 {
    said.limit.map_or(default.min(model.max_output), |limit| limit.tokens)
}

/// Writes `thinking`.
pub(super) fn write(think: Think, said: &Conversation<'_>, model: &Claude, body: &mut Object<'_>) {
    let display = match said.reasoning.shown {
        Some(false) => Some("omitted"),
        Some(true) => Some("summarized"),
        None => model.hides_thoughts.then_some("summarized"),
    };
    let kind = match think {
        Think::Unsaid => return,
        Think::Off => "disabled",
        Think::BetweenTools => "between_tools",
        Think::Adaptive(_) => "adaptive",
        Think::Budget(_) => "enabled",
    };
    let mut thinking = Object::typed(body.key("thinking"), kind);
    if let Think::Budget(tokens) = think {
        thinking.number("budget_tokens", tokens);
    }
    if let Some(display) = display.filter(|_| think != Think::Off) {
        thinking.text("display", display);
    }
    thinking.end();
}
