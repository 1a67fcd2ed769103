//! The messages. What is written of a turn depends on it alone; only results of tools go before what else the user
//! says.

use super::parts::{self, Piece};
use super::{Way, tools};
use crate::translate::canon::{Arguments, Conversation, Part, Role, Seal, Text, Turn};
use crate::translate::json::{Object, put_list, put_text};
use crate::translate::names::plain;
use crate::translate::{Dropped, Unfit};

/// What a failed tool's result begins with; the protocol has no other sign of it.
const FAILED: &str = "Error: ";

/// The longest id of a call. Some servers make longer ones, which others refuse to see again.
const LONGEST_ID: usize = 40;

/// Stands for a result that has no text.
const ATTACHED: &str = "The result is in the next message of the user.";

/// Writes all messages, the instructions first.
pub(super) fn write(
    out: &mut Vec<u8>,
    said: &Conversation<'_>,
    way: &Way<'_>,
    dropped: &mut Dropped,
) -> Result<(), Unfit> {
    let mut list = List { out, empty: true };
    list.out.push(b'[');
    for instruction in &said.instructions {
        let mut message = list.message(instructor(way));
        message.text("content", &instruction.text);
        message.end();
    }
    let users = |a: &Turn<'_>, b: &Turn<'_>| a.role == Role::User && b.role == Role::User;
    for turns in said.turns.chunk_by(users) {
        for turn in turns {
            match turn.role {
                Role::System => system(&mut list, turn, way)?,
                Role::User => results(&mut list, turn)?,
                Role::Assistant => assistant(&mut list, turn, way, dropped)?,
            }
        }
        for turn in turns.iter().filter(|turn| turn.role == Role::User) {
            user(&mut list, turn)?;
        }
    }
    list.out.push(b']');
    Ok(())
}

/// Who gives instructions. Hosts that are not OpenAI know `system` only; OpenAI's models that reason know it as the
/// older name.
fn instructor(way: &Way<'_>) -> &'static str {
    if way.caps.is_some_and(|caps| caps.reasons) { "developer" } else { "system" }
}

/// Messages that follow each other.
struct List<'o> {
    out: &'o mut Vec<u8>,
    empty: bool,
}

impl List<'_> {
    /// Begins the next one.
    fn message(&mut self, role: &'static str) -> Object<'_> {
        if !std::mem::take(&mut self.empty) {
            self.out.push(b',');
        }
        let mut message = Object::begin(self.out);
        message.text("role", role);
        message
    }
}

/// Where in the client's request a part stands.
pub(super) fn path(turn: &Turn<'_>, part: usize) -> String {
    format!("messages[{}].content[{part}]", turn.at)
}

fn misplaced(turn: &Turn<'_>, part: usize) -> Unfit {
    Unfit::new(path(turn, part), "Such a block can't stand in a message of this role.")
}

fn system(list: &mut List<'_>, turn: &Turn<'_>, way: &Way<'_>) -> Result<(), Unfit> {
    let mut texts = Vec::with_capacity(turn.parts.len());
    for (at, part) in turn.parts.iter().enumerate() {
        let Part::Text { text, .. } = part else { return Err(misplaced(turn, at)) };
        texts.push(text);
    }
    let mut message = list.message(instructor(way));
    put_texts(message.key("content"), &texts);
    message.end();
    Ok(())
}

/// Results of tools become messages of their own. The provider wants those of all calls at once; so they come before
/// anything else that the user says, also where a client sends each by itself.
fn results(list: &mut List<'_>, turn: &Turn<'_>) -> Result<(), Unfit> {
    for (at, part) in turn.parts.iter().enumerate() {
        if let Part::Result { id, parts, is_error, .. } = part {
            let attached = !parts::attached(turn, at, parts)?.is_empty();
            result(list, &call_id(id), parts, *is_error, attached);
        }
    }
    Ok(())
}

