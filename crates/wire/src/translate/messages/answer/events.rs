//! A stream, read.
//!
//! Events are told apart by their type, by their name where they have none: some servers leave one of them out. Some
//! end with the sentinel of another protocol, or begin twice; both say nothing.

use serde::Deserialize;

use super::super::failure;
use super::super::json::{Raw, is_empty, part, text};
use super::Content;
use super::stop::Stopped;
use crate::dialect::{anthropic_usage, complaint};
use crate::sse::Event;
use crate::translate::Reader;
use crate::translate::canon::{Failure, Item};
use crate::watch::Usage;

/// Reads one stream.
#[derive(Default)]
pub(in super::super) struct Events {
    begun: bool,
    usage: Usage,
    /// Blocks of the provider's that are open.
    open: Vec<Open>,
    /// How many blocks have been opened.
    opened: u32,
}

struct Open {
    theirs: u64,
    /// None where what it is has no place in the canonical form.
    ours: Option<u32>,
    /// The input that was there from the start; what comes later takes its place.
    input: Option<String>,
}

#[derive(Deserialize)]
struct Said<'a> {
    #[serde(borrow, rename = "type")]
    kind: Raw<'a>,
    #[serde(borrow)]
    index: Raw<'a>,
    #[serde(borrow)]
    message: Raw<'a>,
    #[serde(borrow)]
    content_block: Raw<'a>,
    #[serde(borrow)]
    delta: Raw<'a>,
    #[serde(borrow)]
    usage: Raw<'a>,
}

#[derive(Deserialize)]
struct Beginning<'a> {
    #[serde(borrow)]
    id: Raw<'a>,
    #[serde(borrow)]
    model: Raw<'a>,
    #[serde(borrow)]
    usage: Raw<'a>,
}

#[derive(Deserialize)]
struct Delta<'a> {
    #[serde(borrow, rename = "type")]
    kind: Raw<'a>,
    #[serde(borrow)]
    text: Raw<'a>,
    #[serde(borrow)]
    partial_json: Raw<'a>,
    #[serde(borrow)]
    thinking: Raw<'a>,
    #[serde(borrow)]
    signature: Raw<'a>,
}

impl Reader for Events {
    fn event(&mut self, event: &Event<'_>, say: &mut dyn FnMut(Item<'_>)) {
        let data = event.data().trim_ascii();
        if data == b"[DONE]" {
            return;
        }
        if data.is_empty() {
            if event.name() == Some(b"ping") {
                say(Item::Ping);
            }
            return;
        }
        let said: Said<'_> = match serde_json::from_slice(data) {
            Ok(said) => said,
            Err(error) if error.is_data() => return,
            Err(_) => return say(garbled()),
        };
        let kind = text(said.kind);
        match kind.as_deref().map(str::as_bytes).or(event.name()).unwrap_or_default() {
            b"message_start" => self.begin(&said, say),
            b"content_block_start" => self.open(&said, say),
            b"content_block_delta" => self.add(&said, say),
            b"content_block_stop" => self.close(index(&said), say),
            b"message_delta" => self.stop(&said, say),
            b"message_stop" => say(Item::End),
            b"ping" => say(Item::Ping),
            b"error" => say(Item::Failed(failure::late(data))),
            // Errors come without a type, too.
            _ if complaint(data).is_some() => say(Item::Failed(failure::late(data))),
            _ => {}
        }
    }

    fn end(&mut self, _say: &mut dyn FnMut(Item<'_>)) {}
}

fn garbled() -> Item<'static> {
    Item::Failed(Failure {
        status: 502,
        code: None,
        message: "an event of the provider's stream is no JSON".into(),
        param: None,
    })
}

/// Blocks are numbered; who leaves the number out has one block at a time.
fn index(said: &Said<'_>) -> u64 {
    part(said.index).unwrap_or_default()
}

impl Events {
    fn begin(&mut self, said: &Said<'_>, say: &mut dyn FnMut(Item<'_>)) {
        if std::mem::replace(&mut self.begun, true) {
            return;
        }
        let message: Option<Beginning<'_>> = part(said.message);
        let (id, model, usage) = message.map_or((None, None, None), |m| (m.id, m.model, m.usage));
        say(Item::Start { id: text(id).unwrap_or_default(), model: text(model).unwrap_or_default() });
        self.count(usage, say);
    }

    fn count(&mut self, usage: Raw<'_>, say: &mut dyn FnMut(Item<'_>)) {
        if let Some(usage) = anthropic_usage(usage, self.usage) {
            self.usage = usage;
            say(Item::Usage(usage));
        }
    }

    fn open(&mut self, said: &Said<'_>, say: &mut dyn FnMut(Item<'_>)) {
        let Some(content) = part::<Content<'_>>(said.content_block) else { return };
        let theirs = index(said);
        self.close(theirs, say);
        let block = match content.block() {
            Ok(block) => block,
            Err(name) => {
                say(Item::Lost { name });
                return self.open.push(Open { theirs, ours: None, input: None });
            }
        };
        let index = self.opened;
        self.opened = self.opened.saturating_add(1);
        let input = content.input.filter(|input| !is_empty(input)).map(|input| input.get().to_owned());
        self.open.push(Open { theirs, ours: Some(index), input });
        say(Item::Open { index, block });
        if let Some(text) = content.said() {
            say(Item::Delta { index, text });
        }
        if let Some(signature) = content.sealed() {
            say(Item::Seal { index, signature });
        }
    }

    fn add(&mut self, said: &Said<'_>, say: &mut dyn FnMut(Item<'_>)) {
        let Some(delta) = part::<Delta<'_>>(said.delta) else { return };
        let theirs = index(said);
        let Some(open) = self.open.iter_mut().find(|open| open.theirs == theirs) else {
            return say(Item::Lost { name: "content_block_delta".into() });
        };
        let Some(index) = open.ours else { return };
        let more = match text(delta.kind).as_deref() {
            Some("text_delta") => delta.text,
            Some("thinking_delta") => delta.thinking,
            Some("input_json_delta") => {
                if delta.partial_json.is_some_and(|json| !is_empty(json)) {
                    open.input = None;
                }
                delta.partial_json
            }
            Some("signature_delta") => {
                if let Some(signature) = text(delta.signature).filter(|signature| !signature.is_empty()) {
                    say(Item::Seal { index, signature });
                }
                return;
            }
            Some("citations_delta") => return say(Item::Lost { name: "citations".into() }),
            kind => return say(Item::Lost { name: kind.unwrap_or("delta").to_owned().into() }),
        };
        match (more, text(more)) {
            (_, Some(text)) if !text.is_empty() => say(Item::Delta { index, text }),
            // What can't be read is not left out in silence.
            (Some(_), None) => say(garbled()),
            _ => {}
        }
    }

    fn close(&mut self, theirs: u64, say: &mut dyn FnMut(Item<'_>)) {
        let Some(at) = self.open.iter().position(|open| open.theirs == theirs) else { return };
        let open = self.open.remove(at);
        let Some(index) = open.ours else { return };
        if let Some(input) = open.input {
            say(Item::Delta { index, text: input.into() });
        }
        say(Item::Close { index });
    }

    fn stop(&mut self, said: &Said<'_>, say: &mut dyn FnMut(Item<'_>)) {
        if let Some(stop) = part::<Stopped<'_>>(said.delta).and_then(|stopped| stopped.read()) {
            while let Some(theirs) = self.open.first().map(|open| open.theirs) {
                self.close(theirs, say);
            }
            say(Item::Stop(stop));
        }
        self.count(said.usage, say);
    }
}
