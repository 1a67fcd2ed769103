//! Whole conversations, cut at every position: the same bytes go out, and the same is seen of them.

use wire::dialect::{CHAT, COMPLETIONS, Dialect, MESSAGES, RESPONSES};
use wire::relay::{Usage, Watch};

use super::{kept, relay, show, split};

fn check(name: &str, dialect: &'static dyn Dialect, strip: bool, expected: &Watch) {
    let path = format!("{}/tests/golden/{name}.sse", env!("CARGO_MANIFEST_DIR"));
    let input = std::fs::read(path).unwrap();
    let (events, rest) = split(&input);
    let output = [&kept(&events, strip), rest].concat();
    assert_eq!(output != input, strip, "{name}: an event is cut out where that is asked for, and only there");
    for cut in 0..=input.len() {
        let relayed = relay(dialect, strip, [&input[..cut], &input[cut..]]);
        assert!(relayed.out == output, "{name} cut at {cut}: {}", show(&relayed.out));
        assert_eq!(&relayed.watch, expected, "{name} cut at {cut}");
    }
    let relayed = relay(dialect, strip, input.chunks(1));
    assert_eq!(show(&relayed.out), show(&output), "{name} byte by byte");
    assert_eq!(&relayed.watch, expected, "{name} byte by byte");
}

/// A stream that brought content of that model and came to that end.
fn whole(model: &str, finish: &str) -> Watch {
    Watch {
        model: Some(model.into()),
        finish: Some(finish.to_owned().into()),
        content: true,
        terminal: true,
        ..Watch::default()
    }
}

fn counted(usage: Usage, watch: Watch) -> Watch {
    Watch { usage, has_usage: true, ..watch }
}

fn plain(input: u64, output: u64) -> Usage {
    Usage { input, output, ..Usage::default() }
}

const MINI: &str = "gpt-5-mini-2026-04-02";
const CHAT_USAGE: Usage = Usage { input: 31, cached_input: 16, cache_write: 0, output: 18, reasoning: 6 };

#[test]
fn chat_text_and_tools() {
    check("chat", &CHAT, false, &whole(MINI, "stop"));
    check("chat_tools", &CHAT, false, &whole(MINI, "tool_calls"));
}

#[test]
fn chat_usage_is_booked_and_shown_only_to_who_asked() {
    let expected = counted(CHAT_USAGE, whole(MINI, "length"));
    check("chat_usage", &CHAT, true, &expected);
    check("chat_usage", &CHAT, false, &expected);
}

#[test]
fn chat_with_other_line_ends() {
    let expected = counted(CHAT_USAGE, whole(MINI, "stop"));
    for name in ["chat_crlf", "chat_cr"] {
        check(name, &CHAT, true, &expected);
        check(name, &CHAT, false, &expected);
    }
    check("chat_multiline", &CHAT, false, &whole(MINI, "stop"));
}

#[test]
fn chat_of_other_providers() {
    check("chat_azure", &CHAT, false, &whole(MINI, "stop"));
    check("chat_groq", &CHAT, false, &counted(plain(12, 3), whole("llama-3.3-70b-versatile", "stop")));
    check("chat_openrouter", &CHAT, false, &counted(plain(9, 4), whole("qwen/qwen3-32b", "stop")));
}

#[test]
fn chat_that_goes_wrong() {
    let begun = Watch { model: Some(MINI.into()), content: true, ..Watch::default() };
    let said = "The engine ran out of room — try a shorter prompt";
    check("chat_error", &CHAT, false, &Watch { error: Some(said.into()), terminal: true, ..begun.clone() });
    let said = "prompt too long: 9100 of 8192";
    let flat = Watch { error: Some(said.into()), terminal: true, content: false, ..begun.clone() };
    check("chat_error_flat", &CHAT, false, &flat);
    check("chat_garbled", &CHAT, false, &Watch { garbled: true, terminal: true, ..begun.clone() });
    check("chat_cut", &CHAT, false, &Watch { garbled: true, ..begun });
    check("chat_unterminated", &CHAT, false, &whole(MINI, "stop"));
}

#[test]
fn completions() {
    let expected = counted(plain(5, 2), whole("davinci-003", "length"));
    check("completions", &COMPLETIONS, true, &expected);
    check("completions", &COMPLETIONS, false, &expected);
}

#[test]
fn responses() {
    let usage = Usage { input: 40, cached_input: 8, cache_write: 4, output: 9, reasoning: 5 };
    let ended = |finish| Watch {
        sequence: Some(6),
        id: Some("resp_68a".into()),
        created: Some(1_790_000_003),
        ..whole("gpt-5.6-2026-09-01", finish)
    };
    check("responses", &RESPONSES, false, &counted(usage, ended("completed")));
    check("responses_incomplete", &RESPONSES, false, &counted(usage, ended("max_output_tokens")));
    let lost = Watch { error: Some("the worker was lost".into()), ..ended("failed") };
    check("responses_failed", &RESPONSES, false, &lost);
    let slow = Watch { error: Some("slow down, please".into()), finish: None, ..ended("") };
    check("responses_error", &RESPONSES, false, &slow);
    let split = Watch { sequence: Some(5), ..ended("completed") };
    check("responses_split_data", &RESPONSES, false, &counted(usage, split));
}

#[test]
fn messages() {
    let begun = Usage { input: 325, cached_input: 200, cache_write: 100, output: 1, reasoning: 0 };
    let ended = Usage { output: 77, reasoning: 33, ..begun };
    let expected = counted(ended, whole("claude-sonnet-5-5", "tool_use"));
    check("messages", &MESSAGES, false, &expected);
    check("messages_nameless", &MESSAGES, false, &expected);
    check("messages_sentinel", &MESSAGES, false, &expected);
    let failed = |said: &str| Watch {
        error: Some(said.into()),
        finish: None,
        ..counted(begun, whole("claude-sonnet-5-5", ""))
    };
    check("messages_error", &MESSAGES, false, &failed("Overloaded"));
    check("messages_foreign_error", &MESSAGES, false, &failed("backend went away"));
}
