//! From one protocol to the other and back: nothing is lost but what is named.

use proptest::prelude::*;
use proptest::sample::select;
use serde_json::json;
use wire::translate::{Destination, Put};

use super::Way;
use super::said::{Returned, Run, Said, of_chat, of_messages};
use super::talk::{Asked, Block, Piece, Round, asked, list, quote, round, text};

/// Tools with names that all providers take.
const TOOLS: [&str; 5] = ["get_weather", "f-2", "read_all", "wetter", "t"];

/// A model of Claude's kind that takes all that there is.
const CLAUDE: &str = "claude-next-7";

fn send(way: Way, model: &str, asked: &str) -> (Put, String) {
    let to = Destination { model, default_limit: 32_000, ..Destination::default() };
    let put = way.crossing().request(asked.as_bytes(), &to);
    let put = put.unwrap_or_else(|unfit| panic!("{}: {unfit}: {asked}", unfit.field));
    let sent = String::from_utf8(put.body.clone()).unwrap();
    (put, sent)
}

fn names(put: &Put, name: &str) -> bool {
    put.dropped.names().any(|dropped| dropped == name)
}

/// Members of a request beside its messages, in the words of either protocol.
#[derive(Clone, Debug)]
struct Settings {
    temperature: Option<&'static str>,
    top_p: Option<&'static str>,
    stop: Vec<&'static str>,
    limit: Option<u64>,
    effort: Option<&'static str>,
    schema: bool,
    user: bool,
    choice: Option<&'static str>,
    one_at_a_time: bool,
    strict: Option<bool>,
}

const SCHEMA: &str = r#"{"type":"object", "properties":{"n":{"type":"number","minimum":1.0}}}"#;

fn settings() -> impl Strategy<Value = Settings> {
    let number = |numbers: &'static [&'static str]| prop::option::of(select(numbers));
    let some = (
        number(&["0", "0.70", "1", "1.5"]),
        number(&["0.90", "1"]),
        prop::collection::vec(select(&["END", "\n", "</a>"][..]), 0..4),
        prop::option::of(1_u64..9000),
        prop::option::of(select(&["none", "minimal", "low", "medium", "high", "xhigh", "max"][..])),
    );
    let choice = prop::option::of(select(&["auto", "none", "required", "f-2"][..]));
    let others = (any::<bool>(), any::<bool>(), choice, any::<bool>(), prop::option::of(any::<bool>()));
    (some, others).prop_map(|((temperature, top_p, stop, limit, effort), others)| {
        let (schema, user, choice, one_at_a_time, strict) = others;
        Settings { temperature, top_p, stop, limit, effort, schema, user, choice, one_at_a_time, strict }
    })
}

