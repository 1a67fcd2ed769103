//! What Claude models can do and refuse.

use super::canon::Effort;
use super::caps;

/// Whether a model thinks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Thinking {
    /// It has never learnt to.
    Never,
    /// If asked to.
    OnRequest,
    /// Unless asked not to.
    ByDefault,
    /// It can't be stopped.
    Always,
}

/// One row.
#[derive(Clone, Copy, Debug)]
pub(super) struct Claude {
    /// Takes `temperature`, `top_p` and `top_k`.
    pub(super) sampling: bool,
    /// Can be made to call a tool.
    pub(super) forced_tools: bool,
    /// Goes on from a last message of the assistant.
    pub(super) prefill: bool,
    /// Takes system messages among the others.
    pub(super) mid_system: bool,
    /// When it thinks.
    pub(super) thinking: Thinking,
    /// Decides itself how much to think. Others are told a number of tokens.
    pub(super) adaptive: bool,
    /// Leaves out what it thinks unless asked for a summary, and with it what it says between calls of tools.
    pub(super) hides_thoughts: bool,
    /// Takes effort `xhigh`.
    pub(super) xhigh: bool,
    /// Takes effort `max`.
    pub(super) max: bool,
    /// Can be had faster at a higher price.
    pub(super) fast: bool,
    /// The most tokens that it writes.
    pub(super) max_output: u64,
}

impl Claude {
    /// The highest effort up to `wanted` that it takes. `none` is not asked of it so.
    pub(super) fn effort(&self, wanted: Effort) -> Effort {
        match wanted {
            Effort::None | Effort::Minimal => Effort::Low,
            Effort::Max if self.max => Effort::Max,
            Effort::Max | Effort::Xhigh if self.xhigh => Effort::Xhigh,
            Effort::Max | Effort::Xhigh => Effort::High,
            other => other,
        }
    }
}

const CLAUDE_3: Claude = Claude {
    sampling: true,
    forced_tools: true,
    prefill: true,
    mid_system: false,
    thinking: Thinking::Never,
    adaptive: false,
    hides_thoughts: false,
    xhigh: false,
    max: false,
    fast: false,
    max_output: 8_192,
};
const CLAUDE_4_5: Claude = Claude { thinking: Thinking::OnRequest, max_output: 64_000, ..CLAUDE_3 };
const CLAUDE_4_6: Claude =
    Claude { prefill: false, adaptive: true, max: true, max_output: 128_000, ..CLAUDE_4_5 };
const CLAUDE_4_7: Claude = Claude { sampling: false, hides_thoughts: true, xhigh: true, ..CLAUDE_4_6 };
const CLAUDE_4_8: Claude = Claude { mid_system: true, ..CLAUDE_4_7 };
const CLAUDE_5: Claude = Claude { thinking: Thinking::ByDefault, ..CLAUDE_4_8 };
const CLAUDE_5_5: Claude = Claude { thinking: Thinking::Always, forced_tools: false, ..CLAUDE_5 };

static ROWS: &[(&str, Claude)] = &[
    ("claude-fable-5", CLAUDE_5_5),
    ("claude-opus-5-5", Claude { fast: true, ..CLAUDE_5_5 }),
    ("claude-sonnet-5-5", CLAUDE_5_5),
    ("claude-haiku-5-5", CLAUDE_5),
    ("claude-opus-5", Claude { fast: true, ..CLAUDE_5 }),
    ("claude-sonnet-5", CLAUDE_5),
    ("claude-opus-4-8", Claude { fast: true, ..CLAUDE_4_8 }),
    ("claude-opus-4-7", CLAUDE_4_7),
    ("claude-opus-4-6", CLAUDE_4_6),
    ("claude-sonnet-4-6", CLAUDE_4_6),
    ("claude-opus-4-5", CLAUDE_4_5),
    ("claude-sonnet-4-5", CLAUDE_4_5),
    ("claude-haiku-4-5", CLAUDE_4_5),
    ("claude-opus-4", Claude { max_output: 32_000, ..CLAUDE_4_5 }),
    ("claude-sonnet-4", CLAUDE_4_5),
    ("claude-3-7", CLAUDE_4_5),
    ("claude-3", CLAUDE_3),
    ("claude-", Claude { mid_system: true, hides_thoughts: true, ..UNKNOWN }),
];

/// A model that is in no row takes what the protocol has; but others than Anthropic's know of no system messages among
/// the others, and any model understands them as the user's words.
const UNKNOWN: Claude = Claude {
    sampling: true,
    forced_tools: true,
    prefill: true,
    mid_system: false,
    thinking: Thinking::OnRequest,
    adaptive: true,
    hides_thoughts: false,
    xhigh: true,
    max: true,
    fast: false,
    max_output: u64::MAX,
};

/// What a model can do.
pub(super) fn of(model: &str) -> &'static Claude {
    static OTHER: Claude = UNKNOWN;
    caps::row(ROWS, model).unwrap_or(&OTHER)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_model_is_found_by_its_longest_prefix() {
        assert_eq!(of("claude-opus-5-5-20261001").thinking, Thinking::Always);
        assert_eq!(of("anthropic/claude-opus-5").thinking, Thinking::ByDefault);
        assert!(of("claude-haiku-5-5").forced_tools && !of("claude-sonnet-5-5").forced_tools);
        assert!(of("claude-haiku-4-5@20251001").prefill && !of("claude-opus-4-6").prefill);
        assert_eq!(of("claude-opus-4-1").max_output, 32_000);
        assert!(of("claude-next-7").mid_system && of("claude-next-7").prefill);
        assert!(of("kimi-k3").adaptive && !of("kimi-k3").mid_system);
    }

    #[test]
    fn an_effort_is_lowered_to_what_the_model_takes() {
        let table = [
            ("claude-opus-4-6", Effort::Max, Effort::Max),
            ("claude-opus-4-6", Effort::Xhigh, Effort::High),
            ("claude-opus-4-7", Effort::Xhigh, Effort::Xhigh),
            ("claude-opus-4-5", Effort::Max, Effort::High),
            ("claude-opus-5", Effort::Minimal, Effort::Low),
            ("claude-opus-5", Effort::Medium, Effort::Medium),
        ];
        for (model, wanted, taken) in table {
            assert_eq!(of(model).effort(wanted), taken, "{model} {wanted:?}");
        }
    }
}
