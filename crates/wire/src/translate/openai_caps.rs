//! What OpenAI's models take on Chat Completions.

use super::canon::Effort::{self, High, Low, Max, Medium, Minimal, None, Xhigh};
use super::caps::row;

/// Whether a model takes function tools on Chat Completions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ChatTools {
    /// However it reasons.
    Always,
    /// Unless it is told to reason.
    UnlessReasoning,
    /// Only if it is told not to reason.
    EffortNone,
    /// Only on Responses.
    Never,
}

/// One row.
#[derive(Clone, Copy, Debug)]
pub(super) struct OpenAi {
    /// It reasons; then it draws its tokens as it likes, unless told not to reason.
    pub(super) reasons: bool,
    /// How hard it can be told to, in their order.
    pub(super) efforts: &'static [Effort],
    /// When it takes function tools.
    pub(super) tools: ChatTools,
    /// The most tokens that it writes.
    pub(super) max_output: u64,
}

const fn plain(max_output: u64) -> OpenAi {
    OpenAi { reasons: false, efforts: &[], tools: ChatTools::Always, max_output }
}

const fn reasons(efforts: &'static [Effort], tools: ChatTools) -> OpenAi {
    OpenAi { reasons: true, efforts, tools, max_output: 128_000 }
}

const O: OpenAi = OpenAi { max_output: 100_000, ..reasons(&[Low, Medium, High], ChatTools::Always) };

const GPT_5: OpenAi = reasons(&[Minimal, Low, Medium, High], ChatTools::Always);
const GPT_5_1: OpenAi = reasons(&[None, Low, Medium, High], ChatTools::Always);
const GPT_5_4: OpenAi = reasons(&[None, Low, Medium, High, Xhigh], ChatTools::UnlessReasoning);
const GPT_5_6: OpenAi = OpenAi { tools: ChatTools::EffortNone, ..GPT_5_4 };
const GPT_6: OpenAi = reasons(&[None, Low, Medium, High, Xhigh, Max], ChatTools::EffortNone);
const GPT_6_DEEP: OpenAi = reasons(&[Low, Medium, High, Xhigh, Max], ChatTools::Never);

/// By the beginnings of their names.
const ROWS: &[(&str, OpenAi)] = &[
    ("gpt-6-astra", GPT_6_DEEP),
    ("gpt-6.1-sol", GPT_6_DEEP),
    ("gpt-6", GPT_6),
    ("gpt-5.6", GPT_5_6),
    ("gpt-5.5", GPT_5_4),
    ("gpt-5.4", GPT_5_4),
    ("gpt-5.1", GPT_5_1),
    ("gpt-5", GPT_5),
    ("o1", O),
    ("o3", O),
    ("o4-", O),
    ("gpt-4.1", plain(32_768)),
    ("gpt-4o", plain(16_384)),
    ("gpt-audio", plain(16_384)),
];

/// The row of a model.
pub(super) fn openai(model: &str) -> Option<&'static OpenAi> {
    row(ROWS, model)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_row_of_the_longest_beginning_counts() {
        let tools = |model: &str| openai(model).map(|caps| caps.tools);
        assert_eq!(tools("gpt-6-astra-2026-10-01"), Some(ChatTools::Never));
        assert_eq!(tools("gpt-6-luna"), Some(ChatTools::EffortNone));
        assert_eq!(tools("openai/gpt-5.4-mini"), Some(ChatTools::UnlessReasoning));
        assert_eq!(tools("gpt-5-nano"), Some(ChatTools::Always));
        assert_eq!(openai("gpt-4.1-mini").map(|caps| caps.max_output), Some(32_768));
        assert!(openai("gpt-oss-120b").is_none() && openai("olmo-3").is_none() && openai("m").is_none());
    }

    #[test]
    fn efforts_stand_in_their_order() {
        assert!(
            ROWS.iter().all(|(_, caps)| caps.efforts.is_sorted() && caps.reasons != caps.efforts.is_empty())
        );
    }
}
