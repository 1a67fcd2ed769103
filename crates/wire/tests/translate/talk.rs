//! Conversations as clients and providers have them.
//!
//! JSON is made as text, so that arguments of tools can be written in all the ways in which models write them.

use proptest::prelude::*;
use proptest::sample::select;

/// Tools that are offered; the last ones have names that no provider takes.
pub(super) const TOOLS: [&str; 4] = ["get_weather", "f-2", "files/read.all", "wetter_für_köln"];

/// Objects, in several hands.
const OBJECTS: [&str; 6] = [
    "{}",
    r#"{"a":1}"#,
    r#"{"b": 1.10, "a": [1, 2.50e3, null]}"#,
    r#"{ "z":{"y":"\u00e9\n\"\\"},"a":"Łódź 🙂" }"#,
    r#"{"input":"x"}"#,
    r#"{"big":12345678901234567890.000,"a":true}"#,
];

/// A text that says something.
pub(super) fn text() -> impl Strategy<Value = String> {
    prop_oneof![
        3 => select(&["a", "say \"it\"\n", "Żółw 🙂", " lead", "trail ", "{\"a\":1}", "<b>&amp;", "\u{2028}x\\"][..])
            .prop_map(str::to_owned),
        1 => "\\PC{1,8}x",
    ]
}

/// A JSON string.
pub(super) fn quote(text: &str) -> String {
    serde_json::to_string(text).unwrap()
}

/// A JSON list.
pub(super) fn list<T: AsRef<str>>(elements: &[T]) -> String {
    let elements: Vec<&str> = elements.iter().map(AsRef::as_ref).collect();
    format!("[{}]", elements.join(","))
}

pub(super) fn object() -> impl Strategy<Value = &'static str> {
    select(&OBJECTS[..])
}

