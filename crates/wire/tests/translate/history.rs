//! Histories grow, and what was sent before stays as it was: providers check their own thoughts against it, and find
//! cached prompts by it.
//!
//! The client here does what clients do: it keeps the answers as it got them and sends all back.

use proptest::prelude::*;
use proptest::sample::select;
use serde_json::Value;
use serde_json::value::RawValue;
use wire::fold::{fold, unfold};
use wire::translate::{Destination, Names, Put, Reply};

use super::talk::{Asked, Block, Piece, Round, TOOLS, asked, list, quote, round, text};
use super::{Told, Way, canonical, members, reply, told};

const MARKS: [&str; 2] =
    [r#","cache_control":{"type":"ephemeral","ttl":"1h"}"#, r#","cache_control":{"type":"ephemeral"}"#];

/// A request without its marks: they are no part of what the provider compares.
fn unmarked(sent: &[u8]) -> String {
    let sent = String::from_utf8(sent.to_vec()).unwrap();
    MARKS.iter().fold(sent, |sent, mark| sent.replace(mark, ""))
}

/// Sends a request, twice the same, and checks that it begins as the one before.
fn send(way: Way, to: &Destination<'_>, asked: &str, before: &mut Option<String>) -> Put {
    let put = || {
        let put = way.crossing().request(asked.as_bytes(), to);
        put.unwrap_or_else(|unfit| panic!("{}: {unfit}: {asked}", unfit.field))
    };
    let (put, again) = (put(), put());
    assert_eq!(put.body, again.body);
    assert_eq!((&put.dropped, &put.names), (&again.dropped, &again.names));
    let sent = unmarked(&put.body);
    assert!(serde_json::from_str::<Value>(&sent).is_ok(), "{sent}");
    if let Some(before) = before {
        let kept = before.strip_suffix("]}").unwrap();
        assert!(sent.starts_with(kept), "it began as\n{before}\nand now is\n{sent}");
    }
    *before = Some(sent);
    put
}

/// The member of an object, as it stands.
fn member<'a>(raw: &'a RawValue, name: &str) -> Option<&'a RawValue> {
    members(raw)?.into_iter().find(|(key, _)| key == name).map(|(_, value)| value)
}

