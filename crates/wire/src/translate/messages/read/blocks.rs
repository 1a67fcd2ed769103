//! The blocks of a message.

use serde::Deserialize;
use serde_json::value::RawValue;

use super::super::json::{
    At, Raw, boolean, is_empty, is_object, is_text, json, list, object, part, record, string, text,
};
use super::texts;
use crate::translate::canon::{Arguments, Cache, Part, Seal, Source, Text, Thought};
use crate::translate::{Dropped, Unfit};

/// All members that any block has which is read, and the names of the others.
#[derive(Default)]
struct Block<'a> {
    kind: Raw<'a>,
    text: Raw<'a>,
    cache_control: Raw<'a>,
    citations: Raw<'a>,
    source: Raw<'a>,
    title: Raw<'a>,
    context: Raw<'a>,
    content: Raw<'a>,
    thinking: Raw<'a>,
    signature: Raw<'a>,
    data: Raw<'a>,
    id: Raw<'a>,
    name: Raw<'a>,
    input: Raw<'a>,
    tool_use_id: Raw<'a>,
    is_error: Raw<'a>,
    others: Vec<Text<'a>>,
}

impl<'a> Block<'a> {
    fn read(raw: &'a RawValue, at: &At<'_>) -> Result<Block<'a>, Unfit> {
        let mut block = Block::default();
        for (name, raw) in object(raw, at)? {
            let member = match &*name {
                "type" => &mut block.kind,
                "text" => &mut block.text,
                "cache_control" => &mut block.cache_control,
                "citations" => &mut block.citations,
                "source" => &mut block.source,
                "title" => &mut block.title,
                "context" => &mut block.context,
                "content" => &mut block.content,
                "thinking" => &mut block.thinking,
                "signature" => &mut block.signature,
                "data" => &mut block.data,
                "id" => &mut block.id,
                "name" => &mut block.name,
                "input" => &mut block.input,
                "tool_use_id" => &mut block.tool_use_id,
                "is_error" => &mut block.is_error,
                _ => {
                    block.others.push(name);
                    continue;
                }
            };
            *member = Some(raw);
        }
        Ok(block)
    }
}

/// A content: a string, or a list of blocks.
pub(super) fn parts<'a>(
    raw: &'a RawValue,
    at: &At<'_>,
    dropped: &mut Dropped,
) -> Result<Vec<Part<'a>>, Unfit> {
    contents(raw, at, false, dropped)
}

/// The same, `within` the result of a tool or not.
fn contents<'a>(
    raw: &'a RawValue,
    at: &At<'_>,
    within: bool,
    dropped: &mut Dropped,
) -> Result<Vec<Part<'a>>, Unfit> {
    if is_text(raw) {
        return Ok(vec![Part::Text { text: string(raw, at)?, cache: None }]);
    }
    let blocks = list(raw, at)?;
    blocks.into_iter().enumerate().map(|(n, raw)| block(raw, &At::Element(at, n), within, dropped)).collect()
}

fn block<'a>(raw: &'a RawValue, at: &At<'_>, within: bool, dropped: &mut Dropped) -> Result<Part<'a>, Unfit> {
    let block = Block::read(raw, at)?;
    let cache = block.cache_control.map(|raw| cache(raw, &At::Member(at, "cache_control"))).transpose()?;
    let kind = needed(block.kind, at, "type")?;
    let part = match &*kind {
        "text" => {
            if block.citations.is_some_and(|raw| !is_empty(raw)) {
                dropped.add("citations");
            }
            Part::Text { text: needed(block.text, at, "text")?, cache }
        }
        "image" => {
            let source = source(block.source, &At::Member(at, "source"), dropped)?;
            Part::Image { source, detail: None, cache }
        }
        "document" => {
            if block.citations.is_some_and(|raw| !is_empty(raw)) {
                dropped.add("citations");
            }
            let source = source(block.source, &At::Member(at, "source"), dropped)?;
            Part::Document { source, name: text(block.title), context: text(block.context), cache }
        }
        "search_result" => Part::Text { text: found(&block, at)?.into(), cache },
        "thinking" => {
            let signature = text(block.signature).filter(|signature| !signature.is_empty());
            let text = text(block.thinking).unwrap_or_default();
            Part::Thought(Thought { text, seal: signature.map(Seal::Signature), place: None })
        }
        "redacted_thinking" => {
            let seal = Some(Seal::Encrypted(needed(block.data, at, "data")?));
            Part::Thought(Thought { text: "".into(), seal, place: None })
        }
        "tool_use" => Part::Call {
            id: needed(block.id, at, "id")?,
            name: needed(block.name, at, "name")?,
            arguments: input(block.input, &At::Member(at, "input"))?,
            cache,
        },
        // No result stands in another, however deep somebody might put them.
        "tool_result" if !within => {
            let here = At::Member(at, "content");
            let parts = block.content.map(|raw| contents(raw, &here, true, dropped)).transpose()?;
            let failed = block.is_error.map(|raw| boolean(raw, &At::Member(at, "is_error"))).transpose()?;
            Part::Result {
                id: needed(block.tool_use_id, at, "tool_use_id")?,
                parts: parts.unwrap_or_default(),
                is_error: failed.unwrap_or(false),
                cache,
            }
        }
        // No other protocol can say it, and so it is refused as a whole.
        _ => return Ok(Part::Foreign { kind }),
    };
    block.others.iter().for_each(|name| dropped.add(at.left_out(name)));
    Ok(part)
}

