//! Token counts of all protocols in one form.
//!
//! Invariant: shares never exceed their whole, whatever a provider reports, so nobody who subtracts them gets a
//! negative number. A usage object without a single count says nothing and is not booked.

use serde::Deserialize;

use super::reading::{Raw, count, numbers, part};
use crate::watch::Usage;

#[derive(Default, Deserialize)]
struct Details<'a> {
    #[serde(borrow)]
    thinking_tokens: Raw<'a>,
}

/// What is counted under the names of OpenAI's two vocabularies (chat and Responses), DeepSeek's and Moonshot's. No
/// two names of one count stand in one object with different meanings, so the details need not be told from what
/// they detail; where two are there, the first counts.
#[derive(Default)]
struct Counts {
    input: Option<u64>,
    output: Option<u64>,
    cached: Option<u64>,
    /// Another name for `cached`, which has less to say.
    cache_hit: Option<u64>,
    written: Option<u64>,
    reasoning: Option<u64>,
    total: Option<u64>,
}

impl Counts {
    fn of(text: &[u8]) -> Counts {
        let mut counts = Counts::default();
        for (key, number) in numbers(text) {
            // Compared whole, by length first: a match on bytes would look at one after the other.
            let is = |name: &str| key == name.as_bytes();
            let count = if is("prompt_tokens") || is("input_tokens") {
                &mut counts.input
            } else if is("completion_tokens") || is("output_tokens") {
                &mut counts.output
            } else if is("total_tokens") {
                &mut counts.total
            } else if is("cached_tokens") {
                &mut counts.cached
            } else if is("reasoning_tokens") {
                &mut counts.reasoning
            } else if is("cache_write_tokens") {
                &mut counts.written
            } else if is("prompt_cache_hit_tokens") {
                &mut counts.cache_hit
            } else {
                continue;
            };
            count.get_or_insert(number);
        }
        counts
    }
}

/// A usage object of a protocol of OpenAI's.
pub(crate) fn openai(raw: Raw<'_>) -> Option<Usage> {
    let text = raw?.get().as_bytes();
    text.starts_with(b"{").then(|| openai_counts(text))?
}

/// The same, of the object's text.
pub(super) fn openai_counts(text: &[u8]) -> Option<Usage> {
    let counts = Counts::of(text);
    if counts.input.is_none() && counts.output.is_none() {
        return None;
    }
    let (input, output) = (counts.input.unwrap_or(0), counts.output.unwrap_or(0));
    let reasoning = counts.reasoning.unwrap_or(0);
    // xAI counts reasoning beside the completion; only the total tells.
    let beside = input.saturating_add(output).saturating_add(reasoning);
    let aside = if counts.total == Some(beside) { reasoning } else { 0 };
    Some(shares(Usage {
        input,
        cached_input: counts.cached.or(counts.cache_hit).unwrap_or(0),
        cache_write: counts.written.unwrap_or(0),
        output: output.saturating_add(aside),
        reasoning,
    }))
}

#[derive(Deserialize)]
struct Anthropic<'a> {
    #[serde(borrow)]
    input_tokens: Raw<'a>,
    #[serde(borrow)]
    cache_read_input_tokens: Raw<'a>,
    #[serde(borrow)]
    cache_creation_input_tokens: Raw<'a>,
    #[serde(borrow)]
    output_tokens: Raw<'a>,
    #[serde(borrow)]
    output_tokens_details: Raw<'a>,
}

/// A usage object of Anthropic's, which adds to or corrects what was known before it: its counts are cumulative,
/// those that it leaves out still hold, and its input excludes what the cache served or took.
pub(crate) fn anthropic(raw: Raw<'_>, before: Usage) -> Option<Usage> {
    let told: Anthropic<'_> = part(raw)?;
    let parts = [
        told.input_tokens,
        told.cache_read_input_tokens,
        told.cache_creation_input_tokens,
        told.output_tokens,
    ];
    if parts.into_iter().all(|raw| count(raw).is_none()) {
        return None;
    }
    let [fresh, cached, written, output] = parts.map(count);
    let fresh =
        fresh.unwrap_or(before.input.saturating_sub(before.cached_input).saturating_sub(before.cache_write));
    let cached_input = cached.unwrap_or(before.cached_input);
    let cache_write = written.unwrap_or(before.cache_write);
    let details: Details<'_> = part(told.output_tokens_details).unwrap_or_default();
    Some(shares(Usage {
        input: fresh.saturating_add(cached_input).saturating_add(cache_write),
        cached_input,
        cache_write,
        output: output.unwrap_or(before.output),
        reasoning: count(details.thinking_tokens).unwrap_or(before.reasoning),
    }))
}

