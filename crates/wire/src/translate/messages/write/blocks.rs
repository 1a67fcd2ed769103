//! The blocks of the messages.

use std::collections::HashMap;

use super::super::json::is_object;
use super::ids::Ids;
use super::marks::{Marks, Section};
use super::turns::{Block, Message, What};
use crate::translate::canon::{Arguments, Cache, Part, Role, Seal, Source};
use crate::translate::json::{Object, try_list};
use crate::translate::{Dropped, Names, Unfit};

/// What the writing of blocks needs.
pub(super) struct Pen<'a, 'w> {
    pub(super) names: &'w Names,
    /// The tools that there are; whether they take free text.
    pub(super) tools: HashMap<&'a str, bool>,
    pub(super) ids: Ids<'a>,
    pub(super) marks: &'w mut Marks,
    pub(super) dropped: &'w mut Dropped,
}

/// The pictures that are taken.
const IMAGES: [&str; 4] = ["image/jpeg", "image/png", "image/gif", "image/webp"];

impl<'a> Pen<'a, '_> {
    /// Writes one message. Its content is always a list: one that grows begins as it did.
    pub(super) fn message(&mut self, message: &Message<'a>, out: &mut Vec<u8>) -> Result<(), Unfit> {
        let mut object = Object::begin(out);
        let role = match message.role {
            Role::User => "user",
            Role::Assistant => "assistant",
            Role::System => "system",
        };
        object.text("role", role);
        try_list(object.key("content"), &message.blocks, |block, out| self.block(block, out))?;
        object.end();
        match message.role {
            Role::User => self.ids.settle(),
            _ => Ok(()),
        }
    }

    fn block(&mut self, block: &Block<'a>, out: &mut Vec<u8>) -> Result<(), Unfit> {
        match block.what {
            What::Part(part) => return self.part(part, block.at, block.index, out),
            What::Thought { text, seal } => thought(text, seal, out),
            What::Text { text, cache } => self.text(text, cache, out),
            What::Instruction { text, cache } => {
                self.text(&format!("<system>\n{text}\n</system>"), cache, out);
            }
        }
        Ok(())
    }

    fn text(&mut self, text: &str, cache: Option<Cache>, out: &mut Vec<u8>) {
        let mut object = Object::typed(out, "text");
        object.text("text", text);
        self.marks.put(Section::Messages, cache, &mut object);
        object.end();
    }

    fn part(&mut self, part: &'a Part<'a>, at: usize, index: usize, out: &mut Vec<u8>) -> Result<(), Unfit> {
        let field = |name: &str| format!("messages[{at}].content[{index}]{name}");
        let (mut object, cache) = match part {
            Part::Text { text, cache } => {
                self.text(text, *cache, out);
                return Ok(());
            }
            Part::Refusal { text } => {
                self.text(text, None, out);
                return Ok(());
            }
            Part::Image { source, detail, cache } => {
                if detail.as_deref().is_some_and(|detail| detail != "auto") {
                    self.dropped.add("image_url.detail");
                }
                let mut object = Object::typed(out, "image");
                image(source, object.key("source"), || field(".image_url"))?;
                (object, *cache)
            }
            Part::Document { source, name, context, cache } => {
                let mut object = Object::typed(out, "document");
                document(source, object.key("source"), || field(".file"))?;
                for (key, text) in [("title", name), ("context", context)] {
                    if let Some(text) = text.as_deref().filter(|text| !text.is_empty()) {
                        object.text(key, text);
                    }
                }
                (object, *cache)
            }
            Part::Audio { .. } => {
                return Err(Unfit::new(field(".input_audio"), "this model can't hear; send a transcript"));
            }
            Part::Call { id, name, arguments, cache } => {
                let mut object = Object::typed(out, "tool_use");
                let (id, call) = self.ids.call(id, at);
                object.text("id", &id);
                object.text("name", self.names.theirs(name));
                self.input(name, arguments, object.key("input")).map_err(|NoObject| {
                    let field = format!("messages[{at}].tool_calls[{call}].function.arguments");
                    Unfit::new(field, "the arguments of a call have to be a JSON object")
                })?;
                (object, *cache)
            }
            Part::Result { id, parts, is_error, cache } => {
                let mut object = Object::typed(out, "tool_result");
                object.text("tool_use_id", &self.ids.result(id, at)?);
                let mut said = parts.iter().enumerate().filter(|(_, part)| !is_blank(part)).peekable();
                let says_something = said.peek().is_some();
                if says_something {
                    try_list(object.key("content"), said, |(n, part), out| self.part(part, at, n, out))?;
                }
                // The provider takes no failure that says nothing.
                if *is_error && says_something {
                    object.json("is_error", "true");
                }
                (object, *cache)
            }
            Part::Thought(_) => return Err(Unfit::new(field(""), "only the assistant thinks")),
            Part::Foreign { kind } => {
                return Err(Unfit::new(field(""), format!("{kind} is known only where it comes from")));
            }
        };
        self.marks.put(Section::Messages, cache, &mut object);
        object.end();
        Ok(())
    }

    /// What a tool was called with: an object, in its own words. A free text is put into one, as [`wrap`] says.
    fn input(&self, name: &str, arguments: &Arguments<'_>, out: &mut Vec<u8>) -> Result<(), NoObject> {
        let free = self.tools.get(name).copied();
        match arguments {
            Arguments::Json(json) if free == Some(true) => wrap(&json.0, out),
            Arguments::Json(json) if json.0.trim_start().starts_with('{') => {
                out.extend_from_slice(json.0.trim().as_bytes());
            }
            // A tool that is not there any more may have been one that takes a text.
            Arguments::Free(text) if free == Some(true) => wrap(text, out),
            Arguments::Free(text) if text.trim().is_empty() => out.extend_from_slice(b"{}"),
            Arguments::Free(text) if is_object(text) => out.extend_from_slice(text.trim().as_bytes()),
            Arguments::Free(text) if free.is_none() => wrap(text, out),
            _ => return Err(NoObject),
        }
        Ok(())
    }
}

