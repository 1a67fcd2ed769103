//! A request in this protocol's words.
//!
//! Its members stand in a fixed order, the messages last, and each message's content is a list, so that a longer
//! conversation begins with the bytes of the shorter one. What a model takes is data, not code: [`claude_caps`].

mod arrange;
mod blocks;
mod ids;
mod marks;
mod parameters;
mod thinking;
mod tools;
mod turns;

use self::blocks::Pen;
pub(super) use self::blocks::wrap;
use self::ids::Ids;
use self::marks::{Marks, Section};
use self::thinking::Think;
use self::tools::Offer;
use self::turns::{Message, What};
use crate::translate::canon::{Cache, Conversation, Format, Part, Role, Takes};
use crate::translate::claude_caps::{self, Claude};
use crate::translate::json::{Object, try_list};
use crate::translate::{Destination, Dropped, Names, Unfit};

/// What stands in for a form that the provider does not have.
const ANY_OBJECT: &str = "Answer with one JSON object and nothing else.";

pub(super) fn write(
    said: &Conversation<'_>,
    to: &Destination<'_>,
    dropped: &mut Dropped,
) -> Result<(Vec<u8>, Names), Unfit> {
    let model = claude_caps::of(to.model);
    let names = tools::names(said);
    let offer = Offer::of(said)?;
    let messages = turns::turns(said, model, dropped)?;
    let think = thinking::think(said, model, goes_on(&messages), dropped);
    prefill(&messages, model)?;
    if said.verbosity.is_some() {
        dropped.add("verbosity");
    }

    let mut out = Vec::with_capacity(1024);
    let mut marks = Marks::default();
    let mut body = Object::begin(&mut out);
    body.text("model", to.model);
    body.number("max_tokens", thinking::limit(said, model, to.default_limit));
    system(said, &mut marks, &mut body, dropped);
    if !offer.is_empty() {
        offer.write(&names, &mut marks, body.key("tools"))?;
    }
    tools::choice(said, &offer, &names, model, matches!(think, Think::Budget(_)), &mut body)?;
    thinking::write(think, said, model, &mut body);
    parameters::output(said, think, &mut body);
    parameters::sampling(said, model, think, &mut body, dropped)?;
    parameters::stops(said, &mut body, dropped)?;
    parameters::end_user(said, &mut body);
    parameters::tier(said.tier, model, &mut body, dropped);
    marks.put(Section::Whole, said.cache, &mut body);
    if said.stream {
        body.json("stream", "true");
    }
    let tools = said.tools.iter().map(|tool| (&*tool.name, matches!(tool.takes, Takes::Text { .. })));
    let tools = tools.collect();
    let mut pen = Pen { names: &names, tools, ids: Ids::default(), marks: &mut marks, dropped };
    try_list(body.key("messages"), &messages, |message, out| pen.message(message, out))?;
    pen.ids.settle()?;
    body.end();
    Ok((marks.thin(out), names))
}

/// Writes the instructions, one block for each text that the client kept apart.
fn system(said: &Conversation<'_>, marks: &mut Marks, body: &mut Object<'_>, dropped: &mut Dropped) {
    let form = matches!(said.format, Some(Format::Object)).then_some((ANY_OBJECT, None::<Cache>));
    if form.is_some() {
        dropped.add("response_format");
    }
    let texts = said.instructions.iter().map(|instruction| (&*instruction.text, instruction.cache));
    let mut texts = texts.filter(|(text, _)| !text.trim().is_empty()).chain(form).peekable();
    if texts.peek().is_none() {
        return;
    }
    let Ok(()) = try_list(body.key("system"), texts, |(text, cache), out| {
        let mut block = Object::typed(out, "text");
        block.text("text", text);
        marks.put(Section::System, cache, &mut block);
        block.end();
        Ok::<(), std::convert::Infallible>(())
    });
}

/// Whether a model with a budget of thoughts goes on from these messages.
fn goes_on(messages: &[Message<'_>]) -> bool {
    let mut turns = messages.iter().rev().filter(|message| message.role != Role::System);
    match (turns.next(), turns.next()) {
        (Some(last), _) if last.role == Role::Assistant => false,
        (Some(last), Some(before)) if last.blocks.iter().any(|block| block.what.is_result()) => {
            before.blocks.first().is_some_and(|block| block.what.is_thought())
        }
        _ => true,
    }
}

/// That the model goes on from a last message of the assistant, if there is one.
fn prefill(messages: &[Message<'_>], model: &Claude) -> Result<(), Unfit> {
    let Some(last) = messages.last().filter(|last| last.role == Role::Assistant) else { return Ok(()) };
    let Some(block) = last.blocks.last() else { return Ok(()) };
    let unfit = |message| Err(Unfit::new(format!("messages[{}]", block.at), message));
    match block.what {
        // It waits for its results, and they are missing.
        What::Part(Part::Call { .. }) => Ok(()),
        _ if !model.prefill => {
            unfit("this model does not go on from an assistant's message: the last one has to be the user's")
        }
        What::Text { text, .. } if text.ends_with(char::is_whitespace) => {
            unfit("an assistant's message that the model goes on from can't end with white space")
        }
        _ => Ok(()),
    }
}
