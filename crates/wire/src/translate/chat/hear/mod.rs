//! Answers of a provider: streams, and whole ones, which are a stream of one chunk.
//!
//! Hosts differ: some leave out roles, ids or indices, some send usage with every chunk, some an empty chunk before
//! all others. What can be understood is; what is no JSON, or makes a second answer of the first, is a failure.

mod blocks;
mod chunk;

use serde_json::value::RawValue;

use self::blocks::Blocks;
use self::chunk::{Choice, Chunk, Delta};
use super::failure;
use super::json::plain_text;
use crate::dialect::complaint;
use crate::dialect::openai_usage;
use crate::dialect::{Raw, part};
use crate::fold::json::is_blank;
use crate::sse::Event;
use crate::translate::Reader;
use crate::translate::canon::{Failure, Item, Reason, Stop, Text};

/// No request asks for as many choices: a larger index is nonsense.
const CHOICES: u64 = 128;

/// A stream on its way in.
#[derive(Default)]
pub(super) struct Chunks {
    started: bool,
    stopped: bool,
    /// It ended or failed.
    over: bool,
    blocks: Blocks,
}

impl Reader for Chunks {
    fn event(&mut self, event: &Event<'_>, say: &mut dyn FnMut(Item<'_>)) {
        let data = event.data().trim_ascii();
        if self.over || data.is_empty() {
            return;
        }
        if data == b"[DONE]" {
            return self.done(&mut |item| say(item));
        }
        match serde_json::from_slice(data) {
            Ok(chunk) => self.chunk(chunk, data, event.name(), false, &mut |item| say(item)),
            Err(_) => self.fail(failure::found(GARBLED), &mut |item| say(item)),
        }
    }

    /// Some hosts leave the last word out: who has said why the model stopped has said all.
    fn end(&mut self, say: &mut dyn FnMut(Item<'_>)) {
        if self.stopped && !self.over {
            self.done(&mut |item| say(item));
        }
    }
}

const GARBLED: &str = "The provider's answer holds something that is no chunk of this protocol.";
const EMPTY: &str = "The provider ended its answer before it began.";
const WENT_ON: &str = "The provider's answer went on after its end.";
const INDEX: &str = "The provider's answer has a choice of an index that can't be.";
const NAMELESS: &str = "The provider's answer calls a tool without naming it.";
const BROKE_OFF: &str = "The provider says that its answer broke off.";

/// Reads a whole answer. None where it is neither an answer nor an error.
pub(super) fn answer(body: &[u8]) -> Option<Vec<Item<'_>>> {
    let chunk: Chunk<'_> = serde_json::from_slice(body).ok()?;
    let mut items = Vec::with_capacity(8);
    let mut chunks = Chunks::default();
    chunks.chunk(chunk, body, None, true, &mut |item| items.push(item));
    if chunks.started && !chunks.over {
        chunks.done(&mut |item| items.push(item));
    }
    let is_answer = items.iter().any(|item| matches!(item, Item::Start { .. } | Item::Failed(_)));
    is_answer.then_some(items)
}

impl Chunks {
    fn chunk<'a>(
        &mut self,
        chunk: Chunk<'a>,
        data: &'a [u8],
        name: Option<&[u8]>,
        whole: bool,
        say: &mut dyn FnMut(Item<'a>),
    ) {
        // What is neither an error nor has choices says nothing.
        let odd = chunk.error.is_some() || chunk.choices.is_none();
        if name == Some(b"error") || (odd && complaint(data).is_some()) {
            return self.fail(failure::read_late(data), say);
        }
        for choice in chunk.choices.iter().flatten() {
            let index = match choice.index.map(RawValue::get) {
                None => 0,
                Some(digits) => match digits.parse() {
                    Ok(index) if index < CHOICES => index,
                    _ => return self.fail(failure::found(INDEX), say),
                },
            };
            if index > 0 {
                say(Item::Lost { name: "choices".into() });
                continue;
            }
            self.start(&chunk, say);
            self.choice(choice, whole, say);
            if self.over {
                return;
            }
        }
        self.usage(&chunk, say);
    }