/// The rest of a user's turn, and before it what of its results is no text.
fn user(list: &mut List<'_>, turn: &Turn<'_>) -> Result<(), Unfit> {
    let mut pieces = Vec::with_capacity(turn.parts.len());
    let mut had_results = false;
    for (at, part) in turn.parts.iter().enumerate() {
        if let Part::Result { id, parts, .. } = part {
            had_results = true;
            let attached = parts::attached(turn, at, parts)?;
            if !attached.is_empty() {
                pieces.push(Piece::Note(format!("Of the result of the call {}:", call_id(id))));
                pieces.extend(attached);
            }
        }
    }
    for (at, part) in turn.parts.iter().enumerate() {
        match part {
            Part::Result { .. } => {}
            Part::Call { .. } | Part::Thought(_) | Part::Refusal { .. } => return Err(misplaced(turn, at)),
            part => parts::pieces(turn, at, part, &mut pieces)?,
        }
    }
    if pieces.is_empty() && had_results {
        return Ok(());
    }
    let mut message = list.message("user");
    parts::put(message.key("content"), &pieces);
    message.end();
    Ok(())
}

fn result(list: &mut List<'_>, id: &str, parts: &[Part<'_>], is_error: bool, attached: bool) {
    let mut texts = parts::texts(parts);
    if texts.is_empty() && attached {
        texts.push(ATTACHED.into());
    }
    if is_error {
        let first = texts.first().map_or("", |text| &**text);
        let marked = format!("{FAILED}{first}").into();
        match texts.first_mut() {
            Some(first) => *first = marked,
            None => texts.push(marked),
        }
    }
    let mut message = list.message("tool");
    message.text("tool_call_id", &call_id(id));
    put_texts(message.key("content"), &texts);
    message.end();
}

/// One text as it is, several as parts.
fn put_texts(out: &mut Vec<u8>, texts: &[impl AsRef<str>]) {
    match texts {
        [] => put_text(out, ""),
        [text] => put_text(out, text.as_ref()),
        texts => put_list(out, texts, |text, out| parts::put_text_part(out, text.as_ref())),
    }
}

fn assistant(
    list: &mut List<'_>,
    turn: &Turn<'_>,
    way: &Way<'_>,
    dropped: &mut Dropped,
) -> Result<(), Unfit> {
    let (mut texts, mut calls, mut refusal, mut thoughts) = (Vec::new(), Vec::new(), None, String::new());
    for (at, part) in turn.parts.iter().enumerate() {
        match part {
            Part::Text { text, .. } => texts.push(text),
            Part::Refusal { text } => refusal = Some(text),
            Part::Thought(thought) if way.to.replays_thoughts => {
                thoughts.push_str(&thought.text);
                if matches!(thought.seal, Some(Seal::Encrypted(_))) {
                    dropped.add("messages.thinking");
                }
            }
            Part::Thought(_) => dropped.add("messages.thinking"),
            Part::Call { id, name, arguments, .. } => calls.push((&**id, &**name, arguments)),
            Part::Foreign { kind } => return Err(parts::foreign(turn, at, kind)),
            _ => return Err(misplaced(turn, at)),
        }
    }
    let mut message = list.message("assistant");
    match (texts.is_empty(), calls.is_empty() && refusal.is_none()) {
        (true, false) => message.json("content", "null"),
        _ => put_texts(message.key("content"), &texts),
    }
    message.maybe("refusal", refusal.map(|text| &**text));
    // Such a provider refuses calls that come back without any thought.
    if !thoughts.is_empty() || (way.to.replays_thoughts && !calls.is_empty()) {
        message.text("reasoning_content", &thoughts);
    }
    if !calls.is_empty() {
        put_list(message.key("tool_calls"), calls, |(id, name, arguments), out| {
            call(out, id, name, arguments, way)
        });
    }
    message.end();
    Ok(())
}

/// The id of a call, the same wherever it is named.
fn call_id(id: &str) -> Text<'_> {
    if id.len() > LONGEST_ID { plain(id, LONGEST_ID) } else { Text::Borrowed(id) }
}

fn call(out: &mut Vec<u8>, id: &str, name: &str, arguments: &Arguments<'_>, way: &Way<'_>) {
    let mut object = Object::begin(out);
    object.text("id", &call_id(id));
    let kind = tools::kind(name, way);
    object.text("type", kind);
    let mut inner = object.object(kind);
    inner.text("name", way.names.theirs(name));
    let key = if kind == "custom" { "input" } else { "arguments" };
    match arguments {
        Arguments::Json(json) => inner.text(key, &json.0),
        Arguments::Free(text) => inner.text(key, text),
    }
    inner.end();
    object.end();
}
