//! What a user's message is made of.

use super::messages::path;
use crate::translate::Unfit;
use crate::translate::canon::{Part, Source, Text, Turn};
use crate::translate::json::{Object, put_list, put_text};

/// A piece of a user's message, known to be one that can be written.
pub(super) enum Piece<'a> {
    /// A text of the client's.
    Text(&'a str),
    /// A text of ours that says what follows.
    Note(String),
    /// A picture at an address.
    Image { url: &'a str, detail: Option<&'a str> },
    /// A picture that is here.
    Bytes { media_type: &'a str, data: &'a str, detail: Option<&'a str> },
    /// A document that is here.
    File { media_type: &'a str, data: &'a str, name: Option<&'a str> },
    /// Sound.
    Audio { data: &'a str, format: &'a str },
}

/// What a part of a user's turn amounts to.
pub(super) fn pieces<'a>(
    turn: &Turn<'_>,
    at: usize,
    part: &'a Part<'_>,
    pieces: &mut Vec<Piece<'a>>,
) -> Result<(), Unfit> {
    let unfit = |told: &str| Err(Unfit::new(path(turn, at), told));
    match part {
        Part::Text { text, .. } => pieces.push(Piece::Text(text)),
        Part::Audio { data, format } => pieces.push(Piece::Audio { data, format }),
        Part::Image { source, detail, .. } => {
            let detail = detail.as_deref();
            pieces.push(match source {
                Source::Url(url) => Piece::Image { url, detail },
                Source::Base64 { media_type, data } => Piece::Bytes { media_type, data, detail },
                Source::File(_) => return unfit(OF_ANOTHER),
                Source::Plain(_) => return unfit("An image is no text."),
            });
        }
        Part::Document { source, name, context, .. } => {
            let name = name.as_deref();
            match source {
                Source::Plain(text) => {
                    pieces.extend(about(name, context.as_deref()).map(Piece::Note));
                    pieces.push(Piece::Text(text));
                }
                Source::Base64 { media_type, data } if media_type == "application/pdf" => {
                    pieces.extend(about(None, context.as_deref()).map(Piece::Note));
                    pieces.push(Piece::File { media_type, data, name });
                }
                Source::Base64 { .. } => return unfit("The provider takes documents as PDF or text only."),
                Source::Url(_) => return unfit("The provider fetches no documents. Send it in base64."),
                Source::File(_) => return unfit(OF_ANOTHER),
            }
        }
        Part::Foreign { kind } => return Err(foreign(turn, at, kind)),
        _ => return unfit("Such a block can't stand here."),
    }
    Ok(())
}

const OF_ANOTHER: &str =
    "A file that was uploaded to one provider is unknown to another. Send its bytes in base64.";

/// A block that has no other protocol's words.
pub(super) fn foreign(turn: &Turn<'_>, at: usize, kind: &str) -> Unfit {
    let told = format!("Blocks of the type '{kind}' can't be had from a provider of another protocol.");
    Unfit::new(path(turn, at), told)
}

/// The words in front of a document.
fn about(name: Option<&str>, context: Option<&str>) -> Option<String> {
    match (name, context) {
        (None, None) => None,
        (Some(name), None) => Some(format!("Document: {name}")),
        (None, Some(context)) => Some(format!("About the document: {context}")),
        (Some(name), Some(context)) => Some(format!("Document: {name}\nAbout the document: {context}")),
    }
}

/// The texts of what a tool gave back, and those that its documents amount to.
pub(super) fn texts<'a>(parts: &'a [Part<'_>]) -> Vec<Text<'a>> {
    let mut texts = Vec::with_capacity(parts.len());
    for part in parts {
        match part {
            Part::Text { text, .. } => texts.push(Text::Borrowed(&**text)),
            Part::Document { source: Source::Plain(text), name, context, .. } => {
                texts.extend(about(name.as_deref(), context.as_deref()).map(Text::Owned));
                texts.push(Text::Borrowed(&**text));
            }
            _ => {}
        }
    }
    texts
}

/// What of it is no text, and can't stand in the tool's own message.
pub(super) fn attached<'a>(
    turn: &Turn<'_>,
    at: usize,
    parts: &'a [Part<'_>],
) -> Result<Vec<Piece<'a>>, Unfit> {
    let mut attached = Vec::new();
    for part in parts {
        if !matches!(part, Part::Text { .. } | Part::Document { source: Source::Plain(_), .. }) {
            pieces(turn, at, part, &mut attached)?;
        }
    }
    Ok(attached)
}

/// Writes a content: a text that is alone as it is, else parts.
pub(super) fn put(out: &mut Vec<u8>, pieces: &[Piece<'_>]) {
    match pieces {
        [] => put_text(out, ""),
        [Piece::Text(text)] => put_text(out, text),
        pieces => put_list(out, pieces, |piece, out| put_piece(out, piece)),
    }
}

fn put_piece(out: &mut Vec<u8>, piece: &Piece<'_>) {
    match piece {
        Piece::Text(text) => put_text_part(out, text),
        Piece::Note(text) => put_text_part(out, text),
        Piece::Image { url, detail } => {
            put_part(out, "image_url", |image| {
                image.text("url", url);
                image.maybe("detail", *detail);
            });
        }
        Piece::Bytes { media_type, data, detail } => {
            put_part(out, "image_url", |image| {
                put_data(image.key("url"), media_type, data);
                image.maybe("detail", *detail);
            });
        }
        Piece::File { media_type, data, name } => {
            put_part(out, "file", |file| {
                file.text("filename", name.unwrap_or("document.pdf"));
                put_data(file.key("file_data"), media_type, data);
            });
        }
        Piece::Audio { data, format } => {
            put_part(out, "input_audio", |audio| {
                audio.text("data", data);
                audio.text("format", format);
            });
        }
    }
}

/// A part of nothing but text.
pub(super) fn put_text_part(out: &mut Vec<u8>, text: &str) {
    let mut part = Object::begin(out);
    part.text("type", "text");
    part.text("text", text);
    part.end();
}

/// A part whose one member bears the name of its type.
fn put_part(out: &mut Vec<u8>, kind: &'static str, write: impl FnOnce(&mut Object<'_>)) {
    let mut part = Object::begin(out);
    part.text("type", kind);
    let mut inner = part.object(kind);
    write(&mut inner);
    inner.end();
    part.end();
}

/// A data URL.
fn put_data(out: &mut Vec<u8>, media_type: &str, data: &str) {
    put_text(out, &format!("data:{media_type};base64,{data}"));
}
