//! Chat Completions, read and written: each rule by itself. What two protocols make of each other is tested where
//! both are.

mod hear;
mod properties;
mod read;
mod speak;
mod thoughts;
mod write;

use super::*;
use crate::translate::canon::*;

/// Reads a request that can be read, and what of it was dropped.
fn read(body: &str) -> (Conversation<'_>, Vec<String>) {
    let mut dropped = Dropped::default();
    let read = CHAT_TONGUE.read(body.as_bytes(), &mut dropped);
    let read = read.unwrap_or_else(|unfit| panic!("{body}: {} {unfit}", unfit.field));
    (read, dropped.names().map(str::to_owned).collect())
}

/// The field that a request is refused for.
fn refused(body: &str) -> String {
    match CHAT_TONGUE.read(body.as_bytes(), &mut Dropped::default()) {
        Ok(read) => panic!("{body} was read as {read:?}"),
        Err(unfit) => unfit.field,
    }
}

/// A request with these members and one message.
fn with(members: &str) -> String {
    let comma = if members.is_empty() { "" } else { "," };
    format!(r#"{{"model":"m"{comma}{members},"messages":[{{"role":"user","content":"hi"}}]}}"#)
}

/// A request of these messages.
fn of(messages: &str) -> String {
    format!(r#"{{"model":"m","messages":[{messages}]}}"#)
}

fn text(text: &str) -> Part<'_> {
    Part::Text { text: text.into(), cache: None }
}

fn marked(text: &str, cache: Cache) -> Part<'_> {
    Part::Text { text: text.into(), cache: Some(cache) }
}

fn call<'a>(id: &'a str, arguments: &'a str) -> Part<'a> {
    let arguments = Arguments::Json(Json(arguments.into()));
    Part::Call { id: id.into(), name: "f".into(), arguments, cache: None }
}

fn turn(at: usize, role: Role, parts: Vec<Part<'_>>) -> Turn<'_> {
    Turn { at, role, parts }
}
