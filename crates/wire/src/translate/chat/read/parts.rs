//! The parts of a message's content.

use serde_json::value::RawValue;

use super::super::json::{entry, list, needed, plain_text, text, within};
use crate::fold::json::{Members, is_null};
use crate::translate::canon::{Cache, Part, Source, Text};
use crate::translate::{Dropped, Unfit};

/// A content: a text, or a list of parts.
pub(super) fn content<'a>(raw: &'a RawValue, dropped: &mut Dropped) -> Result<Vec<Part<'a>>, Unfit> {
    match raw.get().as_bytes() {
        [b'"', ..] => Ok(vec![Part::Text { text: text(raw, "content")?, cache: None }]),
        [b'[', ..] => {
            let read = |(at, raw)| part(raw, dropped).map_err(within(format_args!("content[{at}]")));
            list(raw, "content")?.into_iter().enumerate().map(read).collect()
        }
        _ => Err(Unfit::new("content", "'content' must be a string or a list of parts.")),
    }
}

fn part<'a>(raw: &'a RawValue, dropped: &mut Dropped) -> Result<Part<'a>, Unfit> {
    let said = entry(raw)?;
    let kind = text(needed(&said, "type")?, "type")?;
    let field: &str = &kind;
    let mut part = match field {
        "text" => Part::Text { text: text(needed(&said, "text")?, "text")?, cache: None },
        "refusal" => Part::Refusal { text: text(needed(&said, "refusal")?, "refusal")? },
        "image_url" => image(needed(&said, field)?, dropped)?,
        "file" => file(needed(&said, field)?, dropped).map_err(within(field))?,
        "input_audio" => audio(needed(&said, field)?, dropped).map_err(within(field))?,
        _ => return Ok(Part::Foreign { kind }),
    };
    for (key, raw) in said.iter().filter(|(key, raw)| *key != "type" && *key != field && !is_null(raw)) {
        match key {
            "cache_control" | "prompt_cache_breakpoint" => {
                if let Some(cache) = cache_of(key, raw, "messages.content", dropped) {
                    mark(&mut part, cache);
                }
            }
            _ => dropped.add(format!("messages.content.{key}")),
        }
    }
    Ok(part)
}

/// A mark up to which the prompt is to be cached; of OpenAI's own form, or of Anthropic's, which many clients send
/// to whoever serves Claude. OpenAI's lives for half an hour at least, which is not to become five minutes.
pub(super) fn cache_of(key: &str, raw: &RawValue, path: &str, dropped: &mut Dropped) -> Option<Cache> {
    let said = Members::of(raw);
    let ttl = said.as_ref().and_then(|said| said.text("ttl"));
    let cache = match (key, ttl.as_deref()) {
        _ if said.is_none() => None,
        ("cache_control", None | Some("5m")) => Some(Cache::Short),
        ("cache_control", Some("1h")) => Some(Cache::Long),
        ("prompt_cache_breakpoint", None | Some("30m" | "12h")) => Some(Cache::Long),
        _ => None,
    };
    if cache.is_none() {
        dropped.add(format!("{path}.{key}"));
    }
    cache
}

/// Marks the end of a part. What can't bear a mark stays as it is: marks are hints.
pub(super) fn mark(part: &mut Part<'_>, mark: Cache) {
    match part {
        Part::Text { cache, .. }
        | Part::Image { cache, .. }
        | Part::Document { cache, .. }
        | Part::Call { cache, .. }
        | Part::Result { cache, .. } => *cache = Some(mark),
        Part::Audio { .. } | Part::Thought(_) | Part::Refusal { .. } | Part::Foreign { .. } => {}
    }
}

fn image<'a>(raw: &'a RawValue, dropped: &mut Dropped) -> Result<Part<'a>, Unfit> {
    // A bare address is not OpenAI's form, but a common one.
    if let Some(url) = plain_text(raw) {
        return Ok(Part::Image { source: address(url, "image_url")?, detail: None, cache: None });
    }
    let said = entry(raw).map_err(within("image_url"))?;
    let url = needed(&said, "url").and_then(|raw| text(raw, "url")).map_err(within("image_url"))?;
    let source = address(url, "image_url.url")?;
    let mut detail = None;
    for (key, raw) in said.iter().filter(|(_, raw)| !is_null(raw)) {
        match key {
            "url" => {}
            "detail" => detail = Some(text(raw, "detail").map_err(within("image_url"))?),
            _ => dropped.add(format!("messages.content.image_url.{key}")),
        }
    }
    Ok(Part::Image { source, detail, cache: None })
}

/// Bytes in the address itself, or elsewhere.
fn address<'a>(url: Text<'a>, field: &str) -> Result<Source<'a>, Unfit> {
    if starts(&url, "data:") {
        return data(url)
            .ok_or_else(|| Unfit::new(field, "A data URL must have a media type and its bytes in base64."));
    }
    if starts(&url, "https://") || starts(&url, "http://") {
        return Ok(Source::Url(url));
    }
    Err(Unfit::new(field, "An image is at an address of the web or in a data URL."))
}

fn starts(url: &str, scheme: &str) -> bool {
    url.get(..scheme.len()).is_some_and(|start| start.eq_ignore_ascii_case(scheme))
}

/// The bytes of a data URL.
fn data(url: Text<'_>) -> Option<Source<'_>> {
    let comma = url.find(',')?;
    let head = url.get("data:".len()..comma)?;
    let end = head.len().checked_sub(";base64".len())?;
    if !head.get(end..)?.eq_ignore_ascii_case(";base64") {
        return None;
    }
    let kind = head[..end].split(';').next().filter(|kind| !kind.is_empty())?;
    let media_type = kind.to_ascii_lowercase().into();
    let data = match url {
        Text::Borrowed(url) => Text::Borrowed(&url[comma + 1..]),
        Text::Owned(mut url) => Text::Owned(url.split_off(comma + 1)),
    };
    Some(Source::Base64 { media_type, data })
}

fn file<'a>(raw: &'a RawValue, dropped: &mut Dropped) -> Result<Part<'a>, Unfit> {
    let said = entry(raw)?;
    let (mut name, mut source) = (None, None);
    for (key, raw) in said.iter().filter(|(_, raw)| !is_null(raw)) {
        match key {
            "filename" => name = Some(text(raw, key)?),
            "file_id" => source = Some(Source::File(text(raw, key)?)),
            "file_data" => {
                let told = || Unfit::new(key, "A data URL must have a media type and its bytes in base64.");
                let given = text(raw, key)?;
                source = Some(match starts(&given, "data:") {
                    true => data(given).ok_or_else(told)?,
                    false => Source::Base64 { media_type: "application/pdf".into(), data: given },
                });
            }
            _ => dropped.add(format!("messages.content.file.{key}")),
        }
    }
    let source = source.ok_or_else(|| Unfit::new("file_data", "A file needs 'file_data' or 'file_id'."))?;
    Ok(Part::Document { source, name, context: None, cache: None })
}

fn audio<'a>(raw: &'a RawValue, dropped: &mut Dropped) -> Result<Part<'a>, Unfit> {
    let said = entry(raw)?;
    for (key, _) in said.iter().filter(|(key, _)| !["data", "format"].contains(key)) {
        dropped.add(format!("messages.content.input_audio.{key}"));
    }
    let data = text(needed(&said, "data")?, "data")?;
    Ok(Part::Audio { data, format: text(needed(&said, "format")?, "format")? })
}