/// The last message of the assistant in a request.
fn last_answer(sent: &str) -> Box<RawValue> {
    let sent: &RawValue = serde_json::from_str(sent).unwrap();
    let messages: Vec<&RawValue> = serde_json::from_str(member(sent, "messages").unwrap().get()).unwrap();
    let mut answers =
        messages.into_iter().filter(|raw| member(raw, "role").unwrap().get() == r#""assistant""#);
    answers.next_back().unwrap().to_owned()
}

/// What Anthropic says.
pub(super) fn message(id: usize, answer: &[Block], names: &Names) -> String {
    let mut calls = 0;
    let blocks: Vec<String> = answer
        .iter()
        .map(|block| match block {
            Block::Thought { text, signature } => {
                format!(r#"{{"type":"thinking","thinking":{},"signature":"{signature}"}}"#, quote(text))
            }
            Block::Redacted(data) => format!(r#"{{"type":"redacted_thinking","data":"{data}"}}"#),
            Block::Text(text) => format!(r#"{{"type":"text","text":{}}}"#, quote(text)),
            Block::Call { tool, arguments } => {
                calls += 1;
                let name = quote(names.theirs(TOOLS[*tool]));
                format!(
                    r#"{{"type":"tool_use","id":"toolu_{id}_{calls}","name":{name},"input":{arguments}}}"#
                )
            }
        })
        .collect();
    let reason = if calls > 0 { "tool_use" } else { "end_turn" };
    format!(
        r#"{{"id":"msg_{id}","type":"message","role":"assistant","model":"c","content":{},"stop_reason":"{reason}","stop_sequence":null,"usage":{{"input_tokens":9,"output_tokens":7}}}}"#,
        list(&blocks)
    )
}

/// What the provider takes back of an answer: of a message in which all texts are white space, it takes none of them.
fn taken_back(answer: &[Block]) -> Vec<Block> {
    let is_text = |block: &&Block| matches!(block, Block::Text(_));
    let says_nothing = answer.iter().filter(is_text).all(|block| *block == Block::Text("\n\n".into()));
    answer.iter().filter(|block| !(says_nothing && is_text(block))).cloned().collect()
}

/// What the client hears of an answer, whole or as a stream that it puts together.
pub(super) fn heard(way: Way, answer: &str, names: Names, streamed: bool) -> String {
    let reply = Reply { names, ..reply() };
    let body = if streamed {
        let events = unfold(way.provider(), answer.as_bytes(), true).unwrap();
        let Told { with_usage, .. } = told(way, &reply, events.iter().map(|event| &event[..]));
        fold(way.client(), [&with_usage]).unwrap_or_else(|| panic!("{}", with_usage.escape_ascii()))
    } else {
        way.crossing().answer(200, answer.as_bytes(), &reply, "").unwrap().body
    };
    String::from_utf8(body).unwrap()
}

fn chat_asked(asked: &Asked, messages: &mut Vec<String>) {
    let system = |text: &Option<String>| {
        text.iter()
            .map(|text| format!(r#"{{"role":"system","content":{}}}"#, quote(text)))
            .collect::<Vec<_>>()
    };
    messages.extend(system(&asked.before));
    for (at, said) in asked.said.iter().enumerate() {
        let last = asked.marked && at + 1 == asked.said.len();
        let content = match &said[..] {
            [Piece::Text(text)] if !last => quote(text),
            pieces => {
                let parts =
                    pieces.iter().enumerate().map(|(n, piece)| piece.chat(last && n + 1 == pieces.len()));
                list(&parts.collect::<Vec<_>>())
            }
        };
        messages.push(format!(r#"{{"role":"user","content":{content}}}"#));
    }
    messages.extend(system(&asked.after));
}

fn chat_tools() -> String {
    let tools = TOOLS.map(|name| {
        format!(
            r#"{{"type":"function","function":{{"name":{},"parameters":{{"type":"object"}}}}}}"#,
            quote(name)
        )
    });
    list(&tools)
}

/// A client of Chat Completions talks with Claude.
fn chat_talks(model: &str, effort: Option<&str>, system: &str, first: &Asked, rounds: &[Round]) {
    let way = Way::ChatAsksMessages;
    let to = Destination { model, default_limit: 32_000, ..Destination::default() };
    let mut messages = vec![format!(r#"{{"role":"developer","content":{}}}"#, quote(system))];
    chat_asked(first, &mut messages);
    let mut before = None;
    for (id, round) in rounds.iter().enumerate() {
        let effort = effort.map_or(String::new(), |effort| format!(r#""reasoning_effort":"{effort}","#));
        let asked = |messages: &[String]| {
            format!(r#"{{{effort}"tools":{},"messages":{}}}"#, chat_tools(), list(messages))
        };
        let put = send(way, &to, &asked(&messages), &mut before);
        let said = message(id, &round.answer, &put.names);
        let answer = heard(way, &said, put.names.clone(), round.streamed);
        let answer: Value = serde_json::from_str(&answer).unwrap();
        let echo = &answer["choices"][0]["message"];
        messages.push(echo.to_string());
        let calls = echo["tool_calls"].as_array().map_or(&[][..], Vec::as_slice);
        let mut results: Vec<String> = calls
            .iter()
            .zip(&round.results)
            .map(|(call, result)| {
                let content = match &result[..] {
                    [] => quote(""),
                    [text] => quote(text),
                    texts => list(
                        &texts.iter().map(|text| Piece::Text(text.clone()).chat(false)).collect::<Vec<_>>(),
                    ),
                };
                format!(r#"{{"role":"tool","tool_call_id":{},"content":{content}}}"#, call["id"])
            })
            .collect();
        if round.turned {
            results.reverse();
        }
        messages.extend(results);
        if calls.is_empty() || round.asks {
            chat_asked(&round.asked, &mut messages);
        }
        let next = send(way, &to, &asked(&messages), &mut before);
        let sent = last_answer(&unmarked(&next.body));
        let said = message(id, &taken_back(&round.answer), &put.names);
        let said: &RawValue = serde_json::from_str(&said).unwrap();
        let (sent, said) = (member(&sent, "content").unwrap(), member(said, "content").unwrap());
        assert_eq!(canonical(sent.get()), canonical(said.get()), "the model's own words come back");
        assert!(!next.dropped.names().any(|name| name.contains("reasoning")));
    }
}

/// What a provider of Chat Completions says: one text, one thought, calls.
pub(super) fn choice(id: usize, answer: &[Block], names: &Names) -> String {
    let (mut text, mut thought, mut calls) = (String::new(), String::new(), Vec::new());
    for block in answer {
        match block {
            Block::Thought { text: more, .. } => thought.push_str(more),
            Block::Redacted(_) => {}
            Block::Text(more) => text.push_str(more),
            Block::Call { tool, arguments } => calls.push(format!(
                r#"{{"id":"call_{id}_{}","type":"function","function":{{"name":{},"arguments":{}}}}}"#,
                calls.len(),
                quote(names.theirs(TOOLS[*tool])),
                quote(arguments)
            )),
        }
    }
    let content = if text.is_empty() { "null".to_owned() } else { quote(&text) };
    let mut message = format!(r#""role":"assistant","content":{content}"#);
    if !thought.is_empty() {
        message.push_str(&format!(r#","reasoning_content":{}"#, quote(&thought)));
    }
    if !calls.is_empty() {
        message.push_str(&format!(r#","tool_calls":{}"#, list(&calls)));
    }
    let reason = if calls.is_empty() { "stop" } else { "tool_calls" };
    format!(
        r#"{{"id":"chatcmpl-{id}","object":"chat.completion","created":1,"model":"g","choices":[{{"index":0,"message":{{{message}}},"finish_reason":"{reason}"}}],"usage":{{"prompt_tokens":9,"completion_tokens":7,"total_tokens":16}}}}"#
    )
}

/// What the user does, in blocks; instructions are messages of their own behind it.
fn blocks_asked(asked: &Asked, mut blocks: Vec<String>, messages: &mut Vec<String>) {
    let count: usize = asked.said.iter().map(Vec::len).sum();
    let pieces = asked.said.iter().flatten().enumerate();
    blocks.extend(pieces.map(|(n, piece)| piece.block(asked.marked && n + 1 == count)));
    messages.push(format!(r#"{{"role":"user","content":{}}}"#, list(&blocks)));
    if let Some(text) = &asked.after {
        messages.push(format!(r#"{{"role":"system","content":{}}}"#, quote(text)));
    }
}

/// A client of Messages talks with a model of another vendor.
fn messages_talk(to: &Destination<'_>, system: &str, first: &Asked, rounds: &[Round]) {
    let way = Way::MessagesAsksChat;
    let tools = TOOLS.map(|name| format!(r#"{{"name":{},"input_schema":{{"type":"object"}}}}"#, quote(name)));
    let mut messages = Vec::new();
    blocks_asked(first, Vec::new(), &mut messages);
    let mut before = None;
    for (id, round) in rounds.iter().enumerate() {
        let asked = |messages: &[String]| {
            let (system, tools, messages) = (quote(system), list(&tools), list(messages));
            format!(r#"{{"max_tokens":99,"system":{system},"tools":{tools},"messages":{messages}}}"#)
        };
        let put = send(way, to, &asked(&messages), &mut before);
        let said = choice(id, &round.answer, &put.names);
        let answer = heard(way, &said, put.names, round.streamed);
        let answer: &RawValue = serde_json::from_str(&answer).unwrap();
        let content = member(answer, "content").unwrap();
        messages.push(format!(r#"{{"role":"assistant","content":{}}}"#, content.get()));
        let calls: Vec<Value> = serde_json::from_str(content.get()).unwrap();
        let mut results: Vec<String> = calls
            .iter()
            .filter(|block| block["type"] == "tool_use")
            .zip(&round.results)
            .map(|(call, result)| {
                let texts: Vec<_> =
                    result.iter().map(|text| Piece::Text(text.clone()).block(false)).collect();
                let (id, content) = (&call["id"], list(&texts));
                format!(r#"{{"type":"tool_result","tool_use_id":{id},"content":{content}}}"#)
            })
            .collect();
        if round.turned {
            results.reverse();
        }
        match results.is_empty() || round.asks {
            true => blocks_asked(&round.asked, results, &mut messages),
            false => messages.push(format!(r#"{{"role":"user","content":{}}}"#, list(&results))),
        }
        let next = send(way, to, &asked(&messages), &mut before);
        let sent: Value = serde_json::from_str(last_answer(&unmarked(&next.body)).get()).unwrap();
        let said: Value = serde_json::from_str(&said).unwrap();
        let said = &said["choices"][0]["message"];
        for what in ["content", "tool_calls"] {
            assert_eq!(sent[what], said[what], "the model's own words come back");
        }
        if to.replays_thoughts {
            let thought =
                |message: &Value| message["reasoning_content"].as_str().unwrap_or_default().to_owned();
            assert_eq!(thought(&sent), thought(said), "the model's own thoughts come back");
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn a_client_of_chat_completions_brings_claude_its_own_words(
        model in select(&["claude-opus-4-6", "claude-opus-5", "claude-opus-5-5", "claude-sonnet-4-5", "m"][..]),
        system in text(),
        first in asked(),
        rounds in prop::collection::vec(round(), 1..5),
    ) {
        chat_talks(model, None, &system, &first, &rounds);
    }

    #[test]
    fn also_while_it_thinks_by_a_budget(
        system in text(),
        first in asked(),
        mut rounds in prop::collection::vec(round(), 1..5),
    ) {
        // Such a model thinks before it does anything.
        for round in &mut rounds {
            round.answer.insert(0, Block::Thought { text: "hm".into(), signature: "Sig=".into() });
        }
        chat_talks("claude-sonnet-4-5", Some("high"), &system, &first, &rounds);
    }

    #[test]
    fn a_client_of_messages_brings_others_their_own_words(
        model in select(&["gpt-4.1", "gpt-5.1", "m"][..]),
        replays_thoughts in any::<bool>(),
        system in text(),
        first in asked(),
        rounds in prop::collection::vec(round(), 1..5),
    ) {
        let to = Destination { model, ask_usage: true, replays_thoughts, ..Destination::default() };
        messages_talk(&to, &system, &first, &rounds);
    }
}
