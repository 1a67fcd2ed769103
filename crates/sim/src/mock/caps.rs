//! What models can do and refuse, as far as requests are checked by it. A model that is in no row is taken
//! to accept everything.

/// A row is for every model whose name begins with its prefix; the longest prefix wins.
fn row<T>(rows: &'static [(&'static str, T)], model: &str) -> Option<&'static T> {
    let bare = model.rsplit_once('/').map_or(model, |(_, bare)| bare);
    let fitting = rows.iter().filter(|(prefix, _)| bare.starts_with(prefix));
    fitting.max_by_key(|(prefix, _)| prefix.len()).map(|(_, caps)| caps)
}

/// When Chat Completions takes function tools.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ChatTools {
    Always,
    /// With effort `none`, or none stated.
    UnlessReasoning,
    /// Only with effort `none`.
    EffortNone,
    Never,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct OpenAiCaps {
    pub(crate) reasoning: bool,
    pub(crate) efforts: &'static [&'static str],
    pub(crate) chat_tools: ChatTools,
}

const PLAIN: OpenAiCaps = OpenAiCaps { reasoning: false, efforts: &[], chat_tools: ChatTools::Always };

const fn reasons(efforts: &'static [&'static str], chat_tools: ChatTools) -> OpenAiCaps {
    OpenAiCaps { reasoning: true, efforts, chat_tools }
}

const OPENAI: &[(&str, OpenAiCaps)] = &[
    ("gpt-6-astra", reasons(&["low", "medium", "high", "xhigh", "max"], ChatTools::Never)),
    ("gpt-6.1-sol", reasons(&["low", "medium", "high", "xhigh", "max"], ChatTools::Never)),
    ("gpt-6", reasons(&["none", "low", "medium", "high", "xhigh", "max"], ChatTools::EffortNone)),
    ("gpt-5.6", reasons(&["none", "low", "medium", "high", "xhigh"], ChatTools::EffortNone)),
    ("gpt-5.5", reasons(&["none", "low", "medium", "high", "xhigh"], ChatTools::UnlessReasoning)),
    ("gpt-5.4", reasons(&["none", "low", "medium", "high", "xhigh"], ChatTools::UnlessReasoning)),
    ("gpt-5.1", reasons(&["none", "low", "medium", "high"], ChatTools::Always)),
    ("gpt-5", reasons(&["minimal", "low", "medium", "high"], ChatTools::Always)),
    ("o1", reasons(&["low", "medium", "high"], ChatTools::Always)),
    ("o3", reasons(&["low", "medium", "high"], ChatTools::Always)),
    ("o4", reasons(&["low", "medium", "high"], ChatTools::Always)),
    ("gpt-4", PLAIN),
    ("gpt-audio", PLAIN),
];

pub(crate) fn openai(model: &str) -> Option<&'static OpenAiCaps> {
    row(OPENAI, model)
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Thinking {
    OnRequest,
    ByDefault,
    Always,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct ClaudeCaps {
    /// Takes temperature, top_p and top_k.
    pub(crate) sampling: bool,
    pub(crate) forced_tools: bool,
    /// Goes on from a last message of the assistant.
    pub(crate) prefill: bool,
    pub(crate) mid_system: bool,
    pub(crate) adaptive: bool,
    pub(crate) thinking: Thinking,
    /// Shows its thoughts unless told not to.
    pub(crate) shows_thoughts: bool,
    pub(crate) efforts: &'static [&'static str],
    /// The most tokens of an answer.
    pub(crate) max_output: u64,
}

const CLAUDE_4_5: ClaudeCaps = ClaudeCaps {
    sampling: true,
    forced_tools: true,
    prefill: true,
    mid_system: false,
    adaptive: false,
    thinking: Thinking::OnRequest,
    shows_thoughts: true,
    efforts: &[],
    max_output: 64_000,
};
const CLAUDE_4_6: ClaudeCaps = ClaudeCaps {
    prefill: false,
    adaptive: true,
    efforts: &["low", "medium", "high", "max"],
    max_output: 128_000,
    ..CLAUDE_4_5
};
const CLAUDE_4_7: ClaudeCaps = ClaudeCaps {
    sampling: false,
    shows_thoughts: false,
    efforts: &["low", "medium", "high", "xhigh", "max"],
    ..CLAUDE_4_6
};
const CLAUDE_4_8: ClaudeCaps = ClaudeCaps { mid_system: true, ..CLAUDE_4_7 };
const CLAUDE_5: ClaudeCaps = ClaudeCaps { thinking: Thinking::ByDefault, ..CLAUDE_4_8 };
const CLAUDE_5_5: ClaudeCaps = ClaudeCaps { thinking: Thinking::Always, forced_tools: false, ..CLAUDE_5 };

const CLAUDE: &[(&str, ClaudeCaps)] = &[
    ("claude-fable-5-1", CLAUDE_5_5),
    ("claude-opus-5-5", CLAUDE_5_5),
    ("claude-sonnet-5-5", CLAUDE_5_5),
    ("claude-haiku-5-5", CLAUDE_5),
    ("claude-opus-5", CLAUDE_5),
    ("claude-sonnet-5", CLAUDE_5),
    ("claude-opus-4-8", CLAUDE_4_8),
    ("claude-opus-4-7", CLAUDE_4_7),
    ("claude-opus-4-6", CLAUDE_4_6),
    ("claude-sonnet-4-6", CLAUDE_4_6),
    ("claude-sonnet-4-5", CLAUDE_4_5),
    ("claude-haiku-4-5", CLAUDE_4_5),
];

pub(crate) fn claude(model: &str) -> Option<&'static ClaudeCaps> {
    row(CLAUDE, model)
}

/// Models that `GET /v1/models` lists.
pub(crate) const OPENAI_MODELS: &[&str] = &[
    "gpt-6-astra",
    "gpt-6.1-sol",
    "gpt-6-luna",
    "gpt-5.6",
    "gpt-5.4",
    "gpt-5-mini",
    "gpt-4.1",
    "gpt-4o-mini",
    "text-embedding-3-large",
    "text-embedding-3-small",
];

pub(crate) fn claude_models() -> impl Iterator<Item = &'static str> {
    CLAUDE.iter().map(|(model, _)| *model)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_longest_prefix_wins() {
        assert_eq!(openai("gpt-5-mini").unwrap().efforts[0], "minimal");
        assert_eq!(openai("gpt-5.6-terra").unwrap().chat_tools, ChatTools::EffortNone);
        assert_eq!(openai("openai/gpt-6-astra").unwrap().chat_tools, ChatTools::Never);
        assert_eq!(claude("claude-opus-5-5").unwrap().thinking, Thinking::Always);
        assert_eq!(claude("claude-opus-5-20260801").unwrap().thinking, Thinking::ByDefault);
        assert!(openai("m").is_none() && claude("m").is_none());
    }
}