fn needed<'a>(raw: Raw<'a>, at: &At<'_>, name: &str) -> Result<Text<'a>, Unfit> {
    let at = At::Member(at, name);
    string(raw.ok_or_else(|| at.unfit(format!("{at} is missing")))?, &at)
}

fn input<'a>(raw: Raw<'a>, at: &At<'_>) -> Result<Arguments<'a>, Unfit> {
    match raw {
        Some(raw) if is_object(raw.get()) => Ok(Arguments::Json(json(raw))),
        Some(_) => Err(at.unfit(format!("{at} has to be an object"))),
        None => Err(at.unfit(format!("{at} is missing"))),
    }
}

/// How long a prompt is to be cached up to some place.
pub(super) fn cache(raw: &RawValue, at: &At<'_>) -> Result<Cache, Unfit> {
    #[derive(Deserialize)]
    struct Mark<'a> {
        #[serde(borrow)]
        ttl: Raw<'a>,
    }
    let mark: Mark<'_> = record(raw, at)?;
    match mark.ttl.map(|raw| string(raw, &At::Member(at, "ttl"))).transpose()?.as_deref() {
        Some("1h") => Ok(Cache::Long),
        _ => Ok(Cache::Short),
    }
}

fn source<'a>(raw: Raw<'a>, at: &At<'_>, dropped: &mut Dropped) -> Result<Source<'a>, Unfit> {
    #[derive(Default)]
    struct From<'a> {
        kind: Raw<'a>,
        media_type: Raw<'a>,
        data: Raw<'a>,
        url: Raw<'a>,
        file_id: Raw<'a>,
        content: Raw<'a>,
    }
    let mut from = From::default();
    for (name, raw) in object(raw.ok_or_else(|| at.unfit(format!("{at} is missing")))?, at)? {
        match &*name {
            "type" => from.kind = Some(raw),
            "media_type" => from.media_type = Some(raw),
            "data" => from.data = Some(raw),
            "url" => from.url = Some(raw),
            "file_id" => from.file_id = Some(raw),
            "content" => from.content = Some(raw),
            _ => dropped.add(at.left_out(&name)),
        }
    }
    let source = match &*needed(from.kind, at, "type")? {
        "base64" => Source::Base64 {
            media_type: needed(from.media_type, at, "media_type")?,
            data: needed(from.data, at, "data")?,
        },
        "url" => Source::Url(needed(from.url, at, "url")?),
        "file" => Source::File(needed(from.file_id, at, "file_id")?),
        "text" => Source::Plain(needed(from.data, at, "data")?),
        "content" => {
            let said = from.content.and_then(texts);
            let at = At::Member(at, "content");
            Source::Plain(said.ok_or_else(|| at.unfit("only texts can stand in a document here"))?.into())
        }
        other => return Err(at.unfit(format!("a source of type {other} is not known"))),
    };
    Ok(source)
}

/// A search result as text: what it is, where it is from, what it says.
fn found(block: &Block<'_>, at: &At<'_>) -> Result<String, Unfit> {
    let said = block.content.and_then(texts);
    let said = said.ok_or_else(|| At::Member(at, "content").unfit("a search result is a list of texts"))?;
    let head = [text(block.title), part::<String>(block.source).map(Text::from)];
    let lines = head.into_iter().flatten().filter(|line| !line.is_empty());
    Ok(lines.chain([said.into()]).collect::<Vec<_>>().join("\n"))
}