    fn start<'a>(&mut self, chunk: &Chunk<'a>, say: &mut dyn FnMut(Item<'a>)) {
        if std::mem::replace(&mut self.started, true) {
            return;
        }
        let text = |raw: Raw<'a>| raw.and_then(plain_text).unwrap_or_default();
        let id = text(chunk.id);
        self.blocks.name(&id);
        say(Item::Start { id, model: text(chunk.model) });
    }

    fn choice<'a>(&mut self, choice: &Choice<'a>, whole: bool, say: &mut dyn FnMut(Item<'a>)) {
        if let Some(error) = choice.error.filter(|raw| !is_blank(raw)) {
            return self.fail(failure::read_part(error), say);
        }
        for delta in [&choice.delta, &choice.message].into_iter().flatten() {
            if self.stopped && delta.says_something() {
                return self.fail(failure::found(WENT_ON), say);
            }
            if self.blocks.add(delta, whole, say).is_none() {
                return self.fail(failure::found(GARBLED), say);
            }
            lost(delta, say);
        }
        if let Some(word) = choice.finish_reason.and_then(plain_text).filter(|word| !word.is_empty()) {
            self.stop(word, say);
        }
    }

    /// Some hosts say it twice.
    fn stop<'a>(&mut self, word: Text<'a>, say: &mut dyn FnMut(Item<'a>)) {
        let reason = match &*word {
            "stop" | "eos" | "end_turn" => Reason::Done,
            "length" | "model_length" | "max_tokens" => Reason::Length,
            "tool_calls" | "function_call" => Reason::Tools,
            "content_filter" => Reason::Filtered,
            "error" => return self.fail(failure::found(BROKE_OFF), say),
            _ => Reason::Other,
        };
        self.stop_for(reason, word, say);
    }

    fn stop_for<'a>(&mut self, reason: Reason, raw: Text<'a>, say: &mut dyn FnMut(Item<'a>)) {
        if std::mem::replace(&mut self.stopped, true) {
            return;
        }
        if !self.blocks.close(say) {
            return self.fail(failure::found(NAMELESS), say);
        }
        let refusal = self.blocks.refusal();
        // A model that refuses has said all that it will.
        let reason = if refusal.is_some() && reason == Reason::Done { Reason::Filtered } else { reason };
        say(Item::Stop(Stop { reason, sequence: None, detail: refusal.map(Text::Owned), raw }));
    }

    fn usage<'a>(&mut self, chunk: &Chunk<'a>, say: &mut dyn FnMut(Item<'a>)) {
        let groq = || part::<chunk::Groq<'a>>(chunk.x_groq).and_then(|groq| openai_usage(groq.usage));
        if self.started
            && let Some(usage) = openai_usage(chunk.usage).or_else(groq)
        {
            say(Item::Usage(usage));
        }
    }

    fn done<'a>(&mut self, say: &mut dyn FnMut(Item<'a>)) {
        if !self.started {
            return self.fail(failure::found(EMPTY), say);
        }
        // The last word is there: what is missing is only the reason.
        self.stop_for(Reason::Other, Text::default(), say);
        if !self.over {
            self.over = true;
            say(Item::End);
        }
    }

    fn fail<'a>(&mut self, failure: Failure<'a>, say: &mut dyn FnMut(Item<'a>)) {
        self.over = true;
        say(Item::Failed(failure));
    }
}

/// What an answer holds that was never asked for, or has no place elsewhere.
fn lost<'a>(delta: &Delta<'a>, say: &mut dyn FnMut(Item<'a>)) {
    let members =
        [("annotations", delta.annotations), ("audio", delta.audio), ("function_call", delta.function_call)];
    // Gemini's signatures of calls stand there.
    let calls =
        delta.tool_calls.iter().flatten().map(|call| ("tool_calls.extra_content", call.extra_content));
    for (name, raw) in members.into_iter().chain(calls) {
        if raw.is_some_and(|raw| !is_blank(raw)) {
            say(Item::Lost { name: name.into() });
        }
    }
}