/// Cuts the shares to what their wholes allow.
fn shares(told: Usage) -> Usage {
    let cached_input = told.cached_input.min(told.input);
    Usage {
        cached_input,
        cache_write: told.cache_write.min(told.input - cached_input),
        reasoning: told.reasoning.min(told.output),
        ..told
    }
}

#[cfg(test)]
mod tests {
    use serde_json::value::RawValue;

    use super::*;

    fn raw(text: &str) -> Raw<'_> {
        Some(serde_json::from_str::<&RawValue>(text).unwrap())
    }

    #[test]
    fn openai_input_holds_cached_and_written_tokens_already() {
        let told = r#"{"prompt_tokens":100,"completion_tokens":30,"total_tokens":130,
            "prompt_tokens_details":{"cached_tokens":64,"cache_write_tokens":20},
            "completion_tokens_details":{"reasoning_tokens":12}}"#;
        let usage = Usage { input: 100, cached_input: 64, cache_write: 20, output: 30, reasoning: 12 };
        assert_eq!(openai(raw(told)), Some(usage));
    }

    #[test]
    fn reasoning_that_is_counted_beside_the_completion_is_added() {
        let told = r#"{"prompt_tokens":10,"completion_tokens":5,"total_tokens":22,
            "completion_tokens_details":{"reasoning_tokens":7}}"#;
        let usage = openai(raw(told)).unwrap();
        assert_eq!((usage.output, usage.reasoning), (12, 7));
    }

    #[test]
    fn anthropic_input_is_the_sum_of_its_three_parts() {
        let start = r#"{"input_tokens":10,"cache_creation_input_tokens":20,"cache_read_input_tokens":30,"output_tokens":1}"#;
        let first = anthropic(raw(start), Usage::default()).unwrap();
        assert_eq!(first, Usage { input: 60, cached_input: 30, cache_write: 20, output: 1, reasoning: 0 });
        let end = r#"{"output_tokens":45,"output_tokens_details":{"thinking_tokens":9}}"#;
        let last = anthropic(raw(end), first).unwrap();
        assert_eq!(last, Usage { output: 45, reasoning: 9, ..first });
        let corrected = anthropic(raw(r#"{"input_tokens":11,"output_tokens":46}"#), last).unwrap();
        assert_eq!(corrected, Usage { input: 61, output: 46, ..last });
    }

    #[test]
    fn nonsense_never_makes_a_share_larger_than_its_whole() {
        let told = r#"{"prompt_tokens":5,"completion_tokens":"many","prompt_tokens_details":{"cached_tokens":9,
            "cache_write_tokens":3},"completion_tokens_details":{"reasoning_tokens":4}}"#;
        assert_eq!(openai(raw(told)), Some(Usage { input: 5, cached_input: 5, ..Usage::default() }));
        let vast = r#"{"input_tokens":18446744073709551615,"cache_read_input_tokens":18446744073709551615}"#;
        let usage = anthropic(raw(vast), Usage::default()).unwrap();
        assert!(usage.cached_input + usage.cache_write <= usage.input);
    }

    #[test]
    fn a_usage_object_without_counts_says_nothing() {
        for empty in ["{}", "null", "[]", r#"{"cost":0.1}"#, r#"{"prompt_tokens":null}"#] {
            assert_eq!(openai(raw(empty)), None, "{empty}");
            assert_eq!(anthropic(raw(empty), Usage::default()), None, "{empty}");
        }
    }
}