impl Settings {
    fn common(&self) -> Vec<String> {
        let mut fields = Vec::new();
        fields.extend(self.temperature.map(|number| format!(r#""temperature":{number}"#)));
        fields.extend(self.top_p.map(|number| format!(r#""top_p":{number}"#)));
        fields
    }

    fn chat(&self) -> Vec<String> {
        let mut fields = self.common();
        if !self.stop.is_empty() {
            fields.push(format!(r#""stop":{}"#, json!(self.stop)));
        }
        fields.extend(self.limit.map(|limit| format!(r#""max_completion_tokens":{limit}"#)));
        fields.extend(self.effort.map(|effort| format!(r#""reasoning_effort":"{effort}""#)));
        if self.schema {
            let form = format!(r#"{{"name":"form","schema":{SCHEMA}}}"#);
            fields.push(format!(r#""response_format":{{"type":"json_schema","json_schema":{form}}}"#));
        }
        fields.extend(self.user.then(|| r#""user":"u-1""#.to_owned()));
        fields.extend(self.choice.map(|choice| match choice {
            "f-2" => r#""tool_choice":{"type":"function","function":{"name":"f-2"}}"#.to_owned(),
            word => format!(r#""tool_choice":"{word}""#),
        }));
        fields.extend(self.one_at_a_time.then(|| r#""parallel_tool_calls":false"#.to_owned()));
        let strict = self.strict.map_or(String::new(), |strict| format!(r#","strict":{strict}"#));
        let tools = TOOLS.map(|name| {
            let (name, schema) = (quote(name), r#"{ "type":"object","x":1.10}"#);
            let function =
                format!(r#"{{"name":{name},"description":"d \"q\"","parameters":{schema}{strict}}}"#);
            format!(r#"{{"type":"function","function":{function}}}"#)
        });
        fields.push(format!(r#""tools":{}"#, list(&tools)));
        fields
    }

    fn messages(&self) -> Vec<String> {
        let mut fields = self.common();
        if !self.stop.is_empty() {
            fields.push(format!(r#""stop_sequences":{}"#, json!(self.stop)));
        }
        fields.push(format!(r#""max_tokens":{}"#, self.limit.unwrap_or(4096)));
        let effort = match self.effort {
            Some("none") => {
                fields.push(r#""thinking":{"type":"disabled"}"#.into());
                None
            }
            Some("minimal") => {
                fields.push(r#""thinking":{"type":"enabled","budget_tokens":5000}"#.into());
                None
            }
            effort => effort.map(|effort| format!(r#""effort":"{effort}""#)),
        };
        let form = self.schema.then(|| format!(r#""format":{{"type":"json_schema","schema":{SCHEMA}}}"#));
        let output: Vec<String> = effort.into_iter().chain(form).collect();
        if !output.is_empty() {
            fields.push(format!(r#""output_config":{{{}}}"#, output.join(",")));
        }
        fields.extend(self.user.then(|| r#""metadata":{"user_id":"u-1"}"#.to_owned()));
        if let Some(choice) = self.choice {
            let kind = match choice {
                "required" => r#""type":"any""#,
                "f-2" => r#""type":"tool","name":"f-2""#,
                "none" => r#""type":"none""#,
                _ => r#""type":"auto""#,
            };
            let one = if self.one_at_a_time { r#","disable_parallel_tool_use":true"# } else { "" };
            fields.push(format!(r#""tool_choice":{{{kind}{one}}}"#));
        }
        let strict = self.strict.map_or(String::new(), |strict| format!(r#","strict":{strict}"#));
        let tools = TOOLS.map(|name| {
            let (name, schema) = (quote(name), r#"{ "type":"object","x":1.10}"#);
            format!(r#"{{"name":{name},"description":"d \"q\"","input_schema":{schema}{strict}}}"#)
        });
        fields.push(format!(r#""tools":{}"#, list(&tools)));
        fields
    }
}

fn system(text: &Option<String>) -> Option<String> {
    text.as_ref().map(|text| format!(r#"{{"role":"system","content":{}}}"#, quote(text)))
}

/// A whole request of a client of Chat Completions.
fn chat(first: &Asked, rounds: &[Round], settings: &Settings) -> String {
    let mut messages = vec![r#"{"role":"system","content":"You help."}"#.to_owned()];
    let user = |asked: &Asked, messages: &mut Vec<String>| {
        messages.extend(system(&asked.before));
        for pieces in &asked.said {
            let parts: Vec<_> = pieces.iter().map(|piece| piece.chat(asked.marked)).collect();
            messages.push(format!(r#"{{"role":"user","content":{}}}"#, list(&parts)));
        }
        messages.extend(system(&asked.after));
    };
    user(first, &mut messages);
    for (n, round) in rounds.iter().enumerate() {
        let (mut text, mut calls, mut thoughts) = (String::new(), Vec::new(), Vec::new());
        for block in &round.answer {
            let place = format!(r#""text_before":{},"calls_before":{}"#, text.chars().count(), calls.len());
            match block {
                Block::Text(more) => text.push_str(more),
                Block::Thought { text, signature } => thoughts.push(format!(
                    r#"{{"type":"reasoning.text","text":{},"signature":"{signature}",{place}}}"#,
                    quote(text)
                )),
                Block::Redacted(data) => {
                    thoughts.push(format!(r#"{{"type":"reasoning.encrypted","data":"{data}",{place}}}"#));
                }
                Block::Call { tool, arguments } => calls.push(format!(
                    r#"{{"id":"call_{n}_{}","type":"function","function":{{"name":"{}","arguments":{}}}}}"#,
                    calls.len(),
                    TOOLS[*tool],
                    quote(arguments)
                )),
            }
        }
        let mut message = format!(r#""role":"assistant","content":{}"#, quote(&text));
        for (name, list_of) in [("reasoning_details", &thoughts), ("tool_calls", &calls)] {
            if !list_of.is_empty() {
                message.push_str(&format!(r#","{name}":{}"#, list(list_of)));
            }
        }
        messages.push(format!("{{{message}}}"));
        for (at, result) in round.results[..calls.len()].iter().enumerate() {
            let parts: Vec<_> = result.iter().map(|text| Piece::Text(text.clone()).chat(false)).collect();
            let content = list(&parts);
            messages.push(format!(r#"{{"role":"tool","tool_call_id":"call_{n}_{at}","content":{content}}}"#));
        }
        if calls.is_empty() || round.asks {
            user(&round.asked, &mut messages);
        }
    }
    let mut fields = settings.chat();
    fields.push(format!(r#""messages":{}"#, list(&messages)));
    format!("{{{}}}", fields.join(","))
}

/// A whole request of a client of Messages. `failed` calls are told to have failed, and some results show a picture.
fn messages(first: &Asked, rounds: &[Round], settings: &Settings, failed: bool) -> String {
    let mut messages = Vec::new();
    let user = |asked: Option<&Asked>, mut blocks: Vec<String>, messages: &mut Vec<String>| {
        let pieces = asked
            .into_iter()
            .flat_map(|asked| asked.said.iter().flatten().map(|piece| (asked.marked, piece)));
        blocks.extend(pieces.map(|(marked, piece)| piece.block(marked)));
        messages.push(format!(r#"{{"role":"user","content":{}}}"#, list(&blocks)));
        messages.extend(asked.and_then(|asked| system(&asked.after)));
    };
    user(Some(first), Vec::new(), &mut messages);
    for (n, round) in rounds.iter().enumerate() {
        let (mut blocks, mut results) = (Vec::new(), Vec::new());
        for block in &round.answer {
            blocks.push(match block {
                Block::Text(text) => Piece::Text(text.clone()).block(false),
                Block::Thought { text, signature } => {
                    format!(r#"{{"type":"thinking","thinking":{},"signature":"{signature}"}}"#, quote(text))
                }
                Block::Redacted(data) => format!(r#"{{"type":"redacted_thinking","data":"{data}"}}"#),
                Block::Call { tool, arguments } => {
                    let (id, name) = (format!("toolu_{n}_{}", results.len()), TOOLS[*tool]);
                    let said = &round.results[results.len()];
                    let mut parts: Vec<_> =
                        said.iter().map(|text| Piece::Text(text.clone()).block(false)).collect();
                    if round.turned {
                        parts.push(Piece::Image { media_type: "image/png", data: "AA==" }.block(false));
                    }
                    let error = if failed { r#","is_error":true"# } else { "" };
                    let content = list(&parts);
                    results.push(format!(
                        r#"{{"type":"tool_result","tool_use_id":"{id}","content":{content}{error}}}"#
                    ));
                    format!(r#"{{"type":"tool_use","id":"{id}","name":"{name}","input":{arguments}}}"#)
                }
            });
        }
        messages.push(format!(r#"{{"role":"assistant","content":{}}}"#, list(&blocks)));
        let asks = results.is_empty() || round.asks;
        user(asks.then_some(&round.asked), results, &mut messages);
    }
    let mut fields = settings.messages();
    fields.push(r#""system":[{"type":"text","text":"You help."},{"type":"text","text":"Much."}]"#.to_owned());
    fields.push(format!(r#""messages":{}"#, list(&messages)));
    format!("{{{}}}", fields.join(","))
}

/// Puts aside what of the smaller members may differ, having seen that it was named or changes nothing.
fn settle(before: &mut Said, after: &mut Said, put: &Put) {
    for (name, was, is) in [
        ("temperature", &mut before.temperature, &mut after.temperature),
        ("top_p", &mut before.top_p, &mut after.top_p),
    ] {
        let usual = was.parse() == Ok(1.0) && is.is_empty();
        assert!(was == is || usual || names(put, name), "{name} was {was} and is {is}");
        is.clone_from(was);
    }
    if after.stop != before.stop {
        assert!(names(put, "stop"));
        before.stop.retain(|stop| !stop.trim().is_empty());
    }
}

/// What a provider of Chat Completions hears of what a client of Messages said: a failure is told in words, and a
/// picture of a tool is shown by the user. Thoughts are left out, and named.
fn in_words(mut said: Said) -> Said {
    said.thoughts().for_each(Vec::clear);
    for run in &mut said.runs {
        let Run::User { results, parts, .. } = run else { continue };
        let mut shown = Vec::new();
        for Returned { id, parts, failed } in results.iter_mut() {
            let (images, mut texts): (Vec<_>, Vec<_>) =
                parts.drain(..).partition(|part| part.starts_with("image "));
            if !images.is_empty() {
                shown.push(format!("text Of the result of the call {id}:"));
                if texts.is_empty() {
                    texts.push("text The result is in the next message of the user.".into());
                }
                shown.extend(images);
            }
            if std::mem::take(failed) {
                let first = if texts.is_empty() { "text ".into() } else { texts.remove(0) };
                texts.insert(0, first.replacen("text ", "text Error: ", 1));
            }
            *parts = texts;
        }
        parts.splice(0..0, shown);
    }
    said
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn from_chat_completions_to_messages_and_back(
        first in asked(),
        rounds in prop::collection::vec(round(), 0..4),
        settings in settings(),
    ) {
        let asked = chat(&first, &rounds, &settings);
        let (put, sent) = send(Way::ChatAsksMessages, CLAUDE, &asked);
        let (mut before, mut there) = (of_chat(&asked), of_messages(&sent));
        before.limit = settings.limit.unwrap_or(32_000).to_string();
        if before.effort == "minimal" {
            before.effort = "low".into();
        }
        // Said only where something is to be said of it.
        if before.one_at_a_time && before.choice.is_empty() {
            before.choice = "auto".into();
        }
        before.one_at_a_time &= before.choice != "none";
        for run in &mut before.runs {
            if let Run::Assistant { text, .. } = run && text.trim().is_empty() {
                text.clear();
            }
        }
        settle(&mut before, &mut there, &put);
        prop_assert_eq!(&before, &there);

        let (put, sent) = send(Way::MessagesAsksChat, "m", &sent);
        let mut back = of_chat(&sent);
        let thinks = before.thoughts().any(|thoughts| !thoughts.is_empty());
        prop_assert_eq!(names(&put, "messages.thinking"), thinks);
        before.thoughts().for_each(Vec::clear);
        if before.effort == "none" {
            prop_assert!(names(&put, "thinking"));
            before.effort.clear();
        }
        back.temperature.clone_from(&before.temperature);
        back.top_p.clone_from(&before.top_p);
        prop_assert_eq!(before, back);
    }

    #[test]
    fn from_messages_to_chat_completions_and_back(
        first in asked(),
        rounds in prop::collection::vec(round(), 0..4),
        settings in settings(),
        failed in any::<bool>(),
    ) {
        let asked = messages(&first, &rounds, &settings, failed);
        let (put, sent) = send(Way::MessagesAsksChat, "m", &asked);
        let (mut before, mut there) = (of_messages(&asked), of_chat(&sent));
        let thinks = before.thoughts().any(|thoughts| !thoughts.is_empty());
        prop_assert_eq!(names(&put, "messages.thinking"), thinks);
        let mut before = in_words(before);
        match &*before.effort {
            "none" => {
                prop_assert!(names(&put, "thinking"));
                before.effort.clear();
            }
            "5000 tokens" => before.effort = "medium".into(),
            _ => {}
        }
        settle(&mut before, &mut there, &put);
        prop_assert_eq!(&before, &there);

        let (put, sent) = send(Way::ChatAsksMessages, CLAUDE, &sent);
        let mut back = of_messages(&sent);
        before.one_at_a_time &= before.choice != "none";
        for run in &mut before.runs {
            if let Run::Assistant { text, .. } = run && text.trim().is_empty() {
                text.clear();
            }
        }
        settle(&mut before, &mut back, &put);
        prop_assert_eq!(before, back);
    }

    #[test]
    fn marks_are_kept_as_far_as_there_is_room(first in asked(), texts in prop::collection::vec(text(), 0..6)) {
        let parts: Vec<_> = texts.iter().map(|text| Piece::Text(text.clone()).chat(true)).collect();
        let pieces: Vec<_> = first.said.iter().flatten().map(|piece| piece.chat(first.marked)).collect();
        let all = list(&[pieces, parts].concat());
        let asked = format!(r#"{{"messages":[{{"role":"user","content":{all}}}]}}"#);
        let marks = |text: &str, mark: &str| text.matches(mark).count();
        let (_, sent) = send(Way::ChatAsksMessages, CLAUDE, &asked);
        prop_assert_eq!(marks(&sent, r#""cache_control":"#), marks(&asked, r#""prompt_cache_breakpoint":"#).min(4));
        let (put, sent) = send(Way::MessagesAsksChat, "m", &sent);
        prop_assert_eq!(marks(&sent, "cache"), 0);
        prop_assert_eq!(names(&put, "cache_control"), asked.contains("prompt_cache_breakpoint"));
    }
}