/// What a tool was called with is no object.
struct NoObject;

fn thought(text: &str, seal: &Seal<'_>, out: &mut Vec<u8>) {
    let object = match seal {
        Seal::Encrypted(data) => {
            let mut object = Object::typed(out, "redacted_thinking");
            object.text("data", data);
            object
        }
        Seal::Signature(signature) => {
            let mut object = Object::typed(out, "thinking");
            object.text("thinking", text);
            object.text("signature", signature);
            object
        }
    };
    object.end();
}

/// The input of a tool that takes free text: an object with the text in it.
pub(in super::super) fn wrap(text: &str, out: &mut Vec<u8>) {
    let mut object = Object::begin(out);
    object.text("input", text);
    object.end();
}

fn is_blank(part: &Part<'_>) -> bool {
    matches!(part, Part::Text { text, .. } if text.trim().is_empty())
}

fn image(source: &Source<'_>, out: &mut Vec<u8>, field: impl Fn() -> String) -> Result<(), Unfit> {
    match source {
        Source::Base64 { media_type, data } if IMAGES.contains(&&**media_type) => {
            base64(media_type, data, out);
            Ok(())
        }
        // What many call it, and what it is called.
        Source::Base64 { media_type, data } if media_type == "image/jpg" => {
            base64("image/jpeg", data, out);
            Ok(())
        }
        Source::Base64 { media_type, .. } => Err(Unfit::new(
            field(),
            format!("{media_type} is no picture that is taken; these are: {}", IMAGES.join(", ")),
        )),
        Source::Url(url) => {
            let mut object = Object::typed(out, "url");
            object.text("url", url);
            object.end();
            Ok(())
        }
        Source::File(_) => Err(Unfit::new(field(), FILE)),
        Source::Plain(_) => Err(Unfit::new(field(), "a picture is no text")),
    }
}

const FILE: &str = "a file that is kept by one provider is not known to another; send its bytes";

fn document(source: &Source<'_>, out: &mut Vec<u8>, field: impl Fn() -> String) -> Result<(), Unfit> {
    match source {
        Source::Base64 { media_type, data } if media_type == "application/pdf" => {
            base64(media_type, data, out);
        }
        Source::Base64 { media_type, .. } => {
            return Err(Unfit::new(
                field(),
                format!("of documents in base64 only application/pdf is taken, not {media_type}"),
            ));
        }
        Source::Url(url) => {
            let mut object = Object::typed(out, "url");
            object.text("url", url);
            object.end();
        }
        Source::Plain(text) => {
            let mut object = Object::typed(out, "text");
            object.text("media_type", "text/plain");
            object.text("data", text);
            object.end();
        }
        Source::File(_) => return Err(Unfit::new(field(), FILE)),
    }
    Ok(())
}

fn base64(media_type: &str, data: &str, out: &mut Vec<u8>) {
    let mut object = Object::typed(out, "base64");
    object.text("media_type", media_type);
    object.text("data", data);
    object.end();
}
