//! Whether a whole answer may be given to a later caller who asks the same.
//!
//! Promises: what ended for any other reason than that the model had said all is not kept: cut off by a limit,
//! paused, refused, filtered; nor is what asks its caller to do something, because effects would repeat. In doubt
//! it is not: a text that only looks like a call of a tool costs one call to the provider.

use std::sync::LazyLock;

use aho_corasick::packed::Searcher;

use memchr::memmem;

use super::Dialect;
use super::reading::value;
use crate::watch::Watch;

/// How answers of all protocols say that the model had finished.
const FINISHED: [&str; 4] = ["stop", "end_turn", "stop_sequence", "completed"];

/// What names, as a key or as a type, something that the caller is to do, or that the model would not say; the last
/// one as a type alone: as a key it counts.
const NAMES: [&str; 4] = ["_call\"", "\"tool_calls\"", "refusal\"", "\"tool_use\""];
const TYPE_ALONE: usize = 3;

/// None where this processor has no vector code for it.
static SEARCHER: LazyLock<Option<Searcher>> = LazyLock::new(|| Searcher::new(NAMES));

/// Whether the answer that said this of itself, in these pieces, may be kept. A piece ends where an event ends.
pub fn may_keep<'a>(
    dialect: &dyn Dialect,
    watch: &Watch,
    mut pieces: impl Iterator<Item = &'a [u8]>,
) -> bool {
    let over = match &watch.finish {
        Some(finish) => FINISHED.contains(&&**finish),
        None => !dialect.is_generation(),
    };
    over && watch.error.is_none() && !watch.garbled && !pieces.any(has_effect)
}

fn has_effect(piece: &[u8]) -> bool {
    match &*SEARCHER {
        Some(searcher) => {
            searcher.find_iter(piece).any(|found| counts(found.pattern().as_usize(), &piece[found.end()..]))
        }
        None => NAMES.iter().enumerate().any(|(name, text)| {
            memmem::find_iter(piece, text).any(|at| counts(name, &piece[at + text.len()..]))
        }),
    }
}

/// Whether a name that was found, with what follows it, makes an answer one that is not kept.
fn counts(name: usize, after: &[u8]) -> bool {
    if name == TYPE_ALONE { value(after).is_none() } else { is_set(after) }
}

/// Whether what follows a name makes it say something: it is no key, or has a value other than nothing.
fn is_set(after: &[u8]) -> bool {
    let Some(value) = value(after) else { return true };
    let inside = |open: &[u8]| value.strip_prefix(open).map(<[u8]>::trim_ascii_start);
    !(value.starts_with(b"null")
        || inside(b"[").is_some_and(|rest| rest.starts_with(b"]"))
        || inside(b"\"").is_some_and(|rest| rest.starts_with(b"\"")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dialect::{CHAT, EMBEDDINGS, MESSAGES, RESPONSES};

    fn keeps(dialect: &dyn Dialect, body: &str) -> bool {
        let mut watch = Watch::default();
        dialect.read_answer(body.as_bytes(), &mut watch);
        may_keep(dialect, &watch, std::iter::once(body.as_bytes()))
    }

    fn chat(message: &str, finish: &str) -> String {
        format!(
            r#"{{"id":"1","object":"chat.completion","model":"m","choices":[{{"index":0,"message":{message},"finish_reason":"{finish}"}}]}}"#
        )
    }

    #[test]
    fn an_answer_that_is_finished_is_kept() {
        assert!(keeps(
            &CHAT,
            &chat(r#"{"role":"assistant","content":"a","refusal":null,"tool_calls":[]}"#, "stop")
        ));
        assert!(keeps(&CHAT, &chat(r#"{"content":"say \"tool_calls\" and \"refusal\": \"no\""}"#, "stop")));
        let usage = r#""usage":{"input_tokens":1,"output_tokens":1,"server_tool_use":null}"#;
        let message = |block: &str, stop: &str| {
            format!(r#"{{"type":"message","content":[{block}],"stop_reason":"{stop}","model":"c",{usage}}}"#)
        };
        assert!(keeps(&MESSAGES, &message(r#"{"type":"text","text":"a"}"#, "end_turn")));
        assert!(keeps(&EMBEDDINGS, r#"{"object":"list","data":[{"embedding":[0.1]}],"model":"e"}"#));
        assert!(!keeps(
            &MESSAGES,
            &message(r#"{"type":"tool_use","id":"1","name":"f","input":{}}"#, "end_turn")
        ));
    }

    #[test]
    fn what_is_cut_refused_or_asks_for_effects_is_not() {
        let said = r#"{"role":"assistant","content":"a"}"#;
        for finish in ["length", "content_filter", "tool_calls", "function_call", "pause_turn", "new_reason"]
        {
            assert!(!keeps(&CHAT, &chat(said, finish)), "{finish}");
        }
        assert!(!keeps(&CHAT, &chat(r#"{"content":null,"refusal":"no"}"#, "stop")));
        assert!(!keeps(&CHAT, &chat(r#"{"content":null,"tool_calls":[{"id":"1"}]}"#, "stop")));
        assert!(!keeps(&CHAT, r#"{"error":{"message":"no"}}"#));
        assert!(!keeps(&CHAT, &chat(said, "stop")[..80]));
        let response = |item: &str, status: &str| {
            format!(
                r#"{{"id":"r","object":"response","status":"{status}","model":"m","output":[{item}],"error":null}}"#
            )
        };
        assert!(keeps(&RESPONSES, &response(r#"{"type":"message","content":[]}"#, "completed")));
        // What the request allowed is no call.
        let echo = r#"{"type":"message","content":[]}],"parallel_tool_calls":true,"max_tool_calls":5,"tools":[{"type":"function"}"#;
        assert!(keeps(&RESPONSES, &response(echo, "completed")));
        assert!(!keeps(&RESPONSES, &response(r#"{"type":"message","content":[]}"#, "incomplete")));
        assert!(!keeps(&RESPONSES, &response(r#"{"type":"function_call","name":"f"}"#, "completed")));
        assert!(!keeps(&RESPONSES, &response(r#"{"type":"custom_tool_call","name":"f"}"#, "completed")));
    }
}