/// A piece of what a user says.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Piece {
    Text(String),
    Image { media_type: &'static str, data: &'static str },
    ImageUrl(&'static str),
    Pdf { name: String, data: &'static str },
}

pub(super) fn piece() -> impl Strategy<Value = Piece> {
    prop_oneof![
        4 => text().prop_map(Piece::Text),
        1 => select(&["image/png", "image/webp"][..]).prop_map(|media_type| Piece::Image { media_type, data: "iVBORw0=" }),
        1 => Just(Piece::ImageUrl("https://example.com/a?b=\"c\"&d")),
        1 => text().prop_map(|name| Piece::Pdf { name, data: "JVBERi0=" }),
    ]
}

impl Piece {
    /// As a client of Chat Completions says it, with or without a mark.
    pub(super) fn chat(&self, marked: bool) -> String {
        let said = match self {
            Piece::Text(text) => format!(r#""type":"text","text":{}"#, quote(text)),
            Piece::Image { media_type, data } => {
                format!(r#""type":"image_url","image_url":{{"url":"data:{media_type};base64,{data}"}}"#)
            }
            Piece::ImageUrl(url) => format!(r#""type":"image_url","image_url":{{"url":{}}}"#, quote(url)),
            Piece::Pdf { name, data } => format!(
                r#""type":"file","file":{{"filename":{},"file_data":"data:application/pdf;base64,{data}"}}"#,
                quote(name)
            ),
        };
        let mark = if marked { r#","prompt_cache_breakpoint":{"mode":"explicit"}"# } else { "" };
        format!("{{{said}{mark}}}")
    }

    /// As a client of Messages says it.
    pub(super) fn block(&self, marked: bool) -> String {
        let said = match self {
            Piece::Text(text) => format!(r#""type":"text","text":{}"#, quote(text)),
            Piece::Image { media_type, data } => format!(
                r#""type":"image","source":{{"type":"base64","media_type":"{media_type}","data":"{data}"}}"#
            ),
            Piece::ImageUrl(url) => {
                format!(r#""type":"image","source":{{"type":"url","url":{}}}"#, quote(url))
            }
            Piece::Pdf { name, data } => format!(
                r#""type":"document","source":{{"type":"base64","media_type":"application/pdf","data":"{data}"}},"title":{}"#,
                quote(name)
            ),
        };
        let mark = if marked { r#","cache_control":{"type":"ephemeral"}"# } else { "" };
        format!("{{{said}{mark}}}")
    }
}

/// What the user does when it is the user's turn.
#[derive(Clone, Debug)]
pub(super) struct Asked {
    /// An instruction that comes first, where the model was just heard.
    pub(super) before: Option<String>,
    /// Messages, each of some pieces.
    pub(super) said: Vec<Vec<Piece>>,
    /// An instruction that comes last.
    pub(super) after: Option<String>,
    /// The last piece is marked.
    pub(super) marked: bool,
}

pub(super) fn asked() -> impl Strategy<Value = Asked> {
    let rarely = || prop::option::weighted(0.2, text());
    let said = prop::collection::vec(prop::collection::vec(piece(), 1..4), 1..3);
    (rarely(), said, rarely(), any::<bool>()).prop_map(|(before, said, after, marked)| Asked {
        before,
        said,
        after,
        marked,
    })
}

/// A block of what the model says.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Block {
    Thought { text: String, signature: String },
    Redacted(String),
    Text(String),
    Call { tool: usize, arguments: &'static str },
}

fn thought() -> impl Strategy<Value = Block> {
    let signature = || "[A-Za-z0-9+/]{8}={0,2}";
    prop_oneof![
        3 => (prop_oneof![1 => Just(String::new()), 3 => text()], signature())
            .prop_map(|(text, signature)| Block::Thought { text, signature }),
        1 => signature().prop_map(Block::Redacted),
    ]
}

/// What the model says: thoughts, a text, calls, and the same again. Between calls and another text it thinks.
pub(super) fn answer() -> impl Strategy<Value = Vec<Block>> {
    let call = || (0..TOOLS.len(), object()).prop_map(|(tool, arguments)| Block::Call { tool, arguments });
    let said = move |least: usize| {
        let thoughts = prop::collection::vec(thought(), least..3);
        let text =
            prop::option::of(prop_oneof![4 => text(), 1 => Just("\n\n".to_owned())].prop_map(Block::Text));
        (thoughts, text, prop::collection::vec(call(), 0..3)).prop_map(|(thoughts, text, calls)| {
            thoughts.into_iter().chain(text).chain(calls).collect::<Vec<_>>()
        })
    };
    (said(0), prop::collection::vec(said(1), 0..3), text()).prop_map(|(mut first, more, last)| {
        first.extend(more.into_iter().flatten());
        let is_real = |block: &Block| match block {
            Block::Thought { .. } | Block::Redacted(_) => false,
            Block::Text(text) => !text.trim().is_empty(),
            Block::Call { .. } => true,
        };
        if !first.iter().any(is_real) {
            first.retain(|block| !matches!(block, Block::Text(_)));
            first.push(Block::Text(last));
        }
        first
    })
}

/// What a tool gives back: texts.
pub(super) fn result() -> impl Strategy<Value = Vec<String>> {
    prop::collection::vec(text(), 0..3)
}

/// From one question to the next.
#[derive(Clone, Debug)]
pub(super) struct Round {
    pub(super) answer: Vec<Block>,
    /// For each call that may be there.
    pub(super) results: Vec<Vec<String>>,
    /// The results come in another order than the calls.
    pub(super) turned: bool,
    /// What the user says then; after results not always.
    pub(super) asked: Asked,
    pub(super) asks: bool,
    /// The answer comes as a stream.
    pub(super) streamed: bool,
}

pub(super) fn round() -> impl Strategy<Value = Round> {
    let results = prop::collection::vec(result(), 12);
    (answer(), results, any::<bool>(), asked(), any::<bool>(), any::<bool>()).prop_map(
        |(answer, results, turned, asked, asks, streamed)| Round {
            answer,
            results,
            turned,
            asked,
            asks,
            streamed,
        },
    )
}
